//! The kubectls on this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The minor versions to check: from the oldest supported one to that of the recordings.
const WANTED: std::ops::RangeInclusive<u32> = 27..=36;

/// Every kubectl on the PATH, and those beside it with a version in their name (`kubectl.1.27`); for each wanted minor
/// version without one, `Err` with that version.
pub(super) fn found() -> Vec<Result<(String, PathBuf), u32>> {
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
    let mut found: BTreeMap<(u32, String), Result<(String, PathBuf), u32>> = BTreeMap::new();
    for program in programs {
        if let Some((minor, version)) = version(&program) {
            found.insert((minor, version.clone()), Ok((version, program)));
        }
    }
    for minor in WANTED {
        if !found.keys().any(|(has, _)| *has == minor) {
            found.insert((minor, String::new()), Err(minor));
        }
    }
    found.into_values().collect()
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
