//! Reading the protobuf that typed Kubernetes clients post, as JSON.
//!
//! `kubectl create configmap` and other typed clients send `application/vnd.kubernetes.protobuf` and do not fall back
//! on 415: the four bytes `k8s\0`, then a `runtime.Unknown` with the object's type and its message
//! (`k8s.io/apimachinery` `runtime/generated.proto`). Known messages are const tables; one walk over a table turns any
//! of them into the JSON that Kubernetes' Go types would give.
//!
//! It is lossless or it refuses: an unknown field is an error, never dropped. It never panics on any bytes, and needs
//! stack for [`DEPTH_MAX`] levels and memory in proportion to the body.

// The tables have several fields per line.
#[rustfmt::skip]
mod core;
#[rustfmt::skip]
mod groups;
#[rustfmt::skip]
mod meta;
#[rustfmt::skip]
mod pod;

pub(in crate::api) mod describe;
mod envelope;
mod transcode;

use std::fmt;

pub use self::envelope::{Decoded, MEDIA_TYPE, decode};
use crate::http::go_quote;

/// The deepest nesting of messages. A test checks the tables.
pub const DEPTH_MAX: usize = 32;

/// One kind of message: its fields in the order of the Go type, which is the order in the JSON.
///
/// At most 64 fields: the set of sent fields is a bit mask.
#[derive(Debug)]
struct Message(&'static [Field]);

/// One field of a message.
#[derive(Debug)]
struct Field {
    number: u32,
    /// The member in JSON; "" if the message's members belong to the outer object.
    name: &'static str,
    shape: Shape,
    count: Count,
}

/// How a field appears in the JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    /// If it was sent: required, or a pointer in Go.
    One,
    /// If it is not zero: Go always sends such fields and writes them to JSON with `omitempty`.
    NotZero,
    /// An array.
    Many,
    /// An object with any keys.
    Map,
}

/// The type of a field.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Str,
    Bool,
    Int,
    /// Base64 in JSON.
    Bytes,
    Msg(&'static Message),
    /// RFC 3339 in seconds.
    Time,
    /// RFC 3339 in microseconds.
    MicroTime,
    /// A string in a message of its own.
    Quantity,
    /// A number or a string.
    IntOrString,
    /// Raw JSON (`FieldsV1`).
    RawJson,
}

const fn one(number: u32, name: &'static str, shape: Shape) -> Field {
    Field { number, name, shape, count: Count::One }
}

const fn zero(number: u32, name: &'static str, shape: Shape) -> Field {
    Field { number, name, shape, count: Count::NotZero }
}

const fn many(number: u32, name: &'static str, shape: Shape) -> Field {
    Field { number, name, shape, count: Count::Many }
}

const fn map(number: u32, name: &'static str, shape: Shape) -> Field {
    Field { number, name, shape, count: Count::Map }
}

const fn inline(number: u32, shape: Shape) -> Field {
    Field { number, name: "", shape, count: Count::One }
}

/// The message of a type, if it is known. Clients send DeleteOptions under the group that they delete from.
fn message(api_version: &str, kind: &str) -> Option<&'static Message> {
    Some(match (api_version, kind) {
        (_, "DeleteOptions") => &meta::DELETE_OPTIONS,
        ("v1", "ConfigMap") => &core::CONFIG_MAP,
        ("v1", "Event") => &core::EVENT,
        ("v1", "Namespace") => &core::NAMESPACE,
        ("v1", "Pod") => &pod::POD,
        ("v1", "ResourceQuota") => &core::RESOURCE_QUOTA,
        ("v1", "Secret") => &core::SECRET,
        ("v1", "Service") => &core::SERVICE,
        ("v1", "ServiceAccount") => &core::SERVICE_ACCOUNT,
        ("apps/v1", "Deployment") => &groups::DEPLOYMENT,
        ("batch/v1", "CronJob") => &groups::CRON_JOB,
        ("batch/v1", "Job") => &groups::JOB,
        ("coordination.k8s.io/v1", "Lease") => &groups::LEASE,
        ("networking.k8s.io/v1", "Ingress") => &groups::INGRESS,
        ("policy/v1", "PodDisruptionBudget") => &groups::POD_DISRUPTION_BUDGET,
        ("rbac.authorization.k8s.io/v1", "ClusterRole") => &groups::CLUSTER_ROLE,
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding") => &groups::CLUSTER_ROLE_BINDING,
        ("rbac.authorization.k8s.io/v1", "Role") => &groups::ROLE,
        ("rbac.authorization.k8s.io/v1", "RoleBinding") => &groups::ROLE_BINDING,
        ("scheduling.k8s.io/v1", "PriorityClass") => &groups::PRIORITY_CLASS,
        _ => return None,
    })
}

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
mod tests;
