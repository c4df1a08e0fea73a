//! Keys as etcdctl prints them in JSON: entries of a list, records of a history.

use serde_json::Value;

/// A key at some revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// UTF-8 in every test.
    pub key: String,
    /// Any bytes.
    pub value: Vec<u8>,
    /// The revision that created it.
    pub create_revision: u64,
    /// The revision that wrote it last.
    pub mod_revision: u64,
    /// How often it was written since its creation; 1 for the first time.
    pub version: u64,
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It has this value now.
    Put(Vec<u8>),
    /// It was deleted.
    Delete,
}

/// One change of etcd's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The revision that did it; several keys may share it.
    pub mod_revision: u64,
    /// UTF-8 in every test.
    pub key: String,
    /// The change.
    pub change: Change,
}

/// The entry in an element of `kvs`.
pub(crate) fn entry(kv: &Value) -> Result<Entry, String> {
    let number = |name: &str| kv[name].as_u64().unwrap_or(0);
    Ok(Entry {
        key: text(&kv["key"])?,
        value: bytes(&kv["value"])?,
        create_revision: number("create_revision"),
        mod_revision: number("mod_revision"),
        version: number("version"),
    })
}

/// The record in an element of `Events`. A put has no type, as 0 is left out.
pub(crate) fn record(event: &Value) -> Result<Record, String> {
    let kv = entry(&event["kv"])?;
    let change = match event["type"].as_u64() {
        None | Some(0) => Change::Put(kv.value),
        Some(1) => Change::Delete,
        Some(_) => return Err(format!("an event of no known type: {event}")),
    };
    Ok(Record { mod_revision: kv.mod_revision, key: kv.key, change })
}

pub(super) fn text(value: &Value) -> Result<String, String> {
    String::from_utf8(bytes(value)?).map_err(|_| format!("a key that is no UTF-8: {value}"))
}

/// The bytes of base64 text. Empty values are missing in etcdctl's JSON.
pub(super) fn bytes(value: &Value) -> Result<Vec<u8>, String> {
    let text = value.as_str().unwrap_or_default();
    base64(text).ok_or_else(|| format!("no base64: {text:?}"))
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let padding = text.len() - text.trim_end_matches('=').len();
    if !text.len().is_multiple_of(4) || padding > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for group in text.as_bytes()[..text.len() - padding].chunks(4) {
        let mut bits = 0_u32;
        for letter in group {
            bits = bits << 6 | u32::from(sextet(*letter)?);
        }
        match group.len() {
            4 => out.extend_from_slice(&bits.to_be_bytes()[1..]),
            3 => out.extend_from_slice(&(bits << 6).to_be_bytes()[1..3]),
            2 => out.extend_from_slice(&(bits << 12).to_be_bytes()[1..2]),
            _ => return None,
        }
    }
    Some(out)
}

const fn sextet(letter: u8) -> Option<u8> {
    Some(match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Change, Record, base64, record};

    #[test]
    fn base64_is_read() {
        for (text, bytes) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYg==", "foob")]
        {
            assert_eq!(base64(text).as_deref(), Some(bytes.as_bytes()), "{text}");
        }
        assert_eq!(base64("+/+/"), Some(vec![0xfb, 0xff, 0xbf]));
        for wrong in ["Z", "Zg", "Zg=", "Z===", "====", "Zm9-"] {
            assert_eq!(base64(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn events_are_read() {
        let put = json!({"kv": {"key": "YQ==", "create_revision": 2, "mod_revision": 3, "version": 2, "value": "MQ=="}});
        let wanted = Record { mod_revision: 3, key: "a".into(), change: Change::Put(b"1".to_vec()) };
        assert_eq!(record(&put), Ok(wanted));
        let delete = json!({"type": 1, "kv": {"key": "YQ==", "mod_revision": 4}});
        assert_eq!(record(&delete), Ok(Record { mod_revision: 4, key: "a".into(), change: Change::Delete }));
        assert!(record(&json!({"type": 7, "kv": {"key": "YQ=="}})).is_err());
        assert!(record(&json!({"kv": {"key": "/w=="}})).is_err_and(|problem| problem.contains("UTF-8")));
    }
}
