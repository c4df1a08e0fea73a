//! WatchList and bookmarks (sections 4 and 6): the mark after the state, in every form and with every selector, and
//! when bookmarks come and when they do not.

use std::time::{Duration, Instant};

use revcast_tests::client::Watch;
use revcast_tests::server::Server;
use serde_json::{Value, json};

use crate::{MAPS, map, newest, post, revision, told};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const LIST: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";

/// The beginning of a stream: names of additions, then the mark, if there is one.
fn beginning(watch: &mut Watch, count: usize, marked: bool) -> (Vec<String>, Option<Value>) {
    let mut names = Vec::new();
    for _ in 0..count {
        let (kind, object) = watch.next_event();
        assert_eq!(kind, "ADDED", "{object}");
        let metadata = if object["kind"] == "Table" {
            &object["rows"][0]["object"]["metadata"]
        } else {
            &object["metadata"]
        };
        names.push(metadata["name"].as_str().unwrap().to_owned());
    }
    let mark = marked.then(|| {
        let (kind, object) = watch.next_event();
        assert_eq!(kind, "BOOKMARK", "{object}");
        object
    });
    (names, mark)
}

/// Query, names of the state, and whether a mark follows it. The test asks for bookmarks.
const ROWS: &[(&str, &str, &str)] = &[
    (MAPS, LIST, "a b c"),
    (MAPS, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=", "a b c"),
    (MAPS, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0", "a b c"),
    (MAPS, "sendInitialEvents=1&resourceVersionMatch=NotOlderThan&resourceVersion=1", "a b c"),
    (MAPS, "sendInitialEvents=maybe&resourceVersionMatch=NotOlderThan", "a b c"),
    // With Kubernetes' defaults.
    (MAPS, "", "a b c"),
    (MAPS, "resourceVersion=0", "a b c"),
    (MAPS, "resourceVersion=", "a b c"),
    ("/api/v1/configmaps", LIST, "z a b c"),
    (MAPS, "labelSelector=app%3Db", "b"),
    (MAPS, "labelSelector=app%3Dnobody", ""),
    (MAPS, "fieldSelector=metadata.name%3Dc", "c"),
    (MAPS, "fieldSelector=metadata.name%3Dnobody", ""),
    (MAPS, "fieldSelector=metadata.name!%3Db&labelSelector=app", "a c"),
    ("/api/v1/configmaps", "fieldSelector=metadata.namespace%3Dt", "a b c"),
    ("/api/v1/watch/namespaces/t/configmaps/b", LIST, "b"),
    ("/api/v1/namespaces/empty/configmaps", LIST, ""),
    ("/api/v1/namespaces/t/secrets", LIST, ""),
    ("/api/v1/namespaces/t/secrets", "", ""),
    ("/api/v1/nodes", LIST, ""),
];

#[test]
fn the_mark_stands_right_behind_the_state() {
    // Nothing else is written meanwhile: the mark must come on an idle server too.
    let server = Server::start(&[]);
    let client = server.client();
    post(&client, "/api/v1/namespaces/a/configmaps", &map("z", &json!({})));
    for name in ["c", "a", "b"] {
        post(&client, MAPS, &map(name, &json!({"app": name})));
    }
    let now = newest(&client);
    for (path, query, names) in ROWS {
        for form in [None, Some(TABLE), Some(METADATA)] {
            let headers: Vec<(&str, &str)> = form.iter().map(|form| ("Accept", *form)).collect();
            let count = names.split_whitespace().count();
            let what = format!("{path}?{query} {form:?}");
            let marked = format!("{path}?watch=1&allowWatchBookmarks=true&{query}");
            let begun = Instant::now();
            let mut watch = client.watch_as(&marked, &headers).unwrap();
            let (found, mark) = beginning(&mut watch, count, true);
            // That one comes most of a minute later.
            assert!(begun.elapsed() < Duration::from_secs(20), "{what}: at once, not with the next bookmark");
            assert_eq!(found.join(" "), *names, "{what}");
            let mark = mark.unwrap();
            if form == Some(TABLE) {
                assert_eq!((revision(&mark), &mark["kind"]), (now, &json!("Table")), "{what}");
                let metadata = &mark["rows"][0]["object"]["metadata"];
                assert_eq!(metadata["annotations"], json!({"k8s.io/initial-events-end": "true"}), "{what}");
                assert_eq!(metadata["resourceVersion"], now.to_string(), "{what}");
                assert_eq!(mark["columnDefinitions"].is_null(), count > 0, "{what}: named once");
            } else {
                let (kind, version) = match (form, path) {
                    (Some(_), _) => ("PartialObjectMetadata", "meta.k8s.io/v1"),
                    (None, path) if path.ends_with("secrets") => ("Secret", "v1"),
                    (None, path) if path.ends_with("nodes") => ("Node", "v1"),
                    (None, _) => ("ConfigMap", "v1"),
                };
                assert_eq!((&mark["kind"], &mark["apiVersion"]), (&json!(kind), &json!(version)), "{what}");
                let metadata = json!({"resourceVersion": now.to_string(), "annotations": {"k8s.io/initial-events-end": "true"}});
                assert_eq!(mark["metadata"], metadata, "{what}");
            }
            // Without bookmarks the result is the same.
            let mut plain =
                client.watch_as(&format!("{path}?watch=1&timeoutSeconds=-1&{query}"), &headers).unwrap();
            for (kind, object) in plain.rest() {
                assert_eq!(kind, "ADDED", "{what}: {object}");
            }
            let mut plain = client.watch_as(&format!("{path}?watch=1&{query}"), &headers).unwrap();
            assert_eq!(beginning(&mut plain, count, false).0.join(" "), *names, "{what}");
        }
    }
}

#[test]
fn what_follows_the_mark_and_what_does_not() {
    let server = Server::start(&[]);
    let client = server.client();
    post(&client, MAPS, &map("a", &json!({"app": "a"})));
    let start = newest(&client);
    std::thread::scope(|scope| {
        // A state that is not reached yet: 3 s of silence, then an error in the stream, as recorded (07).
        let far = start + 1_000_000;
        for bookmarks in ["", "&allowWatchBookmarks=true"] {
            let client = client.clone();
            scope.spawn(move || {
                let begun = Instant::now();
                let path = format!("{MAPS}?watch=1&{LIST}&resourceVersion={far}{bookmarks}");
                let events = client.watch(&path).unwrap().rest();
                let took = begun.elapsed().as_secs_f32();
                let [(kind, status)] = &events[..] else { panic!("{events:?}") };
                assert_eq!(
                    (kind.as_str(), &status["code"], &status["reason"]),
                    ("ERROR", &json!(504), &json!("Timeout"))
                );
                assert_eq!(status["details"]["retryAfterSeconds"], 1);
                assert!((2.9..8.0).contains(&took), "{took} s");
            });
        }
        // One that is reached while it waits.
        let near = client.clone();
        let waiting = scope.spawn(move || {
            let path =
                format!("{MAPS}?watch=1&{LIST}&resourceVersion={}&allowWatchBookmarks=true", start + 1);
            let mut watch = near.watch(&path).unwrap();
            beginning(&mut watch, 2, true)
        });
        std::thread::sleep(Duration::from_millis(400));
        post(&client, MAPS, &map("b", &json!({"app": "b"})));
        let (found, mark) = waiting.join().unwrap();
        assert_eq!((found.join(" ").as_str(), revision(&mark.unwrap())), ("a b", start + 1));
    });
    // Without a state there is no mark: the stream begins at the newest revision, or after a given one.
    for query in [
        "sendInitialEvents=false&resourceVersionMatch=NotOlderThan".to_owned(),
        "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=0".to_owned(),
        format!("resourceVersion={}", start + 1),
        format!("sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion={}", start + 1),
    ] {
        let path = format!("{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=1&{query}");
        assert!(client.watch(&path).unwrap().rest().is_empty(), "{query}");
    }
}

/// The form of a bookmark, for each requested form.
fn bookmark(form: Option<&str>, at: u64) -> Value {
    match form {
        None => {
            json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": at.to_string()}})
        }
        Some(METADATA) => {
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": at.to_string()}})
        }
        Some(_) => json!(null),
    }
}

/// The first event at or after `own`; those before it are bookmarks.
fn passing(watch: &mut Watch, own: u64) -> (String, Value) {
    loop {
        let (kind, object) = watch.next_event();
        if revision(&object) >= own {
            return (kind, object);
        }
        assert_eq!(kind, "BOOKMARK", "{object}");
    }
}

#[test]
fn bookmarks_when_there_is_news() {
    let server = Server::start(&["--bookmark-interval", "1s"]);
    let client = server.client();
    let start = revision(&post(&client, MAPS, &map("a", &json!({"app": "a"}))));
    let mut watches = Vec::new();
    for form in [None, Some(TABLE), Some(METADATA)] {
        for selector in ["", "&labelSelector=app%3Dnobody", "&fieldSelector=metadata.name%3Dnobody"] {
            let headers: Vec<(&str, &str)> = form.iter().map(|form| ("Accept", *form)).collect();
            let path = format!("{MAPS}?watch=1&resourceVersion={start}{selector}");
            let asked = client.watch_as(&format!("{path}&allowWatchBookmarks=true"), &headers).unwrap();
            let silent = client.watch_as(&format!("{path}&allowWatchBookmarks=false"), &headers).unwrap();
            watches.push((form, selector, asked, silent));
        }
    }
    // Three intervals without changes.
    std::thread::sleep(Duration::from_millis(2500));
    for (form, selector, asked, _) in &mut watches {
        assert!(
            asked.is_quiet_for(Duration::from_millis(1)),
            "{form:?} {selector}: nothing is newer than its start"
        );
    }
    // Changes of another resource.
    let news = revision(&post(&client, "/api/v1/namespaces/t/secrets", &json!({"metadata": {"name": "s"}})));
    for (form, selector, asked, silent) in &mut watches {
        let (kind, object) = asked.next_event();
        assert_eq!((kind.as_str(), revision(&object)), ("BOOKMARK", news), "{form:?} {selector}");
        if *form != Some(TABLE) {
            assert_eq!(object, bookmark(*form, news), "{selector}");
        }
        assert!(!object.to_string().contains("initial-events-end"), "{object}");
        assert!(silent.is_quiet_for(Duration::from_millis(1)), "who does not ask gets none");
    }
    // Its own events come first, and a watch that resumes from a bookmark misses none.
    let own = revision(&post(&client, MAPS, &map("b", &json!({"app": "a"}))));
    for (form, selector, asked, silent) in &mut watches {
        if selector.is_empty() {
            // The same bookmark may come again before them.
            let (kind, object) = passing(asked, own);
            assert_eq!((kind.as_str(), revision(&object)), ("ADDED", own), "{form:?}");
            assert_eq!(silent.next_event().0, "ADDED");
        }
        let (kind, object) = passing(asked, own);
        assert_eq!((kind.as_str(), revision(&object)), ("BOOKMARK", own), "{form:?} {selector}");
    }
    let resumed =
        client.watch(&format!("{MAPS}?watch=1&resourceVersion={news}&timeoutSeconds=1")).unwrap().rest();
    assert_eq!(resumed.iter().map(told).collect::<Vec<_>>(), ["ADDED b"]);
}
