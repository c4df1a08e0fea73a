//! Whether etcd's state at the last revision is the one that is served.
//!
//! Owns the comparison that is made when the history cannot tell (`replay`): after a load, after a compaction, when hardly
//! anything was written below the prefix. All keys are compared by the revision that wrote them last, and the newest of
//! them by their values too: another line of revisions can have written the same key at the same revision. It reads keys
//! without values, in pages, and decides nothing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{GetOptions, Txn, TxnOp, TxnOpResponse};
use revcast_engine::decode::Decoder;
use revcast_engine::index::Snapshot;
use revcast_engine::key::Key;
use revcast_engine::revision::Revision;

use super::ground::Ground;
use super::link::Miss;
use super::load::{Listing, pages};
use super::pager::PAGE_BYTES_MAX;
use super::write::{decode, number_of};
use crate::source::{Fault, SourceError};

/// Keys whose values are compared, and the bytes of these values (one may have more).
const VALUES_MAX: usize = 64;
const VALUES_BYTES_MAX: usize = 1 << 20;
/// How long etcd may take to tell them.
const VALUES_WITHIN: Duration = Duration::from_secs(5);

/// The first difference that is found, in words.
///
/// # Errors
/// etcd does not tell its state. That its history is compacted beyond the revision behind the snapshot's is none: then a
/// watch cannot go on, and says so.
pub(super) async fn compare(
    ground: &Ground,
    snapshot: &Arc<Snapshot>,
    cluster: u64,
) -> Result<Option<String>, SourceError> {
    match compare_at(ground, snapshot, cluster, snapshot.revision()).await {
        // A watch from the next revision on is still possible when that is the oldest one.
        Err(error) if is_compacted(&error) => {
            match compare_at(ground, snapshot, cluster, snapshot.revision().next()).await {
                Err(error) if is_compacted(&error) => Ok(None),
                found => found,
            }
        }
        found => found,
    }
}

fn is_compacted(error: &SourceError) -> bool {
    error.fault == Fault::Broken && error.detail.contains("compacted")
}

/// Compares with the state at a revision, which is the snapshot's or the next one. What that next one changed is no
/// difference; nor is what is missing then, for it may have deleted it.
async fn compare_at(
    ground: &Ground,
    snapshot: &Arc<Snapshot>,
    cluster: u64,
    at: Revision,
) -> Result<Option<String>, SourceError> {
    let last = snapshot.revision();
    let (mut found, mut differs) = (0, None);
    let mut newest: BinaryHeap<Reverse<(Revision, Key)>> = BinaryHeap::new();
    let listing = Listing { at, keys_only: true };
    let (answered, _) = pages(ground, listing, |listed| {
        let Some(key) = ground.layout.to_key(&listed.key) else { return };
        if listed.revision > last {
            return;
        }
        if snapshot.get(&key).is_none_or(|object| object.revision() != listed.revision) {
            differs.get_or_insert_with(|| format!("{} at revision {}", key.path(), listed.revision));
            return;
        }
        found += 1;
        if newest.len() < VALUES_MAX || newest.peek().is_some_and(|least| least.0.0 < listed.revision) {
            newest.push(Reverse((listed.revision, key)));
            if newest.len() > VALUES_MAX {
                newest.pop();
            }
        }
    })
    .await?;
    if answered != cluster {
        return Err(SourceError::new(Fault::Unavailable, "etcd: another cluster answered"));
    }
    let missing = snapshot.total() - found;
    if differs.is_none() && at == last && missing > 0 {
        differs = Some(format!("{missing} objects are not there"));
    }
    if differs.is_some() {
        return Ok(differs);
    }
    let keys = newest.into_sorted_vec().into_iter().map(|Reverse((_, key))| key).collect();
    compare_values(ground, snapshot, keys, at).await
}

/// Compares the values of some keys, the newest first, whose revisions are the same.
async fn compare_values(
    ground: &Ground,
    snapshot: &Arc<Snapshot>,
    keys: Vec<Key>,
    at: Revision,
) -> Result<Option<String>, SourceError> {
    let mut bytes = 0;
    let mut wanted = Vec::new();
    for object in keys.iter().filter_map(|key| snapshot.get(key)) {
        bytes += object.json().len();
        if bytes > VALUES_BYTES_MAX && !wanted.is_empty() {
            break;
        }
        // Of what cannot be read nothing but its revision is kept.
        if object.unreadable().is_none() {
            wanted.push(Arc::clone(object));
        }
    }
    if wanted.is_empty() {
        return Ok(None);
    }
    let get = GetOptions::new().with_revision(number_of(at));
    let gets: Vec<TxnOp> = wanted
        .iter()
        .map(|object| TxnOp::get(ground.layout.to_etcd(object.key()), Some(get.clone())))
        .collect();
    let bytes_max = PAGE_BYTES_MAX.max(4 * bytes);
    let answer = ground.calls.read_large(VALUES_WITHIN, |client| async move {
        client.kv_client().max_decoding_message_size(bytes_max).txn(Txn::new().and_then(gets)).await
    });
    let answer = match answer.await {
        Ok(answer) => answer,
        Err(Miss::TooMuch(error)) if error.fault == Fault::TooLarge => {
            return Ok(Some("values are much larger".to_owned()));
        }
        Err(Miss::TooMuch(error) | Miss::Failed(error)) => return Err(error),
    };
    let mut decoder = Decoder::new();
    for (object, found) in wanted.iter().zip(answer.op_responses()) {
        let TxnOpResponse::Get(found) = found else { continue };
        let same = found.kvs().first().is_some_and(|found| {
            decode(ground, &mut decoder, object.key(), found.value(), object.revision()).json()
                == object.json()
        });
        if !same {
            return Ok(Some(format!(
                "the value of {} at revision {}",
                object.key().path(),
                object.revision()
            )));
        }
    }
    Ok(None)
}
