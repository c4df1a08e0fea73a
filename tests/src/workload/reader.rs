//! Reads what was just written, by LIST and by GET without a revision: neither may show an older state.
//!
//! It writes through a server and directly to the store alternately, to keys of its own. A key whose last write has an
//! unknown outcome is not used again.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use revcast_sim::rng::Rng;

use super::objects::{self, Kind, READER_DIRECT, READER_HTTP, key, object};
use super::{MediaType, Workload, protobuf};
use crate::client::{Client, Response};
use crate::etcd::{Gateway, Op};

/// Between two writes.
const PACE: Duration = Duration::from_millis(40);
/// How long a server may take; a later reply does not count.
const PATIENCE: Duration = Duration::from_secs(4);
const NAMES: usize = 6;

/// Counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reads {
    /// Writes that a server acknowledged.
    pub through_server: u64,
    /// Writes that the store acknowledged.
    pub direct: u64,
    /// Reads that showed what was written.
    pub confirmed: u64,
    /// Reads that were answered with 429, 503 or 504, or not at all.
    pub unanswered: u64,
}

#[derive(Debug, Default)]
struct Shared {
    through_server: AtomicU64,
    direct: AtomicU64,
    confirmed: AtomicU64,
    unanswered: AtomicU64,
}

/// A reader that runs.
#[derive(Debug)]
pub struct Reader {
    workload: Arc<Workload>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    /// Starts one.
    #[must_use]
    pub fn start(workload: &Arc<Workload>, gateway: Gateway, seed: u64) -> Self {
        let shared: Arc<Shared> = Arc::default();
        let mut work = Work {
            workload: Arc::clone(workload),
            shared: Arc::clone(&shared),
            gateway,
            rng: Rng::new(seed),
            known: HashMap::new(),
            generation: 0,
            sequence: 0,
            epoch: 0,
            turn: 0,
        };
        let thread = std::thread::spawn(move || {
            while !work.workload.is_over() {
                work.round();
                std::thread::sleep(PACE);
            }
        });
        Self { workload: Arc::clone(workload), shared, thread: Some(thread) }
    }

    /// Counts.
    #[must_use]
    pub fn reads(&self) -> Reads {
        let of = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        Reads {
            through_server: of(&self.shared.through_server),
            direct: of(&self.shared.direct),
            confirmed: of(&self.shared.confirmed),
            unanswered: of(&self.shared.unanswered),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.workload.end();
        let failed = self.thread.take().is_some_and(|thread| thread.join().is_err());
        assert!(std::thread::panicking() || !failed, "the reader panicked: see above");
    }
}

/// The state after a write.
#[derive(Clone, Copy, Debug)]
struct Left {
    /// `None`: deleted.
    sequence: Option<u64>,
    /// If known.
    revision: Option<u64>,
}

struct Work {
    workload: Arc<Workload>,
    shared: Arc<Shared>,
    gateway: Gateway,
    rng: Rng,
    /// Existing names.
    known: HashMap<(&'static str, String), bool>,
    /// Names in use.
    generation: u64,
    sequence: u64,
    epoch: usize,
    turn: usize,
}

impl Work {
    /// Writes, and reads it.
    fn round(&mut self) {
        let epoch = self.workload.epoch();
        if epoch != self.epoch {
            (self.epoch, self.generation) = (epoch, self.generation + 1);
        }
        self.turn += 1;
        let namespace = if self.rng.percent(50) { READER_HTTP } else { READER_DIRECT };
        let name = format!("g{}-{}", self.generation, self.rng.below(NAMES));
        let written = {
            let workload = Arc::clone(&self.workload);
            let _permit = workload.write_permit();
            if workload.epoch() != epoch {
                return;
            }
            if namespace == READER_HTTP { self.write(&name) } else { self.write_direct(&name) }
        };
        let Some(left) = written else {
            self.generation += 1;
            return;
        };
        self.known.insert((namespace, name.clone()), left.sequence.is_some());
        self.turn += 1;
        let problem = if self.rng.percent(50) {
            self.check_list(namespace, &name, left)
        } else {
            self.check_get(namespace, &name, left)
        };
        // Reads while the store is swapped have no guarantee.
        if let Some(problem) = problem.filter(|_| self.workload.epoch() == epoch) {
            self.workload.report(format!("a read does not show what was written: {problem}"));
        }
    }

    fn is_there(&self, namespace: &'static str, name: &str) -> bool {
        self.known.get(&(namespace, name.to_owned())).copied().unwrap_or(false)
    }

    /// Directly to the store.
    fn write_direct(&mut self, name: &str) -> Option<Left> {
        let key = key(Kind::ConfigMap, READER_DIRECT, name);
        self.sequence += 1;
        let deletes = self.is_there(READER_DIRECT, name) && self.rng.percent(15);
        let object = object(Kind::ConfigMap, READER_DIRECT, name, self.sequence, &mut self.rng);
        let value = self.workload.media_type().stored(&object, &mut self.rng);
        let op = if deletes { Op::Delete(&key) } else { Op::Put(&key, &value) };
        let revision = self.gateway.txn(&[op]).ok()?;
        self.shared.direct.fetch_add(1, Ordering::SeqCst);
        Some(Left { sequence: (!deletes).then_some(self.sequence), revision: Some(revision) })
    }

    /// Through a server.
    fn write(&mut self, name: &str) -> Option<Left> {
        const ALL: &str = "/api/v1/namespaces/h/configmaps";
        self.sequence += 1;
        let there = self.is_there(READER_HTTP, name);
        let deletes = there && self.rng.percent(15);
        let one = format!("{ALL}/{name}");
        let value = object(Kind::ConfigMap, READER_HTTP, name, self.sequence, &mut self.rng);
        let packs = self.workload.media_type() == MediaType::Protobuf && self.rng.percent(50);
        let value = if packs { protobuf::written(&value) } else { value.into_bytes() };
        let (method, path, body) = match (there, deletes) {
            (_, true) => ("DELETE", one.as_str(), &[][..]),
            (true, false) => ("PUT", one.as_str(), value.as_slice()),
            (false, false) => ("POST", ALL, value.as_slice()),
        };
        let reply = self.ask(method, path, body);
        match reply.status {
            200 | 201 => {}
            0 | 429 | 503 | 504 => return None,
            // 409 and 404 would say that an acknowledged write is missing.
            status => {
                if self.workload.epoch() == self.epoch {
                    self.workload.report(format!("{method} {path}: {status} {}", reply.text().trim()));
                }
                return None;
            }
        }
        self.shared.through_server.fetch_add(1, Ordering::SeqCst);
        let revision = if deletes { None } else { objects::revision(&reply.text()) };
        Some(Left { sequence: (!deletes).then_some(self.sequence), revision })
    }

    fn ask(&self, method: &str, path: &str, body: &[u8]) -> Response {
        let media_type =
            if body.starts_with(protobuf::MAGIC) { protobuf::MEDIA_TYPE } else { "application/json" };
        let exchange = || {
            let mut connection = Client::new(&self.workload.address(self.turn)).connect()?;
            connection.socket().set_read_timeout(Some(PATIENCE))?;
            connection.request(method, path, &[("content-type", media_type)], body)
        };
        exchange().unwrap_or_default()
    }

    fn unanswered(&self, what: &str, reply: &Response) -> Option<String> {
        self.shared.unanswered.fetch_add(1, Ordering::SeqCst);
        let fine = [0, 429, 503, 504].contains(&reply.status);
        (!fine).then(|| format!("{what}: {} {}", reply.status, reply.text().trim()))
    }

    fn check_get(&self, namespace: &str, name: &str, left: Left) -> Option<String> {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
        let reply = self.ask("GET", &path, &[]);
        if ![200, 404].contains(&reply.status) {
            return self.unanswered(&path, &reply);
        }
        let text = reply.text();
        let shown = (reply.status == 200).then_some(text.as_str());
        self.judge(&path, shown, left)
    }

    fn check_list(&self, namespace: &str, name: &str, left: Left) -> Option<String> {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let reply = self.ask("GET", &path, &[]);
        if reply.status != 200 {
            return self.unanswered(&path, &reply);
        }
        let text = reply.text();
        let at = objects::revision(&text).unwrap_or(0);
        if left.revision.is_some_and(|revision| at < revision) {
            return Some(format!("{path} is of {at}, and {left:?} was acknowledged"));
        }
        let shown =
            objects::items(&text).into_iter().find(|item| objects::member(item, "name") == Some(name));
        self.judge(&format!("{name} in {path}"), shown, left)
    }

    /// No other writer uses this key: it must be unchanged.
    fn judge(&self, what: &str, shown: Option<&str>, left: Left) -> Option<String> {
        let sequence = shown.and_then(|json| objects::member(json, "sequence")?.parse().ok());
        let revision = shown.and_then(objects::revision);
        if sequence != left.sequence || (left.sequence.is_some() && revision != left.revision) {
            return Some(format!("{what} shows {sequence:?} of {revision:?}, left was {left:?}"));
        }
        self.shared.confirmed.fetch_add(1, Ordering::SeqCst);
        None
    }
}
