//! Hostile clients beside ordinary watchers: heads and handshakes by the byte, peers that vanish, connections that take
//! every descriptor, a burst that nobody reads, floods of frames. One thread serves all of them, at a lower priority than what is measured.

use crate::clock::{SECOND_NS, now_ns, sleep_until};
use crate::endpoint::Resource;
use crate::http::Connection;
use crate::object::Recipe;
use crate::options::{Hostile, HostileKind};
use crate::target::{Target, gently};
use crate::tls::{self, Stream};
use serde::Serialize;
use serde_json::json;
use socket2::{SockFilter, SockRef};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

mod flood;

use flood::{Flood, is_flood};

/// Each client is served once in this time, one after another.
const ROUND_NS: u64 = SECOND_NS;
const GROUPS: usize = 50;
/// A server that is out of everything may not answer at all.
const CONNECT_WITHIN: Duration = Duration::from_millis(200);
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
    stream: Option<Box<dyn Stream>>,
    sent: usize,
    /// A watch that has begun; of a vanishing one: that has vanished.
    settled: bool,
    flood: Option<Flood>,
}

struct Clients {
    kind: HostileKind,
    address: SocketAddr,
    /// What is sent at once when a connection is open; of a flood, where its watches are.
    request: String,
    tls: Option<tls::Client>,
    found: Found,
}

pub(crate) struct HostileClients {
    clients: JoinHandle<Result<Found, String>>,
    burst: Option<JoinHandle<Result<(u64, u64), String>>>,
}

impl HostileClients {
    pub(crate) fn start(
        hostile: Hostile,
        target: &Target,
        recipe: &Recipe,
        from_ns: u64,
        end_ns: u64,
    ) -> Self {
        let suffix = if hostile.kind == HostileKind::Burst { "-siege" } else { "" };
        let resource = recipe.resource.clone();
        let collection = resource.collection(&(recipe.namespaces.concat() + suffix));
        let mut request = String::new();
        if matches!(hostile.kind, HostileKind::Vanish | HostileKind::Burst) {
            request = target.caller.head("GET", &format!("{collection}?watch=1"), None);
        } else if is_flood(hostile.kind) {
            request = format!("{collection}?watch=1");
        }
        let address = hostile.at.unwrap_or(target.address);
        let speaks =
            !matches!(hostile.kind, HostileKind::Hellos | HostileKind::Crowd) && !is_flood(hostile.kind);
        let tls = target.tls.clone().filter(|_| speaks && hostile.at.is_none());
        let clients = Clients { kind: hostile.kind, address, request, tls, found: Found::default() };
        let clients = thread::spawn(move || gently(|| clients.serve(hostile.clients, end_ns)));
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

impl Clients {
    fn serve(mut self, count: u32, end_ns: u64) -> Found {
        let mut clients: Vec<Client> = (0..count).map(|_| Client::default()).collect();
        let began = now_ns();
        for turn in 0usize.. {
            let due = began + turn as u64 * (ROUND_NS / GROUPS as u64);
            if due >= end_ns {
                break;
            }
            sleep_until(due);
            for client in clients.iter_mut().skip(turn % GROUPS).step_by(GROUPS) {
                self.step(client);
            }
        }
        self.found
    }

    fn connect(&self) -> std::io::Result<Box<dyn Stream>> {
        let socket = TcpStream::connect_timeout(&self.address, CONNECT_WITHIN)?;
        socket.set_read_timeout(Some(CONNECT_WITHIN))?;
        let stream = tls::stream(socket, self.tls.as_ref())?;
        stream.socket().set_nonblocking(true)?;
        Ok(stream)
    }

    fn step(&mut self, client: &mut Client) {
        let watches = matches!(self.kind, HostileKind::Vanish | HostileKind::Burst);
        if watches && client.settled {
            return;
        }
        let Some(stream) = &mut client.stream else {
            let Ok(mut stream) = self.connect() else {
                self.found.refused += 1;
                return;
            };
            self.found.opened += 1;
            let flood = is_flood(self.kind).then(|| Flood::new(self.kind, &self.request));
            if flood.is_none() {
                // A new socket has room for this.
                let _gone = stream.write_all(self.request.as_bytes());
            }
            *client = Client { stream: Some(stream), flood, ..Client::default() };
            return;
        };
        if let Some(flood) = &mut client.flood {
            // One piece a turn, or what of it the socket takes.
            if let Ok(sent) = stream.write(flood.next()) {
                flood.sent(sent);
            }
        }
        match stream.read(&mut [0; 16 << 10]) {
            Err(fault) if fault.kind() == ErrorKind::WouldBlock => {}
            Ok(1..) => {
                let drop_all = SockFilter::new(BPF_RET, 0, 0, 0);
                let vanishes = self.kind == HostileKind::Vanish;
                client.settled =
                    !vanishes || SockRef::from(stream.socket()).attach_filter(&[drop_all]).is_ok();
                self.found.vanished += u64::from(vanishes && client.settled);
            }
            Ok(0) | Err(_) => {
                self.found.ended += 1;
                *client = Client::default();
                return;
            }
        }
        // One byte at a time: the beginning, and then the same byte for ever.
        let (start, more) = if self.kind == HostileKind::Heads {
            (&b"GET /livez HTTP/1.1\r\nHost: siege\r\nX-Slow: "[..], b'x')
        } else if self.kind == HostileKind::Hellos {
            (HELLO, 0)
        } else {
            return;
        };
        let byte = start.get(client.sent).copied().unwrap_or(more);
        client.sent += usize::from(stream.write_all(&[byte]).is_ok());
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

    /// Clients of a kind, one of them, the other end of its connection, and the listener.
    fn open(kind: HostileKind, request: &str) -> (Clients, Client, TcpStream, TcpListener) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let request = request.to_owned();
        let mut clients = Clients { kind, address, request, tls: None, found: Found::default() };
        let mut client = Client::default();
        clients.step(&mut client);
        let (server, _) = listener.accept().expect("a connection");
        (clients, client, server, listener)
    }

    #[test]
    fn a_head_comes_by_the_byte_and_again_when_it_is_cut_off() {
        let (mut clients, mut client, mut server, _listener) = open(HostileKind::Heads, "");
        (0..60).for_each(|_| clients.step(&mut client));
        let mut heard = [0; 60];
        server.read_exact(&mut heard).expect("60 bytes");
        assert_eq!(&heard, b"GET /livez HTTP/1.1\r\nHost: siege\r\nX-Slow: xxxxxxxxxxxxxxxxxx");
        drop(server);
        while client.stream.is_some() {
            clients.step(&mut client);
        }
        clients.step(&mut client);
        assert_eq!(clients.found, Found { opened: 2, ended: 1, ..Found::default() });
    }

    #[test]
    fn a_client_that_vanishes_acknowledges_nothing() {
        let (mut clients, mut client, mut server, _listener) = open(HostileKind::Vanish, "GET\r\n\r\n");
        let mut heard = [0; 7];
        server.read_exact(&mut heard).expect("the request");
        server.write_all(b"head").expect("it is there");
        while !client.settled {
            clients.step(&mut client);
        }
        assert_eq!(clients.found.vanished, 1);
        // From here on its receive queue stays empty, whatever is sent.
        server.write_all(b"more").expect("the kernel takes it");
        thread::sleep(Duration::from_millis(100));
        let read = client.stream.as_mut().expect("open").read(&mut heard);
        assert!(read.is_err_and(|fault| fault.kind() == ErrorKind::WouldBlock), "nothing came");
    }

    #[test]
    fn a_burst_is_written_whole_and_refusals_are_counted() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
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
        let connection = Target::local(&Load::default(), port, 0).connect();
        let resource = Load::default().resource;
        let written = write_burst(connection, "/c", &resource, 40_000, now_ns() + 60 * ROUND_NS);
        assert_eq!(written, Ok((3 * BURST_OBJECT_BYTES as u64, 1)));
        assert_eq!(server.join().expect("it ended"), 4);
    }
}
