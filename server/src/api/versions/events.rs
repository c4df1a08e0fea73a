//! events.k8s.io/v1 of core/v1 Event: the same object under other names.

use serde_json::{Map, Value};

/// Members by their name in core/v1 and in events.k8s.io/v1, where the two differ.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

pub(super) fn new_of_core(members: Map<String, Value>) -> Result<Map<String, Value>, String> {
    let name = |name: String| match NAMES.iter().find(|(core, _)| *core == name) {
        Some((_, new)) => (*new).to_owned(),
        None => name,
    };
    Ok(members.into_iter().map(|(member, value)| (name(member), value)).collect())
}
