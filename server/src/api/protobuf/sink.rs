//! Where JSON is written: into bytes, or nowhere, to learn whether it could be.

use jiff::Timestamp;
use revcast_engine::decimal::decimal;

use super::text::{push_base64, push_compact, push_text, push_time};

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
    /// A string of this time, in seconds or in microseconds.
    fn time(&mut self, time: Timestamp, micros: bool);
    /// Valid JSON, compacted, with Go's escapes.
    fn json(&mut self, json: &[u8]);
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
        if number < 0 {
            self.push(b'-');
        }
        self.extend_from_slice(decimal(number.unsigned_abs(), &mut [0; 20]));
    }

    fn time(&mut self, time: Timestamp, micros: bool) {
        push_time(self, time, micros);
    }

    fn json(&mut self, json: &[u8]) {
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

    fn time(&mut self, _: Timestamp, _: bool) {}

    fn json(&mut self, _: &[u8]) {}
}
