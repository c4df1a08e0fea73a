//! A server beside an upstream: both are revcasts in front of the same etcd, and the first forwards what it does not serve from its
//! cache to the second.
//!
//! [`Beside`] is as strict as a cluster: TLS, users with tokens and rules, an etcd with authentication. The front's etcd user may
//! only read, so each write of its clients is the upstream's, whose audit log names the client.

use std::fs;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::certs::{Authority, Identity};
use crate::etcd::{Access, Account, Control, Etcd, Options};
use crate::server::{Scratch, Server};
use crate::shared_options::{RELEASE, shared};
use crate::tls::Trust;

/// Whose requests the clients send, at both servers.
const USER: &str = "jane";
const TOKEN: &str = "janes-token-at-both";
/// The front's user at etcd.
const READER: Account<'static> =
    Account { name: "front", password: "reads", grants: &[(Access::Read, "/registry/")] };
const ROOT_PASSWORD: &str = "writes";

const RULES: &str = r#"
[[rule]]
users = ["jane"]
verbs = ["*"]
resources = ["*"]
namespaces = ["*"]

[[rule]]
users = ["jane"]
verbs = ["*"]
paths = ["*"]
"#;

/// How long the last lines of an audit log may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A front, its upstream, and the etcd of both.
#[derive(Debug)]
pub struct Beside {
    front: Server,
    upstream: Server,
    etcd: Etcd,
    authority: Authority,
    folder: Scratch,
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
        let folder = Scratch::new(&format!("beside-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        let file = |name: &str, text: &str| {
            let path = format!("{}/{name}", folder.path());
            let private = |_| fs::set_permissions(&path, fs::Permissions::from_mode(0o600));
            fs::write(&path, text).and_then(private).expect("the folder can be written");
            path
        };
        let authority = Authority::new(folder.path().as_ref(), "ca");
        let ca = authority.certificate();
        let Identity { cert, key } = authority.server();
        let text = |path: &PathBuf| path.display().to_string();
        let (ca_file, cert, key) = (text(&ca), text(&cert), text(&key));
        let tokens = file("tokens.csv", &format!("{TOKEN},{USER},1\n"));
        let rules = file("rules.toml", RULES);
        let (root, reader) = (file("root", ROOT_PASSWORD), file("reader", READER.password));
        let audit = format!("{}/audit.log", folder.path());

        let etcd = Etcd::start(RELEASE, Options::default());
        etcd.control().auth_enable(ROOT_PASSWORD, &[READER]).expect("etcd takes users");
        let endpoint = etcd.endpoint();
        let users = ["--token-auth-file", &tokens, "--authorization-rules", &rules];
        let both =
            [&users[..], &["--tls-cert", &cert, "--tls-key", &key, "--etcd-endpoints", &endpoint]].concat();
        let trust = Trust::of(&ca);
        let own =
            ["--etcd-user", "root", "--etcd-password-file", &root, "--audit-log", &audit, "--shards", "1"];
        let upstream = [&both, &own[..], &shared(options)].concat();
        let upstream = Server::start_with_tls(&trust, &upstream).for_bearers_of(TOKEN);
        let url = format!("https://{}", upstream.address);
        let own = ["--etcd-user", READER.name, "--etcd-password-file", &reader, "--etcd-watch", "prefix"];
        let forwards = ["--upstream", &url, "--upstream-ca", &ca_file];
        let front = [&both, &own[..], &forwards, options].concat();
        let front = Server::start_with_tls(&trust, &front).for_bearers_of(TOKEN);
        Self { front, upstream, etcd, authority, folder }
    }

    /// Where clients connect: the front.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}", self.front.address)
    }

    /// PEM: the CA of its certificate.
    #[must_use]
    pub fn ca(&self) -> PathBuf {
        self.authority.certificate()
    }

    /// The token of its clients.
    #[must_use]
    pub const fn token(&self) -> &'static str {
        TOKEN
    }

    /// A file with the three of them, in the form of kubectl.
    ///
    /// # Panics
    /// When it cannot be written.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        let path = PathBuf::from(self.folder.path()).join("kubeconfig");
        let cluster = json!({"server": self.url(), "certificate-authority": self.ca()});
        let content = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "front",
            "clusters": [{"name": "front", "cluster": cluster}],
            "users": [{"name": USER, "user": {"token": TOKEN}}],
            "contexts": [{"name": "front", "context": {"cluster": "front", "user": USER}}],
        });
        fs::write(&path, content.to_string()).expect("the folder can be written");
        path
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
            let log = fs::read_to_string(format!("{}/audit.log", self.folder.path()));
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
