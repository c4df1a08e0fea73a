//! DELETE of one object: at once, or when its finalizers are gone.

use bytes::Bytes;
use revcast_engine::Object;
use revcast_engine::key::Key;

use super::object::{Draft, rfc3339};
use super::write::{ATTEMPTS_MAX, Outcome};
use super::{Call, Host, Reply, payload, reply, update};
use crate::http::options::{DeleteOptions, OptionsError};
use crate::http::status::Status;
use crate::source::{Action, Expect};

/// What became of an object that was to go.
#[derive(Debug)]
pub(super) enum Fate {
    /// It is gone (in a dry run: would be).
    Gone {
        /// Its `metadata.uid`.
        uid: String,
    },
    /// It waits for its finalizers.
    Waits(Vec<u8>),
}

/// The options of a DELETE: those of its body when it has one.
pub(super) fn options<H: Host>(call: &Call<'_, H>, body: &Bytes) -> Result<DeleteOptions, Status> {
    let json = payload::json(call, body)?;
    DeleteOptions::parse(call.query, &json).map_err(OptionsError::status)
}

/// Answers a DELETE of one object.
pub(super) async fn handle<H: Host>(call: &Call<'_, H>, name: &str, body: &Bytes) -> Result<Reply, Status> {
    let options = options(call, body)?;
    match delete(call, &call.key(name), &options).await? {
        Fate::Gone { uid } => {
            Ok(reply::status(&Status::deleted(call.group_resource(), name, &uid), call.spelling))
        }
        Fate::Waits(json) => Ok(call.show(200, &json)),
    }
}

/// Deletes one object, or marks it so that it goes with its last finalizer.
///
/// # Errors
/// 404 when there is none, 409 when a precondition does not hold or others are faster every time.
pub(super) async fn delete<H: Host>(
    call: &Call<'_, H>,
    key: &Key,
    options: &DeleteOptions,
) -> Result<Fate, Status> {
    let name = key.name();
    for _ in 0..ATTEMPTS_MAX {
        let current = call.current(key).await?;
        let old = Draft::stored(current.json())?;
        check_preconditions(call, name, &current, &old, options)?;
        let (fate, action) = if old.finalizers().is_empty() {
            (Fate::Gone { uid: old.meta("uid").to_owned() }, Action::Delete)
        } else {
            if old.is_terminating() {
                return Ok(Fate::Waits(current.json().to_vec()));
            }
            let mut marked = old;
            marked.set_meta("deletionTimestamp", rfc3339(call.host.wall()));
            marked.set_meta("deletionGracePeriodSeconds", 0);
            if let Some(generation) = marked.metadata.get("generation").and_then(serde_json::Value::as_i64) {
                marked.set_meta("generation", generation.saturating_add(1));
            }
            let shown = marked.to_json_at(call, &current.revision().to_string());
            (Fate::Waits(shown), call.put(marked.to_json(call))?)
        };
        if options.dry_run {
            return Ok(fate);
        }
        match call.write(key, Expect::At(current.revision()), action).await? {
            Outcome::Made(Some(object)) => return Ok(Fate::Waits(object.json().to_vec())),
            Outcome::Made(None) => return Ok(fate),
            Outcome::Lost(None) => return Err(call.not_found(name)),
            Outcome::Lost(Some(_)) => {}
        }
    }
    Err(call.conflict(name))
}

fn check_preconditions<H: Host>(
    call: &Call<'_, H>,
    name: &str,
    current: &Object,
    old: &Draft,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let wanted = &options.preconditions;
    if !wanted.uid.is_empty() && wanted.uid != old.meta("uid") {
        return Err(update::wrong_uid(call, name, &wanted.uid, old.meta("uid")));
    }
    let version = current.revision().to_string();
    if !wanted.resource_version.is_empty() && wanted.resource_version != version {
        let why = format!(
            "Precondition failed: ResourceVersion in precondition: {}, ResourceVersion in object meta: {version}",
            wanted.resource_version
        );
        return Err(Status::conflict_because(call.group_resource(), name, &why));
    }
    Ok(())
}
