//! Patches: merge patches compared with a direct implementation of RFC 7386, strategic ones with the same if they have
//! no directive and no list; for those with lists, that they end.

use revcast::api::merge::{self, Type};
use revcast::api::resources::Registry;
use revcast::serve::strategic;
use serde_json::{Map, Value};

/// An object, a line end, a patch; both are JSON.
pub(crate) fn run(data: &[u8]) {
    let Some(at) = data.iter().position(|byte| *byte == b'\n') else { return };
    let (Ok(Value::Object(object)), Ok(Value::Object(patch))) =
        (serde_json::from_slice(&data[..at]), serde_json::from_slice(&data[at + 1..]))
    else {
        return;
    };
    let expected = slow(&Value::Object(object.clone()), &Value::Object(patch.clone()));
    let mut merged = Value::Object(object.clone());
    json_patch::merge(&mut merged, &Value::Object(patch.clone()));
    assert_eq!(merged, expected, "a merge patch");
    if is_plain(&object) && is_plain(&patch) {
        let mut merged = object.clone();
        strategic::merge(&mut merged, patch.clone(), &Type::COMMON).expect("there is nothing to refuse");
        assert_eq!(Value::Object(merged), expected, "a strategic patch");
    }
    let registry = Registry::builtin();
    let pod = registry.iter().find(|resource| resource.kind == "Pod").expect("pods");
    let mut merged = object;
    if strategic::merge(&mut merged, patch.clone(), merge::of(pod)).is_ok() {
        // No directive of a patch is left in the object, unless it was there before.
        let text = Value::Object(merged).to_string();
        if !data[..at].windows(6).any(|window| window == b"$patch") {
            assert!(!text.contains("\"$patch\":"), "{text}");
        }
    }
}

/// RFC 7386, section 2, literally.
fn slow(target: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut result = target.as_object().cloned().unwrap_or_default();
    for (name, value) in patch {
        if value.is_null() {
            result.remove(name);
        } else {
            let old = result.get(name).cloned().unwrap_or(Value::Null);
            result.insert(name.clone(), slow(&old, value));
        }
    }
    Value::Object(result)
}

/// Whether it contains neither a list nor a directive.
fn is_plain(members: &Map<String, Value>) -> bool {
    members.iter().all(|(name, value)| {
        !name.starts_with('$')
            && match value {
                Value::Array(_) => false,
                Value::Object(inner) => is_plain(inner),
                _ => true,
            }
    })
}
