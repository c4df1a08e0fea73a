//! Runs the steps one after the other, shows what they say, and sums up.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::place;
use crate::steps::{self, Proof, QUICK, STEPS, Step};
use crate::tally::{Tally, failed_test};

/// So many failed tests of a step are asked once more: what a busy machine does to tests with real clocks, sockets and
/// processes. More of them are a mistake.
const REPEATED_MAX: usize = 3;

/// How one step went.
#[derive(Debug)]
struct Outcome {
    tally: Tally,
    /// Tests that failed, and passed when they were run once more.
    unsteady: Vec<String>,
    /// What is wrong; nothing if it passed.
    problem: Option<String>,
}

/// Runs every step, or those named, until one fails. Says whether all passed.
pub(crate) fn ci(only: &[String]) -> bool {
    let chosen = |step: &&Step| only.is_empty() || only.iter().any(|name| name == step.name);
    let chosen: Vec<&Step> = STEPS.iter().filter(chosen).collect();
    run_all(&chosen, "release", "ci")
}

/// Runs the quick steps until one fails. Says whether all passed.
pub(crate) fn quick() -> bool {
    run_all(&QUICK.iter().collect::<Vec<_>>(), "debug", "test")
}

/// Runs these steps until one fails; end-to-end tests run the binaries of this profile. Says whether all passed.
fn run_all(chosen: &[&Step], profile: &str, task: &str) -> bool {
    let seed = place::seed_base();
    let mut table = Vec::new();
    let mut total = Tally::default();
    let mut failure = None;
    let mut unsteady = Vec::new();
    for (index, step) in chosen.iter().enumerate() {
        println!(
            "\n=== {}/{} {}: {}\n    {}",
            index + 1,
            chosen.len(),
            step.name,
            step.purpose,
            step.shown()
        );
        let began = Instant::now();
        let outcome = run(step, seed, profile);
        let seconds = began.elapsed().as_secs_f64();
        total.add(outcome.tally);
        let word = if outcome.problem.is_some() { "FAILED" } else { "ok" };
        println!("=== {}: {word} after {seconds:.1} s", step.name);
        table.push((step.name, word, seconds, outcome.tally));
        unsteady.extend(outcome.unsteady.into_iter().map(|test| (step.name, test)));
        if let Some(problem) = outcome.problem {
            // A step that failed without a failed test (a lint, a missing target) is one failure by itself.
            total.failed = total.failed.max(1);
            failure = Some((*step, problem));
            break;
        }
    }
    println!("\n{:<16}{:<8}{:>8}{:>8}", "step", "", "seconds", "tests");
    for (name, word, seconds, tally) in &table {
        println!("{name:<16}{word:<8}{seconds:>8.1}{:>8}", tally.passed + tally.failed + tally.benchmarks);
    }
    println!("{:<24}{:>8.1}", "total", table.iter().map(|row| row.2).sum::<f64>());
    if let Some((step, problem)) = &failure {
        println!("\n{} failed: {problem}\nrepeat: {}", step.name, repeat(step, seed));
        println!("then:   cargo xtask {task}");
    }
    for (step, test) in &unsteady {
        println!(
            "\nUNSTEADY, in {step}: {test} failed and passed when it was repeated: fix the test, or what it tests"
        );
    }
    if total.benchmarks > 0 {
        println!("\n{} benchmarks ran once", total.benchmarks);
    }
    println!("\n{} passed, {} failed", total.passed, total.failed);
    failure.is_none()
}

/// The command that repeats a step outside of this program.
fn repeat(step: &Step, seed: u64) -> String {
    match step.proof {
        Proof::Tests => format!("REVCAST_SIM_BASE={seed} {}", step.shown()),
        Proof::Success | Proof::Benchmarks => step.shown(),
    }
}

fn run(step: &Step, seed: u64, profile: &str) -> Outcome {
    let mut failed = Vec::new();
    let (mut tally, ended) =
        follow(&mut command(step, seed, profile, &[]), &mut failed, &mut std::io::stdout());
    if step.proof != Proof::Tests || !worth_repeating(tally, &failed) {
        return Outcome {
            tally,
            unsteady: Vec::new(),
            problem: ended.err().or_else(|| unproven(step.proof, tally)),
        };
    }
    println!("=== {}: once more, alone: {}", step.name, failed.join(" "));
    let (again, ended) = watched(&mut command(step, seed, profile, &failed));
    let all_ran = again.passed >= failed.len() as u64;
    let lost = || (!all_ran).then(|| "not every failed test ran once more".to_owned());
    let problem = ended.err().or_else(|| unproven(step.proof, again)).or_else(lost);
    let unsteady = if problem.is_none() { failed } else { Vec::new() };
    if problem.is_none() {
        tally.passed += std::mem::take(&mut tally.failed);
    }
    Outcome { tally, unsteady, problem }
}

/// Whether the failures are a few tests and nothing else: no program that broke off, none that did not build.
fn worth_repeating(tally: Tally, failed: &[String]) -> bool {
    (1..=REPEATED_MAX).contains(&failed.len())
        && failed.len() as u64 == tally.failed
        && tally.programs_begun == tally.programs_ended
}

/// What runs a step; `tests`: only these, if any.
fn command(step: &Step, seed: u64, profile: &str, tests: &[String]) -> Command {
    let (before, after) = step.split();
    let mut command = place::cargo();
    command.args(before);
    if let Some(folder) = step.folder {
        command.arg("--target-dir").arg(place::target().join(folder));
    }
    command.args(after).envs(step.environment.iter().copied());
    if !tests.is_empty() {
        command.args(["--", "--exact"]).args(tests);
    }
    if step.proof == Proof::Tests {
        command
            .env("REVCAST_SIM_BASE", seed.to_string())
            .env("REVCAST_BIN", place::binary(profile, "revcast", "REVCAST_BIN"))
            .env("REVCAST_PERF_BIN", place::binary(profile, "revcast-perf", "REVCAST_PERF_BIN"));
    }
    command
}

/// Why a success proves nothing.
fn unproven(proof: Proof, tally: Tally) -> Option<String> {
    match proof {
        Proof::Success => None,
        Proof::Tests if tally.failed > 0 => Some(format!("{} tests failed", tally.failed)),
        Proof::Tests if tally.passed == 0 => {
            Some("no test ran: is the target there, and not empty?".to_owned())
        }
        Proof::Benchmarks if tally.benchmarks == 0 => Some("no benchmark ran: see benches/".to_owned()),
        Proof::Tests | Proof::Benchmarks => None,
    }
}

/// Runs a command, shows its output as it comes, and counts the tests in it.
pub(crate) fn watched(command: &mut Command) -> (Tally, Result<(), String>) {
    follow(command, &mut Vec::new(), &mut std::io::stdout())
}

/// The same, with the names of the tests that `failed`.
fn follow(
    command: &mut Command,
    failed: &mut Vec<String>,
    shown: &mut impl Write,
) -> (Tally, Result<(), String>) {
    let mut tally = Tally::default();
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = match command.stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => return (tally, Err(format!("{} does not start: {error}", steps::quoted(&program)))),
    };
    if let Some(output) = child.stdout.take() {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
            // Whoever reads our output may have gone away; the step still has to end.
            let _ = shown.write_all(&line).and_then(|()| shown.flush());
            let text = String::from_utf8_lossy(&line);
            tally.read(text.trim_end());
            failed.extend(failed_test(text.trim_end()).map(str::to_owned));
            line.clear();
        }
    }
    let ended = match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("ended with {status}")),
        Err(error) => Err(format!("was lost: {error}")),
    };
    (tally, ended)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{REPEATED_MAX, follow, unproven, worth_repeating};
    use crate::steps::Proof;
    use crate::tally::Tally;

    #[test]
    fn a_run_of_nothing_is_a_failure() {
        let none = Tally::default();
        assert!(unproven(Proof::Success, none).is_none());
        assert!(unproven(Proof::Tests, none).is_some());
        assert!(unproven(Proof::Benchmarks, Tally { passed: 1, ..none }).is_some());
        assert!(unproven(Proof::Tests, Tally { passed: 1, ..none }).is_none());
        assert!(unproven(Proof::Tests, Tally { passed: 1, failed: 1, ..none }).is_some());
    }

    #[test]
    fn output_is_counted_and_the_end_is_judged() {
        let say = "echo 'test result: ok. 3 passed; 0 failed; 0 ignored'";
        let mut shown = Vec::new();
        let mut failed = Vec::new();
        let (tally, ended) = follow(Command::new("sh").args(["-c", say]), &mut failed, &mut shown);
        assert_eq!((tally.passed, ended), (3, Ok(())));
        assert!(shown.starts_with(b"test result: ok. 3 passed"));
        assert!(failed.is_empty());
        let say = "echo 'test a::b ... FAILED'; echo 'test a::c ... ok'; exit 3";
        let (_, ended) = follow(Command::new("sh").args(["-c", say]), &mut failed, &mut shown);
        assert!(ended.is_err_and(|problem| problem.contains('3')));
        assert_eq!(failed, ["a::b"]);
        let (_, ended) = follow(&mut Command::new("./no such program"), &mut failed, &mut shown);
        assert!(ended.is_err_and(|problem| problem.contains("does not start")));
    }

    #[test]
    fn a_few_failed_tests_are_repeated_and_nothing_else() {
        let named = |count: usize| vec!["a::b".to_owned(); count];
        let tally = |failed: usize| Tally {
            failed: failed as u64,
            programs_begun: 2,
            programs_ended: 2,
            ..Tally::default()
        };
        assert!(!worth_repeating(tally(0), &named(0)), "what failed was no test");
        assert!(worth_repeating(tally(1), &named(1)));
        assert!(!worth_repeating(tally(REPEATED_MAX + 1), &named(REPEATED_MAX + 1)));
        assert!(!worth_repeating(tally(2), &named(1)), "one has no name");
        assert!(!worth_repeating(Tally { programs_begun: 3, ..tally(1) }, &named(1)), "a program broke off");
    }
}
