//! Certificates for tests: a CA of their own, and the certificates that it signs.
//!
//! Everything is a PEM file, as servers and etcdctl read it, in a folder that the test provides and removes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

/// Long enough for any test.
const DAY: Duration = Duration::from_secs(86_400);
/// Clocks may differ, and a certificate's times are whole seconds.
const LEEWAY: Duration = Duration::from_secs(60);

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// PEM.
    pub cert: PathBuf,
    /// PEM, PKCS #8.
    pub key: PathBuf,
}

/// A certificate authority.
#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
    name: String,
}

impl Authority {
    /// A new CA that writes into a folder. Its name is in the names of the files.
    ///
    /// # Panics
    /// When the folder cannot be written.
    #[must_use]
    pub fn new(folder: &Path, name: &str) -> Self {
        let mut params = params(name, DAY);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a CA signs itself");
        let authority = Self { issuer, folder: folder.to_path_buf(), name: name.to_owned() };
        write(&authority.certificate(), &authority.issuer.pem());
        authority
    }

    /// Its certificate.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.folder.join(format!("{}.pem", self.name))
    }

    /// A server on the loopback.
    ///
    /// # Panics
    /// When the folder cannot be written.
    #[must_use]
    pub fn server(&self) -> Identity {
        self.server_named(&["127.0.0.1", "localhost"])
    }

    /// A server of these names and addresses.
    ///
    /// # Panics
    /// When one is not a name, or the folder cannot be written.
    #[must_use]
    pub fn server_named(&self, names: &[&str]) -> Identity {
        let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut params = params("server", DAY);
        params.subject_alt_names = CertificateParams::new(names).expect("names").subject_alt_names;
        // etcd is a client of itself, with this certificate.
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params, "server")
    }

    /// A client. Where users are required, its common name is one.
    ///
    /// # Panics
    /// When the folder cannot be written.
    #[must_use]
    pub fn client(&self, common_name: &str) -> Identity {
        self.client_for(common_name, DAY)
    }

    /// A client whose certificate ends after this time, to whole seconds.
    ///
    /// # Panics
    /// When the folder cannot be written.
    #[must_use]
    pub fn client_for(&self, common_name: &str, life: Duration) -> Identity {
        let mut params = params(common_name, life);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params, common_name)
    }

    /// Signs, and writes both files; those of an earlier certificate with this name are replaced.
    fn sign(&self, params: &CertificateParams, name: &str) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let signed = params.signed_by(&key, &self.issuer).expect("the CA signs");
        let file = |end: &str| self.folder.join(format!("{}-{name}.{end}", self.name));
        let identity = Identity { cert: file("pem"), key: file("key") };
        write(&identity.cert, &signed.pem());
        write(&identity.key, &key.serialize_pem());
        identity
    }
}

fn params(common_name: &str, life: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    // Strict clients, such as Python's since 3.13, want to know which key signed.
    params.use_authority_key_identifier_extension = true;
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, common_name);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock that was set");
    params.not_before = date_time_ymd(1970, 1, 1) + now.saturating_sub(LEEWAY);
    params.not_after = date_time_ymd(1970, 1, 1) + now + life;
    params
}

/// Atomically, as a renewal should: a reader sees the old file or the new one.
fn write(path: &Path, text: &str) {
    let fresh = path.with_extension("fresh");
    fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, path)).expect("the folder can be written");
}
