//! The options of `compare`.

use super::floor::cpus;
use super::{BadOption, Fanout, Job, OPTIONS, bare, next, set, value, whole};
use crate::compare::Subject;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const HELP: &str = "
compare A B [C ...]: the same load on each, round by round in turns; medians, spreads and ratios to the first.
  A subject is the URL of a server that runs, floor (its cheapest mode), floor:send, floor:writev, floor:uring, or a
  command line in one argument with {port} in it, which is started afresh for each round and ended behind it; behind
  etcd: (a URL or a command line) it is a bare etcd, in a build with --features etcd.
  The options of fanout but --server, --server-pid and --floor, with --duration [5s] and --warmup [1s], and
  --watchers LIST         one comparison for each: 100,1000,10000       [1000]
  --rounds N              how often each is measured                    [5]
  --server-cpu LIST       where commands and the floor run              [the first that is no --client-cpu]
  --events-per-write K    the floor's                 [1; at --rate max what the last server showed]
  --out FILE              every run as a line of JSON; --json prints them as one array
";

/// Everything that `compare` was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Compare {
    /// Its number of watchers is not used.
    pub(crate) base: Fanout,
    pub(crate) subjects: Vec<Subject>,
    pub(crate) watchers: Vec<u32>,
    pub(crate) rounds: u32,
    /// Empty: the first CPU that is not the clients'.
    pub(crate) server_cpu: Vec<usize>,
    pub(crate) out: Option<PathBuf>,
}

impl Default for Compare {
    fn default() -> Self {
        Self {
            base: Fanout {
                duration: Duration::from_secs(5),
                warmup: Duration::from_secs(1),
                ..Fanout::default()
            },
            subjects: Vec::new(),
            watchers: vec![1000],
            rounds: 5,
            server_cpu: Vec::new(),
            out: None,
        }
    }
}

pub(super) fn parse(parser: &mut lexopt::Parser) -> Result<Job, BadOption> {
    let mut compare = Compare::default();
    while let Some(option) = next(parser)? {
        match option.as_str() {
            "--help" | "-h" => return Ok(Job::Help),
            "--version" | "-V" => return Ok(Job::Version),
            "--json" => compare.base.json = true,
            "--i-own-this-server" => compare.base.anywhere = true,
            "--bookmarks" => compare.base.bookmarks = true,
            "--watchers" => compare.watchers = watchers(&option, &value(parser, &option)?)?,
            "--rounds" => compare.rounds = whole(&option, &value(parser, &option)?, 1, 1000)?,
            "--server-cpu" => compare.server_cpu = cpus(&option, &value(parser, &option)?)?,
            "--out" => compare.out = Some(PathBuf::from(value(parser, &option)?)),
            "--server" | "--server-pid" | "--floor" => {
                return Err(bare(&option, "not an option of compare: name what to compare as A B"));
            }
            known if OPTIONS.contains(&known) => set(&mut compare.base, &option, value(parser, &option)?)?,
            text if !text.starts_with('-') => {
                let subject = Subject::parse(text).map_err(|mend| BadOption::new("a subject", text, mend))?;
                compare.subjects.push(subject);
            }
            _ => return Err(bare(&option, "not an option of compare; see revcast-perf --help")),
        }
    }
    if compare.subjects.len() < 2 {
        let mend = "give two at least, for example http://127.0.0.1:8080 floor";
        return Err(BadOption::new("subjects", &compare.subjects.len().to_string(), mend));
    }
    for &watchers in &compare.watchers {
        super::check(&Fanout { watchers, ..compare.base.clone() })?;
    }
    Ok(Job::Compare(Box::new(compare)))
}

fn watchers(option: &str, text: &str) -> Result<Vec<u32>, BadOption> {
    let mend = "give whole numbers from 1 to 10000000, for example 1000 or 100,1000,10000";
    let number = |part: &str| part.parse().ok().filter(|number| (1..=10_000_000).contains(number));
    let numbers: Option<Vec<u32>> = text.split(',').map(number).collect();
    numbers.ok_or_else(|| BadOption::new(option, text, mend))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Rate;
    use crate::floor::Mode;

    fn compare(args: &[&str]) -> Result<Compare, String> {
        match crate::args::parse(["compare"].iter().chain(args)) {
            Ok(Job::Compare(compare)) => Ok(*compare),
            Ok(other) => Err(format!("{other:?}")),
            Err(bad) => Err(bad.to_string()),
        }
    }

    #[test]
    fn subjects_and_options() {
        let plain = compare(&["http://127.0.0.1:1", "floor"]).expect("two subjects");
        assert_eq!((plain.subjects.len(), plain.watchers, plain.rounds), (2, vec![1000], 5));
        let full = compare(&[
            "a --port {port}",
            "--watchers",
            "100,2000",
            "floor:send",
            "--rounds",
            "3",
            "--rate",
            "max",
            "--server-cpu",
            "0",
            "--client-cpu",
            "1",
            "--events-per-write",
            "16",
            "--out",
            "f",
            "--size",
            "2KiB",
        ])
        .expect("all are valid");
        assert_eq!(full.subjects[1], Subject::Floor(Some(Mode::Send)));
        assert_eq!((full.watchers, full.rounds, full.server_cpu), (vec![100, 2000], 3, vec![0]));
        assert_eq!((full.base.rate, full.base.size_bytes), (Rate::Max, 2048));
        assert_eq!((full.base.events_per_write, full.out), (Some(16), Some(PathBuf::from("f"))));
    }

    #[test]
    fn bad_ones_are_one_line() {
        for (args, expected) in [
            (&["floor"][..], r#"subjects "1": give two at least, for example http://127.0.0.1:8080 floor"#),
            (
                &["floor", "server"],
                r#"a subject "server": give http://HOST:PORT, floor, etcd:http://HOST:PORT, or a command line with {port} in it"#,
            ),
            (&["--server", "http://x"], "--server: not an option of compare: name what to compare as A B"),
            (
                &["--watchers", "1,,2"],
                r#"--watchers "1,,2": give whole numbers from 1 to 10000000, for example 1000 or 100,1000,10000"#,
            ),
        ] {
            assert_eq!(compare(args).expect_err("bad"), expected);
        }
    }
}
