//! The commands as clap knows them, and what it says about a bad one.

use super::{CommandLine, Job};
use clap::{CommandFactory, FromArgMatches, error::ErrorKind};
use std::ffi::OsString;
use std::fmt;

/// Headings in the help.
const HEADINGS: [(&str, &str); 5] = [
    ("Server", "server anywhere token_file server_pid"),
    ("Objects", "resource namespace namespace_count objects size_bytes"),
    (
        "Watchers",
        "watchers label_selector field_selector bookmarks probe connect_rate threads processes sources client_cpus",
    ),
    ("Writes", "rate ahead writers pipeline warmup duration drain seed"),
    ("Report", "floor events_per_write out subject json quiet"),
];

/// A scenario, its defaults where they differ from [`Load`]'s, and those of [`Load`]'s options that mean nothing to it.
const ADAPTED: [(&str, &str, &str); 11] = [
    (
        "initial",
        "namespace=initial watchers=200 objects=2000 writers=8",
        "namespace_count label_selector field_selector bookmarks probe connect_rate processes sources rate ahead pipeline \
         warmup duration drain floor events_per_write",
    ),
    (
        "idle",
        "namespace=idle watchers=19000 duration=50s objects=1 drain=0",
        "namespace_count objects size_bytes label_selector field_selector bookmarks probe rate ahead writers pipeline warmup \
         drain seed floor events_per_write subject",
    ),
    (
        "slow",
        "namespace=slow watchers=10000 rate=10 duration=10s",
        "namespace_count label_selector field_selector bookmarks probe floor events_per_write subject",
    ),
    (
        "siege",
        "namespace=siege watchers=1000 rate=10 duration=10s",
        "namespace_count label_selector field_selector bookmarks probe floor events_per_write subject",
    ),
    (
        "mixed",
        "namespace=mixed namespace_count=4 watchers=5000 rate=50",
        "label_selector field_selector bookmarks probe",
    ),
    (
        "interests",
        "namespace=interests watchers=10000 warmup=1s duration=5s",
        "resource objects namespace_count label_selector field_selector bookmarks probe rate floor events_per_write subject \
         quiet",
    ),
    (
        "storm",
        "namespace=storm watchers=10000",
        "objects namespace_count label_selector field_selector bookmarks probe ahead warmup duration floor \
         events_per_write subject quiet",
    ),
    (
        "floor",
        "duration=5s warmup=1s",
        "server anywhere token_file server_pid namespace namespace_count label_selector field_selector bookmarks probe \
         ahead writers pipeline floor subject quiet",
    ),
    ("compare", "duration=5s warmup=1s", "server server_pid floor namespace_count watchers probe quiet"),
    (
        "lag",
        "",
        "anywhere token_file server_pid resource namespace namespace_count objects watchers label_selector field_selector \
         bookmarks probe connect_rate threads processes sources client_cpus ahead writers pipeline warmup drain seed floor \
         events_per_write out subject quiet",
    ),
    ("fanout", "", ""),
];

/// Why there is nothing to do.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Help or the version was asked for.
    Show(String),
    Refuse(String),
}

impl From<clap::Error> for Stop {
    /// What clap says on several lines, as one.
    fn from(fault: clap::Error) -> Self {
        let text = fault.to_string();
        if !fault.use_stderr() || fault.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            return Self::Show(text);
        }
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let lines = lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
        let line = lines.collect::<Vec<_>>().join(" ");
        Self::Refuse(format!("{}; see --help", line.trim_start_matches("error: ")))
    }
}

/// A bad option: which, its value, and how to mend it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadOption {
    option: &'static str,
    value: String,
    mend: String,
}

impl BadOption {
    pub(crate) fn new(option: &'static str, value: impl fmt::Display, mend: impl Into<String>) -> Self {
        Self { option, value: value.to_string(), mend: mend.into() }
    }
}

impl std::error::Error for BadOption {}

impl fmt::Display for BadOption {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {:?}: {}", self.option, self.value, self.mend)
    }
}

/// Every command with its own defaults. An option that means nothing to a scenario loses its name and is not shown: then
/// clap refuses it as unknown.
pub(super) fn command() -> clap::Command {
    let mut command = CommandLine::command().arg_required_else_help(true);
    for (name, defaults, without) in ADAPTED {
        command = command.mut_subcommand(name, |mut scenario| {
            // The last one of an option that is given twice counts.
            scenario = scenario.mut_args(|arg| {
                let id = arg.get_id().clone();
                if arg.get_long().is_some() { arg.overrides_with(id) } else { arg }
            });
            for (heading, options) in HEADINGS {
                for option in options.split_whitespace() {
                    scenario = scenario.mut_arg(option, |arg| arg.help_heading(heading));
                }
            }
            for (option, value) in defaults.split_whitespace().filter_map(|pair| pair.split_once('=')) {
                scenario = scenario.mut_arg(option, |arg| arg.default_value(value));
            }
            for (number, option) in without.split_whitespace().enumerate() {
                scenario = scenario.mut_arg(option, |arg| arg.long(format!("~{number}")).hide(true));
            }
            scenario
        });
    }
    command.mut_subcommand("compare", |scenario| {
        let help = "File for every run as a line of JSON; --json prints them as one array";
        scenario.mut_arg("out", |arg| arg.value_name("FILE").help(help))
    })
}

/// Reads the command line, without the program's name.
pub(crate) fn parse(args: impl IntoIterator<Item = impl Into<OsString>>) -> Result<Job, Stop> {
    let words = std::iter::once("revcast-perf".into()).chain(args.into_iter().map(Into::into));
    let matches = command().try_get_matches_from(words.collect::<Vec<OsString>>())?;
    let job = CommandLine::from_arg_matches(&matches)?.job;
    job.settle().map_err(|bad| Stop::Refuse(bad.to_string()))
}
