//! The columns of a custom resource: `additionalPrinterColumns` of its CustomResourceDefinition.
//!
//! Reads them as apiextensions-apiserver does. What they show of an object is `table`'s.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::json_path::JsonPath;

/// The columns of one version of a custom resource.
#[derive(Debug)]
pub struct PrinterColumns {
    /// Those that are declared, between the name and the end; `None`: none are, and the age is shown.
    pub(in crate::api) declared: Option<Vec<PrinterColumn>>,
}

/// One column; it is written as a `TableColumnDefinition`.
#[derive(Debug, Serialize)]
pub(in crate::api) struct PrinterColumn {
    pub(in crate::api) name: String,
    #[serde(rename = "type")]
    pub(in crate::api) kind: String,
    pub(in crate::api) format: String,
    pub(in crate::api) description: String,
    pub(in crate::api) priority: i32,
    #[serde(skip)]
    pub(in crate::api) path: JsonPath,
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

/// The list of that name.
fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

impl PrinterColumns {
    /// The columns of `version` in the `spec` of a CustomResourceDefinition, and the first one that cannot be read.
    ///
    /// In `v1beta1`, in which kube-apiserver stores definitions, all versions may share the columns of the `spec`.
    #[must_use]
    pub fn of_version(spec: &Value, version: &str) -> (Self, Option<InvalidColumn>) {
        const MEMBER: &str = "additionalPrinterColumns";
        let named = |known: &&Value| known.get("name").is_some_and(|name| name == version);
        let own = list(spec, "versions").iter().find(named).map_or(&[][..], |own| list(own, MEMBER));
        Self::new(if own.is_empty() { list(spec, MEMBER) } else { own })
    }

    /// The columns that a list of them declares, and the first one that cannot be read.
    #[must_use]
    pub fn new(declared: &[Value]) -> (Self, Option<InvalidColumn>) {
        let mut columns = Vec::new();
        for (index, column) in declared.iter().enumerate() {
            let Some(read) = PrinterColumn::read(column) else {
                let path = column.get("jsonPath").or_else(|| column.get("JSONPath")).and_then(Value::as_str);
                let json_path = path.unwrap_or_default().to_owned();
                return (Self { declared: Some(columns) }, Some(InvalidColumn { index, json_path }));
            };
            columns.push(read);
        }
        (Self { declared: (!columns.is_empty()).then_some(columns) }, None)
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
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(columns: &PrinterColumns) -> Option<Vec<&str>> {
        columns.declared.as_ref().map(|all| all.iter().map(|column| column.name.as_str()).collect())
    }

    #[test]
    fn a_column_that_cannot_be_read_ends_the_columns() {
        let good = json!({ "name": "A", "type": "string", "JSONPath": ".a" });
        for bad in
            [json!({ "name": "B", "type": "string", "jsonPath": ".b[" }), json!({ "name": "B" }), json!(7)]
        {
            let (columns, invalid) = PrinterColumns::new(&[good.clone(), bad.clone(), good.clone()]);
            let invalid = invalid.expect("it is not valid");
            assert_eq!((invalid.index, names(&columns)), (1, Some(vec!["A"])), "{bad}");
            assert!(invalid.to_string().starts_with("additionalPrinterColumns[1] is not shown"));
        }
        let (columns, invalid) =
            PrinterColumns::new(&[json!({ "name": "B", "type": "string", "jsonPath": ".b[" })]);
        assert_eq!(
            (names(&columns), invalid.expect("not valid").json_path),
            (Some(vec![]), ".b[".to_owned())
        );
    }

    #[test]
    fn versions_have_columns_of_their_own_or_those_of_the_spec() {
        let column = |name| json!([{ "name": name, "type": "string", "jsonPath": ".a" }]);
        let of = |spec: &Value, version: &str| {
            let (columns, invalid) = PrinterColumns::of_version(spec, version);
            assert_eq!(invalid, None);
            names(&columns).map(|names| names.join(","))
        };
        let spec = json!({ "versions": [{ "name": "v1", "additionalPrinterColumns": column("Own") }, { "name": "v2" }] });
        assert_eq!((of(&spec, "v1").as_deref(), of(&spec, "v2")), (Some("Own"), None));
        let old = json!({ "additionalPrinterColumns": column("All"), "versions": [{ "name": "v1" }] });
        assert_eq!((of(&old, "v1").as_deref(), of(&old, "v3").as_deref()), (Some("All"), Some("All")));
    }
}
