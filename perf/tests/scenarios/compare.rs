//! `compare` as a user starts it: servers that run, servers that it starts, and the floor, in turns; and what becomes of
//! the rest when one of them fails.

use crate::mock::{self, Mischief};
use crate::{PROGRAM, json};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

const QUICK: &str = "--watchers 5 --rate 100 --warmup 100ms --duration 300ms --objects 4 --drain 3s";

fn compare(subjects: &[&str], options: &str) -> Output {
    Command::new(PROGRAM)
        .arg("compare")
        .args(subjects)
        .args(QUICK.split_ascii_whitespace())
        .args(options.split_ascii_whitespace())
        .output()
        .expect("the program was just built")
}

fn records(output: &Output) -> Vec<Value> {
    json(output).0["records"].as_array().cloned().unwrap()
}

/// What `compare` starts: this very program, whose test below is then a server.
fn server(note: &Path) -> String {
    let own = std::env::current_exe().unwrap();
    format!("'{}' --exact compare::a_server_to_start port={{port}} note={}", own.display(), note.display())
}

fn note(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()))
}

/// Not a test but a server, when it is told a port: names that are no test's are passed over by the test harness.
#[test]
fn a_server_to_start() {
    let told = |key: &str| std::env::args().find_map(|word| word.strip_prefix(key).map(str::to_owned));
    let Some(port) = told("port=") else { return };
    mock::start_at(port.parse().unwrap(), Mischief::None);
    std::fs::write(told("note=").unwrap(), std::process::id().to_string()).unwrap();
    thread::sleep(Duration::from_secs(120));
}

#[test]
fn a_server_and_the_floor_take_turns() {
    let address = mock::start(Mischief::None);
    let out = note("lines");
    let url = format!("http://{address}");
    let output = compare(&[&url, "floor:send"], &format!("--rounds 2 --json --out {}", out.display()));
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let records = records(&output);
    let subjects: Vec<&str> = records.iter().map(|record| record["subject"].as_str().unwrap()).collect();
    assert_eq!(subjects, [&url, "floor send", "floor send", &url], "A B, then B A");
    for record in &records {
        assert_eq!((&record["watchers"], &record["clean"]), (&5.into(), &true.into()), "{record}");
        assert_eq!(record["values"]["deliveries_checked"], 5.0 * 40.0, "{record}");
        assert_eq!(
            (&record["scenario"], &record["object_bytes"]),
            (&"fanout".into(), &1024.into()),
            "{record}"
        );
        assert!(!record["latency"].as_array().unwrap().is_empty(), "{record}");
    }
    let lines = std::fs::read_to_string(&out).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, records);
    std::fs::remove_file(out).unwrap();
}

#[test]
fn a_started_server_is_ended_and_the_screen_has_ratios() {
    let note = note("pid");
    let output = compare(&["floor:writev", &server(&note)], "--rounds 1 --watchers 3,4");
    let screen = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{screen} {}", String::from_utf8_lossy(&output.stderr));
    assert!(screen.contains("3 watchers\n") && screen.contains("4 watchers\n"), "{screen}");
    assert!(screen.contains("of A") && screen.contains("A = floor:writev"), "{screen}");
    let pid = std::fs::read_to_string(&note).unwrap();
    assert!(!Path::new("/proc").join(pid).exists(), "the server of the last round has ended");
    std::fs::remove_file(note).unwrap();
}

#[test]
fn one_that_fails_is_named_and_the_rest_goes_on() {
    let address = mock::start(Mischief::None);
    let url = format!("http://{address}");
    let own = std::env::current_exe().unwrap();
    let ends = format!("'{}' --exact no_such_test {{port}}", own.display());
    let output = compare(&[&ends, &url], "--rounds 2 --json");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no_such_test") && said.contains("ended by itself"), "{said}");
    let records = records(&output);
    assert_eq!(records.len(), 2, "the other was measured in both rounds");
    assert!(records.iter().all(|record| record["subject"] == url.as_str() && record["clean"] == true));
}

#[test]
fn a_server_that_is_wrong_is_not_clean() {
    let wrong = format!("http://{}", mock::start(Mischief::Drop));
    let output = compare(&[&wrong, "floor:uring"], "--rounds 1");
    let screen = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{screen}");
    assert!(screen.contains(&format!("NOT CLEAN: {wrong}")), "{screen}");
}

#[test]
fn a_bad_subject_is_one_line() {
    let output = compare(&["floor", "nonsense"], "");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("nonsense"), "{said}");
}
