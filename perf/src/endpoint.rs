//! The server's address as written, its resource, and the paths of its objects.

use std::fmt;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Where the server listens, as written: `http://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Why a server cannot be loaded. Each is the user's to mend.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TargetFault {
    Unresolved(String),
    NotLoopback(SocketAddr),
    Refused(SocketAddr, String),
}

impl fmt::Display for TargetFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unresolved(why) => write!(out, "the host has no address ({why}); check its spelling"),
            Self::NotLoopback(address) => write!(
                out,
                "{} is not this machine; give a loopback address, or --i-own-this-server if that is true",
                address.ip()
            ),
            Self::Refused(address, why) => {
                write!(out, "nothing answers at {address} ({why}); start the server first")
            }
        }
    }
}

impl Server {
    /// Reads `http://HOST[:PORT][/]`. The error is the mend.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.starts_with("https://") {
            return Err(
                "TLS is not spoken here; put `kubectl proxy` in front and give http://127.0.0.1:8001",
            );
        }
        let rest = text.strip_prefix("http://").ok_or("write it as http://HOST:PORT")?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#', '@']) || authority.is_empty() {
            return Err("give host and port only, as http://HOST:PORT");
        }
        let bracket = authority.rfind(']').unwrap_or(0);
        let (host, port) = match authority[bracket..].find(':') {
            Some(colon) => {
                let (host, port) = authority.split_at(bracket + colon);
                (host, port[1..].parse().map_err(|_| "the port is a number from 1 to 65535")?)
            }
            None => (authority, 80),
        };
        if host.is_empty() || port == 0 {
            return Err("give host and port, as http://127.0.0.1:8080");
        }
        Ok(Self { host: host.to_owned(), port })
    }

    pub(crate) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The first of the host's addresses at which something answers. An address that is not loopback is refused, unless
    /// `anywhere`.
    pub(crate) fn resolve(&self, anywhere: bool) -> Result<SocketAddr, TargetFault> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let addresses: Vec<SocketAddr> = (host, self.port)
            .to_socket_addrs()
            .map_err(|fault| TargetFault::Unresolved(fault.to_string()))?
            .collect();
        if let Some(&far) = addresses.iter().find(|address| !anywhere && !address.ip().is_loopback()) {
            return Err(TargetFault::NotLoopback(far));
        }
        let mut fault = TargetFault::Unresolved("an empty answer".to_owned());
        for address in addresses {
            match TcpStream::connect_timeout(&address, Duration::from_secs(3)) {
                Ok(_) => return Ok(address),
                Err(why) => fault = TargetFault::Refused(address, why.to_string()),
            }
        }
        Err(fault)
    }
}

/// A namespaced resource whose objects keep a `data` member of strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    /// `v1`, `example.com/v1`.
    pub(crate) api_version: String,
    pub(crate) plural: String,
    pub(crate) kind: String,
}

impl Resource {
    /// Reads `configmaps`, `v1/PLURAL/KIND` or `GROUP/VERSION/PLURAL/KIND`.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        const MEND: &str = "give configmaps, v1/PLURAL/KIND or GROUP/VERSION/PLURAL/KIND";
        let parts: Vec<&str> = text.split('/').collect();
        if parts.iter().any(|part| part.is_empty()) {
            return Err(MEND);
        }
        let (api_version, plural, kind) = match parts.as_slice() {
            ["configmaps"] => ("v1".to_owned(), "configmaps", "ConfigMap"),
            ["v1", plural, kind] => ("v1".to_owned(), *plural, *kind),
            [group, version, plural, kind] => (format!("{group}/{version}"), *plural, *kind),
            _ => return Err(MEND),
        };
        Ok(Self { api_version, plural: plural.to_owned(), kind: kind.to_owned() })
    }

    /// The path of the collection over all namespaces.
    pub(crate) fn everywhere(&self) -> String {
        let root = if self.api_version == "v1" { "/api" } else { "/apis" };
        format!("{root}/{}/{}", self.api_version, self.plural)
    }

    /// The path of the collection in one namespace.
    pub(crate) fn collection(&self, namespace: &str) -> String {
        let root = if self.api_version == "v1" { "/api" } else { "/apis" };
        format!("{root}/{}/namespaces/{namespace}/{}", self.api_version, self.plural)
    }
}

/// Percent-encodes a query value: all but RFC 3986's unreserved characters.
pub(crate) fn encode(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_as_written() {
        let server = |host: &str, port| Ok(Server { host: host.to_owned(), port });
        assert_eq!(Server::parse("http://127.0.0.1:8080"), server("127.0.0.1", 8080));
        assert_eq!(Server::parse("http://localhost/"), server("localhost", 80));
        assert_eq!(Server::parse("http://[::1]:8080"), server("[::1]", 8080));
        for bad in [
            "https://x",
            "127.0.0.1:8080",
            "http://",
            "http://:80",
            "http://a:b",
            "http://a:0",
            "http://a/b",
            "http://u@a",
        ] {
            assert!(Server::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_this_machine() {
        let far = Server { host: "192.0.2.1".to_owned(), port: 80 };
        assert!(matches!(far.resolve(false), Err(TargetFault::NotLoopback(_))));
    }

    #[test]
    fn resources_and_paths() {
        let configmaps = Resource::parse("configmaps").expect("built in");
        assert_eq!(configmaps.collection("a"), "/api/v1/namespaces/a/configmaps");
        assert_eq!(configmaps.everywhere(), "/api/v1/configmaps");
        let widgets = Resource::parse("example.com/v1/widgets/Widget").expect("four parts");
        assert_eq!(widgets.collection("a"), "/apis/example.com/v1/namespaces/a/widgets");
        assert_eq!(widgets.kind, "Widget");
        for bad in ["pods", "", "a/b", "a//b/c", "a/b/c/d/e", "v2/x/X"] {
            assert!(Resource::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(encode("a=b,c in (d)"), "a%3Db%2Cc%20in%20%28d%29");
    }
}
