//! Many clients that ask for the whole state at once, as when a fleet of informers starts. The connections are made first; then
//! all requests leave together, and each answer is checked: every object once, and the mark that ends the initial events behind
//! them, not older than any (KEP-3157). A client that has everything keeps its watch open until the last one has.

mod stream;

use crate::clock::{nanos, now_ns, timeout};
use crate::http::{Caller, JSON, Refusal, Request};
use crate::http2::WINDOW_MAX;
use crate::known::Known;
use crate::latency::Latency;
use crate::object::Recipe;
use crate::options::Initial;
use crate::record::Record;
use crate::report::Report;
use crate::setup;
use crate::target::{Target, Trouble, client_cpu_ns, used};
use crate::wire::{Speech, Wire};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::Duration;
use stream::{Found, Stream, Wanted};

const READ_BYTES: usize = 256 * 1024;
const EVENTS_MAX: usize = 1024;
const WATCH_SECONDS: u32 = 3600;

const SHOWN: &str = "
    objects resource object_bytes watchers asked encoding
    first_synced_ns synced_p50_ns synced_p99_ns last_synced_ns
    objects_received objects_per_second bytes received_bytes_per_second
    missing duplicated unexpected malformed stale_marks unfinished
    server_cpu_ns_per_object server_pid client_cpu_share
    server_rss_before_bytes server_rss_peak_bytes";
const WRONG: &str = "missing duplicated unexpected malformed stale_marks unfinished";

struct Start {
    caller: Caller,
    path: String,
    gzip: bool,
    wanted: Wanted,
    /// All threads and the coordinator: the requests leave after it.
    gate: Barrier,
    /// When the first of them left; and how long to wait for the last client.
    began_ns: OnceLock<u64>,
    timeout: Duration,
    left: AtomicU64,
    refused: OnceLock<String>,
}

/// What the clients of one thread got, or of all.
#[derive(Debug, Default)]
struct Share {
    synced: Latency,
    found: Found,
}

pub(crate) fn run(args: &Initial) -> Result<Report, Trouble> {
    let base = &args.base;
    let target = Target::prepare(base, base.watchers)?;
    let mut recipe = target.recipe(base, base.namespaces(), base.objects);
    setup::delete_objects(&target, &recipe)?;
    let object_bytes = setup::create_objects(&target, &mut recipe, base.size_bytes, base.writers)?;
    let mut record = target.record(base, "initial");
    if args.list {
        record.subject.push_str(", lists");
    }
    if args.gzip {
        record.subject.push_str(", gzip");
        record.tell("encoding", "gzip accepted");
    }
    record.object_bytes = object_bytes;
    measure(args, &target, &recipe, &mut record)?;
    let mut report = Report::new("initial", record.flat().into(), "server protocol seed");
    report.values(SHOWN);
    Ok(report.end(vec![record], true, "every client got every object once, and the mark after them"))
}

fn request_target(recipe: &Recipe, list: bool) -> String {
    let collection = recipe.resource.collection(&recipe.namespaces[0]);
    if list {
        return collection;
    }
    format!(
        "{collection}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}"
    )
}

/// Asks with all clients at once. The latencies are the times from the first request to the mark, or to the end of the list.
pub(crate) fn measure(
    args: &Initial,
    target: &Target,
    recipe: &Recipe,
    record: &mut Record,
) -> Result<(), String> {
    let base = &args.base;
    let streams = base.streams().unwrap_or(1);
    let speech = Speech::new(&target.caller, base.streams().map(|_| WINDOW_MAX))?;
    let connections = base.watchers.div_ceil(streams);
    let threads = base.threads.min(connections);
    let start = Start {
        caller: target.caller.clone(),
        path: request_target(recipe, args.list),
        gzip: args.gzip,
        wanted: Wanted { run: recipe.run, objects: recipe.objects(), list: args.list },
        gate: Barrier::new(threads as usize + 1),
        began_ns: OnceLock::new(),
        timeout: args.timeout,
        left: AtomicU64::new(u64::from(base.watchers)),
        refused: OnceLock::new(),
    };
    let mut links: Vec<Vec<Link>> = (0..threads).map(|_| Vec::new()).collect();
    for number in 0..connections {
        let (address, clients) = (target.address, streams.min(base.watchers - number * streams));
        let link = Link::connect(address, &speech, clients, &start.wanted).map_err(|fault| {
            format!("connect to {address}, {number} being open: {fault}; is the server up?")
        })?;
        links[(number % threads) as usize].push(link);
    }

    let rss_before = target.rss_of_now_on();
    let (server_before, own_before) = (target.server_cpu_ns(), client_cpu_ns([]));
    let shares: Vec<Result<Share, String>> = thread::scope(|scope| {
        let receive = |links| scope.spawn(|| receive(links, &start));
        let running: Vec<_> = links.into_iter().map(receive).collect();
        start.gate.wait();
        let joined = running.into_iter().map(|thread| thread.join());
        joined.map(|share| share.unwrap_or_else(|_| Err("a receiver panicked".to_owned()))).collect()
    });
    let window_ns = now_ns().saturating_sub(*start.began_ns.get_or_init(now_ns)).max(1) as f64;
    let (server_ns, own_ns) =
        (used(server_before, target.server_cpu_ns()), used(own_before, client_cpu_ns([])));
    target.keep_rss(rss_before, record);
    if let Some(why) = start.refused.into_inner() {
        return Err(why);
    }
    let mut all = Share::default();
    for share in shares {
        let share = share?;
        all.synced.add(&share.synced);
        all.found.add(&share.found);
    }
    let Share { synced, found } = all;
    let received = found.received;
    record.watchers = base.watchers;
    target.describe(record, recipe, base);
    record.tell("asked", if args.list { "LIST" } else { "WatchList" });
    record.set("objects", recipe.objects());
    record.set_latency(&synced);
    record.set_quantiles("synced", &synced);
    if !synced.is_empty() {
        record.set("first_synced_ns", synced.min());
        record.set("last_synced_ns", synced.max());
    }
    record.set("objects_per_second", received as f64 * 1e9 / window_ns);
    record.set("received_bytes_per_second", found.bytes as f64 * 1e9 / window_ns);
    record.set("server_cpu_ns", server_ns);
    let each = server_ns.filter(|_| received > 0).map(|ns| ns as f64 / received as f64);
    record.set("server_cpu_ns_per_object", each);
    record.set("client_cpu_share", own_ns.map(|ns| ns as f64 / window_ns));
    record.add(&found);
    record.judge(WRONG, "objects_received");
    Ok(())
}

/// A connection, and the clients that share it.
struct Link {
    socket: TcpStream,
    wire: Wire,
    clients: Vec<Stream>,
}

impl Link {
    /// Connects. With TLS the handshake is over then.
    fn connect(address: SocketAddr, speech: &Speech, clients: u32, wanted: &Wanted) -> io::Result<Self> {
        let (socket, mut wire) = (TcpStream::connect(address)?, Wire::new(speech)?);
        socket.set_nodelay(true)?;
        wire.send(&socket)?;
        while !wire.is_open() {
            let mut buffer = vec![0; READ_BYTES];
            let count = (&socket).read(&mut buffer)?;
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            wire.take(&buffer[..count], |_, _| {})?;
            wire.send(&socket)?;
        }
        Ok(Self { socket, wire, clients: (0..clients).map(|_| Stream::new(wanted)).collect() })
    }

    /// Sends the requests of all, and does not wait from then on.
    fn ask(&mut self, start: &Start) -> io::Result<()> {
        let Start { caller, path, gzip, .. } = start;
        let request = Request { caller, path, accept: JSON, gzip: *gzip };
        for (slot, _) in (0..).zip(&self.clients) {
            self.wire.ask(slot, &request, true);
        }
        self.wire.send(&self.socket)?;
        self.socket.set_nonblocking(true)
    }

    /// Reads once. False: nothing more comes.
    fn receive(&mut self, buffer: &mut [u8], start: &Start, known: &mut Known, share: &mut Share) -> bool {
        let (clients, wire) = (&mut self.clients, &mut self.wire);
        let began_ns = *start.began_ns.get_or_init(now_ns);
        let over = match self.socket.read(buffer) {
            Ok(0) => Some("the server closed the connection".to_owned()),
            Ok(count) => {
                share.found.bytes += count as u64;
                let taken = wire.take(&buffer[..count], |slot, brought| {
                    let client = &mut clients[slot as usize];
                    match client.take(brought, &start.wanted, known) {
                        Ok(false) => {}
                        Ok(true) => {
                            share.synced.record(now_ns().saturating_sub(began_ns));
                            start.left.fetch_sub(1, Ordering::AcqRel);
                        }
                        Err(status @ Refusal::Status(..)) => _ = refuse(start, &status.to_string()),
                        Err(Refusal::Broken(why)) => give_up(client, &why, start),
                    }
                });
                taken.and_then(|()| wire.send(&self.socket)).err().map(|fault| fault.to_string())
            }
            Err(fault) if matches!(fault.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => None,
            Err(fault) => Some(fault.to_string()),
        };
        if let Some(why) = &over {
            // A list's connection may be closed behind its end.
            clients.iter_mut().for_each(|client| give_up(client, why, start));
        }
        over.is_none()
    }
}

fn give_up(client: &mut Stream, why: &str, start: &Start) {
    start.left.fetch_sub(u64::from(client.give_up(why)), Ordering::AcqRel);
}

/// One thread: sends its requests when the gate opens, and reads until all clients of all threads are synced.
fn receive(mut links: Vec<Link>, start: &Start) -> Result<Share, String> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC);
    start.gate.wait();
    let poll = poll.map_err(|fault| format!("epoll_create: {fault}"))?;
    let began_ns = *start.began_ns.get_or_init(now_ns);
    let deadline_ns = began_ns.saturating_add(nanos(start.timeout));
    let mut share = Share::default();
    for (index, link) in links.iter_mut().enumerate() {
        link.ask(start).map_err(|fault| refuse(start, &fault.to_string()))?;
        epoll::add(&poll, &link.socket, EventData::new_u64(index as u64), EventFlags::IN)
            .map_err(|fault| refuse(start, &format!("epoll_ctl: {fault}")))?;
    }
    let mut buffer = vec![0; READ_BYTES];
    let mut known = Known::default();
    let mut events = Vec::with_capacity(EVENTS_MAX);
    while start.left.load(Ordering::Acquire) > 0 && now_ns() < deadline_ns && start.refused.get().is_none() {
        events.clear();
        match epoll::wait(&poll, spare_capacity(&mut events), Some(&timeout(5_000_000))) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(fault) => return Err(refuse(start, &format!("epoll_wait: {fault}"))),
        }
        for event in &events {
            let data = event.data;
            let link = usize::try_from(data.u64()).ok().and_then(|at| links.get_mut(at));
            let Some(link) = link else { continue };
            if !link.receive(&mut buffer, start, &mut known, &mut share) {
                let _gone = epoll::delete(&poll, &link.socket);
            }
        }
    }
    for client in links.iter_mut().flat_map(|link| &mut link.clients) {
        client.give_up("the time was up");
        share.found.add(&client.found);
    }
    Ok(share)
}

fn refuse(start: &Start, why: &str) -> String {
    start.refused.get_or_init(|| why.to_owned()).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_run_that_got_all_is_clean() {
        for wrong in ["missing", "duplicated", "unexpected", "malformed", "stale_marks", "unfinished"] {
            let mut record = Record::default();
            record.set("objects_received", 5);
            for count in [0, 1] {
                record.set(wrong, count);
                record.judge(WRONG, "objects_received");
                assert_eq!(record.clean, count == 0, "{wrong}");
            }
        }
    }
}
