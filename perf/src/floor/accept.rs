//! How connections come to a floor-sender: it accepts, reads to the end of each request's head, and answers every one
//! with the same. It knows no method and no path.

use crate::clock::timeout;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{Errno, read};
use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, accept_with, bind, getsockname, listen, send,
    socket_with, sockopt,
};
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

const HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
const REQUEST_BYTES_MAX: usize = 16 * 1024;
const BACKLOG: i32 = 4096;
const LISTENER: u64 = u64::MAX;

/// The listening socket and all that came through it.
#[derive(Debug)]
pub(crate) struct Acceptor {
    listener: OwnedFd,
    port: u16,
    epoll: OwnedFd,
    /// By place; `None` is gone.
    sockets: Vec<Option<OwnedFd>>,
    requests: BTreeMap<usize, Vec<u8>>,
}

impl Acceptor {
    pub(crate) fn open() -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let listener = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        bind(&listener, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        listen(&listener, BACKLOG)?;
        let port = SocketAddrV4::try_from(getsockname(&listener)?)?.port();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        Ok(Self { listener, port, epoll, sockets: Vec::new(), requests: BTreeMap::new() })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Waits for something to do, at most so long, and does it.
    pub(crate) fn step(&mut self, wait_ns: u64) -> io::Result<()> {
        let mut events = Vec::with_capacity(256);
        match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout(wait_ns))) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(fault) => return Err(fault.into()),
        }
        for event in events {
            match event.data.u64() {
                LISTENER => self.accept()?,
                place => self.read(usize::try_from(place).unwrap_or(usize::MAX))?,
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            match accept_with(&self.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    sockopt::set_tcp_nodelay(&socket, true)?;
                    let place = self.sockets.len();
                    epoll::add(&self.epoll, &socket, EventData::new_u64(place as u64), EventFlags::IN)?;
                    self.sockets.push(Some(socket));
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(fault) => return Err(fault.into()),
            }
        }
    }

    /// Reads from a socket whose request was not answered yet.
    fn read(&mut self, place: usize) -> io::Result<()> {
        let Some(Some(socket)) = self.sockets.get(place) else { return Ok(()) };
        let mut buffer = [0; 4096];
        let count = match read(socket, &mut buffer) {
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(_) => 0,
        };
        let request = self.requests.entry(place).or_default();
        request.extend_from_slice(&buffer[..count]);
        let complete = request.windows(4).any(|four| four == b"\r\n\r\n");
        if !complete && count > 0 && request.len() < REQUEST_BYTES_MAX {
            return Ok(());
        }
        self.requests.remove(&place);
        // A fresh socket has room for these few bytes.
        let answered = complete && send(socket.as_fd(), HEAD, SendFlags::NOSIGNAL) == Ok(HEAD.len());
        if !answered {
            self.sockets[place] = None;
            return Ok(());
        }
        // From here on only room is of interest, once each time that it comes back.
        let flags = EventFlags::OUT | EventFlags::ET;
        Ok(epoll::modify(&self.epoll, socket, EventData::new_u64(place as u64), flags)?)
    }

    /// Lets nobody in any more; gives the epoll that knows the sockets by place, and the sockets.
    pub(crate) fn close(self) -> (OwnedFd, Vec<Option<OwnedFd>>) {
        (self.epoll, self.sockets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    #[test]
    fn a_request_in_pieces_is_answered_once_it_is_complete() {
        let mut acceptor = Acceptor::open().expect("a free port");
        let address = (Ipv4Addr::LOCALHOST, acceptor.port());
        let mut client = TcpStream::connect(address).expect("it listens");
        let leaves = TcpStream::connect(address).expect("it listens");
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n").expect("a socket");
        (0..3).for_each(|_| acceptor.step(10_000_000).expect("steps"));
        assert_eq!(acceptor.requests.len(), 1, "it waits for the rest");
        client.write_all(b"\r\n").expect("a socket");
        drop(leaves);
        (0..3).for_each(|_| acceptor.step(10_000_000).expect("steps"));
        let mut head = vec![0; HEAD.len()];
        client.read_exact(&mut head).expect("the answer");
        assert_eq!(head, HEAD);
        let (_, sockets) = acceptor.close();
        assert_eq!(sockets.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
    }
}
