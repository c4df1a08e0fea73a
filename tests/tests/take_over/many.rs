//! Take-overs, and restarts, one after another under writes: every watcher's history is complete, and none lists again. At take-overs no
//! connection is refused or reset.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use revcast_tests::etcd::{Etcd, Gateway, Options, Release};
use revcast_tests::workload::Workload;
use revcast_tests::workload::recorder::Recorder;
use revcast_tests::workload::watchers::{self, Watchers};
use revcast_tests::workload::writer::Writer;

use super::loops::Loops;
use super::{WITHIN, serve, succeed};

const SEED: u64 = 1;
/// How long a server runs before it is killed.
const BETWEEN_RESTARTS: Duration = Duration::from_secs(3);

/// What happens to the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    TakeOver,
    /// It is killed and started again; in the middle of all of them etcd is, too. etcd is compacted every second to the revision of
    /// this time ago.
    Restart(Duration),
}

/// What is run.
#[derive(Clone, Copy)]
struct Plan {
    change: Change,
    watchers: usize,
    /// Whether each watches a single object.
    is_narrow: bool,
    /// Writes a second.
    rate: u64,
    /// How many changes.
    times: usize,
    grace: Duration,
    /// Clients of each kind beside the watchers.
    loops: usize,
}

/// Compacts etcd, until it is dropped.
struct Compactor(Arc<AtomicBool>);

impl Compactor {
    fn start(endpoint: &str, ago: Duration) -> Self {
        let (mut gateway, over) = (Gateway::new(endpoint), Arc::<AtomicBool>::default());
        let stops = Arc::clone(&over);
        std::thread::spawn(move || {
            let mut known = VecDeque::new();
            while !stops.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_secs(1));
                // etcd may be away.
                known.extend(gateway.revision().map(|revision| (Instant::now(), revision)));
                while let Some((at, revision)) = known.front().copied()
                    && at.elapsed() >= ago
                {
                    known.pop_front();
                    let _ = gateway.compact(revision);
                }
            }
        });
        Self(over)
    }
}

impl Drop for Compactor {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn run(release: Release, plan: Plan) {
    let Plan { change, watchers: count, is_narrow, rate, times, grace, loops } = plan;
    let mut etcd = Etcd::start(release, Options::default());
    let mut server = serve(&etcd, grace, &[]);
    let workload = Arc::new(Workload::new(vec![server.address.clone()]));
    let endpoint = etcd.endpoint();
    let gateway = || Gateway::new(&endpoint);
    let recorder = Recorder::start(gateway(), Vec::new());
    let writer = Writer::start(&workload, gateway(), rate, SEED);
    let start = if is_narrow { Watchers::start_narrow } else { Watchers::start };
    let watchers = start(&workload, count, Duration::from_secs(3600), SEED + 1);
    watchers.calm();
    watchers.await_all(0, 1, WITHIN).unwrap();
    let (lists, written, began) = (watchers.counts().lists, writer.written(), Instant::now());
    let loops = Loops::start(&server.address, loops);
    let compactor =
        if let Change::Restart(ago) = change { Some(Compactor::start(&endpoint, ago)) } else { None };
    for number in 0..times {
        // The number of shards may change.
        let shards = if number % 2 == 0 { "1" } else { "3" };
        let started = Instant::now();
        match change {
            Change::TakeOver => {
                let new = succeed(&etcd, &server, grace, &["--shards", shards]);
                let mut old = std::mem::replace(&mut server, new);
                assert_eq!(old.await_end(grace + WITHIN), 0, "the old one ends in order");
            }
            Change::Restart(_) => {
                std::thread::sleep(BETWEEN_RESTARTS);
                let (address, admin) = (server.address.clone(), server.admin.clone());
                server.kill();
                if number == times / 2 {
                    etcd.kill();
                    etcd.restart();
                }
                server = serve(
                    &etcd,
                    grace,
                    &["--listen", &address, "--admin-listen", &admin, "--shards", shards],
                );
            }
        }
        let ended = started.elapsed();
        watchers.await_all(0, gateway().revision().unwrap(), WITHIN).unwrap();
        let counts = watchers.counts();
        println!(
            "change {}: over after {ended:.2?}; relists {}, 410 {}, slowest client {:.1?}",
            number + 1,
            counts.lists - lists,
            counts.expired,
            counts.slowest_gap
        );
    }
    let rate = f64::from(u32::try_from(writer.written() - written).unwrap()) / began.elapsed().as_secs_f64();
    let (requests, slowest) = loops.end();
    writer.rest();
    drop(compactor);
    let goal = gateway().revision().unwrap();
    watchers.await_all(0, goal, WITHIN).unwrap();
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
    if change == Change::TakeOver {
        assert_eq!((counts.cut, counts.refused), (0, 0), "{counts:?}");
        assert!(counts.slowest_gap < Duration::from_secs(2), "{counts:?}");
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
                watchers: 200,
                is_narrow: false,
                rate: 200,
                times: 3,
                grace,
                loops: 2,
            },
        );
    }
}

/// With other numbers: `REVCAST_TAKE_OVER=WATCHERS,WRITES_A_SECOND,TIMES,GRACE_MS`.
#[test]
fn many_clients_go_on_at_the_successor() {
    let text = std::env::var("REVCAST_TAKE_OVER").unwrap_or_else(|_| "60,50,2,3000".to_owned());
    let numbers: Vec<u64> = text.split(',').map(|number| number.parse().unwrap()).collect();
    let &[watchers, rate, times, grace] = numbers.as_slice() else { panic!("four numbers, and not {text}") };
    let [watchers, times] = [watchers, times].map(|number| usize::try_from(number).unwrap());
    let grace = Duration::from_millis(grace);
    run(
        Release::V3_5,
        Plan { change: Change::TakeOver, watchers, is_narrow: true, rate, times, grace, loops: 2 },
    );
}

/// With other numbers: `REVCAST_RESTARTS=WATCHERS,WRITES_A_SECOND,TIMES,COMPACTED_MS`.
#[test]
fn clients_go_on_after_restarts() {
    let text = std::env::var("REVCAST_RESTARTS").unwrap_or_else(|_| "60,50,2,4000".to_owned());
    let numbers: Vec<u64> = text.split(',').map(|number| number.parse().unwrap()).collect();
    let &[watchers, rate, times, ago] = numbers.as_slice() else { panic!("four numbers, and not {text}") };
    let [watchers, times] = [watchers, times].map(|number| usize::try_from(number).unwrap());
    let change = Change::Restart(Duration::from_millis(ago));
    let grace = Duration::from_secs(3);
    for release in Release::ALL {
        run(release, Plan { change, watchers, is_narrow: true, rate, times, grace, loops: 0 });
    }
}
