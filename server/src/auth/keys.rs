//! The keys that sign tokens: a JSON Web Key Set (RFC 7517) with the algorithms of RFC 7518 and RFC 8037.
//!
//! Owns which key may verify which algorithm. Only public keys are accepted: a symmetric key (`oct`) could be a
//! published public key, used as a secret. ring does the arithmetic.

use std::collections::HashMap;
use std::path::Path;

use ring::signature::{
    self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;

use super::files::mistake;
use super::tokens::{Digest, digest_of};
use crate::http::base64url;
use crate::setting::ConfigError;

/// Most keys of a set.
const KEYS_MAX: usize = 256;
/// Bits of the smallest and the largest RSA key (ring's own bounds).
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// Signature algorithms. None is symmetric, and none is `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    const ALL: [(&'static str, Self); 9] = [
        ("RS256", Self::Rs256),
        ("RS384", Self::Rs384),
        ("RS512", Self::Rs512),
        ("PS256", Self::Ps256),
        ("PS384", Self::Ps384),
        ("PS512", Self::Ps512),
        ("ES256", Self::Es256),
        ("ES384", Self::Es384),
        ("EdDSA", Self::EdDsa),
    ];

    /// By its exact name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, algorithm)| algorithm)
    }

    /// Those of RSA, with what ring needs.
    fn rsa(self) -> Option<&'static RsaParameters> {
        match self {
            Self::Rs256 => Some(&signature::RSA_PKCS1_2048_8192_SHA256),
            Self::Rs384 => Some(&signature::RSA_PKCS1_2048_8192_SHA384),
            Self::Rs512 => Some(&signature::RSA_PKCS1_2048_8192_SHA512),
            Self::Ps256 => Some(&signature::RSA_PSS_2048_8192_SHA256),
            Self::Ps384 => Some(&signature::RSA_PSS_2048_8192_SHA384),
            Self::Ps512 => Some(&signature::RSA_PSS_2048_8192_SHA512),
            Self::Es256 | Self::Es384 | Self::EdDsa => None,
        }
    }

    /// Those that need only the bytes of a point.
    fn of_point(self) -> Option<&'static dyn VerificationAlgorithm> {
        match self {
            Self::Es256 => Some(&signature::ECDSA_P256_SHA256_FIXED),
            Self::Es384 => Some(&signature::ECDSA_P384_SHA384_FIXED),
            Self::EdDsa => Some(&signature::ED25519),
            Self::Rs256 | Self::Rs384 | Self::Rs512 | Self::Ps256 | Self::Ps384 | Self::Ps512 => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Material {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// With the one algorithm of its curve.
    Point(Algorithm, Vec<u8>),
}

/// One public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    material: Material,
    /// The only algorithm that it is for, if the set says so.
    only: Option<Algorithm>,
    /// Identifies the key.
    pub(super) thumbprint: Digest,
}

impl Key {
    /// Whether `signature` is this key's for `message`, made with `algorithm`. A key of another family, or for another
    /// algorithm, verifies nothing.
    pub(super) fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        if self.only.is_some_and(|only| only != algorithm) {
            return false;
        }
        match &self.material {
            Material::Rsa { modulus, exponent } => algorithm.rsa().is_some_and(|parameters| {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(parameters, message, signature).is_ok()
            }),
            Material::Point(own, point) if *own == algorithm => algorithm
                .of_point()
                .is_some_and(|with| UnparsedPublicKey::new(with, point).verify(message, signature).is_ok()),
            Material::Point(..) => false,
        }
    }
}

/// Keys by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Keys {
    by_id: HashMap<String, Key>,
}

/// A key as written in the set. Sets are made by programs, and have members that are not used here.
#[derive(Debug, Deserialize)]
struct Written {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    n: Option<String>,
    e: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Set {
    keys: Vec<Written>,
}

impl Keys {
    /// Reads the text of `path`. Keys for other uses, of other types or for other algorithms are skipped; so are, with
    /// a log line, keys that could be meant for us and cannot verify anything, so that the others can be used.
    ///
    /// # Errors
    /// It is not a set of keys, two have the same id, or none can verify a token; then the first reason is given.
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        const AGAIN: &str = "fetch the issuer's jwks_uri again";
        let set: Set = serde_json::from_str(text)
            .map_err(|error| mistake(path, error.line(), &format!("not a set of keys: {error}"), AGAIN))?;
        if set.keys.len() > KEYS_MAX {
            return Err(mistake(path, 1, "more than 256 keys", "keep those that sign tokens now"));
        }
        let mut by_id = HashMap::new();
        let mut first = None;
        for (index, written) in set.keys.into_iter().enumerate() {
            let wrong =
                |problem: &str, mend: &str| mistake(path, 1, &format!("key {}: {problem}", index + 1), mend);
            if written.purpose.as_deref().is_some_and(|purpose| purpose != "sig") {
                continue;
            }
            let only = match written.alg.as_deref().map(Algorithm::named) {
                Some(None) => continue,
                Some(only) => only,
                None => None,
            };
            let mut pass_over = |error: ConfigError| {
                crate::log::warn(&format!("a key is ignored: {error}"));
                first.get_or_insert(error);
            };
            let material = match material(&written) {
                Ok(Some(material)) => material,
                Ok(None) => continue,
                Err(problem) => {
                    pass_over(wrong(problem, AGAIN));
                    continue;
                }
            };
            let Some(id) = written.kid.filter(|id| !id.is_empty()) else {
                pass_over(wrong("it has no kid", "give it one, and name it in the header of each token"));
                continue;
            };
            let thumbprint = thumbprint(&material);
            if by_id.insert(id, Key { material, only, thumbprint }).is_some() {
                return Err(wrong("its kid is that of another key", "give each key an id of its own"));
            }
        }
        if by_id.is_empty() {
            let mend = "name a set with RSA, EC (P-256, P-384) or Ed25519 keys for signatures";
            return Err(first.unwrap_or_else(|| mistake(path, 1, "no key that can verify a token", mend)));
        }
        Ok(Self { by_id })
    }

    pub(super) fn named(&self, id: &str) -> Option<&Key> {
        self.by_id.get(id)
    }

    /// Whether the key is still in the set, under any id.
    pub(super) fn has(&self, thumbprint: &Digest) -> bool {
        self.by_id.values().any(|key| key.thumbprint == *thumbprint)
    }
}

fn thumbprint(material: &Material) -> Digest {
    let mut bytes = Vec::new();
    match material {
        Material::Rsa { modulus, exponent } => {
            bytes.extend_from_slice(b"rsa:");
            bytes.extend_from_slice(&(modulus.len() as u64).to_be_bytes());
            bytes.extend_from_slice(modulus);
            bytes.extend_from_slice(exponent);
        }
        Material::Point(algorithm, point) => {
            bytes.extend_from_slice(format!("{algorithm:?}:").as_bytes());
            bytes.extend_from_slice(point);
        }
    }
    digest_of(&bytes)
}

/// The key itself; `None` for types that verify nothing here.
fn material(written: &Written) -> Result<Option<Material>, &'static str> {
    let number = |text: &Option<String>, what| {
        let text = text.as_deref().ok_or(what)?;
        base64url::decode(text.trim_end_matches('=')).map_err(|_| what)
    };
    let point = |len: usize| {
        let what = "its x or y is not a coordinate of its curve in base64url";
        let (x, y) = (number(&written.x, what)?, number(&written.y, what)?);
        if x.len() != len || y.len() != len {
            return Err(what);
        }
        Ok([&[4], &x[..], &y[..]].concat())
    };
    match (written.kty.as_str(), written.crv.as_deref()) {
        ("RSA", _) => {
            let mut modulus = number(&written.n, "its n is not a number in base64url")?;
            let exponent = number(&written.e, "its e is not a number in base64url")?;
            let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
            modulus.drain(..zeros);
            let bits = modulus.len() * 8 - modulus.first().map_or(0, |byte| byte.leading_zeros() as usize);
            if !RSA_BITS.contains(&bits) {
                return Err("it is an RSA key of less than 2048 or more than 8192 bits");
            }
            Ok(Some(Material::Rsa { modulus, exponent }))
        }
        ("EC", Some("P-256")) => Ok(Some(Material::Point(Algorithm::Es256, point(32)?))),
        ("EC", Some("P-384")) => Ok(Some(Material::Point(Algorithm::Es384, point(48)?))),
        ("OKP", Some("Ed25519")) => {
            let what = "its x is not an Ed25519 key in base64url";
            let key = number(&written.x, what)?;
            if key.len() != 32 {
                return Err(what);
            }
            Ok(Some(Material::Point(Algorithm::EdDsa, key)))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Keys, String> {
        Keys::parse(Path::new("/etc/jwks.json"), text).map_err(|error| error.to_string())
    }

    const ED: &str = r#""kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo""#;

    #[test]
    fn keys_for_other_things_are_passed_over() {
        let set = |keys: &str| parse(&format!(r#"{{"keys":[{keys}],"more":1}}"#));
        let keys = set(&format!(
            r#"{{{ED},"kid":"a","x5t":"z"}},{{{ED},"kid":"b","use":"enc"}},{{{ED},"kid":"c","alg":"HS256"}},
               {{"kty":"oct","k":"c2VjcmV0","kid":"d","alg":"HS256"}},{{"kty":"oct","k":"c2VjcmV0","kid":"e"}},
               {{"kty":"EC","crv":"P-521","x":"AA","y":"AA","kid":"f"}},{{"kty":"XX"}}"#
        ));
        let keys = keys.expect("one key");
        assert!(keys.named("a").is_some());
        for id in ["b", "c", "d", "e", "f", ""] {
            assert!(keys.named(id).is_none(), "{id}");
        }
        let beside =
            set(&format!(r#"{{"kty":"RSA","kid":"old","n":"AQAB","e":"AQAB"}},{{{ED}}},{{{ED},"kid":"a"}}"#));
        let beside = beside.expect("a key beside two that are none");
        assert!(beside.named("a").is_some() && beside.named("old").is_none());
        let again = set(&format!(r#"{{{ED},"kid":"other"}}"#)).expect("the same key");
        assert!(again.has(&keys.named("a").expect("a").thumbprint), "a key is itself under another id");
    }

    #[test]
    fn sets_that_are_none() {
        for (text, says) in [
            ("", "/etc/jwks.json:1: not a set of keys: "),
            ("{\n\n\"key\":[]}", "/etc/jwks.json:3: not a set of keys: missing field `keys`"),
            (r#"{"keys":[]}"#, "/etc/jwks.json:1: no key that can verify a token; name a set with RSA"),
            (r#"{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"d"}]}"#, "/etc/jwks.json:1: no key that can"),
            (
                r#"{"keys":[{"kty":"RSA","kid":"a","n":"AQAB","e":"AQAB"}]}"#,
                "/etc/jwks.json:1: key 1: it is an RSA key of less",
            ),
            (
                r#"{"keys":[{"kty":"RSA","kid":"a","e":"AQAB"}]}"#,
                "/etc/jwks.json:1: key 1: its n is not a number",
            ),
            (
                r#"{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA","kid":"a"}]}"#,
                "/etc/jwks.json:1: key 1: its x or y",
            ),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.starts_with(says), "{error}");
        }
        let error = parse(&format!(r#"{{"keys":[{{{ED}}}]}}"#)).expect_err("no id");
        assert!(error.contains("key 1: it has no kid; give it one"), "{error}");
        let twice =
            parse(&format!(r#"{{"keys":[{{{ED},"kid":"a"}},{{{ED},"kid":"a"}}]}}"#)).expect_err("twice");
        assert!(twice.contains("key 2: its kid is that of another key"), "{twice}");
    }
}
