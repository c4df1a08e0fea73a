//! The watches of one shard, as the server knows them: one record for each, from its begin to its close.
//!
//! Owns which connection carries a watch, and its data outside the engine: how it is counted, its authorization, its audit
//! entry. It is the engine's outlet: a delivery only looks up the connection.

#[cfg(test)]
mod allocations;
mod review;

use std::net::SocketAddr;

use revcast_engine::limits::SENDS_PER_TURN;
use revcast_engine::tick::Tick;
use revcast_engine::{Outlet, Run, Sent, WatcherId};

use super::admission::CountGuard;
use super::audit_context::AuditContext;
use super::conn::{ConnEvent, Conns, Link, Offer, Place};
use super::sys::polls::{Owner, Polls};
use super::sys::sends::Sends;
use crate::auth::{Authorization, Guard};
use crate::tls::{Current, Signers};
use crate::wire::http2::StreamKey;
use crate::wire::stream::WireStream;
use review::Review;

/// Watches whose authorization is checked per turn: a millisecond at most.
const CHECKED_AT_ONCE: usize = 256;
/// Watches whose certificates are verified per turn: a signature takes up to 0.2 ms.
const VERIFIED_AT_ONCE: usize = 4;

/// Data of a watch outside the engine; most watches have none.
#[derive(Debug, Default)]
pub(super) struct WatchRecord {
    /// How the watch is counted by name, if it is.
    pub(super) permit: Option<CountGuard>,
    /// The authorization that it began with; `None`: one that cannot change.
    pub(super) authorization: Option<Box<Authorization>>,
    /// What is still to be written to the audit log.
    pub(super) audit: Option<Box<AuditContext>>,
}

/// A slot for a watch, in the engine's order of slots.
#[derive(Debug)]
enum Entry {
    Free,
    Used(Used),
}

/// A watch that is open.
#[derive(Debug)]
struct Used {
    id: WatcherId,
    /// Where its stream is.
    place: Place,
    record: Option<Box<WatchRecord>>,
}

// The memory of an idle watch here, in addition to its connection; `engine/DECISIONS.md` states it.
const _: () = assert!(size_of::<Entry>() <= 24);

/// What carries a new watch.
#[derive(Debug)]
pub(super) enum Carrying {
    /// A connection of its own.
    Link(Link),
    /// A stream of a connection that stays where it is.
    Stream(Owner, StreamKey),
}

/// What is left of a watch when it is closed.
#[derive(Debug)]
pub(super) struct Closed {
    /// What is still to be written to the audit log.
    pub(super) audit: Option<Box<AuditContext>>,
    /// Its connection, if that can carry another request.
    pub(super) link: Option<Link>,
}

/// The watches of one shard.
#[derive(Debug)]
pub(super) struct Watches {
    entries: Vec<Entry>,
    conns: Conns,
    authorizations: Review,
    certificates: Review,
}

impl Watches {
    /// Without watches. `guard` and `tls` are the current ones.
    pub(super) fn new(polls: Polls, sends: Option<Sends>, guard: &Guard, tls: Option<&Current>) -> Self {
        Self {
            entries: Vec::new(),
            conns: Conns::new(polls, sends),
            authorizations: Review::new(guard.number()),
            certificates: Review::new(tls.map_or(0, Current::authorities_generation)),
        }
    }

    /// Begins a watch. `authorities`: the number of those that its client's certificate was verified against.
    pub(super) fn begin(
        &mut self,
        id: WatcherId,
        carrying: Carrying,
        wire_stream: WireStream,
        record: WatchRecord,
        authorities: u64,
    ) {
        let slot = id.slot();
        if self.entries.len() <= slot {
            self.entries.resize_with(slot + 1, || Entry::Free);
        }
        if let Some(authorization) = &record.authorization {
            self.authorizations.begins(slot, authorization.number());
        }
        let place = match carrying {
            Carrying::Link(link) => Place::alone(self.conns.open(link, id, wire_stream)),
            Carrying::Stream(owner, key) => {
                self.conns.attach_to(owner, key, id, wire_stream);
                Place::among(owner.slot, key)
            }
        };
        if self.conns.has_tls(place.conn()) {
            self.certificates.begins(slot, authorities);
        }
        let WatchRecord { permit, authorization, audit } = &record;
        let holds = permit.is_some() || authorization.is_some() || audit.is_some();
        self.entries[slot] = Entry::Used(Used { id, place, record: holds.then(|| Box::new(record)) });
    }

    /// Closes a watch, whatever ended it. `clean`: its stream was ended, so its connection may continue. `None`: it was closed.
    pub(super) fn close(&mut self, id: WatcherId, clean: bool, now: Tick) -> Option<Closed> {
        let entry = self.entries.get_mut(id.slot())?;
        if !matches!(entry, Entry::Used(used) if used.id == id) {
            return None;
        }
        let Entry::Used(used) = std::mem::replace(entry, Entry::Free) else { return None };
        let link = self.conns.detach(used.place, id, clean, now);
        Some(Closed { audit: used.record.and_then(|record| record.audit), link })
    }

    /// Closes all that are left, with their connections. Calls `visit` with what is still to be written to the audit log of
    /// each.
    pub(super) fn close_all(&mut self, mut visit: impl FnMut(Box<AuditContext>)) {
        for entry in self.entries.drain(..) {
            if let Entry::Used(Used { record: Some(record), .. }) = entry
                && let Some(audit) = record.audit
            {
                visit(audit);
            }
        }
        self.conns.close_all();
    }

    /// How many watches have left since the last call, with their connections or from them.
    pub(super) const fn take_gone(&mut self) -> usize {
        self.conns.take_gone()
    }

    /// What happened to connections since the last call.
    pub(super) fn reap(&mut self, now: Tick) -> impl Iterator<Item = (WatcherId, ConnEvent)> {
        self.conns.reap(now)
    }

    /// Passes the output of a turn to the kernel, once per connection.
    pub(super) fn flush(&mut self) {
        self.conns.flush();
    }

    /// Submits polls to the kernel.
    pub(super) fn submit(&mut self) {
        self.conns.submit();
    }

    /// Whether there are events that were not handled yet.
    pub(super) fn has_events(&mut self) -> bool {
        self.conns.has_events()
    }

    /// When the next client is due for a read.
    pub(super) fn due(&self) -> Option<Tick> {
        self.conns.due()
    }

    /// Bytes that the tables use.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Entry>() * self.entries.capacity() + self.conns.bytes()
    }

    /// Whether watches have to be checked again.
    pub(super) fn has_review(&self, guard: &Guard, tls: Option<&Current>) -> bool {
        self.authorizations.has_work(guard.number())
            || tls.is_some_and(|tls| self.certificates.has_work(tls.authorities_generation()))
    }

    /// Checks some of them: `end` is called for a watch that is not allowed any more.
    pub(super) fn review(&mut self, guard: &Guard, tls: Option<&Current>, mut end: impl FnMut(WatcherId)) {
        let Self { entries, conns, authorizations, certificates } = self;
        authorizations.visit(guard.number(), entries.len(), CHECKED_AT_ONCE, |slot| {
            let Some(Entry::Used(Used { id, record: Some(record), .. })) = entries.get(slot) else {
                return false;
            };
            let Some(authorization) = &record.authorization else { return false };
            if !guard.still_allows(authorization) {
                end(*id);
            }
            true
        });
        let Some(tls) = tls else { return };
        let terms = tls.terms();
        certificates.visit(terms.authorities_generation(), entries.len(), VERIFIED_AT_ONCE, |slot| {
            let Some(Entry::Used(Used { id, place, record })) = entries.get(slot) else { return false };
            let shown = conns.certificates(place.conn());
            if shown.is_empty() {
                return false;
            }
            let Signers { is_client, is_proxy } = terms.signers(shown);
            let authorization = record.as_ref().and_then(|record| record.authorization.as_ref());
            if !authorization.map_or(is_client || is_proxy, |kept| kept.holds_with(is_client, is_proxy)) {
                end(*id);
            }
            true
        });
    }

    /// Where a watch's stream is.
    #[inline]
    fn place_of(entries: &[Entry], id: WatcherId) -> Option<Place> {
        match entries.get(id.slot()) {
            Some(Entry::Used(used)) if used.id == id => Some(used.place),
            Some(Entry::Used(_) | Entry::Free) | None => None,
        }
    }

    /// The address of a watch's client.
    pub(super) fn peer(&mut self, id: WatcherId) -> Option<SocketAddr> {
        let place = Self::place_of(&self.entries, id)?;
        self.conns.peer_at(place)
    }

    /// The connections, for a task that answers a request on one of them.
    pub(super) const fn conns(&mut self) -> &mut Conns {
        &mut self.conns
    }
}

impl Outlet for Watches {
    fn send(&mut self, to: WatcherId, run: Run<'_>) -> Sent {
        let Some(place) = Self::place_of(&self.entries, to) else { return Sent::Gone };
        self.conns.begin();
        self.conns.offer(place, to, Offer::Messages(run))
    }

    fn send_each(&mut self, to: &[WatcherId], run: Run<'_>, sent: &mut Vec<Sent>) {
        let Self { entries, conns, .. } = self;
        conns.offer_each(to, Offer::Messages(run), |id| Self::place_of(entries, id), sent);
    }

    fn has_groups(&self) -> bool {
        self.conns.watches_on_streams() > 0
    }

    fn order_of(&self, id: WatcherId) -> u64 {
        // Those that are alone on their connections come first, in any order.
        Self::place_of(&self.entries, id).map_or(0, Place::order)
    }

    fn are_together(&self, one: WatcherId, other: WatcherId) -> bool {
        let connection = |id| Self::place_of(&self.entries, id).map(Place::conn);
        connection(one).is_some_and(|it| connection(other) == Some(it))
    }

    fn deliveries_per_turn(&self) -> usize {
        // A delivery on a stream of many takes a tenth of the time of a send.
        let most_are_streams = 2 * self.conns.watches_on_streams() > self.entries.len();
        SENDS_PER_TURN * if most_are_streams { 8 } else { 1 }
    }

    fn heartbeat(&mut self, to: &[WatcherId], sent: &mut Vec<Sent>) {
        let Self { entries, conns, .. } = self;
        conns.offer_each(to, Offer::Heartbeat, |id| Self::place_of(entries, id), sent);
    }

    fn end(&mut self, to: WatcherId) -> Sent {
        Self::place_of(&self.entries, to).map_or(Sent::Gone, |place| self.conns.end(place, to))
    }
}
