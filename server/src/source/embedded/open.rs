//! Opening or creating the database file.
//!
//! Owns the data directory: its lock, the creation of the file, and the errors about its content. Never reads an object. A file
//! is created under another name and renamed when it is complete, so that a crash in between leaves nothing that a later start
//! would have to handle.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::backends::FileBackend;
use redb::{Database, ReadableDatabase, ReadableTable, TableError};
use revcast_engine::gap::Gap;
use revcast_engine::revision::Revision;

use super::lives::Lives;
use super::log::{FORMAT, FORMAT_MIN, Fault, HISTORY, LIVES, Log, META, Marks, OBJECTS};

const FILE: &str = "revcast.redb";
const UNBORN: &str = "revcast.redb.new";
const LOCK: &str = "revcast.lock";

/// Why the store does not open. Displays as one line: what, where, and the remedy.
#[derive(Debug)]
pub enum OpenError {
    /// The table of resource names is unusable: an error in the configuration.
    Resources(String),
    /// The data directory, or something above it, is a file; or the database file is a directory.
    WrongKind(PathBuf),
    /// This user may not read and write there.
    Permission(PathBuf),
    /// Another process uses the directory.
    Locked(PathBuf),
    /// A later revcast wrote the file.
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
    },
    /// The file is damaged, or not revcast's.
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// The disk failed.
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        detail: String,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resources(detail) => write!(f, "cannot open the store: {detail}; correct the resources"),
            Self::WrongKind(path) => write!(
                f,
                "cannot open the store: {} is of the wrong kind, the data directory must be a directory and the \
                 database in it a file; name another --data-dir",
                path.display()
            ),
            Self::Permission(path) => write!(
                f,
                "cannot open the store: no permission for {}; give this user read and write access or name another \
                 --data-dir",
                path.display()
            ),
            Self::Locked(path) => write!(
                f,
                "cannot open the store: another process uses {}; stop it or name another --data-dir",
                path.display()
            ),
            Self::NewerFormat { path, found } => write!(
                f,
                "cannot open the store: {} has format {found}, this revcast knows {FORMAT}; start the revcast that \
                 wrote it",
                path.display()
            ),
            Self::Corrupt { path, detail } => write!(
                f,
                "cannot open the store: {} is damaged: {}; restore it from a backup, or move it away to start empty",
                path.display(),
                detail.replace('\n', " ")
            ),
            Self::Io { path, detail } => write!(
                f,
                "cannot open the store: {}: {}; fix the disk or name another --data-dir",
                path.display(),
                detail.replace('\n', " ")
            ),
        }
    }
}

impl std::error::Error for OpenError {}

impl OpenError {
    fn io(path: &Path, error: &io::Error) -> Self {
        use io::ErrorKind::{
            InvalidData, IsADirectory, NotADirectory, PermissionDenied, ReadOnlyFilesystem, UnexpectedEof,
        };
        let (path, kind) = (path.to_owned(), error.kind());
        if matches!(kind, PermissionDenied | ReadOnlyFilesystem) {
            Self::Permission(path)
        } else if matches!(kind, NotADirectory | IsADirectory) {
            Self::WrongKind(path)
        } else if matches!(kind, InvalidData | UnexpectedEof) {
            // redb's answer to a file that is not its own or was truncated.
            Self::Corrupt { path, detail: error.to_string() }
        } else {
            Self::Io { path, detail: error.to_string() }
        }
    }

    pub(super) fn fault(path: &Path, fault: &Fault) -> Self {
        match fault {
            Fault::Redb(redb::Error::Io(error)) => Self::io(path, error),
            Fault::Redb(redb::Error::DatabaseAlreadyOpen) => Self::Locked(path.to_owned()),
            Fault::Redb(_)
            | Fault::Record { .. }
            | Fault::Gap { .. }
            | Fault::Mark(_)
            | Fault::Panic(_)
            | Fault::Shut(_) => Self::Corrupt { path: path.to_owned(), detail: fault.to_string() },
        }
    }
}

/// Opens the log in `dir`, creates it if it does not exist, beginning at `birth`, and reads its marks.
pub(super) fn open(dir: &Path, cache_bytes: usize, birth: Revision) -> Result<Log, OpenError> {
    prepare(dir)?;
    let lock = lock(dir)?;
    let path = dir.join(FILE);
    match fs::metadata(&path) {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Err(OpenError::WrongKind(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => give_birth(dir, &path, birth)?,
        Err(error) => return Err(OpenError::io(&path, &error)),
    }
    let opened = guarded(|| Ok(redb::Builder::new().set_cache_size(cache_bytes).open(&path)?));
    let mut db = opened.map_err(|fault| OpenError::fault(&path, &fault))?;
    // May fail on a damaged page; the result of the check decides.
    let before = guarded(|| Ok(read_marks(&path, &db))).ok().and_then(Result::ok);
    if let Err(fault) = guarded(|| verify(&mut db)) {
        if matches!(fault, Fault::Panic(_)) {
            // Its end would write, using a map that is known to be wrong.
            std::mem::forget(db);
        }
        return Err(OpenError::fault(&path, &fault));
    }
    let marks = read_marks(&path, &db)?;
    if before != Some(marks) {
        // The newest commit was damaged, and redb returned to the previous one.
        return Err(OpenError::fault(&path, &Fault::Mark("revision")));
    }
    let lives = read_lives(&db, &marks).map_err(|fault| OpenError::fault(&path, &fault))?;
    let place = path.clone();
    let reopen = move || {
        guarded(|| {
            let db = redb::Builder::new().set_cache_size(cache_bytes).open(&place)?;
            let marks = read_marks(&place, &db).map_err(|error| Fault::Shut(error.to_string()))?;
            Ok((db, marks))
        })
    };
    Ok(Log::new(path, db, (marks, lives), lock, Box::new(reopen)))
}

/// Compares every page with its checksum and the map of free space with the pages in use. After a clean end redb trusts both,
/// and a write with a wrong map would destroy intact data. Costs about as much as the reading that follows anyway.
fn verify(db: &mut Database) -> Result<(), Fault> {
    // `false`: only the map of free space was wrong, and it was repaired.
    db.check_integrity()?;
    Ok(())
}

/// redb 4.4 panics on some damaged maps of free space; a damaged file must not cause a panic.
fn guarded<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Fault::Panic(said.unwrap_or("no reason given").to_owned()))
    })
}

/// Creates the directory, for this user only, unless it exists.
fn prepare(dir: &Path) -> Result<(), OpenError> {
    match fs::metadata(dir) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(OpenError::WrongKind(dir.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let named = dir.ancestors().filter(|dir| !dir.as_os_str().is_empty());
            let missing: Vec<&Path> = named.take_while(|dir| !dir.exists()).collect();
            let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
            made.map_err(|error| OpenError::io(dir, &error))?;
            let parents = missing.iter().filter_map(|dir| dir.parent());
            parents
                .map(|dir| if dir.as_os_str().is_empty() { Path::new(".") } else { dir })
                .try_for_each(sync_dir)
        }
        Err(error) => Err(OpenError::io(dir, &error)),
    }
}

/// Held as long as the store is open; the kernel releases it however the process ends.
fn lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join(LOCK);
    let file = private().create(true).truncate(false).open(&path);
    let file = file.map_err(|error| OpenError::io(&path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked(dir.to_owned())),
        Err(TryLockError::Error(error)) => Err(OpenError::io(&path, &error)),
    }
}

/// Writes an empty database under another name and renames it.
fn give_birth(dir: &Path, path: &Path, birth: Revision) -> Result<(), OpenError> {
    let unborn = dir.join(UNBORN);
    let failed = |error: io::Error| OpenError::io(&unborn, &error);
    // May be left from a crash during creation: nothing was ever acknowledged from it.
    let file = private().create(true).truncate(true).open(&unborn).map_err(failed)?;
    let db = FileBackend::new(file).and_then(|file| redb::Builder::new().create_with_backend(file));
    db.map_err(Fault::from)
        .and_then(|db| write_empty(&db, birth))
        .map_err(|fault| OpenError::fault(&unborn, &fault))?;
    fs::rename(&unborn, path).map_err(failed)?;
    sync_dir(dir)
}

/// Gives a new database its tables and marks. Its history begins at its creation: it is compacted up to there.
pub(super) fn write_empty(db: &Database, birth: Revision) -> Result<(), Fault> {
    let txn = db.begin_write()?;
    {
        txn.open_table(OBJECTS)?;
        txn.open_table(HISTORY)?;
        txn.open_table(LIVES)?;
        let mut meta = txn.open_table(META)?;
        meta.insert("format", FORMAT)?;
        meta.insert("cluster", super::new_cluster())?;
        meta.insert("revision", birth.get())?;
        meta.insert("compacted", birth.get())?;
    }
    txn.commit()?;
    Ok(())
}

pub(super) fn read_marks(path: &Path, db: &Database) -> Result<Marks, OpenError> {
    let read = || -> Result<(u64, Marks), Fault> {
        let txn = db.begin_read()?;
        let meta = txn.open_table(META)?;
        let mark = |name: &'static str| -> Result<u64, Fault> {
            Ok(meta.get(name)?.ok_or(Fault::Mark(name))?.value())
        };
        let format = mark("format")?;
        if !(FORMAT_MIN..=FORMAT).contains(&format) {
            // The other marks may have another meaning there.
            return Ok((format, Marks { cluster: 0, revision: Revision::ZERO, compacted: Revision::ZERO }));
        }
        let marks = Marks {
            cluster: mark("cluster")?,
            revision: Revision::new(mark("revision")?),
            compacted: Revision::new(mark("compacted")?),
        };
        if marks.revision < super::FRESH || marks.compacted > marks.revision {
            return Err(Fault::Mark("revision"));
        }
        Ok((format, marks))
    };
    match read() {
        Ok((FORMAT_MIN..=FORMAT, marks)) => Ok(marks),
        Ok((0, _)) => Err(OpenError::fault(path, &Fault::Mark("format"))),
        Ok((found, _)) => Err(OpenError::NewerFormat { path: path.to_owned(), found }),
        Err(fault) => Err(OpenError::fault(path, &fault)),
    }
}

/// The gaps between the lives of the store.
pub(super) fn read_lives(db: &Database, marks: &Marks) -> Result<Lives, Fault> {
    let txn = db.begin_read()?;
    let table = match txn.open_table(LIVES) {
        Ok(table) => table,
        // Format 1 has none.
        Err(TableError::TableDoesNotExist(_))
            if txn.open_table(META)?.get("format")?.is_some_and(|format| format.value() == FORMAT_MIN) =>
        {
            return Ok(Lives::default());
        }
        Err(error) => return Err(error.into()),
    };
    let mut gaps = Vec::new();
    for entry in table.iter()? {
        let (next, last) = entry?;
        gaps.push(Gap { last: Revision::new(last.value()), next: Revision::new(next.value()) });
    }
    Lives::new(gaps, marks.revision).ok_or(Fault::Mark("lives"))
}

/// Read and write, for this user only.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// A new name in a directory survives a power cut only after this.
fn sync_dir(dir: &Path) -> Result<(), OpenError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| OpenError::io(dir, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_becomes_whose_fault_it_is() {
        let path = Path::new("/data");
        let of = |kind: io::ErrorKind| OpenError::io(path, &io::Error::from(kind));
        assert!(matches!(of(io::ErrorKind::PermissionDenied), OpenError::Permission(_)));
        assert!(matches!(of(io::ErrorKind::ReadOnlyFilesystem), OpenError::Permission(_)));
        assert!(matches!(of(io::ErrorKind::NotADirectory), OpenError::WrongKind(_)));
        assert!(matches!(of(io::ErrorKind::InvalidData), OpenError::Corrupt { .. }));
        assert!(matches!(of(io::ErrorKind::StorageFull), OpenError::Io { .. }));
        let line = of(io::ErrorKind::PermissionDenied).to_string();
        assert_eq!(
            line,
            "cannot open the store: no permission for /data; give this user read and write access or name another \
             --data-dir"
        );
    }
}
