//! A kubeconfig: what its current context says about a cluster and a user.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::options::Endpoint;
use crate::api::yaml;

/// Content, or the file that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Given {
    Inline(Vec<u8>),
    File(PathBuf),
}

/// What the current context says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Context {
    pub(super) endpoint: Option<Endpoint>,
    pub(super) server_name: Option<String>,
    pub(super) ca: Option<Given>,
    pub(super) token: Option<Given>,
    pub(super) cert: Option<Given>,
    pub(super) key: Option<Given>,
}

/// Reads a kubeconfig that stands at `path`, from where its relative paths are counted.
///
/// # Errors
/// What is wrong with it, as one line.
pub(super) fn parse(path: &Path, text: &[u8]) -> Result<Context, String> {
    let config = yaml::to_json(text).map_err(|error| error.to_string())?;
    let current = config.get("current-context").and_then(Value::as_str).filter(|name| !name.is_empty());
    let current = current.ok_or("it has no current-context: set one with kubectl config use-context")?;
    let context = named(&config, "contexts", current)?.get("context").unwrap_or(&Value::Null);
    let name = |key: &str| {
        let name = context.get(key).and_then(Value::as_str);
        name.ok_or_else(|| format!("its context \"{current}\" names no {key}"))
    };
    let cluster = named(&config, "clusters", name("cluster")?)?.get("cluster").unwrap_or(&Value::Null);
    let user = named(&config, "users", name("user")?)?.get("user").unwrap_or(&Value::Null);
    if cluster.get("insecure-skip-tls-verify") == Some(&Value::Bool(true)) {
        return Err("insecure-skip-tls-verify is not supported: give certificate-authority".to_owned());
    }
    if let Some(way) = ["exec", "auth-provider", "username"].into_iter().find(|way| user.get(*way).is_some())
    {
        return Err(format!(
            "its user has {way}, which is not supported: give a token, a tokenFile, or a client certificate"
        ));
    }
    let text = |of: &Value, key: &str| of.get(key).and_then(Value::as_str).map(str::to_owned);
    let file = |of: &Value, key: &str| text(of, key).map(|file| Given::File(beside(path, &file)));
    let data = |of: &Value, key: &str| {
        let encoded = text(of, key);
        encoded.map(|encoded| match STANDARD.decode(encoded.trim()) {
            Ok(bytes) => Ok(Given::Inline(bytes)),
            Err(error) => Err(format!("its {key} is not base64: {error}")),
        })
    };
    let either = |of: &Value, key: &str| match data(of, &format!("{key}-data")) {
        Some(inline) => inline.map(Some),
        None => Ok(file(of, key)),
    };
    let endpoint = text(cluster, "server").map(|url| {
        Endpoint::parse(&url).ok_or_else(|| format!("its server {url} is not a URL of a host and a port"))
    });
    Ok(Context {
        endpoint: endpoint.transpose()?,
        server_name: text(cluster, "tls-server-name"),
        ca: either(cluster, "certificate-authority")?,
        // As client-go: the file wins over the text.
        token: file(user, "tokenFile")
            .or_else(|| text(user, "token").map(|token| Given::Inline(token.into_bytes()))),
        cert: either(user, "client-certificate")?,
        key: either(user, "client-key")?,
    })
}

/// The entry of a list by its name.
fn named<'a>(config: &'a Value, list: &str, name: &str) -> Result<&'a Value, String> {
    let entries = config.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let found = entries.iter().find(|entry| entry.get("name").and_then(Value::as_str) == Some(name));
    found.ok_or_else(|| format!("its {list} have no \"{name}\""))
}

fn beside(config: &Path, file: &str) -> PathBuf {
    config.parent().map_or_else(|| PathBuf::from(file), |folder| folder.join(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "apiVersion: v1
kind: Config
current-context: a
contexts:
- name: b
  context: {cluster: other, user: other}
- name: a
  context: {cluster: c, user: u}
clusters:
- name: c
  cluster:
    server: https://kube:6443
    certificate-authority-data: YWJj
    tls-server-name: kubernetes
users:
- name: u
  user:
    tokenFile: token
    client-certificate: /abs/cert.pem
    client-key-data: a2V5
";

    #[test]
    fn the_current_context_counts() {
        let context = parse(Path::new("/etc/kube/config"), CONFIG.as_bytes()).expect("a kubeconfig");
        let expected = Context {
            endpoint: Endpoint::parse("https://kube:6443"),
            server_name: Some("kubernetes".to_owned()),
            ca: Some(Given::Inline(b"abc".to_vec())),
            token: Some(Given::File("/etc/kube/token".into())),
            cert: Some(Given::File("/abs/cert.pem".into())),
            key: Some(Given::Inline(b"key".to_vec())),
        };
        assert_eq!(context, expected);
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (from, to, says) in [
            ("current-context: a", "x: a", "no current-context"),
            ("current-context: a", "current-context: z", "its contexts have no \"z\""),
            ("user: u}", "user: v}", "its users have no \"v\""),
            ("cluster: c,", "", "names no cluster"),
            ("tokenFile: token", "exec: {}", "its user has exec, which is not supported"),
            ("tls-server-name: kubernetes", "insecure-skip-tls-verify: true", "insecure-skip-tls-verify"),
            ("YWJj", "'*'", "certificate-authority-data is not base64"),
            ("https://kube:6443", "kube", "its server kube is not a URL"),
            ("apiVersion: v1", "{", "yaml"),
        ] {
            let error = parse(Path::new("config"), CONFIG.replace(from, to).as_bytes()).expect_err(says);
            assert!(error.contains(says), "{error}");
        }
    }
}
