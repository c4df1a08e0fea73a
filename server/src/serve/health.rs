//! `/livez`, `/readyz` and `/healthz`, in the words of kube-apiserver (apiserver `server/healthz`, recording 19).

use super::app::{App, Life};
use super::host::{Reply, Whole};
use super::reply;
use crate::http::options::Query;
use crate::http::response::TEXT;
use crate::http::route::Check;

const PING: &str = "ping";
const STORAGE: &str = "poststarthook/storage-readiness";
const SHUTDOWN: &str = "shutdown";
/// Whether the word of a source elsewhere is fresh; no part where the source is this process.
const ETCD: &str = "etcd";

/// The parts of a check.
fn parts(app: &App, check: Check) -> &'static [&'static str] {
    match (check, app.is_fresh()) {
        (Check::Livez, _) => &[PING],
        (Check::Healthz, None) => &[PING, STORAGE],
        (Check::Healthz, Some(_)) => &[PING, ETCD, STORAGE],
        (Check::Readyz, None) => &[PING, STORAGE, SHUTDOWN],
        (Check::Readyz, Some(_)) => &[PING, ETCD, STORAGE, SHUTDOWN],
    }
}

fn passes(app: &App, part: &str) -> bool {
    match part {
        STORAGE => app.life() >= Life::Serving,
        ETCD => app.is_fresh().unwrap_or(true),
        SHUTDOWN => app.life() < Life::Closing,
        _ => true,
    }
}

/// One part: 200 `ok` or 500. A part that there is not is an unknown path.
fn one(app: &App, check: Check, part: &str) -> Reply {
    if !parts(app, check).contains(&part) {
        return reply::page_not_found();
    }
    if passes(app, part) {
        Reply::Whole(reply::whole(200, TEXT, "ok".into()))
    } else {
        let body = format!("internal server error: {part} has not passed yet\n");
        Reply::Whole(Whole { nosniff: true, ..reply::whole(500, TEXT, body.into()) })
    }
}

/// The answer to a health check: `ok`, or a line a part when asked for or when one fails.
pub(super) fn handle(app: &App, check: Check, sub: Option<&str>, query: &Query) -> Reply {
    if let Some(part) = sub {
        return one(app, check, part);
    }
    let name = check.name();
    let mut lines = String::new();
    let mut failed = false;
    for part in parts(app, check) {
        let line = if query.all("exclude").any(|excluded| excluded == *part) {
            format!("[+]{part} excluded: ok\n")
        } else if passes(app, part) {
            format!("[+]{part} ok\n")
        } else {
            failed = true;
            format!("[-]{part} failed: reason withheld\n")
        };
        lines.push_str(&line);
    }
    let unknown: Vec<String> = query
        .all("exclude")
        .filter(|excluded| !parts(app, check).contains(excluded))
        .map(|excluded| format!("{excluded:?}"))
        .collect();
    if !unknown.is_empty() {
        let list = unknown.join(",");
        lines.push_str(&format!("warn: some health checks cannot be excluded: no matches for {list}\n"));
    }
    let (code, body) = match (failed, query.has("verbose")) {
        (true, _) => (500, format!("{lines}{name} check failed\n")),
        (false, true) => (200, format!("{lines}{name} check passed\n")),
        (false, false) => (200, "ok".to_owned()),
    };
    Reply::Whole(Whole { nosniff: true, ..reply::whole(code, TEXT, body.into()) })
}
