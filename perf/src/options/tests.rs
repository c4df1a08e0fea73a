//! The command line: every option, and what is wrong with bad ones.

use super::command::command;
use super::*;

fn parsed(args: &str) -> Result<Job, String> {
    parse(args.split_ascii_whitespace()).map_err(|stop| match stop {
        Stop::Refuse(line) => line,
        Stop::Show(text) => panic!("{text}"),
    })
}

/// The options of one scenario.
macro_rules! options {
    ($scenario:ident, $args:expr) => {
        match parsed($args).expect("all are valid") {
            Job::$scenario(options) => options,
            other => panic!("{other:?}"),
        }
    };
}

#[test]
fn every_command_is_well_formed() {
    command().debug_assert();
    for args in ["--help", "fanout --help", "storm -h", "--version", ""] {
        let Err(Stop::Show(text)) = parse(args.split_ascii_whitespace()) else { panic!("{args}") };
        assert!(!text.contains("~1"), "an option without a name is not shown: {text}");
    }
}

#[test]
fn defaults_and_every_option_of_fanout() {
    let plain = options!(Fanout, "fanout");
    assert_eq!((plain.watchers, plain.rate, plain.size_bytes), (1000, Rate::PerSecond(20.0), 1024));
    assert_eq!((plain.namespaces(), plain.floor.is_none()), (vec!["fanout".to_owned()], true));
    let full = options!(
        Fanout,
        "fanout --server http://localhost:9 --watchers 40000 --rate max --duration 1m --warmup 0 --drain=2s --size 4KiB \
         --resource v1/pods/Pod --namespace load --namespaces 3 --objects 7 --label-selector half=odd \
         --field-selector metadata.name={object} --threads 2 --processes 4 --client-cpu 1,3-5 --sources 2 \
         --server-pid 12 --json --seed 9 --bookmarks --connect-rate 100 --token-file /t --writers 3 --pipeline 1 \
         --i-own-this-server --floor writev --events-per-write 64 --out d --subject s --quiet --probe --ahead 3"
    );
    assert_eq!(full.namespaces(), ["load-0", "load-1", "load-2"]);
    assert_eq!((full.client_cpus, full.floor), (vec![1, 3, 4, 5], Some(vec![Mode::Writev])));
    assert_eq!(
        (full.rate, full.duration, full.drain),
        (Rate::Max, Duration::from_secs(60), Duration::from_secs(2))
    );
    assert_eq!(
        (full.watchers, full.objects, full.threads, full.processes, full.connect_rate),
        (40_000, 7, 2, 4, 100)
    );
    assert_eq!(
        (full.sources, full.server_pid, full.seed, full.writers, full.pipeline),
        (Some(2), Some(12), Some(9), 3, 1)
    );
    assert_eq!((full.label_selector.as_deref(), full.events_per_write), (Some("half=odd"), Some(64)));
    assert!(full.json && full.bookmarks && full.anywhere && full.quiet && full.probe);
    assert_eq!(options!(Fanout, "fanout --floor off").floor, Some(vec![]));
    assert_eq!(options!(Fanout, "fanout --floor best").floor.map(|modes| modes.len()), Some(3));
}

#[test]
fn each_scenario_has_its_defaults_and_its_own_options() {
    let initial = options!(Initial, "initial");
    assert_eq!((initial.base.watchers, initial.base.objects, initial.base.writers), (200, 2000, 8));
    assert!(!initial.list && !initial.gzip && initial.base.namespace == "initial");
    let initial = options!(Initial, "initial --list --gzip --timeout 5s --json --objects 3");
    assert!(initial.list && initial.gzip && initial.base.json && initial.timeout == Duration::from_secs(5));

    let idle = options!(Idle, "idle");
    assert_eq!((idle.base.watchers, idle.prime, idle.rounds, idle.base.objects), (19_000, 1000, 1, 1));
    assert_eq!((idle.base.duration, idle.base.bookmarks), (Duration::from_secs(50), true));
    assert_eq!(idle.base.drain, Duration::ZERO);
    assert_eq!(options!(Idle, "idle --prime 0 --rounds 3 --watchers 7").rounds, 3);

    let slow = options!(Slow, "slow");
    assert_eq!((slow.base.watchers, slow.base.rate), (10_000, Rate::PerSecond(10.0)));
    assert_eq!((slow.shares, slow.rounds, slow.stall), (vec![20], 5, None));
    assert_eq!(slow.base.mixture, Mixture { fill_bytes: 524_288, ..Mixture::default() });
    let slow = options!(
        Slow,
        "slow --share 5,20,50 --rounds 2 --receive-buffer 4KiB --fill 0 --stall 5s --watchers 100"
    );
    assert_eq!((slow.shares, slow.rounds, slow.stall.as_deref()), (vec![5, 20, 50], 2, Some("5s")));
    assert_eq!((slow.base.mixture.receive_buffer_bytes, slow.base.mixture.fill_bytes), (Some(4096), 0));

    let siege = Slow::from(*options!(Siege, "siege"));
    let hostile = siege.base.mixture.hostile.expect("a siege has hostile clients");
    assert_eq!((siege.base.watchers, hostile.kind, hostile.clients), (1000, HostileKind::Heads, 1000));
    let siege = "siege --by burst --clients 50 --burst 1MiB --watchers 10 --besiege 127.0.0.1:1";
    let hostile = Slow::from(*options!(Siege, siege)).base.mixture.hostile.expect("as above");
    assert_eq!((hostile.kind, hostile.clients, hostile.burst_bytes), (HostileKind::Burst, 50, 1 << 20));
    assert_eq!(hostile.at.map(|at| at.port()), Some(1));

    let mixed = options!(Mixed, "mixed").base;
    assert_eq!(mixed.namespaces(), ["mixed-0", "mixed-1", "mixed-2", "mixed-3"]);
    assert_eq!(
        (mixed.mixture.deaf_percent, mixed.mixture.readers, mixed.mixture.churn_per_second),
        (5, 4, 0.01)
    );
    assert!(mixed.probe && mixed.mixture.shapes && mixed.bookmarks);
    let mixed =
        options!(Mixed, "mixed --never-read 0 --churn 0.5 --namespaces 2 --namespace m --watchers 50").base;
    assert_eq!(
        (mixed.namespaces(), mixed.mixture.churn_per_second),
        (vec!["m-0".into(), "m-1".into()], 0.005)
    );

    let interests = options!(Interests, "interests");
    assert_eq!((interests.base.watchers, interests.by, interests.rounds), (10_000, By::Node, 5));
    assert_eq!(interests.rates, [Rate::PerSecond(500.0), Rate::Max]);
    assert_eq!(interests.sizes, [1, 100, 1000, 10_000]);
    assert_eq!(interests.base.resource.plural, "pods");
    let interests = options!(Interests, "interests --watchers 50 --by label --rate max,7 --sizes 20,3,60");
    assert_eq!((interests.by, interests.sizes), (By::Label, vec![3, 20, 50]));
    assert_eq!(interests.rates, [Rate::Max, Rate::PerSecond(7.0)]);
    assert_eq!(interests.base.resource.plural, "configmaps");
    assert_eq!(options!(Interests, "interests --sizes none --watchers 9").sizes, [9]);

    let storm = options!(Storm, "storm");
    assert_eq!((storm.base.watchers, storm.live, storm.rounds, storm.base.objects), (10_000, 100, 5, 10));
    assert!(storm.close == Close::Fin && storm.spread.is_zero() && storm.lists.is_none());
    let storm = options!(Storm, "storm --watchers 50 --live 3 --close rst --spread 1s --objects 4");
    assert_eq!((storm.base.watchers, storm.live, storm.base.objects), (50, 3, 4));
    assert!(storm.close == Close::Rst && storm.spread == Duration::from_secs(1));
    let storm = options!(Storm, "storm --lists --clients 7");
    assert_eq!((storm.lists, storm.base.objects), (Some(Lists { clients: 7, objects: 100_000 }), 10));
    let lists = options!(Storm, "storm --objects 9 --lists").lists;
    assert_eq!(lists, Some(Lists { clients: 50, objects: 9 }));

    let floor = options!(Floor, "floor");
    assert_eq!((floor.modes.len(), floor.base.events_per_write, floor.rounds), (3, None, 1));
    let floor = options!(Floor, "floor --mode uring --events-per-write 64 --server-cpu 2-3 --rounds 5");
    assert_eq!((floor.modes, floor.base.events_per_write), (vec![Mode::Uring], Some(64)));
    assert_eq!((floor.server_cpu, floor.rounds), (vec![2, 3], 5));

    let compare = options!(Compare, "compare http://127.0.0.1:1 floor");
    assert_eq!((compare.subjects.len(), compare.watchers, compare.rounds), (2, vec![1000], 5));
    assert_eq!(compare.base.duration, Duration::from_secs(5));
    let compare = options!(
        Compare,
        "compare http://x --watchers 100,2000 floor:send --rounds 3 --out f --server-cpu 0 --rate max"
    );
    assert_eq!(compare.subjects[1], Subject::Floor(Some(Mode::Send)));
    assert_eq!((compare.watchers, compare.rounds, compare.server_cpu), (vec![100, 2000], 3, vec![0]));
    assert_eq!((compare.base.rate, compare.base.out), (Rate::Max, Some(PathBuf::from("f"))));

    assert_eq!(options!(Lag, "lag --rate 50").etcd, "http://127.0.0.1:2379");
    let Ok(Job::Report(report)) = parsed("report a.json --html x.html folder --title Night") else {
        panic!("valid")
    };
    assert_eq!(report.paths, [PathBuf::from("a.json"), PathBuf::from("folder")]);
    assert_eq!((report.html.to_str(), report.title.as_str()), (Some("x.html"), "Night"));
}

#[test]
fn a_bad_option_is_one_line_with_name_value_and_mend() {
    for (args, parts) in [
        ("fanout --watchers many", &["'many' for '--watchers <WATCHERS>'"][..]),
        ("fanout --watchers 0", &["'0' for '--watchers <WATCHERS>'", "1..=10000000"]),
        ("fanout --rate=-1", &["--rate", "-1", "give writes a second"]),
        ("fanout --rate fast", &["fast", "give writes a second, for example 20 or 0.5, or max"]),
        ("fanout --duration 5d", &["5d", "from 100ms to 30 days"]),
        ("fanout --size big", &["big", "at most 16MiB"]),
        ("fanout --client-cpu 5-2", &["5-2", "1,3 or 2-5"]),
        ("fanout --watcher 5", &["--watcher", "--watchers"]),
        ("fanout --watchers", &["--watchers"]),
        (
            "fanout --writers 11",
            &["--writers \"11\": every writer needs an object of its own", "raise --objects"],
        ),
        ("fanout --namespaces 2000", &["--namespaces \"2000\": 1000 watchers cannot cover them all"]),
        ("fanout --server https://x", &["https://x", "TLS is not spoken here"]),
        ("fanout --floor on", &["on", "give send, writev, uring, best or off"]),
        ("fanout --resource pods", &["pods", "v1/PLURAL/KIND"]),
        ("fanout --namespace A", &["A", "a-z, 0-9"]),
        ("fanout --seed=-1", &["--seed"]),
        ("fanout stray", &["stray"]),
        ("initial --rate 5", &["--rate"]),
        ("initial --timeout 0", &["--timeout", "100ms"]),
        ("initial --objects 0", &["--objects"]),
        ("idle --rate 5", &["--rate"]),
        ("idle --watchers 1 --processes 2", &["--processes \"2\": more than there are --watchers"]),
        ("slow --share 0", &["--share"]),
        (
            "slow --share 5 --watchers 10",
            &["--share \"5\": 0 of 10 watchers would never read: raise --watchers"],
        ),
        ("slow --bookmarks", &["--bookmarks"]),
        ("slow --fill much", &["much", "1024MiB"]),
        ("slow --by heads", &["--by"]),
        ("siege --share 5", &["--share"]),
        ("siege --by night", &["night", "heads", "burst"]),
        ("siege --besiege 192.0.2.1:80", &["address of this machine"]),
        ("mixed --field-selector a=b", &["--field-selector"]),
        ("mixed --churn 101", &["from 0 to 100"]),
        ("mixed --never-read 100", &["--never-read"]),
        ("interests --by color", &["color", "namespace"]),
        ("interests --resource configmaps", &["only pods have a node"]),
        ("interests --writers 2", &["the smallest table has 1: see --sizes"]),
        ("interests --objects 5", &["--objects"]),
        ("interests --rate 5,", &["give writes a second"]),
        ("storm --close hard", &["hard", "fin", "rst"]),
        ("storm --rate max", &["a storm is measured at a steady rate"]),
        ("storm --writers 11", &["there are 10"]),
        ("storm --duration 5s", &["--duration"]),
        ("storm --live 0", &["--live"]),
        ("floor --mode sendto", &["sendto", "give send, writev, uring or all"]),
        ("floor --events-per-write 0", &["1..=1024"]),
        ("floor --server http://x", &["--server"]),
        ("compare floor", &["subjects \"1\": give two at least"]),
        ("compare floor server", &["server", "a command line with {port} in it"]),
        ("compare floor floor --server http://x", &["--server"]),
        ("compare floor floor --watchers 1,,2", &["--watchers"]),
        ("report", &["PATH"]),
        ("report a --watchers 5", &["--watchers"]),
        ("report a --html", &["--html"]),
        ("load", &["load"]),
    ] {
        let line = parsed(args).expect_err(args);
        assert_eq!(line.lines().count(), 1, "{line}");
        for part in parts {
            assert!(line.contains(part), "{args}: {part}: {line}");
        }
    }
}
