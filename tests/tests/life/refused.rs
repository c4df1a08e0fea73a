//! Seccomp: a filter that refuses io_uring gives one line and exit code 78; a server runs under the shipped profile.

use std::io::Write;
use std::process::{Command, Stdio};

use revcast_tests::http2::Connection;
use revcast_tests::server::{Server, binary, command};
use seccompiler::{BpfProgram, apply_filter, compile_from_json};
use serde_json::{Value, json};

/// EX_CONFIG of sysexits.h.
const UNFIT: i32 = 78;
const PERM: u32 = 1;
const NOSYS: u32 = 38;

/// A filter that allows everything, or refuses everything, except these calls.
fn filter(calls: &[&str], otherwise: Value, then: Value) -> BpfProgram {
    let rules: Vec<Value> = calls.iter().map(|call| json!({"syscall": call})).collect();
    let text =
        json!({"all": {"mismatch_action": otherwise, "match_action": then, "filter": rules}}).to_string();
    let arch = std::env::consts::ARCH.try_into().unwrap();
    compile_from_json(text.as_bytes(), arch).unwrap().remove("all").unwrap()
}

/// Runs something in a new thread under a filter, which the thread's children inherit.
fn under<T: Send>(filter: &BpfProgram, act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            apply_filter(filter).unwrap();
            act()
        });
        thread.join().unwrap()
    })
}

#[test]
fn a_refused_io_uring_is_one_line_and_its_own_exit_code() {
    let setup = "io_uring_setup";
    for (calls, errno) in [
        (vec![setup, "io_uring_enter", "io_uring_register"], PERM),
        (vec![setup, "io_uring_enter", "io_uring_register"], NOSYS),
        (vec![setup], PERM),
        (vec!["io_uring_enter"], PERM),
        (vec!["io_uring_enter"], NOSYS),
        (vec!["io_uring_register"], PERM),
        (vec!["io_uring_register"], NOSYS),
    ] {
        let filter = filter(&calls, json!("allow"), json!({"errno": errno}));
        let run = |what: &str| {
            let mut revcast = command();
            revcast.args([what, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
            under(&filter, || revcast.stdin(Stdio::null()).output().unwrap())
        };
        let served = run("serve");
        let said = String::from_utf8(served.stderr).unwrap();
        let case = format!("{calls:?} errno {errno}: {said:?}");
        assert_eq!(served.status.code(), Some(UNFIT), "{case}");
        assert!(served.stdout.is_empty(), "{case}");
        assert_eq!(said.lines().count(), 1, "{case}");
        assert!(said.starts_with("revcast: io_uring: ") && said.ends_with('\n'), "{case}");
        assert!(said.contains("seccomp"), "it says whose fault it is: {case}");
        assert!(said.contains("; "), "and the remedy: {case}");
        let doctor = run("doctor");
        let findings = String::from_utf8(doctor.stdout).unwrap();
        assert_eq!(doctor.status.code(), Some(1), "{findings}");
        assert!(findings.lines().any(|line| line.starts_with("FAIL  io_uring: ")), "{findings}");
        assert!(findings.contains("seccomp: a filter is active"), "{findings}");
    }
}

/// The profile as a filter of this machine. Calls of other architectures, and calls that this crate does not know, are
/// left out: fewer are allowed then.
/// out: fewer are allowed then.
fn profile() -> BpfProgram {
    let text = include_str!("../../../server/ops/seccomp.json");
    let profile: Value = serde_json::from_str(text).unwrap();
    let names = profile["syscalls"][0]["names"].as_array().unwrap();
    let arch: seccompiler::TargetArch = std::env::consts::ARCH.try_into().unwrap();
    let is_known = |name: &&str| {
        let text = json!({"all": {"mismatch_action": "allow", "match_action": "trap", "filter": [{"syscall": name}]}});
        compile_from_json(text.to_string().as_bytes(), arch).is_ok()
    };
    let known: Vec<&str> = names.iter().map(|name| name.as_str().unwrap()).filter(is_known).collect();
    assert!(known.len() * 10 > names.len() * 8, "{} of {} are known", known.len(), names.len());
    filter(&known, json!({"errno": PERM}), json!("allow"))
}

#[test]
fn a_server_serves_under_the_profile_that_is_shipped() {
    let profile = profile();
    let scratch = revcast_tests::server::Scratch::new("profile");
    // Built before: cargo needs more than the profile allows.
    binary();
    let mut server = under(&profile, || Server::start(&["--shards", "2", "--drain-grace", "2s"]));
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    assert!(status.contains("Seccomp:\t2"), "the filter holds");
    let client = server.client();
    let path = "/api/v1/namespaces/p/configmaps";
    let mut watch = client.watch(&format!("{path}?watch=1")).unwrap();
    for name in ["a", "b"] {
        assert_eq!(client.send("POST", path, &json!({"metadata": {"name": name}})).status, 201);
        assert_eq!(watch.next_event().1["metadata"]["name"], name);
    }
    assert!(server.metric("revcast_watchers") == 1);
    // Nor does it refuse what events for many streams need.
    // Four of the connections are on the same shard.
    let mut many: Vec<_> = (0..12)
        .map(|_| {
            let mut connection = Connection::open(&server.address);
            let target = format!("{path}?watch=1&labelSelector=many");
            let streams: Vec<u32> = (0..10).map(|_| connection.request("GET", &target, &[], true)).collect();
            assert!(streams.iter().all(|&stream| connection.head(stream).status == 200));
            (connection, streams)
        })
        .collect();
    server.wait_for_metric("revcast_watchers", 121);
    let object = json!({"metadata": {"name": "c", "labels": {"many": ""}}, "data": {"k": "x".repeat(3_000)}});
    assert_eq!(client.send("POST", path, &object).status, 201);
    for (connection, streams) in &mut many {
        assert!(streams.iter().all(|&stream| connection.event(stream).1["data"] == object["data"]));
    }
    assert!(server.shares_pages());
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.await_end(std::time::Duration::from_secs(10)), 0);

    // With a data directory, and as Docker would ask.
    let store = ["--data-dir", scratch.path()];
    let server = under(&profile, || Server::start(&store));
    assert_eq!(server.client().send("POST", path, &json!({"metadata": {"name": "kept"}})).status, 201);
    let url = format!("http://{}/readyz", server.admin);
    let probe = under(&profile, || command().args(["probe", &url]).output().unwrap());
    assert_eq!((probe.status.code(), probe.stdout), (Some(0), b"ok\n".to_vec()));
    assert_eq!(server.terminate(), Some(0));
    let gone = command().args(["probe", &url]).output().unwrap();
    assert_eq!(gone.status.code(), Some(1));
    let said = String::from_utf8(gone.stderr).unwrap();
    assert!(said.starts_with("revcast: ") && said.lines().count() == 1, "{said}");

    // The filter is effective: a call that is not on its list is refused.
    let refused =
        under(&profile, || Command::new("unshare").args(["--user", "true"]).stderr(Stdio::null()).status());
    match refused {
        Ok(status) => assert!(!status.success(), "unshare(2) is not on the list"),
        Err(_) => {
            let _ = writeln!(std::io::stderr(), "!!! SKIPPED: there is no unshare(1) here");
        }
    }
}
