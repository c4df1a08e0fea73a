//! The envelope around a message: `k8s\0` and `runtime.Unknown`.

use std::borrow::Cow;

use revcast_engine::codec::protobuf::Envelope;

use super::ProtobufError;
use super::from_json::{self, NotEncodable};
use super::text::push_text;
use super::to_json::{Reading, Writer};
use super::types::{DEFAULT_RELEASE, Types};

/// The media type of protobuf bodies.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// An object in JSON, with `kind` and `apiVersion`, as protobuf in its envelope.
///
/// # Errors
/// Why it has no such form, for the client.
pub fn encode(json: &[u8]) -> Result<Vec<u8>, String> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct TypeMeta<'j> {
        #[serde(borrow, default)]
        api_version: Cow<'j, str>,
        #[serde(borrow, default)]
        kind: Cow<'j, str>,
    }
    let no_object = |_| "the value is no object".to_owned();
    let TypeMeta { api_version, kind } = serde_json::from_slice(json).map_err(no_object)?;
    let json = std::str::from_utf8(json).map_err(|_| "the value is not UTF-8".to_owned())?;
    let types = Types::of(DEFAULT_RELEASE);
    let known = types.and_then(|types| Some((types, types.kind(&api_version, &kind)?)));
    let (types, id) = known.ok_or_else(|| format!("{api_version} {kind} has no form in protobuf"))?;
    let mut message = Vec::with_capacity(json.len());
    from_json::push_message(&mut message, types, id, json).map_err(|NotEncodable { why, at }| {
        format!("a stored {api_version} {kind} has no form in protobuf: {at}: {why}; ask for JSON")
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
pub fn canonical(json: &[u8]) -> Result<Vec<u8>, String> {
    let object = encode(json)?;
    decode(&object).map(|decoded| decoded.json).map_err(|error| error.to_string())
}

/// A Status in JSON as protobuf.
#[must_use]
pub fn of_status(json: &str) -> Vec<u8> {
    // Every Status has such a form.
    encode(json.as_bytes()).unwrap_or_default()
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
pub fn decode(body: &[u8]) -> Result<Decoded, ProtobufError> {
    let malformed = |why| ProtobufError::Malformed { why, at: String::new() };
    let Envelope { api_version, kind, message } = Envelope::read(body).map_err(malformed)?;
    let types = Types::of(DEFAULT_RELEASE);
    let Some((types, id)) = types.and_then(|types| Some((types, types.kind(api_version, kind)?))) else {
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
    Writer::new(&mut json, types, Reading::Strict).members(message, id)?;
    json.push(b'}');
    Ok(Decoded { api_version: api_version.to_owned(), kind: kind.to_owned(), json })
}
