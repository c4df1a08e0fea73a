//! Records of TLS 1.3 after the handshake (RFC 8446, section 5): encrypted straight into the bytes that are sent, decrypted in
//! place.
//!
//! rustls makes the handshake, and every key that comes after it. A connection then holds two keys that are not expanded, where
//! rustls' own state has some 2.2 KiB. A key is expanded for each call, which takes 0.2 µs for AES.

use ring::aead::{self, Aad, Algorithm, LessSafeKey, Nonce, UnboundKey};
use rustls::crypto::cipher::{AeadKey, Iv, Nonce as RecordNonce};
use rustls::kernel::KernelConnection;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::{ConnectionTrafficSecrets, Error};

/// Plain bytes of one record at most.
pub(super) const PLAIN_BYTES: usize = 16 << 10;
/// A record's type, version and length.
const HEADER_BYTES: usize = 5;
const TAG_BYTES: usize = 16;
/// What a record has beside its plain bytes: the header, the type that is encrypted, and the tag.
pub(super) const OVERHEAD: usize = HEADER_BYTES + 1 + TAG_BYTES;
/// Encrypted bytes of one record at most (section 5.2).
const ENCRYPTED_BYTES: usize = PLAIN_BYTES + 256;
/// Records that one key encrypts before there is a new one: AES-GCM's limit (section 5.5), with room for the update itself.
const RECORDS_PER_KEY: u64 = (1 << 24) - 8;
/// Records without a byte of the application that are taken in a row: empty ones, and new keys. They cost work and bring nothing.
const IDLE_RECORDS: u8 = 32;
const KEY_UPDATE: [u8; 4] = [24, 0, 0, 1];

const CLOSE_NOTIFY: u8 = 0;
/// Announces a close_notify.
const USER_CANCELED: u8 = 90;

/// The types of records.
mod kind {
    pub(super) const ALERT: u8 = 21;
    pub(super) const HANDSHAKE: u8 = 22;
    pub(super) const APPLICATION: u8 = 23;
}

/// Why what the client sent is refused: the alert for it (section 6.2), and a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    alert: Option<u8>,
    pub(super) why: &'static str,
}

const fn refusal(alert: u8, why: &'static str) -> Refusal {
    Refusal { alert: Some(alert), why }
}

const UNEXPECTED: Refusal = refusal(10, "a message that has no place after the handshake");
const FORGED: Refusal = refusal(20, "a record that cannot be decrypted");
const TOO_LONG: Refusal = refusal(22, "a record that is too long");
const ILLEGAL: Refusal = refusal(47, "an update of keys with a wrong value");
const MALFORMED: Refusal = refusal(50, "an alert that is no alert");
const INTERNAL: Refusal = refusal(80, "no new keys can be made");
const TOO_MANY: Refusal = refusal(10, "too many records without data");
/// Nothing is sent after an alert that ends a connection.
const ENDED: Refusal = Refusal { alert: None, why: "the connection was closed" };
/// The other end failed, and knows why.
const FAILED: Refusal = Refusal { alert: None, why: "the client's alert ended the connection" };

/// What the records say of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It goes on: the rest is the beginning of a record.
    Open,
    /// The client sent close_notify.
    Closed,
}

/// The keys of a connection, and the messages about them.
pub(super) struct Records {
    secrets: KernelConnection<ServerConnectionData>,
    send: Direction,
    receive: Direction,
    /// The beginning of a message about keys: it may come in several records.
    message: [u8; KEY_UPDATE.len() + 1],
    message_bytes: u8,
    idle: u8,
    /// The client asked for a new key of ours. It is made before the next record.
    owes_key: bool,
    closed: bool,
}

impl Records {
    /// Takes a connection over whose handshake is complete and that has nothing left to send.
    pub(super) fn new(connection: UnbufferedServerConnection) -> Result<Self, Error> {
        let (secrets, kernel) = connection.dangerous_into_kernel_connection()?;
        Ok(Self {
            secrets: kernel,
            send: Direction::new(secrets.tx)?,
            receive: Direction::new(secrets.rx)?,
            message: [0; KEY_UPDATE.len() + 1],
            message_bytes: 0,
            idle: 0,
            owes_key: false,
            closed: false,
        })
    }

    /// Decrypts the whole records of `wire` in place, and appends their plain bytes to `plain`. Returns how many bytes of `wire`
    /// they had.
    pub(super) fn open(&mut self, wire: &mut [u8], plain: &mut Vec<u8>) -> Result<(usize, Heard), Refusal> {
        let mut used = 0;
        let mut key = None;
        while let [kind, _, _, high, low, rest @ ..] = &mut wire[used..] {
            let bytes = usize::from(u16::from_be_bytes([*high, *low]));
            if *kind != kind::APPLICATION {
                return Err(UNEXPECTED);
            }
            if bytes > ENCRYPTED_BYTES {
                return Err(TOO_LONG);
            }
            let header = [*kind, 3, 3, *high, *low];
            let Some(body) = rest.get_mut(..bytes) else { break };
            let expanded = match key.take() {
                Some(expanded) => expanded,
                None => self.receive.expand().ok_or(INTERNAL)?,
            };
            let (kind, content) = self.receive.open(&expanded, header, body)?;
            used += HEADER_BYTES + bytes;
            if self.message_bytes > 0 && kind != kind::HANDSHAKE {
                return Err(UNEXPECTED);
            }
            let mut has_new_key = false;
            match (kind, content) {
                (kind::APPLICATION, content) => plain.extend_from_slice(content),
                (kind::HANDSHAKE, part) => has_new_key = self.take_key_update(part)?,
                (kind::ALERT, [_, CLOSE_NOTIFY]) => return Ok((used, Heard::Closed)),
                (kind::ALERT, [_, USER_CANCELED]) => {}
                (kind::ALERT, [_, _]) => return Err(FAILED),
                (kind::ALERT, _) => return Err(MALFORMED),
                _ => return Err(UNEXPECTED),
            }
            self.idle = if kind == kind::APPLICATION && !content.is_empty() { 0 } else { self.idle + 1 };
            if self.idle > IDLE_RECORDS {
                return Err(TOO_MANY);
            }
            if !has_new_key {
                key = Some(expanded);
            }
        }
        Ok((used, Heard::Open))
    }

    /// A part of a message of the handshake: only updates of keys are left (section 4.6.3), and one ends its record, as all that
    /// comes after it has the new key. Whether there is a new key now.
    fn take_key_update(&mut self, part: &[u8]) -> Result<bool, Refusal> {
        // An empty part is forbidden (section 5.1).
        if part.is_empty() {
            return Err(UNEXPECTED);
        }
        let start = usize::from(self.message_bytes);
        let room = self.message.get_mut(start..start + part.len()).ok_or(UNEXPECTED)?;
        room.copy_from_slice(part);
        self.message_bytes += u8::try_from(part.len()).map_err(|_| UNEXPECTED)?;
        let (head, rest) = self.message[..usize::from(self.message_bytes)]
            .split_at(KEY_UPDATE.len().min(usize::from(self.message_bytes)));
        if !KEY_UPDATE.starts_with(head) {
            return Err(UNEXPECTED);
        }
        match rest {
            [] => return Ok(false),
            [0] => {}
            [1] => self.owes_key = true,
            _ => return Err(ILLEGAL),
        }
        self.message_bytes = 0;
        let next = self.secrets.update_rx_secret().and_then(Direction::new).map_err(|_| INTERNAL)?;
        self.receive = next;
        Ok(true)
    }

    /// Wire bytes of `plain`, at most.
    pub(super) const fn room(plain: usize, per_record: usize) -> usize {
        // The answer to an update of keys may go first, or a new key be due.
        plain + plain.div_ceil(per_record) * OVERHEAD + OVERHEAD + KEY_UPDATE.len() + 1
    }

    /// Encrypts `plain` into records of at most `per_record` bytes, at the beginning of `wire`, which has [`Records::room`].
    /// Returns their bytes.
    pub(super) fn seal(
        &mut self,
        plain: &[u8],
        per_record: usize,
        wire: &mut [u8],
    ) -> Result<usize, Refusal> {
        debug_assert!(per_record <= PLAIN_BYTES, "a record of TLS has 16 KiB at most");
        if self.closed {
            return Err(ENDED);
        }
        let mut at = 0;
        if self.owes_key
            || self.send.number.saturating_add(records(plain.len(), per_record)) > RECORDS_PER_KEY
        {
            at = self.renew(wire)?;
        }
        let key = self.send.expand().ok_or(INTERNAL)?;
        for piece in plain.chunks(per_record) {
            at += self.send.seal(&key, kind::APPLICATION, piece, &mut wire[at..])?;
        }
        Ok(at)
    }

    /// Announces a new key, and takes it.
    fn renew(&mut self, wire: &mut [u8]) -> Result<usize, Refusal> {
        let [a, b, c, d] = KEY_UPDATE;
        // Ours asks for none of the client's: 0.
        let end = self.say(kind::HANDSHAKE, &[a, b, c, d, 0], wire)?;
        self.send = self.secrets.update_tx_secret().and_then(Direction::new).map_err(|_| INTERNAL)?;
        self.owes_key = false;
        Ok(end)
    }

    /// One record with a message of the protocol.
    fn say(&mut self, kind: u8, message: &[u8], wire: &mut [u8]) -> Result<usize, Refusal> {
        let key = self.send.expand().ok_or(INTERNAL)?;
        self.send.seal(&key, kind, message, wire)
    }

    /// Appends a close_notify alert, once.
    pub(super) fn close(&mut self, wire: &mut Vec<u8>) {
        self.alert([1, CLOSE_NOTIFY], wire);
    }

    /// Appends the alert for a refusal.
    pub(super) fn refuse(&mut self, refusal: Refusal, wire: &mut Vec<u8>) {
        if let Some(alert) = refusal.alert {
            self.alert([2, alert], wire);
        }
    }

    fn alert(&mut self, alert: [u8; 2], wire: &mut Vec<u8>) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        let start = wire.len();
        wire.resize(start + OVERHEAD + alert.len(), 0);
        let end = self.say(kind::ALERT, &alert, &mut wire[start..]).unwrap_or(0);
        wire.truncate(start + end);
    }
}

/// How many records `plain` bytes are.
fn records(plain: usize, per_record: usize) -> u64 {
    plain.div_ceil(per_record) as u64
}

/// One direction of a connection. The key is overwritten when it is dropped.
struct Direction {
    key: AeadKey,
    iv: Iv,
    algorithm: &'static Algorithm,
    /// Of the next record.
    number: u64,
}

impl Direction {
    fn new((number, secrets): (u64, ConnectionTrafficSecrets)) -> Result<Self, Error> {
        let (algorithm, key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&aead::AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&aead::AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&aead::CHACHA20_POLY1305, key, iv),
            _ => return Err(Error::General("a cipher that this server does not offer".into())),
        };
        Ok(Self { key, iv, algorithm, number })
    }

    fn expand(&self) -> Option<LessSafeKey> {
        UnboundKey::new(self.algorithm, self.key.as_ref()).map(LessSafeKey::new).ok()
    }

    /// No number is used twice: keys are replaced long before they end.
    fn nonce(&mut self) -> Nonce {
        let nonce = Nonce::assume_unique_for_key(RecordNonce::new(&self.iv, self.number).0);
        self.number += 1;
        nonce
    }

    /// A record's type and its content.
    fn open<'r>(
        &mut self,
        key: &LessSafeKey,
        header: [u8; HEADER_BYTES],
        body: &'r mut [u8],
    ) -> Result<(u8, &'r [u8]), Refusal> {
        let plain = key.open_in_place(self.nonce(), Aad::from(header), body).map_err(|_| FORGED)?;
        // The content, its type, and zeros as padding.
        let kind = plain.iter().rposition(|byte| *byte != 0).ok_or(UNEXPECTED)?;
        if kind > PLAIN_BYTES {
            return Err(TOO_LONG);
        }
        Ok((plain[kind], &plain[..kind]))
    }

    /// Writes one record, and returns its bytes.
    fn seal(&mut self, key: &LessSafeKey, kind: u8, plain: &[u8], wire: &mut [u8]) -> Result<usize, Refusal> {
        let encrypted = plain.len() + 1 + TAG_BYTES;
        let [high, low] = u16::try_from(encrypted).map_err(|_| INTERNAL)?.to_be_bytes();
        let header = [kind::APPLICATION, 3, 3, high, low];
        let (head, rest) = wire.split_at_mut(HEADER_BYTES);
        head.copy_from_slice(&header);
        let (body, tag) = rest[..encrypted].split_at_mut(plain.len() + 1);
        let (content, content_kind) = body.split_at_mut(plain.len());
        content.copy_from_slice(plain);
        content_kind.copy_from_slice(&[kind]);
        let sealed = key.seal_in_place_separate_tag(self.nonce(), Aad::from(header), body);
        tag.copy_from_slice(sealed.map_err(|_| INTERNAL)?.as_ref());
        Ok(HEADER_BYTES + encrypted)
    }
}

#[cfg(test)]
mod tests;
