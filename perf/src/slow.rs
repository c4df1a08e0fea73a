//! What watchers that never read cost those that do. Two states take turns: the healthy ones alone, and the same number
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
        scenario: "slow",
        server: format!("http://{}", base.server.authority()),
        started_with: args.stall.clone(),
        receive_buffer_bytes: base.mixture.receive_buffer_bytes,
        fill_bytes: base.mixture.fill_bytes,
        ..SlowReport::default()
    };
    for &percent in &args.shares {
        let slow = deaf_among(base.watchers, percent);
        let mut share = Share { percent, slow, healthy: base.watchers - slow, ..Share::default() };
        for number in 1..=args.rounds {
            let mut without = half(base, share.healthy, 0);
            if number == args.rounds {
                // Once is enough: of the healthy alone.
                without.floor = base.floor;
            }
            let with = half(base, base.watchers, percent);
            let rounds = args.rounds;
            let run = |args: &Fanout, state: &str| {
                eprintln!("{percent} %, round {number} of {rounds}, {state}");
                fanout::run(args)
            };
            // Who goes first takes turns too.
            let (without, with) = if number % 2 == 1 {
                let without = run(&without, "without slow ones")?;
                (without, run(&with, "with slow ones")?)
            } else {
                let with = run(&with, "with slow ones")?;
                (run(&without, "without slow ones")?, with)
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
