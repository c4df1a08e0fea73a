//! The same over TLS, HTTP/2 and WebSockets: connections end as each protocol has it, and no client lists again.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use revcast_tests::etcd::Release;
use revcast_tests::succession::Change;

use super::many::{Plan, Protocol, run};

/// One at a time: their handshakes take what the machine has.
static TURN: Mutex<()> = Mutex::new(());

fn over(protocol: Protocol, has_tls: bool) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let plan = Plan {
        change: Change::TakeOver,
        protocol,
        has_tls,
        watchers: 40,
        is_narrow: false,
        rate: 100,
        times: 2,
        grace: Duration::from_secs(3),
        compacted: None,
        loops: 1,
    };
    run(Release::V3_5, plan);
}

#[test]
fn clients_of_tls_go_on_at_the_successor() {
    over(Protocol::Http1, true);
}

#[test]
fn clients_of_http2_go_on_at_the_successor() {
    over(Protocol::Http2(4), false);
}

#[test]
fn clients_of_http2_over_tls_go_on_at_the_successor() {
    over(Protocol::Http2(4), true);
}

#[test]
fn websockets_go_on_at_the_successor() {
    over(Protocol::WebSocket, false);
}

#[test]
fn websockets_over_tls_go_on_at_the_successor() {
    over(Protocol::WebSocket, true);
}
