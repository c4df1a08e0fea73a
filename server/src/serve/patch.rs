//! PATCH: JSON merge patches (RFC 7386), JSON patches (RFC 6902), strategic merge patches, and the door to `apply`.
//!
//! Owns which patches a resource takes, how one is applied and how much it may make of little. What a strategic merge
//! patch means is the module `strategic`'s; a declared resource has no types to go by and takes none (415), as in
//! Kubernetes.

mod strategic;

use bytes::Bytes;
use json_patch::{Patch, PatchErrorKind, PatchOperation};
use revcast_engine::Object;
use serde_json::{Map, Value};

use super::object::Draft;
use super::update::{self, Owned};
use super::{Call, Host, Part, Reply, apply, payload};
use crate::api::merge;
use crate::api::table::Printer;
use crate::http::options::{OptionsError, WriteKind, WriteOptions};
use crate::http::status::{Cause, Status};

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
/// Operations of one JSON patch (apiserver `handlers/patch.go`: `maxJSONPatchOperations`).
const OPERATIONS_MAX: usize = 10_000;
/// Bytes that `copy` operations of one patch may add (apiserver: the limit of a request body, 3 MiB).
const COPIED_BYTES_MAX: usize = 3 << 20;

/// A patch, read.
#[derive(Debug)]
enum Change {
    Merge(Value),
    Operations(Vec<PatchOperation>),
    Strategic(Map<String, Value>),
}

/// Answers a PATCH on an object or its status.
pub(super) async fn handle<H: Host>(
    call: &Call<'_, H>,
    name: &str,
    part: Part,
    body: &Bytes,
) -> Result<Reply, Status> {
    payload::check_coding(call)?;
    let is_declared = call.resource.printer == Printer::Custom;
    let patch = match payload::media_type(call.head.content_type.as_deref()).as_str() {
        MERGE_PATCH => Change::Merge(serde_json::from_slice(body).map_err(|error| unreadable(&error))?),
        JSON_PATCH => {
            let Patch(operations) = serde_json::from_slice(body).map_err(|error| unreadable(&error))?;
            if operations.len() > OPERATIONS_MAX {
                let why = format!(
                    "the allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}: split it",
                    operations.len()
                );
                return Err(Status::other(413, why));
            }
            Change::Operations(operations)
        }
        STRATEGIC_PATCH if !is_declared => {
            Change::Strategic(serde_json::from_slice(body).map_err(|error| unreadable(&error))?)
        }
        apply::MEDIA_TYPE => return Box::pin(apply::handle(call, name, part, body)).await,
        _ if is_declared => {
            return Err(Status::unsupported_media_type(&[JSON_PATCH, MERGE_PATCH, apply::MEDIA_TYPE]));
        }
        _ => {
            let taken = [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, apply::MEDIA_TYPE];
            return Err(Status::unsupported_media_type(&taken));
        }
    };
    let options = WriteOptions::parse(call.query, WriteKind::Patch).map_err(OptionsError::status)?;
    let change = |current: &Object| patched(call, &patch, current, name);
    update::run(call, name, part, options.dry_run, Owned::Followed, change).await
}

fn unreadable(error: &serde_json::Error) -> Status {
    Status::bad_request(format!("the body of the request is no patch: {error}"))
}

/// The object as the patch makes it.
fn patched<H: Host>(
    call: &Call<'_, H>,
    change: &Change,
    current: &Object,
    name: &str,
) -> Result<Draft, Status> {
    let mut document: Value = serde_json::from_slice(current.json())
        .map_err(|_| Status::internal_error("a stored value is not a Kubernetes object"))?;
    match change {
        Change::Merge(patch) => json_patch::merge(&mut document, patch),
        Change::Strategic(patch) => {
            if let Value::Object(members) = &mut document {
                let of = merge::of(call.resource);
                strategic::merge(members, patch.clone(), of).map_err(|fault| match fault {
                    strategic::Fault::Format(why) => Status::bad_request(why),
                    strategic::Fault::Content(why) => rejected(call, name, &why),
                })?;
            }
        }
        Change::Operations(operations) => operate(call, operations, &mut document, name)?,
    }
    let Value::Object(members) = document else {
        return Err(rejected(call, name, "the patch leaves no object behind"));
    };
    Draft::new(call, members)
}

/// Applies operations one by one, so that copies of copies cannot fill the memory.
fn operate<H: Host>(
    call: &Call<'_, H>,
    operations: &[PatchOperation],
    document: &mut Value,
    name: &str,
) -> Result<(), Status> {
    let mut copied = 0_usize;
    for (index, operation) in operations.iter().enumerate() {
        if let PatchOperation::Copy(copy) = operation
            && let Some(value) = document.pointer(copy.from.as_str())
        {
            copied = copied.saturating_add(value.to_string().len());
            if copied > COPIED_BYTES_MAX {
                return Err(Status::request_entity_too_large(COPIED_BYTES_MAX));
            }
        }
        // A document that was half changed is thrown away: no undoing is needed.
        json_patch::patch_unsafe(document, std::slice::from_ref(operation)).map_err(|error| {
            let path = operation.path();
            let why = if matches!(error.kind, PatchErrorKind::TestFailed) {
                format!("operation {index}: testing path {path} failed")
            } else {
                format!("operation {index} on path {path}: {}", error.kind)
            };
            rejected(call, name, &why)
        })?;
    }
    Ok(())
}

/// 422: the patch cannot be applied to this object.
fn rejected<H: Host>(call: &Call<'_, H>, name: &str, why: &str) -> Status {
    let cause =
        Cause { reason: "FieldValueInvalid".to_owned(), message: why.to_owned(), field: "patch".to_owned() };
    Status::invalid(&call.resource.group, &call.resource.kind, name, vec![cause])
}
