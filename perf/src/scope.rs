//! What one group of watchers watches: a namespace, perhaps narrowed by selectors, and which of the run's objects that covers, as
//! learned from a LIST with the same selectors: so what is expected is exact, and no selector is evaluated here.

use crate::ledger::Due;
use crate::media::Media;
use serde::{Deserialize, Serialize};

/// One scope. Watchers with the same scope expect the same events.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Scope {
    /// Path and query of the watch, without `resourceVersion` and `timeoutSeconds`.
    pub(crate) path: String,
    /// The resourceVersion of the LIST: the watch starts after it.
    pub(crate) revision: u64,
    /// The numbers of the objects that it covers, ascending. An object's index here is its rank.
    pub(crate) objects: Vec<u32>,
    pub(crate) media: Media,
}

impl Scope {
    /// The rank of object number `object`; `None` when this scope does not cover it.
    pub(crate) fn rank(&self, object: u32) -> Option<u32> {
        // Scopes mostly cover one contiguous run of numbers: then the rank is a subtraction.
        let guess = object.checked_sub(*self.objects.first()?)?;
        if self.objects.get(guess as usize) == Some(&object) {
            return Some(guess);
        }
        self.objects.binary_search(&object).ok().and_then(|rank| u32::try_from(rank).ok())
    }

    /// What its watchers must have seen. `finals`: the number of the last write of each object of the run; `failed`: writes
    /// (object, seq) without acknowledgement.
    pub(crate) fn due(&self, finals: &[u32], failed: &[(u32, u32)]) -> Due {
        let last = |&object: &u32| finals.get(object as usize).copied().unwrap_or(0);
        let ranked = |&(object, seq): &(u32, u32)| Some((self.rank(object)?, seq));
        Due {
            finals: self.objects.iter().map(last).collect(),
            failed: failed.iter().filter_map(ranked).collect(),
        }
    }

    /// The request target of a watch that starts after `revision`.
    pub(crate) fn watch_path(&self, revision: u64, timeout_seconds: u64, bookmarks: bool) -> String {
        let bookmarks = if bookmarks { "&allowWatchBookmarks=true" } else { "" };
        let join = if self.path.contains('?') { '&' } else { '?' };
        format!(
            "{}{join}watch=1&resourceVersion={revision}&timeoutSeconds={timeout_seconds}{bookmarks}",
            self.path
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_paths() {
        let whole =
            Scope { path: "/p".to_owned(), revision: 1, objects: (20..30).collect(), media: Media::Json };
        let path = "/p?labelSelector=x".to_owned();
        let odd = Scope { path, objects: vec![21, 23, 29], ..whole.clone() };
        assert_eq!([20, 29, 19, 30].map(|object| whole.rank(object)), [Some(0), Some(9), None, None]);
        assert_eq!([21, 23, 29, 22].map(|object| odd.rank(object)), [Some(0), Some(1), Some(2), None]);
        let finals: Vec<u32> = (100..130).collect();
        let due = odd.due(&finals, &[(21, 7), (22, 8), (29, 9)]);
        assert_eq!(due.finals, [121, 123, 129]);
        assert_eq!(Vec::from_iter(due.failed), [(0, 7), (2, 9)]);
        assert_eq!(
            odd.watch_path(7, 60, false),
            "/p?labelSelector=x&watch=1&resourceVersion=7&timeoutSeconds=60"
        );
        assert_eq!(
            whole.watch_path(1, 5, true),
            "/p?watch=1&resourceVersion=1&timeoutSeconds=5&allowWatchBookmarks=true"
        );
    }
}
