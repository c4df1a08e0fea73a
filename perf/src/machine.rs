//! Where a run takes place, as /proc tells it: kernel, CPU, cores; and the command lines that took part. It is the part
//! of a record that makes two of them comparable, or says why they are not.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// `Linux 6.12.1 x86_64`.
    #[serde(default)]
    pub(crate) kernel: String,
    #[serde(default)]
    pub(crate) cpu_model: String,
    #[serde(default)]
    pub(crate) cores: usize,
    #[serde(default)]
    pub(crate) versions: BTreeMap<String, String>,
}

impl Machine {
    pub(crate) fn here() -> Self {
        let line =
            |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
        let parts = [line("/proc/sys/kernel/ostype"), line("/proc/sys/kernel/osrelease")];
        let (cpu_model, cores) = parse_cpuinfo(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default());
        Self {
            kernel: format!("{} {}", parts.join(" "), std::env::consts::ARCH).trim().to_owned(),
            cpu_model,
            cores,
            versions: BTreeMap::from([("revcast-perf".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]),
        }
    }
}

/// The model of the first CPU, empty where the kernel names none (most ARM machines), and the number of all.
fn parse_cpuinfo(text: &str) -> (String, usize) {
    let pairs = || text.lines().filter_map(|line| line.split_once(':'));
    let model =
        pairs().find(|(name, _)| name.trim() == "model name").map(|(_, model)| model.trim().to_owned());
    (model.unwrap_or_default(), pairs().filter(|(name, _)| name.trim() == "processor").count())
}

pub(crate) fn own_command() -> String {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    show_command(&words)
}

/// The command line of another process; `None` where there is none, or it belongs to someone else.
pub(crate) fn command_of(pid: u32) -> Option<String> {
    let raw = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<String> = raw
        .strip_suffix(b"\0")
        .unwrap_or(&raw)
        .split(|&byte| byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    Some(show_command(&words)).filter(|shown| !shown.is_empty())
}

/// The name of a process: its program's first 15 bytes.
pub(crate) fn name_of(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// As a shell takes it, the program without its folder.
fn show_command(words: &[String]) -> String {
    let program = words.first().map(|path| path.rsplit('/').next().unwrap_or(path));
    shell_words::join(program.into_iter().chain(words.iter().skip(1).map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_counted_and_named() {
        let text =
            "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz: X\n\nprocessor\t: 1\nmodel name\t: Other\n";
        assert_eq!(parse_cpuinfo(text), ("Some CPU @ 2.0GHz: X".to_owned(), 2));
        assert_eq!(parse_cpuinfo("processor : 0\nFeatures : fp\n"), (String::new(), 1));
        let here = Machine::here();
        assert!(here.cores > 0 && here.kernel.starts_with("Linux "), "{here:?}");
    }

    #[test]
    fn command_lines_can_be_pasted() {
        let words = ["/opt/x/revcast", "serve", "--name", "a b", "it's", ""].map(str::to_owned);
        assert_eq!(show_command(&words), r"revcast serve --name 'a b' 'it'\''s' ''");
        assert_eq!(command_of(std::process::id()), Some(own_command()));
        assert!(name_of(std::process::id()).is_some_and(|name| name.len() <= 15));
        assert_eq!((command_of(u32::MAX), name_of(u32::MAX)), (None, None));
    }
}
