//! The envelope around a message: `k8s\0` and `runtime.Unknown`.

use std::borrow::Cow;
use std::fmt;

use revcast_engine::codec::protobuf::Envelope;

use super::ProtobufError;
use super::from_json::{self, NotEncodable};
use super::text::push_text;
use super::to_json::{Strictness, Writer};
use super::types::Release;

/// The media type of protobuf bodies.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Why an object in JSON has no form in protobuf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// It is not an object in UTF-8.
    NoObject,
    /// There is no message for its type.
    UnknownType {
        /// Its `apiVersion`.
        api_version: String,
        /// Its `kind`.
        kind: String,
    },
    /// A value is not what the type has there.
    Value {
        /// The object's `apiVersion`.
        api_version: String,
        /// The object's `kind`.
        kind: String,
        /// The members that lead to the value.
        at: String,
        /// What is wrong with it.
        why: String,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoObject => f.write_str("the value is no object in UTF-8"),
            Self::UnknownType { api_version, kind } => {
                write!(f, "{api_version} {kind} has no form in protobuf")
            }
            Self::Value { api_version, kind, at, why } => {
                write!(f, "a stored {api_version} {kind} has no form in protobuf: {at}: {why}; ask for JSON")
            }
        }
    }
}

impl std::error::Error for EncodeError {}

/// An object in JSON, with `kind` and `apiVersion`, as protobuf in its envelope.
///
/// # Errors
/// Why it has no such form.
pub fn encode(release: Release, json: &[u8]) -> Result<Vec<u8>, EncodeError> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct TypeMeta<'j> {
        #[serde(borrow, default)]
        api_version: Cow<'j, str>,
        #[serde(borrow, default)]
        kind: Cow<'j, str>,
    }
    let TypeMeta { api_version, kind } = serde_json::from_slice(json).map_err(|_| EncodeError::NoObject)?;
    let json = std::str::from_utf8(json).map_err(|_| EncodeError::NoObject)?;
    let types = release.types();
    let Some(id) = types.kind(&api_version, &kind) else {
        return Err(EncodeError::UnknownType { api_version: api_version.into(), kind: kind.into() });
    };
    let mut message = Vec::with_capacity(json.len());
    from_json::push_message(&mut message, types, id, json).map_err(|NotEncodable { why, at }| {
        EncodeError::Value { api_version: api_version.clone().into(), kind: kind.clone().into(), at, why }
    })?;
    let mut object = Vec::with_capacity(message.len() + 64);
    Envelope::push(&mut object, (&api_version, &kind), message.len(), |out| out.extend_from_slice(&message));
    Ok(object)
}

/// An object in JSON, with `kind` and `apiVersion`, as Kubernetes writes it: members in the order of the type, those that are
/// never left out with their zero values.
///
/// # Errors
/// Why it is no object of its type.
pub fn canonical(release: Release, json: &[u8]) -> Result<Vec<u8>, String> {
    let object = encode(release, json).map_err(|error| error.to_string())?;
    decode(release, &object).map(|decoded| decoded.json).map_err(|error| error.to_string())
}

/// A Status in JSON as protobuf.
#[must_use]
pub fn of_status(json: &str) -> Vec<u8> {
    // Every Status has such a form, the same in every release.
    encode(Release::DEFAULT, json.as_bytes()).unwrap_or_default()
}

/// The content of a protobuf body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// `v1`, `apps/v1`.
    pub api_version: String,
    /// `ConfigMap`.
    pub kind: String,
    /// The object, with `kind` and `apiVersion`.
    pub json: Vec<u8>,
}

/// Reads a body of type [`MEDIA_TYPE`].
///
/// # Errors
/// When the bytes are malformed, or the type or one of the fields is unknown; see [`ProtobufError`].
pub fn decode(release: Release, body: &[u8]) -> Result<Decoded, ProtobufError> {
    let malformed = |why| ProtobufError::Malformed { why, at: String::new() };
    let Envelope { api_version, kind, message } = Envelope::read(body).map_err(malformed)?;
    let types = release.types();
    let Some(id) = types.kind(api_version, kind) else {
        return Err(ProtobufError::UnknownType {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        });
    };
    let mut json = Vec::with_capacity(message.len() + message.len() / 2 + 64);
    json.extend_from_slice(b"{\"kind\":");
    push_text(&mut json, kind.as_bytes());
    json.extend_from_slice(b",\"apiVersion\":");
    push_text(&mut json, api_version.as_bytes());
    Writer::new(&mut json, types, Strictness::Strict).members(message, id)?;
    json.push(b'}');
    Ok(Decoded { api_version: api_version.to_owned(), kind: kind.to_owned(), json })
}
