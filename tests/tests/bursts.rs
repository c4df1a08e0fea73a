//! Hundreds of requests at one instant, on connections that were kept: each is answered, over every wire, also when others leave before
//! their turn comes, and watches and control frames are served meanwhile.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::time::Duration;

use revcast_tests::certs::Authority;
use revcast_tests::client::{Client, Connection};
use revcast_tests::http2;
use revcast_tests::server::{Scratch, Server};
use revcast_tests::tls::Trust;
use rustix::process::Signal;
use serde_json::json;

const CLIENTS: usize = 500;
/// Of each burst, one client in so many leaves without waiting for its answer.
const LEAVES: usize = 10;
const PATH: &str = "/api/v1/namespaces/b/configmaps";

/// A server with one shard, whose turns all requests share, and its authority if it has TLS.
struct Stand {
    server: Server,
    trust: Option<Trust>,
    _scratch: Scratch,
}

impl Stand {
    /// `name`: of the test, whose folder is its own.
    fn new(name: &str, is_secure: bool) -> Self {
        let scratch = Scratch::new(&format!("bursts-{name}"));
        let (server, trust) = if is_secure {
            let authority = Authority::new(Path::new(scratch.path()), "ca");
            let identity = authority.server();
            let trust = Trust::of(&authority.certificate());
            let (cert, key) = (identity.cert.to_str().unwrap(), identity.key.to_str().unwrap());
            let options = ["--tls-cert", cert, "--tls-key", key, "--shards", "1"];
            (Server::start_with_tls(&trust, &options), Some(trust))
        } else {
            (Server::start(&["--shards", "1"]), None)
        };
        Self { server, trust, _scratch: scratch }
    }

    fn http2(&self) -> http2::Connection {
        let address = &self.server.address;
        let mut connection = match &self.trust {
            Some(trust) => http2::Connection::dial_tls(address, trust),
            None => http2::Connection::dial(address),
        };
        connection.preface(&[]);
        connection.settle();
        connection
    }

    /// What is sent meanwhile is all there when the server looks.
    fn stopped<T>(&self, send: impl FnOnce() -> T) -> T {
        self.server.signal(Signal::STOP);
        let sent = send();
        self.server.signal(Signal::CONT);
        sent
    }
}

fn create(client: &Client, name: &str) {
    let object = json!({"metadata": {"name": name}});
    let reply = client.send("POST", PATH, &object);
    assert_eq!(reply.status, 201, "{}", reply.text());
}

#[test]
fn each_request_of_a_burst_is_answered() {
    for is_secure in [false, true] {
        let stand = Stand::new("requests", is_secure);
        let client = stand.server.client();
        create(&client, "a");
        let mut watch = client.watch(&format!("{PATH}?watch=1")).unwrap();
        assert_eq!(watch.next_event().1["metadata"]["name"], "a");
        let mut all: Vec<Connection> = (0..CLIENTS).map(|_| client.connect().unwrap()).collect();
        // A handshake takes a server that runs.
        for connection in &mut all {
            assert_eq!(connection.request("GET", "/livez", &[], b"").unwrap().status, 200);
        }
        for round in 0..3 {
            // In the last round two requests each, of which the second came with the first.
            let count = if round == 2 { 2 } else { 1 };
            let head = format!("GET {PATH}/a HTTP/1.1\r\nHost: h\r\n\r\n").repeat(count);
            stand.stopped(|| {
                all.iter_mut().for_each(|connection| connection.write_raw(head.as_bytes()).unwrap());
                let mut number = 0;
                all.retain(|_| {
                    number += 1;
                    number % LEAVES != 0
                });
            });
            create(&client, &format!("n{round}"));
            assert_eq!(watch.next_event().1["metadata"]["name"], format!("n{round}"));
            for connection in &mut all {
                for _ in 0..count {
                    let reply = connection.read_response(true).unwrap();
                    assert_eq!((reply.status, &reply.json()["metadata"]["name"]), (200, &json!("a")));
                }
            }
        }
    }
}

#[test]
fn each_stream_of_a_burst_is_answered() {
    for is_secure in [false, true] {
        let stand = Stand::new("streams", is_secure);
        let client = stand.server.client();
        create(&client, "a");
        let mut all: Vec<http2::Connection> = (0..CLIENTS).map(|_| stand.http2()).collect();
        let mut watching = stand.http2();
        let watch = watching.request("GET", &format!("{PATH}?watch=1"), &[], true);
        assert_eq!(watching.event(watch).1["metadata"]["name"], "a");
        for round in 0..2 {
            let streams = stand.stopped(|| {
                let mut streams: Vec<u32> = Vec::new();
                for connection in &mut all {
                    streams.push(connection.request("GET", &format!("{PATH}/a"), &[], true));
                    connection.send(http2::Frame::ping([round; 8]));
                }
                for (connection, stream) in all.iter_mut().zip(&streams).step_by(LEAVES) {
                    connection.send(http2::Frame::reset(*stream, http2::code::CANCEL));
                }
                streams
            });
            create(&client, &format!("n{round}"));
            assert_eq!(watching.event(watch).1["metadata"]["name"], format!("n{round}"));
            for (number, (connection, stream)) in all.iter_mut().zip(streams).enumerate() {
                if number % LEAVES > 0 {
                    let reply = connection.response(stream);
                    assert_eq!((reply.status, &reply.json()["metadata"]["name"]), (200, &json!("a")));
                }
                while !connection.pongs().iter().any(|pong| pong == &[round; 8]) {
                    connection.read(Duration::from_secs(10));
                    assert!(connection.end().is_none());
                }
            }
        }
    }
}
