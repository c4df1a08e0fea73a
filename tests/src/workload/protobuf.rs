//! The objects of these tests in protobuf: written as a kube-apiserver stores them, and read back as the JSON that a server must
//! make of them. Lists and watches are read too, as the text that they would be in JSON.
//!
//! It is written by hand, and shares nothing with the server's codec. It knows only what these objects have: anything else is
//! an error.

use std::fmt::Write;

use serde_json::Value;

use revcast_sim::rng::Rng;

/// What every value and reply begins with.
pub(super) const MAGIC: &[u8] = b"k8s\0";
/// As a request names it.
pub(super) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// The same of a watch: each message follows its length.
pub(super) const STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// What the store gets for an object: protobuf, and sometimes the JSON that a server makes of that.
pub(crate) fn stored(json: &str, rng: &mut Rng) -> Vec<u8> {
    let value = written(json);
    if rng.percent(10) { shown(&value).expect("what was written").into_bytes() } else { value }
}

/// An object of these tests.
pub(crate) fn written(json: &str) -> Vec<u8> {
    let json: Value = serde_json::from_str(json).expect("an object of ours");
    let text = |value: &Value| value.as_str().unwrap_or_default().as_bytes().to_vec();
    let kind = text(&json["kind"]);
    let mut meta = Vec::new();
    for (number, member) in [(1, "name"), (2, ""), (3, "namespace"), (4, ""), (5, ""), (6, "")] {
        bytes(&mut meta, number, &text(&json["metadata"][member]));
    }
    varint(&mut meta, 7, 0);
    bytes(&mut meta, 8, &[]);
    map(&mut meta, 11, &json["metadata"]["labels"]);
    map(&mut meta, 12, &json["metadata"]["annotations"]);
    let mut raw = Vec::new();
    bytes(&mut raw, 1, &meta);
    if kind == b"Pod" {
        let spec = &json["spec"];
        let mut out = Vec::new();
        bytes(&mut out, 3, &text(&spec["restartPolicy"]));
        // Those that are no pointers in Go are always there.
        for number in [6, 8, 9] {
            bytes(&mut out, number, &[]);
        }
        bytes(&mut out, 10, &text(&spec["nodeName"]));
        for number in [11, 12, 13] {
            varint(&mut out, number, 0);
        }
        for number in [16, 17, 19] {
            bytes(&mut out, number, &[]);
        }
        bytes(&mut raw, 2, &out);
        let mut status = Vec::new();
        for number in [1, 3, 4, 5, 6, 9, 11] {
            bytes(&mut status, number, &[]);
        }
        bytes(&mut raw, 3, &status);
    } else {
        map(&mut raw, 2, &json["data"]);
    }
    let (mut of, mut unknown) = (Vec::new(), Vec::new());
    bytes(&mut of, 1, b"v1");
    bytes(&mut of, 2, &kind);
    for (number, value) in [(1, of), (2, raw), (3, vec![]), (4, vec![])] {
        bytes(&mut unknown, number, &value);
    }
    [MAGIC, &unknown].concat()
}

fn number(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

fn varint(out: &mut Vec<u8>, field: u64, value: u64) {
    number(out, field << 3);
    number(out, value);
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    number(out, field << 3 | 2);
    number(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn map(out: &mut Vec<u8>, field: u64, members: &Value) {
    let mut pairs: Vec<(&String, &Value)> = members.as_object().into_iter().flatten().collect();
    pairs.sort_by_key(|(name, _)| *name);
    for (name, value) in pairs {
        let mut pair = Vec::new();
        bytes(&mut pair, 1, name.as_bytes());
        bytes(&mut pair, 2, value.as_str().unwrap_or_default().as_bytes());
        bytes(out, field, &pair);
    }
}

/// One field of a message.
#[derive(Clone, Copy, Debug)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    const fn is_zero(self) -> bool {
        matches!(self, Self::Number(0) | Self::Bytes([]))
    }

    fn bytes(self) -> Result<&'a [u8], String> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(value) => Err(format!("the number {value} instead of bytes")),
        }
    }

    fn number(self) -> Result<u64, String> {
        match self {
            Self::Number(value) => Ok(value),
            Self::Bytes(_) => Err("bytes instead of a number".to_owned()),
        }
    }

    /// Text that JSON needs no escapes for.
    fn text(self) -> Result<&'a str, String> {
        let text = std::str::from_utf8(self.bytes()?).map_err(|_| "a text that is no UTF-8".to_owned())?;
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.:".contains(letter);
        if text.chars().all(plain) { Ok(text) } else { Err(format!("the text {text:?}")) }
    }
}

/// The fields of a message, in the order of their numbers.
fn fields(mut message: &[u8]) -> Result<Vec<(u64, Field<'_>)>, String> {
    fn varint(message: &mut &[u8]) -> Result<u64, String> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (first, rest) = message.split_first().ok_or("it ends within a number")?;
            *message = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number that is too long".to_owned())
    }
    let mut fields: Vec<(u64, Field<'_>)> = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut message)?),
            2 => {
                let length = usize::try_from(varint(&mut message)?).map_err(|error| error.to_string())?;
                let (bytes, rest) = message.split_at_checked(length).ok_or("it ends within a field")?;
                message = rest;
                Field::Bytes(bytes)
            }
            other => return Err(format!("a field of the wire type {other}")),
        };
        if fields.last().is_some_and(|(last, _)| *last > tag >> 3) {
            return Err(format!("field {} is not in its place", tag >> 3));
        }
        fields.push((tag >> 3, field));
    }
    Ok(fields)
}

/// The kind, and the message of an object in its envelope.
fn envelope(value: &[u8]) -> Result<(&str, &[u8]), String> {
    let unknown = value.strip_prefix(MAGIC).ok_or("no envelope")?;
    let all = fields(unknown)?;
    let [(1, of), (2, raw), (3, Field::Bytes([])), (4, Field::Bytes([]))] = all.as_slice() else {
        return Err("not the fields of an envelope".to_owned());
    };
    let all = fields(of.bytes()?)?;
    let [(1, Field::Bytes(b"v1")), (2, kind)] = all.as_slice() else {
        return Err("not the type of an object of ours".to_owned());
    };
    Ok((kind.text()?, raw.bytes()?))
}

/// An object as JSON: members in the order of Go's structs, empty ones left out where Go leaves them out.
pub(crate) fn shown(value: &[u8]) -> Result<String, String> {
    let (kind, message) = envelope(value)?;
    object(kind, message)
}

fn object(kind: &str, message: &[u8]) -> Result<String, String> {
    let mut out = format!(r#"{{"kind":"{kind}","apiVersion":"v1""#);
    let (mut pairs, mut spec) = (Vec::new(), String::new());
    for (number, field) in fields(message)? {
        match (kind, number) {
            (_, 1) => out += &format!(r#","metadata":{}"#, metadata(field.bytes()?)?),
            ("ConfigMap", 2) => pairs.push(pair(field)?),
            ("Pod", 2) => {
                for (number, field) in fields(field.bytes()?)? {
                    match number {
                        3 if !field.is_zero() => spec += &format!(r#","restartPolicy":"{}""#, field.text()?),
                        10 if !field.is_zero() => spec += &format!(r#","nodeName":"{}""#, field.text()?),
                        _ if field.is_zero() => {}
                        _ => return Err(format!("field {number} of a spec: {field:?}")),
                    }
                }
            }
            ("Pod", 3) => {
                let odd = fields(field.bytes()?)?.into_iter().find(|(_, field)| !field.is_zero());
                if let Some((number, field)) = odd {
                    return Err(format!("field {number} of a status: {field:?}"));
                }
            }
            _ => return Err(format!("field {number} of a {kind}: {field:?}")),
        }
    }
    match kind {
        "ConfigMap" => out += &members("data", &pairs)?,
        "Pod" => out += &format!(r#","spec":{{"containers":null{spec}}},"status":{{}}"#),
        _ => return Err(format!("a {kind}")),
    }
    Ok(out + "}")
}

fn metadata(message: &[u8]) -> Result<String, String> {
    let mut out = String::new();
    let (mut labels, mut annotations) = (Vec::new(), Vec::new());
    for (number, field) in fields(message)? {
        match number {
            _ if field.is_zero() => {}
            1 => out += &format!(r#","name":"{}""#, field.text()?),
            3 => out += &format!(r#","namespace":"{}""#, field.text()?),
            5 => out += &format!(r#","uid":"{}""#, field.text()?),
            6 => out += &format!(r#","resourceVersion":"{}""#, field.text()?),
            8 => out += &format!(r#","creationTimestamp":"{}""#, time(field.bytes()?)?),
            11 => labels.push(pair(field)?),
            12 => annotations.push(pair(field)?),
            _ => return Err(format!("field {number} of the metadata: {field:?}")),
        }
    }
    out += &members("labels", &labels)?;
    out += &members("annotations", &annotations)?;
    Ok(format!("{{{}}}", out.trim_start_matches(',')))
}

fn pair(field: Field<'_>) -> Result<(&str, &str), String> {
    match fields(field.bytes()?)?.as_slice() {
        [(1, name), (2, value)] => Ok((name.text()?, value.text()?)),
        other => Err(format!("an entry of a map: {other:?}")),
    }
}

/// A member with a map, or nothing for an empty one.
fn members(name: &str, pairs: &[(&str, &str)]) -> Result<String, String> {
    if pairs.is_empty() {
        return Ok(String::new());
    }
    if !pairs.is_sorted_by(|one, other| one.0 < other.0) {
        return Err(format!("{name} is not in the order of its keys"));
    }
    let all: Vec<String> = pairs.iter().map(|(name, value)| format!(r#""{name}":"{value}""#)).collect();
    Ok(format!(r#","{name}":{{{}}}"#, all.join(",")))
}

/// A moment as RFC 3339.
fn time(message: &[u8]) -> Result<String, String> {
    let all = fields(message)?;
    let [(1, seconds), (2, Field::Number(0))] = all.as_slice() else {
        return Err(format!("a time: {all:?}"));
    };
    let seconds = seconds.number()?;
    let (mut day, of_day) = (seconds / 86_400, seconds % 86_400);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    Ok(format!("{year:04}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", month + 1, day + 1))
}

/// A list as JSON.
pub(super) fn list(body: &[u8]) -> Result<String, String> {
    let (kind, message) = envelope(body)?;
    let of = kind.strip_suffix("List").ok_or_else(|| format!("no list: {kind}"))?;
    let (mut revision, mut items) = ("", Vec::new());
    for (number, field) in fields(message)? {
        match number {
            1 => {
                for (number, field) in fields(field.bytes()?)? {
                    match number {
                        2 => revision = field.text()?,
                        _ if field.is_zero() => {}
                        _ => return Err(format!("field {number} of a list's metadata: {field:?}")),
                    }
                }
            }
            2 => items.push(object(of, field.bytes()?)?),
            _ => return Err(format!("field {number} of a list: {field:?}")),
        }
    }
    let items = items.join(",");
    Ok(format!(
        r#"{{"kind":"{kind}","apiVersion":"v1","metadata":{{"resourceVersion":"{revision}"}},"items":[{items}]}}"#
    ))
}

/// A message of a watch as the line that it would be in JSON.
pub(super) fn line(frame: &[u8]) -> Result<String, String> {
    let all = fields(frame)?;
    let [(1, kind), (2, extension)] = all.as_slice() else {
        return Err(format!("no event: {all:?}"));
    };
    let all = fields(extension.bytes()?)?;
    let [(1, raw)] = all.as_slice() else {
        return Err(format!("no object of an event: {all:?}"));
    };
    let (of, message) = envelope(raw.bytes()?)?;
    let object = if of == "Status" { status(message)? } else { object(of, message)? };
    Ok(format!(r#"{{"type":"{}","object":{object}}}"#, kind.text()?))
}

fn status(message: &[u8]) -> Result<String, String> {
    let mut out = r#"{"kind":"Status","apiVersion":"v1","metadata":{}"#.to_owned();
    for (number, field) in fields(message)? {
        let name = match number {
            2 => "status",
            3 => "message",
            4 => "reason",
            6 => {
                let _ = write!(out, r#","code":{}"#, field.number()?);
                continue;
            }
            _ => continue,
        };
        let text = String::from_utf8_lossy(field.bytes()?);
        let _ = write!(out, r#","{name}":{}"#, Value::from(text));
    }
    Ok(out + "}")
}

#[cfg(test)]
mod tests {
    use revcast_sim::rng::Rng;

    use super::super::objects::{self, Kind, object};
    use super::{bytes, line, list, number, shown, stored, time, varint, written};

    fn pod() -> String {
        object(Kind::Pod, "s1", "n01", 7, &mut Rng::new(3))
    }

    #[test]
    fn an_object_is_read_as_it_was_written() {
        let mut rng = Rng::new(8);
        let map = object(Kind::ConfigMap, "s1", "n01", 7, &mut rng);
        assert_eq!(shown(&written(&map)).as_ref(), Ok(&map), "in Go's order already");
        let made = shown(&written(&pod())).expect("a pod");
        assert!(made.contains(r#""spec":{"containers":null,"restartPolicy":""#), "{made}");
        assert!(made.ends_with(r#"},"status":{}}"#), "{made}");
        let (mut json, mut packed) = (0, 0);
        for sequence in 0..1_000 {
            let object = object(Kind::Pod, "s1", "n01", sequence, &mut rng);
            let value = stored(&object, &mut rng);
            *(if value[0] == b'{' { &mut json } else { &mut packed }) += 1;
            assert_eq!(objects::form(&value), objects::form(&written(&object)), "{object}");
        }
        assert!(json > 50 && packed > 800, "{json} {packed}");
    }

    /// The lowest bit of each: of a tag it changes the wire type, of a text a letter.
    #[test]
    fn one_bit_is_noticed() {
        let value = written(&pod());
        let whole = objects::form(&value);
        assert_eq!(whole.len(), objects::LETTERS + 8);
        for at in 0..value.len() {
            let mut damaged = value.clone();
            damaged[at] ^= 1;
            assert_ne!(objects::form(&damaged), whole, "byte {at}");
        }
    }

    #[test]
    fn lists_and_messages_are_read() {
        let object = written(&pod());
        let (mut extension, mut event) = (Vec::new(), Vec::new());
        bytes(&mut extension, 1, &object);
        bytes(&mut event, 1, b"ADDED");
        bytes(&mut event, 2, &extension);
        let made = shown(&object).expect("a pod");
        assert_eq!(line(&event), Ok(format!(r#"{{"type":"ADDED","object":{made}}}"#)));

        let (mut meta, mut raw, mut of, mut unknown) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        bytes(&mut meta, 2, b"12");
        bytes(&mut raw, 1, &meta);
        let (_, message) = super::envelope(&object).expect("an object");
        bytes(&mut raw, 2, message);
        bytes(&mut of, 1, b"v1");
        bytes(&mut of, 2, b"PodList");
        for (number, value) in [(1, of), (2, raw), (3, vec![]), (4, vec![])] {
            bytes(&mut unknown, number, &value);
        }
        let whole = list(&[super::MAGIC, &unknown].concat()).expect("a list");
        assert_eq!((objects::revision(&whole), objects::items(&whole)), (Some(12), vec![made.as_str()]));
    }

    #[test]
    fn moments_are_told() {
        let told = |seconds: u64| {
            let mut message = Vec::new();
            varint(&mut message, 1, seconds);
            varint(&mut message, 2, 0);
            time(&message)
        };
        assert_eq!(told(0).as_deref(), Ok("1970-01-01T00:00:00Z"));
        assert_eq!(told(951_782_400 + 86_399).as_deref(), Ok("2000-02-29T23:59:59Z"));
        assert_eq!(told(1_732_454_024).as_deref(), Ok("2024-11-24T13:13:44Z"));
        assert_eq!(told(1_735_689_599).as_deref(), Ok("2024-12-31T23:59:59Z"));
    }

    #[test]
    fn numbers_are_written_in_groups_of_seven_bits() {
        let mut out = Vec::new();
        number(&mut out, 300);
        number(&mut out, 127);
        assert_eq!(out, [0xac, 0x02, 0x7f]);
    }
}
