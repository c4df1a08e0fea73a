//! What is served now: the resources, and the documents that describe them.
//!
//! It owns the current [`Catalog`], which is replaced as a whole when the cluster defines other resources, and the thread that
//! makes the next one. A request is answered from one catalog. It does not know where definitions come from.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use bytes::Bytes;
use revcast_engine::resource::Schema;

use crate::api::crd::Definition;
use crate::api::discovery::Discovery;
use crate::api::openapi::OpenApi;
use crate::api::resources::{Defined, Registry};

/// The resources that are served at one time, and everything that is made from them.
#[derive(Debug)]
pub struct Catalog {
    /// The resources.
    pub registry: Arc<Registry>,
    /// The replies of discovery.
    pub discovery: Discovery,
    /// The OpenAPI documents.
    pub openapi: Arc<OpenApi>,
    /// The reply to `GET /`: every path that is not an object's.
    pub root: Bytes,
    /// Larger than that of every catalog before it.
    pub number: u64,
}

impl Catalog {
    fn new(registry: Registry, server_address: &str, number: u64) -> Self {
        let registry = Arc::new(registry);
        Self {
            discovery: Discovery::new(&registry, server_address),
            openapi: Arc::new(OpenApi::new(Arc::clone(&registry))),
            root: root(&registry),
            registry,
            number,
        }
    }
}

/// What is to be served next.
#[derive(Debug, Default)]
struct Next {
    /// The number of the newest registry that was given: its catalog has the same.
    number: u64,
    /// Of what a catalog is to be made, and its number; a newer one replaces it.
    registry: Option<(Registry, u64)>,
    /// Whether a thread makes it.
    is_being_made: bool,
}

impl Next {
    /// Numbers a registry. One that waits is not served any more.
    fn number(&mut self) -> u64 {
        self.registry = None;
        self.number += 1;
        self.number
    }
}

/// The current catalog. Read without a lock.
pub struct Catalogs {
    current: ArcSwap<Catalog>,
    number: AtomicU64,
    /// The rows of all catalogs; they only grow.
    schema: Arc<Schema>,
    server_address: String,
    next: Mutex<Next>,
}

impl Catalogs {
    /// With the resources that are served from the start. `server_address` (`host:port`) is part of legacy discovery.
    #[must_use]
    pub fn new(registry: Registry, server_address: &str) -> Arc<Self> {
        let schema = Arc::new(registry.schema());
        Arc::new(Self {
            current: ArcSwap::from_pointee(Catalog::new(registry, server_address, 0)),
            number: AtomicU64::new(0),
            schema,
            server_address: server_address.to_owned(),
            next: Mutex::default(),
        })
    }

    /// The current one.
    #[must_use]
    pub fn current(&self) -> Arc<Catalog> {
        self.current.load_full()
    }

    /// The number of the current one, for a caller that checks whether it changed.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// The rows that the engine knows.
    #[must_use]
    pub const fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Brings a registry in line with what is defined. New rows are in the schema then.
    pub fn define(&self, registry: &mut Registry, definitions: &BTreeMap<String, Definition>) -> Defined {
        registry.define(definitions, |row| self.schema.grow(row))
    }

    /// Serves these resources at once, and [prepares](Self::prepare) their documents.
    pub fn replace(&self, registry: Registry) {
        let number = self.next().number();
        self.serve(Catalog::new(registry, &self.server_address, number));
        self.prepare();
    }

    /// Serves a catalog, unless a newer one is served already.
    fn serve(&self, catalog: Catalog) {
        let _one_at_a_time = self.next();
        let number = catalog.number;
        if number > self.number() {
            self.current.store(Arc::new(catalog));
            self.number.store(number, Ordering::Release);
        }
    }

    /// Serves these resources soon. The documents, which take milliseconds to make, are made in a thread; of those that wait for it
    /// only the last are made. Each time that the thread is done with one, it calls the `done` that it was started with: all of
    /// them do the same. Without a thread they are made here.
    pub fn replace_soon(self: &Arc<Self>, registry: Registry, done: impl Fn() + Send + Sync + 'static) {
        let mut next = self.next();
        next.registry = Some((registry, next.number()));
        if std::mem::replace(&mut next.is_being_made, true) {
            return;
        }
        drop(next);
        let (catalogs, done) = (Arc::clone(self), Arc::new(done));
        let (here, done_here) = (Arc::clone(self), Arc::clone(&done));
        let thread = std::thread::Builder::new().name("catalog".into());
        if thread.spawn(move || catalogs.make(&*done)).is_err() {
            here.make(&*done_here);
        }
    }

    /// Makes catalogs until there is no newer registry.
    fn make(&self, done: &dyn Fn()) {
        while let Some((registry, number)) = self.take_next() {
            let catalog = Catalog::new(registry, &self.server_address, number);
            catalog.openapi.prepare_v3();
            self.serve(catalog);
            done();
        }
        // A change that comes meanwhile has a thread of its own.
        self.current().openapi.prepare();
    }

    /// What is to be made next. `None`: nothing, and whoever asked is not making any more.
    fn take_next(&self) -> Option<(Registry, u64)> {
        let mut next = self.next();
        next.is_being_made = next.registry.is_some();
        next.registry.take()
    }

    fn next(&self) -> MutexGuard<'_, Next> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the OpenAPI documents of the current catalog in a thread, so that no shard makes them for the first client that asks.
    /// Without a thread the first request makes them.
    pub fn prepare(&self) {
        let openapi = Arc::clone(&self.current().openapi);
        let _ = std::thread::Builder::new().name("openapi".into()).spawn(move || openapi.prepare());
    }
}

impl fmt::Debug for Catalogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalogs").field("number", &self.number()).finish_non_exhaustive()
    }
}

fn root(registry: &Registry) -> Bytes {
    let mut paths: Vec<String> = [
        "/api",
        "/apis",
        "/healthz",
        "/healthz/ping",
        "/livez",
        "/livez/ping",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/readyz/ping",
        "/version",
    ]
    .map(str::to_owned)
    .to_vec();
    for resource in registry.iter().filter(|resource| resource.listed) {
        let version = resource.api_version();
        if resource.group.is_empty() {
            paths.push(format!("/api/{version}"));
        } else {
            paths.push(format!("/apis/{version}"));
            paths.push(format!("/apis/{}", resource.group));
        }
    }
    paths.sort_unstable();
    paths.dedup();
    let root = serde_json::json!({ "paths": paths });
    // A tree of strings always serializes.
    serde_json::to_vec_pretty(&root).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn catalogs() -> Arc<Catalogs> {
        Catalogs::new(Registry::builtin(), "127.0.0.1:8080")
    }

    /// Waits until nothing is being made and the current catalog has its documents.
    fn wait(catalogs: &Catalogs) {
        let began = Instant::now();
        let is_idle = || !catalogs.next().is_being_made;
        while !(is_idle() && catalogs.current().openapi.is_prepared()) {
            assert!(began.elapsed() < PATIENCE, "no thread makes the documents");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_catalog_that_is_served_at_once_has_its_documents_made() {
        let catalogs = catalogs();
        let before = catalogs.current();
        catalogs.replace(Registry::builtin());
        assert_eq!((catalogs.number(), catalogs.current().number), (1, 1));
        wait(&catalogs);
        assert!(!before.openapi.is_prepared(), "nobody asked for those of the one before");
    }

    #[test]
    fn an_older_catalog_never_follows_a_newer_one() {
        let catalogs = catalogs();
        let older = |number| Catalog::new(Registry::builtin(), "127.0.0.1:8080", number);
        // One that is being made when another is served at once.
        let number = catalogs.next().number();
        catalogs.replace(Registry::builtin());
        catalogs.serve(older(number));
        assert_eq!((catalogs.number(), catalogs.current().number), (2, 2));
        // One that waits to be made then.
        catalogs.next().is_being_made = true;
        catalogs.replace_soon(Registry::builtin(), || {});
        catalogs.replace(Registry::builtin());
        catalogs.make(&|| panic!("nothing is left to be served"));
        assert_eq!((catalogs.number(), catalogs.current().number), (4, 4));
        wait(&catalogs);
    }

    #[test]
    fn of_several_changes_the_last_is_served_and_its_documents_are_made() {
        let catalogs = catalogs();
        let (done, served) = mpsc::channel();
        for _ in 0..3 {
            let done = done.clone();
            catalogs.replace_soon(Registry::builtin(), move || {
                let _ = done.send(());
            });
        }
        served.recv_timeout(PATIENCE).expect("one is served");
        wait(&catalogs);
        assert_eq!((catalogs.number(), catalogs.current().number), (3, 3));
        // Nothing is left to be made, and a later change has a thread again.
        let (done, served) = mpsc::channel();
        catalogs.replace_soon(Registry::builtin(), move || {
            let _ = done.send(());
        });
        served.recv_timeout(PATIENCE).expect("the later one is served");
        assert_eq!(catalogs.number(), 4);
    }
}
