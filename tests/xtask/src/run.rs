//! Runs the steps one after the other, shows what they say, and sums up.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::place;
use crate::pool;
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

/// What holds for every step of a task.
struct Terms<'t> {
    /// The simulator's first seed.
    seed: u64,
    /// The end-to-end tests run the binaries of this profile.
    profile: &'t str,
    is_first_build: bool,
}

/// A step and how it went; `None` for its time: the step before it says it for both.
struct Row<'s> {
    step: &'s Step,
    outcome: Outcome,
    seconds: Option<f64>,
}

/// Runs these steps until one fails; end-to-end tests run the binaries of this profile. Says whether all passed.
fn run_all(chosen: &[&Step], profile: &str, task: &str) -> bool {
    let terms = &Terms { seed: place::seed_base(), profile, is_first_build: place::is_first_build() };
    let mut table: Vec<Row<'_>> = Vec::new();
    while let Some(rest) = chosen.get(table.len()..).filter(|rest| !rest.is_empty()) {
        let pooled = rest.iter().take_while(|step| step.proof == Proof::Programs).count();
        let group = &rest[..pooled.max(1)];
        for (index, step) in (table.len() + 1..).zip(group) {
            println!("\n=== {index}/{} {}: {}\n    {}", chosen.len(), step.name, step.purpose, step.shown());
        }
        let began = Instant::now();
        let outcomes = match group {
            [step] if pooled == 0 => vec![run(step, terms)],
            steps => run_side_by_side(steps, terms),
        };
        let mut seconds = Some(began.elapsed().as_secs_f64());
        for (step, outcome) in group.iter().zip(outcomes) {
            let time = seconds.take();
            println!(
                "=== {}: {}{}",
                step.name,
                outcome.word(),
                time.map_or_else(String::new, |s| format!(" after {s:.1} s"))
            );
            table.push(Row { step, outcome, seconds: time });
        }
        if table.iter().any(|row| row.outcome.problem.is_some()) {
            break;
        }
    }
    sum_up(&table, terms.seed, task)
}

/// Shows how the steps went. Says whether all passed.
fn sum_up(table: &[Row<'_>], seed: u64, task: &str) -> bool {
    let mut total = Tally::default();
    println!("\n{:<19}{:<8}{:>8}{:>8}", "step", "", "seconds", "tests");
    for Row { step, outcome, seconds } in table {
        let tally = outcome.tally;
        let time = seconds.map_or_else(|| "\"".to_owned(), |seconds| format!("{seconds:.1}"));
        let tests = tally.passed + tally.failed + tally.benchmarks;
        println!("{:<19}{:<8}{time:>8}{tests:>8}", step.name, outcome.word());
        total.add(tally);
    }
    println!("{:<27}{:>8.1}", "total", table.iter().filter_map(|row| row.seconds).sum::<f64>());
    let mut passed = true;
    for Row { step, outcome, .. } in table {
        let Some(problem) = &outcome.problem else { continue };
        println!("\n{} failed: {problem}\nrepeat: {}", step.name, repeat(step, seed));
        // A step that failed without a failed test (a lint, a missing target) is one failure by itself.
        total.failed = total.failed.max(1);
        passed = false;
    }
    if !passed {
        println!("then:   cargo xtask {task}");
    }
    for Row { step, outcome, .. } in table {
        for test in &outcome.unsteady {
            println!(
                "\nUNSTEADY, in {}: {test} failed and passed when it was repeated: fix the test, or what it tests",
                step.name
            );
        }
    }
    if total.benchmarks > 0 {
        println!("\n{} benchmarks ran once", total.benchmarks);
    }
    println!("\n{} passed, {} failed", total.passed, total.failed);
    passed
}

/// The command that repeats a step outside of this program.
fn repeat(step: &Step, seed: u64) -> String {
    match step.proof {
        Proof::Tests | Proof::Programs => format!("REVCAST_SIM_BASE={seed} {}", step.shown()),
        Proof::Success | Proof::Benchmarks => step.shown(),
    }
}

impl Outcome {
    const fn word(&self) -> &'static str {
        if self.problem.is_some() { "FAILED" } else { "ok" }
    }
}

fn run(step: &Step, terms: &Terms<'_>) -> Outcome {
    let mut failed = Vec::new();
    let (tally, ended) = follow(&mut command(step, terms, &[]), &mut failed, &mut std::io::stdout());
    judged(step, terms, tally, failed, ended)
}

/// Runs all programs of these steps, several at once.
fn run_side_by_side(steps: &[&Step], terms: &Terms<'_>) -> Vec<Outcome> {
    let mut results: Vec<_> = steps.iter().map(|_| (Tally::default(), Vec::new(), Ok(()))).collect();
    let mut runs = Vec::new();
    for (place, step) in steps.iter().enumerate() {
        let (before, after) = step.split();
        let mut build = cargo_of(step, terms);
        build.args(before);
        match pool::build(build, step.refuses_warnings) {
            Ok(programs) => {
                let environment = environment(step, terms);
                let arguments = after.get(1..).unwrap_or_default();
                runs.extend(programs.iter().map(|program| program.run(place, arguments, &environment)));
            }
            Err(problem) => {
                results[place].2 = Err(problem);
                runs.clear();
                break;
            }
        }
    }
    pool::run_all(runs, |ended| {
        let (tally, failed, result) = &mut results[ended.step];
        let cpu_time = ended.cpu_time.map(|cpu| format!(", {:.1} s of CPU", cpu.as_secs_f64()));
        println!(
            "\n--- {}: {}, {:.1} s{}",
            steps[ended.step].name,
            ended.name,
            ended.time.as_secs_f64(),
            cpu_time.unwrap_or_default()
        );
        for line in &ended.lines {
            println!("{line}");
            tally.read(line);
            failed.extend(failed_test(line).map(str::to_owned));
        }
        if let Some(problem) = ended.problem {
            *result = Err(problem);
        }
    });
    let results = steps.iter().zip(results);
    results.map(|(step, (tally, failed, ended))| judged(step, terms, tally, failed, ended)).collect()
}

/// What became of a step; a few failed tests are run once more.
fn judged(
    step: &Step,
    terms: &Terms<'_>,
    mut tally: Tally,
    failed: Vec<String>,
    ended: Result<(), String>,
) -> Outcome {
    if !step.proof.is_of_tests() || !worth_repeating(tally, &failed) {
        let problem = ended.err().or_else(|| unproven(step.proof, tally));
        return Outcome { tally, unsteady: Vec::new(), problem };
    }
    println!("=== {}: once more, alone: {}", step.name, failed.join(" "));
    let (again, ended) = watched(&mut command(step, terms, &failed));
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

/// The cargo of a step. The tasks of this program build it as they were built.
fn cargo_of(step: &Step, terms: &Terms<'_>) -> Command {
    let mut cargo = place::cargo();
    if terms.is_first_build && step.arguments.first() != Some(&"xtask") {
        cargo.env("CARGO_INCREMENTAL", "0");
    }
    cargo
}

/// What runs a step; `tests`: only these, if any.
fn command(step: &Step, terms: &Terms<'_>, tests: &[String]) -> Command {
    let (before, after) = step.split();
    let mut command = cargo_of(step, terms);
    command.args(before);
    if let Some(folder) = step.folder {
        command.arg("--target-dir").arg(place::target().join(folder));
    }
    if tests.is_empty() {
        command.args(after);
    } else {
        command.args(["--", "--exact"]).args(tests);
    }
    command.envs(environment(step, terms));
    command
}

/// What the step is told besides its arguments.
fn environment(step: &Step, terms: &Terms<'_>) -> Vec<(String, OsString)> {
    let own = step.environment.iter().map(|(name, value)| ((*name).to_owned(), value.into()));
    let binary = |name: &str, variable: &str| {
        (variable.to_owned(), place::binary(terms.profile, name, variable).into())
    };
    let of_tests = || {
        let seed = ("REVCAST_SIM_BASE".to_owned(), terms.seed.to_string().into());
        [seed, binary("revcast", "REVCAST_BIN"), binary("revcast-perf", "REVCAST_PERF_BIN")]
    };
    // Built by itself the server would have other features of its dependencies, and they would be built again.
    let of_benchmarks = (step.proof == Proof::Benchmarks)
        .then(|| binary("revcast", "REVCAST_BIN"))
        .filter(|(_, path): &(String, OsString)| Path::new(path).exists());
    own.chain(step.proof.is_of_tests().then(of_tests).into_iter().flatten()).chain(of_benchmarks).collect()
}

/// Why a success proves nothing.
fn unproven(proof: Proof, tally: Tally) -> Option<String> {
    match proof {
        Proof::Success => None,
        Proof::Tests | Proof::Programs if tally.failed > 0 => Some(format!("{} tests failed", tally.failed)),
        Proof::Tests | Proof::Programs if tally.passed == 0 => {
            Some("no test ran: is the target there, and not empty?".to_owned())
        }
        Proof::Benchmarks if tally.benchmarks == 0 => Some("no benchmark ran: see benches/".to_owned()),
        Proof::Tests | Proof::Programs | Proof::Benchmarks => None,
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
