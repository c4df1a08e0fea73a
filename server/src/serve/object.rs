//! Objects on their way into the store: checked, completed, and in one order of members.
//!
//! Owns what the server sets and what a client cannot change. A stored object begins with `kind`, `apiVersion` and `metadata`,
//! whose members are in the order of Go's `ObjectMeta`; the rest stays as it was sent. Of a declared resource all members are in the
//! order of their names. A stored object has no `resourceVersion`: the engine inserts it.
//!
//! There is no schema but the types of protobuf, so there are few defaults, only those that kubectl's output needs:
//!
//! | object | default |
//! |---|---|
//! | all | `uid`, `creationTimestamp`; `generation` when it has a `spec` or its resource is declared |
//! | Pod | `status.phase: Pending` |
//! | Namespace | label `kubernetes.io/metadata.name`, `spec.finalizers: [kubernetes]`, `status.phase: Active` |
//! | Secret | `type: Opaque` |
//! | Service | `spec.type: ClusterIP` |

use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use super::{Call, names, payload};
use crate::api::go_json;
use crate::api::printer::Printer;
use crate::frontend::Host;
use crate::http::shown;
use crate::http::status::{Cause, Status};

/// The first members of `metadata`, in order. `resourceVersion` is the engine's.
const METADATA_ORDER: [&str; 14] = [
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Members of `metadata` that are removed when they are empty, as in Go (`omitempty`).
const OMITTED_WHEN_EMPTY: [&str; 4] = ["labels", "annotations", "ownerReferences", "finalizers"];

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

/// A parsed object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Draft {
    /// Never has `selfLink`, a member that is null, or one of [`OMITTED_WHEN_EMPTY`] that is empty.
    pub(super) metadata: Map<String, Value>,
    /// Everything but `kind`, `apiVersion` and `metadata`.
    pub(super) rest: Map<String, Value>,
}

impl Draft {
    /// Parses what a client sent, and checks its type. The draft is in the version that objects are kept in.
    ///
    /// # Errors
    /// 400 if it is not.
    pub(super) fn new<H: Host>(call: &Call<'_, H>, mut members: Map<String, Value>) -> Result<Self, Status> {
        call.check_members(&members)?;
        let kind = text(call, members.shift_remove("kind"), "kind")?;
        let api_version = text(call, members.shift_remove("apiVersion"), "apiVersion")?;
        let resource = call.resource;
        if !api_version.is_empty() && api_version != resource.api_version() {
            return Err(Status::bad_request(format!(
                "the API version in the data ({}) does not match the expected API version ({})",
                shown(&api_version),
                resource.api_version()
            )));
        }
        if !kind.is_empty() && kind != resource.kind {
            return Err(Status::bad_request(format!(
                "{} in version {:?} cannot be handled as a {}: send it to the path of its own resource",
                shown(&kind),
                resource.version,
                resource.kind
            )));
        }
        let kept = resource.conversion.kept(members);
        let mut members = kept.map_err(|why| payload::unreadable(call, &why))?;
        let mut metadata = match members.shift_remove("metadata") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(metadata)) => metadata,
            Some(_) => return Err(payload::unreadable(call, "metadata is not an object")),
        };
        metadata.retain(|name, value| !value.is_null() && !is_omitted(name, value));
        members.retain(|_, value| !value.is_null());
        let draft = Self { metadata, rest: members };
        draft.check_types(call)?;
        draft.settled(call)
    }

    /// With the members that it will have after it was stored.
    ///
    /// # Errors
    /// 400 if it does not fit its type.
    pub(super) fn settled<H: Host>(self, call: &Call<'_, H>) -> Result<Self, Status> {
        let version = self.meta("resourceVersion");
        let Some(json) = call.settled(|| self.to_json_at(call, version))? else { return Ok(self) };
        let mut settled = Self::stored(&json)?;
        // A time that is not set, in releases that say so.
        settled.metadata.retain(|_, value| !value.is_null());
        Ok(settled)
    }

    /// Parses a stored object.
    ///
    /// # Errors
    /// 500 if it is not an object, which the check of every write rules out.
    pub(super) fn stored(json: &[u8]) -> Result<Self, Status> {
        let broken = || Status::internal_error("a stored value is not a Kubernetes object");
        let mut members: Map<String, Value> = serde_json::from_slice(json).map_err(|_| broken())?;
        members.shift_remove("kind");
        members.shift_remove("apiVersion");
        let Some(Value::Object(metadata)) = members.shift_remove("metadata") else { return Err(broken()) };
        Ok(Self { metadata, rest: members })
    }

    /// All members but `kind` and `apiVersion`.
    pub(super) fn into_members(self) -> Map<String, Value> {
        let mut members = self.rest;
        members.insert("metadata".to_owned(), Value::Object(self.metadata));
        members
    }

    /// Checks the types of the members of `metadata` that the server reads.
    fn check_types<H: Host>(&self, call: &Call<'_, H>) -> Result<(), Status> {
        let wrong = |member: &str, what: &str| {
            Err(payload::unreadable(call, &format!("metadata.{member} must be {what}")))
        };
        for (member, value) in &self.metadata {
            match (member.as_str(), value) {
                (
                    "name" | "generateName" | "namespace" | "uid" | "resourceVersion" | "creationTimestamp"
                    | "deletionTimestamp",
                    value,
                ) if !value.is_string() => return wrong(member, "text"),
                ("labels" | "annotations", value) => {
                    let texts = |map: &Map<String, Value>| map.values().all(Value::is_string);
                    if !value.as_object().is_some_and(texts) {
                        return wrong(member, "an object of texts");
                    }
                }
                ("finalizers", value) => {
                    let texts = |list: &Vec<Value>| list.iter().all(Value::is_string);
                    if !value.as_array().is_some_and(texts) {
                        return wrong(member, "a list of texts");
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A text of `metadata`; "" if it is missing.
    pub(super) fn meta(&self, member: &str) -> &str {
        self.metadata.get(member).and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn set_meta(&mut self, member: &str, value: impl Into<Value>) {
        self.metadata.insert(member.to_owned(), value.into());
    }

    /// `metadata.finalizers`.
    pub(super) fn finalizers(&self) -> &[Value] {
        self.metadata.get("finalizers").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Whether it has finalizers left.
    pub(super) fn is_terminating(&self) -> bool {
        !self.meta("deletionTimestamp").is_empty()
    }

    /// Sets the namespace of the path in the object, or checks it; without one in the path it is removed (apiserver
    /// `registry/rest/meta.go`).
    ///
    /// # Errors
    /// 400 if the object has a different one.
    pub(super) fn settle_namespace<H: Host>(&mut self, call: &Call<'_, H>) -> Result<(), Status> {
        let found = self.meta("namespace");
        match call.namespace {
            Some(namespace) if found.is_empty() => self.set_meta("namespace", namespace),
            Some(namespace) if found == namespace => {}
            None => {
                self.metadata.shift_remove("namespace");
            }
            Some(_) => {
                let why =
                    "the namespace of the provided object does not match the namespace sent on the request";
                return Err(Status::bad_request(why.to_owned()));
            }
        }
        Ok(())
    }

    /// All faults of the metadata.
    ///
    /// # Errors
    /// 422 with a cause for each fault.
    pub(super) fn validate<H: Host>(&self, call: &Call<'_, H>, mut causes: Vec<Cause>) -> Result<(), Status> {
        causes.extend(names::metadata_faults(&self.metadata));
        if causes.is_empty() {
            return Ok(());
        }
        Err(Status::invalid(&call.resource.group, &call.resource.kind, self.meta("name"), causes))
    }

    /// Sets the server's part of a new object.
    pub(super) fn complete<H: Host>(&mut self, call: &Call<'_, H>) {
        for member in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
            self.metadata.shift_remove(member);
        }
        // A node is the one object that may be created with its status (each type's `strategy.go`: `PrepareForCreate`).
        let born_with_it = call.resource.group.is_empty() && call.resource.plural == "nodes";
        if call.resource.has_status() && !born_with_it {
            self.rest.shift_remove("status");
        }
        self.set_meta("uid", new_uid(call.host.random(), call.host.random()));
        self.set_meta("creationTimestamp", rfc3339(call.host.wall()));
        self.fill_in(call);
        if self.rest.contains_key("spec") || call.resource.printer == Printer::Custom {
            self.set_meta("generation", 1);
        }
    }

    fn fill_in<H: Host>(&mut self, call: &Call<'_, H>) {
        if !call.resource.group.is_empty() {
            return;
        }
        let name = self.meta("name").to_owned();
        match call.resource.plural.as_str() {
            "pods" => default(&mut self.rest, "status", "phase", json!("Pending")),
            "namespaces" => {
                default(&mut self.metadata, "labels", "kubernetes.io/metadata.name", json!(name));
                default(&mut self.rest, "spec", "finalizers", json!(["kubernetes"]));
                default(&mut self.rest, "status", "phase", json!("Active"));
            }
            "services" => default(&mut self.rest, "spec", "type", json!("ClusterIP")),
            "secrets" => {
                self.rest.entry("type").or_insert_with(|| json!("Opaque"));
            }
            _ => {}
        }
    }

    /// Whether both are the same state of the object, so that there is nothing to write. The order of members does not matter.
    pub(super) fn is_the_same(&self, other: &Self) -> bool {
        let but_version = |(name, _): &(&String, &Value)| *name != "resourceVersion";
        let count = |draft: &Self| draft.metadata.iter().filter(but_version).count();
        self.rest == other.rest
            && count(self) == count(other)
            && self
                .metadata
                .iter()
                .filter(but_version)
                .all(|(name, value)| other.metadata.get(name) == Some(value))
    }

    /// Whether both have the same specification: they differ only in metadata and status.
    pub(super) fn wants_the_same(&self, other: &Self, has_status: bool) -> bool {
        // Without a status path, the status is part of the specification.
        let is_state = |name: &String| has_status && name == "status";
        let wanted = |draft: &Self| draft.rest.keys().filter(|name| !is_state(name)).count();
        let all = |a: &Self, b: &Self| {
            a.rest.iter().all(|(name, value)| is_state(name) || b.rest.get(name) == Some(value))
        };
        wanted(self) == wanted(other) && all(self, other)
    }

    /// The stored form: one line of JSON, in the version that objects are kept in, without `resourceVersion`.
    pub(super) fn to_json<H: Host>(&self, call: &Call<'_, H>) -> Vec<u8> {
        self.write(call, None)
    }

    /// The form in a reply, with that `resourceVersion`; "" for none.
    pub(super) fn to_json_at<H: Host>(&self, call: &Call<'_, H>, version: &str) -> Vec<u8> {
        self.write(call, (!version.is_empty()).then_some(version))
    }

    fn write<H: Host>(&self, call: &Call<'_, H>, version: Option<&str>) -> Vec<u8> {
        if call.resource.printer == Printer::Custom {
            return self.write_sorted(call, version);
        }
        let mut out = Vec::with_capacity(1024);
        out.extend_from_slice(b"{\"kind\":");
        append(&mut out, &call.resource.kind);
        out.extend_from_slice(b",\"apiVersion\":");
        append(&mut out, call.kept_api_version());
        out.extend_from_slice(b",\"metadata\":{");
        let mut first = true;
        let mut member = |out: &mut Vec<u8>, name: &str, value: &dyn Fn(&mut Vec<u8>)| {
            if !first {
                out.push(b',');
            }
            first = false;
            append(out, name);
            out.push(b':');
            value(out);
        };
        for name in METADATA_ORDER {
            if name == "resourceVersion" {
                // Never the client's: inserted by the engine if it is stored, by the caller if it is only shown.
                if let Some(version) = version {
                    member(&mut out, name, &|out| append(out, version));
                }
            } else if let Some(value) = self.metadata.get(name) {
                member(&mut out, name, &|out| append(out, value));
            }
        }
        for (name, value) in self.metadata.iter().filter(|(name, _)| !METADATA_ORDER.contains(&name.as_str()))
        {
            member(&mut out, name, &|out| append(out, value));
        }
        out.push(b'}');
        for (name, value) in &self.rest {
            out.push(b',');
            append(&mut out, name);
            out.push(b':');
            append(&mut out, value);
        }
        out.push(b'}');
        out
    }
}

impl Draft {
    /// As a kube-apiserver stores a custom resource.
    fn write_sorted<H: Host>(&self, call: &Call<'_, H>, version: Option<&str>) -> Vec<u8> {
        fn encoded(members: &Map<String, Value>) -> Vec<(&str, Vec<u8>)> {
            members.iter().map(|(name, value)| (name.as_str(), go_json::encoded(value))).collect()
        }
        let mut metadata = encoded(&self.metadata);
        metadata.retain(|(name, _)| *name != "resourceVersion");
        metadata.extend(version.map(|version| ("resourceVersion", go_json::encoded(&version.into()))));
        let mut metadata_text = Vec::new();
        go_json::push_object(&mut metadata_text, metadata);
        let mut members = encoded(&self.rest);
        members.push(("apiVersion", go_json::encoded(&call.kept_api_version().into())));
        members.push(("kind", go_json::encoded(&call.resource.kind.as_str().into())));
        members.push(("metadata", metadata_text));
        let mut out = Vec::with_capacity(1024);
        go_json::push_object(&mut out, members);
        out
    }
}

/// Whether a member of metadata is never stored.
fn is_omitted(name: &str, value: &Value) -> bool {
    name == "selfLink" || OMITTED_WHEN_EMPTY.contains(&name) && is_empty(value)
}

/// Whether a member of metadata is not stored as it is sent, whichever client sends it.
pub(super) fn is_never_kept(name: &str, value: &Value) -> bool {
    const SERVERS: [&str; 4] =
        ["creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds"];
    is_omitted(name, value)
        || SERVERS.contains(&name)
        || name == "resourceVersion" && matches!(value.as_str(), Some("" | "0"))
}

/// Appends a value as JSON on one line.
fn append<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value)
        .expect("text and trees with text keys always serialize, and a Vec takes all");
}

/// A text member; "" if it is missing.
fn text<H: Host>(call: &Call<'_, H>, value: Option<Value>, member: &str) -> Result<String, Status> {
    match value {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(payload::unreadable(call, &format!("{member} must be text"))),
    }
}

/// Sets `outer.inner` unless it exists, or `outer` is not an object.
fn default(members: &mut Map<String, Value>, outer: &str, inner: &str, value: Value) {
    let outer = members.entry(outer).or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(outer) = outer {
        outer.entry(inner).or_insert(value);
    }
}

/// A UUID of version 4.
fn new_uid(high: u64, low: u64) -> String {
    let bytes = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}

/// A time as objects have it: `2026-11-21T05:37:13Z`.
pub(super) fn rfc3339(time: SystemTime) -> String {
    let timestamp = Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH);
    timestamp.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
