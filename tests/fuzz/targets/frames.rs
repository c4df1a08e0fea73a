//! Frames of HTTP/2: what a connection makes of a peer's bytes does not depend on how they come, and stays within its bounds.

use std::time::Duration;

use revcast::wire::http2::{Connection, Events, Limits, PREFACE, Request, StreamKey};
use revcast_engine::tick::Tick;

const LIMITS: Limits = Limits {
    streams: 8,
    list_bytes: 4 << 10,
    table_bytes: 256,
    stream_window: 16 << 10,
    connection_window: 64 << 10,
};
/// Settings without a setting.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

#[derive(Debug, Default)]
struct Peer {
    /// What was told, of bodies only how long they are and whether they ended.
    told: Vec<(u32, String)>,
    bodies: Vec<(u32, usize, bool)>,
    fresh: Vec<StreamKey>,
}

impl Events for Peer {
    /// The place among the bodies.
    type Stream = usize;

    fn request(&mut self, key: StreamKey, request: Request) -> usize {
        let text = std::str::from_utf8(&request.head).unwrap_or_default();
        assert!(request.is_too_large || text.is_empty() || text.ends_with("\r\n\r\n"), "{text:?}");
        self.told.push((key.index(), format!("{request:?}")));
        self.bodies.push((key.index(), 0, request.has_ended));
        self.fresh.push(key);
        self.bodies.len() - 1
    }

    fn data(&mut self, _: StreamKey, stream: &mut usize, bytes: &[u8], ended: bool) {
        let (_, len, has_ended) = &mut self.bodies[*stream];
        assert!(!*has_ended, "data after the end");
        *len += bytes.len();
        *has_ended = ended;
    }

    fn reset(&mut self, key: StreamKey, _: &mut usize) {
        self.told.push((key.index(), "reset".to_owned()));
    }

    fn room(&mut self, key: StreamKey, _: &mut usize) {
        self.told.push((key.index(), "room".to_owned()));
    }
}

/// A connection that reads `bytes` in parts, and what it told and sent.
fn read(bytes: &[u8], part: usize) -> (Peer, Vec<u8>, String) {
    let now = Tick::ZERO.plus(Duration::from_secs(1));
    let mut connection = Connection::new(LIMITS, now);
    let (mut peer, mut out) = (Peer::default(), Vec::new());
    for part in bytes.chunks(part) {
        connection.receive(part, now, &mut peer);
        // Those that are over for the peer are kept until they are released, at most as many again.
        assert!(connection.open_streams() <= 16, "more streams than are kept");
        let under_way = connection.all_carried().filter(|(key, _)| !connection.is_done(*key)).count();
        assert!(under_way <= 8, "more streams than allowed");
        assert!(connection.bytes() < 256 << 10, "{} bytes", connection.bytes());
    }
    connection.take_control(&mut out);
    // Then every stream is answered.
    for key in std::mem::take(&mut peer.fresh) {
        connection.push_head(key, &[0x88], false, &mut out);
        let room = connection.room(key);
        let pushed = connection.push_data(key, &[b'x'; 70_000], true, &mut out);
        assert_eq!(pushed.bytes, room.min(70_000));
        connection.release(key);
    }
    connection.take_control(&mut out);
    assert_eq!(connection.open_streams(), 0);
    check(&out);
    let ended = connection.ended().map(|ended| ended.to_string()).unwrap_or_default();
    (peer, out, ended)
}

/// What is sent are whole frames, and field blocks are not interrupted.
fn check(mut out: &[u8]) {
    let mut block = false;
    while let Some((head, rest)) = out.split_first_chunk::<9>() {
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        assert!(len <= 64 << 10 && rest.len() >= len, "a frame is cut");
        assert_eq!(block, head[3] == 9, "a field block is interrupted, or continued without one");
        block = matches!(head[3], 1 | 9) && head[4] & 4 == 0;
        out = &rest[len..];
    }
    assert!(out.is_empty() && !block);
}

pub(crate) fn run(data: &[u8]) {
    let Some((first, frames)) = data.split_first() else { return };
    let bytes = [PREFACE, SETTINGS, frames].concat();
    // Without a preface too.
    let bytes = if *first == 0 { frames } else { &bytes };
    let (whole, sent, ended) = read(bytes, usize::MAX);
    for part in [1, 2 + usize::from(*first)] {
        let (other, other_sent, other_ended) = read(bytes, part);
        assert_eq!((&other.told, &other.bodies, &other_ended), (&whole.told, &whole.bodies, &ended));
        assert_eq!(other_sent, sent, "what is sent hangs on how the bytes came");
    }
}
