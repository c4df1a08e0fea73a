//! etcdctl: what a test does to an etcd, and what it reads from it, without any cache.
//!
//! An error is one line: the message of etcdctl, without its log.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::Release;
use super::follower::Follower;
use super::options::Tls;
use super::record::{Entry, Record, entry};

/// How long etcd may take to send its history.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs commands on some endpoints.
#[derive(Clone, Debug)]
pub struct Control {
    release: Release,
    endpoints: String,
    tls: Option<Tls>,
    user: Option<(String, String)>,
    patience: Duration,
}

/// One operation of a transaction.
#[derive(Clone, Copy, Debug)]
pub enum Op<'a> {
    /// Gives a key a value. etcdctl takes plain text without line ends only.
    Put(&'a str, &'a [u8]),
    /// Deletes a key.
    Delete(&'a str),
}

/// The keys of a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The store's revision, not the newest of the keys.
    pub revision: u64,
    /// In the order of the keys.
    pub entries: Vec<Entry>,
}

/// The result of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// The store's revision, afterwards.
    pub revision: u64,
    /// How many keys; with none the revision did not change.
    pub keys: u64,
}

/// The status of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The endpoint that etcdctl asked.
    pub endpoint: String,
    /// Derived from the members' peer URLs and the cluster's token.
    pub cluster_id: u64,
    /// Its own.
    pub member_id: u64,
    /// The leader's member id; 0 when it knows none.
    pub leader_id: u64,
    /// Its revision, which may be behind that of others.
    pub revision: u64,
    /// Of raft.
    pub term: u64,
    /// Of its file, including free pages.
    pub file_bytes: u64,
}

impl Control {
    pub(super) const fn new(release: Release, endpoints: String, tls: Option<Tls>) -> Self {
        Self { release, endpoints, tls, user: None, patience: Duration::from_secs(10) }
    }

    /// The same as another user.
    #[must_use]
    pub fn as_user(&self, name: &str, password: &str) -> Self {
        Self { user: Some((name.to_owned(), password.to_owned())), ..self.clone() }
    }

    /// The same with other files for TLS.
    #[must_use]
    pub fn with_tls(&self, tls: Tls) -> Self {
        Self { tls: Some(tls), ..self.clone() }
    }

    /// The same for other endpoints, such as a proxy's.
    #[must_use]
    pub fn at(&self, endpoints: &str) -> Self {
        Self { endpoints: endpoints.to_owned(), ..self.clone() }
    }

    /// The same, but it waits at most this long for etcd (10 s by default).
    #[must_use]
    pub fn patient_for(&self, patience: Duration) -> Self {
        Self { patience, ..self.clone() }
    }

    /// Writes a key; returns its revision.
    ///
    /// # Errors
    /// etcdctl's error.
    pub fn put(&self, key: &str, value: impl AsRef<[u8]>) -> Result<u64, String> {
        // Through stdin any bytes and any length are possible, except empty.
        let value = value.as_ref();
        let empty: &[&str] = if value.is_empty() { &[""] } else { &[] };
        let said = self.feed([&["put", "-w", "json", "--", key], empty].concat(), value)?;
        revision(&json(&said)?)
    }

    /// One revision with all operations; returns it.
    ///
    /// # Errors
    /// etcdctl's error.
    pub fn txn(&self, ops: &[Op<'_>]) -> Result<u64, String> {
        let quoted = |text: &str| Value::from(text).to_string();
        let line = |op: &Op<'_>| match op {
            Op::Put(key, value) => {
                let value = std::str::from_utf8(value).map_err(|_| format!("{key}: no text"))?;
                Ok(format!("put {} {}\n", quoted(key), quoted(value)))
            }
            Op::Delete(key) => Ok(format!("del {}\n", quoted(key))),
        };
        // No condition, then the operations, then those of the other branch.
        let text = format!("\n{}\n\n", ops.iter().map(line).collect::<Result<String, String>>()?);
        let said = self.feed(vec!["txn", "-w", "json"], text.as_bytes())?;
        let said = json(&said)?;
        if said["succeeded"] == true {
            revision(&said)
        } else {
            Err(format!("the transaction did not succeed: {said}"))
        }
    }

    /// A key; `None` when it does not exist.
    ///
    /// # Errors
    /// etcdctl's error.
    pub fn get(&self, key: &str) -> Result<Option<Entry>, String> {
        let said = json(&self.run(["get", "-w", "json", "--", key])?)?;
        said["kvs"].as_array().and_then(|kvs| kvs.first()).map(entry).transpose()
    }

    /// The keys of a prefix, now or at a past revision.
    ///
    /// # Errors
    /// The error of etcdctl: a revision may be compacted, or in the future.
    pub fn list(&self, prefix: &str, at: Option<u64>) -> Result<Listing, String> {
        let at = at.unwrap_or(0).to_string();
        let said = json(&self.run(["get", "-w", "json", "--prefix", "--rev", &at, "--", prefix])?)?;
        let entries = said["kvs"].as_array().map_or(&[][..], |kvs| kvs).iter().map(entry);
        Ok(Listing { revision: revision(&said)?, entries: entries.collect::<Result<_, _>>()? })
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// etcdctl's error.
    pub fn del(&self, key: &str) -> Result<Deleted, String> {
        deleted(&self.run(["del", "-w", "json", "--", key])?)
    }

    /// Deletes every key of a prefix in one revision.
    ///
    /// # Errors
    /// etcdctl's error.
    pub fn del_prefix(&self, prefix: &str) -> Result<Deleted, String> {
        deleted(&self.run(["del", "-w", "json", "--prefix", "--", prefix])?)
    }

    /// The newest revision, read linearizably.
    ///
    /// # Errors
    /// etcdctl's error.
    pub fn revision(&self) -> Result<u64, String> {
        revision(&json(&self.run(["get", "-w", "json", "--keys-only", "--", "a"])?)?)
    }

    /// Compacts the history before a revision, and waits until it is removed from the disk as well.
    ///
    /// # Errors
    /// etcdctl's error.
    pub fn compact(&self, revision: u64) -> Result<(), String> {
        self.run(["compact", "--physical", &revision.to_string()]).map(drop)
    }

    /// Defragments the file; the member does nothing else meanwhile.
    ///
    /// # Errors
    /// etcdctl's error.
    pub fn defrag(&self) -> Result<(), String> {
        self.run(["defrag"]).map(drop)
    }

    /// Saves the state of one endpoint.
    ///
    /// # Errors
    /// etcdctl's error.
    pub fn snapshot_save(&self, to: &Path) -> Result<(), String> {
        self.run([OsStr::new("snapshot"), OsStr::new("save"), to.as_os_str()]).map(drop)
    }

    /// The status of every endpoint.
    ///
    /// # Errors
    /// The error of etcdctl; an endpoint that does not answer is one.
    pub fn status(&self) -> Result<Vec<Status>, String> {
        let said = json(&self.run(["endpoint", "status", "-w", "json"])?)?;
        let all = said.as_array().ok_or_else(|| format!("no list: {said}"))?;
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let status = |one: &Value| {
            let (header, status) = (&one["Status"]["header"], &one["Status"]);
            Status {
                endpoint: one["Endpoint"].as_str().unwrap_or_default().to_owned(),
                cluster_id: number(&header["cluster_id"]),
                member_id: number(&header["member_id"]),
                leader_id: number(&status["leader"]),
                revision: number(&header["revision"]),
                term: number(&header["raft_term"]),
                file_bytes: number(&status["dbSize"]),
            }
        };
        Ok(all.iter().map(status).collect())
    }

    /// The id of the cluster.
    ///
    /// # Errors
    /// As [`Control::status`].
    pub fn cluster_id(&self) -> Result<u64, String> {
        self.status()?.first().map(|status| status.cluster_id).ok_or_else(|| "no endpoint".to_owned())
    }

    /// Makes another member the leader. Must be sent to the leader.
    ///
    /// # Errors
    /// etcdctl's error.
    pub fn move_leader(&self, member_id: u64) -> Result<(), String> {
        self.run(["move-leader", &format!("{member_id:x}")]).map(drop)
    }

    /// Watches everything from a revision on. Requires a user that may read every key.
    ///
    /// # Panics
    /// When etcdctl does not start.
    #[must_use]
    pub fn follow(&self, from: u64) -> Follower {
        let mut command = self.command();
        command.args(["watch", "", "-w", "json", "--prefix", "--rev", &from.to_string()]);
        Follower::start(command)
    }

    /// All changes to the keys of a prefix from a revision until now, by a watch on etcd itself.
    ///
    /// # Errors
    /// The error of etcdctl: the revision may be compacted.
    pub fn history(&self, prefix: &str, from: u64) -> Result<Vec<Record>, String> {
        let newest = self.revision()?;
        // Revision 1 is the empty store.
        if from.max(2) > newest {
            return Ok(Vec::new());
        }
        let mut follower = self.follow(from.max(1));
        let seen = follower.until(newest, PATIENCE)?;
        let wanted =
            seen.iter().filter(|record| record.mod_revision <= newest && record.key.starts_with(prefix));
        Ok(wanted.cloned().collect())
    }

    /// Runs etcdctl with these arguments; returns its output.
    ///
    /// # Errors
    /// One line: its error.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<String, String> {
        self.feed(arguments.into_iter().collect(), &[])
    }

    /// As [`Control::run`], with input.
    pub(super) fn feed<A: AsRef<OsStr>>(&self, arguments: Vec<A>, input: &[u8]) -> Result<String, String> {
        let mut command = self.command();
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("etcdctl starts");
        let mut stdin = child.stdin.take().expect("stdin is piped");
        // It may end without reading; then it prints why. Its output is short until it has read everything.
        let _ = stdin.write_all(input);
        drop(stdin);
        let output = child.wait_with_output().expect("etcdctl is ours");
        finish(&output)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.release.etcdctl());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ETCD")) {
            command.env_remove(name);
        }
        let patience = format!("{}ms", self.patience.as_millis());
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.endpoints]);
        command.args(["--command-timeout", &patience, "--dial-timeout", &patience]);
        if let Some(tls) = &self.tls {
            command.arg("--cacert").arg(&tls.ca);
            command.arg("--cert").arg(&tls.client.cert).arg("--key").arg(&tls.client.key);
        }
        if let Some((name, password)) = &self.user {
            command.args(["--user", &format!("{name}:{password}")]);
        }
        command
    }
}

/// Makes the data folder of one member from a snapshot; `arguments` name the member.
pub(super) fn restore(
    release: Release,
    snapshot: &Path,
    data: &Path,
    arguments: &[String],
) -> Result<(), String> {
    let mut command = Command::new(release.restorer());
    command.env("ETCDCTL_API", "3").args(["snapshot", "restore"]).arg(snapshot).arg("--data-dir").arg(data);
    finish(&command.args(arguments).stdin(Stdio::null()).output().expect("the restorer starts"))?;
    // It writes in place; the result must be complete.
    if fs::metadata(data.join("member")).is_ok() {
        Ok(())
    } else {
        Err(format!("nothing in {}", data.display()))
    }
}

/// The output of a program, or the line that says why it failed.
fn finish(output: &std::process::Output) -> Result<String, String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut lines = said.lines().rev().filter(|line| !line.trim().is_empty());
    let error = lines.clone().find_map(|line| line.strip_prefix("Error: "));
    let line = error.or_else(|| lines.next()).unwrap_or("nothing");
    Err(format!("etcdctl: {line}"))
}

fn json(said: &str) -> Result<Value, String> {
    serde_json::from_str(said.trim()).map_err(|_| format!("etcdctl said: {said:?}"))
}

fn revision(said: &Value) -> Result<u64, String> {
    said["header"]["revision"].as_u64().ok_or_else(|| format!("no revision: {said}"))
}

fn deleted(said: &str) -> Result<Deleted, String> {
    let said = json(said)?;
    Ok(Deleted { revision: revision(&said)?, keys: said["deleted"].as_u64().unwrap_or(0) })
}
