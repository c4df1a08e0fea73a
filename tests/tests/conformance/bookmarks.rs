//! Bookmarks: when they come, what they contain, and that a watch resumed from one misses and repeats nothing.

use std::time::{Duration, Instant};

use revcast_tests::server::Server;

use crate::{create, newest, revision, told, update};

const WATCH: &str = "/api/v1/namespaces/b/configmaps?watch=true&allowWatchBookmarks=true";

#[test]
fn one_an_interval_once_there_is_news() {
    let server = Server::start(&["--bookmark-interval", "1s"]);
    let client = server.client();
    let start = create(&client, "b", "one", "1");
    let mut asked = client.watch(&format!("{WATCH}&resourceVersion={start}")).unwrap();
    let mut silent =
        client.watch(&format!("/api/v1/namespaces/b/configmaps?watch=1&resourceVersion={start}")).unwrap();
    assert!(asked.is_quiet_for(Duration::from_millis(2500)), "nothing is newer than the start");
    // Changes that do not concern this watch.
    let elsewhere = create(&client, "elsewhere", "one", "1");
    let line = asked.next_line().unwrap().unwrap();
    let expected = format!(
        r#"{{"type":"BOOKMARK","object":{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"resourceVersion":"{elsewhere}"}}}}}}"#
    );
    assert_eq!(line, expected + "\n");
    // Its own events come before the bookmark that covers them.
    let own = update(&client, "b", "one", "2");
    let (mut kind, mut object) = asked.next_event();
    while kind == "BOOKMARK" {
        assert!(revision(&object) < own, "a bookmark must not cover what was not sent");
        (kind, object) = asked.next_event();
    }
    assert_eq!((kind.as_str(), revision(&object)), ("MODIFIED", own));
    let (kind, object) = asked.next_event();
    assert_eq!((kind.as_str(), revision(&object)), ("BOOKMARK", own));
    assert_eq!(told(&silent.next_event()), "MODIFIED one");
    assert!(silent.is_quiet_for(Duration::from_millis(2500)), "who did not ask gets none");
}

#[test]
fn one_before_the_deadline() {
    let server = Server::start(&[]);
    let client = server.client();
    let start = create(&client, "b", "one", "1");
    let begun = Instant::now();
    let mut watch = client.watch(&format!("{WATCH}&resourceVersion={start}&timeoutSeconds=5")).unwrap();
    let mut nothing_new =
        client.watch(&format!("{WATCH}&resourceVersion={}&timeoutSeconds=4", start + 9000)).unwrap();
    let elsewhere = create(&client, "elsewhere", "one", "1");
    let (kind, object) = watch.next_event();
    let waited = begun.elapsed();
    assert_eq!((kind.as_str(), revision(&object)), ("BOOKMARK", elsewhere));
    assert!((1.5..4.9).contains(&waited.as_secs_f32()), "two seconds before the fifth, not {waited:?}");
    assert!(watch.rest().is_empty());
    assert!(nothing_new.rest().is_empty(), "it began after the newest revision");
}

/// Spec clients.md, rule 12: every client ignores one space.
#[test]
fn a_quiet_watch_gets_a_space_now_and_then() {
    let server = Server::start(&["--heartbeat-interval", "1s"]);
    let client = server.client();
    let start = create(&client, "b", "one", "1");
    let plain = "/api/v1/namespaces/b/configmaps?watch=1&timeoutSeconds=8";
    let begun = Instant::now();
    let mut quiet = client.watch(&format!("{plain}&resourceVersion={start}")).unwrap();
    let mut waiting = client.watch(&format!("{plain}&resourceVersion={}", start + 1_000)).unwrap();
    let mut table = client
        .watch_as(
            &format!("{plain}&resourceVersion={start}"),
            &[("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")],
        )
        .unwrap();
    for _ in 0..3 {
        for watch in [&mut quiet, &mut waiting, &mut table] {
            assert_eq!(watch.next_chunk().unwrap().as_deref(), Some(" "));
        }
    }
    let waited = begun.elapsed().as_secs_f32();
    assert!((2.6..7.0).contains(&waited), "three times 0.9 s to 1 s, not {waited} s");
    // It is not a first message: the columns are still to come.
    update(&client, "b", "one", "2");
    let (kind, object) = table.next_event();
    assert_eq!(kind, "MODIFIED");
    assert!(object["columnDefinitions"].is_array(), "{object}");
    assert_eq!(told(&quiet.next_event()), "MODIFIED one");
    assert!(quiet.rest().is_empty() && waiting.rest().is_empty(), "spaces change nothing");
    assert!(server.metrics("revcast_heartbeats_sent_total").iter().sum::<u64>() >= 9);

    let server = Server::start(&["--heartbeat-interval", "0"]);
    let mut watch = server.client().watch("/api/v1/configmaps?watch=1&timeoutSeconds=3").unwrap();
    assert_eq!(watch.next_chunk().unwrap(), None, "off is off");
}

#[test]
fn resumes_have_no_gap_and_no_repeat() {
    const WRITES: usize = 400;
    let server = Server::start(&["--bookmark-interval", "1s"]);
    let client = server.client();
    let start = newest(&client);
    std::thread::scope(|scope| {
        let writer = client.clone();
        let written = scope.spawn(move || {
            (0..WRITES)
                .map(|number| {
                    std::thread::sleep(Duration::from_millis(10));
                    // Every third one does not concern the watch.
                    let namespace = if number % 3 == 2 { "elsewhere" } else { "b" };
                    (namespace, create(&writer, namespace, &format!("n{number:04}"), "1"))
                })
                .filter_map(|(namespace, revision)| (namespace == "b").then_some(revision))
                .collect::<Vec<u64>>()
        });
        let mut seen = Vec::new();
        let mut bookmarks = 0;
        let mut last = start;
        let expected = WRITES - WRITES / 3;
        while seen.len() < expected {
            let mut watch =
                client.watch(&format!("{WATCH}&resourceVersion={last}&timeoutSeconds=3")).unwrap();
            for (kind, object) in watch.rest() {
                let at = revision(&object);
                match kind.as_str() {
                    "ADDED" => {
                        assert!(at > last, "{at} after {last}");
                        seen.push(at);
                    }
                    "BOOKMARK" => {
                        assert!(at >= last, "a bookmark at {at} after {last}");
                        bookmarks += 1;
                    }
                    other => panic!("{other}: {object}"),
                }
                last = at;
            }
        }
        assert_eq!(seen, written.join().unwrap());
        assert!(bookmarks > 0, "resumed from events only");
    });
}
