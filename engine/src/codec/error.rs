//! Why a value cannot be served: its reason by name, for counts, and a text for the operator who stored it.

use std::fmt;

use super::protobuf::{self, Envelope};
use crate::resource::Resource;
use crate::shown::cut;

/// What Kubernetes writes before a value that it encrypted (`storage/value/encrypt`); then the provider, its version and the
/// key's name, each with a colon.
const ENCRYPTED_PREFIX: &[u8] = b"k8s:enc:";
/// What Kubernetes writes before a value in CBOR (RFC 8949, section 3.4.6).
const CBOR_PREFIX: &[u8] = &[0xd9, 0xd9, 0xf7];
/// What Kubernetes will write before a value that it compressed (KEP-6264, a draft); then the algorithm.
const COMPRESSED_PREFIX: &[u8] = b"\0k8s";
/// Bytes that an error repeats of a value in an unknown format.
const FIRST_BYTES: usize = 8;
/// Characters of a stored kind or apiVersion, or of an encryption provider, that an error repeats.
pub(super) const NAME_SHOWN_MAX: usize = 80;

/// The reasons why values cannot be served. Their names do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// Encrypted at rest.
    Encrypted,
    /// Compressed at rest.
    Compressed,
    /// CBOR.
    Cbor,
    /// Binary, and none of the formats that are known.
    UnknownFormat,
    /// Protobuf of the resource's type, whose messages are not known.
    UnknownType,
    /// The resource's kind in another apiVersion.
    OtherVersion,
    /// An object of another kind.
    OtherType,
    /// Truncated, or damaged in another way.
    Malformed,
    /// JSON that is not an object with metadata.
    NotAnObject,
    /// JSON with a member name that the engine does not compare.
    EscapedName,
    /// Larger than can be kept.
    TooLarge,
}

impl Reason {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 11] = [
        Self::Encrypted,
        Self::Compressed,
        Self::Cbor,
        Self::UnknownFormat,
        Self::UnknownType,
        Self::OtherVersion,
        Self::OtherType,
        Self::Malformed,
        Self::NotAnObject,
        Self::EscapedName,
        Self::TooLarge,
    ];

    /// Its name, for machines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Encrypted => "encrypted",
            Self::Compressed => "compressed",
            Self::Cbor => "cbor",
            Self::UnknownFormat => "unknown_format",
            Self::UnknownType => "unknown_type",
            Self::OtherVersion => "other_version",
            Self::OtherType => "other_type",
            Self::Malformed => "malformed",
            Self::NotAnObject => "not_an_object",
            Self::EscapedName => "escaped_name",
            Self::TooLarge => "too_large",
        }
    }

    /// Its place in [`Reason::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Why a value cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// Encrypted at rest by a Kubernetes API server: the provider, its version and the key's name, as far as they are text.
    Encrypted(String),
    /// Compressed at rest by a Kubernetes API server.
    Compressed,
    /// CBOR with the tag that says so.
    Cbor,
    /// Not text: its first bytes in hexadecimal.
    UnknownFormat(String),
    /// Protobuf of the resource's type, given as `apiVersion kind`: its messages are not known.
    UnknownType(String),
    /// The resource's kind in another apiVersion.
    OtherVersion {
        /// The type that it states, as `apiVersion kind`.
        stored: String,
        /// What the resource holds.
        expected: String,
    },
    /// An object of another kind.
    OtherType {
        /// The type that it states, as `apiVersion kind`.
        stored: String,
        /// What the resource holds.
        expected: String,
    },
    /// In the envelope that Kubernetes puts around protobuf, and it cannot be read.
    Message(String),
    /// Not JSON at all: truncated, or something else.
    NotJson(String),
    /// JSON, but not an object with an object as `metadata`.
    NotAnObject,
    /// A member name with letters written as `\u` escapes, which the engine does not compare.
    EscapedName,
    /// Larger than an offset can express (4 GiB).
    TooLarge(usize),
}

impl DecodeError {
    /// The reason without its particulars.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Encrypted(_) => Reason::Encrypted,
            Self::Compressed => Reason::Compressed,
            Self::Cbor => Reason::Cbor,
            Self::UnknownFormat(_) => Reason::UnknownFormat,
            Self::UnknownType(_) => Reason::UnknownType,
            Self::OtherVersion { .. } => Reason::OtherVersion,
            Self::OtherType { .. } => Reason::OtherType,
            Self::Message(_) | Self::NotJson(_) => Reason::Malformed,
            Self::NotAnObject => Reason::NotAnObject,
            Self::EscapedName => Reason::EscapedName,
            Self::TooLarge(_) => Reason::TooLarge,
        }
    }

    /// Of a value that is no JSON, `why` says in which way: what it is instead, if that shows.
    pub(super) fn not_json(resource: &Resource, value: &[u8], why: String) -> Self {
        if value.starts_with(protobuf::PREFIX) {
            return Self::protobuf(resource, value);
        }
        if let Some(rest) = value.strip_prefix(ENCRYPTED_PREFIX) {
            return Self::Encrypted(provider(rest));
        }
        if value.starts_with(CBOR_PREFIX) {
            return Self::Cbor;
        }
        if value.starts_with(COMPRESSED_PREFIX) {
            return Self::Compressed;
        }
        match value.trim_ascii().first() {
            None => Self::NotJson("it is empty".to_owned()),
            Some(first) if first.is_ascii_graphic() => Self::NotJson(why),
            Some(_) => {
                let first: Vec<String> =
                    value.iter().take(FIRST_BYTES).map(|byte| format!("{byte:02x}")).collect();
                Self::UnknownFormat(first.join(" "))
            }
        }
    }

    /// Of a value in the envelope of protobuf, of a resource whose messages are not known.
    fn protobuf(resource: &Resource, value: &[u8]) -> Self {
        match Envelope::read(value) {
            Err(why) => Self::Message(why.to_owned()),
            Ok(envelope) => Self::of_envelope(resource, &envelope)
                .err()
                .unwrap_or_else(|| Self::UnknownType(format!("{} {}", resource.api_version, resource.kind))),
        }
    }

    /// Whether what an envelope holds belongs to the resource.
    pub(super) fn of_envelope(resource: &Resource, envelope: &Envelope<'_>) -> Result<(), Self> {
        if envelope.api_version.is_empty() && envelope.kind.is_empty() {
            return Err(Self::Message("it states no type".to_owned()));
        }
        Self::of_type(resource, envelope.api_version, envelope.kind)
    }

    /// Whether an object of this type belongs to the resource.
    pub(super) fn of_type(resource: &Resource, api_version: &str, kind: &str) -> Result<(), Self> {
        if api_version == resource.api_version && kind == resource.kind {
            return Ok(());
        }
        let stored = format!("{} {}", cut(api_version, NAME_SHOWN_MAX), cut(kind, NAME_SHOWN_MAX));
        let expected = format!("{} {}", resource.api_version, resource.kind);
        Err(if kind == resource.kind {
            Self::OtherVersion { stored, expected }
        } else {
            Self::OtherType { stored, expected }
        })
    }
}

/// What follows the prefix of an encrypted value up to the ciphertext: up to three parts, as far as they are text.
fn provider(mut rest: &[u8]) -> String {
    let mut parts = Vec::new();
    while parts.len() < 3
        && let Some(end) = rest.iter().take(NAME_SHOWN_MAX).position(|byte| *byte == b':')
        && end > 0
        && rest[..end].iter().all(u8::is_ascii_graphic)
    {
        parts.push(String::from_utf8_lossy(&rest[..end]).into_owned());
        rest = &rest[end + 1..];
    }
    if parts.is_empty() { "without a name".to_owned() } else { parts.join(":") }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Encrypted(provider) => write!(
                f,
                "the stored value is encrypted at rest (provider {provider}), and there is no key here: read this \
                 resource from kube-apiserver, or let kube-apiserver write it again with the provider identity"
            ),
            Self::Compressed => f.write_str(
                "the stored value is compressed (KEP-6264): read this resource from kube-apiserver, or let \
                 kube-apiserver write it again without --storage-compression-config",
            ),
            Self::Cbor => f.write_str(
                "the stored value is not JSON (CBOR): store it as JSON (kube-apiserver without its feature gate \
                 CBORServingAndStorage), or delete it",
            ),
            Self::UnknownFormat(first) => write!(
                f,
                "the stored value has an unknown format (it begins with the bytes {first}): store it as JSON, or \
                 delete it"
            ),
            Self::UnknownType(of) => write!(
                f,
                "the stored value is protobuf of type {of}, whose messages are not known here: store it as JSON \
                 (kube-apiserver --storage-media-type=application/json), or delete it"
            ),
            Self::OtherVersion { stored, expected } => write!(
                f,
                "the stored value is of type {stored}, this resource holds {expected}: migrate it to that version \
                 (write it again)"
            ),
            Self::OtherType { stored, expected } => write!(
                f,
                "the stored value is of type {stored}, this resource holds {expected}: store it as \
                 {expected}, or under a key of its own resource"
            ),
            Self::Message(why) => {
                write!(f, "the stored value is protobuf that cannot be read ({why}): store it again, or delete it")
            }
            Self::NotJson(why) => write!(f, "the stored value is not JSON ({why}): store it as JSON"),
            Self::NotAnObject => f.write_str(
                "the stored value is not an object with metadata: store a Kubernetes-style object",
            ),
            Self::EscapedName => f.write_str(
                "a member name of the stored value has letters that are escaped: write them in plain text",
            ),
            Self::TooLarge(len) => write!(f, "the stored value has {len} bytes: store less than 4 GiB"),
        }
    }
}

impl std::error::Error for DecodeError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Resource {
        Resource::new("v1", "Pod", true, Vec::new())
    }

    /// What is made of a value that is no JSON.
    fn of(value: &[u8]) -> DecodeError {
        DecodeError::not_json(&pod(), value, "syntax".to_owned())
    }

    fn envelope(api_version: &str, kind: &str) -> Vec<u8> {
        let mut value = Vec::new();
        Envelope::push(&mut value, (api_version, kind), 2, |out| out.extend_from_slice(b"\x0a\x00"));
        value
    }

    #[test]
    fn formats_are_known_by_their_first_bytes() {
        for (value, reason) in [
            (&b"k8s:enc:aescbc:v1:key1:\xff"[..], Reason::Encrypted),
            (b"k8s:enc:", Reason::Encrypted),
            (b"\xd9\xd9\xf7\xa0", Reason::Cbor),
            (b"\0k8s\x01\x80\x08", Reason::Compressed),
            (b"\0k8s", Reason::Compressed),
            (b"\0k8t\x01", Reason::UnknownFormat),
            (b"\x1f\x8b\x08\0", Reason::UnknownFormat),
            (b"\x28\xb5\x2f\xfd", Reason::Malformed),
            (b" \xff", Reason::UnknownFormat),
            (b"", Reason::Malformed),
            (b" \n", Reason::Malformed),
            (b"k8s", Reason::Malformed),
            (b"hello", Reason::Malformed),
            (b"k8s\0", Reason::Malformed),
            (b"k8s\0\x0a\xff", Reason::Malformed),
            (&envelope("v1", "Pod"), Reason::UnknownType),
            (&envelope("v2", "Pod"), Reason::OtherVersion),
            (&envelope("v1", "Node"), Reason::OtherType),
        ] {
            assert_eq!(of(value).reason(), reason, "{}", value.escape_ascii());
        }
    }

    #[test]
    fn texts_name_what_was_found() {
        for (value, names) in [
            (&b"k8s:enc:aescbc:v1:key1:\x01:\x02"[..], "(provider aescbc:v1:key1)"),
            (b"k8s:enc:kms:v2:my-kms:\x0a", "(provider kms:v2:my-kms)"),
            (b"k8s:enc:aesgcm", "(provider without a name)"),
            (b"k8s:enc:\xff:v1:", "(provider without a name)"),
            (b"k8s:enc:a:\xff:", "(provider a)"),
            (b"\x1f\x8b\x08\0\0\0\0\0\0\0", "the bytes 1f 8b 08 00 00 00 00 00)"),
            (&envelope("apps/v9", "Gadget"), "of type apps/v9 Gadget, this resource holds v1 Pod"),
            (&envelope("v1", "Pod"), "protobuf of type v1 Pod, whose messages are not known"),
        ] {
            let text = of(value).to_string();
            assert!(text.contains(names), "{text}");
        }
        let long = of(&envelope("v1", &"x".repeat(10_000))).to_string();
        assert!(long.len() < 400, "{long}");
        assert!(of(format!("k8s:enc:{}:", "x".repeat(10_000)).as_bytes()).to_string().len() < 300);
    }

    #[test]
    fn each_reason_has_its_name_and_its_place() {
        let mut names: Vec<&str> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        assert!(Reason::ALL.iter().enumerate().all(|(at, reason)| reason.index() == at));
        assert!(names.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Reason::ALL.len());
    }
}
