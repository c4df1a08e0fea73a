//! Clients that make a request on a connection of its own, again and again; and clients that keep their connection as long as the server
//! lets them. Whatever goes wrong is a problem: a connection that is refused or reset, and any answer but the right one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use revcast_tests::client::{self, Client};
use revcast_tests::http2::{self, Outcome, Read};
use revcast_tests::tls::{Stream, Trust};
use serde_json::json;

const LIST: &str = "/api/v1/namespaces/s0/configmaps?limit=3&resourceVersion=0";
/// Of a resource that nobody else writes or watches.
const WRITTEN: &str = "/api/v1/namespaces/loops/secrets";
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// How they reach the server: over TLS, if they have somebody to trust.
#[derive(Clone, Debug)]
pub(super) enum Way {
    Http1(Option<Trust>),
    Http2(Option<Trust>),
}

/// Clients that run.
pub(super) struct Loops {
    over: Arc<AtomicBool>,
    made: Arc<AtomicU64>,
    threads: Vec<JoinHandle<(Vec<String>, Duration)>>,
}

impl Loops {
    /// Starts this many of each kind.
    pub(super) fn start(way: &Way, address: &str, each: usize) -> Self {
        let (over, made) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let start = |number: usize| {
            let mut looped = Loop {
                way: way.clone(),
                address: address.to_owned(),
                number,
                keeps: !number.is_multiple_of(2),
                kept: None,
            };
            let (over, made) = (Arc::clone(&over), Arc::clone(&made));
            std::thread::spawn(move || looped.run(&over, &made))
        };
        let threads = (0..2 * each).map(start).collect();
        Self { over, made, threads }
    }

    /// Ends them. How many requests there were, and the slowest one with its connection.
    pub(super) fn end(self) -> (u64, Duration) {
        self.over.store(true, Ordering::Relaxed);
        let ended: Vec<(Vec<String>, Duration)> =
            self.threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let problems: Vec<&String> = ended.iter().flat_map(|(problems, _)| problems).collect();
        assert!(problems.is_empty(), "{} problems: {:?}", problems.len(), &problems[..problems.len().min(5)]);
        (
            self.made.load(Ordering::Relaxed),
            ended.iter().map(|(_, slowest)| *slowest).max().unwrap_or_default(),
        )
    }
}

/// A connection that is used again.
enum Kept {
    Http1(client::Connection),
    Http2(Box<http2::Connection>),
}

struct Loop {
    way: Way,
    address: String,
    number: usize,
    keeps: bool,
    kept: Option<Kept>,
}

impl Loop {
    fn run(&mut self, over: &AtomicBool, made: &AtomicU64) -> (Vec<String>, Duration) {
        let (mut problems, mut slowest, mut round) = (Vec::new(), Duration::ZERO, 0);
        while !over.load(Ordering::Relaxed) {
            // Its own objects: each is created once, and deleted then.
            let name = format!("w{}-{}", self.number, round / 4);
            let (method, path, body, right) = match round % 4 {
                0 => ("GET", LIST.to_owned(), String::new(), 200),
                1 => ("GET", "/readyz".to_owned(), String::new(), 200),
                2 => ("POST", WRITTEN.to_owned(), json!({"metadata": {"name": name}}).to_string(), 201),
                _ => ("DELETE", format!("{WRITTEN}/{name}"), String::new(), 200),
            };
            round += 1;
            let began = Instant::now();
            match self.ask(method, &path, body.as_bytes()) {
                Ok((status, _)) if status == right => _ = made.fetch_add(1, Ordering::Relaxed),
                Ok((status, text)) => problems.push(format!("{method} {path}: {status} {text}")),
                Err(problem) => {
                    problems.push(format!("{method} {path}, kept {}: {problem}", self.keeps));
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
            slowest = slowest.max(began.elapsed());
        }
        (problems, slowest)
    }

    fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> Result<(u16, String), String> {
        let json = [("content-type", "application/json")];
        let kept = match self.kept.take() {
            Some(Kept::Http2(connection)) => still_open(connection)?.map(Kept::Http2),
            other => other,
        };
        let kept = kept.map_or_else(|| self.connect(), Ok).map_err(|error| format!("connect: {error}"))?;
        match kept {
            Kept::Http1(mut connection) => {
                let close = [("Connection", "close"), json[0]];
                let headers = if self.keeps { &close[1..] } else { &close };
                let reply = connection.request(method, path, headers, body);
                let reply = reply.map_err(|error| error.to_string())?;
                if self.keeps && reply.header("connection") != Some("close") {
                    self.kept = Some(Kept::Http1(connection));
                }
                Ok((reply.status, reply.text()))
            }
            Kept::Http2(mut connection) => {
                let stream = connection.request(method, path, &json, body.is_empty());
                if !body.is_empty() {
                    connection.upload(stream, body);
                }
                match connection.outcome(stream, PATIENCE) {
                    Outcome::Answered(status) => {
                        let text = connection.so_far(stream).text();
                        if self.keeps {
                            self.kept = Some(Kept::Http2(connection));
                        }
                        Ok((status, text))
                    }
                    other @ (Outcome::Reset(_) | Outcome::GoneAway(_) | Outcome::Closed | Outcome::Quiet) => {
                        Err(format!("{other:?} after {:?}", connection.goaways()))
                    }
                }
            }
        }
    }

    fn connect(&self) -> std::io::Result<Kept> {
        let client = |trust: &Option<Trust>| match trust {
            None => Client::new(&self.address),
            Some(trust) => Client::over_tls(&self.address, trust),
        };
        match &self.way {
            Way::Http1(trust) => client(trust).connect().map(Kept::Http1),
            Way::Http2(trust) => {
                let socket = std::net::TcpStream::connect(&self.address)?;
                let mut connection = http2::Connection::over(match trust {
                    None => Stream::Plain(socket),
                    Some(trust) => trust.offering(&["h2"]).over(socket),
                });
                connection.preface(&[]);
                connection.settle();
                Ok(Kept::Http2(Box::new(connection)))
            }
        }
    }
}

/// The connection, if the server has not asked for another one; it has ended as it should, if it has.
fn still_open(mut connection: Box<http2::Connection>) -> Result<Option<Box<http2::Connection>>, String> {
    while let Read::Frame(_) = connection.read(Duration::from_millis(1)) {}
    match (connection.goaways(), connection.end()) {
        ([], None) => Ok(Some(connection)),
        (goaways, None | Some(Ok(()))) if !goaways.is_empty() => Ok(None),
        (goaways, end) => Err(format!("a kept connection ended with {goaways:?} and {end:?}")),
    }
}
