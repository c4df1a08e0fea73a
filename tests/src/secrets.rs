//! What a server with TLS and one user needs, and what its clients need to know: files in a folder.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::json;

use crate::certs::{Authority, Identity};
use crate::server::Scratch;
use crate::tls::Trust;

/// Whose requests the clients send.
pub const USER: &str = "jane";
const TOKEN: &str = "janes-token-everywhere";

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

/// A certificate, a token, and rules that allow its user everything.
#[derive(Debug)]
pub struct Secrets {
    authority: Authority,
    identity: Identity,
    tokens: String,
    rules: String,
    folder: Scratch,
}

impl Secrets {
    /// In a new folder; `name` is part of its name.
    ///
    /// # Panics
    /// When it cannot be written.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let folder = Scratch::new(name);
        let authority = Authority::new(folder.path().as_ref(), "ca");
        let identity = authority.server();
        let (tokens, rules) = (String::new(), String::new());
        let mut secrets = Self { authority, identity, tokens, rules, folder };
        secrets.tokens = secrets.file("tokens.csv", &format!("{TOKEN},{USER},1\n"));
        secrets.rules = secrets.file("rules.toml", RULES);
        secrets
    }

    /// A file that only its owner may read; its path.
    ///
    /// # Panics
    /// When it cannot be written.
    #[must_use]
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        let private = |()| fs::set_permissions(&path, fs::Permissions::from_mode(0o600));
        fs::write(&path, text).and_then(private).expect("the folder can be written");
        path
    }

    /// The path of a file that is written by others.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder.path())
    }

    /// The options of the server.
    ///
    /// # Panics
    /// When a path is not UTF-8.
    #[must_use]
    pub fn options(&self) -> [&str; 8] {
        let Identity { cert, key } = &self.identity;
        let (cert, key) = (cert.to_str().expect("UTF-8"), key.to_str().expect("UTF-8"));
        let users = ["--token-auth-file", &self.tokens, "--authorization-rules", &self.rules];
        let [tokens, file, rules, rules_file] = users;
        ["--tls-cert", cert, "--tls-key", key, tokens, file, rules, rules_file]
    }

    /// PEM: the CA of its certificate.
    #[must_use]
    pub fn ca(&self) -> PathBuf {
        self.authority.certificate()
    }

    /// The same for clients of these tests.
    #[must_use]
    pub fn trust(&self) -> Trust {
        Trust::of(&self.ca())
    }

    /// The token of its clients.
    #[must_use]
    pub const fn token(&self) -> &'static str {
        TOKEN
    }

    /// A file with both and the server's address, in the form of kubectl.
    ///
    /// # Panics
    /// When it cannot be written.
    #[must_use]
    pub fn kubeconfig(&self, url: &str) -> PathBuf {
        let cluster = json!({"server": url, "certificate-authority": self.ca()});
        let content = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "front",
            "clusters": [{"name": "front", "cluster": cluster}],
            "users": [{"name": USER, "user": {"token": TOKEN}}],
            "contexts": [{"name": "front", "context": {"cluster": "front", "user": USER}}],
        });
        self.file("kubeconfig", &content.to_string()).into()
    }
}
