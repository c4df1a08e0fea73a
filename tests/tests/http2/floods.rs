//! Floods of frames that ask for nothing, or for answers that the client does not read (CVE-2019-9512, 9513, 9515, 9518).

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::Duration;

use revcast_tests::http2::{Connection, Frame, Read, code, flag, hpack as packed, kind, setting};
use revcast_tests::server::Server;
use revcast_tests::tls::Stream;
use rustix::net::sockopt::set_socket_recv_buffer_size;

use super::attacks::{is_refused, is_unharmed};
use super::{get, is_well, post, watch};

/// Frames of a flood.
const COUNT: usize = 300_000;

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flooded {
    /// The server closed.
    Refused,
    /// It stopped reading: what it would have to answer cannot be sent.
    Stalled,
    /// It took everything.
    Swallowed,
}

/// A connection whose client has little room for answers.
fn narrow(server: &Server) -> Connection {
    let socket = TcpStream::connect(&server.address).unwrap();
    set_socket_recv_buffer_size(&socket, 4 << 10).unwrap();
    let mut connection = Connection::over(Stream::Plain(socket));
    connection.preface(&[]);
    connection.settle();
    connection
}

/// Sends frames without reading.
fn flood(connection: &mut Connection, first: &[Frame], frame: &Frame) -> Flooded {
    connection.send_all(first);
    connection.stream().socket().set_write_timeout(Some(Duration::from_secs(3))).unwrap();
    let many: Vec<u8> = frame.bytes().repeat(1_000);
    for _ in 0..COUNT / 1_000 {
        match connection.send_raw(&many) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Flooded::Stalled;
            }
            Err(_) => return Flooded::Refused,
        }
    }
    Flooded::Swallowed
}

/// Frames without effect: the server ends the connection.
#[test]
fn frames_without_effect_are_not_borne_for_ever() {
    let server = Server::start(&[]);
    let before = server.resident_kb();
    let table: Vec<(&str, Vec<Frame>, Frame)> = vec![
        ("empty DATA", vec![post(1)], Frame::data(1, 0, [])),
        ("DATA of padding", vec![post(1)], Frame::padded_data(1, 0, &[], 0)),
        ("PRIORITY", vec![watch(1)], Frame::priority(1, 0)),
        ("PRIORITY of idle streams", vec![], Frame::priority(77, 3)),
        ("WINDOW_UPDATE of the connection", vec![], Frame::window_update(0, 1)),
        ("WINDOW_UPDATE of a stream", vec![watch(1)], Frame::window_update(1, 1)),
        ("unknown frames", vec![], Frame::new(kind::UNKNOWN, 0, 0, [])),
        ("unknown frames of a stream", vec![watch(1)], Frame::new(kind::UNKNOWN, 0, 1, [])),
        ("RST_STREAM of a stream that was reset", vec![watch(1), Frame::reset(1, 8)], Frame::reset(1, 8)),
        ("answers to PING", vec![], Frame::ping(*b"unasked!").with_flags(flag::ACK)),
    ];
    for (what, first, frame) in table {
        let mut connection = Connection::open(&server.address);
        let flooded = flood(&mut connection, &first, &frame);
        assert_ne!(flooded, Flooded::Stalled, "{what}: nothing has to be answered");
        is_refused(
            &mut connection,
            &[code::ENHANCE_YOUR_CALM, code::STREAM_CLOSED, code::PROTOCOL_ERROR],
            what,
        );
        is_unharmed(&server, before, what);
    }
    server.wait_for_metric("revcast_watchers", 0);
}

/// Frames whose answers nobody reads: the server ends the connection, or reads no more until they are read.
#[test]
fn answers_that_nobody_reads_are_not_collected() {
    let server = Server::start(&[]);
    let before = server.resident_kb();
    let settings = [(setting::INITIAL_WINDOW_SIZE, 65_535)];
    let many: Vec<(u16, u32)> = (0..200).map(|number| (0xf000 + number, 1)).collect();
    let table = [
        ("PING", Frame::ping(*b"abcdefgh")),
        ("empty SETTINGS", Frame::settings(&[])),
        ("SETTINGS of one", Frame::settings(&settings)),
        ("SETTINGS of many", Frame::settings(&many)),
    ];
    for (what, frame) in table {
        let mut connection = narrow(&server);
        // The account of the client has one SETTINGS alone; what comes is not looked at.
        let flooded = flood(&mut connection, &[watch(1)], &frame);
        is_unharmed(&server, before, what);
        if flooded == Flooded::Stalled {
            continue;
        }
        let end = end_of(&mut connection);
        assert!(end.is_none_or(|code| code == code::ENHANCE_YOUR_CALM), "{what}: GOAWAY with code {end:?}");
    }
    server.wait_for_metric("revcast_watchers", 0);
    is_well(&server);
}

/// The code of GOAWAY before the end, which must come. Frames are read around the client's account.
fn end_of(connection: &mut Connection) -> Option<u32> {
    use std::io::Read as _;
    let stream = connection.stream();
    stream.socket().set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut said = Vec::new();
    if let Err(error) = stream.read_to_end(&mut said) {
        let open = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        assert!(!open, "the connection stays open after {} bytes", said.len());
    }
    let mut code = None;
    while let Some(frame) = Frame::take(&mut said) {
        if frame.kind == kind::GOAWAY {
            code = frame.number(4);
        }
    }
    code
}

/// PINGs that are read are no attack: gRPC and client-go send them, at most a few in a second.
#[test]
fn pings_of_a_quiet_client_are_answered() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    let stream = connection.request("GET", super::QUIET, &[], true);
    assert_eq!(connection.head(stream).status, 200);
    for _ in 0..100 {
        connection.ping();
    }
    connection.expect_alive();
}

/// As Go's client does it: an update of the windows for every 4 KiB that it read.
#[test]
fn window_updates_of_a_busy_reader_are_no_flood() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(&server.address);
    let path = format!("{}?watch=1", super::PATH);
    let stream = connection.request("GET", &path, &[], true);
    assert_eq!(connection.head(stream).status, 200);
    let client = server.client();
    for number in 0..300 {
        super::create(&client, &format!("n{number}"), &"x".repeat(2_000));
        assert_eq!(connection.event(stream).1["metadata"]["name"], format!("n{number}"));
        // Two from the client's account, and two more.
        connection.send_all(&[Frame::window_update(0, 1), Frame::window_update(stream, 1)]);
    }
    connection.expect_alive();
}

/// Empty field blocks of trailers and heads: each ends a stream, and costs a request.
#[test]
fn heads_without_fields_are_borne_or_refused() {
    let server = Server::start(&[]);
    let before = server.resident_kb();
    let mut connection = Connection::open(&server.address);
    for number in 0..5_000 {
        connection.send(Frame::headers(number * 2 + 1, flag::WHOLE, packed::resize(0)));
        if connection.read(Duration::ZERO) == Read::End || connection.goaway().is_some() {
            break;
        }
    }
    while connection.goaway().is_none()
        && matches!(connection.read(Duration::from_millis(200)), Read::Frame(_))
    {}
    let code = connection.goaway().map(|(_, code)| code);
    assert!(
        code.is_none_or(|code| matches!(code, code::ENHANCE_YOUR_CALM | code::PROTOCOL_ERROR)),
        "{code:?}"
    );
    is_unharmed(&server, before, "heads");
}

/// A flood on one connection does not keep another from its events.
#[test]
fn a_watch_beside_a_flood_goes_on() {
    let server = Server::start(&[]);
    let mut quiet = Connection::open(&server.address);
    let stream = quiet.request("GET", &format!("{}?watch=1", super::PATH), &[], true);
    assert_eq!(quiet.head(stream).status, 200);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut connection = Connection::open(&server.address);
                flood(&mut connection, &[get(1, "/readyz")], &Frame::priority(1, 0));
            });
        }
        for number in 0..20 {
            super::create(&server.client(), &format!("n{number}"), "1");
            assert_eq!(quiet.event(stream).1["metadata"]["name"], format!("n{number}"));
        }
    });
    quiet.expect_alive();
}
