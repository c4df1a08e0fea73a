//! The one table of options: a row is a flag, a variable, a key of the file, a line of help and a line of
//! `revcast config`.
//!
//! To add an option, add a field to a group of [`Config`](super::Config) and a row here. It owns names, defaults and bounds; it never reads
//! the command line, the environment or a file.

use std::time::Duration;

use super::resource::{ResourceEntry, ResourceForm};
use super::row::{Row, Set, Shown, Standard, TRUTH, path, show_path};
use super::{auth, delegated, etcd, http2, upstream};
use crate::api::protobuf::Release;
use crate::audit::AuditTarget;
use crate::log::{LogFormat, LogLevel};
use crate::runtime::SendMode;
use crate::serve::StorageMediaType;
use crate::setting::{Origin, Wrong};
use crate::value;

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// What `--kubernetes-version` takes.
const RELEASES: &str = "give 1.33, 1.34, 1.35, 1.36 or 1.37";

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// In the order of the help.
pub(crate) static ROWS: [Row; 79] = [
    Row {
        name: "listen",
        value: "ADDR",
        help: "serve the API here",
        standard: Standard::Text("127.0.0.1:8080"),
        in_file: true,
        set: Set::One(|config, text| {
            config.server().listen = value::address(text)?;
            Ok(())
        }),
        show: |config| Shown::Text(config.server.listen.to_string()),
    },
    Row {
        name: "admin-listen",
        value: "ADDR",
        help: "page, /metrics, /status; none: off",
        standard: Standard::Text("127.0.0.1:8081"),
        in_file: true,
        set: Set::One(|config, text| {
            config.server().admin_listen = match text {
                "none" => None,
                _ => Some(value::address(text).map_err(|wrong| {
                    Wrong::new(wrong.problem, format!("{}, or none to turn it off", wrong.mend))
                })?),
            };
            Ok(())
        }),
        show: |config| {
            Shown::Text(
                config.server.admin_listen.map_or_else(|| "none".to_owned(), |address| address.to_string()),
            )
        },
    },
    Row {
        name: "tls-cert",
        value: "FILE",
        help: "PEM: serve https with this chain",
        standard: Standard::Unset("none: http"),
        in_file: true,
        set: Set::One(|config, text| {
            config.tls_wanted.cert = Some(path(text)?);
            Ok(())
        }),
        show: |config| show_path(config.tls_wanted.cert.as_deref()),
    },
    Row {
        name: "tls-key",
        value: "FILE",
        help: "PEM: its key",
        standard: Standard::Unset("none"),
        in_file: true,
        set: Set::One(|config, text| {
            config.tls_wanted.key = Some(path(text)?);
            Ok(())
        }),
        show: |config| show_path(config.tls_wanted.key.as_deref()),
    },
    Row {
        name: "tls-client-ca",
        value: "FILE",
        help: "PEM: CA of client certificates",
        standard: Standard::Unset("not requested"),
        in_file: true,
        set: Set::One(|config, text| {
            config.tls_wanted.client_ca = Some(path(text)?);
            Ok(())
        }),
        show: |config| show_path(config.tls_wanted.client_ca.as_deref()),
    },
    Row {
        name: "shards",
        value: "N",
        help: "threads that serve watches",
        standard: Standard::Unset("all CPUs allowed"),
        in_file: true,
        set: Set::One(|config, text| {
            config.shards_wanted = Some(value::whole(text, 1..=value::CPUS_MAX)?);
            Ok(())
        }),
        show: |config| Shown::Number(config.shards()),
    },
    Row {
        name: "pin-cpus",
        value: "LIST",
        help: "a CPU for each shard, as 0,1 or 2-5",
        standard: Standard::Unset("in order"),
        in_file: true,
        set: Set::One(|config, text| {
            config.pins_wanted = Some(value::cpus(text)?);
            Ok(())
        }),
        show: |config| match &config.pins_wanted {
            Some(list) => Shown::Text(value::show_cpus(list)),
            None => Shown::Unset,
        },
    },
    Row {
        name: "data-dir",
        value: "DIR",
        help: "keep objects here",
        standard: Standard::Unset("none: in memory"),
        in_file: true,
        set: Set::One(|config, text| {
            config.embedded.data_dir = Some(path(text)?);
            Ok(())
        }),
        show: |config| show_path(config.embedded.data_dir.as_deref()),
    },
    Row {
        name: "ring-events",
        value: "N",
        help: "recent events kept, rounded to 2^n",
        standard: Standard::Text("131072"),
        in_file: true,
        set: Set::One(|config, text| {
            config.ring.events = value::whole(text, 1024..=1 << 24)?.next_power_of_two();
            Ok(())
        }),
        show: |config| Shown::Number(config.ring.events),
    },
    Row {
        name: "ring-bytes",
        value: "SIZE",
        help: "and their bytes; max-memory/4 at most",
        standard: Standard::Text("256MiB"),
        in_file: true,
        set: Set::One(|config, text| {
            config.ring.bytes = value::size(text, 1 << 20..=1 << 40)?;
            Ok(())
        }),
        show: |config| Shown::Text(value::show_size(config.ring.bytes)),
    },
    Row {
        name: "max-memory",
        value: "SIZE",
        help: "near it: 429, and slow watches end",
        standard: Standard::Unset("7/8 of cgroup"),
        in_file: true,
        set: Set::One(|config, text| {
            config.server().max_memory = Some(value::size(text, 64 << 20..=1 << 44)?);
            Ok(())
        }),
        show: |config| {
            config.server.max_memory.map_or(Shown::Unset, |bytes| Shown::Text(value::show_size(bytes)))
        },
    },
    Row {
        name: "max-watchers",
        value: "N",
        help: "watches at once",
        standard: Standard::Unset("what nofile allows"),
        in_file: true,
        set: Set::One(|config, text| {
            config.server().max_watchers = Some(value::whole(text, 1..=1 << 24)?);
            Ok(())
        }),
        show: |config| config.server.max_watchers.map_or(Shown::Unset, Shown::Number),
    },
    Row {
        name: "max-watchers-per-user",
        value: "N",
        help: "watches of one user, or address; 0: any number",
        standard: Standard::Text("0"),
        in_file: true,
        set: Set::One(|config, text| {
            config.server().max_watchers_per_user = count_or_any(text)?;
            Ok(())
        }),
        show: |config| Shown::Number(config.server.max_watchers_per_user.unwrap_or(0)),
    },
    Row {
        name: "max-connections",
        value: "N",
        help: "connections at once; 0: what nofile allows",
        standard: Standard::Text("0"),
        in_file: true,
        set: Set::One(|config, text| {
            config.server().max_connections = count_or_any(text)?;
            Ok(())
        }),
        show: |config| Shown::Number(config.server.max_connections.unwrap_or(0)),
    },
    Row {
        name: "max-connections-per-address",
        value: "N",
        help: "and from one address; 0: any number",
        standard: Standard::Text("0"),
        in_file: true,
        set: Set::One(|config, text| {
            config.server().max_connections_per_address = count_or_any(text)?;
            Ok(())
        }),
        show: |config| Shown::Number(config.server.max_connections_per_address.unwrap_or(0)),
    },
    http2::MAX_STREAMS,
    http2::HEARTBEAT,
    Row {
        name: "head-timeout",
        value: "TIME",
        help: "time to receive a request's head",
        standard: Standard::Text("32s"),
        in_file: true,
        set: Set::One(|config, text| {
            config.server().head_timeout = value::time(text, seconds(1)..=seconds(HOUR))?;
            Ok(())
        }),
        show: |config| Shown::Text(value::show_time(config.server.head_timeout)),
    },
    Row {
        name: "idle-timeout",
        value: "TIME",
        help: "a connection's time between requests",
        standard: Standard::Text("90s"),
        in_file: true,
        set: Set::One(|config, text| {
            config.server().idle_timeout = value::time(text, seconds(1)..=seconds(HOUR))?;
            Ok(())
        }),
        show: |config| Shown::Text(value::show_time(config.server.idle_timeout)),
    },
    Row {
        name: "request-timeout",
        value: "TIME",
        help: "time for a body, and for a reply",
        standard: Standard::Text("60s"),
        in_file: true,
        set: Set::One(|config, text| {
            config.server().request_timeout = value::time(text, seconds(1)..=seconds(HOUR))?;
            Ok(())
        }),
        show: |config| Shown::Text(value::show_time(config.server.request_timeout)),
    },
    Row {
        name: "resource",
        value: "SPEC",
        help: "GROUP/VERSION/PLURAL/KIND/namespaced|cluster",
        standard: Standard::Unset("none"),
        in_file: true,
        set: Set::Resources,
        show: |config| match config.resources.as_slice() {
            [] => Shown::Unset,
            entries => Shown::List(entries.iter().map(|entry| entry.form.to_toml()).collect()),
        },
    },
    Row {
        name: "bookmark-interval",
        value: "TIME",
        help: "from one bookmark of a watch to the next",
        standard: Standard::Text("60s"),
        in_file: true,
        set: Set::One(|config, text| {
            config.server().bookmark_interval = value::time(text, seconds(1)..=seconds(HOUR))?;
            Ok(())
        }),
        show: |config| Shown::Text(value::show_time(config.server.bookmark_interval)),
    },
    Row {
        name: "heartbeat-interval",
        value: "TIME",
        help: "an idle watch is sent a space; 0: never",
        standard: Standard::Text("25s"),
        in_file: true,
        set: Set::One(|config, text| {
            config.server().heartbeat_interval = value::time_or_off(text, seconds(1)..=seconds(HOUR))?;
            Ok(())
        }),
        show: |config| Shown::Text(show_or_off(config.server.heartbeat_interval)),
    },
    Row {
        name: "stall-timeout",
        value: "TIME",
        help: "cut off a watch that takes no byte; 0: never",
        standard: Standard::Text("60s"),
        in_file: true,
        set: Set::One(|config, text| {
            config.server().stall_timeout = value::time_or_off(text, seconds(1)..=seconds(DAY))?;
            Ok(())
        }),
        show: |config| Shown::Text(show_or_off(config.server.stall_timeout)),
    },
    Row {
        name: "send-buffer",
        value: "SIZE",
        help: "kernel buffer per connection, or auto",
        standard: Standard::Text("128KiB"),
        in_file: true,
        set: Set::One(|config, text| {
            config.server().send_buffer = value::send_buffer(text)?;
            Ok(())
        }),
        show: |config| {
            Shown::Text(
                config
                    .server
                    .send_buffer
                    .map_or_else(|| "auto".to_owned(), |size| value::show_size(size as u64)),
            )
        },
    },
    Row {
        name: "send-mode",
        value: "MODE",
        help: "send, io_uring, or auto: by kernel support",
        standard: Standard::Text("auto"),
        in_file: true,
        set: Set::One(|config, text| {
            config.server().send_mode =
                value::one_of(text, &SendMode::ALL, "mode", "give auto, send or io_uring")?;
            Ok(())
        }),
        show: |config| Shown::Text(config.server.send_mode.to_string()),
    },
    Row {
        name: "compact-interval",
        value: "TIME",
        help: "between two compactions; 0: never",
        standard: Standard::Text("5m"),
        in_file: true,
        set: Set::One(|config, text| {
            config.embedded.compact_interval = value::time_or_off(text, seconds(1)..=seconds(DAY))?;
            Ok(())
        }),
        show: |config| Shown::Text(show_or_off(config.embedded.compact_interval)),
    },
    Row {
        name: "min-watch-timeout",
        value: "TIME",
        help: "a watch without a timeout ends in T to 2T",
        standard: Standard::Text("30m"),
        in_file: true,
        set: Set::One(|config, text| {
            config.serve.min_watch_timeout = value::time(text, seconds(1)..=seconds(DAY))?;
            Ok(())
        }),
        show: |config| Shown::Text(value::show_time(config.serve.min_watch_timeout)),
    },
    Row {
        name: "watch-list-gzip",
        value: TRUTH,
        help: "gzip for sendInitialEvents=true, if asked",
        standard: Standard::Text("true"),
        in_file: true,
        set: Set::One(|config, text| {
            config.serve.watch_list_gzip = value::truth(text)?;
            Ok(())
        }),
        show: |config| Shown::Truth(config.serve.watch_list_gzip),
    },
    Row {
        name: "storage-media-type",
        value: "TYPE",
        help: "write objects as json or protobuf",
        standard: Standard::Text("json"),
        in_file: true,
        set: Set::One(|config, text| {
            config.serve.storage_media_type =
                value::one_of(text, &StorageMediaType::ALL, "form of storage", "give json or protobuf")?;
            Ok(())
        }),
        show: |config| Shown::Text(config.serve.storage_media_type.to_string()),
    },
    Row {
        name: "kubernetes-version",
        value: "1.N",
        help: "whose API types are served",
        standard: Standard::Text("1.36"),
        in_file: true,
        set: Set::One(|config, text| {
            config.kubernetes_version = value::one_of(text, &Release::ALL, "release", RELEASES)?;
            Ok(())
        }),
        show: |config| Shown::Text(config.kubernetes_version.to_string()),
    },
    Row {
        name: "etcd-endpoints",
        value: "URL,URL",
        help: "serve this etcd cluster",
        standard: Standard::Unset("embedded store"),
        in_file: true,
        set: Set::One(|config, text| {
            config.etcd.endpoints = etcd::endpoints(text)?;
            Ok(())
        }),
        show: |config| match config.etcd.endpoints.as_slice() {
            [] => Shown::Unset,
            endpoints => Shown::Text(endpoints.join(",")),
        },
    },
    Row {
        name: "etcd-prefix",
        value: "PATH",
        help: "where its Kubernetes-style keys begin",
        standard: Standard::Text("/registry"),
        in_file: true,
        set: Set::One(|config, text| {
            config.etcd.prefix = etcd::prefix(text)?;
            Ok(())
        }),
        show: |config| Shown::Text(config.etcd.prefix.clone()),
    },
    Row {
        name: "etcd-user",
        value: "NAME",
        help: "log in to etcd as this user",
        standard: Standard::Unset("no login"),
        in_file: true,
        set: Set::One(|config, text| {
            config.etcd.user = Some(etcd::user(text)?);
            Ok(())
        }),
        show: |config| config.etcd.user.clone().map_or(Shown::Unset, Shown::Text),
    },
    Row {
        name: "etcd-password-file",
        value: "FILE",
        help: "the user's password",
        standard: Standard::Unset("none"),
        in_file: true,
        set: Set::One(|config, text| {
            config.etcd.password_file = Some(path(text)?);
            Ok(())
        }),
        show: |config| show_path(config.etcd.password_file.as_deref()),
    },
    Row {
        name: "etcd-ca",
        value: "FILE",
        help: "PEM: CA of https endpoints",
        standard: Standard::Unset("none"),
        in_file: true,
        set: Set::One(|config, text| {
            config.etcd.ca = Some(path(text)?);
            Ok(())
        }),
        show: |config| show_path(config.etcd.ca.as_deref()),
    },
    Row {
        name: "etcd-cert",
        value: "FILE",
        help: "PEM: the certificate shown to etcd",
        standard: Standard::Unset("none"),
        in_file: true,
        set: Set::One(|config, text| {
            config.etcd.cert = Some(path(text)?);
            Ok(())
        }),
        show: |config| show_path(config.etcd.cert.as_deref()),
    },
    Row {
        name: "etcd-key",
        value: "FILE",
        help: "PEM: its key",
        standard: Standard::Unset("none"),
        in_file: true,
        set: Set::One(|config, text| {
            config.etcd.key = Some(path(text)?);
            Ok(())
        }),
        show: |config| show_path(config.etcd.key.as_deref()),
    },
    Row {
        name: "etcd-cluster-id",
        value: "HEX",
        help: "serve no other cluster than this",
        standard: Standard::Unset("any"),
        in_file: true,
        set: Set::One(|config, text| {
            config.etcd.cluster = Some(etcd::cluster(text)?);
            Ok(())
        }),
        show: |config| config.etcd.cluster.map_or(Shown::Unset, |id| Shown::Text(format!("{id:x}"))),
    },
    Row {
        name: "etcd-watch",
        value: "KEYS",
        help: "all, prefix, or auto: by etcd's version",
        standard: Standard::Text("auto"),
        in_file: true,
        set: Set::One(|config, text| {
            config.etcd.watch = etcd::watch(text)?;
            Ok(())
        }),
        show: |config| Shown::Text(etcd::show_watch(config.etcd.watch).to_owned()),
    },
    etcd::SERVERS_OVERRIDES,
    etcd::WARM_START,
    Row {
        name: "etcd-stale-limit",
        value: "TIME",
        help: "not ready when the state may be older",
        standard: Standard::Text("5s"),
        in_file: true,
        set: Set::One(|config, text| {
            config.etcd.stale_limit = value::time(text, seconds(2)..=seconds(HOUR))?;
            Ok(())
        }),
        show: |config| Shown::Text(value::show_time(config.etcd.stale_limit)),
    },
    upstream::UPSTREAM,
    upstream::CA,
    upstream::KUBECONFIG,
    upstream::TOKEN_FILE,
    upstream::CERT,
    upstream::KEY,
    upstream::IDENTITY,
    upstream::TIMEOUT,
    upstream::WRITE_ETCD,
    delegated::AUTHENTICATION,
    delegated::AUDIENCES,
    delegated::TOKEN_TTL,
    delegated::AUTHORIZATION,
    delegated::ACCESS_TTL,
    delegated::RECHECK,
    delegated::GRACE,
    auth::TOKEN_AUTH_FILE,
    auth::OIDC_ISSUER_URL,
    auth::OIDC_CLIENT_ID,
    auth::OIDC_JWKS_FILE,
    auth::OIDC_USERNAME_CLAIM,
    auth::OIDC_USERNAME_PREFIX,
    auth::OIDC_GROUPS_CLAIM,
    auth::OIDC_GROUPS_PREFIX,
    auth::AUTHORIZATION_RULES,
    auth::ANONYMOUS_AUTH,
    auth::INSECURE,
    auth::ALLOWED_HOSTS,
    Row {
        name: "event-ttl",
        value: "TIME",
        help: "life of Event objects; 0: keep",
        standard: Standard::Text("1h"),
        in_file: true,
        set: Set::One(|config, text| {
            config.event_ttl = value::time_or_off(text, seconds(1)..=seconds(365 * DAY))?;
            Ok(())
        }),
        show: |config| Shown::Text(show_or_off(config.event_ttl)),
    },
    Row {
        name: "drain-delay",
        value: "TIME",
        help: "from SIGTERM to the end of the first watch",
        standard: Standard::Text("0s"),
        in_file: true,
        set: Set::One(|config, text| {
            config.server().drain_delay = value::time(text, Duration::ZERO..=seconds(600))?;
            Ok(())
        }),
        show: |config| Shown::Text(value::show_time(config.server.drain_delay)),
    },
    Row {
        name: "drain-grace",
        value: "TIME",
        help: "from there to the last, spread over it",
        standard: Standard::Text("10s"),
        in_file: true,
        set: Set::One(|config, text| {
            config.server().drain_grace = value::time(text, Duration::ZERO..=seconds(600))?;
            Ok(())
        }),
        show: |config| Shown::Text(value::show_time(config.server.drain_grace)),
    },
    Row {
        name: "take-over",
        value: TRUTH,
        help: "take over from the server at --listen",
        standard: Standard::Text("false"),
        in_file: true,
        set: Set::One(|config, text| {
            config.take_over = value::truth(text)?;
            Ok(())
        }),
        show: |config| Shown::Truth(config.take_over),
    },
    Row {
        name: "log-level",
        value: "LEVEL",
        help: "error, warn, info or debug",
        standard: Standard::Text("info"),
        in_file: true,
        set: Set::One(|config, text| {
            config.log.level =
                value::one_of(text, &LogLevel::ALL, "level", "give error, warn, info or debug")?;
            Ok(())
        }),
        show: |config| Shown::Text(config.log.level.to_string()),
    },
    Row {
        name: "log-format",
        value: "FORMAT",
        help: "text, or json: an object per line",
        standard: Standard::Text("text"),
        in_file: true,
        set: Set::One(|config, text| {
            config.log.format = value::one_of(text, &LogFormat::ALL, "format", "give text or json")?;
            Ok(())
        }),
        show: |config| Shown::Text(config.log.format.to_string()),
    },
    Row {
        name: "audit-log",
        value: "FILE",
        help: "log each request, as JSON; -: to stdout",
        standard: Standard::Unset("none"),
        in_file: true,
        set: Set::One(|config, text| {
            config.audit = Some(match text {
                "-" => AuditTarget::Stdout,
                _ => AuditTarget::File(path(text)?),
            });
            Ok(())
        }),
        show: |config| config.audit.as_ref().map_or(Shown::Unset, |to| Shown::Text(to.to_string())),
    },
    Row {
        name: "config",
        value: "FILE",
        help: "TOML with the names above, as ring_events",
        standard: Standard::Unset("none"),
        in_file: false,
        set: Set::One(|config, text| {
            config.config_file = Some(path(text)?);
            Ok(())
        }),
        show: |config| show_path(config.config_file.as_deref()),
    },
];

/// The row of an option, by its name in kebab case.
pub(crate) fn index_of(name: &str) -> Option<usize> {
    ROWS.iter().position(|row| row.name == name)
}

/// A number; 0 is no limit.
fn count_or_any(text: &str) -> Result<Option<usize>, Wrong> {
    Ok(Some(value::whole(text, 0..=1 << 24)?).filter(|count| *count > 0))
}

fn show_or_off(time: Option<Duration>) -> String {
    time.map_or_else(|| "0".to_owned(), value::show_time)
}

/// A resource as text: only what can hold no declaration at all is refused here.
pub(super) fn resource_text(text: &str, origin: &Origin) -> Result<ResourceEntry, Wrong> {
    if text.is_empty() {
        let mend = "give GROUP/VERSION/PLURAL/KIND/namespaced or .../cluster, or leave it out";
        return Err(Wrong::new("empty", mend));
    }
    Ok(ResourceEntry { origin: origin.clone(), form: ResourceForm::Text(text.to_owned()) })
}
