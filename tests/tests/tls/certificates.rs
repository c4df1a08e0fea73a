//! Certificates of clients, and those of the server that change.

use std::time::{Duration, Instant};

use revcast_tests::server::command;
use revcast_tests::tls::Version;

use super::*;

#[test]
fn certificates_of_clients_are_optional_and_verified() {
    let stand = Stand::new("tls-clients", true, &[]);
    let strangers = Authority::new(Path::new(stand.scratch.path()), "strangers");
    let known = stand.authority.client("anna");
    let stranger = strangers.client("anna");
    let ended = stand.authority.client_for("bob", Duration::ZERO);
    std::thread::sleep(Duration::from_secs(1));
    for version in Version::ALL {
        let asks = |identity: &Identity| {
            let client = stand.client_with(&stand.trust.showing(version, identity));
            client.connect().unwrap().request("GET", "/version", &[], &[])
        };
        assert_eq!(asks(&known).unwrap().status, 200, "{version:?}");
        let alert = asks(&stranger).expect_err("no CA vouches for it").to_string();
        assert!(alert.contains("UnknownCA") || alert.contains("DecryptError"), "{version:?}: {alert}");
        let alert = asks(&ended).expect_err("it is over").to_string();
        assert!(alert.contains("CertificateExpired"), "{version:?}: {alert}");
        let none = stand.client_with(&stand.trust.in_version(version));
        assert_eq!(none.get("/version").status, 200, "{version:?}: none is asked for by the protocol alone");
    }
}

/// An authority that is taken away: certificates of those that are connected are verified again.
#[test]
fn a_removed_authority_ends_what_it_vouched_for() {
    let stand = Stand::new("tls-removed", true, &[]);
    let bundle = stand.authority.certificate();
    let first = std::fs::read_to_string(&bundle).unwrap();
    let others = Authority::new(Path::new(stand.scratch.path()), "others");
    // Both vouch for clients.
    let both = format!("{first}{}", std::fs::read_to_string(others.certificate()).unwrap());
    let (client_ca, removed) = (&bundle, others.client("rita"));
    std::fs::write(client_ca, &both).unwrap();
    hang_up(&stand.server);
    std::thread::sleep(Duration::from_secs(1));
    for (number, version) in Version::ALL.into_iter().enumerate() {
        std::fs::write(client_ca, &both).unwrap();
        hang_up(&stand.server);
        std::thread::sleep(Duration::from_secs(1));
        let kept = stand.client_with(&stand.trust.showing(version, &stand.authority.client("kim")));
        let gone = stand.client_with(&stand.trust.showing(version, &removed));
        let path = format!("{PATH}?watch=1&resourceVersion={}", kept.newest());
        let (mut kept_watch, mut gone_watch) = (kept.watch(&path).unwrap(), gone.watch(&path).unwrap());
        let (mut kept_requests, mut gone_requests) = (kept.connect().unwrap(), gone.connect().unwrap());
        assert_eq!(gone_requests.request("GET", "/version", &[], &[]).unwrap().status, 200, "{version:?}");
        assert_eq!(kept_requests.request("GET", "/version", &[], &[]).unwrap().status, 200);
        std::fs::write(client_ca, &first).unwrap();
        hang_up(&stand.server);
        // The watch ends, and a connection that only asks is refused.
        assert!(gone_watch.rest().is_empty(), "{version:?}: nothing happened meanwhile");
        let refused = gone_requests.request("GET", "/version", &[], &[]).unwrap();
        assert_eq!(
            (refused.status, refused.header("connection")),
            (401, Some("close")),
            "{}",
            refused.text()
        );
        // Clients of the other authority are not concerned.
        assert_eq!(kept_requests.request("GET", "/version", &[], &[]).unwrap().status, 200);
        create(&kept, &format!("after-{number}"));
        assert_eq!(kept_watch.next_event().1["metadata"]["name"], format!("after-{number}"));
    }
}

/// Session tickets contain the client's certificate. One that has expired since is refused nevertheless.
#[test]
fn a_session_is_resumed_but_not_beyond_its_certificate() {
    const RESULTS: [&str; 3] = ["full", "resumed", "failed"];
    let stand = Stand::new("tls-resume", true, &[]);
    let before = stand.handshakes(RESULTS);
    for version in Version::ALL {
        let short = stand.authority.client_for("carl", Duration::from_secs(4));
        let client = stand.client_with(&stand.trust.showing(version, &short));
        let ask = || {
            let mut connection = client.connect().unwrap();
            let reply = connection.request("GET", "/version", &[], &[])?;
            assert_eq!(reply.status, 200);
            std::io::Result::Ok(connection.stream().tls().handshake_kind().unwrap())
        };
        assert_eq!(ask().unwrap(), rustls::HandshakeKind::Full, "{version:?}");
        assert_eq!(ask().unwrap(), rustls::HandshakeKind::Resumed, "{version:?}");
        std::thread::sleep(Duration::from_secs(5));
        ask().expect_err("the certificate has ended");
    }
    stand.wait_for_handshakes(RESULTS, before.map(|count| count + 2));
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let expiry = stand.server.metric("revcast_tls_certificate_expiry_timestamp_seconds");
    assert!(expiry > now, "the server's own is valid until {expiry}, now it is {now}");
}

/// The leaf that the server shows, in DER.
fn shown(stand: &Stand) -> Vec<u8> {
    let mut connection = stand.client().connect().unwrap();
    assert_eq!(connection.request("GET", "/version", &[], &[]).unwrap().status, 200);
    connection.stream().tls().peer_certificates().unwrap()[0].to_vec()
}

fn hang_up(server: &Server) {
    assert!(Command::new("kill").args(["-HUP", &server.pid().to_string()]).status().unwrap().success());
}

#[test]
fn newer_certificates_are_served_to_who_comes_and_leave_the_others_alone() {
    let stand = Stand::new("tls-reload", false, &[]);
    let first = shown(&stand);
    let mut watch = stand.client().watch(&format!("{PATH}?watch=1")).unwrap();
    let until_new = |old: &[u8], patience: Duration| {
        let since = Instant::now();
        loop {
            let now = shown(&stand);
            if now != old {
                return now;
            }
            assert!(since.elapsed() < patience, "the old one is still served");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    // After a signal, at once.
    assert_eq!(stand.authority.server(), stand.identity, "in the same files");
    hang_up(&stand.server);
    let second = until_new(&first, Duration::from_secs(3));
    // Without one, after a look.
    assert_eq!(stand.authority.server(), stand.identity);
    let third = until_new(&second, Duration::from_secs(15));
    // A certificate and key that do not match change nothing.
    std::fs::write(&stand.identity.key, "no key at all").unwrap();
    hang_up(&stand.server);
    std::thread::sleep(Duration::from_secs(1));
    assert!(shown(&stand) == third, "what fitted is served on");
    create(&stand.client(), "after");
    assert_eq!(watch.next_event().1["metadata"]["name"], "after", "who is there stays");
}

/// A bundle that is written in pieces: it is valid after each certificate.
#[test]
fn half_a_bundle_shuts_nobody_out() {
    let stand = Stand::new("tls-half", true, &[]);
    let others = Authority::new(Path::new(stand.scratch.path()), "others");
    let bundle = stand.authority.certificate();
    let [ours, theirs] =
        [&stand.authority, &others].map(|authority| std::fs::read(authority.certificate()).unwrap());
    let [anna, bert] = [stand.authority.client("anna"), others.client("bert")];
    let comes_in = |who: &Identity| {
        let client = stand.client_with(&stand.trust.showing(Version::V1_3, who));
        client.connect().unwrap().request("GET", "/version", &[], &[]).is_ok_and(|reply| reply.status == 200)
    };
    std::fs::write(&bundle, [ours.as_slice(), &theirs].concat()).unwrap();
    let since = Instant::now();
    while !comes_in(&bert) {
        assert!(since.elapsed() < Duration::from_secs(20), "whole, and taken by itself");
        std::thread::sleep(Duration::from_millis(50));
    }
    // Rewritten again and again, theirs first: for most of the time half of it is there, and never the same half at two
    // looks.
    let begin = Instant::now();
    let mut round = 0;
    while begin.elapsed() < Duration::from_secs(12) {
        round += 1;
        let comment = format!("# {round}\n").into_bytes();
        std::fs::write(&bundle, [comment.as_slice(), &theirs].concat()).unwrap();
        for _ in 0..9 {
            std::thread::sleep(Duration::from_millis(100));
            assert!(comes_in(&anna), "after {:?} of half a bundle", begin.elapsed());
        }
        std::fs::write(&bundle, [comment.as_slice(), &theirs, &ours].concat()).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(comes_in(&anna) && comes_in(&bert));
}

#[test]
fn a_server_without_tls_survives_the_signal() {
    let server = Server::start(&[]);
    for _ in 0..3 {
        hang_up(&server);
    }
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(server.client().get("/version").status, 200);
    assert_eq!(server.terminate(), Some(0), "and still hears the other one");
}

#[test]
fn files_that_do_not_fit_end_the_start_with_one_line() {
    let scratch = Scratch::new("tls-start");
    let authority = Authority::new(Path::new(scratch.path()), "ca");
    let (one, other) = (authority.server(), authority.client("other"));
    let (cert, key) = (one.cert.to_str().unwrap(), one.key.to_str().unwrap());
    let other_key = other.key.to_str().unwrap();
    let table: [(&[&str], &str); 5] = [
        (&["--tls-cert", cert], "add --tls-key FILE"),
        (&["--tls-client-ca", cert], "has no effect without TLS"),
        (&["--tls-cert", "/nowhere/c.pem", "--tls-key", key], "cannot be read: No such file"),
        (&["--tls-cert", key, "--tls-key", key], "a key in it and no certificate"),
        (&["--tls-cert", cert, "--tls-key", other_key], "made together"),
    ];
    for (options, why) in table {
        let mut command = command();
        let output = command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "none"]);
        let output = output.args(options).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {said}");
        let line = said.lines().find(|line| line.contains("--tls-")).unwrap_or_else(|| panic!("{said}"));
        assert!(line.contains(why), "{why}: {said}");
        assert!(output.stdout.is_empty());
    }
}
