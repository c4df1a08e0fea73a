//! Making a write, and saying why it was not made.
//!
//! Owns the way from what a handler wants stored to the store, and from the store's errors to a [`Status`].

use std::sync::Arc;

use bytes::Bytes;
use revcast_engine::Object;
use revcast_engine::decode::Decoder;
use revcast_engine::key::Key;
use revcast_engine::revision::Revision;

use super::host::WriteError;
use super::{Call, Host};
use crate::http::status::Status;
use crate::source::{Action, Expect, Fault, Txn, TxnError, VALUE_BYTES_MAX};

/// How often a write that requires no revision is tried again when others are faster.
pub(super) const ATTEMPTS_MAX: usize = 5;
/// How deep a stored object may nest: what the JSON parser reads again. A patch can make more of two that it read.
const DEPTH_MAX: usize = 127;
/// What `Retry-After` says when the store takes no write now.
const BUSY_RETRY_SECONDS: u32 = 1;

/// What became of one write.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It was made. The new state; `None` when the key is gone.
    Made(Option<Arc<Object>>),
    /// The key's value was written by that revision; `None`: it has none.
    Lost(Option<Revision>),
}

impl<H: Host> Call<'_, H> {
    /// Writes one key.
    ///
    /// # Errors
    /// When the store cannot; losing a race is no error.
    pub(super) async fn write(&self, key: &Key, expect: Expect, action: Action) -> Result<Outcome, Status> {
        match self.host.write(Txn::one(key.clone(), expect, action)).await {
            Ok(mut written) => Ok(Outcome::Made(written.objects.pop().flatten())),
            Err(WriteError::Refused(TxnError::Conflict { found, .. })) => Ok(Outcome::Lost(found)),
            Err(WriteError::Refused(TxnError::NotFound { .. })) => Ok(Outcome::Lost(None)),
            Err(error) => Err(refusal(&error)),
        }
    }

    /// What to put at a key: checked, so that whoever publishes it can read it.
    ///
    /// # Errors
    /// 400 when the engine could not serve the value or nobody could change it again; 413 when it is too large.
    pub(super) fn put(&self, value: Vec<u8>) -> Result<Action, Status> {
        if value.len() > VALUE_BYTES_MAX {
            return Err(Status::request_entity_too_large(VALUE_BYTES_MAX));
        }
        if nesting(&value) > DEPTH_MAX {
            let why = format!("the object nests deeper than {DEPTH_MAX} levels: make it flatter");
            return Err(Status::bad_request(why));
        }
        let schema = self.app.schema().get(self.resource.row);
        Decoder::new()
            .check(schema, &value)
            .map_err(|error| Status::bad_request(format!("the object cannot be stored: {error}")))?;
        Ok(Action::Put { value: Bytes::from(value), ttl: self.resource.ttl })
    }

    /// 409: somebody else was faster.
    pub(super) fn conflict(&self, name: &str) -> Status {
        Status::conflict(self.group_resource(), name)
    }
}

/// How deep a JSON text nests.
fn nesting(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
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
    deepest
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
