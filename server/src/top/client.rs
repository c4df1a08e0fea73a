//! The stream of the status, as bytes of HTTP/1.1 over TCP or TLS: blocking, in a thread that has nothing else to do.
//!
//! Owns what a server may cost: its head, its lines and its silence have limits. It keeps no connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::document::{DOCUMENT_BYTES_MAX, Document, shown};

/// For a connection and its handshake.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Between two documents, of which there is one a second.
const SILENCE_MAX: Duration = Duration::from_secs(10);
const HEAD_BYTES_MAX: u64 = 16 << 10;
const HEADERS_MAX: usize = 64;
/// Of a reply that is no stream.
const SAID_BYTES_MAX: u64 = 16 << 10;

/// The variable with the token.
pub const TOKEN_VARIABLE: &str = "REVCAST_TOP_TOKEN";

/// An admin listener: `http://HOST:PORT`, `https://HOST:PORT` or `HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    is_secure: bool,
    host: String,
    port: u16,
}

impl Address {
    /// Parses one; `None`: it is none. A path is not taken.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (is_secure, rest) = match text.split_once("://") {
            None => (false, text),
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some(_) => return None,
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
            _ if text.contains("://") => (rest, if is_secure { 443 } else { 80 }),
            _ => return None,
        };
        let bare = host.strip_prefix('[').map_or(Some(host), |host| host.strip_suffix(']'))?;
        let is_ok = |letter: char| {
            letter.is_ascii_alphanumeric()
                || "-._".contains(letter)
                || (bare != host && ":%".contains(letter))
        };
        (!bare.is_empty() && bare.chars().all(is_ok)).then(|| Self { is_secure, host: bare.to_owned(), port })
    }

    /// `HOST:PORT`
    pub(super) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Where the status comes from, and who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The admin listener.
    pub address: Address,
    /// Authorities that sign its certificate.
    pub ca: Option<PathBuf>,
    /// A file with the token. It is read for each connection, so a token that is renewed is used.
    pub token_file: Option<PathBuf>,
}

/// A stream that is open.
pub(super) struct Stream {
    lines: BufReader<Body>,
}

impl Subject {
    /// Opens the stream.
    ///
    /// # Errors
    /// Why there is none, on one line, safe to show.
    pub(super) fn open(&self) -> Result<Stream, String> {
        let authorization =
            self.token()?.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let authority = self.address.authority();
        let broken = |error: io::Error| format!("{authority}: {}", shown(&error.to_string()));
        let mut wire = BufReader::new(self.connect()?);
        let head = format!(
            "GET /status?watch=1 HTTP/1.1\r\nHost: {authority}\r\nAccept: application/json\r\nUser-Agent: revcast-top/{}\r\n{authorization}\r\n",
            env!("CARGO_PKG_VERSION")
        );
        wire.get_mut().write_all(head.as_bytes()).and_then(|()| wire.get_mut().flush()).map_err(broken)?;
        let (code, end) = read_head(&mut wire).map_err(broken)?;
        let mut body = Body { wire, end };
        if code == 200 {
            return Ok(Stream { lines: BufReader::new(body) });
        }
        let mut said = Vec::new();
        // As much of it as there is: it is only shown.
        let _ = body.by_ref().take(SAID_BYTES_MAX).read_to_end(&mut said);
        Err(format!("{authority}: {}", refusal(code, &said)))
    }

    fn token(&self) -> Result<Option<String>, String> {
        let (from, token) = match &self.token_file {
            Some(path) => {
                let read = std::fs::read_to_string(path);
                (path.display().to_string(), read.map_err(|error| format!("{}: {error}", path.display()))?)
            }
            None => match std::env::var(TOKEN_VARIABLE) {
                Ok(token) => (TOKEN_VARIABLE.to_owned(), token),
                Err(std::env::VarError::NotPresent) => return Ok(None),
                Err(error) => return Err(format!("{TOKEN_VARIABLE}: {error}")),
            },
        };
        let token = token.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("{from}: no token: it is one word of ASCII"));
        }
        Ok(Some(token.to_owned()))
    }

    fn connect(&self) -> Result<Socket, String> {
        let authority = self.address.authority();
        let broken = |error: io::Error| format!("{authority}: {error}");
        let mut last = io::Error::other("no such host");
        for address in (self.address.host.as_str(), self.address.port).to_socket_addrs().map_err(broken)? {
            match TcpStream::connect_timeout(&address, CONNECT_WITHIN) {
                Ok(tcp) => {
                    tcp.set_read_timeout(Some(SILENCE_MAX)).map_err(broken)?;
                    tcp.set_write_timeout(Some(CONNECT_WITHIN)).map_err(broken)?;
                    if !self.address.is_secure {
                        return Ok(Socket::Plain(tcp));
                    }
                    let name = ServerName::try_from(self.address.host.clone())
                        .map_err(|error| format!("{authority}: {error}"))?;
                    let session = ClientConnection::new(Arc::new(self.tls()?), name);
                    let session = session.map_err(|error| format!("{authority}: {error}"))?;
                    return Ok(Socket::Tls(Box::new(StreamOwned::new(session, tcp))));
                }
                Err(error) => last = error,
            }
        }
        Err(broken(last))
    }

    fn tls(&self) -> Result<ClientConfig, String> {
        let Some(path) = &self.ca else {
            return Err("https needs the authorities of the server's certificate: --ca FILE".to_owned());
        };
        let wrong = |why: String| format!("{}: {why}", path.display());
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))? {
            let authority = authority.map_err(|error| wrong(error.to_string()))?;
            roots.add(authority).map_err(|error| wrong(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(wrong(
                "no certificate in it: give PEM with a line -----BEGIN CERTIFICATE-----".to_owned(),
            ));
        }
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        Ok(config.with_root_certificates(roots).with_no_client_auth())
    }
}

impl Stream {
    /// Waits for the next document; `None`: the server ended the stream.
    ///
    /// # Errors
    /// The connection broke, nothing came, or what came is no status; on one line, safe to show.
    pub(super) fn next(&mut self) -> Result<Option<Document>, String> {
        let mut line = Vec::new();
        let most = DOCUMENT_BYTES_MAX as u64;
        let read = (&mut self.lines).take(most).read_until(b'\n', &mut line);
        match read {
            Err(error) if is_silence(&error) => Err(format!("nothing came for {} s", SILENCE_MAX.as_secs())),
            Err(error) => Err(shown(&error.to_string())),
            Ok(0) => Ok(None),
            Ok(_) if line.last() == Some(&b'\n') => Document::parse(&line).map(Some),
            Ok(_) if line.len() == DOCUMENT_BYTES_MAX => {
                Err(format!("a document of more than {DOCUMENT_BYTES_MAX} bytes"))
            }
            Ok(_) => Ok(None),
        }
    }
}

fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

enum Socket {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = match self {
            Self::Plain(tcp) => tcp.read(into),
            Self::Tls(tls) => tls.read(into),
        };
        match read {
            // Not every server says goodbye in TLS.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            read => read,
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(tcp) => tcp.flush(),
            Self::Tls(tls) => tls.flush(),
        }
    }
}

/// How a body ends (RFC 9112, section 6.3).
#[derive(Debug, PartialEq, Eq)]
enum BodyEnd {
    /// Chunks; so much of one is left. `None`: the last one was read.
    Chunked(Option<u64>),
    Length(u64),
    UntilClosed,
}

fn bad(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

/// A line of the protocol, without its end.
fn protocol_line(wire: &mut impl BufRead, left: &mut u64) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let read = wire.by_ref().take(*left).read_until(b'\n', &mut line)? as u64;
    *left -= read;
    if line.pop() != Some(b'\n') {
        return Err(bad(if *left == 0 {
            "the head of the reply is too long"
        } else {
            "the connection was closed"
        }));
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(line)
}

/// The code of a reply, and how its body ends.
fn read_head(wire: &mut impl BufRead) -> io::Result<(u16, BodyEnd)> {
    let (mut head, mut left) = (Vec::new(), HEAD_BYTES_MAX);
    loop {
        let line = protocol_line(wire, &mut left)?;
        head.extend_from_slice(&line);
        head.extend_from_slice(b"\r\n");
        if line.is_empty() {
            break;
        }
    }
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut reply = httparse::Response::new(&mut headers);
    reply.parse(&head).map_err(|_| bad("the answer is not HTTP/1.1: is this the admin listener?"))?;
    let header = |name: &str| {
        let found = reply.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.map(|header| String::from_utf8_lossy(header.value).trim().to_ascii_lowercase())
    };
    let end = match (header("transfer-encoding"), header("content-length")) {
        (Some(coding), _) if coding == "chunked" => BodyEnd::Chunked(Some(0)),
        (Some(_), _) => return Err(bad("a transfer coding that is not known here")),
        (None, Some(length)) => {
            BodyEnd::Length(length.parse().map_err(|_| bad("a Content-Length that is no number"))?)
        }
        (None, None) => BodyEnd::UntilClosed,
    };
    Ok((reply.code.unwrap_or_default(), end))
}

/// The body of a reply.
struct Body<W = Socket> {
    wire: BufReader<W>,
    end: BodyEnd,
}

impl<W: Read> Body<W> {
    /// Reads the head of the next chunk, after the end of the one before, if there is one. The last one has no bytes.
    fn next_chunk(&mut self) -> io::Result<u64> {
        let mut left = 1_024;
        let mut line = protocol_line(&mut self.wire, &mut left)?;
        if line.is_empty() {
            line = protocol_line(&mut self.wire, &mut left)?;
        }
        line.extend_from_slice(b"\r\n");
        match httparse::parse_chunk_size(&line) {
            Ok(httparse::Status::Complete((_, size))) => Ok(size),
            _ => Err(bad("a chunk without its size")),
        }
    }
}

impl<W: Read> Read for Body<W> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.end == BodyEnd::Chunked(Some(0)) {
            let size = self.next_chunk()?;
            self.end = BodyEnd::Chunked((size > 0).then_some(size));
        }
        let left = match &mut self.end {
            BodyEnd::UntilClosed => return self.wire.read(into),
            BodyEnd::Chunked(None) => return Ok(0),
            BodyEnd::Chunked(Some(left)) | BodyEnd::Length(left) => left,
        };
        let most = usize::try_from(*left).unwrap_or(usize::MAX).min(into.len());
        if most == 0 {
            // A read of nothing would wait for more.
            return Ok(0);
        }
        let read = self.wire.read(&mut into[..most])?;
        *left -= read as u64;
        if read == 0 {
            return Err(bad("the connection was closed"));
        }
        Ok(read)
    }
}

/// Why a server sends no stream, from its reply.
fn refusal(code: u16, said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    // Access is refused with a Status of Kubernetes, other things with a line.
    let status: Option<serde_json::Value> = serde_json::from_str(&text).ok();
    let message =
        status.as_ref().and_then(|status| status["message"].as_str()).unwrap_or_else(|| text.trim());
    let message = shown(message);
    match code {
        401 => format!("a token is needed: --token-file FILE, or {TOKEN_VARIABLE} ({message})"),
        403 => format!("not allowed to get /status: {message}"),
        404 => "it has no /status: give the address of the admin listener (--admin)".to_owned(),
        429 => format!("too many: {message}"),
        _ => format!("the server answers {code}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::document::tests::sample;
    use super::*;

    #[test]
    fn addresses_are_read() {
        let read = |text: &str| Address::parse(text).map(|it| (it.is_secure, it.authority()));
        let wanted = |is_secure, text: &str| Some((is_secure, text.to_owned()));
        assert_eq!(read("127.0.0.1:8081"), wanted(false, "127.0.0.1:8081"));
        assert_eq!(read("http://host/"), wanted(false, "host:80"));
        assert_eq!(read("https://a.b:1"), wanted(true, "a.b:1"));
        assert_eq!(read("https://[::1]"), wanted(true, "[::1]:443"));
        assert_eq!(read("[::1]:8081"), wanted(false, "[::1]:8081"));
        for wrong in [
            "",
            "host",
            "host:",
            ":80",
            "ftp://a:1",
            "http://",
            "http://a/status",
            "a b:1",
            "a:99999",
            "http://u@h:1",
            "h\r\n:1",
            "[::1:2",
        ] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }

    fn body(end: BodyEnd, bytes: &[u8]) -> (io::Result<usize>, String) {
        let mut body = Body { wire: BufReader::with_capacity(3, bytes), end };
        let mut text = String::new();
        (body.read_to_string(&mut text), text)
    }

    #[test]
    fn bodies_end_as_they_say() {
        let chunked = |bytes: &[u8]| body(BodyEnd::Chunked(Some(0)), bytes);
        assert_eq!(chunked(b"3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n").1, "abc0123456789");
        assert!(chunked(b"3\r\nab").0.is_err() && chunked(b"x\r\n").0.is_err() && chunked(b"").0.is_err());
        assert!(chunked(&b"1".repeat(5_000)).0.is_err());
        assert_eq!(body(BodyEnd::Length(2), b"abc").1, "ab");
        assert!(body(BodyEnd::Length(4), b"abc").0.is_err());
        assert_eq!(body(BodyEnd::UntilClosed, b"abc").1, "abc");
        // At the end of a body nothing is read: a connection that stays open says nothing more.
        let (reader, writer) = io::pipe().expect("a pipe");
        let mut ended = Body { wire: BufReader::new(reader), end: BodyEnd::Length(0) };
        assert_eq!(ended.read(&mut [0; 9]).expect("the end"), 0);
        drop(writer);
    }

    #[test]
    fn heads_have_limits() {
        let head = |text: &str| read_head(&mut text.as_bytes());
        let ok = head("HTTP/1.1 200 OK\r\nA: b\r\ntransfer-encoding: Chunked\r\n\r\n").expect("it is one");
        assert_eq!(ok, (200, BodyEnd::Chunked(Some(0))));
        assert!(head("SSH-2.0-x\r\n\r\n").is_err() && head("HTTP/1.1 200 OK\r\n").is_err());
        let long = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(10_000));
        assert!(head(&long).expect_err("too long").to_string().contains("too long"));
        assert!(head("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n").is_err());
    }

    #[test]
    fn a_refusal_says_what_to_do_and_moves_no_cursor() {
        assert!(refusal(401, b"").contains("--token-file"));
        assert_eq!(refusal(403, br#"{"message":"no\u001b[2J"}"#), "not allowed to get /status: no\\u{1b}[2J");
        assert_eq!(refusal(429, b"8 streams are open\n"), "too many: 8 streams are open");
        assert!(refusal(500, b"\x9b\xffx").starts_with("the server answers 500"));
    }

    /// A server that answers one request with these bytes.
    fn answering(bytes: Vec<u8>) -> Subject {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address =
            Address::parse(&listener.local_addr().expect("it is bound").to_string()).expect("it is one");
        std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("a client");
            let mut piece = [0; 4_096];
            let _ = socket.read(&mut piece);
            let _ = socket.write_all(&bytes);
        });
        Subject { address, ca: None, token_file: None }
    }

    #[test]
    fn documents_come_until_the_end() {
        let line = format!("{}\n", sample(5.0, 1));
        let chunk = format!("{:x}\r\n{line}\r\n", line.len());
        let bytes = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}{chunk}0\r\n\r\n");
        let mut stream = answering(bytes.into_bytes()).open().expect("a stream");
        let uptime = |next: Result<Option<Document>, String>| next.map(|it| it.map(|it| it.uptime_seconds));
        assert_eq!(
            [stream.next(), stream.next(), stream.next()].map(uptime),
            [Ok(Some(5.0)), Ok(Some(5.0)), Ok(None)]
        );
    }

    #[test]
    fn a_document_without_an_end_is_given_up() {
        let mut bytes = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        bytes.resize(bytes.len() + DOCUMENT_BYTES_MAX + 1, b'x');
        let mut stream = answering(bytes).open().expect("a stream");
        assert!(stream.next().expect_err("too long").starts_with("a document of more than"));
    }

    #[test]
    fn https_without_an_authority_says_what_is_missing() {
        let mut subject = answering(Vec::new());
        subject.address.is_secure = true;
        assert!(subject.open().err().expect("no authority").contains("--ca FILE"));
    }

    #[test]
    fn a_token_is_one_word() {
        let path = std::env::temp_dir().join(format!("revcast-top-token-{}", std::process::id()));
        let subject = Subject { token_file: Some(path.clone()), ..answering(Vec::new()) };
        assert!(subject.token().expect_err("no file").contains("No such file"));
        let read = |text: &str| {
            std::fs::write(&path, text).expect("it is ours");
            subject.token()
        };
        assert_eq!(read("abc.def\n"), Ok(Some("abc.def".to_owned())));
        assert!(read("").is_err() && read("a b").is_err() && read("a\r\nb").is_err());
        std::fs::remove_file(path).expect("it is ours");
    }
}
