//! Leases of objects that must expire.
//!
//! Owns how leases are shared: one lease serves what is written within a minute with the same time to live (or a twentieth of
//! that time, if that is less), up to 1,000 objects, and is granted for that much longer; a lease per object would cost etcd
//! more than the object. Kubernetes does the same.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Objects per lease.
const OBJECTS_MAX: u32 = 1_000;
/// The longest time for which a lease is shared.
const SHARED_MAX: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
struct Lease {
    id: i64,
    granted: Instant,
    objects: u32,
}

/// The leases that are shared now, by time to live in seconds.
#[derive(Debug, Default)]
pub(super) struct Leases {
    current: RefCell<HashMap<u64, Lease>>,
}

/// For how long a lease of this time to live is shared.
fn shared(ttl: Duration) -> Duration {
    (ttl / 20).min(SHARED_MAX)
}

/// The time to live in whole seconds, as in etcd: an object never expires early.
fn seconds(ttl: Duration) -> u64 {
    ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0)
}

impl Leases {
    /// The lease for one more object, if one can be shared.
    pub(super) fn take(&self, ttl: Duration, now: Instant) -> Option<i64> {
        let mut current = self.current.borrow_mut();
        let lease = current.get_mut(&seconds(ttl))?;
        if now.saturating_duration_since(lease.granted) > shared(ttl) || lease.objects >= OBJECTS_MAX {
            return None;
        }
        lease.objects += 1;
        Some(lease.id)
    }

    /// Seconds for which a new lease must be granted.
    pub(super) fn to_grant(ttl: Duration) -> i64 {
        i64::try_from(seconds(ttl + shared(ttl))).unwrap_or(i64::MAX)
    }

    /// A lease was granted for one object of this time to live, and for later ones.
    pub(super) fn granted(&self, ttl: Duration, id: i64, now: Instant) {
        self.current.borrow_mut().insert(seconds(ttl), Lease { id, granted: now, objects: 1 });
    }

    /// etcd does not know this lease.
    pub(super) fn lost(&self, id: i64) {
        self.current.borrow_mut().retain(|_, lease| lease.id != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_shared_for_a_while() {
        let leases = Leases::default();
        let hour = Duration::from_secs(3600);
        let now = Instant::now();
        assert_eq!((leases.take(hour, now), Leases::to_grant(hour)), (None, 3660));
        leases.granted(hour, 7, now);
        assert_eq!(leases.take(hour, now + Duration::from_secs(60)), Some(7));
        assert_eq!(leases.take(hour, now + Duration::from_secs(61)), None, "an object would end early");
        assert_eq!(leases.take(Duration::from_secs(60), now), None, "another time to live");
        for _ in 2..OBJECTS_MAX {
            assert_eq!(leases.take(hour, now), Some(7));
        }
        assert_eq!(leases.take(hour, now), None, "it has its objects");
        leases.granted(hour, 8, now);
        leases.lost(8);
        assert_eq!(leases.take(hour, now), None);
        assert_eq!(Leases::to_grant(Duration::from_millis(1_500)), 2);
        assert_eq!(Leases::to_grant(Duration::from_secs(2)), 3);
    }
}
