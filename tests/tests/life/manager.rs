//! What a service manager and probes see: READY, watchdog messages while every shard turns, STOPPING; and a stalled
//! shard, which is a thread that the test stops.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use revcast_tests::server::{Scratch, Server, binary};
use rustix::process::Signal;

/// With a watchdog of one second, messages come twice as often.
const WATCHDOG: &str = "1000000";
const HALF: Duration = Duration::from_millis(500);
/// Until a stall is reported: two looks of two seconds, and some time for a busy machine.
const NOTICED: Duration = Duration::from_secs(20);

/// Received messages, by line, with the time of each.
struct Heard {
    socket: UnixDatagram,
    lines: Vec<(Instant, String)>,
}

impl Heard {
    fn new(socket: UnixDatagram) -> Self {
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        Self { socket, lines: Vec::new() }
    }

    fn listen(&mut self) {
        let mut buffer = [0; 4096];
        while let Ok(length) = self.socket.recv(&mut buffer) {
            let words = std::str::from_utf8(&buffer[..length]).unwrap();
            let now = Instant::now();
            self.lines.extend(words.lines().map(|line| (now, line.to_owned())));
        }
    }

    fn listen_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.listen();
        }
    }

    fn times(&self, line: &str) -> Vec<Instant> {
        self.lines.iter().filter(|(_, said)| said == line).map(|(at, _)| *at).collect()
    }

    fn await_line(&mut self, line: &str, since: Instant, within: Duration) {
        while !self.times(line).iter().any(|at| *at >= since) {
            assert!(since.elapsed() < within, "no {line} in {:?}", self.lines);
            self.listen();
        }
    }
}

fn started(socket: &str, options: &[&str]) -> Server {
    let mut command = Command::new(binary());
    // Of another process: not for it.
    command.env("NOTIFY_SOCKET", socket).env("WATCHDOG_USEC", WATCHDOG).env_remove("WATCHDOG_PID");
    Server::start_by(command, options)
}

#[test]
fn a_manager_is_told_of_start_life_and_end() {
    let scratch = Scratch::new("notify");
    let path = format!("{}/notify", scratch.path());
    let name = format!("revcast-life-{}", std::process::id());
    let bound = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    for (socket, at) in [(UnixDatagram::bind(&path).unwrap(), path.clone()), (bound, format!("@{name}"))] {
        let mut heard = Heard::new(socket);
        let mut server = started(&at, &["--shards", "2", "--drain-grace", "2s"]);
        heard.await_line("READY=1", Instant::now() - Duration::from_secs(60), Duration::from_secs(70));
        heard.listen_for(Duration::from_secs(3));
        assert_eq!(heard.times("READY=1").len(), 1, "ready is said once: {:?}", heard.lines);
        assert!(heard.lines.iter().any(|(_, line)| line == "STATUS=serving 0 watches, shards: 2"));
        let fed = heard.times("WATCHDOG=1");
        // The machine may stall for a second or two, but not in every gap.
        assert!((2..=10).contains(&fed.len()), "{} in three seconds, at half the interval", fed.len());
        let gaps: Vec<Duration> = fed.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| *gap < HALF * 6), "{gaps:?}");
        assert!(gaps.iter().any(|gap| *gap < HALF * 2), "{gaps:?}");
        assert!(heard.times("STOPPING=1").is_empty());
        let told = Instant::now();
        server.signal(Signal::TERM);
        heard.await_line("STOPPING=1", told, Duration::from_secs(5));
        assert_eq!(server.await_end(Duration::from_secs(10)), 0);
    }
}

/// The threads of a shard, stopped until this is dropped. Only the thread that made it may resume them.
struct Stopped(Vec<Pid>);

impl Stopped {
    fn shard(server: &Server, number: usize) -> Self {
        // The executor's threads, and those that it started, have its name and a number more.
        let name = format!("shard-{number}-");
        let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
        let tasks = tasks.map(|task| task.unwrap().path());
        let of_shard = tasks.filter(|task| {
            std::fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.starts_with(&name))
        });
        let pids: Vec<Pid> = of_shard
            .map(|task| Pid::from_raw(task.file_name().unwrap().to_str().unwrap().parse().unwrap()))
            .collect();
        assert!(!pids.is_empty(), "no thread {name}");
        for &pid in &pids {
            ptrace::seize(pid, ptrace::Options::empty()).unwrap();
            ptrace::interrupt(pid).unwrap();
            waitpid(pid, Some(WaitPidFlag::__WALL)).unwrap();
        }
        Self(pids)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for &pid in &self.0 {
            ptrace::detach(pid, None).unwrap();
        }
    }
}

#[test]
fn a_shard_that_stands_still_is_told_and_taken_back() {
    let scratch = Scratch::new("stall");
    let path = format!("{}/notify", scratch.path());
    let log = format!("{}/log", scratch.path());
    let mut heard = Heard::new(UnixDatagram::bind(&path).unwrap());
    let mut command = Command::new(binary());
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", WATCHDOG).env_remove("WATCHDOG_PID");
    command.stderr(std::fs::File::create(&log).unwrap());
    let server = Server::start_by(command, &["--shards", "2"]);
    // The first shard answers operators.
    let admin = server.admin_client();
    assert_eq!(admin.get("/readyz").text(), "ok");
    heard.listen_for(HALF * 3);
    assert!(!heard.times("WATCHDOG=1").is_empty());

    let stopped = Stopped::shard(&server, 1);
    let began = Instant::now();
    let told = loop {
        let reply = admin.get("/readyz");
        if reply.status != 200 {
            break reply;
        }
        assert!(began.elapsed() < NOTICED, "it is not noticed");
        // Messages have the time at which they are read.
        heard.listen();
    };
    assert_eq!((told.status, told.text().as_str()), (503, "shard 1 does not turn: see the log\n"));
    heard.listen_for(HALF * 4);
    // One may have been under way.
    let late = heard.times("WATCHDOG=1").into_iter().filter(|at| *at > began + HALF * 3).count();
    assert_eq!(late, 0, "no proof of life while a shard stands still: {:?}", heard.lines);
    let said = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("shard 1")).collect();
    assert_eq!(lines.len(), 1, "one line: {said}");
    assert!(lines[0].contains("has not turned for 4 s"), "{said}");

    drop(stopped);
    let began = Instant::now();
    while admin.get("/readyz").status != 200 {
        assert!(began.elapsed() < NOTICED, "it is not taken back");
        std::thread::sleep(Duration::from_millis(50));
    }
    heard.await_line("WATCHDOG=1", began, Duration::from_secs(10));
    assert!(std::fs::read_to_string(&log).unwrap().contains("shard 1 turns again"));
    assert_eq!(server.client().get("/readyz").status, 200);
    assert_eq!(server.terminate(), Some(0));
}
