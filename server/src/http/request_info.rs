//! What a request is about, for counters and the audit log: verb, resource, namespace and name.
//!
//! Owns the verbs of Kubernetes (apiserver `endpoints/request/requestinfo.go`). It never decides whether what it names
//! exists, or is allowed.

use super::request::{Method, RequestHead};
use super::route::{ResourcePath, Routed, Target};

/// The action on a resource; or the method, if no resource is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Read one object, or a document.
    Get,
    /// Read a collection.
    List,
    /// Watch a collection or an object.
    Watch,
    /// Create an object.
    Create,
    /// Replace one.
    Update,
    /// Change a part of one.
    Patch,
    /// Delete one.
    Delete,
    /// Delete many.
    DeleteCollection,
    /// POST to a path that names no resource.
    Post,
    /// Any other method, or one that the path does not support: only a rule for every verb covers it.
    Other,
    /// No head could be parsed.
    Unread,
}

impl Verb {
    /// All verbs, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Get,
        Self::List,
        Self::Watch,
        Self::Create,
        Self::Update,
        Self::Patch,
        Self::Delete,
        Self::DeleteCollection,
        Self::Post,
        Self::Other,
        Self::Unread,
    ];
    /// Verbs that a rule may name for resources.
    pub const OF_RESOURCES: [Self; 8] = [
        Self::Get,
        Self::List,
        Self::Watch,
        Self::Create,
        Self::Update,
        Self::Patch,
        Self::Delete,
        Self::DeleteCollection,
    ];
    /// Verbs that a rule may name for paths.
    pub const OF_PATHS: [Self; 2] = [Self::Get, Self::Post];

    /// That of a request.
    #[must_use]
    pub fn of(head: &RequestHead, routed: &Routed) -> Self {
        match routed {
            Ok(target) if !target.takes(head.method) => Self::Other,
            Ok(Target::Collection { .. }) => Self::on_collection(head.method, head.query.watches()),
            Ok(Target::WatchCollection { .. } | Target::WatchObject { .. }) => Self::Watch,
            Ok(_) | Err(_) => Self::on_object(head.method),
        }
    }

    /// That of a method on one object or document.
    #[must_use]
    pub const fn on_object(method: Method) -> Self {
        match method {
            Method::Get | Method::Head => Self::Get,
            Method::Post => Self::Create,
            Method::Put => Self::Update,
            Method::Patch => Self::Patch,
            Method::Delete => Self::Delete,
            Method::Options | Method::Trace | Method::Other => Self::Other,
        }
    }

    /// That of a method on a collection; `watches`: the query asks to watch it.
    #[must_use]
    pub const fn on_collection(method: Method, watches: bool) -> Self {
        match method {
            Method::Get | Method::Head if watches => Self::Watch,
            Method::Get | Method::Head => Self::List,
            Method::Delete => Self::DeleteCollection,
            Method::Post | Method::Put | Method::Patch | Method::Options | Method::Trace | Method::Other => {
                Self::on_object(method)
            }
        }
    }

    /// As Kubernetes writes it in audit logs and rules.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Post => "post",
            Self::Other => "other",
            Self::Unread => "unread",
        }
    }
}

/// The subject of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// The verb.
    pub verb: Verb,
    /// The resource; `None`: none.
    pub of: Option<ResourcePath>,
    /// The subresource: `status`.
    pub subresource: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// The object's name.
    pub name: Option<String>,
}

impl RequestInfo {
    /// Derives it from a head and what its path names.
    #[must_use]
    pub fn of(head: &RequestHead, routed: &Routed) -> Self {
        let verb = Verb::of(head, routed);
        let target = routed.as_ref().ok();
        let of = target.and_then(Target::names).cloned();
        let (namespace, name, subresource) = match target.filter(|target| target.takes(head.method)) {
            Some(Target::Collection { namespace, .. } | Target::WatchCollection { namespace, .. }) => {
                (namespace.clone(), None, None)
            }
            Some(Target::Object { namespace, name, .. } | Target::WatchObject { namespace, name, .. }) => {
                (namespace.clone(), Some(name.clone()), None)
            }
            Some(Target::Subresource { namespace, name, subresource, .. }) => {
                (namespace.clone(), Some(name.clone()), Some(subresource.clone()))
            }
            Some(_) | None => (None, None, None),
        };
        Self { verb, of, subresource, namespace, name }
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::{Parsed, parse_head};
    use super::super::route::target_of;
    use super::*;

    fn about(line: &str) -> RequestInfo {
        match parse_head(format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()) {
            Ok(Parsed::Complete { head, .. }) => RequestInfo::of(&head, &target_of(&head.path)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn verbs_are_those_of_kubernetes() {
        for (line, verb) in [
            ("GET /api/v1/pods", "list"),
            ("GET /api/v1/pods?watch", "watch"),
            ("GET /api/v1/pods?watch=1", "watch"),
            ("GET /api/v1/pods?watch=false", "list"),
            ("GET /api/v1/pods?labelSelector=watch%3D1", "list"),
            ("GET /api/v1/watch/pods", "watch"),
            ("GET /api/v1/watch/namespaces/a/pods/b", "watch"),
            ("GET /api/v1/namespaces/a/pods/b", "get"),
            ("POST /api/v1/namespaces/a/pods", "create"),
            ("PUT /api/v1/namespaces/a/pods/b", "update"),
            ("PATCH /apis/apps/v1/namespaces/a/deployments/b/status", "patch"),
            ("DELETE /api/v1/namespaces/a/pods/b", "delete"),
            ("DELETE /api/v1/namespaces/a/pods", "deletecollection"),
            ("PUT /api/v1/namespaces/a/pods", "other"),
            ("BREW /version", "other"),
            ("GET /version", "get"),
        ] {
            assert_eq!(about(line).verb.as_str(), verb, "{line}");
        }
        assert!(Verb::ALL.iter().enumerate().all(|(at, verb)| *verb as usize == at));
    }

    #[test]
    fn what_it_is_about_is_named() {
        let status = about("PATCH /apis/apps/v1/namespaces/a/deployments/b/status");
        let of = status.of.expect("a resource");
        assert_eq!(
            (of.group.as_str(), of.version.as_str(), of.resource.as_str()),
            ("apps", "v1", "deployments")
        );
        assert_eq!(
            (status.namespace.as_deref(), status.name.as_deref(), status.subresource.as_deref()),
            (Some("a"), Some("b"), Some("status"))
        );
        let refused = about("PUT /api/v1/namespaces/a/pods");
        assert!(refused.of.is_some() && refused.namespace.is_none());
        assert!(about("GET /version").of.is_none());
    }
}
