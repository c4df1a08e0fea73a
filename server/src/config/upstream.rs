//! Options of the upstream: their text, and what they must be together.

use std::time::Duration;

use super::Config;
use super::row::{NONE, Row, Shown, Standard, TRUTH, path, row, show_path};
use crate::setting::{ConfigError, Wrong};
use crate::upstream::{Endpoint, ForwardIdentity, UpstreamOptions};
use crate::value;

/// Options of the upstream as they were given, one by one.
#[derive(Clone, Debug, Default)]
pub(crate) struct UpstreamWanted {
    pub(super) options: UpstreamOptions,
    certificate: Option<std::path::PathBuf>,
    key: Option<std::path::PathBuf>,
}

pub(super) const UPSTREAM: Row = row!(
    "upstream",
    "URLS",
    "kube-apiserver: answers what is not cached",
    NONE,
    |config, text| {
        let endpoints = text.split(',').map(|url| {
            let mend = "give https://HOST:PORT, several with commas";
            Endpoint::parse(url)
                .ok_or_else(|| Wrong::new(format!("\"{url}\" is not a URL of a host and a port"), mend))
        });
        config.upstream_wanted.options.endpoints = endpoints.collect::<Result<_, _>>()?;
        Ok(())
    },
    |config| {
        let all: Vec<String> =
            config.upstream_wanted.options.endpoints.iter().map(ToString::to_string).collect();
        if all.is_empty() { Shown::Unset } else { Shown::Text(all.join(",")) }
    }
);

pub(super) const CA: Row = row!(
    "upstream-ca",
    "FILE",
    "PEM: CA of its certificate",
    Standard::Unset("a pod's"),
    |config, text| {
        config.upstream_wanted.options.credentials.ca = Some(path(text)?);
        Ok(())
    },
    |config| show_path(config.upstream_wanted.options.credentials.ca.as_deref())
);

pub(super) const TOKEN_FILE: Row = row!(
    "upstream-token-file",
    "FILE",
    "revcast's own bearer token there",
    Standard::Unset("a pod's"),
    |config, text| {
        config.upstream_wanted.options.credentials.token_file = Some(path(text)?);
        Ok(())
    },
    |config| show_path(config.upstream_wanted.options.credentials.token_file.as_deref())
);

pub(super) const CERT: Row = row!(
    "upstream-cert",
    "FILE",
    "PEM: revcast's own certificate there",
    NONE,
    |config, text| {
        config.upstream_wanted.certificate = Some(path(text)?);
        Ok(())
    },
    |config| show_path(config.upstream_wanted.certificate.as_deref())
);

pub(super) const KEY: Row = row!(
    "upstream-key",
    "FILE",
    "PEM: its key",
    NONE,
    |config, text| {
        config.upstream_wanted.key = Some(path(text)?);
        Ok(())
    },
    |config| show_path(config.upstream_wanted.key.as_deref())
);

pub(super) const KUBECONFIG: Row = row!(
    "upstream-kubeconfig",
    "FILE",
    "its URL, CA and revcast's own identity",
    NONE,
    |config, text| {
        config.upstream_wanted.options.credentials.kubeconfig = Some(path(text)?);
        Ok(())
    },
    |config| show_path(config.upstream_wanted.options.credentials.kubeconfig.as_deref())
);

pub(super) const IDENTITY: Row = row!(
    "upstream-identity",
    "WAY",
    "forward as client, impersonate, front-proxy",
    Standard::Text("client"),
    |config, text| {
        let mend = "give client, impersonate or front-proxy";
        config.upstream_wanted.options.identity = value::one_of(text, &ForwardIdentity::ALL, "way", mend)?;
        Ok(())
    },
    |config| Shown::Text(config.upstream_wanted.options.identity.to_string())
);

pub(super) const TIMEOUT: Row = row!(
    "upstream-timeout",
    "TIME",
    "for the begin of a forwarded reply",
    Standard::Text("60s"),
    |config, text| {
        let bounds = Duration::from_secs(1)..=Duration::from_secs(3600);
        config.upstream_wanted.options.timeout = value::time(text, bounds)?;
        Ok(())
    },
    |config| Shown::Text(value::show_time(config.upstream_wanted.options.timeout))
);

pub(super) const WRITE_ETCD: Row = row!(
    "write-etcd",
    TRUTH,
    "write into etcd, past admission",
    Standard::Unset("unless a cluster's"),
    |config, text| {
        config.serve.write_etcd = Some(value::truth(text)?);
        Ok(())
    },
    |config| config.serve.write_etcd.map_or(Shown::Unset, Shown::Truth)
);

impl Config {
    /// The API server beside this one; `None`: there is none.
    #[must_use]
    pub fn upstream(&self) -> Option<&UpstreamOptions> {
        Some(&self.upstream_wanted.options).filter(|options| options.is_given())
    }

    /// Combines the options, and refuses those that have no effect.
    pub(super) fn settle_upstream(&mut self) -> Result<(), ConfigError> {
        let wanted = &self.upstream_wanted;
        let refuse =
            |name: &str, problem: &str, mend: &str| Err(self.refused(name, Wrong::new(problem, mend)));
        let options = &wanted.options;
        let pair = "a certificate and its key go together";
        match (&wanted.certificate, &wanted.key) {
            (Some(_), None) => return refuse("upstream-cert", pair, "add --upstream-key FILE"),
            (None, Some(_)) => return refuse("upstream-key", pair, "add --upstream-cert FILE"),
            (Some(_), Some(_)) | (None, None) => {}
        }
        let given = [
            ("upstream-ca", options.credentials.ca.is_some()),
            ("upstream-token-file", options.credentials.token_file.is_some()),
            ("upstream-cert", wanted.certificate.is_some()),
            ("upstream-identity", options.identity != ForwardIdentity::Client),
        ];
        if let Some((name, _)) = given.iter().find(|(_, is)| *is && !options.is_given()) {
            let mend = "add --upstream https://HOST:PORT or --upstream-kubeconfig FILE, or leave it out";
            return refuse(name, "has no effect without an upstream", mend);
        }
        if options.is_given() && self.serve.write_etcd == Some(true) {
            let mend = "leave it out: writes go to the upstream, which admits and validates them";
            return refuse("write-etcd", "with an upstream nothing here writes into the store", mend);
        }
        let secure = options.endpoints.iter().filter(|endpoint| endpoint.secure).count();
        if secure != 0 && secure != options.endpoints.len() {
            return refuse("upstream", "http and https mixed", "give all of them the same scheme");
        }
        let has_certificate = wanted.certificate.is_some() || options.credentials.kubeconfig.is_some();
        if options.identity == ForwardIdentity::FrontProxy && !has_certificate {
            let mend = "add --upstream-cert FILE and --upstream-key FILE: those of the front proxy";
            return refuse("upstream-identity", "a front proxy needs a certificate", mend);
        }
        if let (Some(certificate), Some(key)) = (wanted.certificate.clone(), wanted.key.clone()) {
            self.upstream_wanted.options.credentials.certificate = Some((certificate, key));
        }
        Ok(())
    }
}
