//! PUT, and the steps from a changed object to the store, which PATCH uses too.
//!
//! Owns what an update cannot change, when it changes nothing, and when it deletes a marked object whose finalizers are gone.

use std::collections::HashSet;
use std::hash::Hash;

use bytes::Bytes;
use revcast_engine::Object;
use revcast_engine::revision::Revision;
use serde_json::Value;

use super::object::Draft;
use super::owners::Owners;
use super::write::{ATTEMPTS_MAX, Outcome};
use super::{Call, Part, get, payload};
use crate::api::merge as types;
use crate::frontend::{Host, Reply};
use crate::http::options::{OptionsError, WriteKind, WriteOptions};
use crate::http::status::{Cause, Status};
use crate::http::{go_quote, shown, shown_list};
use crate::source::{Action, Expect};

/// Answers a PUT on an object or its status.
pub(super) async fn handle<H: Host>(
    call: &Call<'_, H>,
    name: &str,
    part: Part,
    body: &Bytes,
) -> Result<Reply, Status> {
    let options = WriteOptions::parse(call.query, WriteKind::Update).map_err(OptionsError::status)?;
    let json = payload::object(call, body)?;
    let sent = || Draft::new(call, payload::members(call, &json)?);
    // Parsed before the stored object is read, so that its faults are told first; parsed again only after a lost race.
    let mut first = Some(sent()?);
    let change = |_: &Object| first.take().map_or_else(sent, Ok);
    run(call, name, part, options.dry_run, Owned::Followed, change).await
}

/// The source of `metadata.managedFields` in the new state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owned {
    /// From the old state, less what changes.
    Followed,
    /// From the new state: it was applied.
    Told,
}

/// Changes an object: `change` makes the new state from the old one, again for every attempt.
///
/// A `resourceVersion` in the new state that is not the old one's is a precondition that fails: 409. Without one the update is
/// tried again when it lost a race, at most [`ATTEMPTS_MAX`] times.
pub(super) async fn run<H: Host>(
    call: &Call<'_, H>,
    name: &str,
    part: Part,
    dry_run: bool,
    owned: Owned,
    mut change: impl FnMut(&Object) -> Result<Draft, Status>,
) -> Result<Reply, Status> {
    let key = call.key(name);
    for attempt in 0..ATTEMPTS_MAX {
        let current = call.current(&key).await?;
        let stored = get::json(&current)?;
        if attempt == 0 {
            payload::charge_stored(call, &stored)?;
        }
        let old = Draft::stored(&stored)?;
        let mut new = change(&current)?;
        settle_name(call, &mut new, name)?;
        check_preconditions(call, &new, &old, current.revision(), name)?;
        let told = new.metadata.shift_remove("managedFields");
        let mut new = merge(call, &old, new, part);
        match (owned, told) {
            (Owned::Followed, told) => {
                follow_owners(call, &old, &mut new, told.filter(|_| part == Part::All))
            }
            (Owned::Told, Some(told)) => new.set_meta("managedFields", told),
            (Owned::Told, None) => drop(new.metadata.shift_remove("managedFields")),
        }
        check(call, &old, &new)?;
        if old.is_the_same(&new) {
            return Ok(call.show(200, &get::json(&current)?));
        }
        let value = new.to_json(call);
        // An object that was deleted with a grace period is ended by a DELETE (apiserver `registry/generic`:
        // `ShouldDeleteDuringUpdate`).
        let grace = old.metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
        let ends = old.is_terminating() && grace == 0 && new.finalizers().is_empty();
        let checked = call.put_over(&current, value)?;
        if dry_run {
            return Ok(call.show(200, &new.to_json_at(call, &current.revision().to_string())));
        }
        let action = if ends { Action::Delete } else { checked.action.clone() };
        match call.write(&key, Expect::At(current.revision()), action).await? {
            Outcome::Made(_) if ends => {
                return Ok(call.show(200, &new.to_json_at(call, &current.revision().to_string())));
            }
            Outcome::Made(revision) => return Ok(call.show_written(200, checked.json_at(revision))),
            Outcome::Lost(None) => return Err(call.not_found(name)),
            // A client that named a revision gets its 409 when the next attempt finds a different one.
            Outcome::Lost(Some(_)) => {}
        }
    }
    Err(call.conflict(name))
}

/// The object must be the one of the path; only its namespace may be left out (apiserver `handlers/rest.go`: `checkName`).
pub(super) fn settle_name<H: Host>(call: &Call<'_, H>, new: &mut Draft, name: &str) -> Result<(), Status> {
    match new.meta("name") {
        "" => {
            return Err(Status::bad_request(format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                shown(name)
            )));
        }
        found if found == name => {}
        found => {
            return Err(Status::bad_request(format!(
                "the name of the object ({}) does not match the name on the URL ({})",
                shown(found),
                shown(name)
            )));
        }
    }
    match (new.meta("namespace"), call.namespace) {
        (found, Some(namespace)) if !found.is_empty() && found != namespace => {
            Err(Status::bad_request(format!(
                "the namespace of the object ({}) does not match the namespace on the request ({})",
                shown(found),
                shown(namespace)
            )))
        }
        _ => new.settle_namespace(call),
    }
}

/// Checks the preconditions of the client (apiserver `registry/generic/registry/store.go`).
fn check_preconditions<H: Host>(
    call: &Call<'_, H>,
    new: &Draft,
    old: &Draft,
    revision: Revision,
    name: &str,
) -> Result<(), Status> {
    let (believed, uid) = (new.meta("uid"), old.meta("uid"));
    if !believed.is_empty() && believed != uid {
        return Err(wrong_uid(call, name, believed, uid));
    }
    match new.meta("resourceVersion") {
        "" | "0" => Ok(()),
        text => match text.parse() {
            Ok(number) if Revision::new(number) == revision => Ok(()),
            Ok(_) => Err(call.conflict(name)),
            Err(_) => Err(Status::bad_request(format!(
                "metadata.resourceVersion {} is not a number: send the one that was read, or none",
                go_quote(text)
            ))),
        },
    }
}

/// 409: the object of that name is not the one that the client means.
fn wrong_uid<H: Host>(call: &Call<'_, H>, name: &str, believed: &str, uid: &str) -> Status {
    let why = format!(
        "Precondition failed: UID in precondition: {}, UID in object meta: {}",
        shown(believed),
        shown(uid)
    );
    Status::conflict_because(call.group_resource(), name, &why)
}

/// The new state: what was sent, or its status only, with what no client can change taken from the old one.
fn merge<H: Host>(call: &Call<'_, H>, old: &Draft, mut new: Draft, part: Part) -> Draft {
    if part == Part::Status {
        let mut merged = old.clone();
        match new.rest.shift_remove("status") {
            Some(status) => drop(merged.rest.insert("status".to_owned(), status)),
            None => drop(merged.rest.shift_remove("status")),
        }
        return merged;
    }
    if call.resource.has_status() {
        match old.rest.get("status") {
            Some(status) => drop(new.rest.insert("status".to_owned(), status.clone())),
            None => drop(new.rest.shift_remove("status")),
        }
    }
    const FIXED: [&str; 6] = [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generateName",
        "generation",
    ];
    for member in FIXED {
        match old.metadata.get(member) {
            Some(value) => drop(new.metadata.insert(member.to_owned(), value.clone())),
            None => drop(new.metadata.shift_remove(member)),
        }
    }
    if let Some(generation) = old.metadata.get("generation").and_then(Value::as_i64)
        && !old.wants_the_same(&new, call.resource.has_status())
    {
        new.set_meta("generation", generation.saturating_add(1));
    }
    new
}

/// Sets the owners of a new state that was not applied; `told`: what its writer sent as owners.
///
/// Without owners, or with invalid ones, the old ones stay; an empty list, or one of an empty entry, removes all (apimachinery
/// `managedfields/internal/fieldmanager.go`).
fn follow_owners<H: Host>(call: &Call<'_, H>, old: &Draft, new: &mut Draft, told: Option<Value>) {
    let was = old.metadata.get("managedFields");
    if was.is_none() && told.is_none() {
        return;
    }
    new.metadata.shift_remove("managedFields");
    let is_reset = |told: &Value| {
        told.as_array().is_some_and(|entries| match entries.as_slice() {
            [] => true,
            [one] => one.as_object().is_some_and(serde_json::Map::is_empty),
            _ => false,
        })
    };
    if told.as_ref().is_some_and(is_reset) {
        return;
    }
    let read = |value: Value| Owners::decode(&value).filter(|owners| !owners.is_empty()).map(|o| (value, o));
    let Some((value, mut owners)) = told.and_then(read).or_else(|| was.cloned().and_then(read)) else {
        return;
    };
    let bare = |draft: &Draft| {
        let mut draft = draft.clone();
        draft.metadata.shift_remove("managedFields");
        draft.into_members()
    };
    if !owners.follow(&bare(old), &bare(new), types::of(call.resource)) {
        // As it was stored, to the last member.
        new.set_meta("managedFields", value);
    } else if !owners.is_empty() {
        new.set_meta("managedFields", owners.encode());
    }
}

/// The faults of the new state.
fn check<H: Host>(call: &Call<'_, H>, old: &Draft, new: &Draft) -> Result<(), Status> {
    let mut causes = Vec::new();
    if old.is_terminating() {
        let added = added(
            old.finalizers().iter().filter_map(Value::as_str),
            new.finalizers().iter().filter_map(Value::as_str),
        );
        if !added.is_empty() {
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers [{}]",
                shown_list(added)
            );
            causes.push(Cause::forbidden("metadata.finalizers", &why));
        }
    }
    new.validate(call, causes)
}

/// The items of `new` that are not in `old`, in its order.
fn added<T: Eq + Hash>(old: impl Iterator<Item = T>, new: impl Iterator<Item = T>) -> Vec<T> {
    let old: HashSet<T> = old.collect();
    new.filter(|one| !old.contains(one)).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::hash::Hasher;
    use std::ops::Range;

    use super::*;

    /// A number that counts how often it is compared.
    struct Counted<'a>(usize, &'a Cell<usize>);

    impl PartialEq for Counted<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.1.set(self.1.get() + 1);
            self.0 == other.0
        }
    }

    impl Eq for Counted<'_> {}

    impl Hash for Counted<'_> {
        fn hash<S: Hasher>(&self, state: &mut S) {
            self.0.hash(state);
        }
    }

    #[test]
    fn what_is_added_is_found_without_comparing_all_with_all() {
        let compared = &Cell::new(0);
        let numbers = |range: Range<usize>| range.map(move |n| Counted(n, compared));
        let found = added(numbers(0..2_000), numbers(1_000..3_000));
        assert!(found.iter().map(|one| one.0).eq(2_000..3_000));
        assert!(compared.get() < 10_000, "{} comparisons", compared.get());
        assert_eq!(added(["a", "b"].into_iter(), ["c", "b", "d", "c"].into_iter()), ["c", "d", "c"]);
    }
}
