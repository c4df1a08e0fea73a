//! A plain HTTP/1.1 client for tests: it returns what was received, unchanged.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use revcast_http1::ChunkDecoder;
use serde_json::Value;

use crate::tls::{Stream, Trust};

/// How long a test waits for bytes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where to connect.
#[derive(Clone, Debug)]
pub struct Client {
    address: String,
    trust: Option<Trust>,
    token: Option<String>,
}

/// A whole reply.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// The code; 0 without a reply.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// Without its framing.
    pub body: Vec<u8>,
}

impl Response {
    /// The first header of this (lower-case) name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; null if it is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

impl Client {
    /// A client of `127.0.0.1:PORT`.
    #[must_use]
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned(), trust: None, token: None }
    }

    /// The same over TLS.
    #[must_use]
    pub fn over_tls(address: &str, trust: &Trust) -> Self {
        Self { address: address.to_owned(), trust: Some(trust.clone()), token: None }
    }

    /// The same with a bearer token in every request.
    #[must_use]
    pub fn bearing(self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self }
    }

    /// `127.0.0.1:PORT`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// A connection of its own.
    ///
    /// # Errors
    /// Nothing listens there.
    pub fn connect(&self) -> std::io::Result<Connection> {
        let stream = TcpStream::connect(&self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let stream = match &self.trust {
            None => Stream::Plain(stream),
            Some(trust) => trust.over(stream),
        };
        let token = self.token.clone();
        Ok(Connection { reader: BufReader::new(stream), chunks: ChunkDecoder::new(), token })
    }

    /// One request on a separate connection; an empty [`Response`] when that fails.
    #[must_use]
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        let exchange = || self.connect()?.request(method, path, headers, body);
        exchange().unwrap_or_default()
    }

    /// GET.
    #[must_use]
    pub fn get(&self, path: &str) -> Response {
        self.request("GET", path, &[], &[])
    }

    /// The newest revision of the store.
    ///
    /// # Panics
    /// When it does not answer, or has none.
    #[must_use]
    pub fn newest(&self) -> u64 {
        let list = self.get("/api/v1/namespaces/nobody/secrets").json();
        let text = list["metadata"]["resourceVersion"].as_str();
        text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no revision in {list}"))
    }

    /// POST, PUT or DELETE of JSON.
    #[must_use]
    pub fn send(&self, method: &str, path: &str, body: &Value) -> Response {
        self.request(method, path, &[("content-type", "application/json")], body.to_string().as_bytes())
    }

    /// A PATCH of `kind` (`merge-patch` or `json-patch`).
    #[must_use]
    pub fn patch(&self, path: &str, kind: &str, body: &Value) -> Response {
        let content_type = format!("application/{kind}+json");
        self.request("PATCH", path, &[("content-type", &content_type)], body.to_string().as_bytes())
    }

    /// Begins a watch.
    ///
    /// # Errors
    /// Nothing listens there, or the reply is not a stream.
    pub fn watch(&self, path: &str) -> std::io::Result<Watch> {
        self.watch_as(path, &[])
    }

    /// Begins a watch with more headers, such as `accept`.
    ///
    /// # Errors
    /// As [`Client::watch`].
    pub fn watch_as(&self, path: &str, headers: &[(&str, &str)]) -> std::io::Result<Watch> {
        self.connect()?.watch(path, headers)
    }
}

/// One connection, kept alive.
#[derive(Debug)]
pub struct Connection {
    reader: BufReader<Stream>,
    /// Where in a chunked reply it is.
    chunks: ChunkDecoder,
    token: Option<String>,
}

impl Connection {
    /// One request and its reply.
    ///
    /// # Errors
    /// The connection broke, or the reply is not HTTP.
    pub fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> std::io::Result<Response> {
        // A server that refuses a long body may answer, and close, before all of it is sent.
        let written = self.write_request(method, path, headers, body);
        self.read_response(method != "HEAD").map_err(|error| written.err().unwrap_or(error))
    }

    /// The reply to a request which was written already; `with_body` unless that was HEAD.
    ///
    /// # Errors
    /// The connection broke, or the reply is not HTTP.
    pub fn read_response(&mut self, with_body: bool) -> std::io::Result<Response> {
        let (status, headers) = self.read_head()?;
        let mut reply = Response { status, headers, body: Vec::new() };
        if !with_body || matches!(status, 100..200 | 204 | 304) {
            return Ok(reply);
        }
        if reply.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.read_chunk()? {
                reply.body.extend_from_slice(&chunk);
            }
        } else if let Some(length) = reply.header("content-length") {
            let length = length.parse().map_err(std::io::Error::other)?;
            reply.body.resize(length, 0);
            self.reader.read_exact(&mut reply.body)?;
        } else {
            self.reader.read_to_end(&mut reply.body)?;
        }
        Ok(reply)
    }

    /// Turns the connection into a watch.
    ///
    /// # Errors
    /// The connection broke, or the reply is not a stream.
    pub fn watch(mut self, path: &str, headers: &[(&str, &str)]) -> std::io::Result<Watch> {
        self.write_request("GET", path, headers, &[])?;
        self.into_watch()
    }

    /// The stream that answers a request which was written already.
    ///
    /// # Errors
    /// The connection broke, or the reply is not a stream.
    pub fn into_watch(mut self) -> std::io::Result<Watch> {
        let (status, headers) = self.read_head()?;
        let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        if status != 200 || !chunked {
            return Err(std::io::Error::other(format!("no stream: {status} {headers:?}")));
        }
        Ok(Watch { connection: self, headers, pending: Vec::new(), over: false })
    }

    /// Sends bytes unchanged.
    ///
    /// # Errors
    /// The connection broke.
    pub fn write_raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// Everything until the server closes.
    ///
    /// # Errors
    /// The connection broke.
    pub fn read_to_end(&mut self) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.reader.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Whether nothing arrives, not even the end, for this long.
    ///
    /// # Errors
    /// The connection broke.
    pub fn is_quiet_for(&mut self, time: Duration) -> std::io::Result<bool> {
        self.socket().set_read_timeout(Some(time))?;
        let read = self.reader.fill_buf().map(|_| ());
        self.socket().set_read_timeout(Some(PATIENCE))?;
        match read {
            Ok(()) => Ok(false),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The socket, for what this client cannot do.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        self.reader.get_ref().socket()
    }

    /// The stream, for tests that use it directly. Bytes that were read ahead are lost.
    pub fn stream(&mut self) -> &mut Stream {
        self.reader.get_mut()
    }

    fn write_request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> std::io::Result<()> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: test\r\n");
        if let Some(token) = &self.token {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() || matches!(method, "POST" | "PUT" | "PATCH") {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        head += "\r\n";
        self.write_raw(&[head.as_bytes(), body].concat())
    }

    fn read_line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        match line.strip_suffix("\r\n") {
            Some(text) => Ok(text.to_owned()),
            None => Err(std::io::Error::other(format!("a line without CRLF: {line:?}"))),
        }
    }

    fn read_head(&mut self) -> std::io::Result<(u16, Vec<(String, String)>)> {
        self.chunks = ChunkDecoder::new();
        let status = self.read_line()?;
        let code = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let code = code.ok_or_else(|| std::io::Error::other(format!("no status line: {status:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.read_line()?;
            if line.is_empty() {
                return Ok((code, headers));
            }
            if let Some((name, value)) = line.split_once(": ") {
                headers.push((name.to_ascii_lowercase(), value.to_owned()));
            }
        }
    }

    /// The next chunk; `None` for the last.
    fn read_chunk(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        self.chunks.read_chunk(&mut self.reader)
    }
}

/// A stream of events.
#[derive(Debug)]
pub struct Watch {
    connection: Connection,
    headers: Vec<(String, String)>,
    pending: Vec<u8>,
    over: bool,
}

impl Watch {
    /// The headers that opened the stream; names in lower case.
    #[must_use]
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// The next chunk, as the server sent it; `None` for the last. Must not be mixed with methods that read lines.
    ///
    /// # Errors
    /// As [`Watch::next_line`].
    pub fn next_chunk(&mut self) -> std::io::Result<Option<String>> {
        let chunk = self.connection.read_chunk()?;
        chunk.map(|chunk| String::from_utf8(chunk).map_err(std::io::Error::other)).transpose()
    }

    /// Whether no event arrives, nor the end, for this long.
    ///
    /// # Panics
    /// When the stream breaks.
    pub fn is_quiet_for(&mut self, time: Duration) -> bool {
        self.pending.is_empty() && self.connection.is_quiet_for(time).expect("the stream goes on")
    }

    /// The next `count` events.
    ///
    /// # Panics
    /// As [`Watch::next_event`].
    pub fn events(&mut self, count: usize) -> Vec<(String, Value)> {
        (0..count).map(|_| self.next_event()).collect()
    }

    /// The next line, unchanged, without heartbeats before it; `None` at the end of the stream.
    ///
    /// # Errors
    /// The connection broke before the last chunk, or nothing arrived for half a minute.
    ///
    /// # Panics
    /// When the stream ends inside a line.
    pub fn next_line(&mut self) -> std::io::Result<Option<String>> {
        let line = self.next_line_or_part()?;
        assert!(line.as_ref().is_none_or(|line| line.ends_with('\n')), "the stream ended inside a line");
        Ok(line)
    }

    /// The same, of a server that need not end its last line.
    ///
    /// # Errors
    /// As [`Watch::next_line`].
    pub fn next_line_or_part(&mut self) -> std::io::Result<Option<String>> {
        loop {
            let end = self.pending.iter().position(|byte| *byte == b'\n').map(|end| end + 1);
            if let Some(end) = end.or_else(|| self.over.then_some(self.pending.len()).filter(|len| *len > 0))
            {
                let line: Vec<u8> = self.pending.drain(..end).collect();
                return String::from_utf8(line).map(Some).map_err(std::io::Error::other);
            }
            if self.over {
                return Ok(None);
            }
            match self.connection.read_chunk()? {
                // A heartbeat.
                Some(chunk) if chunk == b" " => {}
                Some(chunk) => self.pending.extend_from_slice(&chunk),
                None => self.over = true,
            }
        }
    }

    /// The next event as (type, object).
    ///
    /// # Panics
    /// When the stream breaks, ends, or sends something that is not an event.
    pub fn next_event(&mut self) -> (String, Value) {
        let line = self.next_line().expect("the stream goes on").expect("an event, not the end");
        let mut event: Value = serde_json::from_str(&line).expect("JSON");
        let kind = event["type"].as_str().expect("a type").to_owned();
        (kind, event["object"].take())
    }

    /// All events until the end of the stream.
    ///
    /// # Panics
    /// As [`Watch::next_event`].
    pub fn rest(&mut self) -> Vec<(String, Value)> {
        let mut events = Vec::new();
        while let Some(line) = self.next_line().expect("the stream ends with its last chunk") {
            let mut event: Value = serde_json::from_str(&line).expect("JSON");
            let kind = event["type"].as_str().expect("a type").to_owned();
            events.push((kind, event["object"].take()));
        }
        events
    }

    /// The connection under the stream, for sending more on it.
    pub const fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// The connection, once the stream is over.
    #[must_use]
    pub fn into_connection(self) -> Connection {
        self.connection
    }
}
