//! `initial` as a user starts it, against a server that is right and against servers that are wrong in one way each.

use crate::mock::Mischief;
use crate::{json, run};
use serde_json::Value;
use std::process::Output;

const CLIENTS: u64 = 6;
const OBJECTS: u64 = 70;

fn perf(mischief: Mischief, options: &str) -> Output {
    run(mischief, "initial", &["--watchers 6 --objects 70 --size 700B --seed 5", options])
}

fn report(mischief: Mischief, options: &str) -> (Value, Option<i32>) {
    json(&perf(mischief, &format!("--json {options}")))
}

/// missing, duplicated, unexpected, stale marks, unfinished
fn wrongs(report: &Value) -> [u64; 5] {
    ["missing", "duplicated", "unexpected", "stale_marks", "unfinished"]
        .map(|field| report[field].as_u64().unwrap())
}

#[test]
fn a_right_server_is_found_right() {
    for options in ["", "--list", "--threads 3 --writers 1", "--list --threads 2 --gzip"] {
        let (report, code) = report(Mischief::None, options);
        assert_eq!((wrongs(&report), code), ([0; 5], Some(0)), "{options}: {report}");
        assert_eq!(report["objects_received"], CLIENTS * OBJECTS);
        assert_eq!((&report["object_bytes"], &report["clean"]), (&Value::from(700), &Value::from(true)));
        let ns = |field: &str| report[field].as_u64().unwrap();
        assert!(0 < ns("first_synced_ns") && ns("first_synced_ns") <= ns("synced_p50_ns") * 1001 / 1000);
        assert!(ns("synced_p50_ns") <= ns("synced_p99_ns") && ns("synced_p99_ns") <= ns("last_synced_ns"));
        assert!(ns("bytes") > CLIENTS * OBJECTS * 700, "{report}");
        assert_eq!(report["server_pid"], std::process::id(), "the mock lives in this process");
        assert!(report["server_rss_peak_bytes"].as_u64() >= report["server_rss_before_bytes"].as_u64());
    }
}

#[test]
fn every_wrong_is_found() {
    for (mischief, options, wanted) in [
        (Mischief::InitialShort, "", [CLIENTS, 0, 0, 0, 0]),
        (Mischief::InitialShort, "--list", [CLIENTS, 0, 0, 0, 0]),
        (Mischief::InitialTwice, "", [0, CLIENTS, 0, 0, 0]),
        (Mischief::InitialTwice, "--list", [0, CLIENTS, 0, 0, 0]),
        (Mischief::InitialEarlyMark, "", [CLIENTS, 0, 0, 0, 0]),
        (Mischief::InitialStale, "", [0, 0, 0, CLIENTS, 0]),
        (Mischief::InitialStale, "--list", [0, 0, 0, CLIENTS, 0]),
        (Mischief::InitialNoMark, "--timeout 500ms", [0, 0, 0, 0, CLIENTS]),
        (Mischief::InitialCut, "", [0, 0, 0, 0, CLIENTS]),
    ] {
        let (report, code) = report(mischief, options);
        assert_eq!((wrongs(&report), code), (wanted, Some(1)), "{mischief:?} {options}: {report}");
        assert_eq!(report["clean"], false);
        assert!(report["first_fault"].is_string());
    }
}

#[test]
fn a_refusal_says_why() {
    let output = perf(Mischief::RefuseWatches, "");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("answered with 429: storage is (re)initializing"), "{said}");
}

#[test]
fn a_person_gets_a_report() {
    let output = perf(Mischief::None, "");
    let screen = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(screen.contains("missing 0  duplicated 0  unexpected 0"), "{screen}");
    assert!(
        screen.contains(" an object, pid") && screen.contains("every client got every object"),
        "{screen}"
    );
}

#[test]
fn a_run_is_kept() {
    let folder = std::env::temp_dir().join(format!("revcast-perf-initial-{}", std::process::id()));
    let _none = std::fs::remove_dir_all(&folder);
    let options = format!("--list --subject mock --out {}", folder.display());
    let (_, code) = report(Mischief::None, &options);
    assert_eq!(code, Some(0));
    let text = std::fs::read_to_string(folder.join("initial-mock-lists-r1.json")).unwrap();
    let record: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&record["scenario"], &record["clean"]), (&"initial".into(), &true.into()), "{record}");
    assert!(record["values"]["last_synced_ns"].as_f64().unwrap() > 0.0, "{record}");
    assert!(folder.join("initial-mock-lists-r1.hgrm").exists());
    std::fs::remove_dir_all(&folder).unwrap();
}
