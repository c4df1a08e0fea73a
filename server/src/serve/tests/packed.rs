//! Replies in protobuf against recording 31 of kube-apiserver 1.36, byte for byte.

use std::io::Read;

use bytes::Bytes;
use flate2::read::GzDecoder;
use revcast_engine::codec::protobuf::wire::{Reader, Wire};
use revcast_engine::codec::protobuf::{Envelope, PREFIX, push_error};
use revcast_engine::key::Key;

use super::{Ask, Got, World};
use crate::api::protobuf::of_status;
use crate::frontend::{Reply, StreamFormat};

const RECORDED: &[u8] = include_bytes!("../../../tests/fixtures/recorded/31-list-watch-protobuf.txt.gz");

/// Exchanges that are answered otherwise here, or that this test cannot compare: the beginning of their titles, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("GET, Accept application/*", "RFC 9110: JSON is one of them"),
    (
        "delete, protobuf Status Success",
        "the object is not in the store of this test: `serve::tests::deletes`",
    ),
    ("kubectl get Accept (Table", "its ages depend on the time"),
    ("discovery /api/v1 in protobuf", "other resources"),
    ("/apis aggregated discovery in protobuf", "other groups"),
    ("/openapi/v2 in protobuf", "the schemas are ours"),
    ("gzip: protobuf list over 128 KiB", "its objects are not in the recording"),
    ("the same list without gzip", "its objects are not in the recording"),
    ("401, protobuf", "this server authenticates nobody: `auth`"),
    (
        "list of events (not cached) at a compacted revision",
        "events are cached here, and nothing was compacted",
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
    body: Bytes,
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
    /// Messages of a watch: the first one, if it was recorded.
    Stream(Vec<u8>),
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
        body: if sent == "{}" { Bytes::from_static(b"{}") } else { hex(sent).into() },
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
    if text.starts_with("frame ")
        || text.trim().is_empty() && length.is_none()
        || text.starts_with("{\"type\"")
    {
        return Body::Stream(text.split_once('\n').map(|(_, dump)| dumped(dump)).unwrap_or_default());
    }
    if text.starts_with("00000000: ") {
        let bytes = dumped(text);
        let whole = text.lines().find_map(|line| line.strip_prefix("... ")?.strip_suffix(" bytes in all"));
        let length = whole.map_or(bytes.len(), |count| count.parse().unwrap());
        return Body::Bytes(at_our_address(bytes), length);
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

/// The address of the recorded server is another one.
fn at_our_address(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(at) = bytes.windows(7).position(|window| window == b"1:28443") {
        bytes[at + 3] = b'6';
    }
    bytes
}

fn content_type(got: &Got) -> &str {
    match &got.reply {
        Reply::FullBody(whole) => whole.content_type,
        Reply::StreamingBody(pieces) => pieces.content_type(),
        Reply::PeriodicBody(body) => body.content_type(),
        Reply::Refused(_, _, StreamFormat::Protobuf) => "application/vnd.kubernetes.protobuf;stream=watch",
        Reply::Watch(request) if request.format == StreamFormat::Protobuf => {
            "application/vnd.kubernetes.protobuf;stream=watch"
        }
        Reply::Refused(..) | Reply::Watch(_) => "application/json",
    }
}

/// How ours differs from what was recorded, if it does.
fn difference(exchange: &Exchange, got: &Got) -> Option<String> {
    if (got.code, content_type(got)) != (exchange.code, &exchange.content_type) {
        return Some(format!("{} {}: {:?}", got.code, content_type(got), got.body));
    }
    let is_same = |expected: &[u8], length: usize, masked: bool| {
        // The recorder wrote a carriage return as a line feed.
        let same = |(ours, theirs): (&u8, &u8)| {
            ours == theirs || masked && (*theirs == b'?' || (*ours, *theirs) == (b'\r', b'\n'))
        };
        got.sent.len() == length && expected.len() <= length && got.sent.iter().zip(expected).all(same)
    };
    let same = match (&exchange.reply, &got.reply) {
        (Body::Bytes(expected, length), _) => is_same(expected, *length, false),
        (Body::Masked(expected, length), _) => is_same(expected, *length, true),
        // Its messages are the engine's.
        (Body::Stream(_), Reply::Watch(_)) => true,
        (Body::Stream(first), Reply::Refused(status, ..)) => {
            let mut message = Vec::new();
            push_error(&mut message, &of_status(&status.to_json()));
            *first == message
        }
        (Body::Stream(_), Reply::FullBody(_) | Reply::StreamingBody(_) | Reply::PeriodicBody(_)) => false,
    };
    (!same).then(|| format!("{} bytes: {:?}", got.sent.len(), String::from_utf8_lossy(&got.sent)))
}

/// The world of the recording: three config maps and an object of a declared resource.
struct Recorded {
    world: World,
    ws: Key,
}

impl Recorded {
    fn new(exchanges: &[Exchange]) -> Self {
        let world = World::new();
        let find = |title: &str| exchanges.iter().find(|exchange| exchange.title == title).unwrap();
        let Body::Bytes(list, _) = &find("list, protobuf").reply else { panic!("a list") };
        let mut reader = Reader::new(Envelope::read(list).unwrap().message);
        let mut revision = 202;
        while let Some((number, wire)) = reader.next().unwrap() {
            if let (2, Wire::Bytes(item)) = (number, wire) {
                let mut value = Vec::new();
                Envelope::push(&mut value, ("v1", "ConfigMap"), item.len(), |out| {
                    out.extend_from_slice(item)
                });
                let key = world.key("configmaps", "pb", &format!("cm{}", revision - 202));
                world.publish_value(revision, key, Some(value.into()));
                revision += 1;
            }
        }
        assert_eq!(revision, 205);
        let row = world.app.catalog().registry.find("pb.example.com", "v1", "ws").unwrap().row;
        Self { world, ws: Key::new(row, Some("pb"), "w1") }
    }

    /// What happened between the exchanges.
    fn before(&self, exchange: &Exchange, custom: &Exchange) {
        const REVISIONS: [(&str, u64); 4] = [
            ("504 ", 205),
            ("watch, resourceVersion in the future", 213),
            ("as= of an unknown kind with a fallback", 214),
            ("custom resource, Accept protobuf only", 218),
        ];
        if exchange.title.starts_with("PUT with a protobuf body") {
            self.world.publish_value(206, self.world.key("configmaps", "pb", "cm2"), None);
        }
        for (_, revision) in REVISIONS.iter().filter(|(title, _)| exchange.title.starts_with(title)) {
            self.pass(*revision);
        }
        if exchange.title == "custom resource, Accept protobuf only" {
            let Body::Bytes(json, _) = &custom.reply else { panic!("JSON") };
            self.world.publish_value(219, self.ws.clone(), Some(json.clone().into()));
        }
    }

    /// Changes elsewhere, up to this revision.
    fn pass(&self, revision: u64) {
        if revision > self.world.revision() {
            self.world.publish_value(
                revision,
                self.world.key("configmaps", "elsewhere", "x"),
                Some(Bytes::from_static(br#"{"metadata":{"name":"x","namespace":"elsewhere"}}"#)),
            );
        }
    }
}

#[test]
fn exchanges_are_as_recorded() {
    let all = exchanges();
    let recorded = Recorded::new(&all);
    let custom = all.iter().find(|one| one.title == "custom resource, Accept protobuf,json").unwrap();
    let (mut same, mut different) = (0, Vec::new());
    for exchange in &all {
        recorded.before(exchange, custom);
        let mut ask = Ask::new(&exchange.method, &exchange.target);
        ask.headers.extend(exchange.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        ask.body = exchange.body.clone();
        let got = recorded.world.ask(&ask);
        match difference(exchange, &got) {
            None => same += 1,
            Some(how) => different.push((exchange.title.as_str(), how)),
        }
    }
    let known = |title: &str| DIFFERENT.iter().any(|(begin, _)| title.starts_with(begin));
    let unknown: Vec<_> = different.iter().filter(|(title, _)| !known(title)).collect();
    assert!(unknown.is_empty(), "{same} of {}: {unknown:#?}", all.len());
    for (begin, why) in DIFFERENT {
        assert!(
            different.iter().any(|(title, _)| title.starts_with(begin)),
            "{begin} differs no more: {why}"
        );
    }
    assert_eq!((same, all.len()), (70, 88));
}
