//! Certificates in files, valid and invalid, and files that change.

use std::fs;
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::current::Look;
use super::*;

/// A folder with certificates, removed when it is dropped.
pub(crate) struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A certificate authority.
pub(crate) type Authority = CertifiedIssuer<'static, KeyPair>;

pub(crate) fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("it signs itself")
}

/// PEM of a certificate for `localhost`, and of its key.
pub(crate) fn pair(authority: &Authority) -> (String, String) {
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let key = KeyPair::generate().expect("a key");
    (params.signed_by(&key, authority).expect("it signs").pem(), key.serialize_pem())
}

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("revcast-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("it can be written");
        path
    }

    /// The three files, of one authority.
    pub(crate) fn files(&self, authority: &Authority) -> Files {
        let (cert, key) = pair(authority);
        Files {
            cert: self.write("cert.pem", &cert),
            key: self.write("key.pem", &key),
            client_ca: Some(self.write("ca.pem", &authority.pem())),
        }
    }
}

#[test]
fn files_that_do_not_fit_are_named_with_a_mend() {
    let folder = Folder::new("tls-files");
    let authority = authority();
    let good = folder.files(&authority);
    assert!(Current::open(good.clone()).is_ok());
    let (other_cert, other_key) = pair(&authority);
    let (other_cert, other_key) = (folder.write("c2", &other_cert), folder.write("k2", &other_key));
    let empty = folder.write("empty", "");
    let cut = folder.write("cut", "-----BEGIN CERTIFICATE-----\nMIIB\n");
    let odd = folder.write("odd", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
    let locked = folder.write(
        "locked",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    let odd_key = folder.write("odd-key", "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n");
    let missing = folder.0.join("missing");
    let cert = |path: &PathBuf| Files { cert: path.clone(), ..good.clone() };
    let key = |path: &PathBuf| Files { key: path.clone(), ..good.clone() };
    let ca = |path: &PathBuf| Files { client_ca: Some(path.clone()), ..good.clone() };
    let table = [
        (cert(&missing), Which::Cert, "cannot be read: No such file", "name a PEM file that is there"),
        (cert(&empty), Which::Cert, "no certificate in it", "-----BEGIN CERTIFICATE-----"),
        (cert(&good.key), Which::Cert, "there is a key in it", "that of the key with --tls-key"),
        (cert(&cut), Which::Cert, "not PEM", "complete"),
        (cert(&odd), Which::Cert, "cannot be read", "X.509"),
        (cert(&other_cert), Which::Key, "not that of the first certificate", "made together"),
        (key(&missing), Which::Key, "cannot be read: No such file", "name a PEM file that is there"),
        (key(&empty), Which::Key, "no key in it", "-----BEGIN PRIVATE KEY-----"),
        (key(&good.cert), Which::Key, "a certificate in it and no key", "with --tls-cert"),
        (key(&locked), Which::Key, "encrypted", "openssl pkey"),
        (key(&odd_key), Which::Key, "cannot be used", "ECDSA"),
        (key(&other_key), Which::Key, "not that of the first certificate", "made together"),
        (ca(&missing), Which::ClientCa, "cannot be read: No such file", "name a PEM file that is there"),
        (ca(&good.key), Which::ClientCa, "there is a key in it", "name the file of the certificate"),
        (ca(&odd), Which::ClientCa, "cannot be read", "authorities"),
        (cert(&folder.0), Which::Cert, "cannot be read", "readable PEM file"),
    ];
    for (files, which, problem, mend) in table {
        let fault = Current::open(files).expect_err(problem);
        assert_eq!(fault.which, which, "{fault:?}");
        assert!(fault.problem.contains(problem), "{problem}: {fault:?}");
        assert!(fault.mend.contains(mend), "{mend}: {fault:?}");
    }
}

#[test]
fn newer_files_are_taken_and_wrong_ones_are_said_once() {
    let folder = Folder::new("tls-newer");
    let authority = authority();
    let files = folder.files(&authority);
    let current = Current::open(files.clone()).expect("they fit");
    let first = current.terms();
    assert_eq!(current.look(false), Look::Same);
    assert_eq!(current.look(true), Look::Same, "also on request");
    assert!(std::sync::Arc::ptr_eq(&first, &current.terms()));
    // A renewal writes one file after the other.
    let (cert, key) = pair(&authority);
    folder.write("cert.pem", &cert);
    assert_eq!(current.look(false), Look::Same, "the other may be on its way");
    let Look::Unusable(fault) = current.look(false) else { panic!("the key is of the old one") };
    assert_eq!(fault.which, Which::Key);
    assert_eq!(current.look(false), Look::Same, "that was said");
    assert_eq!(current.look(true), Look::Unusable(fault), "who asks is told");
    assert!(std::sync::Arc::ptr_eq(&first, &current.terms()), "the old one is served on");
    folder.write("key.pem", &key);
    assert_eq!([current.look(false), current.look(false)], [Look::Same, Look::Newer]);
    let second = current.terms();
    assert!(!std::sync::Arc::ptr_eq(&first, &second));
    assert_eq!(current.look(false), Look::Same);
    // A file that is missing for a moment, and comes back unchanged: not reported, unless it was missing for long.
    fs::remove_file(&files.key).expect("it is there");
    assert_eq!(current.look(false), Look::Same);
    folder.write("key.pem", &key);
    assert_eq!([current.look(false), current.look(false)], [Look::Same, Look::Same]);
    fs::remove_file(&files.key).expect("it is there");
    assert_eq!(current.look(false), Look::Same);
    assert!(matches!(current.look(false), Look::Unusable(Fault { which: Which::Key, .. })));
    assert_eq!(current.look(false), Look::Same);
    assert!(std::sync::Arc::ptr_eq(&second, &current.terms()));
    folder.write("key.pem", &key);
    assert_eq!([current.look(false), current.look(false)], [Look::Same, Look::Newer]);
    // With an explicit reload the content is taken at once.
    folder.files(&authority);
    assert_eq!(current.look(true), Look::Newer);
}

/// A bundle is valid after each certificate: half of it must not be taken as the whole.
#[test]
fn half_a_bundle_is_never_taken() {
    let folder = Folder::new("tls-half");
    let [first, second] = [authority(), authority()];
    let files = folder.files(&first);
    folder.write("ca.pem", &format!("{}{}", first.pem(), second.pem()));
    let current = Current::open(files).expect("they fit");
    let whole = current.terms();
    // It is rewritten in two pieces, with a look in between.
    folder.write("ca.pem", &second.pem());
    assert_eq!(current.look(false), Look::Same, "the rest may be on its way");
    folder.write("ca.pem", &format!("{}{}", second.pem(), first.pem()));
    assert_eq!(current.look(false), Look::Same);
    assert!(std::sync::Arc::ptr_eq(&whole, &current.terms()), "both authorities hold all the time");
    assert_eq!(current.look(false), Look::Newer);
}

/// A certificate for clients of this authority, with a key.
fn client(authority: &Authority, name: &str) -> rustls::pki_types::CertificateDer<'static> {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().expect("a key");
    params.signed_by(&key, authority).expect("it signs").der().clone()
}

#[test]
fn authorities_of_a_cluster_count_beside_those_of_the_file_each_for_what_it_signs() {
    let folder = Folder::new("tls-cluster");
    let [file, clients, proxies, other] = [authority(), authority(), authority(), authority()];
    let shown = [&file, &clients, &proxies, &other].map(|authority| [client(authority, "jane")]);
    let current = Current::open(folder.files(&file)).expect("they fit");
    let signers = || {
        let terms = current.terms();
        [0, 1, 2, 3].map(|at| {
            let Signers { is_client, is_proxy } = terms.signers(&shown[at]);
            assert_eq!(
                terms.verify(&shown[at]).is_ok(),
                is_client || is_proxy,
                "a handshake takes what counts"
            );
            assert!(is_client || is_proxy == terms.signers_of_verified(&shown[at]).is_proxy);
            (is_client, is_proxy)
        })
    };
    let (user, proxy, none) = ((true, false), (false, true), (false, false));
    assert_eq!(signers(), [user, none, none, none]);
    let set = |clients: &str, proxies: &str| {
        current.set_cluster(ClusterAuthorities::parse(clients, proxies).expect("PEM")).expect("they fit")
    };
    let before = current.authorities_generation();
    assert!(set(&clients.pem(), &proxies.pem()));
    assert_eq!((signers(), current.authorities_generation()), ([user, user, proxy, none], before + 1));
    assert!(!set(&clients.pem(), &proxies.pem()), "unchanged");
    // Files that change do not take them away.
    folder.files(&file);
    assert_eq!(current.look(true), Look::Newer);
    assert_eq!((signers(), current.authorities_generation()), ([user, user, proxy, none], before + 1));
    // One authority is replaced: both are named for a time.
    assert!(set(&format!("{}{}", clients.pem(), other.pem()), ""));
    assert_eq!((signers(), current.authorities_generation()), ([user, user, none, user], before + 2));
    assert!(set("", ""));
    assert_eq!(signers(), [user, none, none, none]);
}

#[test]
fn without_a_file_clients_are_asked_as_soon_as_the_cluster_names_authorities() {
    let folder = Folder::new("tls-cluster-only");
    let [server, proxies] = [authority(), authority()];
    let current = Current::open(Files { client_ca: None, ..folder.files(&server) }).expect("they fit");
    let shown = [client(&proxies, "front-proxy-client")];
    assert!(current.terms().verify(&shown).is_err());
    let only = ClusterAuthorities::parse("", &proxies.pem()).expect("PEM");
    assert_eq!(current.set_cluster(only), Ok(true));
    assert_eq!(current.terms().signers_of_verified(&shown), Signers { is_client: false, is_proxy: true });
    assert_eq!(current.terms().signers(&[]), Signers::default());
    for broken in ["x", "-----BEGIN CERTIFICATE-----\nMIIB\n"] {
        assert!(
            ClusterAuthorities::parse(broken, "").is_err() && ClusterAuthorities::parse("", broken).is_err()
        );
    }
}
