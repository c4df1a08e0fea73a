//! The wires of the simulation: what each puts around a message, and a strict reading of it.

use revcast_engine::framing::{BARE, Framing, HEAD_MAX, Head};

use super::fault::{Fault, Promise, broken};

/// Longer than any message here.
const PAYLOAD_MAX: usize = 1 << 24;

/// The wire of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// The length in hexadecimal digits, CRLF, the payload, CRLF. Messages are made in it.
    Chunked,
    /// The length in four bytes, the payload.
    Prefixed,
    /// The payload alone.
    Bare,
}

/// A message at the front of some bytes: its payload from `start` to `end`, the next one at `next`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Front {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) next: usize,
}

static CHUNKED: Framing =
    Framing { name: "chunked", head: |len, room| push_text(&format!("{len:x}\r\n"), room), tail: b"\r\n" };

static PREFIXED: Framing = Framing {
    name: "prefixed",
    head: |len, room| {
        let len = u32::try_from(len).expect("shorter than 4 GiB");
        room[HEAD_MAX - 4..].copy_from_slice(&len.to_be_bytes());
        4
    },
    tail: b"",
};

fn push_text(text: &str, room: &mut Head) -> usize {
    room[HEAD_MAX - text.len()..].copy_from_slice(text.as_bytes());
    text.len()
}

impl Wire {
    pub(crate) fn framing(self) -> &'static Framing {
        match self {
            Self::Chunked => &CHUNKED,
            Self::Prefixed => &PREFIXED,
            Self::Bare => &BARE,
        }
    }

    /// The wire of a watch in protobuf: messages are made with a length before them, and have no last byte of their own.
    pub(crate) const fn of_protobuf(self) -> Self {
        match self {
            Self::Chunked => Self::Prefixed,
            Self::Prefixed | Self::Bare => Self::Chunked,
        }
    }

    /// Bytes of a heartbeat.
    pub(crate) const fn heartbeat(self) -> usize {
        match self {
            Self::Chunked => 6,
            Self::Prefixed => 4,
            Self::Bare => 1,
        }
    }

    /// Bytes after the last message.
    pub(crate) const fn end(self) -> usize {
        match self {
            Self::Chunked => 5,
            Self::Prefixed => 4,
            Self::Bare => 0,
        }
    }

    /// The message at the front of some bytes; `None`: more are needed.
    pub(crate) fn front(self, bytes: &[u8]) -> Result<Option<Front>, Fault> {
        match self {
            Self::Chunked => chunk(bytes),
            Self::Prefixed => {
                let Some((head, _)) = bytes.split_first_chunk() else { return Ok(None) };
                let len = usize::try_from(u32::from_be_bytes(*head)).unwrap_or(usize::MAX);
                if len > PAYLOAD_MAX {
                    return broken(Promise::Stream, format!("no length: {head:?}"));
                }
                let front = Front { start: 4, end: 4 + len, next: 4 + len };
                Ok((front.next <= bytes.len()).then_some(front))
            }
            Self::Bare => {
                let end = bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
                Ok(end.map(|end| Front { start: 0, end, next: end }))
            }
        }
    }

    /// Whether some bytes end within the head before a payload.
    pub(crate) fn is_within_head(self, bytes: &[u8]) -> bool {
        match self {
            Self::Chunked => !bytes.is_empty() && !bytes.contains(&b'\n'),
            Self::Prefixed => (1..4).contains(&bytes.len()),
            Self::Bare => false,
        }
    }
}

/// RFC 9112 section 7.1, more strictly: lower case, no leading zero, no extension.
fn chunk(bytes: &[u8]) -> Result<Option<Front>, Fault> {
    let digits = bytes.iter().take_while(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')).count();
    if digits == bytes.len() && digits < 9 {
        return Ok(None);
    }
    let head = std::str::from_utf8(&bytes[..digits]).ok();
    let size = head.filter(|head| !head.starts_with('0'));
    let Some(size) = size.and_then(|head| usize::from_str_radix(head, 16).ok()) else {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(24)]);
        return broken(Promise::Stream, format!("no chunk head: {shown:?}"));
    };
    let crlf_at = |at: usize| match bytes.get(at..) {
        Some([b'\r', b'\n', ..]) => Ok(true),
        None | Some([] | [b'\r']) => Ok(false),
        Some(_) => broken(Promise::Stream, format!("no CRLF {at} bytes into a chunk of {size}")),
    };
    let start = digits + 2;
    if !crlf_at(digits)? || !crlf_at(start + size)? {
        return Ok(None);
    }
    Ok(Some(Front { start, end: start + size, next: start + size + 2 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_framed_is_read() {
        for wire in [Wire::Chunked, Wire::Prefixed, Wire::Bare] {
            let mut bytes = Vec::new();
            for payload in [&b"a\n"[..], b"one of 18 bytes..\n", b"b\n"] {
                wire.framing().push(&mut bytes, payload);
            }
            let mut at = 0;
            let mut read = Vec::new();
            while let Some(Front { start, end, next }) = wire.front(&bytes[at..]).expect("good") {
                assert_eq!(wire.front(&bytes[at..at + next - 1]).expect("good"), None, "{wire:?}");
                read.push(&bytes[at + start..at + end]);
                at += next;
            }
            assert_eq!(read, [&b"a\n"[..], b"one of 18 bytes..\n", b"b\n"]);
            assert_eq!(at, bytes.len());
        }
    }

    #[test]
    fn a_head_is_known_by_its_end() {
        let heads = |wire: Wire, bytes: &[u8]| {
            (0..=bytes.len()).filter(|len| wire.is_within_head(&bytes[..*len])).collect::<Vec<_>>()
        };
        assert_eq!(heads(Wire::Chunked, b"2\r\na\n\r\n"), [1, 2]);
        assert_eq!(heads(Wire::Prefixed, b"\0\0\0\x02a\n"), [1, 2, 3]);
        assert_eq!(heads(Wire::Bare, b"a\n"), [0_usize; 0]);
    }
}
