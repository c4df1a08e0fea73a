//! resource.k8s.io/v1beta1 of v1 and v1beta2, and back: a device has its properties in `basic`, and a request has what v1 puts
//! into `exactly`.

use serde_json::{Map, Value, json};

type Members = Map<String, Value>;

/// What a request has besides its name, its alternatives and `exactly`.
const NOT_EXACT: [&str; 2] = ["name", "firstAvailable"];

pub(super) fn old_slice(mut members: Members) -> Result<Members, String> {
    each(&mut members, "/spec/devices", |device| {
        let name = device.shift_remove("name");
        let basic = Value::Object(std::mem::take(device));
        device.extend(name.map(|name| ("name".to_owned(), name)));
        device.insert("basic".to_owned(), basic);
    })?;
    Ok(members)
}

pub(super) fn new_slice(mut members: Members) -> Result<Members, String> {
    each(&mut members, "/spec/devices", |device| {
        if let Some(Value::Object(basic)) = device.shift_remove("basic") {
            device.extend(basic);
        }
    })?;
    Ok(members)
}

pub(super) fn old_claim(members: Members) -> Result<Members, String> {
    requests(members, "/spec/devices/requests", flat)
}

pub(super) fn new_claim(members: Members) -> Result<Members, String> {
    requests(members, "/spec/devices/requests", nested)
}

pub(super) fn old_template(members: Members) -> Result<Members, String> {
    requests(members, "/spec/spec/devices/requests", flat)
}

pub(super) fn new_template(members: Members) -> Result<Members, String> {
    requests(members, "/spec/spec/devices/requests", nested)
}

fn requests(mut members: Members, at: &str, change: fn(&mut Members)) -> Result<Members, String> {
    each(&mut members, at, change)?;
    Ok(members)
}

fn flat(request: &mut Members) {
    if let Some(Value::Object(exactly)) = request.shift_remove("exactly") {
        request.extend(exactly);
    }
}

fn nested(request: &mut Members) {
    let (own, exactly): (Members, Members) =
        std::mem::take(request).into_iter().partition(|(name, _)| NOT_EXACT.contains(&name.as_str()));
    *request = own;
    // The name of a class is always written; without alternatives, an empty one is what was meant.
    let is_empty = exactly.iter().all(|(_, value)| *value == json!(""));
    if !is_empty || !request.contains_key("firstAvailable") {
        request.insert("exactly".to_owned(), Value::Object(exactly));
    }
}

/// Changes each object of a list, which may be missing.
fn each(members: &mut Members, at: &str, change: impl Fn(&mut Members)) -> Result<(), String> {
    let mut names = at[1..].split('/');
    let first = names.next().and_then(|name| members.get_mut(name));
    let Some(mut here) = first else { return Ok(()) };
    for name in names {
        let inner = here.as_object_mut().ok_or_else(|| format!("{at} is not where it should be"))?;
        let Some(next) = inner.get_mut(name) else { return Ok(()) };
        here = next;
    }
    match here {
        Value::Array(items) => {
            for item in items {
                change(item.as_object_mut().ok_or_else(|| format!("{at} has something else than objects"))?);
            }
            Ok(())
        }
        Value::Null => Ok(()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            Err(format!("{at} is not a list"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Members {
        let Value::Object(members) = value else { panic!("not an object: {value}") };
        members
    }

    #[test]
    fn requests_have_what_is_exact_inside_or_beside() {
        let new = json!({"spec": {"devices": {"requests": [
            {"name": "a", "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 2}},
            {"name": "b", "firstAvailable": [{"name": "x", "deviceClassName": "d"}]},
        ]}}});
        let old = json!({"spec": {"devices": {"requests": [
            {"name": "a", "deviceClassName": "c", "allocationMode": "ExactCount", "count": 2},
            {"name": "b", "firstAvailable": [{"name": "x", "deviceClassName": "d"}]},
        ]}}});
        assert_eq!(old_claim(object(new.clone())), Ok(object(old.clone())));
        assert_eq!(new_claim(object(old.clone())), Ok(object(new.clone())));
        let template = |claim: &Value| object(json!({"spec": claim}));
        assert_eq!(old_template(template(&new)), Ok(template(&old)));
        assert_eq!(new_template(template(&old)), Ok(template(&new)));
        // As v1beta1 is stored: the name of a class is there though empty.
        let stored = json!({"spec": {"devices": {"requests": [{"name": "b", "deviceClassName": "", "firstAvailable": []}]}}});
        let read = new_claim(object(stored)).expect("a claim");
        assert_eq!(read["spec"]["devices"]["requests"], json!([{"name": "b", "firstAvailable": []}]));
    }

    #[test]
    fn devices_have_their_properties_inside_or_beside() {
        let new =
            json!({"spec": {"driver": "d", "devices": [{"name": "a", "allNodes": true}, {"name": "b"}]}});
        let old = json!({"spec": {"driver": "d", "devices": [{"name": "a", "basic": {"allNodes": true}}, {"name": "b", "basic": {}}]}});
        assert_eq!(old_slice(object(new.clone())), Ok(object(old.clone())));
        assert_eq!(new_slice(object(old)), Ok(object(new)));
        assert_eq!(old_slice(object(json!({"spec": {}}))), Ok(object(json!({"spec": {}}))));
        for wrong in [json!({"spec": 1}), json!({"spec": {"devices": 1}}), json!({"spec": {"devices": [1]}})]
        {
            assert!(old_slice(object(wrong.clone())).is_err(), "{wrong}");
        }
    }
}
