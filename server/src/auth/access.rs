//! One access: what a client wants to do, in the terms of rules.
//!
//! Owns the way from a method and a target to a verb on a resource or a path (apiserver
//! `endpoints/request/requestinfo.go`), and the texts of the 403 (apiserver
//! `endpoints/handlers/responsewriters/errors.go`). The name that a selector leaves of a collection is an argument;
//! nothing here reads the store.

use std::fmt;

use serde::Serialize;

use crate::http::go_quote;
use crate::http::request::Method;
use crate::http::request_info::Verb;
use crate::http::route::{ResourcePath, Target};
use crate::http::status::{GroupResource, Status};

/// An access to objects. An empty member is one that the request does not name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OfResource {
    /// The verb.
    pub verb: Verb,
    /// "" is the core group.
    pub group: String,
    /// The plural.
    pub resource: String,
    /// `status`.
    pub subresource: String,
    /// "" for all namespaces, or if the resource has none.
    pub namespace: String,
    /// "" for a collection.
    pub name: String,
    /// The version of the group. Rules do not name it.
    pub version: String,
    /// The terms of a collection's field selector. Rules know only the name that it leaves.
    pub fields: Vec<Term>,
    /// The terms of a collection's label selector. No rule names them.
    pub labels: Vec<Term>,
}

/// One term of a selector, in the words of Kubernetes' API.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Term {
    /// A label or a field.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: &'static str,
    /// What it is compared with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// What a client wants to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// To objects.
    Resource(Box<OfResource>),
    /// To a path that names no object: discovery, documents, metrics.
    Path {
        /// [`Verb::Get`] for GET and HEAD, [`Verb::Post`], or [`Verb::Other`].
        verb: Verb,
        /// The method, as messages name it.
        method: Method,
        /// From its first slash.
        path: String,
    },
}

impl Access {
    /// The access of `method` on `target`. On a collection `watch` is whether the query asks to watch it, and
    /// `selected` the one name that its field selector leaves. `path` are the target's segments.
    #[must_use]
    pub fn new(
        method: Method,
        path: &[String],
        target: &Target,
        watch: bool,
        selected: Option<&str>,
    ) -> Self {
        match target {
            Target::Collection { of, namespace } => {
                let verb = Verb::on_collection(method, watch);
                // A selector narrows reads only: a deletecollection stays one.
                let reads = matches!(verb, Verb::List | Verb::Watch);
                let name = selected.filter(|_| reads).unwrap_or_default();
                Self::to(verb, of, "", namespace.as_deref(), name)
            }
            Target::Object { of, namespace, name } => {
                Self::to_named(Verb::on_object(method), of, "", namespace.as_deref(), name)
            }
            Target::Subresource { of, namespace, name, subresource } => {
                Self::to_named(Verb::on_object(method), of, subresource, namespace.as_deref(), name)
            }
            Target::WatchCollection { of, namespace } => {
                Self::to(Verb::Watch, of, "", namespace.as_deref(), selected.unwrap_or_default())
            }
            Target::WatchObject { of, namespace, name } => {
                Self::to_named(Verb::Watch, of, "", namespace.as_deref(), name)
            }
            Target::Root
            | Target::Api
            | Target::Apis
            | Target::ApiGroup(_)
            | Target::GroupVersion { .. }
            | Target::Version
            | Target::Health { .. }
            | Target::OpenApiV2
            | Target::OpenApiV3Index
            | Target::OpenApiV3 { .. } => Self::path(method, path),
            Target::Unknown => Self::below(method, path).unwrap_or_else(|| Self::path(method, path)),
        }
    }

    /// An access to what is below a subresource, which nothing here serves: `services/NAME/proxy/a/b` is one to
    /// `services/proxy`.
    fn below(method: Method, path: &[String]) -> Option<Self> {
        let segments: Vec<&str> = path.iter().map(String::as_str).collect();
        let (group, version, rest) = match segments.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["watch" | "proxy", ..] | ["namespaces", _, "status" | "finalize", ..] => return None,
            ["namespaces", namespace, rest @ ..] => (Some(*namespace), rest),
            _ => (None, rest),
        };
        let [resource, name, subresource, _, ..] = rest else { return None };
        let parts = [version, resource, name, subresource, namespace.unwrap_or("-")];
        if parts.contains(&"") {
            return None;
        }
        let text = |part: &str| part.to_owned();
        let of = ResourcePath { group: text(group), version: text(version), resource: text(resource) };
        Some(Self::to_named(Verb::on_object(method), &of, subresource, namespace, name))
    }

    /// An access to any path.
    #[must_use]
    pub fn path(method: Method, path: &[String]) -> Self {
        let verb = match method {
            Method::Get | Method::Head => Verb::Get,
            Method::Post => Verb::Post,
            Method::Put
            | Method::Patch
            | Method::Delete
            | Method::Options
            | Method::Trace
            | Method::Other => Verb::Other,
        };
        Self::Path { verb, method, path: format!("/{}", path.join("/")) }
    }

    /// An access to an object that the path names. A namespace is in itself: permission for everything in it includes
    /// the namespace object.
    fn to_named(
        verb: Verb,
        of: &ResourcePath,
        subresource: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Self {
        let is_namespace = of.group.is_empty() && of.resource == "namespaces";
        Self::to(verb, of, subresource, namespace.or_else(|| is_namespace.then_some(name)), name)
    }

    fn to(verb: Verb, of: &ResourcePath, subresource: &str, namespace: Option<&str>, name: &str) -> Self {
        Self::Resource(Box::new(OfResource {
            verb,
            group: of.group.clone(),
            resource: of.resource.clone(),
            subresource: subresource.to_owned(),
            namespace: namespace.unwrap_or_default().to_owned(),
            name: name.to_owned(),
            version: of.version.clone(),
            fields: Vec::new(),
            labels: Vec::new(),
        }))
    }

    /// The same with the selectors of the request, if it is one for a collection (apiserver `endpoints/request/requestinfo.go`).
    #[must_use]
    pub fn with_selectors(mut self, fields: Vec<Term>, labels: Vec<Term>) -> Self {
        if let Self::Resource(of) = &mut self
            && matches!(of.verb, Verb::List | Verb::Watch | Verb::DeleteCollection)
        {
            (of.fields, of.labels) = (fields, labels);
        }
        self
    }

    /// The same object, with another verb.
    #[must_use]
    pub fn with_verb(&self, verb: Verb) -> Self {
        match self {
            Self::Resource(access) => Self::Resource(Box::new(OfResource { verb, ..(**access).clone() })),
            Self::Path { method, path, .. } => Self::Path { verb, method: *method, path: path.clone() },
        }
    }

    /// The 403 for `user`.
    #[must_use]
    pub fn forbidden(&self, user: &str) -> Status {
        self.forbidden_because(user, "")
    }

    /// The 403 for `user`, with the reason of the one that decided it; "": it gave none.
    #[must_use]
    pub fn forbidden_because(&self, user: &str, reason: &str) -> Status {
        let colon = if reason.is_empty() { "" } else { ": " };
        let why = html_safe(&format!("User {} cannot {self}{colon}{reason}", go_quote(user)));
        match self {
            Self::Resource(access) => {
                let of = GroupResource { group: &access.group, resource: &access.resource };
                Status::forbidden(of, &access.name, &why)
            }
            Self::Path { .. } => Status::forbidden_path(&why),
        }
    }
}

/// `get resource "pods" in API group "" in the namespace "a"`.
impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path { method, path, .. } => {
                write!(f, "{} path {}", method.as_str().to_ascii_lowercase(), go_quote(path))
            }
            Self::Resource(access) => {
                let OfResource { verb, group, resource, subresource, namespace, .. } = &**access;
                let slash = if subresource.is_empty() { "" } else { "/" };
                let what = format!("{resource}{slash}{subresource}");
                let (what, group) = (go_quote(&what), go_quote(group));
                write!(f, "{} resource {what} in API group {group} ", verb.as_str())?;
                if namespace.is_empty() {
                    f.write_str("at the cluster scope")
                } else {
                    write!(f, "in the namespace {}", go_quote(namespace))
                }
            }
        }
    }
}

/// A message that a browser may show: it cannot open a tag.
pub(super) fn html_safe(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::route;

    /// `verb group resource subresource namespace name`, with `-` for empty members.
    fn access(method: Method, path: &str, watch: bool, selected: Option<&str>) -> String {
        let segments: Vec<String> = path.split('/').skip(1).map(str::to_owned).collect();
        let target = route::target_of(&segments).expect("a path that can be one");
        match Access::new(method, &segments, &target, watch, selected) {
            Access::Path { verb, path, .. } => format!("{} {path}", verb.as_str()),
            Access::Resource(a) => {
                let parts = [a.verb.as_str(), &a.group, &a.resource, &a.subresource, &a.namespace, &a.name];
                parts.map(|part| if part.is_empty() { "-" } else { part }).join(" ")
            }
        }
    }

    #[test]
    fn methods_and_targets_make_verbs() {
        use Method as M;
        for (method, path, watch, selected, expected) in [
            (M::Get, "/api/v1/configmaps", false, None, "list - configmaps - - -"),
            (M::Get, "/api/v1/configmaps", true, None, "watch - configmaps - - -"),
            (M::Head, "/api/v1/configmaps", false, None, "list - configmaps - - -"),
            (M::Get, "/api/v1/namespaces/a/configmaps", false, Some("x"), "list - configmaps - a x"),
            (M::Get, "/api/v1/namespaces/a/configmaps", true, Some("x"), "watch - configmaps - a x"),
            (M::Get, "/api/v1/configmaps", true, Some("x"), "watch - configmaps - - x"),
            (M::Get, "/api/v1/namespaces/a/configmaps/x", true, Some("y"), "get - configmaps - a x"),
            (M::Post, "/api/v1/namespaces/a/configmaps", false, Some("x"), "create - configmaps - a -"),
            (M::Delete, "/api/v1/namespaces/a/pods", false, Some("x"), "deletecollection - pods - a -"),
            (M::Delete, "/api/v1/namespaces/a/pods/x", false, None, "delete - pods - a x"),
            (
                M::Put,
                "/apis/apps/v1/namespaces/a/deployments/x",
                false,
                None,
                "update apps deployments - a x",
            ),
            (
                M::Patch,
                "/apis/apps/v1/namespaces/a/deployments/x/status",
                false,
                None,
                "patch apps deployments status a x",
            ),
            (M::Get, "/api/v1/watch/pods", false, None, "watch - pods - - -"),
            (M::Get, "/api/v1/watch/namespaces/a/pods", false, Some("x"), "watch - pods - a x"),
            (M::Get, "/api/v1/watch/namespaces/a/pods/x", false, Some("y"), "watch - pods - a x"),
            (M::Get, "/api/v1/nodes/n", false, None, "get - nodes - - n"),
            (M::Get, "/api/v1/namespaces", false, None, "list - namespaces - - -"),
            (M::Get, "/api/v1/namespaces", true, Some("a"), "watch - namespaces - - a"),
            (M::Get, "/api/v1/watch/namespaces/a", false, None, "watch - namespaces - a a"),
            (M::Delete, "/api/v1/namespaces/a", false, None, "delete - namespaces - a a"),
            (M::Put, "/api/v1/namespaces/a/status", false, None, "update - namespaces status a a"),
            (M::Options, "/api/v1/pods", false, None, "other - pods - - -"),
            (
                M::Get,
                "/api/v1/namespaces/a/services/s:80/proxy/b/c",
                false,
                None,
                "get - services proxy a s:80",
            ),
            (M::Post, "/api/v1/nodes/n/proxy/run", false, None, "create - nodes proxy - n"),
            (M::Get, "/apis/g/v1/rs/r/s/t", true, None, "get g rs s - r"),
            (
                M::Get,
                "/api/v1/namespaces/a/services//proxy/b",
                false,
                None,
                "get /api/v1/namespaces/a/services//proxy/b",
            ),
            (M::Get, "/api/v1/watch/pods/p/log/x", false, None, "get /api/v1/watch/pods/p/log/x"),
            (M::Get, "/api", false, None, "get /api"),
            (M::Head, "/openapi/v3/apis/apps/v1", false, None, "get /openapi/v3/apis/apps/v1"),
            (M::Post, "/nowhere", false, None, "post /nowhere"),
            (M::Put, "/version", false, None, "other /version"),
        ] {
            assert_eq!(access(method, path, watch, selected), expected, "{method:?} {path}");
        }
    }

    #[test]
    fn refusals_are_in_the_words_of_kubernetes() {
        let refusal = |method, path: &str| {
            let segments: Vec<String> =
                path.split('/').skip(1).filter(|_| path != "/").map(str::to_owned).collect();
            let target = route::target_of(&segments).expect("a target");
            Access::new(method, &segments, &target, false, None).forbidden("u<1>").to_json()
        };
        let status = |message: &str, details: &str| {
            let head = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":""#;
            format!("{head}{message}\",\"reason\":\"Forbidden\",\"details\":{details},\"code\":403}}")
        };
        let user = r#"User \"u\u0026lt;1\u0026gt;\""#;
        for (method, path, message, details) in [
            (
                Method::Get,
                "/api/v1/namespaces/ns/configmaps/x",
                format!(
                    r#"configmaps \"x\" is forbidden: {user} cannot get resource \"configmaps\" in API group \"\" in the namespace \"ns\""#
                ),
                r#"{"name":"x","kind":"configmaps"}"#,
            ),
            (
                Method::Get,
                "/apis/apps/v1/deployments",
                format!(
                    r#"deployments.apps is forbidden: {user} cannot list resource \"deployments\" in API group \"apps\" at the cluster scope"#
                ),
                r#"{"group":"apps","kind":"deployments"}"#,
            ),
            (
                Method::Put,
                "/api/v1/namespaces/ns/pods/p/status",
                format!(
                    r#"pods \"p\" is forbidden: {user} cannot update resource \"pods/status\" in API group \"\" in the namespace \"ns\""#
                ),
                r#"{"name":"p","kind":"pods"}"#,
            ),
            (Method::Get, "/x", format!(r#"forbidden: {user} cannot get path \"/x\""#), "{}"),
            (Method::Head, "/", format!(r#"forbidden: {user} cannot head path \"/\""#), "{}"),
        ] {
            assert_eq!(refusal(method, path), status(&message, details), "{path}");
        }
    }
}
