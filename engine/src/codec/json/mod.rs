//! The codec of Kubernetes objects in JSON: just enough is read to know their attributes, and the text is kept as it is.
//!
//! It owns what is read (labels, selectable fields) and what is spliced (`metadata.resourceVersion`, and a
//! missing `kind` or `apiVersion`). It never re-serializes an object: members stay in the order in which they are stored. It runs on the
//! publisher's core, and on a shard that checks a write.

mod marks;
mod ready;
mod scan;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use simd_json::Buffers;
use simd_json::prelude::*;

use super::DecodeError;
use super::announced::Announced;
use crate::attributes::AttributeTexts;
use crate::decimal::decimal;
use crate::envelope;
use crate::message::MessageKind;
use crate::resource::Resource;
use crate::revision::Revision;
use marks::Marks;
pub(super) use ready::{ReadJson, Ready};

/// Expected bytes beside a value in its message: the event, the revision, and places of attributes.
const BESIDE: usize = 512;

/// The positions of the parts of a text that is served.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// The digits of `metadata.resourceVersion`.
    version: Range<u32>,
    /// Where the members after `kind` and `apiVersion` begin; 0 when those are not first.
    bare: u32,
}

/// An object in JSON as it is served: on one line, `metadata.resourceVersion` included.
#[derive(Clone, Copy, Debug)]
pub struct Json<'a> {
    text: &'a [u8],
    places: &'a Places,
}

impl<'a> Json<'a> {
    /// The whole object.
    #[must_use]
    pub const fn text(self) -> &'a [u8] {
        self.text
    }

    /// The members after `kind` and `apiVersion`, without the opening brace: what lists of built-in kinds show
    /// after a `{`. `None` when the object does not begin with those two.
    #[must_use]
    pub fn bare_members(self) -> Option<&'a [u8]> {
        (self.places.bare > 0).then(|| &self.text[self.places.bare as usize..])
    }

    /// Appends the object with another version: the last state of an object that was deleted.
    pub fn push_at(self, out: &mut Vec<u8>, revision: Revision) {
        let Range { start, end } = self.places.version;
        // As long as it is, or longer by the digits of the version.
        out.reserve(self.text.len() + 20);
        out.extend_from_slice(&self.text[..start as usize]);
        out.extend_from_slice(decimal(revision.get(), &mut [0; 20]));
        out.extend_from_slice(&self.text[end as usize..]);
    }
}

impl Announced<Places> {
    pub(crate) fn json(&self) -> Json<'_> {
        Json { text: self.object(), places: &self.of }
    }
}

/// Appends the payload of a message about an object.
pub(crate) fn push_event(out: &mut Vec<u8>, kind: MessageKind, text: &[u8]) {
    envelope::event(out, kind, |out| out.extend_from_slice(text));
}

/// Decodes values one after another and reuses its buffers.
pub(super) struct Decoder {
    buffers: Buffers,
    /// simd-json parses in place: the value is copied here first.
    scratch: Vec<u8>,
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").field("scratch_bytes", &self.scratch.capacity()).finish_non_exhaustive()
    }
}

impl Decoder {
    /// A decoder with no buffer grown yet.
    pub(super) fn new() -> Self {
        Self { buffers: Buffers::default(), scratch: Vec::new() }
    }

    /// Reads a value: what is announced of it once it has a revision.
    pub(super) fn read<'v>(
        &'v mut self,
        resource: &'v Resource,
        value: &'v [u8],
    ) -> Result<Ready<'v>, DecodeError> {
        if u32::try_from(value.len() + 4096).is_err() {
            return Err(DecodeError::TooLarge(value.len()));
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(value);
        let copy = self.scratch.as_ptr().addr();
        let texts = attributes(&mut self.scratch, &mut self.buffers, resource, value)?;
        let mut text = Cow::Borrowed(value.trim_ascii());
        let marks = Marks::of(&text);
        if marks.lines {
            text = scan::compact(&text).into();
        }
        if resource.sorts_members && scan::may_have_negative_zero(&text) {
            text = scan::without_negative_zeros(&text).into();
        }
        let found = scan::places(&text).map_err(|scan::EscapedName| DecodeError::EscapedName)?;
        // The parser leaves a string where it was, so it stands at the same place in the value.
        let address = match &text {
            Cow::Borrowed(part) => Some(copy + (part.as_ptr().addr() - value.as_ptr().addr())),
            Cow::Owned(_) => None,
        };
        Ok(Ready { text, escapes: marks.escapes, found, texts, address })
    }
}

/// Reads labels and fields of a value. `scratch` is a copy of it, which is parsed in place.
fn attributes<'s>(
    scratch: &'s mut [u8],
    buffers: &mut Buffers,
    resource: &'s Resource,
    value: &[u8],
) -> Result<AttributeTexts<'s>, DecodeError> {
    let tape = simd_json::to_tape_with_buffers(scratch, buffers)
        .map_err(|error| DecodeError::not_json(resource, value, error.to_string()))?;
    let top = tape.as_value();
    let object = top.as_object().ok_or(DecodeError::NotAnObject)?;
    check_type(resource, &object)?;
    let metadata = object.get("metadata");
    let metadata =
        metadata.as_ref().and_then(simd_json::tape::Value::as_object).ok_or(DecodeError::NotAnObject)?;
    let mut labels = Vec::new();
    if let Some(map) = metadata.get("labels").as_ref().and_then(simd_json::tape::Value::as_object) {
        for (key, value) in map.iter() {
            if let Some(value) = value.into_string() {
                labels.push((key.into(), value.into()));
            }
        }
    }
    let fields = resource.fields().iter().map(|field| {
        let at = |path: &[String]| {
            let mut here = (!path.is_empty()).then_some(top);
            for member in path {
                here =
                    here.and_then(|value| value.as_object().and_then(|object| object.get(member.as_str())));
            }
            here.map(scalar).filter(|text| !text.is_empty())
        };
        at(&field.path).or_else(|| at(&field.otherwise)).unwrap_or_else(|| field.absent.as_str().into())
    });
    let fields = fields.collect();
    Ok(AttributeTexts::new(labels, fields))
}

/// Whether the type members that are there, each time that they are, are those of the resource.
fn check_type(resource: &Resource, object: &simd_json::tape::Object<'_, '_>) -> Result<(), DecodeError> {
    let (mut api_version, mut kind) = (None, None);
    for (name, value) in object.iter() {
        let (found, expected) = match name {
            "apiVersion" => (&mut api_version, &resource.api_version),
            "kind" => (&mut kind, &resource.kind),
            _ => continue,
        };
        let text = value.as_str().unwrap_or("(not text)");
        let is_other_version =
            || name == "apiVersion" && resource.mixes_versions && is_of_group(text, expected);
        if text != expected && !is_other_version() {
            *found = Some(text.to_owned());
        }
    }
    if api_version.is_none() && kind.is_none() {
        return Ok(());
    }
    // A member that is missing, or right, is what the resource defines.
    let api_version = api_version.as_deref().unwrap_or(&resource.api_version);
    DecodeError::of_type(resource, api_version, kind.as_deref().unwrap_or(&resource.kind))
}

/// Whether both are versions of one group.
fn is_of_group(api_version: &str, expected: &str) -> bool {
    let group = |of: &str| of.rsplit_once('/').map(|(group, _)| group.len());
    let len = group(expected).unwrap_or(0);
    group(api_version).unwrap_or(0) == len && api_version[..len] == expected[..len]
}

/// A field's value as a selector compares it: text as it is, numbers and booleans as written, others "".
fn scalar<'s>(value: simd_json::tape::Value<'_, 's>) -> Cow<'s, str> {
    if let Some(text) = value.into_string() {
        return text.into();
    }
    if let Some(truth) = value.as_bool() {
        return if truth { "true".into() } else { "false".into() };
    }
    if let Some(number) = value.as_i64() {
        return number.to_string().into();
    }
    if let Some(number) = value.as_u64() {
        return number.to_string().into();
    }
    if let Some(number) = value.as_f64() {
        return number.to_string().into();
    }
    "".into()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::Reason;
    use super::super::error::NAME_SHOWN_MAX;
    use super::*;
    use crate::framing::tests::COUNTED;
    use crate::resource::{Field, FieldId};

    fn pods() -> Resource {
        Resource::new("v1", "Pod", true, vec![Field::at("spec.nodeName"), Field::at("spec.hostNetwork")])
    }

    fn decode_as(resource: &Resource, value: &str) -> Result<(String, Announced<Places>), DecodeError> {
        let (revision, kind) = (Revision::new(123), MessageKind::Added);
        let mut decoder = Decoder::new();
        let ready = decoder.read(resource, value.as_bytes());
        let announced = ready.and_then(|ready| ready.announce(&COUNTED, resource, revision, kind));
        // What is read first, and gets its revision later, is the same.
        let value = Bytes::copy_from_slice(value.as_bytes());
        let reading = decoder.read(resource, &value).map(|ready| ReadJson::new(&value, ready));
        let (announced, reading) = match (announced, reading) {
            (Ok(announced), Ok(reading)) => (announced, reading),
            (announced, reading) => {
                let (error, same) = (announced.err(), reading.err());
                assert_eq!(error, same, "{value:?}");
                return Err(error.expect("one of two was refused, as was the other"));
            }
        };
        let later =
            reading.ready().announce(&COUNTED, resource, revision, kind).expect("no larger than the other");
        assert_eq!(later.own().bytes(), announced.own().bytes(), "{value:?}");
        assert_eq!(later.attributes(), announced.attributes(), "{value:?}");
        let mut pushed = Vec::new();
        reading.push_at(resource, revision, &mut pushed);
        assert_eq!(String::from_utf8(pushed).as_deref(), Ok(&*String::from_utf8_lossy(announced.object())));
        let text = String::from_utf8(announced.json().text().to_vec()).expect("utf-8");
        assert_eq!(&text[announced.of.version.start as usize..announced.of.version.end as usize], "123");
        Ok((text, announced))
    }

    fn decode(value: &str) -> Result<(String, Announced<Places>), DecodeError> {
        decode_as(&pods(), value)
    }

    #[test]
    fn the_version_goes_behind_the_uid() {
        let (text, decoded) = decode(
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"n","uid":"u","labels":{"b":"2","a":"1"}},"spec":{"nodeName":"x","hostNetwork":true}}"#,
        )
        .expect("decodes");
        assert_eq!(
            text,
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"n","uid":"u","resourceVersion":"123","labels":{"b":"2","a":"1"}},"spec":{"nodeName":"x","hostNetwork":true}}"#
        );
        assert!(text[decoded.of.bare as usize..].starts_with("\"metadata\""));
        let a = decoded.attributes();
        assert_eq!([b"a", b"b", b"c"].map(|key| a.label(key)), [Some(&b"1"[..]), Some(b"2"), None]);
        let field = |label| a.field(pods().field(label).expect("declared"));
        assert_eq!((field("spec.nodeName"), field("spec.hostNetwork")), (&b"x"[..], &b"true"[..]));
        assert_eq!((a.field(FieldId::NAME), a.field(FieldId::NAMESPACE)), (&b"p"[..], &b"n"[..]));
    }

    #[test]
    fn a_field_without_a_value_reads_as_it_is_told_to() {
        let own = vec![
            Field::at("reason").or_value("none"),
            Field::alias("source", "source.component").or("reporter"),
            Field::alias("count", "status.count").or_value("0"),
            Field::empty("never"),
        ];
        let resource = Resource::new("v1", "Event", true, own);
        let read = |json: &str| {
            let (_, decoded) = decode_as(&resource, json).expect(json);
            ["reason", "source", "count", "never"].map(|label| {
                let value = decoded.attributes().field(resource.field(label).expect(label));
                String::from_utf8_lossy(value).into_owned()
            })
        };
        assert_eq!(read(r#"{"metadata":{}}"#), ["none", "", "0", ""]);
        assert_eq!(read(r#"{"metadata":{},"reporter":"r","reason":"","status":{}}"#), ["none", "r", "0", ""]);
        assert_eq!(
            read(
                r#"{"metadata":{},"source":{"component":"c"},"reporter":"r","reason":"x","status":{"count":0}}"#
            ),
            ["x", "c", "0", ""]
        );
        assert_eq!(read(r#"{"metadata":{},"source":{"component":[]},"reporter":true}"#)[1], "true");
    }

    #[test]
    fn what_go_escapes_is_escaped_and_the_places_are_right() {
        for (stored, served, bare) in [
            (
                r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","labels":{"a":"1"},"annotations":{"x&y":"<p>"}},"<":"&"}"#,
                r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","resourceVersion":"123","labels":{"a":"1"},"annotations":{"x\u0026y":"\u003cp\u003e"}},"\u003c":"\u0026"}"#,
                true,
            ),
            (
                r#"{"<":1,"metadata":{"&":"","resourceVersion":"9","uid":">"}}"#,
                r#"{"kind":"Pod","apiVersion":"v1","\u003c":1,"metadata":{"\u0026":"","resourceVersion":"123","uid":"\u003e"}}"#,
                true,
            ),
            (
                "{\n\"a\":\"<\u{2028}\u{2014}\",\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{}}",
                "{\"a\":\"\\u003c\\u2028\u{2014}\",\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":\"123\"}}",
                false,
            ),
        ] {
            let (text, decoded) = decode(stored).expect(stored);
            assert_eq!(text, served);
            assert_eq!(decoded.of.bare > 0, bare, "{served}");
            let behind = &text[decoded.of.bare as usize..];
            assert!(!bare || behind.starts_with('"') && !behind.contains("apiVersion"), "{behind}");
            // What selectors see is the text, not its spelling.
            let again = decode(served).expect(served);
            assert_eq!((again.0.as_str(), again.1.attributes()), (served, decoded.attributes()));
        }
        let (_, decoded) = decode(r#"{"metadata":{"name":"<","labels":{"a":"<&>"}}}"#).expect("decodes");
        assert_eq!(decoded.attributes().label(b"a"), Some(&b"<&>"[..]));
        assert_eq!(decoded.attributes().field(FieldId::NAME), b"<");
    }

    #[test]
    fn integers_of_any_length_are_kept_as_they_are_written() {
        for number in ["9223372036854775808", "18446744073709551616", "-666666666666666666666666666"] {
            let (text, decoded) =
                decode(&format!(r#"{{"metadata":{{"name":"p"}},"spec":{{"a":{number}}}}}"#)).expect(number);
            assert!(text.contains(&format!(r#""spec":{{"a":{number}}}"#)), "{text}");
            assert_eq!(decoded.attributes().field(FieldId::NAME), b"p");
        }
    }

    #[test]
    fn a_version_that_is_there_is_replaced() {
        let (text, _) =
            decode(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"9999999","name":"p"}}"#)
                .expect("decodes");
        assert_eq!(
            text,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"123","name":"p"}}"#
        );
    }

    #[test]
    fn what_is_missing_is_added() {
        let (text, decoded) = decode(r#"{"metadata":{},"spec":{}}"#).expect("decodes");
        assert_eq!(
            text,
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"123"},"spec":{}}"#
        );
        assert!(text[decoded.of.bare as usize..].starts_with("\"metadata\""));
        let (text, decoded) = decode(r#"{"kind":"Pod","metadata":{"labels":{}}}"#).expect("decodes");
        assert_eq!(
            text,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"123","labels":{}}}"#
        );
        assert_eq!(decoded.of.bare, 0);
    }

    /// Recorded from kube-apiserver: transcripts 30 and 36.
    #[test]
    fn in_sorted_members_the_version_has_its_place() {
        let widgets = Resource::new("example.com/v1", "Widget", true, Vec::new()).sorting_members();
        for (stored, served) in [
            (
                r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"creationTimestamp":"t","generation":1,"name":"w","namespace":"n","uid":"u"},"spec":{"x":1}}"#,
                r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"creationTimestamp":"t","generation":1,"name":"w","namespace":"n","resourceVersion":"123","uid":"u"},"spec":{"x":1}}"#,
            ),
            (
                r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","selfLink":"","uid":"u"}}"#,
                r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","resourceVersion":"123","selfLink":"","uid":"u"}}"#,
            ),
            (
                r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"resourceVersion":"9","uid":"u"}}"#,
                r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"resourceVersion":"123","uid":"u"}}"#,
            ),
            (
                r#"{"metadata":{"uid":"u"}}"#,
                r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"resourceVersion":"123","uid":"u"}}"#,
            ),
            (
                r#"{"kind":"Widget","metadata":{"labels":{"a":"<"}}}"#,
                r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"labels":{"a":"\u003c"},"resourceVersion":"123"}}"#,
            ),
            (
                r#"{"metadata":{},"spec":{"d":-0}}"#,
                r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"resourceVersion":"123"},"spec":{"d":0}}"#,
            ),
        ] {
            assert_eq!(decode_as(&widgets, stored).expect(stored).0, served);
        }
    }

    #[test]
    fn texts_that_stand_in_the_message_are_not_kept_twice() {
        let labels = r#""labels":{"a":"x","b\u0061":"y"}"#;
        for (stored, beside) in [
            // The namespace and whether the network is the host's are "", the rest stands there.
            (format!(r#" {{"metadata":{{"name":"p",{labels}}},"spec":{{"nodeName":"n"}}}}"#), "ba"),
            (
                format!(
                    r#"{{"apiVersion":"v1","metadata":{{"name":"p","uid":"u","resourceVersion":"7",{labels}}},"kind":"Pod"}}"#
                ),
                "ba",
            ),
            (
                r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"},"spec":{"hostNetwork":true}}"#
                    .into(),
                "true",
            ),
            // Text that was made anew is not searched.
            ("{\"metadata\":{\n\"name\":\"p\"}}".into(), "p"),
            // A text that the message spells in another way.
            (r#"{"kind":"<","metadata":{"name":"p"},"kind":"Pod"}"#.replace("<", "P\\u006fd"), ""),
            (r#"{"metadata":{"namespace":"<","name":"p"}}"#.into(), "<"),
        ] {
            let (text, decoded) = decode(&stored).expect(&stored);
            let entries = decoded.attributes().labels_len() * 2 + 4;
            let bytes = decoded.own().bytes().len() - decoded.own().framed().len();
            assert_eq!(bytes, beside.len() + 4 * entries, "{text}");
            assert_eq!(decoded.attributes().field(FieldId::NAME), b"p");
        }
    }

    #[test]
    fn many_lines_become_one() {
        let (text, _) = decode("{\n  \"metadata\": {\n    \"name\": \"p\"\n  }\n}\n").expect("decodes");
        assert_eq!(
            text,
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","resourceVersion":"123"}}"#
        );
    }

    #[test]
    fn what_is_not_an_object_is_refused() {
        for bad in
            ["k8s\0\n\u{b}", "", "[]", "{}", r#"{"metadata":3}"#, r#"{"metadata":{}"#, "{\"metadata\":{}} x"]
        {
            assert!(decode(bad).is_err(), "{bad:?}");
        }
        assert_eq!(decode(r#"{"metadata":{"n\u0061me":"x"}}"#).err(), Some(DecodeError::EscapedName));
    }

    #[test]
    fn what_is_no_json_is_named() {
        let reason = |value: &str| decode(value).map_err(|error| error.reason()).err();
        assert_eq!(reason("k8s\0\n\u{b}"), Some(Reason::Malformed));
        assert_eq!(reason("k8s:enc:aescbc:v1:key1:\u{7f}"), Some(Reason::Encrypted));
        assert_eq!(reason("\0k8s\u{1}\u{2}"), Some(Reason::Compressed));
        assert_eq!(reason("\u{1f}"), Some(Reason::UnknownFormat));
        assert!(matches!(decode("k8s"), Err(DecodeError::NotJson(_))));
        assert_eq!(reason("[]"), Some(Reason::NotAnObject));
    }

    #[test]
    fn another_type_is_refused_by_name() {
        let other = |value: &str| match decode(value) {
            Err(
                DecodeError::OtherType { stored, expected } | DecodeError::OtherVersion { stored, expected },
            ) => (stored, expected),
            other => panic!("{value}: {other:?}"),
        };
        for (value, stored) in [
            (r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{}}"#, "v1 ConfigMap"),
            (r#"{"metadata":{},"kind":"ConfigMap"}"#, "v1 ConfigMap"),
            (r#"{"apiVersion":"v2","metadata":{}}"#, "v2 Pod"),
            (r#"{"kind":"Pods","apiVersion":"apps/v1","metadata":{}}"#, "apps/v1 Pods"),
            // Go's decoder takes the last of two members, others the first: neither may be another type.
            (r#"{"kind":"Pod","kind":"Secret","metadata":{}}"#, "v1 Secret"),
            (r#"{"kind":"Secret","kind":"Pod","metadata":{}}"#, "v1 Secret"),
            (r#"{"kind":"","metadata":{}}"#, "v1 "),
            (r#"{"kind":null,"metadata":{}}"#, "v1 (not text)"),
        ] {
            assert_eq!(other(value), (stored.to_owned(), "v1 Pod".to_owned()), "{value}");
        }
        let error = decode(r#"{"apiVersion":"v2","metadata":{}}"#).expect_err("another apiVersion");
        assert_eq!(
            error.to_string(),
            "the stored value is of type v2 Pod, this resource holds v1 Pod: migrate it to that version (write it \
             again)"
        );
        assert_eq!(error.reason(), Reason::OtherVersion);
        let error = decode(r#"{"kind":"Node","metadata":{}}"#).expect_err("another kind");
        assert_eq!(error.reason(), Reason::OtherType);
        assert!(error.to_string().ends_with("store it as v1 Pod, or under a key of its own resource"));
        let long = other(&format!(r#"{{"kind":"{}","metadata":{{}}}}"#, "x".repeat(10_000)));
        assert_eq!(long.0.len(), "v1 ".len() + NAME_SHOWN_MAX + "...".len());
        // Written in another way it is the same.
        assert!(decode(r#"{"kind":"P\u006fd","apiVersion":"v1","metadata":{}}"#).is_ok());
    }
}
