//! Merging an applied configuration into an object, and removing what is not applied any more.
//!
//! Owns both walks over the values, by the table of the types. It never decides on ownership.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::fields::{item_step, value_step};
use super::{Fields, Members};
use crate::api::merge::{Apply, Key, Type};
use crate::serve::order::interleave;

static COMMON: Type = Type::COMMON;

fn known(of: &'static Type, name: &str) -> (Apply, &'static Type) {
    of.field(name).map_or((Apply::Common, &COMMON), |field| (field.apply, field.of))
}

/// `config` merged over `live`.
pub(super) fn merge(mut live: Members, config: Members, of: &'static Type) -> Members {
    for (name, new) in config {
        let (how, inner) = known(of, &name);
        let merged = match live.get_mut(&name).map(Value::take) {
            Some(old) => merge_value(old, new, how, inner),
            None => new,
        };
        live.insert(name, merged);
    }
    live
}

fn merge_value(old: Value, new: Value, how: Apply, of: &'static Type) -> Value {
    match (how, old, new) {
        (Apply::Common, Value::Object(old), Value::Object(new)) => Value::Object(merge(old, new, of)),
        (Apply::Keyed(keys), Value::Array(old), Value::Array(new)) => {
            Value::Array(merge_items(old, new, keys, of))
        }
        (Apply::Set, Value::Array(old), Value::Array(new)) => {
            let steps =
                |list: &[Value]| list.iter().map(|item| value_step(item).unwrap_or_default()).collect();
            let (before, named): (Vec<String>, Vec<String>) = (steps(&old), steps(&new));
            let mut seen = HashSet::new();
            let all = before.iter().chain(&named).cloned().zip(old.into_iter().chain(new));
            let once = all.filter(|(step, _)| seen.insert(step.clone())).collect();
            Value::Array(interleave(once, &named, &before))
        }
        (_, _, new) => new,
    }
}

fn merge_items(old: Vec<Value>, new: Vec<Value>, keys: &[Key], of: &'static Type) -> Vec<Value> {
    // An item of the stored list without its key is left as it is.
    let step_of = |item: &Value| item_step(item, keys).unwrap_or_default();
    let before: Vec<String> = old.iter().map(step_of).collect();
    let named: Vec<String> = new.iter().map(step_of).collect();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (place, step) in before.iter().enumerate() {
        places.entry(step).or_insert(place);
    }
    let mut items: Vec<(String, Value)> = before.iter().cloned().zip(old).collect();
    for (step, change) in named.iter().zip(new) {
        match places.get(step.as_str()) {
            Some(place) => {
                let item = &mut items[*place].1;
                *item = merge_value(item.take(), change, Apply::Common, of);
            }
            None => items.push((step.clone(), change)),
        }
    }
    interleave(items, &named, &before)
}

/// Removes from `object` what is in `last` and not in `kept`, and what is empty then.
pub(super) fn prune(object: &mut Members, last: &Fields, kept: &Fields, of: &'static Type) {
    prune_members(object, last, Some(kept), of);
}

fn prune_members(object: &mut Members, last: &Fields, kept: Option<&Fields>, of: &'static Type) {
    let mut gone = HashSet::new();
    for (step, last) in &last.inner {
        let Some(name) = step.strip_prefix("f:") else { continue };
        let Some(value) = object.get_mut(name) else { continue };
        let kept = kept.and_then(|kept| kept.inner.get(step));
        let (how, inner) = known(of, name);
        let goes = kept.is_none() && last.own || prune_value(value, last, kept, how, inner) && kept.is_none();
        if goes {
            gone.insert(name.to_owned());
        }
    }
    if !gone.is_empty() {
        object.retain(|name, _| !gone.contains(name));
    }
}

/// Whether nothing is left of the value.
fn prune_value(
    value: &mut Value,
    last: &Fields,
    kept: Option<&Fields>,
    how: Apply,
    of: &'static Type,
) -> bool {
    match (how, value) {
        (Apply::Common, Value::Object(members)) if !members.is_empty() => {
            prune_members(members, last, kept, of);
            members.is_empty()
        }
        (Apply::Keyed(keys), Value::Array(items)) if !items.is_empty() => {
            items.retain_mut(|item| {
                let Ok(step) = item_step(item, keys) else { return true };
                let Some(last) = last.inner.get(&step) else { return true };
                let kept = kept.and_then(|kept| kept.inner.get(&step));
                if kept.is_none() && last.own {
                    return false;
                }
                if let Value::Object(members) = item {
                    // The keys of an item stay with it, whichever manager set them first.
                    let names: Vec<(String, Value)> = keys
                        .iter()
                        .filter_map(|key| Some((key.name.to_owned(), members.get(key.name)?.clone())))
                        .collect();
                    prune_members(members, last, kept, of);
                    for (key, value) in names {
                        members.entry(key).or_insert(value);
                    }
                }
                true
            });
            items.is_empty()
        }
        (Apply::Set, Value::Array(items)) if !items.is_empty() => {
            items.retain(|item| {
                let Some(step) = value_step(item) else { return true };
                !last.inner.contains_key(&step) || kept.is_some_and(|kept| kept.inner.contains_key(&step))
            });
            items.is_empty()
        }
        _ => false,
    }
}
