//! Storms: all watchers lose their connections at one moment and come back at once; or many clients list everything at
//! once. Writes go on meanwhile, and some watchers keep their connections: what the storm costs them is the question.
//!
//! The ones that stay are a fleet of their own. Those that storm run at a lower priority than these and the writers, so that
//! the generator's own trouble is not taken for the server's. Their latencies are kept by windows: in front of a storm, during it, and
//! for a moment behind it. Every watcher has one account over all its connections, so what is lost or comes twice over a
//! cut is found as everywhere.

mod report;

use crate::clock::{nanos, now_ns};
use crate::fleet::{Fleet, wait_until};
use crate::initial::{self, InitialReport, Memory};
use crate::latency::Latency;
use crate::message::{Command, Cut, StormFound};
use crate::object::Recipe;
use crate::options::{Close, Initial, Lists, Load, Storm};
use crate::record::unix_seconds;
use crate::scope::Scope;
use crate::setup;
use crate::tally::Seen;
use crate::target::{Target, Trouble, client_cpu_ns, gently, used};
use crate::units::{show_count, show_ns};
use crate::usage;
use crate::writer::{Order, Span, Writers, Written};
use report::StormReport;
use std::time::Duration;

/// Between a word to the workers and the moment that it names.
const LEAD_NS: u64 = 50_000_000;
/// Behind a storm: what is left of it belongs to no window that counts.
const SETTLE_NS: u64 = 500_000_000;
/// On this machine, unless another number is asked for.
const SOURCES: u32 = 8;
/// Windows of one round: in front of the storm, during it, behind it.
const WINDOWS: usize = 3;

#[derive(Debug)]
enum Kind {
    Cut(Vec<StormFound>),
    Lists(Box<InitialReport>),
}

#[derive(Debug)]
struct Round {
    began_unix_seconds: u64,
    kind: Kind,
    /// From the cut, or from the first request, to the end of it all.
    lasted_ns: u64,
    rss_before_bytes: Option<u64>,
    rss_peak_bytes: Option<u64>,
    server_cpu_ns: Option<u64>,
    client_cpu_ns: Option<u64>,
    listen_overflows: Option<u64>,
}

#[derive(Debug)]
struct Ended {
    rounds: Vec<Round>,
    /// Of the watchers that stayed, [`WINDOWS`] a round.
    windows: Vec<Latency>,
    seen: Seen,
    written: Written,
}

pub(crate) fn run(args: &Storm) -> Result<StormReport, Trouble> {
    let at_once = args.lists.map_or(args.base.watchers, |lists| lists.clients);
    // The ones that stay live in this process, and so does the storm unless it has processes of its own.
    let target = Target::prepare(&args.base, at_once.saturating_add(args.live))?;
    Ok(Run { args, target }.go()?)
}

#[derive(Debug)]
struct Run<'a> {
    args: &'a Storm,
    target: Target,
}

impl Run<'_> {
    fn go(self) -> Result<StormReport, String> {
        let (base, target) = (&self.args.base, &self.target);
        let mut recipe = target.recipe(base, base.namespaces(), base.objects);
        let mut server = target.connect();
        let mut object_bytes = setup::create_objects(|| target.connect(), &mut recipe, base.size_bytes, 1)?;
        let mut listed = None;
        if let Some(lists) = self.args.lists {
            let (recipe, bytes) = self.create_listed(lists)?;
            (object_bytes, listed) = (bytes, Some(recipe));
        }
        let scopes = setup::list_scopes(&mut server, &recipe, None, None)?;
        drop(server);
        let mut live = self.open_live(&recipe, &scopes)?;
        let mut fleet = None;
        if listed.is_none() {
            let base = &Load { sources: self.sources(), ..base.clone() };
            let plans = target.plans(base, base.rate, recipe.run, &scopes, base.watchers, self.lasts());
            let mut storming = gently(|| Fleet::start(&plans))??;
            storming.await_open(Fleet::listen_a_second)?;
            eprintln!("{} watchers are open", show_count(u64::from(base.watchers)));
            fleet = Some(storming);
        }
        let now = now_ns();
        let span = Span { start_ns: now + LEAD_NS, measure_from_ns: now, end_ns: u64::MAX };
        let writers = Writers::start(Order::new(target, base, &recipe, base.rate, span));
        let mut rounds = Vec::new();
        for number in 0..self.args.rounds {
            let round = self.round(&mut live, fleet.as_mut(), listed.as_ref(), object_bytes)?;
            eprintln!("round {}  {}", number + 1, report::line(&round));
            rounds.push(round);
        }
        let written = writers.end()?;
        let finish = written.finish(recipe.objects(), base.drain);
        live.tell_all(&Command::Finish(finish.clone()))?;
        let mut seen = Seen::default();
        if let Some(mut fleet) = fleet {
            seen.add(&fleet.finish(finish.clone())?.seen);
        }
        seen.add(&live.finish(finish)?.seen);
        let ended = Ended { rounds, windows: std::mem::take(&mut live.windows), seen, written };
        Ok(StormReport::new(self.args, target, &recipe, object_bytes, &ended))
    }

    /// The objects of the lists: in a namespace of their own, so that the ones who stay do not get them.
    fn create_listed(&self, lists: Lists) -> Result<(Recipe, usize), String> {
        let (base, target) = (&self.args.base, &self.target);
        eprintln!("creating {} objects", show_count(u64::from(lists.objects)));
        let mut recipe = target.recipe(base, vec![format!("{}-lists", base.namespace)], lists.objects);
        let bytes = setup::create_objects_anew(|| target.connect(), &mut recipe, base.size_bytes, 8)?;
        Ok((recipe, bytes))
    }

    /// Addresses to connect from. A port whose connection this side has ended rests for a minute: with one address only,
    /// connect would soon spend its time in looking for a port that does not.
    fn sources(&self) -> Option<u32> {
        let local = self.target.address.is_ipv4() && self.target.address.ip().is_loopback();
        self.args.base.sources.or_else(|| local.then_some(SOURCES))
    }

    fn lasts(&self) -> Duration {
        (self.args.calm + self.args.timeout + Duration::from_secs(1)) * self.args.rounds
            + self.args.base.drain
    }

    fn open_live(&self, recipe: &Recipe, scopes: &[Scope]) -> Result<Fleet, String> {
        let base = Load { processes: 1, threads: 1, ..self.args.base.clone() };
        let plans = self.target.plans(&base, base.rate, recipe.run, scopes, self.args.live, self.lasts());
        let mut live = Fleet::start(&plans)?;
        live.await_open(Fleet::listen_a_second)?;
        Ok(live)
    }

    fn round(
        &self,
        live: &mut Fleet,
        fleet: Option<&mut Fleet>,
        listed: Option<&Recipe>,
        object_bytes: usize,
    ) -> Result<Round, String> {
        let calm_from_ns = now_ns() + LEAD_NS;
        live.tell_all(&Command::Window { from_ns: calm_from_ns })?;
        wait_until(Some(live), calm_from_ns + nanos(self.args.calm))?;
        let began_unix_seconds = unix_seconds();
        let memory = self.target.server_pid.map(Memory::watch);
        let overflows = usage::listen_overflows();
        let at_ns = now_ns() + LEAD_NS;
        live.tell_all(&Command::Window { from_ns: at_ns })?;
        let pids = fleet.as_ref().map(|fleet| fleet.pids()).unwrap_or_default();
        let (server_before, own_before) = (self.target.server_cpu(), client_cpu_ns(pids.clone()));
        let kind = match (fleet, listed) {
            (Some(fleet), _) => Kind::Cut(self.cut(fleet, at_ns)?),
            (None, Some(recipe)) => {
                wait_until(Some(live), at_ns)?;
                Kind::Lists(Box::new(self.list(recipe, object_bytes)?))
            }
            (None, None) => return Err("no kind of storm: this is a bug of revcast-perf".to_owned()),
        };
        let over_ns = now_ns();
        live.tell_all(&Command::Window { from_ns: over_ns + LEAD_NS / 10 })?;
        let (server_after, own_after) = (self.target.server_cpu(), client_cpu_ns(pids));
        let memory = memory.map(Memory::end);
        let overflowed = used(overflows, usage::listen_overflows());
        wait_until(Some(live), over_ns + SETTLE_NS)?;
        Ok(Round {
            began_unix_seconds,
            kind,
            lasted_ns: over_ns.saturating_sub(at_ns),
            rss_before_bytes: memory.and_then(|memory| memory.before),
            rss_peak_bytes: memory.and_then(|memory| memory.peak),
            server_cpu_ns: used(server_before, server_after),
            client_cpu_ns: used(own_before, own_after),
            listen_overflows: overflowed,
        })
    }

    /// Cuts all connections and waits for those who come back.
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

    fn list(&self, recipe: &Recipe, object_bytes: usize) -> Result<InitialReport, String> {
        let clients = self.args.lists.map_or(0, |lists| lists.clients);
        let base = Load { watchers: clients, ..self.args.base.clone() };
        let args = Initial { base, list: true, gzip: false, timeout: self.args.timeout };
        gently(|| initial::measure(&args, &self.target, recipe, object_bytes))?
    }
}

/// All lanes of one storm together: the times since the first of them began.
#[derive(Debug)]
struct Storming {
    watchers: u64,
    closed_ns: u64,
    connected_ns: u64,
    answered_ns: u64,
    caught_up_ns: u64,
    answered: Latency,
    caught_up: Latency,
    attempts: u64,
    failed: u64,
    first_failure: Option<String>,
    unanswered: u64,
    behind: u64,
    /// gone, duplicated, out of order, disconnected, gaps: since the run began.
    totals: [u64; 5],
}

impl Storming {
    fn of(lanes: &[StormFound]) -> Self {
        let began_ns = lanes.iter().map(|lane| lane.began_ns).min().unwrap_or(0);
        let last =
            |of: fn(&StormFound) -> u64| lanes.iter().map(of).max().unwrap_or(0).saturating_sub(began_ns);
        let sum = |of: fn(&StormFound) -> u64| lanes.iter().map(of).sum::<u64>();
        Self {
            watchers: sum(|lane| u64::from(lane.watchers)),
            closed_ns: last(|lane| lane.closed_ns),
            connected_ns: last(|lane| lane.connected_ns),
            answered_ns: last(|lane| lane.answered_ns),
            caught_up_ns: last(|lane| lane.caught_up_ns),
            answered: Latency::of(lanes.iter().map(|lane| &lane.answered)),
            caught_up: Latency::of(lanes.iter().map(|lane| &lane.caught_up)),
            attempts: sum(|lane| lane.attempts),
            failed: sum(|lane| lane.failed),
            first_failure: lanes.iter().find_map(|lane| lane.first_failure.clone()),
            unanswered: sum(|lane| lane.unanswered),
            behind: sum(|lane| lane.behind),
            totals: [
                sum(|lane| lane.gone),
                sum(|lane| lane.duplicated),
                sum(|lane| lane.out_of_order),
                sum(|lane| lane.disconnected),
                sum(|lane| lane.gaps),
            ],
        }
    }

    fn describe(&self) -> String {
        format!(
            "{} cut in {}, last connect at {}, last answer at {}, last caught up at {}, failed {}",
            show_count(self.watchers),
            show_ns(self.closed_ns),
            show_ns(self.connected_ns),
            show_ns(self.answered_ns),
            show_ns(self.caught_up_ns),
            show_count(self.failed),
        )
    }
}
