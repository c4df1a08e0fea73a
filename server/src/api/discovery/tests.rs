//! Discovery compared with recordings of kube-apiserver 1.36.2; every difference has its reason.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::api::protobuf::recorded::all_lines;

const RECORDED_GROUPS: &str = include_str!("../../../tests/fixtures/recorded-apis-aggregated.json");
const RECORDED_CORE: &str = include_str!("../../../tests/fixtures/recorded-api-v1.json");
const RECORDED_LIST: &str = include_str!("../../../tests/fixtures/recorded-apis-legacy.json");

fn discovery() -> Discovery {
    Discovery::new(&Registry::builtin(), "192.0.2.1:26443")
}

fn text<'a>(discovery: &'a Discovery, path: &str, form: DiscoveryForm) -> &'a str {
    as_text(discovery.get(path, form).expect(path))
}

fn as_text(document: &Document) -> &str {
    std::str::from_utf8(&document.body).expect("JSON is UTF-8")
}

#[test]
fn aggregated_groups_are_as_recorded() {
    let discovery = discovery();
    let recorded: serde_json::Value = serde_json::from_str(RECORDED_GROUPS).expect("recorded JSON");
    let ours = text(&discovery, "/apis", DiscoveryForm::AggregatedV2);
    let head =
        r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":["#;
    assert!(ours.starts_with(head) && ours.ends_with("]}\n") && RECORDED_GROUPS.ends_with("]}\n"));
    let mut equal = Vec::new();
    for group in recorded["items"].as_array().expect("groups") {
        if ours.contains(&group.to_string()) {
            equal.push(group["metadata"]["name"].as_str().expect("a name"));
        }
    }
    // The others have subresources or reviews that are not served.
    let expected = [
        "apiregistration.k8s.io",
        "events.k8s.io",
        "autoscaling",
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
    assert!(
        plain.starts_with(
            r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"configmaps","#
        )
    );
    let registry = Registry::builtin();
    let mut seen = 0;
    for resource in recorded["resources"].as_array().expect("resources") {
        let name = resource["name"].as_str().expect("a name").to_owned();
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

/// The hash is that of the version that a kube-apiserver stores: recording 30 has it of every kind.
#[test]
fn versions_that_are_hashed_are_those_that_are_stored() {
    let registry = Registry::builtin();
    let mut seen = BTreeSet::new();
    for line in all_lines() {
        let Some(row) = registry.rows().find(|row| row.plural == line.resource && row.kind == line.kind)
        else {
            continue;
        };
        let stored = line.stored_api_version.rsplit_once('/').unwrap_or(("", &line.stored_api_version));
        assert_eq!(stored, (&*row.group, row.storage_version()), "{}", line.kind);
        seen.insert(line.kind);
    }
    assert!(seen.len() > 55, "{}", seen.len());
    // Of versions that are shown of other rows' objects, and of one that nobody serves.
    let discovery = discovery();
    for (path, hash) in [
        ("/apis/events.k8s.io/v1", "r2yiGXH7wu8="),
        ("/apis/autoscaling/v1", "qwQve8ut294="),
        ("/apis/apiextensions.k8s.io/v1", "jfWCUB31mvA="),
        ("/apis/apps/v1", "8aSe+NMegvE="),
    ] {
        let hash = format!(r#""storageVersionHash":"{hash}""#);
        assert!(text(&discovery, path, DiscoveryForm::Plain).contains(&hash), "{path}");
    }
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
        assert!(recorded_groups.contains(&group.to_string()), "{group}");
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
    assert!(discovery.get("/apis/lifecycle.k8s.io", DiscoveryForm::Plain).is_none());
    assert!(discovery.get("/apis/apps/v2", DiscoveryForm::AggregatedV2).is_none());
}

#[test]
fn forms_differ_in_their_name_only_and_say_which_they_are() {
    let discovery = discovery();
    for path in ["/api", "/apis"] {
        let v2 = text(&discovery, path, DiscoveryForm::AggregatedV2);
        let beta = text(&discovery, path, DiscoveryForm::AggregatedV2beta1);
        assert_eq!(v2.replace("apidiscovery.k8s.io/v2\"", "apidiscovery.k8s.io/v2beta1\""), beta);
        for form in [DiscoveryForm::AggregatedV2, DiscoveryForm::AggregatedV2beta1, DiscoveryForm::Plain] {
            let document = discovery.get(path, form).expect(path);
            assert_eq!(document.content_type, form.content_type());
            assert_eq!(document.etag.is_some(), form != DiscoveryForm::Plain);
        }
        let etag =
            discovery.get(path, DiscoveryForm::AggregatedV2).and_then(|d| d.etag.clone()).expect("an ETag");
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
    assert!(text(&discovery, "/apis/example.com/v1", DiscoveryForm::Plain).contains(r#""name":"widgets""#));
    assert!(text(&discovery, "/apis", DiscoveryForm::AggregatedV2).contains(r#""name":"example.com""#));
    assert!(text(&discovery, "/api", DiscoveryForm::Plain).contains(r#""versions":["v1","v2"]"#));
    assert!(text(&discovery, "/api/v2", DiscoveryForm::Plain).contains("Widget"));
}

#[test]
fn the_version_has_what_clients_decode() {
    let discovery = discovery();
    let version: serde_json::Value = serde_json::from_str(as_text(discovery.version())).expect("JSON");
    assert_eq!(version["gitVersion"], format!("v1.36.0+revcast-{}", env!("CARGO_PKG_VERSION")));
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

const NO_POD: &str = "no pod runs here, so there is nothing to reach, read or evict";
const NO_REVIEW: &str = "a review is a question, not an object that could be listed";
const NO_SCALE: &str = "replicas are patched on the object itself";

/// What kube-apiserver has and revcast does not have, or has in another form.
const DIFFERENCES: &[(&str, &str)] = &[
    ("/v1/bindings", NO_POD),
    ("/v1/componentstatuses", "deprecated, made up by the server on every read"),
    ("/v1/namespaces", "all can be deleted at once, as with every resource"),
    ("/v1/namespaces/finalize", "finalizers are patched on the object itself"),
    ("/v1/nodes/proxy", NO_POD),
    ("/v1/pods/attach", NO_POD),
    ("/v1/pods/binding", NO_POD),
    ("/v1/pods/ephemeralcontainers", NO_POD),
    ("/v1/pods/eviction", NO_POD),
    ("/v1/pods/exec", NO_POD),
    ("/v1/pods/log", NO_POD),
    ("/v1/pods/portforward", NO_POD),
    ("/v1/pods/proxy", NO_POD),
    ("/v1/pods/resize", NO_POD),
    ("/v1/replicationcontrollers/scale", NO_SCALE),
    ("/v1/serviceaccounts/token", "no tokens are signed"),
    ("/v1/services/proxy", NO_POD),
    ("apps/v1/deployments/scale", NO_SCALE),
    ("apps/v1/replicasets/scale", NO_SCALE),
    ("apps/v1/statefulsets/scale", NO_SCALE),
    ("authentication.k8s.io/v1/selfsubjectreviews", NO_REVIEW),
    ("authentication.k8s.io/v1/tokenreviews", NO_REVIEW),
    ("authorization.k8s.io/v1/localsubjectaccessreviews", NO_REVIEW),
    ("authorization.k8s.io/v1/selfsubjectaccessreviews", NO_REVIEW),
    ("authorization.k8s.io/v1/selfsubjectrulesreviews", NO_REVIEW),
    ("authorization.k8s.io/v1/subjectaccessreviews", NO_REVIEW),
    ("certificates.k8s.io/v1/certificatesigningrequests/approval", "status takes the same"),
];

type Resources = BTreeMap<String, serde_json::Value>;

/// Resources and subresources of an aggregated reply, by group, version and name.
fn aggregated_resources(reply: &str) -> Resources {
    let reply: serde_json::Value = serde_json::from_str(reply).expect("JSON");
    let mut found = Resources::new();
    let each = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    for group in each(&reply["items"]) {
        let name = group["metadata"]["name"].as_str().unwrap_or_default();
        for version in each(&group["versions"]) {
            assert_eq!(version["freshness"], "Current");
            for mut resource in each(&version["resources"]) {
                let place = format!(
                    "{name}/{}/{}",
                    version["version"].as_str().expect("a version"),
                    resource["resource"].as_str().expect("a name")
                );
                let parts = resource.as_object_mut().expect("an object").shift_remove("subresources");
                for part in each(&parts.unwrap_or_default()) {
                    found.insert(format!("{place}/{}", part["subresource"].as_str().expect("a name")), part);
                }
                found.insert(place, resource);
            }
        }
    }
    found
}

/// Resources and subresources of the core group's plain list, by path.
fn plain_resources(reply: &str) -> Resources {
    let reply: serde_json::Value = serde_json::from_str(reply).expect("JSON");
    let each =
        reply["resources"].as_array().expect("resources").iter().map(|resource| {
            (format!("/v1/{}", resource["name"].as_str().expect("a name")), resource.clone())
        });
    each.collect()
}

#[test]
fn every_difference_to_the_recordings_has_its_reason() {
    let discovery = discovery();
    let aggregated = |path| aggregated_resources(text(&discovery, path, DiscoveryForm::AggregatedV2));
    let mut theirs = aggregated_resources(RECORDED_GROUPS);
    let mut ours = aggregated("/apis");
    let core_plain = plain_resources(text(&discovery, "/api/v1", DiscoveryForm::Plain));
    // Both forms are equal for the core group.
    assert_eq!(core_plain.keys().collect::<Vec<_>>(), aggregated("/api").keys().collect::<Vec<_>>());
    theirs.extend(plain_resources(RECORDED_CORE));
    ours.extend(core_plain);
    let names = theirs.keys().chain(ours.keys()).collect::<BTreeSet<_>>();
    let differ: Vec<&str> =
        names.into_iter().filter(|name| theirs.get(*name) != ours.get(*name)).map(String::as_str).collect();
    let reasons: Vec<&str> = DIFFERENCES.iter().map(|(name, _)| *name).collect();
    assert_eq!(differ, reasons, "differences without a reason, or reasons without a difference");
    assert!(ours.keys().all(|name| theirs.contains_key(name)), "nothing that Kubernetes has not");
    assert_eq!((theirs.len(), ours.len()), (113, 87));
}

#[test]
fn the_version_differs_in_what_revcast_has_not() {
    // Recording 19: the members of /version in their order.
    let recorded = [
        "major",
        "minor",
        "emulationMajor",
        "emulationMinor",
        "minCompatibilityMajor",
        "minCompatibilityMinor",
        "gitVersion",
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
    ];
    let version: serde_json::Value = serde_json::from_str(as_text(discovery().version())).expect("JSON");
    let ours: Vec<&String> = version.as_object().expect("an object").keys().collect();
    // No other version is emulated, so no member about one is present.
    let theirs =
        recorded.iter().filter(|name| !name.starts_with("emulation") && !name.starts_with("minComp"));
    assert_eq!(ours, theirs.collect::<Vec<_>>());
}
