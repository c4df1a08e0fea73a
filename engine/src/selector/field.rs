//! Field selectors: `metadata.name=a,status.phase!=Running`.
//!
//! It owns their grammar and meaning, both of `k8s.io/apimachinery/pkg/fields`, and turns labels into [`FieldId`]s. It
//! never reads an object: decode provides the values of fields.

use super::name::quoted;
use super::{REQUIREMENTS_MAX, SelectorError, check_length};
use crate::attributes::Attributes;
use crate::resource::{FieldId, Resource};
use crate::shown::shown;

/// A set of terms on fields, all of which an object must meet. Valid for the resource that it was parsed for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    /// Sorted, none twice.
    terms: Vec<Term>,
}

/// One term. Values compare as strings; a field that an object does not have is "".
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Term {
    field: FieldId,
    operator: Operator,
    value: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Operator {
    /// `=`, `==`
    Equal,
    /// `!=`
    NotEqual,
}

impl FieldSelector {
    /// Reads the text of a `fieldSelector` on `resource`. The empty text, and empty terms, select everything.
    ///
    /// `metadata.namespace` on a resource without namespaces is as in Kubernetes: if the resource has no fields of its
    /// own, it is accepted and reads as "", so that `metadata.namespace=x` selects nothing; otherwise it is not
    /// supported.
    ///
    /// # Errors
    /// The text breaks the grammar, names a field by which `resource` cannot be selected, or passes a limit.
    pub fn parse(text: &str, resource: &Resource) -> Result<Self, SelectorError> {
        check_length(text)?;
        let mut parts = split_terms(text);
        if parts.len() > REQUIREMENTS_MAX {
            return Err(SelectorError::TooManyRequirements);
        }
        // Of several errors Kubernetes reports the first in this order, and grammar errors before all others.
        parts.sort_unstable();
        let mut parsed = Vec::with_capacity(parts.len());
        for part in parts {
            let (label, operator, escaped) = split_term(part).ok_or_else(|| {
                SelectorError::Malformed(format!(
                    "invalid selector: '{}'; can't understand '{}'",
                    shown(text),
                    shown(part)
                ))
            })?;
            parsed.push((label, operator, unescaped(escaped)?));
        }
        let mut terms = Vec::with_capacity(parsed.len());
        for (label, operator, value) in parsed {
            let field = resolve(label, resource)?;
            let always_empty = field.index() >= resource.fields().len();
            let met_by_empty = (operator == Operator::Equal) == value.is_empty();
            if !(always_empty && met_by_empty) {
                terms.push(Term { field, operator, value: value.into() });
            }
        }
        terms.sort_unstable();
        terms.dedup();
        Ok(Self { terms })
    }

    /// How many requirements it has.
    pub(super) const fn requirements(&self) -> usize {
        self.terms.len()
    }

    /// Whether it has no term.
    #[must_use]
    pub const fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether an object with these attributes meets every term. Allocates nothing.
    #[must_use]
    pub fn matches(&self, attributes: Attributes<'_>) -> bool {
        self.terms.iter().all(|term| {
            let equal = attributes.field(term.field) == term.value.as_bytes();
            equal == (term.operator == Operator::Equal)
        })
    }

    /// The terms in the words of Kubernetes' API: the field's name, the operator, and the value. `resource` is the one that it was
    /// parsed for.
    pub fn terms<'a>(
        &'a self,
        resource: &'a Resource,
    ) -> impl Iterator<Item = (&'a str, &'static str, &'a str)> {
        self.terms.iter().map(|term| {
            // A field that a resource without namespaces accepts, and does not have.
            let name =
                resource.fields().get(term.field.index()).map_or("metadata.namespace", |field| &field.label);
            let operator = match term.operator {
                Operator::Equal => "In",
                Operator::NotEqual => "NotIn",
            };
            (name, operator, &*term.value)
        })
    }

    /// The value of the term `field=value`, which may be "". `None` when there is no such term, or several that contradict each
    /// other: such a selector selects nothing.
    #[must_use]
    pub fn equal(&self, field: FieldId) -> Option<&str> {
        self.place_of(field).map(|place| &*self.terms[place].value)
    }

    /// The same, and removes the term: the remaining selector together with the condition that `field` has this value means the
    /// same as before.
    pub fn take_equal(&mut self, field: FieldId) -> Option<String> {
        self.place_of(field).map(|place| self.terms.remove(place).value.into())
    }

    fn place_of(&self, field: FieldId) -> Option<usize> {
        let mut places = (0..self.terms.len()).filter(|&at| {
            let term = &self.terms[at];
            term.field == field && term.operator == Operator::Equal
        });
        let place = places.next()?;
        places.next().is_none().then_some(place)
    }

    /// Fields and values of the terms `field=value`.
    pub(super) fn equalities(&self) -> impl Iterator<Item = (FieldId, &str)> {
        let equal = self.terms.iter().filter(|term| term.operator == Operator::Equal);
        equal.map(|term| (term.field, &*term.value))
    }
}

/// The parts between commas that no backslash precedes, without the empty ones.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    let parts = text.split(|c| {
        let literal = escaped;
        escaped = !literal && c == '\\';
        c == ',' && !literal
    });
    parts.filter(|part| !part.is_empty()).collect()
}

/// Label, operator and value, still escaped. A label has no escapes: the first operator ends it.
fn split_term(term: &str) -> Option<(&str, Operator, &str)> {
    let (label, value) = term.split_once('=')?;
    if let Some(label) = label.strip_suffix('!') {
        return Some((label, Operator::NotEqual, value));
    }
    Some((label, Operator::Equal, value.strip_prefix('=').unwrap_or(value)))
}

/// The value with `\\`, `\,` and `\=` unescaped. A bare `=` is an error; a bare `,` cannot occur here.
fn unescaped(escaped: &str) -> Result<String, SelectorError> {
    let mut value = String::with_capacity(escaped.len());
    let mut chars = escaped.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => value.push(c),
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(SelectorError::Malformed(format!(
                        "invalid field selector: invalid escape sequence: {sequence}"
                    )));
                }
            },
            ',' | '=' => {
                // Kubernetes prints the character's number.
                return Err(SelectorError::Malformed(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                )));
            }
            _ => value.push(c),
        }
    }
    Ok(value)
}

/// The field that `label` names; several names of one path always give the same field.
fn resolve(label: &str, resource: &Resource) -> Result<FieldId, SelectorError> {
    if let Some(named) = resource.field(label) {
        let path = |id: FieldId| &resource.fields()[id.index()].path;
        if path(named).is_empty() {
            return Ok(named);
        }
        let mut names = resource.fields().iter().filter_map(|field| resource.field(&field.label));
        return Ok(names.find(|&id| path(id) == path(named)).unwrap_or(named));
    }
    if resource.lists_fields() {
        return Err(SelectorError::UnknownField(format!("field label not supported: {}", shown(label))));
    }
    if label == "metadata.namespace" {
        // No namespaces and no own fields: the field does not exist, and attributes read it as "".
        return Ok(FieldId::NAMESPACE);
    }
    Err(SelectorError::UnknownField(format!(
        "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        quoted(label)
    )))
}

#[cfg(test)]
mod tests {
    use super::super::{REQUIREMENTS_MAX, SelectorError, TEXT_BYTES_MAX};
    use super::FieldSelector;
    use crate::attributes::{AttributeTexts, OwnAttributes};
    use crate::resource::{Field, FieldId, Resource};

    fn config_maps() -> Resource {
        Resource::new("v1", "ConfigMap", true, Vec::new())
    }

    fn pods() -> Resource {
        let own = vec![
            Field::at("status.phase"),
            Field::at("spec.nodeName"),
            Field::alias("spec.host", "spec.nodeName"),
            Field::empty("nothing"),
            Field::empty("void"),
        ];
        Resource::new("v1", "Pod", true, own)
    }

    fn parse(text: &str, resource: &Resource) -> FieldSelector {
        FieldSelector::parse(text, resource).unwrap_or_else(|error| panic!("{text:?} is a selector: {error}"))
    }

    fn error(text: &str, resource: &Resource) -> String {
        FieldSelector::parse(text, resource).expect_err(text).to_string()
    }

    fn valued(fields: &[&str]) -> OwnAttributes {
        let fields = fields.iter().map(|&value| value.into()).collect();
        OwnAttributes::new(&AttributeTexts::new(Vec::new(), fields))
    }

    #[test]
    fn texts_that_mean_the_same_are_equal() {
        let table: &[&[&str]] = &[
            &["", ",", ",,"],
            &["metadata.name=a", "metadata.name==a", ",metadata.name=a,", "metadata.name=a,metadata.name==a"],
            &["metadata.name!=a", "metadata.name!=a,metadata.name!=a"],
            &["metadata.name=", "metadata.name=="],
            &["metadata.name= a"],
            &[
                "spec.nodeName=n,status.phase=p",
                "status.phase==p,spec.host=n",
                "spec.host=n,spec.nodeName=n,status.phase=p",
            ],
            &["metadata.name=a\\,b\\=c\\\\"],
            &["nothing=x"],
            &["void=x"],
        ];
        for (row, texts) in table.iter().enumerate() {
            for text in *texts {
                assert_eq!(parse(text, &pods()), parse(texts[0], &pods()), "{text:?}");
            }
            for (other, others) in table.iter().enumerate().filter(|&(other, _)| other != row) {
                assert_ne!(parse(texts[0], &pods()), parse(others[0], &pods()), "rows {row} and {other}");
            }
        }
    }

    #[test]
    fn what_is_selected() {
        let pod = valued(&["a,b=c\\", "ns", "Running", "", "", "", ""]);
        let yes = [
            "",
            "metadata.name=a\\,b\\=c\\\\",
            "metadata.namespace=ns",
            "metadata.namespace!=",
            "status.phase!=running",
            "spec.nodeName=",
            "spec.host!=n",
            "nothing=",
            "nothing!=x",
            "status.phase=Running,metadata.namespace==ns",
        ];
        let no = [
            "metadata.name=a",
            "metadata.namespace=",
            "metadata.namespace= ns",
            "status.phase!=Running",
            "status.phase=Running,status.phase=Failed",
            "spec.nodeName!=",
            "spec.host=n",
            "nothing=x",
            "nothing!=",
        ];
        for text in yes {
            assert!(parse(text, &pods()).matches(pod.get()), "{text}");
        }
        for text in no {
            assert!(!parse(text, &pods()).matches(pod.get()), "{text}");
        }
    }

    #[test]
    fn errors_are_those_of_kubernetes() {
        let malformed = [
            ("nonsense", "invalid selector: 'nonsense'; can't understand 'nonsense'"),
            ("z=1,b,a!", "invalid selector: 'z=1,b,a!'; can't understand 'a!'"),
            ("data.k=1,x", "invalid selector: 'data.k=1,x'; can't understand 'x'"),
            ("a\\,b", "invalid selector: 'a\\,b'; can't understand 'a\\,b'"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
            ("a===b", "invalid field selector: unescaped character in value: 61"),
            ("a!==b", "invalid field selector: unescaped character in value: 61"),
            ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
            ("a=\\n", "invalid field selector: invalid escape sequence: \\n"),
            ("a=\\é", "invalid field selector: invalid escape sequence: \\é"),
        ];
        for (text, message) in malformed {
            assert_eq!(
                FieldSelector::parse(text, &config_maps()),
                Err(SelectorError::Malformed(message.to_owned())),
                "{text}"
            );
            assert_eq!(error(text, &pods()), message, "{text}");
        }
        let known = "is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
        for (text, label) in [
            ("data.k=v", "data.k"),
            ("=", ""),
            ("!=x", ""),
            ("a\"!=b", "a\\\""),
            ("metadata.name=x,b=1,a=2", "a"),
            (" metadata.name=x", " metadata.name"),
            ("a!b=c", "a!b"),
        ] {
            assert_eq!(error(text, &config_maps()), format!("\"{label}\" {known}"), "{text}");
            assert!(matches!(
                FieldSelector::parse(text, &config_maps()),
                Err(SelectorError::UnknownField(_))
            ));
        }
        assert_eq!(error("spec.foo=bar", &pods()), "field label not supported: spec.foo");
        assert_eq!(error("status.phase=x,z=1,spec.foo=bar", &pods()), "field label not supported: spec.foo");
    }

    #[test]
    fn the_namespace_of_a_resource_without_namespaces() {
        let roles = Resource::new("rbac.authorization.k8s.io/v1", "ClusterRole", false, Vec::new());
        let role = valued(&["admin"]);
        for (text, selected, everything) in [
            ("metadata.namespace=", true, true),
            ("metadata.namespace!=x", true, true),
            ("metadata.namespace=x", false, false),
            ("metadata.namespace!=", false, false),
            ("metadata.name=admin,metadata.namespace=", true, false),
        ] {
            let selector = parse(text, &roles);
            assert_eq!(
                (selector.matches(role.get()), selector.is_everything()),
                (selected, everything),
                "{text}"
            );
        }
        let planets = Resource::new("example.com/v1", "Planet", false, Vec::new()).listing_fields();
        assert_eq!(error("metadata.namespace=", &planets), "field label not supported: metadata.namespace");
        assert_eq!(error("spec.x=", &planets), "field label not supported: spec.x");
        let nodes = Resource::new("v1", "Node", false, vec![Field::at("spec.unschedulable")]);
        assert_eq!(error("metadata.namespace=", &nodes), "field label not supported: metadata.namespace");
    }

    #[test]
    fn a_term_is_taken_out_once() {
        let mut selector = parse("metadata.name=a,metadata.namespace!=b,status.phase=", &pods());
        assert_eq!(selector.take_equal(FieldId::NAMESPACE), None, "!= is not =");
        assert_eq!(selector.take_equal(FieldId::NAME).as_deref(), Some("a"));
        assert_eq!(selector.take_equal(FieldId::NAME), None);
        assert_eq!(selector, parse("metadata.namespace!=b,status.phase=", &pods()));
        let phase = pods().field("status.phase").expect("pods have a phase");
        assert_eq!(selector.take_equal(phase).as_deref(), Some(""));
        assert_eq!(selector, parse("metadata.namespace!=b", &pods()));

        let contradiction = parse("metadata.name=a,metadata.name=b", &pods());
        let mut selector = contradiction.clone();
        assert_eq!(selector.take_equal(FieldId::NAME), None);
        assert_eq!(selector, contradiction);
        assert_eq!(
            parse("metadata.name=a,metadata.name==a", &pods()).take_equal(FieldId::NAME).as_deref(),
            Some("a")
        );
    }

    #[test]
    fn texts_and_terms_are_limited() {
        let terms = |n: usize| (0..n).map(|i| format!("metadata.name!=k{i}")).collect::<Vec<_>>().join(",");
        assert!(FieldSelector::parse(&terms(REQUIREMENTS_MAX), &pods()).is_ok());
        assert_eq!(
            FieldSelector::parse(&terms(REQUIREMENTS_MAX + 1), &pods()),
            Err(SelectorError::TooManyRequirements)
        );
        assert!(parse(&",".repeat(TEXT_BYTES_MAX), &pods()).is_everything());
        let bytes = TEXT_BYTES_MAX + 1;
        assert_eq!(FieldSelector::parse(&",".repeat(bytes), &pods()), Err(SelectorError::TooLong { bytes }));
    }
}
