//! Recordings of kube-apiserver, replayed: the recorded request is sent to our server, and the replies are compared
//! after both went through [`normal`].
//!
//! Revisions: theirs are shifted by a fixed offset, which is valid as long as a test makes the same writes in the same
//! order ([`History`]).

use std::path::Path;

use revcast_tests::client::{Client, Response};
use revcast_tests::server::Server;
use serde_json::{Value, json};

use crate::differences;

/// One request and kube-apiserver's reply.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    /// Whether the body is recorded with its chunks.
    pub(crate) raw: bool,
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) status: u16,
    pub(crate) answer_headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// The recordings of one file of `tests/recorded`, by their titles.
pub(crate) fn file(name: &str) -> Vec<(String, Recorded)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("recorded").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let mut found = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    for (number, pair) in lines.windows(2).enumerate() {
        if let (Some(title), Some(command)) = (pair[0].strip_prefix("# "), pair[1].strip_prefix("$ curl ")) {
            // Some contain only the size of the reply.
            if let Some(recorded) = parse(command, &lines[number + 2..]) {
                found.push((title.to_owned(), recorded));
            }
        }
    }
    assert!(!found.is_empty(), "no recording in {path:?}");
    found
}

/// The recording whose title begins with this.
pub(crate) fn one(name: &str, title: &str) -> Recorded {
    let all = file(name);
    all.into_iter().find(|(found, _)| found.starts_with(title)).expect("a recording of this title").1
}

fn parse(command: &str, lines: &[&str]) -> Option<Recorded> {
    let (options, target) = command.split_once("https://apiserver:6443").expect("a URL");
    let target = target.split(' ').next().expect("split gives one").to_owned();
    let mut method = "GET".to_owned();
    let mut headers = Vec::new();
    for option in options.split(" -").map(str::trim) {
        if let Some(value) = option.strip_prefix("X ") {
            value.clone_into(&mut method);
        } else if option == "I" {
            "HEAD".clone_into(&mut method);
        } else if let Some((name, value)) = option.strip_prefix("H ").and_then(|h| h.split_once(": ")) {
            headers.push((name.to_owned(), value.to_owned()));
        } else if let Some(agent) = option.strip_prefix("A ") {
            headers.push(("User-Agent".to_owned(), agent.to_owned()));
        }
    }
    let mut lines = lines
        .iter()
        .take_while(|line| !line.starts_with("# (e"))
        .map(|line| line.strip_suffix("\\r").unwrap_or(line))
        .skip_while(|line| !line.starts_with("HTTP/"));
    let status_line = lines.next()?;
    let status = status_line.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a code");
    let answer_headers = lines
        .by_ref()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let end =
        |line: &&str| line.starts_with("# ") || line.starts_with("TIME_TOTAL") || line.starts_with("$ ");
    let body: Vec<&str> = lines.take_while(|line| !end(line)).collect();
    let raw = options.contains("--raw");
    Some(Recorded { raw, method, target, headers, status, answer_headers, body: body.join("\n") })
}

/// The same writes as in the recordings, so that revisions differ by a fixed offset only.
#[derive(Debug)]
pub(crate) struct History {
    /// Runs as long as the history is in use.
    pub(crate) server: Server,
    pub(crate) client: Client,
    /// Our revision minus theirs.
    pub(crate) offset: i64,
}

impl History {
    /// A server on which the next write gets the revision that was `next` in the recordings.
    pub(crate) fn new(next: i64, options: &[&str]) -> Self {
        let server = Server::start(options);
        let client = server.client();
        let mut history = Self { server, client, offset: 0 };
        // Theirs began earlier: revisions that they look back at must exist here too.
        history.next_is(next.max(history.revision() + 1));
        history.offset = history.revision() + 1 - next;
        history
    }

    /// The newest revision, in our counting.
    pub(crate) fn revision(&self) -> i64 {
        let list = self.client.get("/api/v1/namespaces/nobody/configmaps").json();
        list["metadata"]["resourceVersion"].as_str().and_then(|rv| rv.parse().ok()).expect("a revision")
    }

    /// Writes elsewhere until the next write gets the recordings' revision `theirs`.
    pub(crate) fn next_is(&self, theirs: i64) {
        while self.revision() + 1 < theirs + self.offset {
            let lease = json!({"metadata": {"generateName": "filler-"}});
            let path = "/apis/coordination.k8s.io/v1/namespaces/elsewhere/leases";
            assert_eq!(self.client.send("POST", path, &lease).status, 201);
        }
        assert_eq!(self.revision() + 1, theirs + self.offset, "the history is past {theirs}");
    }

    /// Creates a ConfigMap in namespace t1, with the recordings' next revision.
    pub(crate) fn create(&self, name: &str, app: &str, k: &str) {
        let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "labels": {"app": app}}, "data": {"k": k}});
        let reply = self.client.send("POST", "/api/v1/namespaces/t1/configmaps", &object);
        assert_eq!(reply.status, 201, "{}", reply.text());
    }

    /// Changes a label and data of one of them.
    pub(crate) fn update(&self, name: &str, app: &str, k: &str) {
        let patch = json!({"metadata": {"labels": {"app": app}}, "data": {"k": k}});
        let path = format!("/api/v1/namespaces/t1/configmaps/{name}");
        assert_eq!(self.client.patch(&path, "merge-patch", &patch).status, 200);
    }

    /// Deletes one of them.
    pub(crate) fn delete(&self, name: &str) {
        let path = format!("/api/v1/namespaces/t1/configmaps/{name}");
        assert_eq!(self.client.request("DELETE", &path, &[], &[]).status, 200);
    }

    /// Sends the recorded request with its revisions shifted, and compares everything that must be equal.
    pub(crate) fn replay(&self, file_name: &str, title: &str) {
        let all = file(file_name);
        let (title, recorded) =
            all.into_iter().find(|(found, _)| found.starts_with(title)).expect("a recording");
        if let Some(ours) = differences::ours(file_name, &title, recorded) {
            self.compare(&ours, &format!("{file_name}: {title}"));
        }
    }

    /// The same for every recording of a file whose title `wanted` accepts.
    pub(crate) fn replay_all(&self, file_name: &str, wanted: impl Fn(&str) -> bool) {
        for (title, _) in file(file_name).iter().filter(|(title, _)| wanted(title)) {
            self.replay(file_name, title);
        }
    }

    /// The target of a recording in our revisions.
    pub(crate) fn target(&self, recorded: &Recorded) -> String {
        let Some((path, query)) = recorded.target.split_once('?') else { return recorded.target.clone() };
        let pairs = query.split('&').map(|pair| match pair.split_once('=') {
            Some(("resourceVersion", number)) => match number.parse::<i64>() {
                Ok(number @ 2..1_000_000_000) => format!("resourceVersion={}", number + self.offset),
                Ok(_) | Err(_) => pair.to_owned(),
            },
            Some(("continue", token)) => match decode_token(token) {
                Some(mut token) => {
                    if let Some(revision @ 1..) = token["rv"].as_i64() {
                        token["rv"] = (revision + self.offset).into();
                    }
                    format!("continue={}", base64url(token.to_string().as_bytes()))
                }
                None => pair.to_owned(),
            },
            _ => pair.to_owned(),
        });
        format!("{path}?{}", pairs.collect::<Vec<_>>().join("&"))
    }

    /// Sends a recorded request and compares everything that must be equal.
    pub(crate) fn compare(&self, recorded: &Recorded, what: &str) {
        let target = self.target(recorded);
        let headers: Vec<(&str, &str)> =
            recorded.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let body: &[u8] = if recorded.method == "PUT" { b"{}" } else { b"" };
        let answer = self.client.request(&recorded.method, &target, &headers, body);
        assert_eq!(answer.status, recorded.status, "{what}: {target}: {}", answer.text());
        let of_chunks = |line: &&str| !recorded.raw || line.starts_with('{');
        let theirs = recorded.body.lines().filter(of_chunks).collect::<Vec<_>>().join("\n");
        let theirs = normal(&theirs, 0);
        assert_eq!(normal(&answer.text(), self.offset), theirs, "{what}: {target}");
        self.compare_headers(&answer, recorded, what);
    }

    fn compare_headers(&self, answer: &Response, recorded: &Recorded, what: &str) {
        for (name, value) in &recorded.answer_headers {
            match name.as_str() {
                "content-type" | "cache-control" | "retry-after" | "x-content-type-options" => {
                    assert_eq!(answer.header(name), Some(value.as_str()), "{what}: {name}");
                }
                "audit-id" | "date" => assert!(answer.header(name).is_some(), "{what}: {name}"),
                // Lengths differ with revisions and with managedFields; that short lists have one, and watches never,
                // is compared in other tests.
                _ => {}
            }
        }
        let framed =
            answer.header("content-length").is_some() != answer.header("transfer-encoding").is_some();
        assert!(framed, "{what}: one framing");
    }
}

/// Text without parts that differ from run to run: JSON, one JSON text per line, or YAML. `offset` is subtracted from
/// revisions.
pub(crate) fn normal(text: &str, offset: i64) -> String {
    if text.starts_with("apiVersion: ") {
        return normal_yaml(text, offset);
    }
    if let Ok(mut value) = serde_json::from_str(text.trim()) {
        normalise(&mut value, offset);
        return value.to_string();
    }
    let line = |line: &str| match serde_json::from_str(line) {
        Ok(mut value) => {
            normalise(&mut value, offset);
            value.to_string()
        }
        Err(_) => line.trim_end().to_owned(),
    };
    text.lines().filter(|line| !line.is_empty()).map(line).collect::<Vec<_>>().join("\n")
}

/// The lines of YAML; `managedFields`, which are written by servers with schemas, are left out with everything below
/// them.
fn normal_yaml(text: &str, offset: i64) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut skipped = None;
    for line in text.trim_end().lines() {
        let indent = line.len() - line.trim_start().len();
        let inside = |from: usize| indent > from || (indent == from && line.trim_start().starts_with("- "));
        if skipped.is_some_and(inside) {
            continue;
        }
        skipped = (line.trim() == "managedFields:").then_some(indent);
        if skipped.is_some() {
            continue;
        }
        let (key, value) = line.split_once(": ").unwrap_or((line, ""));
        let shown = match key.trim_start_matches(['-', ' ']) {
            "uid" => "UID".to_owned(),
            "creationTimestamp" => "TIME".to_owned(),
            "resourceVersion" => {
                let revision: i64 = value.trim_matches('"').parse().expect("a revision");
                assert!(value.starts_with('"'), "a text: {line}");
                (revision - offset).to_string()
            }
            "continue" => {
                let mut members = serde_json::json!({"continue": value});
                normalise(&mut members, offset);
                members.to_string()
            }
            _ => value.to_owned(),
        };
        lines.push(format!("{key}: {shown}"));
    }
    lines.join("\n")
}

fn normalise(value: &mut Value, offset: i64) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| normalise(item, offset)),
        Value::Object(members) => {
            members.shift_remove("managedFields");
            for (name, member) in members.iter_mut() {
                match (name.as_str(), &mut *member) {
                    ("uid", Value::String(text)) => "UID".clone_into(text),
                    ("creationTimestamp" | "deletionTimestamp", Value::String(text)) => {
                        "TIME".clone_into(text);
                    }
                    ("resourceVersion", Value::String(text)) => {
                        let revision: i64 = text.parse().expect("a revision");
                        *text = (revision - offset).to_string();
                    }
                    ("continue", Value::String(text)) => {
                        let mut token = decode_token(text).expect("a token");
                        // Over etcd a token also has the history that its revisions belong to.
                        token.as_object_mut().expect("an object").remove("line");
                        if let Some(revision @ 1..) = token["rv"].as_i64() {
                            token["rv"] = (revision - offset).into();
                        }
                        *member = token;
                    }
                    // The newest revision at that moment: their background writers moved it.
                    ("message", Value::String(text)) => {
                        const FUTURE: &str = "Too large resource version: ";
                        if let Some((head, _)) = text.split_once(", current: ") {
                            let asked = head.split_once(FUTURE).and_then(|(_, asked)| asked.parse().ok());
                            let asked: i64 = asked.expect("the revision that was asked for");
                            *text = format!("Timeout: {FUTURE}{}, current: N", asked - offset);
                        }
                        // Here the oldest one.
                        if let Some((head, _)) = text.split_once(" (").filter(|_| text.starts_with("too old"))
                        {
                            *text = format!("{head} (N)");
                        }
                    }
                    // The age.
                    ("cells", Value::Array(cells)) => drop(cells.pop()),
                    _ => normalise(member, offset),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The JSON in a continue token.
pub(crate) fn decode_token(token: &str) -> Option<Value> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for symbol in token.bytes() {
        bits = bits << 6 | u32::try_from(ALPHABET.iter().position(|known| *known == symbol)?).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).ok()?);
        }
    }
    serde_json::from_slice(&bytes).ok()
}

/// Base64 for URLs, without padding.
pub(crate) fn base64url(bytes: &[u8]) -> String {
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits =
            group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..=group.len() {
            text.push(char::from(ALPHABET[(bits >> (18 - 6 * place) & 63) as usize]));
        }
    }
    text
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
