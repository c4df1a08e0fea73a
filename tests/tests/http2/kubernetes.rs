//! The Kubernetes API over HTTP/2: what clients do on one connection.

use std::io::Read as _;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use revcast_tests::http2::{Connection, Frame, Outcome, Read, code, flag, kind as frame, setting};
use revcast_tests::server::Server;
use serde_json::json;

use super::{PATH, create, object};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// As client-go begins (`h2_bundle.go`): large windows, and no push.
fn client_go(server: &Server) -> Connection {
    let mut connection = Connection::dial(&server.address);
    connection.preface(&[
        (setting::ENABLE_PUSH, 0),
        (setting::INITIAL_WINDOW_SIZE, 4 << 20),
        (setting::MAX_FRAME_SIZE, 16_384),
        (setting::MAX_HEADER_LIST_SIZE, 10 << 20),
    ]);
    connection.send(Frame::window_update(0, 1 << 30));
    connection.settle();
    connection
}

fn watch(connection: &mut Connection, query: &str) -> u32 {
    let stream = connection.request("GET", &format!("{PATH}?watch=1{query}"), &[], true);
    let head = connection.head(stream);
    assert_eq!(head.status, 200, "{}", head.text());
    stream
}

/// `ADDED name`.
fn told(connection: &mut Connection, stream: u32) -> String {
    let (kind, object) = connection.event(stream);
    format!("{kind} {}", object["metadata"]["name"].as_str().unwrap())
}

#[test]
fn objects_are_created_read_changed_and_deleted() {
    let server = Server::start(&[]);
    let mut connection = client_go(&server);
    let made = connection.exchange("POST", PATH, &JSON, &object("a", "1"));
    assert_eq!((made.status, made.field("content-type")), (201, Some("application/json")), "{}", made.text());
    let again = connection.exchange("POST", PATH, &JSON, &object("a", "1"));
    assert_eq!((again.status, &again.json()["reason"]), (409, &json!("AlreadyExists")));
    let path = format!("{PATH}/a");
    let mut changed = connection.get(&path).json();
    changed["data"]["k"] = json!("2");
    let put = connection.exchange("PUT", &path, &JSON, changed.to_string().as_bytes());
    assert_eq!((put.status, &put.json()["data"]["k"]), (200, &json!("2")));
    let merge = [("content-type", "application/merge-patch+json")];
    let patched = connection.exchange("PATCH", &path, &merge, br#"{"data":{"k":"3"}}"#);
    assert_eq!((patched.status, &patched.json()["data"]["k"]), (200, &json!("3")));
    assert_eq!(connection.get(PATH).json()["items"][0]["data"]["k"], "3");
    let stream = connection.request("DELETE", &path, &[], true);
    assert_eq!(connection.response(stream).status, 200);
    assert_eq!(connection.get(&path).status, 404);
    connection.expect_alive();
}

#[test]
fn errors_are_status_objects() {
    let server = Server::start(&[]);
    let mut connection = client_go(&server);
    let missing = connection.get(&format!("{PATH}/none"));
    assert_eq!((missing.status, missing.field("content-type")), (404, Some("application/json")));
    let status = missing.json();
    assert_eq!(
        (&status["kind"], &status["reason"], &status["code"]),
        (&json!("Status"), &json!("NotFound"), &json!(404))
    );
    let bad = connection.exchange("POST", PATH, &JSON, b"{");
    assert_eq!((bad.status, &bad.json()["kind"]), (400, &json!("Status")));
    let bad = connection.get(&format!("{PATH}?watch=1&resourceVersion=x"));
    assert_eq!((bad.status, &bad.json()["kind"]), (400, &json!("Status")));
    connection.expect_alive();
}

#[test]
fn lists_of_any_length_are_complete() {
    let server = Server::start(&[]);
    for number in 0..60 {
        create(&server.client(), &format!("n{number:02}"), &"x".repeat(20_000));
    }
    let whole = server.client().get(PATH).json();
    for mut connection in [client_go(&server), Connection::open(&server.address)] {
        let list = connection.get(PATH);
        assert_eq!(list.json()["items"], whole["items"]);
        let page = connection.get(&format!("{PATH}?limit=7")).json();
        assert_eq!(page["items"].as_array().map(Vec::len), Some(7));
        let next = page["metadata"]["continue"].as_str().unwrap();
        let page = connection.get(&format!("{PATH}?limit=100&continue={next}")).json();
        assert_eq!(page["items"].as_array().map(Vec::len), Some(53));
        // Several at a time.
        let streams: Vec<u32> = (0..8).map(|_| connection.request("GET", PATH, &[], true)).collect();
        for stream in streams {
            assert_eq!(connection.response(stream).json()["items"], whole["items"]);
        }
    }
}

#[test]
fn a_list_is_compressed_for_clients_that_ask() {
    let server = Server::start(&[]);
    for number in 0..20 {
        create(&server.client(), &format!("n{number:02}"), &"x".repeat(20_000));
    }
    let mut connection = client_go(&server);
    let stream = connection.request("GET", PATH, &[("accept-encoding", "gzip")], true);
    let list = connection.response(stream);
    assert_eq!((list.status, list.field("content-encoding")), (200, Some("gzip")));
    let mut plain = String::new();
    GzDecoder::new(list.body.as_slice()).read_to_string(&mut plain).unwrap();
    assert_eq!(plain, connection.get(PATH).text());
    assert!(list.body.len() < plain.len() / 4);
}

#[test]
fn a_watch_tells_every_event_in_order() {
    let server = Server::start(&[]);
    create(&server.client(), "before", "1");
    let mut connection = client_go(&server);
    let whole = watch(&mut connection, "");
    assert_eq!(told(&mut connection, whole), "ADDED before");
    let since = watch(&mut connection, &format!("&resourceVersion={}", server.client().newest()));
    let client = server.client();
    for number in 0..50 {
        create(&client, &format!("n{number}"), "1");
    }
    for number in 0..50 {
        assert_eq!(client.send("DELETE", &format!("{PATH}/n{number}"), &json!({})).status, 200);
    }
    for stream in [whole, since] {
        let told: Vec<String> = (0..100).map(|_| told(&mut connection, stream)).collect();
        let added = (0..50).map(|number| format!("ADDED n{number}"));
        let wanted: Vec<String> = added.chain((0..50).map(|number| format!("DELETED n{number}"))).collect();
        assert_eq!(told, wanted);
    }
    connection.expect_alive();
}

/// The head comes at once, before any event.
#[test]
fn a_watch_without_events_has_a_head() {
    let server = Server::start(&[]);
    let mut connection = client_go(&server);
    let stream = watch(&mut connection, "");
    let head = connection.head(stream);
    assert_eq!(head.field("content-type"), Some("application/json"));
    assert_eq!((head.field("content-length"), head.field("transfer-encoding")), (None, None));
    assert!(head.body.is_empty());
}

#[test]
fn a_watch_that_is_cancelled_leaves_the_others_alone() {
    let server = Server::start(&[]);
    let mut connection = client_go(&server);
    let streams: Vec<u32> = (0..10).map(|_| watch(&mut connection, "")).collect();
    create(&server.client(), "first", "1");
    streams.iter().for_each(|stream| assert_eq!(told(&mut connection, *stream), "ADDED first"));
    let (gone, left) = streams.split_at(4);
    gone.iter().for_each(|stream| connection.send(Frame::reset(*stream, code::CANCEL)));
    server.wait_for_metric("revcast_watchers", 6);
    connection.ping();
    create(&server.client(), "second", "1");
    left.iter().for_each(|stream| assert_eq!(told(&mut connection, *stream), "ADDED second"));
    connection.ping();
    for stream in gone {
        assert!(!connection.so_far(*stream).text().contains("second"), "nothing comes after the cancel");
        assert_eq!(connection.reset_of(*stream), None);
    }
    connection.expect_alive();
}

#[test]
fn a_watch_with_a_timeout_ends_with_end_stream() {
    let server = Server::start(&[]);
    let mut connection = client_go(&server);
    let long = watch(&mut connection, "");
    let short = watch(&mut connection, "&timeoutSeconds=1");
    create(&server.client(), "a", "1");
    assert_eq!(told(&mut connection, short), "ADDED a");
    assert_eq!(connection.line(short), None);
    assert_eq!(connection.outcome(short, Duration::ZERO), Outcome::Answered(200));
    server.wait_for_metric("revcast_watchers", 1);
    create(&server.client(), "b", "1");
    assert_eq!(
        (told(&mut connection, long), told(&mut connection, long)),
        ("ADDED a".into(), "ADDED b".into())
    );
}

/// The limit of one connection: each event exactly once in each watch.
#[test]
fn a_hundred_watches_of_one_connection_get_each_event_once() {
    let server = Server::start(&[]);
    let mut connection = client_go(&server);
    let streams: Vec<u32> = (0..100).map(|_| watch(&mut connection, "")).collect();
    server.wait_for_metric("revcast_watchers", 100);
    let client = server.client();
    for number in 0..100 {
        create(&client, &format!("n{number:03}"), &"x".repeat(300));
    }
    for stream in &streams {
        for number in 0..100 {
            assert_eq!(told(&mut connection, *stream), format!("ADDED n{number:03}"));
        }
    }
    connection.ping();
    for stream in &streams {
        assert_eq!(connection.so_far(*stream).text().lines().count(), 100);
    }
    drop(connection);
    server.wait_for_metric("revcast_watchers", 0);
}

/// Several connections, each with watches from the beginning and from later, and writers meanwhile.
#[test]
fn watches_and_writes_share_connections() {
    let server = Server::start(&[]);
    for number in 0..50 {
        create(&server.client(), &format!("a{number:02}"), "1");
    }
    std::thread::scope(|scope| {
        for part in 0..4 {
            let server = &server;
            scope.spawn(move || {
                let mut connection = client_go(server);
                let streams: Vec<u32> = (0..20).map(|_| watch(&mut connection, "")).collect();
                for number in 0..25 {
                    let body = object(&format!("b{part}-{number:02}"), &"x".repeat(2_000));
                    assert_eq!(connection.exchange("POST", PATH, &JSON, &body).status, 201);
                }
                for stream in streams {
                    let mut names: Vec<String> = (0..150).map(|_| told(&mut connection, stream)).collect();
                    let first = names[..50].to_vec();
                    assert!(first.is_sorted() || part > 0 || !first.is_empty());
                    names.sort();
                    names.dedup();
                    assert_eq!(names.len(), 150, "each once");
                }
            });
        }
    });
    server.wait_for_metric("revcast_watchers", 0);
}

/// A watch that begins before what the window remembers: an ERROR event or 410, and the connection goes on.
#[test]
fn a_watch_that_is_too_old_is_told_so() {
    let server = Server::start(&[]);
    let mut connection = client_go(&server);
    let other = watch(&mut connection, "");
    let stream = connection.request("GET", &format!("{PATH}?watch=1&resourceVersion=1"), &[], true);
    let head = connection.head(stream);
    // As over HTTP/1.1, whatever that is.
    let over_http1 = server.client().watch(&format!("{PATH}?watch=1&resourceVersion=1"));
    assert_eq!(head.status == 200, over_http1.is_ok());
    create(&server.client(), "still", "1");
    assert_eq!(told(&mut connection, other), "ADDED still");
}

/// Bookmarks and initial events (KEP-3157) are no matter of the wire.
#[test]
fn initial_events_end_with_a_bookmark() {
    let server = Server::start(&[]);
    for number in 0..30 {
        create(&server.client(), &format!("n{number:02}"), "1");
    }
    let mut connection = client_go(&server);
    let query = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let stream = watch(&mut connection, query);
    for number in 0..30 {
        assert_eq!(told(&mut connection, stream), format!("ADDED n{number:02}"));
    }
    let (kind, bookmark) = connection.event(stream);
    assert_eq!(kind, "BOOKMARK");
    assert_eq!(bookmark["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
}

/// Events are text of any size: larger than frames, than windows, than what a socket takes.
#[test]
fn large_events_arrive_whole() {
    let server = Server::start(&[]);
    for mut connection in [client_go(&server), Connection::open(&server.address)] {
        let stream = watch(&mut connection, &format!("&resourceVersion={}", server.client().newest()));
        for size in [16_384, 65_535, 1 << 20] {
            let name = format!("large-{size}-{}", connection.setting(setting::MAX_FRAME_SIZE).unwrap_or(0));
            let data = "x".repeat(size);
            let _ = server.client().request("DELETE", &format!("{PATH}/{name}"), &[], &[]);
            create(&server.client(), &name, &data);
            let event = loop {
                let (kind, event) = connection.event(stream);
                if kind == "ADDED" {
                    break event;
                }
            };
            assert_eq!(event["data"]["k"], data);
        }
    }
}

/// A server that is told to end says GOAWAY, ends its watches, and closes.
#[test]
fn a_server_that_ends_says_goaway() {
    let server = Server::start(&[]);
    let mut connection = client_go(&server);
    let streams: Vec<u32> = (0..10).map(|_| watch(&mut connection, "")).collect();
    create(&server.client(), "a", "1");
    streams.iter().for_each(|stream| assert_eq!(told(&mut connection, *stream), "ADDED a"));
    let ended = std::thread::spawn(move || server.terminate());
    for stream in streams {
        assert_eq!(connection.line(stream), None, "a complete end");
    }
    connection.expect_goaway(&[code::NO_ERROR]);
    assert_eq!(ended.join().unwrap(), Some(0));
}

/// An idle connection of watches is kept alive as a whole, also of watches in protobuf, or each watch in JSON for itself.
#[test]
fn idle_watches_have_heartbeats_of_the_kind_that_is_wanted() {
    let protobuf = [("accept", "application/vnd.kubernetes.protobuf;stream=watch")];
    for (kind, wanted) in [("ping", frame::PING), ("stream", frame::DATA)] {
        let server = Server::start(&["--heartbeat-interval", "1s", "--http2-heartbeat", kind]);
        let mut connection = client_go(&server);
        let in_json = watch(&mut connection, "");
        let in_protobuf = connection.request("GET", &format!("{PATH}?watch=1"), &protobuf, true);
        assert_eq!(connection.head(in_protobuf).status, 200);
        let began = Instant::now();
        let (mut beats, mut last) = (0, began);
        while began.elapsed() < Duration::from_secs(5) {
            match connection.read(Duration::from_millis(100)) {
                Read::Frame(frame) => {
                    let stream = if kind == "ping" { 0 } else { in_json };
                    assert_eq!((frame.kind, frame.stream), (wanted, stream), "{kind}: {frame:?}");
                    assert!(kind == "ping" || frame.payload == b" ", "{frame:?}");
                    if kind == "ping" {
                        connection.send(Frame::new(frame::PING, flag::ACK, 0, frame.payload));
                    }
                    (beats, last) = (beats + 1, Instant::now());
                }
                Read::Nothing => assert!(last.elapsed() < Duration::from_secs(3), "{kind}: no sign of life"),
                Read::End => panic!("{kind}: the connection ended"),
            }
        }
        assert!((2..=6).contains(&beats), "{kind}: {beats} heartbeats in 5 s");
        let made = connection.exchange("POST", PATH, &JSON, &object("a", "1"));
        assert_eq!(made.status, 201);
        assert_eq!(told(&mut connection, in_json), "ADDED a");
    }
}
