//! What a path means: from segments and a method to a [`Target`].
//!
//! Owns the forms of Kubernetes' URLs (apiserver `endpoints/request/requestinfo.go`). It never knows which resources
//! exist: a target may name one that is not served.

use std::fmt;

use super::request::Method;
use super::status::Status;
use super::text::go_quote;

/// Bytes of the longest name or namespace (RFC 1123 subdomain).
pub const NAME_BYTES_MAX: usize = 253;

/// A resource as a path names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourcePath {
    /// "" below `/api`.
    pub group: String,
    /// `v1`.
    pub version: String,
    /// The plural: `configmaps`.
    pub resource: String,
}

/// A health check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Check {
    /// `/livez`.
    Livez,
    /// `/readyz`.
    Readyz,
    /// `/healthz`, the oldest.
    Healthz,
}

impl Check {
    /// As in the path and in the last line of a verbose response.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Livez => "livez",
            Self::Readyz => "readyz",
            Self::Healthz => "healthz",
        }
    }
}

/// What a path means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `/`.
    Root,
    /// `/api`.
    Api,
    /// `/apis`.
    Apis,
    /// `/apis/GROUP`.
    ApiGroup(String),
    /// `/api/v1`, `/apis/GROUP/VERSION`.
    GroupVersion {
        /// "" below `/api`.
        group: String,
        /// `v1`.
        version: String,
    },
    /// `/version`.
    Version,
    /// `/livez`, `/readyz/ping`, ...
    Health {
        /// The check.
        check: Check,
        /// One part of it: `ping`, `poststarthook/x`.
        sub: Option<String>,
    },
    /// `/openapi/v2`.
    OpenApiV2,
    /// `/openapi/v3`.
    OpenApiV3Index,
    /// `/openapi/v3/PATH`.
    OpenApiV3 {
        /// `apis/apps/v1`.
        path: String,
    },
    /// All objects of a resource, or those in one namespace.
    Collection {
        /// The resource.
        of: ResourcePath,
        /// The namespace in the path.
        namespace: Option<String>,
    },
    /// One object.
    Object {
        /// The resource.
        of: ResourcePath,
        /// The namespace in the path.
        namespace: Option<String>,
        /// Its name.
        name: String,
    },
    /// A subresource of one object with a path of its own: `status`, `scale`.
    Subresource {
        /// The resource.
        of: ResourcePath,
        /// The namespace in the path.
        namespace: Option<String>,
        /// The object's name.
        name: String,
        /// `status`.
        subresource: String,
    },
    /// The deprecated `/api/v1/watch/...`: a watch on a collection, whatever the query (recording 11).
    WatchCollection {
        /// The resource.
        of: ResourcePath,
        /// The namespace in the path.
        namespace: Option<String>,
    },
    /// The deprecated `/api/v1/watch/.../NAME`: a watch on one object.
    WatchObject {
        /// The resource.
        of: ResourcePath,
        /// The namespace in the path.
        namespace: Option<String>,
        /// Its name.
        name: String,
    },
    /// Nothing: 404, `text/plain`, `404 page not found` (recording 12).
    Unknown,
}

impl Target {
    /// The supported methods, as an `Allow` header lists them; `None` when the target does not exist.
    #[must_use]
    pub const fn allow(&self) -> Option<&'static str> {
        match self {
            Self::Collection { .. } => Some("GET, POST, DELETE"),
            Self::Object { .. } => Some("GET, PUT, PATCH, DELETE"),
            Self::Subresource { .. } => Some("GET, PUT, PATCH"),
            Self::WatchCollection { .. }
            | Self::WatchObject { .. }
            | Self::Root
            | Self::Api
            | Self::Apis
            | Self::ApiGroup(_)
            | Self::GroupVersion { .. }
            | Self::Version
            | Self::OpenApiV2
            | Self::OpenApiV3Index
            | Self::OpenApiV3 { .. } => Some("GET"),
            Self::Health { .. } => Some("GET, HEAD"),
            Self::Unknown => None,
        }
    }

    /// The resource that it names.
    #[must_use]
    pub const fn names(&self) -> Option<&ResourcePath> {
        match self {
            Self::Collection { of, .. }
            | Self::Object { of, .. }
            | Self::Subresource { of, .. }
            | Self::WatchCollection { of, .. }
            | Self::WatchObject { of, .. } => Some(of),
            Self::Root
            | Self::Api
            | Self::Apis
            | Self::ApiGroup(_)
            | Self::GroupVersion { .. }
            | Self::Version
            | Self::Health { .. }
            | Self::OpenApiV2
            | Self::OpenApiV3Index
            | Self::OpenApiV3 { .. }
            | Self::Unknown => None,
        }
    }

    /// The target, if it supports the method.
    ///
    /// # Errors
    /// 405.
    pub fn taking(self, method: Method) -> Routed {
        match self.allow() {
            Some(allow) if !self.takes(method) => {
                let everywhere = matches!(self, Self::Collection { namespace: None, .. });
                Err(RouteError::Method { allow, of: self.names().cloned(), everywhere })
            }
            Some(_) | None => Ok(self),
        }
    }

    /// Whether it supports the method.
    #[must_use]
    pub fn takes(&self, method: Method) -> bool {
        self.allow().is_none_or(|allow| allow.split(", ").any(|allowed| allowed == method.as_str()))
    }
}

/// Why a path and a method are not a target. The client's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// A name or namespace that no object can have: 400.
    Name {
        /// `resource name` or `namespace`.
        what: &'static str,
        /// The name.
        name: String,
        /// The error in it.
        why: &'static str,
    },
    /// The target does not support the method: 405.
    Method {
        /// The supported methods, for `Allow`.
        allow: &'static str,
        /// The resource that the path names: 405 is answered only if it exists.
        of: Option<ResourcePath>,
        /// Whether the path is that of a collection without a namespace: if its objects have namespaces, all of them
        /// together can only be read.
        everywhere: bool,
    },
}

impl RouteError {
    /// The response.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Name { .. } => Status::bad_request(self.to_string()),
            Self::Method { .. } => Status::method_not_allowed(),
        }
    }

    /// The value of `Allow`, when the response has that header.
    #[must_use]
    pub const fn allow(&self) -> Option<&'static str> {
        match self {
            Self::Name { .. } => None,
            Self::Method { allow, .. } => Some(allow),
        }
    }
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { what, name, why } => write!(f, "invalid {what} {}: [{why}]", go_quote(name)),
            Self::Method { allow, .. } => write!(f, "the method is not allowed here: use one of {allow}"),
        }
    }
}

impl std::error::Error for RouteError {}

/// What a path names, or why it names nothing.
pub type Routed = Result<Target, RouteError>;

/// What a path (decoded segments) names, whatever the method. An unknown path is not an error but [`Target::Unknown`].
///
/// # Errors
/// 400 for a name that no object can have.
pub fn target_of(path: &[String]) -> Routed {
    let segments: Vec<&str> = path.iter().map(String::as_str).collect();
    Ok(match segments.as_slice() {
        [] => Target::Root,
        ["version"] => Target::Version,
        ["livez", sub @ ..] => health(Check::Livez, sub),
        ["readyz", sub @ ..] => health(Check::Readyz, sub),
        ["healthz", sub @ ..] => health(Check::Healthz, sub),
        ["openapi", "v2"] => Target::OpenApiV2,
        ["openapi", "v3"] => Target::OpenApiV3Index,
        ["openapi", "v3", path @ ..] if !path.contains(&"") => Target::OpenApiV3 { path: path.join("/") },
        ["api"] => Target::Api,
        ["api", version, rest @ ..] => versioned("", version, rest)?,
        ["apis"] => Target::Apis,
        ["apis", group] if !group.is_empty() => Target::ApiGroup((*group).to_owned()),
        ["apis", group, version, rest @ ..] if !group.is_empty() => versioned(group, version, rest)?,
        _ => Target::Unknown,
    })
}

fn health(check: Check, sub: &[&str]) -> Target {
    if sub.contains(&"") {
        return Target::Unknown;
    }
    Target::Health { check, sub: (!sub.is_empty()).then(|| sub.join("/")) }
}

/// The segments after the version.
fn versioned(group: &str, version: &str, rest: &[&str]) -> Result<Target, RouteError> {
    if version.is_empty() {
        return Ok(Target::Unknown);
    }
    let of = |resource: &str| ResourcePath {
        group: group.to_owned(),
        version: version.to_owned(),
        resource: resource.to_owned(),
    };
    match rest {
        [] => Ok(Target::GroupVersion { group: group.to_owned(), version: version.to_owned() }),
        ["watch", rest @ ..] if !rest.is_empty() => {
            let Some(place) = Place::find(rest)? else { return Ok(Target::Unknown) };
            let Place { namespace, resource, name, subresource } = place;
            Ok(match (name, subresource) {
                (_, Some(_)) => Target::Unknown,
                (Some(name), None) => Target::WatchObject { of: of(resource), namespace, name },
                (None, None) => Target::WatchCollection { of: of(resource), namespace },
            })
        }
        _ => {
            let Some(place) = Place::find(rest)? else { return Ok(Target::Unknown) };
            let Place { namespace, resource, name, subresource } = place;
            Ok(match (name, subresource) {
                (Some(name), Some(subresource)) => Target::Subresource {
                    of: of(resource),
                    namespace,
                    name,
                    subresource: subresource.to_owned(),
                },
                (Some(name), None) => Target::Object { of: of(resource), namespace, name },
                (None, _) => Target::Collection { of: of(resource), namespace },
            })
        }
    }
}

/// `[namespaces/NS/]RESOURCE[/NAME[/SUBRESOURCE]]`.
struct Place<'a> {
    namespace: Option<String>,
    resource: &'a str,
    name: Option<String>,
    subresource: Option<&'a str>,
}

impl<'a> Place<'a> {
    /// `None` when the segments have none of the forms.
    ///
    /// A namespace is itself an object: `namespaces/NS` is one, and so are its subresources `status` and `finalize`.
    fn find(segments: &[&'a str]) -> Result<Option<Self>, RouteError> {
        let (namespace, segments) = match segments {
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => (None, segments),
            ["namespaces", namespace, rest @ ..] => (Some(checked("namespace", namespace)?), rest),
            _ => (None, segments),
        };
        let (resource, name, subresource) = match segments {
            [resource] => (*resource, None, None),
            [resource, name] => (*resource, Some(*name), None),
            [resource, name, subresource] => (*resource, Some(*name), Some(*subresource)),
            _ => return Ok(None),
        };
        if resource.is_empty() || subresource == Some("") {
            return Ok(None);
        }
        let name = name.map(|name| checked("resource name", name)).transpose()?;
        Ok(Some(Self { namespace, resource, name, subresource }))
    }
}

/// Apimachinery `pkg/api/validation/path`: what may be one segment of a path; and the limit of all names.
fn checked(what: &'static str, name: &str) -> Result<String, RouteError> {
    let why = match name {
        "" => "may not be empty",
        "." => "may not be '.'",
        ".." => "may not be '..'",
        name if name.contains('/') => "may not contain '/'",
        name if name.contains('%') => "may not contain '%'",
        name if name.chars().any(char::is_control) => "may not contain control characters",
        name if name.len() > NAME_BYTES_MAX => "may not be longer than 253 bytes",
        name => return Ok(name.to_owned()),
    };
    Err(RouteError::Name { what, name: name.to_owned(), why })
}

#[cfg(test)]
mod tests {
    use super::super::text::noise::Noise;
    use super::*;

    fn route(method: Method, path: &[String]) -> Result<Target, RouteError> {
        target_of(path)?.taking(method)
    }

    fn segments(path: &str) -> Vec<String> {
        path.split('/').skip(1).filter(|_| path != "/").map(str::to_owned).collect()
    }

    fn get(path: &str) -> Target {
        route(Method::Get, &segments(path)).expect("a target")
    }

    fn of(group: &str, version: &str, resource: &str) -> ResourcePath {
        ResourcePath { group: group.to_owned(), version: version.to_owned(), resource: resource.to_owned() }
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn collections_and_objects() {
        let configmaps = of("", "v1", "configmaps");
        assert_eq!(get("/api/v1/configmaps"), Target::Collection { of: configmaps.clone(), namespace: None });
        assert_eq!(
            get("/api/v1/namespaces/t1/configmaps"),
            Target::Collection { of: configmaps.clone(), namespace: some("t1") }
        );
        assert_eq!(
            get("/api/v1/namespaces/t1/configmaps/cm1"),
            Target::Object { of: configmaps, namespace: some("t1"), name: "cm1".to_owned() }
        );
        assert_eq!(
            get("/api/v1/nodes/n1"),
            Target::Object { of: of("", "v1", "nodes"), namespace: None, name: "n1".to_owned() }
        );
        let deployments = of("apps", "v1", "deployments");
        assert_eq!(
            get("/apis/apps/v1/deployments"),
            Target::Collection { of: deployments.clone(), namespace: None }
        );
        assert_eq!(
            get("/apis/apps/v1/namespaces/a/deployments/b/scale"),
            Target::Subresource {
                of: deployments,
                namespace: some("a"),
                name: "b".to_owned(),
                subresource: "scale".to_owned()
            }
        );
    }

    #[test]
    fn namespaces_are_objects_too() {
        let namespaces = of("", "v1", "namespaces");
        let object = Target::Object { of: namespaces.clone(), namespace: None, name: "t1".to_owned() };
        assert_eq!(get("/api/v1/namespaces"), Target::Collection { of: namespaces.clone(), namespace: None });
        assert_eq!(get("/api/v1/namespaces/t1"), object);
        for subresource in ["status", "finalize"] {
            assert_eq!(
                get(&format!("/api/v1/namespaces/t1/{subresource}")),
                Target::Subresource {
                    of: namespaces.clone(),
                    namespace: None,
                    name: "t1".to_owned(),
                    subresource: subresource.to_owned()
                }
            );
        }
        assert_eq!(
            get("/api/v1/namespaces/t1/scale"),
            Target::Collection { of: of("", "v1", "scale"), namespace: some("t1") }
        );
        let inner = get("/api/v1/namespaces/status/pods");
        assert_eq!(inner, Target::Collection { of: of("", "v1", "pods"), namespace: some("status") });
    }

    #[test]
    fn the_deprecated_watch_paths() {
        let configmaps = of("", "v1", "configmaps");
        assert_eq!(
            get("/api/v1/watch/configmaps"),
            Target::WatchCollection { of: configmaps.clone(), namespace: None }
        );
        assert_eq!(
            get("/api/v1/watch/namespaces/t1/configmaps"),
            Target::WatchCollection { of: configmaps.clone(), namespace: some("t1") }
        );
        assert_eq!(
            get("/api/v1/watch/namespaces/t1/configmaps/cm1"),
            Target::WatchObject { of: configmaps, namespace: some("t1"), name: "cm1".to_owned() }
        );
        let namespaces = of("", "v1", "namespaces");
        assert_eq!(
            get("/api/v1/watch/namespaces"),
            Target::WatchCollection { of: namespaces.clone(), namespace: None }
        );
        assert_eq!(
            get("/api/v1/watch/namespaces/t1"),
            Target::WatchObject { of: namespaces, namespace: None, name: "t1".to_owned() }
        );
        assert_eq!(
            get("/apis/apps/v1/watch/deployments"),
            Target::WatchCollection { of: of("apps", "v1", "deployments"), namespace: None }
        );
        assert_eq!(get("/api/v1/watch/namespaces/t1/pods/a/status"), Target::Unknown);
        assert_eq!(get("/api/v1/watch"), Target::Collection { of: of("", "v1", "watch"), namespace: None });
    }

    #[test]
    fn everything_that_is_no_resource() {
        let health = |check: Check, sub: Option<&str>| Target::Health { check, sub: sub.map(str::to_owned) };
        let version = |group: &str, version: &str| Target::GroupVersion {
            group: group.to_owned(),
            version: version.to_owned(),
        };
        let table = [
            ("/", Target::Root),
            ("/api", Target::Api),
            ("/apis", Target::Apis),
            ("/api/v1", version("", "v1")),
            ("/apis/apps", Target::ApiGroup("apps".to_owned())),
            ("/apis/apps/v1", version("apps", "v1")),
            ("/version", Target::Version),
            ("/livez", health(Check::Livez, None)),
            ("/readyz/ping", health(Check::Readyz, Some("ping"))),
            ("/healthz/poststarthook/x", health(Check::Healthz, Some("poststarthook/x"))),
            ("/openapi/v2", Target::OpenApiV2),
            ("/openapi/v3", Target::OpenApiV3Index),
            ("/openapi/v3/apis/apps/v1", Target::OpenApiV3 { path: "apis/apps/v1".to_owned() }),
        ];
        for (path, expected) in table {
            assert_eq!(get(path), expected, "{path}");
        }
        for path in [
            "//",
            "//api",
            "/api//",
            "/api//configmaps",
            "/api/v1//",
            "/apis//v1",
            "/apis/apps//deployments",
            "/livez//ping",
            "/openapi/v3//x",
            "/openapi",
            "/openapi/v2/x",
            "/version/x",
            "/metrics",
            "/API/v1",
            "/api/v1/pods/a/status/x",
            "/api/v1/pods/a//",
            "/api/v1/namespaces/a/pods/b/proxy/x/y",
        ] {
            assert_eq!(get(path), Target::Unknown, "{path}");
        }
        assert_eq!(route(Method::Post, &segments("/nowhere")), Ok(Target::Unknown), "404 comes before 405");
    }

    #[test]
    fn names_that_cannot_be() {
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        let table: &[(&[&str], &str)] = &[
            (&["api", "v1", "pods", ""], "invalid resource name \"\": [may not be empty]"),
            (&["api", "v1", "pods", "a%2fb"], "invalid resource name \"a%2fb\": [may not contain '%']"),
            (&["api", "v1", "pods", "a/b"], "invalid resource name \"a/b\": [may not contain '/']"),
            (&["api", "v1", "pods", ".."], "invalid resource name \"..\": [may not be '..']"),
            (&["api", "v1", "namespaces", "."], "invalid resource name \".\": [may not be '.']"),
            (&["api", "v1", "namespaces", "", "pods"], "invalid namespace \"\": [may not be empty]"),
            (&["api", "v1", "namespaces", "..", "pods", "a"], "invalid namespace \"..\": [may not be '..']"),
            (
                &["api", "v1", "pods", "a\nb"],
                "invalid resource name \"a\\nb\": [may not contain control characters]",
            ),
        ];
        for (path, message) in table {
            let path: Vec<String> = path.iter().map(|s| (*s).to_owned()).collect();
            let error = route(Method::Get, &path).expect_err("no name");
            assert_eq!((error.status().code(), error.to_string().as_str()), (400, *message));
            assert_eq!(error.allow(), None);
        }
        let path = |name: &str| ["api", "v1", "pods", name].map(str::to_owned).to_vec();
        assert!(matches!(route(Method::Get, &path(&long)), Err(RouteError::Name { .. })));
        assert!(matches!(route(Method::Get, &path(&long[1..])), Ok(Target::Object { .. })));
    }

    #[test]
    fn methods() {
        use Method as M;
        let all = [M::Get, M::Head, M::Post, M::Put, M::Patch, M::Delete, M::Options, M::Trace, M::Other];
        let table: &[(&str, &[Method])] = &[
            ("/api/v1/pods", &[M::Get, M::Post, M::Delete]),
            ("/api/v1/pods/a", &[M::Get, M::Put, M::Patch, M::Delete]),
            ("/api/v1/pods/a/status", &[M::Get, M::Put, M::Patch]),
            ("/api/v1/watch/pods", &[M::Get]),
            ("/version", &[M::Get]),
            ("/readyz", &[M::Get, M::Head]),
        ];
        for (path, taken) in table {
            for method in all {
                let routed = route(method, &segments(path));
                if taken.contains(&method) {
                    assert!(routed.is_ok(), "{method:?} {path}");
                } else {
                    let error = routed.expect_err("405");
                    assert_eq!(error.status().code(), 405, "{method:?} {path}");
                    assert_eq!(error.allow(), get(path).allow());
                }
            }
        }
    }

    #[test]
    fn noise_never_panics() {
        let pieces = [
            "api",
            "apis",
            "v1",
            "namespaces",
            "watch",
            "pods",
            "status",
            "",
            "..",
            "a%b",
            "livez",
            "openapi",
        ];
        for seed in 0..20_000 {
            let mut noise = Noise(seed);
            let path: Vec<String> =
                (0..noise.below(9)).map(|_| pieces[noise.below(pieces.len())].to_owned()).collect();
            if let Ok(Target::Object { name, .. } | Target::WatchObject { name, .. }) =
                route(Method::Get, &path)
            {
                assert!(!name.is_empty() && name != ".." && !name.contains('%'), "seed {seed}");
            }
        }
    }
}
