//! One TLS connection without its socket: bytes of the wire in, plain bytes out, and back.
//!
//! Owns the keys of both directions and what of a record is not here whole. Between records it holds no buffer: an idle
//! connection costs its keys. Records are sealed in the order in which they must go out, so whoever asks for some sends them,
//! or keeps them behind those before.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus};
use rustls::{HandshakeKind, ServerConfig};

/// Plain bytes of one record at most (RFC 8446, section 5.1).
const RECORD_BYTES: usize = 16 << 10;
/// What a record has more than its plain bytes: a head, a tag, and a kind or an explicit nonce (RFC 8446, section 5.2; RFC
/// 5288, section 3). The cipher says so if it wants more.
const RECORD_OVERHEAD: usize = 5 + 8 + 16 + 1;
/// The longest record on the wire: TLS 1.2 lets ciphers add 2 KiB (RFC 5246, section 6.2.3).
const RECORD_WIRE_BYTES_MAX: usize = RECORD_BYTES + (2 << 10) + 5;
/// What a client may leave unfinished in a handshake, where a message may have many records. One with a chain of certificates
/// has some KiB.
const HANDSHAKE_BYTES_MAX: usize = 64 << 10;
/// Room for the word that nothing more comes: a record of two bytes.
const GOODBYE_BYTES: usize = 2 + 2 * RECORD_OVERHEAD;

/// How a connection stands after what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) enum State {
    /// The handshake goes on: it waits for the client.
    Handshake,
    /// Plain bytes flow.
    Open,
    /// The client said that it sends nothing more (close_notify).
    Closed,
}

/// Why a connection is over: what was heard, or is to be sealed, breaks the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::runtime) struct Broken(String);

impl Broken {
    fn new(why: &impl fmt::Display) -> Self {
        Self(why.to_string())
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Broken {}

/// What of a connection is TLS's, if anything is.
pub(in crate::runtime) type TlsSession = Option<Box<Session>>;

/// The server's end of one.
pub(in crate::runtime) struct Session {
    connection: UnbufferedServerConnection,
    /// Wire bytes that are no whole record yet, or no whole message.
    rest: Vec<u8>,
    /// The client said goodbye.
    closed: bool,
    /// Why it is over. What broke it is not looked at again.
    broken: Option<Broken>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("rest", &self.rest.len()).finish_non_exhaustive()
    }
}

impl Session {
    /// For a connection that begins.
    pub(in crate::runtime) fn new(config: Arc<ServerConfig>) -> Result<Self, Broken> {
        let connection = UnbufferedServerConnection::new(config).map_err(|error| Broken::new(&error))?;
        Ok(Self { connection, rest: Vec::new(), closed: false, broken: None })
    }

    /// Takes what the client sent: plain bytes are appended to `plain`, and what must go out to `wire`, an alert too
    /// when the client broke the protocol.
    pub(in crate::runtime) fn read(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        wire: &mut Vec<u8>,
    ) -> Result<State, Broken> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        if self.closed {
            return Ok(State::Closed);
        }
        self.rest.extend_from_slice(bytes);
        let mut used = 0;
        let read = loop {
            let UnbufferedStatus { discard, state } =
                self.connection.process_tls_records(&mut self.rest[used..]);
            used += discard;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        used += record.discard;
                        plain.extend_from_slice(record.payload);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, wire),
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::BlockedHandshake) => break Ok(State::Handshake),
                Ok(ConnectionState::WriteTraffic(_)) => break Ok(State::Open),
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => break Ok(State::Closed),
                // Early data is not offered, and other states are not known.
                Ok(_) => break Err(Broken("an unexpected state of the handshake".into())),
                Err(error) => break Err(Broken::new(&error)),
            }
        };
        let most = if read == Ok(State::Open) { RECORD_WIRE_BYTES_MAX } else { HANDSHAKE_BYTES_MAX };
        let read = match read {
            Ok(_) if self.rest.len() - used > most => Err(Broken("a message without end".into())),
            read => read,
        };
        match &read {
            Ok(State::Closed) => {
                self.closed = true;
                self.rest = Vec::new();
            }
            Ok(_) if used == self.rest.len() => self.rest = Vec::new(),
            Ok(_) => drop(self.rest.drain(..used)),
            Err(broken) => {
                self.broken = Some(broken.clone());
                self.push_alert(wire);
                self.rest = Vec::new();
            }
        }
        read
    }

    /// The last words of a connection that is broken.
    fn push_alert(&mut self, wire: &mut Vec<u8>) {
        // What waits to be sent comes before anything is read again.
        while self.connection.wants_write() {
            let state = self.connection.process_tls_records(&mut self.rest).state;
            let Ok(ConnectionState::EncodeTlsData(mut data)) = state else { return };
            encode(&mut data, wire);
        }
    }

    /// Appends records with `plain` in them to `wire`.
    pub(in crate::runtime) fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), Broken> {
        let start = wire.len();
        let end = self.seal_at(plain, wire, start)?;
        wire.truncate(end);
        Ok(())
    }

    /// Writes records with `plain` in them into `wire` from `start` on, which grows when it is too short and keeps its length
    /// else. Where they end.
    pub(in crate::runtime) fn seal_at(
        &mut self,
        plain: &[u8],
        wire: &mut Vec<u8>,
        start: usize,
    ) -> Result<usize, Broken> {
        if plain.is_empty() {
            return Ok(start);
        }
        let records = plain.len().div_ceil(RECORD_BYTES);
        let most = start + plain.len() + records * RECORD_OVERHEAD;
        if wire.len() < most {
            wire.resize(most, 0);
        }
        self.write(wire, start, |traffic, room| traffic.encrypt(plain, room))
    }

    /// Appends the word that nothing more comes from here.
    pub(in crate::runtime) fn close(&mut self, wire: &mut Vec<u8>) {
        let start = wire.len();
        wire.resize(start + GOODBYE_BYTES, 0);
        // A connection that is broken has said goodbye with an alert.
        if let Ok(end) = self.write(wire, start, |traffic, room| traffic.queue_close_notify(room)) {
            wire.truncate(end);
        } else {
            wire.truncate(start);
        }
    }

    fn write(
        &mut self,
        wire: &mut Vec<u8>,
        start: usize,
        mut what: impl FnMut(&mut Traffic<'_>, &mut [u8]) -> Result<usize, EncryptError>,
    ) -> Result<usize, Broken> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        let mut at = start;
        loop {
            let UnbufferedStatus { discard, state } = self.connection.process_tls_records(&mut self.rest);
            let more = match state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => match what(&mut traffic, &mut wire[at..]) {
                    Ok(written) => {
                        self.rest.drain(..discard);
                        return Ok(at + written);
                    }
                    Err(EncryptError::InsufficientSize(more)) => more.required_size,
                    Err(EncryptError::EncryptExhausted) => {
                        return Err(Broken("the keys are worn out".into()));
                    }
                },
                // A word of the protocol's own, as new keys, goes first.
                Ok(ConnectionState::EncodeTlsData(mut data)) => match data.encode(&mut wire[at..]) {
                    Ok(written) => {
                        at += written;
                        0
                    }
                    Err(EncodeError::InsufficientSize(more)) => more.required_size,
                    Err(EncodeError::AlreadyEncoded) => 0,
                },
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    0
                }
                Ok(ConnectionState::PeerClosed) => 0,
                Ok(_) => return Err(Broken("nothing can be sent in this state".into())),
                Err(error) => {
                    let broken = Broken::new(&error);
                    self.broken = Some(broken.clone());
                    return Err(broken);
                }
            };
            self.rest.drain(..discard);
            if wire.len() < at + more {
                wire.resize(at + more, 0);
            }
        }
    }

    /// The client's own certificate, in DER, if it showed one that was found good.
    pub(in crate::runtime) fn peer_certificate(&self) -> Option<Arc<[u8]>> {
        self.peer_certificates().first().map(|leaf| Arc::from(leaf.as_ref()))
    }

    /// The chain that the client showed.
    pub(in crate::runtime) fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        self.connection.peer_certificates().unwrap_or_default()
    }

    /// Whether the handshake went on from an earlier session, so that no certificate was looked at.
    pub(in crate::runtime) fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Bytes of the wire that wait for the rest of their record.
    #[cfg(test)]
    pub(in crate::runtime) fn unfinished(&self) -> usize {
        self.rest.capacity()
    }
}

type Traffic<'c> = rustls::unbuffered::WriteTraffic<'c, rustls::server::ServerConnectionData>;

/// Appends what is to be sent; nothing where that was done.
fn encode(data: &mut EncodeTlsData<'_, rustls::server::ServerConnectionData>, wire: &mut Vec<u8>) {
    let _ = push(wire, |room| match data.encode(room) {
        Err(EncodeError::InsufficientSize(more)) => Err(Some(more.required_size)),
        encoded => encoded.map_err(|_| None),
    });
}

/// Appends what `encode` writes into the room that it is given; it says how much it wants, or `None` that there is nothing.
fn push(
    wire: &mut Vec<u8>,
    mut encode: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>,
) -> Result<(), Option<usize>> {
    let start = wire.len();
    let mut room = 0;
    loop {
        wire.resize(start + room, 0);
        match encode(&mut wire[start..]) {
            Ok(written) => {
                wire.truncate(start + written);
                return Ok(());
            }
            Err(Some(wanted)) if wanted > room => room = wanted,
            Err(why) => {
                wire.truncate(start);
                return Err(why);
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
