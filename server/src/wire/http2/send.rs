//! What is sent on streams: heads, and data within the windows. Control bytes go first: the answer to settings is before what obeys
//! them.

use super::frame::{self, FrameHead, flag, kind};
use super::streams::Half;
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
        let Some(stream) = self.streams.get_mut(key).filter(|stream| stream.local == Half::Open) else {
            return;
        };
        stream.is_answered = true;
        if ended {
            stream.local = Half::Done;
        }
        let (id, flags) = (stream.id, if ended { flag::END_STREAM } else { 0 });
        self.push_block(id, flags, block, out);
    }

    /// Appends the field block of an interim response: 100 Continue.
    pub fn push_interim_head(&mut self, key: StreamKey, block: &[u8], out: &mut Vec<u8>) {
        let stream = self.streams.get(key).filter(|stream| stream.local == Half::Open && !stream.is_answered);
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
        let stream = self.streams.get(key).filter(|stream| stream.local == Half::Open);
        let room = stream.map_or(0, |stream| stream.window.min(self.window));
        usize::try_from(room).unwrap_or(0)
    }

    /// Appends data of a stream, as far as the windows allow. `ended`: it is the last.
    pub fn push_data(&mut self, key: StreamKey, data: &[u8], ended: bool, out: &mut Vec<u8>) -> Pushed {
        if self.has_control() {
            self.take_control(out);
        }
        let Some(stream) = self.streams.get_mut(key).filter(|stream| stream.local == Half::Open) else {
            return Pushed { bytes: 0, is_all: false };
        };
        let room = usize::try_from(stream.window.min(self.window)).unwrap_or(0);
        let (fits, rest) = data.split_at(data.len().min(room));
        let is_all = rest.is_empty();
        stream.wants_room = !is_all;
        let ended = ended && is_all;
        if ended {
            stream.local = Half::Done;
        }
        let sent = i64::try_from(fits.len()).unwrap_or(i64::MAX);
        stream.window -= sent;
        self.window -= sent;
        let id = stream.id;
        let most = self.peer.payload_bytes_max as usize;
        let mut left = fits;
        while !left.is_empty() || (ended && fits.is_empty()) {
            let (part, after) = left.split_at(left.len().min(most));
            left = after;
            let flags = if ended && left.is_empty() { flag::END_STREAM } else { 0 };
            let len = u32::try_from(part.len()).unwrap_or(u32::MAX);
            out.extend_from_slice(&FrameHead { len, kind: kind::DATA, flags, stream: id }.to_bytes());
            out.extend_from_slice(part);
            self.bounds.sent_data();
            if left.is_empty() {
                break;
            }
        }
        Pushed { bytes: fits.len(), is_all }
    }

    /// Takes the room for a frame with so many bytes of data, which must be sent next on the stream whose number is returned.
    /// `None`: it does not fit in one frame, control bytes go first, or the stream is not eligible.
    pub fn begin_frame(
        &mut self,
        key: StreamKey,
        len: usize,
        is_eligible: impl FnOnce(&S) -> bool,
    ) -> Option<u32> {
        if len > self.peer.payload_bytes_max as usize || self.has_control() {
            return None;
        }
        let stream = self.streams.get_mut(key)?;
        let left = i64::try_from(len).ok()?;
        let has_room = stream.window >= left && self.window >= left;
        if !has_room || stream.local == Half::Done || !stream.carried.as_ref().is_some_and(is_eligible) {
            return None;
        }
        stream.window -= left;
        self.window -= left;
        self.bounds.sent_data();
        Some(stream.id)
    }

    /// The user has something to send on a stream: it is told when there is room. Returns whether there is.
    pub fn want_room(&mut self, key: StreamKey) -> bool {
        let has = self.room(key) > 0;
        if let Some(stream) = self.streams.get_mut(key).filter(|stream| stream.local == Half::Open) {
            stream.wants_room = !has;
        }
        has
    }
}
