//! Discovery, health, protobuf bodies, and unknown paths.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Ask, CONFIG_MAPS, World};
use crate::api::protobuf::MEDIA_TYPE;
use crate::http::response::Caching;
use crate::serve::Life;

const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// What a document says: no apiVersion is "", and nothing is said by what is empty.
fn said(document: &Value) -> Value {
    match document {
        Value::Object(members) => {
            let kept = members.iter().map(|(name, value)| (name.clone(), said(value)));
            let is_empty = |value: &Value| {
                matches!(value, Value::Null)
                    || value.as_str() == Some("")
                    || value.as_object().is_some_and(serde_json::Map::is_empty)
            };
            Value::Object(kept.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(items) => items.iter().map(said).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => document.clone(),
    }
}

#[test]
fn discovery_in_three_forms_and_304() {
    let world = World::new();
    for path in ["/api", "/apis"] {
        let got = world.get_as(path, &format!("{V2},application/json"));
        let whole = got.whole();
        assert_eq!((got.code, whole.content_type, whole.vary), (200, V2, Some("Accept")));
        assert_eq!(whole.caching, Caching::Public);
        let etag = whole.etag.clone().unwrap();
        let again = world.ask(&Ask::new("GET", path).with("Accept", V2).with("If-None-Match", &etag));
        assert_eq!((again.code, again.body.as_str(), again.whole().etag.as_ref()), (304, "", Some(&etag)));
        let other = world.ask(&Ask::new("GET", path).with("Accept", V2).with("If-None-Match", "\"x\""));
        assert_eq!(other.code, 200);
        let beta = world.get_as(path, &V2.replace("v=v2", "v=v2beta1"));
        assert!(beta.body.contains("apidiscovery.k8s.io/v2beta1"));
        let plain = world.get(path);
        assert_eq!(
            (plain.whole().content_type, plain.whole().caching),
            ("application/json", Caching::Private)
        );
        let yaml = world.get_as(path, "application/yaml");
        assert_eq!((yaml.code, yaml.whole().content_type), (200, "application/yaml"));
        assert!(yaml.body.contains("kind: API"), "{}", yaml.body);
        for (accept, like) in
            [(MEDIA_TYPE.to_owned(), None), (V2.replace("application/json", MEDIA_TYPE), Some(V2))]
        {
            let packed = world.get_as(path, &accept);
            assert_eq!((packed.code, packed.whole().content_type), (200, accept.as_str()));
            assert_eq!(packed.whole().vary, Some("Accept"));
            let like = like.map_or_else(|| world.get(path), |like| world.get_as(path, like));
            assert_eq!(packed.whole().etag, like.whole().etag);
            assert_eq!(said(&packed.json()), said(&like.json()), "{path} {accept}");
        }
    }
    for path in ["/api/v1", "/apis/apps", "/apis/apps/v1", "/apis/example.com/v1"] {
        let packed = world.get_as(path, MEDIA_TYPE);
        assert_eq!((packed.code, packed.whole().content_type), (200, MEDIA_TYPE), "{path}");
        assert_eq!(said(&packed.json()), said(&world.get(path).json()), "{path}");
    }
    let version = world.get_as("/version", MEDIA_TYPE);
    assert_eq!((version.code, version.whole().content_type), (406, MEDIA_TYPE));
    assert_eq!(version.message(), "406: Not Acceptable\n\nAvailable representations: application/json");
    assert_eq!(world.get_as("/version", &format!("{MEDIA_TYPE},application/json")).code, 200);
    assert!(world.get_as("/version", "application/yaml").body.contains("\ngitVersion: v"));
    assert!(world.get_as("/api/v1", "application/yaml").body.contains("\nresources:\n- kind: "));
    let openapi = world.get_as("/openapi/v3", "application/yaml");
    assert_eq!(openapi.code, 406);
    assert!(openapi.body.contains("Available representations: application/json\n"), "{}", openapi.body);
    for path in ["/api/v1", "/apis/apps", "/apis/apps/v1", "/apis/example.com/v1", "/version", "/openapi/v3"]
    {
        assert!(world.get(path).json().is_object(), "{path}");
    }
    let index = world.get("/openapi/v3").json();
    for entry in index["paths"].as_object().unwrap().values() {
        assert_eq!(world.get(entry["serverRelativeURL"].as_str().unwrap()).code, 200);
    }
    let root = world.get("/").json();
    for path in root["paths"].as_array().unwrap() {
        assert_eq!(world.get(path.as_str().unwrap()).code, 200, "{path}");
    }
    for path in
        ["/nothing", "/apis/nope.example", "/apis/nope.example/v1", "/apis/apps/v9/deployments", "/metrics"]
    {
        let got = world.get(path);
        assert_eq!(
            (got.code, got.body.as_str(), got.whole().nosniff),
            (404, "404 page not found\n", true),
            "{path}"
        );
    }
    assert_eq!(world.get("/openapi/v2").json()["swagger"], "2.0");
    let old = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    // Its body is not text.
    let ask = Ask::new("GET", "/openapi/v2").with("Accept", old).with("If-None-Match", "*");
    let v2 = world.ask(&ask);
    assert_eq!((v2.code, v2.whole().content_type), (304, old.replace('@', ".").as_str()));
    assert_eq!(world.get_as("/openapi/v2", "application/yaml").code, 406);
    assert_eq!(world.get("/openapi/v3/apis/nope.example/v1").code, 404);
    assert_eq!(world.send("POST", "/version", &Value::Null).code, 405);
}

#[test]
fn health() {
    let world = World::new();
    for path in ["/livez", "/readyz", "/healthz", "/livez/ping", "/readyz/shutdown"] {
        let got = world.get(path);
        assert_eq!((got.code, got.body.as_str()), (200, "ok"), "{path}");
        assert_eq!(got.whole().content_type, "text/plain; charset=utf-8");
    }
    let verbose = world.get("/readyz?verbose&exclude=shutdown&exclude=x");
    assert_eq!(
        verbose.body,
        "[+]ping ok\n[+]poststarthook/storage-readiness ok\n[+]shutdown excluded: ok\nwarn: some health checks cannot \
         be excluded: no matches for \"x\"\nreadyz check passed\n"
    );
    assert_eq!(world.get("/livez/none").code, 404);
    world.app.stalls().note(255, true);
    let stalled = world.get("/readyz");
    assert_eq!(stalled.code, 503);
    assert!(stalled.body.contains("[-]shards failed: shard 255 does not turn\n"), "{}", stalled.body);
    assert_eq!((world.get("/livez").code, world.get("/readyz?exclude=shards").code), (200, 200));
    world.app.stalls().note(0, true);
    assert!(world.get("/readyz").body.contains("shards 0, 255 do not turn"));
    world.app.stalls().note(0, false);
    world.app.stalls().note(255, false);
    assert_eq!(world.get("/readyz").body, "ok");
    // About to close: everything is still served.
    for life in [Life::Lingering, Life::Closing] {
        assert_eq!(world.get(CONFIG_MAPS).code, 200);
        world.app.advance(life);
        let closing = world.get("/readyz");
        assert_eq!(closing.code, 503);
        assert!(
            closing.body.contains("[-]shutdown failed") && closing.body.ends_with("readyz check failed\n")
        );
        assert_eq!(world.get("/readyz?exclude=shutdown").code, 200);
        assert_eq!(world.get("/readyz/shutdown").code, 503);
        assert_eq!(world.get("/livez").code, 200);
    }
    let refused = world.get(CONFIG_MAPS);
    assert_eq!((refused.code, refused.whole().retry_after_seconds), (429, Some(5)));
    world.app.advance(Life::Serving);
    assert_eq!(world.app.life(), Life::Closing, "life never goes back");
}

/// The last label goes with its map (`kubectl label cm a x-`), as in Kubernetes.
#[test]
fn nothing_empty_stays_in_metadata() {
    let world = World::new();
    let object = json!({"metadata": {
        "name": "a", "labels": {"x": "y"}, "annotations": {}, "finalizers": [], "ownerReferences": []
    }});
    let made = world.send("POST", CONFIG_MAPS, &object).json();
    let members =
        |object: &Value| object["metadata"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        members(&made),
        ["name", "namespace", "uid", "resourceVersion", "creationTimestamp", "labels"]
    );
    let path = format!("{CONFIG_MAPS}/a");
    let ask = Ask::new("PATCH", &path).with("Content-Type", "application/merge-patch+json");
    let patched = world.ask(&ask.json(&json!({"metadata": {"labels": {"x": null}}}))).json();
    assert_eq!(members(&patched), ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"]);
}

#[test]
fn nothing_is_served_before_the_first_state() {
    let world = World::new();
    let app = super::App::new(
        std::sync::Arc::clone(world.app.catalogs()),
        std::sync::Arc::clone(world.app.epochs()),
        super::OPTIONS,
    );
    let world = World { app, host: world.host, budget: world.budget };
    let got = world.get(CONFIG_MAPS);
    assert_eq!((got.code, got.whole().retry_after_seconds), (429, Some(1)));
    assert!(got.message().starts_with("storage is (re)initializing"));
    assert_eq!(
        (world.get("/readyz").code, world.get("/livez").code, world.get("/api").code),
        (500, 200, 200)
    );
}

#[test]
fn what_kubectl_posts_as_protobuf() {
    let world = World::new();
    let mut made = 0;
    for (path, pb, json) in [
        (
            "/api/v1/namespaces/default/configmaps",
            &include_bytes!("../../../tests/fixtures/kubectl/configmaps.pb")[..],
            include_str!("../../../tests/fixtures/kubectl/configmaps.json"),
        ),
        (
            "/api/v1/namespaces/default/secrets",
            include_bytes!("../../../tests/fixtures/kubectl/secrets.pb"),
            include_str!("../../../tests/fixtures/kubectl/secrets.json"),
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            include_bytes!("../../../tests/fixtures/kubectl/deployments.pb"),
            include_str!("../../../tests/fixtures/kubectl/deployments.json"),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            include_bytes!("../../../tests/fixtures/kubectl/clusterroles.pb"),
            include_str!("../../../tests/fixtures/kubectl/clusterroles.json"),
        ),
        (
            "/api/v1/namespaces",
            include_bytes!("../../../tests/fixtures/kubectl/namespaces.pb"),
            include_str!("../../../tests/fixtures/kubectl/namespaces.json"),
        ),
    ] {
        let mut ask = Ask::new("POST", path).with("Content-Type", MEDIA_TYPE);
        ask.body = Bytes::from_static(pb);
        let got = world.ask(&ask);
        assert_eq!(got.code, 201, "{path} {}", got.body);
        let expected: Value = serde_json::from_str(json).unwrap();
        let stored = got.json();
        for member in ["data", "rules", "type", "subjects"] {
            if !expected[member].is_null() {
                assert_eq!(stored[member], expected[member], "{path} {member}");
            }
        }
        assert_eq!(stored["metadata"]["name"], expected["metadata"]["name"]);
        made += 1;
    }
    assert_eq!(made, 5);
    // DeleteOptions in protobuf, as typed clients send them: an envelope of `v1 DeleteOptions` without members.
    let mut options = b"k8s\0\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions\x12\x00\x1a\x00\x22\x00".to_vec();
    let mut ask = Ask::new("DELETE", "/api/v1/namespaces/default").with("Content-Type", MEDIA_TYPE);
    let name =
        world.get("/api/v1/namespaces").json()["items"][0]["metadata"]["name"].as_str().unwrap().to_owned();
    let target = format!("/api/v1/namespaces/{name}");
    ask.target = &target;
    ask.body = options.clone().into();
    let got = world.ask(&ask);
    assert_eq!(got.code, 200, "{}", got.body);
    options.truncate(9);
    let mut bad = Ask::new("POST", CONFIG_MAPS).with("Content-Type", MEDIA_TYPE);
    bad.body = options.into();
    assert_eq!(world.ask(&bad).code, 400);
}

#[test]
fn noise_never_panics() {
    let world = World::new();
    let targets = [
        "/api/v1/namespaces/a/pods",
        "/api/v1/namespaces/a/pods/x",
        "/api/v1/namespaces/a/pods/x/status",
        "/api/v1/namespaces/a/configmaps/x",
        "/api/v1/namespaces",
        "/api/v1/namespaces/x",
        "/api/v1/watch/pods",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/x",
        "/apis/example.com/v1/namespaces/a/widgets/x/status",
    ];
    let queries = [
        "",
        "watch=1",
        "limit=1",
        "continue=eyJ2",
        "labelSelector=a",
        "fieldSelector=metadata.name%3Dx",
        "resourceVersion=3",
        "resourceVersionMatch=Exact",
        "dryRun=All",
        "pretty=1",
        "resourceVersion=0",
    ];
    let accepts = [
        "*/*",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io",
    ];
    let media =
        ["application/json", "application/merge-patch+json", "application/json-patch+json", MEDIA_TYPE];
    let pieces = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"metadata\"",
        "\"name\"",
        "\"x\"",
        "null",
        "1",
        "\"finalizers\"",
        "\"labels\"",
        "\"\\u006eame\"",
        "\"a\\\\\\\"b\"",
        "1e300",
        "-0.0",
        "{\"metadata\":{\"name\":\"x\"}}",
        "\"spec\"",
        "\"status\"",
        "{\"metadata\":{\"name\":\"x\",\"finalizers\":[\"a/b\"]},\"status\":",
        "\"uid\"",
        "\"resourceVersion\"",
        "{\"metadata\":{\"name\":\"x\",\"\\\"\":1,\"y\":{\"z\":[{}]}}}",
    ];
    let wholes = [
        r#"{"metadata":{"name":"x"}}"#,
        r#"{"metadata":{"generateName":"x-"},"spec":1.5e300,"status":[]}"#,
        r#"{"metadata":{"name":"x","finalizers":["a/b"]},"status":{"phase":true}}"#,
        r#"{"metadata":{"name":"x","\"":1,"y":{"z":[{}]}},"spec":{"\n":"\u0000"}}"#,
        r#"[{"op":"copy","from":"/metadata","path":"/spec"},{"op":"remove","path":"/status"}]"#,
    ];
    let (mut written, mut refused) = (0, 0);
    for seed in 0..20_000_u64 {
        world.host.random.set(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let pick = |bound: usize| {
            usize::try_from((super::Host::random(&world.host) >> 33) % bound as u64).expect("below a usize")
        };
        let query = format!("{}&{}", queries[pick(queries.len())], queries[pick(queries.len())]);
        let target = format!("{}?{query}", targets[pick(targets.len())]);
        let method = ["GET", "POST", "PUT", "PATCH", "DELETE"][pick(5)];
        let body: String = if pick(3) == 0 {
            wholes[pick(wholes.len())].to_owned()
        } else {
            (0..pick(7)).map(|_| pieces[pick(pieces.len())]).collect()
        };
        let mut ask = Ask::new(method, &target)
            .with("Accept", accepts[pick(accepts.len())])
            .with("Content-Type", media[pick(media.len())]);
        ask.body = body.clone().into();
        let got = world.ask(&ask);
        let watched = matches!(got.reply, super::Reply::Watch(_));
        assert!(
            watched || serde_json::from_str::<Value>(&got.body).is_ok(),
            "seed {seed}: {ask:?} {}",
            got.body
        );
        assert_ne!(got.code, 500, "seed {seed}: {ask:?} {}", got.body);
        written += u32::from(got.code < 300 && method != "GET");
        refused += u32::from(got.code >= 400);
    }
    assert!(written > 200 && refused > 1000, "the noise reaches both ends: {written} {refused}");
}
