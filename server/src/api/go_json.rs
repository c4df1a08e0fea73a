//! JSON as Go writes its maps: members in the order of their names, numbers in Go's form.
//!
//! Custom resources have no Go type: a kube-apiserver holds them as maps, and stores and serves them so (recording 30).

use serde_json::Value;

/// Appends a value. What Go escapes is not escaped here: the engine does it when the value is read.
pub fn push(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.as_str(), encoded(value)));
            push_object(out, members.collect());
        }
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                push(out, item);
            }
            out.push(b']');
        }
        Value::Number(of) => match of.as_f64().filter(|_| of.is_f64()) {
            Some(float) => out.extend_from_slice(number(float).as_bytes()),
            None => out.extend_from_slice(of.to_string().as_bytes()),
        },
        Value::Null | Value::Bool(_) | Value::String(_) => {
            out.extend_from_slice(value.to_string().as_bytes())
        }
    }
}

/// A value as text.
#[must_use]
pub fn encoded(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    push(&mut out, value);
    out
}

/// Appends an object of these members, each with its value in JSON.
pub fn push_object(out: &mut Vec<u8>, mut members: Vec<(&str, Vec<u8>)>) {
    members.sort_unstable_by_key(|(name, _)| *name);
    out.push(b'{');
    for (index, (name, value)) in members.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push(out, &Value::from(*name));
        out.push(b':');
        out.extend_from_slice(value);
    }
    out.push(b'}');
}

/// A number as Go writes it in JSON (`encoding/json` `floatEncoder`). Zero has no sign: Go reads back an integer.
#[must_use]
pub fn number(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let written = format!("{number:e}");
    let Some((digits, power)) = written.split_once('e') else { return written };
    match power.parse::<i32>() {
        Ok(power @ ..-6) => format!("{digits}e{power}"),
        Ok(power @ 21..) => format!("{digits}e+{power}"),
        Ok(_) | Err(_) => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_sorted_and_numbers_are_those_of_go() {
        let text = r#"{"z":[{"b":1,"a":null}],"B":1.0,"a":-0.0,"1":{"y":true,"x":"<\u2028"},"m":[1e21,1e20,0.1,0.000001,0.0000001,1.5,-7,9007199254740993,-2.5e30]}"#;
        let value: Value = serde_json::from_str(text).expect("JSON");
        let expected = "{\"1\":{\"x\":\"<\u{2028}\",\"y\":true},\"B\":1,\"a\":0,\"m\":[1e+21,100000000000000000000,0.1,0.000001,1e-7,1.5,-7,9007199254740993,-2.5e+30],\"z\":[{\"a\":null,\"b\":1}]}";
        assert_eq!(String::from_utf8_lossy(&encoded(&value)), expected);
    }
}
