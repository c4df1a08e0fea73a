//! The process, by the metric names of Prometheus' own client libraries.
//!
//! What cannot be read is left out.

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::page::Page;
use crate::clock::Clock;
use crate::runtime::sys::procfs::{descriptors, memory};

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
