//! Watchers behind: the initial state from a snapshot, and what they missed from the ring, one page at a time.
//!
//! It owns the page buffer, of which a shard has one. A page is copied together for one watcher; what the socket
//! does not take is made again from the cursor, so a slow client keeps no bytes alive but those of a
//! bookmark or, when it is to end, of the frame that it stands in.

use std::sync::Arc;

use bytes::Bytes;

use super::{Outlet, Sent, Shard};
use crate::encoding::{Encoding, View};
use crate::frame::{self, FrameKind};
use crate::index::Snapshot;
use crate::limits::{PAGE_BYTES, PAGE_SCAN, STRETCH_BYTES};
use crate::object::Object;
use crate::planted::{Bug, planted};
use crate::revision::Position;
use crate::ring::Missing;
use crate::tick::Tick;
use crate::watcher::class::ClassKey;
use crate::watcher::{Initial, Phase, Place, Rest, WatcherId};

/// Where a frame of the page ends, and what it was made of.
#[derive(Debug)]
struct Mark {
    end: usize,
    of: Of,
}

#[derive(Debug)]
enum Of {
    Event(Position),
    /// The word that a value is unreadable, and the end.
    Refusal(Bytes),
    Object(Arc<str>),
    EndOfState,
}

/// A part of the ring, as one class sees it.
#[derive(Debug, Default)]
struct Stretch {
    /// Whose; `None`: the page is one watcher's alone.
    class: Option<u64>,
    from: Position,
    to: Position,
}

/// The bytes of one page and the frames in it. Reused; what it holds of the ring goes to every watcher of the class that
/// stands within it, so that those who fell behind together are caught up together.
#[derive(Debug, Default)]
pub(super) struct Page {
    bytes: Vec<u8>,
    marks: Vec<Mark>,
    stretch: Stretch,
    /// A frame that fills a page by itself is sent from where it stands.
    large: Option<Bytes>,
}

impl Page {
    fn clear(&mut self) {
        self.bytes.clear();
        self.marks.clear();
        self.stretch.class = None;
        self.large = None;
    }

    /// Bytes that its buffers hold.
    pub(super) const fn capacity(&self) -> usize {
        self.bytes.capacity() + size_of::<Mark>() * self.marks.capacity()
    }

    /// Whether it holds what a watcher of this class that stands at `cursor` is owed next.
    fn reaches(&self, class: u64, cursor: Position) -> bool {
        self.stretch.class == Some(class) && self.stretch.from <= cursor && cursor < self.stretch.to
    }

    /// The first frame for who stands at `cursor`.
    fn first_from(&self, cursor: Position) -> usize {
        self.marks.partition_point(|mark| matches!(mark.of, Of::Event(at) if at < cursor))
    }

    /// Where a frame begins.
    fn start_of(&self, number: usize) -> usize {
        number.checked_sub(1).map_or(0, |before| self.marks[before].end)
    }

    fn mark(&mut self, of: Of) {
        self.marks.push(Mark { end: self.bytes.len(), of });
    }

    /// How many of the frames are events of the ring.
    fn events(&self) -> u64 {
        self.marks.len() as u64 - u64::from(self.refusal().is_some())
    }

    /// The last frame, when it ends the watch.
    fn refusal(&self) -> Option<&Bytes> {
        match self.marks.last() {
            Some(Mark { of: Of::Refusal(last), .. }) => Some(last),
            _ => None,
        }
    }

    /// Whether the last frame is the mark behind the initial events.
    fn ends_state(&self) -> bool {
        matches!(self.marks.last(), Some(Mark { of: Of::EndOfState, .. }))
    }

    /// The frame that the byte `taken` falls into: its number, and how many bytes of it the page held before.
    fn locate(&self, taken: usize) -> Option<(usize, usize)> {
        let number = self.marks.iter().position(|mark| taken < mark.end)?;
        Some((number, taken - self.start_of(number)))
    }
}

/// The frame that a watch stands in.
#[derive(Debug)]
pub(super) enum UnderWay {
    /// It stands between two frames.
    Nothing,
    /// This is to be sent before anything else.
    Frame(Rest),
    /// The rest of it cannot be made any more.
    Lost,
}

impl UnderWay {
    /// The frame of an event, of which `sent` bytes are out.
    fn event(frame: Option<Bytes>, sent: usize) -> Self {
        frame.map_or(Self::Lost, |frame| Self::Frame(Rest { events: 1, ..Rest::new(frame, sent) }))
    }
}

impl Shard {
    /// Gives the first of those behind one page, or less.
    pub(super) fn catch_up_next(&mut self, outlet: &mut impl Outlet, now: Tick) {
        debug_assert!(!self.round.active(), "nobody becomes live within a round");
        let Some(id) = self.behind.pop_front() else { return };
        let Some(watcher) = self.table.get_mut(id) else { return };
        if watcher.place != Place::Queued {
            return;
        }
        watcher.place = Place::None;
        if self.send_rest(id, outlet) {
            self.catch_up(id, outlet, now);
        }
    }

    /// Sends what must go out first. True when nothing of it is left and the watch goes on.
    pub(super) fn send_rest(&mut self, id: WatcherId, outlet: &mut impl Outlet) -> bool {
        loop {
            let Some(watcher) = self.table.get_mut(id) else { return false };
            let Some(rest) = &mut watcher.rest else { return true };
            match outlet.send(id, &rest.bytes[rest.sent..]) {
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
                        Some(last) => **rest = Rest::new(last, 0),
                        None => watcher.rest = None,
                    }
                }
            }
        }
    }

    /// What a watch has begun to send.
    pub(super) fn under_way(&mut self, id: WatcherId) -> UnderWay {
        let Some((watcher, class)) = self.table.pair(id) else { return UnderWay::Lost };
        if watcher.between_frames() {
            return UnderWay::Nothing;
        }
        match (&watcher.phase, watcher.rest.take()) {
            // It is about to end already.
            (Phase::Draining, _) => UnderWay::Lost,
            (_, Some(rest)) => UnderWay::Frame(*rest),
            (Phase::Initial(initial), None) => {
                let offset = initial.offset;
                let (snapshot, after) = (Arc::clone(&initial.snapshot), initial.after.clone());
                let (key, as_of_seconds) = (class.key.clone(), initial.as_of_seconds);
                let namespaced = self.feed.schema.get(key.scope.resource).namespaced;
                let mut objects = objects(&snapshot, &key, namespaced, after.as_deref());
                let object = objects.find(|object| key.matches_object(object) && key.covers(object.key()));
                let frame = object.map(|object| match key.encoding {
                    Encoding::Json => object.added().clone(),
                    Encoding::Other(_) => {
                        let mut made = Vec::new();
                        self.frame_of_state(&mut made, object, &key, !key.opened, as_of_seconds);
                        Bytes::from(made)
                    }
                });
                // One that is this watch's alone, and long, is not kept for it.
                let shared = key.encoding == Encoding::Json;
                UnderWay::event(frame.filter(|frame| shared || frame.len() <= PAGE_BYTES), offset)
            }
            (&Phase::CatchingUp { cursor, offset }, None) => {
                let key = class.key.clone();
                let event = self.feed.ring.get(cursor).ok();
                let frame = event.and_then(|event| {
                    let kind = key.verdict(&event)?;
                    Some(self.feed_frame(&event, key.frame_name(kind, true)))
                });
                UnderWay::event(frame, offset as usize)
            }
            (Phase::Live | Phase::Parked { .. }, None) => UnderWay::Nothing,
        }
    }

    fn catch_up(&mut self, id: WatcherId, outlet: &mut impl Outlet, now: Tick) {
        let Some(watcher) = self.table.get_mut(id) else { return };
        if watcher.ending && self.may_end(id) {
            self.finish(id, outlet, now);
            return;
        }
        let Some(watcher) = self.table.get_mut(id) else { return };
        match &mut watcher.phase {
            Phase::Draining => self.end(id, true),
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
                // Its snapshot is newer than what the shard has dispatched: only a round gets it on. Lending it
                // time would turn in circles until the loan is spent.
                self.round.just_ended = false;
                self.queue(id);
            }
            return;
        }
        let mut page = std::mem::take(&mut self.page);
        let Some((watcher, class)) = self.table.pair(id) else { return };
        // Who is to end, or has had no frame yet, gets one frame, and not the one that others get.
        let alone = watcher.ending || !class.key.opened;
        let mut lapped = false;
        if alone || !page.reaches(class.serial, cursor) {
            lapped = self.gather(&mut page, id, cursor, alone);
        }
        let first = page.first_from(cursor);
        if lapped && page.marks.len() == first {
            self.page = page;
            self.evict(id, now);
            return;
        }
        let start = page.start_of(first) + offset;
        let bytes = page.large.as_deref().unwrap_or(&page.bytes);
        let owed = bytes.get(start..).unwrap_or_default();
        match offer(outlet, id, owed) {
            Sent::Gone => self.end(id, false),
            Sent::Took(taken) => {
                self.stats.bytes_sent += taken as u64;
                if taken >= owed.len() {
                    self.stats.events_sent += page.events() - first as u64;
                    self.page_taken(id, &page, page.marks.len() > first, outlet, now);
                } else {
                    self.page_cut_short(id, &page, first, start + taken, now);
                }
            }
        }
        self.page = page;
    }

    /// Puts the frames of a watcher's class into the page, from `cursor` on; only the first if it is `alone`. True when the
    /// ring does not reach as far back as it came to.
    fn gather(&mut self, page: &mut Page, id: WatcherId, cursor: Position, alone: bool) -> bool {
        page.clear();
        page.stretch.from = cursor;
        page.stretch.to = cursor;
        let Some((_, class)) = self.table.pair(id) else { return false };
        let key = &class.key;
        if !alone {
            page.stretch.class = Some(class.serial);
        }
        for _ in 0..PAGE_SCAN {
            let at = page.stretch.to;
            if at >= self.dispatched {
                break;
            }
            let event = match self.feed.ring.get(at) {
                Ok(event) => event,
                Err(Missing::Lapped) => return true,
                Err(Missing::NotYet) => break,
            };
            if let Some(refusal) = event.refusal()
                && !planted(Bug::UnreadableSkipped)
            {
                if key.covers(event.key()) {
                    page.bytes.extend_from_slice(refusal);
                    page.mark(Of::Refusal(refusal.clone()));
                    page.stretch.class = None;
                    break;
                }
            } else if key.covers(event.key())
                && let Some(kind) = key.verdict(&event)
            {
                let bytes =
                    event.frame(key.frame_name(kind, true), &*self.feed.encoder, self.feed.frames_counter());
                if page.bytes.is_empty() && bytes.len() >= PAGE_BYTES {
                    page.marks.push(Mark { end: bytes.len(), of: Of::Event(at) });
                    page.large = Some(bytes.clone());
                    page.stretch.class = None;
                    page.stretch.to = at.next();
                    break;
                }
                if !page.bytes.is_empty() && page.bytes.len() + bytes.len() > STRETCH_BYTES {
                    break;
                }
                page.bytes.extend_from_slice(bytes);
                page.mark(Of::Event(at));
                if alone {
                    page.stretch.to = at.next();
                    break;
                }
            }
            page.stretch.to = at.next();
        }
        false
    }

    /// All that the page had for the watcher went out; `any`: that was something.
    fn page_taken(&mut self, id: WatcherId, page: &Page, any: bool, outlet: &mut impl Outlet, now: Tick) {
        if page.refusal().is_some() {
            self.stats.refused += 1;
            self.end(id, true);
            return;
        }
        let at = page.stretch.to;
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

    /// The socket is full: the watcher stands at byte `at` of the page, of which it was owed the frames from `first` on.
    fn page_cut_short(&mut self, id: WatcherId, page: &Page, first: usize, at: usize, now: Tick) {
        let Some((number, within)) = page.locate(at) else { return };
        let whole = number - first;
        self.stats.events_sent += whole as u64;
        let cursor = match &page.marks[number].of {
            Of::Event(cursor) => *cursor,
            Of::Refusal(last) => {
                self.refuse_within(id, last.clone(), within, now);
                return;
            }
            // Not of the ring.
            Of::Object(_) | Of::EndOfState => return,
        };
        let within = if planted(Bug::PartialSendRestarted) { 0 } else { within };
        if let Some(watcher) = self.table.get_mut(id) {
            let offset = u32::try_from(within).expect("a frame is shorter than 4 GiB");
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
            // What follows the snapshot is forgotten: the watch could never go on behind it.
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
        let namespaced = self.feed.schema.get(key.scope.resource).namespaced;
        let mut scanned: Option<Arc<str>> = None;
        let mut complete = true;
        let mut budget = PAGE_SCAN;
        for object in objects(&initial.snapshot, &key, namespaced, initial.after.as_deref()) {
            if budget == 0 || page.bytes.len() >= PAGE_BYTES || (!page.marks.is_empty() && !opened) {
                complete = false;
                break;
            }
            budget -= 1;
            if key.matches_object(object) && key.covers(object.key()) {
                self.frame_of_state(&mut page.bytes, object, &key, !opened, initial.as_of_seconds);
                if page.marks.is_empty() {
                    page.bytes.drain(..initial.offset.min(page.bytes.len()));
                }
                page.mark(Of::Object(object.key().shared_path()));
            }
            scanned = Some(object.key().shared_path());
        }
        if complete && initial.end_mark && (page.marks.is_empty() || opened) {
            self.frame_of_bookmark(&mut page.bytes, &key, initial.snapshot.revision(), true);
            page.mark(Of::EndOfState);
        } else if complete && initial.end_mark {
            // The end mark is the business of the next page.
            complete = false;
        }
        match offer(outlet, id, &page.bytes) {
            Sent::Gone => self.end(id, false),
            Sent::Took(taken) if taken >= page.bytes.len() => {
                self.stats.bytes_sent += taken as u64;
                let end_marks = u64::from(page.ends_state());
                self.stats.events_sent += page.marks.len() as u64 - end_marks;
                self.stats.bookmarks_sent += end_marks;
                if !page.marks.is_empty() {
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
                self.state_cut_short(id, initial, &page, taken);
            }
        }
        self.page = page;
    }

    /// The socket is full: the watcher stands inside the page of its initial state.
    fn state_cut_short(&mut self, id: WatcherId, mut initial: Box<Initial>, page: &Page, taken: usize) {
        let Some((number, within)) = page.locate(taken) else { return };
        self.stats.events_sent += number as u64;
        let before = number.checked_sub(1).map(|before| &page.marks[before].of);
        let phase_after_state = self.end_of_state(initial.snapshot.position());
        let at_end = matches!(page.marks[number].of, Of::EndOfState);
        // The rest of an end mark goes out before anything else: the next frame is not the first.
        if number > 0 || at_end {
            self.table.open(id);
        }
        let Some(watcher) = self.table.get_mut(id) else { return };
        if at_end {
            self.stats.bookmarks_sent += 1;
            // A bookmark is short: its rest is kept.
            let bytes = Bytes::copy_from_slice(&page.bytes[taken - within..]);
            watcher.rest = Some(Box::new(Rest::new(bytes, within)));
            watcher.phase = phase_after_state;
        } else {
            if let Some(Of::Object(path)) = before {
                initial.after = Some(Arc::clone(path));
            }
            initial.offset = if number == 0 { initial.offset + within } else { within };
            if planted(Bug::PartialSendRestarted) {
                initial.offset = 0;
            }
            watcher.phase = Phase::Initial(initial);
        }
        self.block(id);
    }

    /// Where a watcher goes on behind a snapshot that stands at `position`.
    fn end_of_state(&self, position: Position) -> Phase {
        let cursor = if planted(Bug::GapAfterInitialEvents) {
            self.dispatched
        } else if planted(Bug::DoubledFrame) {
            Position::new(position.get().saturating_sub(1))
        } else {
            position
        };
        Phase::CatchingUp { cursor, offset: 0 }
    }

    fn frame_of_state(
        &self,
        out: &mut Vec<u8>,
        object: &Object,
        key: &ClassKey,
        first: bool,
        as_of_seconds: u64,
    ) {
        match key.encoding {
            Encoding::Json => match object.frame(FrameKind::Added) {
                Some(made) => out.extend_from_slice(made),
                None => {
                    frame::event(out, FrameKind::Added, |out| out.extend_from_slice(object.json()));
                }
            },
            Encoding::Other(encoding) => {
                let resource = key.scope.resource;
                let view = View { encoding, first, resource, json: object.json(), as_of_seconds };
                frame::event(out, FrameKind::Added, |out| self.feed.encoder.append(out, view));
            }
        }
    }
}

fn offer(outlet: &mut impl Outlet, id: WatcherId, bytes: &[u8]) -> Sent {
    if bytes.is_empty() { Sent::Took(0) } else { outlet.send(id, bytes) }
}

/// The objects that a class can be interested in, in key order, behind the path `after`.
fn objects<'a>(
    snapshot: &'a Snapshot,
    key: &ClassKey,
    namespaced: bool,
    after: Option<&str>,
) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
    let scope = &key.scope;
    let one = scope.name.as_deref().and_then(|name| match &scope.namespace {
        Some(namespace) => Some(format!("{namespace}/{name}")),
        None => (!namespaced).then(|| name.to_owned()),
    });
    let (one, many) = match one {
        Some(path) => {
            (snapshot.at_path(scope.resource, &path).filter(|_| after.is_none_or(|a| a < &*path)), None)
        }
        None => (None, Some(snapshot.list(scope.resource, scope.namespace.as_deref(), after))),
    };
    one.into_iter().chain(many.into_iter().flatten())
}
