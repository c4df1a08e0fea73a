//! `compare`: servers that run, servers that it starts, and the floor, in turns; and one that fails among them.

use crate::mock::{self, Mischief};
use crate::{Ran, fresh, front, revcast_perf, values};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;

fn compare(subjects: &[&str], options: &str) -> Ran {
    let quick = "--watchers 5 --rate 100 --warmup 100ms --duration 300ms --objects 4 --drain 3s";
    revcast_perf(&format!("compare {} {quick} {options}", shell_words::join(subjects)))
}

/// A server that `compare` starts: this very program, with one of its tests.
fn started(test: &str, words: &str) -> String {
    format!("'{}' --exact {test} port={{port}} {words}", std::env::current_exe().unwrap().display())
}

/// Not a test but a server, when it is told a port: names that are no test's are passed over by the test harness.
#[test]
fn a_server_to_start() {
    let told = |key: &str| std::env::args().find_map(|word| word.strip_prefix(key).map(str::to_owned));
    let Some(port) = told("port=") else { return };
    mock::start_at(port.parse().unwrap(), Mischief::None);
    fs::write(told("note=").unwrap(), std::process::id().to_string()).unwrap();
    std::thread::sleep(Duration::from_secs(120));
}

#[test]
fn a_server_and_the_floor_take_turns() {
    let (url, out) = (format!("http://{}", mock::start(Mischief::None)), fresh("lines"));
    let report = compare(&[&url, "floor:send"], &format!("--rounds 2 --json --out {}", out.display())).report(
        0,
        "records/*/watchers=5 records/*/clean=true records/*/values/deliveries_checked=200 records/*/scenario=fanout \
         records/*/object_bytes=1024 records/*/latency/#>0",
    );
    assert_eq!(
        values(&report, "records/*/subject"),
        [&url, "floor send", "floor send", &url],
        "A B, then B A"
    );
    let lines = fs::read_to_string(&out).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(Value::from(lines), report["records"]);
    fs::remove_file(out).unwrap();
}

#[test]
fn a_started_server_is_ended_and_the_screen_has_ratios() {
    let note = fresh("pid");
    let server = started("compare::a_server_to_start", &format!("note={}", note.display()));
    let screen = "Watchers 3\n|Watchers 4\n|of A|A = floor:writev";
    compare(&["floor:writev", &server], "--rounds 1 --watchers 3,4").shows(0, screen, "");
    let pid = fs::read_to_string(&note).unwrap();
    assert!(!Path::new("/proc").join(pid).exists(), "the server of the last round has ended");
    fs::remove_file(note).unwrap();
}

#[test]
fn one_that_fails_is_named_and_the_rest_goes_on() {
    let url = format!("http://{}", mock::start(Mischief::None));
    let ran = compare(&[&started("no_such_test", ""), &url], "--rounds 2 --json");
    ran.shows(1, "", "no_such_test|ended by itself");
    // The other was measured in both rounds.
    let report = ran.report(1, "records/#=2 records/*/clean=true");
    assert_eq!(values(&report, "records/*/subject"), [&*url, &url]);
}

#[test]
fn a_server_that_is_wrong_is_not_clean() {
    let wrong = format!("http://{}", mock::start(Mischief::Drop));
    compare(&[&wrong, "floor:uring"], "--rounds 1").shows(1, &format!("Not clean {wrong}"), "");
}

#[test]
fn one_server_is_asked_in_several_ways() {
    let (address, file) = front::start(mock::start(Mischief::None), Mischief::None, true);
    let (url, file) = (format!("https://{address}"), file.unwrap());
    let subjects = [&url, &format!("http2:{url}"), "http2:tls:floor:send"];
    let options = format!("--rounds 1 --json --streams-per-connection 3 --ca {}", file.display());
    let facts = "records/*/values/deliveries_checked=200 records/*/facts/http2=[false,true,true] records/*/facts/tls=true protocol=null";
    let report = compare(&subjects, &options).report(0, facts);
    assert_eq!(
        values(&report, "records/*/subject"),
        [subjects[0], subjects[1], "floor send, HTTP/2 with 3 streams, TLS"]
    );
    fs::remove_file(file).unwrap();
}
