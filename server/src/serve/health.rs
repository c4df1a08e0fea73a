//! `/livez`, `/readyz` and `/healthz`, with the texts of kube-apiserver (apiserver `server/healthz`, recording 19).

use super::app::{App, Life};
use super::reply;
use crate::frontend::{FullBody, Reply};
use crate::http::options::Query;
use crate::http::response::TEXT;
use crate::http::route::Check;

const PING: &str = "ping";
const STORAGE: &str = "poststarthook/storage-readiness";
const SHUTDOWN: &str = "shutdown";
/// Whether a remote source is fresh; absent if the source is this process.
const ETCD: &str = "etcd";

/// Whether every shard turns; only present while one does not.
const SHARDS: &str = "shards";

/// The parts of a check.
fn parts(app: &App, check: Check) -> Vec<&'static str> {
    let mut parts = match (check, app.is_fresh()) {
        (Check::Livez, _) => vec![PING],
        (Check::Healthz, None) => vec![PING, STORAGE],
        (Check::Healthz, Some(_)) => vec![PING, ETCD, STORAGE],
        (Check::Readyz, None) => vec![PING, STORAGE, SHUTDOWN],
        (Check::Readyz, Some(_)) => vec![PING, ETCD, STORAGE, SHUTDOWN],
    };
    if check == Check::Readyz && app.stalls().describe().is_some() {
        parts.push(SHARDS);
    }
    parts
}

/// The code of a failed part. kube-apiserver uses 500 for all; a server that is closing, or whose shard has stalled, is
/// unavailable, which load balancers understand.
fn code(part: &str) -> u16 {
    if matches!(part, SHUTDOWN | SHARDS) { 503 } else { 500 }
}

fn passes(app: &App, part: &str) -> bool {
    match part {
        STORAGE => app.life() >= Life::Serving,
        ETCD => app.is_fresh().unwrap_or(true),
        // Of a process that was taken over, its address is served by the successor: a probe on a kept connection asks about that.
        SHUTDOWN => !app.is_shutting_down(),
        SHARDS => app.stalls().describe().is_none(),
        _ => true,
    }
}

/// One part: 200 `ok` or 500. A part that does not exist is an unknown path.
fn one(app: &App, check: Check, part: &str) -> Reply {
    if !parts(app, check).contains(&part) {
        return reply::page_not_found();
    }
    if passes(app, part) {
        Reply::FullBody(reply::whole(200, TEXT, "ok".into()))
    } else {
        let body = format!("internal server error: {part} has not passed yet\n");
        Reply::FullBody(FullBody { nosniff: true, ..reply::whole(code(part), TEXT, body.into()) })
    }
}

/// The answer to a health check: `ok`, or a line per part if requested or if one fails.
pub(super) fn handle(app: &App, check: Check, sub: Option<&str>, query: &Query) -> Reply {
    if let Some(part) = sub {
        return one(app, check, part);
    }
    let name = check.name();
    let mut lines = String::new();
    let mut failed = None;
    for part in parts(app, check) {
        let line = if query.all("exclude").any(|excluded| excluded == part) {
            format!("[+]{part} excluded: ok\n")
        } else if passes(app, part) {
            format!("[+]{part} ok\n")
        } else {
            failed = failed.max(Some(code(part)));
            let why = match part {
                SHARDS => app.stalls().describe(),
                ETCD => app.progress().text_of_start(),
                SHUTDOWN => app.progress().text_of_end(),
                _ => None,
            };
            format!("[-]{part} failed: {}\n", why.as_deref().unwrap_or("reason withheld"))
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
        (Some(code), _) => (code, format!("{lines}{name} check failed\n")),
        (None, true) => (200, format!("{lines}{name} check passed\n")),
        (None, false) => (200, "ok".to_owned()),
    };
    Reply::FullBody(FullBody { nosniff: true, ..reply::whole(code, TEXT, body.into()) })
}
