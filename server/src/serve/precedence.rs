//! The order of FlowSchemas in a Table.
//!
//! A kube-apiserver prints the cells of a list of FlowSchemas by precedence, and puts the objects beside them in the order of
//! the list, so that a row can have the cells of one and the object of another (recording 35). The same is shown here.

use std::sync::Arc;

use revcast_engine::Object;
use serde::Deserialize;

/// The precedence of one that says nothing (Kubernetes `pkg/apis/flowcontrol/v1/defaults.go`).
const DEFAULT: i64 = 1000;
/// The longest list that is ordered: it is held while it is sent.
const LIST_MAX: usize = 4096;

/// The objects by precedence, then by name; `None`: there are too many.
pub(super) fn by_precedence<'o>(objects: impl Iterator<Item = &'o Arc<Object>>) -> Option<Vec<Arc<Object>>> {
    let mut ordered = Vec::new();
    for object in objects {
        if ordered.len() == LIST_MAX {
            return None;
        }
        ordered.push((precedence(object), Arc::clone(object)));
    }
    // Stable: the list is in the order of the names.
    ordered.sort_by_key(|(precedence, _)| *precedence);
    Some(ordered.into_iter().map(|(_, object)| object).collect())
}

fn precedence(object: &Object) -> i64 {
    #[derive(Deserialize)]
    struct Top {
        spec: Spec,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        #[serde(default)]
        matching_precedence: i64,
    }
    let json = object.value().json().unwrap_or_default();
    let found = serde_json::from_slice(&json).map_or(0, |Top { spec }| spec.matching_precedence);
    if found == 0 { DEFAULT } else { found }
}
