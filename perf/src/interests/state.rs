//! One state of the server, measured once: so many watchers, writes at a rate, and what a write cost.

use super::Run;
use crate::args::Rate;
use crate::clock::{nanos, now_ns, sleep_until};
use crate::fanout::Span;
use crate::fleet::Fleet;
use crate::latency::Latency;
use crate::message::Command;
use crate::pace::Pace;
use crate::record::Record;
use crate::site::client_cpu_ns;
use crate::tally::Tally;
use crate::units::show_count;
use crate::writers::Writers;
use std::time::Duration;

/// After the last watch is open: how long the server may settle.
const SETTLE_NS: u64 = 500_000_000;
/// Between the word "measure from" and the first write.
const LEAD_NS: u64 = 200_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// Without one more established watch for so long the opening has failed.
const OPENING_STALL_NS: u64 = 30_000_000_000;
/// Behind the last reply: what a write costs may come a little later than its reply.
const TAIL_NS: u64 = 300_000_000;

/// Who watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    None,
    /// One, who gets every write.
    One,
    /// One for each object.
    Each,
}

impl State {
    pub(super) const fn watchers(self, interests: u32) -> u32 {
        match self {
            Self::None => 0,
            Self::One => 1,
            Self::Each => interests,
        }
    }

    pub(super) fn describe(self, interests: u32) -> String {
        match self {
            Self::None => "no watcher".to_owned(),
            Self::One => "one watcher".to_owned(),
            Self::Each if interests == 1 => "1 interest".to_owned(),
            Self::Each => format!("{} interests", show_count(u64::from(interests))),
        }
    }
}

/// What one state cost.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) began_unix_seconds: u64,
    /// Acknowledged and measured.
    pub(super) writes: u64,
    pub(super) writes_failed: u64,
    pub(super) writes_per_second: f64,
    /// Of measured writes: deliveries that came.
    pub(super) deliveries: u64,
    pub(super) server_cpu_ns: Option<u64>,
    pub(super) client_cpu_share: Option<f64>,
    pub(super) latency: Latency,
    pub(super) tally: Tally,
    pub(super) watched: bool,
    pub(super) write_fault: Option<String>,
    /// How late the generator sent, p99.
    pub(super) lateness_p99_ns: u64,
}

impl Sample {
    /// Server CPU time of a write and of its delivery, if it has one: there are as many of both.
    pub(super) fn cost_ns(&self) -> Option<f64> {
        self.server_cpu_ns.filter(|_| self.writes > 0).map(|ns| ns as f64 / self.writes as f64)
    }

    /// Every write was delivered once, to the one watcher that it was due to.
    pub(super) fn is_clean(&self) -> bool {
        let tally = &self.tally;
        let wrong = tally.lost
            + tally.duplicated
            + tally.out_of_order
            + tally.malformed
            + tally.unexpected
            + tally.disconnected;
        let complete = !self.watched || (self.deliveries >= self.writes && tally.delivered >= tally.expected);
        wrong == 0 && self.writes > 0 && complete
    }
}

impl Run<'_> {
    /// Opens the watchers of a state, writes, and takes the account.
    pub(super) fn measure(&mut self, state: State, interests: u32, rate: Rate) -> Result<Sample, String> {
        let base = &self.args.base;
        let recipe = self.part(interests);
        let scopes = self.scopes(state, interests)?;
        let watchers = state.watchers(interests);
        let mut fleet = match state {
            State::None => None,
            State::One | State::Each => {
                let lasts = base.warmup + base.duration + base.drain;
                Some(Fleet::start(&self.site.plans(base, rate, recipe.run, &scopes, watchers, lasts))?)
            }
        };
        if let Some(fleet) = &mut fleet {
            await_open(fleet, watchers)?;
        }
        wait_until(fleet.as_mut(), now_ns() + SETTLE_NS)?;

        let began_unix_seconds = Record::new("", "", 0).began_unix_seconds;
        let start_ns = now_ns() + LEAD_NS;
        let measure_from_ns = start_ns + nanos(base.warmup);
        let span = Span { start_ns, measure_from_ns, end_ns: measure_from_ns + nanos(base.duration) };
        if let Some(fleet) = &mut fleet {
            fleet.tell_all(&Command::Measure { from_ns: measure_from_ns })?;
        }
        let delivered = fleet.as_ref().map_or(0, |fleet| fleet.totals().1);
        let mut pace = Pace::new(base, rate, &scopes, watchers, recipe.objects(), delivered);
        let gate = pace.as_ref().map(Pace::gate);
        let writers = Writers::start(&self.site, base, &recipe, rate, span, gate.as_ref());
        wait_paced(fleet.as_mut(), pace.as_mut(), measure_from_ns)?;
        let pids = fleet.as_ref().map(Fleet::pids).unwrap_or_default();
        let (server_before, own_before) = (self.site.server_cpu(), client_cpu_ns(pids.clone()));
        while !writers.are_done() {
            wait_paced(fleet.as_mut(), pace.as_mut(), now_ns() + 20_000_000)?;
        }
        let written = writers.acknowledged();
        let account = writers.end()?;
        // What is delivered late costs too, but what the watchers' end costs does not belong to a write.
        let give_up_ns = now_ns() + nanos(base.drain);
        wait_until(fleet.as_mut(), now_ns() + TAIL_NS)?;
        while let Some(fleet) = fleet.as_mut().filter(|fleet| fleet.totals().1 < written)
            && now_ns() < give_up_ns
        {
            wait_until(Some(fleet), now_ns() + 50_000_000)?;
        }
        let (server_after, own_after) = (self.site.server_cpu(), client_cpu_ns(pids));
        let window_ns = now_ns().saturating_sub(measure_from_ns).max(1);

        let mut sample = Sample {
            began_unix_seconds,
            writes: account.measured,
            writes_failed: account.failed.len() as u64,
            writes_per_second: rate_of(
                account.measured,
                account.last_reply_ns,
                measure_from_ns,
                base.duration,
            ),
            deliveries: 0,
            server_cpu_ns: server_after.zip(server_before).map(|(after, before)| after.since(&before)),
            client_cpu_share: used(own_before, own_after).map(|ns| ns as f64 / window_ns as f64),
            latency: Latency::new(),
            tally: Tally::default(),
            watched: fleet.is_some(),
            write_fault: account.first_fault.clone(),
            lateness_p99_ns: account.lateness.at(0.99),
        };
        if let Some(mut fleet) = fleet {
            fleet.tell_all(&Command::Finish(account.finish(base.drain)))?;
            while !fleet.is_done() {
                fleet.listen(Duration::from_secs(1))?;
            }
            sample.deliveries = fleet.tally.measured;
            sample.latency.add(&fleet.latency.pairs());
            sample.tally = std::mem::take(&mut fleet.tally);
        }
        Ok(sample)
    }
}

fn used(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    after.zip(before).map(|(after, before)| after.saturating_sub(before))
}

/// An open loop lasts as long as it was asked to; only a server that falls behind makes it longer.
fn rate_of(writes: u64, last_reply_ns: u64, from_ns: u64, wanted: Duration) -> f64 {
    writes as f64 / (last_reply_ns.saturating_sub(from_ns) as f64 / 1e9).max(wanted.as_secs_f64())
}

/// Waits until every watch is established. Fails when no more come.
pub(crate) fn await_open(fleet: &mut Fleet, watchers: u32) -> Result<(), String> {
    let (mut open, mut moved_ns) = (0, now_ns());
    while !fleet.is_ready() {
        fleet.listen(Duration::from_secs(1))?;
        let now_open = fleet.totals().0;
        if now_open > open {
            (open, moved_ns) = (now_open, now_ns());
        }
        if now_ns() > moved_ns + OPENING_STALL_NS {
            return Err(format!("only {open} of {watchers} watches were answered, and none for 30 s"));
        }
    }
    Ok(())
}

/// Listens to the fleet, if there is one, until the clock shows `until_ns`.
pub(crate) fn wait_until(mut fleet: Option<&mut Fleet>, until_ns: u64) -> Result<(), String> {
    while now_ns() < until_ns {
        match &mut fleet {
            Some(fleet) => {
                let wait_ns = until_ns.saturating_sub(now_ns()).min(SECOND_NS);
                fleet.listen(Duration::from_nanos(wait_ns))?;
                fleet.recent.clear();
            }
            None => sleep_until(until_ns),
        }
    }
    Ok(())
}

/// The same, and lets writers on as the watchers get on.
fn wait_paced(
    mut fleet: Option<&mut Fleet>,
    mut pace: Option<&mut Pace>,
    until_ns: u64,
) -> Result<(), String> {
    while now_ns() < until_ns {
        let (Some(fleet), Some(pace)) = (&mut fleet, &mut pace) else { return wait_until(fleet, until_ns) };
        fleet.listen(Duration::from_nanos(until_ns.saturating_sub(now_ns()).min(SECOND_NS)))?;
        fleet.recent.clear();
        let (open, delivered) = fleet.totals();
        pace.learn(open, delivered);
    }
    Ok(())
}
