//! The engine that is served: one for each unbroken history of revisions.
//!
//! Owns the place where the source puts a new engine and where everyone else finds it. Within an epoch revisions only grow and
//! nothing is missing; when the source cannot guarantee that any more (a restored or different cluster, history that was
//! compacted before it was read), it begins a new epoch with a new engine, and every watch of the old one gets 410. So the
//! engine itself never sees a revision go back. It never reads a source.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use revcast_engine::Feed;
use revcast_engine::revision::Revision;

/// One unbroken history of revisions, and the engine that serves it.
#[derive(Debug)]
pub struct Epoch {
    /// Counts the epochs of this process from zero.
    pub number: u64,
    /// Part of continue tokens, so that a token of another history is recognized. Equal on all nodes over one cluster as long
    /// as its revisions never went back; 0: the store has only one history, and tokens do not have it.
    pub line: u64,
    /// The newest revision that an earlier, abandoned history had reached here. A client that asks for changes after a revision
    /// that this epoch has not reached, but that history had, has a state that was never in this one.
    pub abandoned: Revision,
    /// The engine.
    pub feed: Feed,
    ready: AtomicBool,
}

impl Epoch {
    /// An epoch that is not served yet.
    #[must_use]
    pub const fn new(number: u64, line: u64, abandoned: Revision, feed: Feed) -> Self {
        Self { number, line, abandoned, feed, ready: AtomicBool::new(false) }
    }

    /// An epoch whose whole state is loaded.
    #[must_use]
    pub const fn loaded(number: u64, line: u64, abandoned: Revision, feed: Feed) -> Self {
        Self { number, line, abandoned, feed, ready: AtomicBool::new(true) }
    }

    /// Whether its state is loaded and valid.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Its state is not valid any more: nothing is answered from it.
    pub fn condemn(&self) {
        self.ready.store(false, Ordering::Release);
    }
}

/// An epoch with the counts of earlier ones. One value, so that a reader never adds counts of two moments.
#[derive(Debug)]
struct Served {
    epoch: Arc<Epoch>,
    /// Messages that engines of earlier epochs serialized.
    messages_before: u64,
    /// Events that they published.
    events_before: u64,
}

impl Served {
    fn messages(&self) -> u64 {
        self.messages_before + self.epoch.feed.messages_made()
    }

    fn events(&self) -> u64 {
        self.events_before + self.epoch.feed.published()
    }
}

/// The current epoch. Read without a lock.
#[derive(Debug)]
pub struct Epochs {
    served: ArcSwap<Served>,
    number: AtomicU64,
    /// The highest reported number of messages: a shard may still make one for an epoch whose count was taken.
    messages_reported: AtomicU64,
}

impl Epochs {
    /// The first epoch.
    #[must_use]
    pub fn new(first: Epoch) -> Arc<Self> {
        let number = AtomicU64::new(first.number);
        let served = Served { epoch: Arc::new(first), messages_before: 0, events_before: 0 };
        Arc::new(Self { served: ArcSwap::from_pointee(served), number, messages_reported: AtomicU64::new(0) })
    }

    /// The current epoch.
    #[must_use]
    pub fn current(&self) -> Arc<Epoch> {
        Arc::clone(&self.served.load().epoch)
    }

    /// The current epoch's number, for a caller that checks whether it changed.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Replaces the epoch. Only the source calls this; the shards are notified.
    pub fn begin(&self, epoch: Epoch) {
        let number = epoch.number;
        let old = self.served.load_full();
        let (messages_before, events_before) = (old.messages(), old.events());
        self.served.store(Arc::new(Served { epoch: Arc::new(epoch), messages_before, events_before }));
        old.epoch.condemn();
        self.number.store(number, Ordering::Release);
    }

    /// Events that were published since the process began.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.served.load().events()
    }

    /// Messages that were serialized since the process began.
    #[must_use]
    pub fn messages_made(&self) -> u64 {
        let messages = self.served.load().messages();
        self.messages_reported.fetch_max(messages, Ordering::Relaxed).max(messages)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use revcast_engine::change::{Batch, Change};
    use revcast_engine::encoding::JsonOnly;
    use revcast_engine::key::Key;
    use revcast_engine::resource::{Resource, Schema};
    use revcast_engine::{Publisher, RingLimits};

    use super::*;

    /// A feed whose engine published an event for each of the first revisions.
    fn feed(events: u64) -> Feed {
        let mut schema = Schema::default();
        let pods = schema.add(Resource::new("v1", "Pod", true, Vec::new()));
        let limits = RingLimits { events: 1024, bytes: 1 << 20 };
        let (mut publisher, feed) =
            Publisher::new(Arc::new(schema), Arc::new(JsonOnly), limits, 1, Revision::ZERO);
        for revision in 1..=events {
            let value = Some(Bytes::from_static(b"{\"metadata\":{}}"));
            let change = Change { key: Key::new(pods, Some("ns"), "name"), value };
            let batch = Batch { revision: Revision::new(revision), changes: vec![change] };
            publisher.handle_batch(&batch, 0).expect("it is newer");
        }
        publisher.publish();
        feed
    }

    #[test]
    fn counts_go_on_from_epoch_to_epoch() {
        let epochs = Epochs::new(Epoch::loaded(0, 0, Revision::ZERO, feed(3)));
        let (first, messages) = (epochs.current(), epochs.messages_made());
        assert_eq!(epochs.events(), 3);
        epochs.begin(Epoch::loaded(1, 0, Revision::ZERO, feed(0)));
        assert_eq!((epochs.events(), epochs.messages_made()), (3, messages));
        epochs.begin(Epoch::loaded(2, 0, Revision::ZERO, feed(2)));
        assert_eq!((epochs.events(), epochs.number(), epochs.current().number), (5, 2, 2));
        assert!(epochs.messages_made() >= messages);
        assert!(!first.is_ready() && epochs.current().is_ready());
    }
}
