//! Signals: the first one begins an orderly shutdown, the second one ends the process. SIGHUP ends nothing: what stands
//! in files (certificates, credentials, rules) is read again, and the audit log is opened anew.
//!
//! It owns the signals and the order of the steps: not ready, wait, close. What closing does to watches and requests is
//! the runtime's business.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::log;
use crate::notify::Manager;
use crate::runtime::Closer;

/// Signals that the server is told by, once they are taken.
#[derive(Debug)]
pub struct ShutdownSignals(Signals);

/// A thread that waits for them.
#[derive(Debug)]
pub struct Listener {
    handle: Handle,
    thread: JoinHandle<()>,
}

impl ShutdownSignals {
    /// Takes the signals: one that comes before [`ShutdownSignals::listen`] waits for it.
    ///
    /// # Errors
    /// The system refuses handlers.
    pub fn take() -> std::io::Result<Self> {
        Signals::new([SIGTERM, SIGINT, SIGHUP]).map(Self)
    }

    /// Waits for them beside a server that runs. SIGTERM: it is not ready any more; after `delay` it closes. SIGINT, which
    /// comes from somebody at a terminal: it closes at once, its watches together. Either of them a second time ends the
    /// process, as if by the signal. SIGHUP: `again` is called.
    ///
    /// # Errors
    /// No thread can be had for it.
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

impl Listener {
    /// Waits for no signal any more.
    pub fn end(self) {
        self.handle.close();
        // It panics for nothing that is still of interest.
        let _ = self.thread.join();
    }
}

/// Goes: with a delay and in turns, or at once.
fn close(closer: &Closer, delay: Option<Duration>, manager: Option<&Arc<Manager>>) {
    closer.leave();
    let Some(delay) = delay.filter(|delay| !delay.is_zero()) else {
        say("closing: telling every watch to go on elsewhere", manager);
        closer.close(delay.is_none());
        return;
    };
    say(&format!("not ready any more; closing in {} s", delay.as_secs_f32()), manager);
    let later = closer.clone();
    let wait = move || {
        std::thread::sleep(delay);
        log::info("closing: telling every watch to go on elsewhere");
        later.close(false);
    };
    // The signals' own thread must hear the second one meanwhile.
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
