//! The command line of `cargo xtask`.

use crate::{fuzz, steps};

/// Of each fuzz target, unless said otherwise.
const FUZZ_SECONDS: u64 = 10;

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// What says within minutes whether a change is sound.
    Test,
    /// Every step, or those named, in the order of the list.
    Ci { only: Vec<String> },
    /// The simulator over `seeds` seeds from `base`; without a base, from the commit's.
    Sim { seeds: u64, base: Option<u64> },
    /// Real clients against a real server: all of them, or those in whose headings one of these texts is.
    Clients { only: Vec<String> },
    /// The etcds of the tests, installed.
    Etcd,
    /// What checks metrics and alert rules, installed.
    Promtool,
    /// The end-to-end tests on each of them.
    EtcdSuite,
    /// Instruction counts, compared with those that are kept, or kept instead.
    Counts { keep: bool },
    /// The table of Kubernetes' API types, made again; or whether newer packages exist.
    KubernetesTypes { newer: bool },
    /// The Helm chart judged; or the manifest made of it again.
    Helm { keep: bool },
    /// The operators' page in a browser.
    Page,
    /// A terminal for tests.
    Tmux,
    /// Many rounds of each fault of etcd.
    Faults,
    /// The fuzz targets, or those named, for so many seconds each.
    Fuzz { seconds: u64, only: Vec<String> },
    /// The steps of `ci`.
    List,
    /// [`HELP`].
    Help,
}

pub(crate) const HELP: &str = "\
usage: cargo xtask COMMAND

  test                           the quick checks: unit tests, simulator, conformance, kubectl, tidy
  ci [--only STEP]...            every check, in order; stops at the first failure
  list                           the steps of ci and their commands
  sim --seeds N [--base N]       the simulator over N seeds; base: first seed [from the commit]
  clients [--only TEXT]...       kubectls and other Kubernetes clients against target/release/revcast, on JSON and protobuf, beside an
                                 upstream and over TLS, and clients of HTTP/2: a matrix; TEXT: of headings, as \"beside an upstream\"
  etcd                           installs the etcds of the tests below target/etcd
  promtool                       installs what checks metrics and alert rules below target/prometheus
  etcd-suite                     the end-to-end tests on each of them: some steps of ci
  counts [--keep]                instructions of the engine's hot paths, under valgrind; keep: as those to compare with
  kubernetes-types [--newer]     the table of Kubernetes' API types from kubectl's releases; newer: is there a newer one?
  helm [--keep]                  the Helm chart with several values; keep: makes server/ops/kubernetes.yaml of it
  page                           the operators' page in Chromium, and pictures of it in target/page
  tmux                           installs the terminal in which revcast top is tested
  fuzz [--seconds N] [--only T]  the fuzz targets under libFuzzer, N seconds each [10]
  faults                         etcd fails under watches, many rounds, on JSON and protobuf; see tests/tests/etcd_faults";

/// Reads the arguments after the program's name.
///
/// # Errors
/// One line that names the argument and the mend.
pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Task, String> {
    let mut arguments = arguments.into_iter();
    let command = arguments.next().unwrap_or_else(|| "help".to_owned());
    let mut options = Vec::new();
    while let Some(name) = arguments.next() {
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (name, None),
        };
        if !["--only", "--seeds", "--base", "--seconds", "--keep", "--newer"].contains(&name.as_str()) {
            return Err(format!("{name}: unknown option; see cargo xtask help"));
        }
        if name == "--keep" || name == "--newer" {
            if value.is_some() {
                return Err(format!("{name}: takes no value; see cargo xtask help"));
            }
            options.push((name, String::new()));
            continue;
        }
        let Some(value) = value.or_else(|| arguments.next()) else {
            return Err(format!("{name}: its value is missing; see cargo xtask help"));
        };
        options.push((name, value));
    }
    let allowed: &[&str] = match command.as_str() {
        "ci" | "clients" => &["--only"],
        "sim" => &["--seeds", "--base"],
        "fuzz" => &["--seconds", "--only"],
        "counts" | "helm" => &["--keep"],
        "kubernetes-types" => &["--newer"],
        "test" | "etcd" | "promtool" | "etcd-suite" | "faults" | "page" | "tmux" | "list" | "help"
        | "--help" | "-h" => &[],
        _ => return Err(format!("{command}: unknown command; see cargo xtask help")),
    };
    if let Some((name, _)) = options.iter().find(|(name, _)| !allowed.contains(&name.as_str())) {
        return Err(format!("{name}: not an option of {command}; see cargo xtask help"));
    }
    match command.as_str() {
        "test" => Ok(Task::Test),
        "ci" => {
            let only: Vec<String> = options.into_iter().map(|(_, value)| value).collect();
            match only.iter().find(|name| steps::find(name).is_none()) {
                Some(name) => Err(format!("--only {name}: no such step; see cargo xtask list")),
                None => Ok(Task::Ci { only }),
            }
        }
        "sim" => {
            let number = |wanted: &str| {
                let value = options.iter().rev().find(|(name, _)| name == wanted);
                value.map(|(name, value)| decimal(name, value)).transpose()
            };
            let Some(seeds) = number("--seeds")? else {
                return Err("sim: how many seeds? write --seeds N".to_owned());
            };
            if seeds == 0 {
                return Err("--seeds 0: nothing would be checked; write at least 1".to_owned());
            }
            Ok(Task::Sim { seeds, base: number("--base")? })
        }
        "fuzz" => {
            let seconds = options.iter().rev().find(|(name, _)| name == "--seconds");
            let seconds = seconds.map(|(name, value)| decimal(name, value)).transpose()?;
            let only: Vec<String> =
                options.into_iter().filter(|(name, _)| name == "--only").map(|(_, value)| value).collect();
            match (seconds, only.iter().find(|name| !fuzz::TARGETS.contains(&name.as_str()))) {
                (Some(0), _) => Err("--seconds 0: nothing would be tried; write at least 1".to_owned()),
                (_, Some(name)) => {
                    Err(format!("--only {name}: no such target; there are {}", fuzz::TARGETS.join(", ")))
                }
                (seconds, None) => Ok(Task::Fuzz { seconds: seconds.unwrap_or(FUZZ_SECONDS), only }),
            }
        }
        "counts" => Ok(Task::Counts { keep: !options.is_empty() }),
        "helm" => Ok(Task::Helm { keep: !options.is_empty() }),
        "kubernetes-types" => Ok(Task::KubernetesTypes { newer: !options.is_empty() }),
        "clients" => Ok(Task::Clients { only: options.into_iter().map(|(_, value)| value).collect() }),
        "etcd" => Ok(Task::Etcd),
        "etcd-suite" => Ok(Task::EtcdSuite),
        "faults" => Ok(Task::Faults),
        "promtool" => Ok(Task::Promtool),
        "page" => Ok(Task::Page),
        "tmux" => Ok(Task::Tmux),
        "list" => Ok(Task::List),
        _ => Ok(Task::Help),
    }
}

fn decimal(name: &str, value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("{name} {value}: not a number; write decimal digits"))
}

#[cfg(test)]
mod tests {
    use super::{Task, parse};

    fn read(line: &str) -> Result<Task, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn commands_are_read() {
        assert_eq!(read("ci"), Ok(Task::Ci { only: vec![] }));
        assert_eq!(read("ci --only fmt --only=doc"), Ok(Task::Ci { only: vec!["fmt".into(), "doc".into()] }));
        assert_eq!(read("sim --seeds 7"), Ok(Task::Sim { seeds: 7, base: None }));
        assert_eq!(read("sim --base=9 --seeds 7"), Ok(Task::Sim { seeds: 7, base: Some(9) }));
        assert_eq!(
            (read("etcd"), read("etcd-suite"), read("list"), read("")),
            (Ok(Task::Etcd), Ok(Task::EtcdSuite), Ok(Task::List), Ok(Task::Help))
        );
        assert_eq!(read("clients"), Ok(Task::Clients { only: vec![] }));
        assert_eq!(read("clients --only beside"), Ok(Task::Clients { only: vec!["beside".into()] }));
        assert_eq!((read("faults"), read("promtool")), (Ok(Task::Faults), Ok(Task::Promtool)));
        assert_eq!((read("page"), read("tmux")), (Ok(Task::Page), Ok(Task::Tmux)));
        assert_eq!(read("fuzz"), Ok(Task::Fuzz { seconds: 10, only: vec![] }));
        assert_eq!(
            read("fuzz --only head --seconds 600"),
            Ok(Task::Fuzz { seconds: 600, only: vec!["head".into()] })
        );
        assert_eq!(read("counts"), Ok(Task::Counts { keep: false }));
        assert_eq!(read("counts --keep"), Ok(Task::Counts { keep: true }));
        assert_eq!(read("helm"), Ok(Task::Helm { keep: false }));
        assert_eq!(read("helm --keep"), Ok(Task::Helm { keep: true }));
        assert_eq!(read("kubernetes-types"), Ok(Task::KubernetesTypes { newer: false }));
        assert_eq!(read("kubernetes-types --newer"), Ok(Task::KubernetesTypes { newer: true }));
        assert_eq!((read("faults --seeds 3").is_err(), read("frob").is_err()), (true, true));
    }

    #[test]
    fn refusals_name_the_argument() {
        for (line, named) in [
            ("frob", "frob: unknown command"),
            ("ci --only frob", "--only frob: no such step"),
            ("ci --only", "--only: its value is missing"),
            ("ci --seeds 3", "--seeds: not an option of ci"),
            ("sim", "--seeds N"),
            ("sim --seeds 0", "--seeds 0"),
            ("fuzz --seconds 0", "--seconds 0"),
            ("fuzz --only frob", "--only frob: no such target"),
            ("sim --seeds x", "--seeds x: not a number"),
            ("list all", "all: unknown option"),
        ] {
            let said = read(line).expect_err(line);
            assert!(said.contains(named), "{line}: {said}");
        }
    }
}
