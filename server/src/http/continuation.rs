//! Continue tokens: where the next page of a list starts, and at which revision.
//!
//! Owns the token's bytes (apiserver `pkg/storage/continue.go`, recordings 02 and 06). It never reads a store.

use std::fmt;

use revcast_engine::revision::Revision;
use serde::Deserialize;

use super::base64url;
use super::text::{push_formatted, push_json_string};

const TOKEN_VERSION: &str = "meta.k8s.io/v1";
/// Characters of the longest token that is decoded; a key is at most two names of 253 bytes, whose escapes are at most
/// six times as long.
const TOKEN_LEN_MAX: usize = 6 * 1024;
/// How many characters longer a token may get when it continues at the latest revision.
const LATEST_LEN_MORE: usize = 4;

/// Where a list continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// The state that the page shows.
    pub at: PageRevision,
    /// The first key of the page, relative to the list's prefix and without a leading slash. The successor of key `cm2`
    /// is `cm2\0`.
    pub start: String,
    /// Which history `at` belongs to ([`crate::source::epoch::Epoch::line`]); 0: the token does not say.
    pub line: u64,
}

/// The state of the store that a page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageRevision {
    /// That of the first page.
    Exact(Revision),
    /// The newest: `rv` is negative. Then the pages are not consistent with each other.
    Latest,
}

impl Continuation {
    /// The page that starts directly after `key`, which is relative to the list's prefix.
    #[must_use]
    pub fn behind(key: &str, at: PageRevision, line: u64) -> Self {
        Self { at, start: format!("{key}\0"), line }
    }

    /// The same start at the newest revision: what a 410 offers instead of an expired token.
    #[must_use]
    pub fn at_latest(&self) -> Self {
        Self { at: PageRevision::Latest, start: self.start.clone(), line: 0 }
    }

    /// The token: base64url, without padding, of `{"v":"meta.k8s.io/v1","rv":74,"start":"/cm2\u0000"}`.
    ///
    /// At the newest revision `rv` is -1 and `start` has no leading slash (recording 06).
    #[must_use]
    pub fn encode(&self) -> String {
        let mut json = format!("{{\"v\":\"{TOKEN_VERSION}\",\"rv\":");
        let slash = match self.at {
            PageRevision::Exact(revision) => {
                push_formatted(&mut json, format_args!("{revision}"));
                "/"
            }
            PageRevision::Latest => {
                json.push_str("-1");
                // An empty start is invalid.
                if self.start.is_empty() { "/" } else { "" }
            }
        };
        json.push_str(",\"start\":");
        push_json_string(&mut json, &format!("{slash}{}", self.start));
        if self.line != 0 {
            push_formatted(&mut json, format_args!(",\"line\":\"{:x}\"", self.line));
        }
        json.push('}');
        base64url::encode(json.as_bytes())
    }

    /// Reads a token that this or another Kubernetes-style server issued.
    ///
    /// # Errors
    /// The client's token is invalid, or points outside of the list's prefix; 400 with upstream's text.
    pub fn decode(token: &str) -> Result<Self, ContinueError> {
        if token.len() > TOKEN_LEN_MAX {
            return Err(ContinueError::TooLong);
        }
        let data = base64url::decode(token).map_err(|at| ContinueError::Base64 { at })?;
        let wire: Wire = parse_json(&data)?;
        if wire.version != TOKEN_VERSION {
            return Err(ContinueError::Version(wire.version));
        }
        let at = match wire.revision {
            0 => return Err(ContinueError::Revision),
            1.. => PageRevision::Exact(Revision::new(wire.revision.unsigned_abs())),
            i64::MIN..0 => PageRevision::Latest,
        };
        if wire.start.is_empty() {
            return Err(ContinueError::EmptyStart);
        }
        let start = wire.start.strip_prefix('/').unwrap_or(&wire.start);
        if !is_clean(start) {
            return Err(ContinueError::Start(wire.start));
        }
        // A value that is not one of our numbers names no history of ours.
        let line =
            if wire.line.is_empty() { 0 } else { u64::from_str_radix(&wire.line, 16).unwrap_or(u64::MAX) };
        let taken = Self { at, start: start.to_owned(), line };
        // Escapes may make a start six times longer: a token that would be refused later is not issued.
        if taken.encode().len() + LATEST_LEN_MORE > TOKEN_LEN_MAX {
            return Err(ContinueError::TooLong);
        }
        Ok(taken)
    }
}

/// The token's JSON; as in Go, missing members are zero values and unknown ones are ignored.
#[derive(Deserialize)]
struct Wire {
    #[serde(rename = "v", default)]
    version: String,
    #[serde(rename = "rv", default)]
    revision: i64,
    #[serde(default)]
    start: String,
    /// Ours; upstream ignores it.
    #[serde(default)]
    line: String,
}

/// Whether Go's `path.Clean` would leave `/path` as it is: no `.`, `..`, `//` and no trailing slash.
fn is_clean(path: &str) -> bool {
    path.is_empty() || !path.split('/').any(|part| matches!(part, "" | "." | ".."))
}

/// The error in a token. The client's fault: it must list from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContinueError {
    /// Longer than any token of ours.
    TooLong,
    /// Not base64url from this byte on.
    Base64 {
        /// Offset in the token.
        at: usize,
    },
    /// Not JSON, or of wrong types; with Go's text where it is recorded.
    Json(String),
    /// Of another version.
    Version(String),
    /// Without a revision.
    Revision,
    /// Without a start.
    EmptyStart,
    /// With a start that is not a clean path within the list.
    Start(String),
}

impl fmt::Display for ContinueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid continue token: continue key is not valid")?;
        match self {
            Self::TooLong => f.write_str(": longer than any token that was given out"),
            Self::Base64 { at } => write!(f, ": illegal base64 data at input byte {at}"),
            Self::Json(why) => write!(f, ": {why}"),
            Self::Version(version) => write!(f, ": server does not recognize this encoded version {version}"),
            Self::Revision => {
                write!(f, ": incorrect encoded start resourceVersion (version {TOKEN_VERSION})")
            }
            Self::EmptyStart => write!(f, ": encoded start key empty (version {TOKEN_VERSION})"),
            Self::Start(start) => write!(f, ": {start}"),
        }
    }
}

impl std::error::Error for ContinueError {}

fn parse_json(data: &[u8]) -> Result<Wire, ContinueError> {
    let in_words = |error: &serde_json::Error| {
        let blank = |b: &&u8| !matches!(**b, b' ' | b'\t' | b'\r' | b'\n');
        match data.iter().find(blank) {
            None => "unexpected end of JSON input".to_owned(),
            Some(b'{' | b'[' | b'"' | b't' | b'f' | b'n' | b'-' | b'0'..=b'9') if error.is_eof() => {
                "unexpected end of JSON input".to_owned()
            }
            Some(b'{' | b'[' | b'"' | b't' | b'f' | b'n' | b'-' | b'0'..=b'9') => error.to_string(),
            Some(&other) => {
                format!("invalid character {} looking for beginning of value", quote_byte(other))
            }
        }
    };
    serde_json::from_slice(data).map_err(|error| ContinueError::Json(in_words(&error)))
}

/// Go's `quoteChar` of `encoding/json`: a byte as a character in single quotes.
fn quote_byte(byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => "'\\\\'".to_owned(),
        b' '..=b'~' => format!("'{}'", char::from(byte)),
        0x07 => "'\\a'".to_owned(),
        0x08 => "'\\b'".to_owned(),
        0x0b => "'\\v'".to_owned(),
        0x0c => "'\\f'".to_owned(),
        0..=0x1f | 0x7f => format!("'\\x{byte:02x}'"),
        0x80..=0xa0 | 0xad => format!("'\\u{byte:04x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::noise::Noise;
    use super::*;

    fn exact(revision: u64, start: &str) -> Continuation {
        Continuation { at: PageRevision::Exact(Revision::new(revision)), start: start.to_owned(), line: 0 }
    }

    #[test]
    fn recorded_tokens_byte_for_byte() {
        for (token, revision, key) in [
            ("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NzQsInN0YXJ0IjoiL2NtMlx1MDAwMCJ9", 74, "cm2"),
            ("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NzQsInN0YXJ0IjoiL2NtNFx1MDAwMCJ9", 74, "cm4"),
            ("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTA0LCJzdGFydCI6Ii9jbTFcdTAwMDAifQ", 104, "cm1"),
            ("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTM1LCJzdGFydCI6Ii9jbTRcdTAwMDAifQ", 135, "cm4"),
        ] {
            let page = Continuation::behind(key, PageRevision::Exact(Revision::new(revision)), 0);
            assert_eq!(page, exact(revision, &format!("{key}\0")));
            assert_eq!(page.encode(), token);
            assert_eq!(Continuation::decode(token), Ok(page));
        }
        let expired = exact(60, "cm2\0");
        let latest = expired.at_latest();
        let token = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiY20yXHUwMDAwIn0";
        assert_eq!(latest.encode(), token);
        assert_eq!(Continuation::decode(token), Ok(latest));
    }

    #[test]
    fn recorded_and_upstream_errors() {
        let of = |token: &str| Continuation::decode(token).expect_err("not a token").to_string();
        let of_json = |json: &str| of(&base64url::encode(json.as_bytes()));
        let not_valid = "invalid continue token: continue key is not valid: ";
        let table: &[(&str, &str)] = &[
            ("", "unexpected end of JSON input"),
            ("{\"v\":", "unexpected end of JSON input"),
            ("x", "invalid character 'x' looking for beginning of value"),
            ("é", "invalid character 'Ã' looking for beginning of value"),
            (
                r#"{"v":"meta.k8s.io/v2","rv":1,"start":"a"}"#,
                "server does not recognize this encoded version meta.k8s.io/v2",
            ),
            (r#"{"rv":1,"start":"a"}"#, "server does not recognize this encoded version "),
            (
                r#"{"v":"meta.k8s.io/v1","start":"a"}"#,
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
            (
                r#"{"v":"meta.k8s.io/v1","rv":1,"start":""}"#,
                "encoded start key empty (version meta.k8s.io/v1)",
            ),
            (r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../x"}"#, "../x"),
        ];
        for (json, expected) in table {
            assert_eq!(of_json(json), format!("{not_valid}{expected}"), "{json}");
        }
        assert_eq!(of("abc"), format!("{not_valid}invalid character 'i' looking for beginning of value"));
        assert_eq!(of("ab=="), format!("{not_valid}illegal base64 data at input byte 2"));
        assert_eq!(
            of(&"a".repeat(TOKEN_LEN_MAX + 1)),
            format!("{not_valid}longer than any token that was given out")
        );
        let escaped = format!(r#"{{"v":"meta.k8s.io/v1","rv":7,"start":"{}"}}"#, "<".repeat(1000));
        assert_eq!(
            of(&base64url::encode(escaped.as_bytes())),
            format!("{not_valid}longer than any token that was given out")
        );
        for json in [
            r#"{"v":"meta.k8s.io/v1","rv":"1","start":"a"}"#,
            r#"{"v":"meta.k8s.io/v1","rv":1.5,"start":"a"}"#,
            r#"{"v":"meta.k8s.io/v1","rv":99999999999999999999,"start":"a"}"#,
            r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a"} x"#,
            "[]",
            "{\"start\":\"\u{0}\"}",
        ] {
            assert!(of_json(json).starts_with(not_valid), "{json}");
        }
    }

    #[test]
    fn a_start_stays_within_its_list() {
        let decode = |start: &str| {
            let json = format!(r#"{{"v":"meta.k8s.io/v1","rv":7,"start":"{start}"}}"#);
            Continuation::decode(&base64url::encode(json.as_bytes()))
        };
        for start in
            ["..", "../a", "/../a", "a/..", "a/../b", "./a", "a/.", "//a", "a//b", "a/", "/a/", "//", "."]
        {
            assert_eq!(decode(start), Err(ContinueError::Start(start.to_owned())), "{start}");
        }
        for (start, expected) in
            [("a", "a"), ("/a/b", "a/b"), ("/..a/...", "..a/..."), ("/", ""), ("a\\u0000", "a\0")]
        {
            assert_eq!(decode(start), Ok(exact(7, expected)), "{start}");
        }
    }

    #[test]
    fn any_key_survives_the_round_trip() {
        for key in ["a", "ns/name", "a<b>&\"\\", "\u{2028}é", "a\r\n"] {
            for at in [PageRevision::Exact(Revision::new(u64::from(u32::MAX))), PageRevision::Latest] {
                let line = if at == PageRevision::Latest { 0 } else { 0xab };
                let page = Continuation::behind(key, at, line);
                assert_eq!(Continuation::decode(&page.encode()), Ok(page));
            }
        }
    }

    #[test]
    fn noise_never_panics() {
        let pieces: &[&[u8]] = &[
            b"{",
            b"}",
            b"\"v\":",
            b"\"meta.k8s.io/v1\"",
            b",",
            b"\"rv\":",
            b"1",
            b"-",
            b"\"start\":\"",
            b"/",
            b"\"",
        ];
        for seed in 0..20_000 {
            let mut noise = Noise(seed);
            let parts = noise.below(12);
            let json = noise.text(pieces, parts);
            let raw = String::from_utf8_lossy(&json).into_owned();
            for token in [base64url::encode(&json), raw] {
                if let Err(error) = Continuation::decode(&token) {
                    assert!(error.to_string().starts_with("invalid continue token: "), "seed {seed}");
                }
            }
        }
    }
}
