//! Which label keys and values are valid, and Kubernetes' messages for those that are not.
//!
//! The rules and texts are those of `k8s.io/apimachinery/pkg/api/validate/content` in 1.36. It never parses a selector:
//! it checks one name at a time, also for writes of objects.

use std::fmt::Write as _;

use crate::shown::{MORE, VALUE_CHARS_MAX};

/// The most bytes of a key after its prefix, and of a value.
const NAME_BYTES_MAX: usize = 63;
/// The most bytes of a key's prefix.
const PREFIX_BYTES_MAX: usize = 253;

const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
     character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
     start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
     validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const PREFIX_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
     start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// The error in a label key: `[prefix/]name`. `None` if it is valid.
#[must_use]
pub fn key_fault(key: &str) -> Option<String> {
    let (prefix, name) = match key.split_once('/') {
        None => (None, key),
        Some((prefix, name)) => (Some(prefix), name),
    };
    if name.contains('/') {
        return Some(format!(
            "a valid label key {NAME_RULE} with an optional DNS subdomain prefix and '/' \
             (e.g. 'example.com/MyName')"
        ));
    }
    let mut faults = Vec::new();
    if let Some(prefix) = prefix {
        if prefix.is_empty() {
            faults.push("prefix part must be non-empty".to_owned());
        } else {
            if prefix.len() > PREFIX_BYTES_MAX {
                faults.push(format!("prefix part must be no more than {PREFIX_BYTES_MAX} bytes"));
            }
            if !is_subdomain(prefix) {
                faults.push(format!("prefix part {PREFIX_RULE}"));
            }
        }
    }
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > NAME_BYTES_MAX {
        faults.push(format!("name part must be no more than {NAME_BYTES_MAX} bytes"));
    }
    if !is_name(name) {
        faults.push(format!("name part {NAME_RULE}"));
    }
    joined(&faults)
}

/// The error in a label value. `None` if it is valid.
#[must_use]
pub fn value_fault(value: &str) -> Option<String> {
    let mut faults = Vec::new();
    if value.len() > NAME_BYTES_MAX {
        faults.push(format!("must be no more than {NAME_BYTES_MAX} bytes"));
    }
    if !value.is_empty() && !is_name(value) {
        faults.push(VALUE_RULE.to_owned());
    }
    joined(&faults)
}

fn joined(faults: &[String]) -> Option<String> {
    if faults.is_empty() { None } else { Some(faults.join("; ")) }
}

/// Letters, digits and `-_.`, the first and the last a letter or digit.
fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|&b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Labels of lower-case letters, digits and inner hyphens, separated by dots (RFC 1123).
fn is_subdomain(text: &str) -> bool {
    let small = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    text.split('.').map(str::as_bytes).all(|label| {
        label.first().is_some_and(small)
            && label.last().is_some_and(small)
            && label.iter().all(|b| small(b) || *b == b'-')
    })
}

/// The text in double quotes, with escapes as Go's `%q` writes them, for messages that quote a client's text. Of a text
/// that is too long to repeat: its beginning, and `...` after the quotes.
pub(super) fn quoted(text: &str) -> String {
    let mut chars = text.chars();
    let mut quoted = String::with_capacity(text.len().min(VALUE_CHARS_MAX) + 2);
    quoted.push('"');
    for c in chars.by_ref().take(VALUE_CHARS_MAX) {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            _ if is_printable(c) => quoted.push(c),
            _ => {
                let code = u32::from(c);
                // Writing to a String cannot fail.
                let _ = match code {
                    0..=0x7f => write!(quoted, "\\x{code:02x}"),
                    0x80..=0xffff => write!(quoted, "\\u{code:04x}"),
                    _ => write!(quoted, "\\U{code:08x}"),
                };
            }
        }
    }
    quoted.push('"');
    if !chars.as_str().is_empty() {
        quoted.push_str(MORE);
    }
    quoted
}

/// Whether Go prints it as it is (`unicode.IsPrint`). Rust's own escaping decides the same if `c` is not the first
/// character: there it escapes combining marks, which Go prints.
#[must_use]
pub fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    let mut buffer = [b'a', 0, 0, 0, 0];
    let len = 1 + c.encode_utf8(&mut buffer[1..]).len();
    std::str::from_utf8(&buffer[..len]).is_ok_and(|text| text.escape_debug().nth(1) == Some(c))
}

#[cfg(test)]
mod tests {
    use super::{NAME_RULE, PREFIX_RULE, VALUE_RULE, key_fault, quoted, value_fault};

    #[test]
    fn valid_keys() {
        let longest = format!("{}/{}", ["a".repeat(63).as_str(); 3].join(".") + ".b", "n".repeat(63));
        let longest_prefix = format!("{}/n", "p".repeat(253));
        for key in
            ["a", "A", "1", "a-b_c.d", "a--b", "in", "x.y/Z", "1.2/3", "a-b.c-d/e", &longest, &longest_prefix]
        {
            assert_eq!(key_fault(key), None, "{key}");
        }
    }

    #[test]
    fn faulty_keys() {
        let name = format!("name part {NAME_RULE}");
        let prefix = format!("prefix part {PREFIX_RULE}");
        let table = [
            ("-a", name.clone()),
            ("a.", name.clone()),
            ("a b", name.clone()),
            ("é", name.clone()),
            ("", format!("name part must be non-empty; {name}")),
            ("a/", format!("name part must be non-empty; {name}")),
            ("/a", "prefix part must be non-empty".to_owned()),
            ("A/a", prefix.clone()),
            ("a..b/c", prefix.clone()),
            ("a-/c", prefix.clone()),
            ("a_b/-", format!("{prefix}; {name}")),
            (&"n".repeat(64), "name part must be no more than 63 bytes".to_owned()),
            (&format!("{}/a", "p".repeat(254)), "prefix part must be no more than 253 bytes".to_owned()),
        ];
        for (key, fault) in table {
            assert_eq!(key_fault(key).as_deref(), Some(fault.as_str()), "{key}");
        }
        let slashes = key_fault("a/b/c").unwrap_or_default();
        assert!(slashes.starts_with("a valid label key must consist of alphanumeric"), "{slashes}");
        assert!(slashes.ends_with("prefix and '/' (e.g. 'example.com/MyName')"), "{slashes}");
    }

    #[test]
    fn values() {
        for value in ["", "a", "1.2", "A_b-c", &"v".repeat(63)] {
            assert_eq!(value_fault(value), None, "{value}");
        }
        for value in ["-1", "+1", "a/b", ".", "ü", "a:b"] {
            assert_eq!(value_fault(value).as_deref(), Some(VALUE_RULE), "{value}");
        }
        assert_eq!(value_fault(&"v".repeat(64)).as_deref(), Some("must be no more than 63 bytes"));
    }

    #[test]
    fn quotes_as_go_does() {
        assert_eq!(quoted("a b"), r#""a b""#);
        assert_eq!(quoted("\"\\\u{1}\u{7f}\n\t"), r#""\"\\\x01\x7f\n\t""#);
        assert_eq!(quoted("é語e\u{301}"), "\"é語e\u{301}\"");
        assert_eq!(quoted("\u{301}"), "\"\u{301}\"");
        assert_eq!(quoted("\u{a0}\u{200b}\u{e0001}"), r#""\u00a0\u200b\U000e0001""#);
    }
}
