//! Authorities of clients' certificates: those of the file, and those that a cluster names.
//!
//! Owns which of them signed a certificate. Front proxies have authorities of their own: what only these signed names no user.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{Error, RootCertStore};

/// Authorities that a cluster names. Empty: it names none, or was not asked yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterAuthorities {
    clients: Vec<CertificateDer<'static>>,
    proxies: Vec<CertificateDer<'static>>,
}

impl ClusterAuthorities {
    /// Reads two bundles in PEM; "" is none.
    ///
    /// # Errors
    /// What is wrong with one of them, in one line.
    pub fn parse(clients: &str, proxies: &str) -> Result<Self, String> {
        let read = |what: &str, pem: &str| {
            let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
            let found = found.map_err(|error| format!("{what} is not PEM: {error}"))?;
            if found.is_empty() && !pem.trim().is_empty() {
                return Err(format!("{what} has no certificate in it"));
            }
            // One that cannot be read signs nothing, and must not keep the others out.
            let readable = |one: &CertificateDer<'static>| RootCertStore::empty().add(one.clone()).is_ok();
            Ok(found.into_iter().filter(readable).collect())
        };
        Ok(Self {
            clients: read("client-ca-file", clients)?,
            proxies: read("requestheader-client-ca-file", proxies)?,
        })
    }
}

/// Which authorities signed a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signers {
    /// Those of clients: it names a user.
    pub is_client: bool,
    /// Those of front proxies: it may speak for users.
    pub is_proxy: bool,
}

type Verifier = Arc<dyn ClientCertVerifier>;

/// What verifies clients' certificates.
#[derive(Clone)]
pub(super) struct Verifiers {
    /// All authorities together: a handshake needs one of them.
    any: Option<Verifier>,
    clients: Option<Verifier>,
    proxies: Option<Verifier>,
}

impl fmt::Debug for Verifiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifiers").field("asks_clients", &self.any.is_some()).finish_non_exhaustive()
    }
}

impl Verifiers {
    /// For the authorities of the file and of the cluster.
    pub(super) fn new(
        file: &[CertificateDer<'static>],
        cluster: &ClusterAuthorities,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, String> {
        let clients = || file.iter().chain(&cluster.clients);
        let of = |all: Vec<&CertificateDer<'static>>| verifier(all, provider);
        Ok(Self {
            any: of(clients().chain(&cluster.proxies).collect())?,
            clients: of(clients().collect())?,
            proxies: of(cluster.proxies.iter().collect())?,
        })
    }

    /// For handshakes; `None`: clients are not asked for certificates.
    pub(super) const fn any(&self) -> Option<&Verifier> {
        self.any.as_ref()
    }

    /// Which authorities signed the first of these certificates, if it is valid now.
    pub(super) fn signers(&self, certificates: &[CertificateDer<'_>]) -> Signers {
        let by = |verifier: Option<&Verifier>| {
            verifier.is_some_and(|verifier| verify(verifier, certificates).is_ok())
        };
        Signers { is_client: by(self.clients.as_ref()), is_proxy: by(self.proxies.as_ref()) }
    }

    /// The same for a certificate that the handshake has verified just now.
    pub(super) fn signers_of_verified(&self, certificates: &[CertificateDer<'_>]) -> Signers {
        match self.proxies {
            None => {
                Signers { is_client: self.clients.is_some() && !certificates.is_empty(), is_proxy: false }
            }
            Some(_) => self.signers(certificates),
        }
    }
}

/// Whether the first of these certificates is valid now.
pub(super) fn verify(verifier: &Verifier, certificates: &[CertificateDer<'_>]) -> Result<(), Error> {
    let (leaf, others) = certificates.split_first().ok_or(Error::NoCertificatesPresented)?;
    verifier.verify_client_cert(leaf, others, UnixTime::now()).map(|_| ())
}

fn verifier(
    authorities: Vec<&CertificateDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Verifier>, String> {
    if authorities.is_empty() {
        return Ok(None);
    }
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority.clone()).map_err(|error| format!("a certificate cannot be read: {error}"))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .allow_unauthenticated()
        .build()
        .map(|verifier| Some(verifier as Verifier))
        .map_err(|error| error.to_string())
}
