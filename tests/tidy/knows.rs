//! Which code may use a runtime: glommio and io_uring in one folder of the server, the etcd client in another.

use super::code::{bare, words};
use super::paths::paths;
use super::tree::{File, files};
use super::{Fault, lines, none};

/// A crate, and the only paths below `server/src`, `perf/src` and `engine` whose code may name it.
const ADDRESSES: [(&str, &[&str]); 5] = [
    ("glommio", &["server/src/runtime"]),
    // The doctor probes io_uring before an executor starts; perf's floor sends through one.
    ("io_uring", &["server/src/runtime", "server/src/doctor", "server/src/doctor.rs", "perf/src/floor"]),
    // `lag` compares a cache with a bare etcd watch, and the bridge replaces a server by one; both use one client.
    // The demo's clients are no part of the server: they have a thread and a runtime of their own.
    ("tokio", &["server/src/source", "server/src/demo", "perf/src/lag", "perf/src/bridge"]),
    ("etcd_client", &["server/src/source", "perf/src/bridge"]),
    ("tonic", &["server/src/source"]),
];

fn strays(file: &File) -> Vec<Fault> {
    let bare = bare(&file.text);
    let mut named: Vec<(usize, &str)> = Vec::new();
    for (name, places) in ADDRESSES {
        if places.iter().any(|place| file.below(place) || file.path == format!("{place}.rs")) {
            continue;
        }
        let starts = paths(&bare).into_iter().filter(|path| path.parts[0] == name);
        named.extend(starts.map(|path| (path.line, name)));
        let words = words(&bare);
        let external = words.windows(3).filter(|run| run[0].text == "extern" && run[2].text == name);
        named.extend(external.map(|run| (run[0].line, name)));
    }
    named.sort_unstable();
    named.dedup();
    let fault = |(line, name): (usize, &str)| {
        let places = ADDRESSES.iter().find(|address| address.0 == name).map_or(&[][..], |address| address.1);
        let rule = format!("{name} is named only in {}", places.join(", "));
        Fault::new(&file.path, line, &rule, "ask that module for what you need, in its own words")
    };
    named.into_iter().map(fault).collect()
}

#[test]
fn runtimes_have_an_address() {
    let watched = ["engine", "server/src", "perf/http1", "perf/src", "tests/sim/src", "tests/src"];
    let files =
        files().into_iter().filter(|file| file.is_rust() && watched.iter().any(|place| file.below(place)));
    none(&files.flat_map(|file| strays(&file)).collect::<Vec<_>>());
}

#[test]
fn strays_are_found() {
    let text = "use glommio::Task;\n// tokio::spawn\nfn f() { io_uring::opcode::Nop::new(); }\n\
                struct S { io_uring: u8 }\nuse tokio as t;\nextern crate etcd_client;\nlet etcd = \"etcd_client::x\";";
    let file = |path: &str| File { path: path.to_owned(), text: text.to_owned() };
    assert_eq!(lines(&strays(&file("server/src/http/a.rs"))), [1, 3, 5, 6]);
    assert_eq!(lines(&strays(&file("server/src/doctor.rs"))), [1, 5, 6]);
    assert_eq!(lines(&strays(&file("server/src/doctor/judge.rs"))), [1, 5, 6]);
    assert_eq!(lines(&strays(&file("server/src/runtime/sys/polls.rs"))), [5, 6]);
    assert_eq!(lines(&strays(&file("server/src/runtime.rs"))), [5, 6]);
    assert_eq!(lines(&strays(&file("server/src/runtimes.rs"))), [1, 3, 5, 6]);
    assert_eq!(lines(&strays(&file("server/src/source/etcd.rs"))), [1, 3]);
}
