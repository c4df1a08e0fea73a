//! The ways to hand prepared bytes to sockets. It owns the ring, if there is one, and keeps no bytes.

use super::guests::Guest;
use super::log::Batch;
use super::ring::{Piece, Ring};
use crate::options::Mode;
use crate::tls::Session;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create, sendfile};
use rustix::io::{Errno, pwrite, writev};
use rustix::net::{SendFlags, send};
use std::io::IoSlice;
use std::net::TcpStream;

const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
/// The kernel takes at most so many pieces in one writev: IOV_MAX.
const PIECES_MAX: usize = 1024;
/// Sealed for the ring at once.
const SEALED_MAX: usize = 64;

pub(crate) struct Outlet {
    pub(super) way: Way,
    gathers: bool,
    /// What all sockets share.
    pages: Option<OwnedFd>,
    /// Of each socket: watches that it carries, and its session, if there is TLS.
    streams: Vec<usize>,
    sessions: Vec<Session>,
    /// Room for what is sealed, used again and again.
    room: Vec<Vec<u8>>,
}

pub(super) struct Way {
    sockets: Vec<TcpStream>,
    ring: Option<Ring>,
}

impl Outlet {
    /// The way for `mode`, or the next best that this kernel has; `note` hears of that.
    pub(super) fn new(mode: Mode, guests: Vec<Guest>, mut note: impl FnMut(String)) -> Self {
        let descriptors: Vec<_> = guests.iter().map(|guest| guest.socket.as_raw_fd()).collect();
        let ring = (mode == Mode::Uring).then(|| Ring::new(&descriptors, &mut note)).and_then(|ring| {
            ring.map_err(|fault| note(format!("send(2), because there is no io_uring ({fault})"))).ok()
        });
        let streams = guests.iter().map(|guest| guest.streams).collect();
        let (sockets, sessions): (_, Vec<_>) =
            guests.into_iter().map(|guest| (guest.socket, guest.tls)).unzip();
        let sessions: Vec<Session> = sessions.into_iter().flatten().collect();
        match mode {
            Mode::Writev if !sessions.is_empty() => {
                note("send(2), because what is sealed is one piece".to_owned());
            }
            Mode::Pages if !sessions.is_empty() => {
                note("send(2), because what is sealed is another piece for each".to_owned());
            }
            Mode::Send | Mode::Writev | Mode::Uring | Mode::Pages => {}
        }
        let pages = (mode == Mode::Pages && sessions.is_empty())
            .then(|| memfd_create("floor", MemfdFlags::CLOEXEC))
            .and_then(|file| {
                file.map_err(|fault| note(format!("send(2), because no page can be shared ({fault})"))).ok()
            });
        let gathers = mode == Mode::Writev && sessions.is_empty();
        let room = vec![Vec::new(); if ring.is_some() { SEALED_MAX } else { 1 }];
        Self { way: Way { sockets, ring }, gathers, pages, streams, sessions, room }
    }

    /// Sends the whole batch to each of the sockets at `places`. `done` hears of each what it was to take, and how much it took.
    pub(crate) fn sweep(
        &mut self,
        places: &[u32],
        batch: &Batch,
        mut done: impl FnMut(usize, &[u8], Result<usize, Errno>),
    ) {
        let Self { way, pages, streams, sessions, room, .. } = self;
        if !sessions.is_empty() {
            let mut first = 0;
            for some in places.chunks(room.len()) {
                for (&place, room) in some.iter().zip(&mut *room) {
                    seal(&mut sessions[place as usize], batch.of(streams[place as usize]), room);
                }
                let bytes = |at: usize| &room[at][..];
                way.send_each(some, bytes, |at, outcome| done(first + at, bytes(at), outcome));
                first += some.len();
            }
            return;
        }
        let bytes = |at: usize| batch.of(streams[places[at] as usize]);
        if let Some(file) = pages {
            let filled = fill(file, &batch.bytes);
            for (at, &place) in places.iter().enumerate() {
                let (socket, bytes) = (&way.sockets[place as usize], bytes(at));
                let outcome = filled.and_then(|()| sendfile(socket, &*file, Some(&mut 0), bytes.len()));
                done(at, bytes, outcome);
            }
            return;
        }
        if !self.gathers {
            return way.send_each(places, bytes, |at, outcome| done(at, bytes(at), outcome));
        }
        let pieces = batch.pieces.iter().take(PIECES_MAX);
        let pieces: Vec<_> = pieces.map(|piece| IoSlice::new(&batch.bytes[piece.clone()])).collect();
        for (at, &place) in places.iter().enumerate() {
            let count = batch.pieces.len() / batch.streams * streams[place as usize];
            let outcome = writev(&way.sockets[place as usize], &pieces[..count.min(pieces.len())]);
            done(at, bytes(at), outcome);
        }
    }

    /// What the socket at `place` is to get of a batch.
    pub(super) fn bytes_for<'a>(&'a mut self, place: u32, batch: &'a Batch) -> &'a [u8] {
        let plain = batch.of(self.streams[place as usize]);
        let Some(session) = self.sessions.get_mut(place as usize) else { return plain };
        seal(session, plain, &mut self.room[0]);
        &self.room[0]
    }
}

/// Makes these bytes all that is in the file. Pages that sockets still send are cut off from it first, and stay as they are.
fn fill(file: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    ftruncate(file, 0)?;
    let mut at = 0;
    while !bytes.is_empty() {
        let written = pwrite(file, bytes, at)?;
        (at, bytes) = (at + written as u64, &bytes[written..]);
    }
    Ok(())
}

/// Fills `room` with what is sealed: nothing, if the keys are worn out.
fn seal(session: &mut Session, plain: &[u8], room: &mut Vec<u8>) {
    room.clear();
    let _worn_out = session.seal(plain, room);
}

impl Way {
    /// Sends each of the sockets at `places` its bytes.
    pub(super) fn send_each<'a>(
        &mut self,
        places: &[u32],
        bytes: impl Fn(usize) -> &'a [u8],
        mut done: impl FnMut(usize, Result<usize, Errno>),
    ) {
        let sockets = &self.sockets;
        let Some(ring) = &mut self.ring else {
            for (at, &place) in places.iter().enumerate() {
                done(at, send(&sockets[place as usize], bytes(at), FLAGS));
            }
            return;
        };
        let piece = |at: usize| {
            let place: u32 = places[at];
            Piece { place, descriptor: sockets[place as usize].as_raw_fd(), bytes: bytes(at) }
        };
        ring.send_each(places.len(), FLAGS, piece, done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use std::io::Read;
    use std::net::{Ipv4Addr, TcpListener};

    /// An outlet to three sockets, and their other ends.
    fn outlet(mode: Mode) -> (Outlet, Vec<TcpStream>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let pair = |_| {
            let their = TcpStream::connect(address).expect("it listens");
            let (our, _) = listener.accept().expect("connected");
            our.set_nonblocking(true).expect("a socket");
            (Guest::of_test(our), their)
        };
        let (ours, theirs) = (0..3).map(pair).unzip();
        (Outlet::new(mode, ours, |_| {}), theirs)
    }

    #[test]
    fn every_mode_sends_the_same_bytes_and_tells_how_many_were_taken() {
        for &mode in Mode::value_variants() {
            let (mut outlet, mut theirs) = outlet(mode);
            let batch =
                Batch { bytes: b"one two three".to_vec(), pieces: vec![0..4, 4..8, 8..13], streams: 1 };
            let mut took = Vec::new();
            outlet.sweep(&[0, 1, 2], &batch, |at, _, outcome| took.push((at, outcome)));
            outlet.way.send_each(
                &[2, 0],
                |at| &b"0123456789"[[2, 0][at]..],
                |at, outcome| {
                    took.push((at + 3, outcome));
                },
            );
            took.sort_by_key(|&(at, _)| at);
            assert!(took.into_iter().eq([13, 13, 13, 8, 10].map(Ok).into_iter().enumerate()), "{mode:?}");
            drop(outlet);
            for (their, rest) in theirs.iter_mut().zip(["0123456789", "", "23456789"]) {
                let mut text = String::new();
                their.read_to_string(&mut text).expect("text");
                assert_eq!(text, format!("one two three{rest}"), "{mode:?}");
            }
        }
    }

    #[test]
    fn a_full_and_a_broken_socket_are_told_in_every_mode() {
        for &mode in Mode::value_variants() {
            let (mut outlet, _theirs) = outlet(mode);
            outlet.way.sockets[1].shutdown(std::net::Shutdown::Write).expect("connected");
            let batch = Batch {
                bytes: vec![b'x'; 16 << 20],
                pieces: std::iter::once(0..16 << 20).collect(),
                streams: 1,
            };
            let mut took = Vec::new();
            // The kernel moves what it took to the reader's buffer, and then it has room again.
            while took.last() != Some(&(0, Err(Errno::AGAIN))) {
                outlet.sweep(&[0], &batch, |at, _, outcome| took.push((at, outcome)));
            }
            assert!(took[0].1.is_ok_and(|taken| taken > 0 && taken < 16 << 20), "{mode:?}: {took:?}");
            outlet.sweep(&[1], &batch, |_, _, outcome| assert_eq!(outcome, Err(Errno::PIPE), "{mode:?}"));
        }
    }
}
