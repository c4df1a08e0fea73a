//! When a request comes, and when it may begin.

use revcast_engine::tick::Tick;

use crate::runtime::client::Client;
use crate::runtime::listener::ListenerKind;
use crate::runtime::shard::local::Local;
use crate::runtime::shared::RequestGuard;

/// A request that came. A server that closes waits for it, also while others go first.
pub(in crate::runtime) struct Arrival {
    pub(super) at: Tick,
    _guard: RequestGuard,
}

impl Arrival {
    pub(super) fn now(local: &Local) -> Self {
        Self { at: local.now(), _guard: RequestGuard::new(&local.shared, local.number) }
    }
}

/// The next request of a client, which may not have come yet.
pub(in crate::runtime) struct Arriving<'a> {
    pub(in crate::runtime) local: &'a Local,
    pub(in crate::runtime) client: &'a Client,
    pub(in crate::runtime) arrival: &'a mut Option<Arrival>,
}

impl Arriving<'_> {
    /// Nothing more of it is here.
    pub(in crate::runtime) fn wait(&mut self) {
        *self.arrival = None;
    }

    /// Something of it came. Ready when it may begin: one of an operator may at once.
    pub(in crate::runtime) async fn arrive(&mut self) {
        *self.arrival = Some(Arrival::now(self.local));
        if self.client.kind == ListenerKind::Public {
            self.local.pass().await;
        }
    }
}
