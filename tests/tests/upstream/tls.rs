//! TLS to the upstream: whom the server trusts there, and as whom it speaks.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use revcast_tests::certs::Authority;
use revcast_tests::client::Client;
use revcast_tests::server::{Scratch, Server};
use revcast_tests::tls::{Trust, Version};
use revcast_tests::upstream::Upstream;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A server before this upstream.
fn before(upstream: &Upstream, options: &[&str]) -> Server {
    let url = upstream.url();
    Server::start(&[&["--upstream", &url, "--shards", "1"][..], options].concat())
}

/// Asserts that the upstream is not trusted, and that the client is told why.
fn assert_refused(server: &Server, upstream: &Upstream, says: &str) {
    let reply = server.client().request("POST", "/x", &[], b"secret");
    assert_eq!(reply.status, 502, "{}", reply.text());
    let message = reply.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains(says) && message.contains(&upstream.url()), "{message}");
    assert_eq!(upstream.asked().len(), 0, "nothing is sent to it");
}

#[test]
fn the_upstream_must_be_the_one_that_is_meant() {
    let scratch = Scratch::new("upstream-trust");
    let folder = Path::new(scratch.path());
    let (right, wrong) = (Authority::new(folder, "right"), Authority::new(folder, "wrong"));
    let (of_right, of_wrong) = (right.certificate(), wrong.certificate());
    let upstream = Upstream::start_with_tls(&right.server(), None);
    let server = before(&upstream, &["--upstream-ca", text(&of_right)]);
    assert_eq!(server.client().get("/x").text(), "/x");
    assert_eq!(upstream.last().header("host"), Some(upstream.address()));
    for number in 0..20 {
        assert_eq!(server.client().request("POST", "/x", &[], b"body").status, 200, "{number}");
    }
    assert_eq!(upstream.accepted(), 1, "connections with TLS are used again");
    // Of another authority.
    let strange = Upstream::start_with_tls(&right.server(), None);
    assert_refused(&before(&strange, &["--upstream-ca", text(&of_wrong)]), &strange, "UnknownIssuer");
    // Of another name.
    let other = Upstream::start_with_tls(&right.server_named(&["kube.example"]), None);
    assert_refused(&before(&other, &["--upstream-ca", text(&of_right)]), &other, "kube.example");
    // No TLS at all, and TLS where none is expected.
    let plain = Upstream::start();
    let url = plain.url().replace("http:", "https:");
    let server = Server::start(&["--upstream", &url, "--upstream-ca", text(&of_right)]);
    assert_eq!(server.client().get("/x").status, 502);
    assert_eq!(plain.asked().len(), 0);
    let secure = Upstream::start_with_tls(&right.server(), None);
    let server = Server::start(&["--upstream", &secure.url().replace("https:", "http:")]);
    assert_eq!(server.client().get("/x").status, 502);
    assert_eq!(secure.asked().len(), 0);
}

/// Server and client with certificates: the client's cannot be passed on, so the server acts for it.
struct Impersonating {
    upstream: Upstream,
    server: Server,
    jane: Client,
    nobody: Client,
    _scratch: Scratch,
}

const EVERYBODY: &str = r#"
[[rule]]
groups = ["system:authenticated", "system:unauthenticated"]
verbs = ["*"]
resources = ["*"]
namespaces = ["*"]
[[rule]]
groups = ["system:authenticated", "system:unauthenticated"]
verbs = ["*"]
paths = ["/*"]
"#;

impl Impersonating {
    /// `own`: the options of the server's own credentials.
    fn new(name: &str, own: impl FnOnce(&Path, &Authority, &Upstream) -> Vec<String>) -> Self {
        let scratch = Scratch::new(name);
        let folder = PathBuf::from(scratch.path());
        let authority = Authority::new(&folder, "ca");
        let identity = authority.server();
        let upstream = Upstream::start_with_tls(&identity, Some(&authority.certificate()));
        let rules = folder.join("rules");
        fs::write(&rules, EVERYBODY).unwrap();
        let ca = authority.certificate();
        let mut options: Vec<String> = [
            ("--tls-cert", text(&identity.cert)),
            ("--tls-key", text(&identity.key)),
            ("--tls-client-ca", text(&ca)),
            ("--anonymous-auth", "true"),
            ("--authorization-rules", text(&rules)),
            ("--shards", "1"),
        ]
        .iter()
        .flat_map(|(name, value)| [(*name).to_owned(), (*value).to_owned()])
        .collect();
        options.extend(own(&folder, &authority, &upstream));
        let trust = Trust::of(&ca);
        let server = Server::start_with_tls(&trust, &options.iter().map(String::as_str).collect::<Vec<_>>());
        let jane =
            Client::over_tls(&server.address, &trust.showing(Version::V1_3, &authority.client("jane")));
        let nobody = server.client();
        Self { upstream, server, jane, nobody, _scratch: scratch }
    }
}

#[test]
fn a_token_that_rotates_is_read_again() {
    let pair = Impersonating::new("upstream-token", |folder, authority, upstream| {
        fs::write(folder.join("token"), "first\n").unwrap();
        let (ca, token) = (authority.certificate(), folder.join("token"));
        [
            ("--upstream", upstream.url().as_str()),
            ("--upstream-ca", text(&ca)),
            ("--upstream-token-file", text(&token)),
            ("--upstream-identity", "impersonate"),
        ]
        .iter()
        .flat_map(|(name, value)| [(*name).to_owned(), (*value).to_owned()])
        .collect()
    });
    let headers = [
        ("X-Remote-User", "admin"),
        ("X-Remote-Group", "system:masters"),
        ("Cookie", "session=1"),
        ("Accept", "application/json"),
    ];
    let reply = pair.jane.request("GET", "/x", &headers, b"");
    assert_eq!(reply.status, 200, "{}", reply.text());
    let asked = pair.upstream.last();
    assert_eq!(asked.header("authorization").as_deref(), Some("Bearer first"));
    assert_eq!(asked.header("impersonate-user").as_deref(), Some("jane"));
    assert_eq!(asked.headers("impersonate-group"), ["system:authenticated"]);
    assert!(
        asked.names().iter().all(|name| !name.starts_with("x-remote-") && name != "cookie"),
        "{}",
        asked.text()
    );
    // What a client with its own credentials sends goes through, and never the server's.
    assert_eq!(pair.nobody.get("/x").status, 200);
    let asked = pair.upstream.last();
    assert!(asked.headers("authorization").is_empty() && asked.headers("impersonate-user").is_empty());
    let accepted = pair.upstream.accepted();
    fs::write(Path::new(pair._scratch.path()).join("token"), "second").unwrap();
    let since = Instant::now();
    loop {
        assert_eq!(pair.jane.get("/x").status, 200);
        match pair.upstream.last().header("authorization").as_deref() {
            Some("Bearer second") => break,
            other => assert_eq!(other, Some("Bearer first")),
        }
        assert!(since.elapsed() < Duration::from_secs(20), "it is not read again");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(pair.upstream.accepted() > accepted, "and the old connections are not used any more");
    assert_eq!(pair.server.client().get("/readyz").status, 200);
}

#[test]
fn a_kubeconfig_says_everything() {
    let pair = Impersonating::new("upstream-kubeconfig", |folder, authority, upstream| {
        let ca = STANDARD.encode(fs::read(authority.certificate()).unwrap());
        // The name in the certificate is not that of the URL.
        let port = upstream.address().split(':').nth(1).unwrap().to_owned();
        let config = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: here\ncontexts:\n- name: here\n  context: {{cluster: c, user: u}}\n\
             clusters:\n- name: c\n  cluster:\n    server: https://127.0.0.1:{port}\n    certificate-authority-data: {ca}\n    \
             tls-server-name: localhost\nusers:\n- name: u\n  user:\n    tokenFile: own-token\n"
        );
        fs::write(folder.join("own-token"), "of-the-file").unwrap();
        fs::write(folder.join("kubeconfig"), config).unwrap();
        let config = folder.join("kubeconfig");
        ["--upstream-kubeconfig", text(&config), "--upstream-identity", "impersonate"]
            .map(str::to_owned)
            .to_vec()
    });
    assert_eq!(pair.jane.get("/x").text(), "/x");
    let asked = pair.upstream.last();
    assert_eq!(asked.header("authorization").as_deref(), Some("Bearer of-the-file"));
    assert_eq!(asked.header("impersonate-user").as_deref(), Some("jane"));
}

/// Without an identity that can be passed on, a client with a certificate is refused, and told what to do.
#[test]
fn a_certificate_is_not_passed_on_as_nobody() {
    let pair = Impersonating::new("upstream-client", |_, authority, upstream| {
        let ca = authority.certificate();
        ["--upstream", &upstream.url(), "--upstream-ca", text(&ca)].map(str::to_owned).to_vec()
    });
    let reply = pair.jane.get("/x");
    assert_eq!(reply.status, 403, "{}", reply.text());
    assert!(reply.text().contains("--upstream-identity"), "{}", reply.text());
    assert_eq!(pair.upstream.asked().len(), 0);
    let headers = [("authorization", "Bearer abc")];
    assert_eq!(pair.jane.request("GET", super::CACHED, &headers, b"").status, 200);
    assert_eq!(pair.nobody.get("/x").status, 200);
}

#[test]
fn front_proxy_names_the_user() {
    let pair = Impersonating::new("upstream-front-proxy", |_, authority, upstream| {
        let (ca, own) = (authority.certificate(), authority.client("front-proxy"));
        [
            ("--upstream", upstream.url().as_str()),
            ("--upstream-ca", text(&ca)),
            ("--upstream-cert", text(&own.cert)),
            ("--upstream-key", text(&own.key)),
            ("--upstream-identity", "front-proxy"),
        ]
        .iter()
        .flat_map(|(name, value)| [(*name).to_owned(), (*value).to_owned()])
        .collect()
    });
    let headers = [("X-Remote-User", "admin"), ("x-remote-extra-a", "b"), ("Connection", "X-Remote-User")];
    assert_eq!(pair.jane.request("GET", "/x", &headers, b"").status, 200);
    let asked = pair.upstream.last();
    assert_eq!(asked.header("x-remote-user").as_deref(), Some("jane"));
    assert_eq!(asked.headers("x-remote-group"), ["system:authenticated"]);
    assert!(asked.headers("x-remote-extra-a").is_empty() && asked.headers("authorization").is_empty());
    let own = Path::new(pair._scratch.path()).join("ca-front-proxy.pem");
    assert_eq!(asked.certificate, CertificateDer::from_pem_file(&own).unwrap().to_vec());
    // A client's own credentials, or none, beside that certificate would be taken for the server's.
    for headers in [&[("Authorization", "Bearer abc")][..], &[]] {
        assert_eq!(pair.nobody.request("GET", "/x", headers, b"").status, 200);
        let asked = pair.upstream.last();
        assert!(asked.certificate.is_empty() && asked.headers("x-remote-user").is_empty());
    }
}
