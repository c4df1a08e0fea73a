//! What a test waits for on a connection: answers, resets, the end.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::connection::{Connection, PATIENCE, Read};
use super::exchange::Response;
use super::frame::{Frame, code};
use super::inspection::MOST;

/// What became of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer is complete; its code.
    Answered(u16),
    /// The server reset it, with this error code.
    Reset(u32),
    /// The server refuses the whole connection, with this error code.
    GoneAway(u32),
    /// The connection ended without a reason.
    Closed,
    /// Nothing in time.
    Quiet,
}

impl Connection {
    /// GET, and its answer.
    ///
    /// # Panics
    /// As [`Connection::response`].
    pub fn get(&mut self, path: &str) -> Response {
        let stream = self.request("GET", path, &[], true);
        self.response(stream)
    }

    /// A request with a body, and its answer.
    ///
    /// # Panics
    /// As [`Connection::response`].
    pub fn exchange(&mut self, method: &str, path: &str, more: &[(&str, &str)], body: &[u8]) -> Response {
        let stream = self.request(method, path, more, false);
        self.upload(stream, body);
        self.response(stream)
    }

    /// Whether the server needs no more of a request.
    pub(super) fn is_answered(&self, stream: u32) -> bool {
        self.exchanges.get(&stream).is_some_and(|exchange| exchange.ended || exchange.reset.is_some())
    }

    /// Reads until `done` finds something.
    pub(super) fn wait<T>(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = done(self) {
                return found;
            }
            match self.read(deadline.saturating_duration_since(Instant::now())) {
                Read::Frame(_) => {}
                Read::End => panic!("the connection ended instead of {what}{}", self.story()),
                Read::Nothing => panic!("no {what} in {PATIENCE:?}{}", self.story()),
            }
        }
    }

    /// What came of the server so far.
    fn story(&self) -> String {
        let mut story = String::new();
        if let Some((last, code)) = self.goaway() {
            let _ = write!(story, "; GOAWAY of code {code} after stream {last}");
        }
        for (stream, it) in self.exchanges.iter().rev().take(4) {
            let (status, bytes) = (it.response.status, it.response.body.len());
            let _ = write!(story, "; stream {stream}: status {status}, {bytes} bytes, ended {}", it.ended);
            if let Some(code) = it.reset {
                let _ = write!(story, ", reset with code {code}");
            }
        }
        story
    }

    /// One of the server's settings.
    #[must_use]
    pub fn setting(&self, name: u16) -> Option<u32> {
        self.settings.as_ref()?.get(&name).copied()
    }

    /// How many SETTINGS the server acknowledged.
    #[must_use]
    pub const fn acknowledged(&self) -> usize {
        self.acknowledged
    }

    /// The last stream and the error code of the server's last GOAWAY.
    #[must_use]
    pub fn goaway(&self) -> Option<(u32, u32)> {
        self.goaways().last().copied()
    }

    /// The code with which the server reset a stream, as far as was read.
    #[must_use]
    pub fn reset_of(&self, stream: u32) -> Option<u32> {
        self.exchanges.get(&stream)?.reset
    }

    /// The answer so far, as far as was read.
    ///
    /// # Panics
    /// When nothing was asked on the stream.
    #[must_use]
    pub fn so_far(&self, stream: u32) -> &Response {
        &self.exchanges[&stream].response
    }

    /// What came of the body and was not taken yet. Of one with a length nothing, before it is complete.
    pub fn take_body(&mut self, stream: u32) -> Vec<u8> {
        let Some(exchange) = self.exchanges.get_mut(&stream) else { return Vec::new() };
        let measured = exchange.response.field("content-length").is_some();
        if measured && !exchange.ended { Vec::new() } else { std::mem::take(&mut exchange.response.body) }
    }

    /// Whether the answer is complete, as far as was read.
    #[must_use]
    pub fn is_complete(&self, stream: u32) -> bool {
        self.exchanges.get(&stream).is_some_and(|exchange| exchange.ended)
    }

    /// The head of an answer.
    ///
    /// # Panics
    /// When none comes.
    pub fn head(&mut self, stream: u32) -> Response {
        self.wait(&format!("head on stream {stream}"), |it| {
            Some(&it.exchanges[&stream].response).filter(|response| response.status != 0).cloned()
        })
    }

    /// Waits until this much of a body came.
    ///
    /// # Panics
    /// When less comes.
    pub fn body(&mut self, stream: u32, bytes: usize) -> Vec<u8> {
        self.wait(&format!("{bytes} bytes on stream {stream}"), |it| {
            Some(&it.exchanges[&stream].response.body).filter(|body| body.len() >= bytes).cloned()
        })
    }

    /// A complete answer.
    ///
    /// # Panics
    /// When it does not come.
    pub fn response(&mut self, stream: u32) -> Response {
        match self.outcome(stream, PATIENCE) {
            Outcome::Answered(_) => self.exchanges[&stream].response.clone(),
            other @ (Outcome::Reset(_) | Outcome::GoneAway(_) | Outcome::Closed | Outcome::Quiet) => {
                panic!("no complete answer on stream {stream}: {other:?}{}", self.story())
            }
        }
    }

    /// What becomes of a stream.
    ///
    /// # Panics
    /// When the server breaks a rule.
    pub fn outcome(&mut self, stream: u32, patience: Duration) -> Outcome {
        let deadline = Instant::now() + patience;
        loop {
            let exchange = self.exchanges.get(&stream);
            if let Some(code) = self.goaway().map(|(_, code)| code).filter(|code| *code != code::NO_ERROR) {
                return Outcome::GoneAway(code);
            }
            if let Some(exchange) = exchange.filter(|exchange| exchange.ended) {
                return Outcome::Answered(exchange.response.status);
            }
            if let Some(code) = exchange.and_then(|exchange| exchange.reset) {
                return Outcome::Reset(code);
            }
            match self.read(deadline.saturating_duration_since(Instant::now())) {
                Read::Frame(_) => {}
                Read::End => return Outcome::Closed,
                Read::Nothing => return Outcome::Quiet,
            }
        }
    }

    /// The next line of a body, without its newline; `None` at its end.
    ///
    /// # Panics
    /// When it breaks off.
    pub fn line(&mut self, stream: u32) -> Option<String> {
        self.wait(&format!("line on stream {stream}"), |it| {
            let exchange = it.exchanges.get_mut(&stream)?;
            if let Some(line) = exchange.take_line() {
                return Some(Some(line));
            }
            assert!(!exchange.ended || exchange.is_drained(), "stream {stream} ends inside a line");
            assert!(exchange.reset.is_none(), "stream {stream} was reset: {:?}", exchange.reset);
            exchange.ended.then_some(None)
        })
    }

    /// The next event of a watch: type and object.
    ///
    /// # Panics
    /// When there is none.
    pub fn event(&mut self, stream: u32) -> (String, Value) {
        let line = self.line(stream).expect("an event, not the end");
        let mut event: Value = serde_json::from_str(&line).expect("JSON");
        (event["type"].as_str().expect("a type").to_owned(), event["object"].take())
    }

    /// The server resets the stream with one of these codes.
    ///
    /// # Panics
    /// When it does not.
    pub fn expect_rst(&mut self, stream: u32, codes: &[u32]) {
        let code = self.wait(&format!("RST_STREAM of stream {stream}"), |it| it.reset_of(stream));
        assert!(codes.contains(&code), "stream {stream} was reset with code {code}, not {codes:?}");
    }

    /// The server sends GOAWAY with one of these codes and closes. Its last stream.
    ///
    /// # Panics
    /// When it does not.
    pub fn expect_goaway(&mut self, codes: &[u32]) -> u32 {
        let (last, code) = self.wait("GOAWAY", |it| it.goaway());
        assert!(codes.contains(&code), "GOAWAY with code {code}, not {codes:?}");
        self.expect_end();
        last
    }

    /// The server closes the connection.
    ///
    /// # Panics
    /// When it does not.
    pub fn expect_end(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.read(deadline.saturating_duration_since(Instant::now())) {
                Read::Frame(_) => {}
                Read::End => return,
                Read::Nothing => panic!("the connection stays open{}", self.story()),
            }
        }
    }

    /// Everything that was sent before was processed: a PING is answered.
    ///
    /// # Panics
    /// When it is not.
    pub fn ping(&mut self) {
        let payload = (self.pongs.len() as u64 + 0x0102_0304_0000_0000).to_be_bytes();
        self.send(Frame::ping(payload));
        self.wait("answer to PING", |it| it.pongs.iter().any(|pong| *pong == payload).then_some(()));
    }

    /// The payloads of answered PINGs.
    #[must_use]
    pub fn pongs(&self) -> &[Vec<u8>] {
        &self.pongs
    }

    /// The connection works: a PING is answered, and so is a request, as long as there are streams.
    ///
    /// # Panics
    /// When it does not.
    pub fn expect_alive(&mut self) {
        self.ping();
        if self.last < MOST {
            let reply = self.get("/readyz");
            assert_eq!(reply.status, 200, "{}", reply.text());
        }
        assert_eq!(self.goaway(), None, "GOAWAY on a connection that works");
    }
}
