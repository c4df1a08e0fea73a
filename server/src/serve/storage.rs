//! The form of objects in the store: JSON, or protobuf where their kind has a message.
//!
//! Owns the way from a written object to the bytes that are stored. Where these are protobuf, an object is what its type can
//! hold: [`Call::settled`] gives it the members that a reader will see, before it is compared with what is stored.

use std::fmt;

use serde_json::{Map, Value};

use super::{Call, apply, payload};
use crate::api::protobuf::{self, EncodeError};
use crate::frontend::Host;
use crate::http::status::Status;
use crate::http::{go_quote, shown};

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
        self.app.options.storage_media_type == StorageMediaType::Protobuf
            && self.row().message.is_some()
            // A kube-apiserver stores these two in JSON, whatever it stores others in.
            && !matches!(self.resource.group.as_str(), "apiextensions.k8s.io" | "apiregistration.k8s.io")
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
        let unpacked = protobuf::decode(self.catalog.registry.release(), &packed);
        unpacked.map(|decoded| Some(decoded.json)).map_err(|error| Status::bad_request(error.to_string()))
    }

    /// Refuses members that would be lost: if the client asks for that, and always in an apply, after which they would have an owner
    /// and no value.
    ///
    /// # Errors
    /// 400, with their names.
    pub(super) fn check_members(&self, members: &Map<String, Value>) -> Result<(), Status> {
        if !self.stores_protobuf() {
            return Ok(());
        }
        let is_strict = self.query.get("fieldValidation") == Some("Strict")
            || payload::media_type(self.head.content_type.as_deref()) == apply::MEDIA_TYPE;
        if !is_strict {
            return Ok(());
        }
        let (release, resource) = (self.catalog.registry.release(), self.resource);
        let unknown = protobuf::unknown_members(release, resource.api_version(), &resource.kind, members);
        if unknown.is_empty() {
            return Ok(());
        }
        let listed: Vec<String> =
            unknown.iter().map(|member| format!("unknown field {}", go_quote(member))).collect();
        Err(self.unfit(&format!("strict decoding error: {}", shown(&listed.join(", ")))))
    }

    /// 400, as Kubernetes words it.
    fn unfit(&self, why: &str) -> Status {
        let (kind, version) = (&self.resource.kind, &self.resource.version);
        Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
    }

    fn packed(&self, json: &[u8]) -> Result<Vec<u8>, Status> {
        protobuf::encode(self.catalog.registry.release(), json).map_err(|error| match error {
            EncodeError::Value { at, why, .. } => self.unfit(&format!("{}: {}", shown(&at), shown(&why))),
            EncodeError::NoObject | EncodeError::UnknownType { .. } => Status::bad_request(error.to_string()),
        })
    }
}
