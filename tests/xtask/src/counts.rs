//! Instruction counts of the engine's hot paths, compared with the kept counts for this compiler.
//!
//! The benchmarks are in `benches/counts`; gungraun runs each of them once under valgrind. Counts do not depend on the
//! load of the machine, so a growth of a few per cent is real. Another compiler than that of the kept counts produces
//! other code: its counts are printed and nothing is compared. Without valgrind nothing is counted, and a notice is
//! printed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::packages::{download, remade, run};
use crate::place;

/// The program that gungraun's library calls; it has the same version as in `Cargo.lock`.
const RUNNER: &str = "gungraun-runner";
/// Names a valgrind.
const VARIABLE: &str = "REVCAST_VALGRIND";
/// Where the counts are kept.
const KEPT: &str = "benches/counts/counts.toml";
/// Per cent that a count may grow by.
const GROWTH_MAX: f64 = 3.0;

/// Instructions by the name of the benchmark.
type Counts = BTreeMap<String, u64>;

/// Counts, and compares; with `keep`, keeps the counts instead. Returns whether nothing grew.
pub(crate) fn check(keep: bool) -> bool {
    let valgrind = match valgrind() {
        Ok(valgrind) => valgrind,
        Err(problem) => {
            println!(
                "!!! no valgrind: {problem}; or name one in {VARIABLE}\n!!! no instruction was counted; repeat: cargo xtask counts"
            );
            return true;
        }
    };
    match count(&valgrind).and_then(|counts| Ok((counts, compiler()?))) {
        Err(problem) => {
            println!("counts: {problem}");
            false
        }
        Ok((counts, compiler)) if keep => match store(&compiler, &counts) {
            Ok(()) => {
                println!("{} counts of {compiler} are kept in {KEPT}", counts.len());
                true
            }
            Err(problem) => {
                println!("counts: {problem}");
                false
            }
        },
        Ok((counts, compiler)) => {
            let text = fs::read_to_string(place::root().join(KEPT)).unwrap_or_default();
            let kept = read(&text);
            let Some(kept) = kept.get(&compiler) else {
                println!("nothing is kept for {compiler}: these are not compared");
                for (name, count) in &counts {
                    println!("{name:<40}{count:>12}");
                }
                return true;
            };
            judge(&counts, kept)
        }
    }
}

/// A valgrind that runs: the folder with its libraries if it is not installed, and the program.
#[derive(Debug)]
struct Valgrind {
    program: PathBuf,
    libraries: Option<PathBuf>,
}

fn valgrind() -> Result<Valgrind, String> {
    if let Some(program) = std::env::var_os(VARIABLE).map(PathBuf::from) {
        let valgrind = Valgrind { program, libraries: None };
        return valgrind.starts().map(|()| valgrind).map_err(|problem| format!("{VARIABLE}: {problem}"));
    }
    let folder = place::target().join("valgrind");
    let own = Valgrind {
        program: folder.join("usr/bin/valgrind"),
        libraries: Some(folder.join("usr/libexec/valgrind")),
    };
    let system = Valgrind { program: "/usr/bin/valgrind".into(), libraries: None };
    for found in [system, Valgrind { program: own.program.clone(), libraries: own.libraries.clone() }] {
        if found.starts().is_ok() {
            return Ok(found);
        }
    }
    // Built in another folder and renamed at the end: an interrupted install leaves nothing that looks complete.
    let making = place::target().join(format!(".valgrind-{}", std::process::id()));
    let made = remade(&making).and_then(|()| {
        for package in download(&making, &["valgrind"])? {
            run(Command::new("dpkg").arg("-x").arg(package).arg(making.join("unpacked")))?;
        }
        let _ = fs::remove_dir_all(&folder);
        fs::rename(making.join("unpacked"), &folder)
            .map_err(|error| format!("the package cannot be moved to {}: {error}", folder.display()))
    });
    let _ = fs::remove_dir_all(&making);
    made?;
    own.starts().map(|()| own)
}

impl Valgrind {
    fn starts(&self) -> Result<(), String> {
        let mut command = Command::new(&self.program);
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "true"]);
        let said = self.tell(&mut command).stdin(Stdio::null()).output();
        let said = said.map_err(|error| format!("{} does not start: {error}", self.program.display()))?;
        if said.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        let first = text.lines().next().unwrap_or("it says nothing");
        Err(format!("{} does not run: {first}", self.program.display()))
    }

    /// Makes a command find it.
    fn tell<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        if let Some(libraries) = &self.libraries {
            command.env("VALGRIND_LIB", libraries);
        }
        let folder = self.program.parent().map(Path::to_path_buf);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = folder.into_iter().chain(std::env::split_paths(&path));
        if let Ok(path) = std::env::join_paths(folders) {
            command.env("PATH", path);
        }
        command
    }
}

/// The version of gungraun in `Cargo.lock`.
fn version() -> Result<String, String> {
    let lock = fs::read_to_string(place::root().join("Cargo.lock")).map_err(|error| error.to_string())?;
    let mut lines = lock.lines().skip_while(|line| *line != "name = \"gungraun\"").skip(1);
    let version = lines.next().and_then(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    version.map(str::to_owned).ok_or_else(|| "Cargo.lock has no gungraun".to_owned())
}

/// The runner, built below the target folder if it does not exist.
fn runner() -> Result<PathBuf, String> {
    let version = version()?;
    let folder = place::target().join("tools");
    let program = folder.join("bin").join(RUNNER);
    let said = Command::new(&program).arg("--version").stdin(Stdio::null()).output();
    if said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains(&version)) {
        return Ok(program);
    }
    let mut install = place::cargo();
    // It counts nothing itself: its speed does not matter, the speed of its build does.
    install.args(["install", RUNNER, "--locked", "--debug", "--force", "--version", &version, "--root"]);
    install.arg(&folder).arg("--target-dir").arg(place::target().join("tools/build"));
    install.env("CARGO_PROFILE_DEV_DEBUG", "0");
    run(&mut install).map(|()| program)
}

/// Runs the benchmarks.
fn count(valgrind: &Valgrind) -> Result<Counts, String> {
    let runner = runner()?;
    let home = place::target().join("counts");
    remade(&home)?;
    let mut bench = place::cargo();
    bench.args(["bench", "-p", "revcast-counts", "--bench", "counts"]);
    valgrind.tell(&mut bench).env("GUNGRAUN_RUNNER", runner).env("GUNGRAUN_HOME", &home);
    run(&mut bench)?;
    let mut counts = Counts::new();
    collect(&home, &mut counts)?;
    if counts.is_empty() {
        return Err(format!("{} holds no counts", home.display()));
    }
    Ok(counts)
}

/// Callgrind's output below a folder: one folder per benchmark, with its name.
fn collect(folder: &Path, counts: &mut Counts) -> Result<(), String> {
    let unread = |error| format!("cannot read {}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(unread)? {
        let path = entry.map_err(unread)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            collect(&path, counts)?;
        } else if name.starts_with("callgrind.") && name.ends_with(".out") {
            let text = fs::read(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            let of = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let total = total(&String::from_utf8_lossy(&text));
            counts.insert(of, total.ok_or_else(|| format!("{} has no total", path.display()))?);
        }
    }
    Ok(())
}

/// The instructions in a callgrind profile.
fn total(profile: &str) -> Option<u64> {
    let line = profile
        .lines()
        .find_map(|line| line.strip_prefix("summary: ").or_else(|| line.strip_prefix("totals: ")))?;
    line.split_whitespace().next()?.parse().ok()
}

/// What the counts depend on: the compiler, the C library (copies of memory) and the vector instructions of the parser.
/// valgrind presents all processors that have these as the same one.
fn compiler() -> Result<String, String> {
    let said = Command::new("rustc").arg("-vV").current_dir(place::root()).stdin(Stdio::null()).output();
    let said = said.map_err(|error| format!("rustc does not start: {error}"))?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or("unknown");
    let first = text.lines().next().ok_or("rustc says nothing")?;
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").stdin(Stdio::null()).output();
    let library =
        said.map(|said| String::from_utf8_lossy(&said.stdout).trim().to_owned()).unwrap_or_default();
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let vectors = if processor.split_whitespace().any(|flag| flag == "avx2") { "avx2" } else { "no avx2" };
    Ok(format!("{first} {host}, {library}, {vectors}"))
}

/// The kept counts, by the compiler: a table for each, a line for each count.
fn read(text: &str) -> BTreeMap<String, Counts> {
    let mut all: BTreeMap<String, Counts> = BTreeMap::new();
    let mut of = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("[\"").and_then(|rest| rest.strip_suffix("\"]")) {
            of = Some(all.entry(name.to_owned()).or_default());
        } else if let (Some(counts), Some((name, count))) = (&mut of, line.split_once(" = "))
            && let Ok(count) = count.replace('_', "").parse()
        {
            counts.insert(name.trim_matches('"').to_owned(), count);
        }
    }
    all
}

/// Keeps these counts instead of those of the same compiler.
fn store(compiler: &str, counts: &Counts) -> Result<(), String> {
    let path = place::root().join(KEPT);
    let mut all = read(&fs::read_to_string(&path).unwrap_or_default());
    all.insert(compiler.to_owned(), counts.clone());
    fs::write(&path, written(&all)).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn written(all: &BTreeMap<String, Counts>) -> String {
    let mut text =
        "# Instructions, by the compiler that made the code. `cargo xtask counts --keep` writes this.\n"
            .to_owned();
    for (compiler, counts) in all {
        text.push_str(&format!("\n[\"{compiler}\"]\n"));
        for (name, count) in counts {
            text.push_str(&format!("\"{name}\" = {count}\n"));
        }
    }
    text
}

/// Prints each count with the kept one. Returns whether none grew by too much, and none is missing.
fn judge(counts: &Counts, kept: &Counts) -> bool {
    let mut good = true;
    println!("{:<40}{:>12}{:>12}{:>9}", "instructions", "kept", "now", "");
    for name in kept.keys().chain(counts.keys().filter(|name| !kept.contains_key(*name))) {
        let (before, now) = (kept.get(name).copied(), counts.get(name).copied());
        let shown = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
        let verdict = verdict(before, now);
        good &= verdict.is_ok();
        let (Ok(word) | Err(word)) = verdict;
        println!("{name:<40}{:>12}{:>12}  {word}", shown(before), shown(now));
    }
    if !good {
        println!(
            "counts: a hot path costs over {GROWTH_MAX} % more instructions than before, or is not counted any more; fix it, or say in the commit what it buys and run: cargo xtask counts --keep"
        );
    }
    good
}

/// The comparison of a count with the kept one; an error if it grew too much.
fn verdict(before: Option<u64>, now: Option<u64>) -> Result<String, String> {
    match (before, now) {
        (Some(before), Some(now)) => {
            #[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
            let growth = (now as f64 / before.max(1) as f64 - 1.0) * 100.0;
            let word = format!("{growth:+.1} %");
            if growth > GROWTH_MAX { Err(format!("{word}  TOO MUCH")) } else { Ok(word) }
        }
        (None, _) => Ok("new: cargo xtask counts --keep".to_owned()),
        (Some(_), None) => Err("NOT COUNTED".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Counts, read, total, verdict, written};

    #[test]
    fn a_profile_is_read() {
        assert_eq!(total("version: 1\nevents: Ir\n\nfn=(1) f\nsummary: 1234\n\ntotals: 99\n"), Some(1234));
        assert_eq!((total("totals: 7 8 9\n"), total("events: Ir\n")), (Some(7), None));
    }

    #[test]
    fn what_is_kept_comes_back() {
        let counts: Counts = [("round.one".to_owned(), 17), ("page".to_owned(), 4)].into();
        let all: BTreeMap<_, _> =
            [("rustc 1.0 (a b)".to_owned(), counts), ("rustc 2".to_owned(), Counts::new())].into();
        assert_eq!(read(&written(&all)), all);
        assert!(read("").is_empty());
    }

    #[test]
    fn growth_is_judged() {
        assert_eq!(verdict(Some(1000), Some(1029)), Ok("+2.9 %".to_owned()));
        assert!(verdict(Some(1000), Some(1031)).is_err_and(|word| word.contains("+3.1 %")));
        assert_eq!(verdict(Some(1000), Some(900)), Ok("-10.0 %".to_owned()));
        assert!(verdict(Some(1000), None).is_err());
        assert!(verdict(None, Some(5)).is_ok_and(|word| word.starts_with("new")));
    }
}
