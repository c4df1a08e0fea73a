//! The faults of etcd, at length: enough rounds to check a million deliveries, on objects in JSON and again in protobuf.

use crate::place;
use crate::run::watched;

/// With fewer the run was too short.
const DELIVERIES_MIN: u64 = 1_000_000;

/// Runs the long faults with the release build. Returns whether all passed, and enough was checked.
pub(crate) fn run() -> bool {
    let mut build = place::cargo();
    build.args(["build", "--release", "-p", "revcast"]);
    if let (_, Err(problem)) = watched(&mut build) {
        println!("the build {problem}\nrepeat: cargo xtask faults");
        return false;
    }
    // Both are run, also when the first one fails.
    let passed = ["json", "protobuf"].map(on);
    if passed.contains(&false) {
        println!("repeat: cargo xtask faults");
    }
    passed == [true, true]
}

/// All of them on objects in one form.
fn on(form: &str) -> bool {
    println!("\n=== etcd's faults, objects in {form}");
    let mut command = place::cargo();
    command
        .args(["test", "--workspace", "--test", "etcd_faults"])
        .env("REVCAST_FAULTS", "long")
        .env("REVCAST_STORAGE_MEDIA_TYPE", form)
        .env("REVCAST_SIM_BASE", place::seed_base().to_string())
        .env("REVCAST_BIN", place::binary("release", "revcast", "REVCAST_BIN"));
    let (tally, ended) = watched(&mut command);
    println!("\n{form}: {} deliveries checked over {} runs", tally.deliveries, tally.passed);
    match ended {
        Err(problem) => println!("the faults {problem}"),
        Ok(()) if tally.deliveries < DELIVERIES_MIN => {
            println!("fewer than {DELIVERIES_MIN} deliveries: did every test run?");
        }
        Ok(()) => return true,
    }
    false
}
