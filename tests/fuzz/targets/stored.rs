//! Stored values in protobuf: what is served of them, compared with a plain reading of the wire, with the same object stored
//! as JSON, and with itself after the way to JSON and back.

use std::sync::OnceLock;

use bytes::Bytes;
use revcast::api::protobuf::{Release, decode, encode};
use revcast::api::resources::Registry;
use revcast_engine::Object;
use revcast_engine::codec::protobuf::wire::{Reader, WireValue, push_field, push_number};
use revcast_engine::codec::protobuf::{Envelope, Protobuf};
use revcast_engine::codec::{Decoder, Value as Kept};
use revcast_engine::key::{Key, ResourceId};
use revcast_engine::resource::Resource;
use revcast_engine::revision::Revision;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

/// The revision of the value, and that of its deletion.
const WRITTEN: u64 = 7_777;
const DELETED: u64 = 123_456_789;
/// JSON of so many times the bytes of a value, and so many bytes more: what is always shown, though it is not stored.
const JSON_TIMES_MAX: usize = 256;
const JSON_MORE: usize = 64 << 10;
/// Fields in a message that is made: more than any has.
const NUMBERS: u8 = 48;

/// A stored value, if it begins as one; JSON, if it begins with a brace; else the instructions by which a message is made.
pub(crate) fn run(data: &[u8]) {
    match data.first() {
        Some(b'k') => stored(data),
        Some(b'{') => json(data),
        Some(first) => {
            let kind = &kinds()[usize::from(*first) % kinds().len()];
            stored(&enveloped(kind, &made(&data[1..])));
        }
        None => {}
    }
}

/// Values that cost much if something costs too much: each is as long as `len`, about.
pub(crate) fn hostile(len: usize) -> Vec<Vec<u8>> {
    let kind = |plural: &str| kinds().iter().find(|kind| kind.plural == plural).expect("built in");
    let (pod, map) = (kind("pods"), kind("configmaps"));
    // 100 messages in each other; a list of empty messages; text, map entries, and fields that no type has, many times.
    let nested = (0..100).fold(vec![b'x'; len], |inner, _| {
        let mut outer = Vec::with_capacity(inner.len() + 8);
        push_field(&mut outer, 2, &inner);
        outer
    });
    let times = |field: &[u8]| field.repeat(len / field.len());
    let of_spec = |field: &[u8]| {
        let mut spec = Vec::new();
        push_field(&mut spec, 2, &times(field));
        spec
    };
    let entries: Vec<u8> =
        (0..len / 10).flat_map(|at| format!("\x12\x08\x0a\x04{at:04}\x12\0").into_bytes()).collect();
    // Two lists that alternate: each part is looked at once for both.
    let alternating = of_spec(b"\x0a\0\x12\0\x3a\0");
    let lengths = [
        &b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"[..],
        b"\x0a\xff\xff\xff\xff\x0f",
        b"\x0a\x80\x80\x80\x01",
    ];
    let mut all = vec![enveloped(pod, &nested), enveloped(map, &entries), enveloped(pod, &alternating)];
    all.extend([&b"\x12\0"[..], b"\x12\x02\x0a\0"].map(|field| enveloped(pod, &of_spec(field))));
    all.extend(lengths.map(|field| enveloped(pod, &of_spec(field))));
    all.extend(lengths.map(|field| [b"k8s\0", field, &times(b"x")].concat()));
    all.push(enveloped(map, &times(b"\xf8\x7f\x01")));
    all.push([b"k8s\0", &times(b"\x0a\0")[..]].concat());
    all
}

/// The kinds whose messages are known.
fn kinds() -> &'static [Resource] {
    static KINDS: OnceLock<Vec<Resource>> = OnceLock::new();
    KINDS.get_or_init(|| {
        let schema = Registry::builtin().schema();
        let rows = (0..schema.len()).map(|row| ResourceId::new(u16::try_from(row).expect("few rows")));
        let all = rows.map(|row| schema.get(row).clone());
        all.filter(|resource| resource.message.is_some()).collect()
    })
}

fn enveloped(kind: &Resource, message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    if !matches!(Reader::new(&message).next(), Ok(Some((1, _)))) {
        message.splice(0..0, *b"\x0a\0");
    }
    let mut value = Vec::new();
    let types = (kind.api_version.as_str(), kind.kind.as_str());
    Envelope::push(&mut value, types, message.len(), |out| out.extend_from_slice(&message));
    value
}

/// A message that is whole, whatever the instructions are: numbers, text, and messages in it.
fn made(mut rest: &[u8]) -> Vec<u8> {
    let mut open: Vec<(u32, Vec<u8>)> = vec![(0, Vec::new())];
    let close = |open: &mut Vec<(u32, Vec<u8>)>| {
        if open.len() > 1
            && let Some((number, inner)) = open.pop()
            && let Some((_, outer)) = open.last_mut()
        {
            push_field(outer, number, &inner);
        }
    };
    while let [what, with, after @ ..] = rest {
        rest = after;
        let number = u32::from(1 + what % NUMBERS);
        let Some((_, inner)) = open.last_mut() else { break };
        match with >> 5 {
            0 | 1 => push_number(inner, number, u64::from(*with)),
            2 => push_number(inner, number, u64::MAX - u64::from(*with)),
            3 => {
                let (text, after) = rest.split_at(rest.len().min(usize::from(with & 31)));
                push_field(inner, number, text);
                rest = after;
            }
            4..=6 => open.push((number, Vec::new())),
            _ => close(&mut open),
        }
    }
    while open.len() > 1 {
        close(&mut open);
    }
    open.pop().map(|(_, message)| message).unwrap_or_default()
}

/// A value as a store holds it.
fn stored(value: &[u8]) {
    let envelope = Envelope::read(value).ok();
    let types = envelope.map(|envelope| (envelope.api_version, envelope.kind));
    let of_type = kinds().iter().find(|kind| types == Some((&kind.api_version, &kind.kind)));
    let kind = of_type.unwrap_or_else(|| &kinds()[0]);
    let served = read(kind, value);
    if let Some(why) = served.unreadable() {
        assert!(is_json(why.status()), "its Status is JSON");
        let without = why.error().to_string().contains("metadata");
        assert!(
            of_type.is_none() || without || decode(Release::DEFAULT, value).is_err(),
            "a client may send it: {why:?}"
        );
        return;
    }
    let (Kept::Protobuf(of), Some(envelope)) = (served.value(), envelope) else {
        panic!("it is kept as it is stored")
    };
    let completed = of_type.and_then(|kind| kind.message.as_ref()?.completed(envelope.message));
    let stored = completed.as_deref().unwrap_or(envelope.message);
    let (was, is) = (parts(stored), parts(of.envelope().message));
    assert_eq!(was.others, is.others, "only the revision, and what decoding fills in, differ");
    assert_eq!(is.version, [WRITTEN.to_string().into_bytes()], "its revision is there once");
    let shown = of.json().into_owned();
    assert!(
        shown.len() <= value.len() * JSON_TIMES_MAX + JSON_MORE,
        "{} bytes of {}",
        shown.len(),
        value.len()
    );
    let of_text: Shown = serde_json::from_slice(&shown).expect("it is shown as JSON");
    assert_eq!(of_text.metadata.resource_version, WRITTEN.to_string());
    deleted(of, &shown);
    as_json(kind, &served, &shown);
    again(&shown);
}

/// What is read of a shown object.
#[derive(serde::Deserialize)]
struct Shown {
    metadata: Metadata,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
}

/// A deleted object is the same with another revision.
fn deleted(of: Protobuf<'_>, shown: &[u8]) {
    let mut last = Vec::new();
    of.push_at(&mut last, Revision::new(DELETED));
    let is = parts(Envelope::read(&last).expect("an envelope").message);
    assert_eq!(is.others, parts(of.envelope().message).others);
    assert_eq!(is.version, [DELETED.to_string().into_bytes()]);
    let (mut text, version) = (Vec::new(), |of: u64| format!("\"resourceVersion\":\"{of}\""));
    of.push_json_at(&mut text, Revision::new(DELETED));
    let shown = String::from_utf8_lossy(shown);
    assert!(
        String::from_utf8_lossy(&text).len() == shown.len() + 5
            && text.windows(30).any(|part| part.starts_with(version(DELETED).as_bytes()))
    );
}

/// Selectors see the same in its JSON.
fn as_json(kind: &Resource, served: &Object, shown: &[u8]) {
    let same = read(kind, shown);
    match same.unreadable() {
        None => assert_eq!(served.attributes(), same.attributes(), "{}", String::from_utf8_lossy(shown)),
        // Names with escapes are not compared, and numbers must be floats.
        Some(why) => assert!(
            shown.contains(&b'\\') || serde_json::from_slice::<Value>(shown).is_err(),
            "{why:?}: {}",
            String::from_utf8_lossy(shown)
        ),
    }
}

/// JSON has one form in protobuf, and that has one form in JSON.
fn again(shown: &[u8]) {
    let Ok(first) = encode(Release::DEFAULT, shown) else { return };
    let once = decode(Release::DEFAULT, &first).expect("what is written here can be read").json;
    assert!(is_alike(shown, &once), "{}\n{}", String::from_utf8_lossy(shown), String::from_utf8_lossy(&once));
    let second = encode(Release::DEFAULT, &once).expect("it was written before");
    assert!(first == second, "{}", String::from_utf8_lossy(&once));
}

/// An object in JSON, as a client sends it.
fn json(text: &[u8]) {
    let Ok(first) = encode(Release::DEFAULT, text) else { return };
    assert!(first.len() <= text.len() * 8 + JSON_MORE, "{} bytes of {}", first.len(), text.len());
    // JSON within it is kept as it was sent, and shown with Go's escapes.
    again(&decode(Release::DEFAULT, &first).expect("what is written here can be read").json);
}

/// Whether two objects are equal but for the text of quantities and times, which have several forms, and for a pointer to
/// nothing: it is shown as null, which stands for no pointer.
fn is_alike(one: &[u8], other: &[u8]) -> bool {
    fn alike(one: &Value, other: &Value) -> bool {
        match (one, other) {
            (Value::Object(one), Value::Object(other)) => {
                let within = |few: &Map<String, Value>, all: &Map<String, Value>| {
                    few.iter().all(|(name, value)| alike(value, all.get(name).unwrap_or(&Value::Null)))
                };
                within(one, other) && within(other, one)
            }
            (Value::Array(one), Value::Array(other)) => {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| alike(one, other))
            }
            (Value::String(one), Value::String(other)) => {
                let begins = |text: &str| text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
                one == other || (begins(one) && begins(other))
            }
            _ => one == other,
        }
    }
    // Numbers out of the range of floats are JSON, and no tree.
    match (serde_json::from_slice(one), serde_json::from_slice(other)) {
        (Ok(one), Ok(other)) => alike(&one, &other),
        _ => true,
    }
}

fn read(kind: &Resource, value: &[u8]) -> Object {
    let namespace = kind.namespaced.then_some("ns");
    let key = Key::new(ResourceId::new(0), namespace, "name");
    Object::read(&mut Decoder::new(), kind, key, &Bytes::copy_from_slice(value), Revision::new(WRITTEN))
}

/// The fields of a message and of its metadata, but for the revision.
#[derive(Debug, Default, PartialEq, Eq)]
struct Parts {
    others: Vec<(u32, Vec<u8>)>,
    version: Vec<Vec<u8>>,
}

fn parts(message: &[u8]) -> Parts {
    let mut parts = Parts::default();
    let fields = |message: &[u8], take: &mut dyn FnMut(u32, WireValue<'_>, Vec<u8>)| {
        let mut reader = Reader::new(message);
        while let Some((number, wire)) = reader.next().expect("it was read") {
            let bytes = match wire {
                WireValue::Bytes(bytes) => bytes.to_vec(),
                WireValue::Varint(value) | WireValue::Fixed64(value) => value.to_be_bytes().to_vec(),
            };
            take(number, wire, bytes);
        }
    };
    fields(message, &mut |number, wire, bytes| match (number, wire) {
        (1, WireValue::Bytes(metadata)) => fields(metadata, &mut |number, _, bytes| match number {
            6 => parts.version.push(bytes),
            _ => parts.others.push((100 + number, bytes)),
        }),
        _ => parts.others.push((number, bytes)),
    });
    parts
}

fn is_json(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}
