//! The text that Prometheus reads: families with their help and type, and samples below them.
//!
//! Owns the syntax of two formats: Prometheus' text 0.0.4, and OpenMetrics 1.0 for scrapers that ask for it. It does not know
//! the metrics.

use std::fmt::{Display, Write as _};

use revcast_engine::histogram::{BOUNDS_NS, Histogram};

/// Prometheus' own format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The formats that a scraper may ask for.
const OPEN_METRICS: &str = "application/openmetrics-text";

/// Which of the two formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) enum Form {
    Text,
    OpenMetrics,
}

impl Form {
    /// The format for an `Accept` header: OpenMetrics if it is named, whatever its weight, since all scrapers that name it read
    /// both.
    pub(in crate::runtime) fn of(accept: Option<&str>) -> Self {
        let names = |accept: &str| {
            accept.split(',').any(|range| range.split(';').next().is_some_and(|it| it.trim() == OPEN_METRICS))
        };
        if accept.is_some_and(names) { Self::OpenMetrics } else { Self::Text }
    }

    pub(in crate::runtime) const fn content_type(self) -> &'static str {
        match self {
            Self::Text => TEXT,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The page so far.
#[derive(Debug)]
pub(super) struct Page {
    out: String,
    form: Form,
}

impl Page {
    pub(super) fn new(form: Form) -> Self {
        Self { out: String::with_capacity(32 << 10), form }
    }

    pub(super) fn finish(mut self) -> String {
        if self.form == Form::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }

    fn head(&mut self, name: &str, kind: Kind, help: &str) {
        let family = match (self.form, kind) {
            (Form::OpenMetrics, Kind::Counter) => name.strip_suffix("_total").unwrap_or(name),
            _ => name,
        };
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(self.out, "# HELP {family} {help}\n# TYPE {family} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.out.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            self.out.push(if at == 0 { '{' } else { ',' });
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.out, "{label}=\"{text}\"");
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
        let _ = writeln!(self.out, " {value}");
    }

    /// A counter.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, Kind::Counter, help);
        self.sample(name, &[], value);
    }

    /// A gauge.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, Kind::Gauge, help);
        self.sample(name, &[], value);
    }

    /// The same for each value of some labels.
    pub(super) fn each<'a, V: Display>(
        &mut self,
        kind: Kind,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'a str, V)>,
    ) {
        self.head(name, kind, help);
        for (text, value) in values {
            self.sample(name, &[(label, text)], value);
        }
    }

    /// A family whose samples have several labels.
    pub(super) fn many<'a, V: Display>(
        &mut self,
        kind: Kind,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Vec<(&'a str, &'a str)>, V)>,
    ) {
        self.head(name, kind, help);
        for (labels, value) in samples {
            self.sample(name, &labels, value);
        }
    }

    /// Durations, for each value of a label; "": without one.
    pub(super) fn histograms<'a>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'a str, Histogram)>,
    ) {
        self.head(name, Kind::Histogram, help);
        for (text, histogram) in values {
            let own = [(label, text)];
            let own = if label.is_empty() { &[][..] } else { &own[..] };
            let mut sum = 0;
            for (at, count) in histogram.counts().iter().enumerate() {
                sum += count;
                let bound =
                    BOUNDS_NS.get(at).map_or_else(|| "+Inf".to_owned(), |ns| seconds(*ns).to_string());
                let labels: Vec<(&str, &str)> = own.iter().copied().chain([("le", bound.as_str())]).collect();
                self.sample(&format!("{name}_bucket"), &labels, sum);
            }
            self.sample(&format!("{name}_sum"), own, seconds(histogram.sum_ns()));
            self.sample(&format!("{name}_count"), own, sum);
        }
    }
}

/// Nanoseconds in seconds, the unit of metrics.
#[allow(clippy::cast_precision_loss, reason = "exact up to 104 days, and then to a microsecond")]
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn both_formats_are_spelled() {
        let mut histogram = Histogram::default();
        histogram.observe(Duration::from_micros(30));
        let page = |form| {
            let mut page = Page::new(form);
            page.counter("a_total", "A.", 1);
            page.each(Kind::Gauge, "b", "B.", "l", [("x\"y", 2)]);
            page.histograms("c_seconds", "C.", "", [("", histogram)]);
            page.finish()
        };
        let text = page(Form::Text);
        assert!(
            text.starts_with("# HELP a_total A.\n# TYPE a_total counter\na_total 1\n# HELP b B.\n"),
            "{text}"
        );
        assert!(text.contains("b{l=\"x\\\"y\"} 2\n"), "{text}");
        assert!(
            text.contains("c_seconds_bucket{le=\"0.000025\"} 0\nc_seconds_bucket{le=\"0.00005\"} 1\n"),
            "{text}"
        );
        assert!(
            text.ends_with("c_seconds_bucket{le=\"+Inf\"} 1\nc_seconds_sum 0.00003\nc_seconds_count 1\n"),
            "{text}"
        );
        let open = page(Form::OpenMetrics);
        assert!(open.starts_with("# HELP a A.\n# TYPE a counter\na_total 1\n"), "{open}");
        assert!(open.ends_with("c_seconds_count 1\n# EOF\n"), "{open}");
    }

    #[test]
    fn the_format_is_what_the_scraper_asks_for() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        assert_eq!(Form::of(Some(prometheus)), Form::OpenMetrics);
        assert_eq!((Form::of(None), Form::of(Some("text/plain, */*"))), (Form::Text, Form::Text));
    }
}
