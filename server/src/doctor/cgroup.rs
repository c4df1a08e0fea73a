//! Limits of this process's cgroup (v2), or of one above it, whichever is lower.

use std::fs;
use std::path::Path;

/// Where cgroups are mounted; a container sees its own cgroup there as the root.
const ROOT: &str = "/sys/fs/cgroup";

/// The lowest value of a limit from this process's cgroup up to the root; `None`: there is none, or it is not known.
pub(super) fn least(file: &str, parse: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    least_in(Path::new(ROOT), own_path(&own)?, file, parse)
}

/// From `0::/system.slice/revcast.service`.
fn own_path(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::/"))
}

fn least_in(root: &Path, own: &str, file: &str, parse: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let own = root.join(own);
    let groups = own.ancestors().take_while(|group| group.starts_with(root));
    groups.filter_map(|group| parse(fs::read_to_string(group.join(file)).ok()?.trim())).min()
}

/// `cpu.max`, `QUOTA PERIOD` in microseconds or `max PERIOD`, in thousandths of a CPU.
pub(super) fn quota_milli(text: &str) -> Option<u64> {
    let (quota, period) = text.split_once(' ')?;
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    quota.checked_mul(1000)?.checked_div(period)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_least_limit_on_the_way_up_counts() {
        let root = std::env::temp_dir().join(format!("revcast-cgroup-{}", std::process::id()));
        let leaf = root.join("a/b");
        fs::create_dir_all(&leaf).unwrap();
        fs::write(leaf.join("memory.max"), "max\n").unwrap();
        fs::write(root.join("a/memory.max"), "1000\n").unwrap();
        fs::write(root.join("memory.max"), "2000\n").unwrap();
        fs::write(leaf.join("cpu.max"), "150000 100000\n").unwrap();
        // Outside of the root.
        fs::write(root.parent().unwrap().join("memory.max.unread"), "1\n").unwrap();
        let number = |text: &str| text.parse().ok();
        assert_eq!(least_in(&root, "a/b", "memory.max", number), Some(1000));
        assert_eq!(least_in(&root, "", "memory.max", number), Some(2000));
        assert_eq!(least_in(&root, "a/b", "cpu.max", quota_milli), Some(1500));
        assert_eq!(least_in(&root, "a/b", "pids.max", number), None);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn quotas_and_paths_are_read() {
        assert_eq!(quota_milli("150000 100000"), Some(1500));
        assert_eq!(quota_milli("max 100000"), None);
        assert_eq!(quota_milli("1 0"), None);
        assert_eq!(quota_milli(""), None);
        assert_eq!(own_path("0::/system.slice/x.service\n"), Some("system.slice/x.service"));
        assert_eq!(own_path("1:name=systemd:/x\n0::/\n"), Some(""));
        assert_eq!(own_path("4:memory:/x\n"), None);
    }
}
