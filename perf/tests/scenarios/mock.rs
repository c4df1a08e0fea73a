//! A small list/watch server of its own, with none of the real server's code: a thread a connection, one lock. It can
//! misbehave towards one watcher, to prove that the check catches it.

use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// What the server does wrong to the first watcher, at its tenth event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum Mischief {
    #[default]
    None,
    Drop,
    Duplicate,
    /// The tenth and the eleventh event change places.
    Reorder,
    HangUp,
    HangUpAll,
    /// As `HangUp`, and over HTTP/2 the whole connection ends.
    GoAway,
    /// It allows two streams a connection.
    FewStreams,
    /// It offers no protocol by ALPN.
    OnlyHttp1,
    /// A watch that returns gets nothing of what it missed.
    ForgetMissed,
    /// `/livez` and single objects are answered with 500.
    Unwell,
    /// An event of an object that the watch does not cover, or of a type that does not fit.
    WrongType,
    Garbage,
    /// Every second write is answered with 500 and not done.
    RefuseWrites,
    /// Watches get what their selectors leave out.
    IgnoreSelectors,
    /// A watch that returns gets what came meanwhile, but the first of it.
    ForgetOne,
    /// A watch that returns gets all that it had before, again.
    ReplayAll,
    /// A watch that returns is told 410: by an event, or by the status of the answer.
    GoneEvent,
    GoneStatus,
    /// Every third watch that returns is not answered but hung up, and every third answered with 503.
    Overloaded,
    /// Writes are answered at once, and an event goes to the watches every 20 ms only.
    Slow,
    RefuseWatches,
    /// Initial events, or the items of a list, without the last of them.
    InitialShort,
    /// The first of them comes again at the end.
    InitialTwice,
    /// The mark comes before the last of them.
    InitialEarlyMark,
    /// The mark, or the list, has an old revision.
    InitialStale,
    InitialNoMark,
    InitialCut,
}

/// How often a slow server sends an event; the others send bookmarks on every fifth tick.
const TICK: Duration = Duration::from_millis(20);

type Answer = (u16, Value);

struct Request {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    accept: String,
    body: Vec<u8>,
}

struct Watch {
    stream: TcpStream,
    request: Request,
    events: usize,
    /// What is still to be sent: of a slow server, and of an event that changes places.
    late: VecDeque<String>,
}

#[derive(Default)]
struct State {
    mischief: Mischief,
    revision: u64,
    writes: u64,
    /// Watches that were asked for after the first writes.
    returns: u64,
    objects: BTreeMap<String, Value>,
    watches: Vec<Watch>,
    /// Every change: its revision, what it was, of which object.
    history: Vec<(u64, &'static str, String, Value)>,
}

/// Starts a server that lives as long as the test; gives its address.
pub(crate) fn start(mischief: Mischief) -> SocketAddr {
    start_at(0, mischief)
}

pub(crate) fn start_at(port: u16, mischief: Mischief) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    let state = Arc::new(Mutex::new(State { mischief, revision: 100, ..State::default() }));
    let ticking = Arc::clone(&state);
    thread::spawn(move || {
        for number in 1.. {
            thread::sleep(TICK);
            lock(&ticking).tick(number);
        }
    });
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let state = Arc::clone(&state);
            thread::spawn(move || serve(&stream, &state));
        }
    });
    address
}

/// Answers requests, also pipelined ones, until the client leaves or the connection becomes a watch.
fn serve(stream: &TcpStream, state: &Mutex<State>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut input = BufReader::new(stream);
    loop {
        let request = Request::read(&mut input)?;
        let mut state = lock(state);
        let (status, body) = if request.query.contains_key("watch") {
            match state.watch(request, stream) {
                Err(refusal) => refusal,
                Ok(open) => {
                    drop(state);
                    // A client that watches sends no more: this is the end of the connection.
                    let _end = if open { input.read(&mut [0]) } else { Ok(0) };
                    return None;
                }
            }
        } else {
            state.answer(&request)
        };
        drop(state);
        let (mut output, body) = (stream, body.to_string());
        let head = "Content-Type: application/json\r\nContent-Length";
        write!(output, "HTTP/1.1 {status} X\r\n{head}: {}\r\n\r\n{body}", body.len()).ok()?;
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn status(code: u16, message: &str) -> Answer {
    (code, json!({"kind": "Status", "code": code, "message": message}))
}

fn event(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

impl Request {
    fn wants(&self, path: &str, object: &Value) -> bool {
        self.covers(path) && self.selects(object)
    }

    /// Whether the object at `path` is in the collection: of its namespace, or of all.
    fn covers(&self, path: &str) -> bool {
        let Some((parent, _)) = path.rsplit_once('/') else { return false };
        let everywhere = || {
            let (root, rest) = parent.split_once("/namespaces/")?;
            let (_, plural) = rest.split_once('/')?;
            Some(self.path == format!("{root}/{plural}"))
        };
        parent == self.path || everywhere().unwrap_or(false)
    }

    /// `half=odd` on labels and `metadata.name=x` on fields: as much as the tests need.
    fn selects(&self, object: &Value) -> bool {
        let [label, field] =
            ["labelSelector", "fieldSelector"].map(|name| self.query.get(name)?.split_once('='));
        label.is_none_or(|(key, value)| object["metadata"]["labels"][key] == value)
            && field.is_none_or(|(path, value)| path.split('.').fold(object, |at, key| &at[key]) == value)
    }

    fn read(input: &mut impl BufRead) -> Option<Self> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            input.read_line(&mut head).ok().filter(|&count| count > 0)?;
        }
        let header = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.find(|line| line.0.eq_ignore_ascii_case(name)).map_or("", |line| line.1)
        };
        let mut body = vec![0; header("Content-Length").parse().unwrap_or(0)];
        input.read_exact(&mut body).ok()?;
        let mut words = head.split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let query = pairs.map(|(key, value)| (key.to_owned(), value.replace("%3D", "="))).collect();
        Some(Self { method, path: path.to_owned(), query, accept: header("Accept").to_owned(), body })
    }
}

impl State {
    fn answer(&mut self, request: &Request) -> Answer {
        let (method, path) = (request.method.as_str(), &request.path);
        match method {
            "GET"
                if self.mischief == Mischief::Unwell
                    && (path == "/livez" || self.objects.contains_key(path)) =>
            {
                status(500, "not well")
            }
            "GET" if path == "/livez" => (200, json!("ok")),
            "GET" if self.objects.contains_key(path) => (200, self.objects[path].clone()),
            "GET" => {
                let (items, revision) = self.initial(request);
                (200, json!({"metadata": {"resourceVersion": revision}, "items": items}))
            }
            "DELETE" => {
                let prefix = format!("{path}/");
                self.objects.retain(|path, _| !path.starts_with(&prefix));
                status(200, "")
            }
            "POST" | "PUT" => self.write(method == "POST", path, &request.body),
            _ => status(405, ""),
        }
    }

    fn write(&mut self, creates: bool, path: &str, body: &[u8]) -> Answer {
        let mut object: Value = serde_json::from_slice(body).expect("the client sends JSON");
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let path = if creates { format!("{path}/{name}") } else { path.to_owned() };
        if creates && self.objects.contains_key(&path) {
            return status(409, "already exists");
        }
        self.writes += u64::from(!creates);
        if !creates && self.mischief == Mischief::RefuseWrites && self.writes.is_multiple_of(2) {
            return status(500, "no");
        }
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.objects.insert(path.clone(), object.clone());
        self.publish(if creates { "ADDED" } else { "MODIFIED" }, &path, &object);
        (if creates { 201 } else { 200 }, object)
    }

    fn initial(&self, request: &Request) -> (Vec<Value>, String) {
        let all = self.objects.iter().filter(|(path, object)| request.wants(path, object));
        let mut items: Vec<Value> = all.map(|(_, object)| object.clone()).collect();
        if self.mischief == Mischief::InitialShort {
            items.pop();
        } else if self.mischief == Mischief::InitialTwice {
            items.extend(items.first().cloned());
        }
        let revision = if self.mischief == Mischief::InitialStale { 1 } else { self.revision };
        (items, revision.to_string())
    }

    /// Begins a watch; `Ok(false)`: it is over already.
    fn watch(&mut self, request: Request, stream: &TcpStream) -> Result<bool, Answer> {
        if self.mischief == Mischief::RefuseWatches {
            return Err(status(429, "storage is (re)initializing"));
        }
        let missed = self.missed(&request);
        if !missed.is_empty() || self.mischief == Mischief::Overloaded && self.writes > 5 {
            self.returns += 1;
            match (self.mischief, self.returns % 3) {
                (Mischief::GoneStatus, _) => return Err(status(410, "too old")),
                (Mischief::Overloaded, 1) => return Ok(false),
                (Mischief::Overloaded, 2) => return Err(status(503, "later")),
                _ => {}
            }
        }
        let stream = stream.try_clone().expect("few descriptors are open");
        let mut watch = Watch { stream, request, events: 0, late: VecDeque::new() };
        watch
            .write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
        let initial = watch.request.query.contains_key("sendInitialEvents");
        if initial && !self.send_initial(&mut watch) {
            return Ok(false);
        }
        if self.mischief == Mischief::GoneEvent && !missed.is_empty() {
            watch.send(&event("ERROR", &json!({"kind": "Status", "reason": "Expired", "code": 410})));
            watch.write("0\r\n\r\n");
            return Ok(false);
        }
        let forgotten = if self.mischief == Mischief::ForgetMissed {
            missed.len()
        } else {
            usize::from(self.mischief == Mischief::ForgetOne)
        };
        for (kind, object) in missed.iter().skip(forgotten) {
            watch.events += 1;
            watch.send(&watch.line(kind, object));
        }
        self.watches.push(watch);
        Ok(true)
    }

    fn missed(&self, request: &Request) -> Vec<(&'static str, Value)> {
        let after = request.query.get("resourceVersion").and_then(|text| text.parse().ok());
        let changes = |after: u64| {
            let newer = self.history.iter().filter(move |(at, ..)| *at > after);
            let wanted = newer.filter(|(_, _, path, object)| request.wants(path, object));
            wanted.map(|(_, kind, _, object)| (*kind, object.clone()))
        };
        let missed: Vec<_> = changes(after.unwrap_or(u64::MAX)).collect();
        if self.mischief != Mischief::ReplayAll || missed.is_empty() {
            return missed;
        }
        changes(0).filter(|(kind, _)| *kind == "MODIFIED").collect()
    }

    /// The objects of a collection as events, and the mark. Whether the stream goes on.
    fn send_initial(&self, watch: &mut Watch) -> bool {
        let (objects, revision) = self.initial(&watch.request);
        let mut lines: Vec<String> = objects.iter().map(|object| event("ADDED", object)).collect();
        let annotations = json!({"k8s.io/initial-events-end": "true"});
        let mark = event(
            "BOOKMARK",
            &json!({"metadata": {"resourceVersion": revision, "annotations": annotations}}),
        );
        if self.mischief == Mischief::InitialEarlyMark {
            lines.insert(lines.len().saturating_sub(1), mark);
        } else if !matches!(self.mischief, Mischief::InitialNoMark | Mischief::InitialCut) {
            lines.push(mark);
        }
        watch.send(&lines.concat());
        if self.mischief == Mischief::InitialCut {
            watch.write("0\r\n\r\n");
        }
        self.mischief != Mischief::InitialCut
    }

    /// Of a slow server an event for each watch. Now and then a heartbeat and a bookmark for watches that asked for bookmarks.
    fn tick(&mut self, number: u64) {
        let bookmark =
            event("BOOKMARK", &json!({"metadata": {"resourceVersion": self.revision.to_string()}}));
        for watch in &mut self.watches {
            if self.mischief == Mischief::Slow
                && let Some(line) = watch.late.pop_front()
            {
                watch.send(&line);
            }
            if number.is_multiple_of(5) && watch.request.query.contains_key("allowWatchBookmarks") {
                watch.send(" ");
                watch.send(&bookmark);
            }
        }
    }

    fn publish(&mut self, kind: &'static str, path: &str, object: &Value) {
        self.history.push((self.revision, kind, path.to_owned(), object.clone()));
        for (number, watch) in self.watches.iter_mut().enumerate() {
            let selected = self.mischief == Mischief::IgnoreSelectors || watch.request.selects(object);
            if !watch.request.covers(path) || !selected {
                continue;
            }
            watch.events += 1;
            let line = watch.line(kind, object);
            let lines = match (self.mischief, watch.events, number) {
                (Mischief::HangUpAll, 10, _) | (Mischief::HangUp | Mischief::GoAway, 10, 0) => {
                    let _gone = watch.stream.shutdown(Shutdown::Both);
                    vec![]
                }
                (Mischief::Drop, 10, 0) => vec![],
                (Mischief::Duplicate, 10, 0) => vec![line.clone(), line],
                (Mischief::WrongType, 10, 0) => vec![line.replacen("MODIFIED", "DELETED", 1)],
                (Mischief::Garbage, 10, 0) => vec!["} nonsense {\n".to_owned(), line],
                (Mischief::Slow, ..) | (Mischief::Reorder, 10, 0) => {
                    watch.late.push_back(line);
                    vec![]
                }
                _ => std::iter::once(line).chain(watch.late.drain(..)).collect(),
            };
            lines.iter().for_each(|line| watch.send(line));
        }
    }
}

impl Watch {
    /// One event, in the shape that was asked for.
    fn line(&self, kind: &str, object: &Value) -> String {
        let metadata = &object["metadata"];
        if self.request.accept.contains("as=Table") {
            let revision = &metadata["resourceVersion"];
            let rows = json!([{"cells": [metadata["name"]], "object": {"metadata": metadata}}]);
            event(kind, &json!({"kind": "Table", "metadata": {"resourceVersion": revision}, "rows": rows}))
        } else if self.request.accept.contains("as=PartialObjectMetadata") {
            event(kind, &json!({"kind": "PartialObjectMetadata", "metadata": metadata}))
        } else {
            event(kind, object)
        }
    }

    /// In chunks that end in the middle of events, as a busy server cuts them.
    fn send(&mut self, text: &str) {
        let mut bytes = Vec::new();
        for piece in text.as_bytes().chunks(700) {
            bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            bytes.extend_from_slice(piece);
            bytes.extend_from_slice(b"\r\n");
        }
        let _gone = self.stream.write_all(&bytes);
    }

    fn write(&mut self, text: &str) {
        let _gone = self.stream.write_all(text.as_bytes());
    }
}
