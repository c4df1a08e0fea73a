//! Making replies of the few kinds that there are.

use bytes::Bytes;

use crate::api::discovery::Document;
use crate::api::protobuf::{self, Release};
use crate::frontend::{FullBody, Reply};
use crate::http::indent;
use crate::http::negotiation::{self, Agreed, Media};
use crate::http::request::RequestHead;
use crate::http::response::{Caching, JSON, PAGE_NOT_FOUND, PROTOBUF, TEXT, YAML};
use crate::http::status::{Layout, Status};
use crate::http::websocket::{self, HandshakeError};
use crate::http::yaml;

/// A body with the headers that all have.
pub(super) const fn whole(code: u16, content_type: &'static str, body: Bytes) -> FullBody {
    FullBody {
        code,
        content_type,
        body,
        end: b"",
        retry_after_seconds: None,
        allow: None,
        vary: None,
        etag: None,
        content_encoding: None,
        caching: Caching::Private,
        page_policy: None,
        nosniff: false,
        websocket_version: None,
    }
}

/// The format of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseFormat {
    /// JSON.
    Json(Layout),
    /// YAML.
    Yaml,
    /// Protobuf in Kubernetes' envelope.
    Protobuf,
}

impl ResponseFormat {
    /// The negotiated format; `layout` follows from the query and the client's name.
    pub(super) fn of(agreed: Agreed, layout: Layout) -> Self {
        match agreed.media {
            Media::Yaml => Self::Yaml,
            Media::Protobuf => Self::Protobuf,
            Media::Json => Self::Json(if agreed.pretty { Layout::Pretty } else { layout }),
        }
    }

    /// Of errors, which are indented JSON if the client accepts nothing else that is available.
    pub(super) fn of_errors(accept: Option<&str>, layout: Layout) -> Self {
        negotiation::negotiate_error(accept)
            .map_or(Self::Json(Layout::Pretty), |agreed| Self::of(agreed, layout))
    }

    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Json(_) => JSON,
            Self::Yaml => YAML,
            Self::Protobuf => PROTOBUF,
        }
    }

    /// An object in JSON (one line, no line feed) in the requested layout; on one line also if it would get too long indented.
    ///
    /// # Errors
    /// 500: it has no form in protobuf.
    pub(super) fn body(self, mut json: Vec<u8>, release: Release) -> Result<Bytes, Status> {
        match self {
            Self::Json(Layout::Compact) => {
                json.push(b'\n');
                Ok(json.into())
            }
            Self::Json(Layout::Pretty) => match indent::indented(&json) {
                Some(indented) => Ok(indented.into()),
                None => Self::Json(Layout::Compact).body(json, release),
            },
            Self::Yaml => Ok(yaml::from_json(&json).into()),
            Self::Protobuf => match protobuf::encode(release, &json) {
                Ok(object) => Ok(object.into()),
                Err(error) => Err(Status::unreadable(error.to_string())),
            },
        }
    }

    pub(super) fn status_body(self, status: &Status) -> Bytes {
        match self {
            Self::Json(layout) => status.to_body(layout).into(),
            Self::Yaml => yaml::from_json(status.to_json().as_bytes()).into(),
            Self::Protobuf => protobuf::of_status(&status.to_json()).into(),
        }
    }
}

/// A `Status` and its code.
pub(super) fn status(status: &Status, format: ResponseFormat) -> Reply {
    Reply::FullBody(FullBody {
        retry_after_seconds: status.retry_after_seconds(),
        ..whole(status.code(), format.content_type(), format.status_body(status))
    })
}

/// A refusal before a request is known, in the form that its head asks for.
pub(super) fn spelled(head: &RequestHead, layout: Layout, status: &Status) -> FullBody {
    let format = ResponseFormat::of_errors(head.accept.as_deref(), layout);
    // As kube-apiserver: the user name in it may be anything.
    let nosniff = status.code() == 403;
    let retry_after_seconds = status.retry_after_seconds();
    FullBody {
        nosniff,
        retry_after_seconds,
        ..whole(status.code(), format.content_type(), format.status_body(status))
    }
}

/// 405, with the methods that are allowed.
pub(super) fn method_not_allowed(allow: &'static str, format: ResponseFormat) -> Reply {
    let status = Status::method_not_allowed();
    let body = format.status_body(&status);
    Reply::FullBody(FullBody { allow: Some(allow), ..whole(status.code(), format.content_type(), body) })
}

/// 400 for a WebSocket handshake that is invalid.
pub(super) fn bad_handshake(error: HandshakeError, format: ResponseFormat) -> Reply {
    let status = error.status();
    let body = format.status_body(&status);
    let version = (error == HandshakeError::Version).then_some(websocket::VERSION);
    Reply::FullBody(FullBody {
        websocket_version: version,
        ..whole(status.code(), format.content_type(), body)
    })
}

/// 404 for an unknown path (recording 12).
pub(super) fn page_not_found() -> Reply {
    Reply::FullBody(FullBody { nosniff: true, ..whole(404, TEXT, Bytes::from_static(PAGE_NOT_FOUND)) })
}

/// A document that never changes; 304 when the client has it already.
///
/// `varies` when the same path has other forms for other `Accept` headers.
pub(super) fn document(
    document: &Document,
    media: Media,
    if_none_match: Option<&str>,
    varies: bool,
) -> Reply {
    let fresh = document.etag.as_deref().is_some_and(|etag| holds(if_none_match.unwrap_or_default(), etag));
    let (body, content_type) = match media {
        Media::Json | Media::Yaml | Media::Protobuf if fresh => (Bytes::new(), document.content_type),
        Media::Protobuf => {
            // It is agreed on only where there is one.
            let (body, content_type) =
                document.protobuf.as_ref().map_or((&document.body, JSON), |(body, of)| (body, *of));
            (body.clone(), content_type)
        }
        Media::Json => (document.body.clone(), document.content_type),
        Media::Yaml => (yaml::from_json(&document.body).into(), YAML),
    };
    let caching = if document.etag.is_some() { Caching::Public } else { Caching::Private };
    Reply::FullBody(FullBody {
        vary: varies.then_some("Accept"),
        etag: document.etag.clone(),
        caching,
        ..whole(if fresh { 304 } else { 200 }, content_type, body)
    })
}

/// Whether an `If-None-Match` names `etag` (RFC 9110, section 13.1.2; the comparison is weak).
pub fn holds(if_none_match: &str, etag: &str) -> bool {
    if_none_match.split(',').map(str::trim).any(|one| one == "*" || one.trim_start_matches("W/") == etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etags_compare_weakly() {
        for held in ["\"a\"", "W/\"a\"", "\"b\", \"a\"", "*"] {
            assert!(holds(held, "\"a\""), "{held}");
        }
        for other in ["", "a", "\"b\""] {
            assert!(!holds(other, "\"a\""), "{other}");
        }
    }
}
