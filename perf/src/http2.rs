//! HTTP/2 (RFC 9113) as a client of watches needs it: requests out, frames in, and the windows kept open. It knows no socket. DATA
//! is given out as slices of the input, and the dynamic table of the server's field blocks is announced to have no room.

pub(crate) mod fields;

use crate::http::{Request, broken, excerpt};
use crate::wire::{Brought, End};
use std::io::{self, Error, ErrorKind};

/// Bytes of a frame's head; its payload has so many at most, as long as nothing else was announced.
pub(crate) const HEAD_BYTES: usize = 9;
pub(crate) const PAYLOAD_BYTES_MAX: usize = 16 << 10;
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The largest window. A stream's is replenished when half of it is used, and so is the connection's.
pub(crate) const WINDOW_MAX: u32 = (1 << 31) - 1;
const STREAM_OWED_MAX: u32 = 1 << 30;
const CONNECTION_WINDOW: u32 = 1 << 30;
/// What every window is before anything is announced.
pub(crate) const WINDOW_FIRST: u32 = 65_535;
const BLOCK_BYTES_MAX: usize = 64 << 10;
const WORDS_BYTES_MAX: usize = 16 << 10;

pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
}

pub(crate) mod flag {
    pub(crate) const ACK: u8 = 1;
    pub(crate) const END_STREAM: u8 = 1;
    pub(crate) const END_HEADERS: u8 = 4;
    pub(crate) const PADDED: u8 = 8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

mod setting {
    pub(super) const HEADER_TABLE_SIZE: u16 = 1;
    pub(super) const ENABLE_PUSH: u16 = 2;
    pub(super) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;
}

const CANCEL: u32 = 8;
const ERRORS: &str = "NO_ERROR PROTOCOL_ERROR INTERNAL_ERROR FLOW_CONTROL_ERROR SETTINGS_TIMEOUT STREAM_CLOSED FRAME_SIZE_ERROR \
    REFUSED_STREAM CANCEL COMPRESSION_ERROR CONNECT_ERROR ENHANCE_YOUR_CALM INADEQUATE_SECURITY HTTP_1_1_REQUIRED";

fn error_name(code: u32) -> String {
    let known = ERRORS.split(' ').nth(code as usize);
    known.map_or_else(|| format!("error {code}"), str::to_owned)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) length: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl Head {
    pub(crate) fn read(bytes: [u8; HEAD_BYTES]) -> Self {
        let [a, b, c, kind, flags, id @ ..] = bytes;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        Self { length, kind, flags, stream: u32::from_be_bytes(id) & WINDOW_MAX }
    }

    pub(crate) fn bytes(self) -> [u8; HEAD_BYTES] {
        let [_, a, b, c] = u32::try_from(self.length).unwrap_or(u32::MAX).to_be_bytes();
        let [d, e, f, g] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, d, e, f, g]
    }

    const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

pub(crate) fn push_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&Head { length: payload.len(), kind, flags, stream }.bytes());
    out.extend_from_slice(payload);
}

fn push_window(out: &mut Vec<u8>, stream: u32, bytes: u32) {
    push_frame(out, kind::WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
}

struct Stream {
    /// `None`: it is over, and what still comes of it belongs to nobody.
    owner: Option<u32>,
    /// 0: its head did not come yet.
    status: u16,
    /// Received and not yet given back to its window.
    owed: u32,
    /// The beginning of a refusal's body.
    words: Vec<u8>,
}

/// One connection. Its streams have odd numbers, in the order in which they were asked for.
pub(crate) struct Session {
    streams: Vec<Stream>,
    /// Of each stream, as announced.
    window: u32,
    streams_max: Option<u32>,
    /// The beginning of a head, or of the payload of a frame that is no DATA.
    held: Vec<u8>,
    /// Of the frame that is being read, and how much of its payload is to come.
    head: Option<(Head, usize)>,
    /// A field block that goes on in the next frame.
    block: Vec<u8>,
    block_ends_stream: bool,
    owed: u32,
    /// Why the server will take no more streams.
    pub(crate) leaving: Option<String>,
}

impl Session {
    /// A new connection, in which each stream begins with a window of `window` bytes.
    pub(crate) fn new(window: u32, out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(PREFACE);
        let settings = [
            (setting::HEADER_TABLE_SIZE, 0),
            (setting::ENABLE_PUSH, 0),
            (setting::INITIAL_WINDOW_SIZE, window),
        ];
        let settings: Vec<u8> = settings
            .iter()
            .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        push_frame(out, kind::SETTINGS, 0, 0, &settings);
        push_window(out, 0, CONNECTION_WINDOW);
        Self {
            streams: Vec::new(),
            window,
            streams_max: None,
            held: Vec::new(),
            head: None,
            block: Vec::new(),
            block_ends_stream: false,
            owed: 0,
            leaving: None,
        }
    }

    /// Asks over a new stream. `reads`: its window is as large as can be.
    pub(crate) fn ask(
        &mut self,
        owner: u32,
        request: &Request<'_>,
        reads: bool,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let id = u32::try_from(self.streams.len() * 2 + 1).unwrap_or(u32::MAX);
        self.streams.push(Stream { owner: Some(owner), status: 0, owed: 0, words: Vec::new() });
        push_frame(
            out,
            kind::HEADERS,
            flag::END_HEADERS | flag::END_STREAM,
            id,
            &fields::of_request(request),
        );
        if reads && self.window < WINDOW_MAX {
            push_window(out, id, WINDOW_MAX - self.window);
        }
        self.check_streams()
    }

    /// The owner wants no more of its stream.
    pub(crate) fn cancel(&mut self, owner: u32, out: &mut Vec<u8>) {
        if let Some(at) = self.streams.iter().rposition(|stream| stream.owner == Some(owner)) {
            self.streams[at].owner = None;
            let id = u32::try_from(at * 2 + 1).unwrap_or(u32::MAX);
            push_frame(out, kind::RST_STREAM, 0, id, &CANCEL.to_be_bytes());
        }
    }

    pub(crate) fn open_streams(&self) -> usize {
        self.streams.iter().filter(|stream| stream.owner.is_some()).count()
    }

    fn check_streams(&self) -> io::Result<()> {
        let Some(most) = self.streams_max.filter(|&most| self.open_streams() > most as usize) else {
            return Ok(());
        };
        let mend =
            format!("the server allows {most} streams a connection: give --streams-per-connection {most}");
        Err(Error::new(ErrorKind::InvalidData, mend))
    }

    /// Takes what came. Answers are appended to `out`. An error: the connection is of no more use.
    pub(crate) fn take(
        &mut self,
        mut input: &[u8],
        out: &mut Vec<u8>,
        on: &mut impl FnMut(u32, Brought<'_>),
    ) -> io::Result<()> {
        loop {
            let Some((head, left)) = self.head else {
                let Some(head) = self.next_head(&mut input) else { return Ok(()) };
                self.on_head(head, out)?;
                self.head = Some((head, head.length));
                continue;
            };
            if head.kind == kind::DATA && !head.has(flag::PADDED) {
                let (data, rest) = input.split_at(left.min(input.len()));
                input = rest;
                self.on_data(head, data, on)?;
                self.head = (data.len() < left).then_some((head, left - data.len()));
                if self.head.is_some() {
                    return Ok(());
                }
                if head.has(flag::END_STREAM) {
                    self.on_end(head.stream, on)?;
                }
                continue;
            }
            if self.held.is_empty() && input.len() >= left {
                let (payload, rest) = input.split_at(left);
                input = rest;
                self.on_frame(head, payload, out, on)?;
            } else if gather(&mut self.held, &mut input, left) {
                let payload = std::mem::take(&mut self.held);
                self.on_frame(head, &payload, out, on)?;
            } else {
                return Ok(());
            }
            self.head = None;
        }
    }

    fn next_head(&mut self, input: &mut &[u8]) -> Option<Head> {
        if self.held.is_empty()
            && let Some((head, rest)) = input.split_first_chunk()
        {
            *input = rest;
            return Some(Head::read(*head));
        }
        gather(&mut self.held, input, HEAD_BYTES).then_some(())?;
        let head = self.held.first_chunk().map(|head| Head::read(*head));
        self.held = Vec::new();
        head
    }

    /// A frame begins. Windows count its payload, with padding.
    fn on_head(&mut self, head: Head, out: &mut Vec<u8>) -> io::Result<()> {
        if head.length > PAYLOAD_BYTES_MAX {
            return Err(broken(format!(
                "frame has {} bytes, and {PAYLOAD_BYTES_MAX} is the most",
                head.length
            )));
        }
        if !self.block.is_empty() && head.kind != kind::CONTINUATION {
            return Err(broken("field block is interrupted"));
        }
        if head.kind == kind::DATA {
            let length = u32::try_from(head.length).unwrap_or(u32::MAX);
            self.owed += length;
            if self.owed >= CONNECTION_WINDOW / 2 {
                push_window(out, 0, std::mem::take(&mut self.owed));
            }
            let stream = self.stream(head.stream)?;
            stream.owed += length;
            if stream.owed >= STREAM_OWED_MAX && stream.owner.is_some() {
                push_window(out, head.stream, std::mem::take(&mut stream.owed));
            }
        }
        Ok(())
    }

    fn stream(&mut self, id: u32) -> io::Result<&mut Stream> {
        let stream = self.streams.get_mut(id as usize / 2).filter(|_| id % 2 == 1);
        stream.ok_or_else(|| broken(format!("frame is of stream {id}, which nobody opened")))
    }

    fn on_data(&mut self, head: Head, data: &[u8], on: &mut impl FnMut(u32, Brought<'_>)) -> io::Result<()> {
        let stream = self.stream(head.stream)?;
        let Some(owner) = stream.owner else { return Ok(()) };
        match stream.status {
            0 => return Err(broken("body comes before its head")),
            200 if !data.is_empty() => on(owner, Brought::Data(data)),
            200 => {}
            _ => {
                stream.words.extend_from_slice(&data[..data.len().min(WORDS_BYTES_MAX - stream.words.len())])
            }
        }
        Ok(())
    }

    fn on_end(&mut self, id: u32, on: &mut impl FnMut(u32, Brought<'_>)) -> io::Result<()> {
        let stream = self.stream(id)?;
        let words = std::mem::take(&mut stream.words);
        let end = match stream.status {
            200 => End::Whole,
            status => End::Refused(status, excerpt(&words)),
        };
        if let Some(owner) = stream.owner.take() {
            on(owner, Brought::End(end));
        }
        Ok(())
    }

    /// A whole frame that is no DATA, or one with padding.
    fn on_frame(
        &mut self,
        head: Head,
        payload: &[u8],
        out: &mut Vec<u8>,
        on: &mut impl FnMut(u32, Brought<'_>),
    ) -> io::Result<()> {
        let number =
            |at: usize| payload.get(at..at + 4)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        let short = || broken("frame is too short for what it is");
        match head.kind {
            kind::DATA => {
                self.on_data(head, unpadded(head, payload).ok_or_else(short)?, on)?;
                if head.has(flag::END_STREAM) {
                    self.on_end(head.stream, on)?;
                }
            }
            kind::HEADERS => {
                self.block_ends_stream = head.has(flag::END_STREAM);
                self.on_block(head, unpadded(head, payload).ok_or_else(short)?, on)?;
            }
            kind::CONTINUATION => self.on_block(head, payload, on)?,
            kind::RST_STREAM => {
                let code = error_name(number(0).ok_or_else(short)?);
                if let Some(owner) = self.stream(head.stream)?.owner.take() {
                    on(
                        owner,
                        Brought::End(End::Cut(format!("the server reset the stream of a watch: {code}"))),
                    );
                }
            }
            kind::SETTINGS if !head.has(flag::ACK) => {
                for entry in payload.chunks_exact(6) {
                    let [a, b, value @ ..] = entry else { continue };
                    if u16::from_be_bytes([*a, *b]) == setting::MAX_CONCURRENT_STREAMS {
                        self.streams_max = value.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
                    }
                }
                push_frame(out, kind::SETTINGS, flag::ACK, 0, &[]);
                self.check_streams()?;
            }
            kind::PING if !head.has(flag::ACK) => push_frame(out, kind::PING, flag::ACK, 0, payload),
            kind::GOAWAY => {
                let (last, code) = number(0).zip(number(4)).ok_or_else(short)?;
                let why = format!("the server sent GOAWAY: {}", error_name(code));
                let first = (last as usize).div_ceil(2).min(self.streams.len());
                for owner in self.streams[first..].iter_mut().filter_map(|stream| stream.owner.take()) {
                    on(owner, Brought::End(End::Cut(why.clone())));
                }
                self.leaving = Some(why);
            }
            kind::PUSH_PROMISE => return Err(broken("promise of a push was not asked for")),
            _ => {}
        }
        Ok(())
    }

    /// A part of a field block: of a response's head, or of what follows its body.
    fn on_block(&mut self, head: Head, part: &[u8], on: &mut impl FnMut(u32, Brought<'_>)) -> io::Result<()> {
        self.block.extend_from_slice(part);
        if self.block.len() > BLOCK_BYTES_MAX {
            return Err(broken(format!("field block is over {BLOCK_BYTES_MAX} bytes")));
        }
        if !head.has(flag::END_HEADERS) {
            return Ok(());
        }
        let block = std::mem::take(&mut self.block);
        let fields = fields::Fields::read(&block)
            .ok_or_else(|| broken("field block is broken, or uses a dynamic table"))?;
        let stream = self.stream(head.stream)?;
        if stream.status == 0 && !(100..200).contains(&fields.status) {
            stream.status = fields.status;
            if let Some(owner) = stream.owner.filter(|_| fields.status == 200) {
                on(owner, Brought::Head { gzip: fields.gzip });
            }
        }
        if self.block_ends_stream { self.on_end(head.stream, on) } else { Ok(()) }
    }
}

/// Fills `held` up to `wanted` bytes. False: not all of them are there yet.
fn gather(held: &mut Vec<u8>, input: &mut &[u8], wanted: usize) -> bool {
    let (more, rest) = input.split_at(wanted.saturating_sub(held.len()).min(input.len()));
    held.extend_from_slice(more);
    *input = rest;
    held.len() >= wanted
}

/// The payload without padding and priority. `None`: it is too short for them.
fn unpadded(head: Head, mut payload: &[u8]) -> Option<&[u8]> {
    if head.has(flag::PADDED) {
        let (&padding, rest) = payload.split_first()?;
        payload = rest.get(..rest.len().checked_sub(usize::from(padding))?)?;
    }
    if head.kind == kind::HEADERS && head.has(flag::PRIORITY) {
        payload = payload.get(5..)?;
    }
    Some(payload)
}

#[cfg(test)]
mod tests;
