//! The same over TLS, HTTP/2 and WebSockets: connections end as each protocol has it, and no client lists again. And a client that resumes on
//! the connection that it has.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use revcast_tests::etcd::{Etcd, Options, Release};
use revcast_tests::succession::{Change, WITHIN};

use super::many::{Plan, Protocol, run};
use super::{serve, succeed};

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

/// As clients with a pool of connections do: the connection of a watch that has ended is the first one that is free.
#[test]
fn a_client_that_resumes_on_its_connection_is_told_to_leave_it() {
    const GRACE: Duration = Duration::from_secs(2);
    const PATH: &str = "/api/v1/namespaces/a/configmaps";
    let etcd = Etcd::start(Release::V3_5, Options::default());
    let mut old = serve(&etcd, GRACE, &[]);
    let mut watch = old.client().watch(&format!("{PATH}?watch=1")).unwrap();
    let new = succeed(&etcd, &old, GRACE, &[]);
    assert!(watch.rest().is_empty());
    let mut connection = watch.into_connection();
    assert!(connection.is_quiet_for(Duration::from_millis(100)).unwrap(), "it is not closed");
    let query = "watch=1&allowWatchBookmarks=true&resourceVersion=1";
    let mut watch = connection.watch(&format!("{PATH}?{query}"), &[]).unwrap();
    assert!(watch.headers().iter().any(|(name, value)| name == "connection" && value == "close"));
    let events = watch.rest();
    assert!(events.iter().all(|(kind, _)| kind == "BOOKMARK"), "it ends at once, in order: {events:?}");
    assert!(watch.into_connection().read_to_end().unwrap().is_empty());
    // One that is not used again holds nobody up for long.
    assert_eq!(old.await_end(GRACE + WITHIN), 0);
    assert_eq!(new.client().get("/readyz").status, 200);
}
