//! Deliveries over real sockets allocate no memory: an engine's shard, this outlet, TCP, and clients that read.

use std::io::{ErrorKind, Read as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use revcast_engine::change::{Batch, Change};
use revcast_engine::encoding::{Encoding, JsonOnly};
use revcast_engine::framing::BARE;
use revcast_engine::key::{Key, ResourceId};
use revcast_engine::resource::{Resource, Schema};
use revcast_engine::revision::Revision;
use revcast_engine::selector::Selector;
use revcast_engine::{Publisher, RingLimits, Scope, Shard, ShardConfig, Start, Subscription, Turn};

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};

use super::*;
use crate::auth::Guard;
use crate::counting::allocations;
use crate::runtime::sys::wake::Wake;

const WATCHERS: usize = 100;
/// Rounds until every buffer has its final size.
const WARM_UP: u64 = 20;
const ROUNDS: u64 = 20;
/// A timeout that nothing here comes near.
const LONG: Duration = Duration::from_secs(60);
/// A socket is full after a few large frames.
const BUFFER_BYTES: usize = 64 << 10;

struct Stand {
    publisher: Publisher,
    shard: Shard,
    watches: Watches,
    clients: Vec<TcpStream>,
    maps: ResourceId,
    revision: u64,
    scrap: Vec<u8>,
    _wake: Wake,
}

impl Stand {
    /// [`WATCHERS`] live watches, each over a TCP connection of its own.
    fn new(sends: Option<Sends>) -> Self {
        let mut schema = Schema::new();
        let maps = schema.add(Resource::new("v1", "ConfigMap", true, vec![]));
        let (publisher, feed) =
            Publisher::new(Arc::new(schema), Arc::new(JsonOnly), RingLimits::default(), 1, Revision::ZERO);
        let wake = Wake::new().expect("an eventfd");
        let polls = Polls::new(wake.descriptor()).expect("a ring");
        let mut stand = Self {
            publisher,
            shard: Shard::new(0, feed, ShardConfig::default()),
            watches: Watches::new(polls, sends, &Guard::open(), None),
            clients: Vec::new(),
            maps,
            revision: 0,
            scrap: vec![0; 1 << 20],
            _wake: wake,
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        for _ in 0..WATCHERS {
            let client = TcpStream::connect(address).expect("it listens");
            client.set_nonblocking(true).expect("a socket");
            let (socket, _) = listener.accept().expect("a client connected");
            set_socket_send_buffer_size(&socket, BUFFER_BYTES).expect("a socket");
            set_socket_recv_buffer_size(&client, BUFFER_BYTES).expect("a socket");
            let watch_request = Subscription {
                scope: Scope::all(maps),
                selector: Selector::everything(),
                encoding: Encoding::Json,
                framing: &BARE,
                start: Start::Latest,
                bookmarks: false,
                timeout: Duration::MAX,
                jitter: 0,
                as_of_seconds: 0,
            };
            let id = stand.shard.subscribe(watch_request, Tick::ZERO);
            let (unsent, unread, permit) = Default::default();
            let link = Link { socket: socket.into(), tls: None, unsent, unread, permit, keep_alive: true };
            let record = WatchRecord::default();
            stand.watches.begin(id, Carrying::Link(link), WireStream::Chunked, record, 0);
            stand.clients.push(client);
        }
        stand.turn_all();
        assert_eq!(stand.shard.stats().live, WATCHERS as u64);
        stand
    }

    fn put(&mut self, padding: usize) {
        self.revision += 1;
        let value = format!(
            r#"{{"metadata":{{"name":"m","namespace":"n"}},"data":{{"a":"{}"}}}}"#,
            "x".repeat(padding)
        );
        let changes = vec![Change { key: Key::new(self.maps, Some("n"), "m"), value: Some(value.into()) }];
        let batch = Batch { revision: Revision::new(self.revision), changes };
        self.publisher.handle_batch(&batch, 0).expect("newer");
        self.publisher.publish();
    }

    /// What a shard's loop does until there is no work.
    fn turn_all(&mut self) {
        loop {
            for (id, news) in self.watches.reap(Tick::ZERO) {
                match news {
                    ConnEvent::Writable => self.shard.writable(id),
                    ConnEvent::Gone { .. } => panic!("no client hangs up"),
                }
            }
            let turn = self.shard.turn(&mut self.watches, Tick::ZERO);
            self.watches.flush();
            self.watches.submit();
            if turn != Turn::Again && !self.watches.has_events() {
                return;
            }
        }
    }

    /// Clients read all that is there. Returns how many bytes.
    fn read_all(&mut self) -> usize {
        let mut read = 0;
        for client in &mut self.clients {
            loop {
                match client.read(&mut self.scrap) {
                    Ok(0) => panic!("no client hangs up"),
                    Ok(bytes) => read += bytes,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        read
    }
}

/// Each way to send.
fn ways() -> [Option<Sends>; 2] {
    [None, Some(Sends::new().expect("an io_uring that sends"))]
}

#[test]
fn a_delivery_over_tcp_allocates_nothing() {
    ways().into_iter().for_each(deliver);
}

fn deliver(sends: Option<Sends>) {
    let mut stand = Stand::new(sends);
    let (mut asked, mut read) = (0, 0);
    for round in 0..WARM_UP + ROUNDS {
        stand.put(1024);
        let here = allocations(|| stand.turn_all());
        asked += if round < WARM_UP { 0 } else { here };
        read += stand.read_all();
    }
    let sent = stand.shard.stats().events_sent;
    assert_eq!(sent, (WARM_UP + ROUNDS) * WATCHERS as u64);
    assert!(read >= 1024 * usize::try_from(sent).expect("small"), "{read} bytes for {sent} events");
    assert!(ROUNDS * WATCHERS as u64 >= 1_000);
    assert_eq!(asked, 0, "for {} deliveries", ROUNDS * WATCHERS as u64);
}

/// No client reads until every socket is full; then all are read, reported writable by the kernel, and catch up by pages.
#[test]
fn full_sockets_that_catch_up_allocate_nothing() {
    ways().into_iter().for_each(fill);
}

fn fill(sends: Option<Sends>) {
    const PADDING: usize = 128 << 10;
    let mut stand = Stand::new(sends);
    let (mut asked, mut blocked, began) = (Vec::new(), 0, Instant::now());
    // A buffer grows when more watchers return together than ever before, which the kernel decides: not in three rounds in a row.
    while !asked.ends_with(&[0, 0, 0]) {
        assert!(asked.len() < 12, "{asked:?} allocations, {blocked} were full");
        let mut here = 0;
        let before = stand.shard.stats().blocked;
        while stand.shard.stats().live > 0 {
            stand.put(PADDING);
            here += allocations(|| stand.turn_all());
        }
        // Some that wait, and are missed.
        (0..10).for_each(|_| stand.put(1024));
        while stand.shard.stats().live < WATCHERS as u64 {
            stand.read_all();
            assert!(began.elapsed() < LONG, "{:?}", stand.shard.stats());
            here += allocations(|| stand.turn_all());
        }
        stand.read_all();
        asked.push(here);
        blocked += stand.shard.stats().blocked - before;
    }
    assert_eq!(
        stand.shard.stats().events_sent,
        stand.revision * WATCHERS as u64,
        "no watcher missed anything"
    );
    assert!(blocked >= 3 * WATCHERS as u64, "{blocked} were full");
}
