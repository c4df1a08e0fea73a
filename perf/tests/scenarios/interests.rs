//! `interests` as a user starts it, against a server that is right and against servers that are wrong in one way each.

use crate::mock::Mischief;
use crate::{json, run};
use serde_json::Value;
use std::process::Output;

fn perf(mischief: Mischief, options: &str) -> Output {
    run(
        mischief,
        "interests",
        &[
            "--watchers 6 --size 700B --seed 5 --warmup 100ms --duration 300ms --rounds 1 --rate 200 --drain 1s",
            options,
        ],
    )
}

fn report(mischief: Mischief, options: &str) -> (Value, Option<i32>) {
    json(&perf(mischief, &format!("--json {options}")))
}

/// Each case has a server of its own, and mostly waits.
fn at_once<T: Send>(cases: impl IntoIterator<Item = T>, check: impl Fn(T) + Sync) {
    let check = &check;
    std::thread::scope(|scope| cases.into_iter().for_each(|case| drop(scope.spawn(move || check(case)))));
}

#[test]
fn every_kind_of_interest_gets_its_own_writes() {
    at_once(["node", "label", "namespace", "name"], |by| {
        let (report, code) = report(Mischief::None, &format!("--by {by} --sizes none"));
        assert_eq!((&report["clean"], code), (&Value::from(true), Some(0)), "{by}: {report}");
        assert_eq!((&report["by"], &report["objects"]), (&Value::from(by), &Value::from(6)));
        let tables = report["tables"].as_array().unwrap();
        let watchers: Vec<u64> =
            tables[0]["states"].as_array().unwrap().iter().map(|s| s["watchers"].as_u64().unwrap()).collect();
        assert_eq!((tables.len(), watchers), (1, vec![0, 1, 6]));
        // 200/s for 300 ms in each of three states; nobody watched in one of them.
        assert_eq!(
            (&report["writes"], &report["deliveries"]),
            (&Value::from(180), &Value::from(120)),
            "{by}"
        );
        assert!(tables[0]["states"][2]["server_cpu_ns_per_write"]["median"].as_f64().unwrap() > 0.0);
        assert!(tables[0]["states"][2]["latency_p99_ns"]["median"].as_f64().unwrap() > 0.0);
        assert!(tables[0]["states"][0]["latency_p99_ns"].is_null(), "nobody saw anything");
    });
}

#[test]
fn rates_and_sizes_are_tables_of_their_own() {
    let (report, code) = report(Mischief::None, "--by label --sizes 3 --rate 200,max --threads 2");
    assert_eq!((&report["clean"], code), (&Value::from(true), Some(0)), "{report}");
    let tables = report["tables"].as_array().unwrap();
    let seen: Vec<(u64, Option<f64>)> = tables
        .iter()
        .map(|table| (table["interests"].as_u64().unwrap(), table["write_rate_wanted_per_second"].as_f64()))
        .collect();
    assert_eq!(seen, [(3, Some(200.0)), (6, Some(200.0)), (6, None)]);
    // Three tables of three states.
    let records = report["records"].as_array().unwrap();
    assert_eq!(records.len(), 9);
    assert!(records.iter().all(|record| record["clean"] == true && record["scenario"] == "interests"));
    assert!(records[2]["values"]["server_cpu_ns_per_delivery"].is_number(), "{}", records[2]);
}

#[test]
fn every_wrong_is_found() {
    let cases = [
        (Mischief::Drop, "lost"),
        (Mischief::Duplicate, "duplicated"),
        (Mischief::Reorder, "out_of_order"),
        (Mischief::HangUp, "disconnected"),
        (Mischief::Garbage, "malformed"),
        (Mischief::IgnoreSelectors, "unexpected"),
    ];
    at_once(cases, |(mischief, field)| {
        let (report, code) = report(mischief, "--by node --sizes none");
        assert_eq!((&report["clean"], code), (&Value::from(false), Some(1)), "{mischief:?}: {report}");
        assert!(report[field].as_u64().unwrap() > 0, "{mischief:?}: {report}");
        assert!(mischief == Mischief::Drop || report["first_fault"].is_string());
    });
}

#[test]
fn a_person_gets_tables() {
    let output = perf(Mischief::None, "--by name --sizes 2");
    let (screen, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(screen.contains("6 interests over one watcher") && screen.contains("mark 3"), "{screen}");
    assert!(screen.contains("  2 interests, writes at 200/s"), "{screen}");
    assert!(screen.contains("lost 0  duplicated 0  out of order 0  unexpected 0"), "{screen}");
    assert!(said.contains("round 1  6 interests"), "{said}");
}
