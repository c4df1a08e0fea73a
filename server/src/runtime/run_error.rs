//! Why a server does not run.

use std::fmt;

/// Why a server does not run. One line.
#[derive(Clone, Debug)]
pub struct RunError(String);

impl RunError {
    pub(super) const fn new(line: String) -> Self {
        Self(line)
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RunError {}
