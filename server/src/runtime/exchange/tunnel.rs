//! After an upgrade: the bytes of both directions, passed on as they are.
//!
//! Each direction ends by itself: a side that has sent all can still be sent something.

use std::future::poll_fn;
use std::task::{Context, Poll};

use super::carrier::Carrier;
use super::{Exchange, Over};
use crate::runtime::upstream::Count;
use crate::runtime::upstream::io::Stream;

/// Bytes per read from the upstream.
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

impl<C: Carrier> Exchange<C> {
    /// Passes bytes on until both sides have sent all, or one of them is gone: a side may pause as long as it likes. The connection is
    /// counted as long as `count` lives.
    pub(super) async fn tunnel(&mut self, stream: Stream, count: Count) -> Over {
        let mut stream = stream;
        let mut up = Direction::default();
        let mut down = Direction::default();
        loop {
            let carrier = &mut self.carrier;
            match poll_fn(|cx| poll_both(cx, carrier, &mut stream, &mut up, &mut down)).await {
                Look::Again => crate::frontend::Host::yield_now(&*self.local).await,
                Look::Over => break,
            }
        }
        drop(count);
        Over::Quiet
    }
}

fn poll_both<C: Carrier>(
    cx: &mut Context<'_>,
    carrier: &mut C,
    stream: &mut Stream,
    up: &mut Direction,
    down: &mut Direction,
) -> Poll<Look> {
    for _ in 0..PIECES_MAX {
        let upwards = up.poll(
            cx,
            (&mut *carrier, &mut *stream),
            |(carrier, _), cx, bytes| carrier.poll_read(cx, bytes),
            |(_, stream), cx, bytes| stream.poll_write(cx, bytes),
            |(_, stream), cx| stream.poll_flush(cx),
            |(_, stream), cx| stream.poll_close(cx),
        );
        let downwards = down.poll(
            cx,
            (&mut *carrier, &mut *stream),
            |(_, stream), cx, bytes| {
                bytes.resize(READ_BYTES, 0);
                let read = stream.poll_read(cx, bytes);
                bytes.truncate(if let Poll::Ready(Ok(read)) = read { read } else { 0 });
                read
            },
            |(carrier, _), cx, bytes| carrier.poll_write(cx, bytes),
            |(carrier, _), cx| carrier.poll_flush(cx),
            |(carrier, _), cx| carrier.poll_finish(cx),
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

type Sides<'a, C> = (&'a mut C, &'a mut Stream);

impl Direction {
    /// Does the next step. Pending: nothing can be done now.
    fn poll<C>(
        &mut self,
        cx: &mut Context<'_>,
        sides: Sides<'_, C>,
        read: impl FnOnce(Sides<'_, C>, &mut Context<'_>, &mut Vec<u8>) -> Poll<std::io::Result<usize>>,
        write: impl FnOnce(Sides<'_, C>, &mut Context<'_>, &[u8]) -> Poll<std::io::Result<usize>>,
        flush: impl FnOnce(Sides<'_, C>, &mut Context<'_>) -> Poll<std::io::Result<()>>,
        finish: impl FnOnce(Sides<'_, C>, &mut Context<'_>) -> Poll<std::io::Result<()>>,
    ) -> Poll<std::io::Result<()>> {
        let (carrier, stream) = sides;
        if self.is_finished {
            return Poll::Pending;
        }
        if self.sent < self.bytes.len() {
            return write((carrier, stream), cx, &self.bytes[self.sent..]).map_ok(|sent| self.sent += sent);
        }
        // What was written may still be held back, to be sealed or because the socket is full.
        match flush((&mut *carrier, &mut *stream), cx) {
            Poll::Ready(Ok(())) => {}
            unsent @ (Poll::Ready(Err(_)) | Poll::Pending) => return unsent,
        }
        if self.is_over {
            return finish((carrier, stream), cx).map_ok(|()| self.is_finished = true);
        }
        self.bytes.clear();
        self.sent = 0;
        read((carrier, stream), cx, &mut self.bytes).map_ok(|read| self.is_over = read == 0)
    }
}
