//! Rows of dynamic resource allocation (`resource.k8s.io`).

use serde_json::Value;

use super::age;
use super::cells::{Cells, NONE, list, number, present, text};

pub(super) fn claim(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let deleted = present(object, "/metadata/deletionTimestamp");
    let allocated = present(object, "/status/allocation");
    let reserved = allocated && !list(object, "/status/reservedFor").is_empty();
    let states = [
        (deleted, "deleted"),
        (!allocated && !deleted, "pending"),
        (allocated, "allocated"),
        (reserved, "reserved"),
    ];
    let states: Vec<&str> = states.iter().filter(|(is, _)| *is).map(|(_, state)| *state).collect();
    cells.name(object);
    cells.text(&states.join(","));
    cells.age(object, now);
}

pub(super) fn slice(object: &Value, cells: &mut Cells<'_>, now: i64) {
    cells.name(object);
    for member in ["/spec/nodeName", "/spec/driver", "/spec/pool/name"] {
        cells.text(text(object, member));
    }
    cells.age(object, now);
}

pub(super) fn taint_rule(object: &Value, cells: &mut Cells<'_>, now: i64) {
    cells.name(object);
    for member in ["/spec/taint/key", "/spec/taint/value", "/spec/taint/effect"] {
        cells.text(text(object, member));
    }
    cells.text(&age::since(text(object, "/spec/taint/timeAdded"), now));
    cells.age(object, now);
}

/// The sums over all pools, once the request is complete. Only requests that wait are recorded; the rest follows what the
/// columns say.
pub(super) fn pool_status_request(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let condition = |kind: &str| {
        let conditions = list(object, "/status/conditions").iter();
        conditions.into_iter().find(|c| text(c, "/type") == kind && text(c, "/status") == "True")
    };
    let (complete, failed) = (condition("Complete"), condition("Failed"));
    let pools = list(object, "/status/pools");
    cells.name(object);
    cells.text(text(object, "/spec/driver"));
    for member in ["/totalDevices", "/availableDevices", "/allocatedDevices", "/unavailableDevices"] {
        let sum = pools.iter().fold(0_i64, |sum, pool| sum.saturating_add(number(pool, member)));
        cells.text(&complete.map_or_else(|| "-".to_owned(), |_| sum.to_string()));
    }
    let errors = pools.iter().filter(|pool| !text(pool, "/validationError").is_empty()).count();
    cells.text(&complete.map_or_else(|| "-".to_owned(), |_| errors.to_string()));
    cells.number(number(object, "/status/poolCount"));
    cells.text(match (complete, failed) {
        (Some(_), _) => "Complete",
        (None, Some(_)) => "Failed",
        (None, None) => "Pending",
    });
    let ended = complete.or(failed).map(|condition| text(condition, "/lastTransitionTime"));
    cells.text(&ended.map_or_else(|| NONE.to_owned(), |time| age::since(time, now)));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::api::printer::Printer;
    use crate::api::table::tests::printed;

    #[test]
    fn a_claim_shows_how_far_it_is() {
        let state = |status| printed(Printer::ResourceClaims, &json!({ "status": status }))[1].clone();
        assert_eq!(state(json!({})), "pending");
        assert_eq!(state(json!({ "reservedFor": [{}] })), "pending");
        assert_eq!(state(json!({ "allocation": {} })), "allocated");
        assert_eq!(state(json!({ "allocation": {}, "reservedFor": [{}] })), "allocated,reserved");
    }

    #[test]
    fn a_complete_request_shows_sums() {
        let pool =
            |total| json!({ "totalDevices": total, "availableDevices": 1, "allocatedDevices": total - 1 });
        let request = json!({ "spec": {"driver":"d"}, "status": { "poolCount": 3,
            "pools": [pool(2), pool(3), {"validationError":"e"}],
            "conditions": [{"type":"Complete","status":"True","lastTransitionTime":"2026-11-21T05:55:00Z"}] } });
        assert_eq!(
            printed(Printer::ResourcePoolStatusRequests, &request),
            json!(["x", "d", "5", "2", "3", "0", "1", 3, "Complete", "5m"])
        );
    }
}
