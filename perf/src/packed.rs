//! What a check needs of one watch event in protobuf: a WatchEvent that wraps an object in its envelope (`k8s\0` and
//! runtime.Unknown). The same as [`Event::read`] takes from JSON.

use crate::event::{Event, kind_of};
use crate::stamp::{Stamp, decimal};

const MAGIC: &[u8] = b"k8s\0";

mod field {
    /// Of WatchEvent, which holds a RawExtension.
    pub(super) const TYPE: u64 = 1;
    pub(super) const OBJECT: u64 = 2;
    /// Of RawExtension, and of runtime.Unknown.
    pub(super) const EXTENSION_RAW: u64 = 1;
    pub(super) const UNKNOWN_RAW: u64 = 2;
    /// Of an object. In a ConfigMap or a Secret, 2 is `data`.
    pub(super) const METADATA: u64 = 1;
    pub(super) const DATA: u64 = 2;
    /// Of ObjectMeta.
    pub(super) const RESOURCE_VERSION: u64 = 6;
    pub(super) const ANNOTATIONS: u64 = 12;
    pub(super) const KEY: u64 = 1;
    pub(super) const VALUE: u64 = 2;
}

pub(crate) fn read(frame: &[u8]) -> Option<Event> {
    let (mut kind, mut extension) = (None, None);
    each_field(frame, |number, bytes| match number {
        field::TYPE => kind = kind_of(bytes),
        field::OBJECT => extension = Some(bytes),
        _ => {}
    })?;
    let object = only(extension?, field::EXTENSION_RAW)?.strip_prefix(MAGIC)?;
    let (mut metadata, mut stamp) = (None, None);
    each_field(only(object, field::UNKNOWN_RAW)?, |number, bytes| match number {
        field::METADATA => metadata = Some(bytes),
        field::DATA => stamp = stamp.or_else(|| stamp_of(bytes)),
        _ => {}
    })?;
    let mut revision = None;
    each_field(metadata?, |number, bytes| match number {
        field::RESOURCE_VERSION if !bytes.is_empty() => revision = Some(decimal(bytes)),
        field::ANNOTATIONS => stamp = stamp.or_else(|| stamp_of(bytes)),
        _ => {}
    })?;
    let revision = match revision {
        Some(number) => Some(number?),
        None => None,
    };
    Some(Event { kind: kind?, revision, stamp })
}

/// The stamp in an entry of a map, if its key is `stamp`.
fn stamp_of(entry: &[u8]) -> Option<Stamp> {
    (only(entry, field::KEY)? == b"stamp").then_some(())?;
    Stamp::parse(only(entry, field::VALUE)?)
}

fn only(message: &[u8], wanted: u64) -> Option<&[u8]> {
    let mut found = None;
    each_field(message, |number, bytes| {
        if number == wanted {
            found = Some(bytes);
        }
    })?;
    found
}

/// Calls `on_field` with each field that has bytes; numbers are skipped. `None`: this is no message.
fn each_field<'a>(mut message: &'a [u8], mut on_field: impl FnMut(u64, &'a [u8])) -> Option<()> {
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        match tag & 7 {
            0 => _ = varint(&mut message)?,
            1 => message = message.get(8..)?,
            2 => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                let (bytes, rest) = message.split_at_checked(length)?;
                message = rest;
                on_field(tag >> 3, bytes);
            }
            5 => message = message.get(4..)?,
            _ => return None,
        }
    }
    Some(())
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::event::Kind;
    use crate::stamp::STAMP_BYTES;

    fn of(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut length = bytes.len();
        let mut field = vec![number << 3 | 2];
        while length >= 0x80 {
            field.push(u8::try_from(length & 0x7f).unwrap_or(0) | 0x80);
            length >>= 7;
        }
        field.push(u8::try_from(length).unwrap_or(0));
        [&field, bytes].concat()
    }

    fn wrap(kind: &str, object: &[u8]) -> Vec<u8> {
        let meta = of(1, &[of(1, b"v1"), of(2, b"ConfigMap")].concat());
        let unknown = [MAGIC, &meta, &of(2, object), &of(3, b""), &of(4, b"")].concat();
        [of(1, kind.as_bytes()), of(2, &of(1, &unknown))].concat()
    }

    fn metadata(revision: &str, more: &[u8]) -> Vec<u8> {
        let fields = [&of(1, b"x")[..], &of(6, revision.as_bytes()), &[7 << 3, 0x96, 1], more];
        of(1, &fields.concat())
    }

    /// The event of an object that has `stamp` in its data.
    pub(crate) fn frame(kind: &str, revision: u64, stamp: Stamp) -> Vec<u8> {
        let mut text = [0; STAMP_BYTES];
        stamp.write(&mut text);
        let entry = |key: &[u8], value: &[u8]| of(2, &[of(1, key), of(2, value)].concat());
        let object =
            [metadata(&revision.to_string(), b""), entry(b"pad", &[b'x'; 200]), entry(b"stamp", &text)];
        wrap(kind, &object.concat())
    }

    #[test]
    fn events_and_what_is_none() {
        let stamp = Stamp { run: 1, object: 2, seq: 3, intended_ns: 4 };
        let whole = frame("MODIFIED", 77, stamp);
        let found = Event { kind: Kind::Modified, revision: Some(77), stamp: Some(stamp) };
        assert_eq!(read(&whole), Some(found));
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end]), None, "cut at {end}");
        }
        let mut text = [0; STAMP_BYTES];
        stamp.write(&mut text);
        let annotation = of(12, &[of(1, b"stamp"), of(2, &text)].concat());
        let pod = wrap("ADDED", &[metadata("5", &annotation), of(2, &of(1, b"volume"))].concat());
        assert_eq!(read(&pod), Some(Event { kind: Kind::Added, revision: Some(5), ..found }));
        let status = [of(1, b""), of(2, b"Failure"), of(4, b"Expired"), vec![6 << 3, 0x9a, 3]].concat();
        let error = Event { kind: Kind::Error, revision: None, stamp: None };
        assert_eq!(read(&wrap("ERROR", &status)), Some(error));
        for bad in [wrap("OTHER", &metadata("1", b"")), wrap("ADDED", &metadata("1x", b"")), b"{}".to_vec()] {
            assert_eq!(read(&bad), None);
        }
    }
}
