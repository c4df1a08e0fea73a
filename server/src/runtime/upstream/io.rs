//! A connection to the upstream as bytes: TCP, or TLS over it.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_lite::{AsyncRead, AsyncWrite};
use futures_rustls::client::TlsStream;
use glommio::net::TcpStream;
use hyper::rt::ReadBufCursor;

/// Bytes per read, before they are copied to where they are wanted.
const READ_BYTES: usize = 16 << 10;

/// The stream of one connection to the upstream.
#[derive(Debug)]
pub(in crate::runtime) enum Stream {
    /// Plain.
    Plain(TcpStream),
    /// With TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Reads some bytes; 0: the upstream has sent all.
    pub(in crate::runtime) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let read = match self {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, into),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, into),
        };
        read.map(|read| match read {
            // Not every server says goodbye in TLS.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
            read => read,
        })
    }

    pub(in crate::runtime) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    pub(in crate::runtime) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    /// Says that nothing more is sent. Reading goes on.
    pub(in crate::runtime) fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_close(cx),
            Self::Tls(stream) => Pin::new(stream).poll_close(cx),
        }
    }
}

/// The stream as hyper reads and writes it.
#[derive(Debug)]
pub(in crate::runtime) struct HyperIo {
    stream: Stream,
    scratch: Box<[u8]>,
    /// The upstream takes no more bytes. It may have answered before: hyper would not read that after an error, so what it writes
    /// then is dropped, and what it reads says whether there is a reply.
    is_deaf: bool,
}

impl HyperIo {
    pub(in crate::runtime) fn new(stream: Stream) -> Self {
        Self { stream, scratch: vec![0; READ_BYTES].into(), is_deaf: false }
    }

    /// The stream, after an upgrade.
    pub(in crate::runtime) fn into_stream(self) -> Stream {
        self.stream
    }

    /// The result of a write; `dropped` if the upstream takes no bytes any more.
    fn unless_deaf<T>(&mut self, written: io::Result<T>, dropped: T) -> io::Result<T> {
        match written {
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                self.is_deaf = true;
                Ok(dropped)
            }
            written => written,
        }
    }
}

impl hyper::rt::Read for HyperIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, scratch, is_deaf: _ } = self.get_mut();
        let most = buf.remaining().min(scratch.len());
        let read = ready!(stream.poll_read(cx, &mut scratch[..most]))?;
        buf.put_slice(&scratch[..read]);
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for HyperIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let io = self.get_mut();
        if io.is_deaf {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = ready!(io.stream.poll_write(cx, bytes));
        Poll::Ready(io.unless_deaf(written, bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let io = self.get_mut();
        if io.is_deaf {
            return Poll::Ready(Ok(()));
        }
        let flushed = ready!(io.stream.poll_flush(cx));
        Poll::Ready(io.unless_deaf(flushed, ()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream.poll_close(cx)
    }
}
