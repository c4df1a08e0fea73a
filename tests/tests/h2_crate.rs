//! The crate `h2`, on which hyper, tonic and most of Rust's HTTP/2 stand, as a client: it holds the server to RFC 9113, and gives
//! windows back as its users read.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use http::{HeaderMap, Request, StatusCode};
use revcast_tests::alone::Alone;
use revcast_tests::server::{Server, embedded_only};
use rustix::process::Signal;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

type Bytes = bytes::Bytes;

const PATIENCE: Duration = Duration::from_secs(60);
const PATH: &str = "/api/v1/namespaces/h/configmaps";

/// A connection, and its end.
struct Connection {
    sender: SendRequest<Bytes>,
    end: JoinHandle<Result<(), h2::Error>>,
    token: Option<&'static str>,
}

impl Connection {
    async fn over(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        token: Option<&'static str>,
        builder: &Builder,
    ) -> Self {
        let (sender, connection) = builder.handshake(stream).await.unwrap();
        Self { sender, end: tokio::spawn(connection), token }
    }

    async fn open(server: &Server, builder: &Builder) -> Self {
        Self::over(TcpStream::connect(&server.address).await.unwrap(), None, builder).await
    }

    async fn open_tls(server: &Alone, builder: &Builder) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(server.secrets().ca()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let socket = TcpStream::connect(&server.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap();
        Self::over(stream, Some(server.secrets().token()), builder).await
    }

    /// Sends a request as soon as the server's limit of streams lets it.
    async fn begin(&self, method: &str, path: &str, body: Option<Bytes>) -> ResponseFuture {
        let mut request = Request::builder().method(method).uri(format!("http://localhost{path}"));
        if let Some(token) = self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let mut sender = self.sender.clone().ready().await.unwrap();
        let (response, mut stream) = sender.send_request(request.body(()).unwrap(), body.is_none()).unwrap();
        if let Some(body) = body {
            // h2 keeps it until there is room.
            stream.send_data(body, false).unwrap();
            stream.send_trailers(HeaderMap::new()).unwrap();
        }
        response
    }

    async fn exchange(&self, method: &str, path: &str, body: Option<Bytes>) -> (StatusCode, Vec<u8>) {
        let (head, mut stream) = self.begin(method, path, body).await.await.unwrap().into_parts();
        (head.status, rest(&mut stream).await.unwrap())
    }

    async fn create(&self, name: &str, k: &str) {
        let body = json!({"metadata": {"name": name}, "data": {"k": k}}).to_string();
        let (status, body) = self.exchange("POST", PATH, Some(body.into())).await;
        assert_eq!(status, 201, "{}", String::from_utf8_lossy(&body[..body.len().min(300)]));
    }

    async fn watch(&self, query: &str) -> RecvStream {
        let response = self.begin("GET", &format!("{PATH}?watch=1{query}"), None).await.await.unwrap();
        assert_eq!(response.status(), 200);
        response.into_body()
    }
}

/// Everything that is still to come, given back as it is read.
async fn rest(stream: &mut RecvStream) -> Result<Vec<u8>, h2::Error> {
    let mut all = Vec::new();
    while let Some(piece) = stream.data().await {
        let piece = piece?;
        stream.flow_control().release_capacity(piece.len())?;
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

/// The names of so many events, but for bookmarks.
async fn names(stream: &mut RecvStream, count: usize) -> Vec<String> {
    let (mut text, mut names) = (Vec::new(), Vec::new());
    while names.len() < count {
        let piece = stream.data().await.expect("no end").expect("no error");
        stream.flow_control().release_capacity(piece.len()).unwrap();
        text.extend_from_slice(&piece);
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let event: Value = serde_json::from_slice(&text[..end]).unwrap();
            names.extend(event["object"]["metadata"]["name"].as_str().map(str::to_owned));
            text.drain(..=end);
        }
    }
    names
}

fn in_time(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(PATIENCE, test).await.expect("in time") });
}

async fn watches_see_everything(connection: &Connection) {
    let expected: Vec<String> = (0..100).map(|number| format!("n{number:03}")).collect();
    let count = expected.len();
    let mut watches = Vec::new();
    for _ in 0..80 {
        let mut watch = connection.watch("").await;
        // Read while the others are: they have one window for all.
        watches.push(tokio::spawn(async move { names(&mut watch, count).await }));
    }
    for name in &expected {
        connection.create(name, "0").await;
    }
    for watch in watches {
        assert_eq!(watch.await.unwrap(), expected);
    }
}

#[test]
fn eighty_watches_and_the_writes_on_a_connection() {
    let server = Server::start(&[]);
    in_time(async {
        let connection = Connection::open(&server, &Builder::new()).await;
        watches_see_everything(&connection).await;
        // What is dropped is reset, and the connection goes on.
        server.wait_for_metric("revcast_watchers", 0);
        assert_eq!(connection.exchange("GET", "/version", None).await.0, 200);
    });
}

#[test]
fn the_same_over_tls_with_narrow_windows() {
    if !embedded_only("the server has users of its own") {
        return;
    }
    let server = Alone::start(&[]);
    let narrow = Builder::new().initial_window_size(700).initial_connection_window_size(65_535).clone();
    in_time(async { watches_see_everything(&Connection::open_tls(&server, &narrow).await).await });
}

#[test]
fn large_lists_and_large_bodies() {
    let server = Server::start(&[]);
    in_time(async {
        let connection = Connection::open(&server, &Builder::new()).await;
        for number in 0..12 {
            connection.create(&format!("n{number:02}"), &"0123456789".repeat(100_000)).await;
        }
        let (status, whole) = connection.exchange("GET", PATH, None).await;
        assert_eq!(status, 200);
        assert!(whole.len() > 12_000_000, "{} bytes", whole.len());
        for (stream, frame) in [(1_000, 16_384), (100_000, 16_384), (8 << 20, 1 << 20)] {
            let builder =
                Builder::new().initial_window_size(stream).max_frame_size(frame).header_table_size(0).clone();
            let connection = Connection::open(&server, &builder).await;
            let mut lists = Vec::new();
            for _ in 0..2 {
                let response = connection.begin("GET", PATH, None).await;
                let read = async move { rest(response.await.unwrap().body_mut()).await.unwrap() };
                lists.push(tokio::spawn(read));
            }
            for list in lists {
                assert!(list.await.unwrap() == whole, "windows of {stream}");
            }
        }
    });
}

#[test]
fn the_limit_of_streams_is_kept_by_waiting() {
    let server = Server::start(&["--http2-max-streams", "10"]);
    in_time(async {
        let connection = Connection::open(&server, &Builder::new()).await;
        connection.create("a", "0").await;
        let mut watches = Vec::new();
        for _ in 0..9 {
            watches.push(connection.watch("").await);
        }
        for _ in 0..500 {
            assert_eq!(connection.exchange("GET", PATH, None).await.0, 200);
        }
        // A stream that is given up makes room for the next at once, at the limit too.
        for _ in 0..30 {
            watches.push(connection.watch("").await);
            drop(watches.remove(0));
            watches.push(connection.watch("").await);
            drop(watches.remove(0));
        }
        for watch in &mut watches {
            assert_eq!(names(watch, 1).await, ["a"]);
        }
    });
}

#[test]
fn a_server_that_goes_ends_every_watch() {
    let mut server = Server::start(&["--drain-grace", "1s"]);
    in_time(async {
        let connection = Connection::open(&server, &Builder::new()).await;
        let mut watches = Vec::new();
        for _ in 0..50 {
            watches.push(connection.watch("&allowWatchBookmarks=1").await);
        }
        connection.create("last", "0").await;
        for watch in &mut watches {
            assert_eq!(names(watch, 1).await, ["last"]);
        }
        server.signal(Signal::TERM);
        for watch in &mut watches {
            rest(watch).await.expect("an end, no reset");
        }
        drop(watches);
        let Connection { sender, end, .. } = connection;
        // Its requests are refused before they are sent; what was sent has ended.
        let refused = sender.ready().await.err();
        assert!(refused.is_none_or(|why| why.is_go_away() && why.reason() == Some(Reason::NO_ERROR)));
        let ended = end.await.unwrap();
        assert!(ended.as_ref().err().is_none_or(|why| why.reason() == Some(Reason::NO_ERROR)), "{ended:?}");
    });
    assert_eq!(server.await_end(Duration::from_secs(20)), 0);
}
