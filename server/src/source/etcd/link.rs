//! Connections to etcd: endpoints, credentials, and the meaning of its errors.
//!
//! Owns the choice of the endpoint and the options of a connection. A connection is to one member at a time; after a failure
//! the next one is to the next member. Passwords and certificates are read from their files for every connection, so that a new
//! one uses the current content. Watches have their own connection: a large answer on the same one would delay them (etcd
//! #15402).

use std::cell::{Cell, RefCell};
use std::fs;
use std::future::Future;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use etcd_client::{Certificate, Client, ConnectOptions, Error, Identity, TlsOptions};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::backoff::Backoff;
use super::options::EtcdOptions;
use crate::source::command_queue::CommandQueue;
use crate::source::{Fault, SourceError};

/// etcd treats more than one ping in 5 s as an attack; a lost peer is detected within twice this.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// The timeout of a connection, with its handshakes and its login.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// The timeout of one attempt of a read before the next member is used.
const ATTEMPT_WITHIN: Duration = Duration::from_secs(1);

/// The use of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A watch: it ends when its member has no leader.
    Watch,
    /// Everything else.
    Calls,
}

/// The endpoints.
#[derive(Debug)]
pub(super) struct Links {
    options: Rc<EtcdOptions>,
    /// The index of the next connection's endpoint, modulo their number.
    next: Cell<usize>,
}

impl Links {
    pub(super) const fn new(options: Rc<EtcdOptions>) -> Self {
        Self { options, next: Cell::new(0) }
    }

    /// The next connection goes to the next member.
    pub(super) fn rotate(&self) {
        self.next.set(self.next.get().wrapping_add(1));
    }

    /// Makes a connection and logs in, if there is a user.
    pub(super) async fn open(&self, purpose: Purpose) -> Result<Client, SourceError> {
        let endpoints = &self.options.endpoints;
        let endpoint = &endpoints[self.next.get() % endpoints.len()];
        let options = self.connect_options(purpose, true)?;
        match timeout(CONNECT_WITHIN, Box::pin(Client::connect([endpoint], Some(options)))).await {
            Ok(Ok(client)) => Ok(client),
            Ok(Err(error)) if error.to_string().contains("authentication is not enabled") => {
                // etcd has authentication disabled: as etcd's own client does, the connection continues without a user.
                let options = self.connect_options(purpose, false)?;
                Box::pin(Client::connect([endpoint], Some(options)))
                    .await
                    .map_err(|error| explain(&error, false))
            }
            Ok(Err(error)) => Err(explain(&error, false)),
            Err(_) => {
                let why = format!("etcd at {endpoint} does not answer within {} s", CONNECT_WITHIN.as_secs());
                Err(SourceError::new(Fault::Unavailable, why))
            }
        }
    }

    fn connect_options(&self, purpose: Purpose, login: bool) -> Result<ConnectOptions, SourceError> {
        let given = &self.options;
        let mut options = ConnectOptions::new()
            .with_connect_timeout(CONNECT_WITHIN)
            .with_keep_alive(KEEP_ALIVE, KEEP_ALIVE)
            .with_keep_alive_while_idle(true)
            .with_auto_token_refresh(true)
            .with_require_leader(purpose == Purpose::Watch);
        if let (true, Some(user), Some(file)) = (login, &given.user, &given.password_file) {
            let password = read(file)?;
            let password = String::from_utf8(password).map_err(|_| unreadable(file, "it is not UTF-8"))?;
            options = options.with_user(user, password.trim_end_matches(['\n', '\r']));
        }
        if let Some(ca) = &given.ca {
            let mut tls = TlsOptions::new().ca_certificate(Certificate::from_pem(read(ca)?));
            if let (Some(cert), Some(key)) = (&given.cert, &given.key) {
                tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
            }
            options = options.with_tls(tls);
        }
        Ok(options)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, SourceError> {
    fs::read(path).map_err(|error| unreadable(path, &error.to_string()))
}

fn unreadable(path: &Path, why: &str) -> SourceError {
    SourceError::new(Fault::Unavailable, format!("{} cannot be read: {why}", path.display()))
}

/// A connection attempt; if it is dropped, it has failed.
struct Unmade<'a>(&'a Links);

impl Drop for Unmade<'_> {
    fn drop(&mut self) {
        self.0.rotate();
    }
}

/// Why a large answer did not come.
#[derive(Debug)]
pub(super) enum Miss {
    /// It exceeds the limit, or does not come in time: a smaller one may.
    TooMuch(SourceError),
    /// A failure that does not depend on its size.
    Failed(SourceError),
}

/// The connection that all calls share, opened again when it fails.
pub(super) struct Calls {
    links: Rc<Links>,
    commands: Arc<CommandQueue>,
    current: RefCell<Option<(u64, Client)>>,
    made: Cell<u64>,
    /// Held while one is opened.
    making: tokio::sync::Mutex<()>,
}

impl Calls {
    pub(super) fn new(links: Rc<Links>, commands: Arc<CommandQueue>) -> Self {
        Self {
            links,
            commands,
            current: RefCell::new(None),
            made: Cell::new(0),
            making: tokio::sync::Mutex::new(()),
        }
    }

    /// The connection, and its number.
    pub(super) async fn client(&self) -> Result<(u64, Client), SourceError> {
        let current = self.current.borrow().clone();
        if let Some(current) = current {
            return Ok(current);
        }
        let _making = self.making.lock().await;
        let current = self.current.borrow().clone();
        if let Some(current) = current {
            return Ok(current);
        }
        // Also if the caller gives up: the next attempt is with the next member.
        let unmade = Unmade(&self.links);
        let client = Box::pin(self.links.open(Purpose::Calls)).await?;
        std::mem::forget(unmade);
        let number = self.made.get() + 1;
        self.made.set(number);
        *self.current.borrow_mut() = Some((number, client.clone()));
        Ok((number, client))
    }

    /// Drops the current connection.
    pub(super) fn leave(&self) {
        let current = self.current.borrow().as_ref().map(|(number, _)| *number);
        if let Some(number) = current {
            self.failed(number);
        }
    }

    /// The connection of this number failed: the next call opens another, to the next member.
    pub(super) fn failed(&self, number: u64) {
        self.commands.stats.remote.failures.fetch_add(1, Ordering::Relaxed);
        let mut current = self.current.borrow_mut();
        if current.as_ref().is_some_and(|(known, _)| *known == number) {
            *current = None;
            self.links.rotate();
        }
    }

    /// Reads something small, from one member after another until one answers or the time is over.
    pub(super) async fn read<T, F>(
        &self,
        within: Duration,
        ask: impl Fn(Client) -> F,
    ) -> Result<T, SourceError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let deadline = Instant::now() + within;
        let mut backoff = Backoff::new();
        loop {
            let attempt = deadline.min(Instant::now() + ATTEMPT_WITHIN);
            let failure = match timeout_at(deadline, self.client()).await {
                Err(_) => late(within),
                Ok(Err(error)) => error,
                Ok(Ok((number, client))) => match timeout_at(attempt, Box::pin(ask(client))).await {
                    Ok(Ok(answer)) => return Ok(answer),
                    Ok(Err(error)) => {
                        let failure = explain(&error, false);
                        if failure.fault != Fault::Unavailable {
                            return Err(failure);
                        }
                        self.failed(number);
                        failure
                    }
                    Err(_) => {
                        self.failed(number);
                        late(ATTEMPT_WITHIN)
                    }
                },
            };
            let pause = backoff.next();
            if Instant::now() + pause >= deadline {
                return Err(failure);
            }
            sleep(pause).await;
        }
    }

    /// Reads something large, once: the caller decides whether to try again, and with a smaller request.
    pub(super) async fn read_large<T, F>(
        &self,
        within: Duration,
        ask: impl FnOnce(Client) -> F,
    ) -> Result<T, Miss>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let client = timeout(within, self.client()).await.unwrap_or_else(|_| Err(late(within)));
        let (number, client) = client.map_err(Miss::Failed)?;
        match timeout(within, Box::pin(ask(client))).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                let failure = explain(&error, false);
                match failure.fault {
                    Fault::TooLarge => return Err(Miss::TooMuch(failure)),
                    Fault::Unavailable => self.failed(number),
                    Fault::Unknown | Fault::Full | Fault::Denied | Fault::Broken => {}
                }
                Err(Miss::Failed(failure))
            }
            Err(_) => {
                self.failed(number);
                Err(Miss::TooMuch(late(within)))
            }
        }
    }
}

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calls").field("made", &self.made.get()).finish_non_exhaustive()
    }
}

fn late(within: Duration) -> SourceError {
    SourceError::new(Fault::Unavailable, format!("etcd does not answer within {} s", within.as_secs_f32()))
}

/// gRPC's status codes.
mod code {
    pub(super) const INVALID_ARGUMENT: i32 = 3;
    pub(super) const PERMISSION_DENIED: i32 = 7;
    pub(super) const RESOURCE_EXHAUSTED: i32 = 8;
    pub(super) const OUT_OF_RANGE: i32 = 11;
    pub(super) const UNIMPLEMENTED: i32 = 12;
    pub(super) const UNAUTHENTICATED: i32 = 16;
}

/// The meaning of an error of etcd, or of the transport. `wrote`: a write was in progress, which may have been made.
pub(super) fn explain(error: &Error, wrote: bool) -> SourceError {
    let (code, message) = if let Error::GRpcStatus(status) = error {
        (status.code() as i32, status.message().to_owned())
    } else {
        (-1, error.to_string())
    };
    let says = |text: &str| message.contains(text);
    let fault = match code {
        // A token that is not known any more, or is older than a change of users: a new login fixes it.
        _ if is_stale_login(code, &message) => Fault::Unavailable,
        code::RESOURCE_EXHAUSTED if says("database space exceeded") => Fault::Full,
        code::RESOURCE_EXHAUSTED if says("too many requests") => Fault::Unavailable,
        // tonic reports an answer above the size limit as out of range.
        code::INVALID_ARGUMENT | code::RESOURCE_EXHAUSTED | code::OUT_OF_RANGE
            if says("too large") || says("larger than max") =>
        {
            Fault::TooLarge
        }
        code::PERMISSION_DENIED => Fault::Denied,
        code::INVALID_ARGUMENT | code::OUT_OF_RANGE | code::UNIMPLEMENTED => Fault::Broken,
        // It may have reached etcd.
        _ if wrote && !never_sent(error) => Fault::Unknown,
        _ => Fault::Unavailable,
    };
    let line = message.lines().next().unwrap_or_default();
    if wrote && fault == Fault::Full {
        // etcd applies the write that exceeds its quota, and then reports the error.
        return SourceError::new(
            fault,
            format!("etcd: {line}; this write may have been made: read the object"),
        );
    }
    SourceError::new(fault, format!("etcd: {line}"))
}

/// Whether etcd does not have the requested revision any more.
pub(super) fn is_compacted(error: &SourceError) -> bool {
    error.fault == Fault::Broken && error.detail.contains("compacted")
}

/// Whether the user has to log in again.
fn is_stale_login(code: i32, message: &str) -> bool {
    // The password may have been changed, and be in its file.
    let changed = message.contains("authentication failed");
    changed
        || code == code::UNAUTHENTICATED
        || message.contains("revision of auth store is old")
        || message.contains("invalid auth token")
}

/// Whether an error means that no connection could be made.
fn never_sent(error: &Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = None;
    if let Error::GRpcStatus(status) = error {
        cause = std::error::Error::source(status);
    } else if let Error::TransportError(error) = error {
        cause = Some(error);
    }
    while let Some(error) = cause {
        // tonic wraps every error while connecting, and only those, in a type that it does not export here.
        let refused = error
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused);
        if refused || format!("{error:?}").starts_with("ConnectError(") {
            return true;
        }
        cause = error.source();
    }
    false
}
