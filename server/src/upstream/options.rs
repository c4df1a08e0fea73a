//! Options of the upstream.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The address of an API server: scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Whether it speaks TLS.
    pub secure: bool,
    /// A name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Endpoint {
    /// Of `https://HOST:PORT`, where the port may be missing; `None`: it is not that.
    #[must_use]
    pub fn parse(url: &str) -> Option<Self> {
        let url = url.trim().trim_end_matches('/');
        let (secure, authority) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return None,
        };
        let standard = if secure { 443 } else { 80 };
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']')?;
                host.parse::<std::net::Ipv6Addr>().ok()?;
                (
                    host,
                    port.strip_prefix(':')
                        .map_or_else(|| port.is_empty().then_some(standard), |port| port.parse().ok())?,
                )
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, port.parse().ok()?),
                None => (authority, standard),
            },
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        (!host.is_empty() && host.chars().all(is_name)).then(|| Self { secure, host: host.to_owned(), port })
    }

    /// As a `Host` header.
    #[must_use]
    pub fn authority(&self) -> String {
        let standard = if self.secure { 443 } else { 80 };
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == standard { host } else { format!("{host}:{}", self.port) }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.secure { "https" } else { "http" }, self.authority())
    }
}

/// With which identity a request is forwarded whose client has no credentials that the upstream takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardIdentity {
    /// With none but the client's own: a bearer token. Clients with certificates are refused.
    #[default]
    Client,
    /// As the server itself, with `Impersonate-*` headers.
    Impersonate,
    /// With `X-Remote-*` headers, over connections with the certificate of a front proxy.
    FrontProxy,
}

impl ForwardIdentity {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Client, Self::Impersonate, Self::FrontProxy];
}

impl fmt::Display for ForwardIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "client",
            Self::Impersonate => "impersonate",
            Self::FrontProxy => "front-proxy",
        })
    }
}

/// Where the server's own identity at the upstream comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// PEM: the authorities of the upstream's certificate.
    pub ca: Option<PathBuf>,
    /// The server's own bearer token.
    pub token_file: Option<PathBuf>,
    /// PEM: the server's own certificate, and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// A kubeconfig, whose current context has what is not given otherwise.
    pub kubeconfig: Option<PathBuf>,
}

/// What an operator says about the upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamOptions {
    /// Tried in turn. Empty: those of the kubeconfig, or there is no upstream.
    pub endpoints: Vec<Endpoint>,
    /// The server's own identity there.
    pub credentials: Credentials,
    /// With which identity requests are forwarded.
    pub identity: ForwardIdentity,
    /// How long a reply may take to begin.
    pub timeout: Duration,
}

impl UpstreamOptions {
    /// Whether there is an upstream.
    #[must_use]
    pub const fn is_given(&self) -> bool {
        !self.endpoints.is_empty() || self.credentials.kubeconfig.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read() {
        for (url, shown) in [
            ("https://kube:6443", "https://kube:6443"),
            ("https://kube.example/", "https://kube.example"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("https://[::1]:443", "https://[::1]"),
            ("https://[fd00::1]", "https://[fd00::1]"),
        ] {
            assert_eq!(
                Endpoint::parse(url).map(|endpoint| endpoint.to_string()).as_deref(),
                Some(shown),
                "{url}"
            );
        }
        for bad in [
            "",
            "kube:6443",
            "https://",
            "https://a b",
            "https://a:x",
            "https://u@a",
            "https://a/b",
            "https://[x]",
            "ftp://a",
        ] {
            assert_eq!(Endpoint::parse(bad), None, "{bad}");
        }
    }
}
