//! The history before the state that was loaded, read while that state is served (`--warm-start fast`).
//!
//! Owns a second watch, which repeats what led to the state, and the proof that it left nothing out. What it found goes to
//! `follow`, which puts it into the window. Nothing depends on it: as long as it is not there, and if it never comes, clients of
//! before the start get 410.

use std::rc::Rc;
use std::time::{Duration, Instant};

use etcd_client::{Client, GetOptions};
use revcast_engine::history::{Contradiction, History, OlderEvents, PastChange};
use revcast_engine::revision::Revision;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking, spawn_local};
use tokio::time::{interval, sleep};

use super::assembler::{Break, Coverage, Proof, RawBatch, RevisionAssembler};
use super::backoff::Backoff;
use super::context::EtcdContext;
use super::link::{Purpose, is_compacted};
use super::load::wall_seconds;
use super::oldest;
use super::segments::Segments;
use super::stop::Stop;
use super::stream::{Keys, Messages};
use super::write::number_of;
use crate::log;
use crate::progress::Step;
use crate::source::{Fault, SourceError};

/// Interval of the requests for progress.
const ASK: Duration = Duration::from_millis(100);
/// The longest time without progress: etcd reads all of the history for each message.
const STALL_MAX: Duration = Duration::from_secs(10);
/// The timeout for etcd to create the watch, and to count keys.
const WITHIN: Duration = Duration::from_secs(5);

/// A history that is being read. Dropped, it is not read further.
pub(super) struct Backfill {
    found: oneshot::Receiver<OlderEvents>,
    since: Instant,
    task: JoinHandle<()>,
}

impl Drop for Backfill {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Backfill {
    /// Begins to read the history of a state of this cluster.
    pub(super) fn start(
        context: &Rc<EtcdContext>,
        history: History,
        cluster: u64,
        coverage: Coverage,
    ) -> Self {
        let (sender, found) = oneshot::channel();
        let (context, end, from) = (Rc::clone(context), history.end(), Revision::ZERO);
        let history = Some(history);
        let mut reader = HistoryReader { context, cluster, coverage, history, end, from, more: 0 };
        let task = spawn_local(async move {
            match reader.read().await {
                // The follower may have another state by now.
                Ok(older) => drop(sender.send(older)),
                Err(stop) => log::warn(&format!(
                    "etcd's history is not added to the window ({stop}): watches from before the start must list again"
                )),
            }
        });
        Self { found, since: Instant::now(), task }
    }

    /// What was found, once, and how long it took.
    pub(super) fn take(&mut self) -> Option<(OlderEvents, Duration)> {
        self.found.try_recv().ok().map(|older| (older, self.since.elapsed()))
    }
}

/// Reads the history of one state.
struct HistoryReader {
    context: Rc<EtcdContext>,
    cluster: u64,
    coverage: Coverage,
    /// `None` while another thread has it.
    history: Option<History>,
    /// The revision of the state.
    end: Revision,
    /// What is kept begins after this revision, and by how many keys there are more since.
    from: Revision,
    more: i64,
}

impl Drop for HistoryReader {
    fn drop(&mut self) {
        self.context.progress().end_of(Step::Backfilling);
    }
}

impl HistoryReader {
    /// Reads it, from later in history with each attempt that fails.
    async fn read(&mut self) -> Result<OlderEvents, Stop> {
        self.context.progress().begin(Step::Backfilling);
        let mut backoff = Backoff::new();
        let mut failed = 0;
        loop {
            match self.attempt(failed).await {
                Err(stop) if can_be_repeated(&stop) && failed + 1 < oldest::ATTEMPTS_MAX => {
                    failed += 1;
                    sleep(backoff.next()).await;
                }
                ended => return ended,
            }
        }
    }

    async fn attempt(&mut self, failed: u32) -> Result<OlderEvents, Stop> {
        let end = self.end;
        let client = Box::pin(self.context.links.open(Purpose::Watch)).await?;
        let span = oldest::find(&self.context, &client, end, failed).await?;
        self.begin_after(span.from);
        let mut messages = self.watch(&client, span.from, failed).await?;
        let mut assembler = RevisionAssembler::new(self.cluster, self.coverage, span.from);
        let mut asking = interval(ASK);
        let (mut reached, mut advanced) = (span.from, Instant::now());
        while reached < end {
            tokio::select! {
                message = messages.received.recv() => {
                    let response = message.ok_or(Stop::Ended)??;
                    let mut proof = Proof::default();
                    let passed = assembler.handle(response, &mut proof);
                    if let Some(progress) = proof.progress {
                        (reached, advanced) = (progress, Instant::now());
                    }
                    self.take(proof.batches).await?;
                    passed.map_err(Stop::Broke)?;
                    let of = |revision: Revision| revision.get().saturating_sub(span.from.get());
                    self.context.progress().reach_of(Step::Backfilling, of(reached.min(end)), of(end));
                }
                _ = asking.tick() => {
                    if advanced.elapsed() > STALL_MAX {
                        return Err(Stop::Lags);
                    }
                    if self.coverage == (Coverage::Prefix { progress_on_request: true }) {
                        messages.request_progress()?;
                    }
                }
            }
        }
        self.count_keys().await?;
        let arrived = self.context.clock.now();
        self.off_thread(move |history| history.finish(wall_seconds(), arrived)).await
    }

    /// Forgets what was taken: nothing up to this revision is known.
    fn begin_after(&mut self, from: Revision) {
        (self.from, self.more) = (from, 0);
        if let Some(history) = &mut self.history {
            history.begin_after(from);
        }
    }

    /// A watch with the states before.
    async fn watch(&self, client: &Client, from: Revision, failed: u32) -> Result<Messages, Stop> {
        let keys = Keys::of(self.context.layout.prefix(), self.coverage, true);
        // The last attempt is as simple as it can be.
        let is_last = failed + 1 >= oldest::ATTEMPTS_MAX;
        let segments =
            if is_last { Segments::one(from.next()) } else { Segments::many(from.next(), self.end) };
        Messages::open(client, keys, segments, WITHIN).await
    }

    /// Takes some revisions. Where a state before is compacted by now, and where the resources that are served change, the
    /// history begins again.
    async fn take(&mut self, batches: Vec<RawBatch>) -> Result<(), Stop> {
        let context = Rc::clone(&self.context);
        let definitions = context.definitions.folder(&context.layout);
        let (mut told, end) = (Vec::with_capacity(batches.len()), self.end);
        for RawBatch { revision, events } in batches.into_iter().filter(|it| it.revision <= end) {
            let mut changes = Vec::with_capacity(events.len());
            let mut is_whole = true;
            let prefix = context.layout.prefix().as_bytes();
            for event in events.into_iter().filter(|it| it.key.starts_with(prefix)) {
                let is_new = event.value.is_some() && event.version == 1;
                self.more += i64::from(is_new) - i64::from(event.value.is_none());
                is_whole &= is_new || event.before.is_some();
                is_whole &= definitions.as_ref().is_none_or(|all| !event.key.starts_with(all.as_bytes()));
                if let Some(key) = context.layout.to_key(&event.key) {
                    changes.push(PastChange { key, value: event.value, before: event.before });
                }
            }
            if is_whole {
                told.push((revision, changes));
            } else {
                told.clear();
                self.begin_after(revision);
            }
        }
        if told.is_empty() {
            return Ok(());
        }
        self.off_thread(move |history| {
            told.into_iter().try_for_each(|(revision, changes)| history.take(revision, changes))
        })
        .await
    }

    /// Does something with the history on another thread: decoding takes time in which the newest revisions would wait.
    async fn off_thread<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut History) -> Result<T, Contradiction> + Send + 'static,
    ) -> Result<T, Stop> {
        let mut history = self.history.take().ok_or(Stop::Doubt)?;
        let done = spawn_blocking(move || (work(&mut history), history)).await;
        let (done, history) = done.unwrap_or_else(|broke| std::panic::resume_unwind(broke.into_panic()));
        self.history = Some(history);
        done.map_err(|contradiction| Stop::Differs(contradiction.to_string()))
    }

    /// Compares how many keys there were and are: etcd may leave out deletes (#18089, #19179).
    async fn count_keys(&self) -> Result<(), Stop> {
        let (told, found) = (self.count(self.from).await? + self.more, self.count(self.end).await?);
        if told == found {
            return Ok(());
        }
        Err(Stop::Differs(format!("{found} keys, where its history leads to {told}")))
    }

    async fn count(&self, at: Revision) -> Result<i64, SourceError> {
        let options = GetOptions::new().with_prefix().with_count_only().with_revision(number_of(at));
        let asked = self.context.calls.read(WITHIN, |mut client| {
            let options = options.clone();
            async move { client.get(self.context.layout.prefix(), Some(options)).await }
        });
        asked.await.map(|answer| answer.count())
    }
}

/// Whether another attempt may go better.
fn can_be_repeated(stop: &Stop) -> bool {
    match stop {
        Stop::Failed(error) => error.fault == Fault::Unavailable || is_compacted(error),
        Stop::Broke(broke) => {
            matches!(broke, Break::Compacted { .. } | Break::NoLeader | Break::Cancelled(_))
        }
        Stop::Lags | Stop::Ended => true,
        Stop::Differs(_) | Stop::Untold(_) | Stop::Slow | Stop::Doubt => false,
    }
}
