//! Options from every origin: good and bad values, precedence, and errors of one line.

#![allow(clippy::unwrap_used)]
use super::*;
use crate::runtime::SendMode;

const CPUS: [usize; 2] = [0, 1];
const PATH: &str = "/etc/revcast.toml";

/// A configuration from the three origins, each as an operator writes it.
fn build(flags: &[(&str, &str)], env: &[(&str, &str)], file: &str) -> Result<Config, ConfigError> {
    let given =
        flags.iter().map(|(name, value)| (table::index_of(name).expect(name), (*value).to_owned())).collect();
    let env = env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    Config::assemble(&Flags { given }, &variables(env)?, Some((Path::new(PATH), file)), &CPUS)
}

/// Every setting but where it came from.
fn shown(config: &Config) -> Vec<String> {
    ROWS.iter().map(|row| format!("{}: {:?}", row.name, (row.show)(config))).collect()
}

#[test]
fn defaults_are_those_of_the_contract() {
    let config = build(&[], &[], "").unwrap();
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.server.admin_listen.unwrap().to_string(), "127.0.0.1:8081");
    assert_eq!(config.server.cpus, CPUS);
    assert_eq!(config.embedded.data_dir, None);
    assert_eq!(config.ring.events, 131_072);
    assert_eq!(config.ring.bytes, 256 << 20);
    assert_eq!(config.server.bookmark_interval, Duration::from_secs(60));
    assert_eq!(config.server.heartbeat_interval, Some(Duration::from_secs(25)));
    assert_eq!(config.server.stall_timeout, Some(Duration::from_secs(60)));
    assert_eq!((config.server.send_buffer, config.server.send_mode), (Some(128 << 10), SendMode::Auto));
    assert_eq!(config.embedded.compact_interval, Some(Duration::from_secs(300)));
    assert_eq!(config.serve.min_watch_timeout, Duration::from_secs(1800));
    assert!(config.serve.watch_list_gzip);
    for file in ["watch_list_gzip = false", "watch_list_gzip = \"false\""] {
        assert!(!build(&[], &[], file).unwrap().serve.watch_list_gzip, "{file}");
    }
    assert_eq!(config.event_ttl, Some(Duration::from_secs(3600)));
    assert_eq!(
        (config.server.drain_delay, config.server.drain_grace),
        (Duration::ZERO, Duration::from_secs(10))
    );
    assert_eq!((config.server.max_watchers, config.server.max_memory), (None, None));
    assert_eq!(config.resources, []);
    assert_eq!(config.log.level, LogLevel::Info);
    assert_eq!(config.warnings(), Vec::<String>::new());
}

#[test]
fn good_values_are_the_same_from_every_origin() {
    for (name, value) in [
        ("listen", "0.0.0.0:9000"),
        ("admin-listen", "none"),
        ("shards", "7"),
        ("pin-cpus", "2-5"),
        ("data-dir", "/var/lib/a \"b\" \\c"),
        ("ring-events", "1024"),
        ("ring-events", "16777216"),
        ("ring-bytes", "500MB"),
        ("max-watchers", "10000"),
        ("max-memory", "256MiB"),
        ("resource", "example.com/v1/widgets/Widget/namespaced"),
        ("bookmark-interval", "1m30s"),
        ("heartbeat-interval", "0"),
        ("stall-timeout", "0"),
        ("send-buffer", "64KiB"),
        ("send-mode", "io_uring"),
        ("compact-interval", "0"),
        ("min-watch-timeout", "1h"),
        ("event-ttl", "0s"),
        ("drain-delay", "5s"),
        ("drain-grace", "500ms"),
        ("take-over", "true"),
        ("log-level", "debug"),
        ("token-auth-file", "/etc/tokens"),
        ("authorization-rules", "/etc/rules"),
        ("anonymous-auth", "true"),
        ("insecure", "true"),
        ("oidc-username-claim", "email"),
        ("log-format", "json"),
        ("audit-log", "-"),
        ("audit-log", "/var/log/a \"b\""),
    ] {
        let row = &ROWS[table::index_of(name).unwrap()];
        let file = format!("{} = {}", row.key(), quoted(value));
        let flag = build(&[(name, value)], &[], "").unwrap();
        let env = build(&[], &[(&row.variable(), value)], "").unwrap();
        let file = build(&[], &[], &file).unwrap();
        assert_ne!(shown(&flag), shown(&build(&[], &[], "").unwrap()), "{name} {value}");
        assert_eq!(shown(&flag), shown(&env), "{name} {value}");
        assert_eq!(shown(&flag), shown(&file), "{name} {value}");
        assert_eq!(flag.origin(name), &Origin::Flag(row.flag()));
        assert_eq!(env.origin(name), &Origin::Env(row.variable()));
        assert_eq!(file.origin(name), &Origin::File { path: PATH.into(), line: 1 });
    }
}

#[test]
fn bad_values_are_one_line_that_names_them_from_every_origin() {
    for (name, value) in [
        ("listen", "8080"),
        ("admin-listen", "off"),
        ("shards", "0"),
        ("shards", "257"),
        ("pin-cpus", "0,0"),
        ("data-dir", ""),
        ("ring-events", "1023"),
        ("ring-events", "16777217"),
        ("ring-events", "-1"),
        ("ring-bytes", "1023KiB"),
        ("ring-bytes", "lots"),
        ("max-watchers", "0"),
        ("max-memory", "1MiB"),
        ("resource", ""),
        ("bookmark-interval", "999ms"),
        ("bookmark-interval", "61m"),
        ("heartbeat-interval", "1ms"),
        ("heartbeat-interval", "2h"),
        ("stall-timeout", "10ms"),
        ("send-buffer", "1KiB"),
        ("send-buffer", "large"),
        ("send-mode", "sendfile"),
        ("compact-interval", "1ms"),
        ("min-watch-timeout", "0"),
        ("event-ttl", "forever"),
        ("drain-delay", "11m"),
        ("drain-grace", "11m"),
        ("take-over", "maybe"),
        ("log-level", "trace"),
        ("token-auth-file", ""),
        ("oidc-issuer-url", "http://issuer.example"),
        ("oidc-issuer-url", "https://"),
        ("oidc-client-id", ""),
        ("anonymous-auth", "maybe"),
        ("insecure", "yes"),
        ("log-format", "xml"),
        ("audit-log", ""),
        ("listen", "a\nb\r\u{1b}"),
    ] {
        let row = &ROWS[table::index_of(name).unwrap()];
        let file = format!("# a line\n\n{} = {}", row.key(), quoted(value));
        for (error, place) in [
            (build(&[(name, value)], &[], ""), row.flag()),
            (build(&[], &[(&row.variable(), value)], ""), row.variable()),
            (build(&[], &[], &file), format!("{PATH}:3: {}", row.key())),
        ] {
            let line = error.expect_err(name).to_string();
            assert!(line.starts_with(&place), "{line}");
            assert!(line.contains(&format!("\"{}\"", one_line(value))), "{line}");
            assert!(line.contains("; ") && line.split("; ").all(|part| !part.is_empty()), "{line}");
            assert!(!line.contains(char::is_control), "{line}");
        }
    }
}

#[test]
fn errors_read_well() {
    for (error, says) in [
        (
            build(&[("ring-events", "12")], &[], ""),
            "--ring-events \"12\": too small; give a whole number from 1024 to 16777216",
        ),
        (
            build(&[], &[("REVCAST_BOOKMARK_INTERVAL", "60")], ""),
            "REVCAST_BOOKMARK_INTERVAL=\"60\": a time without a unit; give a time from 1s to 1h such as 500ms, 60s, \
             5m, 1h or 1m30s",
        ),
        (
            build(&[], &[], "listen = true"),
            "/etc/revcast.toml:1: listen = \"true\": cannot be a TOML boolean; write listen = \"ADDR\"",
        ),
        (
            build(&[("watch-list-gzip", "on")], &[], ""),
            "--watch-list-gzip \"on\": neither true nor false; give true or false",
        ),
        (
            build(&[], &[], "\nring-events = 4096"),
            "/etc/revcast.toml:2: ring-events = \"4096\": no such key; did you mean ring_events?",
        ),
        (
            build(&[], &[("REVCAST_RING_EVENT", "1")], ""),
            "REVCAST_RING_EVENT=\"1\": no such variable; did you mean REVCAST_RING_EVENTS?",
        ),
        (
            build(&[("shards", "3"), ("pin-cpus", "0,1")], &[], ""),
            "--pin-cpus \"0,1\": 2 CPUs for 3 shards; name 3 CPUs, or leave out shards (--shards)",
        ),
        (
            build(&[], &[("REVCAST_LISTEN", "0.0.0.0:8081")], ""),
            "REVCAST_LISTEN=\"0.0.0.0:8081\": listen 0.0.0.0:8081 and admin-listen 127.0.0.1:8081 are one address; \
             give them two ports, or --admin-listen none",
        ),
        (
            build(&[("ring-bytes", "1MiB"), ("ring-events", "1000000")], &[], ""),
            "--ring-bytes \"1MiB\": the slots of 1048576 ring-events alone take 8MiB; give ring-bytes 8MiB or more, \
             or fewer ring-events",
        ),
    ] {
        assert_eq!(error.unwrap_err().to_string(), says);
    }
}

#[test]
fn mistakes_of_the_file_have_their_line() {
    for (text, place) in [
        ("listen = ", "/etc/revcast.toml:1: "),
        ("shards = 1\nshards = 2", "/etc/revcast.toml:2: "),
        ("a = 1", "/etc/revcast.toml:1: a = \"1\": no such key"),
        ("config = \"x\"", "/etc/revcast.toml:1: config = \"x\": no such key"),
        ("\n[server]\nlisten = \"a\"", "/etc/revcast.toml:2: server = \"{...}\": no such key"),
        ("shards = 99999999999999999999999999999999999999999999", "/etc/revcast.toml:1: "),
        ("shards = [1]", "/etc/revcast.toml:1: shards = \"[...]\": cannot be a TOML array"),
        ("ring_events = 1e6", "/etc/revcast.toml:1: ring_events = \"1e6\": cannot be a TOML float"),
        ("resource = [\n  \"a/b\",\n  7\n]", "/etc/revcast.toml:3: resource = \"7\": cannot be"),
        ("[[resource]]\nversion = \"v1\"", "/etc/revcast.toml:1: resource: plural is missing; add plural"),
        (
            "[[resource]]\nshortNames = []",
            "/etc/revcast.toml:2: shortNames = \"[...]\": no such key of a resource",
        ),
        (
            "[[resource]]\ncategories = [1]",
            "/etc/revcast.toml:2: categories = \"1\": cannot be a TOML integer",
        ),
        // Two mistakes: the first line is reported, not the first name in the alphabet.
        ("zzz = 1\naaa = 1", "/etc/revcast.toml:1: zzz"),
    ] {
        let line = build(&[], &[], text).expect_err(text).to_string();
        assert!(line.starts_with(place), "{line}");
        assert!(!line.contains(char::is_control), "{line}");
    }
    let near = build(&[], &[], "[[resource]]\nselectableFields = []").unwrap_err().to_string();
    assert!(near.ends_with("did you mean selectable_fields?"), "{near}");
}

#[test]
fn a_stronger_origin_wins() {
    let file = "shards = 1\nlog_level = \"error\"\nring_events = 0x1000\nresource = [\"f1\", \"f2\"]";
    let env = [("REVCAST_SHARDS", "2"), ("REVCAST_LOG_LEVEL", "warn"), ("REVCAST_RESOURCE", "e1,e2")];
    let flags = [("shards", "3"), ("shards", "4"), ("resource", "c1"), ("resource", "c2")];
    let texts = |config: &Config| -> Vec<String> {
        config.resources.iter().map(|entry| entry.form.to_string()).collect()
    };

    let config = build(&[], &[], file).unwrap();
    assert_eq!((config.shards(), config.log.level, config.ring.events), (1, LogLevel::Error, 4096));
    assert_eq!(texts(&config), ["f1", "f2"]);

    let config = build(&[], &env, file).unwrap();
    assert_eq!((config.shards(), config.log.level, config.ring.events), (2, LogLevel::Warn, 4096));
    assert_eq!(texts(&config), ["e1", "e2"]);

    // The last flag wins; resources of one origin add up.
    let config = build(&flags, &env, file).unwrap();
    assert_eq!((config.shards(), config.log.level, config.ring.events), (4, LogLevel::Warn, 4096));
    assert_eq!(texts(&config), ["c1", "c2"]);
    assert_eq!(config.origin("ring-events"), &Origin::File { path: PATH.into(), line: 3 });
    assert_eq!(config.resources[1].origin, Origin::Flag("--resource".to_owned()));
}

#[test]
fn a_resource_may_be_a_table() {
    let config = build(
        &[],
        &[],
        r#"
[[resource]]
group = "example.com"
version = "v1"
plural = "widgets"
kind = "Widget"
scope = "namespaced"
short_names = ["wd"]
categories = ["all"]
selectable_fields = ["spec.color"]
"#,
    )
    .unwrap();
    let [entry] = config.resources.as_slice() else { panic!("one resource") };
    assert_eq!(entry.origin, Origin::File { path: PATH.into(), line: 2 });
    assert_eq!(entry.form.to_string(), "example.com/v1/widgets/Widget/namespaced");
    let ResourceForm::Table(table) = &entry.form else { panic!("a table") };
    assert_eq!(table.short_names, ["wd"]);
    assert_eq!(table.categories, ["all"]);
    assert_eq!(table.selectable_fields, ["spec.color"]);
}

#[test]
fn what_config_prints_is_what_it_reads() {
    let file = r#"
data_dir = "/tmp/a \"quoted\" \\ \t folder"
resource = ["a/v1/bs/B/cluster", { version = "v2", plural = "cs", kind = "C", scope = "cluster", categories = ["x\ny"] }]
compact_interval = "0"
ring_bytes = 1048577
ring_events = 3000
"#;
    let env =
        [("REVCAST_EVENT_TTL", "90s"), ("REVCAST_ADMIN_LISTEN", "none"), ("REVCAST_MAX_WATCHERS", "12")];
    let flags = [("pin-cpus", "5,1-4"), ("min-watch-timeout", "1h1ms"), ("config", PATH)];
    for (flags, env, file) in [(&flags[..], &env[..], file), (&[], &[], "")] {
        let first = build(flags, env, file).unwrap();
        let printed = first.to_toml();
        let second = build(&flags[flags.len().min(2)..], &[], &printed)
            .unwrap_or_else(|error| panic!("{error}\n{printed}"));
        assert_eq!(shown(&first), shown(&second), "{printed}");
        assert_eq!(first.server.cpus, second.server.cpus);
        for row in ROWS.iter().filter(|row| row.in_file) {
            assert!(printed.contains(&format!("{} = ", row.key())), "{} in {printed}", row.name);
        }
    }
    let printed = build(&flags, &env, file).unwrap().to_toml();
    for line in [
        "event_ttl = \"1m30s\"  # REVCAST_EVENT_TTL\n",
        "ring_events = 4096  # /etc/revcast.toml:6\n",
        "listen = \"127.0.0.1:8080\"  # default\n",
        "min_watch_timeout = \"1h1ms\"  # --min-watch-timeout\n",
        "# config: /etc/revcast.toml (--config)\n",
    ] {
        assert!(printed.contains(line), "{line} in {printed}");
    }
}

#[test]
fn shards_take_the_allowed_cpus_in_order() {
    let place = |flags: &[(&str, &str)], cpus: &[usize]| {
        let given = flags.iter().map(|(n, v)| (table::index_of(n).unwrap(), (*v).to_owned())).collect();
        Config::assemble(&Flags { given }, &[], None, cpus).unwrap().server.cpus.clone()
    };
    assert_eq!(place(&[], &[3, 5]), [3, 5]);
    assert_eq!(place(&[("shards", "1")], &[3, 5]), [3]);
    assert_eq!(place(&[("shards", "3")], &[3, 5]), [3, 5, 3]);
    assert_eq!(place(&[("pin-cpus", "9,7")], &[3, 5]), [9, 7]);
    assert_eq!(place(&[], &(0..1000).collect::<Vec<_>>()).len(), 256);
    assert_eq!(place(&[], &[]), [0]);
}

#[test]
fn listeners_may_share_a_port_only_on_two_addresses() {
    let pair = |listen, admin| build(&[("listen", listen), ("admin-listen", admin)], &[], "");
    assert!(pair("127.0.0.1:80", "127.0.0.1:80").is_err());
    assert!(pair("127.0.0.1:80", "0.0.0.0:80").is_err());
    assert!(pair("[::]:80", "127.0.0.1:80").is_err());
    assert!(pair("127.0.0.1:80", "127.0.0.2:80").is_ok());
    assert!(pair("127.0.0.1:0", "127.0.0.1:0").is_ok());
    assert!(pair("127.0.0.1:80", "none").is_ok());
}

#[test]
fn a_small_ring_is_a_warning_before_it_is_an_error() {
    // The minimum of one with the default of the other is accepted.
    for flags in [[("ring-bytes", "1MiB")], [("ring-events", "16777216")]] {
        let warnings = build(&flags, &[], "").unwrap().warnings();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("ring-bytes"), "{warnings:?}");
    }
    assert_eq!(build(&[("ring-events", "1048576")], &[], "").unwrap().warnings().len(), 0);
}

#[test]
fn an_admin_listener_on_a_network_without_rules_is_warned_of() {
    for (admin, rules, warned) in [
        ("0.0.0.0:8081", false, true),
        ("[::]:8081", false, true),
        ("192.0.2.1:8081", false, true),
        ("0.0.0.0:8081", true, false),
        ("127.0.0.1:8081", false, false),
        ("none", false, false),
    ] {
        let mut flags = vec![("admin-listen", admin), ("insecure", "true")];
        flags.extend(rules.then_some(("authorization-rules", "/etc/rules.toml")));
        let warnings = build(&flags, &[], "").unwrap().warnings();
        let found = warnings.iter().any(|line| line.contains("/compact") && line.contains("rules.toml"));
        assert_eq!((found, warnings.len()), (warned, usize::from(warned)), "{admin} {rules}: {warnings:?}");
    }
}

#[test]
fn kubernetes_service_links_are_not_ours() {
    let links = [
        ("REVCAST_SERVICE_HOST", "10.0.0.1"),
        ("REVCAST_SERVICE_PORT", "8080"),
        ("REVCAST_SERVICE_PORT_HTTP", "8080"),
        ("REVCAST_PORT", "tcp://10.0.0.1:8080"),
        ("REVCAST_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
        ("REVCAST_PORT_8080_TCP_ADDR", "10.0.0.1"),
        ("REVCAST_ADMIN_PORT_8081_TCP_PROTO", "tcp"),
    ];
    assert!(build(&[], &links, "").is_ok());
    assert!(build(&[], &[("REVCAST_PORTS", "1")], "").is_err());
    assert!(build(&[], &[("REVCAST_PORT_X", "1")], "").is_err());
    for row in &ROWS {
        assert!(!is_service_link(&row.variable()), "{}", row.name);
    }
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    use std::os::unix::ffi::OsStringExt;
    let bad = OsString::from_vec(b"127.0.0.1\xff:1".to_vec());
    let line = variables([("REVCAST_LISTEN".into(), bad.clone())]).unwrap_err().to_string();
    assert!(line.starts_with("REVCAST_LISTEN=") && line.contains("not UTF-8"), "{line}");
    // Somebody else's variable may hold anything.
    assert_eq!(variables([(bad.clone(), bad)]), Ok(Vec::new()));
}

#[test]
fn files_and_folders() {
    let folder = std::env::temp_dir().join(format!("revcast-config-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("revcast.toml");
    std::fs::write(&file, "shards = 1\n").unwrap();
    let load = |given: &[(&str, &Path)], env: &[(&str, &Path)]| {
        let given = given
            .iter()
            .map(|(name, path)| (table::index_of(name).unwrap(), path.to_str().unwrap().to_owned()))
            .collect();
        let env = env.iter().map(|(name, path)| (OsString::from(name), path.as_os_str().to_owned()));
        Config::load(&Flags { given }, env, &CPUS)
    };

    assert_eq!(load(&[("config", &file)], &[]).unwrap().shards(), 1);
    assert_eq!(load(&[], &[("REVCAST_CONFIG", &file)]).unwrap().shards(), 1);
    assert!(load(&[("data-dir", &folder)], &[]).is_ok());
    assert!(load(&[("data-dir", &folder.join("new"))], &[]).is_ok());
    let missing = folder.join("none.toml");
    assert!(load(&[("config", &file)], &[("REVCAST_CONFIG", &missing)]).is_ok(), "the flag wins");
    for (error, says) in [
        (load(&[("data-dir", &file)], &[]), "not a folder"),
        (load(&[("config", &missing)], &[]), "cannot be read: No such file"),
        (load(&[("config", &folder)], &[]), "cannot be read: Is a directory"),
        (load(&[("config", Path::new(""))], &[]), "--config \"\": not a path"),
    ] {
        let line = error.expect_err(says).to_string();
        assert!(line.contains(says), "{line}");
    }
    std::fs::write(&file, b"\xff\xfe").unwrap();
    assert!(load(&[("config", &file)], &[]).unwrap_err().to_string().contains("not UTF-8 at byte 0"));
    std::fs::write(&file, vec![b'#'; (1 << 20) + 1]).unwrap();
    assert!(load(&[("config", &file)], &[]).unwrap_err().to_string().contains("larger than 1 MiB"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn options_of_etcd_that_contradict_each_other_are_refused() {
    const HTTP: (&str, &str) = ("etcd-endpoints", "http://127.0.0.1:2379");
    const HTTPS: (&str, &str) = ("etcd-endpoints", "https://127.0.0.1:2379");
    for (flags, name) in [
        (&[("etcd-user", "u")][..], "etcd_user"),
        (&[("etcd-ca", "/ca")], "etcd_ca"),
        (&[HTTP, ("data-dir", "/tmp/x")], "data_dir"),
        (&[HTTP, ("etcd-user", "u")], "etcd_user"),
        (&[HTTP, ("etcd-password-file", "/p")], "etcd_password_file"),
        (&[HTTP, ("etcd-ca", "/ca")], "etcd_ca"),
        (&[HTTPS], "etcd_endpoints"),
        (&[HTTPS, ("etcd-ca", "/ca"), ("etcd-cert", "/c")], "etcd_cert"),
        (&[HTTPS, ("etcd-ca", "/ca"), ("etcd-key", "/k")], "etcd_key"),
        (&[("etcd-endpoints", "127.0.0.1:2379")], "etcd_endpoints"),
        (&[HTTP, ("etcd-prefix", "registry")], "etcd_prefix"),
        (&[HTTP, ("etcd-watch", "some")], "etcd_watch"),
        (&[HTTP, ("warm-start", "slow")], "warm_start"),
        (&[("etcd-servers-overrides", "/events#")], "etcd_servers_overrides"),
        (&[HTTP, ("etcd-servers-overrides", "events#")], "etcd_servers_overrides"),
        (&[HTTP, ("etcd-cluster-id", "xyz")], "etcd_cluster_id"),
    ] {
        let error = build(flags, &[], "").unwrap_err().to_string();
        let name_or_flag = error.contains(name) || error.contains(&name.replace('_', "-"));
        assert!(name_or_flag && !error.contains('\n'), "{flags:?}: {error}");
    }
    let flags = [HTTPS, ("etcd-ca", "/ca"), ("etcd-cert", "/c"), ("etcd-key", "/k"), ("etcd-prefix", "/a/")];
    let config = build(&flags, &[], "").unwrap();
    let etcd = config.etcd().unwrap();
    assert_eq!((etcd.prefix.as_str(), etcd.endpoints.as_slice()), ("/a", &[HTTPS.1.to_owned()][..]));
    assert!(build(&[], &[], "").unwrap().etcd().is_none());
}

#[test]
fn a_resource_in_another_etcd_must_be_served() {
    let served = [("", "events"), ("apps", "deployments"), ("events.k8s.io", "events")];
    let check = |value| {
        let flags = [("etcd-endpoints", "http://127.0.0.1:2379"), ("etcd-servers-overrides", value)];
        build(&flags, &[], "").unwrap().check_overrides(&served)
    };
    assert_eq!(check("/events#http://a:1,apps/deployments#"), Ok(()));
    for (value, says) in [
        ("/deployments#", "/deployments is not served; did you mean apps/deployments?"),
        ("/events#,/gadgets#", "/gadgets is not served; name a served resource as GROUP/PLURAL"),
    ] {
        let line = check(value).unwrap_err().to_string();
        assert!(line.contains(says) && line.starts_with("--etcd-servers-overrides"), "{line}");
    }
}

#[test]
fn options_of_signed_tokens_come_together() {
    let all = [
        ("oidc-issuer-url", "https://issuer.example"),
        ("oidc-client-id", "revcast"),
        ("oidc-jwks-file", "/etc/jwks"),
    ];
    let config = build(&all, &[], "").unwrap();
    let options = config.auth(false, false).unwrap();
    assert!(options.has_authentication() && !options.anonymous);
    let (oidc, file) = options.oidc.unwrap();
    assert_eq!(
        (oidc.username_claim.as_str(), oidc.username_prefix.as_str()),
        ("sub", "https://issuer.example#")
    );
    assert_eq!(file, Path::new("/etc/jwks"));
    for left_out in 0..3 {
        let mut some = all.to_vec();
        let (name, _) = some.remove(left_out);
        let line = build(&some, &[], "").unwrap_err().to_string();
        assert!(line.contains(&format!("has no effect without --{name}; give --oidc-issuer-url")), "{line}");
    }
    assert!(build(&[("oidc-groups-claim", "groups")], &[], "").is_err());
    assert!(build(&[&all[..], &[("oidc-groups-prefix", "x:")]].concat(), &[], "").is_err());
    assert!(
        build(&[], &[], "").unwrap().auth(false, false).unwrap().anonymous,
        "on loopback everybody comes in"
    );
}

#[test]
fn what_objects_are_is_one_of_few_words() {
    let release =
        |text: &str| build(&[("kubernetes-version", text)], &[], "").map(|config| config.kubernetes_version);
    assert_eq!(release("1.33").unwrap().minor(), 33);
    assert_eq!(build(&[], &[], "").unwrap().kubernetes_version.minor(), 36);
    for wrong in ["1.32", "1.38", "36", "v1.36", "1.36.2", ""] {
        let told = release(wrong).unwrap_err().to_string();
        let expected =
            format!("--kubernetes-version {wrong:?}: no such release; give 1.33, 1.34, 1.35, 1.36 or 1.37");
        assert_eq!(told, expected);
    }
    let form = |text: &str| build(&[], &[("REVCAST_STORAGE_MEDIA_TYPE", text)], "");
    assert_eq!(form("protobuf").unwrap().serve.storage_media_type, StorageMediaType::Protobuf);
    assert_eq!(build(&[], &[], "").unwrap().serve.storage_media_type, StorageMediaType::Json);
    let told = form("application/json").unwrap_err().to_string();
    assert!(told.ends_with("no such form of storage; give json or protobuf"), "{told}");
    assert_eq!(
        build(&[], &[], "kubernetes_version = \"1.37\"").unwrap().kubernetes_version.to_string(),
        "1.37"
    );
}

#[test]
fn a_take_over_needs_an_address_and_history() {
    const ETCD: (&str, &str) = ("etcd-endpoints", "http://127.0.0.1:2379");
    let problem = |flags: &[(&str, &str)]| build(flags, &[], "").map(|_| ()).unwrap_err().to_string();
    let why = problem(&[("take-over", "true"), ("listen", "127.0.0.1:0"), ETCD]);
    assert!(why.contains("is another port at each start") && why.contains("--take-over"), "{why}");
    let why = problem(&[("take-over", "true"), ("warm-start", "off"), ETCD]);
    assert!(why.contains("give --warm-start full"), "{why}");
    assert!(build(&[("take-over", "true"), ETCD], &[], "").unwrap().take_over);
    // Where there is no etcd it is refused when somebody runs there.
    assert!(build(&[("take-over", "true")], &[], "").unwrap().take_over);
}
