//! Sources of changes, and the types of writes.
//!
//! Owns the types of a write and its answers, shared by every source. Never decodes an object, never waits and reads no clock:
//! wall time is an argument, because a lease must outlive the process that granted it.

pub mod command_queue;
mod driver;
pub mod embedded;
pub mod engine;
pub mod epoch;
pub mod etcd;
mod feeder;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use revcast_engine::codec::Reading;
use revcast_engine::key::Key;
use revcast_engine::revision::Revision;

/// Operations in one transaction: etcd's own default (`--max-txn-ops`).
pub const TXN_OPS_MAX: usize = 128;
/// Bytes of one key's path. Kubernetes allows 253 for a name and 63 for a namespace; names in use stay below 600.
pub const KEY_BYTES_MAX: usize = 4 << 10;
/// Bytes of one value. The server limits a request body far below this (etcd: 1.5 MiB).
pub const VALUE_BYTES_MAX: usize = 16 << 20;

// Values that are stored with a 16- or 32-bit length must fit.
const _: () = assert!(TXN_OPS_MAX <= u16::MAX as usize);
const _: () = assert!(KEY_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(VALUE_BYTES_MAX <= u32::MAX as usize);

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(u64);

impl WallTime {
    /// The moment `ms` milliseconds after 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The moment `delay` later, rounded up to a millisecond: a lease never ends early. Saturates.
    #[must_use]
    pub fn plus(self, delay: Duration) -> Self {
        let ms = u64::try_from(delay.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(ms))
    }
}

/// Writes that happen together, in one revision, or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Txn {
    /// 1 to [`TXN_OPS_MAX`] operations; no key twice.
    pub ops: Vec<Op>,
}

impl Txn {
    /// A transaction of one write.
    #[must_use]
    pub fn one(key: Key, expect: Expect, action: Action) -> Self {
        Self { ops: vec![Op { key, expect, action }] }
    }

    /// What was read of the values that it writes, for [`Publisher::handle_batch_with`](revcast_engine::Publisher::handle_batch_with).
    pub(crate) fn into_readings(self) -> Vec<Option<Arc<Reading>>> {
        let of = |action| match action {
            Action::Put { value, .. } => value.reading,
            Action::Delete => None,
        };
        self.ops.into_iter().map(|op| of(op.action)).collect()
    }
}

/// An operation on one key, and its precondition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// The object.
    pub key: Key,
    /// Checked, for every operation of the transaction, before anything changes.
    pub expect: Expect,
    /// The change.
    pub action: Action,
}

/// The precondition of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Any,
    /// The key has no value: a create.
    Absent,
    /// The key has a value.
    Exists,
    /// The key's value was written by exactly this revision: an optimistic update. False for a key without a value.
    At(Revision),
}

/// What a write does to its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Gives the key a value.
    Put {
        /// The object as it is stored: JSON, Kubernetes' protobuf, or bytes that nobody reads.
        value: NewValue,
        /// The key is deleted after this time. `None`: never, also if the previous value had a lease.
        ttl: Option<Duration>,
    },
    /// Deletes the key; it must have a value.
    Delete,
}

/// The value of a write.
#[derive(Clone, Debug)]
pub struct NewValue {
    bytes: Bytes,
    /// A source that publishes its own writes need not read it again.
    reading: Option<Arc<Reading>>,
}

impl NewValue {
    /// A value with what was read of it when it was checked, which is kept if it is of use.
    pub(crate) fn read(bytes: Bytes, reading: &Arc<Reading>) -> Self {
        Self { bytes, reading: reading.spares_a_read().then(|| Arc::clone(reading)) }
    }

    /// What is stored.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl From<Bytes> for NewValue {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, reading: None }
    }
}

impl PartialEq for NewValue {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for NewValue {}

/// Why a transaction changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxnError {
    /// The caller sent no operation.
    NoOps,
    /// The caller sent more than [`TXN_OPS_MAX`] operations.
    TooManyOps {
        /// How many.
        ops: usize,
    },
    /// The caller named one key twice.
    DuplicateKey {
        /// The second operation on the key.
        op: usize,
    },
    /// A key's path is longer than [`KEY_BYTES_MAX`].
    KeyTooLong {
        /// Which operation.
        op: usize,
        /// The path's length.
        bytes: usize,
    },
    /// A value is longer than [`VALUE_BYTES_MAX`].
    ValueTooLarge {
        /// Which operation.
        op: usize,
        /// The value's length.
        bytes: usize,
    },
    /// The first operation whose expectation failed.
    Conflict {
        /// Which operation.
        op: usize,
        /// The revision that wrote the current value; `None`: there is none.
        found: Option<Revision>,
    },
    /// The expectation of a delete held, but there was nothing to delete.
    NotFound {
        /// Which operation.
        op: usize,
    },
    /// The store cannot write.
    Storage(StorageError),
    /// The source did not make it, or it is not known whether it did.
    Source(SourceError),
}

/// Why a remote source did not execute a request. Cheap to clone: every request that waits gets one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceError {
    /// The kind of failure.
    pub fault: Fault,
    /// What failed, and how to fix it, on one line.
    pub detail: String,
}

/// The kinds of failure that clients can distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing was done; a retry may succeed.
    Unavailable,
    /// It may or may not have been done.
    Unknown,
    /// The source is full.
    Full,
    /// The request is too large for it.
    TooLarge,
    /// This server is not authorized.
    Denied,
    /// The source does not understand the request, or its answer is invalid.
    Broken,
}

impl SourceError {
    /// A failure of this kind.
    #[must_use]
    pub fn new(fault: Fault, detail: impl Into<String>) -> Self {
        Self { fault, detail: detail.into() }
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for SourceError {}

impl fmt::Display for TxnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoOps => f.write_str("the request has no operation: send at least one"),
            Self::TooManyOps { ops } => {
                write!(f, "the request has {ops} operations, at most {TXN_OPS_MAX} are allowed: split it")
            }
            Self::DuplicateKey { op } => {
                write!(
                    f,
                    "the request's operation {op} repeats the key of an earlier one: send one operation a key"
                )
            }
            Self::KeyTooLong { op, bytes } => write!(
                f,
                "the request's operation {op} has a key of {bytes} bytes, at most {KEY_BYTES_MAX} are allowed: \
                 shorten it"
            ),
            Self::ValueTooLarge { op, bytes } => write!(
                f,
                "the request's operation {op} has a value of {bytes} bytes, at most {VALUE_BYTES_MAX} are allowed: \
                 split the object"
            ),
            Self::Conflict { op, found: Some(found) } => write!(
                f,
                "the request's operation {op} lost a race: the object was last written at revision {found}; read it \
                 and try again"
            ),
            Self::Conflict { op, found: None } => {
                write!(
                    f,
                    "the request's operation {op} expects an object that does not exist: create it first"
                )
            }
            Self::NotFound { op } => {
                write!(f, "the request's operation {op} deletes an object that does not exist: nothing to do")
            }
            Self::Storage(error) => error.fmt(f),
            Self::Source(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TxnError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Storage(error) => Some(error),
            Self::Source(error) => Some(error),
            Self::NoOps
            | Self::TooManyOps { .. }
            | Self::DuplicateKey { .. }
            | Self::KeyTooLong { .. }
            | Self::ValueTooLarge { .. }
            | Self::Conflict { .. }
            | Self::NotFound { .. } => None,
        }
    }
}

/// An error of the disk, not of the caller. Cheap enough to give to every writer of a failed group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageError {
    path: PathBuf,
    detail: String,
    full: bool,
}

impl StorageError {
    /// An error of the file at `path`.
    #[must_use]
    pub fn new(path: &Path, detail: impl fmt::Display) -> Self {
        Self { path: path.to_owned(), detail: detail.to_string(), full: false }
    }

    /// There is no room for the file at `path` to grow: nothing was written, and the store continues once there is.
    #[must_use]
    pub fn full(path: &Path, detail: impl fmt::Display) -> Self {
        Self { full: true, ..Self::new(path, detail) }
    }

    /// Whether the store is full, and continues when there is room.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.full
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.full {
            return write!(
                f,
                "the store {} has no room and the write was not made: {}; free space on its disk, or raise its quota or \
                 file size limit: no restart is needed",
                self.path.display(),
                self.detail
            );
        }
        write!(
            f,
            "the store {} failed: {}; fix the disk (free space, permissions, hardware) and restart, no acknowledged \
             write is lost",
            self.path.display(),
            self.detail
        )
    }
}

impl std::error::Error for StorageError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_rounded_up_and_never_wraps() {
        let now = WallTime::from_millis(1000);
        assert_eq!(now.plus(Duration::from_nanos(1)).as_millis(), 1001);
        assert_eq!(now.plus(Duration::from_millis(5)).as_millis(), 1005);
        assert_eq!(now.plus(Duration::MAX).as_millis(), u64::MAX);
    }

    #[test]
    fn errors_are_one_line_and_say_the_mend() {
        let storage = StorageError::new(Path::new("/data/revcast.redb"), "No space left on device");
        for error in [
            TxnError::NoOps,
            TxnError::TooManyOps { ops: 129 },
            TxnError::DuplicateKey { op: 1 },
            TxnError::KeyTooLong { op: 0, bytes: 5000 },
            TxnError::ValueTooLarge { op: 0, bytes: 1 << 30 },
            TxnError::Conflict { op: 0, found: Some(Revision::new(7)) },
            TxnError::Conflict { op: 0, found: None },
            TxnError::NotFound { op: 3 },
            TxnError::Storage(storage),
            TxnError::Storage(StorageError::full(Path::new("/data/revcast.redb"), "No space left on device")),
        ] {
            let line = error.to_string();
            assert!(!line.contains('\n') && (line.contains(": ") || line.contains("; ")), "{line}");
        }
    }
}
