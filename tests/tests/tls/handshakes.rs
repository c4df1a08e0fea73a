//! Handshakes that are refused, malformed ones, and ones that stall beside a healthy watcher.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use revcast_tests::tls::Version;

use super::*;

#[test]
fn two_protocols_are_spoken() {
    let stand = Stand::new("tls-alpn", false, &[]);
    for version in Version::ALL {
        let trust = stand.trust.in_version(version);
        let mut connection = stand.client_with(&trust.offering(&["http/1.1"])).connect().unwrap();
        assert_eq!(connection.request("GET", "/version", &[], &[]).unwrap().status, 200);
        assert_eq!(connection.stream().tls().alpn_protocol(), Some(&b"http/1.1"[..]));
        // HTTP/2 is preferred, whatever comes first.
        for offered in [&["h2"][..], &["http/1.1", "h2"]] {
            let mut connection = stand.client_with(&trust.offering(offered)).connect().unwrap();
            let connection = connection.stream();
            connection.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
            let mut head = [0; 9];
            connection.read_exact(&mut head).unwrap();
            assert_eq!(head[3..], [4, 0, 0, 0, 0, 0], "settings: {offered:?}");
            assert_eq!(connection.tls().alpn_protocol(), Some(&b"h2"[..]), "{offered:?}");
        }
        let client = stand.client_with(&trust.offering(&["h3"]));
        let refused = client.connect().unwrap().request("GET", "/version", &[], &[]);
        let alert = refused.expect_err("no client speaks that").to_string();
        assert!(alert.contains("NoApplicationProtocol"), "{alert}");
    }
}

fn everything(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    // A reset after the last byte is an end too.
    let _ = stream.read_to_end(&mut all);
    String::from_utf8_lossy(&all).into_owned()
}

#[test]
fn who_forgets_the_s_is_told_so() {
    let stand = Stand::new("tls-plain", false, &[]);
    for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        let mut stream = TcpStream::connect(&stand.server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let since = Instant::now();
        write!(stream, "{method} /version HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello").unwrap();
        let told = everything(&mut stream);
        assert_eq!(
            told, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
            "{method}"
        );
        assert!(since.elapsed() < Duration::from_secs(3), "at once");
    }
    drop(TcpStream::connect(&stand.server.address).unwrap());
    // The admin listener speaks plain HTTP nevertheless.
    assert_eq!(stand.server.admin_client().get("/livez").status, 200);
    stand.wait_for_handshakes(["failed", "abandoned"], [7, 1]);
}

#[test]
fn garbage_and_cut_off_handshakes_cost_nothing_but_themselves() {
    let stand = Stand::new("tls-garbage", false, &[]);
    let hello = {
        let mut stream = stand.trust.over(TcpStream::connect(&stand.server.address).unwrap());
        let mut hello = Vec::new();
        stream.tls().write_tls(&mut hello).unwrap();
        hello
    };
    let mut seed = 1_u64;
    let mut noise = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        seed.to_be_bytes()[0]
    };
    for round in 0..200_usize {
        let mut stream = TcpStream::connect(&stand.server.address).unwrap();
        let bytes: Vec<u8> = match round % 4 {
            0 => (0..round * 7).map(|_| noise()).collect(),
            // Cut off.
            1 => hello[..hello.len() * round / 200].to_vec(),
            // Changed.
            2 => hello
                .iter()
                .enumerate()
                .map(|(at, b)| if at % 97 == round % 97 { noise() } else { *b })
                .collect(),
            // A record without end.
            _ => [&[0x16, 3, 1, 0x40, 0][..], &vec![noise(); 30_000]].concat(),
        };
        // The server may close before it has read all.
        let _ = stream.write_all(&bytes);
        if round % 8 == 0 {
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let _ = stream.shutdown(std::net::Shutdown::Write);
            assert!(!everything(&mut stream).contains("HTTP"));
        }
    }
    assert_eq!(stand.client().get("/version").status, 200);
    assert_eq!(stand.server.metric("revcast_watchers"), 0);
}

/// 500 handshakes stall: without a byte, in the middle of a record, and after the server's own part. A watcher beside
/// them gets every event at once, new clients are accepted, and the stalled ones are closed when their time is over.
#[test]
fn stalled_handshakes_hold_nobody_up() {
    const STALLED: usize = 500;
    let stand = Stand::new("tls-stalled", false, &["--shards", "1"]);
    let mut watch = stand.client().watch(&format!("{PATH}?watch=1")).unwrap();
    let began = Instant::now();
    let mut stalled: Vec<TcpStream> = (0..STALLED)
        .map(|number| {
            let socket = TcpStream::connect(&stand.server.address).unwrap();
            let mut stream = stand.trust.over(socket.try_clone().unwrap());
            let mut hello = Vec::new();
            stream.tls().write_tls(&mut hello).unwrap();
            let part = [0, hello.len() / 2, hello.len()][number % 3];
            (&socket).write_all(&hello[..part]).unwrap();
            socket
        })
        .collect();
    let mut slowest = Duration::ZERO;
    let mut count = 0;
    while began.elapsed() < Duration::from_secs(6) {
        let since = Instant::now();
        create(&stand.client(), &format!("beside{count}"));
        assert_eq!(watch.next_event().1["metadata"]["name"], format!("beside{count}"));
        slowest = slowest.max(since.elapsed());
        count += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(count > 20, "{count} events");
    assert!(slowest < Duration::from_secs(2), "a handshake, a write and its event took {slowest:?}");
    // All stalled clients are cut off, in time.
    for stream in &mut stalled {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let _ = everything(stream);
    }
    assert!(began.elapsed() >= Duration::from_secs(9), "too early: {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(25), "too late: {:?}", began.elapsed());
    create(&stand.client(), "last");
    assert_eq!(watch.next_event().1["metadata"]["name"], "last");
}

/// Many at once: all are accepted, and a watcher beside them continues.
#[test]
fn a_storm_of_handshakes_is_served() {
    let stand = Stand::new("tls-storm", false, &["--shards", "1"]);
    let mut watch = stand.client().watch(&format!("{PATH}?watch=1")).unwrap();
    std::thread::scope(|scope| {
        let ask = || (0..25).for_each(|_| assert_eq!(stand.client().get("/version").status, 200));
        for _ in 0..8 {
            scope.spawn(ask);
        }
        for number in 0..20 {
            create(&stand.client(), &format!("storm{number}"));
            assert_eq!(watch.next_event().1["metadata"]["name"], format!("storm{number}"));
        }
    });
}
