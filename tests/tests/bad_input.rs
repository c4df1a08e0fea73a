//! The catalogue of bad input over a real socket, in plain text, over TLS and on the admin listener: each row of
//! `bad_input/rows.txt` gets the reply that it names, the connection is closed after the reply, and the server
//! continues.
#![allow(clippy::unwrap_used)]

#[path = "bad_input/answer.rs"]
mod answer;
#[path = "bad_input/rows.rs"]
mod rows;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use revcast_tests::certs::Authority;
use revcast_tests::client::Client;
use revcast_tests::server::{Scratch, Server};
use revcast_tests::tls::Trust;
use rows::Row;
use serde_json::json;

/// Most time of a row, from the first byte to the closed connection. A watch among its requests takes a second.
const PATIENCE: Duration = Duration::from_secs(20);
/// Content of an object that no row may read.
const SECRET: &str = "of-another-resource";

/// Sends a row and returns everything received until the server closed, or why it did not.
fn exchange(address: &str, row: &Row) -> Result<Vec<u8>, String> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let came = AtomicUsize::new(0);
    let mut answer = Vec::new();
    std::thread::scope(|scope| {
        let mut sender = stream.try_clone().unwrap();
        let came = &came;
        scope.spawn(move || {
            for (number, piece) in row.pieces.iter().enumerate() {
                while number > 0 && came.load(Ordering::Acquire) == 0 && Instant::now() < deadline {
                    std::thread::sleep(Duration::from_millis(1));
                }
                // A client that is refused in the middle of it cannot send the rest.
                if sender.write_all(piece).is_err() {
                    return;
                }
            }
        });
        let mut piece = vec![0; 1 << 16];
        let end = loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break Err("the connection is still open".to_owned());
            }
            stream.set_read_timeout(Some(left)).unwrap();
            match stream.read(&mut piece) {
                Ok(0) => break Ok(()),
                Ok(read) => {
                    answer.extend_from_slice(&piece[..read]);
                    came.store(answer.len(), Ordering::Release);
                }
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break Ok(()),
                Err(error) => break Err(format!("the connection is still open: {error}")),
            }
        };
        // The other side need not wait.
        came.store(usize::MAX, Ordering::Release);
        let _ = stream.shutdown(Shutdown::Both);
        end.map_err(|why| format!("{why}; it said {:?}", String::from_utf8_lossy(&answer)))
    })?;
    Ok(answer)
}

/// The same over any `client`, by one thread: an early reply fits into the buffers while the rest is sent.
fn exchange_in_turn(client: &Client, row: &Row) -> Result<Vec<u8>, String> {
    let mut connection = client.connect().map_err(|error| error.to_string())?;
    connection.socket().set_read_timeout(Some(PATIENCE)).unwrap();
    connection.socket().set_write_timeout(Some(PATIENCE)).unwrap();
    let stream = connection.stream();
    let mut answer = Vec::new();
    let mut piece = vec![0; 1 << 16];
    for (number, bytes) in row.pieces.iter().enumerate() {
        if number > 0 {
            let read = stream.read(&mut piece).map_err(|error| format!("nothing came: {error}"))?;
            answer.extend_from_slice(&piece[..read]);
        }
        // A client that is refused in the middle of it cannot send the rest.
        if stream.write_all(bytes).and_then(|()| stream.flush()).is_err() {
            break;
        }
    }
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return Ok(answer),
            Ok(read) => answer.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return Ok(answer),
            Err(error) => {
                let said = String::from_utf8_lossy(&answer);
                return Err(format!("the connection is not closed in good order: {error}; it said {said:?}"));
            }
        }
    }
}

/// What is wrong with the reply to a row; `None` if it is right.
fn judge(row: &Row, bytes: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(bytes);
    let shown = || text.chars().take(600).collect::<String>();
    if text.contains(SECRET) {
        return Err(format!("it reads an object that was not asked for: {}", shown()));
    }
    let replies = answer::replies(bytes).map_err(|why| format!("{why}: {}", shown()))?;
    let words: Vec<String> = replies.iter().flat_map(answer::Reply::words).collect();
    let fits = words.len() == row.answer.len()
        && words.iter().zip(&row.answer).all(|(word, allowed)| allowed.contains(word));
    if !fits {
        return Err(format!("answered {words:?}, not {:?}: {}", row.answer, shown()));
    }
    for reply in &replies {
        reply.check()?;
    }
    Ok(())
}

#[test]
fn every_row_of_the_catalogue() {
    let server = Server::start(&[]);
    let client = server.client();
    let other = json!({"metadata": {"name": "other"}, "data": {"secret": SECRET}});
    assert_eq!(client.send("POST", "/api/v1/namespaces/other/configmaps", &other).status, 201);
    let from = format!("/api/v1/namespaces/h/configmaps?watch=1&resourceVersion={}", client.newest());
    let mut healthy = client.watch(&from).unwrap();
    let rows = rows::rows();
    let numbers: BTreeSet<u32> = rows.iter().map(|row| row.number).collect();
    assert_eq!(numbers, (1..=42).chain(51..=60).collect(), "a row of the catalogue is missing");
    let mut wrong = Vec::new();
    let mut created = 0;
    for row in &rows {
        if let Err(why) = exchange(&server.address, row).and_then(|bytes| judge(row, &bytes)) {
            wrong.push(format!("{}: {why}", row.name));
        }
        assert_eq!(client.get("/readyz").text(), "ok", "after {}", row.name);
        created += row.answer.iter().filter(|word| word.iter().any(|word| word == "201")).count();
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    // One was created; nothing else was, and a watch beside it saw just that.
    let items = client.get("/api/v1/namespaces/h/configmaps").json()["items"].take();
    assert_eq!((created, items.as_array().unwrap().len()), (1, 1), "{items}");
    assert_eq!(healthy.next_event().1["metadata"]["name"], "expected");
    assert!(healthy.is_quiet_for(Duration::from_millis(100)));
    drop(healthy);
    server.wait_for_metric("revcast_watchers", 0);
}

#[test]
fn every_row_over_tls() {
    let scratch = Scratch::new("bad-input-tls");
    let authority = Authority::new(Path::new(scratch.path()), "ca");
    let identity = authority.server();
    let trust = Trust::of(&authority.certificate());
    let [cert, key] = [&identity.cert, &identity.key].map(|path| path.to_str().unwrap());
    let server = Server::start_with_tls(&trust, &["--tls-cert", cert, "--tls-key", key]);
    let client = server.client();
    let other = json!({"metadata": {"name": "other"}, "data": {"secret": SECRET}});
    assert_eq!(client.send("POST", "/api/v1/namespaces/other/configmaps", &other).status, 201);
    let mut wrong = Vec::new();
    for row in rows::rows() {
        if let Err(why) = exchange_in_turn(&client, &row).and_then(|bytes| judge(&row, &bytes)) {
            wrong.push(format!("{}: {why}", row.name));
        }
        assert_eq!(client.get("/readyz").text(), "ok", "after {}", row.name);
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
    // Bytes that are not TLS disturb nothing either: none of them is a request, and at most they get an alert.
    for row in rows::rows() {
        let bytes = exchange(&server.address, &row).unwrap_or_else(|why| panic!("{}: {why}", row.name));
        let text = String::from_utf8_lossy(&bytes);
        let told = text.contains("an HTTP request to an HTTPS server");
        assert!(told || !text.contains("HTTP/"), "{}: {text:?}", row.name);
        assert!(text.matches("HTTP/").count() <= 1, "{}: {text:?}", row.name);
        assert_eq!(client.get("/readyz").text(), "ok", "after {}", row.name);
    }
    let items = client.get("/api/v1/namespaces/h/configmaps").json()["items"].take();
    assert_eq!(items.as_array().unwrap().len(), 1, "one was asked for, over TLS: {items}");
    server.wait_for_metric("revcast_watchers", 0);
}

/// An invalid request is invalid on the admin listener too. The other paths of the rows do not exist there.
#[test]
fn bad_heads_and_bodies_at_the_admin_listener() {
    const HEADS_AND_BODIES: u32 = 31;
    let server = Server::start(&[]);
    let admin = server.admin_client();
    let all = rows::rows();
    let is_refused =
        |row: &&Row| row.answer.iter().flatten().all(|word| matches!(word.as_bytes()[0], b'4' | b'5'));
    let refused: Vec<&Row> =
        all.iter().filter(|row| row.number <= HEADS_AND_BODIES).filter(is_refused).collect();
    assert!(refused.len() > 80, "{} rows", refused.len());
    let mut wrong = Vec::new();
    for row in refused {
        if let Err(why) = exchange(&server.admin, row).and_then(|bytes| judge(row, &bytes)) {
            wrong.push(format!("{}: {why}", row.name));
        }
        assert_eq!(admin.get("/readyz").text(), "ok", "after {}", row.name);
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
    for target in [
        "/compact",
        "/compact?revision=",
        "/compact?revision=0",
        "/compact?revision=-1",
        "/compact?revision=1x",
    ] {
        let reply = admin.request("POST", target, &[], b"");
        assert_eq!(reply.status, 400, "{target}: {}", reply.text());
        assert!(reply.text().contains("revision"), "{target}: {}", reply.text());
    }
    for (method, target, status) in [
        ("GET", "/compact?revision=1", 405),
        ("PUT", "/compact?revision=1", 405),
        ("POST", "/metrics", 404),
        ("GET", "/metrics/x", 404),
        ("GET", "/api/v1/configmaps", 404),
        ("GET", "/compact/../metrics", 400),
        ("GET", "/%2e%2e/metrics", 400),
    ] {
        assert_eq!(admin.request(method, target, &[], b"").status, status, "{method} {target}");
    }
    // A body where none is expected is read, or the connection ends: it is never a request.
    let mut connection = admin.connect().unwrap();
    let hidden = "POST /compact?revision=1 HTTP/1.1\r\nHost: h\r\n\r\n";
    let head = format!("GET /livez HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", hidden.len());
    connection.write_raw(format!("{head}{hidden}").as_bytes()).unwrap();
    assert_eq!(connection.read_response(true).unwrap().text(), "ok");
    assert!(connection.is_quiet_for(Duration::from_millis(300)).unwrap(), "no answer to the body");
}

/// The rows detect a server that answers differently: so a row cannot pass by itself.
#[test]
fn a_wrong_answer_is_found() {
    let rows = rows::rows();
    let row = rows.iter().find(|row| row.name.starts_with("1 ")).unwrap();
    let body = r#"{"kind":"Status","code":400,"message":"m"}"#;
    let right = format!(
        "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(judge(row, right.as_bytes()), Ok(()));
    for wrong in [
        right.replace("400 Bad", "200 Bad"),
        right.replace("\"code\":400", "\"code\":404"),
        right.replace("Connection: close\r\n", ""),
        right.replace("Connection: close", "X-Split: yes"),
        right.replace("\"m\"", &format!("\"{SECRET}\"")),
        right.repeat(2),
        format!("{right}x"),
        right[..right.len() - 1].to_owned(),
        String::new(),
    ] {
        assert!(judge(row, wrong.as_bytes()).is_err(), "{wrong}");
    }
}
