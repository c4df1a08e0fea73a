//! One request and its reply over a non-blocking socket: one thread reads many of them.
//!
//! It removes HTTP's framing and nothing else.

use std::io::{Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use revcast_perf::chunked::Step;
use revcast_perf::http::Head;

/// How long a server may take to accept.
const CONNECT_WITHIN: Duration = Duration::from_millis(500);
/// Most bytes of one read.
const CHUNK: usize = 32 * 1024;

/// A reply that comes, or came.
#[derive(Debug)]
pub struct Exchange {
    socket: TcpStream,
    /// The beginning of a head that is not complete.
    raw: Vec<u8>,
    head: Option<Head>,
    body: Vec<u8>,
    done: bool,
}

impl Exchange {
    /// Sends a GET on a separate connection, for a reply of this media type.
    ///
    /// # Errors
    /// Nothing listens there.
    pub fn get(address: &str, path: &str, accept: &str) -> std::io::Result<Self> {
        let address: SocketAddr = address.parse().map_err(Error::other)?;
        let mut socket = TcpStream::connect_timeout(&address, CONNECT_WITHIN)?;
        socket.set_nodelay(true)?;
        let head = format!("GET {path} HTTP/1.1\r\nHost: test\r\nAccept: {accept}\r\n\r\n");
        socket.write_all(head.as_bytes())?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, raw: Vec::new(), head: None, body: Vec::new(), done: false })
    }

    /// What to poll.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The code, once the head is there.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.head.map(|head| head.status)
    }

    /// Whether it is complete.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.done
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

    /// The next complete message that arrived, of those that follow their length.
    pub fn take_frame(&mut self) -> Option<Vec<u8>> {
        let length = self.body.first_chunk()?;
        let end = 4 + usize::try_from(u32::from_be_bytes(*length)).ok()?;
        if self.body.len() < end {
            return None;
        }
        let rest = self.body.split_off(end);
        let mut frame = std::mem::replace(&mut self.body, rest);
        frame.drain(..4);
        Some(frame)
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
                    self.digest(&chunk[..length])?;
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

    fn digest(&mut self, mut input: &[u8]) -> std::io::Result<()> {
        if self.head.is_none() {
            let before = self.raw.len();
            self.raw.extend_from_slice(input);
            let head = Head::parse(&self.raw).map_err(|fault| Error::other(fault.to_string()))?;
            let Some((head, taken)) = head else { return Ok(()) };
            input = &input[taken - before..];
            self.head = Some(head);
        }
        let Some(head) = &mut self.head else { return Ok(()) };
        loop {
            match head.body.next(&mut input).map_err(|fault| Error::other(fault.to_string()))? {
                Step::Data(data) => self.body.extend_from_slice(data),
                Step::More => return Ok(()),
                Step::End => {
                    self.done = true;
                    return Ok(());
                }
            }
        }
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
            Exchange::get(&listener.local_addr().expect("bound").to_string(), "/", "*/*").expect("a server");
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
        server
            .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\na\nbc\r\n")
            .expect("open");
        until(&mut exchange, |exchange| exchange.body().len() == 4).expect("it goes on");
        assert_eq!((exchange.take_lines(), exchange.body()), (b"a\n".to_vec(), &b"bc"[..]));
        server.write_all(b"d\r\n\0\0\0\x02de\0\0\0\0\0\0\x01\r\n").expect("open");
        until(&mut exchange, |exchange| exchange.body().len() == 15).expect("it goes on");
        exchange.body.drain(..2);
        let frames: Vec<_> = std::iter::from_fn(|| exchange.take_frame()).collect();
        assert_eq!((frames, exchange.body()), (vec![b"de".to_vec(), vec![]], &b"\0\0\x01"[..]));
        drop(server);
        assert!(until(&mut exchange, Exchange::is_done).is_err());
    }
}
