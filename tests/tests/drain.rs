//! Two nodes over one etcd, some hundred clients, writes: one node is stopped. Every client continues at the other one
//! without loss or repeat, the ends are spread over the grace, and the node ends within it, with code 0.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use revcast_tests::etcd::{Etcd, Gateway, Options, Release};
use revcast_tests::server::Server;
use revcast_tests::workload::Workload;
use revcast_tests::workload::recorder::Recorder;
use revcast_tests::workload::watchers::{self, Watchers};
use revcast_tests::workload::writer::Writer;
use rustix::process::Signal;

const SEED: u64 = 1;
const WITHIN: Duration = Duration::from_secs(30);
const CLIENTS: usize = 300;
const GRACE: Duration = Duration::from_secs(10);
/// The largest share of ends in any tenth of the grace. Ends are spread over eight tenths: an eighth in each, and more
/// if the machine was stalled before.
const TENTH_MAX: f64 = 0.5;

fn serve(etcd: &Etcd) -> Server {
    let endpoint = etcd.endpoint();
    let grace = format!("{}s", GRACE.as_secs());
    Server::start(&["--etcd-endpoints", &endpoint, "--bookmark-interval", "1s", "--drain-grace", &grace])
}

/// The number of watches of a node, polled until it ends; and its exit code.
fn watch_it_go(node: &mut Server) -> (Vec<(Duration, u64)>, i32) {
    let began = Instant::now();
    let mut seen = Vec::new();
    loop {
        if let Some(code) = node.ended() {
            return (seen, code);
        }
        assert!(began.elapsed() < GRACE * 2, "it does not go: {seen:?}");
        let text = node.admin_client().get("/metrics").text();
        let counts = text.lines().filter(|line| line.starts_with("revcast_watchers{"));
        let counts: Vec<u64> =
            counts.filter_map(|line| line.rsplit(' ').next().and_then(|count| count.parse().ok())).collect();
        // In its last moment there are no metrics.
        if !counts.is_empty() {
            seen.push((began.elapsed(), counts.iter().sum()));
        }
        std::thread::sleep(Duration::from_millis(25));
    }
}

/// The share of the ends that came in each tenth of the grace.
fn tenths(seen: &[(Duration, u64)]) -> Vec<f64> {
    let first = seen.first().map_or(0, |(_, count)| *count);
    let tenth = |at: &Duration| usize::try_from(at.as_millis() * 10 / GRACE.as_millis()).unwrap().min(9);
    let mut ends = [0.0; 10];
    for pair in seen.windows(2) {
        let gone = u32::try_from(pair[0].1.saturating_sub(pair[1].1)).unwrap();
        ends[tenth(&pair[1].0)] += f64::from(gone);
    }
    let all = f64::from(u32::try_from(first).unwrap());
    ends.iter().map(|count| count / all).collect()
}

#[test]
fn clients_go_on_at_the_other_node() {
    let etcd = Etcd::start(Release::V3_5, Options::default());
    let mut going = serve(&etcd);
    let staying = serve(&etcd);
    let workload = Arc::new(Workload::new(vec![going.address.clone(), staying.address.clone()]));
    let gateway = || Gateway::new(&etcd.endpoint());
    let recorder = Recorder::start(gateway(), Vec::new());
    let writer = Writer::start(&workload, gateway(), 100, SEED);
    let watchers = Watchers::start(&workload, CLIENTS, Duration::from_secs(600), SEED + 1);
    watchers.calm();
    watchers.await_all(0, 1, WITHIN).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let before = going.metric("revcast_watchers");
    assert!(before > CLIENTS as u64 / 4, "{before} watches are at the node that goes");
    let lists = watchers.counts().lists;

    let told = Instant::now();
    going.signal(Signal::TERM);
    let (seen, code) = watch_it_go(&mut going);
    let took = told.elapsed();
    assert_eq!(code, 0);
    assert!(took <= GRACE + Duration::from_secs(1), "gone after {took:?}");
    let tenths = tenths(&seen);
    assert!(tenths.iter().all(|share| *share <= TENTH_MAX), "ends in each tenth: {tenths:?}, {seen:?}");
    assert!(tenths.iter().filter(|share| **share > 0.02).count() >= 5, "ends in each tenth: {tenths:?}");

    // All of them have everything, at the remaining node.
    watchers.await_all(0, gateway().revision().unwrap(), WITHIN).unwrap();
    writer.rest();
    let goal = gateway().revision().unwrap();
    watchers.await_all(0, goal, WITHIN).unwrap();
    workload.end();
    let told = watchers.finish();
    recorder.until(gateway().revision().unwrap(), WITHIN).unwrap();
    let counts = watchers::judge(told, recorder.into_log(), goal);
    let problems = workload.problems().join("\n");
    assert!(problems.is_empty(), "{problems}");
    assert_eq!((counts.expired, counts.lists), (0, lists), "no client lists again: {counts:?}");
    assert!(counts.resumes >= before && counts.events > 3_000, "{counts:?}");
    assert_eq!(staying.terminate(), Some(0));
}
