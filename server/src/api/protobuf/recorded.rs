//! What a kube-apiserver 1.36 stored and served: recording 30.

use std::io::Read;

use base64::Engine;
use flate2::read::GzDecoder;
use revcast_engine::Object;
use revcast_engine::codec::Decoder;
use revcast_engine::codec::protobuf::Envelope;
use revcast_engine::key::{Key, ResourceId};
use revcast_engine::message_type::{MessageType, SharedType};
use revcast_engine::resource::Resource;
use revcast_engine::revision::Revision;
use serde::Deserialize;

use super::from_json;
use super::{Release, StoredType, decode, encode, unknown_members};
use crate::api::resources::Registry;

const RECORDED: &[u8] = include_bytes!("../../../tests/fixtures/recorded/30-storage-protobuf.jsonl.gz");

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::api) struct Line {
    pub(in crate::api) kind: String,
    pub(in crate::api) api_version: String,
    pub(in crate::api) resource: String,
    pub(in crate::api) name: String,
    #[serde(rename = "stored_apiVersion")]
    pub(in crate::api) stored_api_version: String,
    #[serde(rename = "etcd_mod_revision")]
    revision: u64,
    #[serde(rename = "etcd_value_base64")]
    value: String,
    json: String,
    #[serde(rename = "pb_base64", default)]
    served: String,
}

impl Line {
    /// The stored value.
    fn value(&self) -> Vec<u8> {
        base64::engine::general_purpose::STANDARD.decode(&self.value).expect("base64")
    }

    /// The JSON that was served, without the revision.
    pub(in crate::api) fn json(&self) -> String {
        self.json.trim_end().replacen(&format!("\"resourceVersion\":\"{}\",", self.revision), "", 1)
    }

    /// The JSON that we make of the stored value.
    pub(in crate::api) fn made_json(&self) -> String {
        let value = self.value();
        let Envelope { api_version, kind, message } = Envelope::read(&value).expect("an envelope");
        let of = of(self);
        assert!(of.read(message).is_ok(), "{} {}", self.kind, self.name);
        let mut json = format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\"").into_bytes();
        of.push_members(&mut json, message);
        json.push(b'}');
        String::from_utf8(json).expect("JSON is UTF-8")
    }
}

/// Every object in every version.
pub(in crate::api) fn all_lines() -> Vec<Line> {
    let mut text = String::new();
    GzDecoder::new(RECORDED).read_to_string(&mut text).expect("it is gzip");
    text.lines().map(|line| serde_json::from_str(line).expect("a line")).collect()
}

/// The objects that are stored in protobuf, in the version that they were asked in.
pub(in crate::api) fn stored() -> Vec<Line> {
    let own = |line: &Line| line.api_version == line.stored_api_version && line.value().starts_with(b"k8s\0");
    all_lines().into_iter().filter(own).collect()
}

fn of(line: &Line) -> StoredType {
    StoredType::new(Release::DEFAULT, &line.api_version, &line.kind, &[]).expect("its type is known")
}

/// Objects whose stored form has text that was sent with spaces between its parts, which are not served.
const SPACED: [&str; 5] = [
    "ControllerRevision minimal",
    "ControllerRevision rich",
    "ControllerRevision empties",
    "ControllerRevision deleting",
    "ResourceClaim status",
];

fn is_in(known: &[&str], line: &Line) -> bool {
    let variant = line.name.split('-').next().unwrap_or_default();
    known.contains(&format!("{} {variant}", line.kind).as_str())
}

#[test]
fn stored_objects_have_the_json_that_was_served() {
    let all = stored();
    assert_eq!(all.len(), 266);
    for line in &all {
        let value = line.value();
        let Envelope { api_version, kind, message } = Envelope::read(&value).expect("an envelope");
        let of = of(line);
        let completed = of.completed(message);
        let message = completed.as_deref().unwrap_or(message);
        assert!(of.read(message).is_ok(), "{} {}", line.kind, line.name);
        let mut json = format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\"").into_bytes();
        of.push_members(&mut json, message);
        json.push(b'}');
        assert_eq!(String::from_utf8_lossy(&json), line.json(), "{} {}", line.kind, line.name);
    }
}

/// In protobuf an object is served as it is stored, with the revision and what is filled in: byte for byte.
#[test]
fn stored_objects_have_the_protobuf_that_was_served() {
    for line in &stored() {
        let of = StoredType::new(Release::DEFAULT, &line.api_version, &line.kind, &[]);
        let resource = Resource::new(&line.api_version, &line.kind, true, Vec::new())
            .with_message(SharedType::new(of.expect("its type is known")));
        let key = Key::new(ResourceId::new(0), Some("rec"), &line.name);
        let object = Object::read(
            &mut Decoder::new(),
            &resource,
            key,
            &line.value().into(),
            Revision::new(line.revision),
        );
        let served = base64::engine::general_purpose::STANDARD.decode(&line.served).expect("base64");
        assert!(object.shared_protobuf().is_some_and(|ours| ours == served), "{} {}", line.kind, line.name);
    }
}

#[test]
fn the_json_that_was_served_has_the_form_that_was_stored() {
    let (mut different, mut spaced) = (Vec::new(), 0);
    for line in &stored() {
        let value = line.value();
        let message = Envelope::read(&value).expect("an envelope").message;
        let of = of(line);
        let (types, id) = of.message();
        let mut made = Vec::new();
        let encoded = from_json::push_message(&mut made, types, id, &line.json());
        let completed = of.completed(message);
        let is_equal = made == completed.as_deref().unwrap_or(message);
        if is_in(&SPACED, line) {
            // The same but for the spaces.
            let (mut ours, mut theirs) = (b"{".to_vec(), b"{".to_vec());
            of.push_members(&mut ours, &made);
            of.push_members(&mut theirs, message);
            assert!(!is_equal && ours == theirs, "{} {}", line.kind, line.name);
            spaced += 1;
        } else if encoded.is_err() || !is_equal {
            different.push(format!("{} {}: {encoded:?}", line.kind, line.name));
        }
    }
    assert!(different.is_empty(), "{different:#?}");
    assert_eq!(spaced, SPACED.len());
}

#[test]
fn stored_objects_have_members_that_their_types_have() {
    for line in &stored() {
        let object: serde_json::Map<_, _> = serde_json::from_str(&line.json()).expect("an object");
        let unknown = unknown_members(Release::DEFAULT, &line.api_version, &line.kind, &object);
        assert!(unknown.is_empty(), "{} {}: {unknown:?}", line.kind, line.name);
    }
}

/// Definitions and API services are stored in JSON, and served in both.
#[test]
fn definitions_and_api_services_have_the_protobuf_that_was_served() {
    let kinds = ["CustomResourceDefinition", "APIService"];
    let mut compared = 0;
    for line in all_lines().iter().filter(|line| kinds.contains(&line.kind.as_str())) {
        let served = base64::engine::general_purpose::STANDARD.decode(&line.served).expect("base64");
        let ours = encode(Release::DEFAULT, line.json.as_bytes()).expect("it has a form");
        assert!(ours == served, "{} {}: {ours:?} {served:?}", line.kind, line.name);
        let back = decode(Release::DEFAULT, &served).expect("it is read").json;
        assert_eq!(String::from_utf8_lossy(&back), line.json.trim_end(), "{} {}", line.kind, line.name);
        compared += 1;
    }
    assert_eq!(compared, 8);
}

/// Selectors find the same in an object, however it is stored.
#[test]
fn stored_objects_have_the_attributes_of_their_json() {
    let registry = Registry::builtin();
    let schema = registry.schema();
    let mut compared = 0;
    for line in &stored() {
        let found =
            registry.iter().find(|known| known.kind == line.kind && known.api_version() == line.api_version);
        let Some(known) = found else { continue };
        let resource = schema.get(known.row);
        let read = |value: Vec<u8>| {
            let key = Key::new(known.row, known.namespaced.then_some("rec"), &line.name);
            Object::read(&mut Decoder::new(), resource, key, &value.into(), Revision::new(1))
        };
        let (packed, json) = (read(line.value()), read(line.json().into_bytes()));
        assert!(packed.unreadable().is_none() && json.unreadable().is_none(), "{} {}", line.kind, line.name);
        assert_eq!(packed.attributes(), json.attributes(), "{} {}", line.kind, line.name);
        compared += 1;
    }
    assert!(compared > 200, "{compared}");
}
