//! What stands before the mock server where clients speak HTTP/2 or TLS: each stream is a connection of HTTP/1.1 to the mock, and a
//! stream whose connection breaks off is reset. Frames and field blocks are those of the crate `h2`, so no code of the client's.

use crate::mock::Mischief;
use h2::Reason;
use h2::server::SendResponse;
use http::{Request, Response};
use revcast_http1::{Head, Step};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::Poll;
use std::thread;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::{LocalSet, spawn_local};
use tokio_rustls::TlsAcceptor;

#[derive(Clone)]
struct Front {
    mock: SocketAddr,
    mischief: Mischief,
    tls: Option<TlsAcceptor>,
}

/// Starts one before the mock at `mock`; gives its address, and the file of its certificate if it speaks TLS.
pub(crate) fn start(mock: SocketAddr, mischief: Mischief, tls: bool) -> (SocketAddr, Option<PathBuf>) {
    let (tls, file) = if tls { self_signed(mock.port(), mischief) } else { (None, None) };
    let front = Front { mock, mischief, tls };
    let (sender, bound) = channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            sender.send(listener.local_addr().unwrap()).unwrap();
            while let Ok((socket, _)) = listener.accept().await {
                let front = front.clone();
                // A client that leaves is the end of its connection.
                spawn_local(async move { _ = front.serve(socket).await });
            }
        });
    });
    (bound.recv().unwrap(), file)
}

fn self_signed(name: u16, mischief: Mischief) -> (Option<TlsAcceptor>, Option<PathBuf>) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let mut config = config.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    let protocols: &[&[u8]] = if mischief == Mischief::OnlyHttp1 { &[] } else { &[b"h2", b"http/1.1"] };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let file = crate::fresh(&format!("ca-{name}"));
    std::fs::write(&file, made.cert.pem()).unwrap();
    (Some(TlsAcceptor::from(Arc::new(config))), Some(file))
}

impl Front {
    async fn serve(&self, socket: TcpStream) -> io::Result<()> {
        socket.set_nodelay(true)?;
        let Some(tls) = &self.tls else {
            let mut first = [0; 4];
            loop {
                match socket.peek(&mut first).await? {
                    0 => return Ok(()),
                    4 => break,
                    _ => tokio::task::yield_now().await,
                }
            }
            return self.speak(socket, &first == b"PRI ").await;
        };
        let stream = tls.accept(socket).await?;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        self.speak(stream, http2).await
    }

    async fn speak(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin, http2: bool) -> io::Result<()> {
        if !http2 {
            let mut mock = TcpStream::connect(self.mock).await?;
            return copy_bidirectional(&mut stream, &mut mock).await.map(|_| ());
        }
        let mut server = h2::server::Builder::new();
        server.max_concurrent_streams(if self.mischief == Mischief::FewStreams { 2 } else { 100 });
        let mut connection = server.handshake::<_, &[u8]>(stream).await.map_err(io::Error::other)?;
        let (sender, mut broken) = unbounded_channel();
        loop {
            let next = poll_fn(|context| {
                if broken.poll_recv(context).is_ready() {
                    connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                }
                connection.poll_accept(context)
            });
            let Some(Ok((request, answer))) = next.await else { return Ok(()) };
            let (front, sender) = (self.clone(), sender.clone());
            spawn_local(async move { _ = front.relay(request, answer, &sender).await });
        }
    }

    async fn relay(
        &self,
        request: Request<h2::RecvStream>,
        mut answer: SendResponse<&'static [u8]>,
        broken: &UnboundedSender<()>,
    ) -> io::Result<()> {
        let mut mock = TcpStream::connect(self.mock).await?;
        let target = request.uri().path_and_query().unwrap();
        let accept = request.headers()["accept"].to_str().unwrap();
        mock.write_all(format!("GET {target} HTTP/1.1\r\nAccept: {accept}\r\n\r\n").as_bytes()).await?;
        let mut held = Vec::new();
        let (mut head, taken) = loop {
            if mock.read_buf(&mut held).await? == 0 {
                answer.send_reset(Reason::INTERNAL_ERROR);
                return Ok(());
            }
            if let Some(parsed) = Head::parse(&held)? {
                break parsed;
            }
        };
        held.drain(..taken);
        let response = Response::builder().status(head.status).header("content-type", "application/json");
        let mut stream = answer.send_response(response.body(()).unwrap(), false).map_err(io::Error::other)?;
        loop {
            let mut input = &held[..];
            while let step @ (Step::Data(_) | Step::End) = head.body.next(&mut input)? {
                let data = if let Step::Data(data) = step { data } else { &[] };
                let ends = step == Step::End;
                stream.send_data(Vec::leak(data.to_vec()), ends).map_err(io::Error::other)?;
                if ends {
                    return Ok(());
                }
            }
            held.resize(64 << 10, 0);
            let mut buffer = ReadBuf::new(&mut held);
            let read = poll_fn(|context| match stream.poll_reset(context) {
                Poll::Ready(_) => Poll::Ready(Err(ErrorKind::ConnectionReset.into())),
                Poll::Pending => std::pin::Pin::new(&mut mock).poll_read(context, &mut buffer),
            });
            read.await?;
            let count = buffer.filled().len();
            held.truncate(count);
            if count > 0 {
                continue;
            }
            if self.mischief == Mischief::GoAway {
                _ = broken.send(());
                return Ok(());
            }
            stream.send_reset(Reason::INTERNAL_ERROR);
            return Ok(());
        }
    }
}
