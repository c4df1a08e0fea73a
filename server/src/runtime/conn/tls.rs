//! One TLS connection without its socket: wire bytes in, plain bytes out, and the reverse.
//!
//! Owns the keys of both directions and incomplete records. Between records it holds no buffer: an idle connection costs its
//! keys. Records are encrypted in the order in which they must be sent, so the caller sends them, or queues them after earlier
//! ones.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus};
use rustls::{HandshakeKind, ServerConfig};

/// Plain bytes of one record at most (RFC 8446, section 5.1).
const RECORD_BYTES: usize = 16 << 10;
/// Plain bytes of one record while a connection is young. The client opens a record when all of it is there, so one that fits a
/// TCP segment (1,500 bytes less the heads of IPv6 and TCP with timestamps) is never waited for while the window of TCP is small.
const EARLY_RECORD_BYTES: usize = 1_500 - 40 - 32 - RECORD_OVERHEAD;
/// Plain bytes after which a connection is young no more: its window has grown by then.
const EARLY_BYTES: u32 = 128 << 10;
/// What a record has beside its plain bytes: a header, a tag, and a content type or an explicit nonce (RFC 8446, section 5.2;
/// RFC 5288, section 3). rustls reports it if a cipher needs more.
const RECORD_OVERHEAD: usize = 5 + 8 + 16 + 1;
/// The longest record on the wire: TLS 1.2 lets ciphers add 2 KiB (RFC 5246, section 6.2.3).
const RECORD_WIRE_BYTES_MAX: usize = RECORD_BYTES + (2 << 10) + 5;
/// Bytes of an unfinished handshake message, which may span many records. One with a certificate chain has some KiB.
const HANDSHAKE_BYTES_MAX: usize = 64 << 10;
/// Room for a close_notify alert: a record of two bytes.
const GOODBYE_BYTES: usize = 2 + 2 * RECORD_OVERHEAD;

/// The state of a connection after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) enum State {
    /// The handshake is in progress: it waits for the client.
    Handshake,
    /// The handshake is complete.
    Open,
    /// The client sent close_notify.
    Closed,
}

/// Why a connection has failed: what was received, or is to be encrypted, violates the protocol.
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

/// The TLS session of a connection, if it has one.
pub(in crate::runtime) type TlsSession = Option<Box<Session>>;

/// The server's end of a TLS session.
pub(in crate::runtime) struct Session {
    connection: UnbufferedServerConnection,
    /// Plain bytes that were sealed, as far as they are counted: up to [`EARLY_BYTES`].
    sealed: u32,
    /// Wire bytes of an incomplete record or handshake message.
    rest: Vec<u8>,
    /// The client sent close_notify.
    closed: bool,
    /// Why it failed. Input is not processed any more.
    broken: Option<Broken>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("rest", &self.rest.len()).finish_non_exhaustive()
    }
}

impl Session {
    /// For a new connection.
    pub(in crate::runtime) fn new(config: Arc<ServerConfig>) -> Result<Self, Broken> {
        let connection = UnbufferedServerConnection::new(config).map_err(|error| Broken::new(&error))?;
        Ok(Self { connection, sealed: 0, rest: Vec::new(), closed: false, broken: None })
    }

    /// Processes what the client sent: plain bytes are appended to `plain`, and bytes to send to `wire`, including an alert if
    /// the client violated the protocol.
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
                // Early data is not offered; other states are unknown.
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

    /// Appends the alert of a connection that failed.
    fn push_alert(&mut self, wire: &mut Vec<u8>) {
        // rustls returns pending output before it processes more input.
        while self.connection.wants_write() {
            let state = self.connection.process_tls_records(&mut self.rest).state;
            let Ok(ConnectionState::EncodeTlsData(mut data)) = state else { return };
            encode(&mut data, wire);
        }
    }

    /// Appends records with `plain` to `wire`.
    pub(in crate::runtime) fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), Broken> {
        let start = wire.len();
        let end = self.seal_at(plain, wire, start)?;
        wire.truncate(end);
        Ok(())
    }

    /// Writes records with `plain` into `wire` from `start` on. `wire` grows if it is too short and never shrinks. Returns
    /// their end.
    pub(in crate::runtime) fn seal_at(
        &mut self,
        plain: &[u8],
        wire: &mut Vec<u8>,
        start: usize,
    ) -> Result<usize, Broken> {
        let (mut plain, mut end) = (plain, start);
        while !plain.is_empty() {
            let most = if self.sealed < EARLY_BYTES { EARLY_RECORD_BYTES } else { plain.len() };
            let (piece, rest) = plain.split_at(most.min(plain.len()));
            let records = piece.len().div_ceil(RECORD_BYTES);
            let room = end + piece.len() + records * RECORD_OVERHEAD;
            if wire.len() < room {
                wire.resize(room, 0);
            }
            end = self.write(wire, end, |traffic, room| traffic.encrypt(piece, room))?;
            self.sealed =
                self.sealed.saturating_add(u32::try_from(piece.len()).unwrap_or(u32::MAX)).min(EARLY_BYTES);
            plain = rest;
        }
        Ok(end)
    }

    /// The protocol that was agreed on (ALPN, RFC 7301).
    pub(in crate::runtime) fn protocol(&self) -> Option<&[u8]> {
        self.connection.alpn_protocol()
    }

    /// Appends a close_notify alert.
    pub(in crate::runtime) fn close(&mut self, wire: &mut Vec<u8>) {
        let start = wire.len();
        wire.resize(start + GOODBYE_BYTES, 0);
        // A connection that failed has already sent an alert.
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
                // A message of the protocol, such as a key update, is sent first.
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

    /// The leaf of the client's certificate chain, in DER, if it sent one and it was verified.
    pub(in crate::runtime) fn peer_certificate(&self) -> Option<Arc<[u8]>> {
        self.peer_certificates().first().map(|leaf| Arc::from(leaf.as_ref()))
    }

    /// The client's certificate chain.
    pub(in crate::runtime) fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        self.connection.peer_certificates().unwrap_or_default()
    }

    /// Whether the session was resumed, so that no certificate was verified.
    pub(in crate::runtime) fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Wire bytes that wait for the rest of their record.
    #[cfg(test)]
    pub(in crate::runtime) fn unfinished(&self) -> usize {
        self.rest.capacity()
    }
}

type Traffic<'c> = rustls::unbuffered::WriteTraffic<'c, rustls::server::ServerConnectionData>;

/// Appends pending output, if it was not written yet.
fn encode(data: &mut EncodeTlsData<'_, rustls::server::ServerConnectionData>, wire: &mut Vec<u8>) {
    let _ = push(wire, |room| match data.encode(room) {
        Err(EncodeError::InsufficientSize(more)) => Err(Some(more.required_size)),
        encoded => encoded.map_err(|_| None),
    });
}

/// Appends what `encode` writes into the given slice; it fails with the size that it needs, or with `None` if there is nothing
/// to write.
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
