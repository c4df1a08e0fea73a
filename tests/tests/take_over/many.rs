//! Take-overs, and restarts, one after another under writes: every watcher's history is complete, and none lists again. At take-overs no
//! connection is refused or reset.

use std::sync::Arc;
use std::time::{Duration, Instant};

use revcast_tests::etcd::{Etcd, Gateway, Options, Release};
use revcast_tests::sizes::{as_count, sizes};
use revcast_tests::succession::{self, Certificate, Change, Place, WITHIN};
use revcast_tests::workload::Workload;
use revcast_tests::workload::compactor::Compactor;
use revcast_tests::workload::objects::NAMES;
use revcast_tests::workload::recorder::Recorder;
use revcast_tests::workload::watchers::{self, Clients, Watchers};
use revcast_tests::workload::wire::Wire;
use revcast_tests::workload::writer::Writer;

use super::loops::{Loops, Way};

const SEED: u64 = 1;
/// How long a server runs before it is killed.
const BETWEEN_RESTARTS: Duration = Duration::from_secs(3);

/// How clients reach the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    WebSocket,
    /// On this many connections.
    Http2(usize),
}

/// What is run.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) change: Change,
    pub(super) protocol: Protocol,
    pub(super) has_tls: bool,
    pub(super) watchers: usize,
    /// Whether each watches a single object.
    pub(super) is_narrow: bool,
    /// Writes a second.
    pub(super) rate: u64,
    /// How many changes.
    pub(super) times: usize,
    pub(super) grace: Duration,
    /// etcd is compacted every second to the revision of this time ago.
    pub(super) compacted: Option<Duration>,
    /// Clients of each kind beside the watchers.
    pub(super) loops: usize,
}

impl Plan {
    /// How the watchers reach the server, and the clients beside them.
    fn wires(&self, tls: Option<&Certificate>) -> (Wire, Way) {
        let trust = || tls.map(|tls| tls.trust.clone());
        match self.protocol {
            Protocol::Http1 => (Wire::http1(trust()), Way::Http1(trust())),
            Protocol::WebSocket => (Wire::websocket(trust()), Way::Http1(trust())),
            Protocol::Http2(connections) => (Wire::http2(trust().as_ref(), connections), Way::Http2(trust())),
        }
    }

    /// The longest time from the first attempt to resume to the head of the reply, on a busy machine.
    const fn gap_max(&self) -> Duration {
        Duration::from_secs(if self.has_tls { 5 } else { 2 })
    }

    /// So many objects that each write concerns about ten of the narrow watchers: it changes 1.4 of them.
    fn names(&self) -> usize {
        (self.watchers * 14 / 100 / 8).max(NAMES)
    }
}

pub(super) fn run(release: Release, plan: Plan) {
    let Plan { change, watchers: count, is_narrow, rate, times, grace, loops, has_tls, .. } = plan;
    let tls = has_tls.then(|| Certificate::new(&format!("take-over-{:?}-{}", plan.protocol, release.text())));
    let tls = tls.as_ref();
    let (wire, way) = plan.wires(tls);
    let mut etcd = Etcd::start(release, Options::default());
    let place = Place::free();
    let mut server = succession::serve(&etcd, tls, grace, &place.options());
    let workload = Workload::new(vec![server.address.clone()]);
    let workload = Arc::new(if is_narrow { workload.with_names(plan.names()) } else { workload });
    let endpoint = etcd.endpoint();
    let gateway = || Gateway::new(&endpoint);
    let recorder = Recorder::start(gateway(), Vec::new());
    let writer = Writer::start(&workload, gateway(), rate, SEED);
    let clients = Clients { count, life: Duration::from_secs(3600), is_narrow, wire: wire.clone() };
    let watchers = Watchers::start_as(&workload, &clients, SEED + 1);
    let within = succession::within(count);
    watchers.calm();
    watchers.await_all(0, 1, within).unwrap();
    let (lists, written, began) = (watchers.counts().lists, writer.written(), Instant::now());
    let loops = Loops::start(&way, &server.address, loops);
    let compactor = plan.compacted.map(|ago| Compactor::start(&endpoint, ago));
    for number in 0..times {
        // The number of shards may change.
        let shards = if number % 2 == 0 { 1 } else { 3 };
        let started = Instant::now();
        let change = match change {
            Change::TakeOver => Change::TakeOver,
            Change::Restart | Change::RestartWithEtcd => {
                std::thread::sleep(BETWEEN_RESTARTS);
                // In the middle of all of them.
                if number == times / 2 { Change::RestartWithEtcd } else { Change::Restart }
            }
        };
        succession::change(change, &mut etcd, tls, &mut server, grace, shards);
        let ended = started.elapsed();
        watchers.await_all(0, gateway().revision().unwrap(), within).unwrap();
        let counts = watchers.counts();
        println!(
            "change {}: over after {ended:.2?}; relists {}, 410 {}, slowest client {:.1?}; failures: {:?}",
            number + 1,
            counts.lists - lists,
            counts.expired,
            counts.slowest_gap,
            workload.take_failures()
        );
    }
    let rate = f64::from(u32::try_from(writer.written() - written).unwrap()) / began.elapsed().as_secs_f64();
    let (requests, slowest) = loops.end();
    writer.rest();
    drop(compactor);
    let goal = gateway().revision().unwrap();
    watchers.await_all(0, goal, within).unwrap();
    workload.end();
    let told = watchers.finish();
    recorder.until(gateway().revision().unwrap(), WITHIN).unwrap();
    let counts = watchers::judge(told, recorder.into_log(), goal);
    println!(
        "{times} changes, {count} watchers, {rate:.0} writes a second: {counts:?}; {requests} other requests, the slowest \
         {slowest:.1?}"
    );
    let problems = workload.problems().join("\n");
    assert!(problems.is_empty(), "{problems}");
    assert_eq!((counts.expired, counts.lists), (0, lists), "{counts:?}");
    assert!(counts.resumes >= (count * times) as u64, "every client is moved each time: {counts:?}");
    if let (Change::TakeOver, Protocol::Http2(connections)) = (change, plan.protocol) {
        let ended = wire.ends().unwrap();
        assert!(ended >= connections * times, "{ended} connections ended");
    }
    if change == Change::TakeOver {
        assert_eq!((counts.cut, counts.refused, counts.late), (0, 0, 0), "{counts:?}");
        assert!(counts.slowest_gap < plan.gap_max(), "{counts:?}");
        assert!(requests > 100 * times as u64, "{requests}");
    }
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn clients_go_on_at_the_successor() {
    for release in Release::ALL {
        let grace = Duration::from_secs(3);
        run(
            release,
            Plan {
                change: Change::TakeOver,
                protocol: Protocol::Http1,
                has_tls: false,
                watchers: 200,
                is_narrow: false,
                rate: 200,
                times: 3,
                grace,
                compacted: None,
                loops: 2,
            },
        );
    }
}

/// With other numbers: `REVCAST_TAKE_OVER=WATCHERS,WRITES_A_SECOND,TIMES,GRACE_MS`.
#[test]
fn many_clients_go_on_at_the_successor() {
    let [watchers, rate, times, grace] = sizes("REVCAST_TAKE_OVER", [60, 50, 2, 3_000]);
    let [watchers, times] = [watchers, times].map(as_count);
    let grace = Duration::from_millis(grace);
    run(
        Release::V3_5,
        Plan {
            change: Change::TakeOver,
            protocol: Protocol::Http1,
            has_tls: false,
            watchers,
            is_narrow: true,
            rate,
            times,
            grace,
            compacted: None,
            loops: 2,
        },
    );
}

/// With other numbers: `REVCAST_RESTARTS=WATCHERS,WRITES_A_SECOND,TIMES,COMPACTED_MS`.
#[test]
fn clients_go_on_after_restarts() {
    let [watchers, rate, times, ago] = sizes("REVCAST_RESTARTS", [60, 50, 2, 6_000]);
    let [watchers, times] = [watchers, times].map(as_count);
    let grace = Duration::from_secs(3);
    for release in Release::ALL {
        let plan = Plan {
            change: Change::Restart,
            protocol: Protocol::Http1,
            has_tls: false,
            watchers,
            is_narrow: true,
            rate,
            times,
            grace,
            compacted: Some(Duration::from_millis(ago)),
            loops: 0,
        };
        run(release, plan);
    }
}
