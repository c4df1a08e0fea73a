//! etcd as the source: a cache over a cluster that may misbehave.
//!
//! One thread with its own runtime (tokio, which the server uses nowhere else) drives everything: `follow` keeps a watch open and the engine
//! fed, `assembler` decides what a watch response proves, `load` reads the whole state in pages, `pager` sets the size of a
//! page, `oldest` finds where history begins, `segments` reads it by several watches at once, `backfill` does while the state is
//! served, `definitions` knows the resources that the cluster defines itself, `replay` and `compare` check whether etcd's history and state are still those that are served,
//! `read_index` requests the cluster's revision for all readers that wait, `write` makes transactions, `lease` the leases of objects
//! that expire, `link` the connections. `census` counts what the keys hold, `survey` reads them once for the doctor, and `overrides` names
//! what is kept in another etcd. `assembler` and `follow` implement the guarantees; the rest moves messages.

mod assembler;
mod backfill;
mod backoff;
mod census;
mod compare;
mod context;
mod definitions;
mod follow;
mod followed;
mod layout;
mod lease;
mod link;
mod load;
mod members;
mod oldest;
mod options;
mod overrides;
mod pager;
mod read_index;
mod replay;
mod segments;
mod stop;
mod stream;
mod survey;
mod version;
mod write;

use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use revcast_engine::key::Key;
use revcast_engine::revision::Revision;
use tokio::sync::Notify;
use tokio::task::spawn_local;

pub use census::{Census, Unread};
pub use layout::Layout;
pub use members::{Member, ask_members};
pub use options::{EtcdOptions, WarmStart, WatchWish};
pub use overrides::{OtherEtcds, Override};
pub use survey::{Survey, survey};

use context::EtcdContext;

use super::Txn;
use super::command_queue::{CommandQueue, Shards};
use super::driver::{Reply, Source, drive};
use super::engine::Engine;
use super::epoch::Epochs;
use crate::abort_on_panic::AbortOnPanic;
use crate::clock::Clock;

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
        let context = Rc::new(EtcdContext::new(
            options,
            layout,
            engine,
            epochs,
            Arc::clone(&commands),
            Arc::clone(&shards),
            clock,
        ));
        let tasks = tokio::task::LocalSet::new();
        let following = tasks.spawn_local(follow::follow(Rc::clone(&context)));
        let answering = tasks.spawn_local(read_index::answer(Rc::clone(&context)));
        tasks.block_on(&runtime, async {
            let woken = Arc::new(Notify::new());
            let wake = Arc::clone(&woken);
            commands.set_waker(move || wake.notify_one());
            let mut source = EtcdSource { context, woken };
            tokio::select! {
                () = drive(&mut source, commands, shards) => {}
                // They never return, so they panicked. Without them the cache would become stale unnoticed: the process ends
                // instead.
                broke = following => panic!("following etcd broke: {broke:?}"),
                broke = answering => panic!("asking etcd for its revision broke: {broke:?}"),
            }
        });
    })
}

/// etcd, as its thread drives it: requests are tasks, and so is the follower of the watch.
struct EtcdSource {
    context: Rc<EtcdContext>,
    woken: Arc<Notify>,
}

impl Source for EtcdSource {
    fn write(&mut self, txn: Txn, reply: Reply) {
        let context = Rc::clone(&self.context);
        spawn_local(async move { reply.send(write::write(&context, &txn).await) });
    }

    fn get(&mut self, key: Key, reply: Reply) {
        let context = Rc::clone(&self.context);
        spawn_local(async move { reply.send(write::get(&context, &key).await) });
    }

    fn newest_revision(&mut self, reply: Reply) {
        self.context.questions.borrow_mut().push(reply);
        self.context.asked.notify_one();
    }

    fn compact(&mut self, upto: Revision, reply: Reply) {
        let context = Rc::clone(&self.context);
        spawn_local(async move { reply.send(write::compact(&context, upto).await) });
    }

    async fn turn(&mut self) -> bool {
        false
    }

    async fn sleep(&mut self) {
        self.woken.notified().await;
    }
}
