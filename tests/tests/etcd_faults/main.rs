//! Watches while etcd fails: a real etcd is killed, frozen, compacted, restored, swapped or cut off while it is written
//! to and 200 watchers are served from it; then everything that they received is compared with etcd's own log.
//!
//! `faults` has the faults and the promises, `run` what they share. Each test prints what it checked and its seed;
//! `REVCAST_FAULTS_SEED` sets the seed, `REVCAST_FAULTS=long` makes more rounds. `REVCAST_STORAGE_MEDIA_TYPE` says in which form
//! objects are stored, json or protobuf; without it each fault is made on both, one on each etcd. `cargo xtask faults` makes the long
//! rounds in both forms.
#![allow(clippy::unwrap_used)]

mod faults;
mod run;

use revcast_tests::etcd::Release;

macro_rules! on_each_etcd {
    ($($name:ident),* $(,)?) => {
        mod etcd_3_4 {
            $(#[test] fn $name() { super::faults::$name(super::Release::V3_4) })*
        }
        mod etcd_3_5 {
            $(#[test] fn $name() { super::faults::$name(super::Release::V3_5) })*
        }
    };
}

on_each_etcd! {
    killed,
    frozen,
    leader_lost,
    compacted,
    restored,
    restored_and_overtaken,
    restored_after_a_load,
    swapped,
    logins_run_out,
    cut_off_for_a_while,
    cut_off_for_too_long,
    server_killed,
    server_killed_with_history,
    server_killed_with_little_history,
}
