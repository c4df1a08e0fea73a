//! Admission: limits on connections, in total and per address, and on watches per user.
//!
//! Owns the counts, and the Status that refuses one more. A count is decremented when its guard is dropped, however the
//! connection or the watch ended. Names are counted only if a limit is set: without one, no lock is taken.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::options::Options;
use crate::http::status::Status;

/// The subject of a count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Who {
    Address(IpAddr),
    User(Arc<str>),
}

/// Counts by name, each with the same limit.
#[derive(Debug)]
struct Tally {
    max: usize,
    counts: Mutex<HashMap<Who, usize>>,
}

impl Tally {
    fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, counts: Mutex::default() })
    }

    /// Counts one more of `who`; `None`: the limit is reached.
    fn enter(self: &Arc<Self>, who: Who) -> Option<CountGuard> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(who.clone()).or_insert(0);
        if *count >= self.max {
            return None;
        }
        *count += 1;
        Some(CountGuard { tally: Arc::clone(self), who })
    }
}

/// One unit of a [`Tally`]; released on drop.
#[derive(Debug)]
pub(super) struct CountGuard {
    tally: Arc<Tally>,
    who: Who,
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        let mut counts = self.tally.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.who) {
            *count -= 1;
            // A name without connections takes no memory, however many names come once.
            if *count == 0 {
                counts.remove(&self.who);
            }
        }
    }
}

/// All counts of admission.
#[derive(Debug)]
pub(super) struct Admission {
    /// Connections that carry requests; those that carry watches are counted by their shards.
    connections: AtomicUsize,
    connections_max: Option<usize>,
    addresses: Option<Arc<Tally>>,
    users: Option<Arc<Tally>>,
    /// Connections that were refused.
    pub(super) turned_away: AtomicU64,
    /// The second in which the lack of descriptors was last logged.
    complained: AtomicU64,
}

/// A connection that carries requests.
#[derive(Debug)]
pub(super) struct ConnPermit {
    admission: Arc<Admission>,
    /// `None`: nothing is counted per address.
    address: Option<IpAddr>,
    guard: Option<CountGuard>,
}

impl Drop for ConnPermit {
    fn drop(&mut self) {
        self.admission.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Admission {
    pub(super) fn new(options: &Options) -> Arc<Self> {
        Arc::new(Self {
            connections: AtomicUsize::new(0),
            connections_max: options.max_connections,
            addresses: options.max_connections_per_address.map(Tally::new),
            users: options.max_watchers_per_user.map(Tally::new),
            turned_away: AtomicU64::new(0),
            complained: AtomicU64::new(0),
        })
    }

    /// Connections that carry requests.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Admits a new connection, given the number of watches; or the Status that refuses it.
    pub(super) fn admit(
        self: &Arc<Self>,
        peer: impl FnOnce() -> Option<SocketAddr>,
        watchers: usize,
    ) -> Result<ConnPermit, Box<Status>> {
        let refused = |message: String| {
            self.turned_away.fetch_add(1, Ordering::Relaxed);
            Err(Box::new(Status::too_many_requests(message, 1)))
        };
        // Incremented before the check: two shards that accept at the same time must not both take the last place.
        let mut permit = self.welcome(None, None);
        if let Some(max) = self.connections_max
            && self.connections() + watchers > max
        {
            return refused(format!("{max} connections are open, which is the limit: raise max-connections"));
        }
        let counted = self.addresses.is_some() || self.users.is_some();
        permit.address = if counted { peer().map(|peer| subnet(peer.ip())) } else { None };
        permit.guard = match (&self.addresses, permit.address) {
            (Some(tally), Some(address)) => match tally.enter(Who::Address(address)) {
                None => {
                    return refused(format!(
                        "{} connections from {address} are open, which is the limit: close some, or raise \
                         max-connections-per-address",
                        tally.max
                    ));
                }
                guard => guard,
            },
            _ => None,
        };
        Ok(permit)
    }

    /// A connection that carried a watch and carries requests again, with the guard that it has.
    pub(super) fn welcome_back(
        self: &Arc<Self>,
        guard: Option<CountGuard>,
        peer: Option<SocketAddr>,
    ) -> ConnPermit {
        let address = self.users.as_ref().and(peer).map(|peer| subnet(peer.ip()));
        self.welcome(address, guard)
    }

    /// Logs that descriptors ran out, once a second at most, for all connections and shards together.
    pub(super) fn complain(&self, since_start: Duration) -> bool {
        let second = since_start.as_secs() + 1;
        let is_first = self.complained.swap(second, Ordering::Relaxed) != second;
        if is_first {
            crate::log::warn(
                "no descriptor is left for another connection, which is refused with 503: raise nofile (ulimit -n), or set \
                 --max-connections",
            );
        }
        is_first
    }

    /// Whether the address of a connection is needed.
    pub(super) const fn asks_address(&self) -> bool {
        self.users.is_some()
    }

    fn welcome(self: &Arc<Self>, address: Option<IpAddr>, guard: Option<CountGuard>) -> ConnPermit {
        self.connections.fetch_add(1, Ordering::Relaxed);
        ConnPermit { admission: Arc::clone(self), address, guard }
    }
}

impl ConnPermit {
    /// Counts a watch of `user`; `None`: nothing is counted by name. Fails with the Status for the client.
    pub(super) fn watch(&self, user: Option<&str>) -> Result<Option<CountGuard>, Box<Status>> {
        let who = user.map(|user| Who::User(user.into())).or_else(|| self.address.map(Who::Address));
        let (Some(tally), Some(who)) = (&self.admission.users, who) else { return Ok(None) };
        tally.enter(who.clone()).map(Some).ok_or_else(|| {
            let whose = match who {
                Who::User(user) => format!("the user {user}"),
                Who::Address(address) => format!("clients at {address}"),
            };
            let message = format!(
                "{whose} may have {} watches at once, and that limit is reached: end some, or raise max-watchers-per-user",
                tally.max
            );
            Box::new(Status::too_many_requests(message, 1))
        })
    }

    /// The connection carries a watch from now on: it is counted as one, and its count by address is kept.
    pub(super) fn into_guard(mut self) -> Option<CountGuard> {
        self.guard.take()
    }
}

/// The address that is counted: of IPv6 the first 64 bits, since a host may use any address within its /64.
fn subnet(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> impl FnOnce() -> Option<SocketAddr> {
        let address = SocketAddr::new(address.parse().expect("an address"), 1);
        move || Some(address)
    }

    #[test]
    fn connections_and_watches_are_counted_together() {
        let admission = Admission::new(&Options { max_connections: Some(3), ..Options::blank() });
        let first = admission.admit(at("10.0.0.1"), 0).expect("one");
        let _second = admission.admit(at("10.0.0.1"), 1).expect("two and a watch");
        let refused = admission.admit(at("10.0.0.2"), 1).expect_err("a fourth");
        assert_eq!(refused.code(), 429);
        assert!(refused.to_json().contains("max-connections"), "{}", refused.to_json());
        drop(first);
        assert!(admission.admit(at("10.0.0.2"), 1).is_ok());
        assert_eq!(admission.turned_away.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn want_of_descriptors_is_said_once_a_second() {
        let admission = Admission::new(&Options::blank());
        let said = (0..5000).filter(|ms| admission.complain(Duration::from_millis(*ms))).count();
        assert_eq!(said, 5);
    }

    #[test]
    fn an_address_is_counted_through_a_watch_and_behind_it() {
        let admission = Admission::new(&Options { max_connections_per_address: Some(2), ..Options::blank() });
        let first = admission.admit(at("10.0.0.1"), 0).expect("one");
        assert!(first.watch(None).expect("a watch").is_none(), "watches are not counted by name");
        let guard = first.into_guard();
        assert_eq!(admission.connections(), 0);
        let second = admission.admit(at("10.0.0.1"), 0).expect("two");
        assert!(admission.admit(at("::ffff:10.0.0.1"), 0).is_err(), "the same address in other words");
        assert!(admission.admit(at("10.0.0.2"), 0).is_ok());
        let again = admission.welcome_back(guard, None);
        assert!(admission.admit(at("10.0.0.1"), 0).is_err());
        drop((again, second));
        assert!(admission.admit(at("10.0.0.1"), 0).is_ok());
        assert_eq!(admission.addresses.as_ref().expect("counted").counts.lock().expect("sound").len(), 0);
    }

    #[test]
    fn a_user_has_watches_from_everywhere_and_nobody_those_of_an_address() {
        let admission = Admission::new(&Options { max_watchers_per_user: Some(1), ..Options::blank() });
        let (a, b) = (
            admission.admit(at("2001:db8::1"), 0).expect("a"),
            admission.admit(at("2001:db8::2"), 0).expect("b"),
        );
        let guard = a.watch(Some("ann")).expect("the first");
        assert!(b.watch(Some("ann")).is_err(), "a second, from elsewhere");
        assert!(b.watch(Some("bob")).is_ok(), "and gone again");
        let nobody = b.watch(None).expect("the first of the network");
        assert!(a.watch(None).is_err(), "the second of the network");
        drop((guard, nobody));
        assert!(a.watch(Some("ann")).is_ok());
        assert!(a.watch(None).is_ok());
    }
}
