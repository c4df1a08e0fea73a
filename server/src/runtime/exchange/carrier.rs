//! What carries a request and its reply: a wire of HTTP, over a connection.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::response::Parts;

use crate::http::body::BodyError;
use crate::http::request::RequestHead;
use crate::http::response::{ResponseFraming, ResponseHead};
use crate::http::status::Status;
use crate::http::websocket::Handshake;
use crate::runtime::account::Charge;
use crate::runtime::reserve::Reserve;
use crate::runtime::watch::Carrying;
use crate::tls::{Signers, Terms};
use crate::upstream::{NotForwarded, RawHead};
use crate::wire::stream::Delimiter;

/// The longest pause within a body, and the longest time for which a peer may take no byte of a reply.
pub(in crate::runtime) const STALL: Duration = Duration::from_secs(30);

/// Why there is no more of a body.
#[derive(Debug)]
pub(in crate::runtime) enum Unread {
    /// The client is gone.
    Gone,
    /// It sends too slowly.
    Slow,
    /// What it sends is invalid, or too much.
    Invalid(BodyError),
    /// There is no memory for it.
    Refused(Box<Status>),
}

/// The two directions of one request. What is pushed goes out with the next `send`, in the order in which it was pushed.
#[allow(async_fn_in_trait)] // one core: futures need not be Send
pub(in crate::runtime) trait Carrier {
    /// How the wire shows where a stream ends.
    const DELIMITER: Delimiter;

    /// Pushes the head of a reply.
    fn push_head(&mut self, head: &ResponseHead<'_>);

    /// Pushes the head of a reply of the upstream. `close`: it is the last one of the connection.
    fn push_forwarded_head(&mut self, parts: &Parts, framing: ResponseFraming, close: bool);

    /// Pushes the head that opens a WebSocket.
    fn push_handshake(&mut self, handshake: &Handshake, head: &ResponseHead<'_>);

    /// Pushes a piece of a body that is framed like this.
    fn push_piece(&mut self, piece: &[u8], framing: ResponseFraming);

    /// Pushes bytes of a stream in its own framing: of a watch, or of another protocol.
    fn push_raw(&mut self, bytes: &[u8]);

    /// Pushes the end of a body.
    fn push_end(&mut self, trailers: Option<&HeaderMap>, framing: ResponseFraming);

    /// Sends what was pushed. A peer that takes nothing for a while is gone.
    async fn send(&mut self) -> io::Result<()>;

    /// Sends what was pushed, and then a part of a body of known length, which is not copied.
    async fn send_part(&mut self, part: &[u8]) -> io::Result<()>;

    /// The reply stays incomplete, and the client must see that.
    fn cut(&mut self);

    /// The client is not known: where a connection carries many requests, no more of them are taken.
    fn refuse_more(&mut self) {}

    /// The client was admitted.
    fn trust(&mut self) {}

    /// Reads a whole body, within `limit` bytes and the time.
    async fn read_body(
        &mut self,
        head: &RequestHead,
        limit: usize,
        charge: &RefCell<Charge>,
        timeout: Duration,
    ) -> Result<Bytes, Unread>;

    /// A body is read in pieces from now on.
    ///
    /// # Errors
    /// Its head announces one that cannot be read.
    fn open_body(&mut self, head: &RequestHead) -> Result<(), BodyError>;

    /// The next piece of it; `None`: it is complete.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Unread>>;

    /// A reply has begun: the client is not told any more to send its body.
    fn withdraw_invitation(&mut self);

    /// Ready when the client is gone.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// A client that takes nothing for this long is gone; `None`: it may pause for ever.
    fn set_stall(&mut self, stall: Option<Duration>);

    /// No read of a body waits longer than this; `None`: for ever.
    fn set_patience(&mut self, patience: Option<Duration>);

    /// The client's address.
    fn peer(&self) -> Option<SocketAddr>;

    /// Who signed the certificate of the client, verified now.
    fn signers(&self, terms: &Terms) -> Signers;

    /// The head of the current request as it was received.
    ///
    /// # Errors
    /// It cannot be passed on.
    fn raw_head(&mut self) -> Result<RawHead, NotForwarded>;

    /// After an upgrade: appends what the client sent. Ready with how many; 0: it has sent all.
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<usize>>;

    /// After an upgrade: takes some of `bytes`. Ready with how many.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// After an upgrade: ready when all that was taken is sent.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// After an upgrade: says that nothing more is sent. Reading goes on.
    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Gets what a watch needs, before the head of its reply is sent.
    ///
    /// # Errors
    /// Something is lacking: 503.
    fn prepare_watch(&mut self, reserve: &Reserve) -> Result<(), Box<Status>>;

    /// The request is a watch from now on: what carries it. `goes_on`: a connection carries another request when the watch ends.
    fn take_for_watch(&mut self, goes_on: bool) -> Option<Carrying>;
}
