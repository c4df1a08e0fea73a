//! Lingering sockets: their watch is over, and their peer has not taken the end of the stream yet.
//!
//! Owns them from the end of the watch until the peer has hung up, or its time is over. They have no request any more and
//! are never used again. What such a peer still sends is read and thrown away, so that closing does not take from it
//! what it has not read (RFC 9112, section 9.6; RFC 6455, section 7.1.1).

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use revcast_engine::limits::DRAIN_GRACE;
use revcast_engine::tick::Tick;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};

use super::admission::CountGuard;
use super::uring::{GENERATION_BITS, Owner, Polls, Readiness};
use super::wrap::Tail;

/// How long a peer that was sent everything may take to hang up.
const LINGER: Duration = Duration::from_secs(1);
/// What is read and thrown away of one.
const LINGER_BYTES: usize = 64 << 10;
/// Between two looks whose time is over.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// One of them.
#[derive(Debug)]
struct LingeringSocket {
    fd: OwnedFd,
    tail: Tail,
    /// Its connection counts until it is closed.
    _ticket: Option<CountGuard>,
    deadline: Tick,
    /// What it may still say.
    patience: usize,
    hearing: bool,
    waiting: bool,
}

/// What becomes of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Stays,
    Goes,
}

impl LingeringSocket {
    /// Sends what can be sent; the last of it ends our half of the connection.
    fn say(&mut self, now: Tick) -> Next {
        match self.tail.flush(&self.fd) {
            Some(false) => Next::Stays,
            // Both halves are over.
            Some(true) if self.patience == 0 => Next::Goes,
            Some(true) if shutdown(&self.fd, Shutdown::Write).is_ok() => {
                self.deadline = now.plus(LINGER);
                Next::Stays
            }
            Some(true) | None => Next::Goes,
        }
    }

    /// Throws away what the peer said.
    fn listen(&mut self) -> Next {
        let mut scrap = [0; 4 << 10];
        match recv(&self.fd, &mut scrap[..], RecvFlags::DONTWAIT) {
            // Half of the connection is over; the tail may still be wanted.
            Ok((0, _)) if !self.tail.is_empty() => {
                self.patience = 0;
                Next::Stays
            }
            Ok((0, _)) => Next::Goes,
            Ok((read, _)) if read < self.patience => {
                self.patience -= read;
                Next::Stays
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Next::Stays,
            Ok(_) | Err(_) => Next::Goes,
        }
    }

    /// Polls for what it waits for.
    fn poll(&mut self, ticket: u32, polls: &mut Polls) {
        if !self.hearing && self.patience > 0 {
            self.hearing = true;
            polls.watch(Owner::LingeringSocket(ticket), self.fd.as_fd(), Readiness::Readable);
        }
        if !self.waiting && !self.tail.is_empty() {
            self.waiting = true;
            polls.watch(Owner::LingeringSocket(ticket), self.fd.as_fd(), Readiness::Writable);
        }
    }
}

/// All of one shard.
#[derive(Debug, Default)]
pub(super) struct Lingering {
    by_ticket: HashMap<u32, LingeringSocket>,
    next_ticket: u32,
    next_look: Tick,
}

impl Lingering {
    /// Sees a socket out, which is polled for nothing. How many have gone: it, or nobody yet.
    pub(super) fn take(
        &mut self,
        fd: OwnedFd,
        tail: Tail,
        ticket: Option<CountGuard>,
        now: Tick,
        polls: &mut Polls,
    ) -> usize {
        let deadline = now.plus(DRAIN_GRACE);
        let (patience, hearing, waiting) = (LINGER_BYTES, false, false);
        let mut leaver = LingeringSocket { fd, tail, _ticket: ticket, deadline, patience, hearing, waiting };
        if leaver.say(now) == Next::Goes {
            return 1;
        }
        while self.by_ticket.contains_key(&self.next_ticket) {
            self.next_ticket = (self.next_ticket + 1) & GENERATION_BITS;
        }
        let ticket = self.next_ticket;
        self.next_ticket = (ticket + 1) & GENERATION_BITS;
        leaver.poll(ticket, polls);
        self.by_ticket.insert(ticket, leaver);
        0
    }

    /// A socket told something. How many have gone: it, or nobody.
    pub(super) fn told(&mut self, ticket: u32, told: Readiness, now: Tick, polls: &mut Polls) -> usize {
        let Some(leaver) = self.by_ticket.get_mut(&ticket) else { return 0 };
        let next = match told {
            Readiness::Writable => {
                leaver.waiting = false;
                leaver.say(now)
            }
            Readiness::Readable | Readiness::Gone => {
                leaver.hearing = false;
                leaver.listen()
            }
        };
        match next {
            Next::Stays => {
                leaver.poll(ticket, polls);
                0
            }
            Next::Goes => self.close(ticket, polls),
        }
    }

    /// Closes those whose time is over. How many they were.
    pub(super) fn tend(&mut self, now: Tick, polls: &mut Polls) -> usize {
        if self.by_ticket.is_empty() || now < self.next_look {
            return 0;
        }
        self.next_look = now.plus(LOOK_EVERY);
        let late = self.by_ticket.iter().filter(|(_, leaver)| leaver.deadline <= now);
        let late: Vec<u32> = late.map(|(ticket, _)| *ticket).collect();
        late.into_iter().map(|ticket| self.close(ticket, polls)).sum()
    }

    /// Polls on another ring; the one before is gone with its polls.
    pub(super) fn poll_anew(&mut self, polls: &mut Polls) {
        for (ticket, leaver) in &mut self.by_ticket {
            (leaver.hearing, leaver.waiting) = (false, false);
            leaver.poll(*ticket, polls);
        }
    }

    fn close(&mut self, ticket: u32, polls: &mut Polls) -> usize {
        let Some(leaver) = self.by_ticket.remove(&ticket) else { return 0 };
        if leaver.hearing {
            polls.forget(Owner::LingeringSocket(ticket), Readiness::Readable);
        }
        if leaver.waiting {
            polls.forget(Owner::LingeringSocket(ticket), Readiness::Writable);
        }
        // Behind this the descriptor may be closed and its number be used again.
        polls.submit();
        drop(leaver);
        1
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use super::super::wake::Wake;
    use super::super::wrap::Tail;
    use super::*;

    struct Stand {
        wake: Wake,
        polls: Polls,
        leaving: Lingering,
        start: Instant,
    }

    impl Stand {
        fn new() -> Self {
            let wake = Wake::new().expect("an eventfd");
            let polls = Polls::new(wake.descriptor()).expect("a ring");
            Self { wake, polls, leaving: Lingering::default(), start: Instant::now() }
        }

        fn now(&self) -> Tick {
            Tick::ZERO.plus(self.start.elapsed())
        }

        fn take(&mut self, fd: UnixStream, tail: Tail) -> usize {
            let now = self.now();
            let gone = self.leaving.take(fd.into(), tail, None, now, &mut self.polls);
            self.polls.submit();
            gone
        }

        /// What a shard's loop does; how many have gone.
        fn turn(&mut self, now: Tick) -> usize {
            let mut told = Vec::new();
            self.polls.reap(|owner, what, _| told.push((owner, what)));
            let mut gone = 0;
            for (owner, what) in told {
                let Owner::LingeringSocket(ticket) = owner else { panic!("{owner:?}") };
                gone += self.leaving.told(ticket, what, now, &mut self.polls);
            }
            gone += self.leaving.tend(now, &mut self.polls);
            self.polls.submit();
            gone
        }

        /// Turns until one has gone.
        fn until_gone(&mut self) {
            let end = Instant::now() + Duration::from_secs(10);
            while self.turn(self.now()) == 0 {
                assert!(Instant::now() < end, "it stays");
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(self.leaving.by_ticket.is_empty());
        }
    }

    fn pair() -> (UnixStream, UnixStream) {
        UnixStream::pair().expect("a pair of sockets")
    }

    /// More than any socket takes.
    fn tail() -> (Tail, Vec<u8>) {
        let bytes: Vec<u8> = (0_u32..4 << 20).map(|i| i.to_le_bytes()[1]).collect();
        (Tail::of(bytes.clone()), bytes)
    }

    #[test]
    fn the_rest_is_sent_and_the_peer_awaited() {
        let mut stand = Stand::new();
        let (ours, mut theirs) = pair();
        let (tail, expected) = tail();
        assert_eq!(stand.take(ours, tail), 0);
        // It says goodbye before it has read all.
        theirs.write_all(b"goodbye").expect("it is heard");
        let reader = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).map(|_| all)
        });
        stand.until_gone();
        assert!(reader.join().expect("the reader").expect("a clean end") == expected);
    }

    #[test]
    fn another_ring_changes_nothing() {
        let mut stand = Stand::new();
        let (ours, mut theirs) = pair();
        let (tail, expected) = tail();
        assert_eq!(stand.take(ours, tail), 0);
        stand.polls = Polls::new(stand.wake.descriptor()).expect("a ring");
        stand.leaving.poll_anew(&mut stand.polls);
        stand.polls.submit();
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).map(|_| all)
        });
        stand.until_gone();
        assert!(reader.join().expect("the reader").expect("a clean end") == expected);
    }

    #[test]
    fn who_never_reads_or_never_hangs_up_is_left() {
        let mut stand = Stand::new();
        let (deaf, _peer) = pair();
        assert_eq!(stand.take(deaf, tail().0), 0);
        let (done, mut other) = pair();
        assert_eq!(stand.take(done, Tail::default()), 0);
        let mut end = [0];
        assert_eq!(other.read(&mut end).expect("our half has ended"), 0);
        let now = stand.now();
        assert_eq!(stand.turn(now), 0);
        assert_eq!(stand.turn(now.plus(LINGER * 2)), 1, "who was sent all has a second");
        assert_eq!(stand.turn(now.plus(DRAIN_GRACE * 2)), 1, "who was not has longer");
        assert!(stand.leaving.by_ticket.is_empty());
    }

    #[test]
    fn who_talks_without_end_is_left() {
        let mut stand = Stand::new();
        let (ours, mut theirs) = pair();
        assert_eq!(stand.take(ours, Tail::default()), 0);
        let talker = std::thread::spawn(move || while theirs.write_all(&[0; 4096]).is_ok() {});
        stand.until_gone();
        talker.join().expect("it was cut off");
    }

    #[test]
    fn who_is_gone_is_gone() {
        let mut stand = Stand::new();
        let (ours, theirs) = pair();
        drop(theirs);
        assert_eq!(stand.take(ours, tail().0), 1);
        let (ours, theirs) = pair();
        assert_eq!(stand.take(ours, tail().0), 0);
        drop(theirs);
        stand.until_gone();
    }
}
