//! Frames as bytes (RFC 9113, sections 4 and 6), and the numbers in them.

/// The first bytes of a client (section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Types of frames.
pub mod kind {
    /// Section 6.1.
    pub const DATA: u8 = 0;
    /// Section 6.2.
    pub const HEADERS: u8 = 1;
    /// Section 6.3; deprecated.
    pub const PRIORITY: u8 = 2;
    /// Section 6.4.
    pub const RST_STREAM: u8 = 3;
    /// Section 6.5.
    pub const SETTINGS: u8 = 4;
    /// Section 6.6.
    pub const PUSH_PROMISE: u8 = 5;
    /// Section 6.7.
    pub const PING: u8 = 6;
    /// Section 6.8.
    pub const GOAWAY: u8 = 7;
    /// Section 6.9.
    pub const WINDOW_UPDATE: u8 = 8;
    /// Section 6.10.
    pub const CONTINUATION: u8 = 9;
    /// A type that no document defines.
    pub const UNKNOWN: u8 = 0xbb;
}

/// Flags of frames.
pub mod flag {
    /// Of SETTINGS and PING.
    pub const ACK: u8 = 1;
    /// Of DATA and HEADERS.
    pub const END_STREAM: u8 = 1;
    /// Of HEADERS and CONTINUATION.
    pub const END_HEADERS: u8 = 4;
    /// Of DATA and HEADERS.
    pub const PADDED: u8 = 8;
    /// Of HEADERS.
    pub const PRIORITY: u8 = 0x20;
    /// Of HEADERS: a request without a body in one frame.
    pub const WHOLE: u8 = END_HEADERS | END_STREAM;
}

/// Error codes (section 7).
pub mod code {
    /// Not an error.
    pub const NO_ERROR: u32 = 0;
    /// Unspecific.
    pub const PROTOCOL_ERROR: u32 = 1;
    /// The server's own fault.
    pub const INTERNAL_ERROR: u32 = 2;
    /// Section 6.9.
    pub const FLOW_CONTROL_ERROR: u32 = 3;
    /// SETTINGS were not acknowledged.
    pub const SETTINGS_TIMEOUT: u32 = 4;
    /// A frame on a stream that is half-closed or closed.
    pub const STREAM_CLOSED: u32 = 5;
    /// Section 4.2.
    pub const FRAME_SIZE_ERROR: u32 = 6;
    /// Nothing was done for the stream.
    pub const REFUSED_STREAM: u32 = 7;
    /// The stream is no longer needed.
    pub const CANCEL: u32 = 8;
    /// Section 4.3.
    pub const COMPRESSION_ERROR: u32 = 9;
    /// The peer costs too much.
    pub const ENHANCE_YOUR_CALM: u32 = 11;
}

/// Settings (section 6.5.2).
pub mod setting {
    /// Bytes of the sender's dynamic table for decoding.
    pub const HEADER_TABLE_SIZE: u16 = 1;
    /// Whether a server may push.
    pub const ENABLE_PUSH: u16 = 2;
    /// Streams that the peer may have open.
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    /// Bytes of DATA that the peer may send on a new stream.
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    /// Bytes of the largest payload that the peer may send.
    pub const MAX_FRAME_SIZE: u16 = 5;
    /// Bytes of the largest field section, uncompressed.
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
    /// Whether CONNECT may have a `:protocol` (RFC 8441).
    pub const ENABLE_CONNECT_PROTOCOL: u16 = 8;
    /// Whether priorities of RFC 7540 are ignored (RFC 9218).
    pub const NO_RFC7540_PRIORITIES: u16 = 9;
}

/// One frame. Nothing in it needs to be valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// A [`kind`], or another number.
    pub kind: u8,
    /// [`flag`]s.
    pub flags: u8,
    /// The stream, with the reserved bit as the highest; 0: the connection.
    pub stream: u32,
    /// What follows the head.
    pub payload: Vec<u8>,
}

impl Frame {
    /// Bytes of a head.
    pub const HEAD_BYTES: usize = 9;

    /// Any frame.
    #[must_use]
    pub fn new(kind: u8, flags: u8, stream: u32, payload: impl Into<Vec<u8>>) -> Self {
        Self { kind, flags, stream, payload: payload.into() }
    }

    /// DATA.
    #[must_use]
    pub fn data(stream: u32, flags: u8, payload: impl Into<Vec<u8>>) -> Self {
        Self::new(kind::DATA, flags, stream, payload)
    }

    /// DATA with padding of `padding` bytes, besides the byte that counts it.
    #[must_use]
    pub fn padded_data(stream: u32, flags: u8, payload: &[u8], padding: u8) -> Self {
        Self::data(stream, flags | flag::PADDED, padded(payload, padding))
    }

    /// HEADERS with a field block.
    #[must_use]
    pub fn headers(stream: u32, flags: u8, block: impl Into<Vec<u8>>) -> Self {
        Self::new(kind::HEADERS, flags, stream, block)
    }

    /// HEADERS with padding of `padding` bytes, besides the byte that counts it.
    #[must_use]
    pub fn padded_headers(stream: u32, flags: u8, block: &[u8], padding: u8) -> Self {
        Self::headers(stream, flags | flag::PADDED, padded(block, padding))
    }

    /// CONTINUATION with more of a field block.
    #[must_use]
    pub fn continuation(stream: u32, flags: u8, block: impl Into<Vec<u8>>) -> Self {
        Self::new(kind::CONTINUATION, flags, stream, block)
    }

    /// PRIORITY: the stream depends on another.
    #[must_use]
    pub fn priority(stream: u32, on: u32) -> Self {
        Self::new(kind::PRIORITY, 0, stream, [&on.to_be_bytes()[..], &[15]].concat())
    }

    /// RST_STREAM.
    #[must_use]
    pub fn reset(stream: u32, code: u32) -> Self {
        Self::new(kind::RST_STREAM, 0, stream, code.to_be_bytes())
    }

    /// SETTINGS.
    #[must_use]
    pub fn settings(settings: &[(u16, u32)]) -> Self {
        let bytes = settings.iter().flat_map(|(name, value)| {
            name.to_be_bytes().into_iter().chain(value.to_be_bytes()).collect::<Vec<u8>>()
        });
        Self::new(kind::SETTINGS, 0, 0, bytes.collect::<Vec<u8>>())
    }

    /// The acknowledgement of SETTINGS.
    #[must_use]
    pub fn settings_ack() -> Self {
        Self::new(kind::SETTINGS, flag::ACK, 0, [])
    }

    /// PING.
    #[must_use]
    pub fn ping(payload: [u8; 8]) -> Self {
        Self::new(kind::PING, 0, 0, payload)
    }

    /// GOAWAY.
    #[must_use]
    pub fn goaway(last: u32, code: u32) -> Self {
        Self::new(kind::GOAWAY, 0, 0, [last.to_be_bytes(), code.to_be_bytes()].concat())
    }

    /// WINDOW_UPDATE.
    #[must_use]
    pub fn window_update(stream: u32, bytes: u32) -> Self {
        Self::new(kind::WINDOW_UPDATE, 0, stream, bytes.to_be_bytes())
    }

    /// The same with more flags.
    #[must_use]
    pub fn with_flags(mut self, flags: u8) -> Self {
        self.flags |= flags;
        self
    }

    /// The same, for a payload that announces another length than it has: `count` bytes.
    #[must_use]
    pub fn bytes_announcing(&self, count: usize) -> Vec<u8> {
        let mut bytes = self.bytes();
        bytes[..3].copy_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes()[1..]);
        bytes
    }

    /// As it is on the wire.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).unwrap_or(u32::MAX).to_be_bytes();
        let head = [&length[1..], &[self.kind, self.flags], &self.stream.to_be_bytes()].concat();
        [head.as_slice(), &self.payload].concat()
    }

    /// The first one of `input`, which loses its bytes; `None` until all of it is there.
    pub fn take(input: &mut Vec<u8>) -> Option<Self> {
        let [a, b, c, kind, flags, id @ ..] = *input.first_chunk::<{ Self::HEAD_BYTES }>()?;
        let end = Self::HEAD_BYTES + u32::from_be_bytes([0, a, b, c]) as usize;
        let payload = input.get(Self::HEAD_BYTES..end)?.to_vec();
        input.drain(..end);
        Some(Self { kind, flags, stream: u32::from_be_bytes(id), payload })
    }

    /// Whether it has this flag.
    #[must_use]
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The big-endian number at this place of the payload.
    #[must_use]
    pub fn number(&self, at: usize) -> Option<u32> {
        self.payload.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
    }

    /// The settings in its payload, if that is what it is.
    #[must_use]
    pub fn listed(&self) -> Vec<(u16, u32)> {
        let (settings, _) = self.payload.as_chunks::<6>();
        let pair = |[a, b, c, d, e, f]: &[u8; 6]| {
            (u16::from_be_bytes([*a, *b]), u32::from_be_bytes([*c, *d, *e, *f]))
        };
        settings.iter().map(pair).collect()
    }

    /// The payload of DATA or HEADERS without its padding; `None` when there is more of it than payload.
    #[must_use]
    pub fn unpadded(&self) -> Option<&[u8]> {
        if !self.has(flag::PADDED) {
            return Some(&self.payload);
        }
        let (padding, rest) = self.payload.split_first()?;
        rest.get(..rest.len().checked_sub(usize::from(*padding))?)
    }
}

fn padded(payload: &[u8], padding: u8) -> Vec<u8> {
    [&[padding], payload, &vec![0; usize::from(padding)]].concat()
}
