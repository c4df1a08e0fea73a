//! What is stored of a resource: one row of the engine's schema.

use std::time::Duration;

use revcast_engine::key::ResourceId;
use revcast_engine::message_type::SharedType;
use revcast_engine::other_versions::SharedVersions;
use revcast_engine::resource::{Field, Resource};

use super::{Declaration, Scope, api_version, parse_field};
use crate::api::builtin::Row;
use crate::api::crd::Definition;
use crate::api::protobuf::{Release, StoredType};
use crate::api::versions::{Conversion, StoredVersions};

/// Kubernetes' resources that it stores in an older version than the one that they are kept in here, and the first release that
/// does not (recording 30).
const STORED_OLDER: [(&str, &str, &str, u32); 3] = [
    ("apiextensions.k8s.io", "customresourcedefinitions", "v1beta1", u32::MAX),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies", "v1beta1", 37),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings", "v1beta1", 37),
];

/// One set of objects, in the version that they are kept in. A value that is stored in another version is brought to this
/// one as it is read.
#[derive(Clone, Debug)]
pub struct StoredResource {
    /// `apps`; "" for the core group.
    pub group: String,
    /// The version that its objects are kept in: `v1`. A resource need not be served in it.
    pub version: String,
    /// As in the URL: `configmaps`.
    pub plural: String,
    /// `ConfigMap`.
    pub kind: String,
    /// Whether its objects have namespaces.
    pub namespaced: bool,
    /// Selectable fields beside `metadata.name` and `metadata.namespace`.
    pub fields: Vec<Field>,
    /// How long an object lives after its last write; `None`: until it is deleted.
    pub ttl: Option<Duration>,
    /// Its row in the engine's schema.
    pub row: ResourceId,
    /// Whether it is none of Kubernetes' own.
    pub declared: bool,
    /// The CustomResourceDefinition in the store that defines it.
    pub definition: Option<String>,
    /// Whether it is not served any more: its number is never used again.
    pub retired: bool,
    /// The release of Kubernetes whose types its objects have.
    release: Release,
    storage_name: String,
    api_version: String,
}

impl StoredResource {
    pub(super) fn builtin(release: Release, row: &Row, version: &str) -> Self {
        Self {
            group: row.group.to_owned(),
            version: version.to_owned(),
            plural: row.plural.to_owned(),
            kind: row.kind.to_owned(),
            namespaced: row.namespaced,
            fields: row.fields.iter().map(|field| parse_field(field)).collect(),
            ttl: None,
            row: ResourceId::new(0),
            declared: false,
            definition: None,
            retired: false,
            release,
            // Of the first version of all releases: a store is read by every release under the same name.
            storage_name: format!("{}/{}", api_version(row.group, row.version), row.plural),
            api_version: api_version(row.group, version),
        }
    }

    pub(super) fn declared(of: &Declaration, fields: Vec<Field>) -> Self {
        let api_version = api_version(&of.group, &of.version);
        Self {
            group: of.group.clone(),
            version: of.version.clone(),
            plural: of.plural.clone(),
            kind: of.kind.clone(),
            namespaced: of.scope == Scope::Namespaced,
            fields,
            ttl: of.ttl_seconds.map(Duration::from_secs),
            row: ResourceId::new(0),
            declared: true,
            definition: None,
            retired: false,
            release: Release::DEFAULT,
            storage_name: format!("{api_version}/{}", of.plural),
            api_version,
        }
    }

    pub(super) fn of_definition(name: &str, of: &Definition, version: &str, fields: Vec<Field>) -> Self {
        let api_version = api_version(&of.group, version);
        Self {
            group: of.group.clone(),
            version: version.to_owned(),
            plural: of.plural.clone(),
            kind: of.kind.clone(),
            namespaced: of.namespaced,
            fields,
            ttl: None,
            row: ResourceId::new(0),
            declared: true,
            definition: Some(name.to_owned()),
            retired: false,
            release: Release::DEFAULT,
            storage_name: format!("{api_version}/{}", of.plural),
            api_version,
        }
    }

    /// `v1`, or `apps/v1`: the `apiVersion` of the objects that are kept.
    #[must_use]
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// The version that a kube-apiserver stores its objects in: `v1`.
    #[must_use]
    pub fn storage_version(&self) -> &str {
        let older = STORED_OLDER.iter().find(|(group, plural, _, until)| {
            !self.declared
                && (*group, *plural) == (&*self.group, &*self.plural)
                && self.release.minor() < *until
        });
        older.map_or(self.version.as_str(), |(_, _, version, _)| version)
    }

    /// Its name in the embedded store: `v1/configmaps`, `apps/v1/deployments`.
    #[must_use]
    pub fn storage_name(&self) -> &str {
        &self.storage_name
    }

    /// Where Kubernetes stores its objects in etcd, below the prefix: `configmaps`, `services/specs`,
    /// `example.com/widgets`. Kubernetes' own groups are not part of it, with two exceptions; some of its oldest
    /// resources keep their original names (recording 21).
    #[must_use]
    pub fn etcd_folder(&self) -> String {
        let historic = match (self.declared, self.group.as_str(), self.plural.as_str()) {
            (false, "", "services") => "services/specs",
            (false, "", "endpoints") => "services/endpoints",
            (false, "", "nodes") => "minions",
            (false, "", "replicationcontrollers") => "controllers",
            (false, "networking.k8s.io", "ingresses") => "ingress",
            (false, "apiregistration.k8s.io" | "apiextensions.k8s.io", _) | (true, _, _) => {
                return if self.group.is_empty() {
                    self.plural.clone()
                } else {
                    format!("{}/{}", self.group, self.plural)
                };
            }
            (false, _, plural) => plural,
        };
        historic.to_owned()
    }

    /// How its objects are shown in a version. Those of a declared resource have the same members in all.
    pub(super) fn conversion(&self, shown: &str) -> Conversion {
        match Conversion::between(self.release, &self.api_version, shown, &self.kind) {
            Conversion::Missing if self.declared => Conversion::Renamed,
            other @ (Conversion::Kept
            | Conversion::Renamed
            | Conversion::AsStored
            | Conversion::Rewritten(..)
            | Conversion::Missing) => other,
        }
    }

    /// Its row of the engine's schema.
    pub(super) fn in_schema(&self) -> Resource {
        let fields = self.fields.clone();
        let row = Resource::new(&self.api_version, &self.kind, self.namespaced, fields);
        let row = row.with_plural(&self.plural);
        if self.definition.is_some() {
            // Each version is stored as it was written; the versions that are served convert.
            return row.listing_fields().sorting_members().mixing_versions();
        }
        if self.declared {
            return row.listing_fields().sorting_members();
        }
        let versions = StoredVersions::new(self.release, &self.api_version, &self.kind);
        let row = row.with_versions(SharedVersions::new(versions));
        match StoredType::new(self.release, &self.api_version, &self.kind, row.fields()) {
            Some(of) => row.with_message(SharedType::new(of)),
            None => row,
        }
    }
}
