//! The envelope around a message: `k8s\0` and `runtime.Unknown`.

use super::ProtobufError;
use super::text::push_text;
use super::to_json::Writer;
use super::types::{DEFAULT_RELEASE, Types};
use super::wire::{Reader, Wire};

/// The media type of protobuf bodies.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

const MAGIC: &[u8; 4] = b"k8s\0";

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
    let Some(unknown) = body.strip_prefix(MAGIC) else {
        return Err(malformed("it does not begin with the four bytes of Kubernetes' protobuf"));
    };
    let (mut api_version, mut kind, mut raw) = ("", "", &[][..]);
    let mut reader = Reader::new(unknown);
    while let Some((number, wire)) = reader.next().map_err(malformed)? {
        let Wire::Bytes(bytes) = wire else {
            return Err(malformed("its envelope has a field of a wrong type"));
        };
        match number {
            1 => (api_version, kind) = type_meta(bytes).map_err(malformed)?,
            2 => raw = bytes,
            // With an encoding or another content type, `raw` would not be a message.
            3 | 4 if bytes.is_empty() => {}
            3 | 4 => return Err(malformed("its envelope holds something else than plain protobuf")),
            _ => return Err(malformed("its envelope has a field that is not known")),
        }
    }
    let types = Types::of(DEFAULT_RELEASE);
    let Some((types, id)) = types.and_then(|types| Some((types, types.kind(api_version, kind)?))) else {
        return Err(ProtobufError::UnknownType {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        });
    };
    let mut json = Vec::with_capacity(raw.len() + raw.len() / 2 + 64);
    json.extend_from_slice(b"{\"kind\":");
    push_text(&mut json, kind.as_bytes());
    json.extend_from_slice(b",\"apiVersion\":");
    push_text(&mut json, api_version.as_bytes());
    Writer::new(&mut json, types).members(raw, id)?;
    json.push(b'}');
    Ok(Decoded { api_version: api_version.to_owned(), kind: kind.to_owned(), json })
}

fn type_meta(bytes: &[u8]) -> Result<(&str, &str), &'static str> {
    let (mut api_version, mut kind) = ("", "");
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        let Wire::Bytes(bytes) = wire else { return Err("its type is not text") };
        let text = std::str::from_utf8(bytes).map_err(|_| "its type is not UTF-8")?;
        match number {
            1 => api_version = text,
            2 => kind = text,
            _ => return Err("its type has a field that is not known"),
        }
    }
    Ok((api_version, kind))
}
