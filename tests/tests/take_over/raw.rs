//! A process that speaks the protocol of a take-over, and stops wherever the test wants.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    listen, recvmsg, send, sendmsg, socket_with,
};
use serde_json::{Value, json};

use super::WITHIN;

fn socket() -> OwnedFd {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

fn name(user: u32, address: &str) -> SocketAddrUnix {
    let name = format!("revcast/take-over/{user}/{address}");
    SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()
}

/// A connection to a running server.
pub(super) struct Raw(OwnedFd);

impl Raw {
    pub(super) fn connect(address: &str) -> Self {
        Self::connect_to(rustix::process::geteuid().as_raw(), address)
    }

    /// To a server of this user.
    pub(super) fn connect_to(user: u32, address: &str) -> Self {
        Self::try_connect_to(user, address).unwrap()
    }

    fn try_connect_to(user: u32, address: &str) -> Option<Self> {
        let socket = socket();
        connect(&socket, &name(user, address)).is_ok().then(|| Self::of(socket))
    }

    /// To a server of this user that starts.
    pub(super) fn connect_to_coming(address: &str) -> Self {
        let deadline = Instant::now() + WITHIN;
        loop {
            if let Some(raw) = Self::try_connect_to(rustix::process::geteuid().as_raw(), address) {
                return raw;
            }
            assert!(Instant::now() < deadline, "nobody can be taken over at {address}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The next successor that comes to a socket of [`listen_as`](Self::listen_as).
    pub(super) fn accept(listener: &OwnedFd) -> Self {
        let within = Timespec::try_from(WITHIN).unwrap();
        let came = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&within)).unwrap();
        assert_eq!(came, 1, "no successor comes");
        Self::of(accept_with(listener, SocketFlags::CLOEXEC).unwrap())
    }

    fn of(socket: OwnedFd) -> Self {
        set_socket_timeout(&socket, Timeout::Recv, Some(WITHIN)).unwrap();
        Self(socket)
    }

    /// Waits where a server of this user does.
    pub(super) fn listen_as(user: u32, address: &str) -> OwnedFd {
        let socket = socket();
        bind(&socket, &name(user, address)).unwrap();
        listen(&socket, 1).unwrap();
        socket
    }

    pub(super) fn send(&self, text: &str) {
        send(&self.0, text.as_bytes(), SendFlags::NOSIGNAL).unwrap();
    }

    pub(super) fn say(&self, what: &str) {
        self.send(&json!({"protocol": 1, "says": what}).to_string());
    }

    /// Answers a successor, with descriptors.
    pub(super) fn answer(&self, says: &Value, descriptors: &[BorrowedFd<'_>]) {
        let text = json!({"protocol": 1, "says": says}).to_string();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(descriptors.is_empty() || control.push(SendAncillaryMessage::ScmRights(descriptors)));
        let sent = sendmsg(&self.0, &[IoSlice::new(text.as_bytes())], &mut control, SendFlags::NOSIGNAL);
        assert_eq!(sent.unwrap(), text.len());
    }

    /// What it answers, and how many descriptors come with it. Null: it closed the connection.
    pub(super) fn hear(&self) -> (Value, usize) {
        let mut bytes = vec![0; 8 << 10];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut bytes)];
        let got = recvmsg(&self.0, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
        let rights = control.drain().map(|message| {
            if let RecvAncillaryMessage::ScmRights(rights) = message { rights.count() } else { 0 }
        });
        let rights = rights.sum();
        if got.bytes == 0 {
            return (Value::Null, 0);
        }
        let message: Value = serde_json::from_slice(&bytes[..got.bytes]).unwrap();
        assert_eq!(message["protocol"], 1);
        (message["says"].clone(), rights)
    }

    /// Why it refuses.
    pub(super) fn refusal(&self) -> String {
        let (says, _) = self.hear();
        says["refused"]["why"].as_str().unwrap_or_else(|| panic!("no refusal: {says}")).to_owned()
    }

    /// Takes all listeners. How many there were.
    pub(super) fn take_listeners(&self) -> usize {
        self.say("listeners");
        let mut all = 0;
        loop {
            let (says, count) = self.hear();
            all += count;
            match says["listeners"]["more"].as_bool() {
                Some(true) => {}
                Some(false) => return all,
                None => panic!("no listeners: {says}"),
            }
        }
    }
}
