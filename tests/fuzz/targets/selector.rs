//! Selectors: compared with a slow parser of the grammar that Kubernetes documents, and with slow matching.

use revcast_engine::attributes::{AttributeTexts, OwnAttributes};
use revcast_engine::resource::{Field, Resource};
use revcast_engine::selector::{FieldSelector, LabelSelector, REQUIREMENTS_MAX, TEXT_BYTES_MAX};

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    labels(text);
    fields(text);
}

/// The condition of one requirement on a label.
#[derive(Debug)]
enum Asks {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Above(i64),
    Below(i64),
}

fn labels(text: &str) {
    let parsed = LabelSelector::parse(text);
    let expected = slow_labels(text);
    assert_eq!(parsed.is_ok(), expected.is_some(), "{text:?}: {parsed:?}, {expected:?}");
    let (Ok(parsed), Some(expected)) = (parsed, expected) else { return };
    assert_eq!(parsed.is_everything(), expected.is_empty());
    // Objects without the labels, with each named value, and with others.
    let mut values: Vec<&str> = vec!["", "other", "0", "7", "9223372036854775807"];
    for (_, asks) in expected.iter().take(8) {
        if let Asks::In(some) | Asks::NotIn(some) = asks {
            values.extend(some.iter().take(8).map(String::as_str));
        }
    }
    let mut objects: Vec<Vec<(&str, &str)>> = vec![Vec::new()];
    for value in values {
        objects.push(expected.iter().map(|(key, _)| (&**key, value)).collect());
        objects.push(expected.iter().take(1).map(|(key, _)| (&**key, value)).collect());
    }
    for mut object in objects {
        object.sort_unstable();
        object.dedup_by_key(|(key, _)| *key);
        let labels = object.iter().map(|&(key, value)| (key.into(), value.into())).collect();
        let attributes = OwnAttributes::new(&AttributeTexts::new(labels, Vec::new()));
        let selected = expected.iter().all(|(key, asks)| {
            let value = object.iter().find(|(name, _)| name == key).map(|(_, value)| *value);
            let number = value.and_then(|value| value.parse::<i64>().ok());
            match asks {
                Asks::In(some) => value.is_some_and(|value| some.iter().any(|one| one == value)),
                Asks::NotIn(some) => !value.is_some_and(|value| some.iter().any(|one| one == value)),
                Asks::Exists => value.is_some(),
                Asks::Absent => value.is_none(),
                Asks::Above(bound) => number.is_some_and(|number| number > *bound),
                Asks::Below(bound) => number.is_some_and(|number| number < *bound),
            }
        });
        assert_eq!(parsed.matches(attributes.get()), selected, "{text:?} on {object:?}");
    }
}

/// Words and symbols. A NUL ends the word or symbol directly before it, otherwise the text.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut chars = text.chars().peekable();
    loop {
        while chars.peek().is_some_and(|c| " \t\r\n".contains(*c)) {
            chars.next();
        }
        let Some(first) = chars.next() else { return tokens };
        if first == '\0' {
            return tokens;
        }
        let mut token = String::from(first);
        if "=!".contains(first) && chars.peek() == Some(&'=') {
            token.push('=');
            chars.next();
        } else if !"=!(),><".contains(first) {
            while let Some(c) = chars.peek().copied().filter(|c| !"\0 \t\r\n=!(),><".contains(*c)) {
                token.push(c);
                chars.next();
            }
        }
        if chars.peek() == Some(&'\0') {
            chars.next();
        }
        tokens.push(token);
    }
}

fn is_word(token: &str) -> bool {
    !["=", "==", "!=", "!", "(", ")", ",", ">", "<"].contains(&token)
}

/// Keys and their conditions; `None`: not a selector.
fn slow_labels(text: &str) -> Option<Vec<(String, Asks)>> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let tokens = tokens(text);
    let mut rest = &tokens[..];
    let mut all = Vec::new();
    while !rest.is_empty() {
        let negated = rest[0] == "!";
        if negated {
            rest = &rest[1..];
        }
        let (key, behind) = rest.split_first()?;
        if !is_word(key) || !is_key(key) {
            return None;
        }
        rest = behind;
        let asks = if negated {
            Asks::Absent
        } else if rest.first().is_none_or(|token| token == ",") {
            Asks::Exists
        } else {
            let operator = rest[0].as_str();
            rest = &rest[1..];
            match operator {
                "in" | "notin" => {
                    let close = rest.iter().position(|token| token == ")")?;
                    let set = set(&rest[..close])?;
                    rest = &rest[close + 1..];
                    if operator == "in" { Asks::In(set) } else { Asks::NotIn(set) }
                }
                "=" | "==" | "!=" | ">" | "<" => {
                    let value = match rest.first() {
                        Some(word) if is_word(word) => {
                            rest = &rest[1..];
                            word.clone()
                        }
                        Some(sign) if sign != "," => return None,
                        _ => String::new(),
                    };
                    if !is_value(&value) {
                        return None;
                    }
                    match operator {
                        "!=" => Asks::NotIn(vec![value]),
                        ">" => Asks::Above(value.parse().ok()?),
                        "<" => Asks::Below(value.parse().ok()?),
                        _ => Asks::In(vec![value]),
                    }
                }
                _ => return None,
            }
        };
        all.push((key.clone(), asks));
        match rest.split_first() {
            None => {}
            Some((comma, behind)) if comma == "," && !behind.is_empty() => rest = behind,
            Some(_) => return None,
        }
    }
    (all.len() <= REQUIREMENTS_MAX).then_some(all)
}

/// The text after `in`, without the closing bracket: an opening one, then words between commas, each of which may be
/// missing.
fn set(tokens: &[String]) -> Option<Vec<String>> {
    let (open, inner) = tokens.split_first()?;
    if open != "(" {
        return None;
    }
    let places: Vec<&[String]> = inner.split(|token| token == ",").collect();
    // After a comma that follows a word nothing is required; a list that begins or ends with an empty element contains
    // "".
    let mut values = Vec::new();
    for place in &places {
        match place {
            [] => values.push(String::new()),
            [word] if is_word(word) && is_value(word) => values.push(word.clone()),
            _ => return None,
        }
    }
    Some(values)
}

fn is_key(key: &str) -> bool {
    let parts: Vec<&str> = key.split('/').collect();
    match parts[..] {
        [name] => is_name(name),
        [prefix, name] => is_name(name) && is_domain(prefix),
        _ => false,
    }
}

fn is_value(value: &str) -> bool {
    value.is_empty() || is_name(value)
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric();
    name.len() <= 63
        && name.starts_with(plain)
        && name.ends_with(plain)
        && name.chars().all(|c| plain(c) || "-_.".contains(c))
}

fn is_domain(prefix: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    prefix.len() <= 253
        && prefix.split('.').all(|part| {
            part.starts_with(plain) && part.ends_with(plain) && part.chars().all(|c| plain(c) || c == '-')
        })
}

fn fields(text: &str) {
    let resource = Resource::new("v1", "Pod", true, vec![Field::at("spec.nodeName")]);
    let parsed = FieldSelector::parse(text, &resource);
    let expected = slow_fields(text, &resource);
    assert_eq!(parsed.is_ok(), expected.is_some(), "{text:?}: {parsed:?}, {expected:?}");
    let (Ok(parsed), Some(expected)) = (parsed, expected) else { return };
    let mut values: Vec<&str> = vec!["", "other"];
    values.extend(expected.iter().take(8).map(|(_, _, value)| &**value));
    for value in values {
        let fields = vec![value.into(); resource.fields().len()];
        let attributes = OwnAttributes::new(&AttributeTexts::new(Vec::new(), fields));
        let selected = expected.iter().all(|(_, equal, wanted)| (value == wanted) == *equal);
        assert_eq!(parsed.matches(attributes.get()), selected, "{text:?} on {value:?}");
    }
}

/// Label, whether it must be equal, value; `None`: not a selector of this resource.
fn slow_fields(text: &str, resource: &Resource) -> Option<Vec<(String, bool, String)>> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let mut terms = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let term = terms.last_mut().expect("never empty");
        match c {
            ',' => terms.push(String::new()),
            '\\' => {
                term.push(c);
                term.extend(chars.next());
            }
            other => term.push(other),
        }
    }
    terms.retain(|term| !term.is_empty());
    if terms.len() > REQUIREMENTS_MAX {
        return None;
    }
    terms
        .iter()
        .map(|term| {
            let at = term.find('=')?;
            let (label, value) = (&term[..at], &term[at + 1..]);
            let (label, equal, value) = match label.strip_suffix('!') {
                Some(label) => (label, false, value),
                None => (label, true, value.strip_prefix('=').unwrap_or(value)),
            };
            resource.field(label)?;
            let mut plain = String::new();
            let mut chars = value.chars();
            while let Some(c) = chars.next() {
                match c {
                    '=' => return None,
                    '\\' => plain.push(chars.next().filter(|c| "\\,=".contains(*c))?),
                    other => plain.push(other),
                }
            }
            Some((label.to_owned(), equal, plain))
        })
        .collect()
}
