//! The fuzz targets without a fuzzer: over their seeds, and over seeded mutations of these, so that every run of the tests
//! exercises them. `cargo xtask ci` seeds them from the commit (`REVCAST_SIM_BASE`), `REVCAST_FUZZ_SEED` replays a failure,
//! `REVCAST_FUZZ_RUNS` asks for more.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::wildcard_enum_match_arm)]

#[path = "../../tests/fuzz/targets/mod.rs"]
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Mutations of each target, unless said otherwise.
const RUNS: u64 = 20_000;
/// Changes of one mutation, at most.
const CHANGES_MAX: u64 = 6;
/// Bytes of the longest input.
const BYTES_MAX: usize = 4 << 10;

/// What is put into inputs beside what they hold already.
const WORDS: [&[u8]; 48] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b"\t",
    b" ",
    b":",
    b",",
    b";",
    b"=",
    b"==",
    b"!=",
    b"!",
    b"(",
    b")",
    b"in",
    b"notin",
    b"&",
    b"%",
    b"%00",
    b"%0d%0a",
    b"%2e%2e",
    b"%ff",
    b"//",
    b"..",
    b"\\",
    b"\"",
    b"{",
    b"}",
    b"[]",
    b"null",
    b"1e400",
    b"18446744073709551616",
    b"-1",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"0\r\n\r\n",
    b"\xff",
    b"$patch",
    b"\\u0061",
    b"k8s\0",
    b"\x1a\x00\x22\x00",
    b"\x0a\x00",
    b"\x12\x00",
    b"\x0a\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x32\x017",
    b"2147483648Ki",
];

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        usize::try_from(drawn).unwrap() % bound.max(1)
    }
}

fn seeds(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz/corpus").join(name);
    let mut paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 5, "{} has too few seeds", folder.display());
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn mutated(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(usize::try_from(CHANGES_MAX).unwrap()) {
        let at = random.below(bytes.len() + 1);
        let end = (at + random.below(12)).min(bytes.len());
        match random.below(7) {
            0 => drop(bytes.drain(at..end)),
            1 => drop(bytes.splice(at..at, WORDS[random.below(WORDS.len())].iter().copied())),
            2 => drop(bytes.splice(at..end, WORDS[random.below(WORDS.len())].iter().copied())),
            3 => bytes.truncate(at),
            4 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            5 => {
                let again = bytes[at..end].repeat(1 + random.below(40));
                drop(bytes.splice(at..at, again));
            }
            _ => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len() + 1);
                let to = (from + random.below(40)).min(other.len());
                drop(bytes.splice(at..end, other[from..to].iter().copied()));
            }
        }
        bytes.truncate(BYTES_MAX);
    }
    bytes
}

fn number(name: &str, standard: u64) -> u64 {
    std::env::var(name)
        .map_or(standard, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: no number")))
}

fn fuzz(name: &str) {
    let target = targets::ALL.iter().find(|(known, _)| *known == name).unwrap().1;
    let seeds = seeds(name);
    seeds.iter().for_each(|seed| target(seed));
    let seed = number("REVCAST_FUZZ_SEED", number("REVCAST_SIM_BASE", 0x5eed));
    let mut random = Random(seed.max(1));
    for run in 0..number("REVCAST_FUZZ_RUNS", RUNS) {
        let bytes = mutated(&seeds, &mut random);
        if catch_unwind(AssertUnwindSafe(|| target(&bytes))).is_err() {
            let shown = bytes.escape_ascii();
            panic!("{name} fails, REVCAST_FUZZ_SEED={seed}, run {run} (see above), on b\"{shown}\"");
        }
    }
}

#[test]
fn head() {
    fuzz("head");
}

#[test]
fn body() {
    fuzz("body");
}

#[test]
fn query() {
    fuzz("query");
}

#[test]
fn selector() {
    fuzz("selector");
}

#[test]
fn token() {
    fuzz("token");
}

#[test]
fn patch() {
    fuzz("patch");
}

#[test]
fn decode() {
    fuzz("decode");
}

#[test]
fn stored() {
    fuzz("stored");
}

#[test]
fn frames() {
    fuzz("frames");
}

#[test]
fn fields() {
    fuzz("fields");
}

/// A value that is made to cost much costs what its length costs: one that is eight times as long, far less than the 64
/// times that a loop in a loop would take. The least of several runs, since other programs take time too.
#[test]
fn hostile_values_cost_what_they_weigh() {
    let time = |bytes: usize| {
        let value_sets = (0..3).map(|_| targets::stored::hostile(bytes));
        let once = |values: Vec<Vec<u8>>| {
            let began = std::time::Instant::now();
            values.iter().for_each(|value| targets::stored::run(value));
            began.elapsed()
        };
        value_sets.map(once).min().expect("some runs")
    };
    let (short, long) = (time(4 << 10), time(32 << 10));
    assert!(long < short * 24, "{short:?} for 4 KiB, {long:?} for 32 KiB");
}

#[test]
fn every_target_has_its_test_and_its_program() {
    let text = include_str!("fuzz.rs");
    let manifest = include_str!("../../tests/fuzz/Cargo.toml");
    for (name, _) in targets::ALL {
        assert!(text.contains(&format!("fuzz(\"{name}\");")), "{name}");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
    }
}
