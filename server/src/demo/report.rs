//! What the demo prints: text for people, or a line of JSON for each.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;

use super::cluster::{APPS, NAMESPACES, NODES};
use super::tally::{Counts, Latencies};

/// Lines between two headings.
const HEADING_EVERY: u64 = 20;

/// Where the demo serves, and for whom.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub(super) listen: SocketAddr,
    pub(super) admin: SocketAddr,
    pub(super) watchers: usize,
    pub(super) writes: usize,
    /// Objects at the start.
    pub(super) objects: usize,
    /// What else there is to say, a line each.
    pub(super) notes: Vec<String>,
    /// Whether this binary has `revcast top`.
    pub(super) has_top: bool,
}

impl Stage {
    pub(super) fn page(&self) -> String {
        format!("http://{}/", self.admin)
    }

    /// The text before the first line of figures.
    pub(super) fn text(&self, browser: Option<&str>) -> String {
        let Self { listen, watchers, writes, objects, .. } = self;
        let mut text = format!(
            "revcast {} demo: a small cluster in memory; nothing is written to disk\n",
            env!("CARGO_PKG_VERSION")
        );
        // Writing to a String cannot fail.
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        let (apps, namespaces) = (APPS.len(), NAMESPACES.len());
        let opened = browser.unwrap_or("open it in a browser");
        let _ = write!(
            text,
            "\n  page       {}  ({opened})\n  API        http://{listen}\n  \
             objects    {objects}: {NODES} nodes, {apps} deployments in {namespaces} namespaces, their pods and ConfigMaps\n  \
             watchers   {watchers}, each on a connection of its own: they list, watch and resume\n  \
             writes     {writes} a second: rollouts, node reports, edits\n\n\
             In another terminal:\n  \
             kubectl --server=http://{listen} get pods -A -w\n  \
             curl -N 'http://{listen}/api/v1/pods?watch=1'\n",
            self.page()
        );
        if self.has_top {
            let _ = writeln!(text, "  revcast top --admin {}", self.admin);
        }
        text.push_str(
            "\nEach write goes to every watcher whose selector matches it. The watchers check that they get each event\n\
             once and in order, and take the time from the write's request to its arrival. Ctrl-C ends the demo.\n\n",
        );
        text
    }

    /// The same as JSON.
    pub(super) fn json(&self) -> String {
        let demo = json!({
            "api": format!("http://{}", self.listen), "page": self.page(), "objects": self.objects,
            "watchers": self.watchers, "writesPerSecond": self.writes, "notes": self.notes,
        });
        json!({ "demo": demo }).to_string() + "\n"
    }
}

/// The figures of about a second.
#[derive(Debug)]
pub(super) struct Second {
    /// Its number.
    pub(super) number: u64,
    pub(super) elapsed: Duration,
    /// How long it really was.
    pub(super) length: Duration,
    pub(super) before: Counts,
    pub(super) after: Counts,
    pub(super) latencies: Latencies,
    pub(super) watching: usize,
}

impl Second {
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        if self.number.is_multiple_of(HEADING_EVERY) {
            text.push_str("  time   events/s  deliveries/s       p50       p99  watching  resumed  lost\n");
        }
        let rate = |before: u64, after: u64| grouped(self.rate(before, after));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:>5}s  {:>9}  {:>12}  {:>8}  {:>8}  {:>8}  {:>7}  {:>4}",
            self.elapsed.as_secs(),
            rate(self.before.events, self.after.events),
            rate(self.before.deliveries, self.after.deliveries),
            shown(self.latencies.permille(500)),
            shown(self.latencies.permille(990)),
            grouped(self.watching as u64),
            grouped(self.after.resumed),
            self.after.lost + self.after.out_of_order,
        );
        text
    }

    pub(super) fn json(&self) -> String {
        let line = json!({
            "seconds": self.elapsed.as_secs_f64(),
            "eventsPerSecond": self.rate(self.before.events, self.after.events),
            "deliveriesPerSecond": self.rate(self.before.deliveries, self.after.deliveries),
            "p50Micros": self.latencies.permille(500), "p99Micros": self.latencies.permille(990),
            "watching": self.watching, "resumed": self.after.resumed,
            "lost": self.after.lost, "outOfOrder": self.after.out_of_order,
        });
        line.to_string() + "\n"
    }

    fn rate(&self, before: u64, after: u64) -> u64 {
        let millis = u64::try_from(self.length.as_millis()).unwrap_or(u64::MAX).max(1);
        ((after - before) * 1000 + millis / 2) / millis
    }
}

/// The result of a demo.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) elapsed: Duration,
    pub(super) counts: Counts,
    /// Events that were still to be sent when the wait for them was over.
    pub(super) owed: u64,
    pub(super) latencies: Latencies,
    pub(super) last_fault: Option<String>,
}

impl Summary {
    fn lost(&self) -> u64 {
        self.counts.lost + self.owed
    }

    /// What a watcher was not sent as it should be.
    pub(super) fn failure(&self) -> Option<String> {
        let out_of_order = self.counts.out_of_order;
        (self.lost() + out_of_order > 0).then(|| {
            format!("demo: {} events lost and {out_of_order} out of order: this is a bug of revcast, please report it", self.lost())
        })
    }

    pub(super) fn text(&self) -> String {
        let Counts { events, deliveries, foreign, out_of_order, resumed, relisted, refused, faults, .. } =
            self.counts;
        let mut text = format!(
            "\n{} s: {} events, {} deliveries, lost: {}, out of order: {out_of_order}, p50 {}, p99 {}\n",
            self.elapsed.as_secs(),
            grouped(events),
            grouped(deliveries),
            self.lost(),
            shown(self.latencies.permille(500)),
            shown(self.latencies.permille(990)),
        );
        let others = [
            (resumed, "watches ended and were resumed"),
            (relisted, "watches had to list again"),
            (foreign, "deliveries of other clients' writes"),
            (refused, "writes met a change of another client"),
            (faults, "requests failed"),
        ];
        let others: Vec<String> = others
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{} {what}", grouped(count)))
            .collect();
        // Writing to a String cannot fail.
        if !others.is_empty() {
            let _ = writeln!(text, "{}", others.join("; "));
        }
        if let Some(fault) = &self.last_fault {
            let _ = writeln!(text, "the last failure: {fault}");
        }
        text
    }

    pub(super) fn json(&self) -> String {
        let counts = &self.counts;
        let summary = json!({
            "seconds": self.elapsed.as_secs_f64(), "writes": counts.writes, "events": counts.events,
            "deliveries": counts.deliveries, "lost": self.lost(), "outOfOrder": counts.out_of_order,
            "p50Micros": self.latencies.permille(500), "p99Micros": self.latencies.permille(990),
            "resumed": counts.resumed, "relisted": counts.relisted, "foreign": counts.foreign,
            "refused": counts.refused, "faults": counts.faults, "lastFault": self.last_fault,
        });
        json!({ "summary": summary }).to_string() + "\n"
    }
}

/// Microseconds as people read them.
fn shown(micros: Option<u64>) -> String {
    match micros {
        None => "-".to_owned(),
        Some(micros) if micros < 1000 => format!("{micros} µs"),
        Some(micros) if micros < 10_000_000 => format!("{}.{} ms", micros / 1000, micros % 1000 / 100),
        Some(micros) => format!("{} s", micros / 1_000_000),
    }
}

/// `12,345`
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn summary(lost: u64, out_of_order: u64, owed: u64) -> Summary {
        let counts = Counts {
            events: 1234,
            deliveries: 1_234_567,
            lost,
            out_of_order,
            resumed: 3,
            ..Counts::default()
        };
        let mut latencies = Latencies::default();
        latencies.observe(Duration::from_micros(2049));
        Summary { elapsed: Duration::from_millis(61_900), counts, owed, latencies, last_fault: None }
    }

    #[test]
    fn a_summary_says_what_was_lost() {
        let good = summary(0, 0, 0);
        assert_eq!(
            good.text(),
            "\n61 s: 1,234 events, 1,234,567 deliveries, lost: 0, out of order: 0, p50 2.1 ms, p99 2.1 ms\n\
             3 watches ended and were resumed\n"
        );
        assert_eq!(good.failure(), None);
        for bad in [summary(2, 0, 0), summary(0, 1, 0), summary(1, 0, 1)] {
            let failure = bad.failure().unwrap();
            assert!(
                failure.contains(&format!("{} events lost and {}", bad.lost(), bad.counts.out_of_order)),
                "{failure}"
            );
            let json: serde_json::Value = serde_json::from_str(&bad.json()).unwrap();
            assert_eq!(json["summary"]["lost"], bad.lost());
        }
    }

    #[test]
    fn a_second_is_counted_by_its_length() {
        let before = Counts { events: 10, deliveries: 1000, ..Counts::default() };
        let after = Counts { events: 40, deliveries: 4000, ..Counts::default() };
        let second = Second {
            number: 0,
            elapsed: Duration::from_millis(2010),
            length: Duration::from_millis(1500),
            before,
            after,
            latencies: Latencies::default(),
            watching: 1000,
        };
        let text = second.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "    2s         20         2,000         -         -     1,000        0     0");
        assert_eq!(lines[0].len(), lines[1].len());
        assert_eq!(Second { number: 1, ..second }.text().lines().count(), 1);
        assert_eq!(
            (shown(Some(999)), shown(Some(1000)), shown(Some(61_000_000))),
            ("999 µs".into(), "1.0 ms".into(), "61 s".into())
        );
    }
}
