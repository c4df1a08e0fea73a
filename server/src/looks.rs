//! Looks at files that change while the server runs: when what is found is taken.
//!
//! Owns that decision, and how often to look. It reads no file: a mark says what one look found. Who writes a file in pieces,
//! or one file after the other, is not read by halves: what is found counts once two looks in a row found the same.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// Between two looks. A change is found by the next one and taken by that after it: within 5 s, reading included.
pub(crate) const LOOK: Duration = Duration::from_secs(2);

/// What tells two findings apart, without the secrets that stand in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u64);

impl Mark {
    /// Of what was found.
    pub(crate) fn of(found: &impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        found.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// What was found so far.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// By the last look.
    seen: Option<Mark>,
    /// By the one that was taken last, also when it was of no use.
    taken: Option<Mark>,
}

impl Looks {
    /// After what was read at the start: that is taken as it is, since nothing is served before it.
    pub(crate) const fn after(start: Mark) -> Self {
        Self { seen: Some(start), taken: Some(start) }
    }

    /// Whether what a look found is to be taken now. `told`: whoever wrote the files says that they are whole.
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
