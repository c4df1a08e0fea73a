//! The objects of the simulated store: the stored text, and the text that must be served.
//!
//! It builds both texts from the same parts and never asks the engine: the served text is the stored one with the
//! version and the missing type members where the engine's decode puts them.

use std::cell::Cell;
use std::fmt::Write as _;
use std::ops::Range;

use bytes::Bytes;
use revcast_engine::key::{Key, ResourceId};
use revcast_engine::resource::Codec;

use super::rng::Rng;

/// One kind of object.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// With the group.
    plural: &'static str,
    pub(crate) namespaced: bool,
    /// Own selectable fields, with their possible values.
    pub(crate) fields: &'static [(&'static str, &'static [&'static str])],
    pub(crate) codec: Codec,
}

/// The kinds of the usual world; one of ranges has the last as well.
pub(crate) const USUAL_KINDS: usize = 3;

pub(crate) const KINDS: [Kind; 4] = [
    Kind {
        name: "ConfigMap",
        version: "v1",
        plural: "configmaps",
        namespaced: true,
        fields: &[],
        codec: Codec::Kubernetes,
    },
    Kind {
        name: "Pod",
        version: "v1",
        plural: "pods",
        namespaced: true,
        fields: &[("spec.nodeName", &["", "n1", "n2", "n3"]), ("status.phase", &["", "Pending", "Running"])],
        codec: Codec::Kubernetes,
    },
    Kind {
        name: "Gadget",
        version: "toys.example.com/v1",
        plural: "gadgets.toys.example.com",
        namespaced: false,
        fields: &[("spec.sealed", &["", "true", "false"]), ("status.phase", &["", "Ready"])],
        codec: Codec::Kubernetes,
    },
    Kind {
        name: "Blob",
        version: "v1",
        plural: "blobs",
        namespaced: true,
        fields: &[],
        codec: Codec::Opaque,
    },
];

/// `a-b` sorts before the objects of `a`: `-` is less than `/`.
pub(crate) const NAMESPACES: [&str; 3] = ["a", "a-b", "b"];

/// Labels, with their possible values; "" is a value, absence is not.
pub(crate) const LABELS: [(&str, &[&str]); 3] =
    [("app", &["web", "db", ""]), ("tier.x/y", &["front", "back"]), ("num", &["1", "5", "12"])];

/// The name of an object.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) kind: usize,
    pub(crate) namespace: Option<&'static str>,
    pub(crate) name: String,
    pub(crate) key: Key,
}

impl Name {
    pub(crate) fn new(kind: usize, namespace: Option<&'static str>, name: String) -> Self {
        let key = Key::new(row(kind), namespace, &name);
        Self { kind, namespace, name, key }
    }
}

pub(crate) fn row(kind: usize) -> ResourceId {
    ResourceId::new(u16::try_from(kind).expect("four kinds"))
}

/// One state of one object.
#[derive(Debug)]
pub(crate) struct State {
    /// The name.
    pub(crate) name: usize,
    pub(crate) revision: u64,
    /// By index in [`LABELS`].
    pub(crate) labels: [Option<&'static str>; 3],
    /// By index in the kind's fields.
    pub(crate) fields: Vec<&'static str>,
    /// The object as it must be served.
    pub(crate) text: Vec<u8>,
    pub(crate) version: Range<usize>,
    /// Bytes of the message that announces it.
    pub(crate) weight: Cell<u64>,
    /// The same if nothing was known there before.
    pub(crate) weight_added: u64,
    /// The value is unreadable, as were those before it since this revision; the text is a Status.
    pub(crate) unreadable: Option<u64>,
    /// It has neither labels nor fields, and no version.
    pub(crate) opaque: bool,
    /// It is stored in protobuf.
    pub(crate) packed: bool,
}

/// An opaque value as the simulation shows it.
pub(crate) fn hex(bytes: &[u8]) -> Vec<u8> {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\"{digits}\"").into_bytes()
}

/// What a watch is told whose encoding shows no opaque values.
pub(crate) const NO_FORM: &str = "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\
    \"message\":\"blobs cannot be served: the values have no form in the encoding of this watch: ask for another\",\
    \"reason\":\"StorageReadError\",\"code\":500}";

impl State {
    /// The object with another version.
    pub(crate) fn at(&self, revision: u64) -> Vec<u8> {
        if self.opaque {
            return self.text.clone();
        }
        [&self.text[..self.version.start], revision.to_string().as_bytes(), &self.text[self.version.end..]]
            .concat()
    }
}

/// Bytes of a message with a watch event of `kind` for `object` bytes, in the framing that messages are made in: a
/// chunk.
fn weight(kind: &str, object: usize) -> u64 {
    let line = format!("{{\"type\":\"{kind}\",\"object\":").len() + object + 2;
    (format!("{line:x}").len() + 2 + line + 2) as u64
}

/// Makes a random state of `names[name]`: the bytes to store and the state that must follow.
pub(crate) fn draft(
    rng: &mut Rng,
    (at, name): (usize, &Name),
    revision: u64,
    exists: bool,
    pad: usize,
) -> (Bytes, State) {
    let kind = &KINDS[name.kind];
    if kind.codec == Codec::Opaque {
        return any_bytes(rng, at, revision, pad);
    }
    let labels = LABELS.map(|(_, values)| rng.percent(60).then(|| *rng.pick(values)));
    let fields: Vec<&'static str> = kind.fields.iter().map(|(_, values)| *rng.pick(values)).collect();

    let mut identity = format!("\"metadata\":{{\"name\":\"{}\"", name.name);
    if let Some(namespace) = name.namespace {
        let _ = write!(identity, ",\"namespace\":\"{namespace}\"");
    }
    if rng.percent(50) {
        let _ = write!(identity, ",\"uid\":\"u-{at}\"");
    }
    let mut marks = String::new();
    let present = LABELS.iter().zip(labels).filter_map(|((key, _), value)| value.map(|value| (*key, value)));
    for (number, (key, value)) in present.enumerate() {
        marks.push_str(if number == 0 { ",\"labels\":{" } else { "," });
        let _ = write!(marks, "\"{key}\":\"{value}\"");
    }
    if !marks.is_empty() {
        marks.push('}');
    }
    let version = "\"resourceVersion\":";
    // The stored text, and the parts before and after the digits that are served.
    let (stored, before, behind) = match rng.below(4) {
        0 => (
            format!("{identity}{marks},{version}\"77777\"}}"),
            format!("{identity}{marks},{version}\""),
            "\"}".to_owned(),
        ),
        1 => (
            format!("{identity},{version}5{marks}}}"),
            format!("{identity},{version}\""),
            format!("\"{marks}}}"),
        ),
        _ => (format!("{identity}{marks}}}"), format!("{identity},{version}\""), format!("\"{marks}}}")),
    };
    let mut tail = String::new();
    for (place, group) in ["spec", "status"].into_iter().enumerate() {
        let members = kind.fields.iter().zip(&fields).filter(|((label, _), value)| {
            !value.is_empty() && label.split('.').next() == Some(["spec", "status"][place])
        });
        let members: Vec<String> = members
            .map(|((label, _), value)| {
                let member = label.rsplit('.').next().unwrap_or(label);
                let bare = matches!(*value, "true" | "false");
                if bare { format!("\"{member}\":{value}") } else { format!("\"{member}\":\"{value}\"") }
            })
            .collect();
        if !members.is_empty() || rng.percent(20) {
            let _ = write!(tail, ",\"{group}\":{{{}}}", members.join(","));
        }
    }
    let _ = write!(tail, ",\"data\":{{\"trap\":\"}}\\\"{{\\n\",\"pad\":\"{}\"}}}}", "x".repeat(pad));

    let types = format!("\"kind\":\"{}\",\"apiVersion\":\"{}\"", kind.name, kind.version);
    let (stored_head, served_head, stored_types, served_types) = match rng.below(4) {
        0 => ("{".to_owned(), format!("{{{types},"), String::new(), String::new()),
        1 => (
            format!("{{\"kind\":\"{}\",", kind.name),
            format!("{{\"apiVersion\":\"{}\",\"kind\":\"{}\",", kind.version, kind.name),
            String::new(),
            String::new(),
        ),
        2 => ("{".to_owned(), "{".to_owned(), format!(",{types}"), format!(",{types}")),
        _ => (format!("{{{types},"), format!("{{{types},"), String::new(), String::new()),
    };
    let mut value = format!("{stored_head}{stored}{stored_types}{tail}");
    if rng.percent(10) {
        // The engine must write it on one line again.
        value = format!("\n{} \r\n", value.replacen("\"metadata\":{", "\"metadata\" :\n { \t", 1));
    }
    let mut text = format!("{served_head}{before}").into_bytes();
    let start = text.len();
    text.extend_from_slice(revision.to_string().as_bytes());
    let version = start..text.len();
    text.extend_from_slice(format!("{behind}{served_types}{tail}").as_bytes());
    let weight_added = weight("ADDED", text.len());
    let weight = Cell::new(if exists { weight("MODIFIED", text.len()) } else { weight_added });
    let (unreadable, opaque, packed) = (None, false, false);
    (
        Bytes::from(value),
        State {
            name: at,
            revision,
            labels,
            fields,
            text,
            version,
            weight,
            weight_added,
            unreadable,
            opaque,
            packed,
        },
    )
}

/// Makes up an opaque value: nothing of it is looked at.
fn any_bytes(rng: &mut Rng, at: usize, revision: u64, len: usize) -> (Bytes, State) {
    let value: Bytes = match rng.below(4) {
        0 => Bytes::new(),
        1 => Bytes::from_static(b"k8s\0\n\xff"),
        _ => (0..len).map(|_| rng.below(256).to_le_bytes()[0]).collect(),
    };
    let state = State {
        name: at,
        revision,
        labels: [None; 3],
        fields: Vec::new(),
        text: hex(&value),
        version: 0..0,
        weight: Cell::new(value.len() as u64),
        weight_added: value.len() as u64,
        unreadable: None,
        opaque: true,
        packed: false,
    };
    (value, state)
}

/// Makes an unreadable value of `names[name]` after `before`: the bytes to store, and the state that must follow.
pub(crate) fn spoil(
    rng: &mut Rng,
    (at, name): (usize, &Name),
    revision: u64,
    before: Option<&State>,
) -> (Bytes, State) {
    let kind = &KINDS[name.kind];
    let object = format!("\"metadata\":{{\"name\":\"{}\",\"labels\":{{\"app\":\"web\"}}}}}}", name.name);
    let other_type = |stored: &str| {
        let expected = format!("{} {}", kind.version, kind.name);
        format!(
            "the stored value is of type {stored}, this resource holds {expected}: store it as {expected}, or under a \
             key of its own resource"
        )
    };
    let no_object = "the stored value is not an object with metadata: store a Kubernetes-style object";
    let (value, why) = match rng.below(8) {
        0 => (
            format!("k8s\0\n{}", "p".repeat(1 + rng.below(99))),
            "the stored value is protobuf that cannot be read (a length goes past the end): store it again, or delete it"
                .to_owned(),
        ),
        1 => (
            format!("k8s:enc:aescbc:v1:key1:{}", "c".repeat(rng.below(300))),
            "the stored value is encrypted at rest (provider aescbc:v1:key1), and there is no key here: read this \
             resource from kube-apiserver, or let kube-apiserver write it again with the provider identity"
                .to_owned(),
        ),
        2 => (format!("{{\"kind\":\"Other\",{object}"), other_type(&format!("{} Other", kind.version))),
        3 => (
            format!("{{\"kind\":\"{}\",\"apiVersion\":\"old/v0\",{object}", kind.name),
            format!(
                "the stored value is of type old/v0 {0}, this resource holds {1} {0}: migrate it to that version (write \
                 it again)",
                kind.name, kind.version
            ),
        ),
        4 => ("[]".to_owned(), no_object.to_owned()),
        5 => ("{\"metadata\":3}".to_owned(), no_object.to_owned()),
        6 => (
            "{\"metadata\":{\"n\\u0061me\":1}}".to_owned(),
            "a member name of the stored value has letters that are escaped: write them in plain text".to_owned(),
        ),
        _ => ("{\"metadata\":{".to_owned(), "the stored value is not JSON (Syntax at character 12 ('{')): store it as JSON".to_owned()),
    };
    let text = format!(
        "{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"status\":\"Failure\",\"message\":\"{} \\\"{}\\\" \
         cannot be served: {why}\",\"reason\":\"StorageReadError\",\"code\":500}}",
        kind.plural,
        name.key.path()
    );
    let weight = weight("ERROR", text.len()) + value.len() as u64;
    let state = State {
        name: at,
        revision,
        labels: [None; 3],
        fields: vec![""; kind.fields.len()],
        weight: Cell::new(weight),
        weight_added: weight,
        text: text.into_bytes(),
        version: 0..0,
        unreadable: Some(before.and_then(|before| before.unreadable).unwrap_or(revision)),
        opaque: false,
        packed: false,
    };
    (Bytes::from(value), state)
}
