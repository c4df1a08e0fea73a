//! The operator's options: where the server listens, on which CPUs, timeouts of peers, and limits on their number.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use crate::wire::http2::Limits;

/// Options of listeners, shards, connections and watches. Parsed once; all threads share it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the API is served.
    pub listen: SocketAddr,
    /// Where `/metrics` and `/compact` are served; `None`: nowhere.
    pub admin_listen: Option<SocketAddr>,
    /// The CPU of each shard, one item per shard, 1 to 256. CPUs repeat when there are more shards than CPUs.
    pub cpus: Vec<usize>,
    /// Whether shards are pinned to their CPUs.
    pub is_pinned: bool,
    /// The interval of bookmarks of a watch: 1 s to 1 h.
    pub bookmark_interval: Duration,
    /// How long a watch is idle before it is sent a space: 1 s to 1 h; `None`: for ever.
    pub heartbeat_interval: Option<Duration>,
    /// How long a peer may leave bytes or keep-alive probes unacknowledged, and how long it may accept no bytes
    /// (`TCP_USER_TIMEOUT`, tcp(7)); then the connection is closed. `None`: bytes to a vanished peer are sent again for 15
    /// minutes, and a live one may accept none for ever.
    pub stall_timeout: Option<Duration>,
    /// The kernel's send buffer of a connection (`SO_SNDBUF`): 4 KiB to 1 GiB. The kernel doubles it for its own overhead
    /// (socket(7)), and caps it at `net.core.wmem_max`. `None`: `net.ipv4.tcp_wmem` applies.
    pub send_buffer: Option<usize>,
    /// How bytes go to many sockets.
    pub send_mode: SendMode,
    /// From SIGTERM, when the server stops being ready, until the first watch is ended.
    pub drain_delay: Duration,
    /// From then until the end of the process, at most; the ends of the watches are spread over most of it.
    pub drain_grace: Duration,
    /// The limit on watches; `None`: [`crate::doctor::Report::watchers_max`].
    pub max_watchers: Option<usize>,
    /// The limit on resident memory in bytes; `None`: seven eighths of the cgroup's limit, or no limit where it has none.
    pub max_memory: Option<u64>,
    /// The limit on watches of one user; of one address, where a connection has no user. `None`: no limit.
    pub max_watchers_per_user: Option<usize>,
    /// The limit on connections; `None`: the number of descriptors.
    pub max_connections: Option<usize>,
    /// The limit on connections of one address; `None`: no limit.
    pub max_connections_per_address: Option<usize>,
    /// The limit on streams of one connection of HTTP/2 at once: 1 to 1,000.
    pub http2_max_streams: usize,
    /// Which heartbeats connections of HTTP/2 get.
    pub http2_heartbeat: Http2Heartbeat,
    /// The time from the start of a connection, or the first byte of a head, to the head's end: 1 s to 1 h.
    pub head_timeout: Duration,
    /// The time between two requests of a connection: 1 s to 1 h.
    pub idle_timeout: Duration,
    /// The time from a head to the end of its body, and for a reply, with a second more for each 64 KiB that is taken: 1 s to 1
    /// h.
    pub request_timeout: Duration,
}

impl Options {
    /// No shard, no limit and no timeout, before options are set.
    #[must_use]
    pub const fn blank() -> Self {
        Self {
            listen: SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0),
            admin_listen: None,
            cpus: Vec::new(),
            is_pinned: false,
            bookmark_interval: Duration::ZERO,
            heartbeat_interval: None,
            stall_timeout: None,
            send_buffer: None,
            send_mode: SendMode::Auto,
            drain_delay: Duration::ZERO,
            drain_grace: Duration::ZERO,
            max_watchers: None,
            max_memory: None,
            max_watchers_per_user: None,
            max_connections: None,
            max_connections_per_address: None,
            http2_max_streams: 0,
            http2_heartbeat: Http2Heartbeat::Stream,
            head_timeout: Duration::ZERO,
            idle_timeout: Duration::ZERO,
            request_timeout: Duration::ZERO,
        }
    }
}

/// Bytes of the fields of a request over HTTP/2, each with 32 more: what a head of HTTP/1.1 may have, and the 32 of each field.
const HTTP2_LIST_BYTES: u32 = 48 << 10;
/// The dynamic table of a client: half of what it may take for granted (RFC 9113, section 6.5.2), since each connection keeps
/// one for good.
const HTTP2_TABLE_BYTES: u32 = 2 << 10;
/// As kube-apiserver's.
const HTTP2_STREAM_WINDOW: u32 = 256 << 10;
const HTTP2_CONNECTION_WINDOW: u32 = 1 << 20;

impl Options {
    /// How long a connection of HTTP/2 with a watch is sent nothing before it gets a PING; `None`: it never does.
    pub(super) fn ping_after(&self) -> Option<Duration> {
        self.heartbeat_interval.filter(|_| self.http2_heartbeat == Http2Heartbeat::Ping)
    }

    /// What connections of HTTP/2 may do.
    pub(super) fn http2_limits(&self) -> Limits {
        Limits {
            streams: u32::try_from(self.http2_max_streams).unwrap_or(u32::MAX),
            list_bytes: HTTP2_LIST_BYTES,
            table_bytes: HTTP2_TABLE_BYTES,
            stream_window: HTTP2_STREAM_WINDOW,
            connection_window: HTTP2_CONNECTION_WINDOW,
        }
    }
}

/// What an idle watch over HTTP/2 is sent, so that no proxy cuts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http2Heartbeat {
    /// A space on its stream, where its encoding has room for one: proxies that end idle streams count these bytes.
    Stream,
    /// One PING for all watches of the connection.
    Ping,
}

impl Http2Heartbeat {
    pub(crate) const ALL: [Self; 2] = [Self::Stream, Self::Ping];
}

impl fmt::Display for Http2Heartbeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stream => "stream",
            Self::Ping => "ping",
        })
    }
}

/// How bytes go to many sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// `io_uring` if the kernel supports what it needs, otherwise `send`.
    Auto,
    /// One `send(2)` per socket.
    Send,
    /// Batches on an io_uring of each shard.
    IoUring,
}

impl SendMode {
    pub(crate) const ALL: [Self; 3] = [Self::Auto, Self::Send, Self::IoUring];
}

impl fmt::Display for SendMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Send => "send",
            Self::IoUring => "io_uring",
        })
    }
}
