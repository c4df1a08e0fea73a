//! The server's log: one line per event, on stderr, as text or as JSON.
//!
//! Owns the format of a line. Lines go through a queue to a separate thread, so a stderr that is not read blocks nothing; lines
//! that do not fit are dropped, counted and reported. Events of the store and deliveries are not logged: a line is for an
//! operator. Characters that a terminal interprets are escaped, and the length of a message is limited, so that data from a
//! client cannot begin another line, hide one, or displace others.

use std::fmt::{self, Display, Write as _};
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use jiff::Timestamp;

use crate::bar;
use crate::lines::{Lines, Share, Sink};
use crate::printable::{self, cut, one_line};

static LEVEL: AtomicU8 = AtomicU8::new(2);
static JSON: AtomicU8 = AtomicU8::new(0);
static LINES: OnceLock<Lines> = OnceLock::new();

/// Bytes of a message, and of each field: longer ones are cut.
const MESSAGE_BYTES_MAX: usize = 8 << 10;
/// How long the end of the process waits for its last lines.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// An operator should check this.
    Warn,
    /// The state of the process: starts, listens, drains.
    Info,
    /// Events of single connections.
    Debug,
}

impl LogLevel {
    pub(crate) const ALL: [Self; 4] = [Self::Error, Self::Warn, Self::Info, Self::Debug];
}

impl Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        })
    }
}

/// The format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people: the time, the level, the message.
    Text,
    /// For machines: an object a line.
    Json,
}

impl LogFormat {
    pub(crate) const ALL: [Self; 2] = [Self::Text, Self::Json];
}

impl Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}

/// What is logged, and in which format.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// The level.
    pub level: LogLevel,
    /// The format.
    pub format: LogFormat,
}

const fn rank(level: LogLevel) -> u8 {
    match level {
        LogLevel::Error => 0,
        LogLevel::Warn => 1,
        LogLevel::Info => 2,
        LogLevel::Debug => 3,
    }
}

/// Debug lines depend on clients, without a limit on their rate: they leave room in the queue for the others.
const fn share(level: LogLevel) -> Share {
    match level {
        LogLevel::Error | LogLevel::Warn | LogLevel::Info => Share::All,
        LogLevel::Debug => Share::Most,
    }
}

/// Sets the level and the format from now on. Without a thread, callers write their lines themselves.
pub fn start(options: LogOptions) {
    LEVEL.store(rank(options.level), Ordering::Relaxed);
    JSON.store(u8::from(options.format == LogFormat::Json), Ordering::Relaxed);
    if options.format == LogFormat::Text && rank(options.level) >= rank(LogLevel::Info) {
        bar::allow();
    }
    let lines = Lines::start("log", Sink::Stderr, |problem| {
        Some(line(LogLevel::Warn, &format!("log: {problem}"), &[]))
    });
    match lines {
        // A second start keeps the first one's thread.
        Ok(lines) => drop(LINES.set(lines)),
        Err(error) => {
            warn(&format!("no thread for the log, its writers may wait for a slow stderr: {error}"))
        }
    }
}

/// Logs an error.
pub fn error(message: &str) {
    say(LogLevel::Error, message, &[]);
}

/// Logs a warning.
pub fn warn(message: &str) {
    say(LogLevel::Warn, message, &[]);
}

/// Logs something that an operator may want to know.
pub fn info(message: &str) {
    say(LogLevel::Info, message, &[]);
}

/// Whether events of connections are logged.
#[must_use]
pub fn is_debug() -> bool {
    rank(LogLevel::Debug) <= LEVEL.load(Ordering::Relaxed)
}

/// Logs an event of a connection; the line is built only at level debug.
pub fn debug(line: impl FnOnce() -> String) {
    if is_debug() {
        say(LogLevel::Debug, &line(), &[]);
    }
}

/// Logs a message with fields: `shard=3`, or a member of the JSON.
pub fn say(level: LogLevel, message: &str, fields: &[(&str, &dyn Display)]) {
    if rank(level) > LEVEL.load(Ordering::Relaxed) {
        return;
    }
    let line = line(level, message, fields);
    match LINES.get() {
        Some(lines) => lines.leave(line, share(level)),
        // A closed stderr is no reason to stop serving.
        None => drop(bar::beside(|| std::io::stderr().write_all(&line))),
    }
}

/// Logs the last message of a process that ends, whatever the level. It is written when this returns.
pub fn last_words(message: &str) {
    flush();
    let line = if is_json() {
        line(LogLevel::Error, message, &[])
    } else {
        format!("revcast: {}\n", one_line(message)).into_bytes()
    };
    let _ = std::io::stderr().write_all(&line);
}

/// Waits, for a limited time, until everything that was logged is written, and removes the bar: the process ends.
pub fn flush() {
    if let Some(lines) = LINES.get() {
        lines.flush(LAST_WORDS);
    }
    bar::clear_at_end();
}

/// Lines that were dropped so far.
#[must_use]
pub fn dropped() -> u64 {
    LINES.get().map_or(0, Lines::dropped)
}

fn is_json() -> bool {
    JSON.load(Ordering::Relaxed) != 0
}

fn line(level: LogLevel, message: &str, fields: &[(&str, &dyn Display)]) -> Vec<u8> {
    let message = &*cut(message, MESSAGE_BYTES_MAX);
    let (now, thread) = (Timestamp::now(), std::thread::current());
    let thread = thread.name().unwrap_or("?");
    if is_json() { json(now, level, thread, message, fields) } else { text(now, level, message, fields) }
}

fn text(now: Timestamp, level: LogLevel, message: &str, fields: &[(&str, &dyn Display)]) -> Vec<u8> {
    let mut line = format!("{now:.6} {level}: {}", one_line(message));
    for (name, value) in fields {
        // Writing to a String cannot fail.
        let _ = write!(line, " {name}={}", one_line(&cut(&value.to_string(), MESSAGE_BYTES_MAX)));
    }
    line.push('\n');
    line.into_bytes()
}

fn json(
    now: Timestamp,
    level: LogLevel,
    thread: &str,
    message: &str,
    fields: &[(&str, &dyn Display)],
) -> Vec<u8> {
    let mut all = serde_json::Map::new();
    let ours = [
        ("time", format!("{now:.6}")),
        ("level", level.to_string()),
        ("message", message.to_owned()),
        ("thread", thread.to_owned()),
    ];
    for (name, value) in ours {
        all.insert(name.to_owned(), value.into());
    }
    for (name, value) in fields {
        let value = value.to_string();
        let value = cut(&value, MESSAGE_BYTES_MAX);
        let number = value.parse::<u64>().map(serde_json::Value::from);
        all.insert((*name).to_owned(), number.unwrap_or_else(|_| value.as_ref().into()));
    }
    let mut line = printable::json(&all);
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn then() -> Timestamp {
        Timestamp::from_microsecond(1_795_239_486_012_345).expect("a time")
    }

    #[test]
    fn a_message_that_repeats_much_is_cut() {
        let line = line(LogLevel::Warn, &"\u{1}é".repeat(1 << 20), &[]);
        assert!(line.len() < 10 * MESSAGE_BYTES_MAX, "{} bytes", line.len());
        assert!(line.ends_with(b"...TRUNCATED\n") && line.iter().filter(|byte| **byte == b'\n').count() == 1);
    }

    #[test]
    fn text_is_one_line_whatever_is_in_it() {
        let line = text(
            then(),
            LogLevel::Warn,
            "a\n2026 error: b\u{1b}[2J\u{2028}ü\u{2067}",
            &[("shard", &3), ("of", &"x\ny")],
        );
        assert_eq!(
            String::from_utf8(line).expect("text"),
            "2026-11-21T05:38:06.012345Z warn: a\\n2026 error: b\\u{1b}[2J\\u{2028}ü\\u{2067} shard=3 of=x\\ny\n"
        );
    }

    #[test]
    fn json_is_read_back() {
        let text = "a \"b\"\n\u{202e}";
        let line = json(then(), LogLevel::Info, "shard-0", text, &[("shard", &3), ("why", &"c")]);
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert!(line.is_ascii(), "a reader sees what turns a line: {line:?}");
        let read: serde_json::Value = serde_json::from_slice(&line).expect("JSON");
        assert_eq!(
            read,
            serde_json::json!({"time": "2026-11-21T05:38:06.012345Z", "level": "info", "message": text,
                "thread": "shard-0", "shard": 3, "why": "c"})
        );
    }
}
