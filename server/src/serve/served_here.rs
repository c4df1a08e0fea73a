//! Which requests are served here, and which are the upstream's.
//!
//! Reads and watches of cached resources are served here, and everything else is the upstream's, also what exists nowhere. A resource
//! is the upstream's as a whole while one of its values cannot be read here.

use revcast_engine::resource::Codec;

use super::app::App;
use crate::api::resources::ApiResource;
use crate::api::versions::Conversion;
use crate::catalog::Catalog;
use crate::http::request::Method;
use crate::http::route::{RouteError, Target};

/// Whether a request is answered here; what has no valid target is not.
pub(super) fn is_served_here(
    app: &App,
    method: Method,
    target: &Result<Target, RouteError>,
    catalog: &Catalog,
) -> bool {
    let Ok(target) = target else { return false };
    let of = match target {
        Target::Health { .. } => return true,
        Target::Collection { of, .. }
        | Target::Object { of, .. }
        | Target::WatchCollection { of, .. }
        | Target::WatchObject { of, .. } => of,
        Target::Subresource { of, subresource, .. } if subresource == "status" => of,
        Target::Subresource { .. }
        | Target::Root
        | Target::Api
        | Target::Apis
        | Target::ApiGroup(_)
        | Target::GroupVersion { .. }
        | Target::Version
        | Target::OpenApiV2
        | Target::OpenApiV3Index
        | Target::OpenApiV3 { .. }
        | Target::Unknown => return false,
    };
    let has = |resource: &ApiResource| {
        let Target::Subresource { subresource, .. } = target else { return true };
        resource.subresources.contains(subresource)
    };
    let resource = catalog.registry.find(&of.group, &of.version, &of.resource);
    method == Method::Get
        && resource.is_some_and(|resource| has(resource) && why_not_cached(app, resource).is_none())
}

/// Why the objects of a resource are not served here in this version; `None`: they are.
pub fn why_not_cached(app: &App, resource: &ApiResource) -> Option<&'static str> {
    match resource.conversion {
        Conversion::Kept | Conversion::Renamed | Conversion::Rewritten(..) => {}
        Conversion::AsStored => return Some("a webhook converts its objects"),
        Conversion::Missing => return Some("its objects are stored in another version"),
    }
    if app.why_in_other_etcd(resource.row).is_some() {
        return Some("it is kept in another etcd");
    }
    if app.catalogs().schema().get(resource.row).codec != Codec::Kubernetes {
        return Some("its values are no objects");
    }
    let snapshot = app.epoch().feed.snapshot();
    snapshot.first_unreadable(resource.row, None, None).map(|_| "a value of it cannot be read here")
}
