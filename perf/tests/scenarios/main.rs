//! Every scenario as a user starts it, against a server that is right and against servers that are wrong in one way each: a
//! check that cannot fail checks nothing.
#![allow(clippy::unwrap_used)]

mod compare;
mod fanout;
mod floor;
mod idle;
mod initial;
mod interests;
mod mixed;
mod mock;
mod slow;
mod storm;

use mock::Mischief;
use serde_json::Value;
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_revcast-perf");

fn revcast_perf(words: &str) -> Output {
    Command::new(PROGRAM).args(words.split_ascii_whitespace()).output().expect("the program was just built")
}

/// A scenario against a server of its own.
fn run(mischief: Mischief, scenario: &str, options: &[&str]) -> Output {
    let address = mock::start(mischief);
    revcast_perf(&format!("{scenario} --server http://{address} {}", options.join(" ")))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The JSON report and the exit code.
fn json(output: &Output) -> (Value, Option<i32>) {
    let report = serde_json::from_slice(&output.stdout);
    (report.unwrap_or_else(|fault| panic!("{fault}: {}", said(output))), output.status.code())
}

#[test]
fn a_bad_option_is_exit_code_2_and_one_line() {
    for words in [
        "fanout --watchers none",
        "initial --rate 5",
        "slow --share 100",
        "siege --by night",
        "interests --by moon",
        "storm --close softly",
        "floor --mode fast",
        "compare floor nonsense",
    ] {
        let output = revcast_perf(words);
        let (line, value) = (said(&output), words.rsplit(' ').next().unwrap());
        assert_eq!((output.status.code(), line.lines().count()), (Some(2), 1), "{line}");
        assert!(line.contains(value) || words.contains("--rate"), "{line}");
    }
}
