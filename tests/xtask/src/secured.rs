//! A revcast with TLS and a user for the time of a check: alone, or beside an upstream over one etcd; started and judged by a program
//! of the tests, `secured`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::place;
use crate::server::WIDGETS;

/// A server, and its upstream if it has one; dropping it ends both.
#[derive(Debug)]
pub(crate) struct Secured {
    child: Child,
    /// The program ends with it.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    pub(crate) url: String,
    kubeconfig: String,
    ca: String,
    token: String,
    pid: String,
}

/// What builds the program that [`Secured::start`] runs.
pub(crate) fn build() -> Command {
    let mut command = place::cargo();
    command.args(["build", "-p", "revcast-tests", "--bin", "secured"]);
    command
}

impl Secured {
    /// Starts the release binary, or the one that `REVCAST_BIN` names; twice, over the etcd in this folder, if one is given. It stores
    /// objects in the form of this name.
    ///
    /// # Errors
    /// One line: it does not start.
    pub(crate) fn start(etcd: Option<&Path>, form: &str, options: &[&str]) -> Result<Self, String> {
        let mut command = place::cargo();
        command
            .args(["run", "--quiet", "-p", "revcast-tests", "--bin", "secured", "--"])
            .args([if etcd.is_some() { "beside" } else { "alone" }, "--shards", "1"])
            .args(WIDGETS)
            .args(["--storage-media-type", form])
            .args(options)
            .env("REVCAST_BIN", place::binary("release", "revcast", "REVCAST_BIN"))
            .envs(etcd.map(|etcd| ("REVCAST_ETCD_3_5", etcd)))
            .env_remove("REVCAST_TEST_STORE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("secured does not start: {error}"))?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or("secured has no output")?;
        let mut output = BufReader::new(output);
        let mut line = String::new();
        let read = output.read_line(&mut line);
        let mut words = line.split_whitespace().map(str::to_owned);
        let mut word =
            || words.next().ok_or_else(|| format!("secured did not start ({read:?}), it said {line:?}"));
        let [url, kubeconfig, ca, token, pid] = [word()?, word()?, word()?, word()?, word()?];
        Ok(Self { child, input, output, url, kubeconfig, ca, token, pid })
    }

    /// What its clients are told besides the URL.
    pub(crate) fn variables(&self) -> [(&'static str, &str); 4] {
        [
            ("KUBECONFIG", &self.kubeconfig),
            ("SERVER_CA", &self.ca),
            ("SERVER_TOKEN", &self.token),
            ("SERVER_PID", &self.pid),
        ]
    }

    /// Ends it when its clients are done. What it saw of them, in a line.
    ///
    /// # Errors
    /// One line: what it says is wrong.
    pub(crate) fn finish(mut self) -> Result<String, String> {
        drop(self.input.take());
        let mut seen = String::new();
        let read = self.output.read_line(&mut seen);
        let ended = self.child.wait();
        match (read, ended) {
            (Ok(_), Ok(status)) if status.success() => Ok(seen.trim().to_owned()),
            (_, Ok(status)) => Err(format!("the server: {} ({status})", seen.trim())),
            (_, Err(error)) => Err(format!("secured was lost: {error}")),
        }
    }
}

impl Drop for Secured {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
