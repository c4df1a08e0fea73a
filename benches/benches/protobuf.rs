//! Objects that are stored in protobuf: what reading one costs, and making its JSON.
//!
//! - `read/protobuf`, `read/json`: what the publisher does with the same Pod, stored in either form: labels, fields and the
//!   message that is served.
//! - `json/revcast`: the JSON of the object that was read, as it is made once an event for those who want JSON.
//! - `json/to_vec`: serde_json writes the same object from a `Value` that was parsed before: what writing alone costs where
//!   the object is at hand as a tree.
//!
//! Throughput is that of the bytes that are read, and of the JSON that is made. `pod` is a running Pod of 4 KiB with managed
//! fields, as a Deployment has them; `settings` are 4 KiB and 64 KiB of a ConfigMap with many short texts.

mod support;

use std::hint::black_box;

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use revcast::api::protobuf::{Release, StoredType, encode};
use revcast_engine::Object;
use revcast_engine::codec::{Decoder, Value};
use revcast_engine::key::{Key, ResourceId};
use revcast_engine::message_type::SharedType;
use revcast_engine::resource::{Field, Resource};
use revcast_engine::revision::Revision;

const REVISION: u64 = 123_456_789;

/// A Pod as a cluster has it.
const POD: &str = include_str!("support/pod.json");

/// A ConfigMap of about `bytes`.
fn settings(bytes: usize) -> String {
    let settings: Vec<String> = (0..bytes / 64)
        .map(|number| format!(r#""server.setting-{number:05}":"a value of an ordinary length {number:05}""#))
        .collect();
    format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"settings","namespace":"shop"}},"data":{{{}}}}}"#,
        settings.join(",")
    )
}

fn resource(kind: &str, fields: &[Field]) -> Resource {
    let of = StoredType::new(Release::DEFAULT, "v1", kind, fields).expect("the tables have it");
    Resource::new("v1", kind, true, fields.to_vec()).with_message(SharedType::new(of))
}

fn json_of(object: &Object) -> Vec<u8> {
    let mut json = Vec::new();
    push_json(&mut json, object);
    json
}

fn push_json(out: &mut Vec<u8>, object: &Object) {
    let Value::Protobuf(protobuf) = object.value() else { panic!("it is not kept in protobuf") };
    protobuf.push_json(out);
}

fn protobuf(c: &mut Criterion) {
    let pods = resource("Pod", &[Field::at("spec.nodeName"), Field::at("status.phase")]);
    let maps = resource("ConfigMap", &[]);
    let cases = [
        ("pod", &pods, POD.trim_end().to_owned()),
        ("settings", &maps, settings(4 << 10)),
        ("settings", &maps, settings(64 << 10)),
    ];
    let key = Key::new(ResourceId::new(0), Some("shop"), "it");
    let mut decoder = Decoder::new();
    for (name, resource, json) in cases {
        let stored = Bytes::from(encode(Release::DEFAULT, json.as_bytes()).expect("it has such a form"));
        let json = Bytes::from(json);
        let mut read =
            |value: &Bytes| Object::read(&mut decoder, resource, key.clone(), value, Revision::new(REVISION));
        let object = read(&stored);
        let made = json_of(&object);
        let mut expected: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        expected["metadata"]["resourceVersion"] = REVISION.to_string().into();
        let tree: serde_json::Value = serde_json::from_slice(&made).expect("JSON");
        assert_eq!(tree, expected, "{name}");

        let size = json.len();
        let mut group = c.benchmark_group(format!("protobuf/{name}/read"));
        for (form, value) in [("protobuf", &stored), ("json", &json)] {
            group.throughput(Throughput::Bytes(value.len() as u64));
            group.bench_function(BenchmarkId::new(form, size), |b| b.iter(|| read(black_box(value))));
        }
        group.finish();
        let mut group = c.benchmark_group(format!("protobuf/{name}/json"));
        group.throughput(Throughput::Bytes(made.len() as u64));
        let mut out = Vec::with_capacity(made.len());
        group.bench_function(BenchmarkId::new("revcast", size), |b| {
            b.iter(|| {
                out.clear();
                push_json(&mut out, black_box(&object));
                out.len()
            });
        });
        group.bench_function(BenchmarkId::new("to_vec", size), |b| {
            b.iter(|| {
                out.clear();
                serde_json::to_writer(&mut out, black_box(&tree)).expect("a Vec takes all");
                out.len()
            });
        });
    }
}

criterion_group!(benches, protobuf);
criterion_main!(benches);
