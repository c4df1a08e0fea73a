//! events.k8s.io/v1 of core/v1 Event, and back: the same object under other names.

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

type Members = Map<String, Value>;

pub(super) fn new_of_core(members: Members) -> Result<Members, String> {
    Ok(renamed(members, |(core, new)| (core, new)))
}

pub(super) fn core_of_new(members: Members) -> Result<Members, String> {
    Ok(renamed(members, |(core, new)| (new, core)))
}

fn renamed(
    members: Members,
    direction: fn((&'static str, &'static str)) -> (&'static str, &'static str),
) -> Members {
    let name = |name: String| {
        let found = NAMES.iter().map(|names| direction(*names)).find(|(from, _)| *from == name);
        found.map_or(name, |(_, to)| to.to_owned())
    };
    members.into_iter().map(|(member, value)| (name(member), value)).collect()
}
