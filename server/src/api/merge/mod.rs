//! How the lists and objects of Kubernetes' kinds merge.
//!
//! Owns the types for it and, in `table`, every member of the served kinds that does not merge in the common way
//! (objects member by member, lists as one value). They are those of the API types of Kubernetes 1.36 (`patchStrategy`
//! and `patchMergeKey` for strategic merge patches; `listType`, `listMapKey`, `mapType` and `structType` for
//! server-side apply). It never merges anything itself.

mod table;

pub use table::{ANY, of};

/// A type, as far as it matters here: its members that do not merge in the common way, or that contain such members.
#[derive(Debug)]
pub struct Type {
    pub(super) fields: &'static [Field],
}

/// One member of a type.
#[derive(Debug)]
pub struct Field {
    name: &'static str,
    /// How a strategic merge patch changes it.
    pub patch: Patch,
    /// How server-side apply merges and owns it.
    pub apply: Apply,
    /// The type of the member, or of the items of its list.
    pub of: &'static Type,
}

/// What a strategic merge patch does to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patch {
    /// An object merges, a list is replaced: the common way.
    Common,
    /// It is replaced, even if it is an object.
    Replace,
    /// A list of objects, identified by this member.
    Keyed(&'static str),
    /// A list of scalars without duplicates.
    Set,
}

/// What server-side apply does with a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apply {
    /// An object merges, a list is one value: the common way.
    Common,
    /// It is one value, even if it is an object.
    Atomic,
    /// A list of objects, identified by these members; in the order of their names.
    Keyed(&'static [Key]),
    /// A list of scalars, each with its own owners.
    Set,
}

/// A member that identifies items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Its value when it is missing; `None`: it is required.
    pub default: Option<&'static str>,
}

impl Type {
    /// A type without special members.
    pub const COMMON: Self = Self { fields: &[] };

    /// The member of that name, if it is special.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl Field {
    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }
}
