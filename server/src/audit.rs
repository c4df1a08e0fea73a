//! The audit log: a line at the start and at the end of each request, with its user and its reply's code.
//!
//! Owns the format of a line: an `Event` of `audit.k8s.io/v1` at level `Metadata`, as JSON, which tools for Kubernetes' audit
//! logs read. Lines go through a bounded queue to a separate thread: a request never waits for its line, and lines that do not
//! fit are dropped, counted and reported. A part of the queue is reserved for requests of authenticated clients, and what a
//! client writes into a line is cut, so that clients without credentials cannot cause the lines of others to be dropped. There
//! is a line for a request and none for a delivery.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use crate::auth::Identity;
use crate::http::request::RequestHead;
use crate::http::request_info::{RequestInfo, Verb};
use crate::http::text::push_segment;
use crate::lines::{Lines, Share, Sink};
use crate::log;
use crate::printable::{self, cut};

/// The name of a client without credentials.
const ANONYMOUS: &str = "system:anonymous";

/// Bytes of each text that a client chose: of the URI, the user agent, and each name. Longer ones are cut.
const TEXT_BYTES_MAX: usize = 1 << 10;

/// The stage of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its head was read.
    RequestReceived,
    /// The head of a watch's reply was sent.
    ResponseStarted,
    /// The request has ended.
    ResponseComplete,
}

impl Stage {
    const fn as_str(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
        }
    }
}

/// The common part of the lines of one request.
#[derive(Clone, Debug)]
pub struct Entry {
    id: Uuid,
    about: RequestInfo,
    uri: String,
    user: Option<Box<str>>,
    groups: Vec<String>,
    /// As whom the user acts: name and groups.
    acts_as: Option<Box<(String, Vec<String>)>>,
    /// Whether the client is authenticated.
    proven: bool,
    source: Option<SocketAddr>,
    user_agent: Option<String>,
    received: Timestamp,
}

impl Entry {
    /// For a request that was just received; `id` is the `Audit-Id` of its reply.
    #[must_use]
    pub fn new(id: Uuid, about: RequestInfo, head: &RequestHead, source: Option<SocketAddr>) -> Self {
        // As received, except for unnecessary escapes: a reader of the log must not take a part of a name for a query.
        let mut uri = String::with_capacity(128);
        if head.path.is_empty() {
            uri.push('/');
        }
        for segment in &head.path {
            uri.push('/');
            push_segment(&mut uri, segment);
        }
        if !head.query.raw().is_empty() {
            uri.push('?');
            uri.push_str(head.query.raw());
        }
        Self {
            id,
            about: shortened(about),
            uri: cut(&uri, TEXT_BYTES_MAX).into_owned(),
            user: None,
            groups: Vec::new(),
            acts_as: None,
            proven: false,
            source,
            user_agent: head.user_agent.as_deref().map(|agent| cut(agent, TEXT_BYTES_MAX).into_owned()),
            received: Timestamp::now(),
        }
    }

    /// Sets the user, when it is known, and as whom it acts.
    pub fn set_user(&mut self, who: &Identity) {
        let acts_as = who.real.is_some().then(|| {
            // A client chose them: they need not be of anyone that exists.
            let short = |text: &String| cut(text, TEXT_BYTES_MAX).into_owned();
            Box::new((short(&who.name), who.groups.iter().map(short).collect()))
        });
        self.acts_as = acts_as;
        let who = who.real.as_deref().unwrap_or(who);
        self.user = Some(who.name.as_str().into());
        self.groups.clone_from(&who.groups);
        self.proven = who.is_proven();
    }
}

/// With names of limited length: they are parts of a path, which a client chose.
fn shortened(mut about: RequestInfo) -> RequestInfo {
    let of = about.of.iter_mut().flat_map(|of| [&mut of.group, &mut of.version, &mut of.resource]);
    let parts = [&mut about.namespace, &mut about.name, &mut about.subresource];
    for text in of.chain(parts.into_iter().flatten()) {
        if text.len() > TEXT_BYTES_MAX {
            *text = cut(text, TEXT_BYTES_MAX).into_owned();
        }
    }
    about
}

/// The target of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditTarget {
    /// Standard output.
    Stdout,
    /// A file, appended to.
    File(PathBuf),
}

impl fmt::Display for AuditTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("-"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// The writer of the audit log. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Audit(Lines);

impl Audit {
    /// Opens the file and starts the thread.
    ///
    /// # Errors
    /// One line: the file cannot be opened, or there is no thread.
    pub fn start(target: &AuditTarget) -> Result<Self, String> {
        let sink = match target {
            AuditTarget::Stdout => Sink::Stdout,
            AuditTarget::File(path) => Sink::file(path.clone()).map_err(|error| {
                format!(
                    "audit-log {}: cannot be opened: {error}; name a file in a folder that this user may write to",
                    path.display()
                )
            })?,
        };
        let lines = Lines::start("audit", sink, |problem| {
            log::error(&format!("audit log: {problem}"));
            None
        });
        lines
            .map(Self)
            .map_err(|error| format!("no thread for the audit log: {error}; raise nproc (ulimit -u)"))
    }

    /// Writes that a request reached a stage. `code`: of the reply, 0 when there is none. `ended`: how a watch ended.
    pub fn note(&self, entry: &Entry, stage: Stage, code: u16, ended: Option<&str>) {
        let share = if entry.proven { Share::All } else { Share::Most };
        self.0.leave(line(entry, stage, code, ended, Timestamp::now()), share);
    }

    /// Reopens the file: the one that is open was renamed.
    pub fn reopen(&self) {
        self.0.reopen();
    }

    /// Waits, for a limited time, until everything is written.
    pub fn flush(&self) {
        self.0.flush(Duration::from_secs(1));
    }

    /// Lines that were written, and lines that were lost.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.0.written(), self.0.dropped())
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    kind: &'static str,
    api_version: &'static str,
    level: &'static str,
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: &'static str,
    #[serde(rename = "requestURI")]
    request_uri: &'a str,
    verb: &'a str,
    user: User<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    impersonated_user: Option<User<'a>>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "Vec::is_empty")]
    source_ips: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_agent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_ref: Option<ObjectRef<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_status: Option<ResponseStatus>,
    request_received_timestamp: String,
    stage_timestamp: String,
    #[serde(skip_serializing_if = "Annotations::is_empty")]
    annotations: Annotations<'a>,
}

#[derive(Serialize)]
struct User<'a> {
    username: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    groups: &'a [String],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectRef<'a> {
    resource: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    api_group: &'a str,
    api_version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    subresource: Option<&'a str>,
}

#[derive(Serialize)]
struct ResponseStatus {
    code: u16,
}

/// Kubernetes allows only texts here.
#[derive(Serialize)]
struct Annotations<'a> {
    #[serde(rename = "revcast/latency-seconds", skip_serializing_if = "Option::is_none")]
    latency: Option<String>,
    #[serde(rename = "revcast/ended", skip_serializing_if = "Option::is_none")]
    ended: Option<&'a str>,
}

impl Annotations<'_> {
    const fn is_empty(&self) -> bool {
        self.latency.is_none() && self.ended.is_none()
    }
}

fn line(entry: &Entry, stage: Stage, code: u16, ended: Option<&str>, now: Timestamp) -> Vec<u8> {
    let about = &entry.about;
    let is_known = !matches!(about.verb, Verb::Other | Verb::Unread);
    let verb = if is_known { about.verb.as_str() } else { "" };
    let latency = (stage != Stage::RequestReceived).then(|| {
        let took = now.duration_since(entry.received).as_secs_f64().max(0.0);
        format!("{took:.6}")
    });
    let event = Event {
        kind: "Event",
        api_version: "audit.k8s.io/v1",
        level: "Metadata",
        audit_id: entry.id.hyphenated().to_string(),
        stage: stage.as_str(),
        request_uri: &entry.uri,
        verb,
        user: User { username: entry.user.as_deref().unwrap_or(ANONYMOUS), groups: &entry.groups },
        impersonated_user: entry.acts_as.as_deref().map(|(name, groups)| User { username: name, groups }),
        source_ips: entry.source.iter().map(|address| address.ip().to_string()).collect(),
        user_agent: entry.user_agent.as_deref(),
        object_ref: about.of.as_ref().map(|of| ObjectRef {
            resource: &of.resource,
            namespace: about.namespace.as_deref(),
            name: about.name.as_deref(),
            api_group: &of.group,
            api_version: &of.version,
            subresource: about.subresource.as_deref(),
        }),
        response_status: (code > 0).then_some(ResponseStatus { code }),
        request_received_timestamp: format!("{:.6}", entry.received),
        stage_timestamp: format!("{now:.6}"),
        annotations: Annotations { latency, ended },
    };
    let mut line = printable::json(&event);
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request::{Parsed, parse_head};
    use crate::http::route;

    fn head(text: &str) -> RequestHead {
        match parse_head(text.as_bytes()) {
            Ok(Parsed::Complete { head, .. }) => *head,
            other => panic!("{other:?}"),
        }
    }

    fn info(head: &RequestHead) -> RequestInfo {
        RequestInfo::of(head, &route::target_of(&head.path))
    }

    #[test]
    fn a_line_is_an_event_of_kubernetes() {
        let head = head(
            "PATCH /apis/apps/v1/namespaces/a/deployments/b/status?fieldManager=m HTTP/1.1\r\nHost: h\r\n\
             User-Agent: x\"y\r\n\r\n",
        );
        let source = Some(SocketAddr::from(([10, 0, 0, 7], 4711)));
        let mut entry = Entry::new(Uuid::nil(), info(&head), &head, source);
        entry.received = Timestamp::from_microsecond(1_795_239_486_000_000).expect("a time");
        entry.set_user(&Identity {
            name: "jane".to_owned(),
            groups: vec!["system:masters".to_owned()],
            ..Identity::anonymous()
        });
        let now = Timestamp::from_microsecond(1_795_239_486_001_500).expect("a time");
        let text = line(&entry, Stage::ResponseComplete, 200, None, now);
        assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 1);
        let read: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        assert_eq!(
            read,
            serde_json::json!({
                "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata",
                "auditID": "00000000-0000-0000-0000-000000000000", "stage": "ResponseComplete",
                "requestURI": "/apis/apps/v1/namespaces/a/deployments/b/status?fieldManager=m", "verb": "patch",
                "user": {"username": "jane", "groups": ["system:masters"]}, "sourceIPs": ["10.0.0.7"],
                "userAgent": "x\"y",
                "objectRef": {"resource": "deployments", "namespace": "a", "name": "b", "apiGroup": "apps",
                    "apiVersion": "v1", "subresource": "status"},
                "responseStatus": {"code": 200},
                "requestReceivedTimestamp": "2026-11-21T05:38:06.000000Z",
                "stageTimestamp": "2026-11-21T05:38:06.001500Z",
                "annotations": {"revcast/latency-seconds": "0.001500"}
            })
        );
    }

    #[test]
    fn what_a_client_chooses_is_cut_and_shown() {
        let (name, agent) = ("n".repeat(3000), "\u{202e}a".repeat(1500));
        let head = head(&format!(
            "GET /apis/g/v1/namespaces/a/{name}/%E2%81%A6?x={name} HTTP/1.1\r\nHost: h\r\nUser-Agent: {agent}\r\n\r\n"
        ));
        let entry = Entry::new(Uuid::nil(), info(&head), &head, None);
        let text = line(&entry, Stage::RequestReceived, 0, None, Timestamp::now());
        assert!(text.len() < 8 << 10, "{} bytes", text.len());
        assert!(text.is_ascii(), "what turns a line is escaped");
        let read: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        let uri = format!("/apis/g/v1/namespaces/a/{name}");
        assert_eq!(read["requestURI"], format!("{}...TRUNCATED", &uri[..1024]));
        assert_eq!(read["userAgent"], format!("{}...TRUNCATED", "\u{202e}a".repeat(256)));
        assert_eq!(read["objectRef"]["resource"], format!("{}...TRUNCATED", "n".repeat(1024)));
        assert_eq!(read["objectRef"]["name"], "\u{2066}");
    }

    #[test]
    fn an_escaped_question_mark_stays_one() {
        let head = head("GET /api/v1/namespaces/a/secrets/x%3Fdry=1?pretty=1 HTTP/1.1\r\nHost: h\r\n\r\n");
        let entry = Entry::new(Uuid::nil(), info(&head), &head, None);
        assert_eq!(entry.uri, "/api/v1/namespaces/a/secrets/x%3Fdry=1?pretty=1");
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let head = head("GET /version HTTP/1.1\r\nHost: h\r\n\r\n");
        let entry = Entry::new(Uuid::nil(), info(&head), &head, None);
        let text = line(&entry, Stage::RequestReceived, 0, None, Timestamp::now());
        let read: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        let names: Vec<&str> = read.as_object().expect("an object").keys().map(String::as_str).collect();
        let always = ["kind", "apiVersion", "level", "auditID", "stage", "requestURI", "verb", "user"];
        assert_eq!(names[..8], always);
        assert_eq!(names[8..], ["requestReceivedTimestamp", "stageTimestamp"]);
        assert_eq!(read["user"], serde_json::json!({"username": "system:anonymous"}));
    }
}
