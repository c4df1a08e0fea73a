//! The output of replies: complete, in pieces, or as a refused stream.

use std::future::poll_fn;
use std::time::{Duration, Instant, SystemTime};

use futures_lite::future;
use glommio::timer::sleep;
use revcast_engine::codec::protobuf;
use revcast_engine::envelope;
use uuid::Uuid;

use super::carrier::Carrier;
use super::reply_deadline::ReplyDeadline;
use super::{Exchange, Over};
use crate::api::protobuf::of_status;
use crate::frontend::{FullBody, Host, PeriodicBody, StreamFormat, StreamingBody, Wire};
use crate::http::request::{BodyFraming, RequestHead};
use crate::http::response::{JSON, ResponseFraming, ResponseHead};
use crate::http::status::{Layout, Status};
use crate::http::websocket::Handshake;
use crate::wire::websocket;

/// Bytes of a body that are sent with the head; the rest is sent without a copy.
const SEND_BYTES: usize = 64 << 10;
/// How soon a reply that goes on in time notices that the server closes.
const CLOSING_POLL: Duration = Duration::from_millis(100);

impl<C: Carrier> Exchange<C> {
    /// Sends what was pushed within the reply's deadline, `part` after it; the connection of a slower peer is closed.
    async fn send_in_time(&mut self, pace: &mut ReplyDeadline, part: &[u8]) -> std::io::Result<()> {
        let left = pace.left(Instant::now());
        let late = async {
            sleep(left).await;
            Err(std::io::ErrorKind::TimedOut.into())
        };
        // The send is tried first and usually completes: then no timer is set.
        let sent = future::or(self.carrier.send_part(part), late).await;
        match sent {
            Ok(()) => pace.took(part.len()),
            // After an incomplete part nothing else can be sent.
            Err(_) => self.carrier.cut(),
        }
        sent
    }

    /// Answers a request that is not admitted. The connection ends if the request has a body, which is not read, or asked for
    /// an upgrade, since the client may have begun to use the other protocol.
    pub(super) async fn turn_away(&mut self, head: &RequestHead, whole: &FullBody) -> Option<Over> {
        let close = head.body != BodyFraming::None || head.upgrade.is_some();
        match self.send_whole(head, whole, close).await {
            Ok(()) if head.keep_alive && !close => None,
            Ok(()) => Some(Over::Linger),
            Err(_) => Some(Over::Quiet),
        }
    }

    pub(super) async fn send_whole(
        &mut self,
        head: &RequestHead,
        whole: &FullBody,
        last: bool,
    ) -> std::io::Result<()> {
        let mut response = self.response(whole.code, whole.content_type, ResponseFraming::Length(0));
        response.retry_after_seconds = whole.retry_after_seconds;
        response.allow = whole.allow;
        response.vary = whole.vary;
        response.etag = whole.etag.as_deref();
        response.content_encoding = whole.content_encoding;
        response.caching = whole.caching;
        response.page_policy = whole.page_policy;
        response.nosniff = whole.nosniff;
        response.websocket_version = whole.websocket_version;
        response.close = last;
        let (response, has_body) = response.sized(Some(head), whole.body.len() + whole.end.len());
        let framing = response.framing;
        if whole.code == 401 {
            self.carrier.refuse_more();
        }
        self.carrier.push_head(&response);
        let (body, end) = if has_body { (&whole.body[..], whole.end) } else { (&[][..], &[][..]) };
        let mut parts = body.chunks(SEND_BYTES).peekable();
        self.carrier.push_piece(parts.next().unwrap_or_default(), framing);
        let mut pace = ReplyDeadline::new(self.local.shared.options.request_timeout);
        while let Some(part) = parts.next() {
            self.send_in_time(&mut pace, part).await?;
            if parts.peek().is_some() {
                // A long reply must not keep the shard from its watches.
                self.local.yield_now().await;
            }
        }
        self.carrier.push_piece(end, framing);
        self.carrier.push_end(None, framing);
        self.send_in_time(&mut pace, b"").await
    }

    pub(super) async fn send_pieces(
        &mut self,
        head: &RequestHead,
        mut pieces: Box<dyn StreamingBody>,
    ) -> std::io::Result<()> {
        let framing = ResponseFraming::stream_for(head);
        let mut opening = self.response(200, pieces.content_type(), framing);
        opening.close = !head.keep_alive;
        if pieces.is_gzip() {
            (opening.content_encoding, opening.vary) = (Some("gzip"), Some("Accept-Encoding"));
        }
        self.carrier.push_head(&opening);
        let mut pace = ReplyDeadline::new(self.local.shared.options.request_timeout);
        let mut piece = Vec::with_capacity(80 << 10);
        while pieces.next(&mut piece) {
            self.carrier.push_piece(&piece, framing);
            self.send_in_time(&mut pace, b"").await?;
            pace.took(piece.len());
            piece.clear();
            // A long list must not keep the shard from its watches.
            self.local.yield_now().await;
        }
        self.carrier.push_end(None, framing);
        self.send_in_time(&mut pace, b"").await
    }

    /// Sends a piece after each interval, until the reply is over, the client is gone or the server closes. The connection carries no
    /// other request meanwhile.
    pub(super) async fn send_periodic(
        &mut self,
        head: &RequestHead,
        mut body: Box<dyn PeriodicBody>,
    ) -> std::io::Result<()> {
        let framing = ResponseFraming::stream_for(head);
        let mut opening = self.response(200, body.content_type(), framing);
        opening.close = !head.keep_alive;
        opening.nosniff = true;
        self.carrier.push_head(&opening);
        if let Some(scope) = &mut self.scope {
            scope.streams();
        }
        let mut piece = Vec::new();
        while !self.local.closing() && body.next(&mut piece) {
            self.carrier.push_piece(&piece, framing);
            self.carrier.send().await?;
            piece.clear();
            self.pause(body.interval()).await?;
        }
        self.carrier.push_end(None, framing);
        self.carrier.send().await
    }

    /// Waits for an interval. A closing server cuts it short, and a client that is gone is an error.
    async fn pause(&mut self, interval: Duration) -> std::io::Result<()> {
        let until = Instant::now() + interval;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
            && !self.local.closing()
        {
            let gone = async {
                poll_fn(|cx| self.carrier.poll_gone(cx)).await;
                Err(std::io::Error::from(std::io::ErrorKind::ConnectionAborted))
            };
            let slept = async {
                sleep(left.min(CLOSING_POLL)).await;
                Ok(())
            };
            future::or(gone, slept).await?;
        }
        Ok(())
    }

    /// A stream of one ERROR event: the answer to a watch that cannot begin (recordings 06 and 07).
    pub(super) async fn send_refused(
        &mut self,
        head: &RequestHead,
        status: &Status,
        format: StreamFormat,
    ) -> std::io::Result<()> {
        let mut opening = self.response(200, format.content_type(), ResponseFraming::stream_for(head));
        opening.close = !head.keep_alive;
        self.carrier.push_head(&opening);
        let mut out = Vec::with_capacity(1024);
        let framing = Wire::Plain.framing(format, C::DELIMITER);
        framing.push_with(&mut out, |out| push_error(out, status, format));
        self.carrier.push_raw(&out);
        self.carrier.push_end(None, ResponseFraming::Chunked);
        self.carrier.send().await
    }

    /// The same over a WebSocket, which ends afterwards.
    pub(super) async fn send_refused_websocket(
        &mut self,
        handshake: &Handshake,
        status: &Status,
        format: StreamFormat,
    ) -> std::io::Result<()> {
        let opening = self.response(101, format.content_type(), ResponseFraming::UntilClose);
        self.carrier.push_handshake(handshake, &opening);
        let mut out = Vec::with_capacity(1024);
        let framing = match format {
            StreamFormat::Json => &websocket::MESSAGES,
            StreamFormat::Protobuf => &websocket::BINARY_MESSAGES,
        };
        framing.push_with(&mut out, |out| push_error(out, status, format));
        websocket::push_end(&mut out);
        self.carrier.push_raw(&out);
        self.carrier.push_end(None, ResponseFraming::UntilClose);
        self.carrier.send().await
    }

    /// Sends an error after which the connection ends, whatever the client asked for: the reply has `Connection: close`.
    pub(super) async fn send_last(&mut self, status: &Status, head: &RequestHead) {
        let head = RequestHead { keep_alive: false, ..head.clone() };
        self.send_status(status, Some(&head)).await;
    }

    /// Sends an error; `head` is `None` when none could be read. Write errors are ignored.
    pub(in crate::runtime) async fn send_status(&mut self, status: &Status, head: Option<&RequestHead>) {
        let id = self.answered(status.code());
        let response =
            ResponseHead::new(status.code(), JSON, ResponseFraming::Length(0), SystemTime::now(), id);
        let body = status.to_body(Layout::Compact);
        let (mut response, has_body) = response.sized(head, body.len());
        response.retry_after_seconds = status.retry_after_seconds();
        if status.code() == 401 {
            self.carrier.refuse_more();
        }
        self.carrier.push_head(&response);
        if has_body {
            self.carrier.push_piece(&body, response.framing);
        }
        self.carrier.push_end(None, response.framing);
        let _ = self.carrier.send().await;
    }

    /// The current request is answered with this code. Returns its audit id.
    pub(super) fn answered(&mut self, code: u16) -> Uuid {
        self.scope.as_mut().map_or_else(Uuid::new_v4, |scope| scope.answered(code))
    }

    pub(super) fn response<'a>(
        &mut self,
        code: u16,
        content_type: &'a str,
        framing: ResponseFraming,
    ) -> ResponseHead<'a> {
        let served_from = self.tells_who_served().then_some("cache");
        let head = ResponseHead::new(code, content_type, framing, SystemTime::now(), self.answered(code));
        ResponseHead { served_from, ..head }
    }

    /// Whether replies say which server answered them: at level debug, where there are two.
    pub(super) fn tells_who_served(&self) -> bool {
        self.local.upstream.is_some() && crate::log::is_debug()
    }
}

/// Appends the payload of the message that a watch ends with.
fn push_error(out: &mut Vec<u8>, status: &Status, format: StreamFormat) {
    let text = status.to_json();
    match format {
        StreamFormat::Json => envelope::error(out, text.as_bytes()),
        StreamFormat::Protobuf => protobuf::push_error(out, &of_status(&text)),
    }
}
