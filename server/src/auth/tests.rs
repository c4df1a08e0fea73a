//! Signed tokens with keys that are made here; and the guard with files that change.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256,
    RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding, RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::{Value, json};

use super::credentials::Presented;
use super::keys::Keys;
use super::{
    Access, Authorization, Grant, Guard, Identity, OidcOptions, Options, Refused, TokenError, Visitor,
};
use crate::http::base64url;
use crate::http::request::Method;

const NOW: u64 = 1_800_000_000;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

enum Signer {
    Rsa(&'static dyn RsaEncoding),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

/// The issuer's RSA key: its numbers, and the pair. It is the only one that is not made here: `ring` makes none.
fn rsa_pair() -> &'static (Vec<u8>, Vec<u8>, RsaKeyPair) {
    static PAIR: OnceLock<(Vec<u8>, Vec<u8>, RsaKeyPair)> = OnceLock::new();
    PAIR.get_or_init(|| {
        let pair =
            RsaKeyPair::from_der(include_bytes!("../../tests/fixtures/rsa-2048-key-of-tests.der")).unwrap();
        let RsaPublicKeyComponents::<Vec<u8>> { n, e } = pair.public().into();
        (n, e, pair)
    })
}

fn ec(algorithm: &'static EcdsaSigningAlgorithm) -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap()
}

fn ed() -> Ed25519KeyPair {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap()
}

impl Signer {
    /// The public key, as in a set.
    fn jwk(&self, id: &str) -> Value {
        let text = base64url::encode;
        match self {
            Self::Rsa(_) => {
                let (n, e, _) = rsa_pair();
                json!({"kty": "RSA", "kid": id, "n": text(n), "e": text(e), "use": "sig"})
            }
            Self::Ec(pair) => {
                let point = pair.public_key().as_ref();
                let half = (point.len() - 1) / 2;
                let curve = if half == 32 { "P-256" } else { "P-384" };
                let (x, y) = (text(&point[1..=half]), text(&point[1 + half..]));
                json!({"kty": "EC", "kid": id, "crv": curve, "x": x, "y": y})
            }
            Self::Ed(pair) => {
                json!({"kty": "OKP", "kid": id, "crv": "Ed25519", "x": text(pair.public_key().as_ref())})
            }
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(encoding) => {
                let pair = &rsa_pair().2;
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(*encoding, &random, message, &mut signature).unwrap();
                signature
            }
            Self::Ec(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::Ed(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    fn token(&self, head: &Value, claims: &Value) -> String {
        let part = |value: &Value| base64url::encode(value.to_string().as_bytes());
        let message = format!("{}.{}", part(head), part(claims));
        let signature = base64url::encode(&self.sign(message.as_bytes()));
        format!("{message}.{signature}")
    }
}

fn options() -> OidcOptions {
    OidcOptions {
        issuer: "https://issuer.example".into(),
        client: "revcast".into(),
        username_claim: "sub".into(),
        username_prefix: "https://issuer.example#".into(),
        groups_claim: Some("groups".into()),
        groups_prefix: "oidc:".into(),
    }
}

fn claims() -> Value {
    json!({"iss": "https://issuer.example", "aud": "revcast", "sub": "alice", "exp": NOW + 60, "groups": ["dev"]})
}

fn keys(jwks: &[Value]) -> Keys {
    Keys::parse(Path::new("jwks"), &json!({ "keys": jwks }).to_string()).unwrap()
}

fn identify(
    options: &OidcOptions,
    jwks: &[Value],
    token: &str,
    now: SystemTime,
) -> Result<Identity, TokenError> {
    options.identify(&keys(jwks), token, now).map(|(identity, _)| identity)
}

#[test]
fn every_algorithm_is_checked_with_its_own_kind_of_key_alone() {
    let signers: Vec<(&str, Signer)> = vec![
        ("RS256", Signer::Rsa(&RSA_PKCS1_SHA256)),
        ("RS384", Signer::Rsa(&RSA_PKCS1_SHA384)),
        ("RS512", Signer::Rsa(&RSA_PKCS1_SHA512)),
        ("PS256", Signer::Rsa(&RSA_PSS_SHA256)),
        ("PS384", Signer::Rsa(&RSA_PSS_SHA384)),
        ("PS512", Signer::Rsa(&RSA_PSS_SHA512)),
        ("ES256", Signer::Ec(ec(&ECDSA_P256_SHA256_FIXED_SIGNING))),
        ("ES384", Signer::Ec(ec(&ECDSA_P384_SHA384_FIXED_SIGNING))),
        ("EdDSA", Signer::Ed(ed())),
    ];
    let names: Vec<&str> = signers.iter().map(|(name, _)| *name).collect();
    for (name, signer) in &signers {
        let jwk = [signer.jwk("k")];
        for claimed in
            names.iter().chain(&["none", "None", "NONE", "HS256", "HS384", "HS512", "ES512", "rs256", ""])
        {
            let token = signer.token(&json!({"alg": claimed, "kid": "k"}), &claims());
            let found = identify(&options(), &jwk, &token, at(NOW));
            if claimed == name {
                let found = found.unwrap();
                assert_eq!(found.name, "https://issuer.example#alice");
                assert_eq!(found.groups, ["oidc:dev", "system:authenticated"]);
                assert_eq!(found.expires, Some(at(NOW + 60 + 30)), "with the leeway");
            } else {
                let wrong =
                    if names.contains(claimed) { TokenError::Signature } else { TokenError::Algorithm };
                assert_eq!(found, Err(wrong), "{name} said to be {claimed}");
            }
        }
        // The set may restrict a key to an algorithm.
        let other = if *name == "RS256" { "PS256" } else { "RS256" };
        let mut only = signer.jwk("k");
        only["alg"] = json!(other);
        let token = signer.token(&json!({"alg": name, "kid": "k"}), &claims());
        assert_eq!(identify(&options(), &[only], &token, at(NOW)), Err(TokenError::Signature), "{name}");
    }
}

#[test]
fn a_public_key_is_no_secret() {
    // A forged token: the public key used as the secret of an HMAC.
    let signer = Signer::Rsa(&RSA_PKCS1_SHA256);
    let jwk = signer.jwk("k");
    let part = |value: &Value| base64url::encode(value.to_string().as_bytes());
    let message = format!("{}.{}", part(&json!({"alg": "HS256", "kid": "k"})), part(&claims()));
    for secret in [rsa_pair().0.clone(), jwk["n"].as_str().unwrap().as_bytes().to_vec()] {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &secret);
        let tag = ring::hmac::sign(&key, message.as_bytes());
        let token = format!("{message}.{}", base64url::encode(tag.as_ref()));
        assert_eq!(
            identify(&options(), std::slice::from_ref(&jwk), &token, at(NOW)),
            Err(TokenError::Algorithm)
        );
    }
    let unsigned = format!("{}.{}.", part(&json!({"alg": "none", "kid": "k"})), part(&claims()));
    assert_eq!(identify(&options(), &[jwk], &unsigned, at(NOW)), Err(TokenError::Algorithm));
}

#[test]
fn claims_are_checked_one_by_one() {
    let signer = Signer::Ed(ed());
    let jwks = [signer.jwk("k")];
    let head = json!({"alg": "EdDSA", "kid": "k", "typ": "JWT"});
    let with = |member: &str, value: Value| {
        let mut claims = claims();
        claims[member] = value;
        identify(&options(), &jwks, &signer.token(&head, &claims), at(NOW))
    };
    let without = |member: &str| {
        let mut claims = claims();
        claims.as_object_mut().unwrap().remove(member);
        identify(&options(), &jwks, &signer.token(&head, &claims), at(NOW))
    };
    assert!(with("more", json!(1)).is_ok());
    for (member, value, wrong) in [
        ("iss", json!("https://issuer.example/"), TokenError::Issuer),
        ("iss", json!("https://issuer.exampl"), TokenError::Issuer),
        ("iss", json!(["https://issuer.example"]), TokenError::Issuer),
        ("aud", json!("revcast2"), TokenError::Audience),
        ("aud", json!(["a", "revcas"]), TokenError::Audience),
        ("aud", json!([]), TokenError::Audience),
        ("aud", json!({"revcast": 1}), TokenError::Audience),
        ("exp", json!(NOW - 30), TokenError::Expired),
        ("exp", json!(0), TokenError::Expired),
        ("exp", json!("9999999999"), TokenError::Time),
        ("exp", json!(null), TokenError::Time),
        ("exp", json!(-5), TokenError::Time),
        ("exp", json!(1e300), TokenError::Time),
        ("nbf", json!(NOW + 31), TokenError::Early),
        ("nbf", json!("0"), TokenError::Time),
        ("nbf", json!(null), TokenError::Time),
        ("sub", json!(""), TokenError::Name),
        ("sub", json!(7), TokenError::Name),
        ("groups", json!([1]), TokenError::Groups),
        ("groups", json!([""]), TokenError::Groups),
        ("groups", json!({"a": 1}), TokenError::Groups),
    ] {
        assert_eq!(with(member, value.clone()), Err(wrong), "{member} {value}");
    }
    for (member, wrong) in [
        ("iss", TokenError::Issuer),
        ("aud", TokenError::Audience),
        ("exp", TokenError::NoEnd),
        ("sub", TokenError::Name),
    ] {
        assert_eq!(without(member), Err(wrong), "without {member}");
    }
    assert!(with("aud", json!(["other", "revcast"])).is_ok());
    assert!(with("exp", json!(NOW - 29)).is_ok(), "within the leeway");
    assert!(with("nbf", json!(NOW + 30)).is_ok(), "within the leeway");
    assert_eq!(
        with("exp", json!(NOW as f64 + 0.5)).unwrap().expires,
        Some(at(NOW + 30) + Duration::from_millis(500))
    );
    assert_eq!(with("groups", json!("one")).unwrap().groups, ["oidc:one", "system:authenticated"]);
    assert_eq!(without("groups").unwrap().groups, ["system:authenticated"]);
}

#[test]
fn heads_and_forms() {
    let (signer, other) = (Signer::Ed(ed()), Signer::Ed(ed()));
    let jwks = [signer.jwk("k"), other.jwk("o")];
    let of = |head: Value| identify(&options(), &jwks, &signer.token(&head, &claims()), at(NOW));
    assert!(of(json!({"alg": "EdDSA", "kid": "k"})).is_ok());
    for (head, wrong) in [
        (json!({"alg": "EdDSA", "kid": "o"}), TokenError::Signature),
        (json!({"alg": "EdDSA", "kid": "x"}), TokenError::Key),
        (json!({"alg": "EdDSA"}), TokenError::Key),
        (json!({"alg": "EdDSA", "kid": 1}), TokenError::Key),
        (json!({"kid": "k"}), TokenError::Algorithm),
        (json!({"alg": "EdDSA", "kid": "k", "crit": ["b64"], "b64": false}), TokenError::Form),
        // A key in the token itself is not trusted.
        (json!({"alg": "EdDSA", "jwk": signer.jwk("k")}), TokenError::Key),
        (json!([]), TokenError::Form),
    ] {
        assert_eq!(of(head.clone()), Err(wrong), "{head}");
    }
    let token = signer.token(&json!({"alg": "EdDSA", "kid": "k"}), &claims());
    let parts: Vec<&str> = token.split('.').collect();
    let forged = base64url::encode(claims().to_string().replace("alice", "admin").as_bytes());
    for text in [
        String::new(),
        "..".into(),
        "a.b.c".into(),
        format!("{}.{}", parts[0], parts[1]),
        format!("{token}.x"),
        format!("{token}="),
        format!(" {token}"),
        format!("{}.{}.", parts[0], parts[1]),
        format!("{}.{forged}.{}", parts[0], parts[2]),
        "a".repeat(9000),
    ] {
        assert!(identify(&options(), &jwks, &text, at(NOW)).is_err(), "{text}");
    }
    for at_byte in 0..token.len() {
        let mut bytes = token.clone().into_bytes();
        bytes[at_byte] = if bytes[at_byte] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).unwrap();
        assert!(identify(&options(), &jwks, &changed, at(NOW)).is_err(), "byte {at_byte} of {changed}");
    }
}

#[test]
fn names_are_prefixed_as_kube_apiserver_does() {
    let issuer = "https://issuer.example";
    assert_eq!(OidcOptions::prefix(None, "sub", issuer), "https://issuer.example#");
    assert_eq!(OidcOptions::prefix(None, "email", issuer), "");
    assert_eq!(OidcOptions::prefix(Some("-"), "sub", issuer), "");
    assert_eq!(OidcOptions::prefix(Some("oidc:"), "email", issuer), "oidc:");

    let signer = Signer::Ed(ed());
    let jwks = [signer.jwk("k")];
    let email = OidcOptions {
        username_claim: "email".into(),
        username_prefix: String::new(),
        groups_claim: None,
        ..options()
    };
    let named = |verified: Option<Value>| {
        let mut claims = claims();
        claims["email"] = json!("a@example.com");
        if let Some(verified) = verified {
            claims["email_verified"] = verified;
        }
        let token = signer.token(&json!({"alg": "EdDSA", "kid": "k"}), &claims);
        identify(&email, &jwks, &token, at(NOW)).map(|identity| (identity.name, identity.groups.len()))
    };
    assert_eq!(named(None), Ok(("a@example.com".into(), 1)), "without a claim of groups there are none");
    assert_eq!(named(Some(json!(true))), Ok(("a@example.com".into(), 1)));
    assert_eq!(named(Some(json!(false))), Err(TokenError::Email));
    assert_eq!(named(Some(json!("true"))), Err(TokenError::Email));
}

/// A temporary folder, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("revcast-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn token(text: &str) -> Presented<'_> {
    Presented::Token(text.into())
}

fn path(text: &str) -> Access {
    Access::path(Method::Get, &[text.to_owned()])
}

#[test]
fn who_comes_in_and_who_does_not() {
    let folder = Folder::new("guard");
    let signer = Signer::Ed(ed());
    let jwt = signer.token(&json!({"alg": "EdDSA", "kid": "k"}), &claims());
    let late = signer.token(&json!({"alg": "EdDSA", "kid": "x"}), &claims());
    let base = Options {
        token_file: Some(folder.write("tokens", "t1,bob,1\n")),
        oidc: Some((options(), folder.write("jwks", &json!({"keys": [signer.jwk("k")]}).to_string()))),
        ..Options::default()
    };
    for anonymous in [false, true] {
        let guard = Guard::new(Options { anonymous, ..base.clone() }).unwrap();
        let who = |presented| {
            guard.authenticate(&presented, None, at(NOW), None).map(|v: Visitor| v.identity.name.clone())
        };
        assert_eq!(who(token("t1")), Ok("bob".into()));
        assert_eq!(who(token(&jwt)), Ok("https://issuer.example#alice".into()));
        // Wrong credentials are never treated as none.
        assert_eq!(who(token("t2")), Err(Refused::Unknown));
        assert_eq!(who(token("a.b")), Err(Refused::Unknown));
        assert_eq!(who(token(&late)), Err(Refused::Token(TokenError::Key)));
        assert_eq!(who(Presented::Unreadable("why")), Err(Refused::Unreadable("why")));
        let nobody = if anonymous { Ok("system:anonymous".to_owned()) } else { Err(Refused::Nothing) };
        assert_eq!(who(Presented::Nothing), nobody);
        assert!(!guard.is_open());
    }
    // Without rules, authenticated users may do everything, and others nothing.
    let guard = Guard::new(Options { anonymous: true, ..base }).unwrap();
    let visitor = |presented| guard.authenticate(&presented, None, at(NOW), None).unwrap();
    assert!(guard.allows(&visitor(token("t1")), &path("version")));
    assert!(!guard.allows(&visitor(Presented::Nothing), &path("version")));
    // If no token can authenticate, a token counts as none: clients send what their kubeconfig contains.
    let open = Guard::open();
    let visitor = open.authenticate(&token("anything"), None, at(NOW), None).unwrap();
    assert!(open.allows(&visitor, &path("version")) && open.is_open());
    assert!(open.pass(&visitor, &path("version"), &Grant::Local, Instant::now()).is_none());
}

#[test]
fn certificates_name_users_where_they_are_asked_for() {
    let der = |days: i64| {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, "carol");
        let now = i64::try_from(NOW).unwrap();
        params.not_after = rcgen::date_time_ymd(1970, 1, 1)
            + Duration::from_secs(u64::try_from(now + days * 86_400).unwrap());
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().to_vec()
    };
    let (good, over) = (der(1), der(-1));
    let folder = Folder::new("certificates");
    let base = Options {
        token_file: Some(folder.write("tokens", "t1,bob,1\n")),
        certificates: true,
        anonymous: true,
        ..Options::default()
    };
    let guard = Guard::new(base.clone()).unwrap();
    let who = |presented: Presented<'_>, der: &[u8]| {
        guard.authenticate(&presented, Some(der), at(NOW), None).map(|visitor| visitor.identity.name.clone())
    };
    assert_eq!(who(Presented::Nothing, &good), Ok("carol".into()));
    assert_eq!(who(token("t1"), &good), Ok("carol".into()), "the certificate comes first, as in Kubernetes");
    assert_eq!(who(Presented::Nothing, &over), Err(Refused::CertificateOver), "not as good as none");
    assert_eq!(who(token("t1"), &over), Ok("bob".into()));
    assert!(matches!(who(Presented::Nothing, b"x"), Err(Refused::Certificate(_))));
    // A certificate that was not verified does not count.
    let guard = Guard::new(Options { certificates: false, ..base }).unwrap();
    let visitor = guard.authenticate(&Presented::Nothing, Some(&good), at(NOW), None).unwrap();
    assert_eq!(visitor.identity.name, "system:anonymous");
}

#[test]
fn what_was_allowed_is_asked_again_when_files_change() {
    let folder = Folder::new("again");
    let (first, second) = (Signer::Ed(ed()), Signer::Ed(ed()));
    let set = |signers: &[&Signer]| {
        let keys: Vec<Value> = signers.iter().enumerate().map(|(at, s)| s.jwk(&format!("k{at}"))).collect();
        json!({ "keys": keys }).to_string()
    };
    let rules = |who: &str| format!("[[rule]]\n{who}\nverbs = [\"get\"]\npaths = [\"/a\"]\n");
    let all =
        "users = [\"bob\", \"https://issuer.example#alice\"]\ngroups = [\"dev\", \"system:unauthenticated\"]";
    let options = Options {
        token_file: Some(folder.write("tokens", "t1,bob,1\nt2,dan,2,dev\n")),
        oidc: Some((options(), folder.write("jwks", &set(&[&first])))),
        rules: Some(folder.write("rules", &rules(all))),
        anonymous: true,
        ..Options::default()
    };
    let guard = Guard::new(options).unwrap();
    let jwt = first.token(&json!({"alg": "EdDSA", "kid": "k0"}), &claims());
    let pass = |presented| {
        let visitor = guard.authenticate(&presented, None, at(NOW), None).unwrap();
        assert!(guard.allows(&visitor, &path("a")), "{}", visitor.identity.name);
        assert!(!guard.allows(&visitor, &path("b")));
        guard.pass(&visitor, &path("a"), &Grant::Local, Instant::now()).unwrap()
    };
    let passes: Vec<Box<Authorization>> =
        vec![pass(token("t1")), pass(token("t2")), pass(token(&jwt)), pass(Presented::Nothing)];
    let still = || passes.iter().map(|pass| guard.still_allows(pass)).collect::<Vec<_>>();
    assert_eq!(still(), [true; 4]);
    assert!(!guard.read_again().unwrap() && guard.number() == 0, "nothing changed");

    // An invalid file changes nothing, even if others are valid.
    folder.write("tokens", "t1,bob\n");
    folder.write("rules", &rules("users = [\"nobody\"]"));
    assert!(guard.read_again().is_err());
    assert_eq!((still(), guard.number()), (vec![true; 4], 0));

    // dan has left his group, and bob's token belongs to another user.
    folder.write("tokens", "t1,bobby,1\nt2,dan,2,ops\n");
    folder.write("rules", &rules(&all.replace("\"bob\"", "\"bob\", \"bobby\"")));
    assert!(guard.read_again().unwrap());
    assert_eq!((still(), guard.number()), (vec![false, false, true, true], 1));

    // The key is in the set under another id, then it is not.
    folder.write("tokens", "t1,bob,1\nt2,dan,2,ops\n");
    folder.write("jwks", &set(&[&second, &first]));
    assert!(guard.read_again().unwrap());
    assert_eq!(still(), [true, false, true, true]);
    folder.write("jwks", &set(&[&second]));
    folder.write("rules", &rules("users = [\"bob\", \"https://issuer.example#alice\"]"));
    assert!(guard.read_again().unwrap());
    assert_eq!((still(), guard.number()), (vec![true, false, false, false], 3));
    // The same name with another uid is another user.
    folder.write("tokens", "t1,bob,7\nt2,dan,2,ops\n");
    assert!(guard.read_again().unwrap());
    assert_eq!(still(), [false; 4]);
}
