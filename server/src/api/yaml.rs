//! YAML bodies: from text to the JSON that Kubernetes makes of it.
//!
//! Owns the way from the parser's events to a tree: anchors, merge keys, and every bound on them. The module `scalar`
//! owns the meaning of scalars. kube-apiserver reads YAML with `sigs.k8s.io/yaml`, whose rules apply here (YAML 1.1
//! booleans and octals, keys become text, the last of equal keys counts). It never looks into the object. One intended
//! difference: a body of several documents is refused; there only the first would count.

mod scalar;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;

use granit_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Map, Value};

/// The media type of YAML bodies (apimachinery `runtime.ContentTypeYAML`).
pub const MEDIA_TYPE: &str = "application/yaml";
/// The deepest nesting of a document, with aliases resolved. JSON bodies have the same bound.
pub const DEPTH_MAX: usize = 120;
/// Bytes, as JSON, that anchors and aliases may copy: otherwise a few lines of nested aliases would use up the memory.
pub const COPIED_BYTES_MAX: usize = 3 << 20;

/// Most values of a document, keys included. Other tasks on the core wait while they are read: without a bound 3 MiB of
/// one-letter items took seconds in a test build.
pub const NODES_MAX: usize = 250_000;

/// Why a text is not YAML that can become JSON. The client's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum YamlError {
    /// It is not UTF-8.
    Encoding,
    /// The parser's message, with the position.
    Syntax(String),
    /// More than one document.
    Documents,
    /// Deeper than [`DEPTH_MAX`].
    Depth,
    /// More values than [`NODES_MAX`].
    Nodes,
    /// Aliases copy more than [`COPIED_BYTES_MAX`].
    Aliases,
    /// An alias inside the value that it stands for.
    Cycle,
    /// A key that is a list, an object or null.
    Key,
    /// A merge key (`<<`) whose value is neither an object nor a list of objects.
    Merge,
    /// A scalar that does not match its tag, or that JSON cannot represent.
    Scalar(String),
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Encoding => f.write_str("yaml: the text is not UTF-8"),
            Self::Syntax(why) => write!(f, "yaml: {why}"),
            Self::Documents => {
                f.write_str("yaml: the body has more than one document: send one object a request")
            }
            Self::Depth => write!(f, "yaml: the document nests deeper than {DEPTH_MAX} levels"),
            Self::Nodes => write!(f, "yaml: the document has more than {NODES_MAX} values: send it as JSON"),
            Self::Aliases => f.write_str("yaml: document contains excessive aliasing"),
            Self::Cycle => f.write_str("yaml: an anchor's value contains itself"),
            Self::Key => f.write_str("yaml: a key must be a text, a number or a boolean"),
            Self::Merge => f.write_str("yaml: map merge requires map or sequence of maps as the value"),
            Self::Scalar(why) => write!(f, "yaml: {why}"),
        }
    }
}

impl std::error::Error for YamlError {}

/// The one document of a text as JSON; null for an empty text.
///
/// # Errors
/// When it is not YAML, has more than one document, or exceeds a bound.
pub fn to_json(text: &[u8]) -> Result<Value, YamlError> {
    let text = std::str::from_utf8(text).map_err(|_| YamlError::Encoding)?;
    let options = granit_parser::options! { emit_comments: false };
    let mut loader = Loader::default();
    let mut nodes = 0;
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, _) = event.map_err(|error| YamlError::Syntax(error.to_string()))?;
        nodes += usize::from(event.is_node());
        if nodes > NODES_MAX {
            return Err(YamlError::Nodes);
        }
        loader.take(event)?;
    }
    Ok(loader.document.unwrap_or_default())
}

/// A collection that is not complete.
#[derive(Debug)]
enum Open {
    List { items: Vec<Value>, anchor: usize },
    Map { members: Map<String, Value>, key: Option<Key>, anchor: usize },
}

/// The key whose value comes next.
#[derive(Debug)]
enum Key {
    Text(String),
    Merge,
}

#[derive(Debug, Default)]
struct Loader {
    open: Vec<Open>,
    /// The values of anchors, and their depths.
    anchors: HashMap<usize, (Value, usize)>,
    copied: usize,
    /// The document, if it is not null.
    document: Option<Value>,
}

impl Loader {
    fn take(&mut self, event: Event<'_>) -> Result<(), YamlError> {
        #[allow(clippy::wildcard_enum_match_arm)] // the parser may get more kinds, none of which is a node
        match event {
            Event::Scalar(text, style, anchor, tag) => self.scalar(&text, style, anchor, tag.as_deref()),
            Event::SequenceStart(_, anchor, _) => self.begin(Open::List { items: Vec::new(), anchor }),
            Event::MappingStart(_, anchor, _) => {
                self.begin(Open::Map { members: Map::new(), key: None, anchor })
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => {
                let (value, depth) = self.anchors.get(&anchor).ok_or(YamlError::Cycle)?;
                if self.open.len() + depth > DEPTH_MAX {
                    return Err(YamlError::Depth);
                }
                measure(value, &mut self.copied)?;
                let value = value.clone();
                self.place(value)
            }
            _ => Ok(()),
        }
    }

    fn begin(&mut self, open: Open) -> Result<(), YamlError> {
        if self.open.len() == DEPTH_MAX {
            return Err(YamlError::Depth);
        }
        if let Some(Open::Map { key: None, .. }) = self.open.last() {
            return Err(YamlError::Key);
        }
        self.open.push(open);
        Ok(())
    }

    fn end(&mut self) -> Result<(), YamlError> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let (value, anchor) = match open {
            Open::List { items, anchor } => (Value::Array(items), anchor),
            Open::Map { members, anchor, .. } => (Value::Object(members), anchor),
        };
        self.remember(anchor, &value)?;
        self.place(value)
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
    ) -> Result<(), YamlError> {
        let plain = style == ScalarStyle::Plain;
        let is_key = matches!(self.open.last(), Some(Open::Map { key: None, .. }));
        if is_key && plain && tag.is_none() && text == "<<" {
            if let Some(Open::Map { key, .. }) = self.open.last_mut() {
                *key = Some(Key::Merge);
            }
            return Ok(());
        }
        let value = scalar::resolve(text, plain, tag)?;
        self.remember(anchor, &value)?;
        self.place(value)
    }

    /// Keeps the value of an anchor.
    fn remember(&mut self, anchor: usize, value: &Value) -> Result<(), YamlError> {
        if anchor > 0 {
            let depth = measure(value, &mut self.copied)?;
            self.anchors.insert(anchor, (value.clone(), depth));
        }
        Ok(())
    }

    /// Adds a complete node to its parent.
    fn place(&mut self, value: Value) -> Result<(), YamlError> {
        match self.open.last_mut() {
            None if value.is_null() => {}
            None if self.document.is_some() => return Err(YamlError::Documents),
            None => self.document = Some(value),
            Some(Open::List { items, .. }) => items.push(value),
            Some(Open::Map { members, key, .. }) => match key.take() {
                None => *key = Some(Key::Text(scalar::key(&value).ok_or(YamlError::Key)?)),
                Some(Key::Text(name)) => drop(members.insert(name, value)),
                Some(Key::Merge) => merge(members, value)?,
            },
        }
        Ok(())
    }
}

/// Members of `<<`: of several objects the first counts.
fn merge(members: &mut Map<String, Value>, value: Value) -> Result<(), YamlError> {
    match value {
        Value::Object(more) => members.extend(more),
        Value::Array(list) => {
            for more in list.into_iter().rev() {
                let Value::Object(more) = more else { return Err(YamlError::Merge) };
                members.extend(more);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return Err(YamlError::Merge),
    }
    Ok(())
}

/// Adds the cost of a copy of `value`, and returns its depth.
fn measure(value: &Value, copied: &mut usize) -> Result<usize, YamlError> {
    let bytes = match value {
        Value::String(text) => text.len() + 2,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => 4,
    };
    *copied = copied.saturating_add(bytes);
    if *copied > COPIED_BYTES_MAX {
        return Err(YamlError::Aliases);
    }
    let mut deepest = 0;
    match value {
        Value::Array(items) => {
            for item in items {
                deepest = deepest.max(measure(item, copied)?);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                *copied = copied.saturating_add(name.len() + 4);
                deepest = deepest.max(measure(member, copied)?);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return Ok(0),
    }
    Ok(deepest + 1)
}
