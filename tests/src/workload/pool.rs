//! Connections of HTTP/2 that clients share: one at a time, and another one as soon as the server asks for that.

use std::io::{Error, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::http2::{Connection, Frame, Read, code, setting};
use crate::tls::{Stream, Trust};

/// How long a server may take to accept.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_millis(500);
/// What a client opens for itself, as client-go does.
const WINDOW: u32 = 4 << 20;
/// The stream of a GOAWAY that names none (RFC 9113, section 6.8).
const EVERY: u32 = (1 << 31) - 1;
/// How long a connection may take to end after its last stream.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// Where one or several clients take their connection.
#[derive(Debug)]
pub(super) struct Pool {
    trust: Option<Trust>,
    /// All that there were; the last one is used.
    connections: Mutex<Vec<Arc<Shared>>>,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Shared {
    /// A duplicate, for polls.
    socket: TcpStream,
    connection: Mutex<Connection>,
}

impl Pool {
    pub(super) const fn new(trust: Option<Trust>) -> Self {
        Self { trust, connections: Mutex::new(Vec::new()) }
    }

    /// Sends a GET for a reply of this media type: on which connection, and stream.
    pub(super) fn get(&self, address: &str, path: &str, accept: &str) -> std::io::Result<(Arc<Shared>, u32)> {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let open = connections.last().filter(|last| last.takes_more()).cloned();
        let shared = match open {
            Some(shared) => shared,
            None => {
                connections.push(Arc::new(self.dial(address)?));
                Arc::clone(&connections[connections.len() - 1])
            }
        };
        let stream = shared.lock().request("GET", path, &[("accept", accept)], true);
        Ok((shared, stream))
    }

    fn dial(&self, address: &str) -> std::io::Result<Shared> {
        let address: SocketAddr = address.parse().map_err(Error::other)?;
        let socket = TcpStream::connect_timeout(&address, CONNECT_WITHIN)?;
        let polled = socket.try_clone()?;
        let stream = match &self.trust {
            None => Stream::Plain(socket),
            Some(trust) => trust.offering(&["h2"]).over(socket),
        };
        let mut connection = Connection::over(stream);
        connection.preface(&[(setting::ENABLE_PUSH, 0), (setting::INITIAL_WINDOW_SIZE, WINDOW)]);
        connection.send(Frame::window_update(0, 1 << 30));
        connection.settle();
        polled.set_nonblocking(true)?;
        Ok(Shared { socket: polled, connection: Mutex::new(connection) })
    }

    /// How many connections the server ended; each with two GOAWAYs, and not before the last stream.
    ///
    /// # Errors
    /// Another one was ended in another way: a line.
    pub(super) fn ends(&self) -> Result<usize, String> {
        let connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ended = 0;
        for shared in connections.iter().filter(|shared| !shared.lock().goaways().is_empty()) {
            shared.socket.set_nonblocking(false).map_err(|error| error.to_string())?;
            let mut connection = shared.lock();
            while let Read::Frame(_) = connection.read(ENDS_WITHIN) {}
            let (goaways, end) = (connection.goaways(), connection.end());
            match goaways {
                [(EVERY, code::NO_ERROR), (last, code::NO_ERROR)] if *last < EVERY && end == Some(Ok(())) => {
                    ended += 1;
                }
                _ => return Err(format!("a connection ended with {goaways:?} and {end:?}")),
            }
        }
        Ok(ended)
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether another stream may be opened.
    fn takes_more(&self) -> bool {
        let mut connection = self.lock();
        connection.read_arrived();
        connection.goaways().is_empty() && connection.end().is_none()
    }

    /// The code that a stream was answered with, as far as was read.
    pub(super) fn status(&self, stream: u32) -> Option<u16> {
        Some(self.lock().so_far(stream).status).filter(|status| *status != 0)
    }

    /// Whether something for a stream was read and not taken.
    pub(super) fn has_news(&self, stream: u32) -> bool {
        let connection = self.lock();
        let has_ended = connection.end().is_some() || connection.reset_of(stream).is_some();
        has_ended || connection.is_complete(stream) || !connection.so_far(stream).body.is_empty()
    }

    /// Moves what has arrived of a stream's body to `body`. Whether it is complete.
    pub(super) fn read(&self, stream: u32, body: &mut Vec<u8>) -> std::io::Result<bool> {
        let mut connection = self.lock();
        connection.read_arrived();
        body.append(&mut connection.take_body(stream));
        if connection.is_complete(stream) {
            return Ok(true);
        }
        if let Some(code) = connection.reset_of(stream) {
            return Err(Error::other(format!("the stream was reset with code {code}")));
        }
        if connection.goaway().is_some_and(|(last, _)| last < stream) {
            return Err(Error::other("the stream is beyond the last one of a GOAWAY"));
        }
        match connection.end() {
            None => Ok(false),
            Some(Ok(())) => Err(ErrorKind::UnexpectedEof.into()),
            Some(Err(kind)) => Err(kind.into()),
        }
    }

    /// A stream is of no interest any more.
    pub(super) fn cancel(&self, stream: u32) {
        let mut connection = self.lock();
        if connection.end().is_none() {
            connection.send(Frame::reset(stream, code::CANCEL));
        }
    }
}
