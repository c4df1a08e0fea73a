//! The commands as clap knows them, and what it says about a bad one.

use super::{CommandLine, Job};
use clap::{CommandFactory, FromArgMatches, error::ErrorKind};
use std::ffi::OsString;
use std::fmt;

const HEADINGS: [(&str, &str); 5] = [
    ("Server", "server anywhere token_file server_pid http2 streams tls ca"),
    ("Objects", "resource namespace namespace_count objects size_bytes"),
    (
        "Watchers",
        "watchers label_selector field_selector encoding bookmarks probe connect_rate threads processes sources client_cpus \
         deaf_percent receive_buffer_bytes churn_per_second",
    ),
    ("Writes", "rate ahead writers pipeline warmup duration drain rounds seed fill_bytes"),
    ("Report", "floor events_per_write out subject json quiet"),
];

const GROUPS: [(&str, &str); 6] = [
    ("SELECTORS", "namespace_count label_selector field_selector bookmarks probe"),
    ("FLOOR", "floor events_per_write subject"),
    ("DEAF", "receive_buffer_bytes fill_bytes"),
    ("MIXED", "deaf_percent churn_per_second readers"),
    ("WRITES", "ahead pipeline warmup drain"),
    ("HOSTILE", "kind clients at burst_bytes"),
];

/// A scenario, its defaults where they differ from [`Load`](super::Load)'s, and the options of its struct that mean nothing to it.
const ADAPTED: [(&str, &str, &str); 11] = [
    (
        "initial",
        "namespace=initial watchers=200 objects=2000 writers=8",
        "SELECTORS WRITES DEAF MIXED encoding rate connect_rate processes sources duration rounds floor events_per_write",
    ),
    (
        "idle",
        "namespace=idle watchers=19000 duration=50s objects=1 drain=0 rounds=1",
        "SELECTORS WRITES DEAF MIXED FLOOR rate objects size_bytes writers seed",
    ),
    (
        "slow",
        "namespace=slow watchers=10000 rate=10 duration=10s fill_bytes=512KiB",
        "SELECTORS MIXED FLOOR HOSTILE",
    ),
    ("siege", "namespace=siege watchers=1000 rate=10 duration=10s", "SELECTORS MIXED FLOOR DEAF shares"),
    (
        "mixed",
        "namespace=mixed namespace_count=4 watchers=5000 rate=50 deaf_percent=5 churn_per_second=1 readers=4",
        "label_selector field_selector bookmarks probe fill_bytes rounds",
    ),
    (
        "interests",
        "namespace=interests watchers=10000 warmup=1s duration=5s resource=v1/pods/Pod",
        "SELECTORS DEAF MIXED FLOOR objects rate quiet",
    ),
    ("storm", "namespace=storm watchers=10000", "SELECTORS DEAF MIXED FLOOR ahead warmup duration quiet"),
    (
        "floor",
        "duration=5s warmup=1s rounds=1",
        "SELECTORS DEAF MIXED encoding server anywhere token_file server_pid ca namespace ahead writers pipeline floor subject quiet",
    ),
    (
        "compare",
        "duration=5s warmup=1s",
        "DEAF MIXED server server_pid floor namespace_count watchers probe quiet",
    ),
    (
        "lag",
        "",
        "SELECTORS WRITES DEAF MIXED FLOOR encoding anywhere token_file server_pid resource namespace objects watchers connect_rate \
         threads processes sources client_cpus writers rounds seed out quiet",
    ),
    ("fanout", "", "DEAF MIXED rounds"),
];

fn ids(list: &'static str) -> impl Iterator<Item = &'static str> {
    let group =
        |word: &'static str| GROUPS.iter().find(|group| group.0 == word).map_or(word, |group| group.1);
    list.split_whitespace().flat_map(move |word| group(word).split_whitespace())
}

pub(crate) enum Stop {
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

#[derive(Debug)]
pub(crate) struct BadOption(String);

impl BadOption {
    pub(crate) fn new(option: &str, value: impl fmt::Display, mend: impl fmt::Display) -> Self {
        Self(format!("{option} {:?}: {mend}", value.to_string()))
    }

    pub(super) fn unless(
        fits: bool,
        option: &str,
        value: impl fmt::Display,
        mend: impl fmt::Display,
    ) -> Result<(), Self> {
        if fits { Ok(()) } else { Err(Self::new(option, value, mend)) }
    }
}

impl std::error::Error for BadOption {}

impl fmt::Display for BadOption {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Every command with its own defaults. An option that means nothing to a scenario loses its name: clap refuses it as unknown.
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
            for (number, option) in ids(without).enumerate() {
                scenario = scenario.mut_arg(option, |arg| arg.long(format!("~{number}")).hide(true));
            }
            scenario
        });
    }
    // What an option of all means to one scenario.
    let file = "File for every run as a line of JSON; an older one is replaced";
    let objects = "Objects that are written; with --lists, that are listed: 100000, if not given";
    let pods = ["label", "namespace", "name"].map(|by| ("by", by, Some("configmaps")));
    command
        .mut_subcommand("compare", |it| it.mut_arg("out", |arg| arg.value_name("FILE").help(file)))
        .mut_subcommand("interests", |it| it.mut_arg("resource", |arg| arg.default_value_ifs(pods)))
        .mut_subcommand("storm", |it| {
            it.mut_arg("objects", |arg| {
                arg.help(objects).default_value_if("with_lists", "true", Some("100000"))
            })
        })
}

pub(crate) fn parse(args: impl IntoIterator<Item = impl Into<OsString>>) -> Result<Job, Stop> {
    let words = std::iter::once("revcast-perf".into()).chain(args.into_iter().map(Into::into));
    let matches = command().try_get_matches_from(words.collect::<Vec<OsString>>())?;
    let job = CommandLine::from_arg_matches(&matches)?.job;
    job.settle().map_err(|bad| Stop::Refuse(bad.to_string()))
}
