//! From a message on the wire to the JSON that Kubernetes' Go types give.
//!
//! One scan of a message notes where each of its fields begins and ends; then the members are written in the order of the
//! Go struct. What was not sent is written as well where Go writes its zero value. It is strict: what would be lost, or what
//! Go would not have written, is an error. Any bytes give an answer, in time and memory in proportion to them, with a stack
//! of at most [`DEPTH_MAX`] levels.

use std::collections::BTreeMap;

use revcast_engine::codec::protobuf::wire::{Reader, Wire};
use serde_json::value::RawValue;

use super::sink::Sink;
use super::types::{Count, FIELDS_MAX, Field, Message, MessageId, Shape, Types};
use super::{DEPTH_MAX, ProtobufError};

/// Writes the members of messages into an open object.
#[derive(Debug)]
pub(super) struct Writer<'o, S> {
    out: &'o mut S,
    types: &'static Types,
    /// The members that lead to the current message, for errors.
    path: Vec<&'static str>,
    reading: Reading,
}

/// What is made of messages that Kubernetes' decoders read, and its encoders do not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// They are refused: nothing that a client sends is lost.
    Strict,
    /// As Kubernetes reads a store: a field that it does not know is skipped, and what is not UTF-8 is replaced, but for
    /// keys of maps.
    Stored,
}

/// Where the values of a field are: from the first one's beginning to the last one's end. 0, 0: it was not sent.
type Span = (u32, u32);

impl<'o, S: Sink> Writer<'o, S> {
    /// `out` ends inside an object.
    pub(super) const fn new(out: &'o mut S, types: &'static Types, reading: Reading) -> Self {
        Self { out, types, path: Vec::new(), reading }
    }

    /// Writes the members of one message.
    pub(super) fn members(&mut self, bytes: &[u8], id: MessageId) -> Result<(), ProtobufError> {
        let message = self.types.message(id);
        let mut spans = [(0, 0); FIELDS_MAX];
        self.scan(bytes, message, &mut spans)?;
        if self.path.len() >= DEPTH_MAX {
            return Err(self.malformed("it nests too deep"));
        }
        for (field, (begin, end)) in message.fields.iter().zip(spans) {
            self.path.push(field.name);
            self.field(&bytes[begin as usize..end as usize], field, end > 0)?;
            self.path.pop();
        }
        Ok(())
    }

    fn scan(
        &self,
        bytes: &[u8],
        message: &Message,
        spans: &mut [Span; FIELDS_MAX],
    ) -> Result<(), ProtobufError> {
        let mut reader = Reader::new(bytes);
        let mut begin = 0;
        while let Some((number, _)) = reader.next().map_err(|why| self.malformed(why))? {
            let end = bytes.len() - reader.rest().len();
            let short = u32::try_from(begin).ok().zip(u32::try_from(end).ok());
            let (from, to) = short.ok_or_else(|| self.malformed("it is larger than 4 GiB"))?;
            begin = end;
            let Some(place) = message.place(number) else {
                if self.reading == Reading::Stored {
                    continue;
                }
                return Err(ProtobufError::UnknownField { at: self.place(), number });
            };
            let repeats = matches!(message.fields[place].count, Count::List | Count::Map);
            let span = &mut spans[place];
            if span.1 == 0 {
                *span = (from, to);
            } else if repeats {
                span.1 = to;
            } else {
                return Err(self.malformed("a field that has one value was sent twice"));
            }
        }
        Ok(())
    }

    /// The members that lead to the current message.
    fn place(&self) -> String {
        self.path.iter().filter(|name| !name.is_empty()).copied().collect::<Vec<_>>().join(".")
    }

    fn malformed(&self, why: &'static str) -> ProtobufError {
        ProtobufError::Malformed { why, at: self.place() }
    }

    /// `bytes` has the field's values, and what else was sent between them.
    fn field(&mut self, bytes: &[u8], field: &Field, sent: bool) -> Result<(), ProtobufError> {
        match field.count {
            Count::Value => self.one(bytes, field),
            Count::Pointer if sent => self.one_sent(bytes, field),
            Count::List if sent => self.list(bytes, field),
            Count::Map if sent => self.map(bytes, field),
            Count::Pointer | Count::List | Count::Map => {
                if !field.omit && !field.name.is_empty() {
                    self.key(field.name);
                    self.out.extend_from_slice(b"null");
                }
                Ok(())
            }
        }
    }

    /// The values of `number` among others, in a part of a message that was scanned before.
    fn values<'a>(bytes: &'a [u8], number: u32) -> impl Iterator<Item = Wire<'a>> {
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

    fn one_sent(&mut self, bytes: &[u8], field: &Field) -> Result<(), ProtobufError> {
        let Some(wire) = Self::values(bytes, field.number).next() else { return Ok(()) };
        if let ("", Shape::Message(id)) = (field.name, field.shape) {
            let inner = self.bytes(wire)?;
            return self.members(inner, id);
        }
        self.key(field.name);
        self.value(wire, field.shape)
    }

    /// A value, which is there also if it was not sent.
    fn one(&mut self, bytes: &[u8], field: &Field) -> Result<(), ProtobufError> {
        let wire = Self::values(bytes, field.number).next();
        if field.shape == Shape::Bytes && wire.is_none() {
            // A nil slice.
            if !field.omit {
                self.key(field.name);
                self.out.extend_from_slice(b"null");
            }
            return Ok(());
        }
        let absent =
            if matches!(field.shape, Shape::Bool | Shape::Int) { Wire::Varint(0) } else { Wire::Bytes(&[]) };
        let wire = wire.unwrap_or(absent);
        let zero = match wire {
            Wire::Varint(value) => value == 0,
            Wire::Bytes(bytes) => bytes.is_empty(),
        };
        if zero && field.omit {
            return Ok(());
        }
        if let ("", Shape::Message(id)) = (field.name, field.shape) {
            let inner = self.bytes(wire)?;
            return self.members(inner, id);
        }
        self.key(field.name);
        self.value(wire, field.shape)
    }

    fn list(&mut self, bytes: &[u8], field: &Field) -> Result<(), ProtobufError> {
        self.key(field.name);
        let mut next = b'[';
        for wire in Self::values(bytes, field.number) {
            match (field.shape, wire) {
                // Packed: all numbers of the list in one field.
                (Shape::Int | Shape::Bool, Wire::Bytes(packed)) => {
                    let mut reader = Reader::new(packed);
                    while !reader.rest().is_empty() {
                        let value = reader.varint().map_err(|why| self.malformed(why))?;
                        self.out.push(std::mem::replace(&mut next, b','));
                        self.value(Wire::Varint(value), field.shape)?;
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
        let mut entries: BTreeMap<&[u8], Option<Wire<'_>>> = BTreeMap::new();
        for wire in Self::values(bytes, field.number) {
            let (key, value) = self.entry(wire)?;
            if entries.insert(key, value).is_some() {
                return Err(self.malformed("a map has a key twice"));
            }
        }
        self.key(field.name);
        let mut next = b'{';
        for (key, value) in entries {
            self.out.push(std::mem::replace(&mut next, b','));
            self.out.text(key);
            self.out.push(b':');
            self.value(value.unwrap_or(Wire::Bytes(&[])), field.shape)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn entry<'a>(&self, wire: Wire<'a>) -> Result<(&'a [u8], Option<Wire<'a>>), ProtobufError> {
        let (mut key, mut value) = (&[][..], None);
        let mut reader = Reader::new(self.bytes(wire)?);
        while let Some((number, wire)) = reader.next().map_err(|why| self.malformed(why))? {
            match number {
                1 => key = self.text(wire)?,
                2 => value = Some(wire),
                _ => return Err(self.malformed("an entry of a map has more than key and value")),
            }
        }
        // Replaced, two keys could become one.
        if std::str::from_utf8(key).is_err() {
            return Err(self.malformed("a key of a map is not UTF-8"));
        }
        Ok((key, value))
    }

    fn key(&mut self, name: &str) {
        if !self.out.is_open() {
            self.out.push(b',');
        }
        // Names of members have nothing to escape.
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn value(&mut self, wire: Wire<'_>, shape: Shape) -> Result<(), ProtobufError> {
        match shape {
            Shape::Text => self.out.text(self.text(wire)?),
            Shape::Bool => match self.number(wire)? {
                0 => self.out.extend_from_slice(b"false"),
                1 => self.out.extend_from_slice(b"true"),
                _ => return Err(self.malformed("a flag is neither 0 nor 1")),
            },
            Shape::Int => self.out.number(self.number(wire)?),
            Shape::Bytes => self.out.base64(self.bytes(wire)?),
            Shape::Message(id) => {
                let bytes = self.bytes(wire)?;
                self.out.push(b'{');
                self.members(bytes, id)?;
                self.out.push(b'}');
            }
            Shape::Time => self.time(wire, "%Y-%m-%dT%H:%M:%SZ")?,
            Shape::MicroTime => self.time(wire, "%Y-%m-%dT%H:%M:%S%.6fZ")?,
            Shape::Quantity => self.quantity(wire)?,
            Shape::IntOrString => self.int_or_string(wire)?,
            Shape::RawJson => self.raw_json(wire)?,
            Shape::TextList => self.text_list(wire)?,
        }
        Ok(())
    }

    fn bytes<'a>(&self, wire: Wire<'a>) -> Result<&'a [u8], ProtobufError> {
        match wire {
            Wire::Bytes(bytes) => Ok(bytes),
            Wire::Varint(_) => Err(self.malformed("a number where text or a message belongs")),
        }
    }

    fn text<'a>(&self, wire: Wire<'a>) -> Result<&'a [u8], ProtobufError> {
        let bytes = self.bytes(wire)?;
        let valid = self.reading == Reading::Stored || std::str::from_utf8(bytes).is_ok();
        if valid { Ok(bytes) } else { Err(self.malformed("text is not UTF-8")) }
    }

    /// Negative numbers of any width are sent as 64 bits.
    fn number(&self, wire: Wire<'_>) -> Result<i64, ProtobufError> {
        match wire {
            Wire::Varint(value) => Ok(value.cast_signed()),
            Wire::Bytes(_) => Err(self.malformed("text or a message where a number belongs")),
        }
    }

    /// Gives the fields of a small message to `take`, which says whether it knows them.
    fn parts<'a>(
        &self,
        wire: Wire<'a>,
        mut take: impl FnMut(&Self, u32, Wire<'a>) -> Result<bool, ProtobufError>,
    ) -> Result<(), ProtobufError> {
        let mut reader = Reader::new(self.bytes(wire)?);
        while let Some((number, wire)) = reader.next().map_err(|why| self.malformed(why))? {
            if !take(self, number, wire)? && self.reading == Reading::Strict {
                return Err(ProtobufError::UnknownField { at: self.place(), number });
            }
        }
        Ok(())
    }

    fn time(&mut self, wire: Wire<'_>, format: &str) -> Result<(), ProtobufError> {
        if matches!(wire, Wire::Bytes([])) {
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
        let Some(time) = time else { return Err(self.malformed("a time is out of range")) };
        self.out.time(time, format);
        Ok(())
    }

    fn quantity(&mut self, wire: Wire<'_>) -> Result<(), ProtobufError> {
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

    fn int_or_string(&mut self, wire: Wire<'_>) -> Result<(), ProtobufError> {
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
            _ => return Err(self.malformed("it is neither a number nor text")),
        }
        Ok(())
    }

    fn text_list(&mut self, wire: Wire<'_>) -> Result<(), ProtobufError> {
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
    fn raw_json(&mut self, wire: Wire<'_>) -> Result<(), ProtobufError> {
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
        let checked: Result<&RawValue, _> = serde_json::from_slice(raw);
        let Ok(json) = checked else { return Err(self.malformed("a part that should be JSON is not")) };
        self.out.json(json.get());
        Ok(())
    }
}
