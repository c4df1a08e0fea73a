//! A watch that keeps up is not ended by others' writes, and none is ended within its initial state as if the state
//! were complete.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use revcast_tests::client::Client;
use revcast_tests::server::{Server, embedded_only};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);

fn create(client: &Client, plural: &str, name: &str, size: usize) {
    let object = json!({"metadata": {"name": name}, "data": {"k": "x".repeat(size)}});
    let reply = client.send("POST", &format!("/api/v1/namespaces/k/{plural}"), &object);
    assert_eq!(reply.status, 201, "{}", reply.text());
}

/// The current revision, as seen by a watch that begins now.
fn newest(client: &Client, plural: &str) -> String {
    let list = client.get(&format!("/api/v1/namespaces/k/{plural}?limit=1")).json();
    list["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

/// 32 MiB at once through a window of 8: watches of other resources must not notice, and a reader of the burst gets all
/// of it.
#[test]
fn a_burst_larger_than_the_window_ends_no_watch() {
    if !embedded_only("the burst is that of its group commits") {
        return;
    }
    let server = Server::start(&["--ring-events", "1024", "--ring-bytes", "8MiB", "--shards", "1"]);
    let client = server.client();
    for number in 0..32 {
        create(&client, "configmaps", &format!("n{number:02}"), 1 << 20);
    }
    for round in 0..3 {
        let watch = |plural: &str| {
            let from = newest(&client, plural);
            client.watch(&format!("/api/v1/namespaces/k/{plural}?watch=1&resourceVersion={from}")).unwrap()
        };
        let mut other = watch("secrets");
        // A reader of the burst itself slows the shard down, and so changes the size of groups: not in every round.
        let same = (round == 2).then(|| watch("configmaps"));
        // Live, and nothing else to do.
        assert!(other.is_quiet_for(Duration::from_millis(200)));
        std::thread::scope(|scope| {
            let reader = same.map(|mut same| scope.spawn(move || same.events(32)));
            let gone = client.request("DELETE", "/api/v1/namespaces/k/configmaps", &[], &[]);
            assert_eq!(gone.status, 200, "{}", gone.text());
            for (kind, object) in reader.into_iter().flat_map(|reader| reader.join().unwrap()) {
                assert_eq!(kind, "DELETED", "who reads along sees each of them: {object}");
            }
        });
        create(&client, "secrets", &format!("s{round}"), 4);
        let (kind, object) = other.next_event();
        assert_eq!(kind, "ADDED", "{object}");
        for number in 0..32 {
            create(&client, "configmaps", &format!("n{number:02}"), 1 << 20);
        }
    }
    assert_eq!(server.metric("revcast_watchers_evicted_total"), 0);
}

/// A watch with the whole state and a time limit, read at `rate` bytes a second: its events, and how the stream ended.
fn read_slowly(client: &Client, seconds: u32, rate: usize) -> (Vec<Value>, bool) {
    const STEP: Duration = Duration::from_millis(20);
    let mut stream = TcpStream::connect(client.address()).unwrap();
    set_socket_recv_buffer_size(&stream, 16 << 10).unwrap();
    let path = format!("/api/v1/namespaces/k/configmaps?watch=1&timeoutSeconds={seconds}");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let (mut taken, mut piece) = (Vec::new(), vec![0; rate / 50]);
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < PATIENCE, "{} bytes, and no end", taken.len());
        let mut room = piece.as_mut_slice();
        while !room.is_empty() {
            match stream.read(room).unwrap() {
                0 => break,
                read => room = &mut room[read..],
            }
        }
        let left = room.len();
        taken.extend_from_slice(&piece[..piece.len() - left]);
        if left > 0 {
            break;
        }
        std::thread::sleep(STEP);
    }
    let text = String::from_utf8(taken).unwrap();
    let whole = text.ends_with("0\r\n\r\n");
    let lines = text.lines().filter(|line| line.starts_with("{\"type\""));
    (lines.filter_map(|line| serde_json::from_str(line).ok()).collect(), whole)
}

#[test]
fn a_time_that_is_over_within_the_state_is_told() {
    let server = Server::start(&["--shards", "1", "--send-buffer", "16KiB"]);
    let client = server.client();
    // The newest names come first: a client that is cut off early has seen the highest revisions.
    for number in (0..2_000).rev() {
        create(&client, "configmaps", &format!("n{number:04}"), 10 << 10);
    }
    // 20 MB, at 200 kB a second: neither its 3 s nor the grace are enough.
    let (events, whole) = read_slowly(&client, 3, 200_000);
    assert!(whole, "the last chunk comes after {} events", events.len());
    let (last, before) = events.split_last().unwrap();
    assert_eq!(
        (last["type"].as_str(), last["object"]["code"].as_u64()),
        (Some("ERROR"), Some(410)),
        "{last}"
    );
    assert!(before.len() < 2_000 && before.iter().all(|event| event["type"] == "ADDED"));
    // Faster: the deadline passes on the way as well, but the state is completed first.
    let (events, whole) = read_slowly(&client, 1, 10_000_000);
    assert!(whole && events.iter().all(|event| event["type"] == "ADDED"));
    assert_eq!(events.len(), 2_000, "all of the state, and a plain end");
}
