//! A socket of a lane, and the wire that it carries.

use crate::wire::{Speech, Wire};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::Duration;

pub(super) const HUNG_UP: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

pub(super) struct Link {
    socket: TcpStream,
    pub(super) wire: Wire,
    pub(super) is_connected: bool,
    /// Nothing more is read: only the end of the socket is noticed.
    pub(super) is_deaf: bool,
}

impl Link {
    /// Begins to connect.
    pub(super) fn connect(
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
        Ok(Self { socket: socket.into(), wire: Wire::new(speech)?, is_connected: false, is_deaf: false })
    }

    /// Has the epoll tell of it by its `place`. Each time is told once: what is there must be read to its end.
    pub(super) fn add_to(&self, epoll: &OwnedFd, place: usize) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(epoll, &self.socket, EventData::new_u64(place as u64), flags)?)
    }

    pub(super) fn go_deaf(&mut self, epoll: &OwnedFd, place: usize) -> io::Result<()> {
        self.is_deaf = true;
        let flags = EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::modify(epoll, &self.socket, EventData::new_u64(place as u64), flags)?)
    }

    /// How the connect ended.
    pub(super) fn outcome(&self) -> Result<(), Errno> {
        sockopt::socket_error(&self.socket).and_then(|outcome| outcome)
    }

    /// Its end is a reset, where the kernel does that.
    pub(super) fn reset_at_end(&self) {
        // Refused: then the connection ends with a FIN.
        let _kept = sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO));
    }

    pub(super) fn send(&mut self) -> io::Result<()> {
        if self.is_connected { self.wire.send(&self.socket) } else { Ok(()) }
    }

    /// Reads once: see [`Wire::read`].
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<(usize, usize)> {
        self.wire.read(&self.socket, buffer)
    }
}
