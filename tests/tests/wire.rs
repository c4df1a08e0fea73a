//! The bytes of replies on a connection: exactly as expected, and not one more or less than a client reads that knows
//! its request (RFC 9112, section 6.3). The received bytes are compared completely.
#![allow(clippy::unwrap_used)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use revcast_tests::server::Server;
use serde_json::json;

const MAPS: &str = "/api/v1/namespaces/w/configmaps";

/// Everything that a server sends for these bytes, until it closes.
fn sent(address: &str, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    normal(&String::from_utf8(bytes).unwrap())
}

/// With parts that differ from run to run replaced.
fn normal(text: &str) -> String {
    let line = |line: &str| {
        let name = ["Audit-Id: ", "Date: "].into_iter().find(|name| line.starts_with(name));
        name.map_or_else(|| line.to_owned(), |name| format!("{name}*\r\n"))
    };
    text.split_inclusive('\n').map(line).collect()
}

/// One reply, from its status line on, and the rest of the bytes: as read by a client that knows the method.
fn reply<'a>(bytes: &'a str, method: &str) -> (u16, &'a str, String, &'a str) {
    let (head, mut rest) = bytes.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {bytes:?}"));
    let code: u16 = head.strip_prefix("HTTP/1.1 ").unwrap_or_else(|| panic!("out of step: {bytes:?}"))[..3]
        .parse()
        .unwrap();
    let value = |name: &str| head.split("\r\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let mut body = String::new();
    if method == "HEAD" || code < 200 || matches!(code, 204 | 304) {
        return (code, head, body, rest);
    }
    if value("Transfer-Encoding") == Some("chunked") {
        loop {
            let (size, behind) = rest.split_once("\r\n").unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            body.push_str(&behind[..size]);
            rest = behind[size..].strip_prefix("\r\n").expect("CRLF after a chunk");
            if size == 0 {
                return (code, head, body, rest);
            }
        }
    }
    let length: usize =
        value("Content-Length").unwrap_or_else(|| panic!("no length: {head}")).parse().unwrap();
    (code, head, rest[..length].to_owned(), &rest[length..])
}

#[test]
fn a_few_replies_to_the_byte() {
    let server = Server::start(&[]);
    let ask = |request: &str| {
        sent(&server.address, format!("{request}\r\nHost: h\r\nConnection: close\r\n\r\n").as_bytes())
    };
    let head = "Audit-Id: *\r\nCache-Control: no-cache, private\r\n";
    assert_eq!(
        ask("GET /livez HTTP/1.1"),
        format!(
            "HTTP/1.1 200 OK\r\n{head}Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\nDate: *\r\n\
             Connection: close\r\nContent-Length: 2\r\n\r\nok"
        )
    );
    assert_eq!(
        ask("GET /nothing HTTP/1.1"),
        format!(
            "HTTP/1.1 404 Not Found\r\n{head}Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n\
             Date: *\r\nConnection: close\r\nContent-Length: 19\r\n\r\n404 page not found\n"
        )
    );
    let refused = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"configmaps \"none\" not found","reason":"NotFound","details":{"name":"none","kind":"configmaps"},"code":404}"#;
    assert_eq!(
        ask(&format!("GET {MAPS}/none HTTP/1.1")),
        format!(
            "HTTP/1.1 404 Not Found\r\n{head}Content-Type: application/json\r\nDate: *\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n{refused}\n",
            refused.len() + 1
        )
    );
    // A watch without events, until its deadline: a head, and the last chunk.
    assert_eq!(
        ask(&format!("GET {MAPS}?watch=1&timeoutSeconds=1 HTTP/1.1")),
        format!(
            "HTTP/1.1 200 OK\r\n{head}Content-Type: application/json\r\nDate: *\r\nConnection: close\r\n\
             Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        )
    );
    // The body is not sent, and its length is: HEAD (RFC 9110, section 9.3.2).
    assert_eq!(
        ask("HEAD /livez HTTP/1.1"),
        ask("GET /livez HTTP/1.1").strip_suffix("ok").unwrap(),
        "the head of GET, and nothing after it"
    );
}

#[test]
fn pipelined_replies_stay_in_step() {
    let server = Server::start(&[]);
    let client = server.client();
    for name in ["a", "b", "c"] {
        let object = json!({"metadata": {"name": name}, "data": {"k": "v"}});
        assert_eq!(client.send("POST", MAPS, &object).status, 201);
    }
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let discovery = client.request("GET", "/api", &[("Accept", aggregated)], b"");
    let etag = discovery.header("etag").expect("aggregated discovery has one").to_owned();
    let held = format!("Accept: {aggregated}\r\nIf-None-Match: {etag}\r\n");
    let one = format!("{MAPS}/a");
    let body = |text: &str| {
        format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{text}", text.len())
    };
    let table = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io\r\n";
    // Method, target, the rest of the head after Host and what follows it, the code, and part of the body.
    let asked: Vec<(&str, String, String, u16, &str)> = vec![
        ("GET", "/livez".into(), "\r\n".into(), 200, "ok"),
        ("HEAD", "/livez".into(), "\r\n".into(), 200, ""),
        ("GET", MAPS.into(), "\r\n".into(), 200, "ConfigMapList"),
        ("HEAD", MAPS.into(), "\r\n".into(), 405, ""),
        ("GET", MAPS.into(), format!("{table}\r\n"), 200, "\"kind\":\"Table\""),
        ("GET", MAPS.into(), "Accept-Encoding: identity\r\n\r\n".into(), 200, "ConfigMapList"),
        ("GET", format!("{MAPS}?limit=1"), "\r\n".into(), 200, "continue"),
        ("GET", format!("{MAPS}?pretty=1"), "\r\n".into(), 200, "\n"),
        ("GET", one.clone(), "Accept: application/yaml\r\n\r\n".into(), 200, "name: a"),
        ("GET", "/api".into(), format!("{held}\r\n"), 304, ""),
        ("HEAD", "/api".into(), format!("{held}\r\n"), 405, ""),
        ("HEAD", "/version".into(), "\r\n".into(), 405, ""),
        ("GET", format!("{MAPS}/none"), "\r\n".into(), 404, "not found"),
        ("HEAD", format!("{MAPS}/none"), "\r\n".into(), 405, ""),
        ("GET", "/nothing".into(), "\r\n".into(), 404, "404 page not found\n"),
        ("HEAD", "/nothing".into(), "\r\n".into(), 404, ""),
        ("GET", format!("{MAPS}?labelSelector=%3D"), "\r\n".into(), 400, "BadRequest"),
        ("GET", MAPS.into(), "Accept: text/html\r\n\r\n".into(), 406, "NotAcceptable"),
        ("POST", MAPS.into(), body(r#"{"metadata":{"name":"a"}}"#), 409, "AlreadyExists"),
        ("POST", MAPS.into(), body("{"), 400, "BadRequest"),
        ("POST", MAPS.into(), body(r#"{"metadata":{"name":"d"}}"#), 201, "\"name\":\"d\""),
        ("PUT", one.clone(), body(r#"{"metadata":{"name":"b"}}"#), 400, "BadRequest"),
        ("DELETE", format!("{MAPS}/d"), "\r\n".into(), 200, "Success"),
        ("DELETE", format!("{MAPS}/d"), "\r\n".into(), 404, "NotFound"),
        ("OPTIONS", MAPS.into(), "\r\n".into(), 405, "MethodNotAllowed"),
        ("GET", format!("{MAPS}?watch=1&resourceVersion=0&timeoutSeconds=1"), "\r\n".into(), 200, "ADDED"),
        ("GET", format!("{MAPS}?watch=1&resourceVersion=x"), "\r\n".into(), 400, "BadRequest"),
        ("GET", "/livez".into(), "\r\n".into(), 200, "ok"),
        ("GET", "/version".into(), "Connection: close\r\n\r\n".into(), 200, "\"major\""),
        ("GET", "/livez".into(), "\r\n".into(), 0, "after the end"),
    ];
    let request: String = asked
        .iter()
        .map(|(method, target, rest, ..)| format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{rest}"))
        .collect();
    let bytes = sent(&server.address, request.as_bytes());
    let mut left = bytes.as_str();
    for (method, target, _, expected, part) in asked.iter().take_while(|row| row.3 > 0) {
        let (code, head, body, rest) = reply(left, method);
        assert_eq!(code, *expected, "{method} {target}: {head}\n{body}");
        assert!(body.contains(part), "{method} {target}: {body:?}");
        let is_last = *method == "GET" && target == "/version";
        assert_eq!(head.contains("Connection: close"), is_last, "{method} {target}: {head}");
        let ends = head.matches("Content-Length: ").count() + head.matches("Transfer-Encoding: ").count();
        assert_eq!(ends, usize::from(code != 304), "{method} {target}: one way to its end: {head}");
        left = rest;
    }
    assert_eq!(left, "", "nothing after the last reply");
    // The same on the admin listener: its HEADs and errors too.
    let asked = [
        ("GET", "/livez", 200),
        ("HEAD", "/livez", 200),
        ("HEAD", "/metrics", 200),
        ("HEAD", "/status", 200),
        ("HEAD", "/", 200),
        ("HEAD", "/nothing", 404),
        ("GET", "/nothing", 404),
        ("GET", "/compact", 405),
        ("HEAD", "/compact", 405),
        ("POST", "/compact?revision=x", 400),
        ("GET", "/metrics", 200),
        ("GET", "/readyz", 200),
    ];
    let request: String = asked
        .iter()
        .map(|(method, target, _)| format!("{method} {target} HTTP/1.1\r\nHost: h\r\n\r\n"))
        .collect();
    let bytes = sent(
        &server.admin,
        format!("{request}GET /livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").as_bytes(),
    );
    let mut left = bytes.as_str();
    for (method, target, expected) in asked.into_iter().chain([("GET", "/livez", 200)]) {
        let (code, head, _, rest) = reply(left, method);
        assert_eq!(code, expected, "{method} {target}: {head}");
        left = rest;
    }
    assert_eq!(left, "");
}
