//! What a server costs etcd, counted by etcd itself.

use revcast_tests::etcd::{Etcd, Op, Options, Release};
use serde_json::json;

use super::{CONFIG_MAPS, config_map, pair};

const WATCHERS: usize = 1_000;

/// How many calls of a gRPC method etcd has answered.
pub(super) fn handled(etcd: &Etcd, method: &str) -> u64 {
    let name = format!("grpc_method=\"{method}\"");
    let lines = etcd.metrics();
    let of_method =
        lines.lines().filter(|line| line.starts_with("grpc_server_handled_total") && line.contains(&name));
    of_method.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[test]
fn watchers_cost_etcd_one_stream() {
    for release in Release::ALL {
        let pair = pair(release, Options::default(), &[]);
        let client = pair.server.client();
        let kinds = [
            "configmaps",
            "secrets",
            "pods",
            "services",
            "endpoints",
            "serviceaccounts",
            "events",
            "limitranges",
            "resourcequotas",
            "podtemplates",
        ];
        let watches: Vec<_> = (0..WATCHERS)
            .map(|number| {
                let kind = kinds[number % kinds.len()];
                client.watch(&format!("/api/v1/namespaces/ns-{}/{kind}?watch=1", number % 7)).unwrap()
            })
            .collect();
        pair.server.wait_for_metric("revcast_watchers", WATCHERS as u64);
        let metric = |name: &str| pair.etcd.metric(name).unwrap();
        let streams = metric("etcd_debugging_mvcc_watch_stream_total");
        let watchers = metric("etcd_debugging_mvcc_watcher_total");
        eprintln!(
            "etcd {}: {WATCHERS} watchers of {} resources in 7 namespaces cost {streams} watch stream(s) with {watchers} watcher(s)",
            release.text(),
            kinds.len()
        );
        assert!(streams <= 1.0 && watchers <= 1.0, "{streams} streams, {watchers} watchers");
        drop(watches);
    }
}

#[test]
fn lists_cost_etcd_their_question_only() {
    const LISTS: usize = 200;
    const OBJECTS: usize = 300;
    let pair = pair(Release::V3_5, Options::default(), &[]);
    let control = pair.etcd.control();
    let names: Vec<String> = (0..OBJECTS).map(|number| format!("m-{number}")).collect();
    for names in names.chunks(100) {
        let put = |name: &String| (format!("/registry/configmaps/a/{name}"), config_map(name, "1"));
        let puts: Vec<(String, String)> = names.iter().map(put).collect();
        let ops: Vec<Op<'_>> = puts.iter().map(|(key, value)| Op::Put(key, value.as_bytes())).collect();
        control.txn(&ops).unwrap();
    }
    let client = pair.server.client();
    assert_eq!(client.get(CONFIG_MAPS).json()["items"].as_array().unwrap().len(), OBJECTS);
    let (ranges, keys) = (handled(&pair.etcd, "Range"), pair.etcd.metric("etcd_debugging_mvcc_range_total"));
    let questions = pair.server.metric("revcast_source_read_index_requests_total");
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                for _ in 0..LISTS / 20 {
                    assert_eq!(client.get(CONFIG_MAPS).json()["items"].as_array().unwrap().len(), OBJECTS);
                }
            });
        }
    });
    let asked = pair.server.metric("revcast_source_read_index_requests_total") - questions;
    let ranges = handled(&pair.etcd, "Range") - ranges;
    eprintln!(
        "{LISTS} consistent lists of {OBJECTS} objects: {asked} questions, etcd answered {ranges} ranges ({keys:?} before)"
    );
    // Each of them reads one key at most; one request per second for the revision continues beside them.
    assert!(ranges <= asked + 2, "{ranges} ranges for {asked} questions");
    assert!(asked <= LISTS as u64 + 5, "readers share questions: {asked}");
    // Reads that need not be the newest cost nothing.
    let before = pair.server.metric("revcast_source_answered_total");
    for _ in 0..50 {
        assert_eq!(client.get(&format!("{CONFIG_MAPS}?resourceVersion=0")).status, 200);
        assert_eq!(client.get(&format!("{CONFIG_MAPS}/m-1?resourceVersion=0")).status, 200);
    }
    assert_eq!(pair.server.metric("revcast_source_answered_total"), before);
}

/// If etcd can be asked for progress, foreign keys are not watched, and bookmarks and consistent reads continue
/// although nothing happens below the prefix.
#[test]
fn a_watch_of_the_prefix_is_asked_for_progress() {
    let etcd = Etcd::start(
        Release::V3_5,
        Options { progress_interval: Some(std::time::Duration::from_secs(1)), ..Options::default() },
    );
    let server = revcast_tests::server::Server::start(&[
        "--etcd-endpoints",
        &etcd.endpoint(),
        "--etcd-watch",
        "prefix",
        "--bookmark-interval",
        "1s",
    ]);
    let (client, control) = (server.client(), etcd.control());
    control.put("/registry/configmaps/a/x", config_map("x", "1")).unwrap();
    let mut watch = client.watch(&format!("{CONFIG_MAPS}?watch=1&allowWatchBookmarks=true")).unwrap();
    let (kind, _) = watch.next_event();
    assert_eq!(kind, "ADDED");
    let mut newest = 0;
    for number in 0..20 {
        newest = control.put("/elsewhere/x", number.to_string()).unwrap();
    }
    // 3.5.1 reports progress by itself, every second here.
    super::eventually("a bookmark at the newest revision", || {
        let (kind, object) = watch.next_event();
        kind == "BOOKMARK" && object["metadata"]["resourceVersion"] == json!(newest.to_string())
    });
    let list = client.get(CONFIG_MAPS);
    assert_eq!(
        (list.status, list.json()["metadata"]["resourceVersion"].clone()),
        (200, json!(newest.to_string()))
    );
    assert_eq!(server.metric("revcast_source_events_ignored_total"), 0, "keys of others are not sent");
}
