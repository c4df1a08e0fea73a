//! What stands in `ops/` is what this revcast takes: files parse, options exist and their values are good, and times fit
//! each other. No Docker and no Kubernetes runs here: that an image builds is not shown.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use revcast::api::yaml;
use revcast::args::{self, parse};
use revcast::audit::AuditTarget;
use revcast::auth::credentials::Presented;
use revcast::auth::{Access, Guard, Options};
use revcast::config::Config;
use revcast::http::request::Method;
use revcast::http::route;
use revcast::probe::Target;
use revcast::setting::ConfigError;
use serde_json::Value;

fn place(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("ops").join(name)
}

fn read(name: &str) -> String {
    let path = place(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What a server is given by these arguments (and variables), and does not refuse.
fn config(arguments: &[&str], environment: &[(String, String)]) -> Config {
    let config = given(arguments, environment);
    who(&config).unwrap_or_else(|error| panic!("{error}"));
    config
}

/// The authentication of the API, or why the server does not start.
fn who(config: &Config) -> Result<Options, ConfigError> {
    config.auth(config.tls.is_some(), config.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some()))
}

fn given(arguments: &[&str], environment: &[(String, String)]) -> Config {
    let command = parse(arguments.iter().map(OsString::from)).unwrap_or_else(|error| panic!("{error}"));
    let args::Command::Serve(flags) = command else { panic!("{arguments:?} does not serve") };
    let environment = environment.iter().map(|(name, value)| (name.into(), value.into()));
    Config::load(&flags, environment, &[0, 1]).unwrap_or_else(|error| panic!("{error}"))
}

/// How long such a server takes to go, at most.
fn going(config: &Config) -> Duration {
    config.server.drain_delay + config.server.drain_grace
}

/// A unit's settings, by section.
fn unit(name: &str) -> BTreeMap<String, Vec<(String, String)>> {
    let mut sections: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    let mut section = String::new();
    for line in read(name).lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.to_owned();
            continue;
        }
        let (name, value) = line.split_once('=').unwrap_or_else(|| panic!("no setting: {line}"));
        sections.entry(section.clone()).or_default().push((name.to_owned(), value.to_owned()));
    }
    sections
}

#[test]
fn the_unit_says_what_the_server_does() {
    let unit = unit("revcast.service");
    let all = |name: &str| -> Vec<&str> {
        let of_name = unit["Service"].iter().filter(|(key, _)| key == name);
        of_name.map(|(_, value)| value.as_str()).collect()
    };
    let one = |name: &str| -> &str {
        let [value] = all(name)[..] else { panic!("{name} stands there {} times", all(name).len()) };
        value
    };
    let seconds = |name: &str| Duration::from_secs(one(name).trim_end_matches('s').parse().unwrap());
    let started = one("ExecStart").replace("/etc/revcast.toml", place("revcast.toml").to_str().unwrap());
    let arguments: Vec<&str> = started.split(' ').collect();
    let config = config(&arguments[1..], &[]);
    assert_eq!(config.config_file, Some(place("revcast.toml")), "settings are in the file");
    assert_eq!(one("ExecReload"), "/bin/kill -HUP $MAINPID");
    let state = PathBuf::from("/var/lib").join(one("StateDirectory"));
    assert_eq!(config.embedded.data_dir.as_deref(), Some(&*state), "the only folder that it may write");
    assert!(seconds("TimeoutStopSec") > going(&config), "systemd waits until it has gone");
    assert_eq!((one("Type"), one("NotifyAccess")), ("notify", "main"));
    // A stall is known after four seconds; proof of life comes at half the interval.
    assert!(seconds("WatchdogSec") >= Duration::from_secs(10));
    assert!(one("RestartPreventExitStatus").split(' ').any(|code| code == "78"));
    let calls: Vec<&str> = all("SystemCallFilter")[0].split(' ').collect();
    for call in ["io_uring_setup", "io_uring_enter", "io_uring_register"] {
        assert!(calls.contains(&call), "{call}");
    }
    for (name, value) in [
        ("MemoryDenyWriteExecute", "yes"),
        ("ProtectSystem", "strict"),
        ("DynamicUser", "yes"),
        ("NoNewPrivileges", "yes"),
    ] {
        assert_eq!(one(name), value, "{name}");
    }
}

/// The sample of settings with everything uncommented, and without the store that excludes etcd.
fn chosen() -> String {
    let sample = read("revcast.toml");
    let lines = sample.lines().filter(|line| !line.starts_with("data_dir"));
    let lines = lines.map(|line| {
        let key = line.strip_prefix('#').filter(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()));
        key.unwrap_or(line)
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn what_the_sample_offers_can_be_chosen() {
    let file = std::env::temp_dir().join(format!("revcast-sample-{}.toml", std::process::id()));
    std::fs::write(&file, chosen()).unwrap();
    let config = config(&["serve", "--config", file.to_str().unwrap()], &[]);
    std::fs::remove_file(file).unwrap();
    let options = who(&config).unwrap();
    assert!(!config.server.listen.ip().is_loopback() && !options.anonymous);
    let unit = unit("revcast.service");
    let of = |name: &str| unit["Service"].iter().find(|(key, _)| key == name).unwrap().1.as_str();
    let Some(AuditTarget::File(log)) = &config.audit else { panic!("a file of one's own") };
    assert!(log.starts_with(Path::new("/var/log").join(of("LogsDirectory"))), "it may be written");
    let stops = Duration::from_secs(of("TimeoutStopSec").trim_end_matches('s').parse().unwrap());
    assert!(stops > going(&config), "systemd waits until it has gone");
    // The folder in which systemd provides files is the unit's.
    let (etcd, tls) = (config.etcd().unwrap().clone(), config.tls.unwrap());
    let files =
        [etcd.ca, etcd.cert, etcd.key, Some(tls.cert), Some(tls.key), options.token_file, options.rules];
    let given = read("revcast.service");
    for file in files {
        let file = file.unwrap();
        let name = file.strip_prefix("/run/credentials/revcast.service").unwrap().to_str().unwrap();
        // The etcd files are not in the unit: an operator adds them if needed.
        assert!(
            name.starts_with("etcd")
                || given.contains(&format!("#LoadCredential={name}:/etc/revcast/{name}\n")),
            "{name}"
        );
    }
}

/// Whether the shipped rules let a user of the lines that they show do this; the API's paths, or the operators'.
fn may(guard: &Guard, token: &str, method: Method, path: &str, admin: bool) -> bool {
    let presented = Presented::Token(token.into());
    let visitor = guard.authenticate(&presented, None, SystemTime::now(), None).unwrap();
    let segments: Vec<String> =
        path.split('/').skip(1).filter(|part| !part.is_empty()).map(str::to_owned).collect();
    let access = if admin {
        Access::path(method, &segments)
    } else {
        Access::new(method, &segments, &route::target_of(&segments).unwrap(), false, None)
    };
    guard.allows(&visitor, &access)
}

#[test]
fn the_rules_give_each_user_what_they_say() {
    let text = read("rules.toml");
    let users: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("#   TOKEN,")).collect();
    let tokens: String =
        users.iter().map(|user| format!("of-{},{user}\n", user.split(',').next().unwrap())).collect();
    assert_eq!(users.len(), 3, "{tokens}");
    let file = std::env::temp_dir().join(format!("revcast-rules-{}.csv", std::process::id()));
    std::fs::write(&file, &tokens).unwrap();
    let options =
        Options { token_file: Some(file.clone()), rules: Some(place("rules.toml")), ..Options::default() };
    let guard = Guard::new(options).unwrap_or_else(|error| panic!("{error}"));
    std::fs::remove_file(file).unwrap();
    let secrets = "/api/v1/namespaces/kube-system/secrets";
    for (token, metrics, status, compact, reads) in [
        ("of-prometheus", true, false, false, false),
        ("of-alice", true, true, true, true),
        ("of-dashboard", false, false, false, true),
    ] {
        assert_eq!(may(&guard, token, Method::Get, "/metrics", true), metrics, "{token}");
        assert_eq!(may(&guard, token, Method::Get, "/status", true), status, "{token}");
        assert_eq!(may(&guard, token, Method::Post, "/compact", true), compact, "{token}");
        for (method, path) in [
            (Method::Get, secrets),
            (Method::Post, secrets),
            (Method::Get, "/api"),
            (Method::Get, "/version"),
            (Method::Get, "/"),
        ] {
            assert_eq!(may(&guard, token, method, path, false), reads, "{token} {method:?} {path}");
        }
        assert!(!may(&guard, token, Method::Post, "/metrics/x", true));
    }
}

/// The way in the manifest to open the operators' listener has authorization, and a comment about it.
#[test]
fn nobody_is_told_to_open_the_admin_listener_without_authorization() {
    let manifest = read("kubernetes.yaml");
    let (head, _) = manifest.split_at(manifest.find("apiVersion:").unwrap());
    assert!(head.contains("--admin-listen=0.0.0.0:8081") && head.contains("--insecure=true"), "{head}");
    assert!(head.contains("NetworkPolicy"), "{head}");
    let objects = objects();
    let arguments = arguments(&container(of_kind(&objects, "Deployment"))["args"]);
    // As the comment requires.
    let open = ["--admin-listen=0.0.0.0:8081", "--insecure=true"];
    let opened = config(&[arguments.as_slice(), &open].concat(), &[]);
    assert!(opened.delegated().unwrap().authorization);
    assert_eq!(opened.warnings(), Vec::<String>::new());
    let without: Vec<&str> =
        arguments.iter().copied().filter(|arg| !arg.starts_with("--authorization=")).collect();
    let warnings = config(&[without.as_slice(), &open].concat(), &[]).warnings();
    assert!(warnings.len() == 1 && warnings[0].contains("/compact"), "{warnings:?}");
}

/// The template differs from the unit in what taking over needs.
#[test]
fn the_template_is_the_unit_that_takes_over() {
    let (plain, template) = (unit("revcast.service"), unit("revcast@.service"));
    let started = |unit: &BTreeMap<String, Vec<(String, String)>>| {
        unit["Service"].iter().find(|(name, _)| name == "ExecStart").unwrap().1.clone()
    };
    let command = started(&template).replace("/etc/revcast.toml", place("revcast.toml").to_str().unwrap());
    let arguments: Vec<&str> = command.split(' ').skip(1).collect();
    assert!(config(&arguments, &[]).take_over);
    assert_eq!(started(&template).replace(" --take-over", ""), started(&plain));
    let rest = |unit: &BTreeMap<String, Vec<(String, String)>>| -> Vec<(String, String)> {
        unit["Service"]
            .iter()
            .filter(|(name, _)| !["ExecStart", "User"].contains(&name.as_str()))
            .cloned()
            .collect()
    };
    assert_eq!(rest(&template), rest(&plain));
    // Instances of a template would have a user each.
    assert!(template["Service"].contains(&("User".to_owned(), "revcast".to_owned())));
    assert_eq!(template["Install"], plain["Install"]);
}

/// systemd's own judgement, with this build in the place of the one that would be installed.
#[test]
fn systemd_takes_the_unit() {
    let folder = std::env::temp_dir().join(format!("revcast-unit-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let paths = [("revcast.service", "revcast.service"), ("revcast@.service", "revcast@a.service")];
    let paths = paths.map(|(name, as_named)| {
        let text = read(name).replace("/usr/bin/revcast", env!("CARGO_BIN_EXE_revcast"));
        std::fs::write(folder.join(as_named), text).unwrap();
        folder.join(as_named)
    });
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&paths).output();
    std::fs::remove_dir_all(folder).unwrap();
    let Ok(output) = output else {
        let _ = writeln!(std::io::stderr(), "!!! SKIPPED: there is no systemd-analyze here");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let ours: Vec<&str> =
        said.lines().filter(|line| line.contains("revcast.service") || line.contains("revcast@")).collect();
    assert!(output.status.success() && ours.is_empty(), "{said}");
}

/// Instructions of a Dockerfile: name and the rest, lines that go on joined.
fn instructions() -> Vec<(String, String)> {
    let text = read("Dockerfile");
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    let joined = lines.join("\n").replace("\\\n", " ");
    let instruction = |line: &str| {
        let (name, rest) = line.split_once(' ').unwrap_or_else(|| panic!("no instruction: {line}"));
        (name.to_owned(), rest.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    joined.lines().filter(|line| !line.trim().is_empty()).map(instruction).collect()
}

/// The ways to run the image that its head names: the variables of each.
fn ways() -> Vec<Vec<(String, String)>> {
    let text = read("Dockerfile");
    let head: Vec<&str> = text.lines().map_while(|line| line.strip_prefix('#')).collect();
    let joined = head.join("\n").replace("\\\n", " ");
    let variables = |command: &str| -> Vec<(String, String)> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let given = words.windows(2).filter(|pair| pair[0] == "-e").map(|pair| pair[1]);
        given
            .map(|pair| pair.split_once('=').unwrap())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    };
    joined.lines().map(str::trim).filter(|line| line.starts_with("docker run ")).map(variables).collect()
}

#[test]
fn the_image_starts_what_there_is() {
    const KNOWN: [&str; 12] = [
        "FROM",
        "WORKDIR",
        "COPY",
        "RUN",
        "USER",
        "ENV",
        "EXPOSE",
        "HEALTHCHECK",
        "STOPSIGNAL",
        "ENTRYPOINT",
        "CMD",
        "ARG",
    ];
    let instructions = instructions();
    for (name, _) in &instructions {
        assert!(KNOWN.contains(&name.as_str()), "{name} is no instruction");
    }
    let last_stage = instructions.iter().rposition(|(name, _)| name == "FROM").unwrap();
    let last = &instructions[last_stage..];
    assert!(last_stage > 0 && last[0].1 == "scratch", "built in a stage of its own: {last:?}");
    let one = |name: &str| {
        let found: Vec<&str> =
            last.iter().filter(|(key, _)| key == name).map(|(_, rest)| rest.as_str()).collect();
        let [one] = found[..] else { panic!("{name} stands there {} times", found.len()) };
        one
    };
    let list =
        |text: &str| -> Vec<String> { serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}")) };
    let user: Vec<u32> = one("USER").split(':').map(|id| id.parse().expect("a number")).collect();
    assert!(user.iter().all(|id| *id > 0), "not root");
    assert_eq!(one("STOPSIGNAL"), "SIGTERM");
    let binary = list(one("ENTRYPOINT"));
    let command = list(one("CMD"));
    let environment: Vec<(String, String)> = one("ENV")
        .split(' ')
        .map(|pair| pair.split_once('=').unwrap())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    assert!(who(&given(&command, &environment)).is_err(), "there is no authentication");
    let ways = ways();
    assert_eq!(ways.len(), 2, "with TLS and tokens, and open");
    let run = |way: &[(String, String)]| config(&command, &[environment.as_slice(), way].concat());
    let [secured, open] = [run(&ways[0]), run(&ways[1])];
    assert!(secured.tls.is_some() && !who(&secured).unwrap().anonymous);
    assert!(who(&secured).unwrap().rules.is_some());
    assert!(open.tls.is_none() && who(&open).unwrap().anonymous);
    let config = secured;
    assert!(config.server.listen.ip().is_unspecified(), "it can be reached from outside");
    assert!(going(&config) < Duration::from_secs(10), "docker stop kills after ten seconds");
    let (_, check) = one("HEALTHCHECK").split_once(" CMD ").unwrap();
    let check = list(check);
    assert_eq!(check[0], binary[0]);
    let Ok(args::Command::Probe(target)) = parse(check[1..].iter().map(OsString::from)) else {
        panic!("{check:?}")
    };
    let admin = config.server.admin_listen.unwrap();
    assert_eq!(Some(target), Target::parse(&format!("http://{admin}/readyz")));
}

#[test]
fn the_profile_allows_io_uring_and_not_much_else() {
    let profile: Value = serde_json::from_str(&read("seccomp.json")).unwrap();
    assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
    let [allowed] = profile["syscalls"].as_array().unwrap().as_slice() else { panic!("one list") };
    assert_eq!(allowed["action"], "SCMP_ACT_ALLOW");
    let names: Vec<&str> =
        allowed["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(names.is_sorted() && names.windows(2).all(|pair| pair[0] != pair[1]));
    for name in ["io_uring_setup", "io_uring_enter", "io_uring_register", "memfd_create", "sendfile"] {
        assert!(names.contains(&name), "{name}");
    }
    for name in [
        "ptrace",
        "mount",
        "unshare",
        "setns",
        "bpf",
        "init_module",
        "keyctl",
        "userfaultfd",
        "reboot",
        "chroot",
    ] {
        assert!(!names.contains(&name), "{name}");
    }
}

/// The objects of the manifest.
fn objects() -> Vec<Value> {
    let text = read("kubernetes.yaml");
    text.split("\n---\n").map(|part| yaml::to_json(part.as_bytes()).expect("YAML")).collect()
}

fn of_kind<'o>(objects: &'o [Value], kind: &str) -> &'o Value {
    objects.iter().find(|object| object["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

fn container(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["spec"]["containers"][0]
}

fn arguments(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect()
}

#[test]
fn the_manifest_fits_together() {
    let objects = objects();
    let deployment = of_kind(&objects, "Deployment");
    let service = of_kind(&objects, "Service");
    let template = &deployment["spec"]["template"];
    let labels = &template["metadata"]["labels"];
    for selector in [
        &deployment["spec"]["selector"]["matchLabels"],
        &service["spec"]["selector"],
        &of_kind(&objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        &of_kind(&objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        &template["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
    ] {
        assert_eq!(selector, labels);
    }
    let pod = &template["spec"];
    let container = container(deployment);
    let config = config(&arguments(&container["args"]), &[]);
    let patience = Duration::from_secs(pod["terminationGracePeriodSeconds"].as_u64().unwrap());
    assert!(patience > going(&config), "it is not killed before it has gone");
    assert!(deployment["spec"]["replicas"].as_u64().unwrap() > 1, "one serves while another goes");
    // A probe fails, and endpoints change, before watches end.
    let readiness = &container["readinessProbe"];
    let noticed =
        readiness["periodSeconds"].as_u64().unwrap() * readiness["failureThreshold"].as_u64().unwrap();
    assert!(config.server.drain_delay > Duration::from_secs(noticed));
    let port = |name: &Value| {
        let ports = container["ports"].as_array().unwrap();
        ports.iter().find(|port| port["name"] == *name).unwrap_or_else(|| panic!("no port {name}"))["containerPort"].as_u64()
    };
    let admin = config.server.admin_listen.unwrap();
    for (probe, path) in
        [("startupProbe", "/readyz"), ("readinessProbe", "/readyz"), ("livenessProbe", "/livez")]
    {
        let command = arguments(&container[probe]["exec"]["command"]);
        assert_eq!(command[0], "/usr/bin/revcast");
        let Ok(args::Command::Probe(target)) = parse(command[1..].iter().map(OsString::from)) else {
            panic!("{command:?}")
        };
        assert_eq!(Some(target), Target::parse(&format!("http://{admin}{path}")));
        // It gives up by itself after 3 s, and says why.
        assert!(container[probe]["timeoutSeconds"].as_u64().unwrap() > 3);
    }
    let served = Some(u64::from(config.server.listen.port()));
    assert_eq!(port(&service["spec"]["ports"][0]["targetPort"]), served);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "Localhost");
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert!(pod["securityContext"]["runAsUser"].as_u64().unwrap() > 0);
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    let memory = container["resources"]["limits"]["memory"].as_str().unwrap();
    let memory = memory.strip_suffix("Gi").unwrap().parse::<u64>().unwrap() << 30;
    assert!(config.ring.bytes * 2 <= memory, "the doctor would warn");
    assert!(config.ring.bytes <= (memory - memory / 8) / 4, "it would be cut");
    // What it mounts is what it reads.
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    let (mut mounted, mut volumes) = (names(&container["volumeMounts"]), names(&pod["volumes"]));
    mounted.sort();
    volumes.sort();
    assert_eq!(mounted, volumes);
    let mounts = container["volumeMounts"].as_array().unwrap();
    let mounts: Vec<&str> = mounts.iter().map(|mount| mount["mountPath"].as_str().unwrap()).collect();
    assert!(!who(&config).unwrap().anonymous);
    let (etcd, tls) = (config.etcd().unwrap().clone(), config.tls.unwrap());
    let files = [etcd.ca, etcd.cert, etcd.key, Some(tls.cert), Some(tls.key)];
    let files: Vec<PathBuf> = files.into_iter().map(Option::unwrap).collect();
    assert!(files.iter().all(|file| mounts.iter().any(|mount| file.starts_with(mount))), "{files:?}");
    assert!(mounts.iter().all(|mount| files.iter().any(|file| file.starts_with(mount))), "{mounts:?}");
}

/// Questions to the upstream need a token and two roles; nothing needs more.
#[test]
fn the_manifest_gives_the_rights_that_are_needed() {
    let objects = objects();
    let mut kinds: Vec<&str> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    let wanted = [
        "ClusterRoleBinding",
        "Deployment",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "RoleBinding",
        "Service",
        "ServiceAccount",
    ];
    assert_eq!(kinds, wanted, "and no role of its own");
    let account = &of_kind(&objects, "ServiceAccount")["metadata"];
    for (kind, namespace, role) in [
        ("ClusterRoleBinding", Value::Null, "system:auth-delegator"),
        ("RoleBinding", "kube-system".into(), "extension-apiserver-authentication-reader"),
    ] {
        let binding = of_kind(&objects, kind);
        assert_eq!(
            (&binding["metadata"]["namespace"], &binding["roleRef"]["name"]),
            (&namespace, &role.into())
        );
        let subjects = binding["subjects"].as_array().unwrap();
        assert_eq!(subjects.len(), 1, "{kind}");
        assert_eq!(subjects[0]["kind"], "ServiceAccount");
        assert_eq!(
            (&subjects[0]["name"], &subjects[0]["namespace"]),
            (&account["name"], &account["namespace"])
        );
    }
    let deployment = of_kind(&objects, "Deployment");
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(deployment["metadata"]["namespace"], account["namespace"]);
    assert_eq!(pod["serviceAccountName"], account["name"]);
    assert_eq!(pod["automountServiceAccountToken"], true);
    let config = config(&arguments(&container(deployment)["args"]), &[]);
    let delegated = config.delegated().unwrap();
    assert!(delegated.authentication && delegated.authorization);
    assert_eq!(config.upstream().unwrap().identity.to_string(), "client", "which needs no further right");
}

#[test]
fn the_network_policy_lets_through_what_the_server_needs() {
    let objects = objects();
    let policy = &of_kind(&objects, "NetworkPolicy")["spec"];
    let container = container(of_kind(&objects, "Deployment"));
    let config = config(&arguments(&container["args"]), &[]);
    let ports = |rules: &Value| -> Vec<Value> {
        let rules = rules.as_array().unwrap().iter();
        rules
            .flat_map(|rule| rule["ports"].as_array().unwrap().clone())
            .map(|port| port["port"].clone())
            .collect()
    };
    assert_eq!(arguments(&policy["policyTypes"]), ["Ingress", "Egress"]);
    assert_eq!(ports(&policy["ingress"]), [container["ports"][0]["name"].clone()]);
    let outward = ports(&policy["egress"]);
    let etcd = config.etcd().unwrap().endpoints.iter();
    let etcd = etcd.map(|url| url.rsplit_once(':').unwrap().1.parse::<u16>().unwrap());
    let upstream = config.upstream().unwrap().endpoints.iter().map(|endpoint| endpoint.port);
    let dns = 53;
    for port in etcd.chain(upstream).chain([dns]) {
        assert!(outward.contains(&port.into()), "{port} is not in {outward:?}");
    }
}
