//! HTTP/2 over TLS (RFC 9113, sections 3.2 and 9.2).

use std::net::TcpStream;
use std::path::Path;

use revcast_tests::certs::Authority;
use revcast_tests::http2::{Connection, Frame, setting};
use revcast_tests::server::{Scratch, Server};
use revcast_tests::tls::{Stream, Trust, Version};

use super::{PATH, create, object};

struct Stand {
    server: Server,
    trust: Trust,
    _scratch: Scratch,
}

impl Stand {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(name);
        let authority = Authority::new(Path::new(scratch.path()), "ca");
        let identity = authority.server();
        let trust = Trust::of(&authority.certificate());
        let (cert, key) = (identity.cert.to_str().unwrap(), identity.key.to_str().unwrap());
        let server = Server::start_with_tls(&trust, &["--tls-cert", cert, "--tls-key", key]);
        Self { server, trust, _scratch: scratch }
    }

    fn open(&self, trust: &Trust) -> Connection {
        let mut connection = Connection::dial_tls(&self.server.address, trust);
        connection.preface(&[(setting::INITIAL_WINDOW_SIZE, 4 << 20)]);
        connection.send(Frame::window_update(0, 1 << 30));
        connection.settle();
        connection
    }
}

#[test]
fn both_versions_of_tls_carry_it() {
    let stand = Stand::new("http2-tls");
    create(&stand.server.client(), "a", "1");
    for version in Version::ALL {
        let mut connection = stand.open(&stand.trust.in_version(version));
        assert_eq!(connection.stream().tls().alpn_protocol(), Some(&b"h2"[..]));
        let watched = connection.request("GET", &format!("{PATH}?watch=1"), &[], true);
        assert_eq!(connection.event(watched).1["metadata"]["name"], "a");
        let body =
            object(&format!("of-{version:?}").to_ascii_lowercase().replace('_', "-"), &"x".repeat(300_000));
        let json = [("content-type", "application/json")];
        assert_eq!(connection.exchange("POST", PATH, &json, &body).status, 201);
        let list = connection.get(PATH);
        assert_eq!(list.status, 200);
        assert!(list.body.len() > 300_000);
        connection.expect_alive();
    }
}

/// Section 3.2, and RFC 7301: of what both speak, the server prefers HTTP/2; without ALPN it is HTTP/1.1.
#[test]
fn the_version_is_agreed_on_by_alpn() {
    let stand = Stand::new("http2-alpn");
    let table: [(&[&str], Option<&[u8]>); 5] = [
        (&["h2"], Some(b"h2")),
        (&["h2", "http/1.1"], Some(b"h2")),
        (&["http/1.1", "h2"], Some(b"h2")),
        (&["http/1.1"], Some(b"http/1.1")),
        (&[], None),
    ];
    for (offered, agreed) in table {
        let socket = TcpStream::connect(&stand.server.address).unwrap();
        let Stream::Tls(mut stream) = stand.trust.offering(offered).over(socket) else { panic!("plain") };
        stream.conn.complete_io(&mut stream.sock).unwrap();
        assert_eq!(stream.conn.alpn_protocol(), agreed, "{offered:?}");
    }
    // Both go on beside each other.
    assert_eq!(stand.server.client().get("/readyz").status, 200);
    stand.open(&stand.trust).expect_alive();
}

/// Sealed bytes come in records of any size, and several frames in one.
#[test]
fn events_arrive_in_order_over_tls() {
    let stand = Stand::new("http2-tls-events");
    let mut connection = stand.open(&stand.trust);
    let path = format!("{PATH}?watch=1");
    let streams: Vec<u32> = (0..30).map(|_| connection.request("GET", &path, &[], true)).collect();
    streams.iter().for_each(|stream| assert_eq!(connection.head(*stream).status, 200));
    for number in 0..60 {
        create(&stand.server.client(), &format!("n{number:02}"), &"x".repeat(number * 500));
    }
    for stream in streams {
        for number in 0..60 {
            assert_eq!(connection.event(stream).1["metadata"]["name"], format!("n{number:02}"));
        }
    }
}

/// What ALPN agreed on is what is spoken.
#[test]
fn other_words_than_agreed_on_are_refused() {
    use std::io::{Read as _, Write as _};
    let stand = Stand::new("http2-other");
    let socket = TcpStream::connect(&stand.server.address).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(15))).unwrap();
    let mut stream = stand.trust.offering(&["h2"]).over(socket);
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    let mut said = Vec::new();
    // An end without a word of TLS is an end as well.
    if let Err(error) = stream.read_to_end(&mut said) {
        assert!(
            !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut),
            "{error}"
        );
    }
    assert!(!said.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&said));
    assert_eq!(stand.server.client().get("/readyz").status, 200);
}
