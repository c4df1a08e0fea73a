//! Samples of the last minutes, and what differs between two of them: the arithmetic of `page/samples.js`.

use super::document::{Counts, Document};

/// How long samples are kept.
pub(super) const KEPT_SECONDS: f64 = 300.0;
/// Whatever a server says of its time: one that keeps to a second between two documents has half as many.
const KEPT_MAX: usize = 600;

/// Ends of watches that are no errors.
const USUAL_ENDS: [&str; 3] = ["closed", "deadline", "drained"];

/// What is kept of a document: times and what only grows.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) at: f64,
    pub(super) deliveries: u64,
    pub(super) events: u64,
    pub(super) serialized: u64,
    pub(super) cpu: Vec<f64>,
    /// Of each stage.
    counts: [Vec<u64>; 4],
    /// By what they are called.
    pub(super) errors: Vec<(String, u64)>,
}

impl Sample {
    fn of(document: &Document) -> Self {
        Self {
            at: document.uptime_seconds,
            deliveries: document.shards.iter().map(|shard| shard.events_sent).fold(0, u64::saturating_add),
            events: document.totals.events_received,
            serialized: document.totals.messages_serialized,
            cpu: document.shards.iter().map(|shard| shard.cpu_seconds).collect(),
            counts: document.stages.all().map(|stage| stage.counts.clone()),
            errors: error_counts(document),
        }
    }
}

/// The samples of one server since its start, or of the last five minutes.
#[derive(Debug, Default)]
pub(super) struct Samples(Vec<Sample>);

impl Samples {
    pub(super) fn add(&mut self, document: &Document) {
        let is_another = |last: &Sample| {
            document.uptime_seconds < last.at
                || document.shards.len() != last.cpu.len()
                || document.stages.ring.counts.len() != last.counts[0].len()
        };
        // Another server answers, or the same after a restart.
        if self.0.last().is_some_and(is_another) {
            self.0.clear();
        }
        self.0.push(Sample::of(document));
        let oldest = document.uptime_seconds - KEPT_SECONDS;
        while self.0.len() > 2 && (self.0[1].at <= oldest || self.0.len() > KEPT_MAX) {
            self.0.remove(0);
        }
    }

    pub(super) fn oldest(&self) -> Option<&Sample> {
        self.0.first()
    }

    pub(super) fn newest(&self) -> Option<&Sample> {
        self.0.last()
    }

    /// How many seconds there are.
    pub(super) fn seconds(&self) -> f64 {
        match (self.0.first(), self.0.last()) {
            (Some(first), Some(last)) => last.at - first.at,
            _ => 0.0,
        }
    }

    /// The newest sample that is at least this old; the oldest, if none is.
    fn before(&self, seconds: f64) -> Option<(&Sample, &Sample)> {
        let newest = self.0.last()?;
        let is_old = |sample: &&Sample| newest.at - sample.at >= seconds - 0.25;
        Some((self.0.iter().rev().find(is_old).or_else(|| self.0.first())?, newest))
    }

    /// What `read` gained a second over so many seconds; NaN: there is one sample.
    pub(super) fn rate(&self, read: impl Fn(&Sample) -> f64, seconds: f64) -> f64 {
        match self.before(seconds) {
            Some((from, to)) if !std::ptr::eq(from, to) => (read(to) - read(from)) / (to.at - from.at),
            _ => f64::NAN,
        }
    }

    /// The same between each two samples.
    pub(super) fn rates(&self, read: impl Fn(&Sample) -> f64) -> Vec<f64> {
        let between = |pair: &[Sample]| (read(&pair[1]) - read(&pair[0])) / (pair[1].at - pair[0].at);
        self.0.windows(2).map(between).collect()
    }

    /// The counts of a stage over all that is kept.
    pub(super) fn lately(&self, stage: usize) -> Vec<u64> {
        match self.0.as_slice() {
            [first, .., last] => {
                let pairs = last.counts[stage].iter().zip(&first.counts[stage]);
                pairs.map(|(now, before)| now.saturating_sub(*before)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Errors that were counted: what they are called, how many lately, how many in all; most recent first.
    pub(super) fn errors(&self) -> Vec<(String, u64, u64)> {
        let (Some(first), Some(last)) = (self.0.first(), self.0.last()) else { return Vec::new() };
        let before =
            |name: &str| first.errors.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count);
        let counted = last.errors.iter().filter(|(_, total)| *total > 0);
        let mut rows: Vec<_> =
            counted.map(|(name, total)| (name.clone(), total.saturating_sub(before(name)), *total)).collect();
        rows.sort_by_key(|(_, lately, total)| std::cmp::Reverse((*lately, *total)));
        rows
    }
}

/// A percentile as Prometheus' `histogram_quantile`: linear within a bucket. NaN: nothing was counted. Infinite: above the last bound.
pub(super) fn percentile(bounds: &[f64], counts: &[u64], share: f64) -> f64 {
    let rank = share * counts.iter().map(|count| *count as f64).sum::<f64>();
    if rank.is_nan() || rank <= 0.0 {
        return f64::NAN;
    }
    let mut below = 0.0;
    for (at, (bound, count)) in bounds.iter().zip(counts).enumerate() {
        let count = *count as f64;
        if below + count >= rank {
            let low = if at == 0 { 0.0 } else { bounds[at - 1] };
            return low + (bound - low) * ((rank - below) / count);
        }
        below += count;
    }
    f64::INFINITY
}

/// Errors by what they are called on the page.
fn error_counts(document: &Document) -> Vec<(String, u64)> {
    let errors = &document.errors;
    let mut all = Vec::new();
    let mut add = |counts: &Counts, named: &dyn Fn(&str) -> String| {
        all.extend(counts.0.iter().map(|(name, count)| (named(name), count.unwrap_or(0))));
    };
    add(&errors.requests, &|code| match code {
        "0" => "Request broke before its reply".to_owned(),
        code => format!("Request answered with {code}"),
    });
    let unusual = errors.watches_ended.0.iter().filter(|(name, _)| !USUAL_ENDS.contains(&name.as_str()));
    add(&Counts(unusual.cloned().collect()), &|why| format!("Watch ended: {why}"));
    add(&errors.connections_refused, &|why| format!("Connection refused: {why}"));
    add(&errors.http2_streams_failed, &|why| format!("HTTP/2 stream failed: {}", why.replace('_', " ")));
    add(&errors.upstream, &|why| format!("Upstream: {why}"));
    add(&errors.source, &|what| match what {
        "failures" => "Source: request without a connection".to_owned(),
        _ => "Source: watch stream ended".to_owned(),
    });
    all.push(("Request panicked".to_owned(), errors.panics));
    all.push(("Log line dropped".to_owned(), errors.log_lines_dropped));
    all.push(("Audit line dropped".to_owned(), errors.audit_lines_dropped));
    all
}

#[cfg(test)]
mod tests {
    use super::super::document::tests::document;
    use super::*;

    fn after(times: &[(f64, u64)]) -> Samples {
        let mut samples = Samples::default();
        times.iter().for_each(|(at, grown)| samples.add(&document(*at, *grown)));
        samples
    }

    #[test]
    fn rates_are_differences() {
        let samples = after(&[(10.0, 100), (11.0, 110), (12.0, 130), (13.0, 190)]);
        let deliveries = |it: &Sample| it.deliveries as f64;
        assert_eq!(samples.rate(deliveries, 2.0), (1_900.0 - 1_100.0) / 2.0);
        assert_eq!(samples.rates(deliveries), [100.0, 200.0, 600.0]);
        assert_eq!(samples.rate(|it| it.cpu[0], 10.0), 0.5, "the oldest, if none is old enough");
        assert!(after(&[(1.0, 1)]).rate(deliveries, 2.0).is_nan());
        assert_eq!(samples.seconds(), 3.0);
    }

    #[test]
    fn a_restart_begins_again_and_minutes_end() {
        let samples = after(&[(10.0, 100), (11.0, 110), (3.0, 5)]);
        assert_eq!((samples.0.len(), samples.seconds()), (1, 0.0));
        let long: Vec<(f64, u64)> = (0_u32..1_000).map(|at| (f64::from(at), u64::from(at))).collect();
        assert_eq!(after(&long).seconds(), KEPT_SECONDS);
        let still: Vec<(f64, u64)> = (0..1_000).map(|at| (5.0, at)).collect();
        assert_eq!(after(&still).0.len(), KEPT_MAX, "a server whose time stands still costs no more");
    }

    #[test]
    fn percentiles_are_linear_within_a_bucket() {
        let bounds = [1.0, 2.0, 4.0];
        assert_eq!(percentile(&bounds, &[0, 10, 0, 0], 0.5), 1.5);
        assert_eq!(percentile(&bounds, &[10, 10, 10, 0], 0.9), 2.0 + 2.0 * 0.7);
        assert_eq!(percentile(&bounds, &[0, 0, 0, 1], 0.5), f64::INFINITY);
        assert!(percentile(&bounds, &[0, 0, 0, 0], 0.5).is_nan() && percentile(&bounds, &[], 0.5).is_nan());
    }

    #[test]
    fn errors_are_named_and_usual_ends_are_none() {
        let samples = after(&[(1.0, 3), (2.0, 5)]);
        let errors = samples.errors();
        assert_eq!(errors[0], ("Request answered with 404".to_owned(), 2, 5));
        assert!(errors.iter().any(|(name, ..)| name == "Watch ended: expired"));
        assert!(
            !errors.iter().any(|(name, ..)| name.contains("closed") || name.contains("flow")),
            "{errors:?}"
        );
    }
}
