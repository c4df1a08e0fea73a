//! One walk over a message and its table, writing JSON.
//!
//! A first scan finds which fields were sent; then, for each of these, another scan finds its values, so that members
//! have the order of the table and nothing is collected. Only arrays and maps repeat, and no message has more than
//! twenty of them: the cost is linear in the body. Values are checked while they are written.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::value::RawValue;

use super::{Count, DEPTH_MAX, Field, Message, ProtobufError, Shape};

/// A field's value on the wire. Kubernetes' messages use no other types except floats, which none of these has.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
}

/// Reads the fields of one message.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next field; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Wire<'a>)>, &'static str> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| "a field number is too large")?;
        if number == 0 {
            return Err("a field has the number zero");
        }
        let wire = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            2 => {
                let len = usize::try_from(self.varint()?).map_err(|_| "a length is too large")?;
                let (bytes, rest) = self.rest.split_at_checked(len).ok_or("a length goes past the end")?;
                self.rest = rest;
                Wire::Bytes(bytes)
            }
            _ => return Err("a field has a wire type that Kubernetes does not use here"),
        };
        Ok(Some((number, wire)))
    }

    fn varint(&mut self) -> Result<u64, &'static str> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or("a number goes past the end")?;
            self.rest = rest;
            if shift == 63 && *byte > 1 {
                return Err("a number is longer than 64 bits");
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number is longer than 64 bits")
    }
}

/// Writes members into an open object.
#[derive(Debug)]
pub(super) struct Writer<'o> {
    out: &'o mut Vec<u8>,
    /// The members that lead to the current message, for errors.
    path: Vec<&'static str>,
}

impl<'o> Writer<'o> {
    /// `out` ends inside an object.
    pub(super) const fn new(out: &'o mut Vec<u8>) -> Self {
        Self { out, path: Vec::new() }
    }

    /// Writes the members of one message.
    pub(super) fn members(&mut self, bytes: &[u8], message: &Message) -> Result<(), ProtobufError> {
        let sent = self.sent(bytes, message)?;
        for (at, field) in message.0.iter().enumerate() {
            if sent & 1 << at == 0 {
                continue;
            }
            if self.path.len() >= DEPTH_MAX {
                return Err(self.malformed("it nests too deep"));
            }
            self.path.push(field.name);
            self.field(bytes, field)?;
            self.path.pop();
        }
        Ok(())
    }

    /// Which fields of the table were sent, as a bit mask.
    fn sent(&self, bytes: &[u8], message: &Message) -> Result<u64, ProtobufError> {
        let mut sent = 0_u64;
        let mut reader = Reader::new(bytes);
        while let Some((number, _)) = reader.next().map_err(|why| self.malformed(why))? {
            let Some(at) = message.0.iter().position(|field| field.number == number) else {
                return Err(ProtobufError::UnknownField { at: self.place(), number });
            };
            let repeats = matches!(message.0[at].count, Count::Many | Count::Map);
            if !repeats && sent & 1 << at != 0 {
                return Err(self.malformed("a field that has one value was sent twice"));
            }
            sent |= 1 << at;
        }
        Ok(sent)
    }

    /// The members that lead to the current message.
    fn place(&self) -> String {
        self.path.iter().filter(|name| !name.is_empty()).copied().collect::<Vec<_>>().join(".")
    }

    fn malformed(&self, why: &'static str) -> ProtobufError {
        ProtobufError::Malformed { why, at: self.place() }
    }

    fn field(&mut self, bytes: &[u8], field: &Field) -> Result<(), ProtobufError> {
        match field.count {
            Count::One | Count::NotZero => self.single(bytes, field),
            Count::Many => self.array(bytes, field),
            Count::Map => self.object(bytes, field),
        }
    }

    /// The values of `field` in a message that was scanned before.
    fn values<'a>(bytes: &'a [u8], number: u32) -> impl Iterator<Item = Wire<'a>> {
        let mut reader = Reader::new(bytes);
        std::iter::from_fn(move || reader.next().ok().flatten())
            .filter_map(move |(found, wire)| (found == number).then_some(wire))
    }

    fn single(&mut self, bytes: &[u8], field: &Field) -> Result<(), ProtobufError> {
        let Some(wire) = Self::values(bytes, field.number).next() else { return Ok(()) };
        let zero = match wire {
            Wire::Varint(value) => value == 0,
            Wire::Bytes(bytes) => bytes.is_empty(),
        };
        let unset_time = zero && matches!(field.shape, Shape::Time | Shape::MicroTime | Shape::RawJson);
        if unset_time || (zero && field.count == Count::NotZero) {
            return Ok(());
        }
        if field.name.is_empty() {
            let (Shape::Msg(message), Wire::Bytes(inner)) = (field.shape, wire) else {
                return Err(self.malformed("a message was expected"));
            };
            return self.members(inner, message);
        }
        self.key(field.name);
        self.value(wire, field.shape)
    }

    fn array(&mut self, bytes: &[u8], field: &Field) -> Result<(), ProtobufError> {
        let mut empty = true;
        for wire in Self::values(bytes, field.number) {
            if empty {
                self.key(field.name);
                self.out.push(b'[');
                empty = false;
            } else {
                self.out.push(b',');
            }
            match (field.shape, wire) {
                // Packed: all numbers of the array in one field.
                (Shape::Int | Shape::Bool, Wire::Bytes(packed)) => self.packed(packed, field.shape)?,
                _ => self.value(wire, field.shape)?,
            }
        }
        if !empty {
            self.out.push(b']');
        }
        Ok(())
    }

    fn packed(&mut self, packed: &[u8], shape: Shape) -> Result<(), ProtobufError> {
        let mut reader = Reader::new(packed);
        let mut first = true;
        while !reader.rest.is_empty() {
            if !first {
                self.out.push(b',');
            }
            first = false;
            let value = reader.varint().map_err(|why| self.malformed(why))?;
            self.value(Wire::Varint(value), shape)?;
        }
        if first { Err(self.malformed("an array of numbers is empty")) } else { Ok(()) }
    }

    /// Entries by key, as Go writes maps.
    fn object(&mut self, bytes: &[u8], field: &Field) -> Result<(), ProtobufError> {
        let mut entries: BTreeMap<&str, Option<Wire<'_>>> = BTreeMap::new();
        for wire in Self::values(bytes, field.number) {
            let (key, value) = self.entry(wire)?;
            if entries.insert(key, value).is_some() {
                return Err(self.malformed("a map has a key twice"));
            }
        }
        if entries.is_empty() {
            return Ok(());
        }
        self.key(field.name);
        self.out.push(b'{');
        for (index, (key, value)) in entries.into_iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            append_string(self.out, key);
            self.out.push(b':');
            self.value(value.unwrap_or(Wire::Bytes(&[])), field.shape)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn entry<'a>(&self, wire: Wire<'a>) -> Result<(&'a str, Option<Wire<'a>>), ProtobufError> {
        let (mut key, mut value) = ("", None);
        let mut reader = Reader::new(self.bytes(wire)?);
        while let Some((number, wire)) = reader.next().map_err(|why| self.malformed(why))? {
            match number {
                1 => key = self.text(wire)?,
                2 => value = Some(wire),
                _ => return Err(self.malformed("an entry of a map has more than key and value")),
            }
        }
        Ok((key, value))
    }

    fn key(&mut self, name: &str) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        append_string(self.out, name);
        self.out.push(b':');
    }

    fn value(&mut self, wire: Wire<'_>, shape: Shape) -> Result<(), ProtobufError> {
        match shape {
            Shape::Str => append_string(self.out, self.text(wire)?),
            Shape::Bool => match self.number(wire)? {
                0 => self.out.extend_from_slice(b"false"),
                1 => self.out.extend_from_slice(b"true"),
                _ => return Err(self.malformed("a flag is neither 0 nor 1")),
            },
            Shape::Int => self.append_number(self.number(wire)?),
            Shape::Bytes => append_base64(self.out, self.bytes(wire)?),
            Shape::Msg(message) => {
                let bytes = self.bytes(wire)?;
                self.out.push(b'{');
                self.members(bytes, message)?;
                self.out.push(b'}');
            }
            Shape::Time => self.time(wire, "%Y-%m-%dT%H:%M:%SZ")?,
            Shape::MicroTime => self.time(wire, "%Y-%m-%dT%H:%M:%S%.6fZ")?,
            Shape::Quantity => self.quantity(wire)?,
            Shape::IntOrString => self.int_or_string(wire)?,
            Shape::RawJson => self.raw_json(wire)?,
        }
        Ok(())
    }

    fn bytes<'a>(&self, wire: Wire<'a>) -> Result<&'a [u8], ProtobufError> {
        match wire {
            Wire::Bytes(bytes) => Ok(bytes),
            Wire::Varint(_) => Err(self.malformed("a number where text or a message belongs")),
        }
    }

    fn text<'a>(&self, wire: Wire<'a>) -> Result<&'a str, ProtobufError> {
        std::str::from_utf8(self.bytes(wire)?).map_err(|_| self.malformed("text is not UTF-8"))
    }

    /// Negative numbers of any width are sent as 64 bits.
    fn number(&self, wire: Wire<'_>) -> Result<i64, ProtobufError> {
        match wire {
            Wire::Varint(value) => Ok(value.cast_signed()),
            Wire::Bytes(_) => Err(self.malformed("text or a message where a number belongs")),
        }
    }

    fn append_number(&mut self, value: i64) {
        write!(self.out, "{value}").expect("writing to a Vec does not fail");
    }

    fn time(&mut self, wire: Wire<'_>, format: &str) -> Result<(), ProtobufError> {
        let (mut seconds, mut nanos) = (0, 0);
        let mut reader = Reader::new(self.bytes(wire)?);
        while let Some((number, wire)) = reader.next().map_err(|why| self.malformed(why))? {
            match number {
                1 => seconds = self.number(wire)?,
                2 => nanos = self.number(wire)?,
                _ => return Err(self.malformed("a time has more than seconds and nanoseconds")),
            }
        }
        let time = i32::try_from(nanos).ok().and_then(|nanos| jiff::Timestamp::new(seconds, nanos).ok());
        let Some(time) = time else { return Err(self.malformed("a time is out of range")) };
        append_string(self.out, &time.strftime(format).to_string());
        Ok(())
    }

    fn quantity(&mut self, wire: Wire<'_>) -> Result<(), ProtobufError> {
        let mut text = "0";
        let mut reader = Reader::new(self.bytes(wire)?);
        while let Some((number, wire)) = reader.next().map_err(|why| self.malformed(why))? {
            match number {
                1 => text = self.text(wire)?,
                _ => return Err(self.malformed("a quantity has more than its text")),
            }
        }
        append_string(self.out, text);
        Ok(())
    }

    fn int_or_string(&mut self, wire: Wire<'_>) -> Result<(), ProtobufError> {
        let (mut kind, mut number, mut text) = (0, 0, "");
        let mut reader = Reader::new(self.bytes(wire)?);
        while let Some((field, wire)) = reader.next().map_err(|why| self.malformed(why))? {
            match field {
                1 => kind = self.number(wire)?,
                2 => number = self.number(wire)?,
                3 => text = self.text(wire)?,
                _ => return Err(self.malformed("a number or text has more than both")),
            }
        }
        match kind {
            0 => self.append_number(number),
            1 => append_string(self.out, text),
            _ => return Err(self.malformed("it is neither a number nor text")),
        }
        Ok(())
    }

    /// `FieldsV1`: JSON in the first field.
    fn raw_json(&mut self, wire: Wire<'_>) -> Result<(), ProtobufError> {
        let mut raw: &[u8] = b"null";
        let mut reader = Reader::new(self.bytes(wire)?);
        while let Some((number, wire)) = reader.next().map_err(|why| self.malformed(why))? {
            match number {
                1 => raw = self.bytes(wire)?,
                _ => return Err(self.malformed("a field set has more than its JSON")),
            }
        }
        let checked: Result<&RawValue, _> = serde_json::from_slice(raw);
        let Ok(json) = checked else { return Err(self.malformed("a field set is not JSON")) };
        self.out.extend_from_slice(json.get().as_bytes());
        Ok(())
    }
}

/// Appends `text` as a JSON string.
pub(super) fn append_string(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("writing to a Vec does not fail");
}

/// Appends `bytes` as a JSON string in base64 with padding (RFC 4648 section 4).
fn append_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    out.push(b'"');
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| usize::from(chunk.get(index).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let value = bits >> (18 - 6 * digit) & 63;
            out.push(if digit <= chunk.len() { DIGITS[value] } else { b'=' });
        }
    }
    out.push(b'"');
}
