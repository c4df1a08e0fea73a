//! Many watchers, driven by a few threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::scope::Scope;
pub use super::watcher::Counts;
use super::watcher::Watcher;
use super::{MediaType, Workload};
use crate::history::{self, Log, Segment};
use crate::sim::rng::Rng;

const THREADS: usize = 2;
/// Time between two checks of the clock.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
/// The most frequent reads of replies: a burst is read at once.
const BREATH: Duration = Duration::from_millis(2);

/// What one of them received.
#[derive(Debug)]
pub struct Told {
    /// As in violations.
    pub name: String,
    /// Its scope.
    pub scope: Scope,
    /// What it asked for.
    pub accepts: MediaType,
    /// One per epoch.
    pub segments: Vec<Segment>,
    /// Counts.
    pub counts: Counts,
}

/// Checks the history of each against etcd's log; all were waited for up to `goal`. Returns the sum of their counts.
///
/// # Panics
/// A history breaks a rule.
#[track_caller]
#[must_use]
pub fn judge(told: Vec<Told>, log: Log, goal: u64) -> Counts {
    let logs = [log];
    let (mut violations, mut counts) = (Vec::new(), Counts::default());
    for Told { name, scope, mut segments, counts: its, .. } in told {
        counts = counts.plus(its);
        if let Some(last) = segments.last_mut() {
            last.reached = Some(goal);
        }
        let wants = move |key: &str, form: &[u8]| scope.wants(key, form);
        violations.extend(history::check(&logs, &[history::Watcher { name, wants: &wants, segments }]));
    }
    history::none(&violations);
    counts
}

/// Their current state.
#[derive(Clone, Debug, Default)]
struct Now {
    watching: usize,
    /// Of each: its epoch, and the revision up to which it is complete.
    reached: Vec<Option<(usize, u64)>>,
    counts: Counts,
    /// As text.
    lines: Vec<String>,
}

/// Watchers that run.
#[derive(Debug)]
pub struct Watchers {
    count: usize,
    calm: Arc<AtomicBool>,
    now: Arc<Mutex<Vec<Now>>>,
    threads: Vec<JoinHandle<Vec<Watcher>>>,
}

impl Watchers {
    /// Starts this many, with random scopes. A watch lasts for `life` at most before its client ends it.
    #[must_use]
    pub fn start(workload: &Arc<Workload>, count: usize, life: Duration, seed: u64) -> Self {
        Self::start_of(workload, count, life, seed, Scope::random)
    }

    /// The same, each with the scope of a single object: thousands of them keep up.
    #[must_use]
    pub fn start_narrow(workload: &Arc<Workload>, count: usize, life: Duration, seed: u64) -> Self {
        Self::start_of(workload, count, life, seed, Scope::of_one)
    }

    fn start_of(
        workload: &Arc<Workload>,
        count: usize,
        life: Duration,
        seed: u64,
        scope: fn(&mut Rng) -> Scope,
    ) -> Self {
        let life_ms = u64::try_from(life.as_millis()).unwrap_or(u64::MAX).max(300);
        let mut rng = Rng::new(seed);
        let mut shares: Vec<Vec<Watcher>> = (0..THREADS).map(|_| Vec::new()).collect();
        for number in 0..count {
            shares[number % THREADS].push(Watcher::new(
                number,
                life_ms,
                workload.media_type(),
                scope,
                &mut rng,
            ));
        }
        let calm = Arc::new(AtomicBool::new(false));
        let now = Arc::new(Mutex::new(vec![Now::default(); THREADS]));
        let drive = |(index, watchers): (usize, Vec<Watcher>)| {
            let (workload, calm, now) = (Arc::clone(workload), Arc::clone(&calm), Arc::clone(&now));
            std::thread::spawn(move || drive(watchers, &workload, &calm, &now, index))
        };
        let threads = shares.into_iter().enumerate().map(drive).collect();
        Self { count, calm, now, threads }
    }

    /// Waits until all of them have a stream, and everything up to a revision of an epoch.
    ///
    /// # Errors
    /// Not in time: which ones, at most three.
    pub fn await_all(&self, epoch: usize, revision: u64, within: Duration) -> Result<(), String> {
        let deadline = Instant::now() + within;
        loop {
            let now = self.look();
            let has = |reached: &Option<(usize, u64)>| {
                reached.is_some_and(|(of, at)| of == epoch && at >= revision)
            };
            let missing: Vec<&String> = now
                .reached
                .iter()
                .zip(&now.lines)
                .filter(|(reached, _)| !has(reached))
                .map(|(_, line)| line)
                .collect();
            // Some are always between two streams.
            if now.reached.len() == self.count && missing.is_empty() && now.watching * 10 > self.count * 8 {
                return Ok(());
            }
            if Instant::now() > deadline {
                let some: Vec<String> = missing.iter().take(3).map(|line| (*line).clone()).collect();
                return Err(format!(
                    "{} of {} watchers have not reached {revision} of epoch {epoch} in {within:?}, {} have a stream: {}",
                    missing.len(),
                    self.count,
                    now.watching,
                    some.join("; ")
                ));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Counts of all together.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.look().counts
    }

    /// They end no watch any more.
    pub fn calm(&self) {
        self.calm.store(true, Ordering::SeqCst);
    }

    /// What they received, at the end of the test.
    ///
    /// # Panics
    /// When one of their threads did.
    #[must_use]
    pub fn finish(self) -> Vec<Told> {
        let told = |watcher: Watcher| Told {
            name: watcher.name,
            scope: watcher.scope,
            accepts: watcher.accepts,
            segments: watcher.segments,
            counts: watcher.counts,
        };
        let join = |thread: JoinHandle<Vec<Watcher>>| thread.join().expect("its watchers are driven");
        self.threads.into_iter().flat_map(join).map(told).collect()
    }

    fn look(&self) -> Now {
        let shares = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        shares.iter().fold(Now::default(), |mut all, share| {
            all.watching += share.watching;
            all.reached.extend(&share.reached);
            all.lines.extend(share.lines.iter().cloned());
            all.counts = all.counts.plus(share.counts);
            all
        })
    }
}

fn drive(
    mut watchers: Vec<Watcher>,
    workload: &Workload,
    calm: &AtomicBool,
    shared: &Mutex<Vec<Now>>,
    index: usize,
) -> Vec<Watcher> {
    let mut shown = Instant::now();
    while !workload.is_over() {
        let waiting: Vec<usize> =
            (0..watchers.len()).filter(|number| watchers[*number].exchange().is_some()).collect();
        let mut polled: Vec<PollFd<'_>> = waiting
            .iter()
            .filter_map(|number| watchers[*number].exchange())
            .map(|exchange| PollFd::from_borrowed_fd(exchange.fd(), PollFlags::IN))
            .collect();
        // Interrupted: then nothing arrived.
        let _ = poll(&mut polled, Some(&TICK));
        let came = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let came: Vec<usize> =
            waiting.iter().zip(&polled).filter(|(_, fd)| came(fd)).map(|(number, _)| *number).collect();
        let now = Instant::now();
        for number in came {
            watchers[number].handle_bytes(workload, now);
        }
        let calm = calm.load(Ordering::SeqCst);
        for watcher in &mut watchers {
            watcher.handle_time(workload, now, calm);
        }
        if now.duration_since(shown) > Duration::from_millis(50) {
            shown = now;
            let share = Now {
                watching: watchers.iter().filter(|watcher| watcher.is_watching()).count(),
                reached: watchers.iter().map(Watcher::reached).collect(),
                counts: watchers.iter().fold(Counts::default(), |all, watcher| all.plus(watcher.counts)),
                lines: watchers.iter().map(Watcher::describe).collect(),
            };
            shared.lock().unwrap_or_else(PoisonError::into_inner)[index] = share;
        }
        std::thread::sleep(BREATH);
    }
    watchers
}
