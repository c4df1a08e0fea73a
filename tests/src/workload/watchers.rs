//! Many watchers, driven by a few threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::Timespec;

use super::exchange::Exchange;
use super::scope::Scope;
pub use super::watcher::Counts;
use revcast_sim::rng::Rng;

use super::watcher::Watcher;
use super::wire::Wire;
use super::{MediaType, Workload};
use crate::history::{self, Log, Segment};

const THREADS: usize = 2;
/// Time between two checks of the clock.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
/// The most frequent reads of replies, and how much less often with each watcher: a burst is read at once, and thousands leave
/// the machine to the server.
const BREATH: Duration = Duration::from_millis(2);
const BREATH_EACH: Duration = Duration::from_micros(2);
/// How many are described, of those that have reached least.
const DESCRIBED: usize = 3;

/// Clients of one sort.
#[derive(Clone, Debug)]
pub struct Clients {
    /// How many.
    pub count: usize,
    /// Most time that a watch lasts before its client ends it.
    pub life: Duration,
    /// Whether each has the scope of a single object: thousands of them keep up. Otherwise their scopes are random.
    pub is_narrow: bool,
    /// How they reach the server.
    pub wire: Wire,
}

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
        let keys = scope.keys().to_owned();
        if let Some(last) = segments.last_mut() {
            last.reached = Some(goal);
        }
        let wants = move |key: &str, form: &[u8]| scope.wants(key, form);
        violations.extend(history::check(&logs, &[history::Watcher { name, keys, wants: &wants, segments }]));
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
    /// Some of those that have reached least, as text.
    last: Vec<(Option<(usize, u64)>, String)>,
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
        Self::start_as(workload, &Clients { count, life, is_narrow: false, wire: Wire::default() }, seed)
    }

    /// Starts these.
    #[must_use]
    pub fn start_as(workload: &Arc<Workload>, clients: &Clients, seed: u64) -> Self {
        raise_nofile();
        let Clients { count, life, is_narrow, wire } = clients;
        let (count, life_ms) = (*count, u64::try_from(life.as_millis()).unwrap_or(u64::MAX).max(300));
        let mut rng = Rng::new(seed);
        let mut shares: Vec<Vec<Watcher>> = (0..THREADS).map(|_| Vec::new()).collect();
        for number in 0..count {
            let mut rng = rng.fork();
            let scope =
                if *is_narrow { Scope::of_one(workload.names(), &mut rng) } else { Scope::random(&mut rng) };
            let watcher = Watcher::new(number, life_ms, workload.media_type(), scope, rng);
            shares[number % THREADS].push(watcher.over(wire));
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
            let missing = now.reached.iter().filter(|reached| !has(reached)).count();
            // Some are always between two streams.
            if now.reached.len() == self.count && missing == 0 && now.watching * 10 >= self.count * 8 {
                return Ok(());
            }
            if Instant::now() > deadline {
                let some: Vec<&str> = now.last.iter().map(|(_, line)| line.as_str()).collect();
                return Err(format!(
                    "{} of {} watchers have not reached {revision} of epoch {epoch} in {within:?}, {} have a stream: {}",
                    missing,
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
            all.last.extend(share.last.iter().cloned());
            all.last.sort();
            all.last.truncate(DESCRIBED);
            all.counts = all.counts.plus(share.counts);
            all
        })
    }
}

/// Each watcher has a socket: of these there may be as many as the system allows this process.
fn raise_nofile() {
    let limits = getrlimit(Resource::Nofile);
    // What it does not allow is seen when one is missing.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits });
}

fn drive(
    mut watchers: Vec<Watcher>,
    workload: &Workload,
    calm: &AtomicBool,
    shared: &Mutex<Vec<Now>>,
    index: usize,
) -> Vec<Watcher> {
    let mut shown = Instant::now();
    let breath = BREATH.max(BREATH_EACH * u32::try_from(watchers.len()).unwrap_or(u32::MAX));
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
        let has_news = |number: &usize| watchers[*number].exchange().is_some_and(Exchange::has_news);
        let came: Vec<usize> = waiting
            .iter()
            .zip(&polled)
            .filter(|(number, fd)| came(fd) || has_news(number))
            .map(|(number, _)| *number)
            .collect();
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
                last: last(&watchers),
            };
            shared.lock().unwrap_or_else(PoisonError::into_inner)[index] = share;
        }
        std::thread::sleep(breath);
    }
    watchers
}

/// Those that have reached least.
fn last(watchers: &[Watcher]) -> Vec<(Option<(usize, u64)>, String)> {
    let mut numbers: Vec<usize> = (0..watchers.len()).collect();
    let reached = |number: &usize| watchers[*number].reached();
    if numbers.len() > DESCRIBED {
        numbers.select_nth_unstable_by_key(DESCRIBED, reached);
        numbers.truncate(DESCRIBED);
    }
    numbers.iter().map(|number| (reached(number), watchers[*number].describe())).collect()
}
