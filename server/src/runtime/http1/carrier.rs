//! HTTP/1.1 as a carrier: one connection, whose requests follow each other.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderMap;
use http::response::Parts;

use super::transport::Transport;
use crate::http::body::{BodyDecoder, BodyError, Fed};
use crate::http::request::RequestHead;
use crate::http::response::{CONTINUE, ResponseFraming, ResponseHead};
use crate::http::status::Status;
use crate::http::websocket::Handshake;
use crate::runtime::account::Charge;
use crate::runtime::client::Client;
use crate::runtime::exchange::carrier::STALL;
use crate::runtime::exchange::{Carrier, Unread};
use crate::runtime::reserve::Reserve;
use crate::runtime::watch::Carrying;
use crate::tls::{Signers, Terms};
use crate::upstream::{NotForwarded, RawHead, reply};
use crate::wire::stream::Delimiter;

/// Bytes that a client may send ahead of its next request while a reply is under way: then nothing more is read.
const AHEAD_BYTES_MAX: usize = 64 << 10;
/// A larger buffer is not kept from one request or reply to the next.
pub(super) const KEPT_BYTES: usize = 4 << 10;

/// A connection that carries requests.
#[derive(Debug)]
pub(super) struct Http1Carrier {
    /// `None` after it became a watch, or failed.
    pub(super) transport: Option<Transport>,
    /// Bytes that were read and not used yet.
    pub(super) buffer: Vec<u8>,
    /// The current head as it was received, if it may be forwarded.
    pub(super) raw_head: Vec<u8>,
    client: Rc<Client>,
    /// What was pushed and not sent yet.
    out: Vec<u8>,
    /// The body that is read in pieces, if one is.
    body: Option<BodyDecoder>,
    /// The rest of `100 Continue` that is to be sent before the client sends the body.
    invitation: &'static [u8],
    /// The descriptor of the watch that the connection becomes.
    duplicate: Option<OwnedFd>,
}

impl Http1Carrier {
    pub(super) const fn new(transport: Transport, buffer: Vec<u8>, client: Rc<Client>) -> Self {
        Self {
            transport: Some(transport),
            buffer,
            raw_head: Vec::new(),
            client,
            out: Vec::new(),
            body: None,
            invitation: b"",
            duplicate: None,
        }
    }

    fn clear_out(&mut self) {
        self.out.clear();
        if self.out.capacity() > KEPT_BYTES {
            self.out = Vec::new();
        }
    }
}

impl Carrier for Http1Carrier {
    const DELIMITER: Delimiter = Delimiter::Chunks;

    fn push_head(&mut self, head: &ResponseHead<'_>) {
        head.push_to(&mut self.out);
    }

    fn push_forwarded_head(&mut self, parts: &Parts, framing: ResponseFraming, close: bool) {
        reply::push_head(&mut self.out, parts, framing, close);
    }

    fn push_handshake(&mut self, handshake: &Handshake, _: &ResponseHead<'_>) {
        handshake.push_to(&mut self.out);
    }

    fn push_piece(&mut self, piece: &[u8], framing: ResponseFraming) {
        reply::push_piece(&mut self.out, piece, framing);
    }

    fn push_raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    fn push_end(&mut self, trailers: Option<&HeaderMap>, framing: ResponseFraming) {
        reply::push_end(&mut self.out, trailers, framing);
    }

    async fn send(&mut self) -> io::Result<()> {
        let Some(transport) = &mut self.transport else { return Ok(()) };
        let sent = transport.write_all(&self.out).await;
        self.clear_out();
        sent
    }

    async fn send_part(&mut self, part: &[u8]) -> io::Result<()> {
        if !self.out.is_empty() {
            self.send().await?;
        }
        match &mut self.transport {
            Some(transport) if !part.is_empty() => transport.write_all(part).await,
            Some(_) | None => Ok(()),
        }
    }

    fn cut(&mut self) {
        self.transport = None;
    }

    async fn read_body(
        &mut self,
        head: &RequestHead,
        limit: usize,
        charge: &RefCell<Charge>,
        timeout: Duration,
    ) -> Result<Bytes, Unread> {
        let mut decoder = BodyDecoder::new(head.body, limit).map_err(Unread::Invalid)?;
        if head.expect_continue && self.buffer.is_empty() {
            self.push_raw(CONTINUE);
            self.send().await.map_err(|_| Unread::Gone)?;
        }
        let deadline = Instant::now() + timeout;
        loop {
            charge.borrow_mut().add(self.buffer.len()).map_err(Unread::Refused)?;
            match decoder.feed(&self.buffer).map_err(Unread::Invalid)? {
                Fed::Done { body, consumed } => {
                    self.buffer.drain(..consumed);
                    return Ok(body);
                }
                Fed::NeedMore => self.buffer.clear(),
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(transport) = &mut self.transport else { return Err(Unread::Gone) };
            match transport.read(&mut self.buffer, left.min(STALL), None).await {
                Ok(0) => return Err(Unread::Gone),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(Unread::Slow),
                Err(_) => return Err(Unread::Gone),
            }
        }
    }

    fn open_body(&mut self, head: &RequestHead) -> Result<(), BodyError> {
        self.body = Some(BodyDecoder::new(head.body, usize::MAX)?);
        self.invitation = if head.expect_continue { CONTINUE } else { b"" };
        Ok(())
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Unread>> {
        loop {
            let Some(transport) = &mut self.transport else { return Poll::Ready(Err(Unread::Gone)) };
            let Some(decoder) = &mut self.body else { return Poll::Ready(Ok(None)) };
            while !self.invitation.is_empty() {
                match ready!(transport.poll_write(cx, self.invitation)) {
                    Ok(sent) => self.invitation = &self.invitation[sent..],
                    Err(_) => return Poll::Ready(Err(Unread::Gone)),
                }
            }
            match decoder.feed(&self.buffer) {
                Ok(Fed::Done { body, consumed }) => {
                    self.buffer.drain(..consumed);
                    self.body = None;
                    return Poll::Ready(Ok(Some(body).filter(|body| !body.is_empty())));
                }
                Ok(Fed::NeedMore) => {
                    self.buffer.clear();
                    let piece = decoder.take();
                    if !piece.is_empty() {
                        return Poll::Ready(Ok(Some(Bytes::from(piece))));
                    }
                }
                Err(error) => return Poll::Ready(Err(Unread::Invalid(error))),
            }
            match ready!(transport.poll_read(cx, &mut self.buffer)) {
                Ok(read) if read > 0 => {}
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Poll::Ready(Err(Unread::Slow));
                }
                Ok(_) | Err(_) => return Poll::Ready(Err(Unread::Gone)),
            }
        }
    }

    fn withdraw_invitation(&mut self) {
        self.invitation = b"";
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // What it sends ahead is kept for its next request.
        while self.buffer.len() < AHEAD_BYTES_MAX {
            let Some(transport) = &mut self.transport else { return Poll::Ready(()) };
            match ready!(transport.poll_read(cx, &mut self.buffer)) {
                Ok(read) if read > 0 => {}
                Ok(_) | Err(_) => return Poll::Ready(()),
            }
        }
        Poll::Pending
    }

    fn set_stall(&mut self, stall: Option<Duration>) {
        if let Some(transport) = &self.transport {
            transport.set_stall(stall);
        }
    }

    fn set_patience(&mut self, patience: Option<Duration>) {
        if let Some(transport) = &self.transport {
            transport.set_patience(patience);
        }
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.transport.as_ref().and_then(Transport::peer)
    }

    fn signers(&self, terms: &Terms) -> Signers {
        terms.signers(self.transport.as_ref().map(Transport::peer_certificates).unwrap_or_default())
    }

    fn raw_head(&mut self) -> Result<RawHead, NotForwarded> {
        RawHead::parse(&std::mem::take(&mut self.raw_head))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        if !self.buffer.is_empty() {
            let read = self.buffer.len();
            buffer.append(&mut self.buffer);
            return Poll::Ready(Ok(read));
        }
        match &mut self.transport {
            Some(transport) => transport.poll_read(cx, buffer),
            None => Poll::Ready(Ok(0)),
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.transport {
            Some(transport) => transport.poll_write(cx, bytes),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport.as_mut().map_or(Poll::Ready(Ok(())), |transport| transport.poll_flush(cx))
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport.as_mut().map_or(Poll::Ready(Ok(())), |transport| transport.poll_finish(cx))
    }

    fn prepare_watch(&mut self, reserve: &Reserve) -> Result<(), Box<Status>> {
        let socket = self.transport.as_ref().and_then(|transport| transport.duplicate().ok());
        self.duplicate = socket.filter(|socket| !reserve.holds(socket.as_raw_fd()));
        if self.duplicate.is_some() {
            return Ok(());
        }
        let message = "no descriptor is left for another watch: raise nofile (ulimit -n)".to_owned();
        Err(Box::new(Status::service_unavailable(message, 1)))
    }

    fn take_for_watch(&mut self, goes_on: bool) -> Option<Carrying> {
        let (transport, socket) = (self.transport.take()?, self.duplicate.take()?);
        // From now on its shard counts it.
        let guard = self.client.leave();
        let link = transport.into_link(socket, std::mem::take(&mut self.buffer), guard, goes_on);
        Some(Carrying::Link(link))
    }
}
