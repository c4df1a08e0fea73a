//! An upstream that is down, hung, refuses or sends garbage: what the client is told.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use revcast_tests::port::Port;
use revcast_tests::server::Server;
use revcast_tests::upstream::{Next, Upstream};
use serde_json::Value;

use super::Pair;

/// Asserts that a reply is a Status with this code, and that its message has these words.
fn assert_status(reply: &revcast_tests::client::Response, code: u16, says: &str) {
    let status: Value = reply.json();
    assert_eq!(
        (reply.status, &status["kind"], &status["code"]),
        (code, &"Status".into(), &code.into()),
        "{}",
        reply.text()
    );
    let message = status["message"].as_str().unwrap();
    assert!(message.contains(says), "{message}");
    assert!(!message.contains("revcast-"), "{message}");
}

#[test]
fn an_upstream_that_does_not_answer_is_given_up_in_time() {
    let pair = Pair::new(&["--upstream-timeout", "1s"]);
    pair.upstream.on("/hung", |exchange| exchange.await_close().map(|_| Next::Close));
    for (accept, content_type, starts) in [
        ("application/json", "application/json", &b"{\"kind\":\"Status\""[..]),
        ("*/*", "application/json", b"{\"kind\":\"Status\""),
        ("application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf", b"k8s\0"),
        ("application/yaml", "application/yaml", b"apiVersion: v1\n"),
    ] {
        for (method, body) in [("GET", &b""[..]), ("POST", b"{}")] {
            let since = Instant::now();
            let reply = pair.client().request(method, "/hung", &[("accept", accept)], body);
            let took = since.elapsed();
            assert_eq!(
                (reply.status, reply.header("content-type")),
                (504, Some(content_type)),
                "{method} {accept}"
            );
            assert!(reply.body.starts_with(starts), "{accept}: {}", reply.text());
            assert!(took > Duration::from_millis(900) && took < Duration::from_secs(5), "{took:?}");
        }
    }
    assert_status(&pair.client().get("/hung"), 504, "did not answer in time");
    pair.server.wait_for_metric("revcast_upstream_connections", 0);
    assert_eq!(pair.server.metric("revcast_upstream_failures_total{reason=\"slow\"}"), 9);
    // A connection without a body goes on.
    let mut connection = pair.client().connect().unwrap();
    assert_eq!(connection.request("GET", "/hung", &[], b"").unwrap().status, 504);
    assert_eq!(connection.request("GET", "/x", &[], b"").unwrap().text(), "/x");
}

#[test]
fn an_upstream_that_is_down_is_named() {
    let mut pair = Pair::new(&[]);
    assert_eq!(pair.client().get("/x").status, 200);
    pair.upstream.stop();
    let url = pair.upstream.url();
    let mut connection = pair.client().connect().unwrap();
    for method in ["GET", "DELETE", "OPTIONS"] {
        let reply = connection.request(method, "/x", &[], b"").unwrap();
        assert_status(&reply, 502, &url);
        assert_eq!(reply.header("connection"), None, "{method}: the connection goes on");
    }
    // A body that was not read ends it.
    let reply = connection.request("POST", "/x", &[], b"{}").unwrap();
    assert_status(&reply, 502, "Connection refused");
    assert_eq!(reply.header("connection"), Some("close"));
    assert_eq!(pair.client().request("HEAD", "/x", &[], b"").status, 502);
    for (accept, starts) in
        [("application/vnd.kubernetes.protobuf", &b"k8s\0"[..]), ("application/yaml", b"apiVersion: v1\n")]
    {
        let reply = pair.client().request("PUT", "/x", &[("accept", accept)], b"{}");
        assert_eq!((reply.status, reply.header("content-type")), (502, Some(accept)));
        assert!(reply.body.starts_with(starts), "{accept}: {}", reply.text());
    }
    pair.upstream.resume();
    assert_eq!(pair.client().get("/x").status, 200, "and when it is back it is used at once");
}

#[test]
fn endpoints_are_tried_in_turn() {
    let (dead, mut first, second) = (Port::free(), Upstream::start(), Upstream::start());
    let endpoints = format!(
        "http://127.0.0.1:{},{},{},http://nowhere.invalid:80",
        dead.number(),
        first.url(),
        second.url()
    );
    let server = Server::start(&["--upstream", &endpoints, "--shards", "1"]);
    let client = server.client();
    for _ in 0..3 {
        assert_eq!(client.get("/x").status, 200);
    }
    assert_eq!((first.asked().len(), second.asked().len()), (3, 0));
    assert_eq!(first.last().header("host"), Some(first.address()));
    first.stop();
    for _ in 0..3 {
        assert_eq!(client.request("POST", "/x", &[], b"{}").status, 200);
    }
    assert_eq!(second.asked().len(), 3);
    assert_eq!(second.last().header("host"), Some(second.address()));
    // One that works is not left for another.
    first.resume();
    assert_eq!(client.get("/x").status, 200);
    assert_eq!((first.asked().len(), second.asked().len()), (3, 4));
}

#[test]
fn a_name_that_nobody_knows() {
    let server = Server::start(&["--upstream", "http://nowhere.invalid:6443"]);
    assert_status(&server.client().get("/x"), 502, "nowhere.invalid");
    assert_eq!(server.client().get("/readyz").status, 200);
}

#[test]
fn refusals_of_the_upstream_are_its_own() {
    let pair = Pair::new(&[]);
    pair.upstream.on("/busy", |exchange| {
        exchange.reply(
            "429 Too Many Requests\nRetry-After: 3\nContent-Type: application/json",
            "{\"kind\":\"Status\",\"code\":429}",
        )
    });
    pair.upstream
        .on("/down", |exchange| exchange.reply("503 Service Unavailable\nRetry-After: 5", "not now"));
    let busy = pair.client().request("POST", "/busy", &[], b"{}");
    assert_eq!(
        (busy.status, busy.header("retry-after"), busy.text().as_str()),
        (429, Some("3"), "{\"kind\":\"Status\",\"code\":429}")
    );
    let down = pair.client().get("/down");
    assert_eq!((down.status, down.header("retry-after"), down.text().as_str()), (503, Some("5"), "not now"));
}

#[test]
fn garbage_is_no_reply() {
    let pair = Pair::new(&[]);
    let many: String = (0..150).map(|number| format!("X-{number}: 1\r\n")).collect();
    let rows = [
        ("/none", String::new()),
        ("/text", "what?\r\n\r\n".to_owned()),
        ("/ssh", "SSH-2.0-OpenSSH_9.6\r\n".to_owned()),
        ("/tls", "\x15\x03\x01\x00\x02\x02\x16".to_owned()),
        ("/h2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned()),
        ("/half", "HTTP/1.1 200 OK\r\nContent-Le".to_owned()),
        ("/version", "HTTP/3.0 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned()),
        ("/code", "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n".to_owned()),
        ("/name", "HTTP/1.1 200 OK\r\nX Y: 1\r\nContent-Length: 0\r\n\r\n".to_owned()),
        ("/value", "HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n".to_owned()),
        ("/folded", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n".to_owned()),
        ("/length", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n".to_owned()),
        ("/lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab".to_owned()),
        ("/many", format!("HTTP/1.1 200 OK\r\n{many}Content-Length: 0\r\n\r\n")),
        ("/huge", format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n", "x".repeat(100 << 10))),
        ("/endless", "HTTP/1.1 200 OK\r\nX: ".to_owned() + &"x".repeat(1 << 20)),
    ];
    for (path, reply) in &rows {
        let path = format!("/bad{path}");
        pair.upstream.on_bytes(&path, reply.clone());
        assert_status(&pair.client().get(&path), 502, "gave no valid reply");
        assert_status(&pair.client().request("POST", &path, &[], b"{}"), 502, "gave no valid reply");
    }
    // What follows a reply is not the next one.
    pair.upstream.on("/more", |exchange| {
        exchange.reply("200 OK", "first")?;
        exchange.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")?;
        Ok(Next::KeepAlive)
    });
    for _ in 0..3 {
        let reply = pair.client().get("/more");
        assert_eq!(reply.text(), "first");
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(pair.client().get("/x").text(), "/x");
    }
}

/// Connections that are neither taken nor refused.
#[test]
fn an_endpoint_that_does_not_take_connections() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let server = Server::start(&["--upstream", &format!("http://{address}"), "--upstream-timeout", "1s"]);
    let since = Instant::now();
    assert_status(&server.client().get("/x"), 504, "did not answer in time");
    assert!(since.elapsed() < Duration::from_secs(5));
}
