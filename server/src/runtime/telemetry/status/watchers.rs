//! Open watches: how many of each resource are in which phase, and those that lag most. As counted within the last second or two,
//! because the document is asked for.

use std::collections::BTreeMap;

use revcast_engine::key::ResourceId;
use revcast_engine::limits::CENSUS_SLOWEST;
use revcast_engine::{PhaseCounts, PhaseName};
use serde_json::{Value, json};

use crate::api::resources::Registry;
use crate::runtime::shared::Shared;

const fn name(phase: PhaseName) -> &'static str {
    match phase {
        PhaseName::Initial => "initial",
        PhaseName::CatchingUp => "catchingUp",
        PhaseName::Live => "live",
        PhaseName::Parked => "parked",
        PhaseName::Draining => "draining",
    }
}

/// As rules name it.
fn resource_name(registry: &Registry, id: ResourceId) -> Option<String> {
    let row = registry.get(id)?;
    Some(if row.group.is_empty() { row.plural.clone() } else { format!("{}/{}", row.group, row.plural) })
}

pub(super) fn render(shared: &Shared) -> Value {
    let catalog = shared.app.catalog();
    let counted: Vec<_> = shared.handles.0.iter().map(|handle| handle.counted.load()).collect();
    let mut sums: BTreeMap<ResourceId, PhaseCounts> = BTreeMap::new();
    let mut ranges = PhaseCounts::default();
    for shard in &counted {
        ranges = ranges.plus(&shard.census.ranges());
        for (id, counts) in shard.census.resources() {
            let sum = sums.entry(id).or_default();
            *sum = sum.plus(&counts);
        }
    }
    let row = |resource: Option<String>, counts: &PhaseCounts| {
        let mut row = serde_json::Map::new();
        row.insert("resource".to_owned(), resource.into());
        for phase in PhaseName::ALL {
            row.insert(name(phase).to_owned(), counts.of(phase).into());
        }
        Value::Object(row)
    };
    let mut by_resource: Vec<Value> =
        sums.iter().map(|(id, counts)| row(resource_name(&catalog.registry, *id), counts)).collect();
    if ranges.total() > 0 {
        by_resource.push(row(None, &ranges));
    }
    let mut slowest: Vec<_> = counted
        .iter()
        .enumerate()
        .flat_map(|(shard, counted)| counted.slowest.iter().map(move |(slow, client)| (shard, slow, client)))
        .collect();
    slowest.sort_by_key(|(_, slow, _)| std::cmp::Reverse((slow.events, slow.time)));
    slowest.truncate(CENSUS_SLOWEST);
    let slowest = slowest.into_iter().map(|(shard, slow, client)| {
        json!({
            "shard": shard,
            "client": client.map(|address| address.to_string()),
            "resource": slow.resource.and_then(|id| resource_name(&catalog.registry, id)),
            "namespace": slow.namespace,
            "phase": name(slow.phase),
            "blocked": slow.is_blocked,
            "lagEvents": slow.events,
            "lagSeconds": slow.time.as_secs_f64(),
            "windowLeftEvents": slow.events_left,
        })
    });
    json!({ "byResource": by_resource, "slowest": slowest.collect::<Vec<_>>() })
}
