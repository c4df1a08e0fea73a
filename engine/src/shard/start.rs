//! How watches begin: with the state, after a revision, or refused immediately.
//!
//! It owns the decision about a start, immediately or when the revision that it waits for has come. It never sends: bytes are
//! sent in later turns.

use std::sync::Arc;

use super::Shard;
use crate::encoding::Encoding;
use crate::failpoints::{Failpoint, is_on};
use crate::feed::Feed;
use crate::index::Snapshot;
use crate::key::ResourceId;
use crate::limits::PAGE_SCAN;
use crate::object::Object;
use crate::revision::{Position, Revision};
use crate::scope::{Objects, Scope};
use crate::tick::Tick;
use crate::watcher::class::ClassKey;
use crate::watcher::{End, Initial, Phase, QueueState, Start, Subscription, Watcher, WatcherId};

/// The decision about a start after a revision.
enum After {
    /// The window does not reach back to it, or the source skipped it.
    Expired,
    /// This value, which is in scope, is unreadable and was so at the revision.
    Refused(Arc<Object>),
    /// It is not reached yet, or what was unreadable then is not known yet.
    Wait,
    /// It begins here.
    From(Position),
}

/// How a watch begins.
enum Opening {
    At(Phase),
    Ended(Why),
}

/// Why a watch ends at its start.
enum Why {
    Expired,
    Refused(Arc<Object>),
    /// The values of this resource have no form in its encoding.
    NoForm(ResourceId),
}

impl Shard {
    /// Begins a watch. Its first bytes are sent in later turns.
    pub fn subscribe(&mut self, wish: Subscription, now: Tick) -> WatcherId {
        let Subscription {
            scope,
            selector,
            encoding,
            framing,
            start,
            bookmarks,
            timeout,
            jitter,
            as_of_seconds,
        } = wish;
        let deadline = now.plus(timeout);
        let opened = match encoding {
            Encoding::Json | Encoding::Protobuf => true,
            Encoding::Other(number) => !self.feed.encoder.first_differs(number),
        };
        let key = ClassKey { scope, selector, encoding, framing, opened };
        let (opening, start_revision) = self.opening(&key, start, as_of_seconds);
        let class = self.table.class_for(key);
        let (phase, ended) = match opening {
            Opening::At(phase) => (phase, None),
            Opening::Ended(why) => (Phase::Draining, Some(why)),
        };
        let parked = matches!(phase, Phase::Parked { .. });
        let mut watcher = Watcher {
            class,
            member: 0,
            phase,
            place: QueueState::None,
            rest: None,
            start: start_revision,
            bookmarks,
            end: None,
            ending: false,
            claim: None,
            jitter,
            deadline,
            next_bookmark: deadline,
            next_heartbeat: deadline,
        };
        self.plan_bookmark(&mut watcher, now);
        watcher.next_heartbeat = self.config.first_heartbeat(&watcher, now);
        let id = self.table.insert(watcher);
        self.stats.watches_started += 1;
        match ended {
            Some(Why::Expired) => {
                self.because(id, if self.abandoned { End::Abandoned } else { End::Lapped });
                self.expire(id, now);
            }
            Some(Why::Refused(object)) => self.refuse(id, &object, now),
            Some(Why::NoForm(resource)) => self.refuse_form(id, resource, now),
            None if parked => drop(self.parked.insert((start_revision, id))),
            None => self.take_up(id),
        }
        id
    }

    /// Makes a new watcher live if it lacks nothing that was dispatched; otherwise it is one of those that lag.
    fn take_up(&mut self, id: WatcherId) {
        let lacks_nothing = self.table.get(id).is_some_and(
            |watcher| matches!(watcher.phase, Phase::CatchingUp { cursor, .. } if cursor == self.dispatched),
        );
        // A round serves those that were live when it began.
        if lacks_nothing && (!self.round.active() || is_on(Failpoint::JoinedWithinRound)) {
            self.table.join_live(id);
        } else {
            self.queue(id);
        }
    }

    fn opening(&self, key: &ClassKey, start: Start, as_of_seconds: u64) -> (Opening, Revision) {
        let asked = || if let Start::After(revision) = start { revision } else { self.feed.revision() };
        if self.abandoned {
            return (Opening::Ended(Why::Expired), asked());
        }
        // Whether any are stored does not matter: what a watch may request does not change with the state.
        let schema = &self.feed.schema;
        let shows = |id: ResourceId| key.encoding.shows(schema.get(id), &*self.feed.encoder);
        if let Some(resource) = key.scope.resources(schema.len()).find(|id| !shows(*id)) {
            return (Opening::Ended(Why::NoForm(resource)), asked());
        }
        if let Start::After(revision) = start {
            let opening = match after(&self.feed, key, revision) {
                After::Expired => Opening::Ended(Why::Expired),
                After::Refused(object) => Opening::Ended(Why::Refused(object)),
                After::Wait => Opening::At(Phase::Parked { floor: revision }),
                After::From(cursor) => Opening::At(Phase::CatchingUp { cursor, offset: 0 }),
            };
            return (opening, revision);
        }
        let snapshot = self.feed.snapshot();
        let revision = snapshot.revision();
        if let Some(object) = unreadable_since(&snapshot, &key.scope, revision) {
            return (Opening::Ended(Why::Refused(object)), revision);
        }
        let phase = if let Start::State { end_mark } = start {
            let initial = Initial { snapshot, after: None, offset: 0, end_mark, as_of_seconds };
            Phase::Initial(Box::new(initial))
        } else {
            Phase::CatchingUp { cursor: snapshot.position(), offset: 0 }
        };
        (Opening::At(phase), revision)
    }

    /// Watchers that waited for a revision which has come continue after it.
    pub(super) fn wake_parked(&mut self, now: Tick) {
        while let Some(&(floor, id)) = self.parked.first() {
            if floor > self.revision {
                return;
            }
            let Some((_, class)) = self.table.pair(id) else {
                self.parked.pop_first();
                continue;
            };
            match after(&self.feed, &class.key, floor) {
                // The following ones would wait for the same snapshot.
                After::Wait => return,
                After::Expired => {
                    self.because(id, End::Lapped);
                    self.expire(id, now);
                }
                After::Refused(object) => self.refuse(id, &object, now),
                After::From(cursor) => {
                    self.parked.pop_first();
                    let Some((watcher, _)) = self.table.pair(id) else { continue };
                    watcher.phase = Phase::CatchingUp { cursor, offset: 0 };
                    self.queue(id);
                }
            }
        }
    }

    /// A value may have become unreadable: ends the watches that wait for a later revision and whose scope covers it.
    pub(super) fn refuse_parked(&mut self, now: Tick) {
        if self.parked.is_empty() || !self.feed.may_be_unreadable() {
            return;
        }
        let snapshot = self.feed.snapshot();
        let parked: Vec<(Revision, WatcherId)> = self.parked.iter().copied().collect();
        for (floor, id) in parked {
            let Some((_, class)) = self.table.pair(id) else { continue };
            if let Some(object) = unreadable_since(&snapshot, &class.key.scope, floor) {
                self.refuse(id, &object, now);
            }
        }
    }
}

/// Decides about a start after `revision`.
fn after(feed: &Feed, key: &ClassKey, revision: Revision) -> After {
    // Read before the ring is searched: a revision that it covers then has all its events before the head, so the
    // cursor is after them. Read later, events of the start's own revision could be sent.
    let progress = feed.ring.progress();
    let Ok(cursor) = feed.ring.position_after(revision) else { return After::Expired };
    let Some(cursor) = again(feed, key, revision, cursor) else { return After::Expired };
    // Read after the progress: a revision that is reached, and was skipped, is found here.
    if feed.gap_around(revision).is_some() {
        return After::Expired;
    }
    if revision < feed.known_since(key.scope.resources(feed.schema.len())) {
        return After::Expired;
    }
    if feed.may_be_unreadable() && !is_on(Failpoint::UnreadableStartServed) {
        let snapshot = feed.snapshot();
        if let Some(object) = unreadable_since(&snapshot, &key.scope, revision) {
            return After::Refused(object);
        }
        // The ring is visible a moment before the snapshot: a value that became unreadable in between is before the cursor, and
        // not in the snapshot. The publisher is about to store the snapshot that has it.
        if snapshot.revision() < revision {
            return After::Wait;
        }
    }
    if revision > progress { After::Wait } else { After::From(cursor) }
}

/// The position at which a watch continues whose client saw `revision`, if everything newer is at or after `cursor`. If the
/// revision has several events for it, the client may have seen only some before it was cut off, and cannot know: they are sent
/// again. `None`: they are forgotten.
fn again(feed: &Feed, key: &ClassKey, revision: Revision, cursor: Position) -> Option<Position> {
    let belongs = |back: u64| {
        let at = cursor.get().checked_sub(back).map(Position::new)?;
        feed.ring.get(at).ok().filter(|event| event.revision == revision)
    };
    // Nearly every revision has one event.
    let several = belongs(1).is_some() && belongs(2).is_some();
    let from = if several && !is_on(Failpoint::PartOfRevisionSkipped) {
        let first = feed.ring.position_at(revision);
        if concerns_twice(feed, key, first, cursor)? { first } else { cursor }
    } else {
        cursor
    };
    // Checked after all look-ups: the publisher may have forgotten a part of the revision meanwhile.
    (!feed.ring.is_torn(revision)).then_some(from)
}

/// Whether two or more of the events from `first` to `end`, all of one revision, may match a class. `None`: they are forgotten.
fn concerns_twice(feed: &Feed, key: &ClassKey, first: Position, end: Position) -> Option<bool> {
    let (mut at, mut found) = (first, 0);
    while at < end {
        if at.since(first) >= PAGE_SCAN as u64 {
            // With this many events, some may match it.
            return Some(true);
        }
        let event = feed.ring.get(at).ok()?;
        if key.covers(event.key()) {
            if event.refusal().is_some() {
                // These come first in a revision: its client has seen nothing of it, or all of it elsewhere.
                return Some(false);
            }
            found += u32::from(key.verdict(&event).is_some());
        }
        if found > 1 {
            return Some(true);
        }
        at = at.next();
    }
    Some(false)
}

/// The first object in a scope that has been unreadable since `revision` or before.
fn unreadable_since(snapshot: &Snapshot, scope: &Scope, revision: Revision) -> Option<Arc<Object>> {
    let since = |object: &&Arc<Object>| object.unreadable().is_some_and(|why| why.since() <= revision);
    match scope {
        Scope::Objects(Objects { resource, namespace, name }) => {
            let (namespace, name) = (namespace.as_deref(), name.as_deref());
            snapshot.unreadable_in(*resource, namespace, name).find(since).cloned()
        }
        Scope::Keys(range) => snapshot.unreadable_in_range(range).find(since).cloned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::change::{Batch, Change};
    use crate::encoding::{Encode, JsonOnly, Subject, View};
    use crate::framing::BARE;
    use crate::gap::Gap;
    use crate::index::Expired;
    use crate::key::Key;
    use crate::publisher::{Publisher, RingLimits};
    use crate::resource::{Codec, Resource, Schema};
    use crate::selector::Selector;
    use crate::shard::{Outlet, Run, Sent, ShardConfig, Turn};

    /// How the outlet ends a stream.
    const END: &[u8] = b"the end";

    #[derive(Default)]
    struct Socket(Vec<u8>);

    impl Outlet for Socket {
        fn send(&mut self, _: WatcherId, run: Run<'_>) -> Sent {
            self.0.extend_from_slice(run.bytes());
            Sent::Took(run.bytes().len())
        }

        fn heartbeat(&mut self, _: &[WatcherId], _: &mut Vec<Sent>) {
            unreachable!("no time passes")
        }

        fn end(&mut self, _: WatcherId) -> Sent {
            self.0.extend_from_slice(END);
            Sent::Took(END.len())
        }
    }

    const MAPS: ResourceId = ResourceId::new(0);

    fn write(publisher: &mut Publisher, revision: u64, value: &'static str) {
        let value = Some(Bytes::from_static(value.as_bytes()));
        let changes = vec![Change { key: Key::new(MAPS, Some("a"), "x"), value }];
        publisher
            .handle_batch(&Batch { revision: Revision::new(revision), changes }, 0)
            .expect("it is newer");
    }

    fn world() -> (Publisher, Shard) {
        world_of(Resource::new("v1", "ConfigMap", true, vec![]), Arc::new(JsonOnly))
    }

    fn world_of(resource: Resource, encoder: Arc<dyn Encode>) -> (Publisher, Shard) {
        let mut schema = Schema::new();
        schema.add(resource);
        let limits = RingLimits { events: 64, bytes: 1 << 20 };
        let (publisher, feed) =
            Publisher::with_small_ring(Arc::new(schema), encoder, limits, 1, Revision::ZERO);
        (publisher, Shard::new(0, feed, ShardConfig::default()))
    }

    fn wish(start: Start) -> Subscription {
        Subscription {
            scope: Scope::all(MAPS),
            selector: Selector::everything(),
            encoding: Encoding::Json,
            framing: &BARE,
            start,
            bookmarks: false,
            timeout: Duration::from_secs(1_000_000),
            jitter: 0,
            as_of_seconds: 0,
        }
    }

    fn after(shard: &mut Shard, revision: u64) -> WatcherId {
        shard.subscribe(wish(Start::After(Revision::new(revision))), Tick::ZERO)
    }

    fn settle(shard: &mut Shard, socket: &mut Socket) {
        let mut turns = 0;
        while shard.turn(socket, Tick::ZERO) == Turn::Again {
            turns += 1;
            assert!(turns < 100, "the shard turns in circles");
        }
    }

    /// A watch from the newest revision waits for no turn; one that begins within a round does, for the round's end.
    #[test]
    fn who_lacks_nothing_is_live_immediately() {
        let (mut publisher, mut shard) = world();
        let mut socket = Socket::default();
        after(&mut shard, 0);
        assert_eq!((shard.stats().live, shard.has_work()), (1, false));
        write(&mut publisher, 1, "{\"metadata\":{}}");
        publisher.publish();
        while !shard.round.active() {
            assert_eq!(shard.turn(&mut socket, Tick::ZERO), Turn::Again);
        }
        after(&mut shard, 1);
        after(&mut shard, 0);
        assert_eq!(shard.stats().live, 1);
        settle(&mut shard, &mut socket);
        assert_eq!(shard.stats().live, 3);
        let told = String::from_utf8(socket.0).expect("text");
        assert_eq!(told.matches("ADDED").count(), 2, "{told}");
    }

    /// The ring has a revision before the snapshot has it: a start after that revision waits for the snapshot.
    #[test]
    fn a_start_between_ring_and_snapshot_misses_no_unreadable_value() {
        let (mut publisher, mut shard) = world();
        write(&mut publisher, 1, "k8s\0");
        publisher.publish_events();
        let mut socket = Socket::default();
        let id = after(&mut shard, 1);
        for _ in 0..20 {
            assert_eq!(shard.turn(&mut socket, Tick::ZERO), Turn::Again, "the snapshot comes at once");
            assert!(shard.has_work());
        }
        assert!(socket.0.is_empty() && shard.contains(id));
        publisher.publish_state();
        settle(&mut shard, &mut socket);
        let told = String::from_utf8(socket.0).expect("text");
        assert!(told.contains("StorageReadError") && told.ends_with("}\nthe end"), "{told}");
        assert!(!shard.contains(id));
        assert_eq!((shard.stats().refused, shard.poll_ended().map(|ended| ended.clean)), (1, Some(true)));
    }

    /// Encodes any value by its length.
    #[derive(Debug)]
    struct Lengths;

    impl Encode for Lengths {
        fn event(&self, out: &mut Vec<u8>, view: View<'_>) -> Result<(), String> {
            let Subject::Object { key, value } = view.event.subject else { panic!("no bookmarks") };
            let text = format!("{:?} {} {};", view.event.kind, key.path(), value.bytes().len());
            out.extend_from_slice(text.as_bytes());
            Ok(())
        }

        fn shows(&self, encoding: u32, _: &Resource) -> bool {
            encoding == 1
        }

        fn first_differs(&self, _: u32) -> bool {
            false
        }
    }

    /// The answer does not depend on what is stored, now or later.
    #[test]
    fn a_watch_in_an_encoding_that_does_not_show_the_values_is_refused_as_it_starts() {
        let blobs = Resource::new("v1", "Blob", true, vec![]).with_codec(Codec::Opaque);
        let (mut publisher, mut shard) = world_of(blobs, Arc::new(Lengths));
        for start in [Start::After(Revision::ZERO), Start::Latest, Start::State { end_mark: true }] {
            for encoding in [Encoding::Json, Encoding::Other(0)] {
                let mut socket = Socket::default();
                let id = shard.subscribe(Subscription { encoding, ..wish(start) }, Tick::ZERO);
                settle(&mut shard, &mut socket);
                let told = String::from_utf8(socket.0).expect("text");
                assert!(told.starts_with("{\"type\":\"ERROR\",") && told.ends_with("}\nthe end"), "{told}");
                assert!(told.contains("\"message\":\"blobs cannot be served: "), "{told}");
                assert!(told.contains("\"reason\":\"StorageReadError\",\"code\":500"), "{told}");
                assert!(!shard.contains(id));
                assert_eq!(
                    shard.poll_ended().map(|ended| (ended.clean, ended.why)),
                    Some((true, End::Refused))
                );
            }
        }
        assert_eq!(shard.stats().refused, 6);
        // An encoder of any bytes gets them: at the start, then live, then the state that was deleted.
        write(&mut publisher, 1, "k8s\0");
        publisher.publish();
        let mut socket = Socket::default();
        let live = Subscription { encoding: Encoding::Other(1), ..wish(Start::State { end_mark: false }) };
        shard.subscribe(live, Tick::ZERO);
        settle(&mut shard, &mut socket);
        write(&mut publisher, 2, "");
        let changes = vec![Change { key: Key::new(MAPS, Some("a"), "x"), value: None }];
        publisher.handle_batch(&Batch { revision: Revision::new(3), changes }, 0).expect("it is newer");
        publisher.publish();
        settle(&mut shard, &mut socket);
        assert_eq!(socket.0, b"Added a/x 4;Modified a/x 0;Deleted a/x 0;");
    }

    /// What the source skipped belongs to another history: no watch continues from it, whether it starts before or after.
    #[test]
    fn a_start_in_a_gap_is_expired_and_what_waited_for_it_is_too() {
        let (mut publisher, mut shard) = world();
        write(&mut publisher, 3, "{\"metadata\":{}}");
        publisher.publish();
        let waiting: Vec<_> = [4, 9, 10, 11].map(|revision| after(&mut shard, revision)).into();
        let mut socket = Socket::default();
        settle(&mut shard, &mut socket);
        assert!(socket.0.is_empty() && waiting.iter().all(|id| shard.contains(*id)));

        publisher.skip(Gap { last: Revision::new(3), next: Revision::new(10) });
        publisher.publish();
        settle(&mut shard, &mut socket);
        let told = String::from_utf8(std::mem::take(&mut socket.0)).expect("text");
        assert!(told.contains("version: 4 (10)") && told.contains("version: 9 (10)"), "{told}");
        assert_eq!(
            waiting.iter().map(|id| shard.contains(*id)).collect::<Vec<_>>(),
            [false, false, true, true]
        );

        // Both ends of the gap are of this history, and nothing happened between them.
        let late: Vec<_> = [2, 3, 4, 9, 10].map(|revision| after(&mut shard, revision)).into();
        write(&mut publisher, 11, "{\"metadata\":{}}");
        publisher.publish();
        settle(&mut shard, &mut socket);
        assert_eq!(
            late.iter().map(|id| shard.contains(*id)).collect::<Vec<_>>(),
            [true, true, false, false, true]
        );
        let told = String::from_utf8(socket.0).expect("text");
        let found = |what: &str| told.matches(what).count();
        assert_eq!((found("ADDED"), found("MODIFIED"), found("ERROR")), (1, 4, 2), "{told}");
        assert_eq!(found("the end"), 2, "{told}");
        let past = |revision| {
            shard.feed.past(MAPS, Revision::new(revision)).map(|past| past.list(None, None).count())
        };
        assert_eq!([2, 3, 10, 11].map(past), [Ok(0), Ok(1), Ok(1), Ok(1)]);
        assert_eq!([4, 9].map(past), [Err(Expired { oldest: Revision::new(10) }); 2]);
    }

    /// The same moment when the value becomes readable again: the count is lowered after the snapshot.
    #[test]
    fn a_start_at_a_mended_value_waits_for_its_snapshot_and_goes_on() {
        let (mut publisher, mut shard) = world();
        write(&mut publisher, 1, "k8s\0");
        publisher.publish();
        write(&mut publisher, 2, "{\"metadata\":{}}");
        publisher.publish_events();
        // It is unreadable in the snapshot, which a list would show: a watch that begins now is refused for that.
        let mut socket = Socket::default();
        let early = after(&mut shard, 2);
        publisher.publish_state();
        let late = after(&mut shard, 1);
        settle(&mut shard, &mut socket);
        let told = String::from_utf8(socket.0).expect("text");
        assert_eq!(
            (told.matches("StorageReadError").count(), told.matches("ADDED").count()),
            (1, 1),
            "{told}"
        );
        assert_eq!((shard.contains(early), shard.contains(late)), (false, true));
    }
}
