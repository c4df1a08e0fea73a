//! The catalogue of bad input over a real socket: each row of `bad_input/rows.txt` is answered as it says, the connection is
//! closed behind the answer, and the server serves on.
#![allow(clippy::unwrap_used)]

#[path = "bad_input/answer.rs"]
mod answer;
#[path = "bad_input/rows.rs"]
mod rows;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use revcast_tests::server::Server;
use rows::Row;
use serde_json::json;

/// What a row may take, from the first byte to the closed connection. A watch among its requests takes a second.
const PATIENCE: Duration = Duration::from_secs(20);
/// Stands in an object that no row may read.
const SECRET: &str = "of-another-resource";

/// Sends a row and gives back all that came until the server closed, or why it did not.
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
                // Who is refused in the middle of it cannot send the rest.
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
        // Who still waits or sends is not waited for.
        came.store(usize::MAX, Ordering::Release);
        let _ = stream.shutdown(Shutdown::Both);
        end.map_err(|why| format!("{why}; it said {:?}", String::from_utf8_lossy(&answer)))
    })?;
    Ok(answer)
}

/// What is wrong with the answer to a row; nothing, when it is right.
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
        assert_eq!(client.get("/readyz").text(), "ok", "behind {}", row.name);
        created += row.answer.iter().filter(|word| word.iter().any(|word| word == "201")).count();
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    // One was asked for; nothing else came in with the others, and a watch beside them saw just that.
    let items = client.get("/api/v1/namespaces/h/configmaps").json()["items"].take();
    assert_eq!((created, items.as_array().unwrap().len()), (1, 1), "{items}");
    assert_eq!(healthy.next_event().1["metadata"]["name"], "expected");
    assert!(healthy.is_quiet_for(Duration::from_millis(100)));
    drop(healthy);
    server.wait_for_metric("revcast_watchers", 0);
}

/// The rows find a server that answers otherwise: so a row cannot pass by itself.
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
