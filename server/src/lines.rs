//! Lines on their way to a file or a pipe: through a bounded queue to a separate thread.
//!
//! Owns the queue, the thread and the count of lost lines. A caller never waits: when the queue is full, by lines or by bytes,
//! the line is dropped and counted. Lines that any client can cause use only a part of the queue. The content of lines is not
//! examined.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;

use crate::bar;

/// Lines that may wait.
pub const WAITING_MAX: usize = 8192;
/// The limit on their bytes: a usual length per line, so that the limit on lines is reached first.
pub const WAITING_BYTES_MAX: usize = 8 << 20;
/// Bytes per write.
const WRITE_BYTES: usize = 64 << 10;
/// Interval of the checks of a caller that waits for the thread.
const POLL: Duration = Duration::from_millis(1);
/// The longest sleep: it limits the delay of a missed wake-up.
const SLEEP_MAX: Duration = Duration::from_millis(500);

/// How much of the queue may be in use when a line is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// The whole queue.
    All,
    /// Three quarters: for lines that any client can cause, at any rate. The rest is reserved for other lines.
    Most,
}

impl Share {
    /// The limits on lines and bytes, the new line included.
    const fn of_queue(self) -> (usize, usize) {
        match self {
            Self::All => (WAITING_MAX, WAITING_BYTES_MAX),
            Self::Most => (WAITING_MAX / 4 * 3, WAITING_BYTES_MAX / 4 * 3),
        }
    }
}

/// The target of lines.
#[derive(Debug)]
pub enum Sink {
    /// Standard error.
    Stderr,
    /// Standard output.
    Stdout,
    /// A file, appended to.
    File(PathBuf, File),
}

impl Sink {
    /// Opens a file to append to; it is created, readable by its owner only, if it does not exist.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn file(path: PathBuf) -> io::Result<Self> {
        let file = open(&path)?;
        Ok(Self::File(path, file))
    }

    /// Writes, and returns how many bytes were written: all of them, or those before a failure.
    fn write(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        match self {
            Self::Stderr => bar::beside(|| write(&mut io::stderr(), bytes)),
            // It may be the same terminal.
            Self::Stdout => bar::beside(|| write(&mut io::stdout(), bytes)),
            Self::File(_, file) => write(file, bytes),
        }
    }

    /// Reopens the file of this name: the one that is open may have been renamed. True: it is a different, empty one.
    fn reopen(&mut self) -> io::Result<bool> {
        let Self::File(path, file) = self else { return Ok(false) };
        *file = open(path)?;
        Ok(file.metadata().is_ok_and(|data| data.len() == 0))
    }
}

fn write(to: &mut impl Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut taken = 0;
    while taken < bytes.len() {
        match to.write(&bytes[taken..]) {
            Ok(0) => return (taken, Err(io::ErrorKind::WriteZero.into())),
            Ok(more) => taken += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (taken, Err(error)),
        }
    }
    (taken, to.flush())
}

fn open(path: &PathBuf) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

#[derive(Debug)]
struct Shared {
    queue: ArrayQueue<Vec<u8>>,
    /// Lines in the queue, and lines that are about to be added.
    bytes: AtomicUsize,
    taken: AtomicU64,
    /// Lines that were taken from the queue and are finished: written or lost.
    done: AtomicU64,
    written: AtomicU64,
    dropped: AtomicU64,
    reopen: AtomicBool,
}

impl Shared {
    /// Adds a line; whether it was accepted.
    fn take(&self, line: Vec<u8>, share: Share) -> bool {
        let (lines_max, bytes_max) = share.of_queue();
        let bytes = line.len();
        // Counted before it is added: the thread that takes it decrements the count.
        let waiting = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = waiting.saturating_add(bytes) <= bytes_max && self.queue.len() < lines_max;
        let is_there = fits && self.queue.push(line).is_ok();
        if !is_there {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        is_there
    }

    /// Takes the oldest line.
    fn next(&self) -> Option<Vec<u8>> {
        let line = self.queue.pop()?;
        self.bytes.fetch_sub(line.len(), Ordering::Relaxed);
        Some(line)
    }
}

/// The writing end of the queue. Cheap to clone.
#[derive(Clone)]
pub struct Lines {
    shared: Arc<Shared>,
    writer: Thread,
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("waiting", &self.shared.queue.len()).finish_non_exhaustive()
    }
}

impl Lines {
    /// Starts the thread. The thread calls `complain` with a description of a problem, in one line, at most once a second; the
    /// result is written as a line.
    ///
    /// # Errors
    /// The system refuses another thread.
    pub fn start(
        name: &str,
        sink: Sink,
        complain: impl FnMut(&str) -> Option<Vec<u8>> + Send + 'static,
    ) -> io::Result<Self> {
        let writer = Writer::new(sink, complain);
        let shared = Arc::clone(&writer.shared);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || writer.run())?;
        Ok(Self { shared, writer: thread.thread().clone() })
    }

    /// Adds a line, with its line feed. It is dropped if the queue is filled beyond the line's share.
    pub fn leave(&self, line: Vec<u8>, share: Share) {
        if self.shared.take(line, share) {
            self.shared.taken.fetch_add(1, Ordering::Release);
        } else {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
        self.writer.unpark();
    }

    /// Lines that were lost: the queue was full, or they could not be written.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Lines that were written.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Relaxed)
    }

    /// Requests that the thread reopens its file before the next line.
    pub fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Release);
        self.writer.unpark();
    }

    /// Waits, for a limited time, until all lines added so far are written or lost: the reader may have stopped.
    pub fn flush(&self, patience: Duration) {
        let (deadline, upto) = (Instant::now() + patience, self.shared.taken.load(Ordering::Acquire));
        self.writer.unpark();
        while self.shared.done.load(Ordering::Acquire) < upto && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
    }
}

struct Writer<C> {
    shared: Arc<Shared>,
    sink: Sink,
    complain: C,
    /// Lost lines that were reported already.
    told: u64,
    spoke: Option<Instant>,
    /// Why lines could not be written, until it is reported.
    failure: Option<io::Error>,
    /// The last write ended within a line.
    torn: bool,
}

impl<C: FnMut(&str) -> Option<Vec<u8>>> Writer<C> {
    fn new(sink: Sink, complain: C) -> Self {
        let shared = Arc::new(Shared {
            queue: ArrayQueue::new(WAITING_MAX),
            bytes: AtomicUsize::new(0),
            taken: AtomicU64::new(0),
            done: AtomicU64::new(0),
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            reopen: AtomicBool::new(false),
        });
        Self { shared, sink, complain, told: 0, spoke: None, failure: None, torn: false }
    }

    fn run(mut self) {
        let mut bytes = Vec::with_capacity(WRITE_BYTES);
        loop {
            if self.shared.reopen.swap(false, Ordering::AcqRel) {
                match self.sink.reopen() {
                    // The incomplete line stays in the file that was renamed.
                    Ok(is_empty) => self.torn &= !is_empty,
                    Err(error) => {
                        let why = "cannot reopen it; the file that is open stays in use";
                        self.say(&format!("{why}: {error}"));
                    }
                }
            }
            let mut lines = 0;
            bytes.clear();
            while bytes.len() < WRITE_BYTES
                && let Some(line) = self.shared.next()
            {
                bytes.extend_from_slice(&line);
                lines += 1;
            }
            if lines > 0 {
                self.write(&bytes, lines);
            }
            self.tell_lost();
            // After the report, so that a caller that waits at the end of the process gets it written.
            self.shared.done.fetch_add(lines, Ordering::Release);
            if lines == 0 {
                // A line that is added during this check is not missed: its unpark ends the next park.
                std::thread::park_timeout(SLEEP_MAX);
            }
        }
    }

    fn write(&mut self, bytes: &[u8], lines: u64) {
        let (taken, sent) = self.send(bytes);
        let written = match sent {
            Ok(()) => lines,
            Err(error) => {
                self.failure = Some(error);
                let whole = bytes[..taken].iter().filter(|byte| **byte == b'\n').count();
                lines.min(whole as u64)
            }
        };
        self.shared.written.fetch_add(written, Ordering::Relaxed);
        self.shared.dropped.fetch_add(lines - written, Ordering::Relaxed);
    }

    /// Writes lines, and returns how many bytes were written. An incomplete line is terminated first, so that a reader finds
    /// one broken line and complete ones after it.
    fn send(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        if self.torn {
            let (taken, ended) = self.sink.write(b"\n");
            self.torn = taken == 0;
            if ended.is_err() {
                return (0, ended);
            }
        }
        let (taken, sent) = self.sink.write(bytes);
        self.torn = bytes[..taken].last().is_some_and(|byte| *byte != b'\n');
        (taken, sent)
    }

    fn tell_lost(&mut self) {
        let dropped = self.shared.dropped.load(Ordering::Relaxed);
        let quiet = self.spoke.is_none_or(|at| at.elapsed() >= Duration::from_secs(1));
        if dropped > self.told && quiet {
            let lost = dropped - self.told;
            self.told = dropped;
            let told = match self.failure.take() {
                None => format!("{lost} lines were dropped: they came faster than they could be written"),
                Some(error) => format!("{lost} lines are lost: they cannot be written: {error}"),
            };
            self.say(&told);
        }
    }

    fn say(&mut self, problem: &str) {
        self.spoke = Some(Instant::now());
        if let Some(line) = (self.complain)(problem) {
            // If the report cannot be written either, it is dropped.
            let _ = self.send(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("revcast-lines-{name}-{}", std::process::id()))
    }

    #[test]
    fn lines_come_in_order_and_a_renamed_file_is_left() {
        let (path, old) = (scratch("order"), scratch("order-old"));
        let sink = Sink::file(path.clone()).expect("a file");
        let lines = Lines::start("lines", sink, |problem| panic!("{problem}")).expect("a thread");
        for number in 0..1000 {
            lines.leave(format!("{number}\n").into_bytes(), Share::All);
        }
        lines.flush(Duration::from_secs(10));
        std::fs::rename(&path, &old).expect("it is ours");
        lines.reopen();
        while !path.exists() {
            std::thread::sleep(POLL);
        }
        lines.leave(b"behind\n".to_vec(), Share::All);
        lines.flush(Duration::from_secs(10));
        let read = |path: &PathBuf| std::fs::read_to_string(path).expect("text");
        assert_eq!(read(&old), (0..1000).map(|number| format!("{number}\n")).collect::<String>());
        assert_eq!((read(&path).as_str(), lines.dropped(), lines.written()), ("behind\n", 0, 1001));
        [path, old].iter().for_each(|path| std::fs::remove_file(path).expect("it is ours"));
    }

    #[test]
    fn who_leaves_a_line_never_waits_and_what_is_dropped_is_told() {
        // A pipe that is not read: the thread blocks in its first write.
        let (reader, writer) = io::pipe().expect("a pipe");
        let sink = Sink::File(scratch("pipe"), File::from(std::os::fd::OwnedFd::from(writer)));
        let lines = Lines::start("lines", sink, |problem| Some(format!("!{problem}\n").into_bytes()));
        let lines = lines.expect("a thread");
        let began = Instant::now();
        for _ in 0..4 * WAITING_MAX {
            lines.leave(vec![b'x'; 99], Share::All);
        }
        lines.flush(Duration::from_millis(20));
        assert!(began.elapsed() < Duration::from_secs(5));
        let dropped = lines.dropped();
        assert!(dropped > 0);
        // Read to the end of the report, which counts the rest.
        let mut told = String::new();
        let mut reader = io::BufReader::new(reader);
        while !told.ends_with("be written\n") {
            told.clear();
            io::BufRead::read_line(&mut reader, &mut told).expect("text");
        }
        let count = told.rsplit('!').next().and_then(|said| said.split(' ').next()).expect("a count");
        assert_eq!(count.parse::<u64>().ok(), Some(dropped));
    }

    #[test]
    fn long_lines_of_anybody_leave_room_for_the_others() {
        // The thread is not started: lines stay in the queue.
        let writer = Writer::new(Sink::Stderr, |_: &str| None);
        let shared = Arc::clone(&writer.shared);
        let lines = Lines { shared: Arc::clone(&shared), writer: std::thread::current() };
        let kept = |share: Share, length: usize| {
            let before = shared.taken.load(Ordering::Relaxed);
            for _ in 0..4 * WAITING_MAX {
                lines.leave(vec![b'x'; length], share);
            }
            shared.taken.load(Ordering::Relaxed) - before
        };
        let (long, short) = (64 << 10, 16);
        assert_eq!(kept(Share::Most, long), (WAITING_BYTES_MAX / 4 * 3 / long) as u64, "by their bytes");
        assert_eq!(kept(Share::All, long), (WAITING_BYTES_MAX / 4 / long) as u64, "a quarter was kept");
        assert_eq!(shared.bytes.load(Ordering::Relaxed), WAITING_BYTES_MAX);
        while shared.next().is_some() {}
        assert_eq!(shared.bytes.load(Ordering::Relaxed), 0, "what is taken away waits no more");
        assert_eq!(kept(Share::Most, short), (WAITING_MAX / 4 * 3) as u64, "by their number");
        assert_eq!(kept(Share::All, short), (WAITING_MAX / 4) as u64);
        let (taken, dropped) = (shared.taken.load(Ordering::Relaxed), lines.dropped());
        assert_eq!(taken + dropped, 4 * 4 * WAITING_MAX as u64, "each is one of the two");
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_told() {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("a device of every Linux");
        let told = Arc::new(AtomicU64::new(0));
        let ours = Arc::clone(&told);
        let lines = Lines::start("lines", Sink::File(scratch("full"), full), move |problem| {
            assert!(problem.contains("cannot be written"), "{problem}");
            ours.fetch_add(1, Ordering::Relaxed);
            None
        });
        let lines = lines.expect("a thread");
        lines.leave(b"x\n".to_vec(), Share::All);
        let began = Instant::now();
        lines.flush(Duration::from_secs(60));
        assert!(began.elapsed() < Duration::from_secs(30), "what is lost is not waited for");
        assert_eq!((lines.written(), lines.dropped(), told.load(Ordering::Relaxed)), (0, 1, 1));
    }

    #[test]
    fn what_is_lost_again_and_again_is_told_once_a_second() {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("a device of every Linux");
        let said = std::cell::RefCell::new(Vec::new());
        let mut writer = Writer::new(Sink::File(scratch("often"), full), |problem: &str| {
            said.borrow_mut().push(problem.to_owned());
            None
        });
        for _ in 0..3 {
            writer.write(b"x\ny\n", 2);
            writer.tell_lost();
        }
        assert_eq!((said.borrow().len(), writer.shared.dropped.load(Ordering::Relaxed)), (1, 6));
        writer.spoke = None;
        writer.tell_lost();
        assert_eq!(writer.shared.written.load(Ordering::Relaxed), 0);
        let said = said.borrow();
        assert!(said[0].starts_with("2 lines are lost: they cannot be written: "), "{said:?}");
        assert!(said[1].starts_with("4 lines are lost: they cannot be written: "), "{said:?}");
    }

    #[test]
    fn behind_half_a_line_the_next_is_whole() {
        use std::io::Read as _;
        use std::os::fd::AsRawFd as _;
        use std::os::unix::fs::OpenOptionsExt as _;
        // A pipe with room for a part only, whose writer does not wait (O_NONBLOCK). It splits a line: its capacity is a power
        // of two, which is not a multiple of seven.
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        let narrow = OpenOptions::new().write(true).custom_flags(0o4000).open(path).expect("it is ours");
        drop(writer);
        let mut writer = Writer::new(Sink::File(scratch("narrow"), narrow), |_: &str| None);
        let many = 300_000;
        writer.write(&b"123456\n".repeat(many), many as u64);
        assert!(writer.torn);
        let mut text = vec![0; 4 << 20];
        let taken = reader.read(&mut text).expect("it is full");
        text.truncate(taken);
        writer.write(b"behind\n", 1);
        let (written, dropped) = (&writer.shared.written, &writer.shared.dropped);
        let counts = [written, dropped].map(|count| count.load(Ordering::Relaxed));
        drop(writer);
        reader.read_to_end(&mut text).expect("its writer is gone");
        let text = String::from_utf8(text).expect("ASCII");
        let taken = text.len() - "\nbehind\n".len();
        let (whole, half) = (taken / 7, &"123456"[..taken % 7]);
        assert_eq!(text, format!("{}{half}\nbehind\n", "123456\n".repeat(whole)));
        assert_eq!(counts, [whole as u64 + 1, (many - whole) as u64], "the half line is lost");
    }
}
