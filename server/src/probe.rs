//! `revcast probe URL`: requests a URL of a server and reports whether the code is 200. For images without a shell or curl.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// The timeout of the whole request.
const WITHIN: Duration = Duration::from_secs(3);
/// The limit on the reply.
const ANSWER_BYTES_MAX: u64 = 16 << 10;

/// A server and a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `127.0.0.1:8081`
    address: String,
    /// `/readyz`
    path: String,
}

impl Target {
    /// Parses `http://HOST:PORT/PATH`; `None` for anything else.
    #[must_use]
    pub fn parse(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("http://")?;
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if host.is_empty() || url.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
            return None;
        }
        let has_port =
            host.rsplit(':').next().is_some_and(|port| port.parse::<u16>().is_ok()) && host.contains(':');
        let address = if has_port { host.to_owned() } else { format!("{host}:80") };
        Some(Self { address, path: if path.is_empty() { "/".to_owned() } else { path.to_owned() } })
    }

    /// Makes the request. Returns the body if the code is 200.
    ///
    /// # Errors
    /// There is no reply in time, or it has another code; in one line.
    pub fn ask(&self) -> Result<String, String> {
        let broken = |error: std::io::Error| format!("{}: {error}", self.address);
        let end = Instant::now() + WITHIN;
        let mut stream = self.connect().map_err(broken)?;
        let head =
            format!("GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.path, self.address);
        stream.set_write_timeout(Some(WITHIN)).map_err(broken)?;
        stream.write_all(head.as_bytes()).map_err(broken)?;
        let mut answer = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("{}: no complete answer within {} s", self.address, WITHIN.as_secs()));
            }
            stream.set_read_timeout(Some(left)).map_err(broken)?;
            match stream.read(&mut piece).map_err(broken)? {
                0 => break,
                read => answer.extend_from_slice(&piece[..read]),
            }
            if answer.len() as u64 > ANSWER_BYTES_MAX {
                break;
            }
        }
        judge(&String::from_utf8_lossy(&answer))
    }

    fn connect(&self) -> std::io::Result<TcpStream> {
        let mut last = std::io::Error::other("no such host");
        for address in self.address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, WITHIN) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// Parses a reply: the body if the code is 200, otherwise an error.
fn judge(answer: &str) -> Result<String, String> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.lines().next().unwrap_or_default();
    let code = status.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    let body = body.trim_end();
    match code {
        Some("200") => Ok(body.to_owned()),
        Some(code) => Err(format!("{code}: {}", body.lines().last().unwrap_or_default())),
        None => Err("the answer is not HTTP/1.1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn urls_are_read() {
        let parsed = |url: &str| Target::parse(url).map(|target| (target.address, target.path));
        let wanted = |address: &str, path: &str| Some((address.to_owned(), path.to_owned()));
        assert_eq!(parsed("http://127.0.0.1:8081/readyz"), wanted("127.0.0.1:8081", "/readyz"));
        assert_eq!(parsed("http://host"), wanted("host:80", "/"));
        assert_eq!(parsed("http://[::1]:1/a?b"), wanted("[::1]:1", "/a?b"));
        for wrong in
            ["", "https://host/", "host:80", "http://", "http:///x", "http://a b/", "http://a/\r\nx: y"]
        {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn answers_are_judged() {
        assert_eq!(judge("HTTP/1.1 200 OK\r\nA: b\r\n\r\nok"), Ok("ok".to_owned()));
        let no = judge("HTTP/1.1 503 Service Unavailable\r\n\r\nthe server is closing\n");
        assert_eq!(no, Err("503: the server is closing".to_owned()));
        assert_eq!(judge("SSH-2.0"), Err("the answer is not HTTP/1.1".to_owned()));
    }

    #[test]
    fn who_accepts_and_says_nothing_is_given_up() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let target = Target::parse(&url).unwrap();
        let began = Instant::now();
        assert!(target.ask().is_err());
        assert!(began.elapsed() < WITHIN * 3);
        drop(listener);
        assert!(target.ask().unwrap_err().contains("refused"));
    }
}
