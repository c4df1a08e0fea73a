//! Which requests the upstream answers, and with which identity it sees them.
//!
//! `served_here` decides which; here is how they are forwarded, and what is answered in their place.

use std::sync::Arc;

use bytes::Bytes;

use super::Request;
use super::admit::Admitted;
use super::app::App;
use super::reply::spelled;
use crate::auth::Visitor;
use crate::frontend::{Budget, Forwarding, FullBody, Host, Instead, Reply};
use crate::http::request::{Method, RequestHead};
use crate::http::route::Target;
use crate::http::status::Status;
use crate::upstream::{Caller, CopyKey, ForwardIdentity, UpstreamError};

/// Subresources whose replies are streams, or end the protocol.
const LONG: [&str; 5] = ["log", "exec", "attach", "portforward", "proxy"];

/// For requests without a body.
struct NoBudget;

impl Budget for NoBudget {
    fn charge(&self, _bytes: usize) -> Result<(), Status> {
        Ok(())
    }
}

/// How the upstream answers a request; `None`: it is answered here.
pub(super) fn forwards(
    app: &App,
    head: &RequestHead,
    admitted: &Admitted,
) -> Option<Result<Forwarding, Box<FullBody>>> {
    let upstream = app.upstream()?;
    if !admitted.is_forwarded {
        return None;
    }
    let is_long = head.query.watches()
        || head.upgrade.is_some()
        || matches!(&admitted.target, Ok(Target::Subresource { subresource, .. }) if LONG.contains(&subresource.as_str()));
    Some(match caller(upstream.identity, &admitted.visitor) {
        Ok(caller) => {
            let copy = copy_key(head, admitted).map(|key| (Arc::clone(&upstream.copies), key));
            Ok(Forwarding { caller, is_long, copy })
        }
        Err(status) => Err(Box::new(refused(head, admitted, &status))),
    })
}

/// The answer to a forwarded request that got no reply: discovery as it was, so that clients go on with what is cached.
pub(super) async fn without_upstream<H: Host>(
    app: &App,
    host: &H,
    head: &RequestHead,
    admitted: &Admitted,
    error: &UpstreamError,
) -> Instead {
    // Every authenticated user may read these in a cluster. Who nobody is may be decided by the upstream alone.
    let may_read = admitted.visitor.named().is_some() || !app.guard().delegates_authorization();
    if let (true, Some(upstream), Some(key)) = (may_read, app.upstream(), copy_key(head, admitted)) {
        if let Some(copy) = upstream.copies.get(&key) {
            return Instead::Copy(copy);
        }
        let request = Request::new(app, host, head, admitted, &NoBudget);
        let answered = request.answer(Bytes::new()).await;
        if let Reply::FullBody(whole) = answered.unwrap_or_else(|status| request.failed(&status)) {
            return Instead::Whole(Box::new(whole));
        }
    }
    Instead::Whole(Box::new(refused(head, admitted, &error.status())))
}

/// With which identity the upstream sees a request.
fn caller(identity: ForwardIdentity, visitor: &Visitor) -> Result<Caller, Status> {
    if visitor.passes_credentials(identity != ForwardIdentity::Client) {
        return Ok(Caller::Client);
    }
    let user = Arc::clone(&visitor.identity);
    match identity {
        ForwardIdentity::Impersonate => Ok(Caller::Impersonated(user)),
        ForwardIdentity::FrontProxy => Ok(Caller::Named(user)),
        ForwardIdentity::Client => Err(Status::forbidden_path(
            "the request is answered by another API server, to which a client certificate cannot be passed on: use a bearer token, or \
             start the server with --upstream-identity impersonate or front-proxy",
        )),
    }
}

/// As what a discovery document is kept.
fn copy_key(head: &RequestHead, admitted: &Admitted) -> Option<CopyKey> {
    let is_document = matches!(
        admitted.target,
        Ok(Target::Root
            | Target::Api
            | Target::Apis
            | Target::ApiGroup(_)
            | Target::GroupVersion { .. }
            | Target::Version
            | Target::OpenApiV2
            | Target::OpenApiV3Index
            | Target::OpenApiV3 { .. })
    );
    // A reply to a conditional request may be empty.
    (is_document && head.method == Method::Get && head.if_none_match.is_none()).then(|| CopyKey {
        target: format!("/{}?{}", head.path.join("/"), head.query.raw()),
        accept: head.accept.clone(),
        encoding: head.accept_encoding.clone(),
    })
}

/// The refusal of an admitted request, in the form that it asks for.
fn refused(head: &RequestHead, admitted: &Admitted, status: &Status) -> FullBody {
    let whole = spelled(head, admitted.layout, status);
    FullBody { retry_after_seconds: status.retry_after_seconds(), ..whole }
}
