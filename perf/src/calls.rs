//! What goes on beside the watchers, from the first measured moment to the last: hostile clients, and calls to the server. A probe
//! asks whether it lives, at a steady pace: each question has the moment at which it was meant to be sent. A reader makes one
//! call after the other and checks that each LIST has every object and each GET the one that was asked for.

use crate::clock::{now_ns, sleep_until};
use crate::hostile::HostileClients;
use crate::http::{Connection, excerpt};
use crate::latency::Latency;
use crate::object::{Recipe, name_of};
use crate::options::Load;
use crate::record::Facts;
use crate::target::Target;
use crate::writer::Span;
use fastrand::Rng;
use memchr::memmem;
use rustix::process::setpriority_process;
use rustix::thread::{gettid, set_current_timer_slack};
use serde_json::json;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::ops::Range;
use std::thread::{self, JoinHandle};
use std::time::Duration;

const INTERVAL_NS: u64 = 20_000_000;
/// The generator's own threads should not make a probe wait; where that is not allowed it waits, which is reported.
const NICE: i32 = -20;
const GETS_PER_LIST: u64 = 9;
/// A reader does something with an answer before its next call.
const PAUSE: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// Of those that were answered well, by kind.
    pub(crate) latencies: BTreeMap<&'static str, Latency>,
    /// How late calls began that had a moment to begin: part of their latency, and not the server's doing.
    pub(crate) late: Latency,
    pub(crate) failed: u64,
    pub(crate) first_fault: Option<String>,
}

impl Calls {
    /// A call has ended just now; its latency counts from `from_ns`.
    pub(crate) fn end(&mut self, kind: &'static str, from_ns: u64, outcome: Result<(), String>) {
        let latency = self.latencies.entry(kind).or_default();
        match outcome {
            Ok(()) => latency.record(now_ns().saturating_sub(from_ns)),
            Err(why) => {
                self.failed += 1;
                self.first_fault.get_or_insert(why);
            }
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        for (kind, latency) in other.latencies {
            self.latencies.entry(kind).or_default().add(&latency);
        }
        self.late.add(&other.late);
        self.failed += other.failed;
        self.first_fault = self.first_fault.take().or(other.first_fault);
    }
}

/// Asks `/livez` within `span`, over a connection for each question (`fresh`), or one for all.
pub(crate) fn probe(target: &Target, fresh: bool, span: Range<u64>) -> Calls {
    // Not allowed: see `late`.
    let _same = setpriority_process(Some(gettid()), NICE);
    let _slack = set_current_timer_slack(NonZeroU64::new(1));
    let mut calls = Calls::default();
    let kind = if fresh { "livez_fresh" } else { "livez_kept" };
    let mut connection = target.connect();
    // The two kinds of probe take turns.
    let mut due_ns = span.start + if fresh { 0 } else { INTERVAL_NS / 2 };
    while due_ns < span.end {
        if now_ns() < due_ns {
            sleep_until(due_ns);
            calls.late.record(now_ns().saturating_sub(due_ns));
        }
        if fresh {
            connection = target.connect();
        }
        calls.end(kind, due_ns, connection.get("/livez").map(|_| ()));
        due_ns += INTERVAL_NS;
    }
    calls
}

/// Reads objects of the run within `span`: nine GETs, then a LIST of a namespace. `number`: of this reader.
pub(crate) fn read(target: &Target, recipe: &Recipe, number: u32, span: Range<u64>) -> Calls {
    let mut calls = Calls::default();
    let mut server = target.connect();
    let mut random = Rng::with_seed(recipe.seed ^ (u64::from(number) << 40));
    sleep_until(span.start);
    for turn in 0u64.. {
        let asked_ns = now_ns();
        if asked_ns >= span.end {
            break;
        }
        let object = random.u32(..recipe.objects());
        if turn % (GETS_PER_LIST + 1) == GETS_PER_LIST {
            calls.end("lists", asked_ns, list(&mut server, recipe, object));
        } else {
            calls.end("gets", asked_ns, get(&mut server, recipe, object));
        }
        thread::sleep(PAUSE);
    }
    calls
}

fn list(server: &mut Connection, recipe: &Recipe, object: u32) -> Result<(), String> {
    let path = recipe.resource.collection(recipe.namespace_of(object));
    let wanted = recipe.per_namespace as usize;
    let body = server.get(&path)?;
    let listed = memmem::find_iter(body, br#""stamp":""#).count();
    if listed == wanted {
        return Ok(());
    }
    Err(format!("GET {path} has {listed} of {wanted} objects"))
}

fn get(server: &mut Connection, recipe: &Recipe, object: u32) -> Result<(), String> {
    let path = recipe.path_of(object);
    let name = format!(r#""name":"{}""#, name_of(object % recipe.per_namespace));
    let body = server.get(&path)?;
    if memmem::find(body, name.as_bytes()).is_some() {
        return Ok(());
    }
    Err(format!("GET {path} is another object: {}", excerpt(body)))
}

pub(crate) struct Beside {
    calls: Vec<JoinHandle<Calls>>,
    hostile: Option<HostileClients>,
}

impl Beside {
    pub(crate) fn start(args: &Load, target: &Target, recipe: &Recipe, span: Span) -> Self {
        let (from_ns, end_ns) = (span.measure_from_ns, span.end_ns);
        let probe = |fresh| {
            let target = target.clone();
            thread::spawn(move || probe(&target, fresh, from_ns..end_ns))
        };
        let reader = |number| {
            let (target, recipe) = (target.clone(), recipe.clone());
            thread::spawn(move || read(&target, &recipe, number, from_ns..end_ns))
        };
        let hostile = |hostile| HostileClients::start(hostile, target, recipe, from_ns, end_ns);
        let probes = [true, false].into_iter().filter(|_| args.probe).map(probe);
        Self {
            calls: probes.chain((0..args.mixture.readers).map(reader)).collect(),
            hostile: args.mixture.hostile.map(hostile),
        }
    }

    /// Waits for the end of all. What they found: number and latencies of each kind of call, and how many were answered wrong.
    pub(crate) fn end(self) -> Result<Facts, String> {
        let (some, mut found, mut all) = (!self.calls.is_empty(), Facts::new(), Calls::default());
        for calls in self.calls {
            all.add(calls.join().map_err(|_| "a probe or a reader panicked".to_owned())?);
        }
        for (&kind, latency) in &all.latencies {
            let [p50_ns, p99_ns, max_ns] = [0.5, 0.99, 1.0].map(|quantile| latency.at(quantile));
            let figures =
                json!({ "answered": latency.len(), "p50_ns": p50_ns, "p99_ns": p99_ns, "max_ns": max_ns });
            found.insert(kind.to_owned(), figures);
        }
        if all.latencies.contains_key("livez_kept") {
            // How late the probes woke: part of the above, and this generator's doing.
            found.insert("livez_client_delay_p99_ns".to_owned(), all.late.at(0.99).into());
        }
        if some {
            found.insert("calls_failed".to_owned(), all.failed.into());
            found.insert("calls_first_fault".to_owned(), all.first_fault.into());
        }
        if let Some(hostile) = self.hostile {
            found.insert("besieged".to_owned(), json!(hostile.end()?));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Load;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener};

    /// So many questions to a server that takes `connections` and answers each request with `status` after `wait`.
    fn ask(fresh: bool, questions: u64, status: u16, wait: Duration, connections: usize) -> Calls {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let target = Target::local(&Load::default(), listener.local_addr().expect("bound").port(), 0);
        let server = thread::spawn(move || {
            for mut stream in listener.incoming().take(connections).flatten() {
                let mut request = [0; 4096];
                while stream.read(&mut request).is_ok_and(|count| count > 0) {
                    thread::sleep(wait);
                    let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\nok");
                    let _gone = stream.write_all(answer.as_bytes());
                }
            }
        });
        let from_ns = now_ns();
        let turn = if fresh { 0 } else { INTERVAL_NS / 2 };
        let calls = probe(&target, fresh, from_ns..from_ns + turn + INTERVAL_NS * questions);
        server.join().expect("it took so many connections, no fewer");
        calls
    }

    #[test]
    fn a_fresh_probe_connects_each_time_and_a_kept_one_once() {
        for (fresh, kind, connections) in [(true, "livez_fresh", 5), (false, "livez_kept", 1)] {
            let calls = ask(fresh, 5, 200, Duration::ZERO, connections);
            assert_eq!((calls.failed, calls.latencies[kind].len()), (0, 5), "{:?}", calls.first_fault);
        }
        let refused = ask(false, 2, 503, Duration::ZERO, 1);
        assert_eq!((refused.failed, refused.latencies["livez_kept"].len()), (2, 0));
        assert!(refused.first_fault.is_some_and(|why| why.contains("503")));
    }

    #[test]
    fn a_slow_answer_is_counted_from_the_intended_moment() {
        let calls = ask(false, 4, 200, Duration::from_millis(50), 1);
        let latency = &calls.latencies["livez_kept"];
        assert_eq!((calls.failed, latency.len()), (0, 4));
        // The fourth was meant for 60 ms after the first and could be asked after 150 ms.
        assert!(latency.max() >= 139_000_000, "{} ns", latency.max());
    }
}
