//! The state of one connection, and what its user asks of it beside sending.

use std::fmt;
use std::time::Duration;

use revcast_engine::tick::Tick;

use super::bounds::Bounds;
use super::hpack::{Decoder, TABLE_BYTES_INITIAL};
use super::settings::{self, DEFAULT_WINDOW, PeerSettings};
use super::streams::{Half, StreamTable};
use super::{ErrorCode, Fault, Limits, StreamKey, frame};

/// Within this time the preface and the settings of a new connection arrive, and a field block is complete.
const OPENING_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of answers to control frames that wait for a peer that does not read them.
pub(super) const CONTROL_BYTES_MAX: usize = 32 << 10;
/// A larger buffer is not kept.
const KEPT_BYTES: usize = 1 << 10;
/// What a PING says: nothing depends on it.
const PING_TEXT: [u8; 8] = *b"revcast\n";

/// How far the opening of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// So many bytes of the preface came.
    Preface(usize),
    /// The first frame must be SETTINGS.
    Settings,
    Open,
}

/// A field block whose last part did not come yet.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    pub(super) bytes: Vec<u8>,
    pub(super) continuations: u32,
    pub(super) has_ended: bool,
    pub(super) since: Tick,
}

/// A DATA frame whose payload did not all come yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataFrame {
    /// `None`: nobody wants it.
    pub(super) stream: Option<u32>,
    pub(super) left: u32,
    pub(super) padding: u32,
    pub(super) has_ended: bool,
}

/// Whether new streams are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Away {
    No,
    /// The peer was told to open no more; what is under way is taken.
    Announced,
    /// Streams above the last are ignored.
    Last,
}

/// Why a connection is over: its last bytes are in the control bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended(pub Fault);

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// What happened since the last call of [`Connection::take_counts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Streams that the peer reset.
    pub reset_by_peer: u32,
    /// Streams that were reset because the peer broke a rule.
    pub reset: u32,
    /// Streams that were refused because there were too many.
    pub refused: u32,
    /// Requests with too many fields.
    pub too_large: u32,
    /// What was wrong with the last stream that was reset.
    pub why: Option<&'static str>,
}

/// One connection of HTTP/2, whose user has an `S` for each stream.
#[derive(Debug)]
pub struct Connection<S> {
    pub(super) phase: Phase,
    /// The beginning of a frame, and since when.
    pub(super) held: Vec<u8>,
    pub(super) held_since: Tick,
    pub(super) data: Option<DataFrame>,
    pub(super) block: Option<Box<Block>>,
    pub(super) decoder: Decoder,
    pub(super) limits: Limits,
    pub(super) peer: PeerSettings,
    pub(super) streams: StreamTable<S>,
    /// Bytes of data that may be sent over all streams.
    pub(super) window: i64,
    /// Bytes of data that the peer may send over all streams.
    pub(super) remote_window: u32,
    /// What that is when nothing is under way.
    remote_window_max: u32,
    /// Bytes that were consumed, and of which the peer was not told yet.
    consumed: u32,
    /// Frames that are not of a stream's data, to be sent soon.
    pub(super) control: Vec<u8>,
    pub(super) bounds: Bounds,
    pub(super) counts: Counts,
    pub(super) away: Away,
    pub(super) ended: Option<Ended>,
    began: Tick,
}

impl<S> Connection<S> {
    /// A connection whose first byte, of the preface, did not come yet. Its settings are the first control bytes.
    #[must_use]
    pub fn new(limits: Limits, now: Tick) -> Self {
        let mut control = Vec::new();
        settings::push(&mut control, &limits);
        Self {
            phase: Phase::Preface(0),
            held: Vec::new(),
            held_since: now,
            data: None,
            block: None,
            decoder: Decoder::new(TABLE_BYTES_INITIAL),
            limits,
            peer: PeerSettings::DEFAULT,
            streams: StreamTable::new(),
            window: i64::from(DEFAULT_WINDOW),
            remote_window: DEFAULT_WINDOW,
            remote_window_max: DEFAULT_WINDOW,
            consumed: 0,
            control,
            bounds: Bounds::new(now),
            counts: Counts::default(),
            away: Away::No,
            ended: None,
            began: now,
        }
    }

    /// Whether there are control bytes to send.
    #[must_use]
    pub const fn has_control(&self) -> bool {
        !self.control.is_empty()
    }

    /// Appends the control bytes, which the peer gets before anything that is pushed later.
    pub fn take_control(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.control);
        if self.control.capacity() > KEPT_BYTES {
            self.control = Vec::new();
        }
    }

    /// Why the connection is over, if it is: the control bytes are its last, and what the peer sends is ignored.
    #[must_use]
    pub const fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Streams that are not released.
    #[must_use]
    pub const fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// What the user has of a stream.
    #[must_use]
    pub fn carried(&self, key: StreamKey) -> Option<&S> {
        self.streams.get(key)?.carried.as_ref()
    }

    /// The same, to be changed.
    #[must_use]
    pub fn carried_mut(&mut self, key: StreamKey) -> Option<&mut S> {
        self.streams.get_mut(key)?.carried.as_mut()
    }

    /// All streams that are not released.
    pub fn all_carried(&self) -> impl Iterator<Item = (StreamKey, &S)> {
        self.streams.carried()
    }

    /// Whether the peer takes nothing more of a stream: it ended, or was reset.
    #[must_use]
    pub fn is_done(&self, key: StreamKey) -> bool {
        self.streams.get(key).is_none_or(|stream| !stream.is_open_to_peer())
    }

    /// Ends a stream with an error.
    pub fn reset(&mut self, key: StreamKey, code: ErrorCode) {
        if self.streams.get(key).is_some_and(|stream| !stream.is_over())
            && let Some(stream) = self.streams.close(key)
        {
            stream.is_reset_here = true;
            frame::push_reset(&mut self.control, stream.id, code);
        }
    }

    /// The user is done with a stream. One that is not over is reset. Returns what the user had of it.
    pub fn release(&mut self, key: StreamKey) -> Option<S> {
        let stream = self.streams.get_mut(key)?;
        let carried = stream.carried.take();
        if let Some(code) = stream.code_of_release() {
            self.reset(key, code);
        }
        self.streams.remove(key);
        carried
    }

    /// Bytes of a stream's body were used: the peer may send as many more.
    pub fn consume(&mut self, key: StreamKey, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if let Some(stream) = self.streams.get_mut(key)
            && stream.remote == Half::Open
        {
            stream.consumed = stream.consumed.saturating_add(bytes);
            if stream.consumed >= self.limits.stream_window / 2 {
                let update = std::mem::take(&mut stream.consumed);
                stream.remote_window = stream.remote_window.saturating_add(update);
                frame::push_window_update(&mut self.control, stream.id, update);
            }
        }
        self.consume_of_connection(bytes);
    }

    /// Bytes of no stream were used, or of one that nobody reads.
    pub(super) fn consume_of_connection(&mut self, bytes: u32) {
        self.consumed = self.consumed.saturating_add(bytes);
        if self.consumed >= self.remote_window_max / 2 {
            let update = std::mem::take(&mut self.consumed);
            self.remote_window = self.remote_window.saturating_add(update);
            frame::push_window_update(&mut self.control, 0, update);
        }
    }

    /// The peer showed who it is: it may do more.
    pub fn trust(&mut self) {
        self.bounds.trust();
        let more = self.limits.connection_window.saturating_sub(self.remote_window_max);
        if more > 0 {
            self.remote_window_max += more;
            self.remote_window += more;
            frame::push_window_update(&mut self.control, 0, more);
        }
    }

    /// Asks the peer for a sign of life.
    pub fn ping(&mut self) {
        frame::push_ping(&mut self.control, 0, PING_TEXT);
    }

    /// Asks the peer to open no more streams. Those under way are taken until [`Connection::refuse_new`].
    pub fn announce_end(&mut self) {
        if self.away == Away::No {
            self.away = Away::Announced;
            frame::push_go_away(&mut self.control, u32::MAX >> 1, ErrorCode::NoError, "");
        }
    }

    /// Takes no more streams: those that are open go on.
    pub fn refuse_new(&mut self) {
        if self.away != Away::Last {
            self.away = Away::Last;
            frame::push_go_away(&mut self.control, self.streams.last, ErrorCode::NoError, "");
        }
    }

    /// Whether no more streams are taken: the connection is over when the last of them is released.
    #[must_use]
    pub const fn refuses_new(&self) -> bool {
        matches!(self.away, Away::Last)
    }

    /// Ends the connection when the peer is late. To be called now and then.
    pub fn tick(&mut self, now: Tick) {
        self.bounds.refill(now);
        let late = |since| now.since(since) >= OPENING_TIMEOUT;
        if self.phase != Phase::Open && late(self.began) {
            self.fail(Fault::of(ErrorCode::SettingsTimeout, "no preface and settings came within 10 s"));
        } else if self.block.as_ref().is_some_and(|block| late(block.since)) {
            self.fail(Fault::protocol("a field block was not complete within 10 s"));
        } else if !self.held.is_empty() && late(self.held_since) {
            self.fail(Fault::protocol("a frame was not complete within 10 s"));
        }
    }

    /// Ends the connection.
    pub fn fail(&mut self, fault: Fault) {
        if self.ended.is_none() {
            self.ended = Some(Ended(fault));
            frame::push_go_away(&mut self.control, self.streams.last, fault.code, fault.why);
        }
    }

    /// What happened since the last call.
    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// Bytes that the connection uses, without what the user has of its streams beside the values themselves.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.held.capacity()
            + self.control.capacity()
            + self.block.as_ref().map_or(0, |block| size_of::<Block>() + block.bytes.capacity())
            + self.decoder.bytes()
            + self.streams.bytes()
    }
}
