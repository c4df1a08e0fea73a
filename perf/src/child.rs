//! Helpers of a run: processes of this very program, or threads. The messages to and from them are one JSON line each. A
//! helper ends when its input does, so it never outlives the process that started it.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::thread;

/// A helper, from the side that started it. Dropped, it ends.
pub(crate) struct Helper {
    /// `None`: it is a thread.
    process: Option<Child>,
    input: Option<PipeWriter>,
}

impl Helper {
    /// Starts `revcast-perf ARGUMENT...`. `hear` gets each of its messages, on a thread of its own, and `None` at their end.
    pub(crate) fn process<T: DeserializeOwned>(
        arguments: &[&str],
        hear: impl FnMut(Option<Result<T, String>>) + Send + 'static,
    ) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut process = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) =
            process.stdin.take().zip(process.stdout.take()).ok_or(io::ErrorKind::BrokenPipe)?;
        forward(output, hear);
        Ok(Self { process: Some(process), input: Some(OwnedFd::from(input).into()) })
    }

    /// The same with `run` on a thread of this process, which gets the helper's ends of two pipes.
    pub(crate) fn thread<T: DeserializeOwned>(
        run: impl FnOnce(PipeReader, PipeWriter) + Send + 'static,
        hear: impl FnMut(Option<Result<T, String>>) + Send + 'static,
    ) -> io::Result<Self> {
        let ((its_input, input), (output, its_output)) = (pipe()?, pipe()?);
        thread::spawn(move || run(its_input, its_output));
        forward(output, hear);
        Ok(Self { process: None, input: Some(input) })
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    pub(crate) fn send(&mut self, message: &impl Serialize) -> Result<(), String> {
        send(self.input.as_mut().ok_or("it was ended")?, message)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        drop(self.input.take());
        let _status = self.process.as_mut().map(Child::wait);
    }
}

fn forward<T: DeserializeOwned>(
    output: impl Read + Send + 'static,
    mut hear: impl FnMut(Option<Result<T, String>>) + Send + 'static,
) {
    thread::spawn(move || {
        messages(output).for_each(|message| hear(Some(message)));
        hear(None);
    });
}

pub(crate) fn send(output: &mut impl Write, message: &impl Serialize) -> Result<(), String> {
    let line = serde_json::to_vec(message).map_err(|fault| fault.to_string())?;
    let line = [line.as_slice(), b"\n"].concat();
    output.write_all(&line).and_then(|()| output.flush()).map_err(|fault| fault.to_string())
}

pub(crate) fn messages<T: DeserializeOwned>(input: impl Read) -> impl Iterator<Item = Result<T, String>> {
    let lines = BufReader::new(input).lines().map_while(Result::ok);
    lines.map(|line| serde_json::from_str(&line).map_err(|fault| fault.to_string()))
}
