//! Forwarding with a real server and an upstream that does what a script says: what reaches the upstream of a request, what
//! reaches the client of a reply, and what is served from the cache whatever the upstream does.
#![allow(clippy::unwrap_used)]

mod bodies;
mod cached;
mod connections;
mod duplex;
mod exec;
mod failures;
mod over_http2;
mod replies;
mod requests;
mod reviews;
#[path = "../bad_input/rows.rs"]
mod rows;
mod smuggling;
mod streams;
mod strict;
mod tls;
mod unreadable;
mod upgrades;

use revcast_tests::client::Client;
use revcast_tests::server::Server;
use revcast_tests::upstream::Upstream;

/// A list that is served from the cache.
pub(crate) const CACHED: &str = "/api/v1/namespaces/t/configmaps";

/// Bytes that never repeat within a piece, so that a lost, doubled or moved byte is found.
#[derive(Debug, Default)]
pub(crate) struct Pattern {
    at: u64,
}

/// A prime, so that pieces of the pattern begin everywhere in pieces of the network.
const PATTERN_BYTES: usize = 65_521;

fn pattern() -> &'static [u8] {
    static PATTERN: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    PATTERN.get_or_init(|| {
        let mut state = 1_u64;
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()[0]
        };
        (0..PATTERN_BYTES).map(next).collect()
    })
}

impl Pattern {
    pub(crate) const fn at(&self) -> u64 {
        self.at
    }

    fn rest(&self) -> &'static [u8] {
        &pattern()[usize::try_from(self.at % PATTERN_BYTES as u64).unwrap()..]
    }

    /// The next piece, of a pattern that ends at `end`.
    pub(crate) fn next(&mut self, end: u64) -> &'static [u8] {
        let piece = self.rest();
        let length = piece.len().min(usize::try_from(end - self.at).unwrap());
        self.at += length as u64;
        &piece[..length]
    }

    /// Asserts that these bytes come next.
    pub(crate) fn expect(&mut self, bytes: &[u8]) {
        let mut bytes = bytes;
        while !bytes.is_empty() {
            let piece = self.rest();
            let length = piece.len().min(bytes.len());
            assert!(bytes[..length] == piece[..length], "other bytes than were sent, after {}", self.at);
            self.at += length as u64;
            bytes = &bytes[length..];
        }
    }
}

/// An upstream and a server in front of it.
pub(crate) struct Pair {
    pub(crate) upstream: Upstream,
    pub(crate) server: Server,
}

impl Pair {
    pub(crate) fn new(options: &[&str]) -> Self {
        Self::before(Upstream::start(), options)
    }

    pub(crate) fn before(upstream: Upstream, options: &[&str]) -> Self {
        let url = upstream.url();
        let mut all = vec!["--upstream", &url, "--shards", "1"];
        all.extend_from_slice(options);
        Self { server: Server::start(&all), upstream }
    }

    pub(crate) fn client(&self) -> Client {
        self.server.client()
    }
}
