//! The simulator with a bug switched on: each bug must be found, or the simulator proves nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};

use revcast_engine::failpoints::{self, Failpoint};
use revcast_sim::{self as sim, Profile, Promise};

/// Seeds that may be needed to find a bug.
const SEEDS_MAX: u64 = 2_000;

const FAILPOINTS: [Failpoint; 29] = [
    Failpoint::SkippedEvent,
    Failpoint::DuplicateEvent,
    Failpoint::BookmarkTooEarly,
    Failpoint::WrongDeletedObject,
    Failpoint::StaleDeletedVersion,
    Failpoint::LappedReaderUnnoticed,
    Failpoint::SplitRevision,
    Failpoint::PartialSendRestarted,
    Failpoint::ExpiredStartServed,
    Failpoint::TransitionIgnored,
    Failpoint::GapAfterInitialEvents,
    Failpoint::OldValueNotLookedUp,
    Failpoint::MessageMadeTwice,
    Failpoint::LiveWatchKept,
    Failpoint::UnreadableSkipped,
    Failpoint::UnreadableToldBySelector,
    Failpoint::UnreadableStartServed,
    Failpoint::UnreadableAmongOthers,
    Failpoint::HeartbeatAnywhere,
    Failpoint::PastFromOlderSnapshot,
    Failpoint::PausedEventDropped,
    Failpoint::EndWithinState,
    Failpoint::PartOfRevisionSkipped,
    Failpoint::NeededForgotten,
    Failpoint::FallenNotKept,
    Failpoint::LaterRangeMissed,
    Failpoint::OlderRevisionSplit,
    Failpoint::LaggingNotNoted,
    Failpoint::JoinedWithinRound,
];

/// The index of a failpoint in [`FAILPOINTS`]. A new one does not compile before it is listed there.
const fn place(failpoint: Failpoint) -> usize {
    match failpoint {
        Failpoint::SkippedEvent => 0,
        Failpoint::DuplicateEvent => 1,
        Failpoint::BookmarkTooEarly => 2,
        Failpoint::WrongDeletedObject => 3,
        Failpoint::StaleDeletedVersion => 4,
        Failpoint::LappedReaderUnnoticed => 5,
        Failpoint::SplitRevision => 6,
        Failpoint::PartialSendRestarted => 7,
        Failpoint::ExpiredStartServed => 8,
        Failpoint::TransitionIgnored => 9,
        Failpoint::GapAfterInitialEvents => 10,
        Failpoint::OldValueNotLookedUp => 11,
        Failpoint::MessageMadeTwice => 12,
        Failpoint::LiveWatchKept => 13,
        Failpoint::UnreadableSkipped => 14,
        Failpoint::UnreadableToldBySelector => 15,
        Failpoint::UnreadableStartServed => 16,
        Failpoint::UnreadableAmongOthers => 17,
        Failpoint::HeartbeatAnywhere => 18,
        Failpoint::PastFromOlderSnapshot => 19,
        Failpoint::PausedEventDropped => 20,
        Failpoint::EndWithinState => 21,
        Failpoint::PartOfRevisionSkipped => 22,
        Failpoint::NeededForgotten => 23,
        Failpoint::FallenNotKept => 24,
        Failpoint::LaterRangeMissed => 25,
        Failpoint::OlderRevisionSplit => 26,
        Failpoint::LaggingNotNoted => 27,
        Failpoint::JoinedWithinRound => 28,
    }
}

/// The worlds in which a bug can do harm.
fn profile(failpoint: Failpoint) -> Profile {
    if failpoint == Failpoint::LaterRangeMissed {
        Profile::Ranges
    } else if failpoint == Failpoint::OlderRevisionSplit {
        Profile::History
    } else {
        Profile::Usual
    }
}

/// How a seed caught a bug: the promise that was broken (`None`: an assertion of the engine's own) and the words.
type Caught = (Option<Promise>, String);

fn caught(profile: Profile, seed: u64) -> Option<Caught> {
    match catch_unwind(AssertUnwindSafe(|| sim::run_as(profile, seed))) {
        Ok(Ok(_)) => None,
        Ok(Err(violation)) => Some((Some(violation.promise), violation.what)),
        Err(_) => Some((None, "a panic".to_owned())),
    }
}

#[test]
fn the_bug_of_every_failpoint_is_caught() {
    let mut missed = Vec::new();
    for (number, failpoint) in FAILPOINTS.into_iter().enumerate() {
        assert_eq!(place(failpoint), number, "{failpoint:?} stands in another place");
        failpoints::set(Some(failpoint));
        let found = (1..=SEEDS_MAX).find_map(|seed| Some((seed, caught(profile(failpoint), seed)?)));
        failpoints::set(None);
        let Some((seed, (promise, what))) = found else {
            missed.push(failpoint);
            continue;
        };
        let what: String = what.chars().take(160).collect();
        eprintln!("{failpoint:?}: seed {seed} broke {promise:?}: {what}");
        let sound = catch_unwind(AssertUnwindSafe(|| sim::run_as(profile(failpoint), seed)));
        assert!(matches!(sound, Ok(Ok(_))), "seed {seed} fails without {failpoint:?} too: {sound:?}");
    }
    assert!(missed.is_empty(), "{missed:?} went unnoticed for {SEEDS_MAX} seeds");
}
