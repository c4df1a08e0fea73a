//! Connections with TLS: over a socket pair with small buffers, to rustls' own client.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use revcast_engine::framing::Framing;
use revcast_engine::limits::PAGE_BYTES;
use revcast_engine::{Run, Sent};
use rustls::version::TLS13;
use rustls::{ClientConnection, StreamOwned, SupportedProtocolVersion};

use super::tests::{Stand, TAIL_SLACK, framed, link, pair};
use super::tls::tests::{Stand as Server, VERSIONS, said};
use super::*;
use crate::frontend::{StreamFormat, Wire};
use crate::http::request::UpgradeHeaders;
use crate::http::websocket::Handshake;
use crate::wire::http1::{CHUNKED, LAST_CHUNK};
use crate::wire::stream::Delimiter;
use crate::wire::{gzip, websocket};

/// A watch over TLS: its connection here, and the client's end of it.
struct Watch {
    stand: Stand,
    slot: u32,
    id: WatcherId,
    client: StreamOwned<ClientConnection, UnixStream>,
}

impl Watch {
    fn new(server: &Server, version: &'static SupportedProtocolVersion, wire: &Wire, unread: &[u8]) -> Self {
        let (client, session) = server.pair(version);
        let (ours, theirs) = pair();
        // However fast the reader is, the buffer is smaller than many an offer.
        rustix::net::sockopt::set_socket_send_buffer_size(ours.as_fd(), 4 << 10).expect("it may be small");
        let mut stand = Stand::new();
        let keep_alive = *wire == Wire::Plain;
        let link = Link { unread: unread.to_vec(), keep_alive, ..link(ours, Some(Box::new(session))) };
        let (slot, id) = stand.open(link, wire.wire_stream(Delimiter::Chunks));
        stand.conns.submit();
        Self { stand, slot, id, client: StreamOwned::new(client, theirs) }
    }

    fn offer(&mut self, run: Run<'_>) -> Sent {
        self.stand.conns.begin();
        let sent = self.stand.conns.offer(Place::alone(self.slot), self.id, Offer::Messages(run));
        self.stand.conns.flush();
        sent
    }

    /// Lets the client send, and the shard read it.
    fn client_sends(&mut self, wire: &[u8]) {
        self.client.sock.write_all(wire).expect("the shard is there");
        for _ in 0..20 {
            self.stand.turn(self.stand.now());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    fn client_writes(&mut self, plain: &[u8]) {
        self.client.conn.writer().write_all(plain).expect("below the limit");
        let wire = said(&mut self.client.conn);
        self.client_sends(&wire);
    }

    fn unread(&mut self) -> &[u8] {
        &self.stand.rare(self.slot).unread
    }

    /// Ends the stream. Returns the connection if it can carry another request.
    fn finish(&mut self) -> Option<Link> {
        assert!(matches!(self.stand.conns.end(Place::alone(self.slot), self.id), Sent::Took(_)));
        self.stand.conns.flush();
        let now = self.stand.now();
        self.stand.conns.detach(Place::alone(self.slot), self.id, true, now)
    }
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

/// Makes all offers as the engine does: what was not taken is offered again as soon as there is room. Returns how often there
/// was none.
fn send_all(watch: &mut Watch, framing: &Framing, offers: &[Vec<Vec<u8>>]) -> usize {
    let mut full = 0;
    for offer in offers {
        let (bytes, ends) = framed(framing, offer);
        let mut from = 0;
        while from < bytes.len() {
            match watch.offer(Run::new(&bytes, &ends, from)) {
                Sent::Took(0) => {
                    full += 1;
                    let seen = watch.stand.events.len();
                    watch.stand.until(|stand| stand.events.len() > seen);
                    assert_eq!(watch.stand.events.last(), Some(&(watch.id, ConnEvent::Writable)));
                }
                Sent::Took(taken) => from += taken,
                Sent::Gone => panic!("the client is there"),
            }
            let unsent = watch.stand.rare(watch.slot).unsent.len();
            assert!(unsent <= PAGE_BYTES + 200_000 + TAIL_SLACK, "a page and a message at most");
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
fn every_byte_arrives_in_order_through_full_sockets() {
    let server = Server::new("sealed-bytes");
    let offers = offers();
    let payloads: Vec<u8> = offers.iter().flatten().flatten().copied().collect();
    let in_framing = |framing, end: &[u8]| {
        let framed: Vec<u8> = offers.iter().flat_map(|offer| framed(framing, offer).0).collect();
        [&framed[..], end].concat()
    };
    for version in VERSIONS {
        for wire in [Wire::Plain, Wire::Gzip, websocket()] {
            let mut watch = Watch::new(&server, version, &wire, b"");
            // The client stays open, and with it the other end of the watch.
            let (spare, _) = server.pair(version);
            let client = std::mem::replace(&mut watch.client, StreamOwned::new(spare, pair().0));
            let reader = std::thread::spawn(move || read_all(client));
            let full = send_all(&mut watch, wire.framing(StreamFormat::Json, Delimiter::Chunks), &offers);
            assert!(full > 0, "the socket took less than all, sometimes");
            match watch.finish() {
                Some(mut link) => {
                    assert!(wire == Wire::Plain);
                    // What a task does with it before it closes it.
                    link.tls.as_mut().expect("TLS").close(&mut link.unsent);
                    let mut unsent = Unsent::of(link.unsent);
                    while !unsent.flush(&link.socket).expect("the client is there") {
                        std::thread::sleep(std::time::Duration::from_micros(200));
                    }
                }
                None => watch.stand.until(|stand| !stand.is_open(watch.slot)),
            }
            let plain = reader.join().expect("the client reads to a clean end");
            match wire {
                Wire::Plain => assert!(plain == in_framing(&CHUNKED, LAST_CHUNK), "{version:?}"),
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
fn what_is_sent_after_a_request_is_kept_within_bounds_for_the_next() {
    let server = Server::new("sealed-kept");
    for version in VERSIONS {
        let mut watch = Watch::new(&server, version, &Wire::Plain, b"GET /a");
        watch.client.conn.writer().write_all(b" HTTP/1.1\r\n").expect("words");
        let wire = said(&mut watch.client.conn);
        let (one, two) = wire.split_at(7);
        watch.client_sends(one);
        watch.client_sends(two);
        // A message that stays partly unsent: the client reads nothing before the stream has ended.
        let (message, ends) = framed(&CHUNKED, &[vec![b'x'; 1 << 20]]);
        assert_eq!(watch.offer(Run::new(&message, &ends, 0)), Sent::Took(message.len()));
        let link = watch.finish().expect("the connection goes on");
        assert_eq!(link.unread, b"GET /a HTTP/1.1\r\n");
        assert!(!link.unsent.is_empty() && link.tls.is_some());
        let expected = [&message, LAST_CHUNK].concat();
        let len = expected.len();
        let mut client = watch.client;
        let reader = std::thread::spawn(move || {
            let mut all = vec![0; len];
            client.read_exact(&mut all).map(|()| all)
        });
        let mut unsent = Unsent::of(link.unsent);
        while !unsent.flush(&link.socket).expect("the client is there") {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(reader.join().expect("the client").expect("all of it") == expected);
    }
    // A client that continues to send is not read any more.
    let mut watch = Watch::new(&server, &TLS13, &Wire::Plain, b"");
    for _ in 0..5 {
        watch.client_writes(&[b'x'; 10_000]);
    }
    let kept = watch.unread().len();
    assert!((16 << 10..64 << 10).contains(&kept), "{kept}");
    assert!(watch.stand.events.is_empty());
}

#[test]
fn new_keys_in_the_middle_of_a_watch_change_nothing_of_it() {
    let server = Server::new("sealed-keys");
    let mut watch = Watch::new(&server, &TLS13, &Wire::Plain, b"");
    let (message, ends) = framed(&CHUNKED, &[b"an event\n".to_vec()]);
    for _ in 0..3 {
        watch.client.conn.refresh_traffic_keys().expect("TLS 1.3 has that");
        let wire = said(&mut watch.client.conn);
        watch.client_sends(&wire);
        assert_eq!(watch.offer(Run::new(&message, &ends, 0)), Sent::Took(message.len()));
        let mut read = vec![0; message.len()];
        watch.client.read_exact(&mut read).expect("with new keys");
        assert_eq!(read, message);
    }
    assert!(watch.unread().is_empty() && watch.stand.events.is_empty());
}

#[test]
fn pings_are_answered_and_goodbyes_end_it() {
    let server = Server::new("sealed-websocket");
    let ping = b"\x89\x82\0\0\0\0hi";
    for version in VERSIONS {
        // A part was read with the request, already decrypted.
        let mut watch = Watch::new(&server, version, &websocket(), ping);
        let mut pong = [0; 4];
        watch.client_writes(ping);
        for _ in 0..2 {
            watch.client.read_exact(&mut pong).expect("an answer");
            assert_eq!(&pong, b"\x8a\x02hi");
        }
        watch.client_writes(b"\x88\x80\0\0\0\0");
        assert_eq!(watch.stand.events, [(watch.id, ConnEvent::Gone { stalled: false })]);
        assert!(
            watch.stand.conns.detach(Place::alone(watch.slot), watch.id, false, watch.stand.now()).is_none()
        );
        assert_eq!(read_all(watch.client), b"\x88\x02\x03\xe8", "Close, and a clean end below it");
        watch.stand.until(|stand| !stand.is_open(watch.slot));
    }
}

#[test]
fn goodbyes_of_tls_and_records_that_are_wrong_end_it() {
    let server = Server::new("sealed-goodbye");
    for version in VERSIONS {
        let mut watch = Watch::new(&server, version, &Wire::Plain, b"");
        watch.client.conn.send_close_notify();
        let last = said(&mut watch.client.conn);
        watch.client_sends(&last);
        assert_eq!(watch.stand.events, [(watch.id, ConnEvent::Gone { stalled: false })]);
        assert_eq!(watch.client.read(&mut [0]).expect("a clean end"), 0);

        let mut watch = Watch::new(&server, version, &Wire::Plain, b"");
        watch.client_sends(b"\x17\x03\x03\x00\x20 nobody sealed this, 32 bytes....");
        assert_eq!(watch.stand.events, [(watch.id, ConnEvent::Gone { stalled: false })]);
        let alert = watch.client.read(&mut [0]).expect_err("the client is told");
        assert!(alert.to_string().contains("BadRecordMac"), "{alert}");
    }
}
