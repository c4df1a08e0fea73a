//! The files that runs keep, and the page that `report` makes of them.

use crate::cases::{FANOUT, INITIAL};
use crate::mock::Mischief;
use crate::{check, fresh, report, revcast_perf, run};
use serde_json::Value;
use std::fs;

#[test]
fn a_run_is_kept_and_shown_and_nothing_is_overwritten() {
    let (folder, page) = (fresh("fanout"), fresh("fanout").join("page.html"));
    let keep =
        format!("{FANOUT} --watchers 5 --duration 2s --warmup 200ms --quiet --out {}", folder.display());
    for subject in ["the_mock", "the_mock", "'<script>'"] {
        let ran = run(Mischief::None, &format!("{keep} --subject {subject}"));
        assert_eq!((ran.code, ran.said.as_str()), (Some(0), ""), "it was to be quiet");
    }
    let kept = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_else(|_| panic!("{name}"));
    for stem in ["fanout-the-mock-r1", "fanout-the-mock-r1-2"] {
        let record: Value = serde_json::from_str(&kept(&format!("{stem}.json"))).unwrap();
        let conditions = "scenario=fanout watchers=5 clean=true write_rate_per_second=100 values/deliveries=1000 \
             values/server_cpu_ns_per_delivery!null machine/cores>0 series/#>1 series/*/server_rss_bytes>0 \
             +latency/*/1=1000 +series/*/deliveries_per_second>0";
        check(&record, conditions);
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

#[test]
fn an_initial_run_is_kept() {
    let folder = fresh("initial");
    let options = format!("--list --subject mock --out {}", folder.display());
    report(Mischief::None, &format!("{INITIAL} {options}"), 0, "clean=true");
    let text = fs::read_to_string(folder.join("initial-mock-lists-r1.json")).unwrap();
    let record: Value = serde_json::from_str(&text).unwrap();
    check(&record, "scenario=initial clean=true values/last_synced_ns>0");
    assert!(folder.join("initial-mock-lists-r1.hgrm").exists());
    fs::remove_dir_all(&folder).unwrap();
}
