//! The process, by the names that Prometheus' own clients use.
//!
//! Owns the reading of `/proc/self`. What cannot be read is left out.

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::page::Page;
use crate::clock::Clock;

/// Bytes of memory: resident, and addressed at all.
pub(in crate::runtime) fn memory() -> Option<(u64, u64)> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kilobytes = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    Some((kilobytes("VmRSS:")? << 10, kilobytes("VmSize:")? << 10))
}

/// Open descriptors. Kernels from 6.2 on tell how many there are; with older ones they are counted one by one.
pub(in crate::runtime) fn descriptors() -> Option<u64> {
    const FOLDER: &str = "/proc/self/fd";
    match std::fs::metadata(FOLDER).ok()?.len() {
        // Of those counted, one is open for the counting.
        0 => Some((std::fs::read_dir(FOLDER).ok()?.count() as u64).saturating_sub(1)),
        count => Some(count),
    }
}

pub(super) fn render(page: &mut Page, clock: Clock) {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    #[allow(clippy::cast_precision_loss, reason = "exact for 285 million years")]
    let cpu = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
    page.counter("process_cpu_seconds_total", "Time on a CPU, in the process and in the kernel for it.", cpu);
    if let Some((resident, all)) = memory() {
        page.gauge("process_resident_memory_bytes", "Memory in RAM.", resident);
        page.gauge("process_virtual_memory_bytes", "Memory that is addressed.", all);
    }
    if let Some(open) = descriptors() {
        page.gauge("process_open_fds", "Open descriptors.", open);
    }
    if let Some(most) = getrlimit(Resource::Nofile).current {
        page.gauge("process_max_fds", "Descriptors that may be open (nofile).", most);
    }
    let started = clock.started_at().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    page.gauge(
        "process_start_time_seconds",
        "When the process started, since the Unix epoch.",
        started.as_secs_f64(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_knows_itself() {
        let (resident, all) = memory().expect("on every Linux");
        assert!(resident > 1 << 20 && all >= resident, "{resident} of {all}");
        let before = descriptors().expect("on every Linux");
        let files: Vec<_> = (0..64).map(|_| std::fs::File::open("/dev/null").expect("a file")).collect();
        let during = descriptors().expect("on every Linux");
        // Other tests of this process open and close some meanwhile.
        assert!(during + 16 > before + files.len() as u64, "{before} and 64 more are {during}");
    }
}
