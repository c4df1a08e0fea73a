//! The command line of `interests`.

use super::{BadOption, Fanout, Job, Rate, bare, next, rate, set, value, whole};
use crate::target::Resource;
use std::time::Duration;

pub(crate) const HELP: &str = "
interests: watchers that each want something else, one match a write, against one watcher that gets every write and
against no watcher at all.
  --server URL, --i-own-this-server, --token-file FILE, --resource NAME, --size SIZE, --connect-rate N, --threads N,
  --processes N, --sources N, --client-cpu LIST, --ahead N, --writers N, --pipeline N, --drain TIME, --seed N, --server-pid PID, --out DIR and
  --json as above, and
  --watchers N            watchers, each with its own interest and its own object   [10000]
  --by node|label|namespace|name   what tells them apart: spec.nodeName of pods, a label, their namespace, metadata.name   [node]
  --rate LIST             writes a second; each is measured             [500,max]
  --sizes LIST|none       the same with so many interests, at the first of the rates   [1,100,1000,10000, below --watchers]
  --rounds N              of all states, one after the other            [5]
  --namespace NAME        where the objects live, or how their namespaces begin   [interests]
  --warmup TIME, --duration TIME   of each state in each round          [1s, 5s]
";

/// What tells one interest from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Node,
    Label,
    Namespace,
    Name,
}

impl By {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Label => "label",
            Self::Namespace => "namespace",
            Self::Name => "name",
        }
    }
}

/// Everything that `interests` was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Interests {
    /// The options that mean the same as for `fanout`. Its rate is not used.
    pub(crate) base: Fanout,
    pub(crate) by: By,
    pub(crate) rates: Vec<Rate>,
    /// Numbers of interests of the second table, ascending, the number of watchers last.
    pub(crate) sizes: Vec<u32>,
    pub(crate) rounds: u32,
}

impl Default for Interests {
    fn default() -> Self {
        let base = Fanout {
            namespaces: vec!["interests".to_owned()],
            watchers: 10_000,
            warmup: Duration::from_secs(1),
            duration: Duration::from_secs(5),
            ..Fanout::default()
        };
        let rates = vec![Rate::PerSecond(500.0), Rate::Max];
        Self { base, by: By::Node, rates, sizes: Vec::new(), rounds: 5 }
    }
}

/// Those of the options of `fanout` that mean something here too.
const SHARED: [&str; 20] = [
    "--server",
    "--token-file",
    "--resource",
    "--namespace",
    "--size",
    "--watchers",
    "--connect-rate",
    "--threads",
    "--processes",
    "--sources",
    "--client-cpu",
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

/// Reads what follows the word `interests`.
pub(super) fn parse(parser: &mut lexopt::Parser) -> Result<Job, BadOption> {
    let mut interests = Interests::default();
    let mut sizes = None;
    let mut resource = false;
    while let Some(option) = next(parser)? {
        match option.as_str() {
            "--help" | "-h" => return Ok(Job::Help),
            "--version" | "-V" => return Ok(Job::Version),
            "--i-own-this-server" => interests.base.anywhere = true,
            "--json" => interests.base.json = true,
            "--by" => interests.by = by(&value(parser, &option)?)?,
            "--rounds" => interests.rounds = whole(&option, &value(parser, &option)?, 1, 1000)?,
            "--rate" => {
                let text = value(parser, &option)?;
                interests.rates = text.split(',').map(|one| rate(&option, one)).collect::<Result<_, _>>()?;
            }
            "--sizes" => {
                let text = value(parser, &option)?;
                let list = text.split(',').map(|one| whole(&option, one, 1, 10_000_000));
                sizes = Some(if text == "none" { Vec::new() } else { list.collect::<Result<_, _>>()? });
            }
            known if SHARED.contains(&known) => {
                resource |= known == "--resource";
                set(&mut interests.base, &option, value(parser, &option)?)?;
            }
            _ => return Err(bare(&option, "not an option of interests; see revcast-perf --help")),
        }
    }
    let watchers = interests.base.watchers;
    interests.sizes = sizes.unwrap_or_else(|| vec![1, 100, 1000, 10_000]);
    interests.sizes.retain(|&size| size < watchers);
    interests.sizes.push(watchers);
    interests.sizes.sort_unstable();
    interests.sizes.dedup();
    if interests.by == By::Node && !resource {
        interests.base.resource =
            Resource { api_version: "v1".to_owned(), plural: "pods".to_owned(), kind: "Pod".to_owned() };
    }
    check(&interests)?;
    Ok(Job::Interests(Box::new(interests)))
}

fn by(text: &str) -> Result<By, BadOption> {
    [By::Node, By::Label, By::Namespace, By::Name]
        .into_iter()
        .find(|by| by.name() == text)
        .ok_or_else(|| BadOption::new("--by", text, "give node, label, namespace or name"))
}

fn check(interests: &Interests) -> Result<(), BadOption> {
    let base = &interests.base;
    if interests.by == By::Node && base.resource.kind != "Pod" {
        let mend = "only pods have a node: use --by label, namespace or name, or leave --resource away";
        return Err(BadOption::new("--resource", &base.resource.plural, mend));
    }
    let least = interests.sizes.first().copied().unwrap_or(1);
    if base.writers > least {
        let mend =
            format!("every writer needs an object of its own, the smallest table has {least}: see --sizes");
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

    fn interests(args: &str) -> Result<Interests, String> {
        match super::super::parse(["interests"].into_iter().chain(args.split_ascii_whitespace())) {
            Ok(Job::Interests(interests)) => Ok(*interests),
            Ok(other) => Err(format!("{other:?}")),
            Err(bad) => Err(bad.to_string()),
        }
    }

    #[test]
    fn defaults_and_options() {
        let plain = interests("").expect("no option is needed");
        assert_eq!((plain.base.watchers, plain.by, plain.rounds), (10_000, By::Node, 5));
        assert_eq!(plain.rates, [Rate::PerSecond(500.0), Rate::Max]);
        assert_eq!(plain.sizes, [1, 100, 1000, 10_000]);
        assert_eq!(plain.base.resource.plural, "pods");
        let full = interests(
            "--watchers 50 --by label --rate max,7 --sizes 20,3,60 --rounds 2 --warmup 0 --duration 1s --json",
        )
        .expect("all are valid");
        assert_eq!((full.by, full.sizes, full.rounds), (By::Label, vec![3, 20, 50], 2));
        assert_eq!(full.rates, [Rate::Max, Rate::PerSecond(7.0)]);
        assert_eq!(full.base.resource.plural, "configmaps");
        assert_eq!(interests("--sizes none --watchers 9").expect("valid").sizes, [9]);
    }

    #[test]
    fn bad_options_say_how_to_mend_them() {
        for (args, expected) in [
            ("--by color", r#"--by "color": give node, label, namespace or name"#),
            (
                "--resource configmaps",
                r#"--resource "configmaps": only pods have a node: use --by label, namespace or name, or leave --resource away"#,
            ),
            (
                "--writers 2",
                r#"--writers "2": every writer needs an object of its own, the smallest table has 1: see --sizes"#,
            ),
            ("--objects 5", "--objects: not an option of interests; see revcast-perf --help"),
            ("--rate 5,", r#"--rate "": give writes a second, for example 20 or 0.5, or max"#),
        ] {
            assert_eq!(interests(args).expect_err(args), expected);
        }
    }
}
