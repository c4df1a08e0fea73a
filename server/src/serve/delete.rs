//! DELETE of one object: immediate, or when its last finalizer is removed.
//!
//! A pod is marked and then deleted, in two writes, as recorded (10). A pod that runs on a node and has a grace period stays
//! marked until the component that runs it deletes it with a grace of 0 (Kubernetes `pkg/registry/core/pod/strategy.go`). There
//! are no defaults here: a pod without a grace period gets none.

use std::time::Duration;

use bytes::Bytes;
use revcast_engine::Object;
use revcast_engine::key::Key;
use serde_json::Value;

use super::object::{Draft, rfc3339};
use super::write::{ATTEMPTS_MAX, Outcome};
use super::{Call, get, payload, reply};
use crate::frontend::{Host, Reply};
use crate::http::options::{DeleteOptions, OptionsError};
use crate::http::shown;
use crate::http::status::{GroupResource, Status};
use crate::source::{Action, Expect};

/// The result of a delete.
#[derive(Debug)]
pub(super) enum Fate {
    /// It is deleted (in a dry run: would be).
    Gone {
        /// Its `metadata.uid`.
        uid: String,
        /// Its last state.
        last: Vec<u8>,
    },
    /// It is marked and has finalizers left.
    Waits(Vec<u8>),
}

/// The options of a DELETE: from its body if it has one.
pub(super) fn options<H: Host>(call: &Call<'_, H>, body: &Bytes) -> Result<DeleteOptions, Status> {
    let json = payload::json(call, body)?;
    DeleteOptions::parse(call.query, &json).map_err(OptionsError::status)
}

/// Answers a DELETE of one object.
pub(super) async fn handle<H: Host>(call: &Call<'_, H>, name: &str, body: &Bytes) -> Result<Reply, Status> {
    let options = options(call, body)?;
    match delete(call, &call.key(name), &options).await? {
        Fate::Gone { last, .. } if shows_what_it_deleted(call) => Ok(call.show(200, &last)),
        Fate::Gone { uid, .. } => {
            Ok(reply::status(&Status::deleted(call.group_resource(), name, &uid), call.format))
        }
        Fate::Waits(json) => Ok(call.show(200, &json)),
    }
}

/// Deletes one object, or marks it for deletion with its last finalizer.
///
/// # Errors
/// 404 if it does not exist, 409 if a precondition fails or every attempt lost a race.
pub(super) async fn delete<H: Host>(
    call: &Call<'_, H>,
    key: &Key,
    options: &DeleteOptions,
) -> Result<Fate, Status> {
    let name = key.name();
    let mut marked_at = None;
    for _ in 0..ATTEMPTS_MAX {
        let current = call.current(key).await?;
        let old = Draft::stored(&get::json(&current)?)?;
        if marked_at != Some(current.revision()) {
            check_preconditions(call, name, &current, &old, options)?;
        }
        let grace = grace_seconds(call, &old, options);
        let held = grace.is_some_and(|seconds| seconds > 0) || !old.finalizers().is_empty();
        let Some(marked) = mark(call, &old, grace) else {
            if held {
                return Ok(Fate::Waits(get::json(&current)?.to_vec()));
            }
            let fate = Fate::Gone { uid: old.meta("uid").to_owned(), last: get::json(&current)?.to_vec() };
            if options.dry_run {
                return Ok(fate);
            }
            match call.write(key, Expect::At(current.revision()), Action::Delete).await? {
                Outcome::Made(_) => return Ok(fate),
                Outcome::Lost(None) => return Err(call.not_found(name)),
                Outcome::Lost(Some(_)) => continue,
            }
        };
        if options.dry_run {
            let shown = marked.to_json_at(call, &current.revision().to_string());
            let uid = marked.meta("uid").to_owned();
            return Ok(if held { Fate::Waits(shown) } else { Fate::Gone { uid, last: shown } });
        }
        let marked = call.put_marked(marked.to_json(call))?;
        match call.write(key, Expect::At(current.revision()), marked.action.clone()).await? {
            Outcome::Made(revision) if held => return Ok(Fate::Waits(marked.json_at(revision))),
            // The next round finds nothing left to mark.
            Outcome::Made(revision) => marked_at = Some(revision),
            Outcome::Lost(Some(_)) => {}
            Outcome::Lost(None) => return Err(call.not_found(name)),
        }
    }
    Err(call.conflict(name))
}

/// The grace period of the object; `None`: its kind has none.
fn grace_seconds<H: Host>(call: &Call<'_, H>, old: &Draft, options: &DeleteOptions) -> Option<i64> {
    if call.resource.plural != "pods" || !call.resource.group.is_empty() {
        return None;
    }
    let part = |part: &str| old.rest.get(part).and_then(Value::as_object);
    let spec = |member: &str| part("spec").and_then(|spec| spec.get(member));
    let phase = part("status").and_then(|status| status.get("phase")).and_then(Value::as_str);
    let runs = spec("nodeName").and_then(Value::as_str).is_some_and(|node| !node.is_empty())
        && !matches!(phase, Some("Failed" | "Succeeded"));
    if !runs {
        return Some(0);
    }
    let asked = options.grace_period_seconds;
    let seconds =
        asked.or_else(|| spec("terminationGracePeriodSeconds").and_then(Value::as_i64)).unwrap_or(0);
    Some(if seconds < 0 { 1 } else { seconds })
}

/// The object with the mark; `None` if it is marked already, with a grace period that is not longer, or needs no mark.
fn mark<H: Host>(call: &Call<'_, H>, old: &Draft, grace: Option<i64>) -> Option<Draft> {
    if grace.is_none() && old.finalizers().is_empty() {
        return None;
    }
    let grace = grace.unwrap_or(0);
    let granted = old.metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64);
    if old.is_terminating() && granted.is_none_or(|granted| granted <= grace) {
        return None;
    }
    let mut marked = old.clone();
    let ahead = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
    let wall = call.host.wall();
    marked.set_meta("deletionTimestamp", rfc3339(wall.checked_add(ahead).unwrap_or(wall)));
    marked.set_meta("deletionGracePeriodSeconds", grace);
    // A shorter grace changes nothing else.
    if !old.is_terminating()
        && let Some(generation) = marked.metadata.get("generation").and_then(Value::as_i64)
    {
        marked.set_meta("generation", generation.saturating_add(1));
    }
    Some(marked)
}

/// Kinds whose DELETE is answered with the object, where others get a `Status` (Kubernetes: `ReturnDeletedObject`).
fn shows_what_it_deleted<H: Host>(call: &Call<'_, H>) -> bool {
    let resource = call.resource;
    matches!(
        (resource.group.as_str(), resource.plural.as_str()),
        (
            "",
            "persistentvolumeclaims"
                | "persistentvolumes"
                | "pods"
                | "podtemplates"
                | "resourcequotas"
                | "serviceaccounts"
        ) | ("storage.k8s.io", "csidrivers" | "csinodes" | "storageclasses" | "volumeattachments")
    )
}

fn check_preconditions<H: Host>(
    call: &Call<'_, H>,
    name: &str,
    current: &Object,
    old: &Draft,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let wanted = &options.preconditions;
    // The text names the kind here, not the resource.
    let what = GroupResource { group: &call.resource.group, resource: &call.resource.kind };
    if !wanted.uid.is_empty() && wanted.uid != old.meta("uid") {
        let why = format!(
            "the UID in the precondition ({}) does not match the UID in record ({}). The object might have been \
             deleted and then recreated",
            shown(&wanted.uid),
            shown(old.meta("uid"))
        );
        return Err(Status::conflict_because(what, name, &why));
    }
    let version = current.revision().to_string();
    if !wanted.resource_version.is_empty() && wanted.resource_version != version {
        let why = format!(
            "the ResourceVersion in the precondition ({}) does not match the ResourceVersion in record ({version}). The \
             object might have been modified",
            shown(&wanted.resource_version)
        );
        return Err(Status::conflict_because(what, name, &why));
    }
    Ok(())
}
