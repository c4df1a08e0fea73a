//! After an upgrade: the bytes of both directions, passed on as they are.
//!
//! Each direction ends by itself: a side that has sent all can still be sent something.

use std::future::poll_fn;
use std::task::{Context, Poll};

use super::connection::{Connection, Over};
use super::transport::Transport;
use crate::runtime::upstream::Count;
use crate::runtime::upstream::io::Stream;

/// Bytes per read.
const READ_BYTES: usize = 16 << 10;
/// Pieces of both directions that are passed on before other tasks of the shard have their turn.
const PIECES_MAX: usize = 8;

/// One direction.
#[derive(Debug, Default)]
struct Direction {
    bytes: Vec<u8>,
    /// How many of them were sent.
    sent: usize,
    /// Whether its source has sent all.
    is_over: bool,
    /// Whether its sink knows.
    is_finished: bool,
}

/// What a look at both directions found.
enum Look {
    /// There may be more at once.
    Again,
    /// Both are over, or one of the sides is gone.
    Over,
}

impl Connection {
    /// Passes bytes on until both sides have sent all, or one of them is gone: a side may pause as long as it likes. `first` is for the
    /// client. The connection is counted as long as `count` lives.
    pub(super) async fn tunnel(&mut self, stream: Stream, first: Vec<u8>, count: Count) -> Over {
        let mut stream = stream;
        let mut up = Direction { bytes: std::mem::take(&mut self.buffer), ..Direction::default() };
        let mut down = Direction { bytes: first, ..Direction::default() };
        while let Some(transport) = &mut self.transport {
            match poll_fn(|cx| poll_both(cx, transport, &mut stream, &mut up, &mut down)).await {
                Look::Again => crate::frontend::Host::yield_now(&*self.local).await,
                Look::Over => break,
            }
        }
        drop(count);
        Over::Quiet
    }
}

fn poll_both(
    cx: &mut Context<'_>,
    transport: &mut Transport,
    stream: &mut Stream,
    up: &mut Direction,
    down: &mut Direction,
) -> Poll<Look> {
    for _ in 0..PIECES_MAX {
        let upwards = up.poll(
            cx,
            (&mut *transport, &mut *stream),
            |(transport, _), cx, bytes| transport.poll_read(cx, bytes, READ_BYTES),
            |(_, stream), cx, bytes| stream.poll_write(cx, bytes),
            |(_, stream), cx| stream.poll_flush(cx),
            |(_, stream), cx| stream.poll_close(cx),
        );
        let downwards = down.poll(
            cx,
            (&mut *transport, &mut *stream),
            |(_, stream), cx, bytes| {
                bytes.resize(READ_BYTES, 0);
                let read = stream.poll_read(cx, bytes);
                bytes.truncate(if let Poll::Ready(Ok(read)) = read { read } else { 0 });
                read
            },
            |(transport, _), cx, bytes| transport.poll_write(cx, bytes),
            |(transport, _), cx| transport.poll_flush(cx),
            |(transport, _), cx| transport.poll_finish(cx),
        );
        match (upwards, downwards) {
            (Poll::Ready(Err(_)), _) | (_, Poll::Ready(Err(_))) => return Poll::Ready(Look::Over),
            _ if up.is_finished && down.is_finished => return Poll::Ready(Look::Over),
            (Poll::Pending, Poll::Pending) => return Poll::Pending,
            (Poll::Ready(Ok(())) | Poll::Pending, Poll::Ready(Ok(())) | Poll::Pending) => {}
        }
    }
    Poll::Ready(Look::Again)
}

type Sides<'a> = (&'a mut Transport, &'a mut Stream);

impl Direction {
    /// Does the next step. Pending: nothing can be done now.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        sides: Sides<'_>,
        read: impl FnOnce(Sides<'_>, &mut Context<'_>, &mut Vec<u8>) -> Poll<std::io::Result<usize>>,
        write: impl FnOnce(Sides<'_>, &mut Context<'_>, &[u8]) -> Poll<std::io::Result<usize>>,
        flush: impl FnOnce(Sides<'_>, &mut Context<'_>) -> Poll<std::io::Result<()>>,
        finish: impl FnOnce(Sides<'_>, &mut Context<'_>) -> Poll<std::io::Result<()>>,
    ) -> Poll<std::io::Result<()>> {
        let (transport, stream) = sides;
        if self.is_finished {
            return Poll::Pending;
        }
        if self.sent < self.bytes.len() {
            return write((transport, stream), cx, &self.bytes[self.sent..]).map_ok(|sent| self.sent += sent);
        }
        // What was written may still be held back, to be sealed or because the socket is full.
        match flush((&mut *transport, &mut *stream), cx) {
            Poll::Ready(Ok(())) => {}
            unsent @ (Poll::Ready(Err(_)) | Poll::Pending) => return unsent,
        }
        if self.is_over {
            return finish((transport, stream), cx).map_ok(|()| self.is_finished = true);
        }
        self.bytes.clear();
        self.sent = 0;
        read((transport, stream), cx, &mut self.bytes).map_ok(|read| self.is_over = read == 0)
    }
}
