//! One run: prepare the server, open the watches, write, wait for the rest, report.

use crate::args::{BadOption, Fanout, Rate};
use crate::beside::{Beside, BesideReport};
use crate::clock::{nanos, now_ns};
use crate::fleet::Fleet;
use crate::floor;
use crate::http::{Caller, Connection};
use crate::latency::Latency;
use crate::machine;
use crate::message::{Command, Finish, Plan};
use crate::mixed::shapes;
use crate::object::Recipe;
use crate::outputs::Outputs;
use crate::pace::{Gate, Pace, report_interval_ns};
use crate::procfs;
use crate::progress::{Extent, Progress};
use crate::random::Random;
use crate::record::Record;
use crate::report::{Memory, Report};
use crate::scope::Scope;
use crate::series::Series;
use crate::stock;
use crate::tally::Tally;
use crate::units::{show_count, show_ns, show_rate};
use crate::writer::{Order, Writer, Written};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Descriptors of a process that are not watches: epolls, pipes, the writers, what the runtime holds.
const SPARE_DESCRIPTORS: u64 = 256;
/// One source address has 28,232 ports by default (net.ipv4.ip_local_port_range).
const WATCHERS_PER_SOURCE: u32 = 28_000;
/// After the last watch is open: how long the server may settle before its memory is read.
const SETTLE: Duration = Duration::from_millis(500);
/// Between the word "measure from" and the first write.
const LEAD_NS: u64 = 200_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// How often those who write are looked after.
const WRITING_LOOK_NS: u64 = 10_000_000;
/// Without one more established watch for so long the opening has failed.
const OPENING_STALL_NS: u64 = 30_000_000_000;
/// Filling the sockets of those who never read: how long at most, and how long nothing comes when it is over.
const FILL_LONGEST_NS: u64 = 60_000_000_000;
const FILL_QUIET_NS: u64 = 2_000_000_000;

/// Why there is no report.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// An option asks for what cannot be.
    Option(BadOption),
    /// The server or the machine did not do its part.
    Run(String),
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Option(bad) => write!(out, "{bad}"),
            Self::Run(why) => out.write_str(why),
        }
    }
}

impl From<BadOption> for Trouble {
    fn from(bad: BadOption) -> Self {
        Self::Option(bad)
    }
}

impl From<String> for Trouble {
    fn from(why: String) -> Self {
        Self::Run(why)
    }
}

/// CPU time used so far by the server, and by this generator, ns.
#[derive(Clone, Debug)]
struct CpuMark {
    server: Option<procfs::CpuMark>,
    client_ns: Option<u64>,
}

/// The moments of a run's writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) start_ns: u64,
    /// Writes meant to be sent from here on are measured.
    pub(crate) measure_from_ns: u64,
    /// `u64::MAX`: until they are told to stop.
    pub(crate) end_ns: u64,
}

/// Whoever writes during a run.
pub(crate) trait Writing {
    /// No more writes come.
    fn is_done(&mut self) -> Result<bool, String>;
    /// What was written, once it is done.
    fn written(&mut self) -> Result<Vec<Written>, String>;
    /// What went on beside it.
    fn beside(&mut self) -> Result<BesideReport, String> {
        Ok(BesideReport::default())
    }
}

/// Writers with a thread each, and what goes on beside them.
#[derive(Debug)]
struct Threads {
    writers: Vec<JoinHandle<Written>>,
    beside: Option<Beside>,
}

impl Writing for Threads {
    fn is_done(&mut self) -> Result<bool, String> {
        Ok(self.writers.iter().all(JoinHandle::is_finished))
    }

    fn written(&mut self) -> Result<Vec<Written>, String> {
        let join = |writer: JoinHandle<Written>| writer.join().map_err(|_| "a writer panicked".to_owned());
        self.writers.drain(..).map(join).collect()
    }

    fn beside(&mut self) -> Result<BesideReport, String> {
        self.beside.take().map_or_else(|| Ok(BesideReport::default()), Beside::end)
    }
}

/// One run under way.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    args: &'a Fanout,
    address: SocketAddr,
    caller: Caller,
    recipe: Recipe,
    server_pid: Option<u32>,
    /// Of one object; 0: not known.
    object_bytes: usize,
    acknowledged: Arc<AtomicU64>,
    series: Series,
    progress: Progress,
    /// Of writes that follow no clock.
    pace: Option<Pace>,
    /// When the writers stop; 0 until that is known.
    end_ns: u64,
    record: Record,
}

/// Raises the soft limit of open files to the hard one, and gives it.
pub(crate) fn raise_nofile() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // Refused: the soft limit holds, and is what counts.
    let _refused = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Does the whole run, and keeps it where `--out` says.
pub(crate) fn run(args: &Fanout) -> Result<Report, Trouble> {
    let outputs = Outputs::open(args.out.as_deref())?;
    let run = Run::prepare(args)?;
    let address = run.address;
    let mut report = run.go()?;
    floor::beside_report(args, address, &mut report);
    if let Some(outputs) = outputs {
        outputs.keep(&report.record)?;
    }
    Ok(report)
}

/// What a record calls the server.
pub(crate) fn subject(args: &Fanout, server_pid: Option<u32>) -> String {
    let named = args.subject.clone().or_else(|| server_pid.and_then(machine::name_of));
    named.unwrap_or_else(|| format!("http://{}", args.server.authority()))
}

/// Says when more watchers are asked for than fit into so many processes.
pub(crate) fn check_descriptors(watchers: u32, processes: u32, limit: u64) -> Result<(), BadOption> {
    let room = limit.saturating_sub(SPARE_DESCRIPTORS);
    let each = u64::from(watchers.div_ceil(processes));
    if each <= room {
        return Ok(());
    }
    let mend = if room == 0 {
        format!("the limit of open files is {limit}: raise it (ulimit -n)")
    } else {
        let enough = u64::from(watchers).div_ceil(room);
        let needed = each + SPARE_DESCRIPTORS;
        format!(
            "{each} watchers need {needed} open files in a process, {limit} are allowed: use --processes {enough}"
        )
    };
    Err(BadOption::new("--watchers", &watchers.to_string(), mend))
}

/// Binds this thread, and all that it starts from here on, to some CPUs.
pub(crate) fn pin(cpus: &[usize]) -> Result<(), BadOption> {
    let shown = cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    pin_to(cpus).map_err(|fault| BadOption::new("--client-cpu", &shown, format!("not allowed: {fault}")))
}

/// The same; none: as it was.
pub(crate) fn pin_to(cpus: &[usize]) -> Result<(), rustix::io::Errno> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    sched_setaffinity(None, &set)
}

pub(crate) fn read_token(args: &Fanout) -> Result<Option<String>, BadOption> {
    let Some(path) = &args.token_file else { return Ok(None) };
    let bad = |mend: String| BadOption::new("--token-file", &path.to_string_lossy(), mend);
    let token = fs::read_to_string(path).map_err(|fault| bad(format!("cannot be read: {fault}")))?;
    let token = token.trim().to_owned();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(bad("give a file with one bearer token in it".to_owned()));
    }
    Ok(Some(token))
}

impl<'a> Run<'a> {
    /// Pins this process, raises its limits, and finds the server.
    pub(crate) fn prepare(args: &'a Fanout) -> Result<Self, Trouble> {
        check_descriptors(args.watchers, args.processes, raise_nofile())?;
        pin(&args.client_cpus)?;
        let address = args.server.resolve(args.anywhere).map_err(|fault| {
            BadOption::new("--server", &format!("http://{}", args.server.authority()), fault.to_string())
        })?;
        if args.sources.is_some() && !(address.is_ipv4() && address.ip().is_loopback()) {
            let sources = args.sources.unwrap_or(0).to_string();
            return Err(BadOption::new(
                "--sources",
                &sources,
                "only for a server on 127.0.0.1; leave it away",
            )
            .into());
        }
        let caller = Caller { host: args.server.authority(), token: read_token(args)? };
        let run_id = Random::new(now_ns() ^ u64::from(std::process::id()) << 48).next();
        let recipe = Recipe {
            resource: args.resource.clone(),
            namespaces: args.namespaces.clone(),
            per_namespace: args.objects,
            run: run_id,
            seed: args.seed.unwrap_or(run_id >> 32),
            pad_bytes: 0,
        };
        let server_pid =
            args.server_pid.or_else(|| procfs::listener(address).filter(|_| address.ip().is_loopback()));
        if let Some(pid) = args.server_pid.filter(|&pid| procfs::cpu_time(pid).is_none()) {
            return Err(BadOption::new("--server-pid", &pid.to_string(), "there is no such process").into());
        }
        let mut record = Record::new("fanout", &subject(args, server_pid), 1);
        record.set_server(server_pid, stock::server_version(&mut Connection::new(address, caller.clone())));
        Ok(Self { record, ..Self::new(args, address, caller, recipe, server_pid) })
    }

    pub(crate) fn new(
        args: &'a Fanout,
        address: SocketAddr,
        caller: Caller,
        recipe: Recipe,
        server_pid: Option<u32>,
    ) -> Self {
        Self {
            args,
            address,
            caller,
            recipe,
            server_pid,
            object_bytes: 0,
            acknowledged: Arc::new(AtomicU64::new(0)),
            series: Series::new(server_pid),
            progress: Progress::new(args.quiet),
            pace: None,
            end_ns: 0,
            record: Record::new("fanout", "", 1),
        }
    }

    fn go(mut self) -> Result<Report, String> {
        let (object_bytes, scopes) = self.stock()?;
        self.object_bytes = object_bytes;
        let (mixture, caller) = (&self.args.mixture, self.caller.clone());
        let recipe = self.recipe.clone();
        let address = self.address;
        self.measure(&scopes, |run, span, before| {
            let Span { measure_from_ns, end_ns, .. } = span;
            let beside = Beside::start(mixture, address, &caller, &recipe, measure_from_ns, end_ns);
            let writers = run.start_writers(before, span, u64::MAX);
            Ok(Box::new(Threads { writers, beside: Some(beside) }))
        })
    }

    /// Opens the watches, has somebody write, waits for the rest, and closes the accounts.
    pub(crate) fn measure(
        mut self,
        scopes: &[Scope],
        begin: impl FnOnce(&Self, Span, &[Written]) -> Result<Box<dyn Writing>, String>,
    ) -> Result<Report, String> {
        let args = self.args;
        let mut memory = Memory { before: self.rss(), ..Memory::default() };
        let mut fleet = self.open(scopes)?;
        self.wait_until(&mut fleet, now_ns() + nanos(SETTLE))?;
        memory.idle = self.rss();
        let mut written = self.fill(&mut fleet)?;

        let start_ns = now_ns() + LEAD_NS;
        let measure_from_ns = start_ns + nanos(args.warmup);
        let end_ns = measure_from_ns + nanos(args.duration);
        fleet.tell_all(&Command::Measure { from_ns: measure_from_ns })?;
        self.end_ns = end_ns;
        self.progress.phase("measuring", Extent::Time(args.warmup + args.duration));
        let (watchers, objects) = (args.watchers, self.recipe.objects());
        self.pace = Pace::new(args, args.rate, scopes, watchers, objects, fleet.totals().1);
        let mut writing = begin(&self, Span { start_ns, measure_from_ns, end_ns }, &written)?;
        while now_ns() < measure_from_ns {
            self.wait_until(&mut fleet, measure_from_ns.min(now_ns() + WRITING_LOOK_NS))?;
            writing.is_done()?;
        }
        let mark = self.cpu_mark(&fleet);
        while !writing.is_done()? {
            self.wait_until(&mut fleet, now_ns() + WRITING_LOOK_NS)?;
        }
        written.extend(writing.written()?);
        let beside = writing.beside()?;
        memory.loaded = self.rss();
        memory.loaded_anon = self.server_pid.and_then(procfs::anon_bytes);
        // Who never reads is only worth a look while he is connected.
        memory.kernel = if args.mixture.deaf_percent > 0 { procfs::held(self.address) } else { None };
        fleet.tell_all(&Command::Finish(self.finish(&written)))?;
        self.progress.phase("draining", Extent::Open);
        while !fleet.is_done() {
            self.step(&mut fleet, now_ns() + SECOND_NS)?;
        }
        let used = self.cpu_mark(&fleet);
        memory.end = self.rss();

        let mut report = self.report(&fleet, &written, measure_from_ns);
        report.beside = beside;
        report.set_memory(&memory);
        let window_ns = fleet.tally.last_delivery_ns.max(end_ns).saturating_sub(measure_from_ns);
        report.server_cpu_ns = used.server.zip(mark.server).map(|(after, before)| after.since(&before));
        let received = fleet.tally.received_in_window;
        report.server_cpu_ns_per_delivery =
            report.server_cpu_ns.filter(|_| received > 0).map(|ns| ns as f64 / received as f64);
        report.server_cpu_share = report.server_cpu_ns.map(|ns| ns as f64 / window_ns as f64);
        let client_ns =
            used.client_ns.zip(mark.client_ns).map(|(after, before)| after.saturating_sub(before));
        report.client_cpu_share = client_ns.map(|ns| ns as f64 / window_ns as f64);
        report.object_bytes = self.object_bytes;
        report.judge();
        report.record = report.keep_in(self.record, &fleet.latency, self.series.rows);
        Ok(report)
    }

    /// Creates the objects and learns what the scopes cover. Gives an object's size too.
    pub(crate) fn stock(&mut self) -> Result<(usize, Vec<Scope>), String> {
        self.progress.phase("creating objects", Extent::Open);
        let mut server = Connection::new(self.address, self.caller.clone());
        let object_bytes = stock::create_objects(&mut server, &mut self.recipe, self.args.size_bytes)?;
        let (labels, fields) = (self.args.label_selector.as_deref(), self.args.field_selector.as_deref());
        let scopes = if self.args.mixture.shapes {
            shapes::list(&mut server, &self.recipe)?
        } else {
            stock::list_scopes(&mut server, &self.recipe, labels, fields)?
        };
        Ok((object_bytes, scopes))
    }

    /// What says how far writes may go that follow no clock.
    pub(crate) fn gate(&self) -> Option<Arc<Gate>> {
        self.pace.as_ref().map(Pace::gate)
    }

    /// Opens every watch.
    pub(crate) fn open(&mut self, scopes: &[Scope]) -> Result<Fleet, String> {
        let mut fleet = Fleet::start(&self.plans(scopes))?;
        self.progress.phase("opening watches", Extent::Count(u64::from(self.args.watchers)));
        self.await_open(&mut fleet)?;
        Ok(fleet)
    }

    pub(crate) fn server_pid(&self) -> Option<u32> {
        self.server_pid
    }

    fn rss(&self) -> Option<u64> {
        self.server_pid.and_then(procfs::rss_bytes)
    }

    /// Writes, as fast as it goes, what fills the sockets of those who never read; and waits until it has arrived at the
    /// others.
    fn fill(&mut self, fleet: &mut Fleet) -> Result<Vec<Written>, String> {
        let writes = self.args.mixture.fill_bytes.div_ceil(self.object_bytes.max(1)) as u64;
        if writes == 0 {
            return Ok(Vec::new());
        }
        let each = writes.div_ceil(u64::from(self.args.writers));
        let until_ns = now_ns() + FILL_LONGEST_NS;
        let span = Span { start_ns: now_ns(), measure_from_ns: u64::MAX, end_ns: until_ns };
        let writers = self.start_writers(&[], span, each);
        let written = self.await_writers(fleet, writers)?;
        let (mut delivered, mut moved_ns) = (0, now_ns());
        while now_ns() < until_ns && now_ns() < moved_ns + FILL_QUIET_NS {
            self.step(fleet, now_ns() + 100_000_000)?;
            if fleet.totals().1 > delivered {
                (delivered, moved_ns) = (fleet.totals().1, now_ns());
            }
        }
        Ok(written)
    }

    fn await_writers(
        &mut self,
        fleet: &mut Fleet,
        writers: Vec<JoinHandle<Written>>,
    ) -> Result<Vec<Written>, String> {
        while !writers.iter().all(JoinHandle::is_finished) {
            self.wait_until(fleet, now_ns() + 20_000_000)?;
        }
        writers.into_iter().map(|writer| writer.join().map_err(|_| "a writer panicked".to_owned())).collect()
    }

    /// One plan for each receiving process.
    fn plans(&self, scopes: &[Scope]) -> Vec<Plan> {
        let args = self.args;
        let opening = Duration::from_secs(u64::from(args.watchers / args.connect_rate));
        let lasts = opening + args.warmup + args.duration + args.drain + Duration::from_secs(600);
        let several =
            self.address.is_ipv4() && self.address.ip().is_loopback() && args.watchers > WATCHERS_PER_SOURCE;
        let needed = if several { args.watchers.div_ceil(20_000) } else { 0 };
        let sources = args.sources.unwrap_or(needed);
        let share = |number: u32| {
            let edge = |number: u32| u64::from(args.watchers) * u64::from(number) / u64::from(args.processes);
            let (first, next) = (edge(number), edge(number + 1));
            (u32::try_from(first).unwrap_or(u32::MAX), u32::try_from(next - first).unwrap_or(u32::MAX))
        };
        let plan = |number: u32| {
            let (first_watcher, watchers) = share(number);
            Plan {
                address: self.address,
                host: self.caller.host.clone(),
                token: self.caller.token.clone(),
                run: self.recipe.run,
                scopes: scopes.to_vec(),
                first_watcher,
                watchers,
                threads: args.threads.min(watchers),
                sources,
                connect_interval_ns: SECOND_NS * u64::from(args.processes) / u64::from(args.connect_rate),
                report_interval_ns: report_interval_ns(args.rate),
                timeout_seconds: lasts.as_secs(),
                bookmarks: args.bookmarks,
                mixture: args.mixture.clone(),
            }
        };
        (0..args.processes).map(plan).collect()
    }

    /// Writers that go on where those of `before` ended. Without a measured moment: as fast as it goes.
    fn start_writers(&self, before: &[Written], span: Span, writes_max: u64) -> Vec<JoinHandle<Written>> {
        let Span { start_ns, measure_from_ns, end_ns } = span;
        let interval_ns = match self.args.rate {
            _ if measure_from_ns == u64::MAX => 0,
            Rate::Max => 0,
            Rate::PerSecond(rate) => {
                nanos(Duration::from_secs_f64(f64::from(self.args.writers) / rate)).max(1)
            }
        };
        let start = |number| {
            let order = Order {
                address: self.address,
                caller: self.caller.clone(),
                recipe: self.recipe.clone(),
                number,
                writers: self.args.writers,
                start_ns,
                end_ns,
                measure_from_ns,
                interval_ns,
                depth: self.args.pipeline,
                writes_max,
                written_before: before.iter().flat_map(|writer| writer.finals.iter().copied()).collect(),
            };
            let writer = Writer::new(order, Arc::clone(&self.acknowledged)).behind(self.gate());
            thread::spawn(move || writer.run())
        };
        (0..self.args.writers).map(start).collect()
    }

    /// Ends every watch; nothing is on its way.
    pub(crate) fn close(&mut self, mut fleet: Fleet) -> Result<Tally, String> {
        fleet.tell_all(&Command::Finish(self.finish(&[])))?;
        while !fleet.is_done() {
            self.step(&mut fleet, now_ns() + SECOND_NS)?;
        }
        Ok(std::mem::take(&mut fleet.tally))
    }

    /// Waits until every watch is established. Fails when no more come.
    fn await_open(&mut self, fleet: &mut Fleet) -> Result<(), String> {
        let (mut open, mut moved_ns) = (0, now_ns());
        while !fleet.is_ready() {
            self.step(fleet, now_ns() + SECOND_NS)?;
            let now_open = fleet.totals().0;
            if now_open > open {
                (open, moved_ns) = (now_open, now_ns());
            }
            if now_ns() > moved_ns + OPENING_STALL_NS {
                return Err(format!(
                    "only {open} of {} watches were answered, and none for 30 s",
                    self.args.watchers
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn wait_until(&mut self, fleet: &mut Fleet, until_ns: u64) -> Result<(), String> {
        while now_ns() < until_ns {
            self.step(fleet, until_ns)?;
        }
        Ok(())
    }

    /// Listens to the fleet until `until_ns` at most, and keeps and shows the row of the second when it is due.
    fn step(&mut self, fleet: &mut Fleet, until_ns: u64) -> Result<(), String> {
        let wait_ns = until_ns.min(self.series.due_ns).saturating_sub(now_ns());
        fleet.listen(Duration::from_nanos(wait_ns))?;
        let (open, delivered) = fleet.totals();
        if let Some(pace) = &mut self.pace {
            pace.learn(open, delivered);
        }
        if !fleet.is_ready() {
            self.progress.reach(open);
        }
        let now = now_ns();
        if now < self.series.due_ns {
            return Ok(());
        }
        let row = self.series.sample(open, delivered, &fleet.recent);
        fleet.recent.clear();
        if self.end_ns > now {
            self.progress.leave(Duration::from_nanos(self.end_ns - now));
        }
        let p99 = row.latency_p99_ns.map_or_else(|| "-".to_owned(), show_ns);
        let figures = format!(
            "writes {}  deliveries {}  {}  p99 {p99}",
            show_count(self.acknowledged.load(Ordering::Relaxed)),
            show_count(delivered),
            show_rate(row.deliveries_per_second),
        );
        let line = format!("{:6.1} s  watchers {}  {figures}", row.at_seconds, show_count(open));
        self.progress.say(&line, &figures);
        Ok(())
    }

    fn cpu_mark(&self, fleet: &Fleet) -> CpuMark {
        let server = self.server_pid.and_then(procfs::CpuMark::of);
        let own = fleet.pids().into_iter().chain([std::process::id()]);
        let client_ns = own.map(|pid| procfs::cpu_time(pid).map(nanos)).sum();
        CpuMark { server, client_ns }
    }

    fn finish(&self, written: &[Written]) -> Finish {
        let mut finals = vec![0; self.recipe.objects() as usize];
        for &(object, seq) in written.iter().flat_map(|writer| &writer.finals) {
            finals[object as usize] = seq;
        }
        let failed = written.iter().flat_map(|writer| writer.failed.iter().copied()).collect();
        Finish { finals, failed, drain_ns: nanos(self.args.drain) }
    }

    fn report(&self, fleet: &Fleet, written: &[Written], measure_from_ns: u64) -> Report {
        let (mut latency, mut lateness) = (Latency::new(), Latency::new());
        for writer in written {
            latency.add(&writer.latency.pairs());
            lateness.add(&writer.lateness.pairs());
        }
        let tally = &fleet.tally;
        let seconds_until = |end_ns: u64| (end_ns.saturating_sub(measure_from_ns)).max(1) as f64 / 1e9;
        let writes = written.iter().map(|writer| writer.measured).sum();
        let last_reply_ns = written.iter().map(|writer| writer.last_reply_ns).max().unwrap_or(0);
        // An open loop lasts as long as it was asked to; only a server that falls behind makes it longer.
        let writing_seconds = seconds_until(last_reply_ns).max(self.args.duration.as_secs_f64());
        let delivering_seconds = seconds_until(tally.last_delivery_ns).max(self.args.duration.as_secs_f64());
        let opening_ns = fleet.last_established_ns.saturating_sub(fleet.first_connect_ns).max(1);
        let opening_seconds = opening_ns as f64 / 1e9;
        let write_fault = written.iter().find_map(|writer| writer.first_fault.clone());
        let mut report = Report {
            server: format!("http://{}", self.caller.host),
            resource: self.recipe.resource.plural.clone(),
            namespaces: self.recipe.namespaces.len(),
            objects: self.recipe.objects(),
            watchers: self.args.watchers,
            seed: self.recipe.seed,
            watch_open_rate_per_second: f64::from(self.args.watchers) / opening_seconds,
            watch_open_seconds: opening_seconds,
            writes,
            writes_failed: written.iter().map(|writer| writer.failed.len() as u64).sum(),
            write_rate_wanted_per_second: match self.args.rate {
                Rate::PerSecond(rate) => Some(rate),
                Rate::Max => None,
            },
            write_rate_per_second: writes as f64 / writing_seconds,
            write_send_delay_p99_ns: lateness.at(0.99),
            deliveries: tally.measured,
            // All that arrived in that time, and not only what was written in it: else what was on its way when it began would
            // count as time in which nothing came, the more of it the longer the queue.
            deliveries_per_second: tally.received_in_window as f64 / delivering_seconds,
            events_per_read: tally.events_per_read(),
            frame_bytes: tally.frame_bytes(),
            stream_bytes_per_second: tally.bytes_in_window as f64 / delivering_seconds,
            deliveries_checked: tally.delivered,
            deliveries_expected: tally.expected,
            lost: tally.lost,
            duplicated: tally.duplicated,
            out_of_order: tally.out_of_order,
            disconnected: tally.disconnected,
            malformed: tally.malformed,
            unexpected: tally.unexpected,
            foreign: tally.foreign,
            deaf: tally.deaf,
            deaf_ended: tally.deaf_ended,
            returned: tally.returned,
            bookmarks: tally.bookmarks,
            error_events: tally.errors,
            first_fault: tally.first_fault.clone().or(write_fault),
            server_pid: self.server_pid,
            client_cpus: match self.args.client_cpus.len() {
                0 => thread::available_parallelism().map_or(1, Into::into),
                pinned => pinned,
            },
            ..Report::default()
        };
        report.set_latency(&fleet.latency);
        report.set_write_latency(&latency);
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_watchers_are_told_how_many_processes_they_need() {
        assert!(check_descriptors(19_000, 1, 20_000).is_ok());
        let bad = check_descriptors(50_000, 1, 20_000).expect_err("over the limit").to_string();
        assert_eq!(
            bad,
            r#"--watchers "50000": 50000 watchers need 50256 open files in a process, 20000 are allowed: use --processes 3"#
        );
        assert!(check_descriptors(50_000, 3, 20_000).is_ok());
        assert!(check_descriptors(1, 1, 100).is_err_and(|bad| bad.to_string().contains("ulimit")));
    }
}
