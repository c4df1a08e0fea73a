//! What an operator says of the server: where it listens, on which CPUs, how long peers may take, how many there may be.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// Options of listeners, shards, connections and watches. Parsed once; all threads share it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the API is served.
    pub listen: SocketAddr,
    /// Where `/metrics` and `/compact` are served; `None`: nowhere.
    pub admin_listen: Option<SocketAddr>,
    /// The CPU of each shard, one item a shard, 1 to 256. CPUs repeat when there are more shards than CPUs.
    pub cpus: Vec<usize>,
    /// Whether shards stay on their CPUs.
    pub is_pinned: bool,
    /// Between two bookmarks of a watch: 1 s to 1 h.
    pub bookmark_interval: Duration,
    /// How long a watch is quiet before it is sent a space: 1 s to 1 h; `None`: for ever.
    pub heartbeat_interval: Option<Duration>,
    /// How long a peer may leave bytes, or questions whether it is there, unacknowledged, and how long it may take none at
    /// all (`TCP_USER_TIMEOUT`, tcp(7)); then it is cut off. `None`: bytes to a vanished peer are sent again for 15 minutes,
    /// and one that is there may take none for ever.
    pub stall_timeout: Option<Duration>,
    /// Bytes that the kernel holds for a connection that does not take them (`SO_SNDBUF`): 4 KiB to 1 GiB. The kernel takes
    /// twice as much, for what it writes beside the bytes (socket(7)), and caps it at `net.core.wmem_max`. `None`:
    /// `net.ipv4.tcp_wmem` holds.
    pub send_buffer: Option<usize>,
    /// How bytes go to many sockets.
    pub send_mode: SendMode,
    /// From SIGTERM, when the server stops being ready, to the first end of a watch.
    pub drain_delay: Duration,
    /// From there to the end of the process, at most; the ends of the watches are spread over most of it.
    pub drain_grace: Duration,
    /// Watches at once; `None`: [`crate::doctor::Report::watchers_max`].
    pub max_watchers: Option<usize>,
    /// Resident memory in bytes; `None`: seven eighths of the cgroup's limit, or no limit where it has none.
    pub max_memory: Option<u64>,
    /// Watches at once of one user; of one address, where a connection proves no user. `None`: as many as there may be.
    pub max_watchers_per_user: Option<usize>,
    /// Connections at once; `None`: as many as there are descriptors.
    pub max_connections: Option<usize>,
    /// Connections of one address at once; `None`: as many as there may be.
    pub max_connections_per_address: Option<usize>,
    /// From a connection's begin, or a head's first byte, to the head's end: 1 s to 1 h.
    pub head_timeout: Duration,
    /// Between two requests of a connection: 1 s to 1 h.
    pub idle_timeout: Duration,
    /// From a head to the end of its body, and for a reply, with a second more for each 64 KiB that is taken: 1 s to 1 h.
    pub request_timeout: Duration,
}

impl Options {
    /// Without a shard, a limit or any time, before options are set.
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
            head_timeout: Duration::ZERO,
            idle_timeout: Duration::ZERO,
            request_timeout: Duration::ZERO,
        }
    }
}

/// How bytes go to many sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// `io_uring` where the kernel has what it takes, otherwise `send`.
    Auto,
    /// One `send(2)` for each.
    Send,
    /// Batches on an io_uring of the shard's own.
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
