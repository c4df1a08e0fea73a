//! etcd's own watch with the HTTP that the generator speaks, so that `compare` can put etcd beside a cache, with the same watchers,
//! writes and accounts: each watch is one on etcd, over a connection of its own. What is measured is etcd's process; the bridge's,
//! a process on the generator's CPUs that ends with its input, is the generator's, and its time is part of the latency.

use crate::child::{Helper, send};
use crate::endpoint::Server;
use crate::process::raise_nofile;
use etcd_client::{Client, Event, EventType, GetOptions, ResponseHeader, WatchOptions, WatchStream};
use futures_lite::StreamExt;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::io::{Read, stdin, stdout};
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::mpsc::channel;
use tokio::net::TcpListener;
use tokio::task::{LocalSet, spawn_local};

pub(crate) struct Store {
    endpoint: String,
    prefix: String,
    client: Client,
    /// Of the watches; each has its own, up to so many.
    watching: RefCell<Vec<Client>>,
    connections_max: usize,
    next: Cell<usize>,
}

impl Store {
    pub(crate) async fn connect(
        endpoint: &str,
        prefix: &str,
        connections_max: usize,
    ) -> Result<Self, String> {
        let (client, prefix, endpoint) = (connect(endpoint).await?, prefix.to_owned(), endpoint.to_owned());
        let watching = RefCell::default();
        let store = Self { endpoint, prefix, client, watching, connections_max, next: Cell::new(0) };
        store.newest().await.map(|_| store)
    }

    pub(crate) async fn newest(&self) -> Result<u64, String> {
        let answer = self.client.kv_client().get(self.prefix.as_str(), None).await;
        answer.map(|answer| revision_of(answer.header())).map_err(|fault| self.wrong(&fault))
    }

    pub(crate) async fn put(&self, path: &str, value: impl Into<Vec<u8>>) -> Result<u64, String> {
        let answer = self.client.kv_client().put(self.key(path), value, None).await;
        answer.map(|answer| revision_of(answer.header())).map_err(|fault| self.wrong(&fault))
    }

    /// Lists what is below a path: the list's revision, and each value with the revision of its last write.
    pub(crate) async fn list(&self, path: &str) -> Result<(u64, Vec<(Vec<u8>, u64)>), String> {
        let options = GetOptions::new().with_prefix();
        let answer = self.client.kv_client().get(self.key(path), Some(options)).await;
        let answer = answer.map_err(|fault| self.wrong(&fault))?;
        let objects = answer.kvs().iter().map(|kv| (kv.value().to_vec(), kv.mod_revision().unsigned_abs()));
        Ok((revision_of(answer.header()), objects.collect()))
    }

    pub(crate) async fn watch(&self, path: &str, after: u64) -> Result<WatchStream, String> {
        let number = self.next.get();
        self.next.set(number + 1);
        let shared = self.watching.borrow().get(number % self.connections_max).cloned();
        let client = match shared {
            Some(client) => client,
            None => {
                let client = connect(&self.endpoint).await?;
                self.watching.borrow_mut().push(client.clone());
                client
            }
        };
        let start = i64::try_from(after + 1).unwrap_or(i64::MAX);
        let options = WatchOptions::new().with_prefix().with_start_revision(start);
        let stream = client.watch_client().watch(self.key(path), Some(options)).await;
        stream.map_err(|fault| self.wrong(&fault))
    }

    fn key(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }

    fn wrong(&self, fault: &etcd_client::Error) -> String {
        format!("etcd at {}: {fault}", self.endpoint)
    }
}

async fn connect(endpoint: &str) -> Result<Client, String> {
    Client::connect([endpoint], None).await.map_err(|fault| format!("etcd at {endpoint}: {fault}"))
}

fn revision_of(header: Option<&ResponseHeader>) -> u64 {
    header.map_or(0, |header| header.revision().unsigned_abs())
}

/// After so many watches connections are shared: both ends of each watch are descriptors of one process.
const SPARE_DESCRIPTORS: u64 = 256;

/// Of the bridge's own keys: after it the path of an object, whose value is its JSON.
const PREFIX: &str = "/revcast-perf";
const METADATA: &[u8] = br#""metadata":{"#;

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// The bridge, from the side of `compare`. Dropped, it ends.
pub(crate) struct Bridge {
    port: u16,
    _process: Helper,
}

impl Bridge {
    pub(crate) fn start(etcd: &Server) -> Result<Self, String> {
        let url = format!("http://{}", etcd.authority());
        let (sender, told) = channel();
        let hear = move |port: Option<Result<Result<u16, String>, String>>| {
            let _told_before = port.map(|port| sender.send(port.and_then(|port| port)));
        };
        let process = Helper::process(&["etcd-bridge", &url], hear)
            .map_err(|fault| format!("the bridge to etcd cannot be started: {fault}"))?;
        let port = told.recv().map_err(|_| "the bridge to etcd ended".to_owned())?;
        let port = port.map_err(|why| format!("no etcd answers at {url}: {why}"))?;
        Ok(Self { port, _process: process })
    }

    pub(crate) fn server(&self) -> Server {
        Server::local(self.port)
    }
}

/// The bridge itself. Its one message is its port, or why there is none.
pub(crate) fn run(endpoint: &str) -> Result<(), String> {
    let limit = raise_nofile();
    std::thread::spawn(|| {
        let _end = stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let connections = usize::try_from(limit.saturating_sub(SPARE_DESCRIPTORS) / 2).unwrap_or(1);
    let tell = |port: &Result<u16, String>| send(&mut stdout(), port);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|fault| fault.to_string())?;
    let outcome = LocalSet::new().block_on(&runtime, async {
        let store = Rc::new(Store::connect(endpoint, PREFIX, connections).await?);
        let wrong = |fault: std::io::Error| fault.to_string();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(wrong)?;
        tell(&Ok(listener.local_addr().map_err(wrong)?.port()))?;
        serve(&listener, store).await.map_err(wrong)
    });
    outcome.or_else(|why| tell(&Err(why)))
}

async fn serve(listener: &TcpListener, store: Rc<Store>) -> std::io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let store = Rc::clone(&store);
        spawn_local(async move {
            let service = service_fn(|request| async {
                let answer = reply(&store, request).await;
                Ok::<_, Infallible>(answer.unwrap_or_else(|why| text(StatusCode::BAD_GATEWAY, why.into())))
            });
            // A client that goes away is the end of its connection.
            let _gone = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn reply(store: &Store, request: Request<Incoming>) -> Result<Answer, String> {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let value = |key: &str| query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
    if query.contains("Selector=") {
        return Ok(text(StatusCode::BAD_REQUEST, "etcd has no selectors".into()));
    }
    match *request.method() {
        Method::GET if value("watch").is_some() => {
            let after = value("resourceVersion").and_then(|text| text.parse().ok()).unwrap_or(0);
            let messages = store.watch(&format!("{path}/"), after).await?;
            // One chunk a message. Cancelled or broken: the stream ends, which the generator counts.
            let messages =
                messages.scan((), |(), message| message.ok().filter(|message| !message.canceled()));
            // The first only says that the watch stands.
            let events = messages.filter(|message| !message.events().is_empty());
            let frames = events.map(|message| Ok(Frame::data(lines(message.events()).into())));
            Ok(Response::new(StreamBody::new(frames).boxed_unsync()))
        }
        Method::GET if path == "/version" => Ok(text(StatusCode::NOT_FOUND, Vec::new())),
        Method::GET => {
            let (revision, objects) = store.list(&format!("{path}/")).await?;
            let head = format!(r#"{{"kind":"List","metadata":{{"resourceVersion":"{revision}"}},"items":["#);
            let objects: Vec<_> =
                objects.iter().map(|(json, revision)| with_revision(json, *revision)).collect();
            Ok(text(StatusCode::OK, [head.as_bytes(), &objects.join(&b','), b"]}"].concat()))
        }
        Method::POST | Method::PUT => {
            let create = request.method() == Method::POST;
            let json = request.into_body().collect().await.map_err(|fault| fault.to_string())?.to_bytes();
            let path = if create { format!("{path}/{}", name_of(&json)?) } else { path };
            let code = if create { StatusCode::CREATED } else { StatusCode::OK };
            Ok(text(code, with_revision(&json, store.put(&path, json.clone()).await?)))
        }
        _ => Ok(text(StatusCode::METHOD_NOT_ALLOWED, Vec::new())),
    }
}

fn text(code: StatusCode, body: Vec<u8>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()).boxed_unsync());
    *answer.status_mut() = code;
    answer
}

fn name_of(json: &[u8]) -> Result<String, String> {
    let object: serde_json::Value = serde_json::from_slice(json).map_err(|fault| fault.to_string())?;
    let name = object["metadata"]["name"].as_str().ok_or("an object without a name")?;
    Ok(name.to_owned())
}

/// The events of a message as a watch of Kubernetes has them: a line each.
fn lines(events: &[Event]) -> Vec<u8> {
    let mut out = Vec::new();
    for event in events {
        let Some(kv) = event.kv() else { continue };
        let kind = match event.event_type() {
            EventType::Delete => "DELETED",
            EventType::Put if kv.version() == 1 => "ADDED",
            EventType::Put => "MODIFIED",
        };
        out.extend_from_slice(format!(r#"{{"type":"{kind}","object":"#).as_bytes());
        out.extend_from_slice(&with_revision(kv.value(), kv.mod_revision().unsigned_abs()));
        out.extend_from_slice(b"}\n");
    }
    out
}

/// An object's JSON as a server of Kubernetes' API would give it.
fn with_revision(json: &[u8], revision: u64) -> Vec<u8> {
    let at = memchr::memmem::find(json, METADATA).map(|at| at + METADATA.len());
    let Some(at) = at else { return json.to_vec() };
    let (head, rest) = json.split_at(at);
    let comma = if rest.first() == Some(&b'}') { "" } else { "," };
    [head, format!(r#""resourceVersion":"{revision}"{comma}"#).as_bytes(), rest].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_stands_in_the_metadata() {
        let with = |json: &str| String::from_utf8(with_revision(json.as_bytes(), 7)).expect("text");
        assert_eq!(
            with(r#"{"metadata":{"name":"a"},"data":{}}"#),
            r#"{"metadata":{"resourceVersion":"7","name":"a"},"data":{}}"#
        );
        assert_eq!(with(r#"{"metadata":{}}"#), r#"{"metadata":{"resourceVersion":"7"}}"#);
        assert_eq!(with("{}"), "{}");
    }
}
