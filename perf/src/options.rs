//! The command line: one struct a scenario, which is also what the scenario is given. It knows no scenario. A bad option is
//! one line on stderr and exit code 2.

mod command;
mod parse;
mod protocol;
mod scenarios;
mod subject;
#[cfg(test)]
mod tests;

pub(crate) use command::{BadOption, Stop, parse};
pub(crate) use protocol::Protocol;
pub(crate) use scenarios::{
    By, Close, Compare, FanoutValue, Floor, Idle, Initial, Interests, Lag, Lists, Report, Slow, Storm,
};
pub(crate) use subject::{Subject, with_port};

use crate::endpoint::{Resource, Server};
use crate::http2::{WINDOW_FIRST, WINDOW_MAX};
use crate::media::Encoding;
use crate::stamp::OBJECTS_MAX;
use clap::{Args, FromArgMatches, Parser, Subcommand, ValueEnum};
use parse::{
    Cpus, Modes, cpus, dns_label, floor_modes, loopback, percent, positive_time, rate, size, time, within,
};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Measures a Kubernetes-style watch server from outside, over HTTP/1.1 or HTTP/2, in clear or in TLS.
///
/// A scenario checks every delivery. Exit code 0: nothing was lost, duplicated or out of order; 1: something was; 2: a bad option.
#[derive(Debug, Parser)]
#[command(name = "revcast-perf", version)]
struct CommandLine {
    #[command(subcommand)]
    job: Job,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Job {
    /// Creates objects, opens watches, writes updates, and checks that every watcher gets every write once and in order
    Fanout(Box<Load>),
    /// Many clients ask for everything at once; each must get every object once, and then the bookmark that ends the list
    Initial(Box<Initial>),
    /// Watchers that get nothing but heartbeats and bookmarks: memory of each, CPU time of all
    Idle(Box<Idle>),
    /// What watchers that never read cost those that do, in rounds with and without them
    Slow(Box<Slow>),
    /// What hostile clients cost ordinary watchers, in rounds with and without them
    Siege(Box<Slow>),
    /// A cluster's usual load: several kinds of watches, slow and returning watchers, LISTs, GETs, writes, health probes
    Mixed(Box<Load>),
    /// Watchers with different selectors, one match a write, against one watcher of all and against none
    Interests(Box<Interests>),
    /// All watchers lose their connections at one moment and return; or, with --lists, many clients list at once
    Storm(Box<Storm>),
    /// What this machine needs to hand prepared bytes to the watchers: a bare loop in the server's place
    Floor(Box<Floor>),
    /// The same load on several servers and the floor, in turns; medians, spreads, and ratios to the first
    Compare(Box<Compare>),
    /// How much later a watcher of a cache sees a write to etcd than a watcher of etcd (needs --features etcd)
    Lag(Box<Lag>),
    /// Plots and tables of the records that runs with --out kept, as one HTML page or one SVG
    Report(Report),
    /// A receiving process that `fanout` started.
    #[command(hide = true)]
    Worker,
    /// The sending process that `floor` started.
    #[command(hide = true)]
    FloorSender,
    /// The process that `compare` puts in front of a server.
    #[command(hide = true)]
    Keeper {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// The process that `compare` puts in front of an etcd.
    #[command(hide = true)]
    EtcdBridge { endpoint: String },
}

/// How fast to write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rate {
    /// Writes a second, all writers together.
    PerSecond(f64),
    Max,
}

impl Rate {
    pub(crate) const fn per_second(self) -> Option<f64> {
        match self {
            Self::PerSecond(rate) => Some(rate),
            Self::Max => None,
        }
    }
}

/// The options that scenarios share. [`ADAPTED`] says which of them a scenario has not, and where its defaults differ.
#[derive(Args, Clone, Debug)]
pub(crate) struct Load {
    /// Server under load: http://HOST:PORT or https://HOST:PORT
    #[arg(long, default_value = "http://127.0.0.1:8080", value_parser = Server::parse)]
    pub(crate) server: Server,
    /// Allow a server that is not on this machine
    #[arg(long = "i-own-this-server")]
    pub(crate) anywhere: bool,
    /// Send the file's content as bearer token
    #[arg(long)]
    pub(crate) token_file: Option<PathBuf>,
    /// Process whose CPU time and memory to report [default: found by its loopback port]
    #[arg(long, value_parser = within(1, u32::MAX))]
    pub(crate) server_pid: Option<u32>,
    #[command(flatten)]
    pub(crate) protocol: Protocol,

    /// Resource of the objects: configmaps, v1/PLURAL/KIND or GROUP/VERSION/PLURAL/KIND
    #[arg(long, default_value = "configmaps", value_parser = Resource::parse)]
    pub(crate) resource: Resource,
    /// Namespace of the objects, or the prefix of their namespaces
    #[arg(long, default_value = "fanout", value_parser = dns_label)]
    pub(crate) namespace: String,
    /// Spread over N namespaces NAME-0, NAME-1, ...
    #[arg(long = "namespaces", value_parser = within(1, 100_000))]
    pub(crate) namespace_count: Option<u32>,
    /// Objects in each namespace
    #[arg(long, default_value = "10", value_parser = within(1, OBJECTS_MAX))]
    pub(crate) objects: u32,
    /// Stored size of an object: 512B, 1KiB, 64KiB
    #[arg(long = "size", default_value = "1KiB", value_parser = size(0, 16))]
    pub(crate) size_bytes: usize,

    /// Watches to open
    #[arg(long, default_value = "1000", value_parser = within(1, 10_000_000))]
    pub(crate) watchers: u32,
    /// Label selector, as in Kubernetes; labels: app=revcast-perf, half=even|odd, object=NAME
    #[arg(long)]
    pub(crate) label_selector: Option<String>,
    /// Field selector; {object} stands for another object's name in each watch: metadata.name={object}
    #[arg(long)]
    pub(crate) field_selector: Option<String>,
    /// What watches ask for: json or protobuf
    #[arg(long, value_enum, default_value = "json")]
    pub(crate) encoding: Encoding,
    /// Ask for bookmarks
    #[arg(long)]
    pub(crate) bookmarks: bool,
    /// Ask /livez 50 times a second meanwhile, over fresh connections and over a kept one
    #[arg(long)]
    pub(crate) probe: bool,
    /// Watches opened a second
    #[arg(long, default_value = "5000", value_parser = within(1, 1_000_000))]
    pub(crate) connect_rate: u32,
    /// Receiving threads in each process
    #[arg(long, default_value = "1", value_parser = within(1, 1024))]
    pub(crate) threads: u32,
    /// Receiving processes; one holds about 19,000 connections
    #[arg(long, default_value = "1", value_parser = within(1, 1024))]
    pub(crate) processes: u32,
    /// Connect from N addresses 127.0.0.2, 127.0.0.3, ... [default: 1 up to 28,000 connections]
    #[arg(long, value_parser = within(1, 65_000))]
    pub(crate) sources: Option<u32>,
    /// Run on these CPUs only: 1, 1,3 or 2-5
    #[arg(long = "client-cpu", default_value = "", hide_default_value = true, value_parser = cpus)]
    pub(crate) client_cpus: Cpus,

    /// Writes a second in all, or max: as fast as the watchers take them
    #[arg(long, default_value = "20", value_parser = rate)]
    pub(crate) rate: Rate,
    /// At --rate max: writes that may be sent ahead of what the watchers got in the mean
    #[arg(long, default_value = "256", value_parser = within(1, 100_000))]
    pub(crate) ahead: u32,
    /// Connections that write
    #[arg(long, default_value = "1", value_parser = within(1, 1000))]
    pub(crate) writers: u32,
    /// Requests in flight on each of them
    #[arg(long, default_value = "16", value_parser = within(1, 10_000))]
    pub(crate) pipeline: u32,
    /// Time in which writes are checked but not measured
    #[arg(long, default_value = "3s", value_parser = time)]
    pub(crate) warmup: Duration,
    /// Time that is measured: 30s, 500ms, 2m
    #[arg(long, default_value = "30s", value_parser = positive_time)]
    pub(crate) duration: Duration,
    /// Longest wait at the end for events in flight
    #[arg(long, default_value = "10s", value_parser = time)]
    pub(crate) drain: Duration,
    /// Rounds; in each all that is compared takes its turn
    #[arg(long, default_value = "5", value_parser = within(1, 1000))]
    pub(crate) rounds: u32,
    /// Order in which objects are written [default: a new one, reported]
    #[arg(long)]
    pub(crate) seed: Option<u64>,

    /// Measure the floor after the run: send, writev, uring, pages, best (of them) or off [default: best, for a server on this machine]
    #[arg(long, value_parser = floor_modes)]
    pub(crate) floor: Option<Modes>,
    /// Events that the floor sends in one write [default: the mean of one read]
    #[arg(long, value_parser = within(1, 1024))]
    pub(crate) events_per_write: Option<u32>,
    /// Directory for the run's record (.json), distribution (.hgrm) and series (.csv)
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// What the record calls the server [default: its process, else its URL]
    #[arg(long)]
    pub(crate) subject: Option<String>,
    /// Print one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress on stderr
    #[arg(long)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) mixture: Mixture,
}

/// What a run has besides watchers that all do the same. None of it by default.
#[derive(Args, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Mixture {
    /// Per cent of the watchers that never read
    #[arg(long = "never-read", value_name = "PER_CENT", default_value = "0", value_parser = within(0, 99))]
    pub(crate) deaf_percent: u32,
    /// Receive buffer of the watchers that never read, or of each of their HTTP/2 streams [default: the kernel's; 64 KiB]
    #[arg(long = "receive-buffer", value_name = "RECEIVE_BUFFER", value_parser = size(1, 1024))]
    pub(crate) receive_buffer_bytes: Option<usize>,
    /// Written to each watcher before the warm-up, so that sockets that nobody reads are full
    #[arg(long = "fill", value_name = "FILL", default_value = "0", value_parser = size(0, 1024))]
    pub(crate) fill_bytes: usize,
    /// Per cent of the other watchers that leave and return, a second
    #[arg(long = "churn", value_name = "PER_CENT", default_value = "0", value_parser = percent)]
    pub(crate) churn_per_second: f64,
    /// Clients that LIST and GET, one call after the other
    #[arg(long, default_value = "0", value_parser = within(0, 1000))]
    pub(crate) readers: u32,
    /// Watchers of several kinds: whole namespaces, selectors, metadata alone, Tables.
    #[arg(skip)]
    pub(crate) shapes: bool,
    #[arg(skip)]
    pub(crate) hostile: Option<Hostile>,
}

/// Hostile clients: how many of which.
#[derive(Args, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hostile {
    /// What the clients do
    #[arg(long = "by", value_enum, default_value = "heads")]
    pub(crate) kind: HostileKind,
    /// Hostile clients
    #[arg(long, default_value = "1000", value_parser = within(1, 19_000))]
    pub(crate) clients: u32,
    /// Where they connect, on this machine, in clear [default: the server]
    #[arg(long = "besiege", value_name = "ADDRESS", value_parser = loopback)]
    pub(crate) at: Option<SocketAddr>,
    /// Bytes that a burst writes where the clients watch, at full speed
    #[arg(long = "burst", value_name = "BURST", default_value = "100MiB", value_parser = size(1, 1024))]
    pub(crate) burst_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum HostileKind {
    /// Send a request's head a byte a second
    Heads,
    /// Send a TLS handshake a byte a second
    Hellos,
    /// Open a watch, and acknowledge nothing from then on
    Vanish,
    /// Connect, send nothing, and connect again when closed
    Crowd,
    /// Watch and never read, while much is written there
    Burst,
    /// HTTP/2: requests, each reset at once
    Resets,
    /// HTTP/2: requests, each with a fault that makes the server reset it
    Provoked,
    /// HTTP/2: PING frames
    Pings,
    /// HTTP/2: SETTINGS frames
    #[value(name = "settings")]
    SettingsFrames,
    /// HTTP/2: PRIORITY frames
    Priorities,
    /// HTTP/2: WINDOW_UPDATE frames of one byte
    Windows,
    /// HTTP/2: empty DATA frames
    EmptyData,
    /// HTTP/2: a field block in CONTINUATION frames, without an end
    Continuations,
    /// HTTP/2: field blocks of a few KiB that are half a megabyte of fields
    Blocks,
    /// HTTP/2: 100 watches on a connection without a window
    DeafStreams,
}

/// How prepared bytes are handed to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// One send(2) a socket, of frames that are adjacent in memory.
    Send,
    /// One writev(2) a socket, a piece for each frame.
    Writev,
    /// Sends in batches through an io_uring, of frames that are adjacent in memory.
    Uring,
    /// One sendfile(2) a socket, of pages in memory that all of them share: nothing is copied for each.
    Pages,
}

impl Job {
    /// Checks what options mean together, and derives what follows from them.
    fn settle(mut self) -> Result<Self, BadOption> {
        match &mut self {
            Self::Fanout(load) => load.check()?,
            Self::Idle(idle) => {
                idle.base.bookmarks = true;
                idle.base.check()?;
            }
            Self::Slow(slow) => slow.check()?,
            Self::Siege(siege) => {
                siege.base.mixture.hostile = Some(siege.hostile);
                siege.shares = vec![0];
                siege.base.check()?;
            }
            Self::Mixed(load) => {
                (load.mixture.shapes, load.bookmarks, load.probe) = (true, true, true);
                load.check()?;
            }
            Self::Interests(interests) => interests.settle()?,
            Self::Storm(storm) => storm.settle()?,
            Self::Floor(floor) => floor.base.check()?,
            Self::Compare(compare) => compare.check()?,
            Self::Initial(_)
            | Self::Lag(_)
            | Self::Report(_)
            | Self::Worker
            | Self::FloorSender
            | Self::Keeper { .. }
            | Self::EtcdBridge { .. } => {}
        }
        Ok(self)
    }
}

impl Load {
    pub(crate) fn namespaces(&self) -> Vec<String> {
        let name = &self.namespace;
        self.namespace_count.map_or_else(
            || vec![name.clone()],
            |count| (0..count).map(|number| format!("{name}-{number}")).collect(),
        )
    }

    fn check(&self) -> Result<(), BadOption> {
        let namespaces = self.namespace_count.unwrap_or(1);
        let objects = self.objects.saturating_mul(namespaces);
        let mend = format!("{namespaces} namespaces have {objects} objects; {OBJECTS_MAX} is the most");
        BadOption::unless(objects <= OBJECTS_MAX, "--objects", self.objects, mend)?;
        self.check_writers(objects, "raise --objects")?;
        let mend = format!("{} watchers cannot cover them all: raise --watchers", self.watchers);
        BadOption::unless(namespaces <= self.watchers, "--namespaces", namespaces, mend)?;
        self.check_processes()
    }

    fn check_writers(&self, objects: u32, mend: &str) -> Result<(), BadOption> {
        let mend = format!("every writer needs an object of its own, there are {objects}: {mend}");
        BadOption::unless(self.writers <= objects, "--writers", self.writers, mend)
    }

    fn check_processes(&self) -> Result<(), BadOption> {
        let (fits, mend) = (self.processes <= self.watchers, "more than there are --watchers");
        BadOption::unless(fits, "--processes", self.processes, mend)
    }
}

impl Mixture {
    /// What a stream of HTTP/2 may send ahead to a watcher that never reads.
    pub(crate) fn window_bytes(&self) -> u32 {
        let given = self.receive_buffer_bytes.and_then(|bytes| u32::try_from(bytes).ok());
        if self.deaf_percent > 0 { given.unwrap_or(WINDOW_FIRST) } else { WINDOW_MAX }
    }
}

impl Default for Load {
    fn default() -> Self {
        let matches =
            Self::augment_args(clap::Command::new("")).no_binary_name(true).get_matches_from([""; 0]);
        Self::from_arg_matches(&matches).expect("every default is valid")
    }
}

/// A value as it is written on the command line.
pub(crate) fn value_name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// How many of the first `watchers` never read.
pub(crate) fn deaf_among(watchers: u32, percent: u32) -> u32 {
    u32::try_from(u64::from(watchers) * u64::from(percent.min(100)) / 100).unwrap_or(watchers)
}
