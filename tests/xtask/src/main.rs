//! `cargo xtask`: every check of this repository behind one command.
//!
//! It owns the order of the checks, what counts as a pass, and the words that say how to repeat one. It never skips
//! a step because something is missing: a test target that is not there is a failure. It has no dependencies, so
//! that it starts in seconds on a machine that has built nothing yet.
#![allow(clippy::print_stdout, reason = "a command that prints for its caller")]

mod args;
mod clients;
mod counts;
mod etcd;
mod faults;
mod fuzz;
mod helm;
mod kubectl_packages;
mod kubernetes_types;
mod packages;
mod page;
mod place;
mod pool;
mod promtool;
mod run;
mod secured;
mod server;
mod sim;
mod steps;
mod tally;
mod tmux;

use std::process::ExitCode;

use args::Task;

fn main() -> ExitCode {
    let task = match args::parse(std::env::args().skip(1)) {
        Ok(task) => task,
        Err(problem) => {
            println!("xtask: {problem}");
            return ExitCode::from(2);
        }
    };
    let passed = match task {
        Task::Test => run::quick(),
        Task::Ci { only } => run::ci(&only),
        Task::Sim { seeds, base } => sim::explore(seeds, base),
        Task::Clients { only } => clients::check(&only),
        Task::Etcd => etcd::install(),
        Task::Promtool => {
            promtool::install();
            true
        }
        Task::Tmux => {
            tmux::install();
            true
        }
        Task::Counts { keep } => counts::check(keep),
        Task::EtcdSuite => run::ci(&steps::ETCD_SUITE.map(str::to_owned)),
        Task::KubernetesTypes { newer } => kubernetes_types::generate(newer),
        Task::Helm { keep } => helm::check(keep),
        Task::Page => page::check(),
        Task::Faults => faults::run(),
        Task::Fuzz { seconds, only } => fuzz::run(seconds, &only),
        Task::List => {
            for step in steps::STEPS {
                println!("{:<16}{}\n{:<16}{}", step.name, step.purpose, "", step.shown());
            }
            true
        }
        Task::Help => {
            println!("{}", args::HELP);
            true
        }
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
