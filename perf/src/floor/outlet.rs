//! The ways to hand prepared bytes to sockets. It owns the ring, if there is one, and keeps no bytes.

use super::log::Batch;
use super::ring::{Piece, Ring};
use crate::options::Mode;
use rustix::fd::AsRawFd;
use rustix::io::{Errno, writev};
use rustix::net::{SendFlags, send};
use std::io::IoSlice;
use std::net::TcpStream;

const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
/// The kernel takes at most so many pieces in one writev: IOV_MAX.
const PIECES_MAX: usize = 1024;

pub(crate) struct Outlet {
    sockets: Vec<TcpStream>,
    gathers: bool,
    ring: Option<Ring>,
}

impl Outlet {
    /// The way for `mode`, or the next best that this kernel has; `note` hears of that.
    pub(crate) fn new(mode: Mode, sockets: Vec<TcpStream>, mut note: impl FnMut(String)) -> Self {
        let descriptors: Vec<_> = sockets.iter().map(AsRawFd::as_raw_fd).collect();
        let ring = (mode == Mode::Uring).then(|| Ring::new(&descriptors, &mut note)).and_then(|ring| {
            ring.map_err(|fault| note(format!("send(2), because there is no io_uring ({fault})"))).ok()
        });
        Self { sockets, gathers: mode == Mode::Writev, ring }
    }

    /// Sends the whole batch to each of the sockets at `places`. `done` hears of each how many bytes it took.
    pub(crate) fn sweep(
        &mut self,
        places: &[u32],
        batch: &Batch,
        mut done: impl FnMut(usize, Result<usize, Errno>),
    ) {
        if !self.gathers {
            return self.send_each(places, |_| &batch.bytes, done);
        }
        let starts = std::iter::once(&0).chain(&batch.ends);
        let pieces = starts.zip(&batch.ends).take(PIECES_MAX);
        let pieces: Vec<_> = pieces.map(|(&from, &end)| IoSlice::new(&batch.bytes[from..end])).collect();
        for (at, &place) in places.iter().enumerate() {
            done(at, writev(&self.sockets[place as usize], &pieces));
        }
    }

    /// Sends each of the sockets at `places` its bytes.
    pub(crate) fn send_each<'a>(
        &mut self,
        places: &[u32],
        bytes: impl Fn(u32) -> &'a [u8],
        mut done: impl FnMut(usize, Result<usize, Errno>),
    ) {
        let sockets = &self.sockets;
        let Some(ring) = &mut self.ring else {
            for (at, &place) in places.iter().enumerate() {
                done(at, send(&sockets[place as usize], bytes(place), FLAGS));
            }
            return;
        };
        let piece = |at: usize| {
            let place: u32 = places[at];
            Piece { place, descriptor: sockets[place as usize].as_raw_fd(), bytes: bytes(place) }
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
            (our, their)
        };
        let (ours, theirs) = (0..3).map(pair).unzip();
        (Outlet::new(mode, ours, |_| {}), theirs)
    }

    #[test]
    fn every_mode_sends_the_same_bytes_and_tells_how_many_were_taken() {
        for &mode in Mode::value_variants() {
            let (mut outlet, mut theirs) = outlet(mode);
            let batch = Batch { bytes: b"one two three".to_vec(), ends: vec![4, 8, 13] };
            let mut took = Vec::new();
            outlet.sweep(&[0, 1, 2], &batch, |at, outcome| took.push((at, outcome)));
            outlet.send_each(
                &[2, 0],
                |place| &b"0123456789"[place as usize..],
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
            outlet.sockets[1].shutdown(std::net::Shutdown::Write).expect("connected");
            let batch = Batch { bytes: vec![b'x'; 16 << 20], ends: vec![16 << 20] };
            let mut took = Vec::new();
            // The kernel moves what it took to the reader's buffer, and then it has room again.
            while took.last() != Some(&(0, Err(Errno::AGAIN))) {
                outlet.sweep(&[0], &batch, |at, outcome| took.push((at, outcome)));
            }
            assert!(took[0].1.is_ok_and(|taken| taken > 0 && taken < 16 << 20), "{mode:?}: {took:?}");
            outlet.sweep(&[1], &batch, |_, outcome| assert_eq!(outcome, Err(Errno::PIPE), "{mode:?}"));
        }
    }
}
