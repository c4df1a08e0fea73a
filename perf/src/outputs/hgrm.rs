//! A distribution as HdrHistogram's tools write and read it (`outputPercentileDistribution`): value in ms, percentile, how many are
//! not above it, and 1/(1-percentile) for a log axis. The last line says the unit, as a comment that readers pass over.

use crate::latency::Latency;
use std::fmt::Write;

/// Lines for each halving of the distance to 100 %: what the other tools write.
const TICKS_PER_HALF: u32 = 5;
const NS_PER_MS: f64 = 1e6;

pub(super) fn text(histogram: &Latency) -> String {
    let mut text =
        format!("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    let mut total = 0;
    for step in histogram.iter_quantiles(TICKS_PER_HALF) {
        total += step.count_since_last_iteration();
        let (value_ms, quantile) = (step.value_iterated_to() as f64 / NS_PER_MS, step.quantile_iterated_to());
        let _infallible = write!(text, "{value_ms:12.6} {quantile:2.12} {total:10}");
        if quantile < 1.0 {
            let _infallible = write!(text, " {:14.2}", 1.0 / (1.0 - quantile));
        }
        text.push('\n');
    }
    let [mean, deviation, max] =
        [histogram.mean(), histogram.stdev(), histogram.max() as f64].map(|ns| ns / NS_PER_MS);
    let buckets = u64::from(histogram.buckets());
    // The first bucket is whole; each further one adds its upper half.
    let sub_buckets = histogram.distinct_values() as u64 * 2 / (buckets + 1);
    let count = histogram.len();
    let _infallible = write!(
        text,
        "#[Mean    = {mean:12.6}, StdDeviation   = {deviation:12.6}]\n\
         #[Max     = {max:12.6}, Total count    = {count:12}]\n\
         #[Buckets = {buckets:12}, SubBuckets     = {sub_buckets:12}]\n\
         #[Unit    = milliseconds]\n"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_head_and_foot_are_those_of_the_other_tools() {
        let mut latency = Latency::default();
        (1..=20_000_u64).for_each(|step| latency.record(step * 10_000));
        let lines = text(&latency);
        // As HdrHistogram's plotter reads a line: not a comment, four words, all of them numbers.
        let plotted = |line: &str| -> Option<[f64; 4]> {
            let words: Option<Vec<f64>> =
                line.split_ascii_whitespace().map(|word| word.parse().ok()).collect();
            words?.try_into().ok()
        };
        let lines: Vec<[f64; 4]> = lines.lines().filter_map(plotted).collect();
        for &[value_ms, quantile, total, inverse] in &lines {
            let value_ns = 200_000_000.0 * quantile;
            assert!((value_ms * NS_PER_MS - value_ns).abs() < 220_000.0, "{value_ms} {quantile}");
            assert!((total - 20_000.0 * quantile).abs() < 22.0, "{total} {quantile}");
            assert!((inverse * (1.0 - quantile) - 1.0).abs() <= 0.006, "{quantile} {inverse}");
        }
        // Five lines to 50 %, five more to 75 %.
        let wanted = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75];
        assert!(wanted.iter().zip(&lines).all(|(wanted, line)| (wanted - line[1]).abs() < 1e-9), "{lines:?}");
        let text = text(&vec![(1_000_000, 3), (3_000_000, 1)].into());
        let head = "       Value     Percentile TotalCount 1/(1-Percentile)\n\n    1.000447 0.000000000000          3           1.00\n";
        assert!(text.starts_with(head), "{text}");
        for part in [
            "\n    3.000319 1.000000000000          4\n#[Mean    =     1.499968, Std",
            "\n#[Max     =     3.000",
            "Total count    =            4]\n#[Buckets",
            "SubBuckets     =         2048]\n#[Unit    = milliseconds]\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(super::text(&Latency::default()).contains("Total count    =            0"));
    }
}
