//! A connection to the upstream as bytes: TCP, or TLS over it.

use std::io;
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
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
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
}

impl HyperIo {
    pub(in crate::runtime) fn new(stream: Stream) -> Self {
        Self { stream, scratch: vec![0; READ_BYTES].into() }
    }

    /// The stream, after an upgrade.
    pub(in crate::runtime) fn into_stream(self) -> Stream {
        self.stream
    }
}

impl hyper::rt::Read for HyperIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, scratch } = self.get_mut();
        let most = buf.remaining().min(scratch.len());
        let read = ready!(stream.poll_read(cx, &mut scratch[..most]))?;
        buf.put_slice(&scratch[..read]);
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for HyperIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().stream.poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream.poll_close(cx)
    }
}
