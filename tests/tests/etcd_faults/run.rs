//! One run: an etcd, a server over it, all writers, watchers and readers, and the verdict at its end.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use revcast_tests::etcd::{Access, Account, Cluster, Control, Gateway, Options, Record, Release};
use revcast_tests::history::{self, Log, Seen, Violation, Watcher};
use revcast_tests::port::Port;
use revcast_tests::proxy::Proxy;
use revcast_tests::server::{Scratch, Server};
use revcast_tests::workload::probe::Probe;
use revcast_tests::workload::reader::Reader;
use revcast_tests::workload::recorder::Recorder;
use revcast_tests::workload::watchers::{Told, Watchers};
use revcast_tests::workload::writer::Writer;
use revcast_tests::workload::{MediaType, Workload};

/// Writes a second.
const RATE: u64 = 200;
const WATCHERS: usize = 200;
/// A watcher changes the server by itself after this time at most.
const LIFE: Duration = Duration::from_secs(9);
/// `--etcd-stale-limit`
pub(crate) const STALE_LIMIT: Duration = Duration::from_secs(2);
/// How long after an outage the server may take to be ready: the longest pause between two attempts is 5 s, an attempt
/// to connect takes up to 3 s, and a proof is requested every second.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(15);
/// How long until every watcher has all writes.
const EVEN_WITHIN: Duration = Duration::from_secs(30);
const ROOT: (&str, &str) = ("root", "secret");
/// Names the form in which objects are stored.
const STORAGE: &str = "REVCAST_STORAGE_MEDIA_TYPE";

/// What the watchers of a run may receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// No stream ends, and none gets 410.
    StaysOpen,
    /// Every watcher gets 410, exactly this many times.
    Expires(u64),
    /// Streams break, and a watcher that comes back too late gets 410.
    Breaks,
    /// Streams break, and every watcher resumes: none gets 410.
    Resumes,
}

/// The setup of a run.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) release: Release,
    pub(crate) members: usize,
    pub(crate) options: Options,
    /// Whether a proxy is between etcd and the server.
    pub(crate) proxied: bool,
    /// Authentication is required; the server's user may use the keys of this prefix.
    pub(crate) login: Option<&'static str>,
    /// `--etcd-watch`
    pub(crate) watch: &'static str,
    /// `--warm-start`
    pub(crate) start: &'static str,
    /// History is compacted every second of the run, except for the newest so many revisions.
    pub(crate) compacts: Option<u64>,
}

impl Setup {
    pub(crate) fn one(release: Release) -> Self {
        let options = Options::default();
        Self {
            release,
            members: 1,
            options,
            proxied: false,
            login: None,
            watch: "auto",
            start: "full",
            compacts: None,
        }
    }
}

/// A run under way.
pub(crate) struct Run {
    name: &'static str,
    seed: u64,
    began: Instant,
    workload: Arc<Workload>,
    login: bool,
    compacts: Option<u64>,
    /// How often history was compacted, and up to which revision.
    compactions: u64,
    compacted: u64,
    watchers: Option<Watchers>,
    writer: Writer,
    reader: Reader,
    pub(crate) probe: Probe,
    recorder: Option<Recorder>,
    /// Of finished epochs.
    logs: Vec<Log>,
    /// How long it took to be ready again after each outage, and until every watcher had everything.
    returns: Vec<(Duration, Duration)>,
    server: Option<Server>,
    arguments: Vec<String>,
    _password: Option<Scratch>,
    pub(crate) proxy: Option<Proxy>,
    pub(crate) cluster: Cluster,
    /// The server's port, so that it can come back there.
    _port: Port,
}

/// How often a fault is made in a run.
pub(crate) fn rounds() -> u64 {
    if is_long() { 4 } else { 1 }
}

/// How long writes and watches continue before a fault, and between two.
pub(crate) fn calm_time() -> Duration {
    if is_long() { Duration::from_secs(5) } else { Duration::from_millis(1_200) }
}

fn is_long() -> bool {
    match std::env::var("REVCAST_FAULTS").as_deref() {
        Ok("long") => true,
        Ok("short") | Err(_) => false,
        Ok(other) => panic!("REVCAST_FAULTS={other}: no such size; write short or long"),
    }
}

impl Run {
    /// Starts everything, and waits until all watchers have a watch.
    pub(crate) fn start(name: &'static str, setup: Setup) -> Self {
        let seed =
            ["REVCAST_FAULTS_SEED", "REVCAST_SIM_BASE"].iter().find_map(|name| std::env::var(name).ok());
        let seed = seed.map_or(1, |text| text.parse().expect("a seed is a number"));
        let Setup { release, members, options, proxied, login, watch, start, compacts } = setup;
        let cluster = Cluster::start_with(release, members, options);
        let proxy = proxied.then(|| Proxy::start(&cluster.address(0)));
        let endpoints =
            proxy.as_ref().map_or_else(|| cluster.endpoints(), |proxy| format!("http://{}", proxy.address()));
        let port = Port::free();
        let media_type = media_type(name, release, seed);
        let mut arguments: Vec<String> = [
            "--listen",
            &format!("127.0.0.1:{}", port.number()),
            "--etcd-endpoints",
            &endpoints,
            "--etcd-stale-limit",
            "2s",
            "--etcd-watch",
            watch,
            "--warm-start",
            start,
            "--storage-media-type",
            media_type.text(),
            "--bookmark-interval",
            "1s",
            "--log-level",
            "error",
        ]
        .map(str::to_owned)
        .to_vec();
        let password = login.map(|prefix| {
            let (name, password) = ("server", "s3cret");
            let account = Account { name, password, grants: &[(Access::ReadWrite, prefix)] };
            cluster.control().auth_enable(ROOT.1, &[account]).expect("users are asked for");
            let scratch = Scratch::new(&format!("faults-{name}-{}", release.text()));
            let file = format!("{}/password", scratch.path());
            std::fs::write(&file, password).unwrap();
            arguments.extend(["--etcd-user", name, "--etcd-password-file", &file].map(str::to_owned));
            scratch
        });
        let login = login.is_some();
        let server = serve(&arguments);
        let workload = Arc::new(Workload::new(vec![server.address.clone()]).storing(media_type));
        let gateway = || gateway(&cluster, login);
        let recorder = Recorder::start(gateway(), Vec::new());
        let writer = Writer::start(&workload, gateway(), RATE, seed);
        let reader = Reader::start(&workload, gateway(), seed.wrapping_add(1));
        let probe = Probe::start(&workload);
        let watchers = Watchers::start(&workload, WATCHERS, LIFE, seed.wrapping_add(2));
        let run = Self {
            name,
            seed,
            began: Instant::now(),
            workload,
            login,
            compacts,
            compactions: 0,
            compacted: 0,
            watchers: Some(watchers),
            writer,
            reader,
            probe,
            recorder: Some(recorder),
            logs: Vec::new(),
            returns: Vec::new(),
            server: Some(server),
            arguments,
            _password: password,
            proxy,
            cluster,
            _port: port,
        };
        // They have a list, and a stream after it.
        run.demand(run.watchers().await_all(0, 1, EVEN_WITHIN));
        run
    }

    /// Directly to etcd.
    pub(crate) fn gateway(&self) -> Gateway {
        gateway(&self.cluster, self.login)
    }

    /// etcdctl, as a user that may do everything.
    pub(crate) fn control(&self) -> Control {
        let control = self.cluster.control();
        if self.login { control.as_user(ROOT.0, ROOT.1) } else { control }
    }

    /// The proxy in between.
    pub(crate) fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().expect("a run with a proxy")
    }

    /// Lets it continue.
    pub(crate) fn go_on(&mut self, time: Duration) {
        const SECOND: Duration = Duration::from_secs(1);
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if self.compacts.is_none() || left < SECOND {
                std::thread::sleep(left);
                return;
            }
            std::thread::sleep(SECOND);
            self.compact();
        }
    }

    /// Compacts etcd's history, as far as this run compacts it: by default all up to the newest revision.
    pub(crate) fn compact(&mut self) {
        let mut gateway = self.gateway();
        let newest = gateway.revision().expect("etcd answers");
        let upto = newest.saturating_sub(self.compacts.unwrap_or(0));
        // What is compacted already is refused.
        if upto <= self.compacted {
            return;
        }
        // But the log must not lose it.
        self.recorded(newest);
        self.recorder.as_ref().expect("there is a log").forgets(upto);
        gateway.compact(upto).expect("etcd compacts");
        (self.compacted, self.compactions) = (upto, self.compactions + 1);
    }

    /// Waits until every watcher has all current writes.
    pub(crate) fn await_even(&self) {
        let newest = eventually("etcd tells its revision", || self.gateway().revision());
        self.demand(self.watchers().await_all(self.workload.epoch(), newest, EVEN_WITHIN));
    }

    /// etcd was away from `gone` to `back`, as seen by the server: its readiness followed in time, both ways.
    pub(crate) fn outage(&mut self, gone: Instant, back: Instant) {
        // Its proof is a second old at most, and then the limit passes; until then it may report that it is ready.
        let limit = gone + STALE_LIMIT + Duration::from_millis(1_500);
        assert!(limit < back, "the outage is too short to show anything");
        self.demand(self.probe.never_ready(limit, back));
        self.back(back);
    }

    /// The server is ready in time after a fault.
    pub(crate) fn back(&mut self, back: Instant) {
        self.demand(self.probe.await_ready(back, READY_WITHIN));
        self.await_even();
        self.writer.slow(false);
        // It may have changed again: the last state counts.
        let ready = self.probe.ready_since(back);
        assert!(ready <= READY_WITHIN, "ready for good after {ready:?} only\n{}", self.replay());
        self.returns.push((ready, back.elapsed()));
    }

    /// Without writes while this is done, and with the log complete up to the revision that it is passed.
    pub(crate) fn at_rest<T>(&mut self, what: impl FnOnce(&mut Self, u64) -> T) -> T {
        let workload = Arc::clone(&self.workload);
        let pens = workload.pause_writes();
        let newest = eventually("etcd tells its revision", || self.gateway().revision());
        self.recorded(newest);
        let done = what(self, newest);
        drop(pens);
        done
    }

    /// Waits until the log has a revision.
    pub(crate) fn recorded(&self, revision: u64) {
        let recorder = self.recorder.as_ref().expect("there is a log");
        self.demand(recorder.until(revision, Duration::from_secs(20)));
    }

    /// Ends etcd, and with it its history: `renew` begins another one, with the state up to `kept`.
    pub(crate) fn break_line(&mut self, kept: u64, renew: impl FnOnce(&mut Cluster)) -> Instant {
        self.writer.slow(true);
        let (gone, records) = self.at_rest(|run, _| {
            let records: Vec<Record> = run.recorder.as_ref().expect("a log").records(kept);
            run.cluster.kill(0);
            run.workload.begin_epoch();
            (Instant::now(), records)
        });
        // From here on writers find no etcd.
        self.logs.push(self.recorder.take().expect("a log").into_log());
        renew(&mut self.cluster);
        self.compacted = 0;
        self.recorder = Some(Recorder::start(self.gateway(), records));
        gone
    }

    /// Waits until a new history is past a revision of the old one.
    pub(crate) fn overtake(&self, revision: u64) {
        self.writer.slow(false);
        eventually("the new line is past the old one", || match self.gateway().revision()? {
            newest if newest > revision + 20 => Ok(()),
            newest => Err(format!("{newest} of {revision}")),
        });
    }

    /// Kills a member: in the middle of its writes, unless it is an etcd that then loses or repeats a write that it has
    /// already sent (3.5.1 does, etcd #13766): that one is killed as soon as the last write is in its file.
    pub(crate) fn kill(&mut self, member: usize) {
        // etcd writes its file every 100 ms.
        const BATCH: Duration = Duration::from_millis(300);
        match self.cluster.release() {
            Release::V3_4 => self.cluster.kill(member),
            Release::V3_5 => self.at_rest(|run, _| {
                std::thread::sleep(BATCH);
                run.cluster.kill(member);
            }),
        }
    }

    /// Ends the server at once, and starts it again at the same address. History is compacted while it starts, too.
    pub(crate) fn restart_server(&mut self, away: Duration) {
        self.server.take().expect("it runs").kill();
        self.go_on(away);
        let server = Server::start_unready(&self.arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let began = Instant::now();
        while server.client().get("/readyz").status != 200 {
            assert!(began.elapsed() < READY_WITHIN, "it does not become ready\n{}", self.replay());
            if self.compacts.is_some() {
                self.compact();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.server = Some(server);
    }

    /// Writes that a server acknowledged so far.
    pub(crate) fn written_through_server(&self) -> u64 {
        self.reader.reads().through_server
    }

    fn watchers(&self) -> &Watchers {
        self.watchers.as_ref().expect("they watch")
    }

    #[track_caller]
    fn demand<T>(&self, result: Result<T, String>) -> T {
        result.unwrap_or_else(|problem| {
            panic!("{problem}\n{}\n{}", self.workload.problems().join("\n"), self.replay())
        })
    }

    fn replay(&self) -> String {
        let release = self.cluster.release().text().replace('.', "_");
        format!(
            "again: REVCAST_FAULTS_SEED={} {STORAGE}={} cargo test -p revcast-tests --test etcd_faults etcd_{release}::{} -- --exact",
            self.seed,
            self.workload.media_type().text(),
            self.name
        )
    }

    /// Checks everything.
    pub(crate) fn finish(mut self, promise: Promise) {
        self.writer.rest();
        let goal = eventually("etcd tells its revision", || self.gateway().revision());
        self.watchers().calm();
        self.demand(self.watchers().await_all(self.workload.epoch(), goal, EVEN_WITHIN));
        let epoch = self.workload.epoch();
        self.workload.end();
        let replay = self.replay();
        let (reads, written) = (self.reader.reads(), self.writer.written());
        let mut told = self.watchers.take().expect("they watch").finish();
        // Nothing that was received is newer.
        let last = eventually("etcd tells its revision", || gateway(&self.cluster, self.login).revision());
        let recorder = self.recorder.take().expect("a log");
        recorder.until(last, Duration::from_secs(20)).unwrap();
        self.logs.push(recorder.into_log());
        for one in &mut told {
            let segment = one.segments.last_mut().expect("it listed");
            assert_eq!(segment.epoch, epoch, "watcher {}", one.name);
            segment.reached = Some(goal);
        }

        let violations = judge(&self.logs, &told);
        let problems = self.workload.problems().join("\n");
        assert!(violations.is_empty() && problems.is_empty(), "{}\n{problems}\n{replay}", shown(&violations));
        notices_a_lie(&self.logs, &told);
        keeps(promise, &told, &replay);
        assert!(self.compacts.is_none() || self.compactions > 0, "history was never forgotten");
        let counts =
            told.iter().fold(Default::default(), |all: revcast_tests::workload::watchers::Counts, one| {
                all.plus(one.counts)
            });
        assert!(
            counts.events > 5_000 && counts.bookmarks > 200 && counts.resumes > 50,
            "{counts:?}\n{replay}"
        );
        let of = |accepts: MediaType| -> u64 {
            told.iter().filter(|one| one.accepts == accepts).map(|one| one.counts.events).sum()
        };
        let stored = self.workload.media_type();
        let packed = if stored == MediaType::Protobuf { of(stored) } else { 0 };
        assert!(stored == MediaType::Json || packed * 4 > counts.events, "{packed} of {counts:?}\n{replay}");
        assert!(
            reads.confirmed > 20 && reads.through_server > 10 && reads.direct > 10,
            "{reads:?}\n{replay}"
        );
        static TOTAL: AtomicU64 = AtomicU64::new(0);
        let total = TOTAL.fetch_add(counts.events, Ordering::SeqCst) + counts.events;
        let returns: Vec<String> = self
            .returns
            .iter()
            .map(|(ready, even)| format!("{:.1}/{:.1}", ready.as_secs_f64(), even.as_secs_f64()))
            .collect();
        let line = format!(
            "faults: etcd {} {} on {}: {} deliveries checked ({packed} in protobuf) of {written} writes; {} bookmarks, {} lists, {} resumes, {} told \
             410, {} refused; {} compactions; {} reads saw their write, {} had no answer; ready/even again after [{}] s; seed {}; {:.0} s; \
             {total} deliveries so far\n",
            self.cluster.release().text(),
            self.name,
            stored.text(),
            counts.events,
            counts.bookmarks,
            counts.lists,
            counts.resumes,
            counts.expired,
            counts.refused + counts.late,
            self.compactions,
            reads.confirmed,
            reads.unanswered,
            returns.join(", "),
            self.seed,
            self.began.elapsed().as_secs_f64(),
        );
        // Not captured by the test harness. The reader may have ended.
        let _ = std::io::stdout().lock().write_all(line.as_bytes());
    }
}

/// The form of a run's objects: the one that is told. Otherwise each fault has one on the one etcd and the other on the other,
/// and the next seed swaps them.
fn media_type(name: &str, release: Release, seed: u64) -> MediaType {
    match std::env::var(STORAGE).as_deref() {
        Ok("json") => MediaType::Json,
        Ok("protobuf") => MediaType::Protobuf,
        Ok(other) => panic!("{STORAGE}={other}: no such form; write json or protobuf"),
        Err(_) => {
            let letters: u64 = name.bytes().map(u64::from).sum();
            let turn = seed.wrapping_add(letters).wrapping_add(u64::from(release == Release::V3_5));
            if turn.is_multiple_of(2) { MediaType::Json } else { MediaType::Protobuf }
        }
    }
}

fn serve(arguments: &[String]) -> Server {
    Server::start(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

fn gateway(cluster: &Cluster, login: bool) -> Gateway {
    let gateway = Gateway::new(&cluster.endpoints());
    if login { gateway.as_user(ROOT.0, ROOT.1) } else { gateway }
}

/// Retries until it succeeds.
pub(crate) fn eventually<T>(what: &str, attempt: impl Fn() -> Result<T, String>) -> T {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match attempt() {
            Ok(value) => return value,
            Err(problem) => assert!(Instant::now() < deadline, "{what}: {problem}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Every violation of every watcher, found by two threads.
fn judge(logs: &[Log], told: &[Told]) -> Vec<Violation> {
    let of = |told: &[Told]| told.iter().flat_map(|one| breaches(logs, one)).collect::<Vec<_>>();
    let (one, other) = told.split_at(told.len() / 2);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| of(one));
        let mut found = of(other);
        found.extend(thread.join().expect("they are judged"));
        found
    })
}

fn breaches(logs: &[Log], told: &Told) -> Vec<Violation> {
    let scope = told.scope.clone();
    let wants = move |key: &str, form: &[u8]| scope.wants(key, form);
    let keys = told.scope.keys().to_owned();
    let watcher = Watcher { name: told.name.clone(), keys, wants: &wants, segments: told.segments.clone() };
    history::check(logs, &[watcher])
}

/// With one event missing, it is found.
fn notices_a_lie(logs: &[Log], told: &[Told]) {
    let most = told.iter().max_by_key(|one| one.counts.events).expect("watchers");
    let mut lie =
        Told { name: most.name.clone(), scope: most.scope.clone(), segments: most.segments.clone(), ..*most };
    let seen = &mut lie.segments.last_mut().expect("it listed").seen;
    let event = seen.iter().position(|seen| matches!(seen, Seen::Event(..))).expect("it was told something");
    seen.remove(event);
    assert!(!breaches(logs, &lie).is_empty(), "a missing event is not noticed");
}

fn shown(violations: &[Violation]) -> String {
    let lines: Vec<String> = violations.iter().take(12).map(Violation::to_string).collect();
    format!("{} violations:\n{}", violations.len(), lines.join("\n"))
}

fn keeps(promise: Promise, told: &[Told], replay: &str) {
    for Told { name, counts, .. } in told {
        match promise {
            Promise::StaysOpen => {
                assert_eq!((counts.expired, counts.lost), (0, 0), "watcher {name}: {counts:?}\n{replay}");
            }
            Promise::Expires(times) => {
                assert_eq!((counts.expired, counts.lost), (times, 0), "watcher {name}: {counts:?}\n{replay}");
            }
            Promise::Resumes => assert_eq!(counts.expired, 0, "watcher {name}: {counts:?}\n{replay}"),
            Promise::Breaks => {}
        }
    }
    if matches!(promise, Promise::Breaks | Promise::Resumes) {
        let lost: u64 = told.iter().map(|one| one.counts.lost).sum();
        assert!(lost > 0, "no stream broke\n{replay}");
    }
}
