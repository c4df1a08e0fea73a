//! Which watches end when other resources are served than before.
//!
//! A watch ends if the version that it shows is not served any more, or is another one now. A watch of a resource that is not
//! defined in the store never ends for this reason.

use revcast_engine::Scope;
use revcast_engine::encoding::Encoding;
use revcast_engine::key::ResourceId;

use super::encode::Shape;
use crate::api::resources::{Registry, ViewId};
use crate::api::versions::Conversion;
use crate::catalog::Catalog;

/// Whether a watch ends that began while `old` was served.
#[must_use]
pub fn ends(old: &Catalog, new: &Catalog, scope: &Scope, encoding: Encoding) -> bool {
    let Some(row) = defined_row(&old.registry, scope) else { return false };
    if new.registry.get(row).is_none_or(|stored| stored.retired) {
        return true;
    }
    match encoding {
        Encoding::Json | Encoding::Protobuf => kept(&old.registry, row) != kept(&new.registry, row),
        Encoding::Other(number) => match Shape::view_of(number) {
            Some(view) => new.registry.view(view).is_none_or(|view| view.retired),
            // Metadata names no version: it may have been asked for in any that was served.
            None => old
                .registry
                .iter()
                .filter(|view| view.row == row)
                .any(|view| new.registry.view(view.view).is_none_or(|view| view.retired)),
        },
    }
}

/// Whether a watch ends of which it is not known what was served when it was asked for: it is admitted again.
#[must_use]
pub fn is_late(new: &Catalog, scope: &Scope) -> bool {
    defined_row(&new.registry, scope).is_some()
}

/// The row that a scope is part of, if a definition in the store defines it.
fn defined_row(registry: &Registry, scope: &Scope) -> Option<ResourceId> {
    let Scope::Objects(objects) = scope else { return None };
    registry.get(objects.resource).filter(|stored| stored.definition.is_some()).map(|stored| stored.row)
}

/// The version whose objects are shown as they are kept.
fn kept(registry: &Registry, row: ResourceId) -> Option<ViewId> {
    let mut versions = registry.iter().filter(|view| view.row == row);
    versions.find(|view| matches!(view.conversion, Conversion::Kept)).map(|view| view.view)
}
