//! The fuzz targets under libFuzzer, on the stable compiler: each for some seconds, with statistics.
//!
//! They are built with LLVM's own coverage pass; no sanitizer is linked, since only two files here have unsafe code. It
//! is run by hand and is not a step of `ci`, where the server's test `fuzz` runs the targets without a fuzzer. Without
//! a C++ compiler for libFuzzer it fails.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::place;

/// As `tests/fuzz/targets/mod.rs` has them; the server's test `fuzz` compares its list with the programs.
pub(crate) const TARGETS: [&str; 10] =
    ["head", "body", "query", "selector", "token", "patch", "decode", "stored", "frames", "fields"];

/// What makes LLVM count edges and show compares to libFuzzer.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// The longest input: longer ones find no other bugs, except about limits.
const BYTES_MAX: u32 = 4096;

/// The result of one target.
struct Outcome {
    executions: u64,
    inputs: usize,
    is_clean: bool,
}

/// Runs the targets, all or the named ones, for `seconds` each. Returns whether all were clean.
pub(crate) fn run(seconds: u64, only: &[String]) -> bool {
    if !Command::new("c++").arg("--version").stdout(Stdio::null()).status().is_ok_and(|done| done.success()) {
        println!(
            "nothing was fuzzed: libFuzzer needs a C++ compiler, install g++ (without a fuzzer the targets run \
             by `cargo test -p revcast --test fuzz`)"
        );
        return false;
    }
    let Some(host) = host() else {
        println!("rustc -vV does not name its host");
        return false;
    };
    let folder = place::target().join("fuzz");
    let mut build = place::cargo();
    build
        .args([
            "build",
            "--release",
            "--manifest-path",
            "tests/fuzz/Cargo.toml",
            "--target",
            &host,
            "--target-dir",
        ])
        .arg(&folder)
        // Without the caller's flags for coverage or profiles.
        .env("RUSTFLAGS", COVERAGE)
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    if !build.status().is_ok_and(|done| done.success()) {
        println!("the fuzz targets do not build: see above");
        return false;
    }
    let programs = folder.join(host).join("release");
    let chosen: Vec<&str> =
        TARGETS.into_iter().filter(|name| only.is_empty() || only.iter().any(|one| one == name)).collect();
    let mut table = Vec::new();
    for name in chosen {
        println!("=== {name}, {seconds} s");
        match fuzz(name, seconds, &programs.join(name), &folder) {
            Ok(outcome) => table.push((name, outcome)),
            Err(problem) => {
                println!("{name}: {problem}");
                return false;
            }
        }
    }
    println!("\n{:<12}{:>16}{:>10}{:>10}", "target", "executions", "corpus", "crashes");
    for (name, outcome) in &table {
        println!(
            "{name:<12}{:>16}{:>10}{:>10}",
            outcome.executions,
            outcome.inputs,
            u8::from(!outcome.is_clean)
        );
    }
    table.iter().all(|(_, outcome)| outcome.is_clean)
}

fn fuzz(name: &str, seconds: u64, program: &Path, folder: &Path) -> Result<Outcome, String> {
    let corpus = folder.join("corpus").join(name);
    let found = folder.join("found");
    let made = [&corpus, &found].into_iter().try_for_each(std::fs::create_dir_all);
    made.map_err(|error| format!("no folder for what it finds: {error}"))?;
    let output = Command::new(program)
        .args(["-print_final_stats=1", "-rss_limit_mb=2048", "-timeout=10"])
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={BYTES_MAX}"))
        .arg(format!("-artifact_prefix={}/{name}-", found.display()))
        .args([&corpus, &place::root().join("tests/fuzz/corpus").join(name)])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| format!("{} does not start: {error}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let executions = executions(&said);
    if !output.status.success() {
        let last: Vec<&str> = said.lines().rev().take(40).collect();
        println!("{}", last.into_iter().rev().collect::<Vec<_>>().join("\n"));
        println!("repeat: {} FILE, with the file named above", program.display());
    }
    let inputs = std::fs::read_dir(&corpus).map(Iterator::count).unwrap_or_default();
    match executions {
        None if output.status.success() => Err("it ran nothing".to_owned()),
        executions => Ok(Outcome {
            executions: executions.unwrap_or_default(),
            inputs,
            is_clean: output.status.success(),
        }),
    }
}

/// From libFuzzer's `stat::number_of_executed_units: 12345`.
fn executions(said: &str) -> Option<u64> {
    let number = said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))?;
    number.trim().parse().ok().filter(|count| *count > 0)
}

/// The compiler's default target.
fn host() -> Option<String> {
    let output = Command::new("rustc").arg("-vV").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{TARGETS, executions};

    #[test]
    fn what_libfuzzer_says_is_read() {
        let said = "#2 INITED\nDone 3 runs\nstat::number_of_executed_units: 4711\nstat::peak_rss_mb: 30\n";
        assert_eq!(executions(said), Some(4711));
        assert_eq!(executions("stat::number_of_executed_units: 0"), None, "it did nothing");
        assert_eq!(executions("ERROR: libFuzzer: deadly signal"), None);
    }

    #[test]
    fn every_target_has_a_program() {
        let manifest = include_str!("../../fuzz/Cargo.toml");
        assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
        assert!(TARGETS.iter().all(|name| manifest.contains(&format!("name = \"{name}\""))));
    }
}
