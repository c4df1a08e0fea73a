//! Lists and watches over TLS have the same content as without it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use flate2::write::GzDecoder;
use revcast_http1::ChunkDecoder;
use revcast_tests::client::Watch;
use revcast_tests::tls::{Stream, Version};
use tungstenite::Message;

use super::*;

const EVENTS: usize = 2000;
const SIZE: usize = 1500;

fn names(watch: &mut Watch) -> Vec<String> {
    let event = |watch: &mut Watch| {
        let (kind, object) = watch.next_event();
        assert_eq!(kind, "ADDED");
        object["metadata"]["name"].as_str().unwrap().to_owned()
    };
    (0..EVENTS).map(|_| event(watch)).collect()
}

/// Fast readers and slow ones, with both versions, with small buffers and large: all get everything, once and in order.
/// The list after it is long, and arrives completely.
#[test]
fn thousands_of_events_reach_prompt_and_late_readers() {
    let expected: Vec<String> = (0..EVENTS).map(|number| format!("n{number}")).collect();
    for buffer in ["auto", "4KiB"] {
        let stand = Stand::new(&format!("tls-events-{buffer}"), false, &["--send-buffer", buffer]);
        let target = format!("{PATH}?watch=1");
        let watches = |count: usize| -> Vec<Watch> {
            let versions = Version::ALL.map(|version| stand.client_with(&stand.trust.in_version(version)));
            versions.iter().cycle().take(count).map(|client| client.watch(&target).unwrap()).collect()
        };
        let (mut prompt, mut late) = (watches(20), watches(6));
        stand.server.wait_for_metric("revcast_watchers", 26);
        std::thread::scope(|scope| {
            let expected = &expected;
            scope.spawn(move || {
                std::thread::scope(|scope| {
                    for watch in &mut prompt {
                        scope.spawn(move || assert_eq!(&names(watch), expected));
                    }
                });
            });
            write(&stand.client(), EVENTS, SIZE);
        });
        for watch in &mut late {
            assert_eq!(names(watch), expected, "{buffer}");
        }
        for version in Version::ALL {
            let list = stand.client_with(&stand.trust.in_version(version)).get(PATH);
            assert_eq!(list.status, 200);
            assert!(list.body.len() > EVENTS * SIZE);
            let items = list.json()["items"].as_array().map(Vec::len);
            assert_eq!(items, Some(EVENTS), "{version:?}");
        }
        let frames = stand.server.metric("revcast_messages_serialized_total");
        assert!(frames <= 2 * EVENTS as u64, "{frames} frames: they are shared up to the encryption");
        assert_eq!(stand.server.metric("revcast_watchers_evicted_total"), 0);
    }
}

/// A watch that ends by its deadline returns its connection; repeatedly, and a request that was sent ahead is answered
/// after it.
#[test]
fn a_connection_goes_on_behind_its_watch() {
    let stand = Stand::new("tls-again", false, &[]);
    // The versions in parallel: each of their watches takes time.
    std::thread::scope(|scope| {
        for version in Version::ALL {
            let client = stand.client_with(&stand.trust.in_version(version));
            scope.spawn(move || go_on_behind_watches(&client, version));
        }
    });
    stand.server.wait_for_metric("revcast_watchers", 0);
}

fn go_on_behind_watches(client: &Client, version: Version) {
    let mut connection = client.connect().unwrap();
    for round in 0..2 {
        let target = format!("{PATH}?watch=1&timeoutSeconds=4");
        let mut watch = connection.watch(&target, &[]).unwrap();
        let name = format!("r{round}{}", format!("{version:?}").to_lowercase().replace('_', "-"));
        create(client, &name);
        // Ahead of time, in the middle of the stream.
        let ahead = format!("GET {PATH}/{name} HTTP/1.1\r\nHost: a\r\n\r\n");
        watch.connection().write_raw(ahead.as_bytes()).unwrap();
        let seen = watch.rest();
        assert!(seen.iter().any(|(_, object)| object["metadata"]["name"] == name), "{seen:?}");
        connection = watch.into_connection();
        let reply = connection.read_response(true).unwrap();
        assert_eq!((reply.status, &reply.json()["metadata"]["name"]), (200, &json!(name)));
        let reply = connection.request("GET", "/version", &[], &[]).unwrap();
        assert_eq!(reply.status, 200, "{version:?} {round}");
    }
}

/// A client that reads nothing until the watch is over still gets its end, and then its next reply.
#[test]
fn who_reads_late_gets_the_end_and_the_connection() {
    let stand = Stand::new("tls-late", false, &["--send-buffer", "4KiB"]);
    let target = format!("{PATH}?watch=1&timeoutSeconds=6");
    let mut watch = stand.client().watch(&target).unwrap();
    stand.server.wait_for_metric("revcast_watchers", 1);
    write(&stand.client(), 40, SIZE);
    std::thread::sleep(Duration::from_secs(7));
    assert_eq!(watch.rest().len(), 40);
    let reply = watch.into_connection().request("GET", "/version", &[], &[]).unwrap();
    assert_eq!(reply.status, 200);
}

#[test]
fn new_keys_in_the_middle_of_a_watch_change_nothing() {
    let stand = Stand::new("tls-keys", false, &[]);
    let client = stand.client_with(&stand.trust.in_version(Version::V1_3));
    let mut watch = client.watch(&format!("{PATH}?watch=1&timeoutSeconds=3")).unwrap();
    for round in 0..5 {
        let stream = watch.connection().stream();
        stream.tls().refresh_traffic_keys().unwrap();
        stream.flush().unwrap();
        if let Stream::Tls(stream) = stream {
            while stream.conn.wants_write() {
                stream.conn.write_tls(&mut stream.sock).unwrap();
            }
        }
        create(&client, &format!("k{round}"));
        assert_eq!(watch.next_event().1["metadata"]["name"], format!("k{round}"));
    }
    assert!(watch.rest().is_empty());
    let reply = watch.into_connection().request("GET", PATH, &[], &[]).unwrap();
    assert_eq!(reply.json()["items"].as_array().map(Vec::len), Some(5));
}

#[test]
fn a_goodbye_ends_a_watch_at_once() {
    let stand = Stand::new("tls-bye", false, &[]);
    for version in Version::ALL {
        let client = stand.client_with(&stand.trust.in_version(version));
        let mut watch = client.watch(&format!("{PATH}?watch=1")).unwrap();
        stand.server.wait_for_metric("revcast_watchers", 1);
        let Stream::Tls(stream) = watch.connection().stream() else { panic!("TLS") };
        stream.conn.send_close_notify();
        stream.conn.write_tls(&mut stream.sock).unwrap();
        let end = watch.connection().read_to_end().unwrap();
        assert!(end.is_empty(), "nothing but the server's own goodbye");
        stand.server.wait_for_metric("revcast_watchers", 0);
    }
}

#[test]
fn gzip_streams_and_websockets_have_tls_below_them() {
    let stand = Stand::new("tls-forms", false, &[]);
    write(&stand.client(), 300, 600);
    for version in Version::ALL {
        let trust = stand.trust.in_version(version);
        // gzip: a WatchList that ends by its time.
        let initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let target = format!("{PATH}?watch=1&timeoutSeconds=1&{initial}");
        let mut stream = trust.over(TcpStream::connect(&stand.server.address).unwrap());
        let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let text = unzip(BufReader::new(stream));
        assert_eq!(text.lines().filter(|line| line.contains(r#""type":"ADDED""#)).count(), 300);
        assert!(text.contains("k8s.io/initial-events-end"), "{version:?}");
        // A WebSocket, with a ping in the middle.
        let stream = TcpStream::connect(&stand.server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let url = format!("ws://localhost{PATH}?watch=1");
        let (mut socket, reply) = tungstenite::client(url, trust.over(stream)).unwrap();
        assert_eq!(reply.status().as_u16(), 101);
        for number in 0..300 {
            if number % 50 == 0 {
                socket.send(Message::Ping(vec![1, 2, 3].into())).unwrap();
            }
            let event = loop {
                match socket.read().unwrap() {
                    Message::Text(text) => break text,
                    Message::Pong(payload) => assert_eq!(payload, vec![1, 2, 3]),
                    other @ (Message::Binary(_)
                    | Message::Ping(_)
                    | Message::Close(_)
                    | Message::Frame(_)) => {
                        panic!("{other:?}")
                    }
                }
            };
            assert!(event.contains(r#""type":"ADDED""#));
        }
        socket.close(None).unwrap();
        let end = loop {
            match socket.read() {
                Ok(_) => {}
                Err(end) => break end,
            }
        };
        assert!(matches!(end, tungstenite::Error::ConnectionClosed), "{end}");
        stand.server.wait_for_metric("revcast_watchers", 0);
    }
}

/// The text of a chunked gzip reply that ends with its connection.
fn unzip(mut reader: BufReader<Stream>) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).unwrap(), 0, "{head}");
    }
    assert!(head.contains("Content-Encoding: gzip"), "{head}");
    let (mut chunks, mut decoder) = (ChunkDecoder::new(), GzDecoder::new(Vec::new()));
    while let Some(chunk) = chunks.read_chunk(&mut reader).unwrap() {
        decoder.write_all(&chunk).unwrap();
    }
    assert_eq!(reader.read(&mut [0]).unwrap(), 0, "a clean end");
    String::from_utf8(decoder.finish().unwrap()).unwrap()
}

/// A closing server ends every watch, closes every connection gracefully, and exits with 0.
#[test]
fn a_closing_server_says_goodbye() {
    let stand = Stand::new("tls-close", false, &[]);
    let mut watches: Vec<Watch> =
        (0..20).map(|_| stand.client().watch(&format!("{PATH}?watch=1")).unwrap()).collect();
    stand.server.wait_for_metric("revcast_watchers", 20);
    assert_eq!(stand.server.terminate(), Some(0));
    for watch in &mut watches {
        assert!(watch.rest().iter().all(|(kind, _)| kind == "BOOKMARK"));
        assert!(watch.connection().read_to_end().unwrap().is_empty(), "a clean end below the last chunk");
    }
}

/// The memory of an idle watch with TLS, in either version: a session, and no buffer.
#[test]
fn a_quiet_watch_holds_no_buffer() {
    const COUNT: usize = 300;
    const BYTES_MAX: u64 = 64 << 10;
    let stand = Stand::new("tls-memory", false, &["--shards", "1"]);
    for version in Version::ALL {
        let client = stand.client_with(&stand.trust.in_version(version));
        let before = stand.server.resident_kb();
        let mut watches: Vec<Watch> =
            (0..COUNT).map(|_| client.watch(&format!("{PATH}?watch=1")).unwrap()).collect();
        create(&stand.client(), &format!("{version:?}").to_lowercase().replace('_', "-"));
        for watch in &mut watches {
            watch.next_event();
        }
        // What the handshakes needed is given back a moment after them.
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let each = stand.server.resident_kb().saturating_sub(before) * 1024 / COUNT as u64;
            if each <= BYTES_MAX {
                break;
            }
            assert!(Instant::now() < deadline, "{version:?}: {each} bytes a watch");
            std::thread::sleep(Duration::from_millis(200));
        }
        drop(watches);
        stand.server.wait_for_metric("revcast_watchers", 0);
    }
}
