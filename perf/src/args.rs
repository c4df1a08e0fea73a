//! The command line, parsed once into values that cannot be wrong. A bad option is one line that names the option, the
//! value and the mend.

pub(crate) mod compare;
pub(crate) mod floor;
mod idle;
pub(crate) mod interests;
mod mixed;
mod mixture;
pub(crate) mod report;
mod slow;
pub(crate) mod storm;

pub(crate) use idle::Idle;
pub(crate) use mixed::Mixed;
pub(crate) use mixture::Mixture;
pub(crate) use slow::Slow;

use crate::stamp::OBJECTS_MAX;
use crate::target::{Resource, Server};
use crate::units::{parse_duration, parse_size};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// All of it: each scenario has its own part.
pub(crate) fn help() -> String {
    [
        HELP,
        floor::HELP,
        compare::HELP,
        idle::HELP,
        slow::HELP,
        interests::HELP,
        storm::HELP,
        mixed::HELP,
        report::HELP,
    ]
    .concat()
}

const HELP: &str = "\
revcast-perf measures a Kubernetes-style watch server from outside, over plain HTTP.

Usage: revcast-perf fanout [OPTIONS]
       revcast-perf idle|slow|siege|mixed [OPTIONS]
       revcast-perf initial [OPTIONS]
       revcast-perf interests [OPTIONS]
       revcast-perf storm [OPTIONS]
       revcast-perf floor [OPTIONS]
       revcast-perf compare A B [C ...] [OPTIONS]
       revcast-perf lag [OPTIONS]       (built with --features etcd)
       revcast-perf report PATH... [OPTIONS]

fanout creates objects, opens watches, writes updates, and checks that every watcher sees every write exactly once and in
order. Exit code 0: nothing was lost, duplicated or out of order; 1: something was; 2: a bad option.

What is loaded
  --server URL            http://HOST:PORT                              [http://127.0.0.1:8080]
  --i-own-this-server     allow a server that is not on this machine
  --token-file FILE       send the file's content as bearer token
  --resource NAME         configmaps, v1/PLURAL/KIND or GROUP/VERSION/PLURAL/KIND   [configmaps]
  --namespace NAME        where the objects live                        [fanout]
  --namespaces N          spread over N namespaces NAME-0, NAME-1, ...
  --objects N             objects in each namespace                     [10]
  --size SIZE             stored size of an object: 512B, 1KiB, 64KiB   [1KiB]

Watchers
  --watchers N            watches to open                               [1000]
  --label-selector TEXT   as in Kubernetes; labels: app=revcast-perf, half=even|odd, object=NAME.
  --field-selector TEXT   {object} stands for another object's name in each watch: metadata.name={object}
  --bookmarks             ask for bookmarks
  --probe                 ask /livez 50 times a second meanwhile, over fresh connections and over a kept one
  --connect-rate N        watches opened a second                       [5000]
  --threads N             receiving threads in each process             [1]
  --processes N           receiving processes; one holds about 19,000 watches   [1]
  --sources N             connect from N addresses 127.0.0.2, 127.0.0.3, ...    [1 up to 28,000 watches]
  --client-cpu LIST       run on these CPUs only: 1, 1,3 or 2-5

Writes
  --rate N|max            writes a second in all, or as fast as the watchers take it    [20]
  --ahead N               at --rate max: so many writes are sent in front of what the watchers got in the mean  [256]
  --writers N             connections that write                        [1]
  --pipeline N            requests under way on each of them            [16]
  --warmup TIME           written and checked, but not measured         [3s]
  --duration TIME         measured                                      [30s]
  --drain TIME            longest wait for what is on its way at the end        [10s]
  --seed N                the order in which objects are written        [a new one, reported]

initial: many clients ask for everything at once, and each is checked to get every object exactly once, with the mark behind them.
  --server URL, --i-own-this-server, --token-file FILE, --resource NAME, --size SIZE, --threads N, --client-cpu LIST, --seed N,
  --server-pid PID and --json as above, and
  --watchers N            clients that ask at once                      [200]
  --objects N             objects that each of them gets                [2000]
  --namespace NAME        where the objects live; emptied of those of former runs   [initial]
  --writers N             connections that create the objects           [8]
  --list                  ask with plain LISTs, not with WatchLists
  --gzip                  take gzip
  --timeout TIME          longest wait for the last of them             [2m]

lag: how much later a write to etcd is seen behind a cache than at a bare etcd watch, for the same events.
  --server URL, --rate N, --duration TIME, --size SIZE, --json as above, and
  --etcd URL              a client URL of the etcd behind the server    [http://127.0.0.1:2379]
  --etcd-prefix PATH      where its keys begin                          [/registry]

Report
  --server-pid PID        whose CPU time and memory to report           [found by its loopback port]
  --json                  one JSON object on stdout
  --floor MODE            fanout: what a bare loop needs for the same: send, writev, uring, best (of them) or off
                          [best, for a server on this machine]
  --events-per-write K    fanout: the floor's          [what one read found, in the mean]
  --out DIR               keep the run there: record (.json), distribution (.hgrm), series (.csv)
  --subject NAME          what the server is called in the record       [its process, else its URL]
  --quiet                 no progress on stderr
  --help, --version
";

/// How fast to write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rate {
    /// Writes a second, all writers together.
    PerSecond(f64),
    Max,
}

/// Everything that `fanout` was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Fanout {
    pub(crate) server: Server,
    pub(crate) anywhere: bool,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) resource: Resource,
    pub(crate) namespaces: Vec<String>,
    pub(crate) objects: u32,
    pub(crate) size_bytes: usize,
    pub(crate) watchers: u32,
    pub(crate) label_selector: Option<String>,
    pub(crate) field_selector: Option<String>,
    pub(crate) bookmarks: bool,
    pub(crate) connect_rate: u32,
    pub(crate) threads: u32,
    pub(crate) processes: u32,
    pub(crate) sources: Option<u32>,
    pub(crate) client_cpus: Vec<usize>,
    pub(crate) rate: Rate,
    /// At `Rate::Max`: writes in front of what the watchers got in the mean.
    pub(crate) ahead: u32,
    pub(crate) writers: u32,
    pub(crate) pipeline: usize,
    pub(crate) warmup: Duration,
    pub(crate) duration: Duration,
    pub(crate) drain: Duration,
    pub(crate) seed: Option<u64>,
    pub(crate) server_pid: Option<u32>,
    pub(crate) floor: floor::FloorChoice,
    /// Of the floor; `None`: what the server's watchers found.
    pub(crate) events_per_write: Option<u32>,
    pub(crate) json: bool,
    /// What goes on beside the watchers.
    pub(crate) mixture: Mixture,
    /// Where the record goes.
    pub(crate) out: Option<PathBuf>,
    pub(crate) subject: Option<String>,
    pub(crate) quiet: bool,
}

/// Everything that `initial` was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Initial {
    /// The options that mean the same as for `fanout`.
    pub(crate) base: Fanout,
    /// Plain LISTs instead of WatchLists.
    pub(crate) list: bool,
    pub(crate) gzip: bool,
    pub(crate) timeout: Duration,
}

impl Default for Initial {
    fn default() -> Self {
        let base = Fanout {
            namespaces: vec!["initial".to_owned()],
            watchers: 200,
            objects: 2000,
            writers: 8,
            ..Fanout::default()
        };
        Self { base, list: false, gzip: false, timeout: Duration::from_secs(120) }
    }
}

/// What to do.
#[derive(Clone, Debug)]
pub(crate) enum Job {
    Help,
    Version,
    Fanout(Box<Fanout>),
    Initial(Box<Initial>),
    Idle(Box<Idle>),
    Slow(Box<Slow>),
    Mixed(Box<Mixed>),
    Interests(Box<interests::Interests>),
    Storm(Box<storm::Storm>),
    Floor(Box<floor::Floor>),
    Compare(Box<compare::Compare>),
    /// A receiving process that `fanout` started.
    Worker,
    /// The sending process that `floor` started.
    FloorSender,
    /// The process that `compare` puts in front of a server: where it runs, and its command.
    Keeper(Vec<OsString>),
    /// The process that `compare` puts in front of an etcd, by its URL.
    #[cfg(feature = "etcd")]
    EtcdBridge(String),
    /// Compares a watch behind a cache with one on etcd.
    Lag(LagArgs),
    /// Makes pictures of records.
    Report(report::Report),
}

/// Everything that `lag` was asked for.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "etcd"), allow(dead_code))]
pub(crate) struct LagArgs {
    pub(crate) server: Server,
    pub(crate) etcd: String,
    pub(crate) prefix: String,
    pub(crate) rate: f64,
    pub(crate) duration: Duration,
    pub(crate) size_bytes: usize,
    pub(crate) json: bool,
}

impl LagArgs {
    /// The options that `lag` shares with `fanout` mean the same.
    fn new(fanout: &Fanout, etcd: String, prefix: String) -> Self {
        let rate = match fanout.rate {
            Rate::PerSecond(rate) => rate,
            Rate::Max => 10_000.0,
        };
        Self {
            server: fanout.server.clone(),
            etcd,
            prefix,
            rate,
            duration: fanout.duration,
            size_bytes: fanout.size_bytes,
            json: fanout.json,
        }
    }
}

/// A bad option: what, its value, and how to mend it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadOption {
    option: String,
    value: Option<String>,
    mend: String,
}

impl BadOption {
    pub(crate) fn new(option: &str, value: &str, mend: impl Into<String>) -> Self {
        Self { option: option.to_owned(), value: Some(value.to_owned()), mend: mend.into() }
    }
}

impl fmt::Display for BadOption {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(out, "{} {value:?}: {}", self.option, self.mend),
            None => write!(out, "{}: {}", self.option, self.mend),
        }
    }
}

impl Default for Fanout {
    fn default() -> Self {
        Self {
            server: Server { host: "127.0.0.1".to_owned(), port: 8080 },
            anywhere: false,
            token_file: None,
            resource: Resource {
                api_version: "v1".to_owned(),
                plural: "configmaps".to_owned(),
                kind: "ConfigMap".to_owned(),
            },
            namespaces: vec!["fanout".to_owned()],
            objects: 10,
            size_bytes: 1024,
            watchers: 1000,
            label_selector: None,
            field_selector: None,
            bookmarks: false,
            connect_rate: 5000,
            threads: 1,
            processes: 1,
            sources: None,
            client_cpus: Vec::new(),
            rate: Rate::PerSecond(20.0),
            ahead: 256,
            writers: 1,
            pipeline: 16,
            warmup: Duration::from_secs(3),
            duration: Duration::from_secs(30),
            drain: Duration::from_secs(10),
            seed: None,
            server_pid: None,
            floor: floor::FloorChoice::Local,
            events_per_write: None,
            json: false,
            mixture: Mixture::default(),
            out: None,
            subject: None,
            quiet: false,
        }
    }
}

/// Reads the command line, without the program's name.
pub(crate) fn parse(args: impl IntoIterator<Item = impl Into<OsString>>) -> Result<Job, BadOption> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut lag = None;
    match next(&mut parser)?.as_deref() {
        None | Some("help" | "--help" | "-h") => return Ok(Job::Help),
        Some("--version" | "-V") => return Ok(Job::Version),
        Some("worker") => return Ok(Job::Worker),
        Some("floor") => return floor::parse(&mut parser),
        Some("floor-sender") => return Ok(Job::FloorSender),
        Some("compare") => return compare::parse(&mut parser),
        Some("keeper") => {
            let words = parser.raw_args().map(Iterator::collect);
            return words.map(Job::Keeper).map_err(|fault| bare("keeper", &fault.to_string()));
        }
        #[cfg(feature = "etcd")]
        Some("etcd-bridge") => {
            let words = parser.raw_args().map(Iterator::collect::<Vec<_>>);
            let words = words.map_err(|fault| bare("etcd-bridge", &fault.to_string()))?;
            let url = words.first().map(|word| word.to_string_lossy().into_owned());
            return url.map(Job::EtcdBridge).ok_or_else(|| bare("etcd-bridge", "compare starts it"));
        }
        Some("fanout") => {}
        Some("initial") => return initial(&mut parser),
        Some("idle") => return idle::parse(&mut parser),
        Some("slow") => return slow::parse(&mut parser),
        Some("siege") => return slow::parse_siege(&mut parser),
        Some("mixed") => return mixed::parse(&mut parser),
        Some("interests") => return interests::parse(&mut parser),
        Some("storm") => return storm::parse(&mut parser),
        Some("report") => return report::parse(&mut parser),
        Some("lag") => {
            lag = Some(("http://127.0.0.1:2379".to_owned(), "/registry".to_owned()));
        }
        Some(other) => {
            return Err(bare(
                other,
                "not a command; use `revcast-perf fanout`, `initial` or another that --help names",
            ));
        }
    }
    let mut fanout = Fanout::default();
    let mut count = None;
    while let Some(option) = next(&mut parser)? {
        match option.as_str() {
            "--help" | "-h" => return Ok(Job::Help),
            "--version" | "-V" => return Ok(Job::Version),
            "--i-own-this-server" => fanout.anywhere = true,
            "--bookmarks" => fanout.bookmarks = true,
            "--probe" => fanout.mixture.probe = true,
            "--json" => fanout.json = true,
            "--quiet" => fanout.quiet = true,
            "--out" if lag.is_some() => return Err(bare(&option, "lag keeps no record; use --json")),
            "--etcd" | "--etcd-prefix" if lag.is_some() => {
                let text = value(&mut parser, &option)?;
                if let Some((etcd, prefix)) = &mut lag {
                    if option == "--etcd" { *etcd = text } else { *prefix = text }
                }
            }
            "--namespaces" => count = Some(whole(&option, &value(&mut parser, &option)?, 1, 100_000)?),
            _ => {
                let text = if OPTIONS.contains(&option.as_str()) {
                    value(&mut parser, &option)?
                } else {
                    String::new()
                };
                set(&mut fanout, &option, text)?;
            }
        }
    }
    if let Some((etcd, prefix)) = lag {
        return Ok(Job::Lag(LagArgs::new(&fanout, etcd, prefix)));
    }
    if let Some(count) = count {
        let name = fanout.namespaces.concat();
        fanout.namespaces = (0..count).map(|number| format!("{name}-{number}")).collect();
    }
    check(&fanout)?;
    Ok(Job::Fanout(Box::new(fanout)))
}

fn next(parser: &mut lexopt::Parser) -> Result<Option<String>, BadOption> {
    match parser.next() {
        Ok(Some(lexopt::Arg::Long(name))) => Ok(Some(format!("--{name}"))),
        Ok(Some(lexopt::Arg::Short(letter))) => Ok(Some(format!("-{letter}"))),
        Ok(Some(lexopt::Arg::Value(value))) => Ok(Some(value.to_string_lossy().into_owned())),
        Ok(None) => Ok(None),
        Err(fault) => Err(bare("the command line", &format!("{fault}; see --help"))),
    }
}

fn initial(parser: &mut lexopt::Parser) -> Result<Job, BadOption> {
    let mut initial = Initial::default();
    while let Some(option) = next(parser)? {
        match option.as_str() {
            "--help" | "-h" => return Ok(Job::Help),
            "--version" | "-V" => return Ok(Job::Version),
            "--i-own-this-server" => initial.base.anywhere = true,
            "--json" => initial.base.json = true,
            "--quiet" => initial.base.quiet = true,
            "--list" => initial.list = true,
            "--gzip" => initial.gzip = true,
            "--timeout" => {
                initial.timeout = duration(&option, &value(parser, &option)?, Duration::from_millis(100))?;
            }
            known if INITIAL_OPTIONS.contains(&known) => {
                set(&mut initial.base, &option, value(parser, &option)?)?;
            }
            _ => return Err(bare(&option, "not an option of initial; see revcast-perf --help")),
        }
    }
    Ok(Job::Initial(Box::new(initial)))
}

/// Those of [`OPTIONS`] that mean something to `initial` too.
const INITIAL_OPTIONS: [&str; 14] = [
    "--server",
    "--token-file",
    "--resource",
    "--namespace",
    "--objects",
    "--size",
    "--watchers",
    "--threads",
    "--client-cpu",
    "--writers",
    "--seed",
    "--server-pid",
    "--out",
    "--subject",
];

/// The options that take a value and are set by [`set`].
const OPTIONS: [&str; 27] = [
    "--server",
    "--token-file",
    "--resource",
    "--namespace",
    "--objects",
    "--size",
    "--watchers",
    "--label-selector",
    "--field-selector",
    "--connect-rate",
    "--threads",
    "--processes",
    "--sources",
    "--client-cpu",
    "--rate",
    "--ahead",
    "--writers",
    "--pipeline",
    "--warmup",
    "--duration",
    "--drain",
    "--seed",
    "--server-pid",
    "--floor",
    "--events-per-write",
    "--out",
    "--subject",
];

fn set(fanout: &mut Fanout, option: &str, text: String) -> Result<(), BadOption> {
    match option {
        "--server" => {
            fanout.server = Server::parse(&text).map_err(|mend| BadOption::new(option, &text, mend))?
        }
        "--token-file" => fanout.token_file = Some(PathBuf::from(text)),
        "--resource" => {
            let mend = "give configmaps, v1/PLURAL/KIND or GROUP/VERSION/PLURAL/KIND";
            fanout.resource = Resource::parse(&text).ok_or_else(|| BadOption::new(option, &text, mend))?;
        }
        "--namespace" => fanout.namespaces = vec![dns_label(option, text)?],
        "--objects" => fanout.objects = whole(option, &text, 1, OBJECTS_MAX)?,
        "--size" => {
            let mend = "give bytes, KiB or MiB, for example 1KiB, at most 16MiB";
            let size = parse_size(&text).filter(|&bytes| bytes <= 16 * 1024 * 1024);
            fanout.size_bytes = size.ok_or_else(|| BadOption::new(option, &text, mend))?;
        }
        "--watchers" => fanout.watchers = whole(option, &text, 1, 10_000_000)?,
        "--label-selector" => fanout.label_selector = Some(text),
        "--field-selector" => fanout.field_selector = Some(text),
        "--connect-rate" => fanout.connect_rate = whole(option, &text, 1, 1_000_000)?,
        "--threads" => fanout.threads = whole(option, &text, 1, 1024)?,
        "--processes" => fanout.processes = whole(option, &text, 1, 1024)?,
        "--sources" => fanout.sources = Some(whole(option, &text, 1, 65_000)?),
        "--client-cpu" => {
            let mend = "give CPU numbers, for example 1 or 1,3 or 2-5";
            fanout.client_cpus = cpu_list(&text).ok_or_else(|| BadOption::new(option, &text, mend))?;
        }
        "--rate" => fanout.rate = rate(option, &text)?,
        "--ahead" => fanout.ahead = whole(option, &text, 1, 100_000)?,
        "--writers" => fanout.writers = whole(option, &text, 1, 1000)?,
        "--pipeline" => fanout.pipeline = whole(option, &text, 1, 10_000)? as usize,
        "--warmup" => fanout.warmup = duration(option, &text, Duration::ZERO)?,
        "--duration" => fanout.duration = duration(option, &text, Duration::from_millis(100))?,
        "--drain" => fanout.drain = duration(option, &text, Duration::ZERO)?,
        "--seed" => {
            let seed =
                text.parse().map_err(|_| BadOption::new(option, &text, "give a whole number below 2^64"))?;
            fanout.seed = Some(seed);
        }
        "--floor" => fanout.floor = floor::FloorChoice::parse(option, &text)?,
        "--events-per-write" => fanout.events_per_write = Some(whole(option, &text, 1, 1024)?),
        "--server-pid" => fanout.server_pid = Some(whole(option, &text, 1, u32::MAX)?),
        "--out" => fanout.out = Some(PathBuf::from(text)),
        "--subject" => fanout.subject = Some(text),
        _ => return Err(bare(option, "not an option of fanout; see revcast-perf --help")),
    }
    Ok(())
}

/// What options mean together.
fn check(fanout: &Fanout) -> Result<(), BadOption> {
    let namespaces = u32::try_from(fanout.namespaces.len()).unwrap_or(u32::MAX);
    let objects = fanout.objects.saturating_mul(namespaces);
    if objects > OBJECTS_MAX {
        let mend = format!("{namespaces} namespaces have {objects} objects; {OBJECTS_MAX} is the most");
        return Err(BadOption::new("--objects", &fanout.objects.to_string(), mend));
    }
    if fanout.writers > objects {
        let mend = format!("every writer needs an object of its own, there are {objects}: raise --objects");
        return Err(BadOption::new("--writers", &fanout.writers.to_string(), mend));
    }
    if namespaces > fanout.watchers {
        let mend = format!("{} watchers cannot cover them all: raise --watchers", fanout.watchers);
        return Err(BadOption::new("--namespaces", &namespaces.to_string(), mend));
    }
    if fanout.processes > fanout.watchers {
        let mend = "more than there are --watchers";
        return Err(BadOption::new("--processes", &fanout.processes.to_string(), mend));
    }
    Ok(())
}

fn bare(option: &str, mend: &str) -> BadOption {
    BadOption { option: option.to_owned(), value: None, mend: mend.to_owned() }
}

fn value(parser: &mut lexopt::Parser, option: &str) -> Result<String, BadOption> {
    let value = parser.value().map_err(|_| bare(option, "a value is missing; see revcast-perf --help"))?;
    value.into_string().map_err(|raw| BadOption::new(option, &raw.to_string_lossy(), "write it in UTF-8"))
}

fn whole(option: &str, text: &str, least: u32, most: u32) -> Result<u32, BadOption> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| BadOption::new(option, text, format!("give a whole number from {least} to {most}")))
}

fn duration(option: &str, text: &str, least: Duration) -> Result<Duration, BadOption> {
    let duration =
        parse_duration(text).filter(|&duration| duration >= least && duration.as_secs() <= 30 * 86_400);
    let mend = if least.is_zero() {
        "give a time, for example 10s, 500ms or 2m, at most 30 days"
    } else {
        "give a time, for example 30s or 2m, from 100ms to 30 days"
    };
    duration.ok_or_else(|| BadOption::new(option, text, mend))
}

fn rate(option: &str, text: &str) -> Result<Rate, BadOption> {
    if text == "max" {
        return Ok(Rate::Max);
    }
    let per_second = text.parse().ok().filter(|rate: &f64| (0.001..=10_000_000.0).contains(rate));
    let mend = "give writes a second, for example 20 or 0.5, or max";
    per_second.map(Rate::PerSecond).ok_or_else(|| BadOption::new(option, text, mend))
}

fn dns_label(option: &str, text: String) -> Result<String, BadOption> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let valid = (1..=50).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-');
    if valid {
        Ok(text)
    } else {
        Err(BadOption::new(option, &text, "give a-z, 0-9 and - inside, at most 50 characters"))
    }
}

fn cpu_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= rustix::thread::CpuSet::MAX_CPU {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests;
