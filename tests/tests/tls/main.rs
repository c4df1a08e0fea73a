//! TLS with a real server: every kind of request and watch over it, client certificates, failing and stalling
//! handshakes, and certificates that change.
#![allow(clippy::unwrap_used)]

mod certificates;
mod clients;
mod handshakes;
mod watches;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use revcast_tests::certs::{Authority, Identity};
use revcast_tests::client::Client;
use revcast_tests::server::{Scratch, Server};
use revcast_tests::tls::Trust;
use serde_json::json;

const PATH: &str = "/api/v1/namespaces/s/configmaps";

/// A server with a certificate, and its authority.
struct Stand {
    server: Server,
    authority: Authority,
    identity: Identity,
    trust: Trust,
    scratch: Scratch,
}

const EVERYBODY: &str = r#"
[[rule]]
groups = ["system:authenticated", "system:unauthenticated"]
verbs = ["*"]
resources = ["*"]
namespaces = ["*"]
[[rule]]
groups = ["system:authenticated", "system:unauthenticated"]
verbs = ["get"]
paths = ["/*"]
"#;

impl Stand {
    /// `options`: more of them. `asks`: whether clients are asked for certificates.
    fn new(name: &str, asks: bool, options: &[&str]) -> Self {
        let scratch = Scratch::new(name);
        let authority = Authority::new(Path::new(scratch.path()), "ca");
        let identity = authority.server();
        let trust = Trust::of(&authority.certificate());
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let mut all =
            vec!["--tls-cert".to_owned(), text(&identity.cert), "--tls-key".to_owned(), text(&identity.key)];
        if asks {
            // Access without a certificate is another test's subject.
            let rules = format!("{}/rules", scratch.path());
            std::fs::write(&rules, EVERYBODY).unwrap();
            let open = ["--anonymous-auth", "true", "--authorization-rules", &rules].map(str::to_owned);
            all.extend(
                ["--tls-client-ca".to_owned(), text(&authority.certificate())].into_iter().chain(open),
            );
        }
        all.extend(options.iter().map(|option| (*option).to_owned()));
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        Self { server: Server::start_with_tls(&trust, &all), authority, identity, trust, scratch }
    }

    fn client(&self) -> Client {
        self.server.client()
    }

    fn client_with(&self, trust: &Trust) -> Client {
        Client::over_tls(&self.server.address, trust)
    }

    /// How many handshakes ended so.
    fn handshakes<const N: usize>(&self, results: [&str; N]) -> [u64; N] {
        results
            .map(|result| self.server.metric(&format!("revcast_tls_handshakes_total{{result=\"{result}\"}}")))
    }

    /// Waits until so many have: one that fails is counted when its client has had time to read why.
    fn wait_for_handshakes<const N: usize>(&self, results: [&str; N], wanted: [u64; N]) {
        let since = Instant::now();
        while self.handshakes(results) != wanted {
            let now = self.handshakes(results);
            assert!(since.elapsed() < Duration::from_secs(5), "{results:?}: {now:?}, not {wanted:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// `https://127.0.0.1:PORT`
    fn url(&self) -> String {
        format!("https://{}", self.server.address)
    }
}

/// Creates `count` objects on one connection: `n0`, `n1`, ...
fn write(client: &Client, count: usize, size: usize) {
    let mut connection = client.connect().unwrap();
    for number in 0..count {
        let object = json!({"metadata": {"name": format!("n{number}")}, "data": {"k": "x".repeat(size)}});
        let reply = connection.request("POST", PATH, &[], object.to_string().as_bytes()).unwrap();
        assert_eq!(reply.status, 201, "{}", reply.text());
    }
}

fn create(client: &Client, name: &str) {
    let reply = client.send("POST", PATH, &json!({"metadata": {"name": name}}));
    assert_eq!(reply.status, 201, "{}", reply.text());
}

/// Whether a program is installed. If not, prints a notice that the test harness does not capture.
fn is_there(program: &str, ask: &[&str]) -> bool {
    use std::io::Write as _;
    if Command::new(program).args(ask).output().is_ok_and(|output| output.status.success()) {
        return true;
    }
    let _ = writeln!(std::io::stderr(), "!!! SKIPPED: no {program} on the PATH, so this tests nothing");
    false
}
