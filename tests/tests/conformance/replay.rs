//! The recordings in order, on the same history.

use std::time::Instant;

use serde_json::json;

use crate::recording::{History, normal, one};

const CM_WATCH: &str = "/api/v1/namespaces/t1/configmaps?watch=true";

/// A history up to the recordings' revision 74: cm1 to cm5.
fn five(options: &[&str]) -> History {
    let history = History::new(70, options);
    for number in 1..=5 {
        history.create(&format!("cm{number}"), "a", &format!("v{number}"));
    }
    history
}

#[test]
fn lists_and_pages() {
    let history = five(&[]);
    history.replay_all("01-list.txt", |_| true);
    history.replay("02-list-limit-continue.txt", "page 1");
    history.create("cm2b", "a", "inserted-between-pages");
    history.replay("02-list-limit-continue.txt", "page 2");
    history.replay("02-list-limit-continue.txt", "page 3");
    history.replay_all("02-list-limit-continue.txt", |title| !title.starts_with("page"));
}

#[test]
fn a_watch_from_a_revision_is_one_chunk_an_event() {
    let history = five(&[]);
    history.next_is(77);
    let recorded = one("03-watch-from-rv.txt", "watch from RV");
    let mut watch = history.client.watch(&history.target(&recorded)).unwrap();
    let mut theirs = recorded.body.lines();
    let mut expect = |chunk: &str| {
        // In the recording: the size, the event, an empty line.
        let size = usize::from_str_radix(theirs.next().unwrap(), 16).unwrap();
        let event = theirs.next().unwrap();
        assert_eq!(size, event.len() + 1, "theirs is one chunk of its exact size");
        assert_eq!(theirs.next(), Some(""));
        assert_eq!(normal(chunk, history.offset), normal(event, 0));
        assert!(chunk.ends_with("}}\n") && chunk.matches('\n').count() == 1, "one line: {chunk:?}");
    };
    history.create("w1", "a", "one");
    expect(&watch.next_chunk().unwrap().unwrap());
    history.update("w1", "a", "two");
    expect(&watch.next_chunk().unwrap().unwrap());
    history.delete("w1");
    expect(&watch.next_chunk().unwrap().unwrap());
    assert_eq!(watch.next_chunk().unwrap(), None);
    assert_eq!(theirs.next(), Some("0"), "theirs ends so too");
    // The connection is usable as before.
    let reply = watch.into_connection().request("GET", "/version", &[], &[]).unwrap();
    assert_eq!(reply.status, 200);
    history.replay("03-watch-from-rv.txt", "the same, replayed from history");
}

#[test]
fn initial_events() {
    let history = five(&[]);
    // Their end marks have revisions of background writers: the writes before each are made here too.
    for (theirs, title) in [
        (80, "sendInitialEvents=true&"),
        (80, "the same without"),
        (81, "sendInitialEvents=true, RV=0"),
        (81, "sendInitialEvents=false"),
        (81, "LEGACY: watch with RV unset (server"),
    ] {
        history.next_is(theirs + 1);
        history.replay("05-watch-send-initial-events.txt", title);
    }
    let legacy = one("05-watch-send-initial-events.txt", "LEGACY: watch with RV unset and allow");
    let mark = legacy.body.lines().last().unwrap();
    let mark: serde_json::Value = serde_json::from_str(mark).unwrap();
    let at: i64 = mark["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    history.next_is(at + 1);
    history.replay("05-watch-send-initial-events.txt", "LEGACY: watch with RV unset and allow");
    history.replay("05-watch-send-initial-events.txt", "LEGACY: watch with RV=0");
    history.replay_all("05-watch-send-initial-events.txt", |title| {
        [
            "sendInitialEvents without",
            "sendInitialEvents with r",
            "resourceVersionMatch on",
            "sendInitialEvents on",
        ]
        .iter()
        .any(|wanted| title.starts_with(wanted))
    });
}

#[test]
fn too_large_revisions_wait_three_seconds() {
    let history = five(&[]);
    std::thread::scope(|scope| {
        for (title, recorded) in crate::recording::file("07-too-large-rv.txt") {
            let history = &history;
            scope.spawn(move || {
                let begun = Instant::now();
                history.replay("07-too-large-rv.txt", &title);
                let took = begun.elapsed().as_secs_f32();
                let least = if recorded.target.contains("timeoutSeconds=4") { 3.9 } else { 2.9 };
                assert!((least..20.0).contains(&took), "{title}: {took} s");
            });
        }
    });
}

#[test]
fn bad_options_and_selectors() {
    let history = five(&[]);
    history.next_is(88);
    history.replay_all("08-invalid-rv.txt", |_| true);
    history.replay_all("09-bad-selector.txt", |_| true);
}

#[test]
fn selector_transitions() {
    let history = five(&[]);
    history.next_is(88);
    let recorded = one("10-selector-transitions.txt", "labelSelector app=a");
    let mut live = history.client.watch(&history.target(&recorded)).unwrap();
    history.create("tr1", "b", "one");
    history.update("tr1", "a", "two");
    history.update("tr1", "a", "three");
    history.update("tr1", "b", "four");
    history.update("tr1", "b", "five");
    history.update("tr1", "a", "six");
    history.delete("tr1");
    let mut lines = String::new();
    while let Some(line) = live.next_line().unwrap() {
        lines += &line;
    }
    assert_eq!(normal(&lines, history.offset), normal(&recorded.body, 0), "live");
    // And from the ring.
    history.replay("10-selector-transitions.txt", "labelSelector app=a");
    history.replay("10-selector-transitions.txt", "the same history for app=b");
    history.replay("10-selector-transitions.txt", "set-based");

    let pods = one("10-selector-transitions.txt", "pods fieldSelector");
    let bound: serde_json::Value = serde_json::from_str(pods.body.lines().next().unwrap()).unwrap();
    let mut pod = bound["object"].clone();
    pod["spec"]["nodeName"] = json!("");
    let all = "/api/v1/namespaces/t1/pods";
    pod["metadata"] = json!({"name": "p1"});
    assert_eq!(history.client.send("POST", all, &pod).status, 201);
    let patch = json!({"spec": {"nodeName": "node1"}});
    assert_eq!(history.client.patch(&format!("{all}/p1"), "merge-patch", &patch).status, 200);
    let gone = history.client.request("DELETE", &format!("{all}/p1?gracePeriodSeconds=0"), &[], &[]);
    assert_eq!((gone.status, gone.json()["kind"].as_str()), (200, Some("Pod")));
    history.replay("10-selector-transitions.txt", "pods fieldSelector");
}

#[test]
fn what_is_gone() {
    const FILE: &str = "06-410-gone.txt";
    let history = five(&[]);
    history.next_is(99);
    history.update("cm1", "a", "upd-15925");
    history.update("cm2", "a", "upd-27983");
    history.next_is(111);
    history.update("cm5", "a", "z1");
    history.update("cm5", "a", "z2");
    history.next_is(136);
    history.replay(FILE, "LIST Exact at past RV 135");
    history.next_is(139);
    // As recorded before that compaction: ours takes effect at once.
    let early = one(FILE, "continue token of 135 right after");
    history.compare(&early, "a continue token before the compaction");
    let compact = format!("/compact?revision={}", history.revision());
    assert_eq!(history.server.admin_client().request("POST", &compact, &[], &[]).status, 200);
    history.replay_all(FILE, |title| !title.starts_with("LIST Exact at past") && !title.starts_with("250"));
}

#[test]
fn bookmarks_in_their_order() {
    const FILE: &str = "04-watch-bookmarks.txt";
    let history = five(&["--bookmark-interval", "1s"]);
    history.next_is(80);
    let quiet = one(FILE, "allowWatchBookmarks with timeoutSeconds=5");
    let quiet = history.target(&quiet).replace("timeoutSeconds=5", "timeoutSeconds=3");
    assert_eq!(
        history.client.watch(&quiet).unwrap().next_chunk().unwrap(),
        None,
        "nothing is newer than its start"
    );
    history.next_is(81);
    let recorded = one(FILE, "allowWatchBookmarks, timeoutSeconds=70");
    let target = history.target(&recorded).replace("timeoutSeconds=70", "timeoutSeconds=10");
    let mut watch = history.client.watch(&target).unwrap();
    history.next_is(88);
    for (app, k) in [("b", "one"), ("a", "two"), ("a", "three"), ("b", "four"), ("b", "five"), ("a", "six")] {
        if k == "one" {
            history.create("tr1", app, k);
        } else {
            history.update("tr1", app, k);
        }
    }
    history.delete("tr1");
    history.next_is(99);
    history.update("cm1", "a", "upd-15925");
    history.update("cm2", "a", "upd-27983");
    history.next_is(103);
    history.create("del1", "a", "last-state");
    history.delete("del1");
    history.next_is(111);
    history.update("cm5", "a", "z1");
    history.update("cm5", "a", "z2");
    // The 200 KB events are truncated in the recording; and bookmarks come at another rate here, but the last is the
    // same.
    let lines = || recorded.body.lines().filter(|line| line.starts_with('{') && !line.contains("(cut"));
    let last = lines().next_back().map(|line| normal(line, 0));
    let (mut events, mut bookmarks) = (Vec::<String>::new(), Vec::<String>::new());
    while bookmarks.last() != last.as_ref() {
        let Some(line) = watch.next_line().unwrap() else { break };
        let line = normal(&line, history.offset);
        if line.contains("BOOKMARK") { &mut bookmarks } else { &mut events }.push(line);
    }
    let theirs: Vec<String> =
        lines().filter(|line| !line.contains("BOOKMARK")).map(|line| normal(line, 0)).collect();
    assert_eq!(events, theirs);
    assert_eq!(bookmarks.last(), last.as_ref());
}

#[test]
fn single_names_deletes_and_errors() {
    let history = five(&[]);
    history.next_is(99);
    history.update("cm1", "a", "upd-15925");
    history.update("cm2", "a", "upd-27983");
    history.next_is(103);
    history.replay_all("11-single-name-watch.txt", |_| true);
    // There is no authentication here, so that a client with a bad token is served too, as there.
    history.replay_all("12-http-errors.txt", |_| true);
    history.create("del1", "a", "last-state");
    history.delete("del1");
    history.replay("13-deleted-event.txt", "DELETED carries");
    history.replay("15-headers.txt", "as alice");
    let recorded = one("14-timeout-end-of-stream.txt", "timeoutSeconds=1");
    assert_eq!(recorded.body.trim(), "0", "theirs is the last chunk and nothing else");
    assert_eq!(history.client.watch(&history.target(&recorded)).unwrap().next_chunk().unwrap(), None);
    let table = "17-table-partial-protobuf.txt";
    history.replay(table, "Table list (kubectl get)");
    history.replay(table, "Table list includeObject=None");
    history.replay(table, "Table watch");
    history.replay(table, "PartialObjectMetadata watch");
    history.compare(&one(table, "YAML watch"), "a watch in YAML");
    history.next_is(107);
    history.replay(table, "PartialObjectMetadataList");
    history.replay(table, "YAML list");
    history.replay("18-gzip.txt", "Accept-Encoding: gzip, small list");
    // Reviews are not stored objects: there is no such resource here.
    let reviews = history.client.get("/apis/authentication.k8s.io/v1/tokenreviews");
    assert_eq!(reviews.status, 404);
    // With a timeout of 0 the server chooses: nothing ends in three seconds.
    let open = format!("{CM_WATCH}&resourceVersion={}&timeoutSeconds=0", history.revision());
    assert!(history.client.watch(&open).unwrap().is_quiet_for(std::time::Duration::from_secs(3)));
}
