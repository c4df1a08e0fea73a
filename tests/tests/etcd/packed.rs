//! Requests and replies in protobuf as a kube-apiserver 1.36 answered them, byte for byte: recording 31, with the revisions that it had.

use std::io::Read;

use flate2::read::GzDecoder;
use revcast_engine::codec::protobuf::wire::{Reader, WireValue};
use revcast_engine::codec::protobuf::{Envelope, PREFIX};
use revcast_tests::client::{Client, Response};
use revcast_tests::etcd::{Control, Etcd};
use revcast_tests::server::Server;

use super::defined::{self, definition};
use super::{CONFIG_MAPS, Options, Release, config_map, eventually};

const RECORDED: &[u8] =
    include_bytes!("../../../server/tests/fixtures/recorded/31-list-watch-protobuf.txt.gz");

/// Exchanges that are answered otherwise here, or that this test cannot compare: the beginning of their titles, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("GET, Accept application/*", "RFC 9110: JSON is one of them"),
    ("kubectl get Accept (Table", "its ages depend on the time"),
    ("list limit=1, protobuf", "the token also names the etcd whose revision it is of"),
    ("continue, protobuf", "the same"),
    (
        "the same as JSON",
        "a bookmark in JSON has no empty spec and status: no client reads them, and Python's refuses `null`",
    ),
    (
        "the end bookmark of deployments",
        "the same; in protobuf an internal Deployment has 0 replicas, an empty one none",
    ),
    ("discovery /api in protobuf", "another address"),
    ("discovery /api/v1 in protobuf", "other resources"),
    ("/apis aggregated discovery in protobuf", "other groups"),
    ("/openapi/v2 in protobuf", "the schemas are ours"),
    ("gzip: protobuf list over 128 KiB", "its objects are not in the recording"),
    ("the same list without gzip", "its objects are not in the recording"),
    ("401, protobuf", "this server authenticates nobody: `auth`"),
    (
        "watch of events (not cached) from a compacted",
        "events are cached here: the text is that of cached resources",
    ),
    ("CBOR gate on", "there is no CBOR here: 406"),
];

/// A request and its reply.
#[derive(Debug)]
struct Exchange {
    title: String,
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    code: u16,
    content_type: String,
    reply: Body,
}

/// What was recorded of a body.
#[derive(Debug, PartialEq, Eq)]
enum Body {
    /// Its beginning, and its length.
    Bytes(Vec<u8>, usize),
    /// The same; a `?` stands for any byte.
    Masked(Vec<u8>, usize),
    /// Messages of a watch in protobuf: the beginning of each, and its length.
    Frames(Vec<(Vec<u8>, usize)>),
    /// Messages of a watch in JSON.
    Lines(String),
}

fn exchanges() -> Vec<Exchange> {
    let mut text = String::new();
    GzDecoder::new(RECORDED).read_to_string(&mut text).unwrap();
    text.split("\n# ").filter_map(exchange).collect()
}

/// `None`: a comment, or an exchange without a reply.
fn exchange(part: &str) -> Option<Exchange> {
    let (title, rest) = part.split_once("\n$ ")?;
    let (head, body) = rest.split_once("\n\n")?;
    let mut lines = head.lines();
    let (method, url) = lines.next()?.split_once(" https://apiserver:6443")?;
    let (mut headers, mut sent, mut code, mut content_type, mut length) = (Vec::new(), "", 0, "", None);
    for line in lines {
        if let Some(("body", hex)) = line.strip_prefix("> ").and_then(|line| line.split_once(": ")) {
            sent = hex;
        } else if let Some((name, value)) = line.strip_prefix("> ").and_then(|line| line.split_once(": ")) {
            headers.push((name.to_owned(), value.to_owned()));
        } else if let Some(status) = line.strip_prefix("HTTP/1.1 ") {
            code = status[..3].parse().ok()?;
        } else if let Some(value) = line.strip_prefix("Content-Type: ") {
            content_type = value;
        } else if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.parse().ok();
        }
    }
    (code > 0).then(|| Exchange {
        title: title.to_owned(),
        method: method.to_owned(),
        target: url.to_owned(),
        headers,
        body: if sent == "{}" { b"{}".to_vec() } else { hex(sent) },
        code,
        content_type: content_type.to_owned(),
        reply: recorded_body(body, length),
    })
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

fn dumped(text: &str) -> Vec<u8> {
    let lines = text.lines().take_while(|line| line.as_bytes().get(8) == Some(&b':'));
    lines.flat_map(|line| hex(line[9..].split("  ").next().unwrap())).collect()
}

fn recorded_body(text: &str, length: Option<usize>) -> Body {
    if let Some(json) = text.strip_prefix("frame 1: length prefix 7b0a2020 (2064261152), payload:\n") {
        // A Status in JSON, which the recorder took for a message.
        return Body::Bytes([b"{\n  ".to_vec(), dumped(json)].concat(), length.unwrap());
    }
    if text.starts_with("{\"type\"") {
        return Body::Lines(format!("{}\n", text.trim_end()));
    }
    if text.starts_with("frame ") || text.trim().is_empty() && length.is_none() {
        return Body::Frames(text.split("frame ").skip(1).map(frame).collect());
    }
    if text.starts_with("00000000: ") {
        let bytes = dumped(text);
        let whole = text.lines().find_map(|line| line.strip_prefix("... ")?.strip_suffix(" bytes in all"));
        let length = whole.map_or(bytes.len(), |count| count.parse().unwrap());
        return Body::Bytes(bytes, length);
    }
    let length = length.unwrap_or_else(|| text.trim_end().len() + 1);
    if let Some(masked) = text.strip_prefix("k8s\\x00") {
        let mut bytes = PREFIX.to_vec();
        let mut parts = masked.trim_end_matches('\n').split("\\x");
        bytes.extend_from_slice(parts.next().unwrap().as_bytes());
        for part in parts {
            bytes.extend(hex(&part[..2]));
            bytes.extend_from_slice(&part.as_bytes()[2..]);
        }
        return Body::Masked(bytes, length);
    }
    let mut bytes = text.as_bytes().to_vec();
    bytes.truncate(length);
    while bytes.len() < length && bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    Body::Bytes(bytes, length)
}

/// `1: length prefix 000000f9 (249), payload:`, and the dump of its beginning.
fn frame(text: &str) -> (Vec<u8>, usize) {
    let (head, dump) = text.split_once('\n').unwrap();
    let length = head.split_once('(').unwrap().1.split_once(')').unwrap().0;
    (dumped(dump), length.parse().unwrap())
}

/// The messages of a stream, without their lengths.
fn messages(mut stream: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while let Some((length, rest)) = stream.split_first_chunk() {
        let (message, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        found.push(message);
        stream = rest;
    }
    assert!(stream.is_empty(), "{stream:?} is no message");
    found
}

/// How ours differs from what was recorded, if it does.
fn difference(exchange: &Exchange, got: &Response) -> Option<String> {
    let shown = || String::from_utf8_lossy(&got.body);
    let content_type = got.header("content-type").unwrap_or_default();
    if (got.status, content_type) != (exchange.code, &exchange.content_type) {
        return Some(format!("{} {content_type}: {}", got.status, shown()));
    }
    let is_same = |got: &[u8], expected: &[u8], length: usize, masked: bool| {
        // The recorder wrote a carriage return as a line feed.
        let same = |(ours, theirs): (&u8, &u8)| {
            ours == theirs || masked && (*theirs == b'?' || (*ours, *theirs) == (b'\r', b'\n'))
        };
        got.len() == length && expected.len() <= length && got.iter().zip(expected).all(same)
    };
    let same = match &exchange.reply {
        Body::Bytes(expected, length) => is_same(&got.body, expected, *length, false),
        Body::Masked(expected, length) => is_same(&got.body, expected, *length, true),
        Body::Frames(expected) => {
            let ours = messages(&got.body);
            let both = ours.iter().zip(expected);
            ours.len() == expected.len()
                && both.into_iter().all(|(ours, (begin, length))| is_same(ours, begin, *length, false))
        }
        Body::Lines(expected) => got.text() == *expected,
    };
    (!same).then(|| format!("{} bytes: {:?}", got.body.len(), shown()))
}

/// The cluster of the recording: three config maps, a fourth one that comes and goes, and an object of a custom resource.
struct Recorded {
    server: Server,
    control: Control,
    _etcd: Etcd,
}

/// The revision of the first config map; before it is what the recording does not show.
const FIRST: u64 = 202;

impl Recorded {
    fn new(release: Release, exchanges: &[Exchange]) -> Self {
        let etcd = Etcd::start(release, Options::default());
        let control = etcd.control();
        let options = ["--etcd-endpoints", &etcd.endpoint(), "--write-etcd", "true"];
        let passing = Server::start(&options);
        pass(&passing.client(), FIRST - 1);
        drop(passing);
        control.compact(FIRST - 1).unwrap();
        let find = |title: &str| exchanges.iter().find(|exchange| exchange.title == title).unwrap();
        let Body::Bytes(list, _) = &find("list, protobuf").reply else { panic!("a list") };
        let mut reader = Reader::new(Envelope::read(list).unwrap().message);
        let mut revision = FIRST;
        while let Some((number, wire)) = reader.next().unwrap() {
            if let (2, WireValue::Bytes(item)) = (number, wire) {
                let mut value = Vec::new();
                Envelope::push(&mut value, ("v1", "ConfigMap"), item.len(), |out| {
                    out.extend_from_slice(item);
                });
                let key = config_map_key(&format!("cm{}", revision - FIRST));
                assert_eq!(control.put(&key, value), Ok(revision));
                revision += 1;
            }
        }
        assert_eq!(revision, FIRST + 3);
        Self { server: Server::start(&options), control, _etcd: etcd }
    }

    /// What happened between the exchanges.
    fn before(&self, exchange: &Exchange, custom: &Exchange) {
        const PASSED: [(&str, u64); 4] = [
            ("504 ", 205),
            ("watch, resourceVersion in the future", 213),
            ("as= of an unknown kind with a fallback", 214),
            ("custom resource, Accept protobuf only", 217),
        ];
        let client = self.server.client();
        for (_, revision) in PASSED.iter().filter(|(title, _)| exchange.title.starts_with(title)) {
            pass(&client, *revision);
        }
        if let Body::Lines(lines) = &exchange.reply
            && let Some((_, bookmark)) = lines.split_once("{\"type\":\"BOOKMARK\"")
        {
            let revision = bookmark.split_once("resourceVersion\":\"").unwrap().1.split_once('"').unwrap().0;
            pass(&client, revision.parse().unwrap());
        }
        if exchange.title == "watch, protobuf: ADDED, MODIFIED, DELETED" {
            let Body::Frames(frames) = &exchange.reply else { panic!("a watch") };
            let key = config_map_key("w1");
            for (event, revision) in [(&frames[0].0, 208), (&frames[1].0, 209)] {
                pass(&client, revision - 1);
                assert_eq!(self.control.put(&key, object(event)), Ok(revision));
            }
            self.control.del(&key).unwrap();
        }
        if exchange.title == "custom resource, Accept protobuf only" {
            let text = definition(&["v1"]).to_string();
            let text = text.replace("gadgets", "ws").replace("example.com", "pb.example.com");
            let text = text.replace("Gadget", "W").replace("gadget", "w");
            let key = format!("{}/ws.pb.example.com", defined::FOLDER);
            assert_eq!(self.control.put(&key, text), Ok(218));
            let list = custom.target.rsplit_once('/').unwrap().0;
            eventually("the resource is served", || client.get(list).status == 200);
            let Body::Bytes(json, _) = &custom.reply else { panic!("JSON") };
            let stored = String::from_utf8(json.clone()).unwrap().replace("\"resourceVersion\":\"219\",", "");
            assert_eq!(self.control.put("/registry/pb.example.com/ws/pb/w1", stored), Ok(219));
            eventually("the object is served", || client.get(&custom.target).status == 200);
        }
    }
}

fn config_map_key(name: &str) -> String {
    format!("/registry/configmaps/pb/{name}")
}

/// The object in a watch event.
fn object(event: &[u8]) -> &[u8] {
    let mut reader = Reader::new(event);
    let (Ok(Some(_)), Ok(Some((2, WireValue::Bytes(raw))))) = (reader.next(), reader.next()) else {
        panic!("no event: {event:?}")
    };
    let Ok(Some((1, WireValue::Bytes(object)))) = Reader::new(raw).next() else {
        panic!("no object: {raw:?}")
    };
    object
}

/// Changes elsewhere, up to this revision.
fn pass(client: &Client, revision: u64) {
    while client.newest() < revision {
        let value = config_map(&format!("after-{}", client.newest()), "");
        let reply = client.request("POST", CONFIG_MAPS, &[], value.as_bytes());
        assert_eq!(reply.status, 201, "{}", reply.text());
    }
    assert_eq!(client.newest(), revision);
}

fn replay(release: Release) {
    let all = exchanges();
    let recorded = Recorded::new(release, &all);
    let custom = all.iter().find(|one| one.title == "custom resource, Accept protobuf,json").unwrap();
    let (mut same, mut different) = (0, Vec::new());
    for exchange in &all {
        recorded.before(exchange, custom);
        let headers: Vec<(&str, &str)> =
            exchange.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let client = recorded.server.client();
        let got = client.request(&exchange.method, &exchange.target, &headers, &exchange.body);
        match difference(exchange, &got) {
            None => same += 1,
            Some(how) => different.push((exchange.title.as_str(), how)),
        }
    }
    let known = |title: &str| DIFFERENT.iter().any(|(begin, _)| title.starts_with(begin));
    let unknown: Vec<_> = different.iter().filter(|(title, _)| !known(title)).collect();
    assert!(unknown.is_empty(), "{release:?}: {same} of {}: {unknown:#?}", all.len());
    for (begin, why) in DIFFERENT {
        assert!(
            different.iter().any(|(title, _)| title.starts_with(begin)),
            "{begin} differs no more: {why}"
        );
    }
    assert_eq!((same, all.len()), (64, 88), "{release:?}");
}

#[test]
fn exchanges_are_as_recorded_with_etcd_3_4() {
    replay(Release::ALL[0]);
}

#[test]
fn exchanges_are_as_recorded_with_etcd_3_5() {
    replay(Release::ALL[1]);
}
