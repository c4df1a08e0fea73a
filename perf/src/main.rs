//! `revcast-perf`: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    revcast_perf::main(std::env::args_os().skip(1))
}
