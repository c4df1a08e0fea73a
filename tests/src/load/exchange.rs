//! One request and its reply over a non-blocking socket: one thread reads many of them.
//!
//! It removes HTTP's framing and nothing else.

use std::io::{Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// How long a server may take to accept.
const CONNECT_WITHIN: Duration = Duration::from_millis(500);
/// Most bytes of one read.
const CHUNK: usize = 32 * 1024;

/// The position of the next byte in the framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Head,
    Size,
    Chunk(usize),
    /// The line end after a chunk; after the last one when true.
    ChunkEnd(bool),
    Body(usize),
    Done,
}

/// A reply, complete or not.
#[derive(Debug)]
pub struct Exchange {
    socket: TcpStream,
    place: Place,
    /// Received bytes that are not parsed yet.
    raw: Vec<u8>,
    status: Option<u16>,
    body: Vec<u8>,
}

impl Exchange {
    /// Sends a GET on a separate connection.
    ///
    /// # Errors
    /// Nothing listens there.
    pub fn get(address: &str, path: &str) -> std::io::Result<Self> {
        let address: SocketAddr = address.parse().map_err(Error::other)?;
        let mut socket = TcpStream::connect_timeout(&address, CONNECT_WITHIN)?;
        socket.set_nodelay(true)?;
        socket.write_all(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes())?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, place: Place::Head, raw: Vec::new(), status: None, body: Vec::new() })
    }

    /// What to poll.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The code, once the head is there.
    #[must_use]
    pub const fn status(&self) -> Option<u16> {
        self.status
    }

    /// Whether it is complete.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.place == Place::Done
    }

    /// The part of the body that arrived and was not taken.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The complete lines that arrived.
    pub fn take_lines(&mut self) -> Vec<u8> {
        let end = self.body.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let rest = self.body.split_off(end);
        std::mem::replace(&mut self.body, rest)
    }

    /// Reads what has arrived.
    ///
    /// # Errors
    /// The connection broke before the reply's end, or it is not HTTP.
    pub fn read(&mut self) -> std::io::Result<()> {
        let mut chunk = [0; CHUNK];
        loop {
            match self.socket.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => {
                    self.raw.extend_from_slice(&chunk[..length]);
                    self.digest()?;
                    if self.is_done() || length < CHUNK {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn digest(&mut self) -> std::io::Result<()> {
        let mut at = 0;
        loop {
            let rest = &self.raw[at..];
            match self.place {
                Place::Head => {
                    let Some(end) = rest.windows(4).position(|four| four == b"\r\n\r\n") else { break };
                    let head = String::from_utf8_lossy(&rest[..end]).to_ascii_lowercase();
                    at += end + 4;
                    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
                    self.status =
                        Some(status.ok_or_else(|| Error::other(format!("no status line: {head}")))?);
                    let length = head.split("\r\ncontent-length: ").nth(1);
                    let length = length.and_then(|text| text.split("\r\n").next()?.parse().ok());
                    self.place = match length {
                        Some(0) => Place::Done,
                        Some(length) => Place::Body(length),
                        None => Place::Size,
                    };
                }
                Place::Size => {
                    let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else { break };
                    let size = std::str::from_utf8(&rest[..end]).ok();
                    let size = size.and_then(|size| usize::from_str_radix(size, 16).ok());
                    let size = size.ok_or_else(|| Error::other("no size of a chunk"))?;
                    at += end + 2;
                    self.place = if size == 0 { Place::ChunkEnd(true) } else { Place::Chunk(size) };
                }
                Place::Chunk(left) | Place::Body(left) => {
                    if rest.is_empty() {
                        break;
                    }
                    let taken = left.min(rest.len());
                    self.body.extend_from_slice(&rest[..taken]);
                    at += taken;
                    self.place = match (self.place, left - taken) {
                        (Place::Body(_), 0) => Place::Done,
                        (Place::Body(_), left) => Place::Body(left),
                        (_, 0) => Place::ChunkEnd(false),
                        (_, left) => Place::Chunk(left),
                    };
                }
                Place::ChunkEnd(last) => {
                    if rest.len() < 2 {
                        break;
                    }
                    if !rest.starts_with(b"\r\n") {
                        return Err(Error::other("bytes behind a chunk"));
                    }
                    at += 2;
                    self.place = if last { Place::Done } else { Place::Size };
                }
                Place::Done => break,
            }
        }
        self.raw.drain(..at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use super::Exchange;

    fn pair() -> (Exchange, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let exchange =
            Exchange::get(&listener.local_addr().expect("bound").to_string(), "/").expect("a server");
        (exchange, listener.accept().expect("it connected").0)
    }

    fn until(exchange: &mut Exchange, what: impl Fn(&Exchange) -> bool) -> std::io::Result<()> {
        while !what(exchange) {
            exchange.read()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    #[test]
    fn framing_is_undone_byte_by_byte() {
        let chunked =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na\nb\r\n2\r\nc\n\r\n0\r\n\r\n";
        let plain = "HTTP/1.1 503 Busy\r\nContent-Length: 5\r\n\r\na\nbc\n";
        for (text, status) in [(chunked, 200), (plain, 503)] {
            let (mut exchange, mut server) = pair();
            for byte in text.bytes() {
                server.write_all(&[byte]).expect("open");
                exchange.read().expect("it goes on");
            }
            until(&mut exchange, Exchange::is_done).expect("whole");
            assert_eq!((exchange.status(), exchange.body()), (Some(status), &b"a\nbc\n"[..]));
        }
    }

    #[test]
    fn lines_are_taken_whole_and_a_broken_reply_is_no_end() {
        let (mut exchange, mut server) = pair();
        server.write_all(b"HTTP/1.1 200 OK\r\n\r\n4\r\na\nbc\r\n").expect("open");
        until(&mut exchange, |exchange| exchange.body().len() == 4).expect("it goes on");
        assert_eq!((exchange.take_lines(), exchange.body()), (b"a\n".to_vec(), &b"bc"[..]));
        drop(server);
        assert!(until(&mut exchange, Exchange::is_done).is_err());
    }
}
