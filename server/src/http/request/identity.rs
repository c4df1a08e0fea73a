//! Headers that say for whom a request is made: `Impersonate-*`, and those that a front proxy adds.
//!
//! It keeps them as they were sent. Whether they count is decided elsewhere: any client can send them.

use super::HeadError;

/// Such headers, in the order in which they were sent; the names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentityHeaders(Vec<(Box<str>, Box<str>)>);

/// The beginnings of their names. A front proxy's are configured in the cluster: those that begin otherwise are not read.
const BEGINNINGS: [&str; 2] = ["impersonate-", "x-"];
/// Names whose values must be text: a replaced character would make two users one.
const STRICT: [&str; 2] = ["impersonate-", "x-remote-"];

impl IdentityHeaders {
    /// Keeps a header, if it is one of these.
    pub(super) fn take(&mut self, name: &str, value: &[u8]) -> Result<(), HeadError> {
        if !BEGINNINGS.iter().any(|beginning| begins(name, beginning)) {
            return Ok(());
        }
        match std::str::from_utf8(value) {
            Ok(text) => self.0.push((name.to_ascii_lowercase().into(), text.into())),
            Err(_) if STRICT.iter().any(|beginning| begins(name, beginning)) => return Err(HeadError::Value),
            Err(_) => {}
        }
        Ok(())
    }

    /// The values of all headers of this name, which is in lower case.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| **known == *name).map(|(_, value)| &**value)
    }

    /// What follows `beginning` in each name that begins with it, with the value. `beginning` is in lower case.
    pub fn beginning<'a>(&'a self, beginning: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().filter_map(move |(name, value)| Some((name.strip_prefix(beginning)?, &**value)))
    }
}

fn begins(name: &str, beginning: &str) -> bool {
    name.get(..beginning.len()).is_some_and(|start| start.eq_ignore_ascii_case(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_headers_of_identities_are_kept() {
        let mut headers = IdentityHeaders::default();
        for (name, value) in [
            ("X-Remote-User", "jane"),
            ("Accept", "*/*"),
            ("x-remote-group", "b"),
            ("X-REMOTE-GROUP", "a"),
            ("X-Remote-Extra-Scopes", "c"),
            ("Impersonate-User", "jörg"),
        ] {
            headers.take(name, value.as_bytes()).expect("text");
        }
        assert_eq!(headers.all("x-remote-group").collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(headers.all("impersonate-user").collect::<Vec<_>>(), ["jörg"]);
        assert_eq!(headers.all("accept").count(), 0);
        assert_eq!(headers.beginning("x-remote-extra-").collect::<Vec<_>>(), [("scopes", "c")]);
        assert_eq!(headers.take("X-Remote-User", b"\xff"), Err(HeadError::Value));
        assert_eq!(headers.take("Impersonate-Uid", b"\xff"), Err(HeadError::Value));
        assert_eq!(headers.take("X-Forwarded-For", b"\xff"), Ok(()));
    }
}
