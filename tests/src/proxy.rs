//! A TCP proxy that a test puts between two processes, to break their connections.
//!
//! It forwards bytes without looking at them. It has one thread that accepts and two per connection, with a limit, and
//! all of them end when it is dropped. It cannot lose bytes that a system has acknowledged, or keep a system from
//! acknowledging; to a client that waits for a reply a black hole looks the same.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::port::Port;

/// A connection beyond this limit is closed as soon as it is accepted.
const CONNECTIONS_MAX: usize = 64;
const CHUNK: usize = 64 * 1024;
const STACK: usize = 256 * 1024;
/// How long the other side may take to accept.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running proxy. Forwards at first.
#[derive(Debug)]
pub struct Proxy {
    port: Port,
    shared: Arc<Shared>,
    /// The thread that accepts; `None` while it is cut.
    acceptor: Mutex<Option<JoinHandle<()>>>,
}

/// What it does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Whole,
    Hung,
    Cut,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    state: Mutex<State>,
    /// Notified of every change of mode.
    changed: Condvar,
    accepted: AtomicU64,
    bytes_up: AtomicU64,
    bytes_down: AtomicU64,
}

#[derive(Debug)]
struct State {
    mode: Mode,
    delay: Duration,
    /// How often it was cut. Connections accepted before the last cut end.
    cuts: u64,
    connections: Vec<Connection>,
    threads: Vec<JoinHandle<()>>,
    next: u64,
}

/// A connection that is open on some side.
#[derive(Debug)]
struct Connection {
    id: u64,
    /// The client's, then the one to the other side.
    sockets: Vec<TcpStream>,
    /// Directions that are still open.
    open: u8,
}

/// One direction of a connection.
struct Pump {
    id: u64,
    cuts: u64,
    from: TcpStream,
    to: TcpStream,
    counter: fn(&Shared) -> &AtomicU64,
}

impl Proxy {
    /// Forwards from a port of its own to `IP:PORT`.
    ///
    /// # Panics
    /// When that is no address, or there is no port.
    #[must_use]
    pub fn start(upstream: &str) -> Self {
        let upstream = upstream.parse().unwrap_or_else(|_| panic!("{upstream} is no IP:PORT"));
        let state = State {
            mode: Mode::Cut,
            delay: Duration::ZERO,
            cuts: 0,
            connections: Vec::new(),
            threads: Vec::new(),
            next: 0,
        };
        let shared = Shared {
            upstream,
            state: Mutex::new(state),
            changed: Condvar::new(),
            accepted: AtomicU64::new(0),
            bytes_up: AtomicU64::new(0),
            bytes_down: AtomicU64::new(0),
        };
        let proxy = Self { port: Port::free(), shared: Arc::new(shared), acceptor: Mutex::new(None) };
        proxy.heal();
        proxy
    }

    /// `127.0.0.1:PORT`, the same for its whole life.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port.number())
    }

    /// Closes every connection, on both sides, and refuses new ones.
    ///
    /// # Panics
    /// When a thread of its own did.
    pub fn cut(&self) {
        assert!(self.close(), "the proxy's acceptor panicked: see above");
    }

    /// A black hole: new connections are accepted, and nothing is forwarded in either direction.
    ///
    /// # Panics
    /// When its port is taken, after a cut.
    pub fn hang(&self) {
        self.open(Mode::Hung);
    }

    /// Forwards again, beginning with the held bytes.
    ///
    /// # Panics
    /// When its port is taken, after a cut.
    pub fn heal(&self) {
        self.open(Mode::Whole);
    }

    /// Delays replies by this time, and at most twice that.
    pub fn delay(&self, time: Duration) {
        self.shared.lock().delay = time;
        self.shared.changed.notify_all();
    }

    /// Connections that it accepted, ever.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// Connections that are open now, on any side.
    #[must_use]
    pub fn open_now(&self) -> usize {
        self.shared.lock().connections.len()
    }

    /// Bytes that were forwarded from clients.
    #[must_use]
    pub fn bytes_up(&self) -> u64 {
        self.shared.bytes_up.load(Ordering::Relaxed)
    }

    /// Bytes that were forwarded to clients.
    #[must_use]
    pub fn bytes_down(&self) -> u64 {
        self.shared.bytes_down.load(Ordering::Relaxed)
    }

    /// Returns whether all went well.
    fn close(&self) -> bool {
        let mut acceptor = lock(&self.acceptor);
        {
            let mut state = self.shared.lock();
            state.mode = Mode::Cut;
            state.cuts += 1;
            for socket in state.connections.drain(..).flat_map(|connection| connection.sockets) {
                // It may be closed already.
                let _ = socket.shutdown(Shutdown::Both);
            }
        }
        self.shared.changed.notify_all();
        let Some(thread) = acceptor.take() else { return true };
        // It waits for a connection; then it sees that it was cut.
        let _ = TcpStream::connect(self.address());
        thread.join().is_ok()
    }

    fn open(&self, mode: Mode) {
        let mut acceptor = lock(&self.acceptor);
        let cuts = {
            let mut state = self.shared.lock();
            state.mode = mode;
            state.cuts
        };
        self.shared.changed.notify_all();
        if acceptor.is_none() {
            let listener = TcpListener::bind(("127.0.0.1", self.port.number())).expect("the port is ours");
            let shared = Arc::clone(&self.shared);
            *acceptor = Some(spawn(move || shared.accept(&listener, cuts)));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let closed = self.close();
        let threads = std::mem::take(&mut self.shared.lock().threads);
        let failed = threads.into_iter().filter_map(|thread| thread.join().err()).count();
        // A second panic would hide the first.
        assert!(
            std::thread::panicking() || (closed && failed == 0),
            "threads of the proxy panicked: see above"
        );
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Accepts until it is cut.
    fn accept(self: &Arc<Self>, listener: &TcpListener, cuts: u64) {
        loop {
            let accepted = listener.accept();
            let mut state = self.lock();
            if state.cuts != cuts {
                return;
            }
            let Ok((client, _)) = accepted else {
                // The client disconnected again, or there are no descriptors for the moment.
                drop(state);
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            if state.connections.len() >= CONNECTIONS_MAX {
                continue;
            }
            let Ok(kept) = client.try_clone() else { continue };
            self.accepted.fetch_add(1, Ordering::Relaxed);
            let id = state.next;
            state.next += 1;
            state.connections.push(Connection { id, sockets: vec![kept], open: 2 });
            state.threads.retain(|thread| !thread.is_finished());
            let shared = Arc::clone(self);
            state.threads.push(spawn(move || shared.carry(id, cuts, client)));
        }
    }

    /// A connection: first the other side is connected to, then both directions are forwarded.
    fn carry(self: Arc<Self>, id: u64, cuts: u64, client: TcpStream) {
        let flows = self.wait(cuts, Duration::ZERO);
        let upstream = if flows { TcpStream::connect_timeout(&self.upstream, PATIENCE).ok() } else { None };
        let pair = upstream.and_then(|upstream| {
            let quick = client.set_nodelay(true).and_then(|()| upstream.set_nodelay(true));
            let copies =
                quick.and_then(|()| Ok((client.try_clone()?, upstream.try_clone()?, upstream.try_clone()?)));
            copies.ok().map(|copies| (upstream, copies))
        });
        let Some((upstream, (client_copy, upstream_copy, kept))) = pair else {
            self.lock().connections.retain(|connection| connection.id != id);
            return;
        };
        {
            let mut state = self.lock();
            // Cut meanwhile: all its sockets close here.
            let Some(connection) = state.connections.iter_mut().find(|connection| connection.id == id) else {
                return;
            };
            connection.sockets.push(kept);
            let down =
                Pump { id, cuts, from: upstream_copy, to: client_copy, counter: |shared| &shared.bytes_down };
            let shared = Arc::clone(&self);
            state.threads.push(spawn(move || shared.pump(down)));
        }
        self.pump(Pump { id, cuts, from: client, to: upstream, counter: |shared| &shared.bytes_up });
    }

    /// Forwards one direction until its end, or a cut.
    fn pump(&self, mut pump: Pump) {
        let mut chunk = vec![0; CHUNK];
        let in_order = loop {
            let length = match pump.from.read(&mut chunk) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break false,
            };
            let delay = self.lock().delay;
            if !self.wait(pump.cuts, delay) {
                break false;
            }
            if length == 0 {
                break true;
            }
            if pump.to.write_all(&chunk[..length]).is_err() {
                break false;
            }
            (pump.counter)(self).fetch_add(length as u64, Ordering::Relaxed);
        };
        // A client that has sent everything may still be answered. Any of them may be closed already.
        if in_order {
            let _ = pump.to.shutdown(Shutdown::Write);
        } else {
            let _ = pump.to.shutdown(Shutdown::Both);
            let _ = pump.from.shutdown(Shutdown::Both);
        }
        let mut state = self.lock();
        if let Some(index) = state.connections.iter().position(|connection| connection.id == pump.id) {
            state.connections[index].open -= 1;
            if state.connections[index].open == 0 {
                state.connections.swap_remove(index);
            }
        }
    }

    /// Waits for this time, and then until bytes may be forwarded. Returns whether they may: not after a cut.
    fn wait(&self, cuts: u64, delay: Duration) -> bool {
        let until = Instant::now() + delay;
        let mut state = self.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if state.cuts != cuts {
                return false;
            }
            if !left.is_zero() {
                state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            } else if state.mode == Mode::Hung {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else {
                return true;
            }
        }
    }
}

/// A test that panicked elsewhere is no reason to panic here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn spawn(work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    Builder::new().name("proxy".to_owned()).stack_size(STACK).spawn(work).expect("a thread of the proxy")
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::{CONNECTIONS_MAX, Proxy};

    const QUIET: Duration = Duration::from_millis(150);
    const PATIENCE: Duration = Duration::from_secs(10);

    /// Echoes on every connection, as long as the process lives.
    fn echo() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let (mut from, mut to) = (&stream, &stream);
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = stream.shutdown(Shutdown::Write);
                });
            }
        });
        address
    }

    fn connect(proxy: &Proxy) -> TcpStream {
        let stream = TcpStream::connect(proxy.address()).expect("the proxy accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream
    }

    fn say(stream: &mut TcpStream, word: &[u8]) -> Vec<u8> {
        stream.write_all(word).expect("it takes it");
        let mut back = vec![0; word.len()];
        stream.read_exact(&mut back).expect("it comes back");
        back
    }

    fn eventually(what: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !what() {
            assert!(Instant::now() < deadline, "it does not happen");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn bytes_pass_and_are_counted() {
        let proxy = Proxy::start(&echo());
        let mut stream = connect(&proxy);
        assert_eq!(say(&mut stream, b"hello"), b"hello");
        assert_eq!((proxy.accepted(), proxy.open_now()), (1, 1));
        // Written bytes are counted just afterwards.
        eventually(|| (proxy.bytes_up(), proxy.bytes_down()) == (5, 5));
        // The end of one direction is passed on, and the other one continues until its own.
        let sent: Vec<u8> = (0..=255).cycle().take(5_000_000).collect();
        let mut writer = stream.try_clone().expect("a copy");
        let text = sent.clone();
        let writing = std::thread::spawn(move || {
            writer.write_all(&text).expect("it takes all");
            writer.shutdown(Shutdown::Write).expect("open");
        });
        let mut back = Vec::new();
        stream.read_to_end(&mut back).expect("until the end");
        writing.join().expect("it wrote");
        assert!(back == sent, "{} bytes of {}", back.len(), sent.len());
        eventually(|| (proxy.bytes_up(), proxy.bytes_down()) == (5_000_005, 5_000_005));
        eventually(|| proxy.open_now() == 0);
    }

    #[test]
    fn cut() {
        let proxy = Proxy::start(&echo());
        let mut stream = connect(&proxy);
        assert_eq!(say(&mut stream, b"a"), b"a");
        proxy.cut();
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "closed");
        let refused = TcpStream::connect(proxy.address()).expect_err("refused");
        assert_eq!((refused.kind(), proxy.open_now()), (ErrorKind::ConnectionRefused, 0));
        proxy.cut();
        proxy.heal();
        assert_eq!(say(&mut connect(&proxy), b"b"), b"b");
        proxy.cut();
        proxy.hang();
        proxy.heal();
        assert_eq!(say(&mut connect(&proxy), b"c"), b"c");
        assert_eq!(proxy.accepted(), 3);
    }

    #[test]
    fn hung() {
        let proxy = Proxy::start(&echo());
        let mut old = connect(&proxy);
        assert_eq!(say(&mut old, b"a"), b"a");
        eventually(|| (proxy.bytes_up(), proxy.bytes_down()) == (1, 1));
        proxy.hang();
        let mut new = connect(&proxy);
        for stream in [&mut old, &mut new] {
            stream.write_all(b"held").expect("it is accepted");
            stream.set_read_timeout(Some(QUIET)).expect("a socket");
            let silence = stream.read(&mut [0]).expect_err("nothing comes");
            assert!(matches!(silence.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{silence}");
            stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        }
        assert_eq!(proxy.bytes_up(), 1);
        proxy.heal();
        for stream in [&mut old, &mut new] {
            let mut back = [0; 4];
            stream.read_exact(&mut back).expect("it was held, not lost");
            assert_eq!(&back, b"held");
        }
        eventually(|| proxy.bytes_up() == 9);
        // A hanging connection is cut, too.
        proxy.hang();
        old.write_all(b"lost").expect("it is accepted");
        proxy.cut();
        assert!(matches!(old.read(&mut [0]), Ok(0) | Err(_)));
        assert_eq!(proxy.bytes_up(), 9);
    }

    #[test]
    fn delayed() {
        let proxy = Proxy::start(&echo());
        let mut stream = connect(&proxy);
        say(&mut stream, b"a");
        proxy.delay(QUIET);
        let began = Instant::now();
        say(&mut stream, b"b");
        assert!(began.elapsed() >= QUIET * 2, "once each way: {:?}", began.elapsed());
        proxy.delay(Duration::ZERO);
        // A busy machine is slow at times, by one delay each time.
        let at_once = |_| {
            let began = Instant::now();
            say(&mut stream, b"c");
            began.elapsed() < QUIET
        };
        assert!((0..20).any(at_once), "still delayed");
        // A cut ends a delay.
        proxy.delay(PATIENCE * 10);
        stream.write_all(b"d").expect("it is accepted");
        let began = Instant::now();
        drop(proxy);
        assert!(began.elapsed() < PATIENCE);
    }

    #[test]
    fn nobody_behind_it() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        drop(listener);
        let proxy = Proxy::start(&address);
        assert!(matches!(connect(&proxy).read(&mut [0]), Ok(0) | Err(_)), "closed as soon as it is known");
        eventually(|| proxy.open_now() == 0);
    }

    #[test]
    fn it_has_limits_and_an_end() {
        let proxy = Proxy::start(&echo());
        let mut streams: Vec<TcpStream> = (0..CONNECTIONS_MAX).map(|_| connect(&proxy)).collect();
        for stream in &mut streams {
            assert_eq!(say(stream, b"a"), b"a");
        }
        assert!(matches!(connect(&proxy).read(&mut [0]), Ok(0) | Err(_)), "one too many");
        drop(streams.pop());
        eventually(|| proxy.open_now() < CONNECTIONS_MAX);
        assert_eq!(say(&mut connect(&proxy), b"b"), b"b");
        let shared = Arc::downgrade(&proxy.shared);
        drop(proxy);
        assert!(shared.upgrade().is_none(), "no thread has it any more");
    }
}
