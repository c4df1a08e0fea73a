//! `slow`: 20 writes fill the sockets, 60 more follow.

use crate::mock::Mischief;
use crate::{check, report, values};

pub(crate) const QUICK: &str = "slow --watchers 10 --share 20 --rounds 2 --rate 100 --warmup 100ms --duration 500ms --objects 4 \
                     --fill 20KiB --drain 3s --seed 5";

#[test]
fn watchers_that_never_read_are_not_counted() {
    let report = report(
        Mischief::None,
        &format!("{QUICK} --stall 5s"),
        0,
        "clean=true started_with=5s fill_bytes=20480 tables/0/slow=2 tables/0/healthy=8 records/#=4 \
         tables/0/states/1/ratios/latency_p99_ns/median>0 tables/0/healthy_ended,tables/0/slow_ended=0 \
         records/*/values/deliveries_checked,records/*/values/deliveries_expected=640 records/*/values/deaf_ended=0",
    );
    assert_eq!(values(&report, "records/*/values/deaf"), [0, 2, 2, 0]);
    assert_eq!(values(&report, "records/*/watchers"), [8, 10, 10, 8]);
    // Each of the two has 80 events of a KiB and more in the kernel.
    let unread =
        ["records/1", "records/2"].map(|with| format!("{with}/values/kernel_unread_bytes")).join(",");
    check(&report, &format!("{unread}>163839 {unread}<240000"));
}

#[test]
fn several_shares_a_small_buffer_and_processes() {
    let options = "--share 30,50 --rounds 1 --receive-buffer 4KiB --processes 2 --threads 2";
    // What does not fit into so small a buffer waits at the server's end.
    let report = report(
        Mischief::None,
        &format!("{QUICK} {options}"),
        0,
        "clean=true records/1/values/kernel_unsent_bytes>122880 records/3/values/kernel_unsent_bytes>204800",
    );
    assert_eq!(values(&report, "tables/*/slow"), [3, 5]);
    check(&report, "records/1/values/deliveries_checked=560 records/3/values/deliveries_checked=400");
}

#[test]
fn every_wrong_is_found() {
    let ended = "clean=false tables/0/healthy_ended=16 tables/0/slow_ended=2";
    report(Mischief::HangUpAll, &format!("{QUICK} --rounds 1 --drain 500ms"), 1, ended);
    let options = "--share 1 --watchers 100 --rounds 1";
    report(Mischief::Duplicate, &format!("{QUICK} {options}"), 1, "tables/0/duplicated>0");
}
