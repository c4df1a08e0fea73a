//! The account of bytes in use by requests: bodies that are received, drafts in progress, replies that are not sent yet.
//!
//! One account for all shards. Each of these is charged before it is allocated, and a charge that would exceed the account's
//! share of the memory is refused (429), so that the sum of all clients cannot take what the store and the watches need. A
//! single charge is always admitted, however large: every limit of a single request is below what a server must have.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::http::status::Status;
use crate::value::show_size;

/// The part of the memory that requests may use.
const SHARE: u64 = 8;

/// Bytes in use, and their limit.
#[derive(Debug)]
pub(super) struct Account {
    /// `None`: no limit.
    max: Option<u64>,
    charged: AtomicU64,
}

impl Account {
    /// A share of this much memory; `None`: memory has no limit.
    pub(super) fn new(memory_max: Option<u64>) -> Arc<Self> {
        Arc::new(Self { max: memory_max.map(|max| max / SHARE), charged: AtomicU64::new(0) })
    }

    /// Bytes in use.
    pub(super) fn charged(&self) -> u64 {
        self.charged.load(Ordering::Relaxed)
    }

    /// The charge of a request that begins.
    pub(super) fn open(self: &Arc<Self>) -> Charge {
        Charge { account: Arc::clone(self), bytes: 0 }
    }
}

/// The charge of one request. Released on drop.
#[derive(Debug)]
pub(super) struct Charge {
    account: Arc<Account>,
    bytes: u64,
}

impl Charge {
    /// Charges `bytes` more.
    ///
    /// # Errors
    /// 429: too much is in use.
    pub(super) fn add(&mut self, bytes: usize) -> Result<(), Box<Status>> {
        let bytes = bytes as u64;
        let others = self.account.charged.fetch_add(bytes, Ordering::Relaxed).saturating_sub(self.bytes);
        match self.account.max {
            Some(max) if others > 0 && others + self.bytes + bytes > max => {
                self.account.charged.fetch_sub(bytes, Ordering::Relaxed);
                let message = format!(
                    "requests and replies in progress take all of the {} that they may use: retry later, send less at once, or raise \
                     max-memory",
                    show_size(max)
                );
                Err(Box::new(Status::too_many_requests(message, 1)))
            }
            Some(_) | None => {
                self.bytes += bytes;
                Ok(())
            }
        }
    }

    /// Releases everything.
    pub(super) fn clear(&mut self) {
        self.account.charged.fetch_sub(std::mem::take(&mut self.bytes), Ordering::Relaxed);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_together_stay_within_the_share() {
        let account = Account::new(Some(8 << 20));
        let (mut first, mut second) = (account.open(), account.open());
        first.add(600 << 10).expect("room");
        second.add(400 << 10).expect("room");
        let refused = second.add(200 << 10).expect_err("more than 1 MiB");
        assert_eq!(refused.code(), 429);
        assert!(refused.to_json().contains("1MiB"), "{}", refused.to_json());
        assert_eq!(account.charged(), 1000 << 10, "what is refused is not charged");
        drop(first);
        second.add(500 << 10).expect("room again");
        second.clear();
        assert_eq!(account.charged(), 0);
    }

    #[test]
    fn one_alone_may_have_more_than_the_share() {
        let account = Account::new(Some(8 << 20));
        let (mut alone, mut other) = (account.open(), account.open());
        alone.add(3 << 20).expect("no other charge");
        alone.add(3 << 20).expect("still none");
        other.add(1).expect_err("now there is");
        drop(alone);
        other.add(1).expect("now there is not");
    }

    #[test]
    fn without_a_limit_bytes_are_counted_only() {
        let account = Account::new(None);
        let mut charge = account.open();
        charge.add(1 << 40).expect("no limit");
        assert_eq!(account.charged(), 1 << 40);
    }
}
