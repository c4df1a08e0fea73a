//! Long work says how far it is: on a terminal with a bar, elsewhere with a line every few seconds, and to whoever asks.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use revcast_tests::client::{Client, Watch};
use revcast_tests::port::Port;
use revcast_tests::server::{binary, command};
use revcast_tests::tmux::Tmux;
use rustix::process::{Pid, Signal, kill_process};

const WATCH: &str = "/api/v1/configmaps?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
const WATCHERS: usize = 40;

/// Addresses for the API and for operators, as long as the ports live.
fn addresses() -> ([Port; 2], [String; 2]) {
    let ports = [(); 2].map(|()| Port::free());
    let addresses = [&ports[0], &ports[1]].map(|port| format!("127.0.0.1:{}", port.number()));
    (ports, addresses)
}

/// Watches that are open, once a server answers.
fn watches(api: &str, admin: &str) -> Vec<Watch> {
    let client = Client::new(api);
    let deadline = Instant::now() + Duration::from_secs(30);
    while client.watch(WATCH).is_err() {
        assert!(Instant::now() < deadline, "no server at {api}");
        std::thread::sleep(Duration::from_millis(50));
    }
    let watches = (0..WATCHERS).map(|_| client.watch(WATCH).unwrap()).collect();
    let live = || {
        let metrics = Client::new(admin).get("/metrics").text();
        let of_shards = metrics.lines().filter(|line| line.starts_with("revcast_watchers_live"));
        of_shards.filter_map(|line| line.split(' ').nth(1)?.parse::<usize>().ok()).sum::<usize>()
    };
    while live() != WATCHERS {
        assert!(Instant::now() < deadline, "{} watches are live", live());
        std::thread::sleep(Duration::from_millis(50));
    }
    watches
}

fn readiness(admin: &str) -> String {
    Client::new(admin).get("/readyz").text()
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_drain_is_told_in_lines_and_to_whoever_asks() {
    let (_ports, [api, admin]) = addresses();
    let mut command = command();
    command.args([
        "--listen",
        &api,
        "--admin-listen",
        &admin,
        "--drain-grace",
        "10s",
        "--allowed-hosts",
        "test",
    ]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut running = Running(child);
    let _watches = watches(&api, &admin);
    kill_process(Pid::from_child(&running.0), Signal::TERM).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let said = readiness(&admin);
    let done =
        said.trim_end().strip_prefix("the server is closing: draining: ").unwrap_or_else(|| panic!("{said}"));
    let numbers: Vec<usize> = done.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(matches!(numbers[..], [done, total] if done > 0 && done < total && total == WATCHERS), "{said}");
    let lines: Vec<String> =
        BufReader::new(running.0.stderr.take().unwrap()).lines().map_while(Result::ok).collect();
    let told: Vec<&String> = lines.iter().filter(|line| line.contains("info: draining: ")).collect();
    // Watches end over eight seconds of the ten.
    assert!((2..=3).contains(&told.len()), "every three seconds: {lines:#?}");
    assert!(
        told.iter()
            .all(|line| line.contains(&format!(" of {WATCHERS} watches, ")) && line.ends_with(" a second"))
    );
    assert!(lines.iter().all(|line| !line.contains('\u{1b}')), "nothing is drawn: {lines:#?}");
    assert_eq!(running.0.wait().unwrap().code(), Some(0));
}

#[test]
fn on_a_terminal_it_is_a_bar_and_the_log_is_above_it() {
    let Some(tmux) = Tmux::start("progress-tmux", 80, 24) else { return };
    let (_ports, [api, admin]) = addresses();
    let pid = format!("{}/pid", tmux.folder());
    let start = format!(
        "exec {} --listen {api} --admin-listen {admin} --drain-grace 6s --allowed-hosts test",
        binary().display()
    );
    tmux.keys(&[&format!("sh -c 'echo $$ >{pid}; {start}'; echo ended-$?"), "Enter"]);
    let _watches = watches(&api, &admin);
    let pid = Pid::from_raw(std::fs::read_to_string(pid).unwrap().trim().parse().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let bar = |screen: &str| {
        let line = screen.lines().find(|line| line.starts_with("draining "))?;
        line.contains(&format!(" of {WATCHERS} watches, ")).then(|| line.to_owned())
    };
    let shown = tmux.until("a bar that moves", |screen| bar(screen).is_some_and(|line| line.contains("=>")));
    let log = shown.lines().position(|line| line.contains("info: closing")).unwrap();
    assert!(log < shown.lines().position(|line| line.starts_with("draining ")).unwrap(), "{shown}");
    let left = tmux.until("the end", |screen| screen.contains("ended-0"));
    assert!(
        bar(&left).is_none() && left.matches("info: closing").count() == 1,
        "it is gone, the log is not:\n{left}"
    );
}
