//! The output of replies: complete, in pieces, or as a refused stream.

use std::time::{Instant, SystemTime};

use futures_lite::future;
use glommio::timer::sleep;
use revcast_engine::codec::protobuf;
use revcast_engine::envelope;
use uuid::Uuid;

use super::connection::{Connection, Over};
use super::reply_deadline::ReplyDeadline;
use crate::api::protobuf::of_status;
use crate::frontend::{FullBody, Host, StreamFormat, StreamingBody, Wire};
use crate::http::request::{BodyFraming, RequestHead};
use crate::http::response::{Framing, ResponseHead, push_response_head, push_status};
use crate::http::status::{Layout, Status};
use crate::http::websocket::Handshake;
use crate::wire::http1::{LAST_CHUNK, push_chunk};
use crate::wire::websocket;

/// Bytes of a body that are sent with the head; the rest is sent without a copy.
const SEND_BYTES: usize = 64 << 10;

impl Connection {
    pub(super) async fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let Some(transport) = &mut self.transport else { return Ok(()) };
        transport.write_all(bytes).await
    }

    /// Sends a part of a reply within the reply's deadline; the connection of a slower peer is closed.
    async fn send_in_time(&mut self, pace: &mut ReplyDeadline, bytes: &[u8]) -> std::io::Result<()> {
        let left = pace.left(Instant::now());
        let late = async {
            sleep(left).await;
            Err(std::io::ErrorKind::TimedOut.into())
        };
        // The send is tried first and usually completes: then no timer is set.
        let sent = future::or(self.send(bytes), late).await;
        match sent {
            Ok(()) => pace.took(bytes.len()),
            // After an incomplete part nothing else can be sent.
            Err(_) => self.transport = None,
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
        let len = whole.body.len() + whole.end.len();
        let has_body = push_response_head(&mut out, &response, Some(head), len);
        let (body, end) = if has_body { (&whole.body[..], whole.end) } else { (&[][..], &[][..]) };
        let mut parts = body.chunks(SEND_BYTES);
        out.extend_from_slice(parts.next().unwrap_or_default());
        if body.len() <= SEND_BYTES {
            out.extend_from_slice(end);
        }
        let mut pace = ReplyDeadline::new(self.local.shared.options.request_timeout);
        self.send_in_time(&mut pace, &out).await?;
        for part in parts {
            // A long reply must not keep the shard from its watches.
            self.local.yield_now().await;
            self.send_in_time(&mut pace, part).await?;
        }
        if body.len() > SEND_BYTES {
            self.send_in_time(&mut pace, end).await?;
        }
        Ok(())
    }

    pub(super) async fn send_pieces(
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

    /// A stream of one ERROR event: the answer to a watch that cannot begin (recordings 06 and 07).
    pub(super) async fn send_refused(
        &mut self,
        head: &RequestHead,
        status: &Status,
        format: StreamFormat,
    ) -> std::io::Result<()> {
        let mut out = Vec::with_capacity(1024);
        let mut opening = self.response(200, format.content_type(), Framing::stream_for(head));
        opening.close = !head.keep_alive;
        opening.push_to(&mut out);
        Wire::Chunked.framing(format).push_with(&mut out, |out| push_error(out, status, format));
        out.extend_from_slice(LAST_CHUNK);
        self.send(&out).await
    }

    /// The same over a WebSocket, which ends afterwards.
    pub(super) async fn send_refused_websocket(
        &mut self,
        handshake: &Handshake,
        status: &Status,
        format: StreamFormat,
    ) -> std::io::Result<()> {
        let mut out = Vec::with_capacity(1024);
        self.answered(101);
        handshake.push_to(&mut out);
        let framing = match format {
            StreamFormat::Json => &websocket::MESSAGES,
            StreamFormat::Protobuf => &websocket::BINARY_MESSAGES,
        };
        framing.push_with(&mut out, |out| push_error(out, status, format));
        websocket::push_end(&mut out);
        self.send(&out).await
    }

    /// Sends an error after which the connection ends, whatever the client asked for: the reply has `Connection: close`.
    pub(super) async fn send_last(&mut self, status: &Status, head: &RequestHead) {
        let head = RequestHead { keep_alive: false, ..head.clone() };
        self.send_status(status, Some(&head)).await;
    }

    /// Sends an error. Write errors are ignored.
    pub(super) async fn send_status(&mut self, status: &Status, head: Option<&RequestHead>) {
        let mut out = Vec::with_capacity(512);
        let id = self.answered(status.code());
        push_status(&mut out, status, Layout::Compact, head, SystemTime::now(), id);
        let _ = self.send(&out).await;
    }

    /// The current request is answered with this code. Returns its audit id.
    pub(super) fn answered(&mut self, code: u16) -> Uuid {
        self.scope.as_mut().map_or_else(Uuid::new_v4, |scope| scope.answered(code))
    }

    pub(super) fn response<'a>(
        &mut self,
        code: u16,
        content_type: &'a str,
        framing: Framing,
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
