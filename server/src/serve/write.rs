//! Making a write, and explaining why it was not made.
//!
//! Owns the steps from a handler's object to the store, and from the store's errors to a [`Status`].

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use revcast_engine::Object;
use revcast_engine::codec::{Decoder, Reading};
use revcast_engine::escape;
use revcast_engine::key::Key;
use revcast_engine::resource::Resource;
use revcast_engine::revision::Revision;

use super::{Call, payload};
use crate::frontend::Host;
use crate::frontend::WriteError;
use crate::http::body::BODY_BYTES_MAX;
use crate::http::status::Status;
use crate::source::{Action, Expect, Fault, NewValue, Txn, TxnError, VALUE_BYTES_MAX};

/// How often a write without a precondition is tried again when it lost a race.
pub(super) const ATTEMPTS_MAX: usize = 5;
/// The nesting limit of a stored object: what the JSON parser accepts again. A patch can combine two objects into a deeper one.
const DEPTH_MAX: usize = 127;
/// The size limit of a written object: that of a body, and room for what the server adds, above all `metadata.managedFields`. A
/// patch can make an object larger than any body.
const OBJECT_BYTES_MAX: usize = BODY_BYTES_MAX + (1 << 20);
/// The limit of its values: that of a body, and some more.
const OBJECT_VALUES_MAX: usize = payload::VALUES_MAX + payload::VALUES_MAX / 4;
/// `Retry-After` if the store accepts no write now.
const BUSY_RETRY_SECONDS: u32 = 1;

const _: () = assert!(OBJECT_BYTES_MAX <= VALUE_BYTES_MAX);

/// The result of a write.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    /// It was made, by that revision.
    Made(Revision),
    /// The key's value was written by that revision; `None`: it has none.
    Lost(Option<Revision>),
}

/// A value that may be written: as it is stored, and as the engine will serve it.
#[derive(Debug)]
pub(super) struct Checked<'a> {
    pub(super) action: Action,
    resource: &'a Resource,
    reading: Arc<Reading>,
}

impl Checked<'_> {
    /// The object as JSON, as the write of that revision makes it.
    pub(super) fn json_at(&self, revision: Revision) -> Vec<u8> {
        let mut out = Vec::new();
        self.reading.push_json_at(self.resource, revision, &mut out);
        out
    }
}

impl<H: Host> Call<'_, H> {
    /// Writes one key.
    ///
    /// # Errors
    /// The store cannot write; a lost race is not an error.
    pub(super) async fn write(&self, key: &Key, expect: Expect, action: Action) -> Result<Outcome, Status> {
        match self.host.write(Txn::one(key.clone(), expect, action)).await {
            Ok(revision) => Ok(Outcome::Made(revision)),
            Err(WriteError::Refused(TxnError::Conflict { found, .. })) => Ok(Outcome::Lost(found)),
            Err(WriteError::Refused(TxnError::NotFound { .. })) => Ok(Outcome::Lost(None)),
            Err(error) => Err(refusal(&error)),
        }
    }

    /// The value for a key that has none: checked, so that the publisher can decode it, and so that there is memory to change
    /// it later.
    ///
    /// # Errors
    /// 400 if the engine could not serve the value or it could never be changed again; 413 if it is too large.
    pub(super) fn put(&self, value: Vec<u8>) -> Result<Checked<'_>, Status> {
        let extent = Extent::of(&value);
        extent.check(Extent::default)?;
        self.checked(extent, value)
    }

    /// The same in place of `old`. An object that is too large already, because of other writers, may be written if it does not
    /// grow.
    pub(super) fn put_over(&self, old: &Object, value: Vec<u8>) -> Result<Checked<'_>, Status> {
        let extent = Extent::of(&value);
        extent.check(|| Extent::stored(old))?;
        self.checked(extent, value)
    }

    /// The same for an object that is marked for deletion: the mark makes it longer, and must not prevent the deletion.
    pub(super) fn put_marked(&self, value: Vec<u8>) -> Result<Checked<'_>, Status> {
        self.checked(Extent::of(&value), value)
    }

    fn checked(&self, extent: Extent, value: Vec<u8>) -> Result<Checked<'_>, Status> {
        if extent.bytes > VALUE_BYTES_MAX {
            return Err(Status::request_entity_too_large(VALUE_BYTES_MAX));
        }
        if extent.depth > DEPTH_MAX {
            let why = format!("the object nests deeper than {DEPTH_MAX} levels: make it flatter");
            return Err(Status::bad_request(why));
        }
        let bytes = Bytes::from(self.stored_form(value)?);
        let resource = self.row();
        let reading = Decoder::new().read(resource, &bytes);
        let reading = Arc::new(
            reading.map_err(|why| Status::bad_request(format!("the object cannot be stored: {why}")))?,
        );
        let ttl = self.catalog.registry.get(self.resource.row).and_then(|stored| stored.ttl);
        let value = NewValue::read(bytes, &reading);
        Ok(Checked { action: Action::Put { value, ttl }, resource, reading })
    }

    /// 409: another client was faster.
    pub(super) fn conflict(&self, name: &str) -> Status {
        Status::conflict(self.group_resource(), name)
    }
}

/// The size of a JSON text.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    bytes: usize,
    /// How deep it nests.
    depth: usize,
    /// An upper bound, counted as for a body.
    values: usize,
}

impl Extent {
    fn of(json: &[u8]) -> Self {
        let (mut depth, mut deepest, mut values) = (0_usize, 0, 1_usize);
        let mut bytes = json.iter();
        while let Some(byte) = bytes.next() {
            match byte {
                b'{' | b'[' => {
                    values += 1;
                    depth += 1;
                    deepest = deepest.max(depth);
                }
                b',' => values += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                b'"' => {
                    while let Some(byte) = bytes.next() {
                        match byte {
                            b'"' => break,
                            b'\\' => drop(bytes.next()),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        Self { bytes: json.len(), depth: deepest, values }
    }

    /// Of an object as its writer sent it: without the `resourceVersion` that the engine inserted, and what escapes added.
    fn stored(object: &Object) -> Self {
        let value = object.value();
        let text = value.json().unwrap_or_else(|| Cow::Borrowed(value.bytes()));
        let shown = Self::of(&text);
        let version = ",\"resourceVersion\":\"\"".len() + object.revision().to_string().len();
        let added = version + escape::surplus(&text);
        Self { bytes: shown.bytes.saturating_sub(added), values: shown.values.saturating_sub(1), ..shown }
    }

    /// Refuses more than an object may have, unless the previous state had as much.
    fn check(self, before: impl FnOnce() -> Self) -> Result<(), Status> {
        let Self { bytes, values, .. } = self;
        if bytes <= OBJECT_BYTES_MAX && values <= OBJECT_VALUES_MAX {
            return Ok(());
        }
        let before = before();
        let why = if bytes > OBJECT_BYTES_MAX.max(before.bytes) {
            format!(
                "Request entity too large: limit is {OBJECT_BYTES_MAX}, and the object would have {bytes} bytes: keep less in \
                 one object"
            )
        } else if values > OBJECT_VALUES_MAX.max(before.values) {
            format!(
                "Request entity too large: limit is {OBJECT_VALUES_MAX} values, and the object would have {values}: put data of \
                 that size into fewer, longer strings"
            )
        } else {
            return Ok(());
        };
        Err(Status::other(413, why))
    }
}

/// The answer to a write that was not made.
fn refusal(error: &WriteError) -> Status {
    match error {
        WriteError::Busy => {
            let why = "too many writes are waiting: try again".to_owned();
            Status::too_many_requests(why, BUSY_RETRY_SECONDS)
        }
        WriteError::Closed => {
            let why = "the server is closing and does not know whether the write was made: read the object, then try \
                       again"
                .to_owned();
            Status::service_unavailable(why, BUSY_RETRY_SECONDS)
        }
        WriteError::Refused(error) => match error {
            TxnError::Storage(error) if error.is_full() => Status::insufficient_storage(error.to_string()),
            TxnError::Storage(error) => Status::internal_error(&error.to_string()),
            TxnError::Source(error) => match error.fault {
                Fault::Unavailable => Status::service_unavailable(error.detail.clone(), BUSY_RETRY_SECONDS),
                Fault::Unknown => Status::source_timeout(&error.detail, BUSY_RETRY_SECONDS),
                Fault::Full => Status::insufficient_storage(error.detail.clone()),
                Fault::TooLarge => Status::other(413, error.detail.clone()),
                Fault::Denied | Fault::Broken => Status::internal_error(&error.detail),
            },
            TxnError::ValueTooLarge { .. } => Status::request_entity_too_large(VALUE_BYTES_MAX),
            TxnError::KeyTooLong { .. } => Status::bad_request(error.to_string()),
            TxnError::NoOps
            | TxnError::TooManyOps { .. }
            | TxnError::DuplicateKey { .. }
            | TxnError::Conflict { .. }
            | TxnError::NotFound { .. } => Status::internal_error(&error.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use revcast_engine::key::ResourceId;

    use super::*;
    use crate::api::protobuf::{Release, encode};
    use crate::api::resources::Registry;

    #[test]
    fn a_stored_object_is_measured_alike_in_both_forms() {
        let json = br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"a":"[{[{","b":"x,y,z","c":"<"}}"#;
        let packed = encode(Release::DEFAULT, json).expect("it fits");
        let schema = Registry::builtin().schema();
        let row =
            Registry::builtin().find("", "v1", "configmaps").map_or(ResourceId::new(0), |found| found.row);
        let extent = |value: Vec<u8>| {
            let key = Key::new(row, Some("t1"), "a");
            let object =
                Object::read(&mut Decoder::new(), schema.get(row), key, &value.into(), Revision::new(1));
            let Extent { bytes, depth, values } = Extent::stored(&object);
            (bytes, depth, values)
        };
        let Extent { bytes, depth, values } = Extent::of(json);
        assert_eq!(extent(json.to_vec()), (bytes, depth, values));
        assert_eq!(extent(packed), (bytes, depth, values));
    }
}
