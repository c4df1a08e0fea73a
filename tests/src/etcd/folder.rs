//! A folder for the data of etcds: in memory when there is room, removed with its owner.
//!
//! A killed process cannot clean up. So each folder has a lock file beside it, which the system releases when its owner
//! is gone (for any reason), and the first folder of a process removes what such owners left: the etcds that still run
//! in their folders, found by their command lines, and the folders.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

const PREFIX: &str = "revcast-etcd-";
const ROOM_MIN: u64 = 1 << 30;
/// A lock file this young may be about to be locked.
const YOUNG: Duration = Duration::from_secs(10);

/// A temporary folder. Removed at the end.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    lock_path: PathBuf,
    /// Locked as long as it is open.
    _lock: File,
}

impl Folder {
    /// An empty one.
    pub(crate) fn new() -> Self {
        static SWEPT: Once = Once::new();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let base = base();
        SWEPT.call_once(|| sweep(&base, YOUNG));
        let name = format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self::at(&base, &name)
    }

    fn at(base: &Path, name: &str) -> Self {
        let path = base.join(name);
        let lock_path = path.with_extension("lock");
        let lock = File::create(&lock_path).expect("a lock beside the folder for etcd's data");
        lock.try_lock().expect("no other process has this id and number");
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("a folder for etcd's data");
        Self { path, lock_path, _lock: lock }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays is removed by the next process.
        let _ = fs::remove_dir_all(&self.path);
        let _ = fs::remove_file(&self.lock_path);
    }
}

/// Memory, if it is writable and has room; otherwise the system's temporary folder.
fn base() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let room = rustix::fs::statvfs(memory).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
    let writable = rustix::fs::access(memory, rustix::fs::Access::WRITE_OK).is_ok();
    if writable && room > ROOM_MIN { memory.to_path_buf() } else { std::env::temp_dir() }
}

/// Removes what vanished owners left. What cannot be read is left alone.
fn sweep(base: &Path, young: Duration) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let lock_path = entry.path();
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if !ours || lock_path.extension().is_none_or(|end| end != "lock") {
            continue;
        }
        let age = entry.metadata().and_then(|meta| meta.modified()).ok().and_then(|time| time.elapsed().ok());
        let Ok(lock) = OpenOptions::new().write(true).open(&lock_path) else { continue };
        if age.is_some_and(|age| age >= young) && lock.try_lock().is_ok() {
            let folder = lock_path.with_extension("");
            for pid in living_in(&folder) {
                // It may end by itself meanwhile.
                let _ = kill_process(pid, Signal::KILL);
            }
            let _ = fs::remove_dir_all(&folder);
            let _ = fs::remove_file(&lock_path);
        }
    }
}

/// Processes whose `--data-dir` is in a folder.
fn living_in(folder: &Path) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let words: Vec<&str> =
            line.split(|byte| *byte == 0).filter_map(|word| str::from_utf8(word).ok()).collect();
        let data = words.windows(2).find(|pair| pair[0] == "--data-dir").map(|pair| Path::new(pair[1]))?;
        if data.starts_with(folder) { Pid::from_raw(pid) } else { None }
    });
    pids.collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::{Folder, PREFIX, sweep};
    use crate::server::Scratch;

    #[test]
    fn it_is_gone_with_its_owner() {
        let folder = Folder::new();
        let (path, lock_path) = (folder.path.clone(), folder.lock_path.clone());
        fs::write(path.join("data"), "x").expect("it is ours");
        drop(folder);
        assert!(!path.exists() && !lock_path.exists());
    }

    #[test]
    fn what_the_dead_left_is_swept_and_no_more() {
        let base = Scratch::new("etcd-sweep");
        let base = std::path::Path::new(base.path());
        let living = Folder::at(base, &format!("{PREFIX}living"));
        let dead = base.join(format!("{PREFIX}dead"));
        fs::create_dir(&dead).expect("ours");
        fs::write(dead.with_extension("lock"), "").expect("ours");
        // A shell that stands for an etcd, recognized by an argument.
        let mut orphan = Command::new("sh");
        orphan.args(["-c", "read wait", "sh", "--data-dir"]).arg(dead.join("data"));
        let mut orphan = orphan.stdin(Stdio::piped()).spawn().expect("a shell");
        sweep(base, Duration::from_secs(3600));
        assert!(dead.exists(), "too young");
        sweep(base, Duration::ZERO);
        assert!(!dead.exists() && !dead.with_extension("lock").exists());
        assert!(!orphan.wait().expect("ours").success(), "it was killed");
        assert!(living.path.exists() && living.lock_path.exists());
    }
}
