//! Certificates and keys in PEM files (RFC 7468), and their errors.

use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use crate::debounce::Fingerprint;
use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Chains and keys have some KiB, bundles of authorities some hundred; a longer file is a mistake.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Paths of certificates and keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The server's certificate first, then its intermediate authorities.
    pub cert: PathBuf,
    /// Its private key, not encrypted.
    pub key: PathBuf,
    /// The authorities of clients; `None`: clients are not asked for certificates.
    pub client_ca: Option<PathBuf>,
}

/// One of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Which {
    /// [`Files::cert`]
    Cert,
    /// [`Files::key`]
    Key,
    /// [`Files::client_ca`]
    ClientCa,
}

impl Which {
    /// The option that names the file.
    #[must_use]
    pub const fn option(self) -> &'static str {
        match self {
            Self::Cert => "tls-cert",
            Self::Key => "tls-key",
            Self::ClientCa => "tls-client-ca",
        }
    }

    /// Its path, if it is configured.
    #[must_use]
    pub fn path(self, files: &Files) -> &Path {
        match self {
            Self::Cert => &files.cert,
            Self::Key => &files.key,
            Self::ClientCa => files.client_ca.as_deref().unwrap_or_else(|| Path::new("")),
        }
    }
}

/// The error in a file, and the remedy. Both without a full stop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    /// The file.
    pub which: Which,
    /// The error.
    pub problem: String,
    /// The remedy.
    pub mend: String,
}

impl Fault {
    pub(super) fn new(which: Which, problem: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { which, problem: problem.into(), mend: mend.into() }
    }
}

/// The content of the files at one moment.
#[derive(Hash)]
pub(super) struct Contents {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

/// Keys are never printed.
impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contents").finish_non_exhaustive()
    }
}

impl Contents {
    pub(super) fn read(files: &Files) -> Result<Self, Fault> {
        Ok(Self {
            cert: read(Which::Cert, &files.cert)?,
            key: read(Which::Key, &files.key)?,
            client_ca: files.client_ca.as_deref().map(|path| read(Which::ClientCa, path)).transpose()?,
        })
    }

    /// The chain: the server's own certificate first.
    pub(super) fn chain(&self) -> Result<Vec<CertificateDer<'static>>, Fault> {
        certificates(Which::Cert, &self.cert)
    }

    /// Distinguishes two bundles of authorities.
    pub(super) fn authorities_fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.client_ca)
    }

    pub(super) fn authorities(&self) -> Result<Option<Vec<CertificateDer<'static>>>, Fault> {
        self.client_ca.as_deref().map(|pem| certificates(Which::ClientCa, pem)).transpose()
    }

    pub(super) fn key(&self) -> Result<PrivateKeyDer<'static>, Fault> {
        let fault = |problem: &str, mend: &str| Fault::new(Which::Key, problem, mend);
        #[allow(clippy::wildcard_enum_match_arm)] // whatever else it is, it is no PEM
        PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| match error {
            // "ENCRYPTED PRIVATE KEY" (PKCS #8), or a header of the old form (RFC 1421).
            PemError::NoItemsFound if has(&self.key, "ENCRYPTED") => fault(
                "the key is encrypted, and the server cannot ask for its password",
                "decrypt it, as with `openssl pkey -in KEY -out PLAIN_KEY`, and do not let other users read the file",
            ),
            PemError::NoItemsFound if has(&self.key, "BEGIN CERTIFICATE") => fault(
                "there is a certificate in it and no key",
                "name the file of the key here, and that of the certificate with --tls-cert",
            ),
            PemError::NoItemsFound => {
                fault("no key in it", "give PEM with a line -----BEGIN PRIVATE KEY-----")
            }
            error => fault(&format!("not PEM: {error}"), "give the complete key as PEM"),
        })
    }
}

fn read(which: Which, path: &Path) -> Result<Vec<u8>, Fault> {
    let fault = |error: &std::io::Error| {
        #[allow(clippy::wildcard_enum_match_arm)] // the system's words say it
        let mend = match error.kind() {
            ErrorKind::NotFound => "name a PEM file that is there",
            ErrorKind::PermissionDenied => "let the user that the server runs as read it",
            _ => "name a readable PEM file",
        };
        Fault::new(which, format!("cannot be read: {error}"), mend)
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| fault(&error))?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| fault(&error))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let problem = format!("has more than {} MiB", FILE_BYTES_MAX >> 20);
        return Err(Fault::new(which, problem, "name a PEM file of certificates or of one key"));
    }
    Ok(bytes)
}

fn certificates(which: Which, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| {
        Fault::new(which, format!("not PEM: {error}"), "give complete certificates as PEM")
    })?;
    if !found.is_empty() {
        return Ok(found);
    }
    Err(if has(pem, "PRIVATE KEY-----") {
        let mend = "name the file of the certificate here, and that of the key with --tls-key";
        Fault::new(which, "there is a key in it and no certificate", mend)
    } else {
        Fault::new(which, "no certificate in it", "give PEM with a line -----BEGIN CERTIFICATE-----")
    })
}

fn has(pem: &[u8], word: &str) -> bool {
    pem.windows(word.len()).any(|at| at == word.as_bytes())
}
