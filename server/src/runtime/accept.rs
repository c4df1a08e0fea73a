//! Accepting: from a listener to a task for each connection, also when descriptors run out.

use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use futures_lite::{AsyncWriteExt, FutureExt};
use glommio::net::TcpStream;
use glommio::timer::sleep;
use revcast_engine::tick::Tick;
use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_keepalive, set_socket_reuseaddr, set_socket_reuseport, set_socket_send_buffer_size,
    set_tcp_keepidle, set_tcp_keepintvl, set_tcp_user_timeout,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, accept_with, bind, listen, socket_with};
use uuid::Uuid;

use super::client::Permit;
use super::http1::connection::{serve, tune};
use super::listener::{Listener, ListenerKind};
use super::options::Options;
use super::shard::local::Local;
use super::sys::descriptor;
use super::tally::Refusal;
use crate::http::response::push_status;
use crate::http::status::{Layout, Status};

/// Connections that the kernel keeps until they are accepted; it caps this at `net.core.somaxconn`.
const LISTEN_BACKLOG: i32 = 4096;
/// Interval of the keep-alive probes to a silent peer (the default of Go, and so of kube-apiserver).
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// For how long binding is retried while the address is in use.
const BIND_PATIENCE: Duration = Duration::from_secs(1);
/// Pause after an accept that failed for lack of descriptors.
const BACK_OFF: Duration = Duration::from_millis(50);

const OVERLOADED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Type: \
text/plain; charset=utf-8\r\nContent-Length: 71\r\n\r\nno descriptor is left for another connection: raise nofile (ulimit -n)\n";

/// `count` listeners on one address, among which the kernel spreads connections (`SO_REUSEPORT`).
///
/// The address is first bound exclusively, so that a second server on the same port fails instead of sharing it.
pub(super) fn listeners(
    address: SocketAddr,
    count: usize,
    options: &Options,
) -> std::io::Result<(SocketAddr, Vec<OwnedFd>)> {
    let alone = bind_alone(address)?;
    let address = alone.local_addr()?;
    drop(alone);
    Ok((address, more_listeners(address, count, options)?))
}

/// `count` listeners on an address that listeners of this user may have already: connections are spread over all of them.
pub(super) fn more_listeners(
    address: SocketAddr,
    count: usize,
    options: &Options,
) -> std::io::Result<Vec<OwnedFd>> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener = || {
        let fd = socket_with(family, SocketType::STREAM, flags, None)?;
        set_socket_reuseaddr(&fd, true)?;
        set_socket_reuseport(&fd, true)?;
        set_options(fd.as_fd(), options)?;
        bind(&fd, &address)?;
        listen(&fd, LISTEN_BACKLOG)?;
        Ok(fd)
    };
    (0..count).map(|_| listener()).collect()
}

/// Sets what accepted sockets inherit: with a stall timeout of 60 s a peer that lost power is detected within 75 s, idle or not.
/// `TCP_USER_TIMEOUT` also replaces the number of probes, so a longer one delays detection.
pub(super) fn set_options(fd: BorrowedFd<'_>, options: &Options) -> std::io::Result<()> {
    set_socket_keepalive(fd, true)?;
    set_tcp_keepidle(fd, KEEP_ALIVE)?;
    set_tcp_keepintvl(fd, KEEP_ALIVE)?;
    let stall = options.stall_timeout.map_or(0, |time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX));
    set_tcp_user_timeout(fd, stall)?;
    if let Some(bytes) = options.send_buffer {
        set_socket_send_buffer_size(fd, bytes)?;
    }
    Ok(())
}

/// Binds an address exclusively. A server that has just ended may hold it a moment longer: its rings release their sockets
/// after the process has ended.
fn bind_alone(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    let give_up = Instant::now() + BIND_PATIENCE;
    loop {
        match std::net::TcpListener::bind(address) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && Instant::now() < give_up => {
                std::thread::sleep(BACK_OFF);
            }
            bound => return bound,
        }
    }
}

/// Accepts until the server closes; on the admin listener until it has closed. Not while the listeners are another process's.
pub(super) async fn accept(local: Rc<Local>, listener: Arc<Listener>) {
    let kind = listener.kind;
    let place = local.listeners.add(Arc::clone(&listener));
    loop {
        if local.listeners.is_paused() {
            local.listeners.ready(place).await;
            continue;
        }
        match accept_with(&listener.socket, SocketFlags::CLOEXEC) {
            Ok(_) if local.closing() && kind == ListenerKind::Public => {
                local.handle().tally.refused(Refusal::Closing)
            }
            Ok(socket) => {
                let stream = descriptor::stream(socket);
                match kind {
                    ListenerKind::Public => welcome(&local, stream).await,
                    // A connection that gets the last descriptor is refused and gives it back, so that the next connection gets
                    // an answer too instead of waiting in the kernel.
                    ListenerKind::Admin if !is_another_left(&local) => {
                        local.handle().tally.refused(Refusal::Descriptors);
                        overloaded(&local, stream).await;
                    }
                    // Operators are admitted however many clients are connected.
                    ListenerKind::Admin => begin(&local, stream, kind, Permit::Operator),
                }
                local.pass_accepted().await;
            }
            Err(Errno::AGAIN) => local.listeners.ready(place).await,
            // A client that has gone again (accept(2)).
            Err(Errno::CONNABORTED | Errno::INTR) => {}
            // The listener was shut down.
            Err(_) if local.closing() && kind == ListenerKind::Public => return,
            // Out of descriptors or memory: the connection waits in the kernel.
            Err(_) => {
                local.shared.admission.complain(local.now().since(Tick::ZERO));
                sleep(BACK_OFF).await;
            }
        }
    }
}

/// Admits a client's connection, or refuses it with the reason.
async fn welcome(local: &Rc<Local>, stream: TcpStream) {
    let shared = &local.shared;
    if shared.reserve.holds(stream.as_raw_fd()) {
        local.handle().tally.refused(Refusal::Descriptors);
        return match shared.reserve.admit() {
            Some(permit) if is_another_left(local) => {
                shared.admission.complain(local.now().since(Tick::ZERO));
                begin(local, stream, ListenerKind::Public, Permit::HealthCheck { _permit: permit });
            }
            Some(_) | None => overloaded(local, stream).await,
        };
    }
    match shared.admission.admit(|| stream.peer_addr().ok(), shared.handles.watchers()) {
        Ok(permit) => begin(local, stream, ListenerKind::Public, Permit::Client(permit)),
        Err(status) => {
            local.handle().tally.refused(Refusal::Limit);
            // A TLS client cannot read a plaintext reply.
            if shared.tls.is_none() {
                turn_away(stream, &status).await;
            }
        }
    }
}

fn begin(local: &Rc<Local>, stream: TcpStream, kind: ListenerKind, permit: Permit) {
    tune(&stream);
    if !matches!(permit, Permit::HealthCheck { .. }) {
        local.handle().tally.accepted();
    }
    start(local, serve(Rc::clone(local), stream, kind, permit));
}

/// Answers a connection that no descriptor is left for it, if it is not TLS.
async fn overloaded(local: &Rc<Local>, mut stream: TcpStream) {
    local.shared.admission.complain(local.now().since(Tick::ZERO));
    if local.shared.tls.is_none() {
        let _ = stream.write_all(OVERLOADED).await;
    }
}

/// Answers a connection that a limit is reached. Its send buffer is empty, so the write does not wait.
async fn turn_away(mut stream: TcpStream, status: &Status) {
    let mut out = Vec::with_capacity(512);
    push_status(&mut out, status, Layout::Compact, None, SystemTime::now(), Uuid::new_v4());
    // Write errors are ignored: the peer may have disconnected.
    let _ = stream.write_all(&out).await;
    let _ = stream.shutdown(Shutdown::Write).await;
}

/// Starts the task of a connection. A panic ends that connection only.
pub(super) fn start(local: &Rc<Local>, connection: impl Future<Output = ()> + 'static) {
    let task = AssertUnwindSafe(connection).catch_unwind();
    local.handle().tally.opened();
    let counter = Rc::clone(local);
    glommio::spawn_local(async move {
        if task.await.is_err() {
            counter.shared.panics.fetch_add(1, Ordering::Relaxed);
            crate::log::error("a request panicked; its connection was closed");
        }
        counter.handle().tally.closed();
    })
    .detach();
}

/// Starts the task of a request that has a stream of its own. A panic ends that stream only.
pub(super) fn start_request(local: &Rc<Local>, request: impl Future<Output = ()> + 'static) {
    let task = AssertUnwindSafe(request).catch_unwind();
    let counter = Rc::clone(local);
    glommio::spawn_local(async move {
        if task.await.is_err() {
            counter.shared.panics.fetch_add(1, Ordering::Relaxed);
            crate::log::error("a request panicked; its stream was reset");
        }
    })
    .detach();
}

/// Whether another descriptor can be opened.
fn is_another_left(local: &Local) -> bool {
    local.handle().wake.descriptor().try_clone_to_owned().is_ok()
}

#[cfg(test)]
mod tests {
    use revcast_engine::limits::ROUND_BYTES;
    use rustix::net::sockopt::{
        socket_keepalive, socket_send_buffer_size, tcp_keepidle, tcp_keepintvl, tcp_user_timeout,
    };

    use super::*;
    use crate::runtime::conn::send_now;

    #[test]
    fn the_spare_answer_says_how_long_it_is() {
        let text = std::str::from_utf8(OVERLOADED).expect("ASCII");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.contains(&format!("\r\nContent-Length: {}", body.len())), "{} in {head}", body.len());
    }

    #[test]
    fn accepted_sockets_notice_peers_that_vanish() {
        let options = Options {
            stall_timeout: Some(Duration::from_secs(60)),
            send_buffer: Some(100_000),
            ..Options::blank()
        };
        let (address, mut fds) = listeners(([127, 0, 0, 1], 0).into(), 1, &options).expect("a listener");
        let client = std::net::TcpStream::connect(address).expect("a connection");
        let accepted = rustix::net::accept(fds.remove(0)).expect("an accepted connection");
        assert!(socket_keepalive(&accepted).expect("read back"));
        assert_eq!(tcp_keepidle(&accepted).expect("read back"), KEEP_ALIVE);
        assert_eq!(tcp_keepintvl(&accepted).expect("read back"), KEEP_ALIVE);
        assert_eq!(tcp_user_timeout(&accepted).expect("read back"), 60_000);
        assert_eq!(socket_send_buffer_size(&accepted).expect("read back"), 200_000);
        drop(client);
    }

    /// `ROUND_BYTES` is chosen so that no watcher lags because a run is longer than an empty socket's buffer.
    #[test]
    fn an_empty_socket_takes_a_whole_run() {
        // The default of `--send-buffer`.
        let options = Options { send_buffer: Some(128 << 10), ..Options::blank() };
        let (address, mut fds) = listeners(([127, 0, 0, 1], 0).into(), 1, &options).expect("a listener");
        let client = std::net::TcpStream::connect(address).expect("a connection");
        let accepted = rustix::net::accept(fds.remove(0)).expect("an accepted connection");
        let run = vec![b'x'; ROUND_BYTES];
        assert_eq!(send_now(&accepted, &run), Some(run.len()));
        drop(client);
    }
}
