//! The parameters of LIST and WATCH besides selectors and revisions: how each value is read, and the errors of invalid
//! ones.

use std::time::{Duration, Instant};

use revcast_tests::client::Client;
use revcast_tests::server::Server;
use serde_json::json;

use crate::{MAPS, assert_failure, invalid_options, map, names, newest, post, told};

const CURL: (&str, &str) = ("User-Agent", "curl/8.1");
const TABLE: (&str, &str) = ("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io");

fn three(client: &Client) {
    for name in ["a", "b", "c"] {
        post(client, MAPS, &map(name, &json!({"app": name})));
    }
}

/// Query, and whether it is a watch.
const WATCH: &[(&str, bool)] = &[
    ("", false),
    ("watch=true", true),
    ("watch=1", true),
    ("watch=True", true),
    ("watch=maybe", true),
    ("watch=", true),
    ("watch", true),
    ("watch=no", true),
    ("watch=00", true),
    ("watch=0", false),
    ("watch=false", false),
    ("watch=FALSE", false),
    ("watch=False", false),
    ("Watch=true", false),
    ("watch=false&watch=true", false),
    ("watch=true&watch=false", true),
];

#[test]
fn watch_or_not() {
    let server = Server::start(&[]);
    let client = server.client();
    three(&client);
    // The state of resourceVersion=0 is at least as new as that.
    newest(&client);
    for (query, watches) in WATCH {
        let path = format!("{MAPS}?{query}&resourceVersion=0");
        match client.watch(&path) {
            Ok(mut watch) if *watches => assert_eq!(told(&watch.next_event()), "ADDED a", "{query}"),
            other => {
                assert!(!watches, "{query} is a watch: {other:?}");
                assert_eq!(names(&client.get(&path).json()), "a b c", "{query}");
            }
        }
    }
}

/// Query of a LIST, and the names that it shows.
const LISTS: &[(&str, &str)] = &[
    ("limit=0", "a b c"),
    ("limit=-1", "a b c"),
    ("limit=-9223372036854775808", "a b c"),
    ("limit=1", "a"),
    ("limit=%2B1", "a"),
    ("limit=01", "a"),
    ("limit=3", "a b c"),
    ("limit=9223372036854775807", "a b c"),
    ("limit=1&limit=2", "a"),
    ("limit=1&resourceVersion=0", "a b c"),
    ("limit=1&resourceVersion=0&resourceVersionMatch=NotOlderThan", "a b c"),
    ("limit=1&labelSelector=app%3Db", "b"),
    ("timeoutSeconds=0", "a b c"),
    ("timeoutSeconds=1", "a b c"),
    ("timeoutSeconds=-1", "a b c"),
    ("timeout=30s", "a b c"),
    ("timeout=nonsense", "a b c"),
    ("allowWatchBookmarks=true", "a b c"),
    ("allowWatchBookmarks=nonsense", "a b c"),
    ("export=true", "a b c"),
    ("includeObject=Nonsense", "a b c"),
    ("shardSelector=nonsense", "a b c"),
    ("bogus=1&b%20c=%20", "a b c"),
    ("resourceVersion=", "a b c"),
    ("resourceVersionMatch=", "a b c"),
    ("continue=", "a b c"),
    ("pretty=maybe", "a b c"),
    ("&", "a b c"),
    ("&&limit=2&&", "a b"),
];

/// Query, and its error on both LIST and WATCH.
const NUMBERS: &[(&str, &str)] = &[
    ("limit=abc", "strconv.ParseInt: parsing \"abc\": invalid syntax"),
    ("limit=", "strconv.ParseInt: parsing \"\": invalid syntax"),
    ("limit", "strconv.ParseInt: parsing \"\": invalid syntax"),
    ("limit=1.5", "strconv.ParseInt: parsing \"1.5\": invalid syntax"),
    ("limit=%201", "strconv.ParseInt: parsing \" 1\": invalid syntax"),
    ("limit=0x10", "strconv.ParseInt: parsing \"0x10\": invalid syntax"),
    ("limit=9223372036854775808", "strconv.ParseInt: parsing \"9223372036854775808\": value out of range"),
    ("limit=-9223372036854775809", "strconv.ParseInt: parsing \"-9223372036854775809\": value out of range"),
    ("timeoutSeconds=abc", "strconv.ParseInt: parsing \"abc\": invalid syntax"),
    ("timeoutSeconds=", "strconv.ParseInt: parsing \"\": invalid syntax"),
    ("timeoutSeconds=1s", "strconv.ParseInt: parsing \"1s\": invalid syntax"),
    (
        "timeoutSeconds=99999999999999999999",
        "strconv.ParseInt: parsing \"99999999999999999999\": value out of range",
    ),
    ("timeoutSeconds=x&limit=y", "strconv.ParseInt: parsing \"x\": invalid syntax"),
];

#[test]
fn lists() {
    let server = Server::start(&[]);
    let client = server.client();
    three(&client);
    for (query, expected) in LISTS {
        let reply = client.get(&format!("{MAPS}?{query}"));
        assert_eq!(reply.status, 200, "{query}: {}", reply.text());
        assert_eq!(names(&reply.json()), *expected, "{query}");
    }
    for (query, message) in NUMBERS {
        for watch in ["", "&watch=true"] {
            let reply = client.get(&format!("{MAPS}?{query}{watch}"));
            assert_failure(&reply, (400, "BadRequest", message), "", query);
        }
        let reply = client.request("DELETE", &format!("{MAPS}?{query}"), &[], &[]);
        assert_failure(&reply, (400, "BadRequest", message), "", query);
        assert_eq!(
            client.get(&format!("{MAPS}/a?{query}")).status,
            200,
            "a GET has no such parameter: {query}"
        );
    }
    assert_eq!(names(&client.get(MAPS).json()), "a b c");
    // Parameters of a GET of one object only.
    let gone = "the export parameter, deprecated since v1.14, is no longer supported";
    for query in ["export=true", "export=1", "export=maybe", "export=", "export"] {
        assert_failure(&client.get(&format!("{MAPS}/a?{query}")), (400, "BadRequest", gone), "", query);
    }
    for query in ["export=false", "export=0", "export=FALSE", "watch=true", "watch=1&timeoutSeconds=1", "x=y"]
    {
        let reply = client.get(&format!("{MAPS}/a?{query}"));
        assert_eq!((reply.status, &reply.json()["kind"]), (200, &json!("ConfigMap")), "{query}");
    }
    // Parameters of a Table only.
    for (query, object) in [
        ("", json!("PartialObjectMetadata")),
        ("includeObject=", json!("PartialObjectMetadata")),
        ("includeObject=Metadata", json!("PartialObjectMetadata")),
        ("includeObject=Object", json!("ConfigMap")),
    ] {
        let table = client.request("GET", &format!("{MAPS}?{query}"), &[TABLE], &[]).json();
        assert_eq!(table["rows"][0]["object"]["kind"], object, "{query}");
    }
    let none = client.request("GET", &format!("{MAPS}?includeObject=None"), &[TABLE], &[]).json();
    assert!(none["rows"][0]["object"].is_null() && none["rows"].as_array().unwrap().len() == 3);
    let wrong = client.request("GET", &format!("{MAPS}?includeObject=none"), &[TABLE], &[]);
    assert_eq!((wrong.status, wrong.json()["reason"].as_str()), (400, Some("BadRequest")));
}

/// Query, whether the agent is curl, and whether the reply is indented.
const PRETTY: &[(&str, bool, bool)] = &[
    ("", false, false),
    ("", true, true),
    ("pretty=true", false, true),
    ("pretty=1", false, true),
    ("pretty=T", false, true),
    ("pretty=false", true, false),
    ("pretty=0", true, false),
    ("pretty=maybe", true, false),
    ("pretty=", true, true),
    ("pretty", false, false),
    ("pretty=false&pretty=true", false, false),
];

#[test]
fn layout() {
    let server = Server::start(&[]);
    let client = server.client();
    three(&client);
    for (query, curl, indented) in PRETTY {
        let headers: &[(&str, &str)] = if *curl { &[CURL] } else { &[] };
        for path in
            [format!("{MAPS}/a"), MAPS.to_owned(), format!("{MAPS}/none"), "/api/v1/nothing".to_owned()]
        {
            let text = client.request("GET", &format!("{path}?{query}"), headers, &[]).text();
            assert_eq!(text.starts_with("{\n  \"kind\": "), *indented, "{path}?{query}: {text}");
            assert_eq!(text.ends_with('\n'), !indented, "{path}?{query}");
        }
    }
    // A stream is always compact.
    let mut watch = client.watch_as(&format!("{MAPS}?watch=1&pretty=true"), &[CURL]).unwrap();
    assert!(watch.next_line().unwrap().unwrap().starts_with(r#"{"type":"ADDED","object":{"kind":"#));
}

const FORBIDDEN: &str = "FieldValueForbidden";
const UNSUPPORTED: &str = "FieldValueNotSupported";
const MATCH: &str = "resourceVersionMatch";
const NEEDS_VERSION: (&str, &str, &str) =
    (FORBIDDEN, "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided", MATCH);
const WITH_CONTINUE: (&str, &str, &str) =
    (FORBIDDEN, "Forbidden: resourceVersionMatch is forbidden when continue is provided", MATCH);
const EXACT_ZERO: (&str, &str, &str) =
    (FORBIDDEN, "Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"", MATCH);
const NOT_FOR_LIST: (&str, &str, &str) =
    (FORBIDDEN, "Forbidden: sendInitialEvents is forbidden for list", "sendInitialEvents");
const FOO: (&str, &str, &str) =
    (UNSUPPORTED, "Unsupported value: \"Foo\": supported values: \"Exact\", \"NotOlderThan\", \"\"", MATCH);
const NEEDS_MATCH: (&str, &str, &str) =
    (FORBIDDEN, "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan", MATCH);
const NEEDS_INITIAL: (&str, &str, &str) = (
    FORBIDDEN,
    "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
    MATCH,
);
const EXACT_WATCH: (&str, &str, &str) =
    (UNSUPPORTED, "Unsupported value: \"Exact\": supported values: \"NotOlderThan\"", MATCH);
const FOO_WATCH: (&str, &str, &str) =
    (UNSUPPORTED, "Unsupported value: \"Foo\": supported values: \"NotOlderThan\"", MATCH);

/// Query, and its causes.
type Row = (&'static str, &'static [(&'static str, &'static str, &'static str)]);

const INVALID: &[Row] = &[
    ("resourceVersionMatch=Exact", &[NEEDS_VERSION]),
    ("resourceVersionMatch=NotOlderThan", &[NEEDS_VERSION]),
    ("resourceVersionMatch=Foo", &[NEEDS_VERSION, FOO]),
    ("resourceVersionMatch=Foo&resourceVersion=1", &[FOO]),
    (
        "resourceVersionMatch=exact&resourceVersion=1",
        &[(
            UNSUPPORTED,
            "Unsupported value: \"exact\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
            MATCH,
        )],
    ),
    ("resourceVersionMatch=Exact&resourceVersion=0", &[EXACT_ZERO]),
    ("resourceVersionMatch=Exact&continue=x", &[NEEDS_VERSION, WITH_CONTINUE]),
    ("resourceVersionMatch=Exact&continue=x&resourceVersion=1", &[WITH_CONTINUE]),
    ("resourceVersionMatch=Exact&continue=x&resourceVersion=0", &[WITH_CONTINUE, EXACT_ZERO]),
    ("resourceVersionMatch=Foo&continue=x", &[NEEDS_VERSION, WITH_CONTINUE, FOO]),
    ("sendInitialEvents=true", &[NOT_FOR_LIST]),
    ("sendInitialEvents=false", &[NOT_FOR_LIST]),
    ("sendInitialEvents=", &[NOT_FOR_LIST]),
    ("sendInitialEvents=true&resourceVersionMatch=NotOlderThan", &[NEEDS_VERSION, NOT_FOR_LIST]),
    ("sendInitialEvents=true&resourceVersionMatch=Foo", &[NEEDS_VERSION, FOO, NOT_FOR_LIST]),
    ("resourceVersionMatch=Exact&resourceVersion=0&fieldSelector=data.k%3Dv", &[EXACT_ZERO]),
    ("watch=1&sendInitialEvents=true", &[NEEDS_MATCH]),
    ("watch=1&sendInitialEvents=false", &[NEEDS_MATCH]),
    ("watch=1&sendInitialEvents=true&resourceVersion=0", &[NEEDS_MATCH]),
    ("watch=1&sendInitialEvents=true&resourceVersionMatch=Exact", &[NEEDS_MATCH, EXACT_WATCH]),
    ("watch=1&sendInitialEvents=true&resourceVersionMatch=Foo", &[NEEDS_MATCH, FOO_WATCH]),
    ("watch=1&resourceVersionMatch=NotOlderThan", &[NEEDS_INITIAL]),
    ("watch=1&resourceVersionMatch=NotOlderThan&resourceVersion=1", &[NEEDS_INITIAL]),
    ("watch=1&resourceVersionMatch=Exact&resourceVersion=1", &[NEEDS_INITIAL, EXACT_WATCH]),
    ("watch=1&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&continue=x", &[WITH_CONTINUE]),
    ("watch=1&continue=x", &[WITH_CONTINUE]),
    ("watch=1&continue=x&resourceVersion=0", &[WITH_CONTINUE]),
    ("watch=1&sendInitialEvents=true&resourceVersion=abc", &[NEEDS_MATCH]),
];

#[test]
fn parameters_that_do_not_go_together() {
    let server = Server::start(&[]);
    let client = server.client();
    three(&client);
    for (query, causes) in INVALID {
        let (message, details) = invalid_options("ListOptions", causes);
        let failure = (422, "Invalid", message.as_str());
        assert_failure(&client.get(&format!("{MAPS}?{query}")), failure, &details, query);
        if !query.contains("watch") {
            let reply = client.request("DELETE", &format!("{MAPS}?{query}"), &[], &[]);
            assert_failure(&reply, failure, &details, query);
        } else {
            let legacy = MAPS.replace("/api/v1/", "/api/v1/watch/");
            assert_failure(&client.get(&format!("{legacy}?{query}")), failure, &details, query);
        }
        assert_eq!(
            client.get(&format!("{MAPS}/a?{}", query.replace("=abc", "=1"))).status,
            200,
            "GET {query}"
        );
    }
    // The continue token of a watch that begins at a revision is ignored.
    let start = newest(&client);
    let path = format!("{MAPS}?watch=1&continue=x&resourceVersion={start}&limit=1&timeoutSeconds=1");
    assert!(client.watch(&path).unwrap().rest().is_empty());
}

/// Query of a watch, and after how many seconds it ends; `None`: not in this test.
const TIMEOUTS: &[(&str, Option<f32>)] = &[
    ("timeoutSeconds=1", Some(1.0)),
    ("timeoutSeconds=2&timeoutSeconds=1", Some(2.0)),
    ("timeoutSeconds=%2B1", Some(1.0)),
    ("timeoutSeconds=1&timeout=1h", Some(1.0)),
    ("timeoutSeconds=-1", Some(0.0)),
    ("timeoutSeconds=0", None),
    ("", None),
    ("timeout=1s", None),
    ("timeout=nonsense", None),
    ("timeoutSeconds=9223372036854775807", None),
];

#[test]
fn how_long_a_watch_lasts() {
    let server = Server::start(&[]);
    let client = server.client();
    three(&client);
    let start = newest(&client);
    std::thread::scope(|scope| {
        for (query, expected) in TIMEOUTS {
            let client = client.clone();
            scope.spawn(move || {
                let begun = Instant::now();
                let mut watch =
                    client.watch(&format!("{MAPS}?watch=1&resourceVersion={start}&{query}")).unwrap();
                match expected {
                    None => assert!(watch.is_quiet_for(Duration::from_millis(2500)), "{query} ended"),
                    Some(seconds) => {
                        assert_eq!(watch.next_chunk().unwrap(), None, "{query}");
                        let took = begun.elapsed().as_secs_f32();
                        assert!((seconds - 0.1..seconds + 3.0).contains(&took), "{query}: {took} s");
                        let reply = watch.into_connection().request("GET", "/livez", &[], &[]).unwrap();
                        assert_eq!(reply.status, 200, "the connection goes on: {query}");
                    }
                }
            });
        }
    });
}
