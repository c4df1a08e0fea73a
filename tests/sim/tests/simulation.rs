//! Many seeds of the simulator, on all cores.
//!
//! `REVCAST_SIM_SEEDS` says how many, `REVCAST_SIM_BASE` which is the first, `REVCAST_SIM_SEED` names the one that
//! `one_seed` replays, in the world that `REVCAST_SIM_PROFILE` names (`Usual`, `Ranges`, `Protobuf` or `History`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use revcast_sim::{self as sim, Coverage, Profile};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SEEDS_DEFAULT: u64 = 10_000;
/// The same of worlds of ranges, which differ in less.
const RANGE_SEEDS_DEFAULT: u64 = 3_000;

/// The same of worlds of protobuf.
const PROTOBUF_SEEDS_DEFAULT: u64 = 3_000;

/// The same of worlds of history.
const HISTORY_SEEDS_DEFAULT: u64 = 3_000;

/// One profile after the other: each keeps all cores busy, and the largest worlds take hundreds of MB.
static TURN: Mutex<()> = Mutex::new(());

const PROFILES: [Profile; 4] = [Profile::Usual, Profile::Ranges, Profile::Protobuf, Profile::History];

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let text = text.trim();
    let number = text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16));
    Some(number.unwrap_or_else(|_| {
        panic!("{name}={text} is no number: set it to one (0x... for hexadecimal), or not at all")
    }))
}

/// A run, or the story of its failure.
fn story(profile: Profile, seed: u64) -> Result<Coverage, String> {
    match catch_unwind(AssertUnwindSafe(|| sim::run_as(profile, seed))) {
        Ok(Ok(coverage)) => Ok(coverage),
        Ok(Err(violation)) => Err(violation.to_string()),
        Err(_) => Err(format!(
            "seed {seed} panicked (the message stands above)\nreplay: REVCAST_SIM_PROFILE={profile:?} \
             REVCAST_SIM_SEED={seed} cargo test -p revcast-sim --test simulation -- one_seed --nocapture"
        )),
    }
}

#[test]
fn many_seeds() {
    run_many(Profile::Usual, SEEDS_DEFAULT);
}

#[test]
fn many_seeds_of_ranges() {
    run_many(Profile::Ranges, RANGE_SEEDS_DEFAULT);
}

#[test]
fn many_seeds_of_protobuf() {
    run_many(Profile::Protobuf, PROTOBUF_SEEDS_DEFAULT);
}

#[test]
fn many_seeds_of_history() {
    run_many(Profile::History, HISTORY_SEEDS_DEFAULT);
}

fn run_many(profile: Profile, default: u64) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let seeds = setting("REVCAST_SIM_SEEDS").unwrap_or(default);
    let base = setting("REVCAST_SIM_BASE").unwrap_or(1);
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let total = Mutex::new((Coverage::default(), Vec::new()));
    let started = std::time::Instant::now();
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                let mut sum = Coverage::default();
                let mut failures = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= seeds {
                        break;
                    }
                    match story(profile, base.wrapping_add(number)) {
                        Ok(coverage) => sum.add(&coverage),
                        Err(failure) => {
                            failures.push(failure);
                            stop.store(true, Ordering::Relaxed);
                        }
                    }
                }
                let mut total = total.lock().expect("no thread panics with the lock");
                total.0.add(&sum);
                total.1.append(&mut failures);
            });
        }
    });
    let (coverage, failures) = total.into_inner().expect("no thread panics with the lock");
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    eprintln!("{profile:?}: {seeds} seeds from {base} in {:?}:\n{coverage}", started.elapsed());
    // A run of a few seeds cannot exercise everything.
    if seeds >= default {
        let ours = |what: &str| {
            let of = if what.starts_with("range_") {
                Profile::Ranges
            } else if what.starts_with("protobuf_") {
                Profile::Protobuf
            } else if what.starts_with("history_") {
                Profile::History
            } else {
                Profile::Usual
            };
            of == profile
        };
        for (what, count) in coverage.rows().into_iter().filter(|(what, _)| ours(what)) {
            assert!(count > 0, "{seeds} seeds exercised no {what}: the simulator lost its teeth");
        }
    }
}

#[test]
fn a_seed_is_one_run() {
    for (profile, seed) in [1, 77, 123_456_789].into_iter().flat_map(|seed| PROFILES.map(|it| (it, seed))) {
        let run = || story(profile, seed).unwrap_or_else(|failure| panic!("{failure}"));
        let (first, again) = (run(), run());
        assert_eq!(first, again, "the run of seed {seed} depends on more than its seed");
    }
}

#[test]
fn one_seed() {
    let seed = setting("REVCAST_SIM_SEED").unwrap_or(42);
    let named = std::env::var("REVCAST_SIM_PROFILE").unwrap_or_else(|_| "Usual".to_owned());
    let profile = PROFILES.into_iter().find(|profile| format!("{profile:?}") == named);
    let profile =
        profile.unwrap_or_else(|| panic!("REVCAST_SIM_PROFILE={named}: set it to one of {PROFILES:?}"));
    match story(profile, seed) {
        Ok(coverage) => eprintln!("seed {seed}:\n{coverage}"),
        Err(failure) => panic!("{failure}"),
    }
}
