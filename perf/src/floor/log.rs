//! The events of a floor-sender as bytes, a batch of frames at a time.

use crate::object::Recipe;
use crate::stamp::{STAMP_BYTES, Stamp};
use fastrand::Rng;
use std::io::Write;

/// Revisions begin here: all that a run can reach have ten digits.
pub(crate) const FIRST_REVISION: u64 = 1_000_000_000;
const ENVELOPE: &str = r#"{"type":"MODIFIED","object":"#;
const METADATA: &str = r#""metadata":{"#;
const STAMP: &str = r#""stamp":""#;

/// One object's event as bytes on the wire, but for the places that change with each write.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) object: u32,
    /// Chunk size, event, newline, end of the chunk.
    pub(crate) frame: String,
    pub(crate) revision_at: usize,
    pub(crate) stamp_at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Object(usize),
    Frame(usize),
}

/// Sets the recipe's padding for `size`, as near as it goes. Gives the bytes of the first object.
pub(crate) fn pad_for(recipe: &mut Recipe, size: Size) -> usize {
    recipe.pad_bytes = 0;
    let (wanted, bare) = match size {
        Size::Object(wanted) => (wanted, object_of(recipe, 0).len()),
        Size::Frame(wanted) => (wanted, prepare(recipe, 0).frame.len()),
    };
    recipe.pad_bytes = wanted.saturating_sub(bare);
    if let Size::Frame(wanted) = size {
        // A longer chunk has a longer size in front of it.
        let over = prepare(recipe, 0).frame.len().saturating_sub(wanted);
        recipe.pad_bytes = recipe.pad_bytes.saturating_sub(over);
    }
    object_of(recipe, 0).len()
}

pub(crate) fn prepare(recipe: &Recipe, object: u32) -> Prepared {
    let json = object_of(recipe, object);
    let chunk = ENVELOPE.len() + json.len() + 2;
    let frame = format!("{chunk:x}\r\n{ENVELOPE}{json}}}\n\r\n");
    let revision = format!("\"{FIRST_REVISION}\"");
    let revision_at = frame.find(&revision).unwrap_or(0) + 1;
    let stamp_at = frame.rfind(STAMP).unwrap_or(0) + STAMP.len();
    Prepared { object, frame, revision_at, stamp_at }
}

/// The object as a server keeps it: with uid, revision and time.
fn object_of(recipe: &Recipe, object: u32) -> String {
    let sent = String::from_utf8_lossy(recipe.body_of(object).bytes()).into_owned();
    let added = format!(
        r#"{METADATA}"uid":"{object:08x}-0000-4000-8000-{:012x}","resourceVersion":"{FIRST_REVISION}","creationTimestamp":"2026-01-01T00:00:00Z","#,
        recipe.run & 0xffff_ffff_ffff
    );
    sent.replacen(METADATA, &added, 1)
}

/// The digits of a revision in a prepared frame.
const REVISION_BYTES: usize = 10;

#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    /// Of each frame.
    pub(crate) ends: Vec<usize>,
}

pub(crate) struct Log {
    pub(crate) batch: Batch,
    /// Each with the number of its last event.
    frames: Vec<(Prepared, u32)>,
    run: u64,
    revision: u64,
    random: Rng,
}

impl Log {
    pub(crate) fn new(recipe: &Recipe) -> Self {
        Self {
            batch: Batch::default(),
            frames: (0..recipe.objects()).map(|object| (prepare(recipe, object), 0)).collect(),
            run: recipe.run,
            revision: FIRST_REVISION,
            random: Rng::with_seed(recipe.seed),
        }
    }

    /// Makes a batch: one event, of a random object, for each of the moments at which they were meant to be sent.
    pub(crate) fn make(&mut self, moments_ns: impl Iterator<Item = u64>) {
        let Batch { bytes, ends } = &mut self.batch;
        bytes.clear();
        ends.clear();
        for intended_ns in moments_ns {
            let spot = self.random.usize(..self.frames.len());
            let (prepared, seq) = &mut self.frames[spot];
            *seq += 1;
            self.revision += 1;
            let at = bytes.len();
            bytes.extend_from_slice(prepared.frame.as_bytes());
            let frame = &mut bytes[at..];
            let mut digits = &mut frame[prepared.revision_at..prepared.revision_at + REVISION_BYTES];
            // Ten digits last for nine thousand million events.
            let _fits = write!(digits, "{}", self.revision);
            let stamp = Stamp { run: self.run, object: prepared.object, seq: *seq, intended_ns };
            stamp.write(&mut frame[prepared.stamp_at..prepared.stamp_at + STAMP_BYTES]);
            ends.push(bytes.len());
        }
    }

    pub(crate) fn finals(&self) -> Vec<(u32, u32)> {
        self.frames.iter().map(|(prepared, seq)| (prepared.object, *seq)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunked::{ChunkDecoder, Step};
    use crate::event::{Event, Kind};

    #[test]
    fn each_event_is_one_that_watchers_accept_and_is_counted_once() {
        let mut log = Log::new(&Recipe::of_test("configmaps", 12));
        log.make([10, 20, 30].into_iter());
        let mut bytes = log.batch.bytes.clone();
        assert_eq!((log.batch.ends.len(), log.batch.ends.last()), (3, Some(&bytes.len())));
        log.make([40].into_iter());
        bytes.extend_from_slice(&log.batch.bytes);
        let (mut input, mut decoder) = (bytes.as_slice(), ChunkDecoder::new());
        for (revision, moment) in (FIRST_REVISION + 1..).zip([10, 20, 30, 40]) {
            let Ok(Step::Data(data)) = decoder.next(&mut input) else { panic!("one chunk an event") };
            let line = data.strip_suffix(b"\n").expect("a line");
            let event = Event::read(line).expect("an event");
            assert_eq!((event.kind, event.revision), (Kind::Modified, Some(revision)));
            let stamp = event.stamp.expect("a stamp");
            assert_eq!((stamp.run, stamp.intended_ns), (7, moment));
        }
        assert!(matches!(decoder.next(&mut input), Ok(Step::More)), "and no more");
        assert_eq!(log.finals().iter().map(|&(_, seq)| seq).sum::<u32>(), 4);
        assert!(log.finals().iter().map(|&(object, _)| object).eq(0..12));
    }

    #[test]
    fn frames_have_the_bytes_that_were_asked_for() {
        let mut recipe = Recipe::of_test("configmaps", 12);
        assert_eq!(pad_for(&mut recipe, Size::Object(1024)), 1024);
        for wanted in [700, 1024, 1083, 4096 + 40, 70_000] {
            pad_for(&mut recipe, Size::Frame(wanted));
            let found = prepare(&recipe, 0).frame.len();
            assert!(found.abs_diff(wanted) <= 1, "{found} for {wanted}");
        }
        pad_for(&mut recipe, Size::Frame(10));
        assert_eq!(recipe.pad_bytes, 0, "no smaller than it is without padding");
    }
}
