//! Copies of the upstream's discovery documents, for the time when it cannot be asked.
//!
//! Owns how many are kept. They say nothing about anyone, so whoever may read such a document may read its copy.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use http::header::SET_COOKIE;
use http::response::Parts;

/// Bytes of all copies.
const BYTES_MAX: usize = 32 << 20;
/// Bytes of one copy.
pub const COPY_BYTES_MAX: usize = 8 << 20;

/// Which form of which document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyKey {
    /// The path and the query.
    pub target: String,
    /// `Accept`.
    pub accept: Option<String>,
    /// `Accept-Encoding`.
    pub encoding: Option<String>,
}

impl CopyKey {
    fn len(&self) -> usize {
        let of = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        self.target.len() + of(&self.accept) + of(&self.encoding)
    }
}

/// A reply of the upstream, complete.
#[derive(Debug)]
pub struct Copy {
    /// Its head.
    pub parts: Parts,
    /// Its body, as it was sent.
    pub body: Bytes,
    /// When it was read.
    pub since: Instant,
}

/// The copies, the oldest first.
#[derive(Debug, Default)]
pub struct Copies(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    all: VecDeque<(CopyKey, Arc<Copy>)>,
    bytes: usize,
}

impl Copies {
    /// Keeps a reply, in place of the older one of the same document.
    pub fn keep(&self, key: CopyKey, parts: Parts, body: Bytes) {
        let mut parts = parts;
        // They were meant for one client, or for one request.
        for name in [SET_COOKIE.as_str(), "audit-id"] {
            parts.headers.remove(name);
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = kept.all.iter().position(|(known, _)| *known == key) {
            kept.remove(at);
        }
        kept.bytes += key.len() + body.len();
        kept.all.push_back((key, Arc::new(Copy { parts, body, since: Instant::now() })));
        while kept.bytes > BYTES_MAX {
            kept.remove(0);
        }
    }

    /// The newest copy of a document.
    #[must_use]
    pub fn get(&self, key: &CopyKey) -> Option<Arc<Copy>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.all.iter().find(|(known, _)| known == key).map(|(_, copy)| Arc::clone(copy))
    }
}

impl Kept {
    fn remove(&mut self, at: usize) {
        if let Some((key, copy)) = self.all.remove(at) {
            self.bytes -= key.len() + copy.body.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Parts {
        http::Response::new(()).into_parts().0
    }

    #[test]
    fn what_was_for_one_client_is_not_kept() {
        let mut of_one = parts();
        for (name, value) in [("set-cookie", "a=b"), ("audit-id", "7"), ("etag", "\"x\"")] {
            of_one.headers.append(name, value.parse().expect("a value"));
        }
        let copies = Copies::default();
        let key = CopyKey { target: "/api?".into(), accept: None, encoding: None };
        copies.keep(key.clone(), of_one, Bytes::new());
        let kept = copies.get(&key).expect("it is kept");
        assert_eq!(kept.parts.headers.keys().map(http::HeaderName::as_str).collect::<Vec<_>>(), ["etag"]);
    }

    #[test]
    fn the_newest_are_kept() {
        let copies = Copies::default();
        let key = |target: &str| CopyKey { target: target.into(), accept: None, encoding: None };
        copies.keep(key("/api"), parts(), Bytes::from_static(b"old"));
        copies.keep(key("/api"), parts(), Bytes::from_static(b"new"));
        assert_eq!(copies.get(&key("/api")).map(|copy| copy.body.clone()).as_deref(), Some(&b"new"[..]));
        let other = CopyKey { accept: Some("application/yaml".into()), ..key("/api") };
        assert!(copies.get(&other).is_none(), "another form is another document");
        for number in 0..8 {
            copies.keep(key(&format!("/apis/{number}")), parts(), vec![0; COPY_BYTES_MAX - 64].into());
        }
        assert!(copies.get(&key("/api")).is_none() && copies.get(&key("/apis/7")).is_some());
        assert!(copies.0.lock().expect("not poisoned").bytes <= BYTES_MAX);
    }
}
