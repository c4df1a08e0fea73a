//! A watch that goes on over another connection: its account stays, what it had half received is gone.

use super::{LaneState, Phase, Watcher};
use rustix::fd::OwnedFd;

impl Watcher {
    /// Ends its connection; the server gets a RST when the socket is set to, else a FIN.
    pub(crate) fn hang_up(&mut self, lane: &mut LaneState) {
        self.part.clear();
        self.give_back(lane);
        self.phase = Phase::Closed;
        // Closing the socket also takes it out of its epoll.
        self.socket = None;
    }

    /// Goes on over `socket`, which is being connected: behind the last revision of its account.
    pub(crate) fn go_on(&mut self, socket: OwnedFd) {
        self.phase = Phase::Connecting;
        self.socket = Some(socket);
    }
}
