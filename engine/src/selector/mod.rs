//! Selectors: which objects a client asked for.
//!
//! Parsed once, at the edge, from the text of `labelSelector` and `fieldSelector`; evaluated for each class and
//! event. The grammar, the meaning and the error texts are those of Kubernetes
//! (`k8s.io/apimachinery/pkg/labels`, `pkg/fields`). It never sees an object's bytes, only [`Attributes`], and a
//! selector never changes once a watch has begun.
//!
//! Selectors are normal forms: requirements and value sets are sorted and hold nothing twice, `k=v`, `k==v` and
//! `k in (v)` are one requirement. So two texts that list the same terms are equal and hash alike, and their
//! watchers form one class.

mod field;
mod label;
mod lexer;
mod name;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::attributes::Attributes;
use crate::resource::FieldId;

pub use field::FieldSelector;
pub use label::LabelSelector;
pub use name::{is_printable, key_fault, value_fault};

/// The longest selector text that is read, in bytes. Ours: Kubernetes is bounded only by its request head.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;

/// The most requirements that one selector may have, before equal ones are merged. Ours, as above: each is evaluated
/// for each object and for each event that the index does not rule out. The values of a set are found by binary search
/// and bounded by the text alone.
pub const REQUIREMENTS_MAX: usize = 128;

/// What a watch or a list selects: the objects that meet all requirements on labels and on fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selector {
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selector {
    /// Selects every object.
    #[must_use]
    pub fn everything() -> Self {
        Self::default()
    }

    /// Selects what both select.
    #[must_use]
    pub const fn new(labels: LabelSelector, fields: FieldSelector) -> Self {
        Self { labels, fields }
    }

    /// How many there are on labels and on fields.
    #[must_use]
    pub const fn requirements(&self) -> usize {
        self.labels.requirements() + self.fields.requirements()
    }

    /// Whether it has no requirement at all.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Whether an object with these attributes is selected.
    ///
    /// Paid once per class and event: comparisons only, a search per requirement, no allocation.
    #[must_use]
    #[inline]
    pub fn matches(&self, attributes: Attributes<'_>) -> bool {
        (self.fields.is_everything() || self.fields.matches(attributes))
            && (self.labels.is_everything() || self.labels.matches(attributes))
    }

    /// What every selected object has, one for each requirement that says so: an index may file this selector under any of
    /// them. Fields first: they distinguish objects better than labels do.
    pub fn required(&self) -> impl Iterator<Item = Required<'_>> {
        let fields = self.fields.equalities().map(|(field, value)| Required::Field(field, value));
        fields.chain(self.labels.required())
    }
}

/// What one requirement demands of every object that meets it. `!=`, `notin` and `!` demand nothing that an object has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Required<'a> {
    /// [`Attributes::field`] is this value; "" is also met by an object without the field.
    Field(FieldId, &'a str),
    /// The object has this label with one of these values, sorted, none twice, at least one; "" is not met by an object
    /// without the label.
    Label(&'a str, &'a [Box<str>]),
    /// The object has this label, with a value that cannot be listed.
    Key(&'a str),
}

/// Why a text is not a selector. Always the client's fault: 400 `BadRequest`, with this error's text as message.
///
/// The texts of the first two are those of kube-apiserver 1.36, to the byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectorError {
    /// The text breaks the grammar, or a key or value in it is not a valid one.
    Malformed(String),
    /// The text is well-formed but names a field by which this resource cannot be selected.
    UnknownField(String),
    /// The text is longer than [`TEXT_BYTES_MAX`].
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// There are more requirements than [`REQUIREMENTS_MAX`].
    TooManyRequirements,
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(message) | Self::UnknownField(message) => f.write_str(message),
            Self::TooLong { bytes } => write!(
                f,
                "invalid selector: it has {bytes} bytes, at most {TEXT_BYTES_MAX} are allowed; \
                 select by fewer or shorter terms"
            ),
            Self::TooManyRequirements => write!(
                f,
                "invalid selector: it has more than {REQUIREMENTS_MAX} requirements; \
                 use fewer, or one 'in' or 'notin' with a set of values"
            ),
        }
    }
}

impl std::error::Error for SelectorError {}

/// Refuses a text that is too long before any work is done on it.
const fn check_length(text: &str) -> Result<(), SelectorError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(SelectorError::TooLong { bytes: text.len() });
    }
    Ok(())
}
