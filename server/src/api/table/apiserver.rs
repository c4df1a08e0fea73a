//! Rows of what configures the API server itself.

use serde_json::Value;

use super::cells::{Cells, NONE, UNSET, at, list, number, or, present, some_of, text, text_if_set};

pub(super) fn api_service(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let service = if present(object, "/spec/service") {
        format!("{}/{}", text(object, "/spec/service/namespace"), text(object, "/spec/service/name"))
    } else {
        "Local".to_owned()
    };
    let found = list(object, "/status/conditions").iter().find(|c| text(c, "/type") == "Available");
    let available = match found.map(|condition| (text(condition, "/status"), text(condition, "/reason"))) {
        Some((status @ "True", _) | (status, "")) => status.to_owned(),
        Some((status, reason)) => format!("{status} ({reason})"),
        None => "Unknown".to_owned(),
    };
    cells.name(object);
    cells.text(&service);
    cells.text(&available);
    cells.age(object, now);
}

pub(super) fn flow_schema(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let method = at(object, "/spec/distinguisherMethod").filter(|method| !method.is_null());
    let dangling = list(object, "/status/conditions").iter().find(|c| text(c, "/type") == "Dangling");
    let precedence = match number(object, "/spec/matchingPrecedence") {
        0 => 1000,
        given => given,
    };
    cells.name(object);
    cells.text(text(object, "/spec/priorityLevelConfiguration/name"));
    cells.number(precedence);
    cells.text(method.map_or(NONE, |method| text(method, "/type")));
    cells.age(object, now);
    cells.text(dangling.map_or("?", |condition| text(condition, "/status")));
}

pub(super) fn priority_level(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let limited = at(object, "/spec/limited").filter(|limited| limited.is_object());
    let queuing = limited.and_then(|limited| at(limited, "/limitResponse/queuing"));
    let queuing = queuing.filter(|queuing| queuing.is_object());
    cells.name(object);
    cells.text(text(object, "/spec/type"));
    match limited {
        Some(limited) => {
            let shares = at(limited, "/nominalConcurrencyShares").and_then(Value::as_i64);
            cells.number(shares.unwrap_or(30));
        }
        None => cells.text(NONE),
    }
    for (member, otherwise) in [("/queues", 64), ("/handSize", 8), ("/queueLengthLimit", 50)] {
        match queuing.map(|queuing| number(queuing, member)) {
            Some(0) => cells.number(otherwise),
            Some(given) => cells.number(given),
            None => cells.text(NONE),
        }
    }
    cells.age(object, now);
}

pub(super) fn storage_version(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let versions = list(object, "/status/storageVersions");
    let shown = versions
        .iter()
        .map(|server| format!("{}={}", text(server, "/apiServerID"), text(server, "/encodingVersion")));
    cells.name(object);
    cells.text(text_if_set(object, "/status/commonEncodingVersion", UNSET));
    cells.text(or(&some_of(shown, versions.len(), 3, ","), UNSET));
    cells.age(object, now);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::api::printer::Printer;
    use crate::api::table::tests::printed;

    #[test]
    fn what_the_recording_has_no_example_of() {
        let cases = [
            (
                Printer::ApiServices,
                json!({ "status": {"conditions":[{"type":"Available","status":"False"}]} }),
                json!(["x", "Local", "False", "2d1h"]),
            ),
            (Printer::FlowSchemas, json!({}), json!(["x", "", 1000, "<none>", "2d1h", "?"])),
            (
                Printer::PriorityLevels,
                json!({ "spec": {"type":"Limited","limited":{"nominalConcurrencyShares":0,
                    "limitResponse":{"queuing":{"handSize":3}}}} }),
                json!(["x", "Limited", 0, 64, 3, 50, "2d1h"]),
            ),
            (
                Printer::PriorityLevels,
                json!({ "spec": {"type":"Limited","limited":{}} }),
                json!(["x", "Limited", 30, "<none>", "<none>", "<none>", "2d1h"]),
            ),
            (
                Printer::StorageVersions,
                json!({ "status": {"commonEncodingVersion":"v1","storageVersions":[
                    {"apiServerID":"a","encodingVersion":"v1"},{"apiServerID":"b","encodingVersion":"v1"},
                    {"apiServerID":"c","encodingVersion":"v1"},{"apiServerID":"d","encodingVersion":"v1"}]} }),
                json!(["x", "v1", "a=v1,b=v1,c=v1 + 1 more...", "2d1h"]),
            ),
        ];
        for (printer, object, row) in cases {
            assert_eq!(printed(printer, &object), row, "{printer:?}");
        }
    }
}
