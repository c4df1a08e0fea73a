//! The columns of a custom resource: `additionalPrinterColumns` of its CustomResourceDefinition.
//!
//! Follows apiextensions-apiserver: the name comes first, then what the definition says, or the age when it says nothing.
//! A value that is missing, or not of the column's type, is null; columns of text show every value.

use std::fmt;

use revcast_engine::escape;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use super::age;
use super::cells::{Cells, list, or, text};
use super::columns::{CREATED_TEXT, Column, NAME};
use super::json_path::JsonPath;

/// The columns of one version of a custom resource, the name excepted.
#[derive(Debug)]
pub struct PrinterColumns(Vec<PrinterColumn>);

/// One column; it is written as a `TableColumnDefinition`.
#[derive(Debug, Serialize)]
struct PrinterColumn {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    format: String,
    description: String,
    priority: i32,
    #[serde(skip)]
    path: JsonPath,
}

/// A column as a CustomResourceDefinition has it, of `v1`, or of `v1beta1`, which spells the path `JSONPath`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Declared {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    format: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    priority: i32,
    #[serde(alias = "JSONPath")]
    json_path: String,
}

/// A column that cannot be read. It and those after it are not shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidColumn {
    /// Its place in the list, from 0.
    pub index: usize,
    /// Its path, if it has one.
    pub json_path: String,
}

impl fmt::Display for InvalidColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, json_path } = self;
        write!(f, "additionalPrinterColumns[{index}] is not shown, nor those after it: ")?;
        write!(f, "{json_path:?} is not a JSONPath, or a member is missing")
    }
}

impl std::error::Error for InvalidColumn {}

impl PrinterColumns {
    /// The columns of `version` in the `spec` of a CustomResourceDefinition, and the first one that cannot be read.
    ///
    /// In `v1beta1`, in which kube-apiserver stores definitions, all versions may share the columns of the `spec`.
    #[must_use]
    pub fn of_version(spec: &Value, version: &str) -> (Self, Option<InvalidColumn>) {
        let own = list(spec, "/versions").iter().find(|known| text(known, "/name") == version);
        let own = own.map_or(&[][..], |own| list(own, "/additionalPrinterColumns"));
        Self::new(if own.is_empty() { list(spec, "/additionalPrinterColumns") } else { own })
    }

    /// The columns that a list of them declares, and the first one that cannot be read.
    #[must_use]
    pub fn new(declared: &[Value]) -> (Self, Option<InvalidColumn>) {
        let mut columns = Vec::new();
        for (index, column) in declared.iter().enumerate() {
            let Some(read) = PrinterColumn::read(column) else {
                let json_path = or(text(column, "/jsonPath"), text(column, "/JSONPath")).to_owned();
                return (Self(columns), Some(InvalidColumn { index, json_path }));
            };
            columns.push(read);
        }
        if columns.is_empty() {
            columns.extend(PrinterColumn::age());
        }
        (Self(columns), None)
    }

    /// Appends the value of `columnDefinitions`.
    pub(super) fn append_definitions(&self, out: &mut Vec<u8>) {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum Definition<'a> {
            Name(&'a Column),
            Own(&'a PrinterColumn),
        }
        let all: Vec<Definition<'_>> =
            std::iter::once(Definition::Name(&NAME)).chain(self.0.iter().map(Definition::Own)).collect();
        let json = serde_json::to_vec(&all).expect("columns have a form");
        out.extend_from_slice(&escape::escaped(&json));
    }

    pub(super) fn print(&self, object: &Value, cells: &mut Cells<'_>, now: i64) {
        cells.name(object);
        for column in &self.0 {
            column.print(column.path.first(object), cells, now);
        }
    }
}

impl PrinterColumn {
    fn read(declared: &Value) -> Option<Self> {
        let Declared { name, kind, format, description, priority, json_path } =
            Declared::deserialize(declared).ok()?;
        let description = if description.is_empty() {
            format!("Custom resource definition column (in JSONPath format): {json_path}")
        } else {
            description
        };
        let path = JsonPath::parse(&json_path).ok()?;
        Some(Self { name, kind, format, description, priority, path })
    }

    /// The column of definitions that declare none.
    fn age() -> Option<Self> {
        Some(Self {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            format: String::new(),
            description: CREATED_TEXT.to_owned(),
            priority: 0,
            path: JsonPath::parse(".metadata.creationTimestamp").ok()?,
        })
    }

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
pub(super) fn date(value: Option<&Value>, cells: &mut Cells<'_>, now: i64) {
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
            let json = sorted(value).to_string();
            String::from_utf8_lossy(&escape::escaped(json.as_bytes())).into_owned()
        }
    }
}

/// The value with the members of objects in the order of their names, as Go writes maps.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            Value::Object(
                members
                    .into_iter()
                    .map(|(name, member)| (name.clone(), sorted(member)))
                    .collect::<Map<_, _>>(),
            )
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// The digits of a number and its power of ten: `1.5` and `6`.
fn scientific(number: f64) -> (String, i32) {
    let written = format!("{number:e}");
    match written.split_once('e') {
        Some((digits, power)) => (digits.to_owned(), power.parse().unwrap_or_default()),
        None => (written, 0),
    }
}

/// A number in Go's format `%v`.
fn go_general(number: f64) -> String {
    match scientific(number) {
        (_, -4..6) => number.to_string(),
        (digits, power) => {
            let sign = if power < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", power.unsigned_abs())
        }
    }
}

/// A number as Go writes it in JSON.
fn literal(number: f64) -> Option<Box<RawValue>> {
    let written = match scientific(number) {
        (_, -6..21) => number.to_string(),
        (digits, power @ ..0) => format!("{digits}e{power}"),
        (digits, power) => format!("{digits}e+{power}"),
    };
    RawValue::from_string(written).ok()
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
        let definitions: Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(definitions, serde_json::to_value(super::super::columns::CUSTOM).expect("JSON"));
    }

    #[test]
    fn a_column_that_cannot_be_read_ends_the_columns() {
        let good =
            json!({ "name": "A", "type": "string", "JSONPath": ".a", "priority": 1, "description": "d" });
        for bad in
            [json!({ "name": "B", "type": "string", "jsonPath": ".b[" }), json!({ "name": "B" }), json!(7)]
        {
            let (columns, invalid) = PrinterColumns::new(&[good.clone(), bad.clone(), good.clone()]);
            let invalid = invalid.expect("it is not valid");
            assert_eq!((invalid.index, columns.0.len()), (1, 1), "{bad}");
            assert!(invalid.to_string().starts_with("additionalPrinterColumns[1] is not shown"));
            let mut out = Vec::new();
            columns.append_definitions(&mut out);
            let definitions: Value = serde_json::from_slice(&out).expect("JSON");
            let own =
                json!({ "name": "A", "type": "string", "format": "", "description": "d", "priority": 1 });
            assert_eq!((definitions.as_array().map(Vec::len), &definitions[1]), (Some(2), &own));
        }
    }

    #[test]
    fn versions_have_columns_of_their_own_or_those_of_the_spec() {
        let column = |name| json!([{ "name": name, "type": "string", "jsonPath": ".a" }]);
        let spec = json!({ "versions": [{ "name": "v1", "additionalPrinterColumns": column("Own") }, { "name": "v2" }] });
        let name =
            |spec: &Value, version: &str| PrinterColumns::of_version(spec, version).0.0[0].name.clone();
        assert_eq!((name(&spec, "v1"), name(&spec, "v2")), ("Own".to_owned(), "Age".to_owned()));
        let old = json!({ "additionalPrinterColumns": column("All"), "versions": [{ "name": "v1" }] });
        assert_eq!((name(&old, "v1"), name(&old, "v3")), ("All".to_owned(), "All".to_owned()));
        let (columns, _) = PrinterColumns::of_version(&old, "v1");
        assert_eq!(columns.0[0].description, "Custom resource definition column (in JSONPath format): .a");
    }
}
