//! The floor as a user asks for it: every mode delivers every event exactly once and in order to all watchers, also when
//! its sockets are full, and a run of `fanout` has it beside it.

use crate::mock::{self, Mischief};
use crate::{json, revcast_perf, said};
use serde_json::Value;

fn perf(options: &str) -> (Value, Option<i32>, String) {
    let output = revcast_perf(options);
    let (report, code) = json(&output);
    (report, code, said(&output))
}

#[test]
fn every_mode_delivers_every_event_once() {
    let (report, code, said) = perf(
        "floor --watchers 20 --rate 100 --warmup 100ms --duration 400ms --objects 4 --size 2KiB --rounds 2 --json",
    );
    assert_eq!((code, &report["clean"]), (Some(0), &Value::from(true)), "{report} {said}");
    let records = report["records"].as_array().unwrap();
    assert_eq!(records.len(), 6, "three modes, two rounds");
    for record in records {
        // 100 a second for half a second, to each of the 20.
        assert_eq!(record["values"]["deliveries_checked"], 1000.0, "{record}");
        assert_eq!(record["object_bytes"], 2048);
        assert!(record["values"]["server_cpu_ns_per_delivery"].as_f64().unwrap() > 0.0, "{record}");
    }
    let order: Vec<&str> = records.iter().map(|record| record["subject"].as_str().unwrap()).collect();
    assert_eq!(order[..3], ["floor send", "floor writev", "floor uring"]);
    assert_eq!(order[3], "floor writev", "another round begins with another mode");
    assert!(["send", "writev", "uring"].contains(&report["best_mode"].as_str().unwrap()));
    let frame = report["frame_bytes"].as_f64().unwrap();
    assert!((2048.0..2150.0).contains(&frame), "{frame}");
}

#[test]
fn full_sockets_lose_and_repeat_nothing() {
    // A write of 512 events of 16 KiB is more than a socket ever takes at once.
    let (report, code, said) = perf(
        "floor --watchers 20 --rate max --events-per-write 512 --size 16KiB --warmup 0 --duration 300ms --json",
    );
    assert_eq!((code, &report["clean"]), (Some(0), &Value::from(true)), "{report} {said}");
    for record in report["records"].as_array().unwrap() {
        assert!(record["values"]["short_writes"].as_u64().unwrap() > 0, "{record}");
        let delivered = record["values"]["deliveries_checked"].as_f64().unwrap();
        assert!(delivered >= 10_240.0 && delivered % 10_240.0 == 0.0, "whole writes to all: {delivered}");
    }
}

#[test]
fn a_run_has_the_floor_beside_it() {
    let address = mock::start(Mischief::None);
    let (report, code, said) = perf(&format!(
        "fanout --server http://{address} --watchers 6 --rate 100 --warmup 100ms --duration 500ms --objects 4 --json \
         --floor writev"
    ));
    assert_eq!(code, Some(0), "{said}");
    assert_eq!((&report["floor_mode"], &report["floor_clean"]), (&"writev".into(), &true.into()), "{report}");
    // The mock's threads end with their connections: then its CPU time is known to 10 ms only, which may be none.
    assert!(report["floor_cpu_ratio"].is_number(), "{report}");
    assert!(report["floor_cpu_ns_per_delivery"].as_f64().unwrap() > 0.0, "{report}");
    assert!(report["floor_rate_ratio"].as_f64().unwrap() > 0.5, "{report}");
    assert!(report["floor_fault"].is_null(), "{report}");
    let (frame, floor) = (&report["frame_bytes"], &report["floor_frame_bytes"]);
    assert!((frame.as_f64().unwrap() - floor.as_f64().unwrap()).abs() <= 1.0, "{report}");
}
