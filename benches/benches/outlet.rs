//! Ways to send one frame to many sockets: `send(2)`, gathered pieces, an io_uring in batches; and runs of frames.
//!
//! Not criterion: a way is measured by whole passes over all sockets, with the clock of the sender's CPU time, and the
//! ways take turns round by round, so that a noisy minute hits all of them. Sockets are TCP over loopback with no
//! delay, as the server's; a thread on another core drains them by epoll, as clients would.
//!
//! ```text
//! cargo bench -p revcast-benches --bench outlet -- [--sockets N] [--rounds N] [--deliveries N]
//!                                                   [--reader-core N] [--reader-spins]
//! ```
//!
//! What loopback adds: the packet is received in the softirq of the sender's CPU, within the system call that sends
//! it. The sender's figure so holds the receiver's TCP and the wake-up of the reader, and differences between ways are a
//! smaller part of it than they are of what a network card would leave. A kernel that accounts interrupts on their own
//! (`CONFIG_IRQ_TIME_ACCOUNTING`) leaves the softirq out of the CPU time, but not of the wall time.

use std::fmt;
use std::io::{self, IoSlice, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use revcast_perf::ring::{Piece, Ring, Setup};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Bytes of a frame, with its chunk's size line and end.
const FRAME_BYTES: usize = 1200;
/// Frames in a run.
const RUN: usize = 4;
/// Descriptors for all but the sockets.
const DESCRIPTORS_BESIDES: u64 = 64;
/// The sender's core; the reader's is an option.
const SENDER_CORE: usize = 0;
const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// A way to deliver. The last three deliver a run of [`RUN`] frames, the others one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Send,
    Sendmsg,
    Writev,
    Ring(Setup),
    RunJoined,
    RunWritev,
    RunSends,
}

impl Way {
    const ALL: [Self; 10] = [
        Self::Send,
        Self::Sendmsg,
        Self::Writev,
        Self::Ring(Setup::Plain),
        Self::Ring(Setup::Cooperative),
        Self::Ring(Setup::Deferred),
        Self::Ring(Setup::DeferredRegistered),
        Self::RunJoined,
        Self::RunWritev,
        Self::RunSends,
    ];

    /// What its figures are compared with.
    const fn rival(self) -> Self {
        match self {
            Self::Send | Self::Sendmsg | Self::Writev | Self::Ring(_) => Self::Send,
            Self::RunJoined | Self::RunWritev | Self::RunSends => Self::RunJoined,
        }
    }

    const fn frames(self) -> usize {
        match self {
            Self::Send | Self::Sendmsg | Self::Writev | Self::Ring(_) => 1,
            Self::RunJoined | Self::RunWritev | Self::RunSends => RUN,
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send => "`send`",
            Self::Sendmsg => "`sendmsg`, 3 pieces",
            Self::Writev => "`writev`, 3 pieces",
            Self::Ring(Setup::Plain) => "io_uring, 64 a batch",
            Self::Ring(Setup::Cooperative) => "io_uring, COOP_TASKRUN",
            Self::Ring(Setup::Deferred) => "io_uring, SINGLE_ISSUER and DEFER_TASKRUN",
            Self::Ring(Setup::DeferredRegistered) => "the same, registered files",
            Self::RunJoined => "4 frames: one `send`, joined before",
            Self::RunWritev => "4 frames: one `writev`",
            Self::RunSends => "4 frames: four `send`s",
        })
    }
}

/// One frame, whole and in the pieces it is made of. Never freed: the kernel may read it at any time.
#[derive(Clone, Copy)]
struct Frame {
    whole: &'static [u8],
    run: &'static [u8],
    head: &'static [u8],
    object: &'static [u8],
    tail: &'static [u8],
}

impl Frame {
    fn new() -> Self {
        const ENVELOPE: &str = r#"{"type":"MODIFIED","object":"#;
        const TAIL: &str = "}\n\r\n";
        const OPENING: &str = r#"{"kind":"Pod","apiVersion":"v1","padding":""#;
        const CLOSING: &str = r#""}"#;
        // Three hex digits and a line end in front; the chunk's own line end is not of its size.
        let chunk = FRAME_BYTES - 5 - 2;
        let head = format!("{chunk:03x}\r\n{ENVELOPE}");
        let padding = FRAME_BYTES - head.len() - OPENING.len() - CLOSING.len() - TAIL.len();
        let whole = format!("{head}{OPENING}{}{CLOSING}{TAIL}", "x".repeat(padding));
        assert_eq!(whole.len(), FRAME_BYTES, "a frame's pieces make a frame");
        let run: &'static [u8] = whole.repeat(RUN).into_bytes().leak();
        let whole: &'static [u8] = whole.into_bytes().leak();
        let (front, tail) = whole.split_at(whole.len() - TAIL.len());
        let (head, object) = front.split_at(head.len());
        Self { whole, run, head, object, tail }
    }
}

/// One frame to each socket, in batches.
fn deliver(ring: &mut Ring, sockets: &[TcpStream], bytes: &'static [u8]) -> io::Result<()> {
    let piece = |at: usize| Piece {
        place: u32::try_from(at).expect("fewer sockets than 2^32"),
        descriptor: sockets[at].as_raw_fd(),
        bytes,
    };
    let mut outcome = Ok(());
    ring.send_each(sockets.len(), FLAGS, piece, |_, taken| {
        if let Err(error) = taken.map_err(io::Error::from).and_then(|taken| took_all(taken, bytes.len())) {
            outcome = Err(error);
        }
    });
    outcome
}

/// A delivery that a socket takes in part would be measured as a whole one.
fn took_all(taken: usize, length: usize) -> io::Result<()> {
    if taken == length { Ok(()) } else { Err(io::Error::other("a socket is full: the reader is too slow")) }
}

/// The sending half: sockets, and what is sent.
struct Sender {
    sockets: Vec<TcpStream>,
    frame: Frame,
    rings: Vec<(Setup, Ring)>,
}

impl Sender {
    /// One delivery to each socket.
    fn pass(&mut self, way: Way) -> io::Result<()> {
        let Frame { whole, run, head, object, tail } = self.frame;
        match way {
            Way::Send => {
                self.sockets.iter().try_for_each(|socket| took_all(send(socket, whole, FLAGS)?, whole.len()))
            }
            Way::Sendmsg => self.sockets.iter().try_for_each(|socket| {
                let pieces = [IoSlice::new(head), IoSlice::new(object), IoSlice::new(tail)];
                let taken = sendmsg(socket, &pieces, &mut SendAncillaryBuffer::default(), FLAGS)?;
                took_all(taken, whole.len())
            }),
            Way::Writev => self.sockets.iter().try_for_each(|socket| {
                let pieces = [IoSlice::new(head), IoSlice::new(object), IoSlice::new(tail)];
                took_all(rustix::io::writev(socket, &pieces)?, whole.len())
            }),
            Way::Ring(setup) => {
                let (_, ring) = self
                    .rings
                    .iter_mut()
                    .find(|(made, _)| *made == setup)
                    .expect("only ways that work are run");
                deliver(ring, &self.sockets, whole)
            }
            Way::RunJoined => {
                self.sockets.iter().try_for_each(|socket| took_all(send(socket, run, FLAGS)?, run.len()))
            }
            Way::RunWritev => self.sockets.iter().try_for_each(|socket| {
                took_all(rustix::io::writev(socket, &[IoSlice::new(whole); RUN])?, run.len())
            }),
            Way::RunSends => self.sockets.iter().try_for_each(|socket| {
                (0..RUN).try_for_each(|_| took_all(send(socket, whole, FLAGS)?, whole.len()))
            }),
        }
    }

    fn pass_bytes(&self, way: Way) -> u64 {
        (self.sockets.len() * way.frames() * FRAME_BYTES) as u64
    }
}

/// What the reader reports to the sender.
#[derive(Default)]
struct Told {
    bytes: AtomicU64,
    cpu_ns: AtomicU64,
    stop: AtomicBool,
}

/// The reading half: a thread that drains all sockets.
struct Reader {
    told: Arc<Told>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Reader {
    fn start(sockets: Vec<TcpStream>, core: usize, spins: bool) -> Self {
        let told = Arc::new(Told::default());
        let theirs = Arc::clone(&told);
        let thread = thread::spawn(move || {
            pin(core)?;
            drain(&sockets, spins, &theirs)
        });
        Self { told, thread: Some(thread) }
    }

    /// Waits until `bytes` were read since the start. Yields rather than sleeps: the sender's core stays warm, and a
    /// reader on the same core gets on.
    fn wait_for(&mut self, bytes: u64) -> io::Result<()> {
        while self.told.bytes.load(Ordering::Acquire) < bytes {
            if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
                self.stop()?;
                return Err(io::Error::other("the reader ended early"));
            }
            thread::yield_now();
        }
        Ok(())
    }

    fn stop(&mut self) -> io::Result<()> {
        self.told.stop.store(true, Ordering::Relaxed);
        self.thread.take().map_or(Ok(()), |thread| thread.join().expect("the reader does not panic"))
    }
}

/// Reads everything until it is stopped.
fn drain(sockets: &[TcpStream], spins: bool, told: &Told) -> io::Result<()> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (place, socket) in sockets.iter().enumerate() {
        epoll::add(&epoll, socket, epoll::EventData::new_u64(place as u64), epoll::EventFlags::IN)?;
    }
    // Long enough to cost nothing, short enough to hear of the end.
    let patience = Timespec { tv_sec: 0, tv_nsec: if spins { 0 } else { 50_000_000 } };
    let mut events = Vec::with_capacity(256);
    let mut buffer = vec![0; 64 * 1024];
    while !told.stop.load(Ordering::Relaxed) {
        events.clear();
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&patience)) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let mut bytes = 0;
        for event in &events {
            let place = usize::try_from(event.data.u64()).expect("it was a place");
            bytes += rustix::io::read(&sockets[place], &mut buffer)? as u64;
        }
        if bytes > 0 {
            told.cpu_ns.store(cpu_ns(), Ordering::Relaxed);
            told.bytes.fetch_add(bytes, Ordering::Release);
        }
    }
    Ok(())
}

/// What one round of one way cost, in nanoseconds a delivery.
#[derive(Clone, Copy)]
struct Cost {
    cpu: f64,
    wall: f64,
    reader_cpu: f64,
}

/// CPU time of the calling thread.
fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(now.tv_sec * 1_000_000_000 + now.tv_nsec).expect("CPU time is not negative")
}

fn pin(core: usize) -> io::Result<()> {
    let mut only = CpuSet::new();
    only.set(core);
    sched_setaffinity(None, &only)
        .map_err(|error| io::Error::other(format!("core {core} is not ours ({error}): see --reader-core")))
}

/// `passes` deliveries to every socket, each pass after the previous one was read.
fn round(sender: &mut Sender, reader: &mut Reader, way: Way, passes: usize) -> io::Result<Cost> {
    let bytes = sender.pass_bytes(way);
    let reader_before = reader.told.cpu_ns.load(Ordering::Relaxed);
    let (mut cpu, mut wall) = (0, 0);
    for _ in 0..passes {
        let due = reader.told.bytes.load(Ordering::Acquire) + bytes;
        let (cpu_before, began) = (cpu_ns(), Instant::now());
        sender.pass(way)?;
        wall += began.elapsed().as_nanos();
        cpu += cpu_ns() - cpu_before;
        reader.wait_for(due)?;
    }
    let reader_cpu = reader.told.cpu_ns.load(Ordering::Relaxed) - reader_before;
    let deliveries = (passes * sender.sockets.len()) as f64;
    Ok(Cost {
        cpu: cpu as f64 / deliveries,
        wall: wall as f64 / deliveries,
        reader_cpu: reader_cpu as f64 / deliveries,
    })
}

/// The middle of some figures, and their ends.
struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

impl Spread {
    fn of(figures: impl Iterator<Item = f64>) -> Self {
        let mut figures: Vec<f64> = figures.collect();
        figures.sort_by(f64::total_cmp);
        Self { least: figures[0], median: figures[figures.len() / 2], most: figures[figures.len() - 1] }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2}..{:.2})", self.median, self.least, self.most)
    }
}

/// What is asked for on the command line.
struct Options {
    sockets: usize,
    rounds: usize,
    /// Deliveries a round and way, about.
    deliveries: usize,
    reader_core: usize,
    reader_spins: bool,
    /// Only to see that everything runs.
    trial: bool,
}

impl Options {
    /// Cargo passes the arguments of `cargo bench -- ...` to every bench: those for criterion are printed and ignored.
    fn parse(words: impl Iterator<Item = String>) -> io::Result<Self> {
        let words: Vec<String> = words.collect();
        let has = |word: &str| words.iter().any(|each| each == word);
        let trial = has("--test") || !has("--bench");
        let (sockets, rounds, deliveries) = if trial { (64, 1, 64) } else { (1000, 31, 10_000) };
        let mut options = Self { sockets, rounds, deliveries, reader_core: 1, reader_spins: false, trial };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (number, least) = match word.as_str() {
                "--sockets" => (&mut options.sockets, 1),
                "--rounds" => (&mut options.rounds, 1),
                "--deliveries" => (&mut options.deliveries, 1),
                "--reader-core" => (&mut options.reader_core, 0),
                "--reader-spins" => {
                    options.reader_spins = true;
                    continue;
                }
                "--bench" | "--test" => continue,
                other => {
                    writeln!(io::stderr(), "outlet: {other} is not an option of this bench: passed over")?;
                    continue;
                }
            };
            *number =
                words.next().and_then(|text| text.parse().ok()).filter(|given| *given >= least).ok_or_else(
                    || {
                        io::Error::new(
                            io::ErrorKind::InvalidInput,
                            format!("{word} wants a number from {least} on"),
                        )
                    },
                )?;
        }
        Ok(options)
    }
}

/// Makes room for both ends of `sockets` connections, as far as the hard limit allows.
fn allow_descriptors(sockets: usize) -> io::Result<()> {
    let wanted = 2 * sockets as u64 + DESCRIPTORS_BESIDES;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|limit| limit >= wanted) {
        return Ok(());
    }
    if let Some(limit) = maximum.filter(|limit| *limit < wanted) {
        let most = limit.saturating_sub(DESCRIPTORS_BESIDES) / 2;
        return Err(io::Error::other(format!("{limit} descriptors allow no more than --sockets {most}")));
    }
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })?)
}

/// `count` connections: the ends that send, and those that read.
fn connect(count: usize) -> io::Result<(Vec<TcpStream>, Vec<TcpStream>)> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    let (mut senders, mut readers) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for _ in 0..count {
        let reader = TcpStream::connect(address)?;
        let (sender, _) = listener.accept()?;
        sender.set_nodelay(true)?;
        sender.set_nonblocking(true)?;
        reader.set_nonblocking(true)?;
        senders.push(sender);
        readers.push(reader);
    }
    Ok((senders, readers))
}

/// The kinds of rings that this kernel supports; prints those that it does not.
fn rings(sockets: &[TcpStream]) -> io::Result<Vec<(Setup, Ring)>> {
    let descriptors: Vec<RawFd> = sockets.iter().map(AsRawFd::as_raw_fd).collect();
    let mut made = Vec::new();
    for way in Way::ALL {
        let Way::Ring(setup) = way else { continue };
        match Ring::with(setup, &descriptors) {
            Ok(ring) => made.push((setup, ring)),
            Err(error) => writeln!(io::stderr(), "outlet: left out: {way}: {error}")?,
        }
    }
    Ok(made)
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}

fn report(options: &Options, costs: &[(Way, Vec<Cost>)], loads: &[String; 2]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let Options { sockets, rounds, deliveries, reader_core, .. } = options;
    let reader = if options.reader_spins { "spins" } else { "sleeps" };
    writeln!(
        out,
        "{sockets} sockets, {FRAME_BYTES} B a frame, {rounds} rounds of about {deliveries} deliveries; \
         sender on core {SENDER_CORE}, reader on core {reader_core} ({reader}); load {} before, {} after; \
         µs a delivery, median (least..most)\n",
        loads[0], loads[1],
    )?;
    writeln!(out, "| way | CPU of the sender | wall | CPU against its rival | CPU of the reader |")?;
    writeln!(out, "|---|---|---|---|---|")?;
    for (way, of_way) in costs {
        let Some((_, of_rival)) = costs.iter().find(|(other, _)| *other == way.rival()) else { continue };
        let micros = |figure: fn(&Cost) -> f64| Spread::of(of_way.iter().map(move |cost| figure(cost) / 1e3));
        // Against the rival of the same round, so that what slows a minute cancels out.
        let ratio = Spread::of(of_way.iter().zip(of_rival).map(|(cost, rival)| cost.cpu / rival.cpu));
        let (cpu, wall) = (micros(|cost| cost.cpu), micros(|cost| cost.wall));
        writeln!(out, "| {way} | {cpu} | {wall} | {ratio} | {:.2} |", micros(|cost| cost.reader_cpu).median)?;
    }
    out.flush()
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("outlet: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    let options = Options::parse(std::env::args().skip(1))?;
    allow_descriptors(options.sockets)?;
    let (sending, reading) = connect(options.sockets)?;
    // A trial is to pass where there is one core only.
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let reader_core = if options.trial { options.reader_core.min(cores - 1) } else { options.reader_core };
    pin(SENDER_CORE)?;
    let mut reader = Reader::start(reading, reader_core, options.reader_spins);
    let rings = rings(&sending)?;
    let mut sender = Sender { sockets: sending, frame: Frame::new(), rings };

    let works = |way: &Way| match way {
        Way::Ring(setup) => sender.rings.iter().any(|(made, _)| made == setup),
        Way::Send | Way::Sendmsg | Way::Writev | Way::RunJoined | Way::RunWritev | Way::RunSends => true,
    };
    let ways = Way::ALL.into_iter().filter(works);
    let mut costs: Vec<(Way, Vec<Cost>)> = ways.map(|way| (way, Vec::new())).collect();
    let passes = (options.deliveries / options.sockets).max(1);
    let load_before = load();
    let warm_up = usize::from(!options.trial);
    for turn in 0..options.rounds + warm_up {
        let count = costs.len();
        for place in 0..count {
            // Each round starts with another way, so that none is always the first.
            let (way, of_way) = &mut costs[(turn + place) % count];
            let cost = round(&mut sender, &mut reader, *way, passes)?;
            if turn >= warm_up {
                of_way.push(cost);
            }
        }
    }
    reader.stop()?;
    report(&options, &costs, &[load_before, load()])
}
