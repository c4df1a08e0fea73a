//! What a request handler asks of the shard that it runs on, and what it gives back.
//!
//! Owns the seam between meaning and transport: handlers know no socket and no runtime, the runtime knows no
//! Kubernetes. A handler is an async function over a [`Host`]; its [`Reply`] is written by whoever called it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use revcast_engine::encoding::Encoding;
use revcast_engine::framing::{BARE, Framing};
use revcast_engine::key::Key;
use revcast_engine::revision::Revision;
use revcast_engine::selector::Selector;
use revcast_engine::{Object, Scope, Start};

use crate::auth::{Authorization, Identity};
use crate::http::response::Caching;
use crate::http::status::Status;
use crate::http::websocket::Handshake;
use crate::source::{SourceError, Txn, TxnError};
use crate::wire::coding::Coding;
use crate::wire::{gzip, http1, websocket};

/// What a transaction did.
#[derive(Clone, Debug)]
pub struct Written {
    /// The revision of all its changes.
    pub revision: Revision,
    /// The new state of each operation's key, in order; `None` where it was deleted.
    pub objects: Vec<Option<Arc<Object>>>,
}

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
    /// The server is closing, or its store is gone; nothing is known.
    Closed,
}

/// What a shard offers to handlers. All of it is local to one core.
#[allow(async_fn_in_trait)] // one core: futures need not be Send
pub trait Host {
    /// Waits until everything up to `revision` is visible. False when `within` passed before, or another epoch began.
    async fn wait_for(&self, revision: Revision, within: Duration) -> bool;

    /// Makes a transaction durable. Who then asks for the newest revision gets one that it is in.
    async fn write(&self, txn: Txn) -> Result<Written, WriteError>;

    /// The newest revision of all that were acknowledged to anybody before this question.
    ///
    /// # Errors
    /// The source did not say within the time.
    async fn newest(&self, within: Duration) -> Result<Newest, SourceError>;

    /// The newest state of a key, as the source itself has it; `None`: there is none.
    ///
    /// # Errors
    /// The source did not say.
    async fn get(&self, key: &Key) -> Result<Option<Arc<Object>>, SourceError>;

    /// Lets the other work of the shard go first. A handler that looks at many objects calls it every few thousand.
    async fn yield_now(&self) {}

    /// Wall time.
    fn wall(&self) -> SystemTime;

    /// 64 random bits, for names, jitter and timeouts; no secret hangs on them.
    fn random(&self) -> u64;
}

/// An answer that is there whole.
#[derive(Clone, Debug)]
pub struct FullBody {
    /// The status code.
    pub code: u16,
    /// `Content-Type`.
    pub content_type: &'static str,
    /// The body.
    pub body: Bytes,
    /// What follows it: of a stored object, whose bytes are shared, the line feed.
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
    /// `X-Content-Type-Options: nosniff`.
    pub nosniff: bool,
    /// `Sec-WebSocket-Version`: what a client should have said (RFC 6455, section 4.4).
    pub websocket_version: Option<&'static str>,
}

/// An answer that is made piece by piece while it is sent: a long list.
pub trait StreamingBody {
    /// Appends the next piece (some tens of KiB) to `out`. False when there is none left and nothing was appended.
    ///
    /// A piece may be empty though more follow: a selector that passes over many objects gives way to other work.
    fn next(&mut self, out: &mut Vec<u8>) -> bool;

    /// `Content-Type`.
    fn content_type(&self) -> &'static str;

    /// Whether the pieces are coded with gzip: `Content-Encoding` and `Vary` say so.
    fn is_gzip(&self) -> bool {
        false
    }
}

/// The form of a stream on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wire {
    /// HTTP chunks, as they are.
    Chunked,
    /// A WebSocket, which this handshake opens.
    WebSocket(Handshake),
    /// HTTP chunks of one gzip stream.
    Gzip,
}

impl Wire {
    /// What stands around each message.
    #[must_use]
    pub fn framing(&self) -> &'static Framing {
        match self {
            Self::Chunked => &http1::CHUNKED,
            Self::WebSocket(_) => &websocket::MESSAGES,
            Self::Gzip => &BARE,
        }
    }

    /// What stands between the head of the reply and the first message.
    #[must_use]
    pub const fn opening(&self) -> &'static [u8] {
        match self {
            Self::Chunked | Self::WebSocket(_) => b"",
            Self::Gzip => gzip::OPENING,
        }
    }

    /// The coding of a stream that begins.
    #[must_use]
    pub fn coding(&self) -> Coding {
        match self {
            Self::Chunked => Coding::Chunked,
            Self::WebSocket(_) => Coding::WebSocket(Box::default()),
            Self::Gzip => Coding::Gzip(Box::default()),
        }
    }
}

/// A watch that is to begin: everything the shard needs but the clock.
#[derive(Clone, Debug)]
pub struct WatchRequest {
    /// Which objects.
    pub scope: Scope,
    /// Which of them.
    pub selector: Selector,
    /// Shown how.
    pub encoding: Encoding,
    /// From where on.
    pub start: Start,
    /// Whether bookmarks are welcome.
    pub bookmarks: bool,
    /// The epoch that `start` belongs to: in another one the watch is told 410.
    pub epoch: u64,
    /// When the stream ends by itself, from now.
    pub timeout: Duration,
    /// What the stream looks like on the wire.
    pub wire: Wire,
    /// Who asks, where that was proven.
    pub user: Option<Arc<Identity>>,
    /// By what right it is begun; `None`: by one that cannot change.
    pub pass: Option<Box<Authorization>>,
}

/// What a handler gives back.
pub enum Reply {
    /// Whole.
    FullBody(FullBody),
    /// A list in pieces: 200.
    StreamingBody(Box<dyn StreamingBody>),
    /// A stream that is a Status in an ERROR event and the end: 200, or 101.
    Refused(Status, Wire),
    /// A watch.
    Watch(WatchRequest),
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::FullBody(whole) => whole.fmt(f),
            Self::StreamingBody(_) => f.write_str("StreamingBody"),
            Self::Refused(status, wire) => f.debug_tuple("Refused").field(status).field(wire).finish(),
            Self::Watch(wish) => wish.fmt(f),
        }
    }
}
