//! LIST and GET.

use std::cell::Cell;
use std::collections::BTreeSet;

use revcast_engine::revision::Revision;
use serde_json::{Value, json};

use super::{Ask, CONFIG_MAPS, Left, World, run};
use crate::api::resources::Registry;
use crate::frontend::{Frontend as _, Host as _, Reply};
use crate::http::route::target_of;

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn pages_show_one_revision_while_others_write() {
    let world = World::new();
    let expected: Vec<String> = (0..25).map(|i| format!("cm{i:02}")).collect();
    for name in &expected {
        world.config_map(name, "old");
    }
    let first = world.get(&format!("{CONFIG_MAPS}?limit=7")).json();
    let revision = first["metadata"]["resourceVersion"].clone();
    assert_eq!(first["metadata"]["remainingItemCount"], 18);
    let mut seen = names(&first);
    let mut token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    for round in 0.. {
        // Between two pages: one more, one less, one other.
        world.config_map(&format!("cm{:02}b", 2 * round + 10), "new");
        assert_eq!(world.get(&format!("{CONFIG_MAPS}/cm{:02}", 24 - round)).code, 200);
        assert_eq!(world.send("DELETE", &format!("{CONFIG_MAPS}/cm{:02}", 24 - round), &json!({})).code, 200);
        let page = world.get(&format!("{CONFIG_MAPS}?limit=7&continue={token}")).json();
        assert_eq!(page["metadata"]["resourceVersion"], revision);
        seen.extend(names(&page));
        assert!(page["items"].as_array().unwrap().iter().all(|item| item["data"]["k"] == "old"));
        match page["metadata"]["continue"].as_str() {
            Some(next) => token = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, expected);
    let exact =
        format!("{CONFIG_MAPS}?resourceVersionMatch=Exact&resourceVersion={}", revision.as_str().unwrap());
    assert_eq!(names(&world.get(&exact).json()), expected);
    let legacy = format!("{CONFIG_MAPS}?limit=500&resourceVersion={}", revision.as_str().unwrap());
    assert_eq!(names(&world.get(&legacy).json()), expected);
}

#[test]
fn a_token_that_expired_goes_on_at_the_newest_revision() {
    let world = World::new();
    for i in 0..6 {
        world.config_map(&format!("cm{i}"), "x");
    }
    let first = world.get(&format!("{CONFIG_MAPS}?limit=2")).json();
    world.config_map("cm1b", "x");
    world.host.publisher.borrow_mut().compact(Revision::new(world.revision()));
    let token = first["metadata"]["continue"].as_str().unwrap();
    let gone = world.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}"));
    assert_eq!(gone.code, 410);
    let token = gone.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let page = world.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).json();
    assert_eq!(names(&page), ["cm1b", "cm2"]);
    assert_eq!(page["metadata"]["resourceVersion"], world.revision().to_string());
    let token = page["metadata"]["continue"].as_str().unwrap();
    let rest = world.get(&format!("{CONFIG_MAPS}?continue={token}")).json();
    assert_eq!(names(&rest), ["cm3", "cm4", "cm5"]);
    assert_eq!(rest["metadata"]["continue"], Value::Null);
}

#[test]
fn selectors_and_namespaces_narrow() {
    let world = World::new();
    for (namespace, name, app) in [("a", "x", "1"), ("a", "y", "2"), ("a-b", "x", "1"), ("b", "x", "2")] {
        let body = json!({"metadata": {"name": name, "labels": {"app": app}}});
        let target = format!("/api/v1/namespaces/{namespace}/configmaps");
        assert_eq!(world.send("POST", &target, &body).code, 201);
    }
    let count = |query: &str| names(&world.get(&format!("/api/v1{query}")).json()).len();
    for (query, expected) in [
        ("/configmaps", 4),
        ("/configmaps?labelSelector=app%3D1", 2),
        ("/configmaps?labelSelector=app+in+(1,2),app!=1", 2),
        ("/configmaps?fieldSelector=metadata.name%3Dx", 3),
        ("/configmaps?fieldSelector=metadata.namespace%3Da", 2),
        ("/configmaps?fieldSelector=metadata.name%3Dx,metadata.namespace%3Da", 1),
        ("/configmaps?fieldSelector=metadata.name!%3Dx", 1),
        ("/configmaps?fieldSelector=metadata.name%3Dx,metadata.name%3Dy", 0),
        ("/namespaces/a/configmaps?fieldSelector=metadata.namespace%3Db", 0),
        ("/namespaces/a/configmaps?fieldSelector=metadata.namespace%3Da", 2),
        ("/namespaces/a/configmaps?fieldSelector=metadata.name%3Dx&labelSelector=app%3D2", 0),
        ("/namespaces/c/configmaps", 0),
        ("/nodes", 0),
    ] {
        assert_eq!(count(query), expected, "{query}");
        // The same at an exact revision that is not the newest.
        let at = world.revision();
        world.config_map(&format!("later{at}"), "x");
        let glue = if query.contains('?') { '&' } else { '?' };
        let exact = format!("{query}{glue}resourceVersion={at}&resourceVersionMatch=Exact");
        assert_eq!(count(&exact), expected, "{exact}");
        assert_eq!(world.send("DELETE", &format!("{CONFIG_MAPS}/later{at}"), &json!({})).code, 200);
    }
}

#[test]
fn pages_with_selectors_reach_every_object_once() {
    let world = World::new();
    for i in 0..40 {
        let body = json!({"metadata": {"name": format!("cm{i:02}"), "labels": {"odd": (i % 2).to_string()}}});
        let target = format!("/api/v1/namespaces/n{}/configmaps", i % 3);
        assert_eq!(world.send("POST", &target, &body).code, 201);
    }
    for (base, expected) in [
        ("/api/v1/configmaps?labelSelector=odd%3D1", 20),
        ("/api/v1/configmaps?", 40),
        ("/api/v1/namespaces/n1/configmaps?", 13),
        ("/api/v1/configmaps?fieldSelector=metadata.namespace%3Dn1", 13),
        ("/api/v1/configmaps?fieldSelector=metadata.name%3Dcm07", 1),
        ("/api/v1/namespaces/n1/configmaps?fieldSelector=metadata.name%3Dcm07", 1),
    ] {
        for limit in [1, 3, 13, 100] {
            let (mut token, mut seen, mut total) = (String::new(), BTreeSet::new(), 0);
            loop {
                let page = world.get(&format!("{base}&limit={limit}&continue={token}")).json();
                let items = page["items"].as_array().unwrap().clone();
                assert!(items.len() <= limit);
                total += items.len();
                seen.extend(items.iter().map(|item| item["metadata"]["uid"].as_str().unwrap().to_owned()));
                match page["metadata"]["continue"].as_str() {
                    Some(next) => token = next.to_owned(),
                    None => break,
                }
            }
            assert_eq!((total, seen.len()), (expected, expected), "{base} by {limit}");
        }
    }
}

#[test]
fn long_lists_come_in_pieces_of_one_state() {
    let world = World::new();
    let value = "v".repeat(1000);
    for i in 0..300 {
        world.config_map(&format!("cm{i:03}"), &value);
    }
    let mut got = world.ask(&Ask::new("GET", "/version"));
    assert!(matches!(got.reply, Reply::FullBody(_)));
    got = world.get(CONFIG_MAPS);
    assert!(matches!(got.reply, Reply::StreamingBody(_)));
    assert_eq!(names(&got.json()).len(), 300);
    assert!(got.body.ends_with("]}\n"));

    // Piece by piece, with a write between.
    let head = head(&format!("GET {CONFIG_MAPS} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let (_, admitted) =
        run(world.app.admit(&world.host, &head, target_of(&head.path), None, world.host.wall()));
    let admitted = admitted.expect("all may");
    let left = Left(Cell::new(usize::MAX));
    let reply = run(world.app.handle(&world.host, &head, &admitted, bytes::Bytes::new(), &left));
    let Reply::StreamingBody(mut pieces) = reply else { panic!("a long list comes in pieces") };
    let (mut whole, mut count) = (Vec::new(), 0);
    loop {
        let mut piece = Vec::new();
        if !pieces.next(&mut piece) {
            assert!(piece.is_empty());
            break;
        }
        assert!(piece.len() < 80 << 10, "{}", piece.len());
        whole.extend(piece);
        count += 1;
        world.send("DELETE", &format!("{CONFIG_MAPS}/cm{:03}", 299 - count), &json!({}));
    }
    assert!(count >= 5, "{count}");
    assert_eq!(String::from_utf8(whole).unwrap(), got.body);

    let mut old = Ask::new("GET", CONFIG_MAPS);
    old.http = "HTTP/1.0";
    let old = world.ask(&old);
    assert!(matches!(old.reply, Reply::StreamingBody(_)), "no client gets a long list in one part");
    assert_eq!(old.body, world.get(CONFIG_MAPS).body);
    let pretty = world.get(&format!("{CONFIG_MAPS}?pretty=true"));
    assert!(matches!(pretty.reply, Reply::StreamingBody(_)));
    let value: Value = pretty.json();
    assert_eq!(value, old.json());
    assert_eq!(pretty.body.as_bytes(), serde_json::to_vec_pretty(&value).unwrap());
}

/// Forty KB on one line, and four MB indented, nearly all of it spaces: a request for indented JSON gets that object on one
/// line.
#[test]
fn deep_objects_are_not_shown_a_hundredfold() {
    let world = World::new();
    let target = "/apis/example.com/v1/namespaces/t1/widgets";
    let deep = format!("{}0{}{}", "[".repeat(100), ",0".repeat(20_000), "]".repeat(100));
    for (name, inside) in [("a", deep.as_str()), ("b", "[[0]]")] {
        let mut ask = Ask::new("POST", target).with("Content-Type", "application/json");
        ask.body = format!("{{\"metadata\":{{\"name\":\"{name}\"}},\"spec\":{{\"x\":{inside}}}}}").into();
        assert_eq!(world.ask(&ask).code, 201);
    }
    let yaml = "application/yaml";
    let one = format!("{target}/a");
    let compact = world.get(&one).body;
    assert!(world.get(&format!("{one}?pretty=1")).body == compact);
    assert!(world.get_as(&one, yaml).body == compact, "JSON is YAML too");
    assert!(
        world
            .get(&format!("{target}/b?pretty=1"))
            .body
            .starts_with("{\n  \"apiVersion\": \"example.com/v1\"")
    );
    assert!(world.get_as(&format!("{target}/b"), yaml).body.starts_with("apiVersion: example.com/v1\n"));

    let item = compact.trim_end();
    let list = world.get(&format!("{target}?pretty=1"));
    assert!(list.body.starts_with("{\n  \"apiVersion\": \"example.com/v1\",\n  \"items\": [\n"));
    assert!(
        list.body.contains(&format!("\n    {item},\n    {{\n      \"apiVersion\": \"example.com/v1\",\n"))
    );
    assert!(list.body.len() < 2 * compact.len(), "{} bytes", list.body.len());
    assert!(list.json() == world.get(target).json());
    let list = world.get_as(target, yaml).body;
    assert!(list.contains(&format!("\nitems:\n- {item}\n- apiVersion: example.com/v1\n  kind: Widget\n")));
    assert!(list.len() < 2 * compact.len(), "{} bytes", list.len());
}

fn head(text: &str) -> crate::http::request::RequestHead {
    match super::parse_head(text.as_bytes()) {
        Ok(super::Parsed::Complete { head, .. }) => *head,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_read_is_answered_from_the_catalog_that_it_was_authorized_with() {
    let world = World::new();
    let path = "/apis/example.com/v1/namespaces/t1/widgets";
    let get = head(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let post = head(&format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n"));
    let [read, write] = [&get, &post].map(|head| {
        let (_, admitted) =
            run(world.app.admit(&world.host, head, target_of(&head.path), None, world.host.wall()));
        admitted.expect("all may")
    });
    world.app.catalogs().replace(Registry::builtin());
    let code = |head, admitted| {
        let left = Left(Cell::new(usize::MAX));
        match run(world.app.handle(&world.host, head, admitted, "{}".into(), &left)) {
            Reply::FullBody(whole) => whole.code,
            other @ (Reply::StreamingBody(_)
            | Reply::PeriodicBody(_)
            | Reply::Refused(..)
            | Reply::Watch(_)) => panic!("{other:?}"),
        }
    };
    assert_eq!(code(&get, &read), 200);
    assert_eq!(code(&post, &write), 404, "its body may have taken very long");
}

#[test]
fn items_of_declared_resources_say_their_kind() {
    let world = World::new();
    let target = "/apis/example.com/v1/namespaces/t1/widgets";
    let made = world.send("POST", target, &json!({"metadata": {"name": "w"}, "spec": {"color": "red"}}));
    assert_eq!(made.code, 201, "{}", made.body);
    assert_eq!(made.json()["metadata"]["generation"], 1);
    let list = world.get(target).json();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("WidgetList"), &json!("example.com/v1")));
    assert_eq!(list["items"][0], made.json());
    let none = world.get(&format!("{target}?fieldSelector=spec.color%3Dblue")).json();
    assert_eq!(none["items"], json!([]));
}

#[test]
fn one_object_in_every_form() {
    let world = World::new();
    let made = world.config_map("cm1", "x");
    let target = format!("{CONFIG_MAPS}/cm1");
    let got = world.get(&target);
    assert!(got.body.ends_with("}\n"));
    assert_eq!(got.json(), made);
    for version in ["v1", "v1beta1"] {
        let accept = |kind: &str| format!("application/json;as={kind};v={version};g=meta.k8s.io");
        let api_version = format!("meta.k8s.io/{version}");
        let table = world.get_as(&target, &accept("Table")).json();
        assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!(api_version)));
        assert_eq!(table["rows"][0]["cells"], json!(["cm1", 1, "0s"]));
        assert_eq!(table["rows"][0]["object"]["apiVersion"], json!(api_version));
        assert_eq!(table["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
        assert!(table["columnDefinitions"].as_array().is_some_and(|columns| columns.len() == 3));
        let partial = world.get_as(&target, &accept("PartialObjectMetadata")).json();
        let expected =
            json!({"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": made["metadata"]});
        assert_eq!(partial, expected);
        let all = world.get_as(&format!("{target}?includeObject=Object"), &accept("Table")).json();
        assert_eq!(all["rows"][0]["object"], made);
        let list = world.get_as(CONFIG_MAPS, &accept("PartialObjectMetadataList")).json();
        assert_eq!((&list["apiVersion"], &list["items"][0]), (&json!(api_version), &expected));
    }
    let bad =
        world.get_as(&format!("{target}?includeObject=All"), "application/json;as=Table;v=v1;g=meta.k8s.io");
    assert_eq!(bad.code, 400);
    assert!(world.get_as(&target, "application/yaml").body.starts_with("apiVersion: v1\ndata:\n"));
    assert_eq!(world.get(&format!("{target}?resourceVersion=0")).code, 200);
    assert_eq!(world.get(&format!("{target}?export=true")).code, 400);
    assert_eq!(world.get("/api/v1/configmaps/cm1").code, 404, "no namespace");
    assert_eq!(world.get("/api/v1/namespaces/t1/nodes").code, 404, "nodes have none");
    assert_eq!(world.get(&format!("{target}/status")).code, 404, "config maps have no status");
}
