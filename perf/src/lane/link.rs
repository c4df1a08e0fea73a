//! A socket of a lane, and the wire that it carries.

use crate::wire::{Speech, Wire};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};

pub(super) struct Link {
    pub(super) socket: TcpStream,
    pub(super) wire: Wire,
    pub(super) is_connected: bool,
    /// Nothing more is read: only the end of the socket is noticed.
    pub(super) is_deaf: bool,
}

impl Link {
    /// Begins to connect. `epoll` tells of it by its `place`: each time once, so what is there must be read to its end.
    pub(super) fn connect(
        (epoll, place): (&OwnedFd, usize),
        address: SocketAddr,
        source: Option<Ipv4Addr>,
        receive_buffer_bytes: Option<usize>,
        speech: &Speech,
    ) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        // Before the connect: the window that is offered first depends on it.
        if let Some(bytes) = receive_buffer_bytes {
            sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
        }
        if let Some(source) = source {
            bind(&socket, &SocketAddrV4::new(source, 0))?;
        }
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(fault) => return Err(fault.into()),
        }
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(epoll, &socket, EventData::new_u64(place as u64), flags)?;
        Ok(Self { socket: socket.into(), wire: Wire::new(speech)?, is_connected: false, is_deaf: false })
    }

    pub(super) fn send(&mut self) -> io::Result<()> {
        if self.is_connected { self.wire.send(&self.socket) } else { Ok(()) }
    }
}
