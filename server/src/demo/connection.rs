//! An HTTP/1.1 connection of a client of the demo: hyper over a socket of tokio.
//!
//! It owns the bytes between the two. It never repeats a request: its users decide what to do about one that failed.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::rt::ReadBufCursor;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Bytes per read, before hyper has them.
const READ_BYTES: usize = 16 << 10;
/// The longest reply that is read whole: a list of all pods of the demo is some ten KiB.
const REPLY_BYTES_MAX: usize = 64 << 20;

/// A connection that is open, with no request on its way.
#[derive(Debug)]
pub(super) struct Connection {
    sender: SendRequest<Whole>,
    address: SocketAddr,
}

impl Connection {
    /// Connects. The connection is driven by a task of its own, so this needs a `LocalSet`.
    ///
    /// # Errors
    /// Nothing listens there, or there are no descriptors left.
    pub(super) async fn open(address: SocketAddr) -> Result<Self, String> {
        let opened = async {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            handshake(Socket { stream, scratch: vec![0; READ_BYTES].into() }).await.map_err(io::Error::other)
        };
        let (sender, driver) = opened.await.map_err(|error| format!("{address}: {error}"))?;
        // How it ends is seen by whoever waits for a reply.
        tokio::task::spawn_local(async move { driver.await.is_ok() });
        Ok(Self { sender, address })
    }

    /// Sends a request and waits for the head of its reply.
    ///
    /// # Errors
    /// The connection ended.
    pub(super) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Response<Incoming>, String> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, self.address.to_string())
            .header(USER_AGENT, concat!("revcast-demo/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json")
            .body(Whole(body.map(Bytes::from)))
            .map_err(|error| error.to_string())?;
        let sent = async {
            self.sender.ready().await?;
            self.sender.send_request(request).await
        };
        sent.await.map_err(|error| format!("{path}: {error}"))
    }

    /// Sends a request and reads its whole reply.
    ///
    /// # Errors
    /// The connection ended, or the reply is too long.
    pub(super) async fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<(StatusCode, Vec<u8>), String> {
        let mut response = self.send(method, path, body).await?;
        let mut whole = Vec::new();
        while let Some(piece) = piece(response.body_mut()).await? {
            if whole.len() + piece.len() > REPLY_BYTES_MAX {
                return Err(format!("{path}: a reply of more than {} MiB", REPLY_BYTES_MAX >> 20));
            }
            whole.extend_from_slice(&piece);
        }
        Ok((response.status(), whole))
    }
}

/// The next bytes of a reply; `None` at its end.
///
/// # Errors
/// The reply was cut.
pub(super) async fn piece(body: &mut Incoming) -> Result<Option<Bytes>, String> {
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
        if let Ok(piece) = frame.map_err(|error| error.to_string())?.into_data() {
            return Ok(Some(piece));
        }
    }
    Ok(None)
}

/// The body of a request.
#[derive(Debug)]
struct Whole(Option<Bytes>);

impl Body for Whole {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, Bytes::len) as u64)
    }
}

/// A socket as hyper reads and writes it.
#[derive(Debug)]
struct Socket {
    stream: TcpStream,
    scratch: Box<[u8]>,
}

impl hyper::rt::Read for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, scratch } = self.get_mut();
        let most = into.remaining().min(scratch.len());
        let mut read = ReadBuf::new(&mut scratch[..most]);
        ready!(Pin::new(stream).poll_read(cx, &mut read))?;
        into.put_slice(read.filled());
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
