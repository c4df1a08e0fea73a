//! Forwarding: a request to the upstream, and its reply to the client, piece by piece.
//!
//! Owns the order of the two directions. Neither is held as a whole (but for discovery, of which a copy is kept): a piece is read when the
//! one before it is on its way. When the client goes, its request to the upstream is cancelled, by closing that connection. After an
//! upgrade the bytes of both directions are passed on as they are: see [`tunnel`](super::tunnel).

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_lite::future;
use glommio::timer::sleep;
use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE};
use http::response::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;

use super::carrier::{Carrier, STALL, Unread};
use super::{Exchange, Over};
use crate::frontend::{Forwarding, Instead};
use crate::http::body::BodyError;
use crate::http::request::{BodyFraming, RequestHead};
use crate::http::response::ResponseFraming;
use crate::http::status::Status;
use crate::runtime::upstream::body::{BodySender, Cut, RequestBody};
use crate::runtime::upstream::{Answered, Sender, Shows, UpstreamClient, broken};
use crate::upstream::{COPY_BYTES_MAX, Caller, ForwardedHead, UpstreamError};

/// What a forwarded request holds: a piece in each direction, and what hyper reads ahead.
const FORWARDED_BYTES: usize = 128 << 10;
/// What the body of a reply that is kept as a copy is expected to have, at least.
const COPY_BYTES: usize = 16 << 10;

/// Why there is no reply of the upstream.
#[derive(Debug)]
enum Unanswered {
    /// Its client is gone, or sends no body any more.
    ClientGone,
    /// Its client sends the body too slowly.
    ClientSlow,
    /// Its client's body is invalid.
    Body(BodyError),
    /// The upstream.
    Upstream(UpstreamError),
}

/// The body of the current request, while it is read.
#[derive(Debug)]
struct Incomplete {
    sender: BodySender,
    /// Increases with every piece.
    pieces: u64,
}

impl Drop for Incomplete {
    fn drop(&mut self) {
        // The upstream must not wait for the rest.
        self.sender.end(Err(Cut));
    }
}

/// The reply, and what it came with.
struct Reply {
    response: Response<Incoming>,
    /// The connection of the reply, if it can be used again.
    sender: Option<Sender>,
    /// What is left of the client's body.
    unread: Option<Incomplete>,
    /// Whether the client asked for an upgrade, and may have begun to use the other protocol.
    is_last: bool,
}

impl<C: Carrier> Exchange<C> {
    /// Forwards a request, and passes on the reply. `None`: the connection continues.
    pub(super) async fn forward(
        &mut self,
        head: &RequestHead,
        forwarding: &Forwarding,
    ) -> Result<Option<Over>, UpstreamError> {
        let client = self.local.upstream.clone().ok_or(UpstreamError::Absent)?;
        if let Err(status) = self.charge.get_mut().add(FORWARDED_BYTES) {
            self.send_last(&status, head).await;
            return Ok(Some(Over::Linger));
        }
        let began = Instant::now();
        let forwarded = self.forwarded_head(forwarding, &client)?;
        let upgrade = forwarded.upgrade.clone().filter(|_| head.body == BodyFraming::None);
        let takes_trailers = forwarded.takes_trailers;
        let (request, incomplete) = request(head, forwarded, upgrade.as_ref());
        if incomplete.is_some()
            && let Err(error) = self.carrier.open_body(head)
        {
            self.send_last(&error.status(), head).await;
            return Ok(Some(Over::Linger));
        }
        let shows = Shows::of(&forwarding.caller);
        let timeout = (!forwarding.is_long).then(|| client.current().options().timeout);
        self.carrier.set_stall(Some(STALL).filter(|_| !forwarding.is_long));
        let replied = match upgrade {
            Some(_) => match self.upgraded(&client, shows, request, timeout).await {
                Ok(Ok(over)) => {
                    self.local.handle().tally.upstream.answered(101, began.elapsed());
                    return Ok(Some(over));
                }
                Ok(Err(reply)) => Ok(reply),
                Err(error) => Err(error),
            },
            None => self.sent(&client, shows, request, incomplete, timeout).await,
        };
        let replied = match replied {
            Ok(reply) if reply.response.status().is_informational() => {
                let why = "it changes the protocol, which nobody asked for".to_owned();
                Err(Unanswered::Upstream(UpstreamError::Broken(why)))
            }
            replied => replied,
        };
        let reply = match replied {
            Ok(reply) => reply,
            Err(Unanswered::ClientGone) => return Ok(Some(Over::Quiet)),
            Err(Unanswered::ClientSlow) => {
                let message =
                    format!("no byte of the body arrived for {} s: send it faster", STALL.as_secs());
                self.send_last(&Status::other(408, message), head).await;
                return Ok(Some(Over::Linger));
            }
            Err(Unanswered::Body(error)) => {
                self.send_last(&error.status(), head).await;
                return Ok(Some(Over::Linger));
            }
            Err(Unanswered::Upstream(error)) => {
                self.local.handle().tally.upstream.failed(&error);
                return Err(error);
            }
        };
        self.local.handle().tally.upstream.answered(reply.response.status().as_u16(), began.elapsed());
        let over = self.pass_on(head, &client, forwarding, reply, takes_trailers).await;
        self.carrier.set_stall(Some(STALL));
        Ok(over)
    }

    /// Answers in place of the upstream. `None`: the connection continues.
    pub(super) async fn answer_instead(&mut self, head: &RequestHead, instead: Instead) -> Option<Over> {
        // A body may have been read in part.
        let close = head.body != BodyFraming::None || head.upgrade.is_some();
        let sent = match instead {
            Instead::Whole(whole) => return self.turn_away(head, &whole).await,
            Instead::Status(status) => {
                if close {
                    self.send_last(&status, head).await;
                } else {
                    self.send_status(&status, Some(head)).await;
                }
                Ok(())
            }
            Instead::Copy(copy) => {
                self.answered(copy.parts.status.as_u16());
                let mut parts = copy.parts.clone();
                if let Ok(age) = HeaderValue::from_str(&copy.since.elapsed().as_secs().to_string()) {
                    parts.headers.insert("age", age);
                }
                let framing = ResponseFraming::Length(copy.body.len() as u64);
                self.carrier.push_forwarded_head(&parts, framing, close || !head.keep_alive);
                if !head.wants_head_only() {
                    self.carrier.push_piece(&copy.body, framing);
                }
                self.carrier.push_end(None, framing);
                self.carrier.send().await
            }
        };
        match sent {
            Ok(()) if head.keep_alive && !close => None,
            Ok(()) => Some(Over::Linger),
            Err(_) => Some(Over::Quiet),
        }
    }

    /// The head for the upstream, with the identity that it is to see.
    fn forwarded_head(
        &mut self,
        forwarding: &Forwarding,
        client: &UpstreamClient,
    ) -> Result<ForwardedHead, UpstreamError> {
        let raw = self.carrier.raw_head().map_err(UpstreamError::Request)?;
        let peer = self.carrier.peer().as_ref().map(SocketAddr::ip);
        let mut forwarded =
            ForwardedHead::of(raw, peer, &forwarding.caller).map_err(UpstreamError::Request)?;
        if let Some(scope) = &self.scope {
            forwarded.set_audit_id(&scope.id().to_string());
        }
        match (&forwarding.caller, &client.current().terms().authorization) {
            (Caller::Impersonated(_), Some(own)) => {
                forwarded.headers.insert(AUTHORIZATION, own.clone());
            }
            (Caller::Impersonated(_) | Caller::Client | Caller::Named(_), _) => {}
        }
        Ok(forwarded)
    }

    /// Sends a request, with the body that the client sends meanwhile.
    async fn sent(
        &mut self,
        client: &UpstreamClient,
        shows: Shows,
        request: Request<RequestBody>,
        incomplete: Option<Incomplete>,
        timeout: Option<Duration>,
    ) -> Result<Reply, Unanswered> {
        let mut incomplete = incomplete;
        self.carrier.set_patience(incomplete.as_ref().map(|_| STALL));
        let mut sending = std::pin::pin!(client.send(shows, request));
        loop {
            let before = incomplete.as_ref().map(|body| body.pieces);
            let answered = poll_fn(|cx| {
                if let Poll::Ready(sent) = sending.as_mut().poll(cx) {
                    return Poll::Ready(Some(sent.map_err(Unanswered::Upstream)));
                }
                match self.poll_client(cx, &mut incomplete) {
                    Poll::Ready(why) => Poll::Ready(Some(Err(why))),
                    Poll::Pending => Poll::Pending,
                }
            });
            let late = async {
                match timeout {
                    Some(timeout) => sleep(timeout).await,
                    None => future::pending().await,
                };
                None
            };
            match future::or(answered, late).await {
                Some(answered) => {
                    let Answered { response, sender } = answered?;
                    let sender = Some(sender).filter(|_| incomplete.is_none());
                    return Ok(Reply { response, sender, unread: incomplete, is_last: false });
                }
                // A body that arrives slowly is not the upstream's delay.
                None if before.is_some() && incomplete.as_ref().map(|body| body.pieces) != before => {}
                None => return Err(Unanswered::Upstream(UpstreamError::Slow)),
            }
        }
    }

    /// Sends a request that asks for an upgrade. The upstream decides: the way the connection ends, or an ordinary reply.
    async fn upgraded(
        &mut self,
        client: &UpstreamClient,
        shows: Shows,
        request: Request<RequestBody>,
        timeout: Option<Duration>,
    ) -> Result<Result<Over, Reply>, Unanswered> {
        self.carrier.set_patience(None);
        let mut request = request;
        let opened = client.open_alone(shows).await.map_err(Unanswered::Upstream)?;
        let (mut sender, mut connection, count, authority) = opened;
        request.headers_mut().insert(http::header::HOST, authority);
        let response = {
            let mut sending = std::pin::pin!(UpstreamClient::send_alone(&mut sender, request));
            let answered = poll_fn(|cx| {
                // What it returns is known from the reply.
                let _ = connection.poll_without_shutdown(cx);
                if let Poll::Ready(sent) = sending.as_mut().poll(cx) {
                    return Poll::Ready(sent.map_err(Unanswered::Upstream));
                }
                self.poll_client(cx, &mut None).map(Err)
            });
            let late = async {
                match timeout {
                    Some(timeout) => sleep(timeout).await,
                    None => future::pending().await,
                };
                Err(Unanswered::Upstream(UpstreamError::Slow))
            };
            future::or(answered, late).await?
        };
        let is_upgraded =
            response.status() == StatusCode::SWITCHING_PROTOCOLS && response.headers().contains_key(UPGRADE);
        if !is_upgraded {
            UpstreamClient::run(connection, count);
            return Ok(Err(Reply { response, sender: None, unread: None, is_last: true }));
        }
        let (mut parts, body) = response.into_parts();
        self.mark(&mut parts);
        drop(body);
        let mut left = connection.into_parts();
        let early = std::mem::take(&mut left.read_buf);
        self.answered(101);
        self.carrier.push_forwarded_head(&parts, ResponseFraming::UntilClose, false);
        self.carrier.push_raw(&early);
        if self.carrier.send().await.is_err() {
            return Err(Unanswered::ClientGone);
        }
        let stream = left.io.into_stream();
        self.carrier.set_stall(None);
        Ok(Ok(self.tunnel(stream, count).await))
    }

    /// What the client does while its request is answered: it sends the body, or goes. Ready only if there is no use in going on.
    fn poll_client(&mut self, cx: &mut Context<'_>, body: &mut Option<Incomplete>) -> Poll<Unanswered> {
        loop {
            let Some(incomplete) = body else {
                return self.carrier.poll_gone(cx).map(|()| Unanswered::ClientGone);
            };
            ready!(incomplete.sender.poll_wanted(cx));
            let why = match ready!(self.carrier.poll_piece(cx)) {
                Ok(Some(piece)) => {
                    incomplete.pieces += 1;
                    incomplete.sender.send(piece);
                    continue;
                }
                Ok(None) => {
                    incomplete.sender.end(Ok(()));
                    *body = None;
                    self.carrier.set_patience(None);
                    continue;
                }
                Err(Unread::Invalid(error)) => Unanswered::Body(error),
                Err(Unread::Slow) => Unanswered::ClientSlow,
                Err(Unread::Gone | Unread::Refused(_)) => Unanswered::ClientGone,
            };
            incomplete.sender.end(Err(Cut));
            return Poll::Ready(why);
        }
    }

    /// Passes a reply on, piece by piece. `None`: the connection continues.
    async fn pass_on(
        &mut self,
        head: &RequestHead,
        client: &std::rc::Rc<UpstreamClient>,
        forwarding: &Forwarding,
        reply: Reply,
        takes_trailers: bool,
    ) -> Option<Over> {
        let Reply { response, sender, mut unread, is_last } = reply;
        let (mut parts, mut body) = response.into_parts();
        self.mark(&mut parts);
        let framing = framing_of(head, &parts, &body);
        let close = !head.keep_alive || is_last || unread.is_some() || framing == ResponseFraming::UntilClose;
        let has_body = !head.wants_head_only() && !matches!(parts.status.as_u16(), 204 | 304);
        self.answered(parts.status.as_u16());
        // The reply has begun: the client decides whether it sends the rest.
        self.carrier.withdraw_invitation();
        self.carrier.set_patience(None);
        // A body that ends with the connection may have been cut.
        let has_end = [CONTENT_LENGTH, TRANSFER_ENCODING].iter().any(|name| parts.headers.contains_key(name));
        let is_kept = parts.status == 200 && has_end;
        let mut copy = forwarding.copy.as_ref().filter(|_| is_kept).map(|_| Vec::with_capacity(COPY_BYTES));
        self.carrier.push_forwarded_head(&parts, framing, close);
        let mut is_sent = false;
        let mut trailers: Option<HeaderMap> = None;
        loop {
            if !has_body {
                break;
            }
            let next = poll_fn(|cx| {
                let next = Pin::new(&mut body).poll_frame(cx);
                if next.is_ready() || !is_sent {
                    return next.map(Some);
                }
                self.poll_client(cx, &mut unread).map(|_| None)
            });
            // What is there already goes out with the head; else the head goes first.
            let next = if is_sent { Some(next.await) } else { future::poll_once(next).await };
            match next {
                None => {}
                Some(None) => return Some(Over::Quiet),
                Some(Some(None)) => break,
                Some(Some(Some(Ok(frame)))) => match frame.into_data() {
                    Ok(piece) => {
                        match &mut copy {
                            Some(kept) if kept.len() + piece.len() <= COPY_BYTES_MAX => {
                                kept.extend_from_slice(&piece)
                            }
                            Some(_) | None => copy = None,
                        }
                        self.carrier.push_piece(&piece, framing);
                        if body.is_end_stream() {
                            // The connection is another request's before the client has all of the reply.
                            break;
                        }
                    }
                    Err(frame) => trailers = frame.into_trailers().ok(),
                },
                Some(Some(Some(Err(error)))) => {
                    // The client must see that the reply is not complete.
                    crate::log::debug(|| format!("a forwarded reply broke off: {}", broken(&error)));
                    let _ = self.carrier.send().await;
                    self.local.handle().tally.upstream.failed(&broken(&error));
                    self.carrier.cut();
                    return Some(Over::Quiet);
                }
            }
            if self.carrier.send().await.is_err() {
                return Some(Over::Quiet);
            }
            is_sent = true;
            // A long reply must not keep the shard from its watches.
            crate::frontend::Host::yield_now(&*self.local).await;
        }
        let trailers = trailers.as_ref().filter(|_| takes_trailers && has_body);
        self.carrier.push_end(trailers, if has_body { framing } else { ResponseFraming::Length(0) });
        let mut sending = std::pin::pin!(self.carrier.send());
        let sent = future::poll_once(sending.as_mut()).await;
        // A client that is slow to take the reply must not keep the connection.
        if let Some(sender) = sender {
            client.give_back(sender);
        }
        if let (Some((copies, key)), Some(kept)) = (&forwarding.copy, copy) {
            copies.keep(key.clone(), parts, kept.into());
        }
        let sent = match sent {
            Some(sent) => sent,
            None => sending.await,
        };
        match sent {
            Ok(()) if !close => None,
            Ok(()) => Some(Over::Linger),
            Err(_) => Some(Over::Quiet),
        }
    }

    /// Says in a reply, if that is wanted, who answered.
    fn mark(&self, parts: &mut Parts) {
        if self.tells_who_served() {
            parts.headers.insert("served-from", HeaderValue::from_static("upstream"));
        }
    }
}

/// How the body of a reply reaches the client.
fn framing_of(head: &RequestHead, parts: &Parts, body: &Incoming) -> ResponseFraming {
    if head.wants_head_only() {
        let said = parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        return said.map_or_else(|| ResponseFraming::stream_for(head), ResponseFraming::Length);
    }
    body.size_hint().exact().map_or_else(|| ResponseFraming::stream_for(head), ResponseFraming::Length)
}

/// The request for the upstream, and what is left to read of its body.
fn request(
    head: &RequestHead,
    forwarded: ForwardedHead,
    upgrade: Option<&HeaderValue>,
) -> (Request<RequestBody>, Option<Incomplete>) {
    let (body, incomplete) = match head.body {
        BodyFraming::None => (RequestBody::Full(None), None),
        BodyFraming::Length(_) | BodyFraming::Chunked => {
            let sender = BodySender::default();
            let length = if let BodyFraming::Length(length) = head.body { Some(length) } else { None };
            (RequestBody::Stream(sender.clone(), length), Some(Incomplete { sender, pieces: 0 }))
        }
    };
    let mut request = Request::new(body);
    *request.method_mut() = forwarded.method;
    *request.uri_mut() = forwarded.target;
    *request.headers_mut() = forwarded.headers;
    match head.body {
        BodyFraming::None => {}
        // hyper says how long it is.
        BodyFraming::Length(_) => drop(request.headers_mut().remove(CONTENT_LENGTH)),
        // Not said, hyper would take it that a GET has no body.
        BodyFraming::Chunked => {
            request.headers_mut().remove(CONTENT_LENGTH);
            request.headers_mut().insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
    }
    if let Some(protocol) = upgrade {
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        request.headers_mut().insert(UPGRADE, protocol.clone());
    }
    (request, incomplete)
}
