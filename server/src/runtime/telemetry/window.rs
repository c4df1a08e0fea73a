//! The window: the part of the past that can be replayed, and its newest state.

use super::page::{Kind, Page};
use crate::runtime::shared::Shared;

pub(super) fn render(page: &mut Page, shared: &Shared) {
    let epoch = shared.app.epoch();
    let feed = &epoch.feed;
    let oldest = feed.oldest();
    page.counter(
        "revcast_events_received_total",
        "Events that entered the window, those replayed at the start among them.",
        shared.app.epochs().events(),
    );
    page.counter(
        "revcast_messages_serialized_total",
        "Frames serialized: at most one an event, kind and encoding.",
        shared.app.epochs().messages_made(),
    );
    page.gauge("revcast_revision", "The newest visible revision.", feed.revision().get());
    page.gauge(
        "revcast_window_compacted_revision",
        "The newest revision that cannot be replayed.",
        feed.forgotten().get(),
    );
    page.gauge(
        "revcast_window_oldest_revision",
        "The oldest revision of which an event can be replayed; 0: there is none.",
        oldest.map_or(0, |(revision, _)| revision.get()),
    );
    page.gauge("revcast_window_events", "Events in the ring.", feed.window());
    page.gauge("revcast_window_events_max", "Events that fit into the ring.", shared.ring.events);
    page.gauge("revcast_window_bytes", "Bytes of messages that the ring keeps.", feed.window_bytes());
    page.gauge("revcast_window_bytes_max", "Bytes that the ring may keep now.", feed.window_bytes_max());
    page.gauge(
        "revcast_window_age_seconds",
        "How far the window reaches back: the age of its oldest event, counted from the start at most.",
        oldest.map_or(0.0, |(_, arrived)| shared.clock.now().since(arrived).as_secs_f64()),
    );
    let snapshot = feed.snapshot();
    page.gauge("revcast_objects", "Objects in the index.", snapshot.total());
    page.each(
        Kind::Gauge,
        "revcast_objects_unreadable",
        "Objects whose stored value cannot be read, by reason.",
        "reason",
        snapshot.unreadable_by_reason().map(|(reason, count)| (reason.name(), count)),
    );
}
