//! What ties a server to its predecessor until that has ended.

use std::sync::{Mutex, PoisonError};

use super::channel::Channel;
use super::message::Request;

/// The connection to the predecessor while that ends its watches. If it breaks without a word, the predecessor serves again.
#[derive(Debug, Default)]
pub struct PredecessorLink(Mutex<Option<Channel>>);

impl PredecessorLink {
    pub(super) const fn to(channel: Channel) -> Self {
        Self(Mutex::new(Some(channel)))
    }

    /// This process ends in an orderly way, or has a successor itself.
    pub fn leave(&self) {
        let channel = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The predecessor may have ended.
        channel.iter().for_each(|channel| _ = channel.say(&Request::Leaving));
    }
}
