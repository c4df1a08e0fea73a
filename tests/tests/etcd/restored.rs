//! A restore that only etcd's history shows: an older state is back under the same cluster id, and the new history has
//! passed the old revision before the server connects again. Each case lists the writes; every one must end all watches
//! with 410, and lists must show etcd's state.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use revcast_tests::etcd::{Control, Etcd, Gateway, Op, Options, Release, Token};
use revcast_tests::proxy::Proxy;
use revcast_tests::server::{Scratch, Server};

use super::{CONFIG_MAPS, config_map, eventually, short};

/// The keys of one case, written in this order.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    /// Before the snapshot.
    before: &'static [Write],
    /// Lost by the restore, before the server loads.
    lost: &'static [Write],
    /// Lost by the restore, after the server has loaded.
    lost_live: &'static [Write],
    /// In the new history, before it is as far as the old one was; foreign keys follow until it is past that.
    new: &'static [Write],
    compacts: Compacts,
}

/// What etcd compacts of the new history.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compacts {
    Nothing,
    /// Exactly up to the last served revision.
    ToLast,
    /// Exactly up to the next one.
    ToNext,
    /// All of it, while the first page of the state is being read for the comparison. There must be more than one page.
    WhileCompared,
}

#[derive(Clone, Copy)]
enum Write {
    /// This many config maps with this name and a number.
    New(&'static str, u64),
    /// One config map, this many times, with values that begin with this.
    Again(&'static str, &'static str, u64),
    Delete(&'static str),
    /// This many writes of a key outside the prefix.
    Foreign(u64),
}

use Compacts::{Nothing, ToLast, ToNext, WhileCompared};
use Write::{Again, Delete, Foreign, New};

const CASES: &[Case] = &[
    Case {
        name: "nothing was written between the load and the break",
        before: &[New("kept", 3)],
        lost: &[New("lost", 19)],
        lost_live: &[],
        new: &[New("new", 15)],
        compacts: Nothing,
    },
    Case {
        name: "the same keys, but for some that are new below the last revision",
        before: &[New("kept", 19), Foreign(1)],
        lost: &[Foreign(2)],
        lost_live: &[],
        new: &[New("new", 1)],
        compacts: Nothing,
    },
    Case {
        name: "nothing below the prefix at the load",
        before: &[Foreign(3)],
        lost: &[Foreign(19)],
        lost_live: &[],
        new: &[New("new", 5)],
        compacts: Nothing,
    },
    Case {
        name: "what was deleted before the load is back",
        before: &[New("kept", 3), New("back", 1)],
        lost: &[Delete("back-0"), Foreign(5)],
        lost_live: &[],
        new: &[],
        compacts: Nothing,
    },
    Case {
        name: "what was deleted after the load is back, and others wrote much since",
        before: &[New("kept", 3), New("back", 1)],
        lost: &[],
        lost_live: &[New("live", 3), Delete("back-0"), Foreign(200)],
        new: &[],
        compacts: Nothing,
    },
    Case {
        name: "changes that were watched, and others at the same revisions",
        before: &[New("kept", 3)],
        lost: &[Foreign(1)],
        lost_live: &[New("live", 5)],
        new: &[New("new", 7)],
        compacts: Nothing,
    },
    Case {
        name: "one key, written anew at the same revisions",
        before: &[New("kept", 3)],
        lost: &[Again("one", "old", 10)],
        lost_live: &[],
        new: &[Again("one", "new", 10)],
        compacts: Nothing,
    },
    Case {
        name: "history is forgotten exactly as far as it was served",
        before: &[New("kept", 19), Foreign(1)],
        lost: &[Foreign(2)],
        lost_live: &[],
        new: &[New("new", 1), Foreign(1)],
        compacts: ToLast,
    },
    Case {
        name: "history is forgotten one revision further, and some objects are lost",
        before: &[New("kept", 3)],
        lost: &[New("lost", 19)],
        lost_live: &[],
        new: &[],
        compacts: ToNext,
    },
    Case {
        name: "history is forgotten one revision further, and one object is deleted there while others are lost",
        before: &[New("kept", 3), Foreign(1), New("gone", 1)],
        lost: &[New("lost", 2)],
        lost_live: &[],
        new: &[Foreign(2), Delete("gone-0")],
        compacts: ToNext,
    },
    Case {
        name: "history is forgotten one revision further, and others were changed",
        before: &[New("kept", 19), Foreign(1)],
        lost: &[Foreign(2)],
        lost_live: &[],
        new: &[New("new", 1)],
        compacts: ToNext,
    },
];

/// More than fit on a first page, with names that make it weigh more than all other traffic of etcd meanwhile.
const COMPARED_IN_PAGES: Case = Case {
    name: "history is forgotten while states are compared",
    before: &[New("kept-and-so-that-a-page-of-such-names-weighs-more-than-ten-thousand-bytes", 120)],
    lost: &[New("lost", 3)],
    lost_live: &[],
    new: &[],
    compacts: WhileCompared,
};
/// The least weight of such a page.
const PAGE_BYTES: u64 = 9_000;

fn write(etcd: &Etcd, writes: &[Write]) {
    let key = |name: &str| format!("/registry/configmaps/a/{name}");
    // One connection: a process of etcdctl takes 30 ms of CPU time for each.
    let mut gateway = Gateway::new(&etcd.endpoint()).with_patience(Duration::from_secs(30));
    let mut put = |key: &str, value: String| gateway.txn(&[Op::Put(key, value.as_bytes())]).unwrap();
    for write in writes {
        match *write {
            New(name, count) => {
                for number in 0..count {
                    let name = format!("{name}-{number}");
                    put(&key(&name), config_map(&name, "1"));
                }
            }
            Again(name, value, count) => {
                for number in 0..count {
                    put(&key(name), config_map(name, &format!("{value}-{number}")));
                }
            }
            Delete(name) => assert_eq!(etcd.control().del(&key(name)).unwrap().keys, 1),
            Foreign(count) => {
                for number in 0..count {
                    put("/elsewhere/x", number.to_string());
                }
            }
        }
    }
}

/// Names, revisions and values in etcd.
fn state(control: &Control) -> BTreeMap<String, (String, String)> {
    let value =
        |value: &[u8]| serde_json::from_slice::<serde_json::Value>(value).unwrap()["data"]["k"].clone();
    let entries = control.list("/registry/configmaps/", None).unwrap().entries.into_iter().map(|entry| {
        let name = entry.key.rsplit('/').next().unwrap().to_owned();
        (name, (entry.mod_revision.to_string(), value(&entry.value).as_str().unwrap().to_owned()))
    });
    entries.collect()
}

/// The same, as the server shows it.
fn served(server: &Server) -> Option<BTreeMap<String, (String, String)>> {
    let reply = server.client().get(CONFIG_MAPS);
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    (reply.status == 200).then(|| {
        let list = reply.json();
        let items = list["items"].as_array().unwrap().iter().map(|item| {
            let meta = &item["metadata"];
            (text(&meta["name"]), (text(&meta["resourceVersion"]), text(&item["data"]["k"])))
        });
        items.collect()
    })
}

/// 3.5.1 reports progress of a watch of the prefix by itself: every second here.
fn options() -> Options {
    Options { progress_interval: Some(Duration::from_secs(1)), ..Options::default() }
}

fn is_noticed(release: Release, keys: &str, start: &str, case: &Case) {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let what = format!("etcd {}, --etcd-watch {keys}, --warm-start {start}: {}", release.text(), case.name);
    // Tests run in parallel.
    let scratch = Scratch::new(&format!("restored-{}", RUNS.fetch_add(1, Ordering::Relaxed)));
    let snapshot = std::path::Path::new(scratch.path()).join("snapshot.db");
    let mut etcd = Etcd::start(release, options());
    let control = etcd.control();
    write(&etcd, case.before);
    control.snapshot_save(&snapshot).unwrap();
    write(&etcd, case.lost);
    let proxy = Proxy::start(&etcd.address());
    let endpoint = format!("http://{}", proxy.address());
    let server = Server::start(&["--etcd-endpoints", &endpoint, "--etcd-watch", keys, "--warm-start", start]);
    write(&etcd, case.lost_live);
    eventually("the server has it all", || served(&server) == Some(state(&control)));
    let list = server.client().get(CONFIG_MAPS).json();
    let seen = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let last = control.revision().unwrap();
    assert_eq!(seen, last.to_string(), "{what}");
    let watch = format!("{CONFIG_MAPS}?watch=1&resourceVersion={seen}");
    let mut watch = server.client().watch(&watch).unwrap();

    proxy.cut();
    etcd.restore(&snapshot, Token::Same);
    let control = etcd.control();
    write(&etcd, case.new);
    let reached = control.revision().unwrap();
    write(&etcd, &[Foreign((last + 2).saturating_sub(reached))]);
    match case.compacts {
        Nothing => proxy.heal(),
        ToLast | ToNext => {
            control.compact(last + u64::from(case.compacts == ToNext)).unwrap();
            proxy.heal();
        }
        WhileCompared => {
            // The next page is requested, and that request is held until it cannot be answered any more.
            proxy.delay(Duration::from_millis(100));
            let before = proxy.bytes_down();
            proxy.heal();
            eventually(&format!("{what}: a page"), || proxy.bytes_down() > before + PAGE_BYTES);
            proxy.hang();
            control.compact(last + 2).unwrap();
            proxy.delay(Duration::ZERO);
            proxy.heal();
        }
    }

    // Every answer from now on is etcd's state.
    eventually(&format!("{what}: a list"), || {
        let Some(served) = served(&server) else { return false };
        assert_eq!(served, state(&control), "{what}");
        true
    });
    assert_eq!(watch.rest().iter().map(short).collect::<Vec<_>>(), ["ERROR 410"], "{what}");
    server.await_ready(Duration::from_secs(15));
    assert!(server.metric("revcast_source_epoch") > 1, "{what}");
}

/// All cases, each with both releases; which keys are watched alternates. With these releases only a watch of all keys can start
/// with history: then it is known what must be repeated.
fn all(release: Release, keys: [&str; 2]) {
    for (number, case) in CASES.iter().enumerate() {
        let keys = keys[number % 2];
        is_noticed(release, keys, "off", case);
        if keys == "all" {
            is_noticed(release, keys, "full", case);
        }
    }
}

#[test]
fn a_restore_that_was_overtaken_is_noticed_on_3_4() {
    all(Release::V3_4, ["all", "prefix"]);
}

#[test]
fn a_restore_that_was_overtaken_is_noticed_on_3_5() {
    all(Release::V3_5, ["prefix", "all"]);
}

/// A watch that has caught up is not ended by a compaction, so it proves nothing about a state that cannot be compared
/// any more.
#[test]
fn a_restore_is_noticed_though_history_is_forgotten_meanwhile() {
    is_noticed(Release::V3_4, "all", "off", &COMPARED_IN_PAGES);
    is_noticed(Release::V3_5, "prefix", "off", &COMPARED_IN_PAGES);
}

/// The opposite: a restore that only seems to be one is continued.
#[test]
fn an_outage_is_no_restore() {
    for (release, keys) in [(Release::V3_4, "all"), (Release::V3_5, "prefix"), (Release::V3_5, "all")] {
        let mut etcd = Etcd::start(release, options());
        let control = etcd.control();
        write(&etcd, &[Foreign(5), New("kept", 3), New("gone", 1), Delete("gone-0"), Foreign(2)]);
        let server = Server::start(&["--etcd-endpoints", &etcd.endpoint(), "--etcd-watch", keys]);
        let list = server.client().get(CONFIG_MAPS).json();
        let seen = list["metadata"]["resourceVersion"].as_str().unwrap();
        let mut watch =
            server.client().watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={seen}")).unwrap();
        let mut told = Vec::new();
        for (round, between) in [
            &[Foreign(1)][..],
            &[New("live", 3), Delete("live-1"), Again("kept-0", "v", 3)],
            &[Foreign(3)],
            // More than is kept.
            &[Again("live-0", "v", 90)],
        ]
        .into_iter()
        .enumerate()
        {
            write(&etcd, between);
            eventually("the server has it all", || served(&server) == Some(state(&control)));
            if round == 2 {
                control.compact(control.revision().unwrap()).unwrap();
            }
            etcd.stop();
            etcd.restart();
            eventually("the server has it all", || served(&server) == Some(state(&control)));
        }
        told.extend(watch.events(3 + 1 + 3 + 90).iter().map(short));
        assert_eq!(told.iter().filter(|event| event.starts_with("ERROR")).count(), 0, "{told:?}");
        assert_eq!(server.metric("revcast_source_epoch"), 1, "etcd {}, {keys}", release.text());
    }
}
