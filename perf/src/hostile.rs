//! Hostile clients beside ordinary watchers: heads and handshakes by the byte, peers that vanish, connections that take
//! every descriptor, a burst that nobody reads. One thread serves all of them, at a lower priority than what is measured.
//! It judges nothing: the watchers' accounts say what it costs them.

use crate::clock::{now_ns, sleep_until};
use crate::endpoint::Resource;
use crate::http::Connection;
use crate::object::Recipe;
use crate::options::{Hostile, HostileKind};
use crate::target::{Target, gently};
use serde::Serialize;
use serde_json::json;
use socket2::{SockFilter, SockRef};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Each client is served once in this time, one after another.
const ROUND_NS: u64 = 1_000_000_000;
const GROUPS: usize = 50;
/// A server that is out of everything may not answer at all.
const CONNECT_WITHIN: Duration = Duration::from_millis(200);
/// Between two tries to write what was refused.
const AGAIN: Duration = Duration::from_millis(100);
/// One object of a burst, in bytes, and how many different ones there are.
const BURST_OBJECT_BYTES: usize = 16 << 10;
const BURST_OBJECTS: u64 = 100;
/// `BPF_RET | BPF_K` (linux/filter.h): with 0 the kernel drops each segment before TCP sees it, so nothing is acknowledged.
const BPF_RET: u16 = 0x06;
/// What begins a TLS handshake: a record and in it a ClientHello of 508 bytes, of which these are the first.
const HELLO: &[u8] = &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Found {
    pub(crate) opened: u64,
    pub(crate) ended: u64,
    pub(crate) refused: u64,
    pub(crate) vanished: u64,
    /// Of a burst: bytes of objects that were written, and writes that were answered with an error.
    pub(crate) burst_bytes: u64,
    pub(crate) burst_refused: u64,
}

#[derive(Debug, Default)]
struct Client {
    stream: Option<TcpStream>,
    sent: usize,
    /// A watch that has begun; of a vanishing one: that has vanished.
    settled: bool,
}

#[derive(Debug)]
pub(crate) struct HostileClients {
    clients: JoinHandle<Result<Found, String>>,
    burst: Option<JoinHandle<Result<(u64, u64), String>>>,
}

impl HostileClients {
    /// Starts them; they go on until `end_ns`.
    pub(crate) fn start(
        hostile: Hostile,
        target: &Target,
        recipe: &Recipe,
        from_ns: u64,
        end_ns: u64,
    ) -> Self {
        let address = hostile.at.unwrap_or(target.address);
        let watched = match hostile.kind {
            HostileKind::Burst => format!("{}-siege", recipe.namespaces.concat()),
            HostileKind::Heads | HostileKind::Hellos | HostileKind::Vanish | HostileKind::Crowd => {
                recipe.namespaces.concat()
            }
        };
        let resource = recipe.resource.clone();
        let collection = resource.collection(&watched);
        let watch = target.caller.head("GET", &format!("{collection}?watch=1"), None);
        let clients = thread::spawn(move || gently(|| serve_all(hostile, address, &watch, end_ns)));
        let burst = (hostile.kind == HostileKind::Burst).then(|| {
            let server = target.connect();
            thread::spawn(move || {
                sleep_until(from_ns);
                write_burst(server, &collection, &resource, hostile.burst_bytes as u64, end_ns)
            })
        });
        Self { clients, burst }
    }

    pub(crate) fn end(self) -> Result<Found, String> {
        let panicked = |_| "a hostile client panicked".to_owned();
        let mut found = self.clients.join().map_err(panicked)??;
        if let Some(burst) = self.burst {
            (found.burst_bytes, found.burst_refused) = burst.join().map_err(panicked)??;
        }
        Ok(found)
    }
}

fn serve_all(hostile: Hostile, address: SocketAddr, watch: &str, end_ns: u64) -> Found {
    let mut found = Found::default();
    let mut clients: Vec<Client> = (0..hostile.clients).map(|_| Client::default()).collect();
    let began = now_ns();
    for turn in 0usize.. {
        let due = began + turn as u64 * (ROUND_NS / GROUPS as u64);
        if due >= end_ns {
            break;
        }
        sleep_until(due);
        for client in clients.iter_mut().skip(turn % GROUPS).step_by(GROUPS) {
            step(client, hostile.kind, address, watch, &mut found);
        }
    }
    found
}

/// Does what is due for one of them.
fn step(client: &mut Client, kind: HostileKind, address: SocketAddr, watch: &str, found: &mut Found) {
    if client.settled && kind == HostileKind::Vanish {
        return;
    }
    let Some(stream) = &mut client.stream else {
        let opened = TcpStream::connect_timeout(&address, CONNECT_WITHIN)
            .and_then(|stream| stream.set_nonblocking(true).map(|()| stream));
        match opened {
            Ok(mut stream) => {
                found.opened += 1;
                if matches!(kind, HostileKind::Vanish | HostileKind::Burst) {
                    // A new socket has room for this.
                    let _gone = stream.write_all(watch.as_bytes());
                }
                *client = Client { stream: Some(stream), ..Client::default() };
            }
            Err(_) => found.refused += 1,
        }
        return;
    };
    if kind == HostileKind::Burst && client.settled {
        return;
    }
    let mut heard = [0; 512];
    match stream.read(&mut heard) {
        Err(fault) if fault.kind() == ErrorKind::WouldBlock => {}
        Ok(1..) if kind == HostileKind::Vanish => {
            let drop_all = SockFilter::new(BPF_RET, 0, 0, 0);
            if SockRef::from(&*stream).attach_filter(&[drop_all]).is_ok() {
                client.settled = true;
                found.vanished += 1;
            }
            return;
        }
        Ok(1..) => client.settled = true,
        Ok(0) | Err(_) => {
            found.ended += 1;
            *client = Client::default();
            return;
        }
    }
    let next = match kind {
        HostileKind::Heads => {
            let head = b"GET /livez HTTP/1.1\r\nHost: siege\r\nX-Slow: ";
            Some(head.get(client.sent).copied().unwrap_or(b'x'))
        }
        HostileKind::Hellos => Some(HELLO.get(client.sent).copied().unwrap_or(0)),
        HostileKind::Vanish | HostileKind::Crowd | HostileKind::Burst => None,
    };
    if let Some(byte) = next
        && stream.write_all(&[byte]).is_ok()
    {
        client.sent += 1;
    }
}

/// Writes so many bytes as fast as they are taken. How many were, and how many writes were refused.
fn write_burst(
    mut server: Connection,
    collection: &str,
    resource: &Resource,
    bytes: u64,
    end_ns: u64,
) -> Result<(u64, u64), String> {
    let (mut written, mut refused) = (0, 0);
    for number in 0u64.. {
        if written >= bytes || now_ns() >= end_ns {
            break;
        }
        let name = format!("burst-{}", number % BURST_OBJECTS);
        let object = json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": { "name": name },
            "data": { "k": format!("{number:x<width$}", width = BURST_OBJECT_BYTES) },
        });
        let (method, path) = if number < BURST_OBJECTS {
            ("POST", collection.to_owned())
        } else {
            ("PUT", format!("{collection}/{name}"))
        };
        let body = object.to_string();
        let status = server.call(method, &path, Some(body.as_bytes())).map_err(|fault| fault.to_string())?.0;
        match status {
            200..300 => written += BURST_OBJECT_BYTES as u64,
            // There from the round before.
            409 => {}
            _ => {
                refused += 1;
                thread::sleep(AGAIN);
            }
        }
    }
    Ok((written, refused))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Load;
    use std::net::{Ipv4Addr, TcpListener};

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("bound");
        (listener, address)
    }

    #[test]
    fn a_head_comes_by_the_byte_and_again_when_it_is_cut_off() {
        let (listener, address) = listener();
        let (mut client, mut found) = (Client::default(), Found::default());
        let mut step = |client: &mut Client| step(client, HostileKind::Heads, address, "", &mut found);
        step(&mut client);
        let (mut server, _) = listener.accept().expect("a connection");
        for _ in 0..60 {
            step(&mut client);
        }
        let mut heard = [0; 60];
        server.read_exact(&mut heard).expect("60 bytes");
        assert!(
            heard.starts_with(b"GET /livez HTTP/1.1\r\n")
                && heard.ends_with(b"\r\nX-Slow: xxxxxxxxxxxxxxxxxx")
        );
        drop(server);
        while client.stream.is_some() {
            step(&mut client);
        }
        step(&mut client);
        assert_eq!((found.opened, found.ended, found.refused), (2, 1, 0));
    }

    #[test]
    fn who_vanishes_acknowledges_nothing() {
        let (listener, address) = listener();
        let (mut client, mut found) = (Client::default(), Found::default());
        let mut step =
            |client: &mut Client| step(client, HostileKind::Vanish, address, "GET\r\n\r\n", &mut found);
        step(&mut client);
        let (mut server, _) = listener.accept().expect("a connection");
        let mut heard = [0; 7];
        server.read_exact(&mut heard).expect("the request");
        server.write_all(b"head").expect("it is there");
        while !client.settled {
            step(&mut client);
        }
        assert_eq!(found.vanished, 1);
        // From here on its receive queue stays empty, whatever is sent.
        server.write_all(b"more").expect("the kernel takes it");
        thread::sleep(Duration::from_millis(100));
        let mut more = [0; 8];
        let read = client.stream.as_mut().expect("open").read(&mut more);
        assert!(read.is_err_and(|fault| fault.kind() == ErrorKind::WouldBlock), "nothing came");
    }

    #[test]
    fn a_burst_is_written_whole_and_refusals_are_counted() {
        let (listener, address) = listener();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let (mut heard, mut answers) = (Vec::new(), 0);
            let mut buffer = [0; 64 << 10];
            while let Ok(read @ 1..) = stream.read(&mut buffer) {
                heard.extend_from_slice(&buffer[..read]);
                // The end of an object, which is the end of a request.
                if heard.ends_with(b"}") {
                    heard.clear();
                    answers += 1;
                    let status = if answers == 2 { "429 X" } else { "201 X" };
                    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                    stream.write_all(answer.as_bytes()).expect("it listens");
                }
            }
            answers
        });
        let connection = Target::local(&Load::default(), address.port(), 0).connect();
        let resource = Load::default().resource;
        let written = write_burst(connection, "/c", &resource, 40_000, now_ns() + 60 * ROUND_NS);
        assert_eq!(written, Ok((3 * BURST_OBJECT_BYTES as u64, 1)));
        assert_eq!(server.join().expect("it ended"), 4);
    }
}
