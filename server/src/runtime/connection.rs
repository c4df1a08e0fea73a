//! One connection while it carries requests: head, body, reply, and again.
//!
//! Owns the order of reads and writes on the socket and its time limits. When a request turns out to be a watch, the
//! socket leaves this task for its shard and the task ends; when the stream is over the socket comes back to a new one.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use futures_lite::future;
use glommio::net::TcpStream;
use glommio::timer::sleep;
use revcast_engine::encoding::json;
use uuid::Uuid;

use super::admin;
use super::admission::{ConnPermit, WatchPermit};
use super::handoff::WatchHandoff;
use super::local::{Busy, Local};
use super::reply_deadline::ReplyDeadline;
use super::request_scope::RequestScope;
use super::transport::Transport;
use crate::auth::Identity;
use crate::http::body::{BODY_BYTES_MAX, BodyDecoder, DRAINED_BODY_BYTES_MAX, Fed};
use crate::http::request::{BodyFraming, HEAD_BYTES_MAX, HeadScanner, Method, Parsed, RequestHead};
use crate::http::response::{CONTINUE, Framing, JSON, ResponseHead, push_response_head, push_status};
use crate::http::status::{Layout, Status};
use crate::http::websocket::Handshake;
use crate::serve::{FullBody, Host, Reply, StreamingBody, WatchRequest, Wire, admit, admit_operator, handle};
use crate::wire::http1::{CHUNKED, LAST_CHUNK, push_chunk};
use crate::wire::websocket;

/// The longest pause within a body, and the longest time that a peer may take no byte of a reply.
pub(super) const STALL: Duration = Duration::from_secs(30);
/// Read at once until so much came in one go: a connection that is idle, or asks by the byte, holds no more.
const FIRST_READ_BYTES: usize = 1 << 10;
const READ_BYTES: usize = 16 << 10;
/// What of a body is sent at once: so much goes with the head, and more is sent from where it is.
const SEND_BYTES: usize = 64 << 10;

/// Which of the two listeners a connection came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListenerKind {
    Public,
    Admin,
}

/// Why a connection is over.
enum Over {
    /// Nothing is owed: the peer closed, was too slow, or went over to a watch.
    Quiet,
    /// A last reply was sent; the peer may still be sending.
    Linger,
}

/// Serves a connection that was accepted until it is over or becomes a watch. `permit`: how it is counted, if it is.
pub(super) async fn serve(
    local: Rc<Local>,
    stream: TcpStream,
    face: ListenerKind,
    permit: Option<ConnPermit>,
) {
    let mut buffer = Vec::new();
    let transport = match &local.shared.tls {
        Some(tls) if face == ListenerKind::Public => {
            match Transport::secure(&local, stream, &tls.terms(), &mut buffer).await {
                Ok(transport) => transport,
                Err(error) => return crate::log::debug(|| format!("a TLS handshake failed: {error}")),
            }
        }
        Some(_) | None => Transport::plain(stream),
    };
    Connection { is_new: true, ..Connection::new(local, transport, buffer, face, permit) }.serve().await;
}

/// Goes on with a connection whose watch is over. `buffer` holds bytes that were read already; the server waits for what is
/// still owed of the watch.
pub(super) async fn go_on(
    local: Rc<Local>,
    mut transport: Transport,
    buffer: Vec<u8>,
    busy: Busy,
    permit: Option<ConnPermit>,
) {
    if transport.settle().await.is_err() {
        return;
    }
    if local.closing() {
        return transport.close().await;
    }
    drop(busy);
    Connection::new(local, transport, buffer, ListenerKind::Public, permit).serve().await;
}

struct Connection {
    local: Rc<Local>,
    /// `None` once it went over to a watch.
    transport: Option<Transport>,
    /// Bytes read and not used yet.
    buffer: Vec<u8>,
    /// Read at once.
    read_bytes: usize,
    face: ListenerKind,
    /// Who the client says it is, in DER: the leaf of a chain that was verified. It holds for every request of the connection.
    peer_certificate: Option<Arc<[u8]>>,
    /// How it is counted; `None`: it is not.
    permit: Option<ConnPermit>,
    /// Whether it has asked for nothing yet.
    is_new: bool,
    /// The request under way.
    scope: Option<RequestScope>,
}

impl Connection {
    fn new(
        local: Rc<Local>,
        transport: Transport,
        buffer: Vec<u8>,
        face: ListenerKind,
        permit: Option<ConnPermit>,
    ) -> Self {
        let peer_certificate = transport.peer_certificate();
        Self {
            local,
            transport: Some(transport),
            buffer,
            read_bytes: FIRST_READ_BYTES,
            face,
            peer_certificate,
            permit,
            is_new: false,
            scope: None,
        }
    }

    async fn serve(mut self) {
        let over = self.run().await;
        if let Some(transport) = self.transport.take() {
            match over {
                Over::Linger => transport.linger().await,
                Over::Quiet => transport.close().await,
            }
        }
    }

    async fn run(&mut self) -> Over {
        loop {
            let mut head = match self.read_head().await {
                Ok(Some(head)) => head,
                Ok(None) => return Over::Quiet,
                Err(over) => return over,
            };
            // Decided once: a connection ends where its reply said so, and nowhere else.
            head.keep_alive &= !self.local.leaving();
            let busy = self.local.begin_request();
            let source = || self.transport.as_ref().and_then(Transport::peer);
            self.scope = Some(RequestScope::begin(&self.local, &head, self.face, source));
            let next = self.exchange(&head).await;
            self.scope = None;
            drop(busy);
            if let Some(over) = next {
                return over;
            }
            // Reading and writing wait for nothing as long as there is something to read and room for the answer: a peer that sends
            // request upon request must not keep the shard from its watches.
            self.local.yield_now().await;
        }
    }

    /// One request. `None`: the connection goes on.
    async fn exchange(&mut self, head: &RequestHead) -> Option<Over> {
        #[cfg(debug_assertions)]
        assert!(head.path != ["planted", "panic"], "planted: what does a panic take with it?");
        let app = &self.local.shared.app;
        let (certificate, now) = (self.peer_certificate.as_deref(), SystemTime::now());
        let scope = &mut self.scope;
        let mut known = |who: &Identity| {
            if let Some(scope) = scope {
                scope.is_of(who);
            }
        };
        let admitted = match self.face {
            ListenerKind::Public => admit(app, head, certificate, now, &mut known).map(Some),
            ListenerKind::Admin => admit_operator(app, head, certificate, now, &mut known).map(|()| None),
        };
        if let Some(scope) = &self.scope {
            scope.received();
        }
        let admitted = match admitted {
            Ok(admitted) => admitted,
            Err(whole) => return self.turn_away(head, &whole).await,
        };
        let takes_body = admitted.as_ref().is_some_and(|admitted| admitted.takes_body());
        if head.body != BodyFraming::None
            && takes_body
            && let Some(status) = self.local.shared.memory.refuses_writer()
        {
            self.send_last(&status, head).await;
            return Some(Over::Linger);
        }
        let body = match self.read_body(head, takes_body).await {
            Ok(body) => body,
            Err(over) => return Some(over),
        };
        let reply = match admitted {
            Some(admitted) => handle(&self.local.shared.app, &*self.local, head, &admitted, body).await,
            None => admin::handle(&self.local, head).await,
        };
        // Who was refused another protocol may have begun to speak it.
        let refused = matches!(&reply, Reply::FullBody(whole) if whole.code >= 400 && head.upgrade.is_some());
        let sent = match reply {
            Reply::FullBody(whole) => self.send_whole(head, &whole, refused).await,
            Reply::StreamingBody(pieces) => match self.local.shared.memory.refuses_reader() {
                None => self.send_pieces(head, pieces).await,
                Some(status) => {
                    self.send_status(&status, Some(head)).await;
                    Ok(())
                }
            },
            Reply::Refused(status, Wire::WebSocket(handshake)) => {
                let refused = self.send_refused_websocket(&handshake, &status).await;
                return Some(refused.map_or(Over::Quiet, |()| Over::Linger));
            }
            Reply::Refused(status, Wire::Chunked | Wire::Gzip) => self.send_refused(head, &status).await,
            Reply::Watch(wish) => return self.become_watch(head, wish).await,
        };
        match sent {
            Ok(()) if head.keep_alive && !refused => None,
            Ok(()) => Some(Over::Linger),
            Err(_) => Some(Over::Quiet),
        }
    }

    async fn read_head(&mut self) -> Result<Option<RequestHead>, Over> {
        let mut scanner = HeadScanner::new();
        self.read_bytes = FIRST_READ_BYTES;
        if self.buffer.is_empty() && self.buffer.capacity() > 2 * FIRST_READ_BYTES {
            // A body has grown it.
            self.buffer = Vec::new();
        }
        let local = Rc::clone(&self.local);
        let options = &local.shared.options;
        // Who connects has something to ask; who has asked may think about it.
        let mut deadline = std::mem::take(&mut self.is_new).then(|| Instant::now() + options.head_timeout);
        loop {
            match scanner.parse(&self.buffer) {
                Ok(Parsed::Complete { head, head_len }) => {
                    self.buffer.drain(..head_len);
                    return Ok(Some(*head));
                }
                Ok(Parsed::Incomplete) => {}
                Err(error) => {
                    self.scope = Some(RequestScope::unread(&self.local));
                    self.send_status(&error.status(), None).await;
                    self.scope = None;
                    return Err(Over::Linger);
                }
            }
            debug_assert!(
                self.buffer.len() <= HEAD_BYTES_MAX + READ_BYTES,
                "the scanner refuses longer heads"
            );
            let patience = if self.buffer.is_empty() && deadline.is_none() {
                options.idle_timeout
            } else {
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + options.head_timeout);
                deadline.saturating_duration_since(Instant::now())
            };
            let late = match self.read_some(patience).await {
                Ok(0) => return Ok(None),
                Ok(_) => false,
                Err(error) if error.kind() == std::io::ErrorKind::TimedOut && !self.buffer.is_empty() => true,
                Err(_) => return Ok(None),
            };
            if late {
                let message = format!(
                    "no whole head came within {} s: send it at once",
                    options.head_timeout.as_secs()
                );
                self.send_status(&Status::other(408, message), None).await;
                return Err(Over::Linger);
            }
        }
    }

    async fn read_body(&mut self, head: &RequestHead, takes_body: bool) -> Result<Bytes, Over> {
        if head.body == BodyFraming::None {
            return Ok(Bytes::new());
        }
        // What a GET carries is thrown away, and what comes where nothing is taken: past so much it is not worth the reading.
        let is_drained = !takes_body || matches!(head.method, Method::Get | Method::Head);
        let limit = if is_drained { DRAINED_BODY_BYTES_MAX } else { BODY_BYTES_MAX };
        let mut decoder = match BodyDecoder::new(head.body, limit) {
            Ok(decoder) => decoder,
            Err(error) => {
                self.send_last(&error.status(), head).await;
                return Err(Over::Linger);
            }
        };
        if head.expect_continue && self.buffer.is_empty() && self.send(CONTINUE).await.is_err() {
            return Err(Over::Quiet);
        }
        let deadline = Instant::now() + self.local.shared.options.request_timeout;
        loop {
            match decoder.feed(&self.buffer) {
                Ok(Fed::Done { body, consumed }) => {
                    self.buffer.drain(..consumed);
                    return Ok(body);
                }
                Ok(Fed::NeedMore) => self.buffer.clear(),
                Err(error) => {
                    self.send_last(&error.status(), head).await;
                    return Err(Over::Linger);
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.read_some(left.min(STALL)).await {
                Ok(0) => return Err(Over::Quiet),
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                    let message = format!(
                        "the body is not whole after {} s, or nothing of it came for {} s: send it faster",
                        self.local.shared.options.request_timeout.as_secs(),
                        STALL.as_secs()
                    );
                    self.send_last(&Status::other(408, message), head).await;
                    return Err(Over::Linger);
                }
                Err(_) => return Err(Over::Quiet),
            }
        }
    }

    async fn read_some(&mut self, patience: Duration) -> std::io::Result<usize> {
        let Some(transport) = &mut self.transport else { return Ok(0) };
        if patience.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        let read = transport.read(&mut self.buffer, self.read_bytes, patience).await?;
        if read >= self.read_bytes {
            self.read_bytes = READ_BYTES;
        }
        Ok(read)
    }

    async fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let Some(transport) = &mut self.transport else { return Ok(()) };
        transport.write_all(bytes).await
    }

    /// Sends a part of a reply within the time that the reply has; a peer that is slower is cut off.
    async fn send_in_time(&mut self, pace: &mut ReplyDeadline, bytes: &[u8]) -> std::io::Result<()> {
        let left = pace.left(Instant::now());
        let late = async {
            sleep(left).await;
            Err(std::io::ErrorKind::TimedOut.into())
        };
        // Sent first, and mostly at once: then no timer is set.
        let sent = future::or(self.send(bytes), late).await;
        match sent {
            Ok(()) => pace.took(bytes.len()),
            // Behind a part that is cut off nothing can be said.
            Err(_) => self.transport = None,
        }
        sent
    }

    /// Answers a request that is not let in. Its body, if it has one, is not read, and who was refused another protocol may have
    /// begun to speak it: the connection ends.
    async fn turn_away(&mut self, head: &RequestHead, whole: &FullBody) -> Option<Over> {
        let close = head.body != BodyFraming::None || head.upgrade.is_some();
        match self.send_whole(head, whole, close).await {
            Ok(()) if head.keep_alive && !close => None,
            Ok(()) => Some(Over::Linger),
            Err(_) => Some(Over::Quiet),
        }
    }

    async fn send_whole(&mut self, head: &RequestHead, whole: &FullBody, last: bool) -> std::io::Result<()> {
        let mut out = Vec::with_capacity(whole.body.len().min(SEND_BYTES) + 512);
        let mut response = self.response(whole.code, whole.content_type, Framing::Length(0));
        response.retry_after_seconds = whole.retry_after_seconds;
        response.allow = whole.allow;
        response.vary = whole.vary;
        response.etag = whole.etag.as_deref();
        response.content_encoding = whole.content_encoding;
        response.caching = whole.caching;
        response.nosniff = whole.nosniff;
        response.websocket_version = whole.websocket_version;
        response.close = last;
        let body = push_response_head(&mut out, &response, Some(head), &whole.body);
        let mut parts = body.chunks(SEND_BYTES);
        out.extend_from_slice(parts.next().unwrap_or_default());
        let mut pace = ReplyDeadline::new(self.local.shared.options.request_timeout);
        self.send_in_time(&mut pace, &out).await?;
        for part in parts {
            // A long reply must not keep the shard from its watches.
            self.local.yield_now().await;
            self.send_in_time(&mut pace, part).await?;
        }
        Ok(())
    }

    async fn send_pieces(
        &mut self,
        head: &RequestHead,
        mut pieces: Box<dyn StreamingBody>,
    ) -> std::io::Result<()> {
        let mut out = Vec::with_capacity(80 << 10);
        let framing = Framing::stream_for(head);
        let mut opening = self.response(200, pieces.content_type(), framing);
        opening.close = !head.keep_alive;
        if pieces.is_gzip() {
            (opening.content_encoding, opening.vary) = (Some("gzip"), Some("Accept-Encoding"));
        }
        opening.push_to(&mut out);
        let mut pace = ReplyDeadline::new(self.local.shared.options.request_timeout);
        let mut piece = Vec::with_capacity(80 << 10);
        while pieces.next(&mut piece) {
            if framing == Framing::Chunked {
                push_chunk(&mut out, &piece);
            } else {
                out.extend_from_slice(&piece);
            }
            piece.clear();
            self.send_in_time(&mut pace, &out).await?;
            out.clear();
            // A long list must not keep the shard from its watches.
            self.local.yield_now().await;
        }
        if framing == Framing::Chunked {
            out.extend_from_slice(LAST_CHUNK);
        }
        self.send_in_time(&mut pace, &out).await
    }

    /// A stream that is one ERROR event: how a watch that cannot begin is told (recordings 06 and 07).
    async fn send_refused(&mut self, head: &RequestHead, status: &Status) -> std::io::Result<()> {
        let mut out = Vec::with_capacity(1024);
        let mut opening = self.response(200, JSON, Framing::stream_for(head));
        opening.close = !head.keep_alive;
        opening.push_to(&mut out);
        let text = status.to_json();
        CHUNKED.push_with(&mut out, |out| json::error(out, text.as_bytes()));
        out.extend_from_slice(LAST_CHUNK);
        self.send(&out).await
    }

    /// The same over a WebSocket, where nothing follows.
    async fn send_refused_websocket(
        &mut self,
        handshake: &Handshake,
        status: &Status,
    ) -> std::io::Result<()> {
        let mut out = Vec::with_capacity(1024);
        self.answered(101);
        handshake.push_to(&mut out);
        let text = status.to_json();
        websocket::MESSAGES.push_with(&mut out, |out| json::error(out, text.as_bytes()));
        websocket::push_end(&mut out);
        self.send(&out).await
    }

    async fn become_watch(&mut self, head: &RequestHead, wish: WatchRequest) -> Option<Over> {
        let watch_permit = match self.seat_for(&wish) {
            Ok(watch_permit) => watch_permit,
            Err(status) if head.keep_alive && head.upgrade.is_none() => {
                self.send_status(&status, Some(head)).await;
                return None;
            }
            Err(status) => {
                self.send_last(&status, head).await;
                return Some(Over::Linger);
            }
        };
        // First of all the second descriptor: behind the head there is no way to say that there is none left.
        let Some(Ok(socket)) = self.transport.as_ref().map(Transport::duplicate) else {
            let message = "no descriptor is left for another watch: raise nofile (ulimit -n)".to_owned();
            self.send_last(&Status::service_unavailable(message, 1), head).await;
            return Some(Over::Linger);
        };
        let keep_alive = head.keep_alive && wish.wire == Wire::Chunked;
        let mut out = Vec::with_capacity(512);
        if let Wire::WebSocket(handshake) = &wish.wire {
            self.answered(101);
            handshake.push_to(&mut out);
        } else {
            let mut opening = self.response(200, JSON, Framing::Chunked);
            opening.close = !keep_alive;
            if wish.wire == Wire::Gzip {
                opening.content_encoding = Some("gzip");
                opening.vary = Some("Accept-Encoding");
            }
            opening.push_to(&mut out);
        }
        out.extend_from_slice(wish.wire.opening());
        if self.send(&out).await.is_err() {
            return Some(Over::Quiet);
        }
        let keys = self.transport.take().and_then(Transport::into_keys);
        let leftover = std::mem::take(&mut self.buffer);
        let audit_context = self.scope.as_mut().and_then(RequestScope::become_watch);
        // From now on its shard counts it.
        self.permit = None;
        self.local.hand_over(WatchHandoff {
            socket,
            keys,
            wish,
            leftover,
            keep_alive,
            watch_permit,
            audit_context,
        });
        Some(Over::Quiet)
    }

    /// What a watch holds on to while it lives; or why there is no room for another.
    fn seat_for(&mut self, wish: &WatchRequest) -> Result<Option<Box<WatchPermit>>, Box<Status>> {
        let shared = &self.local.shared;
        if shared.handles.watchers() >= shared.watchers_max {
            let message = format!(
                "{} watches are open, as many as may be: raise max-watchers or nofile",
                shared.watchers_max
            );
            return Err(Box::new(Status::too_many_requests(message, 1)));
        }
        if let Some(status) = shared.memory.refuses_reader() {
            return Err(status);
        }
        let user = wish.user.as_ref().map(|user| user.name.as_str());
        self.permit.as_mut().map_or(Ok(None), |permit| permit.watch(user))
    }

    /// Sends an error behind which the connection ends, whatever the client asked for: the reply says so.
    async fn send_last(&mut self, status: &Status, head: &RequestHead) {
        let head = RequestHead { keep_alive: false, ..head.clone() };
        self.send_status(status, Some(&head)).await;
    }

    /// Sends an error. The reply that cannot be sent is the peer's loss.
    async fn send_status(&mut self, status: &Status, head: Option<&RequestHead>) {
        let mut out = Vec::with_capacity(512);
        let id = self.answered(status.code());
        push_status(&mut out, status, Layout::Compact, head, SystemTime::now(), id);
        let _ = self.send(&out).await;
    }

    /// The request under way is answered with this code. Its audit id.
    fn answered(&mut self, code: u16) -> Uuid {
        self.scope.as_mut().map_or_else(Uuid::new_v4, |scope| scope.answered(code))
    }

    fn response<'a>(&mut self, code: u16, content_type: &'a str, framing: Framing) -> ResponseHead<'a> {
        ResponseHead::new(code, content_type, framing, SystemTime::now(), self.answered(code))
    }
}
