//! One connection of HTTP/1.1 while it carries requests: head, body, reply, and again.
//!
//! Owns the order of reads and writes on the socket. When a request turns out to be a watch, the connection leaves this task
//! for its shard and the task ends; when the stream is over the connection comes back to a new one.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use glommio::net::TcpStream;
use rustix::net::sockopt::{set_socket_send_buffer_size, socket_send_buffer_size};

use super::carrier::{Http1Carrier, KEPT_BYTES};
use super::transport::{READ_BYTES, Transport};
use crate::http::request::{HEAD_BYTES_MAX, HeadScanner, Parsed, RequestHead};
use crate::http::status::Status;
use crate::runtime::client::{Client, Permit};
use crate::runtime::conn::Link;
use crate::runtime::exchange::carrier::STALL;
use crate::runtime::exchange::{Arriving, Exchange, Over};
use crate::runtime::listener::ListenerKind;
use crate::runtime::shard::local::Local;
use crate::runtime::shared::RequestGuard;
use crate::runtime::sys::descriptor;
use crate::tls::{HTTP2, Signers};
use crate::wire::http2::PREFACE;

/// As long as the settings after it may take.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);
/// So many bytes of the preface are the beginning of no method.
const UNLIKE_METHODS: usize = 3;
/// The kernel's send buffer of a connection with many streams: an event of 1 KiB for 100 of them is a tenth of it.
const STREAMS_SEND_BUFFER: usize = 1 << 20;
/// How long a client may take to resume a watch that ended because another process has taken over.
const RESUME_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a connection from the reserve may take to send its request.
const HEALTH_CHECK_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves an accepted connection until it ends or becomes a watch.
pub(in crate::runtime) async fn serve(
    local: Rc<Local>,
    stream: TcpStream,
    kind: ListenerKind,
    permit: Permit,
) {
    let mut buffer = Vec::new();
    let (transport, authorities, signers) = match &local.shared.tls {
        Some(tls) if kind == ListenerKind::Public => {
            let terms = tls.terms();
            match Transport::secure(&local.handshakes, stream, &terms, &mut buffer).await {
                Ok(transport) => {
                    local.handle().tally.tls.completed(transport.is_resumed());
                    let signers = terms.signers_of_verified(transport.peer_certificates());
                    (transport, Some(terms.authorities_generation()), signers)
                }
                Err(error) => {
                    local.handle().tally.tls.ended(&error);
                    return crate::log::debug(|| format!("a TLS handshake failed: {error}"));
                }
            }
        }
        Some(_) | None => (Transport::plain(stream), None, Signers::default()),
    };
    let client = Client::new(kind, permit, transport.peer_certificate()).verified(authorities, signers);
    let protocol = transport.protocol();
    let mut connection = Connection::new(local, transport, buffer, client);
    connection.opened = Some(Instant::now());
    connection.may_be_http2 = protocol.is_none();
    if protocol == Some(HTTP2) { connection.into_http2() } else { connection.serve().await }
}

/// Serves a connection whose watch has ended. The server waits until the rest of the watch is sent.
pub(in crate::runtime) async fn go_on(local: Rc<Local>, link: Link, guard: RequestGuard) {
    let Link { socket, tls, unsent, unread, permit, .. } = link;
    let stream = descriptor::stream(socket);
    tune(&stream);
    let admission = &local.shared.admission;
    let peer = if admission.asks_address() { stream.peer_addr().ok() } else { None };
    let permit = admission.welcome_back(permit, peer);
    let mut transport = Transport::resumed(stream, tls, unsent);
    if transport.settle().await.is_err() {
        return;
    }
    match (local.has_successor(), local.closing()) {
        // A request that is under way must not be answered with a reset.
        (true, true) => return transport.linger().await,
        (false, true) => return transport.close().await,
        (_, false) => {}
    }
    // A client that resumes does so at once, and on this connection. Its reply says that the connection ends, and then it connects to
    // the successor; without a reply it would report an error. The process does not end before that.
    let guard = local.has_successor().then_some(guard);
    let client = Client::new(ListenerKind::Public, Permit::Client(permit), transport.peer_certificate());
    Connection { resumed: guard, ..Connection::new(local, transport, unread, client) }.serve().await;
}

/// Sets the options of every connection that a task reads and writes.
pub(in crate::runtime) fn tune(stream: &TcpStream) {
    // With Nagle's algorithm every small reply would wait until the previous one is acknowledged.
    let _ = stream.set_nodelay(true);
    // A peer that reads nothing must not hold a list's snapshot for ever.
    let _ = stream.set_write_timeout(Some(STALL));
}

/// Lets the kernel take more at once for a connection of many streams.
fn widen(socket: &OwnedFd) {
    if socket_send_buffer_size(socket).is_ok_and(|bytes| bytes < 2 * STREAMS_SEND_BUFFER) {
        // What it does not allow, it caps.
        let _ = set_socket_send_buffer_size(socket, STREAMS_SEND_BUFFER);
    }
}

/// What a connection sends next.
enum Next {
    Request(Box<RequestHead>),
    /// The preface of HTTP/2.
    Http2,
    /// Nothing that is served: how the connection ends.
    Over(Over),
}

struct Connection {
    exchange: Exchange<Http1Carrier>,
    /// When it was accepted, until it has sent a request.
    opened: Option<Instant>,
    /// Whether all that came is the beginning of HTTP/2's preface. A client that agreed on nothing may send that: it knows before
    /// that this server speaks it. No request of HTTP/1.1 begins so.
    may_be_http2: bool,
    /// Of a watch that has ended, until the next request was served.
    resumed: Option<RequestGuard>,
}

impl Connection {
    fn new(local: Rc<Local>, transport: Transport, buffer: Vec<u8>, client: Client) -> Self {
        let client = Rc::new(client);
        let carrier = Http1Carrier::new(transport, buffer, Rc::clone(&client));
        let exchange = Exchange::new(local, client, carrier);
        Self { exchange, opened: None, may_be_http2: false, resumed: None }
    }

    async fn serve(mut self) {
        let over = loop {
            let mut head = match self.read_head().await {
                Next::Request(head) => head,
                Next::Http2 => return self.into_http2(),
                Next::Over(over) => break over,
            };
            // Decided once: a connection ends exactly when its reply says so.
            let exchange = &mut self.exchange;
            head.keep_alive &= !exchange.local.leaving() && !exchange.client.is_health_check();
            // A connection waits for requests with little memory; what a request needs, another has just given back.
            let over = Box::pin(exchange.serve(&head)).await;
            self.resumed = None;
            if let Some(over) = over {
                break over;
            }
            // Reads and writes do not wait while there is something to read and room for the reply: a peer that sends requests
            // without end must not keep the shard from its watches.
            crate::frontend::Host::yield_now(&*self.exchange.local).await;
        };
        if let Some(transport) = self.exchange.carrier.transport.take() {
            match over {
                Over::Quiet if self.resumed.is_none() => transport.close().await,
                Over::Quiet | Over::Linger => transport.linger().await,
            }
        }
    }

    fn into_http2(self) {
        let Exchange { local, client, mut carrier, .. } = self.exchange;
        let Some(transport) = carrier.transport.take() else { return };
        // Without another descriptor it is closed: a client connects again.
        let socket = transport.duplicate().ok();
        let socket = socket.filter(|socket| !local.shared.reserve.holds(socket.as_raw_fd()));
        if let Some(socket) = socket {
            widen(&socket);
            let link = transport.into_link(socket, std::mem::take(&mut carrier.buffer), None, true);
            local.open_http2(link, client);
        }
    }

    /// The timeout for a head, from the start of the connection or the head's first byte. A connection from the reserve must
    /// send its request soon, or a few idle ones would use up the reserve.
    fn head_timeout(&self) -> Duration {
        let timeout = self.exchange.local.shared.options.head_timeout;
        if self.exchange.client.is_health_check() { timeout.min(HEALTH_CHECK_TIMEOUT) } else { timeout }
    }

    async fn read_head(&mut self) -> Next {
        let mut scanner = HeadScanner::new();
        let head_timeout = self.head_timeout();
        let exchange = &mut self.exchange;
        let carrier = &mut exchange.carrier;
        if carrier.buffer.is_empty() && carrier.buffer.capacity() > KEPT_BYTES {
            // A body has enlarged it.
            carrier.buffer = Vec::new();
        }
        // A new connection must send a head within the timeout; between requests the idle timeout applies.
        let mut deadline = self.opened.take().map(|opened| opened + head_timeout);
        if !carrier.buffer.is_empty() && exchange.arrival.is_none() {
            // It came together with what was before it.
            exchange.arrive().await;
        }
        loop {
            let Exchange { local, client, carrier, arrival, .. } = exchange;
            let begun = carrier.buffer.len().min(PREFACE.len());
            self.may_be_http2 = self.may_be_http2 && carrier.buffer[..begun] == PREFACE[..begun];
            if self.may_be_http2 && begun == PREFACE.len() {
                return Next::Http2;
            }
            let is_http2 = self.may_be_http2 && begun >= UNLIKE_METHODS;
            let parsed = if is_http2 { Ok(Parsed::Incomplete) } else { scanner.parse(&carrier.buffer) };
            match parsed {
                Ok(Parsed::Complete { head, head_len }) => {
                    if local.upstream.is_some() {
                        carrier.raw_head.clear();
                        carrier.raw_head.extend_from_slice(&carrier.buffer[..head_len]);
                    }
                    carrier.buffer.drain(..head_len);
                    return Next::Request(head);
                }
                Ok(Parsed::Incomplete) => {}
                Err(error) => {
                    exchange.refuse_head(error).await;
                    return Next::Over(Over::Linger);
                }
            }
            debug_assert!(
                carrier.buffer.len() <= HEAD_BYTES_MAX + READ_BYTES,
                "the scanner refuses longer heads"
            );
            let patience = if carrier.buffer.is_empty() && deadline.is_none() {
                let idle_timeout = local.shared.options.idle_timeout;
                if self.resumed.is_some() { RESUME_TIMEOUT.min(idle_timeout) } else { idle_timeout }
            } else {
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + head_timeout);
                // The whole preface may take as long as the settings after it.
                let sooner =
                    if is_http2 { head_timeout.saturating_sub(PREFACE_TIMEOUT) } else { Duration::ZERO };
                deadline.saturating_duration_since(Instant::now()).saturating_sub(sooner)
            };
            let Some(transport) = &mut carrier.transport else { return Next::Over(Over::Quiet) };
            let arriving = Arriving { local, client, arrival };
            let is_late = match transport.read(&mut carrier.buffer, patience, Some(arriving)).await {
                Ok(read) if read > 0 => false,
                Err(error) if error.kind() == std::io::ErrorKind::TimedOut => true,
                Ok(_) | Err(_) => return Next::Over(Over::Quiet),
            };
            if is_late && (is_http2 || carrier.buffer.is_empty()) {
                return Next::Over(Over::Quiet);
            }
            if is_late {
                let message = format!(
                    "no complete head arrived within {} s: send it without pauses",
                    head_timeout.as_secs()
                );
                exchange.send_status(&Status::other(408, message), None).await;
                return Next::Over(Over::Linger);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<A, B, C, D, F: Future>(_: impl Fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    /// Ten thousand that return at once have a task each, and each is copied and touched when it begins.
    #[test]
    fn a_connection_waits_with_little_memory() {
        let size = size_of_future(serve);
        assert!(size <= 3 << 10, "the task of a connection has {size} bytes: box what few connections need");
    }
}
