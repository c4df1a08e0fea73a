//! The options that a scenario has besides [`Load`]'s, and what they mean together.

use super::parse::{Cpus, Modes, cpus, interest_count, modes, positive_time, rate, time, within};
use super::{BadOption, Hostile, Load, Rate, Subject, deaf_among};
use clap::{ArgAction, Args, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args, Clone, Debug)]
pub(crate) struct Initial {
    #[command(flatten)]
    pub(crate) base: Load,
    /// Ask with plain LISTs, not with WatchLists
    #[arg(long)]
    pub(crate) list: bool,
    /// Accept gzip
    #[arg(long)]
    pub(crate) gzip: bool,
    /// Longest wait for the last client
    #[arg(long, default_value = "2m", value_parser = positive_time)]
    pub(crate) timeout: Duration,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Idle {
    #[command(flatten)]
    pub(crate) base: Load,
    /// Watches opened and closed before memory is first read: what grows once is not what grows with each watcher
    #[arg(long, default_value = "1000", value_parser = within(0, 1_000_000))]
    pub(crate) prime: u32,
}

/// `slow`, which has shares, and `siege`, which has hostile clients.
#[derive(Args, Clone, Debug)]
pub(crate) struct Slow {
    #[command(flatten)]
    pub(crate) base: Load,
    /// Per cent of the watchers that never read; each is measured: 5,20,50
    #[arg(long = "share", value_delimiter = ',', action = ArgAction::Set, default_value = "20", value_parser = within(1, 99))]
    pub(crate) shares: Vec<u32>,
    #[command(flatten)]
    pub(super) hostile: Hostile,
    /// What the server was started with: is in the report, changes nothing
    #[arg(long)]
    pub(crate) stall: Option<String>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Interests {
    #[command(flatten)]
    pub(crate) base: Load,
    /// What distinguishes the watchers: spec.nodeName of pods, a label, their namespace, or metadata.name
    #[arg(long, value_enum, default_value = "node")]
    pub(crate) by: By,
    /// Writes a second; each is measured
    #[arg(id = "rates", long = "rate", value_delimiter = ',', action = ArgAction::Set, default_value = "500,max", value_parser = rate)]
    pub(crate) rates: Vec<Rate>,
    /// The same with so many interests below --watchers, at the first of the rates; or none
    #[arg(long, value_delimiter = ',', action = ArgAction::Set, default_value = "1,100,1000,10000", value_parser = interest_count)]
    pub(crate) sizes: Vec<u32>,
}

/// What distinguishes one interest from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum By {
    Node,
    Label,
    Namespace,
    Name,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Storm {
    #[command(flatten)]
    pub(crate) base: Load,
    /// Watchers that keep their connections
    #[arg(long, default_value = "100", value_parser = within(1, 1_000_000))]
    pub(crate) live: u32,
    /// How connections end
    #[arg(long, value_enum, default_value = "fin")]
    pub(crate) close: Close,
    /// Return evenly over so much time; 0: as fast as connect allows
    #[arg(long, default_value = "0", value_parser = time)]
    pub(crate) spread: Duration,
    /// Time before each round that the watchers that stay are compared with
    #[arg(long, default_value = "2s", value_parser = positive_time)]
    pub(crate) calm: Duration,
    /// Longest wait for the last client
    #[arg(long, default_value = "1m", value_parser = positive_time)]
    pub(crate) timeout: Duration,
    /// LISTs instead of lost connections
    #[arg(long = "lists")]
    with_lists: bool,
    /// Clients that list at once
    #[arg(long, default_value = "50", value_parser = within(1, 10_000))]
    clients: u32,
    #[arg(skip)]
    pub(crate) lists: Option<Lists>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Close {
    Fin,
    Rst,
}

/// What is listed, by how many clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lists {
    pub(crate) clients: u32,
    pub(crate) objects: u32,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Floor {
    #[command(flatten)]
    pub(crate) base: Load,
    /// How bytes are handed to the kernel: send, writev, uring, pages or all
    #[arg(long = "mode", default_value = "all", value_parser = modes)]
    pub(crate) modes: Modes,
    /// CPUs of the sender [default: the first that is no --client-cpu]
    #[arg(long, default_value = "", hide_default_value = true, value_parser = cpus)]
    pub(crate) server_cpu: Cpus,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Compare {
    #[command(flatten)]
    pub(crate) base: Load,
    /// URL of a running server; floor (its cheapest mode), floor:send, floor:writev, floor:uring, floor:pages; a command line in one
    /// argument with {port} in it, started for each round; protobuf:, http2: or tls: and one of these, which is then asked so
    /// (several may stand before one; the floor has no protobuf); etcd: and a URL or a command line (needs --features etcd)
    #[arg(required = true, num_args = 1.., value_parser = Subject::parse)]
    pub(crate) subjects: Vec<Subject>,
    /// Watches to open; one comparison for each: 100,1000,10000
    #[arg(id = "watcher_counts", long = "watchers", value_delimiter = ',', action = ArgAction::Set, default_value = "1000", value_parser = within(1, 10_000_000))]
    pub(crate) watchers: Vec<u32>,
    /// CPUs of started servers and of the floor [default: the first that is no --client-cpu]
    #[arg(long, default_value = "", hide_default_value = true, value_parser = cpus)]
    pub(crate) server_cpu: Cpus,
}

#[derive(Args, Clone, Debug)]
#[cfg_attr(not(feature = "etcd"), allow(dead_code, reason = "parsed, to say that the feature is missing"))]
pub(crate) struct Lag {
    #[command(flatten)]
    pub(crate) base: Load,
    /// A client URL of the etcd that the server caches
    #[arg(long, default_value = "http://127.0.0.1:2379")]
    pub(crate) etcd: String,
    /// Prefix of its keys
    #[arg(long = "etcd-prefix", default_value = "/registry")]
    pub(crate) prefix: String,
}

#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// Records: files (JSON or JSON lines) or directories of them, as runs with --out wrote them
    #[arg(required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Page to write; an older one is replaced
    #[arg(long, default_value = "revcast-perf.html")]
    pub(crate) html: PathBuf,
    /// Write one SVG of fan-out beside the floor over the number of watchers, instead of the page
    #[arg(long, conflicts_with = "html")]
    pub(crate) fanout_svg: Option<PathBuf>,
    /// What that SVG shows
    #[arg(long, value_enum, default_value = "cpu", requires = "fanout_svg")]
    pub(crate) fanout_value: FanoutValue,
    /// Headline
    #[arg(long, default_value = "revcast-perf")]
    pub(crate) title: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FanoutValue {
    /// CPU time of the server for one delivery
    Cpu,
    /// Deliveries a second
    Rate,
}

impl Slow {
    pub(super) fn check(&self) -> Result<(), BadOption> {
        let watchers = self.base.watchers;
        for &share in &self.shares {
            let deaf = deaf_among(watchers, share);
            let mend = format!("{deaf} of {watchers} watchers would never read: raise --watchers");
            BadOption::unless(0 < deaf && deaf < watchers, "--share", share, mend)?;
        }
        self.base.check()
    }
}

impl Interests {
    pub(super) fn settle(&mut self) -> Result<(), BadOption> {
        let (base, watchers) = (&self.base, self.base.watchers);
        self.sizes.retain(|&size| (1..watchers).contains(&size));
        self.sizes.push(watchers);
        self.sizes.sort_unstable();
        self.sizes.dedup();
        let fits = self.by != By::Node || base.resource.kind == "Pod";
        let mend = "only pods have a node: use --by label, namespace or name, or omit --resource";
        BadOption::unless(fits, "--resource", &base.resource.plural, mend)?;
        base.check_writers(self.sizes[0], "raise the smallest of --sizes")?;
        base.check_processes()
    }
}

impl Storm {
    pub(super) fn settle(&mut self) -> Result<(), BadOption> {
        if self.with_lists {
            self.lists = Some(Lists { clients: self.clients, objects: self.base.objects });
            self.base.objects = Load::default().objects;
        }
        let mend = "give writes a second: a storm is measured at a steady rate";
        BadOption::unless(self.base.rate != Rate::Max, "--rate", "max", mend)?;
        self.base.check()
    }
}

impl Compare {
    pub(super) fn check(&self) -> Result<(), BadOption> {
        let (count, mend) =
            (self.subjects.len(), "give two at least, for example http://127.0.0.1:8080 floor");
        BadOption::unless(count >= 2, "subjects", count, mend)?;
        let each = |&watchers: &u32| Load { watchers, ..self.base.clone() }.check();
        self.watchers.iter().try_for_each(each)
    }
}
