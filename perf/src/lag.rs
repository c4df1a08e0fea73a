//! How much later a watcher of a cache sees a write than a bare etcd watch does. Both watch the same keys, on a thread each, while
//! a third writes to etcd itself; every write is one revision, by which the two arrivals are matched: the same event in the same
//! moment of the same machine.

use crate::bridge::Store;
use crate::brought::{Brought, End};
use crate::clock::{nanos, now_ns, sleep_until};
use crate::event::{Event, Kind};
use crate::http::{Caller, JSON, Request};
use crate::http2::WINDOW_MAX;
use crate::options::Lag;
use crate::report::Report;
use crate::target::Trouble;
use crate::wire::{Speech, Wire};
use serde_json::json;
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// How long the last events may take to arrive, and how long nothing comes when all have.
const DRAIN: Duration = Duration::from_secs(5);
const QUIET: Duration = Duration::from_millis(500);
const NAMESPACE: &str = "revcast-perf-lag";
const RATE_MAX: f64 = 10_000.0;

/// What happens to a write. A bare etcd watch sees it, and so does a watch behind the cache.
const SENT: usize = 0;
const ACKNOWLEDGED: usize = 1;
const BARE: usize = 2;
const BEHIND: usize = 3;

type Note = (u64, usize, u64);

/// Of what distributions there are, and from when to when. The last can be negative: the bare watcher may be the later one.
const DISTRIBUTIONS: [(&str, usize, usize); 4] = [
    ("acknowledged", SENT, ACKNOWLEDGED),
    ("bare", SENT, BARE),
    ("behind", SENT, BEHIND),
    ("added", BARE, BEHIND),
];
const QUANTILES: [(&str, usize); 4] = [("p50", 50), ("p90", 90), ("p99", 99), ("max", 100)];

pub(crate) fn run(args: &Lag) -> Result<Report, Trouble> {
    let prefix = format!("{}/configmaps/{NAMESPACE}/", args.prefix.trim_end_matches('/'));
    let (notes, arrived) = channel();
    let newest = async { Store::connect(&args.etcd, &prefix, 1).await?.newest().await };
    let from =
        on_a_runtime(newest).map_err(|why| format!("{why}; name one of its client URLs with --etcd"))?;
    let (etcd, below, bare) = (args.etcd.clone(), prefix.clone(), notes.clone());
    follow(move |ready| on_a_runtime(watch_bare(&etcd, &below, from, &bare, &ready)))?;
    let (address, host) = (args.base.server.resolve(false)?, args.base.server.authority().to_owned());
    let caller = Caller { host: host.clone(), token: None, trust: args.base.trust()? };
    let speech = Speech::new(&caller, args.base.streams().map(|_| WINDOW_MAX))?;
    let behind = notes.clone();
    follow(move |ready| {
        let outcome = watch_behind(address, &speech, from, &behind, &ready);
        outcome.map_err(|why| format!("the server at {host}: {why}"))
    })?;
    let took_seconds = on_a_runtime(write(args, &prefix, &notes))?;
    Ok(judge(&arrived, took_seconds))
}

/// Runs a watch on a thread of its own. The error is why it ended before it was ready.
fn follow(watch: impl FnOnce(Sender<()>) -> Result<(), String> + Send + 'static) -> Result<(), String> {
    let (ready, is_ready) = channel();
    let watching = thread::spawn(move || watch(ready));
    is_ready.recv().or_else(|_| watching.join().unwrap_or_else(|_| Err("a watcher panicked".to_owned())))
}

fn on_a_runtime<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|fault| format!("no runtime: {fault}"))?.block_on(work)
}

async fn watch_bare(
    etcd: &str,
    prefix: &str,
    from: u64,
    notes: &Sender<Note>,
    ready: &Sender<()>,
) -> Result<(), String> {
    let mut stream = Store::connect(etcd, prefix, 1).await?.watch("", from).await?;
    while let Ok(Some(message)) = stream.message().await {
        let now = now_ns();
        if message.created() {
            let _gone = ready.send(());
        }
        for kv in message.events().iter().filter_map(|event| event.kv()) {
            let _gone = notes.send((kv.mod_revision().unsigned_abs(), BARE, now));
        }
    }
    Err(format!("etcd at {etcd} ended the watch"))
}

fn watch_behind(
    address: SocketAddr,
    speech: &Speech,
    from: u64,
    notes: &Sender<Note>,
    ready: &Sender<()>,
) -> Result<(), Box<dyn Error>> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    let path = format!(
        "/api/v1/namespaces/{NAMESPACE}/configmaps?watch=1&timeoutSeconds=3600&resourceVersion={from}"
    );
    let (mut wire, mut line, mut ended) = (Wire::new(speech)?, Vec::new(), None);
    wire.ask(0, &Request { caller: &speech.caller, path: &path, accept: JSON, gzip: false }, true);
    wire.send(&socket)?;
    let mut buffer = vec![0; 64 << 10];
    while let count @ 1.. = socket.read(&mut buffer)? {
        let now = now_ns();
        wire.take(&buffer[..count], |_, brought| match brought {
            Brought::Head { .. } => _ = ready.send(()),
            Brought::Data(data) => line.extend_from_slice(data),
            Brought::End(end) => ended = Some(end),
        })?;
        wire.send(&socket)?;
        match ended.take() {
            None => {}
            Some(End::Whole) => return Ok(()),
            Some(end) => return Err(format!("it ended the watch: {end:?}").into()),
        }
        while let Some(end) = memchr::memchr(b'\n', &line) {
            let text: Vec<u8> = line.drain(..=end).collect();
            let event = Event::read(&text[..end]).filter(|event| event.kind != Kind::Bookmark);
            if let Some(revision) = event.and_then(|event| event.revision) {
                notes.send((revision, BEHIND, now))?;
            }
        }
    }
    Err("it closed the connection".into())
}

/// Writes at the rate asked for. How long it took, in seconds.
async fn write(args: &Lag, prefix: &str, notes: &Sender<Note>) -> Result<f64, String> {
    let store = Store::connect(&args.etcd, prefix, 1).await?;
    let pad = "x".repeat(args.base.size_bytes.saturating_sub(200));
    let every = nanos(Duration::from_secs_f64(1.0 / args.base.rate.per_second().unwrap_or(RATE_MAX)));
    let began = now_ns();
    let end = began + nanos(args.base.duration);
    for (count, due) in
        (0_u64..).map(|count| (count, began + count * every)).take_while(|&(_, due)| due < end)
    {
        sleep_until(due);
        let name = format!("object-{}", count % 10);
        let value = format!(
            r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"{NAMESPACE}","uid":"{count:08}-0000-4000-8000-000000000000"}},"data":{{"pad":"{pad}"}}}}"#
        );
        let sent = now_ns();
        let revision = store.put(&name, value).await?;
        let _gone = notes.send((revision, SENT, sent));
        let _gone = notes.send((revision, ACKNOWLEDGED, now_ns()));
    }
    Ok((now_ns() - began) as f64 / 1e9)
}

fn judge(arrived: &Receiver<Note>, took_seconds: f64) -> Report {
    let mut writes: BTreeMap<u64, [Option<u64>; 4]> = BTreeMap::new();
    let deadline = now_ns() + nanos(DRAIN);
    while now_ns() < deadline {
        match arrived.recv_timeout(QUIET) {
            Ok((revision, what, at)) => writes.entry(revision).or_default()[what] = Some(at),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let mut written = writes.values().filter(|write| write[SENT].is_some());
                if written.all(|write| !write.contains(&None)) {
                    break;
                }
            }
        }
    }
    writes.retain(|_, write| write[SENT].is_some());
    let written = writes.len();
    let mut facts =
        json!({ "writes": written, "rate_per_second": written as f64 / took_seconds.max(f64::MIN_POSITIVE) });
    for (name, from, to) in DISTRIBUTIONS {
        let times = writes.values().filter_map(|write| write[from].zip(write[to]));
        let mut times: Vec<i64> = times.map(|(from, to)| to.cast_signed() - from.cast_signed()).collect();
        times.sort_unstable();
        for (quantile, percent) in QUANTILES {
            let rank = (times.len() * percent).div_ceil(100).saturating_sub(1);
            facts[format!("{name}_{quantile}_ns")] = times.get(rank).copied().unwrap_or_default().into();
        }
        // All but the first are of those that both have seen.
        writes.retain(|_, write| !write.contains(&None));
    }
    facts["matched"] = writes.len().into();
    let mut report = Report::new("lag", facts, "writes rate_per_second matched");
    for (name, ..) in DISTRIBUTIONS {
        report.values(&QUANTILES.map(|(quantile, _)| format!("{name}_{quantile}_ns")).join(" "));
    }
    let clean = written > 0 && writes.len() == written;
    report.end(Vec::new(), clean, "every write was seen by both watchers")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(writes: impl IntoIterator<Item = (u64, [u64; 4])>) -> (Report, serde_json::Value) {
        let (notes, arrived) = channel();
        for (revision, times) in writes {
            for (what, at) in times.into_iter().enumerate().filter(|&(_, at)| at > 0) {
                notes.send((revision, what, at)).expect("the receiver is here");
            }
        }
        drop(notes);
        let report = judge(&arrived, 1.0);
        let facts = serde_json::to_value(&report).expect("JSON");
        (report, facts)
    }

    #[test]
    fn latencies_have_their_quantiles_and_may_be_negative() {
        let (report, facts) = judged((1..=1000).rev().map(|number| (number, [1, 1 + number, 8, 1])));
        let added = ["p50", "max"].map(|name| &facts[format!("added_{name}_ns")]);
        assert_eq!(added, [-7, -7]);
        let acknowledged = QUANTILES.map(|(name, _)| &facts[format!("acknowledged_{name}_ns")]);
        assert_eq!(acknowledged, [500, 900, 990, 1000]);
        assert!(report.clean && report.text.contains("p50 -7 ns"), "{}", report.text);
        assert_eq!(judged([]).1["added_max_ns"], 0);
    }

    #[test]
    fn arrivals_are_matched_by_revision() {
        let (report, facts) = judged([(5, [100, 150, 170, 220]), (6, [200, 260, 300, 0]), (7, [0, 0, 0, 1])]);
        assert_eq!((&facts["writes"], &facts["matched"], report.clean), (&2.into(), &1.into(), false));
        let medians = ["added", "behind", "bare"].map(|name| &facts[format!("{name}_p50_ns")]);
        assert_eq!(medians, [50, 120, 70]);
    }
}
