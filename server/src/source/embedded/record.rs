//! The bytes on disk: how an object is named there, and the records of objects and of revisions.
//!
//! Owns the encoding and the table of resource names. Never accesses a file. The input may be damaged: every length is checked
//! and every fault is a value. Integers are little-endian.
//!
//! ```text
//! key       resource name, NUL, path
//! object    version u8, flags u8 (1: leased), revision u64, namespace length u16, [expiry u64], value
//! revision  version u8, changes u16, then for each change:
//!           flags u8 (1: leased, 2: put), namespace length u16, key length u32, key,
//!           [put: [leased: expiry u64], value length u32, value]
//! ```

use std::collections::HashMap;
use std::fmt;

use revcast_engine::key::{Key, ResourceId};
use revcast_engine::revision::Revision;

use crate::source::WallTime;

const VERSION: u8 = 1;
const LEASED: u8 = 1;
const PUT: u8 = 2;
/// A resource's name: `group/version/plural`, each part at most 253 bytes.
const NAME_BYTES_MAX: usize = 1024;

/// The fault of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordError {
    Truncated,
    TrailingBytes,
    Version(u8),
    Flags(u8),
    KeyWithoutResource,
    KeyNotUtf8,
    NamespaceLength,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("record ends too early"),
            Self::TrailingBytes => f.write_str("record has bytes after its end"),
            Self::Version(found) => write!(f, "record has version {found}, this revcast knows {VERSION}"),
            Self::Flags(found) => write!(f, "record has unknown flags {found:#04x}"),
            Self::KeyWithoutResource => f.write_str("key names no resource"),
            Self::KeyNotUtf8 => f.write_str("key is not UTF-8"),
            Self::NamespaceLength => f.write_str("key has no namespace where its record says"),
        }
    }
}

/// The stable names of the rows of the schema: rows may move between two starts, names do not.
#[derive(Debug)]
pub(super) struct Names {
    by_row: Vec<Box<str>>,
    rows: HashMap<Box<str>, ResourceId>,
}

/// The key that bytes on disk refer to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Named<'a> {
    Declared(Key),
    /// Its resource is not declared now.
    Undeclared {
        resource: &'a str,
    },
}

impl Names {
    /// Names in row order.
    ///
    /// # Errors
    /// Reports a name that is empty, too long, repeated or has a NUL, or that there are too many.
    pub(super) fn new(names: &[String]) -> Result<Self, String> {
        let mut rows = HashMap::with_capacity(names.len());
        for (row, name) in names.iter().enumerate() {
            let row = u16::try_from(row).map_err(|_| format!("{} resources are too many", names.len()))?;
            if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
                return Err(format!("resource name {name:?} is empty, too long or has a NUL"));
            }
            if rows.insert(name.as_str().into(), ResourceId::new(row)).is_some() {
                return Err(format!("resource name {name:?} is there twice"));
            }
        }
        Ok(Self { by_row: names.iter().map(|name| name.as_str().into()).collect(), rows })
    }

    /// How many resources are declared.
    pub(super) fn len(&self) -> usize {
        self.by_row.len()
    }

    /// The key for `bytes`, whose namespace takes the first `namespace_len` bytes of the path.
    pub(super) fn key<'a>(&self, bytes: &'a [u8], namespace_len: u16) -> Result<Named<'a>, RecordError> {
        let text = std::str::from_utf8(bytes).map_err(|_| RecordError::KeyNotUtf8)?;
        let (resource, path) = text.split_once('\0').ok_or(RecordError::KeyWithoutResource)?;
        let (namespace, name) = match usize::from(namespace_len) {
            0 => (None, path),
            len => {
                let (namespace, rest) = path.split_at_checked(len).ok_or(RecordError::NamespaceLength)?;
                (Some(namespace), rest.strip_prefix('/').ok_or(RecordError::NamespaceLength)?)
            }
        };
        Ok(match self.rows.get(resource) {
            Some(id) => Named::Declared(Key::new(*id, namespace, name)),
            None => Named::Undeclared { resource },
        })
    }

    fn write_key(&self, out: &mut Vec<u8>, key: &Key) {
        out.extend_from_slice(self.by_row[key.resource().row()].as_bytes());
        out.push(0);
        out.extend_from_slice(key.path().as_bytes());
    }
}

/// A value and its lease, in a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State<'a> {
    pub(super) expires: Option<WallTime>,
    pub(super) value: &'a [u8],
}

/// One object of the checkpoint, without its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Object<'a> {
    pub(super) modified: Revision,
    pub(super) namespace_len: u16,
    pub(super) state: State<'a>,
}

/// One change of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change<'a> {
    pub(super) key: &'a [u8],
    pub(super) namespace_len: u16,
    /// `None`: deleted.
    pub(super) state: Option<State<'a>>,
}

/// Begins the record of a revision; `changes` calls of [`write_change`] must follow.
pub(super) fn write_revision(out: &mut Vec<u8>, changes: usize) {
    out.push(VERSION);
    write_u16(out, changes);
}

/// Adds one change to the revision that was begun.
pub(super) fn write_change(out: &mut Vec<u8>, names: &Names, key: &Key, state: Option<State<'_>>) {
    out.push(match state {
        None => 0,
        Some(State { expires: None, .. }) => PUT,
        Some(State { expires: Some(_), .. }) => PUT | LEASED,
    });
    write_u16(out, key.namespace().map_or(0, str::len));
    let length_at = out.len();
    write_u32(out, 0);
    names.write_key(out, key);
    let key_len = u32::try_from(out.len() - length_at - 4).expect("a key is limited to a few KiB");
    out[length_at..length_at + 4].copy_from_slice(&key_len.to_le_bytes());
    if let Some(State { expires, value }) = state {
        write_expiry(out, expires);
        write_u32(out, value.len());
        out.extend_from_slice(value);
    }
}

/// The changes of one revision.
pub(super) fn read_revision(bytes: &[u8]) -> Result<Vec<Change<'_>>, RecordError> {
    let mut rest = Reader(bytes);
    rest.version()?;
    let count = rest.u16()?;
    let mut changes = Vec::new();
    for _ in 0..count {
        let flags = rest.flags(LEASED | PUT)?;
        let namespace_len = rest.u16()?;
        let key_len = rest.u32()?;
        let key = rest.take(key_len)?;
        let state = match flags & PUT {
            0 if flags == 0 => None,
            0 => return Err(RecordError::Flags(flags)),
            _ => {
                let expires = rest.expiry(flags)?;
                let value_len = rest.u32()?;
                Some(State { expires, value: rest.take(value_len)? })
            }
        };
        changes.push(Change { key, namespace_len, state });
    }
    if rest.0.is_empty() { Ok(changes) } else { Err(RecordError::TrailingBytes) }
}

/// The record of an object in the checkpoint.
pub(super) fn write_object(out: &mut Vec<u8>, object: &Object<'_>) {
    out.push(VERSION);
    out.push(if object.state.expires.is_some() { LEASED } else { 0 });
    out.extend_from_slice(&object.modified.get().to_le_bytes());
    out.extend_from_slice(&object.namespace_len.to_le_bytes());
    write_expiry(out, object.state.expires);
    out.extend_from_slice(object.state.value);
}

/// The object of a checkpoint's record.
pub(super) fn read_object(bytes: &[u8]) -> Result<Object<'_>, RecordError> {
    let mut rest = Reader(bytes);
    rest.version()?;
    let flags = rest.flags(LEASED)?;
    let modified = Revision::new(rest.u64()?);
    let namespace_len = rest.u16()?;
    let expires = rest.expiry(flags)?;
    Ok(Object { modified, namespace_len, state: State { expires, value: rest.0 } })
}

fn write_u16(out: &mut Vec<u8>, n: usize) {
    out.extend_from_slice(&u16::try_from(n).expect("counts and names are limited at the edge").to_le_bytes());
}

fn write_u32(out: &mut Vec<u8>, n: usize) {
    out.extend_from_slice(&u32::try_from(n).expect("keys and values are limited by apply").to_le_bytes());
}

fn write_expiry(out: &mut Vec<u8>, expires: Option<WallTime>) {
    if let Some(at) = expires {
        out.extend_from_slice(&at.as_millis().to_le_bytes());
    }
}

/// What is left of a record.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        let (head, rest) = self.0.split_first_chunk().ok_or(RecordError::Truncated)?;
        self.0 = rest;
        Ok(*head)
    }

    fn take(&mut self, n: u32) -> Result<&'a [u8], RecordError> {
        let (head, rest) = self.0.split_at_checked(n as usize).ok_or(RecordError::Truncated)?;
        self.0 = rest;
        Ok(head)
    }

    fn u16(&mut self) -> Result<u16, RecordError> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, RecordError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, RecordError> {
        self.array().map(u64::from_le_bytes)
    }

    fn version(&mut self) -> Result<(), RecordError> {
        let [found] = self.array()?;
        if found == VERSION { Ok(()) } else { Err(RecordError::Version(found)) }
    }

    fn flags(&mut self, known: u8) -> Result<u8, RecordError> {
        let [found] = self.array()?;
        if found & !known == 0 { Ok(found) } else { Err(RecordError::Flags(found)) }
    }

    fn expiry(&mut self, flags: u8) -> Result<Option<WallTime>, RecordError> {
        if flags & LEASED == 0 { Ok(None) } else { self.u64().map(|ms| Some(WallTime::from_millis(ms))) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names::new(&["v1/configmaps".to_owned(), "v1/nodes".to_owned()]).unwrap()
    }

    fn sample() -> Vec<u8> {
        let names = names();
        let mut out = Vec::new();
        write_revision(&mut out, 3);
        let leased = State { expires: Some(WallTime::from_millis(77)), value: b"{\"a\":1}" };
        write_change(&mut out, &names, &Key::new(ResourceId::new(0), Some("default"), "a"), Some(leased));
        write_change(&mut out, &names, &Key::new(ResourceId::new(1), None, "node/with/slashes"), None);
        let plain = State { expires: None, value: b"" };
        write_change(&mut out, &names, &Key::new(ResourceId::new(0), Some("ns"), "b"), Some(plain));
        out
    }

    #[test]
    fn a_revision_comes_back_as_it_was_written() {
        let bytes = sample();
        let changes = read_revision(&bytes).unwrap();
        let keys: Vec<_> =
            changes.iter().map(|change| names().key(change.key, change.namespace_len).unwrap()).collect();
        assert_eq!(
            keys,
            [
                Named::Declared(Key::new(ResourceId::new(0), Some("default"), "a")),
                Named::Declared(Key::new(ResourceId::new(1), None, "node/with/slashes")),
                Named::Declared(Key::new(ResourceId::new(0), Some("ns"), "b")),
            ]
        );
        let Named::Declared(first) = &keys[0] else { panic!("declared") };
        assert_eq!((first.namespace(), first.name()), (Some("default"), "a"));
        assert_eq!(changes[0].state.unwrap().expires, Some(WallTime::from_millis(77)));
        assert_eq!(changes[0].state.unwrap().value, b"{\"a\":1}");
        assert_eq!(changes[1].state, None);
        assert_eq!(changes[2].state, Some(State { expires: None, value: b"" }));
    }

    #[test]
    fn an_object_comes_back_as_it_was_written() {
        for expires in [None, Some(WallTime::from_millis(u64::MAX))] {
            let object = Object {
                modified: Revision::new(9),
                namespace_len: 7,
                state: State { expires, value: b"{}" },
            };
            let mut bytes = Vec::new();
            write_object(&mut bytes, &object);
            assert_eq!(read_object(&bytes), Ok(object));
        }
    }

    #[test]
    fn rows_may_move_and_an_undeclared_name_is_told() {
        let moved = Names::new(&["v1/nodes".to_owned()]).unwrap();
        let bytes = sample();
        let changes = read_revision(&bytes).unwrap();
        assert_eq!(
            moved.key(changes[0].key, changes[0].namespace_len),
            Ok(Named::Undeclared { resource: "v1/configmaps" })
        );
        let Ok(Named::Declared(key)) = moved.key(changes[1].key, 0) else { panic!("declared") };
        assert_eq!((key.resource().row(), key.path()), (0, "node/with/slashes"));
    }

    #[test]
    fn every_truncation_is_an_error() {
        let bytes = sample();
        for end in 0..bytes.len() {
            assert_eq!(read_revision(&bytes[..end]), Err(RecordError::Truncated), "cut at {end}");
        }
        let mut longer = bytes;
        longer.push(0);
        assert_eq!(read_revision(&longer), Err(RecordError::TrailingBytes));
        assert_eq!(read_object(&[VERSION, LEASED, 0, 0]), Err(RecordError::Truncated));
        assert_eq!(read_object(&[VERSION + 1]), Err(RecordError::Version(VERSION + 1)));
        assert_eq!(read_object(&[VERSION, 8]), Err(RecordError::Flags(8)));
    }

    #[test]
    fn bad_keys_are_errors() {
        let names = names();
        assert_eq!(names.key(b"v1/nodes", 0), Err(RecordError::KeyWithoutResource));
        assert_eq!(names.key(b"v1/nodes\0\xff", 0), Err(RecordError::KeyNotUtf8));
        assert_eq!(names.key(b"v1/nodes\0ab", 9), Err(RecordError::NamespaceLength));
        assert_eq!(names.key(b"v1/nodes\0abc", 2), Err(RecordError::NamespaceLength));
        assert_eq!(names.key("v1/nodes\0é/x".as_bytes(), 1), Err(RecordError::NamespaceLength));
    }

    #[test]
    fn random_bytes_never_panic() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        let names = names();
        let good = sample();
        let mut accepted = 0;
        for round in 0..200_000_u32 {
            // Half of the rounds damage a valid record, so that the deep parts are reached.
            let bytes: Vec<u8> = if round % 2 == 0 {
                (0..random() % 64).map(|_| random().to_le_bytes()[0]).collect()
            } else {
                let mut bytes = good.clone();
                for _ in 0..1 + random() % 3 {
                    let at = usize::try_from(random() % bytes.len() as u64).unwrap();
                    bytes[at] = random().to_le_bytes()[0];
                }
                bytes
            };
            if let Ok(changes) = read_revision(&bytes) {
                for change in changes {
                    accepted += u32::from(names.key(change.key, change.namespace_len).is_ok());
                }
            }
            if let Ok(object) = read_object(&bytes) {
                let mut again = Vec::new();
                write_object(&mut again, &object);
                assert_eq!(again, bytes);
            }
        }
        assert!(accepted > 0, "no damaged record was deep enough");
    }

    #[test]
    fn bad_tables_of_names_are_refused() {
        for bad in [vec![String::new()], vec!["a\0b".to_owned()], vec!["a".to_owned(), "a".to_owned()]] {
            assert!(Names::new(&bad).is_err(), "{bad:?}");
        }
        assert!(Names::new(&["x".repeat(NAME_BYTES_MAX + 1)]).is_err());
    }
}
