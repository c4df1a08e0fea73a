//! A series as CSV: one row a second, columns that say their units, nothing where nothing was measured.

use crate::record::Row;
use std::fmt::Display;

const HEADER: &str =
    "at_seconds,watchers,deliveries_per_second,latency_p99_ns,server_cpu_share,server_rss_bytes,server_fds\n";

/// The whole file. Numbers need no quotes: RFC 4180 asks for them around commas, quotes and line ends only.
pub(super) fn text(series: &[Row]) -> String {
    let mut text = HEADER.to_owned();
    for row in series {
        let cells = [
            format!("{:.3}", row.at_seconds),
            row.watchers.to_string(),
            format!("{:.1}", row.deliveries_per_second),
            cell(row.latency_p99_ns),
            row.server_cpu_share.map(|share| format!("{share:.4}")).unwrap_or_default(),
            cell(row.server_rss_bytes),
            cell(row.server_fds),
        ];
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}

fn cell(value: Option<impl Display>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_the_cells_of_the_header() {
        let full = Row {
            at_seconds: 1.0004,
            watchers: 2000,
            deliveries_per_second: 39_999.96,
            latency_p99_ns: Some(1_234_567),
            server_cpu_share: Some(0.5),
            server_rss_bytes: Some(4096),
            server_fds: Some(12),
        };
        let text = text(&[full, Row { at_seconds: 2.0, ..Row::default() }]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "1.000,2000,40000.0,1234567,0.5000,4096,12");
        assert_eq!(lines[2], "2.000,0,0.0,,,,");
        assert!(lines.iter().all(|line| line.matches(',').count() == 6), "{text}");
        for column in HEADER.trim_end().split(',') {
            let unit = ["_seconds", "watchers", "_per_second", "_ns", "_share", "_bytes", "_fds"];
            assert!(unit.iter().any(|unit| column.ends_with(unit)), "{column}");
        }
    }
}
