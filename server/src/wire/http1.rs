//! Chunked transfer coding (RFC 9112, section 7.1): one chunk per message.

use revcast_engine::framing::{Framing, HEAD_MAX, Head};

/// The chunk that ends a body; the connection stays usable.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// A chunk of one space: it has no meaning, since white space is allowed between two JSON values (RFC 8259, section 2).
/// It keeps an idle stream open, and detects a peer that has vanished.
pub const HEARTBEAT: &[u8] = b"1\r\n \r\n";

const CRLF: &[u8] = b"\r\n";

/// A chunk around each message.
pub static CHUNKED: Framing = Framing { name: "chunked", head: chunk_head, tail: CRLF };

/// A chunk around each message and its length, which stands before it in four bytes: how Kubernetes frames protobuf in a stream
/// (`apimachinery/pkg/util/framer`).
pub static PREFIXED: Framing = Framing {
    name: "prefixed chunk",
    head: |len, room| {
        let prefixed = chunk_head(len + PREFIX, room);
        room.copy_within(PREFIX.., 0);
        room[HEAD_MAX - PREFIX..].copy_from_slice(&prefix(len));
        prefixed + PREFIX
    },
    tail: CRLF,
};

/// The same without a chunk.
pub static PREFIXED_BARE: Framing = Framing {
    name: "prefixed",
    head: |len, room| {
        room[HEAD_MAX - PREFIX..].copy_from_slice(&prefix(len));
        PREFIX
    },
    tail: b"",
};

/// Bytes of a length before a message.
const PREFIX: usize = 4;

/// The length of a message. None is longer: the codecs refuse values of 4 GiB.
fn prefix(len: usize) -> [u8; PREFIX] {
    u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes()
}

/// The size line of a chunk: lower-case hex, CRLF, at the end of the room. Returns its length.
fn chunk_head(len: usize, room: &mut Head) -> usize {
    let mut at = HEAD_MAX - CRLF.len();
    room[at..].copy_from_slice(CRLF);
    let mut left = len;
    loop {
        at -= 1;
        room[at] = b"0123456789abcdef"[left & 15];
        left >>= 4;
        if left == 0 {
            return HEAD_MAX - at;
        }
    }
}

/// Appends `data` as one chunk; nothing if it is empty, because an empty chunk ends the body.
pub fn push_chunk(out: &mut Vec<u8>, data: &[u8]) {
    if !data.is_empty() {
        CHUNKED.push(out, data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_stands_before_a_message() {
        for len in [1, 11, 12, 300, 70_000] {
            let (mut out, payload) = (Vec::new(), vec![b'x'; len]);
            PREFIXED.push(&mut out, &payload);
            let mut bare = Vec::new();
            PREFIXED_BARE.push(&mut bare, &payload);
            assert_eq!(bare, [&u32::try_from(len).expect("short").to_be_bytes()[..], &payload].concat());
            let mut chunk = Vec::new();
            push_chunk(&mut chunk, &bare);
            assert_eq!(out, chunk, "{len}");
        }
    }

    #[test]
    fn chunk_sizes_are_hex() {
        for (len, head) in [(1, "1\r\n"), (15, "f\r\n"), (16, "10\r\n"), (0x30ed8, "30ed8\r\n")] {
            let mut out = Vec::new();
            push_chunk(&mut out, &vec![b'x'; len]);
            assert!(out.starts_with(head.as_bytes()) && out.ends_with(b"x\r\n"));
            assert_eq!(out.len(), CHUNKED.framed_len(len));
        }
        let mut out = Vec::new();
        push_chunk(&mut out, b"");
        assert!(out.is_empty(), "an empty chunk would end the stream");
        let mut room = [0; HEAD_MAX];
        assert_eq!(chunk_head(usize::MAX, &mut room), HEAD_MAX, "the longest there is");
        assert_eq!(room, *b"ffffffffffffffff\r\n");
        let mut heartbeat = Vec::new();
        push_chunk(&mut heartbeat, b" ");
        assert_eq!(heartbeat, HEARTBEAT);
    }
}
