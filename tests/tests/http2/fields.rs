//! Requests and their regular fields (RFC 9113, sections 8.1 and 8.2).

use revcast_tests::http2::{Frame, code, flag, hpack as packed};
use revcast_tests::server::Server;

use super::case::{Case, Expect, case, frames, run};
use super::{PATH, get, object, post, post_block, post_with};

const MALFORMED: Expect = Expect::Malformed(1);
const ANSWERED: Expect = Expect::Answers(1, 200);
const CREATED: Expect = Expect::Answers(1, 201);

/// A GET with one more field of any bytes.
fn with(id: &'static str, says: &'static str, name: &[u8], value: &[u8], expect: Expect) -> Case {
    let block = [packed::request("GET", "/readyz", &[]), packed::literal(name, value)].concat();
    frames(id, says, vec![Frame::headers(1, flag::WHOLE, block)], expect)
}

#[test]
fn names_of_fields() {
    let mut cases = vec![
        with("9113-8.2-upper-case", "an upper-case letter", b"X-a", b"1", MALFORMED),
        with("9113-8.2-upper-case-inside", "also inside", b"x-A", b"1", MALFORMED),
        with("9113-8.2-upper-case-known", "also of a name that is known", b"Accept", b"*/*", MALFORMED),
        with("9113-8.2.1-name-empty", "no name", b"", b"1", MALFORMED),
        with("9113-8.2.1-name-space", "a space", b"x a", b"1", MALFORMED),
        with("9113-8.2.1-name-space-first", "a space at the beginning", b" x", b"1", MALFORMED),
        with("9113-8.2.1-name-space-last", "a space at the end", b"x ", b"1", MALFORMED),
        with("9113-8.2.1-name-nul", "NUL", b"x\0a", b"1", MALFORMED),
        with("9113-8.2.1-name-cr", "CR", b"x\ra", b"1", MALFORMED),
        with("9113-8.2.1-name-lf", "LF", b"x\na", b"1", MALFORMED),
        with("9113-8.2.1-name-smuggles", "a whole field", b"x: 1\r\ny", b"1", MALFORMED),
        with("9113-8.2.1-name-tab", "a tab", b"x\ta", b"1", MALFORMED),
        with("9113-8.2.1-name-del", "DEL", b"x\x7fa", b"1", MALFORMED),
        with("9113-8.2.1-name-0x80", "a byte above ASCII", b"x\x80a", b"1", MALFORMED),
        with("9113-8.2.1-name-0xff", "a byte above ASCII", b"x\xffa", b"1", MALFORMED),
        with("9113-8.2.1-name-utf8", "a letter above ASCII", "x\u{e4}".as_bytes(), b"1", MALFORMED),
        with("9113-8.2.1-name-colon", "a colon inside", b"x:a", b"1", MALFORMED),
        with("9113-8.2.1-name-colon-last", "a colon at the end", b"x-a:", b"1", MALFORMED),
        with("9110-5.1-name-all", "every letter of a token", b"!#$%&'*+-.^_`|~09az", b"1", ANSWERED),
        with("9113-8.2-name-long", "a long name", &[b'n'; 1_000], b"1", ANSWERED),
    ];
    // Delimiters, which are no part of a token (RFC 9110, section 5.6.2).
    for (id, name) in [
        ("9110-5.1-name-slash", &b"x/a"[..]),
        ("9110-5.1-name-parenthesis", b"x(a"),
        ("9110-5.1-name-comma", b"x,a"),
        ("9110-5.1-name-quote", b"x\"a"),
    ] {
        cases.push(with(id, "a delimiter", name, b"1", MALFORMED));
    }
    run(&cases);
}

#[test]
fn values_of_fields() {
    run(&[
        with("9113-8.2.1-value-nul", "NUL", b"x-a", b"a\0b", MALFORMED),
        with("9113-8.2.1-value-cr", "CR", b"x-a", b"a\rb", MALFORMED),
        with("9113-8.2.1-value-lf", "LF", b"x-a", b"a\nb", MALFORMED),
        with("9113-8.2.1-value-crlf", "a whole field", b"x-a", b"a\r\nx-b: c", MALFORMED),
        with(
            "9113-8.2.1-value-request",
            "a whole request",
            b"x-a",
            b"a\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            MALFORMED,
        ),
        with("9113-8.2.1-value-nul-alone", "nothing but NUL", b"x-a", b"\0", MALFORMED),
        with("9113-8.2.1-value-space-first", "a space at the beginning", b"x-a", b" a", MALFORMED),
        with("9113-8.2.1-value-space-last", "a space at the end", b"x-a", b"a ", MALFORMED),
        with("9113-8.2.1-value-tab-first", "a tab at the beginning", b"x-a", b"\ta", MALFORMED),
        with("9113-8.2.1-value-tab-last", "a tab at the end", b"x-a", b"a\t", MALFORMED),
        with("9113-8.2.1-value-space-alone", "nothing but a space", b"x-a", b" ", MALFORMED),
        with("9113-8.2.1-value-of-known", "also of a name that is known", b"accept", b"*/*\r\n", MALFORMED),
        with("9113-8.2.1-value-empty", "nothing", b"x-a", b"", ANSWERED),
        with("9113-8.2.1-value-inside", "spaces and tabs inside", b"x-a", b"a \t b", ANSWERED),
        with("9110-5.5-value-obs-text", "bytes above ASCII", b"x-a", b"a\x80\xff\xc3\xa4", ANSWERED),
        with("9113-8.2.1-value-long", "a long value", b"x-a", &[b'v'; 8_000], ANSWERED),
    ]);
}

#[test]
fn fields_of_a_connection() {
    run(&[
        with("9113-8.2.2-connection", "connection", b"connection", b"close", MALFORMED),
        with("9113-8.2.2-connection-alive", "connection", b"connection", b"keep-alive", MALFORMED),
        with("9113-8.2.2-connection-te", "connection: te", b"connection", b"te", MALFORMED),
        with("9113-8.2.2-keep-alive", "keep-alive", b"keep-alive", b"timeout=5", MALFORMED),
        with(
            "9113-8.2.2-proxy-connection",
            "proxy-connection",
            b"proxy-connection",
            b"keep-alive",
            MALFORMED,
        ),
        with(
            "9113-8.2.2-transfer-encoding",
            "transfer-encoding",
            b"transfer-encoding",
            b"chunked",
            MALFORMED,
        ),
        with(
            "9113-8.2.2-transfer-identity",
            "transfer-encoding",
            b"transfer-encoding",
            b"identity",
            MALFORMED,
        ),
        with("9113-8.2.2-upgrade", "upgrade", b"upgrade", b"websocket", MALFORMED),
        with("9113-8.2.2-te-gzip", "te of anything but trailers", b"te", b"gzip", MALFORMED),
        with("9113-8.2.2-te-both", "te of more than trailers", b"te", b"trailers, gzip", MALFORMED),
        with("9113-8.2.2-te", "te: trailers", b"te", b"trailers", ANSWERED),
        frames(
            "9113-8.2.2-chunked-post",
            "a body in chunks",
            vec![
                post_with(1, &[("transfer-encoding", "chunked")]),
                Frame::data(1, 1, "5\r\nhello\r\n0\r\n\r\n"),
            ],
            MALFORMED,
        ),
    ]);
}

/// Sections 8.2.3 and 8.2.1: what a client may spell in more than one way.
#[test]
fn fields_that_come_several_times() {
    let several = |id, says, more: &[(&str, &str)], expect| {
        frames(
            id,
            says,
            vec![Frame::headers(1, flag::WHOLE, packed::request("GET", "/version", more))],
            expect,
        )
    };
    run(&[
        several(
            "9113-8.2.3-cookies",
            "a cookie in pieces",
            &[("cookie", "a=b"), ("cookie", "c=d"), ("cookie", "e=f")],
            ANSWERED,
        ),
        several(
            "9110-5.3-accept",
            "a list in pieces",
            &[("accept", "text/plain"), ("accept", "application/json")],
            ANSWERED,
        ),
        several(
            "9110-5.3-unknown",
            "a field of any name",
            &[("x-a", "1"), ("x-b", "2"), ("x-a", "3")],
            ANSWERED,
        ),
        several(
            "9110-8.6-content-lengths",
            "two lengths",
            &[("content-length", "1"), ("content-length", "2")],
            MALFORMED,
        ),
        several("9113-8.3.1-hosts", "two hosts", &[("host", "test"), ("host", "other")], MALFORMED),
    ]);
}

#[test]
fn content_length_is_the_length_of_data() {
    let body = object("counted", "1");
    let (half, rest) = body.split_at(body.len() / 2);
    let length = body.len().to_string();
    let right = object("counted-right", "1");
    let of = |length: &str| post_with(1, &[("content-length", length)]);
    // RFC 9113 has a stream error here, which an answer in 400 explains better.
    run(&[
        frames(
            "9113-8.1.1-more-than-said",
            "more DATA than content-length",
            vec![of("5"), Frame::data(1, 1, body.clone())],
            MALFORMED,
        ),
        frames(
            "9113-8.1.1-less-than-said",
            "less DATA than content-length",
            vec![of("500"), Frame::data(1, 1, body.clone())],
            MALFORMED,
        ),
        frames(
            "9113-8.1.1-one-less",
            "one byte less",
            vec![of(&(body.len() + 1).to_string()), Frame::data(1, 1, body.clone())],
            MALFORMED,
        ),
        frames(
            "9113-8.1.1-one-more",
            "one byte more",
            vec![of(&(body.len() - 1).to_string()), Frame::data(1, 1, body.clone())],
            MALFORMED,
        ),
        frames(
            "9113-8.1.1-no-data",
            "END_STREAM in HEADERS, and a length",
            vec![Frame::headers(1, flag::WHOLE, post_block(&[("content-length", "5")]))],
            MALFORMED,
        ),
        frames(
            "9113-8.1.1-get-no-data",
            "also for GET",
            vec![Frame::headers(
                1,
                flag::WHOLE,
                packed::request("GET", "/version", &[("content-length", "5")]),
            )],
            MALFORMED,
        ),
        frames(
            "9113-8.1.1-zero-and-data",
            "a length of nothing, and DATA",
            vec![of("0"), Frame::data(1, 1, "x")],
            MALFORMED,
        ),
        frames(
            "9113-8.1.1-empty-data",
            "a length, and empty DATA",
            vec![of("5"), Frame::data(1, 1, [])],
            MALFORMED,
        ),
        frames(
            "9113-8.1.1-in-frames",
            "the sum of several frames",
            vec![of("9"), Frame::data(1, 0, half), Frame::data(1, 1, rest)],
            MALFORMED,
        ),
        frames(
            "9113-8.1.1-before-trailers",
            "less than said, and trailers",
            vec![
                of("500"),
                Frame::data(1, 0, body.clone()),
                Frame::headers(1, flag::WHOLE, packed::literal("x-sum", "1")),
            ],
            MALFORMED,
        ),
        frames("9110-8.6-negative", "no number", vec![of("-1"), Frame::data(1, 1, body.clone())], MALFORMED),
        frames(
            "9110-8.6-plus",
            "a sign",
            vec![of(&format!("+{length}")), Frame::data(1, 1, body.clone())],
            MALFORMED,
        ),
        frames("9110-8.6-hex", "hexadecimal", vec![of("0x10"), Frame::data(1, 1, body.clone())], MALFORMED),
        frames("9110-8.6-empty", "nothing", vec![of(""), Frame::data(1, 1, body.clone())], MALFORMED),
        frames(
            "9110-8.6-huge",
            "beyond 64 bits",
            vec![of("99999999999999999999999"), Frame::data(1, 1, body.clone())],
            Expect::Refuses(1),
        ),
        frames(
            "9110-8.6-list",
            "different numbers",
            vec![of(&format!("{length}, 3")), Frame::data(1, 1, body.clone())],
            MALFORMED,
        ),
        frames(
            "9113-8.1.1-right",
            "a length that is right",
            vec![
                of(&right.len().to_string()),
                Frame::data(1, 0, &right[..9]),
                Frame::data(1, 1, &right[9..]),
            ],
            CREATED,
        ),
        frames(
            "9113-8.1.1-padding-is-none",
            "padding is no part of the length",
            vec![
                post_with(1, &[("content-length", &object("counted-padded", "1").len().to_string())]),
                Frame::padded_data(1, 1, &object("counted-padded", "1"), 77),
            ],
            CREATED,
        ),
        frames(
            "9113-8.1.1-zero",
            "a length of nothing",
            vec![Frame::headers(
                1,
                flag::WHOLE,
                packed::request("GET", "/version", &[("content-length", "0")]),
            )],
            ANSWERED,
        ),
    ]);
}

#[test]
fn trailers() {
    let body = |name: &str| Frame::data(1, 0, object(name, "1"));
    let trailers = |flags: u8, block: Vec<u8>| Frame::headers(1, flags, block);
    run(&[
        frames(
            "9113-8.1-trailers",
            "trailers end a request",
            vec![post(1), body("trailers"), trailers(flag::WHOLE, packed::literal("x-sum", "1"))],
            CREATED,
        ),
        frames(
            "9113-8.1-trailers-empty",
            "also without fields",
            vec![post(1), body("trailers-empty"), trailers(flag::WHOLE, vec![])],
            CREATED,
        ),
        frames(
            "9113-8.1-trailers-of-get",
            "also those of a request without a body",
            vec![
                Frame::headers(1, flag::END_HEADERS, packed::request("GET", "/version", &[])),
                trailers(flag::WHOLE, packed::literal("x-sum", "1")),
            ],
            ANSWERED,
        ),
        frames(
            "9113-8.1-trailers-without-end",
            "HEADERS that neither begin nor end",
            vec![post(1), body("trailers-open"), trailers(flag::END_HEADERS, packed::literal("x-sum", "1"))],
            MALFORMED,
        ),
        frames("9113-8.1-two-heads", "a second head", vec![post(1), post(1)], MALFORMED),
        frames(
            "9113-8.1-pseudo-in-trailers",
            "pseudo-header fields are no trailers",
            vec![post(1), body("trailers-pseudo"), trailers(flag::WHOLE, packed::literal(":method", "GET"))],
            MALFORMED,
        ),
        frames(
            "9113-8.1-path-in-trailers",
            "also where the name is indexed",
            vec![post(1), body("trailers-path"), trailers(flag::WHOLE, packed::indexed(4))],
            MALFORMED,
        ),
        frames(
            "9113-8.1-status-in-trailers",
            "also of a response",
            vec![post(1), body("trailers-status"), trailers(flag::WHOLE, packed::indexed(8))],
            MALFORMED,
        ),
        frames(
            "9113-8.2-upper-case-in-trailers",
            "an upper-case letter",
            vec![post(1), body("trailers-upper"), trailers(flag::WHOLE, packed::literal("X-Sum", "1"))],
            MALFORMED,
        ),
        frames(
            "9113-8.2.1-value-in-trailers",
            "LF in a value",
            vec![post(1), body("trailers-lf"), trailers(flag::WHOLE, packed::literal("x-sum", "a\nb"))],
            MALFORMED,
        ),
        frames(
            "9113-8.2.2-connection-in-trailers",
            "a field of the connection",
            vec![
                post(1),
                body("trailers-connection"),
                trailers(flag::WHOLE, packed::literal("connection", "close")),
            ],
            MALFORMED,
        ),
        frames(
            "9113-8.1-data-after-trailers",
            "nothing comes after them",
            vec![post(1), trailers(flag::WHOLE, packed::literal("x-sum", "1")), Frame::data(1, 1, "x")],
            Expect::MayFail(1, &[code::STREAM_CLOSED]),
        ),
    ]);
}

/// What is malformed is not done (section 8.1.1): no object of these requests exists.
#[test]
fn malformed_requests_have_no_effect() {
    use revcast_tests::http2::{Connection, Outcome};
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    let wrong: [&[(&str, &str)]; 4] = [
        &[("Upper", "1")],
        &[("content-length", "3")],
        &[("x-a", "a\nb")],
        &[("transfer-encoding", "chunked")],
    ];
    for (number, more) in wrong.iter().enumerate() {
        let stream = connection.next_stream();
        connection.send(post_with(stream, more));
        connection.send(Frame::data(stream, 1, object(&format!("wrong{number}"), "1")));
        let outcome = connection.outcome(stream, std::time::Duration::from_secs(10));
        assert!(
            matches!(outcome, Outcome::Reset(code::PROTOCOL_ERROR) | Outcome::Answered(400)),
            "{more:?}: {outcome:?}"
        );
    }
    connection.send(get(connection.next_stream(), "/readyz"));
    assert_eq!(connection.get(PATH).json()["items"].as_array().map(Vec::len), Some(0));
}

/// Section 8.1.1: one that is malformed harms no other of the connection.
#[test]
fn malformed_requests_leave_watches_alone() {
    use revcast_tests::http2::Connection;
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    let watched = connection.request("GET", &format!("{PATH}?watch=1"), &[], true);
    assert_eq!(connection.head(watched).status, 200);
    for _ in 0..30 {
        let stream = connection.request("GET", "/readyz", &[("X-Upper", "1")], true);
        let _ = connection.outcome(stream, std::time::Duration::from_secs(10));
    }
    super::create(&server.client(), "still", "1");
    assert_eq!(connection.event(watched).1["metadata"]["name"], "still");
}

#[test]
fn an_empty_block_is_malformed() {
    run(&[
        frames(
            "9113-8.3.1-no-fields",
            "no fields at all",
            vec![Frame::headers(1, flag::WHOLE, [])],
            MALFORMED,
        ),
        case(
            "9113-8.3.1-only-a-resize",
            "nothing but a size update",
            vec![Frame::headers(1, flag::WHOLE, packed::resize(100)).into()],
            MALFORMED,
        ),
    ]);
}
