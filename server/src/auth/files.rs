//! How files with credentials and rules are read.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::setting::{ConfigError, Origin, Wrong};

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// An error in a line of a file; lines count from 1.
pub(super) fn mistake(path: &Path, line: usize, problem: &str, mend: &str) -> ConfigError {
    let place = Origin::File { path: path.to_owned(), line };
    ConfigError::at(place.to_string(), Wrong::new(problem, mend))
}

/// The content of a file.
///
/// # Errors
/// It cannot be read, is too large or is not UTF-8.
pub(super) fn read(option: &str, path: &Path) -> Result<String, ConfigError> {
    let place = || format!("--{option} {}", path.display());
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)).map_err(
        |error| {
            ConfigError::at(place(), Wrong::new(format!("cannot be read: {error}"), "name a readable file"))
        },
    )?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(ConfigError::at(
            place(),
            Wrong::new("larger than 16 MiB", "name the right file, or make it smaller"),
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let line = 1 + error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        mistake(path, line, "not UTF-8", "write it as UTF-8")
    })
}

/// A line for the log when users other than owner and group may read a file of secrets.
pub(super) fn too_open(option: &str, path: &Path) -> Option<String> {
    let mode = fs::metadata(path).ok()?.mode();
    (mode & 0o004 != 0).then(|| {
        format!("--{option} {}: every user of this machine may read it; run chmod o-r", path.display())
    })
}
