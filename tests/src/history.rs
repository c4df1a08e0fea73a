//! Checks that watchers received what etcd's log contains: the guarantees of a watch, as rules over what was recorded.
//!
//! Pure: a log of each epoch (`log`), what each watcher received, and [`check`], which returns every violation. An
//! epoch is a continuous history of the store; a restore or another cluster in its place begins the next one, whose
//! revisions have another meaning. The log comes from etcd itself, without any cache.
//!
//! The initial events of a watch (`sendInitialEvents`, or a watch from 0) are a list: record them as [`Seen::List`]
//! with the revision of the bookmark that ends them. Values are compared as bytes, so the recorder converts both sides
//! to one form first ([`Log::with_values`]): a server adds members that are not in the store.

mod log;
mod rules;
#[cfg(test)]
mod tests;

use std::fmt;

pub use self::log::Log;

/// The rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Only matching events are sent.
    Filter,
    /// Events are equal to etcd's: the change, its kind, its value; and no list has a future revision.
    Faithful,
    /// Revisions do not go back.
    Ordered,
    /// Nothing is sent twice.
    Unique,
    /// Nothing is missing up to the last proof: a bookmark, a newer event, or a revision that the test says must have
    /// been reached.
    Reliable,
    /// The events of a revision come together.
    Atomic,
    /// Every event up to a bookmark comes before it.
    Bookmarkable,
    /// A resume continues without a gap or a repeat, and only in the epoch that it knows.
    Resumable,
}

/// What an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It matches now, and did not.
    Added,
    /// It matches still.
    Modified,
    /// It does not match any more: with its last matching state.
    Deleted,
}

/// An object as it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The store's key.
    pub key: String,
    /// Its `resourceVersion`: of a deletion, the revision that deleted it.
    pub revision: u64,
    /// In the form of the log's values.
    pub value: Vec<u8>,
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With an error of status 410: list again.
    Expired,
    /// Gracefully.
    Clean,
    /// The connection broke. It may have broken inside a revision; a watcher that resumes from that one loses the rest
    /// of it.
    Cut,
}

/// One action of a watcher, or one thing that it received, in its own order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It listed, and watches from there.
    List {
        /// Of the list.
        revision: u64,
        /// In any order.
        objects: Vec<Object>,
    },
    /// It watches again from a known revision.
    Resume(u64),
    /// It was sent an event.
    Event(Kind, Object),
    /// It was sent a bookmark.
    Bookmark(u64),
    /// The stream ended.
    End(End),
}

/// What a watcher received in one epoch: it begins with a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The index of the log.
    pub epoch: usize,
    /// In order.
    pub seen: Vec<Seen>,
    /// The test waited until it must have had everything up to here.
    pub reached: Option<u64>,
}

/// The scope of a watcher: a predicate over a key and its value.
pub type Wants = dyn Fn(&str, &[u8]) -> bool;

/// A watcher and all that it received.
pub struct Watcher<'a> {
    /// As in violations.
    pub name: String,
    /// What all keys of its scope begin with.
    pub keys: String,
    /// Its scope and its selector.
    pub wants: &'a Wants,
    /// One for each epoch that it saw.
    pub segments: Vec<Segment>,
}

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The watcher.
    pub watcher: String,
    /// The epoch.
    pub epoch: usize,
    /// The rule.
    pub rule: Rule,
    /// The revision of the event, the list, the bookmark or the resume that violates it.
    pub revision: u64,
    /// A description.
    pub says: String,
}

/// Every violation, watcher by watcher.
///
/// # Panics
/// When a segment has no epoch, or an impossible order: an event before a list, or after an end.
#[must_use]
pub fn check(logs: &[Log], watchers: &[Watcher<'_>]) -> Vec<Violation> {
    watchers.iter().flat_map(|watcher| rules::judge(logs, watcher)).collect()
}

/// Fails with a line for each violation.
///
/// # Panics
/// When there is one.
#[track_caller]
pub fn none(violations: &[Violation]) {
    const SHOWN: usize = 20;
    let lines: Vec<String> = violations.iter().take(SHOWN).map(Violation::to_string).collect();
    let more = match violations.len().saturating_sub(SHOWN) {
        0 => String::new(),
        count => format!("\nand {count} more"),
    };
    assert!(violations.is_empty(), "{} violations:\n{}{more}", violations.len(), lines.join("\n"));
}

impl Kind {
    /// As on the wire.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

impl fmt::Debug for Watcher<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Watcher")
            .field("name", &self.name)
            .field("segments", &self.segments)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { watcher, epoch, rule, revision, says } = self;
        write!(out, "watcher {watcher}, epoch {epoch}, revision {revision}: not {rule:?}: {says}")
    }
}
