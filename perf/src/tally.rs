//! Counts of what watchers saw. Every lane has its own; they are added up at the end.

use crate::http::excerpt;
use crate::latency::Latency;
use serde::{Deserialize, Serialize};

/// A struct of `u64` counts, and of the first fault in words, with a sum.
macro_rules! sums {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub(crate) struct $name {
            $($(#[$field_meta])* pub(crate) $field: u64,)*
            pub(crate) first_fault: Option<String>,
        }

        impl $name {
            pub(crate) fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)*
                self.note(|| other.first_fault.clone());
            }

            /// Keeps the first fault; `describe` runs for that one only.
            pub(crate) fn note(&mut self, describe: impl FnOnce() -> Option<String>) {
                if self.first_fault.is_none() {
                    self.first_fault = describe();
                }
            }
        }
    };
}

pub(crate) use sums;

sums! {
    /// Of a number of watchers, as reports name it. But for `measured`, warm-up included.
    Seen {
        /// Different writes delivered: what is compared with the expected number.
        #[serde(rename = "deliveries_checked")]
        delivered,
        /// Deliveries that were due: acknowledged writes times the watchers that cover them.
        #[serde(rename = "deliveries_expected")]
        expected,
        /// Deliveries of writes that were meant to be sent after the warm-up.
        #[serde(rename = "deliveries")]
        measured,
        lost,
        duplicated,
        out_of_order,
        disconnected,
        /// Lines that are no watch event, and streams that are not chunked.
        malformed,
        /// Events of this run that the watch does not cover, of a type other than MODIFIED, or never written.
        unexpected,
        /// Events of objects that are not of this run.
        foreign,
        bookmarks,
        #[serde(rename = "error_events")]
        errors,
        /// Watches that were told 410, by status or by an ERROR event.
        #[serde(rename = "told_410")]
        gone,
        /// Watchers that never read, and how many of those the server ended, as far as their sockets tell. No other number
        /// includes them.
        deaf,
        deaf_ended,
        returned,
    }
}

sums! {
    Window {
        deliveries,
        bytes,
        reads,
        bookmarks,
        /// Chunks of white space between two events: a quiet stream is kept open with them.
        heartbeats,
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tally {
    pub(crate) seen: Seen,
    pub(crate) window: Window,
    /// CLOCK_MONOTONIC of the last delivery, ns.
    pub(crate) last_delivery_ns: u64,
    pub(crate) latency: Latency,
    pub(crate) windows: Vec<Latency>,
}

impl Seen {
    pub(crate) fn count(&mut self, field: fn(&mut Self) -> &mut u64, describe: impl FnOnce() -> String) {
        *field(self) += 1;
        self.note(|| Some(describe()));
    }

    /// The same, when a line of the stream is what is wrong.
    pub(crate) fn count_line(&mut self, field: fn(&mut Self) -> &mut u64, what: &str, line: &[u8]) {
        self.count(field, || format!("{what}: {}", excerpt(line)));
    }
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.seen.add(&other.seen);
        self.window.add(&other.window);
        self.last_delivery_ns = self.last_delivery_ns.max(other.last_delivery_ns);
        self.latency.add(&other.latency);
        self.windows.resize(self.windows.len().max(other.windows.len()), Latency::default());
        self.windows.iter_mut().zip(&other.windows).for_each(|(all, one)| all.add(one));
    }

    /// Events that one read found, in the mean: so many were written together, or had gathered in the socket.
    pub(crate) fn events_per_read(&self) -> Option<f64> {
        (self.window.reads > 0).then(|| self.window.deliveries as f64 / self.window.reads as f64)
    }

    pub(crate) fn frame_bytes(&self) -> Option<f64> {
        (self.window.deliveries > 0).then(|| self.window.bytes as f64 / self.window.deliveries as f64)
    }
}
