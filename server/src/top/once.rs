//! One view for scripts: a line a number, or JSON. Numbers are in seconds, bytes, shares of 1, or a second.

use std::time::{Duration, Instant};

use serde_json::{Map, Value as Json, json};

use super::client::Subject;
use super::samples::Samples;
use super::table::{Cell, Value};
use super::view::{Figures, Section, View};

/// How much longer than asked for it may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// How it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Columns: section, row, column, value.
    Table,
    /// One object.
    Json,
}

/// Follows the stream for so long, and returns the view of that time.
///
/// # Errors
/// There is no stream, or it ends too early; on one line.
pub(super) fn view(subject: &Subject, span: Duration) -> Result<View, String> {
    let deadline = Instant::now() + span + PATIENCE;
    let mut stream = subject.open()?;
    let mut samples = Samples::default();
    loop {
        let document = stream.next()?.ok_or("the server ended the stream")?;
        samples.add(&document);
        // A document comes a little early or late.
        if samples.seconds() >= span.as_secs_f64() - 0.25 {
            return Ok(View::new(&document, &samples));
        }
        if Instant::now() > deadline {
            return Err("the server's time stands still".to_owned());
        }
    }
}

impl Form {
    /// The text, which ends with a line end.
    pub(super) fn render(self, view: &View) -> String {
        match self {
            Self::Table => table(view),
            Self::Json => document(view).to_string() + "\n",
        }
    }
}

const fn key(section: Section) -> &'static str {
    match section {
        Section::Watchers => "watchers",
        Section::Slowest => "slowest",
        Section::Stages => "stages",
        Section::Window => "window",
        Section::Shards => "shards",
        Section::Source => "source",
        Section::Memory => "memory",
        Section::Errors => "errors",
    }
}

fn figures(figures: &Figures) -> Vec<(&'static str, Value)> {
    let text = |text: &str| Value::Text(text.to_owned());
    let number = |value: Option<f64>| Value::Number(value.unwrap_or(f64::NAN));
    vec![
        ("version", text(&figures.version)),
        ("life", text(&figures.life.0)),
        ("uptimeSeconds", Value::Number(figures.uptime)),
        ("deliveriesPerSecond", Value::Number(figures.deliveries)),
        ("eventsPerSecond", Value::Number(figures.events)),
        ("watchers", Value::Number(figures.watchers)),
        ("lagSeconds", Value::Number(figures.lag)),
        ("staleSeconds", number(figures.stale)),
        ("residentBytes", Value::Number(figures.resident)),
        ("memoryMaxBytes", number(figures.memory_max)),
        ("windowSeconds", number(figures.window_age)),
        ("windowBytes", Value::Number(figures.window_bytes)),
        ("nearWindowEnd", Value::Number(figures.near as f64)),
        ("deliveriesPerMessage", Value::Number(figures.sharing)),
        ("sampledSeconds", Value::Number(figures.seconds)),
    ]
}

/// Every number of the view: section, row, column, value. Of a table the first column names the row; clients, which may have several
/// watches, are numbered.
fn lines(view: &View) -> Vec<[String; 4]> {
    let mut lines = Vec::new();
    for (name, value) in figures(&view.figures) {
        lines.push(["server".to_owned(), "-".to_owned(), name.to_owned(), plain(&value)]);
    }
    for section in Section::ALL {
        let table = view.table(section);
        for (number, row) in (1..).zip(&table.rows) {
            let is_numbered = section == Section::Slowest;
            let name = if is_numbered { number.to_string() } else { word(&plain(&row[0].value)) };
            for (column, cell) in table.columns.iter().zip(row).skip(usize::from(!is_numbered)) {
                lines.push([
                    key(section).to_owned(),
                    name.clone(),
                    column.key.to_owned(),
                    plain(&cell.value),
                ]);
            }
        }
    }
    lines
}

/// Without spaces, for awk.
fn word(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join("_")
}

fn plain(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Number(number) if number.is_nan() => "-".to_owned(),
        Value::Number(number) => number.to_string(),
    }
}

fn table(view: &View) -> String {
    let mut lines = lines(view);
    lines.insert(0, ["SECTION", "ROW", "COLUMN", "VALUE"].map(str::to_owned));
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
    let [first, second, third] = [0, 1, 2].map(width);
    let line = |[section, row, column, value]: &[String; 4]| {
        format!("{section:first$}  {row:second$}  {column:third$}  {value}\n")
    };
    lines.iter().map(line).collect()
}

fn member(value: &Value) -> Json {
    match value {
        Value::Text(text) => json!(text),
        // What is not finite is null.
        Value::Number(number) => json!(number),
    }
}

fn document(view: &View) -> Json {
    let mut all = Map::new();
    let server: Map<String, Json> =
        figures(&view.figures).iter().map(|(name, value)| ((*name).to_owned(), member(value))).collect();
    all.insert("server".to_owned(), Json::Object(server));
    for section in Section::ALL {
        let table = view.table(section);
        let object = |row: &Vec<Cell>| -> Json {
            let members = table.columns.iter().zip(row);
            Json::Object(members.map(|(column, cell)| (column.key.to_owned(), member(&cell.value))).collect())
        };
        all.insert(key(section).to_owned(), Json::Array(table.rows.iter().map(object).collect()));
    }
    Json::Object(all)
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::view;
    use super::*;

    #[test]
    fn a_script_reads_numbers_by_three_names() {
        let text = Form::Table.render(&view());
        let value = |section: &str, row: &str, column: &str| {
            let wanted = [section, row, column];
            let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            lines.find(|line| line[..3] == wanted).map(|line| line[3..].join(" "))
        };
        assert_eq!(text.lines().next().map(|line| line.split_whitespace().count()), Some(4));
        assert_eq!(value("server", "-", "deliveriesPerSecond").as_deref(), Some("150"));
        assert_eq!(value("server", "-", "memoryMaxBytes").as_deref(), Some("-"));
        assert_eq!(value("watchers", "pods", "live").as_deref(), Some("9"));
        assert_eq!(value("slowest", "1", "client").as_deref(), Some("10.0.0.9:1234"));
        assert_eq!(value("slowest", "1", "watches").as_deref(), Some("pods in ns"));
        assert_eq!(value("stages", "In_the_ring", "p50").as_deref(), Some("0.001"));
        assert_eq!(value("stages", "Busy_shard's_turn", "p50").as_deref(), Some("inf"));
        assert_eq!(value("shards", "0", "busy").as_deref(), Some("0.5"));
        assert_eq!(value("errors", "Request_answered_with_404", "lately").as_deref(), Some("30"));
        assert!(text.lines().all(|line| line.split_whitespace().count() >= 4), "{text}");
    }

    #[test]
    fn json_has_the_same_and_is_read() {
        let text = Form::Json.render(&view());
        let read: Json = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read["server"]["deliveriesPerSecond"], json!(150.0));
        assert_eq!(
            (&read["watchers"][0]["resource"], &read["watchers"][0]["live"]),
            (&json!("pods"), &json!(9.0))
        );
        assert_eq!(read["stages"][3]["p50"], Json::Null);
        assert_eq!(read["window"][1]["value"], json!(1024.0));
        assert_eq!(text.lines().count(), 1);
    }
}
