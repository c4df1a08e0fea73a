//! Streams of initial events with gzip, with a real server: one stream that can be read event by event, for clients
//! that ask for it.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use flate2::write::GzDecoder;
use revcast_http1::ChunkDecoder;
use revcast_tests::server::Server;
use serde_json::{Value, json};

const PATH: &str = "/api/v1/namespaces/g/configmaps";
/// A WatchList, as client-go asks for it.
const LIST: &str =
    "watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";

/// Creates objects named by `name`, on one connection.
fn create_all(server: &Server, count: usize, name: impl Fn(usize) -> String, data: &str) {
    let mut connection = server.client().connect().unwrap();
    for number in 0..count {
        let object = json!({"metadata": {"name": name(number)}, "data": {"k": data}}).to_string();
        let reply =
            connection.request("POST", PATH, &[("content-type", "application/json")], object.as_bytes());
        assert_eq!(reply.unwrap().status, 201);
    }
}

/// A gzip watch, decoded chunk by chunk as a client with a streaming decoder sees it.
struct Zipped {
    reader: BufReader<TcpStream>,
    chunks: ChunkDecoder,
    head: String,
    decoder: GzDecoder<Vec<u8>>,
    /// Bytes of the stream received.
    raw: usize,
}

impl Zipped {
    fn open(server: &Server, query: &str) -> Self {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let request = format!("GET {PATH}?{query} HTTP/1.1\r\nHost: g\r\nAccept-Encoding: gzip\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(reader.read_line(&mut head).unwrap(), 0, "{head}");
        }
        Self { reader, chunks: ChunkDecoder::new(), head, decoder: GzDecoder::new(Vec::new()), raw: 0 }
    }

    /// The decoded content of one more chunk; `None`: the last chunk. Then the stream is complete, and the connection
    /// ends.
    fn next(&mut self) -> Option<String> {
        let Some(chunk) = self.chunks.read_chunk(&mut self.reader).unwrap() else {
            self.decoder.try_finish().expect("a whole stream with the right sum and length");
            assert_eq!(self.reader.read(&mut [0]).unwrap(), 0, "nothing after the end");
            return None;
        };
        self.raw += chunk.len();
        self.decoder.write_all(&chunk).unwrap();
        self.decoder.flush().unwrap();
        let out = std::mem::take(self.decoder.get_mut());
        assert!(out.is_empty() || out.ends_with(b"\n"), "whole events: {:?}", String::from_utf8_lossy(&out));
        Some(String::from_utf8(out).unwrap())
    }

    /// The names of the events of the next chunk that has any.
    fn names(&mut self) -> Option<Vec<String>> {
        let name = |line: &str| {
            let event: Value = serde_json::from_str(line).unwrap();
            format!(
                "{} {}",
                event["type"].as_str().unwrap(),
                event["object"]["metadata"]["name"].as_str().unwrap_or_default()
            )
        };
        loop {
            let text = self.next()?;
            if !text.is_empty() {
                return Some(text.lines().map(name).collect());
            }
        }
    }
}

#[test]
fn a_watch_list_with_gzip_is_read_event_by_event() {
    let server = Server::start(&[]);
    create_all(&server, 2_000, |number| format!("o{number:04}"), &"some text ".repeat(60));
    let mut zipped = Zipped::open(&server, &format!("{LIST}&timeoutSeconds=10"));
    let head = &zipped.head;
    for line in ["HTTP/1.1 200 OK", "Content-Encoding: gzip", "Vary: Accept-Encoding", "Connection: close"] {
        assert!(head.contains(&format!("{line}\r\n")), "{line} in {head}");
    }
    let mut names = Vec::new();
    while names.last().is_none_or(|last| last != "BOOKMARK ") {
        names.extend(zipped.names().expect("the end mark comes first"));
    }
    let mut expected: Vec<String> = (0..2_000).map(|number| format!("ADDED o{number:04}")).collect();
    expected.push("BOOKMARK ".to_owned());
    assert_eq!(names, expected);
    assert!(zipped.raw < 2_000 * 700 / 5, "{} bytes for 1.4 MB", zipped.raw);
    // Each arrives before the next is made: short ones, long ones, and one of 1 MiB.
    for (number, len) in [1, 20, 300, 5_000, 100_000, 1 << 20].into_iter().enumerate() {
        let name = format!("p{number}");
        create_all(&server, 1, |_| name.clone(), &"z".repeat(len));
        assert_eq!(zipped.names().unwrap(), [format!("ADDED {name}")], "{len} bytes");
    }
    while let Some(names) = zipped.names() {
        assert_eq!(names, ["BOOKMARK "], "the last one, before the end");
    }
}

#[test]
fn only_who_asks_in_words_gets_it() {
    let coded = |server: &Server, query: &str, accept: &str| {
        let path = format!("{PATH}?{query}&timeoutSeconds=1");
        let mut watch = server.client().watch_as(&path, &[("Accept-Encoding", accept)]).unwrap();
        let header =
            |name: &str| watch.headers().iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        let (coding, vary) = (header("content-encoding"), header("vary"));
        assert_eq!(coding.is_some(), vary.is_some(), "{query}");
        // The chunks of a plain stream are text, and its connection stays open.
        if coding.is_none() {
            watch.rest();
            assert_eq!(watch.into_connection().request("GET", "/livez", &[], &[]).unwrap().status, 200);
        }
        coding
    };
    let server = Server::start(&[]);
    assert_eq!(coded(&server, LIST, "gzip").as_deref(), Some("gzip"));
    assert_eq!(coded(&server, LIST, "br;q=1, gzip;q=0.2").as_deref(), Some("gzip"));
    for accept in ["identity", "gzip;q=0", "deflate, br", ""] {
        assert_eq!(coded(&server, LIST, accept), None, "{accept:?}");
    }
    for query in [
        "watch=1",
        "watch=1&resourceVersion=0",
        "watch=1&allowWatchBookmarks=true",
        "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
    ] {
        assert_eq!(coded(&server, query, "gzip"), None, "{query}");
    }
    let plain = Server::start(&["--watch-list-gzip", "false"]);
    assert_eq!(coded(&plain, LIST, "gzip"), None);
}

/// 200 at once, while events come: each gets the same as a list, once, and its own end is right.
#[test]
fn hundreds_at_once_see_everything() {
    let server = Server::start(&[]);
    create_all(&server, 300, |number| format!("a{number:03}"), &"x".repeat(1_000));
    let mut all: Vec<Zipped> = (0..200).map(|_| Zipped::open(&server, LIST)).collect();
    create_all(&server, 100, |number| format!("b{number:03}"), &"y".repeat(1_000));
    let mut expected: Vec<String> = (0..300).map(|number| format!("ADDED a{number:03}")).collect();
    expected.extend((0..100).map(|number| format!("ADDED b{number:03}")));
    let list = server.client().get(PATH).json();
    assert_eq!(list["items"].as_array().unwrap().len(), expected.len());
    for zipped in &mut all {
        let mut names = Vec::new();
        while names.len() < expected.len() {
            names.extend(zipped.names().unwrap().into_iter().filter(|name| name != "BOOKMARK "));
            names.dedup();
        }
        // Watches that began while events were written have some of them in the state.
        names.sort();
        assert_eq!(names, expected);
    }
    // A closing server ends every stream with the right checksum, and waits for it.
    let server = std::thread::spawn(move || server.terminate());
    for zipped in &mut all {
        while let Some(names) = zipped.names() {
            assert!(names.iter().all(|name| name == "BOOKMARK "), "{names:?}");
        }
    }
    assert_eq!(server.join().unwrap(), Some(0));
}

/// A client that reads nothing for a while gets everything later, in order, and costs a page.
#[test]
fn a_slow_reader_costs_a_page() {
    let server = Server::start(&[]);
    // Text that compresses badly.
    let noise: String = (0_u32..50_000)
        .map(|i| char::from(b'!' + (i.wrapping_mul(2_654_435_761) >> 19).to_le_bytes()[0] % 90))
        .filter(|c| !matches!(c, '"' | '\\'))
        .collect();
    create_all(&server, 300, |number| format!("o{number:03}"), &noise);
    let before = server.resident_kb();
    let mut slow: Vec<Zipped> = (0..20).map(|_| Zipped::open(&server, LIST)).collect();
    std::thread::sleep(Duration::from_millis(1_500));
    let grown = server.resident_kb().saturating_sub(before);
    assert!(grown < 20 * 300 + 20_000, "{grown} KB more for 20 that read nothing");
    let expected: Vec<String> = (0..300).map(|number| format!("ADDED o{number:03}")).collect();
    for zipped in &mut slow {
        let mut names = Vec::new();
        while names.len() < 300 {
            names.extend(zipped.names().unwrap());
        }
        assert_eq!(names[..300], expected);
    }
}
