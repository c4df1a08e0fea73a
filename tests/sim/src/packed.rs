//! Objects in protobuf: the messages of the simulation, and an independent reading of what watches are sent of them.
//!
//! A message has the object's metadata (its name, its labels, and the place of its revision), and the parts of its JSON: the
//! members before the revision, and those after it. A message may also be made of JSON, which is then all that it has. Messages
//! are written and read here with the engine's fields, and their envelopes without them.

use std::cell::Cell;

use bytes::Bytes;
use revcast_engine::attributes::AttributeTexts;
use revcast_engine::codec::protobuf::wire::{Reader, WireValue, push_field};
use revcast_engine::message_type::{MessageType, SharedType};
use revcast_engine::resource::{Field, Resource, Schema};

use super::object::{KINDS, LABELS, Name, State};
use super::rng::Rng;

const METADATA: u32 = 1;
const BEFORE: u32 = 2;
const AFTER: u32 = 3;
/// Of each selectable field, in their order.
const FIELD: u32 = 4;
const JSON: u32 = 5;
/// A message with it cannot be read.
const SPOILED: u32 = 9;

const NAME: u32 = 1;
const VERSION: u32 = 6;
const LABEL: u32 = 11;

/// The type of all messages.
#[derive(Debug)]
pub(crate) struct Packed;

impl MessageType for Packed {
    fn read<'a>(&'a self, message: &'a [u8]) -> Result<AttributeTexts<'a>, String> {
        if !values(message, SPOILED)?.is_empty() {
            return Err("it is spoiled".to_owned());
        }
        let text = |bytes| std::str::from_utf8(bytes).map(Into::into).map_err(|e| e.to_string());
        let fields = values(message, FIELD)?.into_iter().map(text).collect::<Result<_, _>>()?;
        let mut labels = Vec::new();
        for entry in values(one(message, METADATA)?, LABEL)? {
            labels.push((text(one(entry, 1)?)?, text(one(entry, 2)?)?));
        }
        Ok(AttributeTexts::new(labels, fields))
    }

    fn push_members(&self, out: &mut Vec<u8>, message: &[u8]) {
        if !out.ends_with(b"{") {
            out.push(b',');
        }
        out.extend_from_slice(&members(message).expect("it was read"));
    }
}

/// All kinds; with values in protobuf as well if `packed`.
pub(crate) fn schema(packed: bool) -> Schema {
    let mut schema = Schema::new();
    for kind in &KINDS {
        let own = kind.fields.iter().map(|(label, _)| Field::at(label)).collect();
        let row = Resource::new(kind.version, kind.name, kind.namespaced, own).with_codec(kind.codec);
        schema.add(if packed { row.with_message(SharedType::new(Packed)) } else { row });
    }
    schema
}

/// All values of a field.
fn values(message: &[u8], number: u32) -> Result<Vec<&[u8]>, String> {
    let (mut reader, mut found) = (Reader::new(message), Vec::new());
    while let Some((other, wire)) = reader.next()? {
        let WireValue::Bytes(bytes) = wire else { return Err("a number".to_owned()) };
        if other == number {
            found.push(bytes);
        }
    }
    Ok(found)
}

/// The one value of a field.
fn one(message: &[u8], number: u32) -> Result<&[u8], String> {
    match values(message, number)?[..] {
        [only] => Ok(only),
        ref others => Err(format!("{} values of {number}", others.len())),
    }
}

fn members(message: &[u8]) -> Result<Vec<u8>, String> {
    let version = one(one(message, METADATA)?, VERSION)?;
    Ok([one(message, BEFORE)?, version, one(message, AFTER)?].concat())
}

/// An envelope as Kubernetes writes it.
fn envelope((version, kind): (&str, &str), message: &[u8]) -> Vec<u8> {
    let (mut types, mut out) = (Vec::new(), b"k8s\0".to_vec());
    push_field(&mut types, 1, version.as_bytes());
    push_field(&mut types, 2, kind.as_bytes());
    push_field(&mut out, 1, &types);
    push_field(&mut out, 2, message);
    out.extend_from_slice(b"\x1a\0\x22\0");
    out
}

/// An object in protobuf that is made of one in JSON.
pub(crate) fn of_json(types: (&str, &str), json: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    push_field(&mut message, JSON, json);
    envelope(types, &message)
}

/// The line that stands for a message of a watch in protobuf.
pub(crate) fn line(event: &[u8]) -> Result<Vec<u8>, String> {
    let (what, raw) = (one(event, 1)?, one(event, 2)?);
    let object = one(raw, 1)?;
    let unknown = object.strip_prefix(b"k8s\0").ok_or("no envelope")?;
    let (types, message) = (one(unknown, 1)?, one(unknown, 2)?);
    let text = |bytes| std::str::from_utf8(bytes).map_err(|error| error.to_string());
    let types = (text(one(types, 1)?)?, text(one(types, 2)?)?);
    if envelope(types, message) != object {
        return Err("another envelope than Kubernetes'".to_owned());
    }
    let json = match values(message, JSON)?[..] {
        [json] => json.to_vec(),
        _ => {
            let head = format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\",", types.1, types.0);
            [head.as_bytes(), &members(message)?, b"}"].concat()
        }
    };
    Ok([b"{\"type\":\"", what, b"\",\"object\":", &json, b"}"].concat())
}

/// In a world of protobuf, mostly, the same object in protobuf.
pub(crate) fn repack(
    own: Option<&mut Rng>,
    name: &Name,
    (value, state): (Bytes, State),
    exists: bool,
) -> (Bytes, State) {
    let Some(own) = own else { return (value, state) };
    if state.opaque || state.unreadable.is_some() || own.percent(30) {
        return (value, state);
    }
    let kind = &KINDS[name.kind];
    let types = format!("\"kind\":\"{}\",\"apiVersion\":\"{}\"", kind.name, kind.version);
    let text = String::from_utf8_lossy(&state.text).into_owned();
    let (before, after) = (&text[..state.version.start], &text[state.version.end..]);
    let before = &before[before.find("\"metadata\":{").expect("it has metadata")..];
    // Types that come last are among the other members; the last brace is not.
    let after = after.replacen(&format!(",{types}"), "", 1);
    let after = after.strip_suffix('}').expect("it is an object");
    let revision = state.revision.to_string();

    // The revision is empty, old, or missing, and there are fields on both sides of it.
    let message = |version: Option<&[u8]>| {
        let (mut metadata, mut message) = (Vec::new(), Vec::new());
        push_field(&mut metadata, NAME, name.name.as_bytes());
        if let Some(version) = version {
            push_field(&mut metadata, VERSION, version);
        }
        for ((key, _), label) in LABELS.iter().zip(state.labels) {
            let Some(label) = label else { continue };
            let mut entry = Vec::new();
            push_field(&mut entry, 1, key.as_bytes());
            push_field(&mut entry, 2, label.as_bytes());
            push_field(&mut metadata, LABEL, &entry);
        }
        push_field(&mut message, METADATA, &metadata);
        push_field(&mut message, BEFORE, before.as_bytes());
        push_field(&mut message, AFTER, after.as_bytes());
        let metadata_fields =
            [Some(name.name.as_str()), kind.namespaced.then_some(name.namespace.unwrap_or(""))];
        for field in metadata_fields.into_iter().flatten().chain(state.fields.iter().copied()) {
            push_field(&mut message, FIELD, field.as_bytes());
        }
        envelope((kind.version, kind.name), &message)
    };
    let stored = message(*own.pick(&[None, Some(&b""[..]), Some(b"7"), Some(b"123456789012345")]));
    let served = message(Some(revision.as_bytes()));
    let mut raw = Vec::new();
    push_field(&mut raw, 1, &served);
    let weight = |kind: &[u8]| {
        let mut event = Vec::new();
        push_field(&mut event, 1, kind);
        push_field(&mut event, 2, &raw);
        4 + event.len() as u64
    };

    let head = format!("{{{types},{before}");
    let version = head.len()..head.len() + revision.len();
    let text = format!("{head}{revision}{after}}}").into_bytes();
    let weight_added = weight(b"ADDED");
    let weight = Cell::new(if exists { weight(b"MODIFIED") } else { weight_added });
    (stored.into(), State { text, version, weight, weight_added, packed: true, ..state })
}

/// In a world of protobuf, the same unreadable value, but in protobuf where it only began as such.
pub(crate) fn respoil(packs: bool, name: &Name, (value, state): (Bytes, State)) -> (Bytes, State) {
    if !packs || !value.starts_with(b"k8s\0") {
        return (value, state);
    }
    let kind = &KINDS[name.kind];
    let mut message = Vec::new();
    push_field(&mut message, SPOILED, b"");
    let stored = envelope((kind.version, kind.name), &message);
    let text = String::from_utf8_lossy(&state.text).into_owned();
    let at = text.find("the stored value is").expect("it says why");
    let end = text.find("\",\"reason\":").expect("it has a reason");
    let why =
        "the stored value is protobuf that cannot be read (it is spoiled): store it again, or delete it";
    let text = format!("{}{why}{}", &text[..at], &text[end..]).into_bytes();
    let line = "{\"type\":\"ERROR\",\"object\":".len() + text.len() + 2;
    let weight = (format!("{line:x}").len() + 4 + line + stored.len()) as u64;
    (stored.into(), State { text, weight: Cell::new(weight), weight_added: weight, ..state })
}
