//! `revcast demo` as a newcomer runs it: fan-out within seconds, a page, a cluster that other clients see and change, and a
//! summary at Ctrl-C.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use revcast_tests::client::Client;
use revcast_tests::server::{Scratch, binary, command};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const FREE: [&str; 6] =
    ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--allowed-hosts", "test"];

/// A demo that prints JSON. Killed when it is dropped.
struct Demo {
    child: Child,
    lines: BufReader<ChildStdout>,
    /// Its first line.
    stage: Value,
}

impl Demo {
    fn start(mut command: Command, options: &[&str]) -> Self {
        command.args(["demo", "--json", "--no-open"]).args(options);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut demo = Self { child, lines, stage: Value::Null };
        demo.stage = demo.line()["demo"].clone();
        demo
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// The client of an address that it says.
    fn client(&self, what: &str) -> Client {
        Client::new(self.stage[what].as_str().unwrap().trim_start_matches("http://").trim_end_matches('/'))
    }

    /// Sends a signal. The summary, and the exit code.
    fn end(mut self, signal: Signal) -> (Value, Option<i32>) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let summary = loop {
            let line = self.line();
            if !line["summary"].is_null() {
                break line["summary"].clone();
            }
        };
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "nothing follows the summary");
        (summary, self.child.wait().unwrap().code())
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The exit code of a demo, and what it printed.
fn run(mut command: Command, options: &[&str]) -> (Option<i32>, String, String) {
    let output = command.arg("demo").args(options).stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn a_hundred_watchers_see_a_cluster_change() {
    let mut demo = Demo::start(command(), &[&FREE[..], &["--watchers", "100", "--writes", "40"]].concat());
    assert_eq!((&demo.stage["watchers"], &demo.stage["notes"]), (&json!(100), &json!([])));
    let (api, page) = (demo.client("api"), demo.client("page"));
    let first = demo.line();
    assert_eq!(first["watching"], 100, "{first}");

    // What a newcomer is told to do next.
    let html = page.get("/");
    assert!(html.status == 200 && html.header("content-type").unwrap().starts_with("text/html"));
    let mut watch = api.watch("/api/v1/pods?watch=1").unwrap();
    let mut phases: Vec<String> =
        watch.events(90).iter().map(|(_, pod)| pod["status"]["phase"].as_str().unwrap().to_owned()).collect();
    phases.sort_unstable();
    phases.dedup();
    assert_eq!(phases, ["Pending", "Running"]);
    kubectl(&demo);

    // Another client changes and deletes what the demo is about to change.
    let pods = api.get("/api/v1/pods").json();
    for pod in pods["items"].as_array().unwrap().iter().take(10) {
        let (namespace, name) = (&pod["metadata"]["namespace"], &pod["metadata"]["name"]);
        let path =
            format!("/api/v1/namespaces/{}/pods/{}", namespace.as_str().unwrap(), name.as_str().unwrap());
        let reply = api.request("DELETE", &format!("{path}?gracePeriodSeconds=0"), &[], &[]);
        // The demo may have been sooner.
        assert!(matches!(reply.status, 200 | 404), "{}", reply.status);
    }
    let map = json!({"metadata": {"name": "mine"}, "data": {"a": "b"}});
    assert_eq!(api.send("POST", "/api/v1/namespaces/shop/configmaps", &map).status, 201);
    for app in ["frontend", "cart", "catalog", "checkout"] {
        let path = format!("/api/v1/namespaces/shop/configmaps/{app}");
        let reply = api.request("DELETE", &path, &[], &[]);
        assert!(matches!(reply.status, 200 | 404), "{}", reply.status);
    }

    let mut so_far = first;
    for _ in 0..4 {
        so_far = demo.line();
        assert!(number(&so_far["eventsPerSecond"]) > 0, "{so_far}");
        assert!(number(&so_far["deliveriesPerSecond"]) > number(&so_far["eventsPerSecond"]), "{so_far}");
        let (median, most) = (number(&so_far["p50Micros"]), number(&so_far["p99Micros"]));
        assert!(median > 0 && median <= most, "{so_far}");
    }
    assert_eq!((number(&so_far["lost"]), number(&so_far["outOfOrder"])), (0, 0));

    // The server's own counts are not of fewer events than its watchers have counted.
    drop(watch);
    let metrics = page.get("/metrics").text();
    // A line a shard.
    let lines = metrics.lines().filter(|line| line.starts_with("revcast_events_sent_total"));
    let sent: f64 = lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum();
    let (summary, code) = demo.end(Signal::INT);
    assert_eq!(code, Some(0), "{summary}");
    assert_eq!(
        (number(&summary["lost"]), number(&summary["outOfOrder"]), number(&summary["faults"])),
        (0, 0, 0)
    );
    assert!(number(&summary["foreign"]) > 0, "{summary}");
    let (deliveries, events) = (number(&summary["deliveries"]), number(&summary["events"]));
    // What the watchers are in, half of them on average: see the views.
    assert!(deliveries > 20 * events && events >= number(&summary["writes"]), "{summary}");
    assert!(sent > 10.0 * f64::from(u32::try_from(events).unwrap()), "{sent}: {summary}");
}

/// kubectl lists what the demo changes, if there is one on the PATH.
fn kubectl(demo: &Demo) {
    let home = Scratch::new("demo-kubectl");
    let output = Command::new("kubectl")
        .env("HOME", home.path())
        .env("KUBECONFIG", "/dev/null")
        .arg(format!("--server={}", demo.stage["api"].as_str().unwrap()))
        .args(["get", "pods", "-A"])
        .output();
    let Ok(output) = output else { return eprintln!("SKIPPED: no kubectl on the PATH") };
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.lines().count() > 25, "{text}");
    assert!(text.starts_with("NAMESPACE") && text.contains("Running"), "{text}");
}

#[test]
fn a_port_that_is_taken() {
    // Whoever has the defaults, here or elsewhere: they are taken.
    let _held = [TcpListener::bind("127.0.0.1:8080"), TcpListener::bind("127.0.0.1:8081")];
    let options = ["--watchers", "20", "--duration", "2s", "--no-open"];
    let (code, said, complaint) = run(command(), &options);
    assert_eq!((code, complaint.as_str()), (Some(0), ""), "{said}");
    for default in ["127.0.0.1:8080", "127.0.0.1:8081"] {
        assert!(said.contains(&format!("note: {default} is taken: another port is used")), "{said}");
    }
    assert!(said.contains("kubectl --server=http://127.0.0.1:") && said.contains("Ctrl-C"), "{said}");
    let columns = said.lines().find(|line| line.contains("deliveries/s")).unwrap();
    assert!(
        columns.contains("p99") && said.contains(" deliveries, lost: 0, out of order: 0, p50 "),
        "{said}"
    );
    assert_eq!(
        said.lines()
            .filter(|line| line.ends_with("s         20") || line.contains("    20        0     0"))
            .count(),
        2,
        "{said}"
    );

    // One that was asked for is not replaced.
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = held.local_addr().unwrap().to_string();
    let (code, said, complaint) = run(command(), &["--listen", &address]);
    assert_eq!((code, said.as_str()), (Some(1), ""));
    assert!(complaint.starts_with(&format!("revcast: cannot listen on {address}: ")), "{complaint}");
    assert!(complaint.ends_with("stop what listens there, or choose another address\n"), "{complaint}");
}

#[test]
fn few_descriptors_are_fewer_watchers() {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg("ulimit -n 300; exec \"$0\" \"$@\"").arg(binary());
    let demo = Demo::start(shell, &[&FREE[..], &["--shards", "1"]].concat());
    assert_eq!(demo.stage["watchers"], 100);
    let notes = demo.stage["notes"][0].as_str().unwrap();
    assert!(notes.starts_with("100 watchers instead of 300: the limit of open files"), "{notes}");
    let began = Instant::now();
    let (summary, code) = demo.end(Signal::TERM);
    assert_eq!((code, number(&summary["lost"])), (Some(0), 0), "{summary}");
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn what_it_does_not_take() {
    for (options, says) in [
        (&["--watchers", "0"][..], "--watchers \"0\": "),
        (&["--writes", "fast"], "--writes \"fast\": "),
        (&["--duration", "5"], "--duration \"5\": a time without a unit"),
        (&["--data-dir", "/x"], "--data-dir: not an option of demo"),
        (&["--listen", "0.0.0.0:8080"], "--listen 0.0.0.0:8080: others can reach it"),
        (&["--watcher", "5"], "--watcher: no such option; did you mean --watchers?"),
        (&["now"], "now: one argument too many"),
    ] {
        let (code, said, complaint) = run(command(), options);
        assert_eq!((code, said.as_str(), complaint.lines().count()), (Some(2), "", 1), "{complaint}");
        assert!(complaint.starts_with(&format!("revcast: {says}")), "{complaint}");
    }
    // Variables are those of a server, which may have a data directory.
    let mut with_variable = command();
    with_variable.env("REVCAST_DATA_DIR", "/proc/nothing").env("REVCAST_LISTEN", "0.0.0.0:1");
    let options = [&FREE[..], &["--watchers", "1", "--duration", "1s"]].concat();
    let (code, said, complaint) = run(with_variable, &options);
    assert_eq!((code, complaint.as_str()), (Some(0), ""), "{said}");
}
