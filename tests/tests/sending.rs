//! The way bytes are sent to many sockets does not change them: by `send(2)` or in batches on an io_uring, with much
//! room or nearly none, a client that reads gets every event once and in order, at once or late; a client that does not
//! read is cut off after its time, and does not affect the others.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use revcast_tests::client::{Client, Watch};
use revcast_tests::server::Server;
use revcast_tests::websocket::WebSocket;
use serde_json::json;

const PATH: &str = "/api/v1/namespaces/s/configmaps";
/// More than the socket buffers of one connection hold, when they are small.
const WRITES: u64 = 300;
const SIZE: usize = 3000;

fn write(client: &Client, count: u64) {
    let mut connection = client.connect().unwrap();
    for number in 0..count {
        let object = json!({"metadata": {"name": format!("n{number}")}, "data": {"k": "x".repeat(SIZE)}});
        let reply = connection.request("POST", PATH, &[], object.to_string().as_bytes()).unwrap();
        assert_eq!(reply.status, 201);
    }
}

fn names(watch: &mut Watch) -> Vec<String> {
    let event = |watch: &mut Watch| {
        let (kind, object) = watch.next_event();
        assert_eq!(kind, "ADDED");
        object["metadata"]["name"].as_str().unwrap().to_owned()
    };
    (0..WRITES).map(|_| event(watch)).collect()
}

#[test]
fn every_way_to_send_gives_the_same_streams() {
    let expected: Vec<String> = (0..WRITES).map(|number| format!("n{number}")).collect();
    for mode in ["send", "io_uring"] {
        for buffer in ["auto", "4KiB"] {
            let server = Server::start(&["--send-mode", mode, "--send-buffer", buffer, "--shards", "1"]);
            let client = server.client();
            let target = format!("{PATH}?watch=1");
            let mut prompt: Vec<Watch> = (0..70).map(|_| client.watch(&target).unwrap()).collect();
            let mut late: Vec<Watch> = (0..10).map(|_| client.watch(&target).unwrap()).collect();
            let mut socket = WebSocket::watch(client.address(), &target);
            // One disconnects in the middle of it.
            let gone = client.watch(&target).unwrap();
            server.wait_for_metric("revcast_watchers", 82);
            std::thread::scope(|scope| {
                let expected = &expected;
                scope.spawn(move || {
                    for watch in &mut prompt {
                        assert_eq!(&names(watch), expected, "{mode} {buffer}");
                    }
                });
                scope.spawn(move || {
                    drop({
                        let mut gone = gone;
                        gone.next_event();
                        gone
                    });
                });
                write(&client, WRITES);
            });
            for watch in &mut late {
                assert_eq!(names(watch), expected, "{mode} {buffer}, late");
            }
            for name in &expected {
                let frame = socket.next_frame().unwrap().expect("an event");
                assert!(String::from_utf8_lossy(&frame.1).contains(&format!(r#""name":"{name}""#)));
            }
            assert_eq!(server.metric("revcast_watchers_evicted_total"), 0, "{mode} {buffer}");
        }
    }
}

#[test]
fn who_takes_nothing_is_cut_off_when_his_time_is_over() {
    let server = Server::start(&["--stall-timeout", "2s", "--send-buffer", "4KiB", "--shards", "1"]);
    let client = server.client();
    let target = format!("{PATH}?watch=1");
    let stalled: Vec<Watch> = (0..20).map(|_| client.watch(&target).unwrap()).collect();
    let mut reading: Vec<Watch> = (0..20).map(|_| client.watch(&target).unwrap()).collect();
    // Quiet, but present: no byte waits for them.
    let quiet: Vec<Watch> =
        (0..20).map(|_| client.watch("/api/v1/namespaces/other/configmaps?watch=1").unwrap()).collect();
    server.wait_for_metric("revcast_watchers", 60);
    let began = Instant::now();
    std::thread::scope(|scope| {
        // In parallel: none of them is to stall while another one is read.
        for watch in &mut reading {
            scope.spawn(move || assert_eq!(names(watch).len(), 300));
        }
        write(&client, WRITES);
    });
    server.wait_for_metric("revcast_watchers", 40);
    assert!(began.elapsed() >= Duration::from_secs(2), "too early: {:?}", began.elapsed());
    drop(stalled);
    // The others continue.
    write_one(&client);
    for watch in &mut reading {
        assert_eq!(watch.next_event().1["metadata"]["name"], "last");
    }
    drop(quiet);
}

fn write_one(client: &Client) {
    let object = json!({"metadata": {"name": "last"}});
    assert_eq!(client.send("POST", PATH, &object).status, 201);
}
