//! Signals: the first one begins an orderly shutdown, the second one ends the process. SIGHUP does not end it: files
//! (certificates, credentials, rules) are read again, and the audit log is reopened.
//!
//! It owns the signals and the order of the steps: not ready, wait, close. What closing does to watches and requests is the
//! runtime's part.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::log;
use crate::notify::Manager;
use crate::runtime::Closer;

/// Registered signals.
#[derive(Debug)]
pub struct ShutdownSignals(Signals);

/// The thread that waits for them.
#[derive(Debug)]
pub struct Listener {
    handle: Handle,
    thread: JoinHandle<()>,
}

impl ShutdownSignals {
    /// Registers the signals: one that arrives before [`ShutdownSignals::listen`] stays pending.
    ///
    /// # Errors
    /// The system refuses handlers.
    pub fn take() -> std::io::Result<Self> {
        Signals::new([SIGTERM, SIGINT, SIGHUP]).map(Self)
    }

    /// Waits for signals while the server runs. SIGTERM: it is not ready any more, and closes after `delay`. SIGINT, which
    /// comes from a terminal: it closes at once, and ends all its watches together. A second one ends the process, as the
    /// signal would. SIGHUP: `again` is called.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn listen(
        mut self,
        closer: Closer,
        delay: Duration,
        manager: Option<Arc<Manager>>,
        again: impl Fn() + Send + 'static,
    ) -> std::io::Result<Listener> {
        let handle = self.0.handle();
        let listen = move || {
            let mut ending = false;
            for signal in self.0.forever() {
                if signal == SIGHUP {
                    again();
                    continue;
                }
                if std::mem::replace(&mut ending, true) {
                    std::process::exit(128 + signal);
                }
                close(&closer, if signal == SIGINT { None } else { Some(delay) }, manager.as_ref());
            }
        };
        let thread = std::thread::Builder::new().name("signals".into()).spawn(listen)?;
        Ok(Listener { handle, thread })
    }
}

impl ShutdownSignals {
    /// Calls `then` at the first SIGTERM or SIGINT; a second one ends the process. For a process that has more to end than a
    /// server.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn first(mut self, then: impl FnOnce() + Send + 'static) -> std::io::Result<Listener> {
        let handle = self.0.handle();
        let listen = move || {
            let mut then = Some(then);
            for signal in self.0.forever().filter(|signal| *signal != SIGHUP) {
                match then.take() {
                    Some(then) => then(),
                    None => std::process::exit(128 + signal),
                }
            }
        };
        let thread = std::thread::Builder::new().name("signals".into()).spawn(listen)?;
        Ok(Listener { handle, thread })
    }
}

impl Listener {
    /// Stops waiting for signals.
    pub fn end(self) {
        self.handle.close();
        // A panic of the thread is irrelevant now.
        let _ = self.thread.join();
    }
}

/// Closes: with a delay and one watch after another, or at once.
fn close(closer: &Closer, delay: Option<Duration>, manager: Option<&Arc<Manager>>) {
    closer.leave();
    let Some(delay) = delay.filter(|delay| !delay.is_zero()) else {
        say("closing: ending every watch", manager);
        let (told, at_once) = (closer.clone(), delay.is_none());
        let tell = std::thread::Builder::new().name("closing".into());
        if tell.spawn(move || told.close_and_tell(at_once)).is_err() {
            closer.close(at_once);
        }
        return;
    };
    say(&format!("not ready any more; closing in {} s", delay.as_secs_f32()), manager);
    let later = closer.clone();
    let wait = move || {
        std::thread::sleep(delay);
        log::info("closing: ending every watch");
        later.close_and_tell(false);
    };
    // The thread must be able to receive a second signal meanwhile.
    if std::thread::Builder::new().name("closing".into()).spawn(wait).is_err() {
        closer.close(false);
    }
}

fn say(line: &str, manager: Option<&Arc<Manager>>) {
    log::info(line);
    if let Some(manager) = manager {
        manager.stopping(line);
    }
}
