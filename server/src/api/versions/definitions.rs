//! apiextensions.k8s.io/v1 of v1beta1 CustomResourceDefinition: kube-apiserver stores the one and serves the other
//! (`pkg/apis/apiextensions/v1/conversion.go` of its apiextensions server, and the defaults of v1beta1).

use serde_json::{Map, Value, json};

type Members = Map<String, Value>;

pub(super) fn v1_of_v1beta1(mut members: Members) -> Result<Members, String> {
    let old = match members.get_mut("spec") {
        Some(Value::Object(spec)) => std::mem::take(spec),
        _ => return Err("it has no spec".to_owned()),
    };
    let spec = spec_of(old)?;
    let mut out = Members::new();
    out.extend(members.shift_remove("metadata").map(|metadata| ("metadata".to_owned(), metadata)));
    out.insert("spec".to_owned(), Value::Object(spec));
    members.shift_remove("spec");
    out.extend(members);
    Ok(out)
}

fn spec_of(mut old: Members) -> Result<Members, String> {
    let mut spec = Members::new();
    for name in ["group", "names"] {
        spec.extend(old.shift_remove(name).map(|value| (name.to_owned(), value)));
    }
    spec.insert("scope".to_owned(), old.shift_remove("scope").unwrap_or_else(|| json!("Namespaced")));
    let version = old.shift_remove("version");
    let versions = match (old.shift_remove("versions"), version) {
        (Some(Value::Array(versions)), _) if !versions.is_empty() => versions,
        (_, Some(name)) => vec![json!({"name": name, "served": true, "storage": true})],
        _ => return Err("it has no version".to_owned()),
    };
    // What stands beside the versions is for all of them.
    let mut common = Members::new();
    let schema = old.shift_remove("validation").map(|schema| ("schema".to_owned(), schema));
    common.extend(schema);
    for name in ["subresources", "additionalPrinterColumns", "selectableFields"] {
        common.extend(old.shift_remove(name).map(|value| (name.to_owned(), value)));
    }
    let versions: Option<Vec<Value>> = versions.iter().map(|version| version_of(version, &common)).collect();
    let versions = versions.ok_or("a version is not an object")?;
    spec.insert("versions".to_owned(), Value::Array(versions));
    spec.insert("conversion".to_owned(), conversion_of(old.shift_remove("conversion")));
    // v1beta1 has it unless it says otherwise; v1 says it only if it has it.
    if old.shift_remove("preserveUnknownFields") != Some(Value::Bool(false)) {
        spec.insert("preserveUnknownFields".to_owned(), Value::Bool(true));
    }
    Ok(spec)
}

/// A version, in the order of v1.
fn version_of(version: &Value, common: &Members) -> Option<Value> {
    let version = version.as_object()?;
    let mut out = Members::new();
    for name in ["name", "served", "storage", "deprecated", "deprecationWarning"] {
        out.extend(version.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    for name in ["schema", "subresources", "additionalPrinterColumns", "selectableFields"] {
        let Some(value) = common.get(name).or_else(|| version.get(name)) else { continue };
        let value = if name == "additionalPrinterColumns" { columns_of(value) } else { value.clone() };
        out.insert(name.to_owned(), value);
    }
    Some(Value::Object(out))
}

fn columns_of(columns: &Value) -> Value {
    let name = |name: &String| if name == "JSONPath" { "jsonPath".to_owned() } else { name.clone() };
    let column = |column: &Value| match column {
        Value::Object(members) => members.iter().map(|(of, value)| (name(of), value.clone())).collect(),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            other.clone()
        }
    };
    columns.as_array().into_iter().flatten().map(column).collect()
}

fn conversion_of(old: Option<Value>) -> Value {
    let Some(Value::Object(mut old)) = old else { return json!({"strategy": "None"}) };
    let mut out = Members::new();
    out.insert("strategy".to_owned(), old.shift_remove("strategy").unwrap_or_else(|| json!("None")));
    let mut webhook = Members::new();
    let client = old.shift_remove("webhookClientConfig").map(|client| ("clientConfig".to_owned(), client));
    webhook.extend(client);
    let reviews = old.shift_remove("conversionReviewVersions");
    if !webhook.is_empty() || reviews.is_some() {
        webhook.insert("conversionReviewVersions".to_owned(), reviews.unwrap_or(Value::Null));
        out.insert("webhook".to_owned(), Value::Object(webhook));
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(spec: Value) -> Result<Value, String> {
        let Value::Object(members) = json!({"spec": spec, "metadata": {}}) else { panic!("an object") };
        let out = v1_of_v1beta1(members)?;
        assert_eq!(out.keys().collect::<Vec<_>>(), ["metadata", "spec"]);
        Ok(out["spec"].clone())
    }

    /// What no recording has: an object of before 1.16, and one whose objects a webhook converts.
    #[test]
    fn old_definitions_have_a_form() {
        let old = json!({
            "group": "g", "version": "v1", "names": {"plural": "ps"}, "scope": "Cluster",
            "additionalPrinterColumns": [{"name": "N", "type": "string", "JSONPath": ".spec.n"}],
        });
        let new = json!({
            "group": "g", "names": {"plural": "ps"}, "scope": "Cluster",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "additionalPrinterColumns": [{"name": "N", "type": "string", "jsonPath": ".spec.n"}],
            }],
            "conversion": {"strategy": "None"},
            "preserveUnknownFields": true,
        });
        assert_eq!(converted(old), Ok(new));
        let hook = json!({
            "versions": [{"name": "v1", "served": true, "storage": true}], "preserveUnknownFields": false,
            "conversion": {"strategy": "Webhook", "webhookClientConfig": {"url": "https://x"}, "conversionReviewVersions": ["v1"]},
        });
        let new = converted(hook).expect("it has a form");
        let webhook = json!({"clientConfig": {"url": "https://x"}, "conversionReviewVersions": ["v1"]});
        assert_eq!(new["conversion"], json!({"strategy": "Webhook", "webhook": webhook}));
        assert_eq!(new.get("preserveUnknownFields"), None);
        assert!(converted(json!({})).is_err() && converted(json!({"versions": [1]})).is_err());
    }
}
