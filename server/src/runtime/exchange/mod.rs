//! One request and its reply, whatever wire of HTTP it came on.
//!
//! Owns the order: authentication and authorization, the body, the answer of a frontend or of the upstream, the counts and the lines in
//! the audit log. How bytes are read and written is the [`Carrier`]'s: `http1` and `http2` implement it.
//!
//! `arrival` is a request before its head was read, `respond` the output, `forward` and `tunnel` what the upstream answers, `watch` the
//! request that becomes a watch, `request_scope` one request from its head to its end.

mod arrival;
pub(super) mod carrier;
mod forward;
mod reply_deadline;
mod request_scope;
mod respond;
mod tunnel;
mod watch;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::SystemTime;

use bytes::Bytes;

pub(super) use arrival::{Arrival, Arriving};
pub(super) use carrier::{Carrier, Unread};
use request_scope::RequestScope;

use super::account::Charge;
use super::admin::Operators;
use super::client::Client;
use super::listener::ListenerKind;
use super::shard::local::Local;
use crate::auth::PeerCertificate;
use crate::frontend::{Budget, Frontend, FullBody, Reply, Wire};
use crate::http::body::{BODY_BYTES_MAX, DRAINED_BODY_BYTES_MAX};
use crate::http::request::{BodyFraming, HeadError, Method, RequestHead};
use crate::http::route::{self, Routed};
use crate::http::status::Status;
use crate::tls::Signers;
use crate::wire::stream::Delimiter;

/// The size of the buffers for a long list: a piece, and the part of it that is being sent.
const PIECES_BYTES: usize = 160 << 10;

/// How to end a connection that carries one request after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// Nothing is pending: the peer closed, was too slow, or the connection carries a watch now.
    Quiet,
    /// A last reply was sent; the peer may still be sending.
    Linger,
}

/// Requests of one client over one carrier, one after another.
pub(super) struct Exchange<C> {
    pub(super) local: Rc<Local>,
    pub(super) client: Rc<Client>,
    pub(super) carrier: C,
    /// The next request, if something of it came and it may begin.
    pub(super) arrival: Option<Arrival>,
    /// The current request.
    scope: Option<RequestScope>,
    /// The charge of the current request.
    charge: RefCell<Charge>,
}

impl Budget for RefCell<Charge> {
    fn charge(&self, bytes: usize) -> Result<(), Status> {
        self.borrow_mut().add(bytes).map_err(|status| *status)
    }
}

impl<C: Carrier> Exchange<C> {
    pub(super) fn new(local: Rc<Local>, client: Rc<Client>, carrier: C) -> Self {
        let charge = RefCell::new(local.shared.account.open());
        Self { local, client, carrier, arrival: None, scope: None, charge }
    }

    /// Something of the next request came. Ready when it may begin.
    pub(super) async fn arrive(&mut self) {
        let Self { local, client, arrival, .. } = self;
        Arriving { local, client, arrival }.arrive().await;
    }

    /// Serves one request, which has arrived. `None`: the connection continues.
    pub(super) async fn serve(&mut self, head: &RequestHead) -> Option<Over> {
        let arrival = self.arrival.take().unwrap_or_else(|| Arrival::now(&self.local));
        let routed = route::target_of(&head.path);
        let (shared, kind) = (&self.local.shared, self.client.kind);
        let peer = || self.carrier.peer();
        let scope = RequestScope::begin(shared, self.local.number, arrival.at, head, &routed, kind, peer);
        self.scope = Some(scope);
        let local = Rc::clone(&self.local);
        let next = match kind {
            ListenerKind::Public => self.exchange(&local.shared.app, head, routed).await,
            ListenerKind::Admin => self.exchange(&Operators(&local), head, routed).await,
        };
        self.charge.get_mut().clear();
        self.scope = None;
        drop(arrival);
        next
    }

    /// Answers a head that cannot be read.
    pub(super) async fn refuse_head(&mut self, error: HeadError) {
        let arrival = self.arrival.take().unwrap_or_else(|| Arrival::now(&self.local));
        self.scope = Some(RequestScope::unread(&self.local.shared, self.local.number, arrival.at));
        self.send_status(&error.status(), None).await;
        self.scope = None;
    }

    async fn exchange<F: Frontend>(
        &mut self,
        frontend: &F,
        head: &RequestHead,
        routed: Routed,
    ) -> Option<Over> {
        #[cfg(debug_assertions)]
        assert!(head.path != ["failpoints", "panic"], "failpoint: a request that panics");
        if !self.certificate_holds() {
            self.send_last(&Status::unauthorized(), head).await;
            return Some(Over::Linger);
        }
        let client = Rc::clone(&self.client);
        let Signers { is_client, is_proxy } = client.signers.get();
        let certificate =
            client.certificate.as_deref().map(|der| PeerCertificate { der, is_client, is_proxy });
        let (user, admitted) =
            frontend.admit(&*self.local, head, routed, certificate, SystemTime::now()).await;
        if let Some(scope) = &mut self.scope {
            scope.received(user.as_deref());
        }
        let admitted = match admitted {
            Ok(admitted) => admitted,
            Err(whole) => return self.turn_away(head, &whole).await,
        };
        self.carrier.trust();
        if client.is_health_check() && !frontend.is_health(&admitted) {
            let message = "no descriptor is left for another connection: raise nofile (ulimit -n)".to_owned();
            self.send_last(&Status::service_unavailable(message, 1), head).await;
            return Some(Over::Linger);
        }
        match frontend.forwards(head, &admitted) {
            None => {}
            Some(Err(whole)) => return self.turn_away(head, &whole).await,
            Some(Ok(forwarding)) => {
                // Most requests are not forwarded, and need not have room for it.
                return match Box::pin(self.forward(head, &forwarding)).await {
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

    async fn read_body(&mut self, head: &RequestHead, takes_body: bool) -> Result<Bytes, Over> {
        if head.body == BodyFraming::None {
            return Ok(Bytes::new());
        }
        // The body of a GET is read and discarded, and so is one that the request does not take: within a smaller limit. Where a
        // request has a stream of its own, nothing is behind such a body, and it is not read.
        let is_drained = !takes_body || matches!(head.method, Method::Get | Method::Head);
        if is_drained && C::DELIMITER == Delimiter::Frames {
            return Ok(Bytes::new());
        }
        let limit = if is_drained { DRAINED_BODY_BYTES_MAX } else { BODY_BYTES_MAX };
        let timeout = self.local.shared.options.request_timeout;
        let status = match self.carrier.read_body(head, limit, &self.charge, timeout).await {
            Ok(body) => return Ok(body),
            Err(Unread::Gone) => return Err(Over::Quiet),
            Err(Unread::Invalid(error)) => error.status(),
            Err(Unread::Refused(status)) => *status,
            Err(Unread::Slow) => Status::other(
                408,
                format!(
                    "the body is not complete after {} s, or no byte of it arrived for {} s: send it faster",
                    timeout.as_secs(),
                    carrier::STALL.as_secs()
                ),
            ),
        };
        self.send_last(&status, head).await;
        Err(Over::Linger)
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
            Reply::PeriodicBody(body) => match self.charge_pieces() {
                Ok(()) => self.send_periodic(head, body).await,
                Err(status) => {
                    self.send_status(&status, Some(head)).await;
                    Ok(())
                }
            },
            Reply::Refused(status, Wire::WebSocket(handshake), format) => {
                let refused = self.send_refused_websocket(&handshake, &status, format).await;
                return Some(refused.map_or(Over::Quiet, |()| Over::Linger));
            }
            Reply::Refused(status, Wire::Plain | Wire::Gzip, format) => {
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

    /// Whether the client's certificate is still valid: it is verified again when the authorities changed.
    fn certificate_holds(&self) -> bool {
        let (Some(tls), true) = (&self.local.shared.tls, self.client.certificate.is_some()) else {
            return true;
        };
        if self.client.authorities.get() == Some(tls.authorities_generation()) {
            return true;
        }
        let terms = tls.terms();
        let signers = self.carrier.signers(&terms);
        let holds = signers.is_client || signers.is_proxy;
        self.client.signers.set(signers);
        self.client.authorities.set(Some(terms.authorities_generation()).filter(|_| holds));
        holds
    }
}
