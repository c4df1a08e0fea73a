//! What watchers that never read cost those that do, and what hostile clients ([`crate::hostile`]) cost them. Two states take
//! turns: the healthy ones alone, and the same number of them among others whose sockets fill up. Each half is one run of
//! [`fanout`]: the healthy are held to account as there, and those that never read are outside of it.

mod report;

use crate::fanout;
use crate::options::{Load, Slow, deaf_among};
use crate::report::Report;
use crate::target::Trouble;
use clap::ValueEnum;
use report::{Round, Share, SlowReport};

pub(crate) fn run(args: &Slow) -> Result<SlowReport, Trouble> {
    let base = &args.base;
    let (hostile, rounds) = (base.mixture.hostile, args.rounds);
    let mut shares = Vec::new();
    for &percent in &args.shares {
        let healthy = base.watchers - deaf_among(base.watchers, percent);
        let mut found = Vec::new();
        for number in 1..=rounds {
            let mut without = half(base, healthy, 0);
            without.mixture.hostile = None;
            if number == rounds {
                // Once is enough: of the healthy alone.
                without.floor.clone_from(&base.floor);
            }
            let with = half(base, base.watchers, percent);
            let run = |args: &Load, state: &str| {
                let kind = hostile.and_then(|hostile| hostile.kind.to_possible_value());
                let who = kind.map_or_else(|| format!("{percent} %"), |kind| kind.get_name().to_owned());
                eprintln!("{who}, round {number} of {rounds}, {state}");
                fanout::run(args)
            };
            // Which goes first takes turns too.
            let odd = number % 2 == 1;
            let first = if odd { run(&without, "without them")? } else { run(&with, "with them")? };
            let second = if odd { run(&with, "with them")? } else { run(&without, "without them")? };
            let [without, with]: [Report; 2] = if odd { [first, second] } else { [second, first] };
            found.push(Round { number, without, with });
        }
        shares.push(Share::new(percent, hostile, base.watchers, found));
    }
    Ok(SlowReport::new(args, shares))
}

fn half(base: &Load, watchers: u32, deaf_percent: u32) -> Load {
    let mut half = Load { watchers, floor: Some(Vec::new()), ..base.clone() };
    half.mixture.deaf_percent = deaf_percent;
    half
}
