//! What a peer sends: from bytes, however they are split, to frames, and what each of them does.

use revcast_engine::tick::Tick;

use super::connection::{Away, Block, CONTROL_BYTES_MAX, DataFrame, Phase};
use super::fields::{self, Decoded};
use super::frame::{self, FrameHead, HEAD_BYTES, PAYLOAD_BYTES_MAX, flag, kind};
use super::settings::WINDOW_MAX;
use super::streams::{Half, Known, Stream};
use super::{Connection, ErrorCode, Events, Fault, PREFACE, StreamKey};

/// Bytes of one field block.
const BLOCK_BYTES_MAX: usize = 64 << 10;
/// CONTINUATION frames of one field block.
const CONTINUATIONS_MAX: u32 = 8;
/// A larger buffer is not kept from frame to frame.
const KEPT_BYTES: usize = 256;

const CALM: &str = "more frames without an effect than are allowed";
const LENGTH: &str = "the body is not as long as `content-length` says";
/// What is sent on a stream after its end.
const OVER: (ErrorCode, &str) = (ErrorCode::StreamClosed, "a frame is of a stream that has ended");
const SHORT: &str = "a frame has another length than its kind";

/// How many bytes of a frame are read before it is handled.
enum Wanted {
    /// At least so many.
    More(usize),
    /// Its head, and its payload unless that is data.
    Frame(FrameHead, usize),
}

fn wanted(bytes: &[u8]) -> Result<Wanted, Fault> {
    let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else { return Ok(Wanted::More(HEAD_BYTES)) };
    let head = FrameHead::parse(*head);
    if head.len > PAYLOAD_BYTES_MAX {
        return Err(Fault::of(ErrorCode::FrameSizeError, "a frame is larger than 16 KiB"));
    }
    let payload = match head.kind {
        kind::DATA => usize::from(head.has(flag::PADDED) && head.len > 0),
        _ => head.len as usize,
    };
    let len = HEAD_BYTES + payload;
    Ok(if bytes.len() < len { Wanted::More(len) } else { Wanted::Frame(head, len) })
}

/// The payload without its padding.
fn unpadded(head: FrameHead, payload: &[u8]) -> Result<&[u8], Fault> {
    if !head.has(flag::PADDED) {
        return Ok(payload);
    }
    let (&padding, rest) = payload.split_first().ok_or(Fault::of(ErrorCode::FrameSizeError, SHORT))?;
    let len = rest.len().checked_sub(usize::from(padding));
    len.map(|len| &rest[..len]).ok_or(Fault::protocol("a frame is padded by more than it has"))
}

fn word(bytes: &[u8]) -> Result<u32, Fault> {
    let bytes: [u8; 4] = bytes.try_into().map_err(|_| Fault::of(ErrorCode::FrameSizeError, SHORT))?;
    Ok(u32::from_be_bytes(bytes))
}

impl<S> Connection<S> {
    /// Takes what the peer sent. After the connection has [ended](Connection::ended) it is ignored.
    pub fn receive(&mut self, bytes: &[u8], now: Tick, events: &mut impl Events<Stream = S>) {
        self.bounds.refill(now);
        if self.ended.is_none()
            && let Err(fault) = self.take(bytes, now, events)
        {
            self.fail(fault);
        }
    }

    /// Hands over again what a stream brought, after its user gave another value for it.
    pub fn receive_late(
        &mut self,
        key: StreamKey,
        bytes: &[u8],
        ended: bool,
        events: &mut impl Events<Stream = S>,
    ) {
        if let Some(stream) = self.streams.get_mut(key)
            && let Some(carried) = &mut stream.carried
        {
            events.data(key, carried, bytes, ended);
        }
    }

    fn take(
        &mut self,
        mut bytes: &[u8],
        now: Tick,
        events: &mut impl Events<Stream = S>,
    ) -> Result<(), Fault> {
        while !bytes.is_empty() {
            if let Phase::Preface(had) = self.phase {
                let rest = &PREFACE[had..];
                let common = rest.len().min(bytes.len());
                if bytes[..common] != rest[..common] {
                    return Err(Fault::protocol("the connection does not begin with the preface of HTTP/2"));
                }
                bytes = &bytes[common..];
                let is_whole = common == rest.len();
                self.phase = if is_whole { Phase::Settings } else { Phase::Preface(had + common) };
            } else if let Some(data) = self.data.take() {
                self.take_data(data, &mut bytes, events)?;
            } else if self.held.is_empty() {
                match wanted(bytes)? {
                    Wanted::More(_) => {
                        self.held.extend_from_slice(bytes);
                        self.held_since = now;
                        return Ok(());
                    }
                    Wanted::Frame(head, len) => {
                        let (frame, rest) = bytes.split_at(len);
                        bytes = rest;
                        self.frame(head, &frame[HEAD_BYTES..], now, events)?;
                    }
                }
            } else {
                match wanted(&self.held)? {
                    Wanted::More(len) => {
                        let (more, rest) = bytes.split_at((len - self.held.len()).min(bytes.len()));
                        bytes = rest;
                        self.held.extend_from_slice(more);
                    }
                    Wanted::Frame(..) => debug_assert!(false, "a whole frame is not held"),
                }
                if let Wanted::Frame(head, _) = wanted(&self.held)? {
                    let mut frame = std::mem::take(&mut self.held);
                    self.frame(head, &frame[HEAD_BYTES..], now, events)?;
                    if frame.capacity() <= KEPT_BYTES {
                        frame.clear();
                        self.held = frame;
                    }
                }
            }
        }
        Ok(())
    }

    /// Handles one frame; of DATA only its head, and the length of its padding.
    fn frame(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        now: Tick,
        events: &mut impl Events<Stream = S>,
    ) -> Result<(), Fault> {
        if let Some(block) = &self.block
            && (head.kind != kind::CONTINUATION || head.stream != block.stream)
        {
            return Err(Fault::protocol("a field block is interrupted"));
        }
        if self.phase == Phase::Settings {
            if head.kind != kind::SETTINGS || head.has(flag::ACK) {
                return Err(Fault::protocol("the first frame is not SETTINGS"));
            }
            self.phase = Phase::Open;
        }
        match head.kind {
            kind::DATA => self.begin_data(head, payload, events),
            kind::HEADERS => self.headers(head, payload, now, events),
            kind::CONTINUATION => self.continuation(head, payload, events),
            kind::PRIORITY => self.priority(head, payload, events),
            kind::RST_STREAM => self.reset_by_peer(head, payload, events),
            kind::SETTINGS => self.settings(head, payload, events),
            kind::PUSH_PROMISE => Err(Fault::protocol("a client does not push")),
            kind::PING => self.ping_frame(head, payload),
            kind::GOAWAY => self.go_away(head, payload),
            kind::WINDOW_UPDATE => self.window_update(head, payload, events),
            _ => self.pay(1),
        }
    }

    fn pay(&mut self, cost: u32) -> Result<(), Fault> {
        if self.bounds.take_frame(cost) { Ok(()) } else { Err(Fault::of(ErrorCode::EnhanceYourCalm, CALM)) }
    }

    /// Pays for a frame that is answered.
    fn pay_answer(&mut self, cost: u32) -> Result<(), Fault> {
        if self.control.len() > CONTROL_BYTES_MAX {
            return Err(Fault::of(ErrorCode::EnhanceYourCalm, "the answers to control frames are not read"));
        }
        self.pay(cost)
    }

    /// A stream broke a rule: it is reset, and the connection goes on.
    fn stream_error(
        &mut self,
        id: u32,
        (code, why): (ErrorCode, &'static str),
        events: &mut impl Events<Stream = S>,
    ) -> Result<(), Fault> {
        match self.streams.find(id) {
            Known::At(key) => {
                let was_open = self.streams.get(key).is_some_and(|stream| !stream.is_over());
                let Some(stream) = self.streams.close(key) else { return Ok(()) };
                stream.is_reset_here = true;
                if was_open && let Some(carried) = &mut stream.carried {
                    events.reset(key, carried);
                }
            }
            Known::Idle => {
                self.streams.last = id;
                self.streams.remember(id, true);
            }
            Known::Ended | Known::ResetHere | Known::Passed => {}
        }
        frame::push_reset(&mut self.control, id, code);
        self.counts.reset += 1;
        self.counts.why = Some(why);
        self.pay_reset()
    }

    fn pay_reset(&mut self) -> Result<(), Fault> {
        if self.control.len() <= CONTROL_BYTES_MAX && self.bounds.take_reset() {
            return Ok(());
        }
        Err(Fault::of(ErrorCode::EnhanceYourCalm, "too many streams were reset"))
    }

    fn begin_data(
        &mut self,
        head: FrameHead,
        padding: &[u8],
        events: &mut impl Events<Stream = S>,
    ) -> Result<(), Fault> {
        if head.stream == 0 {
            return Err(Fault::protocol("DATA is of no stream"));
        }
        if head.has(flag::PADDED) && padding.is_empty() {
            return Err(Fault::of(ErrorCode::FrameSizeError, SHORT));
        }
        let (about, padding) = padding.first().map_or((0, 0), |padding| (1, u32::from(*padding)));
        let left = (head.len - about).checked_sub(padding);
        let left = left.ok_or(Fault::protocol("a frame is padded by more than it has"))?;
        self.remote_window = self
            .remote_window
            .checked_sub(head.len)
            .ok_or(Fault::of(ErrorCode::FlowControlError, "more data than the connection's window"))?;
        let has_ended = head.has(flag::END_STREAM);
        if left == 0 && !has_ended {
            self.pay(1)?;
        }
        let is_wanted = match self.streams.find(head.stream) {
            Known::At(key) => match self.streams.get_mut(key) {
                Some(stream) if stream.remote == Half::Open => {
                    match stream.take_data(head.len, left, has_ended) {
                        Ok(()) => true,
                        Err(code) => {
                            self.stream_error(head.stream, code, events)?;
                            false
                        }
                    }
                }
                Some(stream) if stream.is_reset_here => false,
                Some(_) | None => {
                    self.stream_error(head.stream, OVER, events)?;
                    false
                }
            },
            Known::Idle => return Err(Fault::protocol("DATA is of a stream that was not opened")),
            Known::ResetHere => false,
            Known::Ended | Known::Passed => {
                self.stream_error(head.stream, OVER, events)?;
                false
            }
        };
        if is_wanted {
            // Padding is used at once, and its length.
            if let Known::At(key) = self.streams.find(head.stream)
                && about + padding > 0
            {
                self.consume(key, (about + padding) as usize);
            }
        } else {
            self.consume_of_connection(head.len);
        }
        let stream = is_wanted.then_some(head.stream);
        let data = DataFrame { stream, left, padding, has_ended };
        if left + padding == 0 { self.take_data(data, &mut &[][..], events) } else { self.keep(data) }
    }

    const fn keep(&mut self, data: DataFrame) -> Result<(), Fault> {
        self.data = Some(data);
        Ok(())
    }

    /// Takes what came of a DATA frame's payload.
    fn take_data(
        &mut self,
        mut data: DataFrame,
        bytes: &mut &[u8],
        events: &mut impl Events<Stream = S>,
    ) -> Result<(), Fault> {
        let (part, rest) = bytes.split_at((data.left as usize).min(bytes.len()));
        data.left -= u32::try_from(part.len()).unwrap_or(0);
        let is_last = data.left == 0;
        if let Some(id) = data.stream {
            self.hand_over(id, part, is_last && data.has_ended, events);
        }
        if is_last {
            // Whoever gets the end gets it once.
            data.stream = None;
        }
        let skipped = if is_last { (data.padding as usize).min(rest.len()) } else { 0 };
        data.padding -= u32::try_from(skipped).unwrap_or(0);
        *bytes = &rest[skipped..];
        if data.left + data.padding > 0 { self.keep(data) } else { Ok(()) }
    }

    fn hand_over(&mut self, id: u32, part: &[u8], ended: bool, events: &mut impl Events<Stream = S>) {
        if let Known::At(key) = self.streams.find(id)
            && let Some(stream) = self.streams.get_mut(key)
            && stream.remote == Half::Open
        {
            if ended {
                stream.remote = Half::Done;
            }
            if let Some(carried) = &mut stream.carried
                && (ended || !part.is_empty())
            {
                events.data(key, carried, part, ended);
            }
        } else {
            // It was reset after the frame began.
            self.consume_of_connection(u32::try_from(part.len()).unwrap_or(0));
        }
    }

    fn headers(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        now: Tick,
        events: &mut impl Events<Stream = S>,
    ) -> Result<(), Fault> {
        if head.stream.is_multiple_of(2) {
            return Err(Fault::protocol("a client's streams have odd numbers"));
        }
        let payload = unpadded(head, payload)?;
        let Some(block) = payload.get(if head.has(flag::PRIORITY) { 5 } else { 0 }..) else {
            return Err(Fault::of(ErrorCode::FrameSizeError, SHORT));
        };
        let has_ended = head.has(flag::END_STREAM);
        if head.has(flag::END_HEADERS) {
            return self.block(head.stream, block, has_ended, events);
        }
        let bytes = block.to_vec();
        let block = Block { stream: head.stream, bytes, continuations: 0, has_ended, since: now };
        self.block = Some(Box::new(block));
        Ok(())
    }

    fn continuation(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        events: &mut impl Events<Stream = S>,
    ) -> Result<(), Fault> {
        let mut block = self.block.take().ok_or(Fault::protocol("CONTINUATION continues no field block"))?;
        block.continuations += 1;
        if block.continuations > CONTINUATIONS_MAX || block.bytes.len() + payload.len() > BLOCK_BYTES_MAX {
            return Err(Fault::of(ErrorCode::EnhanceYourCalm, "a field block has too many parts, or bytes"));
        }
        block.bytes.extend_from_slice(payload);
        if head.has(flag::END_HEADERS) {
            return self.block(block.stream, &block.bytes, block.has_ended, events);
        }
        self.block = Some(block);
        Ok(())
    }

    /// A whole field block: a request, or the trailers of one. Each is decoded, for the dynamic table.
    fn block(
        &mut self,
        id: u32,
        block: &[u8],
        has_ended: bool,
        events: &mut impl Events<Stream = S>,
    ) -> Result<(), Fault> {
        match self.streams.find(id) {
            Known::Idle if self.away == Away::Last => {
                self.streams.last = id;
                self.streams.remember(id, true);
                self.pay(1)?;
                fields::skip(&mut self.decoder, block)
            }
            Known::Idle if !self.streams.has_place(self.limits.streams as usize) => {
                fields::skip(&mut self.decoder, block)?;
                self.counts.refused += 1;
                self.stream_error(id, (ErrorCode::RefusedStream, "too many streams are open"), events)
            }
            Known::Idle => self.request(id, block, has_ended, events),
            Known::At(key) => self.trailers(key, id, block, has_ended, events),
            Known::ResetHere => {
                self.pay(1)?;
                fields::skip(&mut self.decoder, block)
            }
            Known::Ended => Err(Fault::of(ErrorCode::StreamClosed, "HEADERS are of a stream that has ended")),
            Known::Passed => Err(Fault::protocol("a stream has a lower number than one before")),
        }
    }

    fn request(
        &mut self,
        id: u32,
        block: &[u8],
        has_ended: bool,
        events: &mut impl Events<Stream = S>,
    ) -> Result<(), Fault> {
        let limit = self.limits.list_bytes as usize;
        let request = match fields::request(&mut self.decoder, block, limit, has_ended)? {
            Decoded::Request(request) => request,
            Decoded::Trailers => return Ok(()),
            Decoded::Malformed(why) => {
                return self.stream_error(id, (ErrorCode::ProtocolError, why), events);
            }
        };
        self.counts.too_large += u32::from(request.is_too_large);
        let remote = if has_ended { Half::Done } else { Half::Open };
        let content_left = request.content_length.filter(|_| !request.is_websocket);
        let stream = Stream::new(id, remote, self.limits.stream_window, content_left);
        let key = self.streams.add(stream, self.peer.initial_window);
        let carried = events.request(key, request);
        if let Some(stream) = self.streams.get_mut(key) {
            stream.carried = Some(carried);
        }
        Ok(())
    }

    fn trailers(
        &mut self,
        key: StreamKey,
        id: u32,
        block: &[u8],
        has_ended: bool,
        events: &mut impl Events<Stream = S>,
    ) -> Result<(), Fault> {
        let decoded = fields::trailers(&mut self.decoder, block, self.limits.list_bytes as usize)?;
        let Some(stream) = self.streams.get_mut(key) else { return Ok(()) };
        if stream.remote == Half::Done {
            return if stream.is_reset_here { self.pay(1) } else { self.stream_error(id, OVER, events) };
        }
        let is_short = stream.content_left.is_some_and(|left| left > 0);
        let why = match decoded {
            Decoded::Malformed(why) => Some(why),
            Decoded::Request(_) | Decoded::Trailers if !has_ended => Some("trailers do not end the stream"),
            Decoded::Request(_) | Decoded::Trailers => is_short.then_some(LENGTH),
        };
        if let Some(why) = why {
            return self.stream_error(id, (ErrorCode::ProtocolError, why), events);
        }
        self.hand_over(id, &[], true, events);
        Ok(())
    }

    fn priority(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        events: &mut impl Events<Stream = S>,
    ) -> Result<(), Fault> {
        if head.stream == 0 {
            return Err(Fault::protocol("PRIORITY is of no stream"));
        }
        self.pay(1)?;
        match (payload.len(), self.streams.find(head.stream)) {
            (5, _) => Ok(()),
            (_, Known::At(_)) => self.stream_error(head.stream, (ErrorCode::FrameSizeError, SHORT), events),
            _ => Err(Fault::of(ErrorCode::FrameSizeError, SHORT)),
        }
    }

    fn reset_by_peer(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        events: &mut impl Events<Stream = S>,
    ) -> Result<(), Fault> {
        word(payload)?;
        match self.streams.find(head.stream) {
            _ if head.stream == 0 => Err(Fault::protocol("RST_STREAM is of no stream")),
            Known::Idle => Err(Fault::protocol("RST_STREAM is of a stream that was not opened")),
            Known::Ended | Known::ResetHere | Known::Passed => self.pay(1),
            Known::At(key) => {
                if self.streams.get(key).is_some_and(Stream::is_over) {
                    return self.pay(1);
                }
                let Some(stream) = self.streams.close(key) else { return Ok(()) };
                let is_answered = stream.is_answered;
                if let Some(carried) = &mut stream.carried {
                    events.reset(key, carried);
                }
                self.counts.reset_by_peer += 1;
                if is_answered { Ok(()) } else { self.pay_reset() }
            }
        }
    }

    fn settings(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        events: &mut impl Events<Stream = S>,
    ) -> Result<(), Fault> {
        if head.stream != 0 {
            return Err(Fault::protocol("SETTINGS are of a stream"));
        }
        let (settings, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() || (head.has(flag::ACK) && !payload.is_empty()) {
            return Err(Fault::of(ErrorCode::FrameSizeError, SHORT));
        }
        if head.has(flag::ACK) {
            self.decoder.lower(self.limits.table_bytes as usize);
            return self.pay(1);
        }
        self.pay_answer(1 + u32::try_from(settings.len()).unwrap_or(u32::MAX))?;
        let before = i64::from(self.peer.initial_window);
        for [a, b, value @ ..] in settings {
            self.peer.apply(u16::from_be_bytes([*a, *b]), u32::from_be_bytes(*value))?;
        }
        let change = i64::from(self.peer.initial_window) - before;
        if change != 0 {
            let too_far = |_| Fault::of(ErrorCode::FlowControlError, "a stream's window is over 2^31-1");
            self.streams.widen_all(change).map_err(too_far)?;
        }
        frame::push(&mut self.control, kind::SETTINGS, flag::ACK, 0, &[]);
        if change > 0 {
            self.give_room(events);
        }
        Ok(())
    }

    fn give_room(&mut self, events: &mut impl Events<Stream = S>) {
        if self.window > 0 {
            self.streams.give_room(|key, carried| events.room(key, carried));
        }
    }

    fn ping_frame(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        let opaque: [u8; 8] = payload.try_into().map_err(|_| Fault::of(ErrorCode::FrameSizeError, SHORT))?;
        if head.stream != 0 {
            return Err(Fault::protocol("PING is of a stream"));
        }
        if head.has(flag::ACK) {
            return self.pay(1);
        }
        self.pay_answer(1)?;
        frame::push_ping(&mut self.control, flag::ACK, opaque);
        Ok(())
    }

    fn go_away(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        if head.stream != 0 {
            return Err(Fault::protocol("GOAWAY is of a stream"));
        }
        if payload.len() < 8 {
            return Err(Fault::of(ErrorCode::FrameSizeError, SHORT));
        }
        self.refuse_new();
        self.pay(1)
    }

    fn window_update(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        events: &mut impl Events<Stream = S>,
    ) -> Result<(), Fault> {
        let increment = i64::from(word(payload)? & 0x7fff_ffff);
        self.pay(1)?;
        if head.stream == 0 {
            if increment == 0 {
                return Err(Fault::protocol("a window grows by 0"));
            }
            let was_closed = self.window <= 0;
            self.window += increment;
            if self.window > WINDOW_MAX {
                return Err(Fault::of(ErrorCode::FlowControlError, "the connection's window is over 2^31-1"));
            }
            if was_closed {
                self.give_room(events);
            }
            return Ok(());
        }
        let key = match self.streams.find(head.stream) {
            Known::At(key) => key,
            Known::Idle => {
                return Err(Fault::protocol("WINDOW_UPDATE is of a stream that was not opened"));
            }
            Known::Ended | Known::ResetHere | Known::Passed => return Ok(()),
        };
        let Some(stream) = self.streams.get_mut(key) else { return Ok(()) };
        if stream.is_over() {
            return Ok(());
        }
        if increment == 0 {
            let by_nothing = (ErrorCode::ProtocolError, "a window grows by 0");
            return self.stream_error(head.stream, by_nothing, events);
        }
        if self.streams.widen(key, increment).is_err() {
            let too_far = (ErrorCode::FlowControlError, "a stream's window is over 2^31-1");
            return self.stream_error(head.stream, too_far, events);
        }
        let has_room = self.room(key) > 0;
        if let Some(stream) = self.streams.get_mut(key).filter(|stream| stream.wants_room && has_room) {
            stream.wants_room = false;
            if let Some(carried) = &mut stream.carried {
                events.room(key, carried);
            }
        }
        Ok(())
    }
}

impl<S> Stream<S> {
    /// A DATA frame begins, with `len` bytes that count against the window and `left` of the body.
    fn take_data(&mut self, len: u32, left: u32, has_ended: bool) -> Result<(), (ErrorCode, &'static str)> {
        let too_much = (ErrorCode::FlowControlError, "more data than the stream's window");
        self.remote_window = self.remote_window.checked_sub(len).ok_or(too_much)?;
        if let Some(content) = &mut self.content_left {
            let other = (ErrorCode::ProtocolError, LENGTH);
            *content = content.checked_sub(u64::from(left)).ok_or(other)?;
            if has_ended && *content > 0 {
                return Err(other);
            }
        }
        Ok(())
    }
}
