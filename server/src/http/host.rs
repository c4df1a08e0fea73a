//! The name by which a request calls the server, and whether that name is one of the server's own.
//!
//! A web page may make its own name point at this machine (DNS rebinding): to the browser the server then has the
//! page's origin, and `Origin` and `Host` agree. Only the name shows it. No other site can have an address as its
//! name, or `localhost` and names below it (RFC 6761, section 6.3); other names are configured by an operator.

use std::fmt;

/// Names that an operator configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(Vec<Pattern>);

/// One name, or all names below it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    /// In lower case.
    name: String,
    /// Whether it stands for the names below it, and not for itself.
    below: bool,
}

impl Hosts {
    /// Reads `NAME,NAME`; `*.NAME` is all names below it.
    ///
    /// # Errors
    /// The first one that is not a name.
    pub fn parse(text: &str) -> Result<Self, String> {
        let pattern = |text: &str| {
            let (name, below) = text.strip_prefix("*.").map_or((text, false), |name| (name, true));
            let pattern = Pattern { name: name.to_ascii_lowercase(), below };
            if is_name(name) { Ok(pattern) } else { Err(text.to_owned()) }
        };
        text.split(',').map(|part| pattern(part.trim())).collect::<Result<_, _>>().map(Self)
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a request with this `Host` (`HOST` or `HOST:PORT`) cannot have it from another site's page. A request
    /// without a `Host` is not a browser's.
    #[must_use]
    pub fn know(&self, authority: &str) -> bool {
        if authority.is_empty() {
            return true;
        }
        let name = name_of(authority);
        is_address(&name)
            || is_below(&name, "localhost")
            || name == "localhost"
            || self.0.iter().any(|pattern| pattern.covers(&name))
    }
}

impl Pattern {
    fn covers(&self, name: &str) -> bool {
        if self.below { is_below(name, &self.name) } else { name == self.name }
    }
}

impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, Pattern { name, below }) in self.0.iter().enumerate() {
            let (comma, star) = (if number > 0 { "," } else { "" }, if *below { "*." } else { "" });
            write!(f, "{comma}{star}{name}")?;
        }
        Ok(())
    }
}

/// Whether this is one host name, as [`Hosts::parse`] takes it.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        !label.is_empty() && label.len() <= 63 && label.bytes().all(is_part)
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// The name or address in `HOST:PORT`, in lower case, without the final dot, which makes no difference.
#[must_use]
pub fn name_of(authority: &str) -> String {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        Some(_) | None => authority,
    };
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

/// An IPv4 address, or an IPv6 address in brackets.
fn is_address(host: &str) -> bool {
    let v6 = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    v6.map_or_else(
        || host.parse::<std::net::Ipv4Addr>().is_ok(),
        |address| address.parse::<std::net::Ipv6Addr>().is_ok(),
    )
}

fn is_below(name: &str, parent: &str) -> bool {
    name.strip_suffix(parent).is_some_and(|before| before.len() > 1 && before.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_are_told_from_ours() {
        let hosts = Hosts::parse("revcast.svc, *.Example.org").expect("names");
        for ours in [
            "127.0.0.1",
            "127.0.0.1:8080",
            "192.0.2.7:1",
            "[::1]:8080",
            "[2001:db8::1]",
            "localhost",
            "LOCALHOST:8080",
            "localhost.:80",
            "a.localhost:3000",
            "revcast.svc",
            "Revcast.SVC.:8080",
            "a.example.org",
            "a.b.example.org:1",
            "",
        ] {
            assert!(hosts.know(ours), "{ours}");
        }
        for others in [
            "evil.example",
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "127.0.0.1.evil.example:8080",
            "localhost.evil.example",
            "evil-localhost",
            ".localhost",
            "example.org",
            "evilexample.org",
            "revcast.svc.evil.example",
            "2130706433",
            "0x7f.1",
            "[::1",
            "[evil.example]",
            ".",
            ":8080",
        ] {
            assert!(!hosts.know(others), "{others}");
        }
        assert!(Hosts::default().know("localhost:1") && !Hosts::default().know("revcast.svc"));
    }

    #[test]
    fn lists_are_read_and_shown() {
        let shown = |text: &str| Hosts::parse(text).map(|hosts| hosts.to_string());
        assert_eq!(shown("A.b, *.c_d-1").as_deref(), Ok("a.b,*.c_d-1"));
        let long = "a".repeat(64);
        for wrong in
            ["", "a,", "*", "*.", "a..b", ".a", "a.", "a:80", "http://a", "a b", "*.*.a", "\u{fc}", &long]
        {
            assert!(shown(wrong).is_err(), "{wrong:?}");
        }
    }
}
