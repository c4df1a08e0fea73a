//! TokenReview: whether the API server knows a bearer token, and who has it.
//!
//! Owns the body of the question, and the strict reading of the reply (recording 34).

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cache::Answer;
use super::review_error::ReviewError;
use crate::http::base64url;
use crate::http::request::Method;
use crate::identity::Identity;
use crate::printable::cut;
use crate::upstream::{Question, UpstreamReply};

const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
/// Bytes of the reason that is kept, for the log.
const REASON_BYTES_MAX: usize = 512;

/// The answer about a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenAnswer {
    /// Who has it.
    Known(Arc<Identity>),
    /// It is not accepted; why, for the log.
    Unknown(Arc<str>),
}

impl Answer for TokenAnswer {
    fn is_yes(&self) -> bool {
        matches!(self, Self::Known(_))
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Unknown(why) => why.len(),
            Self::Known(who) => {
                let texts = |texts: &[String]| texts.iter().map(|text| text.len() + 24).sum::<usize>();
                let extra: usize = who.extra.iter().map(|(key, values)| key.len() + 48 + texts(values)).sum();
                size_of::<Identity>() + who.name.len() + who.uid.len() + texts(&who.groups) + extra
            }
        }
    }
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
    token: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    audiences: &'a [String],
}

#[derive(Deserialize)]
struct Reply {
    kind: String,
    status: ReplyStatus,
}

#[derive(Deserialize)]
struct ReplyStatus {
    #[serde(default)]
    authenticated: bool,
    user: Option<ReplyUser>,
    #[serde(default)]
    audiences: Vec<String>,
    #[serde(default)]
    error: String,
}

#[derive(Deserialize)]
struct ReplyUser {
    #[serde(default)]
    username: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    extra: std::collections::BTreeMap<String, Vec<String>>,
}

/// The question about `token`; `audiences`: those that it must be made for, or none: the API server's own.
pub(super) fn question(token: &str, audiences: &[String]) -> Question {
    let asked = Asked {
        api_version: "authentication.k8s.io/v1",
        kind: "TokenReview",
        spec: AskedSpec { token, audiences },
    };
    // Text and lists of it can always be written.
    let body = serde_json::to_vec(&asked).unwrap_or_default();
    Question { method: Method::Post, path: PATH.to_owned(), body: Bytes::from(body) }
}

/// The answer in a reply. `expires`: when the token itself ends.
///
/// # Errors
/// It is no answer.
pub(super) fn read(
    reply: &UpstreamReply,
    audiences: &[String],
    expires: Option<SystemTime>,
) -> Result<TokenAnswer, ReviewError> {
    if !matches!(reply.code, 200 | 201) {
        return Err(ReviewError::of_reply("TokenReview", reply));
    }
    let Reply { kind, status } =
        serde_json::from_slice(&reply.body).map_err(|error| ReviewError::garbage("TokenReview", &error))?;
    if kind != "TokenReview" {
        return Err(ReviewError::garbage("TokenReview", &format_args!("its kind is another one")));
    }
    let unknown = |why: &str| Ok(TokenAnswer::Unknown(cut(why, REASON_BYTES_MAX).into()));
    if !status.authenticated {
        return unknown(if status.error.is_empty() {
            "the API server does not know the token"
        } else {
            &status.error
        });
    }
    let Some(user) = status.user.filter(|user| !user.username.is_empty()) else {
        return Err(ReviewError::garbage("TokenReview", &format_args!("authenticated, and no user name")));
    };
    if !audiences.is_empty() && !status.audiences.iter().any(|one| audiences.contains(one)) {
        // A server that does not know audiences says nothing of them.
        return unknown("the token is not known to be for any of --token-audiences");
    }
    let ReplyUser { username, uid, groups, extra } = user;
    let identity = Identity::reported(username, uid, groups, extra.into_iter().collect(), expires);
    Ok(TokenAnswer::Known(Arc::new(identity)))
}

/// When a token ends, if it is a JWT that says so. It is not verified: only an answer about this very token is limited by it.
pub(super) fn expiry(token: &str) -> Option<SystemTime> {
    let mut parts = token.split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    let claims: Value = serde_json::from_slice(&base64url::decode(claims).ok()?).ok()?;
    let since = Duration::try_from_secs_f64(claims.get("exp")?.as_f64()?).ok()?;
    UNIX_EPOCH.checked_add(since)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(code: u16, body: &str) -> UpstreamReply {
        UpstreamReply { code, body: Bytes::copy_from_slice(body.as_bytes()) }
    }

    fn answer(status: &str, audiences: &[&str]) -> Result<TokenAnswer, ReviewError> {
        let audiences: Vec<String> = audiences.iter().map(|one| (*one).to_owned()).collect();
        let body = format!(
            r#"{{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","metadata":{{}},"spec":{{"token":"TOKEN"}},"status":{status}}}"#
        );
        read(&reply(201, &body), &audiences, None)
    }

    const READER: &str = r#"{"authenticated":true,"user":{"username":"system:serviceaccount:agg:reader","uid":"1f44c55b","groups":["system:serviceaccounts","system:serviceaccounts:agg","system:authenticated"],"extra":{"authentication.kubernetes.io/credential-id":["JTI=1673ada2"]}},"audiences":["revcast"]}"#;

    #[test]
    fn what_was_recorded_is_read() {
        let Ok(TokenAnswer::Known(who)) = answer(READER, &["revcast", "x"]) else { panic!("known") };
        assert_eq!((who.name.as_str(), who.uid.as_str()), ("system:serviceaccount:agg:reader", "1f44c55b"));
        assert_eq!(who.groups.len(), 3);
        let id = ("authentication.kubernetes.io/credential-id".to_owned(), vec!["JTI=1673ada2".to_owned()]);
        assert_eq!(who.extra, [id]);
        assert!(matches!(answer(READER, &[]), Ok(TokenAnswer::Known(_))));
        let bad = answer(r#"{"user":{},"error":"invalid bearer token"}"#, &[]);
        assert_eq!(bad, Ok(TokenAnswer::Unknown("invalid bearer token".into())));
    }

    #[test]
    fn a_token_for_others_is_unknown() {
        assert!(matches!(answer(READER, &["other"]), Ok(TokenAnswer::Unknown(_))));
        // A server that is too old to know audiences.
        let old = READER.replace(r#","audiences":["revcast"]"#, "");
        assert!(matches!(answer(&old, &["revcast"]), Ok(TokenAnswer::Unknown(_))));
        assert!(matches!(answer(&old, &[]), Ok(TokenAnswer::Known(_))));
    }

    #[test]
    fn what_is_no_answer_is_none() {
        for status in [
            r#"{"authenticated":"true","user":{"username":"a"}}"#,
            r#"{"authenticated":1,"user":{"username":"a"}}"#,
            r#"{"authenticated":true}"#,
            r#"{"authenticated":true,"user":{}}"#,
            r#"{"authenticated":true,"user":{"username":""}}"#,
            r#"{"authenticated":true,"user":{"username":"a","groups":"system:masters"}}"#,
            r#"{"authenticated":true,"authenticated":false,"user":{"username":"a"}}"#,
            "null",
            "[]",
        ] {
            assert!(answer(status, &[]).is_err(), "{status}");
        }
        let known = format!(r#"{{"kind":"TokenReview","status":{READER}}}"#);
        for code in [200, 201] {
            assert!(read(&reply(code, &known), &[], None).is_ok());
        }
        for code in [202, 301, 400, 401, 403, 404, 429, 500, 503] {
            assert!(read(&reply(code, &known), &[], None).is_err(), "{code}");
        }
        let other = known.replace("TokenReview", "SubjectAccessReview");
        assert!(read(&reply(201, &other), &[], None).is_err());
        assert!(read(&reply(201, ""), &[], None).is_err());
        assert!(read(&reply(201, &known[..known.len() - 1]), &[], None).is_err());
    }

    #[test]
    fn anonymous_users_of_others_stay_anonymous() {
        let status = r#"{"authenticated":true,"user":{"username":"system:anonymous","groups":["system:unauthenticated"]}}"#;
        let Ok(TokenAnswer::Known(who)) = answer(status, &[]) else { panic!("known") };
        assert_eq!(who.groups, ["system:unauthenticated"]);
    }

    #[test]
    fn questions_and_ends_of_tokens() {
        let asked = |audiences: &[String]| question("a\"b", audiences).body;
        let head = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"a\"b""#;
        assert_eq!(asked(&[]), format!("{head}}}}}"));
        assert_eq!(asked(&["x".to_owned()]), format!(r#"{head},"audiences":["x"]}}}}"#));
        let jwt = |claims: &str| format!("e30.{}.c2ln", base64url::encode(claims.as_bytes()));
        assert_eq!(expiry(&jwt(r#"{"exp":100}"#)), Some(UNIX_EPOCH + Duration::from_secs(100)));
        for none in ["", "a", "a.b.c", &jwt("{}"), &jwt(r#"{"exp":"1"}"#), &jwt(r#"{"exp":-1}"#)] {
            assert_eq!(expiry(none), None, "{none}");
        }
    }
}
