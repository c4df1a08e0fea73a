//! Options of the etcd source: their text, and what they must be together.

use super::Config;
use super::row::{Row, Set, Shown, Standard};
use crate::setting::{ConfigError, Wrong};
use crate::source::etcd::{Override, WarmStart, WatchWish};

pub(super) const SERVERS_OVERRIDES: Row = Row {
    name: "etcd-servers-overrides",
    value: "LIST",
    help: "in another etcd: not served; /events#URL",
    standard: Standard::Unset("none"),
    in_file: true,
    set: Set::One(|config, text| {
        config.etcd.overrides = overrides(text)?;
        Ok(())
    }),
    show: |config| {
        let all: Vec<String> = config.etcd.overrides.iter().map(ToString::to_string).collect();
        if all.is_empty() { Shown::Unset } else { Shown::Text(all.join(",")) }
    },
};

pub(super) const WARM_START: Row = Row {
    name: "warm-start",
    value: "WHAT",
    help: "history at a start: full, fast or off",
    standard: Standard::Text("full"),
    in_file: true,
    set: Set::One(|config, text| {
        config.etcd.warm_start = warm_start(text)?;
        Ok(())
    }),
    show: |config| Shown::Text(show_warm_start(config.etcd.warm_start).to_owned()),
};

/// `http://a:2379,http://b:2379`
pub(super) fn endpoints(text: &str) -> Result<Vec<String>, Wrong> {
    const MEND: &str = "give client URLs with their ports, as http://127.0.0.1:2379, separated by commas";
    let endpoints: Vec<String> =
        text.split(',').map(|part| part.trim().trim_end_matches('/').to_owned()).collect();
    for endpoint in &endpoints {
        let authority = endpoint.strip_prefix("http://").or_else(|| endpoint.strip_prefix("https://"));
        let Some((host, port)) = authority.and_then(|authority| authority.rsplit_once(':')) else {
            return Err(Wrong::new("not a URL with scheme and port", MEND));
        };
        let odd = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']'));
        if host.is_empty() || host.contains(odd) || port.parse::<u16>().is_err() {
            return Err(Wrong::new("not a URL of a host and a port", MEND));
        }
    }
    let secure = endpoints.iter().filter(|endpoint| endpoint.starts_with("https://")).count();
    if secure != 0 && secure != endpoints.len() {
        return Err(Wrong::new("http and https mixed", "give all members the same scheme"));
    }
    Ok(endpoints)
}

/// `/events#http://a:2379;http://b:2379,apps/deployments#`, as kube-apiserver takes it.
fn overrides(text: &str) -> Result<Vec<Override>, Wrong> {
    const MEND: &str = "give GROUP/RESOURCE#URL;URL, several with commas: /events#http://etcd-events:2379";
    let mut all: Vec<Override> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let named = part.split_once('#').and_then(|(name, servers)| Some((name.split_once('/')?, servers)));
        let Some(((group, resource), servers)) = named else {
            return Err(Wrong::new("not a resource and its servers", MEND));
        };
        let odd = |c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-'));
        if resource.is_empty() || resource.contains(odd) || group.contains(odd) {
            return Err(Wrong::new(format!("{group}/{resource} is no name of a resource"), MEND));
        }
        if all.iter().any(|other| (other.group.as_str(), other.resource.as_str()) == (group, resource)) {
            return Err(Wrong::new(format!("{group}/{resource} is there twice"), "name each resource once"));
        }
        let servers = if servers.is_empty() { Vec::new() } else { endpoints(&servers.replace(';', ","))? };
        all.push(Override { group: group.to_owned(), resource: resource.to_owned(), servers });
    }
    Ok(all)
}

/// `/registry`
pub(super) fn prefix(text: &str) -> Result<String, Wrong> {
    let prefix = text.trim_end_matches('/');
    if !prefix.starts_with('/')
        || prefix.contains("//")
        || prefix.contains(|c: char| c.is_control())
        || text.len() > 1024
    {
        return Err(Wrong::new("not a prefix of keys", "give a path that begins with a slash, as /registry"));
    }
    Ok(prefix.to_owned())
}

/// A user's name.
pub(super) fn user(text: &str) -> Result<String, Wrong> {
    if text.is_empty() {
        return Err(Wrong::new("empty", "give the name of a user of etcd, or leave it out"));
    }
    Ok(text.to_owned())
}

/// A cluster id as etcd's logs and `etcdctl --hex` write it.
pub(super) fn cluster(text: &str) -> Result<u64, Wrong> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).map_err(|_| {
        Wrong::new(
            "not a hexadecimal number",
            "give the cluster id as `etcdctl endpoint status -w json --hex` prints it",
        )
    })
}

/// `auto`, `all` or `prefix`.
pub(super) fn watch(text: &str) -> Result<WatchWish, Wrong> {
    match text {
        "auto" => Ok(WatchWish::Auto),
        "all" => Ok(WatchWish::All),
        "prefix" => Ok(WatchWish::Prefix),
        _ => Err(Wrong::new("not a way to watch", "give auto, all or prefix")),
    }
}

pub(super) const fn show_watch(watch_request: WatchWish) -> &'static str {
    match watch_request {
        WatchWish::Auto => "auto",
        WatchWish::All => "all",
        WatchWish::Prefix => "prefix",
    }
}

/// `full`, `fast` or `off`.
fn warm_start(text: &str) -> Result<WarmStart, Wrong> {
    match text {
        "full" => Ok(WarmStart::Full),
        "fast" => Ok(WarmStart::Fast),
        "off" => Ok(WarmStart::Off),
        _ => Err(Wrong::new("not a kind of start", "give full, fast or off")),
    }
}

pub(super) const fn show_warm_start(warm_start: WarmStart) -> &'static str {
    match warm_start {
        WarmStart::Full => "full",
        WarmStart::Fast => "fast",
        WarmStart::Off => "off",
    }
}

impl Config {
    /// Refuses options that contradict each other.
    pub(super) fn check_etcd(&self) -> Result<(), ConfigError> {
        let etcd = &self.etcd;
        let given = |name: &str, is: bool| is.then(|| name.to_owned());
        let refuse =
            |name: &str, problem: &str, mend: &str| Err(self.refused(name, Wrong::new(problem, mend)));
        if etcd.endpoints.is_empty() {
            let alone = [
                given("etcd-user", etcd.user.is_some()),
                given("etcd-password-file", etcd.password_file.is_some()),
                given("etcd-ca", etcd.ca.is_some()),
                given("etcd-cert", etcd.cert.is_some()),
                given("etcd-key", etcd.key.is_some()),
                given("etcd-cluster-id", etcd.cluster.is_some()),
                given("etcd-servers-overrides", !etcd.overrides.is_empty()),
            ];
            return match alone.into_iter().flatten().next() {
                None => Ok(()),
                Some(name) => {
                    refuse(&name, "has no effect without etcd", "add --etcd-endpoints, or leave it out")
                }
            };
        }
        if self.embedded.data_dir.is_some() {
            let problem = "there are two stores, this one and --etcd-endpoints";
            return refuse("data-dir", problem, "leave out one of the two");
        }
        let secure = etcd.endpoints.iter().all(|endpoint| endpoint.starts_with("https://"));
        if secure && etcd.ca.is_none() {
            let mend = "add --etcd-ca FILE with the authorities of the members' certificates";
            return refuse("etcd-endpoints", "https without a certificate authority", mend);
        }
        if !secure && etcd.ca.is_some() {
            return refuse("etcd-ca", "the endpoints are http", "use https endpoints, or leave it out");
        }
        if !secure && etcd.cert.is_some() {
            return refuse("etcd-cert", "the endpoints are http", "use https endpoints, or leave it out");
        }
        if etcd.cert.is_some() != etcd.key.is_some() {
            let (name, mend) = if etcd.cert.is_some() {
                ("etcd-cert", "add --etcd-key FILE")
            } else {
                ("etcd-key", "add --etcd-cert FILE")
            };
            return refuse(name, "a certificate and its key go together", mend);
        }
        if etcd.user.is_some() != etcd.password_file.is_some() {
            let (name, mend) = if etcd.user.is_some() {
                ("etcd-user", "add --etcd-password-file FILE")
            } else {
                ("etcd-password-file", "add --etcd-user NAME")
            };
            return refuse(name, "a user and a password go together", mend);
        }
        Ok(())
    }
}

impl Config {
    /// Refuses resources in another etcd that are no served ones: by group and plural, in any version.
    ///
    /// # Errors
    /// The first of them.
    pub fn check_overrides<'r>(&self, served: &[(&'r str, &'r str)]) -> Result<(), ConfigError> {
        let is_unknown = |of: &&Override| !served.contains(&(of.group.as_str(), of.resource.as_str()));
        let Some(of) = self.etcd.overrides.iter().find(is_unknown) else { return Ok(()) };
        let same = served.iter().find(|(_, plural)| *plural == of.resource);
        let mend = match same {
            Some((group, plural)) => format!("did you mean {group}/{plural}?"),
            None => "name a served resource as GROUP/PLURAL (/events, apps/deployments), or leave it out"
                .to_owned(),
        };
        let problem = format!("{}/{} is not served", of.group, of.resource);
        Err(self.refused("etcd-servers-overrides", Wrong::new(problem, mend)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn endpoints_are_read() {
        assert_eq!(
            endpoints("http://a:2379, http://[::1]:2380/").unwrap(),
            ["http://a:2379", "http://[::1]:2380"]
        );
        for bad in [
            "",
            "a:2379",
            "http://a",
            "http://:1",
            "http://a:b",
            "http://a:1,https://b:1",
            "ftp://a:1",
            "http://a b:1",
            "http://a:1,,http://b:1",
        ] {
            assert!(endpoints(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn resources_in_another_etcd_are_read() {
        let read = overrides("/events#http://a:1;http://b:2, apps/deployments#").unwrap();
        let shown: Vec<String> = read.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["/events#http://a:1;http://b:2", "apps/deployments#"]);
        for bad in [
            "",
            "events",
            "events#http://a:1",
            "/#http://a:1",
            "/Events#",
            "/events#a:1",
            "/events#http://a:1;;",
            "/events#,/events#",
            "/events#,",
        ] {
            assert!(overrides(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn prefixes_and_ids_are_read() {
        assert_eq!(prefix("/registry/").unwrap(), "/registry");
        assert_eq!(prefix("/a/b").unwrap(), "/a/b");
        for bad in ["", "/", "registry", "/a//b", "/a\n"] {
            assert!(prefix(bad).is_err(), "{bad:?}");
        }
        assert_eq!(
            (cluster("cdf818194e3a8c32").unwrap(), cluster("0x1f").unwrap()),
            (0xcdf8_1819_4e3a_8c32, 31)
        );
        assert!(cluster("12g").is_err() && cluster("").is_err());
        assert_eq!(watch("all").unwrap(), WatchWish::All);
        assert!(watch("some").is_err());
        for text in ["full", "fast", "off"] {
            assert_eq!(show_warm_start(warm_start(text).unwrap()), text);
        }
        assert!(["", "Full", "slow", "true"].iter().all(|bad| warm_start(bad).is_err()));
    }
}
