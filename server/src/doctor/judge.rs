//! From facts to lines: what is wrong, for this configuration, and how to mend it.
//!
//! Pure: the same facts give the same lines. It owns every threshold of the doctor and the words for each errno; it
//! never asks the machine.

use rustix::io::Errno;

use super::{Facts, Limit, Report, Ring};
use crate::config::value::show_cpus;
use crate::config::{Config, one_line};

/// glommio 0.9 looks for these operations; the last of them came with Linux 5.6, its buffers with 5.8.
const KERNEL_MIN: (u32, u32) = (5, 8);
/// Since Linux 5.12 the rings themselves are charged to the memory cgroup and no longer to memlock.
const KERNEL_RINGS_UNCHARGED: (u32, u32) = (5, 12);
/// Values of `kernel.io_uring_disabled` (Documentation/admin-guide/sysctl/kernel.rst): nobody makes a ring; only
/// CAP_SYS_ADMIN and the group of `kernel.io_uring_group` do.
const DISABLED_FOR_ALL: u32 = 2;
const DISABLED_FOR_MOST: u32 = 1;

/// glommio 0.9 refuses to make an executor below this soft limit, whatever the capabilities.
const MEMLOCK_MIN_BYTES: u64 = 512 << 10;
/// Buffers that one shard's executor registers with its three rings, in bytes.
const MEMLOCK_SHARD_BYTES: u64 = 1 << 20;

/// Files of the process itself: store, log, listeners, the admin's connections.
const FILES_PROCESS: u64 = 64;
/// Files of a shard: rings (5, and a sixth for a moment), eventfds (3), listeners (4), and some to spare.
const FILES_SHARD: u64 = 16;
/// Fewer watchers than this is a limit that nobody chose on purpose.
const WATCHERS_FEW: u64 = 1024;

/// A burst of reconnecting watchers waits in the accept queue: shorter than this it is refused.
const SOMAXCONN_LOW: u64 = 1024;

#[derive(Default)]
struct Lines {
    fatal: Vec<String>,
    warnings: Vec<String>,
    fine: Vec<String>,
}

impl Lines {
    fn fatal(&mut self, what: &str, problem: &str, mend: &str) {
        self.fatal.push(one_line(&format!("{what}: {problem}; {mend}")));
    }

    fn warn(&mut self, what: &str, problem: &str, mend: &str) {
        self.warnings.push(one_line(&format!("{what}: {problem}; {mend}")));
    }

    fn fine(&mut self, what: &str, says: &str) {
        self.fine.push(one_line(&format!("{what}: {says}")));
    }
}

/// Judges `facts` for a server of this configuration.
#[must_use]
pub fn judge(config: &Config, facts: Facts) -> Report {
    let mut lines = Lines::default();
    let shards = config.shards() as u64;
    ring(&mut lines, &facts);
    memlock(&mut lines, &facts, shards);
    let watchers_max = nofile(&mut lines, facts.nofile, shards, config.max_watchers);
    cpus(&mut lines, config, &facts);
    somaxconn(&mut lines, facts.somaxconn);
    lines.warnings.extend(config.warnings());
    let Lines { fatal, warnings, fine } = lines;
    Report { fatal, warnings, fine, watchers_max, facts }
}

fn ring(lines: &mut Lines, facts: &Facts) {
    let kernel = if facts.kernel.is_empty() { "unknown" } else { &facts.kernel };
    let (problem, mend) = match &facts.ring {
        Ring::Made { missing } if missing.is_empty() => {
            lines.fine("io_uring", &format!("works (kernel {kernel})"));
            return;
        }
        Ring::Made { missing } => (
            format!("kernel {kernel} has no {}", missing.join(", ")),
            format!("use Linux {}.{} or newer", KERNEL_MIN.0, KERNEL_MIN.1),
        ),
        Ring::Unprobed(errno) => (
            format!("its operations cannot be listed ({}, kernel {kernel})", errno_text(*errno)),
            "use Linux 5.8 or newer, or allow io_uring_register in the seccomp profile".to_owned(),
        ),
        Ring::Refused(errno) => refused(Errno::from_raw_os_error(*errno), facts, kernel),
    };
    lines.fatal("io_uring", &problem, &mend);
}

/// Why `io_uring_setup` failed (io_uring_setup(2)), and what to do.
fn refused(errno: Errno, facts: &Facts, kernel: &str) -> (String, String) {
    const CONTAINER: &str = "run the container with --security-opt seccomp=unconfined, or with a profile that allows \
                             io_uring_setup, io_uring_enter and io_uring_register (Kubernetes: securityContext \
                             seccompProfile)";
    match (errno, facts.io_uring_disabled) {
        (Errno::PERM | Errno::ACCESS, Some(DISABLED_FOR_ALL)) => (
            "turned off for everybody (kernel.io_uring_disabled=2)".to_owned(),
            "run: sysctl -w kernel.io_uring_disabled=0".to_owned(),
        ),
        (Errno::PERM | Errno::ACCESS, Some(DISABLED_FOR_MOST)) => (
            "turned off for this user (kernel.io_uring_disabled=1)".to_owned(),
            "run: sysctl -w kernel.io_uring_disabled=0, or add the user to the group kernel.io_uring_group"
                .to_owned(),
        ),
        (Errno::PERM | Errno::ACCESS, _) if facts.seccomp => {
            (format!("refused by a seccomp filter ({errno})"), CONTAINER.to_owned())
        }
        (Errno::PERM | Errno::ACCESS, _) => (
            format!("refused by a security module ({errno})"),
            "allow io_uring to this process in SELinux or AppArmor; the audit log has the rule".to_owned(),
        ),
        (Errno::NOSYS, _) if release(&facts.kernel).is_some_and(|release| release < KERNEL_MIN) => (
            format!("kernel {kernel} is too old"),
            format!("use Linux {}.{} or newer", KERNEL_MIN.0, KERNEL_MIN.1),
        ),
        (Errno::NOSYS, _) if facts.seccomp => {
            (format!("hidden by a seccomp filter (kernel {kernel})"), CONTAINER.to_owned())
        }
        (Errno::NOSYS, _) => (
            format!("kernel {kernel} has none"),
            "use a Linux kernel 5.8 or newer built with CONFIG_IO_URING; gVisor has none".to_owned(),
        ),
        (Errno::NOMEM, _) => (
            format!("no memory for a ring: memlock is {}", bytes_text(facts.memlock.soft)),
            "raise it: ulimit -l unlimited, LimitMEMLOCK=infinity (systemd), --ulimit memlock=-1 (docker)"
                .to_owned(),
        ),
        (Errno::MFILE | Errno::NFILE, _) => (
            format!("no file left for a ring: nofile is {}", count_text(facts.nofile.soft)),
            "raise it: ulimit -n 1048576, LimitNOFILE=1048576 (systemd)".to_owned(),
        ),
        _ => (
            format!("cannot make a ring ({errno}, kernel {kernel})"),
            "use Linux 5.8 or newer where io_uring_setup(2) is allowed".to_owned(),
        ),
    }
}

fn memlock(lines: &mut Lines, facts: &Facts, shards: u64) {
    const MEND: &str = "LimitMEMLOCK=infinity (systemd), --ulimit memlock=-1 (docker)";
    let now = bytes_text(facts.memlock.soft);
    let its = shards_text(shards);
    let needed = shards * MEMLOCK_SHARD_BYTES;
    let soft = facts.memlock.soft.unwrap_or(u64::MAX);
    let mend = format!("raise it: ulimit -l {}, {MEND}", needed.max(MEMLOCK_MIN_BYTES) >> 10);
    let charged = release(&facts.kernel).is_none_or(|release| release < KERNEL_RINGS_UNCHARGED);
    if soft < MEMLOCK_MIN_BYTES {
        let problem =
            format!("{now} is less than the {} that a shard insists on", bytes_text(Some(MEMLOCK_MIN_BYTES)));
        lines.fatal("memlock", &problem, &mend);
    } else if soft >= needed || facts.ipc_lock {
        let note = if facts.ipc_lock { ", and CAP_IPC_LOCK lifts it" } else { "" };
        lines.fine("memlock", &format!("{now}{note}, for {its}"));
    } else {
        let problem = format!("{now} is less than {} for {its}", bytes_text(Some(needed)));
        if charged {
            lines.fatal("memlock", &problem, &format!("{mend}, or lower --shards"));
        } else {
            lines.warn("memlock", &format!("{problem}: buffers stay unregistered"), &mend);
        }
    }
}

/// Says how many watchers fit and returns it.
fn nofile(lines: &mut Lines, limit: Limit, shards: u64, wanted: Option<usize>) -> usize {
    let its = shards_text(shards);
    let reserve = FILES_PROCESS + FILES_SHARD * shards;
    let fit = limit.soft.unwrap_or(u64::MAX).saturating_sub(reserve);
    let now = count_text(limit.soft);
    let mend = |files: u64| format!("raise it: ulimit -n {files}, LimitNOFILE={files} (systemd)");
    let wanted = wanted.map(|wanted| wanted as u64);
    if fit == 0 {
        let problem = format!("{now} open files, and {its} take {reserve}");
        lines.fatal("nofile", &problem, &mend(reserve + 65_536));
    } else if let Some(wanted) = wanted.filter(|wanted| *wanted > fit) {
        let problem = format!("{now} open files let {fit} watchers in, not max-watchers {wanted}");
        lines.warn("nofile", &problem, &mend(reserve + wanted));
    } else if fit < WATCHERS_FEW && wanted.is_none() {
        lines.warn("nofile", &format!("{now} open files let only {fit} watchers in"), &mend(65_536));
    } else {
        lines.fine(
            "nofile",
            &format!("{now} open files, {} watchers fit", count_text(limit.soft.map(|_| fit))),
        );
    }
    usize::try_from(wanted.map_or(fit, |wanted| wanted.min(fit))).unwrap_or(usize::MAX)
}

fn cpus(lines: &mut Lines, config: &Config, facts: &Facts) {
    let shards = config.shards();
    let its = shards_text(shards as u64);
    let allowed = show_cpus(&facts.cpus);
    let outside: Vec<usize> = config.cpus.iter().copied().filter(|cpu| !facts.cpus.contains(cpu)).collect();
    if !outside.is_empty() {
        let problem = format!("CPU {} is not of those allowed, {allowed}", show_cpus(&outside));
        lines.fatal("cpus", &problem, "name allowed ones with --pin-cpus, or widen the taskset or cpuset");
    } else if shards > facts.cpus.len() {
        let problem = format!("{its} share {} CPUs", facts.cpus.len());
        lines.warn("cpus", &problem, &format!("give --shards {} or fewer", facts.cpus.len()));
    } else if let Some(quota) = facts.cpu_quota_milli.filter(|quota| shards as u64 * 1000 > *quota) {
        let problem = format!("{its} share {}.{} CPUs of the cgroup", quota / 1000, quota % 1000 / 100);
        lines.warn("cpus", &problem, &format!("give --shards {}, or raise the limit", (quota / 1000).max(1)));
    } else {
        lines.fine("cpus", &format!("{its} on CPUs {}", show_cpus(&config.cpus)));
    }
}

fn somaxconn(lines: &mut Lines, somaxconn: Option<u64>) {
    match somaxconn {
        Some(low) if low < SOMAXCONN_LOW => {
            let problem = format!("{low} connections may wait for accept; a burst of reconnects is refused");
            lines.warn("somaxconn", &problem, "run: sysctl -w net.core.somaxconn=4096");
        }
        Some(high) => lines.fine("somaxconn", &format!("{high} connections may wait for accept")),
        None => {}
    }
}

/// Major and minor of a kernel's release.
fn release(kernel: &str) -> Option<(u32, u32)> {
    let mut parts = kernel.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn shards_text(shards: u64) -> String {
    if shards == 1 { "1 shard".to_owned() } else { format!("{shards} shards") }
}

fn errno_text(errno: i32) -> String {
    Errno::from_raw_os_error(errno).to_string()
}

fn bytes_text(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "unlimited".to_owned(), crate::config::value::show_size)
}

fn count_text(count: Option<u64>) -> String {
    count.map_or_else(|| "unlimited".to_owned(), |count| count.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::args::{Command, parse};

    fn config(line: &str, cpus: &[usize]) -> Config {
        let Ok(Command::Serve(flags)) = parse(line.split_whitespace().map(Into::into)) else {
            panic!("{line}")
        };
        Config::load(&flags, [], cpus).unwrap()
    }

    fn limit(soft: u64) -> Limit {
        Limit { soft: Some(soft), hard: Some(soft) }
    }

    /// A machine with nothing wrong.
    fn healthy() -> Facts {
        Facts {
            kernel: "6.1.0-18-amd64".to_owned(),
            ring: Ring::Made { missing: Vec::new() },
            io_uring_disabled: None,
            seccomp: false,
            memlock: limit(8 << 20),
            ipc_lock: false,
            nofile: limit(1 << 20),
            cpus: vec![0, 1],
            cpu_quota_milli: None,
            somaxconn: Some(4096),
        }
    }

    fn judged(change: impl FnOnce(&mut Facts)) -> Report {
        let mut facts = healthy();
        change(&mut facts);
        let report = judge(&config("", &[0, 1]), facts);
        for line in report.lines() {
            assert!(!line.contains(char::is_control), "{line}");
        }
        report
    }

    #[test]
    fn a_healthy_machine_is_fit() {
        let report = judged(|_| ());
        assert!(report.is_fit());
        assert_eq!(report.warnings, Vec::<String>::new());
        assert_eq!(
            report.lines(),
            [
                "ok    io_uring: works (kernel 6.1.0-18-amd64)",
                "ok    memlock: 8MiB, for 2 shards",
                "ok    nofile: 1048576 open files, 1048480 watchers fit",
                "ok    cpus: 2 shards on CPUs 0,1",
                "ok    somaxconn: 4096 connections may wait for accept",
            ]
        );
        assert_eq!(report.watchers_max, 1_048_480);
    }

    #[test]
    fn each_refusal_of_a_ring_has_its_mend() {
        let perm = Errno::PERM.raw_os_error();
        let nosys = Errno::NOSYS.raw_os_error();
        for (errno, disabled, seccomp, kernel, problem, mend) in [
            (perm, Some(2), true, "6.8.0", "io_uring_disabled=2", "sysctl -w kernel.io_uring_disabled=0"),
            (perm, Some(1), true, "6.8.0", "io_uring_disabled=1", "kernel.io_uring_group"),
            (perm, Some(0), true, "6.8.0", "seccomp filter", "--security-opt seccomp=unconfined"),
            (perm, None, true, "6.1.0", "seccomp filter", "--security-opt seccomp=unconfined"),
            (perm, Some(0), false, "6.8.0", "security module", "SELinux"),
            (Errno::ACCESS.raw_os_error(), None, false, "6.1.0", "security module", "SELinux"),
            (nosys, None, false, "4.19.0", "too old", "Linux 5.8"),
            (nosys, None, true, "5.4.0", "too old", "Linux 5.8"),
            (nosys, None, true, "5.15.0", "seccomp filter", "--security-opt seccomp=unconfined"),
            (nosys, None, false, "5.15.0", "has none", "CONFIG_IO_URING"),
            (Errno::NOMEM.raw_os_error(), None, false, "5.10.0", "memlock is 8MiB", "ulimit -l"),
            (Errno::MFILE.raw_os_error(), None, false, "6.1.0", "nofile is 1048576", "ulimit -n"),
            (Errno::INVAL.raw_os_error(), None, false, "6.1.0", "cannot make a ring", "Linux 5.8"),
        ] {
            let report = judged(|facts| {
                facts.ring = Ring::Refused(errno);
                facts.io_uring_disabled = disabled;
                facts.seccomp = seccomp;
                facts.kernel = kernel.to_owned();
            });
            let [line] = report.fatal.as_slice() else { panic!("{errno}: {report:?}") };
            let (says, how) = line.split_once("; ").unwrap();
            assert!(says.starts_with("io_uring: ") && says.contains(problem), "{line}");
            assert!(how.contains(mend), "{line}");
        }
    }

    #[test]
    fn missing_operations_are_named() {
        let report = judged(|facts| facts.ring = Ring::Made { missing: vec!["accept", "send"] });
        assert!(report.fatal[0].contains("has no accept, send; use Linux 5.8"), "{report:?}");
        let report = judged(|facts| facts.ring = Ring::Unprobed(Errno::INVAL.raw_os_error()));
        assert!(report.fatal[0].contains("cannot be listed"), "{report:?}");
    }

    #[test]
    fn memlock_is_measured_against_shards_and_kernel() {
        let with = |soft, ipc_lock, kernel: &str| {
            judged(|facts| {
                facts.memlock = limit(soft);
                facts.ipc_lock = ipc_lock;
                facts.kernel = kernel.to_owned();
            })
        };
        // Less than glommio insists on: no capability helps.
        let report = with(64 << 10, true, "6.1.0");
        assert!(report.fatal[0].contains("memlock: 64KiB") && report.fatal[0].contains("ulimit -l 2048"));
        // Enough to start, too little to register.
        let report = with(1 << 20, false, "6.1.0");
        assert!(report.is_fit() && report.warnings[0].contains("1MiB is less than 2MiB for 2 shards"));
        // The same on a kernel that charges rings as well.
        assert!(!with(1 << 20, false, "5.10.0").is_fit());
        assert!(!with(1 << 20, false, "odd").is_fit());
        assert_eq!(with(1 << 20, true, "5.10.0").lines().len(), 5);
        assert!(with(1 << 20, true, "5.10.0").warnings.is_empty());
        let unlimited = judged(|facts| facts.memlock = Limit { soft: None, hard: None });
        assert!(unlimited.fine.iter().any(|line| line.starts_with("memlock: unlimited")));
    }

    #[test]
    fn nofile_says_how_many_watchers_fit() {
        let with = |line, soft| {
            let facts = Facts { nofile: limit(soft), ..healthy() };
            judge(&config(line, &[0, 1]), facts)
        };
        let report = with("", 1024);
        assert_eq!(report.watchers_max, 1024 - 96);
        assert!(report.warnings[0].contains("only 928 watchers"), "{report:?}");
        let report = with("--max-watchers 5000", 4096);
        assert_eq!(report.watchers_max, 4000);
        assert!(report.warnings[0].contains("let 4000 watchers in, not max-watchers 5000"), "{report:?}");
        assert!(report.warnings[0].contains("ulimit -n 5096"), "{report:?}");
        // Few on purpose is fine.
        let report = with("--max-watchers 100", 1024);
        assert_eq!((report.watchers_max, report.warnings.len()), (100, 0));
        let report = with("", 90);
        assert_eq!(report.watchers_max, 0);
        assert!(report.fatal[0].starts_with("nofile: 90 open files"), "{report:?}");
    }

    #[test]
    fn shards_are_measured_against_cpus() {
        let with = |line, quota| judge(&config(line, &[0, 1]), Facts { cpu_quota_milli: quota, ..healthy() });
        assert!(with("--shards 3", None).warnings[0].contains("3 shards share 2 CPUs; give --shards 2"));
        assert!(with("--pin-cpus 1,7", None).fatal[0].contains("CPU 7 is not of those allowed, 0,1"));
        assert!(with("", Some(1500)).warnings[0].contains("share 1.5 CPUs of the cgroup; give --shards 1"));
        assert!(with("", Some(500)).warnings[0].contains("share 0.5 CPUs of the cgroup; give --shards 1"));
        assert!(with("", Some(2000)).warnings.is_empty());
    }

    #[test]
    fn a_short_accept_queue_and_a_small_ring_are_advice() {
        let report = judged(|facts| facts.somaxconn = Some(128));
        assert!(report.is_fit() && report.warnings[0].contains("net.core.somaxconn=4096"));
        let report = judge(&config("--ring-bytes 1MiB", &[0, 1]), healthy());
        assert!(report.is_fit() && report.warnings[0].contains("ring-bytes"));
    }
}
