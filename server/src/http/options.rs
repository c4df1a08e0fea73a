//! The query: from a string to typed options.
//!
//! Owns the parameters of Kubernetes' list, watch, get, write and delete options, their defaults and the exact errors
//! (recordings 02, 05, 07, 08; apimachinery `internalversion`). Of several errors the one that upstream finds first is
//! reported. The grammar of selectors is the engine's. Parameters that are not named here are ignored, as upstream
//! does: `timeout` (a client's own deadline), `shardSelector` (an alpha gate that is off), and any others.
//!
//! One intended difference: a `resourceVersion` that is not a number is always 400 `BadRequest`. Upstream returns that
//! for a LIST only; for a WATCH and a GET it returns 500 without a reason (recording 08).

mod read;
#[cfg(test)]
mod tests;
mod write;

use std::fmt;

use revcast_engine::selector::SelectorError;

pub use read::{
    Freshness, GetOptions, GetVersion, IncludeObject, ListOptions, ListVersion, Selectors, Terms,
    WatchOptions, WatchStart, WatchTimeout, selected_name, selector_terms,
};
pub use write::{DeleteOptions, FieldValidation, Preconditions, Propagation, WriteKind, WriteOptions};

use super::continuation::ContinueError;
use super::status::{Cause, Layout, Status};
use super::text::{NumberError, PercentError, go_quote, parse_int, parse_uint, percent_decode};

/// A query string, split and decoded. Of a parameter that is sent twice the first counts, as in Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    raw: String,
    pairs: Vec<(String, String)>,
    watches: bool,
}

impl Query {
    /// Splits the text after the `?`. Empty parts are skipped: a bare `?` and `?&limit=500` are valid.
    ///
    /// # Errors
    /// A part does not decode to text; dropping it, as Go does, would widen a selector.
    pub fn parse(raw: &str) -> Result<Self, PercentError> {
        let decode = |text: &str| percent_decode(text, true);
        let mut pairs = Vec::new();
        for part in raw.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            pairs.push((decode(name)?, decode(value)?));
        }
        let mut query = Self { raw: raw.to_owned(), pairs, watches: false };
        query.watches = query.flag("watch").unwrap_or(false);
        Ok(query)
    }

    /// The text after the `?`, as it was sent.
    #[must_use]
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// The value of `name`; "" when it is present without one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Whether `name` is present at all: `?verbose`.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Every value of `name`: `?exclude=a&exclude=b`.
    pub fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The value of `name`, unless it is empty.
    fn text(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    fn owned(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().to_owned()
    }

    /// Absent, `0` and any `false` are false; **everything else is true**, "" and `maybe` too (recording 08).
    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// Whether a GET on a collection asks to watch it.
    #[must_use]
    pub const fn watches(&self) -> bool {
        self.watches
    }

    /// A signed integer; "" is none.
    fn integer(&self, name: &str) -> Result<Option<i64>, OptionsError> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        let refused = |error: NumberError| OptionsError::Integer(error.message("ParseInt", text));
        parse_int(text).map(Some).map_err(refused)
    }

    /// `resourceVersion`; `Err` is the message of the error.
    fn resource_version(&self) -> Result<Option<u64>, String> {
        let Some(text) = self.text("resourceVersion") else {
            return Ok(None);
        };
        parse_uint(text).map(Some).map_err(|error| {
            let why = error.message("ParseUint", text);
            format!("resourceVersion: Invalid value: {}: {why}", go_quote(text))
        })
    }

    /// The layout of JSON, except in a watch stream, which is always compact.
    ///
    /// `pretty` decides when present (Go's `ParseBool`); otherwise JSON is pretty for people: curl, Wget and browsers
    /// (apiserver `handlers/negotiation/negotiate.go`).
    #[must_use]
    pub fn layout(&self, user_agent: Option<&str>) -> Layout {
        let pretty = match self.text("pretty") {
            Some(value) => matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
            None => {
                let agent = user_agent.unwrap_or_default();
                ["curl", "Wget", "Mozilla/5.0"].iter().any(|person| agent.starts_with(person))
            }
        };
        if pretty { Layout::Pretty } else { Layout::Compact }
    }
}

/// The error in a query. The client's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionsError {
    /// `limit`, `timeoutSeconds` or `gracePeriodSeconds` is not an int64; the message is Go's: 400.
    Integer(String),
    /// `resourceVersion` of a LIST is not a uint64: 400.
    ListVersion(String),
    /// `resourceVersion` of a WATCH or GET is not a uint64: 400, with upstream's text.
    Version(String),
    /// `labelSelector` or `fieldSelector` is invalid: 400.
    Selector(SelectorError),
    /// Options that contradict each other: 422, with a cause for each.
    Invalid {
        /// `ListOptions`, `DeleteOptions`, ...
        kind: &'static str,
        /// At least one.
        causes: Vec<Cause>,
    },
    /// `continue` with a `resourceVersion`: 400.
    ContinueWithVersion,
    /// `continue` is not a token: 400.
    Continue(ContinueError),
    /// `export`: 400.
    Export,
    /// `includeObject` has an unknown value: 400.
    IncludeObject(String),
    /// The body of a DELETE is not `DeleteOptions`; the text says why: 400.
    DeleteBody(String),
}

impl OptionsError {
    /// The response.
    #[must_use]
    pub fn status(self) -> Status {
        let message = self.to_string();
        match self {
            Self::Invalid { kind, causes } => Status::invalid("meta.k8s.io", kind, "", causes),
            Self::Integer(_)
            | Self::ListVersion(_)
            | Self::Version(_)
            | Self::Selector(_)
            | Self::ContinueWithVersion
            | Self::Continue(_)
            | Self::Export
            | Self::IncludeObject(_)
            | Self::DeleteBody(_) => Status::bad_request(message),
        }
    }
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(why) | Self::Version(why) => f.write_str(why),
            Self::ListVersion(why) => write!(f, "invalid resource version: {why}"),
            Self::Selector(why) => why.fmt(f),
            Self::Invalid { kind, causes } => {
                write!(f, "{kind} is invalid:")?;
                causes.iter().try_for_each(|cause| write!(f, " {}: {};", cause.field, cause.message))
            }
            Self::ContinueWithVersion => {
                f.write_str("specifying resource version is not allowed when using continue")
            }
            Self::Continue(why) => why.fmt(f),
            Self::Export => {
                f.write_str("the export parameter, deprecated since v1.14, is no longer supported")
            }
            Self::IncludeObject(value) => write!(
                f,
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: \
                 must be 'Metadata', 'Object', 'None', or empty",
                go_quote(value)
            ),
            Self::DeleteBody(why) => write!(f, "the body of the request is not DeleteOptions: {why}"),
        }
    }
}

impl std::error::Error for OptionsError {}
