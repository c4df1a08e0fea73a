//! A resource that the operator declares, as text or as a table.
//!
//! It owns the shape of the declaration and where it was made. It never checks group, version or kind: the resource
//! table does, and blames [`ResourceEntry::origin`] through [`ConfigError::bad_value`].

use std::fmt;

use crate::setting::{ConfigError, Origin, Wrong};

/// One `--resource`, one item of `REVCAST_RESOURCE`, or one item of `resource` in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceEntry {
    /// Where it was declared.
    pub origin: Origin,
    /// What was declared.
    pub form: ResourceForm,
}

/// The two ways to declare a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceForm {
    /// `GROUP/VERSION/PLURAL/KIND/namespaced` or `.../cluster`, as written: not yet parsed.
    Text(String),
    /// A table of the file.
    Table(ResourceTable),
}

/// The fields of a CustomResourceDefinition, in snake case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceTable {
    /// Empty is the core group.
    pub group: String,
    /// `v1`.
    pub version: String,
    /// `widgets`.
    pub plural: String,
    /// `Widget`.
    pub kind: String,
    /// `namespaced` or `cluster`, as written.
    pub scope: String,
    /// What `kubectl get` also takes.
    pub short_names: Vec<String>,
    /// Such as `all`.
    pub categories: Vec<String>,
    /// Paths from the top of the object, such as `spec.color`.
    pub selectable_fields: Vec<String>,
}

impl ResourceTable {
    /// Keys of a table in the file.
    pub(super) const KEYS: [&'static str; 8] =
        ["group", "version", "plural", "kind", "scope", "short_names", "categories", "selectable_fields"];

    /// The text member called `key`.
    pub(super) fn text_mut(&mut self, key: &str) -> Option<&mut String> {
        match key {
            "group" => Some(&mut self.group),
            "version" => Some(&mut self.version),
            "plural" => Some(&mut self.plural),
            "kind" => Some(&mut self.kind),
            "scope" => Some(&mut self.scope),
            _ => None,
        }
    }

    /// The list member called `key`.
    pub(super) fn list_mut(&mut self, key: &str) -> Option<&mut Vec<String>> {
        match key {
            "short_names" => Some(&mut self.short_names),
            "categories" => Some(&mut self.categories),
            "selectable_fields" => Some(&mut self.selectable_fields),
            _ => None,
        }
    }

    /// Every member but `group` and the lists must be there.
    pub(super) fn check_complete(&self, origin: &Origin) -> Result<(), ConfigError> {
        let needed = [
            ("version", &self.version),
            ("plural", &self.plural),
            ("kind", &self.kind),
            ("scope", &self.scope),
        ];
        match needed.iter().find(|(_, text)| text.is_empty()) {
            Some((key, _)) => Err(ConfigError::at(
                format!("{origin}: resource"),
                Wrong::new(format!("{key} is missing"), format!("add {key} = \"...\" to this table")),
            )),
            None => Ok(()),
        }
    }
}

impl ResourceForm {
    /// As a value of the file's `resource` list.
    #[must_use]
    pub fn to_toml(&self) -> String {
        match self {
            Self::Text(text) => toml::Value::from(text.as_str()).to_string(),
            Self::Table(table) => {
                let mut members = toml::Table::new();
                for (key, text) in [
                    ("group", &table.group),
                    ("version", &table.version),
                    ("plural", &table.plural),
                    ("kind", &table.kind),
                    ("scope", &table.scope),
                ] {
                    members.insert(key.to_owned(), text.as_str().into());
                }
                for (key, list) in [
                    ("short_names", &table.short_names),
                    ("categories", &table.categories),
                    ("selectable_fields", &table.selectable_fields),
                ] {
                    members.insert(key.to_owned(), list.clone().into());
                }
                toml::Value::from(members).to_string()
            }
        }
    }
}

impl fmt::Display for ResourceForm {
    /// The five parts with slashes, as `--resource` takes them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Table(table) => {
                let ResourceTable { group, version, plural, kind, scope, .. } = table;
                write!(f, "{group}/{version}/{plural}/{kind}/{scope}")
            }
        }
    }
}
