//! Values that a kube-apiserver 1.36 stored in protobuf, served from a real etcd: recording 30.

use std::collections::BTreeSet;
use std::io::Read;

use base64::Engine;
use flate2::read::GzDecoder;
use revcast_engine::codec::protobuf::Envelope;
use revcast_engine::codec::protobuf::wire::{Reader, Wire};
use serde_json::Value;

use super::{Options, Release, eventually, pair};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

const RECORDED: &[u8] =
    include_bytes!("../../../server/tests/fixtures/recorded/30-storage-protobuf.jsonl.gz");

/// A recorded object.
struct Line(Value);

impl Line {
    fn text(&self, member: &str) -> &str {
        self.0[member].as_str().unwrap_or_default()
    }

    fn bytes(&self, member: &str) -> Vec<u8> {
        base64::engine::general_purpose::STANDARD.decode(self.text(member)).unwrap()
    }

    fn path(&self) -> String {
        let version = self.text("apiVersion");
        let root = if version.contains('/') { "apis" } else { "api" };
        let namespace =
            self.0["namespace"].as_str().map(|of| format!("/namespaces/{of}")).unwrap_or_default();
        format!("/{root}/{version}{namespace}/{}/{}", self.text("resource"), self.text("name"))
    }
}

fn recorded() -> Vec<Line> {
    let mut text = String::new();
    GzDecoder::new(RECORDED).read_to_string(&mut text).unwrap();
    let lines = text.lines().map(|line| Line(serde_json::from_str(line).unwrap()));
    let own = |line: &Line| {
        line.text("apiVersion") == line.text("stored_apiVersion")
            && line.bytes("etcd_value_base64").starts_with(b"k8s\0")
    };
    lines.filter(own).collect()
}

/// An object in its envelope, whatever its revision.
#[derive(PartialEq)]
struct Parts<'a> {
    api_version: &'a str,
    kind: &'a str,
    /// The fields of its metadata but for the revision.
    metadata: Vec<(u32, Vec<u8>)>,
    /// What follows its metadata.
    rest: &'a [u8],
}

fn parts(object: &[u8]) -> Parts<'_> {
    let Envelope { api_version, kind, message } = Envelope::read(object).unwrap();
    let mut reader = Reader::new(message);
    let Ok(Some((1, Wire::Bytes(metadata)))) = reader.next() else { panic!("no metadata") };
    let (mut fields, rest) = (Vec::new(), reader.rest());
    let mut reader = Reader::new(metadata);
    while let Some((number, wire)) = reader.next().unwrap() {
        let value = match wire {
            Wire::Bytes(bytes) => bytes.to_vec(),
            Wire::Varint(value) => value.to_be_bytes().to_vec(),
        };
        fields.push((number, if number == 6 { Vec::new() } else { value }));
    }
    Parts { api_version, kind, metadata: fields, rest }
}

/// Every recorded object is served byte for byte as the kube-apiserver served it, in JSON and in protobuf, its revision aside: half of them loaded, half of
/// them written while the server runs.
#[test]
fn recorded_objects_are_served_as_recorded() {
    for release in Release::ALL {
        let both = pair(release, Options::default(), &[]);
        let (client, control) = (both.server.client(), both.etcd.control());
        let lines = recorded();
        let mut revisions = Vec::new();
        for line in &lines {
            revisions.push(control.put(line.text("etcd_key"), line.bytes("etcd_value_base64")).unwrap());
        }
        let newest = revisions.iter().max().copied().unwrap();
        let probe = format!("/api/v1/configmaps?resourceVersion={newest}&limit=1");
        eventually("the last write", || client.get(&probe).status == 200);
        let (mut absent, mut different, mut same) = (BTreeSet::new(), Vec::new(), 0);
        for (line, revision) in lines.iter().zip(revisions) {
            let reply = client.get(&line.path());
            if reply.status == 404 {
                absent.insert(format!("{} {}", line.text("apiVersion"), line.text("resource")));
                continue;
            }
            let of = |revision| format!("\"resourceVersion\":\"{revision}\"");
            let recorded = line.0["etcd_mod_revision"].as_u64().unwrap();
            let expected = line.text("json").replacen(&of(recorded), &of(revision), 1);
            let packed = client.request("GET", &line.path(), &[("Accept", PROTOBUF)], b"");
            let same_packed = parts(&packed.body) == parts(&line.bytes("pb_base64"));
            if reply.status == 200 && reply.text().trim_end() == expected.trim_end() && same_packed {
                same += 1;
            } else {
                different.push(format!("{} {}: {}", line.text("kind"), line.text("name"), reply.text()));
            }
        }
        eprintln!("{release:?}: {same} same, absent {absent:?}");
        assert!(different.is_empty(), "{}", different.join("\n"));
        assert!(same > 200, "{same} of {}", lines.len());
    }
}

/// The frames of a stream: a length of four bytes, and the message.
fn frames(mut stream: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    while let Some((length, rest)) = stream.split_first_chunk() {
        let (event, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        stream = rest;
        let mut reader = Reader::new(event);
        let (Ok(Some((1, Wire::Bytes(kind)))), Ok(Some((2, Wire::Bytes(raw)))), Ok(None)) =
            (reader.next(), reader.next(), reader.next())
        else {
            panic!("no watch event: {event:?}")
        };
        let mut reader = Reader::new(raw);
        let Ok(Some((1, Wire::Bytes(object)))) = reader.next() else { panic!("no object: {raw:?}") };
        found.push((String::from_utf8(kind.to_vec()).unwrap(), object.to_vec()));
    }
    found
}

/// A watch in protobuf is sent the stored bytes with their revision: of the state, of changes, and of what was deleted; and
/// nothing that is no frame.
#[test]
fn a_watch_in_protobuf_has_the_stored_bytes() {
    for release in Release::ALL {
        let both = pair(release, Options::default(), &["--heartbeat-interval", "1s"]);
        let (client, control) = (both.server.client(), both.etcd.control());
        let lines: Vec<Line> = recorded();
        let lines: Vec<&Line> = lines.iter().filter(|line| line.text("kind") == "ConfigMap").collect();
        let [first, second, ..] = lines[..] else { panic!("{} config maps", lines.len()) };
        let put = |line: &Line, value: &Line| {
            control.put(line.text("etcd_key"), value.bytes("etcd_value_base64")).unwrap()
        };
        let from = put(first, first);
        let get = |line: &Line| {
            let reply = client.request("GET", &line.path(), &[("Accept", PROTOBUF)], b"");
            assert_eq!(reply.header("content-type"), Some(PROTOBUF));
            reply.body
        };
        eventually("the first object", || client.get(&first.path()).status == 200);
        let before = get(first);
        let watching = std::thread::spawn({
            let client = both.server.client();
            move || {
                let path = "/api/v1/configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                            &allowWatchBookmarks=true&timeoutSeconds=4";
                client.request(
                    "GET",
                    path,
                    &[("Accept", "application/vnd.kubernetes.protobuf;stream=watch")],
                    b"",
                )
            }
        });
        std::thread::sleep(std::time::Duration::from_millis(1500));
        put(second, second);
        eventually("the second object", || client.get(&second.path()).status == 200);
        let added = get(second);
        put(second, second);
        eventually("its change", || get(second) != added);
        let changed = get(second);
        control.del(second.text("etcd_key")).unwrap();
        let reply = watching.join().unwrap();
        assert_eq!(
            reply.header("content-type"),
            Some("application/vnd.kubernetes.protobuf;stream=watch"),
            "{release:?}"
        );
        let mut frames = frames(&reply.body);
        frames.retain(|(kind, object)| {
            let bookmark = Envelope::read(object).unwrap();
            assert_eq!((bookmark.api_version, bookmark.kind), ("v1", "ConfigMap"));
            kind != "BOOKMARK"
        });
        let kinds: Vec<&str> = frames.iter().map(|(kind, _)| kind.as_str()).collect();
        assert_eq!(kinds, ["ADDED", "ADDED", "MODIFIED", "DELETED"], "{release:?}, from {from}");
        assert!(frames[0].1 == before && frames[1].1 == added && frames[2].1 == changed, "{release:?}");
        assert!(parts(&frames[3].1) == parts(&changed) && frames[3].1 != changed, "{release:?}");
    }
}
