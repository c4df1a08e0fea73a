//! Files that change while the server runs: when their content is used.
//!
//! Owns that decision, and the interval of the checks. It reads no file: a fingerprint identifies what one check found. Content counts
//! only after two checks in a row found the same, so files that are written in parts or one after another are not used
//! half-written.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// Interval of the checks. A change is found by the next check and used after the one after that: within 5 s, reading included.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Distinguishes contents without storing their secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    /// The fingerprint of some content.
    pub(crate) fn of(found: &impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        found.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// The findings so far.
#[derive(Debug, Default)]
pub(crate) struct Debounce {
    /// Of the last check.
    seen: Option<Fingerprint>,
    /// Of the content that was used last, also if it was invalid.
    taken: Option<Fingerprint>,
}

impl Debounce {
    /// After the content that was read at the start: that is used without a second check, since nothing is served before.
    pub(crate) const fn after(start: Fingerprint) -> Self {
        Self { seen: Some(start), taken: Some(start) }
    }

    /// Whether the content that a check found is to be used now. `told`: the operator says that the files are complete.
    pub(crate) fn take(&mut self, found: Fingerprint, told: bool) -> bool {
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
    fn what_two_checks_found_is_taken_once() {
        let [old, half, new] = ["old", "half", "new"].map(|text| Fingerprint::of(&text));
        let mut debounce = Debounce::after(old);
        assert!(!debounce.take(old, false), "it is taken already");
        assert!(!debounce.take(half, false) && !debounce.take(new, false), "it still changes");
        assert!(debounce.take(new, false) && !debounce.take(new, false));
        assert!(!debounce.take(half, false) && !debounce.take(new, false), "as it was taken");
        assert!(
            debounce.take(half, true) && debounce.take(half, true),
            "who says that it is whole is believed"
        );
        assert!(!debounce.take(half, false), "and that counts");
    }
}
