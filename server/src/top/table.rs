//! A table: columns, rows, their order and which of them are shown.

use std::cmp::Ordering;

use super::units::UNKNOWN;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    /// Its head on the screen.
    pub(super) name: &'static str,
    /// What scripts call it.
    pub(super) key: &'static str,
    /// Texts are at the left, and are sorted from A to Z; numbers at the right, from large to small.
    pub(super) is_text: bool,
}

/// What a cell says beside its text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tone {
    #[default]
    Plain,
    /// Nothing to see.
    Faint,
    /// Look here.
    Alarm,
}

/// What a cell is sorted by, and what scripts get.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    /// In seconds, bytes, or a share of 1. What is not finite is not known.
    Number(f64),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) shown: String,
    pub(super) value: Value,
    pub(super) tone: Tone,
}

impl Cell {
    pub(super) fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { value: Value::Text(text.clone()), shown: text, tone: Tone::Plain }
    }

    /// A number as `show` shows it.
    pub(super) fn number(value: f64, show: impl Fn(f64) -> String) -> Self {
        Self { shown: show(value), value: Value::Number(value), tone: Tone::Plain }
    }

    /// A number of things, of which none is nothing to see.
    pub(super) fn count(value: u64) -> Self {
        let tone = if value == 0 { Tone::Faint } else { Tone::Plain };
        Self { tone, ..Self::number(value as f64, super::units::whole) }
    }

    pub(super) fn alarmed_if(self, is_alarm: bool) -> Self {
        if is_alarm { Self { tone: Tone::Alarm, ..self } } else { self }
    }

    fn is_known(&self) -> bool {
        match &self.value {
            Value::Text(_) => self.shown != UNKNOWN,
            Value::Number(value) => !value.is_nan(),
        }
    }
}

/// The order of rows: a column, and whether the first is the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) column: usize,
    pub(super) is_descending: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Table {
    pub(super) title: &'static str,
    pub(super) columns: &'static [Column],
    pub(super) rows: Vec<Vec<Cell>>,
    /// Instead of rows, if there are none.
    pub(super) none: &'static str,
}

impl Table {
    /// The rows that contain `filter`, whatever the case of letters, in this order; `None`: as they are.
    pub(super) fn rows(&self, filter: &str, order: Option<Order>) -> Vec<&[Cell]> {
        let wanted = filter.to_lowercase();
        let has = |row: &&Vec<Cell>| row.iter().any(|cell| cell.shown.to_lowercase().contains(&wanted));
        let mut rows: Vec<&[Cell]> =
            self.rows.iter().filter(|row| wanted.is_empty() || has(row)).map(Vec::as_slice).collect();
        if let Some(Order { column, is_descending }) = order.filter(|order| order.column < self.columns.len())
        {
            rows.sort_by(|one, other| compare(&one[column], &other[column], is_descending));
        }
        rows
    }

    /// The width of each column: of its head and its widest cell.
    pub(super) fn widths(&self, rows: &[&[Cell]]) -> Vec<usize> {
        let cell = |at: usize| rows.iter().map(move |row| row[at].shown.chars().count());
        // A mark shows the column that is sorted by.
        let head = |column: &Column| column.name.chars().count() + 1;
        self.columns
            .iter()
            .enumerate()
            .map(|(at, column)| cell(at).chain([head(column)]).max().unwrap_or(0))
            .collect()
    }
}

/// What is not known comes last in both directions.
fn compare(one: &Cell, other: &Cell, is_descending: bool) -> Ordering {
    let known = other.is_known().cmp(&one.is_known());
    let ordered = match (&one.value, &other.value) {
        (Value::Number(one), Value::Number(other)) => one.total_cmp(other),
        (Value::Text(one), Value::Text(other)) => one.cmp(other),
        (Value::Text(_), Value::Number(_)) => Ordering::Less,
        (Value::Number(_), Value::Text(_)) => Ordering::Greater,
    };
    known.then(if is_descending { ordered.reverse() } else { ordered })
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 2] = [
        Column { name: "Name", key: "name", is_text: true },
        Column { name: "Lag", key: "lag", is_text: false },
    ];

    fn table() -> Table {
        let row =
            |name: &str, lag: f64| vec![Cell::text(name), Cell::number(lag, super::super::units::duration)];
        let rows = vec![row("Pods", 2.0), row("apps", f64::NAN), row("maps", 10.0)];
        Table { title: "T", columns: &COLUMNS, rows, none: "none" }
    }

    fn names(rows: &[&[Cell]]) -> Vec<String> {
        rows.iter().map(|row| row[0].shown.clone()).collect()
    }

    #[test]
    fn rows_are_sorted_by_what_they_mean() {
        let table = table();
        let by = |column, is_descending| names(&table.rows("", Some(Order { column, is_descending })));
        assert_eq!(by(1, true), ["maps", "Pods", "apps"], "10 s is more than 2 s");
        assert_eq!(by(1, false), ["Pods", "maps", "apps"], "what is not known is last");
        assert_eq!(by(0, false), ["Pods", "apps", "maps"]);
        assert_eq!(by(7, false), names(&table.rows("", None)), "no such column");
    }

    #[test]
    fn a_filter_finds_any_cell_in_any_case() {
        assert_eq!(names(&table().rows("PS", None)), ["apps", "maps"]);
        assert_eq!(names(&table().rows("10.0 s", None)), ["maps"]);
        assert_eq!(names(&table().rows("nothing", None)), [""; 0]);
    }

    #[test]
    fn columns_are_as_wide_as_they_must() {
        let table = table();
        assert_eq!(table.widths(&table.rows("", None)), [5, 6]);
        assert_eq!(table.widths(&[]), [5, 4]);
    }
}
