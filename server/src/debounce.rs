//! Files that change while the server runs: when their content is used.
//!
//! Owns that decision, and the interval of the checks. It reads no file: a mark identifies what one check found. Content counts
//! only after two checks in a row found the same, so files that are written in parts or one after another are not used
//! half-written.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// Interval of the checks. A change is found by the next check and used after the one after that: within 5 s, reading included.
pub(crate) const LOOK: Duration = Duration::from_secs(2);

/// Distinguishes contents without storing their secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u64);

impl Mark {
    /// The mark of some content.
    pub(crate) fn of(found: &impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        found.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// The findings so far.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// Of the last check.
    seen: Option<Mark>,
    /// Of the content that was used last, also if it was invalid.
    taken: Option<Mark>,
}

impl Looks {
    /// After the content that was read at the start: that is used without a second check, since nothing is served before.
    pub(crate) const fn after(start: Mark) -> Self {
        Self { seen: Some(start), taken: Some(start) }
    }

    /// Whether the content that a check found is to be used now. `told`: the operator says that the files are complete.
    pub(crate) fn take(&mut self, found: Mark, told: bool) -> bool {
        let is_quiet = self.seen.replace(found) == Some(found);
        let takes = told || (is_quiet && self.taken != Some(found));
        if takes {
            self.taken = Some(found);
        }
        takes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_looks_found_is_taken_once() {
        let [old, half, new] = ["old", "half", "new"].map(|text| Mark::of(&text));
        let mut looks = Looks::after(old);
        assert!(!looks.take(old, false), "it is taken already");
        assert!(!looks.take(half, false) && !looks.take(new, false), "it still changes");
        assert!(looks.take(new, false) && !looks.take(new, false));
        assert!(!looks.take(half, false) && !looks.take(new, false), "as it was taken");
        assert!(looks.take(half, true) && looks.take(half, true), "who says that it is whole is believed");
        assert!(!looks.take(half, false), "and that counts");
    }
}
