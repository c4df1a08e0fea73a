//! Sessions against rustls' own client, byte by byte.

use std::io::{Read as _, Write as _};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};

use super::*;
use crate::tls::tests::{Authority, Folder, authority};
use crate::tls::{Current, HTTP2};

pub(in crate::runtime) const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

/// A server's files, and clients that trust it.
pub(in crate::runtime) struct Stand {
    current: Arc<Current>,
    authority: Authority,
    _folder: Folder,
}

impl Stand {
    pub(in crate::runtime) fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        let authority = authority();
        let current = Current::open(folder.files(&authority)).expect("files that fit");
        Self { current, authority, _folder: folder }
    }

    pub(in crate::runtime) fn client(
        &self,
        version: &'static SupportedProtocolVersion,
        protocols: &[&[u8]],
    ) -> ClientConnection {
        self.client_of(Arc::new(rustls::crypto::ring::default_provider()), version, protocols)
    }

    pub(in crate::runtime) fn client_of(
        &self,
        provider: Arc<CryptoProvider>,
        version: &'static SupportedProtocolVersion,
        protocols: &[&[u8]],
    ) -> ClientConnection {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().clone()).expect("an authority");
        let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]);
        let config = config.expect("a version").with_root_certificates(roots);
        let mut config = config.with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let name = ServerName::try_from("localhost").expect("a name");
        ClientConnection::new(Arc::new(config), name).expect("a client")
    }

    pub(in crate::runtime) fn session(&self) -> Session {
        Session::new(self.current.terms().config()).expect("a session")
    }

    /// Both ends after the handshake.
    pub(in crate::runtime) fn pair(
        &self,
        version: &'static SupportedProtocolVersion,
    ) -> (ClientConnection, Session) {
        // The slowest client: one byte at a time.
        self.shake(self.client(version, &[]), 1)
    }

    /// The same with a given client, whose bytes come in pieces of a size.
    pub(in crate::runtime) fn shake(
        &self,
        mut client: ClientConnection,
        piece: usize,
    ) -> (ClientConnection, Session) {
        let mut session = self.session();
        let mut plain = Vec::new();
        while client.is_handshaking() {
            let said = said(&mut client);
            let mut wire = Vec::new();
            for piece in said.chunks(piece) {
                session.read(piece, &mut plain, &mut wire).expect("a right handshake");
            }
            tell(&mut client, &wire);
        }
        let mut wire = Vec::new();
        let stand = session.read(&said(&mut client), &mut plain, &mut wire).expect("its end");
        assert_eq!(stand, State::Open);
        tell(&mut client, &wire);
        assert!(plain.is_empty());
        assert_eq!(session.unfinished(), 0);
        (client, session)
    }
}

/// What the client has to send.
pub(in crate::runtime) fn said(client: &mut ClientConnection) -> Vec<u8> {
    let mut said = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut said).expect("memory takes all");
    }
    said
}

/// Lets the client read, and returns what it received.
pub(in crate::runtime) fn tell(client: &mut ClientConnection, mut wire: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while !wire.is_empty() {
        client.read_tls(&mut wire).expect("memory gives all");
        let there = client.process_new_packets().expect("what the server says is right");
        let start = plain.len();
        plain.resize(start + there.plaintext_bytes_to_read(), 0);
        client.reader().read_exact(&mut plain[start..]).expect("that much is there");
    }
    plain
}

#[test]
fn bytes_go_both_ways_in_pieces_of_any_size() {
    let stand = Stand::new("session-bytes");
    for version in VERSIONS {
        let (mut client, mut session) = stand.pair(version);
        for size in [1, 100, RECORD_BYTES - 1, RECORD_BYTES, RECORD_BYTES + 1, 40_000] {
            let bytes: Vec<u8> = (0..size).map(|at| at.to_le_bytes()[0]).collect();
            let mut wire = b"before".to_vec();
            session.seal(&bytes, &mut wire).expect("sealed");
            let wire = wire.strip_prefix(b"before").expect("appended");
            let most = size + size.div_ceil(EARLY_RECORD_BYTES) * RECORD_OVERHEAD;
            assert!(wire.len() > size && wire.len() <= most, "{} for {size}", wire.len());
            assert!(tell(&mut client, wire) == bytes, "{version:?} {size}");
            // And in the other direction, cut at any byte.
            client.writer().write_all(&bytes).expect("below the limit");
            let (mut plain, mut answer) = (Vec::new(), Vec::new());
            for piece in said(&mut client).chunks(1000) {
                let stand = session.read(piece, &mut plain, &mut answer).expect("right");
                assert_eq!(stand, State::Open);
            }
            assert!(plain == bytes && answer.is_empty(), "{version:?} {size}");
            assert_eq!(session.unfinished(), 0, "nothing is held between records");
        }
        assert_eq!((session.peer_certificate(), session.is_resumed()), (None, false));
    }
}

#[test]
fn a_buffer_that_is_long_enough_keeps_its_length() {
    let (mut client, mut session) = Stand::new("session-scratch").pair(&TLS13);
    let mut scratch = Vec::new();
    let end = session.seal_at(&[b'x'; 50_000], &mut scratch, 0).expect("sealed");
    assert_eq!(tell(&mut client, &scratch[..end]).len(), 50_000);
    let long = scratch.len();
    for size in [1, 3000, 49_000] {
        let end = session.seal_at(&vec![b'y'; size], &mut scratch, 0).expect("sealed");
        assert_eq!(scratch.len(), long);
        assert_eq!(tell(&mut client, &scratch[..end]).len(), size);
    }
    assert_eq!(session.seal_at(b"", &mut scratch, 0), Ok(0), "nothing is nothing");
}

/// Plain bytes of the records on the wire, of TLS 1.3.
fn records(mut wire: &[u8]) -> Vec<usize> {
    let mut records = Vec::new();
    while let [0x17, 3, 3, high, low, rest @ ..] = wire {
        let bytes = usize::from(u16::from_be_bytes([*high, *low]));
        records.push(bytes - 17);
        wire = &rest[bytes..];
    }
    assert!(wire.is_empty(), "whole records");
    records
}

#[test]
fn records_fit_a_segment_until_a_connection_has_sent_much() {
    let (mut client, mut session) = Stand::new("session-early").pair(&TLS13);
    let early = EARLY_BYTES as usize;
    let mut wire = Vec::new();
    session.seal(&vec![b'x'; early - 1], &mut wire).expect("sealed");
    let sizes = records(&wire);
    assert_eq!(sizes.iter().sum::<usize>(), early - 1);
    let (last, whole) = sizes.split_last().expect("records");
    assert!(whole.iter().all(|bytes| *bytes == EARLY_RECORD_BYTES) && *last <= EARLY_RECORD_BYTES);
    assert_eq!(tell(&mut client, &wire).len(), early - 1);
    wire.clear();
    session.seal(&[b'y'; 40_000], &mut wire).expect("sealed");
    let after = 40_000 - EARLY_RECORD_BYTES;
    let expected = [EARLY_RECORD_BYTES, RECORD_BYTES, RECORD_BYTES, after - 2 * RECORD_BYTES];
    assert_eq!(records(&wire), expected);
    assert_eq!(tell(&mut client, &wire).len(), 40_000);
    // An event is one record from the first on.
    const { assert!(EARLY_RECORD_BYTES > 1_300) };
}

#[test]
fn new_keys_are_taken_and_answered() {
    let (mut client, mut session) = Stand::new("session-keys").pair(&TLS13);
    for round in 0..3_u8 {
        client.refresh_traffic_keys().expect("TLS 1.3 has that");
        client.writer().write_all(&[round]).expect("a byte");
        let (mut plain, mut wire) = (Vec::new(), Vec::new());
        let stand = session.read(&said(&mut client), &mut plain, &mut wire).expect("right");
        assert_eq!((stand, plain), (State::Open, vec![round]), "with the client's new keys");
        let mut sealed = Vec::new();
        session.seal(b"with ours", &mut sealed).expect("sealed");
        let alone = b"with ours".len() + RECORD_OVERHEAD;
        assert!(sealed.len() > alone, "the answer goes first: {} bytes", sealed.len());
        wire.extend_from_slice(&sealed);
        assert_eq!(tell(&mut client, &wire), b"with ours");
    }
}

#[test]
fn goodbyes_are_heard_and_said() {
    let stand = Stand::new("session-goodbye");
    for version in VERSIONS {
        let (mut client, mut session) = stand.pair(version);
        client.writer().write_all(b"last").expect("words");
        client.send_close_notify();
        let (mut plain, mut wire) = (Vec::new(), Vec::new());
        let stand = session.read(&said(&mut client), &mut plain, &mut wire).expect("right");
        assert_eq!((stand, &plain[..]), (State::Closed, &b"last"[..]));
        assert_eq!(session.read(b"and more", &mut plain, &mut wire), Ok(State::Closed));
        assert_eq!(plain, b"last");
        // Our half stays open until we close it.
        session.seal(b"the rest", &mut wire).expect("sealed");
        session.close(&mut wire);
        let len = wire.len();
        session.close(&mut wire);
        assert_eq!(wire.len(), len, "once");
        assert_eq!(tell(&mut client, &wire), b"the rest");
        assert_eq!(client.reader().read(&mut [0]).expect("a clean end"), 0, "{version:?}");
    }
}

#[test]
fn what_breaks_the_protocol_gets_an_alert() {
    let stand = Stand::new("session-broken");
    let fails = |session: &mut Session, bytes: &[u8]| {
        let (mut plain, mut wire) = (Vec::new(), Vec::new());
        let broken = session.read(bytes, &mut plain, &mut wire).expect_err("that is wrong");
        assert!(!broken.to_string().is_empty());
        assert!(plain.is_empty());
        session.seal(b"x", &mut Vec::new()).expect_err("nothing is sent after it");
        wire
    };
    let alert = |wire: &[u8], number: u8| {
        assert_eq!((wire.first(), wire.last()), (Some(&0x15), Some(&number)), "{wire:?}");
    };
    // Not a record; a handshake record without a valid message.
    fails(&mut stand.session(), b"\x80\x00\x00\x00\x00 garbage");
    alert(&fails(&mut stand.session(), b"\x16\x03\x01\x00\x05\x7f\x00\x00\x01\x00"), 10);
    // A client that offers another protocol only: no_application_protocol.
    for version in VERSIONS {
        let mut client = stand.client(version, &[b"h3"]);
        // In TLS 1.3 the alert is already encrypted.
        let wire = fails(&mut stand.session(), &said(&mut client));
        client.read_tls(&mut &wire[..]).expect("memory gives all");
        let told = client.process_new_packets().expect_err("an alert").to_string();
        assert!(told.contains("NoApplicationProtocol"), "{version:?}: {told}");
        let both = stand.client(version, &[b"http/1.1", HTTP2]);
        assert_eq!(stand.shake(both, 1).1.protocol(), Some(HTTP2), "the server's order");
    }
    // A record that was modified in transit: bad_record_mac, encrypted.
    for version in VERSIONS {
        let (mut client, mut session) = stand.pair(version);
        client.writer().write_all(b"hello").expect("words");
        let mut wire = said(&mut client);
        *wire.last_mut().expect("a record") ^= 1;
        assert_eq!(fails(&mut session, &wire).first(), Some(if *version == TLS12 { &0x15 } else { &0x17 }));
    }
}

#[test]
fn a_message_without_end_is_not_kept() {
    let stand = Stand::new("session-endless");
    let mut session = stand.session();
    // A handshake message that claims 16 MiB, in records of 16 KiB.
    let mut first = vec![0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff];
    first.resize(5 + 0x4000, 0);
    let mut more = vec![0x16, 3, 1, 0x40, 0];
    more.resize(5 + 0x4000, 0);
    let mut heard = session.read(&first, &mut Vec::new(), &mut Vec::new());
    for _ in 0..10 {
        if heard.is_err() {
            break;
        }
        assert!(session.unfinished() <= 2 * HANDSHAKE_BYTES_MAX, "{}", session.unfinished());
        heard = session.read(&more, &mut Vec::new(), &mut Vec::new());
    }
    heard.expect_err("no end of it");
}

/// The memory of a watch's session; `engine/DECISIONS.md` states it.
#[test]
fn an_idle_session_is_small() {
    assert!(size_of::<Session>() <= 160, "{}", size_of::<Session>());
}
