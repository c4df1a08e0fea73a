//! JSON values as YAML, byte for byte as Kubernetes writes them.
//!
//! Owns the block style of `sigs.k8s.io/yaml` (go-yaml v2 over libyaml's emitter): keys in natural order, sequences not
//! indented under their key, lines folded at the first space after column 80, literal blocks for text of several lines,
//! double quotes around text that would be read as something else (recording 17). It never reads YAML, and it writes no
//! tags, anchors, comments or document marks.
//!
//! A mapping at the top level is written as its members one below the other, and a sequence as its items: documents
//! that are written one after another are one document, which is how long lists are written in pieces.

mod order;
mod scalar;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use super::indent::bytes_max;
use scalar::{Look, reads_as_text};

/// Lines are folded at a space after this column.
const WIDTH: usize = 80;
/// The indent of a level.
const STEP: usize = 2;
/// The longest key, in bytes, that is written before its colon; a longer one gets a `?`.
const SIMPLE_KEY_BYTES_MAX: usize = 128;

/// Appends a whole document, with the line feed at its end.
pub fn push(out: &mut Vec<u8>, value: &Value) {
    write(out, value, usize::MAX);
}

/// JSON text as YAML. JSON that cannot be represented (nested too deeply, or a number out of range), or that would be
/// mostly indent, stays as it is, with a line feed: JSON is YAML too.
#[must_use]
pub fn from_json(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() + json.len() / 4);
    push_or_keep(&mut out, serde_json::from_slice(json).ok(), b"", json);
    out
}

/// Appends one item of a top-level sequence, given as JSON text; see [`from_json`].
pub fn push_item(out: &mut Vec<u8>, json: &[u8]) {
    let value = serde_json::from_slice(json).ok();
    push_or_keep(out, value.map(|value| Value::Array(vec![value])), b"- ", json);
}

/// Appends `value`, the parsed `json`, as a document; without a value, or when it gets too long, `json` itself after
/// `mark`.
fn push_or_keep(out: &mut Vec<u8>, value: Option<Value>, mark: &[u8], json: &[u8]) {
    let start = out.len();
    if value.is_some_and(|value| write(out, &value, start.saturating_add(bytes_max(json.len())))) {
        return;
    }
    out.truncate(start);
    out.shrink_to(start + mark.len() + json.len() + 1);
    out.extend_from_slice(mark);
    out.extend_from_slice(json.trim_ascii_end());
    out.push(b'\n');
}

/// Appends a whole document; false when `out` reached `end` before the document was complete: then what was written is
/// incomplete.
fn write(out: &mut Vec<u8>, value: &Value, end: usize) -> bool {
    let mut writer = Writer { out, end, column: 0, white: true, indention: true };
    writer.node(value, None, false);
    if writer.column > 0 {
        writer.line_break();
    }
    !writer.is_full()
}

/// How a text is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

/// The state of the output.
struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// Nothing is written beyond this many bytes.
    end: usize,
    /// In characters, from 0.
    column: usize,
    /// Whether the last output counts as white space: no other is needed.
    white: bool,
    /// Whether this line has nothing yet except indent and the marks of items and keys.
    indention: bool,
}

impl Writer<'_> {
    /// One value inside a collection whose members are at `indent`; `None`: the document itself.
    fn node(&mut self, value: &Value, indent: Option<usize>, in_mapping: bool) {
        if self.is_full() {
            return;
        }
        match value {
            Value::Null => self.plain("null", 0, false),
            Value::Bool(true) => self.plain("true", 0, false),
            Value::Bool(false) => self.plain("false", 0, false),
            Value::Number(number) => self.plain(&scalar::number(number), 0, false),
            Value::String(text) => self.text(text, indent, false),
            Value::Array(items) if items.is_empty() => {
                self.indicator("[", true, false);
                self.indicator("]", false, false);
            }
            Value::Object(members) if members.is_empty() => {
                self.indicator("{", true, false);
                self.indicator("}", false, false);
            }
            Value::Array(items) => {
                // Under a key on the same line a sequence is not indented.
                let indent = match indent {
                    Some(indent) if !in_mapping || self.indention => indent + STEP,
                    Some(indent) => indent,
                    None => 0,
                };
                for item in items {
                    self.line(indent);
                    self.indicator("-", true, true);
                    self.node(item, Some(indent), false);
                }
            }
            Value::Object(members) => self.mapping(members, indent.map_or(0, |indent| indent + STEP)),
        }
    }

    fn mapping(&mut self, members: &Map<String, Value>, indent: usize) {
        let mut sorted: Vec<(&String, &Value)> = members.iter().collect();
        order::sort(&mut sorted);
        for (key, value) in sorted {
            self.line(indent);
            if key.len() <= SIMPLE_KEY_BYTES_MAX && !key.chars().any(scalar::is_break) {
                self.text(key, Some(indent), true);
                self.indicator(":", false, false);
            } else {
                self.indicator("?", true, true);
                self.text(key, Some(indent), false);
                self.line(indent);
                self.indicator(":", true, true);
            }
            self.node(value, Some(indent), true);
        }
    }

    /// A text; `simple_key`: it must stay on one line.
    fn text(&mut self, text: &str, indent: Option<usize>, simple_key: bool) {
        let look = Look::at(text);
        let mut style = if text.contains('\n') {
            Style::Literal
        } else if reads_as_text(text) {
            Style::Plain
        } else {
            Style::Double
        };
        if style == Style::Plain && !look.plain_allowed {
            style = Style::Single;
        }
        if style == Style::Single && !look.single_allowed {
            style = Style::Double;
        }
        if style == Style::Literal && (simple_key || !look.literal_allowed) {
            style = Style::Double;
        }
        let indent = indent.unwrap_or(0) + STEP;
        match style {
            Style::Plain => self.plain(text, indent, !simple_key),
            Style::Single => self.single_quoted(text, indent, !simple_key),
            Style::Double => self.double_quoted(text, indent, !simple_key),
            Style::Literal => self.literal(text, indent),
        }
    }

    fn plain(&mut self, text: &str, indent: usize, folds: bool) {
        if !self.white {
            self.put(' ');
        }
        let mut behind_space = false;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let fold =
                c == ' ' && folds && !behind_space && self.column > WIDTH && chars.peek() != Some(&' ');
            if fold {
                self.line(indent)
            } else {
                self.put(c)
            }
            behind_space = c == ' ';
        }
        self.white = false;
        self.indention = false;
    }

    fn single_quoted(&mut self, text: &str, indent: usize, folds: bool) {
        self.indicator("'", true, false);
        let mut behind_space = false;
        let mut behind_break = false;
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            if c == ' ' {
                let inside = at > 0 && at + 1 < text.len();
                let doubled = chars.peek().is_some_and(|(_, next)| *next == ' ');
                if folds && !behind_space && self.column > WIDTH && inside && !doubled {
                    self.line(indent);
                } else {
                    self.put(c);
                }
                behind_space = true;
                continue;
            }
            if scalar::is_break(c) {
                self.put_break(c);
                self.indention = true;
                behind_break = true;
                continue;
            }
            if behind_break {
                self.line(indent);
            }
            if c == '\'' {
                self.put(c);
            }
            self.put(c);
            self.indention = false;
            behind_space = false;
            behind_break = false;
        }
        self.indicator("'", false, false);
        self.indention = false;
    }

    fn double_quoted(&mut self, text: &str, indent: usize, folds: bool) {
        self.indicator("\"", true, false);
        let mut behind_space = false;
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            if c == ' ' {
                let inside = at > 0 && at + 1 < text.len();
                if folds && !behind_space && self.column > WIDTH && inside {
                    self.line(indent);
                    if chars.peek().is_some_and(|(_, next)| *next == ' ') {
                        // The first of several spaces would be lost at the beginning of a line.
                        self.put('\\');
                    }
                } else {
                    self.put(c);
                }
                behind_space = true;
                continue;
            }
            behind_space = false;
            if scalar::is_printable(c) && !scalar::is_break(c) && c != '"' && c != '\\' {
                self.put(c);
            } else {
                for escaped in scalar::escape(c).chars() {
                    self.put(escaped);
                }
            }
        }
        self.indicator("\"", false, false);
        self.indention = false;
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.indicator("|", true, false);
        if text.starts_with(|c| c == ' ' || scalar::is_break(c)) {
            self.indicator("2", false, false);
        }
        let mut backwards = text.chars().rev();
        match (backwards.next().map(scalar::is_break), backwards.next().map(scalar::is_break)) {
            (Some(true), Some(false)) => {}
            (Some(true), Some(true) | None) => self.indicator("+", false, false),
            (Some(false) | None, _) => self.indicator("-", false, false),
        }
        self.line_break();
        self.indention = true;
        self.white = true;
        let mut behind_break = true;
        for c in text.chars() {
            if scalar::is_break(c) {
                self.put_break(c);
                self.indention = true;
                behind_break = true;
            } else {
                if behind_break {
                    self.line(indent);
                }
                self.put(c);
                self.indention = false;
                behind_break = false;
            }
        }
    }

    /// Moves to `indent`, on a new line unless this one has room for it.
    fn line(&mut self, indent: usize) {
        if self.is_full() {
            return;
        }
        if !self.indention || self.column > indent || (self.column == indent && !self.white) {
            self.line_break();
        }
        while self.column < indent {
            self.put(' ');
        }
        self.white = true;
        self.indention = true;
    }

    /// A mark; `indents` when the following value may be on its line as if it began there.
    fn indicator(&mut self, mark: &str, needs_white: bool, indents: bool) {
        if needs_white && !self.white {
            self.put(' ');
        }
        for c in mark.chars() {
            self.put(c);
        }
        self.white = false;
        self.indention = self.indention && indents;
    }

    fn put(&mut self, c: char) {
        self.column += 1;
        if !self.is_full() {
            let mut bytes = [0; 4];
            self.out.extend_from_slice(c.encode_utf8(&mut bytes).as_bytes());
        }
    }

    /// A line break that is part of a text.
    fn put_break(&mut self, c: char) {
        if c == '\n' {
            self.line_break();
        } else {
            self.put(c);
            self.column = 0;
        }
    }

    fn line_break(&mut self) {
        if !self.is_full() {
            self.out.push(b'\n');
        }
        self.column = 0;
    }

    /// Whether output is discarded: once full it stays full.
    const fn is_full(&self) -> bool {
        self.out.len() >= self.end
    }
}
