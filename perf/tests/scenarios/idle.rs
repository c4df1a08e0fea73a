//! `idle` as a user starts it, against a server that leaves its watchers alone and one that ends them.

use crate::mock::{self, Mischief};
use crate::{PROGRAM, json, run};
use serde_json::Value;
use std::process::{Command, Output};

fn perf(mischief: Mischief, options: &str) -> Output {
    run(mischief, "idle", &["", options])
}

#[test]
fn heartbeats_and_bookmarks_are_counted_and_nobody_is_ended() {
    let options = "--watchers 8 --prime 2 --rounds 2 --duration 1s --threads 2 --processes 2 --json";
    let output = perf(Mischief::None, options);
    let (report, code) = json(&output);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!((&report["clean"], &report["ended"]), (&Value::from(true), &Value::from(0)));
    assert_eq!((&report["watchers"], &report["primed"]), (&Value::from(8), &Value::from(2)));
    // The mock lives in this very process: so that is whose port was found.
    assert_eq!(report["server_pid"], std::process::id());
    let rounds = report["records"].as_array().unwrap();
    assert_eq!(rounds.len(), 2);
    for round in rounds.iter().map(|record| &record["values"]) {
        let count = |field: &str| round[field].as_u64().unwrap();
        // One of each every 100 ms for each of eight; the machine may be busy.
        assert!((8..=15 * 8).contains(&count("bookmarks")), "{round}");
        assert!((8..=15 * 8).contains(&count("heartbeats")), "{round}");
        assert!(count("bytes") > 6 * count("heartbeats") + 50 * count("bookmarks"), "{round}");
        assert!(round["server_cpu_share"].is_number() && round["waited_anon_bytes"].is_number());
    }
    assert!(report["tables"][0]["states"][0]["anon_bytes_per_watcher"]["median"].is_number());
}

#[test]
fn a_server_that_hangs_up_is_told() {
    // The heartbeats are no events: so somebody has to write.
    let address = mock::start(Mischief::HangUpAll);
    let run = Command::new(PROGRAM)
        .args(["idle", "--server", &format!("http://{address}"), "--watchers", "3", "--prime", "0"])
        .args(["--duration", "2500ms", "--json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let disturbing =
        "--namespace idle --objects 1 --watchers 1 --rate 100 --warmup 0 --duration 200ms --drain 0";
    let _status = Command::new(PROGRAM)
        .args(["fanout", "--server", &format!("http://{address}")])
        .args(disturbing.split_ascii_whitespace())
        .output()
        .unwrap();
    let output = run.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &report["ended"]), (Some(1), &Value::from(3)), "{report}");
    assert!(report["foreign"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn a_person_gets_a_report() {
    let output = perf(Mischief::None, "--watchers 5 --prime 1 --duration 300ms");
    let screen = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(screen.contains("memory each") && screen.contains("socket memory"), "{screen}");
    assert!(screen.contains("ended           0") && screen.contains("% of a core"), "{screen}");
}
