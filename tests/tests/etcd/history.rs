//! History that etcd forgets, or never had.

use std::time::{Duration, Instant};

use revcast_tests::etcd::{Etcd, Options, Release, Token};
use revcast_tests::proxy::Proxy;
use revcast_tests::server::{Scratch, Server};
use revcast_tests::websocket::WebSocket;

use super::{CONFIG_MAPS, config_map, eventually, short};

/// A server over an etcd with a proxy between them.
fn apart(release: Release) -> (Server, Proxy, Etcd) {
    let etcd = Etcd::start(release, Options::default());
    let proxy = Proxy::start(&etcd.address());
    let endpoint = format!("http://{}", proxy.address());
    (Server::start(&["--etcd-endpoints", &endpoint]), proxy, etcd)
}

#[test]
fn an_outage_without_a_compaction_is_noticed_by_nobody() {
    for release in Release::ALL {
        let (server, proxy, etcd) = apart(release);
        let control = etcd.control();
        let mut watch = server.client().watch(&format!("{CONFIG_MAPS}?watch=1")).unwrap();
        control.put("/registry/configmaps/a/x", config_map("x", "1")).unwrap();
        assert_eq!(short(&watch.next_event()), "ADDED x");
        proxy.cut();
        for value in ["2", "3"] {
            control.put("/registry/configmaps/a/x", config_map("x", value)).unwrap();
        }
        control.del("/registry/configmaps/a/x").unwrap();
        // Reads that need not be the newest are still served; the others are not.
        assert_eq!(server.client().get(&format!("{CONFIG_MAPS}?resourceVersion=0")).status, 200);
        assert_eq!(server.client().get(CONFIG_MAPS).status, 504);
        proxy.heal();
        let events = watch.events(3);
        assert_eq!(events.iter().map(short).collect::<Vec<_>>(), ["MODIFIED x", "MODIFIED x", "DELETED x"]);
        assert_eq!(events[0].1["data"]["k"], "2");
        server.await_ready(Duration::from_secs(10));
        assert_eq!(server.metric("revcast_source_epoch"), 1);
    }
}

/// Compaction beyond what was seen: what was in between is unknown.
#[test]
fn history_that_is_lost_ends_every_watch() {
    for release in Release::ALL {
        let (server, proxy, etcd) = apart(release);
        let (control, client) = (etcd.control(), server.client());
        control.put("/registry/configmaps/a/x", config_map("x", "1")).unwrap();
        let list = client.get(&format!("{CONFIG_MAPS}?limit=500")).json();
        let seen = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let mut watch = client.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={seen}")).unwrap();
        proxy.cut();
        for value in ["2", "3", "4"] {
            control.put("/registry/configmaps/a/x", config_map("x", value)).unwrap();
        }
        let newest = control.revision().unwrap();
        control.compact(newest).unwrap();
        // The old state is served until the new one is loaded.
        let stale = client.get(&format!("{CONFIG_MAPS}?resourceVersion=0")).json();
        assert_eq!(stale["items"][0]["data"]["k"], "1");
        proxy.heal();
        assert_eq!(watch.rest().iter().map(short).collect::<Vec<_>>(), ["ERROR 410"]);
        server.await_ready(Duration::from_secs(10));
        let fresh = client.get(CONFIG_MAPS).json();
        assert_eq!(fresh["items"][0]["data"]["k"], "4");
        let again = client.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={seen}")).unwrap().rest();
        assert_eq!(again.iter().map(short).collect::<Vec<_>>(), ["ERROR 410"]);
        assert_eq!(server.metric("revcast_source_epoch"), 2);
    }
}

/// A compaction at the very next revision. Old etcds do not send a delete at that revision (#19179); the state at that
/// one revision shows it, so no client has to list again.
#[test]
fn one_revision_that_is_not_told_is_found() {
    for release in Release::ALL {
        let (server, proxy, etcd) = apart(release);
        let (control, client) = (etcd.control(), server.client());
        control.put("/registry/configmaps/a/keep", config_map("keep", "1")).unwrap();
        control.put("/registry/configmaps/a/x", config_map("x", "1")).unwrap();
        let mut watch = client.watch(&format!("{CONFIG_MAPS}?watch=1")).unwrap();
        assert_eq!(watch.events(2).len(), 2);
        proxy.cut();
        let deleted = control.del("/registry/configmaps/a/x").unwrap().revision;
        control.compact(deleted).unwrap();
        control.put("/registry/configmaps/a/y", config_map("y", "1")).unwrap();
        proxy.heal();
        let events = watch.events(2);
        assert_eq!(
            events.iter().map(short).collect::<Vec<_>>(),
            ["DELETED x", "ADDED y"],
            "{}",
            release.text()
        );
        assert_eq!(events[0].1["metadata"]["resourceVersion"], deleted.to_string());
        assert_eq!(server.metric("revcast_source_epoch"), 1);
    }
}

/// The same when foreign keys are not watched: then nothing proves that such a delete was sent, so no client may keep
/// the deleted object.
#[test]
fn a_delete_that_a_watch_of_the_prefix_may_miss_is_found() {
    for release in Release::ALL {
        let options = Options { progress_interval: Some(Duration::from_secs(1)), ..Options::default() };
        let etcd = Etcd::start(release, options);
        let control = etcd.control();
        for name in ["keep", "x"] {
            control.put(&format!("/registry/configmaps/a/{name}"), config_map(name, "1")).unwrap();
        }
        let proxy = Proxy::start(&etcd.address());
        let endpoint = format!("http://{}", proxy.address());
        let server = Server::start(&["--etcd-endpoints", &endpoint, "--etcd-watch", "prefix"]);
        let client = server.client();
        let mut watch = client.watch(&format!("{CONFIG_MAPS}?watch=1")).unwrap();
        assert_eq!(watch.events(2).len(), 2);
        proxy.cut();
        let deleted = control.del("/registry/configmaps/a/x").unwrap().revision;
        control.compact(deleted).unwrap();
        control.put("/registry/configmaps/a/y", config_map("y", "1")).unwrap();
        proxy.heal();
        eventually("a list", || client.get(CONFIG_MAPS).status == 200);
        let list = client.get(CONFIG_MAPS).json();
        let names = list["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]);
        assert_eq!(names.collect::<Vec<_>>(), ["keep", "y"], "{}", release.text());
        assert_eq!(watch.rest().iter().map(short).collect::<Vec<_>>(), ["ERROR 410"], "{}", release.text());
    }
}

/// A request during an outage is answered from what is served afterwards, and compared with that: the new watch
/// continues.
#[test]
fn a_question_that_waits_for_another_state_does_not_doubt_it() {
    for release in Release::ALL {
        let scratch = Scratch::new("asked");
        let snapshot = std::path::Path::new(scratch.path()).join("snapshot.db");
        let mut etcd = Etcd::start(release, Options::default());
        etcd.control().put("/registry/configmaps/a/x", config_map("x", "1")).unwrap();
        etcd.control().snapshot_save(&snapshot).unwrap();
        for number in 0..20 {
            etcd.control().put("/registry/configmaps/a/y", config_map("y", &number.to_string())).unwrap();
        }
        let proxy = Proxy::start(&etcd.address());
        let server = Server::start(&["--etcd-endpoints", &format!("http://{}", proxy.address())]);
        let client = server.client();
        assert_eq!(client.get(CONFIG_MAPS).json()["items"].as_array().unwrap().len(), 2);
        let watches = server.metric("revcast_source_watches_total");
        proxy.cut();
        etcd.restore(&snapshot, Token::Same);
        std::thread::scope(|scope| {
            // So that one of them waits when the state is loaded, whenever that is.
            let askers: Vec<_> = (0..5)
                .map(|number| {
                    let client = &client;
                    scope.spawn(move || {
                        std::thread::sleep(Duration::from_millis(500 * number));
                        let began = Instant::now();
                        while client.get(CONFIG_MAPS).status != 200 {
                            assert!(began.elapsed() < Duration::from_secs(20), "there is no answer");
                        }
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_millis(500));
            proxy.heal();
            askers.into_iter().for_each(|asker| asker.join().unwrap());
        });
        assert_eq!(client.get(CONFIG_MAPS).json()["items"].as_array().unwrap().len(), 1);
        std::thread::sleep(Duration::from_millis(500));
        let more = server.metric("revcast_source_watches_total") - watches;
        assert_eq!(more, 1, "etcd {}: one watch goes on", release.text());
    }
}

/// A restored state, or another cluster, is another history: no state of the old one is taken for the new one's.
#[test]
fn another_line_of_revisions_is_told_apart() {
    for release in Release::ALL {
        for token in [Token::Same, Token::Other] {
            let scratch = Scratch::new("restore");
            let snapshot = std::path::Path::new(scratch.path()).join("snapshot.db");
            let mut etcd = Etcd::start(release, Options::default());
            let server = Server::start(&["--etcd-endpoints", &etcd.endpoint()]);
            let client = server.client();
            for name in ["a", "b", "c"] {
                etcd.control().put(&format!("/registry/configmaps/a/{name}"), config_map(name, "1")).unwrap();
            }
            etcd.control().snapshot_save(&snapshot).unwrap();
            for number in 0..20 {
                etcd.control().put("/registry/configmaps/a/d", config_map("d", &number.to_string())).unwrap();
            }
            let page = client.get(&format!("{CONFIG_MAPS}?limit=1")).json();
            let continuation = page["metadata"]["continue"].as_str().unwrap().to_owned();
            let newest = page["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
            let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={newest}");
            let mut watch = client.watch(&path).unwrap();
            let mut socket = WebSocket::watch(&server.address, &path);
            etcd.restore(&snapshot, token);
            assert_eq!(watch.rest().iter().map(short).collect::<Vec<_>>(), ["ERROR 410"], "{token:?}");
            let (_, told) = socket.next_frame().unwrap().unwrap();
            let told: serde_json::Value = serde_json::from_slice(&told).unwrap();
            assert_eq!((&told["type"], &told["object"]["code"]), (&"ERROR".into(), &410.into()), "{token:?}");
            assert_eq!(socket.closing(), 1000, "{token:?}");
            server.await_ready(Duration::from_secs(15));
            // A WebSocket that has closed is released, whichever epoch it belonged to.
            drop((watch, socket));
            server.wait_for_metric("revcast_watchers", 0);
            // Three objects and not four; the one that the old history's client held is gone.
            assert_eq!(client.get(CONFIG_MAPS).json()["items"].as_array().unwrap().len(), 3);
            let resumed =
                client.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={newest}")).unwrap().rest();
            assert_eq!(resumed.iter().map(short).collect::<Vec<_>>(), ["ERROR 410"], "{token:?}");
            // Also when the new history has reached that revision.
            for number in 0..30 {
                etcd.control().put("/registry/configmaps/a/e", config_map("e", &number.to_string())).unwrap();
            }
            let rest = client.get(&format!("{CONFIG_MAPS}?limit=1&continue={continuation}"));
            assert_eq!(rest.status, 410, "{token:?}: {}", rest.text());
            assert!(server.metric("revcast_source_epoch") >= 2);
            // All are released: a closing server would wait for the others.
            let closing = Instant::now();
            assert_eq!(server.terminate(), Some(0));
            assert!(closing.elapsed() < Duration::from_secs(5), "{:?}", closing.elapsed());
        }
    }
}

/// A server that starts before its etcd reports that, and serves when etcd is there.
#[test]
fn etcd_may_come_later() {
    let mut etcd = Etcd::start(Release::V3_5, Options::default());
    etcd.control().put("/registry/configmaps/a/x", config_map("x", "1")).unwrap();
    etcd.stop();
    let server = Server::start_unready(&["--etcd-endpoints", &etcd.endpoint()]);
    let client = server.client();
    let list = client.get(CONFIG_MAPS);
    assert_eq!((list.status, list.header("retry-after")), (429, Some("1")));
    assert_eq!((client.get("/readyz").status, client.get("/livez").status), (500, 200));
    assert_eq!(server.metric("revcast_source_ready"), 0);
    etcd.restart();
    server.await_ready(Duration::from_secs(15));
    assert_eq!(client.get(CONFIG_MAPS).json()["items"].as_array().unwrap().len(), 1);
    // And when etcd goes: streams stay, readiness does not.
    let mut watch = client.watch(&format!("{CONFIG_MAPS}?watch=1")).unwrap();
    assert_eq!(short(&watch.next_event()), "ADDED x");
    etcd.kill();
    eventually("the server notices", || client.get("/readyz").status == 500);
    assert!(client.get("/readyz?verbose").text().contains("[-]etcd failed"));
    assert!(watch.is_quiet_for(Duration::from_millis(500)), "a stream outlives an outage");
    etcd.restart();
    server.await_ready(Duration::from_secs(15));
    etcd.control().put("/registry/configmaps/a/x", config_map("x", "2")).unwrap();
    assert_eq!(short(&watch.next_event()), "MODIFIED x");
}

/// One write while the watch hangs, and then nothing: the missing event is noticed without another write, and the watch
/// continues at another member.
#[test]
fn a_watch_that_hangs_is_left_though_nothing_follows() {
    let etcd = Etcd::start(Release::V3_5, Options::default());
    let proxy = Proxy::start(&etcd.address());
    let endpoints = format!("http://{},{}", proxy.address(), etcd.endpoint());
    let server = Server::start(&["--etcd-endpoints", &endpoints]);
    let client = server.client();
    let mut watch = client.watch(&format!("{CONFIG_MAPS}?watch=1")).unwrap();
    proxy.hang();
    etcd.control().put("/registry/configmaps/a/x", config_map("x", "1")).unwrap();
    let began = Instant::now();
    assert_eq!(short(&watch.next_event()), "ADDED x");
    // Keepalive alone would take twenty seconds.
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert_eq!(client.get(CONFIG_MAPS).status, 200);
    server.await_ready(Duration::from_secs(5));
}
