//! Paths: the repository, cargo, its target folder; and the seed of the commit.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The repository's top folder.
pub(crate) fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap_or(own).to_path_buf()
}

/// The folder that cargo builds into: this program is in its `debug` folder, whatever the configuration.
pub(crate) fn target() -> PathBuf {
    let usual = root().join("target");
    match std::env::current_exe() {
        Ok(program) => program.ancestors().nth(2).map_or(usual, Path::to_path_buf),
        Err(_) => usual,
    }
}

/// A call of the cargo that started this program, from the top folder, without the variables that `cargo run` set for
/// this program: build scripts would see them, and build again.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).stdin(Stdio::null());
    without_own_variables(&mut command);
    command
}

/// Whether none of our packages was built for tests so far. The first build is made without incremental compilation: what only later
/// builds use costs it a fifth of its time.
pub(crate) fn is_first_build() -> bool {
    std::env::var_os("CARGO_INCREMENTAL").is_none() && !holds_ours(&target().join("debug/.fingerprint"))
}

/// Whether this folder has what a build of one of our packages left; that of this program does not count.
fn holds_ours(folder: &Path) -> bool {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    names.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("revcast"))
}

/// Keeps the variables from a command that `cargo run` set for this program.
pub(crate) fn without_own_variables(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let own = text.starts_with("CARGO_PKG_")
            || text.starts_with("CARGO_MANIFEST_")
            || ["CARGO_BIN_NAME", "CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE"].contains(&text.as_ref());
        if own {
            command.env_remove(name);
        }
    }
}

/// A program that a build of this profile makes, or the one that `variable` names.
pub(crate) fn binary(profile: &str, name: &str, variable: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| target().join(profile).join(name), PathBuf::from)
}

/// The simulator's first seed: `REVCAST_SIM_BASE`, else the first 8 hex digits of the commit, else 0.
pub(crate) fn seed_base() -> u64 {
    let told = std::env::var("REVCAST_SIM_BASE").ok().and_then(|text| text.parse().ok());
    told.or_else(commit_seed).unwrap_or(0)
}

fn commit_seed() -> Option<u64> {
    let git = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(root()).output().ok()?;
    seed_of(&String::from_utf8(git.stdout).ok()?)
}

fn seed_of(commit: &str) -> Option<u64> {
    u64::from_str_radix(commit.get(..8)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::{holds_ours, root, seed_of};

    #[test]
    fn the_seed_comes_from_the_commit() {
        assert_eq!(seed_of("deadbeef00112233\n"), Some(0xdead_beef));
        assert_eq!((seed_of(""), seed_of("fatal: not a git repository")), (None, None));
    }

    #[test]
    fn what_was_built_before_is_known() {
        let folder = std::env::temp_dir().join(format!("xtask-built-{}", std::process::id()));
        assert!(!holds_ours(&folder), "no such folder");
        std::fs::create_dir_all(folder.join("xtask-1")).expect("a temporary folder");
        assert!(!holds_ours(&folder));
        std::fs::create_dir(folder.join("revcast-engine-1")).expect("a temporary folder");
        assert!(holds_ours(&folder));
        std::fs::remove_dir_all(folder).expect("it is there");
    }

    #[test]
    fn the_top_folder_holds_the_workspace() {
        assert!(root().join("engine/Cargo.toml").is_file());
    }
}
