//! Counts of what watchers saw. Every lane has its own; they are added up at the end.

use crate::latency::Pairs;
use serde::{Deserialize, Serialize};

/// What a number of watchers saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tally {
    /// Different writes delivered, warm-up included: what is held against the expected number.
    pub(crate) delivered: u64,
    /// Deliveries that were due: acknowledged writes times the watchers that cover them.
    pub(crate) expected: u64,
    /// Deliveries of writes that were meant to be sent after the warm-up.
    pub(crate) measured: u64,
    /// Deliveries, of any write, that arrived after the warm-up.
    pub(crate) received_in_window: u64,
    /// Bytes of stream read after the warm-up.
    pub(crate) bytes_in_window: u64,
    /// Reads that found something after the warm-up.
    pub(crate) reads_in_window: u64,
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
    pub(crate) out_of_order: u64,
    /// Watches that ended before the run did.
    pub(crate) disconnected: u64,
    /// Lines that are no watch event, streams that are not chunked, and scans that the JSON parser contradicted.
    pub(crate) malformed: u64,
    /// Events of this run that the watch does not cover, of a type other than MODIFIED, or never written.
    pub(crate) unexpected: u64,
    /// Events of objects that are not of this run.
    pub(crate) foreign: u64,
    pub(crate) bookmarks: u64,
    /// Bookmarks that came after the warm-up.
    pub(crate) bookmarks_in_window: u64,
    /// Chunks of white space between two events, after the warm-up: a quiet stream is kept open with them.
    pub(crate) heartbeats_in_window: u64,
    /// Watchers that never read, and how many of those the server ended, as far as their sockets tell.
    pub(crate) deaf: u64,
    pub(crate) deaf_ended: u64,
    /// Watchers that went and came back, and were answered again.
    pub(crate) returned: u64,
    /// ERROR events.
    pub(crate) errors: u64,
    /// Watches that were told 410, by status or by an ERROR event.
    pub(crate) gone: u64,
    /// The first thing that went wrong, in words.
    pub(crate) first_fault: Option<String>,
    /// CLOCK_MONOTONIC of the last delivery, ns.
    pub(crate) last_delivery_ns: u64,
    /// Latency of the measured deliveries.
    pub(crate) latency: Pairs,
    /// Latencies by window.
    pub(crate) windows: Vec<Pairs>,
}

impl Tally {
    /// Adds another's counts. Its latency pairs are left to the caller, who has the histogram.
    pub(crate) fn add(&mut self, other: &Self) {
        self.delivered += other.delivered;
        self.expected += other.expected;
        self.measured += other.measured;
        self.received_in_window += other.received_in_window;
        self.bytes_in_window += other.bytes_in_window;
        self.reads_in_window += other.reads_in_window;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.out_of_order += other.out_of_order;
        self.disconnected += other.disconnected;
        self.malformed += other.malformed;
        self.unexpected += other.unexpected;
        self.foreign += other.foreign;
        self.bookmarks += other.bookmarks;
        self.bookmarks_in_window += other.bookmarks_in_window;
        self.heartbeats_in_window += other.heartbeats_in_window;
        self.deaf += other.deaf;
        self.deaf_ended += other.deaf_ended;
        self.returned += other.returned;
        self.errors += other.errors;
        self.gone += other.gone;
        if self.first_fault.is_none() {
            self.first_fault.clone_from(&other.first_fault);
        }
        self.last_delivery_ns = self.last_delivery_ns.max(other.last_delivery_ns);
    }

    /// How many events one read found, in the mean: so many were written together, or had gathered in the socket.
    pub(crate) fn events_per_read(&self) -> Option<f64> {
        (self.reads_in_window > 0).then(|| self.received_in_window as f64 / self.reads_in_window as f64)
    }

    /// Bytes of the stream for one event, in the mean.
    pub(crate) fn frame_bytes(&self) -> Option<f64> {
        (self.received_in_window > 0).then(|| self.bytes_in_window as f64 / self.received_in_window as f64)
    }

    /// Keeps the first fault in words; `describe` runs for that one only.
    pub(crate) fn note(&mut self, describe: impl FnOnce() -> String) {
        if self.first_fault.is_none() {
            self.first_fault = Some(describe());
        }
    }
}
