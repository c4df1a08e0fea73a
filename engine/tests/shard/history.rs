//! History that is put into the window later: what it must lead to, and what can be asked of it then.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use revcast_engine::change::{Batch, Change};
use revcast_engine::encoding::JsonOnly;
use revcast_engine::history::{History, PastChange};
use revcast_engine::key::{Key, ResourceId};
use revcast_engine::resource::{Resource, Schema};
use revcast_engine::revision::Revision;
use revcast_engine::tick::Tick;
use revcast_engine::{Feed, Publisher, RingLimits};

const MAPS: ResourceId = ResourceId::new(0);

/// The revision and the text of each key.
type State = BTreeMap<String, (u64, String)>;

fn key(name: &str) -> Key {
    Key::new(MAPS, Some("a"), name)
}

fn value(text: &str) -> Bytes {
    format!("{{\"metadata\":{{}},\"data\":{{\"k\":\"{text}\"}}}}").into()
}

/// An engine that was loaded with this state as of a revision.
fn loaded(slots: usize, state: &State, at: u64) -> (Publisher, Feed) {
    let mut schema = Schema::new();
    schema.add(Resource::new("v1", "ConfigMap", true, vec![]));
    let limits = RingLimits { events: slots, bytes: 1 << 30 };
    let (mut publisher, feed) =
        Publisher::with_small_ring(Arc::new(schema), Arc::new(JsonOnly), limits, 1, Revision::ZERO);
    for (name, (revision, text)) in state {
        publisher.load(key(name), Revision::new(*revision), &value(text));
    }
    publisher.loaded(Revision::new(at));
    (publisher, feed)
}

fn set(name: &str, text: &str, before: Option<(u64, &str)>) -> PastChange {
    let before = before.map(|(at, text)| (Revision::new(at), value(text)));
    PastChange { key: key(name), value: Some(value(text)), before }
}

fn gone(name: &str, before: Option<(u64, &str)>) -> PastChange {
    PastChange { value: None, ..set(name, "", before) }
}

fn take(history: &mut History, revision: u64, change: PastChange) -> Result<(), String> {
    history.take(Revision::new(revision), vec![change]).map_err(|contradiction| contradiction.to_string())
}

fn state(entries: &[(&str, u64, &str)]) -> State {
    entries.iter().map(|(name, at, text)| ((*name).to_owned(), (*at, (*text).to_owned()))).collect()
}

/// What there was at a revision.
fn past(feed: &Feed, revision: u64) -> Result<State, u64> {
    let past = feed.past(MAPS, Revision::new(revision)).map_err(|expired| expired.oldest.get())?;
    let objects = past.list(None, None).map(|object| {
        let json = object.shared_json().expect("it is JSON");
        let text = String::from_utf8_lossy(&json);
        let text = text.split("\"k\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a text");
        (object.key().name().to_owned(), (object.revision().get(), text.to_owned()))
    });
    Ok(objects.collect())
}

#[test]
fn every_past_state_is_there_and_the_newest_objects_are_shared() {
    const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
    let mut states = vec![State::new()];
    let mut told = Vec::new();
    // Each key is created, changed and deleted in turn.
    for revision in 1..=1_500_u64 {
        let mut state = states.last().expect("one").clone();
        let name = NAMES[usize::try_from(revision * 31 % 7).expect("small")];
        let before = state.get(name).map(|(at, text)| (*at, text.clone()));
        let before = before.as_ref().map(|(at, text)| (*at, text.as_str()));
        let text = format!("v{revision}");
        if before.is_some() && revision % 5 == 0 {
            told.push(gone(name, before));
            state.remove(name);
        } else {
            told.push(set(name, &text, before));
            state.insert(name.to_owned(), (revision, text));
        }
        states.push(state);
    }
    let (mut publisher, feed) = loaded(2_048, &states[1_500], 1_500);
    let mut history = publisher.history(Revision::ZERO);
    for (revision, change) in (1..).zip(told) {
        take(&mut history, revision, change).unwrap();
    }
    let made = feed.messages_made();
    let older = history.finish(0, Tick::ZERO).unwrap();
    // Meanwhile something happens.
    let change = Change { key: key("z"), value: Some(value("new")) };
    publisher.handle_batch(&Batch { revision: Revision::new(1_501), changes: vec![change] }, 0).unwrap();
    publisher.publish();
    assert_eq!(past(&feed, 1_499), Err(1_500));
    assert_eq!(publisher.prepend(older), 1_500);
    assert_eq!((feed.window(), feed.forgotten()), (1_501, Revision::ZERO));
    for (revision, state) in states.iter().enumerate() {
        assert_eq!(past(&feed, revision as u64).as_ref(), Ok(state), "at {revision}");
    }
    assert_eq!(past(&feed, 1_501).unwrap().len(), states[1_500].len() + 1);
    // Writes, and not deletes, were decoded, but for what the index has.
    let (writes, there) = (1_500 - 1_500 / 5, states[1_500].len() as u64);
    assert!(made < writes + 2 * there + 300, "{made} messages");
}

#[test]
fn what_does_not_fit_is_left_out_from_the_oldest_on() {
    let last = state(&[("a", 9, "v9")]);
    let (mut publisher, feed) = loaded(4, &last, 9);
    let mut history = publisher.history(Revision::new(1));
    for revision in 2..=9_u64 {
        let before = format!("v{}", revision - 1);
        let before = (revision > 2).then_some((revision - 1, before.as_str()));
        take(&mut history, revision, set("a", &format!("v{revision}"), before)).unwrap();
    }
    let older = history.finish(0, Tick::ZERO).unwrap();
    let change = Change { key: key("b"), value: Some(value("new")) };
    publisher.handle_batch(&Batch { revision: Revision::new(10), changes: vec![change] }, 0).unwrap();
    publisher.publish();
    // One of the four places is taken.
    assert_eq!(publisher.prepend(older), 3);
    assert_eq!((feed.window(), feed.forgotten()), (4, Revision::new(6)));
    assert_eq!(past(&feed, 6), Ok(state(&[("a", 6, "v6")])));
    assert_eq!(past(&feed, 5), Err(6));
}

#[test]
fn a_window_that_moved_on_takes_nothing() {
    let last = state(&[("a", 3, "v3")]);
    let (mut publisher, feed) = loaded(8, &last, 3);
    let mut history = publisher.history(Revision::new(2));
    take(&mut history, 3, set("a", "v3", None)).unwrap();
    let older = history.finish(0, Tick::ZERO).unwrap();
    let change = Change { key: key("b"), value: Some(value("new")) };
    publisher.handle_batch(&Batch { revision: Revision::new(4), changes: vec![change] }, 0).unwrap();
    publisher.publish();
    publisher.compact(Revision::new(4));
    assert_eq!(publisher.prepend(older), 0);
    // The newest revision stays.
    assert_eq!((feed.window(), feed.forgotten()), (1, Revision::new(4)));
}

#[test]
fn what_leads_elsewhere_is_refused() {
    let last = state(&[("a", 5, "v5"), ("b", 2, "v2")]);
    let begin = || loaded(8, &last, 6).0.history(Revision::new(1));
    // A change was left out.
    let mut history = begin();
    take(&mut history, 3, set("a", "v3", Some((2, "v2")))).unwrap();
    let refused = take(&mut history, 5, set("a", "v5", Some((4, "v4")))).unwrap_err();
    assert_eq!(refused, "the revision of a/a is told as 4, and is 3");
    // The last change was.
    let mut history = begin();
    take(&mut history, 3, set("a", "v3", None)).unwrap();
    let refused = history.finish(0, Tick::ZERO).unwrap_err().to_string();
    assert_eq!(refused, "the revision of a/a is told as 3, and is 5");
    // A delete that never was.
    let mut history = begin();
    take(&mut history, 5, set("a", "v5", None)).unwrap();
    take(&mut history, 6, gone("b", Some((2, "v2")))).unwrap();
    let refused = history.finish(0, Tick::ZERO).unwrap_err().to_string();
    assert_eq!(refused, "the revision of a/b is told as none, and is 2");
    // What came after the state is ignored, and a history may begin anew.
    let mut history = begin();
    take(&mut history, 3, set("a", "wrong", None)).unwrap();
    history.begin_after(Revision::new(4));
    take(&mut history, 5, set("a", "v5", Some((4, "v4")))).unwrap();
    take(&mut history, 7, gone("a", None)).unwrap();
    assert!(history.finish(0, Tick::ZERO).is_ok());
}
