//! What forwarding adds to a request: the same GET sent to a bare upstream, through a bare proxy, and through a server that
//! forwards it there, in turns. The bare proxy is the floor: one thread that hands on what it reads, and knows nothing of HTTP.
//!
//! - `latency`: one connection, one request after another. The median of each round, and the difference, which is what is added:
//!   a hop of the loopback, two wake-ups, and with the server two heads.
//! - `rate`: sixteen connections send a number of requests per second, paced; how much of a core each takes, how long the
//!   requests take in each round, and the difference of the medians.
//!
//! The server and the proxy are processes of their own, pinned to CPU 0; everything else runs on CPU 1. The upstream answers 1 KiB of
//! JSON at once. With `--test` each part runs once and briefly, and nothing is measured.

#![allow(clippy::print_stdout, reason = "its results")]

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
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
    std::thread::spawn(move || accept(&listener));
    let ways = [
        Way { name: "the upstream itself", address: &upstream, pid: None },
        Way { name: "through the bare proxy", address: &proxy.address, pid: Some(proxy.child.id()) },
        Way { name: "through the server", address: &server.address, pid: Some(server.child.id()) },
    ];
    if is_test {
        println!("Testing forwarding/latency");
    }
    latency(&extent, &ways);
    if is_test {
        println!("Success\nTesting forwarding/rate");
    }
    rates(&extent, &ways);
    if is_test {
        println!("Success");
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

fn latency(extent: &Extent, ways: &[Way<'_>; 3]) {
    let mut peers = ways.each_ref().map(|way| Peer::connect(way.address));
    let rounds = (0..extent.rounds).map(|round| {
        let took = in_turns(round, |at| median(&mut peers[at], extent.requests));
        println!("latency: {:.1?}, {:.1?}, {:.1?}", took[0], took[1], took[2]);
        took
    });
    print_added("latency", &rounds.collect::<Vec<_>>());
}

fn rates(extent: &Extent, ways: &[Way<'_>; 3]) {
    let rounds = (0..extent.rate_rounds).map(|round| in_turns(round, |at| rate(extent, &ways[at])));
    print_added("rate", &rounds.collect::<Vec<_>>());
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

fn median(peer: &mut Peer, requests: usize) -> Duration {
    let mut took: Vec<Duration> = (0..requests).map(|_| peer.ask()).collect();
    took.sort();
    took[requests / 2]
}

/// Sends requests at a rate, and prints how long they took from when they were due; returns the median.
fn rate(extent: &Extent, way: &Way<'_>) -> Duration {
    let &Way { name, address, pid } = way;
    let before = pid.map(cpu);
    let began = Instant::now();
    let each = Duration::from_secs(1) * u32::try_from(CONNECTIONS).expect("few") / extent.rate;
    let threads: Vec<_> = (0..CONNECTIONS)
        .map(|number| {
            let mut peer = Peer::connect(address);
            let duration = extent.duration;
            let offset =
                each * u32::try_from(number).expect("few") / u32::try_from(CONNECTIONS).expect("few");
            std::thread::spawn(move || {
                let mut took = Vec::new();
                let mut due = began + offset;
                while due < began + duration {
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    peer.ask();
                    took.push(due.elapsed());
                    due += each;
                }
                took
            })
        })
        .collect();
    let mut took: Vec<Duration> =
        threads.into_iter().flat_map(|thread| thread.join().expect("its requests are answered")).collect();
    let elapsed = began.elapsed().as_secs_f64();
    took.sort();
    let at = |part: usize| took[took.len() * part / 100];
    let used = pid.zip(before).map(|(pid, before)| (cpu(pid) - before) / elapsed);
    let used = used.map(|used| format!(", {:.0} % of a core", used * 100.0)).unwrap_or_default();
    println!(
        "rate: {name}: {:.0} requests/s, p50 {:.0?}, p99 {:.0?}{used}",
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

/// A connection for one request after another.
struct Peer {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Peer {
    fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_nodelay(true).expect("a socket");
        Self { stream, buffer: vec![0; 16 << 10] }
    }

    /// Sends the request and reads the whole reply.
    fn ask(&mut self) -> Duration {
        let began = Instant::now();
        self.stream.write_all(REQUEST).expect("the peer reads");
        let mut filled = 0;
        loop {
            let read = self.stream.read(&mut self.buffer[filled..]).expect("the peer answers");
            assert!(read > 0, "the peer closed");
            filled += read;
            let head = self.buffer[..filled].windows(4).position(|end| end == b"\r\n\r\n");
            if head.is_some_and(|head| filled >= head + 4 + BODY_BYTES) {
                break;
            }
        }
        let took = began.elapsed();
        assert!(
            self.buffer.starts_with(b"HTTP/1.1 200 "),
            "{}",
            String::from_utf8_lossy(&self.buffer[..filled])
        );
        took
    }
}

/// A server that answers every request at once.
fn accept(listener: &TcpListener) {
    for stream in listener.incoming().map_while(Result::ok) {
        std::thread::spawn(move || answer(stream));
    }
}

fn answer(mut stream: TcpStream) {
    let reply = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {BODY_BYTES}\r\n\r\n{:BODY_BYTES$}",
        "{}"
    );
    let _ = stream.set_nodelay(true);
    let (mut buffer, mut filled) = (vec![0; 16 << 10], 0);
    while let Ok(read @ 1..) = stream.read(&mut buffer[filled..]) {
        filled += read;
        if buffer[..filled].ends_with(b"\r\n\r\n") {
            filled = 0;
            if stream.write_all(reply.as_bytes()).is_err() {
                return;
            }
        }
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
