//! Real Kubernetes clients against a real server. Needs the network, so it is no step of `ci`.
//!
//! Each client is installed below the target folder from its own registry, in its own way (a venv, a `node_modules`).
//! A client whose language is not on this machine is skipped, loudly: the last line counts it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::run::watched;
use crate::server::Server;
use crate::{etcd, place};

const PYTHON_PACKAGE: &str = "kubernetes";
const NODE_PACKAGE: &str = "@kubernetes/client-node@1";

/// What the servers stand on: the embedded store, then etcds that `cargo xtask etcd` installs.
const STORES: [Option<&str>; 3] = [None, Some("3.4"), Some("3.5")];

/// Runs every client's script on every store. Says whether none failed.
pub(crate) fn check() -> bool {
    if !etcd::install() {
        return false;
    }
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    if std::env::var_os("REVCAST_BIN").is_none() {
        println!("=== cargo build --release -p revcast");
        let (_, built) = watched(place::cargo().args(["build", "--release", "-p", "revcast"]));
        if let Err(problem) = built {
            println!("the build {problem}\n\n0 passed, 1 failed, 0 skipped");
            return false;
        }
    }
    for (name, needs, prepare) in [
        ("python", &["python3"][..], python as fn(&Path) -> Result<Command, String>),
        ("node", &["node", "npm"][..], node),
    ] {
        println!("\n=== {name}");
        if let Some(missing) = needs.iter().find(|program| !on_this_machine(program)) {
            println!("!!! SKIPPED: {missing} is not on this machine; install it to check this client");
            skipped += 1;
            continue;
        }
        for store in STORES {
            println!(
                "--- {name}, {}",
                store.map_or_else(|| "embedded store".to_owned(), |etcd| format!("etcd {etcd}"))
            );
            match one(&place::target().join("clients").join(name), prepare, store) {
                Ok(()) => passed += 1,
                Err(problem) => {
                    println!("{name}: {problem}\nrepeat: cargo xtask clients");
                    failed += 1;
                }
            }
        }
    }
    println!("\n{passed} passed, {failed} failed, {skipped} skipped");
    failed == 0
}

/// Installs one client into `folder`, and runs its script against a server of its own, over the etcd of a release if one
/// is named.
fn one(
    folder: &Path,
    prepare: fn(&Path) -> Result<Command, String>,
    store: Option<&str>,
) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let mut script = prepare(folder)?;
    let etcd = store.map(|release| place::target().join("etcd").join(release).join("etcd"));
    let server = Server::start(etcd.as_deref())?;
    watched(script.arg(server.url()).stdin(Stdio::null()))
        .1
        .map_err(|problem| format!("the script {problem}"))
}

/// A venv with the client in it, and the script.
fn python(folder: &Path) -> Result<Command, String> {
    let program = folder.join("bin/python");
    let has_client = || {
        Command::new(&program)
            .args(["-c", "import kubernetes"])
            .output()
            .is_ok_and(|run| run.status.success())
    };
    if !has_client() {
        let made = install(Command::new("python3").args(["-m", "venv"]).arg(folder));
        made.map_err(|problem| format!("{problem} (on Debian: apt-get install python3-venv)"))?;
        install(Command::new(&program).args(["-m", "pip", "install", "--quiet", PYTHON_PACKAGE]))?;
    }
    let mut command = Command::new(program);
    command.arg("-B").arg(script("python_client.py"));
    Ok(command)
}

/// A folder with the client below `node_modules`, and the script beside it: node looks for modules from there.
fn node(folder: &Path) -> Result<Command, String> {
    if !folder.join("node_modules/@kubernetes/client-node/package.json").is_file() {
        install(
            Command::new("npm")
                .args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"])
                .arg(folder)
                .arg(NODE_PACKAGE),
        )?;
    }
    let copy = folder.join("node_client.mjs");
    fs::copy(script("node_client.mjs"), &copy)
        .map_err(|error| format!("cannot copy the script to {}: {error}", copy.display()))?;
    let mut command = Command::new("node");
    command.arg(copy).env("NODE_PATH", folder.join("node_modules"));
    Ok(command)
}

fn script(name: &str) -> PathBuf {
    place::root().join("tests/clients").join(name)
}

fn install(command: &mut Command) -> Result<(), String> {
    let words: Vec<_> = std::iter::once(command.get_program()).chain(command.get_args()).collect();
    let shown = words.join(" ".as_ref()).to_string_lossy().into_owned();
    println!("    {shown}");
    watched(command.stdin(Stdio::null())).1.map_err(|problem| format!("`{shown}` {problem}"))
}

fn on_this_machine(program: &str) -> bool {
    let asked = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}
