//! Which watches end when other resources are served than before.
//!
//! A watch ends if what it shows is not served any more, or would look different now. A watch of a resource that is not
//! defined in the store never ends for this reason.

use std::mem::discriminant;

use revcast_engine::Scope;
use revcast_engine::encoding::Encoding;
use revcast_engine::key::ResourceId;

use super::encode::Shape;
use crate::api::resources::{ApiResource, Registry};
use crate::api::versions::Conversion;
use crate::catalog::Catalog;

/// Whether a watch ends that began while `old` was served.
#[must_use]
pub fn ends(old: &Catalog, new: &Catalog, scope: &Scope, encoding: Encoding) -> bool {
    let Some(row) = defined_row(&old.registry, scope) else { return false };
    if new.registry.get(row).is_none_or(|stored| stored.retired) {
        return true;
    }
    let (version, is_table) = match encoding {
        Encoding::Json | Encoding::Protobuf => (kept(&old.registry, row), false),
        Encoding::Other(number) => match Shape::view_of(number) {
            Some((view, is_table)) => (old.registry.view(view), is_table),
            // Metadata names no version: it may have been asked for in any that was served.
            None => {
                return old.registry.iter().filter(|view| view.row == row).any(|view| !is_shown(new, view));
            }
        },
    };
    // A Table shows columns as well, which may be others now.
    version.is_none_or(|view| {
        if is_table {
            new.registry.view(view.view).is_none_or(|view| view.retired)
        } else {
            !is_shown(new, view)
        }
    })
}

/// Whether objects are still served as a version shows them.
fn is_shown(new: &Catalog, of: &ApiResource) -> bool {
    let same = |view: &&ApiResource| {
        (view.row, &view.version) == (of.row, &of.version)
            && discriminant(&view.conversion) == discriminant(&of.conversion)
    };
    new.registry.iter().any(|view| same(&view))
}

/// Whether a watch ends that began while its shard did not know this catalog yet: what was served when it was asked for is not
/// known, so its client asks again.
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
fn kept(registry: &Registry, row: ResourceId) -> Option<&ApiResource> {
    let mut versions = registry.iter().filter(|view| view.row == row);
    versions.find(|view| matches!(view.conversion, Conversion::Kept))
}
