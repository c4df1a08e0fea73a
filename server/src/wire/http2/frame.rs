//! The heads of frames (RFC 9113, section 4.1), and the frames of fixed form.

use super::ErrorCode;

/// Bytes of the head of a frame.
pub const HEAD_BYTES: usize = 9;
/// The largest payload that is read and, until a peer allows more, sent: the smallest limit that the RFC allows.
pub(super) const PAYLOAD_BYTES_MAX: u32 = 16 << 10;

/// Kinds of frames. Others are ignored.
pub(super) mod kind {
    pub(in super::super) const DATA: u8 = 0;
    pub(in super::super) const HEADERS: u8 = 1;
    pub(in super::super) const PRIORITY: u8 = 2;
    pub(in super::super) const RST_STREAM: u8 = 3;
    pub(in super::super) const SETTINGS: u8 = 4;
    pub(in super::super) const PUSH_PROMISE: u8 = 5;
    pub(in super::super) const PING: u8 = 6;
    pub(in super::super) const GOAWAY: u8 = 7;
    pub(in super::super) const WINDOW_UPDATE: u8 = 8;
    pub(in super::super) const CONTINUATION: u8 = 9;
}

/// Flags: what a bit means depends on the kind.
pub(super) mod flag {
    pub(in super::super) const END_STREAM: u8 = 1;
    pub(in super::super) const ACK: u8 = 1;
    pub(in super::super) const END_HEADERS: u8 = 4;
    pub(in super::super) const PADDED: u8 = 8;
    pub(in super::super) const PRIORITY: u8 = 32;
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHead {
    /// Bytes of the payload: 24 bits.
    pub(super) len: u32,
    pub(super) kind: u8,
    pub(super) flags: u8,
    /// Of 31 bits; the reserved bit is ignored.
    pub(super) stream: u32,
}

impl FrameHead {
    pub(super) const fn parse(bytes: [u8; HEAD_BYTES]) -> Self {
        let [a, b, c, kind, flags, w, x, y, z] = bytes;
        Self {
            len: u32::from_be_bytes([0, a, b, c]),
            kind,
            flags,
            stream: u32::from_be_bytes([w, x, y, z]) & 0x7fff_ffff,
        }
    }

    pub(super) const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let ([_, a, b, c], [w, x, y, z]) = (self.len.to_be_bytes(), self.stream.to_be_bytes());
        [a, b, c, self.kind, self.flags, w, x, y, z]
    }
}

/// Appends a frame.
pub(super) fn push(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    debug_assert!(len < 1 << 24, "the caller splits what is longer");
    out.extend_from_slice(&FrameHead { len, kind, flags, stream }.to_bytes());
    out.extend_from_slice(payload);
}

pub(super) fn push_reset(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    push(out, kind::RST_STREAM, 0, stream, &(code as u32).to_be_bytes());
}

pub(super) fn push_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    push(out, kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes());
}

pub(super) fn push_ping(out: &mut Vec<u8>, flags: u8, opaque: [u8; 8]) {
    push(out, kind::PING, flags, 0, &opaque);
}

/// `why`: for a person who reads a trace.
pub(super) fn push_go_away(out: &mut Vec<u8>, last_stream: u32, code: ErrorCode, why: &str) {
    let mut payload = Vec::with_capacity(8 + why.len());
    payload.extend_from_slice(&last_stream.to_be_bytes());
    payload.extend_from_slice(&(code as u32).to_be_bytes());
    payload.extend_from_slice(why.as_bytes());
    push(out, kind::GOAWAY, 0, 0, &payload);
}

/// Appends the head of a DATA frame of no stream yet.
pub fn push_data_head(out: &mut Vec<u8>, len: usize) {
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    out.extend_from_slice(&FrameHead { len, kind: kind::DATA, flags: 0, stream: 0 }.to_bytes());
}

/// Sets the stream of a frame.
pub fn set_stream(frame: &mut [u8], stream: u32) {
    frame[5..HEAD_BYTES].copy_from_slice(&stream.to_be_bytes());
}
