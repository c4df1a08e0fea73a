//! A watch as a WebSocket (RFC 6455): an event is one text message, with the line feed that ends it, as in
//! kube-apiserver (recording 16).
//!
//! Owns the frames that are sent and the answers to the client's; [`reader`] reads those. The server's frames are never
//! masked or fragmented.

pub mod reader;

use revcast_engine::framing::{Framing, HEAD_MAX, Head};

use reader::{Heard, PAYLOAD_OF_CONTROL_MAX, Reader};

/// How many pings of one read are each answered; of more only the newest is (RFC 6455, section 5.5.3).
const PONGS_AT_ONCE: usize = 8;

const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;
const CLOSE: u8 = 0x88;
const PING: u8 = 0x89;
const PONG: u8 = 0x8a;

/// Normal closure (RFC 6455, section 7.4.1).
const NORMAL: u16 = 1000;

/// A ping: it keeps an idle stream open.
pub const HEARTBEAT: &[u8] = &[PING, 0];

/// A text message around each message: the same for every client.
pub static MESSAGES: Framing =
    Framing { name: "websocket", head: |len, room| frame_head(TEXT, len, room), tail: b"" };

/// A binary message around each message in protobuf.
pub static BINARY_MESSAGES: Framing =
    Framing { name: "binary websocket", head: |len, room| frame_head(BINARY, len, room), tail: b"" };

/// The head of a frame (RFC 6455, section 5.2), at the end of the room. Returns its length.
fn frame_head(first: u8, len: usize, room: &mut Head) -> usize {
    let mut long = [0; 8];
    let (short, extended): (u8, &[u8]) = match (u8::try_from(len), u16::try_from(len)) {
        (Ok(short), _) if short < 126 => (short, &[]),
        (_, Ok(medium)) => {
            long[..2].copy_from_slice(&medium.to_be_bytes());
            (126, &long[..2])
        }
        (_, Err(_)) => {
            long = (len as u64).to_be_bytes();
            (127, &long)
        }
    };
    let at = HEAD_MAX - 2 - extended.len();
    room[at] = first;
    room[at + 1] = short;
    room[at + 2..].copy_from_slice(extended);
    HEAD_MAX - at
}

fn push_frame(out: &mut Vec<u8>, first: u8, payload: &[u8]) {
    let mut room = [0; HEAD_MAX];
    let len = frame_head(first, payload.len(), &mut room);
    out.extend_from_slice(&room[HEAD_MAX - len..]);
    out.extend_from_slice(payload);
}

/// Appends the Close of a stream that ended normally.
pub fn push_end(out: &mut Vec<u8>) {
    push_close(out, NORMAL, "");
}

fn push_close(out: &mut Vec<u8>, code: u16, why: &str) {
    let mut payload = [0; PAYLOAD_OF_CONTROL_MAX];
    let len = 2 + why.len().min(PAYLOAD_OF_CONTROL_MAX - 2);
    payload[..2].copy_from_slice(&code.to_be_bytes());
    payload[2..len].copy_from_slice(&why.as_bytes()[..len - 2]);
    push_frame(out, CLOSE, &payload[..len]);
}

/// The state of a client after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// It stays open.
    Open,
    /// It sent a Close, or broke the protocol: the answer to that is the last thing that is sent.
    Over,
}

/// The client of one WebSocket.
#[derive(Debug, Default)]
pub struct Peer {
    reader: Reader,
    /// The payload of a ping that waits until the tail is gone.
    owed: Option<Box<[u8]>>,
}

impl Peer {
    /// Reads what the client sent, and appends the answers to `out`. While it is `busy`, with pending bytes that it
    /// does not read, only the newest ping is kept, so that the answers cannot accumulate.
    pub fn read(&mut self, bytes: &[u8], busy: bool, out: &mut Vec<u8>) -> PeerState {
        let owed = &mut self.owed;
        let mut pongs = 0;
        let heard = self.reader.read(bytes, |ping| {
            if !busy && pongs < PONGS_AT_ONCE {
                pongs += 1;
                push_frame(out, PONG, ping);
            } else {
                *owed = Some(ping.into());
            }
        });
        match heard {
            Ok(Heard::All) => {
                if !busy {
                    self.settle(out);
                }
                PeerState::Open
            }
            // After a Close no pong is owed (RFC 6455, section 5.5.2).
            Ok(Heard::Close(code)) => {
                self.owed = None;
                push_close(out, code.unwrap_or(NORMAL), "");
                PeerState::Over
            }
            Err(fault) => {
                self.owed = None;
                push_close(out, fault.code, fault.why);
                PeerState::Over
            }
        }
    }

    /// Appends the pong that waited.
    pub fn settle(&mut self, tail: &mut Vec<u8>) {
        if let Some(ping) = self.owed.take() {
            push_frame(tail, PONG, &ping);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_text_message_and_the_end_a_close() {
        let mut wire = Vec::new();
        MESSAGES.push(&mut wire, b"{\"type\":\"ADDED\"}\n");
        MESSAGES.push(&mut wire, &[b'x'; 126]);
        wire.extend_from_slice(HEARTBEAT);
        push_end(&mut wire);
        let expected = [
            b"\x81\x11{\"type\":\"ADDED\"}\n",
            &b"\x81\x7e\0\x7e"[..],
            &[b'x'; 126],
            b"\x89\0",
            b"\x88\x02\x03\xe8",
        ];
        assert_eq!(wire, expected.concat());
        for (len, head) in
            [(125, &b"\x81\x7d"[..]), (65_535, b"\x81\x7e\xff\xff"), (65_536, b"\x81\x7f\0\0\0\0\0\x01\0\0")]
        {
            let mut large = Vec::new();
            MESSAGES.push(&mut large, &vec![b'x'; len]);
            assert!(large.starts_with(head) && large.len() == head.len() + len, "{len}");
        }
    }

    fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![first, 0x80 | u8::try_from(payload.len()).expect("short"), 1, 2, 3, 4];
        out.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ [1, 2, 3, 4][at % 4]));
        out
    }

    #[test]
    fn pings_are_answered_within_bounds() {
        let mut peer = Peer::default();
        let mut tail = Vec::new();
        assert_eq!(peer.read(&masked(PING, b"hi"), false, &mut tail), PeerState::Open);
        assert_eq!(tail, b"\x8a\x02hi");
        tail.clear();
        let flood: Vec<u8> = (0..1000_u16).flat_map(|i| masked(PING, &i.to_be_bytes())).collect();
        assert_eq!(peer.read(&flood, false, &mut tail), PeerState::Open);
        assert_eq!(tail.len(), (PONGS_AT_ONCE + 1) * 4);
        assert_eq!(tail[tail.len() - 2..], 999_u16.to_be_bytes(), "the newest is among them");
        // While the client does not read, nothing is appended, and the newest ping is not forgotten.
        let full = tail.len();
        for _ in 0..100 {
            assert_eq!(peer.read(&flood, true, &mut tail), PeerState::Open);
        }
        assert_eq!(tail.len(), full);
        tail.clear();
        peer.settle(&mut tail);
        assert_eq!(tail, [b"\x8a\x02", &999_u16.to_be_bytes()[..]].concat());
    }

    #[test]
    fn goodbyes_and_faults_are_answered_with_a_close() {
        let table: [(Vec<u8>, u16); 5] = [
            (masked(CLOSE, b""), 1000),
            (masked(CLOSE, &[3, 233]), 1001),
            (masked(CLOSE, b"\x0f\xa0bye"), 4000),
            (b"\x81\x02hi".to_vec(), 1002),
            (masked(TEXT, b"\xff"), 1007),
        ];
        for (bytes, code) in table {
            let mut tail = b"a frame before".to_vec();
            assert_eq!(Peer::default().read(&bytes, true, &mut tail), PeerState::Over, "{bytes:?}");
            let close = tail.strip_prefix(b"a frame before").expect("after the tail");
            assert_eq!((close[0], &close[2..4]), (CLOSE, &code.to_be_bytes()[..]), "{bytes:?}");
            assert_eq!(usize::from(close[1]), close.len() - 2);
        }
        // No pong after it, however many pings came before.
        let (mut peer, mut tail) = (Peer::default(), Vec::new());
        let many = [masked(PING, b"?").repeat(20), masked(CLOSE, b"")].concat();
        assert_eq!(peer.read(&many, false, &mut tail), PeerState::Over);
        let said = tail.len();
        peer.settle(&mut tail);
        assert_eq!(tail.len(), said);
    }
}
