//! Events that were read before. A server sends the same bytes to many watchers: an event that is equal, byte for byte, to
//! one that was read is not parsed again. A lane has one; it never takes an event for known that differs in any byte.

use crate::event::{Event, Kind};
use crate::media::Media;
use crate::stamp::STAMP_BYTES;

/// Lines kept, if they are short. Watchers that lag are at different events: then hundreds of events are in flight.
const KEPT_MAX: usize = 4096;
/// About so many bytes are kept of lines of one size: of longer ones fewer.
const KEPT_BYTES: usize = 8 * 1024 * 1024;
/// The end of an event that tells it from others: stamps mostly stand there.
const TAIL_BYTES: usize = STAMP_BYTES + 7;
/// Where revisions mostly stand: what tells events apart that have their stamps elsewhere.
const HEAD: std::ops::Range<usize> = 64..256;

#[derive(Clone, Debug)]
struct Entry {
    line: Vec<u8>,
    event: Event,
}

pub(crate) struct Known {
    entries: Vec<Entry>,
}

impl Default for Known {
    fn default() -> Self {
        let none = Event { kind: Kind::Error, revision: None, stamp: None };
        Self { entries: vec![Entry { line: Vec::new(), event: none }; KEPT_MAX] }
    }
}

impl Known {
    pub(crate) fn read(&mut self, media: &Media, line: &[u8]) -> Option<Event> {
        let entry = &mut self.entries[spot_of(line)];
        // No event is empty, so a place that was never used does not match one.
        if entry.line.as_slice() == line && !line.is_empty() {
            return Some(entry.event);
        }
        let event = media.read(line)?;
        entry.line.clear();
        entry.line.extend_from_slice(line);
        entry.event = event;
        Some(event)
    }
}

/// Where a line would be kept. Two lines at one place only displace each other.
fn spot_of(line: &[u8]) -> usize {
    let tail = &line[line.len().saturating_sub(TAIL_BYTES)..];
    let mix = |hash: u64, word: &[u8]| {
        let mut bytes = [0; 8];
        bytes[..word.len()].copy_from_slice(word);
        (hash ^ u64::from_le_bytes(bytes)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    };
    let head = line.get(HEAD).unwrap_or_default();
    let hash = head.chunks(8).chain(tail.chunks(8)).fold(line.len() as u64, mix);
    let kept = (KEPT_BYTES / line.len().max(1).next_power_of_two()).clamp(1, KEPT_MAX);
    usize::try_from(hash % kept as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::tests::line;
    use crate::stamp::Stamp;

    fn read(known: &mut Known, line: &[u8]) -> Option<Event> {
        known.read(&Media::Json, line)
    }

    fn event(seq: u32) -> Vec<u8> {
        line("MODIFIED", 100 + u64::from(seq), Stamp { run: 1, object: 2, seq, intended_ns: 9 }).into_bytes()
    }

    #[test]
    fn a_known_line_says_what_parsing_says() {
        let mut known = Known::default();
        // Twice as many as are kept, each three times: some displace others.
        for seq in (0..2 * 4096).flat_map(|seq| [seq, seq, seq / 2]) {
            let line = event(seq);
            let parsed = Event::read(&line);
            assert!(parsed.is_some_and(|event| event.stamp.is_some_and(|stamp| stamp.seq == seq)));
            assert_eq!([read(&mut known, &line), read(&mut known, &line)], [parsed; 2]);
        }
        let good = event(7);
        for spot in 0..good.len() {
            let mut other = good.clone();
            other[spot] ^= 1;
            assert_eq!(read(&mut known, &other), Event::read(&other), "byte {spot}");
            assert_eq!(read(&mut known, &good), Event::read(&good));
            assert_eq!(read(&mut known, &good[..spot]), None, "cut at {spot}");
        }
    }

    #[test]
    fn of_long_lines_fewer_are_kept() {
        let spots = |bytes: usize| {
            (1000..6000_usize).map(|seed| spot_of(seed.to_string().repeat(bytes).as_bytes())).max()
        };
        assert!(spots(100).is_some_and(|most| (3000..4096).contains(&most)));
        assert!(spots(4000).is_some_and(|most| most < 512), "of lines of 16 KiB not more than 8 MiB");
        let long = String::from_utf8_lossy(&event(3)).replace("[{", &"x".repeat(9_000_000)).into_bytes();
        let mut known = Known::default();
        assert_eq!([read(&mut known, &long), read(&mut known, &long)], [Event::read(&long); 2]);
        assert!(Event::read(&long).is_some());
    }
}
