//! One etcd process: started, checked, stopped in every way, and started again on its data.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::Release;
use crate::client::{Client, Response};
use crate::port::Port;

/// How long an etcd may take to serve, or to end.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it may take to answer on its metrics address: it may be paused.
const ANSWER: Duration = Duration::from_secs(1);

/// A member of a cluster, and its process while it runs.
#[derive(Debug)]
pub(super) struct Member {
    release: Release,
    name: String,
    client: Port,
    peer: Port,
    metrics: Port,
    scheme: &'static str,
    /// Where its data folders and its log are.
    folder: PathBuf,
    /// Its current data folder: a restore and a swap give it a new one.
    generation: u32,
    child: Option<Child>,
    paused: bool,
}

impl Member {
    /// A member that does not run yet.
    pub(super) fn new(
        release: Release,
        name: String,
        ports: Option<[u16; 2]>,
        scheme: &'static str,
        folder: &Path,
    ) -> Self {
        let chosen = |number| Port::claim(number).unwrap_or_else(|| panic!("port {number} is taken"));
        let [client, peer] = ports.map_or_else(|| [Port::free(), Port::free()], |ports| ports.map(chosen));
        let (metrics, folder) = (Port::free(), folder.to_path_buf());
        Self {
            release,
            name,
            client,
            peer,
            metrics,
            scheme,
            folder,
            generation: 0,
            child: None,
            paused: false,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Where clients connect.
    pub(super) fn endpoint(&self) -> String {
        format!("{}://{}", self.scheme, self.address())
    }

    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.client.number())
    }

    pub(super) fn peer_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.peer.number())
    }

    pub(super) fn log(&self) -> PathBuf {
        self.folder.join(format!("{}.log", self.name))
    }

    fn data(&self) -> PathBuf {
        self.folder.join(format!("{}-{}", self.name, self.generation))
    }

    pub(super) fn pid(&self) -> u32 {
        self.running().id()
    }

    pub(super) const fn is_running(&self) -> bool {
        self.child.is_some()
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.paused
    }

    /// Starts its process on its current data. `more`: the options that all members share.
    pub(super) fn launch(&mut self, more: &[String]) {
        assert!(self.child.is_none(), "{} runs already", self.name);
        let log = OpenOptions::new().create(true).append(true).open(self.log()).expect("a log for etcd");
        let mut command = Command::new(self.release.etcd());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ETCD")) {
            command.env_remove(name);
        }
        let (endpoint, peer) = (self.endpoint(), self.peer_url());
        command
            .args(["--name", &self.name, "--logger", "zap", "--data-dir"])
            .arg(self.data())
            .args(["--listen-client-urls", &endpoint, "--advertise-client-urls", &endpoint])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--listen-metrics-urls", &format!("http://127.0.0.1:{}", self.metrics.number())])
            .args(more)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("one descriptor more"))
            .stderr(log);
        self.child = Some(command.spawn().expect("etcd starts"));
    }

    /// Waits until it takes part: there is a leader, and reads are answered.
    pub(super) fn await_health(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let child = self.child.as_mut().expect("it was launched");
            if let Some(status) = child.try_wait().expect("it is ours") {
                self.child = None;
                panic!("{} ended at its start: {status}\n{}", self.name, self.last_words());
            }
            if self.ask("/health").is_ok_and(|reply| reply.json()["health"] == "true") {
                return;
            }
            assert!(Instant::now() < deadline, "{} is not healthy:\n{}", self.name, self.last_words());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// A page of its metrics address, which needs neither TLS nor a user: `/metrics` or `/health`.
    ///
    /// # Errors
    /// It does not answer within a second.
    pub(super) fn ask(&self, path: &str) -> std::io::Result<Response> {
        let mut connection = Client::new(&format!("127.0.0.1:{}", self.metrics.number())).connect()?;
        connection.socket().set_read_timeout(Some(ANSWER))?;
        connection.request("GET", path, &[], &[])
    }

    /// The value of a metric; `None` when it does not answer or has none of this name.
    pub(super) fn metric(&self, name: &str) -> Option<f64> {
        let text = self.ask("/metrics").ok()?.text();
        let line = text.lines().find(|line| line.split([' ', '{']).next() == Some(name))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    /// Ends it at once, as a crash of its machine would, except that its system keeps written data.
    pub(super) fn kill(&mut self) {
        let mut child = self.child.take().unwrap_or_else(|| panic!("{} does not run", self.name));
        self.paused = false;
        child.kill().expect("it runs");
        child.wait().expect("it is ours");
    }

    /// Stops it gracefully.
    pub(super) fn stop(&mut self) {
        if self.paused {
            self.resume();
        }
        self.signal(Signal::TERM);
        let deadline = Instant::now() + PATIENCE;
        let mut child = self.child.take().expect("it got the signal");
        while child.try_wait().expect("it is ours").is_none() {
            if Instant::now() > deadline {
                self.child = Some(child);
                panic!("{} does not end:\n{}", self.name, self.last_words());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Freezes it: it keeps its ports and answers nothing.
    pub(super) fn pause(&mut self) {
        self.signal(Signal::STOP);
        self.paused = true;
        // The signal is sent; wait until it takes effect.
        let deadline = Instant::now() + PATIENCE;
        while self.state() != Some('T') {
            assert!(Instant::now() < deadline, "{} does not pause", self.name);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets it continue.
    pub(super) fn resume(&mut self) {
        self.signal(Signal::CONT);
        self.paused = false;
    }

    /// Drops its data, or uses others: the path of a data folder that does not exist yet.
    pub(super) fn renew(&mut self) -> PathBuf {
        assert!(self.child.is_none(), "{} still runs", self.name);
        let old = self.data();
        self.generation += 1;
        fs::remove_dir_all(&old).expect("its data are there");
        self.data()
    }

    fn running(&self) -> &Child {
        self.child.as_ref().unwrap_or_else(|| panic!("{} does not run", self.name))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.running()), signal).expect("it is ours");
    }

    /// The letter of its process state: `T` is stopped.
    fn state(&self) -> Option<char> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).ok()?;
        stat.rsplit(") ").next()?.chars().next()
    }

    fn last_words(&self) -> String {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let name = self.folder.file_name().map_or_else(Default::default, |name| name.to_string_lossy());
            let kept = std::env::temp_dir().join(format!("{name}-{}.log", self.name));
            if fs::copy(self.log(), &kept).is_ok() {
                eprintln!(
                    "etcd {} {}: its log is kept in {}",
                    self.release.text(),
                    self.name,
                    kept.display()
                );
            }
        }
    }
}
