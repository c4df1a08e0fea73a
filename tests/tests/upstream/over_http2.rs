//! Clients that speak HTTP/2: what they send is forwarded as well-formed HTTP/1.1, and what the upstream answers comes back.

use std::time::Duration;

use revcast_tests::http2::{Connection, Frame, Outcome, code, flag, hpack as packed};
use revcast_tests::upstream::Upstream;

use super::{Pair, strict};

const INNER: &str = "GET /inner HTTP/1.1\r\nhost: test\r\n\r\n";

fn echoing() -> Pair {
    let upstream = Upstream::start();
    upstream.on("*", |exchange| {
        let body = exchange.body().unwrap_or_default();
        exchange.reply_to_read("200 OK\nX-Upstream: yes", format!("{} bytes", body.len()))
    });
    Pair::before(upstream, &[])
}

/// A request whose field block is these fields, then a body that looks like another request.
fn send(connection: &mut Connection, fields: &[(&[u8], &[u8])]) -> u32 {
    let stream = connection.request("GET", "/livez", &[], true);
    assert_eq!(connection.response(stream).status, 200);
    let stream = stream + 2;
    let mut block = Vec::new();
    for (name, value) in fields {
        block.extend(packed::literal(name, value));
    }
    connection.send(Frame::headers(stream, flag::END_HEADERS, block));
    connection.send(Frame::data(stream, flag::END_STREAM, INNER));
    stream
}

/// Whatever a client sends on a stream, the upstream sees one well-formed request of it, or none.
#[test]
fn one_stream_is_one_request() {
    let good: [(&'static [u8], &'static [u8]); 4] =
        [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/fwd"), (b":authority", b"localhost")];
    let with = |more: &[(&'static [u8], &'static [u8])]| [&good[..], more].concat();
    let instead = |name: &[u8], value: &'static [u8]| {
        let field =
            |field: (&'static [u8], &'static [u8])| if field.0 == name { (field.0, value) } else { field };
        good.map(field).to_vec()
    };
    let length: &'static [u8] = INNER.len().to_string().leak().as_bytes();
    type Fields = Vec<(&'static [u8], &'static [u8])>;
    let cases: Vec<(Fields, bool)> = vec![
        (with(&[]), true),
        (with(&[(b"content-length", length)]), true),
        (with(&[(b"expect", b"100-continue")]), true),
        (with(&[(b"te", b"trailers")]), true),
        (with(&[(b"trailer", b"content-length")]), true),
        (with(&[(b"http2-settings", b"AAMAAABkAAQAoAAAAAIAAAAA")]), true),
        (with(&[(b"x-remote-user", b"admin")]), true),
        (with(&[(b"content-length", b"0")]), false),
        (with(&[(b"content-length", b"5")]), false),
        (with(&[(b"content-length", b"500")]), false),
        (with(&[(b"content-length", b"+5")]), false),
        (with(&[(b"content-length", length), (b"content-length", b"0")]), false),
        (with(&[(b"transfer-encoding", b"chunked")]), false),
        (with(&[(b"transfer-encoding", b"identity")]), false),
        (with(&[(b"connection", b"content-length")]), false),
        (with(&[(b"connection", b"upgrade"), (b"upgrade", b"h2c")]), false),
        (with(&[(b"upgrade", b"websocket")]), false),
        (with(&[(b"keep-alive", b"timeout=1")]), false),
        (with(&[(b"proxy-connection", b"close")]), false),
        (with(&[(b"host", b"other")]), false),
        (with(&[(b"x", b"a\r\ntransfer-encoding: chunked")]), false),
        (with(&[(b"x", b"a\ntransfer-encoding: chunked")]), false),
        (with(&[(b"x", b"a\rb")]), false),
        (with(&[(b"x", b"a\0b")]), false),
        (with(&[(b"x: a\r\ntransfer-encoding", b"chunked")]), false),
        (with(&[(b"transfer-encoding ", b"chunked")]), false),
        (with(&[(b"Transfer-Encoding", b"chunked")]), false),
        (with(&[(b":path", b"/inner")]), false),
        (instead(b":method", b"POST /inner HTTP/1.1\r\nx: "), false),
        (instead(b":method", b"P OST"), false),
        (instead(b":path", b"/fwd HTTP/1.1\r\nhost: test\r\n\r\nGET /inner"), false),
        (instead(b":path", b"/fwd\tHTTP/1.1"), false),
        (instead(b":path", b"/fwd%0d%0aHost:%20other"), false),
        (instead(b":path", b"http://other/fwd"), false),
        (instead(b":path", b"fwd"), false),
        (instead(b":path", b""), false),
        (instead(b":scheme", b"http://other/inner?"), false),
        (instead(b":authority", b"localhost\r\ntransfer-encoding: chunked"), false),
        (instead(b":authority", b"a@localhost"), false),
        (instead(b":authority", b"localhost/inner"), false),
    ];
    let pair = echoing();
    let mut expected = 0;
    for (fields, is_good) in &cases {
        let shown: Vec<String> =
            fields.iter().map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect();
        let mut connection = Connection::open(&pair.server.address);
        let stream = send(&mut connection, fields);
        let outcome = connection.outcome(stream, Duration::from_secs(10));
        if *is_good {
            expected += 1;
            assert!(matches!(outcome, Outcome::Answered(200)), "{shown:?}: {outcome:?}");
        } else {
            let is_refused =
                matches!(outcome, Outcome::Answered(400..500) | Outcome::Reset(code::PROTOCOL_ERROR));
            assert!(is_refused, "{shown:?}: {outcome:?}");
        }
        let lines: Vec<String> = pair.upstream.asked().iter().map(|asked| asked.line()).collect();
        assert!(!lines.iter().any(|line| line.contains("/inner")), "{shown:?}: {lines:?}");
    }
    let mut whole = 0;
    for received in pair.upstream.received() {
        let (messages, _) = strict::requests(&received).unwrap_or_else(|why| panic!("{why}"));
        whole += messages.len();
    }
    // A body that contradicts its length is refused while it is on its way: the upstream may have seen the head.
    assert!((expected..=expected + 3).contains(&whole), "{whole} whole requests of {expected}");
}

/// A body of a megabyte goes there in pieces, as the windows allow, and the reply comes back.
#[test]
fn bodies_are_passed_on() {
    let pair = echoing();
    let mut connection = Connection::open(&pair.server.address);
    let stream = connection.request("POST", "/fwd/large", &[], false);
    connection.upload(stream, &vec![b'x'; 1 << 20]);
    let response = connection.response(stream);
    assert_eq!((response.status, response.text()), (200, format!("{} bytes", 1 << 20)));
    assert_eq!(response.field("x-upstream"), Some("yes"));
    // Others are answered on the same connection.
    let stream = connection.request("GET", "/fwd", &[], true);
    assert_eq!(connection.response(stream).text(), "0 bytes");
}
