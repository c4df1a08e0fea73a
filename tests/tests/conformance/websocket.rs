//! Watches over WebSockets, as recorded: the handshake, one text message per event, the close at the end.

use std::path::Path;

use revcast_tests::server::Server;
use revcast_tests::websocket::{CLOSE, TEXT, UPGRADE, WebSocket};
use serde_json::Value;

use crate::recording::{History, normal, one};
use crate::{create, newest};

/// The frames of the recording: the first byte, the length, the kept part of the payload.
fn recorded() -> (String, Vec<(u8, usize, String)>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("recorded/16-websocket.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let first = text.split("# websocket upgrade without watch").next().unwrap();
    let lines = || first.lines();
    let head =
        lines().skip_while(|line| !line.starts_with("HTTP/")).take_while(|line| !line.starts_with('['));
    let head = head.map(|line| line.trim_end_matches("\\r\\n")).collect::<Vec<_>>().join("\r\n") + "\r\n";
    let frames = lines().filter_map(|line| {
        let (says, payload) = line.strip_prefix("[frame fin=1 opcode=")?.split_once("] b'")?;
        let (opcode, len) = says.split_once(" len=")?;
        let first = 0x80 | opcode.parse::<u8>().ok()?;
        Some((first, len.parse().ok()?, payload.trim_end_matches('\'').to_owned()))
    });
    (head, frames.collect())
}

#[test]
fn a_watch_as_recorded() {
    let (head, frames) = recorded();
    assert_eq!(frames.len(), 4);
    let history = History::new(70, &[]);
    for number in 1..=3 {
        history.create(&format!("cm{number}"), "a", &format!("v{number}"));
    }
    // Theirs had revision 72 then.
    history.update("cm1", "a", "w1");
    history.update("cm2", "a", "w2");
    history.delete("cm3");
    let from = history.revision() - 3;
    let path = format!("/api/v1/namespaces/t1/configmaps?watch=true&resourceVersion={from}&timeoutSeconds=1");
    let mut watch = WebSocket::open(history.client.address(), &path, UPGRADE).unwrap();
    assert_eq!(watch.head, head, "the same key has the same answer, and nothing else is said");
    for (first, len, payload) in frames {
        let (ours, event) = watch.next_frame().unwrap().expect("as many frames");
        assert_eq!(ours, first);
        if first == CLOSE {
            assert_eq!((event, len), (vec![3, 232], 2));
            continue;
        }
        // Theirs is truncated; up to the uid both are the same. Their length includes a line feed: the DELETED of
        // recording 03, with a name one shorter and a value one longer, has 478 bytes with it.
        let event = String::from_utf8(event).unwrap();
        let known = |text: &str| text.split("\"uid\"").next().unwrap().to_owned();
        assert_eq!(known(&event), known(&payload));
        assert!(event.ends_with("}}\n") && event.matches('\n').count() == 1, "{event}");
    }
    assert_eq!(watch.next_frame().unwrap(), None, "the connection ends");
}

#[test]
fn without_watch_the_upgrade_is_ignored() {
    let server = Server::start(&[]);
    let client = server.client();
    create(&client, "u", "a", "1");
    let headers = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Key", "not even a key"),
        ("Sec-WebSocket-Version", "13"),
    ];
    for path in ["configmaps?limit=1", "configmaps/a", "configmaps/a?watch=true", "configmaps?watch=0"] {
        let path = format!("/api/v1/namespaces/u/{path}");
        let mut connection = client.connect().unwrap();
        for _ in 0..2 {
            let reply = connection.request("GET", &path, &headers, &[]).unwrap();
            assert_eq!(reply.status, 200, "{path}");
            assert!(reply.json()["kind"].as_str().unwrap().starts_with("ConfigMap"), "{path}");
        }
    }
}

#[test]
fn a_watch_that_cannot_begin_says_so_and_closes() {
    let server = Server::start(&[]);
    let client = server.client();
    let mut last = 0;
    for number in 0..5 {
        last = create(&client, "e", &format!("cm{number}"), "0");
    }
    // With etcd a write is answered before its event has come back; only what has come back is compacted here.
    assert_eq!(newest(&client), last);
    let reply = server.admin_client().request("POST", &format!("/compact?revision={last}"), &[], &[]);
    assert_eq!(reply.status, 200);
    let theirs = one("06-410-gone.txt", "WATCH from RV=1");
    let expired = theirs.body.trim().replace("(132)", &format!("({last})"));
    let mut watch = WebSocket::watch(&server.address, "/api/v1/configmaps?watch=1&resourceVersion=1");
    let (first, event) = watch.next_frame().unwrap().unwrap();
    assert_eq!((first, String::from_utf8_lossy(&event).trim()), (TEXT, expired.as_str()));
    assert_eq!(watch.closing(), 1000);

    // Decided before the watch reaches a shard.
    let future = newest(&client) + 1000;
    let path = format!(
        "/api/v1/configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion={future}"
    );
    let mut watch = WebSocket::watch(&server.address, &path);
    let (first, event) = watch.next_frame().unwrap().unwrap();
    let event: Value = serde_json::from_slice(&event).unwrap();
    assert_eq!((first, &event["type"], &event["object"]["code"]), (TEXT, &"ERROR".into(), &504.into()));
    assert_eq!(watch.closing(), 1000);

    // Errors in the request itself are HTTP replies.
    let path = "/api/v1/configmaps?watch=1&labelSelector=a%20in";
    let refused = WebSocket::open(&server.address, path, UPGRADE).unwrap();
    assert!(refused.head.starts_with("HTTP/1.1 400 "), "{}", refused.head);
}

#[test]
fn shapes_and_bookmarks_are_the_same_as_in_chunks() {
    let server = Server::start(&["--bookmark-interval", "1s"]);
    let client = server.client();
    create(&client, "s", "a", "1");
    create(&client, "s", "b", "2");
    let table = ("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    for (headers, accept) in [(vec![table], format!("{}: {}\r\n", table.0, table.1)), (vec![], String::new())]
    {
        let path = "/api/v1/namespaces/s/configmaps?watch=1&allowWatchBookmarks=true&timeoutSeconds=6&\
            sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        let mut chunks = client.watch_as(path, &headers).unwrap();
        let mut socket = WebSocket::open(&server.address, path, &format!("{UPGRADE}{accept}")).unwrap();
        let mut next_heard = || {
            let (first, event) = socket.next_frame().unwrap().unwrap();
            assert_eq!(first, TEXT);
            serde_json::from_slice::<Value>(&event).unwrap()
        };
        // The head does not tell when the state is taken: a write after it may be in the state or come after it.
        let (mut told, mut heard) = (Vec::new(), Vec::new());
        while told.last().is_none_or(|(kind, _)| kind != "BOOKMARK") {
            told.push(chunks.next_event());
        }
        while heard.last().is_none_or(|event: &Value| event["type"] != "BOOKMARK") {
            heard.push(next_heard());
        }
        create(&client, "s", &format!("c{}", accept.len()), "3");
        told.extend(chunks.rest());
        assert!(told.len() >= 5, "objects, the end mark, an event, a bookmark: {told:?}");
        let mut heard = heard.into_iter();
        let mut next_heard = || heard.next().unwrap_or_else(&mut next_heard);
        for (kind, object) in told.into_iter().filter(|(kind, _)| kind != "BOOKMARK") {
            let event = loop {
                let event = next_heard();
                if event["type"] != "BOOKMARK" {
                    break event;
                }
            };
            let ours = serde_json::json!({"type": kind, "object": object});
            assert_eq!(normal(&event.to_string(), 0), normal(&ours.to_string(), 0));
        }
        assert_eq!(socket.closing(), 1000);
    }
}
