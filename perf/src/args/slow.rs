//! The options of `slow`.

use super::mixture::Mixture;
use super::{BadOption, Fanout, Job, Rate, bare, next, set, value, whole};
use crate::message::deaf_among;
use crate::units::parse_size;
use std::time::Duration;

pub(super) const HELP: &str = "
slow: what watchers that never read cost those that do. Rounds without and with them take turns; the others are the same number in both.
  --server URL, --i-own-this-server, --token-file FILE, --resource NAME, --namespace NAME, --objects N, --size SIZE,
  --connect-rate N, --threads N, --processes N, --sources N, --client-cpu LIST, --ahead N, --writers N, --pipeline N,
  --warmup TIME, --drain TIME, --seed N, --server-pid PID, --out DIR and --json as above, and
  --watchers N            watches in all                                [10000]
  --share LIST            per cent of them that never read, for example 5,20,50      [20]
  --rate N|max            writes a second                               [10]
  --duration TIME         measured in each half of a round              [10s]
  --rounds N              pairs of halves                               [5]
  --fill SIZE             written to each watcher before the warm-up, so that sockets nobody reads are full   [512KiB]
  --receive-buffer SIZE   of those that never read                      [the kernel's default]
  --stall TEXT            what the server was started with: stands in the report, changes nothing
";

/// Everything that `slow` was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Slow {
    /// The options that mean the same as for `fanout`.
    pub(crate) base: Fanout,
    /// Per cent that never read; each is measured.
    pub(crate) shares: Vec<u32>,
    pub(crate) rounds: u32,
    /// What the server was started with, in the user's words.
    pub(crate) stall: Option<String>,
}

impl Default for Slow {
    fn default() -> Self {
        let base = Fanout {
            namespaces: vec!["slow".to_owned()],
            watchers: 10_000,
            rate: Rate::PerSecond(10.0),
            duration: Duration::from_secs(10),
            mixture: Mixture { fill_bytes: 512 * 1024, ..Mixture::default() },
            ..Fanout::default()
        };
        Self { base, shares: vec![20], rounds: 5, stall: None }
    }
}

/// Those of `fanout` that mean the same here.
const SHARED: [&str; 22] = [
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
    "--ahead",
    "--writers",
    "--pipeline",
    "--warmup",
    "--duration",
    "--drain",
    "--seed",
    "--server-pid",
    "--out",
];

pub(super) fn parse(parser: &mut lexopt::Parser) -> Result<Job, BadOption> {
    let mut slow = Slow::default();
    while let Some(option) = next(parser)? {
        match option.as_str() {
            "--help" | "-h" => return Ok(Job::Help),
            "--version" | "-V" => return Ok(Job::Version),
            "--i-own-this-server" => slow.base.anywhere = true,
            "--json" => slow.base.json = true,
            "--share" => slow.shares = shares(&option, &value(parser, &option)?)?,
            "--rounds" => slow.rounds = whole(&option, &value(parser, &option)?, 1, 1000)?,
            "--fill" => slow.base.mixture.fill_bytes = size(&option, &value(parser, &option)?, 0)?,
            "--receive-buffer" => {
                let bytes = size(&option, &value(parser, &option)?, 1)?;
                slow.base.mixture.receive_buffer_bytes = Some(bytes);
            }
            "--stall" => slow.stall = Some(value(parser, &option)?),
            known if SHARED.contains(&known) => set(&mut slow.base, &option, value(parser, &option)?)?,
            _ => return Err(bare(&option, "not an option of slow; see revcast-perf --help")),
        }
    }
    super::check(&slow.base)?;
    for &share in &slow.shares {
        let deaf = deaf_among(slow.base.watchers, share);
        if deaf == 0 || deaf == slow.base.watchers {
            let mend =
                format!("{deaf} of {} watchers would never read: raise --watchers", slow.base.watchers);
            return Err(BadOption::new("--share", &share.to_string(), mend));
        }
    }
    Ok(Job::Slow(Box::new(slow)))
}

fn shares(option: &str, text: &str) -> Result<Vec<u32>, BadOption> {
    let each = text.split(',').map(|part| part.parse().ok().filter(|share| (1..100).contains(share)));
    let mend = "give whole per cents from 1 to 99, for example 20 or 5,20,50";
    each.collect::<Option<Vec<u32>>>().ok_or_else(|| BadOption::new(option, text, mend))
}

/// A size of a buffer.
pub(super) fn size(option: &str, text: &str, least: usize) -> Result<usize, BadOption> {
    let size = parse_size(text).filter(|&bytes| (least..=1024 * 1024 * 1024).contains(&bytes));
    let mend = format!("give bytes, KiB or MiB, for example 64KiB, from {least} bytes to 1024MiB");
    size.ok_or_else(|| BadOption::new(option, text, mend))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(args: &str) -> Result<Slow, String> {
        match crate::args::parse(["slow"].into_iter().chain(args.split_ascii_whitespace())) {
            Ok(Job::Slow(slow)) => Ok(*slow),
            Ok(other) => Err(format!("{other:?}")),
            Err(bad) => Err(bad.to_string()),
        }
    }

    #[test]
    fn defaults_and_options() {
        let plain = slow("").expect("no option is needed");
        assert_eq!((plain.base.watchers, plain.base.rate), (10_000, Rate::PerSecond(10.0)));
        assert_eq!((plain.shares, plain.rounds, plain.stall), (vec![20], 5, None));
        assert_eq!(plain.base.mixture, Mixture { fill_bytes: 524_288, ..Mixture::default() });
        let full =
            slow("--share 5,20,50 --rounds 2 --receive-buffer 4KiB --fill 0 --stall 5s --watchers 100")
                .expect("valid");
        assert_eq!((full.shares, full.rounds), (vec![5, 20, 50], 2));
        assert_eq!(full.base.mixture.receive_buffer_bytes, Some(4096));
        assert_eq!((full.base.mixture.fill_bytes, full.stall.as_deref()), (0, Some("5s")));
        for option in SHARED {
            let outcome = slow(&format!("{option} 1"));
            assert!(!outcome.is_err_and(|line| line.contains("not an option")), "{option}");
        }
    }

    #[test]
    fn a_bad_option_is_one_line() {
        for (args, expected) in [
            ("--share 0", r#"--share "0": give whole per cents from 1 to 99, for example 20 or 5,20,50"#),
            (
                "--share 5 --watchers 10",
                r#"--share "5": 0 of 10 watchers would never read: raise --watchers"#,
            ),
            ("--bookmarks", "--bookmarks: not an option of slow; see revcast-perf --help"),
            (
                "--fill much",
                r#"--fill "much": give bytes, KiB or MiB, for example 64KiB, from 0 bytes to 1024MiB"#,
            ),
        ] {
            assert_eq!(slow(args).expect_err(args), expected);
        }
    }
}
