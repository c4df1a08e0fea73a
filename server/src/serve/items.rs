//! The items of a list, and the rows of a Table.
//!
//! Owns how one object is written into a list, in each form. It knows neither what is around the items nor which there are.

use std::borrow::Cow;
use std::sync::Arc;

use revcast_engine::Object;
use revcast_engine::codec::Value as StoredValue;
use revcast_engine::codec::protobuf::Envelope;

use super::encode::{self, Shape};
use crate::api::printer::Printer;
use crate::api::protobuf::Release;
use crate::api::resources::ApiResource;

/// An item of a list in protobuf.
///
/// # Errors
/// Why the object has no such form.
pub(super) fn message<'o>(
    release: Release,
    resource: &ApiResource,
    shape: Shape,
    object: &'o Object,
) -> Result<Cow<'o, [u8]>, String> {
    let value = object.value();
    if let (Shape::Object, StoredValue::Protobuf(protobuf), true) =
        (shape, value, resource.has_kept_members())
    {
        return Ok(protobuf.envelope().message.into());
    }
    let Some(text) = value.json() else { return Err(format!("{} has no JSON", object.key().path())) };
    let encoded = match shape {
        Shape::Object | Shape::Table(..) => resource.pack(None, || text)?,
        Shape::Metadata(version) => encode::packed_metadata(release, &text, version)?.into(),
    };
    let envelope = Envelope::read(&encoded).map_err(str::to_owned)?;
    Ok(envelope.message.to_vec().into())
}

/// One element of `items` or `rows`.
#[derive(Debug)]
pub(super) struct Item<'o> {
    pub(super) shape: Shape,
    pub(super) object: &'o Object,
    /// The object whose cells a row has, if it is another one.
    pub(super) printed: Option<Arc<Object>>,
}

impl Item<'_> {
    /// Appends it. That every object can be shown was checked before.
    pub(super) fn push(&self, out: &mut Vec<u8>, resource: &ApiResource, now: i64) {
        let of_others = self.printed.as_deref().and_then(|printed| printed.value().json());
        let Some(printed) = of_others else { return push_item(out, resource, self.shape, self.object, now) };
        let json = self.object.value().json().unwrap_or_default();
        let start = out.len();
        if self.shape.append_row(out, resource, &printed, &json, now).is_err() {
            out.truncate(start);
            out.extend_from_slice(b"null");
        }
    }
}

fn push_item(out: &mut Vec<u8>, resource: &ApiResource, shape: Shape, object: &Object, now: i64) {
    // Items of built-in lists have neither kind nor apiVersion, those of declared resources have both (recording 01).
    let is_bare = shape == Shape::Object && resource.printer != Printer::Custom;
    if is_bare && resource.has_kept_members() {
        match object.value() {
            StoredValue::Json(json) => match json.bare_members() {
                Some(members) => {
                    out.push(b'{');
                    return out.extend_from_slice(members);
                }
                None => return out.extend_from_slice(json.text()),
            },
            StoredValue::Protobuf(protobuf) => return protobuf.push_bare_json(out),
            StoredValue::Opaque(_) | StoredValue::Unreadable(..) => {}
        }
    }
    let Some(text) = object.value().json() else {
        // A resource with such values cannot be requested here, and an unreadable object ends a list before.
        return out.extend_from_slice(b"null");
    };
    let start = out.len();
    // That every object can be shown was checked before.
    if shape.append_item(out, resource, &text, now).is_err() {
        out.truncate(start);
        return out.extend_from_slice(b"null");
    }
    if is_bare {
        let head = format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\",", resource.kind, resource.api_version());
        if out[start..].starts_with(head.as_bytes()) {
            out.drain(start + 1..start + head.len());
        }
    }
}
