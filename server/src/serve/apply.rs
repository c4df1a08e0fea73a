//! Server-side apply: PATCH with `application/apply-patch+yaml`.
//!
//! Owns how an applied configuration changes or creates an object. Ownership and merging are in the module `owners`. A
//! `resourceVersion` or `uid` in the configuration that differs from the object's is a 409; nulls in it are ignored.

use bytes::Bytes;
use revcast_engine::Object;
use serde_json::{Map, Value};

use super::object::{Draft, is_never_kept, rfc3339};
use super::owners::{Applier, ApplyFault, Conflict, Owners};
use super::update::{self, Owned};
use super::write::ATTEMPTS_MAX;
use super::{Call, Part, create, get};
use crate::api::{merge, yaml};
use crate::frontend::{Host, Reply};
use crate::http::options::{OptionsError, WriteKind, WriteOptions};
use crate::http::request_info::Verb;
use crate::http::shown;
use crate::http::status::{Cause, Status};

/// The media type of an applied configuration.
pub(super) const MEDIA_TYPE: &str = "application/apply-patch+yaml";

/// Answers an apply.
pub(super) async fn handle<H: Host>(
    call: &Call<'_, H>,
    name: &str,
    part: Part,
    body: &Bytes,
) -> Result<Reply, Status> {
    let options = WriteOptions::parse(call.query, WriteKind::Apply).map_err(OptionsError::status)?;
    let config = configuration(call, part, read(body)?)?;
    for _ in 0..ATTEMPTS_MAX {
        let change = |current: &Object| {
            let live = Draft::stored(&get::json(current)?)?;
            applied(call, &options, part, Some(live), &config)
        };
        match update::run(call, name, part, options.dry_run, Owned::Told, change).await {
            Err(status) if status.code() == 404 && part == Part::All => {}
            answered => return answered,
        }
        // To patch an object that does not exist is to create it (apiserver `handlers/patch.go`).
        call.may(Verb::Create).await?;
        let mut draft = applied(call, &options, part, None, &config)?;
        check_absent(call, &draft, name)?;
        if draft.meta("name").is_empty() {
            draft.set_meta("name", name);
        }
        update::settle_name(call, &mut draft, name)?;
        if let Some(reply) = create::make(call, draft, options.dry_run).await? {
            return Ok(reply);
        }
        // Another client created it meanwhile: now it exists.
    }
    Err(call.conflict(name))
}

/// The body: JSON, or YAML, of which JSON is a part.
fn read(body: &Bytes) -> Result<Map<String, Value>, Status> {
    let wrong = |why: String| Status::bad_request(format!("error decoding YAML: {}", shown(&why)));
    let value = match serde_json::from_slice(body) {
        Ok(value) => value,
        Err(_) => yaml::to_json(body).map_err(|error| wrong(error.to_string()))?,
    };
    match value {
        Value::Object(members) => Ok(members),
        Value::Null => Err(wrong("the body has no document".to_owned())),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(wrong("the document is not an object".to_owned()))
        }
    }
}

/// The part of the body that is applied: without type, nulls and members that the path does not write.
fn configuration<H: Host>(
    call: &Call<'_, H>,
    part: Part,
    mut members: Map<String, Value>,
) -> Result<Map<String, Value>, Status> {
    let resource = call.resource;
    let text = |member: &str| members.get(member).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if api_version != resource.api_version() || kind != resource.kind {
        return Err(Status::bad_request(format!(
            "invalid object type: {}, Kind={}: objects at this path are {}, Kind={}",
            shown(api_version),
            shown(kind),
            resource.api_version(),
            resource.kind
        )));
    }
    if members.get("metadata").is_some_and(|metadata| !metadata["managedFields"].is_null()) {
        return Err(Status::bad_request("metadata.managedFields must be nil".to_owned()));
    }
    members.retain(|name, _| name != "apiVersion" && name != "kind");
    drop_nulls(&mut members);
    if let Some(Value::Object(metadata)) = members.get_mut("metadata") {
        // Members that are never stored as sent are not applied: a second apply must change nothing.
        let everywhere = !resource.namespaced;
        metadata.retain(|name, value| !(is_never_kept(name, value) || everywhere && name == "namespace"));
    }
    if part == Part::Status {
        members.retain(|name, _| name == "metadata" || name == "status");
        if let Some(Value::Object(metadata)) = members.get_mut("metadata") {
            metadata
                .retain(|name, _| matches!(name.as_str(), "name" | "namespace" | "uid" | "resourceVersion"));
        }
    } else if resource.has_status() {
        // Written only through its own path, so it has no owner here.
        members.shift_remove("status");
    }
    Ok(members)
}

fn drop_nulls(members: &mut Map<String, Value>) {
    members.retain(|_, value| !value.is_null());
    members.values_mut().for_each(drop_inner_nulls);
}

fn drop_inner_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => drop_nulls(members),
        Value::Array(items) => items.iter_mut().for_each(drop_inner_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The object that results from the configuration, with its owners.
fn applied<H: Host>(
    call: &Call<'_, H>,
    options: &WriteOptions,
    part: Part,
    live: Option<Draft>,
    config: &Map<String, Value>,
) -> Result<Draft, Status> {
    let mut live = live.map(Draft::into_members).unwrap_or_default();
    let owners = match live.get_mut("metadata").and_then(Value::as_object_mut) {
        Some(metadata) => metadata.shift_remove("managedFields"),
        None => None,
    };
    // Entries that cannot be parsed own nothing, as upstream.
    let mut owners = owners.and_then(|owners| Owners::decode(&owners)).unwrap_or_default();
    let time = rfc3339(call.host.wall());
    let applier = Applier {
        manager: &options.field_manager,
        subresource: if part == Part::Status { "status" } else { "" },
        api_version: call.resource.api_version(),
        force: options.force,
        time: &time,
    };
    let new =
        owners.apply(&applier, &live, config, merge::of(call.resource)).map_err(|fault| match fault {
            ApplyFault::Conflicts { listed, more } => conflict(&listed, more),
            ApplyFault::List(why) => {
                Status::bad_request(format!("failed to create typed patch object: {why}"))
            }
        })?;
    let mut draft = Draft::new(call, new)?;
    if !owners.is_empty() {
        draft.set_meta("managedFields", owners.encode());
    }
    Ok(draft)
}

/// An object that does not exist has no uid and no revision.
fn check_absent<H: Host>(call: &Call<'_, H>, draft: &Draft, name: &str) -> Result<(), Status> {
    let uid = draft.meta("uid");
    if !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {}, and no existing object was found",
            shown(uid)
        );
        return Err(Status::conflict_because(call.group_resource(), name, &why));
    }
    match draft.meta("resourceVersion") {
        "" | "0" => Ok(()),
        _ => Err(call.conflict(name)),
    }
}

/// 409, with the text of apimachinery's `managedfields/internal/conflict.go`; it ends with how many conflicts are not listed.
fn conflict(listed: &[Conflict], more: usize) -> Status {
    let cause = |conflict: &Conflict| Cause {
        reason: "FieldManagerConflict".to_owned(),
        message: format!("conflict with {}", conflict.manager),
        field: conflict.path.clone(),
    };
    let message = match (listed, more) {
        ([one], 0) => format!("Apply failed with 1 conflict: conflict with {}: {}", one.manager, one.path),
        (many, more) => {
            let mut lines = Vec::new();
            let mut manager = None;
            for conflict in many {
                if manager != Some(&conflict.manager) {
                    lines.push(format!("conflicts with {}:", conflict.manager));
                    manager = Some(&conflict.manager);
                }
                lines.push(format!("- {}", conflict.path));
            }
            if more > 0 {
                lines.push(format!("and {more} more"));
            }
            format!("Apply failed with {} conflicts: {}", many.len() + more, lines.join("\n"))
        }
    };
    Status::apply_conflict(message, listed.iter().map(cause).collect())
}
