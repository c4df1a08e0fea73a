//! The simulator with deliberate bugs: each must be found, or the simulator proves nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};

use revcast_engine::planted::{Bug, plant};
use revcast_tests::sim::{self, Profile, Promise};

/// Seeds that may be needed to find a bug.
const SEEDS_MAX: u64 = 2_000;

const BUGS: [Bug; 26] = [
    Bug::SkippedEvent,
    Bug::DoubledFrame,
    Bug::BookmarkTooEarly,
    Bug::WrongDeletedObject,
    Bug::StaleDeletedVersion,
    Bug::LappedReaderUnnoticed,
    Bug::SplitRevision,
    Bug::PartialSendRestarted,
    Bug::ExpiredStartServed,
    Bug::TransitionIgnored,
    Bug::GapAfterInitialEvents,
    Bug::OldValueNotLookedUp,
    Bug::FrameMadeTwice,
    Bug::LiveWatchKept,
    Bug::UnreadableSkipped,
    Bug::UnreadableToldBySelector,
    Bug::UnreadableStartServed,
    Bug::UnreadableAmongOthers,
    Bug::HeartbeatAnywhere,
    Bug::PastFromOlderSnapshot,
    Bug::PausedEventDropped,
    Bug::EndWithinState,
    Bug::PartOfRevisionSkipped,
    Bug::NeededForgotten,
    Bug::FallenNotKept,
    Bug::LaterRangeMissed,
];

/// The index of a bug in [`BUGS`]. A new bug does not compile before it is listed there.
const fn place(bug: Bug) -> usize {
    match bug {
        Bug::SkippedEvent => 0,
        Bug::DoubledFrame => 1,
        Bug::BookmarkTooEarly => 2,
        Bug::WrongDeletedObject => 3,
        Bug::StaleDeletedVersion => 4,
        Bug::LappedReaderUnnoticed => 5,
        Bug::SplitRevision => 6,
        Bug::PartialSendRestarted => 7,
        Bug::ExpiredStartServed => 8,
        Bug::TransitionIgnored => 9,
        Bug::GapAfterInitialEvents => 10,
        Bug::OldValueNotLookedUp => 11,
        Bug::FrameMadeTwice => 12,
        Bug::LiveWatchKept => 13,
        Bug::UnreadableSkipped => 14,
        Bug::UnreadableToldBySelector => 15,
        Bug::UnreadableStartServed => 16,
        Bug::UnreadableAmongOthers => 17,
        Bug::HeartbeatAnywhere => 18,
        Bug::PastFromOlderSnapshot => 19,
        Bug::PausedEventDropped => 20,
        Bug::EndWithinState => 21,
        Bug::PartOfRevisionSkipped => 22,
        Bug::NeededForgotten => 23,
        Bug::FallenNotKept => 24,
        Bug::LaterRangeMissed => 25,
    }
}

/// The worlds in which a bug can do harm.
fn profile(bug: Bug) -> Profile {
    if bug == Bug::LaterRangeMissed { Profile::Ranges } else { Profile::Usual }
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
fn every_planted_bug_is_caught() {
    let mut missed = Vec::new();
    for (number, bug) in BUGS.into_iter().enumerate() {
        assert_eq!(place(bug), number, "{bug:?} stands in another place");
        plant(Some(bug));
        let found = (1..=SEEDS_MAX).find_map(|seed| Some((seed, caught(profile(bug), seed)?)));
        plant(None);
        let Some((seed, (promise, what))) = found else {
            missed.push(bug);
            continue;
        };
        let what: String = what.chars().take(160).collect();
        eprintln!("{bug:?}: seed {seed} broke {promise:?}: {what}");
        let sound = catch_unwind(AssertUnwindSafe(|| sim::run_as(profile(bug), seed)));
        assert!(matches!(sound, Ok(Ok(_))), "seed {seed} fails without {bug:?} too: {sound:?}");
    }
    assert!(missed.is_empty(), "{missed:?} went unnoticed for {SEEDS_MAX} seeds");
}
