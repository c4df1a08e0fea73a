//! What `revcast demo` was asked for: its own options, and the configuration of its server.
//!
//! It owns what the demo never does, whatever the options: it writes nothing to disk, reads no variable and no file, and is
//! reached from this machine alone.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use crate::config::table::{ROWS, index_of};
use crate::config::{Config, Flags};
use crate::setting::{ConfigError, Origin, Wrong};
use crate::value;

/// Options of the server that the demo takes.
pub const TAKEN: [&str; 6] = ["listen", "admin-listen", "allowed-hosts", "shards", "log-level", "log-format"];

/// The demo's own options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Watchers; fewer if the limit of open files is low.
    pub watchers: usize,
    /// Writes a second.
    pub writes: usize,
    /// `None`: until Ctrl-C.
    pub duration: Option<Duration>,
    /// Whether the page is opened; `None`: if somebody sits in front of this machine.
    pub open: Option<bool>,
    /// JSON lines instead of text.
    pub json: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { watchers: 300, writes: 20, duration: None, open: None, json: false }
    }
}

impl Options {
    /// How many there are, if nothing is said.
    pub const WATCHERS: &str = "300";
    /// The same of writes.
    pub const WRITES: &str = "20";
    /// Most watchers: each needs two descriptors, and is served by one thread.
    pub const WATCHERS_MAX: usize = 5_000;
    /// Most writes a second.
    pub const WRITES_MAX: usize = 500;

    /// Sets an option by its name; `value` is empty if it takes none.
    ///
    /// # Errors
    /// The value is invalid.
    ///
    /// # Panics
    /// The demo has no such option.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ConfigError> {
        let wrong = |wrong| ConfigError::bad_value(&Origin::Flag(format!("--{name}")), name, value, wrong);
        match name {
            "watchers" => self.watchers = value::whole(value, 1..=Self::WATCHERS_MAX).map_err(wrong)?,
            "writes" => self.writes = value::whole(value, 1..=Self::WRITES_MAX).map_err(wrong)?,
            "duration" => {
                let bounds = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);
                self.duration = Some(value::time(value, bounds).map_err(wrong)?);
            }
            "open" => self.open = Some(true),
            "no-open" => self.open = Some(false),
            "json" => self.json = true,
            _ => unreachable!("an option of the demo: {name}"),
        }
        Ok(())
    }
}

/// The configuration of the demo's server, and a line for each default address that is taken.
///
/// # Errors
/// An option that the demo does not take, or an address that others can reach.
pub fn configuration(flags: &Flags, cpus: &[usize]) -> Result<(Config, Vec<String>), ConfigError> {
    let refused = flags.given.iter().find(|(row, _)| !TAKEN.contains(&ROWS[*row].name));
    if let Some((row, _)) = refused {
        let row = &ROWS[*row];
        let mend = format!("remove it, or give revcast serve {} {}", row.flag(), row.value);
        let wrong = Wrong::new("not an option of demo, which serves from memory on the loopback", mend);
        return Err(ConfigError::at(row.flag(), wrong));
    }
    let mut flags = flags.clone();
    let mut moved = Vec::new();
    let row = |name| index_of(name).expect("the name of a row");
    let is_given = |flags: &Flags, name| flags.given.iter().any(|(index, _)| *index == row(name));
    for name in ["listen", "admin-listen"] {
        let standard = ROWS[row(name)].standard_text();
        // One that was given must be free: the server says so.
        if !is_given(&flags, name) && TcpListener::bind(standard).is_err() {
            moved.push(format!("{standard} is taken: another port is used (--{name} chooses one)"));
            flags.given.push((row(name), "127.0.0.1:0".to_owned()));
        }
    }
    let config = Config::load(&flags, [], cpus)?;
    let outside = |name: &str, address: SocketAddr| {
        let wrong = Wrong::new(
            "others can reach it",
            "give an address such as 127.0.0.1:8080: a demo is for this machine",
        );
        ConfigError::at(format!("--{name} {address}"), wrong)
    };
    let Some(admin) = config.server.admin_listen else {
        let wrong = Wrong::new("the demo shows its page there", "give an address such as 127.0.0.1:8081");
        return Err(ConfigError::at("--admin-listen none", wrong));
    };
    for (name, address) in [("listen", config.server.listen), ("admin-listen", admin)] {
        if !address.ip().to_canonical().is_loopback() {
            return Err(outside(name, address));
        }
    }
    Ok((config, moved))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn flags(given: &[(&str, &str)]) -> Flags {
        let row = |name: &str| index_of(name).unwrap();
        Flags { given: given.iter().map(|(name, value)| (row(name), (*value).to_owned())).collect() }
    }

    #[test]
    fn a_default_that_is_taken_is_replaced() {
        let (config, moved) = configuration(&flags(&[("listen", "127.0.0.1:0")]), &[0]).unwrap();
        assert_eq!((config.shards(), config.server.listen.port()), (1, 0));
        // Whether 8081 is taken on this machine is not known here.
        assert!(moved.len() <= 1, "{moved:?}");
        let held = TcpListener::bind(ROWS[index_of("listen").unwrap()].standard_text());
        let (config, moved) = configuration(&flags(&[]), &[0]).unwrap();
        assert_eq!(config.server.listen.port(), 0);
        assert!(moved[0].contains("8080 is taken"), "{moved:?}");
        drop(held);
    }

    #[test]
    fn what_the_demo_never_does_is_refused() {
        for (given, says) in [
            (
                ("data-dir", "/x"),
                "--data-dir: not an option of demo, which serves from memory on the loopback; remove it, or give revcast serve --data-dir DIR",
            ),
            (
                ("listen", "0.0.0.0:0"),
                "--listen 0.0.0.0:0: others can reach it; give an address such as 127.0.0.1:8080: a demo is for this machine",
            ),
            (
                ("admin-listen", "none"),
                "--admin-listen none: the demo shows its page there; give an address such as 127.0.0.1:8081",
            ),
        ] {
            assert_eq!(configuration(&flags(&[given]), &[0]).unwrap_err().to_string(), says);
        }
        let mut options = Options::default();
        options.set("watchers", "7").unwrap();
        options.set("no-open", "").unwrap();
        options.set("duration", "5s").unwrap();
        let standard = Options::default();
        assert_eq!(
            (standard.watchers.to_string(), standard.writes.to_string()),
            (Options::WATCHERS.into(), Options::WRITES.into())
        );
        assert_eq!(
            (options.watchers, options.open, options.duration),
            (7, Some(false), Some(Duration::from_secs(5)))
        );
        for (name, value) in
            [("watchers", "0"), ("watchers", "many"), ("writes", "501"), ("duration", "5"), ("duration", "0")]
        {
            let error = options.set(name, value).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("--{name} \"{value}\": ")) && error.contains("; give "),
                "{error}"
            );
        }
    }
}
