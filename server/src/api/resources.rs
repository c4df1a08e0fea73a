//! Which resources are served, and their names.
//!
//! A [`Registry`] has two tables. A [`StoredResource`] is a row of the engine's schema: one set of objects, kept in one
//! version. An [`ApiResource`] is one version of them as clients see it: its paths, its names, and how the kept objects are
//! brought to it. Several versions share a row. An index into either table is never given to another entry: encodings
//! and keys name entries by their index.

mod declaration;
mod defined;
mod stored;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use revcast_engine::key::ResourceId;
use revcast_engine::resource::{Field, Resource, Schema};

pub use self::declaration::{Declaration, DeclareError, Scope};
pub use self::defined::Defined;
pub use self::stored::StoredResource;
use super::builtin::{Row, TABLE};
pub use super::crd::SELECTABLE_FIELDS_MAX;
use super::printer::Printer;
use super::printer_columns::PrinterColumns;
use super::protobuf::{self, Release};
use super::versions::{Conversion, Type};

/// How long an event object lives by default (kube-apiserver's `--event-ttl`).
pub const EVENT_TTL: Duration = Duration::from_secs(3600);

/// Most resources of a registry.
pub const RESOURCES_MAX: usize = 4096;

/// The index of an [`ApiResource`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ViewId(u16);

impl ViewId {
    /// The one with this index.
    #[must_use]
    pub const fn new(index: u16) -> Self {
        Self(index)
    }

    /// The index.
    #[must_use]
    pub const fn index(self) -> u16 {
        self.0
    }
}

/// One version of a resource that is served.
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
    /// Whether discovery and the OpenAPI documents have it. What is not in them is served all the same.
    pub listed: bool,
    /// Its index.
    pub view: ViewId,
    /// The row of its objects in the engine's schema.
    pub row: ResourceId,
    /// How the objects of the row are brought to this version.
    pub conversion: Conversion,
    /// How its objects are shown in tables.
    pub printer: Printer,
    /// The columns that a CustomResourceDefinition gives it, instead of those of `printer`.
    pub columns: Option<Arc<PrinterColumns>>,
    /// Whether it is not served any more. Watches that began before may still name it.
    pub retired: bool,
    /// Everything that it shows, if a definition in the store defines it.
    signature: Option<String>,
    /// The release of Kubernetes whose types its objects have.
    release: Release,
    api_version: String,
    selectable: Resource,
}

impl ApiResource {
    /// `v1`, or `apps/v1`: as in an object's `apiVersion`.
    #[must_use]
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// The row as the clients of this version select from it: its fields have the labels of this version, and the indices
    /// of the row.
    #[must_use]
    pub const fn selectable(&self) -> &Resource {
        &self.selectable
    }

    /// Selectable fields beside `metadata.name` and `metadata.namespace`.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.selectable.fields()[1 + usize::from(self.namespaced)..]
    }

    /// The type of its objects.
    #[must_use]
    pub fn shown_type(&self) -> Type<'_> {
        Type { api_version: &self.api_version, kind: &self.kind, release: self.release }
    }

    /// Whether its objects have the members that are kept: they differ from those in `apiVersion` at most.
    #[must_use]
    pub const fn has_kept_members(&self) -> bool {
        !self.conversion.can_fail()
    }

    /// An object of its row, in JSON, as this version shows it.
    ///
    /// # Errors
    /// Why this version cannot show it.
    pub fn show<'k>(&self, kept: Cow<'k, [u8]>) -> Result<Cow<'k, [u8]>, String> {
        self.conversion.json(self.shown_type(), kept)
    }

    /// An object of its row in protobuf, in its envelope, as this version shows it: of its protobuf if it is kept in that,
    /// otherwise of its JSON.
    ///
    /// # Errors
    /// Why it has no such form.
    pub fn pack<'k>(
        &self,
        kept: Option<&'k [u8]>,
        json: impl FnOnce() -> Cow<'k, [u8]>,
    ) -> Result<Cow<'k, [u8]>, String> {
        match (self.conversion, kept) {
            (Conversion::Kept | Conversion::Renamed, Some(kept)) => {
                self.conversion.protobuf(self.shown_type(), Cow::Borrowed(kept))
            }
            _ => protobuf::encode(self.release, &self.show(json())?)
                .map(Cow::Owned)
                .map_err(|error| error.to_string()),
        }
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

/// All resources that are served, in the order in which discovery lists their groups.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    rows: Vec<StoredResource>,
    views: Vec<ApiResource>,
    /// Indices into `views` of those that are served, ordered by group, version and plural.
    by_name: Vec<u16>,
    /// The same in the order in which discovery lists them.
    order: Vec<u16>,
    release: Release,
}

impl Registry {
    /// Without resources.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            rows: Vec::new(),
            views: Vec::new(),
            by_name: Vec::new(),
            order: Vec::new(),
            release: Release::DEFAULT,
        }
    }

    /// The resources of the Kubernetes release whose types are written; events live for [`EVENT_TTL`].
    #[must_use]
    pub fn builtin() -> Self {
        Self::of_release(Release::DEFAULT)
    }

    /// The resources of a release of Kubernetes.
    ///
    /// # Panics
    /// When the built-in table names a resource twice, which a test excludes.
    #[must_use]
    pub fn of_release(release: Release) -> Self {
        let mut registry = Self { release, ..Self::new() };
        for row in TABLE {
            registry.insert_builtin(row).expect("the built-in table names a resource once");
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
        let given = declaration.checked()?;
        let value = given.value();
        let fields = given.selectable_fields.iter().map(|f| Field::at(f.strip_prefix('.').unwrap_or(f)));
        let stored = StoredResource::declared(&given, fields.collect());
        let view = View {
            singular: given.singular.unwrap_or_else(|| given.kind.to_ascii_lowercase()),
            short_names: given.short_names,
            categories: given.categories,
            status: given.status,
            printer: Printer::Custom,
            listed: true,
            labels: None,
            group: given.group,
            version: given.version,
        };
        self.insert(stored, view).map_err(|refused| match refused {
            Refused::Duplicate => DeclareError::Duplicate { value },
            Refused::TooMany => DeclareError::TooMany { value },
        })
    }

    /// The release of Kubernetes whose API types its resources have.
    #[must_use]
    pub const fn release(&self) -> Release {
        self.release
    }

    /// Sets how long objects of core events live.
    pub fn set_event_ttl(&mut self, ttl: Option<Duration>) {
        for row in &mut self.rows {
            if (row.group.as_str(), row.plural.as_str()) == ("", "events") {
                row.ttl = ttl;
            }
        }
    }

    /// The resource that a URL names. No allocation, one binary search.
    #[must_use]
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&ApiResource> {
        let at = self.place(group, version, plural).ok()?;
        self.views.get(usize::from(self.by_name[at]))
    }

    /// The row `id` of the schema.
    #[must_use]
    pub fn get(&self, id: ResourceId) -> Option<&StoredResource> {
        self.rows.get(id.row())
    }

    /// The version with this index.
    #[must_use]
    pub fn view(&self, id: ViewId) -> Option<&ApiResource> {
        self.views.get(usize::from(id.0))
    }

    /// Whether any resource of `group` is served.
    #[must_use]
    pub fn has_group(&self, group: &str) -> bool {
        self.iter().any(|resource| resource.group == group)
    }

    /// All versions of all resources that are served, in the order of discovery.
    pub fn iter(&self) -> impl Iterator<Item = &ApiResource> {
        self.order.iter().map(|at| &self.views[usize::from(*at)])
    }

    /// What is stored, by row.
    pub fn rows(&self) -> impl Iterator<Item = &StoredResource> {
        self.rows.iter()
    }

    /// Number of versions.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The engine's schema; rows are those of [`ApiResource::row`].
    #[must_use]
    pub fn schema(&self) -> Schema {
        let mut schema = Schema::new();
        for row in &self.rows {
            let added = schema.add(row.in_schema());
            debug_assert_eq!(added, row.row);
        }
        schema
    }

    fn place(&self, group: &str, version: &str, plural: &str) -> Result<usize, usize> {
        self.by_name
            .binary_search_by(|at| self.views[usize::from(*at)].names().cmp(&(group, version, plural)))
    }

    /// Adds what a release has of a built-in resource: its row, in the first version that the release has, and all versions.
    fn insert_builtin(&mut self, row: &Row) -> Result<(), Refused> {
        let versions: Vec<&str> = row.versions(self.release.minor()).collect();
        let Some((kept, others)) = versions.split_first() else { return Ok(()) };
        let view = |version: &str| View::builtin(row, version);
        let id = match row.stored_as {
            None => self.insert(StoredResource::builtin(self.release, row, kept), view(kept))?,
            Some((group, plural)) => {
                let stored = self.rows.iter().find(|row| row.group == group && row.plural == plural);
                let Some(id) = stored.map(|stored| stored.row) else { return Ok(()) };
                self.insert_view(id, view(kept))?;
                id
            }
        };
        others.iter().try_for_each(|version| self.insert_view(id, view(version)))
    }

    /// Adds a row and the version that it is kept in.
    fn insert(&mut self, mut stored: StoredResource, view: View) -> Result<ResourceId, Refused> {
        let row = u16::try_from(self.rows.len()).map_err(|_| Refused::TooMany)?;
        stored.row = ResourceId::new(row);
        let id = stored.row;
        self.rows.push(stored);
        if let Err(refused) = self.insert_view(id, view) {
            self.rows.pop();
            return Err(refused);
        }
        Ok(id)
    }

    /// Adds a version of the objects of a row.
    fn insert_view(&mut self, row: ResourceId, view: View) -> Result<(), Refused> {
        let stored = self.rows.get(row.row()).ok_or(Refused::TooMany)?;
        let Err(place) = self.place(&view.group, &view.version, &stored.plural) else {
            return Err(Refused::Duplicate);
        };
        if self.views.len() >= RESOURCES_MAX {
            return Err(Refused::TooMany);
        }
        let index = u16::try_from(self.views.len()).map_err(|_| Refused::TooMany)?;
        let api_version = api_version(&view.group, &view.version);
        let fields = view.labels.unwrap_or_else(|| stored.fields.clone());
        let mut selectable = Resource::new(&api_version, &stored.kind, stored.namespaced, fields);
        if stored.declared {
            selectable = selectable.listing_fields();
        }
        let resource = ApiResource {
            singular: view.singular,
            kind: stored.kind.clone(),
            list_kind: format!("{}List", stored.kind),
            plural: stored.plural.clone(),
            namespaced: stored.namespaced,
            subresources: if view.status { vec!["status".to_owned()] } else { Vec::new() },
            listed: view.listed,
            view: ViewId(index),
            row,
            conversion: stored.conversion(&api_version),
            printer: view.printer,
            columns: None,
            retired: false,
            signature: None,
            release: self.release,
            selectable: selectable.with_plural(&stored.plural),
            api_version,
            group: view.group,
            version: view.version,
            short_names: view.short_names,
            categories: view.categories,
        };
        self.views.push(resource);
        self.by_name.insert(place, index);
        self.order.push(index);
        Ok(())
    }
}

/// What a version has besides what its row says.
#[derive(Debug)]
struct View {
    group: String,
    version: String,
    singular: String,
    short_names: Vec<String>,
    categories: Vec<String>,
    status: bool,
    printer: Printer,
    listed: bool,
    /// The row's fields under the names of this version; `None`: as the row has them.
    labels: Option<Vec<Field>>,
}

impl View {
    fn builtin(row: &Row, version: &str) -> Self {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        // Tables show what is kept.
        let (group, plural) = row.stored_as.unwrap_or((row.group, row.plural));
        Self {
            group: row.group.to_owned(),
            version: version.to_owned(),
            singular: row.kind.to_ascii_lowercase(),
            short_names: own(row.short_names),
            categories: own(row.categories),
            status: row.status,
            printer: Printer::builtin(group, plural),
            // kube-apiserver serves versions that may change on request only (its `--runtime-config`).
            listed: !version.contains("alpha") && !version.contains("beta"),
            labels: row.stored_as.map(|_| row.fields.iter().map(|field| parse_field(field)).collect()),
        }
    }
}

/// Why `insert` refused.
#[derive(Debug)]
enum Refused {
    Duplicate,
    TooMany,
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
