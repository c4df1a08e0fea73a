//! The resources that the cluster defines itself.
//!
//! Owns which CustomResourceDefinitions there are, and the registry that follows from them: it is ahead of the one that is
//! served until the objects of new resources are loaded. It reads values of definitions only, and never asks etcd.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use revcast_engine::change::Change;
use revcast_engine::key::ResourceId;

use super::layout::{Folder, Layout};
use crate::api::crd::Definition;
use crate::api::resources::Registry;
use crate::catalog::Catalogs;
use crate::log;

/// How long the objects of a resource are kept after it is not served any more: requests that began before still read them.
pub(super) const KEPT: Duration = Duration::from_secs(5);

/// What the cluster defines.
pub(super) struct Definitions {
    catalogs: Arc<Catalogs>,
    /// The row of the definitions.
    row: Option<ResourceId>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    registry: Registry,
    known: BTreeMap<String, Definition>,
    /// Rows whose objects are not loaded yet.
    unloaded: Vec<ResourceId>,
    /// Rows that are not served any more, or soon, and since when.
    dropped: Vec<(ResourceId, Instant)>,
    /// The warnings about each definition as it is.
    warned: HashMap<String, HashSet<String>>,
    /// Whether the registry is newer than what is served.
    is_ahead: bool,
}

impl Definitions {
    pub(super) fn new(catalogs: Arc<Catalogs>) -> Self {
        let registry = (*catalogs.current().registry).clone();
        let row = registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions").map(|of| of.row);
        Self { catalogs, row, state: RefCell::new(State { registry, ..State::default() }) }
    }

    /// The beginning of the keys of definitions. `None`: they are not read.
    pub(super) fn folder(&self, layout: &Layout) -> Option<String> {
        self.row.map(|row| layout.folder_of(row))
    }

    /// These are all definitions that there are. Every row is about to be loaded with everything else.
    pub(super) fn set(&self, all: impl Iterator<Item = (String, Bytes)>, layout: &Layout) {
        let state = &mut *self.state.borrow_mut();
        state.known.clear();
        for (name, value) in all {
            state.read(name, Some(&value));
        }
        state.define(&self.catalogs);
        for row in state.registry.rows().filter(|row| row.definition.is_some() && !row.retired) {
            layout.add(Folder { resource: row.row, namespaced: row.namespaced, path: row.etcd_folder() });
        }
    }

    /// Follows the changes of one revision. Taking them again has no effect. Returns whether objects are to be loaded before it is
    /// published: see [`Definitions::unloaded`].
    pub(super) fn follow(&self, changes: &[Change]) -> bool {
        let of_definitions = || changes.iter().filter(|change| Some(change.key.resource()) == self.row);
        let state = &mut *self.state.borrow_mut();
        if of_definitions().next().is_some() {
            for change in of_definitions() {
                state.read(change.key.name().to_owned(), change.value.as_ref());
            }
            state.define(&self.catalogs);
        }
        !state.unloaded.is_empty()
    }

    /// The folders whose objects are to be loaded before the next revision is published.
    pub(super) fn unloaded(&self) -> Vec<Folder> {
        let state = self.state.borrow();
        let rows = state.unloaded.iter().filter_map(|row| state.registry.get(*row));
        let rows = rows.filter(|row| !row.retired);
        rows.map(|row| Folder { resource: row.row, namespaced: row.namespaced, path: row.etcd_folder() })
            .collect()
    }

    /// They are loaded.
    pub(super) fn loaded(&self) {
        self.state.borrow_mut().unloaded.clear();
    }

    /// Whether what is defined is newer than what is served.
    pub(super) fn is_ahead(&self) -> bool {
        self.state.borrow().is_ahead
    }

    /// Serves what is defined now.
    pub(super) fn serve_now(&self) {
        if let Some(registry) = self.take_ahead() {
            self.catalogs.replace(registry);
        }
    }

    /// Serves what is defined now as soon as its documents are made. `done` wakes whoever follows what is served.
    pub(super) fn serve_soon(&self, done: impl Fn() + Send + Sync + 'static) {
        if let Some(registry) = self.take_ahead() {
            self.catalogs.replace_soon(registry, done);
        }
    }

    fn take_ahead(&self) -> Option<Registry> {
        let state = &mut *self.state.borrow_mut();
        std::mem::take(&mut state.is_ahead).then(|| state.registry.clone())
    }

    /// Rows that were not served any more for this long: their objects are not needed.
    pub(super) fn take_dropped(&self, kept: Duration) -> Vec<ResourceId> {
        let dropped = &mut self.state.borrow_mut().dropped;
        let over = dropped.partition_point(|(_, since)| since.elapsed() >= kept);
        dropped.drain(..over).map(|(row, _)| row).collect()
    }
}

impl State {
    /// Takes one definition; `None`: it is deleted.
    fn read(&mut self, name: String, value: Option<&Bytes>) {
        let read = value.map_or(Ok(None), |value| Definition::parse(value));
        match read {
            Ok(Some(definition)) if format!("{}.{}", definition.plural, definition.group) != name => {
                self.known.remove(&name);
                self.warn(
                    name,
                    "its resource is not served: its name is not that of its plural and its group",
                );
            }
            Ok(Some(definition)) => {
                if self.known.get(&name) != Some(&definition) {
                    self.warned.remove(&name);
                    self.known.insert(name, definition);
                }
            }
            Ok(None) => {
                self.known.remove(&name);
                self.warned.remove(&name);
            }
            Err(why) => {
                self.known.remove(&name);
                self.warn(name, &format!("its resource is not served: {why}"));
            }
        }
    }

    /// Warns of a definition of which something is not served, unless that was said already.
    fn warn(&mut self, name: String, why: &str) {
        let line = format!("CustomResourceDefinition {name:?}: {why}");
        if self.warned.entry(name).or_default().insert(why.to_owned()) {
            log::warn(&line);
        }
    }

    fn define(&mut self, catalogs: &Catalogs) {
        let defined = catalogs.define(&mut self.registry, &self.known);
        for (name, why) in defined.refused {
            self.warn(name, &why);
        }
        self.is_ahead |= defined.changed;
        self.unloaded.extend(defined.added);
        let now = Instant::now();
        self.dropped.extend(defined.dropped.into_iter().map(|row| (row, now)));
    }
}
