//! A watch as one gzip stream (RFC 1952) in HTTP chunks, readable event by event.
//!
//! What is offered becomes deflate blocks that refer to nothing before them and end at a byte (RFC 1951, section 3.2.4:
//! an empty stored block), so a decoder has every event whole as soon as its bytes are there, and the same blocks serve
//! every stream. A stream itself is a checksum and a length.

mod kept;

use std::fmt;

use flate2::{Compress, Compression, Crc, FlushCompress, Status};

use super::{Frame, each_frame};
use crate::http::response::{LAST_CHUNK, push_chunk, push_chunk_head};
use kept::Kept;

/// The head of the stream, as a chunk: deflate, no name, no time, fastest, any system (RFC 1952, section 2.3.1).
pub(super) const OPENING: &[u8] = b"a\r\n\x1f\x8b\x08\0\0\0\0\0\x04\xff\r\n";

/// An empty stored block. It brings the stream to the end of a byte, and Go's reader hands out what it holds only at one.
const SYNC_BLOCK: [u8; 5] = [0, 0, 0, 0xff, 0xff];

/// The final block, empty: fixed codes and the end of the block.
const FINAL_BLOCK: [u8; 2] = [3, 0];

/// Kubernetes compresses replies so too.
const LEVEL: u32 = 1;

/// Shorter payloads are stored: the compressor's start costs more than they are worth.
const STORED_BYTES_MAX: usize = 256;

/// What is at least as long may be a page that others get too.
const KEPT_BYTES_MIN: usize = 16 << 10;

/// The least room that a compressor is given to write into.
const ROOM: usize = 1 << 10;

/// One stream: what of it was sent.
#[derive(Debug, Default)]
pub(super) struct Stream {
    sum: Crc,
}

impl Stream {
    /// The wire form of what can be taken of `frames`, and how many bytes of them that is.
    pub(super) fn make<'a>(&mut self, press: &'a mut Press, frames: &[u8]) -> (usize, &'a [u8]) {
        if press.taken == 0 {
            press.make(frames);
        }
        self.sum.combine(&press.sum);
        if !press.ends {
            return (press.taken, &press.wire);
        }
        press.last.clear();
        press.last.extend_from_slice(&press.wire);
        let mut trailer = [0; 10];
        trailer[..2].copy_from_slice(&FINAL_BLOCK);
        trailer[2..6].copy_from_slice(&self.sum.sum().to_le_bytes());
        trailer[6..].copy_from_slice(&self.sum.amount().to_le_bytes());
        push_chunk(&mut press.last, &trailer);
        press.last.extend_from_slice(LAST_CHUNK);
        (press.taken, &press.last)
    }
}

/// The compressor of a shard, and the blocks that it made last.
pub(super) struct Press {
    /// Made when it is first needed: it holds some 300 KiB.
    compress: Option<Box<Compress>>,
    /// Bytes of frames that the blocks are made of; 0: none are made.
    taken: usize,
    /// Whether the last chunk was among them.
    ends: bool,
    /// The blocks, bare.
    blocks: Vec<u8>,
    /// The blocks in a chunk.
    wire: Vec<u8>,
    /// The same with the end of one stream.
    last: Vec<u8>,
    /// Of what the blocks decode to.
    sum: Crc,
    kept: Kept,
}

impl Default for Press {
    fn default() -> Self {
        Self {
            compress: None,
            taken: 0,
            ends: false,
            blocks: Vec::new(),
            wire: Vec::new(),
            last: Vec::new(),
            sum: Crc::new(),
            kept: Kept::default(),
        }
    }
}

impl Press {
    pub(super) const fn clear(&mut self) {
        self.taken = 0;
    }

    fn make(&mut self, frames: &[u8]) {
        self.blocks.clear();
        self.wire.clear();
        self.sum.reset();
        self.ends = false;
        let mut payloads = 0;
        let (sum, ends) = (&mut self.sum, &mut self.ends);
        self.taken = each_frame(frames, |frame| match frame {
            Frame::Payload(payload) => {
                sum.update(payload);
                payloads += payload.len();
            }
            Frame::End => *ends = true,
        });
        let frames = &frames[..self.taken];
        if payloads >= KEPT_BYTES_MIN
            && let Some(wire) = self.kept.find(frames, self.sum.sum())
        {
            self.wire.extend_from_slice(wire);
            return;
        }
        if payloads > STORED_BYTES_MAX {
            self.deflate(frames);
        } else if payloads > 0 {
            self.store(frames, payloads);
        }
        if payloads > 0 {
            push_chunk_head(&mut self.wire, self.blocks.len());
            self.wire.extend_from_slice(&self.blocks);
            self.wire.extend_from_slice(b"\r\n");
        }
        if payloads >= KEPT_BYTES_MIN {
            self.kept.add(frames, self.sum.sum(), &self.wire);
        }
    }

    /// A stored block (RFC 1951, section 3.2.4), and an empty one.
    fn store(&mut self, frames: &[u8], len: usize) {
        const { assert!(STORED_BYTES_MAX <= u16::MAX as usize) };
        let len = u16::try_from(len).unwrap_or(u16::MAX);
        self.blocks.push(0);
        self.blocks.extend_from_slice(&len.to_le_bytes());
        self.blocks.extend_from_slice(&(!len).to_le_bytes());
        let blocks = &mut self.blocks;
        each_frame(frames, |frame| {
            if let Frame::Payload(payload) = frame {
                blocks.extend_from_slice(payload);
            }
        });
        self.blocks.extend_from_slice(&SYNC_BLOCK);
    }

    fn deflate(&mut self, frames: &[u8]) {
        let compress =
            self.compress.get_or_insert_with(|| Box::new(Compress::new(Compression::new(LEVEL), false)));
        compress.reset();
        let blocks = &mut self.blocks;
        each_frame(frames, |frame| {
            if let Frame::Payload(payload) = frame {
                press(compress, payload, blocks, FlushCompress::None);
            }
        });
        press(compress, &[], blocks, FlushCompress::Sync);
    }
}

/// Compresses all of `input` behind what `out` holds; with a flush, to the last byte.
fn press(compress: &mut Compress, input: &[u8], out: &mut Vec<u8>, flush: FlushCompress) {
    let start = compress.total_in();
    loop {
        out.reserve(ROOM);
        let done = usize::try_from(compress.total_in() - start).unwrap_or(usize::MAX);
        // Memory is all that it needs; the stream is never finished by it.
        let status = compress.compress_vec(&input[done.min(input.len())..], out, flush);
        let read = usize::try_from(compress.total_in() - start).unwrap_or(usize::MAX);
        let has_room = out.len() < out.capacity();
        match status {
            Ok(Status::Ok) if read < input.len() || !has_room => {}
            Ok(Status::Ok | Status::BufError | Status::StreamEnd) => return,
            Err(error) => unreachable!("a compressor that was reset takes all input: {error}"),
        }
    }
}

impl fmt::Debug for Press {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Press").field("taken", &self.taken).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    fn frames(payloads: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        for payload in payloads {
            push_chunk(&mut out, payload);
        }
        out
    }

    /// What is in the chunks.
    fn dechunked(mut wire: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        while let Some((frame, len)) = super::super::first_frame(wire) {
            match frame {
                Frame::Payload(payload) => out.extend_from_slice(payload),
                Frame::End => assert_eq!(wire, LAST_CHUNK, "nothing behind the end"),
            }
            wire = &wire[len..];
        }
        assert!(wire.is_empty(), "whole chunks");
        out
    }

    /// What a whole stream in chunks says; the checksum and the length are right.
    pub(in super::super) fn unzipped(wire: &[u8]) -> Vec<u8> {
        let gzip = dechunked(wire);
        let mut out = Vec::new();
        let mut decoder = GzDecoder::new(&gzip[..]);
        decoder.read_to_end(&mut out).expect("one valid gzip stream");
        assert!(decoder.into_inner().is_empty(), "nothing behind it");
        out
    }

    #[test]
    fn every_event_can_be_read_before_the_next_is_there() {
        let events: Vec<Vec<u8>> = (0_usize..40)
            .map(|i| format!("{{\"n\":{i},\"x\":\"{}\"}}\n", "abcdefgh".repeat(i * i)).into_bytes())
            .collect();
        let (mut press, mut stream) = (Press::default(), Stream::default());
        let mut decoder = flate2::Decompress::new(false);
        let mut wire = OPENING.to_vec();
        for event in &events {
            press.clear();
            let offered = frames(&[event]);
            let (taken, made) = stream.make(&mut press, &offered);
            assert_eq!(taken, offered.len());
            wire.extend_from_slice(made);
            let mut out = Vec::with_capacity(event.len() + 1);
            decoder
                .decompress_vec(&dechunked(made), &mut out, flate2::FlushDecompress::Sync)
                .expect("deflate");
            assert!(&out == event, "the event is there whole");
        }
        press.clear();
        wire.extend_from_slice(stream.make(&mut press, LAST_CHUNK).1);
        assert!(unzipped(&wire) == events.concat());
    }

    #[test]
    fn what_is_made_once_serves_streams_that_stand_elsewhere() {
        let mut press = Press::default();
        let (mut one, mut other) = (Stream::default(), Stream::default());
        let first = frames(&[b"only one of them\n"]);
        let mut wires = [OPENING.to_vec(), OPENING.to_vec()];
        wires[0].extend_from_slice(one.make(&mut press, &first).1);
        press.clear();
        let big = "both of them ".repeat(1000);
        let mut both = frames(&[b"a\n", big.as_bytes(), b"\n"]);
        both.extend_from_slice(LAST_CHUNK);
        for (wire, stream) in wires.iter_mut().zip([&mut one, &mut other]) {
            wire.extend_from_slice(stream.make(&mut press, &both).1);
        }
        let said = format!("a\n{big}\n");
        assert_eq!(String::from_utf8_lossy(&unzipped(&wires[0])), format!("only one of them\n{said}"));
        assert_eq!(String::from_utf8_lossy(&unzipped(&wires[1])), said);
        assert!(wires[1].len() < both.len() / 4, "it is smaller: {} of {}", wires[1].len(), both.len());
    }

    #[test]
    fn a_page_is_compressed_once() {
        let mut press = Press::default();
        let page = frames(&[vec![b'x'; 40_000].as_slice(), &vec![b'y'; 40_000]]);
        let other = frames(&[vec![b'x'; 40_000].as_slice(), &vec![b'z'; 40_000]]);
        let mut wires = Vec::new();
        for offered in [&page, &other, &page] {
            press.clear();
            let mut stream = Stream::default();
            let mut wire = [OPENING, stream.make(&mut press, offered).1].concat();
            press.clear();
            wire.extend_from_slice(stream.make(&mut press, LAST_CHUNK).1);
            assert!(unzipped(&wire) == dechunked(offered));
            wires.push(wire);
        }
        assert!(wires[0] == wires[2] && wires[0] != wires[1]);
        // The compressor has seen two pages since its last start; the third came from what was kept.
        let kept = press.kept.find(&page, press_sum(&page)).map(<[u8]>::len);
        assert!(kept.is_some_and(|len| len < page.len() / 10));
    }

    fn press_sum(frames: &[u8]) -> u32 {
        let mut sum = Crc::new();
        sum.update(&dechunked(frames));
        sum.sum()
    }

    #[test]
    fn an_empty_stream_is_one() {
        let (mut press, mut stream) = (Press::default(), Stream::default());
        let wire = [OPENING, stream.make(&mut press, LAST_CHUNK).1].concat();
        assert_eq!(unzipped(&wire), b"");
    }

    /// What deflate cannot make smaller.
    pub(in super::super) fn noise(len: usize) -> Vec<u8> {
        let mut x = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x.to_le_bytes()[3]
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn a_frame_of_any_size_and_content_comes_out() {
        let noise = noise(3 << 20);
        for len in [1, 255, 256, 257, 1023, 1024, 65_535, 65_536, 65_537, 1 << 20, 3 << 20] {
            for payload in [&noise[..len], &vec![b'a'; len]] {
                let (mut press, mut stream) = (Press::default(), Stream::default());
                let mut offered = frames(&[payload]);
                if len <= 1024 {
                    offered.extend_from_slice(LAST_CHUNK);
                }
                let mut wire = [OPENING, stream.make(&mut press, &offered).1].concat();
                if len > 1024 {
                    press.clear();
                    wire.extend_from_slice(stream.make(&mut press, LAST_CHUNK).1);
                }
                assert!(wire.len() <= len + len / 7 + 256, "{len} bytes grew to {}", wire.len());
                assert!(unzipped(&wire) == payload, "{len} bytes");
            }
        }
    }
}
