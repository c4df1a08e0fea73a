//! A watch stream, from etcd's messages to those of the assembler.
//!
//! Owns the task that reads it, and how many messages wait. It only converts them: `assembler` decides what they prove.

use etcd_client::WatchStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::assembler::{Break, RawEvent, Response};
use super::link::explain;
use super::read_index::revision;
use super::stop::Stop;

/// Messages of a watch that may wait while a shard catches up.
const WAITING_MAX: usize = 256;

/// Ends the reader of a stream when the watch ends.
pub(super) struct Reader(JoinHandle<()>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reads a stream concurrently with publishing: etcd does not wait for a shard, up to a bound.
pub(super) fn read(
    stream: WatchStream,
) -> (etcd_client::WatchRequestSender, mpsc::Receiver<Result<Response, Stop>>, Reader) {
    let (ask, mut stream) = stream.split();
    let (sender, messages) = mpsc::channel(WAITING_MAX);
    let reader = tokio::task::spawn_local(async move {
        loop {
            let message = match stream.message().await {
                Ok(Some(message)) => response(message).map_err(Stop::Broke),
                Ok(None) => return,
                Err(error) => Err(Stop::Failed(explain(&error, false))),
            };
            let over = message.is_err();
            if sender.send(message).await.is_err() || over {
                return;
            }
        }
    });
    (ask, messages, Reader(reader))
}

/// A message for the assembler; values are moved, not copied.
fn response(message: etcd_client::WatchResponse) -> Result<Response, Break> {
    let message = message.0;
    let header = message.header.ok_or_else(|| Break::Nonsense("a message has no header".to_owned()))?;
    let mut events = Vec::with_capacity(message.events.len());
    for event in message.events {
        let key_value = event.kv.ok_or_else(|| Break::Nonsense("an event has no key".to_owned()))?;
        let value = match event.r#type {
            0 => Some(key_value.value.into()),
            1 => None,
            kind => return Err(Break::Nonsense(format!("an event is of the unknown kind {kind}"))),
        };
        events.push(RawEvent {
            key: key_value.key,
            value,
            revision: revision(key_value.mod_revision),
            version: key_value.version,
            before: event.prev_kv.map(|before| (revision(before.mod_revision), before.value.into())),
        });
    }
    Ok(Response {
        cluster: header.cluster_id,
        revision: revision(header.revision),
        watch: message.watch_id,
        created: message.created,
        canceled: message.canceled,
        compacted: revision(message.compact_revision),
        reason: message.cancel_reason,
        fragment: message.fragment,
        events,
    })
}
