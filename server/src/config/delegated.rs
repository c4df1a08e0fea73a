//! Options of authentication and authorization by the upstream: their text, and what they must be together.

use std::time::Duration;

use super::Config;
use super::row::{Row, Shown, Standard, row};
use crate::auth::delegated::DelegatedOptions;
use crate::setting::{ConfigError, Wrong};
use crate::value;

const HOUR: Duration = Duration::from_secs(3600);

/// `local` or `delegated`.
fn is_delegated(text: &str) -> Result<bool, Wrong> {
    match text {
        "local" => Ok(false),
        "delegated" => Ok(true),
        _ => Err(Wrong::new("neither local nor delegated", "give local or delegated")),
    }
}

fn show(delegated: bool) -> Shown {
    Shown::Text(if delegated { "delegated" } else { "local" }.to_owned())
}

pub(super) const AUTHENTICATION: Row = row!(
    "authentication",
    "WAY",
    "local, or delegated to the upstream",
    Standard::Text("local"),
    |config, text| {
        config.delegated.authentication = is_delegated(text)?;
        Ok(())
    },
    |config| show(config.delegated.authentication)
);

pub(super) const AUTHORIZATION: Row = row!(
    "authorization",
    "WAY",
    "local, or delegated to the upstream",
    Standard::Text("local"),
    |config, text| {
        config.delegated.authorization = is_delegated(text)?;
        Ok(())
    },
    |config| show(config.delegated.authorization)
);

pub(super) const AUDIENCES: Row = row!(
    "token-audiences",
    "LIST",
    "audiences that tokens must be for",
    Standard::Unset("the upstream's"),
    |config, text| {
        let audiences: Vec<String> = text.split(',').map(|one| one.trim().to_owned()).collect();
        if audiences.iter().any(|one| one.is_empty() || one.chars().any(char::is_control)) {
            return Err(Wrong::new(
                "an audience is empty or not plain text",
                "give them with commas, or leave it out",
            ));
        }
        config.delegated.audiences = audiences;
        Ok(())
    },
    |config| match &config.delegated.audiences {
        none if none.is_empty() => Shown::Unset,
        all => Shown::Text(all.join(",")),
    }
);

pub(super) const TOKEN_TTL: Row = row!(
    "authentication-cache-ttl",
    "TIME",
    "how long an answer on a token is used",
    Standard::Text("10s"),
    |config, text| {
        config.delegated.token_ttl = value::time(text, Duration::ZERO..=HOUR)?;
        Ok(())
    },
    |config| Shown::Text(value::show_time(config.delegated.token_ttl))
);

pub(super) const ACCESS_TTL: Row = row!(
    "authorization-cache-ttl",
    "TIME",
    "how long an answer on access is used",
    Standard::Text("10s"),
    |config, text| {
        config.delegated.access_ttl = value::time(text, Duration::ZERO..=HOUR)?;
        Ok(())
    },
    |config| Shown::Text(value::show_time(config.delegated.access_ttl))
);

pub(super) const RECHECK: Row = row!(
    "authorization-recheck",
    "TIME",
    "how often an open watch is reviewed again",
    Standard::Text("5m"),
    |config, text| {
        config.delegated.recheck = value::time(text, Duration::from_secs(1)..=24 * HOUR)?;
        Ok(())
    },
    |config| Shown::Text(value::show_time(config.delegated.recheck))
);

pub(super) const GRACE: Row = row!(
    "authorization-grace",
    "TIME",
    "an open watch goes on unreviewed for it",
    Standard::Text("15m"),
    |config, text| {
        config.delegated.grace = value::time(text, Duration::ZERO..=24 * HOUR)?;
        Ok(())
    },
    |config| Shown::Text(value::show_time(config.delegated.grace))
);

impl Config {
    /// What the upstream decides about clients; `None`: nothing.
    #[must_use]
    pub fn delegated(&self) -> Option<&DelegatedOptions> {
        Some(&self.delegated).filter(|delegated| delegated.authentication || delegated.authorization)
    }

    /// Refuses what has no effect, or could not be done.
    pub(super) fn check_delegated(&self) -> Result<(), ConfigError> {
        let refuse =
            |name: &str, problem: &str, mend: &str| Err(self.refused(name, Wrong::new(problem, mend)));
        let delegated = &self.delegated;
        let upstream = "add --upstream https://HOST:PORT or --upstream-kubeconfig FILE";
        if self.upstream().is_none() {
            if delegated.authentication {
                return refuse("authentication", "there is no upstream that could be asked", upstream);
            }
            if delegated.authorization {
                return refuse("authorization", "there is no upstream that could be asked", upstream);
            }
        }
        if !delegated.audiences.is_empty() && !delegated.authentication {
            let mend = "add --authentication delegated, or leave it out";
            return refuse("token-audiences", "has no effect where no token is reviewed", mend);
        }
        Ok(())
    }
}
