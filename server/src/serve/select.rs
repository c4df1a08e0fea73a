//! The objects that a list, a watch or a deletecollection selects.
//!
//! Owns the narrowing of a scope by `metadata.name` and `metadata.namespace`. The grammar is the engine's.

use revcast_engine::key::Key;
use revcast_engine::resource::FieldId;
use revcast_engine::selector::{FieldSelector, Selector};
use revcast_engine::{Object, Objects};

use super::Call;
use crate::frontend::Host;
use crate::http::options::Selectors;

/// The selected objects.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) scope: Objects,
    /// The only key that can be selected, if the scope is one key.
    pub(super) key: Option<Key>,
    pub(super) selector: Selector,
    /// Whether the client gave no selector at all; only then are remaining objects counted.
    pub(super) everything: bool,
}

impl Choice {
    /// The objects that the path and the selectors select; `name` if the path has one (the deprecated watch).
    pub(super) fn new<H: Host>(call: &Call<'_, H>, selectors: Selectors, name: Option<&str>) -> Self {
        let Selectors { labels, mut fields } = selectors;
        let everything = name.is_none() && labels.is_everything() && fields.is_everything();

        let name = narrow(&mut fields, FieldId::NAME, name);
        let namespace = if call.resource.namespaced {
            narrow(&mut fields, FieldId::NAMESPACE, call.namespace)
        } else {
            None
        };
        let scope = Objects { resource: call.resource.row, namespace, name };
        let key = scope
            .name
            .as_deref()
            .filter(|_| !call.resource.namespaced || scope.namespace.is_some())
            .map(|name| Key::new(scope.resource, scope.namespace.as_deref(), name));
        Self { scope, key, selector: Selector::new(labels, fields), everything }
    }

    /// Whether an object in the scope's resource and namespace is selected.
    pub(super) fn takes(&self, object: &Object) -> bool {
        self.scope.name.as_deref().is_none_or(|name| name == object.key().name())
            && self.selector.matches(object.attributes())
    }
}

/// Removes `field=value` from the selector if the scope can express it. A term that contradicts the path stays, and selects
/// nothing.
fn narrow(fields: &mut FieldSelector, field: FieldId, path: Option<&str>) -> Option<Box<str>> {
    let fits = |value: &str| path.map_or(!value.is_empty(), |path| value == path);
    if fields.equal(field).is_some_and(fits) {
        fields.take_equal(field).map(Into::into)
    } else {
        path.map(Into::into)
    }
}

/// Whether there is a `fieldSelector` that does not select the object of this name (apiserver `handlers/get.go`).
pub(super) fn contradicts(selectors: &Selectors, name: &str) -> bool {
    let fields = &selectors.fields;
    !fields.is_everything() && fields.equal(FieldId::NAME) != Some(name)
}
