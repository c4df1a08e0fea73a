//! The whole state, page by page, at one revision.
//!
//! Owns the size of a page: some MiB, whatever the size of the objects, so that neither side holds a large answer. It never
//! touches what is served: it fills an engine that nobody reads yet.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use etcd_client::GetOptions;
use revcast_engine::change::{Batch, Change};
use revcast_engine::key::Key;
use revcast_engine::revision::Revision;
use revcast_engine::{Feed, Publisher};

use super::ground::Ground;
use super::newest::revision;
use crate::source::{Fault, SourceError};

/// What a page is to weigh.
const PAGE_BYTES: usize = 4 << 20;
/// Keys of the first page, when nothing is known of their weight.
const PAGE_FIRST: i64 = 500;
const PAGE_MIN: i64 = 16;
const PAGE_MAX: i64 = 10_000;
/// How long one page may take.
const PAGE_WITHIN: Duration = Duration::from_secs(20);

/// A state that was loaded.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) publisher: Publisher,
    pub(super) feed: Feed,
    pub(super) cluster: u64,
    pub(super) revision: Revision,
}

/// One key as it was listed.
struct Listed {
    key: Vec<u8>,
    value: Bytes,
    revision: Revision,
}

/// Loads everything below the prefix into a new engine.
pub(super) async fn load(ground: &Ground) -> Result<Loaded, SourceError> {
    let (mut publisher, feed) = ground.engine.start(Revision::ZERO);
    let stats = &ground.desk.stats.remote;
    let mut objects = 0_u64;
    let (cluster, at) = pages(ground, Revision::ZERO, |listed| match ground.layout.to_key(&listed.key) {
        Some(key) => {
            objects += 1;
            publisher.load(key, listed.revision, &listed.value);
        }
        None => _ = stats.foreign.fetch_add(1, Ordering::Relaxed),
    })
    .await?;
    publisher.loaded(at);
    stats.loads.fetch_add(1, Ordering::Relaxed);
    stats.loaded_objects.fetch_add(objects, Ordering::Relaxed);
    Ok(Loaded { publisher, feed, cluster, revision: at })
}

/// What the one revision behind the publisher's changed, from the state at that revision. Between two revisions next to
/// each other nothing can hide: a key was written, deleted, or is as it was.
///
/// # Errors
/// The state at that revision cannot be read any more.
pub(super) async fn difference(
    ground: &Ground,
    publisher: &Publisher,
    feed: &Feed,
    cluster: u64,
) -> Result<Batch, SourceError> {
    let at = publisher.revision().next();
    let mut seen: HashSet<Key> = HashSet::new();
    let mut changes = Vec::new();
    let (found, _) = pages(ground, at, |listed| {
        if let Some(key) = ground.layout.to_key(&listed.key) {
            if listed.revision == at {
                changes.push(Change { key: key.clone(), value: Some(listed.value) });
            }
            seen.insert(key);
        }
    })
    .await?;
    if found != cluster {
        return Err(SourceError::new(Fault::Unavailable, "etcd: another cluster answered"));
    }
    let snapshot = feed.snapshot();
    for resource in 0..feed.schema().len() {
        let resource = revcast_engine::key::ResourceId::new(u16::try_from(resource).unwrap_or(u16::MAX));
        for object in snapshot.list(resource, None, None) {
            if !seen.contains(object.key()) {
                changes.push(Change { key: object.key().clone(), value: None });
            }
        }
    }
    Ok(Batch { revision: at, changes })
}

/// Lists everything below the prefix as of `at`, or as of the first page when that is zero. Gives back the cluster and the
/// revision.
async fn pages(
    ground: &Ground,
    at: Revision,
    mut take: impl FnMut(Listed),
) -> Result<(u64, Revision), SourceError> {
    let prefix = ground.layout.prefix().as_bytes();
    let end = behind(prefix);
    let mut start = prefix.to_vec();
    let mut pinned = at;
    let mut cluster = None;
    let mut limit = PAGE_FIRST;
    loop {
        let options = GetOptions::new()
            .with_range(end.clone())
            .with_limit(limit)
            .with_revision(i64::try_from(pinned.get()).unwrap_or(i64::MAX));
        let mut answer = ground
            .calls
            .read_long(PAGE_WITHIN, |client| {
                let (start, options) = (start.clone(), options.clone());
                async move {
                    client.kv_client().max_decoding_message_size(usize::MAX).get(start, Some(options)).await
                }
            })
            .await?;
        let header = answer
            .take_header()
            .ok_or_else(|| SourceError::new(Fault::Broken, "etcd: a page has no header"))?;
        if pinned == Revision::ZERO {
            pinned = revision(header.revision());
        }
        let found = header.cluster_id();
        if *cluster.get_or_insert(found) != found {
            return Err(SourceError::new(
                Fault::Unavailable,
                "etcd: another cluster answered in the middle of a list",
            ));
        }
        let more = answer.more();
        let keys = answer.take_kvs();
        let count = keys.len();
        let mut bytes = 0;
        for key_value in keys {
            let listed_at = revision(key_value.mod_revision());
            let (key, value) = key_value.into_key_value();
            bytes += key.len() + value.len();
            start.clone_from(&key);
            take(Listed { key, value: value.into(), revision: listed_at });
        }
        if !more || count == 0 {
            return Ok((found, pinned));
        }
        start.push(0);
        let fits = (PAGE_BYTES / (bytes / count).max(1)).try_into().unwrap_or(PAGE_MAX);
        limit = fits.clamp(PAGE_MIN, PAGE_MAX);
        // Requests and the watch of another epoch go first.
        tokio::task::yield_now().await;
    }
}

/// The first key that does not begin with `prefix`, which ends with a slash.
pub(super) fn behind(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// Wall time in seconds since the Unix epoch, for ages.
pub(super) fn wall_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
