//! How messages follow each other in what an outlet is offered.
//!
//! A framing is what a wire puts around each message, as far as it is equal for all watches with that wire: a head
//! before, a tail after. The engine knows none by name: a subscription names one, and the encoder names the one that
//! most watches have, so that messages are made in it.

use std::fmt;
use std::hash::{Hash, Hasher};

/// Most bytes before a payload.
pub const HEAD_MAX: usize = 18;

/// Room for the bytes before a payload; it is filled from the end.
pub type Head = [u8; HEAD_MAX];

/// What is around a payload.
#[derive(Clone, Copy)]
pub struct Framing {
    /// Identifies the framing.
    pub name: &'static str,
    /// Fills the end of the room with the head of a payload of so many bytes. Returns the length of the head.
    pub head: fn(usize, &mut Head) -> usize,
    /// The bytes after it.
    pub tail: &'static [u8],
}

/// The framings that messages are made in: of each kind of object, what most of its watches have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Framings {
    pub(crate) json: &'static Framing,
    pub(crate) protobuf: &'static Framing,
}

/// No framing: payloads one after another.
pub static BARE: Framing = Framing { name: "bare", head: |_, _| 0, tail: b"" };

impl Framing {
    /// Bytes of a payload of `payload` bytes with its framing.
    #[must_use]
    pub fn framed_len(&self, payload: usize) -> usize {
        (self.head)(payload, &mut [0; HEAD_MAX]) + payload + self.tail.len()
    }

    /// Appends a payload with its framing.
    pub fn push(&self, out: &mut Vec<u8>, payload: &[u8]) {
        let mut head = [0; HEAD_MAX];
        let len = (self.head)(payload.len(), &mut head);
        out.extend_from_slice(&head[HEAD_MAX - len..]);
        out.extend_from_slice(payload);
        out.extend_from_slice(self.tail);
    }

    /// The same with a payload that `write` appends. Returns what that returns.
    pub fn push_with<T>(&self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        // The payload's length is known only afterwards: leave room for the longest head, then close the gap.
        let start = out.len();
        out.extend_from_slice(&[0; HEAD_MAX]);
        let written = write(out);
        let mut head = [0; HEAD_MAX];
        let len = (self.head)(out.len() - start - HEAD_MAX, &mut head);
        let gap = HEAD_MAX - len;
        if gap > 0 {
            out.copy_within(start + HEAD_MAX.., start + len);
            out.truncate(out.len() - gap);
        }
        out[start..start + len].copy_from_slice(&head[gap..]);
        out.extend_from_slice(self.tail);
        written
    }
}

impl fmt::Debug for Framing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Framing {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        // In nearly all cases both are the same static.
        std::ptr::eq(self, other) || self.name == other.name
    }
}

impl Eq for Framing {}

impl Hash for Framing {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The length in decimal and a colon before, a semicolon after.
    pub(crate) static COUNTED: Framing = Framing {
        name: "counted",
        head: |len, room| {
            let text = format!("{len}:");
            room[HEAD_MAX - text.len()..].copy_from_slice(text.as_bytes());
            text.len()
        },
        tail: b";",
    };

    #[test]
    fn a_payload_is_framed_by_its_length() {
        let mut out = b"before".to_vec();
        COUNTED.push(&mut out, b"abc");
        COUNTED.push_with(&mut out, |out| out.extend_from_slice(&[b'x'; 12]));
        BARE.push_with(&mut out, |out| out.extend_from_slice(b"bare"));
        BARE.push(&mut out, b".");
        assert_eq!(String::from_utf8_lossy(&out), "before3:abc;12:xxxxxxxxxxxx;bare.");
        assert_eq!((COUNTED.framed_len(12), BARE.framed_len(12)), (16, 12));
    }
}
