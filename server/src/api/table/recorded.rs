//! What a kube-apiserver 1.36 printed: recording 35, one line a resource and version.

use std::collections::HashMap;
use std::io::Read;

use flate2::read::GzDecoder;
use jiff::fmt::rfc2822;
use serde::Deserialize;
use serde_json::{Value, json};

use super::cells::{Cells, text};
use crate::api::printer::Printer;
use crate::api::printer_columns::PrinterColumns;
use crate::api::protobuf::recorded::stored;

const RECORDED: &[u8] = include_bytes!("../../../tests/fixtures/recorded/35-tables.jsonl.gz");

/// The reply to a list that was asked for as a Table.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    path: String,
    date: String,
    column_definitions: Value,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    cells: Value,
    object: Value,
}

impl Line {
    fn group_and_plural(&self) -> (&str, &str) {
        let parts: Vec<&str> = self.path.split('/').skip(1).collect();
        match parts[..] {
            ["api", "v1", plural] => ("", plural),
            ["apis", group, _, plural] => (group, plural),
            _ => panic!("{}", self.path),
        }
    }

    /// When the reply was sent.
    fn date(&self) -> i64 {
        rfc2822::parse(&self.date).expect("a date").timestamp().as_second()
    }
}

fn lines() -> Vec<Line> {
    let mut text = String::new();
    GzDecoder::new(RECORDED).read_to_string(&mut text).expect("it is gzip");
    text.lines().map(|line| serde_json::from_str(line).expect("a line")).collect()
}

/// Paths of versions in which a kube-apiserver 1.36 does not store, with those in which it does. It prints what it has in
/// memory, whatever the version of the request; a row here is printed from the stored version.
const STORED: [(&str, &str); 23] = [
    ("/apis/events.k8s.io/v1/events", "/api/v1/events"),
    ("/apis/autoscaling/v1/horizontalpodautoscalers", "/apis/autoscaling/v2/horizontalpodautoscalers"),
    ("/apis/networking.k8s.io/v1beta1/ipaddresses", "/apis/networking.k8s.io/v1/ipaddresses"),
    ("/apis/networking.k8s.io/v1beta1/servicecidrs", "/apis/networking.k8s.io/v1/servicecidrs"),
    (
        "/apis/storage.k8s.io/v1beta1/volumeattributesclasses",
        "/apis/storage.k8s.io/v1/volumeattributesclasses",
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
        "/apis/admissionregistration.k8s.io/v1beta1/mutatingadmissionpolicies",
    ),
    (
        "/apis/admissionregistration.k8s.io/v1alpha1/mutatingadmissionpolicies",
        "/apis/admissionregistration.k8s.io/v1beta1/mutatingadmissionpolicies",
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
        "/apis/admissionregistration.k8s.io/v1beta1/mutatingadmissionpolicybindings",
    ),
    (
        "/apis/admissionregistration.k8s.io/v1alpha1/mutatingadmissionpolicybindings",
        "/apis/admissionregistration.k8s.io/v1beta1/mutatingadmissionpolicybindings",
    ),
    (
        "/apis/coordination.k8s.io/v1alpha2/leasecandidates",
        "/apis/coordination.k8s.io/v1beta1/leasecandidates",
    ),
    ("/apis/resource.k8s.io/v1beta2/deviceclasses", "/apis/resource.k8s.io/v1/deviceclasses"),
    ("/apis/resource.k8s.io/v1beta1/deviceclasses", "/apis/resource.k8s.io/v1/deviceclasses"),
    ("/apis/resource.k8s.io/v1beta2/resourceclaims", "/apis/resource.k8s.io/v1/resourceclaims"),
    ("/apis/resource.k8s.io/v1beta1/resourceclaims", "/apis/resource.k8s.io/v1/resourceclaims"),
    (
        "/apis/resource.k8s.io/v1beta2/resourceclaimtemplates",
        "/apis/resource.k8s.io/v1/resourceclaimtemplates",
    ),
    (
        "/apis/resource.k8s.io/v1beta1/resourceclaimtemplates",
        "/apis/resource.k8s.io/v1/resourceclaimtemplates",
    ),
    ("/apis/resource.k8s.io/v1beta2/resourceslices", "/apis/resource.k8s.io/v1/resourceslices"),
    ("/apis/resource.k8s.io/v1beta1/resourceslices", "/apis/resource.k8s.io/v1/resourceslices"),
    ("/apis/resource.k8s.io/v1beta2/devicetaintrules", "/apis/resource.k8s.io/v1alpha3/devicetaintrules"),
    ("/apis/empties.example.com/v2/widgets", "/apis/empties.example.com/v1/widgets"),
    ("/apis/minimal.example.com/v2/widgets", "/apis/minimal.example.com/v1/widgets"),
    ("/apis/rich.example.com/v1beta1/widgets", "/apis/rich.example.com/v1/widgets"),
    ("/apis/status.example.com/v2/widgets", "/apis/status.example.com/v1/widgets"),
];
/// Tables list these by precedence, and the recording has the objects in the order of their names.
const FLOW_SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// What prints a line: a built-in printer, or the columns of the definition that was recorded with it.
enum Prints {
    BuiltIn(Printer),
    Declared(PrinterColumns),
}

impl Prints {
    fn of(line: &Line, definitions: &[Row]) -> Self {
        let (group, plural) = line.group_and_plural();
        let name = format!("{plural}.{group}");
        let of = definitions.iter().find(|row| text(&row.object, "/metadata/name") == name);
        let Some(definition) = of else { return Self::BuiltIn(Printer::builtin(group, plural)) };
        let version = line.path.split('/').nth(3).expect("a version");
        let (columns, invalid) = PrinterColumns::of_version(&definition.object["spec"], version);
        assert_eq!(invalid, None, "{}", line.path);
        Self::Declared(columns)
    }

    /// The columns without their descriptions, which are not recorded.
    fn columns(&self) -> Value {
        let mut out = Vec::new();
        match self {
            Self::BuiltIn(printer) => serde_json::to_writer(&mut out, printer.columns()).expect("JSON"),
            Self::Declared(columns) => columns.append_definitions(&mut out),
        }
        let mut columns: Vec<serde_json::Map<String, Value>> = serde_json::from_slice(&out).expect("JSON");
        for column in &mut columns {
            assert!(column.remove("description").is_some_and(|text| text != ""));
        }
        json!(columns)
    }

    fn cells(&self, object: &Value, now: i64) -> Value {
        let mut out = vec![b'['];
        match self {
            Self::BuiltIn(printer) => printer.print(object, &mut Cells::new(&mut out), now),
            Self::Declared(columns) => columns.print(object, &mut Cells::new(&mut out), now),
        }
        out.push(b']');
        serde_json::from_slice(&out).expect("cells are JSON")
    }
}

/// Ages too: they are whole seconds, and no second ended between a row and the `Date` of its reply.
#[test]
fn columns_and_cells_are_as_recorded() {
    let lines = lines();
    let by_path: HashMap<&str, &Line> = lines.iter().map(|line| (line.path.as_str(), line)).collect();
    let definitions = &by_path[CRDS].rows;
    let (mut rows, mut cells) = (0, 0);
    for line in &lines {
        let prints = Prints::of(line, definitions);
        assert_eq!(prints.columns(), line.column_definitions, "{}", line.path);
        let stored =
            STORED.iter().find(|(path, _)| *path == line.path).map_or(&*line.path, |(_, stored)| stored);
        let uid = |row: &Row| row.object["metadata"]["uid"].clone();
        let stored: HashMap<String, &Row> =
            by_path[stored].rows.iter().map(|row| (uid(row).to_string(), row)).collect();
        for row in &line.rows {
            let object = if line.path == FLOW_SCHEMAS {
                let named = |other: &&Row| row.cells[0] == text(&other.object, "/metadata/name");
                &line.rows.iter().find(named).expect("an object of that name").object
            } else {
                &stored[&uid(row).to_string()].object
            };
            assert_eq!(prints.cells(object, line.date()), row.cells, "{}", line.path);
            rows += 1;
            cells += row.cells.as_array().map_or(0, Vec::len);
        }
    }
    assert_eq!((lines.len(), rows, cells), (89, 446, 2145));
}

/// Every resource is compared, except jobs and two custom resources without objects.
#[test]
fn all_resources_but_these_have_recorded_rows() {
    let lines = lines();
    let without: Vec<&str> =
        lines.iter().filter(|line| line.rows.is_empty()).map(|line| line.path.as_str()).collect();
    assert_eq!(
        without,
        [
            "/apis/batch/v1/jobs",
            "/apis/empties.example.com/v2/widgets",
            "/apis/empties.example.com/v1/widgets",
            "/apis/status.example.com/v2/widgets",
            "/apis/status.example.com/v1/widgets",
        ]
    );
}

/// What a protobuf value is printed from is the JSON that we make of it.
#[test]
fn rows_of_stored_protobuf_are_those_of_the_recorded_json() {
    let stored = stored();
    for line in &stored {
        let group = line.api_version.split_once('/').map_or("", |(group, _)| group);
        let printer = Prints::BuiltIn(Printer::builtin(group, &line.resource));
        let row = |json: &str| printer.cells(&serde_json::from_str(json).expect("JSON"), 1_800_000_000);
        assert_eq!(row(&line.made_json()), row(&line.json()), "{} {}", line.kind, line.name);
    }
    assert_eq!(stored.len(), 266);
}
