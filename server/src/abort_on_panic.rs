//! Threads without which the server cannot run.

/// The exit code of a process that lost such a thread (that of a Rust panic).
const EXIT_BROKEN: i32 = 101;

/// Held by such a thread while it runs: when it panics, the process logs that and exits. Without a shard or a publisher,
/// watchers would wait for ever without an error.
#[derive(Debug)]
pub(crate) struct AbortOnPanic(pub(crate) &'static str);

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            crate::log::last_words(&format!(
                "{} panicked; the server exits so that its clients reconnect elsewhere",
                self.0
            ));
            std::process::exit(EXIT_BROKEN);
        }
    }
}
