//! Where changes come from, and the words in which a write is asked for.
//!
//! Owns the types of a write and its answers, shared by every source. Never decodes an object, never waits and reads
//! no clock: wall time is an argument, because a lease must outlive the process that granted it.

pub mod command_queue;
mod driver;
pub mod embedded;
pub mod engine;
pub mod epoch;
pub mod etcd;
mod feeder;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use revcast_engine::key::Key;
use revcast_engine::revision::Revision;

/// Operations in one transaction: etcd's own default (`--max-txn-ops`).
pub const TXN_OPS_MAX: usize = 128;
/// Bytes of one key's path. Kubernetes allows 253 for a name and 63 for a namespace; names in use stay below 600.
pub const KEY_BYTES_MAX: usize = 4 << 10;
/// Bytes of one value. The edge limits a request body far below this (etcd: 1.5 MiB).
pub const VALUE_BYTES_MAX: usize = 16 << 20;

// What is written with a 16- or 32-bit length must fit one.
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
    /// 1 to [`TXN_OPS_MAX`]; a key stands here at most once.
    pub ops: Vec<Op>,
}

impl Txn {
    /// A transaction of one write.
    #[must_use]
    pub fn one(key: Key, expect: Expect, action: Action) -> Self {
        Self { ops: vec![Op { key, expect, action }] }
    }
}

/// What to do with one key, and what must be true of it before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// Which object.
    pub key: Key,
    /// Checked, for every operation of the transaction, before anything changes.
    pub expect: Expect,
    /// What to do.
    pub action: Action,
}

/// What a write requires of the object it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Any,
    /// The key has no value: a create.
    Absent,
    /// The key has a value, whichever.
    Exists,
    /// The key's value was written by exactly this revision: an optimistic update. Of an absent key it is never true.
    At(Revision),
}

/// What a write does to its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Gives the key a value.
    Put {
        /// The object as JSON.
        value: Bytes,
        /// After this time the key is deleted. `None`: never, also when the value before had a lease.
        ttl: Option<Duration>,
    },
    /// Takes the key's value away; there must be one.
    Delete,
}

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
    /// The first operation whose expectation did not hold.
    Conflict {
        /// Which operation.
        op: usize,
        /// The revision that wrote what is there; `None`: nothing is there.
        found: Option<Revision>,
    },
    /// A delete found its expectation true and nothing to delete.
    NotFound {
        /// Which operation.
        op: usize,
    },
    /// The store cannot write.
    Storage(StorageError),
    /// The source did not make it, or does not say whether it did.
    Source(SourceError),
}

/// Why a source elsewhere did not do what it was asked. Cheap to clone: every request that waits gets one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceError {
    /// What kind of failure it is.
    pub fault: Fault,
    /// What went wrong, and how to mend it, on one line.
    pub detail: String,
}

/// The kinds of failure that a client is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It surely did nothing; it may later.
    Unavailable,
    /// It may have done it, or not.
    Unknown,
    /// It has no room for more.
    Full,
    /// The request is larger than it takes.
    TooLarge,
    /// This server may not ask that of it.
    Denied,
    /// It does not understand, or answers nonsense.
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

/// The disk, not the caller, is at fault. Cheap enough to give to every writer of a failed group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageError {
    path: PathBuf,
    detail: String,
    full: bool,
}

impl StorageError {
    /// What went wrong with the file at `path`.
    #[must_use]
    pub fn new(path: &Path, detail: impl fmt::Display) -> Self {
        Self { path: path.to_owned(), detail: detail.to_string(), full: false }
    }

    /// There is no room for the file at `path` to grow: nothing was written, and the store goes on once there is.
    #[must_use]
    pub fn full(path: &Path, detail: impl fmt::Display) -> Self {
        Self { full: true, ..Self::new(path, detail) }
    }

    /// Whether the store has no room, and will have when some is made.
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
            "the store {} failed: {}; mend the disk (free space, permissions, hardware) and restart, no acknowledged \
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
