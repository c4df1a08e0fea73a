//! `slow` as a user starts it, against a server that is right and against servers that are wrong in one way each.

use crate::mock::Mischief;
use crate::{json, run};
use serde_json::Value;
use std::process::Output;

const USUAL: &str = "--watchers 10 --share 20 --rounds 2 --rate 100 --warmup 100ms --duration 500ms --objects 4 \
                     --fill 20KiB --drain 3s --seed 5";

fn perf(mischief: Mischief, options: &str) -> Output {
    run(mischief, "slow", &[USUAL, options])
}

fn report(mischief: Mischief, options: &str) -> (Value, Option<i32>) {
    json(&perf(mischief, &format!("--json {options}")))
}

#[test]
fn those_who_never_read_are_outside_of_the_account() {
    let (report, code) = report(Mischief::None, "--stall 5s");
    assert_eq!((&report["clean"], code), (&Value::from(true), Some(0)), "{report}");
    assert_eq!((&report["started_with"], &report["fill_bytes"]), (&Value::from("5s"), &Value::from(20_480)));
    let share = &report["tables"][0];
    assert_eq!((&share["slow"], &share["healthy"]), (&Value::from(2), &Value::from(8)));
    let records = report["records"].as_array().unwrap();
    assert_eq!(records.len(), 4, "two rounds of two states");
    for round in records.chunks(2) {
        for (record, slow) in [(&round[0], 0), (&round[1], 2)] {
            let half = &record["values"];
            // 60 writes at a rate after the fill of 20, to each of the eight.
            assert_eq!(half["deliveries_checked"], 8 * (60 + 20), "{half}");
            assert_eq!(half["deliveries_expected"], 8 * (60 + 20));
            assert_eq!((&half["deaf"], &record["watchers"]), (&Value::from(slow), &Value::from(8 + slow)));
            assert_eq!(half["deaf_ended"], 0);
        }
        // Each of the two has 80 events of a KiB and more in the kernel.
        let unread = round[1]["values"]["kernel_unread_bytes"].as_u64().unwrap();
        assert!((2 * 80 * 1024..2 * 80 * 1500).contains(&unread), "{unread}");
    }
    assert!(share["states"][1]["ratios"]["latency_p99_ns"]["median"].as_f64().unwrap() > 0.0, "{share}");
    assert_eq!((&share["healthy_ended"], &share["slow_ended"]), (&Value::from(0), &Value::from(0)));
}

#[test]
fn several_shares_a_small_buffer_and_processes() {
    let options = "--share 30,50 --rounds 1 --receive-buffer 4KiB --processes 2 --threads 2";
    let (report, code) = report(Mischief::None, options);
    assert_eq!((&report["clean"], code), (&Value::from(true), Some(0)), "{report}");
    for (at, slow) in [(0, 3u64), (1, 5)] {
        assert_eq!(report["tables"][at]["slow"], slow);
        let half = &report["records"][2 * at + 1]["values"];
        assert_eq!(half["deliveries_checked"], (10 - slow) * 80);
        // What does not fit into so small a buffer waits at the server's end.
        let unsent = half["kernel_unsent_bytes"].as_u64().unwrap();
        assert!(unsent > slow * 40 * 1024, "{half}");
    }
}

#[test]
fn who_is_ended_is_told() {
    let (report, code) = report(Mischief::HangUpAll, "--rounds 1 --drain 500ms");
    assert_eq!((&report["clean"], code), (&Value::from(false), Some(1)), "{report}");
    let share = &report["tables"][0];
    assert_eq!(share["healthy_ended"], 8 + 8, "in both halves: {share}");
    assert_eq!(share["slow_ended"], 2, "{share}");
}

#[test]
fn one_healthy_watcher_that_loses_an_event_is_not_clean() {
    let (report, code) = report(Mischief::Duplicate, "--share 1 --watchers 100 --rounds 1");
    assert_eq!(code, Some(1), "{report}");
    assert!(report["tables"][0]["duplicated"].as_u64().unwrap() >= 1, "{report}");
}

#[test]
fn a_person_gets_a_report() {
    let output = perf(Mischief::None, "--rounds 1");
    let screen = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(screen.contains("20 % never read: 2 beside 8 healthy, 1 rounds"), "{screen}");
    assert!(screen.contains("latency p99") && screen.contains("more for a slow"), "{screen}");
    assert!(screen.contains("lost 0  duplicated 0  out of order 0  ended 0"), "{screen}");
}
