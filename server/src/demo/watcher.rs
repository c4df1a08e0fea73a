//! A client of the demo that lists and watches, as an informer does: it resumes after the newest event that it saw.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use serde::Deserialize;

use super::connection::{Connection, piece};
use super::ledger::{Arrival, Cursor};
use super::view::Verb;
use super::world::World;

/// Pause after a failed request.
const PAUSE: Duration = Duration::from_millis(200);
/// For how long it asks for a watch, in seconds: informers take 5 to 10 minutes; here one resumes now and then.
const WATCH_SECONDS: std::ops::RangeInclusive<u32> = 20..=60;
/// The longest line of a watch; the objects of the demo are some KiB.
const LINE_BYTES_MAX: usize = 4 << 20;

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: Object<'a>,
}

/// An object, a list or a Status.
#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
    /// Of a Status.
    code: Option<u16>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    resource_version: Cow<'a, str>,
}

/// Why a watch ended.
enum End {
    /// In good order.
    Clean,
    /// Its history is gone.
    Expired,
}

/// Watches for as long as the demo runs.
pub(super) async fn follow(world: &World, number: usize) {
    let mut has_listed = false;
    let mut must_list = true;
    loop {
        if must_list {
            match list(world, number).await {
                Ok(revision) if has_listed => world.listed_again(number, revision),
                Ok(revision) => world.set_place(number, Cursor::after(revision)),
                Err(why) => {
                    world.fault(why);
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            }
            (has_listed, must_list) = (true, false);
        }
        let end = watch(world, number).await;
        world.is_watching(number, false);
        match end {
            Ok(End::Clean) => world.count(|counts| counts.resumed += 1),
            Ok(End::Expired) => must_list = true,
            Err(why) => {
                world.fault(why);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// The revision of a list.
async fn list(world: &World, number: usize) -> Result<u64, String> {
    let path = world.view(number).path();
    let path = path.trim_end_matches(['?', '&']);
    let (code, body) = Connection::open(world.address).await?.ask(Method::GET, path, None).await?;
    if code != StatusCode::OK {
        return Err(format!("{path}: {code}"));
    }
    let list: Object<'_> = serde_json::from_slice(&body).map_err(|error| format!("{path}: {error}"))?;
    revision(&list.metadata).ok_or_else(|| format!("{path}: a list without a resourceVersion"))
}

async fn watch(world: &World, number: usize) -> Result<End, String> {
    let path = format!(
        "{}watch=1&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}",
        world.view(number).path(),
        world.place(number).revision(),
        fastrand::u32(WATCH_SECONDS)
    );
    let mut connection = Connection::open(world.address).await?;
    let mut response = connection.send(Method::GET, &path, None).await?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::GONE => return Ok(End::Expired),
        code => return Err(format!("{path}: {code}")),
    }
    world.is_watching(number, true);
    let mut rest: Vec<u8> = Vec::new();
    while let Some(bytes) = piece(response.body_mut()).await? {
        let now = Instant::now();
        rest.extend_from_slice(&bytes);
        let mut from = 0;
        while let Some(length) = rest[from..].iter().position(|byte| *byte == b'\n') {
            let line = rest[from..from + length].trim_ascii();
            from += length + 1;
            if !line.is_empty() && arrived(world, number, line, now)? {
                return Ok(End::Expired);
            }
        }
        rest.drain(..from);
        if rest.len() > LINE_BYTES_MAX {
            return Err(format!("{path}: a line of more than {} MiB", LINE_BYTES_MAX >> 20));
        }
    }
    if rest.trim_ascii().is_empty() { Ok(End::Clean) } else { Err(format!("{path}: an event was cut")) }
}

/// One line of a watch. Whether it says that the history is gone.
fn arrived(world: &World, number: usize, line: &[u8], now: Instant) -> Result<bool, String> {
    let unreadable =
        |why: String| format!("{why}: {}", String::from_utf8_lossy(&line[..line.len().min(200)]));
    let Line { kind, object } =
        serde_json::from_slice(line).map_err(|error| unreadable(error.to_string()))?;
    let verb = match &*kind {
        "ADDED" => Verb::Added,
        "MODIFIED" => Verb::Modified,
        "DELETED" => Verb::Deleted,
        "BOOKMARK" => {
            let revision = revision(&object.metadata);
            world.passed(
                number,
                revision.ok_or_else(|| unreadable("a bookmark without a revision".to_owned()))?,
            );
            return Ok(false);
        }
        "ERROR" if object.code == Some(410) => return Ok(true),
        _ => return Err(unreadable("not an event that a watch of the demo can have".to_owned())),
    };
    let revision = revision(&object.metadata);
    let revision = revision.ok_or_else(|| unreadable("an object without a revision".to_owned()))?;
    let key = format!("{}/{}", object.metadata.namespace, object.metadata.name);
    let arrival = world.arrived(number, verb, &key, revision);
    world.count(|counts| {
        counts.deliveries += 1;
        match arrival {
            Arrival::Expected { lost, .. } => counts.lost += lost,
            Arrival::Foreign { lost } => {
                counts.foreign += 1;
                counts.lost += lost;
            }
            Arrival::OutOfOrder => counts.out_of_order += 1,
        }
    });
    if let Arrival::Expected { sent, .. } = arrival {
        world.observe(now.saturating_duration_since(sent));
    }
    Ok(false)
}

fn revision(metadata: &Metadata<'_>) -> Option<u64> {
    metadata.resource_version.parse().ok()
}
