//! Options that belong to one command, beside those of the server, and what is said about a command at length.

use crate::config::row::Row;
use crate::config::table::ROWS;
use crate::demo::{Options, TAKEN};
use crate::setting::{ConfigError, Wrong};

/// An option of one command.
#[derive(Debug)]
pub(super) struct OwnOption {
    /// The command.
    pub(super) verb: &'static str,
    /// The flag without its dashes.
    pub(super) name: &'static str,
    /// The placeholder of the value in the help; empty: it takes none.
    pub(super) value: &'static str,
    /// What holds without it; empty: nothing is set.
    pub(super) standard: &'static str,
    /// One line, without the default.
    pub(super) help: &'static str,
}

/// All of them. Two commands may have one of the same name, if both take a value or neither does.
pub(super) const OWN: [OwnOption; 13] = [
    own("doctor", "json", "", "", "one JSON object instead of lines"),
    own("demo", "watchers", "N", Options::WATCHERS, "watchers, each on a connection of its own"),
    own("demo", "writes", "N", Options::WRITES, "writes a second"),
    own("demo", "duration", "TIME", "until Ctrl-C", "end after this time"),
    own("demo", "open", "", "", "open the page in a browser, wherever this runs"),
    own("demo", "no-open", "", "", "print its address only"),
    own("demo", "json", "", "", "a line of JSON a second, and a summary"),
    own("top", "admin", "URL", "http://127.0.0.1:8081", "the server's admin listener"),
    own("top", "ca", "FILE", "", "authorities of its certificate, for https"),
    own("top", "token-file", "FILE", "", "a token; or the variable REVCAST_TOP_TOKEN"),
    own("top", "delay", "TIME", "1s, once: 2s", "time between two views, 1s to 1m"),
    own("top", "once", "", "", "print one table, for scripts"),
    own("top", "output", "FORM", "table", "of --once: table, or json"),
];

const fn own(
    verb: &'static str,
    name: &'static str,
    value: &'static str,
    standard: &'static str,
    help: &'static str,
) -> OwnOption {
    OwnOption { verb, name, value, standard, help }
}

impl OwnOption {
    /// `--watchers`
    pub(super) fn flag(&self) -> String {
        format!("--{}", self.name)
    }

    /// The values, if there are few.
    pub(super) fn words(&self) -> &'static [&'static str] {
        if self.name == "output" { &["table", "json"] } else { &[] }
    }
}

/// The options of one command.
pub(super) fn of(verb: &str) -> impl Iterator<Item = &'static OwnOption> {
    OWN.iter().filter(move |option| option.verb == verb)
}

/// Which of the server's options a command takes.
pub(super) fn rows(verb: &str) -> impl Iterator<Item = &'static Row> {
    let takes = move |row: &&Row| match verb {
        "serve" | "config" | "doctor" => true,
        "demo" => TAKEN.contains(&row.name),
        _ => false,
    };
    ROWS.iter().filter(takes)
}

/// Refuses an option of another command.
pub(super) fn check(given: &[(&str, String)], verb: &str) -> Result<(), ConfigError> {
    let stray = given.iter().find(|(name, _)| !of(verb).any(|option| option.name == *name));
    let Some(option) = stray.and_then(|(name, _)| OWN.iter().find(|option| option.name == *name)) else {
        return Ok(());
    };
    let space = if option.value.is_empty() { "" } else { " " };
    let mend = format!("remove it, or give revcast {} {}{space}{}", option.verb, option.flag(), option.value);
    Err(ConfigError::at(option.flag(), Wrong::new(format!("not an option of {verb}"), mend)))
}

/// What a command does, in paragraphs of at most 80 columns.
pub(super) fn about(verb: &str) -> Option<&'static str> {
    Some(match verb {
        "config" => "Prints TOML, a file for --config. Each value has its origin in a comment.",
        "doctor" => {
            "Looks at the kernel, limits, CPUs, memory, addresses, the data directory, etcd\n\
             and the upstream. Exit status 0: no check failed; 1: one did."
        }
        "demo" => {
            "Serves a small cluster from memory on this machine alone, changes its objects,\n\
             and watches them with clients of its own, which check that each event arrives\n\
             once and in order, and print how long it took. Nothing is written to disk;\n\
             variables and files are not read. A default port that is taken is replaced.\n\
             Ctrl-C prints a summary. Exit status 1: an event was lost or out of order."
        }
        "top" => {
            "Shows rates, watchers, latencies, the window, shards, memory and errors of a\n\
             server, from its /status. REVCAST_TOP_TOKEN: a bearer token with the right to\n\
             get it; NO_COLOR: no colours. Keys: q quits, h lists all, Tab or a number shows\n\
             another pane, < and > sort, r reverses, / filters, p pauses, d sets the delay."
        }
        "probe" => "Exit status 0: the server answered 200; its reply is printed. Timeout: 3 s.",
        "completions" => {
            "bash:  eval \"$(revcast completions bash)\"\n\
             zsh:   revcast completions zsh > DIR/_revcast, with DIR in fpath\n\
             fish:  revcast completions fish | source"
        }
        "man" => "revcast man | man -l -    With DIR: revcast.1, and revcast-COMMAND.1 for each.",
        _ => return None,
    })
}
