//! The program as a user starts it, against a server that is right and against servers that are wrong in one way each:
//! a check that cannot fail checks nothing.

use crate::mock::Mischief;
use crate::{PROGRAM, json, revcast_perf, run};
use serde_json::Value;
use std::process::{Command, Output};

fn perf(mischief: Mischief, options: &str) -> Output {
    run(mischief, "fanout", &["--drain 3s --floor off", options])
}

/// Runs 6 watchers and about 60 writes; gives the JSON report and the exit code.
fn report(mischief: Mischief, options: &str) -> (Value, Option<i32>) {
    let usual = "--watchers 6 --rate 100 --warmup 100ms --duration 500ms --objects 4 --json --seed 5";
    json(&perf(mischief, &format!("{usual} {options}")))
}

/// lost, duplicated, out of order, disconnected
fn wrongs(report: &Value) -> [u64; 4] {
    ["lost", "duplicated", "out_of_order", "disconnected"].map(|field| report[field].as_u64().unwrap())
}

#[test]
fn a_right_server_is_found_right() {
    let (report, code) = report(Mischief::None, "");
    assert_eq!(wrongs(&report), [0, 0, 0, 0], "{report}");
    assert_eq!(code, Some(0));
    assert_eq!(report["deliveries_checked"], 6 * 60);
    assert_eq!(report["deliveries_expected"], 6 * 60);
    assert_eq!(report["deliveries"], 6 * 50, "the warm-up is not measured");
    assert_eq!(report["writes"], 50);
    assert_eq!(report["clean"], true);
    assert_eq!(report["object_bytes"], 1024);
    assert_eq!(report["malformed"], 0);
    let p50 = report["latency_p50_ns"].as_u64().unwrap();
    let max = report["latency_max_ns"].as_u64().unwrap();
    assert!(0 < p50 && p50 <= max && max < 10_000_000_000, "{p50} {max}");
    // The mock lives in this very process: so that is whose port was found.
    assert_eq!(report["server_pid"], std::process::id());
    assert!(report["server_cpu_ns_per_delivery"].is_number() && report["rss_bytes_per_watcher"].is_number());
}

#[test]
fn processes_threads_namespaces_and_sources_change_nothing() {
    let options = "--watchers 9 --processes 2 --threads 2 --namespaces 3 --writers 2 --sources 2 --size 3KiB";
    let (report, code) = report(Mischief::None, options);
    assert_eq!(wrongs(&report), [0, 0, 0, 0], "{report}");
    assert_eq!(code, Some(0));
    // Each namespace has 3 of the 9 watchers, and each write goes to one namespace.
    assert_eq!(report["deliveries_checked"], 3 * 60);
    assert_eq!(report["object_bytes"], 3 * 1024);
}

#[test]
fn as_fast_as_it_goes() {
    let (report, code) = report(Mischief::None, "--rate max --pipeline 8");
    assert_eq!(wrongs(&report), [0, 0, 0, 0], "{report}");
    assert_eq!(code, Some(0));
    assert!(report["writes"].as_u64().unwrap() > 100, "{report}");
}

#[test]
fn writes_wait_for_watchers_that_are_slow() {
    let (report, code) = report(Mischief::Slow, "--rate max --ahead 20 --writers 2 --threads 2");
    assert_eq!((wrongs(&report), code), ([0, 0, 0, 0], Some(0)), "{report}");
    let written = report["deliveries_expected"].as_u64().unwrap() / 6;
    // 20 ahead, and 50 a second for 600 ms: 50 in all, were every clock exact. On its own a writer sends thousands.
    assert!((20..=70).contains(&written), "{report}");
    let (named, code) = self::report(
        Mischief::Slow,
        "--rate max --ahead 20 --field-selector metadata.name={object} --watchers 4 --processes 2",
    );
    assert_eq!((wrongs(&named), code), ([0, 0, 0, 0], Some(0)), "{named}");
    // Each of the four has an object of its own: 200 a second.
    let written = named["deliveries_expected"].as_u64().unwrap();
    assert!((60..=200).contains(&written), "{named}");
}

#[test]
fn writes_do_not_wait_for_a_watcher_that_is_gone() {
    let (report, code) = report(Mischief::HangUp, "--rate max --ahead 5");
    assert_eq!((report["disconnected"].as_u64(), code), (Some(1), Some(1)), "{report}");
    // It has no part in the deliveries from its tenth event on.
    assert!(report["deliveries_checked"].as_u64().unwrap() > 5 * 50, "{report}");
}

#[test]
fn objects_larger_than_one_read() {
    let (report, code) = report(Mischief::None, "--size 600KiB --rate 20 --watchers 2 --bookmarks");
    assert_eq!((wrongs(&report), code), ([0, 0, 0, 0], Some(0)), "{report}");
    assert_eq!(report["deliveries_checked"], 2 * 12);
}

#[test]
fn selectors_narrow_what_is_expected() {
    let (labelled, code) = report(Mischief::None, "--label-selector half=odd");
    assert_eq!((wrongs(&labelled), code), ([0, 0, 0, 0], Some(0)), "{labelled}");
    let half = labelled["deliveries_checked"].as_u64().unwrap();
    assert!(0 < half && half < 6 * 60 && half % 6 == 0, "{half}");
    let (named, code) = report(Mischief::None, "--field-selector metadata.name={object} --watchers 4");
    assert_eq!((wrongs(&named), code), ([0, 0, 0, 0], Some(0)), "{named}");
    assert_eq!(named["deliveries_checked"], 60, "every object has one of the four watchers");
}

#[test]
fn a_dropped_event_is_lost() {
    let (report, code) = report(Mischief::Drop, "");
    assert_eq!((wrongs(&report), code), ([1, 0, 0, 0], Some(1)), "{report}");
}

#[test]
fn a_repeated_event_is_duplicated() {
    let (report, code) = report(Mischief::Duplicate, "");
    assert_eq!((wrongs(&report), code), ([0, 1, 0, 0], Some(1)), "{report}");
    assert_eq!(report["deliveries_checked"], 6 * 60);
}

#[test]
fn swapped_events_are_out_of_order() {
    let (report, code) = report(Mischief::Reorder, "");
    assert_eq!((wrongs(&report), code), ([0, 0, 1, 0], Some(1)), "{report}");
}

#[test]
fn a_watch_that_ends_early_loses_the_rest() {
    let (report, code) = report(Mischief::HangUp, "--processes 2");
    assert_eq!((wrongs(&report), code), ([51, 0, 0, 1], Some(1)), "{report}");
}

#[test]
fn events_that_do_not_belong_are_told() {
    let (wrong, code) = report(Mischief::WrongType, "");
    assert_eq!((&wrong["unexpected"], code), (&Value::from(1), Some(1)), "{wrong}");
    let (garbage, code) = report(Mischief::Garbage, "");
    assert_eq!((&garbage["malformed"], code), (&Value::from(1), Some(1)), "{garbage}");
    assert!(garbage["first_fault"].as_str().unwrap().contains("nonsense"));
}

#[test]
fn writes_that_the_server_refused_are_not_lost() {
    let (report, code) = report(Mischief::RefuseWrites, "");
    assert_eq!((wrongs(&report), code), ([0, 0, 0, 0], Some(0)), "{report}");
    assert_eq!(report["deliveries_checked"], report["deliveries_expected"]);
    assert!(report["writes_failed"].as_u64().unwrap() >= 25, "{report}");
}

#[test]
fn a_refused_watch_says_why() {
    let output = perf(Mischief::RefuseWatches, "--watchers 3");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("answered a watch with 429: storage is (re)initializing"), "{said}");
}

#[test]
fn a_bad_option_is_exit_code_2_and_one_line() {
    let output = perf(Mischief::None, "--watchers none");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("--watchers") && said.contains("none"), "{said}");
    let far = revcast_perf("fanout --server http://192.0.2.1:80");
    assert_eq!(far.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&far.stderr).contains("--i-own-this-server"));
}

#[test]
fn a_person_gets_a_report_and_progress() {
    let output = perf(Mischief::None, "--watchers 5 --rate 50 --duration 1500ms --warmup 0");
    let (screen, progress) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{progress}");
    assert!(screen.contains("lost 0  duplicated 0  out of order 0  disconnected 0"), "{screen}");
    assert!(screen.contains(" a delivery (") && screen.contains(" a watcher"), "{screen}");
    assert!(progress.contains("watchers 5") && progress.contains("p99"), "{progress}");
}

#[test]
fn a_run_is_kept_and_nothing_is_overwritten() {
    let folder = std::env::temp_dir().join(format!("revcast-perf-fanout-{}", std::process::id()));
    let _none = std::fs::remove_dir_all(&folder);
    let options = format!(
        "--watchers 5 --rate 100 --duration 2s --warmup 200ms --json --quiet --subject the_mock --out {}",
        folder.display()
    );
    for _ in 0..2 {
        let output = perf(Mischief::None, &options);
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "it was to be quiet");
    }
    let kept = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_else(|_| panic!("{name}"));
    for stem in ["fanout-the-mock-r1", "fanout-the-mock-r1-2"] {
        let record: Value = serde_json::from_str(&kept(&format!("{stem}.json"))).unwrap();
        assert_eq!((&record["scenario"], &record["watchers"]), (&Value::from("fanout"), &Value::from(5)));
        assert_eq!((&record["clean"], &record["write_rate_per_second"]), (&true.into(), &100.0.into()));
        assert_eq!(record["values"]["deliveries"], 5.0 * 200.0);
        assert!(record["values"]["server_cpu_ns_per_delivery"].is_number(), "{record}");
        let counted: u64 =
            record["latency"].as_array().unwrap().iter().map(|pair| pair[1].as_u64().unwrap()).sum();
        assert_eq!(counted, 5 * 200);
        assert!(record["command"].as_str().unwrap().starts_with("revcast-perf fanout --server"));
        assert!(record["machine"]["cores"].as_u64().unwrap() > 0);
        let rows = record["series"].as_array().unwrap();
        assert!(
            rows.len() >= 2 && rows.iter().any(|row| row["deliveries_per_second"].as_f64().unwrap() > 0.0)
        );
        assert!(rows.iter().all(|row| row["server_rss_bytes"].is_number()), "{rows:?}");
        assert_eq!(kept(&format!("{stem}.csv")).lines().count(), rows.len() + 1);
        let hgrm = kept(&format!("{stem}.hgrm"));
        assert!(hgrm.contains("Total count    =         1000]"), "{hgrm}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_folder_that_cannot_be_written_is_told_before_the_run() {
    let output = perf(Mischief::None, "--watchers 5 --out /proc/nowhere");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("--out \"/proc/nowhere\"") && said.contains("that you may write"), "{said}");
}

#[test]
fn a_report_is_made_of_what_was_kept() {
    let folder = std::env::temp_dir().join(format!("revcast-perf-report-{}", std::process::id()));
    let _none = std::fs::remove_dir_all(&folder);
    let page = folder.join("page.html");
    let options =
        format!("--watchers 5 --rate 100 --duration 1200ms --warmup 0 --quiet --out {}", folder.display());
    for subject in ["mock", "<script>"] {
        assert_eq!(perf(Mischief::None, &format!("{options} --subject {subject}")).status.code(), Some(0));
    }
    let report = |paths: &[&std::path::Path]| {
        let output = Command::new(PROGRAM)
            .arg("report")
            .args(paths)
            .args(["--title", "A & B", "--html"])
            .arg(&page)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = report(&[&folder]);
    assert_eq!(code, Some(0), "{said}");
    let html = std::fs::read_to_string(&page).unwrap();
    for part in [
        "<h1>A &amp; B</h1>",
        "Latency percentiles, 5 watchers",
        "Throughput over time",
        "&lt;script&gt;",
        "</html>",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("<script"), "a name is text");
    std::fs::write(folder.join("broken.json"), "{\"scenario\":").unwrap();
    let (code, said) = report(&[&folder]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("broken.json: not a record") && said.contains("2 records: "), "{said}");
    assert_eq!(report(&[&folder.join("broken.json")]).0, Some(1), "nothing is left to show");
    std::fs::remove_dir_all(&folder).unwrap();
}
