//! Take-overs one after another under writes: every watcher's history is complete, none lists again, no connection is refused or reset.

use std::sync::Arc;
use std::time::{Duration, Instant};

use revcast_tests::etcd::{Etcd, Gateway, Options, Release};
use revcast_tests::history::{self, Watcher};
use revcast_tests::workload::Workload;
use revcast_tests::workload::recorder::Recorder;
use revcast_tests::workload::watchers::{Counts, Watchers};
use revcast_tests::workload::writer::Writer;

use super::loops::Loops;
use super::{WITHIN, serve, succeed};

const SEED: u64 = 1;

/// What is run.
#[derive(Clone, Copy)]
struct Plan {
    watchers: usize,
    /// Whether each watches a single object.
    is_narrow: bool,
    /// Writes a second.
    rate: u64,
    /// How many take-overs.
    times: usize,
    grace: Duration,
    /// Clients of each kind beside the watchers.
    loops: usize,
}

fn run(release: Release, plan: Plan) {
    let Plan { watchers: count, is_narrow, rate, times, grace, loops } = plan;
    let etcd = Etcd::start(release, Options::default());
    let mut server = serve(&etcd, grace, &[]);
    let workload = Arc::new(Workload::new(vec![server.address.clone()]));
    let gateway = || Gateway::new(&etcd.endpoint());
    let recorder = Recorder::start(gateway(), Vec::new());
    let writer = Writer::start(&workload, gateway(), rate, SEED);
    let start = if is_narrow { Watchers::start_narrow } else { Watchers::start };
    let watchers = start(&workload, count, Duration::from_secs(3600), SEED + 1);
    watchers.calm();
    watchers.await_all(0, 1, WITHIN).unwrap();
    let (lists, written, began) = (watchers.counts().lists, writer.written(), Instant::now());
    let loops = Loops::start(&server.address, loops);
    for number in 0..times {
        // The number of shards may change.
        let shards = if number % 2 == 0 { "1" } else { "3" };
        let started = Instant::now();
        let new = succeed(&etcd, &server, grace, &["--shards", shards]);
        let took_over = started.elapsed();
        let mut old = std::mem::replace(&mut server, new);
        assert_eq!(old.await_end(grace + WITHIN), 0, "the old one ends in order");
        let ended = started.elapsed();
        watchers.await_all(0, gateway().revision().unwrap(), WITHIN).unwrap();
        let counts = watchers.counts();
        println!(
            "take-over {}: serving after {took_over:.2?}, the old one ended after {ended:.2?}; relists {}, 410 {}, slowest \
             client {:.1?}",
            number + 1,
            counts.lists - lists,
            counts.expired,
            counts.slowest_gap
        );
    }
    let rate = f64::from(u32::try_from(writer.written() - written).unwrap()) / began.elapsed().as_secs_f64();
    let (requests, slowest) = loops.end();
    writer.rest();
    let goal = gateway().revision().unwrap();
    watchers.await_all(0, goal, WITHIN).unwrap();
    workload.end();
    let told = watchers.finish();
    recorder.until(gateway().revision().unwrap(), WITHIN).unwrap();
    let logs = [recorder.into_log()];
    let (mut violations, mut counts) = (Vec::new(), Counts::default());
    for mut one in told {
        counts = counts.plus(one.counts);
        one.segments.last_mut().unwrap().reached = Some(goal);
        let scope = one.scope;
        let wants = move |key: &str, form: &[u8]| scope.wants(key, form);
        let watcher = Watcher { name: one.name, wants: &wants, segments: one.segments };
        violations.extend(history::check(&logs, &[watcher]));
    }
    println!(
        "{times} take-overs, {count} watchers, {rate:.0} writes a second: {counts:?}; {requests} other requests, the slowest \
         {slowest:.1?}"
    );
    history::none(&violations);
    let problems = workload.problems().join("\n");
    assert!(problems.is_empty(), "{problems}");
    assert_eq!((counts.expired, counts.lists, counts.cut, counts.refused), (0, lists, 0, 0), "{counts:?}");
    assert!(counts.resumes >= (count * times) as u64, "every client is moved each time: {counts:?}");
    assert!(counts.slowest_gap < Duration::from_secs(2), "{counts:?}");
    assert!(requests > 100 * times as u64, "{requests}");
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn clients_go_on_at_the_successor() {
    for release in Release::ALL {
        let grace = Duration::from_secs(3);
        run(release, Plan { watchers: 200, is_narrow: false, rate: 200, times: 3, grace, loops: 2 });
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
    run(Release::V3_5, Plan { watchers, is_narrow: true, rate, times, grace, loops: 2 });
}
