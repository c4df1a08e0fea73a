//! A real server in a separate process: built, started on free ports, stopped by its id.
//!
//! The same tests run on every store: `REVCAST_TEST_STORE` is `embedded` (or unset), `etcd-3.4`, `etcd-3.5` or
//! `beside`. With etcd, each server has one of its own, unless its options name another. `beside` is etcd 3.5 with a second server
//! in front of it, to which the one under test forwards whatever it does not serve from its cache. `REVCAST_STORAGE_MEDIA_TYPE` is passed on: the form
//! in which the servers store objects.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::client::Client;
use crate::etcd::{Etcd, Options, Release};
use crate::shared_options::{self, shared};
use crate::tls::Trust;

/// The `Host` of test requests, unless the test is about it.
const HOSTS: &str = "a,g,h,t,test";

/// The form in which servers store objects, passed on to them.
const STORAGE_FORM: &str = "REVCAST_STORAGE_MEDIA_TYPE";

/// The binary under test: `REVCAST_BIN`, or one that cargo builds now.
///
/// # Panics
/// When it cannot be built.
pub fn binary() -> &'static PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = std::env::var_os("REVCAST_BIN") {
            return path.into();
        }
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["build", "-p", "revcast", "--message-format=json-render-diagnostics"])
            .current_dir(&root)
            .stderr(Stdio::inherit())
            .output()
            .expect("cargo runs");
        assert!(output.status.success(), "cargo build -p revcast failed: see above");
        let text = String::from_utf8_lossy(&output.stdout);
        let executable = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let executable = executable
            .filter(|message| message["target"]["name"] == "revcast")
            .find_map(|message| message["executable"].as_str().map(PathBuf::from));
        executable.expect("cargo names the executable it built")
    })
}

/// A command that starts the binary, without the variables of the tests: it refuses `REVCAST_` variables that it does
/// not know.
pub fn command() -> Command {
    let mut command = Command::new(binary());
    without_ours(&mut command);
    command
}

fn without_ours(command: &mut Command) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("REVCAST_")) {
        command.env_remove(name);
    }
}

/// The store of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// The server's own, in memory by default.
    Embedded,
    /// A real etcd.
    Etcd(Release),
    /// A real etcd, with an upstream that writes into it.
    Beside,
}

impl Store {
    /// The one that `REVCAST_TEST_STORE` names.
    ///
    /// # Panics
    /// When it names none of them.
    #[must_use]
    pub fn chosen() -> Self {
        let name = std::env::var_os("REVCAST_TEST_STORE").unwrap_or_default();
        let name = name.to_string_lossy();
        Self::named(&name).unwrap_or_else(|| {
            panic!("REVCAST_TEST_STORE={name}: no such store; write embedded, etcd-3.4, etcd-3.5 or beside")
        })
    }

    /// As in `REVCAST_TEST_STORE`.
    fn name(self) -> String {
        match self {
            Self::Embedded => "embedded".to_owned(),
            Self::Etcd(release) => format!("etcd-{}", release.text()),
            Self::Beside => "beside".to_owned(),
        }
    }

    fn named(name: &str) -> Option<Self> {
        let of_name = |release: &Release| name.strip_prefix("etcd-") == Some(release.text());
        match name {
            "" | "embedded" => Some(Self::Embedded),
            "beside" => Some(Self::Beside),
            _ => Release::ALL.into_iter().find(of_name).map(Self::Etcd),
        }
    }
}

/// Whether a test about the embedded store may run. If not, prints a notice that the test harness does not capture:
/// begin such a test with `if !embedded_only("why") { return }`.
#[must_use]
pub fn embedded_only(why: &str) -> bool {
    Store::chosen() == Store::Embedded || skipped(why)
}

/// The same for a test that has nothing to show beside an upstream.
#[must_use]
pub fn not_beside(why: &str) -> bool {
    Store::chosen() != Store::Beside || skipped(why)
}

/// Says that a test is skipped. False.
fn skipped(why: &str) -> bool {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // The reader of our output may have ended.
    let _ = writeln!(std::io::stderr(), "!!! SKIPPED on {}: {test}: {why}", Store::chosen().name());
    false
}

/// A running server. Killed when it is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// What it forwards to, if that is its own. After the server itself, so that it ends later.
    upstream: Option<Box<Self>>,
    /// Its own store, if that is a process. It ends last.
    etcd: Option<Etcd>,
    /// `127.0.0.1:PORT`.
    pub address: String,
    /// The admin address.
    pub admin: String,
    /// The authority that its clients trust, if they use TLS.
    trust: Option<Trust>,
    /// With which its clients name themselves, if they do.
    token: Option<String>,
    /// Its output at the start.
    pub greeting: Vec<String>,
}

impl Server {
    /// Starts one on free ports with more options, and waits until it serves. Unless they name endpoints of an etcd, it
    /// has the store that [`Store::chosen`] names.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(options: &[&str]) -> Self {
        Self::start_with(Command::new(binary()), options)
    }

    /// As [`Server::start`], with at most `nofile` descriptors.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_with_nofile(nofile: u32, options: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("ulimit -n {nofile}; exec \"$0\" \"$@\"")).arg(binary());
        Self::start_with(shell, options)
    }

    /// As [`Server::start`], with a command of the test, without arguments yet.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_by(command: Command, options: &[&str]) -> Self {
        Self::start_with(command, options)
    }

    /// As [`Server::start`], for clients that use TLS and trust `trust`; the options name its certificate.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_with_tls(trust: &Trust, options: &[&str]) -> Self {
        let mut server = Self::spawn(Command::new(binary()), options);
        server.trust = Some(trust.clone());
        server.await_ready(Duration::from_secs(20));
        server
    }

    /// The same server for clients with a bearer token.
    #[must_use]
    pub fn for_bearers_of(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// As [`Server::start`], without waiting until it serves: it may never do so.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_unready(options: &[&str]) -> Self {
        Self::spawn(Command::new(binary()), options)
    }

    fn start_with(command: Command, options: &[&str]) -> Self {
        let server = Self::spawn(command, options);
        server.await_ready(Duration::from_secs(20));
        server
    }

    /// Whether it has a file for pages that sockets share.
    ///
    /// # Panics
    /// When it is not there any more.
    #[must_use]
    pub fn shares_pages(&self) -> bool {
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("a process");
        descriptors
            .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
            .any(|link| link.to_string_lossy().contains("memfd:revcast-events"))
    }

    /// Waits until it serves.
    ///
    /// # Panics
    /// When it does not in time.
    pub fn await_ready(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        while self.client().get("/readyz").status != 200 {
            assert!(Instant::now() < deadline, "the server does not become ready");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn spawn(mut command: Command, options: &[&str]) -> Self {
        without_ours(&mut command);
        // The same tests hold for objects in either form.
        if let Some(form) = std::env::var_os(STORAGE_FORM) {
            command.env(STORAGE_FORM, form);
        }
        let given = |name: &str| options.iter().any(|option| option.split('=').next() == Some(name));
        let etcd = match Store::chosen() {
            Store::Embedded => None,
            Store::Etcd(_) | Store::Beside if given("--etcd-endpoints") => None,
            Store::Etcd(release) => Some(release),
            Store::Beside => Some(shared_options::RELEASE),
        };
        let etcd = etcd.map(|release| {
            assert!(!given("--data-dir"), "--data-dir is the embedded store's: ask embedded_only first");
            Etcd::start(release, Options::default())
        });
        let endpoint = etcd.as_ref().map(|etcd| ["--etcd-endpoints".to_owned(), etcd.endpoint()]);
        let upstream = etcd.as_ref().filter(|_| Store::chosen() == Store::Beside);
        let upstream = upstream.map(|etcd| Box::new(Self::upstream_of(etcd, options)));
        let forwards =
            upstream.as_ref().map(|it| ["--upstream".to_owned(), format!("http://{}", it.address)]);
        let mut child = command
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
            .args(["--allowed-hosts", HOSTS])
            .args(endpoint.iter().flatten())
            .args(forwards.iter().flatten())
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        let mut lines = BufReader::new(stdout).lines();
        let mut greeting = Vec::new();
        let mut addresses = None;
        while addresses.is_none() {
            let Some(Ok(line)) = lines.next() else {
                panic!("the server ended at its start: {:?}, it said {greeting:?}", child.wait())
            };
            addresses = parse_addresses(&line);
            greeting.push(line);
        }
        greeting.extend(lines.by_ref().take(4).map_while(Result::ok));
        let (address, admin) = addresses.expect("the loop ends with them");
        Self { child, upstream, etcd, address, admin, trust: None, token: None, greeting }
    }

    /// What a server with these options forwards to: in plain HTTP, without users, over the same etcd.
    fn upstream_of(etcd: &Etcd, options: &[&str]) -> Self {
        let endpoint = etcd.endpoint();
        let own = ["--etcd-endpoints", &endpoint, "--shards", "1"];
        Self::start(&[&own[..], &shared(options)].concat())
    }

    /// A client of it.
    #[must_use]
    pub fn client(&self) -> Client {
        self.bearing(match &self.trust {
            None => Client::new(&self.address),
            Some(trust) => Client::over_tls(&self.address, trust),
        })
    }

    /// A client of its admin address.
    #[must_use]
    pub fn admin_client(&self) -> Client {
        self.bearing(Client::new(&self.admin))
    }

    fn bearing(&self, client: Client) -> Client {
        match &self.token {
            None => client,
            Some(token) => client.bearing(token),
        }
    }

    /// Its own etcd, if it has one.
    pub const fn etcd(&mut self) -> Option<&mut Etcd> {
        self.etcd.as_mut()
    }

    /// What it forwards to, if that is its own.
    #[must_use]
    pub fn upstream(&self) -> Option<&Self> {
        self.upstream.as_deref()
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it at once, as a crash would.
    ///
    /// # Panics
    /// When it is gone already.
    pub fn kill(mut self) {
        self.kill_at_once();
    }

    /// The same for one that is replaced.
    ///
    /// # Panics
    /// As [`Server::kill`].
    pub fn kill_at_once(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it is ours");
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// When it has ended.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("it runs");
    }

    /// Its exit status, if it has ended: its exit code; after a signal, the shell's code.
    ///
    /// # Panics
    /// When the system does not tell.
    pub fn ended(&mut self) -> Option<i32> {
        let status = self.child.try_wait().expect("it is ours")?;
        status.code().or_else(|| status.signal().map(|signal| 128 + signal))
    }

    /// Waits until it has ended; its exit code.
    ///
    /// # Panics
    /// When it does not in time.
    pub fn await_end(&mut self, patience: Duration) -> i32 {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(code) = self.ended() {
                return code;
            }
            assert!(Instant::now() < deadline, "the server does not end within {patience:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops it, waits, and returns its exit code.
    ///
    /// # Panics
    /// When it does not end in 20 s.
    pub fn terminate(mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        Some(self.await_end(Duration::from_secs(20)))
    }

    /// Waits until a metric has this value.
    ///
    /// # Panics
    /// When it has not in 20 s.
    pub fn wait_for_metric(&self, name: &str, value: u64) {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let found = self.metric(name);
            if found == value {
                return;
            }
            assert!(Instant::now() < deadline, "{name} is {found}, not {value}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Its resident memory in kilobytes.
    ///
    /// # Panics
    /// When it has ended.
    #[must_use]
    pub fn resident_kb(&self) -> u64 {
        self.memory_kb("VmRSS:")
    }

    /// Its peak resident memory in kilobytes.
    ///
    /// # Panics
    /// When it has ended.
    #[must_use]
    pub fn peak_kb(&self) -> u64 {
        self.memory_kb("VmHWM:")
    }

    fn memory_kb(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a running process");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Its CPU time so far.
    ///
    /// # Panics
    /// When it has ended.
    #[must_use]
    pub fn cpu_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("it runs");
        let fields = stat.rsplit(')').next().expect("after the name");
        // utime and stime, in hundredths of a second on every Linux.
        let ticks: u64 =
            fields.split(' ').skip(12).take(2).map(|n| n.parse::<u64>().expect("a number")).sum();
        Duration::from_millis(ticks * 10)
    }

    /// The values of a metric, one for each set of labels.
    ///
    /// # Panics
    /// When there is none of this name.
    #[must_use]
    pub fn metrics(&self, name: &str) -> Vec<u64> {
        let text = self.admin_client().get("/metrics").text();
        // A name with labels means exactly these, one without labels means all.
        let of_name =
            |line: &&str| line.split(' ').next() == Some(name) || line.split([' ', '{']).next() == Some(name);
        let values: Vec<u64> = text
            .lines()
            .filter(of_name)
            .map(|line| line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number"))
            .collect();
        assert!(!values.is_empty(), "no metric {name} in:\n{text}");
        values
    }

    /// The value of a metric, summed over its labels.
    ///
    /// # Panics
    /// When there is none of this name.
    #[must_use]
    pub fn metric(&self, name: &str) -> u64 {
        self.metrics(name).into_iter().sum()
    }
}

/// A temporary folder, removed at the end.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// An empty folder; `name` is part of its name.
    ///
    /// # Panics
    /// When it cannot be created.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("revcast-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder for scratch files");
        Self(path)
    }

    /// Its path.
    ///
    /// # Panics
    /// When the path is not UTF-8.
    #[must_use]
    pub fn path(&self) -> &str {
        self.0.to_str().expect("UTF-8")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays is temporary.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// From `serving http://127.0.0.1:8080, metrics http://127.0.0.1:8081/metrics`, or `serving https://...`.
fn parse_addresses(line: &str) -> Option<(String, String)> {
    let rest = line.strip_prefix("serving http")?;
    let rest = rest.strip_prefix('s').unwrap_or(rest).strip_prefix("://")?;
    let (address, rest) = rest.split_once(", metrics http://")?;
    Some((address.to_owned(), rest.strip_suffix("/metrics")?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::Store;
    use crate::etcd::Release;

    #[test]
    fn stores_have_names() {
        assert_eq!(Store::named(""), Some(Store::Embedded));
        for store in [Store::Embedded, Store::Etcd(Release::V3_4), Store::Etcd(Release::V3_5), Store::Beside]
        {
            assert_eq!(Store::named(&store.name()), Some(store));
        }
        for wrong in ["etcd", "etcd-", "etcd-3", "3.4", "Embedded"] {
            assert_eq!(Store::named(wrong), None, "{wrong}");
        }
    }
}
