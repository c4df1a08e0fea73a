//! How much later a watcher behind a cache sees a write than a bare etcd watch does.
//!
//! Both watch the same keys at the same time, on a thread each, while a third writes to etcd itself; every write is one
//! revision, by which the two arrivals are matched. So what is compared is the same event in the same moment of the same
//! machine. It is the only part that speaks etcd's protocol.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use etcd_client::{Client, GetOptions, WatchOptions};
use serde::Serialize;

use crate::chunked::{ChunkDecoder, Step};
use crate::clock::{nanos, now_ns, sleep_until};
use crate::event::{Event, Kind};
use crate::options::Lag;
use crate::record::{Record, Scenario};
use crate::target::Trouble;
use crate::units::show_ns;

/// How long the last events may take to arrive.
const DRAIN: Duration = Duration::from_secs(5);
const NAMESPACE: &str = "revcast-perf-lag";
/// Writes a second at `--rate max`.
const RATE_MAX: f64 = 10_000.0;

/// An arrival, or a write: at which revision, and when.
#[derive(Clone, Copy, Debug)]
enum Note {
    /// A write: when it was sent and when it was acknowledged.
    Written(u64, u64, u64),
    Bare(u64, u64),
    Behind(u64, u64),
}

#[derive(Debug, Serialize)]
pub(crate) struct LagReport {
    writes: usize,
    matched: usize,
    rate_per_second: f64,
    acknowledged: Spread,
    bare: Spread,
    behind: Spread,
    /// Behind the cache, less at the bare watch, of the same event.
    added: Spread,
    clean: bool,
}

impl Scenario for LagReport {
    fn records(&self) -> Vec<&Record> {
        Vec::new()
    }

    fn is_clean(&self) -> bool {
        self.clean
    }
}

/// A distribution. Added latency can be negative: the bare watcher may be the later one.
#[derive(Debug, Default, Serialize)]
struct Spread {
    p50_ns: i64,
    p90_ns: i64,
    p99_ns: i64,
    max_ns: i64,
}

impl Spread {
    fn of(mut values: Vec<i64>) -> Self {
        values.sort_unstable();
        let at = |share: usize| {
            let rank = (values.len() * share).div_ceil(1000).max(1) - 1;
            values.get(rank.min(values.len().saturating_sub(1))).copied().unwrap_or_default()
        };
        Self { p50_ns: at(500), p90_ns: at(900), p99_ns: at(990), max_ns: at(1000) }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |ns: i64| format!("{}{}", if ns < 0 { "-" } else { "" }, show_ns(ns.unsigned_abs()));
        write!(
            f,
            "p50 {:<9} p90 {:<9} p99 {:<9} max {}",
            show(self.p50_ns),
            show(self.p90_ns),
            show(self.p99_ns),
            show(self.max_ns)
        )
    }
}

impl fmt::Display for LagReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} writes to etcd at {:.0}/s, {} seen by both",
            self.writes, self.rate_per_second, self.matched
        )?;
        writeln!(f, "  write acknowledged    {}", self.acknowledged)?;
        writeln!(f, "  at a bare etcd watch  {}", self.bare)?;
        writeln!(f, "  behind the cache      {}", self.behind)?;
        writeln!(f, "  added                 {}", self.added)
    }
}

pub(crate) fn run(args: &Lag) -> Result<LagReport, Trouble> {
    let prefix = format!("{}/configmaps/{NAMESPACE}/", args.prefix.trim_end_matches('/'));
    let (notes, arrived) = channel();
    let from = on_a_runtime(newest(&args.etcd))??;
    let bare = {
        let (etcd, prefix, notes) = (args.etcd.clone(), prefix.clone(), notes.clone());
        let (ready, is_ready) = channel();
        let _detached = thread::spawn(move || on_a_runtime(watch_bare(etcd, prefix, from, notes, ready)));
        is_ready
    };
    bare.recv().map_err(|_| format!("etcd at {} does not take a watch", args.etcd))?;
    watch_behind(args, from, notes.clone())?;
    let writes = {
        let (args, prefix) = (args.clone(), prefix.clone());
        thread::spawn(move || on_a_runtime(write(args, prefix, notes)))
    };
    let outcome = writes.join().map_err(|_| "the writer broke".to_owned())?;
    let took = outcome??;
    Ok(judge(&arrived, took))
}

fn on_a_runtime<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    Ok(runtime.map_err(|error| format!("no runtime: {error}"))?.block_on(work))
}

fn unreachable(etcd: &str, error: &etcd_client::Error) -> String {
    format!("etcd at {etcd}: {error}; name one of its client URLs with --etcd")
}

async fn newest(etcd: &str) -> Result<u64, String> {
    let wrong = |error| unreachable(etcd, &error);
    let mut client = Client::connect([etcd], None).await.map_err(wrong)?;
    let answer =
        client.get("/", Some(GetOptions::new().with_limit(1).with_keys_only())).await.map_err(wrong)?;
    Ok(answer.header().map_or(0, |header| u64::try_from(header.revision()).unwrap_or(0)))
}

async fn watch_bare(etcd: String, prefix: String, from: u64, notes: Sender<Note>, ready: Sender<()>) {
    let Ok(mut client) = Client::connect([&etcd], None).await else { return };
    let start = i64::try_from(from + 1).unwrap_or(i64::MAX);
    let options = WatchOptions::new().with_prefix().with_start_revision(start);
    let Ok(mut stream) = client.watch(prefix, Some(options)).await else { return };
    while let Ok(Some(message)) = stream.message().await {
        let now = now_ns();
        if message.created() {
            let _gone = ready.send(());
        }
        for event in message.events() {
            let revision = event.kv().map_or(0, |key_value| key_value.mod_revision());
            if notes.send(Note::Bare(u64::try_from(revision).unwrap_or(0), now)).is_err() {
                return;
            }
        }
    }
}

/// Opens the watch behind the cache, and reads it on a thread of its own.
fn watch_behind(args: &Lag, from: u64, notes: Sender<Note>) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("the server at {}: {error}", args.base.server.authority());
    let address = args.base.server.resolve(false).map_err(|fault| fault.to_string())?;
    let mut socket = TcpStream::connect(address).map_err(wrong)?;
    socket.set_nodelay(true).map_err(wrong)?;
    let path = format!(
        "/api/v1/namespaces/{NAMESPACE}/configmaps?watch=1&timeoutSeconds=3600&resourceVersion={from}"
    );
    let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", args.base.server.authority());
    socket.write_all(request.as_bytes()).map_err(wrong)?;
    let mut buffer = vec![0; 64 << 10];
    let mut held = Vec::new();
    let body = loop {
        let count = socket.read(&mut buffer).map_err(wrong)?;
        held.extend_from_slice(&buffer[..count]);
        if count == 0 {
            return Err(format!("the server at {} closed the watch", args.base.server.authority()));
        }
        if let Some(end) = held.windows(4).position(|four| four == b"\r\n\r\n") {
            break held.split_off(end + 4);
        }
    };
    if !held.starts_with(b"HTTP/1.1 200") {
        return Err(format!(
            "the server refused the watch: {}",
            String::from_utf8_lossy(&held).lines().next().unwrap_or("")
        ));
    }
    thread::spawn(move || {
        let mut decoder = ChunkDecoder::new();
        let mut line = Vec::new();
        let mut input = body;
        loop {
            let now = now_ns();
            let mut rest = input.as_slice();
            while let Ok(Step::Data(bytes)) = decoder.next(&mut rest) {
                line.extend_from_slice(bytes);
                while let Some(end) = line.iter().position(|byte| *byte == b'\n') {
                    let event: Vec<u8> = line.drain(..=end).collect();
                    let change = Event::read(&event[..end]).filter(|event| event.kind != Kind::Bookmark);
                    if let Some(revision) = change.and_then(|event| event.revision)
                        && notes.send(Note::Behind(revision, now)).is_err()
                    {
                        return;
                    }
                }
            }
            match socket.read(&mut buffer) {
                Ok(count @ 1..) => input = buffer[..count].to_vec(),
                Ok(0) | Err(_) => return,
            }
        }
    });
    Ok(())
}

/// Writes at the rate asked for. How long it took, in seconds.
async fn write(args: Lag, prefix: String, notes: Sender<Note>) -> Result<f64, String> {
    let wrong = |error| unreachable(&args.etcd, &error);
    let mut client = Client::connect([&args.etcd], None).await.map_err(wrong)?;
    let pad = "x".repeat(args.base.size_bytes.saturating_sub(200));
    let every = nanos(Duration::from_secs_f64(1.0 / args.base.rate.per_second().unwrap_or(RATE_MAX)));
    let began = now_ns();
    let end = began + nanos(args.base.duration);
    for count in 0_u64.. {
        let due = began + count * every;
        if due >= end {
            break;
        }
        sleep_until(due);
        let name = format!("object-{}", count % 10);
        let value = format!(
            r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"{NAMESPACE}","uid":"{count:08}-0000-4000-8000-000000000000"}},"data":{{"pad":"{pad}"}}}}"#
        );
        let sent = now_ns();
        let answer = client.put(format!("{prefix}{name}"), value, None).await.map_err(wrong)?;
        let revision = answer.header().map_or(0, |header| header.revision());
        let _gone = notes.send(Note::Written(u64::try_from(revision).unwrap_or(0), sent, now_ns()));
    }
    #[allow(clippy::cast_precision_loss)] // a rate for people
    Ok((now_ns() - began) as f64 / 1e9)
}

fn judge(arrived: &Receiver<Note>, took_seconds: f64) -> LagReport {
    let mut written = BTreeMap::new();
    let (mut bare, mut behind) = (BTreeMap::new(), BTreeMap::new());
    let deadline = now_ns() + nanos(DRAIN);
    while let Ok(note) = arrived.recv_timeout(Duration::from_nanos(deadline.saturating_sub(now_ns()))) {
        match note {
            Note::Written(revision, sent, acknowledged) => {
                _ = written.insert(revision, (sent, acknowledged));
            }
            Note::Bare(revision, at) => _ = bare.insert(revision, at),
            Note::Behind(revision, at) => _ = behind.insert(revision, at),
        }
        let all = written.keys().all(|revision| bare.contains_key(revision) && behind.contains_key(revision));
        if all
            && bare.len() >= written.len()
            && !written.is_empty()
            && deadline - now_ns() < nanos(DRAIN) - 500_000_000
        {
            break;
        }
    }
    let since = |at: u64, from: u64| i64::try_from(at).unwrap_or(i64::MAX) - i64::try_from(from).unwrap_or(0);
    let both: Vec<(u64, u64, u64)> = written
        .iter()
        .filter_map(|(revision, (sent, _))| Some((*sent, *bare.get(revision)?, *behind.get(revision)?)))
        .collect();
    #[allow(clippy::cast_precision_loss)] // a rate for people
    LagReport {
        writes: written.len(),
        matched: both.len(),
        rate_per_second: written.len() as f64 / took_seconds.max(f64::MIN_POSITIVE),
        acknowledged: Spread::of(
            written.values().map(|(sent, acknowledged)| since(*acknowledged, *sent)).collect(),
        ),
        bare: Spread::of(both.iter().map(|(sent, bare, _)| since(*bare, *sent)).collect()),
        behind: Spread::of(both.iter().map(|(sent, _, behind)| since(*behind, *sent)).collect()),
        added: Spread::of(both.iter().map(|(_, bare, behind)| since(*behind, *bare)).collect()),
        clean: both.len() == written.len() && !written.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_its_quantiles() {
        let spread = Spread::of((1..=1000).rev().collect());
        assert_eq!((spread.p50_ns, spread.p90_ns, spread.p99_ns, spread.max_ns), (500, 900, 990, 1000));
        let one = Spread::of(vec![-7]);
        assert_eq!((one.p50_ns, one.max_ns), (-7, -7));
        assert!(one.to_string().contains("p50 -7 ns"), "{one}");
        assert_eq!(Spread::of(Vec::new()).max_ns, 0);
    }

    #[test]
    fn arrivals_are_matched_by_revision() {
        let (notes, arrived) = channel();
        for note in [
            Note::Written(5, 100, 150),
            Note::Bare(5, 170),
            Note::Behind(5, 220),
            Note::Written(6, 200, 260),
            Note::Bare(6, 300),
            Note::Behind(7, 1),
        ] {
            notes.send(note).expect("the receiver is here");
        }
        drop(notes);
        let report = judge(&arrived, 1.0);
        assert_eq!((report.writes, report.matched, report.clean), (2, 1, false));
        assert_eq!((report.added.p50_ns, report.behind.p50_ns, report.bare.p50_ns), (50, 120, 70));
    }
}
