//! All writers of one part of a run: started together, ended together.

use crate::writer::{Order, Writer, Written};
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

#[derive(Debug)]
pub(crate) struct Writers {
    running: Vec<JoinHandle<Written>>,
    order: Order,
}

impl Writers {
    pub(crate) fn start(order: Order) -> Self {
        let start = |number| {
            let writer = Writer::new(order.clone(), number);
            thread::spawn(move || writer.run())
        };
        let running = (0..order.writers).map(start).collect();
        Self { running, order }
    }

    pub(crate) fn are_done(&self) -> bool {
        self.running.iter().all(JoinHandle::is_finished)
    }

    /// Writes no more, waits for the replies, and puts the accounts together.
    pub(crate) fn end(self) -> Result<Written, String> {
        self.order.stop.store(true, Ordering::Relaxed);
        let mut all = Written::default();
        for writer in self.running {
            all.add(writer.join().map_err(|_| "a writer panicked".to_owned())?);
        }
        Ok(all)
    }
}
