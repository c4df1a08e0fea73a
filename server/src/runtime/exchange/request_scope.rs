//! One request, from its head to the end of its reply: its id, its counts, its lines in the audit log.
//!
//! Owns nothing that a reply depends on. A request ends when its scope is dropped, whatever happened to its connection: so each
//! request is counted once and has one last line.

use std::net::SocketAddr;
use std::sync::Arc;

use revcast_engine::tick::Tick;
use uuid::Uuid;

use crate::audit::{Audit, Entry, Stage};
use crate::auth::Identity;
use crate::http::request::{Method, RequestHead};
use crate::http::request_info::{RequestInfo, Verb};
use crate::http::route::{Routed, Target};
use crate::runtime::audit_context::AuditContext;
use crate::runtime::listener::ListenerKind;
use crate::runtime::shared::Shared;

/// A request in progress.
#[derive(Debug)]
pub(super) struct RequestScope {
    shared: Arc<Shared>,
    shard: usize,
    id: Uuid,
    verb: Verb,
    began: Tick,
    /// 0: no reply yet.
    code: u16,
    /// `None`: it is not logged.
    entry: Option<Box<Entry>>,
    counted: bool,
}

impl RequestScope {
    /// Begins with a complete head, which came at `began`. `source` is called for the peer's address if the request is logged.
    pub(super) fn begin(
        shared: &Arc<Shared>,
        shard: usize,
        began: Tick,
        head: &RequestHead,
        routed: &Routed,
        kind: ListenerKind,
        source: impl FnOnce() -> Option<SocketAddr>,
    ) -> Self {
        let (id, verb) = (new_id(), Verb::of(head, routed));
        let is_health = matches!(routed, Ok(target @ Target::Health { .. }) if target.takes(head.method));
        // Health checks and reads of metrics are not logged.
        let is_admin_read = kind == ListenerKind::Admin && matches!(head.method, Method::Get | Method::Head);
        let audit = shared.audit.as_ref().filter(|_| !is_health && !is_admin_read);
        let entry = audit.map(|_| Box::new(Entry::new(id, RequestInfo::of(head, routed), head, source())));
        Self { shared: Arc::clone(shared), shard, id, verb, began, code: 0, entry, counted: false }
    }

    /// For a head that cannot be parsed: it is counted, and not logged.
    pub(super) fn unread(shared: &Arc<Shared>, shard: usize, began: Tick) -> Self {
        let (id, verb) = (new_id(), Verb::Unread);
        Self { shared: Arc::clone(shared), shard, id, verb, began, code: 0, entry: None, counted: false }
    }

    /// Writes the first line: after authentication, so that it has the user, if there is one.
    pub(super) fn received(&mut self, user: Option<&Identity>) {
        if let (Some(entry), Some(audit)) = (&mut self.entry, &self.shared.audit) {
            if let Some(user) = user {
                entry.set_user(user);
            }
            audit.note(entry, Stage::RequestReceived, 0, None);
        }
    }

    /// Its id in the audit log.
    pub(super) const fn id(&self) -> Uuid {
        self.id
    }

    /// A reply with this code is sent. Returns its `Audit-Id`.
    pub(super) const fn answered(&mut self, code: u16) -> Uuid {
        self.code = code;
        self.id
    }

    /// The head of a watch's reply was sent: the shard writes the rest.
    pub(super) fn become_watch(&mut self) -> Option<Box<AuditContext>> {
        self.count();
        let entry = *self.entry.take()?;
        if let Some(audit) = self.audit() {
            audit.note(&entry, Stage::ResponseStarted, self.code, None);
        }
        Some(Box::new(AuditContext { entry, code: self.code }))
    }

    /// The head of a stream was sent: how long the rest takes is no duration of a request.
    pub(super) fn streams(&mut self) {
        self.count();
    }

    fn audit(&self) -> Option<&Audit> {
        self.shared.audit.as_ref()
    }

    fn count(&mut self) {
        if !std::mem::replace(&mut self.counted, true) {
            self.shared.handles.0[self.shard].tally.requests.count(
                self.verb,
                self.code,
                self.shared.clock.now().since(self.began),
            );
        }
    }
}

impl Drop for RequestScope {
    fn drop(&mut self) {
        self.count();
        if let (Some(entry), Some(audit)) = (&self.entry, self.audit()) {
            let cut = (self.code == 0).then_some("cut");
            audit.note(entry, Stage::ResponseComplete, self.code, cut);
        }
    }
}

/// An id in the audit log. It has to be unique and is no secret, so it costs no system call.
fn new_id() -> Uuid {
    uuid::Builder::from_random_bytes(fastrand::u128(..).to_ne_bytes()).into_uuid()
}
