//! What a run of `storm` found. Names carry their units.

use super::{Ended, Kind, Round, Storming, WINDOWS};
use crate::clock::nanos;
use crate::initial::InitialReport;
use crate::latency::Latency;
use crate::object::Recipe;
use crate::options::{Close, Storm};
use crate::process::cpu_count;
use crate::record::{Record, scenario};
use crate::sheet::Sheet;
use crate::spread::Spread;
use crate::tally::Seen;
use crate::target::Target;
use crate::units::{show_bytes, show_count, show_ns};
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// All watchers that come back are live again within this.
const MARK: Duration = Duration::from_secs(3);

/// One round. Times count from the cut, or from the first request of the lists.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct RoundFound {
    /// Behind the last close and the last connect that was begun: the generator's own part.
    closed_ns: Option<u64>,
    connected_ns: Option<u64>,
    answered_p50_ns: Option<u64>,
    answered_p99_ns: Option<u64>,
    all_answered_ns: Option<u64>,
    caught_up_p50_ns: Option<u64>,
    all_caught_up_ns: Option<u64>,
    attempts: u64,
    failed_attempts: u64,
    first_failure: Option<String>,
    told_410: u64,
    /// Without an answer, or behind, when the time was over.
    unanswered: u64,
    behind: u64,
    /// Missing at the end of the round, in front of writes that came.
    lost: u64,
    duplicated: u64,
    out_of_order: u64,
    disconnected: u64,
    /// Of lists: the end of the last.
    last_byte_ns: Option<u64>,
    bytes: Option<u64>,
    objects_received: Option<u64>,
    objects_wrong: u64,
    live_deliveries_before: u64,
    live_deliveries_during: u64,
    live_p99_before_ns: Option<u64>,
    live_p99_during_ns: Option<u64>,
    live_max_during_ns: Option<u64>,
    live_p99_ratio: Option<f64>,
    server_rss_before_bytes: Option<u64>,
    server_rss_peak_bytes: Option<u64>,
    server_cpu_share: Option<f64>,
    client_cpu_share: Option<f64>,
    /// Connects of the whole machine that found the listener's queue full.
    listen_overflows: Option<u64>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct StormReport {
    server: String,
    /// `cut` or `lists`.
    kind: &'static str,
    resource: String,
    close: Close,
    watchers: u32,
    live: u32,
    lists: Option<u32>,
    objects: u32,
    object_bytes: usize,
    seed: u64,
    write_rate_per_second: Option<f64>,
    spread_ns: u64,
    server_pid: Option<u32>,
    client_cpus: usize,
    rounds: Vec<RoundFound>,
    all_answered_ns: Option<Spread>,
    all_caught_up_ns: Option<Spread>,
    last_byte_ns: Option<Spread>,
    live_p99_before_ns: Option<Spread>,
    live_p99_during_ns: Option<Spread>,
    live_p99_ratio: Option<Spread>,
    server_rss_peak_bytes: Option<Spread>,
    mark_ns: u64,
    /// Every round was within the mark. Absent for lists.
    mark_met: Option<bool>,

    writes: u64,
    writes_failed: u64,
    write_send_delay_p99_ns: u64,
    #[serde(flatten)]
    seen: Seen,
    clean: bool,
    records: Vec<Record>,
}

pub(super) fn line(round: &Round) -> String {
    match &round.kind {
        Kind::Cut(lanes) => Storming::of(lanes).describe(),
        Kind::Lists(found) => {
            let (last, bytes) = (show_ns(found.last_synced_ns), show_bytes(found.bytes));
            format!("{} lists, {bytes}, the last ended at {last}", show_count(u64::from(found.watchers)))
        }
    }
}

impl RoundFound {
    fn new(round: &Round, windows: &[Latency], totals_before: &mut [u64; 5]) -> Self {
        let share = |ns: Option<u64>| ns.map(|ns| ns as f64 / round.lasted_ns.max(1) as f64);
        let mut found = Self {
            server_rss_before_bytes: round.rss_before_bytes,
            server_rss_peak_bytes: round.rss_peak_bytes,
            server_cpu_share: share(round.server_cpu_ns),
            client_cpu_share: share(round.client_cpu_ns),
            listen_overflows: round.listen_overflows,
            ..Self::default()
        };
        if let [before, during, ..] = windows {
            found.live_deliveries_before = before.count();
            found.live_deliveries_during = during.count();
            // A storm may be over before the next write.
            let quantile = |window: &Latency, at: f64| (!window.is_empty()).then(|| window.at(at));
            found.live_p99_before_ns = quantile(before, 0.99);
            found.live_p99_during_ns = quantile(during, 0.99);
            found.live_max_during_ns = quantile(during, 1.0);
            let both = found.live_p99_during_ns.zip(found.live_p99_before_ns.filter(|&ns| ns > 0));
            found.live_p99_ratio = both.map(|(during, before)| during as f64 / before as f64);
        }
        match &round.kind {
            Kind::Cut(lanes) => found.set_storm(&Storming::of(lanes), totals_before),
            Kind::Lists(lists) => found.set_lists(lists),
        }
        found
    }

    fn set_storm(&mut self, storm: &Storming, before: &mut [u64; 5]) {
        self.closed_ns = Some(storm.closed_ns);
        self.connected_ns = Some(storm.connected_ns);
        self.answered_p50_ns = Some(storm.answered.at(0.5));
        self.answered_p99_ns = Some(storm.answered.at(0.99));
        self.caught_up_p50_ns = Some(storm.caught_up.at(0.5));
        self.attempts = storm.attempts;
        self.failed_attempts = storm.failed;
        self.first_failure.clone_from(&storm.first_failure);
        self.unanswered = storm.unanswered;
        self.behind = storm.behind;
        let since = |at: usize| storm.totals[at].saturating_sub(before[at]);
        [self.told_410, self.duplicated, self.out_of_order, self.disconnected] = [0, 1, 2, 3].map(since);
        self.lost = since(4);
        *before = storm.totals;
        // Whoever did not come back has no time.
        let away = self.told_410 + self.unanswered + self.disconnected;
        self.all_answered_ns = Some(storm.answered_ns).filter(|_| away == 0);
        self.all_caught_up_ns = Some(storm.caught_up_ns).filter(|_| away + self.behind == 0);
    }

    fn set_lists(&mut self, lists: &InitialReport) {
        self.last_byte_ns = Some(lists.last_synced_ns).filter(|_| lists.unfinished() == 0);
        self.bytes = Some(lists.bytes);
        self.objects_received = Some(lists.objects_received);
        self.unanswered = lists.unfinished();
        self.objects_wrong = lists.wrong();
        self.first_failure = lists.first_fault();
    }

    fn is_clean(&self) -> bool {
        let wrong = self.told_410 + self.unanswered + self.behind + self.objects_wrong;
        wrong + self.lost + self.duplicated + self.out_of_order + self.disconnected == 0
    }

    fn record(&self, args: &Storm, round: &Round, during: Option<&Latency>) -> Record {
        let scenario = if args.lists.is_some() { "storm-lists" } else { "storm" };
        let mut record = Record::new(scenario, &format!("http://{}", args.base.server.authority()), 0);
        record.began_unix_seconds = round.began_unix_seconds;
        record.watchers = args.lists.map_or(args.base.watchers, |lists| lists.clients);
        record.write_rate_per_second = args.base.rate.per_second();
        if let Some(during) = during {
            record.set_latency(during);
        }
        record.take(
            self,
            "all_answered_ns all_caught_up_ns last_byte_ns failed_attempts server_rss_before_bytes server_rss_peak_bytes \
             server_cpu_share",
        );
        let number = |ns: Option<u64>| ns.map(|ns| ns as f64);
        record.set("received_bytes", number(self.bytes));
        record.set("live_latency_p99_before_ns", number(self.live_p99_before_ns));
        record.set("live_latency_p99_during_ns", number(self.live_p99_during_ns));
        record.clean = self.is_clean();
        record
    }
}

impl StormReport {
    pub(super) fn new(
        args: &Storm,
        target: &Target,
        recipe: &Recipe,
        object_bytes: usize,
        ended: &Ended,
    ) -> Self {
        let mut totals = [0; 5];
        let windows = |number: usize| ended.windows.get(number * WINDOWS..).unwrap_or_default();
        let (mut rounds, mut records) = (Vec::new(), Vec::new());
        for (number, round) in ended.rounds.iter().enumerate() {
            let found = RoundFound::new(round, windows(number), &mut totals);
            let record = found.record(args, round, windows(number).get(1));
            records.push(Record { round: u32::try_from(number + 1).unwrap_or(0), object_bytes, ..record });
            rounds.push(found);
        }
        let over =
            |of: fn(&RoundFound) -> Option<u64>| Spread::of(rounds.iter().filter_map(of).map(|ns| ns as f64));
        let lists = args.lists;
        let within = |round: &RoundFound| round.all_caught_up_ns.is_some_and(|ns| ns <= nanos(MARK));
        let mut seen = ended.seen.clone();
        seen.note(|| ended.written.first_fault.clone());
        seen.note(|| rounds.iter().find_map(|round| round.first_failure.clone()));
        // Nothing was lost or repeated over any connection, everyone returned, and those that stayed got something.
        let clean = seen.wrong() + seen.disconnected + seen.gone == 0
            && seen.delivered > 0
            && !rounds.is_empty()
            && rounds.iter().all(RoundFound::is_clean);
        Self {
            server: target.url(),
            kind: if lists.is_some() { "lists" } else { "cut" },
            resource: recipe.resource.plural.clone(),
            close: args.close,
            watchers: lists.map_or(args.base.watchers, |_| 0),
            live: args.live,
            lists: lists.map(|lists| lists.clients),
            objects: lists.map_or_else(|| recipe.objects(), |lists| lists.objects),
            object_bytes,
            seed: target.seed,
            write_rate_per_second: args.base.rate.per_second(),
            spread_ns: nanos(args.spread),
            server_pid: target.server_pid,
            client_cpus: cpu_count(&args.base.client_cpus),
            all_answered_ns: over(|round| round.all_answered_ns),
            all_caught_up_ns: over(|round| round.all_caught_up_ns),
            last_byte_ns: over(|round| round.last_byte_ns),
            live_p99_before_ns: over(|round| round.live_p99_before_ns),
            live_p99_during_ns: over(|round| round.live_p99_during_ns),
            live_p99_ratio: Spread::of(rounds.iter().filter_map(|round| round.live_p99_ratio)),
            server_rss_peak_bytes: over(|round| round.server_rss_peak_bytes),
            mark_ns: nanos(MARK),
            mark_met: lists.is_none().then(|| !rounds.is_empty() && rounds.iter().all(within)),
            writes: ended.written.measured,
            writes_failed: ended.written.failed.len() as u64,
            write_send_delay_p99_ns: ended.written.lateness.at(0.99),
            seen,
            clean,
            rounds,
            records,
        }
    }
}

scenario!(StormReport);

impl fmt::Display for StormReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sheet = Sheet::new(self, "storm at {server}, seed {seed:plain}");
        let lists = self.lists.is_some();
        sheet.line(if lists {
            "  {lists} LISTs of {objects} {resource} of {object_bytes} at once; {live} watchers stay, {write_rate_per_second} writes elsewhere"
        } else {
            "  {watchers} watchers lose their connections ({close}) and return; {live} stay; {write_rate_per_second} writes to {objects} {resource} of {object_bytes}"
        });
        sheet.each("/rounds", |sheet, number| {
            sheet.line(&format!("  round {}", number + 1));
            let rows: &[&str] = if lists {
                &["last byte {last_byte_ns|-}  {bytes|-} received, {objects_received} objects checked, {objects_wrong} wrong, {unanswered} unfinished"]
            } else {
                &[
                    "closed {closed_ns}  connected {connected_ns}  answered p50 {answered_p50_ns}  p99 {answered_p99_ns}  all {all_answered_ns|-}  caught up all {all_caught_up_ns|-}",
                    "attempts {attempts}  failed {failed_attempts}  listen queue full {listen_overflows|-}  told 410 {told_410}  unanswered {unanswered}  behind {behind}  lost {lost}  repeated {duplicated}",
                ]
            };
            let both = [
                "those that stay: p99 {live_p99_during_ns|-} of {live_deliveries_during} during, {live_p99_before_ns|-} before, max {live_max_during_ns|-}",
                "server RSS {server_rss_before_bytes|-} before, peak {server_rss_peak_bytes|-}; CPU {server_cpu_share|-}, generator {client_cpu_share|-}",
            ];
            rows.iter().chain(&both).for_each(|row| sheet.line(&format!("    {row}")));
        });
        sheet.line("  medians of the rounds (least..most)");
        if lists {
            sheet.line("    last byte of the last list {last_byte_ns|-}");
        } else {
            sheet.line("    all answered    {all_answered_ns|-}");
            let met = if self.mark_met == Some(true) { "met in every round" } else { "MISSED" };
            sheet.line(&format!("    all caught up   {{all_caught_up_ns|-}}; mark {{mark_ns}} {met}"));
        }
        sheet.line("    p99 of the {live} that stay: {live_p99_during_ns|-} during, {live_p99_before_ns|-} before, {live_p99_ratio|-} times");
        let verdict = match (self.clean, lists) {
            (true, true) => "every list had every object once, and those that stayed saw every write once",
            (true, false) => "everyone came back and saw every write once and in order, over all connections",
            (false, _) => "FAILED: see above",
        };
        sheet.rows(&[
            ("checked", "{deliveries_checked} of {deliveries_expected} deliveries, {writes} writes, {writes_failed} failed"),
            (
                "",
                "lost {lost}  duplicated {duplicated}  out of order {out_of_order}  unexpected {unexpected}  malformed {malformed}  disconnected {disconnected}  told 410 {told_410}",
            ),
            ("load generator", "sends late by p99 {write_send_delay_p99_ns}"),
            ("first fault", "{first_fault}"),
            ("verdict", verdict),
        ]);
        sheet.fmt(out)
    }
}
