//! Where JSON is written: into bytes, or nowhere, to learn whether it could be.

use std::io::Write;

use jiff::Timestamp;

use super::text::{push_base64, push_text};

/// Takes the parts of a JSON text.
pub(super) trait Sink {
    /// A byte outside text.
    fn push(&mut self, byte: u8);
    /// Bytes outside text.
    fn extend_from_slice(&mut self, bytes: &[u8]);
    /// Whether an object was opened, and nothing was written into it.
    fn is_open(&self) -> bool;
    /// A string of this text, with Go's escapes.
    fn text(&mut self, text: &[u8]);
    /// A string of these bytes in base64.
    fn base64(&mut self, bytes: &[u8]);
    fn number(&mut self, number: i64);
    /// A string of this time, as `strftime` writes it.
    fn time(&mut self, time: Timestamp, format: &str);
    /// Valid JSON, compacted, with Go's escapes.
    fn json(&mut self, json: &str);
}

impl Sink for Vec<u8> {
    fn push(&mut self, byte: u8) {
        Self::push(self, byte);
    }

    fn extend_from_slice(&mut self, bytes: &[u8]) {
        Self::extend_from_slice(self, bytes);
    }

    fn is_open(&self) -> bool {
        self.last() == Some(&b'{')
    }

    fn text(&mut self, text: &[u8]) {
        push_text(self, text);
    }

    fn base64(&mut self, bytes: &[u8]) {
        push_base64(self, bytes);
    }

    fn number(&mut self, number: i64) {
        // Writing to a Vec does not fail.
        let _ = write!(self, "{number}");
    }

    fn time(&mut self, time: Timestamp, format: &str) {
        let _ = write!(self, "\"{}\"", time.strftime(format));
    }

    fn json(&mut self, json: &str) {
        push_compact(self, json);
    }
}

/// Nothing is written.
#[derive(Debug)]
pub(super) struct Nowhere;

impl Sink for Nowhere {
    fn push(&mut self, _: u8) {}

    fn extend_from_slice(&mut self, _: &[u8]) {}

    fn is_open(&self) -> bool {
        true
    }

    fn text(&mut self, _: &[u8]) {}

    fn base64(&mut self, _: &[u8]) {}

    fn number(&mut self, _: i64) {}

    fn time(&mut self, _: Timestamp, _: &str) {}

    fn json(&mut self, _: &str) {}
}

/// Appends valid JSON without the spaces between its tokens, and with Go's escapes.
fn push_compact(out: &mut Vec<u8>, json: &str) {
    let (mut in_text, mut escaped, mut copied) = (false, false, 0);
    let mut push = |from: &mut usize, to: usize| {
        revcast_engine::escape::push(out, &json.as_bytes()[*from..to]);
        *from = to + 1;
    };
    for (at, byte) in json.bytes().enumerate() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' if !in_text => push(&mut copied, at),
            b'"' if !escaped => in_text = !in_text,
            _ => {}
        }
        escaped = in_text && byte == b'\\' && !escaped;
    }
    push(&mut copied, json.len());
}
