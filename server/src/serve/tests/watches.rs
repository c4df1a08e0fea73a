//! WATCH: the subscription for a request.

use std::time::Duration;

use bytes::Bytes;
use revcast_engine::codec::Decoder;
use revcast_engine::encoding::{Encode, Encoding, Shown, Subject, View};
use revcast_engine::key::Key;
use revcast_engine::message::MessageKind;
use revcast_engine::revision::Revision;
use revcast_engine::{Object, Scope, Start};
use serde_json::{Value, json};

use super::{Ask, CONFIG_MAPS, World};

#[test]
fn where_it_starts() {
    let world = World::new();
    let watch = |query: &str| world.get(&format!("{CONFIG_MAPS}?watch=true&{query}")).watch_request();
    let state = |end_mark| Start::State { end_mark };
    // The newest revision at the time of the request, not at the time the shard takes the watch.
    let now = Start::After(world.app.epoch().feed.revision());
    for (query, start, bookmarks) in [
        ("", state(false), false),
        ("resourceVersion=0", state(false), false),
        ("allowWatchBookmarks=true", state(true), true),
        ("resourceVersion=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", state(false), false),
        ("sendInitialEvents=false&resourceVersionMatch=NotOlderThan", now, false),
        ("resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", now, false),
        ("resourceVersion=77&allowWatchBookmarks=1", Start::After(Revision::new(77)), true),
    ] {
        let watch_request = watch(query);
        assert_eq!(
            (watch_request.subscription.start, watch_request.subscription.bookmarks),
            (start, bookmarks),
            "{query}"
        );
    }
    assert_eq!(watch("timeoutSeconds=7").subscription.timeout, Duration::from_secs(7));
    for _ in 0..20 {
        let seconds = watch("").subscription.timeout.as_secs();
        assert!((1800..3600).contains(&seconds), "{seconds}");
    }
    let mut old = Ask::new("GET", "/api/v1/configmaps?watch=true");
    old.http = "HTTP/1.0";
    let refused = world.ask(&old);
    assert_eq!(refused.code, 400);
    assert!(refused.message().contains("use HTTP/1.1"));
}

#[test]
fn what_it_covers() {
    let world = World::new();
    let scope = |target: &str| {
        let watch_request = world.get(target).watch_request();
        let text = |part: Option<Box<str>>| part.map(|part| part.to_string()).unwrap_or_default();
        let Scope::Objects(scope) = watch_request.subscription.scope else { panic!("a resource") };
        (text(scope.namespace), text(scope.name), watch_request.subscription.selector.is_everything())
    };
    let of = |namespace: &str, name: &str, all| (namespace.to_owned(), name.to_owned(), all);
    for (target, expected) in [
        ("/api/v1/configmaps?watch=1", of("", "", true)),
        ("/api/v1/watch/configmaps", of("", "", true)),
        ("/api/v1/watch/namespaces/t1/configmaps?watch=false", of("t1", "", true)),
        ("/api/v1/watch/namespaces/t1/configmaps/cm1", of("t1", "cm1", true)),
        (
            "/api/v1/watch/namespaces/t1/configmaps/cm1?fieldSelector=metadata.name%3Dcm1",
            of("t1", "cm1", true),
        ),
        ("/api/v1/watch/nodes/n1", of("", "n1", true)),
        ("/api/v1/configmaps?watch=1&fieldSelector=metadata.name%3Da", of("", "a", true)),
        (
            "/api/v1/configmaps?watch=1&fieldSelector=metadata.name%3Da,metadata.namespace%3Db",
            of("b", "a", true),
        ),
        ("/api/v1/configmaps?watch=1&labelSelector=a", of("", "", false)),
        // A term that contradicts the path stays in the selector, which then selects nothing.
        (
            "/api/v1/namespaces/t1/configmaps?watch=1&fieldSelector=metadata.namespace%3Db",
            of("t1", "", false),
        ),
        ("/api/v1/nodes?watch=1&fieldSelector=metadata.name%3Dn1", of("", "n1", true)),
    ] {
        assert_eq!(scope(target), expected, "{target}");
    }
    assert_eq!(world.get("/api/v1/watch/configmaps/cm1").code, 404, "a config map has a namespace");
}

#[test]
fn forms_are_encodings() {
    let world = World::new();
    let encoding = |accept: &str, include: &str| {
        let target = format!("{CONFIG_MAPS}?watch=true&includeObject={include}");
        world.get_as(&target, accept).watch_request().subscription.encoding
    };
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let beta = "application/json;as=Table;v=v1beta1;g=meta.k8s.io";
    let metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let mut all = vec![encoding("application/json", "")];
    for include in ["None", "Metadata", "Object"] {
        all.push(encoding(table, include));
        all.push(encoding(beta, include));
    }
    all.push(encoding(metadata, ""));
    all.push(encoding(&metadata.replace("v=v1", "v=v1beta1"), "Object"));
    assert_eq!(all[0], Encoding::Json);
    let mut unique = all.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!((unique.len(), all.len()), (9, 9));
    assert_eq!(world.get_as(&format!("{CONFIG_MAPS}?watch=true"), "application/yaml").code, 406);

    let encoder = super::Encoder::new(std::sync::Arc::clone(world.app.catalogs()));
    let key = world.key("configmaps", "t1", "del1");
    let json = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"del1","namespace":"t1","resourceVersion":"104","creationTimestamp":"2026-11-21T05:38:06Z"},"data":{"k":"v"}}"#;
    let object = stored(&world, &key, json, 104);
    for (accept, encoding) in
        [(table, encoding(table, "")), (beta, encoding(beta, "")), (metadata, encoding(metadata, ""))]
    {
        let Encoding::Other(encoding) = encoding else { panic!("{accept}") };
        for first in [false, true] {
            let mut out = Vec::new();
            encoder
                .event(&mut out, View { encoding, first, event: shown(&object, MessageKind::Modified) })
                .unwrap();
            let event: Value = serde_json::from_slice(&out).unwrap();
            assert_eq!((&event["type"], out.last()), (&json!("MODIFIED"), Some(&b'\n')));
            let shown = &event["object"];
            if accept == metadata {
                assert!(!encoder.first_differs(encoding));
                assert_eq!(shown["kind"], "PartialObjectMetadata");
                continue;
            }
            assert!(encoder.first_differs(encoding));
            assert_eq!(shown["columnDefinitions"].is_null(), !first);
            assert_eq!(shown["metadata"], json!({"resourceVersion": "104"}));
            assert_eq!(shown["rows"][0]["cells"], json!(["del1", 1, "7s"]));
        }
    }
}

/// What a source would have stored as `json`, with the revision in it.
fn stored(world: &World, key: &Key, json: &str, revision: u64) -> Object {
    let resource = world.app.catalogs().schema().get(key.resource());
    let value = Bytes::copy_from_slice(json.as_bytes());
    Object::read(&mut Decoder::new(), resource, key.clone(), &value, Revision::new(revision))
}

fn shown(object: &Object, kind: MessageKind) -> Shown<'_> {
    let subject = Subject::Object { key: object.key(), value: object.value() };
    Shown { kind, subject, revision: object.revision(), as_of_seconds: super::NOW }
}

#[test]
fn table_events_are_as_recorded() {
    let world = World::new();
    let encoder = super::Encoder::new(std::sync::Arc::clone(world.app.catalogs()));
    let recorded = super::recorded::exchanges(include_str!("../../../tests/fixtures/recorded-tables.txt"));
    let mut compared = 0;
    for exchange in
        recorded.iter().filter(|x| x.target.contains("watch=true") && x.body.starts_with("{\"type"))
    {
        let watch_request =
            world.get_as(&exchange.target, exchange.accept.as_deref().unwrap()).watch_request();
        let Encoding::Other(encoding) = watch_request.subscription.encoding else { panic!("{exchange:?}") };
        for (index, line) in exchange.body.lines().filter(|line| !line.is_empty()).enumerate() {
            let event: Value = serde_json::from_str(line).unwrap();
            let row = &event["object"]["rows"][0]["object"];
            let metadata = if row.is_null() { &event["object"]["metadata"] } else { &row["metadata"] };
            let json = format!(
                r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{metadata},"data":{{"k":"v"}}}}"#
            );
            let version = metadata["resourceVersion"].as_str().unwrap().parse().unwrap();
            let object = stored(&world, &world.key("configmaps", "t1", "x"), &json, version);
            let kind = match event["type"].as_str() {
                Some("ADDED") => MessageKind::Added,
                Some("MODIFIED") => MessageKind::Modified,
                Some("DELETED") => MessageKind::Deleted,
                _ => panic!("{line}"),
            };
            let first = index == 0 && encoder.first_differs(encoding);
            let mut out = Vec::new();
            encoder.event(&mut out, View { encoding, first, event: shown(&object, kind) }).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), format!("{line}\n"));
            compared += 1;
        }
    }
    assert_eq!(compared, 4);
}
