//! Values that a kube-apiserver 1.36 stored in protobuf, served from a real etcd: recording 30.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use base64::Engine;
use flate2::read::GzDecoder;
use revcast_engine::codec::protobuf::Envelope;
use revcast_engine::codec::protobuf::wire::{Reader, WireValue};
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

/// Every version of every object.
fn recorded() -> Vec<Line> {
    let mut text = String::new();
    GzDecoder::new(RECORDED).read_to_string(&mut text).unwrap();
    text.lines().map(|line| Line(serde_json::from_str(line).unwrap())).collect()
}

/// Versions of objects that are served in another way, and why.
const DIFFERENT: [(&str, &str); 1] = [(
    "resource.k8s.io/v1beta1 ResourceClaim status",
    "JSON inside protobuf loses its spaces where members differ",
)];

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
    let Ok(Some((1, WireValue::Bytes(metadata)))) = reader.next() else { panic!("no metadata") };
    let (mut fields, rest) = (Vec::new(), reader.rest());
    let mut reader = Reader::new(metadata);
    while let Some((number, wire)) = reader.next().unwrap() {
        let value = match wire {
            WireValue::Bytes(bytes) => bytes.to_vec(),
            WireValue::Varint(value) | WireValue::Fixed64(value) => value.to_be_bytes().to_vec(),
        };
        fields.push((number, if number == 6 { Vec::new() } else { value }));
    }
    Parts { api_version, kind, metadata: fields, rest }
}

/// Every recorded version of every object, custom resources included, is served byte for byte as the kube-apiserver served it, in JSON and in protobuf, its
/// revision aside.
#[test]
fn recorded_objects_are_served_as_recorded() {
    for release in Release::ALL {
        let both = pair(release, Options::default(), &[]);
        let (client, control) = (both.server.client(), both.etcd.control());
        let lines = recorded();
        // An object is stored once, in whichever versions it was read.
        let mut revisions = BTreeMap::new();
        for line in &lines {
            let put = || control.put(line.text("etcd_key"), line.bytes("etcd_value_base64")).unwrap();
            revisions.entry(line.text("etcd_key")).or_insert_with(put);
        }
        let newest = revisions.values().max().copied().unwrap();
        let probe = format!("/api/v1/configmaps?resourceVersion={newest}&limit=1");
        eventually("the last write", || client.get(&probe).status == 200);
        for line in lines.iter().filter(|line| line.text("kind") == "Widget") {
            eventually("a resource that is defined here", || client.get(&line.path()).status == 200);
        }
        let (mut different, mut same, mut versions) = (Vec::new(), 0, BTreeSet::new());
        for line in &lines {
            let reply = client.get(&line.path());
            let of = |revision| format!("\"resourceVersion\":\"{revision}\"");
            let recorded = line.0["etcd_mod_revision"].as_u64().unwrap();
            let revision = revisions[line.text("etcd_key")];
            let expected = line.text("json").replacen(&of(recorded), &of(revision), 1);
            let is_same = reply.status == 200 && reply.text().trim_end() == expected.trim_end();
            let packed = client.request("GET", &line.path(), &[("Accept", PROTOBUF)], b"");
            let is_packed = if line.text("kind") == "Widget" {
                // Custom resources have no form in protobuf; what says so has one.
                (packed.status, packed.header("content-type")) == (406, Some(PROTOBUF))
                    && String::from_utf8_lossy(&packed.body) == line.text("pb_error")
            } else {
                packed.status == 200 && parts(&packed.body) == parts(&line.bytes("pb_base64"))
            };
            let name = ["apiVersion", "kind", "variant"].map(|member| line.text(member)).join(" ");
            if (is_same && is_packed) != DIFFERENT.iter().any(|(known, _)| *known == name) {
                same += usize::from(is_same && is_packed);
                versions.insert((line.text("apiVersion"), line.text("kind")));
            } else {
                different.push(format!("{name}: {}", reply.text()));
            }
        }
        assert!(different.is_empty(), "{release:?}: {}", different.join("\n"));
        assert_eq!((versions.len(), same), (85, 366), "{release:?}");
    }
}

/// A watch in a version that is not stored has the state, and every change, in it.
#[test]
fn a_watch_in_another_version_has_every_change() {
    for release in Release::ALL {
        let both = pair(release, Options::default(), &[]);
        let (client, control) = (both.server.client(), both.etcd.control());
        let lines = recorded();
        let of = |kind, version| {
            let mut found =
                lines.iter().filter(|line| (line.text("kind"), line.text("apiVersion")) == (kind, version));
            found.next().unwrap()
        };
        for line in [
            of("HorizontalPodAutoscaler", "autoscaling/v1"),
            of("CustomResourceDefinition", "apiextensions.k8s.io/v1"),
        ] {
            let put = || control.put(line.text("etcd_key"), line.bytes("etcd_value_base64")).unwrap();
            put();
            eventually("the object", || client.get(&line.path()).status == 200);
            let (collection, _) =
                line.path().rsplit_once('/').map(|(of, name)| (of.to_owned(), name.to_owned())).unwrap();
            let watching = std::thread::spawn({
                let client = both.server.client();
                move || client.get(&format!("{collection}?watch=1&timeoutSeconds=3"))
            });
            std::thread::sleep(std::time::Duration::from_millis(1200));
            put();
            control.del(line.text("etcd_key")).unwrap();
            let stream = watching.join().unwrap().text().to_owned();
            let events: Vec<Value> = stream.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
            assert_eq!(kinds, ["ADDED", "MODIFIED", "DELETED"], "{release:?}");
            let bare = |object: &Value| {
                let mut object = object.clone();
                object["metadata"].as_object_mut().unwrap().shift_remove("resourceVersion");
                object
            };
            let recorded: Value = serde_json::from_str(line.text("json")).unwrap();
            assert!(
                events.iter().all(|event| bare(&event["object"]) == bare(&recorded)),
                "{release:?}: {stream}"
            );
        }
    }
}

/// The frames of a stream: a length of four bytes, and the message.
fn frames(mut stream: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    while let Some((length, rest)) = stream.split_first_chunk() {
        let (event, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        stream = rest;
        let mut reader = Reader::new(event);
        let (Ok(Some((1, WireValue::Bytes(kind)))), Ok(Some((2, WireValue::Bytes(raw)))), Ok(None)) =
            (reader.next(), reader.next(), reader.next())
        else {
            panic!("no watch event: {event:?}")
        };
        let mut reader = Reader::new(raw);
        let Ok(Some((1, WireValue::Bytes(object)))) = reader.next() else { panic!("no object: {raw:?}") };
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
