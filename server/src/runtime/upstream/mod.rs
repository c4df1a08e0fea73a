//! Connections to the upstream: those of one shard, kept open and used again.
//!
//! Owns sockets, TLS sessions and their number. hyper speaks HTTP/1.1 on them: its connections are plain futures over any stream,
//! so they run on a shard's own executor, without another thread between a client and the upstream.

pub(in crate::runtime) mod body;
pub(in crate::runtime) mod io;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::error::Error as _;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_lite::future;
use futures_rustls::TlsConnector;
use glommio::net::TcpStream;
use glommio::sync::Semaphore;
use glommio::timer::sleep;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderValue, Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};

use crate::runtime::shards::ShardHandles;
use crate::upstream::{
    Caller, Current, ForwardIdentity, Place, Question, Terms, UpstreamError, UpstreamReply,
};
use body::RequestBody;
use io::{HyperIo, Stream};

/// The timeout of one attempt to connect, TLS included.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a connection is kept without a request. kube-apiserver closes idle ones after 3 minutes.
const IDLE: Duration = Duration::from_secs(60);
/// Connections that are kept idle, at most.
const IDLE_MAX: usize = 64;
/// Connections of one shard, at most: further requests are refused.
const CONNECTIONS_MAX: usize = 2048;
/// Questions of the server's own that are under way at once: as many connections as are kept. Many new clients at once would
/// otherwise open a connection each, and keep the shard from its watches.
const QUESTIONS_MAX: u64 = IDLE_MAX as u64;
/// Bytes that are read ahead of a client that takes a reply slowly.
const READ_AHEAD_BYTES: usize = 64 << 10;
/// The longest reply to a question of the server's own.
const REPLY_BYTES_MAX: usize = 4 << 20;

/// The sending end of a connection.
#[derive(Debug)]
pub(in crate::runtime) struct Sender {
    sender: SendRequest<RequestBody>,
    generation: u64,
    place: usize,
    shows: Shows,
}

/// What a connection shows of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) enum Shows {
    /// Nothing: its requests bring their own credentials.
    Nothing,
    /// Its certificate, if it has one.
    Certificate,
}

impl Shows {
    /// For requests that the upstream sees as from this caller.
    pub(in crate::runtime) const fn of(caller: &Caller) -> Self {
        if caller.is_client() { Self::Nothing } else { Self::Certificate }
    }
}

/// The open connections, and which of them are idle.
#[derive(Debug)]
struct Connections {
    open: Cell<usize>,
    /// The newest last.
    idle: RefCell<VecDeque<Idle>>,
    handles: ShardHandles,
    number: usize,
}

impl Connections {
    /// Shows the counts in metrics.
    fn publish(&self) {
        let counts = (self.open.get(), self.idle.borrow().len());
        self.handles.0[self.number].tally.upstream.connections(counts);
    }
}

/// The place of an open connection in the count, which is released when it is dropped.
#[derive(Debug)]
pub(in crate::runtime) struct Count(Rc<Connections>);

impl Count {
    fn take(connections: &Rc<Connections>) -> Result<Self, UpstreamError> {
        if connections.open.get() >= CONNECTIONS_MAX {
            return Err(UpstreamError::Busy);
        }
        connections.open.set(connections.open.get() + 1);
        connections.publish();
        Ok(Self(Rc::clone(connections)))
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
        self.0.idle.borrow_mut().retain(|idle| !idle.sender.sender.is_closed());
        self.0.publish();
    }
}

#[derive(Debug)]
struct Idle {
    sender: Sender,
    since: Instant,
}

/// The connections of one shard.
#[derive(Debug)]
pub(in crate::runtime) struct UpstreamClient {
    current: Arc<Current>,
    connections: Rc<Connections>,
    /// The place that took a connection last.
    preferred: Cell<usize>,
    /// Permits of questions.
    questions: Semaphore,
}

/// A reply whose body is still to be read.
#[derive(Debug)]
pub(in crate::runtime) struct Answered {
    /// The reply.
    pub(in crate::runtime) response: Response<Incoming>,
    /// Its connection, for the next request.
    pub(in crate::runtime) sender: Sender,
}

impl UpstreamClient {
    /// Of the shard with this number.
    pub(in crate::runtime) fn new(current: Arc<Current>, handles: ShardHandles, number: usize) -> Self {
        let connections = Connections { open: Cell::new(0), idle: RefCell::default(), handles, number };
        Self {
            current,
            connections: Rc::new(connections),
            preferred: Cell::new(0),
            questions: Semaphore::new(QUESTIONS_MAX),
        }
    }

    /// The upstream as it is now.
    pub(in crate::runtime) const fn current(&self) -> &Arc<Current> {
        &self.current
    }

    /// Sends a request and waits for the head of the reply. `Host` is added. A connection that the upstream closed while it was idle
    /// is replaced. A request that was begun is sent again only if it changes nothing and the connection was closed in place of a
    /// reply (RFC 9110, section 9.2.2).
    ///
    /// # Errors
    /// There is no reply.
    pub(in crate::runtime) async fn send(
        &self,
        shows: Shows,
        request: Request<RequestBody>,
    ) -> Result<Answered, UpstreamError> {
        let terms = self.current.terms();
        let mut request = request;
        while let Some(mut sender) = self.take_idle(&terms, shows) {
            request.headers_mut().insert(HOST, terms.places[sender.place].authority.clone());
            let copy = copy_of_safe(&request);
            match sender.sender.try_send_request(request).await {
                Ok(response) => return Ok(Answered { response, sender }),
                Err(mut error) => match (error.take_message(), copy) {
                    // Nothing of it was sent.
                    (Some(unsent), _) => request = unsent,
                    (None, Some(copy)) if was_closed(error.error()) => request = copy,
                    (None, _) => return Err(broken(&error.into_error())),
                },
            }
        }
        let (sender, connection, count) = self.open(&terms, shows).await?;
        let mut sender = sender;
        Self::run(connection, count);
        request.headers_mut().insert(HOST, terms.places[sender.place].authority.clone());
        match sender.sender.send_request(request).await {
            Ok(response) => Ok(Answered { response, sender }),
            Err(error) => Err(broken(&error)),
        }
    }

    /// Opens a connection for one request, whose stream its caller gets back: for an upgrade.
    ///
    /// # Errors
    /// No endpoint takes a connection.
    pub(in crate::runtime) async fn open_alone(
        &self,
        shows: Shows,
    ) -> Result<(Sender, Connection<HyperIo, RequestBody>, Count, HeaderValue), UpstreamError> {
        let terms = self.current.terms();
        let (sender, connection, count) = self.open(&terms, shows).await?;
        let authority = terms.places[sender.place].authority.clone();
        Ok((sender, connection, count, authority))
    }

    /// Lets a connection read and write as long as it lives.
    pub(in crate::runtime) fn run(connection: Connection<HyperIo, RequestBody>, count: Count) {
        glommio::spawn_local(async move {
            // Its error reaches whoever waits for a reply.
            let _ = connection.await;
            drop(count);
        })
        .detach();
    }

    /// Sends a request that has no place on a kept connection.
    ///
    /// # Errors
    /// There is no reply.
    pub(in crate::runtime) async fn send_alone(
        sender: &mut Sender,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, UpstreamError> {
        sender.sender.send_request(request).await.map_err(|error| broken(&error))
    }

    /// Keeps a connection whose reply was read to its end.
    pub(in crate::runtime) fn give_back(self: &Rc<Self>, sender: Sender) {
        let mut sender = sender;
        let client = Rc::clone(self);
        // hyper notices the end of the reply in a turn of its own.
        glommio::spawn_local(async move {
            let ready = async { sender.sender.ready().await.is_ok() };
            let late = async {
                sleep(CONNECT).await;
                false
            };
            if future::or(ready, late).await {
                let connections = &client.connections;
                let mut idle = connections.idle.borrow_mut();
                idle.push_back(Idle { sender, since: Instant::now() });
                if idle.len() > IDLE_MAX {
                    idle.pop_front();
                }
                drop(idle);
                connections.publish();
            }
        })
        .detach();
    }

    /// Asks with the server's own identity, and reads the whole reply.
    ///
    /// # Errors
    /// There is no complete reply in time.
    pub(in crate::runtime) async fn ask(
        self: &Rc<Self>,
        question: Question,
    ) -> Result<UpstreamReply, UpstreamError> {
        let mut builder = Request::builder()
            .method(question.method.as_str())
            .uri(question.path.as_str())
            .header(USER_AGENT, concat!("revcast/", env!("CARGO_PKG_VERSION")))
            .header("accept", "application/json");
        if let Some(own) = &self.current.terms().authorization {
            builder = builder.header(AUTHORIZATION, own.clone());
        }
        if !question.body.is_empty() {
            builder = builder.header(CONTENT_TYPE, "application/json");
        }
        let body = RequestBody::Full(Some(question.body).filter(|body| !body.is_empty()));
        let request = builder.body(body).map_err(|error| UpstreamError::Broken(error.to_string()))?;
        let asked = async {
            let _permit = self.questions.acquire_permit(1).await;
            // A front proxy speaks for others: with its certificate a request that names nobody is refused.
            let shows = match self.current.options().identity {
                ForwardIdentity::FrontProxy => Shows::Nothing,
                ForwardIdentity::Client | ForwardIdentity::Impersonate => Shows::Certificate,
            };
            let Answered { response, sender } = self.send(shows, request).await?;
            let (parts, mut body) = response.into_parts();
            let body = read_all(&mut body).await?;
            self.give_back(sender);
            Ok(UpstreamReply { code: parts.status.as_u16(), body })
        };
        let late = async {
            sleep(self.current.options().timeout.min(2 * CONNECT)).await;
            Err(UpstreamError::Slow)
        };
        future::or(asked, late).await
    }

    /// The connection that was used last, so that those that are not needed become old.
    fn take_idle(&self, terms: &Terms, shows: Shows) -> Option<Sender> {
        let mut idle = self.connections.idle.borrow_mut();
        while idle.front().is_some_and(|first| first.since.elapsed() >= IDLE) {
            idle.pop_front();
        }
        let mut taken = None;
        while let Some(at) = idle.iter().rposition(|idle| idle.sender.shows == shows) {
            let Some(last) = idle.remove(at) else { break };
            if last.sender.generation == terms.generation && last.sender.sender.is_ready() {
                taken = Some(last.sender);
                break;
            }
        }
        drop(idle);
        self.connections.publish();
        taken
    }

    /// Opens a connection to the first endpoint that takes one, beginning with the last that did.
    async fn open(
        &self,
        terms: &Terms,
        shows: Shows,
    ) -> Result<(Sender, Connection<HyperIo, RequestBody>, Count), UpstreamError> {
        let mut why = String::new();
        let count = terms.places.len();
        let counted = Count::take(&self.connections)?;
        for at in (0..count).map(|turn| (self.preferred.get() + turn) % count.max(1)) {
            let place = &terms.places[at];
            if place.addresses.is_empty() {
                why = format!("{}: its name has no address: is it right?", place.endpoint);
            }
            for address in &place.addresses {
                match self.connect(terms, shows, place, *address).await {
                    Ok((sender, connection)) => {
                        self.preferred.set(at);
                        let sender = Sender { sender, generation: terms.generation, place: at, shows };
                        return Ok((sender, connection, counted));
                    }
                    Err(error) => why = format!("{}: {error}", place.endpoint),
                }
            }
        }
        self.current.is_unreachable();
        Err(UpstreamError::Unreachable(why))
    }

    async fn connect(
        &self,
        terms: &Terms,
        shows: Shows,
        place: &Place,
        address: std::net::SocketAddr,
    ) -> Result<(SendRequest<RequestBody>, Connection<HyperIo, RequestBody>), String> {
        let connected = async {
            let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
            let _ = stream.set_nodelay(true);
            let stream = match (&terms.tls, &place.name) {
                (Some(configs), Some(name)) => {
                    let config = match shows {
                        Shows::Nothing => &configs.bare,
                        Shows::Certificate => &configs.own,
                    };
                    let connector = TlsConnector::from(Arc::clone(config));
                    let secured =
                        connector.connect(name.clone(), stream).await.map_err(|error| error.to_string())?;
                    Stream::Tls(Box::new(secured))
                }
                (Some(_) | None, None) | (None, Some(_)) => Stream::Plain(stream),
            };
            let mut builder = Builder::new();
            builder.max_buf_size(READ_AHEAD_BYTES).max_headers(crate::http::request::HEADERS_MAX);
            builder.handshake(HyperIo::new(stream)).await.map_err(|error| error.to_string())
        };
        let late = async {
            sleep(CONNECT).await;
            Err(format!("no connection within {} s", CONNECT.as_secs()))
        };
        future::or(connected, late).await
    }
}

/// The same request, if it changes nothing and has no body.
fn copy_of_safe(request: &Request<RequestBody>) -> Option<Request<RequestBody>> {
    let is_safe = request.method().is_safe() && matches!(request.body(), RequestBody::Full(None));
    is_safe.then(|| {
        let mut copy = Request::new(RequestBody::Full(None));
        *copy.method_mut() = request.method().clone();
        *copy.uri_mut() = request.uri().clone();
        *copy.headers_mut() = request.headers().clone();
        copy
    })
}

/// Whether the connection ended before a byte of the reply.
fn was_closed(error: &hyper::Error) -> bool {
    let is_reset = |cause: &std::io::Error| {
        matches!(cause.kind(), std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe)
    };
    let cause = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
    error.is_incomplete_message() || error.is_closed() || error.is_canceled() || cause.is_some_and(is_reset)
}

/// Reads a body to its end.
async fn read_all(body: &mut Incoming) -> Result<Bytes, UpstreamError> {
    let mut all = Vec::new();
    while let Some(frame) = poll_fn(|cx| std::pin::Pin::new(&mut *body).poll_frame(cx)).await {
        let frame = frame.map_err(|error| broken(&error))?;
        if let Ok(piece) = frame.into_data() {
            if all.len() + piece.len() > REPLY_BYTES_MAX {
                return Err(UpstreamError::Broken(format!(
                    "it is longer than {} MiB",
                    REPLY_BYTES_MAX >> 20
                )));
            }
            all.extend_from_slice(&piece);
        }
    }
    Ok(all.into())
}

/// What hyper says, with its cause.
pub(in crate::runtime) fn broken(error: &hyper::Error) -> UpstreamError {
    match error.source() {
        Some(cause) => UpstreamError::Broken(format!("{error}: {cause}")),
        None => UpstreamError::Broken(error.to_string()),
    }
}
