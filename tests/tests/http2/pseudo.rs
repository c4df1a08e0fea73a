//! Pseudo-header fields of requests (RFC 9113, section 8.3), and CONNECT (section 8.5).

use revcast_tests::http2::{Frame, flag, hpack as packed};

use super::case::{Case, Expect, frames, run};

const MALFORMED: Expect = Expect::Malformed(1);
const ANSWERED: Expect = Expect::Answers(1, 200);

/// A request of these fields alone.
fn of(id: &'static str, says: &'static str, fields: &[(&str, &str)], expect: Expect) -> Case {
    frames(id, says, vec![Frame::headers(1, flag::WHOLE, packed::block(fields))], expect)
}

const METHOD: (&str, &str) = (":method", "GET");
const SCHEME: (&str, &str) = (":scheme", "http");
const AUTHORITY: (&str, &str) = (":authority", "test");
const PATH: (&str, &str) = (":path", "/version");

#[test]
fn each_is_there_once_and_first() {
    let all = [METHOD, SCHEME, AUTHORITY, PATH];
    let and = |field: (&'static str, &'static str)| [&all[..], &[field]].concat();
    run(&[
        of("9113-8.3.1-no-method", "no :method", &[SCHEME, AUTHORITY, PATH], MALFORMED),
        of("9113-8.3.1-no-scheme", "no :scheme", &[METHOD, AUTHORITY, PATH], MALFORMED),
        of("9113-8.3.1-no-path", "no :path", &[METHOD, SCHEME, AUTHORITY], MALFORMED),
        of("9113-8.3.1-only-regular", "none at all", &[("accept", "*/*")], MALFORMED),
        of("9113-8.3.1-two-methods", ":method twice", &and(METHOD), MALFORMED),
        of("9113-8.3.1-two-schemes", ":scheme twice", &and(SCHEME), MALFORMED),
        of("9113-8.3.1-two-paths", ":path twice", &and(PATH), MALFORMED),
        of(
            "9113-8.3.1-two-other-paths",
            ":path twice, with another value",
            &and((":path", "/livez")),
            MALFORMED,
        ),
        of("9113-8.3-two-authorities", ":authority twice", &and(AUTHORITY), MALFORMED),
        of("9113-8.3-unknown", "one that is not defined", &and((":version", "HTTP/2.0")), MALFORMED),
        of("9113-8.3-unknown-empty", "a colon alone", &and((":", "x")), MALFORMED),
        of("9113-8.3-upper-case", "in upper case", &[(":Method", "GET"), SCHEME, AUTHORITY, PATH], MALFORMED),
        of("9113-8.3-status", ":status is a response's", &and((":status", "200")), MALFORMED),
        of(
            "9113-8.3-status-first",
            "also at the beginning",
            &[(":status", "200"), METHOD, SCHEME, AUTHORITY, PATH],
            MALFORMED,
        ),
        of(
            "9113-8.3-after-regular",
            "after a regular field",
            &[METHOD, SCHEME, AUTHORITY, ("accept", "*/*"), PATH],
            MALFORMED,
        ),
        of(
            "9113-8.3-all-after-regular",
            "all after a regular field",
            &[("accept", "*/*"), METHOD, SCHEME, AUTHORITY, PATH],
            MALFORMED,
        ),
        of(
            "9113-8.3-authority-after",
            ":authority after a regular field",
            &[METHOD, SCHEME, PATH, ("accept", "*/*"), AUTHORITY],
            MALFORMED,
        ),
        of("9113-8.3-any-order", "in any order", &[PATH, AUTHORITY, SCHEME, METHOD], ANSWERED),
        of("9113-8.3-client-go", "in the order of Go", &[AUTHORITY, METHOD, PATH, SCHEME], ANSWERED),
    ]);
}

#[test]
fn their_values_are_checked() {
    let path = |id, says, path: &'static str, expect| {
        of(id, says, &[METHOD, SCHEME, AUTHORITY, (":path", path)], expect)
    };
    let method = |id, says, method: &'static str, expect| {
        of(id, says, &[(":method", method), SCHEME, AUTHORITY, PATH], expect)
    };
    let scheme = |id, says, scheme: &'static str, expect| {
        of(id, says, &[METHOD, (":scheme", scheme), AUTHORITY, PATH], expect)
    };
    run(&[
        path("9113-8.3.1-path-empty", ":path is not empty", "", MALFORMED),
        path("9113-8.3.1-path-relative", ":path begins with a slash", "version", MALFORMED),
        path("9113-8.3.1-path-query-only", "also before a query", "?watch=1", MALFORMED),
        path("9113-8.3.1-path-absolute", ":path is no whole address", "http://test/version", MALFORMED),
        path("9113-8.3.1-path-star", "* is for OPTIONS alone", "*", MALFORMED),
        path("9113-10.3-path-space", "a space", "/version HTTP/1.1", MALFORMED),
        path("9113-10.3-path-crlf", "a line break", "/version\r\nx: 1", MALFORMED),
        path("9113-10.3-path-lf", "LF", "/version\n", MALFORMED),
        path("9113-10.3-path-nul", "NUL", "/version\0", MALFORMED),
        path("9113-10.3-path-tab", "a tab", "/ver\tsion", MALFORMED),
        path("9113-10.3-path-del", "DEL", "/version\x7f", MALFORMED),
        path("9113-8.3.1-path-fragment", "a fragment", "/version#a", Expect::Settles(1)),
        path("9113-8.3.1-path-query", "a query", "/version?timeout=32s", ANSWERED),
        method("9113-8.3.1-method-empty", ":method is not empty", "", MALFORMED),
        method("9113-8.3.1-method-space", "a space", "GET /livez", MALFORMED),
        method("9113-8.3.1-method-crlf", "a line break", "GET\r\n", MALFORMED),
        method("9113-8.3.1-method-nul", "NUL", "G\0T", MALFORMED),
        method("9113-8.3.1-method-delimiter", "no token", "G(T", MALFORMED),
        method("9110-9.1-method-unknown", "a method that nobody knows", "BREW", Expect::Refuses(1)),
        method("9110-9.1-method-lower", "methods have their case", "get", Expect::Refuses(1)),
        scheme("9113-8.3.1-scheme-empty", ":scheme is not empty", "", MALFORMED),
        scheme("9113-8.3.1-scheme-crlf", "a line break", "http\r\n", MALFORMED),
        scheme("9113-8.3.1-scheme-space", "a space", "ht tp", MALFORMED),
        scheme("9113-8.3.1-scheme-https", "https, behind something that ends TLS", "https", ANSWERED),
    ]);
}

#[test]
fn authority_and_host() {
    let host = |id, says, fields: &[(&str, &str)], expect| {
        of(id, says, &[&[METHOD, SCHEME, PATH], fields].concat(), expect)
    };
    run(&[
        host("9113-8.3.1-host-equal", "host may repeat :authority", &[AUTHORITY, ("host", "test")], ANSWERED),
        host("9113-8.3.1-host-alone", "host may stand for :authority", &[("host", "test")], ANSWERED),
        host("9113-8.3.1-host-differs", "host and :authority differ", &[AUTHORITY, ("host", "h")], MALFORMED),
        host("9113-8.3.1-host-port-differs", "also in the port", &[AUTHORITY, ("host", "test:1")], MALFORMED),
        host("9113-8.3.1-host-empty", "also where one is empty", &[AUTHORITY, ("host", "")], MALFORMED),
        host("9110-7.2-neither", "neither of both", &[], Expect::Settles(1)),
        host("9110-7.2-authority-empty", "an empty :authority", &[(":authority", "")], Expect::Settles(1)),
        host(
            "9113-8.3.1-userinfo",
            ":authority has no user",
            &[(":authority", "user@test")],
            Expect::Refuses(1),
        ),
        host("9113-10.3-authority-space", "a space", &[(":authority", "te st")], Expect::Refuses(1)),
        host("9113-10.3-authority-crlf", "a line break", &[(":authority", "test\r\nx: 1")], MALFORMED),
        host("9113-10.3-authority-nul", "NUL", &[(":authority", "te\0st")], MALFORMED),
        host("9113-10.3-authority-slash", "a path", &[(":authority", "test/x")], Expect::Refuses(1)),
        host(
            "9110-7.2-foreign",
            "a name that the server does not have",
            &[(":authority", "elsewhere.example")],
            Expect::Refuses(1),
        ),
        host("9110-7.2-port", "a name with a port", &[(":authority", "test:8080")], ANSWERED),
        host("9110-7.2-case", "names have no case", &[(":authority", "TEST")], ANSWERED),
    ]);
}

/// Section 8.5. The server is no proxy.
#[test]
fn connect_without_a_protocol() {
    let method = (":method", "CONNECT");
    run(&[
        of(
            "9113-8.5-connect",
            "CONNECT of a port",
            &[method, (":authority", "test:443")],
            Expect::Refuses(1),
        ),
        of(
            "9113-8.5-scheme",
            ":scheme has no place in it",
            &[method, SCHEME, (":authority", "test:443")],
            Expect::Refuses(1),
        ),
        of(
            "9113-8.5-path",
            ":path has no place in it",
            &[method, PATH, (":authority", "test:443")],
            Expect::Refuses(1),
        ),
        of("9113-8.5-both", "nor have both", &[method, SCHEME, AUTHORITY, PATH], Expect::Refuses(1)),
        of("9113-8.5-no-authority", "CONNECT of nothing", &[method], Expect::Refuses(1)),
    ]);
}

/// Section 8.3.1: `*` stands for the server.
#[test]
fn options_of_the_server_is_no_error_of_the_connection() {
    run(&[of(
        "9113-8.3.1-options-star",
        "OPTIONS *",
        &[(":method", "OPTIONS"), SCHEME, AUTHORITY, (":path", "*")],
        Expect::Settles(1),
    )]);
}
