//! What forwarding adds to a request: the same GET sent to a bare upstream, through a bare proxy, and through a server that
//! forwards it there, in turns. The bare proxy is the floor: one thread that hands on what it reads, and knows nothing of HTTP.
//!
//! - `latency`: one connection, one request after another. The median of each round, and the difference, which is what is added:
//!   a hop of the loopback, two wake-ups, and with the server two heads.
//! - `rate`: sixteen connections send a number of requests per second, paced; how much of a core each takes, how long the
//!   requests take in each round, and the difference of the medians.
//!
//! The server and the proxy are processes of their own, pinned to CPU 0. The clients and the upstream are one loop on CPU 1, measured
//! twice: *awake*, where it polls its sockets, so that every wake-up in the figures is one of what is between; and *sleeping*, where it
//! waits in the kernel, and what it costs to wake CPU 1 for the request and for the reply is added to what is between too. The
//! upstream answers 1 KiB of JSON at once. With `--test` each part runs once and briefly, and nothing is measured.

#![allow(clippy::print_stdout, reason = "its results")]

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CpuSet, sched_setaffinity};

/// What is asked: nothing here serves it from its own store.
const REQUEST: &[u8] =
    b"GET /apis/metrics.k8s.io/v1beta1/nodes HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n";
const BODY_BYTES: usize = 1 << 10;
const CONNECTIONS: usize = 16;
/// Ticks of `/proc/PID/stat` in a second.
const TICKS: f64 = 100.0;
/// Makes this program a bare proxy to the address that follows.
const BARE_PROXY: &str = "--bare-proxy";

/// How much is measured.
struct Extent {
    rounds: usize,
    requests: usize,
    rate_rounds: usize,
    rate: u32,
    duration: Duration,
}

const MEASURED: Extent =
    Extent { rounds: 15, requests: 2_000, rate_rounds: 5, rate: 2_000, duration: Duration::from_secs(5) };
const TRIED: Extent =
    Extent { rounds: 1, requests: 20, rate_rounds: 1, rate: 100, duration: Duration::from_millis(200) };

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == BARE_PROXY) {
        bare_proxy(&arguments[at + 1]).expect("the proxy runs until it is killed");
    }
    let is_test = arguments.iter().any(|argument| argument == "--test");
    let extent = if is_test { TRIED } else { MEASURED };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let upstream = listener.local_addr().expect("it is bound").to_string();
    let (proxy, server) = (Front::bare(&upstream), Front::server(&upstream));
    // After the server, which would inherit it. A machine of one CPU shares that.
    pin_to(1);
    let mut load = Load::new(listener);
    let ways = [
        Way { name: "the upstream itself", address: &upstream, pid: None },
        Way { name: "through the bare proxy", address: &proxy.address, pid: Some(proxy.child.id()) },
        Way { name: "through the server", address: &server.address, pid: Some(server.child.id()) },
    ];
    for (idle, mode) in [(Idle::Awake, "awake"), (Idle::Sleeping, "sleeping")] {
        load.idle = idle;
        for (name, measure) in [("latency", latency as Measure), ("rate", rates)] {
            let name = format!("{name}/{mode}");
            if is_test {
                println!("Testing forwarding/{name}");
            }
            print_added(&name, &measure(&extent, &mut load, &ways, &name));
            if is_test {
                println!("Success");
            }
        }
    }
}

fn pin_to(cpu: usize) {
    let mut one = CpuSet::new();
    one.set(cpu);
    let _ = sched_setaffinity(None, &one);
}

/// How a request reaches the upstream.
struct Way<'a> {
    name: &'a str,
    address: &'a str,
    /// Of the process between, if there is one.
    pid: Option<u32>,
}

/// One part of the measurement: what each round took, in the order of the ways.
type Measure = fn(&Extent, &mut Load, &[Way<'_>; 3], &str) -> Vec<[Duration; 3]>;

fn latency(extent: &Extent, load: &mut Load, ways: &[Way<'_>; 3], name: &str) -> Vec<[Duration; 3]> {
    let clients = ways.each_ref().map(|way| load.connect(way.address));
    let rounds = (0..extent.rounds).map(|round| {
        let took = in_turns(round, |at| load.one_after_another(clients[at], extent.requests));
        println!("{name}: {:.1?}, {:.1?}, {:.1?}", took[0], took[1], took[2]);
        took
    });
    let rounds = rounds.collect();
    load.close(&clients);
    rounds
}

fn rates(extent: &Extent, load: &mut Load, ways: &[Way<'_>; 3], name: &str) -> Vec<[Duration; 3]> {
    (0..extent.rate_rounds).map(|round| in_turns(round, |at| rate(extent, load, &ways[at], name))).collect()
}

/// Measures all three ways. Each round begins with the next: the one that begins has the colder caches.
fn in_turns(round: usize, mut measure: impl FnMut(usize) -> Duration) -> [Duration; 3] {
    let mut took = [Duration::ZERO; 3];
    for at in (0..took.len()).map(|turn| (round + turn) % 3) {
        took[at] = measure(at);
    }
    took
}

fn print_added(name: &str, rounds: &[[Duration; 3]]) {
    for (what, way, to) in [
        ("the bare proxy adds", 1, 0),
        ("the server adds", 2, 0),
        ("the server adds to the bare proxy", 2, 1),
    ] {
        let mut added: Vec<f64> =
            rounds.iter().map(|took| (took[way].as_secs_f64() - took[to].as_secs_f64()) * 1e6).collect();
        added.sort_by(f64::total_cmp);
        let (least, most) = (added[0], added[added.len() - 1]);
        println!("{name}: {what} {:.1} µs ({least:.1}..{most:.1})", added[added.len() / 2]);
    }
}

/// Sends requests at a rate, and prints how long they took from when they were due; returns the median.
fn rate(extent: &Extent, load: &mut Load, way: &Way<'_>, name: &str) -> Duration {
    let &Way { name: between, address, pid } = way;
    let before = pid.map(cpu);
    let began = Instant::now();
    let took = load.at_a_rate(address, extent.rate, extent.duration);
    let elapsed = began.elapsed().as_secs_f64();
    let at = |part: usize| took[took.len() * part / 100];
    let used = pid.zip(before).map(|(pid, before)| (cpu(pid) - before) / elapsed);
    let used = used.map(|used| format!(", {:.0} % of a core", used * 100.0)).unwrap_or_default();
    println!(
        "{name}: {between}: {:.0} requests/s, p50 {:.0?}, p99 {:.0?}{used}",
        took.len() as f64 / elapsed,
        at(50),
        at(99)
    );
    at(50)
}

/// Seconds of CPU that a process has used.
fn cpu(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the server runs");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("a name").split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
    (ticks(11) + ticks(12)) / TICKS
}

/// What the load does while it has nothing to do.
#[derive(Clone, Copy)]
enum Idle {
    /// It polls.
    Awake,
    /// It waits in the kernel.
    Sleeping,
}

/// The clients, and the upstream that answers every request at once: one loop over all their connections.
struct Load {
    idle: Idle,
    epoll: OwnedFd,
    listener: TcpListener,
    /// By the number that the kernel gives back with an event; 0 is the listener's.
    connections: HashMap<u64, Connection>,
    next: u64,
    events: Vec<epoll::Event>,
    reply: String,
}

struct Connection {
    stream: TcpStream,
    /// Of the upstream: it reads requests, all others read replies.
    is_upstream: bool,
    buffer: Vec<u8>,
    filled: usize,
}

impl Load {
    fn new(listener: TcpListener) -> Self {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a descriptor");
        epoll::add(&epoll, &listener, EventData::new_u64(0), EventFlags::IN).expect("a socket");
        let reply = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {BODY_BYTES}\r\n\r\n{:BODY_BYTES$}",
            "{}"
        );
        let (connections, events) = (HashMap::new(), Vec::with_capacity(64));
        Self { idle: Idle::Awake, epoll, listener, connections, next: 1, events, reply }
    }

    /// The number of a new client.
    fn connect(&mut self, address: &str) -> u64 {
        self.add(TcpStream::connect(address).expect("it listens"), false)
    }

    fn add(&mut self, stream: TcpStream, is_upstream: bool) -> u64 {
        let number = self.next;
        self.next += 1;
        stream.set_nodelay(true).expect("a socket");
        epoll::add(&self.epoll, &stream, EventData::new_u64(number), EventFlags::IN).expect("a socket");
        let connection = Connection { stream, is_upstream, buffer: vec![0; 16 << 10], filled: 0 };
        self.connections.insert(number, connection);
        number
    }

    fn close(&mut self, clients: &[u64]) {
        for client in clients {
            self.connections.remove(client);
        }
    }

    fn ask(&mut self, client: u64) {
        let connection = self.connections.get_mut(&client).expect("it is connected");
        connection.stream.write_all(REQUEST).expect("the peer reads");
    }

    /// Answers what the upstream was asked, and tells `answered` the clients whose reply is complete. Waits for that until
    /// `until` at most, or, awake, not at all.
    fn turn(&mut self, until: Option<Instant>, mut answered: impl FnMut(u64)) {
        if let Idle::Sleeping = self.idle {
            // Not by `epoll::wait`, which knows no parts of a millisecond.
            let wait = until.map(|until| until.saturating_duration_since(Instant::now()));
            let wait = wait.map(|wait| Timespec::try_from(wait).expect("a short time"));
            poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], wait.as_ref()).expect("it waits");
        }
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&Timespec::default())).expect("it polls");
        for event in &events {
            let number = event.data.u64();
            if number == 0 {
                let stream = self.listener.accept().expect("a connection").0;
                self.add(stream, true);
            } else if let Some(connection) = self.connections.get_mut(&number) {
                match connection.read(&self.reply) {
                    Read::Part => {}
                    Read::Reply => answered(number),
                    Read::End => drop(self.connections.remove(&number)),
                }
            }
        }
        self.events = events;
    }

    /// The median of so many requests, each sent when the one before is answered.
    fn one_after_another(&mut self, client: u64, requests: usize) -> Duration {
        let mut took: Vec<Duration> = (0..requests)
            .map(|_| {
                let began = Instant::now();
                self.ask(client);
                let mut is_answered = false;
                while !is_answered {
                    self.turn(None, |number| is_answered |= number == client);
                }
                began.elapsed()
            })
            .collect();
        took.sort();
        took[requests / 2]
    }

    /// How long each request took from when it was due, in order of length. A client asks once its last request is answered.
    fn at_a_rate(&mut self, address: &str, rate: u32, duration: Duration) -> Vec<Duration> {
        let clients: Vec<u64> = (0..CONNECTIONS).map(|_| self.connect(address)).collect();
        let every = Duration::from_secs(1) / rate;
        let began = Instant::now();
        let requests = rate * u32::try_from(duration.as_millis()).expect("short") / 1_000;
        let mut is_asked = [false; CONNECTIONS];
        let mut took = Vec::new();
        // Request N is sent by client N modulo their number; of each, how many were sent.
        let mut sent = [0; CONNECTIONS];
        let due = |at: usize, sent: u32| {
            let number = sent * u32::try_from(CONNECTIONS).expect("few") + u32::try_from(at).expect("few");
            (number < requests).then(|| began + every * number)
        };
        loop {
            let now = Instant::now();
            for at in 0..CONNECTIONS {
                if !is_asked[at] && due(at, sent[at]).is_some_and(|due| due <= now) {
                    self.ask(clients[at]);
                    is_asked[at] = true;
                }
            }
            let next = (0..CONNECTIONS).filter(|&at| !is_asked[at]).filter_map(|at| due(at, sent[at])).min();
            if next.is_none() && !is_asked.contains(&true) {
                break;
            }
            self.turn(next, |number| {
                if let Some(at) = clients.iter().position(|&client| client == number) {
                    took.push(due(at, sent[at]).expect("it was sent").elapsed());
                    is_asked[at] = false;
                    sent[at] += 1;
                }
            });
        }
        self.close(&clients);
        took.sort();
        took
    }
}

/// What a connection was found to hold.
enum Read {
    /// Less than a message, or a request, which is answered.
    Part,
    Reply,
    End,
}

impl Connection {
    /// Reads once, which does not wait after an event; the upstream answers a whole request.
    fn read(&mut self, reply: &str) -> Read {
        let read = self.stream.read(&mut self.buffer[self.filled..]).unwrap_or(0);
        assert!(read > 0 || self.is_upstream, "the peer closed");
        if read == 0 {
            return Read::End;
        }
        self.filled += read;
        let message = &self.buffer[..self.filled];
        if self.is_upstream {
            if message.ends_with(b"\r\n\r\n") {
                self.filled = 0;
                if self.stream.write_all(reply.as_bytes()).is_err() {
                    return Read::End;
                }
            }
            return Read::Part;
        }
        let head = message.windows(4).position(|end| end == b"\r\n\r\n");
        if head.is_none_or(|head| message.len() < head + 4 + BODY_BYTES) {
            return Read::Part;
        }
        assert!(message.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(message));
        self.filled = 0;
        Read::Reply
    }
}

/// What stands between the clients and the upstream; it ends with its owner.
struct Front {
    child: Child,
    address: String,
}

impl Front {
    fn bare(upstream: &str) -> Self {
        let own = std::env::current_exe().expect("the path of this program");
        Self::start(Command::new(own).args([BARE_PROXY, upstream]))
    }

    fn server(upstream: &str) -> Self {
        let mut command = Command::new(binary());
        command
            .env_remove("REVCAST_BIN")
            .args(["--listen", "127.0.0.1:0", "--admin-listen", "none", "--pin-cpus", "0"])
            .args(["--upstream", &format!("http://{upstream}"), "--log-level", "error"]);
        Self::start(&mut command)
    }

    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        let address = loop {
            let line = lines.next().expect("it serves").expect("text");
            if let Some(rest) = line.strip_prefix("serving http://") {
                break rest.split(',').next().expect("an address").to_owned();
            }
        };
        Self { child, address }
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Hands bytes from each client to a connection of its own to the upstream, and back, until it is killed.
fn bare_proxy(upstream: &str) -> io::Result<()> {
    pin_to(0);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("serving http://{},", listener.local_addr()?);
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(0), EventFlags::IN)?;
    // Each with the number of the one at the other end; a pair has an even number and the next.
    let mut streams: HashMap<u64, TcpStream> = HashMap::new();
    let (mut next, mut events, mut buffer) = (2, Vec::with_capacity(64), vec![0; 64 << 10]);
    loop {
        events.clear();
        epoll::wait(&epoll, spare_capacity(&mut events), None)?;
        for event in &events {
            let number = event.data.u64();
            if number == 0 {
                for stream in [listener.accept()?.0, TcpStream::connect(upstream)?] {
                    stream.set_nodelay(true)?;
                    epoll::add(&epoll, &stream, EventData::new_u64(next), EventFlags::IN)?;
                    streams.insert(next, stream);
                    next += 1;
                }
                continue;
            }
            let Some(stream) = streams.get_mut(&number) else { continue };
            let read = stream.read(&mut buffer).unwrap_or(0);
            match streams.get_mut(&(number ^ 1)) {
                Some(other) if read > 0 => other.write_all(&buffer[..read])?,
                Some(_) | None => drop((streams.remove(&number), streams.remove(&(number ^ 1)))),
            }
        }
    }
}

/// The server's release binary: `REVCAST_BIN`, or one that cargo builds now.
fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("REVCAST_BIN") {
        return path.into();
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--release", "-p", "revcast", "--message-format=json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo runs");
    assert!(built.status.success(), "the server does not build");
    let text = String::from_utf8_lossy(&built.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let executable = messages
        .filter(|message| message["target"]["name"] == "revcast")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from));
    executable.expect("cargo names the executable that it built")
}
