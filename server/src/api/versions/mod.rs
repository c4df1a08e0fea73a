//! Versions of a resource: from the objects of one version to those of another.
//!
//! Owns which versions can be made of which, and how: where both have the same members, only `apiVersion` is replaced in
//! the text or the envelope, and nothing is parsed; some others are rewritten member by member. What is in neither group
//! has no form in the other version, and says so. It never stores anything.

mod autoscalers;
mod definitions;
mod devices;
mod events;
mod rename;
mod stored;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::{Map, Value};

pub use self::rename::json as renamed;
pub use self::stored::StoredVersions;
use super::protobuf::{self, Release};

/// The members of an object but for `kind` and `apiVersion`, as another version has them.
///
/// # Errors
/// What of the object the other version cannot express.
pub type Rewrite = fn(Map<String, Value>) -> Result<Map<String, Value>, String>;

/// How objects that are kept in one version are shown in another.
#[derive(Clone, Copy, Debug)]
pub enum Conversion {
    /// They are kept in it.
    Kept,
    /// Both versions have the same members: only `apiVersion` differs.
    Renamed,
    /// Each object is kept in the version that it was written in. Those of another version are not shown: only a webhook of the
    /// cluster can convert them.
    AsStored,
    /// Members differ: to what is shown, and back to what is kept, if that is known.
    Rewritten(Rewrite, Option<Rewrite>),
    /// It is not known how.
    Missing,
}

/// The type of what is shown.
#[derive(Clone, Copy, Debug)]
pub struct Type<'a> {
    /// `apps/v1`.
    pub api_version: &'a str,
    /// `Deployment`.
    pub kind: &'a str,
    /// The release of Kubernetes that has it.
    pub release: Release,
}

/// Kinds whose versions differ: kind, the version that is kept, the one that is shown.
const REWRITES: &[(&str, &str, &str, Rewrite)] = &[
    ("Event", "v1", "events.k8s.io/v1", events::new_of_core),
    ("Event", "events.k8s.io/v1", "v1", events::core_of_new),
    ("HorizontalPodAutoscaler", "autoscaling/v2", "autoscaling/v1", autoscalers::v1_of_v2),
    ("ResourceClaim", "resource.k8s.io/v1", "resource.k8s.io/v1beta1", devices::old_claim),
    ("ResourceClaim", "resource.k8s.io/v1beta1", "resource.k8s.io/v1", devices::new_claim),
    ("ResourceClaimTemplate", "resource.k8s.io/v1", "resource.k8s.io/v1beta1", devices::old_template),
    ("ResourceClaimTemplate", "resource.k8s.io/v1beta1", "resource.k8s.io/v1", devices::new_template),
    ("ResourceSlice", "resource.k8s.io/v1", "resource.k8s.io/v1beta1", devices::old_slice),
    ("ResourceSlice", "resource.k8s.io/v1beta1", "resource.k8s.io/v1", devices::new_slice),
    (
        "CustomResourceDefinition",
        "apiextensions.k8s.io/v1beta1",
        "apiextensions.k8s.io/v1",
        definitions::v1_of_v1beta1,
    ),
];

impl Conversion {
    /// From one version of a kind to another, in a release of Kubernetes.
    #[must_use]
    pub fn between(release: Release, from: &str, to: &str, kind: &str) -> Self {
        if from == to {
            return Self::Kept;
        }
        if protobuf::is_same(release, kind, from, to) {
            return Self::Renamed;
        }
        let rewrite = |from, to| {
            let mut known = REWRITES.iter();
            known
                .find(|(of, kept, shown, _)| (*of, *kept, *shown) == (kind, from, to))
                .map(|(.., rewrite)| *rewrite)
        };
        rewrite(from, to).map_or(Self::Missing, |forth| Self::Rewritten(forth, rewrite(to, from)))
    }

    /// Whether an object of the version that is shown can be stored in the one that is kept.
    #[must_use]
    pub const fn is_writable(self) -> bool {
        matches!(self, Self::Kept | Self::Renamed | Self::Rewritten(_, Some(_)))
    }

    /// The members of an object of the version that is shown, as they are kept.
    ///
    /// # Errors
    /// What of the object cannot be stored.
    pub fn kept(self, shown: Map<String, Value>) -> Result<Map<String, Value>, String> {
        match self {
            Self::Kept | Self::Renamed | Self::AsStored | Self::Missing | Self::Rewritten(_, None) => {
                Ok(shown)
            }
            Self::Rewritten(_, Some(back)) => back(shown),
        }
    }

    /// Whether each object must be looked at to know that it can be shown.
    #[must_use]
    pub const fn can_fail(self) -> bool {
        matches!(self, Self::AsStored | Self::Rewritten(..) | Self::Missing)
    }

    /// An object in JSON, with `kind` and `apiVersion`.
    ///
    /// # Errors
    /// Why it has no form in this version, for the client.
    pub fn json<'k>(self, to: Type<'_>, kept: Cow<'k, [u8]>) -> Result<Cow<'k, [u8]>, String> {
        match self {
            Self::Kept => Ok(kept),
            Self::Renamed => Ok(rename::json(to, kept)),
            Self::AsStored if rename::version(&kept) == Some(to.api_version.as_bytes()) => Ok(kept),
            Self::AsStored => Err(only_as_stored(to, &kept)),
            Self::Rewritten(rewrite, _) => rewritten(to, &kept, rewrite).map(Cow::Owned),
            Self::Missing => Err(missing(to)),
        }
    }

    /// The same for an object in protobuf, in its envelope. Where members differ, it is made of the object's JSON instead.
    ///
    /// # Errors
    /// Why it has no form in this version, for the client.
    pub fn protobuf<'k>(self, to: Type<'_>, kept: Cow<'k, [u8]>) -> Result<Cow<'k, [u8]>, String> {
        match self {
            Self::Kept => Ok(kept),
            Self::Renamed => rename::envelope(to, &kept).map(Cow::Owned),
            Self::AsStored | Self::Rewritten(..) | Self::Missing => Err(missing(to)),
        }
    }
}

fn only_as_stored(Type { api_version, kind, .. }: Type<'_>, kept: &[u8]) -> String {
    let stored = rename::version(kept).map_or_else(|| "no version".into(), String::from_utf8_lossy);
    format!(
        "a {kind} that is stored as {stored} cannot be shown as {api_version}: only the webhook of its definition can \
         convert it: ask for the version that it is stored in, or store it in the other one"
    )
}

fn missing(Type { api_version, kind, .. }: Type<'_>) -> String {
    format!("a stored {kind} cannot be shown as {api_version}: ask for the version that it is stored in")
}

fn rewritten(to: Type<'_>, kept: &[u8], rewrite: Rewrite) -> Result<Vec<u8>, String> {
    let Type { api_version, kind, release } = to;
    let failed = |why: String| format!("a stored {kind} cannot be shown as {api_version}: {why}");
    let mut members: Map<String, Value> =
        serde_json::from_slice(kept).map_err(|_| failed("it is not an object".to_owned()))?;
    members.shift_remove("kind");
    members.shift_remove("apiVersion");
    let mut shown = Map::new();
    shown.insert("kind".to_owned(), kind.into());
    shown.insert("apiVersion".to_owned(), api_version.into());
    shown.extend(rewrite(members).map_err(failed)?);
    let text = Value::Object(shown).to_string();
    if !protobuf::has_type(release, api_version, kind) {
        return Ok(text.into());
    }
    // The members in the order of the type, and with its zero values.
    protobuf::canonical(release, text.as_bytes()).map_err(failed)
}
