//! One TLS connection without its socket: wire bytes in, plain bytes out, and the reverse.
//!
//! Owns the keys of both directions and incomplete records. Between records it holds no buffer: an idle connection costs its
//! keys. rustls makes the handshake, and all of TLS 1.2; after a handshake of TLS 1.3 the records are our own
//! ([`records`]). Records are encrypted in the order in which they must be sent, so the caller sends them, or queues them after earlier
//! ones.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus};
use rustls::{HandshakeKind, ProtocolVersion, ServerConfig};

use crate::tls::PROTOCOLS;

mod records;

use records::{Heard, PLAIN_BYTES as RECORD_BYTES, Records, Refusal};

/// Plain bytes of one record while a connection is young. The client opens a record when all of it is there, so one that fits a
/// TCP segment (1,500 bytes less the heads of IPv6 and TCP with timestamps) is never waited for while the window of TCP is small.
const EARLY_RECORD_BYTES: usize = 1_500 - 40 - 32 - RECORD_OVERHEAD;
/// Plain bytes after which a connection is young no more: its window has grown by then.
const EARLY_BYTES: u32 = 128 << 10;
/// What a record of TLS 1.2 has beside its plain bytes: a header, a tag, and an explicit nonce (RFC 5288, section 3). rustls
/// reports it if a cipher needs more.
const RECORD_OVERHEAD: usize = 5 + 8 + 16;
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

impl From<Refusal> for Broken {
    fn from(refusal: Refusal) -> Self {
        Self(refusal.why.into())
    }
}

/// The TLS session of a connection, if it has one.
pub(in crate::runtime) type TlsSession = Option<Box<Session>>;

/// Who encrypts.
enum Stage {
    /// The handshake, and a session of TLS 1.2.
    Rustls(Box<UnbufferedServerConnection>),
    /// A session of TLS 1.3.
    Records(Box<Records>),
    /// A connection that could not be taken over.
    Lost,
}

/// The server's end of a TLS session.
pub(in crate::runtime) struct Session {
    stage: Stage,
    /// Plain bytes that were sealed, as far as they are counted: up to [`EARLY_BYTES`].
    sealed: u32,
    /// Wire bytes of an incomplete record or handshake message.
    rest: Vec<u8>,
    /// What the handshake agreed on, once it is complete.
    agreed: Option<Agreed>,
    /// The client sent close_notify.
    closed: bool,
    /// Why it failed. Input is not processed any more.
    broken: Option<Broken>,
}

/// What a handshake agreed on.
struct Agreed {
    protocol: Option<&'static [u8]>,
    certificates: Box<[CertificateDer<'static>]>,
    is_resumed: bool,
}

impl Agreed {
    fn of(connection: &UnbufferedServerConnection) -> Self {
        let protocol = connection.alpn_protocol();
        Self {
            protocol: PROTOCOLS.into_iter().find(|known| Some(*known) == protocol),
            certificates: connection.peer_certificates().unwrap_or_default().into(),
            is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }
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
        Ok(Self {
            stage: Stage::Rustls(Box::new(connection)),
            sealed: 0,
            rest: Vec::new(),
            agreed: None,
            closed: false,
            broken: None,
        })
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
        let (mut used, mut read) = match &mut self.stage {
            Stage::Rustls(connection) => read(connection, &mut self.rest, plain, wire),
            Stage::Records(_) => (0, Ok(State::Open)),
            Stage::Lost => return Err(Broken("the connection was lost".into())),
        };
        if read == Ok(State::Open) {
            read = self.settle().and_then(|()| self.open(&mut used, plain, wire));
        }
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

    /// The handshake is complete: a session of TLS 1.3 is taken over.
    fn settle(&mut self) -> Result<(), Broken> {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Lost) {
            Stage::Rustls(connection) if self.agreed.is_none() => {
                self.agreed = Some(Agreed::of(&connection));
                if can_be_taken_over(&connection) {
                    let records = Records::new(*connection).map_err(|error| Broken::new(&error))?;
                    Stage::Records(Box::new(records))
                } else {
                    Stage::Rustls(connection)
                }
            }
            stage @ (Stage::Rustls(_) | Stage::Records(_) | Stage::Lost) => stage,
        };
        Ok(())
    }

    /// Decrypts the records that are our own.
    fn open(&mut self, used: &mut usize, plain: &mut Vec<u8>, wire: &mut Vec<u8>) -> Result<State, Broken> {
        let Stage::Records(records) = &mut self.stage else { return Ok(State::Open) };
        match records.open(&mut self.rest[*used..], plain) {
            Ok((more, heard)) => {
                *used += more;
                Ok(match heard {
                    Heard::Open => State::Open,
                    Heard::Closed => State::Closed,
                })
            }
            Err(refusal) => {
                records.refuse(refusal, wire);
                Err(refusal.into())
            }
        }
    }

    /// Appends the alert of a connection of rustls' that failed.
    fn push_alert(&mut self, wire: &mut Vec<u8>) {
        let Stage::Rustls(connection) = &mut self.stage else { return };
        // rustls returns pending output before it processes more input.
        while connection.wants_write() {
            let state = connection.process_tls_records(&mut self.rest).state;
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
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        let early = (EARLY_BYTES - self.sealed) as usize;
        let (early, late) = plain.split_at(plain.len().min(early.next_multiple_of(EARLY_RECORD_BYTES)));
        let mut end = start;
        for (piece, per_record) in [(early, EARLY_RECORD_BYTES), (late, RECORD_BYTES)] {
            if !piece.is_empty() {
                end = self.seal_records(piece, per_record, wire, end)?;
            }
        }
        let counted = plain.len().min((EARLY_BYTES - self.sealed) as usize);
        self.sealed += u32::try_from(counted).unwrap_or(0);
        Ok(end)
    }

    fn seal_records(
        &mut self,
        plain: &[u8],
        per_record: usize,
        wire: &mut Vec<u8>,
        start: usize,
    ) -> Result<usize, Broken> {
        let room = match &self.stage {
            Stage::Records(_) => Records::room(plain.len(), per_record),
            Stage::Rustls(_) | Stage::Lost => {
                plain.len() + plain.len().div_ceil(per_record) * RECORD_OVERHEAD
            }
        };
        if wire.len() < start + room {
            wire.resize(start + room, 0);
        }
        if let Stage::Records(records) = &mut self.stage {
            return match records.seal(plain, per_record, &mut wire[start..]) {
                Ok(bytes) => Ok(start + bytes),
                Err(refusal) => Err(refusal.into()),
            };
        }
        let mut end = start;
        for piece in plain.chunks(per_record) {
            end = self.write(wire, end, |traffic, room| traffic.encrypt(piece, room))?;
        }
        Ok(end)
    }

    /// The protocol that was agreed on (ALPN, RFC 7301).
    pub(in crate::runtime) fn protocol(&self) -> Option<&'static [u8]> {
        self.agreed.as_ref()?.protocol
    }

    /// Appends a close_notify alert.
    pub(in crate::runtime) fn close(&mut self, wire: &mut Vec<u8>) {
        if let Stage::Records(records) = &mut self.stage {
            return records.close(wire);
        }
        let start = wire.len();
        wire.resize(start + GOODBYE_BYTES, 0);
        // A connection that failed has already sent an alert.
        if let Ok(end) = self.write(wire, start, |traffic, room| traffic.queue_close_notify(room)) {
            wire.truncate(end);
        } else {
            wire.truncate(start);
        }
    }

    /// What rustls encrypts.
    fn write(
        &mut self,
        wire: &mut Vec<u8>,
        start: usize,
        mut what: impl FnMut(&mut Traffic<'_>, &mut [u8]) -> Result<usize, EncryptError>,
    ) -> Result<usize, Broken> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        let Stage::Rustls(connection) = &mut self.stage else { return Err(Broken("no session".into())) };
        let mut at = start;
        loop {
            let UnbufferedStatus { discard, state } = connection.process_tls_records(&mut self.rest);
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
        self.agreed.as_ref().map(|agreed| &*agreed.certificates).unwrap_or_default()
    }

    /// Whether the session was resumed, so that no certificate was verified.
    pub(in crate::runtime) fn is_resumed(&self) -> bool {
        self.agreed.as_ref().is_some_and(|agreed| agreed.is_resumed)
    }

    /// Wire bytes that wait for the rest of their record.
    #[cfg(test)]
    pub(in crate::runtime) fn unfinished(&self) -> usize {
        self.rest.capacity()
    }
}

/// Whether the handshake of TLS 1.3 is complete, and all of it sent.
fn can_be_taken_over(connection: &UnbufferedServerConnection) -> bool {
    connection.protocol_version() == Some(ProtocolVersion::TLSv1_3)
        && !connection.is_handshaking()
        && !connection.wants_write()
}

/// Processes what the client sent by rustls, until more is needed or the session can be taken over. Returns how many bytes of
/// `rest` were used.
fn read(
    connection: &mut UnbufferedServerConnection,
    rest: &mut [u8],
    plain: &mut Vec<u8>,
    wire: &mut Vec<u8>,
) -> (usize, Result<State, Broken>) {
    let mut used = 0;
    let read = loop {
        let UnbufferedStatus { discard, state } = connection.process_tls_records(&mut rest[used..]);
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
        if can_be_taken_over(connection) {
            break Ok(State::Open);
        }
    };
    (used, read)
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
