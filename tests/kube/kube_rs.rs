//! The `kube` crate, unchanged: its watcher in both strategies, its reflector, its writes and its waits. Beside an upstream it
//! speaks TLS and has a token.
#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm)]

use std::collections::BTreeSet;
use std::ops::Deref;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use futures::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Config, ResourceExt};
use revcast_tests::beside::Beside;
use revcast_tests::server::{Server, Store};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;
use tokio::time::timeout;

/// Long enough for anything that happens.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a test talks to.
enum Tested {
    Alone(Box<Server>),
    Beside(Box<Beside>),
}

impl Deref for Tested {
    type Target = Server;

    fn deref(&self) -> &Server {
        match self {
            Self::Alone(server) => server,
            Self::Beside(beside) => beside,
        }
    }
}

impl Tested {
    fn start(options: &[&str]) -> Self {
        if Store::chosen() == Store::Beside {
            Self::Beside(Box::new(Beside::start(options)))
        } else {
            Self::Alone(Box::new(Server::start(options)))
        }
    }

    fn config(&self) -> Config {
        match self {
            Self::Alone(server) => Config::new(format!("http://{}", server.address).parse().unwrap()),
            Self::Beside(beside) => {
                let mut config = Config::new(beside.url().parse().unwrap());
                config.root_cert = Some(vec![pem(&beside.ca())]);
                config.auth_info.token = Some(beside.token().to_owned().into());
                config
            }
        }
    }
}

/// The certificate in a file.
fn pem(file: &Path) -> Vec<u8> {
    CertificateDer::from_pem_file(file).unwrap().to_vec()
}

/// Runs a test on a separate server.
fn with_server<F: Future<Output = ()>>(options: &[&str], test: impl FnOnce(Client, Rc<Tested>) -> F) {
    let server = Rc::new(Tested::start(options));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::try_from(server.config()).unwrap();
        timeout(4 * PATIENCE, test(client, Rc::clone(&server))).await.expect("in time");
    });
    if let Tested::Beside(beside) = &*server {
        beside.check().unwrap();
    }
}

fn config_map(name: &str, k: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"app": "a"}}, "data": {"k": k}}))
        .unwrap()
}

async fn next<T>(stream: &mut (impl Stream<Item = watcher::Result<T>> + Unpin)) -> T {
    timeout(PATIENCE, stream.try_next()).await.expect("an event").expect("no error").expect("no end")
}

/// Waits until the cache has everything that was written: a streamed list asks with `resourceVersion=0`, which any
/// cache may answer with what it has.
async fn until_cached<K: Clone + std::fmt::Debug + serde::de::DeserializeOwned>(api: &Api<K>, count: usize) {
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), count);
}

async fn follow(client: Client, config: watcher::Config) {
    let maps: Api<ConfigMap> = Api::namespaced(client, "k");
    for name in ["a", "b", "c"] {
        maps.create(&PostParams::default(), &config_map(name, "0")).await.unwrap();
    }
    until_cached(&maps, 3).await;
    let mut events = Box::pin(watcher(maps.clone(), config));
    assert!(matches!(next(&mut events).await, watcher::Event::Init));
    let mut initial = BTreeSet::new();
    loop {
        match next(&mut events).await {
            watcher::Event::InitApply(object) => assert!(initial.insert(object.name_any())),
            watcher::Event::InitDone => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(initial, ["a", "b", "c"].map(str::to_owned).into());
    maps.create(&PostParams::default(), &config_map("d", "0")).await.unwrap();
    let patch = Patch::Merge(json!({"data": {"k": "1"}}));
    maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    maps.delete("b", &DeleteParams::default()).await.unwrap();
    for expected in ["apply d", "apply a", "delete b"] {
        let told = match next(&mut events).await {
            watcher::Event::Apply(object) => format!("apply {}", object.name_any()),
            watcher::Event::Delete(object) => format!("delete {}", object.name_any()),
            other => panic!("{other:?}"),
        };
        assert_eq!(told, expected);
    }
}

#[test]
fn a_watcher_that_lists() {
    with_server(&[], |client, _server| follow(client, watcher::Config::default().page_size(2)));
}

#[test]
fn a_watcher_that_streams_its_list() {
    with_server(&[], |client, _server| follow(client, watcher::Config::default().streaming_lists()));
}

#[test]
fn a_watcher_goes_on_over_many_watches() {
    with_server(&["--bookmark-interval", "1s"], |client, _server| async move {
        let maps: Api<ConfigMap> = Api::namespaced(client, "k");
        let config = watcher::Config::default().timeout(1).labels("app=a");
        let mut events = Box::pin(watcher(maps.clone(), config).applied_objects());
        let mut seen = Vec::new();
        let write = async {
            for number in 0..30 {
                maps.create(&PostParams::default(), &config_map(&format!("n{number:02}"), "0"))
                    .await
                    .unwrap();
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let read = async {
            while seen.len() < 30 {
                seen.push(next(&mut events).await.name_any());
            }
        };
        futures::join!(write, read);
        let expected: Vec<String> = (0..30).map(|number| format!("n{number:02}")).collect();
        assert_eq!(seen, expected, "each once, in order, over watches of a second");
    });
}

#[test]
fn a_reflector_keeps_the_state() {
    with_server(&[], |client, server| async move {
        let pods: Api<Pod> = Api::namespaced(client, "k");
        let pod = |name: &str| -> Pod {
            serde_json::from_value(
                json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c"}]}}),
            )
            .unwrap()
        };
        for number in 0..20 {
            pods.create(&PostParams::default(), &pod(&format!("p{number:02}"))).await.unwrap();
        }
        until_cached(&pods, 20).await;
        let (store, writer) = reflector::store();
        let config = watcher::Config::default().streaming_lists();
        let stream = reflector::reflector(writer, watcher(pods.clone(), config)).touched_objects();
        let mut stream = Box::pin(stream);
        let drive = async { while stream.next().await.is_some() {} };
        let work = async {
            store.wait_until_ready().await.unwrap();
            assert_eq!(store.len(), 20);
            let patch = Patch::Merge(json!({"status": {"phase": "Running"}}));
            pods.patch_status("p07", &PatchParams::default(), &patch).await.unwrap();
            pods.delete("p08", &DeleteParams::default()).await.unwrap();
            pods.create(&PostParams::default(), &pod("last")).await.unwrap();
            while store.get(&ObjectRef::new("last").within("k")).is_none() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            assert_eq!(store.len(), 20);
            assert!(store.get(&ObjectRef::new("p08").within("k")).is_none());
            let running = store.get(&ObjectRef::new("p07").within("k")).unwrap();
            assert_eq!(running.status.as_ref().and_then(|s| s.phase.as_deref()), Some("Running"));
            assert_eq!(server.metric("revcast_watchers"), 1);
        };
        tokio::select! {
            () = drive => panic!("the stream ended"),
            () = work => {}
        }
    });
}

#[test]
fn applies_of_two_managers() {
    with_server(&[], |client, _server| async move {
        let maps: Api<ConfigMap> = Api::namespaced(client, "k");
        let config = |data: serde_json::Value| {
            Patch::Apply(
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data}),
            )
        };
        let (ours, theirs) = (PatchParams::apply("ours"), PatchParams::apply("theirs"));
        let made = maps.patch("m", &ours, &config(json!({"a": "1", "b": "1"}))).await.unwrap();
        let same = maps.patch("m", &ours, &config(json!({"a": "1", "b": "1"}))).await.unwrap();
        assert_eq!(made, same);
        maps.patch("m", &theirs, &config(json!({"b": "1", "c": "1"}))).await.unwrap();
        let error = maps.patch("m", &theirs, &config(json!({"a": "2"}))).await.unwrap_err();
        assert!(matches!(&error, kube::Error::Api(status) if status.code == 409), "{error}");
        let data = |map: ConfigMap| serde_json::to_value(map.data).unwrap();
        let left = maps.patch("m", &ours, &config(json!({"a": "1"}))).await.unwrap();
        assert_eq!(data(left), json!({"a": "1", "b": "1", "c": "1"}));
        let taken = maps.patch("m", &theirs.force(), &config(json!({"a": "2"}))).await.unwrap();
        assert_eq!(data(taken), json!({"a": "2"}));
        let owners = maps.get("m").await.unwrap().metadata.managed_fields.unwrap();
        assert_eq!(owners.len(), 1, "{owners:?}");
        let strategic = Patch::Strategic(json!({"data": {"d": "1"}}));
        let patched = maps.patch("m", &PatchParams::default(), &strategic).await.unwrap();
        assert_eq!(data(patched), json!({"a": "2", "d": "1"}));
    });
}

#[test]
fn writes_pages_and_waits() {
    with_server(&[], |client, _server| async move {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "k");
        for number in 0..5 {
            maps.create(&PostParams::default(), &config_map(&format!("n{number}"), "0")).await.unwrap();
        }
        let mut names = Vec::new();
        let mut page = ListParams::default().limit(2);
        loop {
            let list = maps.list(&page).await.unwrap();
            names.extend(list.iter().map(ResourceExt::name_any));
            let Some(token) = list.metadata.continue_.filter(|token| !token.is_empty()) else { break };
            page = page.continue_token(&token);
        }
        assert_eq!(names, ["n0", "n1", "n2", "n3", "n4"]);
        let twice = maps.create(&PostParams::default(), &config_map("n0", "0")).await;
        assert!(matches!(twice, Err(kube::Error::Api(status)) if status.code == 409));
        assert!(maps.get_opt("none").await.unwrap().is_none());
        let mut stale = maps.get("n0").await.unwrap();
        maps.patch("n0", &PatchParams::default(), &Patch::Merge(json!({"data": {"k": "1"}}))).await.unwrap();
        stale.data = None;
        let late = maps.replace("n0", &PostParams::default(), &stale).await;
        assert!(matches!(late, Err(kube::Error::Api(status)) if status.code == 409));

        let start = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
        let parameters = WatchParams::default().timeout(10);
        let mut raw = maps.watch(&parameters, &start).await.unwrap().boxed();
        maps.delete("n4", &DeleteParams::default()).await.unwrap();
        let event = timeout(PATIENCE, raw.try_next()).await.unwrap().unwrap().unwrap();
        assert!(matches!(event, WatchEvent::Deleted(object) if object.name_any() == "n4"));

        let pods: Api<Pod> = Api::namespaced(client, "k");
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}});
        let made = pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        let running = await_condition(pods.clone(), "p", conditions::is_pod_running());
        let start = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let patch = Patch::Merge(json!({"status": {"phase": "Running"}}));
            pods.patch_status("p", &PatchParams::default(), &patch).await.unwrap();
        };
        let (running, ()) = futures::join!(running, start);
        assert_eq!(running.unwrap().unwrap().uid(), made.uid());
        let uid = made.uid().unwrap();
        let gone = await_condition(pods.clone(), "p", conditions::is_deleted(&uid));
        let delete = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            pods.delete("p", &DeleteParams::default()).await.unwrap();
        };
        let (gone, _) = futures::join!(timeout(PATIENCE, gone), delete);
        gone.unwrap().unwrap();
        assert!(maps.delete_collection(&DeleteParams::default(), &ListParams::default()).await.is_ok());
        assert!(maps.list(&ListParams::default()).await.unwrap().items.is_empty());
    });
}

#[test]
fn a_watcher_starts_anew_behind_a_compaction() {
    with_server(&["--ring-events", "1024"], |client, server| async move {
        let maps: Api<ConfigMap> = Api::namespaced(client, "k");
        maps.create(&PostParams::default(), &config_map("a", "0")).await.unwrap();
        let stale = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
        for number in 0..5 {
            let patch = Patch::Merge(json!({"data": {"k": format!("x{number}")}}));
            maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
        }
        // A list without a version: what it has seen may be compacted.
        let newest = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
        let reply = server.admin_client().request("POST", &format!("/compact?revision={newest}"), &[], &[]);
        assert_eq!(reply.status, 200, "{}", reply.text());
        let mut raw = maps.watch(&WatchParams::default(), &stale).await.unwrap().boxed();
        let event = timeout(PATIENCE, raw.try_next()).await.unwrap().unwrap().unwrap();
        assert!(
            matches!(event, WatchEvent::Error(status) if status.code == 410 && status.reason == "Expired")
        );
    });
}
