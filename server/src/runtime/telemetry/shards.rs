//! What shards do: watchers, deliveries, rounds, turns, and lag.

use std::fmt::Display;
use std::sync::atomic::Ordering;

use revcast_engine::Stats;
use revcast_engine::histogram::Histogram;

use super::page::{Kind, Page, seconds};
use crate::durations::Durations;
use crate::runtime::shards::ShardHandle;
use crate::runtime::shared::Shared;
use crate::runtime::tally::Ending;

pub(super) fn render(page: &mut Page, shared: &Shared) {
    let handles = &shared.handles.0;
    let numbers: Vec<String> = (0..handles.len()).map(|number| number.to_string()).collect();
    let of_engine =
        Engine { numbers: &numbers, shards: handles.iter().map(|handle| handle.stats.load()).collect() };
    of_engine.render(page);
    own(page, &numbers, handles);
    page.gauge("revcast_watchers_max", "Watches that may be open.", shared.watchers_max);
    stages(page, shared);
}

/// What the engines count.
struct Engine<'a> {
    numbers: &'a [String],
    shards: Vec<Stats>,
}

impl Engine<'_> {
    fn render(&self, page: &mut Page) {
        let gauge = Kind::Gauge;
        let counter = Kind::Counter;
        self.each(page, gauge, "revcast_watchers", "Watches that are open.", |s| s.watchers);
        let help = "Open watches that have seen everything dispatched.";
        self.each(page, gauge, "revcast_watchers_live", help, |s| s.live);
        let help = "Open watches that lag, are sent their initial state, or wait for a revision.";
        self.each(page, gauge, "revcast_watchers_behind", help, |s| s.watchers.saturating_sub(s.live));
        self.each(page, gauge, "revcast_watch_groups", "Classes of watches with equal interest.", |s| {
            s.classes
        });
        let help = "Watches that began.";
        self.each(page, counter, "revcast_watchers_started_total", help, |s| s.watches_started);
        let help = "Watches that were evicted because the window had passed them.";
        self.each(page, counter, "revcast_watchers_evicted_total", help, |s| s.evicted);
        let help = "Events that watchers were sent completely.";
        self.each(page, counter, "revcast_events_sent_total", help, |s| s.events_sent);
        let help = "Bytes that sockets of watches took.";
        self.each(page, counter, "revcast_bytes_sent_total", help, |s| s.bytes_sent);
        let help = "Bookmarks sent to watchers.";
        self.each(page, counter, "revcast_bookmarks_sent_total", help, |s| s.bookmarks_sent);
        let help = "Spaces sent to idle watches.";
        self.each(page, counter, "revcast_heartbeats_sent_total", help, |s| s.heartbeats_sent);
        let help = "Sends that a socket did not take completely.";
        self.each(page, counter, "revcast_short_writes_total", help, |s| s.blocked);
        let help = "Events taken from the ring.";
        self.each(page, counter, "revcast_events_dispatched_total", help, |s| s.events_dispatched);
        self.each(page, counter, "revcast_rounds_total", "Rounds of dispatch.", |s| s.rounds);
        let help = "Turns that ended while a round's events were still being sorted by selectors.";
        self.each(page, counter, "revcast_rounds_paused_total", help, |s| s.rounds_paused);
    }

    fn each(&self, page: &mut Page, kind: Kind, name: &str, help: &str, read: impl Fn(&Stats) -> u64) {
        let values = self.numbers.iter().zip(&self.shards);
        page.each(kind, name, help, "shard", values.map(|(number, stats)| (number.as_str(), read(stats))));
    }
}

/// What the shards' threads count beside their engines.
fn own(page: &mut Page, numbers: &[String], handles: &[ShardHandle]) {
    let help = "Watchers whose sockets are full; sampled every second.";
    let load = |handle: &ShardHandle| handle.tally.blocked.load(Ordering::Relaxed);
    each_door(page, Kind::Gauge, "revcast_watchers_blocked", help, (numbers, handles), load);
    let help = "Events that the slowest watcher has neither been sent nor skipped; sampled every second.";
    let name = "revcast_slowest_watcher_lag_events";
    each_door(page, Kind::Gauge, name, help, (numbers, handles), |handle| handle.tally.lag().0);
    let help = "How long ago the source had the first of those events.";
    let name = "revcast_slowest_watcher_lag_seconds";
    each_door(page, Kind::Gauge, name, help, (numbers, handles), |handle| seconds(handle.tally.lag().1));
    let help =
        "Time of the shard's thread on a CPU, in the process and in the kernel for it; sampled every second.";
    let cpu = |handle: &ShardHandle| seconds(handle.tally.cpu_ns.load(Ordering::Relaxed));
    each_door(page, Kind::Counter, "revcast_shard_cpu_seconds_total", help, (numbers, handles), cpu);
    let help = "Time granted to watchers that lag while newer events waited.";
    let granted = |handle: &ShardHandle| seconds(handle.tally.granted_ns.load(Ordering::Relaxed));
    each_door(page, Kind::Counter, "revcast_budget_granted_seconds_total", help, (numbers, handles), granted);
    let help = "The granted time that was used; more than was granted if a last page overdrew it.";
    let used = |handle: &ShardHandle| seconds(handle.tally.used_ns.load(Ordering::Relaxed));
    each_door(page, Kind::Counter, "revcast_budget_used_seconds_total", help, (numbers, handles), used);
    let ended = |ending: Ending| -> u64 {
        handles.iter().map(|handle| handle.tally.ended[ending as usize].load(Ordering::Relaxed)).sum()
    };
    page.each(
        Kind::Counter,
        "revcast_watchers_ended_total",
        "Watches that ended, by reason.",
        "reason",
        Ending::ALL.map(|ending| (ending.name(), ended(ending))),
    );
}

fn each_door<V: Display>(
    page: &mut Page,
    kind: Kind,
    name: &str,
    help: &str,
    (numbers, handles): (&[String], &[ShardHandle]),
    read: impl Fn(&ShardHandle) -> V,
) {
    let values = numbers.iter().zip(handles);
    page.each(kind, name, help, "shard", values.map(|(number, handle)| (number.as_str(), read(handle))));
}

/// From the source to the last watcher, over all shards.
fn stages(page: &mut Page, shared: &Shared) {
    let all = |read: fn(&ShardHandle) -> &Durations| {
        shared.handles.0.iter().fold(Histogram::default(), |sum, handle| sum.plus(&read(handle).load()))
    };
    page.histograms(
        "revcast_stage_duration_seconds",
        "From when the source had a change to: ring (visible to shards), first_write and last_write of its round.",
        "stage",
        [
            ("ring", shared.commands.stats.publishing.load()),
            ("first_write", all(|handle| &handle.tally.first_write)),
            ("last_write", all(|handle| &handle.tally.last_write)),
        ],
    );
    page.histograms(
        "revcast_event_loop_delay_seconds",
        "Between two turns of a shard that has work.",
        "",
        [("", all(|handle| &handle.tally.turn_delay))],
    );
}
