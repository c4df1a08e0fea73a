//! Tests of wraps below which there is TLS: over a pair of sockets that takes little, to rustls' own client.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use revcast_engine::frame;
use rustls::version::TLS13;
use rustls::{ClientConnection, StreamOwned, SupportedProtocolVersion};

use super::super::session::tests::{Stand, VERSIONS, said};
use super::*;
use crate::http::request::UpgradeHeaders;
use crate::http::response::push_chunk;
use crate::http::websocket::Handshake;

/// Both ends of a watch: the wrap with our socket, and the client's connection.
fn watch(
    stand: &Stand,
    version: &'static SupportedProtocolVersion,
    wire: &Wire,
) -> (Wrap, OwnedFd, StreamOwned<ClientConnection, UnixStream>) {
    let (client, session) = stand.pair(version);
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    let wrap = Wrap::new(wire, Some(Box::new(session))).expect("TLS is a wrap");
    (*wrap, ours.into(), StreamOwned::new(client, theirs))
}

fn websocket() -> Wire {
    let (key, version) = (Some("AAAAAAAAAAAAAAAAAAAAAA==".to_owned()), Some("13".to_owned()));
    let headers = UpgradeHeaders { key, version, ..UpgradeHeaders::default() };
    Wire::WebSocket(Handshake::new(&headers).expect("a right handshake"))
}

/// Frames of many sizes, in offers of several, and what is in them.
fn offers() -> (Vec<Vec<u8>>, Vec<u8>) {
    let noise = gzip::tests::noise(300_000);
    let (mut offers, mut payloads) = (Vec::new(), Vec::new());
    for round in 0..60_usize {
        let mut offer = Vec::new();
        for at in 0..=round % 7 {
            let size = [1, 40, 3000, 20_000, 70_000, 200_000][(round + at) % 6];
            push_chunk(&mut offer, &noise[round..round + size]);
            payloads.extend_from_slice(&noise[round..round + size]);
        }
        offers.push(offer);
    }
    offers.push(frame::END.to_vec());
    (offers, payloads)
}

/// Offers everything as the engine does: what was not taken again, as soon as there is room.
fn send_all(wrap: &mut Wrap, to: &OwnedFd, offers: &[Vec<u8>]) -> usize {
    let (mut tools, mut full) = (Tools::default(), 0);
    for offer in offers {
        let mut rest = &offer[..];
        while !rest.is_empty() {
            tools.begin();
            match wrap.offer(&mut tools, rest, to) {
                Wrapped::Took(taken, tail) => {
                    rest = &rest[taken..];
                    full += usize::from(tail);
                }
                Wrapped::Gone => panic!("the client is there"),
            }
            assert!(wrap.tail.bytes.len() <= PAGE_BYTES + 200_000 + TAIL_SLACK, "a page and a frame at most");
            while !wrap.flush(to).expect("the client is there") {
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        }
    }
    full
}

fn read_all(mut client: StreamOwned<ClientConnection, UnixStream>) -> Vec<u8> {
    let mut all = Vec::new();
    client.read_to_end(&mut all).expect("a clean end");
    all
}

#[test]
fn every_byte_arrives_in_order_through_tails() {
    let stand = Stand::new("sealed-bytes");
    let (offers, payloads) = offers();
    let chunks: Vec<u8> = offers.concat();
    for version in VERSIONS {
        for wire in [Wire::Chunked, Wire::Gzip, websocket()] {
            let (mut wrap, ours, client) = watch(&stand, version, &wire);
            // However fast the reader is: less fits than many an offer has.
            rustix::net::sockopt::set_socket_send_buffer_size(&ours, 4 << 10).expect("it may be small");
            let reader = std::thread::spawn(move || read_all(client));
            let full = send_all(&mut wrap, &ours, &offers);
            assert!(full > 0, "the socket took less than all, sometimes");
            let mut last = wrap.into_tail();
            assert!(last.flush(&ours).expect("the client is there"), "a goodbye is short");
            drop(ours);
            let plain = reader.join().expect("the client reads to a clean end");
            match wire {
                Wire::Chunked => assert!(plain == chunks, "{version:?}"),
                Wire::Gzip => {
                    let stream = [gzip::OPENING, &plain].concat();
                    assert!(gzip::tests::unzipped(&stream) == payloads, "{version:?}");
                }
                Wire::WebSocket(_) => assert!(plain == as_websocket_all(&offers), "{version:?}"),
            }
        }
    }
}

fn as_websocket_all(offers: &[Vec<u8>]) -> Vec<u8> {
    let mut all = Vec::new();
    let mut made = websocket::Made::default();
    for offer in offers {
        let mut rest = &offer[..];
        while !rest.is_empty() {
            made.clear();
            let (taken, wire) = made.make(rest);
            all.extend_from_slice(wire);
            rest = &rest[taken..];
        }
    }
    all
}

#[test]
fn what_is_said_behind_a_request_is_kept_within_bounds_for_the_next() {
    let stand = Stand::new("sealed-kept");
    for version in VERSIONS {
        let (mut wrap, ours, mut client) = watch(&stand, version, &Wire::Chunked);
        let mut tools = Tools::default();
        assert!(wrap.hears() && wrap.goes_on());
        assert_eq!(wrap.hear(&mut tools, Said::Plain(b"GET /a")), Hearing::GoesOn);
        client.conn.writer().write_all(b" HTTP/1.1\r\n").expect("words");
        let wire = said(&mut client.conn);
        let (one, two) = wire.split_at(7);
        assert_eq!(wrap.hear(&mut tools, Said::OnWire(one)), Hearing::GoesOn);
        assert_eq!(wrap.hear(&mut tools, Said::OnWire(two)), Hearing::GoesOn);
        // A frame that stays in the tail, whole: nobody reads it before the stream is over.
        let mut frame = Vec::new();
        push_chunk(&mut frame, &[b'x'; 1 << 20]);
        assert_eq!(wrap.offer(&mut tools, &frame, &ours), Wrapped::Took(frame.len(), true));
        let (keys, owed, kept) = wrap.into_parts();
        assert_eq!(kept, b"GET /a HTTP/1.1\r\n");
        assert!(!owed.is_empty());
        let len = frame.len();
        let reader = std::thread::spawn(move || {
            let mut all = vec![0; len];
            client.read_exact(&mut all).map(|()| all)
        });
        let mut owed = Tail { bytes: owed, sent: 0 };
        while !owed.flush(&ours).expect("the client is there") {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(reader.join().expect("the client").expect("all of it") == frame);
        assert!(keys.is_some());
    }
    // Who talks on is not read any more.
    let (mut wrap, _ours, mut client) = watch(&stand, &TLS13, &Wire::Chunked);
    let mut tools = Tools::default();
    for _ in 0..5 {
        client.conn.writer().write_all(&[b'x'; 10_000]).expect("below the limit");
        if wrap.hears() {
            assert_eq!(wrap.hear(&mut tools, Said::OnWire(&said(&mut client.conn))), Hearing::GoesOn);
        }
    }
    assert!(!wrap.hears());
    assert_eq!(wrap.kept.len(), 20_000);
}

#[test]
fn new_keys_in_the_middle_of_a_watch_change_nothing_of_it() {
    let stand = Stand::new("sealed-keys");
    let (mut wrap, ours, mut client) = watch(&stand, &TLS13, &Wire::Chunked);
    let mut tools = Tools::default();
    let mut frame = Vec::new();
    push_chunk(&mut frame, b"an event\n");
    for _ in 0..3 {
        client.conn.refresh_traffic_keys().expect("TLS 1.3 has that");
        assert_eq!(wrap.hear(&mut tools, Said::OnWire(&said(&mut client.conn))), Hearing::GoesOn);
        assert!(wrap.tail.is_empty(), "the answer goes with the next frame");
        tools.begin();
        assert_eq!(wrap.offer(&mut tools, &frame, &ours), Wrapped::Took(frame.len(), false));
        let mut read = vec![0; frame.len()];
        client.read_exact(&mut read).expect("with new keys");
        assert_eq!(read, frame);
    }
    assert!(wrap.kept.is_empty());
}

#[test]
fn pings_are_answered_and_goodbyes_end_it() {
    let stand = Stand::new("sealed-websocket");
    let ping = b"\x89\x82\0\0\0\0hi";
    for version in VERSIONS {
        let (mut wrap, ours, mut client) = watch(&stand, version, &websocket());
        let mut tools = Tools::default();
        assert!(!wrap.goes_on());
        client.conn.writer().write_all(ping).expect("words");
        assert_eq!(wrap.hear(&mut tools, Said::OnWire(&said(&mut client.conn))), Hearing::GoesOn);
        assert_eq!(wrap.flush(&ours), Some(true));
        let mut pong = [0; 4];
        client.read_exact(&mut pong).expect("an answer");
        assert_eq!(&pong, b"\x8a\x02hi");
        // Read with the request: plain already.
        assert_eq!(wrap.hear(&mut tools, Said::Plain(ping)), Hearing::GoesOn);
        assert_eq!(wrap.flush(&ours), Some(true));
        client.read_exact(&mut pong).expect("an answer");
        client.conn.writer().write_all(b"\x88\x80\0\0\0\0").expect("words");
        assert_eq!(wrap.hear(&mut tools, Said::OnWire(&said(&mut client.conn))), Hearing::Over);
        assert!(wrap.into_tail().flush(&ours).expect("it is there"));
        drop(ours);
        assert_eq!(read_all(client), b"\x88\x02\x03\xe8", "Close, and a clean end below it");
    }
}

#[test]
fn goodbyes_of_tls_and_records_that_are_wrong_end_it() {
    let stand = Stand::new("sealed-goodbye");
    for version in VERSIONS {
        let (mut wrap, ours, mut client) = watch(&stand, version, &Wire::Chunked);
        client.conn.send_close_notify();
        let said_last = said(&mut client.conn);
        assert_eq!(wrap.hear(&mut Tools::default(), Said::OnWire(&said_last)), Hearing::Over);
        assert!(wrap.into_tail().flush(&ours).expect("it is there"));
        assert_eq!(client.read(&mut [0]).expect("a clean end"), 0);

        let (mut wrap, ours, mut client) = watch(&stand, version, &Wire::Chunked);
        let wrong = b"\x17\x03\x03\x00\x20 nobody sealed this, 32 bytes....";
        assert_eq!(wrap.hear(&mut Tools::default(), Said::OnWire(wrong)), Hearing::Over);
        assert!(wrap.into_tail().flush(&ours).expect("it is there"));
        let alert = client.read(&mut [0]).expect_err("the client is told");
        assert!(alert.to_string().contains("BadRecordMac"), "{alert}");
    }
}
