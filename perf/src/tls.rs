//! TLS: whom a run trusts, blocking connections for single calls, and sessions without a socket for connections that carry
//! watches, which the floor has too.

use crate::http::broken;
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};
use serde::{Deserialize, Serialize};
use std::fmt::{Debug, Display};
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;

pub(crate) const HTTP1: &[u8] = b"http/1.1";
pub(crate) const HTTP2: &[u8] = b"h2";
const RECORD_BYTES: usize = 16 << 10;
/// What a record has beside its plain bytes: 22 in TLS 1.3 (RFC 8446, section 5.2), a few more in TLS 1.2.
pub(crate) const RECORD_OVERHEAD: usize = 5 + 1 + 16;
const RECORD_OVERHEAD_MAX: usize = RECORD_OVERHEAD + 8;
/// Room for one message of a handshake, which a server's certificates make the longest.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

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

    pub(crate) fn session(&self) -> io::Result<Session> {
        let connection = UnbufferedClientConnection::new(Arc::clone(&self.config), self.name.clone());
        Ok(Session::of(Side::Client(connection.map_err(fault)?)))
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
    let connection = ClientConnection::new(Arc::clone(&client.config), client.name.clone()).map_err(fault)?;
    let mut stream = StreamOwned::new(connection, socket);
    stream.flush()?;
    Ok(Box::new(stream))
}

enum Side {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

/// One end of a connection: sealed bytes in, plain bytes out, and the reverse.
pub(crate) struct Session {
    side: Side,
    /// The beginning of a record.
    held: Vec<u8>,
    /// What is to be sent ends at `end`; behind that is room.
    sealed: Vec<u8>,
    end: usize,
    pub(crate) is_open: bool,
}

#[derive(PartialEq, Eq)]
enum Next {
    More,
    Blocked,
    Open,
}

impl Session {
    fn of(side: Side) -> Self {
        Self { side, held: Vec::new(), sealed: Vec::new(), end: 0, is_open: false }
    }

    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        match &self.side {
            Side::Client(connection) => connection.alpn_protocol(),
            Side::Server(connection) => connection.alpn_protocol(),
        }
    }

    /// Copies what is held to the front of `buffer`; what is read next belongs behind it.
    pub(crate) fn lead(&self, buffer: &mut [u8]) -> usize {
        buffer[..self.held.len()].copy_from_slice(&self.held);
        self.held.len()
    }

    /// Opens `bytes`, which begin with what was held. What must be answered is sealed.
    pub(crate) fn open(
        &mut self,
        bytes: &mut [u8],
        mut on_plain: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut at = 0;
        loop {
            let (used, next) = self.turn(Some(&mut bytes[at..]), &[], &mut on_plain)?;
            at += used;
            if next != Next::More {
                self.held = bytes[at..].to_vec();
                return Ok(());
            }
        }
    }

    /// Seals `plain` once the handshake is over. False: it goes on, and nothing was sealed.
    pub(crate) fn seal(&mut self, plain: &[u8]) -> io::Result<bool> {
        loop {
            let (used, next) = self.turn(None, plain, &mut |_| Ok(()))?;
            self.held.drain(..used);
            if next != Next::More {
                return Ok(next == Next::Open);
            }
        }
    }

    /// The same into `room`, which is not emptied before; gives how much of it is filled. A session that cannot seal fills nothing.
    pub(crate) fn seal_into(&mut self, plain: &[u8], room: &mut Vec<u8>) -> usize {
        std::mem::swap(&mut self.sealed, room);
        let sealed = self.seal(plain).is_ok_and(|is_open| is_open);
        std::mem::swap(&mut self.sealed, room);
        let end = std::mem::take(&mut self.end);
        if sealed { end } else { 0 }
    }

    pub(crate) fn sealed(&self) -> &[u8] {
        &self.sealed[..self.end]
    }

    /// So many of the sealed bytes are sent.
    pub(crate) fn sent(&mut self, count: usize) {
        self.sealed.copy_within(count..self.end, 0);
        self.end -= count;
        if self.end == 0 {
            self.sealed = Vec::new();
        }
    }

    /// One step: gives how many bytes of the input are done with. `None`: the input is what is held.
    fn turn(
        &mut self,
        input: Option<&mut [u8]>,
        plain: &[u8],
        on_plain: &mut impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<(usize, Next)> {
        let input = input.unwrap_or(&mut self.held);
        let out = (&mut self.sealed, &mut self.end);
        let (used, next) = match &mut self.side {
            Side::Client(it) => step(it.process_tls_records(input), plain, out, on_plain),
            Side::Server(it) => step(it.process_tls_records(input), plain, out, on_plain),
        }?;
        self.is_open |= next == Next::Open;
        Ok((used, next))
    }
}

fn step<Data>(
    UnbufferedStatus { mut discard, state }: UnbufferedStatus<'_, '_, Data>,
    plain: &[u8],
    (sealed, end): (&mut Vec<u8>, &mut usize),
    on_plain: &mut impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<(usize, Next)> {
    let mut grow = |more: usize| {
        if sealed.len() < *end + more {
            sealed.resize(*end + more, 0);
        }
    };
    match state.map_err(fault)? {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                let record = record.map_err(fault)?;
                discard += record.discard;
                on_plain(record.payload)?;
            }
        }
        ConnectionState::EncodeTlsData(mut data) => {
            grow(MESSAGE_BYTES_MAX);
            *end += data.encode(&mut sealed[*end..]).map_err(fault)?;
        }
        ConnectionState::TransmitTlsData(data) => data.done(),
        ConnectionState::WriteTraffic(_) if plain.is_empty() => return Ok((discard, Next::Open)),
        ConnectionState::WriteTraffic(mut traffic) => {
            let records = plain.len().div_ceil(RECORD_BYTES);
            grow(plain.len() + records * RECORD_OVERHEAD_MAX);
            *end += traffic.encrypt(plain, &mut sealed[*end..]).map_err(fault)?;
            return Ok((discard, Next::Open));
        }
        // Of a peer that said goodbye the socket will tell. Early data is never offered.
        ConnectionState::BlockedHandshake | _ => return Ok((discard, Next::Blocked)),
    }
    Ok((discard, Next::More))
}

fn fault(fault: impl Display) -> io::Error {
    broken(format!("TLS: {fault}"))
}

/// A server's certificate, which is its own authority, and its key: in PEM.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    key: String,
}

impl Identity {
    /// Of `name`, newly made.
    pub(crate) fn new(name: &str) -> Result<Self, String> {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).map_err(|why| why.to_string())?;
        Ok(Self { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() })
    }

    /// The server's side, for all its connections.
    pub(crate) fn server(&self, protocol: &[u8]) -> io::Result<Arc<ServerConfig>> {
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes()).map_err(fault)?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(fault)?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|it| it.with_no_client_auth().with_single_cert(vec![certificate], key));
        let mut config = config.map_err(fault)?;
        config.alpn_protocols = vec![protocol.to_vec()];
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }

    pub(crate) fn accept(config: &Arc<ServerConfig>) -> io::Result<Session> {
        let connection = UnbufferedServerConnection::new(Arc::clone(config)).map_err(fault)?;
        Ok(Session::of(Side::Server(connection)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves what `from` has sealed to `to`, in pieces of `size` bytes, and gives the plain text of it.
    fn carry(from: &mut Session, to: &mut Session, size: usize) -> io::Result<Vec<u8>> {
        let (sealed, mut plain) = (from.sealed().to_vec(), Vec::new());
        from.sent(sealed.len());
        for piece in sealed.chunks(size) {
            let mut buffer = vec![0; 64 << 10];
            let lead = to.lead(&mut buffer);
            buffer[lead..lead + piece.len()].copy_from_slice(piece);
            to.open(&mut buffer[..lead + piece.len()], |text| plain.write_all(text))?;
        }
        Ok(plain)
    }

    fn pair(trusted: &Identity, own: &Identity) -> (Session, Session) {
        let client = Client::new(&trusted.certificate, "localhost:1", HTTP2).expect("valid");
        let server = own.server(HTTP2).and_then(|config| Identity::accept(&config)).expect("valid");
        (client.session().expect("valid"), server)
    }

    #[test]
    fn sessions_understand_each_other_in_pieces_of_any_size() {
        let identity = Identity::new("localhost").expect("a key");
        for size in [1, 7, 100, 5000, 32 << 10] {
            let (mut client, mut server) = pair(&identity, &identity);
            let mut heard = Vec::new();
            while !client.seal(b"a question").expect("valid") {
                heard.extend(carry(&mut client, &mut server, size).expect("a right peer"));
                assert_eq!(carry(&mut server, &mut client, size).expect("a right peer"), b"");
            }
            heard.extend(carry(&mut client, &mut server, size).expect("a right peer"));
            assert_eq!((&heard[..], client.protocol()), (&b"a question"[..], Some(HTTP2)));
            assert!(server.seal(&[b'x'; 40_000]).expect("it is open"));
            assert_eq!(server.sealed().len(), 40_000 + 3 * RECORD_OVERHEAD);
            assert_eq!(carry(&mut server, &mut client, size).expect("a right peer"), [b'x'; 40_000]);
            assert_eq!(client.held.capacity(), 0, "between records nothing is held");
        }
    }

    #[test]
    fn who_is_not_trusted_is_refused() {
        let [other, own] = [(); 2].map(|()| Identity::new("localhost").expect("a key"));
        let (mut client, mut server) = pair(&other, &own);
        assert!(!client.seal(b"x").expect("a hello"));
        carry(&mut client, &mut server, 1000).expect("a right peer");
        let why = carry(&mut server, &mut client, 1000).expect_err("another key").to_string();
        assert!(why.contains("invalid peer certificate"), "{why}");
        for bad in ["", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"] {
            assert!(Client::new(bad, "h:1", HTTP1).is_err());
        }
    }
}
