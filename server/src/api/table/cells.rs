//! Writing cells, and reading objects of any structure.

use std::borrow::Cow;

use revcast_engine::escape;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::age;
use crate::api::protobuf::quantity::canonical;

/// The cell when there is nothing to show.
pub(super) const NONE: &str = "<none>";
/// The cell of an optional member that is not there, in some kinds.
pub(super) const UNSET: &str = "<unset>";

/// Appends cells to a row, with the commas between them.
#[derive(Debug)]
pub(super) struct Cells<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> Cells<'a> {
    pub(super) const fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, first: true }
    }

    fn add<T: Serialize + ?Sized>(&mut self, value: &T) {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
        let start = self.out.len();
        serde_json::to_writer(&mut *self.out, value).expect("writing to a Vec does not fail");
        let escaped = match escape::escaped(&self.out[start..]) {
            Cow::Borrowed(_) => return,
            Cow::Owned(escaped) => escaped,
        };
        self.out.truncate(start);
        self.out.extend_from_slice(&escaped);
    }

    pub(super) fn text(&mut self, value: &str) {
        self.add(value);
    }

    pub(super) fn number(&mut self, value: i64) {
        self.add(&value);
    }

    pub(super) fn count(&mut self, value: usize) {
        self.add(&value);
    }

    pub(super) fn flag(&mut self, value: bool) {
        self.add(&value);
    }

    /// A cell without a value.
    pub(super) fn null(&mut self) {
        self.add(&Value::Null);
    }

    /// A number as Go writes it, which serde_json would write in another way.
    pub(super) fn literal(&mut self, number: &RawValue) {
        self.add(number);
    }

    /// `metadata.name`.
    pub(super) fn name(&mut self, object: &Value) {
        self.text(text(object, "/metadata/name"));
    }

    /// The time since `metadata.creationTimestamp`.
    pub(super) fn age(&mut self, object: &Value, now: i64) {
        self.text(&age::since(text(object, "/metadata/creationTimestamp"), now));
    }
}

/// The value at `pointer` (RFC 6901, without `~`). Unlike serde_json's it does not allocate: some are read for each of
/// a hundred thousand items.
pub(super) fn at<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    pointer.split('/').skip(1).try_fold(value, |here, step| match here {
        Value::Object(members) => members.get(step),
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

/// The string at `pointer`; "" if there is none.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    at(value, pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The string at `pointer`, or `other` when it is empty or missing.
pub(super) fn text_or<'a>(value: &'a Value, pointer: &str, other: &'a str) -> &'a str {
    or(text(value, pointer), other)
}

/// The string at `pointer`, which may be empty, or `other` if there is none: what Go reads through a pointer.
pub(super) fn text_if_set<'a>(value: &'a Value, pointer: &str, other: &'a str) -> &'a str {
    at(value, pointer).and_then(Value::as_str).unwrap_or(other)
}

/// `text`, or `other` when it is empty.
pub(super) const fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

/// The integer at `pointer`; 0 if there is none.
pub(super) fn number(value: &Value, pointer: &str) -> i64 {
    number_or(value, pointer, 0)
}

/// The integer at `pointer`, or Kubernetes' default.
pub(super) fn number_or(value: &Value, pointer: &str, other: i64) -> i64 {
    at(value, pointer).and_then(Value::as_i64).unwrap_or(other)
}

/// The boolean at `pointer`; false if there is none.
pub(super) fn flag(value: &Value, pointer: &str) -> bool {
    at(value, pointer).and_then(Value::as_bool).unwrap_or_default()
}

/// The elements of the array at `pointer`; none if there is no array.
pub(super) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    at(value, pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Whether there is a value other than null at `pointer`.
pub(super) fn present(value: &Value, pointer: &str) -> bool {
    at(value, pointer).is_some_and(|found| !found.is_null())
}

/// Number of members of the object at `pointer`.
pub(super) fn size(value: &Value, pointer: &str) -> usize {
    at(value, pointer).and_then(Value::as_object).map_or(0, serde_json::Map::len)
}

/// A string, or a number as text.
pub(super) fn text_or_number(value: &Value, pointer: &str) -> Option<String> {
    match at(value, pointer) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => None,
    }
}

/// A quantity, in the form in which Kubernetes writes it.
pub(super) fn quantity(value: &Value, pointer: &str) -> Option<String> {
    text_or_number(value, pointer).map(|written| canonical(&written).unwrap_or(written))
}

/// The non-empty strings at `pointer` of each element.
pub(super) fn pluck<'a>(items: &'a [Value], pointer: &'a str) -> impl Iterator<Item = &'a str> {
    items.iter().map(move |item| text(item, pointer)).filter(|found| !found.is_empty())
}

/// The strings, separated by commas.
pub(super) fn join<'a>(items: impl Iterator<Item = &'a str>) -> String {
    items.collect::<Vec<_>>().join(",")
}

/// The first `max` of `total` items, and how many more there are. No other of `items` is looked at: they may be many
/// more than the object has members.
pub(super) fn some_of(
    items: impl Iterator<Item = String>,
    total: usize,
    max: usize,
    separator: &str,
) -> String {
    let shown = items.take(max).collect::<Vec<_>>().join(separator);
    match total.saturating_sub(max) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

/// Labels as `k=v,k=v` by key; `<none>` if there are none.
pub(super) fn labels(value: &Value, pointer: &str) -> String {
    let mut pairs: Vec<String> = at(value, pointer)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    pairs.sort_unstable();
    if pairs.is_empty() { NONE.to_owned() } else { pairs.join(",") }
}

/// A `LabelSelector` in the form of the query parameter; `<none>` when it is empty, `<error>` when it is invalid.
pub(super) fn selector(value: &Value, pointer: &str) -> String {
    match requirements(value, pointer) {
        Some(none) if none.is_empty() => NONE.to_owned(),
        Some(all) => all,
        None => "<error>".to_owned(),
    }
}

/// A `LabelSelector` in the form of the query parameter; `None`: it is invalid.
pub(super) fn requirements(value: &Value, pointer: &str) -> Option<String> {
    let Some(selector) = at(value, pointer) else { return Some(String::new()) };
    let equal = at(selector, "/matchLabels").and_then(Value::as_object).into_iter().flatten();
    let mut parts: Vec<(String, String)> = equal
        .map(|(key, value)| (key.clone(), format!("{key}={}", value.as_str().unwrap_or_default())))
        .collect();
    for expression in list(selector, "/matchExpressions") {
        let key = text(expression, "/key");
        let mut values: Vec<&str> = list(expression, "/values").iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let has_values = !list(expression, "/values").is_empty();
        let part = match (text(expression, "/operator"), has_values) {
            ("In", true) => format!("{key} in ({values})"),
            ("NotIn", true) => format!("{key} notin ({values})"),
            ("Exists", false) => key.to_owned(),
            ("DoesNotExist", false) => format!("!{key}"),
            _ => return None,
        };
        parts.push((key.to_owned(), part));
    }
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    Some(join(parts.iter().map(|(_, part)| part.as_str())))
}
