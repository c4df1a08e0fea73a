//! Clients in other languages, each installed from its own registry below the target folder.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, fs};

use super::matrix::Outcome;
use crate::place;
use crate::run::watched;

/// Modules, and the packages that have them.
const PYTHON_PACKAGES: [(&str, &str); 4] = [
    ("kubernetes", "kubernetes"),
    ("kubernetes_asyncio", "kubernetes_asyncio"),
    ("google.protobuf", "protobuf"),
    ("h2", "h2"),
];
/// Where nghttp and h2load are in Debian, and the libraries that they need.
const NGHTTP2_PACKAGES: [&str; 7] =
    ["nghttp2-client", "libnghttp2-14", "libev4", "libc-ares2", "libjansson4", "libxml2", "libjemalloc2"];
const NODE_PACKAGE: &str = "@kubernetes/client-node";

/// A script of this repository.
pub(super) fn script(name: &str) -> PathBuf {
    place::root().join("tests/clients").join(name)
}

/// A venv with the clients in it, and a script for one of them.
pub(super) fn python(name: &str) -> Result<Command, Outcome> {
    needs(&["python3"])?;
    let folder = folder("python")?;
    let program = folder.join("bin/python");
    let has = |module: &str| {
        let import = format!("import {module}");
        Command::new(&program).args(["-c", &import]).output().is_ok_and(|run| run.status.success())
    };
    if !has("pip") {
        install(Command::new("python3").args(["-m", "venv"]).arg(&folder), "apt-get install python3-venv")?;
    }
    for (module, package) in PYTHON_PACKAGES {
        if !has(module) {
            install(
                Command::new(&program).args(["-m", "pip", "install", "--quiet", package]),
                "is PyPI reachable?",
            )?;
        }
    }
    let mut command = Command::new(program);
    command.arg("-B").arg(script(name));
    Ok(command)
}

/// A folder with a major version of the client below `node_modules`, and the script beside it: node searches modules
/// from there.
pub(super) fn node(major: &str) -> Result<Command, Outcome> {
    needs(&["node", "npm"])?;
    let folder = folder(if major == "1" { "node".to_owned() } else { format!("node-{major}") })?;
    if !folder.join("node_modules").join(NODE_PACKAGE).join("package.json").is_file() {
        install(
            Command::new("npm")
                .args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"])
                .arg(&folder)
                .arg(format!("{NODE_PACKAGE}@{major}")),
            "is the npm registry reachable?",
        )?;
    }
    let copy = folder.join("node_client.mjs");
    fs::copy(script("node_client.mjs"), &copy)
        .map_err(|error| Outcome::Broken(format!("cannot copy the script to {}: {error}", copy.display())))?;
    let mut command = Command::new("node");
    command.arg(copy).env("NODE_PATH", folder.join("node_modules"));
    Ok(command)
}

/// The script of node's own `http2`.
pub(super) fn node_http2() -> Result<Command, Outcome> {
    needs(&["node"])?;
    let mut command = Command::new("node");
    command.arg(script("node_http2.mjs"));
    Ok(command)
}

/// A program that speaks HTTP/2: this machine's; of nghttp2's also Debian's, unpacked.
pub(super) fn http2_program(name: &str) -> Result<Command, Outcome> {
    let mut command = Command::new("sh");
    command.arg(script("http2_programs.sh")).arg(name);
    if needs(&[name]).is_ok() || name == "curl" {
        needs(&[name])?;
        return Ok(command);
    }
    let folder = folder("nghttp2")?;
    let programs = folder.join("usr/bin");
    if !programs.join(name).is_file() {
        needs(&["apt-get", "dpkg"])?;
        let mend = "apt-get install nghttp2-client";
        // Another system may have none of these packages, or no lists of them.
        install(Command::new("apt-get").arg("download").args(NGHTTP2_PACKAGES).current_dir(&folder), mend)
            .map_err(Outcome::into_skipped)?;
        let packages = fs::read_dir(&folder).map_err(|error| Outcome::Broken(error.to_string()))?;
        for package in packages.filter_map(Result::ok).map(|entry| entry.path()) {
            if package.extension().is_some_and(|end| end == "deb") {
                install(Command::new("dpkg").arg("-x").arg(package).arg(&folder), mend)?;
            }
        }
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths(std::iter::once(programs).chain(env::split_paths(&path)));
    command.env("PATH", path.map_err(|error| Outcome::Broken(error.to_string()))?);
    let libraries = folder.join("usr/lib").join(format!("{}-linux-gnu", env::consts::ARCH));
    command.env("LD_LIBRARY_PATH", libraries);
    Ok(command)
}

fn folder(name: impl AsRef<std::path::Path>) -> Result<PathBuf, Outcome> {
    let folder = place::target().join("clients").join(name);
    fs::create_dir_all(&folder)
        .map_err(|error| Outcome::Broken(format!("cannot make {}: {error}", folder.display())))?;
    Ok(folder)
}

fn needs(programs: &[&str]) -> Result<(), Outcome> {
    let here = |program: &&&str| {
        let asked =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    };
    match programs.iter().find(|program| !here(program)) {
        Some(program) => Err(Outcome::Skipped(format!("{program} is not on this machine"))),
        None => Ok(()),
    }
}

fn install(command: &mut Command, mend: &str) -> Result<(), Outcome> {
    let words: Vec<_> = std::iter::once(command.get_program()).chain(command.get_args()).collect();
    let shown = words.join(" ".as_ref()).to_string_lossy().into_owned();
    println!("    {shown}");
    let (_, ended) = watched(command.stdin(Stdio::null()));
    ended.map_err(|problem| Outcome::Broken(format!("`{shown}` {problem}; {mend}")))
}
