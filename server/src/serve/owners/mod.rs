//! Field ownership: `metadata.managedFields`, for server-side apply.
//!
//! Owns the entries, and how they change with an object. The rule is simpler than Kubernetes': **appliers own what they
//! applied, other writers own nothing.** A field that a PUT, POST or PATCH changes or removes loses its owners; one that it
//! leaves unchanged keeps them. Entries of other writers come only from elsewhere (an object that kube-apiserver wrote, or a
//! client that sent them): they count in conflicts, and shrink in the same way.
//!
//! It does not use requests or the store: values in, values out. Fields are in the module `fields`, merging is in `merge`.

mod fields;
mod merge;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

pub(super) use fields::Fields;

use crate::api::merge::Type;
use crate::http::{go_quote, shown};

type Members = Map<String, Value>;

/// Members of an object that have no owner (apimachinery `managedfields/internal/stripmeta.go`).
const UNOWNED: [&str; 9] = [
    "f:name",
    "f:namespace",
    "f:creationTimestamp",
    "f:selfLink",
    "f:uid",
    "f:clusterName",
    "f:generation",
    "f:managedFields",
    "f:resourceVersion",
];

/// The limit of entries; Kubernetes keeps ten of updaters and one per applier.
const ENTRIES_MAX: usize = 64;
/// The limit of entries times values of the object: beyond it, all ownership is dropped instead.
const WORK_MAX: usize = 4_000_000;
/// The limit of bytes of the paths to owned fields that one write changes. A path is made for every change, with all its steps:
/// 100,000 members of one object below a name of 1 MiB would make 100 GiB. Beyond it all ownership is dropped too.
const PATH_BYTES_MAX: usize = 16 << 20;
/// Bytes of managers and paths beyond which conflicts are counted and not listed, less than a `Status` has room for. Kubernetes
/// lists all.
const CONFLICTS_BYTES_MAX: usize = 12 << 10;

/// One entry of `metadata.managedFields`.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    manager: String,
    is_apply: bool,
    api_version: String,
    time: Option<String>,
    subresource: String,
    fields: Fields,
}

impl Entry {
    fn decode(value: &Value) -> Option<Self> {
        let text = |member: &str| match value.get(member) {
            None | Some(Value::Null) => Some(String::new()),
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => None,
        };
        let is_apply = match text("operation")?.as_str() {
            "Apply" => true,
            "Update" => false,
            _ => return None,
        };
        if text("fieldsType")? != "FieldsV1" {
            return None;
        }
        Some(Self {
            manager: text("manager")?,
            is_apply,
            api_version: text("apiVersion")?,
            time: Some(text("time")?).filter(|time| !time.is_empty()),
            subresource: text("subresource")?,
            fields: value.get("fieldsV1").map_or_else(|| Some(Fields::default()), Fields::decode)?,
        })
    }

    fn encode(&self) -> Value {
        let mut entry = json!({
            "manager": self.manager,
            "operation": if self.is_apply { "Apply" } else { "Update" },
            "apiVersion": self.api_version,
        });
        if let Some(time) = &self.time {
            entry["time"] = json!(time);
        }
        entry["fieldsType"] = json!("FieldsV1");
        entry["fieldsV1"] = self.fields.encode();
        if !self.subresource.is_empty() {
            entry["subresource"] = json!(self.subresource);
        }
        entry
    }

    /// The manager in the text of a conflict (apimachinery `managedfields/internal/conflict.go`).
    fn shown(&self) -> String {
        let mut line = go_quote(&self.manager);
        if !self.subresource.is_empty() {
            line.push_str(&format!(" with subresource {}", go_quote(&self.subresource)));
        }
        if !self.is_apply {
            line.push_str(&format!(" using {}", shown(&self.api_version)));
            if let Some(time) = &self.time {
                line.push_str(&format!(" at {}", shown(time)));
            }
        }
        line
    }
}

/// All entries of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Owners {
    entries: Vec<Entry>,
}

/// Fields of others that an apply would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    /// The other manager, as text.
    pub(super) manager: String,
    /// `.spec.containers[name="web"].image`.
    pub(super) path: String,
}

/// Conflicts, while they are collected.
#[derive(Debug, Default)]
struct Conflicts {
    listed: Vec<Conflict>,
    /// The bytes of `found`.
    bytes: usize,
    more: usize,
}

impl Conflicts {
    fn add(&mut self, manager: &str, path: &[String]) {
        if self.bytes >= CONFLICTS_BYTES_MAX {
            self.more += 1;
            return;
        }
        let conflict = Conflict { manager: manager.to_owned(), path: fields::shown(path) };
        self.bytes += conflict.manager.len() + conflict.path.len();
        self.listed.push(conflict);
    }

    /// Whether there are none.
    fn check(self) -> Result<(), ApplyFault> {
        let Self { mut listed, more, .. } = self;
        if listed.is_empty() {
            return Ok(());
        }
        listed.sort_by(|a, b| (&a.manager, &a.path).cmp(&(&b.manager, &b.path)));
        Err(ApplyFault::Conflicts { listed, more })
    }
}

/// Why an apply is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ApplyFault {
    /// Other managers own what it would change.
    Conflicts {
        /// By manager and path; never empty.
        listed: Vec<Conflict>,
        /// How many more there are.
        more: usize,
    },
    /// A list cannot be merged: an item without its key, or a duplicate.
    List(String),
}

/// The applier.
#[derive(Clone, Copy, Debug)]
pub(super) struct Applier<'a> {
    /// `fieldManager`.
    pub(super) manager: &'a str,
    /// "" for the object itself.
    pub(super) subresource: &'a str,
    /// Of the object.
    pub(super) api_version: &'a str,
    /// Whether it takes over what others own.
    pub(super) force: bool,
    /// Now, in the format of objects.
    pub(super) time: &'a str,
}

impl Owners {
    /// Parses `metadata.managedFields`; `None` if an entry is invalid, or if there are too many.
    pub(super) fn decode(value: &Value) -> Option<Self> {
        if value.as_array()?.len() > ENTRIES_MAX {
            return None;
        }
        let entries = value.as_array()?.iter().map(Entry::decode).collect::<Option<_>>()?;
        Some(Self { entries })
    }

    /// As `metadata.managedFields`: appliers first, then by time.
    pub(super) fn encode(&self) -> Value {
        let mut entries: Vec<&Entry> = self.entries.iter().collect();
        entries.sort_by_key(|entry| {
            (!entry.is_apply, entry.time.clone(), entry.manager.clone(), entry.subresource.clone())
        });
        entries.into_iter().map(Entry::encode).collect()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether comparing an object for every entry would block the shard for too long.
    fn is_too_much(&self, object: &Members) -> bool {
        fn values(value: &Value) -> usize {
            match value {
                Value::Array(items) => 1 + items.iter().map(values).sum::<usize>(),
                Value::Object(members) => 1 + members.values().map(values).sum::<usize>(),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
            }
        }
        let all: usize = object.values().map(values).sum();
        self.entries.len().saturating_mul(all) > WORK_MAX
    }

    /// For a writer that does not apply and made `new` of `old`: what changed loses its owners. Returns whether anything did.
    pub(super) fn follow(&mut self, old: &Members, new: &Members, of: &'static Type) -> bool {
        if self.is_too_much(old) || self.is_too_much(new) {
            self.entries.clear();
            return true;
        }
        let mut any = false;
        let mut room = PATH_BYTES_MAX;
        for entry in &mut self.entries {
            let Some(changes) = entry.fields.changes(old, new, of, &mut room) else {
                self.entries.clear();
                return true;
            };
            any |= !changes.is_empty();
            for change in &changes {
                entry.fields.remove(&change.path, change.is_gone);
            }
        }
        self.entries.retain(|entry| !entry.fields.is_empty());
        any
    }

    /// Applies `config` to `live`: the new object, and its owners. Neither has `metadata.managedFields`.
    ///
    /// A field that this applier owned and does not send is removed, unless another manager owns it too.
    ///
    /// # Errors
    /// [`ApplyFault`].
    pub(super) fn apply(
        &mut self,
        applier: &Applier<'_>,
        live: &Members,
        config: &Members,
        of: &'static Type,
    ) -> Result<Members, ApplyFault> {
        if self.is_too_much(live) || self.is_too_much(config) {
            self.entries.clear();
        }
        let mut applied = Fields::of(config, of).map_err(ApplyFault::List)?;
        for member in UNOWNED {
            applied.remove(&["f:metadata".to_owned(), member.to_owned()], true);
        }
        applied.remove(&["f:metadata".to_owned()], false);
        let mut new = merge::merge(live.clone(), config.clone(), of);
        let is_same = |entry: &Entry| {
            entry.is_apply && entry.manager == applier.manager && entry.subresource == applier.subresource
        };
        let mine = self.entries.iter().position(is_same).map(|at| self.entries.remove(at));
        if let Some(mine) = &mine {
            let mut kept = applied.clone();
            for other in &self.entries {
                kept.add(&other.fields);
            }
            merge::prune(&mut new, &mine.fields, &kept, of);
        }
        let mut conflicts = Conflicts::default();
        let mut lost = Vec::new();
        let mut room = PATH_BYTES_MAX;
        for (at, other) in self.entries.iter().enumerate() {
            let Some(changes) = other.fields.changes(live, &new, of, &mut room) else {
                // Once more, without owners.
                self.entries.clear();
                return self.apply(applier, live, config, of);
            };
            let manager = other.shown();
            for change in changes {
                if !change.is_gone && !applier.force {
                    conflicts.add(&manager, &change.path);
                }
                lost.push((at, change));
            }
        }
        conflicts.check()?;
        for (at, change) in &lost {
            self.entries[*at].fields.remove(&change.path, change.is_gone);
        }
        self.entries.retain(|entry| !entry.fields.is_empty());
        if !applied.is_empty() {
            let unchanged = mine.filter(|mine| mine.fields == applied && new == *live && lost.is_empty());
            let entry = unchanged.unwrap_or_else(|| Entry {
                manager: applier.manager.to_owned(),
                is_apply: true,
                api_version: applier.api_version.to_owned(),
                time: Some(applier.time.to_owned()),
                subresource: applier.subresource.to_owned(),
                fields: applied,
            });
            self.entries.push(entry);
        }
        Ok(new)
    }
}
