//! What is served from the cache is served whatever the upstream does; discovery as it was, or as this server knows it.

use std::time::{Duration, Instant};

use revcast_tests::server::{Scratch, Server};
use revcast_tests::upstream::{Next, Upstream};
use serde_json::json;

use super::{CACHED, Pair};

const DISCOVERY: [&str; 8] =
    ["/", "/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/openapi/v3", "/version"];

/// A store with two ConfigMaps, which a server without an upstream wrote.
fn filled(scratch: &Scratch) -> Vec<String> {
    let options = ["--data-dir", scratch.path()].map(str::to_owned).to_vec();
    let server = Server::start(&options.iter().map(String::as_str).collect::<Vec<_>>());
    for name in ["a", "b"] {
        let object = json!({"metadata": {"name": name}, "data": {"k": "v"}});
        assert_eq!(server.client().send("POST", CACHED, &object).status, 201);
    }
    assert_eq!(server.terminate(), Some(0));
    options
}

#[test]
fn reads_and_watches_go_on_whatever_the_upstream_does() {
    if !revcast_tests::server::embedded_only("it has a data folder") {
        return;
    }
    let scratch = Scratch::new("upstream-cached");
    let options = filled(&scratch);
    let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
    options.extend(["--upstream-timeout", "1s"]);
    let mut pair = Pair::before(Upstream::start(), &options);
    let client = pair.client();
    let mut watch = client.watch(&format!("{CACHED}?watch=1")).unwrap();
    let mut names: Vec<_> =
        watch.events(2).iter().map(|(_, object)| object["metadata"]["name"].clone()).collect();
    names.sort_by_key(ToString::to_string);
    assert_eq!(names, ["a", "b"]);
    let served = |what: &str| {
        let since = Instant::now();
        assert_eq!(client.get(CACHED).json()["items"].as_array().unwrap().len(), 2, "{what}");
        assert_eq!(client.get(&format!("{CACHED}/a")).json()["data"]["k"], "v", "{what}");
        assert_eq!(client.get(&format!("{CACHED}/nobody")).status, 404, "{what}");
        let mut fresh = client.watch(&format!("{CACHED}?watch=1")).unwrap();
        assert_eq!(fresh.events(2).len(), 2, "{what}");
        for path in ["/livez", "/readyz", "/healthz"] {
            assert_eq!(client.get(path).text(), "ok", "{what}: {path}");
        }
        assert!(since.elapsed() < Duration::from_secs(1), "{what}: {:?}", since.elapsed());
    };
    served("it answers");
    let asked = pair.upstream.asked().len();
    assert_eq!(asked, 0, "{:?}", pair.upstream.asked());
    pair.upstream.on_bytes("/garbage", "no HTTP\r\n\r\n");
    pair.upstream.on("/hung", |exchange| exchange.await_close().map(|_| Next::Close));
    pair.upstream.on("/slow", |exchange| {
        exchange.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")?;
        for _ in 0..10 {
            exchange.send("x")?;
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(Next::Close)
    });
    std::thread::scope(|scope| {
        for path in ["/garbage", "/hung", "/slow"] {
            for _ in 0..10 {
                scope.spawn(|| client.get(path));
            }
        }
        std::thread::sleep(Duration::from_millis(100));
        served("it is busy");
    });
    pair.upstream.stop();
    served("it is down");
    for (method, body) in [("POST", &b"{}"[..]), ("PUT", b"{}"), ("PATCH", b"{}"), ("DELETE", b"")] {
        let reply =
            client.request(method, &format!("{CACHED}/a"), &[("content-type", "application/json")], body);
        assert_eq!(
            (reply.status, reply.json()["kind"].clone()),
            (502, json!("Status")),
            "{method}: {}",
            reply.text()
        );
    }
    assert_eq!(pair.server.metric("revcast_watchers"), 1, "the first watch goes on");
}

#[test]
fn discovery_is_the_last_that_was_seen() {
    let mut pair = Pair::new(&[]);
    let client = pair.client();
    for path in DISCOVERY {
        pair.upstream.on(path, move |exchange| {
            let accept = exchange.asked.header("accept").unwrap_or_default();
            exchange.reply(
                "200 OK\nContent-Type: application/json\nETag: \"1\"\nX-Other: yes",
                format!("{{\"{path}\":\"{accept}\"}}"),
            )
        });
    }
    let ask = |path: &str, accept: &str| client.request("GET", path, &[("accept", accept)], b"");
    let mut seen = Vec::new();
    for path in DISCOVERY {
        let reply = ask(path, "application/json");
        assert_eq!(reply.text(), format!("{{\"{path}\":\"application/json\"}}"));
        assert_eq!(reply.header("age"), None);
        seen.push(reply.body);
    }
    // A newer reply takes the place of an older one, a refusal does not.
    pair.upstream
        .on("/api", |exchange| exchange.reply("200 OK\nContent-Type: application/json", "{\"newer\":true}"));
    assert_eq!(ask("/api", "application/json").text(), "{\"newer\":true}");
    pair.upstream.on("/api", |exchange| exchange.reply("403 Forbidden", "no"));
    assert_eq!(ask("/api", "application/json").status, 403);
    pair.upstream.stop();
    for (path, body) in DISCOVERY.into_iter().zip(seen) {
        let reply = ask(path, "application/json");
        let expected = if path == "/api" { b"{\"newer\":true}".to_vec() } else { body };
        assert_eq!((reply.status, &reply.body), (200, &expected), "{path}");
        let age: u64 = reply.header("age").expect("an age").parse().unwrap();
        assert!(age < 60, "{age}");
        assert_eq!(reply.header("content-type"), Some("application/json"));
    }
    // Another form of the document was never seen.
    let other = ask("/apis", "application/yaml");
    assert_eq!((other.status, other.header("age")), (200, None));
    assert!(other.text().contains("kind: APIGroupList"), "{}", other.text());
    // Whether the connection goes on is not the copy's.
    let mut connection = client.connect().unwrap();
    for _ in 0..2 {
        let reply = connection.request("GET", "/version", &[("accept", "application/json")], b"").unwrap();
        assert!(reply.header("age").is_some() && reply.header("connection").is_none());
    }
    pair.upstream.resume();
    assert_eq!(ask("/version", "application/json").header("age"), None, "it is asked first");
}

#[test]
fn discovery_that_was_never_seen_is_this_servers() {
    let mut pair = Pair::new(&[]);
    pair.upstream.stop();
    let client = pair.client();
    for (path, kind) in [
        ("/api", "APIVersions"),
        ("/apis", "APIGroupList"),
        ("/api/v1", "APIResourceList"),
        ("/apis/apps", "APIGroup"),
        ("/apis/apps/v1", "APIResourceList"),
    ] {
        let reply = client.get(path);
        assert_eq!(
            (reply.status, reply.json()["kind"].as_str()),
            (200, Some(kind)),
            "{path}: {}",
            reply.text()
        );
        assert_eq!(reply.header("age"), None, "{path}");
    }
    assert!(client.get("/openapi/v3").json()["paths"].is_object());
    assert!(client.get("/version").json()["gitVersion"].is_string());
    assert_eq!(client.request("POST", "/apis", &[], b"{}").status, 502);
    assert_eq!(client.get("/apis/example.com/v1/things").status, 502);
}

/// What is cached, and what is not: by the upstream's record.
#[test]
fn what_is_not_cached_is_forwarded() {
    let pair = Pair::new(&[]);
    let client = pair.client();
    for path in [
        CACHED,
        "/api/v1/configmaps?limit=5",
        "/api/v1/namespaces/t/configmaps/a",
        "/apis/apps/v1/deployments",
        "/apis/apps/v1/namespaces/t/deployments/a/status",
        "/api/v1/nodes?labelSelector=a",
        "/livez",
        "/readyz?verbose",
    ] {
        let _ = client.get(path);
    }
    assert_eq!(pair.upstream.asked().len(), 0, "{:?}", pair.upstream.asked());
    let forwarded = [
        ("GET", "/apis/apps/v1/namespaces/t/deployments/a/scale"),
        ("GET", "/api/v1/namespaces/t/pods/a/log"),
        ("GET", "/api/v1/namespaces/t/pods/a/exec?command=ls"),
        ("GET", "/api/v1/namespaces/t/services/a/proxy/x"),
        ("GET", "/apis/example.com/v1/things"),
        ("GET", "/apis/apps/v1/nothings"),
        ("GET", "/metrics"),
        ("GET", "/logs"),
        ("GET", "/.well-known/openid-configuration"),
        ("HEAD", CACHED),
        ("POST", CACHED),
        ("DELETE", CACHED),
        ("PUT", "/api/v1/namespaces/t/configmaps/a"),
        ("PATCH", "/api/v1/namespaces/t/configmaps/a"),
        ("PUT", "/apis/apps/v1/namespaces/t/deployments/a/status"),
        ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews"),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        ("POST", "/api/v1/namespaces/t/serviceaccounts/a/token"),
        ("POST", "/api/v1/namespaces/t/pods/a/eviction"),
        ("POST", "/api/v1/namespaces/t/pods/a/binding"),
    ];
    for (number, (method, path)) in forwarded.into_iter().enumerate() {
        let reply = client.request(method, path, &[("content-type", "application/json")], b"");
        assert_eq!(reply.status, 200, "{method} {path}: {}", reply.text());
        assert_eq!(pair.upstream.asked().len(), number + 1, "{method} {path}");
    }
}
