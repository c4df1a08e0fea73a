//! The encodings of the simulation: two forms around the object, one of which has a different first message.

use std::io::Write as _;

use revcast_engine::codec::{Value, protobuf};
use revcast_engine::encoding::{Encode, Encoding, Failure, Subject, View, json};
use revcast_engine::envelope;
use revcast_engine::framing::Framing;
use revcast_engine::key::ResourceId;
use revcast_engine::resource::{Codec, Resource};

use super::object::{KINDS, hex};
use super::packed;
use super::wire::Wire;

/// An encoding with a different first message, as a Table has.
pub(crate) const ROWS: Encoding = Encoding::Other(0);
/// One whose messages are all alike, and whose errors are wrapped as well; with the highest number.
pub(crate) const WRAPPED: Encoding = Encoding::Other(WRAPPED_NUMBER);
const WRAPPED_NUMBER: u32 = u32::MAX;

/// All encodings, for counting; the index is [`number`].
pub(crate) const ENCODINGS: [Encoding; 4] = [Encoding::Json, ROWS, WRAPPED, Encoding::Protobuf];

pub(crate) fn number(encoding: Encoding) -> usize {
    ENCODINGS.iter().position(|known| *known == encoding).expect("one of four")
}

/// Whether the first message in this encoding is different.
pub(crate) fn first_differs(encoding: Encoding) -> bool {
    encoding == ROWS
}

/// What stands for the row of a bookmark whose scope covers no resource.
const NO_ROW: usize = 99;

/// Wraps every object in what there is to know of the message, so that a wrong one shows.
#[derive(Debug)]
pub(crate) struct Wrapper;

impl Encode for Wrapper {
    fn framing(&self, encoding: Encoding) -> &'static Framing {
        match encoding {
            Encoding::Protobuf => Wire::Prefixed.framing(),
            Encoding::Json | Encoding::Other(_) => Wire::Chunked.framing(),
        }
    }

    fn event(&self, out: &mut Vec<u8>, view: View<'_>) -> Result<(), String> {
        let View { encoding, first, event } = view;
        let row = event.resource().map_or(NO_ROW, ResourceId::row);
        envelope::event(out, event.kind, |out| {
            // Writing to a Vec cannot fail.
            let _ = write!(
                out,
                "{{\"as\":{encoding},\"first\":{first},\"row\":{row},\"at\":{},\"object\":",
                event.as_of_seconds
            );
            match event.subject {
                Subject::Object { value: Value::Opaque(bytes), .. } => out.extend_from_slice(&hex(bytes)),
                Subject::Object { .. } | Subject::Bookmark { .. } => {
                    out.extend_from_slice(&event.json().expect("it is JSON"));
                }
            }
            out.push(b'}');
        });
        Ok(())
    }

    fn failure(&self, out: &mut Vec<u8>, encoding: Encoding, failure: &Failure<'_>) {
        let status = json::status(failure);
        match encoding {
            Encoding::Protobuf => protobuf::push_error(out, &packed::of_json(("v1", "Status"), &status)),
            WRAPPED => envelope::error(out, &[WRAPPED_STATUS, &status, b"}"].concat()),
            Encoding::Json | Encoding::Other(_) => envelope::error(out, &status),
        }
    }

    fn protobuf(&self, out: &mut Vec<u8>, resource: ResourceId, json: &[u8]) -> Result<(), String> {
        let kind = &KINDS[resource.row()];
        out.extend_from_slice(&packed::of_json((kind.version, kind.name), json));
        Ok(())
    }

    fn shows(&self, encoding: u32, resource: &Resource) -> bool {
        resource.codec == Codec::Kubernetes || encoding == WRAPPED_NUMBER
    }

    fn first_differs(&self, encoding: u32) -> bool {
        encoding == 0
    }
}

/// The text before the Status of a wrapped error.
const WRAPPED_STATUS: &[u8] = b"{\"as\":4294967295,\"status\":";

/// The Status in an error of this encoding, if it is one.
pub(crate) fn status_within(encoding: Encoding, object: &[u8]) -> Option<&[u8]> {
    if encoding == WRAPPED { object.strip_prefix(WRAPPED_STATUS)?.strip_suffix(b"}") } else { Some(object) }
}

/// What must stand as `object` in a watch event.
pub(crate) fn shown(encoding: Encoding, first: bool, kind: Option<usize>, at: u64, object: &[u8]) -> Vec<u8> {
    match encoding {
        // A message in protobuf is read as the line that it stands for.
        Encoding::Json | Encoding::Protobuf => object.to_vec(),
        Encoding::Other(number) => {
            let (first, kind) = (first && number == 0, kind.unwrap_or(NO_ROW));
            let head = format!("{{\"as\":{number},\"first\":{first},\"row\":{kind},\"at\":{at},\"object\":");
            [head.as_bytes(), object, b"}"].concat()
        }
    }
}
