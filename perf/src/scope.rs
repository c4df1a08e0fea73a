//! What one group of watchers watches: a namespace, perhaps narrowed by selectors, and which of the run's objects that
//! covers. Which ones is learned from a LIST with the same selectors, so the expected deliveries are exact without
//! evaluating a selector here.

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
    /// The media type that the watch asks for, when it is not plain JSON. Such events (Tables, metadata alone) carry no
    /// stamp: they are counted, and their revisions must grow.
    pub(crate) accept: Option<String>,
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
    fn ranks() {
        let whole = Scope { path: "/p".to_owned(), revision: 1, objects: (20..30).collect(), accept: None };
        assert_eq!(whole.rank(20), Some(0));
        assert_eq!(whole.rank(29), Some(9));
        assert_eq!(whole.rank(19), None);
        assert_eq!(whole.rank(30), None);
        let odd = Scope {
            path: "/p?labelSelector=x".to_owned(),
            revision: 7,
            objects: vec![21, 23, 29],
            ..whole.clone()
        };
        assert_eq!(odd.rank(29), Some(2));
        assert_eq!(odd.rank(22), None);
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
