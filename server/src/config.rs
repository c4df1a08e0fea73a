//! What the operator asked for: defaults, then the file, then the environment, then the command line.
//!
//! It owns the typed configuration, the order of its origins, the checks of one value against another, and the text
//! of `revcast config`. It never looks at the machine: the CPUs are an argument, and whether the machine can serve
//! this is [`crate::doctor`]'s. The options themselves are rows of `table`.

mod auth;
mod delegated;
mod etcd;
mod file;
mod http2;
mod resource;
pub(crate) mod row;
pub(crate) mod table;
mod tls;
mod upstream;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use revcast_engine::RingLimits;

pub use resource::{ResourceEntry, ResourceForm, ResourceTable};

use crate::api::protobuf::Release;
use crate::audit::AuditTarget;
use crate::auth::delegated::DelegatedOptions;
use crate::log::{LogFormat, LogLevel, LogOptions};
use crate::printable::{is_obeyed, one_line};
use crate::runtime;
use crate::serve::{ServeOptions, StorageMediaType};
use crate::setting::{ConfigError, Origin, Wrong};
use crate::source::embedded::EmbeddedOptions;
use crate::source::etcd::{EtcdOptions, WarmStart};
use crate::tls::Files;
use crate::top::TOKEN_VARIABLE;
use crate::value;
use auth::AuthWanted;
use row::{Row, Set, Shown, Standard};
use table::ROWS;
use tls::TlsWanted;
use upstream::UpstreamWanted;

/// A slot of the ring is at least a pointer: a ring whose slots alone pass its bytes is a mistake.
const SLOT_BYTES_MIN: u64 = 8;
/// Below this many bytes a slot the bound of bytes ends the window first: hardly any object is smaller.
const EVENT_BYTES_SMALL: u64 = 256;

/// What the command line gave: option and value, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    pub(crate) given: Vec<(usize, String)>,
}

/// Every setting, valid by itself and against the others: a group for each part of the server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Listeners, shards, connections, watches.
    pub server: Arc<runtime::Options>,
    /// What is served over them.
    pub serve: ServeOptions,
    /// Slots of the ring, a power of two from 1,024 to 16,777,216, and bytes of its events, 1 MiB to 1 TiB.
    pub ring: RingLimits,
    /// The store of this process.
    pub embedded: EmbeddedOptions,
    /// What https is served with; `None`: plain HTTP is.
    pub tls: Option<Files>,
    /// What is logged.
    pub log: LogOptions,
    /// Where each request is written down; `None`: nowhere.
    pub audit: Option<AuditTarget>,
    /// Resources beside the built-in ones.
    pub resources: Vec<ResourceEntry>,
    /// Life of an Event object in the embedded store; `None`: until deleted.
    pub event_ttl: Option<Duration>,
    /// The release of Kubernetes whose API types are served.
    pub kubernetes_version: Release,
    /// Whether to take over from a server that runs at the same address, if there is one.
    pub take_over: bool,
    /// The file that was read, if any.
    pub config_file: Option<PathBuf>,
    /// Without endpoints no cluster is served.
    etcd: EtcdOptions,
    auth_wanted: AuthWanted,
    tls_wanted: TlsWanted,
    upstream_wanted: UpstreamWanted,
    delegated: DelegatedOptions,
    shards_wanted: Option<usize>,
    pins_wanted: Option<Vec<usize>>,
    /// One a row of the table.
    origins: Vec<Origin>,
}

impl Config {
    /// Puts the configuration together. `environment` is all of it; what does not start with `REVCAST_` is passed
    /// over. `cpus` are those this process may use.
    ///
    /// # Errors
    /// The first mistake, weakest origin first: file, environment, flags, then values that contradict each other.
    pub fn load(
        flags: &Flags,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        cpus: &[usize],
    ) -> Result<Self, ConfigError> {
        let variables = variables(environment)?;
        let named = table::index_of("config").expect("the table has a row for the file");
        let path = flags.given.iter().rev().find(|(row, _)| *row == named).map(|(_, path)| path.as_str());
        let path =
            path.or_else(|| variables.iter().find(|(row, _)| *row == named).map(|(_, path)| path.as_str()));
        let file = match path {
            // The empty path is refused with its flag or variable, below.
            Some(path) if !path.is_empty() => Some((Path::new(path), file::read(Path::new(path))?)),
            Some(_) | None => None,
        };
        let file = file.as_ref().map(|(path, text)| (*path, text.as_str()));
        let config = Self::assemble(flags, &variables, file, cpus)?;
        config.check_data_dir()?;
        Ok(config)
    }

    /// [`Self::load`] without touching the disk.
    fn assemble(
        flags: &Flags,
        variables: &[(usize, String)],
        file: Option<(&Path, &str)>,
        cpus: &[usize],
    ) -> Result<Self, ConfigError> {
        let mut config = Self::blank();
        for (index, row) in ROWS.iter().enumerate() {
            if let Standard::Text(text) = row.standard {
                config.set(index, Origin::Default, text)?;
            }
        }
        for (index, origin, given) in
            file.map_or_else(|| Ok(Vec::new()), |(path, text)| file::parse(path, text))?
        {
            match given {
                file::Given::Text(text) => config.set(index, origin, &text)?,
                file::Given::Resources(entries) => {
                    config.resources = entries;
                    config.origins[index] = origin;
                }
            }
        }
        for (index, text) in variables {
            let row = &ROWS[*index];
            let origin = Origin::Env(row.variable());
            match row.set {
                Set::One(_) => config.set(*index, origin, text)?,
                Set::Resources => {
                    text.split(',').try_for_each(|text| config.set(*index, origin.clone(), text))?
                }
            }
        }
        for (index, text) in &flags.given {
            config.set(*index, Origin::Flag(ROWS[*index].flag()), text)?;
        }
        config.place_shards(cpus)?;
        config.check_listeners()?;
        config.check_take_over()?;
        config.check_ring()?;
        config.check_etcd()?;
        config.settle_tls()?;
        config.check_auth()?;
        config.settle_upstream()?;
        config.check_delegated()?;
        Ok(config)
    }

    /// Nothing set yet; the rows of the table give every field its default.
    fn blank() -> Self {
        Self {
            server: Arc::new(runtime::Options::blank()),
            serve: ServeOptions {
                min_watch_timeout: Duration::ZERO,
                watch_list_gzip: false,
                storage_media_type: StorageMediaType::Json,
                write_etcd: None,
            },
            ring: RingLimits { events: 0, bytes: 0 },
            embedded: EmbeddedOptions::default(),
            tls: None,
            log: LogOptions { level: LogLevel::Error, format: LogFormat::Text },
            audit: None,
            resources: Vec::new(),
            event_ttl: None,
            kubernetes_version: Release::DEFAULT,
            take_over: false,
            config_file: None,
            etcd: EtcdOptions::default(),
            auth_wanted: AuthWanted::default(),
            tls_wanted: TlsWanted::default(),
            upstream_wanted: UpstreamWanted::default(),
            delegated: DelegatedOptions::default(),
            shards_wanted: None,
            pins_wanted: None,
            origins: vec![Origin::Default; ROWS.len()],
        }
    }

    /// The server's options while they are set.
    fn server(&mut self) -> &mut runtime::Options {
        Arc::make_mut(&mut self.server)
    }

    fn set(&mut self, index: usize, origin: Origin, text: &str) -> Result<(), ConfigError> {
        let row = &ROWS[index];
        let done = match row.set {
            Set::One(set) => set(self, text),
            Set::Resources => table::resource_text(text, &origin).map(|entry| {
                if self.origins[index] != origin {
                    self.resources.clear();
                }
                self.resources.push(entry);
            }),
        };
        done.map_err(|wrong| ConfigError::bad_value(&origin, &row.key(), text, wrong))?;
        self.origins[index] = origin;
        Ok(())
    }

    /// How many shards: 1 to 256.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.server.cpus.len()
    }

    /// Where the option of this name (`ring-events`) was set.
    ///
    /// # Panics
    /// There is no such option.
    #[must_use]
    pub fn origin(&self, name: &str) -> &Origin {
        let index = table::index_of(name).expect("the name of a row");
        &self.origins[index]
    }

    /// The etcd cluster that is served; `None`: the embedded store.
    #[must_use]
    pub fn etcd(&self) -> Option<&EtcdOptions> {
        (!self.etcd.endpoints.is_empty()).then_some(&self.etcd)
    }

    /// The error of a value that is invalid in combination with others.
    fn refused(&self, name: &str, wrong: Wrong) -> ConfigError {
        let value = match table::index_of(name).map(|index| (ROWS[index].show)(self)) {
            Some(Shown::Text(text)) => text,
            _ => String::new(),
        };
        ConfigError::bad_value(self.origin(name), &name.replace('-', "_"), &value, wrong)
    }

    fn place_shards(&mut self, allowed: &[usize]) -> Result<(), ConfigError> {
        let cpus = match (self.shards_wanted, &self.pins_wanted) {
            (Some(shards), Some(pins)) if shards != pins.len() => {
                let problem = format!("{} CPUs for {shards} shards", pins.len());
                let mend = format!("name {shards} CPUs, or leave out shards ({})", self.origin("shards"));
                return Err(self.refused("pin-cpus", Wrong::new(problem, mend)));
            }
            (_, Some(pins)) => pins.clone(),
            (shards, None) => {
                let allowed = if allowed.is_empty() { &[0] } else { allowed };
                let shards = shards.unwrap_or_else(|| allowed.len().min(value::CPUS_MAX));
                allowed.iter().copied().cycle().take(shards).collect()
            }
        };
        let is_pinned = self.pins_wanted.is_some();
        let server = self.server();
        (server.cpus, server.is_pinned) = (cpus, is_pinned);
        Ok(())
    }

    fn check_listeners(&self) -> Result<(), ConfigError> {
        let Some(admin) = self.server.admin_listen else { return Ok(()) };
        let overlaps = admin.ip() == self.server.listen.ip()
            || admin.ip().is_unspecified()
            || self.server.listen.ip().is_unspecified();
        if admin.port() == 0 || admin.port() != self.server.listen.port() || !overlaps {
            return Ok(());
        }
        // The option with the stronger origin is at fault; a default never is.
        let is_listen = self.origin("listen") > self.origin("admin-listen");
        let name = if is_listen { "listen" } else { "admin-listen" };
        let wrong = Wrong::new(
            format!("listen {} and admin-listen {admin} are one address", self.server.listen),
            "give them two ports, or --admin-listen none",
        );
        Err(self.refused(name, wrong))
    }

    fn check_take_over(&self) -> Result<(), ConfigError> {
        if !self.take_over {
            return Ok(());
        }
        if self.server.listen.port() == 0 {
            let problem = format!("listen {} is another port at each start", self.server.listen);
            return Err(self
                .refused("take-over", Wrong::new(problem, "give --listen the port of the running server")));
        }
        if let Some(etcd) = self.etcd()
            && etcd.warm_start != WarmStart::Full
        {
            let way = etcd::show_warm_start(etcd.warm_start);
            let problem =
                format!("warm-start {way}: clients of the running server would get 410, and list again");
            return Err(self.refused("take-over", Wrong::new(problem, "give --warm-start full")));
        }
        Ok(())
    }

    fn check_ring(&self) -> Result<(), ConfigError> {
        let slots = self.ring.events as u64 * SLOT_BYTES_MIN;
        if self.ring.bytes >= slots {
            return Ok(());
        }
        let wrong = Wrong::new(
            format!("the slots of {} ring-events alone take {}", self.ring.events, value::show_size(slots)),
            format!("give ring-bytes {} or more, or fewer ring-events", value::show_size(slots)),
        );
        Err(self.refused("ring-bytes", wrong))
    }

    fn check_data_dir(&self) -> Result<(), ConfigError> {
        match &self.embedded.data_dir {
            Some(path) if path.exists() && !path.is_dir() => {
                let wrong = Wrong::new("not a folder", "name a folder; it is made if it is not there");
                Err(self.refused("data-dir", wrong))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// What is allowed and yet looks like a mistake; a line each.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let event = self.ring.bytes / (self.ring.events as u64).max(1);
        if event < EVENT_BYTES_SMALL {
            lines.push(format!(
                "ring-bytes {} leaves {event} bytes for each of {} ring-events: the bytes will end the window first; \
                 raise ring-bytes or lower ring-events",
                value::show_size(self.ring.bytes),
                self.ring.events
            ));
        }
        if let Some(admin) =
            self.server.admin_listen.filter(|admin| !admin.ip().is_loopback() && !self.has_authorization())
        {
            lines.push(format!(
                "every client that admin-listen {admin} admits, which a network can reach, may also POST /compact and read every object at listen: there are no authorization rules; give --authorization-rules FILE \
                 (server/ops/rules.toml is one), or --admin-listen 127.0.0.1:8081"
            ));
        }
        lines
    }

    /// The effective configuration as a file that `--config` takes, each value with its origin.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = format!("# revcast {}: the effective configuration\n", env!("CARGO_PKG_VERSION"));
        for (row, origin) in ROWS.iter().zip(&self.origins) {
            let shown = (row.show)(self);
            if row.in_file {
                text.push_str(&line(row, &shown, origin));
            } else if let Shown::Text(value) = shown {
                text.push_str(&format!("# {}: {} ({origin})\n", row.name, one_line(&value)));
            }
        }
        text
    }
}

fn line(row: &Row, shown: &Shown, origin: &Origin) -> String {
    let key = row.key();
    match shown {
        Shown::Unset => format!("# {key} = {}  # {origin}: {}\n", row.value, row.standard_text()),
        Shown::Number(number) => format!("{key} = {number}  # {origin}\n"),
        Shown::Truth(truth) => format!("{key} = {truth}  # {origin}\n"),
        Shown::Text(text) => format!("{key} = {}  # {origin}\n", quoted(text)),
        Shown::List(items) => format!("{key} = [{}]  # {origin}\n", items.join(", ")),
    }
}

/// A TOML string on one line, whatever is in it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            _ if is_obeyed(letter) => quoted.push_str(&format!("\\u{:04X}", u32::from(letter))),
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// The rows that the environment sets.
fn variables(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Vec<(usize, String)>, ConfigError> {
    let mut given = Vec::new();
    for (name, value) in environment {
        let Some(name) = name.to_str().filter(|name| name.starts_with("REVCAST_")) else { continue };
        let Some(index) = ROWS.iter().position(|row| row.variable() == name) else {
            // A token for `revcast top` may be in the environment of a server, too.
            if is_service_link(name) || name == TOKEN_VARIABLE {
                continue;
            }
            let known: Vec<String> = ROWS.iter().map(Row::variable).collect();
            let origin = Origin::Env(name.to_owned());
            return Err(ConfigError::unknown(
                "variable",
                &origin,
                name,
                Some(&value.to_string_lossy()),
                &known,
            ));
        };
        let value = value.into_string().map_err(|value| {
            let origin = Origin::Env(name.to_owned());
            let wrong = Wrong::new("not UTF-8", "give plain text");
            ConfigError::bad_value(&origin, &ROWS[index].key(), &value.to_string_lossy(), wrong)
        })?;
        given.push((index, value));
    }
    // The order of an environment means nothing: the first mistake is the same every time.
    given.sort_by_key(|(index, _)| *index);
    Ok(given)
}

/// What Kubernetes sets in every pod beside a Service whose name starts with `revcast`: `REVCAST_SERVICE_HOST`,
/// `REVCAST_PORT_8080_TCP_ADDR`, ... (Kubernetes documentation, "Accessing the Service", environment variables).
fn is_service_link(name: &str) -> bool {
    let port = |rest: &str| {
        let mut parts = rest.split('_');
        let number =
            parts.next().is_some_and(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
        number && parts.next().is_some_and(|part| matches!(part, "TCP" | "UDP" | "SCTP"))
    };
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.ends_with("_PORT")
        || name.split_once("_PORT_").is_some_and(|(_, rest)| port(rest))
}

#[cfg(test)]
mod tests;
