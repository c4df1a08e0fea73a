//! What a scenario runs against: the server's address, who calls, whose CPU time and memory counts; and from options the
//! plans of receiving processes. It opens no watch and writes nothing.

use crate::args::{BadOption, Fanout, Rate};
use crate::clock::{nanos, now_ns};
use crate::fanout::{self, Trouble};
use crate::http::{Caller, Connection, excerpt};
use crate::message::Plan;
use crate::object::Recipe;
use crate::pace::report_interval_ns;
use crate::procfs::{self, CpuMark};
use crate::random::Random;
use crate::scope::Scope;
use crate::stamp::decimal;
use serde_json::Value;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

/// One source address has 28,232 ports by default (net.ipv4.ip_local_port_range).
const WATCHERS_PER_SOURCE: u32 = 28_000;
const SECOND_NS: u64 = 1_000_000_000;
/// A step of nice is about a tenth of the CPU: this is one part in ten against a thread of usual priority.
const NICE: i32 = 10;

/// The server of a run and the generator's place.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) caller: Caller,
    pub(crate) server_pid: Option<u32>,
    pub(crate) seed: u64,
    random: Random,
}

impl Site {
    /// Pins this process, raises its limits, finds the server. `watchers`: the most that are open at once.
    pub(crate) fn prepare(base: &Fanout, watchers: u32) -> Result<Self, Trouble> {
        fanout::check_descriptors(watchers, base.processes, fanout::raise_nofile())?;
        fanout::pin(&base.client_cpus)?;
        let address = base.server.resolve(base.anywhere).map_err(|fault| {
            BadOption::new("--server", &format!("http://{}", base.server.authority()), fault.to_string())
        })?;
        let local = address.ip().is_loopback();
        if let Some(sources) = base.sources.filter(|_| !(address.is_ipv4() && local)) {
            let mend = "only for a server on 127.0.0.1; leave it away";
            return Err(BadOption::new("--sources", &sources.to_string(), mend).into());
        }
        let server_pid = base.server_pid.or_else(|| procfs::listener(address).filter(|_| local));
        if let Some(pid) = base.server_pid.filter(|&pid| procfs::cpu_time(pid).is_none()) {
            return Err(BadOption::new("--server-pid", &pid.to_string(), "there is no such process").into());
        }
        let mut random = Random::new(now_ns() ^ u64::from(std::process::id()) << 48);
        let seed = base.seed.unwrap_or_else(|| random.next() >> 32);
        let caller = Caller { host: base.server.authority(), token: fanout::read_token(base)? };
        Ok(Self { address, caller, server_pid, seed, random })
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::new(self.address, self.caller.clone())
    }

    /// A number that tells the writes of one part of the run from those of another.
    pub(crate) fn run_id(&mut self) -> u64 {
        self.random.next()
    }

    /// How objects look, before their padding is known.
    pub(crate) fn recipe(&mut self, base: &Fanout, namespaces: Vec<String>, per_namespace: u32) -> Recipe {
        Recipe {
            resource: base.resource.clone(),
            namespaces,
            per_namespace,
            run: self.run_id(),
            seed: self.seed,
            pad_bytes: 0,
        }
    }

    /// CPU time that the server has used so far.
    pub(crate) fn server_cpu(&self) -> Option<CpuMark> {
        self.server_pid.and_then(CpuMark::of)
    }

    /// The revision of the newest state of what `path` lists.
    pub(crate) fn revision(&self, path: &str) -> Result<u64, String> {
        let list = self.list(&format!("{path}?limit=1"))?;
        let revision = list["metadata"]["resourceVersion"].as_str().and_then(|text| decimal(text.as_bytes()));
        revision.ok_or_else(|| format!("GET {path}: the list has no numeric resourceVersion"))
    }

    /// The names of the objects that `path` lists.
    pub(crate) fn names(&self, path: &str) -> Result<Vec<String>, String> {
        let list = self.list(path)?;
        let items = list["items"].as_array().ok_or_else(|| format!("GET {path}: the list has no items"))?;
        let name = |item: &Value| item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Ok(items.iter().map(name).collect())
    }

    fn list(&self, path: &str) -> Result<Value, String> {
        let mut server = self.connect();
        let (status, body) =
            server.call("GET", path, None).map_err(|fault| format!("GET {path}: {fault}"))?;
        if status != 200 {
            return Err(format!("the server answered GET {path} with {status}: {}", excerpt(body)));
        }
        serde_json::from_slice(body).map_err(|fault| format!("GET {path} is not JSON: {fault}"))
    }

    /// One plan for each receiving process. `lasts`: no watch is needed longer.
    pub(crate) fn plans(
        &self,
        base: &Fanout,
        rate: Rate,
        run: u64,
        scopes: &[Scope],
        watchers: u32,
        lasts: Duration,
    ) -> Vec<Plan> {
        let processes = base.processes.clamp(1, watchers.max(1));
        let opening = Duration::from_secs(u64::from(watchers / base.connect_rate));
        let local = self.address.is_ipv4() && self.address.ip().is_loopback();
        let needed = if local && watchers > WATCHERS_PER_SOURCE { watchers.div_ceil(20_000) } else { 0 };
        let edge = |number: u32| {
            let edge = u64::from(watchers) * u64::from(number) / u64::from(processes);
            u32::try_from(edge).unwrap_or(u32::MAX)
        };
        let plan = |number: u32| {
            let first_watcher = edge(number);
            let watchers = edge(number + 1) - first_watcher;
            Plan {
                address: self.address,
                host: self.caller.host.clone(),
                token: self.caller.token.clone(),
                run,
                scopes: scopes.to_vec(),
                first_watcher,
                watchers,
                threads: base.threads.min(watchers),
                sources: base.sources.unwrap_or(needed),
                connect_interval_ns: SECOND_NS * u64::from(processes) / u64::from(base.connect_rate),
                report_interval_ns: report_interval_ns(rate),
                timeout_seconds: (opening + lasts + Duration::from_secs(600)).as_secs(),
                bookmarks: base.bookmarks,
                mixture: base.mixture.clone(),
            }
        };
        (0..processes).map(plan).collect()
    }
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
    own.map(|pid| procfs::cpu_time(pid).map(nanos)).sum()
}
