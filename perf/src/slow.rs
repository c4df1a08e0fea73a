//! What watchers that never read cost those that do, and what a siege ([`crate::siege`]) costs them. Two states take turns: the healthy ones alone, and the same number
//! of them among others whose sockets fill up. Each half is one run of [`fanout`]: the healthy are held to
//! account as there, and those who never read are outside of it.

mod report;

pub(crate) use report::SlowReport;

use crate::args::floor::FloorChoice;
use crate::args::{Fanout, Slow};
use crate::fanout::{self, Trouble};
use crate::message::deaf_among;
use report::{Round, Share};

/// Does the whole run.
pub(crate) fn run(args: &Slow) -> Result<SlowReport, Trouble> {
    let base = &args.base;
    let mut report = SlowReport {
        scenario: if base.mixture.siege.is_some() { "siege" } else { "slow" },
        server: format!("http://{}", base.server.authority()),
        started_with: args.stall.clone(),
        receive_buffer_bytes: base.mixture.receive_buffer_bytes,
        fill_bytes: base.mixture.fill_bytes,
        ..SlowReport::default()
    };
    let siege = base.mixture.siege;
    // A siege is one share, of nobody who is a watcher.
    let shares = if siege.is_some() { &[0][..] } else { &args.shares };
    for &percent in shares {
        let slow = deaf_among(base.watchers, percent);
        let mut share = Share { percent, siege, slow, healthy: base.watchers - slow, ..Share::default() };
        for number in 1..=args.rounds {
            let mut without = half(base, share.healthy, 0);
            without.mixture.siege = None;
            if number == args.rounds {
                // Once is enough: of the healthy alone.
                without.floor = base.floor;
            }
            let with = half(base, base.watchers, percent);
            let rounds = args.rounds;
            let run = |args: &Fanout, state: &str| {
                let who = siege.map_or_else(|| format!("{percent} %"), |siege| siege.kind.name().to_owned());
                eprintln!("{who}, round {number} of {rounds}, {state}");
                fanout::run(args)
            };
            // Who goes first takes turns too.
            let (without, with) = if number % 2 == 1 {
                let without = run(&without, "without them")?;
                (without, run(&with, "with them")?)
            } else {
                let with = run(&with, "with them")?;
                (run(&without, "without them")?, with)
            };
            share.rounds.push(Round { number, without, with });
        }
        share.judge();
        report.shares.push(share);
    }
    report.clean = report.shares.iter().all(|share| share.clean);
    Ok(report)
}

/// One state of one round.
fn half(base: &Fanout, watchers: u32, deaf_percent: u32) -> Fanout {
    let mut half = Fanout { watchers, ..base.clone() };
    half.mixture.deaf_percent = deaf_percent;
    half.floor = FloorChoice::Off;
    // A half is kept as a record of `slow`.
    half.out = None;
    half
}
