//! Discovery: which resources are served, in the three forms that clients ask for, made once at the start.
//!
//! The forms and the order of members are those recorded from kube-apiserver 1.36: aggregated discovery (KEP-3352) in
//! v2 and v2beta1, and the plain lists that it replaced. It never looks at a request.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::env::consts;

use base64::Engine;
use bytes::Bytes;
use ring::digest::{SHA256, digest};
use serde::Serialize;

use super::protobuf::{self, Release};
use super::resources::{ApiResource, Registry};
use crate::http::negotiation::DiscoveryForm;

/// The verbs of every resource.
pub const VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// The verbs of a `status` subresource.
pub const STATUS_VERBS: [&str; 3] = ["get", "patch", "update"];

/// The `apiVersion` of an aggregated reply.
const fn aggregated_version(form: DiscoveryForm) -> &'static str {
    match form {
        DiscoveryForm::AggregatedV2 | DiscoveryForm::Plain => "apidiscovery.k8s.io/v2",
        DiscoveryForm::AggregatedV2beta1 => "apidiscovery.k8s.io/v2beta1",
    }
}

/// A reply that does not change while the process runs.
#[derive(Clone, Debug)]
pub struct Document {
    /// The body.
    pub body: Bytes,
    /// The `Content-Type`.
    pub content_type: &'static str,
    /// The `ETag` with its quotes, where kube-apiserver sends one. The reply then also has `Cache-Control: public`;
    /// every discovery reply has `Vary: Accept`.
    pub etag: Option<String>,
    /// The body in protobuf and its `Content-Type`; `None`: it has no such form.
    pub protobuf: Option<(Bytes, &'static str)>,
}

impl Document {
    pub(super) fn json<T: Serialize>(value: &T) -> Self {
        let content_type = DiscoveryForm::Plain.content_type();
        Self { body: line(value), content_type, etag: None, protobuf: None }
    }

    fn aggregated<T: Serialize>(form: DiscoveryForm, value: &T) -> Self {
        let body = line(value);
        let etag = Some(format!("\"{}\"", fingerprint(&body)));
        Self { body, content_type: form.content_type(), etag, protobuf: None }.packed(form)
    }

    /// With its form in protobuf: the types of discovery are the same in all releases.
    fn packed(self, form: DiscoveryForm) -> Self {
        let body = protobuf::encode(Release::DEFAULT, &self.body).ok();
        let protobuf = body.map(|body| (body.into(), form.protobuf_content_type()));
        Self { protobuf, ..self }
    }

    fn plain<T: Serialize>(value: &T) -> Self {
        Self::json(value).packed(DiscoveryForm::Plain)
    }
}

/// Compact JSON and the line feed that kube-apiserver ends replies with.
fn line<T: Serialize>(value: &T) -> Bytes {
    let mut body = serde_json::to_vec(value).expect("documents have string keys only");
    body.push(b'\n');
    body.into()
}

/// All discovery replies.
#[derive(Debug)]
pub struct Discovery {
    aggregated: HashMap<(bool, DiscoveryForm), Document>,
    plain: HashMap<String, Document>,
    version: Document,
}

impl Discovery {
    /// Makes all replies. `server_address` (`host:port`) is part of the plain reply of `/api`.
    #[must_use]
    pub fn new(registry: &Registry, server_address: &str) -> Self {
        let groups = group(registry);
        let (core, named): (Vec<_>, Vec<_>) = groups.iter().partition(|group| group.name.is_empty());
        let mut aggregated = HashMap::new();
        for form in [DiscoveryForm::AggregatedV2, DiscoveryForm::AggregatedV2beta1] {
            for (is_core, groups) in [(true, &core), (false, &named)] {
                let list = GroupDiscoveryList {
                    kind: "APIGroupDiscoveryList",
                    api_version: aggregated_version(form),
                    metadata: Empty {},
                    items: groups.iter().map(|group| group_discovery(group)).collect(),
                };
                aggregated.insert((is_core, form), Document::aggregated(form, &list));
            }
        }
        let mut plain = HashMap::new();
        let core_versions =
            core.iter().flat_map(|group| &group.versions).map(|(version, _)| *version).collect();
        plain.insert(
            "/api".to_owned(),
            Document::plain(&ApiVersions {
                kind: "APIVersions",
                versions: core_versions,
                server_address_by_client_cidrs: [ServerAddress { client_cidr: "0.0.0.0/0", server_address }],
            }),
        );
        let list = ApiGroupList {
            kind: "APIGroupList",
            api_version: "v1",
            groups: named.iter().map(|group| api_group(group, false)).collect(),
        };
        plain.insert("/apis".to_owned(), Document::plain(&list));
        for group in &named {
            plain.insert(format!("/apis/{}", group.name), Document::plain(&api_group(group, true)));
        }
        for group in &groups {
            for (version, resources) in &group.versions {
                let list = resource_list(registry, group.name, version, resources);
                let path = match group.name {
                    "" => format!("/api/{version}"),
                    name => format!("/apis/{name}/{version}"),
                };
                plain.insert(path, Document::plain(&list));
            }
        }
        Self { aggregated, plain, version: version(registry.release()) }
    }

    /// The reply to `GET /version`.
    #[must_use]
    pub const fn version(&self) -> &Document {
        &self.version
    }

    /// The reply to `GET path` (no trailing slash) in `form`, or in the plain form if a path has only that one. `None`:
    /// there is no such document.
    #[must_use]
    pub fn get(&self, path: &str, form: DiscoveryForm) -> Option<&Document> {
        let is_core = match path {
            "/api" => true,
            "/apis" => false,
            _ => return self.plain.get(path),
        };
        match form {
            DiscoveryForm::Plain => self.plain.get(path),
            DiscoveryForm::AggregatedV2 | DiscoveryForm::AggregatedV2beta1 => {
                self.aggregated.get(&(is_core, form))
            }
        }
    }
}

/// One group, its versions in the order in which they were added, resources by plural.
struct Group<'a> {
    name: &'a str,
    versions: Vec<(&'a str, Vec<&'a ApiResource>)>,
}

fn group(registry: &Registry) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for resource in registry.iter().filter(|resource| resource.listed) {
        let at = groups.iter().position(|group| group.name == resource.group).unwrap_or_else(|| {
            groups.push(Group { name: &resource.group, versions: Vec::new() });
            groups.len() - 1
        });
        let versions = &mut groups[at].versions;
        match versions.iter_mut().find(|(version, _)| *version == resource.version) {
            Some((_, resources)) => resources.push(resource),
            None => versions.push((&resource.version, vec![resource])),
        }
    }
    for (_, resources) in groups.iter_mut().flat_map(|group| &mut group.versions) {
        resources.sort_by(|a, b| a.plural.cmp(&b.plural));
    }
    groups
}

#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupDiscoveryList<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Empty,
    items: Vec<GroupDiscovery<'a>>,
}

#[derive(Serialize)]
struct GroupDiscovery<'a> {
    metadata: GroupName<'a>,
    versions: Vec<VersionDiscovery<'a>>,
}

#[derive(Serialize)]
struct GroupName<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
}

#[derive(Serialize)]
struct VersionDiscovery<'a> {
    version: &'a str,
    resources: Vec<ResourceDiscovery<'a>>,
    freshness: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceDiscovery<'a> {
    resource: &'a str,
    response_kind: ResponseKind<'a>,
    scope: &'static str,
    singular_resource: &'a str,
    verbs: &'static [&'static str],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    short_names: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    categories: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<SubresourceDiscovery<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SubresourceDiscovery<'a> {
    subresource: &'a str,
    response_kind: ResponseKind<'a>,
    verbs: &'static [&'static str],
}

/// Group and version are empty if they are those of the resource, as recorded.
#[derive(Serialize)]
struct ResponseKind<'a> {
    group: &'static str,
    version: &'static str,
    kind: &'a str,
}

fn group_discovery<'a>(group: &Group<'a>) -> GroupDiscovery<'a> {
    let versions = group.versions.iter().map(|(version, resources)| VersionDiscovery {
        version,
        resources: resources.iter().map(|resource| resource_discovery(resource)).collect(),
        freshness: "Current",
    });
    GroupDiscovery { metadata: GroupName { name: group.name }, versions: versions.collect() }
}

fn resource_discovery(resource: &ApiResource) -> ResourceDiscovery<'_> {
    let kind = || ResponseKind { group: "", version: "", kind: &resource.kind };
    let subresources = resource.subresources.iter().map(|subresource| SubresourceDiscovery {
        subresource,
        response_kind: kind(),
        verbs: &STATUS_VERBS,
    });
    ResourceDiscovery {
        resource: &resource.plural,
        response_kind: kind(),
        scope: if resource.namespaced { "Namespaced" } else { "Cluster" },
        singular_resource: &resource.singular,
        verbs: &VERBS,
        short_names: &resource.short_names,
        categories: &resource.categories,
        subresources: subresources.collect(),
    }
}

#[derive(Serialize)]
struct ApiVersions<'a> {
    kind: &'static str,
    versions: Vec<&'a str>,
    #[serde(rename = "serverAddressByClientCIDRs")]
    server_address_by_client_cidrs: [ServerAddress<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerAddress<'a> {
    #[serde(rename = "clientCIDR")]
    client_cidr: &'static str,
    server_address: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiGroupList<'a> {
    kind: &'static str,
    api_version: &'static str,
    groups: Vec<ApiGroup<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiGroup<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    name: &'a str,
    versions: Vec<GroupVersion<'a>>,
    preferred_version: GroupVersion<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupVersion<'a> {
    group_version: String,
    version: &'a str,
}

/// A group alone has its kind and apiVersion; inside the list it does not, as recorded.
fn api_group<'a>(group: &Group<'a>, alone: bool) -> ApiGroup<'a> {
    let named =
        |version: &'a str| GroupVersion { group_version: format!("{}/{version}", group.name), version };
    ApiGroup {
        kind: alone.then_some("APIGroup"),
        api_version: alone.then_some("v1"),
        name: group.name,
        versions: group.versions.iter().map(|(version, _)| named(version)).collect(),
        preferred_version: named(group.versions[0].0),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiResourceList<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    group_version: String,
    resources: Vec<PlainResource<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PlainResource<'a> {
    name: String,
    singular_name: &'a str,
    namespaced: bool,
    kind: &'a str,
    verbs: &'static [&'static str],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    short_names: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    categories: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_version_hash: Option<String>,
}

/// Which version the objects of a resource are stored in, as a hash; `None`: one that is not served, of a defined resource
/// (apiserver `endpoints/discovery/storageversionhash.go`, apiextensions-apiserver `customresource_discovery_controller.go`).
fn storage_version_hash(registry: &Registry, resource: &ApiResource) -> Option<String> {
    let row = registry.get(resource.row)?;
    let version = row.storage_version();
    if row.definition.is_some() {
        registry.find(&row.group, version, &row.plural)?;
    }
    let hash = digest(&SHA256, format!("{}/{version}/{}", row.group, row.kind).as_bytes());
    let first = hash.as_ref().first_chunk::<8>()?;
    Some(base64::engine::general_purpose::STANDARD.encode(first))
}

fn resource_list<'a>(
    registry: &Registry,
    group: &str,
    version: &str,
    resources: &[&'a ApiResource],
) -> ApiResourceList<'a> {
    let mut list = Vec::with_capacity(resources.len() * 2);
    for resource in resources {
        list.push(PlainResource {
            name: resource.plural.clone(),
            singular_name: &resource.singular,
            namespaced: resource.namespaced,
            kind: &resource.kind,
            verbs: &VERBS,
            short_names: &resource.short_names,
            categories: &resource.categories,
            storage_version_hash: storage_version_hash(registry, resource),
        });
        for subresource in &resource.subresources {
            list.push(PlainResource {
                name: format!("{}/{subresource}", resource.plural),
                singular_name: "",
                namespaced: resource.namespaced,
                kind: &resource.kind,
                verbs: &STATUS_VERBS,
                short_names: &[],
                categories: &[],
                storage_version_hash: None,
            });
        }
    }
    ApiResourceList {
        kind: "APIResourceList",
        // The core group's list has no apiVersion, the others' have one, as recorded.
        api_version: (!group.is_empty()).then_some("v1"),
        group_version: if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") },
        resources: list,
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    major: &'static str,
    minor: String,
    git_version: String,
    git_commit: &'static str,
    git_tree_state: &'static str,
    build_date: &'static str,
    go_version: &'static str,
    compiler: &'static str,
    platform: String,
}

/// `/version`: the release whose API types are served. Clients decode the members about Go, so they are present, with true values.
fn version(release: Release) -> Document {
    let arch = match consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let version = Version {
        major: "1",
        minor: release.minor().to_string(),
        git_version: format!("v{release}.0+revcast-{}", env!("CARGO_PKG_VERSION")),
        git_commit: "",
        git_tree_state: "",
        build_date: "",
        go_version: "none",
        compiler: "rustc",
        platform: format!("{}/{arch}", consts::OS),
    };
    let body = serde_json::to_vec_pretty(&version).expect("strings only");
    let content_type = DiscoveryForm::Plain.content_type();
    Document { body: body.into(), content_type, etag: None, protobuf: None }
}

/// 128-bit FNV-1a of a document, in upper-case hex: equal documents get equal tags in every process.
pub(super) fn fingerprint(bytes: &[u8]) -> String {
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in bytes {
        hash ^= u128::from(*byte);
        hash = hash.wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    format!("{hash:032X}")
}
