//! One watch as the oracle sees it: what must come next, and whether it came.
//!
//! Every line is compared byte by byte with the history when it arrives.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use revcast_engine::encoding::Encoding;
use revcast_engine::limits::{DRAIN_GRACE, KEEP_UP, PAGE_SCAN};
use revcast_engine::tick::Tick;
use revcast_engine::{Start, WatcherId};

use super::coverage::Coverage;
use super::fault::{Checked, Promise, broken};
use super::object::{KINDS, NO_FORM, State};
use super::oracle::{Kind, Oracle};
use super::packed;
use super::pipe::Pipe;
use super::shown::{first_differs, shown, status_within};
use super::stream::Stream;
use super::wire::Wire;
use super::wish::Wish;

/// How a watch began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Began {
    State { end_mark: bool },
    After,
    Latest,
}

/// Where a watch was when its shard was abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenUp {
    /// It must get 410.
    BetweenMessages,
    /// It gets the rest of the message, and then gets 410 as well; or it is cut off, if the rest is forgotten.
    WithinMessage,
}

/// The initial events that are still to come.
#[derive(Debug)]
pub(crate) struct Initial {
    pub(crate) objects: Vec<Rc<State>>,
    pub(crate) next: usize,
    pub(crate) end_mark: bool,
}

/// A client's copy of its objects: the revision of each, by name.
pub(crate) type Copy = BTreeMap<usize, u64>;

#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) shard: usize,
    pub(crate) id: WatcherId,
    pub(crate) client: usize,
    pub(crate) wish: Wish,
    pub(crate) began: Began,
    /// Events up to this revision do not belong to the watch.
    pub(crate) start: u64,
    pub(crate) bookmarks: bool,
    pub(crate) deadline: Tick,
    /// Wall seconds, for the initial state.
    pub(crate) at: u64,
    /// Whether initial events or their mark come before all others.
    pub(crate) opens_with_state: bool,
    pub(crate) initial: Option<Initial>,
    /// Every event before this index was sent, or does not concern the watch. See [`Watch::place`].
    pub(crate) next: usize,
    /// How many events were published when it ended.
    pub(crate) until: Option<usize>,
    /// The revision of the last event or bookmark.
    pub(crate) seen: u64,
    /// The index of the last event.
    pub(crate) last_event: Option<usize>,
    /// When it was last known to have everything.
    pub(crate) settled: Option<Tick>,
    pub(crate) last_bookmark: u64,
    /// Messages with objects that arrived, bookmarks included.
    pub(crate) messages: u64,
    pub(crate) events: u64,
    /// Marks of the initial state's end included.
    pub(crate) marks: u64,
    /// An error arrived: 410, or that something is unreadable.
    pub(crate) told: bool,
    /// 410, because the window passed it.
    pub(crate) evicted: bool,
    /// It covered what was unreadable when it began, or what its encoding does not show: it is told this and nothing else.
    pub(crate) refused: Option<Vec<u8>>,
    /// The published events when it began to wait for a revision to come.
    pub(crate) parked_at: Option<usize>,
    /// The window did not reach back to its start.
    pub(crate) too_old: bool,
    /// It was told that something is unreadable.
    pub(crate) unreadable: bool,
    /// Its shard was abandoned: no event comes any more.
    pub(crate) given_up: Option<GivenUp>,
    pub(crate) copy: Option<Copy>,
    /// How long it may be idle; `None`: without limit.
    pub(crate) quiet: Option<Duration>,
    /// When bytes arrived or a heartbeat was offered last, or it began.
    pub(crate) heard: Tick,
    pub(crate) began_at: Tick,
    /// Heartbeats that were offered.
    pub(crate) beats: u32,
    /// ... and are under way.
    pub(crate) heartbeats: u64,
    /// From when on it may be told that it did not take its initial state in time.
    pub(crate) state_by: Tick,
    /// When the last of its initial state came.
    pub(crate) state_done: Option<Tick>,
    pub(crate) stream: Stream,
    pub(crate) pipe: Pipe,
}

impl Watch {
    /// A watch that begins now: without bookmarks, copy or end, on the usual wire, until set otherwise.
    pub(crate) fn new(
        oracle: &Oracle,
        (shard, id, client): (usize, WatcherId, usize),
        wish: Wish,
        start: Start,
        pipe: Pipe,
    ) -> Self {
        let (began, start) = match start {
            Start::State { end_mark } => (Began::State { end_mark }, oracle.visible),
            Start::Latest => (Began::Latest, oracle.visible),
            Start::After(revision) => (Began::After, revision.get()),
        };
        let initial = match began {
            Began::State { end_mark } => {
                let objects = oracle.covered(&wish, start).filter(|it| wish.matches(&oracle.names, it));
                Some(Initial { objects: objects.cloned().collect(), next: 0, end_mark })
            }
            Began::After | Began::Latest => None,
        };
        let initial = initial.filter(|initial| initial.end_mark || !initial.objects.is_empty());
        // A watch that comes too late is told so.
        let refused = oracle.unreadable_in(&wish, oracle.visible, start);
        let refused = refused.filter(|_| began != Began::After || !oracle.is_expired(start));
        let refused = refused.map(|state| state.text.clone());
        let too_old = oracle.is_expired(start);
        let refused = if wish.hides_values() { Some(NO_FORM.into()) } else { refused };
        let parked_at = (began == Began::After && start > oracle.visible).then_some(oracle.published);
        Self {
            shard,
            id,
            client,
            wish,
            began,
            start,
            bookmarks: false,
            deadline: Tick::ZERO,
            at: 0,
            opens_with_state: initial.is_some(),
            initial,
            next: 0,
            until: None,
            seen: start,
            last_event: None,
            settled: None,
            last_bookmark: 0,
            messages: 0,
            events: 0,
            marks: 0,
            told: false,
            evicted: false,
            refused,
            parked_at,
            too_old,
            unreadable: false,
            given_up: None,
            copy: None,
            quiet: None,
            heard: Tick::ZERO,
            began_at: Tick::ZERO,
            beats: 0,
            heartbeats: 0,
            state_by: Tick::from_nanos(u64::MAX),
            state_done: None,
            stream: Stream::new(Wire::Chunked, false),
            pipe,
        }
    }

    pub(crate) fn count_start(&self, oracle: &Oracle, coverage: &mut Coverage) {
        coverage.watches += 1;
        match self.began {
            Began::State { end_mark: true } => coverage.starts_with_mark += 1,
            Began::State { end_mark: false } => coverage.starts_with_state += 1,
            Began::Latest => coverage.starts_latest += 1,
            Began::After => {
                coverage.starts_after += 1;
                coverage.starts_expired += u64::from(oracle.is_expired(self.start));
                coverage.history_starts += u64::from(oracle.is_within_history(self.start));
                coverage.starts_again += u64::from(self.due_again(oracle));
                coverage.starts_parked += u64::from(self.parked(oracle));
            }
        }
        if self.wish.range.is_some() {
            coverage.range_watches += 1;
            coverage.range_watches_across += u64::from(self.wish.kinds().count() > 1);
            coverage.range_watches_empty += u64::from(self.wish.kinds().count() == 0);
        }
        coverage.range_hidden += u64::from(self.wish.hides_values());
        let long = self.initial.as_ref().is_some_and(|initial| initial.objects.len() > PAGE_SCAN);
        coverage.long_states += u64::from(long);
    }

    /// The index of the first possible event of the stream.
    pub(crate) fn first(&self, oracle: &Oracle) -> usize {
        match self.began {
            Began::After => oracle.begin_after(&self.wish, self.start),
            Began::State { .. } | Began::Latest => oracle.after(self.start),
        }
    }

    /// Every event before this index was sent, or does not concern the watch.
    fn place(&self, oracle: &Oracle) -> usize {
        self.next.max(self.first(oracle))
    }

    /// Whether it began with events of a revision that its client had seen.
    fn due_again(&self, oracle: &Oracle) -> bool {
        self.first(oracle) < oracle.after(self.start)
    }

    fn due(&self, oracle: &Oracle) -> Option<(usize, Kind)> {
        oracle.next_for(&self.wish, self.place(oracle))
    }

    pub(crate) const fn open(&self) -> bool {
        self.until.is_none()
    }

    /// Takes one message of the stream.
    pub(crate) fn message(
        &mut self,
        oracle: &Oracle,
        coverage: &mut Coverage,
        now: Tick,
        message: &[u8],
    ) -> Checked {
        if self.wish.encoding != Encoding::Protobuf {
            return self.line(oracle, coverage, now, message);
        }
        match packed::line(message) {
            Ok(line) => self.line(oracle, coverage, now, &line),
            Err(why) => broken(Promise::Stream, format!("no watch event ({why}): {}", brief(message))),
        }
    }

    /// Takes one line of the stream.
    fn line(&mut self, oracle: &Oracle, coverage: &mut Coverage, now: Tick, line: &[u8]) -> Checked {
        if self.told {
            return broken(Promise::Stream, "a line after an error");
        }
        if let Some(status) = inner(line, b"{\"type\":\"ERROR\",\"object\":") {
            let Some(status) = status_within(self.wish.encoding, status) else {
                return broken(Promise::Stream, format!("an error in another encoding: {}", brief(line)));
            };
            coverage.errors_encoded += u64::from(self.wish.encoding != Encoding::Json);
            return self.error(oracle, coverage, now, status);
        }
        if self.refused.is_some() {
            return broken(
                Promise::Unreadable,
                format!("it covers what is unreadable, but got {}", brief(line)),
            );
        }
        coverage.abandoned_finished += u64::from(self.given_up.is_some());
        if !self.may_hear() {
            return broken(Promise::End, "a line from a shard that was given up");
        }
        let first = self.messages == 0 && first_differs(self.wish.encoding);
        let within_state = self.initial.is_some();
        for (opening, kind) in [
            (&b"{\"type\":\"ADDED\",\"object\":"[..], Kind::Added),
            (b"{\"type\":\"MODIFIED\",\"object\":", Kind::Modified),
            (b"{\"type\":\"DELETED\",\"object\":", Kind::Deleted),
        ] {
            if let Some(object) = inner(line, opening) {
                self.event(oracle, coverage, kind, object, first)?;
                self.arrived(coverage, first);
                self.events += 1;
                self.note_state(within_state, now);
                return Ok(());
            }
        }
        if let Some(object) = inner(line, b"{\"type\":\"BOOKMARK\",\"object\":") {
            self.bookmark(oracle, coverage, object, first)?;
            self.arrived(coverage, first);
            self.marks += 1;
            self.note_state(within_state, now);
            return Ok(());
        }
        broken(Promise::Stream, format!("no watch event: {}", brief(line)))
    }

    /// Remembers when the last of the initial state came.
    fn note_state(&mut self, was_within: bool, now: Tick) {
        if was_within && self.initial.is_none() {
            self.state_done = Some(now);
        }
    }

    /// Whether a message may come: from an abandoned shard only the one that the watch was in.
    fn may_hear(&mut self) -> bool {
        self.given_up
            .as_mut()
            .is_none_or(|stood| std::mem::replace(stood, GivenUp::BetweenMessages) == GivenUp::WithinMessage)
    }

    /// Is offered a heartbeat: between two messages (the stream checks that), only if requested, and not too often.
    pub(crate) fn offer_heartbeat(&mut self, now: Tick) -> Checked {
        let Some(interval) = self.quiet else { return broken(Promise::Heartbeat, "they are off") };
        if self.told || self.given_up.is_some() {
            return broken(Promise::Heartbeat, "after the end");
        }
        self.beats += 1;
        self.heard = now;
        // Each comes at most a tenth and a step early.
        if now.since(self.began_at) < interval.mul_f64(0.83) * self.beats {
            return broken(
                Promise::Heartbeat,
                format!("{} within {:?}", self.beats, now.since(self.began_at)),
            );
        }
        Ok(())
    }

    /// Whether it has been idle for longer than it may.
    pub(crate) fn too_quiet(&self, now: Tick) -> Option<Duration> {
        // A watch that joined others was idle before; what they were sent counts as sent to it.
        let silence = now.since(self.heard);
        self.quiet.filter(|interval| silence > *interval * 2).map(|_| silence)
    }

    fn arrived(&mut self, coverage: &mut Coverage, first: bool) {
        self.messages += 1;
        coverage.first_messages += u64::from(first);
        coverage.encoded_messages += u64::from(self.wish.encoding != Encoding::Json);
    }

    fn event(
        &mut self,
        oracle: &Oracle,
        coverage: &mut Coverage,
        kind: Kind,
        object: &[u8],
        first: bool,
    ) -> Checked {
        let kind_of = |state: &State| oracle.names[state.name].kind;
        if let Some(initial) = &mut self.initial {
            let Some(state) = initial.objects.get(initial.next) else {
                return broken(Promise::ExactlyOnce, format!("{} before the end mark", kind.text()));
            };
            let expected = shown(self.wish.encoding, first, Some(kind_of(state)), self.at, &state.text);
            if kind != Kind::Added || object != expected {
                return broken(
                    Promise::ExactlyOnce,
                    format!(
                        "initial object {}: {}",
                        initial.next,
                        difference(&expected, kind.text(), object)
                    ),
                );
            }
            initial.next += 1;
            coverage.initial_objects += 1;
            coverage.protobuf_initial += u64::from(state.packed);
            if let Some(copy) = &mut self.copy {
                copy.insert(state.name, state.revision);
            }
            if initial.next == initial.objects.len() && !initial.end_mark {
                self.initial = None;
            }
            return Ok(());
        }
        let Some((at, due)) = self.due(oracle) else {
            return broken(
                Promise::ExactlyOnce,
                format!("{} that nothing caused: {}", kind.text(), brief(object)),
            );
        };
        let event = &oracle.events[at];
        let json = match (due, &event.before, &event.now) {
            (Kind::Deleted, Some(before), _) => before.at(event.revision),
            (_, _, Some(now)) => now.text.clone(),
            (_, _, None) => Vec::new(),
        };
        let expected = shown(self.wish.encoding, first, Some(oracle.names[event.name].kind), event.at, &json);
        if kind != due || object != expected {
            let promise = if kind == Kind::Deleted && due == Kind::Deleted {
                Promise::Deleted
            } else {
                Promise::ExactlyOnce
            };
            let place = format!("event {at} of revision {} is {}", event.revision, due.text());
            return broken(promise, format!("{place}: {}", difference(&expected, kind.text(), object)));
        }
        coverage.deliveries += 1;
        let packed = event.now.as_ref().or(event.before.as_ref()).is_some_and(|state| state.packed);
        match (packed, self.wish.encoding == Encoding::Protobuf) {
            (true, true) => coverage.protobuf_deliveries += 1,
            (true, false) => coverage.protobuf_as_json += 1,
            (false, true) => coverage.protobuf_of_json += 1,
            (false, false) => {}
        }
        coverage.range_deliveries += u64::from(self.wish.range.is_some());
        let opaque = event.now.as_ref().or(event.before.as_ref()).is_some_and(|state| state.opaque);
        coverage.range_opaque += u64::from(opaque);
        let mended = due == Kind::Added && event.before.is_some() && event.readable_before().is_none();
        coverage.mended += u64::from(mended);
        coverage.transitions_in += u64::from(due == Kind::Added && event.readable_before().is_some());
        coverage.transitions_out += u64::from(due == Kind::Deleted && event.now.is_some());
        if let Some(copy) = &mut self.copy {
            if due == Kind::Deleted {
                copy.remove(&event.name);
            } else {
                copy.insert(event.name, event.revision);
            }
        }
        coverage.deliveries_again += u64::from(self.began == Began::After && event.revision == self.start);
        self.next = at + 1;
        self.last_event = Some(at);
        self.seen = self.seen.max(event.revision);
        Ok(())
    }

    fn bookmark(&mut self, oracle: &Oracle, coverage: &mut Coverage, object: &[u8], first: bool) -> Checked {
        let text = String::from_utf8_lossy(object);
        let digits = text.split_once("\"resourceVersion\":\"").and_then(|(_, rest)| rest.split_once('"'));
        let Some(revision) = digits.and_then(|(digits, _)| digits.parse::<u64>().ok()) else {
            return broken(Promise::Bookmark, format!("no version: {text}"));
        };
        let ends_state = self.initial.is_some();
        // Of a range, the first.
        let first_kind = self.wish.kinds().next();
        let named = first_kind.map_or(String::new(), |kind| {
            format!("\"kind\":\"{}\",\"apiVersion\":\"{}\",", KINDS[kind].name, KINDS[kind].version)
        });
        let mark = ",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}";
        let json = format!(
            "{{{named}\"metadata\":{{\"resourceVersion\":\"{revision}\"{}}}}}",
            if ends_state { mark } else { "" },
        );
        let expected = shown(self.wish.encoding, first, first_kind, 0, json.as_bytes());
        if object != expected {
            return broken(Promise::Bookmark, difference(&expected, "BOOKMARK", object));
        }
        if let Some(initial) = &self.initial {
            if initial.next < initial.objects.len() || !initial.end_mark {
                return broken(Promise::Bookmark, "a bookmark within the initial state");
            }
            if revision != self.start {
                return broken(
                    Promise::Bookmark,
                    format!("the state of {} was marked as that of {revision}", self.start),
                );
            }
            self.initial = None;
            coverage.initial_marks += 1;
            return Ok(());
        }
        if !self.bookmarks {
            return broken(Promise::Bookmark, "bookmarks were not requested");
        }
        if revision <= self.start || revision < self.last_bookmark || revision < self.seen {
            return broken(
                Promise::Bookmark,
                format!("{revision} goes back: start {}, seen {}", self.start, self.seen),
            );
        }
        if revision > oracle.visible {
            return broken(Promise::Bookmark, format!("{revision} is newer than {}", oracle.visible));
        }
        if let Some((at, _)) = self.due(oracle)
            && oracle.events[at].revision <= revision
        {
            let due = oracle.events[at].revision;
            let promise = if due == self.seen { Promise::RevisionWhole } else { Promise::Bookmark };
            return broken(promise, format!("{revision}, but event {at} of revision {due} was not sent"));
        }
        self.next = self.next.max(oracle.after(revision));
        self.seen = self.seen.max(revision);
        self.last_bookmark = revision;
        coverage.bookmarks += 1;
        Ok(())
    }

    fn error(&mut self, oracle: &Oracle, coverage: &mut Coverage, now: Tick, status: &[u8]) -> Checked {
        let text = String::from_utf8_lossy(status);
        if text.ends_with("\"code\":500}") {
            return self.refusal(oracle, coverage, status);
        }
        let oldest = text.split_once(" (").and_then(|(_, rest)| rest.split_once(')'));
        let oldest = oldest.and_then(|(digits, _)| digits.parse::<u64>().ok()).unwrap_or(0);
        let expected = format!(
            "{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"status\":\"Failure\",\"message\":\
             \"too old resource version: {} ({oldest})\",\"reason\":\"Expired\",\"code\":410}}",
            self.start
        );
        if text != expected {
            return broken(Promise::End, difference(expected.as_bytes(), "ERROR", status));
        }
        let gone = if self.given_up.is_some() { oracle.visible } else { 0 };
        if oldest > oracle.ever_forgotten.max(gone) {
            return broken(Promise::End, format!("410 claims that {oldest} is forgotten"));
        }
        let place = self.place(oracle);
        let too_old = self.began == Began::After
            && self.messages == 0
            && (self.too_old || oracle.is_expired(self.start));
        let behind = self.left_behind(oracle) && oracle.events[place].revision <= oldest;
        // The message that it was in may have been the last of its state. Or there was none; or objects that it does not
        // want come after its last one, and the shard, which looks at a page of them in a turn, did not serve it again.
        let state_by = self.state_by.min(self.deadline.plus(DRAIN_GRACE));
        let stateful = matches!(self.began, Began::State { .. }) && self.last_event.is_none();
        let more_to_look_at = || {
            let last = oracle.looked_at(&self.wish, self.start).last();
            last.is_some_and(|last| !self.wish.matches(&oracle.names, last))
        };
        let within_state = stateful
            && self.last_bookmark == 0
            && self.state_done.is_none_or(|done| done >= state_by || more_to_look_at());
        let unfinished = within_state && now >= state_by;
        if !too_old && !behind && !unfinished && self.given_up.is_none() {
            return broken(
                Promise::End,
                format!(
                    "410 for nothing: at event {place}, the window begins at {}; its state was whole at {:?}, and had \
                     to be by {state_by:?}",
                    oracle.oldest, self.state_done
                ),
            );
        }
        let kept_up = self.settled.is_some_and(|settled| now.since(settled) < KEEP_UP);
        if behind && !too_old && kept_up && self.given_up.is_none() {
            return broken(Promise::KeptUp, format!("410, although it had everything at {:?}", self.settled));
        }
        coverage.unfinished_told += u64::from(unfinished && !behind);
        coverage.expirations += 1;
        coverage.abandoned_told += u64::from(self.given_up.is_some());
        self.told = true;
        self.evicted = behind && !too_old && !unfinished && self.given_up.is_none();
        coverage.evictions += u64::from(self.evicted);
        Ok(())
    }

    /// It was told that something is unreadable: was that so, and was it due?
    fn refusal(&mut self, oracle: &Oracle, coverage: &mut Coverage, status: &[u8]) -> Checked {
        if self.given_up == Some(GivenUp::BetweenMessages) {
            return broken(Promise::End, "500 from a shard that was given up");
        }
        let same = |state: &State| state.text == status;
        let due = self.due(oracle);
        // A watch that waits for its first event is told of earlier ones as well.
        let waited = self.parked_at.filter(|_| self.messages == 0);
        if let Some(text) = &self.refused {
            if text != status {
                return broken(Promise::Unreadable, difference(text, "ERROR", status));
            }
            coverage.unreadable_refusals += 1;
        } else if self.initial.is_none()
            && let Some((at, Kind::Unreadable)) = due
            && oracle.events[at].now.as_ref().is_some_and(|state| same(state))
        {
            coverage.unreadable_events += 1;
            coverage.unreadable_unselected += u64::from(
                !oracle.events[at].before.as_ref().is_some_and(|it| self.wish.matches(&oracle.names, it)),
            );
        } else if let Some(from) = waited
            && oracle.events[from..oracle.published].iter().any(|event| {
                // Unreadable since then; it may have been written again.
                let since = |state: &State| state.unreadable.is_some_and(|since| since <= self.start);
                oracle.verdict(&self.wish, event) == Some(Kind::Unreadable)
                    && event.now.as_ref().is_some_and(|state| same(state) && since(state))
            })
        {
            coverage.unreadable_parked += 1;
        } else {
            let due = due.map(|(at, kind)| (at, kind.text()));
            return broken(Promise::Unreadable, format!("due is {due:?}, but it was told {}", brief(status)));
        }
        self.told = true;
        self.unreadable = true;
        Ok(())
    }

    /// Whether the window has forgotten an event that the watch has not passed.
    pub(crate) fn left_behind(&self, oracle: &Oracle) -> bool {
        oracle.oldest > self.place(oracle)
    }

    /// Whether it waits for a revision that is not reached yet.
    pub(crate) fn parked(&self, oracle: &Oracle) -> bool {
        self.began == Began::After && self.start > oracle.visible
    }

    /// Nothing is left to be done for it: it must have everything. Records that.
    pub(crate) fn settle(&mut self, oracle: &Oracle, now: Tick) -> Checked {
        if self.told {
            return broken(Promise::End, "an error was sent, but not the end");
        }
        if self.refused.is_some() {
            return broken(Promise::Unreadable, "it covers what is unreadable, and was not told");
        }
        if !self.stream.at_boundary() {
            return broken(Promise::Progress, "the socket has room and a message is half sent");
        }
        if let Some(initial) = &self.initial {
            return broken(
                Promise::Progress,
                format!("{} of {} initial objects were sent", initial.next, initial.objects.len()),
            );
        }
        if let Some((at, kind)) = self.due(oracle) {
            let revision = oracle.events[at].revision;
            return broken(
                Promise::ExactlyOnce,
                format!("event {at} of revision {revision}, {}, never came", kind.text()),
            );
        }
        self.next = self.next.max(oracle.published);
        self.settled = Some(now);
        Ok(())
    }

    /// The stream was ended without an error: the last event sent must be the last of a revision, and not within the
    /// initial state, or the client would continue after objects that it never saw.
    pub(crate) fn check_clean_end(&self, oracle: &Oracle) -> Checked {
        if self.told {
            return Ok(());
        }
        if let Some(initial) = &self.initial {
            let (sent, all) = (initial.next, initial.objects.len());
            return broken(Promise::End, format!("a clean end after {sent} of {all} initial objects"));
        }
        if let Some((at, _)) = self.due(oracle)
            && self.last_event.is_some_and(|last| oracle.events[last].revision == oracle.events[at].revision)
        {
            return broken(
                Promise::RevisionWhole,
                format!("a clean end inside revision {}: event {at} was not sent", self.seen),
            );
        }
        Ok(())
    }
}

fn inner<'a>(line: &'a [u8], opening: &[u8]) -> Option<&'a [u8]> {
    line.strip_prefix(opening)?.strip_suffix(b"}")
}

fn brief(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned()
}

fn difference(expected: &[u8], kind: &str, got: &[u8]) -> String {
    let at = expected.iter().zip(got).take_while(|(a, b)| a == b).count();
    format!("expected {}, got {kind} {} (they differ at byte {at})", brief(expected), brief(got))
}
