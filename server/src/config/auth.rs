//! Options of authentication and authorization: their text, and what they must be together.
//!
//! What the files that they name say is the module `auth`'s.

use std::path::PathBuf;

use super::Config;
use super::row::{NONE, Row, Shown, Standard, TRUTH, path, row, show_path};
use crate::auth::{OidcOptions, Options, exposure::Exposure};
use crate::http::host::Hosts;
use crate::setting::{ConfigError, Wrong};
use crate::value;

/// What was asked for, one by one.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuthWanted {
    token_file: Option<PathBuf>,
    issuer: Option<String>,
    client: Option<String>,
    keys: Option<PathBuf>,
    username_claim: String,
    username_prefix: Option<String>,
    groups_claim: Option<String>,
    groups_prefix: Option<String>,
    rules: Option<PathBuf>,
    anonymous: Option<bool>,
    insecure: bool,
    hosts: Hosts,
}

fn text(text: &str) -> Result<Option<String>, Wrong> {
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(Wrong::new("empty, or not plain text", "write what is meant, or leave it out"));
    }
    Ok(Some(text.to_owned()))
}

fn issuer(url: &str) -> Result<Option<String>, Wrong> {
    // As kube-apiserver has it: what an issuer is called is part of every token.
    if url.strip_prefix("https://").is_none_or(str::is_empty) {
        return Err(Wrong::new("not an https URL", "give the issuer as its tokens name it in iss"));
    }
    text(url)
}

fn shown(value: Option<&String>) -> Shown {
    value.map_or(Shown::Unset, |value| Shown::Text(value.clone()))
}

pub(super) const TOKEN_AUTH_FILE: Row = row!(
    "token-auth-file",
    "FILE",
    "CSV: token,user,uid,\"group1,group2\"",
    NONE,
    |config, text| {
        config.auth_wanted.token_file = Some(path(text)?);
        Ok(())
    },
    |config| show_path(config.auth_wanted.token_file.as_deref())
);

pub(super) const OIDC_ISSUER_URL: Row = row!(
    "oidc-issuer-url",
    "URL",
    "accept signed tokens of this issuer",
    NONE,
    |config, text| {
        config.auth_wanted.issuer = issuer(text)?;
        Ok(())
    },
    |config| shown(config.auth_wanted.issuer.as_ref())
);

pub(super) const OIDC_CLIENT_ID: Row = row!(
    "oidc-client-id",
    "ID",
    "that are issued for this audience",
    NONE,
    |config, value| {
        config.auth_wanted.client = text(value)?;
        Ok(())
    },
    |config| shown(config.auth_wanted.client.as_ref())
);

pub(super) const OIDC_JWKS_FILE: Row = row!(
    "oidc-jwks-file",
    "FILE",
    "and signed with one of these keys (JWKS)",
    NONE,
    |config, text| {
        config.auth_wanted.keys = Some(path(text)?);
        Ok(())
    },
    |config| show_path(config.auth_wanted.keys.as_deref())
);

pub(super) const OIDC_USERNAME_CLAIM: Row = row!(
    "oidc-username-claim",
    "NAME",
    "the claim with the user's name",
    Standard::Text("sub"),
    |config, value| {
        config.auth_wanted.username_claim = text(value)?.unwrap_or_default();
        Ok(())
    },
    |config| Shown::Text(config.auth_wanted.username_claim.clone())
);

pub(super) const OIDC_USERNAME_PREFIX: Row = row!(
    "oidc-username-prefix",
    "TEXT",
    "prefix of names; -: none",
    Standard::Unset("ISSUER#"),
    |config, value| {
        config.auth_wanted.username_prefix = text(value)?;
        Ok(())
    },
    |config| shown(config.auth_wanted.username_prefix.as_ref())
);

pub(super) const OIDC_GROUPS_CLAIM: Row = row!(
    "oidc-groups-claim",
    "NAME",
    "the claim with the groups",
    NONE,
    |config, value| {
        config.auth_wanted.groups_claim = text(value)?;
        Ok(())
    },
    |config| shown(config.auth_wanted.groups_claim.as_ref())
);

pub(super) const OIDC_GROUPS_PREFIX: Row = row!(
    "oidc-groups-prefix",
    "TEXT",
    "prefix of groups",
    NONE,
    |config, value| {
        config.auth_wanted.groups_prefix = text(value)?;
        Ok(())
    },
    |config| shown(config.auth_wanted.groups_prefix.as_ref())
);

pub(super) const AUTHORIZATION_RULES: Row = row!(
    "authorization-rules",
    "FILE",
    "TOML: authorization rules",
    Standard::Unset("all"),
    |config, text| {
        config.auth_wanted.rules = Some(path(text)?);
        Ok(())
    },
    |config| show_path(config.auth_wanted.rules.as_deref())
);

pub(super) const ANONYMOUS_AUTH: Row = row!(
    "anonymous-auth",
    TRUTH,
    "serve requests without credentials",
    Standard::Unset("see README"),
    |config, text| {
        config.auth_wanted.anonymous = Some(value::truth(text)?);
        Ok(())
    },
    |config| config.auth_wanted.anonymous.map_or(Shown::Unset, Shown::Truth)
);

pub(super) const INSECURE: Row = row!(
    "insecure",
    TRUTH,
    "allow unsecured listeners on a network",
    Standard::Text("false"),
    |config, text| {
        config.auth_wanted.insecure = value::truth(text)?;
        Ok(())
    },
    |config| Shown::Truth(config.auth_wanted.insecure)
);

pub(super) const ALLOWED_HOSTS: Row = row!(
    "allowed-hosts",
    "NAMES",
    "names of this server, for anonymous requests",
    NONE,
    |config, text| {
        config.auth_wanted.hosts = Hosts::parse(text).map_err(|part| {
            let mend = "give names without a port, as revcast.example,*.svc.cluster.local; addresses and localhost need none";
            Wrong::new(format!("\"{part}\" is not a host name"), mend)
        })?;
        Ok(())
    },
    |config| match &config.auth_wanted.hosts {
        hosts if hosts.is_empty() => Shown::Unset,
        hosts => Shown::Text(hosts.to_string()),
    }
);

impl Config {
    /// Whether each access is decided: by rules, or by the upstream.
    pub(super) const fn has_authorization(&self) -> bool {
        self.auth_wanted.rules.is_some() || self.delegated.authorization
    }

    /// Names that a request without credentials may call the server by.
    #[must_use]
    pub const fn allowed_hosts(&self) -> &Hosts {
        &self.auth_wanted.hosts
    }

    /// Options of signed tokens come together.
    pub(super) fn check_auth(&self) -> Result<(), ConfigError> {
        let wanted = &self.auth_wanted;
        let needed = [
            ("oidc-issuer-url", wanted.issuer.is_some()),
            ("oidc-client-id", wanted.client.is_some()),
            ("oidc-jwks-file", wanted.keys.is_some()),
        ];
        let more = [
            ("oidc-username-prefix", wanted.username_prefix.is_some()),
            ("oidc-groups-claim", wanted.groups_claim.is_some()),
            ("oidc-groups-prefix", wanted.groups_prefix.is_some()),
        ];
        let given = needed.iter().chain(&more).find(|(_, is)| *is);
        let missing = needed.iter().find(|(_, is)| !is);
        if let (Some((given, _)), Some((missing, _))) = (given, missing) {
            let wrong = Wrong::new(
                format!("has no effect without --{missing}"),
                "give --oidc-issuer-url, --oidc-client-id and --oidc-jwks-file, or none of them",
            );
            return Err(ConfigError::at(self.origin(given).to_string(), wrong));
        }
        if wanted.groups_prefix.is_some() && wanted.groups_claim.is_none() {
            let wrong = Wrong::new(
                "there is no claim of groups to prefix",
                "add --oidc-groups-claim, or leave it out",
            );
            return Err(ConfigError::at(self.origin("oidc-groups-prefix").to_string(), wrong));
        }
        Ok(())
    }

    /// The options of the guard, given whether the API is served with TLS and clients may have certificates.
    ///
    /// # Errors
    /// A listener would be open to clients that it should refuse.
    pub fn auth(&self, has_tls: bool, certificates: bool) -> Result<Options, ConfigError> {
        let wanted = &self.auth_wanted;
        let oidc = match (&wanted.issuer, &wanted.client, &wanted.keys) {
            (Some(issuer), Some(client), Some(keys)) => {
                let options = OidcOptions {
                    issuer: issuer.clone(),
                    client: client.clone(),
                    username_prefix: OidcOptions::prefix(
                        wanted.username_prefix.as_deref(),
                        &wanted.username_claim,
                        issuer,
                    ),
                    username_claim: wanted.username_claim.clone(),
                    groups_claim: wanted.groups_claim.clone(),
                    groups_prefix: wanted.groups_prefix.clone().unwrap_or_default(),
                };
                Some((options, keys.clone()))
            }
            _ => None,
        };
        let options = Options {
            token_file: wanted.token_file.clone(),
            oidc,
            rules: wanted.rules.clone(),
            anonymous: false,
            // With TLS clients may have certificates of the cluster's.
            certificates: certificates || (has_tls && self.delegated().is_some_and(|it| it.authentication)),
            delegated: self.delegated().cloned(),
        };
        let exposure = Exposure {
            listen: self.server.listen,
            has_tls,
            admin: self.server.admin_listen,
            has_authentication: options.has_authentication(),
            anonymous: wanted.anonymous,
            insecure: wanted.insecure,
        };
        let refused = |wrong| ConfigError::at("access", wrong);
        Ok(Options { anonymous: exposure.settle().map_err(refused)?, ..options })
    }
}
