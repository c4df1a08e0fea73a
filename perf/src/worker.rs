//! A worker: takes commands from one pipe, runs its lanes, and sends their reports into another. It is a thread of the
//! coordinator, or a process of its own (`revcast-perf worker`, commands on stdin, reports on stdout), because one process
//! may have only so many descriptors.

use crate::child::{messages, send};
use crate::lane::{Lane, Signals};
use crate::message::{Command, Report};
use std::io::{Read, Write};
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::sync::{Arc, PoisonError};
use std::thread;

/// Runs until every lane is done, or the coordinator is gone.
pub(crate) fn run(commands: impl Read + Send + 'static, mut reports: impl Write) {
    let mut commands = messages(commands);
    let Some(Ok(Command::Open(plan))) = commands.next() else {
        let message = "a worker is started by revcast-perf fanout, not by hand".to_owned();
        let _gone = send(&mut reports, &Report::Failed { message });
        return;
    };
    let (plan, signals) = (Arc::new(plan), Arc::new(Signals::default()));
    let listener = Arc::clone(&signals);
    thread::spawn(move || {
        for command in commands {
            match command {
                Ok(Command::Measure { from_ns }) => {
                    listener.measure_from_ns.store(from_ns, Ordering::Release);
                }
                Ok(command @ (Command::Window { .. } | Command::Cut(_))) => {
                    listener.commands.write().unwrap_or_else(PoisonError::into_inner).push(command);
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
    let start = |number| {
        let (plan, signals, reports) = (Arc::clone(&plan), Arc::clone(&signals), sender.clone());
        thread::spawn(move || {
            let lane = Lane::new(number, plan, signals, reports.clone());
            let outcome = lane.map_err(|fault| format!("epoll: {fault}")).and_then(Lane::run);
            if let Err(message) = outcome {
                let _gone = reports.send(Report::Failed { message });
            }
        })
    };
    let lanes: Vec<_> = (0..plan.threads).map(start).collect();
    drop(sender);
    for report in receiver {
        if send(&mut reports, &report).is_err() {
            signals.abandoned.store(true, Ordering::Relaxed);
        }
    }
    if lanes.into_iter().any(|lane| lane.join().is_err()) {
        let message = "a lane of watchers panicked: this is a bug of revcast-perf".to_owned();
        let _gone = send(&mut reports, &Report::Failed { message });
    }
}
