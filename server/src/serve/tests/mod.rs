//! Requests and their replies, over a real store in memory.
//!
//! A write is applied, flushed and published before it is answered, as in the runtime; futures run on the test's thread and
//! never stay pending.
#![allow(clippy::unwrap_used)]

mod accesses;
mod applies;
mod custom;
mod delegated;
mod deletes;
mod encodings;
mod lists;
mod patches;
mod recorded;
mod remote;
mod stored;
mod surroundings;
mod versions;
mod watches;
mod writes;
mod yaml;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io::Read;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use revcast_engine::change::{Batch, Change};
use revcast_engine::codec::Decoder;
use revcast_engine::key::Key;
use revcast_engine::resource::Schema;
use revcast_engine::revision::Revision;
use revcast_engine::{Object, Publisher, RingLimits};
use serde_json::Value;

use super::app::{App, Life};
use super::encode::Encoder;
use super::options::ServeOptions;
use super::storage::StorageMediaType;
use crate::api::protobuf::{self, Release};
use crate::api::resources::{Declaration, Registry};
use crate::auth::PeerCertificate;
use crate::catalog::Catalogs;
use crate::frontend::{Budget, Frontend as _, Host, Newest, Reply, WatchRequest, WriteError};
use crate::http::request::{Parsed, parse_head};
use crate::http::route::target_of;
use crate::http::status::Status;
use crate::source::embedded::{Store, StoreConfig};
use crate::source::epoch::{Epoch, Epochs};
use crate::source::{SourceError, Txn, WallTime};
use crate::upstream::{Question, UpstreamError, UpstreamReply};

/// 2026-11-21T05:38:13Z, when the recorded tables were made.
const NOW: u64 = 1_795_239_493;

/// As in a server without configuration.
const OPTIONS: ServeOptions = ServeOptions {
    min_watch_timeout: Duration::from_secs(1800),
    watch_list_gzip: true,
    storage_media_type: StorageMediaType::Json,
    write_etcd: None,
};

/// A shard without other work.
struct FakeHost {
    store: RefCell<Store>,
    publisher: RefCell<Publisher>,
    schema: Arc<Schema>,
    random: Cell<u64>,
    /// Seconds since [`NOW`].
    later: Cell<u64>,
    waits: RefCell<Vec<(Revision, Duration)>>,
    /// Writes of another client, each made right before one of ours.
    rivals: RefCell<Vec<Txn>>,
    refuse: RefCell<Option<WriteError>>,
    writes: Cell<usize>,
    /// The newest revision that the source reports; `None`: what is visible.
    newest: Cell<Option<Newest>>,
    /// The source does not answer.
    unanswered: RefCell<Option<SourceError>>,
    upstream: delegated::FakeUpstream,
}

impl FakeHost {
    fn commit(&self, txn: &Txn) -> Result<Revision, WriteError> {
        let now = WallTime::from_millis(NOW * 1000);
        let batch = self.store.borrow_mut().apply(txn, now).map_err(WriteError::Refused)?;
        self.store.borrow_mut().flush().unwrap();
        let mut publisher = self.publisher.borrow_mut();
        let readings = txn.clone().into_readings();
        publisher.handle_batch_with(&batch, &readings, NOW).expect("what a handler writes can be published");
        publisher.publish();
        self.check_published(&publisher, &batch);
        Ok(batch.revision)
    }

    /// What a handler read of its values is what the publisher would read.
    fn check_published(&self, publisher: &Publisher, batch: &Batch) {
        for Change { key, value } in &batch.changes {
            let Some(value) = value else { continue };
            let published = publisher.get(key).unwrap();
            let resource = self.schema.get(key.resource());
            let read = Object::read(&mut Decoder::new(), resource, key.clone(), value, batch.revision);
            assert_eq!(published.value().bytes(), read.value().bytes());
            assert_eq!(published.attributes(), read.attributes());
        }
    }
}

impl Host for FakeHost {
    async fn wait_for(&self, revision: Revision, within: Duration) -> bool {
        self.waits.borrow_mut().push((revision, within));
        revision <= self.publisher.borrow().revision()
    }

    async fn write(&self, txn: Txn) -> Result<Revision, WriteError> {
        if let Some(error) = self.refuse.borrow().clone() {
            return Err(error);
        }
        let rival = self.rivals.borrow_mut().pop();
        if let Some(rival) = rival {
            self.commit(&rival).expect("the rival writes");
        }
        let written = self.commit(&txn)?;
        self.writes.set(self.writes.get() + 1);
        Ok(written)
    }

    async fn newest(&self, _within: Duration) -> Result<Newest, SourceError> {
        match self.unanswered.borrow().clone() {
            Some(error) => Err(error),
            None => Ok(self
                .newest
                .get()
                .unwrap_or_else(|| Newest { epoch: 0, revision: self.publisher.borrow().revision() })),
        }
    }

    async fn get(&self, key: &Key) -> Result<Option<Arc<Object>>, SourceError> {
        match self.unanswered.borrow().clone() {
            Some(error) => Err(error),
            None => Ok(self.publisher.borrow().get(key).cloned()),
        }
    }

    async fn ask_upstream(&self, question: Question) -> Result<UpstreamReply, UpstreamError> {
        self.upstream.ask(question).await
    }

    fn wall(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(NOW + self.later.get())
    }

    fn random(&self) -> u64 {
        self.random.set(self.random.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        self.random.get()
    }
}

/// A server without sockets.
struct World {
    app: App,
    host: FakeHost,
    /// The limit of bytes for each request.
    budget: usize,
}

/// What is left of one request's limit.
struct Left(Cell<usize>);

impl Budget for Left {
    fn charge(&self, bytes: usize) -> Result<(), Status> {
        let left = self.0.get().checked_sub(bytes);
        self.0.set(left.ok_or_else(|| Status::too_many_requests("too much is under way".to_owned(), 1))?);
        Ok(())
    }
}

/// A client's view of the reply.
#[derive(Debug)]
struct Got {
    code: u16,
    body: String,
    reply: Reply,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    fn watch_request(self) -> WatchRequest {
        let Reply::Watch(watch_request) = self.reply else {
            panic!("no watch but {:?} {}", self.reply, self.body)
        };
        watch_request
    }

    fn whole(&self) -> &super::FullBody {
        let Reply::FullBody(whole) = &self.reply else { panic!("not whole: {:?}", self.reply) };
        whole
    }

    fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }
}

/// A request, as text.
#[derive(Clone, Debug)]
struct Ask<'a> {
    method: &'a str,
    target: &'a str,
    headers: Vec<(&'a str, &'a str)>,
    body: Bytes,
    http: &'a str,
}

impl World {
    fn new() -> Self {
        Self::with_ring(1024)
    }

    fn with_ring(events: usize) -> Self {
        // All of these tests hold whatever the form of storage is: `cargo xtask ci` says so.
        let named = std::env::var("REVCAST_STORAGE_MEDIA_TYPE").unwrap_or_default();
        let form = StorageMediaType::ALL.into_iter().find(|form| form.to_string() == named);
        Self::storing(form.unwrap_or(StorageMediaType::Json), events)
    }

    /// A world that stores objects as they were sent.
    fn with_json() -> Self {
        Self::storing(StorageMediaType::Json, 1024)
    }

    fn storing(storage_media_type: StorageMediaType, events: usize) -> Self {
        let mut registry = Registry::builtin();
        let widgets = r#"{"group":"example.com","version":"v1","plural":"widgets","kind":"Widget",
            "scope":"namespaced","selectableFields":["spec.color"],"status":true}"#;
        registry.add(&serde_json::from_str::<Declaration>(widgets).unwrap()).unwrap();
        // Of recording 31.
        registry.declare("pb.example.com/v1/ws/W/namespaced").unwrap();
        // Of recording 36.
        registry.declare("example.com/v1/gadgets/Gadget/namespaced").unwrap();
        let names = registry.rows().map(|row| row.storage_name().to_owned()).collect();
        let (store, recovery) = Store::open(&StoreConfig::memory(names, WallTime::default())).unwrap();
        drop(recovery);
        let limits = RingLimits { events, bytes: 1 << 20 };
        let catalogs = Catalogs::new(registry, "192.0.2.1:26443");
        let encoder = Arc::new(Encoder::new(Arc::clone(&catalogs)));
        let schema = Arc::clone(catalogs.schema());
        let (mut publisher, feed) =
            Publisher::with_small_ring(Arc::clone(&schema), encoder, limits, 1, store.revision());
        publisher.publish();
        let epochs = Epochs::new(Epoch::loaded(0, 0, Revision::ZERO, feed));
        let app = App::new(catalogs, epochs, ServeOptions { storage_media_type, ..OPTIONS });
        app.advance(Life::Serving);
        let host = FakeHost {
            store: RefCell::new(store),
            publisher: RefCell::new(publisher),
            schema,
            random: Cell::new(1),
            later: Cell::new(0),
            waits: RefCell::default(),
            rivals: RefCell::default(),
            refuse: RefCell::default(),
            writes: Cell::new(0),
            newest: Cell::new(None),
            unanswered: RefCell::default(),
            upstream: delegated::FakeUpstream::default(),
        };
        Self { app, host, budget: usize::MAX }
    }

    /// A world in which a remote source wrote the five config maps of the recordings, at revisions 70 to 74.
    fn recorded() -> Self {
        let world = Self::new();
        let list: Value = serde_json::from_str(&recorded::exchanges(recorded::LISTS)[0].body).unwrap();
        for item in list["items"].as_array().unwrap() {
            let mut item = item.clone();
            let revision = item["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
            item["metadata"].as_object_mut().unwrap().shift_remove("resourceVersion");
            let members = item.to_string();
            world.publish(
                revision,
                &format!("{{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",{}", &members[1..]),
            );
        }
        world
    }

    /// A change of any key from a remote source.
    fn publish_value(&self, revision: u64, key: Key, value: Option<Bytes>) {
        let batch = Batch { revision: Revision::new(revision), changes: vec![Change { key, value }] };
        let mut publisher = self.host.publisher.borrow_mut();
        publisher.handle_batch(&batch, NOW).unwrap();
        publisher.publish();
    }

    /// A change from a remote source.
    fn publish(&self, revision: u64, object: &str) {
        let value: Value = serde_json::from_str(object).unwrap();
        let text = |member: &str| value["metadata"][member].as_str();
        let key = self.key("configmaps", text("namespace").unwrap(), text("name").unwrap());
        self.publish_value(revision, key, Some(object.to_owned().into()));
    }

    fn key(&self, plural: &str, namespace: &str, name: &str) -> Key {
        let catalog = self.app.catalog();
        let resource = catalog.registry.find("", "v1", plural).unwrap();
        Key::new(resource.row, Some(namespace), name)
    }

    fn revision(&self) -> u64 {
        self.app.epoch().feed.revision().get()
    }

    fn ask(&self, ask: &Ask<'_>) -> Got {
        self.ask_with(ask, None)
    }

    /// The same over a connection with this certificate.
    fn ask_with(&self, ask: &Ask<'_>, certificate: Option<PeerCertificate<'_>>) -> Got {
        let mut head = format!("{} {} {}\r\nHost: localhost\r\n", ask.method, ask.target, ask.http);
        for (name, value) in &ask.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let Ok(Parsed::Complete { head, .. }) = parse_head(head.as_bytes()) else { panic!("{head}") };
        let routed = target_of(&head.path);
        let admitted = run(self.app.admit(&self.host, &head, routed, certificate, self.host.wall())).1;
        let mut reply = match admitted {
            Ok(admitted) => {
                let left = Left(Cell::new(self.budget));
                run(self.app.handle(&self.host, &head, &admitted, ask.body.clone(), &left))
            }
            Err(whole) => Reply::FullBody(*whole),
        };
        let (code, body) = match &mut reply {
            Reply::FullBody(whole) => (whole.code, [&whole.body, whole.end].concat()),
            Reply::StreamingBody(pieces) => {
                let mut out = Vec::new();
                while pieces.next(&mut out) {}
                (200, out)
            }
            Reply::Refused(status, ..) => {
                (200, format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", status.to_json()).into())
            }
            Reply::Watch(_) | Reply::PeriodicBody(_) => (200, Vec::new()),
        };
        let zipped = matches!(&reply, Reply::FullBody(whole) if whole.content_encoding.is_some())
            || matches!(&reply, Reply::StreamingBody(pieces) if pieces.is_gzip());
        let body = if zipped { unzip(&body) } else { body };
        // Protobuf is read as the JSON that it stands for.
        let body = if body.starts_with(b"k8s\0") {
            protobuf::decode(Release::DEFAULT, &body).unwrap().json
        } else {
            body
        };
        Got { code, body: String::from_utf8_lossy(&body).into_owned(), reply }
    }

    fn get(&self, target: &str) -> Got {
        self.ask(&Ask::new("GET", target))
    }

    fn get_as(&self, target: &str, accept: &str) -> Got {
        self.ask(&Ask::new("GET", target).with("Accept", accept))
    }

    fn send(&self, method: &str, target: &str, body: &Value) -> Got {
        self.ask(&Ask::new(method, target).with("Content-Type", "application/json").json(body))
    }

    fn patch(&self, target: &str, media: &str, body: &Value) -> Got {
        self.ask(&Ask::new("PATCH", target).with("Content-Type", media).json(body))
    }

    /// Creates a config map in `t1` and returns it.
    fn config_map(&self, name: &str, value: &str) -> Value {
        let body =
            serde_json::json!({"metadata": {"name": name, "labels": {"app": "a"}}, "data": {"k": value}});
        let got = self.send("POST", CONFIG_MAPS, &body);
        assert_eq!(got.code, 201, "{}", got.body);
        got.json()
    }
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/t1/configmaps";

impl<'a> Ask<'a> {
    fn new(method: &'a str, target: &'a str) -> Self {
        Self { method, target, headers: Vec::new(), body: Bytes::new(), http: "HTTP/1.1" }
    }

    fn with(mut self, name: &'a str, value: &'a str) -> Self {
        self.headers.push((name, value));
        self
    }

    fn json(mut self, body: &Value) -> Self {
        self.body = body.to_string().into();
        self
    }
}

fn unzip(body: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(body).read_to_end(&mut text).unwrap();
    text
}

/// Runs a future that never stays pending.
fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    for _ in 0..10_000 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
    panic!("the handler waits for something that never comes");
}
