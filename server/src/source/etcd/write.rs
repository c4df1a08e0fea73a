//! Writes: transactions that compare what they expect, and the meaning of etcd's answers.
//!
//! Owns the translation of a [`Txn`] and of its result. A write waits only for etcd; readers that ask for the newest revision
//! afterwards see it. A write whose outcome is unknown is never sent again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use etcd_client::{CompactionOptions, Compare, CompareOp, GetOptions, PutOptions, TxnOp, TxnOpResponse};
use revcast_engine::Object;
use revcast_engine::codec::Decoder;
use revcast_engine::key::Key;
use revcast_engine::revision::Revision;
use tokio::sync::oneshot;
use tokio::time::{timeout, timeout_at};

use super::context::EtcdContext;
use super::lease::Leases;
use super::link::explain;
use super::read_index::revision;
use crate::source::command_queue::Answer;
use crate::source::{
    Action, Expect, Fault, KEY_BYTES_MAX, Op, SourceError, TXN_OPS_MAX, Txn, TxnError, VALUE_BYTES_MAX,
};

/// The timeout of a write. Beyond it, its outcome is unknown.
const WRITE_WITHIN: Duration = Duration::from_secs(10);
/// The timeout for reading a key.
const GET_WITHIN: Duration = Duration::from_millis(2_800);
/// How long a compaction waits until the engine is compacted too.
const FORGET_WITHIN: Duration = Duration::from_secs(2);
/// How often a write that was certainly not made is tried.
const ATTEMPTS_MAX: usize = 3;

/// Makes a transaction.
pub(super) async fn write(context: &EtcdContext, txn: &Txn) -> Answer {
    run(context, txn).await.map_or_else(Answer::Refused, Answer::Written)
}

async fn run(context: &EtcdContext, txn: &Txn) -> Result<Revision, TxnError> {
    check(&txn.ops)?;
    let deadline = tokio::time::Instant::now() + WRITE_WITHIN;
    let mut attempt = 0;
    loop {
        attempt += 1;
        match send(context, txn, deadline).await {
            Err(TxnError::Source(error)) if error.fault == Fault::Unavailable && attempt < ATTEMPTS_MAX => {}
            outcome => return outcome,
        }
    }
}

/// The faults of a transaction that do not depend on the state.
fn check(ops: &[Op]) -> Result<(), TxnError> {
    match ops.len() {
        0 => return Err(TxnError::NoOps),
        1..=TXN_OPS_MAX => {}
        ops => return Err(TxnError::TooManyOps { ops }),
    }
    for (op, Op { key, action, .. }) in ops.iter().enumerate() {
        let bytes = key.path().len();
        if bytes > KEY_BYTES_MAX {
            return Err(TxnError::KeyTooLong { op, bytes });
        }
        match action {
            Action::Put { value, .. } if value.bytes().len() > VALUE_BYTES_MAX => {
                return Err(TxnError::ValueTooLarge { op, bytes: value.bytes().len() });
            }
            Action::Put { .. } | Action::Delete => {}
        }
        if ops[..op].iter().any(|before| before.key == *key) {
            return Err(TxnError::DuplicateKey { op });
        }
    }
    Ok(())
}

/// Sends a transaction once.
async fn send(
    context: &EtcdContext,
    txn: &Txn,
    deadline: tokio::time::Instant,
) -> Result<Revision, TxnError> {
    let client = timeout_at(deadline, context.calls.client()).await;
    let (number, client) = client.unwrap_or_else(|_| Err(not_reached())).map_err(TxnError::Source)?;
    let mut compares = Vec::new();
    let mut then = Vec::new();
    let mut otherwise = Vec::new();
    let mut leases = Vec::new();
    for Op { key, expect, action } in &txn.ops {
        let etcd = context.layout.to_etcd(key);
        let expect =
            if *expect == Expect::Any && *action == Action::Delete { Expect::Exists } else { *expect };
        match expect {
            Expect::Any => {}
            Expect::Absent => compares.push(Compare::create_revision(etcd.as_str(), CompareOp::Equal, 0)),
            Expect::Exists => compares.push(Compare::create_revision(etcd.as_str(), CompareOp::Greater, 0)),
            Expect::At(at) => {
                compares.push(Compare::mod_revision(etcd.as_str(), CompareOp::Equal, number_of(at)))
            }
        }
        otherwise.push(TxnOp::get(etcd.as_str(), Some(GetOptions::new().with_keys_only())));
        then.push(match action {
            Action::Delete => TxnOp::delete(etcd, None),
            Action::Put { value, ttl: None } => TxnOp::put(etcd, &value.bytes()[..], None),
            Action::Put { value, ttl: Some(ttl) } => {
                let lease = timeout_at(deadline, lease(context, *ttl)).await;
                let lease = lease.unwrap_or_else(|_| Err(not_reached())).map_err(TxnError::Source)?;
                leases.push(lease);
                TxnOp::put(etcd, &value.bytes()[..], Some(PutOptions::new().with_lease(lease)))
            }
        });
    }
    let request = etcd_client::Txn::new().when(compares).and_then(then).or_else(otherwise);
    let mut calls =
        client.kv_client().max_decoding_message_size(usize::MAX).max_encoding_message_size(usize::MAX);
    let answer = match timeout_at(deadline, calls.txn(request)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            let failure = explain(&error, true);
            if failure.detail.contains("lease not found") {
                leases.iter().for_each(|lease| context.leases.lost(*lease));
                return Err(TxnError::Source(SourceError::new(Fault::Unavailable, failure.detail)));
            }
            if matches!(failure.fault, Fault::Unavailable | Fault::Unknown) {
                context.calls.failed(number);
            }
            return Err(TxnError::Source(failure));
        }
        Err(_) => {
            context.calls.failed(number);
            let why = format!(
                "etcd did not answer a write within {} s: it may have been made; read the object, then try again",
                WRITE_WITHIN.as_secs()
            );
            return Err(TxnError::Source(SourceError::new(Fault::Unknown, why)));
        }
    };
    if let Some(cluster) = answer.header().map(|header| header.cluster_id())
        && !context.trusts(cluster, number)
    {
        let why = format!(
            "another etcd cluster ({cluster:x}) took this write: it is not in the one that is served"
        );
        return Err(TxnError::Source(SourceError::new(Fault::Unknown, why)));
    }
    if !answer.succeeded() {
        return Err(refused(&txn.ops, &answer.op_responses()));
    }
    Ok(answer.header().map_or(Revision::ZERO, |header| revision(header.revision())))
}

fn not_reached() -> SourceError {
    let why = format!("etcd was not reached within {} s: nothing was written", WRITE_WITHIN.as_secs());
    SourceError::new(Fault::Unavailable, why)
}

pub(super) fn number_of(at: Revision) -> i64 {
    i64::try_from(at.get()).unwrap_or(i64::MAX)
}

/// The first operation whose expectation failed. etcd compared and read in one revision.
fn refused(ops: &[Op], found: &[TxnOpResponse]) -> TxnError {
    for (op, (wanted, found)) in ops.iter().zip(found).enumerate() {
        let TxnOpResponse::Get(found) = found else { break };
        let found = found.kvs().first().map(|key_value| revision(key_value.mod_revision()));
        let holds = match wanted.expect {
            Expect::Any => true,
            Expect::Absent => found.is_none(),
            Expect::Exists => found.is_some(),
            Expect::At(at) => found == Some(at),
        };
        if !holds {
            return TxnError::Conflict { op, found };
        }
        if found.is_none() && wanted.action == Action::Delete {
            return TxnError::NotFound { op };
        }
    }
    let why = "etcd refused a transaction whose expectations hold: this is a bug of etcd or of revcast";
    TxnError::Source(SourceError::new(Fault::Broken, why))
}

pub(super) fn decode(
    context: &EtcdContext,
    decoder: &mut Decoder,
    key: &Key,
    value: &Bytes,
    at: Revision,
) -> Arc<Object> {
    Arc::new(Object::read(
        decoder,
        context.engine.catalogs.schema().get(key.resource()),
        key.clone(),
        value,
        at,
    ))
}

/// A lease for one object.
async fn lease(context: &EtcdContext, ttl: Duration) -> Result<i64, SourceError> {
    if let Some(lease) = context.leases.take(ttl, Instant::now()) {
        return Ok(lease);
    }
    let granted = Instant::now();
    // If two leases are granted at the same time, one expires unused.
    let answer = context.calls.read(WRITE_WITHIN, |mut client| async move {
        client.lease_grant(Leases::to_grant(ttl), None).await
    });
    let id = answer.await?.id();
    context.commands.stats.remote.leases.fetch_add(1, Ordering::Relaxed);
    context.leases.granted(ttl, id, granted);
    Ok(id)
}

/// Reads one key from etcd itself.
pub(super) async fn get(context: &EtcdContext, key: &Key) -> Answer {
    let etcd = context.layout.to_etcd(key);
    let found = context.calls.read(GET_WITHIN, |client| {
        let etcd = etcd.clone();
        async move { client.kv_client().max_decoding_message_size(usize::MAX).get(etcd, None).await }
    });
    let served = context.known().map(|known| known.cluster);
    match found.await {
        Err(error) => Answer::Unanswered(error),
        Ok(found) if found.header().map(|header| header.cluster_id()) != served => {
            context.calls.leave();
            context.doubt.notify_one();
            let why =
                "etcd: a different cluster from the one that is served answers: its state is being loaded";
            Answer::Unanswered(SourceError::new(Fault::Unavailable, why))
        }
        Ok(mut found) => Answer::Found(found.take_kvs().pop().map(|key_value| {
            let at = revision(key_value.mod_revision());
            let (_, value) = key_value.into_key_value();
            decode(context, &mut Decoder::new(), key, &value.into(), at)
        })),
    }
}

/// Compacts etcd, and then the engine.
pub(super) async fn compact(context: &EtcdContext, upto: Revision) -> Answer {
    match context.calls.client().await {
        Err(error) => Answer::Unanswered(error),
        Ok((number, mut client)) => {
            match timeout(WRITE_WITHIN, client.compact(number_of(upto), None::<CompactionOptions>)).await {
                Ok(Ok(_)) => {
                    let (done, is_done) = oneshot::channel();
                    context.forgets.borrow_mut().push((upto, done));
                    context.wanted.notify_one();
                    // While etcd is away again the engine is compacted later; etcd is already.
                    let _ = timeout(FORGET_WITHIN, is_done).await;
                    context.commands.stats.compacted.fetch_max(upto.get(), Ordering::Relaxed);
                    Answer::Compacted(upto)
                }
                Ok(Err(error)) => {
                    let failure = explain(&error, true);
                    match failure.fault {
                        Fault::Broken => Answer::NotCompacted(failure.detail),
                        Fault::Unavailable | Fault::Unknown => {
                            context.calls.failed(number);
                            Answer::Unanswered(failure)
                        }
                        Fault::Full | Fault::TooLarge | Fault::Denied => Answer::Unanswered(failure),
                    }
                }
                Err(_) => {
                    context.calls.failed(number);
                    Answer::Unanswered(SourceError::new(Fault::Unknown, "etcd did not answer a compaction"))
                }
            }
        }
    }
}
