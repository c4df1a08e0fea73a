//! `fanout`, the files that it keeps, and the page that `report` makes of them.

use crate::mock::Mischief;
use crate::{at_once, check, fresh, number, report, revcast_perf, run};
use serde_json::Value;
use std::fs;

/// 6 watchers and about 60 writes, 50 of them measured.
pub(crate) const QUICK: &str = "fanout --floor off --watchers 6 --rate 100 --warmup 100ms --duration 500ms --objects 4 --seed 5 --drain 3s";

/// With exit code 0 nothing is wrong besides.
#[track_caller]
fn fanout(mischief: Mischief, options: &str, code: i32, conditions: &str) -> Value {
    let report = report(mischief, &format!("{QUICK} {options}"), code, conditions);
    if code == 0 {
        check(&report, "clean=true lost,duplicated,out_of_order,disconnected,malformed=0");
    }
    report
}

#[test]
fn a_right_server_is_found_right() {
    let report = fanout(
        Mischief::None,
        "",
        0,
        "deliveries_checked,deliveries_expected=360 deliveries=300 writes=50 object_bytes=1024 latency_p50_ns>0 \
         latency_max_ns<10000000000 server_cpu_ns_per_delivery,rss_bytes_per_watcher!null",
    );
    assert!(number(&report, "latency_p50_ns") <= number(&report, "latency_max_ns"), "{report}");
    // The mock lives in this very process: so that is whose port was found.
    assert_eq!(report["server_pid"], std::process::id());
}

#[test]
fn options_change_what_is_expected() {
    at_once(
        [
            // Each namespace has 3 of the 9 watchers, and each write goes to one namespace.
            (
                "--watchers 9 --processes 2 --threads 2 --namespaces 3 --writers 2 --sources 2 --size 3KiB",
                "deliveries_checked=180 object_bytes=3072",
            ),
            ("--rate max --pipeline 8", "writes>100"),
            // Larger than one read.
            ("--size 600KiB --rate 20 --watchers 2 --bookmarks", "deliveries_checked=24"),
            // Every object has one of the four watchers.
            ("--field-selector metadata.name={object} --watchers 4", "deliveries_checked=60"),
        ],
        |(options, conditions)| drop(fanout(Mischief::None, options, 0, conditions)),
    );
    let labelled = fanout(Mischief::None, "--label-selector half=odd", 0, "deliveries_checked>0");
    let half = number(&labelled, "deliveries_checked");
    assert!(half < 360.0 && half % 6.0 == 0.0, "{half}");
}

#[test]
fn writes_wait_for_watchers_that_are_slow() {
    // 20 ahead, and 50 a second for 600 ms: 50 in all, were every clock exact. On its own a writer sends thousands.
    let options = "--rate max --ahead 20 --writers 2 --threads 2";
    fanout(Mischief::Slow, options, 0, "deliveries_expected>119 deliveries_expected<426");
    // Each of the four has an object of its own: 200 a second.
    let options = "--rate max --ahead 20 --field-selector metadata.name={object} --watchers 4 --processes 2";
    fanout(Mischief::Slow, options, 0, "deliveries_expected>59 deliveries_expected<201");
    // A watcher that is gone has no part in the deliveries from its tenth event on.
    fanout(Mischief::HangUp, "--rate max --ahead 5", 1, "disconnected=1 deliveries_checked>250");
}

#[test]
fn every_wrong_is_found() {
    at_once(
        [
            (Mischief::Drop, "", 1, "lost=1 duplicated,out_of_order,disconnected=0"),
            (
                Mischief::Duplicate,
                "",
                1,
                "duplicated=1 lost,out_of_order,disconnected=0 deliveries_checked=360",
            ),
            (Mischief::Reorder, "", 1, "out_of_order=1 lost,duplicated,disconnected=0"),
            (Mischief::HangUp, "--processes 2", 1, "lost=51 disconnected=1 duplicated,out_of_order=0"),
            (Mischief::WrongType, "", 1, "unexpected=1"),
            (Mischief::Garbage, "", 1, "malformed=1 first_fault~nonsense"),
            // What the server refused is not lost.
            (Mischief::RefuseWrites, "", 0, "deliveries_checked=/deliveries_expected writes_failed>24"),
        ],
        |(mischief, options, code, conditions)| drop(fanout(mischief, options, code, conditions)),
    );
    let refused = run(Mischief::RefuseWatches, "fanout --watchers 3");
    refused.shows(1, "", "answered a watch with 429: storage is (re)initializing");
}

#[test]
fn a_run_is_kept_and_shown_and_nothing_is_overwritten() {
    let (folder, page) = (fresh("fanout"), fresh("fanout").join("page.html"));
    let keep =
        format!("{QUICK} --watchers 5 --duration 2s --warmup 200ms --quiet --out {}", folder.display());
    for subject in ["the_mock", "the_mock", "'<script>'"] {
        let ran = run(Mischief::None, &format!("{keep} --subject {subject}"));
        assert_eq!((ran.code, ran.said.as_str()), (Some(0), ""), "it was to be quiet");
    }
    let kept = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_else(|_| panic!("{name}"));
    for stem in ["fanout-the-mock-r1", "fanout-the-mock-r1-2"] {
        let record: Value = serde_json::from_str(&kept(&format!("{stem}.json"))).unwrap();
        let conditions = "scenario=fanout watchers=5 clean=true write_rate_per_second=100 values/deliveries=1000 \
             values/server_cpu_ns_per_delivery!null machine/cores>0 series/#>1 series/*/server_rss_bytes>0";
        check(&record, conditions);
        let sum = |path: &str| values_sum(&record, path);
        assert_eq!(sum("latency/*/1"), 1000.0);
        assert!(sum("series/*/deliveries_per_second") > 0.0, "{record}");
        assert!(record["command"].as_str().unwrap().starts_with("revcast-perf fanout --"), "{record}");
        let rows = record["series"].as_array().unwrap().len();
        assert_eq!(kept(&format!("{stem}.csv")).lines().count(), rows + 1);
        assert!(kept(&format!("{stem}.hgrm")).contains("Total count    =         1000]"));
    }

    let report = |path: &str| {
        let paths = format!("{} --html {}", folder.join(path).display(), page.display());
        revcast_perf(&format!("report --title 'A & B' {paths}"))
    };
    report("").shows(0, "", "3 records: ");
    let html = fs::read_to_string(&page).unwrap();
    let parts =
        "<h1>A &amp; B</h1>|Latency percentiles, 5 watchers|Deliveries over time|&lt;script&gt;|</html>";
    parts.split('|').for_each(|part| assert!(html.contains(part), "{part}"));
    assert!(!html.contains("<script"), "a name is text");
    fs::write(folder.join("broken.json"), "{\"scenario\":").unwrap();
    report("").shows(1, "", "broken.json: not a record|3 records: ");
    report("broken.json").shows(1, "", "no record was found");
    fs::remove_dir_all(&folder).unwrap();
}

fn values_sum(report: &Value, path: &str) -> f64 {
    crate::values(report, path).iter().filter_map(Value::as_f64).sum()
}
