//! The body of a request to the upstream, piece by piece as its client sends it.
//!
//! Owns one slot between the task that reads the client and hyper, which writes the upstream: a piece is read when the one before
//! it is on its way, so a forwarded body takes no more memory than a piece.

use std::cell::RefCell;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// The client ended its body too soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the client ended its body too soon")
    }
}

impl std::error::Error for Cut {}

#[derive(Debug, Default)]
struct Slot {
    piece: Option<Bytes>,
    end: Option<Result<(), Cut>>,
    /// Whether hyper has asked for a piece.
    wanted: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// The end of a body that is filled.
#[derive(Clone, Debug, Default)]
pub(in crate::runtime) struct BodySender(Rc<RefCell<Slot>>);

impl BodySender {
    /// Ready when a piece is wanted.
    pub(in crate::runtime) fn poll_wanted(&self, cx: &Context<'_>) -> Poll<()> {
        let mut slot = self.0.borrow_mut();
        if slot.wanted && slot.piece.is_none() && slot.end.is_none() {
            return Poll::Ready(());
        }
        slot.writer = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The next piece; it was wanted.
    pub(in crate::runtime) fn send(&self, piece: Bytes) {
        let mut slot = self.0.borrow_mut();
        slot.piece = Some(piece).filter(|piece| !piece.is_empty());
        wake(&mut slot.reader);
    }

    /// Nothing follows. The first end counts.
    pub(in crate::runtime) fn end(&self, how: Result<(), Cut>) {
        let mut slot = self.0.borrow_mut();
        slot.end.get_or_insert(how);
        wake(&mut slot.reader);
    }
}

/// The body of a request.
#[derive(Debug)]
pub(in crate::runtime) enum RequestBody {
    /// Known.
    Full(Option<Bytes>),
    /// To be sent by a client, with its length if it said one.
    Stream(BodySender, Option<u64>),
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        match self.get_mut() {
            Self::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(sender, left) => {
                let mut slot = sender.0.borrow_mut();
                if let Some(piece) = slot.piece.take() {
                    if let Some(left) = left {
                        *left = left.saturating_sub(piece.len() as u64);
                    }
                    wake(&mut slot.writer);
                    return Poll::Ready(Some(Ok(Frame::data(piece))));
                }
                match slot.end {
                    Some(Ok(())) => Poll::Ready(None),
                    Some(Err(cut)) => Poll::Ready(Some(Err(cut))),
                    None => {
                        slot.wanted = true;
                        slot.reader = Some(cx.waker().clone());
                        wake(&mut slot.writer);
                        Poll::Pending
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(bytes) => bytes.is_none(),
            Self::Stream(..) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Stream(_, Some(length)) => SizeHint::with_exact(*length),
            Self::Stream(_, None) => SizeHint::default(),
        }
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}
