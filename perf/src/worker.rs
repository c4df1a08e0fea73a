//! A worker: takes commands from one pipe, runs its lanes, and sends their reports into another. It runs as a thread of
//! the coordinator, or as a process of its own (`revcast-perf worker`, commands on stdin, reports on stdout), because
//! one process may have only so many descriptors.

use crate::lane::{Lane, Signals};
use crate::message::{Command, Plan, Report};
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::thread;

/// Runs until every lane is done, or the coordinator is gone.
pub(crate) fn run(commands: impl Read + Send + 'static, mut reports: impl Write) {
    let mut lines = BufReader::new(commands).lines();
    let plan = match lines.next().and_then(Result::ok).map(|line| serde_json::from_str(&line)) {
        Some(Ok(Command::Open(plan))) => Arc::new(plan),
        Some(Ok(_) | Err(_)) | None => {
            let message = "a worker is started by revcast-perf fanout, not by hand".to_owned();
            let _gone = send(&mut reports, &Report::Failed { message });
            return;
        }
    };
    let signals = Arc::new(Signals {
        measure_from_ns: AtomicU64::new(u64::MAX),
        told: RwLock::new(Vec::new()),
        finish: OnceLock::new(),
        abandoned: AtomicBool::new(false),
    });
    let listener = Arc::clone(&signals);
    // Ends with the pipe: when the coordinator closes it, or dies.
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            match serde_json::from_str(&line) {
                Ok(Command::Measure { from_ns }) => {
                    listener.measure_from_ns.store(from_ns, Ordering::Release)
                }
                Ok(told @ (Command::Window { .. } | Command::Cut(_))) => {
                    listener.told.write().unwrap_or_else(PoisonError::into_inner).push(told);
                }
                Ok(Command::Finish(finish)) => {
                    let _kept = listener.finish.set(finish);
                }
                Ok(Command::Open(_)) | Err(_) => break,
            }
        }
        listener.abandoned.store(true, Ordering::Relaxed);
    });
    let (sender, receiver) = channel();
    let lanes: Vec<_> =
        (0..plan.threads).map(|number| start_lane(number, &plan, &signals, &sender)).collect();
    drop(sender);
    for report in receiver {
        if send(&mut reports, &report).is_err() {
            signals.abandoned.store(true, Ordering::Relaxed);
        }
    }
    for lane in lanes {
        if lane.join().is_err() {
            let message = "a lane of watchers panicked: this is a bug of revcast-perf".to_owned();
            let _gone = send(&mut reports, &Report::Failed { message });
        }
    }
}

fn start_lane(
    number: u32,
    plan: &Arc<Plan>,
    signals: &Arc<Signals>,
    reports: &Sender<Report>,
) -> thread::JoinHandle<()> {
    let (plan, signals, reports) = (Arc::clone(plan), Arc::clone(signals), reports.clone());
    thread::spawn(move || {
        let outcome = Lane::new(number, plan, signals, reports.clone())
            .map_err(|fault| format!("epoll: {fault}"))
            .and_then(Lane::run);
        if let Err(message) = outcome {
            let _gone = reports.send(Report::Failed { message });
        }
    })
}

fn send(reports: &mut impl Write, report: &Report) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    reports.write_all(&line)?;
    reports.flush()
}
