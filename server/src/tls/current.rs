//! The current TLS terms, and the thread that looks for newer ones.
//!
//! Owns one thread, which looks at the files every few seconds, and takes content that two checks found the same: a
//! chain or a bundle of authorities that is written in pieces is valid after each certificate, and would be served
//! incomplete. The content at the start is taken as it is, since nothing can be served before.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use super::authorities::ClusterAuthorities;
use super::files::{Contents, Fault, Files};
use super::terms::Terms;
use crate::debounce::{CHECK_INTERVAL, Debounce, Fingerprint};

/// The terms of new connections. Existing connections keep the server's certificate that they began with; their own is
/// verified again when the authorities change.
#[derive(Debug)]
pub struct Current {
    files: Files,
    terms: ArcSwap<Terms>,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    debounce: Debounce,
    /// What the terms were made from.
    served: Fingerprint,
    /// The part of that by which clients' certificates are verified.
    authorities: Fingerprint,
    /// What the cluster names beside them.
    cluster: ClusterAuthorities,
    /// The error in the content that was taken since, as it was reported.
    fault: Option<Fault>,
}

/// The result of a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Unchanged.
    Same,
    /// New connections use newer terms.
    Newer,
    /// The content cannot be used, which was not reported yet.
    Unusable(Fault),
}

impl Current {
    /// Reads the files.
    ///
    /// # Errors
    /// The error, and in which file.
    pub fn open(files: Files) -> Result<Arc<Self>, Fault> {
        let contents = Contents::read(&files)?;
        let cluster = ClusterAuthorities::default();
        let terms = ArcSwap::from_pointee(Terms::new(&contents, &cluster, 0)?);
        let authorities = contents.authorities_fingerprint();
        let served = Fingerprint::of(&Ok::<_, Fault>(&contents));
        let seen = Seen { debounce: Debounce::after(served), served, authorities, cluster, fault: None };
        let seen = Mutex::new(seen);
        Ok(Arc::new(Self { files, terms, seen }))
    }

    /// The terms for a connection that begins now.
    #[must_use]
    pub fn terms(&self) -> Arc<Terms> {
        self.terms.load_full()
    }

    /// The number of the current authorities: those of `Terms::authorities`.
    #[must_use]
    pub fn authorities_generation(&self) -> u64 {
        self.terms.load().authorities_generation()
    }

    /// Takes the authorities that the cluster names, beside those of the file. True: they are other ones than before, and
    /// certificates that were verified are to be verified again.
    ///
    /// # Errors
    /// They cannot be used; the earlier ones stay in use.
    pub fn set_cluster(&self, cluster: ClusterAuthorities) -> Result<bool, Fault> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.cluster == cluster {
            return Ok(false);
        }
        let terms = self.terms().with_cluster(&cluster, self.authorities_generation() + 1)?;
        self.terms.store(Arc::new(terms));
        seen.cluster = cluster;
        Ok(true)
    }

    /// Looks at the files. `told`: an operator asked for it, so the content is taken at once, and an error is reported
    /// again.
    pub(super) fn look(&self, told: bool) -> Look {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let read = Contents::read(&self.files);
        let found = Fingerprint::of(&read.as_ref());
        if !seen.debounce.take(found, told) || (found == seen.served && seen.fault.is_none()) {
            return Look::Same;
        }
        let newer = read.and_then(|contents| {
            let authorities = contents.authorities_fingerprint();
            let number = self.authorities_generation() + u64::from(authorities != seen.authorities);
            Ok((Terms::new(&contents, &seen.cluster, number)?, authorities))
        });
        match newer {
            Ok((terms, authorities)) => {
                self.terms.store(Arc::new(terms));
                (seen.served, seen.authorities, seen.fault) = (found, authorities, None);
                Look::Newer
            }
            Err(fault) if !told && seen.fault.as_ref() == Some(&fault) => Look::Same,
            Err(fault) => {
                seen.fault = Some(fault.clone());
                Look::Unusable(fault)
            }
        }
    }

    fn look_and_say(&self, told: bool) {
        match self.look(told) {
            Look::Same if told => crate::log::info("TLS: the certificate is unchanged"),
            Look::Same => {}
            Look::Newer => crate::log::info(&format!(
                "TLS: new connections use the certificate that is now in {}",
                self.files.cert.display()
            )),
            Look::Unusable(fault) => {
                let Fault { which, problem, mend } = fault;
                crate::log::warn(&format!(
                    "TLS: {} {}: {problem}; {mend}; the earlier files stay in use",
                    which.option(),
                    which.path(&self.files).display()
                ));
            }
        }
    }
}

/// Makes the thread look at once.
#[derive(Clone, Debug)]
pub struct Reloader(SyncSender<()>);

impl Reloader {
    /// Starts the thread. It ends when the last reloader is dropped. `changed` is called after a change of the authorities
    /// by which clients' certificates are verified.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn start(current: Arc<Current>, changed: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(1);
        std::thread::Builder::new().name("certificates".into()).spawn(move || {
            loop {
                let before = current.authorities_generation();
                match receiver.recv_timeout(CHECK_INTERVAL) {
                    Ok(()) => current.look_and_say(true),
                    Err(RecvTimeoutError::Timeout) => current.look_and_say(false),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                if current.authorities_generation() != before {
                    changed();
                }
            }
        })?;
        Ok(Self(sender))
    }

    /// Looks now, and reports the result.
    pub fn reload(&self) {
        match self.0.try_send(()) {
            // A look is pending already.
            Ok(()) | Err(TrySendError::Full(())) => {}
            Err(TrySendError::Disconnected(())) => {
                crate::log::error("TLS: certificate files are not checked for changes any more");
            }
        }
    }
}
