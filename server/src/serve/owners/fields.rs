//! A set of fields: the parts of an object that a manager owns.
//!
//! Owns the format `FieldsV1` (a trie: `f:name` a member, `k:{...}` an item by its keys, `v:...` a scalar of a set, `.` the
//! node itself), how it is made from an object and compared with two. It never changes an object.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use super::Members;
use crate::api::merge::{Apply, Key, Type};
use crate::http::{shown as shown_text, shown_json};

/// The node is a leaf: its content is owned as a whole.
static COMMON: Type = Type::COMMON;

/// A set of fields below one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::serve) struct Fields {
    /// The node itself.
    pub(super) own: bool,
    /// The fields below, by step.
    pub(super) inner: BTreeMap<String, Self>,
}

/// A field that changed.
#[derive(Debug)]
pub(super) struct Change {
    /// The steps to it.
    pub(super) path: Vec<String>,
    /// Whether it was removed.
    pub(super) is_gone: bool,
}

impl Fields {
    fn leaf() -> Self {
        Self { own: true, inner: BTreeMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.own && self.inner.is_empty()
    }

    /// The fields that an object sets.
    ///
    /// # Errors
    /// Text for the client if items of a list cannot be distinguished.
    pub(in crate::serve) fn of(object: &Members, of: &'static Type) -> Result<Self, String> {
        let mut fields = Self::default();
        for (name, value) in object {
            let (how, inner) = of.field(name).map_or((Apply::Common, &COMMON), |f| (f.apply, f.of));
            let within =
                Self::of_value(value, how, inner).map_err(|why| format!(".{}{why}", shown_text(name)))?;
            if !within.is_empty() {
                fields.inner.insert(format!("f:{name}"), within);
            }
        }
        Ok(fields)
    }

    fn of_value(value: &Value, how: Apply, of: &'static Type) -> Result<Self, String> {
        let mut fields = Self::default();
        match (how, value) {
            (Apply::Common, Value::Object(members)) if !members.is_empty() => return Self::of(members, of),
            (Apply::Keyed(keys), Value::Array(items)) => {
                for (place, item) in items.iter().enumerate() {
                    let step = item_step(item, keys).map_err(|why| format!(": element {place}: {why}"))?;
                    let Value::Object(members) = item else { continue };
                    let within =
                        Self::of(members, of).map_err(|why| format!("{}{why}", shown_step(&step)))?;
                    let within = Self { own: true, ..within };
                    if fields.inner.insert(step.clone(), within).is_some() {
                        return Err(format!(": duplicate entries for key {}", shown_step(&step)));
                    }
                }
            }
            (Apply::Set, Value::Array(items)) => {
                for (place, item) in items.iter().enumerate() {
                    let step = value_step(item)
                        .ok_or_else(|| format!(": element {place}: a set may not have lists or objects"))?;
                    if fields.inner.insert(step.clone(), Self::leaf()).is_some() {
                        return Err(format!(": duplicate entries for key {}", shown_step(&step)));
                    }
                }
            }
            _ => return Ok(Self::leaf()),
        }
        Ok(fields)
    }

    /// Reads `fieldsV1`.
    pub(super) fn decode(value: &Value) -> Option<Self> {
        let members = value.as_object()?;
        let mut fields = Self { own: members.contains_key("."), inner: BTreeMap::new() };
        for (step, value) in members.iter().filter(|(step, _)| *step != ".") {
            if !["f:", "k:", "v:", "i:"].iter().any(|prefix| step.starts_with(prefix)) {
                return None;
            }
            let mut within = Self::decode(value)?;
            if within.inner.is_empty() {
                within.own = true;
            }
            fields.inner.insert(step.clone(), within);
        }
        Some(fields)
    }

    /// As `fieldsV1`.
    pub(super) fn encode(&self) -> Value {
        let mut members = Map::new();
        if self.own && !self.inner.is_empty() {
            members.insert(".".to_owned(), Value::Object(Map::new()));
        }
        members.extend(self.inner.iter().map(|(step, within)| (step.clone(), within.encode())));
        Value::Object(members)
    }

    /// Adds the fields of the other set.
    pub(super) fn add(&mut self, other: &Self) {
        self.own |= other.own;
        for (step, within) in &other.inner {
            self.inner.entry(step.clone()).or_default().add(within);
        }
    }

    /// Removes one field, or a node with everything below it, and its ancestors that are empty then.
    pub(super) fn remove(&mut self, path: &[String], whole: bool) {
        let Some((step, rest)) = path.split_first() else {
            self.own = false;
            if whole {
                self.inner.clear();
            }
            return;
        };
        if let Some(within) = self.inner.get_mut(step) {
            within.remove(rest, whole);
            if within.is_empty() {
                self.inner.remove(step);
            }
        }
    }

    /// Those of these fields that differ between two states of an object; `None` if their paths take more than `room` bytes.
    /// The bytes are subtracted from `room`.
    pub(super) fn changes(
        &self,
        old: &Members,
        new: &Members,
        of: &'static Type,
        room: &mut usize,
    ) -> Option<Vec<Change>> {
        let mut changes = Vec::new();
        let (old, new) = (Inside::Members(old, of), Inside::Members(new, of));
        self.compare_inner(&old, &new, &mut Vec::new(), &mut changes, room)?;
        Some(changes)
    }

    fn compare_inner(
        &self,
        old: &Inside<'_>,
        new: &Inside<'_>,
        path: &mut Vec<String>,
        changes: &mut Vec<Change>,
        room: &mut usize,
    ) -> Option<()> {
        for (step, within) in &self.inner {
            let (before, after) = (old.get(step), new.get(step));
            let (was, is) = (before.value, after.value);
            // Two objects with fields below are compared there only: to compare them at every level too would cost their depth
            // squared.
            let are_walked = !within.inner.is_empty()
                && matches!((was, is), (Some(Value::Object(_)), Some(Value::Object(_))));
            if !are_walked && was == is {
                continue;
            }
            path.push(step.clone());
            // A node with fields below is decided by those, unless all of it was removed.
            if within.inner.is_empty() || is.is_none() {
                let bytes: usize = path.iter().map(|step| size_of::<String>() + step.len()).sum();
                *room = room.checked_sub(bytes)?;
                changes.push(Change { path: path.clone(), is_gone: is.is_none() });
            } else {
                within.compare_inner(&before.inside(), &after.inside(), path, changes, room)?;
            }
            path.pop();
        }
        Some(())
    }
}

/// What a step leads to.
struct Found<'a> {
    value: Option<&'a Value>,
    how: Apply,
    of: &'static Type,
}

impl<'a> Found<'a> {
    fn nothing() -> Self {
        Self { value: None, how: Apply::Common, of: &COMMON }
    }

    fn inside(&self) -> Inside<'a> {
        match (self.how, self.value) {
            (Apply::Common, Some(Value::Object(members))) => Inside::Members(members, self.of),
            (Apply::Keyed(keys), Some(Value::Array(items))) => {
                let steps = items.iter().filter_map(|item| Some((item_step(item, keys).ok()?, item)));
                Inside::Items(first_of(steps), self.of)
            }
            (Apply::Set, Some(Value::Array(items))) => {
                let steps = items.iter().filter_map(|item| Some((value_step(item)?, item)));
                Inside::Items(first_of(steps), &COMMON)
            }
            _ => Inside::Nothing,
        }
    }
}

/// Of items with the same key the first is used.
fn first_of<'a>(steps: impl Iterator<Item = (String, &'a Value)>) -> HashMap<String, &'a Value> {
    let mut items = HashMap::new();
    for (step, item) in steps {
        items.entry(step).or_insert(item);
    }
    items
}

/// The targets of the steps from a node.
enum Inside<'a> {
    Members(&'a Members, &'static Type),
    Items(HashMap<String, &'a Value>, &'static Type),
    Nothing,
}

impl<'a> Inside<'a> {
    fn get(&self, step: &str) -> Found<'a> {
        match self {
            Inside::Members(members, of) => {
                // Steps to items lead nowhere here: if all led to one member, it would be compared as many times.
                let Some(name) = step.strip_prefix("f:") else { return Found::nothing() };
                let (how, of) = of.field(name).map_or((Apply::Common, &COMMON), |f| (f.apply, f.of));
                Found { value: members.get(name), how, of }
            }
            Inside::Items(items, of) => Found { value: items.get(step).copied(), how: Apply::Common, of },
            Inside::Nothing => Found::nothing(),
        }
    }
}

/// The step to an item of a list with keys.
///
/// # Errors
/// Text for the client: it is not an object, or a key is missing.
pub(super) fn item_step(item: &Value, keys: &[Key]) -> Result<String, String> {
    let Value::Object(members) = item else {
        return Err("associative list with keys may not have non-map elements".to_owned());
    };
    let mut step = Map::new();
    for key in keys {
        let value = match (members.get(key.name), key.default) {
            (Some(value), _) if !value.is_null() => value.clone(),
            (_, Some(default)) => Value::String(default.to_owned()),
            (_, None) => {
                return Err(format!(
                    "associative list with keys has an element that omits key field \"{}\" (and doesn't have default value)",
                    key.name
                ));
            }
        };
        step.insert(key.name.to_owned(), value);
    }
    Ok(format!("k:{}", Value::Object(step)))
}

/// The step to an item of a set; `None` if it is not a scalar.
pub(super) fn value_step(item: &Value) -> Option<String> {
    let is_scalar = !item.is_object() && !item.is_array();
    is_scalar.then(|| format!("v:{item}"))
}

/// A path as conflicts show it: `.spec.containers[name="web"].image`.
pub(super) fn shown(path: &[String]) -> String {
    path.iter().map(|step| shown_step(step)).collect()
}

fn shown_step(step: &str) -> String {
    match step.split_at_checked(2) {
        Some(("f:", name)) => format!(".{}", shown_text(name)),
        Some(("v:", value)) => format!("[={}]", shown_text(value)),
        Some(("k:", keys)) => {
            let keys: Members = serde_json::from_str(keys).unwrap_or_default();
            let keys: Vec<String> =
                keys.iter().map(|(name, value)| format!("{name}={}", shown_json(value))).collect();
            format!("[{}]", keys.join(","))
        }
        Some((_, index)) => format!("[{}]", shown_text(index)),
        None => shown_text(step).into_owned(),
    }
}
