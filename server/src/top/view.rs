//! What is shown: the figures at the top, and a table for each section of the page. Made of one document and the samples of the last
//! minutes.

use super::document::{Document, Slow};
use super::samples::{Sample, Samples, percentile};
use super::table::{Cell, Column, Table, Tone};
use super::units::{UNKNOWN, bytes, duration, latency, percent, short, uptime, whole};

/// A watcher that has used more of the window is near its end.
const NEAR: f64 = 0.75;
/// The share of a core from which on a shard is busy.
const BUSY: f64 = 0.9;
/// Rates are over so many seconds, and busy shares over ten.
const RATE_SECONDS: f64 = 2.0;
const BUSY_SECONDS: f64 = 10.0;

const fn text(name: &'static str, key: &'static str) -> Column {
    Column { name, key, is_text: true }
}

const fn number(name: &'static str, key: &'static str) -> Column {
    Column { name, key, is_text: false }
}

const STAGES: [Column; 6] = [
    text("Stage", "stage"),
    number("p50", "p50"),
    number("p90", "p90"),
    number("p99", "p99"),
    number("p99.9", "p99.9"),
    number("Count", "count"),
];
const WATCHERS: [Column; 8] = [
    text("Resource", "resource"),
    number("All", "all"),
    number("Share", "share"),
    number("Initial", "initial"),
    number("Catch up", "catchingUp"),
    number("Live", "live"),
    number("Parked", "parked"),
    number("Drain", "draining"),
];
const SLOWEST: [Column; 7] = [
    text("Client", "client"),
    text("Watches", "watches"),
    text("Phase", "phase"),
    number("Lag", "lagSeconds"),
    number("Behind", "lagEvents"),
    number("Used", "windowUsed"),
    number("Shard", "shard"),
];
const SHARDS: [Column; 6] = [
    number("Shard", "shard"),
    number("Busy", "busy"),
    number("Watchers", "watchers"),
    number("Live", "live"),
    number("Full", "blocked"),
    number("Lag", "lagSeconds"),
];
const WINDOW: [Column; 2] = [text("Window", "what"), text("Is", "value")];
const SOURCE: [Column; 2] = [text("Source", "what"), text("Is", "value")];
const MEMORY: [Column; 3] = [text("Memory", "part"), number("Bytes", "bytes"), number("Of all", "share")];
const ERRORS: [Column; 3] = [text("Error", "reason"), number("Lately", "lately"), number("In all", "total")];

/// A section, in the order of the keys 2 to 9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Watchers,
    Slowest,
    Stages,
    Window,
    Shards,
    Source,
    Memory,
    Errors,
}

impl Section {
    pub(super) const ALL: [Self; 8] = [
        Self::Watchers,
        Self::Slowest,
        Self::Stages,
        Self::Window,
        Self::Shards,
        Self::Source,
        Self::Memory,
        Self::Errors,
    ];
}

/// How much attention the state of a server needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    Good,
    Fair,
    Bad,
}

/// The figures above the tables. Numbers are in seconds, bytes, or a second.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub(super) version: String,
    pub(super) life: (String, Health),
    pub(super) api: String,
    pub(super) uptime: f64,
    pub(super) deliveries: f64,
    pub(super) events: f64,
    pub(super) watchers: f64,
    pub(super) lag: f64,
    /// `None`: no proof yet.
    pub(super) stale: Option<f64>,
    pub(super) resident: f64,
    /// `None`: without a limit.
    pub(super) memory_max: Option<f64>,
    /// `None`: nothing is in it.
    pub(super) window_age: Option<f64>,
    pub(super) window_bytes: f64,
    /// Watchers near its end.
    pub(super) near: usize,
    /// Watchers that one serialization served; NaN: nothing was serialized.
    pub(super) sharing: f64,
    /// Over how many seconds percentiles and errors are.
    pub(super) seconds: f64,
    /// Deliveries and events a second, oldest first.
    pub(super) rates: [Vec<f64>; 2],
}

#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) figures: Figures,
    /// In the order of [`Section::ALL`].
    pub(super) tables: [Table; 8],
}

impl View {
    /// Of a document that was added to the samples.
    pub(super) fn new(document: &Document, samples: &Samples) -> Self {
        let tables = Section::ALL.map(|section| match section {
            Section::Watchers => watchers(document),
            Section::Slowest => slowest(document),
            Section::Stages => stages(document, samples),
            Section::Window => window(document),
            Section::Shards => shards(document, samples),
            Section::Source => source(document),
            Section::Memory => memory(document),
            Section::Errors => errors(samples),
        });
        Self { figures: figures(document, samples), tables }
    }

    pub(super) fn table(&self, section: Section) -> &Table {
        &self.tables[section as usize]
    }
}

fn figures(document: &Document, samples: &Samples) -> Figures {
    let source = &document.source;
    let life = if source.failed {
        ("store failed", Health::Bad)
    } else if document.life.0 != "serving" {
        (document.life.0.as_str(), Health::Fair)
    } else if source.ready {
        ("serving", Health::Good)
    } else {
        ("loading", Health::Fair)
    };
    let deliveries = |it: &Sample| it.deliveries as f64;
    let events = |it: &Sample| it.events as f64;
    let gained = |read: &dyn Fn(&Sample) -> u64| match (samples.oldest(), samples.newest()) {
        (Some(first), Some(last)) => read(last) as f64 - read(first) as f64,
        _ => f64::NAN,
    };
    let made = gained(&|it| it.serialized);
    Figures {
        version: document.version.0.clone(),
        life: (life.0.to_owned(), life.1),
        api: document.listen.api.0.clone(),
        uptime: document.uptime_seconds,
        deliveries: samples.rate(deliveries, RATE_SECONDS),
        events: samples.rate(events, RATE_SECONDS),
        watchers: document.shards.iter().map(|shard| shard.watchers as f64).sum(),
        lag: document.shards.iter().map(|shard| shard.lag_seconds).fold(0.0, f64::max),
        stale: source.stale_seconds,
        resident: document.resident().map_or(f64::NAN, |bytes| bytes as f64),
        memory_max: document.limits.memory.map(|bytes| bytes as f64),
        window_age: document.window.age_seconds,
        window_bytes: document.window.bytes as f64,
        near: near(document).count(),
        sharing: if made > 0.0 { gained(&|it| it.deliveries) / made } else { f64::NAN },
        seconds: samples.seconds(),
        rates: [samples.rates(deliveries), samples.rates(events)],
    }
}

fn near(document: &Document) -> impl Iterator<Item = &Slow> {
    document.watchers.slowest.iter().filter(|slow| document.used(slow) > NEAR)
}

fn stages(document: &Document, samples: &Samples) -> Table {
    let names = ["In the ring", "First write", "Last write", "Busy shard's turn"];
    let rows = names.iter().enumerate().map(|(stage, name)| {
        let counts = samples.lately(stage);
        let shares = [0.5, 0.9, 0.99, 0.999];
        let bounds = &document.stages.bounds_seconds;
        let shares = shares.map(|share| Cell::number(percentile(bounds, &counts, share), latency));
        let count = Cell::count(counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count)));
        [Cell::text(*name)].into_iter().chain(shares).chain([count]).collect()
    });
    Table { title: "Stage latencies", columns: &STAGES, rows: rows.collect(), none: "" }
}

fn watchers(document: &Document) -> Table {
    let mut all: Vec<_> = document
        .watchers
        .by_resource
        .iter()
        .map(|row| (row, row.phases().map(|count| count as f64).iter().sum::<f64>()))
        .collect();
    all.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let total: f64 = all.iter().map(|(_, own)| own).sum();
    let rows = all.iter().map(|(row, own)| {
        let name = row.resource.as_ref().map_or("range of keys", |name| &name.0);
        let first = [Cell::text(name), Cell::number(*own, whole), Cell::number(own / total, percent)];
        first.into_iter().chain(row.phases().map(Cell::count)).collect()
    });
    Table {
        title: "Watchers by resource",
        columns: &WATCHERS,
        rows: rows.collect(),
        none: "No watch is open.",
    }
}

fn slowest(document: &Document) -> Table {
    let rows = document.watchers.slowest.iter().map(|slow| {
        let what = slow.resource.as_ref().map_or("range of keys", |name| &name.0);
        let share = document.used(slow);
        let phase = match slow.phase.0.as_str() {
            "initial" => "Initial",
            "catchingUp" => "Catching up",
            "live" => "Live",
            "parked" => "Parked",
            "draining" => "Draining",
            other => other,
        };
        vec![
            Cell::text(slow.client.as_ref().map_or("unknown", |client| &client.0)),
            Cell::text(
                slow.namespace
                    .as_ref()
                    .map_or_else(|| what.to_owned(), |name| format!("{what} in {}", name.0)),
            ),
            Cell::text(if slow.blocked { format!("{phase}, socket full") } else { phase.to_owned() }),
            Cell::number(slow.lag_seconds, duration),
            Cell::number(slow.lag_events as f64, whole),
            Cell::number(share, percent).alarmed_if(share > NEAR),
            Cell::number(slow.shard as f64, whole),
        ]
    });
    Table { title: "Slowest watchers", columns: &SLOWEST, rows: rows.collect(), none: "No watcher lags." }
}

/// A fact: its name, and what it is.
fn fact(name: &'static str, value: Cell) -> Vec<Cell> {
    vec![Cell::text(name), value]
}

fn window(document: &Document) -> Table {
    let held = &document.window;
    let of = |value: u64, most: u64, show: fn(f64) -> String| {
        Cell::number(value as f64, |value| format!("{} of {}", show(value), show(most as f64)))
    };
    let who: Vec<&str> = near(document)
        .map(|slow| slow.client.as_ref().or(slow.resource.as_ref()).map_or("unknown", |name| name.0.as_str()))
        .collect();
    let has_near = !who.is_empty();
    let who = if has_near { who.join(", ") } else { "no watcher".to_owned() };
    let rows = vec![
        fact(
            "Reaches back",
            held.age_seconds.map_or_else(|| Cell::text("nothing in it"), |age| Cell::number(age, duration)),
        ),
        fact("Bytes", of(held.bytes, held.bytes_max, bytes)),
        fact("Events", of(held.events, held.events_max, whole)),
        fact("Oldest revision", revision(held.oldest_revision)),
        fact("Near its end", Cell::text(who).alarmed_if(has_near)),
    ];
    Table { title: "Window", columns: &WINDOW, rows, none: "" }
}

fn revision(revision: Option<u64>) -> Cell {
    revision.map_or_else(|| Cell::text("none"), |it| Cell::number(it as f64, |_| it.to_string()))
}

fn shards(document: &Document, samples: &Samples) -> Table {
    let rows = document.shards.iter().enumerate().map(|(at, shard)| {
        let busy = samples.rate(|it| it.cpu.get(at).copied().unwrap_or(f64::NAN), BUSY_SECONDS);
        vec![
            Cell::number(shard.number as f64, whole),
            Cell::number(busy, percent).alarmed_if(busy > BUSY),
            Cell::number(shard.watchers as f64, whole),
            Cell::number(shard.live as f64, whole),
            Cell::count(shard.blocked),
            Cell::number(shard.lag_seconds, duration),
        ]
    });
    Table { title: "Shards", columns: &SHARDS, rows: rows.collect(), none: "" }
}

fn source(document: &Document) -> Table {
    let it = &document.source;
    let state = if it.failed {
        "failed"
    } else if it.ready {
        "ready"
    } else {
        "loading"
    };
    let reasons = it.unreadable_by_reason.0.iter();
    let reasons: Vec<String> =
        reasons.map(|(reason, count)| format!("{} {reason}", whole(count.unwrap_or(0) as f64))).collect();
    let unreadable = Cell::number(it.unreadable as f64, |count| {
        if reasons.is_empty() { whole(count) } else { reasons.join(", ") }
    });
    let kind = if it.kind == it.is { it.kind.0.clone() } else { format!("{}: {}", it.kind.0, it.is.0) };
    let rows = vec![
        fact("Kind", Cell::text(kind)),
        fact("State", Cell::text(state).alarmed_if(it.failed)),
        fact(
            "Lag",
            it.stale_seconds.map_or_else(|| Cell::text("no proof yet"), |age| Cell::number(age, duration)),
        ),
        fact("Revision", revision(Some(it.revision))),
        fact("Objects", Cell::number(it.objects as f64, whole)),
        fact("Unreadable", unreadable.alarmed_if(it.unreadable > 0)),
        fact("Epoch", Cell::number(it.epoch as f64, whole)),
    ];
    Table { title: "Source", columns: &SOURCE, rows, none: "" }
}

fn memory(document: &Document) -> Table {
    let resident = document.resident().map_or(f64::NAN, |bytes| bytes as f64);
    let parts = document.memory.0.iter().filter(|(part, _)| part != "resident");
    let rows = parts.map(|(part, held)| {
        let held = held.map_or(f64::NAN, |bytes| bytes as f64);
        // As the page names them: "window" is "Window".
        let mut letters = part.chars();
        let name = letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters);
        vec![
            Cell::text(name.collect::<String>()),
            Cell::number(held, bytes),
            Cell::number(held / resident, percent),
        ]
    });
    Table { title: "Memory", columns: &MEMORY, rows: rows.collect(), none: "" }
}

fn errors(samples: &Samples) -> Table {
    let rows = samples.errors().into_iter().map(|(name, lately, total)| {
        let tone = if lately > 0 { Tone::Alarm } else { Tone::Faint };
        vec![Cell::text(name), Cell { tone, ..Cell::count(lately) }, Cell::number(total as f64, whole)]
    });
    Table { title: "Errors by reason", columns: &ERRORS, rows: rows.collect(), none: "None since the start." }
}

impl Figures {
    /// The lines at the top, the most wanted first: name and value.
    pub(super) fn lines(&self) -> [Vec<(&'static str, String)>; 2] {
        let stale = self.stale.map_or_else(|| UNKNOWN.to_owned(), duration);
        let memory = self.memory_max.map_or_else(
            || bytes(self.resident),
            |max| format!("{} of {}", bytes(self.resident), bytes(max)),
        );
        let window = self.window_age.map_or_else(
            || "empty".to_owned(),
            |age| format!("{}, {}", duration(age), bytes(self.window_bytes)),
        );
        let figures = vec![
            ("Deliveries", format!("{}/s", short(self.deliveries))),
            ("Events", format!("{}/s", short(self.events))),
            ("Watchers", whole(self.watchers)),
            ("Slowest", duration(self.lag)),
        ];
        let mut more = vec![("Source lag", stale), ("Memory", memory), ("Window", window)];
        if self.near > 0 {
            more.push(("Near its end", whole(self.near as f64)));
        } else if self.sharing.is_finite() {
            more.push(("Per message", short(self.sharing)));
        }
        [figures, more]
    }

    /// `up 3 min 2 s`
    pub(super) fn about(&self) -> String {
        format!("{} {} up {}", self.version, self.api, uptime(self.uptime))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::document::tests::document;
    use super::*;

    pub(in crate::top) fn view() -> View {
        let mut samples = Samples::default();
        let mut last = None;
        for (at, grown) in [(10.0, 100), (11.0, 110), (12.0, 130)] {
            let document = document(at, grown);
            samples.add(&document);
            last = Some(document);
        }
        View::new(&last.expect("three"), &samples)
    }

    fn texts(table: &Table) -> Vec<Vec<&str>> {
        table.rows.iter().map(|row| row.iter().map(|cell| cell.shown.as_str()).collect()).collect()
    }

    #[test]
    fn figures_and_tables_are_those_of_the_page() {
        let view = view();
        let [first, second] = view.figures.lines();
        let shown = |line: &[(&str, String)]| {
            line.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>()
        };
        assert_eq!(shown(&first), ["Deliveries 150/s", "Events 15.0/s", "Watchers 15", "Slowest 2.00 ms"]);
        assert_eq!(
            shown(&second),
            ["Source lag 250 ms", "Memory 10.0 KiB", "Window 1.50 min, 1.00 KiB", "Per message 10.0"]
        );
        assert_eq!(
            texts(view.table(Section::Watchers)),
            [
                ["pods", "10", "67 %", "1", "0", "9", "0", "0"],
                ["configmaps", "5", "33 %", "0", "1", "4", "0", "0"],
            ]
        );
        assert_eq!(
            texts(view.table(Section::Slowest)),
            [
                ["10.0.0.9:1234", "pods in ns", "Catching up, socket full", "3.50 s", "80", "40 %", "0"],
                ["unknown", "range of keys", "Live", "100 ms", "1", "0.5 %", "1"],
            ]
        );
        assert_eq!(
            texts(view.table(Section::Stages))[0],
            ["In the ring", "1.00 ms", "82.0 ms", "98.2 ms", "99.8 ms", "60"]
        );
        assert_eq!(
            texts(view.table(Section::Stages))[3][1..],
            ["> 10 s", "> 10 s", "> 10 s", "> 10 s", "30"]
        );
        assert_eq!(texts(view.table(Section::Window))[1], ["Bytes", "1.00 KiB of 4.00 KiB"]);
        assert_eq!(texts(view.table(Section::Shards))[0], ["0", "50 %", "10", "9", "1", "2.00 ms"]);
        assert_eq!(texts(view.table(Section::Source))[0], ["Kind", "etcd: etcd http://e:2379"]);
        assert_eq!(texts(view.table(Section::Memory))[0], ["Window", "1.00 KiB", "10 %"]);
        assert_eq!(texts(view.table(Section::Errors))[0], ["Request answered with 404", "30", "130"]);
    }

    #[test]
    fn a_watcher_near_its_end_is_an_alarm() {
        let mut near = document(1.0, 1);
        near.window.events = near.window.events_max;
        near.watchers.slowest[0].lag_events = 190;
        let mut samples = Samples::default();
        samples.add(&near);
        let view = View::new(&near, &samples);
        assert_eq!(view.figures.near, 1);
        assert_eq!(view.table(Section::Window).rows[4][1], Cell::text("10.0.0.9:1234").alarmed_if(true));
        assert_eq!(view.table(Section::Slowest).rows[0][5].tone, Tone::Alarm);
        assert_eq!(view.figures.lines()[0][0].1, "–/s", "one document has no rate");
    }
}
