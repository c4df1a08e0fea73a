//! A server with TLS and a user, for clients that are no tests: `secured alone [OPTION]...`, or `secured beside [OPTION]...` for one
//! beside an upstream; with options of the server.
//!
//! It prints a line with the URL, a kubeconfig, the file of the CA, the token and the server's process, parted by spaces, and serves until
//! its input ends. Then it says in a line what it saw, and fails if that is wrong: writes beside an upstream must be the
//! upstream's.
#![allow(clippy::print_stdout, reason = "a command that prints for its caller")]

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use revcast_tests::alone::Alone;
use revcast_tests::beside::Beside;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let seen = match words.split_first() {
        Some((&"alone", options)) => {
            let mut alone = Alone::start(options).counting();
            let secrets = alone.secrets();
            serve(&alone.url(), &alone.kubeconfig(), &secrets.ca(), secrets.token(), alone.pid());
            alone.check()
        }
        Some((&"beside", options)) => {
            let beside = Beside::start(options);
            serve(&beside.url(), &beside.kubeconfig(), &beside.ca(), beside.token(), beside.pid());
            beside.check()
        }
        _ => Err("say alone or beside".to_owned()),
    };
    match seen {
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

/// Tells the caller, and waits for it.
fn serve(url: &str, kubeconfig: &Path, ca: &Path, token: &str, pid: u32) {
    println!("{url} {} {} {token} {pid}", kubeconfig.display(), ca.display());
    // Whatever ends it.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
