//! The form of objects in the store: JSON, or protobuf where their kind has a message.
//!
//! Owns the way from a written object to the bytes that are stored. Where these are protobuf, an object is what its type can
//! hold: [`Call::settled`] gives it the members that a reader will see, before it is compared with what is stored.

use std::fmt;

use super::Call;
use crate::api::protobuf::{self, EncodeError};
use crate::frontend::Host;
use crate::http::shown;
use crate::http::status::Status;

/// The form in which objects are written into the store. Each stored object is read in the form that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageMediaType {
    /// All are JSON, with the members that their writers sent.
    Json,
    /// Those of Kubernetes' own kinds are protobuf, as a kube-apiserver stores them; others are JSON.
    Protobuf,
}

impl StorageMediaType {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Json, Self::Protobuf];
}

impl fmt::Display for StorageMediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json => "json",
            Self::Protobuf => "protobuf",
        })
    }
}

impl<H: Host> Call<'_, H> {
    /// Whether written objects of this resource are stored in protobuf.
    fn stores_protobuf(&self) -> bool {
        self.app.options.storage_media_type == StorageMediaType::Protobuf && self.schema().message.is_some()
    }

    /// The stored form of an object in JSON.
    ///
    /// # Errors
    /// 400: it does not fit its type.
    pub(super) fn stored_form(&self, json: Vec<u8>) -> Result<Vec<u8>, Status> {
        if self.stores_protobuf() { self.packed(&json) } else { Ok(json) }
    }

    /// An object in JSON as it will be read after it was stored; `None`: as it is.
    ///
    /// # Errors
    /// 400: it does not fit its type.
    pub(super) fn settled(&self, json: impl FnOnce() -> Vec<u8>) -> Result<Option<Vec<u8>>, Status> {
        if !self.stores_protobuf() {
            return Ok(None);
        }
        let packed = self.packed(&json())?;
        let unpacked = protobuf::decode(self.app.registry.release(), &packed);
        unpacked.map(|decoded| Some(decoded.json)).map_err(|error| Status::bad_request(error.to_string()))
    }

    fn packed(&self, json: &[u8]) -> Result<Vec<u8>, Status> {
        protobuf::encode(self.app.registry.release(), json).map_err(|error| match error {
            EncodeError::Value { kind, at, why, .. } => Status::bad_request(format!(
                "{kind} in version {:?} cannot be handled as a {kind}: {}: {}",
                self.resource.version,
                shown(&at),
                shown(&why)
            )),
            EncodeError::NoObject | EncodeError::UnknownType { .. } => Status::bad_request(error.to_string()),
        })
    }
}
