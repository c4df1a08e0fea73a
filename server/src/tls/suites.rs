//! Cipher suites of TLS 1.3 whose sessions hold keys, and no key schedule.
//!
//! An expanded key has 544 bytes, and each session has two: a third of an idle TLS watch. These suites keep what it is made of,
//! and expand it for each record: 0.2 µs for AES, where a record of 1 KiB takes some 0.5 µs and its send several. All else is
//! ring's and rustls' own: the handshake, the keys, the order of records, and how many records one key may encrypt.

use std::sync::LazyLock;

use ring::aead::{Aad, Algorithm, LessSafeKey, Nonce, UnboundKey};
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, MessageDecrypter, MessageEncrypter,
    Nonce as RecordNonce, OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload, Tls13AeadAlgorithm,
    UnsupportedOperationError, make_tls13_aad,
};
use rustls::crypto::{CipherSuiteCommon, CryptoProvider, ring::default_provider};
use rustls::{
    CipherSuite, ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion, SupportedCipherSuite,
    Tls13CipherSuite,
};

/// ring's provider with these suites. TLS 1.2 keeps its own: its clients are old and few.
pub(super) fn provider() -> CryptoProvider {
    CryptoProvider { cipher_suites: SUITES.clone(), ..default_provider() }
}

/// Whether this machine's processor encrypts AES-GCM itself. Without that, ChaCha20 is several times faster.
pub(super) fn has_fast_aes() -> bool {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    return std::is_x86_feature_detected!("aes") && std::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
    false
}

/// The suites, in the server's order.
static SUITES: LazyLock<Vec<SupportedCipherSuite>> = LazyLock::new(|| {
    let mut suites: Vec<_> = default_provider().cipher_suites.into_iter().map(of_keys).collect();
    if !has_fast_aes() {
        suites.sort_by_key(|suite| !is_chacha(suite.suite()));
    }
    suites
});

const fn is_chacha(suite: CipherSuite) -> bool {
    matches!(
        suite,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
    )
}

/// The same suite with keys that are not expanded. It lives as long as the process, as rustls wants it.
fn of_keys(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    let SupportedCipherSuite::Tls13(full) = suite else { return suite };
    let algorithm = match full.common.suite {
        CipherSuite::TLS13_AES_256_GCM_SHA384 => &ring::aead::AES_256_GCM,
        CipherSuite::TLS13_AES_128_GCM_SHA256 => &ring::aead::AES_128_GCM,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => &ring::aead::CHACHA20_POLY1305,
        _ => return suite,
    };
    let CipherSuiteCommon { suite, hash_provider, confidentiality_limit } = full.common;
    SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite {
        common: CipherSuiteCommon { suite, hash_provider, confidentiality_limit },
        hkdf_provider: full.hkdf_provider,
        aead_alg: Box::leak(Box::new(Cipher { algorithm, full: full.aead_alg })),
        quic: None,
    })))
}

/// One cipher, for any key.
struct Cipher {
    algorithm: &'static Algorithm,
    /// The one that it stands for.
    full: &'static dyn Tls13AeadAlgorithm,
}

impl Cipher {
    fn direction(&self, key: AeadKey, iv: Iv) -> Box<Direction> {
        Box::new(Direction { key, iv, algorithm: self.algorithm })
    }
}

impl Tls13AeadAlgorithm for Cipher {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        self.direction(key, iv)
    }

    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageDecrypter> {
        self.direction(key, iv)
    }

    fn key_len(&self) -> usize {
        self.full.key_len()
    }

    fn extract_keys(
        &self,
        key: AeadKey,
        iv: Iv,
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        self.full.extract_keys(key, iv)
    }

    fn fips(&self) -> bool {
        self.full.fips()
    }
}

/// One direction of a session. The key is overwritten when it is dropped.
struct Direction {
    key: AeadKey,
    iv: Iv,
    algorithm: &'static Algorithm,
}

impl Direction {
    fn expand(&self) -> Result<LessSafeKey, Error> {
        let key = UnboundKey::new(self.algorithm, self.key.as_ref());
        key.map(LessSafeKey::new).map_err(|_| Error::General("a key of the wrong length".into()))
    }

    /// Of the record with this number. rustls counts them, and changes the key before they would repeat.
    fn nonce(&self, number: u64) -> Nonce {
        Nonce::assume_unique_for_key(RecordNonce::new(&self.iv, number).0)
    }
}

impl MessageEncrypter for Direction {
    fn encrypt(
        &mut self,
        message: OutboundPlainMessage<'_>,
        number: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        let bytes = self.encrypted_payload_len(message.payload.len());
        let mut payload = PrefixedPayload::with_capacity(bytes);
        payload.extend_from_chunks(&message.payload);
        payload.extend_from_slice(&[u8::from(message.typ)]);
        self.expand()?
            .seal_in_place_append_tag(self.nonce(number), Aad::from(make_tls13_aad(bytes)), &mut payload)
            .map_err(|_| Error::EncryptError)?;
        // RFC 8446, section 5.2: an encrypted record has the type and the version of one of TLS 1.2.
        Ok(OutboundOpaqueMessage::new(ContentType::ApplicationData, ProtocolVersion::TLSv1_2, payload))
    }

    fn encrypted_payload_len(&self, plain: usize) -> usize {
        plain + size_of::<u8>() + self.algorithm.tag_len()
    }
}

impl MessageDecrypter for Direction {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        number: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let aad = Aad::from(make_tls13_aad(message.payload.len()));
        let plain = self
            .expand()?
            .open_in_place(self.nonce(number), aad, &mut message.payload)
            .map_err(|_| Error::DecryptError)?
            .len();
        message.payload.truncate(plain);
        message.into_tls13_unpadded_message()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::sync::Arc;

    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};

    use super::*;
    use crate::tls::Current;
    use crate::tls::tests::{Folder, authority};

    /// Every suite of the server, with a client that has ring's own and offers no other.
    #[test]
    fn each_suite_is_understood_by_an_ordinary_client() {
        let folder = Folder::new("suites");
        let authority = authority();
        let current = Current::open(folder.files(&authority)).expect("files that fit");
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).expect("an authority");
        let roots = Arc::new(roots);
        let mut met = 0;
        for suite in default_provider().cipher_suites {
            let provider = CryptoProvider { cipher_suites: vec![suite], ..default_provider() };
            let versions = [suite.version()];
            let config =
                ClientConfig::builder_with_provider(Arc::new(provider)).with_protocol_versions(&versions);
            let config =
                config.expect("a version").with_root_certificates(Arc::clone(&roots)).with_no_client_auth();
            let name = ServerName::try_from("localhost").expect("a name");
            let mut client = ClientConnection::new(Arc::new(config), name).expect("a client");
            let mut server = ServerConnection::new(current.terms().config()).expect("a server");
            let talk = |client: &mut ClientConnection, server: &mut ServerConnection| {
                for _ in 0..4 {
                    let mut wire = Vec::new();
                    while client.wants_write() {
                        client.write_tls(&mut wire).expect("memory");
                    }
                    let mut rest = &wire[..];
                    while !rest.is_empty() {
                        server.read_tls(&mut rest).expect("memory");
                        server.process_new_packets()?;
                    }
                    wire.clear();
                    while server.wants_write() {
                        server.write_tls(&mut wire).expect("memory");
                    }
                    let mut rest = &wire[..];
                    while !rest.is_empty() {
                        client.read_tls(&mut rest).expect("memory");
                        client.process_new_packets()?;
                    }
                }
                Ok::<(), Error>(())
            };
            let shaken = talk(&mut client, &mut server);
            if suite.suite().as_str().is_some_and(|name| name.contains("_RSA_")) {
                assert!(shaken.is_err(), "an RSA suite of TLS 1.2 with an ECDSA key");
                continue;
            }
            shaken.unwrap_or_else(|error| panic!("{suite:?}: {error}"));
            assert!(!client.is_handshaking() && !server.is_handshaking(), "{suite:?}");
            met += 1;
            for round in 0..3_u8 {
                let mut heard = [0; 3];
                client.writer().write_all(&[round, 1, 2]).expect("memory");
                server.writer().write_all(&[round, 3, 4]).expect("memory");
                if round == 1 {
                    client.refresh_traffic_keys().ok();
                }
                talk(&mut client, &mut server).expect("records");
                server.reader().read_exact(&mut heard).expect("three bytes");
                assert_eq!(heard, [round, 1, 2]);
                client.reader().read_exact(&mut heard).expect("three bytes");
                assert_eq!(heard, [round, 3, 4]);
            }
        }
        // Three of TLS 1.3, and three of TLS 1.2 for this key.
        assert_eq!(met, 6);
    }

    #[test]
    fn a_changed_record_is_refused() {
        for suite in SUITES.iter().filter_map(SupportedCipherSuite::tls13) {
            let key = || AeadKey::from([7; 32]);
            if suite.aead_alg.key_len() != 32 {
                continue;
            }
            let mut encrypter = suite.aead_alg.encrypter(key(), Iv::new([3; 12]));
            let mut decrypter = suite.aead_alg.decrypter(key(), Iv::new([3; 12]));
            let plain = || OutboundPlainMessage {
                typ: ContentType::ApplicationData,
                version: ProtocolVersion::TLSv1_3,
                payload: b"one event".as_slice().into(),
            };
            let sealed = encrypter.encrypt(plain(), 5).expect("sealed").encode();
            let open = |decrypter: &mut dyn MessageDecrypter, mut wire: Vec<u8>, number| {
                let body = &mut wire[5..];
                let message =
                    InboundOpaqueMessage::new(ContentType::ApplicationData, ProtocolVersion::TLSv1_2, body);
                decrypter.decrypt(message, number).map(|plain| plain.payload.to_vec())
            };
            assert_eq!(open(&mut *decrypter, sealed.clone(), 5).expect("opened"), b"one event");
            assert!(open(&mut *decrypter, sealed.clone(), 6).is_err(), "the number of another record");
            for at in 5..sealed.len() {
                let mut changed = sealed.clone();
                changed[at] ^= 1;
                assert!(open(&mut *decrypter, changed, 5).is_err(), "byte {at}");
            }
            for bytes in 0..sealed.len() - 5 {
                assert!(open(&mut *decrypter, sealed[..5 + bytes].to_vec(), 5).is_err(), "{bytes} bytes");
            }
        }
    }

    #[test]
    fn a_direction_is_small() {
        assert!(size_of::<Direction>() <= 64, "{}", size_of::<Direction>());
        assert!(size_of::<LessSafeKey>() > 500, "an expanded key is small now: hold it instead");
    }
}
