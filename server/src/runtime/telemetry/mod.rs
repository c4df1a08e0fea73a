//! What operators read: metrics for Prometheus, and the state of the server as one document.
//!
//! Everything is rendered from copies. One file per noun: `shards`, `window`, `source`, `http`, `connections`, `tls`, `memory`,
//! `delegation`, `process`; `page` is the format of metrics, `status` the document. Every metric has a line in `server/ops/METRICS.md`, which
//! a test checks.

mod connections;
mod delegation;
mod http;
mod http2;
mod memory;
mod page;
mod process;
mod shards;
mod source;
mod status;
#[cfg(test)]
mod tests;
mod tls;
mod upstream;
mod window;

pub(super) use page::Form;
use page::{Kind, Page};
pub(super) use status::{line as status_line, render as status};

use crate::runtime::shared::Shared;

/// All metrics.
pub(super) fn metrics(shared: &Shared, form: Form) -> String {
    let mut page = Page::new(form);
    shards::render(&mut page, shared);
    window::render(&mut page, shared);
    source::render(&mut page, shared);
    http::render(&mut page, &shared.handles.0);
    connections::render(&mut page, &shared.handles.0);
    http2::render(&mut page, &shared.handles.0);
    tls::render(&mut page, shared);
    upstream::render(&mut page, &shared.handles.0);
    page.counter(
        "revcast_panics_total",
        "Requests that panicked.",
        shared.panics.load(std::sync::atomic::Ordering::Relaxed),
    );
    memory::render(&mut page, shared);
    delegation::render(&mut page, shared.app.guard().delegated().map(|delegated| &**delegated));
    page.counter(
        "revcast_log_lines_dropped_total",
        "Lines of the log that were dropped.",
        crate::log::dropped(),
    );
    let (written, dropped) = shared.audit.as_ref().map_or((0, 0), crate::audit::Audit::counts);
    page.counter("revcast_audit_lines_total", "Lines of the audit log that were written.", written);
    page.counter("revcast_audit_lines_dropped_total", "Lines of the audit log that were lost.", dropped);
    page.gauge("revcast_uptime_seconds", "Since the server started.", shared.clock.elapsed().as_secs());
    page.each(
        Kind::Gauge,
        "revcast_build_info",
        "1; the labels describe the build.",
        "version",
        [(env!("CARGO_PKG_VERSION"), 1)],
    );
    process::render(&mut page, shared.clock);
    page.finish()
}
