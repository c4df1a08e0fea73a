//! Every interleaving of the ring's one writer with its readers, on rings of two slots.
//!
//! ```text
//! RUSTFLAGS="--cfg revcast_loom" cargo test -p revcast-engine --release --test ring_loom --target-dir target/loom
//! ```
//!
//! Loom runs each model once for every order of its steps (of those with at most [`PREEMPTIONS_MAX`] forced
//! switches) and for every value that an atomic load may return under the C11 memory model.
//!
//! What is modelled is the ring's own protocol: the order of `head`, `oldest`, `forgotten`, `progress` and the slots. A
//! slot itself is a lock under loom; otherwise it is an `arc-swap` pointer, which loom cannot observe. The models
//! assume that a load of arc-swap returns one whole stored pointer, and that a load which sees a store also sees what
//! came before that store. A lock orders more than that, so orderings that only the slots need are not proven here.
//!
//! A model that cannot fail proves nothing: each is also run with a copy of the ring with a flaw, which must fail, and
//! the copy without a flaw passes them all.
#![cfg(revcast_loom)]

#[path = "ring_loom/flawed.rs"]
mod flawed;

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use revcast_engine::revision::{Position, Revision};
use revcast_engine::ring::{self, Entry, Missing};

use flawed::Flaw;

/// The smallest ring there is.
const SLOTS: usize = 2;

/// How often one thread may be interrupted within one run. The flaws are found with two; `LOOM_MAX_PREEMPTIONS=20` in
/// the environment explores all orders, in a minute or two.
const PREEMPTIONS_MAX: usize = 3;

#[derive(Debug)]
struct Item {
    position: u64,
    revision: u64,
}

impl Entry for Item {
    fn position(&self) -> Position {
        Position::new(self.position)
    }
    fn revision(&self) -> Revision {
        Revision::new(self.revision)
    }
}

/// The writing end of a model: the ring's, or a flawed one.
trait Write: Send + 'static {
    fn stage(&mut self, entry: Item, keep: u64);
    fn publish(&mut self, revision: u64);
    fn forget_through(&mut self, revision: u64);
    fn prepend(&mut self, entry: Item, forgotten: u64);

    /// One revision with one entry, at the position that the models assume: revision r is at r - 1.
    fn put(&mut self, revision: u64) {
        self.put_keeping(revision, u64::MAX);
    }

    /// The same, but entries at or after `keep` stay.
    fn put_keeping(&mut self, revision: u64, keep: u64) {
        self.stage(Item { position: revision - 1, revision }, keep);
        self.publish(revision);
    }
}

/// The reading end.
trait Read: Clone + Send + 'static {
    fn head(&self) -> u64;
    fn oldest(&self) -> u64;
    fn forgotten(&self) -> u64;
    fn progress(&self) -> u64;
    fn is_torn(&self, revision: u64) -> bool;
    fn get(&self, position: u64) -> Result<Arc<Item>, Missing>;
    fn position_after(&self, revision: u64) -> Result<u64, Missing>;
}

impl Write for ring::Writer<Item> {
    fn stage(&mut self, entry: Item, keep: u64) {
        self.stage(Arc::new(entry), Position::new(keep));
    }
    fn publish(&mut self, revision: u64) {
        self.publish(Revision::new(revision));
    }
    fn forget_through(&mut self, revision: u64) {
        self.forget_through(Revision::new(revision), Position::new(u64::MAX));
    }
    fn prepend(&mut self, entry: Item, forgotten: u64) {
        self.prepend([Arc::new(entry)], Revision::new(forgotten), false);
    }
}

impl Read for ring::Reader<Item> {
    fn head(&self) -> u64 {
        self.head().get()
    }
    fn oldest(&self) -> u64 {
        self.oldest().get()
    }
    fn forgotten(&self) -> u64 {
        self.forgotten().get()
    }
    fn progress(&self) -> u64 {
        self.progress().get()
    }
    fn is_torn(&self, revision: u64) -> bool {
        self.is_torn(Revision::new(revision))
    }
    fn get(&self, position: u64) -> Result<Arc<Item>, Missing> {
        self.get(Position::new(position))
    }
    fn position_after(&self, revision: u64) -> Result<u64, Missing> {
        self.position_after(Revision::new(revision)).map(Position::get)
    }
}

fn real() -> (ring::Writer<Item>, ring::Reader<Item>) {
    begun_late(0)
}

/// A ring that begins after this revision.
fn begun_late(start: u64) -> (ring::Writer<Item>, ring::Reader<Item>) {
    ring::ring(SLOTS, Position::new(start), Revision::new(start))
}

fn explore<W: Write, R: Read>(
    make: impl Fn() -> (W, R) + Send + Sync + 'static,
    model: impl Fn(W, R) + Send + Sync + 'static,
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(PREEMPTIONS_MAX));
    builder.check(move || {
        let (writer, reader) = make();
        model(writer, reader);
    });
}

fn with(flaw: Flaw) -> impl Fn() -> (flawed::Writer, flawed::Reader) + Send + Sync + 'static {
    move || flawed::ring(flaw, 0)
}

/// A reader gets the entry of the position that it asked for, or none.
fn own_entry(mut writer: impl Write, reader: impl Read) {
    let second = reader.clone();
    let writing = thread::spawn(move || (1..=3).for_each(|revision| writer.put(revision)));
    let reading = thread::spawn(move || {
        if let Ok(entry) = second.get(0) {
            assert_eq!((entry.position, entry.revision), (0, 1), "another entry than the one asked for");
        }
    });
    for position in [0, 2] {
        if let Ok(entry) = reader.get(position) {
            let got = (entry.position, entry.revision);
            assert_eq!(got, (position, position + 1), "another entry than the one asked for");
        }
    }
    writing.join().expect("the writer ends");
    reading.join().expect("the second reader ends");
}

/// Two entries of one revision become visible together, and not before they are published.
fn whole_batches(mut writer: impl Write, reader: impl Read) {
    let allowed = Arc::new(AtomicBool::new(false));
    let publishing = Arc::clone(&allowed);
    let writing = thread::spawn(move || {
        writer.stage(Item { position: 0, revision: 1 }, u64::MAX);
        writer.stage(Item { position: 1, revision: 1 }, u64::MAX);
        publishing.store(true, Ordering::Release);
        writer.publish(1);
    });
    let first = reader.get(0);
    let allowed = allowed.load(Ordering::Acquire);
    assert!(allowed || matches!(first, Err(Missing::NotYet)), "visible while it was only staged");
    let head = reader.head();
    assert!(head == 0 || head == 2, "half a batch is visible");
    if first.is_ok() {
        assert!(reader.get(1).is_ok(), "half a batch is visible");
    }
    if head == 2 {
        assert!(reader.get(0).is_ok() && reader.get(1).is_ok(), "the head is before its entries");
    }
    writing.join().expect("the writer ends");
}

/// An entry is not yet there, then there, then forgotten, and a reader never sees this reversed.
fn lapped_is_learnt(mut writer: impl Write, reader: impl Read) {
    let stage_of_life = |got: &Result<Arc<Item>, Missing>| match got {
        Err(Missing::NotYet) => 0,
        Ok(entry) => {
            assert_eq!(entry.position, 0, "a lapped reader was given a newer entry");
            1
        }
        Err(Missing::Lapped) => 2,
    };
    let last = reader.clone();
    let writing = thread::spawn(move || (1..=3).for_each(|revision| writer.put(revision)));
    let earlier = stage_of_life(&reader.get(0));
    let later = stage_of_life(&reader.get(0));
    assert!(earlier <= later, "an entry came back");
    writing.join().expect("the writer ends");
    assert_eq!(stage_of_life(&last.get(0)), 2, "three entries went through two slots");
    assert!(last.get(1).is_ok() && last.get(2).is_ok(), "the newest two are there");
}

/// A reader of the progress and then the head sees every entry up to that progress.
fn progress_then_head(mut writer: impl Write, reader: impl Read) {
    let writing = thread::spawn(move || {
        writer.put(1);
        writer.put(2);
        // Progress of the source without entries.
        writer.publish(7);
    });
    let progress = reader.progress();
    let head = reader.head();
    assert!(head >= progress.min(2), "progress {progress} was told before its entries: head {head}");
    if head > 0 {
        assert!(reader.get(head - 1).is_ok(), "nothing was forgotten");
    }
    writing.join().expect("the writer ends");
}

/// A start is the position of the first newer entry, or it is refused; nothing newer is skipped.
fn nothing_is_skipped(mut writer: impl Write, reader: impl Read) {
    writer.put(1);
    writer.put(2);
    let writing = thread::spawn(move || {
        writer.put(3);
        writer.put(4);
    });
    // Revision 2 is the first one after 1, and is at position 1.
    if let Ok(position) = reader.position_after(1) {
        assert_eq!(position, 1, "an entry newer than the start was skipped");
    }
    writing.join().expect("the writer ends");
    assert_eq!(reader.position_after(1), Err(Missing::Lapped));
    assert_eq!(reader.position_after(2), Ok(2));
}

/// The same, when the window is compacted instead of overrun.
fn nothing_is_skipped_by_compaction(mut writer: impl Write, reader: impl Read) {
    writer.put(1);
    writer.put(2);
    let writing = thread::spawn(move || writer.forget_through(2));
    match reader.position_after(1) {
        Ok(position) => assert_eq!(position, 1, "an entry newer than the start was skipped"),
        Err(missing) => assert_eq!(missing, Missing::Lapped),
    }
    writing.join().expect("the writer ends");
    assert_eq!(reader.position_after(1), Err(Missing::Lapped));
    assert_eq!(reader.position_after(2), Ok(2));
}

/// The same, when an older entry is added to a ring that began after revision 2, and is forgotten again. What is newer than that
/// revision is found all the time.
fn nothing_is_skipped_when_older_is_added(mut writer: impl Write, reader: impl Read) {
    writer.put(3);
    let writing = thread::spawn(move || {
        writer.prepend(Item { position: 1, revision: 2 }, 1);
        writer.put(4);
    });
    match reader.position_after(1) {
        Ok(position) => assert_eq!(position, 1, "an entry newer than the start was skipped"),
        Err(missing) => assert_eq!(missing, Missing::Lapped),
    }
    assert_eq!(reader.position_after(2), Ok(2));
    writing.join().expect("the writer ends");
    assert_eq!((reader.oldest(), reader.forgotten()), (2, 2));
}

/// A start that the progress covers is after all entries of its own revision, if the progress is read first.
fn a_covered_start(mut writer: impl Write, reader: impl Read, progress_first: bool) {
    let writing = thread::spawn(move || {
        writer.put(1);
        writer.put(2);
    });
    let early = progress_first.then(|| reader.progress());
    let position = reader.position_after(1).expect("nothing was forgotten");
    let progress = early.unwrap_or_else(|| reader.progress());
    if progress >= 1 {
        assert_eq!(position, 1, "an event of the start itself would be sent");
    }
    writing.join().expect("the writer ends");
}

/// A reader that misses an entry, or sees that the window begins after it, can read that its revision is forgotten.
fn forgotten_comes_first(mut writer: impl Write, reader: impl Read) {
    writer.put(1);
    writer.put(2);
    let writing = thread::spawn(move || writer.put(3));
    if reader.get(0).is_err() {
        assert!(reader.forgotten() >= 1, "an entry went before it was called forgotten");
    }
    let oldest = reader.oldest();
    assert!(reader.forgotten() >= oldest, "the window moved before its entry was called forgotten");
    writing.join().expect("the writer ends");
    assert_eq!((reader.oldest(), reader.forgotten()), (1, 1));
}

/// Kept entries are there whenever they are read, however often the ring grows meanwhile.
fn kept_entries_stay(mut writer: impl Write, reader: impl Read) {
    writer.put(1);
    let writing = thread::spawn(move || (2..=5).for_each(|revision| writer.put_keeping(revision, 0)));
    for position in [0, 3, 4] {
        let found = reader.get(position).map(|entry| entry.position);
        assert_ne!(found, Err(Missing::Lapped), "an entry that is kept was not found");
    }
    writing.join().expect("the writer ends");
    assert_eq!((reader.oldest(), reader.head(), reader.forgotten()), (0, 5, 0));
}

/// A reader that finds only a revision's second entry can read that the first was there.
fn torn_is_told(mut writer: impl Write, reader: impl Read) {
    writer.stage(Item { position: 0, revision: 1 }, 0);
    writer.stage(Item { position: 1, revision: 1 }, 0);
    writer.publish(1);
    let writing = thread::spawn(move || {
        writer.stage(Item { position: 2, revision: 2 }, u64::MAX);
        writer.publish(2);
    });
    if reader.get(0).is_err() {
        assert!(reader.is_torn(1), "half of a revision went before it was called torn");
    }
    writing.join().expect("the writer ends");
    assert!(reader.is_torn(1) && !reader.is_torn(2));
}

/// A reader that searches the first entry of a revision and then checks whether it is torn has all of it, or knows that
/// some is forgotten.
fn a_whole_revision(mut writer: ring::Writer<Item>, reader: &ring::Reader<Item>, torn_last: bool) {
    Write::stage(&mut writer, Item { position: 0, revision: 1 }, 0);
    Write::stage(&mut writer, Item { position: 1, revision: 1 }, 0);
    Write::publish(&mut writer, 1);
    let writing = thread::spawn(move || {
        Write::stage(&mut writer, Item { position: 2, revision: 2 }, u64::MAX);
        Write::publish(&mut writer, 2);
    });
    let early = Read::is_torn(reader, 1);
    let first = reader.position_at(Revision::new(1));
    let torn = if torn_last { Read::is_torn(reader, 1) } else { early };
    assert!(torn || first == Position::new(0), "part of a revision was taken for all of it");
    writing.join().expect("the writer ends");
}

#[test]
fn a_revision_is_found_whole_or_called_torn() {
    explore(real, |writer, reader| a_whole_revision(writer, &reader, true));
}

#[test]
#[should_panic(expected = "part of a revision was taken for all of it")]
fn which_fails_when_it_is_asked_before_the_search() {
    explore(real, |writer, reader| a_whole_revision(writer, &reader, false));
}

#[test]
fn a_reader_never_gets_the_entry_of_another_position() {
    explore(real, own_entry);
}

#[test]
#[should_panic(expected = "another entry than the one asked for")]
fn which_fails_when_the_position_is_not_checked() {
    explore(with(Flaw::PositionUnchecked), own_entry);
}

#[test]
fn a_batch_becomes_visible_whole_and_when_published() {
    explore(real, whole_batches);
}

#[test]
#[should_panic(expected = "visible")]
fn which_fails_when_staging_is_publishing() {
    explore(with(Flaw::VisibleWhenStaged), whole_batches);
}

#[test]
#[should_panic(expected = "visible")]
fn which_fails_when_the_head_moves_before_the_entry_is_there() {
    explore(with(Flaw::HeadBeforeEntry), whole_batches);
}

#[test]
fn a_lapped_reader_learns_it() {
    explore(real, lapped_is_learnt);
}

#[test]
#[should_panic(expected = "a lapped reader was given a newer entry")]
fn which_fails_when_a_slot_is_handed_out_as_it_is() {
    explore(with(Flaw::PositionUnchecked), lapped_is_learnt);
}

#[test]
fn progress_read_before_the_head_covers_its_entries() {
    explore(real, progress_then_head);
}

#[test]
#[should_panic(expected = "was told before its entries")]
fn which_fails_when_progress_is_told_before_the_head() {
    explore(with(Flaw::ProgressBeforeHead), progress_then_head);
}

#[test]
#[should_panic(expected = "was told before its entries")]
fn which_fails_when_progress_is_not_released() {
    explore(with(Flaw::ProgressRelaxed), progress_then_head);
}

#[test]
fn a_start_skips_nothing_newer() {
    explore(real, nothing_is_skipped);
}

#[test]
fn a_start_skips_nothing_newer_while_the_window_is_compacted() {
    explore(real, nothing_is_skipped_by_compaction);
}

#[test]
#[should_panic(expected = "an entry newer than the start was skipped")]
fn which_fails_when_forgotten_is_read_before_oldest() {
    explore(with(Flaw::ForgottenBeforeOldest), nothing_is_skipped);
}

#[test]
#[should_panic(expected = "an entry newer than the start was skipped")]
fn which_fails_when_losses_during_the_search_are_not_checked() {
    explore(with(Flaw::LossUnchecked), nothing_is_skipped_by_compaction);
}

#[test]
fn a_start_skips_nothing_newer_while_older_entries_are_added() {
    explore(|| begun_late(2), nothing_is_skipped_when_older_is_added);
}

#[test]
#[should_panic(expected = "an entry newer than the start was skipped")]
fn which_fails_when_forgotten_is_read_after_oldest_only() {
    explore(|| flawed::ring(Flaw::ForgottenAfterOldest, 2), nothing_is_skipped_when_older_is_added);
}

#[test]
#[should_panic(expected = "an entry newer than the start was skipped")]
fn which_fails_when_a_start_is_allowed_before_the_window_begins_there() {
    explore(|| flawed::ring(Flaw::AllowedBeforeAdded, 2), nothing_is_skipped_when_older_is_added);
}

#[test]
fn a_start_that_the_progress_covers_is_behind_its_revision() {
    explore(real, |writer, reader| a_covered_start(writer, reader, true));
}

#[test]
#[should_panic(expected = "an event of the start itself would be sent")]
fn which_fails_when_the_progress_is_read_after_the_search() {
    explore(real, |writer, reader| a_covered_start(writer, reader, false));
}

#[test]
fn forgotten_is_set_before_the_entry_goes() {
    explore(real, forgotten_comes_first);
}

#[test]
#[should_panic(expected = "called forgotten")]
fn which_fails_when_the_entry_goes_first() {
    explore(with(Flaw::EntryGoesFirst), forgotten_comes_first);
}

#[test]
fn a_ring_that_grows_loses_nothing() {
    explore(real, kept_entries_stay);
}

#[test]
#[should_panic(expected = "an entry that is kept was not found")]
fn which_fails_when_the_larger_array_is_shown_before_it_is_filled() {
    explore(with(Flaw::GrownBeforeCopied), kept_entries_stay);
}

#[test]
#[should_panic(expected = "an entry that is kept was not found")]
fn which_fails_when_the_array_is_looked_for_before_the_head() {
    explore(with(Flaw::ArrayBeforeHead), kept_entries_stay);
}

#[test]
fn half_of_a_revision_is_called_torn_before_the_rest_goes() {
    explore(real, torn_is_told);
}

#[test]
#[should_panic(expected = "called torn")]
fn which_fails_when_it_is_called_torn_later() {
    explore(with(Flaw::TornLate), torn_is_told);
}

#[test]
fn the_copy_without_a_flaw_passes() {
    explore(with(Flaw::None), own_entry);
    explore(with(Flaw::None), whole_batches);
    explore(with(Flaw::None), lapped_is_learnt);
    explore(with(Flaw::None), progress_then_head);
    explore(with(Flaw::None), nothing_is_skipped);
    explore(with(Flaw::None), nothing_is_skipped_by_compaction);
    explore(|| flawed::ring(Flaw::None, 2), nothing_is_skipped_when_older_is_added);
    explore(with(Flaw::None), |writer, reader| a_covered_start(writer, reader, true));
    explore(with(Flaw::None), forgotten_comes_first);
    explore(with(Flaw::None), kept_entries_stay);
    explore(with(Flaw::None), torn_is_told);
}
