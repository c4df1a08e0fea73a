//! The faults, one by one: what is done under load, and what is promised.

use std::time::{Duration, Instant};

use revcast_tests::etcd::{Options, Release, Token};

use super::run::{Promise, Run, Setup, calm_time, eventually, rounds};

const SECOND: Duration = Duration::from_secs(1);

/// With 3.5 only the server's own keys are watched: then a missing revision cannot be noticed by counting.
const fn keys_of(release: Release) -> &'static str {
    match release {
        Release::V3_4 => "auto",
        Release::V3_5 => "prefix",
    }
}

/// etcd is killed, and comes back.
pub(crate) fn killed(release: Release) {
    let mut run = Run::start("killed", Setup { watch: keys_of(release), ..Setup::one(release) });
    for _ in 0..rounds() {
        run.go_on(calm_time());
        run.kill(0);
        let gone = Instant::now();
        run.go_on(SECOND * 6);
        let back = Instant::now();
        run.cluster.restart(0);
        run.outage(gone, back);
    }
    run.finish(Promise::StaysOpen);
}

/// etcd keeps its connections and answers nothing, for ten seconds.
pub(crate) fn frozen(release: Release) {
    let mut run = Run::start("frozen", Setup::one(release));
    for _ in 0..rounds() {
        run.go_on(calm_time());
        run.cluster.pause(0);
        let gone = Instant::now();
        run.go_on(SECOND * 10);
        let back = Instant::now();
        run.cluster.resume(0);
        run.outage(gone, back);
    }
    run.finish(Promise::StaysOpen);
}

/// A cluster loses its leader: to a kill, to a freeze, to another member.
pub(crate) fn leader_lost(release: Release) {
    let mut run = Run::start("leader_lost", Setup { members: 3, ..Setup::one(release) });
    for _ in 0..rounds() {
        run.go_on(calm_time());
        let leader = run.cluster.await_leader();
        run.kill(leader);
        run.go_on(SECOND * 2);
        let _ = run.cluster.await_leader();
        let back = Instant::now();
        run.cluster.restart(leader);
        run.back(back);

        let leader = run.cluster.await_leader();
        run.cluster.pause(leader);
        run.go_on(SECOND * 3);
        let back = Instant::now();
        run.cluster.resume(leader);
        run.back(back);

        let leader = run.cluster.await_leader();
        let control = run.control();
        run.cluster.move_leader(&control, (leader + 1) % 3);
        run.back(Instant::now());
    }
    run.finish(Promise::StaysOpen);
}

/// All history up to the newest revision is compacted every second.
pub(crate) fn compacted(release: Release) {
    let setup = Setup { compacts: Some(0), watch: keys_of(release), ..Setup::one(release) };
    let mut run = Run::start("compacted", setup);
    for _ in 0..rounds() {
        run.go_on(SECOND * 5);
    }
    run.finish(Promise::StaysOpen);
}

/// An older state comes back, under the same cluster id: only the revisions show it.
pub(crate) fn restored(release: Release) {
    let mut run = Run::start("restored", Setup { compacts: Some(0), ..Setup::one(release) });
    for round in 0..rounds() {
        let snapshot = run.cluster.folder().join(format!("snapshot-{round}"));
        let kept = run.at_rest(|run, newest| {
            run.control().snapshot_save(&snapshot).expect("etcd saves its state");
            newest
        });
        // As many revisions are used twice; they must not be used up again before the server connects.
        run.go_on(SECOND * 4 + calm_time());
        run.break_line(kept, |cluster| cluster.restore(&snapshot, Token::Same));
        run.back(Instant::now());
    }
    run.finish(Promise::Expires(rounds()));
}

/// An older state comes back under the same cluster id while the server cannot see it, and is past the last served
/// revision before it can: only the history shows it.
pub(crate) fn restored_and_overtaken(release: Release) {
    let setup = Setup { proxied: true, watch: keys_of(release), ..Setup::one(release) };
    let mut run = Run::start("restored_and_overtaken", setup);
    for round in 0..rounds() {
        let snapshot = run.cluster.folder().join(format!("snapshot-{round}"));
        let kept = run.at_rest(|run, newest| {
            run.control().snapshot_save(&snapshot).expect("etcd saves its state");
            newest
        });
        run.go_on(calm_time());
        run.proxy().cut();
        let served = run.gateway().revision().expect("etcd answers");
        run.break_line(kept, |cluster| cluster.restore(&snapshot, Token::Same));
        run.overtake(served);
        run.proxy().heal();
        run.back(Instant::now());
    }
    run.finish(Promise::Expires(rounds()));
}

/// The same, and the server loaded its state at the last moment: it never saw a change of the lost history.
pub(crate) fn restored_after_a_load(release: Release) {
    let setup = Setup { proxied: true, watch: keys_of(release), start: "off", ..Setup::one(release) };
    let mut run = Run::start("restored_after_a_load", setup);
    for round in 0..rounds() {
        let snapshot = run.cluster.folder().join(format!("snapshot-{round}"));
        let kept = run.at_rest(|run, newest| {
            run.control().snapshot_save(&snapshot).expect("etcd saves its state");
            newest
        });
        run.go_on(SECOND * 2 + calm_time());
        let served = run.at_rest(|run, newest| {
            run.restart_server(Duration::ZERO);
            run.proxy().cut();
            newest
        });
        run.break_line(kept, |cluster| cluster.restore(&snapshot, Token::Same));
        run.overtake(served);
        run.proxy().heal();
        run.back(Instant::now());
        run.go_on(SECOND * 2);
    }
    run.finish(Promise::Breaks);
}

/// Another store in its place.
pub(crate) fn swapped(release: Release) {
    let mut run = Run::start("swapped", Setup { compacts: Some(0), ..Setup::one(release) });
    for _ in 0..rounds() {
        // The new history begins far behind.
        run.go_on(SECOND + calm_time());
        run.break_line(0, |cluster| cluster.swap());
        run.back(Instant::now());
    }
    run.finish(Promise::Expires(rounds()));
}

/// Tokens expire after five seconds, and a restart makes etcd forget them all.
pub(crate) fn logins_run_out(release: Release) {
    // A user that may not watch all keys watches its own.
    let may = match release {
        Release::V3_4 => "",
        Release::V3_5 => "/registry/",
    };
    let options = Options { auth_token_ttl: Some(SECOND * 5), ..Options::default() };
    let mut run = Run::start("logins_run_out", Setup { options, login: Some(may), ..Setup::one(release) });
    for _ in 0..rounds() {
        run.go_on(SECOND * 5);
        run.kill(0);
        let gone = Instant::now();
        run.go_on(SECOND * 6);
        let back = Instant::now();
        run.cluster.restart(0);
        run.outage(gone, back);
        let before = run.written_through_server();
        run.go_on(SECOND * 4);
        eventually("writes go on through the server", || {
            let written = run.written_through_server() - before;
            if written > 15 { Ok(()) } else { Err(format!("{written} were answered")) }
        });
    }
    run.finish(Promise::StaysOpen);
}

/// The network is cut, then silent, each for five seconds; etcd is written to meanwhile.
pub(crate) fn cut_off_for_a_while(release: Release) {
    let mut run = Run::start("cut_off_for_a_while", Setup { proxied: true, ..Setup::one(release) });
    for _ in 0..rounds() {
        for hangs in [false, true] {
            run.go_on(calm_time());
            if hangs {
                run.proxy().hang()
            } else {
                run.proxy().cut()
            }
            let gone = Instant::now();
            run.go_on(SECOND * 5);
            let back = Instant::now();
            run.proxy().heal();
            run.outage(gone, back);
        }
    }
    run.finish(Promise::StaysOpen);
}

/// The network is cut until etcd has compacted what comes next.
pub(crate) fn cut_off_for_too_long(release: Release) {
    let mut run = Run::start("cut_off_for_too_long", Setup { proxied: true, ..Setup::one(release) });
    for _ in 0..rounds() {
        run.go_on(calm_time());
        run.proxy().cut();
        let gone = Instant::now();
        run.go_on(SECOND * 6);
        run.compact();
        let back = Instant::now();
        run.proxy().heal();
        run.outage(gone, back);
    }
    run.finish(Promise::Expires(rounds()));
}

/// The server itself is killed, and comes back.
pub(crate) fn server_killed(release: Release) {
    let mut run = Run::start("server_killed", Setup { compacts: Some(0), ..Setup::one(release) });
    for _ in 0..rounds() {
        run.go_on(calm_time());
        run.restart_server(SECOND);
        run.back(Instant::now());
    }
    run.finish(Promise::Breaks);
}

/// The same, and etcd keeps its history: every watcher resumes where it was.
pub(crate) fn server_killed_with_history(release: Release) {
    let mut run = Run::start("server_killed_with_history", Setup::one(release));
    for _ in 0..rounds() {
        run.go_on(calm_time());
        run.restart_server(SECOND);
        run.back(Instant::now());
    }
    run.finish(Promise::Resumes);
}

/// The same, and etcd keeps the history of a few seconds: what is replayed is compacted meanwhile.
pub(crate) fn server_killed_with_little_history(release: Release) {
    let setup = Setup { compacts: Some(1_500), ..Setup::one(release) };
    let mut run = Run::start("server_killed_with_little_history", setup);
    for _ in 0..rounds() {
        run.go_on(SECOND * 8 + calm_time());
        run.restart_server(SECOND);
        run.back(Instant::now());
    }
    run.finish(Promise::Resumes);
}
