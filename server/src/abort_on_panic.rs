//! Threads that the server cannot live without.

/// What a process that lost such a thread exits with (the code of a Rust panic).
const EXIT_BROKEN: i32 = 101;

/// Held by such a thread while it runs: when it panics, the process ends at once, loudly. A shard or a publisher that
/// is gone would otherwise leave watchers that never hear of anything again.
#[derive(Debug)]
pub(crate) struct AbortOnPanic(pub(crate) &'static str);

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            crate::log::last_words(&format!(
                "{} broke; the server ends so that its clients go elsewhere",
                self.0
            ));
            std::process::exit(EXIT_BROKEN);
        }
    }
}
