//! From a client's certificate to its identity, as in Kubernetes: the common name is the user, each organization a
//! group.
//!
//! It trusts its input: the TLS handshake verifies the signature.

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::tokens::digest_of;
use crate::identity::Identity;

/// The key of a user's `extra` that names the credential (kube-apiserver 1.36; recording 34).
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The certificate of a connection's client, which the handshake verified, and which authorities signed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCertificate<'a> {
    /// In DER.
    pub der: &'a [u8],
    /// An authority of clients: it names a user.
    pub is_client: bool,
    /// An authority of front proxies: it may speak for users.
    pub is_proxy: bool,
}

impl<'a> PeerCertificate<'a> {
    /// One that names a user.
    #[must_use]
    pub const fn client(der: &'a [u8]) -> Self {
        Self { der, is_client: true, is_proxy: false }
    }
}

/// The common name in a certificate's subject, if there is one that is text.
pub(super) fn common_name(der: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let mut names = certificate.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?.to_owned();
    names.next().is_none().then_some(name)
}

/// Why a certificate has no identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateError {
    /// It is not one certificate in DER.
    Form,
    /// Its subject has no common name.
    NoName,
    /// Its subject has several common names, which is ambiguous.
    ManyNames,
    /// A name in its subject is not text, or is empty.
    Text,
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "the client's certificate is not one in DER",
            Self::NoName => "the client's certificate has no common name (CN): it names no user",
            Self::ManyNames => "the client's certificate has several common names (CN): name one user",
            Self::Text => "a name in the subject of the client's certificate is empty or not text",
        })
    }
}

impl std::error::Error for CertificateError {}

/// The identity of a verified leaf certificate, until it expires.
///
/// # Errors
/// It has none; see [`CertificateError`].
pub fn identity(der: &[u8]) -> Result<Identity, CertificateError> {
    let (rest, certificate) = X509Certificate::from_der(der).map_err(|_| CertificateError::Form)?;
    if !rest.is_empty() {
        return Err(CertificateError::Form);
    }
    let subject = certificate.subject();
    let text = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| match attribute.as_str() {
        Ok(text) if !text.is_empty() => Ok(text.to_owned()),
        Ok(_) | Err(_) => Err(CertificateError::Text),
    };
    let mut names = subject.iter_common_name();
    let name = text(names.next().ok_or(CertificateError::NoName)?)?;
    if names.next().is_some() {
        return Err(CertificateError::ManyNames);
    }
    let groups = subject.iter_organization().map(text).collect::<Result<_, _>>()?;
    let ends = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0);
    let expires = UNIX_EPOCH.checked_add(Duration::from_secs(ends));
    let digest: String = digest_of(der).iter().map(|byte| format!("{byte:02x}")).collect();
    let extra = vec![(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={digest}")])];
    Ok(Identity { extra, ..Identity::proven(name, String::new(), groups, expires) })
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair, date_time_ymd};

    use super::*;

    fn der(subject: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in subject {
            params.distinguished_name.push(kind.clone(), DnValue::Utf8String((*value).to_owned()));
        }
        params.not_after = date_time_ymd(2030, 1, 1);
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().to_vec()
    }

    #[test]
    fn the_common_name_is_the_user_and_organizations_are_groups() {
        let organization = DnType::OrganizationName;
        let found = identity(&der(&[(DnType::CommonName, "alice"), (organization, "dev")])).expect("alice");
        assert_eq!(found.name, "alice");
        assert_eq!(found.groups, ["dev", "system:authenticated"]);
        assert_eq!(found.expires, Some(UNIX_EPOCH + Duration::from_secs(1_893_456_000)));
        let odd =
            identity(&der(&[(DnType::CommonName, "jörg, O=system:masters")])).expect("a name is a name");
        assert_eq!((odd.name.as_str(), odd.groups.len()), ("jörg, O=system:masters", 1));
    }

    #[test]
    fn certificates_that_name_nobody() {
        assert_eq!(identity(b""), Err(CertificateError::Form));
        assert_eq!(identity(b"-----BEGIN CERTIFICATE-----"), Err(CertificateError::Form));
        assert_eq!(identity(&der(&[(DnType::OrganizationName, "dev")])), Err(CertificateError::NoName));
        assert_eq!(identity(&der(&[(DnType::CommonName, "")])), Err(CertificateError::Text));
        let mut twice = der(&[(DnType::CommonName, "alice")]);
        twice.extend_from_slice(&twice.clone());
        assert_eq!(identity(&twice), Err(CertificateError::Form), "two are not one");
        // rcgen writes each kind of name once: a common name and a name of another kind become two common names by
        // changing the last byte of the kind (2.5.4.3 is the common name, 2.5.4.7 the locality).
        let mut two = der(&[(DnType::CommonName, "alice"), (DnType::LocalityName, "bob")]);
        let oid = [0x06, 0x03, 0x55, 0x04, 0x07];
        let places: Vec<usize> = two
            .windows(oid.len())
            .enumerate()
            .filter(|(_, window)| *window == oid)
            .map(|(at, _)| at)
            .collect();
        assert!(!places.is_empty());
        for at in places {
            two[at + 4] = 3;
        }
        assert_eq!(identity(&two), Err(CertificateError::ManyNames));
    }

    #[test]
    fn no_bytes_panic() {
        let whole = der(&[(DnType::CommonName, "alice"), (DnType::OrganizationName, "dev")]);
        for at in 0..whole.len() {
            assert!(identity(&whole[..at]).is_err(), "cut at {at}");
            let mut changed = whole.clone();
            changed[at] ^= 0x55;
            let _ = identity(&changed);
        }
    }
}
