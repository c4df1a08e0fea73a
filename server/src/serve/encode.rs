//! The forms of objects besides the JSON and the protobuf of the version that they are kept in: other versions, Tables, and
//! metadata only.
//!
//! Owns the numbers of the engine's encodings and the JSON around a Table's rows (recording 17).
//! [`api::table`] makes the rows, [`api::versions`] the other versions. Each form costs one parse of the object per event,
//! never per watcher.

use std::borrow::Cow;
use std::sync::Arc;

use revcast_engine::codec::{Value, protobuf};
use revcast_engine::encoding::{Encode, Encoding, Failure, Shown, Subject, View, json};
use revcast_engine::envelope;
use revcast_engine::framing::Framing;
use revcast_engine::key::ResourceId;
use revcast_engine::message::MessageKind;
use serde::Deserialize;

use crate::api::protobuf::Release;
use crate::api::resources::{ApiResource, ViewId};
use crate::api::versions::{self, Conversion};
use crate::api::{self, table};
use crate::catalog::{Catalog, Catalogs};
use crate::frontend::StreamFormat;
use crate::http::negotiation::{Form, MetaVersion};
use crate::http::options::IncludeObject;
use crate::wire::http1::{CHUNKED, PREFIXED};

/// Forms of a version: the number of an encoding is the version's index times this, and the number of the form.
const FORMS: u32 = 16;
/// Tables of v1, by `includeObject`.
const TABLE_V1: u32 = 0;
/// Tables of v1beta1, by `includeObject`.
const TABLE_V1BETA1: u32 = 3;
/// `PartialObjectMetadata` of v1.
const METADATA_V1: u32 = 6;
/// `PartialObjectMetadata` of v1beta1.
const METADATA_V1BETA1: u32 = 7;
/// The object.
const OBJECT: u32 = 8;
/// The object in protobuf.
const PROTOBUF_OBJECT: u32 = 9;
/// `PartialObjectMetadata` of v1 in protobuf.
const PROTOBUF_METADATA_V1: u32 = 10;
/// `PartialObjectMetadata` of v1beta1 in protobuf.
const PROTOBUF_METADATA_V1BETA1: u32 = 11;

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

    /// The engine's encoding for it, of the objects of a resource.
    pub(super) fn encoding(self, format: StreamFormat, resource: &ApiResource) -> Encoding {
        let form = match (self, format) {
            (Self::Object, format) if matches!(resource.conversion, Conversion::Kept) => {
                return match format {
                    StreamFormat::Json => Encoding::Json,
                    StreamFormat::Protobuf => Encoding::Protobuf,
                };
            }
            (Self::Object, StreamFormat::Json) => OBJECT,
            (Self::Object, StreamFormat::Protobuf) => PROTOBUF_OBJECT,
            // All versions have the same metadata.
            (Self::Metadata(version), format) => return Encoding::Other(metadata_form(version, format)),
            // There are no Tables in protobuf: none is agreed on.
            (Self::Table(version, include), _) => {
                let base = match version {
                    MetaVersion::V1 => TABLE_V1,
                    MetaVersion::V1beta1 => TABLE_V1BETA1,
                };
                base + match include {
                    IncludeObject::None => 0,
                    IncludeObject::Metadata => 1,
                    IncludeObject::Object => 2,
                }
            }
        };
        Encoding::Other(u32::from(resource.view.index()) * FORMS + form)
    }

    /// The version that the number of an encoding names, and whether it is shown as a Table; `None`: metadata, which is the same
    /// in all.
    pub(super) fn view_of(encoding: u32) -> Option<(ViewId, bool)> {
        let view = u16::try_from(encoding / FORMS).ok().map(ViewId::new)?;
        match Self::of_number(encoding) {
            Self::Metadata(_) => None,
            Self::Object => Some((view, false)),
            Self::Table(..) => Some((view, true)),
        }
    }

    const fn of_number(encoding: u32) -> Self {
        let form = encoding % FORMS;
        let (version, base) = match form {
            OBJECT | PROTOBUF_OBJECT => return Self::Object,
            METADATA_V1 | PROTOBUF_METADATA_V1 => return Self::Metadata(MetaVersion::V1),
            METADATA_V1BETA1 | PROTOBUF_METADATA_V1BETA1.. => return Self::Metadata(MetaVersion::V1beta1),
            TABLE_V1BETA1..METADATA_V1 => (MetaVersion::V1beta1, TABLE_V1BETA1),
            TABLE_V1..TABLE_V1BETA1 => (MetaVersion::V1, TABLE_V1),
        };
        let include = match form - base {
            0 => IncludeObject::None,
            1 => IncludeObject::Metadata,
            _ => IncludeObject::Object,
        };
        Self::Table(version, include)
    }

    /// Appends one object on its own, as it is kept: a reply, or the object of an event. `with_columns` is for Tables.
    ///
    /// # Errors
    /// Why the version of the resource cannot show it.
    pub(super) fn append(
        self,
        out: &mut Vec<u8>,
        resource: &ApiResource,
        json: &[u8],
        now: i64,
        with_columns: bool,
    ) -> Result<(), String> {
        let start = out.len();
        match self {
            Self::Table(version, _) => {
                open_table(out, version);
                if let Some(version) = resource_version(json) {
                    out.extend_from_slice(b"\"resourceVersion\":\"");
                    out.extend_from_slice(version.as_bytes());
                    out.push(b'"');
                }
                out.extend_from_slice(b"},");
                open_rows(out, resource, with_columns);
                let rows = out.len();
                self.append_item(out, resource, json, now)?;
                if out[rows..] == *json {
                    // What the engine keeps is always an object; anything else is shown unchanged.
                    out.drain(start..rows);
                } else {
                    out.extend_from_slice(b"]}");
                }
                Ok(())
            }
            Self::Object | Self::Metadata(_) => self.append_item(out, resource, json, now),
        }
    }

    /// Appends one object among others, as it is kept: a row of a Table, or an item of a list.
    ///
    /// # Errors
    /// Why the version of the resource cannot show it.
    pub(super) fn append_item(
        self,
        out: &mut Vec<u8>,
        resource: &ApiResource,
        json: &[u8],
        now: i64,
    ) -> Result<(), String> {
        self.append_row(out, resource, json, json, now)
    }

    /// The same; a row has the cells of `printed`, which may be another object.
    ///
    /// # Errors
    /// Why the version of the resource cannot show it.
    pub(super) fn append_row(
        self,
        out: &mut Vec<u8>,
        resource: &ApiResource,
        printed: &[u8],
        json: &[u8],
        now: i64,
    ) -> Result<(), String> {
        let start = out.len();
        let row = |out: &mut Vec<u8>, include, version| {
            table::append_row_of(out, resource, printed, json, include, version, now)
        };
        let appended = match self {
            Self::Object => {
                out.extend_from_slice(&resource.show(Cow::Borrowed(json))?);
                return Ok(());
            }
            Self::Metadata(version) => table::append_partial_metadata(out, json, version),
            Self::Table(version, IncludeObject::Object) => {
                // The cells are of the object as it is kept, whichever version is asked for.
                let shown = resource.show(Cow::Borrowed(json))?;
                let row = row(out, IncludeObject::None, version);
                if row.is_ok() && out.ends_with(b"null}") {
                    out.truncate(out.len() - b"null}".len());
                    out.extend_from_slice(shown.trim_ascii());
                    out.push(b'}');
                }
                row
            }
            Self::Table(version, include) => row(out, include, version),
        };
        if appended.is_err() {
            // What the engine keeps is always an object; anything else is shown unchanged.
            out.truncate(start);
            out.extend_from_slice(json);
        }
        Ok(())
    }
}

/// Metadata is the same for all versions of all resources: its numbers name none.
const fn metadata_form(version: MetaVersion, format: StreamFormat) -> u32 {
    match (version, format) {
        (MetaVersion::V1, StreamFormat::Json) => METADATA_V1,
        (MetaVersion::V1beta1, StreamFormat::Json) => METADATA_V1BETA1,
        (MetaVersion::V1, StreamFormat::Protobuf) => PROTOBUF_METADATA_V1,
        (MetaVersion::V1beta1, StreamFormat::Protobuf) => PROTOBUF_METADATA_V1BETA1,
    }
}

/// Whether messages in an encoding are protobuf.
const fn is_protobuf(encoding: Encoding) -> bool {
    match encoding {
        Encoding::Protobuf => true,
        Encoding::Json => false,
        Encoding::Other(number) => number % FORMS >= PROTOBUF_OBJECT,
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
    catalogs: Arc<Catalogs>,
}

impl Encoder {
    /// An encoder for the resources of `catalogs`, whose schema the engine has.
    #[must_use]
    pub const fn new(catalogs: Arc<Catalogs>) -> Self {
        Self { catalogs }
    }

    /// The version that an encoding shows; `None` where an event is about no resource. Numbers of metadata name the first version,
    /// whose metadata is that of all.
    fn resource<'c>(catalog: &'c Catalog, encoding: u32, event: &Shown<'_>) -> Option<&'c ApiResource> {
        let index = u16::try_from(encoding / FORMS).ok()?;
        let view = catalog.registry.view(ViewId::new(index))?;
        event.resource().map(|_| view)
    }
}

const fn is_bookmark(event: &Shown<'_>) -> bool {
    matches!(event.subject, Subject::Bookmark { .. })
}

/// A bookmark is an empty object: it has the same members in all versions.
fn bookmark<'k>(resource: &ApiResource, kept: Cow<'k, [u8]>) -> Cow<'k, [u8]> {
    versions::renamed(resource.shown_type(), kept)
}

/// An event's object in protobuf, in its envelope.
fn packed(
    release: Release,
    shape: Shape,
    resource: Option<&ApiResource>,
    event: &Shown<'_>,
) -> Result<Vec<u8>, String> {
    let json = || event.json().unwrap_or(Cow::Borrowed(b"null"));
    let resource = match (shape, resource) {
        (Shape::Metadata(version), _) => return packed_metadata(release, &json(), version),
        (Shape::Object | Shape::Table(..), Some(resource)) => resource,
        (Shape::Object | Shape::Table(..), None) => return Err("it is of no resource".to_owned()),
    };
    if is_bookmark(event) {
        return protobuf_of(release, &bookmark(resource, json()));
    }
    let kept = match event.subject {
        Subject::Object { value: Value::Protobuf(kept), .. } if event.kind != MessageKind::Deleted => {
            Some(kept.object())
        }
        Subject::Object { .. } | Subject::Bookmark { .. } => None,
    };
    resource.pack(kept, json).map(Cow::into_owned)
}

/// An object's metadata in protobuf, in its envelope.
pub(super) fn packed_metadata(
    release: Release,
    object: &[u8],
    version: MetaVersion,
) -> Result<Vec<u8>, String> {
    let mut metadata = Vec::new();
    table::append_unordered_metadata(&mut metadata, object, version)
        .map_err(|_| "a stored value has no metadata".to_owned())?;
    protobuf_of(release, &metadata)
}

fn protobuf_of(release: Release, json: &[u8]) -> Result<Vec<u8>, String> {
    api::protobuf::encode(release, json).map_err(|error| error.to_string())
}

impl Encode for Encoder {
    fn framing(&self, encoding: Encoding) -> &'static Framing {
        if is_protobuf(encoding) { &PREFIXED } else { &CHUNKED }
    }

    fn event(&self, out: &mut Vec<u8>, view: View<'_>) -> Result<(), String> {
        let View { encoding, first, event } = view;
        let shape = Shape::of_number(encoding);
        let catalog = self.catalogs.current();
        let resource = Self::resource(&catalog, encoding, &event);
        if is_protobuf(Encoding::Other(encoding)) {
            protobuf::push_event(
                out,
                event.kind,
                &packed(catalog.registry.release(), shape, resource, &event)?,
            );
            return Ok(());
        }
        // Opaque values have no form here: the engine refuses a watch of them at its start.
        let object = event.json().unwrap_or(Cow::Borrowed(b"null"));
        envelope::event(out, event.kind, |out| match (resource, shape) {
            (None, _) => {
                out.extend_from_slice(&object);
                Ok(())
            }
            (Some(resource), Shape::Object) if is_bookmark(&event) => {
                out.extend_from_slice(&bookmark(resource, object));
                Ok(())
            }
            (Some(resource), Shape::Object | Shape::Table(..) | Shape::Metadata(_)) => {
                let now = i64::try_from(event.as_of_seconds).unwrap_or(i64::MAX);
                shape.append(out, resource, &object, now, first)
            }
        })
    }

    fn protobuf(&self, out: &mut Vec<u8>, _: ResourceId, json: &[u8]) -> Result<(), String> {
        out.extend_from_slice(&protobuf_of(self.catalogs.current().registry.release(), json)?);
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
        encoding % FORMS < METADATA_V1
    }
}
