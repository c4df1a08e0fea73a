//! A process that dies, or does not get ready, on each step of the way: whoever is left serves.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use revcast_tests::client::{Client, Watch};
use revcast_tests::etcd::{Control, Etcd, Options, Release};
use revcast_tests::port::Port;
use revcast_tests::server::{Server, command};
use rustix::net::sockopt::set_socket_reuseport;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::loops::{Loops, Way};
use super::raw::Raw;
use super::{WITHIN, serve};

const GRACE: Duration = Duration::from_secs(20);
const PATH: &str = "/api/v1/namespaces/a/configmaps";

fn put(control: &Control, name: &str) {
    let object =
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "namespace": "a"}});
    control.put(&format!("/registry/configmaps/a/{name}"), object.to_string()).unwrap();
}

/// A server with watches, and what writes to its etcd.
fn watched(grace: Duration, count: usize) -> (Etcd, Server, Vec<Watch>) {
    let etcd = Etcd::start(Release::V3_5, Options::default());
    let server = serve(&etcd, grace, &[]);
    let watches = (0..count).map(|_| server.client().watch(&format!("{PATH}?watch=1")).unwrap()).collect();
    server.wait_for_metric("revcast_watchers", count as u64);
    (etcd, server, watches)
}

/// A process of the test's own, and the lines of its log.
struct Started {
    child: Child,
    lines: Receiver<String>,
}

impl Started {
    /// One that takes over from a server.
    fn successor(endpoint: &str, address: &str, admin: &str) -> Self {
        let mut command: Command = command();
        command.args(["--take-over", "--listen", address, "--admin-listen", admin, "--shards", "1"]);
        command.args(["--etcd-endpoints", endpoint, "--drain-grace", "2s", "--allowed-hosts", "h,t,test"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                // The test may not want more.
                let _ = sender.send(line);
            }
        });
        Self { child, lines }
    }

    fn await_line(&self, part: &str) -> String {
        let deadline = Instant::now() + WITHIN;
        let mut others = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else { panic!("it never says {part}: {others:?}") };
            if line.contains(part) {
                return line;
            }
            others.push(line);
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Its exit code; `None`: a signal ended it.
    fn await_end(&mut self) -> Option<i32> {
        let deadline = Instant::now() + WITHIN;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Every watch gets what is written now, and new clients are served.
fn goes_on(control: &Control, server: &Server, watches: &mut [Watch], name: &str) {
    put(control, name);
    for watch in watches {
        assert_eq!(watch.next_event().1["metadata"]["name"], name);
    }
    eventually("it is ready", || server.client().get("/readyz").status == 200);
    let kept = server.client().connect().unwrap().request("GET", PATH, &[], &[]).unwrap();
    assert_eq!((kept.status, kept.header("connection")), (200, None), "it does not end");
    assert_eq!(server.admin_client().get("/readyz").status, 200);
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + WITHIN;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} never happened");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn one_that_never_gets_ready_disturbs_nobody() {
    let (etcd, server, mut watches) = watched(GRACE, 10);
    // Nobody has this address (RFC 5737).
    let mut new = Started::successor("http://192.0.2.1:2379", &server.address, &server.admin);
    new.await_line("taking over from process");
    std::thread::sleep(Duration::from_millis(500));
    goes_on(&etcd.control(), &server, &mut watches, "meanwhile");
    new.signal(Signal::TERM);
    assert_eq!(new.await_end(), Some(0), "it can be stopped");
    // One that is killed while it loads.
    let mut new = Started::successor(&etcd.endpoint(), &server.address, &server.admin);
    new.await_line("taking over from process");
    new.signal(Signal::KILL);
    assert_eq!(new.await_end(), None);
    goes_on(&etcd.control(), &server, &mut watches, "later");
    assert_eq!(server.metric("revcast_watchers_ended_total"), 0);
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn one_that_dies_with_the_listeners_gives_them_back() {
    let (etcd, server, mut watches) = watched(GRACE, 10);
    let loops = Loops::start(&Way::Http1(None), &server.address, 1);
    // Before it was ready.
    for _ in 0..3 {
        let raw = Raw::connect(&server.address);
        assert_eq!(
            raw.take_listeners(),
            2 * 4 + 1 + 1,
            "four a shard, one for operators, one for successors"
        );
        drop(raw);
        goes_on(&etcd.control(), &server, &mut watches, "before");
    }
    assert_eq!(server.metric("revcast_watchers_ended_total"), 0);
    // After that: the first watch has ended.
    let raw = Raw::connect(&server.address);
    raw.take_listeners();
    raw.say("ready");
    assert_eq!(raw.hear().0, "yours");
    assert!(watches[..].iter_mut().any(|watch| !watch.is_quiet_for(Duration::from_millis(200))), "it drains");
    drop(raw);
    eventually("it takes them back", || server.metric("revcast_watchers") > 5);
    let _ = loops.end();
    let (ended, open) = (server.metric("revcast_watchers_ended_total"), server.metric("revcast_watchers"));
    assert!((1..5).contains(&ended) && open + ended == 10, "{ended} ended, {open} are open");
    put(&etcd.control(), "after");
    let open = watches.iter_mut().filter_map(|watch| watch.next_line().ok().flatten()).count();
    assert!(open > 5, "{open} watches go on");
    assert_eq!(server.client().get("/readyz").status, 200);
    // And a real one takes over from it, after all.
    let new = super::succeed(&etcd, &server, GRACE, &[]);
    goes_on(&etcd.control(), &new, &mut [], "then");
}

#[test]
fn one_that_is_killed_after_it_took_over_gives_them_back() {
    let (etcd, server, watches) = watched(GRACE, 10);
    let mut new = Started::successor(&etcd.endpoint(), &server.address, &server.admin);
    new.await_line("took over from process");
    new.signal(Signal::KILL);
    new.await_end();
    eventually("it accepts again", || server.client().get("/readyz").status == 200);
    goes_on(&etcd.control(), &server, &mut [], "then");
    assert!(server.metric("revcast_watchers") > 5);
    assert_eq!(server.terminate(), Some(0));
    drop(watches);
}

#[test]
fn one_that_is_stopped_after_it_took_over_does_not() {
    let (etcd, mut server, watches) = watched(Duration::from_secs(3), 10);
    let mut new = Started::successor(&etcd.endpoint(), &server.address, &server.admin);
    new.await_line("took over from process");
    new.signal(Signal::TERM);
    assert_eq!(new.await_end(), Some(0));
    assert_eq!(server.await_end(WITHIN), 0, "it has handed over, and ends");
    // The rings of a process release its sockets a moment after it has ended.
    eventually("nobody listens", || server.client().connect().is_err());
    drop(watches);
}

#[test]
fn one_whose_predecessor_dies_starts_without_it() {
    let (etcd, server, _watches) = watched(GRACE, 1);
    let (address, admin) = (server.address.clone(), server.admin.clone());
    let new = Started::successor(&etcd.endpoint(), &address, &admin);
    new.await_line("taking over from process");
    server.kill();
    let line = new.await_line("starting without it");
    assert!(line.contains(" warn: "), "{line}");
    eventually("it serves", || Client::new(&address).get("/readyz").status == 200);
    assert_eq!(Client::new(&admin).get("/readyz").text(), "ok");
    new.signal(Signal::TERM);
}

/// Where a predecessor dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dies {
    /// When it is asked for its listeners.
    Before,
    /// When it has given some of them away.
    Between,
    /// When it has given them all away, and hears that they can be used.
    After,
}

/// A predecessor that does as a server does, until it dies.
struct Predecessor {
    successors: OwnedFd,
    clients: OwnedFd,
    address: String,
    port: Port,
}

impl Predecessor {
    fn start() -> Self {
        let clients = socket_with(
            AddressFamily::INET,
            SocketType::STREAM,
            SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        set_socket_reuseport(&clients, true).unwrap();
        let port = Port::free();
        let address = SocketAddr::from(([127, 0, 0, 1], port.number()));
        bind(&clients, &address).unwrap();
        listen(&clients, 8).unwrap();
        let address = address.to_string();
        let successors = Raw::listen_as(rustix::process::geteuid().as_raw(), &address);
        Self { successors, clients, address, port }
    }

    /// Hears "who", and answers it.
    fn hears_who(&self) -> Raw {
        let raw = Raw::accept(&self.successors);
        assert_eq!(raw.hear().0, "who");
        let process = json!({
            "process": std::process::id(), "version": "0.0.0", "store": {"etcd": "/registry"}, "cluster": 0, "revision": 0,
            "adminListen": null,
        });
        raw.answer(&json!({ "process": process }), &[]);
        raw
    }

    /// Gives its listeners to a successor, as far as it comes. What is left of it is its port.
    fn dies(self, when: Dies) -> Port {
        // It is looked for, and later taken over.
        assert_eq!(self.hears_who().hear().0, Value::Null);
        let raw = self.hears_who();
        assert_eq!(raw.hear().0, "listeners");
        if when != Dies::Before {
            let listeners = |kind: &str, more: bool| json!({"listeners": {"kind": kind, "more": more}});
            raw.answer(&listeners("takeOver", true), &[self.successors.as_fd()]);
            let is_between = when == Dies::Between;
            raw.answer(&listeners("public", is_between), &[self.clients.as_fd()]);
            if !is_between {
                assert_eq!(raw.hear().0, "ready");
            }
        }
        // A successor that hears of its end finds its names free.
        let Self { successors, clients, port, .. } = self;
        drop((successors, clients));
        drop(raw);
        port
    }
}

#[test]
fn one_whose_predecessor_dies_while_it_hands_over_serves() {
    let etcd = Etcd::start(Release::V3_5, Options::default());
    for when in [Dies::Before, Dies::Between, Dies::After] {
        let old = Predecessor::start();
        let address = old.address.clone();
        // A client that nobody has accepted yet.
        let mut waits = Client::new(&address).connect().unwrap();
        let mut new = Started::successor(&etcd.endpoint(), &address, "127.0.0.1:0");
        let _port = old.dies(when);
        if when == Dies::After {
            new.await_line("took over from process");
            assert_eq!(
                waits.request("GET", "/readyz", &[], &[]).unwrap().status,
                200,
                "nobody else can serve it"
            );
        } else {
            new.await_line("starting without it");
        }
        eventually("it serves", || Client::new(&address).get("/readyz").status == 200);
        // It can be taken over in turn.
        let raw = Raw::connect_to_coming(&address);
        raw.say("who");
        assert_eq!(raw.hear().0["process"]["process"], new.child.id(), "{when:?}");
        drop(raw);
        new.signal(Signal::TERM);
        assert_eq!(new.await_end(), Some(0), "{when:?}");
    }
}

#[test]
fn two_at_the_same_time_come_one_after_the_other() {
    let (etcd, mut server, mut watches) = watched(Duration::from_secs(2), 5);
    let loops = Loops::start(&Way::Http1(None), &server.address, 1);
    let start = || Started::successor(&etcd.endpoint(), &server.address, &server.admin);
    let mut both = [start(), start()];
    for new in &both {
        new.await_line("took over from process");
    }
    assert_eq!(server.await_end(WITHIN), 0);
    for watch in &mut watches {
        watch.rest();
    }
    // One of them has handed over to the other.
    let deadline = Instant::now() + WITHIN;
    let gone = loop {
        let gone = both.iter_mut().position(|new| new.child.try_wait().unwrap().is_some());
        if let Some(gone) = gone {
            break gone;
        }
        assert!(Instant::now() < deadline, "both go on");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(both[gone].await_end(), Some(0));
    let (requests, _) = loops.end();
    assert!(requests > 50, "{requests}");
    let stays = &mut both[1 - gone];
    assert!(stays.child.try_wait().unwrap().is_none());
    assert_eq!(server.client().get("/readyz").status, 200);
    stays.signal(Signal::TERM);
    assert_eq!(stays.await_end(), Some(0));
}
