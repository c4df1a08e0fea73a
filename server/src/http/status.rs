//! `Status` objects: the response when it is not an object or a list.
//!
//! Owns the exact bytes (member order, texts, escapes) as recorded from kube-apiserver 1.36; sources are named as
//! "apimachinery" (`pkg/api/errors/errors.go`) or "apiserver" where no recording has the case. It never decides which
//! error a request gets, and it never writes a head: [`Status::code`] and [`Status::retry_after_seconds`] have the
//! values for it. It always has at most [`STATUS_BYTES_MAX`] bytes: the module `bounds` cuts client texts that
//! Kubernetes repeats completely.

mod bounds;
mod encode;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use revcast_engine::revision::Revision;

pub use bounds::STATUS_BYTES_MAX;

use super::shown::shown_list;
use super::text::go_quote;

/// The layout of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One line and a line feed.
    Compact,
    /// Indented by two spaces, without a line feed at the end.
    Pretty,
}

/// A group and its resource, as messages name it: `deployments.apps`, or `configmaps` in the group "".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupResource<'a> {
    /// `apps`; "" for the core group.
    pub group: &'a str,
    /// The plural: `deployments`.
    pub resource: &'a str,
}

impl GroupResource<'_> {
    fn qualified(self) -> String {
        if self.group.is_empty() {
            self.resource.to_owned()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }
}

/// One cause of a `Status` (`metav1.StatusCause`); an empty member is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// `FieldValueForbidden`, `ResourceVersionTooLarge`, ...
    pub reason: String,
    /// The error, without the field's name.
    pub message: String,
    /// The path of the field: `metadata.name`.
    pub field: String,
}

impl Cause {
    /// `field.Forbidden` (apimachinery `util/validation/field`).
    #[must_use]
    pub fn forbidden(field: &str, why: &str) -> Self {
        Self::of("FieldValueForbidden", format!("Forbidden: {why}"), field)
    }

    /// `field.NotSupported`: the value is not among `supported`.
    #[must_use]
    pub fn not_supported(field: &str, value: &str, supported: &[&str]) -> Self {
        Self::unsupported(field, &go_quote(value), supported)
    }

    /// The same for a parameter with several values, which Go prints as a slice.
    #[must_use]
    pub fn none_supported(field: &str, values: &[&str], supported: &[&str]) -> Self {
        let values = shown_list(values.iter().copied());
        Self::unsupported(field, &format!("[]string{{{values}}}"), supported)
    }

    fn unsupported(field: &str, value: &str, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|s| go_quote(s)).collect();
        let message = format!("Unsupported value: {value}: supported values: {}", supported.join(", "));
        Self::of("FieldValueNotSupported", message, field)
    }

    /// `field.Invalid` on a string.
    #[must_use]
    pub fn invalid(field: &str, value: &str, why: &str) -> Self {
        Self::of("FieldValueInvalid", format!("Invalid value: {}: {why}", go_quote(value)), field)
    }

    /// `field.Required`.
    #[must_use]
    pub fn required(field: &str, why: &str) -> Self {
        let message =
            if why.is_empty() { "Required value".to_owned() } else { format!("Required value: {why}") };
        Self::of("FieldValueRequired", message, field)
    }

    /// `field.TooLong`; `max` in bytes.
    #[must_use]
    pub fn too_long(field: &str, max: usize) -> Self {
        Self::of("FieldValueTooLong", format!("Too long: may not be more than {max} bytes"), field)
    }

    fn of(reason: &str, message: String, field: &str) -> Self {
        Self { reason: reason.to_owned(), message, field: field.to_owned() }
    }

    /// A line for each cause; equal lines only once.
    fn lines(causes: &[Self]) -> Vec<String> {
        let mut said = HashSet::with_capacity(causes.len());
        causes
            .iter()
            .filter(|cause| said.insert((cause.field.as_str(), cause.message.as_str())))
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect()
    }
}

/// `metav1.StatusDetails`; an empty member is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Details {
    name: String,
    group: String,
    /// The resource's plural, or a kind.
    kind: String,
    uid: String,
    causes: Vec<Cause>,
    retry_after_seconds: u32,
}

impl Details {
    fn about(resource: GroupResource<'_>, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            group: resource.group.to_owned(),
            kind: resource.resource.to_owned(),
            ..Self::default()
        }
    }
}

/// A `Status` of version v1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// `metadata.continue`.
    continue_token: String,
    success: bool,
    message: String,
    reason: &'static str,
    details: Option<Box<Details>>,
    /// The HTTP status code; a success does not have it in the JSON.
    code: u16,
    layout_forced: Option<Layout>,
}

impl Status {
    fn failure(code: u16, reason: &'static str, message: String) -> Self {
        Self {
            continue_token: String::new(),
            success: false,
            message: bounds::message(message),
            reason,
            details: None,
            code,
            layout_forced: None,
        }
    }

    fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details.bounded()));
        self
    }

    fn about(self, resource: GroupResource<'_>, name: &str) -> Self {
        self.with_details(Details::about(resource, name))
    }

    /// 200 for a DELETE that removed the object (apiserver `handlers/delete.go`).
    #[must_use]
    pub fn deleted(resource: GroupResource<'_>, name: &str, uid: &str) -> Self {
        let details = Details { uid: uid.to_owned(), ..Details::about(resource, name) };
        Self { success: true, ..Self::failure(200, "", String::new()).with_details(details) }
    }

    /// 200 without details.
    #[must_use]
    pub fn success() -> Self {
        Self { success: true, ..Self::failure(200, "", String::new()) }
    }

    /// 404: the object does not exist (recording 12).
    #[must_use]
    pub fn not_found(resource: GroupResource<'_>, name: &str) -> Self {
        let message = format!("{} {} not found", resource.qualified(), go_quote(name));
        Self::failure(404, "NotFound", message).about(resource, name)
    }

    /// 404: a resource that is not served, in a group that is (recording 12).
    #[must_use]
    pub fn unknown_resource() -> Self {
        let message = "the server could not find the requested resource".to_owned();
        Self::failure(404, "NotFound", message).with_details(Details::default())
    }

    /// 409: a POST of an existing name (apimachinery `NewAlreadyExists`).
    #[must_use]
    pub fn already_exists(resource: GroupResource<'_>, name: &str) -> Self {
        let message = format!("{} {} already exists", resource.qualified(), go_quote(name));
        Self::failure(409, "AlreadyExists", message).about(resource, name)
    }

    /// 409: the object has changed since the client read it (apimachinery `NewConflict`, apiserver `OptimisticLockErrorMsg`).
    #[must_use]
    pub fn conflict(resource: GroupResource<'_>, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict_because(resource, name, why)
    }

    /// 409 for another reason: a precondition that is not met.
    #[must_use]
    pub fn conflict_because(resource: GroupResource<'_>, name: &str, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} {}: {why}", resource.qualified(), go_quote(name));
        Self::failure(409, "Conflict", message).about(resource, name)
    }

    /// 409: an apply would change fields of other owners (apimachinery `NewApplyConflict`), with a cause for each
    /// field.
    #[must_use]
    pub fn apply_conflict(message: String, causes: Vec<Cause>) -> Self {
        Self::failure(409, "Conflict", message).with_details(Details { causes, ..Details::default() })
    }

    /// 403 (apimachinery `NewForbidden`); `name` is "" for a collection.
    #[must_use]
    pub fn forbidden(resource: GroupResource<'_>, name: &str, why: &str) -> Self {
        let resource_name = resource.qualified();
        let message = if name.is_empty() {
            format!("{resource_name} is forbidden: {why}")
        } else {
            format!("{resource_name} {} is forbidden: {why}", go_quote(name))
        };
        Self::failure(403, "Forbidden", message).about(resource, name)
    }

    /// 403 for a path that names no object (apimachinery `NewForbidden` without a resource).
    #[must_use]
    pub fn forbidden_path(why: &str) -> Self {
        Self::failure(403, "Forbidden", format!("forbidden: {why}")).with_details(Details::default())
    }

    /// 401 (recording 22).
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::failure(401, "Unauthorized", "Unauthorized".to_owned())
    }

    /// 400 (recordings 02, 08, 09).
    #[must_use]
    pub fn bad_request(message: String) -> Self {
        Self::failure(400, "BadRequest", message)
    }

    /// 405 (recording 12).
    #[must_use]
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource".to_owned();
        Self::failure(405, "MethodNotAllowed", message).with_details(Details::default())
    }

    /// 406, always pretty (recording 12). `representations` are the available media types.
    #[must_use]
    pub fn not_acceptable(representations: &[&str]) -> Self {
        let list = representations.join(", ");
        let message = format!("406: Not Acceptable\n\nAvailable representations: {list}");
        let status = Self::failure(406, "NotAcceptable", message).with_details(Details::default());
        Self { layout_forced: Some(Layout::Pretty), ..status }
    }

    /// 406 when the media type is available, but not its parameters (apiserver `negotiation/errors.go`; recording 17).
    #[must_use]
    pub fn not_accepted(accepted: &[&str]) -> Self {
        let list = accepted.join(", ");
        Self::not_accepted_because(format!("only the following media types are accepted: {list}"))
    }

    /// 406 for another reason.
    #[must_use]
    pub fn not_accepted_because(why: String) -> Self {
        Self::failure(406, "NotAcceptable", why)
    }

    /// 415 (apiserver `negotiation/errors.go`). `accepted` are the media types that a body may have.
    #[must_use]
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let list = accepted.join(", ");
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {list}"
        );
        Self::failure(415, "UnsupportedMediaType", message)
    }

    /// 422 (apimachinery `NewInvalid`). `kind` and `group` name what was validated; `name` may be "".
    #[must_use]
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let what = GroupResource { group, resource: kind };
        let lines = Cause::lines(&causes);
        let why = match lines.as_slice() {
            [] => "<nil>".to_owned(),
            [one] => one.clone(),
            many => format!("[{}]", bounds::listed(many)),
        };
        let message = format!("{} {} is invalid: {why}", what.qualified(), go_quote(name));
        let details = Details { causes, ..Details::about(what, name) };
        Self::failure(422, "Invalid", message).with_details(details)
    }

    /// 429 (apimachinery `NewTooManyRequests`): try again in `retry_after_seconds`.
    #[must_use]
    pub fn too_many_requests(message: String, retry_after_seconds: u32) -> Self {
        let details = Details { retry_after_seconds, ..Details::default() };
        Self::failure(429, "TooManyRequests", message).with_details(details)
    }

    /// 429 while the source has not delivered the first state (apiserver `cacher/util.go`).
    #[must_use]
    pub fn initializing(retry_after_seconds: u32) -> Self {
        Self::too_many_requests("storage is (re)initializing".to_owned(), retry_after_seconds)
    }

    /// 413: a body over `limit` bytes (apimachinery `NewRequestEntityTooLargeError`, apiserver `handlers/rest.go`).
    #[must_use]
    pub fn request_entity_too_large(limit: usize) -> Self {
        Self::failure(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"))
    }

    /// 503 (apimachinery `NewServiceUnavailable`): try again in `retry_after_seconds`.
    #[must_use]
    pub fn service_unavailable(message: String, retry_after_seconds: u32) -> Self {
        let details = Details { retry_after_seconds, ..Details::default() };
        Self::failure(503, "ServiceUnavailable", message).with_details(details)
    }

    /// 507 (RFC 4918, section 11.5): the store has no room. Kubernetes has no reason for it.
    #[must_use]
    pub fn insufficient_storage(message: String) -> Self {
        Self::failure(507, "InsufficientStorage", message)
    }

    /// 500 (apimachinery `NewInternalError`).
    #[must_use]
    pub fn internal_error(why: &str) -> Self {
        let causes = vec![Cause { message: why.to_owned(), ..Cause::default() }];
        let details = Details { causes, ..Details::default() };
        Self::failure(500, "InternalError", format!("Internal error occurred: {why}")).with_details(details)
    }

    /// 500: a stored value cannot be read (apimachinery `StatusReasonStoreReadError`).
    #[must_use]
    pub fn unreadable(message: String) -> Self {
        Self::failure(500, "StorageReadError", message)
    }

    /// Any code, without a reason: 500 of an untyped error (recording 08), 414, 431, 505, ...
    #[must_use]
    pub fn other(code: u16, message: String) -> Self {
        Self::failure(code, "", message)
    }

    /// 410 in a watch stream: `asked` is before the window (recording 06). `oldest` is the oldest revision that can
    /// be replayed; the message names the one before it.
    #[must_use]
    pub fn watch_expired(asked: Revision, oldest: Revision) -> Self {
        let message = format!("too old resource version: {asked} ({})", oldest.get().saturating_sub(1));
        Self::failure(410, "Expired", message)
    }

    /// 410 in a watch stream of a source whose oldest revision is unknown (recording 06).
    #[must_use]
    pub fn watch_compacted() -> Self {
        let message = "The resourceVersion for the provided watch is too old.".to_owned();
        Self::failure(410, "Expired", message)
    }

    /// 410: a list at an exact revision that is compacted (recording 06).
    #[must_use]
    pub fn list_expired() -> Self {
        Self::failure(410, "Expired", "The resourceVersion for the provided list is too old.".to_owned())
    }

    /// 410: the revision of a continue token is compacted (recording 06). `token` continues at the newest revision.
    #[must_use]
    pub fn continue_expired(token: String) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list result. You can start \
                       a new list without the continue parameter, or use the continue token in this response to \
                       retrieve the remainder of the results. Continuing with the provided token results in an \
                       inconsistent list - objects that were created, modified, or deleted between the time the \
                       first chunk was returned and now may show up in the list.";
        Self { continue_token: token, ..Self::failure(410, "Expired", message.to_owned()) }
    }

    /// 504: the source did not answer in time (apimachinery `NewTimeoutError`).
    #[must_use]
    pub fn source_timeout(why: &str, retry_after_seconds: u32) -> Self {
        let details = Details { retry_after_seconds, ..Details::default() };
        Self::failure(504, "Timeout", format!("Timeout: {why}")).with_details(details)
    }

    /// 504: `asked` was not reached in time (recordings 06, 07). `retry_after_seconds` if it was waited for.
    #[must_use]
    pub fn version_too_large(asked: Revision, current: Revision, retry_after_seconds: Option<u32>) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let cause = Cause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        };
        let details = Details {
            causes: vec![cause],
            retry_after_seconds: retry_after_seconds.unwrap_or_default(),
            ..Details::default()
        };
        Self::failure(504, "Timeout", message).with_details(details)
    }

    /// The HTTP status code of the response (an event in a watch stream has it in its JSON only).
    #[must_use]
    pub const fn code(&self) -> u16 {
        self.code
    }

    /// The value of `Retry-After`, when the response has that header.
    #[must_use]
    pub fn retry_after_seconds(&self) -> Option<u32> {
        self.details.as_ref().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0)
    }

    /// For the log: the error.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}
