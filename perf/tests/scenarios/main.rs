//! Every scenario as a user starts it, against a server that is right and against servers that are wrong in one way each: a
//! check that cannot fail checks nothing.
#![allow(clippy::unwrap_used)]

mod cases;
mod compare;
mod front;
mod idle;
mod kept;
mod mock;

use mock::Mischief;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_revcast-perf");

struct Ran {
    code: Option<i32>,
    screen: String,
    said: String,
}

fn revcast_perf(words: &str) -> Ran {
    let words = shell_words::split(words).expect("the quotes are closed");
    let output = Command::new(PROGRAM).args(words).output().expect("the program was just built");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ran { code: output.status.code(), screen: text(output.stdout), said: text(output.stderr) }
}

fn run(mischief: Mischief, words: &str) -> Ran {
    revcast_perf(&format!("{words} --server http://{}", server(mischief, words)))
}

/// Starts a server that speaks what the options ask for. Gives its address, and behind it the option that trusts it.
fn server(mischief: Mischief, options: &str) -> String {
    let (mock, tls) = (mock::start(mischief), options.contains("--tls"));
    if !tls && !options.contains("--http2") {
        return mock.to_string();
    }
    let (address, file) = front::start(mock, mischief, tls);
    format!("{address}{}", file.map_or_else(String::new, |file| format!(" --ca {}", file.display())))
}

/// The JSON report of a scenario against a server of its own: its exit code and its values are as they should be.
#[track_caller]
fn report(mischief: Mischief, words: &str, code: i32, conditions: &str) -> Value {
    run(mischief, &format!("{words} --json")).report(code, conditions)
}

impl Ran {
    #[track_caller]
    fn report(&self, code: i32, conditions: &str) -> Value {
        let report =
            serde_json::from_str(&self.screen).unwrap_or_else(|fault| panic!("{fault}: {}", self.said));
        assert_eq!(self.code, Some(code), "{report} {}", self.said);
        check(&report, conditions);
        report
    }

    /// The exit code, and what stands in the report and on stderr, separated by `|`.
    #[track_caller]
    fn shows(&self, code: i32, screen: &str, said: &str) {
        assert_eq!(self.code, Some(code), "{} {}", self.screen, self.said);
        for (text, parts) in [(&self.screen, screen), (&self.said, said)] {
            parts.split('|').for_each(|part| assert!(text.contains(part), "{part}: {text}"));
        }
    }

    #[track_caller]
    fn is_refused(&self, parts: &str) {
        self.shows(2, "", parts);
        assert_eq!((self.said.lines().count(), self.screen.as_str()), (1, ""), "{}", self.said);
    }
}

/// Every value at a path of names and numbers with slashes between: `*` is each element, `#` how many elements; `+PATH` is their sum.
fn values(value: &Value, path: &str) -> Vec<Value> {
    if let Some(path) = path.strip_prefix('+') {
        return vec![values(value, path).iter().filter_map(Value::as_f64).sum::<f64>().into()];
    }
    let (step, rest) = path.split_once('/').unwrap_or((path, ""));
    let member = || value.get(step).or_else(|| value.get(step.parse::<usize>().ok()?)).cloned();
    let next = match step {
        "" => return vec![value.clone()],
        "#" => return vec![value.as_array().map(Vec::len).into()],
        "*" => value.as_array().cloned().unwrap_or_default(),
        _ => vec![member().unwrap_or_default()],
    };
    next.iter().flat_map(|value| values(value, rest)).collect()
}

fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        _ => one == other,
    }
}

/// Conditions with spaces between: `PATH,PATH=WANTED` with `=`, `!` (other than), `<`, `>`, `<=` (or a thousandth above, which histograms
/// round), `%` (a multiple of) or `~` (contains). What is wanted is JSON, else a text, or several of them with `|` between; or
/// `/` and the path of another value for each, or of one for all, and perhaps `+` a number. A list is held against all
/// values of the path.
#[track_caller]
fn check(report: &Value, conditions: &str) {
    for condition in conditions.replace("$pid", &std::process::id().to_string()).split_whitespace() {
        let at = condition.find(['=', '!', '<', '>', '%', '~']).expect(condition);
        let relation = &condition[at..at + if condition[at..].starts_with("<=") { 2 } else { 1 }];
        let (paths, text) = (&condition[..at], &condition[at + relation.len()..]);
        let one = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
        let others = text.strip_prefix('/').map(|other| {
            let (path, more) = other.split_once('+').unwrap_or((other, "0"));
            let more: f64 = more.parse().expect(condition);
            let add = |value: Value| value.as_f64().map_or(value, |number| (number + more).into());
            values(report, path).into_iter().map(add).collect::<Vec<_>>()
        });
        let wanted = |at: usize| match &others {
            Some(others) => vec![others[at % others.len()].clone()],
            None => text.split('|').map(one).collect(),
        };
        let holds = |(at, value): (usize, &Value)| {
            wanted(at).iter().any(|wanted| {
                let numbers = value.as_f64().zip(wanted.as_f64());
                match relation {
                    "=" => same(value, wanted),
                    "!" => !same(value, wanted),
                    "<" => numbers.is_some_and(|(value, wanted)| value < wanted),
                    ">" => numbers.is_some_and(|(value, wanted)| value > wanted),
                    "<=" => numbers.is_some_and(|(value, wanted)| value <= wanted * 1.001),
                    "%" => numbers.is_some_and(|(value, wanted)| value % wanted == 0.0),
                    _ => value.to_string().contains(wanted.as_str().unwrap_or_default()),
                }
            })
        };
        for path in paths.split(',') {
            let mut found = values(report, path);
            if text.starts_with('[') {
                found = vec![found.into()];
            }
            let right = !found.is_empty() && found.iter().enumerate().all(holds);
            assert!(right, "{path} of {condition}: {found:?} in {report}");
        }
    }
}

/// One case a line, `MISCHIEF EXIT_CODE OPTIONS | CONDITIONS`, each against a server of its own. A line that begins with a space
/// goes on. `right`: of all that exit with 0.
#[track_caller]
fn cases(scenario: &str, right: &str, table: &str) {
    let table = table.trim().replace("\n ", " ");
    let lines: Vec<&str> = table.lines().collect();
    for some in lines.chunks(4) {
        at_once(some, |line| {
            let (words, conditions) = line.split_once('|').expect(line);
            let words: Vec<&str> = words.splitn(3, ' ').collect();
            let mischief = serde_json::from_value(words[0].into()).expect(line);
            let code: i32 = words[1].parse().expect(line);
            let right = if code == 0 { right } else { "" };
            let conditions = format!("clean={} {conditions} {right}", code == 0);
            report(mischief, &format!("{scenario} {}", words[2]), code, &conditions);
        });
    }
}

/// Each case has a server of its own, and mostly waits.
fn at_once<T: Send>(cases: impl IntoIterator<Item = T>, check: impl Fn(T) + Sync) {
    let check = &check;
    std::thread::scope(|scope| cases.into_iter().for_each(|case| drop(scope.spawn(move || check(case)))));
}

/// A path for a test's files, where nothing is yet.
fn fresh(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _none = std::fs::remove_dir_all(&path);
    path
}

#[test]
fn a_bad_option_is_exit_code_2_and_one_line() {
    for (words, parts) in [
        ("fanout --watchers none", "--watchers|none"),
        ("fanout --server http://192.0.2.1:80", "--i-own-this-server"),
        ("fanout --out /proc/nowhere", "--out \"/proc/nowhere\"|that you may write"),
        ("initial --rate 5", "--rate"),
        ("compare floor nonsense", "nonsense"),
    ] {
        revcast_perf(words).is_refused(parts);
    }
}

#[test]
fn a_person_gets_a_report_and_progress() {
    let cases = [
        (
            format!("{} --rate 50 --duration 1500ms", cases::FANOUT),
            "Lost 0  Duplicated 0  Out of order 0  Unexpected 0  Malformed 0  Disconnected 0|CPU per delivery |RSS per watcher ",
            "Watchers 6|p99",
        ),
        (
            "idle --watchers 5 --prime 1 --duration 300ms".to_owned(),
            "Anon per watcher|Bookmarks|Ended 0|% of a core",
            "",
        ),
        (
            cases::INITIAL.to_owned(),
            "Missing 0  Duplicated 0  Unexpected 0|CPU per object |clean: every client got every object",
            "",
        ),
        (
            format!("{} --by name --sizes 2", cases::INTERESTS),
            "C = 6 interests|Ratio mark 3  met |Interests 2  Write rate wanted 200/s|Lost 0  Duplicated 0  Out of order 0  Unexpected 0",
            "round 1 of 1: 6 interests",
        ),
        (
            cases::MIXED.to_owned(),
            "Livez fresh answered|Livez kept answered|Lists answered|Gets answered|Returned|Deaf 5|Server RSS before",
            "Watchers 100",
        ),
        (
            format!("{} --rounds 1", cases::SLOW),
            "Percent 20  Slow 2  Healthy 8  Rounds 1|Latency p99|Anon per slow|Lost 0  Duplicated 0  Out of order 0  Healthy ended 0",
            "round 1 of 1",
        ),
        (
            format!("{} --watchers 5 --rounds 1", cases::STORM),
            "Mark 3.00 s  met true|Attempts                    5\n|Told 410 0|everyone came back and saw every write once",
            "round 1  Cut 5  ",
        ),
    ];
    at_once(cases, |(words, screen, said)| run(Mischief::None, &words).shows(0, screen, said));
}
