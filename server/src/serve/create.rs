//! POST: a new object.

use bytes::Bytes;

use super::object::Draft;
use super::write::Outcome;
use super::{Call, names, payload};
use crate::frontend::{Host, Reply};
use crate::http::options::{OptionsError, WriteKind, WriteOptions};
use crate::http::status::{Cause, Status};
use crate::source::Expect;

/// How many generated names are tried before the client gets an error (apiserver `registry/generic`).
const GENERATE_ATTEMPTS_MAX: usize = 8;

/// Answers a POST on a collection.
pub(super) async fn handle<H: Host>(call: &Call<'_, H>, body: &Bytes) -> Result<Reply, Status> {
    let options = WriteOptions::parse(call.query, WriteKind::Create).map_err(OptionsError::status)?;
    let mut draft = Draft::new(call, payload::members(call, &payload::object(call, body)?)?)?;
    draft.settle_namespace(call)?;
    if !matches!(draft.meta("resourceVersion"), "" | "0") {
        let why = "resourceVersion should not be set on objects to be created";
        return Err(Status::bad_request(why.to_owned()));
    }
    let generated = draft.meta("name").is_empty() && !draft.meta("generateName").is_empty();
    let attempts = if generated { GENERATE_ATTEMPTS_MAX } else { 1 };
    for _ in 0..attempts {
        if generated {
            let name = names::generate(draft.meta("generateName"), call.host.random());
            draft.set_meta("name", name);
        }
        check(call, &draft)?;
        let mut draft = draft.clone();
        draft.complete(call);
        if let Some(reply) = create(call, &draft, options.dry_run).await? {
            return Ok(reply);
        }
    }
    Err(Status::already_exists(call.group_resource(), draft.meta("name")))
}

/// Writes the object; `None` if its name is taken.
async fn create<H: Host>(call: &Call<'_, H>, draft: &Draft, dry_run: bool) -> Result<Option<Reply>, Status> {
    let key = call.key(draft.meta("name"));
    if dry_run {
        let value = draft.clone().settled(call)?.to_json(call);
        let taken = match call.current(&key).await {
            Ok(_) => true,
            Err(status) if status.code() == 404 => false,
            Err(status) => return Err(status),
        };
        call.put(value.clone())?;
        return Ok((!taken).then(|| call.show(201, &value)));
    }
    let new = call.put(draft.to_json(call))?;
    match call.write(&key, Expect::Absent, new.action.clone()).await? {
        Outcome::Made(revision) => Ok(Some(call.show_written(201, new.json_at(revision)))),
        Outcome::Lost(_) => Ok(None),
    }
}

/// Creates the object of an apply; `None` if it exists already.
pub(super) async fn make<H: Host>(
    call: &Call<'_, H>,
    mut draft: Draft,
    dry_run: bool,
) -> Result<Option<Reply>, Status> {
    check(call, &draft)?;
    draft.complete(call);
    create(call, &draft, dry_run).await
}

fn check<H: Host>(call: &Call<'_, H>, draft: &Draft) -> Result<(), Status> {
    let mut causes = match draft.meta("generateName") {
        "" => Vec::new(),
        prefix => names::prefix_faults(call.resource, prefix),
    };
    match draft.meta("name") {
        "" => causes.push(Cause::required("metadata.name", "name or generateName is required")),
        name => causes.extend(names::name_faults(call.resource, name)),
    }
    causes.extend(call.namespace.into_iter().flat_map(names::namespace_faults));
    draft.validate(call, causes)
}
