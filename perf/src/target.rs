//! What a run loads: the server, who calls, the objects; and the plans of receiving processes. It opens no watch and writes nothing.

use crate::clock::SECOND_NS;
use crate::http::{Caller, Connection};
use crate::ledger::Scope;
use crate::message::Plan;
use crate::object::Recipe;
use crate::options::{BadOption, Load, Rate, value_name};
use crate::pace::REPORT_NS;
use crate::process::{self, check_descriptors, cpu_count, pin, raise_nofile};
use crate::record::Record;
use crate::stamp::decimal;
use crate::tls::{Client, HTTP1};
use fastrand::Rng;
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Connections: a source address has 28,232 ports by default (net.ipv4.ip_local_port_range).
const PER_SOURCE_MAX: u32 = 28_000;
/// A step of nice is about a tenth of the CPU: this is one part in ten against a thread of usual priority.
const NICE: i32 = 10;

/// Why a run found nothing: a [`BadOption`], or in words what the server or the machine did not do.
pub(crate) type Trouble = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) caller: Caller,
    /// Of calls, which are HTTP/1.1.
    pub(crate) tls: Option<Client>,
    pub(crate) server_pid: Option<u32>,
    pub(crate) seed: u64,
}

impl Target {
    /// Pins this process, raises its limits, finds the server. `watchers`: the most that are open at once.
    pub(crate) fn prepare(base: &Load, watchers: u32) -> Result<Self, Trouble> {
        check_descriptors(base.connections(watchers), base.processes, raise_nofile())?;
        pin(&base.client_cpus)?;
        let (host, trust) = (base.server.authority().to_owned(), base.trust()?);
        let token = base.token_file.as_deref().map(read_token).transpose()?;
        let caller = Caller { host, token, trust };
        let tls = caller.tls(HTTP1).map_err(|why| BadOption::new("--ca", "", why))?;
        let address = base
            .server
            .resolve(base.anywhere)
            .map_err(|why| BadOption::new("--server", &base.server, why))?;
        let local = address.ip().is_loopback();
        if let Some(sources) = base.sources.filter(|_| !(address.is_ipv4() && local)) {
            let mend = "only for a server on 127.0.0.1; omit it";
            return Err(BadOption::new("--sources", sources, mend).into());
        }
        let server_pid = base.server_pid.or_else(|| process::listener(address).filter(|_| local));
        if let Some(pid) = base.server_pid.filter(|&pid| process::cpu_ns(pid).is_none()) {
            return Err(BadOption::new("--server-pid", pid, "there is no such process").into());
        }
        Ok(Self { address, caller, tls, server_pid, seed: seed(base) })
    }

    pub(crate) fn local(base: &Load, port: u16, pid: u32) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let caller = Caller { host: address.to_string(), token: None, trust: None };
        Self { address, caller, tls: None, server_pid: Some(pid), seed: seed(base) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http{}://{}", if self.caller.trust.is_some() { "s" } else { "" }, self.caller.host)
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::new(self.address, self.caller.clone(), self.tls.clone())
    }

    /// The record of a run that begins now. Its subject is what `--subject` says, else the server's process, else its URL.
    pub(crate) fn record(&self, base: &Load, scenario: &str) -> Record {
        let found = || self.server_pid.and_then(process::name_of).unwrap_or_else(|| self.url());
        let named = base.subject.clone().unwrap_or_else(|| base.name_asked(&found()));
        let mut record = Record::new(scenario, &named, 1);
        record.set_server(self.server_pid, server_version(&mut self.connect()));
        record
    }

    /// The server's resident memory; from now on the most of it is counted anew.
    pub(crate) fn rss_of_now_on(&self) -> Option<u64> {
        self.server_pid.and_then(process::forget_peak_rss);
        self.server_rss()
    }

    pub(crate) fn keep_rss(&self, before: Option<u64>, record: &mut Record) {
        record.set("server_rss_before_bytes", before);
        record.set("server_rss_peak_bytes", self.server_pid.and_then(process::peak_rss_bytes).max(before));
    }

    pub(crate) fn describe(&self, record: &mut Record, recipe: &Recipe, base: &Load) {
        record.tell("server", self.url());
        record.tell("server_pid", self.server_pid);
        record.tell("seed", self.seed);
        record.tell("resource", recipe.resource.plural.clone());
        record.tell("encoding", value_name(&base.encoding));
        record.tell("protocol", base.protocol_name());
        record.tell("http2", base.protocol.http2);
        record.tell("streams_per_connection", base.streams().unwrap_or(1));
        record.tell("tls", base.tls());
        record.tell("namespaces", recipe.namespaces.len());
        record.tell("objects", recipe.objects());
        record.tell("client_cpus", cpu_count(&base.client_cpus));
    }

    /// The objects, before their padding is known. Each call's have stamps of their own.
    pub(crate) fn recipe(&self, base: &Load, namespaces: Vec<String>, per_namespace: u32) -> Recipe {
        let (resource, encoding, run) = (base.resource.clone(), base.encoding, Rng::new().u64(..));
        Recipe { resource, encoding, namespaces, per_namespace, run, seed: self.seed, pad_bytes: 0 }
    }

    pub(crate) fn server_cpu_ns(&self) -> Option<u64> {
        self.server_pid.and_then(process::cpu_ns)
    }

    pub(crate) fn server_rss(&self) -> Option<u64> {
        self.server_pid.and_then(process::rss_bytes)
    }

    /// One plan for each receiving process. `lasts`: no watch is needed longer.
    pub(crate) fn plans(&self, base: &Load, run: u64, scopes: &[Scope], lasts: Duration) -> Vec<Plan> {
        let watchers = base.watchers;
        let processes = base.processes.min(watchers);
        let opening = Duration::from_secs(u64::from(watchers / base.connect_rate));
        let local = self.address.is_ipv4() && self.address.ip().is_loopback();
        let connections = base.connections(watchers);
        let needed = if local && connections > PER_SOURCE_MAX { connections.div_ceil(20_000) } else { 0 };
        let edge = |number: u32| {
            let edge = u64::from(watchers) * u64::from(number) / u64::from(processes);
            u32::try_from(edge).unwrap_or(u32::MAX)
        };
        let plan = |number: u32| {
            let first_watcher = edge(number);
            let watchers = edge(number + 1) - first_watcher;
            Plan {
                address: self.address,
                caller: self.caller.clone(),
                run,
                scopes: scopes.to_vec(),
                first_watcher,
                watchers,
                threads: base.threads.min(watchers),
                streams: base.streams(),
                sources: base.sources.unwrap_or(needed),
                connect_interval_ns: SECOND_NS * u64::from(processes) / u64::from(base.connect_rate),
                report_interval_ns: if base.rate == Rate::Max { REPORT_NS } else { SECOND_NS },
                timeout_seconds: (opening + lasts + Duration::from_secs(600)).as_secs(),
                bookmarks: base.bookmarks,
                mixture: base.mixture.clone(),
            }
        };
        (0..processes).map(plan).collect()
    }
}

/// The version that the server tells at `/version`, as Kubernetes does. `None`: it tells none.
fn server_version(server: &mut Connection) -> Option<String> {
    let told: Value = serde_json::from_slice(server.get("/version").ok()?).ok()?;
    told["gitVersion"].as_str().map(str::to_owned)
}

/// The revision of a list, and the names of its objects.
pub(crate) fn list(server: &mut Connection, path: &str) -> Result<(u64, Vec<String>), String> {
    let list: Value = serde_json::from_slice(server.get(path)?)
        .map_err(|fault| format!("GET {path} is not JSON: {fault}"))?;
    let revision = list["metadata"]["resourceVersion"].as_str().and_then(|text| decimal(text.as_bytes()));
    let revision = revision.ok_or_else(|| format!("GET {path}: the list has no numeric resourceVersion"))?;
    let items = list["items"].as_array().ok_or_else(|| format!("GET {path}: the list has no items"))?;
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    Ok((revision, items.iter().map(name).collect()))
}

fn seed(base: &Load) -> u64 {
    base.seed.unwrap_or_else(|| u64::from(Rng::new().u32(..)))
}

fn read_token(path: &Path) -> Result<String, BadOption> {
    let bad = |mend: String| BadOption::new("--token-file", path.display(), mend);
    let token = std::fs::read_to_string(path).map_err(|fault| bad(format!("cannot be read: {fault}")))?;
    let token = token.trim().to_owned();
    let valid = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    valid.then_some(token).ok_or_else(|| bad("give a file with one bearer token in it".to_owned()))
}

/// Does `work` on a thread of lower priority, which all threads and processes that it starts inherit: what is heavy must
/// not take the CPU from those whose latency is measured.
pub(crate) fn gently<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, String> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // Of this thread alone (nice(2), "C library/kernel differences"). Refused: then at equal priority.
            let _refused = rustix::process::nice(NICE);
            work()
        });
        thread.join().map_err(|_| "a thread of the generator panicked".to_owned())
    })
}

/// CPU time of this generator, ns: its own and that of its receiving processes.
pub(crate) fn client_cpu_ns(pids: impl IntoIterator<Item = u32>) -> Option<u64> {
    let own = pids.into_iter().chain([std::process::id()]);
    own.map(process::cpu_ns).sum()
}

pub(crate) fn used(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    after.zip(before).map(|(after, before)| after.saturating_sub(before))
}
