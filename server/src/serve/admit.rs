//! Authentication and authorization of a request, before its body is read or the store is accessed.
//!
//! Owns the 401 and the 403, and the 503 when another server has to be asked and cannot be. Health checks are open to everyone.
//! The decision here is final, except for an apply that creates its object: that is checked again, as a create.

use std::sync::Arc;
use std::time::SystemTime;

use super::app::App;
use super::reply::spelled;
use super::served_here::is_served_here;
use crate::api::resources::ApiResource;
use crate::auth::access::Term;
use crate::auth::{Access, Grant, Identity, PeerCertificate, Visitor};
use crate::catalog::Catalog;
use crate::frontend::{Admission, ByHost, Host};
use crate::http::host::{is_name, name_of};
use crate::http::options::{Terms, selected_name, selector_terms};
use crate::http::origin;
use crate::http::request::RequestHead;
use crate::http::route::{Routed, Target};
use crate::http::status::{Layout, Status};

/// Bytes of the longest host name (RFC 1035, section 2.3.4).
const HOST_BYTES_MAX: usize = 253;

/// A request that was admitted.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// How JSON of its reply is laid out.
    pub(super) layout: Layout,
    pub(super) target: Routed,
    pub(super) visitor: Visitor,
    /// What was served when it was admitted.
    pub(super) catalog: Arc<Catalog>,
    /// With who allowed it. `None` for what needs no authorization: health checks, and paths of no resource.
    pub(super) access: Option<(Access, Grant)>,
    /// Whether the upstream answers it. Decided once: what was not authorized here must not be served here.
    pub(super) is_forwarded: bool,
}

/// Admits a request, or answers it: 401, 403 or 503. `certificate` is the connection's verified one.
pub(super) async fn admit<H: Host>(
    app: &App,
    host: &H,
    head: &RequestHead,
    target: Routed,
    certificate: Option<PeerCertificate<'_>>,
    now: SystemTime,
) -> Admission<Box<Admitted>> {
    let layout = head.query.layout(head.user_agent.as_deref());
    let answer = |status: Status| Err(Box::new(spelled(head, layout, &status)));
    let (user, visitor) = match target {
        Ok(Target::Health { .. }) => (None, Ok(app.guard().nobody())),
        Ok(_) | Err(_) => visitor(app, host, head, certificate, now).await,
    };
    let visitor = match visitor {
        Ok(visitor) => visitor,
        Err(status) => return (user, answer(status)),
    };
    let catalog = app.catalog();
    let is_forwarded = app.upstream().is_some() && !is_served_here(app, head.method, &target, &catalog);
    let access = match &target {
        Ok(Target::Health { .. }) | Err(_) => None,
        // The upstream decides it, and is the same that would be asked.
        Ok(_) if is_forwarded && app.guard().delegates_authorization() => None,
        Ok(target) => {
            let served =
                target.names().and_then(|of| catalog.registry.find(&of.group, &of.version, &of.resource));
            let selectable = served.map(ApiResource::selectable);
            let selected = selected_name(selectable, &head.query);
            let access =
                Access::new(head.method, &head.path, target, head.query.watches(), selected.as_deref());
            let access = if app.guard().asks_with_selectors() {
                let Terms { fields, labels } = selector_terms(selectable, &head.query);
                access.with_selectors(
                    fields.into_iter().map(term).collect(),
                    labels.into_iter().map(term).collect(),
                )
            } else {
                access
            };
            match app.guard().authorize(&ByHost(host), &visitor, &access).await {
                Ok(grant) => Some((access, grant)),
                Err(status) => return (user, answer(status)),
            }
        }
    };
    let target = target.and_then(|target| target.taking(head.method));
    (user, Ok(Box::new(Admitted { layout, target, visitor, catalog, access, is_forwarded })))
}

fn term((key, operator, values): (String, &'static str, Vec<String>)) -> Term {
    Term { key, operator, values }
}

/// An operator's request that was admitted.
#[derive(Debug)]
pub enum Operator {
    /// A health check, which is open to everyone.
    Health,
    /// Something else that is open to everyone.
    Open,
    /// By whom, for what, and who allowed it.
    Allowed(Box<(Visitor, Access, Grant)>),
}

/// Admits an operator's request, or answers it: the access is to the path as it is. Otherwise as a client's. `is_open`: it needs no
/// right.
pub async fn admit_operator<H: Host>(
    app: &App,
    host: &H,
    head: &RequestHead,
    certificate: Option<PeerCertificate<'_>>,
    now: SystemTime,
    is_open: bool,
) -> Admission<Operator> {
    if matches!(head.path.first().map(String::as_str), Some("livez" | "readyz" | "healthz")) {
        return (None, Ok(Operator::Health));
    }
    if is_open {
        return (None, Ok(Operator::Open));
    }
    let answer = |status: Status| Box::new(spelled(head, Layout::Compact, &status));
    let (user, visitor) = visitor(app, host, head, certificate, now).await;
    let checked = match visitor {
        Ok(visitor) => {
            let access = Access::path(head.method, &head.path);
            let grant = app.guard().authorize(&ByHost(host), &visitor, &access).await;
            grant.map(|grant| Operator::Allowed(Box::new((visitor, access, grant))))
        }
        Err(status) => Err(status),
    };
    (user, checked.map_err(answer))
}

/// The identity of a request's client, if it is known, and the visitor, who may act as another one. A page of another origin must
/// not use its reader's credentials, or the access that every local client has.
async fn visitor<H: Host>(
    app: &App,
    host: &H,
    head: &RequestHead,
    certificate: Option<PeerCertificate<'_>>,
    now: SystemTime,
) -> (Option<Arc<Identity>>, Result<Visitor, Status>) {
    if origin::is_foreign(head) {
        let why = "its Origin is a different server: ask from a page of this host, or from a program without Origin";
        return (None, Err(Status::other(403, why.to_owned())));
    }
    let (guard, upstream) = (app.guard(), ByHost(host));
    let visitor = match guard.identify(&upstream, head, certificate, now).await {
        Ok(visitor) => visitor,
        Err(why) => return (None, Err(why.status())),
    };
    let user = Arc::clone(&visitor.identity);
    if visitor.named().is_none()
        && let Err(status) = check_name(app, head)
    {
        return (Some(user), Err(status));
    }
    if head.impersonate.is_none() {
        return (Some(user), Ok(visitor));
    }
    match guard.impersonate(&upstream, head, visitor).await {
        Ok(visitor) => (Some(Arc::clone(&visitor.identity)), Ok(visitor)),
        Err(status) => (Some(user), Err(status)),
    }
}

/// A client without credentials must use a name of the server: see [`host`](crate::http::host).
fn check_name(app: &App, head: &RequestHead) -> Result<(), Status> {
    let Some(host) = head.host.as_deref().filter(|host| !app.is_called(host)) else { return Ok(()) };
    let name = name_of(host);
    let why = if name.is_empty() || name.len() > HOST_BYTES_MAX {
        "its Host is not a name of this server: ask it by an address or as localhost".to_owned()
    } else {
        // A name that the option would refuse, or would take as a pattern, is not suggested.
        let mend = if is_name(&name) {
            format!(", or start the server with --allowed-hosts {name}")
        } else {
            String::new()
        };
        format!(
            "its Host \"{name}\" is not a name of this server: ask it by an address or as localhost{mend}"
        )
    };
    Err(Status::other(403, why))
}
