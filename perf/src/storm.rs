//! Storms: all watchers lose their connections at one moment and come back at once; or many clients list everything at
//! once. Writes go on meanwhile, and some watchers keep their connections: what the storm costs them is the question.
//!
//! The ones that stay are a fleet of their own. Those that storm run at a lower priority than these and the writers, so that
//! the generator's own trouble is not taken for the server's. Their latencies are kept by windows: in front of a storm, during it, and
//! for a moment behind it. Every watcher has one account over all its connections, so what is lost or comes twice over a
//! cut is found as everywhere.

mod report;

pub(crate) use report::StormReport;

use crate::args::storm::{Lists, Storm};
use crate::args::{Fanout, Initial};
use crate::clock::{nanos, now_ns};
use crate::fanout::Span;
use crate::fanout::Trouble;
use crate::fleet::Fleet;
use crate::initial::{self, InitialReport, Memory};
use crate::interests::{await_open, wait_until};
use crate::latency::Latency;
use crate::message::{Command, Cut, StormFound};
use crate::object::Recipe;
use crate::procfs::{self, CpuMark};
use crate::record::Record;
use crate::scope::Scope;
use crate::site::{Site, client_cpu_ns, gently};
use crate::stock;
use crate::tally::Tally;
use crate::units::{show_count, show_ns};
use crate::writers::Writers;
use std::time::Duration;

/// Between a word to the workers and the moment that it names.
const LEAD_NS: u64 = 50_000_000;
/// Behind a storm: what is left of it belongs to no window that counts.
const SETTLE_NS: u64 = 500_000_000;
/// On this machine, unless another number is asked for.
const SOURCES: u32 = 8;
/// Windows of one round: in front of the storm, during it, behind it.
const WINDOWS: usize = 3;

/// What the storm of one round was.
#[derive(Debug)]
enum Weather {
    /// Of each lane.
    Cut(Vec<StormFound>),
    Lists(Box<InitialReport>),
}

/// One round.
#[derive(Debug)]
struct Round {
    began_unix_seconds: u64,
    weather: Weather,
    /// From the cut, or from the first request, to the end of it all.
    lasted_ns: u64,
    rss_before_bytes: Option<u64>,
    rss_peak_bytes: Option<u64>,
    server_cpu_ns: Option<u64>,
    client_cpu_ns: Option<u64>,
    listen_overflows: Option<u64>,
}

/// What all rounds left behind.
#[derive(Debug)]
struct Ended {
    rounds: Vec<Round>,
    /// Of the watchers that stayed, [`WINDOWS`] a round.
    windows: Vec<Latency>,
    live: Tally,
    /// Of the watchers that lost their connections.
    storm: Tally,
    writes: u64,
    writes_failed: u64,
    write_fault: Option<String>,
    lateness_p99_ns: u64,
}

/// Does the whole run.
pub(crate) fn run(args: &Storm) -> Result<StormReport, Trouble> {
    let at_once = args.lists.map_or(args.base.watchers, |lists| lists.clients);
    // The ones that stay live in this process, and so does the storm unless it has processes of its own.
    let site = Site::prepare(&args.base, at_once.saturating_add(args.live))?;
    Ok(Run { args, site }.go()?)
}

/// One run under way.
#[derive(Debug)]
struct Run<'a> {
    args: &'a Storm,
    site: Site,
}

impl Run<'_> {
    fn go(mut self) -> Result<StormReport, String> {
        let base = &self.args.base;
        let mut recipe = self.site.recipe(base, base.namespaces.clone(), base.objects);
        let mut server = self.site.connect();
        let mut object_bytes = stock::create_objects(&mut server, &mut recipe, base.size_bytes)?;
        let listed = match self.args.lists {
            Some(lists) => {
                let (recipe, bytes) = self.create_listed(lists)?;
                object_bytes = bytes;
                Some(recipe)
            }
            None => None,
        };
        let scopes = stock::list_scopes(&mut server, &recipe, None, None)?;
        drop(server);
        let mut live = self.open_live(&recipe, &scopes)?;
        let mut fleet = match listed {
            Some(_) => None,
            None => {
                let base = &Fanout { sources: self.sources(), ..base.clone() };
                let plans =
                    self.site.plans(base, base.rate, recipe.run, &scopes, base.watchers, self.lasts());
                let mut fleet = gently(|| Fleet::start(&plans))??;
                await_open(&mut fleet, base.watchers)?;
                eprintln!("{} watchers are open", show_count(u64::from(base.watchers)));
                Some(fleet)
            }
        };
        let now = now_ns();
        let span = Span { start_ns: now + LEAD_NS, measure_from_ns: now, end_ns: u64::MAX };
        let writers = Writers::start(&self.site, base, &recipe, base.rate, span, None);
        let mut rounds = Vec::new();
        for number in 0..self.args.rounds {
            let round = self.round(&mut live, fleet.as_mut(), listed.as_ref(), object_bytes)?;
            eprintln!("round {}  {}", number + 1, report::line(&round));
            rounds.push(round);
        }
        let account = writers.end()?;
        let finish = Command::Finish(account.finish(base.drain));
        let mut storm = Tally::default();
        live.tell_all(&finish)?;
        if let Some(mut fleet) = fleet {
            fleet.tell_all(&finish)?;
            finished(&mut fleet)?;
            storm = std::mem::take(&mut fleet.tally);
        }
        finished(&mut live)?;
        let ended = Ended {
            rounds,
            windows: std::mem::take(&mut live.windows),
            live: std::mem::take(&mut live.tally),
            storm,
            writes: account.measured,
            writes_failed: account.failed.len() as u64,
            write_fault: account.first_fault.clone(),
            lateness_p99_ns: account.lateness.at(0.99),
        };
        Ok(StormReport::new(self.args, &self.site, &recipe, object_bytes, &ended))
    }

    /// The objects of the lists: in a namespace of their own, so that the ones who stay do not get them.
    fn create_listed(&mut self, lists: Lists) -> Result<(Recipe, usize), String> {
        let base = &self.args.base;
        eprintln!("creating {} objects", show_count(u64::from(lists.objects)));
        let namespaces = vec![format!("{}-lists", base.namespaces.concat())];
        let mut recipe = self.site.recipe(base, namespaces, lists.objects);
        let site = &self.site;
        let bytes = stock::create_objects_at_once(&|| site.connect(), &mut recipe, base.size_bytes, 8)?;
        Ok((recipe, bytes))
    }

    /// Addresses to connect from. A port whose connection this side has ended rests for a minute: with one address only,
    /// connect would soon spend its time in looking for a port that does not.
    fn sources(&self) -> Option<u32> {
        let local = self.site.address.is_ipv4() && self.site.address.ip().is_loopback();
        self.args.base.sources.or_else(|| local.then_some(SOURCES))
    }

    /// Longer than all rounds take.
    fn lasts(&self) -> Duration {
        (self.args.calm + self.args.timeout + Duration::from_secs(1)) * self.args.rounds
            + self.args.base.drain
    }

    fn open_live(&self, recipe: &Recipe, scopes: &[Scope]) -> Result<Fleet, String> {
        let base = Fanout { processes: 1, threads: 1, ..self.args.base.clone() };
        let plans = self.site.plans(&base, base.rate, recipe.run, scopes, self.args.live, self.lasts());
        let mut live = Fleet::start(&plans)?;
        await_open(&mut live, self.args.live)?;
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
        let began_unix_seconds = Record::new("", "", 0).began_unix_seconds;
        let memory = self.site.server_pid.map(Memory::watch);
        let overflows = procfs::listen_overflows();
        let at_ns = now_ns() + LEAD_NS;
        live.tell_all(&Command::Window { from_ns: at_ns })?;
        let pids = fleet.as_ref().map(|fleet| fleet.pids()).unwrap_or_default();
        let (server_before, own_before) = (self.site.server_cpu(), client_cpu_ns(pids.clone()));
        let weather = match (fleet, listed) {
            (Some(fleet), _) => Weather::Cut(self.cut(fleet, at_ns)?),
            (None, Some(recipe)) => {
                wait_until(Some(live), at_ns)?;
                Weather::Lists(Box::new(self.list(recipe, object_bytes)?))
            }
            (None, None) => return Err("no weather: this is a bug of revcast-perf".to_owned()),
        };
        let over_ns = now_ns();
        live.tell_all(&Command::Window { from_ns: over_ns + LEAD_NS / 10 })?;
        let (server_after, own_after) = (self.site.server_cpu(), client_cpu_ns(pids));
        let memory = memory.map(Memory::end);
        let overflowed =
            procfs::listen_overflows().zip(overflows).map(|(after, before)| after.saturating_sub(before));
        wait_until(Some(live), over_ns + SETTLE_NS)?;
        Ok(Round {
            began_unix_seconds,
            weather,
            lasted_ns: over_ns.saturating_sub(at_ns),
            rss_before_bytes: memory.and_then(|memory| memory.before),
            rss_peak_bytes: memory.and_then(|memory| memory.peak),
            server_cpu_ns: server_after
                .zip(server_before)
                .map(|(after, before): (CpuMark, _)| after.since(&before)),
            client_cpu_ns: own_after.zip(own_before).map(|(after, before)| after.saturating_sub(before)),
            listen_overflows: overflowed,
        })
    }

    /// Cuts all connections and waits for those who come back.
    fn cut(&self, fleet: &mut Fleet, at_ns: u64) -> Result<Vec<StormFound>, String> {
        let cut = Cut {
            at_ns,
            reset: self.args.reset,
            spread_ns: nanos(self.args.spread),
            timeout_ns: nanos(self.args.timeout),
        };
        fleet.storms.clear();
        fleet.tell_all(&Command::Cut(cut))?;
        while fleet.storms.len() < fleet.lanes() {
            fleet.listen(Duration::from_secs(1))?;
            fleet.recent.clear();
        }
        Ok(std::mem::take(&mut fleet.storms))
    }

    /// Lists everything with all clients at once.
    fn list(&self, recipe: &Recipe, object_bytes: usize) -> Result<InitialReport, String> {
        let clients = self.args.lists.map_or(0, |lists| lists.clients);
        let base = Fanout { watchers: clients, ..self.args.base.clone() };
        let args = Initial { base, list: true, gzip: false, timeout: self.args.timeout };
        let (address, caller) = (self.site.address, &self.site.caller);
        gently(|| initial::measure(&args, address, caller, recipe, self.site.server_pid, object_bytes))?
    }
}

fn finished(fleet: &mut Fleet) -> Result<(), String> {
    while !fleet.is_done() {
        fleet.listen(Duration::from_secs(1))?;
    }
    Ok(())
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
        let (mut answered, mut caught_up) = (Latency::new(), Latency::new());
        for lane in lanes {
            answered.add(&lane.answered);
            caught_up.add(&lane.caught_up);
        }
        Self {
            watchers: sum(|lane| u64::from(lane.watchers)),
            closed_ns: last(|lane| lane.closed_ns),
            connected_ns: last(|lane| lane.connected_ns),
            answered_ns: last(|lane| lane.answered_ns),
            caught_up_ns: last(|lane| lane.caught_up_ns),
            answered,
            caught_up,
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
