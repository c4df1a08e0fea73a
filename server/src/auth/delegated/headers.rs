//! Keys of `extra` in the names of headers.

use std::collections::BTreeMap;

use crate::http::text::percent_decode;

/// What headers say besides name, uid and groups: from the ends of their names, and their values. Keys are percent-decoded; one
/// that cannot be is kept as it is (apiserver `requestheader.go`). In the order of keys.
pub(super) fn extra_of<'a>(lines: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<(String, Vec<String>)> {
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, value) in lines {
        let key = percent_decode(key, false).unwrap_or_else(|_| key.to_owned());
        extra.entry(key).or_default().push(value.to_owned());
    }
    extra.into_iter().collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::http::request::{IdentityHeaders, Parsed, parse_head};

    pub(in super::super) fn headers(lines: &[(&str, &str)]) -> IdentityHeaders {
        let lines: String = lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        let Ok(Parsed::Complete { head, .. }) = parse_head(text.as_bytes()) else { panic!("{text}") };
        head.identity
    }

    #[test]
    fn keys_are_decoded_once() {
        let lines = [("a%2fb", "1"), ("a/b", "2"), ("a%252fb", "3"), ("%zz", "4"), ("%ff", "5")];
        let extra = extra_of(lines.into_iter());
        let shown: Vec<String> =
            extra.iter().map(|(key, values)| format!("{key}={}", values.join(","))).collect();
        assert_eq!(shown, ["%ff=5", "%zz=4", "a%2fb=3", "a/b=1,2"]);
    }
}
