//! What each signal does: not ready, a delay in which everything continues, watches that end one after another; and a
//! second signal.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use revcast_tests::client::Watch;
use revcast_tests::server::Server;
use rustix::process::Signal;
use serde_json::json;

const PATH: &str = "/api/v1/namespaces/l/configmaps";

fn create(server: &Server, name: &str) {
    assert_eq!(server.client().send("POST", PATH, &json!({"metadata": {"name": name}})).status, 201);
}

#[test]
fn in_the_delay_everything_goes_on_but_it_is_not_ready() {
    let mut server = Server::start(&["--drain-delay", "8s", "--drain-grace", "2s"]);
    let client = server.client();
    create(&server, "before");
    let newest = client.get(PATH).json()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let watch_path = format!("{PATH}?watch=1&allowWatchBookmarks=true");
    let mut watch = client.watch(&format!("{watch_path}&resourceVersion={newest}")).unwrap();
    let mut kept = client.connect().unwrap();
    let reply = kept.request("GET", PATH, &[], &[]).unwrap();
    assert_eq!((reply.status, reply.header("connection")), (200, None));
    let began = Instant::now();
    server.signal(Signal::TERM);
    while client.get("/readyz").status == 200 {
        assert!(began.elapsed() < Duration::from_secs(5), "not ready at once");
    }
    let ready = client.get("/readyz");
    assert_eq!(ready.status, 503);
    assert!(ready.text().contains("[-]shutdown failed"), "{}", ready.text());
    assert_eq!(server.admin_client().get("/readyz").status, 503);
    assert_eq!(client.get("/livez").status, 200);
    // New clients are served, with `Connection: close`.
    create(&server, "meanwhile");
    assert_eq!(watch.next_event().1["metadata"]["name"], "meanwhile");
    let mut late = client.watch(&format!("{watch_path}&resourceVersion=0")).unwrap();
    assert_eq!(late.events(2)[0].0, "ADDED");
    assert!(late.headers().iter().any(|header| *header == ("connection".into(), "close".into())));
    let reply = kept.request("GET", PATH, &[], &[]).unwrap();
    assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
    assert!(kept.request("GET", PATH, &[], &[]).is_err(), "it was closed after that reply");
    assert!(began.elapsed() < Duration::from_secs(8), "the machine is too slow for this test");
    // Now it closes: bookmarks, last chunks, no more connections.
    for watch in [&mut watch, &mut late] {
        let rest = watch.rest();
        assert!(rest.iter().all(|(kind, _)| kind == "BOOKMARK"), "{rest:?}");
    }
    assert!(began.elapsed() >= Duration::from_secs(8), "not before the delay is over");
    assert_eq!(server.await_end(Duration::from_secs(5)), 0);
    assert!(client.connect().is_err());
}

/// A client sends its next request on a connection that the last reply left open: if that was closed nevertheless, the
/// client cannot know whether the request was carried out.
#[test]
fn no_connection_ends_behind_a_reply_that_left_it_open() {
    let server = Server::start(&["--drain-delay", "60s"]);
    let client = server.client();
    let asked = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let mut kept = client.connect().unwrap();
            let asked = &asked;
            scope.spawn(move || {
                loop {
                    let reply = kept.request("GET", "/version", &[], &[]).expect("it was left open");
                    assert_eq!(reply.status, 200);
                    asked.fetch_add(1, Ordering::Relaxed);
                    if reply.header("connection") == Some("close") {
                        break;
                    }
                }
                assert!(kept.request("GET", "/version", &[], &[]).is_err(), "it said that it would close");
            });
        }
        while asked.load(Ordering::Relaxed) < 500 {
            std::thread::yield_now();
        }
        server.signal(Signal::TERM);
    });
}

/// A server with this many watches.
fn watched(count: usize, options: &[&str]) -> (Server, Vec<Watch>) {
    let server = Server::start(options);
    let client = server.client();
    let watches: Vec<Watch> = (0..count).map(|_| client.watch(&format!("{PATH}?watch=1")).unwrap()).collect();
    server.wait_for_metric("revcast_watchers", count as u64);
    (server, watches)
}

/// No more connections, except for operators.
fn refuses(server: &Server) {
    let began = Instant::now();
    while server.client().connect().is_ok() {
        assert!(began.elapsed() < Duration::from_secs(2), "it still takes connections");
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let (mut server, watches) = watched(100, &["--drain-grace", "60s"]);
        server.signal(Signal::TERM);
        // The first few are ended; the others would wait for most of a minute.
        let began = Instant::now();
        while server.metric("revcast_watchers") == 100 {
            assert!(began.elapsed() < Duration::from_secs(10), "no watcher is informed");
        }
        assert!(server.metric("revcast_watchers") > 50);
        refuses(&server);
        let began = Instant::now();
        server.signal(signal);
        assert_eq!(server.await_end(Duration::from_secs(5)), code);
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        drop(watches);
    }
}

#[test]
fn a_terminal_is_not_kept_waiting() {
    let (mut server, mut watches) = watched(100, &["--drain-grace", "60s", "--drain-delay", "60s"]);
    let began = Instant::now();
    server.signal(Signal::INT);
    for watch in &mut watches {
        assert!(watch.rest().is_empty(), "the last chunk, nothing before it");
    }
    assert_eq!(server.await_end(Duration::from_secs(10)), 0);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn what_does_not_end_in_the_grace_is_cut() {
    let (mut server, watches) =
        watched(3, &["--drain-grace", "1s", "--send-buffer", "4KiB", "--stall-timeout", "0"]);
    // They do not read: more than their sockets hold.
    let big = "x".repeat(1 << 20);
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let object = json!({"metadata": {"name": name}, "data": {"k": big}});
        assert_eq!(server.client().send("POST", PATH, &object).status, 201);
    }
    let began = Instant::now();
    server.signal(Signal::TERM);
    assert_eq!(server.await_end(Duration::from_secs(10)), 0);
    let took = began.elapsed();
    assert!((Duration::from_millis(900)..Duration::from_secs(4)).contains(&took), "{took:?}");
    drop(watches);
}
