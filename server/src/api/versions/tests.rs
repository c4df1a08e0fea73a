//! Every version of every object of recording 30: what a kube-apiserver 1.36 served of what it had stored.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use base64::Engine;
use bytes::Bytes;
use flate2::read::GzDecoder;
use revcast_engine::Object;
use revcast_engine::codec::{Decoder, Value as StoredValue};
use revcast_engine::key::Key;
use revcast_engine::revision::Revision;
use serde::Deserialize;

use super::{Conversion, Type};
use crate::api::protobuf::{self, Release};
use crate::api::resources::{ApiResource, Registry};

const RECORDED: &[u8] = include_bytes!("../../../tests/fixtures/recorded/30-storage-protobuf.jsonl.gz");

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    kind: String,
    api_version: String,
    name: String,
    namespace: Option<String>,
    variant: String,
    #[serde(rename = "stored_apiVersion")]
    stored_api_version: String,
    #[serde(rename = "etcd_mod_revision")]
    revision: u64,
    #[serde(rename = "etcd_value_base64")]
    value: String,
    json: String,
    #[serde(rename = "pb_base64", default)]
    protobuf: Option<String>,
}

impl Line {
    fn value(&self) -> Bytes {
        base64::engine::general_purpose::STANDARD.decode(&self.value).expect("base64").into()
    }

    fn protobuf(&self) -> Option<Vec<u8>> {
        let text = self.protobuf.as_deref().filter(|text| !text.is_empty())?;
        Some(base64::engine::general_purpose::STANDARD.decode(text).expect("base64"))
    }

    fn is_in(&self, known: &[&str]) -> bool {
        let Self { api_version, kind, variant, .. } = self;
        known.contains(&format!("{api_version} {kind} {variant}").as_str())
    }
}

fn lines() -> Vec<Line> {
    let mut text = String::new();
    GzDecoder::new(RECORDED).read_to_string(&mut text).expect("it is gzip");
    text.lines().map(|line| serde_json::from_str(line).expect("a line")).collect()
}

/// Objects with JSON in them that was sent with spaces between its parts: what is made of the JSON has none.
const SPACED: [&str; 1] = ["resource.k8s.io/v1beta1 ResourceClaim status"];

/// What differs between a recorded object and the same object made of what was stored.
fn differences(line: &Line, registry: &Registry, resource: &ApiResource) -> Vec<&'static str> {
    let schema = registry.schema();
    let key = Key::new(resource.row, line.namespace.as_deref(), &line.name);
    let row = schema.get(resource.row);
    let object = Object::read(&mut Decoder::new(), row, key, &line.value(), Revision::new(line.revision));
    let Some(json) = object.value().json() else { return vec!["unreadable"] };
    let mut differ = Vec::new();
    let shown = resource.show(json.clone()).expect("a form in this version");
    if String::from_utf8_lossy(&shown) != line.json.trim_end() {
        differ.push("JSON");
    }
    let kept = match object.value() {
        StoredValue::Protobuf(kept) => Some(kept.object()),
        StoredValue::Json(_) | StoredValue::Opaque(_) | StoredValue::Unreadable(..) => None,
    };
    // The types of CustomResourceDefinition and APIService are not known here: they are asked for in JSON.
    if let Some(recorded) =
        line.protobuf().filter(|_| protobuf::has_type(Release::DEFAULT, &line.api_version, &line.kind))
        && *resource.pack(kept, || json).expect("a form in protobuf") != recorded
    {
        differ.push("protobuf");
    }
    differ
}

#[test]
fn every_recorded_version_is_made_of_what_is_stored() {
    let registry = Registry::builtin();
    let (mut views, mut equal, mut packed, mut different) = (BTreeSet::new(), 0, 0, Vec::new());
    let lines = lines();
    for line in &lines {
        let mut found = registry.iter();
        let found = found.find(|of| of.kind == line.kind && of.api_version() == line.api_version);
        let Some(resource) = found else {
            assert_eq!(line.kind, "Widget", "{} {}", line.api_version, line.kind);
            continue;
        };
        views.insert((&line.kind, &line.api_version));
        let differ = differences(line, &registry, resource);
        let expected: &[&str] = match line {
            _ if line.is_in(&SPACED) => &["protobuf"],
            _ => &[],
        };
        if differ == expected {
            equal += usize::from(expected.is_empty());
            packed += usize::from(line.protobuf().is_some());
        } else {
            different.push(format!("{} {} {}: {differ:?}", line.api_version, line.kind, line.variant));
        }
    }
    assert!(different.is_empty(), "{different:#?}");
    assert_eq!((views.len(), equal), (81, 354));
    assert!(packed > 300, "{packed} in protobuf");
}

/// The other four of the 85 recorded versions: custom resources that are not converted.
#[test]
fn custom_resources_differ_in_their_version_only() {
    let mut versions = BTreeMap::new();
    for line in lines().iter().filter(|line| line.kind == "Widget") {
        let to = Type { api_version: &line.api_version, kind: &line.kind, release: Release::DEFAULT };
        let is_stored = line.api_version == line.stored_api_version;
        let conversion = if is_stored { Conversion::Kept } else { Conversion::Renamed };
        let value = line.value();
        let shown = conversion.json(to, Cow::Borrowed(value.trim_ascii())).expect("a form");
        // Decoding and encoding makes 0 of -0; here a number stays what it is.
        let shown = String::from_utf8_lossy(&shown).replacen("\"d\":-0,", "\"d\":0,", 1);
        let recorded = line.json.replacen(&format!("\"resourceVersion\":\"{}\",", line.revision), "", 1);
        assert_eq!(shown, recorded.trim_end(), "{} {}", line.api_version, line.name);
        *versions.entry(line.api_version.clone()).or_insert(0) += 1;
    }
    assert_eq!(versions.values().sum::<i32>(), 12);
    assert_eq!(versions.len(), 4);
}

/// Which versions are shown without parsing anything, and which are rewritten. None is missing.
#[test]
fn every_built_in_version_has_a_conversion() {
    let registry = Registry::builtin();
    let (mut renamed, mut rewritten) = (Vec::new(), Vec::new());
    for resource in registry.iter() {
        let kept = registry.get(resource.row).expect("its row").api_version();
        let name = format!("{} {} of {kept}", resource.api_version(), resource.kind);
        match resource.conversion {
            Conversion::Kept => {}
            Conversion::Renamed => renamed.push(name),
            Conversion::Rewritten(..) => rewritten.push(name),
            Conversion::AsStored | Conversion::Missing => panic!("{name} has no conversion"),
        }
    }
    let same = [
        "certificates.k8s.io/v1alpha1 ClusterTrustBundle of certificates.k8s.io/v1beta1",
        "networking.k8s.io/v1beta1 IPAddress of networking.k8s.io/v1",
        "networking.k8s.io/v1beta1 ServiceCIDR of networking.k8s.io/v1",
        "storage.k8s.io/v1beta1 VolumeAttributesClass of storage.k8s.io/v1",
        "admissionregistration.k8s.io/v1beta1 MutatingAdmissionPolicy of admissionregistration.k8s.io/v1",
        "admissionregistration.k8s.io/v1alpha1 MutatingAdmissionPolicy of admissionregistration.k8s.io/v1",
        "admissionregistration.k8s.io/v1beta1 MutatingAdmissionPolicyBinding of admissionregistration.k8s.io/v1",
        "admissionregistration.k8s.io/v1alpha1 MutatingAdmissionPolicyBinding of admissionregistration.k8s.io/v1",
        "coordination.k8s.io/v1alpha2 LeaseCandidate of coordination.k8s.io/v1beta1",
        "resource.k8s.io/v1beta2 DeviceTaintRule of resource.k8s.io/v1alpha3",
        "resource.k8s.io/v1beta2 DeviceClass of resource.k8s.io/v1",
        "resource.k8s.io/v1beta1 DeviceClass of resource.k8s.io/v1",
        "resource.k8s.io/v1beta2 ResourceClaim of resource.k8s.io/v1",
        "resource.k8s.io/v1beta2 ResourceClaimTemplate of resource.k8s.io/v1",
        "resource.k8s.io/v1beta2 ResourceSlice of resource.k8s.io/v1",
    ];
    assert_eq!(renamed, same);
    let by_hand = [
        "events.k8s.io/v1 Event of v1",
        "autoscaling/v1 HorizontalPodAutoscaler of autoscaling/v2",
        "resource.k8s.io/v1beta1 ResourceClaim of resource.k8s.io/v1",
        "resource.k8s.io/v1beta1 ResourceClaimTemplate of resource.k8s.io/v1",
        "resource.k8s.io/v1beta1 ResourceSlice of resource.k8s.io/v1",
    ];
    assert_eq!(rewritten, by_hand);
}

#[test]
fn a_version_without_a_conversion_says_so() {
    let to = Type { api_version: "v2", kind: "ConfigMap", release: Release::DEFAULT };
    let conversion = Conversion::between(Release::DEFAULT, "v1", "v2", "ConfigMap");
    assert!(conversion.can_fail() && !conversion.is_writable());
    let why = "a stored ConfigMap cannot be shown as v2: ask for the version that it is stored in";
    assert_eq!(conversion.json(to, Cow::Borrowed(b"{}")), Err(why.to_owned()));
    assert_eq!(conversion.protobuf(to, Cow::Borrowed(b"k8s\0")), Err(why.to_owned()));
}

/// An object that an older release stored is read as one of this release.
#[test]
fn values_of_other_versions_are_read() {
    let registry = Registry::builtin();
    let schema = registry.schema();
    let read = |plural: &str, value: Vec<u8>| {
        let row = registry.rows().find(|row| row.plural == plural).expect("a row");
        let key = Key::new(row.row, row.namespaced.then_some("a"), "x");
        Object::read(&mut Decoder::new(), schema.get(row.row), key, &value.into(), Revision::new(7))
    };
    let text = |object: &Object| String::from_utf8_lossy(&object.value().json().expect("JSON")).into_owned();
    let claim = r#"{"kind":"ResourceClaim","apiVersion":"resource.k8s.io/v1beta1","metadata":{"name":"x","namespace":"a"},"spec":{"devices":{"requests":[{"name":"r","deviceClassName":"c"}]}}}"#;
    let new = r#""requests":[{"name":"r","exactly":{"deviceClassName":"c"}}]"#;
    let packed = protobuf::encode(Release::DEFAULT, claim.as_bytes()).expect("a form in protobuf");
    for value in [claim.as_bytes().to_vec(), packed] {
        let found = text(&read("resourceclaims", value));
        let head = r#"{"kind":"ResourceClaim","apiVersion":"resource.k8s.io/v1","metadata":{"name":"x","#;
        assert!(found.starts_with(head) && found.contains(new), "{found}");
    }
    let class =
        r#"{"kind":"DeviceClass","apiVersion":"resource.k8s.io/v1beta2","metadata":{"name":"x"},"spec":{}}"#;
    let found = text(&read("deviceclasses", class.as_bytes().to_vec()));
    assert!(found.contains(r#""apiVersion":"resource.k8s.io/v1","#), "{found}");
    // Another kind, and a version that nothing can be made of, say what they are.
    for (plural, value) in [
        ("deviceclasses", claim.to_owned()),
        (
            "horizontalpodautoscalers",
            r#"{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v1","metadata":{}}"#.to_owned(),
        ),
    ] {
        let object = read(plural, value.into_bytes());
        let why = object.unreadable().expect("unreadable").error().to_string();
        assert!(why.contains("is of type"), "{why}");
    }
}
