//! Declared resources: what `--resource` and the config file say of one, and why that is refused.

use std::fmt;

use serde::Deserialize;

use super::{RESOURCES_MAX, SELECTABLE_FIELDS_MAX};
use crate::api::dns_label::is_dns_label;

/// Whether objects have namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// `/namespaces/NS/...`
    Namespaced,
    /// One set for the whole cluster.
    Cluster,
}

/// A declared resource, as in the config file. `--resource` sets the first five members.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Declaration {
    /// `example.com`; "" or `core` for the core group.
    #[serde(default)]
    pub group: String,
    /// `v1`.
    pub version: String,
    /// `widgets`.
    pub plural: String,
    /// `Widget`.
    pub kind: String,
    /// Namespaced or cluster.
    pub scope: Scope,
    /// `widget`; the kind in lower case when unset.
    #[serde(default)]
    pub singular: Option<String>,
    /// `wd`.
    #[serde(default)]
    pub short_names: Vec<String>,
    /// `all`.
    #[serde(default)]
    pub categories: Vec<String>,
    /// `spec.color` or `.spec.color`, as a CustomResourceDefinition writes them.
    #[serde(default)]
    pub selectable_fields: Vec<String>,
    /// Whether `/status` is served.
    #[serde(default)]
    pub status: bool,
    /// How long an object lives after its last write.
    #[serde(default)]
    pub ttl_seconds: Option<u64>,
}

impl Declaration {
    /// Parses the value of `--resource`: `GROUP/VERSION/PLURAL/KIND/namespaced|cluster`.
    ///
    /// # Errors
    /// When the value does not have five parts or the last is not a scope.
    pub fn parse(value: &str) -> Result<Self, DeclareError> {
        let shape = || DeclareError::Shape { value: value.to_owned() };
        let mut parts = value.split('/');
        let mut next = || parts.next().map(str::to_owned).ok_or_else(shape);
        let (group, version, plural, kind, scope) = (next()?, next()?, next()?, next()?, next()?);
        let scope = match scope.as_str() {
            "namespaced" => Scope::Namespaced,
            "cluster" => Scope::Cluster,
            _ => return Err(shape()),
        };
        if parts.next().is_some() {
            return Err(shape());
        }
        Ok(Self {
            group,
            version,
            plural,
            kind,
            scope,
            singular: None,
            short_names: Vec::new(),
            categories: Vec::new(),
            selectable_fields: Vec::new(),
            status: false,
            ttl_seconds: None,
        })
    }

    /// The declaration in the form of `--resource`, for messages.
    pub(super) fn value(&self) -> String {
        let scope = match self.scope {
            Scope::Namespaced => "namespaced",
            Scope::Cluster => "cluster",
        };
        format!("{}/{}/{}/{}/{scope}", self.group, self.version, self.plural, self.kind)
    }

    /// The declaration with the core group by its real name, if all parts are valid.
    pub(super) fn checked(&self) -> Result<Self, DeclareError> {
        let mut given = self.clone();
        if given.group == "core" {
            given.group.clear();
        }
        given.check()?;
        Ok(given)
    }

    fn check(&self) -> Result<(), DeclareError> {
        let part = |part: &'static str, given: &str, mend: &'static str| DeclareError::Part {
            value: self.value(),
            part,
            given: given.to_owned(),
            mend,
        };
        if !self.group.is_empty() && (self.group.len() > 253 || !self.group.split('.').all(is_dns_label)) {
            return Err(part("group", &self.group, "use a DNS name such as example.com, or core"));
        }
        if !is_dns_label(&self.version) {
            return Err(part("version", &self.version, "use lower-case letters and digits, such as v1"));
        }
        // After these words the URL has another meaning: /watch/... and /namespaces/NS/...
        let taken = self.plural == "watch" || (self.plural == "namespaces" && !self.group.is_empty());
        if !is_dns_label(&self.plural) || taken {
            return Err(part("plural", &self.plural, "use a lower-case word such as widgets"));
        }
        let kind_ok = self.kind.len() <= 63
            && self.kind.starts_with(|c: char| c.is_ascii_alphabetic())
            && self.kind.bytes().all(|b| b.is_ascii_alphanumeric());
        if !kind_ok {
            return Err(part("kind", &self.kind, "use a word in CamelCase such as Widget"));
        }
        let names = self.singular.iter().chain(&self.short_names).chain(&self.categories);
        for name in names {
            if !is_dns_label(name) {
                return Err(part("name", name, "use lower-case letters, digits and dashes"));
            }
        }
        if self.selectable_fields.len() > SELECTABLE_FIELDS_MAX {
            return Err(part("selectableFields", "too many of them", "declare at most 64"));
        }
        for field in &self.selectable_fields {
            let path = field.strip_prefix('.').unwrap_or(field);
            let segments_ok = path.split('.').all(|s| {
                !s.is_empty() && s.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
            });
            if !segments_ok || path.starts_with("metadata.") {
                return Err(part(
                    "selectable field",
                    field,
                    "use a path outside metadata such as spec.color",
                ));
            }
        }
        Ok(())
    }
}

/// Why a declared resource is refused. The text is one line with the value and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeclareError {
    /// Not five parts, or an unknown scope.
    Shape {
        /// The value.
        value: String,
    },
    /// One part is invalid.
    Part {
        /// The whole declaration.
        value: String,
        /// Which part.
        part: &'static str,
        /// Its value.
        given: String,
        /// What is expected.
        mend: &'static str,
    },
    /// The group, version and plural are served already.
    Duplicate {
        /// The whole declaration.
        value: String,
    },
    /// More than [`RESOURCES_MAX`].
    TooMany {
        /// The first one beyond the limit.
        value: String,
    },
}

impl fmt::Display for DeclareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape { value } => write!(
                f,
                "resource {value:?}: write GROUP/VERSION/PLURAL/KIND/namespaced or .../cluster, \
                 for example example.com/v1/widgets/Widget/namespaced"
            ),
            Self::Part { value, part, given, mend } => {
                write!(f, "resource {value:?}: {part} {given:?} is not valid: {mend}")
            }
            Self::Duplicate { value } => {
                write!(
                    f,
                    "resource {value:?}: its group, version and plural are served already: remove one of the two"
                )
            }
            Self::TooMany { value } => {
                write!(f, "resource {value:?}: more than {RESOURCES_MAX} resources: declare fewer")
            }
        }
    }
}

impl std::error::Error for DeclareError {}
