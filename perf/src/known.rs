//! Events that were read before. A server sends the same bytes to many watchers: a line that is equal, byte for byte, to
//! one that was scanned is not scanned again. A lane has one; it never takes a line for known that differs in any byte.

use crate::frame::{Frame, Kind};
use crate::stamp::{STAMP_BYTES, Stamp};

/// Lines kept, if they are short. Watchers that are behind differ in where they are: then hundreds of events are under way.
const KEPT_MAX: usize = 4096;
/// About so many bytes are kept of lines of one size: of longer ones fewer.
const KEPT_BYTES: usize = 8 * 1024 * 1024;
const LINE_BYTES_MAX: usize = 64 * 1024;
/// The end of a line that tells it from others: stamps mostly stand there.
const TAIL_BYTES: usize = STAMP_BYTES + 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) kind: Kind,
    pub(crate) revision: Option<u64>,
    pub(crate) stamp: Option<Stamp>,
}

impl From<Frame<'_>> for Event {
    fn from(frame: Frame<'_>) -> Self {
        Self { kind: frame.kind, revision: frame.revision, stamp: frame.stamp.and_then(Stamp::parse) }
    }
}

/// A line with what it says; empty at first.
#[derive(Debug)]
struct Entry {
    line: Vec<u8>,
    event: Event,
}

#[derive(Debug)]
pub(crate) struct Known {
    entries: Vec<Entry>,
}

impl Known {
    pub(crate) fn new() -> Self {
        let none =
            || Entry { line: Vec::new(), event: Event { kind: Kind::Error, revision: None, stamp: None } };
        Self { entries: (0..KEPT_MAX).map(|_| none()).collect() }
    }

    /// Reads a line of a watch stream. `None`: not a watch event.
    pub(crate) fn read(&mut self, line: &[u8]) -> Option<Event> {
        if line.len() > LINE_BYTES_MAX {
            return Frame::scan(line).map(Event::from);
        }
        let entry = &mut self.entries[spot_of(line)];
        // No event is empty, so a place that was never used does not match one.
        if entry.line.as_slice() == line && !line.is_empty() {
            return Some(entry.event);
        }
        let event = Event::from(Frame::scan(line)?);
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
    let hash = tail.chunks(8).fold(line.len() as u64, mix);
    let kept = (KEPT_BYTES / line.len().max(1).next_power_of_two()).clamp(1, KEPT_MAX);
    usize::try_from(hash % kept as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seq: u32) -> Vec<u8> {
        let mut place = [0; STAMP_BYTES];
        Stamp { run: 1, object: 2, seq, intended_ns: 9 }.write(&mut place);
        let stamp = String::from_utf8_lossy(&place).into_owned();
        let revision = 100 + seq;
        format!(
            r#"{{"type":"MODIFIED","object":{{"metadata":{{"resourceVersion":"{revision}"}},"data":{{"pad":"xyz","stamp":"{stamp}"}}}}}}"#
        )
        .into_bytes()
    }

    #[test]
    fn a_known_line_says_what_a_scan_says() {
        let mut known = Known::new();
        // Twice as many as are kept, each three times: some displace others.
        for seq in (0..2 * 4096).flat_map(|seq| [seq, seq, seq / 2]) {
            let line = line(seq);
            let scanned = Frame::scan(&line).map(Event::from);
            assert!(scanned.is_some_and(|event| event.stamp.is_some_and(|stamp| stamp.seq == seq)));
            assert_eq!(known.read(&line), scanned);
            assert_eq!(known.read(&line), scanned, "again");
        }
    }

    #[test]
    fn a_line_that_differs_in_one_byte_is_another() {
        let mut known = Known::new();
        let good = line(7);
        let expected = known.read(&good);
        for spot in 0..good.len() {
            let mut other = good.clone();
            other[spot] ^= 1;
            assert_eq!(known.read(&other), Frame::scan(&other).map(Event::from), "byte {spot}");
            assert_eq!(known.read(&good), expected);
            assert_eq!(known.read(&good[..spot]), None, "cut at {spot}");
        }
    }

    #[test]
    fn long_lines_are_read_too() {
        let spots = |bytes: usize| {
            (1000..6000_usize).map(|seed| spot_of(seed.to_string().repeat(bytes).as_bytes())).max()
        };
        assert!(spots(100).is_some_and(|most| (3000..4096).contains(&most)));
        assert!(spots(4000).is_some_and(|most| most < 512), "of lines of 16 KiB not more than 8 MiB");
        let long = String::from_utf8_lossy(&line(3)).replace("xyz", &"x".repeat(70_000)).into_bytes();
        let mut known = Known::new();
        assert_eq!(known.read(&long), Frame::scan(&long).map(Event::from));
        assert!(known.read(&long).is_some());
        assert!(known.entries.iter().all(|entry| entry.line.is_empty()), "but not kept");
        assert_eq!(known.read(b""), None);
    }
}
