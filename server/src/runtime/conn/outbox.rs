//! The output of one turn, by connection, until it is passed to the kernel.
//!
//! One buffer for all connections of a shard, reused each turn. Never sends, and keeps nothing from turn to turn.

use std::ops::Range;

use super::tls::{Broken, Session};

/// A larger buffer is not kept from one turn to the next.
const KEPT_BYTES: usize = 4 << 20;

/// Contiguous bytes of one connection.
#[derive(Clone, Debug)]
struct Piece {
    conn: u32,
    bytes: Range<usize>,
    /// Whether they are among the bytes that were encrypted at last.
    is_sealed: bool,
}

/// Bytes of many connections, in the order in which they were put.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// The first `end` bytes are in use. Its length is not reset each turn, so records are encrypted into memory that is not
    /// zeroed first.
    room: Vec<u8>,
    end: usize,
    pieces: Vec<Piece>,
    /// Pieces that were encrypted as a whole; the first `sealed_end` bytes are in use.
    sealed: Vec<u8>,
    sealed_end: usize,
    /// Whether some connection has more than one piece.
    is_scattered: bool,
}

impl Outbox {
    /// Bytes that are collected.
    pub(super) const fn len(&self) -> usize {
        self.end
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The capacity of its buffers in bytes.
    pub(super) const fn capacity(&self) -> usize {
        self.room.capacity() + self.sealed.capacity() + size_of::<Piece>() * self.pieces.capacity()
    }

    /// Adds bytes of a connection; `again`: it has some here already. With a session they are encrypted.
    pub(super) fn put(
        &mut self,
        conn: u32,
        plain: &[u8],
        session: Option<&mut Session>,
        again: bool,
    ) -> Result<(), Broken> {
        let start = self.end;
        let end = match session {
            Some(session) => session.seal_at(plain, &mut self.room, start)?,
            None => {
                let end = start + plain.len();
                if self.room.len() < end {
                    self.room.resize(end, 0);
                }
                self.room[start..end].copy_from_slice(plain);
                end
            }
        };
        self.add(conn, end, again);
        Ok(())
    }

    /// Adds plain bytes that `push` appends.
    pub(super) fn put_with<T>(&mut self, conn: u32, again: bool, push: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        self.room.truncate(self.end);
        let pushed = push(&mut self.room);
        self.add(conn, self.room.len(), again);
        pushed
    }

    /// The bytes up to `end` are the connection's.
    fn add(&mut self, conn: u32, end: usize, again: bool) {
        let start = std::mem::replace(&mut self.end, end);
        if start == end {
            return;
        }
        match self.pieces.last_mut() {
            Some(last) if last.conn == conn => last.bytes.end = end,
            _ => {
                self.is_scattered |= again;
                self.pieces.push(Piece { conn, bytes: start..end, is_sealed: false });
            }
        }
    }

    /// Joins the pieces of each connection into one.
    pub(super) fn gather(&mut self) {
        if !std::mem::take(&mut self.is_scattered) {
            return;
        }
        // By connection, and for each in the order of insertion (the sort is stable).
        self.pieces.sort_by_key(|piece| piece.conn);
        let mut gathered: Vec<Piece> = Vec::with_capacity(self.pieces.len());
        let mut bytes = Vec::with_capacity(self.end);
        for piece in self.pieces.drain(..) {
            let start = bytes.len();
            bytes.extend_from_slice(&self.room[piece.bytes]);
            match gathered.last_mut() {
                Some(last) if last.conn == piece.conn => last.bytes.end = bytes.len(),
                _ => gathered.push(Piece { conn: piece.conn, bytes: start..bytes.len(), is_sealed: false }),
            }
        }
        (self.end, self.room, self.pieces) = (bytes.len(), bytes, gathered);
    }

    /// Encrypts a piece, after everything is gathered.
    pub(super) fn seal(&mut self, at: usize, session: &mut Session) -> Result<(), Broken> {
        let piece = &mut self.pieces[at];
        let start = self.sealed_end;
        self.sealed_end = session.seal_at(&self.room[piece.bytes.clone()], &mut self.sealed, start)?;
        (piece.bytes, piece.is_sealed) = (start..self.sealed_end, true);
        Ok(())
    }

    /// How many pieces there are.
    pub(super) const fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// The connection of a piece, and its bytes.
    pub(super) fn piece(&self, at: usize) -> (u32, &[u8]) {
        let Piece { conn, bytes, is_sealed } = &self.pieces[at];
        let room = if *is_sealed { &self.sealed } else { &self.room };
        (*conn, &room[bytes.clone()])
    }

    /// Everything was passed on.
    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        (self.end, self.sealed_end) = (0, 0);
        for room in [&mut self.room, &mut self.sealed] {
            if room.capacity() > KEPT_BYTES {
                *room = Vec::new();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_one_piece_of_all_that_it_was_put() {
        let mut outbox = Outbox::default();
        let mut put = |conn, bytes: &[u8], again| outbox.put(conn, bytes, None, again).expect("no session");
        put(7, b"a", false);
        put(7, b"b", true);
        put(3, b"c", false);
        put(7, b"d", true);
        put(3, b"e", true);
        assert_eq!((outbox.pieces(), outbox.len()), (4, 5));
        outbox.gather();
        let all: Vec<_> = (0..outbox.pieces()).map(|at| outbox.piece(at)).collect();
        assert_eq!(all, [(3, &b"ce"[..]), (7, &b"abd"[..])]);
        outbox.clear();
        assert!(outbox.is_empty() && outbox.capacity() > 0);
        // Bytes of an earlier turn are not sent again.
        outbox.put(1, b"z", None, false).expect("no session");
        outbox.gather();
        assert_eq!(outbox.piece(0), (1, &b"z"[..]));
    }
}
