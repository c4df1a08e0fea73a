//! A watch stream, from etcd's messages to those of the assembler.
//!
//! Owns the task that reads it and asks for what `segments` wants, and how many messages wait. It only converts them: `assembler`
//! decides what they prove.

use std::time::Duration;

use etcd_client::{Client, WatchOptions, WatchRequestSender, WatchResponseStream};
use revcast_engine::revision::Revision;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::assembler::{Break, Coverage, RawEvent, Response};
use super::link::explain;
use super::read_index::revision;
use super::segments::{Request, Segments};
use super::stop::Stop;
use super::write::number_of;

/// Messages of a watch that may wait while a shard catches up.
const WAITING_MAX: usize = 256;

/// What is watched: the same for every watch of a stream.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    /// Where they begin.
    pub(super) key: String,
    /// Where they end, and what else is asked for.
    pub(super) options: WatchOptions,
}

/// A stream that is open.
pub(super) struct Messages {
    /// Its messages; an error is the last one. It ends when etcd closes the stream.
    pub(super) received: mpsc::Receiver<Result<Response, Stop>>,
    progress: mpsc::Sender<()>,
    reader: JoinHandle<()>,
}

impl Drop for Messages {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Messages {
    /// Opens a stream within this time. It is read concurrently with publishing: etcd does not wait for a shard, up to a bound.
    ///
    /// # Errors
    /// etcd does not open it.
    pub(super) async fn open(
        client: &Client,
        keys: Keys,
        segments: Segments,
        within: Duration,
    ) -> Result<Self, Stop> {
        let mut segments = segments;
        let mut requests = segments.begin().into_iter();
        let Some(Request::Watch { id, from }) = requests.next() else { return Err(Stop::Ended) };
        let options = keys.options(id, from);
        let mut watches = client.watch_client().max_decoding_message_size(usize::MAX);
        let stream = match timeout(within, watches.watch(keys.key.as_str(), Some(options))).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(Stop::Failed(explain(&error, false))),
            Err(_) => return Err(Stop::Lags),
        };
        let (ask, stream) = stream.split();
        let (sender, received) = mpsc::channel(WAITING_MAX);
        let (progress, wanted) = mpsc::channel(1);
        let mut reader = Reader { ask, keys, segments, sender };
        let reader = tokio::task::spawn_local(async move {
            if reader.send(requests).await.is_ok() {
                reader.run(stream, wanted).await;
            }
        });
        Ok(Self { received, progress, reader })
    }

    /// Asks how far the watch is.
    ///
    /// # Errors
    /// The stream is closed.
    pub(super) fn request_progress(&self) -> Result<(), Stop> {
        match self.progress.try_send(()) {
            Ok(()) | Err(mpsc::error::TrySendError::Full(())) => Ok(()),
            Err(mpsc::error::TrySendError::Closed(())) => Err(Stop::Ended),
        }
    }
}

impl Keys {
    /// All that a watch of this coverage needs; with the state before each event, if it is wanted or proves something.
    pub(super) fn of(prefix: &str, coverage: Coverage, with_before: bool) -> Self {
        let options = WatchOptions::new().with_progress_notify().with_fragment();
        let (key, options) = match coverage {
            Coverage::All => ("", options.with_all_keys()),
            Coverage::Prefix { .. } => (prefix, options.with_prefix()),
        };
        let with_before = with_before || coverage != Coverage::All;
        let options = if with_before { options.with_prev_key() } else { options };
        Self { key: key.to_owned(), options }
    }

    fn options(&self, id: Option<i64>, from: Revision) -> WatchOptions {
        let options = self.options.clone().with_start_revision(number_of(from));
        id.into_iter().fold(options, WatchOptions::with_watch_id)
    }
}

/// Reads a stream.
struct Reader {
    ask: WatchRequestSender,
    keys: Keys,
    segments: Segments,
    sender: mpsc::Sender<Result<Response, Stop>>,
}

/// Nobody listens any more, or etcd does not.
struct Over;

impl Reader {
    async fn run(&mut self, stream: WatchResponseStream, wanted: mpsc::Receiver<()>) {
        let (mut stream, mut wanted) = (stream, wanted);
        loop {
            let message = tokio::select! {
                message = stream.message() => message,
                Some(()) = wanted.recv() => {
                    let requests = self.segments.want_progress();
                    match self.send(requests).await {
                        Ok(()) => continue,
                        Err(Over) => return,
                    }
                }
            };
            let response = match message {
                Ok(Some(message)) => response(message).map_err(Stop::Broke),
                Ok(None) => return,
                Err(error) => Err(Stop::Failed(explain(&error, false))),
            };
            let passed = match response {
                Ok(response) => {
                    if self.segments.note_of_one(&response) {
                        self.sender.send(Ok(response)).await.map_err(|_| Over)
                    } else {
                        self.take_of_several(response).await
                    }
                }
                Err(stop) => {
                    // Nobody may listen.
                    let _ = self.sender.send(Err(stop)).await;
                    Err(Over)
                }
            };
            if passed.is_err() {
                return;
            }
        }
    }

    /// Takes a message of a stream that has several watches, or will have: its first one shows whether they can be told apart.
    async fn take_of_several(&mut self, response: Response) -> Result<(), Over> {
        let (passed, requests) = self.segments.take(response);
        // What is not to come any more is said first: etcd goes on with it meanwhile.
        self.send(requests).await?;
        for response in passed {
            self.sender.send(Ok(response)).await.map_err(|_| Over)?;
        }
        Ok(())
    }

    async fn send(&mut self, requests: impl IntoIterator<Item = Request>) -> Result<(), Over> {
        for request in requests {
            let sent = match request {
                Request::Watch { id, from } => {
                    let options = self.keys.options(id, from);
                    self.ask.watch(self.keys.key.as_str(), Some(options)).await
                }
                Request::Cancel { id } => self.ask.cancel(id).await,
                Request::Progress => self.ask.request_progress().await,
            };
            sent.map_err(|_| Over)?;
        }
        Ok(())
    }
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
