//! Servers that are started for a round of `compare`. Each is begun as `revcast-perf keeper CPUS COMMAND...`, which pins
//! itself, asks the kernel for a signal when `compare` dies, and becomes the server: so no server outlives `compare`.

use crate::endpoint::Server;
use crate::http::{Caller, Connection};
use crate::options::{Load, with_port};
use crate::process::pin_to;
use crate::tls::HTTP1;
use rustix::process::{Pid, Signal, kill_process_group, set_parent_process_death_signal};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take to answer, and to end.
const START_WAIT: Duration = Duration::from_secs(60);
const END_WAIT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);
/// Lines of the server's stderr that are kept for a message.
const LINES_MAX: usize = 3;

pub(crate) struct Kept {
    port: u16,
    process: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Kept {
    /// Starts it on a free port and waits until it answers.
    pub(crate) fn start(words: &[String], cpus: &[usize], base: &Load) -> Result<Self, String> {
        let mut kept =
            Self::spawn(words, cpus).map_err(|fault| format!("no server can be started: {fault}"))?;
        kept.await_answer(base)?;
        Ok(kept)
    }

    fn spawn(words: &[String], cpus: &[usize]) -> io::Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
        let mut process = Command::new(std::env::current_exe()?)
            .args(["keeper", &format!("cpus={}", cpus.join(","))])
            .args(with_port(words, port))
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let said = Arc::default();
        if let Some(stderr) = process.stderr.take() {
            keep_lines(stderr, Arc::clone(&said));
        }
        Ok(Self { port, process, said })
    }

    pub(crate) fn server(&self) -> Server {
        Server::local(self.port)
    }

    pub(crate) fn last_words(&self) -> Option<String> {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        (!said.is_empty()).then(|| format!("it said: {}", said.join(" / ")))
    }

    fn await_answer(&mut self, base: &Load) -> Result<(), String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let trust = base.trust().map_err(|bad| bad.to_string())?;
        let caller = Caller { host: address.to_string(), token: None, trust };
        let tls = caller.tls(HTTP1)?;
        let mut server = Connection::new(address, caller, tls);
        let deadline = Instant::now() + START_WAIT;
        let why = loop {
            // Whatever it answers, but that it is not ready.
            let unheard = match server.call("GET", "/readyz", None) {
                Ok((status, _)) if status < 500 => return Ok(()),
                Ok((status, _)) => format!("/readyz says {status}"),
                Err(fault) if is_of_a_certificate(&fault) => break format!("{address}: {fault}"),
                Err(fault) => fault.to_string(),
            };
            thread::sleep(LOOK);
            if let Some(status) = self.status() {
                // Its last words may still be on their way.
                thread::sleep(LOOK);
                break format!("it ended by itself: {status}");
            }
            if Instant::now() >= deadline {
                break format!("it is not ready at {address} after {} s: {unheard}", START_WAIT.as_secs());
            }
        };
        Err(format!("{why}; {}", self.last_words().unwrap_or_default()))
    }

    fn status(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }
}

/// Waiting mends no certificate.
fn is_of_a_certificate(fault: &io::Error) -> bool {
    fault.kind() == ErrorKind::InvalidData && fault.to_string().contains("certificate")
}

impl Drop for Kept {
    fn drop(&mut self) {
        let group = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        let signal = |signal| {
            // It may have ended by itself just now.
            let _gone = group.map(|group| kill_process_group(group, signal));
        };
        signal(Signal::TERM);
        let deadline = Instant::now() + END_WAIT;
        while self.status().is_none() && Instant::now() < deadline {
            thread::sleep(LOOK);
        }
        if self.status().is_none() {
            signal(Signal::KILL);
        }
        let _status = self.process.wait();
    }
}

fn keep_lines(stderr: impl Read + Send + 'static, said: Arc<Mutex<Vec<String>>>) {
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            said.push(line);
            let over = said.len().saturating_sub(LINES_MAX);
            said.drain(..over);
        }
    });
}

/// Becomes the server. Returns why it cannot.
pub(crate) fn run(words: &[OsString]) -> String {
    let [cpus, program, arguments @ ..] = words else {
        return "a keeper is started by revcast-perf compare, not by hand".to_owned();
    };
    let cpus = cpus.to_string_lossy();
    let cpus: Vec<usize> = cpus.split(['=', ',']).filter_map(|cpu| cpu.parse().ok()).collect();
    if let Err(fault) = pin_to(&cpus) {
        return format!("--server-cpu: not allowed: {fault}");
    }
    if let Err(fault) = set_parent_process_death_signal(Some(Signal::TERM)) {
        return format!("no signal at the end of compare: {fault}");
    }
    format!("{} cannot be started: {}", program.display(), Command::new(program).args(arguments).exec())
}
