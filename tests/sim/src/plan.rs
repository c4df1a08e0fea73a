//! What kind of world a seed makes: every seed makes some dangers likely and others absent.

use std::time::Duration;

use revcast_engine::limits::{LOOKS_PER_TURN, RUN_MESSAGES};
use revcast_engine::tick::Tick;

use super::object::USUAL_KINDS;
use super::pipe::Nature;
use super::rng::Rng;
use super::wire::Wire;

/// The driver's possible steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Write,
    Publish,
    Progress,
    Compact,
    Turn,
    Clock,
    Subscribe,
    Sockets,
    Spurious,
    Forget,
    List,
    Drain,
}

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) steps: usize,
    pub(crate) shards: usize,
    pub(crate) names: usize,
    /// Of the kinds that there are, the first so many.
    pub(crate) kinds: usize,
    pub(crate) clients: usize,
    /// All clients share this many subscriptions; 0: each has its own.
    pub(crate) alike: usize,
    pub(crate) slots: usize,
    pub(crate) bytes_max: u64,
    pub(crate) start: u64,
    /// Percentage of names that have an object before the first watch.
    pub(crate) loaded: usize,
    /// Whether the writer waits for slow shards.
    pub(crate) waits: bool,
    /// Most batches in one step.
    pub(crate) burst: usize,
    /// Most changes of one revision.
    pub(crate) revision_max: usize,
    /// Percentage of batches that change every name.
    pub(crate) huge: usize,
    /// How many looks a turn of a shard takes, and the messages of a run.
    pub(crate) looks_per_turn: usize,
    pub(crate) run_messages: usize,
    /// Most turns in one step.
    pub(crate) turns: usize,
    /// Percentage of objects that are larger than a page.
    pub(crate) large: usize,
    /// Percentage of values that are unreadable.
    pub(crate) unreadable: usize,
    pub(crate) bookmark_interval: Duration,
    pub(crate) heartbeat_interval: Option<Duration>,
    pub(crate) turn_cost: Duration,
    pub(crate) encodings: bool,
    /// The step at which shards are abandoned.
    pub(crate) abandon_at: Option<usize>,
    /// Percentage of watches on another wire than the one whose framing messages are made in.
    other_wires: usize,
    /// The source of random wires.
    wires: Rng,
    weights: Vec<(Action, usize)>,
    natures: [usize; 6],
}

impl Plan {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        // A separate source: other draws of the seed do not depend on it.
        let mut own = rng.clone().fork().fork();
        let plan = Self::usual(rng);
        let plan = if own.percent(6) {
            plan.with_huge_revisions(&mut own)
        } else if own.percent(10) {
            let looks_per_turn = *own.pick(&[1, 4, 20]);
            Self { looks_per_turn, run_messages: *own.pick(&[1, 2, RUN_MESSAGES]), ..plan }
        } else {
            plan
        };
        Self { other_wires: *own.pick(&[0, 0, 30, 100]), wires: own, ..plan }
    }

    /// Revisions of many changes for many selectors: more than a shard looks at in one turn.
    fn with_huge_revisions(self, own: &mut Rng) -> Self {
        let waits = own.percent(60);
        Self {
            steps: own.range(150, 400),
            shards: own.range(1, 2),
            names: own.range(20, 120),
            clients: own.range(20, 60),
            alike: 0,
            slots: if waits { 2048 } else { 256 },
            bytes_max: 1_000_000,
            waits,
            burst: own.range(1, 3),
            huge: *own.pick(&[10, 30, 60]),
            looks_per_turn: *own.pick(&[5, 50, 300, 1_500]),
            run_messages: *own.pick(&[2, 5, 20, RUN_MESSAGES]),
            turns: *own.pick(&[6, 60]),
            // So many turns per step take less than the shortest interval, or something would be due in each.
            turn_cost: self.turn_cost.min(Duration::from_micros(10)),
            large: 0,
            ..self
        }
    }

    fn usual(rng: &mut Rng) -> Self {
        let crowd = rng.percent(4);
        let large = if !crowd && rng.percent(5) { *rng.pick(&[5, 20, 40, 80]) } else { 0 };
        let many = rng.percent(3);
        let waits = rng.percent(75);
        let slots = *rng.pick(&[8, 8, 16, 16, 32, 64, 128, 256, if large > 0 { 64 } else { 1024 }]);
        let bytes_max = if large > 0 {
            *rng.pick(&[150_000, 600_000, 2_000_000, 4_000_000])
        } else {
            *rng.pick(&[2_000, 6_000, 20_000, 100_000, 1_000_000])
        };
        let mut weights = vec![
            (Action::Write, rng.range(5, 30)),
            (Action::Publish, rng.range(0, 6)),
            (Action::Progress, rng.range(0, 5)),
            (Action::Compact, if rng.percent(40) { rng.range(0, 3) } else { 0 }),
            (Action::Turn, rng.range(20, 120)),
            (Action::Clock, rng.range(1, 12)),
            (Action::Subscribe, rng.range(3, 15)),
            (Action::Sockets, rng.range(5, 25)),
            (Action::Spurious, rng.range(0, 2)),
            (Action::Forget, rng.range(0, 2)),
            (Action::List, rng.range(0, 6)),
            (Action::Drain, 0),
        ];
        if crowd {
            // Enough of them for several turns per round.
            weights[6].1 = 60;
        }
        if rng.percent(10) {
            weights[11].1 = 1;
        }
        let mut natures = [0; 6];
        for (at, most) in [40, 30, 40, 15, 8, 8].into_iter().enumerate() {
            natures[at] = if rng.percent(70) { rng.range(1, most) } else { 0 };
        }
        if rng.percent(15) {
            natures = [1, 0, 0, 0, 0, 0];
        }
        let steps = if crowd { rng.range(300, 700) } else { rng.range(200, 1_000) };
        let unreadable = if many || large > 0 { 0 } else { *rng.pick(&[0, 0, 1, 2, 5]) };
        let abandon_at = rng.percent(12).then(|| rng.range(steps / 2, steps - 1));
        Self {
            steps,
            shards: rng.range(1, 4),
            names: if many { 1_300 } else { rng.range(3, 24) },
            kinds: USUAL_KINDS,
            clients: if crowd { rng.range(70, 160) } else { rng.range(1, 14) },
            alike: if crowd { rng.range(1, 2) } else { *rng.pick(&[0, 0, 0, 1, 3]) },
            slots,
            bytes_max,
            start: *rng.pick(&[0, 1, 7, 99, 1_000_000_000_000]),
            // Nearly all of many names: a state of more objects than a page examines.
            loaded: if rng.percent(40) { if many { 97 } else { 60 } } else { 0 },
            waits,
            revision_max: *rng.pick(&[6, 6, 6, 40]),
            huge: 0,
            looks_per_turn: LOOKS_PER_TURN,
            run_messages: RUN_MESSAGES,
            turns: 6,
            burst: if waits { *rng.pick(&[1, 1, 2, 4]) } else { *rng.pick(&[1, 4, 16, 40]) },
            large,
            unreadable,
            bookmark_interval: Duration::from_millis(*rng.pick(&[1, 5, 30, 200, 1_000, 60_000])),
            heartbeat_interval: rng
                .percent(60)
                .then(|| Duration::from_millis(*rng.pick(&[1, 10, 100, 1_000, 15_000]))),
            turn_cost: Duration::from_micros(*rng.pick(&[0, 1, 10, 100, 1_000])),
            encodings: rng.percent(60),
            abandon_at,
            other_wires: 0,
            wires: Rng::new(0),
            weights,
            natures,
        }
    }

    pub(crate) fn action(&self, rng: &mut Rng) -> Action {
        let total = self.weights.iter().map(|(_, weight)| weight).sum();
        let mut at = rng.below(total);
        for (action, weight) in &self.weights {
            if at < *weight {
                return *action;
            }
            at -= weight;
        }
        Action::Turn
    }

    /// How far the clock moves in one step.
    pub(crate) fn clock(&self, rng: &mut Rng) -> Duration {
        match rng.below(20) {
            0..=9 => Duration::from_micros(rng.range_u64(1, 5_000)),
            10..=14 => Duration::from_millis(rng.range_u64(1, 60)),
            15..=17 => self.bookmark_interval.min(Duration::from_secs(2)),
            18 => Duration::from_millis(rng.range_u64(100, 3_000)),
            _ => Duration::from_millis(rng.range_u64(100, 9_000)),
        }
    }

    /// The wire of a watch, and whether it takes whole messages only.
    pub(crate) fn wire(&mut self) -> (Wire, bool) {
        let rng = &mut self.wires;
        let wire = if rng.percent(self.other_wires) {
            *rng.pick(&[Wire::Prefixed, Wire::Bare])
        } else {
            Wire::Chunked
        };
        (wire, self.other_wires > 0 && rng.percent(40))
    }

    pub(crate) fn nature(&self, rng: &mut Rng, now: Tick) -> Nature {
        let mut at = rng.below(self.natures.iter().sum());
        let mut kind = 0;
        while kind < 5 && at >= self.natures[kind] {
            at -= self.natures[kind];
            kind += 1;
        }
        match kind {
            0 => Nature::Perfect,
            1 => Nature::Slow { capacity: rng.range(1, 4_000), drained_per_ms: rng.range(1, 2_000) },
            2 => Nature::Partial,
            3 => {
                let from = now.plus(Duration::from_micros(rng.range_u64(0, 100_000)));
                Nature::Stalled { from, until: from.plus(Duration::from_millis(rng.range_u64(1, 8_000))) }
            }
            4 => Nature::Dead { after: rng.range(0, 3_000) },
            _ => Nature::Gone { after: rng.range(0, 6_000) },
        }
    }
}
