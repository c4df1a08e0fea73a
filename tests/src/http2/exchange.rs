//! One stream as its client sees it: the answer so far, and how it ended.

use serde_json::Value;

use super::hpack::Field;
use super::inspection;

/// An answer, as far as it came.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// The code; 0: no head yet.
    pub status: u16,
    /// Codes of heads before it (RFC 9110, section 15.2).
    pub interim: Vec<u16>,
    /// Without pseudo-header fields.
    pub fields: Vec<Field>,
    /// Payloads of DATA.
    pub body: Vec<u8>,
    /// Fields after the body.
    pub trailers: Vec<Field>,
}

impl Response {
    /// The first field of this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; null if it is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

#[derive(Debug, Default)]
pub(super) struct Exchange {
    pub(super) response: Response,
    /// The server ended its half.
    pub(super) ended: bool,
    /// The code with which the server reset it.
    pub(super) reset: Option<u32>,
    /// The client reset it: what still comes was under way.
    pub(super) cancelled: bool,
    /// The answer has no body, whatever its head says (HEAD).
    pub(super) bodiless: bool,
    /// Bytes of the body that were given out as lines.
    pub(super) taken: usize,
}

impl Exchange {
    /// A whole field section came.
    pub(super) fn on_fields(&mut self, fields: Vec<Field>, end: bool) -> Result<(), String> {
        if self.response.status != 0 {
            inspection::check_trailers(&fields, end)?;
            self.response.trailers = fields;
        } else {
            let status = inspection::check_head(&fields)?;
            if status < 200 {
                if end {
                    return Err(format!("{status} with END_STREAM"));
                }
                self.response.interim.push(status);
                return Ok(());
            }
            self.response.status = status;
            self.response.fields = fields.into_iter().skip(1).collect();
        }
        if end { self.on_end() } else { Ok(()) }
    }

    pub(super) fn on_data(&mut self, data: &[u8], end: bool) -> Result<(), String> {
        if self.response.status == 0 {
            return Err("DATA before HEADERS".to_owned());
        }
        if self.bodiless && !data.is_empty() {
            return Err("a body after HEAD".to_owned());
        }
        self.response.body.extend_from_slice(data);
        if end { self.on_end() } else { Ok(()) }
    }

    fn on_end(&mut self) -> Result<(), String> {
        self.ended = true;
        let without = self.bodiless || self.response.status == 304;
        let length = self.response.field("content-length").filter(|_| !without);
        match length {
            Some(length) if length != self.response.body.len().to_string() => {
                Err(format!("content-length: {length}, and {} bytes of DATA", self.response.body.len()))
            }
            _ => Ok(()),
        }
    }

    /// The next line of the body, without its newline.
    pub(super) fn take_line(&mut self) -> Option<String> {
        let rest = &self.response.body[self.taken..];
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let line = String::from_utf8_lossy(&rest[..end]).into_owned();
        self.taken += end + 1;
        Some(line)
    }

    /// Whether everything was given out, besides heartbeats.
    pub(super) fn is_drained(&self) -> bool {
        self.response.body[self.taken..].iter().all(|byte| *byte == b' ')
    }
}
