//! How often the upstream was asked, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use super::cache::From;
use super::review_error::ReviewError;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewKind {
    /// TokenReviews.
    Token,
    /// SubjectAccessReviews.
    Access,
    /// The ConfigMap.
    Cluster,
}

impl ReviewKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Token, Self::Access, Self::Cluster];
    /// Those whose answers are kept.
    pub const KEPT: [Self; 2] = [Self::Token, Self::Access];

    /// As a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Access => "access",
            Self::Cluster => "cluster",
        }
    }
}

/// The answers that there are, as labels.
const RESULTS: [&str; 3] = ["no", "yes", "error"];

/// Counts of all shards.
#[derive(Debug, Default)]
pub(super) struct Counts {
    asked: [[AtomicU64; 3]; 3],
    hits: [AtomicU64; 3],
}

impl Counts {
    /// Notes an answer; `Ok(true)`: yes.
    pub(super) fn note(&self, kind: ReviewKind, from: From, answer: &Result<bool, ReviewError>) {
        let counter = match (from, answer) {
            (From::Asked, Ok(yes)) => &self.asked[kind as usize][usize::from(*yes)],
            (From::Asked, Err(_)) => &self.asked[kind as usize][2],
            (From::Kept | From::Shared, _) => &self.hits[kind as usize],
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// How often was asked, by kind and result.
    pub(super) fn asked(&self) -> impl Iterator<Item = (ReviewKind, &'static str, u64)> {
        ReviewKind::ALL.into_iter().flat_map(move |kind| {
            let of = &self.asked[kind as usize];
            RESULTS.iter().zip(of).map(move |(result, count)| (kind, *result, count.load(Ordering::Relaxed)))
        })
    }

    /// How often an answer was kept, or another one asked for it.
    pub(super) fn hits(&self, kind: ReviewKind) -> u64 {
        self.hits[kind as usize].load(Ordering::Relaxed)
    }
}
