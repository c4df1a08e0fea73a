//! Checks the machine before anything starts, and reports each problem in one line with its remedy.
//!
//! It owns the facts ([`Facts`], gathered by [`probe`]) and the findings ([`judge`], which is pure); checks outside the
//! process have a file each (`access`, `port`, `folder`, `cluster`, `upstream`). It raises the soft limits of open files and locked
//! memory to the hard ones, because every finding depends on them; it changes nothing else, and never ends the process.

mod access;
mod cgroup;
mod cluster;
mod finding;
mod folder;
mod judge;
mod port;
mod upstream;
mod values;

use std::fs;

use io_uring::{IoUring, Probe, opcode};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::api::resources::Registry;
use crate::config::Config;
use crate::source::etcd::ask_members;
use finding::Findings;
pub use finding::{Finding, Report, Verdict};
pub use judge::judge;

/// Entries of the ring that is tried; glommio's are larger, and fail in the same way.
const TRIED_ENTRIES: u32 = 8;
/// `CAP_IPC_LOCK` in the mask of `/proc/self/status` (capabilities(7)).
const CAP_IPC_LOCK: u32 = 14;

/// Operations that the runtime submits, and those that glommio 0.9 checks for: without one it ends the process.
const NEEDED: [(u8, &str); 24] = [
    (opcode::Nop::CODE, "nop"),
    (opcode::Readv::CODE, "readv"),
    (opcode::Writev::CODE, "writev"),
    (opcode::Fsync::CODE, "fsync"),
    (opcode::ReadFixed::CODE, "read_fixed"),
    (opcode::WriteFixed::CODE, "write_fixed"),
    (opcode::PollAdd::CODE, "poll_add"),
    (opcode::PollRemove::CODE, "poll_remove"),
    (opcode::SendMsg::CODE, "sendmsg"),
    (opcode::RecvMsg::CODE, "recvmsg"),
    (opcode::Timeout::CODE, "timeout"),
    (opcode::TimeoutRemove::CODE, "timeout_remove"),
    (opcode::Accept::CODE, "accept"),
    (opcode::AsyncCancel::CODE, "async_cancel"),
    (opcode::LinkTimeout::CODE, "link_timeout"),
    (opcode::Connect::CODE, "connect"),
    (opcode::Fallocate::CODE, "fallocate"),
    (opcode::OpenAt::CODE, "openat"),
    (opcode::Close::CODE, "close"),
    (opcode::Statx::CODE, "statx"),
    (opcode::Read::CODE, "read"),
    (opcode::Write::CODE, "write"),
    (opcode::Send::CODE, "send"),
    (opcode::Recv::CODE, "recv"),
];

/// A resource limit; `None`: no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The current limit.
    pub soft: Option<u64>,
    /// The most that it may be raised to.
    pub hard: Option<u64>,
}

/// The result of creating a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ring {
    /// It was created; these operations were missing.
    Made {
        /// Names of needed operations that this kernel does not have.
        missing: Vec<&'static str>,
    },
    /// `io_uring_setup` or `io_uring_enter` gave this errno.
    Refused(i32),
    /// It was created, and `io_uring_register(PROBE)` gave this errno.
    Unprobed(i32),
}

/// Facts about the machine. Every field is the result of a system call or of a file under `/proc` or `/sys`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// `6.1.0-18-amd64`; empty when it is not known.
    pub kernel: String,
    /// Whether io_uring works.
    pub ring: Ring,
    /// `kernel.io_uring_disabled`; kernels before 6.6 have none.
    pub io_uring_disabled: Option<u32>,
    /// Whether a seccomp filter applies to this process.
    pub seccomp: bool,
    /// Bytes of locked memory.
    pub memlock: Limit,
    /// Whether `CAP_IPC_LOCK` lifts that limit.
    pub ipc_lock: bool,
    /// Open files.
    pub nofile: Limit,
    /// CPUs that this process may use, ascending.
    pub cpus: Vec<usize>,
    /// The cgroup's CPU time in thousandths of a CPU; `None`: no quota, or not known.
    pub cpu_quota_milli: Option<u64>,
    /// The cgroup's memory in bytes; `None`: no limit, or not known.
    pub memory_max: Option<u64>,
    /// The machine's memory in bytes.
    pub memory_total: Option<u64>,
    /// `net.core.somaxconn`.
    pub somaxconn: Option<u64>,
}

/// Raises the soft limits of open files and locked memory, and checks the machine for `config`.
#[must_use]
pub fn probe(config: &Config) -> Report {
    judge(config, look())
}

/// The same, and then checks outside the process: access, addresses, the data directory, etcd and what it holds of `registry`. Not for a server that
/// starts: it finds these out itself, and an unreachable etcd does not prevent it from serving later.
#[must_use]
pub fn examine(config: &Config, registry: &Registry) -> Report {
    let report = probe(config);
    let mut findings = Findings(report.findings);
    access::judge(&mut findings, config);
    port::judge(&mut findings, &port::look("listen", config.server.listen), config.take_over);
    if let Some(address) = config.server.admin_listen {
        port::judge(&mut findings, &port::look("admin-listen", address), config.take_over);
    }
    if let Some(dir) = &config.embedded.data_dir {
        folder::judge(&mut findings, &folder::look(dir));
    }
    if let Some(etcd) = config.etcd() {
        match ask_members(etcd) {
            Ok(members) => {
                cluster::judge(&mut findings, &members);
                if members.iter().any(|member| member.version.is_ok()) {
                    values::look(&mut findings, etcd, registry);
                }
            }
            Err(error) => {
                findings.fail("etcd", &format!("cannot be asked: {error}"), "raise nofile (ulimit -n)")
            }
        }
    }
    upstream::look(&mut findings, config);
    Report { findings: findings.0, ..report }
}

/// CPUs this process may use, ascending; at least one.
#[must_use]
pub fn affinity() -> Vec<usize> {
    let listed: Vec<usize> = match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
        // A kernel with more CPUs than the set has bits.
        Err(_) => (0..std::thread::available_parallelism().map_or(1, usize::from)).collect(),
    };
    if listed.is_empty() { vec![0] } else { listed }
}

fn look() -> Facts {
    let nofile = raise(Resource::Nofile);
    let memlock = raise(Resource::Memlock);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let capabilities = status_field(&status, "CapEff:").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    Facts {
        kernel: read("/proc/sys/kernel/osrelease").unwrap_or_default(),
        ring: try_ring(),
        io_uring_disabled: read_number("/proc/sys/kernel/io_uring_disabled")
            .and_then(|n| u32::try_from(n).ok()),
        seccomp: status_field(&status, "Seccomp:").is_some_and(|mode| mode != "0"),
        memlock,
        ipc_lock: capabilities.is_some_and(|mask| mask >> CAP_IPC_LOCK & 1 == 1),
        nofile,
        cpus: affinity(),
        cpu_quota_milli: cgroup::least("cpu.max", cgroup::quota_milli),
        memory_max: cgroup::least("memory.max", |text| text.parse().ok()),
        memory_total: fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(memory_total),
        somaxconn: read_number("/proc/sys/net/core/somaxconn"),
    }
}

/// Raises the soft limit to the hard one; if that is refused the old one stays.
fn raise(resource: Resource) -> Limit {
    let now = getrlimit(resource);
    if now.current != now.maximum {
        // A refusal shows in the value that is read back.
        let _ = setrlimit(resource, Rlimit { current: now.maximum, maximum: now.maximum });
    }
    let now = getrlimit(resource);
    Limit { soft: now.current, hard: now.maximum }
}

fn try_ring() -> Ring {
    let errno = |error: std::io::Error| error.raw_os_error().unwrap_or(0);
    let ring = match IoUring::new(TRIED_ENTRIES) {
        Ok(ring) => ring,
        Err(error) => return Ring::Refused(errno(error)),
    };
    // Submits nothing, but makes the call: a filter may allow io_uring_setup and not io_uring_enter.
    if let Err(error) = ring.submit() {
        return Ring::Refused(errno(error));
    }
    let mut probe = Probe::new();
    if let Err(error) = ring.submitter().register_probe(&mut probe) {
        return Ring::Unprobed(errno(error));
    }
    let missing = NEEDED.into_iter().filter(|&(code, _)| !probe.is_supported(code)).map(|(_, name)| name);
    Ring::Made { missing: missing.collect() }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn read_number(path: &str) -> Option<u64> {
    read(path)?.parse().ok()
}

fn status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// `MemTotal` of `/proc/meminfo`, which counts in KiB.
fn memory_total(meminfo: &str) -> Option<u64> {
    let text = status_field(meminfo, "MemTotal:")?.strip_suffix(" kB")?;
    text.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::Flags;

    #[test]
    fn proc_files_are_read() {
        let status = "Name:\tx\nCapEff:\t000001ffffffffff\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        assert_eq!(status_field(status, "CapEff:"), Some("000001ffffffffff"));
        assert_eq!(status_field(status, "Seccomp:"), Some("2"));
        assert_eq!(status_field(status, "CapBnd:"), None);
        assert_eq!(memory_total("MemTotal:        8 kB\nMemFree: 4 kB\n"), Some(8192));
        assert_eq!(memory_total("MemTotal: many\n"), None);
    }

    #[test]
    fn this_machine_is_probed() {
        let cpus = affinity();
        assert!(!cpus.is_empty() && cpus.is_sorted());
        let config = Config::load(&Flags::default(), [], &cpus).unwrap();
        let report = probe(&config);
        assert_eq!(report.facts.cpus, cpus);
        let files = getrlimit(Resource::Nofile);
        assert_eq!(files.current, files.maximum, "the soft limit was raised");
        assert_eq!(report.facts.nofile, Limit { soft: files.current, hard: files.maximum });
        // If this test can create a ring, the probe could.
        assert_eq!(IoUring::new(4).is_ok(), !matches!(report.facts.ring, Ring::Refused(_)));
        assert!(report.facts.memory_total.is_some_and(|bytes| bytes > 1 << 20));
        assert!(report.lines().iter().all(|line| !line.contains('\n')));
        assert_eq!(report.is_fit(), !report.lines().iter().any(|line| line.starts_with("FAIL")));
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(json["fit"], report.is_fit());
        assert_eq!(json["findings"].as_array().unwrap().len(), report.lines().len());
        assert_eq!(json["findings"][0]["check"], "kernel");
    }

    #[test]
    fn what_lies_outside_is_examined() {
        let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = held.local_addr().unwrap().to_string();
        let dir = std::env::temp_dir().join("revcast-examined");
        let given = |name, value: &str| (crate::config::table::index_of(name).unwrap(), value.to_owned());
        let flags = Flags {
            given: vec![
                given("listen", &taken),
                given("admin-listen", "127.0.0.1:0"),
                given("data-dir", dir.to_str().unwrap()),
            ],
        };
        let report = examine(&Config::load(&flags, [], &affinity()).unwrap(), &Registry::builtin());
        let of = |check: &str| report.findings.iter().filter(|found| found.check == check).count();
        assert_eq!((of("ports"), of("etcd")), (2, 0));
        assert!(of("data-dir") > 0 && !dir.exists(), "it is looked at, not made");
        let taken = format!("ports: --listen {taken} is taken");
        assert!(report.fatal().iter().any(|line| line.starts_with(&taken)), "{report:?}");
    }
}
