//! The registry: what it finds, and what it refuses.

use super::*;

#[test]
fn builtin_resources_are_found_by_name_and_row() {
    let registry = Registry::builtin();
    let schema = registry.schema();
    assert_eq!(schema.len(), registry.rows().count());
    for resource in registry.iter() {
        let found = registry.find(&resource.group, &resource.version, &resource.plural);
        assert_eq!(found.map(|r| r.view), Some(resource.view), "{}", resource.plural);
        assert_eq!(registry.view(resource.view).map(ApiResource::names), Some(resource.names()));
        let stored = registry.get(resource.row).expect("its row");
        assert_eq!((&stored.kind, &stored.plural), (&resource.kind, &resource.plural));
        let row = schema.get(resource.row);
        assert_eq!((row.api_version.as_str(), row.namespaced), (stored.api_version(), resource.namespaced));
    }
    assert!(registry.find("apps", "v1", "configmaps").is_none());
    assert!(registry.find("", "v1", "configmap").is_none());
    assert!(registry.has_group("apps") && !registry.has_group("example.com"));
}

#[test]
fn names_in_the_store_and_fields_are_those_of_kubernetes() {
    let registry = Registry::builtin();
    let get = |group, plural| {
        let found = registry.find(group, "v1", plural).expect("a built-in resource");
        registry.get(found.row).expect("its row")
    };
    assert_eq!(get("", "configmaps").storage_name(), "v1/configmaps");
    assert_eq!(get("apps", "deployments").storage_name(), "apps/v1/deployments");
    for (group, plural, folder) in [
        ("", "configmaps", "configmaps"),
        ("apps", "deployments", "deployments"),
        ("", "services", "services/specs"),
        ("", "endpoints", "services/endpoints"),
        ("", "nodes", "minions"),
        ("", "replicationcontrollers", "controllers"),
        ("networking.k8s.io", "ingresses", "ingress"),
        ("apiregistration.k8s.io", "apiservices", "apiregistration.k8s.io/apiservices"),
        (
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            "apiextensions.k8s.io/customresourcedefinitions",
        ),
        ("flowcontrol.apiserver.k8s.io", "flowschemas", "flowschemas"),
    ] {
        assert_eq!(get(group, plural).etcd_folder(), folder);
    }
    let schema = registry.schema();
    let pods = schema.get(get("", "pods").row);
    let host = pods.field("spec.host").expect("an alias");
    assert_eq!(pods.fields()[host.index()].path, ["spec", "nodeName"]);
    let ips = pods.field("status.podIPs").expect("a label that is accepted");
    assert!(pods.fields()[ips.index()].path.is_empty());
    let jobs = schema.get(get("batch", "jobs").row);
    let done = jobs.field("status.successful").expect("an alias");
    assert_eq!(jobs.fields()[done.index()].path, ["status", "succeeded"]);
    assert_eq!(get("", "events").ttl, Some(EVENT_TTL));
    assert_eq!(get("", "pods").ttl, None);
}

#[test]
fn the_event_ttl_can_be_set() {
    let mut registry = Registry::builtin();
    registry.set_event_ttl(Some(Duration::from_secs(60)));
    let ttls: Vec<_> = registry.rows().filter_map(|row| Some((&row.plural, row.ttl?))).collect();
    assert_eq!(ttls, [(&"events".to_owned(), Duration::from_secs(60))]);
}

#[test]
fn a_declared_resource_is_served_like_the_others() {
    let mut registry = Registry::builtin();
    let before = registry.rows().count();
    let id = registry.declare("example.com/v1/widgets/Widget/namespaced").expect("a good value");
    assert_eq!(id.row(), before);
    let widget = registry.find("example.com", "v1", "widgets").expect("declared just now");
    assert_eq!((widget.singular.as_str(), widget.list_kind.as_str()), ("widget", "WidgetList"));
    let stored = registry.get(id).expect("its row");
    assert_eq!(stored.storage_name(), "example.com/v1/widgets");
    assert_eq!(stored.etcd_folder(), "example.com/widgets");
    registry.declare("core/v1/gadgets/Gadget/cluster").expect("core is a word for the core group");
    assert!(registry.find("", "v1", "gadgets").is_some_and(|g| !g.namespaced));
    registry.declare("/v1/gizmos/Gizmo/cluster").expect("nothing is a word for it too");
    assert!(registry.find("", "v1", "gizmos").is_some());
}

#[test]
fn a_bad_declaration_is_one_line_with_the_value_and_the_mend() {
    let mut registry = Registry::builtin();
    let bad = [
        ("widgets", "GROUP/VERSION/PLURAL/KIND"),
        ("a/b/c/d/e", "GROUP/VERSION/PLURAL/KIND"),
        ("example.com/v1/widgets/Widget/namespaced/x", "GROUP/VERSION/PLURAL/KIND"),
        ("Example.com/v1/widgets/Widget/namespaced", "group"),
        ("example..com/v1/widgets/Widget/namespaced", "group"),
        ("example.com/V1/widgets/Widget/namespaced", "version"),
        ("example.com//widgets/Widget/namespaced", "version"),
        ("example.com/v1/Widgets/Widget/namespaced", "plural"),
        ("example.com/v1/watch/Widget/namespaced", "plural"),
        ("example.com/v1/namespaces/Widget/cluster", "plural"),
        ("example.com/v1/widgets/1Widget/namespaced", "kind"),
        ("example.com/v1/widgets/Wid\"get/namespaced", "kind"),
        ("core/v1/configmaps/ConfigMap/namespaced", "served already"),
    ];
    for (value, says) in bad {
        let message = registry.declare(value).expect_err(value).to_string();
        assert!(message.contains(says) && !message.contains('\n'), "{value}: {message}");
    }
    assert_eq!(registry.len(), Registry::builtin().len());
}

#[test]
fn the_config_file_can_say_more() {
    let text = r#"
        group = "example.com"
        version = "v1"
        plural = "widgets"
        kind = "Widget"
        scope = "cluster"
        shortNames = ["wd"]
        categories = ["all"]
        selectableFields = [".spec.color", "spec.size"]
        status = true
        ttlSeconds = 5
    "#;
    let mut registry = Registry::new();
    let id = registry.add(&toml::from_str(text).expect("the form of the config file")).expect("valid");
    let widget = registry.find("example.com", "v1", "widgets").expect("added just now");
    assert_eq!((widget.short_names[0].as_str(), widget.has_status()), ("wd", true));
    assert_eq!(registry.get(id).and_then(|stored| stored.ttl), Some(Duration::from_secs(5)));
    assert!(registry.schema().get(id).field("spec.color").is_some());
    assert!(toml::from_str::<Declaration>(&format!("{text}\nshortnames = []")).is_err());
    for bad in ["spec..x", "metadata.name", "", "spec.a[0]"] {
        let mut declaration: Declaration = toml::from_str(text).expect("the form of the config file");
        declaration.selectable_fields = vec![bad.to_owned()];
        assert!(Registry::new().add(&declaration).is_err(), "{bad}");
    }
}

#[test]
fn versions_share_a_row_and_select_by_their_own_labels() {
    let registry = Registry::builtin();
    let find = |group, version, plural| registry.find(group, version, plural).expect("a built-in resource");
    let (old, new) = (find("", "v1", "events"), find("events.k8s.io", "v1", "events"));
    assert!(old.row == new.row && old.view != new.view);
    for (label, its) in [
        ("regarding.name", Some("involvedObject.name")),
        ("reportingController", Some("reportingComponent")),
        ("type", Some("type")),
        ("metadata.name", Some("metadata.name")),
        ("involvedObject.name", None),
        ("source", None),
    ] {
        let at = |label| old.selectable().field(label);
        assert_eq!(new.selectable().field(label), its.and_then(at), "{label}");
    }
    let (v1, v2) = (
        find("autoscaling", "v1", "horizontalpodautoscalers"),
        find("autoscaling", "v2", "horizontalpodautoscalers"),
    );
    assert!(v1.row == v2.row && v1.listed && v2.listed);
    let beta = find("networking.k8s.io", "v1beta1", "ipaddresses");
    assert!(!beta.listed && matches!(beta.conversion, Conversion::Renamed));
}

#[test]
fn a_release_has_its_own_versions_under_the_same_names_in_the_store() {
    let release =
        |minor| Release::ALL.into_iter().find(|release| release.minor() == minor).expect("a release");
    let of = |minor| Registry::of_release(release(minor));
    let kept = |minor, plural| {
        let registry = of(minor);
        let row = registry.rows().find(|row| row.plural == plural).cloned();
        row.map(|row| (row.version.clone(), row.storage_name().to_owned()))
    };
    let policies = "mutatingadmissionpolicies";
    let name = "admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
    for (minor, version) in [(33, "v1alpha1"), (34, "v1beta1"), (35, "v1beta1"), (36, "v1"), (37, "v1")] {
        assert_eq!(kept(minor, policies), Some((version.to_owned(), name.to_owned())), "1.{minor}");
    }
    assert_eq!(kept(36, "devicetaintrules").map(|(version, _)| version).as_deref(), Some("v1alpha3"));
    assert_eq!(kept(36, "evictionrequests"), None);
    assert!(of(37).find("lifecycle.k8s.io", "v1alpha1", "evictionrequests").is_some());
    assert!(of(36).find("certificates.k8s.io", "v1", "clustertrustbundles").is_none());
    assert!(of(37).find("certificates.k8s.io", "v1", "clustertrustbundles").is_some_and(|r| r.listed));
}

mod defined {
    use std::collections::BTreeMap;

    use revcast_engine::key::ResourceId;
    use serde_json::{Value, json};

    use super::*;
    use crate::api::crd::Definition;
    use crate::api::versions::Conversion;

    fn definition(change: impl FnOnce(&mut Value)) -> BTreeMap<String, Definition> {
        let mut value = json!({ "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "gadgets", "kind": "Gadget", "shortNames": ["gd"] },
            "versions": [
                { "name": "v1", "served": true, "storage": true },
                { "name": "v2beta1", "served": true, "storage": false },
                { "name": "v2", "served": true, "storage": false },
            ],
        }, "status": { "storedVersions": ["v1"] } });
        change(&mut value);
        let read = Definition::parse(value.to_string().as_bytes()).expect("well formed").expect("served");
        BTreeMap::from([(format!("{}.{}", read.plural, read.group), read)])
    }

    /// A registry with its schema.
    struct World {
        registry: Registry,
        schema: Schema,
    }

    impl World {
        fn new() -> Self {
            let registry = Registry::builtin();
            Self { schema: registry.schema(), registry }
        }

        fn define(&mut self, definitions: &BTreeMap<String, Definition>) -> Defined {
            self.registry.define(definitions, |row| self.schema.grow(row))
        }

        fn row(&self, version: &str) -> Option<ResourceId> {
            self.registry.find("example.com", version, "gadgets").map(|view| view.row)
        }

        fn view(&self, version: &str) -> ViewId {
            self.registry.find("example.com", version, "gadgets").expect("served").view
        }
    }

    #[test]
    fn versions_are_served_over_one_row_and_change_alone() {
        let mut world = World::new();
        let before = (world.registry.len(), world.schema.len());
        let defined = world.define(&definition(|_| {}));
        let row = world.row("v1").expect("served");
        assert_eq!(
            (defined.added, defined.dropped, defined.changed, defined.refused),
            (vec![row], vec![], true, vec![])
        );
        assert_eq!((world.registry.len(), world.schema.len()), (before.0 + 3, before.1 + 1));
        let versions: Vec<&str> = world.registry.iter().skip(before.0).map(|view| &*view.version).collect();
        assert_eq!(versions, ["v2", "v1", "v2beta1"], "the most stable first");
        let conversion = |version: &str| world.registry.view(world.view(version)).expect("a view").conversion;
        assert!(
            matches!(conversion("v1"), Conversion::Kept) && matches!(conversion("v2"), Conversion::Renamed)
        );
        assert_eq!(world.registry.get(row).expect("a row").etcd_folder(), "example.com/gadgets");

        // The same again: nothing changes.
        assert_eq!(world.define(&definition(|_| {})), Defined::default());
        // A column of one version: the others stay.
        let (first, second) = (world.view("v1"), world.view("v2"));
        let columns = json!([{ "name": "Color", "type": "string", "jsonPath": ".spec.color" }]);
        let changed =
            world.define(&definition(|it| it["spec"]["versions"][0]["additionalPrinterColumns"] = columns));
        assert!(changed.changed && changed.added.is_empty() && changed.dropped.is_empty(), "{changed:?}");
        assert!(world.view("v1") != first && world.view("v2") == second && world.row("v1") == Some(row));
        assert!(world.registry.view(first).expect("its index stays").retired);
        // A version goes.
        world.define(&definition(|it| it["spec"]["versions"][2]["served"] = false.into()));
        assert!(world.row("v2").is_none() && world.registry.view(second).expect("its index stays").retired);
        assert_eq!(world.registry.len(), before.0 + 2);
    }

    #[test]
    fn another_row_where_objects_are_read_in_another_way() {
        let changes: [fn(&mut Value); 4] = [
            |it| it["spec"]["versions"][0]["selectableFields"] = json!([{ "jsonPath": ".spec.color" }]),
            |it| it["spec"]["scope"] = "Cluster".into(),
            |it| it["spec"]["names"]["kind"] = "Widget".into(),
            |it| {
                it["spec"]["versions"][0]["storage"] = false.into();
                it["spec"]["versions"][2]["storage"] = true.into();
            },
        ];
        for change in changes {
            let mut world = World::new();
            world.define(&definition(|_| {}));
            let row = world.row("v1").expect("served");
            let defined = world.define(&definition(change));
            let new = world.row("v1").expect("served");
            assert_eq!((defined.added, defined.dropped), (vec![new], vec![row]));
            assert!(new != row && world.registry.get(row).expect("its number stays").retired);
        }
    }

    #[test]
    fn a_definition_goes_and_comes_again() {
        let mut world = World::new();
        world.define(&definition(|_| {}));
        let (row, listed) = (world.row("v1").expect("served"), world.registry.len());
        let defined = world.define(&BTreeMap::new());
        assert_eq!((defined.dropped, defined.changed), (vec![row], true));
        assert!(world.row("v1").is_none() && !world.registry.has_group("example.com"));
        world.define(&definition(|_| {}));
        assert!(world.row("v1").is_some_and(|again| again != row) && world.registry.len() == listed);
    }

    #[test]
    fn what_is_served_already_is_not_taken_over() {
        let mut world = World::new();
        world.registry.declare("example.com/v1/gadgets/Gadget/namespaced").expect("a good declaration");
        world.schema = world.registry.schema();
        let row = world.row("v1");
        let defined = world.define(&definition(|_| {}));
        assert!(!defined.changed && defined.refused.len() == 1, "{defined:?}");
        assert_eq!((world.row("v1"), world.row("v2")), (row, None));
        // A webhook: only what is stored in a version is shown in it.
        let mut world = World::new();
        world.define(&definition(|it| {
            it["spec"]["conversion"] = json!({ "strategy": "Webhook" });
            it["status"]["storedVersions"] = json!(["v1", "v2"]);
        }));
        let view = world.registry.view(world.view("v2")).expect("a view");
        let object = |version: &str| {
            format!("{{\"apiVersion\":\"example.com/{version}\",\"kind\":\"Gadget\"}}").into_bytes()
        };
        assert_eq!(view.show(object("v2").into()).expect("its own").as_ref(), object("v2"));
        assert!(view.show(object("v1").into()).expect_err("another").contains("webhook"));
    }
}
