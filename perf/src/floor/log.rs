//! The events of a floor-sender as bytes: batches of frames, made once each, kept until the last socket has taken them.

use super::prepared::{FIRST_REVISION, Prepared, prepare};
use crate::object::Recipe;
use crate::stamp::{STAMP_BYTES, Stamp};
use fastrand::Rng;
use std::collections::VecDeque;
use std::io::Write;

/// Batches of more bytes than this are not kept for late sockets: the next one waits for them.
const KEPT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The digits of a revision in a prepared frame.
const REVISION_BYTES: usize = 10;

#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ends: Vec<usize>,
}

/// All batches that a socket still needs, and what the next ones are made of.
#[derive(Debug)]
pub(crate) struct Log {
    /// Each with the number of its last event.
    frames: Vec<(Prepared, u32)>,
    run: u64,
    revision: u64,
    random: Rng,
    first: u64,
    batches: VecDeque<Batch>,
    kept_bytes: usize,
    spare: Vec<Batch>,
}

impl Log {
    pub(crate) fn new(recipe: &Recipe) -> Self {
        Self {
            frames: (0..recipe.objects()).map(|object| (prepare(recipe, object), 0)).collect(),
            run: recipe.run,
            revision: FIRST_REVISION,
            random: Rng::with_seed(recipe.seed),
            first: 0,
            batches: VecDeque::new(),
            kept_bytes: 0,
            spare: Vec::new(),
        }
    }

    /// The number that the next batch will have.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.batches.len() as u64
    }

    pub(crate) fn has_room(&self) -> bool {
        self.kept_bytes < KEPT_BYTES_MAX
    }

    /// Makes a batch: one event, of a random object, for each of the moments at which they were meant to be sent.
    pub(crate) fn make(&mut self, moments_ns: impl Iterator<Item = u64>) {
        let mut batch = self.spare.pop().unwrap_or_default();
        for intended_ns in moments_ns {
            let spot = self.random.usize(..self.frames.len());
            let (prepared, seq) = &mut self.frames[spot];
            *seq += 1;
            self.revision += 1;
            let at = batch.bytes.len();
            batch.bytes.extend_from_slice(prepared.frame.as_bytes());
            let frame = &mut batch.bytes[at..];
            let mut digits = &mut frame[prepared.revision_at..prepared.revision_at + REVISION_BYTES];
            // Ten digits last for nine thousand million events.
            let _fits = write!(digits, "{}", self.revision);
            let stamp = Stamp { run: self.run, object: prepared.object, seq: *seq, intended_ns };
            stamp.write(&mut frame[prepared.stamp_at..prepared.stamp_at + STAMP_BYTES]);
            batch.ends.push(batch.bytes.len());
        }
        self.kept_bytes += batch.bytes.len();
        self.batches.push_back(batch);
    }

    pub(crate) fn batch(&self, number: u64) -> &Batch {
        let place = usize::try_from(number - self.first).unwrap_or(usize::MAX);
        &self.batches[place]
    }

    /// No socket needs batches below `number` any more.
    pub(crate) fn forget_below(&mut self, number: u64) {
        while self.first < number {
            let Some(mut batch) = self.batches.pop_front() else { return };
            self.kept_bytes -= batch.bytes.len();
            self.first += 1;
            batch.bytes.clear();
            batch.ends.clear();
            self.spare.push(batch);
        }
    }

    /// Number of the last event of each object.
    pub(crate) fn finals(&self) -> Vec<(u32, u32)> {
        self.frames.iter().map(|(prepared, seq)| (prepared.object, *seq)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunked::{ChunkDecoder, Step};
    use crate::frame::{Frame, Kind};

    #[test]
    fn each_event_is_one_that_watchers_accept_and_is_counted_once() {
        let mut log = Log::new(&Recipe::of_test("configmaps", 12));
        log.make([10, 20, 30].into_iter());
        log.make([40].into_iter());
        assert_eq!((log.batch(0).ends.len(), log.batch(1).ends.len(), log.next()), (3, 1, 2));
        let bytes = [log.batch(0).bytes.as_slice(), &log.batch(1).bytes].concat();
        let (mut input, mut decoder) = (bytes.as_slice(), ChunkDecoder::new());
        for (revision, moment) in (FIRST_REVISION + 1..).zip([10, 20, 30, 40]) {
            let Ok(Step::Data(data)) = decoder.next(&mut input) else { panic!("one chunk an event") };
            let line = data.strip_suffix(b"\n").expect("a line");
            let frame = Frame::scan(line).expect("an event");
            assert_eq!((frame.kind, frame.revision), (Kind::Modified, Some(revision)));
            assert!(frame.agrees_with_parser(line));
            let stamp = frame.stamp.and_then(Stamp::parse).expect("a stamp");
            assert_eq!((stamp.run, stamp.intended_ns), (7, moment));
        }
        assert_eq!(decoder.next(&mut input), Ok(Step::More), "and no more");
        assert_eq!(log.finals().iter().map(|&(_, seq)| seq).sum::<u32>(), 4);
        assert!(log.finals().iter().map(|&(object, _)| object).eq(0..12));
    }

    #[test]
    fn what_is_forgotten_is_used_again() {
        let mut log = Log::new(&Recipe::of_test("configmaps", 2));
        (0..5).for_each(|at| log.make([at].into_iter()));
        log.forget_below(3);
        assert_eq!((log.first, log.next(), log.spare.len()), (3, 5, 3));
        assert_eq!(log.kept_bytes, log.batch(3).bytes.len() + log.batch(4).bytes.len());
        log.make([9].into_iter());
        assert_eq!((log.spare.len(), log.batch(5).ends.len()), (2, 1));
        log.forget_below(100);
        assert_eq!((log.next(), log.kept_bytes), (6, 0));
        assert!(log.has_room());
    }
}
