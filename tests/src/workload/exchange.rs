//! One request and its reply, without waiting: one thread reads many of them.
//!
//! It removes the framing of what carries the reply and nothing else. How the request was sent is `wire`'s.

use std::io::{Error, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStdout};
use std::sync::Arc;

use revcast_http1::{Body, Head, Step};

use super::pool::Shared;
use crate::tls::Stream;
use crate::websocket::{self, CLOSE, PING, PONG, TEXT, take_frame};

/// Most bytes of one read.
const CHUNK: usize = 32 * 1024;
/// What a Close says of a stream that ended as it should (RFC 6455, section 7.4.1).
const NORMAL: [u8; 2] = 1000_u16.to_be_bytes();

/// A reply that comes, or came.
#[derive(Debug)]
pub struct Exchange {
    carrier: Carrier,
    body: Vec<u8>,
    done: bool,
}

/// What brings it.
#[derive(Debug)]
enum Carrier {
    /// A connection, or a program, of its own.
    Own { source: Source, reply: Reply },
    /// A stream of a connection of HTTP/2, by its number.
    Http2 { connection: Arc<Shared>, stream: u32, status: Option<u16> },
}

#[derive(Debug)]
pub(super) enum Source {
    Socket(Stream),
    /// A client, which writes the reply to a pipe.
    Program(Child, ChildStdout),
}

/// How far it is.
#[derive(Debug)]
pub(super) enum Reply {
    /// A head of HTTP/1.1 and what follows it: bytes that were not taken, and the head.
    Http { raw: Vec<u8>, head: Option<Head>, follows: Follows },
    /// The body alone, and whether it has begun.
    Body(bool),
}

/// What follows a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    /// A body in the framing that the head names.
    Framed,
    /// The body without its framing, until the end.
    Bare,
    /// Frames of a WebSocket, if the code is 101.
    Frames,
}

impl Reply {
    /// Before its head.
    pub(super) const fn http(follows: Follows) -> Self {
        Self::Http { raw: Vec::new(), head: None, follows }
    }
}

impl Exchange {
    /// Of a request that was sent. The source does not block.
    pub(super) const fn of_its_own(source: Source, reply: Reply) -> Self {
        Self { carrier: Carrier::Own { source, reply }, body: Vec::new(), done: false }
    }

    /// Of a request on a stream.
    pub(super) const fn on_stream(connection: Arc<Shared>, stream: u32) -> Self {
        Self { carrier: Carrier::Http2 { connection, stream, status: None }, body: Vec::new(), done: false }
    }

    /// What to poll.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        match &self.carrier {
            Carrier::Own { source: Source::Socket(stream), .. } => stream.socket().as_fd(),
            Carrier::Own { source: Source::Program(_, stdout), .. } => stdout.as_fd(),
            Carrier::Http2 { connection, .. } => connection.fd(),
        }
    }

    /// Whether another client's read brought something for it.
    #[must_use]
    pub fn has_news(&self) -> bool {
        match &self.carrier {
            Carrier::Own { .. } => false,
            Carrier::Http2 { connection, stream, status } => {
                *status != connection.status(*stream) || connection.has_news(*stream)
            }
        }
    }

    /// The code, once the head is there. A WebSocket that opened has 200, like the output of a program.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match &self.carrier {
            Carrier::Own { reply: Reply::Http { head, .. }, .. } => {
                head.map(|head| if head.status == 101 { 200 } else { head.status })
            }
            Carrier::Own { reply: Reply::Body(has_begun), .. } => has_begun.then_some(200),
            Carrier::Http2 { status, .. } => *status,
        }
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
    /// The connection broke before the reply's end, or it is not what was asked for.
    pub fn read(&mut self) -> std::io::Result<()> {
        let Self { carrier, body, done } = self;
        let (source, reply) = match carrier {
            Carrier::Own { source, reply } => (source, reply),
            Carrier::Http2 { connection, stream, status } => {
                let read = connection.read(*stream, body);
                *status = connection.status(*stream);
                *done = read?;
                return Ok(());
            }
        };
        let mut chunk = [0; CHUNK];
        while !*done {
            match source.read(&mut chunk) {
                Ok(0) => {
                    *done = source.has_succeeded()?;
                    if let Reply::Body(has_begun) = reply {
                        *has_begun = true;
                    }
                    return Ok(());
                }
                Ok(length) => match reply {
                    Reply::Body(has_begun) => {
                        *has_begun = true;
                        body.extend_from_slice(&chunk[..length]);
                    }
                    Reply::Http { raw, head, follows } => {
                        raw.extend_from_slice(&chunk[..length]);
                        *done = digest(raw, head, *follows, body)?;
                        if *follows == Follows::Frames && head.is_some_and(|head| head.status == 101) {
                            *done = digest_frames(source, raw, body)?;
                        }
                    }
                },
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        match &mut self.carrier {
            Carrier::Own { source: Source::Program(child, _), .. } => {
                // It may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
            }
            Carrier::Own { source: Source::Socket(_), .. } => {}
            Carrier::Http2 { connection, stream, .. } if !self.done => connection.cancel(*stream),
            Carrier::Http2 { .. } => {}
        }
    }
}

impl Source {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Socket(stream) => stream.read(into),
            Self::Program(_, stdout) => stdout.read(into),
        }
    }

    /// Whether the end of its bytes is the end of the reply.
    fn has_succeeded(&mut self) -> std::io::Result<bool> {
        match self {
            Self::Socket(_) => Err(ErrorKind::UnexpectedEof.into()),
            Self::Program(child, _) => {
                let status = child.wait()?;
                if status.success() { Ok(true) } else { Err(Error::other(format!("it ended: {status}"))) }
            }
        }
    }
}

/// Moves the bytes of a body to it. Whether it is complete.
fn digest(
    raw: &mut Vec<u8>,
    head: &mut Option<Head>,
    follows: Follows,
    body: &mut Vec<u8>,
) -> std::io::Result<bool> {
    if head.is_none() {
        let parsed = Head::parse(raw).map_err(|fault| Error::other(fault.to_string()))?;
        let Some((mut parsed, taken)) = parsed else { return Ok(false) };
        raw.drain(..taken);
        if follows == Follows::Bare {
            parsed.body = Body::UntilClose;
        }
        *head = Some(parsed);
    }
    let Some(head) = head.as_mut().filter(|head| head.status != 101 || follows != Follows::Frames) else {
        return Ok(false);
    };
    let input = std::mem::take(raw);
    let mut rest = input.as_slice();
    loop {
        match head.body.next(&mut rest).map_err(|fault| Error::other(fault.to_string()))? {
            Step::Data(data) => body.extend_from_slice(data),
            Step::More => return Ok(false),
            Step::End => return Ok(true),
        }
    }
}

/// Moves messages to the body, each with the newline that it has in HTTP, and answers what wants an answer. Whether the stream has
/// ended as it should.
fn digest_frames(source: &mut Source, raw: &mut Vec<u8>, body: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut answer = |first, payload: &[u8]| match source {
        Source::Socket(stream) => stream.write_all(&websocket::frame(first, payload)),
        Source::Program(..) => Ok(()),
    };
    while let Some((first, payload)) = take_frame(raw) {
        match first {
            TEXT => {
                body.extend_from_slice(&payload);
                if !payload.ends_with(b"\n") {
                    body.push(b'\n');
                }
            }
            PING => answer(PONG, &payload)?,
            CLOSE if payload.starts_with(&NORMAL) => {
                // The server may have closed already.
                let _ = answer(CLOSE, &payload);
                return Ok(true);
            }
            _ => return Err(Error::other(format!("frame {first:x} {}", String::from_utf8_lossy(&payload)))),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use super::Exchange;
    use crate::workload::wire::Wire;

    fn pair() -> (Exchange, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let exchange = Wire::default().get(0, &address, "/", "*/*").expect("a server");
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
