//! A start with the history that etcd still has (`--warm-start`): clients of before it resume. Under load, `etcd_faults` has the
//! same.

use std::time::{Duration, Instant};

use revcast_tests::client::Client;
use revcast_tests::etcd::{Control, Etcd, Gateway, Op, Options, Release};
use revcast_tests::server::Server;
use serde_json::json;

use super::defined::{FOLDER, GADGETS, definition, gadget, key};
use super::{CONFIG_MAPS, config_map, eventually, short};

/// A config map with a label.
fn labelled(name: &str, tier: &str) -> String {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "namespace": "a", "labels": {"tier": tier}}})
        .to_string()
}

fn serve(etcd: &Etcd, start: &str) -> Server {
    Server::start(&["--etcd-endpoints", &etcd.endpoint(), "--warm-start", start])
}

/// The ways of a start that has history. With `fast` it is there some time later.
const WITH_HISTORY: [&str; 2] = ["full", "fast"];

/// Waits until the window begins at this revision.
fn await_history(server: &Server, from: u64) {
    eventually("history", || server.metric("revcast_window_compacted_revision") == from);
}

fn put(control: &Control, name: &str, tier: &str) -> u64 {
    control.put(&format!("/registry/configmaps/a/{name}"), labelled(name, tier)).unwrap()
}

fn watched(client: &Client, query: &str, from: u64, count: usize) -> Vec<String> {
    let mut watch = client.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}{query}")).unwrap();
    watch.events(count).iter().map(short).collect()
}

/// A watch after a revision that is not there any more.
fn expires(client: &Client, from: u64) {
    let mut watch = client.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}")).unwrap();
    assert_eq!(watch.rest().iter().map(short).collect::<Vec<_>>(), ["ERROR 410"], "after {from}");
}

#[test]
fn clients_of_before_a_restart_resume() {
    for (release, start) in Release::ALL.into_iter().flat_map(|it| WITH_HISTORY.map(|start| (it, start))) {
        let etcd = Etcd::start(release, Options::default());
        let control = etcd.control();
        put(&control, "goes", "web");
        put(&control, "leaves", "web");
        put(&control, "stays", "web");
        control.put("/elsewhere/x", "not for us").unwrap();
        let server = serve(&etcd, "full");
        let page = server.client().get(&format!("{CONFIG_MAPS}?limit=1")).json();
        let seen: u64 = page["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
        server.kill();
        // While no server runs. The first event of each object shows whether the state before it is known.
        put(&control, "leaves", "db");
        control.del("/registry/configmaps/a/goes").unwrap();
        put(&control, "comes", "db");
        put(&control, "comes", "web");
        let newest = put(&control, "leaves", "dust");

        let server = serve(&etcd, start);
        let client = server.client();
        await_history(&server, 1);
        let all = ["MODIFIED leaves", "DELETED goes", "ADDED comes", "MODIFIED comes", "MODIFIED leaves"];
        assert_eq!(watched(&client, "", seen, 5), all);
        let of_web = ["DELETED leaves", "DELETED goes", "ADDED comes"];
        assert_eq!(watched(&client, "&labelSelector=tier%3Dweb", seen, 3), of_web);
        let dusty = client.watch(&format!(
            "{CONFIG_MAPS}?watch=1&resourceVersion={seen}&labelSelector=tier%3Dweb&timeoutSeconds=1"
        ));
        assert_eq!(dusty.unwrap().rest().len(), 3, "nothing else matches");
        // The pages of a list that was begun before, and the state of then.
        let rest = client.get(&format!("{CONFIG_MAPS}?limit=9&continue={token}")).json();
        let names = |list: &serde_json::Value| -> Vec<String> {
            let items = list["items"].as_array().unwrap().iter();
            items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(&rest), ["leaves", "stays"]);
        let exact = format!("{CONFIG_MAPS}?resourceVersion={seen}&resourceVersionMatch=Exact");
        assert_eq!(names(&client.get(&exact).json()), ["goes", "leaves", "stays"]);
        // And the newest state.
        let list = client.get(CONFIG_MAPS).json();
        assert_eq!(names(&list), ["comes", "leaves", "stays"]);
        assert_eq!(list["metadata"]["resourceVersion"], newest.to_string());
        assert_eq!(
            (server.metric("revcast_source_epoch"), server.metric("revcast_source_loads_total")),
            (1, 1)
        );
        server.kill();

        // Without history it is as it always was.
        let server = serve(&etcd, "off");
        expires(&server.client(), seen);
        assert_eq!(server.metric("revcast_window_compacted_revision"), newest);
        assert_eq!(
            watched(&server.client(), "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", newest, 3)
                .len(),
            3
        );
    }
}

/// History begins where etcd has compacted it; what that removed is not missed. Old etcds leave out a delete at exactly the
/// compacted revision (#19179).
#[test]
fn history_begins_at_the_compacted_revision() {
    for (release, start) in Release::ALL.into_iter().flat_map(|it| WITH_HISTORY.map(|start| (it, start))) {
        let etcd = Etcd::start(release, Options::default());
        let control = etcd.control();
        for name in ["a", "b", "c"] {
            put(&control, name, "web");
        }
        let before = put(&control, "a", "db");
        let border = control.del("/registry/configmaps/a/b").unwrap().revision;
        control.compact(border).unwrap();
        let server = serve(&etcd, start);
        assert_eq!(server.metric("revcast_window_compacted_revision"), border, "nothing came after it");
        server.kill();
        control.del("/registry/configmaps/a/c").unwrap();
        put(&control, "d", "web");
        let server = serve(&etcd, start);
        await_history(&server, border);
        assert_eq!(watched(&server.client(), "", border, 2), ["DELETED c", "ADDED d"]);
        expires(&server.client(), before);
        let list = server.client().get(CONFIG_MAPS).json();
        assert_eq!(list["items"].as_array().unwrap().len(), 2);
        assert_eq!(server.metric("revcast_source_loads_total"), 1);
    }
}

/// Nothing is answered from a state that is replayed halfway, and it is told how far it is. The window keeps its limit.
#[test]
fn what_is_replayed_halfway_is_not_served() {
    const WRITES: usize = 6_000;
    let etcd = Etcd::start(Release::V3_5, Options::default());
    let mut gateway = Gateway::new(&etcd.endpoint());
    for number in 0..WRITES {
        let value = config_map("x", &number.to_string());
        gateway.txn(&[Op::Put("/registry/configmaps/a/x", value.as_bytes())]).unwrap();
    }
    let endpoint = etcd.endpoint();
    let options = ["--etcd-endpoints", &endpoint, "--ring-events", "2048"];
    // A ring that is smaller than history bounds what is replayed.
    let server = Server::start(&options);
    let newest = gateway.revision().unwrap();
    assert_eq!(server.metric("revcast_window_compacted_revision"), newest - 2048);
    server.kill();

    let server = Server::start_unready(&options[..2]);
    let client = server.client();
    let (mut refused, mut told) = (0, Vec::new());
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < Duration::from_secs(30), "it does not become ready");
        let list = client.get(&format!("{CONFIG_MAPS}?resourceVersion=0"));
        if list.status == 200 {
            assert_eq!(list.json()["items"][0]["data"]["k"], (WRITES - 1).to_string());
            break;
        }
        assert_eq!(list.status, 429, "{}", list.text());
        refused += 1;
        let ready = client.get("/readyz?verbose");
        if let Some((_, rest)) = ready.text().split_once("[-]etcd failed: replaying: ") {
            told.push(rest.split_whitespace().take(3).collect::<Vec<_>>().join(" "));
        }
    }
    assert!(refused > 0 && told.iter().any(|told| told.ends_with(&format!("of {}", newest - 1))), "{told:?}");
    server.await_ready(Duration::from_secs(10));
    assert!(!client.get("/readyz?verbose").text().contains("replaying"));
    assert_eq!(server.metric("revcast_window_compacted_revision"), 1);
    assert_eq!(watched(&client, "", 2, WRITES - 1).len(), WRITES - 1);
}

/// The newest state is served while history is read; then clients of before resume. The window keeps its limit, and what happens
/// meanwhile is in it.
#[test]
fn history_comes_while_the_newest_state_is_served() {
    const WRITES: u64 = 6_000;
    for release in Release::ALL {
        let etcd = Etcd::start(release, Options::default());
        let mut gateway = Gateway::new(&etcd.endpoint());
        let write = |gateway: &mut Gateway, number: u64| {
            let value = config_map("x", &number.to_string());
            gateway.txn(&[Op::Put("/registry/configmaps/a/x", value.as_bytes())]).unwrap();
        };
        (0..WRITES).for_each(|number| write(&mut gateway, number));
        let loaded = gateway.revision().unwrap();
        let endpoint = etcd.endpoint();
        let options = ["--etcd-endpoints", &endpoint, "--warm-start", "fast"];
        let server = Server::start_unready(&options);
        let client = server.client();
        let first =
            || Some(client.get(&format!("{CONFIG_MAPS}?resourceVersion=0"))).filter(|it| it.status == 200);
        let began = Instant::now();
        let list = loop {
            assert!(began.elapsed() < Duration::from_secs(30), "it does not become ready");
            if let Some(list) = first() {
                break list.json();
            }
        };
        assert_eq!(list["items"][0]["data"]["k"], (WRITES - 1).to_string());
        assert_eq!(server.metric("revcast_window_compacted_revision"), loaded, "history was there too early");
        // What is served is a moment ahead of the first word of etcd that nothing is newer.
        eventually("readiness", || {
            let is_ready = client.get("/readyz").status == 200;
            assert!(
                is_ready || server.metric("revcast_window_compacted_revision") == loaded,
                "history came first"
            );
            is_ready
        });
        let mut watch = client.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={loaded}")).unwrap();
        let mut newest = WRITES;
        eventually("history", || {
            write(&mut gateway, newest);
            newest += 1;
            server.metric("revcast_window_compacted_revision") == 1
        });
        let since = usize::try_from(newest - WRITES).unwrap();
        assert_eq!(watch.events(since).len(), since);
        let values = |from: u64, count: u64| -> Vec<u64> {
            let count = usize::try_from(count).unwrap();
            let mut watch = client.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}")).unwrap();
            let events = watch.events(count);
            events.iter().map(|it| it.1["data"]["k"].as_str().unwrap().parse().unwrap()).collect()
        };
        assert_eq!(values(1, newest), (0..newest).collect::<Vec<_>>());
        assert_eq!(values(loaded - 5, 5 + since as u64), (WRITES - 5..newest).collect::<Vec<_>>());
        let exact = format!("{CONFIG_MAPS}?resourceVersion=2500&resourceVersionMatch=Exact");
        assert_eq!(client.get(&exact).json()["items"][0]["data"]["k"], "2498");
        assert_eq!(server.metric("revcast_source_loads_total"), 1);
        server.kill();

        // There is no room for all of it.
        let server = Server::start(&[&options[..], &["--ring-events", "2048"]].concat());
        let newest = gateway.revision().unwrap();
        await_history(&server, newest - 2048);
        assert_eq!(server.metric("revcast_window_events"), 2048);
    }
}

/// History that is compacted faster than it can be replayed is left out in the end.
#[test]
fn a_border_that_always_moves_stops_no_start() {
    for release in Release::ALL {
        let etcd = Etcd::start(release, Options::default());
        let mut gateway = Gateway::new(&etcd.endpoint());
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    let mut newest = 0;
                    for number in 0..200 {
                        let value = config_map("x", &number.to_string());
                        newest =
                            gateway.txn(&[Op::Put("/registry/configmaps/a/x", value.as_bytes())]).unwrap();
                    }
                    gateway.compact(newest).unwrap();
                    std::thread::sleep(Duration::from_millis(200));
                }
            });
            let starts = WITH_HISTORY.into_iter().cycle().take(6).map(|start| {
                let server = serve(&etcd, start);
                eventually("a consistent list", || server.client().get(CONFIG_MAPS).status == 200);
                server.kill();
            });
            let starts = starts.count();
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(starts, 6);
        });
    }
}

/// Definitions come and go in history with their objects.
#[test]
fn definitions_of_history_are_followed() {
    for release in Release::ALL {
        let etcd = Etcd::start(release, Options::default());
        let control = etcd.control();
        let place = format!("{FOLDER}/gadgets.example.com");
        control.put(&place, definition(&["v1"]).to_string()).unwrap();
        control.put(&key("one"), gadget("one", "red")).unwrap();
        control.del(&key("one")).unwrap();
        // An object is left behind.
        control.put(&key("left"), gadget("left", "red")).unwrap();
        control.del(&place).unwrap();
        control.put(&key("two"), gadget("two", "red")).unwrap();
        put(&control, "x", "web");
        let server = serve(&etcd, "full");
        assert_eq!(server.client().get(GADGETS).status, 404);
        assert_eq!(watched(&server.client(), "", 1, 1), ["ADDED x"]);
        assert_eq!(server.metric("revcast_source_loads_total"), 1);
        server.kill();

        let defined = control.put(&place, definition(&["v1"]).to_string()).unwrap();
        control.put(&key("two"), gadget("two", "blue")).unwrap();
        let server = serve(&etcd, "full");
        let client = server.client();
        let items = client.get(GADGETS).json();
        assert_eq!(items["items"].as_array().unwrap().len(), 2, "etcd {}: {items}", release.text());
        let mut watch = client.watch(&format!("{GADGETS}?watch=1&resourceVersion={defined}")).unwrap();
        assert_eq!(short(&watch.next_event()), "MODIFIED two");
        // Of before nothing is known.
        let mut old = client.watch(&format!("{GADGETS}?watch=1&resourceVersion={}", defined - 1)).unwrap();
        assert_eq!(old.rest().iter().map(short).collect::<Vec<_>>(), ["ERROR 410"]);
        assert_eq!(server.metric("revcast_source_loads_total"), 1);
        server.kill();

        // What came before the newest definition is left out.
        let server = serve(&etcd, "fast");
        await_history(&server, defined);
        let client = server.client();
        let mut watch = client.watch(&format!("{GADGETS}?watch=1&resourceVersion={defined}")).unwrap();
        assert_eq!(short(&watch.next_event()), "MODIFIED two");
    }
}
