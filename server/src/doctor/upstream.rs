//! Whether the upstream answers, and whether the server has the rights there that its options need.

use bytes::Bytes;
use serde_json::{Value, json};

use super::finding::Findings;
use crate::config::Config;
use crate::http::request::Method;
use crate::runtime::ask_upstream;
use crate::upstream::{Current, ForwardIdentity, Question, UpstreamError, UpstreamReply};

const CHECK: &str = "upstream";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// A right that is needed, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Right {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    /// Namespace and name.
    object: Option<(&'static str, &'static str)>,
    option: &'static str,
    mend: &'static str,
}

const DELEGATOR: &str = "bind the ClusterRole system:auth-delegator to it";
const IMPERSONATOR: &str = "give it a ClusterRole with the verb impersonate on users, groups, serviceaccounts and, in \
authentication.k8s.io, uids and the userextras that users have";

const TOKENS: Right = Right {
    verb: "create",
    group: "authentication.k8s.io",
    resource: "tokenreviews",
    object: None,
    option: "--authentication delegated",
    mend: DELEGATOR,
};
const AUTHORITIES: Right = Right {
    verb: "get",
    group: "",
    resource: "configmaps",
    object: Some(("kube-system", "extension-apiserver-authentication")),
    option: "--authentication delegated",
    mend: "bind the Role extension-apiserver-authentication-reader of kube-system to it",
};
const ACCESSES: Right = Right {
    verb: "create",
    group: "authorization.k8s.io",
    resource: "subjectaccessreviews",
    object: None,
    option: "--authorization delegated",
    mend: DELEGATOR,
};
const USERS: Right = Right {
    verb: "impersonate",
    group: "",
    resource: "users",
    object: None,
    option: "--upstream-identity impersonate",
    mend: IMPERSONATOR,
};
const GROUPS: Right = Right { resource: "groups", ..USERS };

impl Right {
    fn question(&self) -> Question {
        let (namespace, name) = self.object.unwrap_or_default();
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "verb": self.verb, "group": self.group, "resource": self.resource, "namespace": namespace, "name": name,
            }},
        });
        Question { method: Method::Post, path: REVIEWS.to_owned(), body: Bytes::from(review.to_string()) }
    }

    fn text(&self) -> String {
        let Self { verb, group, resource, object, .. } = self;
        let of = if group.is_empty() { String::new() } else { format!(".{group}") };
        let at = object.map(|(namespace, name)| format!(" {name} in {namespace}")).unwrap_or_default();
        format!("{verb} {resource}{of}{at}")
    }
}

/// The rights that the options need.
fn rights(config: &Config, identity: ForwardIdentity) -> Vec<Right> {
    let mut rights = Vec::new();
    let delegated = config.delegated();
    if delegated.is_some_and(|delegated| delegated.authentication) {
        rights.extend([TOKENS, AUTHORITIES]);
    }
    if delegated.is_some_and(|delegated| delegated.authorization) {
        rights.push(ACCESSES);
    }
    if identity == ForwardIdentity::Impersonate {
        rights.extend([USERS, GROUPS]);
    }
    rights
}

pub(super) fn look(findings: &mut Findings, config: &Config) {
    let Some(options) = config.upstream() else { return };
    let current = match Current::open(options.clone()) {
        Ok(current) => current,
        Err(why) => return findings.fail(CHECK, &why, "without it the server does not start"),
    };
    let rights = rights(config, options.identity);
    let version = Question { method: Method::Get, path: "/version".to_owned(), body: Bytes::new() };
    let questions = std::iter::once(version).chain(rights.iter().map(Right::question));
    match ask_upstream(&current, questions.collect()) {
        Ok(replies) => judge(findings, &rights, &replies),
        Err(why) => {
            findings.warn(CHECK, &format!("cannot be asked: {why}"), "run the doctor where io_uring works")
        }
    }
}

fn judge(findings: &mut Findings, rights: &[Right], replies: &[Result<UpstreamReply, UpstreamError>]) {
    const MEND: &str = "start it, or fix --upstream, --upstream-ca and the server's own identity there";
    let Some((version, replies)) = replies.split_first() else { return };
    match version {
        Ok(UpstreamReply { code: 200, body }) => {
            let body: Value = serde_json::from_slice(body).unwrap_or_default();
            let version = body["gitVersion"].as_str().unwrap_or("of unknown version");
            findings.fine(CHECK, &format!("answers ({version})"));
        }
        Ok(UpstreamReply { code: 401, .. }) => {
            return findings.warn(
                CHECK,
                "answers, but does not know this server (401)",
                "give a token or certificate that it accepts",
            );
        }
        Ok(UpstreamReply { code, .. }) => {
            findings.warn(CHECK, &format!("answers /version with {code}"), MEND)
        }
        Err(error) => return findings.warn(CHECK, &error.to_string(), MEND),
    }
    for (right, reply) in rights.iter().zip(replies) {
        let (right_is, needs) = (right.text(), format!("({} needs it)", right.option));
        match reply {
            Ok(UpstreamReply { code: 200 | 201, body }) => {
                let review: Value = serde_json::from_slice(body).unwrap_or_default();
                if review["status"]["allowed"] == true {
                    findings.fine(CHECK, &format!("this server may {right_is} {needs}"));
                } else {
                    findings.warn(CHECK, &format!("this server may not {right_is} {needs}"), right.mend);
                }
            }
            Ok(UpstreamReply { code, .. }) => {
                findings.warn(
                    CHECK,
                    &format!("cannot tell whether this server may {right_is} {needs}: {code}"),
                    right.mend,
                );
            }
            Err(error) => {
                findings.warn(
                    CHECK,
                    &format!("cannot tell whether this server may {right_is} {needs}: {error}"),
                    right.mend,
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(code: u16, body: &'static str) -> Result<UpstreamReply, UpstreamError> {
        Ok(UpstreamReply { code, body: Bytes::from_static(body.as_bytes()) })
    }

    fn lines(rights: &[Right], replies: &[Result<UpstreamReply, UpstreamError>]) -> Vec<String> {
        let mut findings = Findings::default();
        judge(&mut findings, rights, replies);
        findings.0.iter().map(|finding| format!("{:?} {}", finding.verdict, finding.line())).collect()
    }

    #[test]
    fn rights_are_named_with_what_needs_them() {
        let version = || reply(200, r#"{"gitVersion":"v1.36.2"}"#);
        let (yes, no) = (r#"{"status":{"allowed":true}}"#, r#"{"status":{"allowed":false}}"#);
        let found = lines(
            &[AUTHORITIES, ACCESSES, USERS],
            &[version(), reply(201, yes), reply(201, no), reply(404, "")],
        );
        assert_eq!(found[0], "Ok upstream: answers (v1.36.2)");
        assert_eq!(
            found[1],
            "Ok upstream: this server may get configmaps extension-apiserver-authentication in kube-system (--authentication delegated needs it)"
        );
        assert_eq!(
            found[2],
            "Warn upstream: this server may not create subjectaccessreviews.authorization.k8s.io (--authorization delegated needs \
             it); bind the ClusterRole system:auth-delegator to it"
        );
        assert!(
            found[3].starts_with("Warn upstream: cannot tell whether this server may impersonate users"),
            "{}",
            found[3]
        );
    }

    #[test]
    fn an_upstream_that_is_away_prevents_nothing() {
        let away = lines(&[TOKENS], &[Err(UpstreamError::Slow), Err(UpstreamError::Slow)]);
        assert_eq!(away.len(), 1);
        assert!(
            away[0].starts_with("Warn upstream: the upstream did not answer in time; start it"),
            "{}",
            away[0]
        );
        let unknown = lines(&[], &[reply(401, "")]);
        assert!(unknown[0].contains("does not know this server (401); give a token"), "{}", unknown[0]);
    }

    #[test]
    fn questions_have_the_scope_of_the_right() {
        let body: Value = serde_json::from_slice(&AUTHORITIES.question().body).expect("JSON");
        assert_eq!(body["spec"]["resourceAttributes"]["namespace"], "kube-system");
        assert_eq!(body["spec"]["resourceAttributes"]["name"], "extension-apiserver-authentication");
    }
}
