//! One stream on its wire: what of its wire form is not the same for every member of its class.
//!
//! The engine makes messages in their [`Framing`](revcast_engine::framing::Framing), once a class. This is what a stream has in addition: a gzip
//! stream's checksum, a WebSocket's client. It also says how a stream is kept alive, and how it ends.

use super::websocket::{self, PeerState};
use super::{gzip, http1};

/// How a wire of HTTP shows where a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delimiter {
    /// By the last of its chunks (HTTP/1.1).
    Chunks,
    /// By a mark in its last frame (HTTP/2): a stream has no bytes for it.
    Frames,
}

/// One stream, and its position on its wire.
#[derive(Debug)]
pub enum WireStream {
    /// Messages as they are framed, in chunks.
    Chunked,
    /// Messages as they are framed, without chunks.
    Bare,
    /// Messages as they are framed; the client is read, and answered.
    WebSocket(Box<websocket::Peer>),
    /// Messages go through a compressor.
    Gzip(Box<gzip::Stream>),
}

impl WireStream {
    /// Whether the wire form of messages is what the engine made.
    #[must_use]
    pub const fn is_verbatim(&self) -> bool {
        matches!(self, Self::Chunked | Self::Bare | Self::WebSocket(_))
    }

    /// Whether a message may stay unfinished while something else waits to be sent. A WebSocket's answers go
    /// between messages, so its messages are sent whole.
    #[must_use]
    pub const fn rests_within_messages(&self) -> bool {
        matches!(self, Self::Chunked | Self::Bare)
    }

    /// The wire form of these messages, which go out next.
    pub fn encode<'a>(&mut self, compressor: &'a mut gzip::Compressor, messages: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Chunked | Self::Bare | Self::WebSocket(_) => messages,
            Self::Gzip(stream) => stream.make(compressor, messages),
        }
    }

    /// The bytes that keep the stream alive between two messages.
    #[must_use]
    pub const fn heartbeat(&self) -> &'static [u8] {
        match self {
            Self::Chunked => http1::HEARTBEAT,
            Self::WebSocket(_) => websocket::HEARTBEAT,
            // White space, as in a chunk.
            Self::Bare | Self::Gzip(_) => b" ",
        }
    }

    /// Appends what the stream ends with.
    pub fn push_end(&self, out: &mut Vec<u8>) {
        match self {
            Self::Chunked => out.extend_from_slice(http1::LAST_CHUNK),
            Self::Bare => {}
            Self::WebSocket(_) => websocket::push_end(out),
            Self::Gzip(stream) => stream.push_end(out),
        }
    }

    /// Whether what the client sends within the stream belongs to it.
    #[must_use]
    pub const fn reads(&self) -> bool {
        matches!(self, Self::WebSocket(_))
    }

    /// Takes what the client sent within the stream, and appends the answers to `out`. `busy`: bytes wait that it does not
    /// read, so it gets few answers.
    pub fn read(&mut self, bytes: &[u8], busy: bool, out: &mut Vec<u8>) -> PeerState {
        match self {
            Self::WebSocket(peer) => peer.read(bytes, busy, out),
            Self::Chunked | Self::Bare | Self::Gzip(_) => PeerState::Open,
        }
    }

    /// Appends an answer that waited until everything else was sent.
    pub fn settle(&mut self, out: &mut Vec<u8>) {
        if let Self::WebSocket(peer) = self {
            peer.settle(out);
        }
    }
}
