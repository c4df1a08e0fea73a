//! etcd as the source: a cache over a cluster that may misbehave.
//!
//! One thread with a runtime of its own (tokio lives here and nowhere else) drives everything: `follow` keeps a watch open
//! and the engine's publisher fed, `ingest` decides what a watch response proves, `load` reads the whole state in pages,
//! `pager` the size of a page, `replay` and `compare` whether etcd's history and state are still those that are served,
//! `newest` asks for the cluster's revision on behalf of all who wait, `write` makes transactions, `lease` the leases of
//! what must expire, `link` the connections. What is promised stands in `ingest` and `follow`; the rest moves messages.

mod assembler;
mod backoff;
mod compare;
mod context;
mod follow;
mod layout;
mod lease;
mod link;
mod load;
mod members;
mod options;
mod pager;
mod read_index;
mod replay;
mod stop;
mod stream;
mod version;
mod write;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::Notify;

pub use layout::Layout;
pub use members::{Member, ask_members};
pub use options::{EtcdOptions, WatchWish};

use context::EtcdContext;

use super::command_queue::{Answer, Asker, Command, CommandQueue, Shards};
use super::engine::Engine;
use super::epoch::Epochs;
use super::{Fault, SourceError, TxnError};
use crate::abort_on_panic::AbortOnPanic;
use crate::clock::Clock;

/// Requests to etcd that may be under way; more are told to come back.
const UNDER_WAY_MAX: usize = 4096;

/// Starts the thread. Nothing is served before the state is loaded, however long etcd is away.
///
/// # Errors
/// The system refuses another thread.
pub fn start(
    options: EtcdOptions,
    layout: Layout,
    engine: Engine,
    epochs: Arc<Epochs>,
    commands: Arc<CommandQueue>,
    shards: Arc<dyn Shards>,
    clock: Clock,
) -> std::io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    std::thread::Builder::new().name("etcd".into()).spawn(move || {
        let _vital = AbortOnPanic("the thread of etcd");
        let context = Rc::new(EtcdContext::new(options, layout, engine, epochs, commands, shards, clock));
        let tasks = tokio::task::LocalSet::new();
        let following = tasks.spawn_local(follow::follow(Rc::clone(&context)));
        let answering = tasks.spawn_local(read_index::answer(Rc::clone(&context)));
        tasks.block_on(&runtime, async {
            tokio::select! {
                () = serve(context) => {}
                // They never end, so they broke. A cache without them would be silently old: the process ends instead.
                broke = following => panic!("following etcd broke: {broke:?}"),
                broke = answering => panic!("asking etcd for its revision broke: {broke:?}"),
            }
        });
    })
}

/// Takes commands until the server has closed.
async fn serve(context: Rc<EtcdContext>) {
    let knocked = Arc::new(Notify::new());
    let wake = Arc::clone(&knocked);
    context.commands.set_waker(move || wake.notify_one());
    let under_way = Rc::new(Cell::new(0));
    while !context.commands.is_closing() {
        while let Some(command) = context.commands.take() {
            if let Command::Newest(asker) = command {
                context.askers.borrow_mut().push(asker);
                context.asked.notify_one();
                continue;
            }
            if under_way.get() >= UNDER_WAY_MAX {
                too_many(&context, &command);
                continue;
            }
            let (context, one) = (Rc::clone(&context), UnderWay::new(&under_way));
            tokio::task::spawn_local(async move {
                let _one = one;
                let (asker, shards) = (asker_of(&command), Arc::clone(&context.shards));
                // Whoever asked is answered, whatever happens.
                let task = tokio::task::spawn_local(carry_out(context, command));
                if let Err(broke) = task.await {
                    crate::log::warn(&format!("a request to etcd broke: {broke}"));
                    let why = "revcast does not know what became of a request to etcd: this is a bug";
                    shards.answer(
                        asker,
                        Answer::Refused(TxnError::Source(SourceError::new(Fault::Unknown, why))),
                    );
                }
            });
        }
        knocked.notified().await;
    }
}

async fn carry_out(context: Rc<EtcdContext>, command: Command) {
    match command {
        Command::Write(txn, asker) => write::write(context, txn, asker).await,
        Command::Get(key, asker) => write::get(context, key, asker).await,
        Command::Compact(upto, asker) => write::compact(context, upto, asker).await,
        // Taken by who waits for the question.
        Command::Newest(_) => {}
    }
}

/// A request that is under way until this goes.
struct UnderWay(Rc<Cell<usize>>);

impl UnderWay {
    fn new(count: &Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Self(Rc::clone(count))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

const fn asker_of(command: &Command) -> Asker {
    match command {
        Command::Write(_, asker)
        | Command::Get(_, asker)
        | Command::Compact(_, asker)
        | Command::Newest(asker) => *asker,
    }
}

fn too_many(context: &EtcdContext, command: &Command) {
    let error = SourceError::new(Fault::Unavailable, "too many requests wait for etcd: try again");
    let answer = match command {
        Command::Write(..) => Answer::Refused(TxnError::Source(error)),
        Command::Get(..) | Command::Compact(..) | Command::Newest(_) => Answer::Unanswered(error),
    };
    context.shards.answer(asker_of(command), answer);
}
