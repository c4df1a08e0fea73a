//! The tables of the list/watch protocol, over HTTP with a real server: a row is data, a query and its expected reply.
//! A file is one table; each test has its own server, and waits run in parallel.
#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm)]

mod fields;
mod labels;
mod odd;
mod options;
mod places;
mod pods;
mod transitions;
mod versions;
mod watchlist;
mod writes;

use revcast_tests::client::{Client, Response};
use serde_json::{Value, json};

/// The collection of most tables.
pub(crate) const MAPS: &str = "/api/v1/namespaces/t/configmaps";

/// Text as a part of a query, with every special byte escaped.
pub(crate) fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Creates an object; returns it.
pub(crate) fn post(client: &Client, path: &str, object: &Value) -> Value {
    let reply = client.send("POST", path, object);
    assert_eq!(reply.status, 201, "POST {path} {object}: {}", reply.text());
    reply.json()
}

/// A ConfigMap with these labels.
pub(crate) fn map(name: &str, labels: &Value) -> Value {
    json!({"metadata": {"name": name, "labels": labels}, "data": {"k": "v"}})
}

/// The names of the items of a list, or of the rows of a table.
pub(crate) fn names(list: &Value) -> String {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("no items in {list}"));
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

/// The names of the objects that a watch sends as its initial events.
pub(crate) fn initial_names(client: &Client, path_and_query: &str) -> String {
    let mark = if path_and_query.contains('?') { '&' } else { '?' };
    let path = format!("{path_and_query}{mark}watch=1&allowWatchBookmarks=true");
    let mut watch = client.watch(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut names = Vec::new();
    loop {
        match watch.next_event() {
            (kind, object) if kind == "ADDED" => {
                names.push(object["metadata"]["name"].as_str().unwrap().to_owned());
            }
            (kind, object) => {
                assert_eq!(kind, "BOOKMARK", "{path}: {object}");
                return names.join(" ");
            }
        }
    }
}

/// The revision of an object or a list.
pub(crate) fn revision(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no revision in {object}"))
}

/// The newest revision.
pub(crate) fn newest(client: &Client) -> u64 {
    revision(&client.get("/api/v1/namespaces/nobody/secrets").json())
}

/// `ADDED name`, for an event.
pub(crate) fn told((kind, object): &(String, Value)) -> String {
    format!("{kind} {}", object["metadata"]["name"].as_str().unwrap_or_default())
}

/// Asserts that a reply is exactly this failure: `details` as JSON, "" for none.
pub(crate) fn assert_failure(
    reply: &Response,
    (code, reason, message): (u16, &str, &str),
    details: &str,
    what: &str,
) {
    // As Go writes them.
    let quoted = Value::from(message).to_string();
    let quoted = quoted.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    let details = if details.is_empty() { String::new() } else { format!("\"details\":{details},") };
    let expected = format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":{quoted},"reason":"{reason}",{details}"code":{code}}}"#
    );
    assert_eq!((reply.status, reply.text().trim_end()), (code, expected.as_str()), "{what}");
    assert_eq!(reply.header("content-type"), Some("application/json"), "{what}");
}

/// The `details` of a 422 of the options `kind`, with these causes: reason, message, field.
pub(crate) fn invalid_options(kind: &str, causes: &[(&str, &str, &str)]) -> (String, String) {
    let list: Vec<Value> = causes
        .iter()
        .map(|(reason, message, field)| json!({"reason": reason, "message": message, "field": field}))
        .collect();
    let details = format!(r#"{{"group":"meta.k8s.io","kind":"{kind}","causes":{}}}"#, Value::from(list));
    let lines: Vec<String> = causes.iter().map(|(_, message, field)| format!("{field}: {message}")).collect();
    let lines = if lines.len() == 1 { lines[0].clone() } else { format!("[{}]", lines.join(", ")) };
    (format!("{kind}.meta.k8s.io \"\" is invalid: {lines}"), details)
}
