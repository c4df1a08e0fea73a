//! What is sent on streams: heads, and data within the windows. Control bytes go first: the answer to settings is before what obeys
//! them.

use super::frame::{self, FrameHead, flag, kind};
use super::{Connection, StreamKey, hpack};

/// What became of data that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// Bytes that were appended.
    pub bytes: usize,
    /// Whether all was, with the end of the stream if there is one. Otherwise [`Events::room`](super::Events::room) follows, unless
    /// the stream is done.
    pub is_all: bool,
}

impl<S> Connection<S> {
    /// Appends a field block that answers a stream. `ended`: no body follows. Nothing of a stream that is done.
    pub fn push_head(&mut self, key: StreamKey, block: &[u8], ended: bool, out: &mut Vec<u8>) {
        let Some(stream) = self.streams.get_mut(key).filter(|stream| stream.is_open_to_peer()) else {
            return;
        };
        stream.is_answered = true;
        let (id, flags) = (stream.id, if ended { flag::END_STREAM } else { 0 });
        if ended {
            self.streams.finish(key);
        }
        self.push_block(id, flags, block, out);
    }

    /// Appends the field block of an interim response: 100 Continue.
    pub fn push_interim_head(&mut self, key: StreamKey, block: &[u8], out: &mut Vec<u8>) {
        let stream = self.streams.get(key).filter(|stream| stream.is_open_to_peer() && !stream.is_answered);
        if let Some(id) = stream.map(|stream| stream.id) {
            self.push_block(id, 0, block, out);
        }
    }

    fn push_block(&mut self, id: u32, flags: u8, block: &[u8], out: &mut Vec<u8>) {
        self.take_control(out);
        if std::mem::take(&mut self.peer.owes_size_update) {
            let block = [&[hpack::NO_TABLE], block].concat();
            return self.push_block(id, flags, &block, out);
        }
        let most = self.peer.payload_bytes_max as usize;
        let (first, mut rest) = block.split_at(block.len().min(most));
        let end = |rest: &[u8]| if rest.is_empty() { flag::END_HEADERS } else { 0 };
        frame::push(out, kind::HEADERS, flags | end(rest), id, first);
        while !rest.is_empty() {
            let (part, after) = rest.split_at(rest.len().min(most));
            frame::push(out, kind::CONTINUATION, end(after), id, part);
            rest = after;
        }
    }

    /// Bytes that a stream may send now.
    #[must_use]
    pub fn room(&self, key: StreamKey) -> usize {
        if self.is_done(key) {
            return 0;
        }
        usize::try_from(self.streams.window(key).min(self.window)).unwrap_or(0)
    }

    /// Appends data of a stream, as far as the windows allow. `ended`: it is the last.
    pub fn push_data(&mut self, key: StreamKey, data: &[u8], ended: bool, out: &mut Vec<u8>) -> Pushed {
        if self.has_control() {
            self.take_control(out);
        }
        let room = self.room(key);
        let Some(stream) = self.streams.get_mut(key).filter(|stream| stream.is_open_to_peer()) else {
            return Pushed { bytes: 0, is_all: false };
        };
        let (fits, rest) = data.split_at(data.len().min(room));
        let is_all = rest.is_empty();
        stream.wants_room = !is_all;
        let (id, ended) = (stream.id, ended && is_all);
        if ended {
            self.streams.finish(key);
        }
        self.streams.sent(key, fits.len());
        self.window -= i64::try_from(fits.len()).unwrap_or(i64::MAX);
        let most = self.peer.payload_bytes_max as usize;
        let mut left = fits;
        while !left.is_empty() || (ended && fits.is_empty()) {
            let (part, after) = left.split_at(left.len().min(most));
            left = after;
            let flags = if ended && left.is_empty() { flag::END_STREAM } else { 0 };
            let len = u32::try_from(part.len()).unwrap_or(u32::MAX);
            out.extend_from_slice(&FrameHead { len, kind: kind::DATA, flags, stream: id }.to_bytes());
            out.extend_from_slice(part);
            self.bounds.sent_data(1);
            if left.is_empty() {
                break;
            }
        }
        Pushed { bytes: fits.len(), is_all }
    }

    /// Lets this sender begin whole frames on a stream until it ends. The user sees to it that nothing waits to be sent on it
    /// then. `None`: nobody may.
    pub fn set_sender(&mut self, key: StreamKey, sender: Option<u64>) {
        self.streams.set_sender(key, sender);
    }

    /// Whether this sender may begin frames on the stream.
    #[must_use]
    pub fn is_sender(&self, key: StreamKey, sender: u64) -> bool {
        self.streams.is_sender(key, sender)
    }

    /// Takes the room for a frame with so many bytes of data on each of the streams, for its sender. The frames must be sent next.
    /// Calls `began` with the number of each stream; with `None`, if there is no room for all of it in one frame, control bytes go
    /// first, or it is another's.
    pub fn begin_frames(
        &mut self,
        len: usize,
        streams: impl Iterator<Item = (StreamKey, u64)>,
        mut began: impl FnMut(Option<u32>),
    ) {
        let size = self.frame_of(len);
        let mut frames = 0;
        for (key, sender) in streams {
            let has_room = |len: &i32| i64::from(*len) <= self.window;
            let id = size.filter(has_room).and_then(|len| self.streams.take_room(key, sender, len));
            if id.is_some() {
                self.window -= i64::from(size.unwrap_or(0));
                frames += 1;
            }
            began(id);
        }
        self.bounds.sent_data(frames);
    }

    /// How many streams from `first` on, by their keys, these senders may begin frames on, one each.
    #[must_use]
    pub fn senders_in_row(&self, first: StreamKey, senders: impl Iterator<Item = u64>) -> usize {
        self.streams.senders_in_row(first, senders)
    }

    /// As [`Self::begin_frames`], on so many streams from `first` on, which are their [senders'](Self::senders_in_row): on all, whose
    /// numbers are appended, or on none.
    pub fn begin_row(&mut self, len: usize, first: StreamKey, count: usize, numbers: &mut Vec<u32>) {
        let Some(size) = self.frame_of(len) else { return };
        let (frames, total) = (u32::try_from(count).unwrap_or(u32::MAX), i64::from(size) * count as i64);
        if total <= self.window && self.streams.take_row(first, count, size, numbers) {
            self.window -= total;
            self.bounds.sent_data(frames);
        }
    }

    /// The size of a frame with so many bytes, if there may be one now.
    fn frame_of(&self, len: usize) -> Option<i32> {
        let fits = len <= self.peer.payload_bytes_max as usize && !self.has_control();
        i32::try_from(len).ok().filter(|_| fits)
    }

    /// The user has something to send on a stream: it is told when there is room. Returns whether there is.
    pub fn want_room(&mut self, key: StreamKey) -> bool {
        let has = self.room(key) > 0;
        if let Some(stream) = self.streams.get_mut(key).filter(|stream| stream.is_open_to_peer()) {
            stream.wants_room = !has;
        }
        has
    }
}
