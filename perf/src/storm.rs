//! Storms: all watchers lose their connections at one moment and come back at once; or many clients list everything at once. Writes
//! go on meanwhile, and some watchers keep their connections: what the storm costs them is the question. They are a fleet of
//! their own, and the others run at a lower priority, so that the generator's own trouble is not taken for the server's.
//! Latencies are kept by windows. Every watcher has one account over all its connections: what is lost over a cut is found.

use crate::clock::{nanos, now_ns};
use crate::fleet::Fleet;
use crate::initial;
use crate::latency::Latency;
use crate::ledger::Scope;
use crate::message::{Command, Cut, StormFound};
use crate::object::Recipe;
use crate::options::{Close, Initial, Lists, Load, Storm};
use crate::process;
use crate::record::{Record, facts_of};
use crate::report::{Report, WRONGS};
use crate::setup;
use crate::table::Table;
use crate::tally::Seen;
use crate::target::{Target, Trouble, client_cpu_ns, gently, used};
use crate::units::digits;
use crate::units::say;
use crate::writer::{Order, Span, Writers, Written};
use serde_json::{Value, json};
use std::time::Duration;

/// Between a word to the workers and the moment that it names.
const LEAD_NS: u64 = 50_000_000;
/// After a storm: what is left of it belongs to no window that counts.
const SETTLE_NS: u64 = 500_000_000;
/// On this machine, unless another number is asked for.
const SOURCES: u32 = 8;
/// Windows of one round: before the storm, during it, after it.
const WINDOWS: usize = 3;
/// All watchers that come back are live again within this.
const MARK: Duration = Duration::from_secs(3);

/// Of lost connections, of lists, and of the watchers that stay and both sides.
const SHOWN: &str = "all_answered_ns all_caught_up_ns answered_p50_ns answered_p99_ns caught_up_p50_ns closed_ns connected_ns \
    attempts failed_attempts unanswered behind told_410 lost duplicated listen_overflows \
    last_byte_ns received_bytes objects_received objects_wrong unfinished \
    live_latency_p99_during_ns live_latency_p99_before_ns live_p99_ratio live_max_during_ns \
    live_deliveries_during live_deliveries_before server_rss_before_bytes server_rss_peak_bytes server_cpu_share \
    client_cpu_share";
const WRONG: &str = "told_410 unanswered unfinished behind objects_wrong lost duplicated out_of_order disconnected \
    malformed unexpected";
const CHECKED: &str = "told_410\nwrites writes_failed write_send_delay_p99_ns\nmark_ns mark_met deliveries_checked deliveries_expected";

pub(crate) fn run(args: &Storm) -> Result<Report, Trouble> {
    let at_once = args.lists.map_or(args.base.watchers, |lists| lists.clients);
    // The ones that stay live in this process, and so does the storm unless it has processes of its own.
    let target = Target::prepare(&args.base, at_once.saturating_add(args.live))?;
    Ok(Run { args, target }.go()?)
}

struct Run<'a> {
    args: &'a Storm,
    target: Target,
}

/// What loses its connections, with the counts since the run began that a round starts with; or what is listed.
enum Storming {
    Cut(Box<Fleet>, [u64; 5]),
    Lists(Recipe),
}

impl Run<'_> {
    fn go(self) -> Result<Report, String> {
        let (base, target) = (&self.args.base, &self.target);
        let mut recipe = target.recipe(base, base.namespaces(), base.objects);
        let mut server = target.connect();
        let object_bytes = setup::create_objects(target, &mut recipe, base.size_bytes, 1)?;
        let listed = self.args.lists.map(|lists| self.create_listed(lists)).transpose()?;
        let object_bytes = listed.as_ref().map_or(object_bytes, |(_, bytes)| *bytes);
        let scopes = setup::list_scopes(&mut server, &recipe, None, None)?;
        drop(server);
        let alone = Load { processes: 1, threads: 1, watchers: self.args.live, ..base.clone() };
        let mut live = self.open(&alone, &recipe, &scopes)?;
        let mut storming = match listed {
            Some((listed, _)) => Storming::Lists(listed),
            None => {
                // A port whose connection this side has ended rests for a minute: with one address only, connect would soon
                // spend its time in looking for a port that does not.
                let local = target.address.is_ipv4() && target.address.ip().is_loopback();
                let sources = base.sources.or_else(|| local.then_some(SOURCES));
                let base = &Load { sources, ..base.clone() };
                let fleet = gently(|| self.open(base, &recipe, &scopes))??;
                Storming::Cut(Box::new(fleet), [0; 5])
            }
        };
        let now = now_ns();
        let span = Span { start_ns: now + LEAD_NS, measure_from_ns: now, end_ns: u64::MAX };
        let writers = Writers::start(Order::new(target, base, &recipe, span));
        let mut records = Vec::new();
        for round in 1..=self.args.base.rounds {
            let record = self.round(round, &recipe, &mut live, &mut storming)?;
            records.push(Record { object_bytes, ..record });
        }
        let written = writers.end()?;
        let finish = written.finish(recipe.objects(), base.drain);
        live.tell_all(&Command::Finish(finish.clone()))?;
        let mut seen = Seen::default();
        if let Storming::Cut(mut fleet, _) = storming {
            seen.add(&fleet.finish(finish.clone())?.seen);
        }
        let live = live.finish(finish)?;
        seen.add(&live.seen);
        for (record, windows) in records.iter_mut().zip(live.windows.chunks(WINDOWS)) {
            keep_live(record, windows);
        }
        Ok(self.report(&recipe, seen, &written, records))
    }

    /// The objects of the lists: in a namespace of their own, so that the ones who stay do not get them.
    fn create_listed(&self, lists: Lists) -> Result<(Recipe, usize), String> {
        let (base, target) = (&self.args.base, &self.target);
        eprintln!("creating {} objects", digits(f64::from(lists.objects)));
        let mut recipe = target.recipe(base, vec![format!("{}-lists", base.namespace)], lists.objects);
        setup::delete_objects(target, &recipe)?;
        let bytes = setup::create_objects(target, &mut recipe, base.size_bytes, 8)?;
        Ok((recipe, bytes))
    }

    fn open(&self, base: &Load, recipe: &Recipe, scopes: &[Scope]) -> Result<Fleet, String> {
        let round = self.args.calm + self.args.timeout + Duration::from_secs(1);
        let lasts = round * base.rounds + base.drain;
        let plans = self.target.plans(base, recipe.run, scopes, lasts);
        let mut fleet = Fleet::start(&plans)?;
        fleet.await_open(Fleet::listen_a_second)?;
        eprintln!("{} watchers are open", digits(f64::from(base.watchers)));
        Ok(fleet)
    }

    fn round(
        &self,
        round: u32,
        recipe: &Recipe,
        live: &mut Fleet,
        storming: &mut Storming,
    ) -> Result<Record, String> {
        let calm_from_ns = now_ns() + LEAD_NS;
        live.tell_all(&Command::Window { from_ns: calm_from_ns })?;
        live.wait_until(calm_from_ns + nanos(self.args.calm))?;
        let scenario = if self.args.lists.is_some() { "storm-lists" } else { "storm" };
        let mut record = Record::new(scenario, &self.target.url(), round);
        let rss_before = self.target.rss_of_now_on();
        let overflows = process::listen_overflows();
        let at_ns = now_ns() + LEAD_NS;
        live.tell_all(&Command::Window { from_ns: at_ns })?;
        let pids = match storming {
            Storming::Cut(fleet, _) => fleet.pids(),
            Storming::Lists(_) => Vec::new(),
        };
        let (server_before, own_before) = (self.target.server_cpu_ns(), client_cpu_ns(pids.clone()));
        match storming {
            Storming::Cut(fleet, before) => {
                record.watchers = self.args.base.watchers;
                self.target.describe(&mut record, recipe, &self.args.base);
                keep_cut(&mut record, &self.cut(fleet, at_ns)?, before);
            }
            Storming::Lists(recipe) => {
                live.wait_until(at_ns)?;
                self.list(recipe, &mut record)?;
            }
        }
        let over_ns = now_ns();
        live.tell_all(&Command::Window { from_ns: over_ns + LEAD_NS / 10 })?;
        let (server_after, own_after) = (self.target.server_cpu_ns(), client_cpu_ns(pids));
        self.target.keep_rss(rss_before, &mut record);
        record.set("listen_overflows", used(overflows, process::listen_overflows()));
        live.wait_until(over_ns + SETTLE_NS)?;
        // From the cut, or from the first request, to the end of it all.
        let lasted_ns = over_ns.saturating_sub(at_ns).max(1) as f64;
        let server_ns = used(server_before, server_after);
        record.set("server_cpu_share", server_ns.map(|ns| ns as f64 / lasted_ns));
        record.set("client_cpu_share", used(own_before, own_after).map(|ns| ns as f64 / lasted_ns));
        record.write_rate_per_second = self.args.base.rate.per_second();
        record.clean = record.has_no(WRONG);
        let shown =
            "cut closed_ns connected_ns all_answered_ns all_caught_up_ns failed_attempts bytes last_byte_ns";
        eprintln!("round {round}  {}", say(shown, &record.flat()));
        Ok(record)
    }

    fn cut(&self, fleet: &mut Fleet, at_ns: u64) -> Result<Vec<StormFound>, String> {
        let cut = Cut {
            at_ns,
            reset: self.args.close == Close::Rst,
            spread_ns: nanos(self.args.spread),
            timeout_ns: nanos(self.args.timeout),
        };
        fleet.storms.clear();
        fleet.tell_all(&Command::Cut(cut))?;
        while fleet.storms.len() < fleet.lanes() {
            fleet.listen_a_second()?;
        }
        Ok(std::mem::take(&mut fleet.storms))
    }

    fn list(&self, recipe: &Recipe, record: &mut Record) -> Result<(), String> {
        let clients = self.args.lists.map_or(0, |lists| lists.clients);
        let base = Load { watchers: clients, ..self.args.base.clone() };
        let args = Initial { base, list: true, gzip: false, timeout: self.args.timeout };
        gently(|| initial::measure(&args, &self.target, recipe, record))??;
        let wrong = ["missing", "duplicated", "unexpected", "malformed", "stale_marks"];
        record.set("objects_wrong", wrong.iter().map(|name| record.count(name)).sum::<f64>());
        let ended = record.value("last_synced_ns").filter(|_| record.count("unfinished") == 0.0);
        record.set("last_byte_ns", ended);
        record.set("received_bytes", record.value("bytes"));
        Ok(())
    }

    fn report(&self, recipe: &Recipe, mut seen: Seen, written: &Written, records: Vec<Record>) -> Report {
        let (args, base, lists) = (self.args, &self.args.base, self.args.lists);
        seen.note(|| written.first_fault.clone());
        let failure = || records.iter().find_map(|record| record.facts.get("first_failure"));
        seen.note(|| failure().and_then(Value::as_str).map(str::to_owned));
        let within = |record: &Record| {
            record.value("all_caught_up_ns").is_some_and(|ns| ns <= MARK.as_secs_f64() * 1e9)
        };
        let mark_met = lists.is_none().then(|| records.iter().all(within));
        // Nothing was lost or repeated over any connection, everyone returned, and those that stayed got something.
        let mut all = Record::default();
        all.add(&seen);
        all.judge(WRONG, "deliveries_checked");
        let mut facts = facts_of(json!({
            "kind": if lists.is_some() { "lists" } else { "cut" },
            "close": args.close,
            "watchers": lists.map_or(base.watchers, |_| 0),
            "live": args.live,
            "lists": lists.map(|lists| lists.clients),
            "rounds": base.rounds,
            "objects": lists.map_or_else(|| recipe.objects(), |lists| lists.objects),
            "write_rate_per_second": base.rate.per_second(),
            "spread_ns": nanos(args.spread),
            "mark_ns": nanos(MARK),
            "mark_met": mark_met,
            "writes": written.measured,
            "writes_failed": written.failed.len(),
            "write_send_delay_p99_ns": written.lateness.at(0.99),
        }));
        let seen = facts_of(serde_json::to_value(&seen).unwrap_or_default());
        facts.extend(seen.into_iter().filter(|(_, value)| !value.is_null()));
        let title = "server protocol kind close watchers lists live objects resource object_bytes write_rate_per_second rounds seed";
        let mut report = Report::of_runs("storm", records.iter(), "", facts.into(), title);
        let states = [("storm".to_owned(), records.iter().collect())];
        report.table("", Table::new(Value::Null, 0, &states), SHOWN);
        report.values(CHECKED);
        report.values(WRONGS);
        let right = match lists {
            Some(_) => "every list had every object once, and those that stayed saw every write once",
            None => "everyone came back and saw every write once and in order, over all connections",
        };
        report.end(records, all.clean, right)
    }
}

/// Puts all lanes of one cut together. `before`: the counts since the run began that the round starts with.
fn keep_cut(record: &mut Record, lanes: &[StormFound], before: &mut [u64; 5]) {
    let began_ns = lanes.iter().map(|lane| lane.began_ns).min().unwrap_or(0);
    let last = |of: fn(&StormFound) -> u64| lanes.iter().map(of).max().unwrap_or(0).saturating_sub(began_ns);
    record.set("closed_ns", last(|lane| lane.closed_ns));
    record.set("connected_ns", last(|lane| lane.connected_ns));
    let StormFound { mut counts, mut seen, mut answered, mut caught_up, .. } = StormFound::default();
    for lane in lanes {
        counts.add(&lane.counts);
        seen.add(&lane.seen);
        answered.add(&lane.answered);
        caught_up.add(&lane.caught_up);
    }
    record.set_quantiles("answered", &answered);
    record.set_quantiles("caught_up", &caught_up);
    record.tell("first_failure", counts.first_fault.take());
    record.add(&counts);
    let totals = [
        ("told_410", seen.gone),
        ("duplicated", seen.duplicated),
        ("out_of_order", seen.out_of_order),
        ("disconnected", seen.disconnected),
        ("lost", seen.lost),
    ];
    for ((name, total), before) in totals.into_iter().zip(before) {
        record.set(name, total.saturating_sub(*before));
        *before = total;
    }
    // A watcher that did not come back has no time.
    let away: f64 = ["told_410", "unanswered", "disconnected"].iter().map(|name| record.count(name)).sum();
    if away == 0.0 {
        record.set("all_answered_ns", last(|lane| lane.answered_ns));
        let all = last(|lane| lane.caught_up_ns);
        record.set("all_caught_up_ns", Some(all).filter(|_| record.count("behind") == 0.0));
    }
}

fn keep_live(record: &mut Record, windows: &[Latency]) {
    let [before, during, ..] = windows else { return };
    // A storm may be over before the next write.
    let quantile = |window: &Latency, at: f64| (!window.is_empty()).then(|| window.at(at));
    let (calm, storm) = (quantile(before, 0.99), quantile(during, 0.99));
    record.set("live_deliveries_before", before.len());
    record.set("live_deliveries_during", during.len());
    record.set("live_latency_p99_before_ns", calm);
    record.set("live_latency_p99_during_ns", storm);
    record.set("live_max_during_ns", quantile(during, 1.0));
    let ratio = storm.zip(calm.filter(|&ns| ns > 0)).map(|(storm, calm)| storm as f64 / calm as f64);
    record.set("live_p99_ratio", ratio);
    record.set_latency(during);
}
