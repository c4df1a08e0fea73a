//! Whether the data directory can hold a store: it is writable, has room, and is on a durable file system.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access, statfs, statvfs};
use rustix::io::Errno;

use super::finding::Findings;
use crate::value::show_size;

/// The size of a new store: 36 to 52 KiB, measured. An existing one starts on a full disk too.
const ROOM_NEW_BYTES: u64 = 64 << 10;
/// The store's file name.
const STORE: &str = "revcast.redb";
/// Less room than this is used up soon: the store writes new pages before it frees the old ones.
const ROOM_LOW_BYTES: u64 = 1 << 30;

/// File systems that are not durable, or whose locks and flushes depend on a remote system (statfs(2)).
const ODD: [(i64, &str, &str); 6] = [
    (0x0102_1994, "tmpfs", "is lost when the machine restarts"),
    (0x794c_7630, "overlayfs", "is lost with its container"),
    (0x6969, "NFS", "may lose acknowledged writes, and may not support locks"),
    (0xff53_4d42, "CIFS", "may lose acknowledged writes, and may not support locks"),
    (0xfe53_4d42, "SMB", "may lose acknowledged writes, and may not support locks"),
    (0x6573_5546, "FUSE", "is only as durable as its own program"),
];

/// Facts about the data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// The directory, or the nearest existing one above it, where it would be created.
    pub(super) there: PathBuf,
    /// Why it is not writable: an errno.
    pub(super) refused: Option<i32>,
    /// Whether it has a store already.
    pub(super) has_store: bool,
    pub(super) room_bytes: Option<u64>,
    /// The magic number of its file system.
    pub(super) kind: Option<i64>,
}

pub(super) fn look(path: &Path) -> Folder {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = absolute.ancestors().find(|above| above.exists()).unwrap_or(&absolute).to_owned();
    let refused = access(&there, Access::WRITE_OK | Access::EXEC_OK).err().map(Errno::raw_os_error);
    let room = statvfs(&there).ok().map(|room| room.f_bavail.saturating_mul(room.f_frsize));
    #[allow(clippy::unnecessary_cast, clippy::cast_lossless, reason = "its width differs by architecture")]
    let kind = statfs(&there).ok().map(|system| system.f_type as i64);
    let has_store = absolute.join(STORE).exists();
    Folder { path: path.to_owned(), there, refused, has_store, room_bytes: room, kind }
}

pub(super) fn judge(findings: &mut Findings, folder: &Folder) {
    let Folder { path, there, refused, has_store, room_bytes, kind } = folder;
    let path = path.display();
    if let Some(errno) = refused {
        let errno = Errno::from_raw_os_error(*errno);
        let mend = match errno {
            Errno::ROFS => "mount it read-write, or choose another --data-dir",
            _ => {
                "give this user the right to write there (chown, StateDirectory=), or choose another --data-dir"
            }
        };
        return findings.fail(
            "data-dir",
            &format!("{path}: {} cannot be written ({errno})", there.display()),
            mend,
        );
    }
    let room = room_bytes.unwrap_or(u64::MAX);
    let says =
        room_bytes.map_or_else(|| "room unknown".to_owned(), |room| format!("{} free", show_room(room)));
    if room < ROOM_NEW_BYTES && !has_store {
        let mend = "make room, or choose another --data-dir";
        findings.fail("data-dir", &format!("{path}: not enough room for a store"), mend);
    } else if room < ROOM_LOW_BYTES {
        findings.warn(
            "data-dir",
            &format!("{path}: only {says}"),
            "make room: a full disk refuses every write",
        );
    } else {
        findings.fine("data-dir", &format!("{path} can be written, {says}"));
    }
    if let Some((_, name, why)) = ODD.into_iter().find(|(magic, ..)| Some(*magic) == *kind) {
        findings.warn("data-dir", &format!("{path} lies on {name}, which {why}"), "put it on a local disk");
    }
}

/// Rounded, for a reader.
fn show_room(bytes: u64) -> String {
    let unit = if bytes >= 1 << 30 { 30 } else { 20 };
    show_size(bytes >> unit << unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::WallTime;
    use crate::source::embedded::{Store, StoreConfig};

    fn folder() -> Folder {
        Folder {
            path: "/var/lib/revcast".into(),
            there: "/var/lib".into(),
            refused: None,
            has_store: false,
            room_bytes: Some(5 << 30 | 77),
            kind: Some(0xef53),
        }
    }

    fn judged(folder: &Folder) -> Vec<String> {
        let mut findings = Findings::default();
        judge(&mut findings, folder);
        findings.0.iter().map(|finding| format!("{:?} {}", finding.verdict, finding.line())).collect()
    }

    #[test]
    fn each_trouble_has_its_mend() {
        assert_eq!(judged(&folder()), ["Ok data-dir: /var/lib/revcast can be written, 5GiB free"]);
        let low = judged(&Folder { room_bytes: Some(500 << 20), ..folder() });
        assert_eq!(
            low,
            ["Warn data-dir: /var/lib/revcast: only 500MiB free; make room: a full disk refuses every write"]
        );
        let little = judged(&Folder { room_bytes: Some(1 << 20), ..folder() });
        assert!(little[0].starts_with("Warn data-dir: /var/lib/revcast: only 1MiB free"), "{little:?}");
        let none = judged(&Folder { room_bytes: Some(0), ..folder() });
        assert_eq!(
            none,
            [
                "Fail data-dir: /var/lib/revcast: not enough room for a store; make room, or choose another --data-dir"
            ]
        );
        let full = judged(&Folder { room_bytes: Some(0), has_store: true, ..folder() });
        assert!(full[0].starts_with("Warn data-dir: /var/lib/revcast: only 0 free; make room"), "{full:?}");
        let refused = judged(&Folder { refused: Some(Errno::ACCESS.raw_os_error()), ..folder() });
        assert!(refused[0].starts_with("Fail ") && refused[0].contains("chown"), "{refused:?}");
        let read_only = judged(&Folder { refused: Some(Errno::ROFS.raw_os_error()), ..folder() });
        assert!(read_only[0].contains("mount it read-write"), "{read_only:?}");
        let gone = judged(&Folder { kind: Some(0x0102_1994), ..folder() });
        assert_eq!(gone.len(), 2);
        assert!(gone[1].contains("tmpfs, which is lost when the machine restarts"), "{gone:?}");
    }

    #[test]
    fn a_store_is_known_by_its_file() {
        let dir = std::env::temp_dir().join(format!("revcast-known-{}", std::process::id()));
        assert!(!look(&dir).has_store);
        let opened =
            Store::open(&StoreConfig::durable(&dir, Vec::new(), WallTime::default())).expect("a store");
        assert!(look(&dir).has_store);
        drop(opened);
        std::fs::remove_dir_all(dir).expect("it was made here");
    }

    #[test]
    fn a_folder_that_is_not_there_yet_is_judged_by_the_one_above() {
        let above = std::env::temp_dir();
        let found = look(&above.join("revcast-not-there").join("nor-this"));
        assert_eq!((found.there, found.refused), (std::path::absolute(above).unwrap_or_default(), None));
        assert!(found.room_bytes.is_some() && found.kind.is_some());
    }
}
