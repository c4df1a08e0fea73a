//! Test programs side by side: most end-to-end tests wait for something, and a program ends with its slowest test.
//!
//! Steps that differ only in programs and environment are one pool. It owns which program runs when; what was printed
//! is shown program by program, as each ends. It judges nothing.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::place;

/// So many programs at once on two cores: with four tests each, the cores are busy and the tests of the protocol still
/// answer in time.
const PROGRAMS_AT_ONCE: usize = 3;

/// A program that closed its outputs ends soon; if it takes longer, its CPU time is not told.
const ENDING_MAX: Duration = Duration::from_secs(2);

/// These begin first, since they take longest: nothing else is left to run beside a long one at the end.
const LONG: [&str; 3] = ["etcd", "simulation", "kube_rs"];

/// These compare times, fill memory, or have so many clients that others would be late: each runs when nothing else does.
const ALONE: [&str; 10] = [
    "bursts",
    "greedy",
    "heavy",
    "keeping_up",
    "life",
    "memory",
    "revcast-kube/restarts",
    "scenarios",
    "sending",
    "take_over",
];

/// Of these eight tests run at once, where others have four: they wait half of the time, and nothing runs beside them. Each of `scenarios` has
/// four servers already.
const WAITING: [&str; 1] = ["take_over"];
const WAITING_AT_ONCE: (&str, &str) = ("RUST_TEST_THREADS", "8");

/// A test program that cargo built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The package and what it tests: `revcast-tests/etcd`, `revcast`.
    pub(crate) name: String,
    path: PathBuf,
    /// The package's folder, where its tests run.
    folder: PathBuf,
}

/// One run of a program.
#[derive(Debug)]
pub(crate) struct Run {
    /// The place of its step among those of the pool.
    pub(crate) step: usize,
    pub(crate) name: String,
    is_alone: bool,
    is_long: bool,
    command: Command,
}

/// What a run printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) step: usize,
    pub(crate) name: String,
    pub(crate) lines: Vec<String>,
    pub(crate) problem: Option<String>,
    pub(crate) time: Duration,
    /// Of the program and of what it started and waited for. `None`: it did not run, or took long to end.
    pub(crate) cpu_time: Option<Duration>,
}

/// What a program left.
#[derive(Debug, Default)]
struct Remains {
    output: Vec<u8>,
    problem: Option<String>,
    cpu_time: Option<Duration>,
}

impl Program {
    /// The program in a message of `cargo test --no-run --message-format=json`; `None`: the message tells of no test program.
    fn of(message: &str) -> Option<Self> {
        let (_, profile) = message.split_once(r#""profile":{"#)?;
        let (profile, _) = profile.split_once('}')?;
        if !profile.contains(r#""test":true"#) {
            return None;
        }
        let manifest = PathBuf::from(text_of(message, "manifest_path")?);
        let folder = manifest.parent()?.to_path_buf();
        let (_, target) = message.split_once(r#""target":"#)?;
        let (target, package) = (text_of(target, "name")?, package_of(&text_of(message, "package_id")?)?);
        // A library's tests bear its name.
        let name = if target.replace('-', "_") == package.replace('-', "_") {
            package
        } else {
            format!("{package}/{target}")
        };
        Some(Self { name, path: text_of(message, "executable")?.into(), folder })
    }

    /// Its run as a part of this step. `environment` and `arguments` are the step's.
    pub(crate) fn run(&self, step: usize, arguments: &[&str], environment: &[(String, OsString)]) -> Run {
        let mut command = Command::new(&self.path);
        place::without_own_variables(&mut command);
        command.args(arguments).current_dir(&self.folder).stdin(Stdio::null());
        command.env("CARGO_MANIFEST_DIR", &self.folder).envs(environment.iter().cloned());
        let is_of = |names: &[&str]| {
            names.iter().any(|name| self.name == *name || self.name.rsplit('/').next() == Some(name))
        };
        if is_of(&WAITING) {
            command.env(WAITING_AT_ONCE.0, WAITING_AT_ONCE.1);
        }
        Run { step, name: self.name.clone(), is_alone: is_of(&ALONE), is_long: is_of(&LONG), command }
    }
}

/// Builds what this call of `cargo test` would run, and says which programs these are.
///
/// # Errors
/// It does not build, or warnings are refused and there is one; cargo has said why.
pub(crate) fn build(mut cargo: Command, refuses_warnings: bool) -> Result<Vec<Program>, String> {
    cargo.args(["--no-run", "--message-format=json-render-diagnostics"]);
    cargo.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = cargo.spawn().map_err(|error| format!("cargo does not start: {error}"))?;
    let (output, said) = (child.stdout.take().map(BufReader::new), child.stderr.take().map(BufReader::new));
    let said = std::thread::spawn(move || {
        let mut warned = None;
        for line in said.into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
            eprintln!("{line}");
            warned = warned.or_else(|| is_sum_of_warnings(&line).then_some(line));
        }
        warned
    });
    let programs = output.into_iter().flat_map(BufRead::lines).map_while(Result::ok);
    let programs: Vec<Program> = programs.filter_map(|message| Program::of(&message)).collect();
    let warned = said.join().unwrap_or_default();
    match child.wait() {
        Ok(status) if status.success() => warned.filter(|_| refuses_warnings).map_or(Ok(programs), Err),
        Ok(status) => Err(format!("the build ended with {status}")),
        Err(error) => Err(format!("the build was lost: {error}")),
    }
}

/// Whether this line ends what cargo says of a package that has warnings.
fn is_sum_of_warnings(line: &str) -> bool {
    line.starts_with("warning: `") && line.contains(" generated ")
}

/// Runs them all, and hands over each as it ends.
pub(crate) fn run_all(runs: Vec<Run>, mut ended: impl FnMut(Ended)) {
    let (alone, beside): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(|run| run.is_alone);
    let (long, short): (Vec<Run>, Vec<Run>) = beside.into_iter().partition(|run| run.is_long);
    let waiting = Mutex::new(long.into_iter().chain(short).collect::<VecDeque<_>>());
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..PROGRAMS_AT_ONCE {
            let (waiting, sender) = (&waiting, sender.clone());
            scope.spawn(move || take_turns(waiting, &sender));
        }
        drop(sender);
        receiver.iter().for_each(&mut ended);
    });
    alone.into_iter().map(Run::go).for_each(ended);
}

fn take_turns(waiting: &Mutex<VecDeque<Run>>, ended: &Sender<Ended>) {
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(run) = next else { return };
        if ended.send(run.go()).is_err() {
            return;
        }
    }
}

impl Run {
    /// The program, from its start to its end.
    fn go(self) -> Ended {
        let Self { step, name, mut command, .. } = self;
        let began = Instant::now();
        let Remains { output, problem, cpu_time } = remains_of(&mut command).unwrap_or_else(|error| {
            Remains { problem: Some(format!("does not run: {error}")), ..Remains::default() }
        });
        let lines = String::from_utf8_lossy(&output).lines().map(str::to_owned).collect();
        let problem = problem.map(|problem| format!("{name} {problem}"));
        Ended { step, name, lines, problem, time: began.elapsed(), cpu_time }
    }
}

/// Both outputs in the order in which they were written, what is wrong with the end, and what it cost.
fn remains_of(command: &mut Command) -> std::io::Result<Remains> {
    let (mut reader, writer) = std::io::pipe()?;
    let mut child = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // The command holds the pipe's other end, and is kept by the caller.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut output = Vec::new();
    reader.read_to_end(&mut output)?;
    let cpu_time = cpu_time_of(child.id());
    let status = child.wait()?;
    Ok(Remains { output, problem: (!status.success()).then(|| format!("ended with {status}")), cpu_time })
}

/// The CPU time of a child that closed its outputs and was not waited for yet: it is complete once the child is a zombie.
fn cpu_time_of(pid: u32) -> Option<Duration> {
    let deadline = Instant::now() + ENDING_MAX;
    loop {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name, in parentheses, may have spaces.
        let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
        if fields.first() == Some(&"Z") {
            // utime, stime, cutime and cstime, in hundredths of a second on every Linux.
            let ticks: Option<Vec<u64>> =
                fields.get(11..15)?.iter().map(|field| field.parse().ok()).collect();
            return Some(Duration::from_millis(10 * ticks?.iter().sum::<u64>()));
        }
        if Instant::now() > deadline {
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The text of this member, wherever it first stands.
fn text_of(json: &str, member: &str) -> Option<String> {
    let (_, rest) = json.split_once(&format!("\"{member}\":\""))?;
    let (mut text, mut letters) = (String::new(), rest.chars());
    loop {
        match letters.next()? {
            '"' => return Some(text),
            '\\' => text.push(letters.next()?),
            letter => text.push(letter),
        }
    }
}

/// `path+file:///folder/tests#revcast-tests@0.1.0`, or `path+file:///folder/engine#0.1.0`, which leaves the folder's name.
fn package_of(id: &str) -> Option<String> {
    let (source, name) = id.split_once('#')?;
    let named = name.split_once('@').map(|(name, _)| name);
    named.or_else(|| Path::new(source).file_name()?.to_str()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::{Ended, Program, Run, is_sum_of_warnings, run_all};

    fn message(id: &str, target: &str, test: bool) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"{id}","manifest_path":"/r/a \"b\"/Cargo.toml","target":{{"name":"{target}","test":true}},"profile":{{"opt_level":"1","test":{test}}},"executable":"/r/target/{target}-1"}}"#
        )
    }

    #[test]
    fn a_sum_of_warnings_is_known() {
        for (line, is) in [
            ("warning: `revcast` (lib) generated 3 warnings (run `cargo fix`)", true),
            ("warning: `revcast` (lib test) generated 1 warning", true),
            ("warning: unused import: `Resource`", false),
            ("   Compiling revcast v0.1.0 (/r/server)", false),
        ] {
            assert_eq!(is_sum_of_warnings(line), is, "{line}");
        }
    }

    #[test]
    fn programs_are_found_in_the_messages_of_cargo() {
        let found = Program::of(&message("path+file:///r/tests#revcast-tests@0.1.0", "etcd", true));
        let program = found.expect("a test program");
        assert_eq!(program.name, "revcast-tests/etcd");
        assert_eq!(program.path, Path::new("/r/target/etcd-1"));
        assert_eq!(program.folder, Path::new("/r/a \"b\""));
        for (id, target, name) in [
            ("path+file:///r/server#revcast@0.1.0", "revcast", "revcast"),
            ("path+file:///r/xtask#0.1.0", "xtask", "xtask"),
            ("path+file:///r/engine#revcast-engine@0.1.0", "revcast_engine", "revcast-engine"),
        ] {
            assert_eq!(Program::of(&message(id, target, true)).expect(id).name, name);
        }
        assert_eq!(Program::of(&message("path+file:///r/tests#t@1", "etcd", false)), None, "no test program");
        assert_eq!(Program::of(r#"{"reason":"build-finished","success":true}"#), None);
    }

    fn shell(step: usize, name: &str, script: &str, is_alone: bool) -> Run {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        Run { step, name: name.to_owned(), is_alone, is_long: false, command }
    }

    #[test]
    fn each_run_is_shown_whole_with_its_end() {
        let runs = vec![
            shell(1, "alone", "echo last", true),
            shell(
                0,
                "good",
                "echo a; echo b >&2; echo c; sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'",
                false,
            ),
            shell(0, "bad", "echo d; exit 3", false),
            Run { command: Command::new("./no such program"), ..shell(2, "missing", "", false) },
        ];
        let mut ended: Vec<Ended> = Vec::new();
        run_all(runs, |one| ended.push(one));
        let of = |name: &str| ended.iter().find(|one| one.name == name).expect("it ran");
        assert_eq!(
            (of("good").step, of("good").lines.as_slice()),
            (0, &["a", "b", "c"].map(str::to_owned)[..])
        );
        assert_eq!(of("good").problem, None);
        assert!(of("good").cpu_time > Some(Duration::from_millis(10)), "its child counted to 200,000");
        assert_eq!(of("missing").cpu_time, None);
        assert!(
            of("bad")
                .problem
                .as_deref()
                .is_some_and(|why| why.contains("bad ended with") && why.contains('3'))
        );
        assert!(of("missing").problem.as_deref().is_some_and(|why| why.contains("does not run")));
        assert_eq!(ended.last().map(|one| one.name.as_str()), Some("alone"), "when nothing else runs");
        assert!(ended.iter().all(|one| one.time < Duration::from_secs(60)));
    }
}
