//! Servers over one etcd that follow each other at one address: by a take-over, or by a kill and another start.

use std::path::Path;
use std::time::Duration;

use crate::certs::Authority;
use crate::etcd::{Etcd, Release};
use crate::port::Port;
use crate::server::{Scratch, Server};
use crate::tls::Trust;

/// Until a server has ended, beside its grace.
pub const WITHIN: Duration = Duration::from_secs(30);

/// Until this many clients have everything, on a busy machine.
#[must_use]
pub fn within(clients: usize) -> Duration {
    WITHIN + Duration::from_millis(10) * u32::try_from(clients).unwrap_or(u32::MAX)
}

/// What happens to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Another one takes over from it.
    TakeOver,
    /// It is killed, and another one is started.
    Restart,
    /// The same, and etcd is killed (3.5: stopped) and started between them.
    RestartWithEtcd,
}

/// What servers show, and clients trust.
#[derive(Debug)]
pub struct Certificate {
    /// Of its authority.
    pub trust: Trust,
    options: [String; 4],
    _folder: Scratch,
}

impl Certificate {
    /// In a new folder; `name` is part of its name.
    ///
    /// # Panics
    /// When it cannot be written.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let folder = Scratch::new(name);
        let authority = Authority::new(Path::new(folder.path()), "ca");
        let identity = authority.server();
        let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
        let options =
            ["--tls-cert".to_owned(), path(&identity.cert), "--tls-key".to_owned(), path(&identity.key)];
        Self { trust: Trust::of(&authority.certificate()), options, _folder: folder }
    }
}

/// Where a server is replaced: no client of it may be given its port while it is away.
#[derive(Debug)]
pub struct Place {
    _ports: [Port; 2],
    /// Its addresses, for clients and for operators.
    addresses: [String; 2],
}

impl Place {
    /// One that nobody has.
    #[must_use]
    pub fn free() -> Self {
        let ports = [(); 2].map(|()| Port::free());
        let addresses = [&ports[0], &ports[1]].map(|port| format!("127.0.0.1:{}", port.number()));
        Self { _ports: ports, addresses }
    }

    /// The options of the first server there.
    #[must_use]
    pub fn options(&self) -> [&str; 4] {
        ["--listen", &self.addresses[0], "--admin-listen", &self.addresses[1]]
    }
}

/// A server over an etcd, which ends its watches over `grace`; over TLS with a certificate.
///
/// # Panics
/// When it does not start.
#[must_use]
pub fn serve(etcd: &Etcd, tls: Option<&Certificate>, grace: Duration, options: &[&str]) -> Server {
    let (endpoint, grace) = (etcd.endpoint(), format!("{}ms", grace.as_millis()));
    let own = [
        "--etcd-endpoints",
        &endpoint,
        "--drain-grace",
        &grace,
        "--bookmark-interval",
        "1s",
        "--shards",
        "2",
    ];
    let all = [&own, options].concat();
    match tls {
        None => Server::start(&all),
        Some(Certificate { trust, options, .. }) => {
            let shown: Vec<&str> = options.iter().map(String::as_str).collect();
            Server::start_with_tls(trust, &[&shown[..], &all].concat())
        }
    }
}

/// One that takes over from it.
///
/// # Panics
/// When it does not start.
#[must_use]
pub fn succeed(
    etcd: &Etcd,
    tls: Option<&Certificate>,
    old: &Server,
    grace: Duration,
    options: &[&str],
) -> Server {
    let own = ["--listen", &old.address, "--admin-listen", &old.admin, "--take-over"];
    let new = serve(etcd, tls, grace, &[&own, options].concat());
    assert_eq!((&new.address, &new.admin), (&old.address, &old.admin));
    new
}

/// Replaces a server by another one with this number of shards, which may be another number.
///
/// # Panics
/// When one does not end or start.
pub fn change(
    what: Change,
    etcd: &mut Etcd,
    tls: Option<&Certificate>,
    server: &mut Server,
    grace: Duration,
    shards: usize,
) {
    let shards = shards.to_string();
    if what == Change::TakeOver {
        let new = succeed(etcd, tls, server, grace, &["--shards", &shards]);
        let mut old = std::mem::replace(server, new);
        assert_eq!(old.await_end(grace + WITHIN), 0, "the old one ends in order");
        return;
    }
    let (address, admin) = (server.address.clone(), server.admin.clone());
    server.kill_at_once();
    if what == Change::RestartWithEtcd {
        // Killed under writes 3.5.1 repeats or loses some that it has sent (etcd #13766): no log would tell what clients should have.
        if etcd.release() == Release::V3_4 {
            etcd.kill();
        }
        etcd.restart();
    }
    let options = ["--listen", &address, "--admin-listen", &admin, "--shards", &shards];
    *server = serve(etcd, tls, grace, &options);
}
