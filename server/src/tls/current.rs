//! The terms of now, and the thread that looks for newer ones.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::files::{Contents, Fault, Files};
use super::terms::Terms;

/// Between two looks at the files. Who renews certificates does so days before they end.
const LOOK: Duration = Duration::from_secs(5);

/// What connections begin with now. Those that are there keep what they began with.
#[derive(Debug)]
pub struct Current {
    files: Files,
    terms: ArcSwap<Terms>,
    /// What was read last, whether it could be used or not.
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    contents: Option<Contents>,
    /// What was said of it.
    fault: Option<Fault>,
}

/// What became of a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// As before.
    Same,
    /// New connections begin with what is there now.
    Newer,
    /// What is there cannot be used; that was not known yet.
    Unusable(Fault),
}

impl Current {
    /// Reads the files.
    ///
    /// # Errors
    /// What is wrong with which of them.
    pub fn open(files: Files) -> Result<Arc<Self>, Fault> {
        let contents = Contents::read(&files)?;
        let terms = ArcSwap::from_pointee(Terms::new(&contents)?);
        let seen = Mutex::new(Seen { contents: Some(contents), fault: None });
        Ok(Arc::new(Self { files, terms, seen }))
    }

    /// What a connection that begins now is offered.
    #[must_use]
    pub fn terms(&self) -> Arc<Terms> {
        self.terms.load_full()
    }

    /// Looks at the files. `told`: somebody asked for it, so a fault is said again.
    pub(super) fn look(&self, told: bool) -> Look {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let read = Contents::read(&self.files);
        if !told && seen.contents.is_some() && read.as_ref().ok() == seen.contents.as_ref() {
            return Look::Same;
        }
        let fault = match read {
            Ok(contents) => {
                let made = Terms::new(&contents);
                let same = seen.contents.replace(contents) == seen.contents && seen.fault.is_none();
                match made {
                    Ok(_) if same => return Look::Same,
                    Ok(terms) => {
                        self.terms.store(Arc::new(terms));
                        seen.fault = None;
                        return Look::Newer;
                    }
                    Err(fault) => fault,
                }
            }
            Err(fault) => {
                seen.contents = None;
                fault
            }
        };
        if !told && seen.fault.as_ref() == Some(&fault) {
            return Look::Same;
        }
        seen.fault = Some(fault.clone());
        Look::Unusable(fault)
    }

    fn look_and_say(&self, told: bool) {
        match self.look(told) {
            Look::Same if told => crate::log::info("TLS: the certificate is the one that was served before"),
            Look::Same => {}
            Look::Newer => crate::log::info(&format!(
                "TLS: new connections are served the certificate that {} has now",
                self.files.cert.display()
            )),
            Look::Unusable(fault) => {
                let Fault { which, problem, mend } = fault;
                crate::log::warn(&format!(
                    "TLS: {} {}: {problem}; {mend}; what was read before is served on",
                    which.option(),
                    which.path(&self.files).display()
                ));
            }
        }
    }
}

/// Tells the thread that looks to look at once.
#[derive(Clone, Debug)]
pub struct Reloader(SyncSender<()>);

impl Reloader {
    /// Starts the thread. It ends when nobody holds a reloader any more.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(current: Arc<Current>) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(1);
        std::thread::Builder::new().name("certificates".into()).spawn(move || {
            loop {
                match receiver.recv_timeout(LOOK) {
                    Ok(()) => current.look_and_say(true),
                    Err(RecvTimeoutError::Timeout) => current.look_and_say(false),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        })?;
        Ok(Self(sender))
    }

    /// Looks now, and says what it found.
    pub fn reload(&self) {
        match self.0.try_send(()) {
            // One look is to come already.
            Ok(()) | Err(TrySendError::Full(())) => {}
            Err(TrySendError::Disconnected(())) => {
                crate::log::error("TLS: nobody looks for newer certificates any more");
            }
        }
    }
}
