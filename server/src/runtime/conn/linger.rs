//! Lingering: the streams of a connection have ended, and its peer has not read the end of them yet.
//!
//! Such a connection carries no more requests. It stays open until the peer disconnects or a timeout. Bytes that the peer still
//! sends are read and discarded, so that closing does not discard what the peer has not read (RFC 9112, section 9.6; RFC 6455,
//! section 7.1.1).

use std::time::Duration;

use revcast_engine::limits::DRAIN_GRACE;
use revcast_engine::tick::Tick;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};

use super::{Conn, Conns};
use crate::runtime::sys::polls::{Owner, Readiness};

/// How long a peer that was sent everything may take to disconnect.
const LINGER: Duration = Duration::from_secs(1);
/// Bytes that are read and discarded of one connection.
const LINGER_BYTES: usize = 64 << 10;
/// Interval of the checks for timeouts.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The state of a connection that lingers.
#[derive(Debug)]
pub(super) struct Linger {
    deadline: Tick,
    /// Bytes that the peer may still send.
    readable: usize,
    /// Whether its last stream is counted until it is closed.
    is_counted: bool,
}

/// The connections that linger.
#[derive(Debug, Default)]
pub(super) struct Lingering {
    all: Vec<Owner>,
    next_look: Tick,
}

/// What to do with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Stays,
    Goes,
}

impl Conn {
    pub(super) fn is_lingering(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.linger.is_some())
    }

    /// Sends what can be sent; after the last byte our half of the connection is shut down.
    fn finish(&mut self, now: Tick) -> Next {
        let Some(flushed) = self.flush_unsent() else { return Next::Goes };
        let Some(linger) = self.rare.as_mut().and_then(|rare| rare.linger.as_mut()) else {
            return Next::Goes;
        };
        if !flushed {
            return Next::Stays;
        }
        // Both directions may have ended.
        if linger.readable == 0 || shutdown(&self.fd, Shutdown::Write).is_err() {
            return Next::Goes;
        }
        linger.deadline = now.plus(LINGER);
        Next::Stays
    }

    /// Discards what the peer sent.
    fn discard(&mut self) -> Next {
        let full = self.is_full();
        let Some(linger) = self.rare.as_mut().and_then(|rare| rare.linger.as_mut()) else {
            return Next::Goes;
        };
        let mut scratch = [0; 4 << 10];
        match recv(&self.fd, &mut scratch[..], RecvFlags::DONTWAIT) {
            // The peer's half is closed; it may still read what is unsent.
            Ok((0, _)) if full => {
                linger.readable = 0;
                Next::Stays
            }
            Ok((0, _)) => Next::Goes,
            Ok((read, _)) if read < linger.readable => {
                linger.readable -= read;
                Next::Stays
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Next::Stays,
            Ok(_) | Err(_) => Next::Goes,
        }
    }

    /// Whether the peer may still send something.
    fn may_send(&self) -> bool {
        let linger = self.rare.as_ref().and_then(|rare| rare.linger.as_ref());
        linger.is_some_and(|linger| linger.readable > 0)
    }
}

impl Conns {
    /// Starts to linger on a connection whose streams have ended. `is_counted`: the last of them counts until it is closed.
    pub(super) fn linger(&mut self, owner: Owner, now: Tick, is_counted: bool) {
        let Self { slots, polls, lingering, .. } = self;
        let Some(conn) = &mut slots[owner.slot as usize].conn else { return };
        conn.forget_polls(owner, polls);
        let rare = conn.rare();
        rare.linger = Some(Linger { deadline: now.plus(DRAIN_GRACE), readable: LINGER_BYTES, is_counted });
        if let Some(mut session) = rare.tls.take() {
            session.close(rare.unsent.tail());
        }
        lingering.all.push(owner);
        let next = conn.finish(now);
        self.after(owner, next);
    }

    /// Handles an event of a connection that lingers.
    pub(super) fn linger_on(&mut self, owner: Owner, what: Readiness, now: Tick) {
        let Some(conn) = self.at(owner) else { return };
        let next = match what {
            Readiness::Writable => conn.finish(now),
            Readiness::Readable | Readiness::Gone => conn.discard(),
        };
        self.after(owner, next);
    }

    /// Closes the connections whose time is over.
    pub(super) fn tend_lingering(&mut self, now: Tick) {
        if self.lingering.all.is_empty() || now < self.lingering.next_look {
            return;
        }
        self.lingering.next_look = now.plus(LOOK_EVERY);
        let mut all = std::mem::take(&mut self.lingering.all);
        all.retain(|owner| {
            let Some(conn) = self.at(*owner) else { return false };
            let late = conn.rare().linger.as_ref().is_none_or(|linger| linger.deadline <= now);
            if late {
                self.after(*owner, Next::Goes);
            }
            !late
        });
        self.lingering.all = all;
    }

    fn after(&mut self, owner: Owner, next: Next) {
        match next {
            Next::Goes => {
                let linger = self.at(owner).and_then(|conn| conn.rare.as_ref()?.linger.as_ref());
                self.gone += usize::from(linger.is_some_and(|linger| linger.is_counted));
                self.close(owner);
            }
            Next::Stays => {
                let Self { slots, polls, .. } = self;
                let Some(conn) = &mut slots[owner.slot as usize].conn else { return };
                if conn.may_send() {
                    conn.poll_to_read(owner, polls);
                }
                if conn.is_full() {
                    conn.poll_to_write(owner, polls);
                }
            }
        }
    }
}
