//! Which page sent a request, if a browser did.

use super::host::name_of;
use super::request::{Method, RequestHead};

/// Whether a browser sent this request for another site's page although only pages of this server may send it: one that
/// changes something, or that opens a WebSocket. A browser sends it with all credentials that it has, and names the
/// page. Reads need no check, since a browser does not show a page the replies of another server; but it does not
/// restrict WebSockets (RFC 6455, section 10.2).
#[must_use]
pub fn is_foreign(head: &RequestHead) -> bool {
    let reads = matches!(head.method, Method::Get | Method::Head | Method::Options) && head.upgrade.is_none();
    let host = head.host.as_deref().unwrap_or_default();
    !reads && head.origin.as_deref().is_some_and(|origin| !is_of_ours(origin, host))
}

/// Whether this origin belongs to the server that the request called `host`: the same name, on any port, or this
/// machine.
fn is_of_ours(origin: &str, host: &str) -> bool {
    let Some((_, authority)) = origin.split_once("://") else { return false };
    let asks = name_of(authority);
    let v4 = || asks.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback());
    asks == name_of(host) || asks == "localhost" || asks == "[::1]" || v4()
}

#[cfg(test)]
mod tests {
    use super::super::request::{Parsed, parse_head};
    use super::*;

    #[test]
    fn pages_of_others_read_nothing() {
        for (origin, host, fine) in [
            ("https://127.0.0.1", "apiserver:6443", true),
            ("http://apiserver:3000", "apiserver:6443", true),
            ("https://APISERVER", "apiserver:6443", true),
            ("http://localhost:5173", "127.0.0.1:8080", true),
            ("http://[::1]:1", "127.0.0.1:8080", true),
            ("https://evil.example", "127.0.0.1:8080", false),
            ("https://127.0.0.1.evil.example", "127.0.0.1:8080", false),
            ("https://localhost.evil.example:80", "localhost", false),
            ("null", "127.0.0.1:8080", false),
            ("", "", false),
        ] {
            assert_eq!(is_of_ours(origin, host), fine, "{origin} of {host}");
        }
    }

    #[test]
    fn what_changes_something_and_websockets_are_for_pages_of_ours() {
        let foreign = |method: &str, lines: &str| {
            let text = format!("{method} /api/v1/pods HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
            let Ok(Parsed::Complete { head, .. }) = parse_head(text.as_bytes()) else { panic!("{text}") };
            is_foreign(&head)
        };
        let (theirs, ours) = ("Origin: http://evil.example\r\n", "Origin: http://a:3000\r\n");
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            assert!(foreign(method, theirs) && foreign(method, "Origin: null\r\n"), "{method}");
            assert!(!foreign(method, ours) && !foreign(method, ""), "{method}");
        }
        assert!(!foreign("GET", theirs) && !foreign("HEAD", theirs) && !foreign("OPTIONS", theirs));
        let upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\n";
        assert!(foreign("GET", &format!("{upgrade}{theirs}")));
        assert!(!foreign("GET", &format!("{upgrade}{ours}")) && !foreign("GET", upgrade));
    }
}
