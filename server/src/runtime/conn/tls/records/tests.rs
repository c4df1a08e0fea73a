//! Records against an ordinary client of rustls, and records that a client must not send.

use std::io::Write as _;
use std::sync::Arc;

use rustls::ClientConnection;
use rustls::crypto::{CryptoProvider, ring::default_provider};

use super::super::tests::{Stand, said, tell};
use super::super::{Session, Stage, State};
use super::*;

/// What the client would send, had it no library that keeps it from wrong records: the server's receiving keys, in its place.
fn forger(session: &mut Session) -> Direction {
    let Stage::Records(records) = &mut session.stage else { panic!("TLS 1.3") };
    let of = |key: &AeadKey| -> AeadKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(key.as_ref());
        bytes.into()
    };
    let Direction { key, iv, algorithm, number } = &records.receive;
    let iv = Iv::copy(iv.as_ref());
    Direction { key: of(key), iv, algorithm, number: *number }
}

/// One record on the wire.
fn record(forger: &mut Direction, kind: u8, content: &[u8]) -> Vec<u8> {
    let mut wire = vec![0; content.len() + OVERHEAD];
    let key = forger.expand().expect("a key");
    forger.seal(&key, kind, content, &mut wire).expect("a record");
    wire
}

/// The session's answer to bytes: what it read, and the alert that it sent.
fn answer(
    session: &mut Session,
    client: &mut ClientConnection,
    wire: &[u8],
) -> (Result<State, String>, Vec<u8>, String) {
    let (mut plain, mut out) = (Vec::new(), Vec::new());
    let read = session.read(wire, &mut plain, &mut out).map_err(|broken| broken.to_string());
    let mut alert = String::new();
    let mut rest = &out[..];
    while !rest.is_empty() {
        client.read_tls(&mut rest).expect("memory gives all");
        if let Err(error) = client.process_new_packets() {
            alert = error.to_string();
        }
    }
    (read, plain, alert)
}

#[test]
fn every_cipher_is_understood_by_an_ordinary_client() {
    let stand = Stand::new("records-ciphers");
    let mut met = 0;
    for suite in default_provider().cipher_suites {
        if suite.tls13().is_none() {
            continue;
        }
        let provider = CryptoProvider { cipher_suites: vec![suite], ..default_provider() };
        let client = stand.client_of(Arc::new(provider), &rustls::version::TLS13, &[]);
        let (mut client, mut session) = stand.shake(client, 1);
        assert!(matches!(session.stage, Stage::Records(_)), "{suite:?}");
        for bytes in [1, 1_000, 100_000] {
            let mut wire = Vec::new();
            session.seal(&vec![b'x'; bytes], &mut wire).expect("sealed");
            assert_eq!(tell(&mut client, &wire), vec![b'x'; bytes], "{suite:?}");
            client.writer().write_all(b"hello").expect("memory");
            let (mut plain, mut out) = (Vec::new(), Vec::new());
            session.read(&said(&mut client), &mut plain, &mut out).expect("right");
            assert_eq!((&plain[..], out.len()), (&b"hello"[..], 0), "{suite:?}");
        }
        met += 1;
    }
    assert_eq!(met, 3, "AES of two lengths, ChaCha20");
}

/// The last flight of the handshake with a request behind it, and new keys, cut anywhere.
#[test]
fn what_comes_with_the_end_of_the_handshake_is_read_at_any_cut() {
    let stand = Stand::new("records-takeover");
    for cut in [1, 2, 3, 7, 40, 64, 100, 1_000, 100_000] {
        let (mut client, mut session) = (stand.client(&rustls::version::TLS13, &[]), stand.session());
        let (mut plain, mut wire) = (Vec::new(), Vec::new());
        session.read(&said(&mut client), &mut plain, &mut wire).expect("a hello");
        tell(&mut client, &wire);
        assert!(!client.is_handshaking(), "its last flight is ready");
        client.writer().write_all(b"first ").expect("memory");
        client.refresh_traffic_keys().expect("TLS 1.3 has that");
        client.writer().write_all(b"second").expect("memory");
        wire.clear();
        for piece in said(&mut client).chunks(cut) {
            session.read(piece, &mut plain, &mut wire).expect("right");
        }
        assert_eq!(plain, b"first second", "cut at {cut}");
        session.seal(b"answer", &mut wire).expect("sealed");
        assert_eq!(tell(&mut client, &wire), b"answer", "cut at {cut}");
        assert_eq!(session.unfinished(), 0);
    }
}

#[test]
fn a_key_is_replaced_before_it_is_worn_out() {
    let (mut client, mut session) = Stand::new("records-worn").pair(&rustls::version::TLS13);
    let Stage::Records(records) = &mut session.stage else { panic!("TLS 1.3") };
    let mut wire = vec![0; Records::room(5, 5)];
    // The update itself has the number that the client expects.
    let end = records.renew(&mut wire).expect("new keys");
    assert_eq!(records.send.number, 0);
    assert_eq!(tell(&mut client, &wire[..end]), b"");
    let end = records.seal(b"hello", 5, &mut wire).expect("sealed");
    assert_eq!(tell(&mut client, &wire[..end]), b"hello");
    records.send.number = RECORDS_PER_KEY;
    records.seal(b"hello", 5, &mut wire).expect("sealed");
    assert_eq!(records.send.number, 1, "a new key, by itself");
}

#[test]
fn records_that_are_wrong_get_their_alert() {
    let stand = Stand::new("records-wrong");
    let update = [24, 0, 0, 1, 0];
    type Records = Vec<(u8, Vec<u8>)>;
    let idle =
        |records: usize| -> Records { (0..records).map(|_| (kind::APPLICATION, Vec::new())).collect() };
    let cases: Vec<(&str, Records, &str)> = vec![
        ("an unknown type", vec![(99, b"x".to_vec())], "UnexpectedMessage"),
        ("change_cipher_spec", vec![(20, vec![1])], "UnexpectedMessage"),
        ("only padding", vec![(0, vec![0; 40])], "UnexpectedMessage"),
        ("an empty handshake", vec![(kind::HANDSHAKE, vec![])], "UnexpectedMessage"),
        ("a finished again", vec![(kind::HANDSHAKE, vec![20, 0, 0, 1, 0])], "UnexpectedMessage"),
        ("a long update", vec![(kind::HANDSHAKE, vec![24, 0, 0, 2, 0, 0])], "UnexpectedMessage"),
        ("an update of no kind", vec![(kind::HANDSHAKE, vec![24, 0, 0, 1, 2])], "IllegalParameter"),
        ("two in a record", vec![(kind::HANDSHAKE, [update, update].concat())], "UnexpectedMessage"),
        (
            "data within an update",
            vec![(kind::HANDSHAKE, update[..2].to_vec()), (kind::APPLICATION, b"x".to_vec())],
            "UnexpectedMessage",
        ),
        ("a short alert", vec![(kind::ALERT, vec![1])], "DecodeError"),
        ("too many empty ones", idle(33), "UnexpectedMessage"),
        ("more than 16 KiB", vec![(kind::APPLICATION, vec![b'x'; PLAIN_BYTES + 1])], "RecordOverflow"),
    ];
    for (name, records, expected) in cases {
        let (mut client, mut session) = stand.pair(&rustls::version::TLS13);
        let mut forger = forger(&mut session);
        let wire: Vec<u8> =
            records.iter().flat_map(|(kind, content)| record(&mut forger, *kind, content)).collect();
        let (read, plain, alert) = answer(&mut session, &mut client, &wire);
        read.expect_err(name);
        assert!(alert.contains(expected), "{name}: {alert}");
        assert_eq!(plain, b"", "{name}");
        session.seal(b"x", &mut Vec::new()).expect_err("nothing is sent after it");
    }
    // What has a key, and no right record.
    for (name, change, expected) in [
        ("a changed byte", (&|wire: &mut Vec<u8>| wire[9] ^= 1) as &dyn Fn(&mut Vec<u8>), "BadRecordMac"),
        ("a changed length", &|wire| wire[4] -= 1, "BadRecordMac"),
        ("no tag", &|wire| wire.splice(.., [23, 3, 3, 0, 3, 1, 2, 3]).for_each(drop), "BadRecordMac"),
        ("nothing", &|wire| wire.splice(.., [23, 3, 3, 0, 0]).for_each(drop), "BadRecordMac"),
        (
            "an unencrypted alert",
            &|wire| wire.splice(.., [21, 3, 3, 0, 2, 1, 0]).for_each(drop),
            "UnexpectedMessage",
        ),
        ("a length beyond all", &|wire| wire[3] = 0xff, "RecordOverflow"),
    ] {
        let (mut client, mut session) = stand.pair(&rustls::version::TLS13);
        let mut wire = record(&mut forger(&mut session), kind::APPLICATION, b"hello");
        change(&mut wire);
        let (read, _, alert) = answer(&mut session, &mut client, &wire);
        read.expect_err(name);
        assert!(alert.contains(expected), "{name}: {alert}");
    }
}

#[test]
fn records_that_are_odd_and_right_are_taken() {
    let stand = Stand::new("records-odd");
    let (mut client, mut session) = stand.pair(&rustls::version::TLS13);
    let mut forger = forger(&mut session);
    // Padding, empty records, an announced end: data between them makes them harmless.
    for _ in 0..100 {
        let mut wire = record(&mut forger, 0, b"padded\x17\0\0\0");
        wire.extend(record(&mut forger, kind::APPLICATION, b""));
        wire.extend(record(&mut forger, kind::ALERT, &[1, 90]));
        let (read, plain, alert) = answer(&mut session, &mut client, &wire);
        assert_eq!((read, &plain[..], &alert[..]), (Ok(State::Open), &b"padded"[..], ""));
    }
    // The longest record.
    let wire = record(&mut forger, kind::APPLICATION, &[b'x'; PLAIN_BYTES]);
    assert_eq!(answer(&mut session, &mut client, &wire).1.len(), PLAIN_BYTES);
    // An update of keys in two records, byte by byte; with the next key come the data.
    for byte in [24, 0, 0, 1, 1] {
        let (read, _, alert) =
            answer(&mut session, &mut client, &record(&mut forger, kind::HANDSHAKE, &[byte]));
        assert_eq!((read, &alert[..]), (Ok(State::Open), ""));
    }
    let old = answer(&mut session, &mut client, &record(&mut forger, kind::APPLICATION, b"old key"));
    assert!(old.0.is_err() && old.2.contains("BadRecordMac"), "{old:?}");
}

#[test]
fn another_end_s_alert_ends_it_without_an_answer() {
    let (mut client, mut session) = Stand::new("records-alert").pair(&rustls::version::TLS13);
    let wire = record(&mut forger(&mut session), kind::ALERT, &[2, 40]);
    let (read, _, alert) = answer(&mut session, &mut client, &wire);
    assert_eq!((read.expect_err("it failed").contains("alert"), &alert[..]), (true, ""));
}

#[test]
fn a_session_is_small() {
    assert!(size_of::<Records>() <= 768, "{}", size_of::<Records>());
}
