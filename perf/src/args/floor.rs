//! The options of `floor`, and of `fanout --floor`.

use super::{BadOption, Fanout, Job, bare, cpu_list, next, set, value, whole};
use crate::floor::Mode;
use std::thread;
use std::time::Duration;

pub(super) const HELP: &str = "
floor: what this machine needs to hand prepared bytes to the watchers, by a bare loop that takes the server's place.
  --watchers N, --size SIZE, --objects N, --rate R|max, --warmup TIME, --duration TIME [5s], --drain TIME, --seed N,
  --connect-rate N, --threads N, --processes N, --sources N, --client-cpu LIST, --out DIR and --json as above, and
  --events-per-write K    so many events leave together                 [1]
  --mode MODE             send, writev, uring or all                    [all]
  --server-cpu LIST       where the sender runs                         [the first that is no --client-cpu]
  --rounds N              the modes take turns so often                 [1]
";

/// Whether `fanout` measures the floor behind its run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FloorChoice {
    /// All modes, where the server is a process of this machine.
    #[default]
    Local,
    Off,
    Best,
    One(Mode),
}

impl FloorChoice {
    pub(super) fn parse(option: &str, text: &str) -> Result<Self, BadOption> {
        match (text, Mode::parse(text)) {
            ("off", _) => Ok(Self::Off),
            ("best", _) => Ok(Self::Best),
            (_, Some(mode)) => Ok(Self::One(mode)),
            (_, None) => Err(BadOption::new(option, text, "give send, writev, uring, best or off")),
        }
    }
}

/// Everything that `floor` was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Floor {
    pub(crate) base: Fanout,
    pub(crate) modes: Vec<Mode>,
    pub(crate) events_per_write: u32,
    /// Empty: chosen by [`Floor::server_cpus`].
    pub(crate) server_cpu: Vec<usize>,
    pub(crate) rounds: u32,
}

impl Default for Floor {
    fn default() -> Self {
        Self {
            base: Fanout {
                duration: Duration::from_secs(5),
                warmup: Duration::from_secs(1),
                ..Fanout::default()
            },
            modes: Mode::ALL.to_vec(),
            events_per_write: 1,
            server_cpu: Vec::new(),
            rounds: 1,
        }
    }
}

impl Floor {
    /// Where the sender is to run.
    pub(crate) fn server_cpus(&self) -> Vec<usize> {
        server_cpus(&self.server_cpu, &self.base.client_cpus)
    }
}

/// The CPUs of the server's side: those that were named, else the first that is not one of `client_cpus`. Without
/// such a one: any.
pub(crate) fn server_cpus(named: &[usize], client_cpus: &[usize]) -> Vec<usize> {
    if !named.is_empty() || client_cpus.is_empty() {
        return named.to_vec();
    }
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    // What this process may run on is counted before it is pinned; numbers may have holes above that.
    let most = cpus.max(client_cpus.len() + 1);
    (0..most).find(|cpu| !client_cpus.contains(cpu)).into_iter().collect()
}

/// Those options of `fanout` that mean something to `floor` too.
const SHARED: [&str; 15] = [
    "--watchers",
    "--size",
    "--objects",
    "--rate",
    "--warmup",
    "--duration",
    "--drain",
    "--seed",
    "--connect-rate",
    "--threads",
    "--processes",
    "--sources",
    "--client-cpu",
    "--resource",
    "--out",
];

pub(super) fn parse(parser: &mut lexopt::Parser) -> Result<Job, BadOption> {
    let mut floor = Floor::default();
    while let Some(option) = next(parser)? {
        match option.as_str() {
            "--help" | "-h" => return Ok(Job::Help),
            "--version" | "-V" => return Ok(Job::Version),
            "--json" => floor.base.json = true,
            "--mode" => floor.modes = modes(&option, &value(parser, &option)?)?,
            "--events-per-write" => {
                floor.events_per_write = whole(&option, &value(parser, &option)?, 1, 1024)?;
            }
            "--server-cpu" => floor.server_cpu = cpus(&option, &value(parser, &option)?)?,
            "--rounds" => floor.rounds = whole(&option, &value(parser, &option)?, 1, 1000)?,
            known if SHARED.contains(&known) => set(&mut floor.base, &option, value(parser, &option)?)?,
            _ => return Err(bare(&option, "not an option of floor; see revcast-perf --help")),
        }
    }
    super::check(&floor.base)?;
    Ok(Job::Floor(Box::new(floor)))
}

fn modes(option: &str, text: &str) -> Result<Vec<Mode>, BadOption> {
    if text == "all" {
        return Ok(Mode::ALL.to_vec());
    }
    let mode =
        Mode::parse(text).ok_or_else(|| BadOption::new(option, text, "give send, writev, uring or all"))?;
    Ok(vec![mode])
}

/// A list of CPUs.
pub(super) fn cpus(option: &str, text: &str) -> Result<Vec<usize>, BadOption> {
    let mend = "give CPU numbers, for example 1 or 1,3 or 2-5";
    cpu_list(text).ok_or_else(|| BadOption::new(option, text, mend))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Rate;

    fn floor(args: &str) -> Result<Floor, String> {
        match crate::args::parse(["floor"].into_iter().chain(args.split_ascii_whitespace())) {
            Ok(Job::Floor(floor)) => Ok(*floor),
            Ok(other) => Err(format!("{other:?}")),
            Err(bad) => Err(bad.to_string()),
        }
    }

    #[test]
    fn defaults_and_every_option() {
        let plain = floor("").expect("no option is needed");
        assert_eq!((plain.modes.len(), plain.events_per_write, plain.rounds), (3, 1, 1));
        let full = floor(
            "--watchers 9 --size 4KiB --objects 2 --rate max --events-per-write 64 --mode uring --duration 1s \
             --warmup 0 --client-cpu 0 --server-cpu 2-3 --rounds 5 --json --seed 4",
        )
        .expect("all are valid");
        assert_eq!((full.base.watchers, full.base.size_bytes, full.base.rate), (9, 4096, Rate::Max));
        assert_eq!((full.modes, full.events_per_write, full.rounds), (vec![Mode::Uring], 64, 5));
        assert_eq!(full.server_cpu, [2, 3]);
        assert!(full.base.json);
        for (args, expected) in [
            ("--mode sendto", r#"--mode "sendto": give send, writev, uring or all"#),
            ("--events-per-write 0", r#"--events-per-write "0": give a whole number from 1 to 1024"#),
            ("--server http://x", "--server: not an option of floor; see revcast-perf --help"),
        ] {
            assert_eq!(floor(args).expect_err(args), expected);
        }
    }

    #[test]
    fn the_sender_keeps_away_from_the_clients() {
        assert_eq!(server_cpus(&[], &[1]), [0]);
        assert_eq!(server_cpus(&[], &[0]), [1]);
        assert_eq!(server_cpus(&[], &[0, 1, 3]), [2]);
        assert_eq!(server_cpus(&[5, 6], &[1]), [5, 6]);
        assert!(server_cpus(&[], &[]).is_empty(), "nothing is pinned");
    }

    #[test]
    fn what_fanout_may_be_told() {
        let choice = |text: &str| FloorChoice::parse("--floor", text).map_err(|bad| bad.to_string());
        assert_eq!(choice("off"), Ok(FloorChoice::Off));
        assert_eq!(choice("best"), Ok(FloorChoice::Best));
        assert_eq!(choice("writev"), Ok(FloorChoice::One(Mode::Writev)));
        assert_eq!(choice("on"), Err(r#"--floor "on": give send, writev, uring, best or off"#.to_owned()));
    }
}
