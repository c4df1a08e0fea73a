//! The stream of a connection while it carries requests: TCP, or TLS over it. Its users do not see the difference.
//!
//! Owns the socket and the TLS session, which move together to a watch's shard and back.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::Shutdown;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_lite::{AsyncRead as _, AsyncReadExt, AsyncWrite as _, AsyncWriteExt, future};
use glommio::net::TcpStream;
use glommio::timer::sleep;
use rustls::pki_types::CertificateDer;

use crate::runtime::admission::CountGuard;
use crate::runtime::conn::Link;
use crate::runtime::conn::tls::{Session, State, TlsSession};
use crate::runtime::exchange::Arriving;
use crate::runtime::exchange::carrier::STALL;
use crate::runtime::shard::handshake_limiter::HandshakeLimiter;
use crate::runtime::sys::descriptor;
use crate::tls::Terms;

/// The timeout of a handshake, the same as in Go's client and so client-go (`TLSHandshakeTimeout`). The time that it waits here
/// for other handshakes does not count.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Bytes per read in a handshake: a client's messages have some hundred bytes, with certificates some KiB.
const HANDSHAKE_READ_BYTES: usize = 4 << 10;
/// Bytes per read: most requests are in one.
pub(super) const READ_BYTES: usize = 16 << 10;
/// Plain bytes that are encrypted before a write.
const SEAL_BYTES: usize = 64 << 10;
/// Bytes that are read and discarded before a connection is closed after an error, so that a peer receives the error that sends a
/// body first and reads then: the rest of an object that is somewhat too large.
const LINGER_BYTES: usize = 4 << 20;
const LINGER_READ_BYTES: usize = 16 << 10;
const LINGER: Duration = Duration::from_secs(1);

/// The answer of Go's server, and so of kube-apiserver, to plain HTTP on a TLS port.
const PLAIN_HTTP: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
/// How a plain HTTP request may begin. No TLS record begins with a letter.
const METHODS: [&[u8]; 7] = [b"GET ", b"HEAD ", b"POST ", b"PUT ", b"PATCH ", b"DELETE ", b"OPTIONS "];

thread_local! {
    /// Where reads go, before what came is kept: a connection that waits for more has no buffer for it.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// The stream of one connection.
#[derive(Debug)]
pub(in crate::runtime) struct Transport {
    stream: TcpStream,
    tls: Option<Box<Session>>,
    /// Wire bytes to send before all others.
    unsent: Vec<u8>,
    /// Whether the peer was told that nothing more is sent.
    is_finished: bool,
    /// Whether the peer has said so: in TLS that may come together with its last bytes.
    has_ended: bool,
}

impl Transport {
    /// For plain TCP.
    pub(in crate::runtime) const fn plain(stream: TcpStream) -> Self {
        Self { stream, tls: None, unsent: Vec::new(), is_finished: false, has_ended: false }
    }

    /// For a connection that carried a watch, with wire bytes that are unsent.
    pub(in crate::runtime) const fn resumed(stream: TcpStream, tls: TlsSession, unsent: Vec<u8>) -> Self {
        Self { stream, tls, unsent, is_finished: false, has_ended: false }
    }

    /// For TLS: completes the handshake. Plain bytes that came with its end are appended to `buffer`.
    ///
    /// # Errors
    /// The client violated the protocol, was too slow, or does not use TLS: it was sent an alert or answer if possible, and the
    /// connection has ended.
    pub(in crate::runtime) async fn secure(
        handshakes: &Rc<HandshakeLimiter>,
        mut stream: TcpStream,
        terms: &Terms,
        buffer: &mut Vec<u8>,
    ) -> io::Result<Self> {
        let _ = stream.set_write_timeout(Some(HANDSHAKE));
        let mut session = Box::new(Session::new(terms.config()).map_err(broken)?);
        let mut deadline = Instant::now() + HANDSHAKE;
        let mut scrap = vec![0; HANDSHAKE_READ_BYTES];
        let mut wire = Vec::new();
        let mut first = true;
        loop {
            let patience = deadline.saturating_duration_since(Instant::now());
            let read = read_within(&mut stream, &mut scrap, patience).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if std::mem::take(&mut first) && is_plain_http(&scrap[..read]) {
                stream.write_all(PLAIN_HTTP).await?;
                Self::plain(stream).linger().await;
                return Err(io::Error::other("a plain HTTP request"));
            }
            let came = Instant::now();
            let was_read = {
                let _step = handshakes.step().await;
                let was_read = session.read(&scrap[..read], buffer, &mut wire).map_err(broken);
                // A client that resumes a session sent its certificate in an earlier one, some hours ago.
                match session.peer_certificates() {
                    shown @ [_, ..] if matches!(was_read, Ok(State::Open)) && session.is_resumed() => {
                        terms.verify(shown).map_err(broken).and(was_read)
                    }
                    _ => was_read,
                }
            };
            deadline += came.elapsed();
            if !wire.is_empty() {
                stream.write_all(&wire).await?;
                wire.clear();
            }
            match was_read {
                Ok(State::Handshake) => {}
                Ok(State::Open) => {
                    let _ = stream.set_write_timeout(Some(STALL));
                    return Ok(Self { tls: Some(session), ..Self::plain(stream) });
                }
                Ok(State::Closed) => return Err(io::ErrorKind::UnexpectedEof.into()),
                // The peer must be able to read the alert: bytes that it sent after its messages must not cause a reset.
                Err(error) => {
                    Self::plain(stream).linger().await;
                    return Err(error);
                }
            }
        }
    }

    /// Sends what is unsent of the watch.
    pub(in crate::runtime) async fn settle(&mut self) -> io::Result<()> {
        let unsent = std::mem::take(&mut self.unsent);
        self.stream.write_all(&unsent).await
    }

    /// Appends bytes from the peer to `buffer`. Returns how many; 0: end of stream. `arriving`: the request that the bytes belong to
    /// is read when it has arrived; what is there already is read before that.
    pub(in crate::runtime) async fn read(
        &mut self,
        buffer: &mut Vec<u8>,
        patience: Duration,
        mut arriving: Option<Arriving<'_>>,
    ) -> io::Result<usize> {
        set_patience(&self.stream, patience)?;
        let deadline = Instant::now() + patience;
        if let Some(arriving) = &mut arriving {
            arriving.wait();
        }
        loop {
            let mut is_woken = false;
            // A task is woken when the socket is readable, or at the timeout.
            let read = poll_fn(|cx| {
                if std::mem::replace(&mut is_woken, true) {
                    return Poll::Ready(None);
                }
                self.poll_read_once(cx, buffer).map(Some)
            });
            let read = read.await;
            if let Some(mut arriving) = arriving.take() {
                arriving.arrive().await;
            }
            let Some(read) = read else { continue };
            if !self.unsent.is_empty() {
                self.settle().await?;
            }
            match read? {
                Some(read) => return Ok(read),
                // Part of a record.
                None => set_patience(&self.stream, deadline.saturating_duration_since(Instant::now()))?,
            }
        }
    }

    /// Sends all of `bytes`.
    pub(in crate::runtime) async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.settle().await?;
        let Some(session) = &mut self.tls else { return self.stream.write_all(bytes).await };
        let mut wire = Vec::new();
        for piece in bytes.chunks(SEAL_BYTES) {
            wire.clear();
            session.seal(piece, &mut wire).map_err(broken)?;
            if let Err(error) = self.stream.write_all(&wire).await {
                // After an incomplete record nothing can be sent, not even an alert.
                self.tls = None;
                return Err(error);
            }
        }
        Ok(())
    }

    /// No read waits longer than this; `None`: for ever.
    pub(in crate::runtime) fn set_patience(&self, patience: Option<Duration>) {
        let _ = self.stream.set_read_timeout(patience);
    }

    /// A peer that takes nothing for this long is gone; `None`: it may pause for ever.
    pub(in crate::runtime) fn set_stall(&self, stall: Option<Duration>) {
        let _ = self.stream.set_write_timeout(stall);
    }

    /// Appends bytes from the peer to `buffer`. Ready with how many; 0: end of stream.
    pub(in crate::runtime) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        loop {
            if let Some(read) = ready!(self.poll_read_once(cx, buffer))? {
                return Poll::Ready(Ok(read));
            }
        }
    }

    /// The same. Ready with `None`: what came is part of a TLS record, and more must come.
    fn poll_read_once(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<io::Result<Option<usize>>> {
        if self.has_ended {
            return Poll::Ready(Ok(Some(0)));
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let read = ready!(Pin::new(&mut self.stream).poll_read(cx, scratch))?;
            let Some(session) = self.tls.as_mut().filter(|_| read > 0) else {
                buffer.extend_from_slice(&scratch[..read]);
                return Poll::Ready(Ok(Some(read)));
            };
            let used = buffer.len();
            let state = session.read(&scratch[..read], buffer, &mut self.unsent).map_err(broken)?;
            self.has_ended = state == State::Closed;
            let plain = buffer.len() - used;
            Poll::Ready(Ok(Some(plain).filter(|plain| *plain > 0 || self.has_ended)))
        })
    }

    /// Takes some of `bytes`, after all that was taken before is sent. Ready with how many.
    pub(in crate::runtime) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(cx))?;
        let Some(session) = &mut self.tls else { return Pin::new(&mut self.stream).poll_write(cx, bytes) };
        let taken = bytes.len().min(SEAL_BYTES);
        session.seal(&bytes[..taken], &mut self.unsent).map_err(broken)?;
        // What is sealed is sent by the next call, if not now.
        match self.poll_flush(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(taken)),
        }
    }

    /// Ready when all that was taken is sent.
    pub(in crate::runtime) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.unsent));
            match sent {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) => {
                    // After an incomplete record nothing can be sent, not even an alert.
                    self.tls = None;
                    self.unsent.clear();
                    return Poll::Ready(Err(error));
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Says that nothing more is sent. Reading goes on.
    pub(in crate::runtime) fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(session) = self.tls.as_mut().filter(|_| !self.is_finished) {
            session.close(&mut self.unsent);
        }
        self.is_finished = true;
        ready!(self.poll_flush(cx))?;
        Pin::new(&mut self.stream).poll_close(cx)
    }

    /// The peer's address.
    pub(in crate::runtime) fn peer(&self) -> Option<SocketAddr> {
        self.stream.peer_addr().ok()
    }

    /// The protocol that was agreed on with the client; `None`: there is no TLS, or the client named none.
    pub(in crate::runtime) fn protocol(&self) -> Option<&'static [u8]> {
        self.tls.as_ref()?.protocol()
    }

    /// Whether the TLS session is one that was resumed.
    pub(in crate::runtime) fn is_resumed(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.is_resumed())
    }

    /// The leaf of the client's certificate chain, in DER, if it sent one and it was verified.
    pub(in crate::runtime) fn peer_certificate(&self) -> Option<Arc<[u8]>> {
        self.tls.as_ref().and_then(|session| session.peer_certificate())
    }

    /// The client's certificate chain; empty: none.
    pub(in crate::runtime) fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        self.tls.as_ref().map(|session| session.peer_certificates()).unwrap_or_default()
    }

    /// A second descriptor of the socket, for the shard that takes over.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(in crate::runtime) fn duplicate(&self) -> io::Result<OwnedFd> {
        descriptor::duplicate(&self.stream)
    }

    /// Gives up the socket, which stays open through its duplicate.
    pub(in crate::runtime) fn into_link(
        self,
        socket: OwnedFd,
        unread: Vec<u8>,
        permit: Option<CountGuard>,
        keep_alive: bool,
    ) -> Link {
        Link { socket, tls: self.tls, unsent: self.unsent, unread, permit, keep_alive }
    }

    /// Sends close_notify, if that is possible without waiting, and closes.
    pub(in crate::runtime) async fn close(mut self) {
        let Some(session) = &mut self.tls else { return };
        let mut wire = Vec::new();
        session.close(&mut wire);
        let _ = future::poll_once(self.stream.write(&wire)).await;
    }

    /// Closes a connection so that the peer can read the last reply, even if it is still sending.
    pub(in crate::runtime) async fn linger(mut self) {
        if let Some(session) = &mut self.tls {
            let mut wire = Vec::new();
            session.close(&mut wire);
            if self.stream.write_all(&wire).await.is_err() {
                return;
            }
        }
        if self.stream.shutdown(Shutdown::Write).await.is_err() {
            return;
        }
        let mut scrap = vec![0; LINGER_READ_BYTES];
        let mut left = LINGER_BYTES;
        let deadline = Instant::now() + LINGER;
        while left > 0 {
            let patience = deadline.saturating_duration_since(Instant::now());
            match read_within(&mut self.stream, &mut scrap, patience).await {
                Ok(0) | Err(_) => return,
                Ok(read) => left = left.saturating_sub(read),
            }
        }
        // Closing now would reset the connection, and a peer's kernel discards what was not read before a reset.
        sleep(deadline.saturating_duration_since(Instant::now())).await;
    }
}

/// Reads, until a timeout.
async fn read_within(stream: &mut TcpStream, into: &mut [u8], patience: Duration) -> io::Result<usize> {
    set_patience(stream, patience)?;
    stream.read(into).await
}

fn set_patience(stream: &TcpStream, patience: Duration) -> io::Result<()> {
    if patience.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    stream.set_read_timeout(Some(patience)).map_err(io::Error::from)
}

/// Whether the bytes begin like an HTTP method, however few there are.
fn is_plain_http(first: &[u8]) -> bool {
    METHODS.iter().any(|method| method.starts_with(&first[..first.len().min(method.len())]))
}

fn broken(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
