//! What cannot be taken over is named, before anything is disturbed; and where there is nothing, a server starts as always.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use revcast_tests::etcd::{Etcd, Options, Release};
use revcast_tests::port::Port;
use revcast_tests::server::{Scratch, Server, binary, command, embedded_only};
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;

use super::raw::Raw;
use super::serve;

const GRACE: Duration = Duration::from_secs(1);
const PATH: &str = "/api/v1/namespaces/a/configmaps";

/// Another user than this one: `nobody`, where there is one.
const OTHER_USER: u32 = 65_534;

/// What a server says that would take over and does not start, after its exit code is checked.
fn refused(options: &[&str]) -> String {
    refused_by(command(), options)
}

fn refused_by(mut command: Command, options: &[&str]) -> String {
    let output = command
        .args(["--take-over", "--log-level", "error"])
        .args(options)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("revcast: ")).collect();
    let [line] = lines[..] else { panic!("one line: {text}") };
    line.to_owned()
}

fn at(server: &Server) -> [&str; 4] {
    ["--listen", &server.address, "--admin-listen", &server.admin]
}

#[test]
fn an_embedded_store_is_not_taken_over() {
    if !embedded_only("it is about the embedded store") {
        return;
    }
    let scratch = Scratch::new("take-over");
    let dir = format!("{}/data", scratch.path());
    for (options, name) in [
        (&["--data-dir", &dir][..], format!("in the data directory {dir}, which it has locked")),
        (&[], "in its memory".to_owned()),
    ] {
        let server = Server::start(options);
        let mut watch = server.client().watch(&format!("{PATH}?watch=1")).unwrap();
        // As it is, and over an etcd.
        for others in [options, &["--etcd-endpoints", "http://127.0.0.1:1"]] {
            let line = refused(&[&at(&server)[..], others].concat());
            let begins = format!("revcast: the server at {} (process {}) ", server.address, server.pid());
            assert!(line.starts_with(&begins) && line.contains(&name), "{line}");
            assert!(line.contains("only a server over etcd can be taken over; stop it"), "{line}");
        }
        let why = {
            let raw = Raw::connect(&server.address);
            raw.say("listeners");
            raw.refusal()
        };
        assert!(why.contains(&name), "{why}");
        assert!(watch.is_quiet_for(Duration::from_millis(100)), "nothing is disturbed");
        assert_eq!(server.client().get("/readyz").status, 200);
        assert_eq!(server.terminate(), Some(0));
    }
}

#[test]
fn only_the_same_keys_of_the_same_cluster_are() {
    let etcds = [(); 2].map(|()| Etcd::start(Release::V3_5, Options::default()));
    let server = serve(&etcds[0], GRACE, &[]);
    let mut watch = server.client().watch(&format!("{PATH}?watch=1")).unwrap();
    let endpoints = [etcds[0].endpoint(), etcds[1].endpoint()];
    for (options, part) in [
        (&["--etcd-endpoints", &endpoints[0], "--etcd-prefix", "/other"][..], "give both one --etcd-prefix"),
        (&["--etcd-endpoints", &endpoints[1]], "follows another etcd cluster"),
        (&[], "give this one the same --etcd-endpoints"),
    ] {
        let line = refused(&[&at(&server)[..], options].concat());
        assert!(line.contains(&server.address) && line.contains(part), "{line}");
    }
    assert!(watch.is_quiet_for(Duration::from_millis(100)), "nothing is disturbed");
    assert_eq!(server.client().get("/readyz").status, 200);
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn where_nobody_is_it_starts_as_always() {
    let etcd = Etcd::start(Release::V3_5, Options::default());
    let first = serve(&etcd, GRACE, &[]);
    let (address, admin) = (first.address.clone(), first.admin.clone());
    first.kill();
    let again = serve(&etcd, GRACE, &["--listen", &address, "--admin-listen", &admin, "--take-over"]);
    assert_eq!(again.client().get("/readyz").status, 200);
    assert_eq!(again.terminate(), Some(0));
    // Something else has the address.
    let held = TcpListener::bind(&address).unwrap();
    let endpoint = etcd.endpoint();
    let line = refused(&["--listen", &address, "--admin-listen", &admin, "--etcd-endpoints", &endpoint]);
    assert!(line.contains(&format!("cannot listen on {address}")), "{line}");
    assert!(line.contains("no revcast of this user answered there that could be taken over"), "{line}");
    drop(held);
}

/// Does something as another user. `None`, and a word about it: this process may not.
fn as_another_user<T: Send>(act: impl FnOnce() -> T + Send) -> Option<T> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("!!! SKIPPED: not root: what another user may do is not tested");
        return None;
    }
    let user = Uid::from_raw(OTHER_USER);
    let change = || {
        // Of this thread alone.
        set_thread_res_uid(user, user, user).unwrap();
        act()
    };
    std::thread::scope(|scope| scope.spawn(change).join().ok())
}

#[test]
fn another_user_does_not() {
    let etcd = Etcd::start(Release::V3_5, Options::default());
    let server = serve(&etcd, GRACE, &[]);
    let mut watch = server.client().watch(&format!("{PATH}?watch=1")).unwrap();
    let ours = rustix::process::geteuid().as_raw();
    // By the name of this server, which it finds out.
    let Some(raw) = as_another_user(|| Raw::connect_to(ours, &server.address)) else { return };
    assert!(raw.hear().0.is_null(), "the connection is closed without an answer");
    // As a server, which looks for one of its own user, and has no right to the address.
    let scratch = Scratch::new("take-over-user");
    let program = format!("{}/revcast", scratch.path());
    std::fs::copy(binary(), &program).unwrap();
    let everyone = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(scratch.path(), everyone).unwrap();
    let mut command = Command::new(program);
    command.env_clear().uid(OTHER_USER);
    let endpoint = etcd.endpoint();
    let line = refused_by(command, &[&at(&server)[..], &["--etcd-endpoints", &endpoint]].concat());
    assert!(line.contains(&format!("cannot listen on {}", server.address)), "{line}");
    assert!(line.contains("no revcast of this user answered there that could be taken over"), "{line}");
    assert!(watch.is_quiet_for(Duration::from_millis(100)), "nothing is disturbed");
    // And its own user still may.
    let new = super::succeed(&etcd, &server, GRACE, &[]);
    assert_eq!(new.client().get("/readyz").status, 200);
}

#[test]
fn a_name_that_another_user_has_taken_is_not_trusted() {
    let etcd = Etcd::start(Release::V3_5, Options::default());
    let (endpoint, port) = (etcd.endpoint(), Port::free());
    let address = format!("127.0.0.1:{}", port.number());
    let ours = rustix::process::geteuid().as_raw();
    let Some(_taken) = as_another_user(|| Raw::listen_as(ours, &address)) else { return };
    let options = ["--listen", &address, "--etcd-endpoints", &endpoint];
    let line = refused(&[&options[..], &["--admin-listen", "127.0.0.1:0"]].concat());
    assert!(line.contains(&format!("the other process is of user {OTHER_USER}")), "{line}");
    // Without it a server starts, and cannot be taken over.
    let server = serve(&etcd, GRACE, &["--listen", &address]);
    assert_eq!(server.client().get("/readyz").status, 200);
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn a_process_of_other_rules_is_told_so() {
    let etcd = Etcd::start(Release::V3_5, Options::default());
    let server = serve(&etcd, GRACE, &[]);
    let raw = Raw::connect(&server.address);
    raw.say("who");
    let (says, _) = raw.hear();
    assert_eq!(says["process"]["process"], server.pid());
    assert_eq!(says["process"]["store"]["etcd"], "/registry");
    raw.send(r#"{"protocol": 2, "says": "who"}"#);
    let why = raw.refusal();
    assert!(
        why.contains("follows version 2 of the rules for a take-over, this one version 1: stop"),
        "{why}"
    );
    assert!(raw.hear().0.is_null(), "the connection is over");
    for odd in ["", "{}", "\u{0}", "[[[[[[[[", r#"{"protocol": 1, "says": {"ready": 1}}"#] {
        let raw = Raw::connect(&server.address);
        // An empty text is the end.
        raw.send(odd);
        if !odd.is_empty() {
            assert!(raw.refusal().starts_with("no message: "), "{odd}");
        }
        assert!(raw.hear().0.is_null());
    }
    for early in ["ready", "leaving"] {
        let raw = Raw::connect(&server.address);
        raw.say(early);
        assert_eq!(raw.refusal(), "it did not ask for the listeners");
    }
    assert_eq!(server.client().get("/readyz").status, 200);
    assert_eq!(server.terminate(), Some(0));
}
