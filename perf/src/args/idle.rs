//! The options of `idle`.

use super::{BadOption, Fanout, Job, bare, duration, next, set, value, whole};
use std::time::Duration;

pub(super) const HELP: &str = "
idle: watchers that get nothing but heartbeats and bookmarks: what one costs in memory, and all of them in CPU time.
  --server URL, --i-own-this-server, --token-file FILE, --resource NAME, --namespace NAME, --connect-rate N, --threads N,
  --processes N, --sources N, --client-cpu LIST, --server-pid PID, --out DIR and --json as above, and
  --watchers N            watches to open                               [19000]
  --duration TIME         watched in silence; whole heartbeat intervals [50s]
  --prime N               watches opened and closed before memory is first read: what grows once is not what grows by each [1000]
  --rounds N              times that all are opened, and closed again   [1]
";

/// Everything that `idle` was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Idle {
    /// The options that mean the same as for `fanout`.
    pub(crate) base: Fanout,
    pub(crate) prime: u32,
    pub(crate) rounds: u32,
}

impl Default for Idle {
    fn default() -> Self {
        let base = Fanout {
            namespaces: vec!["idle".to_owned()],
            watchers: 19_000,
            objects: 1,
            bookmarks: true,
            // Two of a server's heartbeat intervals, as they are by default: a part of one holds a heartbeat or none.
            duration: Duration::from_secs(50),
            drain: Duration::ZERO,
            ..Fanout::default()
        };
        Self { base, prime: 1000, rounds: 1 }
    }
}

/// Those of `fanout` that mean the same here.
const SHARED: [&str; 13] = [
    "--server",
    "--token-file",
    "--resource",
    "--namespace",
    "--connect-rate",
    "--threads",
    "--processes",
    "--sources",
    "--client-cpu",
    "--server-pid",
    "--watchers",
    "--duration",
    "--out",
];

pub(super) fn parse(parser: &mut lexopt::Parser) -> Result<Job, BadOption> {
    let mut idle = Idle::default();
    while let Some(option) = next(parser)? {
        match option.as_str() {
            "--help" | "-h" => return Ok(Job::Help),
            "--version" | "-V" => return Ok(Job::Version),
            "--i-own-this-server" => idle.base.anywhere = true,
            "--json" => idle.base.json = true,
            "--prime" => idle.prime = whole(&option, &value(parser, &option)?, 0, 1_000_000)?,
            "--rounds" => idle.rounds = whole(&option, &value(parser, &option)?, 1, 1000)?,
            "--duration" => {
                idle.base.duration = duration(&option, &value(parser, &option)?, Duration::from_millis(100))?;
            }
            known if SHARED.contains(&known) => set(&mut idle.base, &option, value(parser, &option)?)?,
            _ => return Err(bare(&option, "not an option of idle; see revcast-perf --help")),
        }
    }
    if idle.base.processes > idle.base.watchers {
        let processes = idle.base.processes.to_string();
        return Err(BadOption::new("--processes", &processes, "more than there are --watchers"));
    }
    Ok(Job::Idle(Box::new(idle)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle(args: &str) -> Result<Idle, String> {
        match crate::args::parse(["idle"].into_iter().chain(args.split_ascii_whitespace())) {
            Ok(Job::Idle(idle)) => Ok(*idle),
            Ok(other) => Err(format!("{other:?}")),
            Err(bad) => Err(bad.to_string()),
        }
    }

    #[test]
    fn defaults_and_options() {
        let plain = idle("").expect("no option is needed");
        assert_eq!((plain.base.watchers, plain.prime, plain.rounds), (19_000, 1000, 1));
        assert_eq!((plain.base.duration, plain.base.bookmarks), (Duration::from_secs(50), true));
        let full = idle("--watchers 7 --prime 0 --rounds 3 --duration 1s --json --threads 2").expect("valid");
        assert_eq!((full.base.watchers, full.prime, full.rounds, full.base.threads), (7, 0, 3, 2));
        assert!(full.base.json);
        assert_eq!(
            idle("--rate 5").expect_err("nothing is written"),
            "--rate: not an option of idle; see revcast-perf --help"
        );
        assert!(idle("--rounds 0").is_err() && idle("--watchers 1 --processes 2").is_err());
        for option in SHARED {
            let outcome = idle(&format!("{option} 1"));
            assert!(!outcome.is_err_and(|line| line.contains("not an option")), "{option}");
        }
    }
}
