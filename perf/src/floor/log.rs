//! The events of a floor-sender as bytes: batches of frames, made once each, kept until the last socket has taken them.

use super::message::{Prepare, Prepared};
use crate::stamp::{STAMP_BYTES, Stamp};
use fastrand::Rng;
use std::collections::VecDeque;
use std::io::Write;

/// Batches of more bytes than this are not kept for those that are late: who makes the next one waits for them.
const KEPT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The digits of a revision in a prepared frame.
const REVISION_BYTES: usize = 10;

#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ends: Vec<usize>,
}

/// All batches that somebody still needs, and what the next ones are made of.
#[derive(Debug)]
pub(crate) struct Log {
    frames: Vec<Prepared>,
    /// Number of the last event of each of `frames`.
    seqs: Vec<u32>,
    run: u64,
    revision: u64,
    random: Rng,
    first: u64,
    batches: VecDeque<Batch>,
    kept_bytes: usize,
    spare: Vec<Batch>,
}

impl Log {
    pub(crate) fn new(prepare: Prepare) -> Self {
        Self {
            seqs: vec![0; prepare.frames.len()],
            frames: prepare.frames,
            run: prepare.run,
            revision: prepare.revision,
            random: Rng::with_seed(prepare.seed),
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
            let prepared = &self.frames[spot];
            self.seqs[spot] += 1;
            self.revision += 1;
            let at = batch.bytes.len();
            batch.bytes.extend_from_slice(prepared.frame.as_bytes());
            let frame = &mut batch.bytes[at..];
            let mut digits = &mut frame[prepared.revision_at..prepared.revision_at + REVISION_BYTES];
            // Ten digits last for nine thousand million events.
            let _fits = write!(digits, "{}", self.revision);
            let stamp = Stamp { run: self.run, object: prepared.object, seq: self.seqs[spot], intended_ns };
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

    /// Nobody needs batches below `number` any more.
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
        self.frames.iter().zip(&self.seqs).map(|(prepared, &seq)| (prepared.object, seq)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Mode;

    fn log() -> Log {
        let frame = |object: u32| {
            let stamp = "0".repeat(STAMP_BYTES);
            Prepared { object, frame: format!("[0000000000|{stamp}]"), revision_at: 1, stamp_at: 12 }
        };
        Log::new(Prepare {
            mode: Mode::Send,
            cpus: Vec::new(),
            run: 3,
            seed: 1,
            revision: 1_000_000_000,
            frames: vec![frame(0), frame(7)],
        })
    }

    #[test]
    fn each_event_is_stamped_and_counted_once() {
        let mut log = log();
        log.make([10, 20, 30].into_iter());
        log.make([40].into_iter());
        let (first, second) = (log.batch(0), log.batch(1));
        assert_eq!((first.ends.len(), second.ends.len(), log.next()), (3, 1, 2));
        let each = first.bytes.len() / 3;
        let frames: Vec<&[u8]> = first.bytes.chunks(each).chain([second.bytes.as_slice()]).collect();
        for (number, (frame, moment)) in frames.iter().zip([10, 20, 30, 40]).enumerate() {
            assert_eq!(frame[1..11], *(1_000_000_001 + number as u64).to_string().as_bytes());
            let stamp = Stamp::parse(&frame[12..12 + STAMP_BYTES]).expect("a stamp");
            assert_eq!((stamp.run, stamp.intended_ns), (3, moment));
        }
        assert_eq!(log.finals().iter().map(|&(_, seq)| seq).sum::<u32>(), 4);
        assert_eq!(log.finals().iter().map(|&(object, _)| object).collect::<Vec<_>>(), [0, 7]);
    }

    #[test]
    fn what_is_forgotten_is_used_again() {
        let mut log = log();
        (0..5).for_each(|at| log.make([at].into_iter()));
        log.forget_below(3);
        assert_eq!((log.first, log.next(), log.spare.len()), (3, 5, 3));
        let kept = log.kept_bytes;
        assert_eq!(kept, log.batch(3).bytes.len() + log.batch(4).bytes.len());
        log.make([9].into_iter());
        assert_eq!((log.spare.len(), log.batch(5).ends.len()), (2, 1));
        log.forget_below(100);
        assert_eq!((log.next(), log.kept_bytes), (6, 0));
        assert!(log.has_room());
    }
}
