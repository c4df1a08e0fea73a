//! What the upstream was asked about clients.

use super::page::{Kind, Page};
use crate::auth::delegated::{Delegated, ReviewKind};

/// `None`: nothing is delegated, and everything is zero.
pub(super) fn render(page: &mut Page, delegated: Option<&Delegated>) {
    let none = |kind: ReviewKind| ["no", "yes", "error"].map(|result| (kind, result, 0));
    let asked = delegated.map_or_else(
        || ReviewKind::ALL.into_iter().flat_map(none).collect::<Vec<_>>(),
        |delegated| delegated.asked().collect(),
    );
    page.many(
        Kind::Counter,
        "revcast_reviews_total",
        "Questions to the upstream about clients, by kind and result.",
        asked
            .into_iter()
            .map(|(kind, result, count)| (vec![("kind", kind.as_str()), ("result", result)], count)),
    );
    let kept = |kind| delegated.map_or((0, 0), |delegated| delegated.kept(kind));
    page.each(
        Kind::Counter,
        "revcast_review_hits_total",
        "Answers that were kept, or that another request asked for.",
        "kind",
        ReviewKind::KEPT.map(|kind| (kind.as_str(), kept(kind).0)),
    );
    page.each(
        Kind::Gauge,
        "revcast_review_cache_entries",
        "Answers that are kept.",
        "kind",
        ReviewKind::KEPT.map(|kind| (kind.as_str(), kept(kind).1)),
    );
    page.gauge(
        "revcast_review_watched",
        "Distinct answers that open watches need, which are asked for again.",
        delegated.map_or(0, Delegated::needed),
    );
}
