//! Connections to the upstream: used again, replaced when they are gone, and requests in the order of their client.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use revcast_tests::upstream::Next;

use super::{CACHED, Pair};

#[test]
fn a_connection_serves_many_requests() {
    let pair = Pair::new(&[]);
    pair.upstream.on("/chunked", |exchange| {
        exchange.read_body(|_| ())?;
        exchange.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n")?;
        Ok(Next::KeepAlive)
    });
    for number in 0..40 {
        let (method, path) = [("GET", "/x"), ("POST", "/chunked"), ("HEAD", "/x"), ("PUT", "/x")][number % 4];
        assert_eq!(pair.client().request(method, path, &[], b"").status, 200, "{method} {path}");
    }
    assert_eq!(pair.upstream.accepted(), 1);
    assert_eq!(pair.server.metrics("revcast_upstream_connections").iter().sum::<u64>(), 1);
}

#[test]
fn at_once_they_are_many_and_then_kept() {
    const MANY: usize = 10;
    let pair = Pair::new(&[]);
    let waiting = Arc::new(AtomicUsize::new(0));
    pair.upstream.on("/wait", move |exchange| {
        waiting.fetch_add(1, Ordering::AcqRel);
        let since = Instant::now();
        while !waiting.load(Ordering::Acquire).is_multiple_of(MANY)
            && since.elapsed() < Duration::from_secs(10)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        exchange.reply("200 OK", "")
    });
    for _ in 0..3 {
        std::thread::scope(|scope| {
            for _ in 0..MANY {
                scope.spawn(|| assert_eq!(pair.client().get("/wait").status, 200));
            }
        });
        // A connection comes back a moment after its reply.
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(pair.upstream.accepted(), MANY);
}

/// Requests on one connection are answered in their order, whoever answers them.
#[test]
fn pipelined_requests_are_answered_in_order() {
    let pair = Pair::new(&[]);
    pair.upstream.on("/slow", |exchange| {
        std::thread::sleep(Duration::from_millis(100));
        exchange.reply("200 OK", "slow")
    });
    let mut connection = pair.client().connect().unwrap();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n");
    let post = "POST /slow HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhello";
    let all = [get(CACHED), get("/slow"), get(CACHED), post.to_owned(), get("/x"), get(CACHED)].concat();
    connection.write_raw(all.as_bytes()).unwrap();
    for expected in ["ConfigMapList", "slow", "ConfigMapList", "slow", "/x", "ConfigMapList"] {
        let reply = connection.read_response(true).unwrap();
        assert!(reply.status == 200 && reply.text().contains(expected), "{expected}: {}", reply.text());
    }
    assert_eq!(pair.upstream.asked().len(), 3);
}

#[test]
fn an_idle_connection_that_is_closed_is_replaced() {
    let pair = Pair::new(&[]);
    // It closes after its reply, and does not say so.
    pair.upstream.on("/once", |exchange| {
        exchange.reply("200 OK", "once")?;
        Ok(Next::Close)
    });
    pair.upstream.on("/last", |exchange| {
        exchange.reply("200 OK\nConnection: close", "last")?;
        Ok(Next::Close)
    });
    for (number, path) in ["/once", "/last", "/once", "/once", "/last", "/last"].into_iter().enumerate() {
        assert_eq!(pair.client().request("POST", path, &[], b"{}").status, 200, "{path}");
        assert_eq!(pair.upstream.accepted(), number + 1);
        // It is seen to be closed meanwhile.
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(pair.client().get("/x").status, 200);
    pair.upstream.cut();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(pair.client().request("POST", "/x", &[], b"{}").status, 200);
}

/// The upstream closes a connection just when it is used again: a request that changes nothing is sent on another one, any other
/// may have been begun, and its client is told.
#[test]
fn a_connection_that_is_closed_when_it_is_used_again() {
    let pair = Pair::new(&[]);
    let used = Mutex::new(HashSet::new());
    pair.upstream.on("/turn", move |exchange| {
        if !used.lock().unwrap().insert(exchange.asked.connection) {
            return Ok(Next::Close);
        }
        exchange.reply("200 OK", "answered")
    });
    for (method, again) in
        [("GET", 200), ("HEAD", 200), ("OPTIONS", 200), ("POST", 502), ("PUT", 502), ("DELETE", 502)]
    {
        pair.upstream.cut();
        std::thread::sleep(Duration::from_millis(20));
        let asked = pair.upstream.asked().len();
        let mut codes = Vec::new();
        for _ in 0..2 {
            codes.push(pair.client().request(method, "/turn", &[], b"").status);
        }
        assert_eq!(codes, [200, again], "{method}");
        let sent = pair.upstream.asked().len() - asked;
        assert_eq!(sent, if again == 200 { 3 } else { 2 }, "{method}");
    }
    // On a connection that is new nothing is tried twice.
    pair.upstream.on("/never", |_| Ok(Next::Close));
    pair.upstream.cut();
    std::thread::sleep(Duration::from_millis(20));
    let asked = pair.upstream.asked().len();
    assert_eq!(pair.client().get("/never").status, 502);
    assert_eq!(pair.upstream.asked().len(), asked + 1);
}
