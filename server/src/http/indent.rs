//! JSON on many lines, for people: two spaces per level, as Go's `json.Indent` does it.
//!
//! Owns the line breaks, also of a text that comes in parts, and the bound on its growth. It never parses: scalars are
//! copied byte for byte.

/// An indented text may be this many times as long as the compact one, and [`MORE_BYTES`] longer: Kubernetes' objects
/// become three times as long. Without a bound a list of digits inside 120 others makes 125 MiB of 1, nearly all of it
/// spaces.
const TIMES_MAX: usize = 4;
/// Short texts may be nested deeply: the schemas of declared resources are, in short lines.
const MORE_BYTES: usize = 1 << 20;

/// The most bytes of an indented text whose compact form has `bytes`.
pub(super) const fn bytes_max(bytes: usize) -> usize {
    bytes.saturating_mul(TIMES_MAX).saturating_add(MORE_BYTES)
}

/// A whole text, indented; `None`: it would grow beyond the bound.
#[must_use]
pub fn indented(json: &[u8]) -> Option<Vec<u8>> {
    let mut indent = Indent::default();
    let bytes = indent.length_of(json);
    if bytes > bytes_max(json.len()) {
        return None;
    }
    let mut out = Vec::with_capacity(bytes);
    indent.push(&mut out, json);
    Some(out)
}

/// The state of a text that is indented part by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Indent {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// After an opening bracket, whose line break waits for the first content: `{}` and `[]` stay closed.
    opened: bool,
}

impl Indent {
    /// Appends the next part of the text, wherever it was cut.
    pub fn push(&mut self, out: &mut Vec<u8>, json: &[u8]) {
        self.write(out, json);
    }

    /// Appends a whole value: on one line if it would grow beyond the bound on many.
    pub fn push_value(&mut self, out: &mut Vec<u8>, json: &[u8]) {
        let bytes = self.length_of(json);
        if bytes <= bytes_max(json.len()) {
            out.reserve(bytes);
            self.write(out, json);
            return;
        }
        if std::mem::take(&mut self.opened) {
            out.line(self.depth);
        }
        out.extend_from_slice(json);
    }

    /// How many bytes [`push`](Self::push) would append.
    fn length_of(mut self, json: &[u8]) -> usize {
        let mut count = Count(0);
        self.write(&mut count, json);
        count.0
    }

    fn write(&mut self, ink: &mut impl Ink, json: &[u8]) {
        for &byte in json {
            if self.in_string {
                self.in_string = self.escaped || byte != b'"';
                self.escaped = byte == b'\\' && !self.escaped;
                ink.byte(byte);
                continue;
            }
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => continue,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if !std::mem::take(&mut self.opened) {
                        ink.line(self.depth);
                    }
                    ink.byte(byte);
                    continue;
                }
                _ => {}
            }
            if std::mem::take(&mut self.opened) {
                ink.line(self.depth);
            }
            ink.byte(byte);
            match byte {
                b'{' | b'[' => {
                    self.depth += 1;
                    self.opened = true;
                }
                b',' => ink.line(self.depth),
                b':' => ink.byte(b' '),
                _ => self.in_string = byte == b'"',
            }
        }
    }
}

/// The destination of an indented text.
trait Ink {
    fn byte(&mut self, byte: u8);

    /// A line break and the spaces after it.
    fn line(&mut self, depth: usize);
}

impl Ink for Vec<u8> {
    fn byte(&mut self, byte: u8) {
        self.push(byte);
    }

    fn line(&mut self, depth: usize) {
        self.push(b'\n');
        self.resize(self.len() + depth * 2, b' ');
    }
}

/// Counts the length only.
struct Count(usize);

impl Ink for Count {
    fn byte(&mut self, _byte: u8) {
        self.0 += 1;
    }

    fn line(&mut self, depth: usize) {
        self.0 += 1 + depth * 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODD: &[u8] = br#"{"a":{},"b":[],"c":[1,{"d":"x{,:\"}\\"}],"e":1.50,"f":null}"#;

    /// Some digits inside of `depth` lists.
    fn nested(depth: usize, digits: usize) -> Vec<u8> {
        format!("{}0{}{}", "[".repeat(depth), ",0".repeat(digits - 1), "]".repeat(depth)).into_bytes()
    }

    #[test]
    fn indenting_is_that_of_go() {
        let expected = "{\n  \"a\": {},\n  \"b\": [],\n  \"c\": [\n    1,\n    {\n      \"d\": \"x{,:\\\"}\\\\\"\n    }\n  ],\n  \"e\": 1.50,\n  \"f\": null\n}";
        let whole = indented(ODD).expect("a short text");
        assert_eq!(String::from_utf8_lossy(&whole), expected);
        let value: serde_json::Value =
            serde_json::from_str(r#"{"k":[{"x":1},[],{}],"s":"a b"}"#).expect("JSON");
        assert_eq!(
            indented(value.to_string().as_bytes()),
            Some(serde_json::to_vec_pretty(&value).expect("JSON"))
        );
    }

    #[test]
    fn parts_make_the_same_text() {
        let whole = indented(ODD).expect("a short text");
        for cut in 0..=ODD.len() {
            let (mut indent, mut out) = (Indent::default(), Vec::new());
            indent.push(&mut out, &ODD[..cut]);
            assert_eq!(indent.length_of(&ODD[cut..]), whole.len() - out.len(), "cut at {cut}");
            indent.push(&mut out, &ODD[cut..]);
            assert_eq!(out, whole, "cut at {cut}");
        }
    }

    #[test]
    fn what_would_be_spaces_alone_is_not_indented() {
        let wide = nested(120, 10_000);
        assert!(Indent::default().length_of(&wide) > 100 * wide.len());
        assert_eq!(indented(&wide), None);
        // Short, or hardly nested: as before.
        for fine in [nested(120, 1_000), nested(2, 100_000)] {
            let indented = indented(&fine).expect("in proportion");
            assert!(indented.len() > 2 * fine.len() && indented.len() <= bytes_max(fine.len()));
        }
        // Only one value of a list: the others stay as they are, and all of it is JSON.
        let (mut indent, mut out) = (Indent::default(), Vec::new());
        indent.push(&mut out, b"{\"items\":[");
        indent.push_value(&mut out, &wide);
        indent.push(&mut out, b",");
        indent.push_value(&mut out, b"{\"a\":[]}");
        indent.push(&mut out, b"]}");
        let wide = String::from_utf8(wide).expect("text");
        let expected = format!("{{\n  \"items\": [\n    {wide},\n    {{\n      \"a\": []\n    }}\n  ]\n}}");
        assert!(String::from_utf8_lossy(&out) == expected, "{} bytes", out.len());
    }
}
