//! Strategic merge patches: objects merge, lists too where the type names a key for their items.
//!
//! Owns the semantics of the directives (`$patch`, `$retainKeys`, `$setElementOrder/...`, `$deleteFromPrimitiveList/...`), as
//! in apimachinery's `util/strategicpatch` and the document "Strategic Merge Patch" of the API conventions, with their error
//! texts where they have one. It does not use requests: values in, values out. The depth of a patch is limited by the JSON
//! parser (128), so recursion cannot exhaust the stack.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::api::merge::{Patch, Type};
use crate::http::{shown, shown_json};
use crate::serve::order::interleave;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

/// How often a list of a patch may repeat items. Each time the item is merged again, which takes time proportional to its size:
/// 100,000 changes of one large item would block the shard for minutes.
const REPEATS_MAX: usize = 8;

type Members = Map<String, Value>;

/// Why a patch cannot be applied: an error of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A directive is invalid for any object: 400.
    Format(String),
    /// It does not fit the object, or the type: 422.
    Content(String),
}

fn format_of(what: &str) -> Fault {
    Fault::Format(format!("invalid patch format of {what}"))
}

/// Applies a patch to an object of that type.
///
/// # Errors
/// [`Fault`]; `object` is then partly changed.
pub fn merge(object: &mut Members, patch: Members, of: &Type) -> Result<(), Fault> {
    let merged = merge_object(std::mem::take(object), patch, of)?;
    *object = merged;
    Ok(())
}

fn merge_object(mut object: Members, mut patch: Members, of: &Type) -> Result<Members, Fault> {
    if let Some(directive) = patch.shift_remove(DIRECTIVE) {
        match directive.as_str() {
            Some("replace") => return Ok(plain_object(patch)),
            Some("delete") => return Ok(Members::new()),
            // The default.
            Some("merge") => {}
            _ => return Err(unknown_directive(&directive, &patch)),
        }
    }
    if let Some(kept) = patch.shift_remove(RETAIN_KEYS) {
        retain(&mut object, &patch, &kept)?;
    }
    let orders: Members = patch
        .iter()
        .filter(|(name, _)| name.starts_with(ORDER))
        .map(|(name, order)| (name.clone(), order.clone()))
        .collect();
    for (directive, order) in orders {
        set_order(&mut object, &mut patch, &directive[ORDER.len()..], order, of)?;
    }
    let mut gone = HashSet::new();
    for (name, value) in patch {
        if name.starts_with(ORDER) {
            continue;
        }
        if let Some(list) = name.strip_prefix(DELETE_FROM) {
            delete_from(&mut object, list, &value)?;
        } else {
            let merged = match (object.get_mut(&name).map(Value::take), value) {
                (_, Value::Null) => None,
                (Some(old), value) => merge_member(old, value, &name, of)?,
                (None, value) => plain(value),
            };
            match merged {
                Some(merged) => drop(object.insert(name, merged)),
                None => drop(gone.insert(name)),
            }
        }
    }
    // In one pass: removing them one by one would move the rest of a large object each time.
    if !gone.is_empty() {
        object.retain(|name, _| !gone.contains(name));
    }
    Ok(object)
}

/// A member that both have.
fn merge_member(old: Value, new: Value, name: &str, of: &Type) -> Result<Option<Value>, Fault> {
    let field = of.field(name);
    let how = field.map_or(Patch::Common, |field| field.patch);
    let inner = field.map_or(&NOTHING, |field| field.of);
    match (old, new) {
        (Value::Object(_), Value::Object(new)) if how == Patch::Replace => {
            Ok(Some(Value::Object(plain_object(new))))
        }
        (Value::Object(old), Value::Object(new)) => {
            merge_object(old, new, inner).map(Value::Object).map(Some)
        }
        (Value::Array(old), Value::Array(new)) => {
            merge_list(old, new, how, inner).map(Value::Array).map(Some)
        }
        (_, new) => Ok(plain(new)),
    }
}

/// A type without rows.
static NOTHING: Type = Type::COMMON;

fn merge_list(old: Vec<Value>, new: Vec<Value>, how: Patch, of: &Type) -> Result<Vec<Value>, Fault> {
    let key = match how {
        Patch::Common | Patch::Replace => return Ok(plain_list(new)),
        Patch::Set => None,
        Patch::Keyed(key) => Some(key),
    };
    match items(old.iter().chain(&new))? {
        Items::None => Ok(old),
        Items::Scalars => {
            let (before, named) = (texts(&old), texts(&new));
            let mut seen = HashSet::new();
            let all = before.iter().chain(&named).cloned().zip(old.into_iter().chain(new));
            let once = all.filter(|(text, _)| seen.insert(text.clone())).collect();
            Ok(interleave(once, &named, &before))
        }
        Items::Objects => {
            let Some(key) = key else {
                let why = "cannot merge lists without merge key for type map".to_owned();
                return Err(Fault::Content(why));
            };
            merge_keyed(old, new, key, of)
        }
    }
}

/// A list of objects with the key `key`.
fn merge_keyed(old: Vec<Value>, new: Vec<Value>, key: &str, of: &Type) -> Result<Vec<Value>, Fault> {
    let mut replaced = false;
    let mut deleted = HashSet::new();
    let mut changes: Vec<(String, Members)> = Vec::new();
    for item in new {
        let Value::Object(item) = item else { continue };
        let Some(directive) = item.get(DIRECTIVE) else {
            changes.push((key_of(&item, key)?, item));
            continue;
        };
        match directive.as_str() {
            Some("delete") => drop(deleted.insert(key_of(&item, key)?)),
            Some("replace") => replaced = true,
            Some("merge") => {
                let why = "merging lists cannot yet be specified in the patch".to_owned();
                return Err(Fault::Content(why));
            }
            _ => return Err(unknown_directive(directive, &item)),
        }
    }
    if replaced {
        return Ok(changes.into_iter().map(|(_, item)| Value::Object(plain_object(item))).collect());
    }
    let mut list: Vec<(String, Members)> = Vec::with_capacity(old.len() + changes.len());
    for item in old {
        let Value::Object(item) = item else { continue };
        // An item without its key was stored by another writer: it stays where it is, and nothing is merged into it.
        let text = item.get(key).map(Value::to_string).unwrap_or_default();
        if !deleted.contains(&text) {
            list.push((text, item));
        }
    }
    let before: Vec<String> = list.iter().map(|(text, _)| text.clone()).collect();
    let named: Vec<String> = changes.iter().map(|(text, _)| text.clone()).collect();
    let distinct: HashSet<&String> = named.iter().collect();
    if named.len() - distinct.len() > REPEATS_MAX {
        let why = format!("a list in the patch repeats items more than {REPEATS_MAX} times: name each once");
        return Err(Fault::Content(why));
    }
    let mut places: HashMap<String, usize> = HashMap::new();
    for (place, text) in before.iter().enumerate() {
        places.entry(text.clone()).or_insert(place);
    }
    for (text, change) in changes {
        match places.get(&text) {
            Some(place) => {
                let item = &mut list[*place].1;
                *item = merge_object(std::mem::take(item), change, of)?;
            }
            None => {
                places.insert(text.clone(), list.len());
                list.push((text, plain_object(change)));
            }
        }
    }
    Ok(interleave(list, &named, &before).into_iter().map(Value::Object).collect())
}

/// `$setElementOrder/name`: merges that list now, and puts it in order.
fn set_order(
    object: &mut Members,
    patch: &mut Members,
    name: &str,
    order: Value,
    of: &Type,
) -> Result<(), Fault> {
    let fault = || format_of("setElementOrder list");
    let Value::Array(order) = order else { return Err(fault()) };
    let key = match of.field(name).map(|field| field.patch) {
        Some(Patch::Keyed(key)) => Some(key),
        Some(Patch::Set) => None,
        // A list that is replaced as a whole has its order already.
        Some(Patch::Common | Patch::Replace) | None => return Ok(()),
    };
    let named = |item: &Value| match (key, item) {
        (Some(key), Value::Object(item)) => key_of(item, key),
        (None, Value::Bool(_) | Value::Number(_) | Value::String(_)) => Ok(item.to_string()),
        _ => Err(fault()),
    };
    let order: Vec<String> = order.iter().map(named).collect::<Result<_, _>>()?;
    let change = patch.shift_remove(name);
    if let Some(Value::Array(items)) = &change {
        check_order(items, &order, key, named)?;
    } else if !matches!(change, None | Some(Value::Null)) {
        return Err(fault());
    }
    let live = object.get(name).and_then(Value::as_array);
    let text = |item: &Value| match key {
        Some(key) => item.get(key).map(Value::to_string).unwrap_or_default(),
        None => item.to_string(),
    };
    let before: Vec<String> = live.into_iter().flatten().map(text).collect();
    match change {
        Some(Value::Null) => drop(object.shift_remove(name)),
        Some(change) => {
            let one = Members::from_iter([(name.to_owned(), change)]);
            *object = merge_object(std::mem::take(object), one, of)?;
        }
        None => {}
    }
    if let Some(Value::Array(list)) = object.get_mut(name) {
        let items = std::mem::take(list).into_iter().map(|item| (text(&item), item)).collect();
        *list = interleave(items, &order, &before);
    }
    Ok(())
}

/// Items that the patch adds or changes must all be in the order that it sets, in that order.
fn check_order(
    items: &[Value],
    order: &[String],
    key: Option<&str>,
    named: impl Fn(&Value) -> Result<String, Fault>,
) -> Result<(), Fault> {
    let mut rest = order.iter();
    for item in items {
        if key.is_some() && item.get(DIRECTIVE).is_some() {
            continue;
        }
        let text = named(item)?;
        if !order.is_empty() && !rest.any(|other| *other == text) {
            let why = format!(
                "The order in patch list doesn't match $setElementOrder list: {} is not there, or not in its place",
                shown(&text)
            );
            return Err(Fault::Content(why));
        }
    }
    Ok(())
}

/// `$retainKeys`: every member that it does not name is removed.
fn retain(object: &mut Members, patch: &Members, kept: &Value) -> Result<(), Fault> {
    let fault = || format_of("retainKeys");
    let kept: HashSet<&str> = kept
        .as_array()
        .ok_or_else(fault)?
        .iter()
        .map(Value::as_str)
        .collect::<Option<_>>()
        .ok_or_else(fault)?;
    for (name, value) in patch {
        let says_nothing = value.is_null() || name.starts_with(DELETE_FROM) || name.starts_with(ORDER);
        if !says_nothing && !kept.contains(name.as_str()) {
            return Err(fault());
        }
    }
    object.retain(|name, _| kept.contains(name.as_str()));
    Ok(())
}

/// `$deleteFromPrimitiveList/name`.
fn delete_from(object: &mut Members, name: &str, values: &Value) -> Result<(), Fault> {
    let Value::Array(values) = values else { return Err(format_of("primitive list")) };
    if let Some(Value::Array(list)) = object.get_mut(name) {
        let gone: HashSet<String> = values.iter().map(Value::to_string).collect();
        list.retain(|item| !gone.contains(&item.to_string()));
    }
    Ok(())
}

/// The kind of a list's items.
enum Items {
    None,
    Scalars,
    Objects,
}

fn items<'a>(list: impl Iterator<Item = &'a Value>) -> Result<Items, Fault> {
    let mut found = Items::None;
    for item in list {
        found = match (found, item) {
            (_, Value::Array(_)) => {
                return Err(Fault::Content("lists of lists are not supported".to_owned()));
            }
            (Items::None | Items::Objects, Value::Object(_)) => Items::Objects,
            (
                Items::None | Items::Scalars,
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_),
            ) => Items::Scalars,
            _ => return Err(Fault::Content("list element types are not identical".to_owned())),
        };
    }
    Ok(found)
}

fn texts(list: &[Value]) -> Vec<String> {
    list.iter().map(Value::to_string).collect()
}

/// The key of an item of the patch.
fn key_of(item: &Members, key: &str) -> Result<String, Fault> {
    item.get(key).map(Value::to_string).ok_or_else(|| {
        Fault::Content(format!("map: {} does not contain declared merge key: {key}", shown_json(item)))
    })
}

fn unknown_directive(directive: &Value, inside: &Members) -> Fault {
    Fault::Format(format!("unknown patch type: {} in map: {}", shown_json(directive), shown_json(inside)))
}

/// A value of the patch without a counterpart: without nulls and directives. `None`: nothing is left.
fn plain(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(members) if members.get(DIRECTIVE).is_some_and(|word| word == "delete") => None,
        Value::Object(members) => Some(Value::Object(plain_object(members))),
        Value::Array(items) => Some(Value::Array(plain_list(items))),
        value @ (Value::Bool(_) | Value::Number(_) | Value::String(_)) => Some(value),
    }
}

fn plain_object(members: Members) -> Members {
    let is_directive = |name: &str| {
        name == DIRECTIVE || name == RETAIN_KEYS || name.starts_with(ORDER) || name.starts_with(DELETE_FROM)
    };
    let members = members.into_iter().filter(|(name, _)| !is_directive(name));
    members.filter_map(|(name, value)| plain(value).map(|value| (name, value))).collect()
}

fn plain_list(items: Vec<Value>) -> Vec<Value> {
    // An item that is a directive is not an item.
    items.into_iter().filter(|item| item.get(DIRECTIVE).is_none()).filter_map(plain).collect()
}
