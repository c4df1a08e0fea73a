//! What a server must keep to (RFC 9113): windows and sizes of its client, and the form of its answers.

use std::collections::{BTreeMap, VecDeque};

use super::frame::setting;
use super::hpack::Field;

/// The largest window, and the largest stream.
pub(super) const MOST: u32 = (1 << 31) - 1;
/// What every window is at first.
const WINDOW: u32 = 65_535;
/// The largest payload at first.
const PAYLOAD_BYTES: u32 = 16_384;

/// Fields that speak of one connection of HTTP/1.1 (section 8.2.2).
const OF_CONNECTIONS: [&str; 5] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// What the client announced. The server may still use what held before, until it acknowledges.
#[derive(Debug)]
pub(super) struct Announced {
    held: Vec<(u16, u32)>,
    pending: VecDeque<Vec<(u16, u32)>>,
}

impl Default for Announced {
    fn default() -> Self {
        let held = vec![(setting::INITIAL_WINDOW_SIZE, WINDOW), (setting::MAX_FRAME_SIZE, PAYLOAD_BYTES)];
        Self { held, pending: VecDeque::new() }
    }
}

impl Announced {
    pub(super) fn announce(&mut self, settings: Vec<(u16, u32)>) {
        self.pending.push_back(settings);
    }

    /// The server acknowledged the oldest: what it was. `None`: there was nothing to acknowledge.
    pub(super) fn acknowledge(&mut self) -> Option<Vec<(u16, u32)>> {
        let settings = self.pending.pop_front()?;
        self.held.extend(&settings);
        Some(settings)
    }

    /// Whether the server owes an acknowledgement.
    pub(super) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The most that a setting allows at this time.
    pub(super) fn most(&self, name: u16) -> u32 {
        let last = |settings: &[(u16, u32)]| {
            settings.iter().rev().find(|(key, _)| *key == name).map(|(_, value)| *value)
        };
        let pending = self.pending.iter().filter_map(|settings| last(settings));
        pending.chain(last(&self.held)).max().unwrap_or_default()
    }
}

/// The windows of one direction. A stream's is what it began with, and the sum here.
#[derive(Debug)]
pub(super) struct Windows {
    connection: i64,
    streams: BTreeMap<u32, i64>,
}

impl Default for Windows {
    fn default() -> Self {
        Self { connection: WINDOW.into(), streams: BTreeMap::new() }
    }
}

impl Windows {
    /// More of the window of a stream, or of the connection (0).
    pub(super) fn open(&mut self, stream: u32, bytes: u32) {
        match stream {
            0 => self.connection += i64::from(bytes),
            _ => *self.streams.entry(stream).or_default() += i64::from(bytes),
        }
    }

    /// DATA of a stream.
    pub(super) fn consume(&mut self, stream: u32, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.connection -= bytes;
        *self.streams.entry(stream).or_default() -= bytes;
    }

    pub(super) const fn of_connection(&self) -> i64 {
        self.connection
    }

    /// The window of a stream that began with `initial`.
    pub(super) fn of_stream(&self, stream: u32, initial: u32) -> i64 {
        i64::from(initial) + self.streams.get(&stream).copied().unwrap_or_default()
    }
}

/// Whether a server may announce this (sections 6.5.2; RFC 8441, section 3).
pub(super) fn check_setting(name: u16, value: u32) -> Result<(), String> {
    let valid = match name {
        setting::ENABLE_PUSH => value == 0,
        setting::INITIAL_WINDOW_SIZE => value <= MOST,
        setting::MAX_FRAME_SIZE => (PAYLOAD_BYTES..1 << 24).contains(&value),
        setting::ENABLE_CONNECT_PROTOCOL | setting::NO_RFC7540_PRIORITIES => value <= 1,
        _ => true,
    };
    if valid { Ok(()) } else { Err(format!("setting {name} is {value}")) }
}

/// The status in the head of an answer.
pub(super) fn check_head(fields: &[Field]) -> Result<u16, String> {
    let (first, rest) = fields.split_first().ok_or("no fields")?;
    let status = Some(first).filter(|(name, value)| name == ":status" && value.len() == 3);
    let status =
        status.and_then(|(_, value)| value.parse().ok()).ok_or_else(|| format!("no status: {first:?}"))?;
    check_regular(rest)?;
    Ok(status)
}

pub(super) fn check_trailers(fields: &[Field], end: bool) -> Result<(), String> {
    if !end {
        return Err("a second head without END_STREAM".to_owned());
    }
    check_regular(fields)
}

/// Regular fields: in lower case, of this message and not of the connection.
fn check_regular(fields: &[Field]) -> Result<(), String> {
    for (name, value) in fields {
        let of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        if name.is_empty() || !name.bytes().all(of_name) {
            return Err(format!("the name of a field: {name:?}"));
        }
        if OF_CONNECTIONS.contains(&name.as_str()) {
            return Err(format!("a field of HTTP/1.1: {name}"));
        }
        if value.contains(['\0', '\r', '\n']) || value.trim_matches([' ', '\t']) != value {
            return Err(format!("the value of {name}: {value:?}"));
        }
    }
    Ok(())
}
