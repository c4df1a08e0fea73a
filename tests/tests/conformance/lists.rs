//! Lists: which state they show, and pages that keep it.

use revcast_tests::server::Server;
use serde_json::json;

use crate::{create, delete, names, newest, revision, update};

const LIST: &str = "/api/v1/namespaces/l/configmaps";

#[test]
fn pages_show_one_revision_while_writes_go_on() {
    let server = Server::start(&[]);
    let client = server.client();
    for number in 0..50 {
        create(&client, "l", &format!("n{number:02}"), "old");
    }
    let whole = client.get(LIST).json();
    let at = revision(&whole);
    let mut items = Vec::new();
    let mut query = "limit=7".to_owned();
    let mut pages = 0;
    loop {
        let page = client.get(&format!("{LIST}?{query}")).json();
        assert_eq!(revision(&page), at, "page {pages}");
        items.extend(page["items"].as_array().unwrap().clone());
        let remaining = page["metadata"]["remainingItemCount"].as_u64();
        let Some(token) = page["metadata"]["continue"].as_str() else {
            assert_eq!(remaining, None);
            break;
        };
        assert_eq!(remaining, Some(50 - items.len() as u64));
        query = format!("limit=7&continue={token}");
        // The first object of the next page is changed, deleted and created.
        let next = items.len();
        update(&client, "l", &format!("n{next:02}"), "new");
        if next + 1 < 50 {
            delete(&client, "l", &format!("n{:02}", next + 1));
        }
        create(&client, "l", &format!("n{next:02}-late"), "new");
        pages += 1;
    }
    assert_eq!(pages, 7);
    assert_eq!(items, *whole["items"].as_array().unwrap());
}

#[test]
fn exact_and_not_older_than() {
    let server = Server::start(&[]);
    let client = server.client();
    let empty = newest(&client);
    let one = create(&client, "l", "one", "1");
    let two = create(&client, "l", "two", "1");
    let changed = update(&client, "l", "one", "2");
    delete(&client, "l", "two");
    let gone = newest(&client);
    let at = |query: &str| {
        let list = client.get(&format!("{LIST}?{query}")).json();
        let first = list["items"][0]["data"]["k"].as_str().unwrap_or("-").to_owned();
        (revision(&list), names(&list).join(" "), first)
    };
    let state = |revision, names: &str, first: &str| (revision, names.to_owned(), first.to_owned());
    assert_eq!(at(&format!("resourceVersion={empty}&resourceVersionMatch=Exact")), state(empty, "", "-"));
    assert_eq!(at(&format!("resourceVersion={one}&resourceVersionMatch=Exact")), state(one, "one", "1"));
    assert_eq!(at(&format!("resourceVersion={two}&resourceVersionMatch=Exact")), state(two, "one two", "1"));
    assert_eq!(
        at(&format!("resourceVersion={changed}&resourceVersionMatch=Exact")),
        state(changed, "one two", "2")
    );
    // With a limit and no match it is exact, as in old versions.
    assert_eq!(at(&format!("resourceVersion={two}&limit=5")), state(two, "one two", "1"));
    assert_eq!(at(&format!("resourceVersion={two}")), state(gone, "one", "2"));
    assert_eq!(
        at(&format!("resourceVersion={two}&resourceVersionMatch=NotOlderThan&limit=5")),
        state(gone, "one", "2")
    );
    assert_eq!(at("resourceVersion=0"), state(gone, "one", "2"));
    assert_eq!(at("resourceVersion=0&resourceVersionMatch=NotOlderThan"), state(gone, "one", "2"));
    // A revision that arrives while the list waits for it.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| at(&format!("resourceVersion={}", gone + 1)));
        std::thread::sleep(std::time::Duration::from_millis(300));
        create(&client, "elsewhere", "x", "1");
        assert_eq!(waiting.join().unwrap(), state(gone + 1, "one", "2"));
    });
}

#[test]
fn selectors_and_scopes() {
    let server = Server::start(&[]);
    let client = server.client();
    for (namespace, name, app) in [("b", "x", "web"), ("a", "y", "db"), ("a", "x", "web"), ("ab", "x", "job")]
    {
        let object = json!({"metadata": {"name": name, "labels": {"app": app, "n": "5"}}});
        let reply = client.send("POST", &format!("/api/v1/namespaces/{namespace}/configmaps"), &object);
        assert_eq!(reply.status, 201);
    }
    let list = |query: &str| {
        let list = client.get(&format!("/api/v1/configmaps?{query}")).json();
        let path = |item: &serde_json::Value| {
            let field = |name: &str| item["metadata"][name].as_str().unwrap().to_owned();
            field("namespace") + "/" + &field("name")
        };
        list["items"].as_array().unwrap().iter().map(path).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(list(""), "a/x a/y ab/x b/x", "by namespace, then name");
    for (selector, expected) in [
        ("app=web", "a/x b/x"),
        ("app%3D%3Dweb", "a/x b/x"),
        ("app!=web", "a/y ab/x"),
        ("app in (web,db)", "a/x a/y b/x"),
        ("app notin (web,db)", "ab/x"),
        ("app", "a/x a/y ab/x b/x"),
        ("!app", ""),
        ("n>4,n<6,app=db", "a/y"),
        ("n>5", ""),
    ] {
        let selector = selector.replace(' ', "%20").replace('>', "%3E").replace('<', "%3C");
        assert_eq!(list(&format!("labelSelector={selector}")), expected, "{selector}");
    }
    assert_eq!(list("fieldSelector=metadata.name%3Dx,metadata.namespace!%3Da"), "ab/x b/x");
    assert_eq!(list("fieldSelector=metadata.name%3Dx&labelSelector=app%3Dweb"), "a/x b/x");
}

#[test]
fn long_lists_come_in_chunks_and_short_ones_whole() {
    let server = Server::start(&[]);
    let client = server.client();
    let mut connection = client.connect().unwrap();
    for number in 0..3000 {
        let object = json!({"metadata": {"name": format!("n{number:04}")}, "data": {"k": "x".repeat(100)}});
        let reply = connection.request("POST", LIST, &[], object.to_string().as_bytes()).unwrap();
        assert_eq!(reply.status, 201);
    }
    let long = connection.request("GET", LIST, &[], &[]).unwrap();
    assert_eq!(long.header("transfer-encoding"), Some("chunked"));
    assert_eq!(long.header("content-length"), None);
    assert_eq!(names(&long.json()).len(), 3000);
    let short = connection.request("GET", &format!("{LIST}?limit=2"), &[], &[]).unwrap();
    assert_eq!(short.header("content-length"), Some(short.body.len().to_string().as_str()));
    let pretty = connection.request("GET", &format!("{LIST}?pretty=true"), &[], &[]).unwrap();
    assert_eq!(pretty.header("transfer-encoding"), Some("chunked"));
    assert!(pretty.text().starts_with("{\n  \"kind\": \"ConfigMapList\""));
    assert_eq!(pretty.json(), long.json());
    // Deleted together: one event each, and nothing remains.
    let mut watch = client.watch(&format!("{LIST}?watch=1&resourceVersion={}", newest(&client))).unwrap();
    let reply = connection
        .request("DELETE", &format!("{LIST}?fieldSelector=metadata.name!%3Dn0007"), &[], &[])
        .unwrap();
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(watch.events(2999).iter().all(|(kind, _)| kind == "DELETED"));
    assert_eq!(names(&client.get(LIST).json()), ["n0007"]);
}
