//! Clients: what each asks for, where it begins, and how it continues when a watch ends.
//!
//! Informers keep a copy of the state and continue as client-go does: after the last version that they saw; after 410
//! with a new list. Other clients begin anywhere.

use super::watch::{Copy, Watch};
use super::wish::Wish;

/// Where an informer continues.
#[derive(Debug)]
pub(crate) enum Resume {
    /// With a list, or the whole state.
    Anew,
    /// After this revision, with its copy of the state.
    Behind(u64, Copy),
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) wish: Wish,
    pub(crate) informer: bool,
    pub(crate) resume: Resume,
    /// The watch that is open.
    pub(crate) current: Option<usize>,
    pub(crate) watches: usize,
}

impl Client {
    pub(crate) const fn new(wish: Wish, informer: bool) -> Self {
        Self { wish, informer, resume: Resume::Anew, current: None, watches: 0 }
    }

    /// Its watch is over.
    pub(crate) fn ended(&mut self, watch: &mut Watch) {
        self.current = None;
        self.resume = match watch.copy.take() {
            Some(copy) if !watch.told && watch.initial.is_none() => {
                // A stream that broke off may have lost events of the last revision that it sent: they come again.
                Resume::Behind(watch.seen, copy)
            }
            _ => Resume::Anew,
        };
    }
}
