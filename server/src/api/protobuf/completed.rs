//! What Kubernetes fills in when it decodes a stored object: its writer left it out, and each reader is shown it.
//!
//! Few objects need it: most defaults are set before an object is stored (recording 30: 2 of 266). Old objects can lack more.

use revcast_engine::codec::protobuf::wire::{Reader, WireValue, push_field};

use super::types::{Count, MessageId, Shape, Types};

/// A text that stands where a stored object has none: the type, the way to it, and the text (Kubernetes `pkg/apis/*/*/defaults.go`).
const DEFAULTS: [(&str, &str, &str, &str); 2] = [
    ("v1", "PersistentVolumeClaim", "status.phase", "Pending"),
    ("apps/v1", "StatefulSet", "spec.volumeClaimTemplates.status.phase", "Pending"),
];

/// A text to fill in.
#[derive(Debug)]
pub(super) struct FieldDefault {
    path: Vec<Step>,
    text: &'static str,
}

#[derive(Debug)]
struct Step {
    number: u32,
    /// Whether it is a list: the text is filled into each item, and none is added.
    repeats: bool,
}

impl FieldDefault {
    /// Those of a kind.
    pub(super) fn of(types: &Types, id: MessageId, api_version: &str, kind: &str) -> Vec<Self> {
        let of_kind = DEFAULTS.iter().filter(|(group, name, ..)| (*group, *name) == (api_version, kind));
        of_kind.filter_map(|(_, _, path, text)| Some(Self { path: steps(types, id, path)?, text })).collect()
    }

    /// The message with it; `None`: it has it, or is no message.
    pub(super) fn fill(&self, message: &[u8]) -> Option<Vec<u8>> {
        fill(message, &self.path, self.text.as_bytes())
    }
}

fn steps(types: &Types, top: MessageId, path: &str) -> Option<Vec<Step>> {
    let (mut steps, mut at) = (Vec::new(), Some(top));
    for member in path.split('.') {
        let field = types.message(at?).fields.iter().find(|field| field.name == member)?;
        steps.push(Step { number: field.number, repeats: field.count == Count::List });
        at = if let Shape::Message(inner) = field.shape { Some(inner) } else { None };
    }
    Some(steps)
}

fn fill(message: &[u8], path: &[Step], text: &[u8]) -> Option<Vec<u8>> {
    let (step, rest) = path.split_first()?;
    let inner = |inner: &[u8]| match rest {
        [] => inner.is_empty().then(|| text.to_vec()),
        _ => fill(inner, rest, text),
    };
    let (mut out, mut copied) = (Vec::new(), 0);
    let (mut found, mut place) = (step.repeats, message.len());
    let mut reader = Reader::new(message);
    loop {
        let before = message.len() - reader.rest().len();
        let Some((number, wire)) = reader.next().ok()? else { break };
        if number > step.number {
            place = place.min(before);
        }
        if number != step.number {
            continue;
        }
        found = true;
        let WireValue::Bytes(bytes) = wire else { return None };
        if let Some(made) = inner(bytes) {
            out.extend_from_slice(&message[copied..before]);
            push_field(&mut out, number, &made);
            copied = message.len() - reader.rest().len();
        }
    }
    if !found {
        out.extend_from_slice(&message[..place]);
        push_field(&mut out, step.number, &inner(b"")?);
        copied = place;
    }
    if out.is_empty() {
        return None;
    }
    out.extend_from_slice(&message[copied..]);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::super::types::Release;
    use super::{FieldDefault, push_field};

    fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        push_field(&mut out, number, bytes);
        out
    }

    fn default(api_version: &str, kind: &str) -> FieldDefault {
        let types = Release::DEFAULT.types();
        let id = types.kind(api_version, kind).expect("it is known");
        FieldDefault::of(types, id, api_version, kind).pop().expect("it has one")
    }

    #[test]
    fn a_claim_without_a_phase_is_pending() {
        let claim = default("v1", "PersistentVolumeClaim");
        let pending = [field(1, b""), field(3, &field(1, b"Pending"))].concat();
        for stored in [
            field(1, b""),
            [field(1, b""), field(3, b"")].concat(),
            [field(1, b""), field(3, &field(1, b""))].concat(),
        ] {
            assert_eq!(claim.fill(&stored).as_ref(), Some(&pending), "{stored:?}");
        }
        assert_eq!(claim.fill(&pending), None);
        assert_eq!(claim.fill(&[field(1, b""), field(3, &field(1, b"Bound"))].concat()), None);
        // Others of its status stay, and their order.
        let stored = field(3, &field(2, b"ReadWriteOnce"));
        let expected = field(3, &[field(1, b"Pending"), field(2, b"ReadWriteOnce")].concat());
        assert_eq!(claim.fill(&stored), Some(expected));
        for bad in [&b"\x1a"[..], b"\x18\x01", b"\x1a\x05x"] {
            assert_eq!(claim.fill(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn each_claim_template_is_filled_in() {
        let set = default("apps/v1", "StatefulSet");
        let template = |status: &[u8]| field(4, &[field(1, b"m"), field(3, status)].concat());
        let spec = |parts: &[Vec<u8>]| [field(1, b""), field(2, &parts.concat())].concat();
        let (bound, pending) = (field(1, b"Bound"), field(1, b"Pending"));
        assert_eq!(
            set.fill(&spec(&[template(b""), template(&bound), field(5, b"s"), template(b"")])),
            Some(spec(&[template(&pending), template(&bound), field(5, b"s"), template(&pending)]))
        );
        assert_eq!(set.fill(&spec(&[])), None, "no template is added");
    }
}
