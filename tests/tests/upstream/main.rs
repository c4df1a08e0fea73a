//! Forwarding with a real server and an upstream that does what a script says: what reaches the upstream of a request, what
//! reaches the client of a reply, and what is served from the cache whatever the upstream does.
#![allow(clippy::unwrap_used)]

mod requests;

use revcast_tests::client::Client;
use revcast_tests::server::Server;
use revcast_tests::upstream::Upstream;

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
