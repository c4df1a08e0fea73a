//! Clients that others wrote, among those of the tests, while servers follow each other at one address under writes: reflectors of the
//! `kube` crate, `kubectl get -w` in a loop, and watches of curl and `kubectl get --raw`, each resumed where the one before ended. What
//! each of them was told is compared with etcd's log, and no reflector lists a second time.
//!
//! With other numbers: `REVCAST_RESTARTS=WATCHERS,WRITES_A_SECOND,TIMES,COMPACTED_MS`, `REVCAST_TAKE_OVER=WATCHERS,WRITES_A_SECOND,TIMES,GRACE_MS`
//! and `REVCAST_CLIENTS=REFLECTORS,KUBECTLS,CURLS`; with another etcd: `REVCAST_TEST_STORE=etcd-3.4`.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, clippy::wildcard_enum_match_arm)]

#[path = "restarts/following.rs"]
mod following;
#[path = "restarts/reflecting.rs"]
mod reflecting;
#[path = "restarts/told.rs"]
mod told;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use following::Followers;
use reflecting::Reflectors;
use revcast_tests::etcd::{Etcd, Gateway, Op, Options, Release};
use revcast_tests::history;
use revcast_tests::server::Store;
use revcast_tests::sizes::{as_count, sizes};
use revcast_tests::succession::{self, Change, Place, WITHIN};
use revcast_tests::workload::Workload;
use revcast_tests::workload::compactor::Compactor;
use revcast_tests::workload::objects::NAMES;
use revcast_tests::workload::recorder::Recorder;
use revcast_tests::workload::watchers::{self, Clients, Watchers};
use revcast_tests::workload::wire::Wire;
use revcast_tests::workload::writer::Writer;
use told::Told;

const SEED: u64 = 1;
/// How long a server runs before it is killed.
const BETWEEN_RESTARTS: Duration = Duration::from_secs(3);
/// ConfigMaps that every reflector lists.
const FIRST: usize = 10;

/// What is run.
struct Plan {
    change: Change,
    watchers: usize,
    /// Writes a second.
    rate: u64,
    /// How many changes.
    times: usize,
    grace: Duration,
    /// etcd is compacted every second to the revision of this time ago.
    compacted: Option<Duration>,
}

/// Whether a program is there; if not, that is said.
fn is_there(program: &str, argument: &[&str]) -> bool {
    let found = Command::new(program).args(argument).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        eprintln!("!!! SKIPPED: no {program} on the PATH: it is not among the clients");
    }
    found
}

/// The etcd: of 3.5, unless the variable for the store names another release.
fn release() -> Release {
    match Store::chosen() {
        Store::Etcd(release) => release,
        Store::Embedded | Store::Beside => Release::V3_5,
    }
}

fn run(release: Release, plan: &Plan) {
    let Plan { change, watchers: count, rate, times, grace, compacted } = *plan;
    let [reflectors, kubectls, curls] = sizes("REVCAST_CLIENTS", [6, 2, 3]).map(as_count);
    let kubectls = if is_there("kubectl", &["version", "--client"]) { kubectls } else { 0 };
    let curls = if is_there("curl", &["--version"]) { curls } else { 0 };
    let mut etcd = Etcd::start(release, Options::default());
    let endpoint = etcd.endpoint();
    let gateway = || Gateway::new(&endpoint);
    let recorder = Recorder::start(gateway(), Vec::new());
    for number in 0..FIRST {
        let (key, value) = told::first(number);
        gateway().txn(&[Op::Put(&key, value.as_bytes())]).unwrap();
    }
    let place = Place::free();
    let mut server = succession::serve(&etcd, None, grace, &place.options());
    // So many objects that each write concerns about ten of the narrow watchers: it changes 1.4 of them.
    let workload = Workload::new(vec![server.address.clone()]).with_names((count * 14 / 100 / 8).max(NAMES));
    let workload = Arc::new(workload);
    // Nothing is written meanwhile: all of them list this revision.
    let listed = gateway().revision().unwrap();
    let reflectors = Reflectors::start(&server.address, reflectors, listed);
    reflectors.await_lists(WITHIN);
    let writer = Writer::start(&workload, gateway(), rate, SEED);
    let start = |count, is_narrow, wire, seed| {
        let clients = Clients { count, life: Duration::from_secs(3600), is_narrow, wire };
        let watchers = Watchers::start_as(&workload, &clients, seed);
        watchers.calm();
        watchers
    };
    let groups = [
        ("own watchers", start(count, true, Wire::default(), SEED + 1)),
        ("curl", start(curls, false, Wire::curl(), SEED + 2)),
        ("kubectl get --raw", start(kubectls, false, Wire::kubectl(), SEED + 3)),
    ];
    let await_all = |revision| {
        for (name, group) in &groups {
            group
                .await_all(0, revision, succession::within(count))
                .unwrap_or_else(|late| panic!("{name}: {late}"));
        }
    };
    await_all(1);
    println!("began: {:?}", workload.take_failures());
    let followers = Followers::start(&server.address, kubectls);
    let lists: Vec<u64> = groups.iter().map(|(_, group)| group.counts().lists).collect();
    let (written, began) = (writer.written(), Instant::now());
    let compactor = compacted.map(|ago| Compactor::start(&endpoint, ago));
    for number in 0..times {
        let started = Instant::now();
        let what = if change == Change::TakeOver {
            change
        } else {
            std::thread::sleep(BETWEEN_RESTARTS);
            // In the middle of all of them.
            if number == times / 2 { Change::RestartWithEtcd } else { Change::Restart }
        };
        // The number of shards may change.
        succession::change(what, &mut etcd, None, &mut server, grace, 1 + 2 * (number % 2));
        let ended = started.elapsed();
        await_all(gateway().revision().unwrap());
        let gaps: Vec<Duration> = groups.iter().map(|(_, group)| group.counts().slowest_gap).collect();
        println!(
            "{what:?} {}: over after {ended:.2?}, slowest clients {gaps:.1?}; reflectors: {}; failures: {:?}",
            number + 1,
            reflectors.summary(),
            workload.take_failures()
        );
    }
    let rate = f64::from(u32::try_from(writer.written() - written).unwrap()) / began.elapsed().as_secs_f64();
    writer.rest();
    drop(compactor);
    let goal = gateway().revision().unwrap();
    await_all(goal);
    workload.end();
    let ended: Vec<_> = groups.into_iter().map(|(name, group)| (name, group.finish())).collect();
    drop(writer);
    recorder.until(gateway().revision().unwrap(), WITHIN).unwrap();
    let sorted = told::log(recorder.records(u64::MAX));
    reflectors.await_all(&sorted, goal, WITHIN);
    let summary = reflectors.summary();
    let (reflected, followed) = (reflectors.end(), followers.end());
    let (log, mut broken) = (recorder.into_log(), 0);
    for ((name, told), lists) in ended.into_iter().zip(lists) {
        let counts = watchers::judge(told, log.clone(), goal);
        println!("{name}: {counts:?}");
        assert_eq!((counts.expired, counts.lists), (0, lists), "{name}: {counts:?}");
        broken += counts.refused + counts.late + counts.cut;
    }
    let problems = workload.problems().join("\n");
    assert!(problems.is_empty(), "{problems}");
    println!(
        "{times} changes, {rate:.0} writes a second; reflectors: {summary}; kubectl get -w: {} runs, {} events",
        followed.len(),
        followed.iter().map(Told::events).sum::<usize>()
    );
    for (told, reached) in
        reflected.iter().map(|told| (told, Some(goal))).chain(followed.iter().map(|told| (told, None)))
    {
        history::none(&told.check(&sorted, reached));
        assert_eq!(told.relists(), 0, "{} lists again", told.name());
    }
    assert!(followed.len() >= kubectls * times, "kubectl ends each time: {} runs", followed.len());
    if change == Change::TakeOver {
        assert_eq!(broken, 0, "requests that were refused, given up, or cut off");
        let told = reflected.iter().chain(followed.iter());
        let problems: Vec<String> = told.flat_map(|told| told.problems()).cloned().collect();
        assert!(problems.is_empty(), "{problems:?}");
    }
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn clients_of_others_go_on_at_the_successor() {
    let [watchers, rate, times, grace] = sizes("REVCAST_TAKE_OVER", [60, 50, 2, 2_000]);
    run(
        release(),
        &Plan {
            change: Change::TakeOver,
            watchers: as_count(watchers),
            rate,
            times: as_count(times),
            grace: Duration::from_millis(grace),
            compacted: None,
        },
    );
}

#[test]
fn clients_of_others_go_on_after_restarts() {
    let [watchers, rate, times, ago] = sizes("REVCAST_RESTARTS", [60, 50, 2, 6_000]);
    run(
        release(),
        &Plan {
            change: Change::Restart,
            watchers: as_count(watchers),
            rate,
            times: as_count(times),
            grace: Duration::from_secs(3),
            compacted: Some(Duration::from_millis(ago)),
        },
    );
}
