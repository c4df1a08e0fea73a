//! The operators' page in a real browser, against a real server.
//!
//! Debian's Chromium is used, or installed if that is possible; axe-core comes from the npm registry. `REVCAST_CHROMIUM` names another
//! browser. Without one, nothing is checked, and that is said. Pictures of the page stay in `target/page`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::packages::run;
use crate::place;
use crate::server::Server;

const VARIABLE: &str = "REVCAST_CHROMIUM";

/// What judges whether everyone can use the page.
const AXE: &str = "axe-core@4.14.1";

/// Who may do what there: `tests/page/check.mjs` uses both.
const TOKENS: &str = "operators,operators,1\nclients,clients,2\n";
const RULES: &str = r#"[[rule]]
users = ["operators"]
verbs = ["get"]
paths = ["/status", "/metrics"]

[[rule]]
users = ["clients"]
verbs = ["*"]
resources = ["configmaps", "pods", "apps/deployments"]
namespaces = ["*"]
"#;

/// Checks the page, or says why not. False: it is not as it should be.
pub(crate) fn check() -> bool {
    let browser = match browser() {
        Ok(browser) => browser,
        Err(problem) => {
            println!(
                "!!! SKIPPED: page: {problem}\n!!! the page was not looked at; repeat: cargo xtask page"
            );
            return true;
        }
    };
    let done = look(&browser);
    if let Err(problem) = &done {
        println!("{problem}\nrepeat: cargo xtask page");
    }
    done.is_ok()
}

fn look(browser: &OsString) -> Result<(), String> {
    let folder = place::target().join("page");
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        let written = fs::write(&path, text);
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok::<String, String>(path.to_string_lossy().into_owned())
    };
    let (tokens, rules) = (write("tokens.csv", TOKENS)?, write("rules.toml", RULES)?);
    // A small buffer: a watcher that never reads lags soon.
    let options = ["--token-auth-file", &tokens, "--authorization-rules", &rules, "--send-buffer", "4KiB"];
    let server = Server::start(None, "json", &options)?;
    let axe = axe(&folder).unwrap_or_else(|problem| {
        println!("!!! no axe-core: {problem}\n!!! whether everyone can use the page was not judged");
        PathBuf::new()
    });
    let mut node = Command::new("node");
    node.arg(place::root().join("tests/page/check.mjs")).arg(browser);
    node.args([server.admin_url(), server.url()]).arg(axe).arg(&folder);
    run(node.stdin(Stdio::null()))?;
    println!("pictures: {}", folder.display());
    Ok(())
}

/// The browser's program, installed if need be.
fn browser() -> Result<OsString, String> {
    if !answers("node") {
        return Err("node is not on this machine".to_owned());
    }
    if let Some(program) = std::env::var_os(VARIABLE) {
        return Ok(program);
    }
    if !answers("chromium") {
        println!("    apt-get install -y --no-install-recommends chromium");
        let install = ["install", "-y", "--no-install-recommends", "chromium"];
        run(Command::new("apt-get").args(install).stdin(Stdio::null()).stdout(Stdio::null())).map_err(
            |problem| format!("no chromium, and {problem}; install it, or name one in {VARIABLE}"),
        )?;
    }
    Ok("chromium".into())
}

fn answers(program: &str) -> bool {
    let asked = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// The script of axe-core, fetched once.
fn axe(folder: &Path) -> Result<PathBuf, String> {
    let script = folder.join("package/axe.min.js");
    if !script.is_file() {
        let mut npm = Command::new("npm");
        npm.args(["pack", "--silent", AXE]).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
        run(&mut npm)?;
        let archive = format!("{}.tgz", AXE.replace('@', "-"));
        run(Command::new("tar").args(["xzf", &archive, "package/axe.min.js"]).current_dir(folder))?;
    }
    Ok(script)
}
