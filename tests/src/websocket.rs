//! A WebSocket client for tests: it returns each frame unchanged and sends any bytes, valid or not (RFC 6455, section
//! 5.2).

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A fixed key; a real client draws one.
pub const KEY: &str = "AAAAAAAAAAAAAAAAAAAAAA==";
/// The headers of every valid handshake.
pub const UPGRADE: &str = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: \
    AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n";

/// First bytes of unfragmented frames of each kind.
pub const TEXT: u8 = 0x81;
/// Binary data.
pub const BINARY: u8 = 0x82;
/// Close.
pub const CLOSE: u8 = 0x88;
/// Ping.
pub const PING: u8 = 0x89;
/// Pong.
pub const PONG: u8 = 0x8a;

/// How long a test waits for bytes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A frame: its first byte, and its payload.
pub type Frame = (u8, Vec<u8>);

/// One connection.
#[derive(Debug)]
pub struct WebSocket {
    reader: BufReader<TcpStream>,
    /// The head of the server's reply.
    pub head: String,
}

/// A client's frame: masked, of any length, with any first byte.
#[must_use]
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [0xa5, 3, 0x77, 0];
    let mut out = vec![first];
    match payload.len() {
        short @ 0..126 => out.push(0x80 | u8::try_from(short).unwrap_or(0)),
        len => match u16::try_from(len) {
            Ok(medium) => {
                out.push(0x80 | 126);
                out.extend_from_slice(&medium.to_be_bytes());
            }
            Err(_) => {
                out.push(0x80 | 127);
                out.extend_from_slice(&(len as u64).to_be_bytes());
            }
        },
    }
    out.extend_from_slice(&MASK);
    out.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ MASK[at % 4]));
    out
}

/// The next complete frame of a server, taken from what arrived.
///
/// # Panics
/// When the frame is masked: a server's never is.
pub fn take_frame(input: &mut Vec<u8>) -> Option<Frame> {
    let (first, short) = (*input.first()?, *input.get(1)?);
    assert!(short < 0x80, "a server's frames are not masked: {first:x} {short:x}");
    let (head, len) = match short {
        126 => (4, u64::from(u16::from_be_bytes(*input.get(2..)?.first_chunk()?))),
        127 => (10, u64::from_be_bytes(*input.get(2..)?.first_chunk()?)),
        short => (2, u64::from(short)),
    };
    let end = head + usize::try_from(len).ok()?;
    if input.len() < end {
        return None;
    }
    let rest = input.split_off(end);
    let mut payload = std::mem::replace(input, rest);
    payload.drain(..head);
    Some((first, payload))
}

impl WebSocket {
    /// Sends a GET of `path` with these header lines and reads the head of the reply, whatever it is.
    ///
    /// # Errors
    /// Nothing listens there, or the connection ends before the head does.
    pub fn open(address: &str, path: &str, headers: &str) -> std::io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n").as_bytes())?;
        let mut reader = BufReader::new(stream);
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            reader.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        Ok(Self { reader, head: String::from_utf8_lossy(&head).into_owned() })
    }

    /// Opens a watch.
    ///
    /// # Panics
    /// When it does not become a WebSocket.
    #[must_use]
    pub fn watch(address: &str, path: &str) -> Self {
        let opened = Self::open(address, path, UPGRADE).expect("a reply");
        assert!(opened.head.starts_with("HTTP/1.1 101 "), "{}", opened.head);
        opened
    }

    /// The next frame; `None`: the server ended the connection between two.
    ///
    /// # Errors
    /// The connection broke, or nothing arrived in time.
    ///
    /// # Panics
    /// When the frame is masked: a server's never is.
    pub fn next_frame(&mut self) -> std::io::Result<Option<Frame>> {
        let mut head = [0; 2];
        if self.reader.read(&mut head[..1])? == 0 {
            return Ok(None);
        }
        self.reader.read_exact(&mut head[1..])?;
        assert!(head[1] < 0x80, "a server's frames are not masked: {head:x?}");
        let len = match head[1] {
            126 => {
                let mut len = [0; 2];
                self.reader.read_exact(&mut len)?;
                u64::from(u16::from_be_bytes(len))
            }
            127 => {
                let mut len = [0; 8];
                self.reader.read_exact(&mut len)?;
                u64::from_be_bytes(len)
            }
            short => u64::from(short),
        };
        let mut payload = vec![0; usize::try_from(len).map_err(std::io::Error::other)?];
        self.reader.read_exact(&mut payload)?;
        Ok(Some((head[0], payload)))
    }

    /// The code of the Close frame that must come next, with the end after it. Events before it are skipped.
    ///
    /// # Panics
    /// When something else comes.
    pub fn closing(&mut self) -> u16 {
        loop {
            match self.next_frame() {
                Ok(Some((CLOSE, payload))) => {
                    assert!(matches!(self.next_frame(), Ok(None)), "nothing after a close");
                    return u16::from_be_bytes([payload[0], payload[1]]);
                }
                Ok(Some((TEXT | PONG | PING, _))) => {}
                other => panic!("no close, but {other:?}"),
            }
        }
    }

    /// Sends bytes unchanged.
    ///
    /// # Errors
    /// The connection broke.
    pub fn write_raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// The socket.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        self.reader.get_ref()
    }
}
