//! The floor: every mode delivers every event exactly once and in order to all watchers, also when its sockets are full; and a
//! run of `fanout` has it beside it.

use crate::mock::Mischief;
use crate::{number, report, revcast_perf, values};

#[test]
fn every_mode_delivers_every_event_once() {
    // 100 a second for half a second, to each of the 20; three modes, two rounds.
    let report = revcast_perf(
        "floor --watchers 20 --rate 100 --warmup 100ms --duration 400ms --objects 4 --size 2KiB --rounds 2 --json",
    )
    .report(
        0,
        "clean=true records/#=6 records/*/values/deliveries_checked=1000 records/*/object_bytes=2048 \
         records/*/values/server_cpu_ns_per_delivery>0 records/*/values/frame_bytes>2047 records/*/values/frame_bytes<2150",
    );
    let order = values(&report, "records/*/subject");
    assert_eq!(order[..3], ["floor send", "floor writev", "floor uring"]);
    assert_eq!(order[3], "floor writev", "another round begins with another mode");
    assert!(["send", "writev", "uring"].contains(&report["best_mode"].as_str().unwrap()));
}

#[test]
fn full_sockets_lose_and_repeat_nothing() {
    // A write of 512 events of 16 KiB is more than a socket ever takes at once.
    let report = revcast_perf(
        "floor --watchers 20 --rate max --events-per-write 512 --size 16KiB --warmup 0 --duration 300ms --json",
    )
    .report(0, "clean=true records/*/values/short_writes>0 records/*/values/deliveries_checked>10239");
    for delivered in values(&report, "records/*/values/deliveries_checked") {
        assert!(delivered.as_f64().unwrap() % 10_240.0 == 0.0, "whole writes to all: {delivered}");
    }
}

#[test]
fn a_run_has_the_floor_beside_it() {
    // The mock's threads end with their connections: then its CPU time is known to 10 ms only, which may be none.
    let report = report(
        Mischief::None,
        "fanout --watchers 6 --rate 100 --warmup 100ms --duration 500ms --objects 4 --floor writev",
        0,
        "floor_mode=writev floor_clean=true floor_cpu_ratio!null floor_cpu_ns_per_delivery>0 floor_rate_ratio>0.5 floor_fault=null",
    );
    assert!((number(&report, "frame_bytes") - number(&report, "floor_frame_bytes")).abs() <= 1.0, "{report}");
}
