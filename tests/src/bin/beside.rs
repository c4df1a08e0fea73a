//! A front beside an upstream, for clients that are no tests: `beside [OPTION]...`, with options of the front.
//!
//! It prints a line with the URL, a kubeconfig, the file of the CA and the token, parted by spaces, and serves until its input
//! ends. Then it checks that the writes were the upstream's, says in a line what it saw, and fails if that is not so.
#![allow(clippy::print_stdout, reason = "a command that prints for its caller")]

use std::io::Read;
use std::process::ExitCode;

use revcast_tests::beside::Beside;

fn main() -> ExitCode {
    let options: Vec<String> = std::env::args().skip(1).collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let beside = Beside::start(&options);
    println!(
        "{} {} {} {}",
        beside.url(),
        beside.kubeconfig().display(),
        beside.ca().display(),
        beside.token()
    );
    // Whatever ends it.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    match beside.check() {
        Ok(seen) => {
            println!("{seen}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            println!("FAILED: {problem}");
            ExitCode::FAILURE
        }
    }
}
