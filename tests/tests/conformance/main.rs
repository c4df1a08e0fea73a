//! What Kubernetes clients rely on, with a real server: the recordings of kube-apiserver replayed, and what no
//! recording shows. A file is a section of the protocol; each test has its own server.
#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm)]

mod bookmarks;
mod differences;
mod discovery;
mod encodings;
mod errors;
mod expired;
mod life;
mod lists;
mod recording;
mod replay;
mod shapes;
mod watches;
mod websocket;

use revcast_tests::client::Client;
use serde_json::{Value, json};

/// Creates a ConfigMap; returns its revision.
pub(crate) fn create(client: &Client, namespace: &str, name: &str, k: &str) -> u64 {
    let object = json!({"metadata": {"name": name, "labels": {"app": "a"}}, "data": {"k": k}});
    let reply = client.send("POST", &format!("/api/v1/namespaces/{namespace}/configmaps"), &object);
    assert_eq!(reply.status, 201, "{}", reply.text());
    revision(&reply.json())
}

/// Changes a ConfigMap's data; returns its new revision.
pub(crate) fn update(client: &Client, namespace: &str, name: &str, k: &str) -> u64 {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
    let reply = client.patch(&path, "merge-patch", &json!({"data": {"k": k}}));
    assert_eq!(reply.status, 200, "{}", reply.text());
    revision(&reply.json())
}

/// Deletes a ConfigMap.
pub(crate) fn delete(client: &Client, namespace: &str, name: &str) {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
    assert_eq!(client.request("DELETE", &path, &[], &[]).status, 200);
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

/// Names of the items of a list.
pub(crate) fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("no items in {list}"));
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// `ADDED name`, for events of a watch.
pub(crate) fn told(event: &(String, Value)) -> String {
    format!("{} {}", event.0, event.1["metadata"]["name"].as_str().unwrap_or_default())
}
