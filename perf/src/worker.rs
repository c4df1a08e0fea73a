//! A worker: takes commands from one pipe, runs its lanes, and sends their reports into another. It is a thread of the
//! coordinator, or a process of its own (`revcast-perf worker`, commands on stdin, reports on stdout), because one process
//! may have only so many descriptors.

use crate::child::{messages, send};
use crate::lane::Lane;
use crate::message::{Command, Report};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

pub(crate) fn run(commands: impl Read + Send + 'static, mut reports: impl Write) {
    let mut commands = messages(commands);
    let Some(Ok(Command::Open(plan))) = commands.next() else {
        let message = "a worker is started by revcast-perf fanout, not by hand".to_owned();
        let _gone = send(&mut reports, &Report::Failed(message));
        return;
    };
    let plan = Arc::new(plan);
    let (sender, receiver) = channel();
    let start = |number| {
        let (teller, told) = channel();
        let (plan, reports) = (Arc::clone(&plan), sender.clone());
        let lane = thread::spawn(move || {
            let lane = Lane::new(number, plan, told, reports.clone());
            let outcome = lane.map_err(|fault| format!("epoll: {fault}")).and_then(Lane::run);
            if let Err(message) = outcome {
                let _gone = reports.send(Report::Failed(message));
            }
        });
        (teller, lane)
    };
    let (tellers, lanes): (Vec<_>, Vec<_>) = (0..plan.threads).map(start).unzip();
    drop(sender);
    // Ends with the pipe: when the coordinator closes it, or dies. Then the lanes end too.
    thread::spawn(move || {
        for command in commands.map_while(Result::ok) {
            for teller in &tellers {
                let _done = teller.send(Command::clone(&command));
            }
        }
    });
    for report in receiver {
        // A coordinator that is gone has closed the other pipe too.
        let _gone = send(&mut reports, &report);
    }
    if lanes.into_iter().any(|lane| lane.join().is_err()) {
        let message = "a lane of watchers panicked: this is a bug of revcast-perf".to_owned();
        let _gone = send(&mut reports, &Report::Failed(message));
    }
}
