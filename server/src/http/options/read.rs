//! Options of LIST, WATCH and GET.

use std::num::NonZeroU64;
use std::time::Duration;

use revcast_engine::resource::{FieldId, Resource};
use revcast_engine::revision::Revision;
use revcast_engine::selector::{FieldSelector, LabelSelector, SelectorError};

use super::{OptionsError, Query};
use crate::http::continuation::{Continuation, PageRevision};
use crate::http::status::Cause;

/// Which objects are selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selectors {
    /// `labelSelector`.
    pub labels: LabelSelector,
    /// `fieldSelector`.
    pub fields: FieldSelector,
}

impl Selectors {
    /// Reads both; `causes` are reported before an unknown field, and after a grammar error.
    fn parse(query: &Query, resource: &Resource, causes: Vec<Cause>) -> Result<Self, OptionsError> {
        let text = |name| query.get(name).unwrap_or_default();
        let labels = LabelSelector::parse(text("labelSelector")).map_err(OptionsError::Selector)?;
        let fields = match FieldSelector::parse(text("fieldSelector"), resource) {
            Err(SelectorError::UnknownField(_)) if !causes.is_empty() => FieldSelector::default(),
            fields => fields.map_err(OptionsError::Selector)?,
        };
        if !causes.is_empty() {
            return Err(OptionsError::Invalid { kind: "ListOptions", causes });
        }
        Ok(Self { labels, fields })
    }
}

/// The one name that a field selector leaves of a collection, if it does: then the access is to that name alone. A
/// selector that is invalid, or contradicts itself, leaves none.
#[must_use]
pub fn selected_name(resource: Option<&Resource>, query: &Query) -> Option<String> {
    let text = query.get("fieldSelector").filter(|text| !text.is_empty())?;
    let fields = FieldSelector::parse(text, resource?).ok()?;
    fields.equal(FieldId::NAME).filter(|name| !name.is_empty()).map(str::to_owned)
}

/// The terms of both selectors of a query, each with key, operator and values, in the words of Kubernetes' API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Of `fieldSelector`.
    pub fields: Vec<(String, &'static str, Vec<String>)>,
    /// Of `labelSelector`.
    pub labels: Vec<(String, &'static str, Vec<String>)>,
}

/// The terms of the selectors in a query. A selector that is invalid has none: it selects nothing, and its request is refused.
#[must_use]
pub fn selector_terms(resource: Option<&Resource>, query: &Query) -> Terms {
    let text = |name| query.get(name).unwrap_or_default();
    let owned = |values: &[Box<str>]| values.iter().map(|value| String::from(&**value)).collect();
    let labels = LabelSelector::parse(text("labelSelector")).unwrap_or_default();
    let labels =
        labels.terms().map(|(key, operator, values)| (key.to_owned(), operator, owned(values))).collect();
    let fields = resource.map_or_else(Vec::new, |resource| {
        let fields = FieldSelector::parse(text("fieldSelector"), resource).unwrap_or_default();
        let terms = fields.terms(resource);
        terms.map(|(field, operator, value)| (field.to_owned(), operator, vec![value.to_owned()])).collect()
    });
    Terms { fields, labels }
}

/// Which state a LIST shows (`resourceVersion`, `resourceVersionMatch`, `limit` and `continue` together).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListVersion {
    /// The newest: includes all writes before the request. Also for a continuation at the newest revision.
    Unset,
    /// `0`: any available state.
    Any,
    /// This one or a newer; wait up to 3 s, then 504.
    NotOlderThan(Revision),
    /// Exactly this one: `Exact`, a page after the first, or `limit` with only a `resourceVersion`. 410 when compacted.
    Exact(Revision),
}

/// Options of a LIST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListOptions {
    /// Which state.
    pub version: ListVersion,
    /// Objects on a page; `None` for all. Zero, negative numbers, and any limit with `resourceVersion=0` mean all.
    pub limit: Option<NonZeroU64>,
    /// Where the page starts, if it is not the first. `version` already says at which state.
    pub continuation: Option<Continuation>,
    /// Which objects.
    pub selectors: Selectors,
}

impl ListOptions {
    /// Reads the options of a LIST, or those that choose the objects of a deletecollection.
    ///
    /// # Errors
    /// 400 for numbers, selectors and tokens, 422 for parameters that contradict each other; recordings 02, 05, 08, 09.
    pub fn parse(query: &Query, resource: &Resource) -> Result<Self, OptionsError> {
        let raw = Raw::read(query)?;
        let selectors = Selectors::parse(query, resource, raw.list_causes(query))?;
        let limit = u64::try_from(raw.limit).ok().and_then(NonZeroU64::new);

        if let Some(token) = query.text("continue") {
            let continuation = Continuation::decode(token).map_err(OptionsError::Continue)?;
            if !matches!(raw.version_text, "" | "0") {
                return Err(OptionsError::ContinueWithVersion);
            }
            let version = match continuation.at {
                PageRevision::Exact(revision) => ListVersion::Exact(revision),
                PageRevision::Latest => ListVersion::Unset,
            };
            return Ok(Self { version, limit, continuation: Some(continuation), selectors });
        }
        let version = match query.resource_version().map_err(OptionsError::ListVersion)? {
            None => ListVersion::Unset,
            Some(0) => ListVersion::Any,
            Some(number) => {
                let revision = Revision::new(number);
                match raw.version_match {
                    "Exact" => ListVersion::Exact(revision),
                    // Without a match, a limit means "exactly" (from before there were matches).
                    "" if limit.is_some() => ListVersion::Exact(revision),
                    _ => ListVersion::NotOlderThan(revision),
                }
            }
        };
        let limit = if version == ListVersion::Any { None } else { limit };
        Ok(Self { version, limit, continuation: None, selectors })
    }
}

/// The state that initial events show, or that a response waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Includes all writes before the request; wait up to 3 s for it.
    MostRecent,
    /// Any available state.
    Any,
    /// This revision or a newer; wait up to 3 s, then an ERROR event with 504.
    NotOlderThan(Revision),
}

/// Where a WATCH starts: `resourceVersion` and `sendInitialEvents`, after defaulting.
///
/// With the gate `WatchList` on (Kubernetes 1.34 and later), a watch from unset or `0` that does not mention initial
/// events gets them, and with bookmarks allowed also their end mark (recording 05).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchStart {
    /// The whole state as ADDED events in key order, then the end mark if bookmarks are allowed, then live.
    State(Freshness),
    /// Live, from the newest revision: unset, with `sendInitialEvents=false`.
    MostRecent,
    /// Live, from any available state: `0`, with `sendInitialEvents=false`.
    Any,
    /// Strictly after this revision; an ERROR event with 410 when it is before the window. A revision that is not
    /// reached yet is not an error: events up to it are dropped (recording 07).
    After(Revision),
}

/// When the server ends a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchTimeout {
    /// Unset or `0`: at random between 30 and 60 minutes.
    ServerChoice,
    /// After this time; a negative number of seconds is none.
    After(Duration),
}

/// Options of a WATCH. `limit` is ignored, and so is `continue` if it starts at a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchOptions {
    /// Where it starts.
    pub start: WatchStart,
    /// Whether the server may send BOOKMARK events.
    pub bookmarks: bool,
    /// Whether `sendInitialEvents=true` was given; [`WatchStart::State`] without it is a default.
    pub asked_for_initial_events: bool,
    /// When it ends.
    pub timeout: WatchTimeout,
    /// Which objects.
    pub selectors: Selectors,
}

impl WatchOptions {
    /// Reads the options of a WATCH.
    ///
    /// # Errors
    /// 400 for numbers and selectors, 422 for parameters that contradict each other; recordings 05, 08 and 09.
    pub fn parse(query: &Query, resource: &Resource) -> Result<Self, OptionsError> {
        let raw = Raw::read(query)?;
        let selectors = Selectors::parse(query, resource, raw.watch_causes(query))?;
        let version = query.resource_version().map_err(OptionsError::Version)?.map(Revision::new);
        let start = match (version, raw.initial_events) {
            (None, None | Some(true)) => WatchStart::State(Freshness::MostRecent),
            (None, Some(false)) => WatchStart::MostRecent,
            (Some(Revision::ZERO), None | Some(true)) => WatchStart::State(Freshness::Any),
            (Some(Revision::ZERO), Some(false)) => WatchStart::Any,
            (Some(revision), None | Some(false)) => WatchStart::After(revision),
            (Some(revision), Some(true)) => WatchStart::State(Freshness::NotOlderThan(revision)),
        };
        let timeout = match raw.timeout_seconds {
            0 => WatchTimeout::ServerChoice,
            seconds => WatchTimeout::After(Duration::from_secs(u64::try_from(seconds).unwrap_or(0))),
        };
        let bookmarks = query.flag("allowWatchBookmarks").unwrap_or(false);
        let asked_for_initial_events = raw.initial_events == Some(true);
        Ok(Self { start, bookmarks, asked_for_initial_events, timeout, selectors })
    }
}

/// What LIST and WATCH share: one `ListOptions` upstream.
struct Raw<'a> {
    version_text: &'a str,
    version_match: &'a str,
    initial_events: Option<bool>,
    timeout_seconds: i64,
    limit: i64,
}

const MATCH: &str = "resourceVersionMatch";
const MATCH_WITH_CONTINUE: &str = "resourceVersionMatch is forbidden when continue is provided";

impl<'a> Raw<'a> {
    fn read(query: &'a Query) -> Result<Self, OptionsError> {
        Ok(Self {
            version_text: query.get("resourceVersion").unwrap_or_default(),
            version_match: query.get(MATCH).unwrap_or_default(),
            initial_events: query.flag("sendInitialEvents"),
            timeout_seconds: query.integer("timeoutSeconds")?.unwrap_or(0),
            limit: query.integer("limit")?.unwrap_or(0),
        })
    }

    /// Apimachinery `internalversion/validation`: `ValidateListOptions`.
    fn list_causes(&self, query: &Query) -> Vec<Cause> {
        let mut causes = Vec::new();
        if !self.version_match.is_empty() {
            if self.version_text.is_empty() {
                let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                causes.push(Cause::forbidden(MATCH, why));
            }
            if query.text("continue").is_some() {
                causes.push(Cause::forbidden(MATCH, MATCH_WITH_CONTINUE));
            }
            if !matches!(self.version_match, "Exact" | "NotOlderThan") {
                causes.push(Cause::not_supported(MATCH, self.version_match, &["Exact", "NotOlderThan", ""]));
            }
            if self.version_match == "Exact" && self.version_text == "0" {
                let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                causes.push(Cause::forbidden(MATCH, why));
            }
        }
        if self.initial_events.is_some() {
            causes.push(Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        causes
    }

    /// Apimachinery `internalversion/validation`: `validateWatchOptions`, gate `WatchList` on.
    fn watch_causes(&self, query: &Query) -> Vec<Cause> {
        let mut causes = Vec::new();
        if self.initial_events.is_some() && self.version_match != "NotOlderThan" {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            causes.push(Cause::forbidden(MATCH, why));
        }
        if !self.version_match.is_empty() {
            if self.initial_events.is_none() {
                let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                causes.push(Cause::forbidden(MATCH, why));
            }
            if self.version_match != "NotOlderThan" {
                causes.push(Cause::not_supported(MATCH, self.version_match, &["NotOlderThan"]));
            }
        }
        // Where the start defaults to the whole state, the match is defaulted too, before it is checked.
        let defaulted = self.initial_events.is_none() && matches!(self.version_text, "" | "0");
        if (!self.version_match.is_empty() || defaulted) && query.text("continue").is_some() {
            causes.push(Cause::forbidden(MATCH, MATCH_WITH_CONTINUE));
        }
        causes
    }
}

/// Which state a GET of one object shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetVersion {
    /// The newest.
    Unset,
    /// `0`: any available state.
    Any,
    /// This one or a newer; wait up to 3 s, then 504.
    NotOlderThan(Revision),
}

/// Options of a GET of one object; `watch` is ignored on it (recording 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetOptions {
    /// Which state.
    pub version: GetVersion,
}

impl GetOptions {
    /// Reads the options of a GET.
    ///
    /// # Errors
    /// 400 for `export`, and for a `resourceVersion` that is not a number.
    pub fn parse(query: &Query) -> Result<Self, OptionsError> {
        if query.flag("export").unwrap_or(false) {
            return Err(OptionsError::Export);
        }
        let version = match query.resource_version().map_err(OptionsError::Version)? {
            None => GetVersion::Unset,
            Some(0) => GetVersion::Any,
            Some(number) => GetVersion::NotOlderThan(Revision::new(number)),
        };
        Ok(Self { version })
    }
}

/// What a row of a Table has besides its cells (`includeObject`). To be read only when a Table is requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// The metadata.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

impl IncludeObject {
    /// Reads `includeObject`.
    ///
    /// # Errors
    /// 400 for any other value (apiserver `handlers/response.go`).
    pub fn parse(query: &Query) -> Result<Self, OptionsError> {
        match query.get("includeObject").unwrap_or_default() {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(OptionsError::IncludeObject(other.to_owned())),
        }
    }
}
