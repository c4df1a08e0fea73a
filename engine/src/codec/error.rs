//! Why a value cannot be served, as text for the operator who stored it.

use std::fmt;

/// Why a value cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// In the envelope that Kubernetes puts around protobuf, of a resource whose messages are not known.
    Protobuf,
    /// In that envelope, and it cannot be read.
    Message(String),
    /// CBOR with the tag that says so.
    Cbor,
    /// Encrypted at rest by a Kubernetes API server.
    Encrypted,
    /// Not JSON at all: truncated, or something else.
    NotJson(String),
    /// An object of another kind or apiVersion than the resource's.
    OtherType {
        /// The type that it states, as `apiVersion kind`.
        stored: String,
        /// What the resource holds.
        expected: String,
    },
    /// JSON, but not an object with an object as `metadata`.
    NotAnObject,
    /// A member name with letters written as `\u` escapes, which the engine does not compare.
    EscapedName,
    /// Larger than an offset can express (4 GiB).
    TooLarge(usize),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protobuf => f.write_str(
                "the stored value is not JSON (Kubernetes protobuf envelope): store it as JSON \
                 (kube-apiserver --storage-media-type=application/json), or delete it",
            ),
            Self::Message(why) => {
                write!(f, "the stored value is protobuf that cannot be read ({why}): store it again, or delete it")
            }
            Self::Cbor => f.write_str(
                "the stored value is not JSON (CBOR): store it as JSON (kube-apiserver without its feature gate \
                 CBORServingAndStorage), or delete it",
            ),
            Self::Encrypted => f.write_str(
                "the stored value is not JSON (encrypted at rest, k8s:enc:): store it as JSON without \
                 encryption, or delete it",
            ),
            Self::OtherType { stored, expected } => write!(
                f,
                "the stored value is of type {stored}, this resource holds {expected}: store it as \
                 {expected}, or under a key of its own resource"
            ),
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
