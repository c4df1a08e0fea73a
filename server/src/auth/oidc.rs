//! Signed tokens (JWT, RFC 7519) of one OpenID Connect issuer, with the semantics of kube-apiserver's `--oidc-*` flags.
//!
//! Owns which tokens are accepted and their identities. Tokens are read strictly: three parts, an algorithm from a list
//! without symmetric ones, a key from the set, a numeric expiry. The time is an argument.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};

use super::keys::{Algorithm, Keys};
use super::tokens::Digest;
use crate::http::base64url;
use crate::identity::Identity;

/// Tolerated difference of clocks.
pub(super) const LEEWAY: Duration = Duration::from_secs(30);
/// The longest accepted token, in bytes; a header line has no more.
const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// The accepted issuer, and the claims that name a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcOptions {
    /// `iss`, exactly.
    pub issuer: String,
    /// One of `aud`.
    pub client: String,
    /// The claim that names the user.
    pub username_claim: String,
    /// The prefix of the name: see [`Self::prefix`].
    pub username_prefix: String,
    /// The claim that lists groups, if any.
    pub groups_claim: Option<String>,
    /// The prefix of each group.
    pub groups_prefix: String,
}

impl OidcOptions {
    /// The prefix of user names; `asked` is the operator's value: `-` is no prefix, and the default is the issuer and
    /// `#`, but no prefix for the claim `email`, as in kube-apiserver.
    #[must_use]
    pub fn prefix(asked: Option<&str>, claim: &str, issuer: &str) -> String {
        match asked {
            Some("-") => String::new(),
            Some(prefix) => prefix.to_owned(),
            None if claim == "email" => String::new(),
            None => format!("{issuer}#"),
        }
    }

    /// The identity in a token, and the thumbprint of the key that signed it.
    ///
    /// # Errors
    /// It is not accepted; see [`TokenError`].
    pub(super) fn identify(
        &self,
        keys: &Keys,
        token: &str,
        now: SystemTime,
    ) -> Result<(Identity, Digest), TokenError> {
        let (claims, thumbprint) = signed(keys, token)?;
        if claims.get("iss").and_then(Value::as_str) != Some(self.issuer.as_str()) {
            return Err(TokenError::Issuer);
        }
        let meant = match claims.get("aud") {
            Some(Value::String(one)) => *one == self.client,
            Some(Value::Array(many)) => many.iter().any(|one| one.as_str() == Some(self.client.as_str())),
            _ => false,
        };
        if !meant {
            return Err(TokenError::Audience);
        }
        let ends = moment(claims.get("exp").ok_or(TokenError::NoEnd)?)?;
        let ends = ends.checked_add(LEEWAY).ok_or(TokenError::Time)?;
        if now >= ends {
            return Err(TokenError::Expired);
        }
        if let Some(begins) = claims.get("nbf") {
            let begins = moment(begins)?;
            if now.checked_add(LEEWAY).is_none_or(|soon| soon < begins) {
                return Err(TokenError::Early);
            }
        }
        let name = match claims.get(&self.username_claim) {
            Some(Value::String(name)) if !name.is_empty() => format!("{}{name}", self.username_prefix),
            _ => return Err(TokenError::Name),
        };
        if self.username_claim == "email"
            && claims.get("email_verified").is_some_and(|is| *is != Value::Bool(true))
        {
            return Err(TokenError::Email);
        }
        Ok((Identity::proven(name, String::new(), self.groups(&claims)?, Some(ends)), thumbprint))
    }

    fn groups(&self, claims: &Map<String, Value>) -> Result<Vec<String>, TokenError> {
        let group = |value: &Value| match value {
            Value::String(group) if !group.is_empty() => Ok(format!("{}{group}", self.groups_prefix)),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => Err(TokenError::Groups),
        };
        match self.groups_claim.as_ref().and_then(|claim| claims.get(claim)) {
            None => Ok(Vec::new()),
            Some(Value::Array(groups)) => groups.iter().map(group).collect(),
            Some(one) => Ok(vec![group(one)?]),
        }
    }
}

/// Whether a token has the form of a signed one.
pub(super) fn looks_signed(token: &str) -> bool {
    token.bytes().filter(|byte| *byte == b'.').count() == 2
}

/// The claims of a token with a valid signature, and the thumbprint of its key.
fn signed(keys: &Keys, token: &str) -> Result<(Map<String, Value>, Digest), TokenError> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(TokenError::Form);
    }
    let (message, signature) = token.rsplit_once('.').ok_or(TokenError::Form)?;
    let (head, claims) = message.split_once('.').ok_or(TokenError::Form)?;
    let decode = |part: &str| base64url::decode(part).map_err(|_| TokenError::Form);
    let object = |bytes: &[u8]| match serde_json::from_slice(bytes) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) | Err(_) => Err(TokenError::Form),
    };
    let head = object(&decode(head)?)?;
    let text = |member: &str| head.get(member).and_then(Value::as_str).unwrap_or_default();
    // The effect of an unknown extension is not known (RFC 7515, section 4.1.11).
    if head.contains_key("crit") {
        return Err(TokenError::Form);
    }
    let algorithm = Algorithm::named(text("alg")).ok_or(TokenError::Algorithm)?;
    let key = keys.named(text("kid")).ok_or(TokenError::Key)?;
    if !key.verifies(algorithm, message.as_bytes(), &decode(signature)?) {
        return Err(TokenError::Signature);
    }
    Ok((object(&decode(claims)?)?, key.thumbprint))
}

/// A `NumericDate`: seconds since the Unix epoch, possibly with a fraction.
fn moment(value: &Value) -> Result<SystemTime, TokenError> {
    let seconds = value.as_f64().ok_or(TokenError::Time)?;
    let since = Duration::try_from_secs_f64(seconds).map_err(|_| TokenError::Time)?;
    UNIX_EPOCH.checked_add(since).ok_or(TokenError::Time)
}

/// Why a signed token is not accepted. Written to the log, never sent to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// It is not three parts in base64url, two of them JSON objects, or it has extensions.
    Form,
    /// `alg` is not among the accepted ones.
    Algorithm,
    /// `kid` names none of the keys.
    Key,
    /// The signature is not that key's.
    Signature,
    /// `iss` is another issuer.
    Issuer,
    /// `aud` does not have the client id.
    Audience,
    /// It has no `exp`.
    NoEnd,
    /// `exp` or `nbf` is not a time.
    Time,
    /// It has expired.
    Expired,
    /// It is not valid yet.
    Early,
    /// The claim that names the user is missing, empty or not text.
    Name,
    /// `email_verified` is not `true`.
    Email,
    /// The claim of groups is neither text nor a list of it.
    Groups,
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "the token is not a JWT of three parts without extensions",
            Self::Algorithm => "the token's alg is none of RS256/384/512, PS256/384/512, ES256/384, EdDSA",
            Self::Key => "the token's kid is not in --oidc-jwks-file: fetch the issuer's keys again",
            Self::Signature => "the token's signature is not valid",
            Self::Issuer => "the token's iss is not --oidc-issuer-url",
            Self::Audience => "the token's aud does not have --oidc-client-id",
            Self::NoEnd => "the token has no exp",
            Self::Time => "the token's exp or nbf is not a time",
            Self::Expired => "the token has expired",
            Self::Early => "the token is not valid yet: are the clocks right?",
            Self::Name => "the token's user name claim is missing, empty or not text",
            Self::Email => "the token's email is not verified",
            Self::Groups => "the token's claim of groups is neither text nor a list of it",
        })
    }
}

impl std::error::Error for TokenError {}
