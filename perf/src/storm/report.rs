//! What a run of `storm` found: for a person on a screen, and as one JSON object whose fields carry their units.

use super::{Ended, Round, Storming, WINDOWS, Weather};
use crate::args::Rate;
use crate::args::storm::Storm;
use crate::initial::InitialReport;
use crate::latency::Latency;
use crate::object::Recipe;
use crate::record::{Record, Scenario};
use crate::site::Site;
use crate::spread::Spread;
use crate::tally::Tally;
use crate::units::{show_bytes, show_count, show_ns, show_rate};
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
    /// Of the watchers that stayed.
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

/// The report of one run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StormReport {
    server: String,
    /// `cut` or `lists`.
    kind: &'static str,
    resource: String,
    close: &'static str,
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
    /// Of all watchers over the whole run.
    deliveries_checked: u64,
    deliveries_expected: u64,
    lost: u64,
    duplicated: u64,
    out_of_order: u64,
    unexpected: u64,
    malformed: u64,
    disconnected: u64,
    told_410: u64,
    first_fault: Option<String>,
    pub(crate) clean: bool,
    records: Vec<Record>,
}

/// The progress line of one round.
pub(super) fn line(round: &Round) -> String {
    match &round.weather {
        Weather::Cut(lanes) => Storming::of(lanes).describe(),
        Weather::Lists(found) => {
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
        match &round.weather {
            Weather::Cut(lanes) => found.set_storm(&Storming::of(lanes), totals_before),
            Weather::Lists(lists) => found.set_lists(lists),
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
        self.last_byte_ns = Some(lists.last_synced_ns).filter(|_| lists.unfinished == 0);
        self.bytes = Some(lists.bytes);
        self.objects_received = Some(lists.objects_received);
        self.unanswered = lists.unfinished;
        self.objects_wrong =
            lists.missing + lists.duplicated + lists.unexpected + lists.malformed + lists.stale_marks;
        self.first_failure.clone_from(&lists.first_fault);
    }

    fn is_clean(&self) -> bool {
        let wrong = self.told_410 + self.unanswered + self.behind + self.objects_wrong;
        wrong + self.lost + self.duplicated + self.out_of_order + self.disconnected == 0
    }

    fn record(&self, args: &Storm, round: &Round, during: Option<&Latency>, object_bytes: usize) -> Record {
        let scenario = if args.lists.is_some() { "storm-lists" } else { "storm" };
        let subject = format!("http://{}", args.base.server.authority());
        let mut record = Record::new(scenario, &subject, 0);
        record.began_unix_seconds = round.began_unix_seconds;
        record.watchers = args.lists.map_or(args.base.watchers, |lists| lists.clients);
        record.object_bytes = object_bytes;
        record.write_rate_per_second = wanted(args.base.rate);
        if let Some(during) = during {
            record.set_latency(during);
        }
        let number = |ns: Option<u64>| ns.map(|ns| ns as f64);
        record.set("all_answered_ns", number(self.all_answered_ns));
        record.set("all_caught_up_ns", number(self.all_caught_up_ns));
        record.set("last_byte_ns", number(self.last_byte_ns));
        record.set("received_bytes", number(self.bytes));
        record.set("failed_attempts", self.failed_attempts as f64);
        record.set("live_latency_p99_before_ns", number(self.live_p99_before_ns));
        record.set("live_latency_p99_during_ns", number(self.live_p99_during_ns));
        record.set("server_rss_before_bytes", number(self.server_rss_before_bytes));
        record.set("server_rss_peak_bytes", number(self.server_rss_peak_bytes));
        record.set("server_cpu_share", self.server_cpu_share);
        record.clean = self.is_clean();
        record
    }
}

const fn wanted(rate: Rate) -> Option<f64> {
    match rate {
        Rate::PerSecond(rate) => Some(rate),
        Rate::Max => None,
    }
}

impl StormReport {
    pub(super) fn new(
        args: &Storm,
        site: &Site,
        recipe: &Recipe,
        object_bytes: usize,
        ended: &Ended,
    ) -> Self {
        let mut totals = [0; 5];
        let windows = |number: usize| ended.windows.get(number * WINDOWS..).unwrap_or_default();
        let with = ended.rounds.iter().enumerate();
        let rounds: Vec<RoundFound> =
            with.map(|(number, round)| RoundFound::new(round, windows(number), &mut totals)).collect();
        let mut records = Vec::new();
        for (number, (found, round)) in (0..).zip(rounds.iter().zip(&ended.rounds)) {
            let during = windows(number as usize).get(1);
            records.push(Record { round: number + 1, ..found.record(args, round, during, object_bytes) });
        }
        let over =
            |of: fn(&RoundFound) -> Option<u64>| Spread::of(rounds.iter().filter_map(of).map(|ns| ns as f64));
        let both = |of: fn(&Tally) -> u64| of(&ended.live) + of(&ended.storm);
        let lists = args.lists;
        let within =
            |round: &RoundFound| round.all_caught_up_ns.is_some_and(|ns| u128::from(ns) <= MARK.as_nanos());
        let fault = ended.storm.first_fault.clone().or_else(|| ended.live.first_fault.clone());
        let failure = || rounds.iter().find_map(|round| round.first_failure.clone());
        let mut report = Self {
            server: format!("http://{}", site.caller.host),
            kind: if lists.is_some() { "lists" } else { "cut" },
            resource: recipe.resource.plural.clone(),
            close: if args.reset { "rst" } else { "fin" },
            watchers: lists.map_or(args.base.watchers, |_| 0),
            live: args.live,
            lists: lists.map(|lists| lists.clients),
            objects: lists.map_or_else(|| recipe.objects(), |lists| lists.objects),
            object_bytes,
            seed: site.seed,
            write_rate_per_second: wanted(args.base.rate),
            spread_ns: crate::clock::nanos(args.spread),
            server_pid: site.server_pid,
            client_cpus: match args.base.client_cpus.len() {
                0 => std::thread::available_parallelism().map_or(1, Into::into),
                pinned => pinned,
            },
            all_answered_ns: over(|round| round.all_answered_ns),
            all_caught_up_ns: over(|round| round.all_caught_up_ns),
            last_byte_ns: over(|round| round.last_byte_ns),
            live_p99_before_ns: over(|round| round.live_p99_before_ns),
            live_p99_during_ns: over(|round| round.live_p99_during_ns),
            live_p99_ratio: Spread::of(rounds.iter().filter_map(|round| round.live_p99_ratio)),
            server_rss_peak_bytes: over(|round| round.server_rss_peak_bytes),
            mark_ns: crate::clock::nanos(MARK),
            mark_met: lists.is_none().then(|| !rounds.is_empty() && rounds.iter().all(within)),
            writes: ended.writes,
            writes_failed: ended.writes_failed,
            write_send_delay_p99_ns: ended.lateness_p99_ns,
            deliveries_checked: both(|tally| tally.delivered),
            deliveries_expected: both(|tally| tally.expected),
            lost: both(|tally| tally.lost),
            duplicated: both(|tally| tally.duplicated),
            out_of_order: both(|tally| tally.out_of_order),
            unexpected: both(|tally| tally.unexpected),
            malformed: both(|tally| tally.malformed),
            disconnected: both(|tally| tally.disconnected),
            told_410: both(|tally| tally.gone),
            first_fault: fault.or_else(|| ended.write_fault.clone()).or_else(failure),
            clean: false,
            rounds,
            records,
        };
        report.judge();
        report
    }

    /// Nothing was lost or repeated over any connection, everyone came back, and the ones who stayed got something.
    fn judge(&mut self) {
        let wrong = self.lost + self.duplicated + self.out_of_order + self.unexpected + self.malformed;
        let rounds = self.rounds.iter().all(RoundFound::is_clean) && !self.rounds.is_empty();
        self.clean = wrong + self.disconnected + self.told_410 == 0 && rounds && self.deliveries_checked > 0;
    }
}

/// Whole nanoseconds as a person reads them.
fn time(ns: f64) -> String {
    show_ns(Duration::try_from_secs_f64(ns / 1e9).map_or(0, crate::clock::nanos))
}

fn maybe(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), show_ns)
}

fn bytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), show_bytes)
}

fn share(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0))
}

fn shown(spread: Option<Spread>, show: fn(f64) -> String) -> String {
    spread.map_or_else(|| "-".to_owned(), |spread| spread.show(show))
}

impl Scenario for StormReport {
    fn records(&self) -> Vec<&Record> {
        self.records.iter().collect()
    }

    fn is_clean(&self) -> bool {
        self.clean
    }
}

impl fmt::Display for StormReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "storm at {}, seed {}", self.server, self.seed)?;
        let rate = self.write_rate_per_second.map_or_else(|| "max".to_owned(), show_rate);
        let (objects, size) = (show_count(u64::from(self.objects)), show_bytes(self.object_bytes as u64));
        let live = show_count(u64::from(self.live));
        match self.lists {
            Some(clients) => writeln!(
                out,
                "  {clients} LISTs of {objects} {} of {size} at once; {live} watchers stay, {rate} writes elsewhere",
                self.resource
            )?,
            None => writeln!(
                out,
                "  {} watchers lose their connections ({}) and come back; {live} stay; {rate} writes to {objects} {} of {size}",
                show_count(u64::from(self.watchers)),
                self.close,
                self.resource
            )?,
        }
        let rounds = self.rounds.iter().enumerate();
        rounds.into_iter().try_for_each(|(number, round)| self.write_round(out, number + 1, round))?;
        writeln!(out, "  medians of the rounds (least..most)")?;
        if self.lists.is_some() {
            writeln!(out, "    last byte of the last list {}", shown(self.last_byte_ns, time))?;
        } else {
            writeln!(out, "    all answered    {}", shown(self.all_answered_ns, time))?;
            let mark = if self.mark_met == Some(true) { "met in every round" } else { "MISSED" };
            let wanted = show_ns(self.mark_ns);
            writeln!(
                out,
                "    all caught up   {}; mark {wanted} {mark}",
                shown(self.all_caught_up_ns, time)
            )?;
        }
        let [before, during] = [self.live_p99_before_ns, self.live_p99_during_ns].map(|p99| shown(p99, time));
        let ratio = shown(self.live_p99_ratio, |ratio| format!("{ratio:.2}"));
        writeln!(out, "    p99 of the {live} that stay: {during} during, {before} before, {ratio} times")?;
        self.write_checks(out)
    }
}

impl StormReport {
    fn write_round(&self, out: &mut fmt::Formatter<'_>, number: usize, round: &RoundFound) -> fmt::Result {
        writeln!(out, "  round {number}")?;
        if self.lists.is_some() {
            let received = show_count(round.objects_received.unwrap_or(0));
            writeln!(
                out,
                "    last byte {}  {} received, {received} objects checked, {} wrong, {} unfinished",
                maybe(round.last_byte_ns),
                bytes(round.bytes),
                show_count(round.objects_wrong),
                show_count(round.unanswered),
            )?;
        } else {
            let [closed, connected, p50, p99, answered, caught] = [
                round.closed_ns,
                round.connected_ns,
                round.answered_p50_ns,
                round.answered_p99_ns,
                round.all_answered_ns,
                round.all_caught_up_ns,
            ]
            .map(maybe);
            writeln!(
                out,
                "    closed {closed}  connected {connected}  answered p50 {p50}  p99 {p99}  all {answered}  caught up all {caught}"
            )?;
            let [attempts, failed, gone, unanswered, behind, lost, duplicated] = [
                round.attempts,
                round.failed_attempts,
                round.told_410,
                round.unanswered,
                round.behind,
                round.lost,
                round.duplicated,
            ]
            .map(show_count);
            let overflows = round.listen_overflows.map_or_else(|| "-".to_owned(), show_count);
            writeln!(
                out,
                "    attempts {attempts}  failed {failed}  listen queue full {overflows}  told 410 {gone}  unanswered {unanswered}  behind {behind}  lost {lost}  repeated {duplicated}"
            )?;
        }
        let [during, before, max] =
            [round.live_p99_during_ns, round.live_p99_before_ns, round.live_max_during_ns].map(maybe);
        let count = show_count(round.live_deliveries_during);
        writeln!(out, "    those that stay: p99 {during} of {count} during, {before} before, max {max}")?;
        writeln!(
            out,
            "    server RSS {} before, peak {}; CPU {} of a core, generator {}",
            bytes(round.server_rss_before_bytes),
            bytes(round.server_rss_peak_bytes),
            share(round.server_cpu_share),
            share(round.client_cpu_share),
        )
    }

    fn write_checks(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [checked, expected, writes, failed] =
            [self.deliveries_checked, self.deliveries_expected, self.writes, self.writes_failed]
                .map(show_count);
        writeln!(out, "  checked {checked} of {expected} deliveries, {writes} writes, {failed} failed")?;
        let [lost, duplicated, out_of_order, unexpected, malformed, disconnected, gone] = [
            self.lost,
            self.duplicated,
            self.out_of_order,
            self.unexpected,
            self.malformed,
            self.disconnected,
            self.told_410,
        ]
        .map(show_count);
        writeln!(
            out,
            "  lost {lost}  duplicated {duplicated}  out of order {out_of_order}  unexpected {unexpected}  malformed {malformed}  disconnected {disconnected}  told 410 {gone}"
        )?;
        let delay = show_ns(self.write_send_delay_p99_ns);
        writeln!(out, "  load generator sends late by p99 {delay}")?;
        if let Some(fault) = &self.first_fault {
            writeln!(out, "  first fault: {fault}")?;
        }
        let verdict = match (self.clean, self.lists.is_some()) {
            (true, true) => "every list had every object once, and those that stayed saw every write once",
            (true, false) => "everyone came back and saw every write once and in order, over all connections",
            (false, _) => "FAILED: see above",
        };
        writeln!(out, "  verdict: {verdict}")
    }
}
