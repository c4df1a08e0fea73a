//! Two servers over one etcd act as one: a watch continues at either of them from the last resourceVersion, also at one
//! that lags, and writes through one are read through the other.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use revcast_tests::client::Watch;
use revcast_tests::etcd::{Etcd, Gateway, Op, Options, Release};
use revcast_tests::server::Server;
use revcast_tests::workload::Workload;
use revcast_tests::workload::objects::{self, Kind};
use revcast_tests::workload::reader::Reader;
use revcast_tests::workload::recorder::Recorder;
use revcast_tests::workload::watchers::{self, Watchers};
use revcast_tests::workload::writer::Writer;
use rustix::process::{Pid, Signal, kill_process};

const SEED: u64 = 1;
const WITHIN: Duration = Duration::from_secs(30);

/// A server that is stopped until this is dropped.
struct Frozen(Pid);

impl Frozen {
    fn new(server: &Server) -> Self {
        let pid = Pid::from_raw(i32::try_from(server.pid()).unwrap()).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        Self(pid)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        kill_process(self.0, Signal::CONT).unwrap();
    }
}

fn serve(etcd: &Etcd) -> Server {
    let endpoint = etcd.endpoint();
    Server::start(&["--etcd-endpoints", &endpoint, "--bookmark-interval", "1s", "--log-level", "error"])
}

/// Two servers, 100 watchers that change between them all the time, one server that lags for two seconds, twice.
fn alternating(release: Release) {
    let etcd = Etcd::start(release, Options::default());
    let nodes = [serve(&etcd), serve(&etcd)];
    let workload = Arc::new(Workload::new(nodes.iter().map(|node| node.address.clone()).collect()));
    let gateway = || Gateway::new(&etcd.endpoint());
    let recorder = Recorder::start(gateway(), Vec::new());
    let writer = Writer::start(&workload, gateway(), 200, SEED);
    let reader = Reader::start(&workload, gateway(), SEED + 1);
    let watchers = Watchers::start(&workload, 100, Duration::from_millis(1_500), SEED + 2);
    watchers.await_all(0, 1, WITHIN).unwrap();
    for node in [&nodes[1], &nodes[0]] {
        std::thread::sleep(Duration::from_millis(1_500));
        let frozen = Frozen::new(node);
        std::thread::sleep(Duration::from_secs(2));
        drop(frozen);
        let newest = gateway().revision().unwrap();
        watchers.await_all(0, newest, WITHIN).unwrap();
    }
    writer.rest();
    let goal = gateway().revision().unwrap();
    watchers.calm();
    watchers.await_all(0, goal, WITHIN).unwrap();
    workload.end();
    let told = watchers.finish();
    recorder.until(gateway().revision().unwrap(), WITHIN).unwrap();
    let counts = watchers::judge(told, recorder.into_log(), goal);
    let (problems, reads) = (workload.problems().join("\n"), reader.reads());
    assert!(problems.is_empty(), "{problems}");
    assert_eq!((counts.expired, counts.lost), (0, 0), "no client has to list again: {counts:?}");
    assert!(counts.events > 3_000 && counts.resumes > 400, "{counts:?}");
    assert!(reads.confirmed > 20, "{reads:?}");
}

#[test]
fn alternating_on_etcd_3_4() {
    alternating(Release::V3_4);
}

#[test]
fn alternating_on_etcd_3_5() {
    alternating(Release::V3_5);
}

fn watch(node: &Server, from: u64) -> Watch {
    let path = format!("/api/v1/namespaces/s0/configmaps?watch=1&resourceVersion={from}");
    node.client().watch(&path).unwrap()
}

fn revision_of(event: &(String, serde_json::Value)) -> u64 {
    event.1["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// One event from one node, the next from the other; and from one that has not yet seen the revision to resume from.
#[test]
fn a_resume_at_a_node_that_lags() {
    for release in Release::ALL {
        let etcd = Etcd::start(release, Options::default());
        let nodes = [serve(&etcd), serve(&etcd)];
        let mut gateway = Gateway::new(&etcd.endpoint());
        let key = objects::key(Kind::ConfigMap, "s0", "one");
        let mut put = |sequence: u64| {
            let value = format!(
                r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"one","namespace":"s0"}},"data":{{"k":"{sequence}"}}}}"#
            );
            gateway.txn(&[Op::Put(&key, value.as_bytes())]).unwrap()
        };
        let written: Vec<u64> = (0..20).map(&mut put).collect();
        let mut last = written[0];
        for (turn, revision) in written.iter().skip(1).enumerate() {
            let event = watch(&nodes[turn % 2], last).next_event();
            assert_eq!((revision_of(&event), event.0.as_str()), (*revision, "MODIFIED"));
            last = *revision;
        }

        let frozen = Frozen::new(&nodes[1]);
        let missed = put(20);
        assert_eq!(revision_of(&watch(&nodes[0], last).next_event()), missed);
        // It is asked while it cannot have that revision.
        let mut connection = nodes[1].client().connect().unwrap();
        let head = format!(
            "GET /api/v1/namespaces/s0/configmaps?watch=1&resourceVersion={missed} HTTP/1.1\r\nHost: h\r\n\r\n"
        );
        connection.write_raw(head.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let thawed = Instant::now();
        drop(frozen);
        let mut resumed = connection.into_watch().unwrap();
        let next = put(21);
        assert_eq!(revision_of(&resumed.next_event()), next, "neither {missed} again nor a gap");
        assert!(thawed.elapsed() < Duration::from_secs(10));
    }
}
