//! The terms of a connection to the upstream: where to, how its certificate is verified, and who this server is there.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use http::HeaderValue;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::material::Material;
use super::options::Endpoint;

/// One endpoint, resolved.
#[derive(Clone, Debug)]
pub struct Place {
    /// As the operator wrote it.
    pub endpoint: Endpoint,
    /// Its `Host`.
    pub authority: HeaderValue,
    /// The name that its certificate must be for; `None`: it speaks plain HTTP.
    pub name: Option<ServerName<'static>>,
    /// Empty: its name is not known now.
    pub addresses: Vec<SocketAddr>,
}

/// The configurations of TLS. A request with its client's credentials must not come over a connection that shows the server's own
/// certificate: the upstream would take it for the server's.
#[derive(Clone)]
pub struct Configs {
    /// Without a certificate.
    pub bare: Arc<ClientConfig>,
    /// With the server's own, if it has one.
    pub own: Arc<ClientConfig>,
}

impl fmt::Debug for Configs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Configs").finish_non_exhaustive()
    }
}

/// The terms of new connections.
pub struct Terms {
    /// Connections of another generation are not used again.
    pub generation: u64,
    /// The endpoints, in the order in which they are tried.
    pub places: Vec<Place>,
    /// `None`: the endpoints speak plain HTTP.
    pub tls: Option<Configs>,
    /// The server's own `Authorization`, marked as secret.
    pub authorization: Option<HeaderValue>,
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terms")
            .field("generation", &self.generation)
            .field("places", &self.places)
            .finish_non_exhaustive()
    }
}

impl Terms {
    /// Of the files' content. Names are not resolved yet.
    ///
    /// # Errors
    /// What cannot be used, and why, as one line.
    pub(super) fn new(material: &Material, generation: u64) -> Result<Self, String> {
        let secure = material.endpoints.iter().any(|endpoint| endpoint.secure);
        let places = material.endpoints.iter().map(|endpoint| {
            let name = material.server_name.as_deref().unwrap_or(&endpoint.host).to_owned();
            let name = endpoint.secure.then(|| ServerName::try_from(name)).transpose();
            Ok(Place {
                authority: HeaderValue::from_str(&endpoint.authority()).map_err(|error| error.to_string())?,
                name: name.map_err(|error| format!("{endpoint}: {error}"))?,
                endpoint: endpoint.clone(),
                addresses: Vec::new(),
            })
        });
        let authorization = material.token.as_ref().map(|token| {
            let mut value =
                HeaderValue::from_str(&format!("Bearer {token}")).map_err(|error| error.to_string())?;
            value.set_sensitive(true);
            Ok::<_, String>(value)
        });
        Ok(Self {
            generation,
            places: places.collect::<Result<_, String>>()?,
            tls: secure.then(|| configs(material)).transpose()?,
            authorization: authorization.transpose()?,
        })
    }

    /// The same, with these addresses of each place.
    pub(super) fn with_addresses(&self, addresses: Vec<Vec<SocketAddr>>) -> Self {
        let places = self.places.iter().zip(addresses);
        Self {
            generation: self.generation,
            places: places.map(|(place, addresses)| Place { addresses, ..place.clone() }).collect(),
            tls: self.tls.clone(),
            authorization: self.authorization.clone(),
        }
    }
}

fn configs(material: &Material) -> Result<Configs, String> {
    let bare = Arc::new(client_config(material, None)?);
    let own = match &material.certificate {
        None => Arc::clone(&bare),
        certificate => Arc::new(client_config(material, certificate.as_ref())?),
    };
    Ok(Configs { bare, own })
}

fn client_config(
    material: &Material,
    certificate: Option<&(Vec<u8>, Vec<u8>)>,
) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    for authority in certificates("the CA", material.ca.as_deref().unwrap_or_default())? {
        roots
            .add(authority)
            .map_err(|error| format!("the CA has a certificate that cannot be read: {error}"))?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let mut config = match certificate {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let chain = certificates("the client certificate", chain)?;
            let key = PrivateKeyDer::from_pem_slice(key)
                .map_err(|error| format!("the key of the client certificate is not one in PEM: {error}"))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| format!("the client certificate cannot be used: {error}"))?
        }
    };
    // Upgrades exist in HTTP/1.1 only.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(what: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => {
            Err(format!("{what} has no certificate in it: give PEM with a line -----BEGIN CERTIFICATE-----"))
        }
        Err(error) => Err(format!("{what} is not PEM: {error}; give complete certificates")),
    }
}
