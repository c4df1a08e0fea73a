//! The forms of objects besides JSON: Tables, and metadata only.
//!
//! Owns the numbers of the engine's encodings and the JSON around a Table's rows (recording 17).
//! [`api::table`] makes the rows. Each form costs one parse of the object per event, never per watcher.

use std::borrow::Cow;
use std::sync::Arc;

use revcast_engine::codec::protobuf;
use revcast_engine::encoding::{Encode, Encoding, Failure, View, json};
use revcast_engine::envelope;
use revcast_engine::framing::Framing;
use revcast_engine::key::ResourceId;
use serde::Deserialize;

use crate::api::resources::{ApiResource, Registry};
use crate::api::{self, table};
use crate::frontend::StreamFormat;
use crate::http::negotiation::{Form, MetaVersion};
use crate::http::options::IncludeObject;
use crate::wire::http1::{CHUNKED, PREFIXED};

/// Tables of v1, by `includeObject`.
const TABLE_V1: u32 = 0;
/// Tables of v1beta1, by `includeObject`.
const TABLE_V1BETA1: u32 = 3;
/// `PartialObjectMetadata` of v1.
const METADATA_V1: u32 = 6;
/// `PartialObjectMetadata` of v1beta1.
const METADATA_V1BETA1: u32 = 7;
/// `PartialObjectMetadata` of v1 in protobuf.
const PROTOBUF_METADATA_V1: u32 = 8;
/// `PartialObjectMetadata` of v1beta1 in protobuf.
const PROTOBUF_METADATA_V1BETA1: u32 = 9;

/// The form of the objects in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// As stored.
    Object,
    /// As rows.
    Table(MetaVersion, IncludeObject),
    /// Their metadata.
    Metadata(MetaVersion),
}

impl Shape {
    /// The negotiated form; `include` is only used by a Table.
    pub(super) const fn new(form: Form, include: IncludeObject) -> Self {
        match form {
            Form::Object => Self::Object,
            Form::Table(version) => Self::Table(version, include),
            Form::Metadata(version) | Form::MetadataList(version) => Self::Metadata(version),
        }
    }

    /// The engine's encoding for it.
    pub(super) const fn encoding(self, format: StreamFormat) -> Encoding {
        match (self, format) {
            (Self::Object, StreamFormat::Protobuf) => return Encoding::Protobuf,
            (Self::Metadata(MetaVersion::V1), StreamFormat::Protobuf) => {
                return Encoding::Other(PROTOBUF_METADATA_V1);
            }
            (Self::Metadata(MetaVersion::V1beta1), StreamFormat::Protobuf) => {
                return Encoding::Other(PROTOBUF_METADATA_V1BETA1);
            }
            // There are no Tables in protobuf: none is agreed on.
            (Self::Table(..), StreamFormat::Protobuf) | (_, StreamFormat::Json) => {}
        }
        match self {
            Self::Object => Encoding::Json,
            Self::Table(version, include) => {
                let base = match version {
                    MetaVersion::V1 => TABLE_V1,
                    MetaVersion::V1beta1 => TABLE_V1BETA1,
                };
                Encoding::Other(
                    base + match include {
                        IncludeObject::None => 0,
                        IncludeObject::Metadata => 1,
                        IncludeObject::Object => 2,
                    },
                )
            }
            Self::Metadata(MetaVersion::V1) => Encoding::Other(METADATA_V1),
            Self::Metadata(MetaVersion::V1beta1) => Encoding::Other(METADATA_V1BETA1),
        }
    }

    const fn of_number(encoding: u32) -> Self {
        let (version, base) = match encoding {
            METADATA_V1 | PROTOBUF_METADATA_V1 => return Self::Metadata(MetaVersion::V1),
            METADATA_V1BETA1 | PROTOBUF_METADATA_V1BETA1.. => return Self::Metadata(MetaVersion::V1beta1),
            TABLE_V1BETA1..METADATA_V1 => (MetaVersion::V1beta1, TABLE_V1BETA1),
            TABLE_V1..TABLE_V1BETA1 => (MetaVersion::V1, TABLE_V1),
        };
        let include = match encoding - base {
            0 => IncludeObject::None,
            1 => IncludeObject::Metadata,
            _ => IncludeObject::Object,
        };
        Self::Table(version, include)
    }

    /// Appends one object on its own: a reply, or the object of an event. `with_columns` is for Tables.
    pub(super) fn append(
        self,
        out: &mut Vec<u8>,
        resource: &ApiResource,
        json: &[u8],
        now: i64,
        with_columns: bool,
    ) {
        let start = out.len();
        let appended = match self {
            Self::Object => {
                out.extend_from_slice(json);
                Ok(())
            }
            Self::Metadata(version) => table::append_partial_metadata(out, json, version),
            Self::Table(version, include) => {
                open_table(out, version);
                if let Some(version) = resource_version(json) {
                    out.extend_from_slice(b"\"resourceVersion\":\"");
                    out.extend_from_slice(version.as_bytes());
                    out.push(b'"');
                }
                out.extend_from_slice(b"},");
                open_rows(out, resource, with_columns);
                let row = table::append_row(out, resource, json, include, version, now);
                out.extend_from_slice(b"]}");
                row
            }
        };
        if appended.is_err() {
            // What the engine keeps is always an object; anything else is shown unchanged.
            out.truncate(start);
            out.extend_from_slice(json);
        }
    }
}

/// Whether messages in an encoding are protobuf.
const fn is_protobuf(encoding: Encoding) -> bool {
    match encoding {
        Encoding::Protobuf => true,
        Encoding::Json => false,
        Encoding::Other(number) => number >= PROTOBUF_METADATA_V1,
    }
}

/// Appends a Table up to the brace of its metadata.
pub(super) fn open_table(out: &mut Vec<u8>, version: MetaVersion) {
    out.extend_from_slice(b"{\"kind\":\"Table\",\"apiVersion\":\"");
    out.extend_from_slice(version.api_version().as_bytes());
    out.extend_from_slice(b"\",\"metadata\":{");
}

/// Appends `columnDefinitions` and the bracket of the rows.
pub(super) fn open_rows(out: &mut Vec<u8>, resource: &ApiResource, with_columns: bool) {
    out.extend_from_slice(b"\"columnDefinitions\":");
    if with_columns {
        table::append_column_definitions(out, resource);
    } else {
        out.extend_from_slice(b"null");
    }
    out.extend_from_slice(b",\"rows\":[");
}

/// `metadata.resourceVersion`, which the engine wrote: digits.
fn resource_version(json: &[u8]) -> Option<&str> {
    #[derive(Deserialize)]
    struct Top<'a> {
        #[serde(borrow)]
        metadata: Metadata<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata<'a> {
        resource_version: Option<&'a str>,
    }
    serde_json::from_slice::<Top<'_>>(json).ok().and_then(|top| top.metadata.resource_version)
}

/// The engine's access to the forms.
#[derive(Debug)]
pub struct Encoder {
    registry: Arc<Registry>,
}

impl Encoder {
    /// An encoder for the resources of `registry`, whose schema the engine has.
    #[must_use]
    pub const fn new(registry: Arc<Registry>) -> Self {
        Self { registry }
    }

    fn protobuf(&self, json: &[u8]) -> Result<Vec<u8>, String> {
        api::protobuf::encode(self.registry.release(), json).map_err(|error| error.to_string())
    }
}

impl Encode for Encoder {
    fn framing(&self, encoding: Encoding) -> &'static Framing {
        if is_protobuf(encoding) { &PREFIXED } else { &CHUNKED }
    }

    fn event(&self, out: &mut Vec<u8>, view: View<'_>) -> Result<(), String> {
        let View { encoding, first, event } = view;
        // Opaque values have no form here: the engine refuses a watch of them at its start.
        let object = event.json().unwrap_or(Cow::Borrowed(b"null"));
        if is_protobuf(Encoding::Other(encoding)) {
            let mut metadata = Vec::new();
            if let Shape::Metadata(version) = Shape::of_number(encoding) {
                table::append_partial_metadata(&mut metadata, &object, version)
                    .map_err(|_| "a stored value has no metadata".to_owned())?;
            }
            protobuf::push_event(out, event.kind, &self.protobuf(&metadata)?);
            return Ok(());
        }
        envelope::event(out, event.kind, |out| {
            match event.resource().and_then(|row| self.registry.get(row)) {
                None => out.extend_from_slice(&object),
                Some(resource) => {
                    let now = i64::try_from(event.as_of_seconds).unwrap_or(i64::MAX);
                    Shape::of_number(encoding).append(out, resource, &object, now, first);
                }
            }
        });
        Ok(())
    }

    fn protobuf(&self, out: &mut Vec<u8>, _: ResourceId, json: &[u8]) -> Result<(), String> {
        out.extend_from_slice(&self.protobuf(json)?);
        Ok(())
    }

    fn failure(&self, out: &mut Vec<u8>, encoding: Encoding, failure: &Failure<'_>) {
        let status = json::status(failure);
        if is_protobuf(encoding) {
            protobuf::push_error(out, &api::protobuf::of_status(&String::from_utf8_lossy(&status)));
        } else {
            envelope::error(out, &status);
        }
    }

    fn has_heartbeats(&self, encoding: Encoding) -> bool {
        // Every byte of a stream in protobuf is a part of a message.
        !is_protobuf(encoding)
    }

    fn first_differs(&self, encoding: u32) -> bool {
        encoding < METADATA_V1
    }
}
