//! Whether etcd's state at the last revision is the served one.
//!
//! Owns the comparison for cases in which the history cannot show it (`replay`): after a load, after a compaction, when hardly
//! anything was written below the prefix. All keys are compared by the revision that wrote them last, and the newest of them by
//! their values too: a different history can have written the same key at the same revision. It reads keys without values, in
//! pages, and decides nothing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use etcd_client::{GetOptions, Txn, TxnOp, TxnOpResponse, TxnResponse};
use revcast_engine::Object;
use revcast_engine::codec::Decoder;
use revcast_engine::index::Snapshot;
use revcast_engine::key::Key;
use revcast_engine::revision::Revision;

use super::context::EtcdContext;
use super::link::{Miss, is_compacted};
use super::load::{Listing, pages};
use super::pager::PAGE_BYTES_MAX;
use super::write::{decode, number_of};
use crate::source::{Fault, SourceError};

/// How many keys have their values compared, and the limit on the bytes of these values (one may have more).
const VALUES_MAX: usize = 64;
const VALUES_BYTES_MAX: usize = 1 << 20;
/// The timeout for etcd to send them.
const VALUES_WITHIN: Duration = Duration::from_secs(5);

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Compared {
    /// etcd's state is the served one.
    Same,
    /// It is, provided that the next revision changes or deletes this many of the objects: the state at the last one is
    /// compacted.
    SameIfNextChanges(usize),
    /// It differs; the first difference, as text.
    Differs(String),
    /// etcd cannot show it any more; the reason.
    Untold(String),
}

/// Compares all keys with the snapshot. A watch that has caught up is not ended by a compaction, so a state that cannot be
/// compared any more is not accepted as equal.
///
/// # Errors
/// etcd does not return its state now.
pub(super) async fn compare(
    context: &EtcdContext,
    snapshot: &Arc<Snapshot>,
    cluster: u64,
) -> Result<Compared, SourceError> {
    let last = snapshot.revision();
    for at in [last, last.next()] {
        match compare_at(context, snapshot, cluster, at).await {
            // A watch from the next revision on is still possible if that is the oldest one.
            Err(error) if is_compacted(&error) => {}
            found => return found,
        }
    }
    Ok(Compared::Untold(format!("its history is compacted beyond revision {}", last.next())))
}

/// Compares with the state at a revision, which is the snapshot's or the next one. Objects that are missing at the next one are
/// counted: that may have changed or deleted them.
async fn compare_at(
    context: &EtcdContext,
    snapshot: &Arc<Snapshot>,
    cluster: u64,
    at: Revision,
) -> Result<Compared, SourceError> {
    let last = snapshot.revision();
    let (mut found, mut differs) = (0, None);
    let mut newest: BinaryHeap<Reverse<(Revision, Key)>> = BinaryHeap::new();
    let weight = snapshot.bytes() / snapshot.total().max(1) as u64;
    let listing = Listing::of_keys(at, weight);
    let listed = pages(context, listing, |listed| {
        let Some(key) = context.layout.to_key(&listed.key) else { return };
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
    if listed.cluster != cluster {
        return Err(SourceError::new(Fault::Unavailable, "etcd: another cluster answered"));
    }
    let missing = snapshot.total() - found;
    if differs.is_none() && at == last && missing > 0 {
        differs = Some(format!("{missing} objects are not there"));
    }
    if let Some(differs) = differs {
        return Ok(Compared::Differs(differs));
    }
    let keys = newest.into_sorted_vec().into_iter().map(|Reverse((_, key))| key).collect();
    let compared = compare_values(context, snapshot, keys, at).await?;
    let is_owed = missing > 0 && compared == Compared::Same;
    Ok(if is_owed { Compared::SameIfNextChanges(missing) } else { compared })
}

/// Compares the values of some keys, the newest first, whose revisions are equal. A request that is too large is split.
async fn compare_values(
    context: &EtcdContext,
    snapshot: &Arc<Snapshot>,
    keys: Vec<Key>,
    at: Revision,
) -> Result<Compared, SourceError> {
    let mut bytes = 0;
    let mut wanted = Vec::new();
    for object in keys.iter().filter_map(|key| snapshot.get(key)) {
        bytes += object.value().bytes().len();
        if bytes > VALUES_BYTES_MAX && !wanted.is_empty() {
            break;
        }
        wanted.push(object);
    }
    in_parts(&wanted, async |part| {
        let answer = values(context, part, at).await?;
        Ok(first_other(context, part, answer.op_responses()).map_or(Compared::Same, |other| {
            let (path, revision) = (other.key().path(), other.revision());
            Compared::Differs(format!("the value of {path} at revision {revision}"))
        }))
    })
    .await
}

/// Requests all items: about half as many at a time whenever that takes too long, down to one.
async fn in_parts<T>(
    items: &[T],
    mut ask: impl AsyncFnMut(&[T]) -> Result<Compared, Miss>,
) -> Result<Compared, SourceError> {
    let (mut left, mut at_once) = (items, items.len());
    while !left.is_empty() {
        let (part, rest) = left.split_at(at_once.min(left.len()));
        match ask(part).await {
            Ok(Compared::Same) => left = rest,
            Ok(other) => return Ok(other),
            Err(Miss::TooMuch(error)) if error.fault == Fault::TooLarge => {
                return Ok(Compared::Differs("values are much larger".to_owned()));
            }
            Err(Miss::TooMuch(_)) if part.len() > 1 => at_once = part.len() / 2,
            Err(Miss::TooMuch(error)) => return Ok(Compared::Untold(error.detail)),
            Err(Miss::Failed(error)) => return Err(error),
        }
    }
    Ok(Compared::Same)
}

/// Reads the values of some objects, all at one revision.
async fn values(context: &EtcdContext, objects: &[&Arc<Object>], at: Revision) -> Result<TxnResponse, Miss> {
    let get = GetOptions::new().with_revision(number_of(at));
    let gets: Vec<TxnOp> = objects
        .iter()
        .map(|object| TxnOp::get(context.layout.to_etcd(object.key()), Some(get.clone())))
        .collect();
    let bytes: usize = objects.iter().map(|object| object.value().bytes().len()).sum();
    let bytes_max = PAGE_BYTES_MAX.max(4 * bytes);
    let answer = context.calls.read_large(VALUES_WITHIN, |client| async move {
        client.kv_client().max_decoding_message_size(bytes_max).txn(Txn::new().and_then(gets)).await
    });
    answer.await
}

/// The first of some objects whose value differs.
fn first_other<'a>(
    context: &EtcdContext,
    objects: &[&'a Arc<Object>],
    answers: Vec<TxnOpResponse>,
) -> Option<&'a Arc<Object>> {
    let mut decoder = Decoder::new();
    let mut is_other = |object: &Arc<Object>, answer: TxnOpResponse| {
        let TxnOpResponse::Get(mut found) = answer else { return false };
        found.take_kvs().pop().is_none_or(|found| {
            let value = Bytes::from(found.into_key_value().1);
            let found = decode(context, &mut decoder, object.key(), &value, object.revision());
            found.value().bytes() != object.value().bytes()
        })
    };
    objects
        .iter()
        .copied()
        .zip(answers)
        .find_map(|(object, answer)| is_other(object, answer).then_some(object))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Requests `items` from an etcd that answers as `answer` does; returns how many were in each request, and the result.
    fn ask(items: usize, answer: impl Fn(&[usize]) -> Result<Compared, Miss>) -> (Vec<usize>, Compared) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut asked = Vec::new();
        let items: Vec<usize> = (0..items).collect();
        let compared = runtime.block_on(in_parts(&items, async |part| {
            asked.push(part.len());
            answer(part)
        }));
        (asked, compared.unwrap())
    }

    fn late() -> Result<Compared, Miss> {
        Err(Miss::TooMuch(SourceError::new(Fault::Unavailable, "etcd does not answer within 5 s")))
    }

    #[test]
    fn what_takes_too_long_is_asked_for_in_parts() {
        assert_eq!(ask(64, |_| Ok(Compared::Same)), (vec![64], Compared::Same));
        assert_eq!(ask(0, |_| late()), (vec![], Compared::Same));
        let slow = |part: &[usize]| if part.len() > 20 { late() } else { Ok(Compared::Same) };
        assert_eq!(ask(64, slow), (vec![64, 32, 16, 16, 16, 16], Compared::Same));
        // One value that does not come proves nothing, and is not requested for ever.
        let stuck = |part: &[usize]| if part.contains(&5) { late() } else { Ok(Compared::Same) };
        let (asked, compared) = ask(9, stuck);
        assert!(matches!(compared, Compared::Untold(_)) && asked.len() < 12, "{asked:?} {compared:?}");
        // A difference is found wherever it is.
        let differs = || Compared::Differs("it".to_owned());
        let other = |part: &[usize]| match part.len() {
            2.. => late(),
            _ if part == [3] => Ok(differs()),
            _ => Ok(Compared::Same),
        };
        assert_eq!(ask(4, other), (vec![4, 2, 1, 1, 1, 1], differs()));
    }
}
