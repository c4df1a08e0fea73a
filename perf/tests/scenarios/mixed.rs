//! `mixed` as a user starts it, and the probe, against a server that is right and against servers that are wrong in one
//! way each.

use crate::mock::Mischief;
use crate::{json, run};
use serde_json::Value;
use std::process::Output;

fn perf(mischief: Mischief, scenario: &str, options: &str) -> Output {
    run(mischief, scenario, &["--drain 3s --seed 5", options])
}

fn report(mischief: Mischief, scenario: &str, options: &str) -> (Value, Option<i32>) {
    json(&perf(mischief, scenario, &format!("--json {options}")))
}

const MIXED: &str =
    "--watchers 100 --namespaces 2 --rate 100 --warmup 200ms --duration 1s --readers 2 --churn 100";

#[test]
fn all_at_once_and_nobody_misses_anything() {
    let (report, code) = report(Mischief::None, "mixed", MIXED);
    assert_eq!((&report["clean"], code), (&Value::from(true), Some(0)), "{report}");
    assert_eq!((&report["scenario"], &report["deaf"]), (&Value::from("mixed"), &Value::from(5)));
    let count = |value: &Value| value.as_u64().unwrap();
    assert_eq!(report["deliveries_checked"], report["deliveries_expected"]);
    // 95 read, about two thirds of the writes to their namespace go to each of them.
    assert!((2000..95 * 120).contains(&count(&report["deliveries_checked"])), "{report}");
    for field in ["lost", "duplicated", "out_of_order", "unexpected", "malformed", "disconnected"] {
        assert_eq!(report[field], 0, "{field}: {report}");
    }
    // Each goes about once a second.
    assert!(count(&report["returned"]) >= 20, "{report}");
    for calls in ["livez_fresh", "livez_kept"] {
        assert!((30..=50).contains(&count(&report[format!("{calls}_answered")])), "{calls}: {report}");
        assert!(count(&report[format!("{calls}_p50_ns")]) <= count(&report[format!("{calls}_max_ns")]));
    }
    assert!(count(&report["lists_answered"]) > 0 && count(&report["gets_answered"]) > 0, "{report}");
    assert_eq!(report["calls_failed"], 0);
}

#[test]
fn who_comes_back_and_misses_something_has_lost_it() {
    let (report, code) = report(Mischief::ForgetMissed, "mixed", &format!("{MIXED} --rate 1000"));
    assert_eq!(code, Some(1), "{report}");
    assert!(report["lost"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn a_server_that_says_it_is_unwell_is_not_clean() {
    let (report, code) = report(Mischief::Unwell, "mixed", &format!("{MIXED} --churn 0"));
    assert_eq!((&report["clean"], code), (&Value::from(false), Some(1)), "{report}");
    assert_eq!(report["lost"], 0);
    // Two probes, and nine of ten calls of each reader.
    assert!(report["calls_failed"].as_u64().unwrap() > 60, "{report}");
    assert!(report["calls_first_fault"].as_str().unwrap().contains("not well"), "{report}");
}

#[test]
fn a_fanout_can_be_probed() {
    let usual = "--watchers 6 --rate 100 --warmup 100ms --duration 1s --objects 4";
    let (probed, code) = report(Mischief::None, "fanout", &format!("{usual} --probe"));
    assert_eq!((&probed["clean"], code), (&Value::from(true), Some(0)), "{probed}");
    assert!((30..=50).contains(&probed["livez_fresh_answered"].as_u64().unwrap()), "{probed}");
    assert!(
        probed["livez_client_delay_p99_ns"].is_number() && probed.get("lists_answered").is_none(),
        "{probed}"
    );
    let (plain, _) = report(Mischief::None, "fanout", usual);
    assert!(plain.get("livez_fresh_answered").is_none() && plain.get("calls_failed").is_none(), "{plain}");
}

#[test]
fn a_person_gets_a_report() {
    let output = perf(Mischief::None, "mixed", MIXED);
    let screen = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{screen}{}", String::from_utf8_lossy(&output.stderr));
    for part in ["/livez, fresh", "/livez, kept", "LISTs", "GETs", "came back", "never read", "at the start"]
    {
        assert!(screen.contains(part), "{part}: {screen}");
    }
}
