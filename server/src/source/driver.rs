//! The thread of a source: takes commands from the queue, and calls the source's turns.
//!
//! Owns the command loop, the limit on requests in progress, and the guarantee that each command is answered once, whatever
//! happens to it. It is independent of the store.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use revcast_engine::key::Key;
use revcast_engine::revision::Revision;

use super::command_queue::{Answer, Asker, Command, CommandQueue, Shards};
use super::{Fault, SourceError, Txn, TxnError};

/// Commands that a source is given before its turn: the writes among them share one flush in the embedded store.
const COMMANDS_PER_TURN: usize = 256;
/// Requests that may be in progress; further ones are refused.
const UNDER_WAY_MAX: usize = 4096;

/// A store that delivers changes and makes writes. Everything is called on one thread.
///
/// A method only begins a command; the answer goes through the [`Reply`]. Changes go through a
/// [`Feeder`](super::feeder::Feeder), in the order of their revisions: a source passes each one itself, because its next step
/// may depend on what is visible then.
pub(super) trait Source {
    /// Makes a transaction.
    fn write(&mut self, txn: Txn, reply: Reply);
    /// Finds the newest state of a key.
    fn get(&mut self, key: Key, reply: Reply);
    /// Finds a revision that is at least that of every write acknowledged before.
    fn newest_revision(&mut self, reply: Reply);
    /// Compacts history up to a revision.
    fn compact(&mut self, upto: Revision, reply: Reply);
    /// Does what was begun and what is due, unless tasks do that. True: there is more to do.
    async fn turn(&mut self) -> bool;
    /// Waits until the queue wakes it, or until something is due.
    async fn sleep(&mut self);
}

/// Drives a source until the queue is closed and the commands left in it are begun. The queue wakes the source.
pub(super) async fn drive(source: &mut impl Source, commands: Arc<CommandQueue>, shards: Arc<dyn Shards>) {
    let replies = Rc::new(Replies { commands, shards, under_way: Cell::new(0) });
    loop {
        let closing = replies.commands.is_closing();
        let mut taken = 0;
        while taken < COMMANDS_PER_TURN
            && let Some(command) = replies.commands.take()
        {
            taken += 1;
            begin(source, command, &replies);
        }
        let more = source.turn().await;
        if more || taken > 0 {
            continue;
        }
        if closing {
            return;
        }
        source.sleep().await;
    }
}

fn begin(source: &mut impl Source, command: Command, replies: &Rc<Replies>) {
    let is_full = replies.under_way.get() >= UNDER_WAY_MAX;
    let (Command::Write(_, to) | Command::Get(_, to) | Command::Compact(_, to) | Command::Newest(to)) =
        command;
    let reply = Reply::new(to, matches!(command, Command::Write(..)), replies);
    match command {
        // A shard has at most one such request in progress.
        Command::Newest(_) => source.newest_revision(reply),
        _ if is_full => {
            let why = "too many requests wait for the source: try again";
            reply.fail(SourceError::new(Fault::Unavailable, why));
        }
        Command::Write(txn, _) => source.write(txn, reply),
        Command::Get(key, _) => source.get(key, reply),
        Command::Compact(upto, _) => source.compact(upto, reply),
    }
}

/// What all replies share.
struct Replies {
    commands: Arc<CommandQueue>,
    shards: Arc<dyn Shards>,
    under_way: Cell<usize>,
}

/// The answer that a command waits for. If it is dropped before it was sent, as by a request that panicked, the answer is that
/// the outcome is unknown.
pub(super) struct Reply {
    to: Asker,
    is_write: bool,
    is_sent: bool,
    replies: Rc<Replies>,
}

impl Reply {
    fn new(to: Asker, is_write: bool, replies: &Rc<Replies>) -> Self {
        replies.under_way.set(replies.under_way.get() + 1);
        Self { to, is_write, is_sent: false, replies: Rc::clone(replies) }
    }

    /// Answers.
    pub(super) fn send(mut self, answer: Answer) {
        self.answer(answer);
    }

    /// Answers that it was not done.
    pub(super) fn fail(mut self, error: SourceError) {
        self.answer(self.failed(error));
    }

    fn failed(&self, error: SourceError) -> Answer {
        if self.is_write { Answer::Refused(TxnError::Source(error)) } else { Answer::Unanswered(error) }
    }

    fn answer(&mut self, answer: Answer) {
        let Replies { commands, shards, .. } = &*self.replies;
        if self.is_write {
            let is_made = matches!(answer, Answer::Written(_));
            let count = if is_made { &commands.stats.writes } else { &commands.stats.refused };
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.is_sent = true;
        shards.answer(self.to, answer);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.replies.under_way.set(self.replies.under_way.get() - 1);
        if self.is_sent {
            return;
        }
        // The end of the process drops requests in progress, too.
        if std::thread::panicking() {
            crate::log::warn("a request to the source panicked");
        }
        let why = "revcast does not know what became of a request to its source: this is a bug";
        self.answer(self.failed(SourceError::new(Fault::Unknown, why)));
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Mutex;

    use futures_lite::future::block_on;

    use super::*;

    /// Shards that record their answers.
    #[derive(Default)]
    struct Told(Mutex<Vec<(u64, Answer)>>);

    impl Told {
        /// The tickets that were answered, in order, each with its answer as text.
        fn take(&self) -> Vec<(u64, String)> {
            let told = std::mem::take(&mut *self.0.lock().expect("sound"));
            told.into_iter().map(|(ticket, answer)| (ticket, format!("{answer:?}"))).collect()
        }
    }

    impl Shards for Told {
        fn wake_all(&self) {}
        fn answer(&self, to: Asker, answer: Answer) {
            self.0.lock().expect("sound").push((to.ticket, answer));
        }
    }

    /// A store that makes the writes of a turn together, delays compactions and panics when it is asked for a key.
    #[derive(Default)]
    struct Group {
        writes: Vec<Reply>,
        turns: Vec<usize>,
        compactions: Vec<Reply>,
        slept: usize,
        commands: Option<Arc<CommandQueue>>,
    }

    impl Source for Group {
        fn write(&mut self, _: Txn, reply: Reply) {
            self.writes.push(reply);
        }
        fn get(&mut self, _: Key, reply: Reply) {
            let broken = catch_unwind(AssertUnwindSafe(|| {
                let _reply = reply;
                panic!("a failing source");
            }));
            assert!(broken.is_err());
        }
        fn newest_revision(&mut self, reply: Reply) {
            reply.send(Answer::Newest { epoch: 0, revision: Revision::new(7) });
        }
        fn compact(&mut self, _: Revision, reply: Reply) {
            self.compactions.push(reply);
        }
        async fn turn(&mut self) -> bool {
            self.turns.push(self.writes.len());
            for reply in self.writes.drain(..) {
                reply.send(Answer::Written(Revision::new(8)));
            }
            false
        }
        async fn sleep(&mut self) {
            self.slept += 1;
            self.commands.as_ref().expect("set").close();
        }
    }

    fn asker(ticket: u64) -> Asker {
        Asker { shard: 0, ticket }
    }

    fn write(ticket: u64) -> Command {
        Command::Write(Txn { ops: Vec::new() }, asker(ticket))
    }

    fn driven(commands: &Arc<CommandQueue>, told: &Arc<Told>) -> Group {
        let mut source = Group { commands: Some(Arc::clone(commands)), ..Group::default() };
        let shards: Arc<dyn Shards> = Arc::<Told>::clone(told);
        block_on(drive(&mut source, Arc::clone(commands), shards));
        source
    }

    #[test]
    fn writes_that_wait_are_made_in_groups_and_all_are_answered() {
        let (commands, told) = (CommandQueue::new(), Arc::new(Told::default()));
        for ticket in 0..600 {
            commands.submit(write(ticket)).expect("room");
        }
        commands.submit(Command::Newest(asker(600))).expect("room");
        let source = driven(&commands, &told);
        assert_eq!(source.turns, [256, 256, 88, 0, 0]);
        assert_eq!(source.slept, 1, "it sleeps when nothing waits, and ends when the queue is closed");
        let mut answered: Vec<u64> = told.take().into_iter().map(|(ticket, _)| ticket).collect();
        answered.sort_unstable();
        assert_eq!(answered, (0..=600).collect::<Vec<u64>>());
        assert_eq!(commands.stats.writes.load(Ordering::Relaxed), 600);
    }

    #[test]
    fn a_request_that_broke_is_answered() {
        let (commands, told) = (CommandQueue::new(), Arc::new(Told::default()));
        let key = Key::new(revcast_engine::key::ResourceId::new(0), None, "name");
        commands.submit(Command::Get(key, asker(1))).expect("room");
        driven(&commands, &told);
        let told = told.take();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].1.contains("Unanswered") && told[0].1.contains("Unknown"), "{told:?}");
    }

    #[test]
    fn more_requests_than_may_be_under_way_are_told_to_come_back() {
        let (commands, told) = (CommandQueue::new(), Arc::new(Told::default()));
        let shards: Arc<dyn Shards> = Arc::<Told>::clone(&told);
        let replies = Rc::new(Replies { commands, shards, under_way: Cell::new(0) });
        let mut source = Group::default();
        let max = UNDER_WAY_MAX as u64;
        for ticket in 0..max {
            begin(&mut source, Command::Compact(Revision::ZERO, asker(ticket)), &replies);
        }
        begin(&mut source, write(max), &replies);
        begin(&mut source, Command::Newest(asker(max + 1)), &replies);
        let refused = told.take();
        assert_eq!((refused[0].0, refused[1].0, refused.len()), (max, max + 1, 2), "the revision is told");
        assert!(refused[0].1.contains("too many requests"), "{refused:?}");
        assert_eq!(replies.commands.stats.refused.load(Ordering::Relaxed), 1);
        source.compactions.truncate(1);
        begin(&mut source, write(0), &replies);
        assert_eq!(source.writes.len(), 1, "there is room again");
    }
}
