//! `initial`: 6 clients ask for 70 objects.

use crate::mock::Mischief;
use crate::{at_once, check, fresh, number, report, run};
use serde_json::Value;

pub(crate) const QUICK: &str = "initial --watchers 6 --objects 70 --size 700B --seed 5";
const WRONGS: [&str; 5] = ["missing", "duplicated", "unexpected", "stale_marks", "unfinished"];

#[test]
fn a_right_server_is_found_right() {
    at_once(["", "--list", "--threads 3 --writers 1", "--list --threads 2 --gzip"], |options| {
        let report = report(
            Mischief::None,
            &format!("{QUICK} {options}"),
            0,
            "missing,duplicated,unexpected,stale_marks,unfinished=0 objects_received=420 object_bytes=700 clean=true \
             first_synced_ns>0 bytes>294000",
        );
        let synced = ["first_synced_ns", "synced_p50_ns", "synced_p99_ns", "last_synced_ns"];
        let ns = synced.map(|field| number(&report, field));
        assert!(ns[0] <= ns[1] * 1.001 && ns[1] <= ns[2] && ns[2] <= ns[3], "{report}");
        assert_eq!(report["server_pid"], std::process::id(), "the mock lives in this process");
        assert!(number(&report, "server_rss_peak_bytes") >= number(&report, "server_rss_before_bytes"));
    });
}

#[test]
fn every_wrong_is_found() {
    let cases = [
        (Mischief::InitialShort, "", "missing"),
        (Mischief::InitialShort, "--list", "missing"),
        (Mischief::InitialTwice, "", "duplicated"),
        (Mischief::InitialTwice, "--list", "duplicated"),
        (Mischief::InitialEarlyMark, "", "missing"),
        (Mischief::InitialStale, "", "stale_marks"),
        (Mischief::InitialStale, "--list", "stale_marks"),
        (Mischief::InitialNoMark, "--timeout 500ms", "unfinished"),
        (Mischief::InitialCut, "", "unfinished"),
    ];
    at_once(cases, |(mischief, options, wrong)| {
        let found = report(mischief, &format!("{QUICK} {options}"), 1, "clean=false first_fault!null");
        let wanted = WRONGS.map(|name| if name == wrong { 6.0 } else { 0.0 });
        assert_eq!(WRONGS.map(|name| number(&found, name)), wanted, "{mischief:?} {options}: {found}");
    });
}

#[test]
fn a_refusal_says_why() {
    run(Mischief::RefuseWatches, QUICK).shows(1, "", "answered with 429: storage is (re)initializing");
}

#[test]
fn a_run_is_kept() {
    let folder = fresh("initial");
    let options = format!("--list --subject mock --out {}", folder.display());
    report(Mischief::None, &format!("{QUICK} {options}"), 0, "clean=true");
    let text = std::fs::read_to_string(folder.join("initial-mock-lists-r1.json")).unwrap();
    let record: Value = serde_json::from_str(&text).unwrap();
    check(&record, "scenario=initial clean=true values/last_synced_ns>0");
    assert!(folder.join("initial-mock-lists-r1.hgrm").exists());
    std::fs::remove_dir_all(&folder).unwrap();
}
