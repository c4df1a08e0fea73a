//! Compacted history: 410, in a stream and as a reply, and how a list continues nevertheless.

use revcast_tests::client::Client;
use revcast_tests::server::Server;

use crate::recording::{decode_token, one};
use crate::{create, delete, names, newest, revision, update};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// The one line of a watch that cannot begin.
fn refusal(client: &Client, from: u64, headers: &[(&str, &str)]) -> Option<String> {
    let path = format!("/api/v1/namespaces/e/configmaps?watch=1&resourceVersion={from}&timeoutSeconds=1");
    let mut watch = client.watch_as(&path, headers).unwrap();
    let chunk = watch.next_chunk().unwrap()?;
    if !chunk.contains("ERROR") {
        return None;
    }
    assert_eq!(watch.next_chunk().unwrap(), None, "the stream ends after it");
    let reply = watch.into_connection().request("GET", "/livez", &[], &[]).unwrap();
    assert_eq!(reply.status, 200, "and the connection goes on");
    Some(chunk)
}

#[test]
fn after_compaction() {
    let server = Server::start(&[]);
    let client = server.client();
    for name in ["a", "b", "c", "d", "e"] {
        create(&client, "e", name, "0");
    }
    let old = newest(&client);
    let page = client.get("/api/v1/namespaces/e/configmaps?limit=2").json();
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    let mut compacted = old;
    for number in 1..=10 {
        compacted = update(&client, "e", "a", &number.to_string());
    }
    delete(&client, "e", "d");
    // All of that can still be replayed.
    assert_eq!(refusal(&client, old, &[]), None);
    // With etcd a write is answered before its event has come back; only what has come back is compacted here.
    assert_eq!(newest(&client), compacted + 1);
    let reply = server.admin_client().request("POST", &format!("/compact?revision={compacted}"), &[], &[]);
    assert_eq!((reply.status, reply.text()), (200, format!("compacted revision {compacted}\n")));
    assert_eq!(server.metric("revcast_window_compacted_revision"), compacted);

    let theirs = one("06-410-gone.txt", "WATCH from RV=1");
    let expected = theirs.body.trim().replace("(132)", &format!("({compacted})"));
    assert_eq!(refusal(&client, 1, &[]).unwrap().trim_end(), expected);
    assert_eq!(refusal(&client, 1, &[("Accept", TABLE)]).unwrap().trim_end(), expected, "never converted");
    // The number in the bracket is where a watch may start.
    assert!(refusal(&client, compacted - 1, &[]).is_some());
    assert_eq!(refusal(&client, compacted, &[]), None);

    let exact = format!("/api/v1/namespaces/e/configmaps?resourceVersion={old}&resourceVersionMatch=Exact");
    let reply = client.get(&exact);
    assert_eq!(reply.status, 410);
    assert_eq!(reply.text().trim(), one("06-410-gone.txt", "LIST Exact RV=60").body.trim());

    let reply = client.get(&format!("/api/v1/namespaces/e/configmaps?limit=2&continue={token}"));
    assert_eq!(reply.status, 410);
    let fresh = reply.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let theirs = one("06-410-gone.txt", "continue token at compacted RV 60").body;
    let their_json: serde_json::Value = serde_json::from_str(theirs.trim()).unwrap();
    let their_token = their_json["metadata"]["continue"].as_str().unwrap();
    assert_eq!(reply.text().trim(), theirs.trim().replace(their_token, &fresh));
    let decoded = decode_token(&fresh).unwrap();
    assert_eq!(decoded.to_string(), r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"b\u0000"}"#);
    // The rest, at the newest revision.
    let rest = client.get(&format!("/api/v1/namespaces/e/configmaps?limit=1&continue={fresh}")).json();
    assert_eq!(names(&rest), ["c"]);
    assert_eq!(revision(&rest), newest(&client));
    let token = rest["metadata"]["continue"].as_str().unwrap();
    let rest = client.get(&format!("/api/v1/namespaces/e/configmaps?limit=9&continue={token}")).json();
    assert_eq!(names(&rest), ["e"]);

    // A compaction that is refused has a reason.
    let admin = server.admin_client();
    let future = format!("?revision={}", newest(&client) + 1000);
    for (query, status) in [("?revision=0", 400), ("?revision=x", 400), ("", 400), (&future, 409)] {
        assert_eq!(admin.request("POST", &format!("/compact{query}"), &[], &[]).status, status, "{query}");
    }
    assert_eq!(admin.get("/compact?revision=1").status, 405);
}

#[test]
fn after_the_ring_went_round() {
    let server = Server::start(&["--ring-events", "1024"]);
    let client = server.client();
    let old = create(&client, "e", "a", "first");
    let mut connection = client.connect().unwrap();
    let mut last = old;
    for number in 0..1500 {
        let body = format!(r#"{{"data":{{"k":"{number}"}}}}"#);
        let headers = [("content-type", "application/merge-patch+json")];
        let path = "/api/v1/namespaces/e/configmaps/a";
        let reply = connection.request("PATCH", path, &headers, body.as_bytes()).unwrap();
        last = revision(&reply.json());
    }
    assert_eq!(last, old + 1500);
    // A write is answered before a watch on another store sends it.
    assert_eq!(newest(&client), last);
    let line = refusal(&client, old, &[]).expect("it fell out of the window");
    let oldest = line.split(['(', ')']).nth(1).and_then(|n| n.parse::<u64>().ok()).expect("a bracket");
    assert!(oldest > last - 1025 && oldest < last, "{oldest} of {last}");
    assert_eq!(refusal(&client, oldest, &[]), None);
    let path = format!("/api/v1/namespaces/e/configmaps?watch=1&resourceVersion={oldest}&timeoutSeconds=1");
    let replayed = client.watch(&path).unwrap().rest();
    let revisions: Vec<u64> = replayed.iter().map(|(_, object)| revision(object)).collect();
    assert_eq!(revisions, (oldest + 1..=last).collect::<Vec<_>>(), "the whole window");
}
