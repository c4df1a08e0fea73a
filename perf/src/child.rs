//! Processes of this very program that take part in a run, and the messages to and from them: one JSON line each. Such a
//! process ends when its input does, so it never outlives the one that started it.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A process, from the side that started it. Dropped, it ends.
#[derive(Debug)]
pub(crate) struct Helper {
    pub(crate) process: Child,
    input: Option<ChildStdin>,
}

impl Helper {
    /// Starts `revcast-perf ARGUMENT...`; returns its output too.
    pub(crate) fn start(arguments: &[&str]) -> io::Result<(Self, ChildStdout)> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut helper = Self::spawn(command.args(arguments).stdout(Stdio::piped()))?;
        let output = helper.process.stdout.take().ok_or_else(|| io::Error::other("no pipe"))?;
        Ok((helper, output))
    }

    pub(crate) fn spawn(command: &mut Command) -> io::Result<Self> {
        let mut process = command.stdin(Stdio::piped()).spawn()?;
        let input = process.stdin.take();
        Ok(Self { process, input })
    }

    pub(crate) fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        send(self.input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?, message)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        drop(self.input.take());
        let _status = self.process.wait();
    }
}

pub(crate) fn send(output: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}

/// The messages of the other side, until its end.
pub(crate) fn messages<T: DeserializeOwned>(
    input: impl Read,
) -> impl Iterator<Item = Result<T, serde_json::Error>> {
    BufReader::new(input).lines().map_while(Result::ok).map(|line| serde_json::from_str(&line))
}
