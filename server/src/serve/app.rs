//! What all shards share while the server runs.
//!
//! Owns the documents that never change, the feed and the server's state of life. It never changes an object and
//! knows no socket. Every member is read without a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use bytes::Bytes;
use revcast_engine::Feed;

use crate::api::discovery::Discovery;
use crate::api::openapi::OpenApi;
use crate::api::resources::Registry;

/// The stages of a server's life, in order; it never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Life {
    /// The source has not delivered the first state yet: reads and writes get 429.
    Starting,
    /// Everything is served.
    Serving,
    /// The server ends: new requests get 429 with `Retry-After`, so that clients go elsewhere.
    Closing,
}

/// What all shards share.
#[derive(Debug)]
pub struct App {
    pub(super) registry: Arc<Registry>,
    pub(super) discovery: Discovery,
    pub(super) openapi: OpenApi,
    pub(super) feed: Feed,
    pub(super) min_watch_timeout: Duration,
    pub(super) root: Bytes,
    life: AtomicU8,
}

impl App {
    /// Makes all documents. `feed` has the schema of `registry`.
    ///
    /// `server_address` (`host:port`) stands in plain discovery. A watch that names no timeout ends between
    /// `min_watch_timeout` and twice that. The server is [`Life::Starting`].
    #[must_use]
    pub fn new(
        registry: Arc<Registry>,
        feed: Feed,
        server_address: &str,
        min_watch_timeout: Duration,
    ) -> Self {
        Self {
            discovery: Discovery::new(&registry, server_address),
            openapi: OpenApi::new(&registry),
            root: root(&registry),
            life: AtomicU8::new(Life::Starting as u8),
            registry,
            feed,
            min_watch_timeout,
        }
    }

    /// Where the server is in its life.
    #[must_use]
    pub fn life(&self) -> Life {
        match self.life.load(Ordering::Acquire) {
            0 => Life::Starting,
            1 => Life::Serving,
            _ => Life::Closing,
        }
    }

    /// Goes on to `life`; going back does nothing.
    pub fn advance(&self, life: Life) {
        self.life.fetch_max(life as u8, Ordering::AcqRel);
    }

    /// The feed.
    #[must_use]
    pub const fn feed(&self) -> &Feed {
        &self.feed
    }

    /// The resources.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }
}

/// The reply to `GET /`: every path that is no object's.
fn root(registry: &Registry) -> Bytes {
    let mut paths: Vec<String> = [
        "/api",
        "/apis",
        "/healthz",
        "/healthz/ping",
        "/livez",
        "/livez/ping",
        "/openapi/v3",
        "/readyz",
        "/readyz/ping",
        "/version",
    ]
    .map(str::to_owned)
    .to_vec();
    for resource in registry.iter() {
        let version = resource.api_version();
        if resource.group.is_empty() {
            paths.push(format!("/api/{version}"));
        } else {
            paths.push(format!("/apis/{version}"));
            paths.push(format!("/apis/{}", resource.group));
        }
    }
    paths.sort_unstable();
    paths.dedup();
    let root = serde_json::json!({ "paths": paths });
    // A tree of strings always serializes.
    serde_json::to_vec_pretty(&root).unwrap_or_default().into()
}
