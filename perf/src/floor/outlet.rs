//! The ways to hand prepared bytes to sockets. It owns the ring, if there is one, and keeps no bytes.

use super::log::Batch;
use super::ring::{Piece, Ring};
use crate::options::Mode;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::{Errno, writev};
use rustix::net::{SendFlags, send};
use std::io::IoSlice;

const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
/// The kernel takes at most so many pieces in one writev: IOV_MAX.
const PIECES_MAX: usize = 1024;

/// How many bytes a socket took of what was for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Took {
    pub(crate) at: usize,
    pub(crate) outcome: Result<usize, Errno>,
}

#[derive(Debug)]
pub(crate) enum Outlet {
    Send,
    Writev,
    Ring(Box<Ring>),
}

impl Outlet {
    /// The way for `mode`, or the next best that this kernel has; `note` hears of that.
    pub(crate) fn new(mode: Mode, sockets: &[Option<OwnedFd>], mut note: impl FnMut(String)) -> Self {
        match mode {
            Mode::Send => Self::Send,
            Mode::Writev => Self::Writev,
            Mode::Uring => {
                // -1 leaves a place empty.
                let descriptor = |socket: &Option<OwnedFd>| socket.as_ref().map_or(-1, AsRawFd::as_raw_fd);
                let descriptors: Vec<_> = sockets.iter().map(descriptor).collect();
                Ring::new(&descriptors, &mut note).map_or_else(
                    |fault| {
                        note(format!("send(2), because there is no io_uring ({fault})"));
                        Self::Send
                    },
                    |ring| Self::Ring(Box::new(ring)),
                )
            }
        }
    }

    /// Sends the whole batch to each of the `live` sockets. `short` gets those that did not take all of it.
    pub(crate) fn sweep(
        &mut self,
        sockets: &[Option<OwnedFd>],
        live: &[u32],
        batch: &Batch,
        short: &mut Vec<Took>,
    ) {
        let bytes = batch.bytes.as_slice();
        let mut note = |at: usize, outcome: Result<usize, Errno>| {
            if outcome != Ok(bytes.len()) {
                short.push(Took { at, outcome });
            }
        };
        match self {
            Self::Send => {
                for (at, &place) in live.iter().enumerate() {
                    note(at, send_one(sockets, place, bytes));
                }
            }
            Self::Writev => {
                let mut from = 0;
                let pieces: Vec<IoSlice<'_>> = batch
                    .ends
                    .iter()
                    .map(|&end| IoSlice::new(&bytes[std::mem::replace(&mut from, end)..end]))
                    .collect();
                let pieces = &pieces[..pieces.len().min(PIECES_MAX)];
                for (at, &place) in live.iter().enumerate() {
                    let socket = sockets[place as usize].as_ref().ok_or(Errno::BADF);
                    note(at, socket.and_then(|socket| writev(socket, pieces)));
                }
            }
            Self::Ring(ring) => {
                let piece = |at: usize| piece_of(sockets, live[at], bytes);
                ring.send_each(live.len(), FLAGS, piece, note);
            }
        }
    }

    /// Sends each of the `late` sockets what `rest` gives for it. `took` gets an entry for every one.
    pub(crate) fn serve<'a>(
        &mut self,
        sockets: &[Option<OwnedFd>],
        late: &[u32],
        rest: impl Fn(u32) -> &'a [u8],
        took: &mut Vec<Took>,
    ) {
        match self {
            Self::Send | Self::Writev => {
                for (at, &place) in late.iter().enumerate() {
                    took.push(Took { at, outcome: send_one(sockets, place, rest(place)) });
                }
            }
            Self::Ring(ring) => {
                let piece = |at: usize| piece_of(sockets, late[at], rest(late[at]));
                ring.send_each(late.len(), FLAGS, piece, |at, outcome| took.push(Took { at, outcome }));
            }
        }
    }
}

fn send_one(sockets: &[Option<OwnedFd>], place: u32, bytes: &[u8]) -> Result<usize, Errno> {
    let socket = sockets[place as usize].as_ref().ok_or(Errno::BADF)?;
    send(socket.as_fd(), bytes, FLAGS)
}

fn piece_of<'a>(sockets: &[Option<OwnedFd>], place: u32, bytes: &'a [u8]) -> Piece<'a> {
    let descriptor = sockets[place as usize].as_ref().map_or(-1, AsRawFd::as_raw_fd);
    Piece { place, descriptor, bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    /// Two sockets, the other ends of them, and a place without one.
    fn sockets() -> (Vec<Option<OwnedFd>>, Vec<UnixStream>) {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let (our, their) = UnixStream::pair().expect("a pair of sockets");
            our.set_nonblocking(true).expect("a socket");
            ours.push(Some(OwnedFd::from(our)));
            theirs.push(their);
        }
        ours.insert(1, None);
        (ours, theirs)
    }

    #[test]
    fn every_mode_sends_the_same_bytes_and_tells_who_took_less() {
        for &mode in Mode::value_variants() {
            let (ours, mut theirs) = sockets();
            let mut outlet = Outlet::new(mode, &ours, |_| {});
            let batch = Batch { bytes: b"one two three".to_vec(), ends: vec![4, 8, 13] };
            let mut short = Vec::new();
            outlet.sweep(&ours, &[0, 1, 2], &batch, &mut short);
            assert_eq!(short, [Took { at: 1, outcome: Err(Errno::BADF) }], "{mode}");
            let mut took = Vec::new();
            outlet.serve(&ours, &[2, 0], |place| &b"0123456789"[place as usize..], &mut took);
            took.sort_by_key(|took| took.at);
            assert_eq!(took, [Took { at: 0, outcome: Ok(8) }, Took { at: 1, outcome: Ok(10) }], "{mode}");
            drop(ours);
            drop(outlet);
            for (their, expected) in
                theirs.iter_mut().zip(["one two three0123456789", "one two three23456789"])
            {
                let mut text = String::new();
                their.read_to_string(&mut text).expect("text");
                assert_eq!(text, expected, "{mode}");
            }
        }
    }

    #[test]
    fn a_full_socket_says_so_in_every_mode() {
        for &mode in Mode::value_variants() {
            let (ours, _theirs) = sockets();
            let mut outlet = Outlet::new(mode, &ours, |_| {});
            let batch = Batch { bytes: vec![b'x'; 4 << 20], ends: vec![4 << 20] };
            let mut short = Vec::new();
            outlet.sweep(&ours, &[0], &batch, &mut short);
            outlet.sweep(&ours, &[0], &batch, &mut short);
            let [first, second] = short.as_slice() else { panic!("{mode}: both are short") };
            assert!(first.outcome.is_ok_and(|taken| taken > 0 && taken < 4 << 20), "{mode}: {first:?}");
            assert_eq!(second.outcome, Err(Errno::AGAIN), "{mode}");
        }
    }
}
