//! What is still to be written to the audit log of a watch that began.

use crate::audit::{Audit, Entry, Stage};

/// A watch's entry, from the head of its reply to its end.
#[derive(Debug)]
pub(super) struct AuditContext {
    pub(super) entry: Entry,
    /// The code of the reply at its start.
    pub(super) code: u16,
}

impl AuditContext {
    /// Writes the last line of the watch, with the reason of its end.
    pub(super) fn end(&self, audit: Option<&Audit>, ended: &str) {
        if let Some(audit) = audit {
            audit.note(&self.entry, Stage::ResponseComplete, self.code, Some(ended));
        }
    }
}
