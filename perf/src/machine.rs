//! Where a run takes place, and the command lines that took part: what makes two records comparable, or says why they are not.

use procfs::{CpuInfo, Current};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// `Linux 6.12.1 x86_64`.
    #[serde(default)]
    pub(crate) kernel: String,
    /// Empty where the kernel names none (most ARM machines).
    #[serde(default)]
    pub(crate) cpu_model: String,
    #[serde(default)]
    pub(crate) cores: usize,
    #[serde(default)]
    pub(crate) versions: BTreeMap<String, String>,
}

impl Machine {
    pub(crate) fn here() -> Self {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let cpus = CpuInfo::current().ok();
        let model = cpus.as_ref().and_then(|cpus| cpus.model_name(0)).unwrap_or_default().to_owned();
        Self {
            kernel: format!("Linux {} {}", release.trim(), std::env::consts::ARCH),
            cpu_model: model,
            cores: cpus.map_or(0, |cpus| cpus.num_cores()),
            versions: BTreeMap::from([("revcast-perf".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]),
        }
    }
}

/// The command line of a process; `None` where there is none, or it belongs to someone else.
pub(crate) fn command_of(pid: u32) -> Option<String> {
    let raw = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    show_command(&String::from_utf8_lossy(&raw))
}

/// As a shell takes it, the program without its folder.
fn show_command(raw: &str) -> Option<String> {
    let mut words = raw.strip_suffix('\0')?.split('\0');
    let program = words.next()?.rsplit('/').next()?;
    Some(shell_words::join(std::iter::once(program).chain(words)))
}

/// The name of a process: its program's first 15 bytes.
pub(crate) fn name_of(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_named_and_command_lines_can_be_pasted() {
        let here = Machine::here();
        assert!(here.cores > 0 && here.kernel.starts_with("Linux "), "{here:?}");
        let shown = show_command("/opt/x/revcast\0serve\0--name\0a b\0it's\0\0");
        assert_eq!(shown.as_deref(), Some(r"revcast serve --name 'a b' 'it'\''s' ''"));
        assert!(command_of(std::process::id()).is_some_and(|own| own.starts_with("revcast_perf-")));
        assert!(name_of(std::process::id()).is_some_and(|name| name.len() <= 15));
        assert_eq!((command_of(u32::MAX), name_of(u32::MAX)), (None, None));
    }
}
