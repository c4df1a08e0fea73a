//! Values that are stored in another version than the one that objects are kept in.

use revcast_engine::codec::protobuf::{Envelope, PREFIX};
use revcast_engine::other_versions::OtherVersions;
use serde::Deserialize;

use super::{Conversion, Type};
use crate::api::protobuf::{self, Release};

/// Brings values of all versions of a kind to one.
#[derive(Debug)]
pub struct StoredVersions {
    api_version: String,
    kind: String,
    release: Release,
}

impl StoredVersions {
    /// To this version.
    #[must_use]
    pub fn new(release: Release, api_version: &str, kind: &str) -> Self {
        Self { api_version: api_version.to_owned(), kind: kind.to_owned(), release }
    }
}

impl OtherVersions for StoredVersions {
    fn convert(&self, value: &[u8]) -> Option<Vec<u8>> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Top<'v> {
            api_version: &'v str,
            kind: &'v str,
        }
        let to = Type { api_version: &self.api_version, kind: &self.kind, release: self.release };
        let from = |api_version: &str, kind: &str| {
            (kind == self.kind).then(|| Conversion::between(self.release, api_version, to.api_version, kind))
        };
        if !value.starts_with(PREFIX) {
            let Top { api_version, kind } = serde_json::from_slice(value).ok()?;
            return from(api_version, kind)?.json(to, value.into()).ok().map(Into::into);
        }
        let Envelope { api_version, kind, .. } = Envelope::read(value).ok()?;
        match from(api_version, kind)? {
            conversion @ Conversion::Rewritten(..) => {
                let decoded = protobuf::decode(self.release, value).ok()?;
                conversion.json(to, decoded.json.into()).ok().map(Into::into)
            }
            conversion @ (Conversion::Kept
            | Conversion::Renamed
            | Conversion::AsStored
            | Conversion::Missing) => conversion.protobuf(to, value.into()).ok().map(Into::into),
        }
    }
}
