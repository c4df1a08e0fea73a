//! `idle`, with a server that leaves its watchers alone and one that ends them.

use crate::mock::{self, Mischief};
use crate::{report, revcast_perf, values};
use std::time::Duration;

#[test]
fn heartbeats_and_bookmarks_are_counted_and_nobody_is_ended() {
    // One of each every 100 ms for each of eight; the machine may be busy.
    let report = report(
        Mischief::None,
        "idle --watchers 8 --prime 2 --rounds 2 --duration 1s --threads 2 --processes 2",
        0,
        "clean=true ended=0 watchers=8 primed=2 records/#=2 records/*/values/bookmarks,records/*/values/heartbeats>7 \
         records/*/values/bookmarks,records/*/values/heartbeats<121 \
         records/*/values/server_cpu_share,records/*/values/waited_anon_bytes!null \
         tables/0/states/0/anon_bytes_per_watcher/median!null",
    );
    // The mock lives in this very process: so that is whose port was found.
    assert_eq!(report["server_pid"], std::process::id());
    for round in values(&report, "records/*/values") {
        let count = |field: &str| round[field].as_u64().unwrap();
        assert!(count("bytes") > 6 * count("heartbeats") + 50 * count("bookmarks"), "{round}");
    }
}

#[test]
fn a_server_that_hangs_up_is_told() {
    // The heartbeats are no events: so somebody has to write.
    let address = mock::start(Mischief::HangUpAll);
    let disturbing = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(1500));
        let options =
            "--namespace idle --objects 1 --watchers 1 --rate 100 --warmup 0 --duration 200ms --drain 0";
        revcast_perf(&format!("fanout --server http://{address} {options}"));
    });
    let idle = format!("idle --server http://{address} --watchers 3 --prime 0 --duration 2500ms --json");
    revcast_perf(&idle).report(1, "ended=3 foreign>0");
    disturbing.join().unwrap();
}

#[test]
fn idle_streams_are_left_alone() {
    let idle = "idle --watchers 8 --prime 2 --duration 1s --http2 --tls --streams-per-connection 3";
    report(
        Mischief::None,
        idle,
        0,
        "clean=true ended=0 watchers=8 records/*/values/bookmarks,records/*/values/heartbeats>7",
    );
}
