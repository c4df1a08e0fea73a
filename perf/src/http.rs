//! HTTP/1.1 as a client needs it: requests, responses one after the other, and a blocking connection for single calls.

use crate::tls::{Client, Stream, stream};
use revcast_http1::{Body, Head, Step};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display};
use std::io::{self, Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub(crate) const USER_AGENT: &str = concat!("revcast-perf/", env!("CARGO_PKG_VERSION"));

pub(crate) enum Part<'a> {
    Head(Head),
    Data(&'a [u8]),
    More,
    End(Head),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The server answered with another status than 200, and in these words.
    Status(u16, String),
    /// What came is no HTTP, or no stream or list.
    Broken(String),
}

impl Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status, words) => write!(out, "the server answered with {status}: {words}"),
            Self::Broken(why) => out.write_str(why),
        }
    }
}

impl From<Error> for Refusal {
    fn from(fault: Error) -> Self {
        Self::Broken(fault.to_string())
    }
}

/// The responses of one connection, taken apart as their bytes arrive. Interim ones (1xx) are left out.
#[derive(Debug, Default)]
pub(crate) struct Responses {
    head: Option<Head>,
}

impl Responses {
    /// Takes the next part from `input`. `held` has the beginning of a head that is not complete, and must be empty before one.
    pub(crate) fn next<'a>(&mut self, input: &mut &'a [u8], held: &mut Vec<u8>) -> io::Result<Part<'a>> {
        let Some(head) = &mut self.head else { return self.next_head(input, held) };
        Ok(match head.body.next(input)? {
            Step::Data(data) => Part::Data(data),
            Step::More => Part::More,
            Step::End => {
                let head = *head;
                self.head = None;
                Part::End(head)
            }
        })
    }

    fn next_head<'a>(&mut self, input: &mut &'a [u8], held: &mut Vec<u8>) -> io::Result<Part<'a>> {
        while !input.is_empty() {
            let before = held.len();
            held.extend_from_slice(input);
            let Some((head, taken)) = Head::parse(held)? else {
                *input = &[];
                break;
            };
            *input = &input[taken - before..];
            held.clear();
            if !(100..200).contains(&head.status) {
                self.head = Some(head);
                return Ok(Part::Head(head));
            }
        }
        Ok(Part::More)
    }
}

/// Whole responses of one connection, as their bytes arrive.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    responses: Responses,
    held: Vec<u8>,
    /// The body of the response that was completed last, or what there is of the next one.
    body: Vec<u8>,
}

impl Replies {
    /// Takes bytes from `input` until one response is complete; gives its head. `None`: `input` is used up.
    pub(crate) fn next(&mut self, input: &mut &[u8]) -> io::Result<Option<Head>> {
        loop {
            match self.responses.next(input, &mut self.held)? {
                Part::Head(_) => self.body.clear(),
                Part::Data(data) => self.body.extend_from_slice(data),
                Part::More => return Ok(None),
                Part::End(head) => return Ok(Some(head)),
            }
        }
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// The connection ended. A body that ends with the connection is complete now.
    pub(crate) fn end(&mut self) -> io::Result<Head> {
        let head = self.responses.head.take().filter(|head| matches!(head.body, Body::UntilClose));
        let cut =
            || Error::new(ErrorKind::UnexpectedEof, "the server closed the connection inside a response");
        head.ok_or_else(cut)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Caller {
    pub(crate) host: String,
    pub(crate) token: Option<String>,
    /// Certificates in PEM, and with them TLS.
    pub(crate) trust: Option<String>,
}

impl Caller {
    /// The head of a request. `body_bytes`: `None` for a request without a body.
    pub(crate) fn head(&self, method: &str, path: &str, body_bytes: Option<usize>) -> String {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: {USER_AGENT}\r\nAccept: application/json\r\n",
            self.host
        );
        if let Some(token) = &self.token {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        if let Some(bytes) = body_bytes {
            head.push_str(&format!("Content-Type: application/json\r\nContent-Length: {bytes}\r\n"));
        }
        head.push_str("\r\n");
        head
    }

    /// The client's side of TLS, if there is any. `protocol`: by ALPN.
    pub(crate) fn tls(&self, protocol: &[u8]) -> Result<Option<Client>, String> {
        self.trust.as_ref().map(|trust| Client::new(trust, &self.host, protocol)).transpose()
    }
}

/// What a watch or a list asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) path: &'a str,
    pub(crate) accept: &'a str,
    pub(crate) gzip: bool,
}

pub(crate) const JSON: &str = "application/json";

impl Request<'_> {
    /// As HTTP/1.1 has it.
    pub(crate) fn head(&self) -> String {
        let mut head = self.caller.head("GET", self.path, None).replacen(JSON, self.accept, 1);
        if self.gzip {
            head.insert_str(head.len() - 2, "Accept-Encoding: gzip\r\n");
        }
        head
    }
}

/// A blocking connection: one call at a time, kept alive between calls, opened again when the server closed it.
pub(crate) struct Connection {
    address: SocketAddr,
    caller: Caller,
    tls: Option<Client>,
    stream: Option<Box<dyn Stream>>,
    replies: Replies,
}

impl Connection {
    pub(crate) fn new(address: SocketAddr, caller: Caller, tls: Option<Client>) -> Self {
        Self { address, caller, tls, stream: None, replies: Replies::default() }
    }

    /// Sends one request and waits for its response, at most 60 s. Gives its status and body.
    pub(crate) fn call(&mut self, method: &str, path: &str, body: Option<&[u8]>) -> io::Result<(u16, &[u8])> {
        let kept = self.stream.is_some();
        let mut outcome = self.attempt(method, path, body);
        // The server may have closed an idle connection just now: that says nothing about this call.
        if kept && outcome.as_ref().is_err_and(|fault| fault.kind() != ErrorKind::InvalidData) {
            self.replies = Replies::default();
            outcome = self.attempt(method, path, body);
        }
        outcome.map(|status| (status, self.replies.body()))
    }

    /// Gives the status of the answer; one that is neither 2xx nor among `others` is an error.
    pub(crate) fn ask(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
        others: &[u16],
    ) -> Result<u16, String> {
        let outcome = self.call(method, path, body);
        let (status, answer) = outcome.map_err(|fault| format!("{method} {path}: {fault}"))?;
        if (200..300).contains(&status) || others.contains(&status) {
            return Ok(status);
        }
        Err(format!("the server answered {method} {path} with {status}: {}", excerpt(answer)))
    }

    pub(crate) fn get(&mut self, path: &str) -> Result<&[u8], String> {
        self.ask("GET", path, None, &[])?;
        Ok(self.body())
    }

    /// Of the last answer.
    pub(crate) fn body(&self) -> &[u8] {
        self.replies.body()
    }

    fn attempt(&mut self, method: &str, path: &str, body: Option<&[u8]>) -> io::Result<u16> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let socket = TcpStream::connect(self.address)?;
                socket.set_nodelay(true)?;
                socket.set_read_timeout(Some(Duration::from_secs(60)))?;
                stream(socket, self.tls.as_ref())?
            }
        };
        let mut request = self.caller.head(method, path, body.map(<[u8]>::len)).into_bytes();
        request.extend_from_slice(body.unwrap_or_default());
        stream.write_all(&request)?;
        let mut buffer = [0; 16 * 1024];
        loop {
            let count = stream.read(&mut buffer)?;
            if count == 0 {
                return Ok(self.replies.end()?.status);
            }
            if let Some(head) = self.replies.next(&mut &buffer[..count])? {
                if !head.closes {
                    self.stream = Some(stream);
                }
                return Ok(head.status);
            }
        }
    }
}

/// The first 200 characters of a body, on one line, for a message.
pub(crate) fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let message = serde_json::from_slice::<serde_json::Value>(body)
        .ok()
        .and_then(|status| Some(status.get("message")?.as_str()?.to_owned()));
    let text = message.as_deref().unwrap_or(&text);
    text.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The body in chunks of `size` bytes, without the last one.
    pub(crate) fn chunks(body: &[u8], size: usize) -> Vec<u8> {
        let chunk = |data: &[u8]| [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat();
        body.chunks(size).flat_map(chunk).collect()
    }

    #[test]
    fn pipelined_replies_at_every_split() {
        let stream = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}\
            HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
            HTTP/1.1 204 No Content\r\n\r\nHTTP/1.0 409 Conflict\r\ncontent-length: 1\r\nConnection: close\r\n\r\n!";
        for split in 0..=stream.len() {
            let mut replies = Replies::default();
            let mut seen = Vec::new();
            for mut piece in [&stream[..split], &stream[split..]] {
                while let Some(head) = replies.next(&mut piece).expect("valid responses") {
                    seen.push((head.status, replies.body().to_vec(), head.closes));
                }
                assert!(piece.is_empty());
            }
            let expected: [(u16, &[u8], bool); 4] =
                [(201, b"{}", false), (200, b"abc", false), (204, b"", false), (409, b"!", true)];
            let expected = expected.map(|(status, body, closes)| (status, body.to_vec(), closes));
            assert_eq!(seen, expected, "split at {split}");
        }
    }

    #[test]
    fn a_body_until_close() {
        let mut replies = Replies::default();
        let mut input: &[u8] = b"HTTP/1.1 200 OK\r\n\r\nall of this";
        assert!(replies.next(&mut input).expect("valid").is_none());
        assert_eq!(replies.end().expect("complete").status, 200);
        assert_eq!(replies.body(), b"all of this");
        assert!(Replies::default().end().is_err_and(|fault| fault.kind() == ErrorKind::UnexpectedEof));
    }
}
