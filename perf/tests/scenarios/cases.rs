//! The scenarios by table: what each finds of a server that is right, and of servers that are wrong in one way each.

use crate::mock::Mischief;
use crate::{cases, revcast_perf, run, server};

/// 6 watchers and about 60 writes, 50 of them measured.
pub(crate) const FANOUT: &str = "fanout --floor off --watchers 6 --rate 100 --warmup 100ms --duration 500ms --objects 4 --seed 5 --drain 3s";
/// 6 clients ask for 70 objects.
pub(crate) const INITIAL: &str = "initial --watchers 6 --objects 70 --size 700B --seed 5";
/// 6 watchers, 60 writes in each state; in one of the three nobody watches.
pub(crate) const INTERESTS: &str = "interests --watchers 6 --size 700B --seed 5 --warmup 100ms --duration 300ms --rounds 1 --rate 200 --drain 1s";
/// 20 writes fill the sockets, 60 more follow.
pub(crate) const SLOW: &str = "slow --watchers 10 --share 20 --rounds 2 --rate 100 --warmup 100ms --duration 500ms --objects 4 \
    --fill 20KiB --drain 3s --seed 5";
/// Of lost connections and of lists, beside 3 watchers that stay.
pub(crate) const STORM: &str =
    "storm --size 700B --seed 5 --calm 300ms --rounds 2 --rate 100 --live 3 --drain 1s --timeout 2s";
/// 95 of the watchers read. Each leaves about once a second.
pub(crate) const MIXED: &str = "mixed --watchers 100 --namespaces 2 --rate 100 --warmup 200ms --duration 1s --readers 2 --churn 100 \
    --drain 3s --seed 5";
const PROBED: &str = "fanout --watchers 6 --rate 100 --warmup 100ms --duration 1s --objects 4";
const FLOOR: &str = "floor --watchers 20 --json";
const BESIDE: &str = "fanout --watchers 6 --rate 100 --warmup 100ms --duration 500ms --objects 4";

const NOTHING_WRONG: &str = "lost,duplicated,out_of_order,disconnected,malformed=0";

// The mock lives in this very process: so that is whose port is found.
#[test]
fn fanout_of_a_right_server() {
    let right = "
None 0 | deliveries_checked,deliveries_expected=360 deliveries=300 writes=50 object_bytes=1024 latency_p50_ns>0 server_pid=$pid
    latency_max_ns<10000000000 latency_p50_ns<=/latency_max_ns server_cpu_ns_per_delivery,rss_bytes_per_watcher!null
None 0 --label-selector half=odd | deliveries_checked>0 deliveries_checked<360 deliveries_checked%6
";
    cases(FANOUT, NOTHING_WRONG, right);
    // Each namespace has 3 of the 9 watchers, and each write goes to one namespace; 600 KiB are more than one read; every
    // object has one of the four watchers.
    let options = "
None 0 --watchers 9 --processes 2 --threads 2 --namespaces 3 --writers 2 --sources 2 --size 3KiB | deliveries_checked=180 object_bytes=3072
None 0 --rate max --pipeline 8 | writes>30
None 0 --size 600KiB --rate 20 --watchers 2 --bookmarks | deliveries_checked=24
None 0 --field-selector metadata.name={object} --watchers 4 | deliveries_checked=60
";
    cases(FANOUT, NOTHING_WRONG, options);
    // 20 ahead, and 50 a second for 600 ms: 50 in all, were every clock exact; on its own a writer sends thousands. Where each
    // of the four has an object of its own it is 200 a second. A watcher that is gone has no part from its tenth event on.
    let waiting = "
Slow 0 --rate max --ahead 20 --writers 2 --threads 2 | deliveries_expected>119 deliveries_expected<426
Slow 0 --rate max --ahead 20 --field-selector metadata.name={object} --watchers 4 --processes 2 | deliveries_expected>59
    deliveries_expected<201
HangUp 1 --rate max --ahead 5 | disconnected=1 deliveries_checked>250
";
    cases(FANOUT, NOTHING_WRONG, waiting);
}

#[test]
fn every_wrong_of_a_fanout_is_found() {
    // What the server refused is not lost.
    let wrong = "
Drop 1 | lost=1 duplicated,out_of_order,disconnected=0
Duplicate 1 | duplicated=1 lost,out_of_order,disconnected=0 deliveries_checked=360
Reorder 1 | out_of_order=1 lost,duplicated,disconnected=0
HangUp 1 --processes 2 | lost=51 disconnected=1 duplicated,out_of_order=0
WrongType 1 | unexpected=1
Garbage 1 | malformed=1 first_fault~nonsense
RefuseWrites 0 | deliveries_checked=/deliveries_expected writes_failed>24
";
    cases(FANOUT, NOTHING_WRONG, wrong);
    for (words, why) in [("fanout --watchers 3", "answered a watch with 429"), (INITIAL, "answered with 429")]
    {
        run(Mischief::RefuseWatches, words).shows(1, "", &format!("{why}: storage is (re)initializing"));
    }
}

/// The 6 watchers have two connections, of four streams and of two.
const STREAMS: &str = "--streams-per-connection 4";

#[test]
fn fanout_over_http2_and_tls() {
    let right = "
None 0 --http2 | deliveries_checked,deliveries_expected=360 deliveries=300 http2=true streams_per_connection=4 tls=false
    latency_p50_ns>0 server_pid=$pid
None 0 --http2 --tls --writers 2 | deliveries_checked=360 tls=true http2=true records/*/values/frame_bytes>1080
None 0 --tls --threads 2 --processes 2 | deliveries_checked=360 tls=true http2=false streams_per_connection=1
None 0 --http2 --tls --size 600KiB --rate 20 --watchers 2 --bookmarks | deliveries_checked=24
None 0 --http2 --watchers 9 --processes 2 --threads 2 --namespaces 3 --writers 2 --sources 2 --size 20KiB | deliveries_checked=180
None 0 --http2 --tls --rate max --pipeline 8 | writes>30
";
    cases(&format!("{FANOUT} {STREAMS}"), NOTHING_WRONG, right);
    // A stream ends alone; where its connection ends, so do those beside it.
    let wrong = "
Drop 1 --http2 | lost=1 duplicated,out_of_order,disconnected=0
Duplicate 1 --http2 --tls | duplicated=1 lost,out_of_order,disconnected=0
HangUp 1 --http2 | lost>50 lost<55 disconnected=1 duplicated,out_of_order=0 first_fault~INTERNAL_ERROR
HangUp 1 --tls | lost=51 disconnected=1 duplicated,out_of_order=0
GoAway 1 --http2 | disconnected=4|2 lost>100 duplicated,out_of_order=0 first_fault~ENHANCE_YOUR_CALM
GoAway 1 --http2 --tls | disconnected=4|2 lost>100 duplicated,out_of_order=0
Garbage 1 --http2 | malformed=1 first_fault~nonsense
RefuseWrites 0 --tls | deliveries_checked=/deliveries_expected writes_failed>24
";
    cases(&format!("{FANOUT} {STREAMS}"), NOTHING_WRONG, wrong);
    for (mischief, words, why) in [
        (Mischief::RefuseWatches, "--http2", "answered a watch with 429: storage is (re)initializing"),
        (Mischief::FewStreams, "--http2", "lower --streams-per-connection"),
        (Mischief::OnlyHttp1, "--http2 --tls", "does not offer h2 by ALPN"),
    ] {
        run(mischief, &format!("{FANOUT} {words}")).shows(1, "", why);
    }
    revcast_perf("fanout --tls").is_refused("--ca FILE");
    revcast_perf("fanout --tls --ca Cargo.toml").is_refused("--ca|no certificate");
    let [one, other] = [(); 2].map(|()| server(Mischief::None, "--tls"));
    let (_, of_other) = other.split_once(' ').unwrap();
    let said = revcast_perf(&format!("fanout --server https://{one} {of_other}"));
    said.shows(1, "", "invalid peer certificate");
}

#[test]
fn initial() {
    let right = "missing,duplicated,unexpected,stale_marks,unfinished=0 objects_received=420 object_bytes=700 bytes>294000 \
        first_synced_ns>0 first_synced_ns<=/synced_p50_ns synced_p50_ns<=/synced_p99_ns synced_p99_ns<=/last_synced_ns \
        server_pid=$pid server_rss_before_bytes<=/server_rss_peak_bytes";
    let table = "
None 0 |
None 0 --list |
None 0 --threads 3 --writers 1 |
None 0 --list --threads 2 --gzip |
None 0 --http2 --streams-per-connection 4 --tls |
None 0 --http2 --streams-per-connection 4 --threads 2 --list |
InitialShort 1 | missing=6 duplicated,unexpected,stale_marks,unfinished=0 first_fault!null
InitialShort 1 --list | missing=6 duplicated,unexpected,stale_marks,unfinished=0 first_fault!null
InitialTwice 1 | duplicated=6 missing,unexpected,stale_marks,unfinished=0 first_fault!null
InitialTwice 1 --list | duplicated=6 missing,unexpected,stale_marks,unfinished=0 first_fault!null
InitialEarlyMark 1 | missing=6 duplicated,unexpected,stale_marks,unfinished=0 first_fault!null
InitialStale 1 | stale_marks=6 missing,duplicated,unexpected,unfinished=0 first_fault!null
InitialStale 1 --list | stale_marks=6 missing,duplicated,unexpected,unfinished=0 first_fault!null
InitialNoMark 1 --timeout 500ms | unfinished=6 missing,duplicated,unexpected,stale_marks=0 first_fault!null
InitialCut 1 | unfinished=6 missing,duplicated,unexpected,stale_marks=0 first_fault!null
InitialCut 1 --http2 | unfinished=6 missing,duplicated,unexpected,stale_marks=0 first_fault!null
";
    cases(INITIAL, right, table);
}

#[test]
fn interests() {
    let one = "objects=6 tables/#=1 tables/0/states/#=3 writes=180 deliveries=120 tables/0/states/*/watchers=[0,1,6] \
        tables/0/states/2/server_cpu_ns_per_write/median,tables/0/states/2/latency_p99_ns/median>0 \
        tables/0/states/0/latency_p99_ns=null";
    let table = "
None 0 --by node | by=node
None 0 --by label | by=label
None 0 --by namespace | by=namespace
None 0 --by name | by=name
Drop 1 --by node | lost>0
None 0 --by label --http2 --tls | by=label
Duplicate 1 --by node | duplicated>0 first_fault!null
Reorder 1 --by node | out_of_order>0 first_fault!null
HangUp 1 --by node | disconnected>0 first_fault!null
Garbage 1 --by node | malformed>0 first_fault!null
IgnoreSelectors 1 --by node | unexpected>0 first_fault!null
";
    cases(&format!("{INTERESTS} --sizes none"), one, table);
    let three = "
None 0 --by label --sizes 3 --rate 200,max --threads 2 | records/#=9 records/*/clean=true records/*/scenario=interests
    records/2/values/server_cpu_ns_per_delivery!null tables/*/interests=[3,6,6]
    tables/*/write_rate_wanted_per_second=[200,200,null]
";
    cases(INTERESTS, "", three);
}

#[test]
fn slow() {
    // Each of the two has 80 events of a KiB and more in the kernel; what does not fit into a small buffer waits at the server's end.
    let table = "
None 0 --stall 5s | started_with=5s fill_bytes=20480 tables/0/slow=2 tables/0/healthy=8 records/#=4
    tables/0/states/1/ratios/latency_p99_ns/median>0 tables/0/healthy_ended,tables/0/slow_ended=0
    records/*/values/deliveries_checked,records/*/values/deliveries_expected=640 records/*/values/deaf_ended=0
    records/*/values/deaf=[0,2,2,0] records/*/watchers=[8,10,10,8]
    records/1/values/kernel_unread_bytes,records/2/values/kernel_unread_bytes>163839
    records/1/values/kernel_unread_bytes,records/2/values/kernel_unread_bytes<240000
None 0 --share 30,50 --rounds 1 --receive-buffer 4KiB --processes 2 --threads 2 | tables/*/slow=[3,5]
    records/1/values/kernel_unsent_bytes>122880 records/3/values/kernel_unsent_bytes>204800
    records/1/values/deliveries_checked=560 records/3/values/deliveries_checked=400
None 0 --http2 --streams-per-connection 6 --rounds 1 --size 20KiB --fill 200KiB | tables/0/healthy_ended,tables/0/slow_ended=0
    records/1/values/deaf=2 records/*/values/deliveries_checked=560 records/1/values/kernel_unread_bytes<16384
HangUpAll 1 --rounds 1 --drain 500ms | tables/0/healthy_ended=16 tables/0/slow_ended=2
Duplicate 1 --share 1 --watchers 100 --rounds 1 | tables/0/duplicated>0
";
    cases(SLOW, "", table);
}

#[test]
fn storm() {
    let right = "lost,duplicated,disconnected,told_410=0";
    // 12 that returned and 3 that stayed.
    let returned = "
None 0 |
None 0 --close rst --threads 2 |
None 0 --processes 2 --spread 300ms --sources 2 | records/*/values/connected_ns>200000000
None 0 --http2 --streams-per-connection 5 --tls |
";
    let each = "mark_met=true deliveries_checked=/deliveries_expected deliveries_checked%15 records/#=2 records/*/values/attempts=12 \
        records/*/values/failed_attempts=0 records/*/values/all_answered_ns,records/*/values/live_latency_p99_before_ns>0 \
        records/*/values/live_deliveries_before>74 records/*/values/closed_ns<=/records/*/values/connected_ns \
        records/*/values/answered_p50_ns<=/records/*/values/all_answered_ns \
        records/*/values/all_answered_ns</records/*/values/all_caught_up_ns \
        records/*/values/server_rss_before_bytes<=/records/*/values/server_rss_peak_bytes";
    cases(&format!("{STORM} --watchers 12"), &format!("{right} {each}"), returned);
    // One at most of each watcher in each round is forgotten. All but the first, which missed nothing, get what they had seen in
    // the calm again. Who is told 410 does not return, and misses the rest. Two of three attempts fail.
    let table = "
ForgetOne 1 --watchers 6 --spread 400ms | lost>0 lost<13 +records/*/values/lost<=/lost
ReplayAll 1 --watchers 6 --rounds 1 --spread 400ms | lost=0 duplicated>79 records/0/values/duplicated=/duplicated
GoneEvent 1 --watchers 6 --rounds 1 --spread 400ms | told_410>0 told_410<7 records/0/values/all_caught_up_ns=null
    records/0/values/told_410=/told_410 lost>0
GoneStatus 1 --watchers 6 --rounds 1 --spread 400ms | told_410>0 told_410<7 records/0/values/all_caught_up_ns=null
    records/0/values/told_410=/told_410 lost>0
InitialTwice 1 --lists --clients 4 --objects 30 --rounds 1 | records/0/values/objects_wrong=4
Overloaded 0 --watchers 9 --rounds 1 | records/0/values/failed_attempts>8 records/0/facts/first_failure!null
    records/0/values/attempts=/records/0/values/failed_attempts+9
None 0 --lists --clients 4 --objects 300 | kind=lists records/*/values/objects_received=1200 records/*/values/objects_wrong=0
    records/*/values/bytes>840000 records/*/values/last_byte_ns>0 mark_met=null deliveries_checked>0
";
    cases(STORM, right, table);
}

#[test]
fn mixed() {
    // About two thirds of the writes to their namespace go to each. A watcher that returns and misses something has lost it.
    // Two probes, and nine of ten calls of each reader, find a server unwell.
    let table = "
None 0 | scenario=mixed deaf=5 deliveries_checked=/deliveries_expected deliveries_checked>1999 deliveries_checked<11400
    lost,duplicated,out_of_order,unexpected,malformed,disconnected,calls_failed=0 returned>19
    livez_fresh_answered,livez_kept_answered>29 livez_fresh_answered,livez_kept_answered<51 lists_answered,gets_answered>0
    livez_fresh_p50_ns<=/livez_fresh_max_ns livez_kept_p50_ns<=/livez_kept_max_ns
None 0 --http2 --tls --streams-per-connection 40 --churn 20 --floor off | deaf=5 deliveries_checked=/deliveries_expected deliveries_checked>1999
    lost,duplicated,out_of_order,unexpected,malformed,disconnected,calls_failed=0 returned>9
ForgetMissed 1 --rate 1000 | lost>0
Unwell 1 --churn 0 | lost=0 calls_failed>60 calls_first_fault~well
";
    cases(MIXED, "", table);
    let probed = "
None 0 --probe | livez_fresh_answered>29 livez_fresh_answered<51 livez_client_delay_p99_ns!null lists_answered=null
None 0 | livez_fresh_answered,calls_failed=null
";
    cases(PROBED, "", probed);
}

#[test]
fn floor() {
    // 100 a second for half a second, to each of the 20; each round begins with another mode.
    let modes = "records/*/subject=[\"floor\\u0020send\",\"floor\\u0020writev\",\"floor\\u0020uring\",\"floor\\u0020pages\",\
        \"floor\\u0020writev\",\"floor\\u0020uring\",\"floor\\u0020pages\",\"floor\\u0020send\"] records/*/values/deliveries_checked=1000 records/*/object_bytes=2048 \
        records/*/values/server_cpu_ns_per_delivery>0 records/*/values/frame_bytes>2047 records/*/values/frame_bytes<2150 \
        clean=true best_mode=send|writev|uring|pages";
    let options = "--rate 100 --warmup 100ms --duration 400ms --objects 4 --size 2KiB --rounds 2";
    revcast_perf(&format!("{FLOOR} {options}")).report(0, modes);
    // The last connection has two streams. What is sealed is one piece.
    let shared = "--watchers 20 --http2 --streams-per-connection 6 --rate 100 --warmup 100ms --duration 400ms --size 20KiB";
    for tls in ["", "--tls"] {
        let subjects = format!(
            "records/*/subject=[\"floor\\u0020send,\\u0020HTTP/2\\u0020with\\u00206\\u0020streams{0}\",\"floor\\u0020writev,\\u0020HTTP/2\\u0020with\\u00206\\u0020streams{0}\",\
            \"floor\\u0020uring,\\u0020HTTP/2\\u0020with\\u00206\\u0020streams{0}\",\"floor\\u0020pages,\\u0020HTTP/2\\u0020with\\u00206\\u0020streams{0}\"]",
            if tls.is_empty() { "" } else { ",\\u0020TLS" }
        );
        let right = "clean=true records/*/values/deliveries_checked=1000 protocol~HTTP/2";
        revcast_perf(&format!("{FLOOR} {shared} {tls}")).report(0, &format!("{right} {subjects}"));
    }
    revcast_perf(&format!("{FLOOR} --tls --rate max --duration 300ms --warmup 0 --mode uring"))
        .report(0, "clean=true");
    // A write of 512 events of 16 KiB is more than a socket ever takes at once; all get whole writes.
    let full = "clean=true records/*/values/short_writes>0 records/*/values/deliveries_checked>10239 \
        records/*/values/deliveries_checked%10240";
    let options = "--rate max --events-per-write 512 --size 16KiB --warmup 0 --duration 300ms";
    revcast_perf(&format!("{FLOOR} {options}")).report(0, full);
    // The mock's threads end with their connections: then its CPU time is known to 10 ms only, which may be none.
    let beside = "
None 0 --floor uring --http2 --tls | floor_mode=uring floor_clean=true floor_cpu_ratio!null floor_fault=null
    frame_bytes<=/floor_frame_bytes+23 floor_frame_bytes<=/frame_bytes+1
None 0 --floor writev | floor_mode=writev floor_clean=true floor_cpu_ratio!null floor_cpu_ns_per_delivery>0 floor_rate_ratio>0.5
    floor_fault=null frame_bytes<=/floor_frame_bytes+1 floor_frame_bytes<=/frame_bytes+1
";
    cases(BESIDE, "", beside);
}
