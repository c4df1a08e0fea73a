//! Clients that ask for more than their share, within the protocol: other clients are served nevertheless.
#![allow(clippy::unwrap_used)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use revcast_tests::server::Server;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use serde_json::json;

const PATH: &str = "/api/v1/namespaces/g/configmaps";
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn requests_upon_requests_do_not_keep_a_shard_from_its_watches() {
    let server = Server::start(&["--shards", "1"]);
    let client = server.client();
    let mut watch = client.watch(&format!("{PATH}?watch=1")).unwrap();
    let over = AtomicBool::new(false);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let mut asking = TcpStream::connect(client.address()).unwrap();
            let mut hearing = asking.try_clone().unwrap();
            let over = &over;
            // Longer than a read of the server, and not a multiple of a request: there is always something left to
            // read.
            let requests = b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n".repeat(2000);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) && begun.elapsed() < 2 * PATIENCE {
                    asking.write_all(&requests).unwrap();
                }
                asking.shutdown(std::net::Shutdown::Both).unwrap();
            });
            scope.spawn(move || {
                let mut scrap = vec![0; 1 << 20];
                // An exchange under way when the other half ends may fail.
                while let Ok(1..) = hearing.read(&mut scrap) {}
            });
        }
        // Under way before the first of these, and after the last one.
        std::thread::sleep(Duration::from_millis(200));
        for number in 0..10 {
            let name = format!("n{number}");
            let object = json!({ "metadata": { "name": name } });
            assert_eq!(client.send("POST", PATH, &object).status, 201);
            assert_eq!(watch.next_event().1["metadata"]["name"], name);
        }
        let took = begun.elapsed();
        over.store(true, Ordering::Relaxed);
        assert!(took < PATIENCE, "ten events beside a flood took {took:?}");
    });
}

#[test]
fn who_takes_a_list_by_the_drop_is_cut_off_and_who_takes_it_late_is_not() {
    let server = Server::start(&["--shards", "1", "--request-timeout", "2s", "--send-buffer", "16KiB"]);
    let client = server.client();
    for number in 0..48 {
        let object =
            json!({"metadata": {"name": format!("n{number}")}, "data": {"k": "x".repeat(128 << 10)}});
        assert_eq!(client.send("POST", PATH, &object).status, 201);
    }
    let ask = |within: usize| {
        let mut stream = TcpStream::connect(client.address()).unwrap();
        set_socket_recv_buffer_size(&stream, within).unwrap();
        write!(stream, "GET {PATH} HTTP/1.1\r\nHost: h\r\nUser-Agent: t\r\n\r\n").unwrap();
        stream
    };
    // 4 KiB ten times a second: never idle, and never done.
    let mut slow = ask(8 << 10);
    let begun = Instant::now();
    let mut taken = Vec::new();
    let mut piece = [0; 4 << 10];
    let mut is_cut = false;
    while !is_cut && begun.elapsed() < PATIENCE {
        match slow.read(&mut piece) {
            Ok(0) | Err(_) => is_cut = true,
            Ok(read) => taken.extend_from_slice(&piece[..read]),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(is_cut, "{} bytes in {PATIENCE:?} and no end", taken.len());
    assert!(taken.starts_with(b"HTTP/1.1 200 OK\r\n") && !taken.ends_with(b"\r\n0\r\n\r\n"));
    // One that pauses for longer than the time, but takes its bytes at a fair rate in between.
    let mut fair = ask(256 << 10);
    let mut whole = Vec::new();
    while !whole.ends_with(b"\r\n0\r\n\r\n") {
        let mut piece = vec![0; 512 << 10];
        let read = fair.read(&mut piece).unwrap();
        assert_ne!(read, 0, "cut off after {} bytes", whole.len());
        whole.extend_from_slice(&piece[..read]);
        if whole.len() > 1 << 20 && whole.len() < 3 << 20 {
            std::thread::sleep(Duration::from_millis(300));
        }
    }
    assert!(whole.len() > 48 * (128 << 10));
}
