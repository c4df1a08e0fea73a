//! Reads and writes with a remote source: it may be ahead of what is visible here, not answer, or begin another history.

use revcast_engine::revision::Revision;
use serde_json::json;

use super::{CONFIG_MAPS, World};
use crate::frontend::Newest;
use crate::frontend::{Reply, WriteError};
use crate::http::continuation::{Continuation, PageRevision};
use crate::source::epoch::Epoch;
use crate::source::{Fault, SourceError, TxnError};

fn at(revision: u64) -> Option<Newest> {
    Some(Newest { epoch: 0, revision: Revision::new(revision) })
}

#[test]
fn a_consistent_read_waits_for_what_the_source_knows() {
    let world = World::new();
    world.config_map("a", "1");
    world.host.newest.set(at(world.revision() + 1));
    for target in [CONFIG_MAPS.to_owned(), format!("{CONFIG_MAPS}/a"), format!("{CONFIG_MAPS}?limit=1")] {
        world.host.waits.borrow_mut().clear();
        let got = world.get(&target);
        assert_eq!((got.code, got.whole().retry_after_seconds), (504, Some(1)), "{target}");
        let json = got.json();
        assert_eq!(json["reason"], "Timeout");
        assert_eq!(json["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
        let waits = world.host.waits.borrow();
        let [(wanted, within)] = waits.as_slice() else { panic!("{waits:?}") };
        assert_eq!(wanted.get(), world.revision() + 1);
        assert!(within.as_millis() <= 3000, "{within:?}");
    }
    // A read that need not be the newest is answered immediately.
    for target in ["?resourceVersion=0", "?resourceVersion=2"] {
        assert_eq!(world.get(&format!("{CONFIG_MAPS}{target}")).code, 200, "{target}");
    }
    assert_eq!(world.get(&format!("{CONFIG_MAPS}?watch=1")).code, 200);
    world.host.newest.set(None);
    assert_eq!(world.get(CONFIG_MAPS).code, 200);
}

#[test]
fn a_source_that_does_not_answer_is_a_timeout_for_consistent_reads_only() {
    let world = World::new();
    world.config_map("a", "1");
    let error = SourceError::new(Fault::Unavailable, "etcd: tcp connect error");
    *world.host.unanswered.borrow_mut() = Some(error);
    let got = world.get(CONFIG_MAPS);
    assert_eq!((got.code, got.whole().retry_after_seconds), (504, Some(1)));
    assert_eq!(got.message(), "Timeout: etcd: tcp connect error");
    assert_eq!(
        world.get(&format!("{CONFIG_MAPS}?resourceVersion=0")).json()["items"].as_array().map(Vec::len),
        Some(1)
    );
    let put = world.send("PUT", &format!("{CONFIG_MAPS}/a"), &json!({"metadata": {"name": "a"}}));
    assert_eq!((put.code, world.host.writes.get()), (504, 1));
    let watch = world.get(&format!("{CONFIG_MAPS}?watch=1"));
    let Reply::Refused(status, ..) = &watch.reply else { panic!("{:?}", watch.reply) };
    assert_eq!((watch.code, status.code()), (200, 504));
    assert_eq!(world.get(&format!("{CONFIG_MAPS}?watch=1&resourceVersion=2")).watch_request().epoch, 0);
}

#[test]
fn writes_that_fail_say_whether_they_may_have_been_made() {
    let world = World::new();
    for (fault, code, retry) in [
        (Fault::Unavailable, 503, Some(1)),
        (Fault::Unknown, 504, Some(1)),
        (Fault::Full, 507, None),
        (Fault::TooLarge, 413, None),
        (Fault::Denied, 500, None),
        (Fault::Broken, 500, None),
    ] {
        let error = TxnError::Source(SourceError::new(fault, "etcd: so it is"));
        *world.host.refuse.borrow_mut() = Some(WriteError::Refused(error));
        let got = world.send("POST", CONFIG_MAPS, &json!({"metadata": {"name": "a"}}));
        assert_eq!((got.code, got.whole().retry_after_seconds), (code, retry), "{fault:?}");
        assert!(got.message().contains("so it is"), "{}", got.message());
    }
}

#[test]
fn a_reader_between_two_epochs_is_sent_back() {
    let world = World::new();
    world.host.newest.set(Some(Newest { epoch: 1, revision: Revision::new(1) }));
    let got = world.get(CONFIG_MAPS);
    assert_eq!((got.code, got.whole().retry_after_seconds), (429, Some(1)));
    world.app.epoch().condemn();
    world.host.newest.set(None);
    assert_eq!(world.get(CONFIG_MAPS).code, 429);
    assert_eq!((world.get("/readyz").code, world.get("/livez").code), (500, 200));
}

#[test]
fn what_was_told_in_another_line_of_revisions_is_gone() {
    let world = World::new();
    for name in ["a", "b", "c"] {
        world.config_map(name, "1");
    }
    let feed = world.app.epoch().feed.clone();
    world.app.epochs().begin(Epoch::loaded(1, 0xabc, Revision::new(100), feed));
    world.host.newest.set(Some(Newest { epoch: 1, revision: world.app.epoch().feed.revision() }));
    let page = world.get(&format!("{CONFIG_MAPS}?limit=1"));
    let token = page.json()["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
    assert_eq!(Continuation::decode(&token).map(|page| page.line), Ok(0xabc));
    assert_eq!(world.get(&format!("{CONFIG_MAPS}?limit=1&continue={token}")).code, 200);
    let token = |line| {
        let revision = PageRevision::Exact(world.app.epoch().feed.revision());
        Continuation::behind("a", revision, line).encode()
    };
    let got = world.get(&format!("{CONFIG_MAPS}?limit=1&continue={}", token(0xabd)));
    assert_eq!((got.code, got.json()["reason"].clone()), (410, json!("Expired")));
    // The offered token for continuing at the newest revision is accepted.
    let latest = got.json()["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
    let rest = world.get(&format!("{CONFIG_MAPS}?continue={latest}")).json();
    assert_eq!(rest["items"].as_array().map(Vec::len), Some(2));
    // kube-apiserver's tokens do not have a history.
    assert_eq!(world.get(&format!("{CONFIG_MAPS}?limit=1&continue={}", token(0))).code, 200);
    // A revision that only the abandoned history had reached.
    let watch = world.get(&format!("{CONFIG_MAPS}?watch=1&resourceVersion=100"));
    let Reply::Refused(status, ..) = &watch.reply else { panic!("{:?}", watch.reply) };
    assert_eq!(status.code(), 410);
    // One that no history has reached is waited for, as always.
    let watch_request = world.get(&format!("{CONFIG_MAPS}?watch=1&resourceVersion=101")).watch_request();
    assert_eq!(watch_request.epoch, 1);
}
