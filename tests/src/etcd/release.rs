//! The releases of etcd, and where their programs are. It installs nothing: `cargo xtask etcd` does.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// A release of etcd that tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Debian 12's: older than every fix of a watch bug.
    V3_4,
    /// A wheel of PyPI's.
    V3_5,
}

impl Release {
    /// All releases.
    pub const ALL: [Self; 2] = [Self::V3_4, Self::V3_5];

    /// As in a version: `3.4`.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::V3_4 => "3.4",
            Self::V3_5 => "3.5",
        }
    }

    /// The server.
    ///
    /// # Panics
    /// When this release is not on this machine.
    #[must_use]
    pub fn etcd(self) -> PathBuf {
        self.folder().join("etcd")
    }

    /// The client.
    ///
    /// # Panics
    /// As [`Release::etcd`].
    #[must_use]
    pub fn etcdctl(self) -> PathBuf {
        self.folder().join("etcdctl")
    }

    /// The program that restores a snapshot: a separate one since 3.5.
    ///
    /// # Panics
    /// As [`Release::etcd`].
    #[must_use]
    pub fn restorer(self) -> PathBuf {
        match self {
            Self::V3_4 => self.etcdctl(),
            Self::V3_5 => self.folder().join("etcdutl"),
        }
    }

    const fn variable(self) -> &'static str {
        match self {
            Self::V3_4 => "REVCAST_ETCD_3_4",
            Self::V3_5 => "REVCAST_ETCD_3_5",
        }
    }

    const fn programs(self) -> &'static [&'static str] {
        match self {
            Self::V3_4 => &["etcd", "etcdctl"],
            Self::V3_5 => &["etcd", "etcdctl", "etcdutl"],
        }
    }

    /// The folder with its programs: searched once.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn folder(self) -> &'static Path {
        static FOLDERS: [OnceLock<PathBuf>; 2] = [const { OnceLock::new() }; 2];
        FOLDERS[self as usize].get_or_init(|| match self.find() {
            Ok(folder) => folder,
            Err(problem) => panic!("no etcd {}: {problem}; install it: cargo xtask etcd", self.text()),
        })
    }

    fn find(self) -> Result<PathBuf, String> {
        if let Some(folder) = std::env::var_os(self.variable()).map(PathBuf::from) {
            return match self.check(&folder) {
                Ok(()) => Ok(folder),
                Err(problem) => Err(format!("{}: {problem}", self.variable())),
            };
        }
        let installed = target().join("etcd").join(self.text());
        let mut places = vec![installed];
        if self == Self::V3_4 {
            places.push("/usr/bin".into());
        }
        let mut problems = Vec::new();
        for folder in places {
            match self.check(&folder) {
                Ok(()) => return Ok(folder),
                Err(problem) => problems.push(problem),
            }
        }
        Err(problems.join(", "))
    }

    /// Whether a folder has every program, and the right release.
    ///
    /// # Errors
    /// What is missing, or which release it is.
    pub fn check(self, folder: &Path) -> Result<(), String> {
        if let Some(missing) = self.programs().iter().find(|name| !folder.join(name).is_file()) {
            return Err(format!("{} has no {missing}", folder.display()));
        }
        let said = Command::new(folder.join("etcd")).arg("--version").stdin(Stdio::null()).output();
        let said =
            said.map_err(|error| format!("{} does not start: {error}", folder.join("etcd").display()))?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        if said.starts_with(&format!("etcd Version: {}.", self.text())) {
            return Ok(());
        }
        let first = said.lines().next().unwrap_or_default();
        Err(format!("{} says {first:?}", folder.join("etcd").display()))
    }
}

/// The folder that cargo builds into: a test is in its `debug/deps`, whatever the configuration.
fn target() -> PathBuf {
    let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    match std::env::current_exe() {
        Ok(program) if program.parent().is_some_and(|folder| folder.ends_with("deps")) => {
            program.ancestors().nth(3).map_or(usual, Path::to_path_buf)
        }
        Ok(_) | Err(_) => usual,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Release;

    #[test]
    fn what_is_missing_is_named() {
        let problem = Release::V3_5.check(Path::new("/nonexistent")).expect_err("nothing is there");
        assert_eq!(problem, "/nonexistent has no etcd");
    }
}
