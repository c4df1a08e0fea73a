//! HTTP/2 of a server (RFC 9113), as a pure state machine: bytes of a peer in, events and bytes for it out; time is an argument.
//!
//! [`Connection`] owns what is common to the streams of one connection: the reading of frames and field blocks, the settings, the windows,
//! the bounds of what a peer may cost, and the answers to control frames. It knows no socket, no watch, and of a request only its fields: what belongs
//! to a stream is a value that its user gives. Request heads come out as heads of HTTP/1.1, so that one parser is strict for
//! all wires. Field blocks that are sent refer to no dynamic table, so one block serves any connection.

mod bounds;
mod connection;
mod fields;
#[cfg(test)]
mod floods;
mod frame;
pub mod hpack;
mod receive;
mod send;
mod settings;
#[cfg(test)]
mod simulation;
mod streams;
#[cfg(test)]
mod tests;

use std::fmt;

pub use connection::{Connection, Counts, Ended};
pub use fields::Request;
pub use frame::{HEAD_BYTES as FRAME_HEAD_BYTES, push_data_head, set_stream};
pub use send::Pushed;

/// The first bytes of a client.
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Why a stream or a connection ends (RFC 9113, section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ErrorCode {
    NoError = 0,
    ProtocolError = 1,
    InternalError = 2,
    FlowControlError = 3,
    SettingsTimeout = 4,
    StreamClosed = 5,
    FrameSizeError = 6,
    RefusedStream = 7,
    Cancel = 8,
    CompressionError = 9,
    EnhanceYourCalm = 11,
}

impl ErrorCode {
    /// All that are told to a peer.
    pub const ALL: [Self; 11] = [
        Self::NoError,
        Self::ProtocolError,
        Self::InternalError,
        Self::FlowControlError,
        Self::SettingsTimeout,
        Self::StreamClosed,
        Self::FrameSizeError,
        Self::RefusedStream,
        Self::Cancel,
        Self::CompressionError,
        Self::EnhanceYourCalm,
    ];

    /// As the RFC names it, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoError => "no_error",
            Self::ProtocolError => "protocol_error",
            Self::InternalError => "internal_error",
            Self::FlowControlError => "flow_control_error",
            Self::SettingsTimeout => "settings_timeout",
            Self::StreamClosed => "stream_closed",
            Self::FrameSizeError => "frame_size_error",
            Self::RefusedStream => "refused_stream",
            Self::Cancel => "cancel",
            Self::CompressionError => "compression_error",
            Self::EnhanceYourCalm => "enhance_your_calm",
        }
    }
}

/// What a peer did that ends its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub code: ErrorCode,
    pub why: &'static str,
}

impl Fault {
    const fn of(code: ErrorCode, why: &'static str) -> Self {
        Self { code, why }
    }

    const fn protocol(why: &'static str) -> Self {
        Self::of(ErrorCode::ProtocolError, why)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.code, self.why)
    }
}

/// The place of a stream in its connection: its own until it is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey(u32);

impl StreamKey {
    /// Small numbers: of released streams they are given again.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0
    }

    /// The key of this number.
    #[must_use]
    pub const fn at(index: u32) -> Self {
        Self(index)
    }

    /// The key after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// What this side allows, and announces.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Streams of a connection at once.
    pub streams: u32,
    /// Bytes of the fields of a request, each with 32 more.
    pub list_bytes: u32,
    /// Bytes of the dynamic table of the peer's field blocks.
    pub table_bytes: u32,
    /// Bytes that a stream may bring before they are read.
    pub stream_window: u32,
    /// Bytes that the streams of a connection may bring together before they are read, once the peer is trusted.
    pub connection_window: u32,
}

/// What a connection tells its user, who has a value for each stream.
pub trait Events {
    /// What the user has of a stream.
    type Stream;

    /// A request, whose body follows unless it has ended.
    fn request(&mut self, key: StreamKey, request: Request) -> Self::Stream;

    /// A part of a body. `ended`: the last. The bytes take room in the windows until they are [consumed](Connection::consume).
    fn data(&mut self, key: StreamKey, stream: &mut Self::Stream, bytes: &[u8], ended: bool);

    /// The peer takes no more of the stream, or broke its rules. It stays until it is released.
    fn reset(&mut self, key: StreamKey, stream: &mut Self::Stream);

    /// There is room for data again, after a stream lacked it.
    fn room(&mut self, key: StreamKey, stream: &mut Self::Stream);
}
