//! Keeps a server that was started for a round: a process between `compare` and the server, which ends the server when
//! its own input ends. So the server never outlives `compare`, also when that is interrupted or killed.

use crate::child::Helper;
use crate::endpoint::Server;
use crate::http::{Caller, Connection};
use crate::options::with_port;
use crate::process::pin_to;
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);
/// How long a server may take to answer.
const START_WAIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
/// Lines of the server's stderr that are kept for a message.
const LINES_MAX: usize = 3;
/// In place of a list of CPUs: any.
const ANY_CPU: &str = "any";

/// A server that was started for a round. Dropped, it ends.
#[derive(Debug)]
pub(crate) struct Kept {
    port: u16,
    keeper: Helper,
    said: Arc<Mutex<VecDeque<String>>>,
}

impl Kept {
    /// Starts it on a free port and waits until it answers.
    pub(crate) fn start(words: &[String], cpus: &[usize]) -> Result<Self, String> {
        let wrong = |fault: std::io::Error| format!("no server can be started: {fault}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(wrong)?;
        let port = listener.local_addr().map_err(wrong)?.port();
        drop(listener);
        let list: Vec<String> = cpus.iter().map(ToString::to_string).collect();
        let mut command = Command::new(std::env::current_exe().map_err(wrong)?);
        command
            .arg("keeper")
            .arg(if list.is_empty() { ANY_CPU.to_owned() } else { list.join(",") })
            .args(with_port(words, port))
            // What interrupts `compare` from a terminal must not end the keeper before its server.
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut keeper = Helper::spawn(&mut command).map_err(wrong)?;
        let said = Arc::new(Mutex::new(VecDeque::new()));
        if let Some(stderr) = keeper.process.stderr.take() {
            keep_lines(stderr, Arc::clone(&said));
        }
        let mut kept = Self { port, keeper, said };
        kept.await_answer()?;
        Ok(kept)
    }

    pub(crate) fn server(&self) -> Server {
        Server { host: Ipv4Addr::LOCALHOST.to_string(), port: self.port }
    }

    pub(crate) fn last_words(&self) -> Option<String> {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<&str> = said.iter().map(String::as_str).collect();
        (!lines.is_empty()).then(|| format!("it said: {}", lines.join(" / ")))
    }

    fn await_answer(&mut self) -> Result<(), String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let caller = Caller { host: address.to_string(), token: None };
        let deadline = Instant::now() + START_WAIT;
        loop {
            if self.keeper.process.try_wait().is_ok_and(|status| status.is_some()) {
                // Its last words may still be on their way.
                thread::sleep(LOOK);
                return Err(format!("it ended at once; {}", self.last_words().unwrap_or_default()));
            }
            if TcpStream::connect_timeout(&address, LOOK).is_ok() {
                // Whatever it answers, but that it is not ready.
                let mut connection = Connection::new(address, caller.clone());
                let answer = connection.call("GET", "/readyz", None);
                if answer.is_ok_and(|(status, _)| status < 500) {
                    return Ok(());
                }
            }
            if Instant::now() >= deadline {
                let words = self.last_words().unwrap_or_default();
                return Err(format!(
                    "nothing answers at {address} after {} s; {words}",
                    START_WAIT.as_secs()
                ));
            }
            thread::sleep(LOOK);
        }
    }
}

fn keep_lines(stderr: impl Read + Send + 'static, said: Arc<Mutex<VecDeque<String>>>) {
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            if said.len() == LINES_MAX {
                said.pop_front();
            }
            said.push_back(line);
        }
    });
}

/// The keeper: `revcast-perf keeper CPUS COMMAND...`.
pub(crate) fn run(words: &[OsString]) -> Result<(), String> {
    let [cpus, program, arguments @ ..] = words else {
        return Err("a keeper is started by revcast-perf compare, not by hand".to_owned());
    };
    let cpus = cpus.to_string_lossy();
    let cpus: Vec<usize> = cpus.split(',').filter_map(|cpu| cpu.parse().ok()).collect();
    pin_to(&cpus).map_err(|fault| format!("--server-cpu: not allowed: {fault}"))?;
    let shown = program.to_string_lossy();
    let mut server = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|fault| format!("{shown} cannot be started: {fault}"))?;
    let (ended, orders) = channel();
    thread::spawn(move || {
        let _end = std::io::stdin().read_to_end(&mut Vec::new());
        let _gone = ended.send(());
    });
    loop {
        if let Some(status) = server.try_wait().map_err(|fault| fault.to_string())? {
            return Err(format!("{shown} ended by itself: {status}"));
        }
        match orders.recv_timeout(PATIENCE / 50) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return end(&mut server),
        }
    }
}

/// Ends the server and all that it started.
fn end(server: &mut Child) -> Result<(), String> {
    let group = i32::try_from(server.id()).ok().and_then(Pid::from_raw);
    let signal = |signal| {
        // It may have ended by itself just now.
        let _gone = group.map(|group| kill_process_group(group, signal));
    };
    signal(Signal::TERM);
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if server.try_wait().map_err(|fault| fault.to_string())?.is_some() {
            return Ok(());
        }
        thread::sleep(LOOK);
    }
    signal(Signal::KILL);
    server.wait().map(|_status| ()).map_err(|fault| fault.to_string())
}
