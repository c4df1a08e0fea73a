//! One state of the server, measured once: so many watchers, writes at a rate, and what a write cost.

use super::Run;
use crate::clock::{nanos, now_ns};
use crate::fanout::LEAD_NS;
use crate::fleet::{Fleet, wait_until};
use crate::latency::Latency;
use crate::message::Command;
use crate::options::Rate;
use crate::pace::Pace;
use crate::record::unix_seconds;
use crate::tally::Seen;
use crate::target::{client_cpu_ns, used};
use crate::units::show_count;
use crate::writer::{Order, Span, Writers};
use std::time::Duration;

/// After the last watch is open: how long the server may settle.
const SETTLE_NS: u64 = 500_000_000;
/// After the last reply: what a write costs may come a little later than its reply.
const TAIL_NS: u64 = 300_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    None,
    One,
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

#[derive(Debug)]
pub(super) struct Sample {
    pub(super) began_unix_seconds: u64,
    pub(super) writes: u64,
    pub(super) writes_failed: u64,
    pub(super) writes_per_second: f64,
    pub(super) server_cpu_ns: Option<u64>,
    pub(super) client_cpu_share: Option<f64>,
    pub(super) latency: Latency,
    pub(super) seen: Seen,
    pub(super) watched: bool,
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
        let seen = &self.seen;
        let complete = !self.watched || (seen.measured >= self.writes && seen.delivered >= seen.expected);
        seen.wrong() + seen.disconnected == 0 && self.writes > 0 && complete
    }
}

impl Run<'_> {
    /// Opens the watchers of a state, writes, and closes the accounts.
    pub(super) fn measure(&self, state: State, interests: u32, rate: Rate) -> Result<Sample, String> {
        let (base, target) = (&self.args.base, &self.target);
        let recipe = self.part(interests);
        let scopes = self.scopes(state, interests)?;
        let watchers = state.watchers(interests);
        let mut fleet = match state {
            State::None => None,
            State::One | State::Each => {
                let lasts = base.warmup + base.duration + base.drain;
                let plans = target.plans(base, rate, recipe.run, &scopes, watchers, lasts);
                let mut fleet = Fleet::start(&plans)?;
                fleet.await_open(Fleet::listen_a_second)?;
                Some(fleet)
            }
        };
        wait_until(fleet.as_mut(), now_ns() + SETTLE_NS)?;

        let began_unix_seconds = unix_seconds();
        let start_ns = now_ns() + LEAD_NS;
        let measure_from_ns = start_ns + nanos(base.warmup);
        let span = Span { start_ns, measure_from_ns, end_ns: measure_from_ns + nanos(base.duration) };
        if let Some(fleet) = &mut fleet {
            fleet.tell_all(&Command::Measure { from_ns: measure_from_ns })?;
        }
        let delivered = fleet.as_ref().map_or(0, |fleet| fleet.totals().1);
        let mut pace = Pace::new(base, rate, &scopes, watchers, recipe.objects(), delivered);
        let mut order = Order::new(target, base, &recipe, rate, span);
        order.gate = pace.as_ref().map(Pace::gate);
        let writers = Writers::start(order);
        wait_paced(fleet.as_mut(), pace.as_mut(), measure_from_ns)?;
        let pids = fleet.as_ref().map(Fleet::pids).unwrap_or_default();
        let (server_before, own_before) = (target.server_cpu(), client_cpu_ns(pids.clone()));
        while !writers.are_done() {
            wait_paced(fleet.as_mut(), pace.as_mut(), now_ns() + 20_000_000)?;
        }
        let acknowledged = writers.acknowledged();
        let written = writers.end()?;
        // What is delivered late costs too, but what the watchers' end costs does not belong to a write.
        let give_up_ns = now_ns() + nanos(base.drain);
        wait_until(fleet.as_mut(), now_ns() + TAIL_NS)?;
        while let Some(fleet) = fleet.as_mut().filter(|fleet| fleet.totals().1 < acknowledged)
            && now_ns() < give_up_ns
        {
            wait_until(Some(fleet), now_ns() + 50_000_000)?;
        }
        let (server_after, own_after) = (target.server_cpu(), client_cpu_ns(pids));
        let window_ns = now_ns().saturating_sub(measure_from_ns).max(1);
        // An open loop lasts as long as it was asked to; only a server that falls behind makes it longer.
        let lasted = written.last_reply_ns.saturating_sub(measure_from_ns) as f64 / 1e9;
        let mut sample = Sample {
            began_unix_seconds,
            writes: written.measured,
            writes_failed: written.failed.len() as u64,
            writes_per_second: written.measured as f64 / lasted.max(base.duration.as_secs_f64()),
            server_cpu_ns: used(server_before, server_after),
            client_cpu_share: used(own_before, own_after).map(|ns| ns as f64 / window_ns as f64),
            latency: Latency::new(),
            seen: Seen::default(),
            watched: fleet.is_some(),
            lateness_p99_ns: written.lateness.at(0.99),
        };
        if let Some(mut fleet) = fleet {
            sample.seen = fleet.finish(written.finish(recipe.objects(), base.drain))?.seen;
            sample.latency.add(&fleet.latency.pairs());
        }
        sample.seen.note(|| written.first_fault);
        Ok(sample)
    }
}

/// Waits as [`wait_until`], and lets writers go on as the watchers do.
fn wait_paced(
    mut fleet: Option<&mut Fleet>,
    mut pace: Option<&mut Pace>,
    until_ns: u64,
) -> Result<(), String> {
    while now_ns() < until_ns {
        let (Some(fleet), Some(pace)) = (&mut fleet, &mut pace) else { return wait_until(fleet, until_ns) };
        fleet.listen(Duration::from_nanos(until_ns.saturating_sub(now_ns()).min(1_000_000_000)))?;
        fleet.recent.clear();
        let (open, delivered) = fleet.totals();
        pace.learn(open, delivered);
    }
    Ok(())
}
