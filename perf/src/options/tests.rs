//! The command line: every option, and what is wrong with bad ones.

use super::command::command;
use super::*;

fn parsed(args: &str) -> Result<Job, String> {
    parse(args.split_ascii_whitespace()).map_err(|stop| match stop {
        Stop::Refuse(line) => line,
        Stop::Show(text) => panic!("{text}"),
    })
}

#[test]
fn every_command_is_well_formed() {
    command().debug_assert();
    for args in ["--help", "fanout --help", "storm -h", "--version", ""] {
        let Err(Stop::Show(text)) = parse(args.split_ascii_whitespace()) else { panic!("{args}") };
        assert!(!text.contains("~1"), "an option without a name is not shown: {text}");
    }
}

/// A command line, and after `|` some fields as Rust writes them.
const READ: &str = r#"
fanout | watchers: 1000; rate: PerSecond(20.0); size_bytes: 1024; floor: None; deaf_percent: 0; readers: 0
fanout --server http://localhost:9 --watchers 40000 --rate max --duration 1m --warmup 0 --drain=2s --size 4KiB |
    authority: "localhost:9"; watchers: 40000; rate: Max; duration: 60s; warmup: 0ns; drain: 2s; size_bytes: 4096
fanout --resource v1/pods/Pod --namespace load --namespaces 3 --objects 7 --label-selector half=odd | plural: "pods";
    namespace: "load"; namespace_count: Some(3); objects: 7; label_selector: Some("half=odd")
fanout --field-selector metadata.name={object} --threads 2 --processes 4 --client-cpu 1,3-5 --sources 2 |
    field_selector: Some("metadata.name={object}"); threads: 2; processes: 4; client_cpus: [1, 3, 4, 5]; sources: Some(2)
fanout --server-pid 12 --json --seed 9 --bookmarks --connect-rate 100 --token-file /t --writers 3 --pipeline 1 |
    server_pid: Some(12); json: true; seed: Some(9); bookmarks: true; connect_rate: 100; token_file: Some("/t"); writers: 3;
    pipeline: 1
fanout --i-own-this-server --floor writev --events-per-write 64 --out d --subject s --quiet --probe --ahead 3 | anywhere: true;
    floor: Some([Writev]); events_per_write: Some(64); out: Some("d"); subject: Some("s"); quiet: true; probe: true; ahead: 3
fanout --floor off | floor: Some([])
fanout --floor best | floor: Some([Send, Writev, Uring, Pages])
initial | watchers: 200; objects: 2000; writers: 8; list: false; gzip: false; namespace: "initial"; timeout: 120s
initial --list --gzip --timeout 5s --json --objects 3 | list: true; gzip: true; json: true; timeout: 5s; objects: 3
idle | watchers: 19000; prime: 1000; rounds: 1; objects: 1; duration: 50s; bookmarks: true; drain: 0ns
idle --prime 0 --rounds 3 --watchers 7 | prime: 0; rounds: 3; watchers: 7
slow | watchers: 10000; rate: PerSecond(10.0); shares: [20]; rounds: 5; stall: None; fill_bytes: 524288;
    receive_buffer_bytes: None; deaf_percent: 0; churn_per_second: 0.0; readers: 0; hostile: None; shapes: false
slow --share 5,20,50 --rounds 2 --receive-buffer 4KiB --fill 0 --stall 5s --watchers 100 | shares: [5, 20, 50]; rounds: 2;
    stall: Some("5s"); receive_buffer_bytes: Some(4096); fill_bytes: 0
siege | watchers: 1000; hostile: Some(Hostile { kind: Heads, clients: 1000, at: None; burst_bytes: 104857600; shares: [0]
siege --by burst --clients 50 --burst 1MiB --watchers 10 --besiege 127.0.0.1:1 |
    hostile: Some(Hostile { kind: Burst, clients: 50, at: Some(127.0.0.1:1), burst_bytes: 1048576
mixed | namespace: "mixed"; namespace_count: Some(4); deaf_percent: 5; readers: 4; churn_per_second: 0.01; probe: true;
    shapes: true; bookmarks: true
mixed --never-read 0 --churn 0.5 --namespaces 2 --namespace m --watchers 50 | namespace: "m"; namespace_count: Some(2);
    deaf_percent: 0; churn_per_second: 0.005
interests | watchers: 10000; by: Node; rounds: 5; rates: [PerSecond(500.0), Max]; sizes: [1, 100, 1000, 10000]; plural: "pods"
interests --watchers 50 --by label --rate max,7 --sizes 20,3,60 | by: Label; sizes: [3, 20, 50]; rates: [Max, PerSecond(7.0)];
    plural: "configmaps"
interests --by name --resource v1/pods/Pod --sizes none --watchers 9 | sizes: [9]; plural: "pods"
storm | watchers: 10000; live: 100; rounds: 5; objects: 10; close: Fin; spread: 0ns; lists: None
storm --watchers 50 --live 3 --close rst --spread 1s --objects 4 | watchers: 50; live: 3; objects: 4; close: Rst; spread: 1s
storm --lists --clients 7 | lists: Some(Lists { clients: 7, objects: 100000 }); objects: 10
storm --objects 9 --lists | lists: Some(Lists { clients: 50, objects: 9 })
floor | modes: [Send, Writev, Uring, Pages]; events_per_write: None; rounds: 1
floor --mode uring --events-per-write 64 --server-cpu 2-3 --rounds 5 | modes: [Uring]; events_per_write: Some(64);
    server_cpu: [2, 3]; rounds: 5
compare http://127.0.0.1:1 floor | Floor(None)]; watchers: [1000]; rounds: 5; duration: 5s
compare http://x --watchers 100,2000 floor:send --rounds 3 --out f --server-cpu 0 --rate max | Floor(Some(Send))];
    watchers: [100, 2000]; rounds: 3; server_cpu: [0]; rate: Max; out: Some("f")
lag --rate 50 | etcd: "http://127.0.0.1:2379"; rate: PerSecond(50.0)
report a.json --html x.html folder --title Night | paths: ["a.json", "folder"]; html: "x.html"; title: "Night"
"#;

/// A command line, and after each `|` a part of what is said of it.
const REFUSED: &str = r#"
fanout --watchers many | 'many' for '--watchers <WATCHERS>'
fanout --watchers 0 | '0' for '--watchers <WATCHERS>'|1..=10000000
fanout --rate=-1 | --rate|-1|give writes a second
fanout --rate fast | fast|give writes a second, for example 20 or 0.5, or max
fanout --duration 5d | 5d|from 100ms to 30 days
fanout --size big | big|at most 16MiB
fanout --client-cpu 5-2 | 5-2|1,3 or 2-5
fanout --watcher 5 | --watcher|--watchers
fanout --watchers | --watchers
fanout --writers 11 | --writers "11": every writer needs an object of its own|raise --objects
fanout --namespaces 2000 | --namespaces "2000": 1000 watchers cannot cover them all
fanout --floor on | on|give send, writev, uring, pages, best or off
fanout --floor all | all|give send, writev, uring, pages, best or off
fanout --resource pods | pods|v1/PLURAL/KIND
fanout --namespace A | A|a-z, 0-9
fanout --seed=-1 | --seed
fanout --churn 5 | --churn
fanout --rounds 2 | --rounds
fanout stray | stray
initial --rate 5 | --rate
initial --timeout 0 | --timeout|100ms
initial --objects 0 | --objects
idle --rate 5 | --rate
idle --watchers 1 --processes 2 | --processes "2": more than there are --watchers
slow --share 0 | --share
slow --share 5 --watchers 10 | --share "5": 0 of 10 watchers would never read: raise --watchers
slow --bookmarks | --bookmarks
slow --fill much | much|1024MiB
slow --by heads | --by
slow --never-read 5 | --never-read
siege --share 5 | --share
siege --by night | night|heads|burst
siege --besiege 192.0.2.1:80 | address of this machine
mixed --field-selector a=b | --field-selector
mixed --churn 101 | from 0 to 100
mixed --never-read 100 | --never-read
interests --by color | color|namespace
interests --resource configmaps | only pods have a node
interests --writers 2 | there are 1: raise the smallest of --sizes
interests --objects 5 | --objects
interests --rate 5, | give writes a second
storm --close hard | hard|fin|rst
storm --rate max | a storm is measured at a steady rate
storm --writers 11 | there are 10
storm --duration 5s | --duration
storm --live 0 | --live
floor --mode sendto | sendto|give send, writev, uring, pages or all
floor --events-per-write 0 | 1..=1024
floor --server http://x | --server
compare floor | subjects "1": give two at least
compare floor server | server|a command line with {port} in it
compare floor floor --server http://x | --server
compare floor floor --watchers 1,,2 | --watchers
report | PATH
report a --watchers 5 | --watchers
report a --html | --html
load | load
"#;

#[test]
fn options_and_defaults_are_read() {
    let cases = READ.replace("\n    ", " ");
    for (args, fields) in cases.trim().lines().map(|line| line.split_once(" | ").expect(line)) {
        let found = format!("{:?}", parsed(args).unwrap_or_else(|bad| panic!("{args}: {bad}")));
        for field in fields.split("; ") {
            let ends = [",", " }", ")"].map(|end| format!("{field}{end}"));
            assert!(ends.iter().any(|field| found.contains(field)), "{args}: {field}: {found}");
        }
    }
}

#[test]
fn a_bad_option_is_one_line_with_name_value_and_mend() {
    for (args, parts) in REFUSED.trim().lines().map(|line| line.split_once(" | ").expect(line)) {
        let line = parsed(args).expect_err(args);
        assert_eq!(line.lines().count(), 1, "{line}");
        parts.split('|').for_each(|part| assert!(line.contains(part), "{args}: {part}: {line}"));
    }
}
