//! The checks: which commands, in which order, and what proves that they did something.
//!
//! Every step but `loom` shares one target folder. Cargo keeps builds with other features apart by itself: after all
//! steps `cargo test --workspace` has nothing to build. Where it can, a step asks for the whole workspace: cargo
//! then picks one set of features for the dependencies, and builds them once a profile; with `-p` it picks another.
//! Measured cold, in seconds of CPU: `failpoints` 6 (with `-p revcast-tests` 12); `bench` 3 under the dev profile (with
//! `-p revcast-benches` and the bench profile 73: criterion again).

/// One check: one call of cargo.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) purpose: &'static str,
    pub(crate) arguments: &'static [&'static str],
    pub(crate) environment: &'static [(&'static str, &'static str)],
    pub(crate) proof: Proof,
    /// Whether the build goes to a folder of its own below the target folder, of this name.
    pub(crate) folder: Option<&'static str>,
    /// Whether the compiler must have nothing to say: clippy sees the code with every feature, and this build without.
    pub(crate) refuses_warnings: bool,
}

/// What a step must show besides success: a filter that matches nothing also succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// It ended with success.
    Success,
    /// At least one test ran. Such steps are told the simulator's first seed and where the binaries are.
    Tests,
    /// The same. What such steps run is built by the first of them, and runs side by side with what its neighbours run.
    Programs,
    /// At least one benchmark ran. Such steps are told where the server's binary is.
    Benchmarks,
}

/// The end-to-end tests that know no store: they hold on each.
const ON_A_STORE: &[&str] = &[
    "test",
    "--workspace",
    "--no-fail-fast",
    "--test",
    "conformance",
    "--test",
    "counters",
    "--test",
    "hostile",
    "--test",
    "kube_rs",
    "--test",
    "kubectl",
    "--test",
    "protocol",
];

/// Those of them that write most in little time, and a client that is not ours, which speaks TLS there. `conformance`
/// holds there, too, by hand: it mostly waits.
const BESIDE_AN_UPSTREAM: &[&str] = &[
    "test",
    "--workspace",
    "--no-fail-fast",
    "--test",
    "kube_rs",
    "--test",
    "kubectl",
    "--test",
    "protocol",
];

/// What `cargo xtask etcd-suite` runs, by the names of the steps.
pub(crate) const ETCD_SUITE: [&str; 4] = ["release", "etcd", "etcd-3.4", "etcd-3.5"];

/// Most end-to-end tests wait for something: four at once on two cores need little more than half the time.
const FOUR_AT_ONCE: (&str, &str) = ("RUST_TEST_THREADS", "4");

/// The servers of the tests store objects in protobuf.
const STORED_IN_PROTOBUF: (&str, &str) = ("REVCAST_STORAGE_MEDIA_TYPE", "protobuf");

impl Proof {
    /// Whether tests must have run.
    pub(crate) const fn is_of_tests(self) -> bool {
        matches!(self, Self::Tests | Self::Programs)
    }
}

const PLAIN: Step = Step {
    name: "",
    purpose: "",
    arguments: &[],
    environment: &[],
    proof: Proof::Success,
    folder: None,
    refuses_warnings: false,
};

/// The steps of `cargo xtask ci`, cheap ones first.
pub(crate) const STEPS: &[Step] = &[
    Step { name: "fmt", purpose: "the code is formatted", arguments: &["fmt", "--all", "--check"], ..PLAIN },
    Step {
        name: "clippy",
        purpose: "no lint has anything to say, with the failpoints compiled in",
        arguments: &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--features",
            "revcast-sim/failpoints,revcast-perf/etcd",
            "--",
            "-D",
            "warnings",
        ],
        ..PLAIN
    },
    Step {
        name: "release",
        purpose: "the binaries that are served and that the end-to-end tests run",
        arguments: &["build", "--release", "-p", "revcast", "-p", "revcast-perf"],
        ..PLAIN
    },
    Step {
        name: "etcd",
        purpose: "the etcds that the tests run against are there",
        arguments: &["xtask", "etcd"],
        ..PLAIN
    },
    Step {
        name: "promtool",
        purpose: "what checks metrics and alert rules is there, if it can be had",
        arguments: &["xtask", "promtool"],
        ..PLAIN
    },
    Step {
        name: "helm",
        purpose: "Kubernetes and revcast take what the chart renders, and the manifest is made of it",
        arguments: &["xtask", "helm"],
        ..PLAIN
    },
    Step {
        name: "page",
        purpose: "the operators' page shows what it should in a browser, if there can be one",
        arguments: &["xtask", "page"],
        ..PLAIN
    },
    Step {
        name: "tmux",
        purpose: "the terminal in which revcast top is tested is there, if it can be had",
        arguments: &["xtask", "tmux"],
        ..PLAIN
    },
    Step {
        name: "test",
        purpose: "unit, property, conformance, simulator, tidy and end-to-end tests",
        arguments: &["test", "--workspace", "--no-fail-fast"],
        environment: &[FOUR_AT_ONCE],
        proof: Proof::Programs,
        refuses_warnings: true,
        ..PLAIN
    },
    Step {
        name: "etcd-3.4",
        purpose: "the end-to-end tests again, on etcd 3.4",
        arguments: ON_A_STORE,
        environment: &[("REVCAST_TEST_STORE", "etcd-3.4"), FOUR_AT_ONCE],
        proof: Proof::Programs,
        ..PLAIN
    },
    Step {
        name: "etcd-3.5",
        purpose: "the end-to-end tests again, on etcd 3.5",
        arguments: ON_A_STORE,
        environment: &[("REVCAST_TEST_STORE", "etcd-3.5"), FOUR_AT_ONCE],
        proof: Proof::Programs,
        ..PLAIN
    },
    Step {
        name: "beside",
        purpose: "the end-to-end tests again, on a server that only reads etcd and forwards the rest to one that writes",
        arguments: BESIDE_AN_UPSTREAM,
        environment: &[("REVCAST_TEST_STORE", "beside"), FOUR_AT_ONCE],
        proof: Proof::Programs,
        ..PLAIN
    },
    Step {
        name: "protobuf-unit",
        purpose: "the tests of requests again, on objects that are stored in protobuf",
        arguments: &["test", "--workspace", "--lib", "--", "serve::tests"],
        environment: &[STORED_IN_PROTOBUF],
        proof: Proof::Programs,
        ..PLAIN
    },
    Step {
        name: "protobuf",
        purpose: "the tables of the protocol again, on the same",
        arguments: &["test", "--workspace", "--no-fail-fast", "--test", "protocol"],
        environment: &[STORED_IN_PROTOBUF, FOUR_AT_ONCE],
        proof: Proof::Programs,
        ..PLAIN
    },
    Step {
        name: "failpoints",
        purpose: "the simulator finds the bug of every failpoint",
        arguments: &["test", "--workspace", "--features", "revcast-sim/failpoints", "--test", "failpoints"],
        proof: Proof::Tests,
        ..PLAIN
    },
    Step {
        name: "loom",
        purpose: "the ring under every interleaving that loom finds",
        arguments: &["test", "-p", "revcast-engine", "--release", "--test", "ring_loom"],
        environment: &[("RUSTFLAGS", "--cfg revcast_loom")],
        proof: Proof::Tests,
        folder: Some("loom"),
        ..PLAIN
    },
    Step {
        name: "bench",
        purpose: "every benchmark runs once; nothing is measured",
        // All but `counts`, which are a step of their own. With `--exclude` cargo would pick other features, and build the server anew.
        arguments: &["bench", "--workspace", "--profile", "dev", "--bench", "[!c]*", "--", "--test"],
        proof: Proof::Benchmarks,
        ..PLAIN
    },
    Step {
        name: "counts",
        purpose: "no hot path of the engine costs more instructions than before",
        arguments: &["xtask", "counts"],
        ..PLAIN
    },
    Step {
        name: "doc",
        purpose: "the documentation has no broken link",
        arguments: &["doc", "--workspace", "--no-deps"],
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
        ..PLAIN
    },
];

/// The simulator's seeds of each kind in `cargo xtask test`: 2 to 7 % of those in `ci`.
const QUICK_SEEDS: &str = "200";

/// The steps of `cargo xtask test`: what says within minutes whether a change is sound. One set of packages for both, so that
/// their dependencies are built once; the server is the one of the dev profile.
pub(crate) const QUICK: &[Step] = &[
    Step {
        name: "server",
        purpose: "the server that the end-to-end tests run",
        // With a test among what is built, cargo takes the features that tests need of the dependencies: otherwise the next step
        // would build forty of them, the engine and the simulator anew.
        arguments: &[
            "build",
            "-p",
            "revcast",
            "-p",
            "revcast-engine",
            "-p",
            "revcast-sim",
            "-p",
            "revcast-tests",
            "-p",
            "revcast-tidy",
            "--bins",
            "--test",
            "tidy",
        ],
        ..PLAIN
    },
    Step {
        name: "quick",
        purpose: "unit tests, the simulator with fewer seeds, conformance, kubectl if there is one, tidy",
        arguments: &[
            "test",
            "-p",
            "revcast",
            "-p",
            "revcast-engine",
            "-p",
            "revcast-sim",
            "-p",
            "revcast-tests",
            "-p",
            "revcast-tidy",
            "--no-fail-fast",
            "--lib",
            "--test",
            "simulation",
            "--test",
            "conformance",
            "--test",
            "kubectl",
            "--test",
            "tidy",
        ],
        environment: &[("REVCAST_SIM_SEEDS", QUICK_SEEDS), FOUR_AT_ONCE],
        proof: Proof::Programs,
        ..PLAIN
    },
];

/// The step of this name.
pub(crate) fn find(name: &str) -> Option<&'static Step> {
    STEPS.iter().find(|step| step.name == name)
}

impl Step {
    /// The command as one would type it in the repository's top folder.
    pub(crate) fn shown(&self) -> String {
        let mut words: Vec<String> =
            self.environment.iter().map(|(name, value)| format!("{name}={}", quoted(value))).collect();
        words.push("cargo".to_owned());
        let own_folder = self.folder.map(|folder| format!("target/{folder}"));
        let (before, after) = self.split();
        words.extend(before.iter().map(|word| quoted(word)));
        words.extend(own_folder.into_iter().flat_map(|folder| ["--target-dir".to_owned(), folder]));
        words.extend(after.iter().map(|word| quoted(word)));
        words.join(" ")
    }

    /// The arguments for cargo, and those for what it runs (with the `--` that parts them).
    pub(crate) fn split(&self) -> (&'static [&'static str], &'static [&'static str]) {
        let end = self.arguments.iter().position(|word| *word == "--").unwrap_or(self.arguments.len());
        self.arguments.split_at(end)
    }
}

/// A word as a shell reads it back.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,@".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::{ETCD_SUITE, STEPS, find, quoted};

    #[test]
    fn names_are_unique() {
        for (index, step) in STEPS.iter().enumerate() {
            assert!(STEPS[..index].iter().all(|other| other.name != step.name), "{} twice", step.name);
        }
    }

    #[test]
    fn the_suite_is_made_of_steps() {
        let order = |name: &str| STEPS.iter().position(|step| step.name == name).expect("a step");
        assert!(ETCD_SUITE.map(order).is_sorted(), "they run in the order of the list");
        assert!(order("etcd") < order("test"), "tests need the etcds");
        let shown = find("etcd-3.4").expect("a step").shown();
        assert!(
            shown.starts_with(
                "REVCAST_TEST_STORE=etcd-3.4 RUST_TEST_THREADS=4 cargo test --workspace --no-fail-fast "
            ),
            "{shown}"
        );
    }

    #[test]
    fn a_command_is_shown_as_it_is_typed() {
        let loom = find("loom").expect("a step");
        assert_eq!(
            loom.shown(),
            "RUSTFLAGS='--cfg revcast_loom' cargo test -p revcast-engine --release --test ring_loom --target-dir target/loom"
        );
        let bench = find("bench").expect("a step");
        assert_eq!(bench.shown(), "cargo bench --workspace --profile dev --bench '[!c]*' -- --test");
    }

    #[test]
    fn no_benchmark_is_left_out() {
        let names = include_str!("../../../benches/Cargo.toml").lines();
        let names: Vec<_> = names.filter_map(|line| line.strip_prefix("name = \"")).skip(1).collect();
        assert!(names.len() > 5 && names.iter().all(|name| !name.starts_with('c')), "{names:?}");
    }

    #[test]
    fn odd_words_are_quoted() {
        assert_eq!(
            (quoted("a-b"), quoted(""), quoted("it's")),
            ("a-b".into(), "''".into(), r"'it'\''s'".into())
        );
    }
}
