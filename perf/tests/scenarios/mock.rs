//! A small list/watch server of its own, with none of the real server's code: a thread a connection, one lock. It can
//! misbehave towards one watcher, to prove that the check catches it.

use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// What the server does wrong to the first watcher, at its tenth event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mischief {
    None,
    Drop,
    Duplicate,
    /// The tenth and the eleventh event change places.
    Reorder,
    HangUp,
    /// Every watch ends at its tenth event.
    HangUpAll,
    /// Who comes back gets nothing of what it missed.
    ForgetMissed,
    /// `/livez` and single objects are answered with 500.
    Unwell,
    /// An event of an object that the watch does not cover, or of a type that does not fit.
    WrongType,
    /// A line that is no JSON.
    Garbage,
    /// Every second write is answered with 500 and not done.
    RefuseWrites,
    /// Watches get what their selectors leave out.
    IgnoreSelectors,
    /// Who comes back gets what came meanwhile, but the first of it.
    ForgetOne,
    /// Who comes back gets all that it had before, again.
    ReplayAll,
    /// Who comes back is told 410: by an event, or by the status of the answer.
    GoneEvent,
    GoneStatus,
    /// Every third watch that comes back is not answered but hung up, and every third answered with 503.
    Overloaded,
    /// Writes are answered at once, and an event goes to the watches every 20 ms only.
    Slow,
    /// All watches are refused.
    RefuseWatches,
    /// Initial events, or the items of a list, without the last of them.
    InitialShort,
    /// The first of them comes again at the end.
    InitialTwice,
    /// The mark comes in front of the last of them.
    InitialEarlyMark,
    /// The mark, or the list, has an old revision.
    InitialStale,
    /// The mark never comes.
    InitialNoMark,
    /// The stream ends in front of the mark.
    InitialCut,
}

struct Watch {
    stream: TcpStream,
    collection: String,
    query: BTreeMap<String, String>,
    accept: String,
    events: usize,
    kept_back: Option<String>,
    /// What is still to be sent, when the server is slow.
    late: VecDeque<String>,
}

struct State {
    mischief: Mischief,
    revision: u64,
    writes: u64,
    /// Watches that were asked for behind the first writes.
    returns: u64,
    /// By path of the object.
    objects: BTreeMap<String, Value>,
    watches: Vec<Watch>,
    /// Every change: its revision, what it was, of which object.
    history: Vec<(u64, &'static str, String, Value)>,
}

/// Starts a server that lives as long as the test; gives its address.
pub(crate) fn start(mischief: Mischief) -> SocketAddr {
    start_at(0, mischief)
}

/// The same on a port of the caller's choice.
pub(crate) fn start_at(port: u16, mischief: Mischief) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    let state = State {
        mischief,
        revision: 100,
        writes: 0,
        returns: 0,
        objects: BTreeMap::new(),
        watches: Vec::new(),
        history: Vec::new(),
    };
    let state = Arc::new(Mutex::new(state));
    let ticking = Arc::clone(&state);
    thread::spawn(move || {
        loop {
            thread::sleep(Duration::from_millis(100));
            lock(&ticking).tick();
        }
    });
    let slow = Arc::clone(&state);
    thread::spawn(move || {
        if mischief != Mischief::Slow {
            return;
        }
        loop {
            thread::sleep(Duration::from_millis(20));
            for watch in &mut lock(&slow).watches {
                if let Some(line) = watch.late.pop_front() {
                    watch.send(&line);
                }
            }
        }
    });
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let state = Arc::clone(&state);
            thread::spawn(move || serve(stream, &state));
        }
    });
    address
}

/// Reads requests, also pipelined ones, until the client leaves or the connection becomes a watch.
fn serve(stream: TcpStream, state: &Mutex<State>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut input = BufReader::new(stream.try_clone().ok()?);
    let mut output = stream;
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok().filter(|&count| count > 0)?;
        let mut words = line.split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let (mut length, mut accept) = (0, String::new());
        loop {
            let mut header = String::new();
            input.read_line(&mut header).ok()?;
            if header.trim().is_empty() {
                break;
            }
            if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            } else if let Some(value) = header.strip_prefix("Accept:") {
                value.trim().clone_into(&mut accept);
            }
        }
        let mut body = vec![0; length];
        input.read_exact(&mut body).ok()?;
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let query = parse_query(query);
        let mut state = lock(state);
        if query.contains_key("watch") {
            if state.mischief == Mischief::RefuseWatches {
                reply(
                    &mut output,
                    429,
                    &json!({"kind": "Status", "message": "storage is (re)initializing"}),
                )?;
                continue;
            }
            let missed = state.missed(path, &query);
            if !missed.is_empty() || state.mischief == Mischief::Overloaded && state.writes > 5 {
                state.returns += 1;
                match (state.mischief, state.returns % 3) {
                    (Mischief::GoneStatus, _) => {
                        reply(
                            &mut output,
                            410,
                            &json!({"kind": "Status", "code": 410, "message": "too old"}),
                        )?;
                        continue;
                    }
                    (Mischief::Overloaded, 1) => return None,
                    (Mischief::Overloaded, 2) => {
                        reply(&mut output, 503, &json!({"kind": "Status", "message": "later"}))?;
                        continue;
                    }
                    _ => {}
                }
            }
            output.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n").ok()?;
            let collection = path.to_owned();
            if query.contains_key("sendInitialEvents") && !state.send_initial(&mut output, path)? {
                return None;
            }
            let mut watch = Watch {
                stream: output,
                collection,
                query,
                accept,
                events: 0,
                kept_back: None,
                late: VecDeque::new(),
            };
            if state.mischief == Mischief::GoneEvent && !missed.is_empty() {
                watch.send("{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"reason\":\"Expired\",\"code\":410}}\n");
                watch.stream.write_all(b"0\r\n\r\n").ok()?;
                return None;
            }
            let forgotten = if state.mischief == Mischief::ForgetMissed {
                missed.len()
            } else {
                usize::from(state.mischief == Mischief::ForgetOne)
            };
            for (kind, object) in missed.iter().skip(forgotten) {
                watch.events += 1;
                watch.send(&watch.line(kind, object));
            }
            state.watches.push(watch);
            drop(state);
            // Whoever watches sends no more: this is the end of the connection.
            let _end = input.read(&mut [0]);
            return None;
        }
        let (status, answer) = state.answer(&method, path, &query, &body);
        drop(state);
        reply(&mut output, status, &answer)?;
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn reply(output: &mut TcpStream, status: u16, body: &Value) -> Option<()> {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    output.write_all(format!("{head}{body}").as_bytes()).ok()
}

fn parse_query(query: &str) -> BTreeMap<String, String> {
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (key.to_owned(), value.replace("%3D", "="))
    };
    query.split('&').filter(|text| !text.is_empty()).map(pair).collect()
}

/// `half=odd` on labels and `metadata.name=x` on fields: as much as the tests need.
fn selects(query: &BTreeMap<String, String>, object: &Value) -> bool {
    let label = query.get("labelSelector").and_then(|text| text.split_once('='));
    let field = query.get("fieldSelector").and_then(|text| text.split_once('='));
    label.is_none_or(|(key, value)| object["metadata"]["labels"][key] == value)
        && field.is_none_or(|(path, value)| path.split('.').fold(object, |at, key| &at[key]) == value)
}

/// Whether the object at `path` is in `collection`: of its namespace, or of all.
fn covers(collection: &str, path: &str) -> bool {
    let Some((parent, _)) = path.rsplit_once('/') else { return false };
    let everywhere = || {
        let (root, rest) = parent.split_once("/namespaces/")?;
        let (_, plural) = rest.split_once('/')?;
        Some(collection == format!("{root}/{plural}"))
    };
    parent == collection || everywhere().unwrap_or(false)
}

impl State {
    fn answer(
        &mut self,
        method: &str,
        path: &str,
        query: &BTreeMap<String, String>,
        body: &[u8],
    ) -> (u16, Value) {
        match method {
            "GET"
                if self.mischief == Mischief::Unwell
                    && (path == "/livez" || self.objects.contains_key(path)) =>
            {
                (500, json!({"kind": "Status", "message": "not well"}))
            }
            "GET" if path == "/livez" => (200, json!("ok")),
            "GET" if self.objects.contains_key(path) => (200, self.objects[path].clone()),
            "GET" => {
                let all = self.objects.iter().filter(|(object, _)| covers(path, object));
                let mut items: Vec<&Value> =
                    all.map(|(_, object)| object).filter(|object| selects(query, object)).collect();
                let mut revision = self.revision;
                if self.mischief == Mischief::InitialShort {
                    items.pop();
                } else if self.mischief == Mischief::InitialTwice {
                    items.extend(items.first().copied());
                } else if self.mischief == Mischief::InitialStale {
                    revision = 1;
                }
                (200, json!({"metadata": {"resourceVersion": revision.to_string()}, "items": items}))
            }
            "DELETE" => {
                let prefix = format!("{path}/");
                self.objects.retain(|path, _| !path.starts_with(&prefix));
                (200, json!({"kind": "Status"}))
            }
            "POST" | "PUT" => {
                let mut object: Value = serde_json::from_slice(body).expect("the client sends JSON");
                let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                let path = if method == "POST" { format!("{path}/{name}") } else { path.to_owned() };
                if method == "POST" && self.objects.contains_key(&path) {
                    return (409, json!({"kind": "Status", "message": "already exists"}));
                }
                if method == "PUT" {
                    self.writes += 1;
                    if self.mischief == Mischief::RefuseWrites && self.writes.is_multiple_of(2) {
                        return (500, json!({"kind": "Status", "message": "no"}));
                    }
                }
                self.revision += 1;
                object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
                let kind = if method == "POST" { "ADDED" } else { "MODIFIED" };
                self.objects.insert(path.clone(), object.clone());
                self.publish(kind, &path, &object);
                (if method == "POST" { 201 } else { 200 }, object)
            }
            _ => (405, json!({"kind": "Status"})),
        }
    }

    /// What a watch that starts at a revision has missed.
    fn missed(&self, collection: &str, query: &BTreeMap<String, String>) -> Vec<(&'static str, Value)> {
        let after = query.get("resourceVersion").and_then(|text| text.parse().ok()).unwrap_or(u64::MAX);
        let changes = |after: u64| {
            let newer = self.history.iter().filter(move |(at, ..)| *at > after);
            let wanted =
                newer.filter(|(_, _, path, object)| covers(collection, path) && selects(query, object));
            wanted.map(|(_, kind, _, object)| (*kind, object.clone()))
        };
        let missed: Vec<_> = changes(after).collect();
        if self.mischief != Mischief::ReplayAll || missed.is_empty() {
            return missed;
        }
        changes(0).filter(|(kind, _)| *kind == "MODIFIED").collect()
    }

    /// The state of a collection as events, and the mark. `Some(false)`: the stream is over.
    fn send_initial(&self, output: &mut TcpStream, path: &str) -> Option<bool> {
        let prefix = format!("{path}/");
        let all = self.objects.iter().filter(|(path, _)| path.starts_with(&prefix));
        let line = |kind: &str, object: &Value| format!("{}\n", json!({"type": kind, "object": object}));
        let mut lines: Vec<String> = all.map(|(_, object)| line("ADDED", object)).collect();
        let revision = if self.mischief == Mischief::InitialStale { 1 } else { self.revision };
        let mark = line(
            "BOOKMARK",
            &json!({"metadata": {"resourceVersion": revision.to_string(), "annotations": {"k8s.io/initial-events-end": "true"}}}),
        );
        let last = lines.len().saturating_sub(1);
        if self.mischief == Mischief::InitialShort {
            lines.pop();
        } else if self.mischief == Mischief::InitialTwice {
            lines.extend(lines.first().cloned());
        } else if self.mischief == Mischief::InitialEarlyMark {
            lines.insert(last, mark.clone());
        }
        if !matches!(self.mischief, Mischief::InitialNoMark | Mischief::InitialCut) {
            lines.push(mark);
        }
        let mut bytes = Vec::new();
        for piece in lines.concat().as_bytes().chunks(700) {
            bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            bytes.extend_from_slice(piece);
            bytes.extend_from_slice(b"\r\n");
        }
        output.write_all(&bytes).ok()?;
        if self.mischief == Mischief::InitialCut {
            output.write_all(b"0\r\n\r\n").ok()?;
        }
        Some(self.mischief != Mischief::InitialCut)
    }

    /// A heartbeat and a bookmark for who asked for bookmarks.
    fn tick(&mut self) {
        let object = json!({"metadata": {"resourceVersion": self.revision.to_string()}});
        let bookmark = format!("{}\n", json!({"type": "BOOKMARK", "object": object}));
        for watch in self.watches.iter_mut().filter(|watch| watch.query.contains_key("allowWatchBookmarks")) {
            watch.send(" ");
            watch.send(&bookmark);
        }
    }

    fn publish(&mut self, kind: &'static str, path: &str, object: &Value) {
        self.history.push((self.revision, kind, path.to_owned(), object.clone()));
        let mischief = self.mischief;
        for (number, watch) in self.watches.iter_mut().enumerate() {
            let selected = mischief == Mischief::IgnoreSelectors || selects(&watch.query, object);
            if !covers(&watch.collection, path) || !selected {
                continue;
            }
            watch.events += 1;
            let line = watch.line(kind, object);
            if mischief == Mischief::Slow {
                watch.late.push_back(line);
                continue;
            }
            if mischief == Mischief::HangUpAll && watch.events == 10 {
                let _gone = watch.stream.shutdown(std::net::Shutdown::Both);
                continue;
            }
            if number != 0 || !(10..=11).contains(&watch.events) {
                watch.send(&line);
                continue;
            }
            match (mischief, watch.events) {
                (Mischief::Drop, 10) => {}
                (Mischief::Duplicate, 10) => [&line, &line].into_iter().for_each(|line| watch.send(line)),
                (Mischief::Reorder, 10) => watch.kept_back = Some(line.clone()),
                (Mischief::HangUp, 10) => {
                    let _gone = watch.stream.shutdown(std::net::Shutdown::Both);
                }
                (Mischief::WrongType, 10) => watch.send(&line.replacen("MODIFIED", "DELETED", 1)),
                (Mischief::Garbage, 10) => {
                    ["} nonsense {\n", &line].into_iter().for_each(|line| watch.send(line))
                }
                _ => {
                    watch.send(&line);
                    if let Some(late) = watch.kept_back.take() {
                        watch.send(&late);
                    }
                }
            }
        }
    }
}

impl Watch {
    /// One event, in the shape that was asked for.
    fn line(&self, kind: &str, object: &Value) -> String {
        let metadata = &object["metadata"];
        let object = if self.accept.contains("as=Table") {
            let revision = &metadata["resourceVersion"];
            let rows = json!([{"cells": [metadata["name"]], "object": {"metadata": metadata}}]);
            json!({"kind": "Table", "metadata": {"resourceVersion": revision}, "rows": rows})
        } else if self.accept.contains("as=PartialObjectMetadata") {
            json!({"kind": "PartialObjectMetadata", "metadata": metadata})
        } else {
            object.clone()
        };
        format!("{}\n", json!({"type": kind, "object": object}))
    }

    /// In chunks that end in the middle of events, as a busy server cuts them.
    fn send(&mut self, line: &str) {
        let mut bytes = Vec::new();
        for piece in line.as_bytes().chunks(700) {
            bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            bytes.extend_from_slice(piece);
            bytes.extend_from_slice(b"\r\n");
        }
        let _gone = self.stream.write_all(&bytes);
    }
}
