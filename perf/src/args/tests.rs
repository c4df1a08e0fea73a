//! The command line: every option, and what is wrong with bad ones.

use super::*;

fn fanout(args: &str) -> Result<Fanout, String> {
    match parse(["fanout"].into_iter().chain(args.split_ascii_whitespace())) {
        Ok(Job::Fanout(fanout)) => Ok(*fanout),
        Ok(other) => Err(format!("{other:?}")),
        Err(bad) => Err(bad.to_string()),
    }
}

#[test]
fn defaults_and_every_option() {
    let plain = fanout("").expect("no option is needed");
    assert_eq!((plain.watchers, plain.rate, plain.size_bytes), (1000, Rate::PerSecond(20.0), 1024));
    let full = fanout(
        "--server http://localhost:9 --watchers 40000 --rate max --duration 1m --warmup 0 --drain=2s --size 4KiB \
         --resource v1/pods/Pod --namespace load --namespaces 3 --objects 7 --label-selector half=odd \
         --field-selector metadata.name={object} --threads 2 --processes 4 --client-cpu 1,3-5 --sources 2 \
         --server-pid 12 --json --seed 9 --bookmarks --connect-rate 100 --token-file /t --writers 3 --pipeline 1 \
         --i-own-this-server",
    )
    .expect("all are valid");
    assert_eq!(full.namespaces, ["load-0", "load-1", "load-2"]);
    assert_eq!(full.client_cpus, [1, 3, 4, 5]);
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
    assert_eq!(full.label_selector.as_deref(), Some("half=odd"));
    assert!(full.json && full.bookmarks && full.anywhere);
}

#[test]
fn initial_has_its_own_options() {
    let initial = |args: &str| match parse(["initial"].into_iter().chain(args.split_ascii_whitespace())) {
        Ok(Job::Initial(initial)) => Ok(*initial),
        Ok(other) => Err(format!("{other:?}")),
        Err(bad) => Err(bad.to_string()),
    };
    let plain = initial("").expect("no option is needed");
    assert_eq!((plain.base.watchers, plain.base.objects, plain.base.size_bytes), (200, 2000, 1024));
    assert!(!plain.list && !plain.gzip && plain.base.namespaces == ["initial"]);
    let full = initial(
        "--server http://localhost:9 --watchers 7 --objects 3 --size 4KiB --list --gzip --timeout 5s --json \
         --namespace n --writers 2 --threads 2 --client-cpu 0 --seed 1 --server-pid 5 --resource v1/pods/Pod",
    )
    .expect("all are valid");
    assert_eq!((full.base.watchers, full.base.objects, full.base.writers), (7, 3, 2));
    assert!(full.list && full.gzip && full.base.json && full.timeout == Duration::from_secs(5));
    assert_eq!(
        initial("--rate 5").expect_err("nothing is written at a rate"),
        "--rate: not an option of initial; see revcast-perf --help"
    );
    assert!(initial("--timeout 0").is_err() && initial("--objects 0").is_err());
}

#[test]
fn every_option_with_a_value_is_known() {
    for option in OPTIONS {
        let outcome = set(&mut Fanout::default(), option, "1".to_owned());
        assert!(outcome.is_ok() || outcome.is_err_and(|bad| bad.value.is_some()), "{option}");
    }
}

#[test]
fn a_bad_option_is_one_line_with_name_value_and_mend() {
    for (args, expected) in [
        ("--watchers many", r#"--watchers "many": give a whole number from 1 to 10000000"#),
        ("--watchers 0", r#"--watchers "0": give a whole number from 1 to 10000000"#),
        ("--rate -1", r#"--rate "-1": give writes a second, for example 20 or 0.5, or max"#),
        ("--duration 5d", r#"--duration "5d": give a time, for example 30s or 2m, from 100ms to 30 days"#),
        ("--size big", r#"--size "big": give bytes, KiB or MiB, for example 1KiB, at most 16MiB"#),
        ("--client-cpu 5-2", r#"--client-cpu "5-2": give CPU numbers, for example 1 or 1,3 or 2-5"#),
        ("--watcher 5", "--watcher: not an option of fanout; see revcast-perf --help"),
        ("--watchers", "--watchers: a value is missing; see revcast-perf --help"),
        (
            "--writers 11",
            r#"--writers "11": every writer needs an object of its own, there are 10: raise --objects"#,
        ),
    ] {
        assert_eq!(fanout(args).expect_err(args), expected);
    }
    for args in
        ["--server https://x", "--resource pods", "--namespace A", "--seed -1", "--namespaces 2000", "stray"]
    {
        let line = fanout(args).expect_err(args);
        assert_eq!(line.lines().count(), 1, "{line}");
    }
    assert!(matches!(parse(["--help"]), Ok(Job::Help)));
    assert!(parse(["load"]).is_err_and(|bad| bad.to_string().contains("load")));
}
