//! Watchers that lag: the initial state from a snapshot, and missed events from the ring, one page at a time.
//!
//! It owns the page buffer, of which a shard has one. A page is composed for one watcher; what the socket does not take is
//! composed again from the cursor. So a slow client keeps no bytes allocated except those of a bookmark or, when it must end,
//! of the message that it is inside.

use std::sync::Arc;

use bytes::Bytes;

use super::run::MessageRun;
use super::{Outlet, Run, Sent, Shard, refusal};
use crate::encoding::{Shown, Subject};
use crate::failpoints::{Failpoint, is_on};
use crate::index::Snapshot;
use crate::key::Key;
use crate::limits::{CATCHUP_PAGE_BYTES, PAGE_BYTES, PAGE_SCAN};
use crate::message::MessageKind;
use crate::object::Object;
use crate::resource::Schema;
use crate::revision::Position;
use crate::ring::Missing;
use crate::scope::{Objects, Scope};
use crate::tick::Tick;
use crate::watcher::class::ClassKey;
use crate::watcher::{Initial, Pending, Phase, QueueState, WatcherId};

/// The source of a message in the page.
#[derive(Debug)]
enum Of {
    Event(Position),
    /// The ERROR for a value that cannot be shown: the watch ends after it.
    Refusal,
    Object(Key),
    EndOfState,
}

/// A part of the ring, for one class.
#[derive(Debug, Default)]
struct RingSpan {
    /// The class; `None`: the page is for one watcher only.
    class: Option<u64>,
    from: Position,
    to: Position,
}

/// The messages of one page. Reused. The part from the ring is sent to every watcher of the class whose cursor is within it, so
/// that watchers that began to lag together catch up together.
#[derive(Debug, Default)]
pub(super) struct Page {
    run: MessageRun,
    of: Vec<Of>,
    span: RingSpan,
}

impl Page {
    fn clear(&mut self) {
        self.run.clear();
        self.of.clear();
        self.span.class = None;
    }

    /// The capacity of its buffers in bytes.
    pub(super) const fn capacity(&self) -> usize {
        self.run.capacity() + size_of::<Of>() * self.of.capacity()
    }

    /// Whether it holds what a watcher of this class with this `cursor` must be sent next.
    fn reaches(&self, class: u64, cursor: Position) -> bool {
        self.span.class == Some(class) && self.span.from <= cursor && cursor < self.span.to
    }

    /// The first message for a watcher with this `cursor`.
    fn first_from(&self, cursor: Position) -> usize {
        self.of.partition_point(|of| matches!(of, Of::Event(at) if *at < cursor))
    }

    /// How many of the messages are events of the ring.
    fn events(&self) -> u64 {
        self.of.len() as u64 - u64::from(self.refuses())
    }

    /// Whether the last message ends the watch.
    fn refuses(&self) -> bool {
        matches!(self.of.last(), Some(Of::Refusal))
    }

    /// Whether the last message is the mark that ends the initial events.
    fn ends_state(&self) -> bool {
        matches!(self.of.last(), Some(Of::EndOfState))
    }
}

/// The message that a watch has sent in part.
#[derive(Debug)]
pub(super) enum UnderWay {
    /// It is between two messages.
    Nothing,
    /// These bytes must be sent before anything else.
    Message(Pending),
    /// The rest of it cannot be composed any more.
    Lost,
}

impl UnderWay {
    /// The message of an event, of which `sent` bytes were sent.
    fn event(framed: Option<Bytes>, sent: usize) -> Self {
        framed.map_or(Self::Lost, |framed| Self::Message(Pending { events: 1, ..Pending::new(framed, sent) }))
    }
}

impl Shard {
    /// Sends the first watcher in the queue one page, or less.
    pub(super) fn catch_up_next(&mut self, outlet: &mut impl Outlet, now: Tick) {
        debug_assert!(!self.round.active(), "no watcher becomes live within a round");
        let Some(id) = self.behind.pop_front() else { return };
        let Some(watcher) = self.table.get_mut(id) else { return };
        if watcher.place != QueueState::Queued {
            return;
        }
        watcher.place = QueueState::None;
        if !self.send_rest(id, outlet) {
            return;
        }
        let Some(watcher) = self.table.get_mut(id) else { return };
        if watcher.ending && self.may_end(id) {
            self.finish(id, outlet, now);
            return;
        }
        let Some(watcher) = self.table.get_mut(id) else { return };
        match &mut watcher.phase {
            Phase::Draining => self.end_stream(id, outlet),
            Phase::Live | Phase::Parked { .. } => {}
            Phase::CatchingUp { cursor, offset } => {
                let (cursor, offset) = (*cursor, *offset as usize);
                self.page_of_ring(id, cursor, offset, outlet, now);
            }
            phase @ Phase::Initial(_) => {
                if let Phase::Initial(initial) = std::mem::replace(phase, Phase::Draining) {
                    self.page_of_state(id, initial, outlet, now);
                }
            }
        }
    }

    /// Sends pending bytes that must come first. True if nothing of them is left and the watch continues.
    pub(super) fn send_rest(&mut self, id: WatcherId, outlet: &mut impl Outlet) -> bool {
        loop {
            let Some(watcher) = self.table.get_mut(id) else { return false };
            let Some(rest) = &mut watcher.rest else { return true };
            match outlet.send(id, Run::new(&rest.bytes, &[rest.bytes.len()], rest.sent)) {
                Sent::Gone => {
                    self.end(id, false);
                    return false;
                }
                Sent::Took(taken) => {
                    rest.sent += taken;
                    self.stats.bytes_sent += taken as u64;
                    if rest.sent < rest.bytes.len() {
                        self.block(id);
                        return false;
                    }
                    self.stats.events_sent += rest.events;
                    match rest.last.take() {
                        Some(last) => **rest = Pending::new(last, 0),
                        None => watcher.rest = None,
                    }
                }
            }
        }
    }

    /// The message that a watch has begun to send.
    pub(super) fn under_way(&mut self, id: WatcherId) -> UnderWay {
        let Some((watcher, class)) = self.table.pair(id) else { return UnderWay::Lost };
        if watcher.between_messages() {
            return UnderWay::Nothing;
        }
        match (&watcher.phase, watcher.rest.take()) {
            // It is about to end already.
            (Phase::Draining, _) => UnderWay::Lost,
            (_, Some(rest)) => UnderWay::Message(*rest),
            (Phase::Initial(initial), None) => {
                let offset = initial.offset;
                let (snapshot, after) = (Arc::clone(&initial.snapshot), initial.after.clone());
                let (key, as_of_seconds) = (class.key.clone(), initial.as_of_seconds);
                let mut objects = objects(&self.feed.schema, &snapshot, &key, after.as_ref());
                let object =
                    objects.find(|object| object.is_selected(&key.selector) && key.covers(object.key()));
                // A long message that only this watch needs is not kept for it.
                let framing = self.feed.framing(key.encoding);
                let mut shared = key.framing == framing;
                let framed = object.map(|object| {
                    if let Some(added) = object.added(key.encoding, framing) {
                        return self.framed(added, &key);
                    }
                    shared = false;
                    let mut made = Vec::new();
                    key.framing.push_with(&mut made, |out| {
                        self.push_state(out, object, &key, !key.opened, as_of_seconds);
                    });
                    Bytes::from(made)
                });
                UnderWay::event(framed.filter(|framed| shared || framed.len() <= PAGE_BYTES), offset)
            }
            (&Phase::CatchingUp { cursor, offset }, None) => {
                let key = class.key.clone();
                let event = self.feed.ring.get(cursor).ok();
                let framed = event.and_then(|event| {
                    let name = key.message_name(key.verdict(&event)?, true);
                    let (message, _) = event.message(name, &*self.feed.encoder, self.feed.messages_counter());
                    Some(self.framed(message, &key))
                });
                let shared = key.framing == self.feed.framing(key.encoding);
                let framed = framed.filter(|framed| shared || framed.len() <= PAGE_BYTES);
                UnderWay::event(framed, offset as usize)
            }
            (Phase::Live | Phase::Parked { .. }, None) => UnderWay::Nothing,
        }
    }

    fn page_of_ring(
        &mut self,
        id: WatcherId,
        cursor: Position,
        offset: usize,
        outlet: &mut impl Outlet,
        now: Tick,
    ) {
        if cursor >= self.dispatched {
            if cursor == self.dispatched {
                self.release(id);
                self.table.join_live(id);
            } else {
                // Its snapshot is newer than what the shard has dispatched: only a round can advance it. Lending it time would
                // loop until the slice is spent.
                self.round.just_ended = false;
                self.queue(id);
            }
            return;
        }
        if !self.search_back(id, cursor) {
            self.queue(id);
            return;
        }
        let mut page = std::mem::take(&mut self.page);
        let Some((watcher, class)) = self.table.pair(id) else { return };
        // A watch that must end, or that has had no message yet, gets one message, and not the same as others.
        let alone = watcher.ending || !class.key.opened;
        let mut lapped = false;
        if alone || !page.reaches(class.serial, cursor) {
            lapped = self.gather(&mut page, id, cursor, alone);
            if let Some((_, class)) = self.table.pair(id) {
                class.trail.looked(page.span.to.since(cursor), page.of.len());
            }
        }
        let first = page.first_from(cursor);
        if lapped && page.of.len() == first {
            self.page = page;
            self.evict(id, now);
            return;
        }
        let start = page.run.start_of(first) + offset;
        let owed = page.run.len().saturating_sub(start);
        match offer(outlet, id, &page.run, start) {
            Sent::Gone => self.end(id, false),
            Sent::Took(taken) => {
                self.stats.bytes_sent += taken as u64;
                if taken >= owed {
                    self.stats.events_sent += page.events() - first as u64;
                    self.page_taken(id, &page, page.of.len() > first, outlet, now);
                } else {
                    self.page_cut_short(id, &page, first, start + taken, now);
                }
            }
        }
        self.page = page;
    }

    /// Puts the messages of a watcher's class into the page, from `cursor` on; only the first if `alone`. True if the ring no
    /// longer reaches back to a position that is needed.
    fn gather(&mut self, page: &mut Page, id: WatcherId, cursor: Position, alone: bool) -> bool {
        page.clear();
        page.span.from = cursor;
        page.span.to = cursor;
        let Some(class) = self.table.class_of(id) else { return false };
        let key = &class.key;
        let as_made = key.framing == self.feed.framing(key.encoding);
        if !alone {
            page.span.class = Some(class.serial);
        }
        let noted_from = class.trail.start();
        for _ in 0..PAGE_SCAN {
            let mut at = page.span.to;
            if at >= noted_from {
                let next = class.trail.next_from(at).unwrap_or(self.dispatched);
                at = next.min(self.dispatched).max(at);
                page.span.to = at;
            }
            if at >= self.dispatched {
                break;
            }
            let event = match self.feed.ring.get(at) {
                Ok(event) => event,
                Err(Missing::Lapped) => return true,
                Err(Missing::NotYet) => break,
            };
            if event.refusal().is_some() && !is_on(Failpoint::UnreadableSkipped) {
                let unreadable = event.now.as_ref().filter(|now| key.covers(now.key()));
                if let Some(refusal) = unreadable.and_then(|now| refusal(&self.feed, now, key)) {
                    page.run.push(key.framing, refusal.payload());
                    page.of.push(Of::Refusal);
                    page.span.class = None;
                    break;
                }
            } else if key.covers(event.key())
                && let Some(kind) = key.verdict(&event)
            {
                let name = key.message_name(kind, true);
                let (message, _) = event.message(name, &*self.feed.encoder, self.feed.messages_counter());
                if message.ends() {
                    page.run.push(key.framing, message.payload());
                    page.of.push(Of::Refusal);
                    page.span.class = None;
                    break;
                }
                let len = message.framed().len();
                if page.of.is_empty() && len >= PAGE_BYTES {
                    let single = if as_made { message.clone() } else { message.reframed(key.framing) };
                    page.run.set_single(single);
                    page.of.push(Of::Event(at));
                    page.span.class = None;
                    page.span.to = at.next();
                    break;
                }
                if !page.of.is_empty() && page.run.len() + len > CATCHUP_PAGE_BYTES {
                    break;
                }
                if as_made {
                    page.run.push_framed(message.framed());
                } else {
                    page.run.push(key.framing, message.payload());
                }
                page.of.push(Of::Event(at));
                if alone {
                    page.span.to = at.next();
                    break;
                }
            }
            page.span.to = at.next();
        }
        false
    }

    /// Everything in the page for the watcher was sent; `any`: there was something.
    fn page_taken(&mut self, id: WatcherId, page: &Page, any: bool, outlet: &mut impl Outlet, now: Tick) {
        if page.refuses() {
            self.stats.refused += 1;
            self.end_stream(id, outlet);
            return;
        }
        let at = page.span.to;
        let Some(watcher) = self.table.get_mut(id) else { return };
        watcher.phase = Phase::CatchingUp { cursor: at, offset: 0 };
        let ending = watcher.ending;
        if any {
            self.table.open(id);
        }
        if ending && self.may_end(id) {
            self.finish(id, outlet, now);
        } else if at == self.dispatched {
            self.release(id);
            self.table.join_live(id);
        } else {
            if self.release(id) {
                self.claim(id, at);
            }
            self.queue(id);
        }
    }

    /// The socket is full: the watcher stopped at byte `at` of the page, of which it must be sent the messages from `first` on.
    fn page_cut_short(&mut self, id: WatcherId, page: &Page, first: usize, at: usize, now: Tick) {
        let Some((number, within)) = page.run.locate(at) else { return };
        let whole = number - first;
        self.stats.events_sent += whole as u64;
        let cursor = match &page.of[number] {
            Of::Event(cursor) => *cursor,
            Of::Refusal => {
                let last = Bytes::copy_from_slice(page.run.rest_of(at - within));
                self.refuse_within(id, last, within, now);
                return;
            }
            // Not from the ring.
            Of::Object(_) | Of::EndOfState => return,
        };
        let within = if is_on(Failpoint::PartialSendRestarted) { 0 } else { within };
        if let Some(watcher) = self.table.get_mut(id) {
            let offset = u32::try_from(within).expect("a message is shorter than 4 GiB");
            watcher.phase = Phase::CatchingUp { cursor, offset };
        }
        if whole > 0 {
            self.table.open(id);
        }
        self.block(id);
    }

    fn page_of_state(
        &mut self,
        id: WatcherId,
        mut initial: Box<Initial>,
        outlet: &mut impl Outlet,
        now: Tick,
    ) {
        if initial.snapshot.position() < self.feed.ring.oldest() {
            // Events after the snapshot are forgotten: the watch could not continue after it.
            if let Some(watcher) = self.table.get_mut(id) {
                watcher.phase = Phase::Initial(initial);
            }
            self.evict(id, now);
            return;
        }
        let mut page = std::mem::take(&mut self.page);
        page.clear();
        let Some((watcher, class)) = self.table.pair(id) else { return };
        let (ending, opened) = (watcher.ending, class.key.opened);
        let key = class.key.clone();
        let mut scanned: Option<&Arc<Object>> = None;
        let mut complete = true;
        let mut refused = false;
        let mut budget = PAGE_SCAN;
        for object in objects(&self.feed.schema, &initial.snapshot, &key, initial.after.as_ref()) {
            if budget == 0 || page.run.len() >= PAGE_BYTES || (!page.of.is_empty() && !opened) {
                complete = false;
                break;
            }
            budget -= 1;
            if object.is_selected(&key.selector) && key.covers(object.key()) {
                if !self.add_state(&mut page.run, object, &key, initial.as_of_seconds) {
                    refused = true;
                    break;
                }
                page.of.push(Of::Object(object.key().clone()));
            }
            scanned = Some(object);
        }
        let scanned = scanned.map(|object| object.key().clone());
        if refused {
            if page.of.is_empty() {
                let last = Bytes::copy_from_slice(page.run.offer(0).bytes());
                self.page = page;
                self.refuse_with(id, last, now);
                return;
            }
            // It is told with the next page, which begins with the ERROR.
            page.run.drop_last();
            complete = false;
        }
        if complete && initial.end_mark && (page.of.is_empty() || opened) {
            let revision = initial.snapshot.revision();
            page.run.push_with(key.framing, |out| self.push_bookmark(out, &key, revision, true));
            page.of.push(Of::EndOfState);
        } else if complete && initial.end_mark {
            // The end mark goes into the next page.
            complete = false;
        }
        // This many bytes of the first message were sent before.
        let start = initial.offset.min(page.run.len());
        match offer(outlet, id, &page.run, start) {
            Sent::Gone => self.end(id, false),
            Sent::Took(taken) if start + taken >= page.run.len() => {
                self.stats.bytes_sent += taken as u64;
                let end_marks = u64::from(page.ends_state());
                self.stats.events_sent += page.of.len() as u64 - end_marks;
                self.stats.bookmarks_sent += end_marks;
                if !page.of.is_empty() {
                    self.table.open(id);
                }
                let phase_after_state = self.end_of_state(initial.snapshot.position());
                if let Some(watcher) = self.table.get_mut(id) {
                    if complete {
                        watcher.phase = phase_after_state;
                    } else {
                        initial.after = scanned.or(initial.after);
                        initial.offset = 0;
                        watcher.phase = Phase::Initial(initial);
                    }
                }
                if ending && self.may_end(id) {
                    self.finish(id, outlet, now);
                } else {
                    self.queue(id);
                }
            }
            Sent::Took(taken) => {
                self.stats.bytes_sent += taken as u64;
                self.state_cut_short(id, initial, &page, start + taken);
            }
        }
        self.page = page;
    }

    /// The socket is full: the watcher stopped inside the page of its initial state.
    fn state_cut_short(&mut self, id: WatcherId, mut initial: Box<Initial>, page: &Page, at: usize) {
        let Some((number, within)) = page.run.locate(at) else { return };
        self.stats.events_sent += number as u64;
        let before = number.checked_sub(1).map(|before| &page.of[before]);
        let phase_after_state = self.end_of_state(initial.snapshot.position());
        let at_end = matches!(page.of[number], Of::EndOfState);
        // The rest of an end mark is sent before anything else: the next message is not the first.
        if number > 0 || at_end {
            self.table.open(id);
        }
        let Some(watcher) = self.table.get_mut(id) else { return };
        if at_end {
            self.stats.bookmarks_sent += 1;
            // A bookmark is short: its rest is kept.
            let bytes = Bytes::copy_from_slice(page.run.rest_of(at - within));
            watcher.rest = Some(Box::new(Pending::new(bytes, within)));
            watcher.phase = phase_after_state;
        } else {
            if let Some(Of::Object(key)) = before {
                initial.after = Some(key.clone());
            }
            initial.offset = within;
            if is_on(Failpoint::PartialSendRestarted) {
                initial.offset = 0;
            }
            watcher.phase = Phase::Initial(initial);
        }
        self.block(id);
    }

    /// Where a watcher continues after a snapshot at `position`.
    fn end_of_state(&self, position: Position) -> Phase {
        let cursor = if is_on(Failpoint::GapAfterInitialEvents) {
            self.dispatched
        } else if is_on(Failpoint::DuplicateEvent) {
            Position::new(position.get().saturating_sub(1))
        } else {
            position
        };
        Phase::CatchingUp { cursor, offset: 0 }
    }

    /// Adds the ADDED message of an object to a page. False: it is the reason why the watch ends.
    #[inline]
    fn add_state(&self, run: &mut MessageRun, object: &Object, key: &ClassKey, as_of_seconds: u64) -> bool {
        match object.message(key.encoding, MessageKind::Added) {
            Some(made) if key.framing == self.feed.framing(key.encoding) => {
                run.push_framed(made.framed());
                true
            }
            _ => run
                .push_with(key.framing, |out| self.push_state(out, object, key, !key.opened, as_of_seconds)),
        }
    }

    /// Appends the payload of an object's ADDED message. False: it is the reason why the watch ends.
    fn push_state(
        &self,
        out: &mut Vec<u8>,
        object: &Object,
        key: &ClassKey,
        first: bool,
        as_of_seconds: u64,
    ) -> bool {
        let shown = Shown {
            kind: MessageKind::Added,
            subject: Subject::Object { key: object.key(), value: object.value() },
            revision: object.revision(),
            as_of_seconds,
        };
        key.encoding.push(out, &*self.feed.encoder, shown, first)
    }
}

fn offer(outlet: &mut impl Outlet, id: WatcherId, run: &MessageRun, from: usize) -> Sent {
    if from >= run.len() { Sent::Took(0) } else { outlet.send(id, run.offer(from)) }
}

/// The objects that may match a class, in key order, after the key `after`.
fn objects<'a>(
    schema: &Schema,
    snapshot: &'a Snapshot,
    key: &'a ClassKey,
    after: Option<&'a Key>,
) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
    let (mut one, mut many, mut range) = (None, None, None);
    match &key.scope {
        Scope::Keys(keys) => range = Some(snapshot.range(keys, after)),
        Scope::Objects(Objects { resource, namespace, name }) => {
            let (namespace, after) = (namespace.as_deref(), after.map(Key::path));
            let path = name.as_deref().and_then(|name| match namespace {
                Some(namespace) => Some(format!("{namespace}/{name}")),
                None => (!schema.get(*resource).namespaced).then(|| name.to_owned()),
            });
            match path {
                Some(path) => {
                    let object = snapshot.at_path(*resource, &path);
                    one = object.filter(|_| after.is_none_or(|after| *after < *path));
                }
                None => many = Some(snapshot.list(*resource, namespace, after)),
            }
        }
    }
    one.into_iter().chain(many.into_iter().flatten()).chain(range.into_iter().flatten())
}
