//! From facts to findings: what is wrong, for this configuration, and the remedy.
//!
//! Pure: the same facts give the same findings. It owns every threshold of the doctor and the text for each errno; it
//! never queries the machine.

use rustix::io::Errno;

use super::finding::{Finding, Findings, Report, Verdict};
use super::{Facts, Limit, Ring};
use crate::config::Config;
use crate::value::{show_cpus, show_size};

/// glommio 0.9 checks for these operations; the last of them came with Linux 5.6, its buffers with 5.8.
const KERNEL_MIN: (u32, u32) = (5, 8);
/// The oldest kernel that the README names.
const KERNEL_TESTED: (u32, u32) = (5, 11);
/// Since Linux 5.12 the rings themselves are charged to the memory cgroup and not to memlock.
const KERNEL_RINGS_UNCHARGED: (u32, u32) = (5, 12);
/// Values of `kernel.io_uring_disabled` (Documentation/admin-guide/sysctl/kernel.rst): no process may create a ring;
/// only CAP_SYS_ADMIN and the group of `kernel.io_uring_group` may.
const DISABLED_FOR_ALL: u32 = 2;
const DISABLED_FOR_MOST: u32 = 1;

/// glommio 0.9 refuses to create an executor below this soft limit, whatever the capabilities.
const MEMLOCK_MIN_BYTES: u64 = 512 << 10;
/// Buffers that one shard's executor registers with its three rings, in bytes.
const MEMLOCK_SHARD_BYTES: u64 = 1 << 20;

/// Files of the process itself: store, log, listeners, the admin's connections.
const FILES_PROCESS: u64 = 64;
/// Files of a shard: rings (5, and a sixth for a moment), eventfds (3), listeners (4, twice), and some to spare.
const FILES_SHARD: u64 = 20;
/// A limit below this is probably not intended.
const WATCHERS_FEW: u64 = 1024;

/// A burst of reconnecting watchers waits in the accept queue; a shorter one refuses some of them.
const SOMAXCONN_LOW: u64 = 1024;

/// Judges `facts` for a server of this configuration.
#[must_use]
pub fn judge(config: &Config, facts: Facts) -> Report {
    let mut findings = Findings::default();
    let shards = config.shards() as u64;
    kernel(&mut findings, &facts);
    ring(&mut findings, &facts);
    seccomp(&mut findings, &facts);
    memlock(&mut findings, &facts, shards);
    let watchers_max = nofile(&mut findings, facts.nofile, shards, config.server.max_watchers);
    cpus(&mut findings, config, &facts);
    memory(&mut findings, config, &facts);
    somaxconn(&mut findings, facts.somaxconn);
    let slips = config.warnings().into_iter();
    findings.0.extend(slips.map(|says| Finding {
        check: "config",
        verdict: Verdict::Warn,
        says,
        mend: None,
    }));
    Report { findings: findings.0, watchers_max, facts }
}

fn kernel(findings: &mut Findings, facts: &Facts) {
    match release(&facts.kernel) {
        // What an old kernel lacks is reported by the ring check.
        Some(release) if release >= KERNEL_TESTED => findings.fine("kernel", &facts.kernel),
        Some(_) => findings.warn(
            "kernel",
            &format!("{} is older than any that revcast is tested on", facts.kernel),
            &format!("use Linux {}.{} or newer", KERNEL_TESTED.0, KERNEL_TESTED.1),
        ),
        None => findings.warn("kernel", "its release is not known", "mount /proc"),
    }
}

fn seccomp(findings: &mut Findings, facts: &Facts) {
    match (facts.seccomp, &facts.ring) {
        (false, _) => findings.fine("seccomp", "this process has no filter"),
        (true, Ring::Made { .. }) => findings.fine("seccomp", "a filter is active, and allows io_uring"),
        // Whether it is the cause or not, the ring check reports it, with the remedy.
        (true, Ring::Refused(_) | Ring::Unprobed(_)) => {
            findings.fine("seccomp", "a filter is active: see io_uring")
        }
    }
}

fn memory(findings: &mut Findings, config: &Config, facts: &Facts) {
    let (limit, whose) = match (facts.memory_max, facts.memory_total) {
        (Some(limit), total) if total.is_none_or(|total| limit < total) => (limit, "of the cgroup"),
        (_, Some(total)) => (total, "of the machine"),
        (_, None) => return,
    };
    let shown = show_size(limit >> 20 << 20);
    // The index and messages that are made later are additional to the ring.
    let wanted = config.ring.bytes.saturating_mul(2);
    if limit < wanted {
        let problem = format!(
            "{shown} {whose} is little for --ring-bytes {} and the index",
            show_size(config.ring.bytes)
        );
        let mend = format!(
            "give --ring-bytes {} or less, or {} of memory",
            show_size(limit >> 22 << 20),
            show_size(wanted)
        );
        findings.warn("memory", &problem, &mend);
    } else {
        findings.fine("memory", &format!("{shown} {whose}, --ring-bytes {}", show_size(config.ring.bytes)));
    }
}

fn ring(findings: &mut Findings, facts: &Facts) {
    let kernel = if facts.kernel.is_empty() { "unknown" } else { &facts.kernel };
    let (problem, mend) = match &facts.ring {
        Ring::Made { missing } if missing.is_empty() => {
            findings.fine("io_uring", &format!("works (kernel {kernel})"));
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
    findings.fail("io_uring", &problem, &mend);
}

/// Why `io_uring_setup` failed (io_uring_setup(2)), and what to do.
fn refused(errno: Errno, facts: &Facts, kernel: &str) -> (String, String) {
    const CONTAINER: &str = "run the container with --security-opt seccomp=unconfined, or with a profile that allows \
                             io_uring_setup, io_uring_enter and io_uring_register (Kubernetes: securityContext \
                             seccompProfile)";
    match (errno, facts.io_uring_disabled) {
        (Errno::PERM | Errno::ACCESS, Some(DISABLED_FOR_ALL)) => (
            "turned off for all users (kernel.io_uring_disabled=2)".to_owned(),
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

fn memlock(findings: &mut Findings, facts: &Facts, shards: u64) {
    const MEND: &str = "LimitMEMLOCK=infinity (systemd), --ulimit memlock=-1 (docker)";
    let now = bytes_text(facts.memlock.soft);
    let its = shards_text(shards);
    let needed = shards * MEMLOCK_SHARD_BYTES;
    let soft = facts.memlock.soft.unwrap_or(u64::MAX);
    let mend = format!("raise it: ulimit -l {}, {MEND}", needed.max(MEMLOCK_MIN_BYTES) >> 10);
    let charged = release(&facts.kernel).is_none_or(|release| release < KERNEL_RINGS_UNCHARGED);
    if soft < MEMLOCK_MIN_BYTES {
        let problem =
            format!("{now} is less than the {} that a shard requires", bytes_text(Some(MEMLOCK_MIN_BYTES)));
        findings.fail("memlock", &problem, &mend);
    } else if soft >= needed || facts.ipc_lock {
        let note = if facts.ipc_lock { ", and CAP_IPC_LOCK lifts it" } else { "" };
        findings.fine("memlock", &format!("{now}{note}, for {its}"));
    } else {
        let problem = format!("{now} is less than {} for {its}", bytes_text(Some(needed)));
        if charged {
            findings.fail("memlock", &problem, &format!("{mend}, or lower --shards"));
        } else {
            findings.warn("memlock", &format!("{problem}: buffers stay unregistered"), &mend);
        }
    }
}

/// Reports how many watchers fit and returns the number.
fn nofile(findings: &mut Findings, limit: Limit, shards: u64, wanted: Option<usize>) -> usize {
    let its = shards_text(shards);
    let reserve = FILES_PROCESS + FILES_SHARD * shards;
    let fit = limit.soft.unwrap_or(u64::MAX).saturating_sub(reserve);
    let now = count_text(limit.soft);
    let mend = |files: u64| format!("raise it: ulimit -n {files}, LimitNOFILE={files} (systemd)");
    let wanted = wanted.map(|wanted| wanted as u64);
    if fit == 0 {
        let problem = format!("{now} open files, and {its} take {reserve}");
        findings.fail("nofile", &problem, &mend(reserve + 65_536));
    } else if let Some(wanted) = wanted.filter(|wanted| *wanted > fit) {
        let problem = format!("{now} open files allow {fit} watchers, not max-watchers {wanted}");
        findings.warn("nofile", &problem, &mend(reserve + wanted));
    } else if fit < WATCHERS_FEW && wanted.is_none() {
        findings.warn("nofile", &format!("{now} open files allow only {fit} watchers"), &mend(65_536));
    } else {
        findings.fine(
            "nofile",
            &format!("{now} open files, {} watchers fit", count_text(limit.soft.map(|_| fit))),
        );
    }
    usize::try_from(wanted.map_or(fit, |wanted| wanted.min(fit))).unwrap_or(usize::MAX)
}

fn cpus(findings: &mut Findings, config: &Config, facts: &Facts) {
    let shards = config.shards();
    let its = shards_text(shards as u64);
    let allowed = show_cpus(&facts.cpus);
    let outside: Vec<usize> =
        config.server.cpus.iter().copied().filter(|cpu| !facts.cpus.contains(cpu)).collect();
    if !outside.is_empty() {
        let problem = format!("CPU {} is not one of those allowed, {allowed}", show_cpus(&outside));
        findings.fail("cpus", &problem, "name allowed ones with --pin-cpus, or widen the taskset or cpuset");
    } else if shards > facts.cpus.len() {
        let problem = format!("{its} share {} CPUs", facts.cpus.len());
        findings.warn("cpus", &problem, &format!("give --shards {} or fewer", facts.cpus.len()));
    } else if let Some(quota) = facts.cpu_quota_milli.filter(|quota| shards as u64 * 1000 > *quota) {
        let problem = format!("{its} share {}.{} CPUs of the cgroup", quota / 1000, quota % 1000 / 100);
        findings.warn(
            "cpus",
            &problem,
            &format!("give --shards {}, or raise the limit", (quota / 1000).max(1)),
        );
    } else {
        findings.fine("cpus", &format!("{its} on CPUs {}", show_cpus(&config.server.cpus)));
    }
}

fn somaxconn(findings: &mut Findings, somaxconn: Option<u64>) {
    match somaxconn {
        Some(low) if low < SOMAXCONN_LOW => {
            let problem = format!("{low} connections may wait for accept; a burst of reconnects is refused");
            findings.warn("somaxconn", &problem, "run: sysctl -w net.core.somaxconn=4096");
        }
        Some(high) => findings.fine("somaxconn", &format!("{high} connections may wait for accept")),
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
    bytes.map_or_else(|| "unlimited".to_owned(), show_size)
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
            memory_max: None,
            memory_total: Some(8 << 30),
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
        assert_eq!(report.warnings(), Vec::<String>::new());
        assert_eq!(
            report.lines(),
            [
                "ok    kernel: 6.1.0-18-amd64",
                "ok    io_uring: works (kernel 6.1.0-18-amd64)",
                "ok    seccomp: this process has no filter",
                "ok    memlock: 8MiB, for 2 shards",
                "ok    nofile: 1048576 open files, 1048472 watchers fit",
                "ok    cpus: 2 shards on CPUs 0,1",
                "ok    memory: 8GiB of the machine, --ring-bytes 256MiB",
                "ok    somaxconn: 4096 connections may wait for accept",
            ]
        );
        assert_eq!(report.watchers_max, 1_048_472);
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
            let fatal = report.fatal();
            let [line] = fatal.as_slice() else { panic!("{errno}: {report:?}") };
            let (says, how) = line.split_once("; ").unwrap();
            assert!(says.starts_with("io_uring: ") && says.contains(problem), "{line}");
            assert!(how.contains(mend), "{line}");
        }
    }

    #[test]
    fn missing_operations_are_named() {
        let report = judged(|facts| facts.ring = Ring::Made { missing: vec!["accept", "send"] });
        assert!(report.fatal()[0].contains("has no accept, send; use Linux 5.8"), "{report:?}");
        let report = judged(|facts| facts.ring = Ring::Unprobed(Errno::INVAL.raw_os_error()));
        assert!(report.fatal()[0].contains("cannot be listed"), "{report:?}");
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
        // Less than glommio requires: no capability helps.
        let report = with(64 << 10, true, "6.1.0");
        assert!(report.fatal()[0].contains("memlock: 64KiB") && report.fatal()[0].contains("ulimit -l 2048"));
        // Enough to start, too little to register.
        let report = with(1 << 20, false, "6.1.0");
        assert!(report.is_fit() && report.warnings()[0].contains("1MiB is less than 2MiB for 2 shards"));
        // The same on a kernel that charges rings as well.
        assert!(!with(1 << 20, false, "5.10.0").is_fit());
        assert!(!with(1 << 20, false, "odd").is_fit());
        assert_eq!(with(1 << 20, true, "5.10.0").lines().len(), 8);
        assert!(
            with(1 << 20, true, "5.10.0").fine().iter().any(|line| line.starts_with("memlock: 1MiB, and"))
        );
        let unlimited = judged(|facts| facts.memlock = Limit { soft: None, hard: None });
        assert!(unlimited.fine().iter().any(|line| line.starts_with("memlock: unlimited")));
    }

    #[test]
    fn nofile_says_how_many_watchers_fit() {
        let with = |line, soft| {
            let facts = Facts { nofile: limit(soft), ..healthy() };
            judge(&config(line, &[0, 1]), facts)
        };
        let report = with("", 1024);
        assert_eq!(report.watchers_max, 1024 - 104);
        assert!(report.warnings()[0].contains("only 920 watchers"), "{report:?}");
        let report = with("--max-watchers 5000", 4096);
        assert_eq!(report.watchers_max, 3992);
        assert!(report.warnings()[0].contains("allow 3992 watchers, not max-watchers 5000"), "{report:?}");
        assert!(report.warnings()[0].contains("ulimit -n 5104"), "{report:?}");
        // A low limit that was configured is fine.
        let report = with("--max-watchers 100", 1024);
        assert_eq!((report.watchers_max, report.warnings().len()), (100, 0));
        let report = with("", 90);
        assert_eq!(report.watchers_max, 0);
        assert!(report.fatal()[0].starts_with("nofile: 90 open files"), "{report:?}");
    }

    #[test]
    fn shards_are_measured_against_cpus() {
        let with = |line, quota| judge(&config(line, &[0, 1]), Facts { cpu_quota_milli: quota, ..healthy() });
        assert!(with("--shards 3", None).warnings()[0].contains("3 shards share 2 CPUs; give --shards 2"));
        assert!(with("--pin-cpus 1,7", None).fatal()[0].contains("CPU 7 is not one of those allowed, 0,1"));
        assert!(with("", Some(1500)).warnings()[0].contains("share 1.5 CPUs of the cgroup; give --shards 1"));
        assert!(with("", Some(500)).warnings()[0].contains("share 0.5 CPUs of the cgroup; give --shards 1"));
        assert!(with("", Some(2000)).warnings().is_empty());
    }

    #[test]
    fn a_short_accept_queue_and_a_small_ring_are_advice() {
        let report = judged(|facts| facts.somaxconn = Some(128));
        assert!(report.is_fit() && report.warnings()[0].contains("net.core.somaxconn=4096"));
        let report = judge(&config("--ring-bytes 1MiB", &[0, 1]), healthy());
        assert!(report.is_fit() && report.warnings()[0].contains("ring-bytes"));
    }

    #[test]
    fn memory_is_measured_against_the_ring() {
        let with = |max| judged(|facts| facts.memory_max = max);
        assert!(with(Some(256 << 20)).warnings()[0].contains(
            "memory: 256MiB of the cgroup is little for --ring-bytes 256MiB and the index; give --ring-bytes \
             64MiB or less, or 512MiB of memory"
        ));
        assert!(
            with(Some(512 << 20))
                .fine()
                .contains(&"memory: 512MiB of the cgroup, --ring-bytes 256MiB".to_owned())
        );
        assert!(
            with(Some(1 << 40))
                .fine()
                .contains(&"memory: 8GiB of the machine, --ring-bytes 256MiB".to_owned())
        );
        let unknown = judged(|facts| facts.memory_total = None);
        assert!(!unknown.lines().iter().any(|line| line.contains("memory:")));
    }

    #[test]
    fn old_and_unknown_kernels_are_told() {
        let with = |kernel: &str| judged(|facts| facts.kernel = kernel.to_owned());
        assert!(with("5.10.0").warnings()[0].contains("kernel: 5.10.0 is older"));
        assert!(with("").warnings()[0].contains("kernel: its release is not known; mount /proc"));
        assert!(with("5.11.0").warnings().is_empty());
    }

    #[test]
    fn a_filter_is_told_apart() {
        let report = judged(|facts| facts.seccomp = true);
        assert!(report.fine().contains(&"seccomp: a filter is active, and allows io_uring".to_owned()));
        let report = judged(|facts| {
            facts.seccomp = true;
            facts.ring = Ring::Refused(Errno::PERM.raw_os_error());
        });
        assert!(report.fine().contains(&"seccomp: a filter is active: see io_uring".to_owned()));
    }
}
