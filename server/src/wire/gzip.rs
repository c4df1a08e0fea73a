//! A watch as one gzip stream (RFC 1952), in HTTP chunks or bare, decodable event by event.
//!
//! Each offer becomes deflate blocks that refer to nothing before them and end at a byte (RFC 1951, section 3.2.4: an
//! empty stored block), so a decoder has every event complete as soon as its bytes are there, and the same blocks serve
//! every stream. A stream itself is a checksum and a length.

mod kept;

use std::fmt;

use flate2::{Compress, Compression, Crc, FlushCompress, Status};

use super::http1::{LAST_CHUNK, push_chunk};
use kept::Kept;

/// The head of the stream, as a chunk: deflate, no name, no time, fastest, any system (RFC 1952, section 2.3.1).
pub const OPENING: &[u8] = b"a\r\n\x1f\x8b\x08\0\0\0\0\0\x04\xff\r\n";

/// The same without a chunk.
pub const OPENING_BARE: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\x04\xff";

/// An empty stored block. It ends the stream at a byte boundary; Go's reader returns data only there.
const SYNC_BLOCK: [u8; 5] = [0, 0, 0, 0xff, 0xff];

/// The final block, empty: fixed codes and the end of the block.
const FINAL_BLOCK: [u8; 2] = [3, 0];

/// The level that Kubernetes uses for replies.
const LEVEL: u32 = 1;

/// Shorter payloads are stored: starting the compressor would cost more than it saves.
const STORED_BYTES_MAX: usize = 256;

/// Offers of at least this length may be pages that other watches get too.
const KEPT_BYTES_MIN: usize = 16 << 10;

/// The least room that the compressor gets for its output.
const ROOM: usize = 1 << 10;

/// One stream: checksum and length of what was sent.
#[derive(Debug, Default)]
pub struct Stream {
    sum: Crc,
    /// Without chunks: what carries it shows its end.
    is_bare: bool,
}

impl Stream {
    /// Without chunks.
    #[must_use]
    pub fn bare() -> Self {
        Self { is_bare: true, ..Self::default() }
    }

    /// The wire form of these payloads, which are sent next.
    pub fn make<'a>(&mut self, compressor: &'a mut Compressor, payloads: &[u8]) -> &'a [u8] {
        if !compressor.made {
            compressor.make(payloads);
        }
        self.sum.combine(&compressor.sum);
        if self.is_bare { &compressor.blocks } else { &compressor.wire }
    }

    /// Appends the end of the stream, and the last chunk.
    pub fn push_end(&self, out: &mut Vec<u8>) {
        let mut trailer = [0; 10];
        trailer[..2].copy_from_slice(&FINAL_BLOCK);
        trailer[2..6].copy_from_slice(&self.sum.sum().to_le_bytes());
        trailer[6..].copy_from_slice(&self.sum.amount().to_le_bytes());
        if self.is_bare {
            out.extend_from_slice(&trailer);
        } else {
            push_chunk(out, &trailer);
            out.extend_from_slice(LAST_CHUNK);
        }
    }
}

/// The compressor of a shard, and the blocks that it made last.
pub struct Compressor {
    /// Allocated when first needed: it holds some 300 KiB.
    compress: Option<Box<Compress>>,
    /// Whether the blocks are those of the current offer.
    made: bool,
    /// The blocks, without a chunk around them.
    blocks: Vec<u8>,
    /// The blocks in a chunk.
    wire: Vec<u8>,
    /// The checksum of the decoded blocks.
    sum: Crc,
    kept: Kept,
}

impl Default for Compressor {
    fn default() -> Self {
        Self {
            compress: None,
            made: false,
            blocks: Vec::new(),
            wire: Vec::new(),
            sum: Crc::new(),
            kept: Kept::default(),
        }
    }
}

impl Compressor {
    /// The next payloads are different ones.
    pub const fn begin(&mut self) {
        self.made = false;
    }

    fn make(&mut self, payloads: &[u8]) {
        self.made = true;
        self.blocks.clear();
        self.wire.clear();
        self.sum.reset();
        self.sum.update(payloads);
        if payloads.len() >= KEPT_BYTES_MIN
            && let Some(blocks) = self.kept.find(payloads, self.sum.sum())
        {
            self.blocks.extend_from_slice(blocks);
        } else if payloads.len() > STORED_BYTES_MAX {
            self.deflate(payloads);
            if payloads.len() >= KEPT_BYTES_MIN {
                self.kept.add(payloads, self.sum.sum(), &self.blocks);
            }
        } else if !payloads.is_empty() {
            self.store(payloads);
        }
        push_chunk(&mut self.wire, &self.blocks);
    }

    /// A stored block (RFC 1951, section 3.2.4), and an empty one.
    fn store(&mut self, payloads: &[u8]) {
        const { assert!(STORED_BYTES_MAX <= u16::MAX as usize) };
        let len = u16::try_from(payloads.len()).unwrap_or(u16::MAX);
        self.blocks.push(0);
        self.blocks.extend_from_slice(&len.to_le_bytes());
        self.blocks.extend_from_slice(&(!len).to_le_bytes());
        self.blocks.extend_from_slice(payloads);
        self.blocks.extend_from_slice(&SYNC_BLOCK);
    }

    fn deflate(&mut self, payloads: &[u8]) {
        let compress =
            self.compress.get_or_insert_with(|| Box::new(Compress::new(Compression::new(LEVEL), false)));
        compress.reset();
        compress_all(compress, payloads, &mut self.blocks, FlushCompress::Sync);
    }
}

/// Compresses all of `input` and appends it to `out`; with a flush, to the last byte.
fn compress_all(compress: &mut Compress, input: &[u8], out: &mut Vec<u8>, flush: FlushCompress) {
    let start = compress.total_in();
    loop {
        out.reserve(ROOM);
        let done = usize::try_from(compress.total_in() - start).unwrap_or(usize::MAX);
        // It needs memory only; it never finishes the stream.
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

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").field("made", &self.made).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    /// The content of the chunks.
    fn dechunked(mut wire: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        while !wire.is_empty() {
            let digits = wire.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            let size = std::str::from_utf8(&wire[..digits]).expect("hex");
            let size = usize::from_str_radix(size, 16).expect("a size");
            if size == 0 {
                assert_eq!(wire, LAST_CHUNK, "nothing after the end");
            }
            let (data, rest) = wire[digits + 2..].split_at(size);
            assert_eq!((&wire[digits..digits + 2], &rest[..2]), (&b"\r\n"[..], &b"\r\n"[..]), "whole chunks");
            out.extend_from_slice(data);
            wire = &rest[2..];
        }
        out
    }

    /// The content of a whole stream in chunks; checks the checksum and the length.
    pub(crate) fn unzipped(wire: &[u8]) -> Vec<u8> {
        inflated(&dechunked(wire))
    }

    /// What a complete stream without chunks decompresses to.
    pub(crate) fn inflated(gzip: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut decoder = GzDecoder::new(gzip);
        decoder.read_to_end(&mut out).expect("one valid gzip stream");
        assert!(decoder.into_inner().is_empty(), "nothing after it");
        out
    }

    /// The stream of these offers, one after another.
    fn stream(compressor: &mut Compressor, offers: &[&[u8]]) -> Vec<u8> {
        let (mut wire, mut stream) = (OPENING.to_vec(), Stream::default());
        for offer in offers {
            compressor.begin();
            wire.extend_from_slice(stream.make(compressor, offer));
        }
        stream.push_end(&mut wire);
        wire
    }

    #[test]
    fn every_event_can_be_read_before_the_next_is_there() {
        let events: Vec<Vec<u8>> = (0_usize..40)
            .map(|i| format!("{{\"n\":{i},\"x\":\"{}\"}}\n", "abcdefgh".repeat(i * i)).into_bytes())
            .collect();
        let (mut compressor, mut stream) = (Compressor::default(), Stream::default());
        let mut decoder = flate2::Decompress::new(false);
        let mut wire = OPENING.to_vec();
        for event in &events {
            compressor.begin();
            let made = stream.make(&mut compressor, event);
            wire.extend_from_slice(made);
            let mut out = Vec::with_capacity(event.len() + 1);
            decoder
                .decompress_vec(&dechunked(made), &mut out, flate2::FlushDecompress::Sync)
                .expect("deflate");
            assert!(&out == event, "the event is there whole");
        }
        stream.push_end(&mut wire);
        assert!(unzipped(&wire) == events.concat());
    }

    #[test]
    fn what_is_made_once_serves_streams_that_stand_elsewhere() {
        let mut compressor = Compressor::default();
        let (mut one, mut other) = (Stream::default(), Stream::default());
        let mut wires = [OPENING.to_vec(), OPENING.to_vec()];
        wires[0].extend_from_slice(one.make(&mut compressor, b"only one of them\n"));
        compressor.begin();
        let both = format!("a\n{}\n", "both of them ".repeat(1000));
        for (wire, stream) in wires.iter_mut().zip([&mut one, &mut other]) {
            wire.extend_from_slice(stream.make(&mut compressor, both.as_bytes()));
            stream.push_end(wire);
        }
        assert_eq!(String::from_utf8_lossy(&unzipped(&wires[0])), format!("only one of them\n{both}"));
        assert_eq!(String::from_utf8_lossy(&unzipped(&wires[1])), both);
        assert!(wires[1].len() < both.len() / 4, "it is smaller: {} of {}", wires[1].len(), both.len());
    }

    #[test]
    fn a_page_is_compressed_once() {
        let mut compressor = Compressor::default();
        let page = [vec![b'x'; 40_000], vec![b'y'; 40_000]].concat();
        let other = [vec![b'x'; 40_000], vec![b'z'; 40_000]].concat();
        let mut wires = Vec::new();
        for offered in [&page, &other, &page] {
            let wire = stream(&mut compressor, &[offered]);
            assert!(unzipped(&wire) == *offered);
            wires.push(wire);
        }
        assert!(wires[0] == wires[2] && wires[0] != wires[1]);
        // The compressor has seen two pages since its last start; the third came from the kept pages.
        let mut sum = Crc::new();
        sum.update(&page);
        let kept = compressor.kept.find(&page, sum.sum()).map(<[u8]>::len);
        assert!(kept.is_some_and(|len| len < page.len() / 10));
    }

    #[test]
    fn an_empty_stream_is_one() {
        assert_eq!(unzipped(&stream(&mut Compressor::default(), &[])), b"");
    }

    /// Data that deflate cannot compress.
    pub(crate) fn noise(len: usize) -> Vec<u8> {
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
    fn a_message_of_any_size_and_content_comes_out() {
        let noise = noise(3 << 20);
        for len in [1, 255, 256, 257, 1023, 1024, 65_535, 65_536, 65_537, 1 << 20, 3 << 20] {
            for payload in [&noise[..len], &vec![b'a'; len]] {
                let wire = stream(&mut Compressor::default(), &[payload]);
                assert!(wire.len() <= len + len / 7 + 256, "{len} bytes grew to {}", wire.len());
                assert!(unzipped(&wire) == payload, "{len} bytes");
            }
        }
    }
}
