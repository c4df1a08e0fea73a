//! The protobuf of Kubernetes' objects: what typed clients post and what is stored, read as JSON, and written from it.
//!
//! `kubectl create configmap` and other typed clients send `application/vnd.kubernetes.protobuf` and do not fall back
//! on 415: the four bytes `k8s\0`, then a `runtime.Unknown` with the object's type and its message
//! (`k8s.io/apimachinery` `runtime/generated.proto`). The types are in a generated table; one walk over it turns any message
//! into the JSON that Kubernetes' Go types give.
//!
//! What clients send is read without loss or refused: an unknown field is an error, never dropped. In a stored value it is skipped, as
//! kube-apiserver does. It never panics on any bytes, and needs
//! stack for [`DEPTH_MAX`] levels and memory in proportion to the body.

mod completed;
pub(in crate::api) mod describe;
mod envelope;
mod from_json;
mod groups;
pub(in crate::api) mod quantity;
mod same;
mod sink;
mod stored;
mod text;
mod to_json;
mod types;
mod unknown;

use std::fmt;

pub use self::envelope::{Decoded, EncodeError, MEDIA_TYPE, canonical, decode, encode, of_status};
pub use self::same::{has_type, is_same};
pub use self::stored::StoredType;
pub use self::types::Release;
pub use self::unknown::unknown_members;
use crate::http::go_quote;

/// The deepest nesting of messages. A test checks the tables; only schemas of custom resources contain themselves, and JSON of 127
/// levels has fewer of them, one within the properties of another.
pub const DEPTH_MAX: usize = 64;

/// Why a protobuf body is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtobufError {
    /// The bytes are malformed: the client's fault, 400.
    Malformed {
        /// The error.
        why: &'static str,
        /// The member that was read.
        at: String,
    },
    /// No table for the type: 415.
    UnknownType {
        /// As in the envelope.
        api_version: String,
        /// As in the envelope.
        kind: String,
    },
    /// A field that the table of its message does not know: 415, because dropping it would lose data.
    UnknownField {
        /// The message that has it.
        at: String,
        /// The field's number.
        number: u32,
    },
}

impl ProtobufError {
    /// The same, of what is inside of this member; empty: its members stand in the outer object.
    fn within(mut self, member: &str) -> Self {
        if let Self::Malformed { at, .. } | Self::UnknownField { at, .. } = &mut self
            && !member.is_empty()
        {
            *at = if at.is_empty() { member.to_owned() } else { format!("{member}.{at}") };
        }
        self
    }

    /// The status code of the reply.
    #[must_use]
    pub const fn code(&self) -> u16 {
        match self {
            Self::Malformed { .. } => 400,
            Self::UnknownType { .. } | Self::UnknownField { .. } => 415,
        }
    }
}

impl fmt::Display for ProtobufError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MEND: &str = "send JSON instead, for example with `kubectl create -f`";
        match self {
            Self::Malformed { why, at } if at.is_empty() => {
                write!(f, "the protobuf body is malformed: {why}")
            }
            Self::Malformed { why, at } => write!(f, "the protobuf body is malformed at {at}: {why}"),
            Self::UnknownType { api_version, kind } => {
                write!(
                    f,
                    "objects of type {} {} are not read from protobuf: {MEND}",
                    go_quote(api_version),
                    go_quote(kind)
                )
            }
            Self::UnknownField { at, number } => {
                let at = if at.is_empty() { "the object" } else { at };
                write!(f, "field {number} of {at} is not known here and would be lost: {MEND}")
            }
        }
    }
}

impl std::error::Error for ProtobufError {}

#[cfg(test)]
pub(in crate::api) mod recorded;
#[cfg(test)]
mod releases;
#[cfg(test)]
mod tests;
