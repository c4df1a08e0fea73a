//! Bodies in both directions: framed anew, whole, in constant memory, and never passed off as whole when they are not.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use revcast_tests::sizes::sizes;
use revcast_tests::upstream::Next;

use super::{Pair, Pattern};

const WAIT: Duration = Duration::from_secs(10);
/// A body that no buffer holds, in MiB; another length: `REVCAST_FORWARDED_MIB`.
const LARGE_MIB: u64 = 100;
/// How much the server may grow while it passes on large bodies.
const GROWTH_KB: u64 = 24 << 10;

/// A connection for bytes as they are.
fn connect(pair: &Pair) -> TcpStream {
    let stream = TcpStream::connect(&pair.server.address).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

#[test]
fn a_body_arrives_as_it_was_sent() {
    let pair = Pair::new(&[]);
    pair.upstream.on("/echo", |exchange| {
        let body = exchange.body()?;
        let framing = format!(
            "{:?} {:?}",
            exchange.asked.headers("content-length"),
            exchange.asked.headers("transfer-encoding")
        );
        exchange.send(format!(
            "HTTP/1.1 200 OK\r\nX-Framing: {framing}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        ))?;
        exchange.send(body)?;
        Ok(Next::KeepAlive)
    });
    let mut connection = pair.client().connect().unwrap();
    for (method, framing, body, framed, content) in [
        ("POST", "Content-Length: 5", "hello", r#"["5"] []"#, "hello"),
        ("PUT", "Content-Length: 05", "hello", r#"["5"] []"#, "hello"),
        ("GET", "Content-Length: 5", "hello", r#"["5"] []"#, "hello"),
        ("DELETE", "Content-Length: 2", "{}", r#"["2"] []"#, "{}"),
        ("POST", "Content-Length: 0", "", r#"["0"] []"#, ""),
        ("LINK", "Content-Length: 3", "a\r\n", r#"["3"] []"#, "a\r\n"),
        ("POST", "Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n", r#"[] ["chunked"]"#, "hello"),
        (
            "PATCH",
            "Transfer-Encoding: Chunked",
            "5;a=b\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\nX-Sum: 1\r\n\r\n",
            r#"[] ["chunked"]"#,
            "hello world",
        ),
        ("POST", "Transfer-Encoding: chunked", "0\r\n\r\n", r#"[] ["chunked"]"#, ""),
        ("GET", "Transfer-Encoding: chunked", "2\r\n{}\r\n0\r\n\r\n", r#"[] ["chunked"]"#, "{}"),
    ] {
        let request = format!("{method} /echo HTTP/1.1\r\nHost: test\r\n{framing}\r\n\r\n{body}");
        connection.write_raw(request.as_bytes()).unwrap();
        let reply = connection.read_response(true).unwrap();
        let what = format!("{method} {framing} {body:?}");
        assert_eq!((reply.status, reply.text().as_str()), (200, content), "{what}");
        assert_eq!(reply.header("x-framing"), Some(framed), "{what}");
        assert_eq!(reply.header("connection"), None, "{what}: the connection goes on");
    }
    assert_eq!(pair.upstream.accepted(), 1);
    // No chunk extension and no trailer went through.
    let sent = String::from_utf8(pair.upstream.received().concat()).unwrap();
    assert!(!sent.contains(";a=b") && !sent.contains("X-Sum"), "{sent}");
}

/// The client sends its body when the upstream has taken the head, and is told so once.
#[test]
fn a_client_that_waits_for_100_is_told_when_the_upstream_takes_the_body() {
    let mut pair = Pair::new(&[]);
    pair.upstream.on("/taken", |exchange| {
        assert!(exchange.asked.headers("expect").is_empty());
        let body = exchange.body()?;
        exchange.reply_to_read("201 Created", body)
    });
    let head = "POST /taken HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    let mut connection = pair.client().connect().unwrap();
    connection.write_raw(head.as_bytes()).unwrap();
    assert_eq!(connection.read_response(true).unwrap().status, 100);
    connection.write_raw(b"hello").unwrap();
    assert_eq!(connection.read_response(true).unwrap().status, 201);
    // A client that does not wait.
    connection.write_raw(format!("{head}hello").as_bytes()).unwrap();
    let mut codes = vec![connection.read_response(true).unwrap().status];
    if codes == [100] {
        codes.push(connection.read_response(true).unwrap().status);
    }
    assert_eq!(codes.last(), Some(&201));
    // Nobody takes the body: the client keeps it.
    pair.upstream.stop();
    let mut connection = pair.client().connect().unwrap();
    connection.write_raw(head.as_bytes()).unwrap();
    assert_eq!(connection.read_response(true).unwrap().status, 502);
}

#[test]
fn large_bodies_take_no_memory() {
    const LOG: &str = "/api/v1/namespaces/t/pods/a/log";
    let [large] = sizes("REVCAST_FORWARDED_MIB", [LARGE_MIB]).map(|mib| mib << 20);
    let pair = Pair::new(&[]);
    pair.upstream.on("/up", |exchange| {
        let mut pattern = Pattern::default();
        let length = exchange.read_body(|piece| pattern.expect(piece))?;
        exchange.reply_to_read("200 OK", format!("{length}"))
    });
    pair.upstream.on("/down", move |exchange| {
        exchange.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {large}\r\n\r\n"))?;
        let mut pattern = Pattern::default();
        while pattern.at() < large {
            exchange.send(pattern.next(large))?;
        }
        Ok(Next::KeepAlive)
    });
    pair.upstream.on(LOG, move |exchange| {
        exchange.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        let mut pattern = Pattern::default();
        while pattern.at() < large {
            let piece = pattern.next(large);
            exchange.send([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat())?;
        }
        exchange.send("0\r\n\r\n")?;
        Ok(Next::KeepAlive)
    });
    assert_eq!(pair.client().get("/x").status, 200);
    let before = pair.server.resident_kb();
    let mut stream = connect(&pair);
    write!(stream, "POST /up HTTP/1.1\r\nHost: test\r\nContent-Length: {large}\r\n\r\n").unwrap();
    let mut pattern = Pattern::default();
    while pattern.at() < large {
        stream.write_all(pattern.next(large)).unwrap();
    }
    let mut answer = [0; 15];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    let mut stream = connect(&pair);
    write!(stream, "POST /up HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let mut pattern = Pattern::default();
    while pattern.at() < large {
        let piece = pattern.next(large);
        stream.write_all(&[format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()).unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    for path in ["/down", LOG] {
        let mut connection = pair.client().connect().unwrap();
        let reply = connection.request("GET", path, &[], b"").unwrap();
        assert_eq!((reply.status, reply.body.len() as u64), (200, large), "{path}");
        Pattern::default().expect(&reply.body);
    }
    let peak = pair.server.peak_kb();
    eprintln!("{before} KiB before four bodies of {} MiB, {peak} KiB at most", large >> 20);
    assert!(peak < before + GROWTH_KB, "{before} KiB before, {peak} KiB at most");
}

/// A client that reads nothing does not make the server read ahead without end; nor does an upstream that takes nothing.
#[test]
fn a_side_that_takes_nothing_is_waited_for() {
    const MANY: usize = 20;
    const LARGE: u64 = LARGE_MIB << 20;
    let pair = Pair::new(&[]);
    pair.upstream.on("/down", |exchange| {
        exchange.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n"))?;
        let mut pattern = Pattern::default();
        while pattern.at() < LARGE {
            exchange.send(pattern.next(LARGE))?;
        }
        Ok(Next::KeepAlive)
    });
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    pair.upstream.on("/up", move |_| {
        while !over.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Next::Close)
    });
    let before = pair.server.resident_kb();
    let mut streams: Vec<TcpStream> = (0..MANY).map(|_| connect(&pair)).collect();
    let mut taken = 0;
    for (number, stream) in streams.iter_mut().enumerate() {
        if number % 2 == 0 {
            write!(stream, "GET /down HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
            continue;
        }
        write!(stream, "POST /up HTTP/1.1\r\nHost: test\r\nContent-Length: {LARGE}\r\n\r\n").unwrap();
        stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        let mut pattern = Pattern::default();
        while pattern.at() < LARGE && stream.write_all(pattern.next(LARGE)).is_ok() {}
        assert!(pattern.at() < LARGE, "the server takes what the upstream does not");
        taken = taken.max(pattern.at());
    }
    let since = Instant::now();
    while pair.upstream.accepted() < MANY && since.elapsed() < WAIT {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(pair.upstream.accepted(), MANY);
    std::thread::sleep(Duration::from_millis(500));
    let peak = pair.server.peak_kb();
    is_over.store(true, Ordering::Release);
    eprintln!(
        "{before} KiB before {MANY} bodies that nobody takes, of at most {taken} bytes, {peak} KiB at most"
    );
    assert!(peak < before + GROWTH_KB, "{before} KiB before, {peak} KiB at most");
}

/// A reply that comes before the body is sent reaches the client, and the connection to the upstream ends.
#[test]
fn an_early_reply_is_passed_on() {
    let pair = Pair::new(&[]);
    let (told, closed) = mpsc::channel();
    pair.upstream.on("/early", move |exchange| {
        exchange.send("HTTP/1.1 413 Payload Too Large\r\nContent-Length: 8\r\n\r\ntoo much")?;
        let rest = exchange.await_close()?;
        told.send(rest.len()).unwrap();
        Ok(Next::Close)
    });
    for framing in ["Content-Length: 1000000", "Transfer-Encoding: chunked"] {
        let mut connection = pair.client().connect().unwrap();
        let head = format!("POST /early HTTP/1.1\r\nHost: test\r\n{framing}\r\n\r\n5\r\nhello");
        connection.write_raw(head.as_bytes()).unwrap();
        let reply = connection.read_response(true).unwrap();
        assert_eq!((reply.status, reply.text().as_str()), (413, "too much"));
        assert_eq!(reply.header("connection"), Some("close"));
        let sent = closed.recv_timeout(WAIT).expect("the upstream's connection is closed");
        assert!(sent < 100, "{sent} bytes");
    }
    pair.server.wait_for_metric("revcast_upstream_connections", 0);
}

/// An upstream that refuses a long body, and reads no more of it: its reply reaches the client although the rest cannot be sent.
#[test]
fn a_refusal_of_a_long_body_is_passed_on() {
    let pair = Pair::new(&[]);
    pair.upstream.on("/long", move |exchange| {
        exchange.send(
            "HTTP/1.1 413 Payload Too Large\r\nContent-Length: 8\r\nConnection: close\r\n\r\ntoo much",
        )?;
        exchange.raw().1.socket().shutdown(Shutdown::Both)?;
        Ok(Next::Close)
    });
    let body = vec![b'x'; 4 << 20];
    for _ in 0..20 {
        let reply = pair.client().request("POST", "/long", &[], &body);
        assert_eq!((reply.status, reply.text().as_str()), (413, "too much"));
    }
}

/// A reply that begins while the body is still sent, and needs the rest of it.
#[test]
fn a_reply_may_begin_before_the_body_ends() {
    let pair = Pair::new(&[]);
    pair.upstream.on("/both", |exchange| {
        exchange.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhead\r\n")?;
        let body = exchange.body()?;
        exchange.send(format!("{:x}\r\n", body.len()))?;
        exchange.send(body)?;
        exchange.send("\r\n0\r\n\r\n")?;
        Ok(Next::Close)
    });
    let mut stream = connect(&pair);
    stream.write_all(b"POST /both HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\nhello").unwrap();
    let mut got = Vec::new();
    let mut piece = [0; 4096];
    while !got.ends_with(b"head\r\n") {
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0);
        got.extend_from_slice(&piece[..read]);
    }
    stream.write_all(b"world").unwrap();
    stream.read_to_end(&mut got).unwrap();
    let got = String::from_utf8(got).unwrap();
    assert!(got.ends_with("\r\na\r\nhelloworld\r\n0\r\n\r\n"), "{got}");
}

#[test]
fn a_body_that_is_cut_is_never_whole() {
    let pair = Pair::new(&[]);
    let (told, was_read) = mpsc::channel();
    pair.upstream.on("/cut", move |exchange| {
        let read = exchange.body();
        told.send(read.is_err()).unwrap();
        Ok(Next::Close)
    });
    for (framing, part) in [
        ("Content-Length: 100", "hello"),
        ("Transfer-Encoding: chunked", "5\r\nhello\r\n"),
        ("Transfer-Encoding: chunked", "5\r\nhel"),
        ("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n"),
        // Invalid: 400, and the upstream must not take it for an end.
        ("Transfer-Encoding: chunked", "5\r\nhello\r\nx\r\n"),
        ("Transfer-Encoding: chunked", "5\r\nhello0\r\n\r\n"),
    ] {
        let mut stream = connect(&pair);
        write!(stream, "POST /cut HTTP/1.1\r\nHost: test\r\n{framing}\r\n\r\n{part}").unwrap();
        // The upstream has the head by then.
        let asked = pair.upstream.asked().len();
        let since = Instant::now();
        while pair.upstream.asked().len() == asked && since.elapsed() < Duration::from_millis(300) {
            std::thread::sleep(Duration::from_millis(5));
        }
        stream.shutdown(Shutdown::Both).unwrap();
        assert_eq!(was_read.recv_timeout(WAIT), Ok(true), "{framing} {part:?}");
    }
    pair.server.wait_for_metric("revcast_upstream_connections", 0);
}
