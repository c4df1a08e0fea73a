//! A connection between two processes of one user: short texts, some with descriptors (unix(7), `SCM_RIGHTS`).
//!
//! The predecessor listens on an abstract name, which has the user and the address for clients in it. As a port does, such a name
//! belongs to a network namespace, and it is gone when its process is. Names can be taken by anyone, so both sides ask the kernel for
//! the user of the other.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    listen, recvmsg, sendmsg, socket_with,
};
use rustix::process::geteuid;

/// The longest text.
const TEXT_BYTES_MAX: usize = 8 << 10;
/// Descriptors of one text. The kernel takes 253 (`SCM_MAX_FD`).
pub(super) const DESCRIPTORS_MAX: usize = 64;
/// Connections that wait.
const BACKLOG: i32 = 8;
/// How long the other side may take to read.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection.
#[derive(Debug)]
pub(super) struct Channel(OwnedFd);

/// One text with its descriptors.
pub(super) type Record = (String, Vec<OwnedFd>);

fn name(listen: SocketAddr) -> rustix::io::Result<SocketAddrUnix> {
    let user = geteuid().as_raw();
    SocketAddrUnix::new_abstract_name(format!("revcast/take-over/{user}/{listen}").as_bytes())
}

fn socket() -> rustix::io::Result<OwnedFd> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// The listening side for a server at this address.
pub(super) fn listener(at: SocketAddr) -> std::io::Result<OwnedFd> {
    let socket = socket()?;
    bind(&socket, &name(at)?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

impl Channel {
    /// To the server at this address. `None`: there is none.
    pub(super) fn connect(at: SocketAddr) -> std::io::Result<Option<Self>> {
        let socket = socket()?;
        match connect(&socket, &name(at)?) {
            Ok(()) => Self::of(socket).map(Some),
            Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The next one that comes to a listener.
    pub(super) fn accept(listener: &OwnedFd) -> std::io::Result<Self> {
        Self::of(accept_with(listener, SocketFlags::CLOEXEC)?)
    }

    /// Only with a process of the same user.
    fn of(socket: OwnedFd) -> std::io::Result<Self> {
        let (theirs, ours) = (socket_peercred(&socket)?.uid, geteuid());
        if theirs != ours {
            let (theirs, ours) = (theirs.as_raw(), ours.as_raw());
            let why = format!("the other process is of user {theirs}, this one of user {ours}");
            return Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, why));
        }
        set_socket_timeout(&socket, Timeout::Send, Some(SEND_TIMEOUT))?;
        Ok(Self(socket))
    }

    /// The other process.
    pub(super) fn process(&self) -> i32 {
        socket_peercred(&self.0).map_or(0, |peer| peer.pid.as_raw_nonzero().get())
    }

    /// Sends one text, with at most [`DESCRIPTORS_MAX`] descriptors.
    pub(super) fn send(&self, text: &str, descriptors: &[BorrowedFd<'_>]) -> std::io::Result<()> {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(std::io::Error::other("too many descriptors in one message"));
        }
        sendmsg(&self.0, &[IoSlice::new(text.as_bytes())], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The next text. `None`: the other side has closed the connection.
    pub(super) fn receive(&self, within: Duration) -> std::io::Result<Option<Record>> {
        // Zero would be without end.
        set_socket_timeout(&self.0, Timeout::Recv, Some(within.max(Duration::from_millis(1))))?;
        let mut bytes = vec![0; TEXT_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut into = [IoSliceMut::new(&mut bytes)];
            match recvmsg(self.0.as_fd(), &mut into, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Ok(None),
                received => break received?,
            }
        };
        let rights = control.drain().filter_map(|message| {
            if let RecvAncillaryMessage::ScmRights(rights) = message { Some(rights) } else { None }
        });
        let descriptors = rights.flatten().collect();
        if received.bytes == 0 {
            return Ok(None);
        }
        bytes.truncate(received.bytes);
        let text = String::from_utf8(bytes);
        let text = text.map_err(|_| std::io::Error::other("the other process sends no text"))?;
        Ok(Some((text, descriptors)))
    }
}

/// Whether a receive has only timed out.
pub(super) fn is_late(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    fn at(port: u16) -> SocketAddr {
        // Documentation's: nothing listens there.
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    #[test]
    fn texts_arrive_with_their_descriptors() {
        let held = listener(at(1)).unwrap();
        let near = Channel::connect(at(1)).unwrap().unwrap();
        let far = Channel::accept(&held).unwrap();
        assert_eq!(near.process(), i32::try_from(std::process::id()).unwrap());
        let sockets: Vec<OwnedFd> = (0..DESCRIPTORS_MAX).map(|_| socket().unwrap()).collect();
        let sockets: Vec<BorrowedFd<'_>> = sockets.iter().map(|socket| socket.as_fd()).collect();
        near.send("many", &sockets).unwrap();
        near.send("none", &[]).unwrap();
        let (text, got) = far.receive(SOON).unwrap().unwrap();
        assert_eq!((text.as_str(), got.len()), ("many", DESCRIPTORS_MAX));
        let (text, got) = far.receive(SOON).unwrap().unwrap();
        assert_eq!((text.as_str(), got.len()), ("none", 0));
        assert!(is_late(&far.receive(Duration::from_millis(5)).unwrap_err()));
        drop(near);
        assert!(far.receive(SOON).unwrap().is_none());
    }

    #[test]
    fn a_name_is_one_servers() {
        assert!(Channel::connect(at(2)).unwrap().is_none());
        let held = listener(at(2)).unwrap();
        assert_eq!(listener(at(2)).unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
        drop(held);
        assert!(Channel::connect(at(2)).unwrap().is_none());
    }
}
