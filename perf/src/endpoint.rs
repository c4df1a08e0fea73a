//! The server's address as written, its resource, and the paths of its objects.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// HOST:PORT.
    authority: String,
    pub(crate) tls: bool,
}

impl Server {
    /// Reads `http://HOST[:PORT][/]`, or the same with `https`. The error is the mend.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let secure = text.strip_prefix("https://");
        let authority =
            secure.or_else(|| text.strip_prefix("http://")).ok_or("write it as http://HOST:PORT")?;
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        // An IPv6 address has colons of its own, in brackets.
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| "the port is a number from 1 to 65535")?)
            }
            _ => (authority, if secure.is_some() { 443 } else { 80 }),
        };
        if host.is_empty() || host.contains(['/', '?', '#', '@']) || port == 0 {
            return Err("give host and port only, as http://127.0.0.1:8080");
        }
        Ok(Self { authority: format!("{host}:{port}"), tls: secure.is_some() })
    }

    pub(crate) fn local(port: u16) -> Self {
        Self { authority: SocketAddr::from((Ipv4Addr::LOCALHOST, port)).to_string(), tls: false }
    }

    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// The first of its addresses at which something answers; only loopback, unless `anywhere`. The error is the mend.
    pub(crate) fn resolve(&self, anywhere: bool) -> Result<SocketAddr, String> {
        let unresolved = |why: &str| format!("the host has no address ({why}); check its spelling");
        let addresses: Vec<SocketAddr> =
            self.authority.to_socket_addrs().map_err(|fault| unresolved(&fault.to_string()))?.collect();
        if let Some(far) = addresses.iter().find(|address| !anywhere && !address.ip().is_loopback()) {
            return Err(format!(
                "{} is not this machine; give a loopback address, or --i-own-this-server if that is true",
                far.ip()
            ));
        }
        let mut why = unresolved("an empty answer");
        for address in addresses {
            match TcpStream::connect_timeout(&address, Duration::from_secs(3)) {
                Ok(_) => return Ok(address),
                Err(fault) => why = format!("nothing answers at {address} ({fault}); start the server first"),
            }
        }
        Err(why)
    }
}

impl fmt::Display for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}://{}", if self.tls { "https" } else { "http" }, self.authority)
    }
}

/// A namespaced resource: Pods, or one whose objects keep a `data` member of strings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Resource {
    pub(crate) api_version: String,
    pub(crate) plural: String,
    pub(crate) kind: String,
}

impl Resource {
    /// Reads `configmaps`, `v1/PLURAL/KIND` or `GROUP/VERSION/PLURAL/KIND`.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let parts: Vec<&str> = text.split('/').collect();
        let (api_version, plural, kind) = match parts.as_slice() {
            ["configmaps"] => ("v1".to_owned(), "configmaps", "ConfigMap"),
            ["v1", plural, kind] => ("v1".to_owned(), *plural, *kind),
            [group, version, plural, kind] => (format!("{group}/{version}"), *plural, *kind),
            _ => (String::new(), "", ""),
        };
        if api_version.is_empty() || parts.contains(&"") {
            return Err("give configmaps, v1/PLURAL/KIND or GROUP/VERSION/PLURAL/KIND");
        }
        Ok(Self { api_version, plural: plural.to_owned(), kind: kind.to_owned() })
    }

    fn root(&self) -> String {
        format!("{}/{}", if self.api_version == "v1" { "/api" } else { "/apis" }, self.api_version)
    }

    pub(crate) fn everywhere(&self) -> String {
        format!("{}/{}", self.root(), self.plural)
    }

    pub(crate) fn collection(&self, namespace: &str) -> String {
        format!("{}/namespaces/{namespace}/{}", self.root(), self.plural)
    }
}

/// A collection narrowed by a selector: `labelSelector` or `fieldSelector`.
pub(crate) fn selected(collection: &str, key: &str, selector: &str) -> String {
    format!("{collection}?{key}={}", encode(selector))
}

/// Percent-encodes a query value: all but RFC 3986's unreserved characters.
pub(crate) fn encode(value: &str) -> String {
    let one = |byte: u8| match byte {
        b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    value.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_as_written() {
        for (text, authority) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://localhost/", "localhost:80"),
            ("http://[::1]:8080", "[::1]:8080"),
            ("http://[::1]", "[::1]:80"),
            ("https://[::1]", "[::1]:443"),
        ] {
            assert_eq!(Server::parse(text).as_ref().map(Server::authority), Ok(authority));
        }
        for bad in "https:// 127.0.0.1:8080 http:// http://:80 http://a:b http://a:0 http://a/b http://u@a"
            .split(' ')
        {
            assert!(Server::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_this_machine() {
        let far = Server::parse("http://192.0.2.1").expect("a server").resolve(false);
        assert!(far.is_err_and(|why| why.starts_with("192.0.2.1 is not this machine")));
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
