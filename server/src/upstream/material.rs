//! What the files of the upstream's options contain at one moment.
//!
//! Owns where each part comes from: an option, the kubeconfig, or the files of a pod's service account.

use std::fmt;
use std::path::{Path, PathBuf};

use super::kubeconfig::{self, Context, Given};
use super::options::{Endpoint, UpstreamOptions};

/// The files that a pod finds its service account in.
const POD: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// A longer file is a mistake.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The content of the files. It has secrets, and is kept no longer than it takes to make terms of it.
#[derive(Hash)]
pub(super) struct Material {
    pub(super) endpoints: Vec<Endpoint>,
    /// The name in the upstream's certificate, if it is not that of the URL.
    pub(super) server_name: Option<String>,
    pub(super) ca: Option<Vec<u8>>,
    pub(super) token: Option<String>,
    /// A chain and its key.
    pub(super) certificate: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Material").field("endpoints", &self.endpoints).finish_non_exhaustive()
    }
}

impl Material {
    /// Reads the files.
    ///
    /// # Errors
    /// The first that is missing or invalid, and why, as one line.
    pub(super) fn read(options: &UpstreamOptions) -> Result<Self, String> {
        Self::read_with(options, Path::new(POD))
    }

    fn read_with(options: &UpstreamOptions, pod: &Path) -> Result<Self, String> {
        let given = &options.credentials;
        let context = match &given.kubeconfig {
            None => Context::default(),
            Some(path) => {
                kubeconfig::parse(path, &read(path)?).map_err(|why| format!("{}: {why}", path.display()))?
            }
        };
        let own = |option: &Option<PathBuf>, other: Option<Given>| option.clone().map(Given::File).or(other);
        let (cert, key) = given.certificate.clone().unzip();
        let (cert, key) = (own(&cert, context.cert), own(&key, context.key));
        let ca = own(&given.ca, context.ca);
        let token = own(&given.token_file, context.token);
        // In a pod nothing needs to be said.
        let is_silent = given.kubeconfig.is_none() && cert.is_none();
        let in_pod = |name: &str| Some(pod.join(name)).filter(|path| path.exists()).map(Given::File);
        let ca = ca.or_else(|| in_pod("ca.crt").filter(|_| given.kubeconfig.is_none()));
        let token = token.or_else(|| in_pod("token").filter(|_| is_silent));
        let endpoints = match &options.endpoints {
            none if none.is_empty() => context.endpoint.into_iter().collect(),
            given => given.clone(),
        };
        if endpoints.is_empty() {
            return Err("its kubeconfig names no server: give --upstream https://HOST:PORT".to_owned());
        }
        if endpoints.iter().any(|endpoint| endpoint.secure) && ca.is_none() {
            return Err(
                "nothing says by which CA its certificate is verified: give --upstream-ca FILE".to_owned()
            );
        }
        let token = token.map(content).transpose()?.map(token_text).transpose()?;
        let certificate = match (cert, key) {
            (Some(cert), Some(key)) => Some((content(cert)?, content(key)?)),
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => {
                return Err("a client certificate and its key go together: give both, or none".to_owned());
            }
        };
        Ok(Self {
            endpoints,
            server_name: context.server_name,
            ca: ca.map(content).transpose()?,
            token,
            certificate,
        })
    }
}

fn content(given: Given) -> Result<Vec<u8>, String> {
    match given {
        Given::Inline(bytes) => Ok(bytes),
        Given::File(path) => read(&path),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    use std::io::Read as _;
    let broken = |error: std::io::Error| format!("{} cannot be read: {error}", path.display());
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(broken)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(broken)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!(
            "{} has more than {} MiB: name another file",
            path.display(),
            FILE_BYTES_MAX >> 20
        ));
    }
    Ok(bytes)
}

/// A token as a header can have it.
fn token_text(bytes: Vec<u8>) -> Result<String, String> {
    let text = String::from_utf8(bytes).ok().map(|text| text.trim().to_owned());
    let is_token = |text: &String| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    text.filter(is_token).ok_or_else(|| {
        "the server's own token is empty or not one word: write only the token into its file".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::Credentials;

    #[test]
    fn a_pod_needs_no_options() {
        let folder = std::env::temp_dir().join(format!("revcast-pod-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        for (name, text) in
            [("ca.crt", "pod ca"), ("token", "pod-token\n"), ("other", "other"), ("two", "two words")]
        {
            std::fs::write(folder.join(name), text).expect("a file");
        }
        let options = |credentials| UpstreamOptions {
            endpoints: vec![Endpoint::parse("https://kube").expect("a URL")],
            credentials,
            ..UpstreamOptions::default()
        };
        let read = |credentials| Material::read_with(&options(credentials), &folder);
        let pod = read(Credentials::default()).expect("a pod's");
        assert_eq!((pod.ca.as_deref(), pod.token.as_deref()), (Some(&b"pod ca"[..]), Some("pod-token")));
        let other = || Some(folder.join("other"));
        let given =
            read(Credentials { ca: other(), token_file: other(), ..Credentials::default() }).expect("given");
        assert_eq!((given.ca.as_deref(), given.token.as_deref()), (Some(&b"other"[..]), Some("other")));
        // Who has a certificate is not also the pod's service account.
        let pair = || other().zip(other());
        let certificate =
            read(Credentials { certificate: pair(), ..Credentials::default() }).expect("a pair");
        assert_eq!((certificate.token, certificate.certificate.is_some()), (None, true));
        let two = read(Credentials { token_file: Some(folder.join("two")), ..Credentials::default() });
        assert!(two.expect_err("two words").contains("not one word"));
        let none = Material::read_with(&options(Credentials::default()), Path::new("/nowhere"));
        assert!(none.expect_err("no CA").contains("--upstream-ca"));
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
