//! A `Status` as JSON, in the member order of Go's `metav1.Status`.

use super::{Cause, Details, Layout, Status};
use crate::http::text::{push_formatted, push_json_string};

impl Status {
    /// The body of a response; 406 is always pretty (recording 12).
    #[must_use]
    pub fn to_body(&self, layout: Layout) -> Vec<u8> {
        let layout = self.layout_forced.unwrap_or(layout);
        let mut json = self.write(layout);
        if layout == Layout::Compact {
            json.push('\n');
        }
        json.into_bytes()
    }

    /// The object alone, on one line and without a line feed: the object of an ERROR event.
    #[must_use]
    pub fn to_json(&self) -> String {
        self.write(Layout::Compact)
    }

    fn write(&self, layout: Layout) -> String {
        let mut json = Writer::new(layout);
        json.open('{');
        json.string("kind", "Status");
        json.string("apiVersion", "v1");
        json.name("metadata");
        json.open('{');
        json.string_if_any("continue", &self.continue_token);
        json.close('}');
        json.string("status", if self.success { "Success" } else { "Failure" });
        json.string_if_any("message", &self.message);
        json.string_if_any("reason", self.reason);
        if let Some(details) = &self.details {
            write_details(&mut json, details);
        }
        if !self.success {
            json.number("code", u32::from(self.code));
        }
        json.close('}');
        json.out
    }
}

fn write_details(json: &mut Writer, details: &Details) {
    json.name("details");
    json.open('{');
    json.string_if_any("name", &details.name);
    json.string_if_any("group", &details.group);
    json.string_if_any("kind", &details.kind);
    json.string_if_any("uid", &details.uid);
    if !details.causes.is_empty() {
        json.name("causes");
        json.open('[');
        for cause in &details.causes {
            json.item();
            write_cause(json, cause);
        }
        json.close(']');
    }
    if details.retry_after_seconds > 0 {
        json.number("retryAfterSeconds", details.retry_after_seconds);
    }
    json.close('}');
}

fn write_cause(json: &mut Writer, cause: &Cause) {
    json.open('{');
    json.string_if_any("reason", &cause.reason);
    json.string_if_any("message", &cause.message);
    json.string_if_any("field", &cause.field);
    json.close('}');
}

/// Writes members one after another, with commas and, when pretty, line breaks.
struct Writer {
    out: String,
    layout: Layout,
    depth: usize,
    /// Whether the innermost object or array is still empty.
    empty: bool,
}

impl Writer {
    const fn new(layout: Layout) -> Self {
        Self { out: String::new(), layout, depth: 0, empty: true }
    }

    fn open(&mut self, bracket: char) {
        self.out.push(bracket);
        self.depth += 1;
        self.empty = true;
    }

    fn close(&mut self, bracket: char) {
        self.depth -= 1;
        if !self.empty {
            self.line();
        }
        self.out.push(bracket);
        self.empty = false;
    }

    /// Begins the next member or element.
    fn item(&mut self) {
        if !self.empty {
            self.out.push(',');
        }
        self.empty = false;
        self.line();
    }

    fn line(&mut self) {
        if self.layout == Layout::Pretty {
            self.out.push('\n');
            for _ in 0..self.depth {
                self.out.push_str("  ");
            }
        }
    }

    fn name(&mut self, name: &str) {
        self.item();
        push_json_string(&mut self.out, name);
        self.out.push(':');
        if self.layout == Layout::Pretty {
            self.out.push(' ');
        }
    }

    fn string(&mut self, name: &str, value: &str) {
        self.name(name);
        push_json_string(&mut self.out, value);
    }

    fn string_if_any(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.string(name, value);
        }
    }

    fn number(&mut self, name: &str, value: u32) {
        self.name(name);
        push_formatted(&mut self.out, format_args!("{value}"));
    }
}
