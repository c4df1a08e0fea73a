//! HTTP/2 as a carrier: one stream of a connection, which the table of connections reads and writes.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_lite::future;
use glommio::timer::{Timer, sleep};
use http::HeaderMap;
use http::response::Parts;

use crate::http::body::BodyError;
use crate::http::request::{BodyFraming, RequestHead};
use crate::http::response::{ResponseFraming, ResponseHead};
use crate::http::status::Status;
use crate::http::websocket::Handshake;
use crate::runtime::account::Charge;
use crate::runtime::conn::{Conns, Frames, Piece, Put, RequestStream};
use crate::runtime::exchange::carrier::STALL;
use crate::runtime::exchange::{Carrier, Unread};
use crate::runtime::reserve::Reserve;
use crate::runtime::shard::local::Local;
use crate::runtime::sys::polls::Owner;
use crate::runtime::watch::Carrying;
use crate::tls::{Signers, Terms};
use crate::upstream::{NotForwarded, RawHead, reply};
use crate::wire::http2::{ErrorCode, StreamKey, hpack};
use crate::wire::stream::Delimiter;

/// A larger buffer is not kept from one piece of a reply to the next.
const KEPT_BYTES: usize = 256 << 10;

/// One stream that carries a request.
pub(super) struct Http2Carrier {
    local: Rc<Local>,
    owner: Owner,
    key: StreamKey,
    stream: Rc<RequestStream>,
    /// The head of the request as one of HTTP/1.1, if it may be forwarded.
    pub(super) raw_head: Vec<u8>,
    /// What was pushed and not sent yet: a field block, data, a field block after it.
    head: Option<Vec<u8>>,
    data: Vec<u8>,
    trailers: Option<Vec<u8>>,
    ends: bool,
    /// Whether the client is to be told that it may send its body.
    invites: bool,
    stall: Option<Duration>,
    patience: Option<Duration>,
    /// Runs while a piece of a body is waited for.
    alarm: Option<Timer>,
    /// Whether the stream has become a watch.
    is_taken: bool,
}

impl Http2Carrier {
    pub(super) const fn new(
        local: Rc<Local>,
        owner: Owner,
        key: StreamKey,
        stream: Rc<RequestStream>,
    ) -> Self {
        Self {
            local,
            owner,
            key,
            stream,
            raw_head: Vec::new(),
            head: None,
            data: Vec::new(),
            trailers: None,
            ends: false,
            invites: false,
            stall: Some(STALL),
            patience: None,
            alarm: None,
            is_taken: false,
        }
    }

    fn with_conns<T>(&self, act: impl FnOnce(&mut Conns) -> T) -> T {
        act(self.local.core.borrow_mut().conns())
    }

    fn put(&self, frames: Frames<'_>) -> Put {
        self.with_conns(|conns| conns.put_frames(self.owner, self.key, frames))
    }

    /// Sends the head that was pushed, and `bytes` from `sent` on.
    fn poll_out(
        &mut self,
        cx: &Context<'_>,
        bytes: &[u8],
        sent: &mut usize,
        ends: bool,
    ) -> Poll<io::Result<()>> {
        let (head, trailers) = (self.head.as_deref(), self.trailers.as_deref());
        let frames = Frames { interim: None, head, data: &bytes[*sent..], trailers, ends };
        match self.put(frames) {
            Put::Gone => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            Put::Full => {}
            Put::Data(taken, is_all) => {
                self.head = None;
                *sent += taken;
                if is_all {
                    return Poll::Ready(Ok(()));
                }
            }
        }
        self.stream.wait_for_room(cx);
        Poll::Pending
    }

    /// Sends all, as long as the peer takes something now and then.
    async fn write(&mut self, bytes: &[u8], ends: bool) -> io::Result<()> {
        let (mut sent, stall) = (0, self.stall);
        loop {
            let before = sent;
            let written = poll_fn(|cx| self.poll_out(cx, bytes, &mut sent, ends));
            let late = async {
                match stall {
                    Some(stall) => sleep(stall).await,
                    None => future::pending().await,
                };
                Err(io::ErrorKind::TimedOut.into())
            };
            match future::or(written, late).await {
                Err(error) if error.kind() == io::ErrorKind::TimedOut && sent > before => {}
                other => return other,
            }
        }
    }

    /// Tells the client once that it may send its body.
    fn invite(&mut self) {
        if std::mem::take(&mut self.invites) && self.stream.is_dry() {
            let mut block = Vec::new();
            hpack::push_status(&mut block, 100);
            // A client whose socket is full waits for no invitation.
            let _ = self.put(Frames { interim: Some(&block), ..Frames::default() });
        }
    }

    fn consume(&self, bytes: usize) {
        self.with_conns(|conns| conns.consume(self.owner, self.key, bytes));
    }
}

impl Drop for Http2Carrier {
    fn drop(&mut self) {
        if self.is_taken {
            return;
        }
        // Only a panic within the table could hold it now.
        if let Ok(mut core) = self.local.core.try_borrow_mut() {
            core.conns().release(self.owner, self.key, self.local.now());
            if core.conns().has_events() {
                self.local.notify.ring();
            }
        }
    }
}

impl Carrier for Http2Carrier {
    const DELIMITER: Delimiter = Delimiter::Frames;

    fn push_head(&mut self, head: &ResponseHead<'_>) {
        let mut block = Vec::with_capacity(256);
        head.push_block(&mut block);
        self.head = Some(block);
    }

    fn push_forwarded_head(&mut self, parts: &Parts, framing: ResponseFraming, _: bool) {
        let mut block = Vec::with_capacity(512);
        reply::push_block(&mut block, parts, framing);
        self.head = Some(block);
    }

    fn push_handshake(&mut self, handshake: &Handshake, head: &ResponseHead<'_>) {
        let mut block = Vec::with_capacity(256);
        ResponseHead { code: 200, ..head.clone() }.push_block(&mut block);
        if let Some(protocol) = handshake.protocol() {
            hpack::push_field(&mut block, b"sec-websocket-protocol", protocol.as_bytes());
        }
        self.head = Some(block);
    }

    fn push_piece(&mut self, piece: &[u8], _: ResponseFraming) {
        self.data.extend_from_slice(piece);
    }

    fn push_raw(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
    }

    fn push_end(&mut self, trailers: Option<&HeaderMap>, _: ResponseFraming) {
        self.trailers = trailers.filter(|trailers| !trailers.is_empty()).map(|trailers| {
            let mut block = Vec::new();
            reply::push_trailers(&mut block, trailers);
            block
        });
        self.ends = true;
    }

    async fn send(&mut self) -> io::Result<()> {
        let data = std::mem::take(&mut self.data);
        let sent = self.write(&data, self.ends).await;
        if data.capacity() <= KEPT_BYTES {
            self.data = data;
            self.data.clear();
        }
        sent
    }

    async fn send_part(&mut self, part: &[u8]) -> io::Result<()> {
        if !self.data.is_empty() || self.head.is_some() || part.is_empty() {
            self.send().await?;
        }
        if part.is_empty() { Ok(()) } else { self.write(part, false).await }
    }

    fn cut(&mut self) {
        self.with_conns(|conns| conns.reset(self.owner, self.key, ErrorCode::InternalError));
    }

    fn refuse_more(&mut self) {
        self.with_conns(|conns| conns.refuse_more(self.owner));
    }

    fn trust(&mut self) {
        self.with_conns(|conns| conns.trust(self.owner));
    }

    async fn read_body(
        &mut self,
        head: &RequestHead,
        limit: usize,
        charge: &RefCell<Charge>,
        timeout: Duration,
    ) -> Result<Bytes, Unread> {
        let too_large = || Unread::Invalid(BodyError::TooLarge { limit });
        if matches!(head.body, BodyFraming::Length(length) if length > limit as u64) {
            return Err(too_large());
        }
        self.invites = head.expect_continue;
        self.invite();
        let deadline = Instant::now() + timeout;
        let mut body = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).min(STALL);
            let late = async {
                sleep(left).await;
                None
            };
            let stream = &self.stream;
            let piece = future::or(poll_fn(|cx| stream.poll_piece(cx).map(Some)), late).await;
            match piece {
                Some(Piece::Data(bytes)) => {
                    charge.borrow_mut().add(bytes.len()).map_err(Unread::Refused)?;
                    self.consume(bytes.len());
                    if body.len() + bytes.len() > limit {
                        return Err(too_large());
                    }
                    if body.is_empty() { body = bytes } else { body.extend_from_slice(&bytes) }
                }
                Some(Piece::End) => return Ok(Bytes::from(body)),
                Some(Piece::Gone) => return Err(Unread::Gone),
                None => return Err(Unread::Slow),
            }
        }
    }

    fn open_body(&mut self, head: &RequestHead) -> Result<(), BodyError> {
        self.invites = head.expect_continue;
        Ok(())
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Unread>> {
        self.invite();
        let piece = self.stream.poll_piece(cx);
        if piece.is_ready() {
            self.alarm = None;
        }
        match piece {
            Poll::Ready(Piece::Data(bytes)) => {
                self.consume(bytes.len());
                Poll::Ready(Ok(Some(Bytes::from(bytes))))
            }
            Poll::Ready(Piece::End) => Poll::Ready(Ok(None)),
            Poll::Ready(Piece::Gone) => Poll::Ready(Err(Unread::Gone)),
            Poll::Pending => {
                let Some(patience) = self.patience else { return Poll::Pending };
                let alarm = self.alarm.get_or_insert_with(|| Timer::new(patience));
                Future::poll(Pin::new(alarm), cx).map(|_| Err(Unread::Slow))
            }
        }
    }

    fn withdraw_invitation(&mut self) {
        self.invites = false;
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.stream.poll_gone(cx)
    }

    fn set_stall(&mut self, stall: Option<Duration>) {
        self.stall = stall;
    }

    fn set_patience(&mut self, patience: Option<Duration>) {
        self.patience = patience;
        self.alarm = None;
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.with_conns(|conns| conns.peer(self.owner))
    }

    fn signers(&self, terms: &Terms) -> Signers {
        self.with_conns(|conns| terms.signers(conns.certificates(self.owner.slot)))
    }

    fn raw_head(&mut self) -> Result<RawHead, NotForwarded> {
        RawHead::parse(&std::mem::take(&mut self.raw_head))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        self.stream.poll_piece(cx).map(|piece| match piece {
            Piece::Data(bytes) => {
                self.consume(bytes.len());
                buffer.extend_from_slice(&bytes);
                Ok(bytes.len())
            }
            Piece::End => Ok(0),
            Piece::Gone => Err(io::ErrorKind::ConnectionReset.into()),
        })
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.put(Frames { data: bytes, ..Frames::default() }) {
            Put::Gone => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            Put::Data(taken @ 1.., _) => Poll::Ready(Ok(taken)),
            Put::Full | Put::Data(0, _) => {
                self.stream.wait_for_room(cx);
                Poll::Pending
            }
        }
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // What is put is on its way: as long as it is not, nothing else can be put.
        Poll::Ready(Ok(()))
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.put(Frames { ends: true, ..Frames::default() }) {
            Put::Gone => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            Put::Data(..) => Poll::Ready(Ok(())),
            Put::Full => {
                self.stream.wait_for_room(cx);
                Poll::Pending
            }
        }
    }

    fn prepare_watch(&mut self, _: &Reserve) -> Result<(), Box<Status>> {
        Ok(())
    }

    fn take_for_watch(&mut self, _: bool) -> Option<Carrying> {
        if self.stream.is_gone() {
            return None;
        }
        self.is_taken = true;
        Some(Carrying::Stream(self.owner, self.key))
    }
}
