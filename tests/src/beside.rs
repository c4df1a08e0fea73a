//! A server beside an upstream: both are revcasts in front of the same etcd, and the first forwards what it does not serve from its
//! cache to the second.
//!
//! [`Beside`] is as strict as a cluster: TLS, users with tokens and rules, an etcd with authentication. The front's etcd user may
//! only read, so each write of its clients is the upstream's, whose audit log names the client.

use std::fs;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::etcd::{Access, Account, Control, Etcd, Options};
use crate::secrets::{Secrets, USER};
use crate::server::Server;
use crate::shared_options::{RELEASE, shared};

/// The front's user at etcd.
const READER: Account<'static> =
    Account { name: "front", password: "reads", grants: &[(Access::Read, "/registry/")] };
const ROOT_PASSWORD: &str = "writes";

/// How long the last lines of an audit log may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A front, its upstream, and the etcd of both.
#[derive(Debug)]
pub struct Beside {
    front: Server,
    upstream: Server,
    etcd: Etcd,
    secrets: Secrets,
}

impl Deref for Beside {
    type Target = Server;

    /// The front.
    fn deref(&self) -> &Server {
        &self.front
    }
}

impl Beside {
    /// Starts all of them; the options are the front's.
    ///
    /// # Panics
    /// When one does not start.
    #[must_use]
    pub fn start(options: &[&str]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let secrets = Secrets::new(&format!("beside-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        let ca_file = secrets.ca().display().to_string();
        let (root, reader) = (secrets.file("root", ROOT_PASSWORD), secrets.file("reader", READER.password));
        let audit = secrets.path("audit.log");

        let etcd = Etcd::start(RELEASE, Options::default());
        etcd.control().auth_enable(ROOT_PASSWORD, &[READER]).expect("etcd takes users");
        let endpoint = etcd.endpoint();
        let both = [&secrets.options()[..], &["--etcd-endpoints", &endpoint]].concat();
        let trust = secrets.trust();
        let own =
            ["--etcd-user", "root", "--etcd-password-file", &root, "--audit-log", &audit, "--shards", "1"];
        let upstream = [&both, &own[..], &shared(options)].concat();
        let upstream = Server::start_with_tls(&trust, &upstream).for_bearers_of(secrets.token());
        let url = format!("https://{}", upstream.address);
        let own = ["--etcd-user", READER.name, "--etcd-password-file", &reader, "--etcd-watch", "prefix"];
        let forwards = ["--upstream", &url, "--upstream-ca", &ca_file];
        let front = [&both, &own[..], &forwards, options].concat();
        let front = Server::start_with_tls(&trust, &front).for_bearers_of(secrets.token());
        Self { front, upstream, etcd, secrets }
    }

    /// Where clients connect: the front.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}", self.front.address)
    }

    /// PEM: the CA of its certificate.
    #[must_use]
    pub fn ca(&self) -> PathBuf {
        self.secrets.ca()
    }

    /// The token of its clients.
    #[must_use]
    pub const fn token(&self) -> &'static str {
        self.secrets.token()
    }

    /// A file with the three of them, in the form of kubectl.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.secrets.kubeconfig(&self.url())
    }

    /// Checks that the writes of the clients were the upstream's, and that none was the front's. What was seen, in a line.
    ///
    /// # Errors
    /// What is not so, in a line.
    pub fn check(&self) -> Result<String, String> {
        let writes = self.writes_of_upstream()?;
        self.front_cannot_write()?;
        let forwarded = self.front.metric("revcast_upstream_requests_total");
        let failed = self.front.metric("revcast_upstream_failures_total");
        if failed > 0 {
            return Err(format!("{failed} of {forwarded} forwarded requests got no complete reply"));
        }
        if forwarded < writes {
            return Err(format!(
                "the front forwarded {forwarded} requests, the upstream had {writes} writes"
            ));
        }
        Ok(format!("{forwarded} requests forwarded, {writes} writes of {USER} in the upstream's audit log"))
    }

    /// How many writes of the user the upstream has in its audit log: at least one.
    fn writes_of_upstream(&self) -> Result<u64, String> {
        let began = Instant::now();
        loop {
            let log = fs::read_to_string(self.secrets.path("audit.log"));
            let log = log.map_err(|error| format!("the upstream's audit log: {error}"))?;
            let entries = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let writes: Vec<Value> = entries.filter(is_write).collect();
            if let Some(other) = writes.iter().find(|entry| entry["user"]["username"] != USER) {
                return Err(format!("a write of another user in the upstream's audit log: {other}"));
            }
            let done = writes.iter().filter(|entry| entry["stage"] == "ResponseComplete").count();
            let made = writes.iter().filter(|entry| entry["responseStatus"]["code"].as_u64() < Some(300));
            let made = made.filter(|entry| entry["stage"] == "ResponseComplete").count();
            // Each has two lines, the second of which may be on its way.
            if made > 0 && done * 2 == writes.len() {
                return Ok(done as u64);
            }
            if began.elapsed() > PATIENCE {
                return Err(format!(
                    "{made} writes in the upstream's audit log, {done} of {} lines complete",
                    writes.len()
                ));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// etcd refuses each write of the front's user, and lets it read.
    fn front_cannot_write(&self) -> Result<(), String> {
        let front: Control = self.etcd.control().as_user(READER.name, READER.password);
        let listed =
            front.list("/registry/", None).map_err(|why| format!("the front's user cannot read: {why}"))?;
        let key = listed.entries.first().map_or("/registry/x", |entry| entry.key.as_str());
        for (what, result) in [("put", front.put(key, "x").map(drop)), ("delete", front.del(key).map(drop))] {
            match result {
                Err(why) if why.contains("permission denied") => {}
                Err(why) => return Err(format!("a {what} of the front's etcd user failed otherwise: {why}")),
                Ok(()) => return Err(format!("the front's etcd user may {what} {key}")),
            }
        }
        Ok(())
    }

    /// The server that writes.
    #[must_use]
    pub const fn upstream(&self) -> &Server {
        &self.upstream
    }
}

fn is_write(entry: &Value) -> bool {
    matches!(entry["verb"].as_str(), Some("create" | "update" | "patch" | "delete" | "deletecollection"))
}
