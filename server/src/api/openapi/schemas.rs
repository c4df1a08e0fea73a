//! What is known of each kind, as JSON schemas under the names that Kubernetes gives them.
//!
//! A built-in kind has the members of Kubernetes' type; where no more is known of one, and for declared kinds, the
//! schema allows any (`x-kubernetes-preserve-unknown-fields`). It knows no path.

use serde_json::{Map, Value, json};

use super::words;
use crate::api::printer::Printer;
use crate::api::protobuf::Release;
use crate::api::protobuf::describe::{Describer, described, reference};
use crate::api::resources::ApiResource;

/// Members of built-in kinds that are in no other table, for kinds with more than a spec and a status.
#[rustfmt::skip]
const MEMBERS: &[(&str, &[(&str, Type)])] = &[
    ("CSIStorageCapacity", &[
        ("capacity", Type::Text), ("maximumVolumeSize", Type::Text), ("nodeTopology", Type::Object),
        ("storageClassName", Type::Text),
    ]),
    ("ControllerRevision", &[("data", Type::Object), ("revision", Type::Number)]),
    ("EndpointSlice", &[("addressType", Type::Text), ("endpoints", Type::Objects), ("ports", Type::Objects)]),
    ("Endpoints", &[("subsets", Type::Objects)]),
    ("MutatingWebhookConfiguration", &[("webhooks", Type::Objects)]),
    ("PodTemplate", &[("template", Type::Object)]),
    ("RuntimeClass", &[("handler", Type::Text), ("overhead", Type::Object), ("scheduling", Type::Object)]),
    ("StorageClass", &[
        ("allowVolumeExpansion", Type::Truth), ("allowedTopologies", Type::Objects), ("mountOptions", Type::Texts),
        ("parameters", Type::TextMap), ("provisioner", Type::Text), ("reclaimPolicy", Type::Text),
        ("volumeBindingMode", Type::Text),
    ]),
    ("ValidatingWebhookConfiguration", &[("webhooks", Type::Objects)]),
    ("VolumeAttributesClass", &[("driverName", Type::Text), ("parameters", Type::TextMap)]),
];

/// The type of a member.
#[derive(Clone, Copy, Debug)]
enum Type {
    Text,
    Texts,
    TextMap,
    Truth,
    Number,
    Object,
    Objects,
}

impl Type {
    fn schema(self) -> Value {
        match self {
            Self::Text => json!({ "type": "string" }),
            Self::Texts => json!({ "type": "array", "items": Self::Text.schema() }),
            Self::TextMap => json!({ "type": "object", "additionalProperties": Self::Text.schema() }),
            Self::Truth => json!({ "type": "boolean" }),
            Self::Number => json!({ "type": "integer" }),
            Self::Object => json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }),
            Self::Objects => json!({ "type": "array", "items": Self::Object.schema() }),
        }
    }
}

/// Adds the schemas of a kind and of its list.
pub(super) fn add(release: Release, resource: &ApiResource, schemas: &mut Map<String, Value>) {
    let mut describer = Describer { schemas, words: words::member, release };
    let known = describer.members(resource.api_version(), &resource.kind);
    let metadata = describer.metadata();
    let mut properties = with_words(
        &resource.kind,
        [
            ("apiVersion", Type::Text.schema()),
            ("kind", Type::Text.schema()),
            // The tables have it too.
            ("metadata", metadata),
        ],
    );
    match known {
        Some(members) => properties.extend(members),
        None if is_builtin(resource) => properties.extend(builtin(resource)),
        None => properties.extend(declared(resource)),
    }
    let fallback = || format!("{} objects are stored as received.", resource.kind);
    let words = words::kind(&resource.kind).filter(|_| is_builtin(resource));
    let name = schema_name(resource);
    let list = list(resource, &name, schemas);
    let mut schema = json!({
        "description": words.map_or_else(fallback, str::to_owned),
        "type": "object",
        "properties": properties,
        "x-kubernetes-group-version-kind": [group_version_kind(resource, &resource.kind)],
    });
    if !is_builtin(resource) {
        schema["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    schemas.insert(format!("{name}List"), list);
    schemas.insert(name, schema);
}

fn with_words<const N: usize>(message: &str, members: [(&str, Value); N]) -> Map<String, Value> {
    let member = |(name, schema): (&str, Value)| {
        let words = words::of_kind(message, name);
        (name.to_owned(), words.map_or_else(|| schema.clone(), |words| described(schema.clone(), words)))
    };
    members.into_iter().map(member).collect()
}

fn builtin(resource: &ApiResource) -> Map<String, Value> {
    if let Some((_, members)) = MEMBERS.iter().find(|(kind, _)| *kind == resource.kind) {
        return members.iter().map(|(name, of)| ((*name).to_owned(), of.schema())).collect();
    }
    let mut members = with_words(&resource.kind, [("spec", Type::Object.schema())]);
    if resource.has_status() {
        members.extend(with_words(&resource.kind, [("status", Type::Object.schema())]));
    }
    members
}

/// Of a declared kind only its selectable fields and whether it has a status are known.
fn declared(resource: &ApiResource) -> Map<String, Value> {
    let mut root = Type::Object.schema();
    if resource.has_status() {
        root["properties"] = Value::Object(with_words(&resource.kind, [("status", Type::Object.schema())]));
    }
    for field in resource.fields() {
        let mut at = &mut root;
        for segment in &field.path {
            let members = &mut at["properties"];
            if members.is_null() {
                *members = json!({});
            }
            if members[segment.as_str()].is_null() {
                members[segment.as_str()] = Type::Object.schema();
            }
            at = &mut members[segment.as_str()];
        }
        // Compared as text; the value may be a number or a boolean.
        if at.get("properties").is_none() {
            *at = json!({ "description": "A selectable field." });
        }
    }
    root["properties"].as_object_mut().map(std::mem::take).unwrap_or_default()
}

fn list(resource: &ApiResource, name: &str, schemas: &mut Map<String, Value>) -> Value {
    let meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
    if !schemas.contains_key(meta) {
        let members = [
            ("continue", Type::Text.schema()),
            ("remainingItemCount", Type::Number.schema()),
            ("resourceVersion", Type::Text.schema()),
            ("selfLink", Type::Text.schema()),
        ];
        let schema = json!({ "type": "object", "properties": with_words("ListMeta", members) });
        let words = words::member("ListMeta", "").unwrap_or_default();
        schemas.insert(meta.to_owned(), described(schema, words));
    }
    let members = [
        ("apiVersion", Type::Text.schema()),
        ("items", json!({ "type": "array", "items": reference(name) })),
        ("kind", Type::Text.schema()),
        ("metadata", reference(meta)),
    ];
    json!({
        "description": format!("Objects of the kind {}.", resource.kind),
        "type": "object",
        "required": ["items"],
        "properties": with_words("List", members),
        "x-kubernetes-group-version-kind": [group_version_kind(resource, &resource.list_kind)],
    })
}

fn is_builtin(resource: &ApiResource) -> bool {
    resource.printer != Printer::Custom
}

pub(super) fn group_version_kind(resource: &ApiResource, kind: &str) -> Value {
    json!({ "group": resource.group, "kind": kind, "version": resource.version })
}

/// The full name of a kind's schema: that of its Go package for a built-in kind (`io.k8s.api.apps.v1.Deployment`), the
/// reversed group for a declared one (`com.example.v1.Widget`).
pub(super) fn schema_name(resource: &ApiResource) -> String {
    let package = match resource.group.as_str() {
        _ if !is_builtin(resource) => {
            let mut parts: Vec<&str> =
                resource.group.split('.').rev().filter(|part| !part.is_empty()).collect();
            if parts.is_empty() {
                parts.push("core");
            }
            parts.join(".")
        }
        "" => "io.k8s.api.core".to_owned(),
        "apiextensions.k8s.io" => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions".to_owned(),
        "apiregistration.k8s.io" => "io.k8s.kube-aggregator.pkg.apis.apiregistration".to_owned(),
        group => format!("io.k8s.api.{}", group.split('.').next().unwrap_or(group)),
    };
    format!("{package}.{}.{}", resource.version, resource.kind)
}
