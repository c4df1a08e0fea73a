//! Decode: from a stored value to the bytes that are served and the attributes that selectors see.
//!
//! - `revcast`: what the publisher does. simd-json's tape for labels and fields, the value copied once into its message, with
//!   `metadata.resourceVersion` spliced in.
//! - `to_value`: the same with serde_json as most would: a `Value`, its version set, written again.
//! - `raw_members`: serde_json that parses no more than it must: top and metadata as maps of raw texts, the version put in,
//!   written again; labels and fields by typed reading.
//! - `typed_read`: serde_json reads labels and fields and nothing is made to be served: the least that reading costs with it.
//!
//! The first three make a message's object with the same members, which is asserted. `many_lines` is an object as a person
//! writes one, which is brought onto one line first.

mod support;

use std::collections::BTreeMap;
use std::hint::black_box;

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use revcast_engine::Object;
use revcast_engine::codec::Decoder;
use revcast_engine::key::{Key, ResourceId};
use revcast_engine::revision::Revision;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

const SIZES: [usize; 3] = [1024, 8 * 1024, 100 * 1024];
const REVISION: u64 = 123_456_789;

/// Labels, fields, and the bytes to be served.
type Made = (Vec<(String, String)>, [String; 2], Vec<u8>);

#[derive(Deserialize)]
struct Typed {
    metadata: TypedMetadata,
    #[serde(default)]
    spec: TypedSpec,
    #[serde(default)]
    status: TypedStatus,
}

#[derive(Deserialize)]
struct TypedMetadata {
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TypedSpec {
    #[serde(default)]
    node_name: String,
}

#[derive(Default, Deserialize)]
struct TypedStatus {
    #[serde(default)]
    phase: String,
}

fn typed_read(value: &[u8]) -> ([String; 2], BTreeMap<String, String>) {
    let typed: Typed = serde_json::from_slice(value).expect("an object");
    ([typed.spec.node_name, typed.status.phase], typed.metadata.labels)
}

fn to_value(value: &[u8]) -> Made {
    let mut object: Value = serde_json::from_slice(value).expect("an object");
    object["metadata"]["resourceVersion"] = REVISION.to_string().into();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    let labels = labels.map(|(key, value)| (key.clone(), text(value))).collect();
    let fields = [text(&object["spec"]["nodeName"]), text(&object["status"]["phase"])];
    (labels, fields, serde_json::to_vec(&object).expect("it is JSON"))
}

fn raw_members(value: &[u8]) -> Made {
    let (fields, labels) = typed_read(value);
    let mut top: BTreeMap<&str, &RawValue> = serde_json::from_slice(value).expect("an object");
    let mut metadata: BTreeMap<&str, &RawValue> =
        serde_json::from_str(top["metadata"].get()).expect("an object");
    let version = RawValue::from_string(format!("\"{REVISION}\"")).expect("a string");
    metadata.insert("resourceVersion", &version);
    let metadata = serde_json::value::to_raw_value(&metadata).expect("it is JSON");
    top.insert("metadata", &metadata);
    (labels.into_iter().collect(), fields, serde_json::to_vec(&top).expect("it is JSON"))
}

/// Objects of about `bytes` that are made of different stuff.
fn shapes(bytes: usize) -> [(&'static str, Bytes); 3] {
    let with = |rest: &str| {
        let text = format!(
            r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"pod-1","namespace":"default","uid":"3f1c7c1e-6f0d-4d39-9d8e-0a5d2d1f7b11","labels":{{"app":"web","tier":"front","track":"stable"}}}},"spec":{{"nodeName":"node-1","rest":{rest}}},"status":{{"phase":"Running"}}}}"#
        );
        text.into_bytes()
    };
    let filled = |item: &str, between: &str| {
        let items = (bytes.saturating_sub(300) / (item.len() + between.len())).max(1);
        vec![item; items].join(between)
    };
    let nested = support::value("pod-1", "node-1", bytes);
    // A program or a certificate in a ConfigMap: one long text, with lines.
    let text = with(&format!("\"{}\"", filled(r#"  - echo \"hello\" >> /tmp/out # and more text\n"#, "")));
    let numbers = with(&format!("[{}]", filled("1024,0.25,-17,true", ",")));
    [("nested", nested), ("text", text.into()), ("numbers", numbers.into())]
}

fn decoding(c: &mut Criterion) {
    let resource = support::pod();
    let key = Key::new(ResourceId::new(0), Some("default"), "pod-1");
    let mut decoder = Decoder::new();
    let mut ours =
        |value: &Bytes| Object::read(&mut decoder, &resource, key.clone(), value, Revision::new(REVISION));
    for bytes in SIZES {
        for (shape, value) in shapes(bytes) {
            assert!(value.len().abs_diff(bytes) < 300, "{shape} of {bytes} has {}", value.len());
            let wanted: Value = serde_json::from_slice(&to_value(&value).2).expect("JSON");
            let object = ours(&value);
            assert!(object.unreadable().is_none(), "{shape}");
            assert_eq!(object.attributes().label(b"tier"), Some(&b"front"[..]));
            for made in [object.value().bytes(), &raw_members(&value).2] {
                assert_eq!(
                    serde_json::from_slice::<Value>(made).expect("JSON"),
                    wanted,
                    "{shape} of {bytes}"
                );
            }
            let (labels, fields, _) = to_value(&value);
            assert_eq!((labels.len(), &fields), (3, &["node-1".to_owned(), "Running".to_owned()]));
            assert_eq!(typed_read(&value).0, fields);

            let mut group = c.benchmark_group(format!("decode/{shape}"));
            group.throughput(Throughput::Bytes(value.len() as u64));
            group.bench_function(BenchmarkId::new("revcast", bytes), |b| b.iter(|| ours(black_box(&value))));
            group.bench_function(BenchmarkId::new("to_value", bytes), |b| {
                b.iter(|| to_value(black_box(&value)))
            });
            group.bench_function(BenchmarkId::new("raw_members", bytes), |b| {
                b.iter(|| raw_members(black_box(&value)));
            });
            group.bench_function(BenchmarkId::new("typed_read", bytes), |b| {
                b.iter(|| typed_read(black_box(&value)));
            });
        }
    }
    let mut group = c.benchmark_group("decode/many_lines");
    let lines = String::from_utf8_lossy(&support::value("pod-1", "node-1", 1024)).replace(',', ",\n  ");
    let lines = Bytes::from(lines);
    assert!(ours(&lines).value().bytes().iter().all(|&byte| byte != b'\n'));
    group.throughput(Throughput::Bytes(lines.len() as u64));
    group.bench_function(BenchmarkId::new("revcast", 1024), |b| b.iter(|| ours(black_box(&lines))));
}

criterion_group!(benches, decoding);
criterion_main!(benches);
