//! Resources that CustomResourceDefinitions define, while they are served.
//!
//! It owns what changes in a [`Registry`] when definitions come, change and go. A row stays as long as its objects are read in
//! the same way: its folder, its scope, its selectable fields and the version
//! that they are kept in. A version stays as long as nothing that it shows changes;
//! otherwise it is retired and another one, with another index, takes its place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use revcast_engine::key::ResourceId;
use revcast_engine::resource::{Field, Resource};

use super::{ApiResource, RESOURCES_MAX, Refused, Registry, StoredResource, View, ViewId};
use crate::api::crd::{Definition, Version};
use crate::api::printer::Printer;
use crate::api::printer_columns::PrinterColumns;
use crate::api::versions::Conversion;

const TOO_MANY: &str = "there are too many resources, or were since the start: restart, or define fewer";

/// What a change of the definitions did to a registry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defined {
    /// Rows that are new: their objects are to be loaded.
    pub added: Vec<ResourceId>,
    /// Rows that are not served any more.
    pub dropped: Vec<ResourceId>,
    /// Whether anything that is served changed.
    pub changed: bool,
    /// Definitions of which something is not served, and what and why.
    pub refused: Vec<(String, String)>,
}

impl Registry {
    /// Brings what is served in line with these definitions, which have the names of their objects. `grow` adds a row to the
    /// engine's schema.
    pub fn define(
        &mut self,
        definitions: &BTreeMap<String, Definition>,
        mut grow: impl FnMut(Resource) -> ResourceId,
    ) -> Defined {
        let mut defined = Defined::default();
        let known: Vec<(ResourceId, String)> = self
            .rows
            .iter()
            .filter(|row| !row.retired)
            .filter_map(|row| Some((row.row, row.definition.clone()?)))
            .collect();
        let mut rows = BTreeMap::new();
        for (id, name) in known {
            let stays = definitions.get(&name).is_some_and(|of| self.rows[id.row()].holds(of));
            if stays {
                rows.insert(name, id);
            } else {
                self.retire_row(id);
                defined.dropped.push(id);
            }
        }
        for (name, definition) in definitions {
            let row = match rows.get(name) {
                Some(row) => *row,
                None => match self.add_row(name, definition, &mut grow) {
                    Ok(row) => {
                        defined.added.push(row);
                        row
                    }
                    Err(why) => {
                        defined.refused.push((name.clone(), why));
                        continue;
                    }
                },
            };
            let mut refused = Vec::new();
            defined.changed |= self.define_versions(row, definition, &mut refused);
            defined.refused.extend(refused.into_iter().map(|why| (name.clone(), why)));
        }
        defined.changed |= !(defined.added.is_empty() && defined.dropped.is_empty());
        if defined.changed {
            self.sort();
        }
        defined
    }

    fn add_row(
        &mut self,
        name: &str,
        of: &Definition,
        grow: &mut impl FnMut(Resource) -> ResourceId,
    ) -> Result<ResourceId, String> {
        let mut row = StoredResource::defined(name, of).ok_or("it has no storage version")?;
        let folder = row.etcd_folder();
        if self.rows.iter().any(|other| !other.retired && other.etcd_folder() == folder) {
            return Err("its resource is served already: it is built in, or declared".to_owned());
        }
        if self.rows.len() >= RESOURCES_MAX {
            return Err(TOO_MANY.to_owned());
        }
        row.row = grow(row.in_schema());
        let id = row.row;
        debug_assert_eq!(id.row(), self.rows.len(), "only one registry grows the schema");
        self.rows.push(row);
        Ok(id)
    }

    /// Brings the versions of a row in line with its definition. True when any changed.
    fn define_versions(&mut self, row: ResourceId, of: &Definition, refused: &mut Vec<String>) -> bool {
        let mut changed = false;
        let wanted: Vec<(&Version, String)> =
            of.versions.iter().filter(|version| version.served).map(|it| (it, signature(of, it))).collect();
        let current: Vec<ViewId> = self.iter().filter(|view| view.row == row).map(|view| view.view).collect();
        let mut stays = BTreeSet::new();
        for id in current {
            let signature = self.views[usize::from(id.index())].signature.clone();
            match wanted.iter().find(|(_, wanted)| signature.as_deref() == Some(wanted)) {
                Some((version, _)) => _ = stays.insert(version.name.clone()),
                None => {
                    self.retire(id);
                    changed = true;
                }
            }
        }
        for (version, signature) in wanted {
            if stays.contains(&version.name) {
                continue;
            }
            let view = View::defined(of, version);
            match self.insert_view(row, view) {
                Ok(()) => {
                    let view = self.views.last_mut().expect("it was added");
                    view.singular.clone_from(&of.singular);
                    view.list_kind.clone_from(&of.list_kind);
                    view.kind.clone_from(&of.kind);
                    view.conversion = conversion(of, version);
                    view.signature = Some(signature);
                    let (columns, invalid) = PrinterColumns::new(&version.columns);
                    view.columns = Some(Arc::new(columns));
                    refused.extend(invalid.map(|invalid| format!("version {}: {invalid}", version.name)));
                    changed = true;
                }
                Err(Refused::Duplicate) => {
                    refused.push(format!("version {} of these names is served already", version.name));
                }
                Err(Refused::TooMany) => refused.push(TOO_MANY.to_owned()),
            }
        }
        changed
    }

    fn retire_row(&mut self, row: ResourceId) {
        self.rows[row.row()].retired = true;
        let views: Vec<ViewId> = self.iter().filter(|view| view.row == row).map(|view| view.view).collect();
        views.into_iter().for_each(|view| self.retire(view));
    }

    /// A version is not served any more; its index is never used again.
    fn retire(&mut self, view: ViewId) {
        self.views[usize::from(view.index())].retired = true;
        self.by_name.retain(|at| *at != view.index());
        self.order.retain(|at| *at != view.index());
    }

    /// Puts defined resources after the others, in the order in which kube-apiserver lists them: groups by name, the most
    /// stable version first.
    fn sort(&mut self) {
        let views = &self.views;
        let is_defined = |at: &u16| views[usize::from(*at)].signature.is_some();
        self.order.sort_by(|a, b| {
            let (is_a, is_b) = (is_defined(a), is_defined(b));
            if !(is_a && is_b) {
                return is_a.cmp(&is_b);
            }
            let (a, b) = (&views[usize::from(*a)], &views[usize::from(*b)]);
            let rank = |view: &ApiResource| rank(&view.version);
            (&a.group, rank(a), &a.version, &a.plural).cmp(&(&b.group, rank(b), &b.version, &b.plural))
        });
    }
}

/// How the objects of a row are shown in a version. Objects may be stored in any of the stored versions, each in the one that
/// it was written in.
fn conversion(of: &Definition, version: &Version) -> Conversion {
    match (of.stored.as_slice(), of.has_webhook) {
        ([only], _) if *only == version.name => Conversion::Kept,
        (_, true) => Conversion::AsStored,
        (_, false) => Conversion::Renamed,
    }
}

/// Everything that a version shows, as text that differs when it differs.
fn signature(of: &Definition, version: &Version) -> String {
    let Definition { group, plural, singular, kind, list_kind, short_names, categories, namespaced, .. } = of;
    let names = (group, plural, singular, kind, list_kind, short_names, categories, namespaced);
    format!("{names:?} {version:?} {:?}", conversion(of, version))
}

/// The order of versions (apimachinery `version.CompareKubeAwareVersionStrings`): `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`,
/// and then others by name. Smaller is first.
fn rank(version: &str) -> (u8, i64, i64) {
    const OTHER: (u8, i64, i64) = (3, 0, 0);
    let number = |text: &str| -> Option<i64> {
        let is_number =
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
        is_number.then(|| text.parse().ok()).flatten()
    };
    let Some(rest) = version.strip_prefix('v') else { return OTHER };
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, stage) = rest.split_at(end);
    let Some(major) = number(major) else { return OTHER };
    let stages = [("beta", 1), ("alpha", 2)];
    if stage.is_empty() {
        return (0, -major, 0);
    }
    let found = stages.iter().find_map(|(name, rank)| Some((*rank, number(stage.strip_prefix(name)?)?)));
    found.map_or(OTHER, |(rank, minor)| (rank, -major, -minor))
}

impl StoredResource {
    /// The objects of a defined resource.
    fn defined(name: &str, of: &Definition) -> Option<Self> {
        let storage = of.storage()?;
        let fields = fields(of).into_iter().map(Field::at).collect();
        Some(Self::of_definition(name, of, &storage.name, fields))
    }

    /// Whether the objects of a row are still those that a definition has, read in the same way.
    fn holds(&self, of: &Definition) -> bool {
        let labels: Vec<&str> = self.fields.iter().map(|field| field.label.as_str()).collect();
        // Bookmarks state the version that objects are kept in.
        let is_kept_in = of.storage().is_some_and(|storage| storage.name == self.version);
        is_kept_in
            && (self.group.as_str(), self.plural.as_str(), self.kind.as_str(), self.namespaced)
                == (of.group.as_str(), of.plural.as_str(), of.kind.as_str(), of.namespaced)
            && labels == fields(of)
    }
}

/// The selectable fields of all versions, each once.
fn fields(of: &Definition) -> Vec<&str> {
    let all = of.versions.iter().flat_map(|version| &version.selectable_fields);
    let mut fields = Vec::new();
    for field in all.map(|field| field.strip_prefix('.').unwrap_or(field)) {
        if !fields.contains(&field) && fields.len() < super::SELECTABLE_FIELDS_MAX {
            fields.push(field);
        }
    }
    fields
}

impl View {
    fn defined(of: &Definition, version: &Version) -> Self {
        Self {
            group: of.group.clone(),
            version: version.name.clone(),
            singular: of.singular.clone(),
            short_names: of.short_names.clone(),
            categories: of.categories.clone(),
            status: version.status,
            printer: Printer::Custom,
            listed: true,
            labels: None,
        }
    }
}
