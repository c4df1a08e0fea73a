//! `mixed`, and the probe that `fanout` may have too.

use crate::mock::Mischief;
use crate::{number, report};

/// 95 of the watchers read.
pub(crate) const QUICK: &str = "mixed --watchers 100 --namespaces 2 --rate 100 --warmup 200ms --duration 1s --readers 2 --churn 100 \
                     --drain 3s --seed 5";

#[test]
fn all_at_once_and_nobody_misses_anything() {
    // About two thirds of the writes to their namespace go to each of them, and each leaves about once a second.
    let report = report(
        Mischief::None,
        QUICK,
        0,
        "clean=true scenario=mixed deaf=5 deliveries_checked=/deliveries_expected deliveries_checked>1999 \
         deliveries_checked<11400 lost,duplicated,out_of_order,unexpected,malformed,disconnected,calls_failed=0 returned>19 \
         livez_fresh_answered,livez_kept_answered>29 livez_fresh_answered,livez_kept_answered<51 \
         lists_answered,gets_answered>0",
    );
    for calls in ["livez_fresh", "livez_kept"] {
        assert!(number(&report, &format!("{calls}_p50_ns")) <= number(&report, &format!("{calls}_max_ns")));
    }
}

#[test]
fn every_wrong_is_found() {
    // A watcher that returns and misses something has lost it.
    report(Mischief::ForgetMissed, &format!("{QUICK} --rate 1000"), 1, "lost>0");
    // Two probes, and nine of ten calls of each reader.
    let wrong = "clean=false lost=0 calls_failed>60 calls_first_fault~well";
    report(Mischief::Unwell, &format!("{QUICK} --churn 0"), 1, wrong);
}

#[test]
fn a_fanout_can_be_probed() {
    let usual = "fanout --watchers 6 --rate 100 --warmup 100ms --duration 1s --objects 4";
    let probed = "clean=true livez_fresh_answered>29 livez_fresh_answered<51 livez_client_delay_p99_ns!null lists_answered=null";
    report(Mischief::None, &format!("{usual} --probe"), 0, probed);
    report(Mischief::None, usual, 0, "livez_fresh_answered,calls_failed=null");
}
