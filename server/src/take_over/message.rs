//! What the two processes say: JSON, a text each, with the version of these rules.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::channel::{Channel, Record};

/// The version of these rules. One of another version is refused.
const PROTOCOL: u64 = 1;

/// What the successor says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Request {
    /// Which process is it, and what does it serve?
    Who,
    /// It wants the listeners now.
    Listeners,
    /// It has them, and can accept.
    Ready,
    /// It ends in an orderly way, or has a successor itself.
    Leaving,
}

/// What the predecessor answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Reply {
    /// To `Who`.
    Process(Box<Description>),
    /// Some of the listeners come with this text; whether more follow.
    Listeners { kind: Kind, more: bool },
    /// From now on the successor accepts.
    Yours,
    /// No, with the reason.
    Refused { why: String },
}

/// Whose connections a listener takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Kind {
    /// Those of successors.
    TakeOver,
    /// Those of clients.
    Public,
    /// Those of operators.
    Admin,
}

/// A running server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Description {
    /// Its process. The kernel names the one that made the socket, which may be a predecessor of it.
    pub process: u32,
    /// Its version.
    pub version: String,
    /// What it serves.
    pub store: Store,
    /// The etcd cluster; 0: unknown.
    pub cluster: u64,
    /// The newest revision that its clients can have seen.
    pub revision: u64,
    /// Where operators find it.
    pub admin_listen: Option<SocketAddr>,
}

/// Where the objects of a server are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Store {
    /// In its memory alone.
    Memory,
    /// In a folder, which it has locked.
    DataDir(PathBuf),
    /// In an etcd, below this prefix.
    Etcd(String),
}

impl Store {
    /// Why a server over `self` cannot be succeeded by one over `other`; `None`: it can.
    #[must_use]
    pub fn keeps_from(&self, other: &Self) -> Option<String> {
        match (self, other) {
            (Self::Etcd(served), Self::Etcd(ours)) if served == ours => None,
            (Self::Etcd(served), Self::Etcd(ours)) => Some(format!(
                "it serves the keys under {served}, this one those under {ours}: give both one --etcd-prefix"
            )),
            (Self::Etcd(_), _) => Some(
                "it serves an etcd, and this one does not: give this one the same --etcd-endpoints"
                    .to_owned(),
            ),
            (_, _) => Some(format!(
                "{self}, which two processes cannot serve: only a server over etcd can be taken over; stop it, and start this one \
                 then"
            )),
        }
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("its objects are in its memory"),
            Self::DataDir(path) => {
                write!(f, "its objects are in the data directory {}, which it has locked", path.display())
            }
            Self::Etcd(prefix) => write!(f, "its objects are in etcd under {prefix}"),
        }
    }
}

/// Writes a message.
pub(super) fn text(message: &impl Serialize) -> String {
    json!({"protocol": PROTOCOL, "says": message}).to_string()
}

/// Reads a message.
///
/// # Errors
/// Another version of the rules, or no message.
pub(super) fn read<M: DeserializeOwned>(text: &str) -> Result<M, String> {
    let mut value: Value = serde_json::from_str(text).map_err(|error| format!("no message: {error}"))?;
    match value["protocol"].as_u64() {
        Some(PROTOCOL) => {}
        Some(other) => {
            return Err(format!(
                "the other process follows version {other} of the rules for a take-over, this one version {PROTOCOL}: stop the \
                 running server, and start the new one then"
            ));
        }
        None => return Err("no message: it has no protocol".to_owned()),
    }
    serde_json::from_value(value["says"].take()).map_err(|error| format!("no message: {error}"))
}

impl Channel {
    /// Says something.
    pub(super) fn say(&self, message: &impl Serialize) -> Result<(), String> {
        self.send(&text(message), &[]).map_err(|error| error.to_string())
    }

    /// Asks something, and hears the answer. `None`: the other side has closed the connection, perhaps before it was asked.
    pub(super) fn ask(
        &self,
        request: &Request,
        within: Duration,
    ) -> Result<Option<(Reply, Vec<std::os::fd::OwnedFd>)>, String> {
        match self.send(&text(request), &[]) {
            Err(error) if has_gone(&error) => Ok(None),
            sent => sent.map_err(|error| error.to_string()).and_then(|()| self.hear(within)),
        }
    }

    /// What is said next. `None`: the other side has closed the connection.
    pub(super) fn hear<M: DeserializeOwned>(
        &self,
        within: Duration,
    ) -> Result<Option<(M, Vec<std::os::fd::OwnedFd>)>, String> {
        let received: Option<Record> =
            self.receive(within).map_err(|error| match super::channel::is_late(&error) {
                true => format!("it did not answer within {} s", within.as_secs_f32()),
                false => error.to_string(),
            })?;
        received.map(|(text, descriptors)| read(&text).map(|message| (message, descriptors))).transpose()
    }
}

/// Whether what was sent has nobody who could receive it.
fn has_gone(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::ConnectionReset)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let process = Description {
            process: 7,
            version: "1.2.3".to_owned(),
            store: Store::DataDir("/var/lib/r".into()),
            cluster: u64::MAX,
            revision: 7,
            admin_listen: Some(([127, 0, 0, 1], 8081).into()),
        };
        for reply in [
            Reply::Process(Box::new(process)),
            Reply::Listeners { kind: Kind::Public, more: true },
            Reply::Yours,
            Reply::Refused { why: "no".to_owned() },
        ] {
            assert_eq!(read::<Reply>(&text(&reply)).unwrap(), reply);
        }
        for request in [Request::Who, Request::Listeners, Request::Ready, Request::Leaving] {
            assert_eq!(read::<Request>(&text(&request)).unwrap(), request);
        }
    }

    #[test]
    fn another_version_is_told_from_no_message() {
        let why = read::<Request>(r#"{"protocol": 2, "says": {"later": "words"}}"#).unwrap_err();
        assert!(why.contains("version 2 of the rules") && why.contains("this one version 1: stop"), "{why}");
        for odd in ["", "{", "{}", r#"{"protocol": "1"}"#, r#"{"protocol": 1, "says": "what"}"#] {
            assert!(read::<Request>(odd).unwrap_err().starts_with("no message: "), "{odd}");
        }
    }

    #[test]
    fn only_one_etcd_can_be_served_by_two() {
        let etcd = |prefix: &str| Store::Etcd(prefix.to_owned());
        let folder = Store::DataDir("/data".into());
        assert_eq!(etcd("/registry").keeps_from(&etcd("/registry")), None);
        let why = |of: &Store, other: &Store| of.keeps_from(other).unwrap();
        assert!(why(&etcd("/a"), &etcd("/b")).contains("--etcd-prefix"));
        assert!(why(&etcd("/a"), &folder).contains("--etcd-endpoints"));
        assert!(
            why(&folder, &folder)
                .starts_with("its objects are in the data directory /data, which it has locked")
        );
        assert!(why(&Store::Memory, &etcd("/a")).contains("in its memory"));
    }
}
