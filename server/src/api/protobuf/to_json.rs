//! From a message on the wire to the JSON that Kubernetes' Go types give.
//!
//! One scan of a message notes where each of its fields begins and ends; then the members are written in the order of the
//! Go struct. What was not sent is written as well where Go writes its zero value. It is strict: what would be lost, or what
//! Go would not have written, is an error. Any bytes give an answer, in time and memory in proportion to them, with a stack
//! of at most [`DEPTH_MAX`] levels.

use revcast_engine::codec::protobuf::wire::{Reader, WireValue};
use serde_json::value::RawValue;

use super::sink::Sink;
use super::types::{Count, FIELDS_MAX, Field, Message, MessageId, Shape, Types};
use super::{DEPTH_MAX, ProtobufError};
use crate::api::go_json;

/// Writes the members of messages into an open object.
#[derive(Debug)]
pub(super) struct Writer<'o, S> {
    out: &'o mut S,
    types: &'static Types,
    /// How many messages the current one is in.
    depth: usize,
    strictness: Strictness,
}

/// An error, at the member that is read. Those around it add themselves.
const fn malformed(why: &'static str) -> ProtobufError {
    ProtobufError::Malformed { why, at: String::new() }
}

/// What is made of messages that Kubernetes' decoders read, and its encoders do not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strictness {
    /// They are refused: nothing that a client sends is lost.
    Strict,
    /// As Kubernetes reads a store: a field that it does not know is skipped, and what is not UTF-8 is replaced, but for
    /// keys of maps.
    Stored,
    /// As stored, and read before: JSON in it is known to be valid.
    Known,
}

/// Where the values of a field are: of one value its bytes, or the halves of the number itself; of a list and a map, from
/// the first one's beginning to the last one's end.
type Span = (u32, u32);

/// What a message has.
#[derive(Debug)]
struct Found<'a> {
    bytes: &'a [u8],
    /// A bit for the place of each field that was sent, of each that has one value, which is a number, and of each of those
    /// with a fraction.
    sent: u64,
    numbers: u64,
    fractions: u64,
    /// By place.
    spans: [Span; FIELDS_MAX],
}

impl<'a> Found<'a> {
    /// Notes a value, which with its tag is at `around`. False: there is one already, and there may be no more.
    fn note(&mut self, place: usize, repeats: bool, around: (usize, usize), wire: WireValue<'a>) -> bool {
        // The whole message is as short.
        let short = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let (before, bit) = (self.sent, 1 << place);
        self.sent |= bit;
        let span = &mut self.spans[place];
        match wire {
            _ if repeats && before & bit != 0 => span.1 = short(around.1),
            _ if repeats => *span = (short(around.0), short(around.1)),
            _ if before & bit != 0 => return false,
            WireValue::Bytes(bytes) => *span = (short(around.1 - bytes.len()), short(around.1)),
            WireValue::Varint(number) | WireValue::Fixed64(number) => {
                self.numbers |= bit;
                self.fractions |= if matches!(wire, WireValue::Fixed64(_)) { bit } else { 0 };
                *span = ((number >> 32) as u32, (number & 0xffff_ffff) as u32);
            }
        }
        true
    }

    /// The value of a field that has one; `None`: it was not sent.
    fn value(&self, place: usize) -> Option<WireValue<'a>> {
        let (begin, end) = self.spans[place];
        if self.numbers >> place & 1 == 1 {
            let number = u64::from(begin) << 32 | u64::from(end);
            let fraction = self.fractions >> place & 1 == 1;
            return Some(if fraction { WireValue::Fixed64(number) } else { WireValue::Varint(number) });
        }
        (self.sent >> place & 1 == 1).then(|| WireValue::Bytes(&self.bytes[begin as usize..end as usize]))
    }

    /// A part of the message that has all values of a field.
    fn values(&self, place: usize) -> &'a [u8] {
        let (begin, end) = self.spans[place];
        &self.bytes[begin as usize..end as usize]
    }
}

/// Whether a list that was sent has a value: packed numbers may be none, which Go reads as no list.
fn has_items(bytes: &[u8], field: &Field) -> bool {
    let packs = matches!(field.shape, Shape::Int | Shape::Bool);
    !packs || values(bytes, field.number).any(|wire| wire != WireValue::Bytes(&[]))
}

/// The values of `number` among others, in a part of a message that was scanned before.
fn values(bytes: &[u8], number: u32) -> impl Iterator<Item = WireValue<'_>> {
    let mut reader = Reader::new(bytes);
    std::iter::from_fn(move || {
        loop {
            let (found, wire) = reader.next().ok().flatten()?;
            if found == number {
                return Some(wire);
            }
        }
    })
}

impl<'o, S: Sink> Writer<'o, S> {
    /// `out` ends inside an object.
    pub(super) const fn new(out: &'o mut S, types: &'static Types, strictness: Strictness) -> Self {
        Self { out, types, depth: 0, strictness }
    }

    /// Writes the members of one message.
    pub(super) fn members(&mut self, bytes: &[u8], id: MessageId) -> Result<(), ProtobufError> {
        let message = self.types.message(id);
        let found = self.scan(bytes, message)?;
        if self.depth >= DEPTH_MAX {
            return Err(malformed("it nests too deep"));
        }
        self.depth += 1;
        // Most members of most messages are neither sent nor written: they are not looked at.
        let mut left = found.sent | message.always;
        while left != 0 {
            let place = left.trailing_zeros() as usize;
            left &= left - 1;
            let field = &message.fields[place];
            self.field(&found, place, field).map_err(|error| error.within(field.name))?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn scan<'a>(&self, bytes: &'a [u8], message: &Message) -> Result<Found<'a>, ProtobufError> {
        if u32::try_from(bytes.len()).is_err() {
            return Err(malformed("it is larger than 4 GiB"));
        }
        let mut found = Found { bytes, sent: 0, numbers: 0, fractions: 0, spans: [(0, 0); FIELDS_MAX] };
        let mut reader = Reader::new(bytes);
        let mut begin = 0;
        while let Some((number, wire)) = reader.next().map_err(malformed)? {
            let end = bytes.len() - reader.rest().len();
            let from = std::mem::replace(&mut begin, end);
            let Some(place) = message.place(number) else {
                if self.strictness != Strictness::Strict {
                    continue;
                }
                return Err(ProtobufError::UnknownField { at: String::new(), number });
            };
            let repeats = matches!(message.fields[place].count, Count::List | Count::Map);
            if !found.note(place, repeats, (from, end), wire) {
                return Err(malformed("a field that has one value was sent twice"));
            }
        }
        Ok(found)
    }

    fn field(&mut self, found: &Found<'_>, place: usize, field: &Field) -> Result<(), ProtobufError> {
        let sent = found.sent >> place & 1 == 1;
        match field.count {
            Count::Value => self.one(found.value(place), field),
            Count::Pointer if sent => self.one(found.value(place), field),
            Count::List if sent && has_items(found.values(place), field) => {
                self.list(found.values(place), field)
            }
            Count::Map if sent => self.map(found.values(place), field),
            Count::Pointer | Count::List | Count::Map => {
                if !field.omit && !field.name.is_empty() {
                    self.key(field);
                    self.out.extend_from_slice(b"null");
                }
                Ok(())
            }
        }
    }

    /// A value. Of a Go value, not a pointer, there is one also if it was not sent.
    fn one(&mut self, wire: Option<WireValue<'_>>, field: &Field) -> Result<(), ProtobufError> {
        let is_value = field.count == Count::Value;
        if field.shape == Shape::Bytes && wire.is_none() && is_value {
            // A nil slice.
            if !field.omit {
                self.key(field);
                self.out.extend_from_slice(b"null");
            }
            return Ok(());
        }
        let absent = if matches!(field.shape, Shape::Bool | Shape::Int) {
            WireValue::Varint(0)
        } else if field.shape == Shape::Double {
            WireValue::Fixed64(0)
        } else {
            WireValue::Bytes(&[])
        };
        let wire = wire.unwrap_or(absent);
        // A zero of another wire type is not one, but an error.
        let zero = wire == absent;
        if zero && field.omit && is_value {
            return Ok(());
        }
        if let ("", Shape::Message(id)) = (field.name, field.shape) {
            let inner = self.bytes(wire)?;
            return self.members(inner, id);
        }
        self.key(field);
        self.value(wire, field.shape)
    }

    fn list(&mut self, bytes: &[u8], field: &Field) -> Result<(), ProtobufError> {
        self.key(field);
        self.items(bytes, field)
    }

    fn items(&mut self, bytes: &[u8], field: &Field) -> Result<(), ProtobufError> {
        let mut next = b'[';
        for wire in values(bytes, field.number) {
            match (field.shape, wire) {
                // Packed: all numbers of the list in one field.
                (Shape::Int | Shape::Bool, WireValue::Bytes(packed)) => {
                    let mut reader = Reader::new(packed);
                    while !reader.rest().is_empty() {
                        let value = reader.varint().map_err(malformed)?;
                        self.out.push(std::mem::replace(&mut next, b','));
                        self.value(WireValue::Varint(value), field.shape)?;
                    }
                }
                (Shape::Message(id), wire) if field.typed => {
                    self.out.push(std::mem::replace(&mut next, b','));
                    self.out.extend_from_slice(br#"{"kind":"PersistentVolumeClaim","apiVersion":"v1""#);
                    let bytes = self.bytes(wire)?;
                    self.members(bytes, id)?;
                    self.out.push(b'}');
                }
                _ => {
                    self.out.push(std::mem::replace(&mut next, b','));
                    self.value(wire, field.shape)?;
                }
            }
        }
        self.out.extend_from_slice(if next == b'[' { b"[]" } else { b"]" });
        Ok(())
    }

    /// Entries by key, as Go writes maps.
    fn map(&mut self, bytes: &[u8], field: &Field) -> Result<(), ProtobufError> {
        let mut entries = Vec::new();
        let mut is_sorted = true;
        for wire in values(bytes, field.number) {
            let entry = self.entry(wire)?;
            is_sorted &= entries.last().is_none_or(|(last, _)| *last < entry.0);
            entries.push(entry);
        }
        // Kubernetes writes them in this order; others may not.
        if !is_sorted {
            entries.sort_by_key(|(key, _)| *key);
            if entries.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                return Err(malformed("a map has a key twice"));
            }
        }
        self.key(field);
        let mut next = b'{';
        for (key, value) in entries {
            self.out.push(std::mem::replace(&mut next, b','));
            self.out.text(key);
            self.out.push(b':');
            self.value(value.unwrap_or(WireValue::Bytes(&[])), field.shape)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn entry<'a>(&self, wire: WireValue<'a>) -> Result<(&'a [u8], Option<WireValue<'a>>), ProtobufError> {
        let (mut key, mut value) = (&[][..], None);
        let mut reader = Reader::new(self.bytes(wire)?);
        while let Some((number, wire)) = reader.next().map_err(malformed)? {
            match number {
                1 => key = self.text(wire)?,
                2 => value = Some(wire),
                _ => return Err(malformed("an entry of a map has more than key and value")),
            }
        }
        // Replaced, two keys could become one.
        if std::str::from_utf8(key).is_err() {
            return Err(malformed("a key of a map is not UTF-8"));
        }
        Ok((key, value))
    }

    fn key(&mut self, field: &Field) {
        // Without its comma, it is the first one.
        self.out.extend_from_slice(&field.key[usize::from(self.out.is_open())..]);
    }

    fn value(&mut self, wire: WireValue<'_>, shape: Shape) -> Result<(), ProtobufError> {
        match shape {
            Shape::Text => self.out.text(self.text(wire)?),
            Shape::Bool => match self.number(wire)? {
                0 => self.out.extend_from_slice(b"false"),
                1 => self.out.extend_from_slice(b"true"),
                _ => return Err(malformed("a flag is neither 0 nor 1")),
            },
            Shape::Int => self.out.number(self.number(wire)?),
            Shape::Double => self.double(wire)?,
            Shape::Bytes => self.out.base64(self.bytes(wire)?),
            Shape::Message(id) => {
                let bytes = self.bytes(wire)?;
                self.out.push(b'{');
                self.members(bytes, id)?;
                self.out.push(b'}');
            }
            Shape::Either(id) => self.either(wire, id)?,
            Shape::Time => self.time(wire, false)?,
            Shape::MicroTime => self.time(wire, true)?,
            Shape::Quantity => self.quantity(wire)?,
            Shape::IntOrString => self.int_or_string(wire)?,
            Shape::RawJson => self.raw_json(wire)?,
            Shape::TextList => self.text_list(wire)?,
        }
        Ok(())
    }

    fn bytes<'a>(&self, wire: WireValue<'a>) -> Result<&'a [u8], ProtobufError> {
        match wire {
            WireValue::Bytes(bytes) => Ok(bytes),
            WireValue::Varint(_) | WireValue::Fixed64(_) => {
                Err(malformed("a number where text or a message belongs"))
            }
        }
    }

    fn text<'a>(&self, wire: WireValue<'a>) -> Result<&'a [u8], ProtobufError> {
        let bytes = self.bytes(wire)?;
        let valid = self.strictness != Strictness::Strict || std::str::from_utf8(bytes).is_ok();
        if valid { Ok(bytes) } else { Err(malformed("text is not UTF-8")) }
    }

    /// Negative numbers of any width are sent as 64 bits.
    fn number(&self, wire: WireValue<'_>) -> Result<i64, ProtobufError> {
        match wire {
            WireValue::Varint(value) => Ok(value.cast_signed()),
            WireValue::Bytes(_) => Err(malformed("text or a message where a number belongs")),
            WireValue::Fixed64(_) => Err(malformed("a number with a fraction where a whole one belongs")),
        }
    }

    fn double(&mut self, wire: WireValue<'_>) -> Result<(), ProtobufError> {
        let WireValue::Fixed64(bits) = wire else {
            return Err(malformed("no number with a fraction where one belongs"));
        };
        let number = f64::from_bits(bits);
        if !number.is_finite() {
            return Err(malformed("a number has no form in JSON"));
        }
        self.out.extend_from_slice(go_json::number(number).as_bytes());
        Ok(())
    }

    /// The first field that is there; a flag always is.
    fn either(&mut self, wire: WireValue<'_>, id: MessageId) -> Result<(), ProtobufError> {
        let message = self.types.message(id);
        let found = self.scan(self.bytes(wire)?, message)?;
        for (place, field) in message.fields.iter().enumerate() {
            match (field.count, found.sent >> place & 1 == 1) {
                (Count::List, true) => return self.items(found.values(place), field),
                (Count::Pointer, true) => {
                    return found.value(place).map_or(Ok(()), |wire| self.value(wire, field.shape));
                }
                (Count::Value, _) => {
                    return self.value(found.value(place).unwrap_or(WireValue::Varint(0)), field.shape);
                }
                (Count::List | Count::Pointer | Count::Map, _) => {}
            }
        }
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    /// Gives the fields of a small message to `take`, which says whether it knows them.
    fn parts<'a>(
        &self,
        wire: WireValue<'a>,
        mut take: impl FnMut(&Self, u32, WireValue<'a>) -> Result<bool, ProtobufError>,
    ) -> Result<(), ProtobufError> {
        let mut reader = Reader::new(self.bytes(wire)?);
        while let Some((number, wire)) = reader.next().map_err(malformed)? {
            if !take(self, number, wire)? && self.strictness == Strictness::Strict {
                return Err(ProtobufError::UnknownField { at: String::new(), number });
            }
        }
        Ok(())
    }

    fn time(&mut self, wire: WireValue<'_>, micros: bool) -> Result<(), ProtobufError> {
        if matches!(wire, WireValue::Bytes([])) {
            self.out.extend_from_slice(b"null");
            return Ok(());
        }
        let (mut seconds, mut nanos) = (0, 0);
        self.parts(wire, |own, number, wire| {
            match number {
                1 => seconds = own.number(wire)?,
                2 => nanos = own.number(wire)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let time = i32::try_from(nanos).ok().and_then(|nanos| jiff::Timestamp::new(seconds, nanos).ok());
        let Some(time) = time else { return Err(malformed("a time is out of range")) };
        self.out.time(time, micros);
        Ok(())
    }

    fn quantity(&mut self, wire: WireValue<'_>) -> Result<(), ProtobufError> {
        let mut text: &[u8] = b"0";
        self.parts(wire, |own, number, wire| {
            if number == 1 {
                text = own.text(wire)?;
            }
            Ok(number == 1)
        })?;
        self.out.text(if text.is_empty() { b"0" } else { text });
        Ok(())
    }

    fn int_or_string(&mut self, wire: WireValue<'_>) -> Result<(), ProtobufError> {
        let (mut kind, mut number, mut text) = (0, 0, &[][..]);
        self.parts(wire, |own, field, wire| {
            match field {
                1 => kind = own.number(wire)?,
                2 => number = own.number(wire)?,
                3 => text = own.text(wire)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        match kind {
            0 => self.out.number(number),
            1 => self.out.text(text),
            _ => return Err(malformed("it is neither a number nor text")),
        }
        Ok(())
    }

    fn text_list(&mut self, wire: WireValue<'_>) -> Result<(), ProtobufError> {
        let mut items = Vec::new();
        self.parts(wire, |own, number, wire| {
            if number == 1 {
                items.push(own.text(wire)?);
            }
            Ok(number == 1)
        })?;
        let mut next = b'[';
        for item in items {
            self.out.push(std::mem::replace(&mut next, b','));
            self.out.text(item);
        }
        self.out.extend_from_slice(if next == b'[' { b"null" } else { b"]" });
        Ok(())
    }

    /// JSON in the first field: compacted, with Go's escapes.
    fn raw_json(&mut self, wire: WireValue<'_>) -> Result<(), ProtobufError> {
        let mut raw: &[u8] = &[];
        self.parts(wire, |own, number, wire| {
            if number == 1 {
                raw = own.bytes(wire)?;
            }
            Ok(number == 1)
        })?;
        if raw.is_empty() {
            self.out.extend_from_slice(b"null");
            return Ok(());
        }
        if self.strictness != Strictness::Known && serde_json::from_slice::<&RawValue>(raw).is_err() {
            return Err(malformed("a part that should be JSON is not"));
        }
        self.out.json(raw);
        Ok(())
    }
}
