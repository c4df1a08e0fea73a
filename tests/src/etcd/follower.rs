//! etcd's own history: a watch of everything by etcdctl, read while it continues.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::record::{Record, record};

/// Records from some revision on. If begun before a test compacts, it has what etcd forgets.
#[derive(Debug)]
pub struct Follower {
    child: Child,
    lines: Receiver<Result<Vec<Record>, String>>,
    seen: Vec<Record>,
    problem: Option<String>,
}

impl Follower {
    /// Reads the output of this etcdctl.
    pub(super) fn start(mut etcdctl: Command) -> Self {
        let mut child = etcdctl
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("etcdctl starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        let mut stderr = child.stderr.take().expect("stderr is piped");
        let (sender, lines) = channel();
        // It ends with etcdctl's output, or when the receiver is gone.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(parse(&line)).is_err() {
                    return;
                }
            }
            let mut said = String::new();
            let _ = stderr.read_to_string(&mut said);
            let _ = sender.send(Err(format!("the watch ended: {}", said.trim())));
        });
        Self { child, lines, seen: Vec::new(), problem: None }
    }

    /// Every record so far, once those of `revision` are among them. Each revision changes some key, so they will be.
    ///
    /// # Errors
    /// etcd ended the watch (the start is compacted, or the history is new), or does not reach the revision in
    /// `patience`.
    pub fn until(&mut self, revision: u64, patience: Duration) -> Result<&[Record], String> {
        let deadline = Instant::now() + patience;
        while self.reached() < revision {
            if let Some(problem) = &self.problem {
                return Err(problem.clone());
            }
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Ok(records)) => self.seen.extend(records),
                Ok(Err(problem)) => self.problem = Some(problem),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("the watch is at {}, not at {revision}", self.reached()));
                }
                Err(RecvTimeoutError::Disconnected) => self.problem = Some("the watch ended".to_owned()),
            }
        }
        Ok(&self.seen)
    }

    fn reached(&self) -> u64 {
        self.seen.last().map_or(0, |record| record.mod_revision)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The records of one response. etcd never splits a revision over two.
fn parse(line: &str) -> Result<Vec<Record>, String> {
    let response: Value = serde_json::from_str(line).map_err(|_| format!("etcdctl said: {line}"))?;
    if response["Canceled"] == true {
        return Err(format!("etcd cancelled the watch; compacted: {}", response["CompactRevision"]));
    }
    let events = response["Events"].as_array().ok_or_else(|| format!("no events in {line}"))?;
    events.iter().map(record).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::Follower;

    fn says(text: &str) -> Follower {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg("printf '%s\\n' \"$0\"; echo why >&2").arg(text);
        Follower::start(shell)
    }

    #[test]
    fn it_says_why_it_ended() {
        let until = |text: &str| says(text).until(3, Duration::from_secs(10)).map(<[_]>::len);
        let event =
            |revision: u8| format!(r#"{{"kv":{{"key":"YQ==","mod_revision":{revision},"value":"MQ=="}}}}"#);
        assert_eq!(until(&format!(r#"{{"Events":[{},{}]}}"#, event(2), event(3))), Ok(2));
        let early = until(&format!(r#"{{"Events":[{}]}}"#, event(2)));
        assert_eq!(early, Err("the watch ended: why".to_owned()));
        let cancelled = until(r#"{"Events":[],"CompactRevision":9,"Canceled":true}"#);
        assert_eq!(cancelled, Err("etcd cancelled the watch; compacted: 9".to_owned()));
        assert!(until("watch was canceled").is_err_and(|problem| problem.contains("watch was canceled")));
    }

    #[test]
    fn patience_ends() {
        let mut sleeper = Command::new("sleep");
        sleeper.arg("60");
        let problem =
            Follower::start(sleeper).until(1, Duration::from_millis(20)).expect_err("nothing comes");
        assert_eq!(problem, "the watch is at 0, not at 1");
    }
}
