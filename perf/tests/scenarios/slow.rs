//! `slow`: 20 writes fill the sockets, 60 more follow.

use crate::mock::Mischief;
use crate::{report, run, values};

const QUICK: &str = "slow --watchers 10 --share 20 --rounds 2 --rate 100 --warmup 100ms --duration 500ms --objects 4 \
                     --fill 20KiB --drain 3s --seed 5";

#[test]
fn watchers_that_never_read_are_not_counted() {
    // Each of the two has 80 events of a KiB and more in the kernel.
    report(
        Mischief::None,
        &format!("{QUICK} --stall 5s"),
        0,
        "clean=true started_with=5s fill_bytes=20480 shares/0/slow=2 shares/0/healthy=8 shares/0/rounds/#=2 \
         shares/0/records/#=4 shares/0/latency_p99_ns/ratio/median>0 shares/0/healthy_ended,shares/0/slow_ended=0 \
         shares/0/rounds/*/without/deliveries_checked,shares/0/rounds/*/without/deliveries_expected=640 \
         shares/0/rounds/*/with/deliveries_checked,shares/0/rounds/*/with/deliveries_expected=640 \
         shares/0/rounds/*/without/deaf,shares/0/rounds/*/without/deaf_ended,shares/0/rounds/*/with/deaf_ended=0 \
         shares/0/rounds/*/with/deaf=2 shares/0/rounds/*/without/watchers=8 shares/0/rounds/*/with/watchers=10 \
         shares/0/rounds/*/with/kernel_unread_bytes>163839 shares/0/rounds/*/with/kernel_unread_bytes<240000",
    );
}

#[test]
fn several_shares_a_small_buffer_and_processes() {
    let options = "--share 30,50 --rounds 1 --receive-buffer 4KiB --processes 2 --threads 2";
    // What does not fit into so small a buffer waits at the server's end.
    let report = report(
        Mischief::None,
        &format!("{QUICK} {options}"),
        0,
        "clean=true shares/0/rounds/0/with/kernel_unsent_bytes>122880 shares/1/rounds/0/with/kernel_unsent_bytes>204800",
    );
    assert_eq!(values(&report, "shares/*/slow"), [3, 5]);
    assert_eq!(values(&report, "shares/*/rounds/0/with/deliveries_checked"), [7 * 80, 5 * 80]);
}

#[test]
fn every_wrong_is_found() {
    let ended = "clean=false shares/0/healthy_ended=16 shares/0/slow_ended=2";
    report(Mischief::HangUpAll, &format!("{QUICK} --rounds 1 --drain 500ms"), 1, ended);
    let options = "--share 1 --watchers 100 --rounds 1";
    report(Mischief::Duplicate, &format!("{QUICK} {options}"), 1, "shares/0/duplicated>0");
}

#[test]
fn a_person_gets_a_report() {
    run(Mischief::None, &format!("{QUICK} --rounds 1")).shows(
        0,
        "20 % never read: 2 beside 8 healthy, 1 rounds|  p99 |KiB more for each slow one\
         |lost 0  duplicated 0  out of order 0  ended 0",
        "",
    );
}
