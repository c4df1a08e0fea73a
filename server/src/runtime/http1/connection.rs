//! One connection while it carries requests: head, body, reply, and again.
//!
//! Owns the order of reads and writes on the socket. When a request turns out to be a watch, the connection leaves this task
//! for its shard and the task ends; when the stream is over the connection comes back to a new one.

use std::cell::RefCell;
use std::os::fd::AsRawFd as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use glommio::net::TcpStream;

use super::request_scope::RequestScope;
use super::transport::{STALL, Transport};
use crate::auth::PeerCertificate;
use crate::frontend::{Budget, Frontend};
use crate::frontend::{FullBody, Host, Reply, WatchRequest, Wire};
use crate::http::request::{BodyFraming, Method, RequestHead};
use crate::http::request_info::RequestTarget;
use crate::http::response::Framing;
use crate::http::status::Status;
use crate::runtime::account::Charge;
use crate::runtime::admin::Operators;
use crate::runtime::admission::{ConnPermit, CountGuard};
use crate::runtime::conn::Link;
use crate::runtime::listener::ListenerKind;
use crate::runtime::reserve::HealthPermit;
use crate::runtime::shard::local::Local;
use crate::runtime::shared::RequestGuard;
use crate::runtime::sys::descriptor;
use crate::runtime::watch::{NewWatch, WatchRecord};
use crate::tls::Signers;

/// Bytes per read until a read fills them: a connection that is idle, or sends single bytes, holds no larger buffer.
pub(super) const FIRST_READ_BYTES: usize = 1 << 10;
/// How long a connection from the reserve may take to send its request.
const HEALTH_CHECK_TIMEOUT: Duration = Duration::from_secs(1);
/// The size of the buffers for a long list: a piece, and the part of it that is being sent.
const PIECES_BYTES: usize = 160 << 10;

/// How to end a connection.
pub(super) enum Over {
    /// Nothing is pending: the peer closed, was too slow, or the connection carries a watch now.
    Quiet,
    /// A last reply was sent; the peer may still be sending.
    Linger,
}

/// As what a connection was admitted.
#[derive(Debug)]
pub(in crate::runtime) enum Permit {
    /// An operator's: it is not counted.
    Operator,
    /// A client's.
    Client(ConnPermit),
    /// From the reserve of descriptors, for one health check.
    HealthCheck {
        /// Released when it is closed.
        _permit: HealthPermit,
    },
}

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
                    let signers = terms.signers_of_verified(transport.peer_certificates());
                    (transport, Some(terms.authorities_generation()), signers)
                }
                Err(error) => return crate::log::debug(|| format!("a TLS handshake failed: {error}")),
            }
        }
        Some(_) | None => (Transport::plain(stream), None, Signers::default()),
    };
    let connection = Connection::new(local, transport, buffer, kind, permit);
    Connection { is_new: true, authorities, signers, ..connection }.serve().await;
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
    if local.closing() {
        return transport.close().await;
    }
    drop(guard);
    Connection::new(local, transport, unread, ListenerKind::Public, Permit::Client(permit)).serve().await;
}

/// Sets the options of every connection that a task reads and writes.
pub(in crate::runtime) fn tune(stream: &TcpStream) {
    // With Nagle's algorithm every small reply would wait until the previous one is acknowledged.
    let _ = stream.set_nodelay(true);
    // A peer that reads nothing must not hold a list's snapshot for ever.
    let _ = stream.set_write_timeout(Some(STALL));
}

pub(super) struct Connection {
    pub(super) local: Rc<Local>,
    /// `None` after it became a watch.
    pub(super) transport: Option<Transport>,
    /// Bytes that were read and not used yet.
    pub(super) buffer: Vec<u8>,
    /// Bytes per read.
    pub(super) read_bytes: usize,
    /// The current head as it was received, if it may be forwarded.
    pub(super) raw_head: Vec<u8>,
    kind: ListenerKind,
    /// The client's identity, in DER: the leaf of a verified chain. It is the same for every request of the connection.
    peer_certificate: Option<Arc<[u8]>>,
    /// Who signed it.
    signers: Signers,
    /// The number of the authorities that it was verified against; `None`: it has to be verified.
    authorities: Option<u64>,
    permit: Permit,
    /// Whether it has sent no request yet.
    pub(super) is_new: bool,
    /// The current request.
    pub(super) scope: Option<RequestScope>,
    /// The charge of the current request.
    pub(super) charge: RefCell<Charge>,
}

impl Budget for RefCell<Charge> {
    fn charge(&self, bytes: usize) -> Result<(), Status> {
        self.borrow_mut().add(bytes).map_err(|status| *status)
    }
}

impl Connection {
    fn new(
        local: Rc<Local>,
        transport: Transport,
        buffer: Vec<u8>,
        kind: ListenerKind,
        permit: Permit,
    ) -> Self {
        let peer_certificate = transport.peer_certificate();
        let charge = RefCell::new(local.shared.account.open());
        Self {
            local,
            transport: Some(transport),
            buffer,
            read_bytes: FIRST_READ_BYTES,
            raw_head: Vec::new(),
            kind,
            peer_certificate,
            signers: Signers::default(),
            authorities: None,
            permit,
            is_new: false,
            scope: None,
            charge,
        }
    }

    async fn serve(mut self) {
        let over = self.run().await;
        if let Some(transport) = self.transport.take() {
            match over {
                Over::Linger => transport.linger().await,
                Over::Quiet => transport.close().await,
            }
        }
    }

    async fn run(&mut self) -> Over {
        loop {
            let mut head = match self.read_head().await {
                Ok(Some(head)) => head,
                Ok(None) => return Over::Quiet,
                Err(over) => return over,
            };
            // Decided once: a connection ends exactly when its reply says so.
            head.keep_alive &= !self.local.leaving() && !matches!(self.permit, Permit::HealthCheck { .. });
            let guard = RequestGuard::new(&self.local.shared, self.local.number);
            let source = || self.transport.as_ref().and_then(Transport::peer);
            let asked = RequestTarget::of(&head);
            let scope =
                RequestScope::begin(&self.local.shared, self.local.number, &head, &asked, self.kind, source);
            self.scope = Some(scope);
            let local = Rc::clone(&self.local);
            let next = match self.kind {
                ListenerKind::Public => self.exchange(&local.shared.app, &head, asked).await,
                ListenerKind::Admin => self.exchange(&Operators(&local), &head, asked).await,
            };
            self.charge.get_mut().clear();
            self.scope = None;
            drop(guard);
            if let Some(over) = next {
                return over;
            }
            // Reads and writes do not wait while there is something to read and room for the reply: a peer that sends requests
            // without end must not keep the shard from its watches.
            self.local.yield_now().await;
        }
    }

    /// Serves one request. `None`: the connection continues.
    async fn exchange<F: Frontend>(
        &mut self,
        frontend: &F,
        head: &RequestHead,
        asked: RequestTarget,
    ) -> Option<Over> {
        #[cfg(debug_assertions)]
        assert!(head.path != ["failpoints", "panic"], "failpoint: a request that panics");
        if !self.certificate_holds() {
            self.send_last(&Status::unauthorized(), head).await;
            return Some(Over::Linger);
        }
        let Signers { is_client, is_proxy } = self.signers;
        let certificate =
            self.peer_certificate.as_deref().map(|der| PeerCertificate { der, is_client, is_proxy });
        let (user, admitted) =
            frontend.admit(&*self.local, head, asked, certificate, SystemTime::now()).await;
        if let Some(scope) = &mut self.scope {
            scope.received(user.as_deref());
        }
        let admitted = match admitted {
            Ok(admitted) => admitted,
            Err(whole) => return self.turn_away(head, &whole).await,
        };
        if matches!(self.permit, Permit::HealthCheck { .. }) && !frontend.is_health(&admitted) {
            let message = "no descriptor is left for another connection: raise nofile (ulimit -n)".to_owned();
            self.send_last(&Status::service_unavailable(message, 1), head).await;
            return Some(Over::Linger);
        }
        match frontend.forwards(head, &admitted) {
            None => {}
            Some(Err(whole)) => return self.turn_away(head, &whole).await,
            Some(Ok(forwarding)) => {
                return match self.forward(head, &forwarding).await {
                    Ok(over) => over,
                    Err(error) => {
                        let local = Rc::clone(&self.local);
                        let instead = frontend.without_upstream(&*local, head, &admitted, &error).await;
                        self.answer_instead(head, instead).await
                    }
                };
            }
        }
        let takes_body = frontend.takes_body(&admitted);
        if head.body != BodyFraming::None
            && takes_body
            && let Some(status) = self.local.shared.memory.refuses_writer()
        {
            self.send_last(&status, head).await;
            return Some(Over::Linger);
        }
        let body = match self.read_body(head, takes_body).await {
            Ok(body) => body,
            Err(over) => return Some(over),
        };
        let reply = frontend.handle(&*self.local, head, &admitted, body, &self.charge).await;
        self.answer(head, reply).await
    }

    /// Sends the reply. `None`: the connection continues.
    async fn answer(&mut self, head: &RequestHead, reply: Reply) -> Option<Over> {
        // A client whose upgrade was refused may have begun to use the other protocol.
        let refused = matches!(&reply, Reply::FullBody(whole) if whole.code >= 400 && head.upgrade.is_some());
        let sent = match reply {
            Reply::FullBody(whole) => match self.charge_reply(head, &whole) {
                Ok(()) => self.send_whole(head, &whole, refused).await,
                Err(status) => {
                    self.send_status(&status, Some(head)).await;
                    Ok(())
                }
            },
            Reply::StreamingBody(pieces) => {
                let refusal = self.local.shared.memory.refuses_reader();
                match refusal.map_or_else(|| self.charge_pieces(), Err) {
                    Ok(()) => self.send_pieces(head, pieces).await,
                    Err(status) => {
                        self.send_status(&status, Some(head)).await;
                        Ok(())
                    }
                }
            }
            Reply::Refused(status, Wire::WebSocket(handshake), format) => {
                let refused = self.send_refused_websocket(&handshake, &status, format).await;
                return Some(refused.map_or(Over::Quiet, |()| Over::Linger));
            }
            Reply::Refused(status, Wire::Chunked | Wire::Gzip, format) => {
                self.send_refused(head, &status, format).await
            }
            Reply::Watch(request) => return self.become_watch(head, request).await,
        };
        match sent {
            Ok(()) if head.keep_alive && !refused => None,
            Ok(()) => Some(Over::Linger),
            Err(_) => Some(Over::Quiet),
        }
    }

    /// Charges what a reply holds in addition to the store: a body that is not shared. The reply to a write is sent in any
    /// case.
    fn charge_reply(&self, head: &RequestHead, whole: &FullBody) -> Result<(), Box<Status>> {
        let mut charge = self.charge.borrow_mut();
        charge.clear();
        if matches!(head.method, Method::Get | Method::Head) && whole.body.is_unique() {
            charge.add(whole.body.len())?;
        }
        Ok(())
    }

    /// Charges the buffers of a long list.
    fn charge_pieces(&self) -> Result<(), Box<Status>> {
        let mut charge = self.charge.borrow_mut();
        charge.clear();
        charge.add(PIECES_BYTES)
    }

    /// The timeout for a head, from the start of the connection or the head's first byte. A connection from the reserve must
    /// send its request soon, or a few idle ones would use up the reserve.
    pub(super) fn head_timeout(&self) -> Duration {
        let timeout = self.local.shared.options.head_timeout;
        match self.permit {
            Permit::HealthCheck { .. } => timeout.min(HEALTH_CHECK_TIMEOUT),
            Permit::Operator | Permit::Client(_) => timeout,
        }
    }

    /// Whether the client's certificate is still valid: it is verified again when the authorities changed.
    fn certificate_holds(&mut self) -> bool {
        let (Some(tls), Some(transport), true) =
            (&self.local.shared.tls, &self.transport, self.peer_certificate.is_some())
        else {
            return true;
        };
        if self.authorities == Some(tls.authorities_generation()) {
            return true;
        }
        let terms = tls.terms();
        self.signers = terms.signers(transport.peer_certificates());
        let holds = self.signers.is_client || self.signers.is_proxy;
        self.authorities = Some(terms.authorities_generation()).filter(|_| holds);
        holds
    }

    async fn become_watch(&mut self, head: &RequestHead, mut request: WatchRequest) -> Option<Over> {
        let permit = match self.permit_for(&request) {
            Ok(permit) => permit,
            Err(status) if head.keep_alive && head.upgrade.is_none() => {
                self.send_status(&status, Some(head)).await;
                return None;
            }
            Err(status) => {
                self.send_last(&status, head).await;
                return Some(Over::Linger);
            }
        };
        // The second descriptor is needed first: after the head there is no way to report that there is none left.
        let reserve = &self.local.shared.reserve;
        let socket = self.transport.as_ref().and_then(|transport| transport.duplicate().ok());
        let Some(socket) = socket.filter(|socket| !reserve.holds(socket.as_raw_fd())) else {
            let message = "no descriptor is left for another watch: raise nofile (ulimit -n)".to_owned();
            self.send_last(&Status::service_unavailable(message, 1), head).await;
            return Some(Over::Linger);
        };
        let keep_alive = head.keep_alive && request.wire == Wire::Chunked;
        let mut out = Vec::with_capacity(512);
        if let Wire::WebSocket(handshake) = &request.wire {
            self.answered(101);
            handshake.push_to(&mut out);
        } else {
            let mut opening = self.response(200, request.format.content_type(), Framing::Chunked);
            opening.close = !keep_alive;
            if request.wire == Wire::Gzip {
                opening.content_encoding = Some("gzip");
                opening.vary = Some("Accept-Encoding");
            }
            opening.push_to(&mut out);
        }
        out.extend_from_slice(request.wire.opening());
        if self.send(&out).await.is_err() {
            return Some(Over::Quiet);
        }
        let transport = self.transport.take()?;
        // From now on its shard counts it.
        let guard = match std::mem::replace(&mut self.permit, Permit::Operator) {
            Permit::Client(permit) => permit.into_guard(),
            Permit::Operator | Permit::HealthCheck { .. } => None,
        };
        let link = transport.into_link(socket, std::mem::take(&mut self.buffer), guard, keep_alive);
        let audit = self.scope.as_mut().and_then(RequestScope::become_watch);
        let watch = NewWatch {
            link,
            coding: request.wire.coding(),
            record: WatchRecord { permit, authorization: request.authorization.take(), audit },
            authorities: self.authorities.unwrap_or_default(),
        };
        self.local.hand_over(watch, request);
        Some(Over::Quiet)
    }

    /// Counts the watch by name, if a limit is set; or fails if a limit is reached.
    fn permit_for(&self, request: &WatchRequest) -> Result<Option<CountGuard>, Box<Status>> {
        let shared = &self.local.shared;
        if shared.handles.watchers() >= shared.watchers_max {
            let message = format!(
                "{} watches are open, which is the limit: raise max-watchers or nofile",
                shared.watchers_max
            );
            return Err(Box::new(Status::too_many_requests(message, 1)));
        }
        if let Some(status) = shared.memory.refuses_reader() {
            return Err(status);
        }
        let user = request.user.as_ref().map(|user| user.name.as_str());
        match &self.permit {
            Permit::Client(permit) => permit.watch(user),
            Permit::Operator | Permit::HealthCheck { .. } => Ok(None),
        }
    }
}
