//! The terms of a handshake.

use std::fmt;
use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::Ticketer;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{NoServerSessionStorage, ParsedCertificate};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{Error, InconsistentKeys, ServerConfig};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use super::PROTOCOLS;
use super::authorities::{ClusterAuthorities, Signers, Verifiers, verify};
use super::files::{Contents, Fault, Which};
use super::suites::{has_fast_aes, provider};

/// A certificate with its key, and the authorities of clients.
pub struct Terms {
    config: Arc<ServerConfig>,
    key: Arc<SingleCertAndKey>,
    /// The authorities of the file.
    file: Vec<CertificateDer<'static>>,
    verifiers: Verifiers,
    /// The server's own certificate.
    leaf: Option<CertificateDer<'static>>,
    /// Counts how often the authorities changed that clients' certificates are verified by.
    authorities: u64,
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terms").field("verifiers", &self.verifiers).finish_non_exhaustive()
    }
}

impl Terms {
    /// TLS 1.2 and 1.3 with ring's ciphers. A session is resumed by a ticket that the client keeps, encrypted with a
    /// key that belongs to these terms: so no state is held here for it, and sessions under other terms cannot be
    /// resumed.
    pub(super) fn new(
        contents: &Contents,
        cluster: &ClusterAuthorities,
        authorities: u64,
    ) -> Result<Self, Fault> {
        let certified = certified(contents, &provider())?;
        let leaf = certified.cert.first().cloned();
        let key = Arc::new(SingleCertAndKey::from(certified));
        Self::of(key, leaf, contents.authorities()?.unwrap_or_default(), cluster, authorities)
    }

    /// The same with other authorities of the cluster.
    pub(super) fn with_cluster(&self, cluster: &ClusterAuthorities, authorities: u64) -> Result<Self, Fault> {
        Self::of(Arc::clone(&self.key), self.leaf.clone(), self.file.clone(), cluster, authorities)
    }

    fn of(
        key: Arc<SingleCertAndKey>,
        leaf: Option<CertificateDer<'static>>,
        file: Vec<CertificateDer<'static>>,
        cluster: &ClusterAuthorities,
        authorities: u64,
    ) -> Result<Self, Fault> {
        let provider = Arc::new(provider());
        let verifiers = Verifiers::new(&file, cluster, &provider).map_err(|problem| {
            Fault::new(Which::ClientCa, problem, "give certificates of authorities, X.509 version 3")
        })?;
        let odd = |error: Error| Fault::new(Which::Cert, error.to_string(), "give another certificate");
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(odd)?;
        let config = match verifiers.any() {
            Some(verifier) => config.with_client_cert_verifier(Arc::clone(verifier)),
            None => config.with_no_client_auth(),
        };
        let mut config = config.with_cert_resolver(Arc::clone(&key) as Arc<_>);
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        // A client's order says what its processor is good at; without AES here, this server's own decides.
        config.ignore_client_order = !has_fast_aes();
        // After the handshake of TLS 1.3 the runtime encrypts the records itself.
        config.enable_secret_extraction = true;
        config.ticketer = Ticketer::new().map_err(odd)?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Self { config: Arc::new(config), key, file, verifiers, leaf, authorities })
    }

    /// Whether the certificate is valid for this server name.
    #[must_use]
    pub fn is_for(&self, name: &str) -> bool {
        let leaf = self.leaf.as_ref().and_then(|leaf| ParsedCertificate::try_from(leaf).ok());
        let name = ServerName::try_from(name).ok();
        leaf.zip(name).is_some_and(|(leaf, name)| verify_server_name(&leaf, &name).is_ok())
    }

    /// When the server's certificate expires, in seconds of Unix time; `None`: it does not say so in a way that is known here.
    #[must_use]
    pub fn expiry_unix_seconds(&self) -> Option<i64> {
        let (_, leaf) = X509Certificate::from_der(self.leaf.as_ref()?).ok()?;
        Some(leaf.validity().not_after.timestamp())
    }

    /// The number of the authorities: with another one, a certificate that was verified is to be verified again.
    #[must_use]
    pub const fn authorities_generation(&self) -> u64 {
        self.authorities
    }

    /// For a connection that begins.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// Whether a client's certificate is valid now. A handshake checks that itself, but a resumption does not: the
    /// certificate may have expired since.
    ///
    /// # Errors
    /// It is not valid, or these terms ask for none.
    pub fn verify(&self, certificates: &[CertificateDer<'_>]) -> Result<(), Error> {
        verify(self.verifiers.any().ok_or(Error::NoCertificatesPresented)?, certificates)
    }

    /// Which authorities signed a client's certificate, if it is valid now.
    #[must_use]
    pub fn signers(&self, certificates: &[CertificateDer<'_>]) -> Signers {
        self.verifiers.signers(certificates)
    }

    /// The same for one that a handshake under these terms has verified just now.
    #[must_use]
    pub fn signers_of_verified(&self, certificates: &[CertificateDer<'_>]) -> Signers {
        self.verifiers.signers_of_verified(certificates)
    }
}

fn certified(contents: &Contents, provider: &CryptoProvider) -> Result<CertifiedKey, Fault> {
    let chain = contents.chain()?;
    let key = provider.key_provider.load_private_key(contents.key()?).map_err(|error| {
        let mend = "give an RSA key of 2048 to 8192 bits, an ECDSA key (P-256, P-384) or an Ed25519 key";
        Fault::new(Which::Key, format!("a key that cannot be used: {error}"), mend)
    })?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(Error::InconsistentKeys(_)) => Err(Fault::new(
            Which::Key,
            "the key is not that of the first certificate of --tls-cert",
            "give the two that were made together; the server's own certificate comes first in its file",
        )),
        Err(error) => Err(Fault::new(
            Which::Cert,
            format!("its first certificate cannot be read: {error}"),
            "give an X.509 certificate, version 3",
        )),
    }
}
