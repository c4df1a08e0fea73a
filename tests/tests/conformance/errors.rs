//! Refused writes, and the behaviour of a connection.

use revcast_tests::server::Server;
use serde_json::{Value, json};

use crate::{create, newest, revision, update};

const MAPS: &str = "/api/v1/namespaces/w/configmaps";

fn status(reply: &revcast_tests::client::Response) -> (u16, Value, String) {
    let body = reply.json();
    assert_eq!((&body["kind"], &body["status"]), (&json!("Status"), &json!("Failure")), "{}", reply.text());
    assert_eq!(body["code"], reply.status);
    (reply.status, body["reason"].clone(), body["message"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn refused_writes() {
    let server = Server::start(&[]);
    let client = server.client();
    let made = create(&client, "w", "one", "1");
    let (code, reason, message) = status(&client.send("POST", MAPS, &json!({"metadata": {"name": "one"}})));
    assert_eq!(
        (code, reason, message.as_str()),
        (409, json!("AlreadyExists"), r#"configmaps "one" already exists"#)
    );

    update(&client, "w", "one", "2");
    let stale = json!({"metadata": {"name": "one", "resourceVersion": made.to_string()}, "data": {"k": "3"}});
    let (code, reason, message) = status(&client.send("PUT", &format!("{MAPS}/one"), &stale));
    assert_eq!((code, reason), (409, json!("Conflict")));
    assert_eq!(
        message,
        r#"Operation cannot be fulfilled on configmaps "one": the object has been modified; please apply your changes to the latest version and try again"#
    );
    let stale_patch = json!({"metadata": {"resourceVersion": made.to_string()}, "data": {"k": "3"}});
    assert_eq!(status(&client.patch(&format!("{MAPS}/one"), "merge-patch", &stale_patch)).0, 409);
    let condition = json!({"preconditions": {"resourceVersion": made.to_string()}});
    assert_eq!(status(&client.send("DELETE", &format!("{MAPS}/one"), &condition)).0, 409);
    assert_eq!(status(&client.request("DELETE", &format!("{MAPS}/none"), &[], &[])).0, 404);
    assert_eq!(status(&client.patch(&format!("{MAPS}/none"), "merge-patch", &json!({}))).0, 404);

    for (body, what) in [
        (json!({"metadata": {"name": "Not_A_Name"}}), 422),
        (json!({"metadata": {}}), 422),
        (json!({"metadata": {"name": "x", "namespace": "other"}}), 400),
        (json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "x"}}), 400),
        (json!({"metadata": {"name": "x", "labels": {"a b": "c"}}}), 422),
        (json!([]), 400),
    ] {
        let reply = client.send("POST", MAPS, &body);
        assert_eq!(status(&reply).0, what, "{body}: {}", reply.text());
    }
    for (kind, body) in [("application/json", "{"), ("application/json", "{\"metadata\":{\"name\":\"x\"}}}")]
    {
        let reply = client.request("POST", MAPS, &[("content-type", kind)], body.as_bytes());
        assert_eq!(status(&reply).0, 400, "{body}");
    }
    // YAML has one name.
    for (kind, what) in [("application/yaml", 422), ("text/yaml", 415)] {
        let nameless = client.request("POST", MAPS, &[("content-type", kind)], b"kind: ConfigMap");
        assert_eq!(status(&nameless).0, what, "{kind}");
    }
    for body in ["metadata: {name: x", "metadata: {name: x}\n---\nmetadata: {name: y}\n", "- x\n"] {
        let yaml = client.request("POST", MAPS, &[("content-type", "application/yaml")], body.as_bytes());
        assert_eq!(status(&yaml).0, 400, "{body}");
    }
    let other = client.request("PATCH", &format!("{MAPS}/one"), &[("content-type", "text/plain")], b"{}");
    assert_eq!(status(&other).0, 415);
    // None of these wrote anything.
    assert_eq!(newest(&client), made + 1);
    let large = json!({"metadata": {"name": "large"}, "data": {"k": "x".repeat(4 << 20)}});
    let reply = client.send("POST", MAPS, &large);
    assert!(matches!(reply.status, 413 | 422), "{} {}", reply.status, reply.text());
    assert_eq!(newest(&client), made + 1);
}

#[test]
fn two_writers_one_winner() {
    let server = Server::start(&[]);
    let client = server.client();
    create(&client, "w", "counter", "0");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut added = 0;
                while added < 25 {
                    let mut object = client.get(&format!("{MAPS}/counter")).json();
                    let count: u32 = object["data"]["k"].as_str().unwrap().parse().unwrap();
                    object["data"]["k"] = (count + 1).to_string().into();
                    match client.send("PUT", &format!("{MAPS}/counter"), &object).status {
                        200 => added += 1,
                        409 => {}
                        other => panic!("{other}"),
                    }
                }
            });
        }
    });
    assert_eq!(client.get(&format!("{MAPS}/counter")).json()["data"]["k"], "100");
}

#[test]
fn one_connection_many_requests() {
    let server = Server::start(&[]);
    let client = server.client();
    let mut connection = client.connect().unwrap();
    for number in 0..50 {
        let object = json!({"metadata": {"name": format!("n{number}")}});
        let reply = connection.request("POST", MAPS, &[], object.to_string().as_bytes()).unwrap();
        assert_eq!(reply.status, 201);
        assert_eq!(connection.request("GET", &format!("{MAPS}/none"), &[], &[]).unwrap().status, 404);
        assert_eq!(connection.request("HEAD", MAPS, &[], &[]).unwrap().status, 405);
        let start = revision(&reply.json()) - 1;
        if number % 10 == 0 {
            // With etcd a write is answered before its event has come back; a list waits for it.
            assert_eq!(connection.request("GET", MAPS, &[], &[]).unwrap().status, 200);
            let path = format!("{MAPS}?watch=1&resourceVersion={start}&timeoutSeconds=1");
            let mut watch = connection.watch(&path, &[]).unwrap();
            assert_eq!(watch.rest().len(), 1);
            connection = watch.into_connection();
        }
    }
    // Pipelined: replies have the order of the requests.
    connection.write_raw(b"GET /livez HTTP/1.1\r\nHost: t\r\n\r\nGET /version HTTP/1.1\r\nHost: t\r\n\r\nGET /nothing HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n").unwrap();
    let answers: Vec<u16> = (0..3).map(|_| connection.read_response(true).unwrap().status).collect();
    assert_eq!(answers, [200, 200, 404]);
    assert!(connection.read_to_end().unwrap().is_empty(), "closed as asked");
    // A long object is sent in several writes, and the connection continues after it.
    let long = json!({"metadata": {"name": "long"}, "data": {"k": "x".repeat(1 << 20)}});
    let mut connection = client.connect().unwrap();
    assert_eq!(connection.request("POST", MAPS, &[], long.to_string().as_bytes()).unwrap().status, 201);
    for query in ["", "?pretty=1"] {
        let reply = connection.request("GET", &format!("{MAPS}/long{query}"), &[], &[]).unwrap();
        assert_eq!(reply.header("content-length"), Some(reply.body.len().to_string().as_str()));
        assert_eq!(reply.json()["data"], long["data"]);
    }
    // HTTP/1.0 closes, and has no chunks.
    let mut old = client.connect().unwrap();
    old.write_raw(format!("GET {MAPS} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
    let list = String::from_utf8(old.read_to_end().unwrap()).unwrap();
    let (head, list) = list.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200") && !head.to_lowercase().contains("transfer-encoding"), "{head}");
    let list: Value = serde_json::from_str(list).unwrap();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(51), "all of it, until the connection ends");
}
