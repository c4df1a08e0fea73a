//! `revcast`: reads its options, starts the server, and closes it on a signal.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use revcast::api::resources::{Declaration, DeclareError, Registry};

use revcast::args::{self, Command};
use revcast::audit::Audit;
use revcast::auth::Guard;
use revcast::auth::reload::AuthReloader;
use revcast::catalog::Catalogs;
use revcast::clock::Clock;
use revcast::config::{Config, Flags, ResourceForm, ResourceTable};
use revcast::demo;
use revcast::notify::Manager;
use revcast::serve::{App, Freshness, Upstream};
use revcast::setting::ConfigError;
use revcast::signals::ShutdownSignals;
use revcast::source::command_queue::CommandQueue;
use revcast::source::embedded::{self, Store, StoreConfig};
use revcast::source::engine::Engine;
use revcast::source::epoch::{Epoch, Epochs};
use revcast::source::etcd::{self, EtcdOptions, Layout, OtherEtcds};
use revcast::take_over::{self, ControlSocket, PredecessorLink};
use revcast::tls::{Current, Reloader};
use revcast::{allocator, doctor, log, runtime, top, upstream};
use revcast_engine::RingLimits;
use revcast_engine::revision::Revision;
use signal_hook::consts::SIGXFSZ;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

/// The machine or container is not fit: a restart would not help (EX_CONFIG of sysexits.h).
const EXIT_UNFIT: u8 = 78;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(Failure::Usage(line)) => {
            log::last_words(&line);
            ExitCode::from(ConfigError::EXIT_CODE)
        }
        Err(Failure::Unfit(line)) => {
            log::last_words(&line);
            ExitCode::from(EXIT_UNFIT)
        }
        Err(Failure::Run(line)) => {
            log::last_words(&line);
            ExitCode::FAILURE
        }
    }
}

enum Failure {
    /// Invalid options: exit code 2.
    Usage(String),
    /// A machine that lacks what every server needs, such as io_uring: exit code 78.
    Unfit(String),
    /// Anything else: exit code 1.
    Run(String),
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<top::Fault> for Failure {
    fn from(fault: top::Fault) -> Self {
        match fault {
            top::Fault::Usage(line) => Self::Usage(format!("top: {line}")),
            top::Fault::Run(line) => Self::Run(format!("top: {line}")),
        }
    }
}

fn run() -> Result<ExitCode, Failure> {
    match args::parse(std::env::args_os().skip(1))? {
        Command::Help => print(&args::help()),
        Command::HelpOf(name) => print(&args::help_of(name)),
        Command::Version => print(&format!("revcast {}\n", env!("CARGO_PKG_VERSION"))),
        Command::Config(flags) => print(&load(&flags)?.to_toml()),
        Command::Doctor { flags, json } => {
            let config = load(&flags)?;
            let report = doctor::examine(&config, &registry(&config)?);
            if json {
                print(&(report.to_json() + "\n"));
            } else {
                print(&report.lines().into_iter().map(|line| line + "\n").collect::<String>());
            }
            if !report.is_fit() {
                return Ok(ExitCode::FAILURE);
            }
        }
        Command::Probe(target) => print(&(target.ask().map_err(Failure::Run)? + "\n")),
        Command::Top(options) => return Ok(top::run(options)?),
        Command::Completions(shell) => print(&shell.script()),
        Command::Man(None) => print(&args::page()),
        Command::Man(Some(dir)) => print(&args::write_pages(&dir).map_err(Failure::Run)?),
        Command::Serve(flags) => serve(&load(&flags)?, None)?,
        Command::Demo { flags, options } => {
            let (config, notes) = demo::configuration(&flags, &doctor::affinity())?;
            serve(&config, Some((options, notes)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn load(flags: &Flags) -> Result<Config, ConfigError> {
    Config::load(flags, std::env::vars_os(), &doctor::affinity())
}

/// Serves, for clients or for a demo with what it has to say.
fn serve(config: &Config, demo: Option<(demo::Options, Vec<String>)>) -> Result<(), Failure> {
    // Before memory is allocated.
    allocator::refuse_huge_pages();
    log::start(config.log);
    let registry = registry(config)?;
    let report = doctor::probe(config);
    if !report.is_fit() {
        return Err(Failure::Unfit(report.fatal().join("; ")));
    }
    for line in report.warnings() {
        log::warn(&line);
    }
    let certificates = config.tls.as_ref().is_some_and(|files| files.client_ca.is_some());
    let guard = Arc::new(Guard::new(config.auth(config.tls.is_some(), certificates)?)?);
    guard.warnings().iter().for_each(|line| log::warn(line));
    let served =
        |group: &str, resource: &str| registry.iter().any(|r| r.group == group && r.plural == resource);
    guard.unserved(served).iter().for_each(|line| log::warn(line));
    let store = store(config);
    // Before anything is opened.
    let found = if config.take_over { take_over::find(config.server.listen, &store) } else { Ok(None) };
    let found = found.map_err(Failure::Run)?;
    let watchers_max = config.server.max_watchers.unwrap_or(usize::MAX).min(report.watchers_max);

    let memory_max = config.server.max_memory.or_else(|| report.facts.memory_max.map(|max| max - max / 8));
    if memory_max.is_some() {
        allocator::give_back_soon();
    }
    // The weight of messages; the states that they refer to weigh about as much again.
    let ring_bytes = memory_max.map_or(config.ring.bytes, |max| config.ring.bytes.min(max / 4));
    let limits = RingLimits { bytes: ring_bytes, ..config.ring };
    let catalogs = Catalogs::new(registry, &config.server.listen.to_string());
    let engine = Engine {
        catalogs: Arc::clone(&catalogs),
        encoder: Arc::new(revcast::serve::Encoder::new(Arc::clone(&catalogs))),
        limits,
        shards: config.shards(),
    };
    // Before anything is served: a signal that arrives meanwhile stays pending until the thread waits for it.
    let ends = ShutdownSignals::take().map_err(|error| Failure::Run(error.to_string()))?;
    // A write past the limit of file sizes must fail, and be answered with 507, and not end the process.
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map_err(|error| Failure::Run(error.to_string()))?;
    let commands = CommandQueue::new();
    let tls = config.tls.clone().map(Current::open).transpose().map_err(|fault| config.tls_error(fault))?;
    let audit = config.audit.as_ref().map(Audit::start).transpose().map_err(Failure::Run)?;
    let upstream = config.upstream().cloned().map(upstream::Current::start).transpose();
    let upstream = upstream.map_err(|why| Failure::Usage(format!("upstream: {why}")))?;
    let mut plan = plan(config, (watchers_max, memory_max), limits, tls.clone(), audit.clone(), upstream);
    plan.inherits = found.as_ref().map(|found| {
        log::info(&format!("taking over from process {}, when the state is loaded", found.process));
        let admin = config.server.admin_listen;
        runtime::Inherits { admin: admin.is_some() && admin == found.admin_listen }
    });
    let (running, store_is) = match config.etcd() {
        None => start_embedded(config, &plan, catalogs, &engine, commands, &guard)?,
        Some(etcd) => start_etcd(config, &plan, etcd, catalogs, engine, commands, &guard)?,
    };
    let closer = running.closer();
    let reloader = tls.map(|tls| Reloader::start(tls, move || closer.review()));
    let reloader = reloader.transpose().map_err(|error| Failure::Run(format!("no thread: {error}")))?;
    if let Some((options, notes)) = demo {
        return show(&options, notes, running, watchers_max, ends);
    }
    let manager = Manager::of_environment().unwrap_or_else(|error| {
        log::warn(&error);
        None
    });
    let manager = manager.map(Arc::new);
    if let Some(Err(error)) = manager.as_ref().map(|manager| manager.attend(running.pulse())) {
        log::warn(&format!("no thread to notify the service manager: {error}"));
    }
    let keeper = keeper(&guard, &running.closer())?;
    let reopened = audit.clone();
    let again = move || {
        keeper.iter().for_each(AuthReloader::read_now);
        reloader.iter().for_each(Reloader::reload);
        reopened.iter().for_each(Audit::reopen);
    };
    let attended = manager.clone();
    let listener = ends.listen(running.closer(), config.server.drain_delay, manager, again);
    let listener = listener.map_err(|error| Failure::Run(error.to_string()))?;
    let handover = running.handover();
    let received = match plan.inherits {
        None => Some((PredecessorLink::default(), None)),
        Some(inherits) => take_over::receive(&handover, &store, inherits).map_err(Failure::Run)?,
    };
    let link = received.map(|(link, control)| {
        let link = Arc::new(link);
        let control = control.map_or_else(|| ControlSocket::at(running.listen), Ok);
        let answers = control
            .and_then(|control| take_over::attend(control, store, handover, attended, Arc::clone(&link)));
        if let Err(error) = answers {
            log::warn(&format!("no other process can take over from this one (--take-over): {error}"));
        }
        print(&greeting(config, &running, &store_is));
        link
    });
    let result = running.join().map_err(|error| Failure::Run(error.to_string()));
    listener.end();
    link.iter().for_each(|link| link.leave());
    audit.iter().for_each(Audit::flush);
    log::flush();
    result
}

/// Runs a demo of the server, and then closes it.
fn show(
    options: &demo::Options,
    notes: Vec<String>,
    running: runtime::Running,
    watchers_max: usize,
    ends: ShutdownSignals,
) -> Result<(), Failure> {
    let stop = demo::Stop::default();
    let stopped = stop.clone();
    let listener = ends.first(move || stopped.now()).map_err(|error| Failure::Run(error.to_string()))?;
    let admin = running.admin_listen.expect("the demo's configuration has an address for its page");
    let has_top = args::has_command("top");
    let server = demo::Server { listen: running.listen, admin, watchers_max, has_top, notes };
    let shown = demo::run(options, server, &stop).map_err(Failure::Run);
    running.closer().close(true);
    let closed = running.join().map_err(|error| Failure::Run(error.to_string()));
    listener.end();
    log::flush();
    shown.and(closed)
}

/// Where the objects are.
fn store(config: &Config) -> take_over::Store {
    match (config.etcd(), &config.embedded.data_dir) {
        (Some(etcd), _) => take_over::Store::Etcd(etcd.prefix.clone()),
        (None, Some(dir)) => take_over::Store::DataDir(dir.clone()),
        (None, None) => take_over::Store::Memory,
    }
}

/// The thread that reads files for authentication and authorization again, if there are any.
fn keeper(guard: &Arc<Guard>, closer: &runtime::Closer) -> Result<Option<AuthReloader>, Failure> {
    if !guard.has_files() {
        return Ok(None);
    }
    let closer = closer.clone();
    let keeper = AuthReloader::start(Arc::clone(guard), move || closer.review());
    keeper.map(Some).map_err(|error| {
        Failure::Run(format!("no thread to watch files for changes: {error}; raise nproc (ulimit -u)"))
    })
}

fn plan(
    config: &Config,
    (watchers_max, memory_max): (usize, Option<u64>),
    ring: RingLimits,
    tls: Option<Arc<Current>>,
    audit: Option<Audit>,
    upstream: Option<Arc<upstream::Current>>,
) -> runtime::Plan {
    let source = match (config.etcd(), &config.embedded.data_dir) {
        (Some(etcd), _) => format!("etcd {} (keys under {})", etcd.endpoints.join(","), etcd.prefix),
        (None, Some(dir)) => dir.display().to_string(),
        (None, None) => "memory".to_owned(),
    };
    runtime::Plan {
        options: Arc::clone(&config.server),
        clock: Clock::start(),
        tls,
        watchers_max,
        memory_max,
        remote: config.etcd().is_some(),
        source,
        ring,
        audit,
        upstream,
        inherits: None,
    }
}

/// Serves from the store in this process. Describes the store.
fn start_embedded(
    config: &Config,
    plan: &runtime::Plan,
    catalogs: Arc<Catalogs>,
    engine: &Engine,
    commands: Arc<CommandQueue>,
    guard: &Arc<Guard>,
) -> Result<(runtime::Running, String), Failure> {
    let names: Vec<String> =
        catalogs.current().registry.rows().map(|row| row.storage_name().to_owned()).collect();
    let store_config = match &config.embedded.data_dir {
        None => StoreConfig::memory(names, embedded::wall_now()),
        Some(dir) => StoreConfig::durable(dir, names, embedded::wall_now()),
    };
    let store_config = StoreConfig { progress: Arc::clone(&commands.stats.progress), ..store_config };
    let (store, recovery) = Store::open(&store_config).map_err(|error| Failure::Run(error.to_string()))?;
    for undeclared in &recovery.undeclared {
        log::warn(&format!(
            "{} objects of {} are stored but not served: declare it with --resource",
            undeclared.objects, undeclared.resource
        ));
    }
    recovery.clock.iter().for_each(|fault| log::warn(&fault.to_string()));
    // A file from before lives were recorded may have compacted nothing; 0 means "any" on the wire.
    let start = recovery.compacted.max(Revision::new(1));
    let (mut publisher, feed) = engine.start(start);
    embedded::replay(&recovery, &mut publisher).map_err(Failure::Run)?;
    let store_is = match &config.embedded.data_dir {
        None => "in memory (lost at exit; --data-dir DIR keeps it)".to_owned(),
        Some(dir) => {
            format!("{} ({} objects at revision {})", dir.display(), store.len(), recovery.revision)
        }
    };
    commands.stats.compacted.store(recovery.compacted.get(), std::sync::atomic::Ordering::Relaxed);
    drop(recovery);
    let epochs = Epochs::new(Epoch::loaded(0, 0, Revision::ZERO, feed));
    let app = App::new(catalogs, epochs, config.serve)
        .with_guard(Arc::clone(guard))
        .with_progress(Arc::clone(&commands.stats.progress))
        .with_names(config.allowed_hosts().clone(), plan.tls.clone())
        .with_upstream(config.upstream().map(|options| Upstream::new(options.identity)));
    app.catalogs().prepare();
    let running = runtime::start(plan, app, Arc::clone(&commands), |shards| {
        embedded::start(store, publisher, commands, shards, plan.clock, config.embedded.compact_interval)
    });
    Ok((running.map_err(|error| not_started(config, &error))?, store_is))
}

/// Serves an etcd cluster.
fn start_etcd(
    config: &Config,
    plan: &runtime::Plan,
    options: &EtcdOptions,
    catalogs: Arc<Catalogs>,
    engine: Engine,
    commands: Arc<CommandQueue>,
    guard: &Arc<Guard>,
) -> Result<(runtime::Running, String), Failure> {
    let (_, feed) = engine.start(Revision::ZERO);
    let epochs = Epochs::new(Epoch::new(0, 0, Revision::ZERO, feed));
    let layout = Layout::new(
        &options.prefix,
        catalogs.current().registry.rows().map(|row| (row.row, row.namespaced, row.etcd_folder())),
    );
    let others = OtherEtcds::new(&catalogs.current().registry, &options.overrides);
    let layout = layout.map_err(Failure::Usage)?.without(|row| others.has(row));
    let freshness = Freshness { commands: Arc::clone(&commands), limit: options.stale_limit };
    let app = App::new(Arc::clone(&catalogs), Arc::clone(&epochs), config.serve)
        .with_guard(Arc::clone(guard))
        .with_progress(Arc::clone(&commands.stats.progress))
        .with_names(config.allowed_hosts().clone(), plan.tls.clone())
        .with_other_etcds(others)
        .with_upstream(config.upstream().map(|options| Upstream::new(options.identity)))
        .with_freshness(freshness);
    app.catalogs().prepare();
    let options_of_source = options.clone();
    let running = runtime::start(plan, app, Arc::clone(&commands), |shards| {
        etcd::start(options_of_source, layout, engine, epochs, commands, shards, plan.clock)
    });
    let store_is = format!("etcd {} (keys under {})", options.endpoints.join(","), options.prefix);
    Ok((running.map_err(|error| not_started(config, &error))?, store_is))
}

/// Why no server runs.
fn not_started(config: &Config, error: &runtime::RunError) -> Failure {
    let alone = if config.take_over {
        " (no revcast of this user answered there that could be taken over)"
    } else {
        ""
    };
    Failure::Run(format!("{error}{alone}"))
}

fn registry(config: &Config) -> Result<Registry, Failure> {
    let mut registry = Registry::of_release(config.kubernetes_version);
    registry.set_event_ttl(config.event_ttl);
    for entry in &config.resources {
        let declared = match &entry.form {
            ResourceForm::Text(text) => registry.declare(text),
            ResourceForm::Table(table) => declaration(table).and_then(|declared| registry.add(&declared)),
        };
        declared.map_err(|error| Failure::Usage(format!("{}: {error}", entry.origin)))?;
    }
    let known: Vec<(&str, &str)> =
        registry.iter().map(|known| (known.group.as_str(), known.plural.as_str())).collect();
    config.check_overrides(&known)?;
    Ok(registry)
}

/// A table of the file as the registry takes it; text is parsed for both ways to write one.
fn declaration(table: &ResourceTable) -> Result<Declaration, DeclareError> {
    let ResourceTable { group, version, plural, kind, scope, .. } = table;
    let parsed = Declaration::parse(&format!("{group}/{version}/{plural}/{kind}/{scope}"))?;
    Ok(Declaration {
        short_names: table.short_names.clone(),
        categories: table.categories.clone(),
        selectable_fields: table.selectable_fields.clone(),
        ..parsed
    })
}

/// At most ten lines: the address, and three commands to copy.
fn greeting(config: &Config, running: &runtime::Running, store: &str) -> String {
    use std::fmt::Write as _;
    // Clients need the CA of the certificate, unless their system has it.
    let (scheme, kubectl_ca, curl_ca) = match config.tls {
        None => ("http", "", ""),
        Some(_) => ("https", " --certificate-authority CA.pem", " --cacert CA.pem"),
    };
    let url = format!("{scheme}://{}", running.listen);
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ =
        writeln!(text, "revcast {}: {} shards, store {store}", env!("CARGO_PKG_VERSION"), config.shards());
    let _ = write!(text, "serving {url}");
    if let Some(admin) = running.admin_listen {
        let _ = write!(text, ", metrics http://{admin}/metrics");
    }
    let _ = writeln!(text, "\ntry:");
    let server =
        if url == "http://127.0.0.1:8080" { String::new() } else { format!(" -s {url}{kubectl_ca}") };
    let _ = writeln!(text, "  kubectl{server} get configmaps -w");
    let _ = writeln!(text, "  kubectl{server} create configmap hello --from-literal=a=b");
    let _ = writeln!(text, "  curl{curl_ca} -N '{url}/api/v1/configmaps?watch=1'");
    text
}

/// Prints to stdout; a closed reader is not an error.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
