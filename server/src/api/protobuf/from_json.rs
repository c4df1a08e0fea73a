//! From JSON to a message on the wire, as Kubernetes' encoders write it.
//!
//! Fields stand in the order of their numbers. What Go holds as a value is always written, zero or not; pointers, lists and
//! maps only if there is something in them. A member that the type does not have is left out, as Kubernetes' decoders do; one
//! of another type is an error.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use revcast_engine::codec::protobuf::wire::{push_double, push_field, push_number};
use serde_json::value::RawValue;

use super::DEPTH_MAX;
use super::quantity;
use super::types::{Count, Field, MessageId, Shape, Types};

/// The members of an object, by name.
type Members<'j> = BTreeMap<Cow<'j, str>, &'j RawValue>;

/// Why an object has no form in protobuf, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotEncodable {
    pub(super) why: String,
    pub(super) at: String,
}

/// Appends an object in JSON as a message of this type.
pub(super) fn push_message(
    out: &mut Vec<u8>,
    types: &Types,
    id: MessageId,
    json: &str,
) -> Result<(), NotEncodable> {
    let mut encoder = Encoder { types, path: Vec::new() };
    let members = encoder.object(json)?;
    encoder.message(out, Some(&members), id)
}

fn named<'j>((name, value): (&'static str, &'j RawValue)) -> (Cow<'j, str>, &'j RawValue) {
    (name.into(), value)
}

struct Encoder<'t> {
    types: &'t Types,
    path: Vec<&'t str>,
}

impl<'t> Encoder<'t> {
    fn wrong(&self, why: impl Into<String>) -> NotEncodable {
        let at = self.path.iter().filter(|name| !name.is_empty()).copied().collect::<Vec<_>>().join(".");
        NotEncodable { why: why.into(), at }
    }

    fn parsed<'j, T: serde::Deserialize<'j>>(&self, json: &'j str, what: &str) -> Result<T, NotEncodable> {
        serde_json::from_str(json).map_err(|_| self.wrong(format!("it is not {what}")))
    }

    fn object<'j>(&self, json: &'j str) -> Result<Members<'j>, NotEncodable> {
        #[derive(serde::Deserialize)]
        struct Names<'j>(#[serde(borrow)] BTreeMap<Name<'j>, &'j RawValue>);
        #[derive(serde::Deserialize, PartialEq, Eq, PartialOrd, Ord)]
        struct Name<'j>(#[serde(borrow)] Cow<'j, str>);
        let Names(names) = self.parsed(json, "an object")?;
        Ok(names.into_iter().map(|(Name(name), value)| (name, value)).collect())
    }

    /// The members of one message; `None`: of a struct that is not there.
    fn message(
        &mut self,
        out: &mut Vec<u8>,
        members: Option<&Members<'_>>,
        id: MessageId,
    ) -> Result<(), NotEncodable> {
        if self.path.len() >= DEPTH_MAX {
            return Err(self.wrong("it nests too deep"));
        }
        let types = self.types;
        let message = types.message(id);
        for field in message.by_number() {
            self.path.push(field.name);
            self.field(out, members, field)?;
            self.path.pop();
        }
        Ok(())
    }

    fn field(
        &mut self,
        out: &mut Vec<u8>,
        members: Option<&Members<'_>>,
        field: &Field,
    ) -> Result<(), NotEncodable> {
        if let ("", Shape::Message(id)) = (field.name, field.shape) {
            // Its members are among those of the outer object.
            let mut inner = Vec::new();
            self.message(&mut inner, members, id)?;
            if field.count == Count::Value || !inner.is_empty() {
                push_field(out, field.number, &inner);
            }
            return Ok(());
        }
        let json = members.and_then(|members| members.get(field.name)).map(|value| value.get());
        let json = json.filter(|json| *json != "null");
        match (field.count, json) {
            (Count::Value, json) => {
                if field.shape != Shape::Bytes || json.is_some() {
                    self.value(out, field.number, field.shape, json)?;
                }
            }
            (Count::Pointer | Count::List | Count::Map, None) => {}
            (Count::Pointer, json) => self.value(out, field.number, field.shape, json)?,
            (Count::List, Some(json)) => {
                let items: Vec<&RawValue> = self.parsed(json, "a list")?;
                for item in items {
                    let item = Some(item.get()).filter(|item| *item != "null");
                    self.value(out, field.number, field.shape, item)?;
                }
            }
            (Count::Map, Some(json)) => {
                for (key, value) in self.object(json)? {
                    let mut entry = Vec::new();
                    push_field(&mut entry, 1, key.as_bytes());
                    let value = Some(value.get()).filter(|value| *value != "null");
                    self.value(&mut entry, 2, field.shape, value)?;
                    push_field(out, field.number, &entry);
                }
            }
        }
        Ok(())
    }

    /// Appends one value with its number; `None`: zero.
    fn value(
        &mut self,
        out: &mut Vec<u8>,
        number: u32,
        shape: Shape,
        json: Option<&str>,
    ) -> Result<(), NotEncodable> {
        let mut inner = Vec::new();
        match shape {
            Shape::Text => {
                let text: Cow<'_, str> = match json {
                    Some(json) => self.text(json)?,
                    None => "".into(),
                };
                push_field(out, number, text.as_bytes());
                return Ok(());
            }
            Shape::Bool => {
                let truth: bool = json.map_or(Ok(false), |json| self.parsed(json, "true or false"))?;
                push_number(out, number, u64::from(truth));
                return Ok(());
            }
            Shape::Int => {
                let value = json.map_or(Ok(0), |json| self.number(json))?;
                push_number(out, number, value.cast_unsigned());
                return Ok(());
            }
            Shape::Double => {
                let value = json.map_or(Ok(0.0), |json| self.parsed(json, "a number"))?;
                push_double(out, number, value);
                return Ok(());
            }
            Shape::Bytes => {
                use base64::Engine;
                let text = match json {
                    Some(json) => self.text(json)?,
                    None => "".into(),
                };
                let engine = base64::engine::general_purpose::STANDARD;
                inner = engine.decode(text.as_bytes()).map_err(|_| self.wrong("it is not base64"))?;
            }
            Shape::Message(id) => match json {
                Some(json) => {
                    let members = self.object(json)?;
                    self.message(&mut inner, Some(&members), id)?;
                }
                None => self.message(&mut inner, None, id)?,
            },
            Shape::Either(id) => {
                let members = json.map(|json| self.alternatives(json)).transpose()?;
                self.message(&mut inner, members.as_ref(), id)?;
            }
            Shape::Time | Shape::MicroTime => {
                if let Some(json) = json {
                    let text = self.text(json)?;
                    let time: Timestamp =
                        text.parse().map_err(|_| self.wrong("it is not a time of RFC 3339"))?;
                    let micros = u64::try_from(time.subsec_nanosecond() / 1_000 * 1_000).unwrap_or(0);
                    push_number(&mut inner, 1, time.as_second().cast_unsigned());
                    push_number(&mut inner, 2, if shape == Shape::MicroTime { micros } else { 0 });
                }
            }
            Shape::Quantity => {
                let text = match json {
                    Some(json) => self.text_or_number(json)?,
                    None => "0".into(),
                };
                let text = quantity::canonical(&text).ok_or_else(|| self.wrong("it is not a quantity"))?;
                push_field(&mut inner, 1, text.as_bytes());
            }
            Shape::IntOrString => {
                let json = json.unwrap_or("0");
                let (value, text) = if json.starts_with('"') {
                    (0, self.text(json)?)
                } else {
                    (self.number(json)?, "".into())
                };
                push_number(&mut inner, 1, u64::from(json.starts_with('"')));
                push_number(&mut inner, 2, value.cast_unsigned());
                push_field(&mut inner, 3, text.as_bytes());
            }
            Shape::RawJson => {
                if let Some(json) = json {
                    push_field(&mut inner, 1, json.as_bytes());
                }
            }
            Shape::TextList => {
                let items: Vec<Cow<'_, str>> =
                    json.map_or(Ok(Vec::new()), |json| self.parsed(json, "a list of text"))?;
                for item in items {
                    push_field(&mut inner, 1, item.as_bytes());
                }
            }
        }
        push_field(out, number, &inner);
        Ok(())
    }

    /// A value as the member of a message whose fields are alternatives. With a schema a flag is set as well (Kubernetes
    /// `apiextensions/v1/marshal.go`).
    fn alternatives<'j>(&self, json: &'j str) -> Result<Members<'j>, NotEncodable> {
        let value: &RawValue = self.parsed(json, "JSON")?;
        Ok(match json.as_bytes().first() {
            Some(b'{') => [("schema", value), ("bool", self.parsed("true", "true")?)].map(named).into(),
            Some(b'[') => [("list", value)].map(named).into(),
            _ => [("bool", value)].map(named).into(),
        })
    }

    fn text<'j>(&self, json: &'j str) -> Result<Cow<'j, str>, NotEncodable> {
        #[derive(serde::Deserialize)]
        struct Text<'j>(#[serde(borrow)] Cow<'j, str>);
        self.parsed(json, "text").map(|Text(text)| text)
    }

    fn text_or_number<'j>(&self, json: &'j str) -> Result<Cow<'j, str>, NotEncodable> {
        if json.starts_with('"') { self.text(json) } else { Ok(json.into()) }
    }

    fn number(&self, json: &str) -> Result<i64, NotEncodable> {
        self.parsed(json, "a whole number of 64 bits")
    }
}
