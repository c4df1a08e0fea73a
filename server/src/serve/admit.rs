//! Authentication and authorization of a request, before its body is read or the store is accessed.
//!
//! Owns the 401 and the 403. Health checks are open to everyone. The decision here is final, except for an apply that creates
//! its object: that is checked again, as a create.

use std::sync::Arc;
use std::time::SystemTime;

use super::app::App;
use super::reply::spelled;
use crate::auth::credentials::Presented;
use crate::auth::{Access, Visitor};
use crate::catalog::Catalog;
use crate::frontend::Admission;
use crate::http::go_quote;
use crate::http::host::{is_name, name_of};
use crate::http::options::{OptionsError, Query, selected_name};
use crate::http::origin;
use crate::http::request::RequestHead;
use crate::http::request_info::RequestTarget;
use crate::http::route::{RouteError, Target};
use crate::http::status::{GroupResource, Layout, Status};

/// Bytes of the longest host name (RFC 1035, section 2.3.4).
const HOST_BYTES_MAX: usize = 253;

/// A request that was admitted.
#[derive(Clone, Debug)]
pub struct Admitted {
    pub(super) query: Query,
    pub(super) target: Result<Target, RouteError>,
    pub(super) visitor: Visitor,
    /// What was served when it was admitted.
    pub(super) catalog: Arc<Catalog>,
    /// `None` for what needs no authorization: health checks, and paths of no resource.
    pub(super) access: Option<Access>,
}

impl Admitted {
    /// Whether it may have a body as large as an object: what is refused or only read may not.
    #[must_use]
    pub const fn takes_body(&self) -> bool {
        self.access.is_some() && self.target.is_ok()
    }

    /// Whether it is a health check.
    #[must_use]
    pub const fn is_health(&self) -> bool {
        matches!(self.target, Ok(Target::Health { .. }))
    }
}

/// Admits a request, or answers it: 401, 403, or 400 for a query that cannot be decoded. `certificate` is the connection's
/// verified one, in DER.
pub(super) fn admit(
    app: &App,
    head: &RequestHead,
    asked: RequestTarget,
    certificate: Option<&[u8]>,
    now: SystemTime,
) -> Admission<Box<Admitted>> {
    let RequestTarget { target, query } = asked;
    let layout = query.as_ref().map_or(Layout::Compact, |query| query.layout(head.user_agent.as_deref()));
    let answer = |status: Status| Box::new(spelled(head, layout, &status));
    if matches!(target, Ok(Target::Health { .. })) {
        let admitted = granted(app, head, app.guard().nobody(), target, query);
        return (None, admitted.map_err(answer));
    }
    match authenticated(app, head, certificate, now) {
        Err(status) => (None, Err(answer(status))),
        Ok(visitor) => {
            let user = Some(Arc::clone(&visitor.identity));
            let welcome = check_client(app, head, &visitor);
            let admitted = welcome.and_then(|()| granted(app, head, visitor, target, query));
            (user, admitted.map_err(answer))
        }
    }
}

/// Authorizes a request, unless it is open to everyone.
fn granted(
    app: &App,
    head: &RequestHead,
    visitor: Visitor,
    target: Result<Target, RouteError>,
    query: Result<Query, OptionsError>,
) -> Result<Box<Admitted>, Status> {
    let query = query.map_err(|error| error.status())?;
    let catalog = app.catalog();
    let access = match &target {
        Ok(Target::Health { .. }) | Err(_) => None,
        Ok(target) => {
            let selected = selected_name(catalog.selectable(target), &query);
            let access = Access::new(head.method, &head.path, target, query.watches(), selected.as_deref());
            check(app, &visitor, &access)?;
            Some(access)
        }
    };
    let target = target.and_then(|target| target.taking(head.method));
    Ok(Box::new(Admitted { query, target, visitor, catalog, access }))
}

/// Admits an operator's request, or answers it: the access is to the path as it is. Otherwise as `admit`. True: it is a health
/// check.
pub fn admit_operator(
    app: &App,
    head: &RequestHead,
    certificate: Option<&[u8]>,
    now: SystemTime,
) -> Admission<bool> {
    if matches!(head.path.first().map(String::as_str), Some("livez" | "readyz" | "healthz")) {
        return (None, Ok(true));
    }
    let answer = |status: Status| Box::new(spelled(head, Layout::Compact, &status));
    match authenticated(app, head, certificate, now) {
        Err(status) => (None, Err(answer(status))),
        Ok(visitor) => {
            let access = Access::path(head.method, &head.path);
            let checked = check_client(app, head, &visitor).and_then(|()| check(app, &visitor, &access));
            (Some(visitor.identity), checked.map(|()| false).map_err(answer))
        }
    }
}

/// The identity of a request's client. A page of another origin must not use its reader's credentials, or the access that every
/// local client has.
fn authenticated(
    app: &App,
    head: &RequestHead,
    certificate: Option<&[u8]>,
    now: SystemTime,
) -> Result<Visitor, Status> {
    if origin::is_foreign(head) {
        let why = "its Origin is a different server: ask from a page of this host, or from a program without Origin";
        return Err(Status::other(403, why.to_owned()));
    }
    app.guard().authenticate(&Presented::of(head), certificate, now).map_err(|why| {
        crate::log::debug(|| format!("a request was refused: {why}"));
        Status::unauthorized()
    })
}

/// Whether the client asks as itself: impersonation is refused, and not ignored, where identities matter.
fn check_client(app: &App, head: &RequestHead, visitor: &Visitor) -> Result<(), Status> {
    if visitor.named().is_none() {
        check_name(app, head)?;
    }
    match &head.impersonate {
        Some(other) if !app.guard().is_open() => {
            let user = go_quote(&visitor.identity.name);
            let why = format!(
                "User {user} cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
            );
            Err(Status::forbidden(GroupResource { group: "", resource: "users" }, other, &why))
        }
        Some(_) | None => Ok(()),
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

pub(super) fn check(app: &App, visitor: &Visitor, access: &Access) -> Result<(), Status> {
    if app.guard().allows(visitor, access) { Ok(()) } else { Err(access.forbidden(&visitor.identity.name)) }
}
