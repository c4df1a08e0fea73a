//! An API server that does what a test's script says: for servers that forward requests.
//!
//! It has one thread per connection, records the bytes of each request exactly, and answers by the path. It never repairs what it
//! receives: [`Upstream::received`] returns the bytes of a whole connection, for tests of what a server sends.

use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::certs::Identity;
use crate::port::Port;

/// How long a script waits for bytes.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes that are recorded of one connection.
const RECORDED_MAX: usize = 16 << 20;
/// A longer head is a mistake of the server under test.
const HEAD_MAX: usize = 256 << 10;

/// What a script decides about the connection after its reply.
pub type Outcome = io::Result<Next>;
/// What was received on a connection.
type Record = Arc<Mutex<Vec<u8>>>;
type Script = dyn Fn(&mut Exchange<'_>) -> Outcome + Send + Sync;

/// What happens to a connection after a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It takes the next request.
    KeepAlive,
    /// It ends.
    Close,
}

/// The head of a request, as it was received.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The bytes of the head, with the empty line.
    pub head: Vec<u8>,
    /// The number of its connection, from 0.
    pub connection: usize,
    /// The client's certificate, in DER; empty: none.
    pub certificate: Vec<u8>,
}

impl Asked {
    /// The head as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.head).into_owned()
    }

    /// `METHOD TARGET VERSION`.
    #[must_use]
    pub fn line(&self) -> String {
        self.text().split("\r\n").next().unwrap_or_default().to_owned()
    }

    /// The target, as it was sent.
    #[must_use]
    pub fn target(&self) -> String {
        self.line().split(' ').nth(1).unwrap_or_default().to_owned()
    }

    /// The values of all headers of a name (in lower case), in their order.
    #[must_use]
    pub fn headers(&self, name: &str) -> Vec<String> {
        let text = self.text();
        let lines = text.split("\r\n").skip(1).filter_map(|line| line.split_once(": "));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).collect()
    }

    /// The only header of a name; `None`: there is none, or more than one.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        <[String; 1]>::try_from(self.headers(name)).ok().map(|[value]| value)
    }

    /// The names of all headers, in lower case and sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let text = self.text();
        let lines = text.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
        let mut names: Vec<String> = lines.map(|(name, _)| name.to_ascii_lowercase()).collect();
        names.sort();
        names
    }
}

/// One request, its body, and the connection for the reply.
#[derive(Debug)]
pub struct Exchange<'a> {
    /// The head.
    pub asked: Asked,
    reader: &'a mut BufReader<Recorded>,
}

impl Exchange<'_> {
    /// Reads the body, piece by piece. Returns how many bytes it has.
    ///
    /// # Errors
    /// The connection broke, or the framing of the body is invalid.
    pub fn read_body(&mut self, mut piece: impl FnMut(&[u8])) -> io::Result<u64> {
        if self.asked.header("transfer-encoding").is_some() {
            let mut decoder = revcast_http1::ChunkDecoder::new();
            let mut all = 0;
            while let Some(chunk) = decoder.read_chunk(self.reader)? {
                all += chunk.len() as u64;
                piece(&chunk);
            }
            return Ok(all);
        }
        let length = self.asked.header("content-length").map_or(Ok(0), |length| length.parse::<u64>());
        let length = length.map_err(io::Error::other)?;
        let mut left = length;
        while left > 0 {
            let bytes = self.reader.fill_buf()?;
            if bytes.is_empty() {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let taken = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            piece(&bytes[..taken]);
            self.reader.consume(taken);
            left -= taken as u64;
        }
        Ok(length)
    }

    /// Reads the body as a whole.
    ///
    /// # Errors
    /// As [`Exchange::read_body`].
    pub fn body(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        self.read_body(|piece| body.extend_from_slice(piece))?;
        Ok(body)
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// The connection broke.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let link = &mut self.reader.get_mut().link;
        link.write_all(bytes.as_ref())?;
        link.flush()
    }

    /// Reads the body, and sends a reply of a known length. `head`: the status and the headers, as lines.
    ///
    /// # Errors
    /// The connection broke.
    pub fn reply(&mut self, head: &str, body: impl AsRef<[u8]>) -> Outcome {
        self.read_body(|_| ())?;
        self.reply_to_read(head, body)
    }

    /// As [`Exchange::reply`], after the body was read.
    ///
    /// # Errors
    /// The connection broke.
    pub fn reply_to_read(&mut self, head: &str, body: impl AsRef<[u8]>) -> Outcome {
        let body = body.as_ref();
        let lines: String = head.lines().map(|line| format!("{line}\r\n")).collect();
        let head = format!("HTTP/1.1 {lines}Content-Length: {}\r\n\r\n", body.len());
        let body = if self.asked.line().starts_with("HEAD ") { &[] } else { body };
        self.send([head.as_bytes(), body].concat())?;
        Ok(Next::KeepAlive)
    }

    /// Waits until the client has closed. Returns what it sent before.
    ///
    /// # Errors
    /// It did not in time.
    pub fn await_close(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        match self.reader.read_to_end(&mut rest) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Err(error),
            // Cut.
            Err(_) | Ok(_) => Ok(rest),
        }
    }

    /// Bytes that were read ahead, and the connection: for what follows an upgrade.
    pub fn raw(&mut self) -> (Vec<u8>, &mut Link) {
        let ahead = self.reader.buffer().to_vec();
        self.reader.consume(ahead.len());
        (ahead, &mut self.reader.get_mut().link)
    }
}

/// A connection, with TLS or without.
#[derive(Debug)]
pub enum Link {
    /// Plain.
    Plain(TcpStream),
    /// Sealed.
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl Link {
    /// The socket below.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.sock,
        }
    }
}

impl Read for Link {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Tls(stream) => stream.read(into),
        }
    }
}

impl Write for Link {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// A link whose input is recorded.
#[derive(Debug)]
struct Recorded {
    link: Link,
    record: Record,
}

impl Read for Recorded {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.link.read(into)?;
        let mut record = locked(&self.record);
        let room = RECORDED_MAX - record.len();
        record.extend_from_slice(&into[..read.min(room)]);
        Ok(read)
    }
}

/// A running upstream.
#[derive(Debug)]
pub struct Upstream {
    port: Port,
    state: Arc<State>,
    acceptor: Option<JoinHandle<()>>,
}

struct State {
    tls: Option<Arc<ServerConfig>>,
    scripts: Mutex<Vec<(String, Arc<Script>)>>,
    asked: Mutex<Vec<Asked>>,
    connections: Mutex<Vec<(TcpStream, Record)>>,
    accepted: AtomicUsize,
    is_stopping: AtomicBool,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

impl Default for Upstream {
    fn default() -> Self {
        Self::start()
    }
}

impl Upstream {
    /// Starts one that speaks plain HTTP, and answers every request with its target.
    ///
    /// # Panics
    /// When no port is free.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(None)
    }

    /// The same over TLS. `clients`: the authority (PEM) of clients, which are asked for a certificate then.
    ///
    /// # Panics
    /// When the files are not those of a certificate.
    #[must_use]
    pub fn start_with_tls(identity: &Identity, clients: Option<&std::path::Path>) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let config = config.with_safe_default_protocol_versions().expect("versions of TLS");
        let config = match clients {
            None => config.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                let authority = CertificateDer::from_pem_file(authority).expect("a certificate");
                roots.add(authority).expect("an authority");
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                config
                    .with_client_cert_verifier(verifier.allow_unauthenticated().build().expect("a verifier"))
            }
        };
        let chain = CertificateDer::pem_file_iter(&identity.cert).expect("PEM");
        let chain = chain.collect::<Result<Vec<_>, _>>().expect("certificates");
        let key = PrivateKeyDer::from_pem_file(&identity.key).expect("a key");
        let mut config = config.with_single_cert(chain, key).expect("a pair that fits");
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Self::start_with(Some(Arc::new(config)))
    }

    fn start_with(tls: Option<Arc<ServerConfig>>) -> Self {
        let state = State {
            tls,
            scripts: Mutex::default(),
            asked: Mutex::default(),
            connections: Mutex::default(),
            accepted: AtomicUsize::new(0),
            is_stopping: AtomicBool::new(false),
        };
        let mut upstream = Self { port: Port::free(), state: Arc::new(state), acceptor: None };
        upstream.resume();
        upstream
    }

    /// Answers requests of a path, or of all paths without a script of their own (`*`), with a script. A later script of the same path replaces the former.
    pub fn on(&self, path: &str, script: impl Fn(&mut Exchange<'_>) -> Outcome + Send + Sync + 'static) {
        let mut scripts = locked(&self.state.scripts);
        scripts.retain(|(known, _)| known != path);
        scripts.push((path.to_owned(), Arc::new(script)));
    }

    /// Answers requests of a path with these bytes, and closes.
    pub fn on_bytes(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        let bytes = bytes.into();
        self.on(path, move |exchange| {
            exchange.read_body(|_| ())?;
            exchange.send(&bytes)?;
            Ok(Next::Close)
        });
    }

    /// `http://127.0.0.1:PORT`, or `https`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", if self.state.tls.is_some() { "https" } else { "http" }, self.address())
    }

    /// `127.0.0.1:PORT`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port.number())
    }

    /// The heads of all requests so far.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        locked(&self.state.asked).clone()
    }

    /// The last of them.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn last(&self) -> Asked {
        locked(&self.state.asked).last().cloned().expect("a request")
    }

    /// How many connections were accepted.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.state.accepted.load(Ordering::Acquire)
    }

    /// What was received on each connection that sent something.
    #[must_use]
    pub fn received(&self) -> Vec<Vec<u8>> {
        let connections = locked(&self.state.connections);
        let records = connections.iter().map(|(_, record)| locked(record).clone());
        records.filter(|record| !record.is_empty()).collect()
    }

    /// Closes all connections. It goes on listening.
    pub fn cut(&self) {
        for (socket, _) in locked(&self.state.connections).iter() {
            // It may be closed.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Closes everything: new connections are refused.
    ///
    /// # Panics
    /// When its thread panicked.
    pub fn stop(&mut self) {
        let Some(acceptor) = self.acceptor.take() else { return };
        self.state.is_stopping.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address());
        acceptor.join().expect("it accepts until it is told not to");
        self.cut();
    }

    /// Listens again, on the same port.
    ///
    /// # Panics
    /// When the port was taken meanwhile.
    pub fn resume(&mut self) {
        if self.acceptor.is_some() {
            return;
        }
        self.state.is_stopping.store(false, Ordering::Release);
        let deadline = Instant::now() + PATIENCE;
        let listener = loop {
            match TcpListener::bind(self.address()) {
                Ok(listener) => break listener,
                Err(error) => assert!(Instant::now() < deadline, "{}: {error}", self.address()),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let state = Arc::clone(&self.state);
        self.acceptor = Some(std::thread::spawn(move || accept(&listener, &state)));
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}

fn accept(listener: &TcpListener, state: &Arc<State>) {
    for socket in listener.incoming() {
        if state.is_stopping.load(Ordering::Acquire) {
            return;
        }
        let Ok(socket) = socket else { continue };
        let number = state.accepted.fetch_add(1, Ordering::AcqRel);
        let state = Arc::clone(state);
        std::thread::spawn(move || {
            // A connection that breaks is what many tests are about.
            let _ = serve(&state, socket, number);
        });
    }
}

fn serve(state: &State, socket: TcpStream, connection: usize) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let record = Arc::default();
    locked(&state.connections).push((socket.try_clone()?, Arc::clone(&record)));
    let link = match &state.tls {
        None => Link::Plain(socket),
        Some(config) => {
            let session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
            let mut stream = StreamOwned::new(session, socket);
            while stream.conn.is_handshaking() {
                stream.conn.complete_io(&mut stream.sock)?;
            }
            Link::Tls(Box::new(stream))
        }
    };
    let certificate = match &link {
        Link::Plain(_) => None,
        Link::Tls(stream) => stream.conn.peer_certificates().and_then(|chain| chain.first()),
    };
    let certificate = certificate.map_or_else(Vec::new, |leaf| leaf.to_vec());
    let mut reader = BufReader::new(Recorded { link, record });
    while let Some(head) = read_head(&mut reader)? {
        let asked = Asked { head, connection, certificate: certificate.clone() };
        locked(&state.asked).push(asked.clone());
        let target = asked.target();
        let path = target.split('?').next().unwrap_or_default();
        let script = script_of(state, path).or_else(|| script_of(state, "*"));
        let mut exchange = Exchange { asked, reader: &mut reader };
        let next = match script {
            Some(script) => script(&mut exchange)?,
            None => exchange.reply("200 OK\nContent-Type: text/plain", &target)?,
        };
        if next == Next::Close {
            break;
        }
    }
    end(reader.into_inner().link);
    Ok(())
}

fn script_of(state: &State, path: &str) -> Option<Arc<Script>> {
    let scripts = locked(&state.scripts);
    scripts.iter().find(|(of, _)| of == path).map(|(_, script)| Arc::clone(script))
}

/// Ends a connection so that its client can read all that was sent.
fn end(mut link: Link) {
    if let Link::Tls(stream) = &mut link {
        stream.conn.send_close_notify();
        let _ = stream.flush();
    }
    let _ = link.socket().shutdown(Shutdown::Write);
    let _ = link.socket().set_read_timeout(Some(Duration::from_secs(1)));
    let _ = io::copy(&mut link.socket(), &mut io::sink());
}

/// A head, up to the empty line; `None`: the client has closed instead.
fn read_head(reader: &mut BufReader<Recorded>) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if reader.read_until(b'\n', &mut head)? == 0 {
            return if head.is_empty() { Ok(None) } else { Err(ErrorKind::UnexpectedEof.into()) };
        }
        if head.len() > HEAD_MAX {
            return Err(io::Error::other("a head that never ends"));
        }
    }
    Ok(Some(head))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
