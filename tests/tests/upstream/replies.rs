//! Replies of the upstream: what of them reaches the client, and how.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use revcast_tests::upstream::Next;

use super::Pair;

/// All that is sent on a connection in answer to `request`, up to its end.
fn raw(pair: &Pair, request: &str) -> String {
    let mut stream = TcpStream::connect(&pair.server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    String::from_utf8(all).unwrap()
}

fn get(path: &str, more: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{more}\r\n")
}

#[test]
fn headers() {
    let pair = Pair::new(&[]);
    pair.upstream.on("/x", |exchange| {
        exchange.reply(
            "200 Fine\nContent-Type: text/plain; charset=x\nConnection: keep-alive, X-Mine\nX-Mine: 1\nKeep-Alive: timeout=5\n\
             Proxy-Authenticate: Basic\nTrailer: X-Sum\nUpgrade: h2c\nSet-Cookie: a=1\nSet-Cookie: b=2; Path=/\nAudit-Id: 7\n\
             Warning: 299 - \"old\"\nWarning: 299 - \"older\"\nVia: 1.0 inner\nX-Kubernetes-Pf-Flowschema-Uid: u\nServer: s\nX-Empty:\n\
             Date: Mon, 01 Jan 2024 00:00:00 GMT\nCache-Control: no-cache, private\nLocation: http://other/y\nETag: \"e\"",
            "body",
        )
    });
    let reply = pair.client().get("/x");
    assert_eq!((reply.status, reply.text().as_str()), (200, "body"));
    let mut names: Vec<&str> = reply.headers.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let expected = "audit-id cache-control content-length content-type date etag location server set-cookie via warning x-empty \
                    x-kubernetes-pf-flowschema-uid";
    assert_eq!(names.join(" "), expected);
    let all = |name: &str| -> Vec<&str> {
        reply.headers.iter().filter(|(of, _)| of == name).map(|(_, value)| value.as_str()).collect()
    };
    assert_eq!(all("set-cookie"), ["a=1", "b=2; Path=/"]);
    assert_eq!(all("warning"), ["299 - \"old\"", "299 - \"older\""]);
    assert_eq!(all("via"), ["1.0 inner", "1.1 revcast"]);
    assert_eq!(all("audit-id"), ["7"]);
    assert_eq!(all("date"), ["Mon, 01 Jan 2024 00:00:00 GMT"]);
}

#[test]
fn codes_pass_and_redirects_are_not_followed() {
    let pair = Pair::new(&[]);
    pair.upstream.on("/code", |exchange| {
        let code = exchange.asked.target().rsplit('=').next().unwrap_or_default().to_owned();
        exchange.reply(&format!("{code} X\nRetry-After: 7\nLocation: /x"), "why")
    });
    let mut connection = pair.client().connect().unwrap();
    for code in [
        200, 201, 202, 203, 206, 299, 300, 301, 302, 307, 308, 400, 401, 403, 404, 409, 418, 422, 429, 500,
        501, 503, 504, 599, 999,
    ] {
        let reply = connection.request("GET", &format!("/code?c={code}"), &[], b"").unwrap();
        assert_eq!((reply.status, reply.text().as_str()), (code, "why"));
        assert_eq!(
            (reply.header("retry-after"), reply.header("location")),
            (Some("7"), Some("/x")),
            "{code}"
        );
    }
    assert_eq!(pair.upstream.accepted(), 1);
}

#[test]
fn replies_without_a_body() {
    let pair = Pair::new(&[]);
    for (path, reply) in [
        ("/204", "HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n"),
        ("/204/length", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"),
        ("/304", "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 1234\r\n\r\n"),
        ("/head", "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n"),
        ("/head/chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ("/head/nothing", "HTTP/1.1 200 OK\r\n\r\n"),
        ("/empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ] {
        pair.upstream.on(path, move |exchange| {
            exchange.send(reply)?;
            Ok(Next::KeepAlive)
        });
    }
    let mut connection = pair.client().connect().unwrap();
    let header = |reply: &revcast_tests::client::Response, name: &str| reply.header(name).map(str::to_owned);
    for (method, path, code, length) in [
        ("GET", "/204", 204, None),
        ("GET", "/204/length", 204, None),
        ("GET", "/304", 304, Some("1234")),
        ("HEAD", "/head", 200, Some("1234")),
        ("HEAD", "/head/chunked", 200, None),
        ("HEAD", "/head/nothing", 200, None),
        ("GET", "/empty", 200, Some("0")),
        ("GET", "/x", 200, Some("2")),
    ] {
        let reply = connection.request(method, path, &[], b"").unwrap();
        assert_eq!(
            (reply.status, header(&reply, "content-length").as_deref()),
            (code, length),
            "{method} {path}"
        );
        assert_eq!(header(&reply, "connection"), None, "{method} {path}");
    }
    assert!(connection.is_quiet_for(Duration::from_millis(50)).unwrap());
    let head = raw(&pair, "HEAD /head/chunked HTTP/1.0\r\nHost: test\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && !head.contains("chunked"), "{head}");
}

#[test]
fn the_end_of_a_body_reaches_every_client() {
    let pair = Pair::new(&[]);
    pair.upstream.on_bytes("/close", "HTTP/1.1 200 OK\r\nX-A: 1\r\n\r\nto the end");
    pair.upstream.on_bytes("/old", "HTTP/1.0 200 OK\r\nX-A: 1\r\n\r\nto the end");
    pair.upstream.on_bytes(
        "/chunked",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3;x=y\r\nto \r\n7\r\nthe end\r\n0\r\nX-Sum: 5\r\n\r\n",
    );
    pair.upstream.on_bytes("/length", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nto the end");
    for path in ["/close", "/old", "/chunked", "/length"] {
        let reply = pair.client().get(path);
        assert_eq!((reply.status, reply.text().as_str()), (200, "to the end"), "{path}");
        let chunked = reply.header("transfer-encoding").is_some();
        assert_eq!(chunked, path != "/length", "{path}");
        // HTTP/1.0 has no chunks: the connection's end is the body's.
        let old = raw(&pair, &format!("GET {path} HTTP/1.0\r\nHost: test\r\n\r\n"));
        assert!(
            old.starts_with("HTTP/1.1 200 OK\r\n") && old.ends_with("\r\n\r\nto the end"),
            "{path}: {old}"
        );
        assert!(!old.contains("chunked") && old.contains("Connection: close\r\n"), "{path}: {old}");
    }
    // Trailers go to a client that takes them.
    let takes = raw(&pair, &get("/chunked", "TE: trailers\r\n"));
    assert!(takes.ends_with("0\r\nX-Sum: 5\r\n\r\n"), "{takes}");
    let not = raw(&pair, &get("/chunked", ""));
    assert!(not.ends_with("the end\r\n0\r\n\r\n"), "{not}");
}

#[test]
fn interim_replies_are_not_the_reply() {
    let pair = Pair::new(&[]);
    pair.upstream.on("/interim", |exchange| {
        let asked = exchange.body()?;
        exchange.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n")?;
        exchange.reply_to_read("200 OK", asked)
    });
    let reply = pair.client().request("POST", "/interim", &[], b"hello");
    assert_eq!((reply.status, reply.text().as_str()), (200, "hello"));
    // A client that did not ask for another protocol is not given one.
    pair.upstream.on_bytes("/101", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n");
    let reply = pair.client().get("/101");
    assert_eq!(reply.status, 502, "{reply:?}");
}

#[test]
fn a_compressed_reply_is_untouched() {
    let pair = Pair::new(&[]);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&b"{\"a\":1}".repeat(1000)).unwrap();
    let packed = gzip.finish().unwrap();
    let sent = packed.clone();
    pair.upstream.on("/gzip", move |exchange| {
        exchange.reply("200 OK\nContent-Encoding: gzip\nVary: Accept-Encoding", &sent)
    });
    for accepts in ["gzip", "identity"] {
        let reply = pair.client().request("GET", "/gzip", &[("accept-encoding", accepts)], b"");
        assert_eq!((reply.header("content-encoding"), &reply.body), (Some("gzip"), &packed));
        assert_eq!(pair.upstream.last().header("accept-encoding").as_deref(), Some(accepts));
    }
}

#[test]
fn a_reply_that_is_cut_is_not_whole() {
    let pair = Pair::new(&[]);
    for (path, reply) in [
        ("/length", "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nto the"),
        ("/chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nto \r\n"),
        ("/chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nto "),
        ("/chunk/bad", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nto \r\nxyz\r\n"),
        ("/last", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nto \r\n0\r\n"),
    ] {
        pair.upstream.on_bytes(path, reply);
        let mut connection = pair.client().connect().unwrap();
        let reply = connection.request("GET", path, &[], b"");
        assert!(reply.is_err(), "{path}: {reply:?}");
        let all = raw(&pair, &get(path, ""));
        assert!(!all.ends_with("0\r\n\r\n") && all.contains("to"), "{path}: {all:?}");
    }
}
