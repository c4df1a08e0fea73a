//! TLS: whom a run trusts, blocking connections for single calls, and sessions without a socket for connections that carry
//! watches, which the floor has too.

use crate::broken::broken;
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};
use std::fmt::{Debug, Display};
use std::io::{self, BufRead, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;

pub(crate) const HTTP1: &[u8] = b"http/1.1";
pub(crate) const HTTP2: &[u8] = b"h2";

/// The client's side, for all connections to one server that speak one protocol.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Client {
    /// Trusts `authorities`, which are in PEM. `host`: as in a URL, with a port. `protocol`: what is offered by ALPN.
    pub(crate) fn new(authorities: &str, host: &str, protocol: &[u8]) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
            let certificate = certificate.map_err(|why| format!("it is no PEM: {why}"))?;
            roots.add(certificate).map_err(|why| why.to_string())?;
        }
        if roots.is_empty() {
            return Err("it has no certificate".to_owned());
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|why| why.to_string())?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        // As client-go: each connection is a whole handshake.
        config.resumption = Resumption::disabled();
        let (name, _port) = host.rsplit_once(':').unwrap_or((host, ""));
        let bare = name.trim_matches(['[', ']']);
        let name = bare.parse::<IpAddr>().map(ServerName::from).or_else(|_| bare.to_owned().try_into());
        Ok(Self {
            config: Arc::new(config),
            name: name.map_err(|_| format!("{bare} is no name of a server"))?,
        })
    }

    fn connection(&self) -> io::Result<ClientConnection> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone()).map_err(fault)
    }

    pub(crate) fn session(&self) -> io::Result<Session> {
        Ok(Session::new(self.connection()?.into()))
    }
}

/// A connection that reads and writes plain bytes.
pub(crate) trait Stream: Read + Write + Send + Debug {
    fn socket(&self) -> &TcpStream;

    /// Whether bytes that were written wait here for room in the socket.
    fn wants_write(&self) -> bool {
        false
    }
}

impl Stream for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

impl Stream for StreamOwned<ClientConnection, TcpStream> {
    fn socket(&self) -> &TcpStream {
        &self.sock
    }

    fn wants_write(&self) -> bool {
        self.conn.wants_write()
    }
}

/// Over a socket that blocks: with TLS its handshake is over then.
pub(crate) fn stream(socket: TcpStream, client: Option<&Client>) -> io::Result<Box<dyn Stream>> {
    let Some(client) = client else { return Ok(Box::new(socket)) };
    let mut stream = StreamOwned::new(client.connection()?, socket);
    stream.flush().map_err(with_mend)?;
    Ok(Box::new(stream))
}

/// One end of a connection without its socket: sealed bytes in, plain bytes out, and the reverse.
pub(crate) struct Session(pub(crate) Box<Connection>);

impl Session {
    fn new(mut connection: Connection) -> Self {
        connection.set_buffer_limit(None);
        Self(Box::new(connection))
    }

    pub(crate) fn server(config: &Arc<ServerConfig>) -> io::Result<Self> {
        ServerConnection::new(Arc::clone(config)).map(|it| Self::new(it.into())).map_err(fault)
    }

    /// Opens what was read.
    pub(crate) fn open(
        &mut self,
        mut bytes: &[u8],
        mut on_plain: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        while !bytes.is_empty() && self.0.read_tls(&mut bytes)? > 0 {
            self.0.process_new_packets().map_err(fault)?;
            // At the end it would block, or the peer has said goodbye, of which the socket will tell.
            while let Ok(plain @ [_, ..]) = self.0.reader().fill_buf() {
                on_plain(plain)?;
                let taken = plain.len();
                self.0.reader().consume(taken);
            }
        }
        Ok(())
    }

    /// Seals `plain`, once the handshake is over, and writes what is sealed.
    pub(crate) fn seal(&mut self, plain: &[u8], mut out: impl Write) -> io::Result<()> {
        self.0.writer().write_all(plain)?;
        while self.0.wants_write() {
            self.0.write_tls(&mut out)?;
        }
        Ok(())
    }
}

fn fault(fault: impl Display) -> io::Error {
    broken(format!("TLS: {fault}"))
}

/// A fault of a handshake. Other clients take a certificate that signed itself, so the mend is told.
fn with_mend(fault: io::Error) -> io::Error {
    if fault.to_string().contains("CaUsedAsEndEntity") {
        return broken(
            "certificate is one of an authority, as openssl req -x509 makes them: give the server one with \
             basicConstraints=CA:FALSE",
        );
    }
    fault
}

/// The server's side, for all its connections, with a certificate of `name` that is newly made; and that in PEM.
pub(crate) fn self_signed(name: &str, protocol: &[u8]) -> Result<(Arc<ServerConfig>, String), String> {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).map_err(|why| why.to_string())?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|it| it.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key));
    let mut config = config.map_err(|why| why.to_string())?;
    config.alpn_protocols = vec![protocol.to_vec()];
    config.send_tls13_tickets = 0;
    Ok((Arc::new(config), made.cert.pem()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seals `text` and has the other side open it, in pieces of `size` bytes.
    fn carry(from: &mut Session, to: &mut Session, text: &[u8], size: usize) -> io::Result<Vec<u8>> {
        let (mut sealed, mut plain) = (Vec::new(), Vec::new());
        from.seal(text, &mut sealed)?;
        sealed.chunks(size).try_for_each(|piece| to.open(piece, |text| plain.write_all(text)))?;
        Ok(plain)
    }

    #[test]
    fn sessions_understand_each_other_in_pieces_of_any_size() {
        let (config, own) = self_signed("localhost", HTTP2).expect("a key");
        let trusting = Client::new(&own, "localhost:1", HTTP2).expect("valid");
        for size in [1, 7, 100, 5000, 100_000] {
            let mut client = trusting.session().expect("valid");
            let mut server = Session::server(&config).expect("valid");
            let mut heard = carry(&mut client, &mut server, b"a question", size).expect("a hello");
            assert_eq!(carry(&mut server, &mut client, b"", size).expect("a right peer"), b"");
            heard.extend(carry(&mut client, &mut server, b"", size).expect("a right peer"));
            assert_eq!((&heard[..], client.0.alpn_protocol()), (&b"a question"[..], Some(HTTP2)));
            let long = [b'x'; 100_000];
            assert_eq!(carry(&mut server, &mut client, &long, size).expect("a right peer"), long);
        }
    }
}
