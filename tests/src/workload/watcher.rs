//! One well-behaved client: it lists, watches, resumes from the last complete revision, and lists again after 410.

use std::io;
use std::time::{Duration, Instant};

use revcast_sim::rng::Rng;

use super::exchange::Exchange;
use super::scope::Scope;
use super::wire::Wire;
use super::{MediaType, Workload, objects, protobuf};
use crate::history::{End, Kind, Object, Seen, Segment};

/// How long a server may take to begin a reply before another attempt; it doubles like the pause.
const PATIENCE: Duration = Duration::from_secs(4);
/// Most time between two attempts, and how often it doubles while one after another fails.
const PAUSE_MS: u64 = 200;
const DOUBLINGS_MAX: u32 = 2;

/// What it waits for.
#[derive(Debug)]
enum State {
    Pausing(Instant),
    Listing { exchange: Exchange, since: Instant, epoch: usize },
    Watching { exchange: Exchange, since: Instant, from: u64, deadline: Option<Duration>, cut: Instant },
}

/// A client, and everything that it received.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) name: String,
    pub(super) scope: Scope,
    /// What it asks for.
    pub(super) accepts: MediaType,
    wire: Wire,
    number: usize,
    rng: Rng,
    state: State,
    turn: usize,
    /// Most time that a watch lasts before its client ends it.
    life_ms: u64,
    /// Whether it must list before it watches.
    lists: bool,
    /// Whether a watch was begun since the last list.
    has_watched: bool,
    /// The newest event or bookmark, or where it began.
    newest: u64,
    /// Attempts that failed one after another, at most [`DOUBLINGS_MAX`].
    failures: u32,
    /// When it first tried to resume, while it has no stream.
    resumes_since: Option<Instant>,
    /// Everything up to here was received.
    whole: u64,
    pub(super) segments: Vec<Segment>,
    pub(super) counts: Counts,
}

/// Counts of one watcher, or of many.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Events.
    pub events: u64,
    /// Bookmarks.
    pub bookmarks: u64,
    /// Lists that it took.
    pub lists: u64,
    /// Watches that began where another one ended.
    pub resumes: u64,
    /// How often it got 410.
    pub expired: u64,
    /// Streams that ended neither by the client nor by their deadline.
    pub lost: u64,
    /// Streams whose connection broke, or ended in the middle.
    pub cut: u64,
    /// Requests that were answered with 429, 503 or 504, or whose connection failed.
    pub refused: u64,
    /// Requests that the client gave up, because no reply had begun after a few seconds.
    pub late: u64,
    /// The longest time from the first attempt to resume to the head of a reply with 200.
    pub slowest_gap: Duration,
}

impl Counts {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            events: self.events + other.events,
            bookmarks: self.bookmarks + other.bookmarks,
            lists: self.lists + other.lists,
            resumes: self.resumes + other.resumes,
            expired: self.expired + other.expired,
            lost: self.lost + other.lost,
            cut: self.cut + other.cut,
            refused: self.refused + other.refused,
            late: self.late + other.late,
            slowest_gap: self.slowest_gap.max(other.slowest_gap),
        }
    }
}

impl Watcher {
    pub(super) fn new(number: usize, life_ms: u64, stored: MediaType, scope: Scope, rng: Rng) -> Self {
        Self {
            name: format!("{number} ({})", scope.path()),
            scope,
            accepts: if number.is_multiple_of(2) { MediaType::Json } else { stored },
            wire: Wire::default(),
            number,
            rng,
            state: State::Pausing(Instant::now()),
            turn: number,
            life_ms,
            lists: true,
            has_watched: false,
            newest: 0,
            failures: 0,
            resumes_since: None,
            whole: 0,
            segments: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// The same over another wire.
    pub(super) fn over(self, wire: &Wire) -> Self {
        Self { wire: wire.clone(), ..self }
    }

    /// Whether a stream is open.
    pub(super) fn is_watching(&self) -> bool {
        matches!(&self.state, State::Watching { exchange, .. } if exchange.status() == Some(200))
    }

    /// The epoch of its state, and the revision up to which that is complete.
    pub(super) fn reached(&self) -> Option<(usize, u64)> {
        self.segments.last().filter(|_| !self.lists).map(|segment| (segment.epoch, self.whole))
    }

    /// What it waits for.
    pub(super) const fn exchange(&self) -> Option<&Exchange> {
        match &self.state {
            State::Pausing(_) => None,
            State::Listing { exchange, .. } | State::Watching { exchange, .. } => Some(exchange),
        }
    }

    /// Its state, in a line.
    pub(super) fn describe(&self) -> String {
        let state = match &self.state {
            State::Pausing(_) => "pauses",
            State::Listing { .. } => "lists",
            State::Watching { exchange, .. } if exchange.status().is_none() => "asks for a watch",
            State::Watching { .. } => "watches",
        };
        format!("{}: {state}, whole up to {:?}, {:?}", self.name, self.reached(), self.counts)
    }

    /// Handles timers. `calm`: it ends no watch by itself.
    pub(super) fn handle_time(&mut self, workload: &Workload, now: Instant, calm: bool) {
        let patience = PATIENCE * 2_u32.pow(self.failures);
        match &self.state {
            State::Pausing(until) => {
                if now >= *until {
                    self.ask(workload, now);
                }
            }
            State::Listing { since, .. } => {
                if now > *since + patience {
                    self.late(workload, "a list", now);
                }
            }
            State::Watching { exchange, since, cut, .. } => {
                if exchange.status().is_none() && now > *since + patience {
                    self.late(workload, "a watch", now);
                } else if exchange.status() == Some(200) && now > *cut && !calm {
                    self.ended(End::Cut, now);
                }
            }
        }
    }

    /// Reads what has arrived.
    pub(super) fn handle_bytes(&mut self, workload: &Workload, now: Instant) {
        match &mut self.state {
            State::Pausing(_) => {}
            State::Listing { exchange, epoch, .. } => {
                let read = exchange.read();
                if exchange.is_done() {
                    let (epoch, status) = (*epoch, exchange.status());
                    let body = exchange.body().to_vec();
                    self.listed(workload, epoch, status, &body, now);
                } else if let Err(error) = read {
                    self.broken(workload, "a list", &error, now);
                }
            }
            State::Watching { exchange, from, .. } => {
                let began = exchange.status().is_none();
                let read = exchange.read();
                let (status, from, done) = (exchange.status(), *from, exchange.is_done());
                match status {
                    Some(200) => {
                        let lines = match self.accepts {
                            MediaType::Json => exchange.take_lines(),
                            MediaType::Protobuf => Self::lines(exchange, workload, &self.name),
                        };
                        let rest = exchange.body().len();
                        if began {
                            self.begun(from);
                        }
                        if self.told(workload, &lines, now) {
                            if done {
                                if rest > 0 {
                                    let name = &self.name;
                                    workload.report(format!(
                                        "watcher {name}: {rest} bytes of a message, then the end"
                                    ));
                                }
                                self.closed(now);
                            } else if let Err(error) = read {
                                self.counts.lost += 1;
                                self.counts.cut += 1;
                                workload.failed(format!("a stream broke: {error}"));
                                self.ended(End::Cut, now);
                            }
                        }
                    }
                    Some(status) if done || read.is_err() => {
                        self.judge_refusal(workload, status, "a watch");
                        self.refused(now);
                    }
                    None => {
                        if let Err(error) = read {
                            self.broken(workload, "a watch", &error, now);
                        }
                    }
                    Some(_) => {}
                }
            }
        }
    }

    /// The complete messages that arrived in protobuf, as the lines that they would be in JSON.
    fn lines(exchange: &mut Exchange, workload: &Workload, name: &str) -> Vec<u8> {
        let mut lines = Vec::new();
        while let Some(frame) = exchange.take_frame() {
            match protobuf::line(&frame) {
                Ok(line) => lines.extend_from_slice((line + "\n").as_bytes()),
                Err(problem) => workload.report(format!("watcher {name}: no message of ours: {problem}")),
            }
        }
        lines
    }

    /// Sends the next request.
    fn ask(&mut self, workload: &Workload, now: Instant) {
        self.turn += 1;
        let address = workload.address(self.turn);
        let path = self.scope.path();
        let (one, stream) = match self.accepts {
            MediaType::Json => ("application/json", "application/json"),
            MediaType::Protobuf => (protobuf::MEDIA_TYPE, protobuf::STREAM),
        };
        if self.lists {
            // Before the request: the reply cannot be older.
            let epoch = workload.epoch();
            match self.wire.get(self.number, &address, &path, one) {
                Ok(exchange) => self.state = State::Listing { exchange, since: now, epoch },
                Err(error) => self.broken(workload, "a list", &error, now),
            }
            return;
        }
        let from = self.newest;
        let deadline = self.rng.percent(15).then(|| Duration::from_secs(self.rng.range_u64(1, 4)));
        let mut query = format!("&watch=1&allowWatchBookmarks=true&resourceVersion={from}");
        if let Some(deadline) = deadline {
            query += &format!("&timeoutSeconds={}", deadline.as_secs());
        }
        let cut = now + Duration::from_millis(self.rng.range_u64(300, self.life_ms));
        if self.has_watched {
            self.resumes_since.get_or_insert_with(Instant::now);
        }
        match self.wire.watch(self.number, &address, &(path + &query), stream) {
            Ok(exchange) => self.state = State::Watching { exchange, since: now, from, deadline, cut },
            Err(error) => self.broken(workload, "a watch", &error, now),
        }
    }

    fn late(&mut self, workload: &Workload, what: &str, now: Instant) {
        self.counts.late += 1;
        workload.failed(format!("{what} was given up"));
        self.retry(now);
    }

    fn broken(&mut self, workload: &Workload, what: &str, error: &io::Error, now: Instant) {
        workload.failed(format!("{what} failed: {error}"));
        self.refused(now);
    }

    fn refused(&mut self, now: Instant) {
        self.counts.refused += 1;
        self.retry(now);
    }

    /// Tries again soon.
    fn retry(&mut self, now: Instant) {
        let pause = Duration::from_millis(self.rng.range_u64(20, PAUSE_MS)) * 2_u32.pow(self.failures);
        self.failures = DOUBLINGS_MAX.min(self.failures + 1);
        self.state = State::Pausing(now + pause);
    }

    fn judge_refusal(&self, workload: &Workload, status: u16, what: &str) {
        if ![429, 503, 504].contains(&status) {
            workload.report(format!("watcher {}: {what} is answered with {status}", self.name));
        }
        workload.failed(format!("{what} is answered with {status}"));
    }

    fn listed(&mut self, workload: &Workload, epoch: usize, status: Option<u16>, body: &[u8], now: Instant) {
        if status != Some(200) {
            self.judge_refusal(workload, status.unwrap_or(0), "a list");
            return self.refused(now);
        }
        if epoch != workload.epoch() {
            // It is unknown from which of the two epochs it came: it is not used.
            return self.refused(now);
        }
        let text = match self.accepts {
            MediaType::Json => Ok(String::from_utf8_lossy(body).into_owned()),
            MediaType::Protobuf => protobuf::list(body),
        };
        let text = text.unwrap_or_else(|problem| {
            workload.report(format!("watcher {}: no list of ours: {problem}", self.name));
            String::new()
        });
        let Some(revision) = objects::revision(&text) else {
            workload.report(format!("watcher {}: a list without a resourceVersion", self.name));
            return self.refused(now);
        };
        let objects =
            objects::items(&text).into_iter().filter_map(|item| self.object(workload, item)).collect();
        let list = Seen::List { revision, objects };
        match self.segments.last_mut() {
            Some(segment) if segment.epoch == epoch => segment.seen.push(list),
            _ => self.segments.push(Segment { epoch, seen: vec![list], reached: None }),
        }
        self.counts.lists += 1;
        (self.lists, self.has_watched) = (false, false);
        (self.newest, self.whole) = (revision, revision);
        self.ask(workload, now);
    }

    fn object(&self, workload: &Workload, json: &str) -> Option<Object> {
        let key = objects::key_of(self.scope.kind(), json);
        let (Some(key), Some(revision)) = (key, objects::revision(json)) else {
            workload.report(format!("watcher {}: no object of ours: {json}", self.name));
            return None;
        };
        Some(Object { key, revision, value: objects::form(json.as_bytes()) })
    }

    fn note(&mut self, seen: Seen) {
        self.segments.last_mut().expect("it has listed").seen.push(seen);
    }

    fn begun(&mut self, from: u64) {
        self.failures = 0;
        if let Some(since) = self.resumes_since.take() {
            self.counts.slowest_gap = self.counts.slowest_gap.max(since.elapsed());
        }
        if self.has_watched {
            self.counts.resumes += 1;
            self.note(Seen::Resume(from));
        }
        self.has_watched = true;
    }

    /// Lines of the stream. Returns whether it continues.
    fn told(&mut self, workload: &Workload, lines: &[u8], now: Instant) -> bool {
        let text = String::from_utf8_lossy(lines);
        for line in text.lines() {
            // Heartbeats are spaces between the lines.
            let parts = line
                .trim_start_matches(' ')
                .strip_prefix("{\"type\":\"")
                .and_then(|rest| rest.strip_suffix('}'))
                .and_then(|rest| rest.split_once("\",\"object\":"));
            let Some((kind, object)) = parts else {
                workload.report(format!("watcher {}: no event: {line}", self.name));
                continue;
            };
            let kind = match kind {
                "ADDED" => Kind::Added,
                "MODIFIED" => Kind::Modified,
                "DELETED" => Kind::Deleted,
                "BOOKMARK" => {
                    let revision = objects::revision(object).unwrap_or(0);
                    self.counts.bookmarks += 1;
                    self.note(Seen::Bookmark(revision));
                    (self.newest, self.whole) = (self.newest.max(revision), self.whole.max(revision));
                    continue;
                }
                _ => {
                    if object.contains("\"code\":410") {
                        self.counts.expired += 1;
                        self.lists = true;
                        self.ended(End::Expired, now);
                    } else {
                        // Asked to come back later.
                        let known = ["429", "503", "504"];
                        if !known.iter().any(|code| object.contains(&format!("\"code\":{code}"))) {
                            workload.report(format!("watcher {}: it is told {line}", self.name));
                        }
                        self.ended(End::Cut, now);
                    }
                    return false;
                }
            };
            let Some(object) = self.object(workload, object) else { continue };
            self.counts.events += 1;
            // Revisions before it are complete; of its own, another event may come.
            (self.newest, self.whole) =
                (self.newest.max(object.revision), self.whole.max(object.revision.saturating_sub(1)));
            self.note(Seen::Event(kind, object));
        }
        true
    }

    /// The server ended it gracefully.
    fn closed(&mut self, now: Instant) {
        let State::Watching { since, deadline, .. } = &self.state else { return };
        // `now` is from before other sockets were read. Servers count from when they took it, and may be early by a
        // tick.
        let waited = since.elapsed() + Duration::from_millis(100);
        let early = deadline.is_none_or(|deadline| waited < deadline);
        self.counts.lost += u64::from(early);
        self.ended(End::Clean, now);
    }

    fn ended(&mut self, end: End, now: Instant) {
        self.note(Seen::End(end));
        match end {
            // A graceful end never comes inside a revision.
            End::Clean => self.whole = self.newest,
            // Its last revision may be incomplete.
            End::Cut | End::Expired => self.newest = self.whole,
        }
        self.state = State::Pausing(now + Duration::from_millis(self.rng.range_u64(0, 60)));
    }
}
