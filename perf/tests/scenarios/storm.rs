//! `storm` as a user starts it, against a server that is right and against servers that are wrong in one way each.

use crate::mock::Mischief;
use crate::{json, run};
use serde_json::Value;
use std::process::Output;

fn perf(mischief: Mischief, options: &str) -> Output {
    run(
        mischief,
        "storm",
        &[
            "--size 700B --seed 5 --calm 300ms --rounds 2 --rate 100 --live 3 --drain 1s --timeout 2s",
            options,
        ],
    )
}

fn report(mischief: Mischief, options: &str) -> (Value, Option<i32>) {
    json(&perf(mischief, &format!("--json {options}")))
}

/// lost, duplicated, disconnected, told 410
fn wrongs(report: &Value) -> [u64; 4] {
    ["lost", "duplicated", "disconnected", "told_410"].map(|field| report[field].as_u64().unwrap())
}

#[test]
fn everyone_comes_back_to_a_right_server() {
    for options in [
        "--watchers 12",
        "--watchers 12 --close rst --threads 2",
        "--watchers 12 --processes 2 --spread 300ms --sources 2",
    ] {
        let (report, code) = report(Mischief::None, options);
        assert_eq!((wrongs(&report), code), ([0; 4], Some(0)), "{options}: {report}");
        assert_eq!((&report["clean"], &report["mark_met"]), (&Value::from(true), &Value::from(true)));
        assert_eq!(report["deliveries_checked"], report["deliveries_expected"]);
        assert_eq!(
            report["deliveries_checked"].as_u64().unwrap() % 15,
            0,
            "12 that came back and 3 that stayed"
        );
        let rounds = report["records"].as_array().unwrap();
        assert_eq!(rounds.len(), 2);
        for round in rounds.iter().map(|record| &record["values"]) {
            let ns = |field: &str| round[field].as_u64().unwrap_or_else(|| panic!("{field}: {round}"));
            assert_eq!((&round["attempts"], &round["failed_attempts"]), (&Value::from(12), &Value::from(0)));
            assert!(
                ns("closed_ns") <= ns("connected_ns")
                    && ns("answered_p50_ns") <= ns("all_answered_ns") * 1001 / 1000
            );
            assert!(0 < ns("all_answered_ns") && ns("all_answered_ns") < ns("all_caught_up_ns"));
            assert!(!options.contains("spread") || ns("connected_ns") > 200_000_000, "{round}");
            assert!(
                ns("live_latency_p99_before_ns") > 0 && ns("live_deliveries_before") >= 3 * 25,
                "{round}"
            );
            assert!(round["server_rss_peak_bytes"].as_u64() >= round["server_rss_before_bytes"].as_u64());
        }
    }
}

#[test]
fn what_is_lost_or_comes_twice_over_a_cut_is_found() {
    let (lossy, code) = report(Mischief::ForgetOne, "--watchers 6 --spread 400ms");
    assert_eq!(code, Some(1), "{lossy}");
    let lost = lossy["lost"].as_u64().unwrap();
    assert!(0 < lost && lost <= 12, "one at most of each watcher in each round: {lossy}");
    let in_rounds: u64 = lossy["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|round| round["values"]["lost"].as_u64().unwrap())
        .sum();
    assert!(in_rounds <= lost, "{lossy}");
    let (repeating, code) = report(Mischief::ReplayAll, "--watchers 6 --rounds 1 --spread 400ms");
    assert_eq!((code, repeating["lost"].as_u64()), (Some(1), Some(0)), "{repeating}");
    // All but the first, who missed nothing, get what they had seen in the calm again.
    assert!(repeating["duplicated"].as_u64().unwrap() >= 4 * 20, "{repeating}");
    assert_eq!(repeating["records"][0]["values"]["duplicated"], repeating["duplicated"]);
}

#[test]
fn whoever_is_told_410_is_counted_and_does_not_come_back() {
    for mischief in [Mischief::GoneEvent, Mischief::GoneStatus] {
        let (report, code) = report(mischief, "--watchers 6 --rounds 1 --spread 400ms");
        let gone = report["told_410"].as_u64().unwrap();
        assert!(0 < gone && gone <= 6, "{mischief:?}: {report}");
        assert_eq!((&report["clean"], code), (&Value::from(false), Some(1)));
        assert!(report["records"][0]["values"]["all_caught_up_ns"].is_null(), "{report}");
        assert_eq!(report["records"][0]["values"]["told_410"].as_u64(), Some(gone));
        assert!(report["lost"].as_u64().unwrap() > 0, "what they missed is missing: {report}");
    }
}

#[test]
fn attempts_that_fail_are_counted_and_made_again() {
    let (report, code) = report(Mischief::Overloaded, "--watchers 9 --rounds 1");
    assert_eq!((wrongs(&report), code), ([0; 4], Some(0)), "{report}");
    let round = &report["records"][0]["values"];
    let failed = round["failed_attempts"].as_u64().unwrap();
    assert!(failed >= 9, "two of three attempts fail: {report}");
    assert_eq!(round["attempts"].as_u64(), Some(9 + failed));
    assert!(report["records"][0]["facts"]["first_failure"].is_string());
}

#[test]
fn lists_are_checked_while_others_watch() {
    let (right, code) = report(Mischief::None, "--lists --clients 4 --objects 300");
    assert_eq!((wrongs(&right), code, &right["kind"]), ([0; 4], Some(0), &Value::from("lists")), "{right}");
    for round in right["records"].as_array().unwrap().iter().map(|record| &record["values"]) {
        assert_eq!(
            (&round["objects_received"], &round["objects_wrong"]),
            (&Value::from(1200), &Value::from(0))
        );
        assert!(round["bytes"].as_u64().unwrap() > 1200 * 700 && round["last_byte_ns"].as_u64().unwrap() > 0);
    }
    assert!(right["mark_met"].is_null() && right["deliveries_checked"].as_u64().unwrap() > 0);
    let (wrong, code) = report(Mischief::InitialTwice, "--lists --clients 4 --objects 30 --rounds 1");
    assert_eq!(
        (&wrong["records"][0]["values"]["objects_wrong"], code),
        (&Value::from(4), Some(1)),
        "{wrong}"
    );
}

#[test]
fn a_person_gets_rounds_and_a_verdict() {
    let output = perf(Mischief::None, "--watchers 5 --rounds 1");
    let (screen, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(screen.contains("mark 3.00 s met in every round"), "{screen}");
    assert!(screen.contains("attempts        5 (5..5)") && screen.contains("told 410 0"), "{screen}");
    assert!(screen.contains("everyone came back and saw every write once"), "{screen}");
    assert!(said.contains("round 1  5 cut in"), "{said}");
}
