//! Which resources are served, and their names.
//!
//! A [`Registry`] is made once at the start, from the built-in table and from the operator's declarations, and never
//! changes afterwards: discovery, the engine's schema and the store's names all come from it.

use std::fmt;
use std::time::Duration;

use revcast_engine::key::ResourceId;
use revcast_engine::message_type::SharedType;
use revcast_engine::resource::{Field, Resource, Schema};
use serde::Deserialize;

use super::builtin::{Row, TABLE};
use super::printer::Printer;
use super::protobuf::{Release, StoredType};

/// How long an event object lives by default (kube-apiserver's `--event-ttl`).
pub const EVENT_TTL: Duration = Duration::from_secs(3600);

/// Most resources of a registry.
pub const RESOURCES_MAX: usize = 4096;

/// Most selectable fields of its own that a resource has.
pub const SELECTABLE_FIELDS_MAX: usize = 64;

/// One resource that is served.
#[derive(Clone, Debug)]
pub struct ApiResource {
    /// `apps`; "" for the core group.
    pub group: String,
    /// `v1`.
    pub version: String,
    /// As in the URL: `configmaps`.
    pub plural: String,
    /// `configmap`.
    pub singular: String,
    /// `ConfigMap`.
    pub kind: String,
    /// `ConfigMapList`.
    pub list_kind: String,
    /// Whether its objects have namespaces.
    pub namespaced: bool,
    /// `cm`.
    pub short_names: Vec<String>,
    /// `all`.
    pub categories: Vec<String>,
    /// The subresources that are served: `status` or none.
    pub subresources: Vec<String>,
    /// Selectable fields beside `metadata.name` and `metadata.namespace`.
    pub fields: Vec<Field>,
    /// How long an object lives after its last write; `None`: until it is deleted.
    pub ttl: Option<Duration>,
    /// Its row in the engine's schema.
    pub row: ResourceId,
    /// How its objects are shown in tables.
    pub printer: Printer,
    storage_name: String,
    api_version: String,
}

impl ApiResource {
    /// `v1`, or `apps/v1`: as in an object's `apiVersion`.
    #[must_use]
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// Its name in the store: `v1/configmaps`, `apps/v1/deployments`.
    #[must_use]
    pub fn storage_name(&self) -> &str {
        &self.storage_name
    }

    /// Where Kubernetes stores its objects in etcd, below the prefix: `configmaps`, `services/specs`,
    /// `example.com/widgets`. Kubernetes' own groups are not part of it, with two exceptions; some of its oldest
    /// resources keep their original names (recording 21).
    #[must_use]
    pub fn etcd_folder(&self) -> String {
        let historic = match (self.printer == Printer::Custom, self.group.as_str(), self.plural.as_str()) {
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

    /// Whether `/status` is served.
    #[must_use]
    pub fn has_status(&self) -> bool {
        self.subresources.iter().any(|name| name == "status")
    }

    fn names(&self) -> (&str, &str, &str) {
        (&self.group, &self.version, &self.plural)
    }
}

/// Whether objects have namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// `/namespaces/NS/...`
    Namespaced,
    /// One set for the whole cluster.
    Cluster,
}

/// A declared resource, as in the config file. `--resource` sets the first five members.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Declaration {
    /// `example.com`; "" or `core` for the core group.
    #[serde(default)]
    pub group: String,
    /// `v1`.
    pub version: String,
    /// `widgets`.
    pub plural: String,
    /// `Widget`.
    pub kind: String,
    /// Namespaced or cluster.
    pub scope: Scope,
    /// `widget`; the kind in lower case when unset.
    #[serde(default)]
    pub singular: Option<String>,
    /// `wd`.
    #[serde(default)]
    pub short_names: Vec<String>,
    /// `all`.
    #[serde(default)]
    pub categories: Vec<String>,
    /// `spec.color` or `.spec.color`, as a CustomResourceDefinition writes them.
    #[serde(default)]
    pub selectable_fields: Vec<String>,
    /// Whether `/status` is served.
    #[serde(default)]
    pub status: bool,
    /// How long an object lives after its last write.
    #[serde(default)]
    pub ttl_seconds: Option<u64>,
}

impl Declaration {
    /// Parses the value of `--resource`: `GROUP/VERSION/PLURAL/KIND/namespaced|cluster`.
    ///
    /// # Errors
    /// When the value does not have five parts or the last is not a scope.
    pub fn parse(value: &str) -> Result<Self, DeclareError> {
        let shape = || DeclareError::Shape { value: value.to_owned() };
        let mut parts = value.split('/');
        let mut next = || parts.next().map(str::to_owned).ok_or_else(shape);
        let (group, version, plural, kind, scope) = (next()?, next()?, next()?, next()?, next()?);
        let scope = match scope.as_str() {
            "namespaced" => Scope::Namespaced,
            "cluster" => Scope::Cluster,
            _ => return Err(shape()),
        };
        if parts.next().is_some() {
            return Err(shape());
        }
        Ok(Self {
            group,
            version,
            plural,
            kind,
            scope,
            singular: None,
            short_names: Vec::new(),
            categories: Vec::new(),
            selectable_fields: Vec::new(),
            status: false,
            ttl_seconds: None,
        })
    }

    /// The declaration in the form of `--resource`, for messages.
    fn value(&self) -> String {
        let scope = match self.scope {
            Scope::Namespaced => "namespaced",
            Scope::Cluster => "cluster",
        };
        format!("{}/{}/{}/{}/{scope}", self.group, self.version, self.plural, self.kind)
    }

    fn check(&self) -> Result<(), DeclareError> {
        let part = |part: &'static str, given: &str, mend: &'static str| DeclareError::Part {
            value: self.value(),
            part,
            given: given.to_owned(),
            mend,
        };
        if !self.group.is_empty() && (self.group.len() > 253 || !self.group.split('.').all(is_dns_label)) {
            return Err(part("group", &self.group, "use a DNS name such as example.com, or core"));
        }
        if !is_dns_label(&self.version) {
            return Err(part("version", &self.version, "use lower-case letters and digits, such as v1"));
        }
        // After these words the URL has another meaning: /watch/... and /namespaces/NS/...
        let taken = self.plural == "watch" || (self.plural == "namespaces" && !self.group.is_empty());
        if !is_dns_label(&self.plural) || taken {
            return Err(part("plural", &self.plural, "use a lower-case word such as widgets"));
        }
        let kind_ok = self.kind.len() <= 63
            && self.kind.starts_with(|c: char| c.is_ascii_alphabetic())
            && self.kind.bytes().all(|b| b.is_ascii_alphanumeric());
        if !kind_ok {
            return Err(part("kind", &self.kind, "use a word in CamelCase such as Widget"));
        }
        let names = self.singular.iter().chain(&self.short_names).chain(&self.categories);
        for name in names {
            if !is_dns_label(name) {
                return Err(part("name", name, "use lower-case letters, digits and dashes"));
            }
        }
        if self.selectable_fields.len() > SELECTABLE_FIELDS_MAX {
            return Err(part("selectableFields", "too many of them", "declare at most 64"));
        }
        for field in &self.selectable_fields {
            let path = field.strip_prefix('.').unwrap_or(field);
            let segments_ok = path.split('.').all(|s| {
                !s.is_empty() && s.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
            });
            if !segments_ok || path.starts_with("metadata.") {
                return Err(part(
                    "selectable field",
                    field,
                    "use a path outside metadata such as spec.color",
                ));
            }
        }
        Ok(())
    }
}

/// Why a declared resource is refused. The text is one line with the value and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeclareError {
    /// Not five parts, or an unknown scope.
    Shape {
        /// The value.
        value: String,
    },
    /// One part is invalid.
    Part {
        /// The whole declaration.
        value: String,
        /// Which part.
        part: &'static str,
        /// Its value.
        given: String,
        /// What is expected.
        mend: &'static str,
    },
    /// The group, version and plural are served already.
    Duplicate {
        /// The whole declaration.
        value: String,
    },
    /// More than [`RESOURCES_MAX`].
    TooMany {
        /// The first one beyond the limit.
        value: String,
    },
}

impl fmt::Display for DeclareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape { value } => write!(
                f,
                "resource {value:?}: write GROUP/VERSION/PLURAL/KIND/namespaced or .../cluster, \
                 for example example.com/v1/widgets/Widget/namespaced"
            ),
            Self::Part { value, part, given, mend } => {
                write!(f, "resource {value:?}: {part} {given:?} is not valid: {mend}")
            }
            Self::Duplicate { value } => {
                write!(
                    f,
                    "resource {value:?}: its group, version and plural are served already: remove one of the two"
                )
            }
            Self::TooMany { value } => {
                write!(f, "resource {value:?}: more than {RESOURCES_MAX} resources: declare fewer")
            }
        }
    }
}

impl std::error::Error for DeclareError {}

/// All resources that are served, in the order in which discovery lists their groups.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    resources: Vec<ApiResource>,
    /// Indices into `resources`, ordered by group, version and plural.
    by_name: Vec<u16>,
    release: Release,
}

impl Registry {
    /// Without resources.
    #[must_use]
    pub const fn new() -> Self {
        Self { resources: Vec::new(), by_name: Vec::new(), release: Release::DEFAULT }
    }

    /// Kubernetes' usual resources; events live for [`EVENT_TTL`].
    ///
    /// # Panics
    /// When the built-in table names a resource twice, which a test excludes.
    #[must_use]
    pub fn builtin() -> Self {
        let mut registry = Self::new();
        for row in TABLE {
            registry.insert(from_row(row)).expect("the built-in table names a resource once");
        }
        registry.set_event_ttl(Some(EVENT_TTL));
        registry
    }

    /// Adds the resource that a `--resource` value declares.
    ///
    /// # Errors
    /// When the value does not parse or the resource exists.
    pub fn declare(&mut self, value: &str) -> Result<ResourceId, DeclareError> {
        self.add(&Declaration::parse(value)?)
    }

    /// Adds the resource that the config file declares.
    ///
    /// # Errors
    /// When a part of it is not valid or the resource exists.
    pub fn add(&mut self, declaration: &Declaration) -> Result<ResourceId, DeclareError> {
        let mut given = declaration.clone();
        if given.group == "core" {
            given.group.clear();
        }
        given.check()?;
        let value = given.value();
        let fields = given.selectable_fields.iter().map(|f| Field::at(f.strip_prefix('.').unwrap_or(f)));
        let resource = ApiResource {
            api_version: api_version(&given.group, &given.version),
            storage_name: format!("{}/{}", api_version(&given.group, &given.version), given.plural),
            singular: given.singular.unwrap_or_else(|| given.kind.to_ascii_lowercase()),
            list_kind: format!("{}List", given.kind),
            namespaced: given.scope == Scope::Namespaced,
            subresources: if given.status { vec!["status".to_owned()] } else { Vec::new() },
            fields: fields.collect(),
            ttl: given.ttl_seconds.map(Duration::from_secs),
            row: ResourceId::new(0),
            printer: Printer::Custom,
            group: given.group,
            version: given.version,
            plural: given.plural,
            kind: given.kind,
            short_names: given.short_names,
            categories: given.categories,
        };
        self.insert(resource).map_err(|refused| match refused {
            Refused::Duplicate => DeclareError::Duplicate { value },
            Refused::TooMany => DeclareError::TooMany { value },
        })
    }

    /// Sets the release of Kubernetes whose API types its resources have.
    pub const fn set_release(&mut self, release: Release) {
        self.release = release;
    }

    /// The release of Kubernetes whose API types its resources have.
    #[must_use]
    pub const fn release(&self) -> Release {
        self.release
    }

    /// Sets how long objects of core events live.
    pub fn set_event_ttl(&mut self, ttl: Option<Duration>) {
        for resource in &mut self.resources {
            if resource.names() == ("", "v1", "events") {
                resource.ttl = ttl;
            }
        }
    }

    /// The resource that a URL names. No allocation, one binary search.
    #[must_use]
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&ApiResource> {
        let at = self.place(group, version, plural).ok()?;
        self.resources.get(usize::from(self.by_name[at]))
    }

    /// The resource in row `id` of the schema.
    #[must_use]
    pub fn get(&self, id: ResourceId) -> Option<&ApiResource> {
        self.resources.get(id.row())
    }

    /// Whether any resource of `group` is served.
    #[must_use]
    pub fn has_group(&self, group: &str) -> bool {
        self.resources.iter().any(|resource| resource.group == group)
    }

    /// All resources, by row.
    pub fn iter(&self) -> impl Iterator<Item = &ApiResource> {
        self.resources.iter()
    }

    /// Number of resources.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.resources.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// The engine's schema; rows are those of [`ApiResource::row`].
    #[must_use]
    pub fn schema(&self) -> Schema {
        let mut schema = Schema::new();
        for resource in &self.resources {
            let fields = resource.fields.clone();
            let row = Resource::new(&resource.api_version, &resource.kind, resource.namespaced, fields);
            let mut row = row.with_plural(&resource.plural);
            if resource.printer == Printer::Custom {
                row = row.listing_fields();
            } else if let Some(of) =
                StoredType::new(self.release, &resource.api_version, &resource.kind, row.fields())
            {
                row = row.with_message(SharedType::new(of));
            }
            let row = schema.add(row);
            debug_assert_eq!(row, resource.row);
        }
        schema
    }

    fn place(&self, group: &str, version: &str, plural: &str) -> Result<usize, usize> {
        self.by_name
            .binary_search_by(|at| self.resources[usize::from(*at)].names().cmp(&(group, version, plural)))
    }

    fn insert(&mut self, mut resource: ApiResource) -> Result<ResourceId, Refused> {
        let Err(place) = self.place(&resource.group, &resource.version, &resource.plural) else {
            return Err(Refused::Duplicate);
        };
        if self.resources.len() >= RESOURCES_MAX {
            return Err(Refused::TooMany);
        }
        let row = u16::try_from(self.resources.len()).map_err(|_| Refused::TooMany)?;
        resource.row = ResourceId::new(row);
        self.resources.push(resource);
        self.by_name.insert(place, row);
        Ok(ResourceId::new(row))
    }
}

/// Why `insert` refused.
#[derive(Debug)]
enum Refused {
    Duplicate,
    TooMany,
}

fn from_row(row: &Row) -> ApiResource {
    let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    ApiResource {
        group: row.group.to_owned(),
        version: row.version.to_owned(),
        plural: row.plural.to_owned(),
        singular: row.kind.to_ascii_lowercase(),
        kind: row.kind.to_owned(),
        list_kind: format!("{}List", row.kind),
        namespaced: row.namespaced,
        short_names: own(row.short_names),
        categories: own(row.categories),
        subresources: if row.status { vec!["status".to_owned()] } else { Vec::new() },
        fields: row.fields.iter().map(|field| parse_field(field)).collect(),
        ttl: None,
        row: ResourceId::new(0),
        printer: Printer::builtin(row.group, row.plural),
        storage_name: format!("{}/{}", api_version(row.group, row.version), row.plural),
        api_version: api_version(row.group, row.version),
    }
}

/// `label`, `label=path`, `label=path|other`, or `label=` (always empty); with `:value` after those.
fn parse_field(text: &str) -> Field {
    let (place, absent) = text.split_once(':').unwrap_or((text, ""));
    let field = match place.split_once('=') {
        None => Field::at(place),
        Some((label, "")) => Field::empty(label),
        Some((label, path)) => match path.split_once('|') {
            None => Field::alias(label, path),
            Some((path, otherwise)) => Field::alias(label, path).or(otherwise),
        },
    };
    field.or_value(absent)
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// RFC 1123: letters, digits and dashes, no dash at an end, at most 63 bytes; and no upper case.
fn is_dns_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtin_resources_are_found_by_name_and_row() {
        let registry = Registry::builtin();
        let schema = registry.schema();
        assert_eq!(schema.len(), registry.len());
        for resource in registry.iter() {
            let found = registry.find(&resource.group, &resource.version, &resource.plural);
            assert_eq!(found.map(|r| r.row), Some(resource.row), "{}", resource.plural);
            assert_eq!(registry.get(resource.row).map(|r| &r.kind), Some(&resource.kind));
            let row = schema.get(resource.row);
            assert_eq!(
                (row.api_version.as_str(), row.namespaced),
                (resource.api_version(), resource.namespaced)
            );
        }
        assert!(registry.find("apps", "v1", "configmaps").is_none());
        assert!(registry.find("", "v1", "configmap").is_none());
        assert!(registry.has_group("apps") && !registry.has_group("events.k8s.io"));
    }

    #[test]
    fn names_in_the_store_and_fields_are_those_of_kubernetes() {
        let registry = Registry::builtin();
        let get = |group, plural| registry.find(group, "v1", plural).expect("a built-in resource");
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
        assert_eq!(registry.find("", "v1", "events").and_then(|r| r.ttl), Some(Duration::from_secs(60)));
        assert_eq!(registry.iter().filter(|r| r.ttl.is_some()).count(), 1);
    }

    #[test]
    fn a_declared_resource_is_served_like_the_others() {
        let mut registry = Registry::builtin();
        let before = registry.len();
        let id = registry.declare("example.com/v1/widgets/Widget/namespaced").expect("a good value");
        assert_eq!(id.row(), before);
        let widget = registry.find("example.com", "v1", "widgets").expect("declared just now");
        assert_eq!((widget.singular.as_str(), widget.list_kind.as_str()), ("widget", "WidgetList"));
        assert_eq!(widget.storage_name(), "example.com/v1/widgets");
        assert_eq!(widget.etcd_folder(), "example.com/widgets");
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
        let widget = registry.get(id).expect("added just now");
        assert_eq!((widget.short_names[0].as_str(), widget.has_status()), ("wd", true));
        assert_eq!(widget.ttl, Some(Duration::from_secs(5)));
        assert!(registry.schema().get(id).field("spec.color").is_some());
        assert!(toml::from_str::<Declaration>(&format!("{text}\nshortnames = []")).is_err());
        for bad in ["spec..x", "metadata.name", "", "spec.a[0]"] {
            let mut declaration: Declaration = toml::from_str(text).expect("the form of the config file");
            declaration.selectable_fields = vec![bad.to_owned()];
            assert!(Registry::new().add(&declaration).is_err(), "{bad}");
        }
    }
}
