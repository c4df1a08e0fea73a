//! Stored values: the result of simd-json and our scanner, compared with serde_json and a plain edit of its tree.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use revcast_engine::change::{Batch, Change};
use revcast_engine::codec::Decoder;
use revcast_engine::encoding::JsonOnly;
use revcast_engine::key::Key;
use revcast_engine::resource::{Field, Resource, Schema};
use revcast_engine::revision::Revision;
use revcast_engine::{Object, Publisher, RingLimits, Unreadable};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

const REVISION: u64 = 77;

pub(crate) fn run(data: &[u8]) {
    let mut schema = Schema::default();
    let resource = Resource::new("v1", "Pod", true, vec![Field::at("spec.nodeName")]);
    let id = schema.add(resource.clone());
    let limits = RingLimits { events: 1024, bytes: 1 << 20 };
    let (mut publisher, _feed) =
        Publisher::new(Arc::new(schema), Arc::new(JsonOnly), limits, 1, Revision::new(REVISION - 1));
    let key = Key::new(id, Some("ns"), "name");
    let value = Bytes::copy_from_slice(data);
    let change = Change { key: key.clone(), value: Some(value.clone()) };
    let batch = Batch { revision: Revision::new(REVISION), changes: vec![change] };
    // What was read when it was checked is published as if the publisher had read it.
    let reading = Decoder::new().read(&resource, &value).ok().map(Arc::new);
    publisher.handle_batch_with(&batch, std::slice::from_ref(&reading), 0).expect("it is newer");
    let served = publisher.get(&key).expect("it is there");
    assert_eq!(reading.is_some(), served.unreadable().is_none());
    if let Some(reading) = &reading {
        let own = Object::read(&mut Decoder::new(), &resource, key, &value, Revision::new(REVISION));
        assert_eq!(own.value().bytes(), served.value().bytes());
        assert_eq!(own.attributes(), served.attributes());
        let mut shown = Vec::new();
        reading.push_json_at(&resource, Revision::new(REVISION), &mut shown);
        assert_eq!(shown, own.value().bytes());
    }
    assert!(
        served.unreadable().is_some() || is_json(data),
        "no JSON is served: {}",
        String::from_utf8_lossy(data)
    );
    let text = served.unreadable().map_or_else(|| served.value().bytes(), Unreadable::status);
    assert!(is_json(text), "it is served as {}", String::from_utf8_lossy(text));
    // Cases that the two treat differently: numbers outside the range of floats, and depth.
    let Ok(Once(expected)) = serde_json::from_slice(data) else { return };
    let object = expected.as_object().filter(|object| object.get("metadata").is_some_and(Value::is_object));
    let is_ours = |object: &serde_json::Map<String, Value>| {
        [("kind", "Pod"), ("apiVersion", "v1")]
            .iter()
            .all(|(name, ours)| object.get(*name).is_none_or(|is| is == ours))
    };
    let is_served = object.is_some_and(is_ours);
    if served.unreadable().is_some() {
        // Escaped names are not compared, and simd-json takes no integer beyond 64 bits.
        let may_be = data.contains(&b'\\')
            || data.split(|byte| !byte.is_ascii_digit()).any(|digits| digits.len() > 18);
        assert!(!is_served || may_be, "refused: {}", String::from_utf8_lossy(data));
        return;
    }
    assert!(is_served, "served: {}", String::from_utf8_lossy(data));
    assert!(!text.contains(&b'\n') && !text.contains(&b'\r'), "an object is one line");
    assert!(!text.iter().any(|byte| matches!(byte, b'&' | b'<' | b'>')), "spelled as Go does");
    let Once(found) = serde_json::from_slice(text).expect("JSON without a name twice");
    let mut wanted = expected;
    let members = wanted.as_object_mut().expect("checked");
    members.entry("kind").or_insert_with(|| "Pod".into());
    members.entry("apiVersion").or_insert_with(|| "v1".into());
    members["metadata"]["resourceVersion"] = REVISION.to_string().into();
    assert_eq!(found, wanted);
    let metadata = &wanted["metadata"];
    for (name, value) in metadata["labels"].as_object().into_iter().flatten() {
        assert_eq!(
            served.attributes().label(name.as_bytes()),
            value.as_str().map(str::as_bytes),
            "the label {name}"
        );
    }
}

/// Whether it is JSON, with any numbers. In values that it skips, serde_json limits no depth and checks no UTF-8.
fn is_json(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// A value in which no object has a name twice: readers differ about which of the two counts.
#[derive(Debug)]
struct Once(Value);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Value;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }
            fn visit_unit<E>(self) -> Result<Value, E> {
                Ok(Value::Null)
            }
            fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
                Ok(value.into())
            }
            fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
                Ok(value.into())
            }
            fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
                Ok(value.into())
            }
            fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
                Ok(value.into())
            }
            fn visit_str<E>(self, value: &str) -> Result<Value, E> {
                Ok(value.into())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
                let mut all = Vec::new();
                while let Some(Once(item)) = items.next_element()? {
                    all.push(item);
                }
                Ok(all.into())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
                let mut all = serde_json::Map::new();
                let mut seen = HashSet::new();
                while let Some((name, Once(value))) = members.next_entry::<String, Once>()? {
                    if !seen.insert(name.clone()) {
                        return Err(A::Error::custom("a name twice"));
                    }
                    all.insert(name, value);
                }
                Ok(all.into())
            }
        }
        from.deserialize_any(Any).map(Self)
    }
}
