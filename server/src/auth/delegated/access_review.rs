//! SubjectAccessReview: whether the API server allows a user an access.
//!
//! Owns the body of the question, which is also what answers are kept by, and the strict reading of the reply (recording 34).

use std::sync::Arc;

use bytes::Bytes;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::cache::{Answer, Key};
use super::review_error::ReviewError;
use crate::auth::access::{Access, Term};
use crate::auth::tokens::digest_of;
use crate::http::request::Method;
use crate::identity::Identity;
use crate::printable::cut;
use crate::upstream::{Question, UpstreamReply};

const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// Bytes of a reason that is kept.
const REASON_BYTES_MAX: usize = 512;

/// The answer about an access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccessAnswer {
    /// Whether it is allowed.
    pub(crate) allowed: bool,
    /// Why, as the reviewer says it; may be empty.
    pub(crate) reason: Arc<str>,
}

impl Answer for AccessAnswer {
    fn is_yes(&self) -> bool {
        self.allowed
    }

    fn bytes(&self) -> usize {
        self.reason.len()
    }
}

/// An access to an object, in the terms of a review.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct ResourceAttributes<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) namespace: &'a str,
    pub(crate) verb: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) group: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) version: &'a str,
    pub(crate) resource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) subresource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) name: &'a str,
    #[serde(rename = "fieldSelector", skip_serializing_if = "Requirements::is_empty")]
    pub(crate) fields: Requirements<'a>,
    #[serde(rename = "labelSelector", skip_serializing_if = "Requirements::is_empty")]
    pub(crate) labels: Requirements<'a>,
}

/// The requirements of a selector.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Requirements<'a> {
    requirements: &'a [Term],
}

impl Requirements<'_> {
    const fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

#[derive(Serialize)]
struct PathAttributes<'a> {
    path: &'a str,
    verb: &'a str,
}

/// What is asked about.
#[derive(Serialize)]
enum Attributes<'a> {
    #[serde(rename = "resourceAttributes")]
    Resource(ResourceAttributes<'a>),
    #[serde(rename = "nonResourceAttributes")]
    Path(PathAttributes<'a>),
}

#[derive(Serialize)]
struct Asked<'a> {
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    kind: &'static str,
    spec: AskedSpec<'a>,
}

#[derive(Serialize)]
struct AskedSpec<'a> {
    #[serde(flatten)]
    attributes: Attributes<'a>,
    user: &'a str,
    groups: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty", serialize_with = "map")]
    extra: &'a [(String, Vec<String>)],
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
}

fn map<S: Serializer>(extra: &[(String, Vec<String>)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(extra.len()))?;
    for (key, values) in extra {
        map.serialize_entry(key, values)?;
    }
    map.end()
}

#[derive(Deserialize)]
struct Reply {
    kind: String,
    status: ReplyStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReplyStatus {
    allowed: bool,
    #[serde(default)]
    denied: bool,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    evaluation_error: String,
}

/// A question about an access: everything that the answer depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccessQuestion {
    pub(super) key: Key,
    body: Bytes,
}

impl AccessQuestion {
    /// Whether `who` may do this.
    pub(crate) fn new(who: &Identity, access: &Access) -> Self {
        let attributes = match access {
            Access::Resource(of) => Attributes::Resource(ResourceAttributes {
                namespace: &of.namespace,
                verb: of.verb.as_str(),
                group: &of.group,
                version: &of.version,
                resource: &of.resource,
                subresource: &of.subresource,
                name: &of.name,
                fields: Requirements { requirements: &of.fields },
                labels: Requirements { requirements: &of.labels },
            }),
            // Kubernetes' verb for a path is its method in lower case.
            Access::Path { method, path, .. } => {
                let verb = method.as_str().to_ascii_lowercase();
                return Self::of(who, Attributes::Path(PathAttributes { path, verb: &verb }));
            }
        };
        Self::of(who, attributes)
    }

    /// Whether `who` may do this to an object.
    pub(crate) fn of_resource(who: &Identity, attributes: ResourceAttributes<'_>) -> Self {
        Self::of(who, Attributes::Resource(attributes))
    }

    fn of(who: &Identity, attributes: Attributes<'_>) -> Self {
        let Identity { name, uid, groups, extra, .. } = who;
        let asked = Asked {
            api_version: "authorization.k8s.io/v1",
            kind: "SubjectAccessReview",
            spec: AskedSpec { attributes, user: name, groups, extra, uid },
        };
        // Text, and lists and maps of it, can always be written.
        let body = serde_json::to_vec(&asked).unwrap_or_default();
        Self { key: digest_of(&body), body: body.into() }
    }

    pub(super) fn question(&self) -> Question {
        Question { method: Method::Post, path: PATH.to_owned(), body: self.body.clone() }
    }
}

/// The answer in a reply.
///
/// # Errors
/// It is no answer.
pub(super) fn read(reply: &UpstreamReply) -> Result<AccessAnswer, ReviewError> {
    // The question is none that could be allowed.
    if reply.code == 422 {
        return Ok(AccessAnswer { allowed: false, reason: "".into() });
    }
    if !matches!(reply.code, 200 | 201) {
        return Err(ReviewError::of_reply("SubjectAccessReview", reply));
    }
    let Reply { kind, status } = serde_json::from_slice(&reply.body)
        .map_err(|error| ReviewError::garbage("SubjectAccessReview", &error))?;
    if kind != "SubjectAccessReview" {
        let why = format_args!("its kind is another one");
        return Err(ReviewError::garbage("SubjectAccessReview", &why));
    }
    let ReplyStatus { allowed, denied, reason, evaluation_error } = status;
    if !evaluation_error.is_empty() {
        crate::log::debug(|| format!("a SubjectAccessReview was answered with an error: {evaluation_error}"));
    }
    Ok(AccessAnswer { allowed: allowed && !denied, reason: cut(&reason, REASON_BYTES_MAX).into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::access::OfResource;
    use crate::http::request_info::Verb;

    fn jane() -> Identity {
        let extra = vec![("example.com/a".to_owned(), vec!["1".to_owned(), "2".to_owned()])];
        Identity::reported("jane".into(), "u1".into(), vec!["dev".into()], extra, None)
    }

    fn of_resource() -> OfResource {
        OfResource {
            verb: Verb::List,
            group: String::new(),
            version: "v1".into(),
            resource: "configmaps".into(),
            subresource: String::new(),
            namespace: "agg".into(),
            name: String::new(),
            fields: Vec::new(),
            labels: Vec::new(),
        }
    }

    fn body(question: &AccessQuestion) -> serde_json::Value {
        serde_json::from_slice(&question.body).expect("JSON")
    }

    #[test]
    fn the_whole_scope_is_asked_about() {
        let term = |key: &str, operator, values: &[&str]| Term {
            key: key.into(),
            operator,
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let access = OfResource {
            fields: vec![term("metadata.name", "In", &["x"])],
            labels: vec![term("app", "Exists", &[])],
            ..of_resource()
        };
        let asked = body(&AccessQuestion::new(&jane(), &Access::Resource(Box::new(access))));
        assert_eq!(
            asked,
            serde_json::json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
                "user": "jane", "uid": "u1", "groups": ["dev", "system:authenticated"],
                "extra": {"example.com/a": ["1", "2"]},
                "resourceAttributes": {"namespace": "agg", "verb": "list", "version": "v1", "resource": "configmaps",
                    "fieldSelector": {"requirements": [{"key": "metadata.name", "operator": "In", "values": ["x"]}]},
                    "labelSelector": {"requirements": [{"key": "app", "operator": "Exists"}]}}}})
        );
        let path = Access::path(Method::Head, &["metrics".to_owned()]);
        let asked = body(&AccessQuestion::new(&Identity::anonymous(), &path));
        assert_eq!(
            asked["spec"],
            serde_json::json!({"user": "system:anonymous", "groups": ["system:unauthenticated"],
                "nonResourceAttributes": {"path": "/metrics", "verb": "head"}})
        );
    }

    #[test]
    fn whatever_differs_is_another_question() {
        let base = Access::Resource(Box::new(of_resource()));
        let key = |who: &Identity, change: &dyn Fn(&mut OfResource)| {
            let mut access = of_resource();
            change(&mut access);
            AccessQuestion::new(who, &Access::Resource(Box::new(access))).key
        };
        let mut keys = vec![AccessQuestion::new(&jane(), &base).key];
        assert_eq!(key(&jane(), &|_| {}), keys[0]);
        keys.extend([
            key(&jane(), &|a| a.verb = Verb::Watch),
            key(&jane(), &|a| a.namespace.clear()),
            key(&jane(), &|a| a.name = "x".into()),
            key(&jane(), &|a| a.subresource = "x".into()),
            key(&jane(), &|a| a.group = "x".into()),
            key(&jane(), &|a| a.version = "v2".into()),
            key(&jane(), &|a| a.resource = "x".into()),
            key(&Identity { uid: "u2".into(), ..jane() }, &|_| {}),
            key(&Identity { groups: vec!["dev,x".into()], ..jane() }, &|_| {}),
            key(&Identity { groups: vec!["dev".into(), "x".into()], ..jane() }, &|_| {}),
            key(&Identity { extra: Vec::new(), ..jane() }, &|_| {}),
            key(&Identity { name: "jane\",\"groups\":[\"system:masters\"]".into(), ..jane() }, &|_| {}),
        ]);
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn answers_are_read_strictly() {
        let answer = |code, status: &str| {
            let body =
                format!(r#"{{"kind":"SubjectAccessReview","metadata":{{}},"spec":{{}},"status":{status}}}"#);
            read(&UpstreamReply { code, body: body.into() }).map(|answer| answer.allowed)
        };
        assert_eq!(answer(201, r#"{"allowed":true,"reason":"RBAC: allowed by \"x\""}"#), Ok(true));
        assert_eq!(answer(201, r#"{"allowed":true,"evaluationError":"half of it failed"}"#), Ok(true));
        assert_eq!(answer(201, r#"{"allowed":false}"#), Ok(false));
        assert_eq!(answer(201, r#"{"allowed":false,"denied":true,"reason":"no"}"#), Ok(false));
        assert_eq!(answer(201, r#"{"allowed":true,"denied":true}"#), Ok(false), "it contradicts itself");
        assert_eq!(answer(422, "{}"), Ok(false));
        for (code, status) in [
            (201, "{}"),
            (201, r#"{"allowed":"true"}"#),
            (201, r#"{"allowed":1}"#),
            (201, r#"{"allowed":null}"#),
            (201, r#"{"allowed":false,"allowed":true}"#),
            (201, "null"),
            (403, r#"{"allowed":true}"#),
            (500, r#"{"allowed":true}"#),
            (404, r#"{"allowed":true}"#),
        ] {
            assert!(answer(code, status).is_err(), "{code} {status}");
        }
    }
}
