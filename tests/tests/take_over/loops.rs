//! Clients that make a request on a connection of its own, again and again; and clients that keep their connection as long as replies let
//! them. Whatever goes wrong is a problem: a connection that is refused or reset, and any answer but 200.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use revcast_tests::client::{Client, Connection};

const PATH: &str = "/api/v1/namespaces/s0/configmaps?limit=3&resourceVersion=0";

/// Clients that run.
pub(super) struct Loops {
    over: Arc<AtomicBool>,
    made: Arc<AtomicU64>,
    threads: Vec<JoinHandle<(Vec<String>, Duration)>>,
}

impl Loops {
    /// Starts this many of each kind.
    pub(super) fn start(address: &str, each: usize) -> Self {
        let (over, made) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let start = |keeps: bool| {
            let (client, over, made) = (Client::new(address), Arc::clone(&over), Arc::clone(&made));
            std::thread::spawn(move || run(&client, keeps, &over, &made))
        };
        let threads = (0..each).flat_map(|_| [false, true]).map(start).collect();
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

fn run(client: &Client, keeps: bool, over: &AtomicBool, made: &AtomicU64) -> (Vec<String>, Duration) {
    let (mut problems, mut slowest, mut kept) = (Vec::new(), Duration::ZERO, None);
    while !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        match one(client, keeps, &mut kept) {
            Ok(()) => _ = made.fetch_add(1, Ordering::Relaxed),
            Err(problem) => {
                problems.push(problem);
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        slowest = slowest.max(began.elapsed());
    }
    (problems, slowest)
}

fn one(client: &Client, keeps: bool, kept: &mut Option<Connection>) -> Result<(), String> {
    let mut connection = match kept.take() {
        Some(connection) => connection,
        None => client.connect().map_err(|error| format!("connect: {error}"))?,
    };
    let close = [("Connection", "close")];
    let headers = if keeps { &[][..] } else { &close[..] };
    let reply = connection.request("GET", PATH, headers, &[]);
    let reply = reply.map_err(|error| format!("request, kept {keeps}: {error}"))?;
    if reply.status != 200 {
        return Err(format!("{}: {}", reply.status, reply.text()));
    }
    if keeps && reply.header("connection") != Some("close") {
        *kept = Some(connection);
    }
    Ok(())
}
