//! A resource with a value that cannot be read here, as one that is encrypted, is the upstream's as a whole while the value is there.

use std::time::{Duration, Instant};

use revcast_tests::etcd::{Etcd, Options, Release};
use revcast_tests::upstream::{Next, Upstream};
use serde_json::json;

use super::Pair;

const SECRETS: &str = "/api/v1/namespaces/a/secrets";

fn secret(name: &str) -> String {
    json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": name, "namespace": "a"}}).to_string()
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} never happened");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_value_that_cannot_be_read_makes_its_resource_the_upstreams() {
    let etcd = Etcd::start(Release::V3_5, Options::default());
    let control = etcd.control();
    control.put("/registry/secrets/a/good", secret("good")).unwrap();
    control.put("/registry/configmaps/a/other", secret("other").replace("Secret", "ConfigMap")).unwrap();
    let upstream = Upstream::start();
    upstream.on("*", |exchange| {
        if exchange.asked.target().contains("watch=") {
            exchange.send(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
            )?;
            let event = "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"name\":\"of-the-upstream\"}}}\n";
            exchange.send(format!("{:x}\r\n{event}\r\n0\r\n\r\n", event.len()))?;
            return Ok(Next::KeepAlive);
        }
        exchange.reply("200 OK\nContent-Type: application/json", "{\"kind\":\"OfTheUpstream\"}")
    });
    let pair = Pair::before(upstream, &["--etcd-endpoints", &etcd.endpoint()]);
    let client = pair.client();
    let paths = [
        SECRETS,
        "/api/v1/secrets",
        "/api/v1/secrets?labelSelector=a",
        "/api/v1/namespaces/b/secrets",
        &format!("{SECRETS}/good"),
    ];
    let kinds = || paths.map(|path| client.get(path).json()["kind"].as_str().unwrap_or_default().to_owned());
    let here = ["SecretList", "SecretList", "SecretList", "SecretList", "Secret"].map(str::to_owned);
    eventually("the secret", || kinds() == here);
    let mut watch = client.watch(&format!("{SECRETS}?watch=1")).unwrap();
    assert_eq!(watch.next_event().1["metadata"]["name"], "good");
    assert_eq!(pair.upstream.asked().len(), 0);
    for _ in 0..2 {
        control.put("/registry/secrets/a/sealed", b"k8s:enc:aescbc:v1:key1:\x01\x02").unwrap();
        eventually("the upstream's turn", || client.get(SECRETS).json()["kind"] == "OfTheUpstream");
        assert_eq!(kinds(), ["OfTheUpstream"; 5].map(str::to_owned), "as a whole");
        // The older watch is told that it cannot go on, and a new one is the upstream's.
        let told = watch.rest();
        assert_eq!(
            told.last().map(|(kind, object)| (kind.as_str(), object["code"].clone())),
            Some(("ERROR", json!(500))),
            "{told:?}"
        );
        let mut theirs = client.watch(&format!("{SECRETS}?watch=1")).unwrap();
        assert_eq!(theirs.next_event().1["metadata"]["name"], "of-the-upstream");
        assert!(theirs.rest().is_empty());
        // Other resources are served here.
        let asked = pair.upstream.asked().len();
        assert_eq!(client.get("/api/v1/configmaps").json()["items"].as_array().unwrap().len(), 1);
        assert_eq!(pair.upstream.asked().len(), asked);
        control.del("/registry/secrets/a/sealed").unwrap();
        eventually("the cache's turn", || kinds() == here);
        watch = client.watch(&format!("{SECRETS}?watch=1")).unwrap();
        assert_eq!(watch.next_event().1["metadata"]["name"], "good");
    }
}
