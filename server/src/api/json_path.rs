//! The JSONPath of printer columns, as `k8s.io/client-go/util/jsonpath` reads it.
//!
//! Members (`.spec.size`, `['size']`, `\.` for a dot within a name), indexes and ranges (`[0]`, `[-1]`, `[1:3]`), `[*]`,
//! unions (`[0,2]`) and filters (`[?(@.type=="Ready")]`). Recursive descent (`..`) and `range` are read and find nothing:
//! Go finds members in a random order.

use std::cmp::Ordering;

use serde_json::Value;

/// Most values that a union finds: unions of unions would otherwise multiply.
const UNION_MAX: usize = 10_000;

/// A path that was read.
#[derive(Debug)]
pub(in crate::api) struct JsonPath(Vec<Step>);

/// The path is not a JSONPath.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::api) struct Invalid;

/// A step does not fit the object, or cannot be taken: there is no result.
#[derive(Clone, Copy, Debug)]
struct Unfit;

#[derive(Debug)]
enum Step {
    Member(String),
    Items(Range),
    All,
    Filter {
        left: Vec<Self>,
        test: Test,
    },
    Union(Vec<Vec<Self>>),
    /// A value that stands in the path, in filters.
    Literal(Value),
    /// It finds nothing.
    Unsupported,
}

#[derive(Debug)]
enum Test {
    Exists,
    Compare { operator: String, right: Vec<Step> },
}

/// The items of an array from one index to before another; negative ones count from the end.
#[derive(Clone, Copy, Debug)]
struct Range {
    from: Option<i64>,
    to: End,
    step: usize,
}

#[derive(Clone, Copy, Debug)]
enum End {
    /// One item.
    One,
    Last,
    At(i64),
}

impl JsonPath {
    pub(in crate::api) fn parse(text: &str) -> Result<Self, Invalid> {
        steps(text).map(Self)
    }

    /// The first value that the path finds.
    pub(in crate::api) fn first<'a>(&'a self, object: &'a Value) -> Option<&'a Value> {
        walk(&self.0, vec![object]).ok()?.first().copied()
    }
}

/// Whether a name ends before `c`.
const fn ends_name(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

fn steps(text: &str) -> Result<Vec<Step>, Invalid> {
    let mut made = Vec::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let after = &rest[next.len_utf8()..];
        rest = match next {
            '[' if after.starts_with("?(") => filter(&after["?(".len()..], &mut made)?,
            '[' => bracket(after, &mut made)?,
            '.' if after.starts_with('.') => {
                made.push(Step::Unsupported);
                let after = &after[1..];
                after.trim_start_matches(|c: char| c == '_' || c.is_alphanumeric())
            }
            '.' => member(after, &mut made),
            ' ' | '@' | '$' => after,
            '"' | '\'' => quoted(next, after, &mut made)?,
            '+' | '-' | '0'..='9' => number(rest, &mut made)?,
            c if c == '_' || c.is_alphanumeric() => word(rest, &mut made),
            _ => return Err(Invalid),
        };
    }
    Ok(made)
}

fn member<'a>(text: &'a str, made: &mut Vec<Step>) -> &'a str {
    let mut escaped = false;
    let end = text.find(|c| {
        let ends = !escaped && ends_name(c);
        escaped = !escaped && c == '\\';
        ends
    });
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    made.push(if name == "*" { Step::All } else { Step::Member(name.replace('\\', "")) });
    rest
}

fn word<'a>(text: &'a str, made: &mut Vec<Step>) -> &'a str {
    let (word, rest) = text.split_at(text.find(ends_name).unwrap_or(text.len()));
    made.push(match word {
        "true" => Step::Literal(Value::Bool(true)),
        "false" => Step::Literal(Value::Bool(false)),
        _ => Step::Unsupported,
    });
    rest
}

fn number<'a>(text: &'a str, made: &mut Vec<Step>) -> Result<&'a str, Invalid> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = unsigned.len() - unsigned.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit()).len();
    let (written, rest) = text.split_at(text.len() - unsigned.len() + digits);
    let value = match written.parse::<i64>() {
        Ok(whole) => Value::from(whole),
        Err(_) => Value::from(written.parse::<f64>().map_err(|_| Invalid)?),
    };
    made.push(Step::Literal(value));
    Ok(rest)
}

/// A string in quotes of either kind, with `\` before a quote or a `\`.
fn quoted<'a>(quote: char, text: &'a str, made: &mut Vec<Step>) -> Result<&'a str, Invalid> {
    let mut read = String::new();
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '\n' => return Err(Invalid),
            '\\' if !escaped => {
                escaped = true;
                continue;
            }
            c if c == quote && !escaped => {
                made.push(Step::Literal(Value::String(read)));
                return Ok(&text[at + quote.len_utf8()..]);
            }
            c => read.push(if escaped { unescape(c, quote)? } else { c }),
        }
        escaped = false;
    }
    Err(Invalid)
}

fn unescape(c: char, quote: char) -> Result<char, Invalid> {
    match c {
        'n' => Ok('\n'),
        't' => Ok('\t'),
        'r' => Ok('\r'),
        '\\' => Ok('\\'),
        c if c == quote => Ok(c),
        _ => Err(Invalid),
    }
}

/// What stands in brackets, without the first.
fn bracket<'a>(text: &'a str, made: &mut Vec<Step>) -> Result<&'a str, Invalid> {
    let (inside, rest) = text.split_once(']').filter(|(inside, _)| !inside.contains('\n')).ok_or(Invalid)?;
    let name = inside.strip_prefix('\'').and_then(|inside| inside.strip_suffix('\''));
    if inside.contains(',') {
        let parts = inside.split(',').map(|part| steps(&format!("[{}]", part.trim_matches(' '))));
        made.push(Step::Union(parts.collect::<Result<_, _>>()?));
    } else if let Some(name) = name.filter(|name| !name.contains('\'')) {
        // Dots within the quotes divide it as they do without: `['a.b']` is `.a.b`.
        made.extend(steps(&format!(".{name}"))?);
    } else {
        made.push(Step::Items(range(if inside == "*" { ":" } else { inside })?));
    }
    Ok(rest)
}

/// `FROM:TO:STEP`, each of which may be missing, or one index.
fn range(text: &str) -> Result<Range, Invalid> {
    let read = |part: &str| match part {
        "" => Ok(None),
        part if part.starts_with('+') => Err(Invalid),
        part => part.parse::<i64>().map(Some).map_err(|_| Invalid),
    };
    let parts: Vec<Option<i64>> = text.split(':').map(read).collect::<Result<_, _>>()?;
    let (from, to, step) = match parts[..] {
        [from] => (from, End::One, None),
        [from, to] => (from, to.map_or(End::Last, End::At), None),
        [from, to, step] => (from, to.map_or(End::Last, End::At), step),
        _ => return Err(Invalid),
    };
    // A step below one is found when the range is used; nothing is selected then.
    let step = step.map_or(1, |step| usize::try_from(step).unwrap_or(0));
    Ok(Range { from, to, step })
}

/// A filter, after `[?(`.
fn filter<'a>(text: &'a str, made: &mut Vec<Step>) -> Result<&'a str, Invalid> {
    let (mut begun, mut ended, mut before) = (None, false, '(');
    let mut close = None;
    for (at, c) in text.char_indices() {
        match c {
            '\n' => return Err(Invalid),
            '"' | '\'' if begun.is_none() => begun = Some(c),
            '"' | '\'' if before != '\\' && begun == Some(c) => ended = true,
            ')' if begun.is_some() == ended => {
                close = Some(at);
                break;
            }
            _ => {}
        }
        before = c;
    }
    let (inside, rest) = text.split_at(close.ok_or(Invalid)?);
    let rest = rest.strip_prefix(")]").ok_or(Invalid)?;
    let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
    let left = inside.find(is_operator).unwrap_or(inside.len());
    let (left, compared) = inside.split_at(left);
    let right = compared.trim_start_matches(is_operator);
    let operator = &compared[..compared.len() - right.len()];
    let step = if left.is_empty() || operator.is_empty() || right.is_empty() {
        Step::Filter { left: steps(inside)?, test: Test::Exists }
    } else {
        let test = Test::Compare { operator: operator.to_owned(), right: steps(right)? };
        Step::Filter { left: steps(left)?, test }
    };
    made.push(step);
    Ok(rest)
}

fn walk<'a>(steps: &'a [Step], from: Vec<&'a Value>) -> Result<Vec<&'a Value>, Unfit> {
    steps.iter().try_fold(from, |input, step| take(step, &input))
}

fn take<'a>(step: &'a Step, input: &[&'a Value]) -> Result<Vec<&'a Value>, Unfit> {
    let mut found = Vec::new();
    match step {
        Step::Member(name) => found.extend(input.iter().filter_map(|value| value.get(name))),
        Step::All => {
            for value in input {
                match value {
                    Value::Object(members) => found.extend(members.values()),
                    Value::Array(items) => found.extend(items),
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
                }
            }
        }
        Step::Items(range) => {
            for value in input.iter().filter(|value| !value.is_null()) {
                found.extend(range.of(value.as_array().ok_or(Unfit)?)?);
            }
        }
        Step::Filter { left, test } => {
            for value in input {
                for item in value.as_array().ok_or(Unfit)? {
                    if passes(left, test, item)? {
                        found.push(item);
                    }
                }
            }
        }
        Step::Union(parts) => {
            for part in parts {
                found.extend(walk(part, input.to_vec())?);
                if found.len() > UNION_MAX {
                    return Err(Unfit);
                }
            }
        }
        Step::Literal(text @ Value::String(_)) => found.push(text),
        Step::Literal(value) => found.extend(input.iter().map(|_| value)),
        Step::Unsupported => return Err(Unfit),
    }
    Ok(found)
}

impl Range {
    fn of(self, items: &[Value]) -> Result<impl Iterator<Item = &Value>, Unfit> {
        let count = i64::try_from(items.len()).map_err(|_| Unfit)?;
        let from_end = |index: i64| if index < 0 { index.saturating_add(count) } else { index };
        let from = from_end(self.from.unwrap_or(0));
        let to = match self.to {
            End::One => from.saturating_add(1),
            End::Last => count,
            End::At(index) => from_end(index),
        };
        let is_empty = from == to;
        if self.step == 0 || !is_empty && (from < 0 || from >= count || to > count) {
            return Err(Unfit);
        }
        let place = |index: i64| usize::try_from(index).map_err(|_| Unfit);
        let range = if is_empty { &[] } else { items.get(place(from)?..place(to)?).ok_or(Unfit)? };
        Ok(range.iter().step_by(self.step))
    }
}

/// Whether a filter keeps `item`.
fn passes<'a>(left: &'a [Step], test: &'a Test, item: &'a Value) -> Result<bool, Unfit> {
    let found = walk(left, vec![item]);
    let Test::Compare { operator, right } = test else {
        return Ok(found.is_ok_and(|found| !found.is_empty()));
    };
    let one = match found?[..] {
        [] => return Ok(false),
        [one] => one,
        _ => return Err(Unfit),
    };
    let [other] = walk(right, vec![item])?[..] else { return Err(Unfit) };
    let order = compare(one, other).ok_or(Unfit)?;
    let ordered = !one.is_boolean();
    match operator.as_str() {
        "==" => Ok(order.is_eq()),
        "!=" => Ok(order.is_ne()),
        "<" if ordered => Ok(order.is_lt()),
        "<=" if ordered => Ok(order.is_le()),
        ">" if ordered => Ok(order.is_gt()),
        ">=" if ordered => Ok(order.is_ge()),
        _ => Err(Unfit),
    }
}

/// The order of two values of a type; `None`: they have different types, or one without an order. Whole numbers and
/// others are different types.
fn compare(one: &Value, other: &Value) -> Option<Ordering> {
    match (one, other) {
        (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
        (Value::Bool(one), Value::Bool(other)) => Some(one.cmp(other)),
        (Value::Number(one), Value::Number(other)) => match (one.as_i64(), other.as_i64()) {
            (Some(one), Some(other)) => Some(one.cmp(&other)),
            (None, None) => one.as_f64()?.partial_cmp(&other.as_f64()?),
            (Some(_), None) | (None, Some(_)) => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object() -> Value {
        json!({
            "spec": { "size": 3, "a.b": "dotted", "list": [10, 20, 30], "null": null, "ports": [
                { "port": 80, "name": "http" }, { "port": 443, "name": "https", "tls": true }, { "name": "none" } ] },
            "status": { "conditions": [
                { "type": "Synced", "status": "False" },
                { "type": "Ready", "status": "True", "message": "it's (well) up" } ] },
        })
    }

    #[test]
    fn paths_find_what_client_go_finds() {
        let object = object();
        for (path, found) in [
            (".spec.size", Some(json!(3))),
            ("spec.size", None),
            ("$.spec.size", Some(json!(3))),
            ("@.spec.size", Some(json!(3))),
            ("['spec'].size", Some(json!(3))),
            (".spec['size']", Some(json!(3))),
            (r".spec.a\.b", Some(json!("dotted"))),
            (r".spec['a\.b']", Some(json!("dotted"))),
            (".spec['a.b']", None),
            (".spec.none.x", None),
            (".spec.size.x", None),
            (".spec.null", Some(json!(null))),
            (".spec.null.x", None),
            (".spec.list[0]", Some(json!(10))),
            (".spec.list[]", Some(json!(10))),
            (".spec.list[-1]", Some(json!(30))),
            (".spec.list[-3]", Some(json!(10))),
            (".spec.list[-4]", None),
            (".spec.list[3]", None),
            (".spec.list[1:]", Some(json!(20))),
            (".spec.list[1:3:2]", Some(json!(20))),
            (".spec.list[0:3:0]", None),
            (".spec.list[2:1]", None),
            (".spec.list[*]", Some(json!(10))),
            (".spec.list[:0]", None),
            (".spec.list[2,0]", Some(json!(30))),
            (".spec.size[0]", None),
            (".spec.ports[*].tls", Some(json!(true))),
            (".spec.ports.*.port", Some(json!(80))),
            (r#".status.conditions[?(@.type=="Ready")].status"#, Some(json!("True"))),
            (".status.conditions[?(@.type=='Ready')].status", Some(json!("True"))),
            (".status.conditions[?(@.type == 'Ready')].status", Some(json!("True"))),
            (r#".status.conditions[?(@.type=="Gone")].status"#, None),
            (r#".status.conditions[?(@.type!="Synced")].type"#, Some(json!("Ready"))),
            (r#".status.conditions[?(@.message=="it's (well) up")].type"#, Some(json!("Ready"))),
            (".status.conditions[?(@.message)].type", Some(json!("Ready"))),
            (".spec.ports[?(@.port>80)].name", Some(json!("https"))),
            (".spec.ports[?(@.port>=80)].name", Some(json!("http"))),
            (".spec.ports[?(@.port<80)].name", None),
            (".spec.ports[?(@.port==80.5)].name", None),
            (".spec.ports[?(@.tls==true)].name", Some(json!("https"))),
            (".spec.ports[?(@.tls<true)].name", None),
            (".spec.ports[?(@.port=80)].name", None),
            (".spec[?(@.x)]", None),
            ("..size", None),
            (".", None),
        ] {
            let parsed = JsonPath::parse(path).expect(path);
            assert_eq!(parsed.first(&object), found.as_ref(), "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for bad in [
            ".spec[",
            ".spec[x]",
            ".spec[+1]",
            ".spec[1:2:3:4]",
            ".spec[-]",
            ".spec[?(@.x]",
            ".spec[?(@.x)",
            ".spec[?(@.x==\"y)]",
            ".spec[?(@.x==\"\\q\")]",
            "\"x",
            "#",
            ".a}",
            ".a\n",
        ] {
            assert_eq!(JsonPath::parse(bad).err(), Some(Invalid), "{bad}");
        }
    }

    #[test]
    fn unions_do_not_multiply_without_limit() {
        let path = JsonPath::parse(&"[*,*]".repeat(200)).expect("unions");
        let mut nested = json!([1, 2]);
        for _ in 0..100 {
            nested = json!([nested]);
        }
        assert_eq!(path.first(&nested), None);
    }
}
