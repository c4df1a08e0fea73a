//! The bad-input catalogue, rows 1 to 42, whole and byte by byte; and valid heads.

use super::*;
use crate::http::text::noise::Noise;

/// The result for `bytes` given at once; the same must result when they arrive one by one.
fn verdict(bytes: &[u8]) -> Result<Parsed, HeadError> {
    let whole = parse_head(bytes);
    let mut scanner = HeadScanner::new();
    let mut stepwise = Ok(Parsed::Incomplete);
    for end in 0..=bytes.len() {
        stepwise = scanner.parse(&bytes[..end]);
        if end % 7 == 0 {
            assert_eq!(parse_head(&bytes[..end]), stepwise, "resumed and fresh scans differ at {end}");
        }
        if stepwise != Ok(Parsed::Incomplete) {
            break;
        }
    }
    assert_eq!(whole, stepwise, "cut into bytes: {:?}", String::from_utf8_lossy(bytes));
    whole
}

fn head(text: &str) -> RequestHead {
    match verdict(text.as_bytes()) {
        Ok(Parsed::Complete { head, head_len }) => {
            assert_eq!(head_len, text.find("\r\n\r\n").expect("an empty line") + 4);
            *head
        }
        other => panic!("{text:?}: {other:?}"),
    }
}

fn refused(bytes: &[u8]) -> HeadError {
    match verdict(bytes) {
        Err(error) => error,
        Ok(parsed) => panic!("{:?} gave {parsed:?}", String::from_utf8_lossy(bytes)),
    }
}

fn post_with(headers: &str) -> String {
    format!("POST /api/v1/namespaces/d/configmaps HTTP/1.1\r\nHost: a\r\n{headers}\r\n\r\n")
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

#[test]
fn rows_1_to_9_and_19_to_21_framing_and_headers() {
    use HeadError as E;
    let table: &[(&str, HeadError)] = &[
        ("Content-Length: 5\r\nTransfer-Encoding: chunked", E::LengthAndEncoding),
        ("Transfer-Encoding: chunked\r\nContent-Length: 0", E::LengthAndEncoding),
        ("Content-Length: 5\r\nContent-Length: 6", E::Repeated),
        ("Content-Length: 5\r\ncontent-length: 5", E::Repeated),
        ("Content-Length: 5,5", E::ContentLength),
        ("Content-Length: 5, 5", E::ContentLength),
        ("Content-Length: +5", E::ContentLength),
        ("Content-Length: -5", E::ContentLength),
        ("Content-Length:  5", E::ContentLength),
        ("Content-Length:\t5", E::ContentLength),
        ("Content-Length: 5 ", E::ContentLength),
        ("Content-Length: 0x5", E::ContentLength),
        ("Content-Length: 5_0", E::ContentLength),
        ("Content-Length:", E::ContentLength),
        ("Content-Length: 18446744073709551616", E::ContentLength),
        ("Transfer-Encoding: chunked, identity", E::TransferEncoding),
        ("Transfer-Encoding: chunked, chunked", E::TransferEncoding),
        ("Transfer-Encoding:", E::TransferEncoding),
        ("Transfer-Encoding: xchunked", E::TransferCoding),
        ("Transfer-Encoding: gzip, chunked", E::TransferCoding),
        ("Transfer-Encoding: \"chunked\"", E::TransferCoding),
        ("Transfer-Encoding : chunked", E::HeaderName),
        ("Transfer-Encoding:\u{b}chunked", E::ControlByte),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", E::TransferEncoding),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", E::TransferEncoding),
        ("X-A: b\r\n c", E::Folded),
        ("X-A: b\r\n\tc", E::Folded),
        (" Content-Length: 5", E::Folded),
        ("X-A: b\0c", E::ControlByte),
        ("X-A: b\u{1b}[0m", E::ControlByte),
        ("X-A: b\u{7f}", E::ControlByte),
        ("X A: b", E::HeaderName),
        ("X(A): b", E::HeaderName),
        ("X\tA: b", E::HeaderName),
        (": b", E::HeaderName),
        ("no colon", E::HeaderName),
        ("X-é: b", E::HeaderName),
        ("Expect: 200-maybe", E::Expectation),
        ("Authorization: Bearer a\r\nAuthorization: Bearer b", E::Repeated),
        ("Content-Type: a/b\r\nContent-Type: c/d", E::Repeated),
    ];
    for (headers, expected) in table {
        assert_eq!(refused(post_with(headers).as_bytes()), *expected, "{headers:?}");
    }
    assert_eq!(
        refused(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
        HeadError::EncodingInHttp10
    );
    for (error, code) in [(E::TransferCoding, 501), (E::TransferEncoding, 400), (E::Expectation, 417)] {
        assert_eq!((error.status_code(), error.status().code()), (code, code));
    }
}

#[test]
fn rows_16_to_18_line_ends() {
    for bytes in [
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        assert_eq!(refused(bytes.as_bytes()), HeadError::BareLineFeed, "{bytes:?}");
    }
    for bytes in [
        "GET / HTTP/1.1\rHost: a\r\r",
        "GET / HTTP/1.1\r\nHost: a\r\n\rX",
        "GET / HTTP/1.1\r\nX: a\rb\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n",
    ] {
        assert_eq!(refused(bytes.as_bytes()), HeadError::BareCarriageReturn, "{bytes:?}");
    }
}

#[test]
fn rows_22_to_24_host() {
    assert_eq!(refused(b"GET / HTTP/1.1\r\n\r\n"), HeadError::HostMissing);
    assert_eq!(refused(b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), HeadError::Repeated);
    for host in [
        "user@a", "a b", "a/b", "a?b", "a:b", "a:1:2", "a:123456", "[::1", "[]", "[::1]x", "[g::]", "a\\b",
        "é",
    ] {
        let error = refused(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        assert!(matches!(error, HeadError::Host | HeadError::Value), "{host}: {error:?}");
        assert_eq!(error.status_code(), 400);
    }
    for host in ["127.0.0.1:8080", "[::1]:8080", "[::1]", "a.example", "a:", "", "under_score"] {
        let text = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(head(&text).host.as_deref(), Some(host));
    }
    assert_eq!(head("GET / HTTP/1.0\r\n\r\n").host, None);
}

#[test]
fn rows_25_to_28_sizes() {
    let line = |len: usize| format!("GET /{} HTTP/1.1", "a".repeat(len - "GET / HTTP/1.1".len()));
    let fits = format!("{}\r\nHost: a\r\n\r\n", line(REQUEST_LINE_BYTES_MAX));
    assert_eq!(head(&fits).path.len(), 1);
    let over = line(REQUEST_LINE_BYTES_MAX + 1);
    assert_eq!(refused(over.as_bytes()), HeadError::RequestLineTooLong);
    assert_eq!(HeadError::RequestLineTooLong.status_code(), 414);

    let header = |len: usize| format!("X: {}", "a".repeat(len - 3));
    let request = |headers: &str| format!("GET / HTTP/1.1\r\nHost: a\r\n{headers}\r\n\r\n");
    head(&request(&header(HEADER_LINE_BYTES_MAX)));
    assert_eq!(refused(request(&header(HEADER_LINE_BYTES_MAX + 1)).as_bytes()), HeadError::HeaderTooLong);

    let many = |count: usize| (0..count).map(|i| format!("X{i}: a")).collect::<Vec<_>>().join("\r\n");
    head(&request(&many(HEADERS_MAX - 1)));
    assert_eq!(refused(request(&many(HEADERS_MAX)).as_bytes()), HeadError::TooManyHeaders);

    // "Host: a" CRLF is 9 bytes; four lines fill the rest to the byte.
    let quarter = (HEADERS_BYTES_MAX - 9) / 4 - 2;
    let odd = (HEADERS_BYTES_MAX - 9) % 4;
    let lines = |more: usize| {
        [header(quarter), header(quarter), header(quarter), header(quarter + odd + more)].join("\r\n")
    };
    let full = request(&lines(0));
    head(&full);
    assert!(full.len() <= HEAD_BYTES_MAX);
    assert_eq!(refused(request(&lines(1)).as_bytes()), HeadError::HeadersTooLong);
    for error in [HeadError::HeaderTooLong, HeadError::TooManyHeaders, HeadError::HeadersTooLong] {
        assert_eq!(error.status_code(), 431);
    }
}

#[test]
fn rows_29_to_34_versions_and_forms() {
    use HeadError as E;
    let table: &[(&str, HeadError, u16)] = &[
        ("GET /\r\n", E::RequestLine, 400),
        ("GET / HTTP/0.9\r\nHost: a\r\n\r\n", E::Version, 505),
        ("GET / HTTP/1.2\r\nHost: a\r\n\r\n", E::Version, 505),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", E::Version, 505),
        ("GET / HTTP/1.10\r\nHost: a\r\n\r\n", E::RequestLine, 400),
        ("GET / http/1.1\r\nHost: a\r\n\r\n", E::RequestLine, 400),
        ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", E::RequestLine, 400),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", E::RequestLine, 400),
        (" GET / HTTP/1.1\r\nHost: a\r\n\r\n", E::RequestLine, 400),
        ("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", E::ControlByte, 400),
        ("G(T / HTTP/1.1\r\nHost: a\r\n\r\n", E::RequestLine, 400),
        ("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", E::RequestLine, 400),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", E::Http2Preface, 400),
        ("\u{16}\u{3}\u{1}\u{2}\0\u{1}\0", E::ControlByte, 400),
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", E::NotServed, 405),
        ("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", E::NotServed, 405),
        ("CONNECT /x HTTP/1.1\r\nHost: a:443\r\n\r\n", E::NotServed, 405),
        ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", E::Target, 400),
        ("GET a/b HTTP/1.1\r\nHost: a\r\n\r\n", E::Target, 400),
        ("GET ftp://a/b HTTP/1.1\r\nHost: a\r\n\r\n", E::Target, 400),
        ("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", E::Target, 400),
        ("GET http://u@a/b HTTP/1.1\r\nHost: a\r\n\r\n", E::Host, 400),
        ("GET http:///b HTTP/1.1\r\nHost: a\r\n\r\n", E::Host, 400),
        ("GET http://a/b HTTP/1.1\r\n\r\n", E::HostMissing, 400),
        ("GET /é HTTP/1.1\r\nHost: a\r\n\r\n", E::Target, 400),
    ];
    for (bytes, expected, code) in table {
        let error = refused(bytes.as_bytes());
        assert_eq!((error, error.status_code()), (*expected, *code), "{bytes:?}");
    }
    let absolute = head("GET HTTP://b.example:81/api/v1?watch=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(absolute.host.as_deref(), Some("b.example:81"), "the target's authority wins over Host");
    assert_eq!((absolute.path.join("/").as_str(), absolute.query.raw()), ("api/v1", "watch=1"));
    assert!(head("GET http://b.example HTTP/1.1\r\nHost: a\r\n\r\n").path.is_empty());
    assert_eq!(head("OPTIONS /api HTTP/1.1\r\nHost: a\r\n\r\n").method, Method::Options);
    assert_eq!(head("get /api HTTP/1.1\r\nHost: a\r\n\r\n").method, Method::Other);
}

#[test]
fn rows_35_to_38_paths_and_queries() {
    use HeadError as E;
    let table: &[(&str, HeadError)] = &[
        ("/api/v1/pods/%00", E::PathControl),
        ("/api/v1/pods/a%0d%0aX", E::PathControl),
        ("/api/v1/%2e%2e/pods", E::DotSegment),
        ("/api/v1/../pods", E::DotSegment),
        ("/api/v1/.%2E", E::DotSegment),
        ("/./api", E::DotSegment),
        ("/..", E::DotSegment),
        ("/api%2fv1/pods", E::EncodedSlash),
        ("/api/v1/pods/%ff", E::PathUtf8),
        ("/api/v1/pods/%c0%ae%c0%ae", E::PathUtf8),
        ("/api/v1/pods/%", E::PathEscape),
        ("/api/v1/pods/%2", E::PathEscape),
        ("/api/v1/pods/%u002e", E::PathEscape),
        ("/api?labelSelector=%ff", E::QueryUtf8),
        ("/api?labelSelector=%00", E::QueryControl),
        ("/api?labelSelector=%zz", E::QueryEscape),
    ];
    for (target, expected) in table {
        let error = refused(get(target).as_bytes());
        assert_eq!((error, error.status_code()), (*expected, 400), "{target}");
    }
    let path = |target: &str| head(&get(target)).path;
    assert!(path("/").is_empty());
    assert_eq!(path("//"), [""]);
    assert_eq!(path("/api//v1"), ["api", "", "v1"], "an empty segment stays: it is no resource's name");
    assert_eq!(path("//api/v1"), ["", "api", "v1"]);
    assert_eq!(path("/api/v1/"), ["api", "v1"]);
    assert_eq!(path("/api/v1//"), ["api", "v1", ""]);
    assert_eq!(path("/a%2525/b+c"), ["a%25", "b+c"], "decoded once, and + is itself in a path");
    assert_eq!(head(&get("/a?&limit=500")).query.raw(), "&limit=500");
    assert_eq!(head(&get("/a?")).query.raw(), "");
    assert_eq!(head(&get("/a?b?c=/../")).query.raw(), "b?c=/../");
}

#[test]
fn rows_39_to_41_what_follows_a_head() {
    let first = "GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: a\r\n\r\n";
    let both = format!("{first}GET /evil HTTP/1.1\r\nHost: a\r\n\r\n");
    match parse_head(both.as_bytes()) {
        Ok(Parsed::Complete { head_len, head }) => {
            assert_eq!((head_len, head.path.join("/").as_str()), (first.len(), "api/v1/pods"));
        }
        other => panic!("{other:?}"),
    }
    let with_body = head("GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n");
    assert_eq!(with_body.body, BodyFraming::Length(3), "a GET's body is seen, to be drained");
    let expecting = head(&post_with("Expect: 100-Continue\r\nContent-Length: 3"));
    assert!(expecting.expect_continue);
    assert!(!head("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n").expect_continue);
}

#[test]
fn a_whole_head_gives_its_parts() {
    let text = "GET /api/v1/namespaces/t1/configmaps?watch=true&resourceVersion=0 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\
        User-Agent: kubectl/v1.33.0\r\naccept: application/json;as=Table;v=v1;g=meta.k8s.io\r\nAccept: application/json\r\n\
        Accept-Encoding: gzip\r\nAuthorization: Bearer x\r\nIf-None-Match: \"abc\"\r\nKubectl-Command: kubectl get\r\n\
        Content-Type: application/json\r\nX-Obs: \u{e9}\r\nContent-Length: 0\r\n\r\n";
    let head = head(text);
    assert_eq!(head.method, Method::Get);
    assert_eq!(head.path, ["api", "v1", "namespaces", "t1", "configmaps"]);
    assert_eq!(head.query.raw(), "watch=true&resourceVersion=0");
    assert_eq!(
        head.accept.as_deref(),
        Some("application/json;as=Table;v=v1;g=meta.k8s.io, application/json"),
        "two Accept headers are one list"
    );
    assert_eq!(head.accept_encoding.as_deref(), Some("gzip"));
    assert!(head.accepts_gzip());
    assert_eq!(head.user_agent.as_deref(), Some("kubectl/v1.33.0"));
    assert_eq!(head.authorization.as_deref(), Some("Bearer x"));
    assert_eq!(head.if_none_match.as_deref(), Some("\"abc\""));
    assert_eq!(head.content_type.as_deref(), Some("application/json"));
    assert_eq!(head.host.as_deref(), Some("127.0.0.1:8080"));
    assert_eq!((head.body, head.minor_version), (BodyFraming::None, 1));
    assert!(head.keep_alive && head.takes_chunked_reply() && head.upgrade.is_none() && !head.expect_continue);
}

#[test]
fn a_crlf_before_the_request_line_is_skipped_once() {
    let text = b"\r\nGET /api HTTP/1.1\r\nHost: a\r\n\r\nrest";
    match verdict(text) {
        Ok(Parsed::Complete { head, head_len }) => {
            assert_eq!((head.path.join("/").as_str(), head_len), ("api", text.len() - 4));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_life_of_the_connection() {
    let keep = |lines: &str| head(&format!("GET / {lines}\r\n\r\n")).keep_alive;
    assert!(keep("HTTP/1.1\r\nHost: a"));
    assert!(keep("HTTP/1.1\r\nHost: a\r\nConnection: keep-alive"));
    assert!(!keep("HTTP/1.1\r\nHost: a\r\nConnection: Close"));
    assert!(!keep("HTTP/1.1\r\nHost: a\r\nConnection: foo, close"));
    assert!(!keep("HTTP/1.1\r\nHost: a\r\nConnection: foo\r\nConnection: close"));
    assert!(!keep("HTTP/1.0"));
    assert!(!keep("HTTP/1.0\r\nConnection: keep-alive"), "HTTP/1.0 closes, whatever it asks");
    assert!(!head("GET / HTTP/1.0\r\n\r\n").takes_chunked_reply());
    assert!(head("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").wants_head_only());

    let upgrade =
        |start: &str, lines: &str| head(&format!("{start}\r\nHost: a\r\n{lines}\r\n\r\n")).upgrade.is_some();
    let both = "Connection: keep-alive, Upgrade\r\nUpgrade: foo/2, WebSocket";
    for asks in [
        both,
        "connection: UPGRADE\r\nupgrade: WEBSOCKET",
        "Connection: close, upgrade\r\nUpgrade: websocket",
        "Connection: keep-alive\r\nConnection: Upgrade\r\nUpgrade: websocket",
        "Connection: Upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket",
        "Upgrade: websocket\r\nConnection: \t Upgrade \t",
    ] {
        assert!(upgrade("GET / HTTP/1.1", asks), "{asks}");
        assert!(!upgrade("POST / HTTP/1.1", asks) && !upgrade("GET / HTTP/1.0", asks), "{asks}");
    }
    for asks_nothing in [
        "Upgrade: websocket",
        "Upgrade: websocket\r\nConnection: close",
        "Upgrade: websocket\r\nConnection: keep-alive",
        "Upgrade: websocket\r\nConnection: Upgrade-Insecure-Requests",
        "Upgrade: websocket\r\nConnection: ",
        "Connection: Upgrade",
        "Connection: Upgrade\r\nUpgrade: ",
        "Connection: Upgrade\r\nUpgrade: h2c",
        "Connection: Upgrade\r\nUpgrade: websockets",
        "Connection: Upgrade\r\nUpgrade: websocket/13",
    ] {
        assert!(!upgrade("GET / HTTP/1.1", asks_nothing), "{asks_nothing}");
    }
}

#[test]
fn framings_that_are_right() {
    assert_eq!(head(&post_with("Content-Length:5")).body, BodyFraming::Length(5));
    assert_eq!(head(&post_with("Content-Length: 18446744073709551615")).body, BodyFraming::Length(u64::MAX));
    assert_eq!(head(&post_with("Transfer-Encoding: Chunked")).body, BodyFraming::Chunked);
    assert_eq!(head(&post_with("Transfer-Encoding:\tchunked ")).body, BodyFraming::Chunked);
}

#[test]
fn noise_never_panics_and_never_changes_its_verdict() {
    let pieces: &[&[u8]] = &[
        b"GET",
        b"POST ",
        b" ",
        b"/",
        b"/api/v1/pods",
        b"?watch=1",
        b"%2e",
        b"%",
        b" HTTP/1.1",
        b" HTTP/1.0",
        b"\r\n",
        b"\r\n\r\n",
        b"\r",
        b"\n",
        b"Host: a\r\n",
        b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b":",
        b"http://",
        b"@",
        b"[",
        b"\0",
        b"Connection: close\r\n",
        b"GET / HTTP/1.1\r\n",
        b"X: y",
    ];
    let mut complete = 0;
    for seed in 0..20_000 {
        let mut noise = Noise(seed);
        let mut bytes = if seed % 2 == 0 { b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec() } else { Vec::new() };
        let parts = noise.below(12);
        bytes.extend(noise.text(pieces, parts));
        if let Ok(Parsed::Complete { head_len, .. }) = verdict(&bytes) {
            assert!(bytes[..head_len].ends_with(b"\r\n\r\n"), "seed {seed}");
            complete += 1;
        }
    }
    assert!(complete > 100, "the noise reaches complete heads: {complete}");
}
