//! A connection: frames out, frames in, and an account of each stream.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::exchange::Exchange;
use super::frame::{Frame, PREFACE, flag, kind, setting};
use super::hpack::{self, Decoder};
use super::inspection::{Announced, MOST, Windows, check_setting};
use crate::tls::{Stream, Trust};

/// How long a test waits for a frame.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// What a DATA frame of a body has at most.
const PIECE_BYTES: usize = 16_384;

/// What reading brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// A frame. It was also taken into the account of its stream.
    Frame(Frame),
    /// The server closed the connection, or reset it.
    End,
    /// Nothing in time.
    Nothing,
}

/// One connection. It panics when the server breaks a rule.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    input: Vec<u8>,
    scheme: &'static str,
    decoder: Decoder,
    pub(super) exchanges: BTreeMap<u32, Exchange>,
    /// Of the last request.
    pub(super) last: u32,
    /// The server's, after its first SETTINGS.
    pub(super) settings: Option<BTreeMap<u16, u32>>,
    /// Ours.
    pub(super) announced: Announced,
    /// What the server may send, and what the client may.
    inbound: Windows,
    outbound: Windows,
    /// A field block that is not complete: its stream, whether it ends it, its bytes.
    block: Option<(u32, bool, Vec<u8>)>,
    /// The next field block begins with this size of the table.
    resize: Option<usize>,
    pub(super) acknowledged: usize,
    pub(super) pongs: Vec<Vec<u8>>,
    goaways: Vec<(u32, u32)>,
    /// How it ended: gracefully, or broken.
    end: Option<Result<(), ErrorKind>>,
    /// Whether the server's SETTINGS are acknowledged. True at first.
    pub acknowledges: bool,
    /// Whether windows are opened again for what came. True at first.
    pub replenishes: bool,
}

impl Connection {
    /// A connection on which nothing was sent.
    ///
    /// # Panics
    /// When nothing listens there.
    #[must_use]
    pub fn dial(address: &str) -> Self {
        Self::over(Stream::Plain(TcpStream::connect(address).expect("a listener")))
    }

    /// The same over TLS, with ALPN `h2`.
    ///
    /// # Panics
    /// As [`Connection::dial`].
    #[must_use]
    pub fn dial_tls(address: &str, trust: &Trust) -> Self {
        let socket = TcpStream::connect(address).expect("a listener");
        Self::over(trust.offering(&["h2"]).over(socket))
    }

    /// The same on a stream of the test.
    ///
    /// # Panics
    /// When the socket takes no options.
    #[must_use]
    pub fn over(stream: Stream) -> Self {
        stream.socket().set_nodelay(true).expect("an open socket");
        stream.socket().set_write_timeout(Some(PATIENCE)).expect("an open socket");
        let scheme = if matches!(stream, Stream::Plain(_)) { "http" } else { "https" };
        Self {
            stream,
            input: Vec::new(),
            scheme,
            decoder: Decoder::default(),
            exchanges: BTreeMap::new(),
            last: 0,
            settings: None,
            announced: Announced::default(),
            inbound: Windows::default(),
            outbound: Windows::default(),
            block: None,
            resize: None,
            acknowledged: 0,
            pongs: Vec::new(),
            goaways: Vec::new(),
            end: None,
            acknowledges: true,
            replenishes: true,
        }
    }

    /// A connection whose preface is done, with SETTINGS that change nothing.
    ///
    /// # Panics
    /// When the server does not answer in HTTP/2.
    #[must_use]
    pub fn open(address: &str) -> Self {
        Self::open_with(address, &[])
    }

    /// The same with settings.
    ///
    /// # Panics
    /// As [`Connection::open`].
    #[must_use]
    pub fn open_with(address: &str, settings: &[(u16, u32)]) -> Self {
        let mut connection = Self::dial(address);
        connection.preface(settings);
        connection.settle();
        connection
    }

    /// Sends the preface and SETTINGS.
    pub fn preface(&mut self, settings: &[(u16, u32)]) {
        // A server that closed already is found out when it is read.
        let _ = self.send_raw(PREFACE);
        self.send(Frame::settings(settings));
    }

    /// Waits until the server has sent its SETTINGS and acknowledged all of ours.
    ///
    /// # Panics
    /// When it does not.
    pub fn settle(&mut self) {
        self.wait("SETTINGS and their acknowledgement", |it| {
            (it.settings.is_some() && !it.announced.is_pending()).then_some(())
        });
    }

    /// Sends bytes unchanged.
    ///
    /// # Errors
    /// The server closed, or reads nothing for ten seconds.
    pub fn send_raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// Sends a frame. An error is no concern of the sender: the server may have closed already.
    #[allow(clippy::needless_pass_by_value, reason = "frames are made for it")]
    pub fn send(&mut self, frame: Frame) {
        self.note(&frame);
        let _ = self.send_raw(&frame.bytes());
    }

    /// The same for several at once.
    pub fn send_all(&mut self, frames: &[Frame]) {
        self.send_in_pieces(&[], frames, usize::MAX);
    }

    /// Sends bytes, and frames after them, `piece` bytes at a time.
    pub fn send_in_pieces(&mut self, first: &[u8], frames: &[Frame], piece: usize) {
        frames.iter().for_each(|frame| self.note(frame));
        let mut bytes = first.to_vec();
        bytes.extend(frames.iter().flat_map(Frame::bytes));
        for piece in bytes.chunks(piece) {
            let _ = self.send_raw(piece);
        }
    }

    /// What a frame of ours changes.
    fn note(&mut self, frame: &Frame) {
        let stream = frame.stream & MOST;
        match frame.kind {
            kind::SETTINGS if !frame.has(flag::ACK) => self.announced.announce(frame.listed()),
            kind::WINDOW_UPDATE => self.inbound.open(stream, frame.number(0).unwrap_or_default() & MOST),
            kind::HEADERS => {
                self.exchanges.entry(stream).or_default();
                self.last = self.last.max(stream);
            }
            kind::DATA => self.outbound.consume(stream, frame.payload.len()),
            kind::RST_STREAM => self.exchanges.entry(stream).or_default().cancelled = true,
            _ => {}
        }
    }

    /// The stream that a request has next.
    #[must_use]
    pub const fn next_stream(&self) -> u32 {
        if self.last.is_multiple_of(2) { self.last + 1 } else { self.last + 2 }
    }

    /// Sends a request with more fields on the next stream, which is returned. `end`: it has no body.
    pub fn request(&mut self, method: &str, path: &str, more: &[(&str, &str)], end: bool) -> u32 {
        let stream = self.next_stream();
        let mut block = self.resize.take().map(hpack::resize).unwrap_or_default();
        let mut pseudo = hpack::pseudo(method, path);
        pseudo[1].1 = self.scheme;
        block.extend(hpack::block(&pseudo));
        block.extend(hpack::block(more));
        let flags = flag::END_HEADERS | if end { flag::END_STREAM } else { 0 };
        self.send(Frame::headers(stream, flags, block));
        self.exchanges.entry(stream).or_default().bodiless = method == "HEAD";
        stream
    }

    /// Sends the body of a request, as its windows allow.
    ///
    /// # Panics
    /// When they stay closed.
    pub fn upload(&mut self, stream: u32, body: &[u8]) {
        self.upload_in(stream, body, PIECE_BYTES, None);
    }

    /// The same in frames of at most `piece` bytes, with padding in each.
    ///
    /// # Panics
    /// As [`Connection::upload`].
    pub fn upload_in(&mut self, stream: u32, mut body: &[u8], piece: usize, padding: Option<u8>) {
        let besides = padding.map_or(0, |padding| 1 + usize::from(padding));
        loop {
            let wanted = body.len().min(piece).min(1) + besides;
            let room = self.wait("a window for the body", |it| {
                let initial = it.setting(setting::INITIAL_WINDOW_SIZE).unwrap_or(65_535);
                let room = it.outbound.of_connection().min(it.outbound.of_stream(stream, initial));
                usize::try_from(room).ok().filter(|room| *room >= wanted || it.is_answered(stream))
            });
            if room < wanted {
                return;
            }
            let (now, rest) = body.split_at(body.len().min(piece).min(room - besides));
            let flags = if rest.is_empty() { flag::END_STREAM } else { 0 };
            self.send(match padding {
                None => Frame::data(stream, flags, now),
                Some(padding) => Frame::padded_data(stream, flags, now, padding),
            });
            body = rest;
            if body.is_empty() {
                return;
            }
        }
    }

    /// Reads one frame.
    ///
    /// # Panics
    /// When it breaks a rule.
    pub fn read(&mut self, patience: Duration) -> Read {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(frame) = Frame::take(&mut self.input) {
                if let Err(why) = self.take(&frame) {
                    panic!("the server breaks a rule: {why}, in {frame:?}");
                }
                return Read::Frame(frame);
            }
            assert!(!self.input.starts_with(b"HTTP/1"), "{}", String::from_utf8_lossy(&self.input));
            let left = deadline.saturating_duration_since(Instant::now());
            if self.end.is_some() || left.is_zero() {
                return if self.end.is_some() { Read::End } else { Read::Nothing };
            }
            let left = left.max(Duration::from_millis(1));
            self.stream.socket().set_read_timeout(Some(left)).expect("an open socket");
            let mut buffer = vec![0; 1 << 16];
            match self.stream.read(&mut buffer) {
                Ok(0) => self.end = Some(Ok(())),
                Ok(count) => self.input.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Read::Nothing;
                }
                Err(error) => self.end = Some(Err(error.kind())),
            }
        }
    }

    /// Reads everything that has arrived, on a socket that does not block.
    ///
    /// # Panics
    /// As [`Connection::read`].
    pub fn read_arrived(&mut self) {
        while let Read::Frame(_) = self.read(Duration::from_millis(1)) {}
    }

    /// How the server ended the connection, as far as was read: gracefully, or broken.
    #[must_use]
    pub const fn end(&self) -> Option<Result<(), ErrorKind>> {
        self.end
    }

    /// The last stream and the error code of each GOAWAY of the server.
    #[must_use]
    pub fn goaways(&self) -> &[(u32, u32)] {
        &self.goaways
    }

    /// Takes a frame of the server into the account.
    fn take(&mut self, frame: &Frame) -> Result<(), String> {
        if self.settings.is_none() && (frame.kind != kind::SETTINGS || frame.has(flag::ACK)) {
            return Err("its first frame is not SETTINGS".to_owned());
        }
        if frame.payload.len() > self.announced.most(setting::MAX_FRAME_SIZE) as usize {
            return Err("longer than the client's MAX_FRAME_SIZE".to_owned());
        }
        if self.block.is_some() != (frame.kind == kind::CONTINUATION) {
            return Err("a field block is interrupted, or continued where there is none".to_owned());
        }
        if frame.stream > MOST {
            return Err("the reserved bit".to_owned());
        }
        match frame.kind {
            kind::DATA => self.on_data(frame),
            kind::HEADERS | kind::CONTINUATION => self.on_block(frame),
            kind::RST_STREAM => {
                let code = frame.number(0).filter(|_| frame.payload.len() == 4).ok_or("its length")?;
                if frame.stream < self.last && !frame.stream.is_multiple_of(2) {
                    // One that was left out is closed, not idle (section 5.1.1).
                    self.exchanges.entry(frame.stream).or_default();
                }
                self.exchange_of(frame.stream)?.reset = Some(code);
                Ok(())
            }
            kind::PUSH_PROMISE => Err("a push".to_owned()),
            kind::WINDOW_UPDATE => {
                let bytes = frame.number(0).filter(|_| frame.payload.len() == 4).ok_or("its length")?;
                if bytes == 0 || bytes > MOST {
                    return Err("its increment".to_owned());
                }
                self.outbound.open(frame.stream, bytes);
                let initial = self.setting(setting::INITIAL_WINDOW_SIZE).unwrap_or(65_535);
                let windows = [self.outbound.of_connection(), self.outbound.of_stream(frame.stream, initial)];
                let sound = windows.iter().all(|window| *window <= i64::from(MOST));
                if sound { Ok(()) } else { Err(format!("a window beyond all bounds: {windows:?}")) }
            }
            _ if frame.kind != kind::PRIORITY && frame.kind <= kind::CONTINUATION && frame.stream != 0 => {
                Err("on a stream".to_owned())
            }
            kind::SETTINGS => self.on_settings(frame),
            kind::PING if frame.payload.len() != 8 => Err("its length".to_owned()),
            kind::PING if frame.has(flag::ACK) => {
                self.pongs.push(frame.payload.clone());
                Ok(())
            }
            kind::PING => {
                self.send(Frame { flags: flag::ACK, ..frame.clone() });
                Ok(())
            }
            kind::GOAWAY => {
                let (last, code) = frame.number(0).zip(frame.number(4)).ok_or("its length")?;
                if self.goaways.last().is_some_and(|(before, _)| last > *before) {
                    return Err("more streams than in the GOAWAY before".to_owned());
                }
                self.goaways.push((last, code));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn exchange_of(&mut self, stream: u32) -> Result<&mut Exchange, String> {
        self.exchanges.get_mut(&stream).ok_or_else(|| format!("stream {stream} is idle"))
    }

    fn on_data(&mut self, frame: &Frame) -> Result<(), String> {
        let bytes = frame.payload.len();
        self.inbound.consume(frame.stream, bytes);
        let initial = self.announced.most(setting::INITIAL_WINDOW_SIZE);
        let (stream, connection) =
            (self.inbound.of_stream(frame.stream, initial), self.inbound.of_connection());
        // The last frame may be empty, and then needs no window.
        if bytes > 0 && stream.min(connection) < 0 {
            return Err(format!("windows are at {stream} and {connection}"));
        }
        let data = frame.unpadded().ok_or("more padding than payload")?;
        let end = frame.has(flag::END_STREAM);
        let exchange = self.exchange_of(frame.stream)?;
        if exchange.ended || exchange.reset.is_some() {
            return Err("DATA on a closed stream".to_owned());
        }
        if !exchange.cancelled {
            exchange.on_data(data, end)?;
        }
        let goes_on = !exchange.ended && !exchange.cancelled;
        if self.replenishes && bytes > 0 {
            let bytes = u32::try_from(bytes).unwrap_or(MOST);
            self.send(Frame::window_update(0, bytes));
            if goes_on {
                self.send(Frame::window_update(frame.stream, bytes));
            }
        }
        Ok(())
    }

    fn on_block(&mut self, frame: &Frame) -> Result<(), String> {
        let (stream, end, mut bytes) = match self.block.take() {
            Some((stream, ..)) if stream != frame.stream => {
                return Err("of another stream than the block".to_owned());
            }
            Some(block) => block,
            None => (frame.stream, frame.has(flag::END_STREAM), Vec::new()),
        };
        if frame.kind == kind::CONTINUATION {
            bytes.extend_from_slice(&frame.payload);
        } else {
            let block = frame.unpadded().ok_or("more padding than payload")?;
            let priority = if frame.has(flag::PRIORITY) { 5 } else { 0 };
            bytes.extend_from_slice(block.get(priority..).ok_or("its length")?);
        }
        if !frame.has(flag::END_HEADERS) {
            self.block = Some((stream, end, bytes));
            return Ok(());
        }
        let fields = self.decoder.decode(&bytes)?;
        let exchange = self.exchange_of(stream)?;
        match () {
            () if exchange.ended || exchange.reset.is_some() => Err("HEADERS on a closed stream".to_owned()),
            () if exchange.cancelled => Ok(()),
            () => exchange.on_fields(fields, end),
        }
    }

    fn on_settings(&mut self, frame: &Frame) -> Result<(), String> {
        if frame.has(flag::ACK) {
            let settings = self.announced.acknowledge().ok_or("nothing to acknowledge")?;
            self.acknowledged += 1;
            let table = settings.iter().filter(|(name, _)| *name == setting::HEADER_TABLE_SIZE);
            table.for_each(|(_, bytes)| self.decoder.set_limit_max(*bytes as usize));
            return if frame.payload.is_empty() { Ok(()) } else { Err("its length".to_owned()) };
        }
        if !frame.payload.len().is_multiple_of(6) {
            return Err("its length".to_owned());
        }
        let listed = frame.listed();
        listed.iter().try_for_each(|(name, value)| check_setting(*name, *value))?;
        self.settings.get_or_insert_default().extend(listed);
        if self.acknowledges {
            let table = self.setting(setting::HEADER_TABLE_SIZE).filter(|bytes| *bytes < 4_096);
            self.resize = table.map(|bytes| bytes as usize);
            self.send(Frame::settings_ack());
        }
        Ok(())
    }

    /// The stream below, for what this client cannot do.
    pub const fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }
}
