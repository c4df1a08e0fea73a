//! `revcast demo`: a server with a small cluster in its memory, objects that change, and some hundred watchers, so that
//! somebody sees fan-out.
//!
//! It owns clients of the server in this process: one that writes and many that watch, over HTTP and the loopback, on one
//! thread with tokio. They know nothing of the server but its address. Only they judge whether an event was lost.

mod browser;
mod cluster;
mod connection;
mod ledger;
mod options;
mod report;
mod tally;
mod view;
mod watcher;
mod world;
mod writer;

use std::cell::Cell;
use std::io::Write;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::LocalSet;

use cluster::Cluster;
use connection::Connection;
pub use options::{Options, TAKEN, configuration};
use report::{Second, Stage, Summary};
use tally::Latencies;
use world::World;
use writer::Writer;

/// Between two lines.
const SECOND: Duration = Duration::from_secs(1);
/// Within this time every watcher is connected, or the demo says why not.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);
/// After the last write, events may still be on their way for so long.
const DELIVER_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks whether something has happened.
const LOOK: Duration = Duration::from_millis(5);
/// Descriptors of a watcher: its end of the connection and the server's.
const DESCRIPTORS: usize = 2;
/// Connections that are left for others: a browser, kubectl, the writer.
const SPARE: usize = 16;

/// A server that runs, for its demo.
#[derive(Clone, Debug)]
pub struct Server {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where its page is.
    pub admin: SocketAddr,
    /// How many watchers the limit of open files allows, if others hold their connections.
    pub watchers_max: usize,
    /// Whether this binary has `revcast top`.
    pub has_top: bool,
    /// What else to say at the start.
    pub notes: Vec<String>,
}

/// Ends a demo from another thread.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Notify>);

impl Stop {
    /// The demo ends: events that are on their way are still awaited.
    pub fn now(&self) {
        self.0.notify_one();
    }
}

/// Runs the demo until it is over or stopped, and prints what happens.
///
/// # Errors
/// An event was lost or came out of order; the watchers cannot connect; there are no descriptors, or no runtime.
pub fn run(options: &Options, server: Server, stop: &Stop) -> Result<(), String> {
    let most = server.watchers_max.saturating_sub(SPARE) / DESCRIPTORS;
    if most == 0 {
        return Err(
            "demo: the limit of open files leaves no room for watchers: raise it: ulimit -n 4096".to_owned()
        );
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("demo: {error}: raise nofile (ulimit -n)"))?;
    let mut notes = server.notes;
    let watchers = options.watchers.min(most);
    if watchers < options.watchers {
        notes.push(format!(
            "{watchers} watchers instead of {}: the limit of open files allows no more (ulimit -n {})",
            options.watchers,
            (options.watchers + SPARE) * DESCRIPTORS + 1024
        ));
    }
    let stage = Stage {
        listen: server.listen,
        admin: server.admin,
        watchers,
        writes: options.writes,
        objects: 0,
        notes,
        has_top: server.has_top,
    };
    LocalSet::new().block_on(&runtime, play(options, stage, &stop.0))
}

/// From the first object to the summary.
async fn play(options: &Options, mut stage: Stage, stop: &Notify) -> Result<(), String> {
    let show = |text: String, json: String| print(if options.json { &json } else { &text });
    let failed = |why: String| format!("demo: {why}");
    let mut cluster = Cluster::new(fastrand::u64(..), writer::now());
    let mut writer = Writer::new(Connection::open(stage.listen).await.map_err(failed)?);
    stage.objects = writer.fill(&mut cluster).await.map_err(failed)?;
    let browser = browser::open(&stage.page(), options.open);
    show(stage.text(browser.as_deref()), stage.json());

    let world = Rc::new(World::new(stage.listen, stage.watchers));
    for number in 0..stage.watchers {
        let world = Rc::clone(&world);
        tokio::task::spawn_local(async move { watcher::follow(&world, number).await });
    }
    let is_over = Rc::new(Cell::new(!connect(&world, stop).await.map_err(failed)?));
    let began = Instant::now();
    let mut latencies = Latencies::default();
    if !is_over.get() {
        let (its, over, rate) = (Rc::clone(&world), Rc::clone(&is_over), options.writes);
        let writes = async move { writer.run(&its, &mut cluster, rate, || over.get()).await };
        let writing = tokio::task::spawn_local(writes);
        watch_it(&world, (began, options.duration), &mut latencies, stop, show).await;
        is_over.set(true);
        // It panics only if the demo has a bug, which its message has said.
        let _ = writing.await;
    }
    let elapsed = began.elapsed();
    let patience = Instant::now() + DELIVER_WITHIN;
    while world.owed() > 0 && Instant::now() < patience {
        tokio::time::sleep(LOOK).await;
    }
    // Those of the last moments.
    world.latencies(&mut latencies);
    let (owed, last_fault) = (world.owed(), world.last_fault());
    let summary = Summary { elapsed, counts: world.counts(), owed, latencies, last_fault };
    show(summary.text(), summary.json());
    summary.failure().map_or(Ok(()), Err)
}

/// Waits until every watcher watches. Whether the demo goes on.
async fn connect(world: &World, stop: &Notify) -> Result<bool, String> {
    let patience = Instant::now() + CONNECT_WITHIN;
    while world.watching() < world.watchers() {
        if Instant::now() > patience {
            let why = world.last_fault().unwrap_or_else(|| "the server does not answer".to_owned());
            return Err(format!(
                "{} of {} watchers are connected: {why}",
                world.watching(),
                world.watchers()
            ));
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = stop.notified() => return Ok(false),
        }
    }
    Ok(true)
}

/// Prints a line a second, until the demo is over.
async fn watch_it(
    world: &World,
    (began, duration): (Instant, Option<Duration>),
    latencies: &mut Latencies,
    stop: &Notify,
    show: impl Fn(String, String),
) {
    let mut before = (Instant::now(), world.counts());
    for number in 0.. {
        let left = duration.map(|duration| duration.saturating_sub(began.elapsed()));
        tokio::select! {
            () = tokio::time::sleep(left.unwrap_or(SECOND).min(SECOND)) => {}
            () = stop.notified() => return,
        }
        // Also forgets what every watcher has.
        world.owed();
        let now = (Instant::now(), world.counts());
        let second = Second {
            number,
            elapsed: began.elapsed(),
            length: now.0.duration_since(before.0),
            before: before.1,
            after: now.1.clone(),
            latencies: world.latencies(latencies),
            watching: world.watching(),
        };
        show(second.text(), second.json());
        before = now;
        if duration.is_some_and(|duration| began.elapsed() >= duration) {
            return;
        }
    }
}

/// Prints to stdout; a closed reader is not an error.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
