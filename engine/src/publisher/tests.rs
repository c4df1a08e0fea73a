//! What the publisher makes of batches.

use super::*;
use crate::codec::Reason;
use crate::encoding::{Encoding, JsonOnly, View};
use crate::framing::Framing;
use crate::framing::tests::COUNTED;
use crate::resource::{Codec, Resource};
use crate::selector::{FieldSelector, LabelSelector, Selector};

const MAPS: ResourceId = ResourceId::new(0);

/// JSON alone, in a framing with a head and a tail.
#[derive(Debug)]
struct Counted;

impl Encode for Counted {
    fn framing(&self, _: Encoding) -> &'static Framing {
        &COUNTED
    }

    fn event(&self, out: &mut Vec<u8>, view: View<'_>) -> Result<(), String> {
        JsonOnly.event(out, view)
    }

    fn first_differs(&self, _: u32) -> bool {
        false
    }
}

fn publisher() -> (Publisher, Feed) {
    let mut schema = Schema::new();
    schema.add(Resource::new("v1", "ConfigMap", true, vec![]));
    schema.add(Resource::new("v1", "Node", false, vec![]));
    let limits = RingLimits { events: 64, bytes: 1 << 20 };
    Publisher::with_small_ring(Arc::new(schema), Arc::new(Counted), limits, 1, Revision::ZERO)
}

fn key(path: &str) -> Key {
    let (namespace, name) = path.split_once('/').expect("namespace/name");
    Key::new(MAPS, Some(namespace), name)
}

const GOOD: &str = "{\"metadata\":{}}";
const BAD: &str = "k8s\0";

fn batch(publisher: &mut Publisher, revision: u64, changes: &[(&str, Option<&str>)]) {
    let changes = changes.iter().map(|(path, value)| {
        let value = value.map(|value| Bytes::copy_from_slice(value.as_bytes()));
        Change { key: key(path), value }
    });
    let batch = Batch { revision: Revision::new(revision), changes: changes.collect() };
    publisher.handle_batch(&batch, 0).expect("it is newer");
    publisher.publish();
}

fn paths<'a>(objects: impl Iterator<Item = &'a Arc<Object>>) -> Vec<&'a str> {
    objects.map(|object| object.key().path()).collect()
}

#[test]
fn the_shards_are_woken_when_everything_is_visible() {
    let (mut publisher, feed) = publisher();
    let (seen, woken) = (feed.clone(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&woken);
    publisher.set_waker(move || {
        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
        let (events, revision) = (seen.window(), seen.revision());
        assert_eq!((events, revision), (number as u64, Revision::new(number as u64)));
    });
    assert_eq!(feed.window_bytes(), 0);
    for revision in 1..=3 {
        batch(&mut publisher, revision, &[("a/x", Some(GOOD))]);
        assert_eq!(feed.window_bytes(), publisher.window_bytes());
    }
    assert_eq!(woken.load(Ordering::Relaxed), 3);
    publisher.compact(Revision::new(2));
    assert!(feed.window_bytes() > 0 && feed.window_bytes() == publisher.window_bytes());
}

#[test]
fn a_window_that_may_hold_less_forgets_the_oldest_and_grows_again() {
    let (mut publisher, feed) = publisher();
    for revision in 1..=20 {
        batch(&mut publisher, revision, &[("a/x", Some(GOOD))]);
    }
    let whole = publisher.window_bytes();
    assert!(!publisher.trim(), "it may hold a mebibyte");
    feed.limit_window(whole / 2);
    assert_eq!((feed.window(), publisher.trim()), (20, true));
    assert!(publisher.window_bytes() <= whole / 2 && feed.window() >= 8, "{}", feed.window());
    assert_eq!(feed.forgotten(), Revision::new(20 - feed.window()));
    assert!(!publisher.trim(), "once is enough");
    feed.limit_window(0);
    batch(&mut publisher, 21, &[("a/x", Some(GOOD))]);
    assert_eq!(feed.window(), 1, "the newest stays");
    feed.limit_window(u64::MAX);
    for revision in 22..=200 {
        batch(&mut publisher, revision, &[("a/x", Some(GOOD))]);
    }
    assert_eq!(feed.window(), 64, "as many as the ring has slots");
}

#[test]
fn an_unreadable_value_is_an_object_that_says_so() {
    let (mut publisher, feed) = publisher();
    publisher.load(key("a/x"), Revision::new(3), &Bytes::from_static(BAD.as_bytes()));
    publisher.loaded(Revision::new(4));
    let snapshot = feed.snapshot();
    let object = snapshot.get(&key("a/x")).expect("loaded");
    let why = object.unreadable().expect("it is in protobuf");
    assert_eq!((why.error().reason(), why.since()), (Reason::Malformed, Revision::new(3)));
    let status = "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\
                  \"configmaps \\\"a/x\\\" cannot be served: the stored value is protobuf that cannot be read (it states no type): \
                  store it again, or delete it\",\"reason\":\"StorageReadError\",\"code\":500}";
    assert_eq!(why.status(), status.as_bytes());
    // Another reader may understand what is stored.
    assert_eq!((object.value().codec(), object.value().bytes()), (Codec::Kubernetes, BAD.as_bytes()));
    let line = format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n");
    let framed = format!("{}:{line};", line.len());
    let refusal = object.refusal().expect("it has one");
    assert_eq!((refusal.framed(), refusal.payload()), (framed.as_bytes(), line.as_bytes()));
    assert_eq!(object.weight(), framed.len() + BAD.len());
    assert_eq!(snapshot.bytes(), object.weight() as u64);
    assert!(object.message(Encoding::Json, MessageKind::Added).is_none() && object.value().json().is_none());
    // Written again, it is unreadable since the same revision; after a good value the revision is a new one.
    let since = |publisher: &Publisher| {
        publisher.get(&key("a/x")).and_then(|it| it.unreadable()).map(|why| why.since().get())
    };
    let counted = |feed: &Feed| {
        let snapshot = feed.snapshot();
        let mut counts = snapshot.unreadable_by_reason().filter(|(_, count)| *count > 0);
        (counts.next(), counts.next())
    };
    assert_eq!(counted(&feed), (Some((Reason::Malformed, 1)), None));
    batch(&mut publisher, 5, &[("a/x", Some("[]"))]);
    assert_eq!(counted(&feed), (Some((Reason::NotAnObject, 1)), None));
    assert_eq!(since(&publisher), Some(3));
    batch(&mut publisher, 6, &[("a/x", Some(GOOD))]);
    assert_eq!((since(&publisher), feed.unreadable_total()), (None, 0));
    batch(&mut publisher, 7, &[("a/x", Some(BAD))]);
    assert_eq!((since(&publisher), feed.unreadable(MAPS)), (Some(7), 1));
    batch(&mut publisher, 8, &[("a/x", None)]);
    assert_eq!((since(&publisher), feed.unreadable(MAPS), feed.unreadable_total()), (None, 0, 0));
    assert_eq!(counted(&feed), (None, None));
}

#[test]
fn an_opaque_value_is_kept_as_it_is() {
    let mut schema = Schema::new();
    schema.add(Resource::new("v1", "Blob", true, vec![]).with_codec(Codec::Opaque));
    let limits = RingLimits { events: 64, bytes: 1 << 20 };
    let (mut publisher, feed) =
        Publisher::with_small_ring(Arc::new(schema), Arc::new(Counted), limits, 1, Revision::ZERO);
    let stored = Bytes::from_static(b"k8s\0 any bytes: \xff");
    let mut put = |revision, value: Option<&Bytes>| {
        let changes = vec![Change { key: key("a/x"), value: value.cloned() }];
        publisher.handle_batch(&Batch { revision: Revision::new(revision), changes }, 0).expect("newer");
        publisher.publish();
        (publisher.window_bytes(), feed.snapshot().bytes())
    };
    let len = stored.len() as u64;
    assert_eq!(put(1, Some(&stored)), (len, len));
    let object = Arc::clone(feed.snapshot().get(&key("a/x")).expect("it is there"));
    let value = object.value();
    assert_eq!((value.codec(), value.bytes()), (Codec::Opaque, &stored[..]));
    assert_eq!(value.bytes().as_ptr(), stored.as_ptr(), "it is shared, not copied");
    assert!(object.unreadable().is_none() && value.json().is_none() && object.refusal().is_none());
    assert_eq!((object.attributes().labels_len(), object.revision()), (0, Revision::new(1)));
    // What selects everything selects it; what requires anything does not.
    let selects = |labels: &str, fields: &str| {
        let resource = Resource::new("v1", "Blob", true, vec![]);
        let labels = LabelSelector::parse(labels).expect("a selector");
        object
            .is_selected(&Selector::new(labels, FieldSelector::parse(fields, &resource).expect("a selector")))
    };
    assert!(selects("", ""));
    for (labels, fields) in
        [("a=b", ""), ("a", ""), ("a>1", ""), ("", "metadata.name=x"), ("", "metadata.name=")]
    {
        assert!(!selects(labels, fields), "{labels} {fields}");
    }
    // An empty value is a value, a deletion has the weight of the deleted one, and no message is made that cannot be sent.
    assert_eq!(put(2, Some(&Bytes::new())), (len, 0));
    assert_eq!(put(3, Some(&stored)), (2 * len, len));
    assert_eq!(put(4, None), (3 * len, 0));
    assert_eq!((feed.messages_made(), feed.unreadable_total()), (0, 0));
}

#[test]
fn what_is_unreadable_is_found_by_scope_now_and_then() {
    let (mut publisher, feed) = publisher();
    batch(&mut publisher, 1, &[("a/x", Some(BAD)), ("a-b/x", Some(BAD)), ("a/xy", Some(GOOD))]);
    batch(&mut publisher, 2, &[("a/x", Some(GOOD)), ("b/y", Some(BAD))]);
    batch(&mut publisher, 3, &[("a-b/x", None), ("a/xy", Some(BAD))]);
    let snapshot = feed.snapshot();
    let find = |namespace, name| paths(snapshot.unreadable_in(MAPS, namespace, name));
    assert_eq!(find(None, None), ["a/xy", "b/y"]);
    assert_eq!((find(Some("a"), None), find(Some("b"), Some("y"))), (vec!["a/xy"], vec!["b/y"]));
    assert_eq!((find(None, Some("y")), find(Some("b"), Some("x"))), (vec!["b/y"], vec![]));
    // `x` is the beginning of `xy`, not its name.
    assert_eq!((find(Some("a"), Some("x")), find(Some("c"), None)), (vec![], vec![]));
    assert_eq!(paths(snapshot.unreadable_in(ResourceId::new(1), None, None)), [""; 0]);
    let past = |revision, namespace, name| {
        let past = feed.past(MAPS, Revision::new(revision)).expect("in the window");
        past.first_unreadable(namespace, name).map(|object| object.key().path().to_owned())
    };
    assert_eq!(past(0, None, None), None);
    assert_eq!(past(1, None, None).as_deref(), Some("a-b/x"));
    assert_eq!(past(1, Some("a"), None).as_deref(), Some("a/x"));
    assert_eq!(past(2, Some("a"), None), None);
    assert_eq!(past(2, None, Some("y")).as_deref(), Some("b/y"));
    assert_eq!(past(3, None, None).as_deref(), Some("a/xy"));
}

#[test]
fn of_one_revision_unreadable_values_come_first() {
    let (mut publisher, feed) = publisher();
    batch(&mut publisher, 1, &[("a/0", Some(GOOD))]);
    let changes = [("a/1", Some(GOOD)), ("a/2", Some(BAD)), ("a/0", None), ("a/3", Some("[]"))];
    batch(&mut publisher, 2, &changes);
    let at = |number: u64| Position::new(Position::FIRST.get() + number);
    let events: Vec<_> = (1..5).map(|number| feed.ring.get(at(number)).expect("published")).collect();
    let order: Vec<_> = events.iter().map(|event| event.key().path()).collect();
    assert_eq!(order, ["a/2", "a/3", "a/1", "a/0"]);
    assert!(events.iter().zip(1..).all(|(event, number)| event.position == at(number)));
    assert_eq!(
        events.iter().map(|event| event.ends_revision).collect::<Vec<_>>(),
        [false, false, false, true]
    );
    let bytes: Vec<_> = events.windows(2).map(|two| two[1].bytes_through - two[0].bytes_through).collect();
    assert_eq!(bytes, events[1..].iter().map(|event| event.weight() as u64).collect::<Vec<_>>());
    assert_eq!(events[3].bytes_through, BYTES_FIRST + publisher.window_bytes());
}
