//! TLS for test clients: trusted authorities, certificates, protocols.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};

use crate::certs::Identity;

/// The configuration of a client.
#[derive(Clone)]
pub struct Trust {
    roots: RootCertStore,
    config: Arc<ClientConfig>,
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust").finish_non_exhaustive()
    }
}

/// One version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// RFC 5246
    V1_2,
    /// RFC 8446
    V1_3,
}

impl Version {
    /// All supported versions.
    pub const ALL: [Self; 2] = [Self::V1_2, Self::V1_3];

    const fn rustls(self) -> &'static SupportedProtocolVersion {
        match self {
            Self::V1_2 => &TLS12,
            Self::V1_3 => &TLS13,
        }
    }
}

impl Trust {
    /// Trusts this authority (PEM). All versions, no client certificate, no ALPN.
    ///
    /// # Panics
    /// When the file has no certificate.
    #[must_use]
    pub fn of(authority: &Path) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(authority).expect("a certificate")).expect("an authority");
        let config = config(roots.clone(), &Version::ALL, None);
        Self { roots, config: Arc::new(config) }
    }

    /// The same with one version.
    #[must_use]
    pub fn in_version(&self, version: Version) -> Self {
        let config = config(self.roots.clone(), &[version], None);
        Self { roots: self.roots.clone(), config: Arc::new(config) }
    }

    /// The same with one version and a client certificate.
    #[must_use]
    pub fn showing(&self, version: Version, identity: &Identity) -> Self {
        let config = config(self.roots.clone(), &[version], Some(identity));
        Self { roots: self.roots.clone(), config: Arc::new(config) }
    }

    /// The same with protocols to choose from (ALPN).
    #[must_use]
    pub fn offering(&self, protocols: &[&str]) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Self { roots: self.roots.clone(), config: Arc::new(config) }
    }

    /// TLS on a connection. The handshake happens with the first byte.
    ///
    /// # Panics
    /// When rustls refuses its own configuration.
    #[must_use]
    pub fn over(&self, stream: TcpStream) -> Stream {
        let name = ServerName::try_from("localhost").expect("a name");
        let connection =
            ClientConnection::new(Arc::clone(&self.config), name).expect("a right configuration");
        Stream::Tls(Box::new(StreamOwned::new(connection, stream)))
    }
}

fn config(roots: RootCertStore, versions: &[Version], identity: Option<&Identity>) -> ClientConfig {
    let versions: Vec<_> = versions.iter().map(|version| version.rustls()).collect();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(&versions);
    let config = config.expect("versions of TLS").with_root_certificates(roots);
    let Some(identity) = identity else { return config.with_no_client_auth() };
    let chain = CertificateDer::pem_file_iter(&identity.cert).expect("PEM");
    let chain = chain.collect::<Result<Vec<_>, _>>().expect("certificates");
    let key = PrivateKeyDer::from_pem_file(&identity.key).expect("a key");
    config.with_client_auth_cert(chain, key).expect("a pair that fits")
}

/// A connection, with TLS or without.
#[derive(Debug)]
pub enum Stream {
    /// Plain.
    Plain(TcpStream),
    /// Sealed.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// The socket below.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.sock,
        }
    }

    /// The client's end of TLS.
    ///
    /// # Panics
    /// When there is none.
    pub fn tls(&mut self) -> &mut ClientConnection {
        match self {
            Self::Plain(_) => panic!("a plain connection"),
            Self::Tls(stream) => &mut stream.conn,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Tls(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
