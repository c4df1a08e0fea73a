//! What the server says while it runs: one line an event, on stderr.

use std::io::Write;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::config::LogLevel;

static LEVEL: AtomicU8 = AtomicU8::new(2);

const fn rank(level: LogLevel) -> u8 {
    match level {
        LogLevel::Error => 0,
        LogLevel::Warn => 1,
        LogLevel::Info => 2,
        LogLevel::Debug => 3,
    }
}

/// Chooses what is said from now on.
pub fn set_level(level: LogLevel) {
    LEVEL.store(rank(level), Ordering::Relaxed);
}

/// Something broke.
pub fn error(line: &str) {
    say(LogLevel::Error, "error", line);
}

/// Something is not as it should be.
pub fn warn(line: &str) {
    say(LogLevel::Warn, "warning", line);
}

/// Something happened that an operator may want to know.
pub fn info(line: &str) {
    say(LogLevel::Info, "info", line);
}

/// What each connection does; the line is made only when it is said.
pub fn debug(line: impl FnOnce() -> String) {
    if rank(LogLevel::Debug) <= LEVEL.load(Ordering::Relaxed) {
        say(LogLevel::Debug, "debug", &line());
    }
}

fn say(level: LogLevel, name: &str, line: &str) {
    if rank(level) <= LEVEL.load(Ordering::Relaxed) {
        // A closed stderr is no reason to stop serving.
        let _ = writeln!(std::io::stderr(), "revcast: {name}: {line}");
    }
}
