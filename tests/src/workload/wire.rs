//! How the requests of a workload's clients reach a server.

use std::io::{Error, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::exchange::{Exchange, Follows, Reply, Source};
use super::pool::{CONNECT_WITHIN, Pool};
use crate::tls::{Stream, Trust};
use crate::websocket::UPGRADE;

/// How long it may take to the next step of a handshake.
const ANSWERS_WITHIN: Duration = Duration::from_secs(4);

/// One way.
#[derive(Clone, Debug)]
pub struct Wire(Form);

#[derive(Clone, Debug)]
enum Form {
    /// A connection for each request; of a WebSocket for each watch, too.
    Http1 {
        trust: Option<Trust>,
        sockets: bool,
    },
    Http2(Vec<Arc<Pool>>),
    Program(fn(url: &str, accept: &str) -> Command, bool),
}

impl Default for Wire {
    /// Plain HTTP/1.1, with a connection for each request.
    fn default() -> Self {
        Self::http1(None)
    }
}

impl Wire {
    /// HTTP/1.1, with a connection for each request.
    #[must_use]
    pub const fn http1(trust: Option<Trust>) -> Self {
        Self(Form::Http1 { trust, sockets: false })
    }

    /// The same, where each watch is a WebSocket.
    #[must_use]
    pub const fn websocket(trust: Option<Trust>) -> Self {
        Self(Form::Http1 { trust, sockets: true })
    }

    /// HTTP/2: all clients share this many connections.
    #[must_use]
    pub fn http2(trust: Option<&Trust>, connections: usize) -> Self {
        Self(Form::Http2((0..connections).map(|_| Arc::new(Pool::new(trust.cloned()))).collect()))
    }

    /// A process of curl for each request.
    #[must_use]
    pub fn curl() -> Self {
        let command = |url: &str, accept: &str| {
            // By itself it keeps the head in its buffer until the body's first byte.
            let mut curl = Command::new("stdbuf");
            // Indented without `pretty`, for whoever reads it.
            curl.args([
                "-o0",
                "curl",
                "-sNi",
                "-H",
                &format!("Accept: {accept}"),
                &format!("{url}&pretty=false"),
            ]);
            curl
        };
        Self(Form::Program(command, true))
    }

    /// A process of `kubectl get --raw` for each request.
    #[must_use]
    pub fn kubectl() -> Self {
        let command = |url: &str, _: &str| {
            let path = url.find("/api").map_or("", |start| &url[start..]);
            let mut kubectl = Command::new("kubectl");
            kubectl.env("KUBECONFIG", "/dev/null");
            kubectl.args(["--server", url.trim_end_matches(path), "get", "--raw", path]);
            kubectl
        };
        Self(Form::Program(command, false))
    }

    /// Sends a GET for a reply of this media type, for the client of this number.
    ///
    /// # Errors
    /// Nothing listens there.
    pub fn get(&self, client: usize, address: &str, path: &str, accept: &str) -> std::io::Result<Exchange> {
        match &self.0 {
            Form::Http1 { trust, .. } => http1(trust.as_ref(), address, path, accept, Follows::Framed),
            Form::Http2(pools) => {
                let (connection, stream) = pools[client % pools.len()].get(address, path, accept)?;
                Ok(Exchange::on_stream(connection, stream))
            }
            Form::Program(command, has_head) => {
                program(command(&format!("http://{address}{path}"), accept), *has_head)
            }
        }
    }

    /// The same for a watch.
    ///
    /// # Errors
    /// Nothing listens there.
    pub fn watch(&self, client: usize, address: &str, path: &str, accept: &str) -> std::io::Result<Exchange> {
        match &self.0 {
            Form::Http1 { trust, sockets: true } => {
                http1(trust.as_ref(), address, path, accept, Follows::Frames)
            }
            Form::Http1 { .. } | Form::Http2(_) | Form::Program(..) => {
                self.get(client, address, path, accept)
            }
        }
    }

    /// How many shared connections the server ended: each announced that before its last stream.
    ///
    /// # Errors
    /// Another one was ended in another way: a line.
    pub fn ends(&self) -> Result<usize, String> {
        match &self.0 {
            Form::Http2(pools) => pools.iter().map(|pool| pool.ends()).sum(),
            Form::Http1 { .. } | Form::Program(..) => Ok(0),
        }
    }
}

fn http1(
    trust: Option<&Trust>,
    address: &str,
    path: &str,
    accept: &str,
    follows: Follows,
) -> std::io::Result<Exchange> {
    let address: SocketAddr = address.parse().map_err(Error::other)?;
    let socket = TcpStream::connect_timeout(&address, CONNECT_WITHIN)?;
    socket.set_nodelay(true)?;
    // Of a handshake.
    socket.set_read_timeout(Some(ANSWERS_WITHIN))?;
    let mut stream = match trust {
        None => Stream::Plain(socket),
        Some(trust) => trust.over(socket),
    };
    let upgrade = if follows == Follows::Frames { UPGRADE } else { "" };
    let head = format!("GET {path} HTTP/1.1\r\nHost: test\r\nAccept: {accept}\r\n{upgrade}\r\n");
    stream.write_all(head.as_bytes())?;
    stream.socket().set_nonblocking(true)?;
    Ok(Exchange::of_its_own(Source::Socket(stream), Reply::http(follows)))
}

/// A program writes the body to its output, after the head if it has that.
fn program(mut command: Command, has_head: bool) -> std::io::Result<Exchange> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let stdout = child.stdout.take().ok_or_else(|| Error::other("it has no output"))?;
    fcntl_setfl(&stdout, fcntl_getfl(&stdout)? | OFlags::NONBLOCK)?;
    let reply = if has_head { Reply::http(Follows::Bare) } else { Reply::Body(false) };
    Ok(Exchange::of_its_own(Source::Program(child, stdout), reply))
}
