//! Messages of one kind, as a store holds them: what selectors see of them, and their JSON.
//!
//! Owns the way from a selectable field's members to the numbers on the wire. A message is walked once when it is read, so
//! that what was accepted can always be shown; labels and fields are then taken from the wire without decoding it.

use std::borrow::Cow;

use revcast_engine::attributes::AttributeTexts;
use revcast_engine::codec::protobuf::wire::{Reader, WireValue};
use revcast_engine::message_type::MessageType;
use revcast_engine::resource::Field;

use super::ProtobufError;
use super::completed::FieldDefault;
use super::sink::{Nowhere, Sink};
use super::text::replaced;
use super::to_json::{Strictness, Writer};
use super::types::{Count, MessageId, Release, Shape, Types};

/// `ObjectMeta` in every object, and the labels in it.
const METADATA: u32 = 1;
const LABELS: u32 = 11;

/// The messages of a kind.
#[derive(Debug)]
pub struct StoredType {
    types: &'static Types,
    id: MessageId,
    fields: Vec<Selectable>,
    /// What is filled in.
    defaults: Vec<FieldDefault>,
}

/// A selectable field.
#[derive(Debug)]
struct Selectable {
    at: Option<Path>,
    otherwise: Option<Path>,
    absent: String,
}

/// The way to a value on the wire.
#[derive(Debug)]
struct Path {
    numbers: Vec<u32>,
    shape: Shape,
    zero: Zero,
}

/// What zero, and a number that was not sent, stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Zero {
    /// Both for no value: it is left out of JSON.
    Absent,
    /// Both for zero: it is always written.
    Always,
    /// For what they are: a pointer.
    AsSent,
}

impl StoredType {
    /// The messages of a kind in a release, with these selectable fields; `None`: they are not known, or have no `ObjectMeta`.
    #[must_use]
    pub fn new(release: Release, api_version: &str, kind: &str, fields: &[Field]) -> Option<Self> {
        let types = release.types();
        let id = types.kind(api_version, kind)?;
        let metadata = types.named("meta/v1.ObjectMeta").map(Shape::Message);
        let first = types.message(id).fields.iter().find(|field| field.number == METADATA)?;
        if Some(first.shape) != metadata {
            return None;
        }
        let path = |members: &[String]| Path::of(types, id, members);
        let fields = fields.iter().map(|field| Selectable {
            at: path(&field.path),
            otherwise: path(&field.otherwise),
            absent: field.absent.clone(),
        });
        let defaults = FieldDefault::of(types, id, api_version, kind);
        Some(Self { types, id, fields: fields.collect(), defaults })
    }

    /// The type's place in the tables.
    #[cfg(test)]
    pub(super) const fn message(&self) -> (&'static Types, MessageId) {
        (self.types, self.id)
    }

    fn write(
        &self,
        out: &mut impl Sink,
        strictness: Strictness,
        message: &[u8],
    ) -> Result<(), ProtobufError> {
        Writer::new(out, self.types, strictness).members(message, self.id)
    }
}

impl MessageType for StoredType {
    fn read<'a>(&'a self, message: &'a [u8]) -> Result<AttributeTexts<'a>, String> {
        self.write(&mut Nowhere, Strictness::Stored, message).map_err(|error| match error {
            ProtobufError::Malformed { why, at } if at.is_empty() => why.to_owned(),
            ProtobufError::Malformed { why, at } => format!("{why}, at {at}"),
            other @ (ProtobufError::UnknownType { .. } | ProtobufError::UnknownField { .. }) => {
                other.to_string()
            }
        })?;
        let fields = self.fields.iter().map(|field| {
            let found =
                [&field.at, &field.otherwise].into_iter().flatten().find_map(|path| path.value(message));
            found.unwrap_or_else(|| field.absent.as_str().into())
        });
        let fields = fields.collect();
        Ok(AttributeTexts::new(labels(message), fields))
    }

    fn completed(&self, message: &[u8]) -> Option<Vec<u8>> {
        self.defaults.iter().fold(None, |made: Option<Vec<u8>>, default| {
            default.fill(made.as_deref().unwrap_or(message)).or(made)
        })
    }

    fn push_members(&self, out: &mut Vec<u8>, message: &[u8]) {
        let start = out.len();
        if self.write(out, Strictness::Known, message).is_err() {
            // It was read before: nothing in it is an error.
            out.truncate(start);
        }
    }
}

impl Path {
    fn of(types: &Types, top: MessageId, members: &[String]) -> Option<Self> {
        let (last, before) = members.split_last()?;
        let (mut numbers, mut id) = (Vec::new(), top);
        for member in before {
            let Shape::Message(inner) = step(types, id, member, &mut numbers)?.0 else { return None };
            id = inner;
        }
        let (shape, count, omit) = step(types, id, last, &mut numbers)?;
        let scalar = matches!(shape, Shape::Text | Shape::Bool | Shape::Int);
        let single = matches!(count, Count::Value | Count::Pointer);
        let zero = match (count, omit) {
            (Count::Value, true) => Zero::Absent,
            (Count::Value, false) => Zero::Always,
            (Count::Pointer | Count::List | Count::Map, _) => Zero::AsSent,
        };
        (scalar && single).then_some(Self { numbers, shape, zero })
    }

    /// The value as a selector compares it; `None`: there is none, or it is empty.
    fn value<'m>(&self, message: &'m [u8]) -> Option<Cow<'m, str>> {
        let (last, before) = self.numbers.split_last()?;
        let mut at = message;
        for number in before {
            let WireValue::Bytes(inner) = field(at, *number)? else { return None };
            at = inner;
        }
        let found = match field(at, *last) {
            // What is always written may be missing in an old object: it is zero.
            None if self.zero == Zero::Always && self.shape != Shape::Text => WireValue::Varint(0),
            found => found?,
        };
        match (found, self.shape) {
            (WireValue::Bytes(text), Shape::Text) => (!text.is_empty()).then(|| replaced(text)),
            (WireValue::Varint(0), _) if self.zero == Zero::Absent => None,
            (WireValue::Varint(value), Shape::Bool) => Some(if value == 0 { "false" } else { "true" }.into()),
            (WireValue::Varint(value), _) => Some(value.cast_signed().to_string().into()),
            (WireValue::Bytes(_) | WireValue::Fixed64(_), _) => None,
        }
    }
}

/// The member of a message, which may stand in a message whose members are its own; adds the numbers that lead there.
fn step(types: &Types, id: MessageId, member: &str, numbers: &mut Vec<u32>) -> Option<(Shape, Count, bool)> {
    let fields = &types.message(id).fields;
    if let Some(field) = fields.iter().find(|field| field.name == member) {
        numbers.push(field.number);
        return Some((field.shape, field.count, field.omit));
    }
    fields.iter().filter(|field| field.name.is_empty()).find_map(|field| {
        let Shape::Message(inner) = field.shape else { return None };
        numbers.push(field.number);
        let found = step(types, inner, member, numbers);
        if found.is_none() {
            numbers.pop();
        }
        found
    })
}

/// The last value of a field.
fn field(message: &[u8], number: u32) -> Option<WireValue<'_>> {
    let (mut reader, mut found) = (Reader::new(message), None);
    while let Ok(Some((other, wire))) = reader.next() {
        if other == number {
            found = Some(wire);
        }
    }
    found
}

fn labels(message: &[u8]) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
    let Some(WireValue::Bytes(metadata)) = field(message, METADATA) else { return Vec::new() };
    let mut labels = Vec::new();
    let mut reader = Reader::new(metadata);
    while let Ok(Some((number, wire))) = reader.next() {
        let (LABELS, WireValue::Bytes(entry)) = (number, wire) else { continue };
        let text = |number| match field(entry, number) {
            Some(WireValue::Bytes(text)) => replaced(text),
            Some(WireValue::Varint(_) | WireValue::Fixed64(_)) | None => "".into(),
        };
        labels.push((text(1), text(2)));
    }
    labels
}
