//! The whole state, page by page, at one revision.
//!
//! Owns the order of pages, and retries (`pager` decides their sizes). It never changes what is served: it fills an engine that
//! has no readers yet.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use etcd_client::{GetOptions, GetResponse};
use revcast_engine::change::{Batch, Change};
use revcast_engine::key::Key;
use revcast_engine::revision::Revision;
use revcast_engine::{Feed, Publisher};
use tokio::time::sleep;

use super::backoff::Backoff;
use super::census::Census;
use super::context::EtcdContext;
use super::link::Miss;
use super::pager::Pager;
use super::read_index::revision;
use super::write::number_of;
use crate::progress::Step;
use crate::source::{Fault, SourceError};

/// The timeout of one page before fewer keys are requested.
const PAGE_WITHIN: Duration = Duration::from_secs(10);
/// How long a page is retried while etcd does not answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// The result of a load.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) publisher: Publisher,
    pub(super) feed: Feed,
    pub(super) cluster: u64,
    pub(super) revision: Revision,
    /// Whether it came in one response. With several, the later ones may be from an etcd that was restored meanwhile.
    pub(super) is_whole: bool,
    pub(super) census: Census,
}

/// One key of a list.
pub(super) struct Listed {
    pub(super) key: Vec<u8>,
    pub(super) value: Bytes,
    pub(super) revision: Revision,
}

/// Loads everything below the prefix, as it was at revision `at` or is now (zero), into a new engine.
pub(super) async fn load(context: &EtcdContext, at: Revision) -> Result<Loaded, SourceError> {
    let (folder, defined, at) = definitions(context, at).await?;
    context.progress().begin(Step::Loading);
    let (mut publisher, feed) = context.engine.start(Revision::ZERO);
    let stats = &context.commands.stats.remote;
    let mut objects = 0_u64;
    let (mut found, mut census) = (Vec::new(), Census::default());
    let mut is_cluster = false;
    let listed = pages(context, Listing { is_shown: true, ..Listing::of_values(at) }, |listed| {
        if folder.as_ref().is_some_and(|folder| listed.key.starts_with(folder.as_bytes())) {
            found.push((listed.key.clone(), listed.revision));
        }
        match context.layout.to_key(&listed.key) {
            Some(key) => {
                objects += 1;
                census.count(&context.layout, &listed.key, key.resource(), &listed.value);
                publisher.load(key, listed.revision, &listed.value);
            }
            None => {
                is_cluster |= context.layout.is_of_apiserver(&listed.key);
                census.count_foreign(&context.layout, &listed.key);
                stats.foreign.fetch_add(1, Ordering::Relaxed);
            }
        }
    })
    .await?;
    if found != defined {
        // Both are of one revision, so they are from two histories.
        return Err(SourceError::new(
            Fault::Unavailable,
            "etcd changed while its state was loaded: trying again",
        ));
    }
    stats.is_cluster.store(is_cluster, Ordering::Release);
    publisher.loaded(listed.at);
    context.definitions.loaded();
    stats.loads.fetch_add(1, Ordering::Relaxed);
    stats.loaded_objects.fetch_add(objects, Ordering::Relaxed);
    let is_whole = listed.pages == 1;
    census.move_unread_of(&context.layout, feed.schema(), &feed.snapshot());
    Ok(Loaded { publisher, feed, cluster: listed.cluster, revision: listed.at, is_whole, census })
}

/// Reads the definitions of resources, as they were at revision `at` or are now (zero): the beginning of their keys, which there
/// are, and the revision that they are of.
async fn definitions(
    context: &EtcdContext,
    at: Revision,
) -> Result<(Option<String>, Vec<(Vec<u8>, Revision)>, Revision), SourceError> {
    let Some(folder) = context.definitions.folder(&context.layout) else {
        return Ok((None, Vec::new(), at));
    };
    let (mut all, mut defined) = (Vec::new(), Vec::new());
    let listed = pages(context, Listing::of_folder(folder.clone(), at), |listed| {
        if let Some(key) = context.layout.to_key(&listed.key) {
            all.push((key.name().to_owned(), listed.value));
        }
        defined.push((listed.key, listed.revision));
    })
    .await?;
    context.definitions.set(all.into_iter(), &context.layout);
    Ok((Some(folder), defined, listed.at))
}

/// Loads the objects of resources that were added, as they were at revision `at`. Nothing is taken unless all are there.
pub(super) async fn load_added(
    context: &EtcdContext,
    publisher: &mut Publisher,
    cluster: u64,
    at: Revision,
) -> Result<(), SourceError> {
    let folders = context.definitions.unloaded();
    let mut objects = Vec::new();
    for folder in &folders {
        let prefix = format!("{}{}/", context.layout.prefix(), folder.path);
        let listed = pages(context, Listing::of_folder(prefix, at), |listed| objects.push(listed)).await?;
        if listed.cluster != cluster {
            return Err(SourceError::new(Fault::Unavailable, "etcd: another cluster answered"));
        }
    }
    for folder in folders {
        let row = folder.resource;
        context.layout.add(folder);
        publisher.add(row, at);
    }
    for Listed { key, value, revision } in objects {
        if let Some(key) = context.layout.to_key(&key) {
            publisher.load(key, revision, &value);
        }
    }
    context.definitions.loaded();
    Ok(())
}

/// The changes of the one revision after `last`, from the state at that revision. Between two consecutive revisions nothing can
/// be hidden: a key was written, deleted, or is unchanged.
///
/// # Errors
/// The state at that revision cannot be read any more.
pub(super) async fn difference(
    context: &EtcdContext,
    last: Revision,
    feed: &Feed,
    cluster: u64,
) -> Result<Batch, SourceError> {
    let at = last.next();
    let mut seen: HashSet<Key> = HashSet::new();
    let mut changes = Vec::new();
    let found = pages(context, Listing::of_values(at), |listed| {
        if let Some(key) = context.layout.to_key(&listed.key) {
            if listed.revision == at {
                changes.push(Change { key: key.clone(), value: Some(listed.value) });
            }
            seen.insert(key);
        }
    })
    .await?;
    if found.cluster != cluster {
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

/// What to list.
#[derive(Clone, Debug)]
pub(super) struct Listing {
    /// The beginning of the keys; it ends with a slash. `None`: everything below the layout's prefix.
    prefix: Option<String>,
    /// The state at this revision, or at the first page's if it is zero.
    pub(super) at: Revision,
    /// Without values.
    keys_only: bool,
    /// Whether its progress is that of the step that is being made.
    is_shown: bool,
    pager: Pager,
}

impl Listing {
    /// Keys and their values.
    pub(super) const fn of_values(at: Revision) -> Self {
        Self { prefix: None, at, keys_only: false, is_shown: false, pager: Pager::new() }
    }

    /// The same of keys that begin with `prefix`.
    pub(super) const fn of_folder(prefix: String, at: Revision) -> Self {
        Self { prefix: Some(prefix), at, keys_only: false, is_shown: false, pager: Pager::new() }
    }

    /// Keys only, whose values have this many bytes on average.
    pub(super) fn of_keys(at: Revision, weight: u64) -> Self {
        Self { prefix: None, at, keys_only: true, is_shown: false, pager: Pager::of_keys(weight) }
    }
}

/// The result of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pages {
    pub(super) cluster: u64,
    pub(super) at: Revision,
    /// The number of pages.
    pub(super) pages: usize,
}

/// Lists all keys below a prefix.
pub(super) async fn pages(
    context: &EtcdContext,
    listing: Listing,
    mut take: impl FnMut(Listed),
) -> Result<Pages, SourceError> {
    let prefix = listing.prefix.as_deref().unwrap_or_else(|| context.layout.prefix()).as_bytes();
    let end = behind(prefix);
    let mut start = prefix.to_vec();
    let mut pinned = listing.at;
    let mut cluster = None;
    let mut pager = listing.pager;
    let mut pages = 0;
    let mut taken = 0;
    loop {
        let mut options = GetOptions::new().with_range(end.clone()).with_revision(number_of(pinned));
        if listing.keys_only {
            options = options.with_keys_only();
        }
        let mut answer = page(context, &start, &options, &mut pager).await?;
        pages += 1;
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
        // etcd counts from the page's first key to the end.
        let total = taken + u64::try_from(answer.count()).unwrap_or(0);
        taken += count as u64;
        if listing.is_shown {
            context.progress().reach(taken, total);
        }
        let mut bytes = 0;
        for key_value in keys {
            let listed_at = revision(key_value.mod_revision());
            let (key, value) = key_value.into_key_value();
            bytes += key.len() + value.len();
            start.clone_from(&key);
            take(Listed { key, value: value.into(), revision: listed_at });
        }
        if !more || count == 0 {
            return Ok(Pages { cluster: found, at: pinned, pages });
        }
        start.push(0);
        pager.took(count, bytes);
        // Requests and the watch of another epoch are served first.
        tokio::task::yield_now().await;
    }
}

/// One page. One that is too large or too slow is requested again, with fewer keys; one that fails otherwise, unchanged.
async fn page(
    context: &EtcdContext,
    start: &[u8],
    options: &GetOptions,
    pager: &mut Pager,
) -> Result<GetResponse, SourceError> {
    let began = Instant::now();
    let mut backoff = Backoff::new();
    loop {
        let (wanted, bytes_max) = (options.clone().with_limit(pager.limit()), pager.bytes_max());
        let asked = context.calls.read_large(PAGE_WITHIN, |client| async move {
            client.kv_client().max_decoding_message_size(bytes_max).get(start, Some(wanted)).await
        });
        let failure = match asked.await {
            Ok(answer) => return Ok(answer),
            Err(Miss::TooMuch(failure)) => {
                if pager.shrink() {
                    continue;
                }
                failure
            }
            Err(Miss::Failed(failure)) => failure,
        };
        let pause = backoff.next();
        if failure.fault != Fault::Unavailable || began.elapsed() + pause >= PATIENCE {
            return Err(failure);
        }
        sleep(pause).await;
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
