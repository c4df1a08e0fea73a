//! One writer, several readers, each of which sees every entry: one interface for the ring and the structures it is compared with.
//!
//! It owns the adapters. A read never waits, in any of them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crossbeam_queue::ArrayQueue;
use revcast_engine::revision::{Position, Revision};
use revcast_engine::ring::{self, Entry, Missing};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::TryRecvError;

/// What each structure holds at most.
pub(crate) const SLOTS: usize = 1 << 14;

#[derive(Debug)]
pub(crate) struct Item(pub(crate) u64);

impl Entry for Item {
    fn position(&self) -> Position {
        Position::new(self.0)
    }
    fn revision(&self) -> Revision {
        Revision::new(self.0 + 1)
    }
}

/// What a reader finds.
#[derive(Debug)]
pub(crate) enum Found {
    Entry(Arc<Item>),
    /// Nothing newer, yet.
    Nothing,
    /// It was too late for some. It is at the oldest entry now.
    Missed,
}

pub(crate) trait Reads: Send + 'static {
    fn read(&mut self) -> Found;
}

/// The writer's end.
pub(crate) trait Fan: Send + 'static {
    const NAME: &'static str;
    /// Whether a reader that is too late learns it.
    const TELLS: bool = true;
    type Reader: Reads;
    fn new(readers: usize) -> (Self, Vec<Self::Reader>)
    where
        Self: Sized;
    /// Writes entry `number`; a full structure loses its oldest.
    fn write(&mut self, number: u64);
}

#[derive(Debug)]
pub(crate) struct Ring(ring::Writer<Item>);

#[derive(Debug)]
pub(crate) struct RingReader(ring::Reader<Item>, Position);

impl Fan for Ring {
    const NAME: &'static str = "ring";
    type Reader = RingReader;

    fn new(readers: usize) -> (Self, Vec<RingReader>) {
        let (writer, reader) = ring::ring(SLOTS, Position::new(0), Revision::ZERO);
        let readers = (0..readers).map(|_| RingReader(reader.clone(), Position::new(0))).collect();
        (Self(writer), readers)
    }

    fn write(&mut self, number: u64) {
        self.0.stage(Arc::new(Item(number)), Position::new(u64::MAX));
        self.0.publish(Revision::new(number + 1));
    }
}

impl Reads for RingReader {
    fn read(&mut self) -> Found {
        match self.0.get(self.1) {
            Ok(entry) => {
                self.1 = self.1.next();
                Found::Entry(entry)
            }
            Err(Missing::NotYet) => Found::Nothing,
            Err(Missing::Lapped) => {
                self.1 = self.0.oldest();
                Found::Missed
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct Broadcast(broadcast::Sender<Arc<Item>>);

#[derive(Debug)]
pub(crate) struct BroadcastReader(broadcast::Receiver<Arc<Item>>);

impl Fan for Broadcast {
    const NAME: &'static str = "broadcast";
    type Reader = BroadcastReader;

    fn new(readers: usize) -> (Self, Vec<BroadcastReader>) {
        let (sender, _) = broadcast::channel(SLOTS);
        let readers = (0..readers).map(|_| BroadcastReader(sender.subscribe())).collect();
        (Self(sender), readers)
    }

    fn write(&mut self, number: u64) {
        self.0.send(Arc::new(Item(number))).expect("a receiver is there");
    }
}

impl Reads for BroadcastReader {
    fn read(&mut self) -> Found {
        match self.0.try_recv() {
            Ok(entry) => Found::Entry(entry),
            Err(TryRecvError::Empty) => Found::Nothing,
            Err(TryRecvError::Lagged(_)) => Found::Missed,
            // The writer has ended after its last entry, which was read.
            Err(TryRecvError::Closed) => Found::Nothing,
        }
    }
}

/// Entries, and the position of the first.
type Deque = Mutex<(VecDeque<Arc<Item>>, u64)>;

#[derive(Debug)]
pub(crate) struct LockedDeque(Arc<Deque>);

#[derive(Debug)]
pub(crate) struct DequeReader(Arc<Deque>, u64);

impl Fan for LockedDeque {
    const NAME: &'static str = "locked_deque";
    type Reader = DequeReader;

    fn new(readers: usize) -> (Self, Vec<DequeReader>) {
        let shared: Arc<Deque> = Arc::new(Mutex::new((VecDeque::with_capacity(SLOTS), 0)));
        let readers = (0..readers).map(|_| DequeReader(Arc::clone(&shared), 0)).collect();
        (Self(shared), readers)
    }

    fn write(&mut self, number: u64) {
        let entry = Arc::new(Item(number));
        let gone = {
            let (entries, first) = &mut *self.0.lock().expect("nothing panics inside");
            let gone = (entries.len() == SLOTS).then(|| entries.pop_front());
            *first += u64::from(gone.is_some());
            entries.push_back(entry);
            gone
        };
        drop(gone);
    }
}

impl Reads for DequeReader {
    fn read(&mut self) -> Found {
        let (entries, first) = &*self.0.lock().expect("nothing panics inside");
        let Some(at) = self.1.checked_sub(*first) else {
            self.1 = *first;
            return Found::Missed;
        };
        let at = usize::try_from(at).expect("it is in the deque or one behind");
        match entries.get(at) {
            Some(entry) => {
                self.1 += 1;
                Found::Entry(Arc::clone(entry))
            }
            None => Found::Nothing,
        }
    }
}

#[derive(Debug)]
pub(crate) struct ArrayQueues(Vec<Arc<ArrayQueue<Arc<Item>>>>);

#[derive(Debug)]
pub(crate) struct QueueReader(Arc<ArrayQueue<Arc<Item>>>);

impl Fan for ArrayQueues {
    const NAME: &'static str = "array_queues";
    const TELLS: bool = false;
    type Reader = QueueReader;

    fn new(readers: usize) -> (Self, Vec<QueueReader>) {
        let queues: Vec<_> = (0..readers).map(|_| Arc::new(ArrayQueue::new(SLOTS))).collect();
        let readers = queues.iter().map(|queue| QueueReader(Arc::clone(queue))).collect();
        (Self(queues), readers)
    }

    fn write(&mut self, number: u64) {
        let entry = Arc::new(Item(number));
        for queue in &self.0 {
            queue.force_push(Arc::clone(&entry));
        }
    }
}

impl Reads for QueueReader {
    fn read(&mut self) -> Found {
        self.0.pop().map_or(Found::Nothing, Found::Entry)
    }
}
