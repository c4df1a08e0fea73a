//! The options of `slow` and of `siege`.

use super::mixture::Mixture;
use super::{BadOption, Fanout, Job, Rate, bare, next, set, value, whole};
use crate::message::deaf_among;
use crate::siege::{Kind, Siege};
use crate::units::parse_size;
use std::net::SocketAddr;
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

siege: what clients that do harm cost watchers that do their part. Rounds without and with them take turns.
  --server URL to --json as for slow, --rounds and --stall too, and
  --watchers N            watches                                       [1000]
  --by KIND               heads: request heads by the byte; hellos: TLS handshakes by the byte; vanish: peers that acknowledge
                          nothing any more; crowd: connections that say nothing; burst: watches that never read   [heads]
  --clients N             so many of them                               [1000]
  --besiege ADDR          they go there, on this machine; a server with TLS behind a forwarder for the watchers   [the server]
  --burst SIZE            written where they watch, as fast as it goes  [100MiB]
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

/// The options of `slow`.
pub(super) fn parse(parser: &mut lexopt::Parser) -> Result<Job, BadOption> {
    parse_as(parser, "slow", Slow::default(), None)
}

/// The options of `siege`.
pub(super) fn parse_siege(parser: &mut lexopt::Parser) -> Result<Job, BadOption> {
    let siege = Siege { kind: Kind::Heads, clients: 1000, at: None, burst_bytes: 100 << 20 };
    let mut slow = Slow::default();
    slow.base.namespaces = vec!["siege".to_owned()];
    (slow.base.watchers, slow.base.mixture) = (1000, Mixture::default());
    parse_as(parser, "siege", slow, Some(siege))
}

fn parse_as(
    parser: &mut lexopt::Parser,
    command: &str,
    mut slow: Slow,
    mut siege: Option<Siege>,
) -> Result<Job, BadOption> {
    while let Some(option) = next(parser)? {
        if let Some(siege) = &mut siege
            && set_siege(siege, parser, &option)?
        {
            continue;
        }
        match option.as_str() {
            "--help" | "-h" => return Ok(Job::Help),
            "--version" | "-V" => return Ok(Job::Version),
            "--i-own-this-server" => slow.base.anywhere = true,
            "--json" => slow.base.json = true,
            "--share" if siege.is_none() => slow.shares = shares(&option, &value(parser, &option)?)?,
            "--rounds" => slow.rounds = whole(&option, &value(parser, &option)?, 1, 1000)?,
            "--fill" if siege.is_none() => {
                slow.base.mixture.fill_bytes = size(&option, &value(parser, &option)?, 0)?
            }
            "--receive-buffer" if siege.is_none() => {
                let bytes = size(&option, &value(parser, &option)?, 1)?;
                slow.base.mixture.receive_buffer_bytes = Some(bytes);
            }
            "--stall" => slow.stall = Some(value(parser, &option)?),
            known if SHARED.contains(&known) => set(&mut slow.base, &option, value(parser, &option)?)?,
            _ => return Err(bare(&option, &format!("not an option of {command}; see revcast-perf --help"))),
        }
    }
    super::check(&slow.base)?;
    if siege.is_some() {
        slow.base.mixture.siege = siege;
        return Ok(Job::Slow(Box::new(slow)));
    }
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

/// Sets an option that `siege` alone has; false: it is none.
fn set_siege(siege: &mut Siege, parser: &mut lexopt::Parser, option: &str) -> Result<bool, BadOption> {
    match option {
        "--by" => {
            let text = value(parser, option)?;
            let kind = Kind::ALL.into_iter().find(|kind| kind.name() == text);
            let mend = "give heads, hellos, vanish, crowd or burst";
            siege.kind = kind.ok_or_else(|| BadOption::new(option, &text, mend))?;
        }
        "--clients" => siege.clients = whole(option, &value(parser, option)?, 1, 19_000)?,
        "--besiege" => {
            let text = value(parser, option)?;
            let at = text.parse().ok().filter(|at: &SocketAddr| at.ip().is_loopback());
            let mend = "give an address of this machine, for example 127.0.0.1:8443";
            siege.at = Some(at.ok_or_else(|| BadOption::new(option, &text, mend))?);
        }
        "--burst" => siege.burst_bytes = size(option, &value(parser, option)?, 1)? as u64,
        _ => return Ok(false),
    }
    Ok(true)
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
    fn a_siege_has_options_of_its_own() {
        let siege =
            |args: &str| match crate::args::parse(["siege"].into_iter().chain(args.split_ascii_whitespace()))
            {
                Ok(Job::Slow(slow)) => Ok((slow.base.watchers, slow.base.mixture.siege.expect("a siege"))),
                Ok(other) => Err(format!("{other:?}")),
                Err(bad) => Err(bad.to_string()),
            };
        let (watchers, plain) = siege("").expect("no option is needed");
        assert_eq!((watchers, plain.kind, plain.clients), (1000, Kind::Heads, 1000));
        let (watchers, full) =
            siege("--by burst --clients 50 --burst 1MiB --watchers 10 --besiege 127.0.0.1:1").expect("valid");
        assert_eq!((watchers, full.kind, full.clients, full.burst_bytes), (10, Kind::Burst, 50, 1 << 20));
        assert_eq!(full.at.map(|at| at.port()), Some(1));
        assert!(siege("--besiege 192.0.2.1:80").is_err(), "of another machine");
        assert_eq!(
            siege("--by night").expect_err("no such kind"),
            r#"--by "night": give heads, hellos, vanish, crowd or burst"#
        );
        assert_eq!(
            siege("--share 5").expect_err("that is slow's"),
            "--share: not an option of siege; see revcast-perf --help"
        );
        assert!(slow("--by heads").is_err());
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
