//! Rows of what admits writes: webhooks, policies and their bindings.

use serde_json::Value;

use super::cells::{Cells, UNSET, at, list, text};

/// Configurations of webhooks, mutating or validating.
pub(super) fn webhooks(object: &Value, cells: &mut Cells<'_>, now: i64) {
    cells.name(object);
    cells.count(list(object, "/webhooks").len());
    cells.age(object, now);
}

pub(super) fn mutating_policy(object: &Value, cells: &mut Cells<'_>, now: i64) {
    policy(object, list(object, "/spec/mutations").len(), cells, now);
}

pub(super) fn validating_policy(object: &Value, cells: &mut Cells<'_>, now: i64) {
    policy(object, list(object, "/spec/validations").len(), cells, now);
}

fn policy(object: &Value, rules: usize, cells: &mut Cells<'_>, now: i64) {
    let kind = at(object, "/spec/paramKind").filter(|kind| !kind.is_null());
    let kind = kind.map(|kind| format!("{}/{}", text(kind, "/apiVersion"), text(kind, "/kind")));
    cells.name(object);
    cells.count(rules);
    cells.text(kind.as_deref().unwrap_or(UNSET));
    cells.age(object, now);
}

/// Bindings of mutating and of validating policies.
pub(super) fn policy_binding(object: &Value, cells: &mut Cells<'_>, now: i64) {
    let parameters = at(object, "/spec/paramRef").and_then(|reference| match text(reference, "/name") {
        "" => at(reference, "/selector").filter(|given| given.is_object()).map(selector_in_go),
        name => Some(match text(reference, "/namespace") {
            "" => format!("*/{name}"),
            namespace => format!("{namespace}/{name}"),
        }),
    });
    cells.name(object);
    cells.text(text(object, "/spec/policyName"));
    cells.text(parameters.as_deref().unwrap_or(UNSET));
    cells.age(object, now);
}

/// A `LabelSelector` as its Go type writes itself, which is how these kinds show it.
fn selector_in_go(selector: &Value) -> String {
    let labels = at(selector, "/matchLabels").and_then(Value::as_object);
    let mut labels: Vec<(&str, &str)> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
        .collect();
    labels.sort_unstable();
    let labels: String = labels.iter().map(|(key, value)| format!("{key}: {value},")).collect();
    let expressions: String = list(selector, "/matchExpressions")
        .iter()
        .map(|expression| {
            let values: Vec<&str> = list(expression, "/values").iter().filter_map(Value::as_str).collect();
            format!(
                "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
                text(expression, "/key"),
                text(expression, "/operator"),
                values.join(" "),
            )
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::api::printer::Printer;
    use crate::api::table::tests::printed;

    #[test]
    fn parameters_of_a_binding_have_a_name_or_a_selector() {
        let selector = json!({ "matchLabels": {"b":"2","a":"1"},
            "matchExpressions": [{"key":"k","operator":"In","values":["v","w"]}] });
        for (parameters, shown) in [
            (json!({ "name": "n" }), "*/n"),
            (json!({ "name": "n", "namespace": "m" }), "m/n"),
            (json!({}), "<unset>"),
            (json!(null), "<unset>"),
            (
                json!({ "selector": selector }),
                "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},\
                 MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:In,Values:[v w],},},}",
            ),
        ] {
            let binding = json!({ "spec": { "policyName": "p", "paramRef": parameters } });
            assert_eq!(printed(Printer::PolicyBindings, &binding), json!(["x", "p", shown, "2d1h"]));
        }
    }
}
