//! The operators' page: one document of HTML with its style and its script, which the binary carries.
//!
//! Owns what of them may run: the policy names the two by their digests, and nothing else is loaded or run, from anywhere. The page
//! itself says nothing of a server and needs no right. Its script reads `/status?watch=1`, with a token that is typed in and kept in the
//! memory of the page.

use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ring::digest::{SHA256, digest};

/// Its media type.
pub const HTML: &str = "text/html; charset=utf-8";

const DOCUMENT: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
/// One script of several files; each is named by what it has.
const SCRIPTS: [&str; 5] = [
    include_str!("units.js"),
    include_str!("samples.js"),
    include_str!("chart.js"),
    include_str!("sections.js"),
    include_str!("page.js"),
];

/// The page, ready to be sent.
#[derive(Debug)]
pub struct Page {
    /// The document.
    pub body: Bytes,
    /// `Content-Security-Policy`.
    pub policy: String,
    /// `ETag`, with its quotes.
    pub etag: String,
}

impl Page {
    /// The page; made once.
    #[must_use]
    pub fn get() -> &'static Self {
        static PAGE: OnceLock<Page> = OnceLock::new();
        PAGE.get_or_init(Self::new)
    }

    fn new() -> Self {
        let script = format!("\n\"use strict\";\n{}", SCRIPTS.join("\n"));
        let style = format!("\n{STYLE}");
        let document = DOCUMENT.replace("/* style */", &style).replace("/* script */", &script);
        // An icon is part of the document. A form is never sent: its script reads it.
        let policy = format!(
            "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; img-src data:; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
            digest_of(&script),
            digest_of(&style)
        );
        Self { etag: format!("\"{}\"", &digest_of(&document)[..22]), policy, body: document.into() }
    }
}

fn digest_of(text: &str) -> String {
    STANDARD.encode(digest(&SHA256, text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> &'static str {
        std::str::from_utf8(&Page::get().body).expect("text")
    }

    /// What is between the only two tags of this name.
    fn within(name: &str) -> &'static str {
        let parts: Vec<&str> = document().split(&format!("<{name}>")).collect();
        let [_, after] = parts[..] else { panic!("{} of {name}", parts.len() - 1) };
        after.split(&format!("</{name}>")).next().expect("an end")
    }

    #[test]
    fn the_policy_names_what_is_in_the_document() {
        let policy = &Page::get().policy;
        for (name, directive) in [("script", "script-src"), ("style", "style-src")] {
            let named = format!("; {directive} 'sha256-{}';", digest_of(within(name)));
            assert!(policy.contains(&named), "{named} is not in {policy}");
        }
        for word in ["unsafe", "*", "http", "strict-dynamic"] {
            assert!(!policy.contains(word), "{word} in {policy}");
        }
    }

    #[test]
    fn nothing_is_loaded_from_anywhere() {
        // The name of SVG's elements is no address.
        let document = document().replace("http://www.w3.org/2000/svg", "");
        for part in [
            "http:",
            "https:",
            "//cdn",
            "src=",
            "@import",
            "url(",
            "import(",
            "importScripts",
            "<link rel=\"stylesheet",
        ] {
            assert!(!document.contains(part), "{part}");
        }
    }

    #[test]
    fn nothing_runs_but_the_script() {
        let document = document();
        assert!(!document.contains("/* style */") && !document.contains("/* script */"));
        let markup = document.replace(within("script"), "").replace(within("style"), "");
        assert!(!markup.contains(" style=") && !markup.contains("javascript:"));
        let handler = markup.split_whitespace().find(|word| word.starts_with("on") && word.contains('='));
        assert_eq!(handler, None);
        for part in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
        {
            assert!(!within("script").contains(part), "{part}");
        }
    }

    #[test]
    fn a_token_stays_in_memory() {
        let script = within("script");
        for part in [
            "localStorage",
            "sessionStorage",
            "indexedDB",
            "cookie",
            "location",
            "history.",
            "EventSource",
            "WebSocket",
        ] {
            assert!(!script.contains(part), "{part}");
        }
        let fetched: Vec<&str> = script
            .match_indices("fetch(")
            .map(|(at, _)| script[at..].split([',', ')']).next().expect("one"))
            .collect();
        assert_eq!(fetched, ["fetch(\"/status?watch=1\""]);
    }
}
