//! What operators see of a running server: metrics that follow the clients, a status, an audit log, a machine-readable
//! log; and Prometheus' own check of the metrics and the alert rules.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use revcast_tests::client::{Client, Watch};
use revcast_tests::server::{Scratch, Server, Store};
use rustix::process::Signal;
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/o/configmaps";
const WATCH: &str =
    "/api/v1/namespaces/o/configmaps?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "x".repeat(500)}})
}

/// Waits until `look` succeeds.
fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} does not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The one sample of this name and these labels.
fn sample(page: &str, name: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in\n{page}")).parse().unwrap()
}

#[test]
fn metrics_move_as_clients_do() {
    let (watchers, events) = (50_u64, 20_u64);
    let server = Server::start(&["--shards", "2"]);
    let client = server.client();
    let mut watches: Vec<Watch> = (0..watchers).map(|_| client.watch(WATCH).unwrap()).collect();
    server.wait_for_metric("revcast_watchers_live", watchers);
    let page = || server.admin_client().get("/metrics").text();
    let before = page();
    for number in 0..events {
        assert_eq!(client.send("POST", MAPS, &map(&format!("m{number}"))).status, 201);
    }
    for watch in &mut watches {
        assert_eq!(watch.events(usize::try_from(events).unwrap()).len() as u64, events);
    }
    server.wait_for_metric("revcast_events_sent_total", watchers * events);
    let count = |page: &str, stage: &str| {
        sample(page, &format!("revcast_stage_duration_seconds_count{{stage=\"{stage}\"}}"))
    };
    let after = until("the end of the last round", || {
        let page = page();
        let (first, last) = (count(&page, "first_write"), count(&page, "last_write"));
        (first == last && last > count(&before, "last_write")).then_some(page)
    });
    let moved = |name: &str| sample(&after, name) - sample(&before, name);
    #[allow(clippy::cast_precision_loss)]
    let wanted = events as f64;
    assert_eq!(moved("revcast_events_received_total"), wanted);
    assert_eq!(moved("revcast_messages_serialized_total"), wanted, "each serves fifty");
    assert_eq!(moved("revcast_writes_total"), wanted);
    // Events that have not happened have no line.
    assert_eq!(sample(&after, r#"revcast_http_requests_total{verb="create",code="201"}"#), wanted);
    assert_eq!(moved(r#"revcast_http_request_duration_seconds_count{verb="create"}"#), wanted);
    assert_eq!(moved(r#"revcast_http_requests_total{verb="watch",code="200"}"#), 0.0);
    assert_eq!(sample(&after, r#"revcast_connections_open{carries="watch"}"#), 50.0);
    assert!(moved(r#"revcast_stage_duration_seconds_count{stage="ring"}"#) >= 1.0);
    let sum = |stage: &str| moved(&format!("revcast_stage_duration_seconds_sum{{stage=\"{stage}\"}}"));
    assert!(sum("first_write") > 0.0 && sum("first_write") <= sum("last_write"));
    assert!(moved("revcast_event_loop_delay_seconds_count") > 0.0);
    assert!(
        sample(&after, "process_open_fds") > 50.0 && sample(&after, "process_resident_memory_bytes") > 1e6
    );
    drop(watches);
    let closed = r#"revcast_watchers_ended_total{reason="closed"}"#;
    until("the ends", || (sample(&page(), closed) >= 50.0).then_some(()));
    server.wait_for_metric("revcast_connections_open", 1);
}

#[test]
fn the_slowest_is_seen() {
    let server = Server::start(&["--shards", "1", "--send-buffer", "4KiB"]);
    let client = server.client();
    let slow = client.watch(WATCH).unwrap();
    server.wait_for_metric("revcast_watchers_live", 1);
    let big = json!({"metadata": {"generateName": "b"}, "data": {"k": "x".repeat(100_000)}});
    let page = || server.admin_client().get("/metrics").text();
    until("a full socket", || {
        assert_eq!(client.send("POST", MAPS, &big).status, 201);
        (server.metric("revcast_short_writes_total") > 0).then_some(())
    });
    for _ in 0..5 {
        assert_eq!(client.send("POST", MAPS, &big).status, 201);
    }
    let lag = |name: &str| sample(&page(), &format!("{name}{{shard=\"0\"}}"));
    until("a lag of events", || (lag("revcast_slowest_watcher_lag_events") >= 5.0).then_some(()));
    until("a lag of time", || (lag("revcast_slowest_watcher_lag_seconds") >= 1.0).then_some(()));
    assert_eq!(lag("revcast_watchers_blocked"), 1.0);
    let status = server.admin_client().get("/status").json();
    assert_eq!((&status["shards"][0]["behind"], &status["shards"][0]["blocked"]), (&json!(1), &json!(1)));
    let [first] = &status["watchers"]["slowest"].as_array().unwrap()[..] else { panic!("{status}") };
    assert_eq!((&first["resource"], &first["namespace"]), (&json!("configmaps"), &json!("o")));
    assert_eq!((&first["phase"], &first["blocked"]), (&json!("catchingUp"), &json!(true)));
    assert!(first["client"].as_str().unwrap().starts_with("127.0.0.1:"), "{first}");
    assert!(
        first["lagEvents"].as_u64().unwrap() >= 5 && first["lagSeconds"].as_f64().unwrap() >= 1.0,
        "{first}"
    );
    drop(slow);
}

#[test]
fn the_status_has_its_shape() {
    let server = Server::start(&["--shards", "2", "--max-watchers", "123"]);
    let client = server.client();
    let _watch = client.watch(WATCH).unwrap();
    server.wait_for_metric("revcast_watchers_live", 1);
    assert_eq!(client.send("POST", MAPS, &map("m")).status, 201);
    let reply = server.admin_client().get("/status");
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
    let status = reply.json();
    let names = |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    let all = [
        "version",
        "uptimeSeconds",
        "startedAt",
        "life",
        "listen",
        "limits",
        "source",
        "upstream",
        "window",
        "memory",
        "shards",
        "totals",
        "watchers",
        "stages",
        "errors",
    ];
    assert_eq!(names(&status), all);
    assert_eq!((&status["life"], &status["upstream"]), (&json!("serving"), &Value::Null));
    assert_eq!(status["listen"], json!({"api": server.address, "admin": server.admin}));
    assert_eq!(status["limits"], json!({"watchers": 123, "shards": 2, "memory": null}));
    let source = [
        "kind",
        "is",
        "ready",
        "revision",
        "epoch",
        "staleSeconds",
        "objects",
        "unreadable",
        "unreadableByReason",
        "failed",
    ];
    assert_eq!(names(&status["source"]), source);
    assert_eq!((&status["source"]["ready"], &status["source"]["objects"]), (&json!(true), &json!(1)));
    let window =
        ["events", "eventsMax", "bytes", "bytesMax", "oldestRevision", "forgottenRevision", "ageSeconds"];
    assert_eq!(names(&status["window"]), window);
    assert_eq!(status["window"]["events"], 1);
    assert!(status["window"]["ageSeconds"].as_f64().unwrap() < 20.0);
    assert_eq!(names(&status["memory"]), ["window", "index", "watchers", "pages", "requests", "resident"]);
    let shards = status["shards"].as_array().unwrap();
    assert_eq!(shards.len(), 2);
    assert_eq!(shards.iter().map(|shard| shard["watchers"].as_u64().unwrap()).sum::<u64>(), 1);
    assert!(shards.iter().all(|shard| shard["lastTurnSecondsAgo"].as_f64().unwrap() < 2.0), "{status}");
    assert!(shards.iter().all(|shard| shard["cpuSeconds"].as_f64().unwrap() > 0.0), "{status}");
    assert_eq!(names(&status["totals"]), ["eventsReceived", "messagesSerialized", "writes"]);
    assert_eq!(
        status["watchers"],
        json!({
            "byResource": [{
                "resource": "configmaps", "initial": 0, "catchingUp": 0, "live": 1, "parked": 0, "draining": 0
            }],
            "slowest": [],
        })
    );
    let stages = &status["stages"];
    assert_eq!(names(stages), ["boundsSeconds", "ring", "firstWrite", "lastWrite", "turnDelay"]);
    assert_eq!(
        stages["ring"]["counts"].as_array().unwrap().len(),
        1 + stages["boundsSeconds"].as_array().unwrap().len()
    );
    let errors = [
        "requests",
        "watchesEnded",
        "connectionsRefused",
        "http2StreamsFailed",
        "upstream",
        "source",
        "panics",
        "logLinesDropped",
        "auditLinesDropped",
    ];
    assert_eq!(names(&status["errors"]), errors);
    assert_eq!(server.admin_client().request("POST", "/status", &[], b"").status, 404);
}

#[test]
fn the_page_needs_no_right_and_its_data_do() {
    let scratch = Scratch::new("page");
    let folder = PathBuf::from(scratch.path());
    let (tokens, rules) = (folder.join("tokens.csv"), folder.join("rules.toml"));
    std::fs::write(&tokens, "one,operator,1\ntwo,stranger,2\n").unwrap();
    let rule = "[[rule]]\nusers = [\"operator\"]\nverbs = [\"get\"]\npaths = [\"/status\"]\n";
    std::fs::write(&rules, rule).unwrap();
    let server = Server::start(&[
        "--shards",
        "2",
        "--token-auth-file",
        tokens.to_str().unwrap(),
        "--authorization-rules",
        rules.to_str().unwrap(),
    ]);
    let nobody = Client::new(&server.admin);
    let page = nobody.get("/");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(page.header("cache-control"), Some("no-cache, private"));
    let etag = page.header("etag").unwrap();
    assert_eq!(nobody.request("GET", "/", &[("If-None-Match", etag)], b"").status, 304);
    let head = nobody.request("HEAD", "/", &[], b"");
    assert_eq!((head.status, head.header("etag"), head.text().len()), (200, Some(etag), 0));
    assert_eq!(nobody.request("POST", "/", &[], b"").status, 401);
    let posted = nobody.request("POST", "/", &[("Authorization", "Bearer two")], b"");
    assert_eq!(posted.status, 403, "what is no read is as before");

    for path in ["/status", "/status?watch=1", "/status?watch=1&token=one", "/metrics"] {
        assert_eq!(nobody.get(path).status, 401, "{path}");
        let stranger = nobody.request("GET", path, &[("Authorization", "Bearer two")], b"");
        assert_eq!(stranger.status, 403, "{path}");
    }
    let operator = nobody.bearing("one");
    let mut streams: Vec<Watch> = (0..8).map(|_| operator.watch("/status?watch=1").unwrap()).collect();
    let ninth = operator.get("/status?watch=1");
    assert_eq!((ninth.status, ninth.header("retry-after")), (429, Some("1")), "{}", ninth.text());
    let line = |stream: &mut Watch| -> Value {
        serde_json::from_str(&stream.next_line().unwrap().unwrap()).unwrap()
    };
    let uptime = |document: &Value| document["uptimeSeconds"].as_f64().unwrap();
    let mut first = streams.remove(0);
    let (one, two) = (line(&mut first), line(&mut first));
    assert!((0.9..2.0).contains(&(uptime(&two) - uptime(&one))), "{one} {two}");
    drop(streams);
    until("room for another stream", || operator.watch("/status?watch=1").ok());

    // What allowed it is taken away.
    std::fs::write(&rules, rule.replace("operator", "somebody")).unwrap();
    server.signal(Signal::HUP);
    let ends = Instant::now() + Duration::from_secs(10);
    while first.next_line().unwrap().is_some() {
        assert!(Instant::now() < ends, "the stream goes on without its right");
    }
    assert_eq!(operator.get("/status").status, 403);
}

#[test]
fn a_stream_of_the_status_delays_no_end() {
    let mut server = Server::start(&[]);
    let mut stream = server.admin_client().watch("/status?watch=1").unwrap();
    assert!(stream.next_line().unwrap().is_some());
    let began = Instant::now();
    server.signal(Signal::INT);
    while stream.next_line().unwrap().is_some() {}
    assert_eq!(server.await_end(Duration::from_secs(10)), 0);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

/// The lines of an audit log so far.
fn audited(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The lines of one request, by its `Audit-Id`, once it is over.
fn lines_of(path: &Path, id: &str) -> Vec<Value> {
    until("the end of a request in the audit log", || {
        let all = audited(path);
        let own: Vec<Value> = all.into_iter().filter(|line| line["auditID"] == id).collect();
        own.iter().any(|line| line["stage"] == "ResponseComplete").then_some(own)
    })
}

#[test]
fn each_request_is_written_down() {
    let scratch = Scratch::new("audit");
    let path = PathBuf::from(scratch.path()).join("audit.log");
    let server = Server::start(&["--audit-log", path.to_str().unwrap()]);
    let client = server.client();
    let id = |headers: &[(String, String)]| {
        headers.iter().find(|(name, _)| name == "audit-id").map(|(_, value)| value.clone()).unwrap()
    };
    let stages = |lines: &[Value]| -> Vec<String> {
        lines.iter().map(|line| line["stage"].as_str().unwrap().to_owned()).collect()
    };

    let created = client.send("POST", MAPS, &map("m"));
    let lines = lines_of(&path, created.header("audit-id").unwrap());
    assert_eq!(stages(&lines), ["RequestReceived", "ResponseComplete"]);
    let (first, last) = (&lines[0], &lines[1]);
    assert_eq!((&first["verb"], &first["requestURI"]), (&json!("create"), &json!(MAPS)));
    assert_eq!(first["user"]["username"], "system:anonymous");
    assert_eq!(first["sourceIPs"], json!(["127.0.0.1"]));
    assert_eq!(first["objectRef"], json!({"resource": "configmaps", "namespace": "o", "apiVersion": "v1"}));
    assert_eq!((first.get("responseStatus"), &last["responseStatus"]["code"]), (None, &json!(201)));
    let latency: f64 = last["annotations"]["revcast/latency-seconds"].as_str().unwrap().parse().unwrap();
    assert!(latency > 0.0 && latency < 20.0);

    let got = client.request("GET", &format!("{MAPS}/m?pretty=1"), &[("User-Agent", "a \"b\" c")], b"");
    let lines = lines_of(&path, got.header("audit-id").unwrap());
    assert_eq!((&lines[1]["verb"], &lines[1]["objectRef"]["name"]), (&json!("get"), &json!("m")));
    assert_eq!(lines[1]["requestURI"], format!("{MAPS}/m?pretty=1"));
    assert_eq!(lines[1]["userAgent"], "a \"b\" c");

    let refused = client.get("/api/v1/namespaces/o/configmaps?labelSelector=%3D%3D");
    assert_eq!(refused.status, 400);
    let lines = lines_of(&path, refused.header("audit-id").unwrap());
    assert_eq!(lines[1]["responseStatus"]["code"], 400);

    let mut watch = client.watch(&format!("{WATCH}&timeoutSeconds=1")).unwrap();
    let watched = id(watch.headers());
    assert!(watch.rest().is_empty());
    let lines = lines_of(&path, &watched);
    assert_eq!(stages(&lines), ["RequestReceived", "ResponseStarted", "ResponseComplete"]);
    assert_eq!(
        (&lines[2]["verb"], &lines[2]["annotations"]["revcast/ended"]),
        (&json!("watch"), &json!("deadline"))
    );

    let gone = client.watch(WATCH).unwrap();
    let left = id(gone.headers());
    drop(gone);
    assert_eq!(lines_of(&path, &left)[2]["annotations"]["revcast/ended"], "closed");

    // Health checks and reads of the metrics are not logged.
    assert_eq!((client.get("/readyz").status, server.admin_client().get("/metrics").status), (200, 200));
    let open = client.watch(WATCH).unwrap();
    let drained = id(open.headers());
    // Before the file is renamed: the head of a reply is sent before its line is queued.
    until("the start of the watch in the audit log", || {
        let own = audited(&path).into_iter().filter(|line| line["auditID"] == drained.as_str()).count();
        (own == 2).then_some(())
    });
    let all = audited(&path);
    assert!(!all.iter().any(|line| line["requestURI"].as_str().unwrap().contains("readyz")));
    assert!(!all.iter().any(|line| line["requestURI"].as_str().unwrap().contains("metrics")));

    // The file is renamed, as log rotation does, and the next lines go to a new one.
    let old = path.with_extension("1");
    std::fs::rename(&path, &old).unwrap();
    let hangup = Command::new("kill").args(["-HUP", &server.pid().to_string()]).status().unwrap();
    assert!(hangup.success());
    until("the new file", || path.exists().then_some(()));
    let behind = client.get(&format!("{MAPS}/m"));
    let lines = lines_of(&path, behind.header("audit-id").unwrap());
    assert_eq!(lines.len(), 2);
    assert_eq!(server.terminate(), Some(0));
    let [ended] = &lines_of(&path, &drained)[..] else { panic!("one line in the new file") };
    assert_eq!(
        (&ended["stage"], &ended["annotations"]["revcast/ended"]),
        (&json!("ResponseComplete"), &json!("drained"))
    );
    assert_eq!(audited(&old).iter().filter(|line| line["auditID"] == drained.as_str()).count(), 2);
    drop(open);
}

/// A known user is in the log even when refused, and so is an operator.
#[test]
fn who_is_refused_is_written_down_by_name() {
    let scratch = Scratch::new("audit-who");
    let at = |name: &str| PathBuf::from(scratch.path()).join(name);
    let path = at("audit.log");
    std::fs::write(at("tokens.csv"), "t0ken,jane,1,\"readers\"\n").unwrap();
    std::fs::write(
        at("rules.toml"),
        "[[rule]]\nusers = [\"jane\"]\nverbs = [\"post\"]\npaths = [\"/compact\"]\n",
    )
    .unwrap();
    let server = Server::start(&[
        "--audit-log",
        path.to_str().unwrap(),
        "--token-auth-file",
        at("tokens.csv").to_str().unwrap(),
        "--authorization-rules",
        at("rules.toml").to_str().unwrap(),
    ]);
    let token = [("Authorization", "Bearer t0ken")];
    let by_jane = server.client().request("DELETE", &format!("{MAPS}/m"), &token, b"");
    let by_nobody = server.client().request("DELETE", &format!("{MAPS}/m"), &[], b"");
    let compact = server.admin_client().request("POST", "/compact?revision=1", &token, b"");
    // She is allowed; a new store has nothing that old.
    let done = if Store::chosen() == Store::Embedded { 409 } else { 200 };
    assert_eq!((by_jane.status, by_nobody.status, compact.status), (403, 401, done), "{}", compact.text());
    for (reply, name, groups) in [
        (&by_jane, "jane", json!(["readers", "system:authenticated"])),
        (&by_nobody, "system:anonymous", Value::Null),
        (&compact, "jane", json!(["readers", "system:authenticated"])),
    ] {
        let lines = lines_of(&path, reply.header("audit-id").unwrap());
        for line in &lines[..2] {
            let user = &line["user"];
            assert_eq!((&user["username"], &user["groups"]), (&json!(name), &groups), "{lines:?}");
        }
    }
}

/// An audit log that is not written, and anonymous clients that send endless requests with the largest heads:
/// authenticated users are logged nevertheless, memory stays constant, and each line is counted as written or dropped.
#[test]
fn strangers_cannot_crowd_others_out_of_the_audit_log() {
    const STRANGERS: u32 = 6000;
    const KNOWN: u32 = 200;
    let scratch = Scratch::new("audit-crowd");
    let at = |name: &str| format!("{}/{name}", scratch.path());
    std::fs::write(at("tokens.csv"), "t0ken,jane,1,\"readers\"\n").unwrap();
    assert!(Command::new("mkfifo").arg(at("audit")).status().unwrap().success());
    // Open for reading and writing, so that opening does not block.
    let mut reader = std::fs::File::options().read(true).write(true).open(at("audit")).unwrap();
    let server = Server::start(&["--audit-log", &at("audit"), "--token-auth-file", &at("tokens.csv")]);
    let before = server.resident_kb();
    let mut stranger = server.client().connect().unwrap();
    let long = "x".repeat(7000);
    let request = format!("GET {MAPS}?x={long} HTTP/1.1\r\nHost: h\r\nUser-Agent: {long}\r\n\r\n");
    for _ in 0..STRANGERS {
        stranger.write_raw(request.as_bytes()).unwrap();
        assert_eq!(stranger.read_response(true).unwrap().status, 401);
    }
    let grown = server.resident_kb().saturating_sub(before);
    assert!(grown < 40_000, "lines that wait take {grown} kB");
    let dropped = || sample(&metrics(&server), "revcast_audit_lines_dropped_total");
    // The last line of a request is written after its answer was sent.
    let mut lost = dropped();
    loop {
        std::thread::sleep(Duration::from_millis(100));
        let now = dropped();
        if now - lost < 0.5 {
            break;
        }
        lost = now;
    }
    assert!(lost > 0.0, "strangers fill their share");
    let mut jane = server.client().connect().unwrap();
    for number in 0..KNOWN {
        let target = format!("{MAPS}?jane={number}");
        let token = [("Authorization", "Bearer t0ken")];
        assert_eq!(jane.request("GET", &target, &token, b"").unwrap().status, 200);
    }
    assert!((dropped() - lost).abs() < 0.5, "none of hers is lost");
    // The reader of the lines finds both of each of her requests, with her name.
    drop((stranger, jane));
    let taker = std::thread::spawn(move || {
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(&mut reader));
        let mut hers = Vec::new();
        while hers.len() < 2 * KNOWN as usize {
            let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            assert!(
                line.to_string().len() < 8000 && line["requestURI"].as_str().unwrap().len() < 1100,
                "{line}"
            );
            if line["user"]["username"] == "jane" {
                hers.push((line["requestURI"].as_str().unwrap().to_owned(), line["stage"].clone()));
            } else {
                for (name, rest) in [("requestURI", "xx...TRUNCATED"), ("userAgent", "xx...TRUNCATED")] {
                    assert!(line[name].as_str().unwrap().ends_with(rest), "{line}");
                }
            }
        }
        hers
    });
    let hers = taker.join().unwrap();
    for number in 0..KNOWN {
        let of_one: Vec<&Value> = hers
            .iter()
            .filter(|(uri, _)| *uri == format!("{MAPS}?jane={number}"))
            .map(|(_, stage)| stage)
            .collect();
        assert_eq!(of_one, [&json!("RequestReceived"), &json!("ResponseComplete")], "{number}");
    }
    let all = f64::from(2 * (STRANGERS + KNOWN));
    until("the count of each line", || {
        let (written, lost) = (sample(&metrics(&server), "revcast_audit_lines_total"), dropped());
        ((written + lost - all).abs() < 0.5).then_some(())
    });
}

fn metrics(server: &Server) -> String {
    let reply = server.admin_client().request("GET", "/metrics", &[("Authorization", "Bearer t0ken")], b"");
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.text()
}

#[test]
fn nothing_in_a_log_turns_a_line() {
    let scratch = Scratch::new("audit-shown");
    let path = PathBuf::from(scratch.path()).join("audit.log");
    let server = Server::start(&["--audit-log", path.to_str().unwrap()]);
    let agent = "evil\u{202e}txt\u{2066}\u{200f}\u{61c}\u{2028}";
    let target = format!("{MAPS}/a%E2%81%A7b%E2%80%8Ec");
    let reply = server.client().request("GET", &target, &[("User-Agent", agent)], b"");
    let lines = lines_of(&path, reply.header("audit-id").unwrap());
    assert_eq!(lines[0]["userAgent"], agent, "it is read back as it was");
    assert_eq!(lines[0]["objectRef"]["name"], "a\u{2067}b\u{200e}c");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.is_ascii() && text.contains("evil\\u202etxt\\u2066\\u200f\\u061c\\u2028"), "{text}");
}

#[test]
fn an_audit_log_that_cannot_be_opened_is_told_and_ends_it() {
    let output = revcast_tests::server::command()
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--admin-listen",
            "none",
            "--audit-log",
            "/nonexistent/audit",
        ])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("audit-log /nonexistent/audit") && said.contains("name a file"), "{said}");
}

#[test]
fn the_log_is_read_by_machines() {
    let mut child = revcast_tests::server::command()
        .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "none", "--log-format", "json"])
        // A process that is told to stop reports it.
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("serving ") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut out, &mut line).unwrap() > 0, "it ended");
    }
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let closing =
        lines.iter().find(|line| line["message"].as_str().unwrap().starts_with("closing")).expect(&said);
    assert_eq!((&closing["level"], &closing["thread"]), (&json!("info"), &json!("signals")));
    let time = closing["time"].as_str().unwrap();
    assert!(time.len() == 27 && time.ends_with('Z') && time.as_bytes()[10] == b'T', "{time}");
}

/// Prometheus' tool, if it is installed; otherwise prints a notice.
fn promtool() -> Option<PathBuf> {
    let own = std::env::var_os("REVCAST_PROMTOOL").map(PathBuf::from);
    let usual = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target");
    let target = std::env::current_exe().ok().and_then(|test| test.ancestors().nth(3).map(Path::to_path_buf));
    let installed = [target.unwrap_or_default(), usual].map(|target| target.join("prometheus/promtool"));
    let found = own
        .into_iter()
        .chain(installed)
        .chain([PathBuf::from("/usr/bin/promtool")])
        .find(|path| path.is_file());
    if found.is_none() {
        // Not captured by the test harness.
        let _ = writeln!(
            std::io::stderr(),
            "!!! SKIPPED: promtool is not here, metrics and alert rules were not checked; cargo xtask promtool installs it"
        );
    }
    found
}

fn passes(command: &mut Command, input: &[u8]) {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap()).join("\n");
    assert!(output.status.success(), "{command:?}: {said}");
    println!("{said}");
}

#[test]
fn prometheus_own_tool_has_nothing_to_say() {
    let Some(promtool) = promtool() else { return };
    let server = Server::start(&["--shards", "2"]);
    let client = server.client();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..200 {
                assert_eq!(client.send("POST", MAPS, &map(&format!("m{number}"))).status, 201);
            }
        });
        let _watches: Vec<Watch> = (0..20).map(|_| client.watch(WATCH).unwrap()).collect();
        for _ in 0..5 {
            let page = server.admin_client().get("/metrics");
            assert_eq!(page.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
            passes(Command::new(&promtool).args(["check", "metrics"]), &page.body);
        }
    });
    let rules = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../server/ops/alerts.yaml");
    passes(Command::new(&promtool).args(["check", "rules"]).arg(rules), b"");
    let open =
        server.admin_client().request("GET", "/metrics", &[("Accept", "application/openmetrics-text")], b"");
    assert!(open.text().ends_with("# EOF\n"));
}
