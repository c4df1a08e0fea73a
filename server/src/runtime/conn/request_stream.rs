//! A stream of HTTP/2 while a task answers its request: what the connection and the task tell each other.

use std::cell::RefCell;
use std::task::{Context, Poll, Waker};

/// Both are on one core.
#[derive(Debug, Default)]
pub(in crate::runtime) struct RequestStream(RefCell<State>);

#[derive(Debug, Default)]
struct State {
    /// Of the body, what the task did not take yet: at most the stream's window.
    body: Vec<u8>,
    /// Whether the rest of the body is here.
    has_ended: bool,
    /// The peer reset the stream, or the connection is gone.
    is_gone: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// What there is of a body.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::runtime) enum Piece {
    Data(Vec<u8>),
    End,
    Gone,
}

impl RequestStream {
    pub(super) fn new(has_ended: bool) -> Self {
        Self(RefCell::new(State { has_ended, ..State::default() }))
    }

    /// Data arrived.
    pub(super) fn put(&self, bytes: &[u8], ended: bool) {
        let mut state = self.0.borrow_mut();
        state.body.extend_from_slice(bytes);
        state.has_ended |= ended;
        let waker = state.reader.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Nothing more comes, and nothing is taken.
    pub(super) fn lose(&self) {
        let mut state = self.0.borrow_mut();
        state.is_gone = true;
        let wakers = [state.reader.take(), state.writer.take()];
        drop(state);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// There may be room again.
    pub(super) fn wake_writer(&self) {
        let waker = self.0.borrow_mut().writer.take();
        waker.into_iter().for_each(Waker::wake);
    }

    /// What the task did not take of the body, and whether it has ended.
    pub(super) fn take_rest(&self) -> (Vec<u8>, bool) {
        let mut state = self.0.borrow_mut();
        (std::mem::take(&mut state.body), state.has_ended)
    }

    pub(in crate::runtime) fn is_gone(&self) -> bool {
        self.0.borrow().is_gone
    }

    /// Whether no part of the body is here, and it has not ended.
    pub(in crate::runtime) fn is_dry(&self) -> bool {
        let state = self.0.borrow();
        state.body.is_empty() && !state.has_ended && !state.is_gone
    }

    /// What arrived since the last call.
    pub(in crate::runtime) fn poll_piece(&self, cx: &Context<'_>) -> Poll<Piece> {
        let mut state = self.0.borrow_mut();
        if !state.body.is_empty() {
            return Poll::Ready(Piece::Data(std::mem::take(&mut state.body)));
        }
        match (state.is_gone, state.has_ended) {
            (true, _) => Poll::Ready(Piece::Gone),
            (false, true) => Poll::Ready(Piece::End),
            (false, false) => {
                state.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Ready when the stream is gone. What arrives meanwhile stays.
    pub(in crate::runtime) fn poll_gone(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.0.borrow_mut();
        if state.is_gone {
            return Poll::Ready(());
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The task is woken when there may be room.
    pub(in crate::runtime) fn wait_for_room(&self, cx: &Context<'_>) {
        self.0.borrow_mut().writer = Some(cx.waker().clone());
    }
}
