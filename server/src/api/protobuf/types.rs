//! The API types of one release of Kubernetes: which fields a message has, in which order, and how each stands in JSON.
//!
//! Read from `types.txt`, which `cargo xtask kubernetes-types` makes, and from `types_by_hand.txt`. It owns the meaning of these tables;
//! it decodes nothing.

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

use super::groups::group_of;

/// The table of all releases.
const TABLE: &str = concat!(include_str!("types.txt"), include_str!("types_by_hand.txt"));
/// Fields that a message has at most: a walk keeps the place of each on the stack, and a bit for each.
pub(super) const FIELDS_MAX: usize = u64::BITS as usize;

/// A release of Kubernetes: its types decide which JSON is written of a message, and which members a message has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(u32);

impl Release {
    /// Those that the tables have.
    pub const ALL: [Self; 5] = [Self(33), Self(34), Self(35), Self(36), Self(37)];
    /// The newest one with recordings.
    pub const DEFAULT: Self = Self(36);

    /// The number after `1.`.
    #[must_use]
    pub const fn minor(self) -> u32 {
        self.0
    }

    /// Its types.
    pub(super) fn types(self) -> &'static Types {
        static ALL: [OnceLock<Types>; Release::ALL.len()] = [const { OnceLock::new() }; Release::ALL.len()];
        let at = Self::ALL.iter().position(|release| *release == self).unwrap_or_default();
        // A test reads the table of each release: it has no mistakes.
        ALL[at].get_or_init(|| Types::parse(TABLE, self.0).unwrap_or_else(|why| unreachable!("{why}")))
    }
}

impl Default for Release {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

/// The index of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct MessageId(u16);

/// A message: its fields in the order of the Go struct, which is their order in JSON.
#[derive(Debug)]
pub(super) struct Message {
    /// `core/v1.PodSpec`.
    pub(super) name: &'static str,
    pub(super) fields: Vec<Field>,
    /// A bit for the place of each field that stands in JSON also if it was not sent.
    pub(super) always: u64,
    /// The place of each number's field, plus one.
    places: Vec<u8>,
}

impl Message {
    /// The fields in the order of their numbers.
    pub(super) fn by_number(&self) -> impl Iterator<Item = &Field> {
        self.places.iter().filter_map(|place| self.fields.get(usize::from(*place).checked_sub(1)?))
    }
}

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) number: u32,
    /// The member in JSON; empty: the message's members stand in the outer object.
    pub(super) name: &'static str,
    /// The member as it begins in JSON: `,"name":`. Names have nothing to escape.
    pub(super) key: &'static [u8],
    pub(super) shape: Shape,
    pub(super) count: Count,
    /// Whether it is left out of the JSON when it is zero, or was not sent.
    pub(super) omit: bool,
    /// Whether its items have `kind` and `apiVersion` in JSON, which they have not on the wire (Kubernetes
    /// `pkg/apis/apps/*/conversion.go`).
    pub(super) typed: bool,
}

/// What of a Go type decides how a field stands in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// A value: there, also if it was not sent. A struct is never left out.
    Value,
    /// A pointer: there if it was sent, and `null` or left out otherwise.
    Pointer,
    /// A slice.
    List,
    /// A map with text as keys.
    Map,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    Bool,
    Int,
    /// A number with a fraction.
    Double,
    /// Base64 in JSON.
    Bytes,
    Message(MessageId),
    /// One of the fields of a message, which stands in its place in JSON: a schema, a list, or true or false.
    Either(MessageId),
    /// RFC 3339 in seconds.
    Time,
    /// RFC 3339 in microseconds.
    MicroTime,
    /// A string in a message.
    Quantity,
    /// A number or a string.
    IntOrString,
    /// JSON in a message: `FieldsV1`, `RawExtension`, `JSON`.
    RawJson,
    /// Strings in a message: `ExtraValue`.
    TextList,
}

/// The types of a release.
#[derive(Debug)]
pub(super) struct Types {
    messages: Vec<Message>,
    /// By apiVersion and kind.
    kinds: HashMap<(String, &'static str), MessageId>,
}

impl Types {
    /// The message of a kind.
    pub(super) fn kind(&self, api_version: &str, kind: &str) -> Option<MessageId> {
        // DeleteOptions are sent under the group of what is deleted.
        let api_version = match (api_version, kind) {
            (_, "DeleteOptions") | ("meta.k8s.io/v1" | "meta.k8s.io/v1beta1", _) => "v1",
            // Discovery of the core group names no version.
            ("", "APIVersions" | "APIResourceList") => "v1",
            (other, _) => other,
        };
        let mut kinds = self.kinds.iter();
        kinds.find(|((group, name), _)| *name == kind && group == api_version).map(|(_, id)| *id)
    }

    /// The message of this name: `core/v1.PodSpec`.
    pub(super) fn named(&self, name: &str) -> Option<MessageId> {
        let place = self.messages.iter().position(|message| message.name == name)?;
        u16::try_from(place).ok().map(MessageId)
    }

    /// A message by its index.
    pub(super) fn message(&self, id: MessageId) -> &Message {
        &self.messages[usize::from(id.0)]
    }

    fn parse(table: &'static str, minor: u32) -> Result<Self, String> {
        let (mut types, mut ids) = (Self { messages: Vec::new(), kinds: HashMap::new() }, HashMap::new());
        let lines = || table.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
        let wrong = |number: usize, line: &str| format!("types.txt:{}: {line:?} cannot be read", number + 1);
        for (number, line) in lines().filter(|(_, line)| !line.starts_with('\t')) {
            let mut words = line.split(' ');
            let (Some(what @ ("kind" | "message")), Some(name)) = (words.next(), words.next()) else {
                return Err(wrong(number, line));
            };
            if !is_in(words, minor).ok_or_else(|| wrong(number, line))? {
                continue;
            }
            let id = MessageId(u16::try_from(types.messages.len()).map_err(|_| "too many messages")?);
            types.messages.push(Message { name, fields: Vec::new(), always: 0, places: Vec::new() });
            ids.insert(name, id);
            if let ("kind", Some((package, kind))) = (what, name.split_once('.')) {
                types.kinds.insert((group_of(package), kind), id);
            }
        }
        let mut current = None;
        for (number, line) in lines() {
            let Some(field) = line.strip_prefix('\t') else {
                current = line.split(' ').nth(1).and_then(|name| ids.get(name)).copied();
                continue;
            };
            let Some(id) = current else { continue };
            let mut words = field.split(' ');
            let member = words.next().zip(words.next()).zip(words.next());
            let ((name, tag), go) = member.ok_or_else(|| wrong(number, line))?;
            let tag = tag.parse().map_err(|_| wrong(number, line))?;
            let omit = words.clone().any(|word| word.starts_with("omit"));
            let zero = words.clone().any(|word| word == "omitzero");
            if !is_in(words.filter(|word| !word.starts_with("omit")), minor)
                .ok_or_else(|| wrong(number, line))?
            {
                continue;
            }
            let (count, shape) = shape(go, &ids).ok_or_else(|| wrong(number, line))?;
            let name = if name == "-" { "" } else { name };
            // Go leaves no struct out for being empty, unless its tag says omitzero.
            let is_struct = count == Count::Value
                && !matches!(shape, Shape::Text | Shape::Bool | Shape::Int | Shape::Double | Shape::Bytes);
            let omit = if is_struct { zero } else { omit };
            types.messages[usize::from(id.0)].fields.push(Field {
                number: tag,
                name,
                // It is there as long as the types are.
                key: format!(",\"{name}\":").leak().as_bytes(),
                shape,
                count,
                omit,
                typed: name == "volumeClaimTemplates",
            });
        }
        types.messages.iter_mut().try_for_each(Message::index)?;
        Ok(types)
    }
}

impl Message {
    /// The place of the field with this number.
    pub(super) fn place(&self, number: u32) -> Option<usize> {
        let place = self.places.get(usize::try_from(number).ok()?)?;
        usize::from(*place).checked_sub(1)
    }

    fn index(&mut self) -> Result<(), String> {
        let highest = self.fields.iter().map(|field| field.number).max().unwrap_or(0);
        if self.fields.len() > FIELDS_MAX || highest > 1_000 {
            return Err(format!("{}: more than {FIELDS_MAX} fields, or a number above 1000", self.name));
        }
        self.always = (0..).zip(&self.fields).map(|(place, field)| u64::from(!field.omit) << place).sum();
        self.places = vec![0; highest as usize + 1];
        for (place, field) in (1..).zip(&self.fields) {
            if std::mem::replace(&mut self.places[field.number as usize], place) != 0 {
                return Err(format!("{}: number {} is there twice", self.name, field.number));
            }
        }
        Ok(())
    }
}

/// Whether a release is between `since` and `until`; `None`: a word is neither.
fn is_in<'a>(words: impl Iterator<Item = &'a str>, minor: u32) -> Option<bool> {
    let mut inside = true;
    for word in words {
        let (name, version) = word.split_once("=1.")?;
        let version: u32 = version.parse().ok()?;
        inside &= match name {
            "since" => minor >= version,
            "until" => minor <= version,
            _ => return None,
        };
    }
    Some(inside)
}

fn shape(go: &str, ids: &HashMap<&str, MessageId>) -> Option<(Count, Shape)> {
    let (count, of) = if let Some(of) = go.strip_prefix("map[string]") {
        (Count::Map, of)
    } else if let Some(of) = go.strip_prefix("[]") {
        (Count::List, of)
    } else if let Some(of) = go.strip_prefix('*') {
        (Count::Pointer, of)
    } else {
        (Count::Value, go)
    };
    let shape = match of {
        "string" => Shape::Text,
        "bool" => Shape::Bool,
        "int32" | "int64" => Shape::Int,
        "double" => Shape::Double,
        "bytes" => Shape::Bytes,
        "Time" => Shape::Time,
        "MicroTime" => Shape::MicroTime,
        "Quantity" => Shape::Quantity,
        "IntOrString" => Shape::IntOrString,
        "FieldsV1" | "RawExtension" | "JSON" => Shape::RawJson,
        "list<string>" => Shape::TextList,
        name => match name.strip_prefix("either:") {
            Some(name) => Shape::Either(*ids.get(name)?),
            None => Shape::Message(*ids.get(name)?),
        },
    };
    Some((count, shape))
}

#[cfg(test)]
mod tests {
    use super::{Count, Release, Shape, TABLE, Types};

    #[test]
    fn every_release_is_read() {
        for release in Release::ALL {
            let types = Types::parse(TABLE, release.minor()).expect("a table without mistakes");
            assert!(types.messages.len() > 1_000 && types.kinds.len() > 300, "{release}");
        }
        assert!(Release::ALL.contains(&Release::DEFAULT));
    }

    /// The table of resources has no version that a release does not have.
    #[test]
    fn every_built_in_version_has_a_type() {
        for release in Release::ALL {
            let types = release.types();
            let registry = crate::api::resources::Registry::of_release(release);
            let untyped: Vec<_> = registry
                .iter()
                .filter(|resource| types.kind(resource.api_version(), &resource.kind).is_none())
                .map(|resource| format!("{} {}", resource.api_version(), resource.kind))
                .collect();
            assert_eq!(untyped, [""; 0], "{release}");
        }
    }

    #[test]
    fn fields_are_those_of_the_release() {
        let fields = |minor| {
            let types = Release(minor).types();
            let id = types.messages.iter().find(|message| message.name == "core/v1.PodSpec").expect("it");
            id.fields.iter().map(|field| field.number).collect::<Vec<_>>()
        };
        assert!(fields(35).contains(&42) && !fields(36).contains(&42));
        assert!(fields(36).contains(&43) && !fields(36).contains(&44) && fields(37).contains(&44));
    }

    #[test]
    fn a_field_is_what_its_go_type_says() {
        let types = Release::DEFAULT.types();
        let map = types.message(types.kind("v1", "ConfigMap").expect("it is known"));
        let of = |name: &str| {
            map.fields
                .iter()
                .find(|field| field.name == name)
                .map(|field| (field.count, field.shape, field.omit))
        };
        assert_eq!(of("immutable"), Some((Count::Pointer, Shape::Bool, true)));
        assert_eq!(of("data"), Some((Count::Map, Shape::Text, true)));
        assert_eq!(of("binaryData"), Some((Count::Map, Shape::Bytes, true)));
        assert_eq!(map.place(4).map(|place| map.fields[place].name), Some("immutable"));
        assert!(map.place(0).is_none() && map.place(9).is_none() && map.place(u32::MAX).is_none());
        assert!(types.kind("rbac.authorization.k8s.io/v1", "Role").is_some());
        assert!(types.kind("v1", "Role").is_none());
    }
}
