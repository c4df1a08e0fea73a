//! The command line of `storm`.

use super::{BadOption, Fanout, Job, Rate, bare, duration, next, set, value, whole};
use std::time::Duration;

pub(crate) const HELP: &str = "
storm: all watchers lose their connections at one moment and come back at once, each behind the last event that it saw,
while writes go on and some other watchers stay; or, with --lists, many clients list everything at once meanwhile.
  --server URL, --i-own-this-server, --token-file FILE, --resource NAME, --namespace NAME, --size SIZE, --connect-rate N,
  --threads N, --processes N, --client-cpu LIST, --writers N, --pipeline N, --drain TIME, --seed N,
  --server-pid PID, --out DIR and --json as above, and
  --watchers N            watchers that lose their connections          [10000]
  --sources N             as above, but                                 [8 to a server on 127.0.0.1]
  --live N                watchers that stay                            [100]
  --rate N                writes a second                               [20]
  --objects N             objects that are written; with --lists, that are listed [10; 100000]
  --close fin|rst         how connections end                           [fin]
  --spread TIME           come back evenly over so much time            [0: as fast as connect goes]
  --calm TIME             in front of each round: what the ones who stay are compared with   [2s]
  --rounds N                                                            [5]
  --lists                 LISTs instead of lost connections
  --clients N             clients that list at once                     [50]
  --timeout TIME          longest wait for the last of them             [1m]
";

/// Everything that `storm` was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Storm {
    /// The options that mean the same as for `fanout`.
    pub(crate) base: Fanout,
    /// Watchers that keep their connections.
    pub(crate) live: u32,
    /// Connections end with RST, not with FIN.
    pub(crate) reset: bool,
    pub(crate) spread: Duration,
    pub(crate) calm: Duration,
    pub(crate) timeout: Duration,
    pub(crate) rounds: u32,
    pub(crate) lists: Option<Lists>,
}

/// What is listed, by how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lists {
    pub(crate) clients: u32,
    pub(crate) objects: u32,
}

impl Default for Storm {
    fn default() -> Self {
        let base = Fanout { namespaces: vec!["storm".to_owned()], watchers: 10_000, ..Fanout::default() };
        Self {
            base,
            live: 100,
            reset: false,
            spread: Duration::ZERO,
            calm: Duration::from_secs(2),
            timeout: Duration::from_secs(60),
            rounds: 5,
            lists: None,
        }
    }
}

/// Those of the options of `fanout` that mean something here too.
const SHARED: [&str; 19] = [
    "--server",
    "--token-file",
    "--resource",
    "--namespace",
    "--objects",
    "--size",
    "--watchers",
    "--connect-rate",
    "--threads",
    "--processes",
    "--sources",
    "--client-cpu",
    "--rate",
    "--writers",
    "--pipeline",
    "--drain",
    "--seed",
    "--server-pid",
    "--out",
];

/// Reads what follows the word `storm`.
pub(super) fn parse(parser: &mut lexopt::Parser) -> Result<Job, BadOption> {
    let mut storm = Storm::default();
    let (mut lists, mut clients, mut objects) = (false, 50, None);
    while let Some(option) = next(parser)? {
        match option.as_str() {
            "--help" | "-h" => return Ok(Job::Help),
            "--version" | "-V" => return Ok(Job::Version),
            "--i-own-this-server" => storm.base.anywhere = true,
            "--json" => storm.base.json = true,
            "--lists" => lists = true,
            "--clients" => clients = whole(&option, &value(parser, &option)?, 1, 10_000)?,
            "--live" => storm.live = whole(&option, &value(parser, &option)?, 1, 1_000_000)?,
            "--rounds" => storm.rounds = whole(&option, &value(parser, &option)?, 1, 1000)?,
            "--spread" => storm.spread = duration(&option, &value(parser, &option)?, Duration::ZERO)?,
            "--calm" => storm.calm = time(&option, &value(parser, &option)?)?,
            "--timeout" => storm.timeout = time(&option, &value(parser, &option)?)?,
            "--close" => {
                let text = value(parser, &option)?;
                storm.reset = match text.as_str() {
                    "rst" => true,
                    "fin" => false,
                    _ => return Err(BadOption::new(&option, &text, "give fin or rst")),
                };
            }
            known if SHARED.contains(&known) => {
                set(&mut storm.base, &option, value(parser, &option)?)?;
                if known == "--objects" {
                    objects = Some(storm.base.objects);
                }
            }
            _ => return Err(bare(&option, "not an option of storm; see revcast-perf --help")),
        }
    }
    if lists {
        storm.lists = Some(Lists { clients, objects: objects.unwrap_or(100_000) });
        storm.base.objects = Fanout::default().objects;
    }
    check(&storm)?;
    Ok(Job::Storm(Box::new(storm)))
}

fn time(option: &str, text: &str) -> Result<Duration, BadOption> {
    duration(option, text, Duration::from_millis(100))
}

fn check(storm: &Storm) -> Result<(), BadOption> {
    let base = &storm.base;
    if base.rate == Rate::Max {
        return Err(BadOption::new(
            "--rate",
            "max",
            "give writes a second: a storm is seen against a steady rate",
        ));
    }
    if base.writers > base.objects {
        let mend = format!("every writer needs an object of its own, there are {}", base.objects);
        return Err(BadOption::new("--writers", &base.writers.to_string(), mend));
    }
    if base.processes > base.watchers {
        return Err(BadOption::new(
            "--processes",
            &base.processes.to_string(),
            "more than there are --watchers",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storm(args: &str) -> Result<Storm, String> {
        match super::super::parse(["storm"].into_iter().chain(args.split_ascii_whitespace())) {
            Ok(Job::Storm(storm)) => Ok(*storm),
            Ok(other) => Err(format!("{other:?}")),
            Err(bad) => Err(bad.to_string()),
        }
    }

    #[test]
    fn defaults_and_options() {
        let plain = storm("").expect("no option is needed");
        assert_eq!((plain.base.watchers, plain.live, plain.rounds, plain.base.objects), (10_000, 100, 5, 10));
        assert!(!plain.reset && plain.spread.is_zero() && plain.lists.is_none());
        let full =
            storm("--watchers 50 --live 3 --close rst --spread 1s --calm 500ms --timeout 5s --objects 4")
                .expect("all are valid");
        assert_eq!((full.base.watchers, full.live, full.base.objects), (50, 3, 4));
        assert!(
            full.reset && full.spread == Duration::from_secs(1) && full.calm == Duration::from_millis(500)
        );
        let lists = storm("--lists --clients 7").expect("valid");
        assert_eq!(lists.lists, Some(Lists { clients: 7, objects: 100_000 }));
        assert_eq!(lists.base.objects, 10, "what is written stays few");
        assert_eq!(
            storm("--objects 9 --lists").expect("valid").lists,
            Some(Lists { clients: 50, objects: 9 })
        );
    }

    #[test]
    fn bad_options_say_how_to_mend_them() {
        for (args, expected) in [
            ("--close hard", r#"--close "hard": give fin or rst"#),
            ("--rate max", r#"--rate "max": give writes a second: a storm is seen against a steady rate"#),
            ("--writers 11", r#"--writers "11": every writer needs an object of its own, there are 10"#),
            ("--duration 5s", "--duration: not an option of storm; see revcast-perf --help"),
            ("--live 0", r#"--live "0": give a whole number from 1 to 1000000"#),
        ] {
            assert_eq!(storm(args).expect_err(args), expected);
        }
    }
}
