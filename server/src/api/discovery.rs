//! Discovery: what is served, in the three forms that clients ask for, made once at the start.
//!
//! The shapes and the order of members are those recorded from kube-apiserver 1.36: aggregated discovery
//! (KEP-3352) in v2 and v2beta1, and the plain lists that it replaced. It never looks at a request.

use std::collections::HashMap;
use std::env::consts;

use bytes::Bytes;
use serde::Serialize;

use super::resources::{ApiResource, Registry};
use crate::http::accept::DiscoveryForm;

/// What can be done with every resource.
pub const VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// What can be done with a `status` subresource.
pub const STATUS_VERBS: [&str; 3] = ["get", "patch", "update"];

/// The Kubernetes release whose behaviour is served.
const MAJOR: &str = "1";
const MINOR: &str = "34";

/// The `apiVersion` of an aggregated reply.
const fn aggregated_version(form: DiscoveryForm) -> &'static str {
    match form {
        DiscoveryForm::AggregatedV2 | DiscoveryForm::Plain => "apidiscovery.k8s.io/v2",
        DiscoveryForm::AggregatedV2beta1 => "apidiscovery.k8s.io/v2beta1",
    }
}

/// A reply that never changes while the process lives.
#[derive(Clone, Debug)]
pub struct Document {
    /// The body.
    pub body: Bytes,
    /// The `Content-Type`.
    pub content_type: &'static str,
    /// The `ETag` with its quotes, where kube-apiserver sends one. The reply then also says
    /// `Cache-Control: public`; every discovery reply says `Vary: Accept`.
    pub etag: Option<String>,
}

impl Document {
    pub(super) fn json<T: Serialize>(value: &T) -> Self {
        Self { body: line(value), content_type: DiscoveryForm::Plain.content_type(), etag: None }
    }

    fn aggregated<T: Serialize>(form: DiscoveryForm, value: &T) -> Self {
        let body = line(value);
        let etag = Some(format!("\"{}\"", fingerprint(&body)));
        Self { body, content_type: form.content_type(), etag }
    }
}

/// Compact JSON and the newline that kube-apiserver ends replies with.
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
    /// Makes all replies. `server_address` (`host:port`) stands in the plain reply of `/api`.
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
            Document::json(&ApiVersions {
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
        plain.insert("/apis".to_owned(), Document::json(&list));
        for group in &named {
            plain.insert(format!("/apis/{}", group.name), Document::json(&api_group(group, true)));
        }
        for group in &groups {
            for (version, resources) in &group.versions {
                let list = resource_list(group.name, version, resources);
                let path = match group.name {
                    "" => format!("/api/{version}"),
                    name => format!("/apis/{name}/{version}"),
                };
                plain.insert(path, Document::json(&list));
            }
        }
        Self { aggregated, plain, version: version() }
    }

    /// The reply to `GET path` (no trailing slash) in `form`, or in the plain form where a path has only that
    /// one. `None`: there is no such document.
    #[must_use]
    pub fn get(&self, path: &str, form: DiscoveryForm) -> Option<&Document> {
        let is_core = match path {
            "/version" => return Some(&self.version),
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
    for resource in registry.iter() {
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

/// Group and version are empty where they are those of the resource, as recorded.
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

/// A group alone says what it is; inside the list it does not, as recorded.
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
}

fn resource_list<'a>(group: &str, version: &str, resources: &[&'a ApiResource]) -> ApiResourceList<'a> {
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
            });
        }
    }
    ApiResourceList {
        kind: "APIResourceList",
        // The core group's list says no apiVersion, the others' do.
        api_version: (!group.is_empty()).then_some("v1"),
        group_version: if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") },
        resources: list,
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    major: &'static str,
    minor: &'static str,
    git_version: String,
    git_commit: &'static str,
    git_tree_state: &'static str,
    build_date: &'static str,
    go_version: &'static str,
    compiler: &'static str,
    platform: String,
}

/// `/version`. Clients decode the members about Go, so they are there and say what is true.
fn version() -> Document {
    let arch = match consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let version = Version {
        major: MAJOR,
        minor: MINOR,
        git_version: format!("v{MAJOR}.{MINOR}.0+revcast-{}", env!("CARGO_PKG_VERSION")),
        git_commit: "",
        git_tree_state: "",
        build_date: "",
        go_version: "none",
        compiler: "rustc",
        platform: format!("{}/{arch}", consts::OS),
    };
    let body = serde_json::to_vec_pretty(&version).expect("strings only");
    Document { body: body.into(), content_type: DiscoveryForm::Plain.content_type(), etag: None }
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

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED_GROUPS: &str = include_str!("../../tests/fixtures/recorded-apis-aggregated.json");
    const RECORDED_CORE: &str = include_str!("../../tests/fixtures/recorded-api-v1.json");
    const RECORDED_LIST: &str = include_str!("../../tests/fixtures/recorded-apis-legacy.json");

    fn discovery() -> Discovery {
        Discovery::new(&Registry::builtin(), "192.0.2.1:26443")
    }

    fn text<'a>(discovery: &'a Discovery, path: &str, form: DiscoveryForm) -> &'a str {
        std::str::from_utf8(&discovery.get(path, form).expect(path).body).expect("JSON is UTF-8")
    }

    #[test]
    fn aggregated_groups_are_as_recorded() {
        let discovery = discovery();
        let recorded: serde_json::Value = serde_json::from_str(RECORDED_GROUPS).expect("recorded JSON");
        let ours = text(&discovery, "/apis", DiscoveryForm::AggregatedV2);
        let head = r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":["#;
        assert!(ours.starts_with(head) && ours.ends_with("]}\n") && RECORDED_GROUPS.ends_with("]}\n"));
        let mut equal = Vec::new();
        for group in recorded["items"].as_array().expect("groups") {
            if ours.contains(&group.to_string()) {
                equal.push(group["metadata"]["name"].as_str().expect("a name"));
            }
        }
        // The others have subresources, versions or reviews that are not served.
        let expected = [
            "apiregistration.k8s.io",
            "batch",
            "networking.k8s.io",
            "policy",
            "rbac.authorization.k8s.io",
            "storage.k8s.io",
            "admissionregistration.k8s.io",
            "apiextensions.k8s.io",
            "scheduling.k8s.io",
            "coordination.k8s.io",
            "node.k8s.io",
            "discovery.k8s.io",
            "resource.k8s.io",
            "flowcontrol.apiserver.k8s.io",
        ];
        assert_eq!(equal, expected);
        let order: Vec<usize> =
            expected.iter().map(|n| ours.find(&format!(r#""name":"{n}""#)).expect(n)).collect();
        assert!(order.is_sorted(), "groups stand in the recorded order");
    }

    #[test]
    fn core_resources_are_as_recorded() {
        let discovery = discovery();
        let recorded: serde_json::Value = serde_json::from_str(RECORDED_CORE).expect("recorded JSON");
        let plain = text(&discovery, "/api/v1", DiscoveryForm::Plain);
        assert!(plain.starts_with(
            r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"configmaps","#
        ));
        let registry = Registry::builtin();
        let mut seen = 0;
        for resource in recorded["resources"].as_array().expect("resources") {
            let mut resource = resource.clone();
            let name = resource["name"].as_str().expect("a name").to_owned();
            let members = resource.as_object_mut().expect("an object");
            members.shift_remove("storageVersionHash");
            let served = match name.strip_suffix("/status") {
                Some(plural) => registry.find("", "v1", plural).is_some_and(ApiResource::has_status),
                None => registry.find("", "v1", &name).is_some(),
            };
            if served && name != "namespaces" {
                seen += 1;
                assert!(plain.contains(&resource.to_string()), "{resource}\nnot in\n{plain}");
            }
        }
        assert_eq!(seen, 22);
        let aggregated = text(&discovery, "/api", DiscoveryForm::AggregatedV2);
        assert!(aggregated.contains(concat!(
            r#""items":[{"metadata":{},"versions":[{"version":"v1","resources":[{"resource":"configmaps","#,
            r#""responseKind":{"group":"","version":"","kind":"ConfigMap"},"scope":"Namespaced","#,
            r#""singularResource":"configmap","#
        )));
    }

    #[test]
    fn plain_groups_are_as_recorded() {
        let discovery = discovery();
        let api = concat!(
            r#"{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":"#,
            r#"[{"clientCIDR":"0.0.0.0/0","serverAddress":"192.0.2.1:26443"}]}"#,
            "\n"
        );
        assert_eq!((text(&discovery, "/api", DiscoveryForm::Plain), api.len()), (api, 133));
        let recorded: serde_json::Value = serde_json::from_str(RECORDED_LIST).expect("recorded JSON");
        let ours: serde_json::Value =
            serde_json::from_str(text(&discovery, "/apis", DiscoveryForm::Plain)).expect("JSON");
        let recorded_groups: Vec<String> =
            recorded["groups"].as_array().expect("groups").iter().map(ToString::to_string).collect();
        for group in ours["groups"].as_array().expect("groups") {
            let same = recorded_groups.contains(&group.to_string());
            assert!(same || group["name"] == "autoscaling", "{group}");
        }
        assert_eq!(
            text(&discovery, "/apis/apps", DiscoveryForm::Plain),
            concat!(
                r#"{"kind":"APIGroup","apiVersion":"v1","name":"apps","#,
                r#""versions":[{"groupVersion":"apps/v1","version":"v1"}],"#,
                r#""preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}"#,
                "\n"
            )
        );
        let head = r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1","resources":["#;
        assert!(text(&discovery, "/apis/apps/v1", DiscoveryForm::Plain).starts_with(head));
        assert!(discovery.get("/apis/events.k8s.io", DiscoveryForm::Plain).is_none());
        assert!(discovery.get("/apis/apps/v2", DiscoveryForm::AggregatedV2).is_none());
    }

    #[test]
    fn forms_differ_in_their_name_only_and_say_which_they_are() {
        let discovery = discovery();
        for path in ["/api", "/apis"] {
            let v2 = text(&discovery, path, DiscoveryForm::AggregatedV2);
            let beta = text(&discovery, path, DiscoveryForm::AggregatedV2beta1);
            assert_eq!(v2.replace("apidiscovery.k8s.io/v2\"", "apidiscovery.k8s.io/v2beta1\""), beta);
            for form in [DiscoveryForm::AggregatedV2, DiscoveryForm::AggregatedV2beta1, DiscoveryForm::Plain]
            {
                let document = discovery.get(path, form).expect(path);
                assert_eq!(document.content_type, form.content_type());
                assert_eq!(document.etag.is_some(), form != DiscoveryForm::Plain);
            }
            let etag = discovery
                .get(path, DiscoveryForm::AggregatedV2)
                .and_then(|d| d.etag.clone())
                .expect("an ETag");
            assert_eq!((etag.len(), etag.to_uppercase()), (34, etag.clone()));
            assert_ne!(
                Some(etag),
                discovery.get(path, DiscoveryForm::AggregatedV2beta1).and_then(|d| d.etag.clone())
            );
        }
    }

    #[test]
    fn declared_resources_are_discovered() {
        let mut registry = Registry::builtin();
        registry.declare("example.com/v1/widgets/Widget/cluster").expect("a good value");
        registry.declare("core/v2/widgets/Widget/cluster").expect("a good value");
        let discovery = Discovery::new(&registry, "h:1");
        assert!(
            text(&discovery, "/apis/example.com/v1", DiscoveryForm::Plain).contains(r#""name":"widgets""#)
        );
        assert!(text(&discovery, "/apis", DiscoveryForm::AggregatedV2).contains(r#""name":"example.com""#));
        assert!(text(&discovery, "/api", DiscoveryForm::Plain).contains(r#""versions":["v1","v2"]"#));
        assert!(text(&discovery, "/api/v2", DiscoveryForm::Plain).contains("Widget"));
    }

    #[test]
    fn the_version_has_what_clients_decode() {
        let discovery = discovery();
        let version: serde_json::Value =
            serde_json::from_str(text(&discovery, "/version", DiscoveryForm::AggregatedV2)).expect("JSON");
        assert_eq!(version["gitVersion"], format!("v1.34.0+revcast-{}", env!("CARGO_PKG_VERSION")));
        for member in
            ["major", "minor", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"]
        {
            assert!(version[member].is_string(), "{member}");
        }
    }

    #[test]
    fn the_fingerprint_is_fnv_1a() {
        assert_eq!(fingerprint(b""), "6C62272E07BB014262B821756295C58D");
        assert_eq!(fingerprint(b"a"), "D228CB696F1A8CAF78912B704E4A8964");
    }
}
