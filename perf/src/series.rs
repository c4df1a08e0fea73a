//! The series of a run: one row a second, with what was delivered and what the server used since the row before. It
//! reads /proc once a second and nothing else.

use crate::clock::now_ns;
use crate::latency::Latency;
use crate::record::Row;
use crate::usage;

const SECOND_NS: u64 = 1_000_000_000;

pub(crate) struct Series {
    server_pid: Option<u32>,
    began_ns: u64,
    pub(crate) due_ns: u64,
    before_ns: u64,
    delivered_before: u64,
    server_cpu_before_ns: Option<u64>,
    pub(crate) rows: Vec<Row>,
}

impl Series {
    pub(crate) fn new(server_pid: Option<u32>) -> Self {
        let now = now_ns();
        Self {
            server_pid,
            began_ns: now,
            due_ns: now + SECOND_NS,
            before_ns: now,
            delivered_before: 0,
            server_cpu_before_ns: server_pid.and_then(usage::cpu_ns),
            rows: Vec::new(),
        }
    }

    /// The row of the time since the last one: watchers that are open, deliveries of the whole run, latencies since; and the
    /// server's CPU time until now.
    pub(crate) fn sample(
        &mut self,
        now: u64,
        watchers: u64,
        delivered: u64,
        recent: &Latency,
        cpu_ns: Option<u64>,
    ) -> Row {
        let passed_ns = now.saturating_sub(self.before_ns).max(1) as f64;
        let used_ns = cpu_ns.zip(self.server_cpu_before_ns).map(|(now, before)| now.saturating_sub(before));
        let row = Row {
            at_seconds: now.saturating_sub(self.began_ns) as f64 / 1e9,
            watchers,
            deliveries_per_second: delivered.saturating_sub(self.delivered_before) as f64 * 1e9 / passed_ns,
            latency_p99_ns: Some(recent.at(0.99)).filter(|_| !recent.is_empty()),
            server_cpu_share: used_ns.map(|used| used as f64 / passed_ns),
            server_rss_bytes: self.server_pid.and_then(usage::rss_bytes),
            server_fds: self.server_pid.and_then(usage::open_fds),
        };
        (self.before_ns, self.due_ns) = (now, now + SECOND_NS);
        (self.delivered_before, self.server_cpu_before_ns) = (delivered, cpu_ns);
        self.rows.push(row);
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_tells_what_happened_since_the_row_before() {
        let own = Some(std::process::id());
        let mut series = Series { server_cpu_before_ns: Some(SECOND_NS), ..Series::new(own) };
        let began = series.began_ns;
        let mut recent = Latency::default();
        recent.record(5_000_000);
        let first = series.sample(began + 2 * SECOND_NS, 10, 500, &recent, Some(SECOND_NS * 3 / 2));
        assert_eq!((first.at_seconds, first.watchers, first.deliveries_per_second), (2.0, 10, 250.0));
        assert_eq!((first.server_cpu_share, series.due_ns), (Some(0.25), began + 3 * SECOND_NS));
        assert!(first.latency_p99_ns.is_some_and(|ns| ns.abs_diff(5_000_000) < 5_000));
        assert!(first.server_rss_bytes.is_some_and(|bytes| bytes > 100_000) && first.server_fds >= Some(3));
        recent = Latency::default();
        series.server_pid = None;
        let second = series.sample(began + 3 * SECOND_NS, 10, 500, &recent, None);
        assert_eq!((second.deliveries_per_second, second.latency_p99_ns), (0.0, None));
        assert_eq!((second.server_cpu_share, second.server_rss_bytes), (None, None));
        assert_eq!(series.rows, [first, second]);
        let third = series.sample(began + 4 * SECOND_NS, 10, 500, &recent, Some(1));
        assert!(third.server_cpu_share.is_none(), "the row before has none");
    }
}
