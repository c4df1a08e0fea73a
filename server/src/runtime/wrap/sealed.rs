//! Tests of wraps below which there is TLS: over a pair of sockets that takes little, to rustls' own client.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use revcast_engine::framing::Framing;
use rustls::version::TLS13;
use rustls::{ClientConnection, StreamOwned, SupportedProtocolVersion};

use super::super::session::tests::{Stand, VERSIONS, said};
use super::*;
use crate::http::request::UpgradeHeaders;
use crate::http::websocket::Handshake;
use crate::wire::http1::{CHUNKED, LAST_CHUNK};

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

/// Payloads of many sizes, in offers of several.
fn offers() -> Vec<Vec<Vec<u8>>> {
    let noise = gzip::tests::noise(300_000);
    let size = |round: usize, at: usize| [1, 40, 3000, 20_000, 70_000, 200_000][(round + at) % 6];
    let offer =
        |round: usize| (0..=round % 7).map(|at| noise[round..round + size(round, at)].to_vec()).collect();
    (0..60).map(offer).collect()
}

/// Messages in a framing, and where each ends.
fn framed(framing: &Framing, payloads: &[Vec<u8>]) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for payload in payloads {
        framing.push(&mut bytes, payload);
        ends.push(bytes.len());
    }
    (bytes, ends)
}

/// Offers everything as the engine does: what was not taken again, as soon as there is room; then the end.
fn send_all(wrap: &mut Wrap, to: &OwnedFd, framing: &Framing, offers: &[Vec<Vec<u8>>]) -> usize {
    let (mut shared, mut full) = (SharedBuffers::default(), 0);
    for offer in offers {
        let (bytes, ends) = framed(framing, offer);
        let mut from = 0;
        while from < bytes.len() {
            shared.begin();
            match wrap.offer(&mut shared, Run::new(&bytes, &ends, from), to) {
                Wrapped::Took(taken, tail) => {
                    from += taken;
                    full += usize::from(tail);
                }
                Wrapped::Gone => panic!("the client is there"),
            }
            assert!(
                wrap.tail.bytes.len() <= PAGE_BYTES + 200_000 + TAIL_SLACK,
                "a page and a message at most"
            );
            flush_all(wrap, to);
        }
    }
    wrap.end(to).expect("the client is there");
    flush_all(wrap, to);
    full
}

fn flush_all(wrap: &mut Wrap, to: &OwnedFd) {
    while !wrap.flush(to).expect("the client is there") {
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
}

fn read_all(mut client: StreamOwned<ClientConnection, UnixStream>) -> Vec<u8> {
    let mut all = Vec::new();
    client.read_to_end(&mut all).expect("a clean end");
    all
}

#[test]
fn every_byte_arrives_in_order_through_tails() {
    let stand = Stand::new("sealed-bytes");
    let offers = offers();
    let payloads: Vec<u8> = offers.iter().flatten().flatten().copied().collect();
    let in_framing = |framing, end: &[u8]| {
        let framed: Vec<u8> = offers.iter().flat_map(|offer| framed(framing, offer).0).collect();
        [&framed[..], end].concat()
    };
    for version in VERSIONS {
        for wire in [Wire::Chunked, Wire::Gzip, websocket()] {
            let (mut wrap, ours, client) = watch(&stand, version, &wire);
            // However fast the reader is: less fits than many an offer has.
            rustix::net::sockopt::set_socket_send_buffer_size(&ours, 4 << 10).expect("it may be small");
            let reader = std::thread::spawn(move || read_all(client));
            let full = send_all(&mut wrap, &ours, wire.framing(), &offers);
            assert!(full > 0, "the socket took less than all, sometimes");
            let mut last = wrap.into_tail();
            assert!(last.flush(&ours).expect("the client is there"), "a goodbye is short");
            drop(ours);
            let plain = reader.join().expect("the client reads to a clean end");
            match wire {
                Wire::Chunked => assert!(plain == in_framing(&CHUNKED, LAST_CHUNK), "{version:?}"),
                Wire::Gzip => {
                    let stream = [gzip::OPENING, &plain].concat();
                    assert!(gzip::tests::unzipped(&stream) == payloads, "{version:?}");
                }
                Wire::WebSocket(_) => {
                    let expected = in_framing(&websocket::MESSAGES, b"\x88\x02\x03\xe8");
                    assert!(plain == expected, "{version:?}");
                }
            }
        }
    }
}

#[test]
fn what_is_said_behind_a_request_is_kept_within_bounds_for_the_next() {
    let stand = Stand::new("sealed-kept");
    for version in VERSIONS {
        let (mut wrap, ours, mut client) = watch(&stand, version, &Wire::Chunked);
        let mut shared = SharedBuffers::default();
        assert!(wrap.hears() && wrap.goes_on());
        assert_eq!(wrap.read(&mut shared, Said::Plain(b"GET /a")), Reading::Open);
        client.conn.writer().write_all(b" HTTP/1.1\r\n").expect("words");
        let wire = said(&mut client.conn);
        let (one, two) = wire.split_at(7);
        assert_eq!(wrap.read(&mut shared, Said::OnWire(one)), Reading::Open);
        assert_eq!(wrap.read(&mut shared, Said::OnWire(two)), Reading::Open);
        // A frame that stays in the tail, whole: nobody reads it before the stream is over.
        let (frame, ends) = framed(&CHUNKED, &[vec![b'x'; 1 << 20]]);
        let run = Run::new(&frame, &ends, 0);
        assert_eq!(wrap.offer(&mut shared, run, &ours), Wrapped::Took(frame.len(), true));
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
    let mut shared = SharedBuffers::default();
    for _ in 0..5 {
        client.conn.writer().write_all(&[b'x'; 10_000]).expect("below the limit");
        if wrap.hears() {
            assert_eq!(wrap.read(&mut shared, Said::OnWire(&said(&mut client.conn))), Reading::Open);
        }
    }
    assert!(!wrap.hears());
    assert_eq!(wrap.kept.len(), 20_000);
}

#[test]
fn new_keys_in_the_middle_of_a_watch_change_nothing_of_it() {
    let stand = Stand::new("sealed-keys");
    let (mut wrap, ours, mut client) = watch(&stand, &TLS13, &Wire::Chunked);
    let mut shared = SharedBuffers::default();
    let (frame, ends) = framed(&CHUNKED, &[b"an event\n".to_vec()]);
    for _ in 0..3 {
        client.conn.refresh_traffic_keys().expect("TLS 1.3 has that");
        assert_eq!(wrap.read(&mut shared, Said::OnWire(&said(&mut client.conn))), Reading::Open);
        assert!(wrap.tail.is_empty(), "the answer goes with the next frame");
        shared.begin();
        let run = Run::new(&frame, &ends, 0);
        assert_eq!(wrap.offer(&mut shared, run, &ours), Wrapped::Took(frame.len(), false));
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
        let mut shared = SharedBuffers::default();
        assert!(!wrap.goes_on());
        client.conn.writer().write_all(ping).expect("words");
        assert_eq!(wrap.read(&mut shared, Said::OnWire(&said(&mut client.conn))), Reading::Open);
        assert_eq!(wrap.flush(&ours), Some(true));
        let mut pong = [0; 4];
        client.read_exact(&mut pong).expect("an answer");
        assert_eq!(&pong, b"\x8a\x02hi");
        // Read with the request: plain already.
        assert_eq!(wrap.read(&mut shared, Said::Plain(ping)), Reading::Open);
        assert_eq!(wrap.flush(&ours), Some(true));
        client.read_exact(&mut pong).expect("an answer");
        client.conn.writer().write_all(b"\x88\x80\0\0\0\0").expect("words");
        assert_eq!(wrap.read(&mut shared, Said::OnWire(&said(&mut client.conn))), Reading::Over);
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
        assert_eq!(wrap.read(&mut SharedBuffers::default(), Said::OnWire(&said_last)), Reading::Over);
        assert!(wrap.into_tail().flush(&ours).expect("it is there"));
        assert_eq!(client.read(&mut [0]).expect("a clean end"), 0);

        let (mut wrap, ours, mut client) = watch(&stand, version, &Wire::Chunked);
        let wrong = b"\x17\x03\x03\x00\x20 nobody sealed this, 32 bytes....";
        assert_eq!(wrap.read(&mut SharedBuffers::default(), Said::OnWire(wrong)), Reading::Over);
        assert!(wrap.into_tail().flush(&ours).expect("it is there"));
        let alert = client.read(&mut [0]).expect_err("the client is told");
        assert!(alert.to_string().contains("BadRecordMac"), "{alert}");
    }
}
