//! The body of a write: from bytes and a media type to JSON.
//!
//! Owns which media types a body may have: JSON, YAML (only as `application/yaml`, like kube-apiserver) and, for some kinds,
//! protobuf. It never interprets the object.

use bytes::Bytes;
use revcast_engine::codec::protobuf::PREFIX;
use serde_json::{Map, Value};

use super::Call;
use crate::api::{protobuf, yaml};
use crate::frontend::Host;
use crate::http::status::Status;
use crate::http::{go_quote, shown};

/// The media types that an object may be sent in.
const ACCEPTED: [&str; 3] = ["application/json", yaml::MEDIA_TYPE, protobuf::MEDIA_TYPE];

/// The media type without its parameters, in lower case; "" if there is none.
pub(super) fn media_type(content_type: Option<&str>) -> String {
    let media = content_type.unwrap_or_default();
    media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Refuses a body with a `Content-Encoding`, which is not decoded here.
pub(super) fn check_coding<H: Host>(call: &Call<'_, H>) -> Result<(), Status> {
    match call.head.content_encoding.as_deref() {
        None | Some("" | "identity") => Ok(()),
        Some(coding) => Err(Status::other(
            415,
            format!(
                "the body of the request is in the coding {}, which is not read here: send it as it is",
                go_quote(coding)
            ),
        )),
    }
}

/// The body as JSON text. An empty body stays empty.
pub(super) fn json<H: Host>(call: &Call<'_, H>, body: &Bytes) -> Result<Bytes, Status> {
    check_coding(call)?;
    match media_type(call.head.content_type.as_deref()).as_str() {
        "" | "application/json" | "*/*" => Ok(body.clone()),
        _ if body.is_empty() => Ok(Bytes::new()),
        yaml::MEDIA_TYPE => {
            let value = from_yaml(call, body)?;
            // A body of comments only is empty.
            Ok(if value.is_null() { Bytes::new() } else { value.to_string().into() })
        }
        protobuf::MEDIA_TYPE => match protobuf::decode(call.catalog.registry.release(), body) {
            Ok(decoded) => Ok(decoded.json.into()),
            Err(_) if !body.starts_with(PREFIX) => {
                let why =
                    "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
                Err(unreadable(call, &format!("{why} ({})", summary(body))))
            }
            Err(error) if error.code() == 400 => Err(Status::bad_request(error.to_string())),
            Err(error) => Err(Status::other(error.code(), error.to_string())),
        },
        _ => Err(Status::unsupported_media_type(&ACCEPTED)),
    }
}

/// The beginning of a body in an error, in hex (apiserver `handlers/create.go`; recording 31).
fn summary(body: &[u8]) -> String {
    const SHOWN_MAX: usize = 30;
    let shown: String = body.iter().take(SHOWN_MAX).map(|byte| format!("{byte:02x}")).collect();
    if body.len() > SHOWN_MAX { shown + " ..." } else { shown }
}

/// A YAML body as JSON.
///
/// # Errors
/// 400 with the place of the fault.
fn from_yaml<H: Host>(call: &Call<'_, H>, body: &Bytes) -> Result<Value, Status> {
    yaml::to_json(body).map_err(|error| unreadable(call, &error.to_string()))
}

/// Values of one body: each takes some seventy bytes of memory while it is processed, several times.
pub(super) const VALUES_MAX: usize = 500_000;
/// The charge of a value: some 70 to 140 bytes, in each of the states that a write holds at the same time (sent, stored,
/// merged).
const VALUE_BYTES: usize = 400;

/// Refuses JSON with more values than objects may have, before it is parsed: `[0,0,0,...]` grows fortyfold. Accepted values are
/// charged.
///
/// # Errors
/// 413, or 429 when too much is in use.
pub(super) fn check_values<H: Host>(call: &Call<'_, H>, json: &[u8]) -> Result<(), Status> {
    let values = values(json);
    if values <= VALUES_MAX {
        return call.budget.charge(values * VALUE_BYTES);
    }
    let why = format!(
        "the body has more than {VALUES_MAX} values: put data of that size into fewer, longer strings"
    );
    Err(Status::other(413, why))
}

/// Charges what a stored object takes while it is changed.
///
/// # Errors
/// 429: too much is in use.
pub(super) fn charge_stored<H: Host>(call: &Call<'_, H>, json: &[u8]) -> Result<(), Status> {
    call.budget.charge(values(json) * VALUE_BYTES)
}

/// An upper bound of the number of values in JSON.
fn values(json: &[u8]) -> usize {
    let (mut values, mut in_string, mut escaped) = (1_usize, false, false);
    for &byte in json {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = byte == b'\\' && !escaped;
        } else {
            in_string = byte == b'"';
            values += usize::from(matches!(byte, b',' | b'[' | b'{'));
        }
    }
    values
}

/// The body of a POST or PUT as JSON, which has no more values than it may have: for [`members`].
pub(super) fn object<H: Host>(call: &Call<'_, H>, body: &Bytes) -> Result<Bytes, Status> {
    let json = json(call, body)?;
    if json.is_empty() {
        let why = format!("the request has no body: send the {} as JSON or YAML", call.resource.kind);
        return Err(Status::bad_request(why));
    }
    check_values(call, &json)?;
    Ok(json)
}

/// The members of the object in a body.
pub(super) fn members<H: Host>(call: &Call<'_, H>, json: &[u8]) -> Result<Map<String, Value>, Status> {
    match serde_json::from_slice(json) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(unreadable(call, "it is not a JSON object")),
        Err(error) => Err(unreadable(call, &error.to_string())),
    }
}

/// 400: the body is not what it should be.
pub(super) fn unreadable<H: Host>(call: &Call<'_, H>, why: &str) -> Status {
    let kind = &call.resource.kind;
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {}",
        shown(why)
    ))
}
