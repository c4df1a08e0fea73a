//! PATCH: JSON merge patches (RFC 7386), JSON patches (RFC 6902), strategic merge patches, and the dispatch to `apply`.
//!
//! Owns which patches a resource accepts, how one is applied, and limits on what it may expand to. The semantics of strategic
//! merge patches are in the module `strategic`; a declared resource has no types for them and refuses them (415), as in
//! Kubernetes.

pub mod strategic;

use bytes::Bytes;
use json_patch::{Patch, PatchErrorKind, PatchOperation};
use revcast_engine::Object;
use serde_json::{Map, Value};

use super::object::Draft;
use super::update::{self, Owned};
use super::{Call, Part, apply, get, payload};
use crate::api::merge;
use crate::api::printer::Printer;
use crate::frontend::{Host, Reply};
use crate::http::options::{OptionsError, WriteKind, WriteOptions};
use crate::http::shown;
use crate::http::status::{Cause, Status};

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
/// Operations of one JSON patch (apiserver `handlers/patch.go`: `maxJSONPatchOperations`).
const OPERATIONS_MAX: usize = 10_000;
/// Bytes that `copy` operations of one patch may add (apiserver: the limit of a request body, 3 MiB).
const COPIED_BYTES_MAX: usize = 3 << 20;

/// Items that the operations of one patch may shift within lists.
const MOVED_ITEMS_MAX: usize = 20_000_000;
/// Nesting levels of an object that can be parsed again (serde_json's limit is 128).
const DEPTH_MAX: usize = 127;
/// How often one patch may come close to that.
const DEPTH_LOOKS_MAX: usize = 32;

/// A parsed patch.
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
    payload::check_values(call, body)?;
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
        // The owners of fields know them by the names of the version that is kept.
        apply::MEDIA_TYPE if !call.resource.has_kept_members() => return Err(call.not_written("applied")),
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
    Status::bad_request(format!("the body of the request is not a patch: {}", shown(&error.to_string())))
}

/// The object after the patch.
fn patched<H: Host>(
    call: &Call<'_, H>,
    change: &Change,
    current: &Object,
    name: &str,
) -> Result<Draft, Status> {
    let shown = call.resource.show(get::json(current)?).map_err(Status::unreadable)?;
    let mut document: Value = serde_json::from_slice(&shown)
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
        return Err(rejected(call, name, "the patch leaves no object"));
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
    let mut moved = 0_usize;
    let mut depth = Depth { bound: depth_of(document), looks: 0 };
    for (index, operation) in operations.iter().enumerate() {
        moved = moved.saturating_add(moved_by(operation, document));
        if moved > MOVED_ITEMS_MAX {
            let why = format!(
                "the patch moves more than {MOVED_ITEMS_MAX} items of lists to make and close gaps: replace the list instead"
            );
            return Err(Status::other(413, why));
        }
        if let PatchOperation::Copy(copy) = operation
            && let Some(value) = document.pointer(copy.from.as_str())
        {
            copied = copied.saturating_add(value.to_string().len());
            if copied > COPIED_BYTES_MAX {
                return Err(Status::request_entity_too_large(COPIED_BYTES_MAX));
            }
        }
        // A document that was partly changed is discarded: nothing has to be undone.
        json_patch::patch_unsafe(document, std::slice::from_ref(operation)).map_err(|error| {
            let path = shown(operation.path().as_str());
            let why = if matches!(error.kind, PatchErrorKind::TestFailed) {
                format!("operation {index}: testing path {path} failed")
            } else {
                format!("operation {index} on path {path}: {}", error.kind)
            };
            rejected(call, name, &why)
        })?;
        depth.follow(operation, document)?;
    }
    Ok(())
}

/// An upper bound of a document's depth, so that the depth is measured rarely and never so large that recursion is dangerous.
struct Depth {
    bound: usize,
    looks: usize,
}

impl Depth {
    /// An operation was applied to `document`.
    fn follow(&mut self, operation: &PatchOperation, document: &Value) -> Result<(), Status> {
        let steps = |path: &str| path.bytes().filter(|byte| *byte == b'/').count();
        let at = steps(operation.path().as_str());
        let made = match operation {
            PatchOperation::Add(add) => at + depth_of(&add.value),
            PatchOperation::Replace(replace) => at + depth_of(&replace.value),
            // What is moved is as deep as the document was below its old place.
            PatchOperation::Move(part) => at + self.bound.saturating_sub(steps(part.from.as_str())),
            PatchOperation::Copy(part) => at + self.bound.saturating_sub(steps(part.from.as_str())),
            PatchOperation::Remove(_) | PatchOperation::Test(_) => return Ok(()),
        };
        self.bound = self.bound.max(made);
        if self.bound <= DEPTH_MAX {
            return Ok(());
        }
        self.looks += 1;
        self.bound = depth_of(document);
        if self.bound > DEPTH_MAX || self.looks > DEPTH_LOOKS_MAX {
            let why = format!("the patch nests the object deeper than {DEPTH_MAX} levels: make it flatter");
            return Err(Status::bad_request(why));
        }
        Ok(())
    }
}

/// Nesting levels of a value: 0 for one that contains nothing.
fn depth_of(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth_of).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth_of).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Items that an operation may shift: all of the lists in which it opens or closes a gap.
fn moved_by(operation: &PatchOperation, document: &Value) -> usize {
    let items = |path: &str| {
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        document.pointer(parent).and_then(Value::as_array).map_or(0, Vec::len)
    };
    let at = items(operation.path().as_str());
    match operation {
        PatchOperation::Move(part) => at + items(part.from.as_str()),
        PatchOperation::Add(_) | PatchOperation::Remove(_) | PatchOperation::Copy(_) => at,
        PatchOperation::Replace(_) | PatchOperation::Test(_) => 0,
    }
}

/// 422: the patch cannot be applied to this object.
fn rejected<H: Host>(call: &Call<'_, H>, name: &str, why: &str) -> Status {
    let cause =
        Cause { reason: "FieldValueInvalid".to_owned(), message: why.to_owned(), field: "patch".to_owned() };
    Status::invalid(&call.resource.group, &call.resource.kind, name, vec![cause])
}
