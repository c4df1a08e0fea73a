//! What a CustomResourceDefinition says of the resource that it defines.
//!
//! It owns the reading of a stored definition, in the form of `apiextensions.k8s.io/v1beta1`, which kube-apiserver stores,
//! and of `v1`: where all versions agree the older form says so once, beside the versions. It does not know whether the
//! resource is served already.

use serde::Deserialize;
use serde_json::Value;

use super::dns_label::is_dns_label;

/// Most selectable fields of its own that a resource has.
pub const SELECTABLE_FIELDS_MAX: usize = 64;

/// A defined resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// `example.com`.
    pub group: String,
    /// `widgets`.
    pub plural: String,
    /// `widget`.
    pub singular: String,
    /// `Widget`.
    pub kind: String,
    /// `WidgetList`.
    pub list_kind: String,
    /// `wd`.
    pub short_names: Vec<String>,
    /// `all`.
    pub categories: Vec<String>,
    /// Whether its objects have namespaces.
    pub namespaced: bool,
    /// All versions, served or not, in their order.
    pub versions: Vec<Version>,
    /// The versions in which objects may be stored.
    pub stored: Vec<String>,
    /// Whether a webhook converts between versions.
    pub has_webhook: bool,
}

/// One version of a defined resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// `v1`.
    pub name: String,
    /// Whether it is served.
    pub served: bool,
    /// Whether objects are stored in it.
    pub storage: bool,
    /// Whether it has `/status`.
    pub status: bool,
    /// Whether it has `/scale`.
    pub scale: bool,
    /// The paths of its selectable fields: `.spec.color`.
    pub selectable_fields: Vec<String>,
    /// Its `additionalPrinterColumns`.
    pub columns: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    spec: Spec,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    group: String,
    /// Of the older form, when there are no versions.
    #[serde(default)]
    version: Option<String>,
    #[serde(default)]
    names: Names,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    versions: Option<Vec<SpecVersion>>,
    #[serde(default)]
    conversion: Option<Conversion>,
    #[serde(flatten)]
    common: Common,
}

/// What the older form has once for all versions, and both have in a version.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Common {
    #[serde(default)]
    subresources: Option<Subresources>,
    #[serde(default)]
    selectable_fields: Option<Vec<SelectableField>>,
    #[serde(default)]
    additional_printer_columns: Option<Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecVersion {
    name: String,
    #[serde(default)]
    served: bool,
    #[serde(default)]
    storage: bool,
    #[serde(flatten)]
    own: Common,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Names {
    plural: String,
    singular: String,
    kind: String,
    list_kind: String,
    short_names: Option<Vec<String>>,
    categories: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Conversion {
    #[serde(default)]
    strategy: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Subresources {
    status: Option<serde::de::IgnoredAny>,
    scale: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SelectableField {
    #[serde(alias = "JSONPath")]
    json_path: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    conditions: Option<Vec<Condition>>,
    accepted_names: Names,
    stored_versions: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    status: String,
}

impl Definition {
    /// Reads a stored definition. `None`: its names are not accepted, or it is not established: nothing is served.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(json: &[u8]) -> Result<Option<Self>, String> {
        let Stored { spec, status } = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let status = status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let is_false = |kind: &str| conditions.iter().any(|it| it.kind == kind && it.status != "True");
        if is_false("Established") {
            return Ok(None);
        }
        let accepted = !status.accepted_names.plural.is_empty();
        let names = if accepted { status.accepted_names } else { spec.names };
        let listed = spec.versions.unwrap_or_default();
        let mut versions = Vec::with_capacity(listed.len().max(1));
        for version in &listed {
            versions.push(version.read(&spec.common)?);
        }
        if let (true, Some(name)) = (versions.is_empty(), spec.version) {
            let only = SpecVersion { name, served: true, storage: true, own: Common::default() };
            versions.push(only.read(&spec.common)?);
        }
        let stored = status.stored_versions.filter(|stored| !stored.is_empty());
        let storage =
            || versions.iter().filter(|version| version.storage).map(|version| version.name.clone());
        let stored = stored.unwrap_or_else(|| storage().collect());
        let singular =
            if names.singular.is_empty() { names.kind.to_ascii_lowercase() } else { names.singular };
        let list_kind =
            if names.list_kind.is_empty() { format!("{}List", names.kind) } else { names.list_kind };
        let definition = Self {
            group: spec.group,
            plural: names.plural,
            singular,
            list_kind,
            kind: names.kind,
            short_names: names.short_names.unwrap_or_default(),
            categories: names.categories.unwrap_or_default(),
            namespaced: match spec.scope.as_str() {
                "Namespaced" => true,
                "Cluster" => false,
                other => return Err(format!("spec.scope is {other:?}: it must be Namespaced or Cluster")),
            },
            versions,
            stored,
            has_webhook: spec.conversion.is_some_and(|conversion| conversion.strategy == "Webhook"),
        };
        definition.check()?;
        Ok(Some(definition))
    }

    /// The version in which objects are stored.
    #[must_use]
    pub fn storage(&self) -> Option<&Version> {
        self.versions.iter().find(|version| version.storage)
    }

    /// Names that cannot stand in a URL or a key are refused. kube-apiserver checks more; it made the object.
    fn check(&self) -> Result<(), String> {
        let group_ok =
            self.group.len() <= 253 && self.group.contains('.') && self.group.split('.').all(is_dns_label);
        let names = [&self.plural, &self.singular].into_iter().chain(self.versions.iter().map(|it| &it.name));
        let kind_ok = |kind: &str| {
            kind.len() <= 63
                && kind.starts_with(|c: char| c.is_ascii_alphabetic())
                && kind.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        if !group_ok {
            return Err(format!("spec.group is {:?}: it must be a DNS name such as example.com", self.group));
        }
        if let Some(bad) = names.into_iter().find(|name| !is_dns_label(name)) {
            return Err(format!("{bad:?} is not a DNS label"));
        }
        if let Some(bad) = [&self.kind, &self.list_kind].into_iter().find(|kind| !kind_ok(kind)) {
            return Err(format!("{bad:?} is not a kind"));
        }
        let only = self.short_names.iter().chain(&self.categories);
        if let Some(bad) = only.into_iter().find(|name| !is_dns_label(name)) {
            return Err(format!("{bad:?} is not a DNS label"));
        }
        if self.versions.iter().filter(|version| version.storage).count() != 1 {
            return Err("exactly one version must be the storage version".to_owned());
        }
        Ok(())
    }
}

impl SpecVersion {
    /// With what is common to all versions where it has nothing of its own.
    fn read(&self, common: &Common) -> Result<Version, String> {
        let subresources = self.own.subresources.as_ref().or(common.subresources.as_ref());
        let fields = self.own.selectable_fields.as_ref().or(common.selectable_fields.as_ref());
        let fields = fields.map_or(&[][..], Vec::as_slice);
        if fields.len() > SELECTABLE_FIELDS_MAX {
            return Err(format!("more than {SELECTABLE_FIELDS_MAX} selectable fields"));
        }
        let columns =
            self.own.additional_printer_columns.as_ref().or(common.additional_printer_columns.as_ref());
        Ok(Version {
            name: self.name.clone(),
            served: self.served,
            storage: self.storage,
            status: subresources.is_some_and(|it| it.status.is_some()),
            scale: subresources.is_some_and(|it| it.scale.is_some()),
            selectable_fields: fields.iter().map(|field| field.json_path.clone()).collect(),
            columns: columns.cloned().unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As kube-apiserver 1.36 stores it: recorded, but for columns, fields and metadata.
    fn stored() -> Value {
        json!({
            "kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1beta1",
            "metadata": { "name": "widgets.example.com" },
            "spec": {
                "group": "example.com", "version": "v1",
                "names": { "plural": "widgets", "singular": "widget", "shortNames": ["wd"], "kind": "Widget",
                           "listKind": "WidgetList", "categories": ["all"] },
                "scope": "Namespaced",
                "validation": { "openAPIV3Schema": { "type": "object" } },
                "subresources": { "status": {} },
                "versions": [{ "name": "v1", "served": true, "storage": true },
                             { "name": "v2", "served": true, "storage": false }],
                "additionalPrinterColumns": [{ "name": "Color", "type": "string", "JSONPath": ".spec.color" }],
                "selectableFields": [{ "jsonPath": ".spec.color" }],
                "conversion": { "strategy": "None" }, "preserveUnknownFields": false
            },
            "status": {
                "conditions": [{ "type": "NamesAccepted", "status": "True" },
                               { "type": "Established", "status": "True" }],
                "acceptedNames": { "plural": "widgets", "singular": "widget", "shortNames": ["wd"], "kind": "Widget",
                                   "listKind": "WidgetList", "categories": ["all"] },
                "storedVersions": ["v1"]
            }
        })
    }

    fn parse(value: &Value) -> Result<Option<Definition>, String> {
        Definition::parse(value.to_string().as_bytes())
    }

    #[test]
    fn what_is_common_holds_for_every_version() {
        let read = parse(&stored()).expect("it is well formed").expect("it is established");
        assert_eq!(
            (&*read.group, &*read.plural, &*read.kind, read.namespaced),
            ("example.com", "widgets", "Widget", true)
        );
        assert_eq!(
            (&read.short_names[..], &read.categories[..]),
            (&["wd".to_owned()][..], &["all".to_owned()][..])
        );
        assert_eq!((&read.stored[..], read.has_webhook), (&["v1".to_owned()][..], false));
        assert_eq!(read.storage().map(|version| &*version.name), Some("v1"));
        for version in &read.versions {
            assert!(version.served && version.status && !version.scale, "{version:?}");
            assert_eq!(version.selectable_fields, [".spec.color"]);
            assert_eq!(
                version.columns,
                [json!({ "name": "Color", "type": "string", "JSONPath": ".spec.color" })]
            );
        }
    }

    #[test]
    fn a_version_has_its_own() {
        let mut value = stored();
        value["apiVersion"] = "apiextensions.k8s.io/v1".into();
        let spec = value["spec"].as_object_mut().expect("an object");
        for common in
            ["version", "validation", "subresources", "additionalPrinterColumns", "selectableFields"]
        {
            spec.remove(common);
        }
        spec["versions"][0]["subresources"] = json!({ "scale": { "specReplicasPath": ".spec.replicas" } });
        spec["versions"][1]["additionalPrinterColumns"] =
            json!([{ "name": "Size", "type": "integer", "jsonPath": ".s" }]);
        spec["versions"][1]["served"] = false.into();
        spec["conversion"]["strategy"] = "Webhook".into();
        let read = parse(&value).expect("it is well formed").expect("it is established");
        let [first, second] = &read.versions[..] else { panic!("{read:?}") };
        assert_eq!((first.status, first.scale, first.columns.len(), first.served), (false, true, 0, true));
        assert!(second.columns[0]["jsonPath"] == ".s" && !second.served && !second.scale);
        assert!(read.has_webhook);
    }

    #[test]
    fn nothing_is_served_before_it_is_established() {
        let mut value = stored();
        value["status"]["conditions"][1]["status"] = "False".into();
        assert_eq!(parse(&value), Ok(None));
        // Its names were accepted under other ones.
        let mut value = stored();
        value["status"]["acceptedNames"]["shortNames"] = json!(null);
        assert_eq!(parse(&value).expect("well formed").expect("established").short_names, [""; 0]);
        // Nobody accepts names where there is no kube-apiserver.
        let mut value = stored();
        value.as_object_mut().expect("an object").remove("status");
        let read = parse(&value).expect("well formed").expect("served");
        assert_eq!((&*read.stored[0], &*read.list_kind), ("v1", "WidgetList"));
        // The oldest form names one version.
        value["spec"].as_object_mut().expect("an object").remove("versions");
        let read = parse(&value).expect("well formed").expect("served");
        assert!(read.versions.len() == 1 && read.versions[0].served && read.versions[0].storage);
    }

    #[test]
    fn what_cannot_be_served_is_refused_by_name() {
        for (path, bad, says) in [
            ("/spec/scope", json!("Galaxy"), "Galaxy"),
            ("/spec/group", json!("example"), "spec.group"),
            ("/spec/group", json!("a/b.com"), "spec.group"),
            ("/spec/versions/0/name", json!("V 1"), "V 1"),
            ("/spec/versions/0/storage", json!(false), "storage version"),
            ("/status/acceptedNames/plural", json!("../x"), "../x"),
            ("/status/acceptedNames/kind", json!("1\n"), "not a kind"),
            ("/status/acceptedNames/shortNames", json!(["\u{e9}"]), "DNS label"),
            ("/spec", json!("text"), "invalid type"),
        ] {
            let mut value = stored();
            *value.pointer_mut(path).expect(path) = bad;
            let refused = parse(&value).expect_err(path);
            assert!(refused.contains(says) && !refused.contains('\n'), "{path}: {refused}");
        }
        for text in ["", "null", "[]", "{}", "{\"spec\":{}}"] {
            assert!(Definition::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
