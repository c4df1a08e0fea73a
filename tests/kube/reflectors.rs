//! Twenty reflectors of the `kube` crate, as one controller has them, with the writes on one connection of HTTP/2 over TLS: every store sees every
//! change, in order.
//!
//! The crate's own connector offers HTTP/1.1 alone; hyper makes this connection, and the client knows no other.
#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use futures::{StreamExt, TryStreamExt, stream};
use http::header::AUTHORIZATION;
use http::{Request, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::runtime::{reflector, watcher};
use kube::{Api, Client, ResourceExt};
use revcast_tests::alone::Alone;
use revcast_tests::server::embedded_only;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

/// Long enough for all of it.
const PATIENCE: Duration = Duration::from_secs(60);
const REFLECTORS: usize = 20;
/// Objects, and how often each is patched; half of them are deleted then, and created again.
const OBJECTS: usize = 200;
const PATCHES: usize = 8;
const WRITES: usize = OBJECTS + PATCHES * OBJECTS + OBJECTS / 2 + OBJECTS / 2;
/// Writes under way at once.
const AT_ONCE: usize = 10;

/// A client over one connection, which is made here: the only one that it ever has.
async fn client(server: &Alone) -> Client {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(server.secrets().ca()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let socket = TcpStream::connect(&server.address).await.unwrap();
    socket.set_nodelay(true).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let (url, token) = (server.url(), format!("Bearer {}", server.secrets().token()));
    let service = tower::service_fn(move |mut request: Request<Body>| {
        let mut sender = sender.clone();
        let uri = format!("{url}{}", request.uri().path_and_query().unwrap());
        *request.uri_mut() = uri.parse::<Uri>().unwrap();
        request.headers_mut().insert(AUTHORIZATION, token.parse().unwrap());
        async move {
            sender.ready().await?;
            sender.send_request(request).await
        }
    });
    Client::new(service, "k")
}

fn name(number: usize) -> String {
    format!("n{number:03}")
}

async fn create(maps: &Api<ConfigMap>, number: usize) -> ConfigMap {
    let map = json!({"metadata": {"name": name(number)}, "data": {"k": "0"}});
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap()
}

/// Makes every write, and tells in which order their events must come.
async fn write(maps: &Api<ConfigMap>) -> Vec<String> {
    let mut told = Vec::new();
    let mut batch = |mut made: Vec<ConfigMap>| {
        made.sort_by_key(|map| map.resource_version().unwrap().parse::<u64>().unwrap());
        told.extend(made.iter().map(apply));
    };
    batch(stream::iter(0..OBJECTS).map(|number| create(maps, number)).buffered(AT_ONCE).collect().await);
    for value in 0..PATCHES {
        let patch = Patch::Merge(json!({"data": {"k": format!("of {value}")}}));
        let patched = stream::iter(0..OBJECTS).map(|number| {
            let patch = patch.clone();
            async move { maps.patch(&name(number), &PatchParams::default(), &patch).await.unwrap() }
        });
        batch(patched.buffered(AT_ONCE).collect().await);
    }
    for number in 0..OBJECTS / 2 {
        maps.delete(&name(number), &DeleteParams::default()).await.unwrap();
        told.push(format!("delete {}", name(number)));
    }
    for number in 0..OBJECTS / 2 {
        told.push(apply(&create(maps, number).await));
    }
    told
}

fn apply(map: &ConfigMap) -> String {
    format!("apply {} of {}", map.name_any(), map.resource_version().unwrap())
}

/// Follows every write with a store. What it was told, and what it has at the end.
async fn reflect(
    maps: Api<ConfigMap>,
    config: watcher::Config,
    ready: &AtomicUsize,
) -> (Vec<String>, Vec<String>) {
    let (store, writer) = reflector::store();
    let mut events = Box::pin(reflector(writer, watcher(maps, config)));
    let mut told = Vec::new();
    while told.len() < WRITES {
        match events.try_next().await.expect("no error").expect("no end") {
            watcher::Event::InitDone => _ = ready.fetch_add(1, Ordering::Relaxed),
            watcher::Event::Apply(map) => told.push(apply(&map)),
            watcher::Event::Delete(map) => told.push(format!("delete {}", map.name_any())),
            watcher::Event::Init | watcher::Event::InitApply(_) => {}
        }
    }
    let mut kept: Vec<String> = store.state().iter().map(|map| apply(map)).collect();
    kept.sort();
    (told, kept)
}

#[test]
fn twenty_on_one_connection_see_every_change() {
    if !embedded_only("its clients speak to one server, which has users") {
        return;
    }
    let server = Alone::start(&["--shards", "1"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(PATIENCE, run(&server)).await.expect("in time") });
    drop(runtime);
    server.wait_for_metric("revcast_watchers", 0);
}

async fn run(server: &Alone) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client(server).await);
    let ready = AtomicUsize::new(0);
    let reflectors = (0..REFLECTORS).map(|number| {
        let config = watcher::Config::default();
        let config = if number % 2 == 0 { config } else { config.streaming_lists() };
        reflect(maps.clone(), config, &ready)
    });
    let writes = async {
        while ready.load(Ordering::Relaxed) < REFLECTORS
            || server.metric("revcast_watchers") < REFLECTORS as u64
        {
            sleep(Duration::from_millis(10)).await;
        }
        let written = write(&maps).await;
        let mut listed: Vec<String> =
            maps.list(&ListParams::default()).await.unwrap().iter().map(apply).collect();
        listed.sort();
        let carries = |what: &str| server.metric(&format!("revcast_connections_open{{carries=\"{what}\"}}"));
        assert_eq!((carries("http2"), carries("watch")), (1, 0), "all watches are on one connection");
        (written, listed)
    };
    let (seen, (written, listed)) = futures::join!(join_all(reflectors), writes);
    assert_eq!(written.len(), WRITES);
    for (number, (told, kept)) in seen.into_iter().enumerate() {
        assert_eq!(told.len(), WRITES, "reflector {number}");
        if let Some(at) = (0..WRITES).find(|at| told[*at] != written[*at]) {
            panic!("reflector {number}, event {at}: {}, not {}", told[at], written[at]);
        }
        assert_eq!(kept, listed, "reflector {number}");
    }
}
