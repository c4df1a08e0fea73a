//! `revcast top` against a real server: once for scripts, and in a real terminal, which tmux is.
#![allow(clippy::unwrap_used)]

use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use revcast_tests::client::Watch;
use revcast_tests::server::{Scratch, Server, binary, command};
use revcast_tests::tmux::Tmux;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/t/configmaps";
const WATCH: &str =
    "/api/v1/namespaces/t/configmaps?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";

/// What `revcast top` prints and how it ends, with more arguments.
fn top(admin: &str, arguments: &[&str], token: Option<&str>) -> Output {
    let mut command = command();
    if let Some(token) = token {
        command.env("REVCAST_TOP_TOKEN", token);
    }
    command.args(["top", "--admin", admin]).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat()
}

/// Watches of configmaps that are live.
fn watches(server: &Server, count: u64) -> Vec<Watch> {
    let client = server.client();
    let watches = (0..count).map(|_| client.watch(WATCH).unwrap()).collect();
    server.wait_for_metric("revcast_watchers_live", count);
    watches
}

#[test]
fn one_view_has_the_numbers_of_the_metrics() {
    let server = Server::start(&["--shards", "2"]);
    let _watches = watches(&server, 7);
    let client = server.client();
    let is_over = AtomicBool::new(false);
    let before = server.metric("revcast_events_sent_total");
    let (output, after) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let map = json!({"metadata": {"generateName": "m"}, "data": {"k": "v"}});
                assert_eq!(client.send("POST", MAPS, &map).status, 201);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let began = Instant::now();
        let output = top(&server.admin, &["--once", "--output", "json"], None);
        let sent = server.metric("revcast_events_sent_total") - before;
        is_over.store(true, Ordering::Relaxed);
        #[allow(clippy::cast_precision_loss)]
        let most = sent as f64 / 1.5_f64.min(began.elapsed().as_secs_f64());
        (output, most)
    });
    assert!(output.status.success(), "{}", said(&output));
    let view: Value = serde_json::from_slice(&output.stdout).unwrap();
    let figure = |name: &str| view["server"][name].as_f64().unwrap_or_else(|| panic!("{name} in {view}"));
    assert_eq!((figure("watchers"), view["server"]["life"].as_str()), (7.0, Some("serving")));
    let rate = figure("deliveriesPerSecond");
    assert!(rate > 0.0 && rate <= after, "{rate} of at most {after}");
    let ratio = rate / figure("eventsPerSecond");
    assert!((6.0..8.0).contains(&ratio), "each event goes to seven: {ratio}");
    assert_eq!(
        view["watchers"],
        json!([{"resource": "configmaps", "all": 7.0, "share": 1.0, "initial": 0.0,
        "catchingUp": 0.0, "live": 7.0, "parked": 0.0, "draining": 0.0}])
    );
    assert!(view["stages"][0]["p50"].as_f64().unwrap() > 0.0, "{view}");
    let table = top(&server.admin, &["--once", "--delay", "1s"], None);
    let text = said(&table);
    let has = |words: &[&str]| text.lines().any(|line| line.split_whitespace().eq(words.iter().copied()));
    assert!(
        has(&["SECTION", "ROW", "COLUMN", "VALUE"]) && has(&["watchers", "configmaps", "live", "7"]),
        "{text}"
    );
    assert!(has(&["server", "-", "watchers", "7"]), "{text}");
}

#[test]
fn what_is_wrong_is_said_on_one_line() {
    let folder = Scratch::new("top-wrong");
    let at = |name: &str| format!("{}/{name}", folder.path());
    std::fs::write(at("tokens.csv"), "one,operator,1\ntwo,stranger,2\n").unwrap();
    std::fs::write(
        at("rules.toml"),
        "[[rule]]\nusers = [\"operator\"]\nverbs = [\"get\"]\npaths = [\"/status\"]\n",
    )
    .unwrap();
    std::fs::write(at("token"), "one\n").unwrap();
    let (tokens, rules) = (at("tokens.csv"), at("rules.toml"));
    let server = Server::start(&["--token-auth-file", &tokens, "--authorization-rules", &rules]);
    let once = |admin: &str, more: &[&str], token: Option<&str>| {
        let output = top(admin, &[&["--once", "--delay", "1s"], more].concat(), token);
        (output.status.code(), said(&output))
    };
    let fails = |(code, text): (Option<i32>, String), says: &str| {
        assert_eq!((code, text.lines().count()), (Some(1), 1), "{text}");
        assert!(text.contains(says), "{text}");
    };
    fails(once(&server.admin, &[], None), "a token is needed: --token-file FILE, or REVCAST_TOP_TOKEN");
    fails(once(&server.admin, &[], Some("two")), "not allowed to get /status");
    assert_eq!(once(&server.admin, &[], Some("one")).0, Some(0));
    assert_eq!(once(&server.admin, &["--token-file", &at("token")], None).0, Some(0));
    fails(once(&server.admin, &["--token-file", &at("none")], None), "No such file");
    fails(once(&server.address, &[], Some("one")), "--admin");
    fails(once("127.0.0.1:1", &[], None), "127.0.0.1:1: Connection refused");
    fails(once(&format!("https://{}", server.admin), &[], None), "--ca FILE");
    let output = top(&server.admin, &[], Some("one"));
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("stdout is not a terminal: give --once"), "{}", said(&output));
}

/// Starts top in it, and returns its process.
fn top_in(tmux: &Tmux, arguments: &str) -> Pid {
    let pid = format!("{}/pid", tmux.folder());
    let _ = std::fs::remove_file(&pid);
    let binary = binary().display();
    tmux.keys(&[&format!("sh -c 'echo $$ >{pid}; exec {binary} top {arguments}'; echo ended-$?"), "Enter"]);
    tmux.until("the screen of top", |screen| screen.contains("q quit"));
    Pid::from_raw(std::fs::read_to_string(pid).unwrap().trim().parse().unwrap()).unwrap()
}

#[test]
fn in_a_terminal_it_shows_sorts_filters_and_leaves_it_as_it_was() {
    let Some(tmux) = Tmux::start("top-tmux", 80, 24) else { return };
    let server = Server::start(&["--shards", "2"]);
    let _watches = watches(&server, 7);
    let client = server.client();
    let _pods = client
        .watch("/api/v1/pods?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
        .unwrap();
    for number in 0..3 {
        let map = json!({"metadata": {"name": format!("m{number}")}, "data": {"k": "v"}});
        assert_eq!(client.send("POST", MAPS, &map).status, 201);
    }
    let modes = || {
        tmux.keys(&["clear; stty -g | md5sum", "Enter"]);
        tmux.until("the modes", |screen| screen.contains("  -"))
            .lines()
            .find(|line| line.contains("  -"))
            .unwrap()
            .to_owned()
    };
    let before = modes();
    top_in(&tmux, &format!("--admin {}", server.admin));
    let watchers = server.metric("revcast_watchers");
    let shown =
        tmux.until("the figures", |screen| screen.contains("connected") && screen.contains("configmaps"));
    assert!(shown.contains(&format!("Watchers {watchers} ")), "8 are open:\n{shown}");
    let lines: Vec<&str> = shown.lines().collect();
    assert!(
        lines.len() <= 24 && lines[0].starts_with("revcast serving") && lines[0].ends_with("connected"),
        "{shown}"
    );
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{shown}");
    // A pane, its order and a filter.
    let rows = |screen: &str| -> Vec<String> {
        let names = screen.lines().filter_map(|line| line.split_whitespace().next());
        names.filter(|name| ["configmaps", "pods"].contains(name)).map(str::to_owned).collect()
    };
    tmux.keys(&["2", ">", ">"]);
    tmux.until("the most first", |screen| screen.contains("All▾") && rows(screen) == ["configmaps", "pods"]);
    tmux.keys(&["r"]);
    tmux.until("the least first", |screen| screen.contains("All▴") && rows(screen) == ["pods", "configmaps"]);
    tmux.keys(&["/", "pod", "Enter"]);
    tmux.until("one row", |screen| screen.contains("filter: pod") && rows(screen) == ["pods"]);
    tmux.keys(&["Escape"]);
    tmux.until("all rows", |screen| rows(screen).len() == 2);
    tmux.keys(&["p"]);
    tmux.until("the pause", |screen| screen.lines().next().is_some_and(|line| line.ends_with("paused")));
    tmux.keys(&["p", "?"]);
    tmux.until("the help", |screen| screen.contains("the column that rows are sorted by"));
    // By itself: with a key right behind it would be Alt and that key.
    tmux.keys(&["Escape"]);
    tmux.until("the end of the help", |screen| !screen.contains("the column that rows are sorted by"));
    tmux.keys(&["8"]);
    tmux.until("the memory", |screen| screen.contains("Index") && screen.contains("Requests"));
    // Any size.
    tmux.resize(20, 5);
    tmux.until("a tiny one", |screen| screen.lines().count() <= 5 && screen.contains("Memory"));
    tmux.resize(200, 60);
    tmux.keys(&["1"]);
    tmux.until("everything at once", |screen| {
        ["In the ring", "configmaps", "Reaches back", "Index"].iter().all(|text| screen.contains(text))
    });
    tmux.resize(80, 24);
    tmux.keys(&["q"]);
    let left = tmux.until("the shell", |screen| screen.contains("ended-0"));
    assert!(!left.contains("Deliveries"), "the screen before is there again:\n{left}");
    assert_eq!(modes(), before);
}

#[test]
fn a_server_that_goes_away_is_said_and_signals_leave_the_terminal_as_it_was() {
    let Some(tmux) = Tmux::start("top-tmux-away", 80, 24) else { return };
    let server = Server::start(&[]);
    let admin = server.admin.clone();
    let pid = top_in(&tmux, &format!("--admin {admin}"));
    tmux.until("the connection", |screen| screen.contains("connected"));
    server.kill();
    let shown =
        tmux.until("the loss", |screen| screen.contains("no connection") && screen.contains("trying again"));
    assert!(shown.contains("Deliveries"), "what was last known stays:\n{shown}");
    let _again = Server::start(&["--admin-listen", &admin]);
    tmux.until("the connection", |screen| {
        screen.lines().next().is_some_and(|line| line.ends_with(" connected"))
    });
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let pid = if signal == Signal::TERM { pid } else { top_in(&tmux, &format!("--admin {admin}")) };
        rustix::process::kill_process(pid, signal).unwrap();
        let left = tmux.until("the end", |screen| screen.contains(&format!("ended-{code}")));
        assert!(!left.contains("Deliveries"), "{left}");
        tmux.keys(&["echo echoed", "Enter"]);
        tmux.until("the echo of the shell", |screen| screen.contains("echo echoed"));
    }
}
