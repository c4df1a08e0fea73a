//! The simulator over any number of seeds.

use crate::place;
use crate::run::watched;

/// Runs the simulator's test over seeds `base..base + seeds`. Returns whether all were clean.
pub(crate) fn explore(seeds: u64, base: Option<u64>) -> bool {
    let base = base.unwrap_or_else(place::seed_base);
    println!("=== {seeds} seeds from {base}");
    let mut command = place::cargo();
    command
        .args(["test", "--workspace", "--test", "simulation", "--", "--nocapture"])
        .env("REVCAST_SIM_BASE", base.to_string())
        .env("REVCAST_SIM_SEEDS", seeds.to_string());
    let (tally, ended) = watched(&mut command);
    let passed = match ended {
        Ok(()) if tally.passed > 0 => true,
        Ok(()) => {
            println!("no test ran: is tests/sim/tests/simulation.rs empty?");
            false
        }
        Err(problem) => {
            println!("the simulator {problem}\nrepeat: cargo xtask sim --seeds {seeds} --base {base}");
            false
        }
    };
    println!("\n{} passed, {} failed", tally.passed, if passed { tally.failed } else { tally.failed.max(1) });
    passed
}
