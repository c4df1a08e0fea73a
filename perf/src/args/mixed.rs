//! The options of `mixed`.

use super::mixture::Mixture;
use super::slow::size;
use super::{BadOption, Fanout, Job, Rate, bare, next, set, value, whole};

pub(super) const HELP: &str = "
mixed: what a cluster does, at once: watches of namespaces, with selectors, of metadata alone and of Tables; some that never read;
some that go and come back after the last event that they saw; LISTs and GETs; writes; and /livez asked 50 times a second.
  all that fanout has but the selectors, and
  --watchers N            watches in all                                [5000]
  --namespaces N          as above                                      [4]
  --rate N|max            writes a second                               [50]
  --never-read N          per cent of the watchers that never read      [5]
  --receive-buffer SIZE   of those                                      [the kernel's default]
  --churn N               per cent of the others that go and come back, a second     [1]
  --readers N             clients that LIST and GET, one call after the other        [4]
";

/// Everything that `mixed` was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Mixed {
    /// The options that mean the same as for `fanout`.
    pub(crate) base: Fanout,
}

impl Default for Mixed {
    fn default() -> Self {
        let mixture = Mixture {
            deaf_percent: 5,
            churn_per_second: 0.01,
            shapes: true,
            readers: 4,
            probe: true,
            ..Mixture::default()
        };
        let base = Fanout {
            namespaces: vec!["mixed".to_owned()],
            watchers: 5000,
            rate: Rate::PerSecond(50.0),
            bookmarks: true,
            mixture,
            ..Fanout::default()
        };
        Self { base }
    }
}

/// Those of `fanout` that mean something else, or nothing, here.
const NOT_SHARED: [&str; 2] = ["--label-selector", "--field-selector"];

pub(super) fn parse(parser: &mut lexopt::Parser) -> Result<Job, BadOption> {
    let Mixed { mut base } = Mixed::default();
    let mut namespaces = 4;
    while let Some(option) = next(parser)? {
        match option.as_str() {
            "--help" | "-h" => return Ok(Job::Help),
            "--version" | "-V" => return Ok(Job::Version),
            "--i-own-this-server" => base.anywhere = true,
            "--json" => base.json = true,
            "--namespaces" => namespaces = whole(&option, &value(parser, &option)?, 1, 100_000)?,
            "--never-read" => base.mixture.deaf_percent = whole(&option, &value(parser, &option)?, 0, 99)?,
            "--receive-buffer" => {
                base.mixture.receive_buffer_bytes = Some(size(&option, &value(parser, &option)?, 1)?);
            }
            "--churn" => base.mixture.churn_per_second = churn(&option, &value(parser, &option)?)?,
            "--readers" => base.mixture.readers = whole(&option, &value(parser, &option)?, 0, 1000)?,
            known if super::OPTIONS.contains(&known) && !NOT_SHARED.contains(&known) => {
                set(&mut base, &option, value(parser, &option)?)?;
            }
            _ => return Err(bare(&option, "not an option of mixed; see revcast-perf --help")),
        }
    }
    let name = base.namespaces.concat();
    base.namespaces = (0..namespaces).map(|number| format!("{name}-{number}")).collect();
    super::check(&base)?;
    Ok(Job::Mixed(Box::new(Mixed { base })))
}

/// Per cent a second, as a share.
fn churn(option: &str, text: &str) -> Result<f64, BadOption> {
    let percent = text.parse().ok().filter(|percent: &f64| (0.0..=100.0).contains(percent));
    let mend = "give per cent a second from 0 to 100, for example 1 or 0.5";
    percent.map(|percent| percent / 100.0).ok_or_else(|| BadOption::new(option, text, mend))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mixed(args: &str) -> Result<Fanout, String> {
        match crate::args::parse(["mixed"].into_iter().chain(args.split_ascii_whitespace())) {
            Ok(Job::Mixed(mixed)) => Ok(mixed.base),
            Ok(other) => Err(format!("{other:?}")),
            Err(bad) => Err(bad.to_string()),
        }
    }

    #[test]
    fn defaults_and_options() {
        let plain = mixed("").expect("no option is needed");
        assert_eq!(plain.namespaces, ["mixed-0", "mixed-1", "mixed-2", "mixed-3"]);
        assert_eq!((plain.mixture.deaf_percent, plain.mixture.readers), (5, 4));
        assert!(plain.mixture.probe && plain.mixture.shapes && plain.mixture.churn_per_second == 0.01);
        let full = mixed(
            "--never-read 0 --churn 0.5 --readers 0 --namespaces 2 --namespace m --rate max --watchers 50",
        )
        .expect("valid");
        assert_eq!((full.namespaces, full.rate), (vec!["m-0".to_owned(), "m-1".to_owned()], Rate::Max));
        assert_eq!((full.mixture.deaf_percent, full.mixture.churn_per_second), (0, 0.005));
        assert_eq!(
            mixed("--field-selector a=b").expect_err("it has its own"),
            "--field-selector: not an option of mixed; see revcast-perf --help"
        );
        assert!(mixed("--churn -1").is_err() && mixed("--never-read 100").is_err());
    }
}
