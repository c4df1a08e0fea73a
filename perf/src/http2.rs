//! HTTP/2 (RFC 9113) as a client of watches needs it: requests out, frames in, and the windows kept open. It knows no socket. DATA
//! is given out as slices of the input, and the dynamic table of the server's field blocks is announced to have no room.

pub(crate) mod fields;

use crate::broken::broken;
use crate::brought::{Brought, End, WORDS_BYTES_MAX};
use crate::http::Request;
use std::io;

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

pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
}

pub(crate) mod flag {
    pub(crate) const ACK: u8 = 1;
    pub(crate) const END_STREAM: u8 = 1;
    pub(crate) const END_HEADERS: u8 = 4;
    pub(crate) const PADDED: u8 = 8;
}

/// Of HEADER_TABLE_SIZE and ENABLE_PUSH, which are 0, and of INITIAL_WINDOW_SIZE, whose value follows.
const SETTINGS: [u8; 14] = [0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 4];
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;
const ERRORS: &str = "NO_ERROR PROTOCOL_ERROR INTERNAL_ERROR FLOW_CONTROL_ERROR SETTINGS_TIMEOUT STREAM_CLOSED FRAME_SIZE_ERROR \
    REFUSED_STREAM CANCEL COMPRESSION_ERROR CONNECT_ERROR ENHANCE_YOUR_CALM INADEQUATE_SECURITY HTTP_1_1_REQUIRED";

fn error_name(code: u32) -> &'static str {
    ERRORS.split(' ').nth(code as usize).unwrap_or("an unknown error")
}

#[derive(Clone, Copy)]
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

/// Hears, by the owner of each stream, what came.
type Hear<'a> = &'a mut dyn FnMut(u32, Brought<'_>);

/// One connection. Its streams have odd numbers, in the order in which they were asked for.
#[derive(Default)]
pub(crate) struct Session {
    streams: Vec<Stream>,
    /// Of each stream, as announced.
    window: u32,
    /// Of the frame that is being read, and how much of its payload is to come.
    head: Option<(Head, usize)>,
    /// The beginning of a head, or of the payload of a frame that is no DATA.
    held: Vec<u8>,
    owed: u32,
    /// Why the server will take no more streams.
    pub(crate) leaving: Option<String>,
    /// To be sent.
    pub(crate) out: Vec<u8>,
}

impl Session {
    /// A new connection, in which each stream begins with a window of `window` bytes.
    pub(crate) fn new(window: u32) -> Self {
        let mut out = PREFACE.to_vec();
        push_frame(&mut out, kind::SETTINGS, 0, 0, &[&SETTINGS[..], &window.to_be_bytes()].concat());
        push_window(&mut out, 0, CONNECTION_WINDOW);
        Self { window, out, ..Self::default() }
    }

    /// Asks over a new stream. `reads`: its window is as large as can be.
    pub(crate) fn ask(&mut self, owner: u32, request: &Request<'_>, reads: bool) {
        let id = id_at(self.streams.len());
        self.streams.push(Stream { owner: Some(owner), status: 0, owed: 0, words: Vec::new() });
        let flags = flag::END_HEADERS | flag::END_STREAM;
        push_frame(&mut self.out, kind::HEADERS, flags, id, &fields::of_request(request));
        if reads && self.window < WINDOW_MAX {
            push_window(&mut self.out, id, WINDOW_MAX - self.window);
        }
    }

    /// The owner wants no more of its stream.
    pub(crate) fn cancel(&mut self, owner: u32) {
        if let Some(at) = self.streams.iter().rposition(|stream| stream.owner == Some(owner)) {
            self.streams[at].owner = None;
            push_frame(&mut self.out, kind::RST_STREAM, 0, id_at(at), &CANCEL.to_be_bytes());
        }
    }

    pub(crate) fn open_streams(&self) -> usize {
        self.streams.iter().filter(|stream| stream.owner.is_some()).count()
    }

    /// Takes what came. An error: the connection is of no more use.
    pub(crate) fn take(&mut self, mut input: &[u8], hear: Hear<'_>) -> io::Result<()> {
        loop {
            let Some((head, left)) = self.head else {
                let Some(head) = self.next_head(&mut input) else { return Ok(()) };
                self.begin(head)?;
                self.head = Some((head, head.length));
                continue;
            };
            let there = left.min(input.len());
            if head.kind == kind::DATA {
                let (data, rest) = input.split_at(there);
                input = rest;
                self.on_data(head, data, there == left, hear)?;
                self.head = Some((head, left - there));
            } else if self.held.is_empty() && there == left {
                let (payload, rest) = input.split_at(left);
                input = rest;
                self.on_frame(head, payload, hear)?;
            } else if gather(&mut self.held, &mut input, left) {
                let payload = std::mem::take(&mut self.held);
                self.on_frame(head, &payload, hear)?;
            } else {
                return Ok(());
            }
            self.head = self.head.filter(|(_, left)| head.kind == kind::DATA && *left > 0);
            if self.head.is_some() {
                return Ok(());
            }
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
        std::mem::take(&mut self.held).first_chunk().map(|head| Head::read(*head))
    }

    /// A frame begins.
    fn begin(&mut self, head: Head) -> io::Result<()> {
        if head.length > PAYLOAD_BYTES_MAX {
            return Err(broken(format!("frame has {} bytes: too many, or this is no HTTP/2", head.length)));
        }
        // No server is known that pads, or has so long a head.
        let is_whole = head.kind != kind::HEADERS || head.has(flag::END_HEADERS);
        if matches!(head.kind, kind::DATA | kind::HEADERS) && head.has(flag::PADDED) || !is_whole {
            return Err(broken("frame is padded, or a part of a head: that is not read here"));
        }
        if head.kind != kind::DATA {
            return Ok(());
        }
        let length = u32::try_from(head.length).unwrap_or(u32::MAX);
        self.owed += length;
        if self.owed >= CONNECTION_WINDOW / 2 {
            push_window(&mut self.out, 0, std::mem::take(&mut self.owed));
        }
        let stream = stream(&mut self.streams, head.stream)?;
        stream.owed += length;
        if stream.owed >= STREAM_OWED_MAX && stream.owner.is_some() {
            push_window(&mut self.out, head.stream, std::mem::take(&mut stream.owed));
        }
        Ok(())
    }

    /// `is_whole`: the frame ends here.
    fn on_data(&mut self, head: Head, data: &[u8], is_whole: bool, hear: Hear<'_>) -> io::Result<()> {
        let stream = stream(&mut self.streams, head.stream)?;
        match (stream.owner, stream.status) {
            (Some(_), 0) => return Err(broken("body comes before its head")),
            (Some(owner), 200) if !data.is_empty() => hear(owner, Brought::Data(data)),
            (None, _) | (_, 200) => {}
            (Some(_), _) => {
                let room = WORDS_BYTES_MAX - stream.words.len();
                stream.words.extend_from_slice(&data[..data.len().min(room)]);
            }
        }
        if is_whole && head.has(flag::END_STREAM) {
            stream.end(hear);
        }
        Ok(())
    }

    /// A whole frame that is no DATA.
    fn on_frame(&mut self, head: Head, payload: &[u8], hear: Hear<'_>) -> io::Result<()> {
        let number = |at: usize| payload.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        let short = || broken("frame is too short for what it is");
        match head.kind {
            kind::HEADERS => return self.on_block(head, payload, hear),
            kind::RST_STREAM => {
                let code = number(0).ok_or_else(short)?;
                let mend = if code == REFUSED_STREAM { ": lower --streams-per-connection" } else { "" };
                let why = format!("the server reset the stream of a watch: {}{mend}", error_name(code));
                stream(&mut self.streams, head.stream)?.cut(&why, hear);
            }
            kind::SETTINGS if !head.has(flag::ACK) => {
                push_frame(&mut self.out, kind::SETTINGS, flag::ACK, 0, &[]);
            }
            kind::PING if !head.has(flag::ACK) => {
                push_frame(&mut self.out, kind::PING, flag::ACK, 0, payload);
            }
            kind::GOAWAY => {
                let (last, code) = number(0).zip(number(4)).ok_or_else(short)?;
                let why = format!("the server sent GOAWAY: {}", error_name(code));
                let first = (last as usize).div_ceil(2).min(self.streams.len());
                self.streams[first..].iter_mut().for_each(|stream| stream.cut(&why, hear));
                self.leaving = Some(why);
            }
            _ => {}
        }
        Ok(())
    }

    /// The head of a response, or what follows its body.
    fn on_block(&mut self, head: Head, block: &[u8], hear: Hear<'_>) -> io::Result<()> {
        let stream = stream(&mut self.streams, head.stream)?;
        if stream.status == 0 {
            let status = fields::status(block);
            stream.status = status.ok_or_else(|| broken("head does not begin with a status"))?;
            if let Some(owner) = stream.owner.filter(|_| stream.status == 200) {
                hear(owner, Brought::Head { gzip: fields::have_gzip(block) });
            }
        }
        if head.has(flag::END_STREAM) {
            stream.end(hear);
        }
        Ok(())
    }
}

impl Stream {
    /// Its response is complete.
    fn end(&mut self, hear: Hear<'_>) {
        let words = std::mem::take(&mut self.words);
        if let Some(owner) = self.owner.take() {
            hear(owner, Brought::End(End::of(self.status, &words)));
        }
    }

    fn cut(&mut self, why: &str, hear: Hear<'_>) {
        if let Some(owner) = self.owner.take() {
            hear(owner, Brought::End(End::Cut(why.to_owned())));
        }
    }
}

fn id_at(place: usize) -> u32 {
    u32::try_from(place * 2 + 1).unwrap_or(u32::MAX)
}

fn stream(streams: &mut [Stream], id: u32) -> io::Result<&mut Stream> {
    let stream = streams.get_mut(id as usize / 2).filter(|_| id % 2 == 1);
    stream.ok_or_else(|| broken(format!("frame is of stream {id}, which nobody opened")))
}

/// Fills `held` up to `wanted` bytes. False: not all of them are there yet.
fn gather(held: &mut Vec<u8>, input: &mut &[u8], wanted: usize) -> bool {
    let (more, rest) = input.split_at(wanted.saturating_sub(held.len()).min(input.len()));
    held.extend_from_slice(more);
    *input = rest;
    held.len() >= wanted
}

#[cfg(test)]
mod tests;
