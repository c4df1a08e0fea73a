//! The head of a request: what of it reaches the upstream.

use super::Pair;

#[test]
fn every_method_is_forwarded() {
    let pair = Pair::new(&[]);
    let client = pair.client();
    for method in
        ["POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "M-SEARCH", "get", "LINK"]
    {
        for path in ["/api/v1/namespaces/t/configmaps/a", "/apis/example.com/v1/things", "/nothing/of/ours"] {
            let reply = client.request(method, path, &[], b"");
            assert_eq!(reply.status, 200, "{method} {path}: {}", reply.text());
            assert_eq!(pair.upstream.last().line(), format!("{method} {path} HTTP/1.1"));
            let body = if method == "HEAD" { "" } else { path };
            assert_eq!(reply.text(), body, "{method} {path}");
        }
    }
    // A request with a method that has a body says that its body is empty (RFC 9110, section 8.6).
    for (method, length) in [("POST", Some("0")), ("PUT", Some("0")), ("DELETE", None), ("GET", None)] {
        assert_eq!(client.request(method, "/nothing", &[], b"").status, 200);
        let last = pair.upstream.last();
        assert_eq!(last.header("content-length").as_deref(), length, "{method}: {}", last.text());
        assert_eq!(last.headers("transfer-encoding").len(), 0, "{method}");
    }
}

#[test]
fn targets_are_forwarded_byte_for_byte() {
    let pair = Pair::new(&[]);
    let client = pair.client();
    for target in [
        "/x",
        "/",
        "/x/",
        "/x?",
        "/x?a",
        "/x?a=&&b",
        "/x?a=%2F%2f%20+b&c=d%3D",
        "/%78/%C3%BC?%75",
        "/x;v=1;w/y,z=(1)!$'*",
        "/x//y",
        "//x",
        "/x/%7Ey:z@a",
        "/x?a=b?c=/d:e@f",
        "/x?labelSelector=a%20in%20(b,c)&labelSelector=d",
        "/api/v1/namespaces/t/services/https:web:443/proxy/a//b/?q={}|^%60",
        "/api/v1/namespaces/t/pods/a/log?follow=true&tailLines=1",
    ] {
        let reply = client.get(target);
        assert_eq!((reply.status, reply.text().as_str()), (200, target));
    }
    for (target, origin) in [
        ("http://test/x?a=%2f", "/x?a=%2f"),
        ("https://test", "/"),
        ("HTTP://test?x", "/?x"),
        ("http://test:80/x//y", "/x//y"),
    ] {
        let reply = client.get(target);
        assert_eq!((reply.status, reply.text().as_str()), (200, origin), "{target}");
    }
    let before = pair.upstream.asked().len();
    // Another API server would read these in another way than this one; and no URI may have the last.
    for target in [
        "/x/../y",
        "/x/%2e%2e/y",
        "/x/%2fy",
        "/x%00",
        "/x%",
        "/x%zz",
        "/x#y",
        "/x?a=%ff",
        "*",
        "x",
        "/x?\"a\"",
        "/<x>",
    ] {
        let reply = client.get(target);
        assert_eq!(reply.status, 400, "{target}: {}", reply.text());
    }
    assert_eq!(pair.upstream.asked().len(), before);
}

#[test]
fn headers_for_one_connection_end_here() {
    let pair = Pair::new(&[]);
    let client = pair.client();
    let headers = [
        ("Connection", "keep-alive, X-Mine"),
        ("connection", "x-other , ,Authorization-Not"),
        ("X-Mine", "1"),
        ("X-Other", "2"),
        ("Authorization-Not", "3"),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Connection", "keep-alive"),
        ("Proxy-Authorization", "Basic YTpi"),
        ("Proxy-Authenticate", "Basic"),
        ("Trailer", "X-Sum"),
        ("Upgrade", "websocket"),
        ("HTTP2-Settings", "AAMAAABkAARAAAAAAAIAAAAA"),
        ("X-Remote-User", "admin"),
        ("x-remote-group", "system:masters"),
        ("X-REMOTE-EXTRA-Scopes", "all"),
        ("X-Remote-Uid", "1"),
        ("X-Kept", "yes"),
    ];
    assert_eq!(client.request("GET", "/x", &headers, b"").status, 200);
    let asked = pair.upstream.last();
    assert_eq!(asked.names(), ["audit-id", "host", "via", "x-forwarded-for", "x-kept"], "{}", asked.text());
    assert_eq!(asked.header("host"), Some(pair.upstream.address()));
    assert_eq!(asked.header("via").as_deref(), Some("1.1 revcast"));
    assert_eq!(asked.header("x-forwarded-for").as_deref(), Some("127.0.0.1"));
    // TE says what the client takes: trailers go through.
    assert_eq!(client.request("GET", "/x", &[("TE", "gzip, Trailers;q=0.5, trailers")], b"").status, 200);
    assert_eq!(pair.upstream.last().header("te").as_deref(), Some("trailers"));
}

#[test]
fn headers_from_end_to_end_are_kept() {
    let pair = Pair::new(&[]);
    let client = pair.client();
    let headers = [
        ("Authorization", "Bearer abc.def"),
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Extra-example.com%2Fscope", "a"),
        ("Cookie", "a=b; c=d"),
        ("Accept", "application/json;q=0.9, application/yaml"),
        ("Accept-Encoding", "gzip, br;q=0"),
        ("Accept-Language", "de"),
        ("User-Agent", "kubectl/v1.36 (linux/amd64)"),
        ("If-None-Match", "\"x\""),
        ("X-Custom", "one"),
        ("X-Custom", "two"),
        ("X-Empty", ""),
        ("X-Spaces", "  a \t b  "),
        ("X-Text", "gr\u{fc}n"),
        ("X-Stream-Protocol-Version", "v4.channel.k8s.io"),
        ("X-Stream-Protocol-Version", "v5.channel.k8s.io"),
        ("X-Forwarded-For", "192.0.2.1"),
        ("X-Forwarded-For", "192.0.2.2, 192.0.2.3"),
        ("Via", "1.0 first, 2 second"),
        ("Audit-Id", "00000000-0000-4000-8000-000000000001"),
    ];
    assert_eq!(client.request("GET", "/x", &headers, b"").status, 200);
    let asked = pair.upstream.last();
    for (name, _) in &headers[..18] {
        let sent: Vec<&str> =
            headers.iter().filter(|(of, _)| of == name).map(|(_, value)| value.trim()).collect();
        assert_eq!(asked.headers(name), sent, "{name}");
    }
    assert_eq!(
        asked.header("x-forwarded-for").as_deref(),
        Some("192.0.2.1, 192.0.2.2, 192.0.2.3, 127.0.0.1")
    );
    assert_eq!(asked.header("via").as_deref(), Some("1.0 first, 2 second, 1.1 revcast"));
    assert_eq!(asked.header("audit-id").as_deref(), Some("00000000-0000-4000-8000-000000000001"));
    // Without an id of the client, each request has a new one.
    let ids = [0, 1].map(|_| {
        assert_eq!(client.get("/x").status, 200);
        pair.upstream.last().header("audit-id").unwrap()
    });
    assert!(ids[0] != ids[1] && ids.iter().all(|id| id.len() == 36), "{ids:?}");
}
