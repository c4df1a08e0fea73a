//! Reflectors of the `kube` crate, each with connections of its own, as separate controllers have them.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, Config};
use revcast_tests::history::{self, Log};
use serde_json::Value;
use tokio::sync::Notify;

use super::told::{Told, Wanted};

/// Whether they list in a watch (KEP-3157) changes with each.
const WANTED: [Wanted; 3] = [
    Wanted { keys: "/registry/configmaps/", label: None },
    Wanted { keys: "/registry/pods/s1/", label: None },
    Wanted { keys: "/registry/configmaps/", label: Some(("app", "a1")) },
];

/// What one of them was told; also how many lists it has completed.
type Shared = Arc<Mutex<(Told, u64)>>;

/// Reflectors that run.
pub(crate) struct Reflectors {
    shared: Vec<Shared>,
    over: Arc<Notify>,
    thread: JoinHandle<()>,
}

impl Reflectors {
    /// Starts this many. Nothing is written before they have listed: their lists are of revision `listed`.
    pub(crate) fn start(address: &str, count: usize, listed: u64) -> Self {
        let told = |number: usize| {
            let wanted = WANTED[number % WANTED.len()];
            Arc::new(Mutex::new((Told::new(format!("reflector {number}"), wanted), 0)))
        };
        let shared: Vec<Shared> = (0..count).map(told).collect();
        let (over, url) = (Arc::<Notify>::default(), format!("http://{address}"));
        let (ends, theirs) = (Arc::clone(&over), shared.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let all = theirs.iter().enumerate().map(|(number, told)| reflect(&url, number, told, listed));
                tokio::select! {
                    _ = join_all(all) => {}
                    () = ends.notified() => {}
                }
            });
        });
        Self { shared, over, thread }
    }

    /// Waits until each has its objects.
    pub(crate) fn await_lists(&self, within: Duration) {
        let deadline = Instant::now() + within;
        while self.shared.iter().any(|shared| lock(shared).1 == 0) {
            assert!(Instant::now() < deadline, "a reflector does not list");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until each was told everything up to a revision.
    pub(crate) fn await_all(&self, log: &Log, goal: u64, within: Duration) {
        let deadline = Instant::now() + within;
        for shared in &self.shared {
            loop {
                let violations = lock(shared).0.check(log, Some(goal));
                if violations.is_empty() {
                    break;
                }
                if Instant::now() > deadline {
                    history::none(&violations);
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }

    /// A few words about all of them.
    pub(crate) fn summary(&self) -> String {
        let (mut events, mut relists, mut errors) = (0, 0, 0);
        for shared in &self.shared {
            let told = &lock(shared).0;
            events += told.events();
            relists += told.relists();
            errors += told.problems().len();
        }
        format!("{events} events, {relists} relists, {errors} errors")
    }

    /// Ends them. What each was told.
    pub(crate) fn end(self) -> Vec<Told> {
        self.over.notify_one();
        self.thread.join().unwrap();
        let told = |shared: Shared| {
            Arc::into_inner(shared).unwrap().into_inner().unwrap_or_else(PoisonError::into_inner).0
        };
        self.shared.into_iter().map(told).collect()
    }
}

fn lock(shared: &Shared) -> std::sync::MutexGuard<'_, (Told, u64)> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn resource(number: usize) -> (ApiResource, Option<&'static str>) {
    if number % WANTED.len() == 1 {
        (ApiResource::erase::<Pod>(&()), Some("s1"))
    } else {
        (ApiResource::erase::<ConfigMap>(&()), None)
    }
}

/// Follows with a store until it is dropped, as `kube` says that a controller does: with its own pauses after an error.
async fn reflect(url: &str, number: usize, shared: &Shared, listed: u64) {
    let client = Client::try_from(Config::new(url.parse().unwrap())).unwrap();
    let (resource, namespace) = resource(number);
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let mut config = watcher::Config::default();
    if let Some((name, text)) = WANTED[number % WANTED.len()].label {
        config = config.labels(&format!("{name}={text}"));
    }
    if number % 2 == 1 {
        config = config.streaming_lists();
    }
    let writer = reflector::store::Writer::new(resource);
    let mut events = Box::pin(reflector(writer, watcher(api, config).default_backoff()));
    let value = |object: &DynamicObject| serde_json::to_value(object).unwrap();
    let mut initial: Vec<Value> = Vec::new();
    while let Some(event) = events.next().await {
        let (told, lists) = &mut *lock(shared);
        match event {
            Ok(watcher::Event::Init) => {
                told.begins();
                initial.clear();
            }
            Ok(watcher::Event::InitApply(object)) => initial.push(value(&object)),
            Ok(watcher::Event::InitDone) => {
                told.listed(listed, &initial);
                *lists += 1;
            }
            Ok(watcher::Event::Apply(object)) => told.changed(&value(&object), false),
            Ok(watcher::Event::Delete(object)) => told.changed(&value(&object), true),
            Err(error) => told.problem(error.to_string()),
        }
    }
    panic!("reflector {number} has ended");
}
