//! `interests`: 6 watchers, 60 writes in each state.

use crate::mock::Mischief;
use crate::{at_once, report, values};
use serde_json::Value;

pub(crate) const QUICK: &str = "interests --watchers 6 --size 700B --seed 5 --warmup 100ms --duration 300ms --rounds 1 --rate 200 --drain 1s";

#[test]
fn every_kind_of_interest_gets_its_own_writes() {
    at_once(["node", "label", "namespace", "name"], |by| {
        // In one of the three states nobody watches.
        let report = report(
            Mischief::None,
            &format!("{QUICK} --by {by} --sizes none"),
            0,
            "clean=true objects=6 tables/#=1 tables/0/states/#=3 writes=180 deliveries=120 \
             tables/0/states/2/server_cpu_ns_per_write/median,tables/0/states/2/latency_p99_ns/median>0 \
             tables/0/states/0/latency_p99_ns=null",
        );
        assert_eq!(report["by"], by);
        assert_eq!(values(&report, "tables/0/states/*/watchers"), [0, 1, 6]);
    });
}

#[test]
fn rates_and_sizes_are_tables_of_their_own() {
    // Three tables of three states.
    let report = report(
        Mischief::None,
        &format!("{QUICK} --by label --sizes 3 --rate 200,max --threads 2"),
        0,
        "clean=true records/#=9 records/*/clean=true records/*/scenario=interests records/2/values/server_cpu_ns_per_delivery!null",
    );
    assert_eq!(values(&report, "tables/*/interests"), [3, 6, 6]);
    let rates: [Value; 3] = [200.0.into(), 200.0.into(), Value::Null];
    assert_eq!(values(&report, "tables/*/write_rate_wanted_per_second"), rates);
}

#[test]
fn every_wrong_is_found() {
    let cases = [
        (Mischief::Drop, "lost>0"),
        (Mischief::Duplicate, "duplicated>0 first_fault!null"),
        (Mischief::Reorder, "out_of_order>0 first_fault!null"),
        (Mischief::HangUp, "disconnected>0 first_fault!null"),
        (Mischief::Garbage, "malformed>0 first_fault!null"),
        (Mischief::IgnoreSelectors, "unexpected>0 first_fault!null"),
    ];
    at_once(cases, |(mischief, wrong)| {
        report(mischief, &format!("{QUICK} --by node --sizes none"), 1, &format!("clean=false {wrong}"));
    });
}
