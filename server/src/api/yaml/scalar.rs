//! The meaning of a YAML scalar: the rules of `sigs.k8s.io/yaml` (its `goyaml.v2/resolve.go`), which are YAML 1.1's
//! with exceptions.
//!
//! Owns the spellings of null, booleans and numbers, and the text that a key becomes. It never reads a collection.

use granit_parser::Tag;
use serde_json::{Number, Value};

use super::YamlError;
use crate::http::shown;

/// Without a tag, the text decides.
pub(super) fn resolve(text: &str, plain: bool, tag: Option<&Tag>) -> Result<Value, YamlError> {
    let Some(tag) = tag else {
        return if plain { implicit(text) } else { Ok(Value::String(text.to_owned())) };
    };
    let wrong = |what: &str| Err(YamlError::Scalar(format!("cannot decode `{}` as a !!{what}", shown(text))));
    match tag.core_suffix() {
        Some("str") => Ok(Value::String(text.to_owned())),
        Some(what @ ("null" | "bool")) => {
            let value = implicit(text)?;
            let fits = if what == "null" { value.is_null() } else { value.is_boolean() };
            if fits { Ok(value) } else { wrong(what) }
        }
        Some(what @ "int") => match number(text) {
            Some(number) if !number.is_f64() => Ok(Value::Number(number)),
            _ => wrong(what),
        },
        Some(what @ "float") => match number(text) {
            Some(number) => Ok(Value::Number(number)),
            None => wrong(what),
        },
        _ if tag.suffix_in_namespace("tag:yaml.org,2002:").as_deref() == Some("binary") => {
            Err(YamlError::Scalar("!!binary is not read: send the base64 text itself".to_owned()))
        }
        // A custom tag, or !!timestamp: the text as it is.
        _ => Ok(Value::String(text.to_owned())),
    }
}

/// A plain scalar.
fn implicit(text: &str) -> Result<Value, YamlError> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf"
        | "-.Inf" | "-.INF" => return Err(YamlError::Scalar(format!("JSON has no number {text}"))),
        text => match number(text) {
            Some(number) => Value::Number(number),
            None => Value::String(text.to_owned()),
        },
    })
}

/// Integers in every base that Go knows, `_` between digits; floats in decimal.
fn number(text: &str) -> Option<Number> {
    let first = text.bytes().next()?;
    if first == b'.' {
        return finite(text);
    }
    if !(first.is_ascii_digit() || matches!(first, b'+' | b'-')) {
        return None;
    }
    let plain = text.replace('_', "");
    integer(&plain).or_else(|| if is_decimal(&plain) { finite(&plain) } else { None })
}

fn integer(plain: &str) -> Option<Number> {
    let (negative, digits) = match plain.as_bytes().first()? {
        b'-' => (true, &plain[1..]),
        b'+' => (false, &plain[1..]),
        _ => (false, plain),
    };
    let lower = digits.to_ascii_lowercase();
    let (digits, radix) = match lower.as_bytes() {
        [b'0', b'x', ..] => (&lower[2..], 16),
        [b'0', b'o', ..] => (&lower[2..], 8),
        [b'0', b'b', ..] => (&lower[2..], 2),
        [b'0', _, ..] => (&lower[1..], 8),
        _ => (lower.as_str(), 10),
    };
    // Rust would accept another sign.
    if !digits.bytes().next()?.is_ascii_alphanumeric() {
        return None;
    }
    let amount = u64::from_str_radix(digits, radix).ok()?;
    if !negative {
        return Some(amount.into());
    }
    0_i64.checked_sub_unsigned(amount).map(Number::from)
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_decimal(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    if !exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))) {
        return false;
    }
    match mantissa.split_once('.') {
        None => digits(mantissa),
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && (fraction.is_empty() || digits(fraction)),
    }
}

/// A float; one without a fraction becomes an integer, as in Go.
fn finite(text: &str) -> Option<Number> {
    let float: f64 = text.parse().ok()?;
    // 2^53: every integer up to it is a float.
    if float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0 {
        #[allow(clippy::cast_possible_truncation)] // it is whole and fits
        return Some((float as i64).into());
    }
    Number::from_f64(float)
}

/// The text of a key; `None` when it is null or a collection.
pub(super) fn key(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
