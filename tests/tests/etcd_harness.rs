//! The etcds of the tests do what their names say. Checked with etcdctl alone, without a server of ours.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::time::{Duration, Instant};

use revcast_tests::certs::Authority;
use revcast_tests::etcd::{
    Access, Account, Change, Cluster, Deleted, Etcd, Op, Options, Record, Release, Tls, Token,
};
use revcast_tests::history::Log;
use revcast_tests::port::Port;
use revcast_tests::server::Scratch;

const SHORT: Duration = Duration::from_millis(700);

fn put(revision: u64, key: &str, value: &str) -> Record {
    Record { mod_revision: revision, key: key.to_owned(), change: Change::Put(value.into()) }
}

fn delete(revision: u64, key: &str) -> Record {
    Record { mod_revision: revision, key: key.to_owned(), change: Change::Delete }
}

fn value(etcd: &Etcd, key: &str) -> Option<Vec<u8>> {
    etcd.control().get(key).unwrap().map(|entry| entry.value)
}

/// Retries until it succeeds, as a client would: a member that was frozen must catch up first.
fn eventually<T>(what: impl Fn() -> Result<T, String>) -> T {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match what() {
            Ok(value) => return value,
            Err(problem) => assert!(Instant::now() < deadline, "{problem}"),
        }
    }
}

#[test]
fn both_releases_are_found_and_told_apart() {
    for (release, other) in [(Release::V3_4, Release::V3_5), (Release::V3_5, Release::V3_4)] {
        let folder = release.folder();
        assert_eq!(release.check(folder), Ok(()));
        assert!(other.check(folder).is_err(), "{} is no {}", release.text(), other.text());
    }
}

#[test]
fn keys_and_their_history() {
    for release in Release::ALL {
        let etcd = Etcd::start(release, Options::default());
        let control = etcd.control();
        assert_eq!(control.revision(), Ok(1));
        assert_eq!(control.history("", 1), Ok(vec![]));
        let odd: Vec<u8> = (0..=255).cycle().take(300_000).collect();
        assert_eq!(control.put("/a/1", "x"), Ok(2));
        assert_eq!(control.put("/a/2", &odd), Ok(3));
        assert_eq!(control.put("/b/1", ""), Ok(4));
        assert_eq!(
            control.txn(&[Op::Put("/a/3", b"\"q\" \\"), Op::Delete("/a/1"), Op::Put("/b/2", b"y")]),
            Ok(5)
        );
        assert_eq!(control.del("/nothing"), Ok(Deleted { revision: 5, keys: 0 }));
        assert_eq!(control.del_prefix("/b/"), Ok(Deleted { revision: 6, keys: 2 }));
        assert_eq!(control.put("-w", "dashes"), Ok(7));

        let entry = control.get("/a/2").unwrap().unwrap();
        assert_eq!((entry.create_revision, entry.mod_revision, entry.version), (3, 3, 1));
        assert_eq!(entry.value, odd);
        assert_eq!(control.get("/a/1"), Ok(None));
        let list = control.list("/a/", None).unwrap();
        assert_eq!(list.revision, 7);
        assert_eq!(list.entries.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), ["/a/2", "/a/3"]);
        let keys = control.list("", Some(4)).unwrap().entries.into_iter().map(|entry| entry.key);
        assert_eq!(keys.collect::<Vec<_>>(), ["/a/1", "/a/2", "/b/1"]);
        assert!(control.list("", Some(8)).is_err_and(|problem| problem.contains("future")));

        let odd = Record { mod_revision: 3, key: "/a/2".into(), change: Change::Put(odd) };
        let of_a = [put(2, "/a/1", "x"), odd, put(5, "/a/3", "\"q\" \\"), delete(5, "/a/1")];
        let mut told = control.history("/a/", 1).unwrap();
        // Inside a revision there is no order.
        told.sort_by_key(|record| (record.mod_revision, record.change == Change::Delete));
        assert_eq!(told, of_a);
        assert_eq!(control.history("", 7), Ok(vec![put(7, "-w", "dashes")]));
        assert_eq!(control.history("", 8), Ok(vec![]));
        // etcd's history is a log, from the start and from any state on.
        let whole = Log::new(1, &[], control.history("", 1).unwrap()).unwrap();
        let state = control.list("", Some(4)).unwrap().entries;
        let later = Log::new(4, &state, control.history("", 5).unwrap()).unwrap();
        assert_eq!((whole.since(), whole.last(), later.since(), later.last()), (1, 7, 4, 7));

        // A follower from the start has what is compacted.
        let mut follower = control.follow(1);
        assert_eq!(follower.until(7, Duration::from_secs(10)).unwrap().len(), 9);
        control.compact(6).unwrap();
        control.defrag().unwrap();
        let forgotten = control.history("", 2).unwrap_err();
        assert!(forgotten.contains("compacted"), "{forgotten}");
        assert_eq!(control.history("", 7), Ok(vec![put(7, "-w", "dashes")]));
        control.put("/a/4", "z").unwrap();
        assert_eq!(follower.until(8, Duration::from_secs(10)).unwrap().len(), 10);

        let status = control.status().unwrap().remove(0);
        assert_eq!((status.endpoint.as_str(), status.revision), (etcd.endpoint().as_str(), 8));
        assert_eq!(status.leader_id, status.member_id);
        assert!(status.file_bytes > 0 && status.term > 0);
        assert!(etcd.metrics().contains("\netcd_server_has_leader 1\n"));
        assert_eq!(etcd.metric("etcd_debugging_mvcc_current_revision"), Some(8.0));
    }
}

#[test]
fn killed_stopped_and_started_again() {
    for release in Release::ALL {
        let mut etcd = Etcd::start(release, Options::default());
        let (endpoint, pid, id) = (etcd.endpoint(), etcd.pid(), etcd.control().cluster_id().unwrap());
        assert!(Path::new(&format!("/proc/{pid}")).exists());
        etcd.control().put("a", "1").unwrap();
        etcd.kill();
        assert!(!etcd.is_running() && !Path::new(&format!("/proc/{pid}")).exists());
        assert!(etcd.control().patient_for(SHORT).get("a").is_err(), "no server is there");
        etcd.restart();
        assert_eq!(value(&etcd, "a").as_deref(), Some(&b"1"[..]), "the data stayed");
        etcd.stop();
        assert!(etcd.control().patient_for(SHORT).get("a").is_err());
        etcd.restart();
        let third = etcd.pid();
        etcd.restart();
        assert_ne!(etcd.pid(), third, "one that runs is ended first");
        assert_eq!((etcd.endpoint(), etcd.control().cluster_id()), (endpoint, Ok(id)));
        assert_eq!(etcd.control().put("a", "2"), Ok(3));
        let (folder, pid) = (etcd.folder().to_path_buf(), etcd.pid());
        drop(etcd);
        assert!(!folder.exists() && !Path::new(&format!("/proc/{pid}")).exists(), "nothing is left");
    }
}

#[test]
fn paused() {
    let mut etcd = Etcd::start(Release::V3_4, Options::default());
    etcd.control().put("a", "1").unwrap();
    let pid = etcd.pid();
    etcd.pause();
    let began = Instant::now();
    assert!(etcd.control().patient_for(SHORT).get("a").is_err());
    assert!(began.elapsed() >= SHORT, "it was waited for");
    assert!(etcd.is_running() && etcd.metric("etcd_server_has_leader").is_none());
    etcd.resume();
    assert_eq!(eventually(|| etcd.control().get("a")).unwrap().value, b"1");
    assert_eq!(etcd.pid(), pid);
    // A paused one can be ended both ways.
    etcd.pause();
    etcd.stop();
    etcd.restart();
    etcd.pause();
    etcd.kill();
    etcd.restart();
    assert_eq!(value(&etcd, "a").as_deref(), Some(&b"1"[..]));
}

#[test]
fn back_to_a_snapshot() {
    for release in Release::ALL {
        let mut etcd = Etcd::start(release, Options::default());
        let (endpoint, id) = (etcd.endpoint(), etcd.control().cluster_id().unwrap());
        etcd.control().put("a", "old").unwrap();
        let snapshot = etcd.folder().join("snapshot");
        etcd.control().snapshot_save(&snapshot).unwrap();
        etcd.control().put("a", "new").unwrap();
        assert_eq!(etcd.control().put("b", "new"), Ok(4));
        etcd.restore(&snapshot, Token::Same);
        assert_eq!(etcd.control().cluster_id(), Ok(id), "only the revision tells");
        assert_eq!(etcd.control().revision(), Ok(2));
        assert_eq!((value(&etcd, "a"), value(&etcd, "b")), (Some(b"old".to_vec()), None));
        assert_eq!(etcd.control().put("c", "other"), Ok(3), "a revision is used a second time");
        etcd.restore(&snapshot, Token::Other);
        assert_ne!(etcd.control().cluster_id(), Ok(id));
        assert_eq!((etcd.control().revision(), etcd.endpoint()), (Ok(2), endpoint));
    }
}

#[test]
fn another_store_in_its_place() {
    for release in Release::ALL {
        let mut etcd = Etcd::start(release, Options::default());
        let (endpoint, first) = (etcd.endpoint(), etcd.control().cluster_id().unwrap());
        etcd.control().put("a", "1").unwrap();
        etcd.swap();
        let second = etcd.control().cluster_id().unwrap();
        assert_eq!((etcd.endpoint(), etcd.control().revision(), value(&etcd, "a")), (endpoint, Ok(1), None));
        etcd.swap();
        let third = etcd.control().cluster_id().unwrap();
        assert!(first != second && second != third && first != third);
        etcd.restart();
        assert_eq!(etcd.control().cluster_id(), Ok(third), "it keeps its identity");
    }
}

#[test]
fn users() {
    for release in Release::ALL {
        let etcd = Etcd::start(release, Options::default());
        let nobody = etcd.control();
        nobody.put("/a/1", "x").unwrap();
        let reader = Account { name: "reader", password: "r", grants: &[(Access::Read, "/a/")] };
        let writer = Account {
            name: "writer",
            password: "w",
            grants: &[(Access::ReadWrite, "/a/"), (Access::Write, "/b/")],
        };
        let root = nobody.auth_enable("secret", &[reader, writer]).unwrap();
        assert!(nobody.get("/a/1").is_err_and(|problem| problem.contains("user name is empty")));
        assert!(
            nobody
                .as_user("reader", "wrong")
                .get("/a/1")
                .is_err_and(|said| said.contains("authentication failed"))
        );
        let (reader, writer) = (nobody.as_user("reader", "r"), nobody.as_user("writer", "w"));
        let denied =
            |said: Result<u64, String>| said.is_err_and(|problem| problem.contains("permission denied"));
        assert_eq!(reader.get("/a/1").unwrap().unwrap().value, b"x");
        assert!(denied(reader.put("/a/1", "y")) && denied(writer.put("/c/1", "y")));
        assert_eq!((writer.put("/a/1", "y"), writer.put("/b/1", "y")), (Ok(3), Ok(4)));
        assert!(writer.get("/b/1").is_err());
        assert_eq!(root.history("/b/", 1), Ok(vec![put(4, "/b/1", "y")]));
        root.revoke("writer", "/a/").unwrap();
        root.grant("writer", Access::Read, "/b/").unwrap();
        assert!(denied(writer.put("/a/1", "z")));
        root.user_password("writer", "new").unwrap();
        assert!(writer.get("/b/1").is_err(), "the old password");
        let writer = nobody.as_user("writer", "new");
        assert_eq!(writer.get("/b/1").unwrap().map(|entry| entry.mod_revision), Some(4));
        root.user_delete("writer").unwrap();
        assert!(writer.get("/b/1").is_err());
        root.auth_disable().unwrap();
        assert_eq!(nobody.put("/c/1", "z"), Ok(5));
    }
}

#[test]
fn certificates() {
    let folder = Scratch::new("etcd-tls");
    let folder = Path::new(folder.path());
    let authority = Authority::new(folder, "ca");
    let stranger = Authority::new(folder, "stranger");
    for release in Release::ALL {
        let tls = Tls::of(&authority);
        let etcd = Etcd::start(release, Options { tls: Some(tls.clone()), ..Options::default() });
        assert!(etcd.endpoint().starts_with("https://127.0.0.1:"));
        let control = etcd.control();
        assert_eq!(control.put("a", "1"), Ok(2));
        let short = Duration::from_secs(3);
        let (begun, expiring) = (Instant::now(), authority.client_for("short", short));
        let fine = control.with_tls(Tls { client: expiring, ..tls.clone() });
        assert_eq!(fine.get("a").unwrap().unwrap().value, b"1", "not over yet");
        let impatient = control.patient_for(SHORT);
        let refused = |tls: Tls| impatient.with_tls(tls).get("a").is_err();
        assert!(
            refused(Tls { client: stranger.client("etcdctl"), ..tls.clone() }),
            "no CA vouches for it here"
        );
        assert!(refused(Tls { ca: stranger.certificate(), ..tls.clone() }), "its CA does not know etcd");
        assert!(impatient.at(&etcd.endpoint().replace("https", "http")).get("a").is_err(), "no plain text");
        let nowhere = authority.server_named(&["elsewhere.test"]);
        std::thread::sleep((short + Duration::from_secs(1)).saturating_sub(begun.elapsed()));
        assert!(fine.patient_for(SHORT).get("a").is_err(), "over");
        // A renewed server certificate is used for the next connection.
        assert_eq!(nowhere.cert, tls.server.cert);
        assert!(impatient.get("a").is_err(), "it is not here that it was issued for");
        let renewed = authority.server();
        assert_eq!((renewed, control.get("a").map(|entry| entry.is_some())), (tls.server, Ok(true)));
    }
}

#[test]
fn options_reach_it() {
    for release in Release::ALL {
        let chosen = [Port::free(), Port::free()].map(|port| port.number());
        let etcd = Etcd::start(
            release,
            Options {
                auth_token_ttl: Some(Duration::from_secs(7)),
                quota_bytes: Some(1 << 20),
                snapshot_count: Some(10),
                request_bytes_max: Some(100_000),
                progress_interval: Some(Duration::from_millis(200)),
                election_timeout: Some(Duration::from_millis(300)),
                cluster_token: Some("chosen".to_owned()),
                ports: Some(chosen),
                ..Options::default()
            },
        );
        assert_eq!(etcd.endpoint(), format!("http://127.0.0.1:{}", chosen[0]));
        assert_eq!(etcd.address(), format!("127.0.0.1:{}", chosen[0]));
        let control = etcd.control();
        let log = std::fs::read_to_string(etcd.folder().join("m0.log")).unwrap();
        assert!(log.contains(&format!("127.0.0.1:{}", chosen[1])) && log.contains("\"chosen\""), "{log}");
        let large = control.put("a", vec![b'x'; 200_000]).unwrap_err();
        assert!(large.contains("too large"), "{large}");
        let mut written = 0;
        let full = loop {
            match control.put("a", vec![b'x'; 90_000]) {
                Ok(_) => written += 1,
                Err(problem) => break problem,
            }
            assert!(written < 100, "the quota does not end it");
        };
        assert!(full.contains("database space exceeded"), "{full}");
        assert!(written >= 5, "{written}");
        // What is applied at once is counted as a whole, and a snapshot is written beside the requests: more of these, which need no
        // room, until there is one.
        let (since, mut more) = (Instant::now(), 0);
        while etcd.metric("etcd_debugging_snap_save_total_duration_seconds_count").unwrap() < 1.0 {
            assert!(
                since.elapsed() < Duration::from_secs(60) && more < 200,
                "no snapshot after {written} and {more} writes"
            );
            control.del("b").unwrap();
            more += 1;
            std::thread::sleep(Duration::from_millis(50));
        }
        // The two options whose effect etcdctl 3.4 does not show.
        let line = std::fs::read_to_string(format!("/proc/{}/cmdline", etcd.pid())).unwrap();
        assert!(line.contains("--experimental-watch-progress-notify-interval\x00200ms\0"), "{line:?}");
        assert!(line.contains("--auth-token-ttl\x007\0"), "{line:?}");
    }
}

#[test]
fn three_members() {
    for release in Release::ALL {
        let mut cluster = Cluster::start(release, 3);
        let control = cluster.control();
        control.put("a", "1").unwrap();
        let status = control.status().unwrap();
        assert_eq!(status.len(), 3);
        assert!(
            status
                .iter()
                .all(|one| one.cluster_id == status[0].cluster_id && one.leader_id == status[0].leader_id)
        );
        let leader = cluster.await_leader();
        assert_eq!(status[leader].member_id, status[leader].leader_id, "as etcdctl says");

        let next = (leader + 1) % 3;
        cluster.move_leader(&control, next);
        assert_eq!(cluster.leader(), Some(next));
        assert_eq!(cluster.control_of(leader).status().unwrap()[0].leader_id, status[next].member_id);

        // Without its leader it elects another one; without two of three it accepts no writes.
        cluster.kill(next);
        let heir = cluster.await_leader();
        assert_ne!(heir, next);
        eventually(|| cluster.control_of(heir).put("a", "2"));
        let other = 3 - next - heir;
        cluster.pause(other);
        assert!(cluster.control_of(heir).patient_for(SHORT).put("a", "lost").is_err());
        cluster.resume(other);
        eventually(|| cluster.control_of(heir).put("a", "3"));
        cluster.restart(next);
        let seen = cluster.control_of(next).get("a").unwrap().unwrap();
        assert_eq!(seen.value, b"3", "it has caught up");

        // All of it down, and up again one by one.
        for index in 0..3 {
            cluster.kill(index);
        }
        cluster.restart(0);
        assert!(cluster.control_of(0).patient_for(SHORT).get("a").is_err());
        cluster.restart(1);
        cluster.restart(2);
        assert_eq!(eventually(|| cluster.control_of(0).get("a")).unwrap().value, b"3");
    }
}

#[test]
fn three_members_back_to_a_snapshot_and_swapped() {
    let mut cluster = Cluster::start(Release::V3_5, 3);
    let id = cluster.control().cluster_id().unwrap();
    cluster.control().put("a", "1").unwrap();
    let snapshot = cluster.folder().join("snapshot");
    cluster.control_of(0).snapshot_save(&snapshot).unwrap();
    cluster.control().put("a", "2").unwrap();
    cluster.restore(&snapshot, Token::Same);
    let all = cluster.control().status().unwrap();
    assert!(all.len() == 3 && all.iter().all(|one| one.cluster_id == id));
    for index in 0..3 {
        assert_eq!(cluster.control_of(index).get("a").unwrap().unwrap().value, b"1");
    }
    cluster.swap();
    assert_ne!(cluster.control().cluster_id(), Ok(id));
    assert_eq!(cluster.control().get("a"), Ok(None));
}
