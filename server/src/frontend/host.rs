//! What a request handler uses of the shard that it runs on, and what it returns.
//!
//! Owns the interface between semantics and transport: handlers do not use sockets or the runtime, and the runtime does not
//! decide what a request is answered (for its limits and the audit log it knows the verb). A handler is an async function over a
//! [`Host`]; its caller writes its [`Reply`].

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use revcast_engine::framing::{BARE, Framing};
use revcast_engine::key::Key;
use revcast_engine::revision::Revision;
use revcast_engine::{Object, Subscription};

use crate::auth::delegated::Upstream;
use crate::auth::{Authorization, Identity};
use crate::http::response::{Caching, JSON, PROTOBUF_STREAM};
use crate::http::status::Status;
use crate::http::websocket::Handshake;
use crate::source::{SourceError, Txn, TxnError};
use crate::upstream::{Question, UpstreamError, UpstreamReply};
use crate::wire::stream::{Delimiter, WireStream};
use crate::wire::{gzip, http1, websocket};

/// The source's newest revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newest {
    /// The number of the epoch it belongs to.
    pub epoch: u64,
    /// The revision.
    pub revision: Revision,
}

/// Why a write was not made, or is not known to have been made.
#[derive(Clone, Debug)]
pub enum WriteError {
    /// The store refused it; nothing changed.
    Refused(TxnError),
    /// Too many writes wait already: try again, nothing changed.
    Busy,
    /// The server is closing, or its store has failed; the outcome is unknown.
    Closed,
}

/// What a shard offers to handlers. Everything is local to one core.
#[allow(async_fn_in_trait)] // one core: futures need not be Send
pub trait Host {
    /// Waits until everything up to `revision` is visible. False when `within` passed before, or another epoch began.
    async fn wait_for(&self, revision: Revision, within: Duration) -> bool;

    /// Makes a transaction durable: the revision of all its changes. A later [`Host::newest`] returns one that includes it.
    async fn write(&self, txn: Txn) -> Result<Revision, WriteError>;

    /// The newest revision, at least that of every write acknowledged before this call.
    ///
    /// # Errors
    /// The source did not answer in time.
    async fn newest(&self, within: Duration) -> Result<Newest, SourceError>;

    /// The newest state of a key in the source itself; `None`: there is none.
    ///
    /// # Errors
    /// The source did not answer.
    async fn get(&self, key: &Key) -> Result<Option<Arc<Object>>, SourceError>;

    /// Asks the upstream, with the server's own identity.
    ///
    /// # Errors
    /// It gave no reply.
    async fn ask_upstream(&self, question: Question) -> Result<UpstreamReply, UpstreamError> {
        let _ = question;
        Err(UpstreamError::Absent)
    }

    /// Yields to the other work of the shard. A handler that visits many objects calls it every few thousand.
    async fn yield_now(&self) {}

    /// Wall time.
    fn wall(&self) -> SystemTime;

    /// 64 random bits, for names, jitter and timeouts; no secret depends on them.
    fn random(&self) -> u64;
}

/// The upstream, by way of a shard.
#[derive(Debug)]
pub struct ByHost<'a, H>(pub &'a H);

impl<H: Host> Upstream for ByHost<'_, H> {
    async fn ask(&self, question: Question) -> Result<UpstreamReply, UpstreamError> {
        self.0.ask_upstream(question).await
    }

    fn wall(&self) -> SystemTime {
        self.0.wall()
    }
}

/// A reply that is complete in memory.
#[derive(Clone, Debug)]
pub struct FullBody {
    /// The status code.
    pub code: u16,
    /// `Content-Type`.
    pub content_type: &'static str,
    /// The body.
    pub body: Bytes,
    /// Bytes after the body: the line feed after a stored object, whose bytes are shared.
    pub end: &'static [u8],
    /// `Retry-After`, in seconds.
    pub retry_after_seconds: Option<u32>,
    /// `Allow`.
    pub allow: Option<&'static str>,
    /// `Vary`.
    pub vary: Option<&'static str>,
    /// `ETag`, with its quotes.
    pub etag: Option<String>,
    /// `Content-Encoding`.
    pub content_encoding: Option<&'static str>,
    /// `Cache-Control`.
    pub caching: Caching,
    /// `Content-Security-Policy` of a page, which also gets `Referrer-Policy: no-referrer`.
    pub page_policy: Option<&'static str>,
    /// `X-Content-Type-Options: nosniff`.
    pub nosniff: bool,
    /// `Sec-WebSocket-Version`: the version that a client must send (RFC 6455, section 4.4).
    pub websocket_version: Option<&'static str>,
}

/// A reply that is produced piece by piece while it is sent: a long list.
pub trait StreamingBody {
    /// Appends the next piece (some tens of KiB) to `out`. False when there is none left and nothing was appended.
    ///
    /// A piece may be empty although more follow: a selector that skips many objects yields to other work.
    fn next(&mut self, out: &mut Vec<u8>) -> bool;

    /// `Content-Type`.
    fn content_type(&self) -> &'static str;

    /// Whether the pieces are compressed with gzip, and the reply has `Content-Encoding` and `Vary` for that.
    fn is_gzip(&self) -> bool {
        false
    }
}

/// A reply that goes on in time: a piece now, and another one after each interval.
pub trait PeriodicBody {
    /// Appends the next piece to `out`. False when the reply is over, and nothing was appended.
    fn next(&mut self, out: &mut Vec<u8>) -> bool;

    /// The time between two pieces.
    fn interval(&self) -> Duration;

    /// `Content-Type`.
    fn content_type(&self) -> &'static str;
}

/// The form of a stream, whatever version of HTTP carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wire {
    /// The body of a reply, uncompressed.
    Plain,
    /// A WebSocket, which this handshake opens.
    WebSocket(Handshake),
    /// The body of a reply: one gzip stream.
    Gzip,
}

/// The format of a stream's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFormat {
    /// A line of JSON each.
    Json,
    /// Kubernetes' protobuf.
    Protobuf,
}

impl StreamFormat {
    /// The media type of a stream over HTTP.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Protobuf => PROTOBUF_STREAM,
        }
    }
}

impl Wire {
    /// The bytes around each message.
    #[must_use]
    pub const fn framing(&self, format: StreamFormat, delimiter: Delimiter) -> &'static Framing {
        match (self, format, delimiter) {
            (Self::WebSocket(_), StreamFormat::Json, _) => &websocket::MESSAGES,
            (Self::WebSocket(_), StreamFormat::Protobuf, _) => &websocket::BINARY_MESSAGES,
            (Self::Plain, StreamFormat::Json, Delimiter::Chunks) => &http1::CHUNKED,
            (Self::Plain, StreamFormat::Protobuf, Delimiter::Chunks) => &http1::PREFIXED,
            (Self::Plain | Self::Gzip, StreamFormat::Json, _) => &BARE,
            (Self::Plain | Self::Gzip, StreamFormat::Protobuf, _) => &http1::PREFIXED_BARE,
        }
    }

    /// The bytes between the head of the reply and the first message.
    #[must_use]
    pub const fn opening(&self, delimiter: Delimiter) -> &'static [u8] {
        match (self, delimiter) {
            (Self::Plain | Self::WebSocket(_), _) => b"",
            (Self::Gzip, Delimiter::Chunks) => gzip::OPENING,
            (Self::Gzip, Delimiter::Frames) => gzip::OPENING_BARE,
        }
    }

    /// A new stream.
    #[must_use]
    pub fn wire_stream(&self, delimiter: Delimiter) -> WireStream {
        match (self, delimiter) {
            (Self::Plain, Delimiter::Chunks) => WireStream::Chunked,
            (Self::Plain, Delimiter::Frames) => WireStream::Bare,
            (Self::WebSocket(_), _) => WireStream::WebSocket(Box::default()),
            (Self::Gzip, Delimiter::Chunks) => WireStream::Gzip(Box::default()),
            (Self::Gzip, Delimiter::Frames) => WireStream::Gzip(Box::new(gzip::Stream::bare())),
        }
    }
}

/// A watch to begin.
#[derive(Clone, Debug)]
pub struct WatchRequest {
    /// What the engine is asked for. Its framing is set by what carries the watch.
    pub subscription: Subscription,
    /// The epoch that the start belongs to: in another one the watch gets 410.
    pub epoch: u64,
    /// The catalog that it was answered from.
    pub catalog: u64,
    /// The form of the stream on the wire.
    pub wire: Wire,
    /// The format of its messages.
    pub format: StreamFormat,
    /// The user, if the client is authenticated.
    pub user: Option<Arc<Identity>>,
    /// Its authorization, if that can change.
    pub authorization: Option<Box<Authorization>>,
}

/// The result of a handler.
pub enum Reply {
    /// Complete.
    FullBody(FullBody),
    /// A list in pieces: 200.
    StreamingBody(Box<dyn StreamingBody>),
    /// A stream of pieces in time: 200.
    PeriodicBody(Box<dyn PeriodicBody>),
    /// A stream of a Status in an ERROR event, and its end: 200, or 101.
    Refused(Status, Wire, StreamFormat),
    /// A watch.
    Watch(WatchRequest),
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::FullBody(whole) => whole.fmt(f),
            Self::StreamingBody(_) => f.write_str("StreamingBody"),
            Self::PeriodicBody(_) => f.write_str("PeriodicBody"),
            Self::Refused(status, wire, format) => {
                f.debug_tuple("Refused").field(status).field(wire).field(format).finish()
            }
            Self::Watch(watch_request) => watch_request.fmt(f),
        }
    }
}
