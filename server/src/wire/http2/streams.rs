//! The streams of a connection, by the peer's number and by the user's key.

use std::collections::VecDeque;

use super::{ErrorCode, StreamKey};

/// How many streams that have ended are remembered.
const ENDED_MAX: usize = 64;

/// What one direction of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    Open,
    /// Everything was sent, or the stream was reset.
    Done,
}

#[derive(Debug)]
pub(super) struct Stream<S> {
    pub(super) id: u32,
    /// What the peer sends.
    pub(super) remote: Half,
    /// What is sent to it.
    local: Half,
    /// Whether the final head was sent.
    pub(super) is_answered: bool,
    /// Whether something waits to be sent until there is room.
    pub(super) wants_room: bool,
    /// Whether it was reset by this side: what was under way is ignored.
    pub(super) is_reset_here: bool,
    /// Bytes that the peer may send.
    pub(super) remote_window: u32,
    /// Bytes that were consumed, and of which the peer was not told yet.
    pub(super) consumed: u32,
    /// Bytes of the body that are still to come, if its length was announced.
    pub(super) content_left: Option<u64>,
    /// `None` once it is released.
    pub(super) carried: Option<S>,
}

/// What a delivery looks at, apart from the rest of a stream: a turn passes through those of all streams.
#[derive(Clone, Copy, Debug)]
struct Outgoing {
    /// Who may send whole frames of data, since nothing else of the stream waits to be sent; [`NOBODY`] otherwise.
    sender: u64,
    /// Bytes that may be sent; below 0 after the peer made windows smaller.
    window: i32,
    id: u32,
}

/// No sender has this number.
const NOBODY: u64 = u64::MAX;

/// A stream's window is over 2^31-1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowOverflow;

/// What is known of a stream that the peer named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    At(StreamKey),
    /// It ended in both directions, or the peer reset it.
    Ended,
    /// This side reset it: frames may have been under way.
    ResetHere,
    /// It is older than what is remembered, or was never opened and now cannot be.
    Passed,
    Idle,
}

#[derive(Debug)]
pub(super) struct StreamTable<S> {
    slots: Vec<Option<Stream<S>>>,
    /// Of each slot.
    outgoing: Vec<Outgoing>,
    free: Vec<u32>,
    /// Numbers and keys, in the order of the numbers.
    by_id: Vec<(u32, u32)>,
    /// The highest number of a stream that the peer opened.
    pub(super) last: u32,
    /// Streams that ended last, and whether this side reset them.
    ended: VecDeque<(u32, bool)>,
    /// The slot at which those that want room are asked next.
    turn: u32,
}

impl<S> StreamTable<S> {
    pub(super) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            outgoing: Vec::new(),
            free: Vec::new(),
            by_id: Vec::new(),
            last: 0,
            ended: VecDeque::new(),
            turn: 0,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether one more may be opened. Of those that are over for the peer, which counts them no more (RFC 9113, section 5.1.2), as many
    /// again may be under way here: a client at the limit may cancel a stream and open another at once.
    pub(super) fn has_place(&self, limit: usize) -> bool {
        let under_way = || self.slots.iter().flatten().filter(|stream| !stream.is_over()).count();
        self.len() < limit || self.len() < 2 * limit && under_way() < limit
    }

    pub(super) fn find(&self, id: u32) -> Known {
        if let Ok(at) = self.by_id.binary_search_by_key(&id, |(id, _)| *id) {
            return Known::At(StreamKey(self.by_id[at].1));
        }
        match self.ended.iter().find(|(ended, _)| *ended == id) {
            Some((_, true)) => Known::ResetHere,
            Some((_, false)) => Known::Ended,
            None if id > self.last => Known::Idle,
            None => Known::Passed,
        }
    }

    /// Adds a stream with a higher number than all before. `window`: bytes that may be sent.
    pub(super) fn add(&mut self, stream: Stream<S>, window: u32) -> StreamKey {
        debug_assert!(stream.id >= self.last, "the reader refuses lower numbers");
        self.last = stream.id;
        let window = i32::try_from(window).unwrap_or(i32::MAX);
        let outgoing = Outgoing { sender: NOBODY, window, id: stream.id };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.outgoing.push(outgoing);
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        self.by_id.push((stream.id, slot));
        self.slots[slot as usize] = Some(stream);
        self.outgoing[slot as usize] = outgoing;
        StreamKey(slot)
    }

    pub(super) fn get(&self, key: StreamKey) -> Option<&Stream<S>> {
        self.slots.get(key.0 as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, key: StreamKey) -> Option<&mut Stream<S>> {
        self.slots.get_mut(key.0 as usize)?.as_mut()
    }

    /// Bytes that may be sent on a stream: those of its own window.
    pub(super) fn window(&self, key: StreamKey) -> i64 {
        self.outgoing.get(key.0 as usize).map_or(0, |outgoing| i64::from(outgoing.window))
    }

    /// Data was sent, within the window.
    pub(super) fn sent(&mut self, key: StreamKey, bytes: usize) {
        if let Some(outgoing) = self.outgoing.get_mut(key.0 as usize) {
            outgoing.window = outgoing.window.saturating_sub(i32::try_from(bytes).unwrap_or(i32::MAX));
        }
    }

    /// The peer allows more, or less.
    pub(super) fn widen(&mut self, key: StreamKey, change: i64) -> Result<(), WindowOverflow> {
        self.outgoing.get_mut(key.0 as usize).map_or(Ok(()), |outgoing| outgoing.widen(change))
    }

    /// The peer allows more, or less, on all streams.
    pub(super) fn widen_all(&mut self, change: i64) -> Result<(), WindowOverflow> {
        let used = self.slots.iter().zip(&mut self.outgoing).filter(|(slot, _)| slot.is_some());
        used.map(|(_, outgoing)| outgoing).try_for_each(|outgoing| outgoing.widen(change))
    }

    /// Sets who may send whole frames on a stream that is open to the peer.
    pub(super) fn set_sender(&mut self, key: StreamKey, sender: Option<u64>) {
        let is_open = self.get(key).is_some_and(|stream| stream.local == Half::Open);
        if let Some(outgoing) = self.outgoing.get_mut(key.0 as usize) {
            outgoing.sender = sender.filter(|_| is_open).unwrap_or(NOBODY);
        }
    }

    /// Whether this sender may send whole frames on the stream.
    #[inline]
    pub(super) fn is_sender(&self, key: StreamKey, sender: u64) -> bool {
        self.outgoing.get(key.0 as usize).is_some_and(|outgoing| outgoing.sender == sender)
    }

    /// Takes room for `len` bytes of the sender, if there is as much. Returns the stream's number.
    #[inline]
    pub(super) fn take_room(&mut self, key: StreamKey, sender: u64, len: i32) -> Option<u32> {
        let outgoing = self.outgoing.get_mut(key.0 as usize)?;
        if outgoing.sender != sender || outgoing.window < len {
            return None;
        }
        outgoing.window -= len;
        Some(outgoing.id)
    }

    /// How many streams from `first` on, by their keys, these senders may send whole frames on, one each.
    #[inline]
    pub(super) fn senders_in_row(&self, first: StreamKey, senders: impl Iterator<Item = u64>) -> usize {
        let row = self.outgoing.get(first.0 as usize..).unwrap_or_default();
        row.iter().zip(senders).take_while(|(outgoing, sender)| outgoing.sender == *sender).count()
    }

    /// Takes room for `len` bytes on each of so many streams from `first` on, if all have as much, and appends their numbers.
    #[inline]
    pub(super) fn take_row(
        &mut self,
        first: StreamKey,
        count: usize,
        len: i32,
        numbers: &mut Vec<u32>,
    ) -> bool {
        let row = self.outgoing.get_mut(first.0 as usize..).and_then(|rest| rest.get_mut(..count));
        let Some(row) = row else { return false };
        // The least, without a branch for each.
        if row.iter().fold(i32::MAX, |least, outgoing| least.min(outgoing.window)) < len {
            return false;
        }
        numbers.extend(row.iter_mut().map(|outgoing| {
            outgoing.window -= len;
            outgoing.id
        }));
        true
    }

    /// Everything was sent on a stream.
    pub(super) fn finish(&mut self, key: StreamKey) {
        self.set_sender(key, None);
        if let Some(stream) = self.get_mut(key) {
            stream.local = Half::Done;
        }
    }

    /// Both directions are over.
    pub(super) fn close(&mut self, key: StreamKey) -> Option<&mut Stream<S>> {
        self.finish(key);
        let stream = self.get_mut(key)?;
        stream.remote = Half::Done;
        stream.wants_room = false;
        Some(stream)
    }

    /// Removes a stream and remembers how it ended.
    pub(super) fn remove(&mut self, key: StreamKey) {
        let Some(stream) = self.slots.get_mut(key.0 as usize).and_then(Option::take) else { return };
        self.outgoing[key.0 as usize].sender = NOBODY;
        if let Ok(at) = self.by_id.binary_search_by_key(&stream.id, |(id, _)| *id) {
            self.by_id.remove(at);
        }
        self.free.push(key.0);
        self.remember(stream.id, stream.is_reset_here);
        if self.by_id.is_empty() && self.slots.capacity() > 16 {
            (self.slots, self.outgoing, self.free, self.by_id) = Default::default();
        }
    }

    /// Remembers a stream that ended.
    pub(super) fn remember(&mut self, id: u32, is_reset_here: bool) {
        if self.ended.len() >= ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back((id, is_reset_here));
    }

    pub(super) fn carried(&self) -> impl Iterator<Item = (StreamKey, &S)> {
        let streams = self.slots.iter().zip(0..);
        streams.filter_map(|(slot, at)| Some((StreamKey(at), slot.as_ref()?.carried.as_ref()?)))
    }

    /// Gives room to the streams that want it, each time from another one on: what there is of a connection's window is not
    /// always taken by the same.
    pub(super) fn give_room(&mut self, mut give: impl FnMut(StreamKey, &mut S)) {
        let (len, turn) = (self.slots.len(), self.turn as usize);
        if len == 0 {
            return;
        }
        self.turn = self.turn.wrapping_add(1);
        for at in 0..len {
            let at = (turn % len + at) % len;
            let Some(stream) = &mut self.slots[at] else { continue };
            if stream.wants_room && self.outgoing[at].window > 0 {
                stream.wants_room = false;
                if let Some(carried) = &mut stream.carried {
                    give(StreamKey(u32::try_from(at).unwrap_or(u32::MAX)), carried);
                }
            }
        }
    }

    /// Bytes that the table uses.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Option<Stream<S>>>() * self.slots.capacity()
            + size_of::<Outgoing>() * self.outgoing.capacity()
            + size_of::<u32>() * self.free.capacity()
            + size_of::<(u32, u32)>() * self.by_id.capacity()
            + size_of::<(u32, bool)>() * self.ended.capacity()
    }
}

impl Outgoing {
    fn widen(&mut self, change: i64) -> Result<(), WindowOverflow> {
        self.window = i32::try_from(i64::from(self.window) + change).map_err(|_| WindowOverflow)?;
        Ok(())
    }
}

impl<S> Stream<S> {
    /// A stream that the peer opened, with what it sends and the bytes that it may send.
    pub(super) const fn new(id: u32, remote: Half, remote_window: u32, content_left: Option<u64>) -> Self {
        Self {
            id,
            remote,
            local: Half::Open,
            is_answered: false,
            wants_room: false,
            is_reset_here: false,
            remote_window,
            consumed: 0,
            content_left,
            carried: None,
        }
    }

    /// Whether something may still be sent.
    pub(super) fn is_open_to_peer(&self) -> bool {
        self.local == Half::Open
    }

    /// Whether both directions are over.
    pub(super) fn is_over(&self) -> bool {
        (self.remote, self.local) == (Half::Done, Half::Done)
    }

    /// The code with which a stream ends that its user gave up.
    pub(super) const fn code_of_release(&self) -> Option<ErrorCode> {
        match (self.local, self.remote) {
            (Half::Open, _) if self.is_answered => Some(ErrorCode::InternalError),
            (Half::Open, _) => Some(ErrorCode::Cancel),
            // The rest of the request is of no use (RFC 9113, section 8.1).
            (Half::Done, Half::Open) => Some(ErrorCode::NoError),
            (Half::Done, Half::Done) => None,
        }
    }
}
