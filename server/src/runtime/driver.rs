//! One core: its executor, and the loop that drives its shard.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use futures_lite::future;
use glommio::timer::sleep;
use glommio::{ExecutorJoinHandle, LocalExecutorBuilder, Placement};
use revcast_engine::Turn;

use super::accept::{accept, start, start_request};
use super::conn::Link;
use super::delegation::follow;
use super::http1::connection::go_on;
use super::http2;
use super::listener::Listeners;
use super::options::SendMode;
use super::run_error::RunError;
use super::shard::local::Local;
use super::shared::{RequestGuard, Shared};
use super::sys::descriptor;
use super::sys::polls::Polls;
use super::sys::sends::Sends;
use crate::abort_on_panic::AbortOnPanic;

/// The size of glommio's registered buffers, which only file I/O would use: the smallest that glommio accepts.
const IO_MEMORY_BYTES: usize = 512 << 10;
const RING_DEPTH: usize = 512;
/// The interval of glommio's preemption timer; it never fires. glommio 0.9 parks although tasks are ready if the timer has
/// fired before it runs the first of them, which happens to a thread that is descheduled at that moment; at worst the shard
/// never begins. Tasks yield by themselves instead, and make the executor poll its rings.
const PREEMPT: Duration = Duration::from_secs(24 * 3600);
/// How often a closing shard checks whether all requests and watches have ended.
const CLOSING_POLL: Duration = Duration::from_millis(5);
/// The longest sleep. It limits the delay of a missed wake-up, and the watchdog sees a turn in each of its intervals. A wake-up
/// costs some 160 µs: ten per second would be a sixth of the budget of 19,000 idle watches.
const SLEEP_MAX: Duration = Duration::from_millis(500);

/// Starts the executor of one shard.
pub(super) fn spawn(
    number: usize,
    cpu: Option<usize>,
    shared: Arc<Shared>,
    ready: Sender<Result<(), RunError>>,
) -> Result<ExecutorJoinHandle<Result<(), RunError>>, RunError> {
    let placement = cpu.map_or(Placement::Unbound, Placement::Fixed);
    LocalExecutorBuilder::new(placement)
        .name(&format!("shard-{number}"))
        .io_memory(IO_MEMORY_BYTES)
        .ring_depth(RING_DEPTH)
        .preempt_timer(PREEMPT)
        .spawn(move || run(number, shared, ready))
        .map_err(|error| RunError::new(format!("shard {number} cannot start: {error}")))
}

async fn run(
    number: usize,
    shared: Arc<Shared>,
    ready: Sender<Result<(), RunError>>,
) -> Result<(), RunError> {
    let _vital = AbortOnPanic("a shard");
    let prepared = prepare(number, shared);
    // The server waits until every shard has reported.
    let _ = ready.send(prepared.as_ref().map(|_| ()).map_err(Clone::clone));
    drop(ready);
    drive(&prepared?).await;
    Ok(())
}

/// Creates everything that a shard needs, and the tasks that feed it.
fn prepare(number: usize, shared: Arc<Shared>) -> Result<Rc<Local>, RunError> {
    let broken = |what: &str, error: &dyn std::fmt::Display| {
        RunError::new(format!("shard {number}: {what}: {error}; run `revcast doctor`"))
    };
    let wake = &shared.handles.0[number].wake;
    let polls = Polls::new(wake.descriptor()).map_err(|error| broken("its own io_uring", &error))?;
    let eventfd = wake.descriptor().try_clone_to_owned().map_err(|error| broken("its eventfd", &error))?;
    let sends = match shared.options.send_mode {
        SendMode::Send => None,
        SendMode::IoUring => Some(Sends::new().map_err(|error| broken("an io_uring that sends", &error))?),
        SendMode::Auto => match Sends::new() {
            Ok(sends) => Some(sends),
            Err(error) => {
                crate::log::info(&format!("shard {number} sends with send(2), its io_uring cannot: {error}"));
                None
            }
        },
    };
    let listeners = Polls::of_few(wake.descriptor()).map_err(|error| broken("its own io_uring", &error))?;
    let local = Local::new(number, Arc::clone(&shared), polls, sends, Listeners::new(listeners));

    let woken = Rc::clone(&local);
    glommio::spawn_local(async move {
        let eventfd = descriptor::readable(eventfd);
        loop {
            // The counter is read to reset it; its value is ignored.
            if let Err(error) = eventfd.read_at(0, 8).await {
                crate::log::warn(&format!("shard {number} cannot read its eventfd, trying again: {error}"));
                sleep(SLEEP_MAX).await;
            }
            woken.notify.ring();
            woken.has_looked();
        }
    })
    .detach();
    if number == 0 && local.shared.app.guard().delegated().is_some() {
        glommio::spawn_local(follow(Rc::clone(&local))).detach();
    }
    Ok(local)
}

/// Turns the shard until the server has closed and all requests and watches have ended.
async fn drive(local: &Rc<Local>) {
    let mut closing_since = None;
    loop {
        let began = local.now();
        local.have_run(began);
        local.absorb();
        for listener in local.take_new_listeners() {
            glommio::spawn_local(accept(Rc::clone(local), listener)).detach();
        }
        let (turn, released) = {
            let mut core = local.core.borrow_mut();
            (core.turn(local.now()), core.take_released())
        };
        // Only after the borrow: a task that is started runs at once, and may borrow the shard itself.
        for link in released {
            resume(local, link);
        }
        start_requests(local);
        let turn = local.core.borrow_mut().publish(turn);
        local.handle().heartbeat.fetch_add(1, Ordering::Relaxed);
        if local.closing() {
            // Shards exit together: a shard that exited could not carry a watch that another one still hands over.
            let handed_over = local.shared.handover.since();
            let since = *closing_since.get_or_insert_with(|| handed_over.unwrap_or_else(Instant::now));
            if local.shared.handles.are_idle() || since.elapsed() >= local.shared.options.drain_grace {
                local.core.borrow_mut().cut();
                local.handle().has_left.store(true, Ordering::Relaxed);
                return;
            }
        }
        let mut until = match turn {
            Turn::Again => {
                local.let_through(false, began);
                future::yield_now().await;
                look_if_due(local).await;
                continue;
            }
            Turn::Sleep { until } => local.rest(until).map_or(SLEEP_MAX, |rest| rest.min(SLEEP_MAX)),
        };
        if closing_since.is_some() {
            until = until.min(CLOSING_POLL);
        }
        if local.let_through(true, began) {
            future::yield_now().await;
            look_if_due(local).await;
            continue;
        }
        let wake = &local.handle().wake;
        wake.prepare_sleep();
        if !local.has_work() {
            notified(local, until).await;
        }
        wake.cancel_sleep();
        if local.handshakes.is_busy() {
            // One step after the other is ready, and the executor does not sleep.
            look_if_due(local).await;
        }
    }
}

/// Makes the executor poll its rings if it has not for long.
async fn look_if_due(local: &Local) {
    if !local.must_look() {
        return;
    }
    // Through the kernel: the executor notices the eventfd only when it polls its rings.
    local.handle().wake.ring();
    let give_up = local.now().plus(SLEEP_MAX);
    while local.is_looking() && local.now() < give_up {
        notified(local, SLEEP_MAX).await;
    }
    local.has_looked();
}

/// Starts requests that came over HTTP/2.
fn start_requests(local: &Rc<Local>) {
    loop {
        let next = local.core.borrow_mut().conns().next_request(local.now());
        let Some(request) = next else { return };
        start_request(local, http2::serve(Rc::clone(local), request));
    }
}

/// Waits for a notification, at most for `patience`.
async fn notified(local: &Local, patience: Duration) {
    future::or(local.notify.notified(), async {
        sleep(patience).await;
    })
    .await;
}

/// A watch has ended and its connection carries requests again.
fn resume(local: &Rc<Local>, link: Link) {
    if local.closing() && !local.has_successor() && link.unsent.is_empty() && link.tls.is_none() {
        return;
    }
    // Counted from now on: a server that closes waits until everything pending is sent.
    let guard = RequestGuard::new(&local.shared, local.number);
    start(local, go_on(Rc::clone(local), link, guard));
}
