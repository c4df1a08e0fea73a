//! Bearer tokens from a file: Kubernetes' static token file, `token,user,uid,"group1,group2"`.
//!
//! Owns the file's format and the look-up of a token's identity. It keeps no token, only SHA-256 digests: a look-up
//! compares digests, so its time reveals nothing about a token.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::Arc;

use ring::digest::{SHA256, digest};

use super::csv;
use super::files::mistake;
use crate::identity::Identity;
use crate::setting::ConfigError;

/// A SHA-256 digest.
pub(super) type Digest = [u8; 32];

/// The digest of a token, or of a key.
pub(super) fn digest_of(secret: &[u8]) -> Digest {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, secret).as_ref());
    out
}

/// Tokens and their identities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tokens {
    by_digest: HashMap<Digest, Arc<Identity>>,
}

impl Tokens {
    /// Reads the text of `path`.
    ///
    /// # Errors
    /// The first invalid line, with its number and the remedy; or the file has no line. No token is repeated in it.
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        const FORM: &str = "write token,user,uid or token,user,uid,\"group1,group2\"";
        let mut by_digest = HashMap::new();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (index, line) in text.lines().enumerate() {
            let line = line.strip_suffix('\r').unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            let wrong = |problem: &str, mend: &str| mistake(path, index + 1, problem, mend);
            let fields = csv::fields(line).map_err(|why| wrong(why, FORM))?;
            let (token, user, uid, groups) = match fields.as_slice() {
                [token, user, uid] => (token, user, uid, ""),
                [token, user, uid, groups] => (token, user, uid, groups.as_str()),
                [] | [_] | [_, _] => return Err(wrong("fewer than three columns", FORM)),
                [_, _, _, _, ..] => {
                    return Err(wrong("more than four columns", "put all groups between one pair of quotes"));
                }
            };
            if token.is_empty() {
                return Err(wrong("the token is empty", "give it one, or remove the line"));
            }
            if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                let mend = "make it of letters, digits and signs of ASCII, without spaces";
                return Err(wrong("the token cannot be sent in a header", mend));
            }
            if user.is_empty() {
                return Err(wrong("the user is empty", "name one, or remove the line"));
            }
            let groups: Vec<String> = match groups {
                "" => Vec::new(),
                groups => groups.split(',').map(str::to_owned).collect(),
            };
            if groups.iter().any(String::is_empty) {
                return Err(wrong("a group is empty", "remove the extra comma"));
            }
            let identity = Identity::proven(user.clone(), uid.clone(), groups, None);
            match by_digest.entry(digest_of(token.as_bytes())) {
                Entry::Vacant(entry) => drop(entry.insert(Arc::new(identity))),
                Entry::Occupied(_) => {
                    return Err(wrong(
                        "an earlier line has the same token",
                        "give each user a different one",
                    ));
                }
            }
        }
        if by_digest.is_empty() {
            return Err(mistake(path, 1, "no token", FORM));
        }
        Ok(Self { by_digest })
    }

    /// The identity of a token, and its digest.
    pub(super) fn find(&self, token: &str) -> Option<(Digest, Arc<Identity>)> {
        let digest = digest_of(token.as_bytes());
        self.named(&digest).map(|identity| (digest, identity))
    }

    /// The identity of the token with this digest.
    pub(super) fn named(&self, digest: &Digest) -> Option<Arc<Identity>> {
        self.by_digest.get(digest).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Tokens, String> {
        Tokens::parse(Path::new("/etc/tokens.csv"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn the_format_of_kubernetes() {
        let text = "\u{feff}aaa,alice,1\r\n\nbbb,bob,,\"dev,ops\"\n\"c,\"\"c\",carol,3,dev\n";
        let tokens = parse(text).expect("a right file");
        let named = |token: &str| tokens.find(token).map(|(_, identity)| identity);
        let alice = named("aaa").expect("alice");
        assert_eq!((alice.name.as_str(), alice.uid.as_str()), ("alice", "1"));
        assert_eq!(alice.groups, ["system:authenticated"]);
        let bob = named("bbb").expect("bob");
        assert_eq!(bob.groups, ["dev", "ops", "system:authenticated"]);
        assert_eq!(named("c,\"c").expect("quotes within quotes").name, "carol");
        for wrong in ["", "aa", "aaaa", "AAA", "aaa ", "alice", "aaa,alice,1"] {
            assert!(named(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn lines_that_are_wrong_are_named_and_no_token_is_told() {
        let form = "write token,user,uid or token,user,uid,\"group1,group2\"";
        for (text, says) in [
            ("", format!("/etc/tokens.csv:1: no token; {form}")),
            ("\n\n", format!("/etc/tokens.csv:1: no token; {form}")),
            ("s3cret", format!("/etc/tokens.csv:1: fewer than three columns; {form}")),
            ("a,b,c\n# s3cret,b", format!("/etc/tokens.csv:2: fewer than three columns; {form}")),
            (
                "s3cret,b,c,d,e",
                "/etc/tokens.csv:1: more than four columns; put all groups between one pair of quotes".into(),
            ),
            (",b,c", "/etc/tokens.csv:1: the token is empty; give it one, or remove the line".into()),
            ("s3cret,,c", "/etc/tokens.csv:1: the user is empty; name one, or remove the line".into()),
            (
                "s3 cret,b,c",
                "/etc/tokens.csv:1: the token cannot be sent in a header; make it of letters, digits and signs of ASCII, \
                 without spaces"
                    .into(),
            ),
            (
                "s3cret,b,c,\"d,,e\"",
                "/etc/tokens.csv:1: a group is empty; remove the extra comma".into(),
            ),
            (
                "s3cret,b,c\ns3cret,d,e",
                "/etc/tokens.csv:2: an earlier line has the same token; give each user a different one".into(),
            ),
            ("\"s3cret,b,c", format!("/etc/tokens.csv:1: a quote is not closed; {form}")),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(error, says);
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn nothing_that_is_printed_tells_a_token() {
        let tokens = parse("s3cret,alice,1").expect("a right file");
        assert!(!format!("{tokens:?}").contains("s3cret"));
    }
}
