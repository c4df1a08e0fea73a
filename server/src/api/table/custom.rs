//! Rows of custom resources.
//!
//! Follows apiextensions-apiserver: the name comes first, then what the definition says, or the age when it says nothing.
//! A value that is missing, or not of the column's type, is null; columns of text show every value.

use revcast_engine::escape;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Number, Value};

use super::age;
use super::cells::{Cells, at};
use super::columns::{self, Column};
use crate::api::go_json;
use crate::api::printer_columns::{PrinterColumn, PrinterColumns};

/// The row of an object whose resource declares no columns.
pub(super) fn undeclared(object: &Value, cells: &mut Cells<'_>, now: i64) {
    cells.name(object);
    date(at(object, "/metadata/creationTimestamp"), cells, now);
}

impl PrinterColumns {
    /// Appends the value of `columnDefinitions`.
    pub(super) fn append_definitions(&self, out: &mut Vec<u8>) {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum Definition<'a> {
            Known(&'a Column),
            Declared(&'a PrinterColumn),
        }
        let all: Vec<Definition<'_>> = match &self.declared {
            None => columns::CUSTOM.iter().map(Definition::Known).collect(),
            Some(declared) => std::iter::once(Definition::Known(&columns::NAME))
                .chain(declared.iter().map(Definition::Declared))
                .collect(),
        };
        let json = serde_json::to_vec(&all).expect("columns have a form");
        out.extend_from_slice(&escape::escaped(&json));
    }

    pub(super) fn print(&self, object: &Value, cells: &mut Cells<'_>, now: i64) {
        let Some(declared) = &self.declared else { return undeclared(object, cells, now) };
        cells.name(object);
        for column in declared {
            column.print(column.path.first(object), cells, now);
        }
    }
}

impl PrinterColumn {
    fn print(&self, value: Option<&Value>, cells: &mut Cells<'_>, now: i64) {
        match (self.kind.as_str(), value) {
            ("string", Some(value)) => cells.text(&as_text(value)),
            ("date", value) => date(value, cells, now),
            ("boolean", Some(Value::Bool(value))) => cells.flag(*value),
            ("integer", Some(Value::Number(number))) => match whole(number) {
                Some(whole) => cells.number(whole),
                None => cells.null(),
            },
            ("number", Some(Value::Number(number))) => match number.as_f64().and_then(literal) {
                Some(number) => cells.literal(&number),
                None => cells.null(),
            },
            _ => cells.null(),
        }
    }
}

/// A time as its age. What is no text is null, and text that is no time is said to be invalid.
fn date(value: Option<&Value>, cells: &mut Cells<'_>, now: i64) {
    match value.and_then(Value::as_str) {
        None => cells.null(),
        Some("" | "null") => cells.text(age::UNKNOWN),
        Some(time) if age::parse(time).is_none() => cells.text("<invalid>"),
        Some(time) => cells.text(&age::since(time, now)),
    }
}

/// A number without its fraction.
fn whole(number: &Number) -> Option<i64> {
    number.as_i64().or_else(|| format!("{:.0}", number.as_f64()?.trunc()).parse().ok())
}

/// What a column of text shows of a value.
fn as_text(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.to_string(),
            None => number.as_f64().map_or_else(String::new, go_general),
        },
        Value::Array(_) | Value::Object(_) => {
            String::from_utf8_lossy(&escape::escaped(&go_json::encoded(value))).into_owned()
        }
    }
}

/// A number in Go's format `%v`.
fn go_general(number: f64) -> String {
    let written = format!("{number:e}");
    let Some((digits, power)) = written.split_once('e') else { return written };
    match power.parse::<i32>() {
        Ok(power @ ..-4) => format!("{digits}e-{:02}", -power),
        Ok(power @ 6..) => format!("{digits}e+{power:02}"),
        Ok(_) | Err(_) => number.to_string(),
    }
}

/// A number as Go writes it in JSON.
fn literal(number: f64) -> Option<Box<RawValue>> {
    RawValue::from_string(go_json::number(number)).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cells(columns: &Value, object: &Value) -> Value {
        let (columns, invalid) = PrinterColumns::new(columns.as_array().expect("a list"));
        assert_eq!(invalid, None);
        let mut out = vec![b'['];
        columns.print(object, &mut Cells::new(&mut out), age::parse("2026-11-21T06:00:00Z").expect("a time"));
        out.push(b']');
        serde_json::from_slice(&out).expect("cells are JSON")
    }

    /// What a column of each type shows.
    fn shown(value: &Value) -> Value {
        let columns: Vec<Value> = ["string", "integer", "number", "boolean", "date", "other"]
            .iter()
            .map(|kind| json!({ "name": "c", "type": kind, "jsonPath": ".v" }))
            .collect();
        let mut cells = cells(&json!(columns), &json!({ "metadata": {"name":"x"}, "v": value }));
        cells.as_array_mut().expect("a row").remove(0);
        cells
    }

    #[test]
    fn values_are_shown_as_the_column_says() {
        for (value, row) in [
            (json!("s"), json!(["s", null, null, null, "<invalid>", null])),
            (json!(7), json!(["7", 7, 7, null, null, null])),
            (json!(-1.5), json!(["-1.5", -1, -1.5, null, null, null])),
            (json!(true), json!(["true", null, null, true, null, null])),
            (json!(null), json!(["<no value>", null, null, null, null, null])),
            (json!("2026-11-21T05:55:00Z"), json!(["2026-11-21T05:55:00Z", null, null, null, "5m", null])),
            (json!(""), json!(["", null, null, null, "<unknown>", null])),
            (
                json!("0001-01-01T00:00:00Z"),
                json!(["0001-01-01T00:00:00Z", null, null, null, "<unknown>", null]),
            ),
            (json!(["b", 1]), json!([r#"["b",1]"#, null, null, null, null, null])),
            (json!({"b": "<", "a": {}}), json!([r#"{"a":{},"b":"\u003c"}"#, null, null, null, null, null])),
        ] {
            assert_eq!(shown(&value), row, "{value}");
        }
        assert_eq!(
            cells(&json!([{ "name": "c", "type": "string", "jsonPath": ".v" }]), &json!({})),
            json!(["", null])
        );
    }

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        for (number, text, json) in [
            (0.5, "0.5", "0.5"),
            (100_000.5, "100000.5", "100000.5"),
            (1e6, "1e+06", "1000000"),
            (1_234_567.5, "1.2345675e+06", "1234567.5"),
            (1e-5, "1e-05", "0.00001"),
            (1.5e-7, "1.5e-07", "1.5e-7"),
            (1e21, "1e+21", "1e+21"),
            (-2.5e300, "-2.5e+300", "-2.5e+300"),
            (0.0, "0", "0"),
        ] {
            assert_eq!(go_general(number), text);
            assert_eq!(literal(number).expect("a number").get(), json);
        }
    }

    #[test]
    fn a_definition_without_columns_shows_the_age() {
        let object = json!({ "metadata": {"name":"x","creationTimestamp":"2026-11-21T05:59:00Z"} });
        assert_eq!(cells(&json!([]), &object), json!(["x", "60s"]));
        assert_eq!(cells(&json!([]), &json!({ "metadata": {"name":"x"} })), json!(["x", null]));
        let mut out = Vec::new();
        PrinterColumns::new(&[]).0.append_definitions(&mut out);
        assert_eq!(out, serde_json::to_vec(columns::CUSTOM).expect("JSON"));
        // One that cannot be read leaves the name alone.
        out.clear();
        PrinterColumns::new(&[json!(7)]).0.append_definitions(&mut out);
        assert_eq!(out, serde_json::to_vec(&columns::CUSTOM[..1]).expect("JSON"));
    }
}
