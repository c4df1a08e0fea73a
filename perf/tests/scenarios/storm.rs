//! `storm`, of lost connections and of lists, beside 3 watchers that stay.

use crate::mock::Mischief;
use crate::{at_once, check, number, report, values};
use serde_json::Value;

pub(crate) const QUICK: &str =
    "storm --size 700B --seed 5 --calm 300ms --rounds 2 --rate 100 --live 3 --drain 1s --timeout 2s";

/// With exit code 0 nothing is wrong besides.
#[track_caller]
fn storm(mischief: Mischief, options: &str, code: i32, conditions: &str) -> Value {
    let report = report(mischief, &format!("{QUICK} {options}"), code, conditions);
    let wrongs = if code == 0 { "clean=true lost,duplicated,disconnected,told_410=0" } else { "clean=false" };
    check(&report, wrongs);
    report
}

#[test]
fn all_return_to_a_right_server() {
    let cases = [
        "--watchers 12",
        "--watchers 12 --close rst --threads 2",
        "--watchers 12 --processes 2 --spread 300ms --sources 2",
    ];
    at_once(cases, |options| {
        let report = storm(
            Mischief::None,
            options,
            0,
            "mark_met=true deliveries_checked=/deliveries_expected records/#=2 records/*/values/attempts=12 \
             records/*/values/failed_attempts=0 \
             records/*/values/all_answered_ns,records/*/values/live_latency_p99_before_ns>0 \
             records/*/values/live_deliveries_before>74",
        );
        assert_eq!(number(&report, "deliveries_checked") % 15.0, 0.0, "12 that returned and 3 that stayed");
        for round in &values(&report, "records/*/values") {
            let [closed, connected, answered_p50, answered, caught_up] =
                ["closed_ns", "connected_ns", "answered_p50_ns", "all_answered_ns", "all_caught_up_ns"]
                    .map(|field| number(round, field));
            assert!(
                closed <= connected && answered_p50 <= answered * 1.001 && answered < caught_up,
                "{round}"
            );
            assert!(!options.contains("spread") || connected > 2e8, "{round}");
            assert!(number(round, "server_rss_peak_bytes") >= number(round, "server_rss_before_bytes"));
        }
    });
}

#[test]
fn every_wrong_is_found() {
    // One at most of each watcher in each round.
    let lossy = storm(Mischief::ForgetOne, "--watchers 6 --spread 400ms", 1, "lost>0 lost<13");
    let in_rounds = number(&lossy, "records/0/values/lost") + number(&lossy, "records/1/values/lost");
    assert!(in_rounds <= number(&lossy, "lost"), "{lossy}");
    // All but the first, which missed nothing, get what they had seen in the calm again.
    let repeated = "lost=0 duplicated>79 records/0/values/duplicated=/duplicated";
    storm(Mischief::ReplayAll, "--watchers 6 --rounds 1 --spread 400ms", 1, repeated);
    for mischief in [Mischief::GoneEvent, Mischief::GoneStatus] {
        // They do not return, and what they missed is missing.
        let gone = "told_410>0 told_410<7 records/0/values/all_caught_up_ns=null records/0/values/told_410=/told_410 lost>0";
        storm(mischief, "--watchers 6 --rounds 1 --spread 400ms", 1, gone);
    }
    storm(
        Mischief::InitialTwice,
        "--lists --clients 4 --objects 30 --rounds 1",
        1,
        "records/0/values/objects_wrong=4",
    );
}

#[test]
fn attempts_that_fail_are_counted_and_made_again() {
    // Two of three attempts fail.
    let wanted = "records/0/values/failed_attempts>8 records/0/facts/first_failure!null";
    let report = storm(Mischief::Overloaded, "--watchers 9 --rounds 1", 0, wanted);
    assert_eq!(
        number(&report, "records/0/values/attempts"),
        9.0 + number(&report, "records/0/values/failed_attempts")
    );
}

#[test]
fn lists_are_checked_while_others_watch() {
    let wanted = "kind=lists records/*/values/objects_received=1200 records/*/values/objects_wrong=0 records/*/values/bytes>840000 \
                  records/*/values/last_byte_ns>0 mark_met=null deliveries_checked>0";
    storm(Mischief::None, "--lists --clients 4 --objects 300", 0, wanted);
}
